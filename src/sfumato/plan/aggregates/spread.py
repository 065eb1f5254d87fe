"""These measures say how values are spread: variance, covariance, correlation, and the line of least squares.

Each is made from centred moments of the rows where all of its values are there: the two sums of a mean, the squares of
the distances from the middle of a column's range, the products of two columns' distances. What is equal is measured
once, whatever is made from it: VARIANCE and AVG of one column share its two sums, and everything about one pair of
columns shares all of its moments.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sfumato.plan.aggregates import moments
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Estimator,
    Mean,
    Measure,
    MeasureSteps,
    Reads,
    Sum,
    both,
    present,
    rounding,
    value_range,
)
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import never_null
from sfumato.policy import Domain, Type
from sfumato.privacy import codec

_REAL = Domain(Type.REAL, nullable=True)


@codec.value("squares")
@dataclass(frozen=True)
class Squares(Sum):
    """This is the sum of squared distances from the middle of a range."""

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Give what values that are spread evenly have: a third of the largest square."""
        return (Fraction(high, 3) * step,)


@codec.value("products")
@dataclass(frozen=True)
class Products(Sum):
    """This is the sum of products of two columns' distances from the middles of their ranges."""

    def middle(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Give what two columns that are spread evenly and correlated by a half have: a sixth of the largest one."""
        return (Fraction(high, 6) * step,)


def squares(value: Expression, where: Expression | None) -> Squares:
    """Ask for the squares of a value: written as sizes, so that it is known that none is negative."""
    size = call("ABS", _centred(value))
    return Squares(call("*", size, size), where)


def products(x: Expression, y: Expression, where: Expression | None) -> Products:
    return Products(call("*", _centred(x), _centred(y)), where)


def _centred(value: Expression) -> Expression:
    return call("-", value, literal(Type.REAL, middle(value)))


def middle(value: Expression) -> Fraction:
    """Give the middle of a value's range, as the nearest double."""
    low, high = value_range(value)
    return min(max(Fraction(float((low + high) / 2)), low), high)


@codec.value("variance")
@dataclass(frozen=True)
class Variance:
    """This is the variance of a bounded value, or its root, over the rows where the predicate holds."""

    value: Expression
    sample: bool
    root: bool
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.TOTALS
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 3

    @property
    def together(self) -> Hashable:
        return self.reads

    @property
    def name(self) -> str:
        return ("sample " if self.sample else "") + ("standard deviation" if self.root else "variance")

    @property
    def result(self) -> Domain:
        return _REAL

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        low, high = value_range(self.value)
        most = (high - low) ** 2 / (2 if self.sample else 4)
        return Fraction(0), Fraction(math.sqrt(most)) if self.root else most

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return Mean(self.value, self.where), squares(self.value, self.where)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        mean, held = measured
        return moments.SpreadEstimate(axis(mean), held.step / 2, self.sample, self.root)


@dataclass(frozen=True)
class Pairs:
    """Two bounded values are asked about together, over the rows where both are there and the predicate holds."""

    y: Expression
    x: Expression
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.TOTALS
    once_per_unit: ClassVar[bool] = False

    @property
    def together(self) -> Hashable:
        return self.reads

    @property
    def value(self) -> Expression:
        """Both are read."""
        return products(self.x, self.y, None).value

    @property
    def result(self) -> Domain:
        return _REAL

    @property
    def sums(self) -> tuple[Mean, Mean]:
        """Ask for the two sums of each, over the rows where the other is there."""
        return Mean(self.x, present_too(self.where, self.y)), Mean(self.y, present_too(self.where, self.x))

    @property
    def squares_x(self) -> Squares:
        return squares(self.x, present_too(self.where, self.y))

    @property
    def squares_y(self) -> Squares:
        return squares(self.y, present_too(self.where, self.x))

    @property
    def products(self) -> Products:
        return products(self.x, self.y, self.where)


@codec.value("covariance")
@dataclass(frozen=True)
class CovarianceOfPairs(Pairs):
    """This is the covariance of two values."""

    sample: bool = False
    noises: ClassVar[int] = 5

    @property
    def name(self) -> str:
        return ("sample " if self.sample else "") + "covariance"

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        (low, high), (least, most) = value_range(self.x), value_range(self.y)
        reach = (high - low) * (most - least) / (2 if self.sample else 4)
        return -reach, reach

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.sums, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, held = measured
        return moments.Covariance(axis(x), axis(y), held.step / 2, self.sample)


@codec.value("correlation")
@dataclass(frozen=True)
class CorrelationOfPairs(Pairs):
    """This is the correlation of two values, or its square."""

    squared: bool = False
    noises: ClassVar[int] = 7

    @property
    def name(self) -> str:
        return "squared correlation" if self.squared else "correlation"

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return Fraction(0 if self.squared else -1), Fraction(1)

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.sums, self.squares_x, self.squares_y, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, *held = measured
        of_x, of_y, of_both = (each.step / 2 for each in held)
        return moments.Correlation(axis(x), axis(y), (of_x, of_y, of_both), self.squared)


@codec.value("line")
@dataclass(frozen=True)
class LineOfPairs(Pairs):
    """This is the slope of the line of least squares through y over x, or its intercept."""

    intercept: bool = False
    noises: ClassVar[int] = 6

    @property
    def name(self) -> str:
        return "intercept" if self.intercept else "slope"

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (*self.sums, self.squares_x, self.products)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        x, y, *held = measured
        of_x, of_both = (each.step / 2 for each in held)
        return moments.RegressionLine(axis(x), axis(y), (of_x, of_both), self.intercept)


def present_too(where: Expression | None, value: Expression) -> Expression | None:
    """Test that this value is there too, unless it always is."""
    return where if never_null(value) else both(where, present(value))


def axis(mean: MeasureSteps) -> moments.Axis:
    """Say from where the two sums of a mean, and the squares and products of its value, are counted."""
    value = mean.measure.value
    assert value is not None
    ends = mean.low * mean.step, (mean.low + mean.measure.size(mean.low, mean.high)) * mean.step
    return moments.Axis(*ends, middle(value), rounding(value, mean.step))
