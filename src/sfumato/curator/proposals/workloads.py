"""Workloads: several questions bought together, with one price, one charge and one receipt.

The questions' privacy losses are composed as one release, which costs far less than the sum of their separate prices.
Each answer is stored as its own question's: neither this workload nor a request for one of them buys it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.previews.explaining import Explanation, PlanStep, offered_delta_notes
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.stored_answers import Answers, WorkloadForecast
from sfumato.errors import InvalidParameter, Unsupported, shorten
from sfumato.ledger import StoredAnswer, Tab
from sfumato.mechanisms import Gaussian
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.sql.text import (
    MAX_QUESTIONS,
    WrittenQuestion,
    question_in_refusals,
    split_questions as questions_of,
)
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.batch_prices import (
    BatchMeasurements,
    BatchQuestionOffer,
    BatchRelease,
    PricedBatch,
    price_batch,
    price_batch_within as priced_within,
)
from sfumato.release.measured import NoisyMeasurements
from sfumato.release.parts.shares import Family, NamedNoise, rounded_down_to_13_digits
from sfumato.release.payers import BatchPayer, BatchQuestion, PurchaseTerms
from sfumato.release.prices import GIVE_ONE_PRICE, ONLY_ONE_PRICE, Price, weak_price_warnings
from sfumato.release.pricing import PricedRelease
from sfumato.release.proposal import (
    ReleaseCall,
    StoredProposal,
    check_dry_run,
    is_stored,
    make_receipt,
    warn_of_weak_price,
)
from sfumato.release.releasing import ReleaseRequest, StoredResult
from sfumato.release.requests import PriceRequest, RequestedSeries, repeated_receipt, require_same_ranges
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

BuildAnswers = Callable[[Mapping[str, StoredResult[NoisyMeasurements]], Receipt | None], Answers]
Goals = Number | Mapping[str, Any]
"""A half-width for every number; or by the name of a question, a half-width or half-widths by column."""


@dataclass(frozen=True)
class WorkloadProposal(RehearseAlias, StoredProposal):
    """A proposal of several questions: only ``release`` spends."""

    _context: Context = field(repr=False)
    questions: Mapping[str, Question]
    """The questions by name, in order."""

    @property
    def plan_key(self) -> PlanKey:
        """The key of all measured questions together."""
        return PlanKey.combined(
            (question.plan_key for question in self.measured_questions.values()), partial(digest, "workload")
        )

    @property
    def columns(self) -> dict[str, Columns]:
        """The columns of every answer with their types, by question name."""
        return {name: question.columns for name, question in self.questions.items()}

    @cached_property
    def measured_questions(self) -> dict[str, Question]:
        """The measured questions by identity: a repeated question is measured and paid once."""
        distinct: dict[str, Question] = {}
        for question in self.questions.values():
            if not question.free:
                distinct.setdefault(question.identity, question)
        return distinct

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
    ) -> Explanation:
        """Explain each question with its share of the price; at ε = 1 when no price is given. Free."""
        has_price = not (epsilon is None and rho is None and within is None)
        stated = PriceRequest(epsilon if has_price else 1, delta, rho, None, confidence, mechanism)
        batch = self._price_batch(stated.with_default_delta(self.assumed_delta), within, weights)
        together, policy = BatchRelease(self._release_strategies(batch)), self._context.policy
        operators = [PlanStep("scan", self._table_names_text, f"protects {policy.unit}, {policy.neighbours.value}")]
        for name, question in self.questions.items():
            question_text = shorten(" ".join(question.text.split()), 80)
            operators.append(PlanStep(name, question_text, self._forecast_text(batch, question, confidence)))
        statement_count = count_with_noun(len(together.readings), "statement")
        reading_text = f"{len(self.measured_questions)} questions measured by {statement_count}"
        coverage = f"ranges hold with {format_percent(exact(confidence, 'confidence'))} confidence"
        separate = "" if batch.pure else format_number(batch.separate_laplace_epsilon, 3)
        saving_text = separate and f"; bought separately they would cost about ε = {separate} in total"
        operators.append(PlanStep("together", reading_text, f"{batch.price}, {coverage}{saving_text}"))
        notes = (*self._warnings, *self._price_notes(stated, batch))
        return Explanation(self.description, str(batch.price), tuple(operators), batch.reason, notes)

    def _price_notes(self, stated: PriceRequest, batch: PricedBatch) -> tuple[str, ...]:
        return (*offered_delta_notes(stated, self.assumed_delta), *self._context.epsilon_total_warnings(batch.curve))

    @property
    def default_delta(self) -> Fraction:
        """The δ that ``delta="default"`` accepts to find the groups of all questions; 0 if none is needed or left."""
        return next((part.default_delta for part in self.questions.values() if part.discovered_keys), Fraction(0))

    @property
    def assumed_delta(self) -> Fraction:
        """The δ that free calls assume where none is given."""
        return next((part.assumed_delta for part in self.questions.values() if part.discovered_keys), Fraction(0))

    @property
    def _warnings(self) -> tuple[str, ...]:
        """The warnings of all questions, each once."""
        return tuple(dict.fromkeys(warning for question in self.questions.values() for warning in question.warnings))

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        fresh: bool = False,
        joint: bool = False,
    ) -> WorkloadForecast:
        """Return the half-widths of every answer, the price, and whether the account would accept it now. Free.

        The price excludes answers that are ``stored`` already, and as good.
        """
        stated = PriceRequest(epsilon, delta, rho, None, confidence, mechanism, joint=joint)
        request = stated.with_default_delta(self.assumed_delta)
        batch = self._price_batch(request, within, weights)
        new_indices = self._unstored_indices(batch, fresh)
        unbought = batch.priced_subset(new_indices)
        accepted = not new_indices or all(budget.affords(unbought.curve) for budget in self._context.budgets)
        stored = {identity for index, identity in enumerate(self.measured_questions) if index not in new_indices}
        return WorkloadForecast(
            tuple(self.questions),
            tuple(self._forecast(batch, question, request, stored) for question in self.questions.values()),
            str(unbought.price) if new_indices else "nothing: all answers are stored",
            accepted,
            (*self._warnings, *(self._price_notes(stated, unbought) if new_indices else ())),
            Fraction(0) if stated.has_or_accepts_delta else exact(request.delta, "delta"),
        )

    def price(
        self, within: Goals, *, delta: Number = 0, confidence: Number = DEFAULT_CONFIDENCE, joint: bool = False
    ) -> float:
        """Return the least ε, at this δ, at which all questions together meet their accuracy goals; with ``joint``, all
        numbers of each answer at once. Free.
        """
        stated = PriceRequest(None, delta, None, None, confidence, joint=joint)
        batch = self._price_batch(stated.with_default_delta(self.assumed_delta), within, None)
        return float(batch.price.epsilon or 0)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        fresh: bool = False,
        joint: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Answers:
        """Buy all questions in one charge, made before the first row is read; stored answers that are as good are free.

        ``weights`` multiply the shares of questions, by name. The same ``request_id`` returns the same answers, free.
        """
        call = ReleaseCall(fresh, request_id, seconds, progress)
        requested = RequestedSeries(self._context, self.description, self._plan_key_with_names, call)
        earlier = requested.find_stored()
        if earlier is not None:
            return self.restore(earlier, confidence, joint)
        request = PriceRequest(epsilon, delta, rho, None, confidence, mechanism, joint=joint)
        request = request.accept_delta(self.default_delta)
        batch = self._price_batch(request, within, weights)

        def build(results: Mapping[str, StoredResult[NoisyMeasurements]], receipt: Receipt | None) -> Answers:
            answers = {
                name: question.release(confidence=confidence)
                if question.free
                else question.build_answer(results[question.identity], confidence, joint)
                for name, question in self.questions.items()
            }
            return self.combine_answers(answers, receipt)

        return self.buy_and_build(batch, requested, build, confidence, joint)

    def combine_answers(self, answers: Mapping[str, Answer], receipt: Receipt | None) -> Answers:
        """Put the answers of all questions together."""
        return Answers(tuple(answers), tuple(answers.values()), receipt)

    def buy_and_build(
        self, batch: PricedBatch, requested: RequestedSeries, build: BuildAnswers, confidence: Number, joint: bool
    ) -> Answers:
        """Buy what is not stored in one charge, and build the answers from the results, by identity, and the receipt of
        the charge; they are stored under the request id.
        """
        new_indices = self._unstored_indices(batch, requested.call.fresh)
        stored_results = self._load_stored_results(
            batch, [index for index in range(len(self.measured_questions)) if index not in new_indices]
        )
        purchase = (
            self._buy_unstored(batch.priced_subset(new_indices), new_indices, requested, confidence, joint)
            if new_indices
            else _NO_PURCHASE
        )
        if isinstance(purchase, StoredAnswer):
            return self.restore(purchase, confidence, joint)
        with purchase.tab or nullcontext():
            released = build(stored_results | purchase.result_by_identity, self._receipt(purchase, confidence))
            if purchase.tab is not None:
                requested.finish(purchase.tab, released)
        return released

    def price_at(self, price: Price, request: PriceRequest) -> PricedBatch:
        """Price all questions together at a price of their own."""
        self._require_delta(price.delta)
        return price_batch(self._question_offers(None, request), price, request.family, self._context.account.budget)

    def is_stored(self, batch: PricedBatch) -> bool:
        """Return whether stored answers to all questions are as good."""
        return not self._unstored_indices(batch, fresh=False)

    @property
    def _plan_key_with_names(self) -> PlanKey:
        """The key of the questions with their names: what a request id stands for."""

        def hash_with_names(*keys: str) -> str:
            names_and_keys = zip(self.questions, keys, strict=True)
            return digest("named-workload", *(f"{len(name)}:{name}{key}" for name, key in names_and_keys))

        return PlanKey.combined((question.plan_key for question in self.questions.values()), hash_with_names)

    def restore(self, stored_answer: StoredAnswer, confidence: Number, joint: bool) -> Answers:
        """Return what the same request bought, with the ranges that it was shown with."""
        stored_answers = codec.loads_as(Answers, stored_answer.body, longest=len(stored_answer.body))
        require_same_ranges([answer.receipt for answer in stored_answers.answers], confidence, joint=joint)
        context = self._context
        answers = tuple(
            replace(answer, receipt=repeated_receipt(answer.receipt, context)) for answer in stored_answers.answers
        )
        batch_receipt = None if stored_answers.receipt is None else repeated_receipt(stored_answers.receipt, context)
        return replace(stored_answers, answers=answers, receipt=batch_receipt)

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        joint: bool = False,
    ) -> Answers:
        """Return answers of this shape with invented numbers, from the policy alone. Free."""
        price: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "within": within, "mechanism": mechanism}
        terms: dict[str, Any] = {"confidence": confidence, "weights": weights, "joint": joint}

        def release(invented: WorkloadProposal) -> Answers:
            request = PriceRequest(epsilon, delta, rho).with_default_delta(invented.assumed_delta)
            return invented.release(delta=request.delta, **price, **terms)

        return preview_release(self, self._context, release)

    # ── prices ──

    def _price_batch(
        self, request: PriceRequest, within: Goals | None, weights: Mapping[str, Number] | None
    ) -> PricedBatch:
        if not self.measured_questions:
            raise Unsupported(
                "nothing-measured",
                "a workload needs at least one question that has a price",
                fix="ask these questions one by one, which is free",
            )
        offers, budget = self._question_offers(weights, request), self._context.account.budget
        if within is not None:
            if request.is_stated:
                raise InvalidParameter("within", within, ONLY_ONE_PRICE, fix=GIVE_ONE_PRICE)
            return self._price_within(offers, request, within)
        price = request.price
        self._require_delta(price.delta)
        return price_batch(offers, price, request.family, budget)

    def _question_offers(self, weights: Mapping[str, Number] | None, request: PriceRequest) -> list[BatchQuestionOffer]:
        """Return the offer of each question, with a share by its number of measurements times its weight."""
        question_weights = self._parse_weights(weights or {})
        terms = PriceRequest(confidence=request.confidence, joint=request.joint)
        unscaled_shares = {
            identity: question_weights[identity] * _share_count(question)
            for identity, question in self.measured_questions.items()
        }
        total = sum(unscaled_shares.values(), Fraction(0))
        return [
            BatchQuestionOffer(
                _release_pricer(question, terms), unscaled_shares[identity] / total, bool(question.discovered_keys)
            )
            for identity, question in self.measured_questions.items()
        ]

    def _parse_weights(self, weights: Mapping[str, Number]) -> dict[str, Fraction]:
        """Return the weight of each measured question: the largest of those that ask the same."""
        for name in weights:
            if name not in self.questions:
                raise self._unknown_name("weights", name)
        largest: dict[str, Fraction] = {}
        for name, question in self.questions.items():
            weight = exact(weights.get(name, 1), f"the weight of {name!r}", POSITIVE)
            if not question.free:
                largest[question.identity] = max(weight, largest.get(question.identity, weight))
        return largest

    def _unknown_name(self, parameter: str, name: object) -> InvalidParameter:
        rule = f"a mapping whose keys are names of questions, here {_join_names(self.questions)}"
        return InvalidParameter(parameter, name, rule, fix="remove this key, or correct it")

    def _price_within(self, offers: list[BatchQuestionOffer], request: PriceRequest, within: Goals) -> PricedBatch:
        goals, delta = self._goals_by_identity(within), exact(request.delta, "delta")
        self._require_delta(delta)

        def least_prices(family: Family) -> list[Price]:
            cached_prices: dict[Any, Price] = {}
            price_lists = (
                [self._least_question_price(request, family, goal, cached_prices) for goal in goals[identity]]
                for identity in self.measured_questions
            )
            return [max(candidates, key=lambda price: price.epsilon or price.rho or 0) for candidates in price_lists]

        return priced_within(offers, least_prices, delta, request.family, self._context.account.budget)

    def _least_question_price(
        self,
        request: PriceRequest,
        family: Family,
        question_goal: tuple[str, Question, Any],
        cached_prices: dict[Any, Price],
    ) -> Price:
        """Return the least price of one question, cached for questions that differ only in which rows they count."""
        name, question, goal = question_goal
        delta = exact(request.delta, "delta") / len(self.measured_questions)

        def price_of(amount: Fraction) -> Price:
            if family is Gaussian and not question.discovered_keys:
                return Price(rho=rounded_down_to_13_digits(amount))
            return Price(amount, delta if question.discovered_keys else 0)

        shape = error_cache_key(question)
        cache_key = name if shape is None else (shape, repr(goal))
        if cache_key not in cached_prices:
            confidence, joint = request.confidence, request.joint
            question_request = PriceRequest(within=goal, confidence=confidence, mechanism=family, joint=joint)
            with _naming_question_in_errors(name):
                cached_prices[cache_key] = price_of(question.least_price(question_request, price_of))
        return cached_prices[cache_key]

    def _goals_by_identity(self, within: Goals) -> dict[str, list[tuple[str, Question, Any]]]:
        """Return the accuracy goals of each measured question: all goals of those that ask the same."""
        goals: dict[str, list[tuple[str, Question, Any]]] = {identity: [] for identity in self.measured_questions}
        if isinstance(within, Mapping):
            for name in within:
                if name not in self.questions:
                    raise self._unknown_name("within", name)
        for name, question in self.questions.items():
            if not question.free and not (isinstance(within, Mapping) and name not in within):
                goal = within[name] if isinstance(within, Mapping) else within
                goals[question.identity].append((name, question, goal))
        missing = [
            name for name, question in self.questions.items() if not question.free and not goals[question.identity]
        ]
        if missing:
            verb = "has" if len(missing) == 1 else "have"
            fix = (
                f"add half-widths such as {missing[0]!r}: 50; means and selected values have none: release them in a "
                "separate workload at an epsilon"
            )
            rule = f"given for every question, but {_join_names(missing)} {verb} none"
            raise InvalidParameter("within", within, rule, fix=fix)
        return goals

    def _require_delta(self, delta: Fraction) -> None:
        """Refuse a question that discovers its groups without a δ, before anything is spent."""
        for name, question in self.questions.items():
            if question.discovered_keys and not delta:
                with _naming_question_in_errors(name):
                    question.require_delta(delta)

    # ── purchases and stored answers ──

    def _release_strategies(self, batch: PricedBatch) -> tuple[Any, ...]:
        return tuple(
            question.release_strategy(prepared)
            for question, prepared in zip(self.measured_questions.values(), batch.prepared, strict=True)
        )

    def _unstored_indices(self, batch: PricedBatch, fresh: bool) -> list[int]:
        """List the indices of questions without a stored answer that is as good."""
        strategies = zip(self.measured_questions.values(), self._release_strategies(batch), strict=True)
        return [
            index
            for index, (question, strategy) in enumerate(strategies)
            if fresh or not is_stored(strategy, question.plan_key, self._context)
        ]

    def _load_stored_results(
        self, batch: PricedBatch, indices: Sequence[int]
    ) -> dict[str, StoredResult[NoisyMeasurements]]:
        strategies, questions = self._release_strategies(batch), [*self.measured_questions.values()]
        return {
            questions[index].identity: stored_result
            for index in indices
            if (
                stored_result := releasing.find_stored(
                    strategies[index], self._release_request(questions[index].plan_key), self._context.account
                )[0]
            )
            is not None
        }

    def _release_request(self, plan: PlanKey) -> ReleaseRequest:
        data, analyst = self._context.engine.identity(), self._context.analyst
        return ReleaseRequest(self.description, plan.current, data, analyst, former_plan=plan.former)

    def _buy_unstored(
        self, batch: PricedBatch, indices: Sequence[int], requested: RequestedSeries, confidence: Number, joint: bool
    ) -> _BatchPurchase | StoredAnswer:
        context, call = self._context, requested.call
        identities = [list(self.measured_questions)[index] for index in indices]
        questions = [self.measured_questions[identity] for identity in identities]
        priced = zip(questions, batch.prepared, strict=True)
        combined = BatchRelease(tuple(question.release_strategy(prepared) for question, prepared in priced))
        for question, strategy in _one_per_error_cache_key(questions, combined.strategies):
            check_dry_run(strategy, partial(question.build_answer, confidence=confidence, joint=joint))
        warn_of_weak_price(batch.price, context)
        paid_questions = [
            BatchQuestion(question.text, identity, strategy.accuracy_for_reuse)
            for identity, question, strategy in zip(identities, questions, combined.strategies, strict=True)
        ]
        has_request_id = call.request_id is not None
        payer = BatchPayer(
            lambda entry: requested.open(entry, whole=True), paid_questions, _bodies_of_batch, more=has_request_id
        )
        with context.running_work.running():
            batch_result: StoredResult[BatchMeasurements] = releasing.release(
                combined,
                self._release_request(PlanKey("", "")),
                payer=payer,
                engine=context.engine,
                fresh=True,
                seconds=call.time_limit(context.seconds),
                progress=context.progress if call.progress is None else call.progress,
            )
        if payer.stored_answer is not None:
            return payer.stored_answer
        results = zip(identities, batch_result.value.questions, payer.lines, strict=True)
        by_identity = {
            identity: StoredResult(value, line.number, line.time, line.hash, free=False)
            for identity, value, line in results
        }
        return _BatchPurchase(by_identity, batch_result, batch, payer.tab)

    def _receipt(self, batch_purchase: _BatchPurchase, confidence: Number) -> Receipt | None:
        if batch_purchase.batch_result is None or batch_purchase.batch is None:
            return None
        measured = [result.value for result in batch_purchase.result_by_identity.values()]
        terms = [question.purchase for question in measured]
        mechanism_words = dict.fromkeys(scale.words() for question in measured for scale in question.scales)
        combined = PurchaseTerms(
            str(batch_purchase.batch.price),
            _join_distinct(purchase.strategy for purchase in terms),
            _join_distinct(purchase.limits for purchase in terms),
            tuple(dict.fromkeys(bound for purchase in terms for bound in purchase.bounds)),
            self._context.version,
            weak_price_warnings(batch_purchase.batch.price),
        )
        return make_receipt(
            batch_purchase.batch_result,
            combined,
            tuple(mechanism_words),
            question=self.description,
            context=self._context,
            confidence=confidence,
        )

    # ── descriptions ──

    def _forecast(self, batch: PricedBatch, question: Question, request: PriceRequest, stored: set[str]) -> Forecast:
        if question.free:
            return question.error(confidence=request.confidence)
        forecast = question.forecast(self._prepared_for(batch, question), request)
        return replace(forecast, stored=question.identity in stored)

    def _forecast_text(self, batch: PricedBatch, question: Question, confidence: Number) -> str:
        if question.free:
            return "free: from the policy"
        prepared = self._prepared_for(batch, question)
        forecast = question.forecast(prepared, PriceRequest(confidence=confidence))
        return f"{'; '.join(forecast.parts())}; bought separately: {prepared.price}"

    def _prepared_for(self, batch: PricedBatch, question: Question) -> PricedRelease:
        return batch.prepared[list(self.measured_questions).index(question.identity)]

    @property
    def _table_names_text(self) -> str:
        return ", ".join(dict.fromkeys(question.query.plan.table for question in self.questions.values()))

    @property
    def description(self) -> str:
        """The workload in words."""
        return f"a workload of {count_with_noun(len(self), 'question')}: {shorten(', '.join(self.questions), 200)}"

    def __len__(self) -> int:
        return len(self.questions)

    def __repr__(self) -> str:
        questions = count_with_noun(len(self), "question")
        return f"<workload of {questions}: .explain() .error() .price() are free, .release() spends>"


@dataclass(frozen=True)
class _BatchPurchase:
    """A purchase: the result of each question, and the joint charge."""

    result_by_identity: dict[str, StoredResult[NoisyMeasurements]]
    batch_result: StoredResult[BatchMeasurements] | None = None
    batch: PricedBatch | None = None
    tab: Tab | None = None


_NO_PURCHASE = _BatchPurchase({})


def propose_workload(
    context: Context,
    ask: Callable[[str], Any],
    questions: Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str],
) -> WorkloadProposal:
    """Parse all questions; one that cannot be asked is refused by name, before any is asked."""
    context.require_one_account("a workload")
    if isinstance(questions, (str, os.PathLike)):
        file_questions = questions_of(_read_file(questions))
        by_name = {f"q{number}": question for number, question in enumerate(file_questions, 1)}
        parsed = {}
        for number, (name, question) in enumerate(by_name.items(), 1):
            with question_in_refusals(number, question):
                parsed[name] = _require_workload_question(context, ask, question.text)
        return WorkloadProposal(context, parsed)
    questions_by_name: Mapping[str, Any] = (
        questions
        if isinstance(questions, Mapping)
        else {f"q{number}": question for number, question in enumerate(questions, 1)}
    )
    _require_question_names(questions_by_name)
    parsed = {}
    for number, (name, question) in enumerate(questions_by_name.items(), 1):
        question_text = question.text if isinstance(question, Question) else question
        with question_in_refusals(number, WrittenQuestion(str(question_text), 1), name):
            parsed[name] = _require_workload_question(context, ask, question)
    return WorkloadProposal(context, parsed)


def _require_workload_question(context: Context, ask: Callable[[str], Any], source: Any) -> Question:
    question = ask(source) if isinstance(source, str) else source
    if not isinstance(question, Question):
        rule = "a workload takes SELECT questions, not SHOW or DESCRIBE"
        raise Unsupported("listing", rule, fix="ask SHOW TABLES or DESCRIBE separately: both are free")
    if question.query.combined is not None:
        rule = "a question that combines several SELECTs cannot be part of a workload: it is already a batch"
        raise Unsupported("combined", rule, fix="release that question by itself, or list its SELECTs one by one")
    if not question.belongs_to(context):
        rule = "made by the curator that runs the workload"
        raise InvalidParameter("questions", question.text, rule, fix="make every question with this curator's sql(…)")
    question.bounding_options  # noqa: B018  refuse now, by name
    return question


def _read_file(file: str | os.PathLike[str]) -> str:
    path = Path(file)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InvalidParameter(
            "questions",
            str(file),
            "a list, a mapping from names to SQL, or the path of a readable UTF-8 file",
            fix='give a list, such as ["SELECT COUNT(*) FROM …"], or the path of a .sql file',
        ) from None


def _require_question_names(questions: Mapping[str, Any]) -> None:
    if not 0 < len(questions) <= MAX_QUESTIONS:
        rule = f"a workload needs at least one question and at most {MAX_QUESTIONS:,}"
        raise Unsupported(
            "no-question" if not questions else "too-many-questions",
            rule,
            fix="split it into several workloads" if questions else 'pass a list, such as ["SELECT COUNT(*) FROM …"]',
        )
    for name in questions:
        if not isinstance(name, str) or not name.strip():
            raise InvalidParameter(
                "questions",
                name,
                "a mapping whose keys are non-blank strings",
                fix='name each question: {"q1": "SELECT …"}',
            )


def _release_pricer(question: Question, request: PriceRequest) -> Callable[[Price, Family], PricedRelease]:
    return lambda price, family: question.price_release_at(price, replace(request, mechanism=family))


def error_cache_key(question: Question) -> tuple[Any, ...] | None:
    """Return a key that is equal for questions with equal errors at any price; None if it cannot be compared."""
    query = question.query
    if query.plan.keys or question.other_parts or query.outer or question.discovered_keys:
        return None
    sensitivities = [
        (option.strategy, [(measure.sensitivity, measure.unit_value) for measure in option.measures])
        for option in question.bounding_options
    ]
    return query.finish, tuple(map(type, query.plan.measures)), repr(sensitivities), question.table.every_row


def _share_count(question: Question) -> int:
    """Count the measurements of a question, including the discovery of its groups."""
    return max(1, len(question.bounding_options[0].measures) + sum(part.shares for part in question.other_parts))


def _one_per_error_cache_key(questions: Sequence[Question], strategies: Sequence[Any]) -> list[tuple[Question, Any]]:
    """Drop questions of the same shape as another: their dry runs at extreme totals are identical."""
    by_shape = {
        error_cache_key(question) or question.identity: (question, strategy)
        for question, strategy in zip(questions, strategies, strict=True)
    }
    return list(by_shape.values())


def _bodies_of_batch(body: str) -> list[str]:
    batch = codec.loads(body, longest=len(body))
    assert isinstance(batch, BatchMeasurements)
    return [codec.dumps(measured) for measured in batch.questions]


def _naming_question_in_errors(name: str) -> Any:
    return question_in_refusals(None, WrittenQuestion("", 0), name)


def _join_names(names: Any) -> str:
    text = ", ".join(shorten(name) for name in names)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _join_distinct(texts: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
