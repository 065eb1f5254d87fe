"""A transaction: it reads the newest lines and appends the next one, with every total carried forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from sfumato.errors import InvalidParameter, LedgerDamaged, ValueWords
from sfumato.ledger.sealed_rows import MAX_TIME, Row
from sfumato.ledger.spending import NO_COST, read_cost, read_totals, write_cost
from sfumato.ledger.stores.store import PendingCharge, Prefix, StoreRows, Where
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Cost, PrivacyUnit, codec
from sfumato.quick_dataclass import dataclass


@codec.serialisable("terms")
@dataclass(frozen=True)
class Terms:
    """The terms an account was opened with: whom it protects and what may be spent."""

    unit: PrivacyUnit
    budget: Budget
    per: str = ""
    """The period with an account each, with this budget; empty where there is one account."""
    period_of: str = ""
    """For the account of one period, the name of the account it belongs to."""

    def __post_init__(self) -> None:
        for what in ("per", "period_of"):
            if type(getattr(self, what)) is not str:
                raise InvalidParameter(what, getattr(self, what), "a string")
        if self.per and self.period_of:
            raise InvalidParameter(
                "per", self.per, "left out, because this account covers a single period", fix="leave out per"
            )
        if not isinstance(self.unit, PrivacyUnit):
            raise InvalidParameter("unit", self.unit, "a PrivacyUnit", fix='write sf.PrivacyUnit("patient")')
        if not isinstance(self.budget, Budget):
            kind = ValueWords(f"an object of type {type(self.budget).__name__}")
            raise InvalidParameter("budget", kind, "a Budget", fix="write sf.Budget(epsilon=3)")
        if any(self.budget.spent.values()) or self.budget.spent_pure is None:
            spent = ValueWords("a Budget with amounts already spent")
            raise InvalidParameter(
                "budget", spent, "an unspent Budget", fix="make a new one, such as sf.Budget(epsilon=3)"
            )


_NO_COLUMNS: Where = {}
_PAGE = 1000


class Transaction:
    """What may be read and written in one store transaction. Every line it uses is checked against its seal."""

    def __init__(self, rows: StoreRows, origin: str) -> None:
        self._rows = rows
        self._origin = origin
        self._newest_rows: dict[tuple[tuple[str, str | int], ...], Row | None] = {}
        """Cached lookups: nobody else writes during the transaction."""
        self.head = next(iter(self.page({}, newest=True, limit=1)), None)
        self.appended: list[Row] = []

    @property
    def last_number(self) -> int:
        """The number of the last line; 0 before the first."""
        return 0 if self.head is None else self.head.number

    @property
    def moved_to(self) -> str:
        """Where the ledger was moved to, as its last line records; empty if it was not moved."""
        return "" if self.head is None else self.head.moved_to

    @property
    def next_line_time(self) -> int:
        """The time that the next line gets, in microseconds since 1970: never less than the last line's."""
        return max(min(self._rows.now(), MAX_TIME), self.head.time if self.head else 0)

    def page(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int = -1
    ) -> list[Row]:
        rows = self._rows.select(equal, newest=newest, after=after, before=before, limit=limit)
        return [_require_seal(row) for row in rows]

    def answers_with_plan_prefix(self, equal: Where, plan: str, *, after: int, limit: int) -> list[Row]:
        """Return the first answers after a line whose plan starts with this text; no other lines are read."""
        return [
            _require_seal(row)
            for row in self._rows.answers_with_plan_prefix(equal, Prefix(plan), after=after, limit=limit)
        ]

    def newest(self, **equal: str | int) -> Row | None:
        """Return the last line whose columns equal these, often the very last one."""
        head = self.head
        if head is not None and _has_values(head, equal):
            return head
        key = tuple(equal.items())
        if key not in self._newest_rows:
            self._newest_rows[key] = next(iter(self.page(equal, newest=True, limit=1)), None)
        return self._newest_rows[key]

    def line(self, number: int) -> Row | None:
        return self.newest(number=number)

    def last_account_line(self, account: str) -> Row:
        """Return the newest line of an account that is known to exist."""
        row = self.newest(account=account)
        if row is None:
            raise LedgerDamaged(None, "it lacks an account that was opened")
        return row

    def has_line(self, number: int, seal: str) -> bool:
        head = self.head
        row = head if head is not None and head.number == number else self.line(number)
        return row is not None and row.hash == seal

    def terms(self, number: int) -> Terms:
        row = self.line(number)
        value = None if row is None else _load_cached(row.detail)
        if not isinstance(value, Terms):
            raise LedgerDamaged(number, "it does not hold an account's terms")
        return value

    def pending_charges(self, equal: Where) -> Sequence[PendingCharge]:
        """List the unanswered charges whose columns equal these."""
        return self._rows.pending_charges(equal)

    def add_pending_charge(self, charge: PendingCharge) -> None:
        self._rows.add_pending_charge(charge)

    def remove_pending_charge(self, number: int) -> None:
        self._rows.remove_pending_charge(number)

    def ending_line(self, number: int) -> Row | None:
        """Return the line that ended a charge or a tab: its answer, or the record that none will come."""
        tab_row = self.newest(tab=number)
        if tab_row is not None:
            return tab_row if tab_row.kind == "tab-close" else None
        return self.newest(about=number)

    def stop_charge(self, number: int) -> None:
        """Record that a charge stays without an answer, unless it has one; for a tab, all that it held is spent.

        One with a request id stays among those under way: a repeated request learns how it ended.
        """
        charge = self.line(number)
        if charge is not None and self.ending_line(number) is None:
            if charge.kind == "tab-open":
                self.close_tab(number, spend_rest=True, reason="it was stopped before it could answer")
            else:
                self.append("stopped", charge.account, {"analyst": charge.analyst, "about": number})
        if charge is None or not charge.request:
            self.remove_pending_charge(number)

    def close_tab(self, number: int, *, spend_rest: bool, reason: str = "") -> Row:
        """Append the line that closes a tab; with ``spend_rest`` what it held is spent."""
        last = self.newest(tab=number)
        assert last is not None
        cost = read_cost(last.left) if spend_rest else NO_COST
        columns = {"analyst": last.analyst, "question": reason}
        return self.append("tab-close", last.account, columns, cost=cost, left=NO_COST, tab=number)

    def append(
        self,
        kind: str,
        account: str,
        columns: Where = _NO_COLUMNS,
        *,
        cost: Cost = NO_COST,
        left: Cost | None = None,
        tab: int = 0,
    ) -> Row:
        """Append the next line: its number, time, totals and seal follow from the lines before."""
        analyst = columns.get("analyst", "")
        last = self.newest(account=account)
        analyst_row = self.newest(account=account, analyst=analyst) if analyst else None
        tab_row = self.newest(tab=tab) if tab else None
        number = self.head.number + 1 if self.head else 1
        held_before, held_after = NO_COST if tab_row is None else read_cost(tab_row.left), left or NO_COST
        derived_columns: dict[str, str | int] = {
            "number": number,
            "time": self.next_line_time,
            "kind": kind,
            "account": account,
            "tab": number if kind == "tab-open" else tab,
            "cost": write_cost(cost),
            "left": "" if left is None else write_cost(left),
            "totals": str(read_totals(last.totals if last else "").after(cost, held_before, held_after)),
            "own": str(read_totals(analyst_row.own if analyst_row else "").after(cost, held_before, held_after))
            if analyst
            else "",
            "terms": number if last is None or kind == "amend" else last.terms,
            "salt": f"{bits.random_bits(128):032x}",
            "previous": self.head.hash if self.head else self._origin,
        }
        share = analyst_row.share if analyst_row else ""
        self.head = Row(**{"share": share, **columns, **derived_columns}).sealed()  # type: ignore[arg-type]
        self._rows.append(self.head)
        self.appended.append(self.head)
        for key in self._newest_rows:
            if _has_values(self.head, dict(key)):
                self._newest_rows[key] = self.head
        return self.head


def all_lines(transaction: Transaction) -> Iterator[Row]:
    """Iterate over every line from the first, a thousand at a time."""
    after = 0
    while page := transaction.page({}, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


@lru_cache(maxsize=64)
def _load_cached(detail: str) -> Any:
    """Parse terms once: those of many periods are the same."""
    return codec.loads(detail)


def _has_values(row: Row, equal: Where) -> bool:
    for column, value in equal.items():  # noqa: SIM110 - called seven times for every charge: a generator costs twice
        if getattr(row, column) != value:
            return False
    return True


def _require_seal(row: Row) -> Row:
    if row.hash != row.compute_seal():
        raise LedgerDamaged(row.number, "its hash does not match its content")
    return row
