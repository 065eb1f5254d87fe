"""The ledger's transactions, guarded: nothing is written to a file that lost lines we know of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.errors import LedgerBehind
from sfumato.ledger.anchors import Anchor
from sfumato.ledger.desk import Desk, Terms
from sfumato.ledger.entries import Line
from sfumato.ledger.purse import Purse
from sfumato.ledger.rows import Row
from sfumato.ledger.store import Store
from sfumato.privacy import Budget, Cost


class Book:
    """A store, and what is known about its lines from elsewhere: an anchor, and what this process wrote itself."""

    def __init__(self, store: Store, anchor: Anchor | None) -> None:
        self.store = store
        self.anchor = anchor
        self.wrote = False
        self._known: tuple[int, str] | None = None
        self._terms: dict[int, Terms] = {}

    @contextmanager
    def reading(self) -> Iterator[Desk]:
        with self.store.reading() as rows:
            yield Desk(rows)

    @contextmanager
    def writing(self, *, acknowledging: bool = False) -> Iterator[Desk]:
        with self.store.writing() as rows:
            desk = Desk(rows)
            if not acknowledging:
                self._require_whole(desk)
            yield desk
        if desk.head is not None:
            self._known = (desk.head.number, desk.head.hash)
            self.wrote = True

    def last(self, desk: Desk, account: str) -> Row:
        found = desk.newest(account=account)
        if found is None:
            raise LedgerBehind(1)
        return found

    def terms(self, desk: Desk, account: str) -> Terms:
        """The terms in force. A line never changes, so each is read once."""
        number = self.last(desk, account).terms
        if number not in self._terms:
            self._terms[number] = desk.terms(number)
        return self._terms[number]

    def purses(self, desk: Desk, account: str, analyst: str = "") -> list[tuple[Budget, str]]:
        """Every purse that must afford a charge, at spent and held together: the account's, and the analyst's."""
        budget = self.terms(desk, account).budget
        found = [(budget.at(Purse.of(self.last(desk, account).purse).total), "the account")]
        mine = desk.newest(account=account, analyst=analyst) if analyst else None
        if mine is not None and mine.share:
            found.append((budget.share(mine.share).at(Purse.of(mine.own).total), "the analyst's share"))
        return found

    def admitted(self, account: str, analyst: str, cost: Cost, write: Callable[[Desk], Row]) -> Line:
        """Check and append in one transaction, durable on return; a refusal is worked out when nobody waits for it."""
        with self.writing() as desk:
            short = next((each for each in self.purses(desk, account, analyst) if not each[0].admits(cost)), None)
            if short is None:
                return Line.of(write(desk))
        purse, place = short
        raise purse.refusal(cost, place)

    def behind(self, desk: Desk) -> int | None:
        """The number of a line that is known to exist and does not, or None."""
        if self.anchor is not None and not self.anchor.holds(desk):
            return self.anchor.number
        if self._known is not None:
            number, seal = self._known
            if desk.head is None or ((desk.head.number, desk.head.hash) != self._known and not desk.has(number, seal)):
                return number
        return None

    def _require_whole(self, desk: Desk) -> None:
        missing = self.behind(desk)
        if missing is not None:
            raise LedgerBehind(missing)
