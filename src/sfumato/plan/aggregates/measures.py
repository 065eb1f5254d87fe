"""The aggregates that a query may request, and the measures taken for them.

A requested aggregate is computed from measures, which several requests may share (``sharing``). A measure turns the
rows of a group into one or two integer totals, its *coordinates*. It bounds the contribution of a row (from which
``bounding`` derives the sensitivity to one unit), and says what an engine adds up. A request provides the estimator
that turns noisy totals into a number with a range, and its name in words. No caller dispatches on the class.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions.declaring import call
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.quick_dataclass import dataclass

Width = float | Floats
"""A half-width: one for all groups, or one for each."""

MAX_STEPS = 2**26
"""The largest change of one unit in units of the released totals: small enough for every sampler."""
MAX_VALUE_STEPS = 2**58
"""The largest change of one unit in steps of its values, which are added up before the total is rounded: two such fit
64 bits."""
_LARGEST_VALUE = 2**61
"""The largest value in steps: 64 bits hold the difference of two."""
_EXACT_QUOTIENT = 2**50
"""Multiples of a grid that is no power of two are exact up to here: value, grid and quotient are each off by at most
2^-53 of their size, less than half a step in all."""
_LEAST_STEP = Fraction(1, 2**960)
"""The smallest step: a double holds it in full, and 2^-33 of it is a number that may be written down."""


@dataclass(frozen=True)
class RowContribution:
    """The integer that one row adds to one total; 0 where the value is NULL or the predicate fails."""

    value: Expression | None = None
    """The summed expression; None where every row adds ``high``."""
    step: Fraction = Fraction(1)
    origin: int = 0
    """The step that values are counted from."""
    low: int = 0
    high: int = 1
    """Values are clamped between ``low`` and ``high``, in steps from the origin."""
    mirrored: bool = False
    """Whether the row adds ``high`` minus its value instead."""
    parts: tuple[Expression, ...] = ()
    """Predicates of disjoint measures: a row is in the first part whose predicate is true. Empty without parts."""
    part: int = 0
    """The part whose rows add to the total."""


@dataclass(frozen=True)
class GroupEstimate:
    """A number per group with the range that holds the exact one; NaN is NULL."""

    value: Floats
    low: Floats
    high: Floats
    labels: Sequence[Any] | None = None
    """The labels that the values index, where they are not numbers."""


class Estimator(Protocol):
    """How noisy totals become a number: it is stored with them, so that they can be read years later."""

    adds_up: ClassVar[bool]
    """Whether the number of several groups together is the sum of theirs."""

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        """Estimate the number and its range from totals in the measures' own terms, each within ± its half-width: the
        range holds whenever all of them are.
        """
        ...


@codec.serialisable("total-estimator")
@dataclass(frozen=True)
class TotalEstimate:
    """A total as its own estimate."""

    whole: bool
    """Whether the exact number is an integer: the noisy one is then shown rounded."""
    adds_up: ClassVar[bool] = True

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        (value,), (width,) = totals, half_widths
        return GroupEstimate(np.round(value) if self.whole else value, value - width, value + width)


@codec.serialisable("mean-estimator")
@dataclass(frozen=True)
class MeanEstimate:
    """A mean, low + (high − low)·a/(a + b) of its two sums a = Σ(x − low), b = Σ(high − x).

    It rises in a and falls in b, so its range is reached at the corners of theirs. Both are known to be ≥ 0, so each is
    moved there before its range is laid around it: no range is narrower than its noise. Values that are each rounded by
    at most so much have a mean that is. Where the noisy number of rows is not positive the mean is NULL.
    """

    low: Fraction
    high: Fraction
    rounding: Fraction = Fraction(0)
    """The largest distance of a value from the step that it is rounded to."""
    adds_up: ClassVar[bool] = False

    def __init__(self, low: Number, high: Number, rounding: Number = 0) -> None:
        object.__setattr__(self, "low", exact(low, "low"))
        object.__setattr__(self, "high", exact(high, "high"))
        object.__setattr__(self, "rounding", exact(rounding, "rounding"))

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        (low_sum, high_sum), (low_width, high_width) = totals, half_widths
        low, high = float(self.low), float(self.high)

        def mean_of(a: Floats, b: Floats, empty: float) -> Floats:
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.where(a + b > 0, low + (high - low) * (a / (a + b)), empty)

        low_sum_min, low_sum_max = np.maximum(low_sum - low_width, 0), np.maximum(low_sum, 0) + low_width
        high_sum_min, high_sum_max = np.maximum(high_sum - high_width, 0), np.maximum(high_sum, 0) + high_width
        value, lower, upper = (
            mean_of(low_sum, high_sum, np.nan),
            mean_of(low_sum_min, high_sum_max, low),
            mean_of(low_sum_max, high_sum_min, high),
        )
        rounding_error = float(self.rounding)
        lower, upper = np.maximum(lower - rounding_error, low), np.minimum(upper + rounding_error, high)
        return GroupEstimate(np.clip(value, lower, upper), lower, upper)


@codec.serialisable("combined-estimator")
@dataclass(frozen=True)
class CombinedEstimate:
    """A number that is a linear combination of two totals with equal noise.

    Every row adds the same to both totals together. So where the value of a row is rounded by at most so much of that,
    the number is off by at most so much of both totals, at their upper ends.
    """

    first: Fraction
    second: Fraction
    whole: bool
    """Whether the exact number is an integer: the noisy one is then shown rounded."""
    rounding: Fraction = Fraction(0)
    """The largest rounding error of a value over what a row adds to both totals together: in answers that were stored
    when values, and not totals, were rounded to the units of the noise."""
    adds_up: ClassVar[bool] = True

    def __init__(self, first: Number, second: Number, whole: bool, rounding: Number = 0) -> None:
        object.__setattr__(self, "first", exact(first, "first"))
        object.__setattr__(self, "second", exact(second, "second"))
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "rounding", exact(rounding, "rounding"))

    def combined(self, totals: Sequence[Floats]) -> Floats:
        """Return the linear combination of the two totals."""
        first, second = totals
        return float(self.first) * first + float(self.second) * second

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        width = abs(float(self.first)) * half_widths[0] + abs(float(self.second)) * half_widths[1]
        upper_total = sum(
            np.maximum(total, 0) + half_width for total, half_width in zip(totals, half_widths, strict=True)
        )
        return TotalEstimate(self.whole).estimate([self.combined(totals)], [width + float(self.rounding) * upper_total])


@codec.serialisable("summed-estimator")
@dataclass(frozen=True)
class SummedEstimate:
    """A number that is a weighted sum of totals, whose ranges add up."""

    factors: tuple[Fraction, ...]
    whole: bool
    """Whether the exact number is an integer: the noisy one is then shown rounded."""
    adds_up: ClassVar[bool] = True

    def __init__(self, factors: Sequence[Number], whole: bool) -> None:
        object.__setattr__(self, "factors", tuple(exact(factor, "factor") for factor in factors))
        object.__setattr__(self, "whole", whole)

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        weights = [float(factor) for factor in self.factors]
        value = sum(weight * total for weight, total in zip(weights, totals, strict=True))
        width = sum(abs(weight) * half_width for weight, half_width in zip(weights, half_widths, strict=True))
        return TotalEstimate(self.whole).estimate([np.asarray(value)], [width])


class ReadingKind(Enum):
    """The kind of reading that a requested aggregate needs."""

    TOTALS = "totals"
    RANKS = "ranks"
    DIFFERENT = "different values"
    FREQUENT = "frequent values"


class MeasureSteps(Protocol):
    """A measure with the step and range of its values."""

    @property
    def measure(self) -> Measure: ...

    @property
    def step(self) -> Fraction: ...

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


class AggregateRequest(Protocol):
    """A requested aggregate of the rows of every group."""

    reads: ClassVar[ReadingKind]
    once_per_unit: ClassVar[bool]
    """Whether a unit counts once in a group, however many rows it has there."""

    @property
    def noise_count(self) -> int:
        """The number of noisy totals behind the number."""
        ...

    @property
    def name(self) -> str:
        """The name of the aggregate in explanations, such as ``mean``."""
        ...

    @property
    def reading_key(self) -> Hashable:
        """A key that is equal for all requests answered by one reading: all totals share one."""
        ...

    @property
    def where(self) -> Expression | None:
        """The predicate of the rows that count; None for all rows."""
        ...

    @property
    def value(self) -> Expression | None:
        """The summed expression; None where rows or units are counted."""
        ...

    @property
    def result(self) -> Domain:
        """The domain of the noisy number: a type without bounds."""
        ...

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        """The range of the exact number whatever the data hold; None where it grows with the rows."""
        ...

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:
        """Return the measures taken for it, where all of ``requests`` are requested, or needed, of the same rows."""
        ...

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        """Return the estimator for the totals of its measures."""
        ...


class Measure(AggregateRequest, Protocol):
    """A measure added up in whole steps over the rows of every group; it may be requested itself."""

    noised_phrase: ClassVar[str]
    """What the noise is added to, in words."""

    def step_for_rows(self, max_rows: int) -> Fraction:
        """Return the step that values are rounded to before they are added up: the natural one, or one for which so
        many rows add up to a number of steps that 64 bits hold.
        """
        ...

    def row_value_range_in_steps(self, step: Fraction) -> tuple[int, int]:
        """Return the least and the greatest value of one row, in steps."""
        ...

    def max_row_contribution(self, low: int, high: int) -> int:
        """Return the largest contribution of one row to all coordinates together."""
        ...

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[RowContribution, ...]:
        """Return what an engine adds up."""
        ...

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        """Return what a row in the middle of its range adds to every coordinate, for forecasts."""
        ...


@codec.serialisable("count")
@dataclass(frozen=True)
class Count:
    """The number of rows where the predicate holds."""

    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 1
    name: ClassVar[str] = "rows"
    noised_phrase: ClassVar[str] = "it"

    @property
    def value(self) -> Expression | None:
        return None

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    def step_for_rows(self, max_rows: int) -> Fraction:  # noqa: ARG002
        return Fraction(1)

    def row_value_range_in_steps(self, step: Fraction) -> tuple[int, int]:  # noqa: ARG002
        return 0, 1

    def max_row_contribution(self, low: int, high: int) -> int:  # noqa: ARG002
        return 1

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[RowContribution, ...]:
        return (RowContribution(None, step, 0, low, high),)

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        """Return the sum of the rows that each of the measures counts."""
        factors = tuple(factor for scaled in measured for factor in _factors_to_row_count(scaled))
        if len(measured) > 1:
            return SummedEstimate(factors, whole=True)
        return TotalEstimate(whole=True) if len(factors) == 1 else CombinedEstimate(factors[0], factors[1], whole=True)

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        return (Fraction(1),)


def _factors_to_row_count(scaled: MeasureSteps) -> tuple[Fraction, ...]:
    """Return the factors by which the totals of a count, or of a mean, add up to a number of rows."""
    if not isinstance(scaled.measure, Mean):
        return (Fraction(1),)
    # every row adds size·step to the two sums of a mean
    return (1 / (scaled.measure.max_row_contribution(scaled.low, scaled.high) * scaled.step),) * 2


@codec.serialisable("distinct-units")
@dataclass(frozen=True)
class DistinctUnits(Count):
    """The number of units with a row where the predicate holds."""

    once_per_unit: ClassVar[bool] = True
    name: ClassVar[str] = "units"


@codec.serialisable("sum")
@dataclass(frozen=True)
class Sum:
    """The sum of a bounded value over the rows where the predicate holds."""

    value: Expression
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 1
    name: ClassVar[str] = "sum"
    noised_phrase: ClassVar[str] = "it"

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER if self.value.domain.type is Type.INTEGER else Type.REAL)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    @property
    def clamp_range(self) -> tuple[Fraction, Fraction]:
        """The range that values are clamped to."""
        return value_range(self.value)

    def step_for_rows(self, max_rows: int) -> Fraction:
        low, high = self.clamp_range
        return _summed_value_step(self, max(abs(low), abs(high)), max_rows)

    def row_value_range_in_steps(self, step: Fraction) -> tuple[int, int]:
        return _clamp_ends_in_steps(self, step)

    def max_row_contribution(self, low: int, high: int) -> int:
        return max(1, abs(low), abs(high))

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[RowContribution, ...]:
        return (RowContribution(self.value, step, 0, low, high),)

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:
        """Use the mean of the same value if there is one: it measures the sum too."""
        mean = Mean(self.value, self.where)
        return (mean,) if mean in all_requests else (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        (scaled,) = measured
        whole = self.result.type is Type.INTEGER
        if isinstance(scaled.measure, Mean):  # Σx = low·n + a, and n = (a + b)/(high − low)
            size = scaled.measure.max_row_contribution(scaled.low, scaled.high)
            return CombinedEstimate(Fraction(scaled.low + size, size), Fraction(scaled.low, size), whole)
        return TotalEstimate(whole)

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        return ((low + high) // 2 * step,)


@codec.serialisable("mean")
@dataclass(frozen=True)
class Mean:
    """The mean of a bounded value, measured as two sums: Σ(x − low) and Σ(high − x).

    Together a row contributes high − low to the two, wherever its value lies: half the variance of a sum and a count
    that share the price evenly.
    """

    value: Expression
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 2
    name: ClassVar[str] = "mean"
    noised_phrase: ClassVar[str] = "its centred sum"

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.REAL, nullable=True)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return value_range(self.value)

    @property
    def clamp_range(self) -> tuple[Fraction, Fraction]:
        """The range that values are clamped to."""
        return value_range(self.value)

    def step_for_rows(self, max_rows: int) -> Fraction:
        low, high = self.clamp_range
        if low == high:  # so small a step that the mean of one number is that number
            return (abs(low) or Fraction(1)) / 2**40
        return _summed_value_step(self, high - low, max_rows)

    def row_value_range_in_steps(self, step: Fraction) -> tuple[int, int]:
        return _clamp_ends_in_steps(self, step)

    def max_row_contribution(self, low: int, high: int) -> int:
        return max(1, high - low)

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[RowContribution, ...]:
        """Return the two sums, both counted from the low end, so that no number is larger than the range it lies in."""
        size = self.max_row_contribution(low, high)
        low_sum = RowContribution(self.value, step, low, 0, size)
        return low_sum, RowContribution(self.value, step, low, 0, size, mirrored=True)

    @property
    def rows(self) -> Count:
        """The count of the rows where the value is not NULL."""
        return Count(conjunction(self.where, not_null_predicate(self.value)))

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        (scaled,) = measured
        high = scaled.low + self.max_row_contribution(scaled.low, scaled.high)
        return MeanEstimate(scaled.low * scaled.step, high * scaled.step, step_rounding_error(self.value, scaled.step))

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        return (Fraction(self.max_row_contribution(low, high), 2) * step,) * 2


def not_null_predicate(value: Expression) -> Expression:
    """Return the predicate that a value is not NULL."""
    return call("NOT", call("IS NULL", value))


def conjunction(first: Expression | None, second: Expression) -> Expression:
    """Return the conjunction of two predicates in a canonical order, so that equal conditions are equal."""
    return second if first is None else call("AND", *sorted((first, second), key=repr))


def value_range(value: Expression) -> tuple[Fraction, Fraction]:
    """Return the declared or derived range of a summed value."""
    bounds = value.domain.range
    if bounds is None:
        raise InvalidParameter("value", ValueWords("one without bounds"), "an expression with a finite range")
    low, high = bounds
    return Fraction(low), Fraction(high)  # type: ignore[arg-type]


def step_rounding_error(value: Expression, step: Fraction) -> Fraction:
    """Bound the distance of a value from the step that it is rounded to: 0 where all its values are whole steps.

    A double over a power of two is exact, so half a step is all. A whole number of 64 bits, or a multiple of a grid,
    becomes a double first, which moves it by at most 2^-53 of its size.
    """
    (low, high), natural = value_range(value), natural_step(value)
    if low == high or (natural is not None and natural % step == 0):
        return Fraction(0)
    return step / 2 + (0 if natural is None else max(abs(low), abs(high)) / 2**53)


def natural_step(value: Expression) -> Fraction | None:
    """Return the step that all values are multiples of: 1, or their grid; None where any number may occur."""
    return Fraction(1) if value.domain.type is Type.INTEGER else value.domain.grid


def _clamp_ends_in_steps(measure: Sum | Mean, step: Fraction) -> tuple[int, int]:
    low, high = measure.clamp_range
    return math.floor(low / step), math.ceil(high / step)


def _summed_value_step(measure: Sum | Mean, largest_contribution: Fraction, max_rows: int) -> Fraction:
    """Return the natural step where values are exact multiples of it, for any number of rows up to this; else a power
    of two.
    """
    value = measure.value
    largest_value, natural = max(map(abs, measure.clamp_range)), natural_step(value)
    if natural is not None:
        max_steps = _LARGEST_VALUE if value.domain.type is Type.INTEGER else _EXACT_QUOTIENT
        if largest_value <= natural * max_steps and largest_contribution * max_rows <= natural * MAX_VALUE_STEPS:
            return natural
    return power_of_two_at_least(
        max(largest_contribution * max_rows / MAX_VALUE_STEPS, largest_value / _LARGEST_VALUE, _LEAST_STEP)
    )


def power_of_two_at_least(value: Fraction) -> Fraction:
    """Return the least power of two that is at least this."""
    exponent = math.floor(math.log2(value))
    power = Fraction(2) ** exponent
    return power if power >= value else power * 2
