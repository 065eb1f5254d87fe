"""A question as a proposal: its price and its error are free; only ``release`` spends."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from fractions import Fraction
from importlib import import_module
from typing import Any, Self, cast

from sfumato.caching import cached_property, once_per_last_argument
from sfumato.curator.context import Context
from sfumato.curator.frame_methods import SuggestsNames
from sfumato.curator.policy_account import explain_period_charges, price_and_accounts_phrase, restrict_to_periods
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.error_forecasts import (
    COARSE_STEPS,
    FINE_STEPS,
    Forecast,
    Width,
    draw_error_by_price,
    evaluated_sizes,
    even_spread_note,
    forecast_rank_errors,
    half_widths,
    least_price,
    picture_footnotes,
    quality_of_selected_columns,
)
from sfumato.curator.previews.explaining import (
    DEFAULT_DELTA,
    Explanation,
    PlanStep,
    advice_without_delta,
    discovery_notes,
    explain_release,
    keys_sql,
    offered_delta,
    require_delta_for_discovery,
    require_short_keys,
)
from sfumato.curator.previews.previewing import ForecastRows, forecast_rows, preview_release
from sfumato.curator.proposals import question_advice as refusals
from sfumato.curator.proposals.bought_synopses import (
    FreeAnswer,
    SynopsisQuestion,
    best_free_answer,
    require_free_answer,
    require_no_price,
)
from sfumato.curator.proposals.question_advice import (
    BestTips,
    discovery_warnings,
    error_or_refusal_text,
    question_tips,
    tips_from_bought_counts,
    with_answer_advice,
    with_forecast_advice,
    with_offered_delta,
)
from sfumato.curator.proposals.question_tests import FinishedParts, answer_tester, finish_parts
from sfumato.curator.proposals.sampled_questions import (
    key_with_sample,
    refuse_conflicting_sample,
    steps_with_sample,
    text_with_sample,
    validated_sampling_rate,
)
from sfumato.errors import EngineFailed, InvalidParameter, shorten
from sfumato.garbage import collection_paused
from sfumato.html_fragments import paragraphs, preformatted, table
from sfumato.plan.aggregates.measures import ReadingKind
from sfumato.plan.aggregates.value_measures import DistinctValues
from sfumato.plan.bounding import (
    BoundedPlan,
    bound_by_whole_rows,
    bound_for_discovery,
    candidate_bounded_plans,
    for_neighbours,
)
from sfumato.plan.canonical import PlanKey, digest_beginning
from sfumato.plan.caveats import RowLimits, without_coverage_note
from sfumato.plan.descriptions import describe_dropped_rows
from sfumato.plan.keys import conditions_met_by_rows, possible_group_keys, undeclared_key_indices as undeclared_keys
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.readings.dense_readings import pair_limits, ranked_step_limit
from sfumato.plan.readings.total_readings import DiscoveredTotals
from sfumato.plan.released_values import require_no_released_values
from sfumato.plan.sharing import SharedMeasures, share_measures
from sfumato.plan.values.expressions import Expression
from sfumato.plan.warnings import undeclared_value_warnings
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Table, Type, Value
from sfumato.privacy import Budget
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer, build_answer
from sfumato.release.answers.answer_columns import AnswerColumn, Columns, parse_sampled_fraction
from sfumato.release.discovered_groups import DiscoveredGroupsRelease, max_keys_in_answer
from sfumato.release.measured import MAX_NUMBERS, DeclaredGroupsRelease, NoisyMeasurements, notes_by_column
from sfumato.release.noisy_rows.finishing import count_jointly_held_ranges
from sfumato.release.parts.other_parts import build_other_part
from sfumato.release.parts.shares import NamedNoise, OtherPart, WeightedRequests
from sfumato.release.prices import Price
from sfumato.release.pricing import PricedRelease, price_release
from sfumato.release.proposal import ReleaseCall, StoredProposal, is_stored, make_receipt, release_or_find
from sfumato.release.releasing import ReleaseStrategy, StoredResult, interrupt_after
from sfumato.release.requests import PriceRequest, Weights, Within
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

FREE_METHODS = ".explain() .error() .price() .advise() .limit() are free, .release() spends"
_MAX_PREPARED = 64  # prepared releases cached per question: a price search tries many


@dataclass(frozen=True)
class Question(RehearseAlias, StoredProposal, SuggestsNames):
    """A parsed question to a curator, not yet asked."""

    _context: Context = field(repr=False)
    text: str
    query: Query
    limits: ContributionLimits
    strategy: Strategy | None = None

    def __post_init__(self) -> None:
        require_no_released_values(self.query)
        if self.query.plan.measures or self.discovered_keys:
            plan, context = restrict_to_periods(self.query.plan, self._context)
            object.__setattr__(self, "query", replace(self.query, plan=plan))
            object.__setattr__(self, "_context", context)

    @cached_property
    def table(self) -> Table:
        return self._context.policy.tables[self.query.plan.table]

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types. Free."""
        return tuple(AnswerColumn(output.name, output.expression.domain.type) for output in self.query.outputs)

    @property
    def free(self) -> bool:
        """Whether it is answered without a price: False for measured questions."""
        return False

    def belongs_to(self, context: Context) -> bool:
        """Return whether the question belongs to this context's curator, or to its view as an analyst."""
        return self._context.engine is context.engine

    @cached_property
    def discovered_keys(self) -> tuple[int, ...]:
        """The indices of keys with undeclared values, which are discovered in the data."""
        plan = self.query.plan
        return undeclared_keys(plan.keys, conditions_met_by_rows(plan.source)) if plan.keys else ()

    @cached_property
    def groups(self) -> tuple[GroupValues, ...]:
        """Every combination of declared key values, from the policy, whatever the data hold."""
        plan, engine, seconds = self.query.plan, self._context.engine, self._context.seconds
        keys = tuple(key for index, key in enumerate(plan.keys) if index not in self.discovered_keys)
        if not keys:
            return possible_group_keys((), engine.values)
        try:
            with interrupt_after(engine, seconds):
                return possible_group_keys(keys, engine.values, conditions_met_by_rows(plan.source))
        except (TimeoutError, EngineFailed):
            if seconds is None:
                raise
            raise refusals.slow_groups_refusal(seconds) from None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the answer may miss for lack of declarations, from the policy alone. Free."""
        return undeclared_value_warnings(self.query, self._context.policy)

    @cached_property
    def shared_parts(self) -> SharedMeasures:
        """The measurements from which the requested results are computed."""
        return share_measures(self.query.plan)

    @cached_property
    def other_parts(self) -> tuple[OtherPart, ...]:
        """The measurements other than totals, each with its own strategy."""
        max_groups = 2 * self.limits.groups if self.discovered_keys else len(self.groups)
        group_count = None if self.discovered_keys else len(self.groups)
        parts, policy = [], self._context.policy
        matches = self._context.engine.matches_values and self.strategy is None and not self.discovered_keys
        for part in self.shared_parts.parts[1:]:
            limits = self.limits
            if part.reads is ReadingKind.DIFFERENT:
                limits = pair_limits(limits, cast("DistinctValues", part.requests[0]).value)
            max_steps = ranked_step_limit(policy, group_count) if part.reads is ReadingKind.RANKS else None
            bounded = for_neighbours(bound_by_whole_rows(part.plan, limits, max_groups, max_steps), policy.neighbours)
            parts.append(build_other_part(bounded, part, self._candidate_values, use_matching=matches))
            refusals.require_few_cells(len(self.groups), parts[-1].numbers_per_group)
        return tuple(parts)

    def _candidate_values(self, value: Expression) -> tuple[Value, ...]:
        """List the possible values of an expression, from the policy alone."""
        within = conditions_met_by_rows(self.query.plan.source)
        if undeclared_keys((value,), within):
            raise refusals.unlisted_values_refusal(value)
        value_groups = possible_group_keys((value,), self._context.engine.values, within)
        return tuple(candidate for (candidate,) in value_groups if candidate is not None)

    @cached_property
    def bounding_options(self) -> tuple[BoundedPlan, ...]:
        """The sound strategies to limit one unit's contribution."""
        rows = len(self.groups) * max(1, len(self.query.finish.sets))
        measure_count = sum(len(part.members) for part in self.shared_parts.parts)
        if rows * max(measure_count, len(self.query.plan.measures)) > MAX_NUMBERS:
            raise refusals.too_many_numbers_refusal()
        options: tuple[BoundedPlan, ...]
        if self.discovered_keys:
            refusals.require_no_subtotals(self.query, self.discovered_keys)
            require_short_keys(self.query, self.discovered_keys)
            options = (bound_for_discovery(self.shared_parts.parts[0].plan, self.limits),)
        else:
            options = self._declared_group_boundings()
        if self.strategy is not None:
            applicable = [option.strategy.value for option in options]
            options = tuple(option for option in options if option.strategy is self.strategy)
            if not options:
                rule = f"one of those that this question allows ({', '.join(applicable)})"
                raise InvalidParameter("strategy", self.strategy.value, rule, fix=f"write strategy={applicable[0]!r}")
        return tuple(for_neighbours(option, self._context.policy.neighbours) for option in options)

    def _declared_group_boundings(self) -> tuple[BoundedPlan, ...]:
        """List the strategies for declared groups.

        A number of several measures needs equal row weights in all: clipping would scale each measure separately.
        """
        bounded_plans = candidate_bounded_plans(self.shared_parts.parts[0].plan, self.limits, len(self.groups))
        if self.shared_parts.combines_measures:
            bounded_plans = tuple(bounded for bounded in bounded_plans if bounded.strategy.norm_order is None)
        return bounded_plans

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Strategy | str | None = None,
    ) -> Self:
        """Ask the same question with tighter limits per unit: less noise, more bias."""
        if self.table.every_row:
            raise InvalidParameter("limit", rows or groups, "left out, because every row is a unit in this policy")
        new_strategy = self.strategy
        if strategy is not None:
            selectable = {option.value: option for option in Strategy if option.is_selectable}
            name = strategy.value if isinstance(strategy, Strategy) else strategy
            if name not in selectable:
                raise InvalidParameter("strategy", strategy, f"one of {', '.join(selectable)}")
            new_strategy = selectable[name]
        plan = self.query.plan
        largest = plan.max_requestable_limits if self.limits == plan.limits else self.limits
        limits = self.limits.tighten(rows, groups, rows_per_group, largest)
        return replace(self._with_query_and_limits_of_same_groups(self.query, limits), strategy=new_strategy)

    def _with_query_and_limits_of_same_groups(self, query: Query, limits: ContributionLimits) -> Self:
        """Return the question with other limits or measures, reusing its list of groups."""
        changed = replace(self, query=query, limits=limits)
        computed = self.__dict__.keys() & {"discovered_keys", "groups"}
        changed.__dict__.update({name: self.__dict__[name] for name in computed})
        return changed

    def advise(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
    ) -> Advice:
        """Advise which limit or bound causes most of the error, at ε = 1 when no price is given. Free."""
        request = self._with_defaults(PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights))
        prepared = self.price_release(request)
        tips = (*tips_from_bought_counts(self), *question_tips(self, request, prepared))
        return Advice(self.text, str(prepared.price), tips)

    def with_query(self, query: Query, limits: ContributionLimits) -> Self:
        """Return the question with other measures, keys or limits; equal keys have equal groups."""
        if query.plan.keys == self.query.plan.keys:
            return self._with_query_and_limits_of_same_groups(query, limits)
        return replace(self, query=query, limits=limits)

    @property
    def declared_size(self) -> int | None:
        """The public number of units; None where the policy declares none."""
        return self._context.policy.size

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
        """Explain, operator by operator, what is measured and what it costs; at ε = 1 when no price is given. Free."""
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, sample=sample)
        request = self._with_defaults(stated)
        prepared, policy = self.price_release(request), self._context.policy
        keys = (
            (keys_sql(self.query, self.discovered_keys), self._advice_without_delta) if self.discovered_keys else None
        )
        groups = self.groups, self._max_groups
        explanation = explain_release(self.text, self.query, policy, *groups, prepared, confidence, keys)
        free_answer = self._best_synopsis_answer(confidence)
        free = () if free_answer is None else (PlanStep("free", "a bought synopsis", free_answer.offer_sentence),)
        steps = steps_with_sample(explanation.operators, prepared, policy.unit.name)
        operators = (*steps, *explain_period_charges(self._context), *free)
        price_notes = (
            (prepared.unused_delta_reason,)
            if prepared.unused_delta_reason
            else self._context.epsilon_total_warnings(prepared.curve)
        )
        tips = question_tips(self, request, prepared)[:1]
        warnings = (*self.warnings, *discovery_warnings(self, stated, prepared), *price_notes)
        return replace(explanation, operators=operators, warnings=warnings, advice="".join(map(str, tips)))

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
        """Return the half-width of every number at this price, and whether the account would accept it now. Free.

        For quantiles it is in rows, as a rank error. A stored answer that is as accurate is reported as ``stored``,
        unless a ``fresh`` one is requested.
        """
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint, sample)
        request = stated.with_default_delta(self.assumed_delta)
        prepared = self.price_release(request)
        budgets = self._context.budgets
        forecast = self.forecast(prepared, request, budgets)
        stored = not fresh and is_stored(
            self.release_strategy(prepared), key_with_sample(self.plan_key, prepared), self._context
        )
        free_answer = None if fresh else self._best_synopsis_answer(confidence)
        warnings = forecast.warnings
        if not stored:
            forecast = with_forecast_advice(forecast, self, request, prepared)
            closing_warnings = self._context.epsilon_total_warnings(prepared.curve)
            warnings = (*warnings, *discovery_warnings(self, stated, prepared), *closing_warnings)
        left = self._context.remaining_after_text(prepared.curve, budgets) if forecast.accepted else ""
        free = "" if free_answer is None else free_answer.offer_sentence
        assumed = Fraction(0) if stated.has_or_accepts_delta else exact(request.delta, "delta")
        return replace(forecast, stored=stored, free=free, warnings=warnings, left=left, assumed_delta=assumed)

    def _best_synopsis_answer(self, confidence: Number) -> FreeAnswer | None:
        return None if self.discovered_keys else best_free_answer(self._synopsis_question(confidence), self._context)

    def _synopsis_question(self, confidence: Number, joint: bool = False) -> SynopsisQuestion:
        return SynopsisQuestion(self.text, self.query, self.limits, lambda: self.groups, confidence, joint)

    def price(
        self,
        within: Within,
        *,
        delta: Number = 0,
        confidence: Number = DEFAULT_CONFIDENCE,
        weights: Weights | None = None,
        joint: bool = False,
    ) -> float:
        """Find the least ε, at this δ, at which these columns (one number: every column) are within this; with
        ``joint``, all numbers of the answer at once. Free.
        """
        stated = PriceRequest(within=within, delta=delta, confidence=confidence, weights=weights, joint=joint)
        request = stated.with_default_delta(self.assumed_delta)
        self.require_delta(request.delta)
        return float(self.least_price(request))

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
        """Ask. Only this spends, charged on disk before the first row is read.

        ``weights`` are weights of columns' errors when the price is split: ``weights={"visits": 2}``. ``seconds`` and
        ``progress`` default to the curator's. With ``range="value"`` half of the cost of quantiles buys an interval of
        values around each.

        ``free`` returns the answer of a bought synopsis, ``within`` the goal if one is given, and spends nothing;
        without such a synopsis it is refused.

        ``sample_of`` states that the units are a sample, by its share or by the size of the population: counts and
        means then show approximate sampling errors beside the noise (``answer_columns``).

        ``sample="10 %"`` reads a fresh secret sample of the units: each is in it with this probability. The same price
        then buys less noise on the sample, numbers are scaled to all units, and ± covers the sampling, too.
        """
        request = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint, sample)
        call = ReleaseCall(fresh, request_id, seconds, progress)
        request = with_offered_delta(self, self._context, request, call)
        refuse_conflicting_sample(sample, sample_of, free)
        share = None if sample_of is None else parse_sampled_fraction(sample_of, self._context.policy.size)
        if free:
            require_no_price(request, fresh=fresh, request_id=request_id)
            refusals.require_declared_groups(self.query, self.discovered_keys)
            answer = require_free_answer(self._synopsis_question(confidence, joint), self._context, within)
            return self._with_sampling_error(answer, share, confidence)
        prepared, range_options = self.price_release(request), (exact(confidence, "confidence"), joint)
        answer = release_or_find(
            self.release_strategy(prepared),
            prepared.price,
            lambda result: self.build_answer(result, confidence, joint),
            question=text_with_sample(self.text, prepared),
            plan=key_with_sample(self.plan_key, prepared),
            context=self._context,
            call=call,
            skip_dry_run=self._releases_already_dry_run.get(range_options) is prepared,
        )
        if not answer.receipt.free:
            self._releases_already_dry_run[range_options] = prepared
        if prepared.unused_delta_reason:
            answer = answer.changed(warnings=(*answer.warnings, prepared.unused_delta_reason))
        answer = with_answer_advice(answer, self, request, prepared, self._best_tips)
        return self._with_sampling_error(answer, share, confidence)

    def preview(
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
        joint: bool = False,
        sample: Number | None = None,
    ) -> Answer:
        """Return an answer with invented numbers, marked as such; at ε = 1 when no price is given. Free."""
        stated = PriceRequest(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint, sample)

        def release(invented: Question) -> Answer:
            request = invented._with_defaults(stated)  # a δ that fits the invented account: no ledger is read
            return invented.release(**{field.name: getattr(request, field.name) for field in fields(request)})

        return preview_release(self, self._context, release)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: Number = 0,
        confidence: Number = DEFAULT_CONFIDENCE,
        least: Number = "0.01",
        most: Number = 10,
        width: Number = 760,
    ) -> Picture:
        """Plot the error against ε from ``least`` to ``most``, at this δ, with the remaining budget marked, in so many
        pixels. Free: no row is read.

        With a path (.svg, .png, .html) the picture is saved, too.
        """
        delta = PriceRequest(delta=delta).with_default_delta(self.assumed_delta).delta
        self.require_delta(delta)

        def widths(epsilon: Fraction) -> Mapping[str, Width]:
            request = PriceRequest(epsilon, delta, confidence=confidence)
            return self.widths(self.price_release_at(request.price, request), request)

        remaining = min(budget.largest_pure() for budget in self._context.budgets)
        title, terms = " ".join(self.text.split()), picture_footnotes(self._context.policy.unit, delta, confidence)
        steps = COARSE_STEPS if delta else FINE_STEPS  # noise at a δ is calibrated numerically
        return save_if_path(draw_error_by_price(title, widths, (least, most), remaining, terms, width, steps), path)

    def _with_sampling_error(self, answer: Answer, share: Fraction | None, confidence: Number) -> Answer:
        rows = 1 if self.table.every_row else self.limits.rows_per_group
        return answer if share is None else answer.with_sampling_error(self.query, rows, share, confidence)

    @cached_property
    def _releases_already_dry_run(self) -> dict[tuple[Fraction, bool], PricedRelease]:
        """The last released strategies by presentation: the same need no second dry run."""
        return {}

    _best_tips = cached_property(lambda _: BestTips())

    @once_per_last_argument
    def release_strategy(self, prepared: PricedRelease) -> ReleaseStrategy[NoisyMeasurements]:
        """Return the release strategy: what is read and drawn."""
        if self.discovered_keys:
            reading = DiscoveredTotals(prepared.bounded, self.discovered_keys, self.groups)
            return DiscoveredGroupsRelease(prepared, self.shared_parts.requests, reading, self._context.version)
        return DeclaredGroupsRelease(prepared, self.shared_parts.requests, self.groups, self._context.version)

    @cached_property
    def _max_groups(self) -> int:
        """The number of groups of an answer, or its maximum."""
        if not self.discovered_keys:
            return len(self.groups)
        reading = DiscoveredTotals(self.bounding_options[0], self.discovered_keys, self.groups)
        return len(self.groups) * max_keys_in_answer(reading, self.other_parts)

    @cached_property
    def plan_key(self) -> PlanKey:
        """The key of what is measured: equal for questions that differ only in post-processing."""
        # the groups are hashed separately, since there may be many
        groups_hash, plan = hashlib.sha256(repr(self.groups).encode()).hexdigest(), self.query.plan
        parts, discovery_parts = (plan, self.limits, self.strategy, groups_hash), ("found", self.discovered_keys)
        further, digest = discovery_parts if self.discovered_keys else (), digest_beginning(*parts)
        return self._context.plan_key(plan, lambda policy: digest(policy, *further))

    def __repr__(self) -> str:
        return f"<Question {shorten(' '.join(self.text.split()), 100)}: {FREE_METHODS}>"

    def _repr_html_(self) -> str:
        """Render the question with its errors at two prices. Free; a refused price shows its refusal."""
        rows = [(f"ε = {epsilon}", error_or_refusal_text(self, epsilon)) for epsilon in ("0.1", "1")]
        return preformatted(self.text) + table(("price", "error"), rows) + paragraphs([*self.warnings, FREE_METHODS])

    @collection_paused()
    def build_answer(self, result: StoredResult[NoisyMeasurements], confidence: Number, joint: bool) -> Answer:
        """Build the answer: what a sealed line shows is computed once for the last one, the receipt anew each time."""
        line = result.number, result.hash, exact(confidence, "confidence"), joint
        parts = self._last_formatted_answer.get(line) if result.hash else None
        if parts is None:
            parts = finish_parts(self, self._context, lambda: self._max_groups, result.value, confidence, joint)
            if result.hash and parts.is_short:
                self._last_formatted_answer.clear()
                self._last_formatted_answer[line] = parts
        terms, words, context = result.value.purchase, parts.noise_words, self._context
        answer_receipt = make_receipt(
            result, terms, words, question=self.text, context=context, confidence=confidence, joint=joint
        )
        built = build_answer(self.query, parts.finished, answer_receipt, parts.warnings, *parts.annotations)
        return built.with_clipped(self.clipped).with_tests(answer_tester(self, result.value, answer_receipt))

    @cached_property
    def _last_formatted_answer(self) -> dict[tuple[int, str, Fraction, bool], FinishedParts]:
        """By a line's number and seal, and how it is shown."""
        return {}

    def caveat_by_column(self, joined_strategies: str) -> dict[str, str]:
        """Name, by column, what can move its numbers under these bounding strategies and is not in their ±."""
        return self._clipping.caveat_with_worst_case_by_column(self, joined_strategies)

    def row_limits(self, joined_strategies: str) -> RowLimits:
        """Return what one unit may contribute, in words, under these bounding strategies."""
        groups = None if self.discovered_keys else len(self.groups)
        return RowLimits.from_policy(self.limits, self._context.policy, groups, joined_strategies)

    @property
    def max_groups_per_unit(self) -> int | None:
        """The most groups of one unit that count; None where no answer has more."""
        return self.row_limits("").max_groups

    def clipped(self) -> Any:
        """Propose to count, at one price, the units beyond each limit and the cells beyond each bound. Free."""
        return self._clipping.propose_clipped(self._context, self)

    _clipping = property(lambda _: import_module("sfumato.curator.proposals.limit_proposals"))  # made of questions
    cached_caveats = cached_property(lambda _: dict[str, Any]())  # by bounding strategies (``limit_proposals``)

    def price_release(self, request: PriceRequest) -> PricedRelease:
        """Prepare the release at the given price, or at the least that is accurate enough. Free."""
        least = None if request.within is None else Price(self.least_price(request), request.delta)
        return self.price_release_at(least or request.price, request)

    @property
    def default_delta(self) -> Fraction:
        """The δ that ``delta="default"`` accepts to find groups in the data; 0 if none is needed or left."""
        return offered_delta(self._context.budgets) if self.discovered_keys else Fraction(0)

    @property
    def assumed_delta(self) -> Fraction:
        """The default δ, or a fixed one where none is left, for free calls that name none; a release must name it."""
        return self.default_delta or (DEFAULT_DELTA if self.discovered_keys else Fraction(0))

    def _with_defaults(self, stated: PriceRequest) -> PriceRequest:
        return stated.with_assumed_price().with_default_delta(self.assumed_delta)

    def require_delta(self, delta: Number, epsilon: Number | None = 1) -> None:
        """Refuse groups that are found in the data without a δ, or at a price without an ε."""
        if self.discovered_keys:
            keys, budgets = keys_sql(self.query, self.discovered_keys), self._context.budgets
            require_delta_for_discovery(keys, epsilon is not None and bool(delta), budgets, self._advice_without_delta)

    @cached_property
    def _advice_without_delta(self) -> str:
        return advice_without_delta(self.query, self.discovered_keys, self._context.engine.catalog())

    def price_release_at(self, price: Price, request: PriceRequest) -> PricedRelease:
        """Prepare the release at a price of its own, as one of several questions bought together."""
        rate = validated_sampling_rate(self, request, self._context.policy)
        refusals.refuse_range_of_time_quantiles(self.query, request.range)
        self.require_delta(price.delta, price.epsilon)
        weights = request.result_weights(self.query.finish, len(self.shared_parts.requests))
        weighted_request, family = WeightedRequests(self.shared_parts.requests, weights), request.family
        range_miss = request.interval_confidence(
            count_jointly_held_ranges(self.query, lambda: self._max_groups, request.joint)
        )
        others = tuple(part.with_ranges_if_sold(range_miss) for part in self.other_parts)
        # the choice between Laplace and Gaussian noise depends on what the account can keep open
        budget = self._context.account.budget if price.allows_gaussian else None
        key = price.exact_terms, family, weights if request.weights else (), range_miss, rate, budget
        cached = self._cached_releases.get(key)
        if cached is None:
            terms: dict[str, Any] = {"others": others, "requests": weighted_request, "family": family, "sample": rate}
            cached = price_release(self.bounding_options, price, account=budget, **terms)
            if len(self._cached_releases) >= _MAX_PREPARED:
                self._cached_releases.clear()
            self._cached_releases[key] = cached
        return cached

    @cached_property
    def _cached_releases(self) -> dict[tuple[Any, ...], PricedRelease]:
        """A cache of prepared releases, by all that decides their noise."""
        return {}

    def forecast(self, prepared: PricedRelease, request: PriceRequest, budgets: Sequence[Budget] = ()) -> Forecast:
        """Forecast the error of a prepared release, for these budgets or for those that there are now."""
        confidence = request.confidence
        accepted = all(budget.affords(prepared.curve) for budget in budgets or self._context.budgets)
        widths, warnings = self.widths(prepared, request), (*self.warnings, *even_spread_note(self.query))
        if prepared.selection is not None:
            warnings += discovery_notes(prepared.selection, 1, self._max_groups + 1, self.query)
        results = self.shared_parts.requests
        ranks = tuple(notes_by_column(self.query, forecast_rank_errors(prepared, results, confidence)))
        quality = quality_of_selected_columns(self.query, prepared, results, widths, confidence)
        warnings = (*warnings, *([prepared.unused_delta_reason] if prepared.unused_delta_reason else []))
        level, price = exact(confidence, "confidence"), price_and_accounts_phrase(prepared.price, self._context)
        counted, whole = describe_dropped_rows(prepared.measured_plans), self.integer_columns
        lines, facts = self.caveat_by_column(prepared.strategy_names), (widths, level, price, accepted, warnings)
        caveats = {name: line if name in widths else without_coverage_note(line) for name, line in lines.items()}
        return Forecast(*facts, ranks=ranks, chosen=quality, counted=counted, whole=whole, caveats=caveats)

    @property
    def integer_columns(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.query.outputs if output.expression.domain.type is Type.INTEGER)

    def widths(self, prepared: PricedRelease, request: PriceRequest, size: int | None = None) -> dict[str, Width]:
        """Return half-widths for groups of this size, of the declared size, or of several sizes."""
        # the declared size counts units, which are rows only where every row is a unit
        is_size_known = self.table.every_row and not self.query.plan.keys
        rows = (self._context.policy.size if is_size_known else None) or size
        results, confidence = self.shared_parts.requests, request.confidence
        return half_widths(self.query, self._forecast_rows, prepared, results, confidence, rows, joint=request.joint)

    @cached_property
    def _forecast_rows(self) -> ForecastRows | None:
        return forecast_rows(self.query, self.groups, self._max_groups)

    def evaluated_sizes(self, prepared: Any, size: int | None) -> tuple[int, ...]:
        """Return the sizes of the groups that half-widths are evaluated for."""
        return evaluated_sizes(self.query, prepared, self.shared_parts.requests, size)

    def least_price(self, request: PriceRequest, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least ε, or amount of another price, that meets the accuracy goals."""
        price_of = priced or (lambda epsilon: Price(epsilon, request.delta))
        cache: dict[tuple[Fraction, tuple[int, ...]], dict[str, Width]] = {}  # each by its price and evaluated sizes

        def widths(amount: Fraction, size: int | None) -> dict[str, Width]:
            prepared = self.price_release_at(price_of(amount), request)
            key = amount, self.evaluated_sizes(prepared, size)
            return cache[key] if key in cache else cache.setdefault(key, self.widths(prepared, request, size))

        return least_price(request.within, [output.name for output in self.query.outputs], widths)
