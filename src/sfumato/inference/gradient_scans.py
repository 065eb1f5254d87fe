"""Scans of a logistic regression with many columns: a first one of the columns' spread, then gradients alone.

Let z be a row's vector of regressors in steps, of which a row has at most one coordinate of each block that is not 0. A
number is there as the indicators of disjoint ranges (``inference.number_ranges``) or, where those are too many, as a
scaled column.

Theorem (the spread). The first scan measures, in units in which a coordinate is within [−1, 1], the number of rows, the
sum of every coordinate and the sum of its square; an indicator is its own square. A row adds at most 1 for the
intercept, 1 for each block of indicators and z² + z⁴ ≤ 2 for each block with a column: ‖·‖² ≤ L, their sum.

Theorem (a gradient). At coefficients that were released, a row adds r·z with |r| ≤ 1 (``inference.logistic_scans``):
‖·‖² ≤ N, the number of blocks.

At most m rows of a unit count, so by the triangle inequality an added unit moves either vector by at most m times as
much, and a replaced one by at most twice that: parts of both can oppose each other. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.design import Design, Moment
from sfumato.inference.logistic_design import LogisticDesign
from sfumato.inference.logistic_scans import ScanFactors, ScanRowTerms
from sfumato.inference.row_expressions import LinearPredictor, integer_literal
from sfumato.inference.weighted_totals import OPPOSED, WeightedTotals
from sfumato.plan.aggregates.measures import Count, Measure, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.values.functions import call
from sfumato.quick_dataclass import dataclass

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
