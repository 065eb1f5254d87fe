"""The policies that a server serves, by name: one open curator each, and the ``[analysts]`` section as access list.

All policies share one ledger, with the people file beside it. To an analyst whom a policy does not list, the policy
does not exist; the access list is always read from the current file. A changed policy file is opened again and calls
wait for that (``DelayedOpenings``); while a file cannot be opened, its policy answers nothing.

History is returned page by page: complete to owners and auditors, redacted for analysts. A ledger line holds the total
spent so far, the amount on hold and the previous line's hash. All three reveal purchases of others, so they are removed
from the lines that an analyst sees.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from sfumato.caching import cached_property
from sfumato.curator import Curator
from sfumato.curator.described_tables import Tables
from sfumato.curator.policy_account import latest_account_lines, ledger_address, open_account, read_policy, users_path
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
from sfumato.ledger.local_files import DiskReserve
from sfumato.ledger.spending import NO_COST
from sfumato.policy import Policy
from sfumato.quick_dataclass import dataclass
from sfumato.release.running_work import Progress
from sfumato.server.people.users import Caller, Role
from sfumato.server.releases.answer_clock import AnswerClock, DelayedOpenings
from sfumato.server.releases.running_releases import ProposalCache, RunningReleases

_MAX_REOPENINGS = 3
"""How often one call waits for a policy that keeps changing."""


@dataclass(frozen=True)
class OpenPolicy:
    """An open curator, with the stamp that its policy file had when it was opened."""

    curator: Curator
    stamp: tuple[int, int, int]
    proposals: ProposalCache = field(default_factory=ProposalCache)

    @cached_property
    def tables(self) -> Tables:
        """The tables and suggested questions; computed once per opening."""
        return self.curator.tables


class ServedPolicies:
    """The open curators by policy name. Thread-safe."""

    def __init__(
        self,
        policies: Sequence[str | os.PathLike[str]],
        ledger: str | os.PathLike[str] | None = None,
        *,
        open_curator: Callable[[Policy, Ledger, Progress], Curator] | None = None,
    ) -> None:
        self._paths = _path_by_policy_name(policies)
        address = _require_shared_ledger(self._paths.values(), ledger)
        first = read_policy(next(iter(self._paths.values())))
        self.ledger_path = Path(os.path.realpath(users_path(first, ledger)))
        """The ledger's path, or a stand-in path if it is in a database: the people file lies beside it."""
        self._opening = _open_curator if open_curator is None else open_curator
        self._lock = threading.RLock()
        self._closing: list[weakref.finalize[..., Any]] = []
        """Finalizers of replaced curators that are still in use: releases charged there are answered first."""
        self.ledger = Ledger.open(address)
        self.reserve = DiskReserve(self.ledger_path)
        self.ledger.use_reserve(self.reserve)
        self._openings: DelayedOpenings[OpenPolicy] = DelayedOpenings(len(self._paths))
        try:
            self._open_policies = {
                name: self._openings.open_first(partial(self._open, path)) for name, path in self._paths.items()
            }
        except BaseException:
            self._openings.close()
            self.ledger.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def pace_reopenings(self, clock: AnswerClock, on_overrun: Callable[[str], None]) -> None:
        """Use ``clock`` to delay reopened policies, and call ``on_overrun`` with the name of each that took longer."""
        self._openings.pace_reopenings(clock, on_overrun)

    def turns_begun_if_idle(self) -> int | None:
        """Return how many reopenings have begun; None while one lasts."""
        return self._openings.turns_begun_if_idle()

    def curator(self, name: str) -> Curator:
        """Return the curator for the current policy file, reopening it if the file has changed."""
        return self.open_policy(name).curator

    def open_policy(self, name: str) -> OpenPolicy:
        """Return the open policy for the current file, reopening it if the file has changed."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        for _ in range(_MAX_REOPENINGS):  # an opening in progress may still read the previous file
            if self._is_current(name):
                return self._latest_opening(name)
            self._open_account_of_file(name)
            self._reopen_policy(name, lambda: not self._is_current(name))
        if not self._is_current(name):
            rule = "the policy cannot be opened: its file keeps changing"
            raise ServerUnavailable(rule, place=f"policy {name}", fix="ask again when nobody edits the file")
        return self._latest_opening(name)

    def last_open_policy(self, name: str) -> OpenPolicy | None:
        """Return the most recent opening of a policy, even if its file has changed since."""
        with self._lock:
            return self._open_policies.get(name)

    def proposals(self, name: str) -> ProposalCache:
        """Return the cache of proposals for the current opening of a policy."""
        return self._latest_opening(name).proposals

    def table_descriptions(self, name: str) -> Tables:
        """Return the tables and suggested questions for the current policy file."""
        return self.open_policy(name).tables

    def read_current_policy(self, name: str) -> Policy:
        """Parse the current policy file, without opening its data."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        return read_policy(self._paths[name])

    def account(self, name: str) -> Account:
        """Return the ledger account of a policy, whatever its file says now."""
        if name not in self._paths:
            raise NotThere(f"policy {name}")
        return self.ledger.account(name)

    def reopen(self, caller: Caller, name: str, changed: OpenPolicy | None) -> None:
        """Reopen a policy whose data files have changed, unless it was reopened since."""
        with _hide_details_from_non_owners(caller, name):
            self._reopen_policy(name, lambda: self._latest_opening(name) is changed)

    def require_unchanged_files(self, name: str) -> None:
        """Raise ``SourceChanged`` if a policy's data files are not those that were opened.

        Other errors are ignored: they do not matter to a call that reads no rows.
        """
        try:
            self._latest_opening(name).curator.check_files()
        except SourceChanged:
            raise
        except SfumatoError:
            return

    def curator_for(self, caller: Caller, name: str) -> Curator:
        """Return a policy's curator restricted to the caller's share.

        An owner without a share asks from the whole account. For an analyst whom the policy does not list, it does not
        exist.
        """
        if caller.role is Role.ANALYST and name not in self.visible_policies(caller):
            raise NotThere(f"policy {name}")
        with _hide_details_from_non_owners(caller, name):
            curator = self.curator(name)
        if caller.user in curator.policy.analysts:
            return curator.as_analyst(caller.user)
        if caller.role is Role.ANALYST:  # the file has changed since the check above
            raise NotThere(f"policy {name}")
        return curator

    def visible_policies(self, caller: Caller) -> tuple[str, ...]:
        """Return the names of the policies that exist for a caller.

        Every policy is checked, whichever was requested, so that an unlisted policy takes as long as one that does not
        exist.
        """
        if caller.role is not Role.ANALYST:
            return self.names
        return tuple(name for name in self.names if caller.user in self._analysts(name))

    def _analysts(self, name: str) -> Mapping[str, object]:
        """Return the analysts listed in the current file, or in the last readable version of it."""
        if not self._is_current(name):
            with suppress(SfumatoError):
                return self.read_current_policy(name).analysts
        return self._latest_opening(name).curator.policy.analysts

    def close(self) -> None:
        """Close every source and the ledger."""
        self._openings.close()
        with self._lock:
            for finalize in self._closing:
                finalize()
            for opened in self._open_policies.values():
                opened.curator.close()
            self.ledger.close()
        self.reserve.free()  # another process holds it again before its next charge

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _latest_opening(self, name: str) -> OpenPolicy:
        with self._lock:
            return self._open_policies[name]

    def _is_current(self, name: str) -> bool:
        return self._latest_opening(name).stamp == _file_stamp(self._paths[name])

    def _open_account_of_file(self, name: str) -> None:
        """Refuse early what needs no rows to refuse: an invalid policy file, or one that contradicts its account."""
        open_account(self.ledger, self.read_current_policy(name))

    def _reopen_policy(self, name: str, needed: Callable[[], bool]) -> None:
        tables = len(self._latest_opening(name).curator.policy.tables)
        opening = partial(self._open, self._paths[name])
        self._openings.reopen(name, tables.bit_length(), needed, opening, partial(self._replace_open, name))

    def _open(self, path: Path, progress: Progress) -> OpenPolicy:
        stamp = _file_stamp(path)
        return OpenPolicy(self._opening(read_policy(path), self.ledger, progress), stamp)

    def _replace_open(self, name: str, opened: OpenPolicy) -> None:
        """Replace the open policy, and close the previous one when nothing uses it any more."""
        with self._lock:
            still_in_use = [finalizer for finalizer in self._closing if finalizer.alive]
            self._closing = [*still_in_use, self._open_policies[name].curator.close_when_unused()]
            self._open_policies[name] = opened


@contextmanager
def _hide_details_from_non_owners(caller: Caller, name: str) -> Iterator[None]:
    """Show the reason why a policy cannot be opened to owners alone: it may quote files and their contents."""
    try:
        yield
    except (NotThere, LedgerUnavailable, ServerUnavailable):
        raise
    except SfumatoError as error:
        if _is_out_of_files():
            files_rule = "the policy cannot be opened: the server has too many open files"
            raise ServerUnavailable(files_rule, place="the server", fix="ask again later") from None
        if caller.role is Role.OWNER:
            raise
        if isinstance(error, AccountDiffers):  # the owner has edited the budget and not yet amended the account
            amending_rule = "the policy cannot be used at the moment: its file and its account in the ledger differ"
            amending_fix = "ask the owner, who can see the difference with `sfumato check`"
            raise ServerUnavailable(amending_rule, place=f"policy {name}", fix=amending_fix) from None
        rule = "the policy cannot be opened: there is a problem with its file or its data"
        raise InvalidPolicy(
            rule, place=f"policy {name}", fix="ask the owner of the policy, who can see the reason with `sfumato check`"
        ) from None


def _is_out_of_files() -> bool:
    """Return whether the process has run out of file descriptors: then the policy file itself may be fine."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _open_curator(policy: Policy, ledger: Ledger, progress: Progress) -> Curator:
    """Open a curator that leaves one CPU core free for calls that read no rows, if there are several cores.

    Measured on two busy cores with 1,000,000 rows: a client that only pings can tell whether rows are being read with
    an AUC of 0.89; 0.78 if the reading threads have low priority; 0.69 with a single reading thread as well.
    """
    return Curator(policy, ledger, threads=max(1, (os.cpu_count() or 1) - 1), progress=progress)


def _path_by_policy_name(policies: Sequence[str | os.PathLike[str]]) -> Mapping[str, Path]:
    paths: dict[str, Path] = {}
    for policy_file in policies:
        path = Path(os.path.realpath(policy_file))
        name = read_policy(path).account_name
        if name in paths:
            raise InvalidParameter(
                "policies",
                name,
                "policy files with different names, because each policy is served under its name",
                fix="rename one of the files",
            )
        paths[name] = path
    if not paths:
        raise InvalidParameter(
            "policies", policies, "at least one policy file", fix="write `sfumato serve clinic.toml`"
        )
    return paths


def _require_shared_ledger(paths: Iterable[Path], ledger: str | os.PathLike[str] | None) -> Path | str:
    addresses = [ledger_address(read_policy(path), ledger) for path in paths]
    ledgers = {address if isinstance(address, str) else Path(os.path.realpath(address)) for address in addresses}
    if len(ledgers) != 1:
        fix = "serve policies from one folder, or name their ledger with --ledger"
        raise InvalidParameter(
            "policies", [str(address) for address in ledgers], "files that share one ledger", fix=fix
        )
    return ledgers.pop()


def _file_stamp(path: Path) -> tuple[int, int, int]:
    """Return mtime, size and inode of a file, which change when it does; zeros if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass(frozen=True)
class HistoryBatch:
    """One page of ledger lines, and the number after which the next page begins; None on the last page."""

    lines: tuple[Line, ...]
    next: int | None
    answered: frozenset[int] = frozenset()
    """Numbers of the lines whose answers can be shown again (``released``)."""
    bought_by: Mapping[int, str] = field(default_factory=dict)
    """By line number, the buyer of releases paid by the account itself instead of an analyst's share."""

    def buyer(self, line: Line) -> str | None:
        """Return the user who bought the release on a line."""
        return line.analyst or self.bought_by.get(line.number)


ReadLines = Callable[[Curator, str | None, int], Iterable[Line]]
"""Reads so many lines with a curator: all, or those of one analyst."""


def lines_after(after: int, analyst: str | None) -> ReadLines:
    """Read the lines after a number, oldest first; of this ``analyst`` where one is named."""
    return lambda curator, only_analyst, count: curator.history(
        only_analyst if analyst is None else analyst, after=after, limit=count
    )


def lines_before(before: int | None) -> ReadLines:
    """Read the lines before a number, or the last ones, newest first."""

    def read(curator: Curator, only_analyst: str | None, count: int) -> Iterable[Line]:
        newest_first = latest_account_lines(curator.ledger, curator.policy, only_analyst, before or 0)
        return () if before == 0 else islice(newest_first, count)

    return read


def build_history_batch(
    running: RunningReleases,
    account: str,
    lines: Iterable[Line],
    max_lines: int,
    redact_for_analyst: str | None,
    policy_analysts: Iterable[str],
) -> HistoryBatch:
    """Build a history page from the first of these lines, redacted if an analyst asks.

    Lines of users with a share hold their names already; the others' buyers are looked up.
    """
    fetched = list(lines)
    page = fetched[:max_lines]
    next_after = page[-1].number if len(fetched) > max_lines else None
    answered = running.lines_with_answers(account, (line.number for line in page), redact_for_analyst)
    if redact_for_analyst is not None:
        return HistoryBatch(tuple(_redact_totals(line) for line in page), next_after, answered)
    request_ids = {line.number: line.request_id for line in page if line.analyst is None and line.request_id}
    users = running.first_sender_by_request(account, request_ids.values(), besides=policy_analysts)
    bought_by = {number: users[request] for number, request in request_ids.items() if request in users}
    return HistoryBatch(tuple(page), next_after, answered, bought_by)


def _redact_totals(line: Line) -> Line:
    return replace(line, spent=NO_COST, held=NO_COST, previous="")
