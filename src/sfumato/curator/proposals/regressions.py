"""A proposal of a regression: the moments of a formula's columns, measured once, and the table computed from them.

Which estimator is used is fixed before the charge: least squares on the plain noisy moments, without a ridge, since
a ridge would bias the intervals.

A proposal of a regression with robust errors: the moments, then the meat at their coefficients, on one tab.

Both steps, their order and their shares of ρ are fixed before the charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.moment_proposals import (
    DEFAULT_DELTA,
    AssumedPrice,
    MomentsProposal,
    lower_sums,
    moment_question_and_design,
)
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_release
from sfumato.curator.proposals.tab_releases import OpenTabRunner, SteppedRelease
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.design import Design, assumed_moments, regression_design, regressor_design
from sfumato.inference.formula import Formula, formula_of_columns, parse_formula
from sfumato.inference.linear import LinearFit
from sfumato.inference.moments import WEIGHT, MomentEstimates, MomentsRelease, NoisyMoments
from sfumato.inference.noise_laws import StepNoise, calibrated_step_noise
from sfumato.inference.regression_answers import (
    COLUMNS,
    TYPES,
    WEAK,
    RegressionAnswer,
    regression_answer,
    robust_answer,
)
from sfumato.inference.robust import (
    CLAMP_DEVIATIONS,
    CLUSTER_CLAMP_DEVIATIONS,
    SQUARE_STEPS,
    ClusteredMeatTerms,
    MeatDesign,
    MeatFactors,
    MeatRelease,
    MeatTerms,
    NoisyMeat,
    RobustFit,
    ScoreGrid,
    meat_scale,
    meat_totals,
    residual_clamp,
    residual_coefficients,
    score_grid,
)
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.bounding import BoundedPlan, bound_by_whole_rows, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.plan.nodes import Aggregate
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    format_number,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, is_stored
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress


@codec.serialisable("regression-forecast")
@dataclass(frozen=True)
class RegressionForecast:
    """The ± of every coefficient's noise before the purchase, for assumed data."""

    terms: tuple[str, ...]
    widths: tuple[float, ...]
    confidence: Fraction
    assumed: str
    """What the forecast assumes of the data."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether stored moments are at least as accurate: the release is then free."""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    """The limits per unit in words; empty if all rows count."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.parse_float(width, "widths") for width in self.widths))
        if len(self.terms) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "a list with one half-width for each term")

    def __getitem__(self, term: str) -> float:
        """Return the half-width of one coefficient."""
        if term not in self.terms:
            raise InvalidParameter("term", term, f"one of {', '.join(self.terms)}")
        return self.widths[self.terms.index(term)]

    def to_json(self) -> str:
        """Serialize the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> RegressionForecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        pairs = zip(self.terms, self.widths, strict=True)
        widths = ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs)
        lines = [f"{widths}; {format_percent(self.confidence)} confidence, {self.assumed}"]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ForecastBasis:
    """The moments that a forecast is for, and where they are from."""

    moments: Floats
    words: str


@dataclass(frozen=True, repr=False)
class RegressionProposal(MomentsProposal[RegressionAnswer]):
    """A proposal of a linear regression; only ``release`` spends."""

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return tuple(AnswerColumn(name, kind) for name, kind in zip(COLUMNS, TYPES, strict=True))

    @property
    def one_row_per_unit(self) -> bool:
        """Whether rows are independent, so that sampling errors can be computed from them."""
        return self.moments.rows_per_unit == 1

    @property
    def shows_sampling_errors(self) -> bool:
        """Whether the table has sampling errors, z and p."""
        return self.one_row_per_unit

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        forecast = self._forecast(draw, confidence)
        operators = (
            *self._explain_moments(draw),
            *self._explain_fit(forecast),
        )
        notes = (
            *assumed.notes,
            *self.question.warnings,
            *self._context.epsilon_total_warnings(self._charged_curve(draw)),
        )
        reason = "one discrete Gaussian noise for each different sum; no ridge, which would bias the intervals"
        return Explanation(self.question.text, str(draw.total), operators, reason, (*notes, *forecast.warnings))

    def _charged_curve(self, draw: MomentsRelease) -> Curve:
        """Return the privacy curve of all that is bought."""
        return draw.batch.curve

    def _explain_fit(self, forecast: RegressionForecast) -> tuple[PlanStep, ...]:
        errors = "noise and sampling" if self.shows_sampling_errors else "noise alone: rows of one unit correlate"
        pairs = list(zip(forecast.terms, forecast.widths, strict=True))[:4]
        widths = ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs)
        return (
            PlanStep("fit", f"least squares, {count_with_noun(len(forecast.terms), 'coefficient')}", f"{errors}; free"),
            PlanStep("expect", widths, forecast.assumed),
            *explain_period_charges(self._context),
        )

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        fresh: bool = False,
    ) -> RegressionForecast:
        """Forecast the ± of every coefficient's noise at this price, for moments that were released before, or else for
        assumed data. This is free.
        """
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        stored = not fresh and is_stored(draw, self.plan_key, self._context)
        forecast = self._forecast(draw, confidence)
        closing = () if stored else self._context.epsilon_total_warnings(self._charged_curve(draw))
        return replace(
            forecast, stored=stored, warnings=(*assumed.notes, *self.question.warnings, *closing, *forecast.warnings)
        )

    def price(
        self,
        within: Mapping[str, Number] | Number,
        *,
        delta: Number = DEFAULT_DELTA,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Find the least ε, at this δ, at which the forecast ± of these coefficients, or of all, is at most this."""
        basis = self._forecast_basis()
        terms = self._forecast(self._strategy_at(Price(1, delta)), confidence, basis).terms
        goals = dict(within) if isinstance(within, Mapping) else dict.fromkeys(terms, within)
        unknown = [name for name in goals if name not in terms]
        if unknown or not goals:
            raise InvalidParameter(
                "within",
                unknown[:1] or within,
                f"a mapping from terms ({', '.join(terms)}) to half-widths",
                fix=f'for example, write within={{"{next(iter(terms), "age")}": 0.5}}',
            )
        limits = {name: float(exact(goal, name, POSITIVE)) for name, goal in goals.items()}

        def is_within(draw: MomentsRelease) -> bool:
            forecast = self._forecast(draw, confidence, basis)
            return all(forecast[name] <= limit for name, limit in limits.items())

        return self._least_epsilon(delta, is_within)

    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> RegressionAnswer:
        """Build the table from released moments."""
        noisy = result.value
        fit = LinearFit(self.design, MomentEstimates.from_noisy_moments(noisy, self.design), self.one_row_per_unit)
        return regression_answer(fit, self.receipt(result, confidence), self.question.warnings)

    def _forecast(
        self, draw: MomentsRelease, confidence: Number, basis: ForecastBasis | None = None
    ) -> RegressionForecast:
        basis = basis or self._forecast_basis()
        estimates = MomentEstimates.assumed(basis.moments, draw.mechanism, self.design)
        fit = LinearFit(self.design, estimates, self.one_row_per_unit)
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        ratio, names = fit.weakest_direction_and_terms
        warning = f"{' and '.join(names)} can hardly be distinguished at this price" if ratio < WEAK else ""
        return RegressionForecast(
            tuple(regressor.label for regressor in fit.regressors),
            tuple(fit.noise_half_widths(float(confidence_level)).tolist()),
            confidence_level,
            basis.words,
            price_and_accounts_phrase(draw.total, self._context),
            all(budget.affords(self._charged_curve(draw)) for budget in self._context.budgets),
            warnings=(warning,) if warning else (),
            counted=describe_dropped_rows([draw.batch.bounded]),
        )

    def _forecast_basis(self) -> ForecastBasis:
        """Return the moments of an earlier release, where its noise does not hide the weakest direction of the columns;
        assumed ones otherwise: widths forecast from noise would be those of noise.
        """
        noisy, rows = self.newest_moments(), self.assumed_rows
        if noisy is not None:
            estimates = MomentEstimates.from_noisy_moments(noisy, self.design)
            if LinearFit(self.design, estimates, self.one_row_per_unit).weakest_direction_and_terms[0] >= WEAK:
                return ForecastBasis(estimates.values, "for the moments that were released before")
        words = f"for {rows:,} rows of independent columns, spread evenly over their declared ranges"
        return ForecastBasis(assumed_moments(self.design, rows), words)


def parse_formula_or_columns(
    formula: str | None, target: str | None, on: Sequence[str] | None, method: str = "regress"
) -> Formula:
    """Parse a formula, or a target and the columns that explain it."""
    if formula is not None:
        if target is not None or on:
            raise InvalidParameter("target", target, "left out if formula is given")
        return parse_formula(formula)
    if target is None or not on or isinstance(on, str):
        fix = f'write {method}("hours ~ age + sex", "people"), or target="hours", on=["age", "sex"]'
        raise InvalidParameter("formula", formula, "given, unless target and on are given instead", fix=fix)
    return formula_of_columns(target, on)


STEP_SHARES = Fraction(4, 5), Fraction(1, 5)
"""The share of ρ of the moments and of the meat. On ADULT at ε = 1 the meat's part of an interval is then known to
about 5 %, and a larger share widens the interval by the noise of the moments more than it gains."""
CLUSTERED_STEP_SHARES = STEP_SHARES
"""The shares where the meat is clustered by unit."""


@dataclass(frozen=True, repr=False)
class RobustProposal(RegressionProposal):
    """A proposal of a linear regression whose sampling errors need no common variance; only ``release`` spends."""

    meat_question: Question = field(repr=False)
    meat_design: MeatDesign = field(repr=False)

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured: the meat belongs to one model."""
        terms = (repr(self.design.formula), *map(str, STEP_SHARES), self.meat_design.products.scale)
        return self.question.plan_key.derive(lambda key: digest("robust", key, *terms))

    @cached_property
    def _meat_factors(self) -> MeatFactors:
        return MeatFactors.from_measures(self.meat_question.query.plan.measures, self.meat_design)

    @property
    def shows_sampling_errors(self) -> bool:
        return True

    def meat_terms_at(self, coefficients: tuple[int, ...], clamp: Fraction) -> MeatTerms:
        """Return what a row adds to the meat at these coefficients."""
        return MeatTerms(self.meat_design, self._meat_factors, coefficients, clamp)

    def meat_totals_at(self, coefficients: tuple[int, ...], clamp: Fraction) -> WeightedTotals:
        """Return the sums of the meat at these coefficients."""
        plan = replace(self.meat_question.query.plan, measures=self.meat_terms_at(coefficients, clamp).measures)
        return meat_totals(self._bounded_plan(plan), self.meat_design.products)

    def _bounded_plan(self, plan: Aggregate) -> BoundedPlan:
        bounded = bound_by_whole_rows(plan, self.meat_question.limits, 1)
        return for_neighbours(bounded, self._context.policy.neighbours)

    @cached_property
    def _meat_at_zero(self) -> WeightedTotals:
        """The meat of coefficients of 0: what one unit changes is the same at all."""
        return self.meat_totals_at(self._zero_coefficients, residual_clamp(1.0))

    @property
    def _zero_coefficients(self) -> tuple[int, ...]:
        return (0,) * (len(self.design.coordinates) - 1)

    @property
    def step_shares(self) -> tuple[Fraction, ...]:
        """The share of ρ of the moments and of the meat."""
        return STEP_SHARES

    @property
    def clamp_deviations(self) -> int:
        """Where residuals are clamped, in standard deviations."""
        return CLAMP_DEVIATIONS

    def _step_noise(self, price: Price) -> StepNoise:
        return calibrated_step_noise(
            (self.moments.sensitivity, self._meat_at_zero.sensitivity), self.step_shares, price
        )

    def _strategy_at(self, price: Price) -> MomentsRelease:
        mechanism = self._step_noise(price).mechanisms[0]
        return MomentsRelease.with_noise(self.moments, self.design, mechanism, price, self._context.version)

    def _charged_curve(self, draw: MomentsRelease) -> Curve:
        return self._step_noise(draw.total).curve

    def _explain_fit(self, forecast: RegressionForecast) -> tuple[PlanStep, ...]:
        sums = count_with_noun(len(self._meat_at_zero.weights), "sum")
        meat = PlanStep(
            "second step",
            f"{sums} {self._meat_words}",
            f"at the released coefficients; residuals are clamped at {self.clamp_deviations} standard deviations, "
            f"computed from released sums; {format_percent(self.step_shares[1])} of ρ",
        )
        return meat, *super()._explain_fit(forecast)

    @property
    def _meat_words(self) -> str:
        return "of products times squared residuals"

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        sample: Number | None = None,
        fresh: bool = False,  # noqa: ARG002 - steps on a tab are always bought anew
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> RegressionAnswer:
        """Hold the price, buy the moments and the meat, and return the table. The same ``request_id`` returns it again,
        free, also at another confidence; without one, every call buys a new answer.
        """
        refuse_sample_of_release(sample, "regressions and components")
        exact(confidence, "confidence", CONFIDENCE)
        price = Price(epsilon, delta, rho)
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        stepped = SteppedRelease(
            self._context, self.question.text, self.plan_key, "robust", RegressionAnswer, self._rebuild_from_steps
        )
        stored_answer = stepped.find_stored(call, confidence)
        if stored_answer is not None:
            return stored_answer
        first = self._strategy_at(price)
        second = self._meat_release(self._zero_coefficients, residual_clamp(1.0), price)
        return stepped.open_tab_and_run(
            price,
            self._step_noise(price).curves,
            first,
            second.readings,
            lambda result: self._dry_run_answer(result, price, confidence),
            lambda steps: self._run_steps(steps, first, confidence),
            call,
            confidence,
        )

    def _run_steps(self, steps: OpenTabRunner, first: MomentsRelease, confidence: Number) -> RegressionAnswer:
        """Release the moments, then the meat at their coefficients."""
        noisy = steps.charge_and_release(first, "moments")
        meat = steps.charge_and_release(
            self._meat_release(*self._coefficients_and_clamp(self._fit(noisy)), first.total), "squared residuals"
        )
        return self._robust_answer(steps.with_opening_line(noisy), meat, confidence)

    def _rebuild_from_steps(self, stored_answer: RegressionAnswer, step_values: Sequence[Any]) -> RegressionAnswer:
        """Return the table of both released steps."""
        noisy, meat = step_values
        return robust_answer(self._robust_fit(self._fit(noisy), meat), stored_answer.receipt, self.question.warnings)

    def _dry_run_answer(self, result: StoredResult[NoisyMoments], price: Price, confidence: Number) -> RegressionAnswer:
        meat = self._meat_release(*self._coefficients_and_clamp(self._fit(result.value)), price)
        return self._robust_answer(result, releasing.dry_run(meat).value, confidence)

    def _fit(self, noisy: NoisyMoments) -> LinearFit:
        return LinearFit(self.design, MomentEstimates.from_noisy_moments(noisy, self.design), self.one_row_per_unit)

    def _coefficients_and_clamp(self, fit: LinearFit) -> tuple[tuple[int, ...], Fraction]:
        """Return the coefficients and the clamp of the second step; both follow from the first, which is public."""
        return residual_coefficients(fit), residual_clamp(fit.error_variance**0.5, self.clamp_deviations)

    def _meat_release(self, coefficients: tuple[int, ...], clamp: Fraction, price: Price) -> MeatRelease:
        totals, mechanism = self.meat_totals_at(coefficients, clamp), self._step_noise(price).mechanisms[1]
        return MeatRelease.at_coefficients(totals, mechanism, coefficients, clamp)

    def _robust_answer(
        self, result: StoredResult[NoisyMoments], meat: NoisyMeat, confidence: Number
    ) -> RegressionAnswer:
        receipt = self.receipt(result, confidence)
        receipt = replace(receipt, mechanisms=(*receipt.mechanisms, self._noise_words(meat.mechanism)))
        return robust_answer(self._robust_fit(self._fit(result.value), meat), receipt, self.question.warnings)

    def _robust_fit(self, fit: LinearFit, meat: NoisyMeat) -> RobustFit:
        return RobustFit.from_meat(fit, meat, self.meat_design.products)

    def _noise_words(self, mechanism: Gaussian) -> str:
        unit_value = Fraction(1, WEIGHT * self.meat_design.products.scale**2 * SQUARE_STEPS)
        return f"{mechanism.words(unit_value)} on sums of squared residuals, up to 1, times such squares"


@dataclass(frozen=True, repr=False)
class ClusteredProposal(RobustProposal):
    """A proposal of a linear regression whose sampling errors hold for correlated rows of a unit."""

    grid: ScoreGrid = field(repr=False)

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured: the meat belongs to one model."""
        terms = (repr(self.design.formula), *map(str, self.step_shares), self.grid.rows, self.grid.max_score_steps)
        return self.question.plan_key.derive(lambda key: digest("clustered", key, *terms))

    @property
    def step_shares(self) -> tuple[Fraction, ...]:
        return CLUSTERED_STEP_SHARES

    @property
    def clamp_deviations(self) -> int:
        return CLUSTER_CLAMP_DEVIATIONS

    def score_terms_at(self, coefficients: tuple[int, ...], clamp: Fraction) -> ClusteredMeatTerms:
        """Return the scores of a unit at these coefficients."""
        return ClusteredMeatTerms(self.meat_design, self._meat_factors, coefficients, clamp, self.grid)

    def meat_totals_at(self, coefficients: tuple[int, ...], clamp: Fraction) -> WeightedTotals:
        plan = self.score_terms_at(coefficients, clamp).meat_plan_over_rows_of(self.meat_question.query.plan)
        return self.grid.weighted_products(self._bounded_plan(plan))

    @property
    def _meat_words(self) -> str:
        return "of products of residuals times columns, each added up over the rows of a unit"

    def _robust_fit(self, fit: LinearFit, meat: NoisyMeat) -> RobustFit:
        return RobustFit.clustered(fit, meat, self.grid)

    def _noise_words(self, mechanism: Gaussian) -> str:
        words = mechanism.words(Fraction(1, WEIGHT * self.grid.max_score_steps**2))
        return f"{words} on sums of squares of a unit's residuals times columns, up to 1"


def propose_regression(
    context: Context,
    rows: RowSelection,
    formula: str | None,
    *,
    target: str | None = None,
    on: Sequence[str] | None = None,
    row_limit: int | None = None,
    robust: bool = False,
) -> RegressionProposal:
    """Propose to regress a column of these rows on others; names and bounds are checked against the policy first."""
    parsed = parse_formula_or_columns(formula, target, on)
    domains = rows.columns

    def design_with(scale: int) -> Design:
        return regression_design(parsed, domains, scale)

    if not isinstance(robust, bool):
        raise InvalidParameter("robust", robust, "True or False")
    label = f"REGRESS {parsed.text}{', robust' if robust else ''}"
    question, design = moment_question_and_design(context, rows, design_with, label, row_limit)
    if not robust:
        return RegressionProposal(context, question, design)
    context.require_one_account("a regression with robust errors")
    unit_row_limit = _require_clusterable_rows(question)
    scale = design.scale if unit_row_limit > 1 else meat_scale(1, len(design.blocks) - 1)
    products = regressor_design(parsed, domains, scale)
    meat_design = MeatDesign(design, products)
    query = lower_sums(building.where(rows, design.row_condition), meat_design.factor_sums)
    meat = Question(context, question.text, query, query.plan.limits)
    meat = meat if row_limit is None else meat.limit(rows=row_limit)
    if unit_row_limit == 1:
        return RobustProposal(context, question, design, meat, meat_design)
    return ClusteredProposal(context, question, design, meat, meat_design, score_grid(products, unit_row_limit))


def _require_clusterable_rows(question: Question) -> int:
    """Return the most rows of a unit, whose scores are added up; rows that are units and repeat have no id for that."""
    bounded = bound_by_whole_rows(question.query.plan, question.limits, 1)
    rows = int(bounded.measures[0].add_remove_sensitivity.total)
    if rows > 1 and bounded.every_row_is_unit:
        rule = "robust errors need the id of the unit of each row, but this join repeats rows of a table without an id"
        raise Unsupported("robust-rows", rule, fix="leave out robust, or join a table with one match for each row")
    return rows
