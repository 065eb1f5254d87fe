"""Verification checks every line's seal, its link to the line before, and every total against the costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sfumato.errors import InvalidParameter
from sfumato.ledger.sealed_rows import KINDS, Row
from sfumato.ledger.spending import NOTHING, Spending, read_cost, read_spending, write_cost
from sfumato.ledger.stores.store import Where
from sfumato.privacy import Cost

_ZERO = write_cost(NOTHING)
_SPENDING = {"charge", "period", "correction", "acknowledge", "tab-open", "step", "tab-close"}
_ON_TABS = {"tab-open", "step", "tab-close"}
_NO_TAB = (NOTHING, NOTHING)
_PAID = {"charge", "step"}
_ENDING = {"answer", "stopped"}
LOST = "the file that holds this answer is missing or was changed"


@dataclass(frozen=True)
class Verification:
    """A verification says what was found: that all ``holds``, or the first bad line (None: the file as a whole) and
    why.
    """

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


def _none(_before: int, _equal: Where) -> None:
    return None


@dataclass
class Checker:
    """A checker knows what the lines so far imply. From line 1 on it needs nothing else; started later (from a
    checkpoint), it looks up what accounts, analysts and tabs stood at ``earlier``.
    """

    number: int
    time: int
    hash: str
    earlier: Earlier = _none
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
        """Start a checker at the first line; ``origin`` is what stands before it."""
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
        cost = NOTHING if row.cost == _ZERO else read_cost(row.cost)
        before, left = self._tab(row, cost) if row.tab or row.left or row.kind in _ON_TABS else _NO_TAB
        self._account(row, cost, before, left)
        if row.analyst:
            self._analyst(row, cost, before, left)
        elif row.share or row.own:
            raise _Bad("it has totals of nobody")
        if cost is not NOTHING and row.kind not in _SPENDING:
            raise _Bad("this kind of line cannot spend")
        if row.kind in _PAID:
            self.unanswered.add(row.number)
            self.charge = row
        elif row.kind == "period":
            self._period(row)
        elif row.kind in _ENDING:
            self._end(row)
        elif row.kind not in KINDS:
            raise _Bad("there is no such kind of line")

    def _account(self, row: Row, cost: Cost, before: Cost, left: Cost) -> None:
        """Check that spent grows by the cost, and held by what the tab holds now less what it held."""
        known = self.accounts.get(row.account) or self._earlier_account(row)
        if (known is None) is not (row.kind == "account-open"):
            raise _Bad("its account was not opened, or is opened twice")
        spending, terms = known or (Spending(), row.number)
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
            if row.tab != row.number or NOTHING not in (cost, left):
                raise _Bad("the tab's hold is wrong")
            self.tabs[row.tab] = row.account, row.analyst, left
            return NOTHING, left
        account, analyst, before = self.tabs.get(row.tab) or self._earlier_tab(row)
        if (account, analyst) != (row.account, row.analyst):
            raise _Bad("the tab belongs to another")
        if row.kind == "step" and before.covers(cost) and before.less(cost) == left:
            self.tabs[row.tab] = account, analyst, left
        elif row.kind == "tab-close" and left == NOTHING and cost in (NOTHING, before):
            del self.tabs[row.tab]
        else:
            raise _Bad("it does not fit the tab's hold")
        return before, left

    def _end(self, row: Row) -> None:
        if row.about not in self.unanswered and (self._whole or not self._earlier_paid(row)):
            raise _Bad("it answers or stops what was not charged, or was answered or stopped before")
        self.unanswered.discard(row.about)

    def _period(self, row: Row) -> None:
        """Check that a period paid what the charge that it is part of cost, under the name of that charge's account."""
        number = int(row.detail)
        known = self.charge.number == number
        paid = self.charge if known else self.earlier(row.number, {"number": number})
        if paid is None or paid.kind != "charge" or (paid.cost, paid.analyst) != (row.cost, row.analyst):
            raise _Bad("it does not spend what the charge that it belongs to cost")
        if not row.account.startswith(f"{paid.account} "):
            raise _Bad("it is no period of the account that was charged")

    def _earlier_account(self, row: Row) -> tuple[Spending, int] | None:
        found = self.earlier(row.number, {"account": row.account})
        return None if found is None else (read_spending(found.totals), found.terms)

    def _earlier_analyst(self, row: Row) -> tuple[Spending, str] | None:
        found = self.earlier(row.number, {"account": row.account, "analyst": row.analyst})
        return None if found is None else (read_spending(found.own), found.share)

    def _earlier_paid(self, row: Row) -> bool:
        paid = self.earlier(row.number, {"number": row.about})
        return paid is not None and paid.kind in _PAID and self.earlier(row.number, {"about": row.about}) is None

    def _earlier_tab(self, row: Row) -> tuple[str, str, Cost]:
        found = self.earlier(row.number, {"tab": row.tab})
        if found is None or found.kind == "tab-close":
            raise _Bad("the tab is not open")
        self.tabs[row.tab] = found.account, found.analyst, read_cost(found.left)
        return self.tabs[row.tab]


class _Bad(Exception):
    """A line breaks a rule."""
