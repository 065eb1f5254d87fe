"""Verification checks every line's seal, its link to the line before, and every total against the costs.

All lines are verified, in as many processes as there are processors, or only the newest. Every line carries all totals,
so any line can be a checkpoint: a stretch is right if it follows from the line before it, and the whole is right if
every stretch is.

An export is copied where its ledger is lost: whatever can be seen of that ledger from here is checked first.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerDamaged, LedgerUnavailable
from sfumato.ledger.sealed_rows import KINDS, KeyedHash, Row
from sfumato.ledger.spending import NO_COST, Spending, read_cost, read_spending, write_cost
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address
from sfumato.ledger.stores.store import Store, Where
from sfumato.privacy import Cost

_ZERO = write_cost(NO_COST)
_SPENDING = {"charge", "period", "correction", "acknowledge", "tab-open", "step", "tab-close"}
_ON_TABS = {"tab-open", "step", "tab-close"}
_NO_TAB = (NO_COST, NO_COST)
_PAID = {"charge", "step"}
_ENDING = {"answer", "stopped"}
LOST = "the file that holds this answer is missing or was changed"


@dataclass(frozen=True)
class Verification:
    """The outcome of a verification: all ``holds``, or the first bad line (None: the file as a whole) and why."""

    lines: int
    bad: int | None = None
    why: str = ""
    answers: tuple[int, ...] = ()
    """Lines whose answers are lost with their files; where there is no other fault, nothing else is."""

    @property
    def holds(self) -> bool:
        return not self.why

    def __str__(self) -> str:
        if self.holds:
            return f"{self.lines:,} lines, all as they were written"
        return f"line {self.bad} is bad: {self.why}" if self.bad is not None else f"the ledger is bad: {self.why}"


Earlier = Callable[[int, Where], Row | None]
"""The newest line before a number whose columns equal these."""


def _no_earlier_line(_before: int, _equal: Where) -> None:
    return None


@dataclass
class Checker:
    """A verifier of consecutive lines. From line 1 on it needs nothing else; started later (from a checkpoint), it
    looks up earlier lines of accounts, analysts and tabs by ``earlier``.
    """

    number: int
    time: int
    hash: str
    earlier: Earlier = _no_earlier_line
    accounts: dict[str, tuple[Spending, int]] = field(default_factory=dict)
    """Totals, and the line with the terms."""
    analysts: dict[tuple[str, str], tuple[Spending, str]] = field(default_factory=dict)
    """Totals, and the share."""
    tabs: dict[int, tuple[str, str, Cost]] = field(default_factory=dict)
    """Open tabs: account, analyst, what is left."""
    unanswered: set[int] = field(default_factory=set)
    charge: Row = Row()  # noqa: RUF009 - a tuple
    """The last charge: the lines of its periods follow it."""
    sealed: bool = False
    """The last line says that the ledger was moved: none follows it."""

    def __post_init__(self) -> None:
        self._whole = self.number == 0

    @classmethod
    def whole(cls, origin: str) -> Checker:
        """Start a checker at the first line; ``origin`` is the hash that it must link to."""
        return cls(0, 0, origin)

    @classmethod
    def after(cls, row: Row, earlier: Earlier) -> Checker:
        return cls(row.number, row.time, row.hash, earlier, sealed=row.kind == "moved")

    def check(self, rows: Iterable[Row]) -> Verification:
        for row in rows:
            why = self._fault(row)
            if why:
                return Verification(self.number, row.number, why)
            self.number, self.hash, self.time = row.number, row.hash, row.time
            self.sealed = row.kind == "moved"
        return Verification(self.number)

    def _fault(self, row: Row) -> str:
        if self.sealed:
            return "it follows the line that sealed the ledger when it was moved"
        if row.number != self.number + 1:
            return f"line {self.number + 1} is missing"
        if row.previous != self.hash:
            return "it does not follow the line before"
        if row.hash != row.seal():
            return "its hash does not match its content"
        if row.time < self.time:
            return "it is older than the line before"
        try:
            self._money(row)
        except _Bad as bad:
            return str(bad)
        except (ValueError, InvalidParameter):
            return "its amounts cannot be read or do not add up"
        return ""

    def _money(self, row: Row) -> None:
        cost = NO_COST if row.cost == _ZERO else read_cost(row.cost)
        before, left = self._tab(row, cost) if row.tab or row.left or row.kind in _ON_TABS else _NO_TAB
        self._account(row, cost, before, left)
        if row.analyst:
            self._analyst(row, cost, before, left)
        elif row.share or row.own:
            raise _Bad("it has an analyst's totals, but names no analyst")
        if cost is not NO_COST and row.kind not in _SPENDING:
            raise _Bad("this kind of line cannot spend")
        if row.kind in _PAID:
            self.unanswered.add(row.number)
            self.charge = row
        elif row.kind == "period":
            self._period(row)
        elif row.kind in _ENDING:
            self._end(row)
        elif row.kind not in KINDS:
            raise _Bad("its kind is unknown")

    def _account(self, row: Row, cost: Cost, before: Cost, left: Cost) -> None:
        """Check that spent grows by the cost, and held by what the tab holds now less what it held."""
        account_state = self.accounts.get(row.account) or self._earlier_account(row)
        if (account_state is None) is not (row.kind == "account-open"):
            raise _Bad("its account was not opened, or is opened twice")
        spending, terms = account_state or (Spending(), row.number)
        spending = spending.after(cost, before, left)
        if str(spending) != row.totals:
            raise _Bad("the account's totals do not follow from the lines before")
        if row.terms != (row.number if row.kind == "amend" else terms):
            raise _Bad("it names the wrong terms")
        self.accounts[row.account] = spending, row.terms

    def _analyst(self, row: Row, cost: Cost, before: Cost, left: Cost) -> None:
        key = row.account, row.analyst
        spending, share = self.analysts.get(key) or self._earlier_analyst(row) or (Spending(), "")
        spending = spending.after(cost, before, left)
        if str(spending) != row.own:
            raise _Bad("the analyst's totals do not follow from the lines before")
        if row.share != share and row.kind != "share":
            raise _Bad("the analyst's share was changed")
        self.analysts[key] = spending, row.share

    def _tab(self, row: Row, cost: Cost) -> tuple[Cost, Cost]:
        """Check what the tab held and holds: a step moves its cost out of it, opening and closing all or nothing."""
        left = read_cost(row.left)
        if row.kind == "tab-open":
            if row.tab != row.number or NO_COST not in (cost, left):
                raise _Bad("the tab's hold is wrong")
            self.tabs[row.tab] = row.account, row.analyst, left
            return NO_COST, left
        account, analyst, before = self.tabs.get(row.tab) or self._earlier_tab(row)
        if (account, analyst) != (row.account, row.analyst):
            raise _Bad("its tab belongs to another analyst or account")
        if row.kind == "step" and before.covers(cost) and before.minus(cost) == left:
            self.tabs[row.tab] = account, analyst, left
        elif row.kind == "tab-close" and left == NO_COST and cost in (NO_COST, before):
            del self.tabs[row.tab]
        else:
            raise _Bad("it does not fit the tab's hold")
        return before, left

    def _end(self, row: Row) -> None:
        if row.about not in self.unanswered and (self._whole or not self._earlier_paid(row)):
            raise _Bad("it answers or stops a charge that does not exist, or that was answered or stopped before")
        self.unanswered.discard(row.about)

    def _period(self, row: Row) -> None:
        """Check that a period paid what the charge that it is part of cost, under the name of that charge's account."""
        number = int(row.detail)
        is_last_charge = self.charge.number == number
        charge = self.charge if is_last_charge else self.earlier(row.number, {"number": number})
        if charge is None or charge.kind != "charge" or (charge.cost, charge.analyst) != (row.cost, row.analyst):
            raise _Bad("it does not spend the cost of its charge")
        if not row.account.startswith(f"{charge.account} "):
            raise _Bad("its account is not a period of the account that was charged")

    def _earlier_account(self, row: Row) -> tuple[Spending, int] | None:
        earlier_line = self.earlier(row.number, {"account": row.account})
        return None if earlier_line is None else (read_spending(earlier_line.totals), earlier_line.terms)

    def _earlier_analyst(self, row: Row) -> tuple[Spending, str] | None:
        earlier_line = self.earlier(row.number, {"account": row.account, "analyst": row.analyst})
        return None if earlier_line is None else (read_spending(earlier_line.own), earlier_line.share)

    def _earlier_paid(self, row: Row) -> bool:
        charge = self.earlier(row.number, {"number": row.about})
        return charge is not None and charge.kind in _PAID and self.earlier(row.number, {"about": row.about}) is None

    def _earlier_tab(self, row: Row) -> tuple[str, str, Cost]:
        earlier_line = self.earlier(row.number, {"tab": row.tab})
        if earlier_line is None or earlier_line.kind == "tab-close":
            raise _Bad("the tab is not open")
        self.tabs[row.tab] = earlier_line.account, earlier_line.analyst, read_cost(earlier_line.left)
        return self.tabs[row.tab]


class _Bad(Exception):
    """A line breaks a rule."""


CHECKPOINT = 1000
"""Opening verifies the lines since the last one whose number is a multiple of this."""
PART = 100_000
"""Fewer lines than this are not worth a process."""
_PAGE = 1000


def verify_newest(store: Store) -> Verification:
    """Verify the store's shape, its key, and the lines since the last checkpoint."""
    try:
        fault, last = store.schema_fault(), _last_number(store)
        has_origin = fault or not last or _has_origin(store)
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    if fault or not last:
        return Verification(0, None, fault or "")
    if not has_origin:
        return Verification(0, 1, "it does not begin with the key in the ledger's header")
    return _verify_stretch(store, (last - 1) // CHECKPOINT * CHECKPOINT, last, files=False)


def verify_everything(store: Store) -> Verification:
    """Verify every line, and the store itself; the first fault is named."""
    try:
        last = _last_number(store)
        processes = min(len(os.sched_getaffinity(0)), last // PART)
        is_single_threaded = (
            threading.active_count() == 1
        )  # a fork keeps only one thread: the others' locks would never open
        verification, fault = _verify_stretches(
            store, _bounds(last, processes if is_single_threaded and processes > 1 else 1)
        )
    except LedgerDamaged as damage:
        return Verification(0, damage.number, damage.why)
    return (
        Verification(verification.lines, None, fault)
        if fault and (verification.holds or verification.answers)
        else verification
    )


def _verify_stretches(store: Store, parts: list[tuple[int, int]]) -> tuple[Verification, str | None]:
    """Verify all stretches but the first in processes of their own; return the first fault, and what is wrong with the
    store.

    A stretch whose process did not answer is verified here.
    """
    children = [_fork_verifier(store, part) for part in parts[1:]]
    verifications = [_verify_stretch(store, *parts[0])]
    fault = (
        store.schema_fault() or store.content_fault() if verifications[0].holds or verifications[0].answers else None
    )
    verifications += [
        _read_verdict(answer) or _verify_stretch(store, *part) for answer, part in zip(children, parts[1:], strict=True)
    ]
    first_broken = next(
        (verification for verification in verifications if not verification.holds and not verification.answers), None
    )
    return first_broken or _lost(
        verifications[-1].lines, tuple(number for verification in verifications for number in verification.answers)
    ), fault


def _lost(lines: int, answers: tuple[int, ...]) -> Verification:
    """Return a verification in which every line is right; some answers may be lost with their files."""
    return Verification(lines, answers[0], LOST, answers) if answers else Verification(lines)


def _last_number(store: Store) -> int:
    with store.reading() as rows:
        return next((row.number for row in rows.select({}, newest=True, limit=1)), 0)


def _has_origin(store: Store) -> bool:
    """Return whether the first line was written under the current key: under another, nothing is recognised."""
    with store.reading() as rows:
        return [row.previous for row in rows.select({"number": 1}, limit=1)] == [KeyedHash(store.key()).origin]


def _bounds(last: int, parts: int) -> list[tuple[int, int]]:
    """Split the lines into even stretches; the first is a sixth shorter, because whoever verifies it also checks the
    store's pages.
    """
    if parts == 1:
        return [(0, last)]
    first_end = last * 5 // (6 * parts)
    bounds = [0, *(first_end + (last - first_end) * part // (parts - 1) for part in range(parts))]
    return list(pairwise(bounds))


def _verify_stretch(store: Store, after: int, until: int, *, files: bool = True) -> Verification:
    """Verify the lines after one number up to another, with the files that hold their large answers."""
    lost_answers: list[int] = []

    def earlier(before: int, equal: Where) -> Row | None:
        with store.reading() as rows:
            return _require_sealed(rows.select(equal, newest=True, before=before, limit=1))

    checker = Checker.whole(KeyedHash(store.key()).origin)
    try:
        if after:
            start = earlier(after + 1, {"number": after})
            if start is None:
                return Verification(after, after, "it is missing")
            checker = Checker.after(start, earlier)
        while checker.number < until:
            with store.reading() as rows:
                page = rows.select({}, after=checker.number, limit=min(_PAGE, until - checker.number))
            if not page:
                return Verification(checker.number, checker.number + 1, "it is missing")
            verification = checker.check(page)
            if not verification.holds:
                return verification
            lost_answers += [row.number for row in page if files and row.file and store.bodies.read(row.file) is None]
    except LedgerDamaged as damage:
        return Verification(checker.number, damage.number, damage.why)
    return _lost(checker.number, tuple(lost_answers))


def _require_sealed(rows: Sequence[Row]) -> Row | None:
    for row in rows:
        if row.hash != row.seal():
            raise LedgerDamaged(row.number, "its hash does not match its content")
        return row
    return None


def _fork_verifier(store: Store, stretch: tuple[int, int]) -> tuple[int, int]:
    """Verify a stretch in a child, which opens the store for itself; return the child and the read end of its pipe."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads below Python: the child uses none of theirs
        child = os.fork()
    if child:
        os.close(write_end)
        return child, read_end
    try:
        verification = _verify_stretch(store, *stretch)
        os.write(
            write_end,
            json.dumps([verification.lines, verification.bad, verification.why, verification.answers]).encode(),
        )
    finally:
        os._exit(0)


def _read_verdict(child_and_pipe: tuple[int, int]) -> Verification | None:
    child, read_end = child_and_pipe
    with os.fdopen(read_end, "rb") as pipe:
        message = pipe.read()
    os.waitpid(child, 0)
    if not message:
        return None
    lines, bad, why, answers = json.loads(message)
    return Verification(lines, bad, why, tuple(answers))


_CONNECT_TIMEOUT = 10.0
"""Seconds for a server to answer that may be destroyed."""


def require_lost(place: str, key: str) -> None:
    """Refuse an export, by the key of its ledger, while that ledger is still in its file here, or in its database,
    whether it was moved or not, and where that cannot be seen. A server may be destroyed if no connection to it can be
    made; one that listens is not, whatever it answers.
    """
    last_state = _state_at_server(place) if is_server_address(place) else _state_in_file(place)
    if last_state is None or last_state[0] != key:
        return
    if last_state[1]:
        raise LedgerUnavailable(
            f"an export can only replace a lost ledger, and the ledger of this export was moved to {last_state[1]}",
            place=place,
            fix="use the ledger that it was moved to; if that is lost, copy the old ledger again with --accept-loss",
        )
    raise LedgerUnavailable(
        "an export can only replace a lost ledger, and the ledger of this export still exists",
        place=place,
        fix="copy the ledger itself, which seals it; if it is destroyed, move it away first",
    )


def _state_in_file(place: str) -> tuple[str, str] | None:
    """Read the key of the ledger in a file, and where it was moved to, if it was; None if there is none."""
    path = Path(place)
    if not path.is_absolute() or not _exists(path):
        return None
    try:
        # Whoever only reads would leave a log behind, which only a writer removes.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as file:
            ((key,),) = file.execute("SELECT key FROM header")
            last = file.execute("SELECT kind, detail FROM lines ORDER BY number DESC LIMIT 1").fetchall()
        return key, _moved_to(last)
    except (sqlite3.Error, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export can only replace a lost ledger, and the file of the old ledger cannot be read",
            place=place,
            fix="make the file readable and unlocked for this user; if the ledger in it is destroyed, move the file "
            "away first",
        ) from None


def _state_at_server(place: str) -> tuple[str, str] | None:
    """Read the same of the ledger in a database."""
    from sfumato.ledger.stores.postgres_sessions import last_line

    try:
        last_state = last_line(ServerAddress.of(place), _CONNECT_TIMEOUT)
        return None if last_state is None else (last_state[0], _moved_to(last_state[1]))
    except (LedgerUnavailable, InvalidParameter, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export can only replace a lost ledger, and this user may not read the old ledger on its server",
            place=place,
            fix="grant this user read access; if the ledger is destroyed, remove its schema from that server first",
        ) from None


def _moved_to(last: list[tuple[str, str]]) -> str:
    """Return where the last line, if there is one, says that a ledger was moved to."""
    return next((str(json.loads(detail)["moved"]) for kind, detail in last if kind == "moved"), "")


def _exists(path: Path) -> bool:
    """Return whether something is there; what may not be looked at counts as there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
