"""A server serves policies by name: each has a curator, and its ``[analysts]`` say who may ask it.

All of them share one ledger, beside which the people file lies. A policy that does not name an analyst is not there for
them, and the access list is always the one that is written. When a policy's file changes it is opened again, and
whoever asks about it waits for that (``clocked_openings``); a file that cannot be opened answers nothing until it can.

Lines of history are shown page by page: whole to whoever sees all of them, and to analysts without what others do.

A line of the ledger says what was spent in all until then, what is held, and the hash of the line before it. All three
tell of the purchases of others, so an analyst's own lines are shown without them.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from sfumato.caching import cached_property
from sfumato.curator import Curator
from sfumato.curator.described_tables import Tables
from sfumato.curator.policy_account import ledger_address, people_place, read_policy
from sfumato.errors import (
    AccountDiffers,
    InvalidParameter,
    InvalidPolicy,
    LedgerUnavailable,
    NotThere,
    ServerUnavailable,
    SfumatoError,
    SourceChanged,
)
from sfumato.ledger import Account, Ledger, Line
from sfumato.ledger.spending import NOTHING
from sfumato.policy import Policy
from sfumato.release.releasing import Progress
from sfumato.server.people.known_people import Caller, Role
from sfumato.server.releases.answer_clock import AnswerClock, ClockedOpenings
from sfumato.server.releases.known_proposals import KnownProposals
from sfumato.server.releases.running_releases import RunningReleases

_OPENINGS = 3
"""How often a call waits for a policy that is changed meanwhile."""


@dataclass(frozen=True)
class Opened:
    """This is a curator, and how the file of its policy looked when it was opened."""

    curator: Curator
    stamp: tuple[int, int, int]
    proposals: KnownProposals = field(default_factory=KnownProposals)

    @cached_property
    def tables(self) -> Tables:
        """Say what there is to ask: once, and as long as the curator is the one that is served."""
        return self.curator.tables


class Served:
    """These are open curators by the names of their policies. Safe to use from threads."""

    def __init__(
        self,
        policies: Sequence[str | os.PathLike[str]],
        ledger: str | os.PathLike[str] | None = None,
        *,
        opening: Callable[[Policy, Ledger, Progress], Curator] | None = None,
    ) -> None:
        self._paths = _named(policies)
        address = _one_ledger(self._paths.values(), ledger)
        first = read_policy(next(iter(self._paths.values())))
        self.ledger_path = Path(os.path.realpath(people_place(first, ledger)))
        """Where the ledger is, or would be if it were a file: the people file lies beside it."""
        self._opening = _opened if opening is None else opening
        self._lock = threading.RLock()
        self._before: list[weakref.finalize[..., Any]] = []
        """Closes what was opened before and is in use still: whoever was charged there is answered."""
        self.ledger = Ledger.open(address)
        self._openings: ClockedOpenings[Opened] = ClockedOpenings(len(self._paths))
        try:
            self._opened = {name: self._openings.first(partial(self._open, path)) for name, path in self._paths.items()}
        except BaseException:
            self._openings.close()
            self.ledger.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def keep_time(self, clock: AnswerClock, overrun: Callable[[str], None]) -> None:
        """Let a clock say when what is opened again is seen, and tell which policy took longer than it allowed."""
        self._openings.keep_time(clock, overrun)

    def curator(self, name: str) -> Curator:
        """Give the curator of a policy as its file is now."""
        return self.opened(name).curator

    def opened(self, name: str) -> Opened:
        """Give what is open of a policy as its file is now."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        for _ in range(_OPENINGS):  # an opening that others wait for may be of the file as it was before
            if self._is_current(name):
                return self._last(name)
            self._require_written(name)
            self._open_again(name, lambda: not self._is_current(name))
        if not self._is_current(name):
            rule = "a policy answers when its file has been opened, and this one is changed again and again"
            raise ServerUnavailable(rule, place=f"policy {name}")
        return self._last(name)

    def last_opened(self, name: str) -> Opened | None:
        """Give what was opened last of a policy, whatever has changed since."""
        with self._lock:
            return self._opened.get(name)

    def proposals(self, name: str) -> KnownProposals:
        """Give the proposals that were made lately of a policy, since it was opened."""
        return self._last(name).proposals

    def tables(self, name: str) -> Tables:
        """Say what there is to ask of a policy as its file is now."""
        return self.opened(name).tables

    def written(self, name: str) -> Policy:
        """Read a policy as its file is now."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        return read_policy(self._paths[name])

    def account(self, name: str) -> Account:
        """Give the account of a policy, whatever its file says now."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        return self.ledger.account(name)

    def renew(self, caller: Caller, name: str, changed: Opened | None) -> None:
        """Open a policy again for a caller who has found that the data have changed which were opened there, unless
        somebody has done so since.
        """
        with _told_to_owners(caller, name):
            self._open_again(name, lambda: self._last(name) is changed)

    def require_files(self, name: str) -> None:
        """Raise ``SourceChanged`` where the files of a policy are not those that were opened. What else is wrong with
        them is no matter to whoever reads no row.
        """
        try:
            self._last(name).curator.check_files()
        except SourceChanged:
            raise
        except SfumatoError:
            return

    def view(self, caller: Caller, name: str) -> Curator:
        """Give the curator as a caller has it; a policy that does not name an analyst is not there for them.

        An owner whom it does not name asks from the account itself.
        """
        if caller.role is Role.ANALYST and name not in self.seen_by(caller):
            raise NotThere(f"policy {name}")
        with _told_to_owners(caller, name):
            curator = self.curator(name)
        if caller.user in curator.policy.analysts:
            return curator.as_analyst(caller.user)
        if caller.role is Role.ANALYST:  # the file has changed since it was looked at
            raise NotThere(f"policy {name}")
        return curator

    def seen_by(self, caller: Caller) -> tuple[str, ...]:
        """Name the policies that are there for a caller. Every policy is looked at, whichever is asked for, so that one
        that does not name an analyst takes as long as one that does not exist.
        """
        if caller.role is not Role.ANALYST:
            return self.names
        return tuple(name for name in self.names if caller.user in self._analysts(name))

    def _analysts(self, name: str) -> Mapping[str, object]:
        """Give those whom a policy names as it is written now; where it cannot be read, as it was when it could."""
        if not self._is_current(name):
            with suppress(SfumatoError):
                return self.written(name).analysts
        return self._last(name).curator.policy.analysts

    def close(self) -> None:
        """Close every source and the ledger."""
        self._openings.close()
        with self._lock:
            for before in self._before:
                before()
            for opened in self._opened.values():
                opened.curator.close()
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last(self, name: str) -> Opened:
        with self._lock:
            return self._opened[name]

    def _is_current(self, name: str) -> bool:
        return self._last(name).stamp == _stamp(self._paths[name])

    def _require_written(self, name: str) -> None:
        """Refuse at once what no row is needed to refuse: a file that is no policy, or not one of its account."""
        policy = self.written(name)
        self.ledger.account(name, unit=policy.unit, budget=policy.account_budget, per=policy.per or "")

    def _open_again(self, name: str, needed: Callable[[], bool]) -> None:
        tables = len(self._last(name).curator.policy.tables)
        opening = partial(self._open, self._paths[name])
        self._openings.again(name, tables.bit_length(), needed, opening, partial(self._put, name))

    def _open(self, path: Path, progress: Progress) -> Opened:
        stamp = _stamp(path)
        return Opened(self._opening(read_policy(path), self.ledger, progress), stamp)

    def _put(self, name: str, found: Opened) -> None:
        """Put what was opened in the place of what was open before."""
        with self._lock:
            in_use = [each for each in self._before if each.alive]
            self._before = [*in_use, self._opened[name].curator.close_when_unused()]
            self._opened[name] = found


@contextmanager
def _told_to_owners(caller: Caller, name: str) -> Iterator[None]:
    """Tell why a policy cannot be opened to owners alone, since that may name files and what is in them."""
    try:
        yield
    except (NotThere, LedgerUnavailable, ServerUnavailable):
        raise
    except SfumatoError as refused:
        if _is_out_of_files():
            full = "a server opens a policy while it may open files, and this one has too many open now"
            raise ServerUnavailable(full, place="the server") from None
        if caller.role is Role.OWNER:
            raise
        if isinstance(refused, AccountDiffers):  # its owner has written another budget, and amends the account next
            changing = "a policy answers while its account is as its file says, and this one is being changed"
            raise ServerUnavailable(changing, place=f"policy {name}") from None
        rule = "a policy answers while its file and its data can be opened, and these cannot now"
        raise InvalidPolicy(rule, place=f"policy {name}", fix="ask its owner, who is told why") from None


def _is_out_of_files() -> bool:
    """Tell whether no more files can be opened: then nothing is wrong with the one that could not be."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as refused:
        return refused.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _opened(policy: Policy, ledger: Ledger, progress: Progress) -> Curator:
    """Open a curator that leaves a processor to those who only ask what is free, where there are several.

    Measured once each on two busy processors, 1,000,000 rows, by a client who only pings: it tells whether rows are
    read just then with an AUC of .89, of .78 where reading has a low priority, and of .69 with a single thread as well.
    """
    return Curator(policy, ledger, threads=max(1, (os.cpu_count() or 1) - 1), progress=progress)


def _named(policies: Sequence[str | os.PathLike[str]]) -> Mapping[str, Path]:
    found: dict[str, Path] = {}
    for each in policies:
        path = Path(os.path.realpath(each))
        name = read_policy(path).account_name
        if name in found:
            raise InvalidParameter("policies", name, "files with different names: each is served under its own")
        found[name] = path
    if not found:
        raise InvalidParameter("policies", policies, "at least one policy file")
    return found


def _one_ledger(paths: Iterable[Path], ledger: str | os.PathLike[str] | None) -> Path | str:
    found = [ledger_address(read_policy(path), ledger) for path in paths]
    ledgers = {each if isinstance(each, str) else Path(os.path.realpath(each)) for each in found}
    if len(ledgers) != 1:
        fix = "serve those of one folder, or name the ledger"
        raise InvalidParameter("policies", [str(each) for each in ledgers], "policies that share one ledger", fix=fix)
    return ledgers.pop()


def _stamp(path: Path) -> tuple[int, int, int]:
    """Say how a file looks, which changes when it does; one that is gone looks like none."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(frozen=True)
class HistoryBatch:
    """A page holds lines of history, and the number after which the next page begins; None on the last."""

    lines: tuple[Line, ...]
    next: int | None
    answered: frozenset[int] = frozenset()
    """Those of the lines whose answers ``released`` shows again."""
    bought_by: Mapping[int, str] = field(default_factory=dict)
    """Who bought what the account itself paid for, and no analyst's share: by the number of the line."""

    def buyer(self, line: Line) -> str | None:
        """Name who bought what a line is about."""
        return line.analyst or self.bought_by.get(line.number)


def page_of(
    running: RunningReleases, account: str, lines: Iterable[Line], most: int, analyst: str | None, named: Iterable[str]
) -> HistoryBatch:
    """Make a page of the first so many lines, for an analyst or for whoever sees all; ``named`` have shares."""
    found = list(lines)
    shown = found[:most]
    after = shown[-1].number if len(found) > most else None
    answered = running.kept_lines(account, (each.number for each in shown), analyst)
    if analyst is not None:
        return HistoryBatch(tuple(_own(each) for each in shown), after, answered)
    unnamed = {each.number: each.request_id for each in shown if each.analyst is None and each.request_id}
    users = running.users(account, unnamed.values(), besides=named)
    bought_by = {number: users[request] for number, request in unnamed.items() if request in users}
    return HistoryBatch(tuple(shown), after, answered, bought_by)


def _own(line: Line) -> Line:
    return replace(line, spent=NOTHING, held=NOTHING, previous="")
