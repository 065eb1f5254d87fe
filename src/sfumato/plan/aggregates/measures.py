"""These aggregates can be asked and measured: each says here all that the rest of the system needs to know of it.

What is *asked* is made from what is *measured*, and several may be made from the same (``sharing``). A measure turns
the rows of a group into one or two whole totals, its *coordinates*. It says how large a row's contribution can be (from
which ``bounding`` derives what one unit can change), and what an engine adds up. What is asked says how noisy totals
become a number with a range, and how it is called in words. Nothing outside asks which one it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions.declaring import call
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact

Floats = NDArray[np.float64]
Width = float | Floats
"""A half-width: one for all groups, or one for each."""

MOST_STEPS = 2**26
"""Largest change of one unit in units of the released totals: small enough for every sampler."""
MOST_VALUE_STEPS = 2**58
"""Largest change of one unit in steps of its values, which are added up before the total is rounded: two such fit 64
bits."""
_LARGEST_VALUE = 2**61
"""Steps of one value, from 0 on: 64 bits hold the difference of two."""
_EXACT_QUOTIENT = 2**50
"""Multiples of a grid that is no power of two are found exactly up to here: value, grid and quotient are each off by at
most 2^-53 of their size, less than half a step in all."""
_LEAST_STEP = Fraction(1, 2**960)
"""Steps that a double holds in full, and whose parts, 2^-33 of them, are numbers that may be written down."""


@dataclass(frozen=True)
class Contribution:
    """A contribution is what one row adds to one total: a whole number, and nothing where the value is missing or the
    test fails.
    """

    value: Expression | None = None
    """What is added up; None where every row adds one."""
    step: Fraction = Fraction(1)
    origin: int = 0
    """The value is counted in steps from this one on,"""
    low: int = 0
    high: int = 1
    """and held between these two."""
    mirrored: bool = False
    """The row adds what is missing to ``high`` instead."""


@dataclass(frozen=True)
class GroupEstimate:
    """An estimate is a number per group with the range that holds the exact one; NaN is NULL."""

    value: Floats
    low: Floats
    high: Floats
    sum_width: Callable[[int], float] | None = None
    """The half-width of the sum of so many of them, which is far below that of their ranges; None where it is not known
    to be."""
    labels: Sequence[Any] | None = None
    """What the values are the places of, where they are no numbers."""


class Estimator(Protocol):
    """An estimator says how noisy totals become a number: it is stored with them, so that they can be read years
    later.
    """

    adds_up: ClassVar[bool]
    """Whether the number of several groups together is the sum of theirs."""

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:
        """Estimate the number and its range, given totals in the measures' own terms, each within ± its half-width:
        the range holds whenever all of them are.
        """
        ...


@codec.value("total-estimator")
@dataclass(frozen=True)
class TotalEstimate:
    """A total is its own estimate."""

    whole: bool
    """The exact number was a whole one: the noisy one is shown rounded."""
    adds_up: ClassVar[bool] = True

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:
        (value,), (width,) = totals, widths
        return GroupEstimate(np.round(value) if self.whole else value, value - width, value + width)


@codec.value("mean-estimator")
@dataclass(frozen=True)
class Ratio:
    """A mean is low + (high − low)·a/(a + b) of its two sums a = Σ(x − low), b = Σ(high − x).

    It rises in a and falls in b, so its range is reached at the corners of theirs. Both are known to be ≥ 0, so each is
    moved there before its range is laid around it: no range is narrower than its noise. Values that are each rounded by
    at most so much have a mean that is. Where the noisy number of rows is not positive the mean is NULL.
    """

    low: Fraction
    high: Fraction
    rounding: Fraction = Fraction(0)
    """How far a value may lie from the step that it is counted as."""
    adds_up: ClassVar[bool] = False

    def __init__(self, low: Number, high: Number, rounding: Number = 0) -> None:
        object.__setattr__(self, "low", exact(low, "low"))
        object.__setattr__(self, "high", exact(high, "high"))
        object.__setattr__(self, "rounding", exact(rounding, "rounding"))

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:
        (above, below), (up, down) = totals, widths
        low, high = float(self.low), float(self.high)

        def between(a: Floats, b: Floats, nothing: float) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.where(a + b > 0, low + (high - low) * (a / (a + b)), nothing)

        least, most = np.maximum(above - up, 0), np.maximum(above, 0) + up
        fewest, many = np.maximum(below - down, 0), np.maximum(below, 0) + down
        value, lower, upper = between(above, below, np.nan), between(least, many, low), between(most, fewest, high)
        moved = float(self.rounding)
        lower, upper = np.maximum(lower - moved, low), np.minimum(upper + moved, high)
        return GroupEstimate(np.clip(value, lower, upper), lower, upper)


@codec.value("combined-estimator")
@dataclass(frozen=True)
class CombinedEstimate:
    """This is a number that is put together from two totals with equal noise: as often as this the first, and as
    often as this the second.

    Every row adds the same to both totals together. So where the value of a row is rounded by at most so much of that,
    the number is off by at most so much of both totals, at their upper ends.
    """

    first: Fraction
    second: Fraction
    whole: bool
    """The exact number was a whole one: the noisy one is shown rounded."""
    rounding: Fraction = Fraction(0)
    """How far a value may lie from the step that it is counted as, over what a row adds to both totals together: in
    answers that were stored when values, and not totals, were rounded to the units of the noise."""
    adds_up: ClassVar[bool] = True

    def __init__(self, first: Number, second: Number, whole: bool, rounding: Number = 0) -> None:
        object.__setattr__(self, "first", exact(first, "first"))
        object.__setattr__(self, "second", exact(second, "second"))
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "rounding", exact(rounding, "rounding"))

    def combined(self, totals: Sequence[Floats]) -> Floats:
        """Put the two totals together."""
        first, second = totals
        return float(self.first) * first + float(self.second) * second

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:
        width = abs(float(self.first)) * widths[0] + abs(float(self.second)) * widths[1]
        both = sum(np.maximum(total, 0) + half for total, half in zip(totals, widths, strict=True))
        return TotalEstimate(self.whole).estimate([self.combined(totals)], [width + float(self.rounding) * both])


class Reads(Enum):
    """This is what is read of the rows of a group for something that is asked."""

    TOTALS = "totals"
    RANKS = "ranks"
    DIFFERENT = "different values"
    FREQUENT = "frequent values"


class MeasureSteps(Protocol):
    """A measure in whole steps says this of them."""

    @property
    def measure(self) -> Measure: ...

    @property
    def step(self) -> Fraction: ...

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


class AggregateRequest(Protocol):
    """This is what is asked of the rows of every group."""

    reads: ClassVar[Reads]
    once_per_unit: ClassVar[bool]
    """A unit counts once in a group, however many rows it has there."""
    noises: ClassVar[int]
    """How many noises, one for each total, stand behind the number."""

    @property
    def name(self) -> str:
        """Say in words what is counted, added up or chosen."""
        ...

    @property
    def together(self) -> Hashable:
        """Give what is equal for all that is made from one reading: of totals, that they are totals."""
        ...

    @property
    def where(self) -> Expression | None:
        """Say which rows count; all of them when there is no test."""
        ...

    @property
    def value(self) -> Expression | None:
        """Say what is added up; None where rows or units are counted."""
        ...

    @property
    def result(self) -> Domain:
        """Say what is known of the noisy number: its type; noise knows no bounds."""
        ...

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        """Give the range of the exact number whatever the data hold; None where it grows with the rows."""
        ...

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:
        """List what is measured for it, where all of this is asked, or needed, of the same rows."""
        ...

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        """Say how the totals of what is measured for it are read."""
        ...


class Measure(AggregateRequest, Protocol):
    """A measure is added up in whole steps, over the rows of every group; it may be asked as it is."""

    noised: ClassVar[str]
    """What the noise is added to, in words."""

    def step(self, rows: int) -> Fraction:
        """Give the step that values are rounded to before they are added up: the natural one, or one so fine that so
        many rows are a number of steps that 64 bits hold.
        """
        ...

    def held(self, step: Fraction) -> tuple[int, int]:
        """Give the least and the greatest number of steps of one row's value."""
        ...

    def size(self, low: int, high: int) -> int:
        """Give the largest contribution of one row to all coordinates together."""
        ...

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[Contribution, ...]:
        """List what an engine adds up."""
        ...

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        """Give what a row in the middle of its range adds to every coordinate, for forecasts."""
        ...


@codec.value("count")
@dataclass(frozen=True)
class Count:
    """This counts the rows where the predicate holds; all rows without one."""

    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.TOTALS
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 1
    name: ClassVar[str] = "rows"
    noised: ClassVar[str] = "it"

    @property
    def value(self) -> Expression | None:
        return None

    @property
    def together(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER)

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return None

    def step(self, rows: int) -> Fraction:  # noqa: ARG002
        return Fraction(1)

    def held(self, step: Fraction) -> tuple[int, int]:  # noqa: ARG002
        return 0, 1

    def size(self, low: int, high: int) -> int:  # noqa: ARG002
        return 1

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[Contribution, ...]:
        return (Contribution(None, step, 0, low, high),)

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:
        """A mean counts its own rows, where its value is there: those may be the rows that are counted here."""
        means = (each for each in asked if isinstance(each, Mean) and each.rows == self)
        return (next(means, self),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        (own,) = measured
        if isinstance(own.measure, Mean):
            each = 1 / (own.measure.size(own.low, own.high) * own.step)  # a + b is so much for every row
            return CombinedEstimate(each, each, whole=True)
        return TotalEstimate(whole=True)

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        return (Fraction(1),)


@codec.value("distinct-units")
@dataclass(frozen=True)
class Distinct(Count):
    """This counts the units with a row where the predicate holds."""

    once_per_unit: ClassVar[bool] = True
    name: ClassVar[str] = "units"


@codec.value("sum")
@dataclass(frozen=True)
class Sum:
    """This is the sum of a bounded value over the rows where the predicate holds."""

    value: Expression
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.TOTALS
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 1
    name: ClassVar[str] = "sum"
    noised: ClassVar[str] = "it"

    @property
    def together(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER if self.value.domain.type is Type.INTEGER else Type.REAL)

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return None

    def step(self, rows: int) -> Fraction:
        low, high = value_range(self.value)
        return _step(self.value, max(abs(low), abs(high)), rows)

    def held(self, step: Fraction) -> tuple[int, int]:
        return _held(self.value, step)

    def size(self, low: int, high: int) -> int:
        return max(1, abs(low), abs(high))

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[Contribution, ...]:
        return (Contribution(self.value, step, 0, low, high),)

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:
        """A mean knows the sum too."""
        mean = Mean(self.value, self.where)
        return (mean,) if mean in asked else (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        (own,) = measured
        whole = self.result.type is Type.INTEGER
        if isinstance(own.measure, Mean):  # Σx = low·n + a, and n = (a + b)/(high − low)
            size = own.measure.size(own.low, own.high)
            return CombinedEstimate(Fraction(own.low + size, size), Fraction(own.low, size), whole)
        return TotalEstimate(whole)

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        return ((low + high) // 2 * step,)


@codec.value("mean")
@dataclass(frozen=True)
class Mean:
    """This is the mean of a bounded value, measured as two sums: Σ(x − low) and Σ(high − x).

    Together a row contributes high − low to the two, wherever its value lies: half the variance of a sum and a count
    that share the price evenly.
    """

    value: Expression
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.TOTALS
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 2
    name: ClassVar[str] = "mean"
    noised: ClassVar[str] = "its centred sum"

    @property
    def together(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.REAL, nullable=True)

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return value_range(self.value)

    def step(self, rows: int) -> Fraction:
        low, high = value_range(self.value)
        if low == high:  # so small a step that the mean of one number is that number
            return (abs(low) or Fraction(1)) / 2**40
        return _step(self.value, high - low, rows)

    def held(self, step: Fraction) -> tuple[int, int]:
        return _held(self.value, step)

    def size(self, low: int, high: int) -> int:
        return max(1, high - low)

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[Contribution, ...]:
        """Both are counted from the low end, so that no number is larger than the range it lies in."""
        size = self.size(low, high)
        above = Contribution(self.value, step, low, 0, size)
        return above, Contribution(self.value, step, low, 0, size, mirrored=True)

    @property
    def rows(self) -> Count:
        """Count the rows that it is the mean of: those where the value is there."""
        return Count(both(self.where, present(self.value)))

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        (own,) = measured
        high = own.low + self.size(own.low, own.high)
        return Ratio(own.low * own.step, high * own.step, rounding(self.value, own.step))

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        return (Fraction(self.size(low, high), 2) * step,) * 2


def present(value: Expression) -> Expression:
    """Test that a value is there."""
    return call("NOT", call("IS NULL", value))


def both(first: Expression | None, second: Expression) -> Expression:
    """Test two things at once, in an order of their own: so that equal tests are equal."""
    return second if first is None else call("AND", *sorted((first, second), key=repr))


def value_range(value: Expression) -> tuple[Fraction, Fraction]:
    """Give the declared or derived range of what is added up."""
    found = value.domain.range
    if found is None:
        raise InvalidParameter("value", value.domain, "an expression with a finite range")
    low, high = found
    return Fraction(low), Fraction(high)  # type: ignore[arg-type]


def rounding(value: Expression, step: Fraction) -> Fraction:
    """Bound how far a value lies from the step that it is counted as: not at all where all that it can be are whole
    steps.

    A double over a power of two is exact, so half a step is all. A whole number of 64 bits, or a multiple of a grid,
    becomes a double first, which moves it by at most 2^-53 of its size.
    """
    (low, high), natural = value_range(value), natural_step(value)
    if low == high or (natural is not None and natural % step == 0):
        return Fraction(0)
    return step / 2 + (0 if natural is None else max(abs(low), abs(high)) / 2**53)


def natural_step(value: Expression) -> Fraction | None:
    """Give the step that all values are multiples of: 1, or their grid; None where any number may occur."""
    return Fraction(1) if value.domain.type is Type.INTEGER else value.domain.grid


def _held(value: Expression, step: Fraction) -> tuple[int, int]:
    low, high = value_range(value)
    return math.floor(low / step), math.ceil(high / step)


def _step(value: Expression, largest: Fraction, rows: int) -> Fraction:
    """Give the natural step where values are exact multiples of it, whatever rows there are; else a power of two."""
    furthest, natural = max(map(abs, value_range(value))), natural_step(value)
    if natural is not None:
        most = _LARGEST_VALUE if value.domain.type is Type.INTEGER else _EXACT_QUOTIENT
        if furthest <= natural * most and largest * rows <= natural * MOST_VALUE_STEPS:
            return natural
    return power_above(max(largest * rows / MOST_VALUE_STEPS, furthest / _LARGEST_VALUE, _LEAST_STEP))


def power_above(value: Fraction) -> Fraction:
    """Give the least power of two that is at least this."""
    exponent = math.floor(math.log2(value))
    power = Fraction(2) ** exponent
    return power if power >= value else power * 2
