"""A question over the noisy rows of several SELECTs: joins on keys, UNION ALL, scalar subqueries.

Its SELECTs are a workload: measured in one batch, at one price that is split by their numbers of measurements, and
stored as questions of their own. What is computed from their noisy rows is post-processing, and free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.policy_account import price_and_accounts_phrase
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.error_forecasts import (
    SIZES,
    Forecast,
    Width,
    expression_and_width_by_column,
    merge_widths_of_sizes,
    noiseless_measurements_of_groups,
)
from sfumato.curator.previews.explaining import Explanation, PlanStep, offered_delta_notes
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_combination
from sfumato.curator.proposals.stored_answers import Answers
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import InvalidParameter
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.caveats import combined_caveat_by_column
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import CombinedRows, GroupValues, Query
from sfumato.plan.noisy_rows import unchanged_source_columns
from sfumato.privacy import Budget
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer, build_answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.batch_prices import PricedBatch
from sfumato.release.measured import (
    NoisyMeasurements,
    group_estimator,
    noises_and_first_indices,
    notes_by_column,
    rank_errors,
    selection_notes,
)
from sfumato.release.noisy_rows.combining import SourceRows, finish_combined
from sfumato.release.noisy_rows.finishing import FinishedRows, finish_with_draws
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows, with_key_functions
from sfumato.release.noisy_rows.noisy_columns import NumberColumn
from sfumato.release.noisy_rows.window_functions import RANK_NOTE
from sfumato.release.parts.shares import NamedNoise
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, make_receipt
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import PriceRequest, RequestedSeries, Weights, Within
from sfumato.release.running_work import Progress


def _separate_selects_fix(call: str) -> str:
    return (
        f"leave it out; or release each SELECT by itself with {call}, and combine the answers in pandas, which is free"
    )


@dataclass(frozen=True)
class CombinedQuestion(Question):
    """A parsed question that combines the noisy rows of several SELECTs."""

    @property
    def combined(self) -> CombinedRows:
        assert self.query.combined is not None
        return self.query.combined

    @cached_property
    def parts(self) -> tuple[Question, ...]:
        """The question of each SELECT that aggregates private rows."""
        queries = zip(self.combined.texts, self.combined.queries, strict=True)
        return tuple(Question(self._context, text, query, query.plan.limits) for text, query in queries)

    @cached_property
    def workload(self) -> WorkloadProposal:
        self._context.require_one_account("a question that combines several SELECTs")
        return WorkloadProposal(self._context, {f"select {index}": part for index, part in enumerate(self.parts, 1)})

    @cached_property
    def plan_key(self) -> PlanKey:
        return self.workload.plan_key.derive(lambda key: digest("combined", key))

    @cached_property
    def discovered_keys(self) -> tuple[int, ...]:
        return next((part.discovered_keys for part in self.parts if part.discovered_keys), ())

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.warnings))

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Strategy | str | None = None,
    ) -> Any:
        """Refuse tighter limits, which would be those of several tables."""
        raise InvalidParameter(
            "limit",
            rows or groups or rows_per_group or str(strategy),
            "left out, because the question combines several SELECTs",
            fix=_separate_selects_fix(".limit(…)"),
        )

    def advise(self, epsilon: Number | None = None, **terms: Any) -> Advice:
        """Return no advice: what causes the error is said of each SELECT by itself."""
        request = self._with_defaults(PriceRequest(epsilon, **terms))
        return Advice(self.text, str(self.price_release(request).price), ())

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
        """Explain each SELECT with its share of the price, and what is computed from their rows. Free."""
        refuse_sample_of_combination(sample)
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range)
        batch = self.price_release(self._with_defaults(stated))
        price = batch.price
        explanation = self.workload.explain(
            epsilon=price.epsilon, delta=price.delta, rho=price.rho, confidence=confidence, mechanism=mechanism
        )
        names = ", ".join(output.name for output in self.query.outputs)
        combined = PlanStep("combine", names, "free: computed from the noisy rows of all SELECTs")
        warnings = (*explanation.warnings, *offered_delta_notes(stated, self.assumed_delta))
        operators = (*explanation.operators, combined)
        return replace(explanation, question=self.text, operators=operators, warnings=warnings)

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
        fresh: bool = False,
        range: str | None = None,  # noqa: A002 - it is called what it is
        joint: bool = False,
        sample: Number | None = None,
    ) -> Forecast:
        """Return the half-width of every number at this price, and whether the account would accept it now. Free."""
        refuse_sample_of_combination(sample)
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint)
        request = stated.with_default_delta(self.assumed_delta)
        batch: Any = self.price_release(request)
        budgets = self._context.budgets
        forecast = self.forecast(batch, request, budgets)
        stored = not fresh and self.workload.is_stored(batch)
        assumed = Fraction(0) if stated.has_or_accepts_delta else exact(request.delta, "delta")
        warnings = forecast.warnings
        if not stored:
            notes = offered_delta_notes(stated, assumed)
            warnings = (*warnings, *notes, *self._context.epsilon_total_warnings(batch.curve))
        remaining = self._context.remaining_after_text(batch.curve, budgets) if forecast.accepted else ""
        return replace(forecast, stored=stored, warnings=warnings, left=remaining, assumed_delta=assumed)

    def forecast(self, prepared: Any, request: PriceRequest, budgets: Sequence[Budget] = ()) -> Forecast:
        """Forecast the error of a priced batch."""
        accepted = all(budget.affords(prepared.curve) for budget in budgets or self._context.budgets)
        price = price_and_accounts_phrase(prepared.price, self._context)
        level, whole = exact(request.confidence, "confidence"), self.integer_columns
        widths = self.widths(prepared, request)
        ranks = dict.fromkeys(self._noisy_rank_columns(prepared, request), RANK_NOTE)
        return Forecast(widths, level, price, accepted, self.warnings, chosen=ranks, whole=whole)

    def _noisy_rank_columns(self, prepared: Any, request: PriceRequest) -> tuple[str, ...]:
        """Return the columns with ranks that noise can change, which have no half-width."""
        if any(part.discovered_keys for part in self.parts):
            return ()
        finished, _ = self._finished_and_measured_at_size(prepared, request, SIZES[0])
        columns = zip(self.query.outputs, finished.columns, strict=True)
        return tuple(
            output.name for output, column in columns if isinstance(column, NumberColumn) and column.is_noisy_rank
        )

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
        """Ask. Only this spends: one charge for all SELECTs, on disk before the first row is read."""
        refuse_sample_of_combination(sample)
        if free or sample_of is not None:
            rule = "left out, because the question combines several SELECTs"
            name, value = ("free", "True") if free else ("sample_of", "…")
            raise InvalidParameter(
                name, free or sample_of, rule, fix=_separate_selects_fix(f".release({name}={value})")
            )
        request = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint)
        request = request.accept_delta(self.default_delta)
        call = ReleaseCall(fresh, request_id, seconds, progress)
        key = self.plan_key.derive(lambda combined: digest(combined, self.text))
        requested = RequestedSeries(self._context, self.text, key, call)
        earlier = requested.find_stored()
        if earlier is not None:
            return self.workload.restore(earlier, confidence, joint).answers[0]
        batch: Any = self.price_release(request)

        def build_combined_answer(
            results: Mapping[str, StoredResult[NoisyMeasurements]], receipt: Receipt | None
        ) -> Answers:
            built = self._build_answer(results, receipt, confidence, joint)
            return Answers(("answer",), (built,), built.receipt)

        return self.workload.buy_and_build(batch, requested, build_combined_answer, confidence, joint).answers[0]

    def _build_answer(
        self,
        results: Mapping[str, StoredResult[NoisyMeasurements]],
        receipt: Receipt | None,
        confidence: Number,
        joint: bool,
    ) -> Answer:
        """Build the answer from the noisy rows of all SELECTs."""
        measured = {identity: result.value for identity, result in results.items()}
        groups = {identity: release.keys.groups for identity, release in measured.items()}
        finished = self._finish_combined_rows(measured, self._query_and_rows_by_select(groups), confidence, joint)
        if receipt is None:
            first = results[self.parts[0].identity]
            words = tuple(dict.fromkeys(scale.words() for release in measured.values() for scale in release.scales))
            receipt = make_receipt(
                first, first.value.purchase, words,
                question=self.text, context=self._context, confidence=confidence, joint=joint,
            )  # fmt: skip
            receipt = replace(
                receipt, guarantee=" and ".join(result.value.purchase.price for result in results.values())
            )
        receipt = replace(receipt, question=self.text)
        annotations = *self._rank_errors_and_notes(measured, confidence), self._caveats(measured)
        return build_answer(self.query, finished, receipt, self.warnings, *annotations).with_clipped(self.clipped)

    def _rank_errors_and_notes(
        self, measured: Mapping[str, NoisyMeasurements], confidence: Number
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Return the rank error of each column that shows quantiles, the largest of its SELECTs, and the notes on
        selected values.
        """
        ranks, notes = {}, {}
        releases = [(part.query, measured[part.identity]) for part in self.parts]
        source_ranks = [notes_by_column(query, rank_errors(release, confidence)) for query, release in releases]
        source_notes = [notes_by_column(query, selection_notes(release, confidence)) for query, release in releases]
        names = [[output.name for output in query.outputs] for query, _ in releases]
        copied = unchanged_source_columns(self.combined.rows, [*map(len, names)])
        for output, columns in zip(self.query.outputs, copied, strict=True):
            source_columns = [(source, names[source][column]) for source, column in sorted(columns)]
            if errors := [
                source_ranks[source][name] for source, name in source_columns if name in source_ranks[source]
            ]:
                ranks[output.name] = max(errors)
            if said := [source_notes[source][name] for source, name in source_columns if name in source_notes[source]]:
                notes[output.name] = "; ".join(dict.fromkeys(said))
        return ranks, notes

    def _caveats(self, measured: Mapping[str, NoisyMeasurements]) -> dict[str, str]:
        """Name, by column, what can move the numbers of each SELECT that it reads."""
        limits = [part.row_limits(measured[part.identity].purchase.strategy) for part in self.parts]
        return combined_caveat_by_column(self.combined, limits)

    def clipped(self) -> Any:
        """Refuse to count what was cut, which is said of each SELECT by itself."""
        raise InvalidParameter(
            "clipped",
            self.text,
            "called on a question with one SELECT, because each SELECT has limits and bounds of its own",
            fix="ask each SELECT alone: curator.sql(…).clipped()",
        )

    def _query_and_rows_by_select(self, groups: Mapping[str, Sequence[GroupValues]]) -> list[tuple[Query, AnswerRows]]:
        """Return each SELECT with its rows, in which functions of keys are keys of their own."""
        rows = (
            answer_rows(part.query.finish.sets, groups[part.identity], len(part.query.plan.keys)) for part in self.parts
        )
        engine = self._context.engine
        return [
            with_key_functions(part.query, part_rows, engine.values)
            for part, part_rows in zip(self.parts, rows, strict=True)
        ]

    def _finish_combined_rows(
        self,
        measured: Mapping[str, NoisyMeasurements],
        query_and_rows_by_part: list[tuple[Query, AnswerRows]],
        confidence: Number,
        joint: bool,
    ) -> FinishedRows:
        """Finish the rows of every SELECT, and then the SELECT over them; equal measurements share their noises."""
        noises, first_noises = noises_and_first_indices(list(measured.values()), confidence)
        first_noise = dict(zip(measured, first_noises, strict=True))

        def source(part: Question, query: Query, rows: AnswerRows) -> SourceRows:
            identity = part.identity
            estimates = group_estimator(measured[identity], confidence, rows, (noises, first_noise[identity]))
            return lambda draws: finish_with_draws(query, rows, estimates, draws)

        sources = [source(part, *pair) for part, pair in zip(self.parts, query_and_rows_by_part, strict=True)]
        return finish_combined(self.combined, sources, joint=joint)

    def price_release_at(self, price: Price, request: PriceRequest) -> Any:
        if request.weights is not None or request.range is not None:
            name, value = ("weights", request.weights) if request.weights is not None else ("range", request.range)
            rule = "left out, because the question combines several SELECTs"
            raise InvalidParameter(name, value, rule, fix=_separate_selects_fix(f".release(…, {name}=…)"))
        return self.workload.price_at(price, request)

    def widths(self, prepared: Any, request: PriceRequest, size: int | None = None) -> dict[str, Width]:
        """Return half-widths for groups of this size, or of several sizes; none where groups are discovered."""
        if any(part.discovered_keys for part in self.parts):
            return {}
        sizes = self.evaluated_sizes(prepared, size)
        return merge_widths_of_sizes(
            sizes, [self._widths_at_size(prepared, request, group_size) for group_size in sizes]
        )

    def evaluated_sizes(self, prepared: Any, size: int | None) -> tuple[int, ...]:  # noqa: ARG002
        """Return the sizes of the groups that half-widths are evaluated for: what is combined may depend on any."""
        return (size,) if size is not None else SIZES

    def _finished_and_measured_at_size(
        self, batch: PricedBatch, request: PriceRequest, size: int
    ) -> tuple[FinishedRows, dict[str, NoisyMeasurements]]:
        """Finish the rows of groups of this size, without noise."""
        level = exact(request.confidence, "confidence", CONFIDENCE)
        prepared = dict(zip(self.workload.measured_questions, batch.prepared, strict=True))
        measured = {
            identity: noiseless_measurements_of_groups(
                prepared[identity], part.shared_parts.requests, size, len(part.groups)
            )
            for identity, part in self.workload.measured_questions.items()
        }
        groups = {identity: part.groups for identity, part in self.workload.measured_questions.items()}
        rows = self._query_and_rows_by_select(groups)
        return self._finish_combined_rows(measured, rows, level, request.joint), measured

    def _widths_at_size(self, batch: PricedBatch, request: PriceRequest, size: int) -> dict[str, float]:
        finished, measured = self._finished_and_measured_at_size(batch, request, size)
        is_fractional = any(
            scale.unit_value.denominator > 1 for release in measured.values() for scale in release.scales
        )
        rounding = 0.5 if is_fractional else 0.0  # counts in fractions of a row are shown as integers
        return {
            name: width + rounding
            for name, (_, width) in expression_and_width_by_column(self.query.outputs, finished).items()
        }
