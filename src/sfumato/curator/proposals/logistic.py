"""A proposal of a logistic regression: Newton steps on a tab, each a scan of the rows at released coefficients.

The number of scans and the share of the price that each gets are fixed before the charge
(``inference.logistic``). Every scan is a complete release, charged before it reads.

A proposal of a logistic regression with many columns: gradient steps on a tab, for prediction.

A formula whose curvature has more than 1,000 different sums is fitted this way, and every other one by Newton steps:
the formula and the policy decide it, before the charge. Numbers are cut into ranges (``inference.formula``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.moment_proposals import (
    ASSUMED_ROWS,
    DEFAULT_DELTA,
    AssumedPrice,
    lower_sums,
    max_rows_per_unit,
)
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.regressions import RegressionForecast, parse_formula_or_columns
from sfumato.curator.proposals.tab_releases import OpenTabRunner, SteppedRelease
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.design import Design, assumed_moments, largest_scale
from sfumato.inference.gradient_descent import (
    GRADIENT_SCANS,
    WIDE_SCAN_SHARES,
    GradientScans,
    LikelihoodDescent,
    commonest_references,
    regressor_coefficients,
)
from sfumato.inference.logistic import (
    SCAN_SHARES,
    LogisticDesign,
    LogisticFit,
    NoisyScan,
    ScanFactors,
    ScanRelease,
    ScanRowTerms,
    ScanWeights,
    design_moments,
    logistic_design,
    mean_steps,
    range_logistic_design,
    scan_scale,
)
from sfumato.inference.noise_laws import StepNoise, calibrated_step_noise
from sfumato.inference.regression_answers import (
    FOR_PREDICTION,
    ODDS_COLUMNS,
    WEAK,
    LogisticAnswer,
    logistic_answer,
    prediction_answer,
)
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.aggregates.measures import Measure
from sfumato.plan.bounding import BoundedPlan, bound_by_whole_rows, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.policy import Type
from sfumato.privacy.calibration import least_parameter
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.payers import purchase_terms
from sfumato.release.prices import Price, rounded_up_to_4_digits
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias


@dataclass(frozen=True)
class LogisticProposal(RehearseAlias, StoredProposal):
    """A proposal of a logistic regression; only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    logistic: LogisticDesign = field(repr=False)

    def __repr__(self) -> str:
        return f"<{self.question.text}: .explain() .error() .price() are free, .release() spends>"

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return tuple(AnswerColumn(name, Type.TEXT if name == "term" else Type.REAL) for name in ODDS_COLUMNS)

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured: models of the same columns differ in their terms and in the event."""
        terms = (repr(self.logistic.design.formula), self.logistic.event_label)
        return self.question.plan_key.derive(lambda key: digest("logistic", key, list(map(str, SCAN_SHARES)), *terms))

    @cached_property
    def _scan_factors(self) -> ScanFactors:
        return ScanFactors.from_measures(self.question.query.plan.measures, self.logistic)

    @cached_property
    def scan_weights(self) -> ScanWeights:
        """The weights of a scan's sums, the same at all coefficients."""
        rows = max_rows_per_unit(self.question.query.plan, self.question.limits)
        return ScanWeights(self.logistic, mean_steps(rows, self.logistic.design.scale))

    def totals_at(self, coefficients: tuple[int, ...]) -> WeightedTotals:
        """Return the sums of a scan at these coefficients, with the rows of a unit sampled."""
        measures = ScanRowTerms(self.logistic, self._scan_factors, coefficients, self.scan_weights.mean_steps).measures
        bounded = bound_by_whole_rows(replace(self.question.query.plan, measures=measures), self.question.limits, 1)
        return self.scan_weights.totals(for_neighbours(bounded, self._context.policy.neighbours))

    @cached_property
    def _totals_at_zero(self) -> WeightedTotals:
        """The sums of the first scan, at coefficients of 0."""
        return self.totals_at(self._zero_coefficients)

    @property
    def one_row_per_unit(self) -> bool:
        """Whether rows are independent, so that sampling errors can be computed from them."""
        return self._totals_at_zero.rows_per_unit == 1

    def _scan_noise(self, price: Price) -> StepNoise:
        return calibrated_step_noise((self._totals_at_zero.sensitivity,) * len(SCAN_SHARES), SCAN_SHARES, price)

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
        noise, forecast = self._scan_noise(assumed.price), self._forecast(assumed.price, confidence)
        design, gradient = self.logistic.design, self._gradient_deviations(noise)
        pairs = list(zip(forecast.terms, forecast.widths, strict=True))[:4]
        operators = (
            *explain_source(self.question.query, self._context.policy),
            explain_limit(self._totals_at_zero.bounded),
            PlanStep("scale", ", ".join(design.names), "to [−1, 1]; a row with a missing value counts in no sum"),
            PlanStep(
                "scan",
                f"{len(SCAN_SHARES)} times, {count_with_noun(len(self.logistic.moments) + 1, 'sum')} each",
                "the gradient and the curvature at released coefficients; the last gets the largest share of the price",
            ),
            PlanStep(
                "noise",
                f"discrete Gaussian, σ = {format_number(gradient[0], 4)}, then {format_number(gradient[-1], 4)}",
                "on each number of the gradient",
            ),
            PlanStep(
                "fit", f"Newton steps for the odds of {self.logistic.event_label}", "intervals from the last step; free"
            ),
            PlanStep(
                "expect",
                ", ".join(f"{term} ±{format_number(width, 3)}" for term, width in pairs),
                forecast.assumed,
            ),
            *explain_period_charges(self._context),
        )
        notes = (*assumed.notes, *self.question.warnings, *self._context.epsilon_total_warnings(noise.curve))
        reason = "every scan is charged as a step of its own; their number and shares are fixed beforehand"
        return Explanation(self.question.text, str(assumed.price), operators, reason, (*notes, *forecast.warnings))

    def _gradient_deviations(self, noise: StepNoise) -> list[float]:
        unit = float(self.scan_weights.deviation_units[1:].max())
        return [float(mechanism.sizes[0]) * unit for mechanism in noise.mechanisms]

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> RegressionForecast:
        """Forecast the ± of every coefficient's noise at this price, for assumed data. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        forecast = self._forecast(assumed.price, confidence)
        closing = self._context.epsilon_total_warnings(self._scan_noise(assumed.price).curve)
        return replace(forecast, warnings=(*assumed.notes, *self.question.warnings, *closing, *forecast.warnings))

    def price(
        self,
        within: Mapping[str, Number] | Number,
        *,
        delta: Number = DEFAULT_DELTA,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Find the least ε, at this δ, at which the forecast ± of these coefficients, or of all, is at most this."""
        terms = self._forecast(Price(1, delta), confidence).terms
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

        def is_within(epsilon: Fraction) -> bool:
            try:
                forecast = self._forecast(Price(epsilon, delta), confidence)
            except InvalidParameter:
                return False
            return all(forecast[name] <= limit for name, limit in limits.items())

        return float(rounded_up_to_4_digits(least_parameter(is_within, "within", Fraction(1, 2**10))))

    def _forecast(self, price: Price, confidence: Number) -> RegressionForecast:
        """Forecast the last scan's noise at coefficients of 0, where every row has the curvature of 1/4."""
        noise, design = self._scan_noise(price), self.logistic.design
        rows = self._context.policy.size or ASSUMED_ROWS
        values = dict(zip(design.gram_entry_count_by_moment, assumed_moments(design, rows) / 4, strict=True))
        residual = self.logistic.residual
        curvature = np.array(
            [0.0 if residual in moment.columns else values[moment] for moment in self.logistic.moments]
        )
        deviations = float(noise.mechanisms[-1].sizes[0]) * self.scan_weights.deviation_units[1:]
        moments = design_moments(curvature, deviations, self.logistic)
        offset = np.zeros(len(design.coordinates) - 1)
        # assumed counts are equal: their commonest value would be one that rounding chose
        fit = LogisticFit(design.with_first_references, moments, self.one_row_per_unit, offset, float(rows))
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        ratio, names = fit.weakest_direction_and_terms
        warning = f"{' and '.join(names)} can hardly be distinguished at this price" if ratio < WEAK else ""
        return RegressionForecast(
            tuple(regressor.label for regressor in fit.regressors),
            tuple(fit.noise_half_widths(float(confidence_level)).tolist()),
            confidence_level,
            f"for {rows:,} rows of independent columns, spread evenly over their declared ranges, and an event in half "
            "of them",
            price_and_accounts_phrase(price, self._context),
            all(budget.affords(noise.curve) for budget in self._context.budgets),
            warnings=(warning,) if warning else (),
            counted=describe_dropped_rows([self._totals_at_zero.bounded]),
        )

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> LogisticAnswer:
        """Hold the price, spend it scan by scan, and return the table. The same ``request_id`` returns it again, free,
        also at another confidence.

        ``seconds`` limits all scans together. Ctrl-C waits for the running scan, then frees the unspent rest; there is
        no table without the last scan.
        """
        exact(confidence, "confidence", CONFIDENCE)
        price = Price(epsilon, delta, rho)
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        stepped = SteppedRelease(
            self._context,
            self.question.text,
            self.plan_key,
            "logistic",
            LogisticAnswer,
            self._rebuild_from_steps,
        )
        stored_answer = stepped.find_stored(call, confidence)
        if stored_answer is not None:
            return stored_answer
        noise = self._scan_noise(price)
        first = self._first_step(noise)
        return stepped.open_tab_and_run(
            price,
            noise.curves,
            first,
            self._later_readings(noise),
            lambda result: self._dry_run_answer(result, price, confidence),
            lambda steps: self._run_steps(steps, first, price, confidence),
            call,
            confidence,
        )

    def _first_step(self, noise: StepNoise) -> ScanRelease:
        return ScanRelease.at_coefficients(self._totals_at_zero, noise.mechanisms[0], self._zero_coefficients)

    def _later_readings(self, noise: StepNoise) -> Sequence[PlanReading[Any]]:  # noqa: ARG002
        """The readings of scans that are not the first at other coefficients: there are none."""
        return ()

    @property
    def _zero_coefficients(self) -> tuple[int, ...]:
        """The coefficients of the first scan."""
        return (0,) * (len(self.logistic.design.coordinates) - 1)

    def _dry_run_answer(self, result: StoredResult[NoisyScan], price: Price, confidence: Number) -> LogisticAnswer:
        return self._build_answer(self._fit(result.value), result, price, confidence)

    def _run_steps(self, steps: OpenTabRunner, first: ScanRelease, price: Price, confidence: Number) -> LogisticAnswer:
        fit = self._run_scans(steps, first, self._scan_noise(price))
        return self._build_answer(fit, steps.with_opening_line(None), price, confidence)

    def _run_scans(self, steps: OpenTabRunner, first: ScanRelease, noise: StepNoise) -> LogisticFit:
        """Release every scan, each at the coefficients that the one before leads to; return the last step."""
        fit = self._fit(steps.charge_and_release(first, "a scan"))
        for mechanism in noise.mechanisms[1:]:
            coefficients = fit.next_coefficients()
            totals = self.totals_at(coefficients)
            scan = steps.charge_and_release(ScanRelease.at_coefficients(totals, mechanism, coefficients), "a scan")
            fit = replace(self._fit(scan), design=fit.design_with_references)
        return fit

    def _rebuild_from_steps(self, stored_answer: LogisticAnswer, step_values: Sequence[Any]) -> LogisticAnswer:
        """Return the table of the last scan, with the reference values of the first."""
        fit = replace(self._fit(step_values[-1]), design=self._fit(step_values[0]).design_with_references)
        return logistic_answer(fit, self.logistic.event_label, stored_answer.receipt, self.question.warnings)

    def _fit(self, scan: NoisyScan) -> LogisticFit:
        return LogisticFit.from_scan(
            scan, self.scan_weights, self.logistic.design, one_row_per_unit=self.one_row_per_unit
        )

    def _build_answer(
        self, fit: LogisticFit, result: StoredResult[Any], price: Price, confidence: Number
    ) -> LogisticAnswer:
        receipt = self._receipt(result, price, confidence)
        return logistic_answer(fit, self.logistic.event_label, receipt, self.question.warnings)

    def _receipt(self, result: StoredResult[Any], price: Price, confidence: Number) -> Receipt:
        bounds = tuple(column.bounds for column in self.logistic.design.columns if column.bounds)
        bounded = self._first_step(self._scan_noise(price)).batch.bounded
        terms = replace(purchase_terms([bounded], price, self._context.version), bounds=bounds)
        first, *_, last = (format_number(sigma, 4) for sigma in self._gradient_deviations(self._scan_noise(price)))
        words = (f"discrete Gaussian, σ from {first} to {last}, on gradients of columns in [−1, 1]",)
        return make_receipt(
            result, terms, words, question=self.question.text, context=self._context, confidence=confidence
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> LogisticAnswer:
        """Return a table of this shape with invented numbers, from the policy alone. This is free."""
        price = AssumedPrice.from_arguments(epsilon, delta, rho).price
        return preview_release(
            self,
            self._context,
            lambda other: other.release(epsilon=price.epsilon, delta=price.delta, rho=price.rho, confidence=confidence),
        )


@dataclass(frozen=True, repr=False)
class WideLogisticProposal(LogisticProposal):
    """A proposal of a logistic regression for prediction; only ``release`` spends."""

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured: models of the same columns differ in their terms and in the event."""
        terms = (repr(self.logistic.design.formula), self.logistic.event_label)
        shares = list(map(str, WIDE_SCAN_SHARES))
        return self.question.plan_key.derive(lambda key: digest("wide-logistic", key, shares, *terms))

    @cached_property
    def scans(self) -> GradientScans:
        steps = mean_steps(
            max_rows_per_unit(self.question.query.plan, self.question.limits), self.logistic.design.scale
        )
        return GradientScans(self.logistic, self._scan_factors, steps)

    def _bound_measures(self, measures: tuple[Measure, ...]) -> BoundedPlan:
        plan = replace(self.question.query.plan, measures=measures)
        return for_neighbours(bound_by_whole_rows(plan, self.question.limits, 1), self._context.policy.neighbours)

    @cached_property
    def spread_totals(self) -> WeightedTotals:
        """The first scan."""
        return self.scans.sum_and_square_totals(self._bound_measures)

    def gradient_totals_at(self, coefficients: tuple[int, ...]) -> WeightedTotals:
        """Return the gradient at these coefficients, with the rows of a unit sampled."""
        return self.scans.gradient_totals(coefficients, self._bound_measures)

    @cached_property
    def _gradient_totals_at_zero(self) -> WeightedTotals:
        """The gradient at coefficients of 0: what one unit changes is the same at all."""
        return self.gradient_totals_at(self._zero_coefficients)

    def _scan_noise(self, price: Price) -> StepNoise:
        sensitivities = (self.spread_totals.sensitivity, *(self._gradient_totals_at_zero.sensitivity,) * GRADIENT_SCANS)
        return calibrated_step_noise(sensitivities, WIDE_SCAN_SHARES, price)

    def _gradient_deviations(self, noise: StepNoise) -> list[float]:
        unit = 1 / (self.scans.mean_steps * self.logistic.design.scale)
        return [float(mechanism.sizes[0]) * unit for mechanism in noise.mechanisms[1:]]

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        exact(confidence, "confidence", CONFIDENCE)
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        noise = self._scan_noise(assumed.price)
        gradient, design = self._gradient_deviations(noise)[0], self.logistic.design
        operators = (
            *explain_source(self.question.query, self._context.policy),
            explain_limit(self.spread_totals.bounded),
            PlanStep("scale", ", ".join(design.names), _scaling_phrase(design)),
            PlanStep(
                "scan",
                f"{count_with_noun(len(self.spread_totals.weights), 'sum')} and sums of squares, once",
                "means and spreads of the columns, by which steps are scaled",
            ),
            PlanStep(
                "scan",
                f"{GRADIENT_SCANS} times, {count_with_noun(len(self._gradient_totals_at_zero.weights), 'sum')} each",
                "the gradient at released coefficients",
            ),
            PlanStep("noise", f"discrete Gaussian, σ = {format_number(gradient, 4)}", "on each number of a gradient"),
            PlanStep("fit", f"gradient steps for the odds of {self.logistic.event_label}", FOR_PREDICTION),
            *explain_period_charges(self._context),
        )
        notes = (*assumed.notes, *self.question.warnings, *self._context.epsilon_total_warnings(noise.curve))
        reason = (
            "the curvature would need too many sums for this many columns; this depends on the formula and the "
            "policy alone"
        )
        return Explanation(self.question.text, str(assumed.price), operators, reason, notes)

    def price(
        self,
        within: Mapping[str, Number] | Number,  # noqa: ARG002 - what it would be for
        *,
        delta: Number = DEFAULT_DELTA,  # noqa: ARG002
        confidence: Number = DEFAULT_CONFIDENCE,  # noqa: ARG002
    ) -> float:
        """Refuse to find a price for a width: the coefficients have no intervals."""
        rule = (
            "a price cannot be found for a given ±, because with this many columns the coefficients come from "
            "gradients alone and have no ±"
        )
        fix = "choose the price yourself, for example epsilon=1 and delta=1e-9, or name fewer columns"
        raise Unsupported("prediction-only", rule, fix=fix)

    def _forecast(self, price: Price, confidence: Number) -> RegressionForecast:
        """Return that no coefficient has a ±."""
        design = self.logistic.design
        terms = regressor_coefficients(
            design, tuple(category.reference or 0 for category in design.categories), self._zero_vector
        )
        noise = self._scan_noise(price)
        return RegressionForecast(
            tuple(terms),
            (float("inf"),) * len(terms),
            exact(confidence, "confidence", CONFIDENCE),
            "without intervals",
            price_and_accounts_phrase(price, self._context),
            all(budget.affords(noise.curve) for budget in self._context.budgets),
            warnings=(FOR_PREDICTION,),
            counted=describe_dropped_rows([self.spread_totals.bounded]),
        )

    @property
    def _zero_vector(self) -> Floats:
        return np.zeros(len(self.logistic.design.coordinates) - 1)

    def _first_step(self, noise: StepNoise) -> ScanRelease:
        return ScanRelease.at_coefficients(self.spread_totals, noise.mechanisms[0], self._zero_coefficients)

    def _later_readings(self, noise: StepNoise) -> Sequence[PlanReading[Any]]:
        """The reading of a gradient: at all coefficients it is that at 0 with other whole numbers."""
        gradient = ScanRelease.at_coefficients(
            self._gradient_totals_at_zero, noise.mechanisms[1], self._zero_coefficients
        )
        return gradient.readings

    def _dry_run_answer(self, result: StoredResult[NoisyScan], price: Price, confidence: Number) -> LogisticAnswer:
        return self._prediction_answer(self._start_descent(result.value, price), result, price, confidence)

    def _run_steps(self, steps: OpenTabRunner, first: ScanRelease, price: Price, confidence: Number) -> LogisticAnswer:
        """Release the spread, then every gradient at the coefficients that the one before leads to."""
        descent = self._start_descent(steps.charge_and_release(first, "a scan"), price)
        for mechanism in self._scan_noise(price).mechanisms[1:]:
            coefficients = descent.next_coefficients
            scan = ScanRelease.at_coefficients(self.gradient_totals_at(coefficients), mechanism, coefficients)
            descent = descent.step(self.scans.gradient_from(steps.charge_and_release(scan, "a scan").totals))
        return self._prediction_answer(descent, steps.with_opening_line(None), price, confidence)

    def _rebuild_from_steps(self, stored_answer: LogisticAnswer, step_values: Sequence[Any]) -> LogisticAnswer:  # noqa: ARG002
        """Return the table as it is: it has no intervals."""
        return stored_answer

    def _start_descent(self, scan: NoisyScan, price: Price) -> LikelihoodDescent:
        share = float(WIDE_SCAN_SHARES[1]) ** 0.5
        deviation = self._gradient_deviations(self._scan_noise(price))[0] * share
        return LikelihoodDescent.starting_at_zero(*self.scans.sums_and_squares_from(scan.totals), deviation)

    def _prediction_answer(
        self, descent: LikelihoodDescent, result: StoredResult[Any], price: Price, confidence: Number
    ) -> LogisticAnswer:
        design = self.logistic.design
        references = commonest_references(design, descent.counts)
        return prediction_answer(
            design,
            references,
            regressor_coefficients(design, references, descent.coefficients),
            self.logistic.event_label,
            rows_used=float(descent.counts[0]),
            receipt=self._receipt(result, price, confidence),
            warnings=self.question.warnings,
        )


def _scaling_phrase(design: Design) -> str:
    most = max((len(category.values) for category in design.categories if category.edges), default=0)
    scaling = f"numbers into at most {most} ranges of equal width" if most else "to [−1, 1]"
    return f"{scaling}; a row with a missing value counts in no sum"


def propose_logistic(
    context: Context,
    rows: RowSelection,
    formula: str | None,
    *,
    target: str | None = None,
    on: Sequence[str] | None = None,
    event: str | None = None,
    row_limit: int | None = None,
) -> LogisticProposal:
    """Propose to regress the odds of an event on columns of these rows; names and bounds are checked first."""
    context.require_one_account("a logistic regression")
    parsed, domains = parse_formula_or_columns(formula, target, on, "logistic"), rows.columns
    draft = logistic_design(parsed, domains, 1 << 12, event)
    if draft.is_wide and not parsed.has_intercept:
        rule = "a formula with so many columns can only be fitted with an intercept"
        raise Unsupported(
            "wide-without-intercept", rule, fix="leave out '0 +' or '- 1' in the formula, or name fewer columns"
        )
    text = f"LOGISTIC {parsed.text} for {draft.event_label} FROM {', '.join(rows.steps)}"

    def ask(selection: RowSelection, sums: Sequence[str]) -> Question:
        query = lower_sums(selection, sums)
        question = Question(context, text, query, query.plan.limits)
        return question if row_limit is None else question.limit(rows=row_limit)

    counted = ask(rows, ["COUNT(*)"])
    most = max_rows_per_unit(counted.query.plan, counted.limits)
    scale_of, design_of, kind = (
        (largest_scale, range_logistic_design, WideLogisticProposal)
        if draft.is_wide
        else (scan_scale, logistic_design, LogisticProposal)
    )
    logistic = design_of(parsed, domains, scale_of(most, len(draft.design.blocks) - 1), event)
    selected = building.where(rows, logistic.design.row_condition)
    return kind(context, ask(selected, logistic.factor_sums), logistic)
