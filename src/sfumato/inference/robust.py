"""Least squares with robust errors: the sandwich of noisy moments and a noisy meat.

For the population the score g − Gβ has the covariance Σ e²·zzᵀ, whatever the variance of each row's error (Eicker 1967;
White 1980). The released meat stands for it. In the direction v of a coefficient (``inference.linear``) its part of the
variance is vᵀM̃v, a linear form of the released sums whose noise has a known deviation. One such deviation is added, as
to the variance of errors of one variance, so that noise seldom makes an interval too narrow. n/(n − p) corrects for the
fit (MacKinnon & White 1985, HC1), and n/(n − m) for as few as n/m units, where scores are added up by unit. Residuals
are those at the released coefficients: their distance from the least squares of the rows adds to the meat, and on the
average never takes away from it.

The meat of robust errors: Σ e²·zzᵀ over rows, at released coefficients, with residuals clamped to a public limit.

Let z be a row's vector of regressors in steps, ‖z‖² ≤ N, and e its residual at coefficients that were released, clamped
to ±k, where k is computed from released numbers. q = e²/k² is rounded to Q steps of [0, 1], so 0 ≤ q ≤ Q for every row,
whatever it holds and however engines round. Measured are the different sums of M = Σ q·zzᵀ with the weights of a Gram
matrix (``inference.moments``).

Theorem (an added unit). ‖q·zzᵀ‖ = q‖z‖² ≤ Q·N in Frobenius norm, so at most m rows of a unit move M by at most m·Q·N.
It is attained by m equal rows with a residual of k.

Theorem (a replaced unit). The parts D and D′ of two units are sums of q·zzᵀ with q ≥ 0, so both are positive
semidefinite, ⟨D, D′⟩ = tr(D·D′) ≥ 0, and ‖D − D′‖² ≤ 2·(m·Q·N)²: √2 times as much, and not twice. ∎

The bound holds at every coefficient and every k, so both may be chosen after the first step has been released: the
composition of the two steps is adaptive (Bun & Steinke 2016, Lemma 2.3).

The meat clustered by unit: Σ ttᵀ over units, where t = Σ e·z is the score of all rows of one unit.

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.inference.design import MAX_MOMENTS, Coordinate, Design, Level, Moment, largest_scale
from sfumato.inference.linear import LinearFit
from sfumato.inference.moments import WEIGHT, MomentEstimates, gram_weights, moment_weight
from sfumato.inference.row_expressions import (
    COEFFICIENT_STEPS,
    LinearPredictor,
    integer_literal,
    real_literal,
    require_scaled_columns,
    rounded_coefficients,
)
from sfumato.inference.weighted_totals import NOT_OPPOSED, WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.aggregates.measures import MAX_STEPS, AggregateRequest, Count, Measure, Sum
from sfumato.plan.aggregates.unit_measures import UnitSum
from sfumato.plan.bounding import BoundedPlan, proven_rows_per_unit
from sfumato.plan.nodes import Aggregate, LimitRowsPerUnit, PerUnit, unused_source_number
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement

SQUARE_STEPS = 1 << 10
"""Q: the steps of a squared residual at the clamp."""
CLAMP_DEVIATIONS = 6
"""k in standard deviations of the residuals by released sums: 1 % of the variance of Laplace errors is beyond it."""
_LARGEST_CLAMP = Fraction(2)
"""The largest residual of a prediction within the declared bounds, where the target is scaled to [−1, 1]."""


def meat_scale(rows: int, blocks: int) -> int:
    """Return the most steps S of a regressor with which a unit's weighted products are measured exactly."""
    return largest_scale(rows * SQUARE_STEPS, blocks)


def residual_clamp(deviation: float, multiple: int = CLAMP_DEVIATIONS) -> Fraction:
    """Return k for a released standard deviation of residuals: a multiple of 1/F, at most the largest residual."""
    steps = max(16, math.ceil(min(multiple * deviation, float(_LARGEST_CLAMP)) * COEFFICIENT_STEPS))
    return min(_LARGEST_CLAMP, Fraction(steps, COEFFICIENT_STEPS))


@dataclass(frozen=True)
class MeatDesign:
    """What the meat is measured of: residuals on the fine scale of the moments, products on a coarser one."""

    residual: Design
    """The design of the regression; its last coordinate is the target."""
    products: Design
    """The same regressors on the meat's scale, without the target."""

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Every value of every category."""
        categories = enumerate(self.residual.categories)
        return tuple((index, value) for index, category in categories for value in range(len(category.values)))

    @property
    def distinct_column_sql(self) -> tuple[str, ...]:
        """The SQL of all columns on both scales, each text once: a statement has no sum twice."""
        return tuple(dict.fromkeys(column.sql for column in (*self.residual.columns, *self.products.columns)))

    @property
    def factor_sums(self) -> list[str]:
        """The SQL sums whose arguments are the factors of a row: columns on both scales, and values of categories."""
        columns = [f"SUM({text})" for text in self.distinct_column_sql]
        predicates = [self.residual.categories[category].predicates[value] for category, value in self.levels]
        return ["COUNT(*)", *columns, *(f"COUNT(*) FILTER (WHERE {test})" for test in predicates)]


@dataclass(frozen=True)
class MeatFactors:
    """The typed expressions of one row that the meat multiplies."""

    residual_columns: tuple[Expression, ...]
    product_columns: tuple[Expression, ...]
    levels: Mapping[Level, Expression]

    @classmethod
    def from_measures(cls, measures: Sequence[AggregateRequest], design: MeatDesign) -> MeatFactors:
        """Take them from the lowered sums of ``MeatDesign.factor_sums``."""
        texts = design.distinct_column_sql
        values = dict(zip(texts, (measure.value for measure in measures[1:]), strict=False))
        tests = [measure.where for measure in measures[1 + len(texts) :]]
        if len(tests) != len(design.levels) or None in tests:
            raise InvalidParameter(
                "measures", ValueWords("sums that do not match the factors"), "one sum for each factor of the meat"
            )
        by_level = dict(zip(design.levels, tests, strict=True))
        return cls(
            require_scaled_columns([values[column.sql] for column in design.residual.columns], design.residual.scale),
            require_scaled_columns([values[column.sql] for column in design.products.columns], design.products.scale),
            by_level,  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class MeatTerms:
    """The expressions of one row at some coefficients: its squared residual in whole steps, and its products."""

    design: MeatDesign
    factors: MeatFactors
    coefficients: tuple[int, ...]
    """The coefficient of each coordinate but the target, in multiples of 1/F."""
    clamp: Fraction

    @cached_property
    def square(self) -> Expression:
        """q: the squared residual within the clamp, in steps."""
        coefficients = (*self.coefficients, -COEFFICIENT_STEPS)
        predictor = LinearPredictor(
            self.design.residual, self.factors.residual_columns, self.factors.levels, coefficients
        )
        steps = call("*", call("*", predictor.value, predictor.value), real_literal(SQUARE_STEPS / self.clamp**2))
        # a plan knows no squares, so it is told that they are not negative
        within = call("GREATEST", call("LEAST", steps, real_literal(SQUARE_STEPS)), real_literal(0))
        return call("CAST", call("FLOOR", call("+", within, real_literal(0.5))), literal(Type.TEXT, Type.INTEGER.value))

    def measure(self, moment: Moment) -> Measure:
        """Return the sum of one product of regressors times q."""
        factors = [self.factors.product_columns[column] for column in moment.columns]
        value = reduce(lambda product, factor: call("*", product, factor), factors, self.square)
        tests = [self.factors.levels[level] for level in sorted(moment.levels)]
        return Sum(value, reduce(lambda first, second: call("AND", first, second), tests) if tests else None)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The number of rows, which only bounds a unit and is not released, then every sum."""
        return Count(), *map(self.measure, self.design.products.gram_entry_count_by_moment)


def meat_totals(bounded_plan: BoundedPlan, design: Design) -> WeightedTotals:
    """Return the sums of the meat as one vector, where ``design`` is that of the products: see the module's theorems.

    N is the largest ‖z‖² of a row, in squared steps: every regressor is within [−S, S].
    """
    weights, max_row_norm = gram_weights(design), len(design.blocks) * design.scale**2
    if len(bounded_plan.measures) != len(weights) + 1:
        raise InvalidParameter(
            "bounded",
            ValueWords(f"a plan with {len(bounded_plan.measures)}"),
            f"a plan with {len(weights) + 1} measures, the number of rows and every sum",
        )
    return WeightedTotals(bounded_plan, weights, (WEIGHT * SQUARE_STEPS * max_row_norm) ** 2, NOT_OPPOSED)


@codec.serialisable("noisy-meat")
@dataclass(frozen=True)
class NoisyMeat:
    """The released meat: the coefficients and the clamp of its residuals, and the weighted sums with their noise."""

    coefficients: tuple[int, ...]
    """The coefficient of every regressor's coordinate, in multiples of 1/4096."""
    clamp: Fraction
    totals: tuple[int, ...]
    mechanism: Gaussian

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(self.coefficients))
        object.__setattr__(self, "totals", tuple(self.totals))
        object.__setattr__(self, "clamp", exact(self.clamp, "clamp", POSITIVE))
        codec.check_simple_fields(self)
        for name, integers in (("totals", self.totals), ("coefficients", self.coefficients)):
            other = next((type(number).__name__ for number in integers if type(number) is not int), None)
            if other is not None:
                raise InvalidParameter(name, ValueWords(f"a list with a {other}"), "a list of whole numbers")
        if not self.totals:
            raise InvalidParameter("totals", self.totals, "a non-empty list of whole numbers")


@dataclass(frozen=True)
class MeatRelease(GroupTotalsRelease[NoisyMeat]):
    """The meat at released coefficients, a step on a tab."""

    batch: Batch
    coefficients: tuple[int, ...]
    clamp: Fraction

    @classmethod
    def at_coefficients(
        cls, totals: WeightedTotals, mechanism: Gaussian, coefficients: tuple[int, ...], clamp: Fraction
    ) -> MeatRelease:
        return cls(Batch((Measurement(totals, mechanism),)), coefficients, clamp)

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, ((),))

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    def draw_from(self, totals: Integers) -> NoisyMeat:
        (measurement,) = self.batch.measurements
        noisy = measurement.draw(measurement.reading.extract(totals))
        return NoisyMeat(self.coefficients, self.clamp, tuple(noisy.tolist()), measurement.mechanism)


def meat_estimates(noisy: NoisyMeat, design: Design) -> MomentEstimates:
    """Return the meat with the covariance of its noise, where regressors and the target are in [−1, 1]."""
    weights = np.array([moment_weight(entries) for entries in design.gram_entry_count_by_moment.values()], float)
    units = weights * float(design.scale) ** 2 * SQUARE_STEPS / float(noisy.clamp) ** 2
    deviations = float(noisy.mechanism.sizes[0]) / units
    return MomentEstimates.projected(np.array(noisy.totals, float) / units, deviations, design.constraints)


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


def score_grid(design: Design, max_rows_per_unit: int) -> ScoreGrid:
    """Return the grid of a design's regressors; one with too many products is refused."""
    grid = ScoreGrid(design, max_rows_per_unit)
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


def residual_coefficients(fit: LinearFit) -> tuple[int, ...]:
    """Return the coefficient of every regressor's coordinate, at which residuals are measured."""
    middle, slope = fit.target_middle_and_slope
    coefficients = fit.coordinate_basis @ fit.estimate
    coefficients[0] -= middle / slope
    return rounded_coefficients(coefficients)


def coordinate_ratios(design: Design, products: Design) -> Floats:
    """Return, for each regressor's coordinate of a design, one of it in units of the same coordinate on another scale.

    A whole number with few values is scaled by a whole number, which does not reach S steps on every scale alike.
    """
    slopes = [
        {column.factors: column.slope for column in compared_design.columns} for compared_design in (design, products)
    ]

    def ratio(coordinate: Coordinate) -> float:
        if coordinate.column is None:
            return 1.0
        factors = products.columns[coordinate.column].factors
        return math.prod(float(slopes[1][factor,] / slopes[0][factor,]) for factor in factors)

    return np.array([ratio(coordinate) for coordinate in products.coordinates])


@dataclass(frozen=True)
class RobustFit(LinearFit):
    """A least-squares fit whose sampling errors are from a released meat."""

    meat: MomentEstimates
    gram_index: NDArray[np.intp]
    """The index of each entry of the meat among its estimates; −1 where it is 0."""
    ratios: Floats
    """What one of each regressor's coordinates is in units of the meat's, where steps of both scales differ."""
    clamp: float
    """k, in units of the scaled target."""
    rows_per_unit: int = 1
    """m: the most rows of a unit, whose scores are added up."""

    @classmethod
    def from_meat(cls, fit: LinearFit, noisy: NoisyMeat, products: Design) -> RobustFit:
        """Return the fit with the errors of a released meat."""
        meat, ratios = meat_estimates(noisy, products), coordinate_ratios(fit.design, products)
        clamp = float(noisy.clamp)
        return cls(fit.design, fit.moments, fit.one_row_per_unit, meat, products.gram_index, ratios, clamp)

    @classmethod
    def clustered(cls, fit: LinearFit, noisy: NoisyMeat, grid: ScoreGrid) -> RobustFit:
        """Return the fit with the errors of a released meat that is clustered by unit."""
        meat, ratios = grid.meat_estimates(noisy), coordinate_ratios(fit.design, grid.design)
        clamp = float(noisy.clamp)
        return cls(fit.design, fit.moments, fit.one_row_per_unit, meat, grid.gram_index, ratios, clamp, grid.rows)

    @property
    def shows_sampling_errors(self) -> bool:
        """Whether sampling errors are known: always, since scores of rows that correlate were added up."""
        return True

    def sampling_variance(self, direction: Floats) -> float:
        """Return the variance of the score in one direction: that of the meat and one deviation of its noise."""
        weights = self.ratios * (self.coordinate_basis @ direction)
        index = self.gram_index
        by_moment = np.zeros(len(self.meat.values))
        np.add.at(by_moment, index[index >= 0], np.outer(weights, weights)[index >= 0])
        value = float(by_moment @ self.meat.values)
        deviation = float(np.linalg.norm(by_moment @ self.meat.factor))
        freedom = max(1.0, self.rows - len(self.regressors))
        units = 1.0 if self.rows_per_unit == 1 else self.rows / max(1.0, self.rows - self.rows_per_unit)
        return max(value + deviation, deviation) * max(1.0, self.rows / freedom) * max(1.0, units)
