"""The meat of robust errors: Σ e²·zzᵀ over rows, at released coefficients, with residuals clamped to a public limit.

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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import Design, Level, Moment, largest_scale
from sfumato.inference.moments import WEIGHT, MomentEstimates, gram_weights, moment_weight
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, LinearPredictor, real_literal, require_scaled_columns
from sfumato.inference.weighted_totals import NOT_OPPOSED, WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Measure, Sum
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Expression
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
        return Count(), *map(self.measure, self.design.products.gram_entries_by_moment)


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
    weights = np.array([moment_weight(entries) for entries in design.gram_entries_by_moment.values()], float)
    units = weights * float(design.scale) ** 2 * SQUARE_STEPS / float(noisy.clamp) ** 2
    deviations = float(noisy.mechanism.sizes[0]) / units
    return MomentEstimates.projected(np.array(noisy.totals, float) / units, deviations, design.constraints)
