"""The meat clustered by unit: Σ ttᵀ over units, where t = Σ e·z is the score of all rows of one unit.

Rows of one unit correlate, so their scores are added up before they are multiplied (Liang & Zeger 1986). Let z be a
row's vector of regressors in steps, of which at most one coordinate of each of B blocks is not 0, |z| ≤ S, and e its
residual at coefficients that were released, clamped to ±k and rounded to R steps: |e| ≤ R. At most m rows of a unit
count. Each coordinate of t is rounded to the nearest multiple of a whole number d ≥ m·R·S/G: τ = ⌊t/d + 1/2⌋.

Theorem (a unit's score). In a block, Σ|t| ≤ Σ|e|·|z| over rows ≤ m·R·S ≤ G·d. So |τ| ≤ G. Each row adds to one
coordinate of the block, so at most c of them are not 0, c the lesser of m and the number of all coordinates; with |τ| ≤
|t|/d + 1/2, Σ|τ| ≤ G + ⌊c/2⌋, a whole number. Σ τ² ≤ (Σ|τ|)² in every block, so ‖τ‖² ≤ N = B·(G + ⌊c/2⌋)². ∎

Theorem (an added unit). ‖ττᵀ‖ = ‖τ‖² ≤ N in Frobenius norm, whatever the rows of the unit hold. It is attained by m
equal rows with a residual of k at the ends of all ranges, but for ⌊c/2⌋, which is small beside G.

Theorem (a replaced unit). ττᵀ is positive semidefinite, so ⟨ττᵀ, τ′τ′ᵀ⟩ = (τ·τ′)² ≥ 0, and ‖ττᵀ − τ′τ′ᵀ‖² ≤ 2·N². ∎

Both hold at every coefficient and every k, which may be chosen after the first step has been released (Bun & Steinke
2016, Lemma 2.3). Different values of a category meet in different rows of a unit, so every pair of coordinates is
measured, with the weights of a Gram matrix (``inference.moments``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.inference.design import MAX_MOMENTS, Coordinate, Design
from sfumato.inference.moments import WEIGHT, MomentEstimates, moment_weight
from sfumato.inference.robust_meat import MeatDesign, MeatFactors, NoisyMeat
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, LinearPredictor, integer_literal, real_literal
from sfumato.inference.weighted_totals import NOT_OPPOSED, WeightedTotals
from sfumato.plan.aggregates.measures import MAX_STEPS, Count, Measure, Sum
from sfumato.plan.aggregates.unit_measures import UnitSum
from sfumato.plan.bounding import BoundedPlan, proven_rows_per_unit
from sfumato.plan.nodes import Aggregate, LimitRowsPerUnit, PerUnit, unused_source_number
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

RESIDUAL_STEPS = 1 << 12
"""R: the steps of a residual at the clamp."""
CLUSTER_CLAMP_DEVIATIONS = 4
"""k in standard deviations of the residuals by released sums. The noise grows with (m·k)², and the residuals of m rows
are seldom all far: 2 % of the variance of Laplace errors is beyond it."""


@dataclass(frozen=True)
class ScoreGrid:
    """The grid of a unit's scores, and the products of them that are measured."""

    design: Design
    """The design of the regressors, without the target."""
    rows: int
    """m: the most rows of one unit that count."""

    @property
    def max_score_steps(self) -> int:
        """G: the steps of a unit's largest score; products of two are measured exactly."""
        return math.isqrt(MAX_STEPS // len(self.design.blocks))

    @property
    def divisor(self) -> int:
        """d: the product steps of one step; even, so that its half is whole."""
        return 2 * -(-self.rows * RESIDUAL_STEPS * self.design.scale // (2 * self.max_score_steps))

    @cached_property
    def coordinate_pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of coordinates j ≤ k whose products are measured: all."""
        size = len(self.design.coordinates)
        return tuple((j, k) for j in range(size) for k in range(j, size))

    @cached_property
    def gram_index(self) -> NDArray[np.intp]:
        """The index of each Gram entry's pair."""
        size = len(self.design.coordinates)
        index = np.zeros((size, size), np.intp)
        for number, (j, k) in enumerate(self.coordinate_pairs):
            index[j, k] = index[k, j] = number
        return index

    @property
    def weights(self) -> tuple[int, ...]:
        """The whole weight of each product in the measured vector."""
        return tuple(moment_weight(1 if j == k else 2) for j, k in self.coordinate_pairs)

    @property
    def max_unit_norm(self) -> int:
        """N: the largest ‖τ‖² of a unit."""
        rounded_up = min(self.rows, len(self.design.coordinates)) // 2
        return len(self.design.blocks) * (self.max_score_steps + rounded_up) ** 2

    @cached_property
    def constraints(self) -> Floats:
        """Rows c with c·M = 0: the score of a coordinate is the sum of those over the values of a category."""
        order = {coordinate: index for index, coordinate in enumerate(self.design.coordinates)}
        rows = []
        for whole, parts in _coordinates_with_summands(self.design):
            for other in range(len(order)):
                row = np.zeros(len(self.coordinate_pairs))
                row[self.gram_index[order[whole], other]] -= 1
                for part in parts:
                    row[self.gram_index[order[part], other]] += 1
                rows.append(row)
        return np.array(rows).reshape(-1, len(self.coordinate_pairs))

    def weighted_products(self, bounded_plan: BoundedPlan) -> WeightedTotals:
        """Return the products of a plan with one row per unit as one vector: see the module's theorems."""
        totals = WeightedTotals(bounded_plan, self.weights, (WEIGHT * self.max_unit_norm) ** 2, NOT_OPPOSED)
        if totals.rows_per_unit != 1 or len(bounded_plan.measures) != len(self.weights) + 1:
            raise InvalidParameter(
                "bounded",
                ValueWords("a plan of other rows or sums"),
                "a plan of one row per unit with the number of units and every sum",
            )
        return totals

    def meat_estimates(self, noisy: NoisyMeat) -> MomentEstimates:
        """Return the released meat with the covariance of its noise, where regressors and the target are in [−1, 1]."""
        step = float(noisy.clamp) * self.divisor / (RESIDUAL_STEPS * self.design.scale)
        units = np.array(self.weights, float) / step**2
        deviations = float(noisy.mechanism.sizes[0]) / units
        return MomentEstimates.projected(np.array(noisy.totals, float) / units, deviations, self.constraints)


def score_grid(design: Design, rows: int) -> ScoreGrid:
    """Return the grid of a design's regressors; one with too many products is refused."""
    grid = ScoreGrid(design, rows)
    if len(grid.coordinate_pairs) > MAX_MOMENTS:
        rule = (
            f"robust errors need too many sums: at most {MAX_MOMENTS:,} can be measured at once, and this "
            "formula needs "
        )
        fix = "limit the rows with rows=1 (--rows 1), name fewer columns, or leave out robust"
        raise Unsupported("too-many-moments", f"{rule}{len(grid.coordinate_pairs):,}", fix=fix)
    return grid


def _coordinates_with_summands(design: Design) -> list[tuple[Coordinate, list[Coordinate]]]:
    """List the coordinates that are sums of others: over the values of a category that they lack."""
    sums, coordinates = [], set(design.coordinates)
    for coordinate in design.coordinates:
        for index, category in enumerate(design.categories):
            parts = [
                replace(coordinate, levels=coordinate.levels | {(index, value)})
                for value in range(len(category.values))
            ]
            if all(part in coordinates and part != coordinate for part in parts):
                sums.append((coordinate, parts))
    return sums


@dataclass(frozen=True)
class ClusteredMeatTerms:
    """The plan of a clustered meat at some coefficients: every unit's scores, and their products."""

    design: MeatDesign
    factors: MeatFactors
    coefficients: tuple[int, ...]
    """The coefficient of each coordinate but the target, in multiples of 1/F."""
    clamp: Fraction
    grid: ScoreGrid

    @cached_property
    def _linear_predictor(self) -> LinearPredictor:
        coefficients = (*self.coefficients, -COEFFICIENT_STEPS)
        return LinearPredictor(self.design.residual, self.factors.residual_columns, self.factors.levels, coefficients)

    @cached_property
    def negated_residual_steps(self) -> Expression:
        """−e in steps, within the clamp."""
        steps = call("*", self._linear_predictor.value, real_literal(RESIDUAL_STEPS / self.clamp))
        within = call("LEAST", call("GREATEST", steps, real_literal(-RESIDUAL_STEPS)), real_literal(RESIDUAL_STEPS))
        return call("CAST", call("FLOOR", call("+", within, real_literal(0.5))), literal(Type.TEXT, Type.INTEGER.value))

    def _unit_score(self, coordinate: Coordinate) -> UnitSum:
        """Return the score of one coordinate over a unit's rows."""
        products = self.factors.product_columns
        factor = integer_literal(self.grid.design.scale) if coordinate.column is None else products[coordinate.column]
        where = self._linear_predictor.level_condition(coordinate.levels) if coordinate.levels else None
        return UnitSum(call("*", self.negated_residual_steps, factor), where, self.grid.rows)

    def _score_in_steps(self, score: Expression) -> Expression:
        """τ: the nearest step of a score; units without a row of this value have 0."""
        steps, divisor = self.grid.max_score_steps, self.grid.divisor
        present = call("COALESCE", score, integer_literal(0))
        above_zero = call("+", present, integer_literal(steps * divisor + divisor // 2))
        return call("-", call("//", above_zero, integer_literal(divisor)), integer_literal(steps))

    def meat_plan_over_rows_of(self, plan: Aggregate) -> Aggregate:
        """Return the plan of the meat over the rows of another: one row per unit, with at most m of its rows."""
        rows = (
            plan.source
            if proven_rows_per_unit(plan.source) is not None
            else LimitRowsPerUnit(plan.source, self.grid.rows)
        )
        source = unused_source_number(rows)
        results = tuple(
            (f"score {index:03}", self._unit_score(coordinate))
            for index, coordinate in enumerate(self.grid.design.coordinates)
        )
        scores = [self._score_in_steps(Column(Field(source, "", name), measure.domain)) for name, measure in results]
        return replace(plan, source=PerUnit(rows, source, (), results), measures=self._count_and_products(scores))

    def _count_and_products(self, scores: Sequence[Expression]) -> tuple[Measure, ...]:
        """The number of units, which only bounds a unit and is not released, then every product."""
        return Count(), *(Sum(call("*", scores[j], scores[k])) for j, k in self.grid.coordinate_pairs)
