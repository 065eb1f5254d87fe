"""Logistic regression by noisy Newton steps, with intervals from the last scan.

Let S(β) = Σ (y − σ(β·x))·x be the score of the rows at hand, and β̂ its root. A scan at β₀, the coefficients that the
earlier scans led to, releases g̃ = S(β₀) + e and H̃ = H(β₀) + E, where H = −∂S/∂β. To first order S(β) = g − H·(β − β₀),
so that g̃ − H̃·(β̂ − β₀) is e − E·(β̂ − β₀): noise alone, whose covariance is known for every β̂. This is the score of a
least-squares fit with the Gram matrix H̃ (``inference.linear``), and the same test is inverted.

Theorem (far from β₀). Let one coefficient of a column |x| ≤ r be s above its value in β₀, the others unchanged. Then
its score S(β₀ + s) is that of the linear form at a step k/r, for some k between 1 − e^(−sr) and e^(sr) − 1. *Proof.*
The curvature w = σ(1 − σ) has |w′| ≤ w, so w(η + d) is within e^(±|d|) of w(η) (Bach 2010), and S(β₀ + s) − S(β₀) =
−∫ Σ w(η + tx)·x² dt over t from 0 to s, with |tx| ≤ tr. ∎ So a value is rejected only if the linear test rejects all
those k: an interval of the linear test from k₁/r to k₂/r above β₀ becomes one from ln(1 + k₁)/r to −ln(1 − k₂)/r. Close
to β₀ that is the same. An end by which the odds would change more than the curvature at β₀ can show, k₁ ≤ −1 or k₂ ≥ 1,
is unbounded: a rare value with hardly an event has no end below. All of it is computed from released numbers.

The other coefficients move with the tested one: what that leaves out is of second order in a step that the earlier
scans have made small; ``bench/inference.py`` measures it.

For the population the rows' own error is added: in a logistic model the score's covariance is H itself.

Earlier steps only lead to β₀. Eigenvalues of H̃ that its noise may have made are raised there, so that no step follows
noise far out. The last step is plain.

Designs of logistic regressions: the coordinates of a formula's rows, and the event whose odds are modelled.

The last coordinate of the design stands for the residual y − μ, so that the gradient is a row of its Gram matrix.

Scans of a logistic regression: its gradient and its curvature at released coefficients, in whole numbers.

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
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import (
    MAX_COORDINATES,
    MAX_GRADIENTS,
    MAX_MOMENTS,
    Coordinate,
    Design,
    DesignBuilder,
    Level,
    Moment,
    ScaledColumn,
    add_terms,
    category_values,
    largest_scale,
    value_literal,
)
from sfumato.inference.formula import RANGE_COUNTS, Formula, Term
from sfumato.inference.linear import CoefficientTest, LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.row_expressions import (
    COEFFICIENT_STEPS,
    LinearPredictor,
    integer_literal,
    real_literal,
    require_scaled_columns,
    rounded_coefficients,
)
from sfumato.inference.weighted_totals import OPPOSED, WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Measure, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.quoting import quoted
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement


@dataclass(frozen=True)
class LogisticDesign:
    """The design of a logistic regression: regressors, and an event of its target."""

    design: Design
    event: str
    """The SQL condition under which y is 1."""
    event_label: str
    """The target and the event, such as ``income[>50K]``."""

    @property
    def is_wide(self) -> bool:
        """Whether the curvature has too many sums to be measured: gradients alone then lead to the coefficients."""
        return len(self.design.gram_entry_count_by_moment) > MAX_MOMENTS

    @property
    def residual(self) -> int:
        """The index of the column that stands for y − μ."""
        return len(self.design.columns) - 1

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """The sums of a scan: gradients and weighted products, without the square of the residual."""
        return tuple(
            moment for moment in self.design.gram_entry_count_by_moment if moment.columns.count(self.residual) < 2
        )

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Every value of every category."""
        categories = enumerate(self.design.categories)
        return tuple((index, value) for index, category in categories for value in range(len(category.values)))

    @property
    def factor_sums(self) -> list[str]:
        """The SQL sums whose arguments are the factors of a scan: columns, values of categories, and the event."""
        columns = [f"SUM({column.sql})" for column in self.design.columns[:-1]]
        predicates = [self.design.categories[category].predicates[value] for category, value in self.levels]
        return ["COUNT(*)", *columns, *(f"COUNT(*) FILTER (WHERE {test})" for test in (*predicates, self.event))]


def logistic_design(
    formula: Formula, domains: Mapping[str, Domain], scale: int, event: object = None
) -> LogisticDesign:
    """Return the design of a formula whose target has an event; what nothing could measure is refused."""
    return _build_with_residual(_logistic_builder(formula, domains, scale), formula, event, MAX_COORDINATES**2)


def range_logistic_design(
    formula: Formula, domains: Mapping[str, Domain], scale: int, event: object = None
) -> LogisticDesign:
    """Return the design for prediction of a formula that ``logistic_design`` accepts: numbers as ranges, where that
    leaves few enough coordinates. Ranges follow any curve, so the square of a number is left out.
    """
    terms = tuple(term for term in formula.terms if not _is_square(term))
    for count in RANGE_COUNTS:
        builder = _logistic_builder(replace(formula, terms=terms), domains, scale, count)
        if len(builder.coordinates) < MAX_GRADIENTS:
            return _build_with_residual(builder, replace(formula, terms=terms), event, None)
    return logistic_design(formula, domains, scale, event)


def _is_square(term: Term) -> bool:
    return len(term) == 2 and term[0].column.lower() == term[1].column.lower()


def _logistic_builder(
    formula: Formula, domains: Mapping[str, Domain], scale: int, range_count: int = 0
) -> DesignBuilder:
    """Return the coordinates of a formula's regressors."""
    builder = DesignBuilder(scale, domains, range_count)
    add_terms(formula, builder)
    return builder


def _build_with_residual(
    builder: DesignBuilder, formula: Formula, event: object, max_moments: int | None
) -> LogisticDesign:
    """Add the residual, and return the design."""
    name, domain = builder.spelling_and_domain(formula.target)
    value = _event_value(name, domain, event)
    builder.names[name] = None
    builder.columns.append(ScaledColumn((name,), "0", Fraction(0), Fraction(1)))
    builder.add_block([Coordinate(column=len(builder.columns) - 1)])
    design = builder.build(formula, max_moments)
    return LogisticDesign(design, f"{quoted(name)} = {value_literal(value)}", f"{name}[{value}]")


def _event_value(name: str, domain: Domain, event: object) -> Value:
    """Return the value of the target that counts as 1: the named one, or the last of two."""
    if domain.type is Type.INTEGER and domain.range is not None and domain.values is None:
        low, high = domain.range
        if int(high) - int(low) > 1 and event is None:  # type: ignore[arg-type]
            raise _target_refusal(name, domain)
    elif domain.values is None and domain.type is not Type.BOOLEAN:
        raise _target_refusal(name, domain)
    values = category_values(name, domain)
    if event is None:
        if len(values) != 2:
            raise _target_refusal(name, domain)
        return values[-1]
    texts = [str(value) for value in values]
    if str(event) not in texts:
        raise InvalidParameter("event", event, f"a declared value of {name}: {', '.join(texts[:20])}")
    return values[texts.index(str(event))]


def _target_refusal(name: str, domain: Domain) -> InvalidParameter:
    rule = "a column with two declared values, or with more if event names the one to predict"
    fix = f"name the value of {name} to predict with event= (--event)"
    if domain.values is None:
        fix = f"declare the values of {name} in the policy; if there are more than two, name one with event= (--event)"
    return InvalidParameter("target", name, rule, fix=fix)


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
                (self.gradient_weight if is_gradient else curvature_weight(design.gram_entry_count_by_moment[moment]))
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
            self.logistic.design.gram_entry_count_by_moment,
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
    order = {moment: index for index, moment in enumerate(logistic.design.gram_entry_count_by_moment)}
    places = [order[moment] for moment in logistic.moments]
    all_values, all_deviations = np.zeros(len(order)), np.ones(len(order))
    all_values[places], all_deviations[places] = values, deviations
    return MomentEstimates.projected(all_values, all_deviations, logistic.design.constraints)


_FLOOR = 0.75
"""The least eigenvalue of the curvature in a step that is not the last, in units of its noise's σ·√p."""
_FARTHEST = 100.0
"""The largest change of a row's score of which the exponential is computed."""


@dataclass(frozen=True)
class LogisticFit(LinearFit):
    """A Newton step from the coefficients of one scan."""

    offset: Floats
    """β₀: the coefficient of every coordinate but the last, at which the scan was made."""
    count: float
    """The released number of rows."""

    @classmethod
    def from_scan(
        cls, noisy: NoisyScan, weights: ScanWeights, design: Design, *, one_row_per_unit: bool
    ) -> LogisticFit:
        """Return the step from a released scan; ``design`` may name reference values."""
        count, moments = row_count_and_estimates(noisy, weights)
        offset = np.array(noisy.coefficients) / COEFFICIENT_STEPS
        return cls(design, moments, one_row_per_unit, offset, count)

    @property
    def rows(self) -> float:
        return self.count

    @cached_property
    def target_middle_and_slope(self) -> tuple[float, float]:
        return 0.0, 1.0

    @cached_property
    def _coordinate_matrix(self) -> Floats:
        """The matrix with (β − β₀, −1) = matrix·(θ, 1)."""
        matrix = np.zeros((len(self.design.coordinates), len(self.regressors) + 1))
        matrix[:-1, :-1] = self.coordinate_basis
        matrix[:-1, -1] = -self.offset
        matrix[-1, -1] = -1
        return matrix

    @cached_property
    def error_variance(self) -> float:
        """1: the score's variance is the curvature."""
        return 1.0

    @cached_property
    def _start_coefficients(self) -> Floats:
        """β₀ as coefficients of the scaled regressors."""
        return np.asarray(np.linalg.lstsq(self.coordinate_basis, self.offset, rcond=None)[0])

    @cached_property
    def _max_regressor_sizes(self) -> Floats:
        """r: the largest size of every scaled regressor, centred where that is the intercept's part."""
        reaches = np.abs(self.coordinate_basis[1:]).max(axis=0, initial=0.0)
        return np.where(reaches > 0, reaches, np.abs(self.coordinate_basis[0]))

    def unrejected_interval(self, test: CoefficientTest, index: int, quantile: float) -> tuple[float, float]:
        """Return the values that the test does not reject, with their ends as far as the curvature may have changed."""
        start, reach = float(self._start_coefficients[index]), float(self._max_regressor_sizes[index])
        low, high = ((end - start) * reach for end in super().unrejected_interval(test, index, quantile))
        return start + _log1p_or_minus_infinity(low) / reach, start - _log1p_or_minus_infinity(-high) / reach

    def z_of_zero(self, test: CoefficientTest, index: int) -> float:
        """Return z at the step nearest to the estimate that a coefficient of 0 may be."""
        start, reach = float(self._start_coefficients[index]), float(self._max_regressor_sizes[index])
        step = min(max(-start * reach, -_FARTHEST), _FARTHEST)
        nearest = min(max((float(self.estimate[index]) - start) * reach, -math.expm1(-step)), math.expm1(step))
        return test.z(index, start + nearest / reach)

    @property
    def design_with_references(self) -> Design:
        """The design with the reference values of this fit named, so that later scans have the same coefficients."""
        categories = zip(self.design.categories, self.references, strict=True)
        return replace(
            self.design, categories=tuple(replace(category, reference=index) for category, index in categories)
        )

    def next_coefficients(self) -> tuple[int, ...]:
        """Return the coefficients of the next scan: a Newton step that does not follow noise."""
        gradient = self.coordinate_basis.T @ self.moments.gram(self.design)[:-1, -1]
        values, vectors = np.linalg.eigh(self._regressor_gram)
        floor = _FLOOR * self.curvature_deviation * math.sqrt(len(self.regressors))
        step = vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))
        return rounded_coefficients(self.offset + self.coordinate_basis @ step)

    @property
    def curvature_deviation(self) -> float:
        """The deviation of the noise of a diagonal entry of the curvature."""
        return float(np.linalg.norm(self.moments.factor[0]))


def _log1p_or_minus_infinity(step: float) -> float:
    """Return ln(1 + step), −∞ for a step of −1 or less."""
    return math.log1p(step) if step > -1 else -math.inf
