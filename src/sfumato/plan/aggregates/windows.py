"""Functions over a unit's rows in an order are OVER (PARTITION BY unit … ORDER BY …), with one value for every row.

A partition is made of rows of one unit, so every value is a function of that unit's rows. Rows are ordered as written
and then by every column that is read of them: rows that still tie are equal, and the order in which an engine meets
them decides nothing. Places and running totals are clamped to derived ranges, as what is found of a whole unit is
(``unit_measures``). Every function looks at the rows from the first of the partition on, or at a fixed distance, so a
unit with n rows costs a sort of them and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sfumato.plan.aggregates.unit_measures import UnitMeasure
from sfumato.plan.values.expressions import Expression, Order
from sfumato.policy import Domain, Type
from sfumato.privacy import codec


class Frame(Enum):
    """A frame says which rows of a partition a running total is of."""

    PEERS = "range"
    """Those up to the row, and those that tie with it in what is written."""
    ROWS = "rows"
    """Those up to the row."""
    WHOLE = "whole"
    """All of them."""


class WindowFunction(Protocol):
    """A window function finds something for every row, from its partition."""

    @property
    def keys(self) -> tuple[Expression, ...]:
        """List what rows of one partition share beside their unit."""
        ...

    @property
    def order(self) -> tuple[Order, ...]: ...

    @property
    def domain(self) -> Domain: ...

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """List what is evaluated on the rows."""
        ...


class Counting(Enum):
    """This says how rows are numbered from 1."""

    ROW_NUMBER = "ROW_NUMBER"
    RANK = "RANK"
    DENSE_RANK = "DENSE_RANK"


@dataclass(frozen=True)
class _Over:
    keys: tuple[Expression, ...]
    order: tuple[Order, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.keys, *(each.expression for each in self.order))


@codec.value("window-place")
@dataclass(frozen=True)
class Place(_Over):
    """This is the place of a row in its partition; whatever is later than the cap counts as at it."""

    counting: Counting
    cap: int

    @property
    def distinct(self) -> bool:
        """Tell whether rows of one unit have different places, up to the cap."""
        return self.counting is Counting.ROW_NUMBER and not self.keys

    @property
    def domain(self) -> Domain:
        return Domain(Type.INTEGER, bounds=(1, self.cap))


@codec.value("window-shifted")
@dataclass(frozen=True)
class Shifted(_Over):
    """This is the value in the row so many places later, or earlier where that is below 0; the default where there is
    none.
    """

    value: Expression
    places: int
    default: Expression | None
    result: Domain
    """What holds the value and the default."""

    @property
    def domain(self) -> Domain:
        return self.result

    @property
    def expressions(self) -> tuple[Expression, ...]:
        given = () if self.default is None else (self.default,)
        return (*super().expressions, self.value, *given)


@codec.value("window-end")
@dataclass(frozen=True)
class End(_Over):
    """This is the value in the first or the last row: of the partition, or of the rows that tie with this one."""

    value: Expression
    last: bool
    peers: bool

    @property
    def domain(self) -> Domain:
        return self.value.domain

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions, self.value)


@codec.value("window-running")
@dataclass(frozen=True)
class Running(_Over):
    """This is what is found of the rows of a frame."""

    measure: UnitMeasure
    frame: Frame

    @property
    def domain(self) -> Domain:
        return self.measure.domain

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions, *self.measure.expressions)
