"""A proposal of a logistic regression with many columns: gradient steps on a tab, for prediction.

A formula whose curvature has more than 1,000 different sums is fitted this way, and every other one by Newton steps:
the formula and the policy decide it, before the charge. Numbers are cut into ranges (``inference.number_ranges``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.proposals.logistic import LogisticProposal
from sfumato.curator.proposals.moment_proposals import DEFAULT_DELTA, AssumedPrice, lower_sums, max_rows_per_unit
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.regressions import RegressionForecast, parse_formula_or_columns
from sfumato.curator.proposals.tab_releases import OpenTabRunner
from sfumato.errors import Unsupported
from sfumato.inference.design import Design, largest_scale
from sfumato.inference.gradient_descent import LikelihoodDescent, commonest_references, regressor_coefficients
from sfumato.inference.gradient_scans import GRADIENT_SCANS, WIDE_SCAN_SHARES, GradientScans
from sfumato.inference.logistic_design import logistic_design, range_logistic_design
from sfumato.inference.logistic_scans import NoisyScan, ScanRelease, mean_steps, scan_scale
from sfumato.inference.regression_answers import FOR_PREDICTION, LogisticAnswer, prediction_answer
from sfumato.inference.step_noise import StepNoise, calibrated_step_noise
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.aggregates.measures import Measure
from sfumato.plan.bounding import BoundedPlan, bound_by_whole_rows, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun, describe_dropped_rows
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price
from sfumato.release.releasing import StoredResult


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
            "gradients "
            "alone and have no ±"
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
        rule = "a formula with this many columns can only be fitted with an intercept"
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
