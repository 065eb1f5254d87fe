"""Aggregates and window functions over the rows of one unit, with ranges derived from declared domains.

A result is a function of the unit's own rows, so a relation of results is unit-wise whatever they are; the range is
what bounds a sum over units. With at most ``cap`` rows counted, a count lies in [0, cap] (in [1, cap] where every row
counts: a unit without rows has no result at all) and a sum of values in [low, high] between min(low, cap·low) and
max(high, cap·high). No row is dropped: the rows of a unit with more than ``cap`` are all added up, and the result is
moved to the nearer end. Sums are of whole numbers of steps, so they are exact and do not depend on the order of rows.

Functions over a unit's rows in an order are OVER (PARTITION BY unit … ORDER BY …), with one value for every row.

A partition is made of rows of one unit, so every value is a function of that unit's rows. Rows are ordered as written
and then by every column that is read of them: rows that still tie are equal, and the order in which an engine meets
them decides nothing. Places and running totals are clamped to derived ranges, as what is found of a whole unit is
(``unit_measures``). Every function looks at the rows from the first of the partition on, or at a fixed distance, so a
unit with n rows costs a sort of them and no more.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from enum import Enum
from fractions import Fraction
from typing import ClassVar, Protocol

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import value_range
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Expression, Order
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

MAX_ROWS = 1_000_000
"""The largest cap that may be written."""
_EXACT = 2**52
"""The most steps of a sum: doubles are exact up to here."""
_FINEST = Fraction(1, 2**440)
"""The finest step: a real nearer to 0 than 2^-500 is 0."""
_FINE = 2**48
"""The steps of a sum without a declared grid."""


class UnitMeasure(Protocol):
    """An aggregate over the rows of one unit."""

    name: ClassVar[str]
    """Its SQL name."""

    @property
    def where(self) -> Expression | None:
        """The predicate of the rows that count; None for all rows."""
        ...

    @property
    def value(self) -> Expression | None:
        """The aggregated expression; None where rows are counted."""
        ...

    @property
    def domain(self) -> Domain:
        """The domain that the result is clamped to."""
        ...

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions evaluated on the unit's rows."""
        ...


@dataclass(frozen=True)
class _ValueAggregate:
    """An aggregate of one value of each row."""

    value: Expression
    where: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,) if self.where is None else (self.value, self.where)

    @property
    def nullable(self) -> bool:
        """Whether the result may be NULL for a unit with rows."""
        return self.value.domain.nullable or self.where is not None


@codec.serialisable("unit-count")
@dataclass(frozen=True)
class UnitRowCount:
    """The number of a unit's rows, at most the cap."""

    where: Expression | None
    cap: int
    name: ClassVar[str] = "COUNT"

    @property
    def value(self) -> Expression | None:
        return None

    @property
    def domain(self) -> Domain:
        return Domain(Type.INTEGER, bounds=(1 if self.where is None else 0, self.cap))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return () if self.where is None else (self.where,)


@codec.serialisable("unit-distinct")
@dataclass(frozen=True)
class UnitDistinct(_ValueAggregate):
    """The number of distinct values in a unit's rows, NULL aside, at most the cap."""

    cap: int = 1
    name: ClassVar[str] = "COUNT DISTINCT"

    @property
    def domain(self) -> Domain:
        declared_values = 2 if self.value.domain.type is Type.BOOLEAN else len(self.value.domain.values or ())
        return Domain(Type.INTEGER, bounds=(0, min(self.cap, declared_values or self.cap)))


@codec.serialisable("unit-sum")
@dataclass(frozen=True)
class UnitSum(_ValueAggregate):
    """The sum of a bounded value over a unit's rows; NULL where no row has one."""

    cap: int = 1
    name: ClassVar[str] = "SUM"

    @property
    def step(self) -> Fraction:
        """The step that values are rounded to before they are added up."""
        return _exact_step(self.value, self.cap)

    @property
    def step_range(self) -> tuple[int, int]:
        """The least and the greatest sum, in steps."""
        low, high = value_step_range(self.value, self.step)
        return min(low, self.cap * low), max(high, self.cap * high)

    @property
    def domain(self) -> Domain:
        low, high = self.step_range
        if self.value.domain.type is not Type.INTEGER:
            ends = (intervals.nearest_double(end) * intervals.nearest_double(self.step) for end in (low, high))
            grid = self.value.domain.grid if self.value.domain.grid == self.step else None
            return intervals.real_domain(ends, nullable=self.nullable, grid=grid)
        domain = intervals.integer_domain(low, high, nullable=self.nullable)
        if domain is None:
            rule = f"a sum of {self.cap:,} values of this range does not fit into 64 bits"
            raise Unsupported(
                "unbounded", rule, fix="narrow the range of the values with LEAST(GREATEST(x, low), high)"
            )
        return domain


@codec.serialisable("unit-mean")
@dataclass(frozen=True)
class UnitMean(_ValueAggregate):
    """The mean of a bounded value over a unit's rows; NULL where no row has one."""

    name: ClassVar[str] = "AVG"

    @property
    def step(self) -> Fraction:
        return _exact_step(self.value, 1)

    @property
    def domain(self) -> Domain:
        ends = (
            intervals.nearest_double(end) * intervals.nearest_double(self.step)
            for end in value_step_range(self.value, self.step)
        )
        return intervals.real_domain(ends, nullable=self.nullable)


@codec.serialisable("unit-least")
@dataclass(frozen=True)
class UnitLeast(_ValueAggregate):
    """The least value in a unit's rows; NULL where no row has one."""

    name: ClassVar[str] = "MIN"

    @property
    def domain(self) -> Domain:
        return replace(self.value.domain, nullable=self.nullable)


@codec.serialisable("unit-greatest")
@dataclass(frozen=True)
class UnitGreatest(_ValueAggregate):
    """The greatest value in a unit's rows; NULL where no row has one."""

    name: ClassVar[str] = "MAX"

    @property
    def domain(self) -> Domain:
        return replace(self.value.domain, nullable=self.nullable)


@codec.serialisable("unit-any")
@dataclass(frozen=True)
class UnitAny(_ValueAggregate):
    """Whether a predicate holds in one of a unit's rows; NULL where it is NULL in all of them."""

    name: ClassVar[str] = "BOOL_OR"

    @property
    def domain(self) -> Domain:
        return Domain(Type.BOOLEAN, nullable=self.nullable)


@codec.serialisable("unit-all")
@dataclass(frozen=True)
class UnitAll(_ValueAggregate):
    """Whether a predicate fails in none of a unit's rows; NULL where it is NULL in all of them."""

    name: ClassVar[str] = "BOOL_AND"

    @property
    def domain(self) -> Domain:
        return Domain(Type.BOOLEAN, nullable=self.nullable)


@codec.serialisable("unit-first")
@dataclass(frozen=True)
class UnitFirst(_ValueAggregate):
    """The value in the first of a unit's rows by an order; of rows that tie in it, the first by the value itself.

    The last row is the first of the order turned around.
    """

    order: tuple[Order, ...] = ()
    """The order of the rows; its last term is the value."""
    name: ClassVar[str] = "FIRST"

    @property
    def domain(self) -> Domain:
        return replace(self.value.domain, nullable=self.nullable)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions, *(term.expression for term in self.order))


def value_step_range(value: Expression, step: Fraction) -> tuple[int, int]:
    """Return the least and the greatest value, in steps."""
    low, high = value_range(value)
    return math.floor(low / step), math.ceil(high / step)


def _exact_step(value: Expression, rows: int) -> Fraction:
    """Return the declared grid, or a power of two fine enough to lose nothing; coarser until sums are exact doubles."""
    if value.domain.type is Type.INTEGER:
        return Fraction(1)
    largest = max(map(abs, value_range(value))) * rows or Fraction(1)
    step = value.domain.grid or Fraction(2) ** (math.ceil(math.log2(largest)) - int(math.log2(_FINE)))
    step = max(step, _FINEST)
    while largest / step > _EXACT:
        step *= 2
    return step


class FrameBounds(Enum):
    """The rows of a partition that a running aggregate is over."""

    PEERS = "range"
    """The rows up to this one, and its peers in the written order."""
    ROWS = "rows"
    """The rows up to this one."""
    WHOLE = "whole"
    """All rows of the partition."""


class WindowFunction(Protocol):
    """A function of each row and its partition."""

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The PARTITION BY expressions beside the unit."""
        ...

    @property
    def order(self) -> tuple[Order, ...]: ...

    @property
    def domain(self) -> Domain: ...

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions evaluated on the rows."""
        ...


class RowNumbering(Enum):
    """How rows are numbered from 1."""

    ROW_NUMBER = "ROW_NUMBER"
    RANK = "RANK"
    DENSE_RANK = "DENSE_RANK"


@dataclass(frozen=True)
class _Window:
    keys: tuple[Expression, ...]
    order: tuple[Order, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.keys, *(term.expression for term in self.order))


@codec.serialisable("window-place")
@dataclass(frozen=True)
class RankingFunction(_Window):
    """ROW_NUMBER, RANK or DENSE_RANK of a row in its partition; ranks beyond the cap count as the cap."""

    counting: RowNumbering
    cap: int

    @property
    def is_distinct_within_unit(self) -> bool:
        """Whether rows of one unit have different positions, up to the cap."""
        return self.counting is RowNumbering.ROW_NUMBER and not self.keys

    @property
    def domain(self) -> Domain:
        return Domain(Type.INTEGER, bounds=(1, self.cap))


@codec.serialisable("window-shifted")
@dataclass(frozen=True)
class LagLead(_Window):
    """The value in the row so many positions later, or earlier if negative (LEAD and LAG); the default where there is
    none.
    """

    value: Expression
    offset: int = field(metadata=codec.stored_name_metadata("places"))
    default: Expression | None
    result: Domain
    """The domain that covers the value and the default."""

    @property
    def domain(self) -> Domain:
        return self.result

    @property
    def expressions(self) -> tuple[Expression, ...]:
        default_operand = () if self.default is None else (self.default,)
        return (*super().expressions, self.value, *default_operand)


@codec.serialisable("window-end")
@dataclass(frozen=True)
class WindowEndValue(_Window):
    """The value in the first or the last row: of the partition, or of the peers of this row."""

    value: Expression
    last: bool
    peers: bool

    @property
    def domain(self) -> Domain:
        return self.value.domain

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions, self.value)


@codec.serialisable("window-running")
@dataclass(frozen=True)
class RunningAggregate(_Window):
    """An aggregate over the rows of a frame."""

    measure: UnitMeasure
    frame: FrameBounds

    @property
    def domain(self) -> Domain:
        return self.measure.domain

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions, *self.measure.expressions)
