"""Verification checks every line's seal, its link to the line before, and every total against the costs.

An export is copied where its ledger is lost: whatever can be seen of that ledger from here is checked first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerUnavailable, RequestDecided
from sfumato.ledger.approval_requests import REQUEST_LINE, STEP_LINE, RecordedStep, RequestRecord, RequestStep
from sfumato.ledger.entries import datetime_from_microseconds
from sfumato.ledger.sealed_rows import KINDS, Row
from sfumato.ledger.spending import NO_COST, RunningTotals, Spending, read_cost, read_totals, write_cost
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address
from sfumato.ledger.stores.store import Where
from sfumato.privacy import Cost, codec
from sfumato.quick_dataclass import dataclass

_ZERO = write_cost(NO_COST)
_SPENDING = {"charge", "period", "correction", "acknowledge", "tab-open", "step", "tab-close"}
_ON_TABS = {"tab-open", "step", "tab-close"}
_NO_TAB = (NO_COST, NO_COST)
_PAID = {"charge", "step"}
_STATING_TERMS = {"account-open", "amend"}
_ENDING = {"answer", "stopped"}
_WRONG_TOTALS = "the account's totals do not match the sum of the earlier lines"
_WRONG_ANALYST_TOTALS = "the analyst's totals do not match the sum of the earlier lines"

_LONGEST_TRANSACTION = 60_000_000
"""Microseconds between the reading of a request and the line of its step, in one transaction."""
LOST = "the file that holds this answer is missing or was changed"


@dataclass(frozen=True)
class Verification:
    """The outcome of a verification: all ``holds``, or the first bad line (None: the file as a whole) and why."""

    lines: int
    bad: int | None = None
    why: str = ""
    answers: tuple[int, ...] = ()
    """Lines whose answers are lost with their files; where there is no other fault, nothing else is."""
    resumed_lines: int = 0
    """How many lines only the interrupted run has read that this one resumed."""
    resumed_since: datetime | None = field(default=None, repr=False)
    """When it began to read them."""

    @property
    def holds(self) -> bool:
        return not self.why

    def __str__(self) -> str:
        if self.holds:
            lines = "1 line" if self.lines == 1 else f"{self.lines:,} lines"
            return f"{lines}, all as they were written{self._resumed_words}"
        return (
            f"line {self.bad} is damaged: {self.why}" if self.bad is not None else f"the ledger is damaged: {self.why}"
        )

    @property
    def _resumed_words(self) -> str:
        if self.resumed_since is None:
            return ""
        since = f"{self.resumed_since:%Y-%m-%d %H:%M} UTC"
        return f" ({self.resumed_lines:,} of them read by the interrupted run of {since}, and not again)"


Earlier = Callable[[int, Where], Row | None]
"""The newest line before a number whose columns equal these."""


def _no_earlier_line(_before: int, _equal: Where) -> None:
    return None


@dataclass
class LineVerifier:
    """A verifier of consecutive lines. From line 1 on it needs nothing else; started later (from a checkpoint), it
    looks up earlier lines of accounts, analysts and tabs by ``earlier``.
    """

    number: int
    time: int
    hash: str
    earlier: Earlier = _no_earlier_line
    accounts: dict[str, tuple[RunningTotals, int]] = field(default_factory=dict)
    """Totals, and the line with the terms."""
    analysts: dict[tuple[str, str], tuple[RunningTotals, str]] = field(default_factory=dict)
    """Totals, and the share."""
    tabs: dict[int, tuple[str, str, Cost]] = field(default_factory=dict)
    """Open tabs: account, analyst, what is left."""
    unanswered: set[int] = field(default_factory=set)
    charge: Row = Row()
    """The last charge: the lines of its periods follow it."""
    requests: dict[int, RequestRecord] = field(default_factory=dict)
    """Requests for approval, with the steps of each so far."""
    sealed: bool = False
    """The last line says that the ledger was moved: none follows it."""

    def __post_init__(self) -> None:
        self._whole = self.number == 0

    @classmethod
    def from_first_line(cls, origin: str) -> LineVerifier:
        """Start a checker at the first line; ``origin`` is the hash that it must link to."""
        return cls(0, 0, origin)

    @classmethod
    def from_later_line(cls, row: Row, number: int, earlier: Earlier) -> LineVerifier:
        """Start a checker at the line after a number, which should be this row: what it states of the line before is
        taken as it stands, and has to be compared with that line by the caller.
        """
        return cls(number, row.time, row.previous, earlier)

    def check(self, rows: Iterable[Row]) -> Verification:
        for row in rows:
            why = self._find_fault(row)
            if why:
                return Verification(self.number, row.number, why)
            self.number, self.hash, self.time = row.number, row.hash, row.time
            self.sealed = row.kind == "moved"
        return Verification(self.number)

    def _find_fault(self, row: Row) -> str:
        if self.sealed:
            return "it follows the line that sealed the ledger when it was moved"
        if row.number > self.number + 1:
            return f"line {self.number + 1} is missing"
        if row.number <= self.number:
            return f"its number should be {self.number + 1}"
        if row.previous != self.hash:
            return "it does not follow the line before"
        if row.hash != row.compute_seal():
            return "its hash does not match its content"
        if row.time < self.time:
            return "it is older than the line before"
        try:
            self._check_amounts(row)
        except _BrokenRule as bad:
            return str(bad)
        except (ValueError, InvalidParameter):
            return "its amounts cannot be read or do not add up"
        return ""

    def _check_amounts(self, row: Row) -> None:
        # Slices (up to the request; from cost to own): a million lines have two dozen million attributes.
        number, _, tab, _, terms, kind, account, analyst = row[:8]
        written_cost, written_left, totals, share, analyst_totals = row[16:21]
        cost = NO_COST if written_cost == _ZERO else read_cost(written_cost)
        before, left = self._check_tab(row, cost) if tab or written_left or kind in _ON_TABS else _NO_TAB
        state = self.accounts.get(account)
        if state is None or state[1] != terms or kind in _STATING_TERMS:
            self._check_account(row, cost, before, left)
        elif state[0].add_line(cost, before, left) != totals:
            raise _BrokenRule(_WRONG_TOTALS)
        if not analyst:
            if share or analyst_totals:
                raise _BrokenRule("it has an analyst's totals, but names no analyst")
        elif (analyst_state := self.analysts.get((account, analyst))) is None or analyst_state[1] != share:
            self._check_analyst(row, cost, before, left)
        elif analyst_state[0].add_line(cost, before, left) != analyst_totals:
            raise _BrokenRule(_WRONG_ANALYST_TOTALS)
        if kind in _PAID:
            self.unanswered.add(number)
            self.charge = row
        else:
            self._check_kind_rules(row, cost)

    def _check_kind_rules(self, row: Row, cost: Cost) -> None:
        if cost is not NO_COST and row.kind not in _SPENDING:
            raise _BrokenRule("this kind of line cannot spend")
        if row.kind == "period":
            self._check_period(row)
        elif row.kind in _ENDING:
            self._check_ending(row)
        elif row.kind == REQUEST_LINE:
            self.requests[row.number] = RequestRecord.from_rows(row)
        elif row.kind == STEP_LINE:
            self._check_request_step(row)
        elif row.kind not in KINDS:
            raise _BrokenRule("its kind is unknown")

    def _check_account(self, row: Row, cost: Cost, before: Cost, left: Cost) -> None:
        """Check that spent grows by the cost, and held by what the tab holds now less what it held: on the first line
        of an account here, and where its terms change.
        """
        account_state = self.accounts.get(row.account) or self._earlier_account(row)
        if (account_state is None) is not (row.kind == "account-open"):
            raise _BrokenRule("its account was not opened, or is opened twice")
        totals, terms = account_state or (RunningTotals(Spending()), row.number)
        if totals.add_line(cost, before, left) != row.totals:
            raise _BrokenRule(_WRONG_TOTALS)
        if row.terms != (row.number if row.kind == "amend" else terms):
            raise _BrokenRule("it refers to the wrong terms of its account")
        self.accounts[row.account] = totals, row.terms

    def _check_analyst(self, row: Row, cost: Cost, before: Cost, left: Cost) -> None:
        """Check the totals of the analyst: on their first line here, and where their share changes."""
        key = row.account, row.analyst
        totals, share = self.analysts.get(key) or self._earlier_analyst(row) or (RunningTotals(Spending()), "")
        if totals.add_line(cost, before, left) != row.own:
            raise _BrokenRule(_WRONG_ANALYST_TOTALS)
        if row.share != share and row.kind != "share":
            raise _BrokenRule("the analyst's share was changed")
        self.analysts[key] = totals, row.share

    def _check_tab(self, row: Row, cost: Cost) -> tuple[Cost, Cost]:
        """Check what the tab held and holds: a step moves its cost out of it, opening and closing all or nothing."""
        left = read_cost(row.left)
        if row.kind == "tab-open":
            if row.tab != row.number or NO_COST not in (cost, left):
                raise _BrokenRule("the amount that its tab holds is wrong")
            self.tabs[row.tab] = row.account, row.analyst, left
            return NO_COST, left
        account, analyst, before = self.tabs.get(row.tab) or self._earlier_tab(row)
        if (account, analyst) != (row.account, row.analyst):
            raise _BrokenRule("its tab belongs to another analyst or account")
        if row.kind == "step" and before.covers(cost) and before.minus(cost) == left:
            self.tabs[row.tab] = account, analyst, left
        elif row.kind == "tab-close" and left == NO_COST and cost in (NO_COST, before):
            del self.tabs[row.tab]
        else:
            raise _BrokenRule("it does not match the amount that its tab holds")
        return before, left

    def _check_ending(self, row: Row) -> None:
        if row.about not in self.unanswered and (self._whole or not self._is_earlier_charge_unanswered(row)):
            raise _BrokenRule(
                "it completes or cancels a charge that is not in the ledger, or that was already completed or cancelled"
            )
        self.unanswered.discard(row.about)

    def _check_request_step(self, row: Row) -> None:
        """Check that the state of the request allowed this step, by its own lines and their times."""
        record = self.requests.get(row.about) or self._earlier_request(row)
        if record is None or (record.account, record.analyst) != (row.account, row.analyst):
            raise _BrokenRule("it is about a request that is not in the ledger")
        step = codec.loads_as(RequestStep, row.detail)
        try:
            record.with_step(step, row.time - _LONGEST_TRANSACTION)
        except RequestDecided:
            raise _BrokenRule("its approval request was not in a state that allows this step") from None
        recorded = RecordedStep(row.number, datetime_from_microseconds(row.time), step)
        self.requests[row.about] = replace(record, steps=(*record.steps, recorded))

    def _earlier_request(self, row: Row) -> RequestRecord | None:
        request, steps = self.earlier(row.number, {"number": row.about}), list[Row]()
        step = self.earlier(row.number, {"about": row.about})
        while step is not None:
            steps.append(step)
            step = self.earlier(step.number, {"about": row.about})
        is_request = request is not None and request.kind == REQUEST_LINE
        return RequestRecord.from_rows(request, reversed(steps)) if is_request and request is not None else None

    def _check_period(self, row: Row) -> None:
        """Check that a period paid what the charge that it is part of cost, under the name of that charge's account."""
        number = int(row.detail)
        is_last_charge = self.charge.number == number
        charge = self.charge if is_last_charge else self.earlier(row.number, {"number": number})
        if charge is None or charge.kind != "charge" or (charge.cost, charge.analyst) != (row.cost, row.analyst):
            raise _BrokenRule("the charge that it belongs to is missing, or has another cost or analyst")
        if not row.account.startswith(f"{charge.account} "):
            raise _BrokenRule("its account is not a period of the account that was charged")

    def _earlier_account(self, row: Row) -> tuple[RunningTotals, int] | None:
        earlier_line = self.earlier(row.number, {"account": row.account})
        return None if earlier_line is None else (RunningTotals(read_totals(earlier_line.totals)), earlier_line.terms)

    def _earlier_analyst(self, row: Row) -> tuple[RunningTotals, str] | None:
        earlier_line = self.earlier(row.number, {"account": row.account, "analyst": row.analyst})
        return None if earlier_line is None else (RunningTotals(read_totals(earlier_line.own)), earlier_line.share)

    def _is_earlier_charge_unanswered(self, row: Row) -> bool:
        charge = self.earlier(row.number, {"number": row.about})
        return charge is not None and charge.kind in _PAID and self.earlier(row.number, {"about": row.about}) is None

    def _earlier_tab(self, row: Row) -> tuple[str, str, Cost]:
        earlier_line = self.earlier(row.number, {"tab": row.tab})
        if earlier_line is None or earlier_line.kind == "tab-close":
            raise _BrokenRule("the tab is not open")
        self.tabs[row.tab] = earlier_line.account, earlier_line.analyst, read_cost(earlier_line.left)
        return self.tabs[row.tab]


class _BrokenRule(Exception):
    """A line breaks a rule."""


_CONNECT_TIMEOUT = 10.0
"""Seconds for a server to answer that may be destroyed."""


def require_ledger_gone(place: str, key: str) -> None:
    """Refuse an export, by the key of its ledger, while that ledger is still in its file here, or in its database,
    whether it was moved or not, and where that cannot be seen. A server may be destroyed if no connection to it can be
    made; one that listens is not, whatever it answers.
    """
    last_state = _key_and_move_at_server(place) if is_server_address(place) else _key_and_move_in_file(place)
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
        fix="copy the ledger itself (it then accepts no more charges); if it is unusable, move its file away first",
    )


def _key_and_move_in_file(place: str) -> tuple[str, str] | None:
    """Read the key of the ledger in a file, and where it was moved to, if it was; None if there is none."""
    path = Path(place)
    if not path.is_absolute() or not _may_exist(path):
        return None
    try:
        # Whoever only reads would leave a log behind, which only a writer removes.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as file:
            ((key,),) = file.execute("SELECT key FROM header")
            last = file.execute("SELECT kind, detail FROM lines ORDER BY number DESC LIMIT 1").fetchall()
        return key, _move_target_or_empty(last)
    except (sqlite3.Error, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export can only replace a lost ledger, and the file of the old ledger cannot be read",
            place=place,
            fix="make the file readable and unlocked for this user; if the ledger in it is destroyed, move the file "
            "away first",
        ) from None


def _key_and_move_at_server(place: str) -> tuple[str, str] | None:
    """Read the same of the ledger in a database."""
    from sfumato.ledger.stores.postgres_connections import key_and_last_line

    try:
        last_state = key_and_last_line(ServerAddress.parse(place), _CONNECT_TIMEOUT)
        return None if last_state is None else (last_state[0], _move_target_or_empty(last_state[1]))
    except (LedgerUnavailable, InvalidParameter, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export can only replace a lost ledger, and this user may not read the old ledger on its server",
            place=place,
            fix="grant this user read access; if the ledger is destroyed, remove its schema from that server first",
        ) from None


def _move_target_or_empty(last: list[tuple[str, str]]) -> str:
    """Return where the last line, if there is one, says that a ledger was moved to."""
    return next((str(json.loads(detail)["moved"]) for kind, detail in last if kind == "moved"), "")


def _may_exist(path: Path) -> bool:
    """Return whether something is there; what may not be looked at counts as there."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
