"""An index of published answers: what their lines tell without their bodies, kept by each process.

All answers on one shelf (plans that start alike) are listed, whatever was written later. A process reads each of their
lines once; a later call looks for lines after the last that it has seen, by the store's index of plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.ledger import entries
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.store import Where
from sfumato.ledger.transaction import Transaction

_PAGE = 100
_MOST_SHELVES = 64


@dataclass(frozen=True)
class Publication:
    """The line of an answer that was published, without its body."""

    number: int
    hash: str
    plan: str
    accuracy: Mapping[str, Fraction] = field(repr=False)

    @classmethod
    def of(cls, row: Row) -> Publication:
        """Describe a line."""
        return cls(row.number, row.hash, row.plan, entries.read_widths(row.detail))


@dataclass(frozen=True)
class _Shelf:
    """The publications whose plans start alike, up to a line of the ledger."""

    publications: tuple[Publication, ...] = ()
    last_number: int = 0
    last_hash: str = ""
    """The last line of the ledger when it was read."""

    def extended(self, transaction: Transaction, equal: Where, plan: str) -> _Shelf:
        """Add what was published since."""
        head = transaction.head
        if head is None or (head.number, head.hash) == (self.last_number, self.last_hash):
            return self
        added: list[Publication] = []
        after, page = self.last_number, _PAGE
        while page == _PAGE:
            rows = transaction.starting(equal, plan, after=after, limit=_PAGE)
            added += map(Publication.of, rows)
            after, page = (rows[-1].number if rows else after), len(rows)
        return _Shelf((*self.publications, *added), head.number, head.hash)


class Shelves:
    """What one process knows of the published answers of one ledger.

    Shelves are values that are replaced whole, so threads need no lock: two that read at once find the same.
    """

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, ...], _Shelf] = {}

    def listed(self, transaction: Transaction, account: str, data: str, plan: str) -> tuple[Publication, ...]:
        """List the answers of an account on this data whose plans start with this text, oldest first."""
        key = (account, data, plan)
        known = self._shelves.pop(key, _Shelf())
        if known.last_number and not transaction.has(known.last_number, known.last_hash):
            known = _Shelf()  # a restore or a failover has taken the last line that was seen
        found = known.extended(transaction, {"account": account, "data": data}, plan)
        self._shelves[key] = found
        for oldest in list(self._shelves)[:-_MOST_SHELVES]:
            self._shelves.pop(oldest, None)
        return found.publications
