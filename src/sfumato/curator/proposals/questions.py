"""A question as a proposal: its price and its error are free; only ``release`` spends."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self, cast

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import by_period, charged, priced
from sfumato.curator.previews.advising import Advice, Tip, advise
from sfumato.curator.previews.explaining import (
    Explanation,
    Operator,
    adds_up,
    explain,
    foretold,
    names,
    notes,
    require_delta,
    require_short,
    without_delta,
)
from sfumato.curator.previews.forecasts import (
    Forecast,
    Width,
    draw_errors,
    draw_terms,
    forecast_ranks,
    half_widths,
    least_price,
    supposed,
)
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.bought_synopses import FreeAnswer, SynopsisQuestion, best, taken
from sfumato.errors import EngineFailed, InvalidParameter, SfumatoError, Unsupported, shorten
from sfumato.notebook_html import paragraphs, preformatted, table
from sfumato.plan.aggregates.measures import Reads
from sfumato.plan.aggregates.value_measures import DistinctValues
from sfumato.plan.bounding import BoundedPlan, boundings, for_neighbours, found_bounding, whole_bounding
from sfumato.plan.canonical import digest
from sfumato.plan.keys import conditions, groups, undeclared as undeclared_keys
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.total_readings import FoundTotals
from sfumato.plan.readings.value_readings import pair_limits
from sfumato.plan.sharing import Shared, shared
from sfumato.plan.values.expressions import Column, Expression, Result, Windowed, columns, noises
from sfumato.plan.warnings import undeclared
from sfumato.plan.words import cutting, words
from sfumato.plots.picture import Picture, saved
from sfumato.policy import Table, Type, Value
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.release.answers.answer import Answer, answer
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.sampling_errors import half_widths as half_widths_of_samples, sampled_share
from sfumato.release.found_groups import FoundGroups, most_keys
from sfumato.release.measured import MOST_NUMBERS, KnownGroups, Measured, by_column, estimating, promises, rank_errors
from sfumato.release.noisy_rows.finishing import finish, picks, simultaneous
from sfumato.release.noisy_rows.key_functions import answer_rows, with_key_functions
from sfumato.release.parts.other_parts import other_part
from sfumato.release.parts.question_parts import Family, NamedNoise, OtherPart
from sfumato.release.parts.shares import WeightedRequest
from sfumato.release.preparing import Prepared, prepare
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, is_stored, receipt, released
from sfumato.release.releasing import Progress, ReleaseStrategy, StoredResult, limited
from sfumato.release.requests import Request, Weights, Within

SMALL_DELTA = Fraction(1, 10**9)
"""The default δ of a price where one is required."""
_MAX_PREPARED = 64  # prepared releases cached per question: a price search tries many


@dataclass(frozen=True)
class Question:
    """A parsed question to a curator, not yet asked."""

    _context: Context = field(repr=False)
    text: str
    query: Query
    limits: Limits
    strategy: Strategy | None = None

    def __post_init__(self) -> None:
        if self.query.plan.measures or self.found:
            plan, context = by_period(self.query.plan, self._context)
            object.__setattr__(self, "query", replace(self.query, plan=plan))
            object.__setattr__(self, "_context", context)

    @property
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

    @cached_property
    def alike(self) -> tuple[Any, ...] | None:
        """A key that is equal for questions with equal errors at any price; None if it cannot be compared."""
        if self.query.plan.keys or self.others or self.query.outer or self.found:
            return None
        measure_types = tuple(map(type, self.query.plan.measures))
        sensitivities = [
            (option.strategy, [(measure.sensitivity, measure.unit_value) for measure in option.measures])
            for option in self.options
        ]
        return self.query.finish, measure_types, repr(sensitivities), self.table.every_row

    def is_of(self, context: Context) -> bool:
        """Return whether the question belongs to this context's curator, or to its view as an analyst."""
        return self._context.engine is context.engine

    @cached_property
    def found(self) -> tuple[int, ...]:
        """The indices of keys with undeclared values, which are discovered in the data."""
        plan = self.query.plan
        return undeclared_keys(plan.keys, conditions(plan.source)) if plan.keys else ()

    @cached_property
    def groups(self) -> tuple[GroupKey, ...]:
        """Every combination of declared key values, from the policy, whatever the data hold."""
        plan, engine, seconds = self.query.plan, self._context.engine, self._context.seconds
        keys = tuple(key for index, key in enumerate(plan.keys) if index not in self.found)
        if not keys:
            return groups((), engine.values)
        try:
            with limited(engine, seconds):
                return groups(keys, engine.values, conditions(plan.source))
        except (TimeoutError, EngineFailed):
            if seconds is None:
                raise
            raise Unsupported(
                "slow-groups",
                f"listing the groups took more than {seconds:g} seconds, or more than the allowed memory",
                fix="group by fewer columns or coarser values, or ask the owner for more time",
            ) from None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the answer may miss for lack of declarations, from the policy alone. Free."""
        return undeclared(self.query)

    @cached_property
    def shared(self) -> Shared:
        """The measurements from which the requested results are computed."""
        return shared(self.query.plan)

    @cached_property
    def others(self) -> tuple[OtherPart, ...]:
        """The measurements other than totals, each with its own strategy."""
        max_groups = 2 * self.limits.groups if self.found else len(self.groups)
        parts = []
        for part in self.shared.parts[1:]:
            limits = self.limits
            if part.reads is Reads.DIFFERENT:
                limits = pair_limits(limits, cast("DistinctValues", part.asked[0]).value)
            bounded = for_neighbours(whole_bounding(part.plan, limits, max_groups), self._context.policy.neighbours)
            parts.append(other_part(bounded, part, self._candidates))
            self._require_few_cells(parts[-1])
        return tuple(parts)

    def _require_few_cells(self, part: OtherPart) -> None:
        """Refuse a table of groups and values that is too large to hold."""
        if len(self.groups) * part.cells > MOST_NUMBERS:
            rule = f"values are selected from at most {MOST_NUMBERS:,} pairs of a group and a value"
            count = f"this question has {len(self.groups):,} groups of {part.cells:,} values"
            fix = "group by fewer columns, or ask for a coarser value"
            raise Unsupported("too-many-cells", f"{rule}; {count}", fix=fix)

    def _candidates(self, value: Expression) -> tuple[Value, ...]:
        """List the possible values of an expression, from the policy alone."""
        within = conditions(self.query.plan.source)
        if undeclared_keys((value,), within):
            rule = f"the most frequent value is selected among declared ones, and {words(value)} has none"
            fix = "declare its values in the policy; or group by it, count, and ORDER BY the count with a LIMIT"
            raise Unsupported("unlisted-values", rule, fix=fix)
        value_groups = groups((value,), self._context.engine.values, within)
        return tuple(candidate for (candidate,) in value_groups if candidate is not None)

    @cached_property
    def options(self) -> tuple[BoundedPlan, ...]:
        """The sound strategies to limit one unit's contribution."""
        rows = len(self.groups) * max(1, len(self.query.finish.sets))
        measure_count = sum(len(part.measures) for part in self.shared.parts)
        if rows * max(measure_count, len(self.query.plan.measures)) > MOST_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"an answer has at most {MOST_NUMBERS:,} noisy numbers",
                fix="ask for fewer columns or coarser groups",
            )
        options: tuple[BoundedPlan, ...]
        if self.found:
            self._require_no_subtotals()
            require_short(self.query, self.found)
            options = (found_bounding(self.shared.parts[0].plan, self.limits),)
        else:
            options = self._boundings()
        if self.strategy is not None:
            options = tuple(option for option in options if option.strategy is self.strategy)
            if not options:
                raise InvalidParameter("strategy", self.strategy.value, "a strategy that is sound for this question")
        return tuple(for_neighbours(option, self._context.policy.neighbours) for option in options)

    def _boundings(self) -> tuple[BoundedPlan, ...]:
        """List the strategies for declared groups.

        A number of several measures needs equal row weights in all: clipping would scale each measure separately.
        """
        plan = self.shared.parts[0].plan
        bounded_plans = boundings(plan, self.limits, len(self.groups))
        if any(len(result.measures) > 1 for result in self.shared.made):
            bounded_plans = tuple(bounded for bounded in bounded_plans if bounded.strategy.order is None)
        return bounded_plans

    def _require_no_subtotals(self) -> None:
        """Refuse subtotals over discovered groups: they would exclude the groups that are not shown."""
        if self.query.finish.sets:
            raise Unsupported(
                "unknown-subtotals",
                f"subtotals add up all groups, and those of {names(self.query, self.found)} are found in the data",
                fix="ask for the totals in a separate question, or declare the values in the policy",
            )

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
            raise InvalidParameter("limit", rows or groups, "left out: every row is a unit")
        new_strategy = self.strategy
        if strategy is not None:
            try:
                new_strategy = Strategy(strategy)
            except ValueError:
                strategy_names = ", ".join(option.value for option in Strategy if option is not Strategy.WHOLE)
                raise InvalidParameter("strategy", strategy, f"one of {strategy_names}") from None
        plan = self.query.plan
        largest = plan.largest_limits if self.limits == plan.limits else self.limits
        limits = self.limits.tighten(rows, groups, rows_per_group, largest)
        return replace(self._with_limits(self.query, limits), strategy=new_strategy)

    def _with_limits(self, query: Query, limits: Limits) -> Self:
        """Return the question with other limits or measures, reusing its list of groups."""
        changed = replace(self, query=query, limits=limits)
        changed.__dict__.update({name: self.__dict__[name] for name in ("found", "groups") if name in self.__dict__})
        return changed

    def advise(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
    ) -> Advice:
        """Advise which limit or bound causes most of the error, at ε = 1 when no price is given. Free."""
        request = self._with_default_price(Request(epsilon, delta, rho, within, confidence, mechanism, weights))
        prepared = self.prepared(request)
        return Advice(self.text, str(prepared.price), self._tips(request, prepared))

    def _tips(self, request: Request, prepared: Prepared) -> tuple[Tip, ...]:
        price = request.price if request.within is None else prepared.price

        def forecast_again(query: Query, limits: Limits) -> Mapping[str, Width]:
            changed = self._with_limits(query, limits)
            return changed.forecast(changed.prepared_at(price, request), request.confidence).columns

        ranks = by_column(self.query, forecast_ranks(prepared, self.shared.made, request.confidence))
        every_row, whole = self.table.every_row, self._integer_columns
        return advise(self.query, self.limits, every_row=every_row, again=forecast_again, ranks=ranks, whole=whole)

    def _with_default_price(self, request: Request) -> Request:
        """Default the price to ε = 1, with a small δ where one is required."""
        if request.named:
            return request
        return replace(request, epsilon=1, delta=request.delta or SMALL_DELTA if self.found else request.delta)

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        range: str | None = None,  # noqa: A002 - it is called what it is
    ) -> Explanation:
        """Explain, operator by operator, what is measured and what it costs; at ε = 1 when no price is given. Free."""
        request = self._with_default_price(Request(epsilon, delta, rho, within, confidence, mechanism, weights, range))
        prepared, policy = self.prepared(request), self._context.policy
        keys = (names(self.query, self.found), self._without_delta) if self.found else None
        explanation = explain(self.text, self.query, policy, self.groups, self._max_groups, prepared, confidence, keys)
        free_answer = self._bought_answer(confidence)
        free_operators = () if free_answer is None else (Operator("free", "a bought synopsis", free_answer.words),)
        operators = (*explanation.operators, *charged(self._context), *free_operators)
        price_notes = (prepared.idle,) if prepared.idle else self._context.closing(prepared.curve)
        tips = self._tips(request, prepared)[:1]
        warnings = (*self.warnings, *self._discovery_warning(request, prepared), *price_notes)
        return replace(explanation, operators=operators, warnings=warnings, advice="".join(map(str, tips)))

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        fresh: bool = False,
        range: str | None = None,  # noqa: A002 - it is called what it is
    ) -> Forecast:
        """Return the half-width of every number at this price, and whether the account would accept it now. Free.

        For quantiles it is in rows, as a rank error. A stored answer that is as accurate is reported as ``stored``,
        unless a ``fresh`` one is requested.
        """
        request = Request(epsilon, delta, rho, within, confidence, mechanism, weights, range)
        prepared = self.prepared(request)
        forecast = self.forecast(prepared, confidence)
        stored = not fresh and is_stored(self.kind(prepared), self.identity, self._context)
        free_answer = None if fresh else self._bought_answer(confidence)
        warnings = forecast.warnings
        if not stored:
            warnings = (*warnings, *self._discovery_warning(request, prepared), *self._context.closing(prepared.curve))
        remaining = self._remaining_after(prepared) if forecast.accepted else ""
        free = "" if free_answer is None else free_answer.words
        return replace(forecast, stored=stored, free=free, warnings=warnings, left=remaining)

    def _discovery_warning(self, request: Request, prepared: Prepared) -> tuple[str, ...]:
        """Warn, before the purchase, that discovered groups may be too small to be shown."""
        threshold = prepared.selection
        if threshold is None:
            return ()
        in_one_group = None
        if not self.table.every_row and self.limits.groups > 1:
            with suppress(InvalidParameter, Unsupported):  # a refused variant gives no advice
                limited_question = self._with_limits(self.query, self.limits.tighten(None, 1, None))
                in_one_group = limited_question.prepared_at(prepared.price, request).selection
        return (foretold(threshold, in_one_group, self._context.policy.size),)

    def _remaining_after(self, prepared: Prepared) -> str:
        """Describe what would remain of the account, or of the analyst's share, after this release."""
        *other_budgets, payer_budget = (budget.charge(prepared.curve) for budget in self._context.budgets)
        return payer_budget.left_beside(*other_budgets)

    def _bought_answer(self, confidence: Number) -> FreeAnswer | None:
        """Return the best free answer from a bought synopsis."""
        return None if self.found else best(self._synopsis_question(confidence), self._context)

    def _synopsis_question(self, confidence: Number, joint: bool = False) -> SynopsisQuestion:
        return SynopsisQuestion(self.text, self.query, self.limits, lambda: self.groups, confidence, joint)

    def price(
        self, within: Within, *, delta: Number = 0, confidence: Number = "0.95", weights: Weights | None = None
    ) -> float:
        """Find the least ε, at this δ, at which these columns (one number: every column) are within this. Free."""
        request = Request(within=within, delta=delta, confidence=confidence, weights=weights)
        self._require_delta(Price(1, request.delta))
        return float(self.least_price(request))

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
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
    ) -> Answer:
        """Ask. Only this spends, charged on disk before the first row is read.

        ``weights`` are weights of columns' errors when the price is split: ``weights={"visits": 2}``. ``seconds`` and
        ``progress`` default to the curator's. With ``range="value"`` half of the cost of quantiles buys an interval of
        values around each.

        ``free`` returns the answer of a bought synopsis, ``within`` the goal if one is given, and spends nothing;
        without such a synopsis it is refused.

        ``sample_of`` states that the units are a sample, by its share or by the size of the population: counts and
        means then show approximate sampling errors beside the noise (``sampling_errors``).
        """
        request = Request(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint)
        share = None if sample_of is None else sampled_share(sample_of, self._context.policy.size)
        if free:
            self._check_free(request, fresh=fresh, request_id=request_id)
            return self._with_sampling_error(
                taken(self._synopsis_question(confidence, joint), self._context, within), share, confidence
            )
        call = ReleaseCall(fresh, request_id, seconds, progress)
        prepared = self.prepared(request)
        shown_as = exact(confidence, "confidence"), joint
        answer = released(
            self.kind(prepared),
            prepared.price,
            lambda result: self.answered(result, confidence, joint),
            question=self.text,
            plan=self.identity,
            here=self._context,
            call=call,
            rehearsed=self._dry_run_releases.get(shown_as) is prepared,
        )
        if not answer.receipt.free:
            self._dry_run_releases[shown_as] = prepared
        with_note = replace(answer, warnings=(*answer.warnings, prepared.idle)) if prepared.idle else answer
        return self._with_sampling_error(with_note, share, confidence)

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Weights | None = None,
        range: str | None = None,  # noqa: A002 - it is called what it is
        joint: bool = False,
    ) -> Answer:
        """Return an answer with invented numbers, marked as such; at ε = 1 when no price is given. Free."""
        request = self._with_default_price(
            Request(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint)
        )
        price: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta, "rho": rho, "within": within}
        options: dict[str, Any] = {"mechanism": mechanism, "weights": weights, "range": range, "joint": joint}
        return rehearsed(
            self, self._context, lambda proposal: proposal.release(**price, **options, confidence=confidence)
        )

    def _with_sampling_error(self, answer: Answer, share: Fraction | None, confidence: Number) -> Answer:
        """Add the sampling error of a sample of this share."""
        if share is None:
            return answer
        rows = 1 if self.table.every_row else self.limits.rows_per_group
        values = {name: answer.column(name) for name in answer.intervals}
        half_widths_by_column = half_widths_of_samples(
            self.query, values, answer.intervals, rows=rows, share=share, confidence=confidence
        )
        return replace(answer, sampling=half_widths_by_column)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: Number = 0,
        confidence: Number = "0.95",
        least: Number = "0.01",
        most: Number = 10,
    ) -> Picture:
        """Plot the error against ε from ``least`` to ``most``, at this δ, with the remaining budget marked. Free: no
        row is read.

        With a path (.svg, .png, .html) the picture is saved, too.
        """
        self._require_delta(Price(1, delta))

        def widths(epsilon: Fraction) -> Mapping[str, Width]:
            return self._widths(self._prepare_at(Price(epsilon, delta), Request(epsilon, delta)), confidence)

        remaining = min(budget.largest_pure() for budget in self._context.budgets)
        terms = draw_terms(self._context.policy.unit, delta, confidence)
        return saved(draw_errors(" ".join(self.text.split()), widths, (least, most), remaining, terms), path)

    def _check_free(self, request: Request, *, fresh: bool, request_id: str | None) -> None:
        """Refuse price terms together with ``free``."""
        price_terms = (request.epsilon, request.rho, request.mechanism, request.weights, request.range, request_id)
        if fresh or exact(request.delta, "delta") or any(term is not None for term in price_terms):
            fix = "leave out free to buy an answer, or leave out the price to use a bought synopsis"
            raise InvalidParameter("free", True, "left out where a price or its terms are given", fix=fix)
        if self.found:
            rule = f"the groups of {names(self.query, self.found)} are found in the data, which a synopsis cannot do"
            raise Unsupported("no-synopsis", rule, fix="declare the values in the policy, or name a price")

    @cached_property
    def _dry_run_releases(self) -> dict[tuple[Fraction, bool], Prepared]:
        """The last released strategies by presentation: the same need no second dry run."""
        return {}

    def kind(self, prepared: Prepared) -> ReleaseStrategy[Measured]:
        """Return the release strategy: what is read and drawn."""
        if self.found:
            reading = FoundTotals(prepared.bounded, self.found, self.groups)
            return FoundGroups(prepared, self.shared.made, reading, self._context.version)
        return KnownGroups(prepared, self.shared.made, self.groups, self._context.version)

    @cached_property
    def _max_groups(self) -> int:
        """The number of groups of an answer, or its maximum."""
        declared_groups = len(self.groups)
        if not self.found:
            return declared_groups
        return declared_groups * most_keys(FoundTotals(self.options[0], self.found, self.groups), self.others)

    @cached_property
    def identity(self) -> str:
        """The hash of what is measured: equal for questions that differ only in post-processing."""
        groups_hash = hashlib.sha256(
            repr(self.groups).encode()
        ).hexdigest()  # hashed separately, since there may be many
        parts = (self.query.plan, self.limits, self.strategy, groups_hash, self._context.declared)
        return digest(*parts, "found", self.found) if self.found else digest(*parts)

    def __repr__(self) -> str:
        question_text = " ".join(self.text.split())
        free_methods = ".explain() .error() .price() .advise() .limit() are free"
        return f"<Question {shorten(question_text, 100)}: {free_methods}, .release() asks>"

    def _repr_html_(self) -> str:
        """Render the question with its errors at two prices. Free; a refused price shows its refusal."""
        rows = [(f"ε = {epsilon}", self._error_text(epsilon)) for epsilon in ("0.1", "1")]
        free_methods = ".explain() .error() .price() .advise() .limit() are free, .release() asks"
        return preformatted(self.text) + table(("price", "error"), rows) + paragraphs([*self.warnings, free_methods])

    def _error_text(self, epsilon: str) -> str:
        try:
            return "; ".join(self.error(epsilon=epsilon, delta=SMALL_DELTA if self.found else 0).parts()) or "exact"
        except SfumatoError as refusal:
            return refusal.rule

    def answered(self, found: StoredResult[Measured], confidence: Number, joint: bool) -> Answer:
        """Build the answer from the drawn totals."""
        measured = found.value
        rows = answer_rows(self.query.finish.sets, measured.keys.groups, len(self.query.plan.keys))
        estimates = estimating(measured, confidence, rows)
        query, rows = with_key_functions(self.query, rows, self._context.engine.values)
        finished = finish(query, rows, estimates, joint=joint)
        ranks = by_column(self.query, rank_errors(measured, confidence))
        noise_words = tuple(dict.fromkeys(scale.words() for scale in measured.scales))
        warnings = self.warnings
        if measured.selection is not None:
            noise_words = (measured.selection.words(), *noise_words)
            shown_groups, together = len(measured.keys.groups), adds_up(self.query)
            warnings = (*warnings, *notes(measured.selection, shown_groups, self._max_groups, together=together))
        answer_receipt = receipt(
            found, measured.purchase, noise_words, question=self.text, here=self._context, confidence=confidence
        )
        selected = by_column(self.query, promises(measured, confidence))
        finished_answer = answer(self.query, finished, replace(answer_receipt, joint=joint), warnings)
        return replace(finished_answer, ranks=ranks, chosen=selected)

    def prepared(self, request: Request) -> Prepared:
        """Prepare the release at the given price, or at the least that is accurate enough. Free."""
        if request.within is not None:
            return self._prepare_at(Price(self.least_price(request), request.delta), request)
        return self._prepare_at(request.price, request)

    def _require_delta(self, price: Price) -> None:
        if self.found:
            require_delta(names(self.query, self.found), price, self._context.account.budget, self._without_delta)

    @cached_property
    def _without_delta(self) -> str:
        return without_delta(self.query, self.found, self._context.engine.catalog())

    def prepared_at(self, price: Price, request: Request) -> Prepared:
        """Prepare the release at a price of its own, as one of several questions bought together."""
        return self._prepare_at(price, request)

    def _prepare_at(self, price: Price, request: Request) -> Prepared:
        self._require_delta(price)
        weighted_request, family = WeightedRequest(self.shared.made, self._weights(request)), request.family
        range_miss = request.around(self._joint_ranges(request.joint))
        others = tuple(part.with_ranges(range_miss) for part in self.others)
        if price.allows_gaussian:  # the choice of noise depends on what the account can keep open
            budget = self._context.account.budget
            return prepare(self.options, price, others=others, asked=weighted_request, account=budget, family=family)
        key = price, family, weighted_request.weights, range_miss
        cached = self._prepared_releases.get(key)
        if cached is None:
            cached = prepare(self.options, price, others=others, asked=weighted_request, family=family)
            if len(self._prepared_releases) >= _MAX_PREPARED:
                self._prepared_releases.clear()
            self._prepared_releases[key] = cached
        return cached

    def _joint_ranges(self, joint: bool) -> int:
        """Return the number of ranges that must hold jointly for one range of the answer to hold."""
        if joint or picks(self.query):
            return max(1, simultaneous(self.query, self._max_groups))
        return max(1, *(noises(output.expression) for output in self.query.finish.outputs))

    @cached_property
    def _prepared_releases(self) -> dict[tuple[Price, Family | None, tuple[Fraction, ...], Fraction | None], Prepared]:
        """A cache of releases prepared for pure prices."""
        return {}

    def _weights(self, request: Request) -> tuple[Fraction, ...]:
        """Return the weight of each result: that of the heaviest column computed from it."""
        column_weights = request.weights or {}
        results_by_column = {
            output.name: _result_indices(output.expression, self.query.finish) for output in self.query.finish.outputs
        }
        noisy_columns = [name for name, indices in results_by_column.items() if indices]
        for name in column_weights:
            if name not in noisy_columns:
                raise InvalidParameter("weights", name, "by columns of noisy numbers: " + ", ".join(noisy_columns))
        weights = {name: exact(weight, f"weights {name}", POSITIVE) for name, weight in column_weights.items()}
        return tuple(
            max([weights[name] for name in weights if index in results_by_column[name]], default=Fraction(1))
            for index in range(len(self.shared.made))
        )

    def forecast(self, prepared: Prepared, confidence: Number) -> Forecast:
        """Forecast the error of a prepared release."""
        accepted = all(budget.affords(prepared.curve) for budget in self._context.budgets)
        widths, warnings = self._widths(prepared, confidence), (*self.warnings, *supposed(self.query))
        if prepared.selection is not None:
            warnings = (*warnings, *notes(prepared.selection, 1, self._max_groups + 1, together=adds_up(self.query)))
        ranks = tuple(by_column(self.query, forecast_ranks(prepared, self.shared.made, confidence)))
        quality = self._selection_quality(prepared, confidence, widths)
        warnings = (*warnings, *([prepared.idle] if prepared.idle else []))
        level, price = exact(confidence, "confidence"), priced(prepared.price, self._context)
        counted, whole = cutting(prepared.used), self._integer_columns
        return Forecast(
            widths, level, price, accepted, warnings, ranks=ranks, chosen=quality, counted=counted, whole=whole
        )

    @property
    def _integer_columns(self) -> tuple[str, ...]:
        """The names of the integer columns."""
        return tuple(output.name for output in self.query.outputs if output.expression.domain.type is Type.INTEGER)

    def _selection_quality(self, prepared: Prepared, confidence: Number, widths: Mapping[str, Width]) -> dict[str, str]:
        """Describe the quality of every selected column, which has no half-width."""
        quality = {}
        for output in self.query.outputs:
            match output.expression:
                case Column(Result(index)) if not self.query.outer and output.name not in widths:
                    part_index = self.shared.made[index].part
                    if part_index:  # part 0 holds the totals
                        part = prepared.others[part_index - 1]
                        quality[output.name] = part.words(prepared.measured[part_index], confidence)[1]
        return quality

    def _widths(self, prepared: Prepared, confidence: Number, size: int | None = None) -> dict[str, Width]:
        """Return half-widths for groups of this size, of the declared size, or of several sizes."""
        # the declared size counts units, which are rows only where every row is a unit
        is_size_known = self.table.every_row and not self.query.plan.keys
        rows = self._context.policy.size if is_size_known else size
        results = self.shared.made
        return half_widths(self.query, prepared, results, self.groups, self._max_groups, confidence, rows)

    def least_price(self, request: Request, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least ε, or amount of another price, that meets the accuracy goals."""
        price_of = priced or (lambda epsilon: Price(epsilon, request.delta))
        column_names = [output.name for output in self.query.outputs]

        def widths(amount: Fraction, size: int | None) -> dict[str, Width]:
            return self._widths(self._prepare_at(price_of(amount), request), request.confidence, size)

        return least_price(request.within, column_names, widths)


def _result_indices(expression: Expression, finish: Finish) -> set[int]:
    """Return the indices of the results that an expression reads, directly or through a window."""
    references = columns(expression)
    arguments = [finish.windows[window.index].argument for window in references if isinstance(window, Windowed)]
    window_results = (_result_indices(argument, finish) for argument in arguments if argument is not None)
    return {reference.index for reference in references if isinstance(reference, Result)}.union(*window_results)
