"""Aggregates of second moments: variance, covariance, correlation, and least-squares regression.

Each is computed from centred moments of the rows where none of its values is NULL: the two sums of a mean, the squares
of the distances from the middle of a column's range, the products of two columns' distances. Equal moments are measured
once: VARIANCE and AVG of one column share its two sums, and all aggregates of one pair of columns share its moments.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import ClassVar

from sfumato.plan.aggregates import moments
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Estimator,
    Mean,
    Measure,
    MeasureSteps,
    ReadingKind,
    Sum,
    conjunction,
    not_null_predicate,
    step_rounding_error,
    value_range,
)
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import is_never_null
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

_REAL = Domain(Type.REAL, nullable=True)


@codec.serialisable("squares")
@dataclass(frozen=True)
class SumOfSquares(Sum):
    """The sum of squared distances from the middle of a range."""

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Return the expectation for uniform values: a third of the largest square."""
        return (Fraction(high, 3) * step,)


@codec.serialisable("products")
@dataclass(frozen=True)
class SumOfProducts(Sum):
    """The sum of products of two columns' distances from the middles of their ranges."""

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Return the expectation for two uniform columns with correlation 1/2: a sixth of the largest product."""
        return (Fraction(high, 6) * step,)


def sum_of_squares(value: Expression, where: Expression | None) -> SumOfSquares:
    """Return the measure of the squares of a value, written with ABS so that none is derived to be negative."""
    distance = call("ABS", _distance_from_middle(value))
    return SumOfSquares(call("*", distance, distance), where)


def sum_of_products(x: Expression, y: Expression, where: Expression | None) -> SumOfProducts:
    return SumOfProducts(call("*", _distance_from_middle(x), _distance_from_middle(y)), where)


def _distance_from_middle(value: Expression) -> Expression:
    return call("-", value, literal(Type.REAL, middle_of_values(value)))


def middle_of_values(value: Expression) -> Fraction:
    """Return the middle of a value's range, as the nearest double."""
    low, high = value_range(value)
    return min(max(Fraction(float((low + high) / 2)), low), high)


@codec.serialisable("variance")
@dataclass(frozen=True)
class Variance:
    """The variance of a bounded value, or its root, over the rows where the predicate holds."""

    value: Expression
    sample: bool
    root: bool
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 3

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def name(self) -> str:
        return ("sample " if self.sample else "") + ("standard deviation" if self.root else "variance")

    @property
    def result(self) -> Domain:
        return _REAL

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        low, high = value_range(self.value)
        largest_variance = (high - low) ** 2 / (2 if self.sample else 4)
        return Fraction(0), Fraction(math.sqrt(largest_variance)) if self.root else largest_variance

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return Mean(self.value, self.where), sum_of_squares(self.value, self.where)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        mean, squares_steps = measured
        return moments.SpreadEstimate(axis_of_mean(mean), squares_steps.step / 2, self.sample, self.root)


@dataclass(frozen=True)
class PairAggregate:
    """An aggregate of two bounded values, over the rows where neither is NULL and the predicate holds."""

    y: Expression
    x: Expression
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def value(self) -> Expression:
        """An expression that reads both values."""
        return sum_of_products(self.x, self.y, None).value

    @property
    def result(self) -> Domain:
        return _REAL

    @property
    def means_over_complete_pairs(self) -> tuple[Mean, Mean]:
        """The means of both values, over the rows where the other is not NULL."""
        return Mean(self.x, and_not_null(self.where, self.y)), Mean(self.y, and_not_null(self.where, self.x))

    @property
    def sum_of_squares_x(self) -> SumOfSquares:
        return sum_of_squares(self.x, and_not_null(self.where, self.y))

    @property
    def sum_of_squares_y(self) -> SumOfSquares:
        return sum_of_squares(self.y, and_not_null(self.where, self.x))

    @property
    def products(self) -> SumOfProducts:
        return sum_of_products(self.x, self.y, self.where)


@codec.serialisable("covariance")
@dataclass(frozen=True)
class CovarianceOfPairs(PairAggregate):
    """The covariance of two values."""

    sample: bool = False
    noise_count: ClassVar[int] = 5

    @property
    def name(self) -> str:
        return ("sample " if self.sample else "") + "covariance"

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        (x_low, x_high), (y_low, y_high) = value_range(self.x), value_range(self.y)
        largest = (x_high - x_low) * (y_high - y_low) / (2 if self.sample else 4)
        return -largest, largest

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.means_over_complete_pairs, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, product_steps = measured
        return moments.CovarianceEstimate(axis_of_mean(x), axis_of_mean(y), product_steps.step / 2, self.sample)


@codec.serialisable("correlation")
@dataclass(frozen=True)
class CorrelationOfPairs(PairAggregate):
    """The correlation of two values, or its square."""

    squared: bool = False
    noise_count: ClassVar[int] = 7

    @property
    def name(self) -> str:
        return "squared correlation" if self.squared else "correlation"

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return Fraction(0 if self.squared else -1), Fraction(1)

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.means_over_complete_pairs, self.sum_of_squares_x, self.sum_of_squares_y, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, *second_moments = measured
        x_rounding, y_rounding, product_rounding = (moment.step / 2 for moment in second_moments)
        return moments.CorrelationEstimate(
            axis_of_mean(x), axis_of_mean(y), (x_rounding, y_rounding, product_rounding), self.squared
        )


@codec.serialisable("line")
@dataclass(frozen=True)
class RegressionOfPairs(PairAggregate):
    """The slope or the intercept of the least-squares line of y over x."""

    intercept: bool = False
    noise_count: ClassVar[int] = 6

    @property
    def name(self) -> str:
        return "intercept" if self.intercept else "slope"

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.means_over_complete_pairs, self.sum_of_squares_x, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, *second_moments = measured
        x_rounding, product_rounding = (moment.step / 2 for moment in second_moments)
        return moments.SlopeOrInterceptEstimate(
            axis_of_mean(x), axis_of_mean(y), (x_rounding, product_rounding), self.intercept
        )


def and_not_null(where: Expression | None, value: Expression) -> Expression | None:
    """Add the condition that this value is not NULL, unless it never is."""
    return where if is_never_null(value) else conjunction(where, not_null_predicate(value))


def axis_of_mean(mean: MeasureSteps) -> moments.CentredRange:
    """Return the range and the origin of the sums of a mean, and of the squares and products of its value."""
    value = mean.measure.value
    assert value is not None
    ends = mean.low * mean.step, (mean.low + mean.measure.max_row_contribution(mean.low, mean.high)) * mean.step
    return moments.CentredRange(*ends, middle_of_values(value), step_rounding_error(value, mean.step))
