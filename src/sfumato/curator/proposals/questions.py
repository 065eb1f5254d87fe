"""A question is a proposal: what it costs and how wrong it will be is free; only ``release`` spends."""

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
"""Of a price that nobody named, where one needs a δ."""
_MOST_KEPT = 64  # releases that a question keeps prepared: finding a price tries many


@dataclass(frozen=True)
class Question:
    """This is one question to a curator, understood but not yet asked."""

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
        """List the columns of the answer, with their types: this follows from the question alone, and is free."""
        return tuple(AnswerColumn(output.name, output.expression.domain.type) for output in self.query.outputs)

    @property
    def free(self) -> bool:
        """Tell whether it is answered without a price: what is measured never is."""
        return False

    @cached_property
    def alike(self) -> tuple[Any, ...] | None:
        """Give what is equal for questions that are as wrong at any price, whatever rows they count; None for one that
        stands by itself.
        """
        if self.query.plan.keys or self.others or self.query.outer or self.found:
            return None
        asked = tuple(map(type, self.query.plan.measures))
        scaled = [
            (option.strategy, [(one.sensitivity, one.unit_value) for one in option.measures]) for option in self.options
        ]
        return self.query.finish, asked, repr(scaled), self.table.every_row

    def is_of(self, context: Context) -> bool:
        """Tell whether it was put to the curator of this context, or to the same one under an analyst's name."""
        return self._context.engine is context.engine

    @cached_property
    def found(self) -> tuple[int, ...]:
        """Give the places of the keys whose values nobody declared: those are found in the data."""
        plan = self.query.plan
        return undeclared_keys(plan.keys, conditions(plan.source)) if plan.keys else ()

    @cached_property
    def groups(self) -> tuple[GroupKey, ...]:
        """List every combination of what the other keys can be: from the policy, whatever the data hold."""
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
                f"the groups of a question are found within {seconds:g} seconds and the memory allowed",
                fix="group by fewer columns or coarser values, or ask the owner for more time",
            ) from None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Say what the answer may miss because nobody declared it: from the policy alone, and free."""
        return undeclared(self.query)

    @cached_property
    def shared(self) -> Shared:
        """Say what is measured for what is asked."""
        return shared(self.query.plan)

    @cached_property
    def others(self) -> tuple[OtherPart, ...]:
        """List what is measured beside totals, each with the strategy it needs."""
        most = 2 * self.limits.groups if self.found else len(self.groups)
        found = []
        for part in self.shared.parts[1:]:
            limits = self.limits
            if part.reads is Reads.DIFFERENT:
                limits = pair_limits(limits, cast("DistinctValues", part.asked[0]).value)
            bounded = for_neighbours(whole_bounding(part.plan, limits, most), self._context.policy.neighbours)
            found.append(other_part(bounded, part, self._candidates))
            self._require_few_cells(found[-1])
        return tuple(found)

    def _require_few_cells(self, part: OtherPart) -> None:
        """Refuse a table of groups and values that is too large to hold: how large it is says the policy."""
        if len(self.groups) * part.cells > MOST_NUMBERS:
            rule = f"a value is chosen in every group from at most {MOST_NUMBERS:,} pairs of a group and a value"
            here = f"here are {len(self.groups):,} groups of {part.cells:,} values"
            fix = "group by fewer columns, or ask for a coarser value"
            raise Unsupported("too-many-cells", f"{rule}; {here}", fix=fix)

    def _candidates(self, value: Expression) -> tuple[Value, ...]:
        """List what a value may be, from the policy alone."""
        within = conditions(self.query.plan.source)
        if undeclared_keys((value,), within):
            rule = f"the most frequent value is chosen among listed ones, and those of {words(value)} are not declared"
            fix = "declare its values in the policy; or group by it, count, and ORDER BY the count with a LIMIT"
            raise Unsupported("unlisted-values", rule, fix=fix)
        listed = groups((value,), self._context.engine.values, within)
        return tuple(each for (each,) in listed if each is not None)

    @cached_property
    def options(self) -> tuple[BoundedPlan, ...]:
        """List the sound strategies to limit what one unit changes."""
        rows = len(self.groups) * max(1, len(self.query.finish.sets))
        measured = sum(len(part.measures) for part in self.shared.parts)
        if rows * max(measured, len(self.query.plan.measures)) > MOST_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"an answer is made of at most {MOST_NUMBERS:,} noisy numbers",
                fix="ask for fewer columns or coarser groups",
            )
        found: tuple[BoundedPlan, ...]
        if self.found:
            self._require_no_subtotals()
            require_short(self.query, self.found)
            found = (found_bounding(self.shared.parts[0].plan, self.limits),)
        else:
            found = self._boundings()
        if self.strategy is not None:
            found = tuple(each for each in found if each.strategy is self.strategy)
            if not found:
                raise InvalidParameter("strategy", self.strategy.value, "one that is sound for this question")
        return tuple(for_neighbours(each, self._context.policy.neighbours) for each in found)

    def _boundings(self) -> tuple[BoundedPlan, ...]:
        """List the strategies for known groups. Where a number is made from several measures, each row has to weigh the
        same in all of them: clipping would scale each measure's totals by itself.
        """
        plan = self.shared.parts[0].plan
        found = boundings(plan, self.limits, len(self.groups))
        if any(len(each.measures) > 1 for each in self.shared.made):
            found = tuple(each for each in found if each.strategy.order is None)
        return found

    def _require_no_subtotals(self) -> None:
        """Refuse totals over groups that are found: they would leave out what is not shown."""
        if self.query.finish.sets:
            raise Unsupported(
                "unknown-subtotals",
                f"subtotals add up all groups, and those of {names(self.query, self.found)} are found in the data",
                fix="ask for the totals in a question of their own, or declare the values in the policy",
            )

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Strategy | str | None = None,
    ) -> Self:
        """Ask the same question with tighter limits for one unit: less noise, more bias."""
        if self.table.every_row:
            raise InvalidParameter("limit", rows or groups, "left out: every row is a unit")
        chosen = self.strategy
        if strategy is not None:
            try:
                chosen = Strategy(strategy)
            except ValueError:
                names = ", ".join(each.value for each in Strategy if each is not Strategy.WHOLE)
                raise InvalidParameter("strategy", strategy, f"one of {names}") from None
        plan = self.query.plan
        largest = plan.largest_limits if self.limits == plan.limits else self.limits
        limits = self.limits.tighten(rows, groups, rows_per_group, largest)
        return replace(self._again(self.query, limits), strategy=chosen)

    def _again(self, query: Query, limits: Limits) -> Self:
        """Make the same question with other limits, or other measures of the same groups, which are not listed anew."""
        made = replace(self, query=query, limits=limits)
        made.__dict__.update({name: self.__dict__[name] for name in ("found", "groups") if name in self.__dict__})
        return made

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
        """Say which limit or bound makes most of the error, and what a tighter one would give; at ε = 1 when no price
        is named. From the policy alone, and free.
        """
        request = self._named(Request(epsilon, delta, rho, within, confidence, mechanism, weights))
        prepared = self.prepared(request)
        return Advice(self.text, str(prepared.price), self._tips(request, prepared))

    def _tips(self, request: Request, prepared: Prepared) -> tuple[Tip, ...]:
        price = request.price if request.within is None else prepared.price

        def again(query: Query, limits: Limits) -> Mapping[str, Width]:
            other = self._again(query, limits)
            return other.forecast(other.prepared_at(price, request), request.confidence).columns

        ranks = by_column(self.query, forecast_ranks(prepared, self.shared.made, request.confidence))
        return advise(
            self.query, self.limits, every_row=self.table.every_row, again=again, ranks=ranks, whole=self._whole
        )

    def _named(self, request: Request) -> Request:
        """Name the price ε = 1 where none is, with a small δ where one is needed."""
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
        """Explain operator by operator what happens and what it costs; at ε = 1 when no price is named. This is
        free.
        """
        request = self._named(Request(epsilon, delta, rho, within, confidence, mechanism, weights, range))
        prepared, policy = self.prepared(request), self._context.policy
        keys = (names(self.query, self.found), self._without_delta) if self.found else None
        found = explain(self.text, self.query, policy, self.groups, self._most_groups, prepared, confidence, keys)
        free = self._bought(confidence)
        offered = () if free is None else (Operator("free", "a synopsis that was bought", free.words),)
        operators = (*found.operators, *charged(self._context), *offered)
        idle = (prepared.idle,) if prepared.idle else self._context.closing(prepared.curve)
        tips = self._tips(request, prepared)[:1]
        said = (*self.warnings, *self._foretold(request, prepared), *idle)
        return replace(found, operators=operators, warnings=said, advice="".join(map(str, tips)))

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
        """Give the half-width of every number at this price, and say whether the account would accept it now. Free.

        Of quantiles it is in rows, between what is released and what it stands for. An answer that is as good and was
        bought before is said to be ``stored``, unless a ``fresh`` one is wanted.
        """
        request = Request(epsilon, delta, rho, within, confidence, mechanism, weights, range)
        prepared = self.prepared(request)
        found = self.forecast(prepared, confidence)
        bought = not fresh and is_stored(self.kind(prepared), self.identity, self._context)
        free = None if fresh else self._bought(confidence)
        said = found.warnings
        if not bought:
            said = (*said, *self._foretold(request, prepared), *self._context.closing(prepared.curve))
        left = self._left_after(prepared) if found.accepted else ""
        return replace(found, stored=bought, free="" if free is None else free.words, warnings=said, left=left)

    def _foretold(self, request: Request, prepared: Prepared) -> tuple[str, ...]:
        """Say of groups that are found in the data, before anything is spent, that there may be none to show."""
        threshold = prepared.selection
        if threshold is None:
            return ()
        alone = None
        if not self.table.every_row and self.limits.groups > 1:
            with suppress(InvalidParameter, Unsupported):  # what cannot be asked so is no advice
                other = self._again(self.query, self.limits.tighten(None, 1, None))
                alone = other.prepared_at(prepared.price, request).selection
        return (foretold(threshold, alone, self._context.policy.size),)

    def _left_after(self, prepared: Prepared) -> str:
        """Say what would be left of the account, or of an analyst's share, if this were bought now."""
        *others, own = (budget.charge(prepared.curve) for budget in self._context.budgets)
        return own.left_beside(*others)

    def _bought(self, confidence: Number) -> FreeAnswer | None:
        """Find the synopsis that was bought and answers it best."""
        return None if self.found else best(self._asked(confidence), self._context)

    def _asked(self, confidence: Number, joint: bool = False) -> SynopsisQuestion:
        return SynopsisQuestion(self.text, self.query, self.limits, lambda: self.groups, confidence, joint)

    def price(
        self, within: Within, *, delta: Number = 0, confidence: Number = "0.95", weights: Weights | None = None
    ) -> float:
        """Find the least ε, beside this δ, at which these columns (one number: every column) are this close. Free."""
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
        """Ask. The only thing that spends: charged on disk before the first row is read.

        ``weights`` say by column how much its error counts when the price is split: ``weights={"visits": 2}``.
        ``seconds`` and ``progress`` are the curator's unless they are given for this call. With ``range="value"`` half
        of what quantiles cost buys two numbers around each, between which it lies with this confidence.

        ``free`` takes the answer of a synopsis that was bought, ``within`` what is wanted if that is said, and spends
        nothing: where there is none it is refused.

        ``sample_of`` says that the units are a sample, by the share that was drawn or the size of the population:
        counts and means then show sampling error beside noise, about (``sampling_errors``).
        """
        request = Request(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint)
        share = None if sample_of is None else sampled_share(sample_of, self._context.policy.size)
        if free:
            self._require_free(request, fresh=fresh, request_id=request_id)
            return self._sampled(taken(self._asked(confidence, joint), self._context, within), share, confidence)
        call = ReleaseCall(fresh, request_id, seconds, progress)
        prepared = self.prepared(request)
        shown = exact(confidence, "confidence"), joint
        answer = released(
            self.kind(prepared),
            prepared.price,
            lambda found: self.answered(found, confidence, joint),
            question=self.text,
            plan=self.identity,
            here=self._context,
            call=call,
            rehearsed=self._rehearsed.get(shown) is prepared,
        )
        if not answer.receipt.free:
            self._rehearsed[shown] = prepared
        told = replace(answer, warnings=(*answer.warnings, prepared.idle)) if prepared.idle else answer
        return self._sampled(told, share, confidence)

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
        """Give an answer of the right shape with invented numbers, from the policy alone; at ε = 1 when no price is
        named. It is free, in no ledger, and marked as rehearsed wherever it is shown.
        """
        request = self._named(Request(epsilon, delta, rho, within, confidence, mechanism, weights, range, joint))
        price: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta, "rho": rho, "within": within}
        how: dict[str, Any] = {"mechanism": mechanism, "weights": weights, "range": range, "joint": joint}
        return rehearsed(self, self._context, lambda there: there.release(**price, **how, confidence=confidence))

    def _sampled(self, answer: Answer, share: Fraction | None, confidence: Number) -> Answer:
        """Add how far a sample of this share may be off."""
        if share is None:
            return answer
        rows = 1 if self.table.every_row else self.limits.rows_per_group
        values = {name: answer.column(name) for name in answer.intervals}
        found = half_widths_of_samples(
            self.query, values, answer.intervals, rows=rows, share=share, confidence=confidence
        )
        return replace(answer, sampling=found)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: Number = 0,
        confidence: Number = "0.95",
        least: Number = "0.01",
        most: Number = 10,
    ) -> Picture:
        """Draw how wrong the answer will be against ε, from ``least`` to ``most``, beside this δ: what the account
        would still accept is marked. Free: nothing is spent, and no row is read. With a path (.svg, .png, .html) the
        picture is saved, too.
        """
        self._require_delta(Price(1, delta))

        def widths(epsilon: Fraction) -> Mapping[str, Width]:
            return self._widths(self._at(Price(epsilon, delta), Request(epsilon, delta)), confidence)

        left = min(budget.largest_pure() for budget in self._context.budgets)
        terms = draw_terms(self._context.policy.unit, delta, confidence)
        return saved(draw_errors(" ".join(self.text.split()), widths, (least, most), left, terms), path)

    def _require_free(self, request: Request, *, fresh: bool, request_id: str | None) -> None:
        """Refuse what has no meaning where nothing is bought."""
        priced = (request.epsilon, request.rho, request.mechanism, request.weights, request.range, request_id)
        if fresh or exact(request.delta, "delta") or any(each is not None for each in priced):
            fix = "leave free out to buy an answer, or the price to take what a synopsis says"
            raise InvalidParameter("free", True, "left out where a price is named, or how to spend it", fix=fix)
        if self.found:
            rule = f"the groups of {names(self.query, self.found)} are found in the data, and a synopsis has none"
            raise Unsupported("no-synopsis", rule, fix="declare the values in the policy, or name a price")

    @cached_property
    def _rehearsed(self) -> dict[tuple[Fraction, bool], Prepared]:
        """Keep what was last released, by how it was shown: it was rehearsed, and the same need not be again."""
        return {}

    def kind(self, prepared: Prepared) -> ReleaseStrategy[Measured]:
        """Say what is read and drawn for it."""
        if self.found:
            reading = FoundTotals(prepared.bounded, self.found, self.groups)
            return FoundGroups(prepared, self.shared.made, reading, self._context.version)
        return KnownGroups(prepared, self.shared.made, self.groups, self._context.version)

    @cached_property
    def _most_groups(self) -> int:
        """Count the groups that an answer has, or has at most."""
        declared = len(self.groups)
        if not self.found:
            return declared
        return declared * most_keys(FoundTotals(self.options[0], self.found, self.groups), self.others)

    @cached_property
    def identity(self) -> str:
        """Give the hash of what is measured: equal for questions that differ only in what is done with the numbers."""
        listed = hashlib.sha256(repr(self.groups).encode()).hexdigest()  # a text of their own: there may be many
        parts = (self.query.plan, self.limits, self.strategy, listed, self._context.declared)
        return digest(*parts, "found", self.found) if self.found else digest(*parts)

    def __repr__(self) -> str:
        shown = " ".join(self.text.split())
        free = ".explain() .error() .price() .advise() .limit() are free"
        return f"<Question {shorten(shown, 100)}: {free}, .release() asks>"

    def _repr_html_(self) -> str:
        """Show the question with its errors at two prices, which is free; a price that is refused has none."""
        rows = [(f"ε = {each}", self._told(each)) for each in ("0.1", "1")]
        free = ".explain() .error() .price() .advise() .limit() are free, .release() asks"
        return preformatted(self.text) + table(("price", "error"), rows) + paragraphs([*self.warnings, free])

    def _told(self, epsilon: str) -> str:
        try:
            return "; ".join(self.error(epsilon=epsilon, delta=SMALL_DELTA if self.found else 0).parts()) or "exact"
        except SfumatoError as refused:
            return refused.rule

    def answered(self, found: StoredResult[Measured], confidence: Number, joint: bool) -> Answer:
        """Show what was drawn for it."""
        measured = found.value
        rows = answer_rows(self.query.finish.sets, measured.keys.groups, len(self.query.plan.keys))
        estimates = estimating(measured, confidence, rows)
        made, rows = with_key_functions(self.query, rows, self._context.engine.values)
        finished = finish(made, rows, estimates, joint=joint)
        ranks = by_column(self.query, rank_errors(measured, confidence))
        words = tuple(dict.fromkeys(scale.words() for scale in measured.scales))
        said = self.warnings
        if measured.selection is not None:
            words = (measured.selection.words(), *words)
            shown, together = len(measured.keys.groups), adds_up(self.query)
            said = (*said, *notes(measured.selection, shown, self._most_groups, together=together))
        paper = receipt(found, measured.purchase, words, question=self.text, here=self._context, confidence=confidence)
        chosen = by_column(self.query, promises(measured, confidence))
        said_of = answer(self.query, finished, replace(paper, joint=joint), said)
        return replace(said_of, ranks=ranks, chosen=chosen)

    def prepared(self, request: Request) -> Prepared:
        """Say what is read and noised at the price that is named, or the least that is accurate enough. It is free."""
        if request.within is not None:
            return self._at(Price(self.least_price(request), request.delta), request)
        return self._at(request.price, request)

    def _require_delta(self, price: Price) -> None:
        if self.found:
            require_delta(names(self.query, self.found), price, self._context.account.budget, self._without_delta)

    @cached_property
    def _without_delta(self) -> str:
        return without_delta(self.query, self.found, self._context.engine.catalog())

    def prepared_at(self, price: Price, request: Request) -> Prepared:
        """Prepare it at a price of its own, as one of several questions that are asked together."""
        return self._at(price, request)

    def _at(self, price: Price, request: Request) -> Prepared:
        self._require_delta(price)
        asked, family = WeightedRequest(self.shared.made, self._weights(request)), request.family
        around = request.around(self._ranges(request.joint))
        others = tuple(each.with_ranges(around) for each in self.others)
        if price.allows_gaussian:  # what the account would rather keep open has a say
            budget = self._context.account.budget
            return prepare(self.options, price, others=others, asked=asked, account=budget, family=family)
        key = price, family, asked.weights, around
        known = self._pure.get(key)
        if known is None:
            known = prepare(self.options, price, others=others, asked=asked, family=family)
            if len(self._pure) >= _MOST_KEPT:
                self._pure.clear()
            self._pure[key] = known
        return known

    def _ranges(self, joint: bool) -> int:
        """Count the ranges that have to hold together for one range of the answer to hold."""
        if joint or picks(self.query):
            return max(1, simultaneous(self.query, self._most_groups))
        return max(1, *(noises(output.expression) for output in self.query.finish.outputs))

    @cached_property
    def _pure(self) -> dict[tuple[Price, Family | None, tuple[Fraction, ...], Fraction | None], Prepared]:
        """Keep a few releases prepared for pure prices: they are the same each time they are asked for."""
        return {}

    def _weights(self, request: Request) -> tuple[Fraction, ...]:
        """Weigh everything that is asked as the heaviest column that is made from it."""
        given = request.weights or {}
        read = {output.name: _results(output.expression, self.query.finish) for output in self.query.finish.outputs}
        named = [name for name, places in read.items() if places]
        for name in given:
            if name not in named:
                raise InvalidParameter("weights", name, "by columns of noisy numbers: " + ", ".join(named))
        weights = {name: exact(each, f"weights {name}", POSITIVE) for name, each in given.items()}
        return tuple(
            max([weights[name] for name in weights if place in read[name]], default=Fraction(1))
            for place in range(len(self.shared.made))
        )

    def forecast(self, prepared: Prepared, confidence: Number) -> Forecast:
        """Say how wrong what is prepared will be."""
        accepted = all(budget.affords(prepared.curve) for budget in self._context.budgets)
        widths, said = self._widths(prepared, confidence), (*self.warnings, *supposed(self.query))
        if prepared.selection is not None:
            said = (*said, *notes(prepared.selection, 1, self._most_groups + 1, together=adds_up(self.query)))
        ranks = tuple(by_column(self.query, forecast_ranks(prepared, self.shared.made, confidence)))
        said_of = self._chosen(prepared, confidence, widths)
        said = (*said, *([prepared.idle] if prepared.idle else []))
        level, price = exact(confidence, "confidence"), priced(prepared.price, self._context)
        counted = cutting(prepared.used)
        return Forecast(
            widths, level, price, accepted, said, ranks=ranks, chosen=said_of, counted=counted, whole=self._whole
        )

    @property
    def _whole(self) -> tuple[str, ...]:
        """Name the columns of whole numbers."""
        return tuple(output.name for output in self.query.outputs if output.expression.domain.type is Type.INTEGER)

    def _chosen(self, prepared: Prepared, confidence: Number, widths: Mapping[str, Width]) -> dict[str, str]:
        """Say of every column that is chosen, and has no half-width, how good the choice is."""
        found = {}
        for output in self.query.outputs:
            match output.expression:
                case Column(Result(index)) if not self.query.outer and output.name not in widths:
                    place = self.shared.made[index].part
                    if place:  # the first part is totals
                        part = prepared.others[place - 1]
                        found[output.name] = part.words(prepared.measured[place], confidence)[1]
        return found

    def _widths(self, prepared: Prepared, confidence: Number, size: int | None = None) -> dict[str, Width]:
        """Give half-widths for groups of this size, or of the one that is known, or else of several sizes."""
        # the declared size is of units: it is a number of rows only where each row is one
        known = self.table.every_row and not self.query.plan.keys
        rows = self._context.policy.size if known else size
        shared = self.shared.made
        return half_widths(self.query, prepared, shared, self.groups, self._most_groups, confidence, rows)

    def least_price(self, request: Request, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least ε, or the least amount of another price, at which the request is met."""
        at = priced or (lambda epsilon: Price(epsilon, request.delta))
        names = [output.name for output in self.query.outputs]

        def widths(amount: Fraction, size: int | None) -> dict[str, Width]:
            return self._widths(self._at(at(amount), request), request.confidence, size)

        return least_price(request.within, names, widths)


def _results(expression: Expression, finish: Finish) -> set[int]:
    """List the places of what is asked that an expression over noisy rows reads, by itself or through a window."""
    read = columns(expression)
    over = [finish.windows[each.index].argument for each in read if isinstance(each, Windowed)]
    inside = (_results(each, finish) for each in over if each is not None)
    return {each.index for each in read if isinstance(each, Result)}.union(*inside)
