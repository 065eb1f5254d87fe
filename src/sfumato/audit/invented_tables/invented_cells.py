"""Cells are invented for a column from what is declared of it: plain ones, its ends, and what no policy wishes for.

Plain cells are what the policy expects; the n-th of a column of choices is its n-th choice, so that the n-th row of a
unit falls into a group of its own whatever is grouped by. Strange cells are out of range, not of the type, not finite,
not listed, too long, or words that mean something to a database.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import pyarrow

from sfumato.policy import Domain, Type
from sfumato.policy.domains import ListColumn

STORED: dict[Type, Any] = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}
"""How a source stores what is declared as each type."""
_DAYS = 400
_USUAL: dict[Type, tuple[Any, Any]] = {
    Type.INTEGER: (0, 100),
    Type.REAL: (Fraction(0), Fraction(100)),
    Type.DATE: (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Type.TIMESTAMP: (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
}
"""The ranges of columns that declare none."""
_STRANGE: dict[Type, tuple[Any, ...]] = {
    Type.INTEGER: (2**62, -(2**62), 2**63 - 1, -(2**63), 0, -1),
    Type.REAL: (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 2.0**53 + 2),
    Type.TEXT: ("", " ", "it's", "NULL", "NaN", "''; DROP TABLE people; --", "\u2019", "\u0130", "a" * 3_000),
    Type.BOOLEAN: (True, False),
    Type.DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)),
    Type.TIMESTAMP: (dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11), dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)),
}


class Ends(Enum):
    """This says which number a row has in a column with a range."""

    HIGH = "at the high end"
    LOW = "at the low end"
    BOTH = "at both ends in turn"
    SPREAD = "each of its own"


@dataclass(frozen=True)
class Cells:
    """These are the cells that may be invented for one column."""

    domain: Domain

    def plain(self, number: int, ends: Ends) -> Any:
        """Give the cell of the row of this number, as the policy expects it."""
        kind, listed = self.domain.type, self.domain.values
        if listed is not None:
            return _stored(listed[number % len(listed)])
        if kind is Type.BOOLEAN:
            return number % 2 == 0
        if kind is Type.TEXT:
            return f"text {number + 1}"[: self.domain.letters]
        ends_of: tuple[Any, Any] = self.domain.bounds or _USUAL[kind]
        low, high = ends_of
        if kind.temporal:
            return low + dt.timedelta(number % (min((high - low).days, _DAYS) + 1))
        return _stored(_number(low, high, number, ends))

    @property
    def outside(self) -> tuple[Any, ...]:
        """List cells just outside what is declared; none where everything is inside."""
        if self.domain.type is Type.TEXT:
            return ("not listed",) if self.domain.values is not None else ()
        return (*self.beyond(1), *self.beyond(-1))

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Give the cell above a range (1) or below it (-1), by one and so many times its length; none where no such
        value can be stored.
        """
        kind: Type = self.domain.type
        known: tuple[Any, Any] | None = self.domain.range
        if known is None:
            return ()
        low, high = known
        step: Any = dt.timedelta(1) if kind.temporal else 1
        try:
            found = _stored((high if side > 0 else low) + side * (step + times * (high - low)))
        except OverflowError:
            return ()
        return () if kind is Type.INTEGER and abs(found) >= 2**63 else (found,)

    @property
    def strange(self) -> tuple[Any, ...]:
        """List cells that no policy wishes for; None is what is missing."""
        return (*_STRANGE[self.domain.type], *self.outside, None)


@dataclass(frozen=True)
class ListCells:
    """These are the cells that may be invented for one column of lists."""

    declared: ListColumn

    def plain(self, number: int, ends: Ends) -> Any:
        """Give a list of as many items as count."""
        return self._items(number, self.declared.most_items, ends)

    def _items(self, number: int, count: int, ends: Ends) -> list[Any]:
        return [Cells(self.declared.items).plain(number + place, ends) for place in range(count)]

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Give a list of items beyond a range."""
        found = Cells(self.declared.items).beyond(side, times)
        return (list(found) * self.declared.most_items,) if found else ()

    @property
    def outside(self) -> tuple[Any, ...]:
        """Give a list of one item more than count."""
        return (self._items(0, self.declared.most_items + 1, Ends.HIGH),)

    @property
    def strange(self) -> tuple[Any, ...]:
        """List lists that no policy wishes for."""
        return (*self.outside, [], [None] * 2, list(Cells(self.declared.items).strange), None)


def _number(low: Any, high: Any, number: int, ends: Ends) -> Any:
    if ends is Ends.BOTH:
        return low if number % 2 else high
    if ends is Ends.SPREAD:
        return high - number % (int(high - low) + 1)
    return high if ends is Ends.HIGH else low


def _stored(value: Any) -> Any:
    """Give a public value as a source holds it; a whole number beyond 64 bits does not occur in one."""
    if isinstance(value, Fraction):
        return float(value)
    return value


def as_text(cell: Any) -> Any:
    """Write a cell as a file of texts holds it."""
    if cell is None or isinstance(cell, list):
        return cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
