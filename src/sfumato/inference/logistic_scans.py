"""Scans of a logistic regression: its gradient and its curvature at released coefficients, in whole numbers.

Let z be a row's vector of regressors in steps, ‖z‖² ≤ N, and y its event, 0 or 1. At coefficients β, which were
released or are 0, μ = σ(β·z) is rounded to R steps of [0, 1], r = y − μ, and w = μ(1 − μ) is rounded to a quarter of
its steps. A scan measures the number of rows, the gradient g = Σ r·z and the curvature H = Σ w·zzᵀ, whose different
entries are each measured once (``inference.moments``), with whole weights c, a and C·√e.

Theorem (an added unit). One row moves the measured vector by ‖·‖² = c² + a²r²‖z‖² + C²w²‖z‖⁴, at most c² + max(a²r²N +
C²w²N²), with the maximum over all R + 1 values of μ: w and, up to its sign, r are functions of μ alone, the same for
y = 1 at μ as for y = 0 at 1 − μ. It is enumerated, not approximated. At most m rows of a unit count, and by the
triangle inequality they move it by at most m times as much. ∎

Theorem (a replaced unit). Its rows are exchanged for at most m others: twice as much, by the triangle inequality.
Unlike a Gram matrix's, parts of a gradient may oppose each other, so there is no √2. ∎

The curvature is nearly free. In units of the gradient's largest part, a²r²N + C²w²N² is r²·(1 + k(1 − r)²) with k =
C²N/a², and for k ≤ 11 its maximum over r in [0, 1] is 1, at r = 1: a row that is far from its prediction has little
curvature. So a is the least whole number with k ≤ 11, and c is an eighth of the gradient's norm, which costs 1 %.

The sigmoid is computed in doubles and rounded to 1/R. Engines may differ in the last bit of EXP and then, once in about
10¹¹ rows, by one step of μ; every value of μ is covered by the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import Level, Moment, largest_scale
from sfumato.inference.logistic_design import LogisticDesign
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.row_expressions import LinearPredictor, integer_literal, real_literal, require_scaled_columns
from sfumato.inference.weighted_totals import OPPOSED, WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Measure, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement

SCAN_SHARES = tuple(Fraction(percent, 100) for percent in (5, 5, 10, 15, 25, 40))
"""The share of ρ of each scan, of which there are as many: five that approach the coefficients, and the one that
intervals are from. On ADULT at ε = 0.3, five even shares of 6 % left the last scan so far from the root that intervals
missed it three times as often as they say; with these they do not, and are no wider."""
CURVATURE_STEPS = 1 << 6
"""The steps of w at its largest, 1/4."""
CURVATURE_WEIGHT = 17
"""C: √2·17 = 24.04 and √3·17 = 29.4, so that whole weights lose nearly nothing, and the noise of low prices can be
drawn exactly."""
_MAX_MEAN_STEPS = 1 << 14
_MAX_UNIT_STEPS = 1 << 26
_FARTHEST_SCORE = 30
"""Beyond it the sigmoid is 0 or 1 to all its steps."""
_FREE_CURVATURE = 11
_COUNT_SHARE = 64


def scan_scale(rows: int, blocks: int) -> int:
    """Return the most steps S of a regressor with which a unit's weighted products are measured exactly."""
    return largest_scale(rows * CURVATURE_STEPS, blocks)


@dataclass(frozen=True)
class ScanFactors:
    """The typed expressions of one row that every scan multiplies."""

    columns: tuple[Expression, ...]
    levels: Mapping[Level, Expression]
    event: Expression

    @classmethod
    def from_measures(cls, measures: Sequence[AggregateRequest], logistic: LogisticDesign) -> ScanFactors:
        """Take them from the lowered sums of ``LogisticDesign.factor_sums``."""
        count = len(logistic.design.columns) - 1
        columns = tuple(measure.value for measure in measures[1 : 1 + count])
        tests = [measure.where for measure in measures[1 + count :]]
        if len(tests) != len(logistic.levels) + 1 or None in tests:
            raise InvalidParameter(
                "measures", ValueWords("sums that do not match the factors"), "one sum for each factor of a scan"
            )
        *levels, event = tests
        by_level = dict(zip(logistic.levels, levels, strict=True))
        return cls(require_scaled_columns(columns, logistic.design.scale), by_level, event)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ScanRowTerms:
    """The expressions of one row at some coefficients: μ, r and w in whole steps."""

    logistic: LogisticDesign
    factors: ScanFactors
    coefficients: tuple[int, ...]
    """The coefficient of each coordinate but the last, in multiples of 1/F."""
    mean_steps: int

    @cached_property
    def linear_predictor(self) -> LinearPredictor:
        return LinearPredictor(self.logistic.design, self.factors.columns, self.factors.levels, self.coefficients)

    @cached_property
    def mean(self) -> Expression:
        """μ in steps: σ of the linear predictor within its farthest ends, rounded to the nearest."""
        odds = call("EXP", self.linear_predictor.negated_within(_FARTHEST_SCORE))
        mean = call(
            "+", call("/", real_literal(float(self.mean_steps)), call("+", real_literal(1.0), odds)), real_literal(0.5)
        )
        steps = call("CAST", call("FLOOR", mean), literal(Type.TEXT, Type.INTEGER.value))
        return call("LEAST", call("GREATEST", steps, integer_literal(0)), integer_literal(self.mean_steps))

    @cached_property
    def residual(self) -> Expression:
        """r in steps of μ."""
        return call(
            "-", call("CASE", self.factors.event, integer_literal(self.mean_steps), integer_literal(0)), self.mean
        )

    @cached_property
    def weight(self) -> Expression:
        """w in its steps; the clamp says to the plan what μ(1 − μ) ≤ 1/4 says to us."""
        product = call("*", self.mean, call("-", integer_literal(self.mean_steps), self.mean))
        unit = weight_unit(self.mean_steps)
        return call(
            "LEAST",
            call("//", call("+", product, integer_literal(unit // 2)), integer_literal(unit)),
            integer_literal(CURVATURE_STEPS),
        )

    def measure(self, moment: Moment) -> Measure:
        """Return the sum of one moment."""
        residual = self.logistic.residual
        first = self.residual if residual in moment.columns else self.weight
        factors = [self.factors.columns[column] for column in moment.columns if column != residual]
        value = reduce(lambda product, factor: call("*", product, factor), factors, first)
        return Sum(value, self.linear_predictor.level_condition(moment.levels) if moment.levels else None)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The number of rows, then every moment."""
        return Count(), *map(self.measure, self.logistic.moments)


def curvature_weight(entries: int) -> int:
    """Return ⌊C·√e⌋, the weight of a sum that stands for so many entries of the curvature."""
    return math.isqrt(CURVATURE_WEIGHT**2 * entries)


def weight_unit(mean_steps: int) -> int:
    """Return how many products of steps of μ and of 1 − μ are one step of w."""
    return mean_steps**2 // (4 * CURVATURE_STEPS)


def mean_steps(rows: int, scale: int) -> int:
    """Return R, a power of two, with which the gradient of a unit's rows is measured exactly."""
    steps = _MAX_MEAN_STEPS
    while steps * scale * rows > _MAX_UNIT_STEPS:
        steps //= 2
    return steps


@dataclass(frozen=True)
class ScanWeights:
    """The weights of the number of rows, the gradient and the curvature in one measured vector."""

    logistic: LogisticDesign
    mean_steps: int

    def totals(self, bounded_plan: BoundedPlan) -> WeightedTotals:
        """Return the sums of a plan as one vector."""
        if len(bounded_plan.measures) != len(self.weights):
            raise InvalidParameter(
                "bounded",
                ValueWords(f"a plan with {len(bounded_plan.measures)}"),
                f"a plan with {len(self.weights)} exact sums, one for each moment",
            )
        return WeightedTotals(bounded_plan, self.weights, self.row_squares, OPPOSED)

    @property
    def max_row_norm(self) -> int:
        """N: the largest ‖z‖² of a row, in squared steps: every regressor is within [−S, S]."""
        return (len(self.logistic.design.blocks) - 1) * self.logistic.design.scale**2

    @cached_property
    def gradient_weight(self) -> int:
        """a: the least weight of the gradient for which the curvature is free."""
        squared_units = CURVATURE_WEIGHT**2 * (4 * CURVATURE_STEPS) ** 2 * self.max_row_norm
        return math.isqrt(squared_units // (_FREE_CURVATURE * self.mean_steps**2)) + 1

    @cached_property
    def row_count_weight(self) -> int:
        """c: the weight of the number of rows."""
        return math.isqrt((self.gradient_weight * self.mean_steps) ** 2 * self.max_row_norm // _COUNT_SHARE)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The whole weight of each sum in the measured vector."""
        design, weights = self.logistic.design, [self.row_count_weight]
        for moment in self.logistic.moments:
            missing = design.scale ** (2 - len(moment.columns))
            is_gradient = self.logistic.residual in moment.columns
            weights.append(
                (self.gradient_weight if is_gradient else curvature_weight(design.gram_entries_by_moment[moment]))
                * missing
            )
        return tuple(weights)

    @cached_property
    def row_squares(self) -> int:
        """The largest squared length by which one row moves the vector: see the module's theorem."""
        unit, norm = weight_unit(self.mean_steps), self.max_row_norm
        largest = 0
        for mean in range(self.mean_steps + 1):
            weight = min(CURVATURE_STEPS, (mean * (self.mean_steps - mean) + unit // 2) // unit)
            moved = (self.gradient_weight * mean) ** 2 * norm + (CURVATURE_WEIGHT * weight * norm) ** 2
            largest = max(largest, moved)
        return self.row_count_weight**2 + largest

    @property
    def deviation_units(self) -> Floats:
        """The value of each sum's unit noise, where a regressor is in [−1, 1], r in [−1, 1] and w in [0, 1/4]."""
        scale, residual, entries = (
            self.logistic.design.scale,
            self.logistic.residual,
            self.logistic.design.gram_entries_by_moment,
        )
        gradient = self.gradient_weight * self.mean_steps * scale
        curvature = 4 * CURVATURE_STEPS * scale**2
        units = [
            gradient if residual in moment.columns else curvature_weight(entries[moment]) * curvature
            for moment in self.logistic.moments
        ]
        return 1.0 / np.array([float(self.row_count_weight), *map(float, units)])


@codec.serialisable("logistic-scan")
@dataclass(frozen=True)
class NoisyScan:
    """A released scan: the coefficients that it was made at, and the weighted sums with their noise."""

    coefficients: tuple[int, ...]
    """The coefficient of every coordinate, in multiples of 1/4096."""
    totals: tuple[int, ...]
    mechanism: Gaussian

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(self.coefficients))
        object.__setattr__(self, "totals", tuple(self.totals))
        codec.check_simple_fields(self)
        if not self.totals or not all(type(number) is int for number in (*self.totals, *self.coefficients)):
            raise InvalidParameter(
                "totals",
                ValueWords("values that are not whole numbers" if self.totals else "an empty list"),
                "lists of whole numbers",
            )


@dataclass(frozen=True)
class ScanRelease(GroupTotalsRelease[NoisyScan]):
    """One scan at some coefficients, a step on a tab."""

    batch: Batch
    coefficients: tuple[int, ...]

    @classmethod
    def at_coefficients(cls, totals: WeightedTotals, mechanism: Gaussian, coefficients: tuple[int, ...]) -> ScanRelease:
        return cls(Batch((Measurement(totals, mechanism),)), coefficients)

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, ((),))

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    def draw_from(self, totals: Integers) -> NoisyScan:
        (measurement,) = self.batch.measurements
        noisy = measurement.draw(measurement.reading.extract(totals))
        return NoisyScan(self.coefficients, tuple(noisy.tolist()), measurement.mechanism)


def row_count_and_estimates(noisy: NoisyScan, weights: ScanWeights) -> tuple[float, MomentEstimates]:
    """Return the released number of rows, and the gradient and curvature as moments with their noise."""
    values, deviations = scan_values_and_deviations(noisy, weights)
    return float(values[0]), design_moments(values[1:], deviations[1:], weights.logistic)


def scan_values_and_deviations(noisy: NoisyScan, weights: ScanWeights) -> tuple[Floats, Floats]:
    """Return the released sums and the deviations of their noise."""
    units = weights.deviation_units
    return np.array(noisy.totals, float) * units, float(noisy.mechanism.sizes[0]) * units


def design_moments(values: Floats, deviations: Floats, logistic: LogisticDesign) -> MomentEstimates:
    """Return the sums of a scan as moments of the design; the square of the residual, which nothing reads, stays 0."""
    order = {moment: index for index, moment in enumerate(logistic.design.gram_entries_by_moment)}
    places = [order[moment] for moment in logistic.moments]
    all_values, all_deviations = np.zeros(len(order)), np.ones(len(order))
    all_values[places], all_deviations[places] = values, deviations
    return MomentEstimates.projected(all_values, all_deviations, logistic.design.constraints)
