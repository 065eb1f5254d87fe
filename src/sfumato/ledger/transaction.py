"""A transaction reads what the newest lines say and appends the next one, with every total carried forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sfumato.errors import InvalidParameter, LedgerDamaged
from sfumato.ledger.sealed_rows import LATEST, Row
from sfumato.ledger.spending import NOTHING, read_cost, read_spending, write_cost
from sfumato.ledger.stores.store import PendingCharge, Starting, StoreRows, Where
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Cost, PrivacyUnit, codec


@codec.value("terms")
@dataclass(frozen=True)
class Terms:
    """Terms say what an account was opened with: whom it protects and what may be spent on them."""

    unit: PrivacyUnit
    budget: Budget
    per: str = ""
    """The period of which each has an account of its own, with this budget; empty where there is one account."""
    period_of: str = ""
    """Of one period's account, the name of the account that it is a period of."""

    def __post_init__(self) -> None:
        for what in ("per", "period_of"):
            if type(getattr(self, what)) is not str:
                raise InvalidParameter(what, getattr(self, what), "a text")
        if self.per and self.period_of:
            raise InvalidParameter("per", self.per, "left out of the account of one period")
        if not isinstance(self.unit, PrivacyUnit):
            raise InvalidParameter("unit", self.unit, "a PrivacyUnit")
        if not isinstance(self.budget, Budget) or any(self.budget.spent.values()) or self.budget.spent_pure is None:
            raise InvalidParameter("budget", self.budget, "a Budget of which nothing is spent")


_NO_COLUMNS: Where = {}
_PAGE = 1000


class Transaction:
    """A transaction says what may be read and written inside it. Every line it trusts, it has checked against its
    seal.
    """

    def __init__(self, rows: StoreRows, origin: str) -> None:
        self._rows = rows
        self._origin = origin
        self._found: dict[frozenset[tuple[str, str | int]], Row | None] = {}
        """What was looked for already: nobody else writes meanwhile."""
        self.head = next(iter(self.page({}, newest=True, limit=1)), None)
        self.appended: list[Row] = []

    @property
    def moved_to(self) -> str:
        """Name the place to which the ledger was moved, which its last line then says; empty where it was not."""
        return "" if self.head is None else self.head.moved_to

    def page(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int = -1
    ) -> list[Row]:
        found = self._rows.select(equal, newest=newest, after=after, before=before, limit=limit)
        return [_sealed(row) for row in found]

    def starting(self, equal: Where, plan: str, *, after: int, limit: int) -> list[Row]:
        """Find the first answers after a line whose plan starts with this text: no other lines are looked at."""
        return [_sealed(row) for row in self._rows.starting(equal, Starting(plan), after=after, limit=limit)]

    def newest(self, **equal: str | int) -> Row | None:
        """Find the last line whose columns equal these; most often it is the very last."""
        head = self.head
        if head is not None and all(getattr(head, column) == value for column, value in equal.items()):
            return head
        wanted = frozenset(equal.items())
        if wanted not in self._found:
            self._found[wanted] = next(iter(self.page(equal, newest=True, limit=1)), None)
        return self._found[wanted]

    def line(self, number: int) -> Row | None:
        return self.newest(number=number)

    def last(self, account: str) -> Row:
        """Find the newest line of an account that is known to exist."""
        found = self.newest(account=account)
        if found is None:
            raise LedgerDamaged(None, "it lacks an account that was opened")
        return found

    def has(self, number: int, seal: str) -> bool:
        found = self.line(number)
        return found is not None and found.hash == seal

    def terms(self, number: int) -> Terms:
        found = self.line(number)
        value = None if found is None else _read(found.detail)
        if not isinstance(value, Terms):
            raise LedgerDamaged(number, "it does not hold an account's terms")
        return value

    def under_way(self, equal: Where) -> Sequence[PendingCharge]:
        """List charges that are not answered yet, whose columns equal these."""
        return self._rows.under_way(equal)

    def begin(self, charge: PendingCharge) -> None:
        self._rows.begin(charge)

    def end(self, number: int) -> None:
        self._rows.end(number)

    def ended(self, number: int) -> Row | None:
        """Find the line that ended a charge or a tab: its answer, or what says that none will come."""
        closed = self.newest(tab=number)
        if closed is not None:
            return closed if closed.kind == "tab-close" else None
        return self.newest(about=number)

    def stop(self, number: int) -> None:
        """Say that a charge stays without an answer, unless it has one; of a tab, all that it held is spent.

        One that has a request id stays among those under way: whoever asks again under it is told how it ended.
        """
        paid = self.line(number)
        if paid is not None and self.ended(number) is None:
            if paid.kind == "tab-open":
                self.close_tab(number, keep=True, reason="it was stopped before it could answer")
            else:
                self.append("stopped", paid.account, {"analyst": paid.analyst, "about": number})
        if paid is None or not paid.request:
            self.end(number)

    def close_tab(self, number: int, *, keep: bool, reason: str = "") -> Row:
        """Append the line that closes a tab; with ``keep`` what it held is spent."""
        last = self.newest(tab=number)
        assert last is not None
        cost = read_cost(last.left) if keep else NOTHING
        columns = {"analyst": last.analyst, "question": reason}
        return self.append("tab-close", last.account, columns, cost=cost, left=NOTHING, tab=number)

    def append(
        self,
        kind: str,
        account: str,
        columns: Where = _NO_COLUMNS,
        *,
        cost: Cost = NOTHING,
        left: Cost | None = None,
        tab: int = 0,
    ) -> Row:
        """Append the next line: its number, time, totals and seal follow from the lines before."""
        analyst = columns.get("analyst", "")
        last = self.newest(account=account)
        mine = self.newest(account=account, analyst=analyst) if analyst else None
        on_tab = self.newest(tab=tab) if tab else None
        number = self.head.number + 1 if self.head else 1
        before, after = NOTHING if on_tab is None else read_cost(on_tab.left), left or NOTHING
        given = {"share": mine.share if mine else "", **columns}
        draft = Row(**given)._replace(  # type: ignore[arg-type]
            number=number,
            time=max(min(self._rows.now(), LATEST), self.head.time if self.head else 0),
            kind=kind,
            account=account,
            tab=number if kind == "tab-open" else tab,
            cost=write_cost(cost),
            left="" if left is None else write_cost(left),
            totals=str(read_spending(last.totals if last else "").after(cost, before, after)),
            own=str(read_spending(mine.own if mine else "").after(cost, before, after)) if analyst else "",
            terms=number if last is None or kind == "amend" else last.terms,
            salt=f"{bits.integer(128):032x}",
            previous=self.head.hash if self.head else self._origin,
        )
        self.head = draft._replace(hash=draft.seal())
        self._rows.append(self.head)
        self.appended.append(self.head)
        for wanted in self._found:
            if all(getattr(self.head, column) == value for column, value in wanted):
                self._found[wanted] = self.head
        return self.head


def every(transaction: Transaction) -> Iterator[Row]:
    """List every line from the first, a thousand at a time."""
    after = 0
    while page := transaction.page({}, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


@lru_cache(maxsize=64)
def _read(detail: str) -> Any:
    """Read terms once: those of many periods are the same."""
    return codec.loads(detail)


def _sealed(row: Row) -> Row:
    if row.hash != row.seal():
        raise LedgerDamaged(row.number, "its hash does not match its content")
    return row
