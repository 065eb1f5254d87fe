"""Logistic regression with many columns by noisy gradient steps, for prediction.

A curvature of p columns has p²/2 sums; for a hundred columns its noise would drown all but its largest directions. So
only its diagonal is bought, once: the spread of every column. Columns are centred at their released means, and a step
divides each part of the gradient by the released sum of squares around the mean, at least ``SPREAD_FLOOR`` times the
noise that one scan for the whole price would have: a rare value moves by no more than its rows can tell. Steps have
momentum (Polyak 1964). All constants are public, and were chosen on NIST's and PUMS's tables, not on ADULT.

The result has no intervals: where it stops is decided by the number of steps, and the floor holds rare values back.

Scans of a logistic regression with many columns: a first one of the columns' spread, then gradients alone.

Let z be a row's vector of regressors in steps, of which a row has at most one coordinate of each block that is not 0. A
number is there as the indicators of disjoint ranges (``inference.formula``) or, where those are too many, as a
scaled column.

Theorem (the spread). The first scan measures, in units in which a coordinate is within [−1, 1], the number of rows, the
sum of every coordinate and the sum of its square; an indicator is its own square. A row adds at most 1 for the
intercept, 1 for each block of indicators and z² + z⁴ ≤ 2 for each block with a column: ‖·‖² ≤ L, their sum.

Theorem (a gradient). At coefficients that were released, a row adds r·z with |r| ≤ 1 (``inference.logistic``):
‖·‖² ≤ N, the number of blocks.

At most m rows of a unit count, so by the triangle inequality an added unit moves either vector by at most m times as
much, and a replaced one by at most twice that: parts of both can oppose each other. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.design import Design, Moment, coordinates_of_assumed_rows, regressors
from sfumato.inference.logistic import LogisticDesign, ScanFactors, ScanRowTerms
from sfumato.inference.row_expressions import LinearPredictor, integer_literal, rounded_coefficients
from sfumato.inference.weighted_totals import OPPOSED, WeightedTotals
from sfumato.plan.aggregates.measures import Count, Measure, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.values.functions import call
from sfumato.quick_dataclass import dataclass

MOMENTUM = 0.8
SPREAD_FLOOR = 120.0
"""The least sum of squares that a step divides by, in deviations of a gradient bought with the whole price."""


@dataclass(frozen=True)
class LikelihoodDescent:
    """Coefficients of centred coordinates on their way to the largest likelihood."""

    means: Floats
    """The released mean of every coordinate; 0 for the intercept, which is not centred."""
    squares: Floats
    """The sum of squares around the mean that a step divides by."""
    counts: Floats
    """The released sum of every coordinate: of indicators, how many rows have them."""
    centred: Floats
    velocity: Floats

    @classmethod
    def starting_at_zero(cls, sums: Floats, squares: Floats, deviation: float) -> LikelihoodDescent:
        """Start at 0, with the released spread and the deviation of a gradient bought with the whole price."""
        rows = max(float(sums[0]), 1.0)
        means = np.clip(sums / rows, -1.0, 1.0)
        means[0] = 0.0
        centred_squares = np.maximum(squares - rows * means**2, SPREAD_FLOOR * deviation)
        return cls(means, centred_squares, sums, np.zeros(len(sums)), np.zeros(len(sums)))

    @property
    def next_coefficients(self) -> tuple[int, ...]:
        """The coefficients of the next scan: where the momentum alone would lead (Nesterov 1983)."""
        return rounded_coefficients(self._uncentred(self.centred + MOMENTUM * self.velocity))

    @property
    def coefficients(self) -> Floats:
        """The coefficient of every coordinate."""
        return self._uncentred(self.centred)

    def _uncentred(self, centred: Floats) -> Floats:
        coefficients = centred.copy()
        coefficients[0] -= float(self.means @ centred)
        return coefficients

    def step(self, gradient: Floats) -> LikelihoodDescent:
        """Take one step along a released gradient."""
        centred_gradient = gradient - self.means * gradient[0]
        velocity = MOMENTUM * self.velocity + centred_gradient / self.squares
        return replace(self, velocity=velocity, centred=self.centred + velocity)


def commonest_references(design: Design, counts: Floats) -> tuple[int, ...]:
    """Return the reference value of each category: the named one, or the commonest by the released counts."""
    index = {
        coordinate.levels: position
        for position, coordinate in enumerate(design.coordinates)
        if coordinate.column is None
    }
    return tuple(
        category.reference
        if category.reference is not None
        else max(range(len(category.values)), key=lambda value: counts[index[frozenset({(number, value)})]])
        for number, category in enumerate(design.categories)
    )


def regressor_coefficients(design: Design, references: tuple[int, ...], coefficients: Floats) -> dict[str, float]:
    """Return the coefficients of the model's regressors that predict the same for every row: all values of a category
    add up to 1, so those of its reference go to the intercept.
    """
    fitted = regressors(design, references)
    basis = np.zeros((len(coefficients), len(fitted)))
    for column, regressor in enumerate(fitted):
        for coordinate_index, part in regressor.parts.items():
            basis[coordinate_index, column] = part
    lengths = np.linalg.norm(basis, axis=0)
    rows = coordinates_of_assumed_rows(design)[:, : len(coefficients)]
    solution = np.linalg.lstsq(rows @ (basis / lengths), rows @ coefficients, rcond=None)[0]
    return {regressor.label: float(value) for regressor, value in zip(fitted, solution / lengths, strict=True)}


GRADIENT_SCANS = 12
"""The number of gradients."""
SPREAD_SHARE = Fraction(1, 20)
WIDE_SCAN_SHARES = (SPREAD_SHARE, *((1 - SPREAD_SHARE) / GRADIENT_SCANS,) * GRADIENT_SCANS)
"""The share of ρ of each scan: the spread, then every gradient."""
Bound = Callable[[tuple[Measure, ...]], BoundedPlan]


@dataclass(frozen=True)
class GradientScans:
    """The scans of a design with many columns."""

    logistic: LogisticDesign
    factors: ScanFactors
    mean_steps: int

    @cached_property
    def sum_and_square_moments(self) -> tuple[Moment, ...]:
        """The sum and the sum of squares of every regressor's coordinate, each different one once."""
        design = self.logistic.design
        pairs = ((first, index) for index in range(len(design.coordinates) - 1) for first in (0, index))
        return tuple(dict.fromkeys(_pair_moment(design, *pair) for pair in pairs))

    @cached_property
    def gradient_moments(self) -> tuple[Moment, ...]:
        """The product of the residual and every regressor's coordinate."""
        design = self.logistic.design
        last = len(design.coordinates) - 1
        return tuple(_pair_moment(design, index, last) for index in range(last))

    def sum_and_square_totals(self, bound_measures: Bound) -> WeightedTotals:
        """Return the first scan; ``bound_measures`` bounds measures by the limits of a unit."""
        scale, blocks = self.logistic.design.scale, self.logistic.design.blocks[:-1]
        weights = tuple(scale ** (2 - len(moment.columns)) for moment in self.sum_and_square_moments)
        length = sum(1 if column is None else 2 for column in blocks)
        return WeightedTotals(
            bound_measures((Count(), *map(self._sum_of_column_product, self.sum_and_square_moments))),
            weights,
            length * scale**4,
            OPPOSED,
        )

    def gradient_totals(self, coefficients: tuple[int, ...], bound_measures: Bound) -> WeightedTotals:
        """Return the gradient at these coefficients."""
        scale, blocks = self.logistic.design.scale, self.logistic.design.blocks[:-1]
        terms = ScanRowTerms(self.logistic, self.factors, coefficients, self.mean_steps)
        weights = tuple(scale ** (2 - len(moment.columns)) for moment in self.gradient_moments)
        length = len(blocks) * (self.mean_steps * scale) ** 2
        return WeightedTotals(
            bound_measures((Count(), *map(terms.measure, self.gradient_moments))), weights, length, OPPOSED
        )

    def _sum_of_column_product(self, moment: Moment) -> Measure:
        columns = [self.factors.columns[column] for column in moment.columns]
        value = reduce(lambda first, second: call("*", first, second), columns) if columns else integer_literal(1)
        predictor = LinearPredictor(self.logistic.design, self.factors.columns, self.factors.levels, ())
        return Sum(value, predictor.level_condition(moment.levels) if moment.levels else None)

    def sums_and_squares_from(self, totals: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the sum and the sum of squares of every coordinate, where one is within [−1, 1]."""
        design, unit = self.logistic.design, float(self.logistic.design.scale) ** 2
        by_moment = dict(zip(self.sum_and_square_moments, totals, strict=True))
        indices = range(len(design.coordinates) - 1)
        sums = np.array([by_moment[_pair_moment(design, 0, index)] for index in indices], float)
        squares = np.array([by_moment[_pair_moment(design, index, index)] for index in indices], float)
        return sums / unit, squares / unit

    def gradient_from(self, totals: Sequence[int]) -> Floats:
        """Return the gradient where a coordinate and a residual are within [−1, 1]."""
        return np.array(totals, float) / (self.mean_steps * self.logistic.design.scale)


def _pair_moment(design: Design, j: int, k: int) -> Moment:
    """Return the moment of two coordinates that do not exclude each other."""
    moment = design.moment_of_pair(j, k)
    assert moment is not None
    return moment
