"""A proposal of a regression with robust errors: the moments, then the meat at their coefficients, on one tab.

Both steps, their order and their shares of ρ are fixed before the charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Operator
from sfumato.curator.proposals.moment_proposals import lower_sums, moment_question, unit_rows
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.regressions import RegressionForecast, RegressionProposal, parse_model
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_all
from sfumato.curator.proposals.tab_releases import OpenSteps, SteppedRelease
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.design import Design, regression_design, regressor_design
from sfumato.inference.linear import LinearFit
from sfumato.inference.moment_releases import MomentsRelease
from sfumato.inference.moments import WEIGHT, MomentEstimates, NoisyMoments
from sfumato.inference.regression_answers import RegressionAnswer, robust_answer
from sfumato.inference.robust import RobustFit, residual_coefficients
from sfumato.inference.robust_meat import (
    CLAMP_DEVIATIONS,
    SQUARE_STEPS,
    MeatDesign,
    MeatFactors,
    MeatRelease,
    MeatTerms,
    NoisyMeat,
    meat_scale,
    meat_totals,
    residual_clamp,
)
from sfumato.inference.step_noise import StepNoise, step_noise
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.bounding import for_neighbours, whole_bounding
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy import Curve
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall
from sfumato.release.releasing import Progress, StoredResult

STEP_SHARES = Fraction(4, 5), Fraction(1, 5)
"""The share of ρ of the moments and of the meat. On ADULT at ε = 1 the meat's part of an interval is then known to
about 5 %, and a larger share widens the interval by the noise of the moments more than it gains."""


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
    def _factors(self) -> MeatFactors:
        return MeatFactors.of(self.meat_question.query.plan.measures, self.meat_design)

    def meat_at(self, coefficients: tuple[int, ...], clamp: Fraction) -> tuple[WeightedTotals, MeatTerms]:
        """Return the sums of the meat at these coefficients, and the terms of a row that they are made of."""
        terms = MeatTerms(self.meat_design, self._factors, coefficients, clamp)
        question = self.meat_question
        bounded = whole_bounding(replace(question.query.plan, measures=terms.measures), question.limits, 1)
        neighbours = self._context.policy.neighbours
        return meat_totals(for_neighbours(bounded, neighbours), self.meat_design.products), terms

    @cached_property
    def _meat_at_zero(self) -> tuple[WeightedTotals, MeatTerms]:
        """The meat of coefficients of 0: what one unit changes is the same at all."""
        return self.meat_at((0,) * (len(self.design.coordinates) - 1), residual_clamp(1.0))

    def _noise(self, price: Price) -> StepNoise:
        return step_noise((self.moments.sensitivity, self._meat_at_zero[0].sensitivity), STEP_SHARES, price)

    def _strategy_at(self, price: Price) -> MomentsRelease:
        mechanism = self._noise(price).mechanisms[0]
        return MomentsRelease.with_noise(self.moments, self.design, mechanism, price, self._context.version)

    def _curve(self, draw: MomentsRelease) -> Curve:
        return self._noise(draw.total).curve

    def _fit_operators(self, forecast: RegressionForecast) -> tuple[Operator, ...]:
        sums = count_with_noun(len(self.meat_design.products.entries), "sum")
        meat = Operator(
            "second step",
            f"{sums} of products times squared residuals",
            f"at the released coefficients; residuals are clamped at {CLAMP_DEVIATIONS} standard deviations, computed "
            f"from released sums; {format_percent(STEP_SHARES[1])} of ρ",
        )
        return meat, *super()._fit_operators(forecast)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
        sample: Number | None = None,
        fresh: bool = False,  # noqa: ARG002 - steps on a tab are always bought anew
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> RegressionAnswer:
        """Hold the price, buy the moments and the meat, and return the table. The same ``request_id`` returns it again,
        free; without one, every call buys a new answer.
        """
        refuse_sample_of_all(sample, "regressions and components")
        exact(confidence, "confidence", CONFIDENCE)
        price = Price(epsilon, delta, rho)
        call = ReleaseCall(request_id=request_id, seconds=seconds, progress=progress)
        stepped = SteppedRelease(self._context, self.question.text, self.plan_key, "robust", RegressionAnswer)
        stored_answer = stepped.find_stored(call, confidence)
        if stored_answer is not None:
            return stored_answer
        first = self._strategy_at(price)
        return stepped.run(
            price,
            self._noise(price),
            first,
            lambda result: self._dry_answer(result, price, confidence),
            lambda steps: self._run_steps(steps, first, confidence),
            call,
            confidence,
        )

    def _run_steps(self, steps: OpenSteps, first: MomentsRelease, confidence: Number) -> RegressionAnswer:
        """Release the moments, then the meat at their coefficients."""
        noisy = steps.run(first, "moments")
        meat = steps.run(self._meat_release(self._fit(noisy), first.total), "squared residuals")
        return self._robust_answer(steps.with_opening_line(noisy), meat, confidence)

    def _dry_answer(self, result: StoredResult[NoisyMoments], price: Price, confidence: Number) -> RegressionAnswer:
        return self._robust_answer(
            result, self._meat_release(self._fit(result.value), price).dry_run_result(), confidence
        )

    def _fit(self, noisy: NoisyMoments) -> LinearFit:
        return LinearFit(self.design, MomentEstimates.of(noisy, self.design), self.one_row_per_unit)

    def _meat_release(self, fit: LinearFit, price: Price) -> MeatRelease:
        """Return the second step at the coefficients of the first; both are public by then."""
        clamp = residual_clamp(fit.error_variance**0.5)
        totals, terms = self.meat_at(residual_coefficients(fit), clamp)
        return MeatRelease.of(totals, self._noise(price).mechanisms[1], terms)

    def _robust_answer(
        self, result: StoredResult[NoisyMoments], meat: NoisyMeat, confidence: Number
    ) -> RegressionAnswer:
        products = self.meat_design.products
        fit = RobustFit.of(self._fit(result.value), meat, products)
        receipt = self.receipt(result, confidence)
        unit_value = Fraction(1, WEIGHT * products.scale**2 * SQUARE_STEPS)
        words = f"{meat.mechanism.words(unit_value)} on sums of squared residuals, up to 1, times such squares"
        receipt = replace(receipt, mechanisms=(*receipt.mechanisms, words))
        return robust_answer(fit, receipt, self.question.warnings)


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
    parsed = parse_model(formula, target, on)
    domains = rows.columns

    def design_with(scale: int) -> Design:
        return regression_design(parsed, domains, scale)

    if not isinstance(robust, bool):
        raise InvalidParameter("robust", robust, "True or False")
    label = f"REGRESS {parsed.text}{', robust' if robust else ''}"
    question, design = moment_question(context, rows, design_with, label, row_limit)
    if not robust:
        return RegressionProposal(context, question, design)
    context.require_one_account("a regression with robust errors")
    _require_one_row(question)
    products = regressor_design(parsed, domains, meat_scale(1, len(design.blocks) - 1))
    meat_design = MeatDesign(design, products)
    query = lower_sums(building.where(rows, design.row_condition), meat_design.factor_sums)
    meat = Question(context, question.text, query, query.plan.limits)
    meat = meat if row_limit is None else meat.limit(rows=row_limit)
    return RobustProposal(context, question, design, meat, meat_design)


def _require_one_row(question: Question) -> None:
    """Refuse units of several rows: their rows correlate, and a meat of single rows would be too small."""
    if unit_rows(question.query.plan, question.limits) > 1:
        rule = "robust errors are computed for one row per unit: rows of one unit correlate"
        fix = "give rows=1 (--rows 1), which uses one row of each unit, or leave out robust"
        raise Unsupported("robust-rows", rule, fix=fix)
