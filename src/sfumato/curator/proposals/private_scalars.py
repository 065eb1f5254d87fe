"""A question that compares rows with released numbers: ``WHERE income > (SELECT AVG(income) FROM people)``.

It has two kinds of steps on one tab. First each number is released as a question of its own, at a public share of the
price; then the question is asked with these numbers as literals, at the rest.

*Theorem.* Let the numbers v cost ε₁, and the question with any literals ε₂. The release of both is (ε₁ + ε₂)-DP under
either relation of neighbours; δ, ρ and Rényi losses add up likewise. For the numbers are released before, and for each
fixed v what follows has the sensitivity that ``bounding`` proves for the plan with v as a literal, so this is an
adaptive composition (Dwork & Roth 2014, Thm B.1; Bun & Steinke 2016, Lemma 2.3; as curves: Zhu, Dong & Wang 2022,
Thm 10). ∎

What the question costs, and its ±, are the same whatever the numbers turn out to be: it is priced with numbers that may
be anything in their range (``plan.released_values``). So forecasts hold before they are released, both steps are held
to the unit, and no refusal depends on them. The ± of the answer is at the released numbers; it leaves out their error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.policy_account import price_and_accounts_phrase
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.error_forecasts import Forecast, Width
from sfumato.curator.previews.explaining import Explanation, PlanStep, offered_delta_notes
from sfumato.curator.proposals.question_advice import discovery_warnings, question_tips
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_release
from sfumato.curator.proposals.tab_releases import OpenTabRunner, SteppedRelease
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.plan.released_values import (
    extreme_value_combinations,
    require_no_released_values,
    value_in_domain,
    with_released_values,
)
from sfumato.policy import Domain, Value
from sfumato.privacy import Budget, Curve, compose
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer import Answer
from sfumato.release.measured import NoisyMeasurements
from sfumato.release.parts.shares import NamedNoise
from sfumato.release.prices import Price, weak_price_warnings
from sfumato.release.pricing import PricedRelease
from sfumato.release.proposal import ReleaseCall
from sfumato.release.releasing import ReleaseStrategy, StoredResult
from sfumato.release.requests import PriceRequest, Weights, Within
from sfumato.release.running_work import Progress

VALUE_SHARE = Fraction(1, 4)
"""The share of the price that all released numbers take together: each is one number, and the answer has many."""


@dataclass(frozen=True)
class PricedSteps:
    """The steps of a question with released numbers, ready to be charged."""

    values: tuple[PricedRelease, ...]
    """The release of each number."""
    outer: PricedRelease
    """The question itself, with numbers that may be anything in their range."""

    @property
    def steps(self) -> tuple[PricedRelease, ...]:
        return (*self.values, self.outer)

    @property
    def price(self) -> Price:
        """The sum of the prices of all steps."""
        prices = [step.price for step in self.steps]
        if prices[0].rho is not None:
            return Price(rho=sum((price.rho or Fraction(0) for price in prices), Fraction(0)))
        epsilon = sum((price.epsilon or Fraction(0) for price in prices), Fraction(0))
        return Price(epsilon, sum((price.delta for price in prices), Fraction(0)))

    @property
    def curves(self) -> tuple[Curve, ...]:
        return tuple(step.curve for step in self.steps)

    @property
    def curve(self) -> Curve:
        return compose(self.curves)


@dataclass(frozen=True, repr=False)
class ScalarQuestion(Question):
    """A parsed question whose rows are compared with numbers that are released first."""

    def __post_init__(self) -> None:
        self._context.require_one_account("a question with a separately released subquery")

    @cached_property
    def outer(self) -> Question:
        """The question itself, with numbers that may be anything in their range. Only its prices are of use."""
        query = replace(self.query, value_queries=())
        return Question(self._context, self.text, query, self.limits, self.strategy)

    @cached_property
    def value_questions(self) -> tuple[Question, ...]:
        """The question behind each released number."""
        return tuple(
            Question(self._context, value.text, value.query, value.query.plan.limits)
            for value in self.query.value_queries
        )

    @cached_property
    def plan_key(self) -> PlanKey:
        keys = (self.outer.plan_key, *(question.plan_key for question in self.value_questions))
        return PlanKey.combined(keys, lambda *texts: digest("released values", *texts, str(VALUE_SHARE)))

    @cached_property
    def bounding_options(self) -> tuple[BoundedPlan, ...]:
        """Refuse to be part of another release, which would be made of the question alone."""
        require_no_released_values(self.query)
        return ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        questions = (self.outer, *self.value_questions)
        return tuple(dict.fromkeys(warning for question in questions for warning in question.warnings))

    def price_release_at(self, price: Price, request: PriceRequest) -> Any:
        """Prepare all steps at one price: each number at its share, the question at the rest."""
        refuse_sample_of_release(request.sample, "questions with a separately released subquery")
        value_price, outer_price = _split_price(price, len(self.value_questions))
        value_request = PriceRequest(confidence=request.confidence)
        values = (question.price_release_at(value_price, value_request) for question in self.value_questions)
        return PricedSteps(tuple(values), self.outer.price_release_at(outer_price, request))

    def widths(self, prepared: Any, request: PriceRequest, size: int | None = None) -> dict[str, Width]:
        """Return half-widths of the question at its share of the price, whatever the numbers turn out to be."""
        return self.outer.widths(prepared.outer, request, size)

    def evaluated_sizes(self, prepared: Any, size: int | None) -> tuple[int, ...]:
        """Return the sizes of the groups that half-widths of the question are evaluated for."""
        return self.outer.evaluated_sizes(prepared.outer, size)

    def forecast(self, prepared: Any, request: PriceRequest, budgets: Sequence[Budget] = ()) -> Forecast:
        """Forecast the error of priced steps."""
        accepted = all(budget.affords(prepared.curve) for budget in budgets or self._context.budgets)
        forecast = self.outer.forecast(prepared.outer, request, budgets)
        price = price_and_accounts_phrase(prepared.price, self._context)
        warnings = tuple(dict.fromkeys((*self.warnings, *forecast.warnings, *self._first_steps_notes(prepared))))
        return replace(forecast, accepted=accepted, price=price, warnings=warnings)

    def _first_steps_notes(self, prepared: PricedSteps) -> tuple[str, ...]:
        steps = zip(self.query.value_queries, prepared.values, strict=True)
        prices = "; ".join(f"{value.written} for {step.price}" for value, step in steps)
        return (f"Released first: {prices}. {_LEFT_OUT}",)

    def advise(self, epsilon: Number | None = None, **terms: Any) -> Advice:
        """Advise which limit or bound causes most of the error, at ε = 1 when no price is given. Free."""
        request = self._with_defaults(PriceRequest(epsilon, **terms))
        prepared: Any = self.price_release(request)
        tips = question_tips(self.outer, _at_price(request, prepared.outer), prepared.outer)
        return Advice(self.text, str(prepared.price), tips)

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        range: str | None = None,  # noqa: A002 - it is called what it is
        sample: Number | None = None,
    ) -> Explanation:
        """Explain the release of the numbers, and the question at the rest of the price. Free."""
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, sample=sample)
        request = self._with_defaults(stated)
        prepared: Any = self.price_release(request)
        operators: list[PlanStep] = []
        for value, question, step in zip(self.query.value_queries, self.value_questions, prepared.values, strict=True):
            price = step.price
            explanation = question.explain(price.epsilon, delta=price.delta, rho=price.rho, confidence=confidence)
            operators += [PlanStep("first", value.written, f"released by itself, for {price}")]
            operators += explanation.operators
        at_rest = _at_price(request, prepared.outer)
        outer = self.outer.explain(
            at_rest.epsilon, delta=at_rest.delta, rho=at_rest.rho, confidence=confidence, mechanism=mechanism,
            weights=weights, range=range,
        )  # fmt: skip
        operators += [PlanStep("then", "the question with it", f"for {prepared.outer.price}")]
        notes = (*self.warnings, *offered_delta_notes(stated, self.assumed_delta))
        warnings = tuple(dict.fromkeys((*notes, *outer.warnings)))
        return replace(outer, price=str(prepared.price), operators=(*operators, *outer.operators), warnings=warnings)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        fresh: bool = False,  # noqa: ARG002 - steps on a tab are always bought anew
        range: str | None = None,  # noqa: A002 - it is called what it is
        joint: bool = False,
        sample: Number | None = None,
    ) -> Forecast:
        """Return the half-width of every number at this price, and whether the account would accept it now. Free."""
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint, sample)
        request = stated.with_default_delta(self.assumed_delta)
        prepared: Any = self.price_release(request)
        budgets = self._context.budgets
        forecast = self.forecast(prepared, request, budgets)
        notes = discovery_warnings(self.outer, stated, prepared.outer)
        warnings = (*forecast.warnings, *notes, *self._context.epsilon_total_warnings(prepared.curve))
        left = self._context.remaining_after_text(prepared.curve, budgets) if forecast.accepted else ""
        assumed = Fraction(0) if stated.has_or_accepts_delta else exact(request.delta, "delta")
        return replace(forecast, warnings=warnings, left=left, assumed_delta=assumed)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        joint: bool = False,
        seconds: Number | None = None,
        progress: Progress | None = None,
        range: str | None = None,  # noqa: A002 - it is called what it is
        free: bool = False,
        sample_of: Number | None = None,
        sample: Number | None = None,
    ) -> Answer:
        """Hold the price, release the numbers, and ask the question with them. The same ``request_id`` returns the
        answer again, free, also at another confidence; without one, every call buys a new answer.
        """
        if free or sample_of is not None:
            name, value = ("free", True) if free else ("sample_of", sample_of)
            rule = "left out, because the question has a subquery whose result is bought first"
            raise InvalidParameter(name, value, rule, fix=self._separate_steps_fix)
        request = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint, sample)
        request = request.accept_delta(self.default_delta)
        call = ReleaseCall(fresh, request_id, seconds, progress)
        stepped = SteppedRelease(
            self._context, self.text, self.plan_key, "released values", Answer, self._rebuild_from_steps, joint
        )
        stored_answer = stepped.find_stored(call, confidence)
        if stored_answer is not None:
            return stored_answer
        prepared: Any = self.price_release(request)
        first, *others = self._value_releases(prepared)
        return stepped.open_tab_and_run(
            prepared.price,
            prepared.curves,
            first,
            [*_readings_of(others), *self._outer_readings_at_extreme_values(prepared)],
            lambda result: self._dry_run_answer(result, prepared, confidence, joint),
            lambda steps: self._run_steps(steps, prepared, confidence, joint),
            call,
            confidence,
        )

    def _run_steps(self, steps: OpenTabRunner, prepared: PricedSteps, confidence: Number, joint: bool) -> Answer:
        """Release the numbers, then the answer of the question with them."""
        queries_and_releases = zip(self.query.value_queries, self._value_releases(prepared), strict=True)
        measured = [steps.charge_and_release(release, value.written) for value, release in queries_and_releases]
        outer = steps.charge_and_release(
            self._outer_release(prepared, self._released_values(measured)), "rows compared with it"
        )
        results = [*map(steps.with_opening_line, (*measured, outer))]
        return _with_total_price(self._build_from_steps(results, confidence, joint), prepared)

    def _value_releases(self, prepared: PricedSteps) -> list[ReleaseStrategy[NoisyMeasurements]]:
        questions = zip(self.value_questions, prepared.values, strict=True)
        return [question.release_strategy(step) for question, step in questions]

    def _outer_release(
        self, prepared: PricedSteps, values: Sequence[Value | None]
    ) -> ReleaseStrategy[NoisyMeasurements]:
        """Return the release of the question with these numbers as literals: its noise is that of the forecast."""
        return self.outer.release_strategy(with_released_values(prepared.outer, values))

    def _released_values(self, measured: Sequence[NoisyMeasurements]) -> tuple[Value | None, ...]:
        """Return the released numbers, which are public: those that their own answers show, within their ranges."""
        answers = (
            question.build_answer(_unstored_result(noisy), DEFAULT_CONFIDENCE, joint=False)
            for question, noisy in zip(self.value_questions, measured, strict=True)
        )
        return tuple(
            value_in_domain(answer.rows[0][0], domain)
            for answer, domain in zip(answers, self._value_domains, strict=True)
        )

    @property
    def _value_domains(self) -> tuple[Domain, ...]:
        return tuple(value.domain for value in self.query.value_queries)

    def _outer_readings_at_extreme_values(self, prepared: PricedSteps) -> list[PlanReading[Any]]:
        """Return the readings of the question with numbers at the ends of their ranges, and without any."""
        combinations = extreme_value_combinations(self._value_domains)
        return _readings_of(self._outer_release(prepared, values) for values in combinations)

    def _dry_run_answer(
        self, result: StoredResult[NoisyMeasurements], prepared: PricedSteps, confidence: Number, joint: bool
    ) -> Answer:
        releases = [*self._value_releases(prepared)[1:], self._outer_release(prepared, [None for _ in prepared.values])]
        others = [replace(result, value=releasing.dry_run(release).value) for release in releases]
        return _with_total_price(self._build_from_steps([result, *others], confidence, joint), prepared)

    def _rebuild_from_steps(self, stored_answer: Answer, step_values: Sequence[Any]) -> Answer:
        """Return the answer of released steps with the ranges that its receipt states."""
        receipt = stored_answer.receipt
        built = self._build_from_steps([*map(_unstored_result, step_values)], receipt.confidence, receipt.joint)
        return built.changed(receipt=receipt)

    def _build_from_steps(
        self, results: Sequence[StoredResult[NoisyMeasurements]], confidence: Number, joint: bool
    ) -> Answer:
        """Build the answer from the released numbers and the noisy totals of the question."""
        *value_results, outer_result = results
        answers = [
            question.build_answer(result, confidence, joint=False)
            for question, result in zip(self.value_questions, value_results, strict=True)
        ]
        outer = self.outer.build_answer(outer_result, confidence, joint)
        mechanisms = dict.fromkeys(words for answer in (*answers, outer) for words in answer.receipt.mechanisms)
        queries_and_answers = zip(self.query.value_queries, answers, strict=True)
        numbers = "; ".join(f"{value.written} as {_number_text(answer)}" for value, answer in queries_and_answers)
        notes = (f"Released first: {numbers}. {_LEFT_OUT}",)
        warnings = tuple(dict.fromkeys((*outer.warnings, *self.warnings, *notes)))
        return outer.changed(receipt=replace(outer.receipt, mechanisms=tuple(mechanisms)), warnings=warnings)

    def clipped(self) -> Any:
        """Refuse to count what was cut, which would be another question for each released number."""
        raise InvalidParameter(
            "clipped",
            self.text,
            "called on a question without a separately released subquery",
            fix=self._separate_steps_fix,
        )

    @property
    def _separate_steps_fix(self) -> str:
        return f"run {self.query.value_queries[0].text} first, and write its result in place of the subquery"


_LEFT_OUT = "The ± of the answer treats the released number as exact, so it does not include the error of that number."


def _split_price(price: Price, count: int) -> tuple[Price, Price]:
    """Return the price of each of so many released numbers, and that of the question with them; δ is for the latter."""
    value_share, main_share = VALUE_SHARE / count, 1 - VALUE_SHARE
    if price.rho is not None:
        return Price(rho=price.rho * value_share), Price(rho=price.rho * main_share)
    assert price.epsilon is not None
    return Price(price.epsilon * value_share), Price(price.epsilon * main_share, price.delta)


def _at_price(request: PriceRequest, prepared: PricedRelease) -> PriceRequest:
    """Return the request with the price of a prepared step."""
    price = prepared.price
    return replace(request, epsilon=price.epsilon, delta=price.delta, rho=price.rho, within=None)


def _with_total_price(answer: Answer, prepared: PricedSteps) -> Answer:
    """Return the answer with the price of all steps, and what it says about it."""
    price, unused = prepared.price, prepared.outer.unused_delta_reason
    receipt = replace(answer.receipt, guarantee=str(price), weak=weak_price_warnings(price))
    return answer.changed(receipt=receipt, warnings=(*answer.warnings, *([unused] if unused else [])))


def _readings_of(releases: Iterable[ReleaseStrategy[Any]]) -> list[PlanReading[Any]]:
    return [reading for release in releases for reading in release.readings]


def _unstored_result(noisy: NoisyMeasurements) -> StoredResult[NoisyMeasurements]:
    """Return released totals of which only the numbers are read."""
    return StoredResult(noisy, 0, datetime.now(UTC), "", free=False)


def _number_text(answer: Answer) -> str:
    """Write the number of an answer with its ±."""
    return answer.cells(1)[0][0].strip()
