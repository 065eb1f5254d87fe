"""Synopses are bought once and answer later questions about their table for free: no row is read or charged.

All synopses that the account bought of the same table, under the same policy and on the same data, are considered. What
was published is public, so it answers everybody who may query the curator, as a stored answer does, without revealing
who bought it.

A question is answered only if it means the same there: the synopsis covers all rows of the table, with the same limit
of rows per unit, every column that the question reads was published, and its groups are those that the curator would
show.

The best of several is the one with the narrowest ranges. Where the widths themselves depend on noise (for bounds, means
and products), the narrowest of k ranges misses up to k times as often as each: then all k are made to hold jointly,
each with 1/k of the miss probability (union bound). Widths of measured counts and sums depend on the plan only. Which k
are asked is decided by their plans, hence by no noise.

Candidates are ranked by forecast. The ledger's lines decide which columns a synopsis has, and which of several
purchases of the same marginals has less noise. Bodies are loaded for the rest, and each process caches their plans. A
forecast is the half-width of one cell of the columns that the question reads. Lines, plans and forecasts depend on the
policy and on prices, never on private rows or on noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.curator.context import Context
from sfumato.curator.previews.error_forecasts import unknown_column_error
from sfumato.errors import InvalidParameter, LedgerDamaged, Unsupported
from sfumato.ledger import Publication
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.caveats import RowLimits, caveat_by_column
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.relevant_policy import declarations_for_columns, declarations_for_rows
from sfumato.plan.values.expressions import Column
from sfumato.privacy import codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    format_exact as digits,
    format_number,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import MEASURED, Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import PriceRequest, Within

if TYPE_CHECKING:  # most accounts have bought no synopsis: nothing of publishing is imported for them
    from sfumato.publish.cells import answering
    from sfumato.publish.marginals.measuring import PublishedMarginals
    from sfumato.publish.marginals.planning import NoisePlan
    from sfumato.publish.synopsis import Synopsis

_MAX_CANDIDATES = 8
_MAX_FRONTS, _MAX_OUTLINES, _MAX_BODIES = 64, 256, 4

T = TypeVar("T")


def synopsis_key_prefixes(context: Context, table: str) -> PlanKey:
    """Return the common prefix of the plans of everything published of a table, whose rows, owners and limits were as
    they are now. The hash of its columns follows (``columns_hash``); formerly it was part of the prefix.
    """
    prefixes = context.synopsis_prefixes
    return prefixes[table] if table in prefixes else prefixes.setdefault(table, _compute_key_prefixes(context, table))


def _compute_key_prefixes(context: Context, table: str) -> PlanKey:
    current = digest("rows", table, declarations_for_rows(table, context.declared_policy))
    former = digest(context.policy_version, table)
    return PlanKey(f"synopsis-{current[:32]}-", f"synopsis-{former[:32]}-")


def columns_hash(context: Context, table: str, names: Iterable[str]) -> str:
    """Return the hash of the current declarations of published columns, with their cells."""
    return digest("columns", declarations_for_columns(context.declared_policy.tables[table], names))[:32]


def current_publications(context: Context, table: str) -> tuple[Publication, ...]:
    """List what was published of a table on these data, as the policy declares its rows and columns now; newest first.

    Purchases that another of the same marginals dominates are left out.
    """
    shelf, data = synopsis_key_prefixes(context, table), context.engine.identity()

    def is_current(publication: Publication) -> bool:
        from sfumato.publish.marginals.measuring import recorded_columns

        published_columns_hash, _, _ = publication.plan.removeprefix(shelf.current).partition("-")
        return published_columns_hash == columns_hash(context, table, recorded_columns(publication.accuracy))

    shelves = context.account.published_on(shelf.current, shelf.former, data=data)
    current, former = map(undominated_publications, shelves)
    publications = (*filter(is_current, current), *former)
    return tuple(sorted(publications, key=lambda publication: -publication.number))


def ranked_synopses_and_refusals(
    query: Query, limits: ContributionLimits, context: Context
) -> tuple[list[Publication], list[str]]:
    """Return the synopses with the best forecasts for a question, the best first, and why others cannot answer."""
    publications = current_publications(context, query.plan.table)
    if not publications:
        return [], []
    from sfumato.publish.cells.answering import referenced_columns

    ranked: list[tuple[tuple[float, float], int, Publication]] = []
    refusals: list[str] = []
    for publication in publications:
        try:
            ranked.append(
                (
                    _forecast_joint_and_summed_width(publication, referenced_columns(query), limits, context),
                    -publication.number,
                    publication,
                )
            )
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(refusal_reason(refusal))
    return [
        publication for _, _, publication in sorted(ranked, key=lambda entry: entry[:2])[:_MAX_CANDIDATES]
    ], refusals


def refusal_reason(refusal: Unsupported | LedgerDamaged) -> str:
    """Return the rule of a refusal without its code.

    A lost body affects no other synopsis, and no purchase.
    """
    return refusal.rule.removesuffix(f" [{refusal.code}]") if isinstance(refusal, Unsupported) else refusal.rule


# ── what the ledger lines tell ────────────────────────────────────────────────────────────────────────────


def undominated_publications(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    """Drop purchases that another purchase of the same marginals dominates; newest first.

    Plans of one text differ by the scale or the family of their noise: one with smaller half-widths throughout is
    better for every question. Of equally good ones, up to the maximal number of candidates stay.
    """
    if not publications:
        return ()
    # The hash of the last line covers all lines before it.
    return _fronts.get_or_compute(publications[-1].hash, lambda: _compute_undominated(publications))


def _compute_undominated(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    fronts: dict[str, list[tuple[Publication, Mapping[str, float]]]] = {}
    for publication in reversed(publications):
        widths = {name: float(width) for name, width in publication.accuracy.items()}
        front = fronts.setdefault(publication.plan, [])
        if not any(_is_less_noisy(other, widths) for _, other in front):
            front[:] = [entry for entry in front if not _is_less_noisy(widths, entry[1])]
            front += [(publication, widths)] if len(front) < _MAX_CANDIDATES else []
    undominated = [publication for front in fronts.values() for publication, _ in front]
    return tuple(sorted(undominated, key=lambda publication: -publication.number))


def _is_less_noisy(widths: Mapping[str, float], other_widths: Mapping[str, float]) -> bool:
    pairs = [(widths[name], other_widths[name]) for name in widths.keys() & other_widths.keys()]
    return all(first <= second for first, second in pairs) and any(first < second for first, second in pairs)


# ── what the stored bodies tell ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SynopsisOutline:
    """The plan and the condition of a synopsis, without its numbers."""

    plan: NoisePlan
    where: str

    def require_same_rows(self, limits: ContributionLimits) -> None:
        """Refuse a synopsis that counts other rows than the question."""
        if self.where:
            raise Unsupported(
                "some-rows",
                f"the bought synopsis covers only the rows where {self.where}, but the question is about the whole "
                "table",
                fix="to count only these rows, query the synopsis itself: synopsis.sql(…); for the whole table, give a "
                "price instead of free (--free)",
            )
        if self.plan.rows != limits.rows:
            rule = (
                f"the bought synopsis counts at most {digits(self.plan.rows)} rows per unit, but the question counts "
                f"up to {limits.rows}"
            )
            raise Unsupported("other-limits", rule, fix="query the synopsis itself: synopsis.sql(…)")

    def joint_and_summed_width(self, columns: frozenset[str]) -> tuple[float, float]:
        """Return the half-width of a cell of these columns, and the sum of the single columns' half-widths.

        The first is infinite if no measured set holds them all; such synopses are compared by the second.
        """
        from sfumato.publish.cells.answering import require_published_columns
        from sfumato.publish.marginals.measuring import expected_width

        names = [attribute.name for attribute in self.plan.attributes]
        require_published_columns(names, columns)
        indices = tuple(sorted(map(names.index, columns)))
        return expected_width(self.plan, indices), math.fsum(expected_width(self.plan, (index,)) for index in indices)


@dataclass(frozen=True)
class LoadedSynopsis:
    """The body of a publication, with its synopsis."""

    result: StoredResult[PublishedMarginals]
    synopsis: Synopsis


def _forecast_joint_and_summed_width(
    publication: Publication, columns: frozenset[str], limits: ContributionLimits, context: Context
) -> tuple[float, float]:
    from sfumato.publish.cells.answering import require_published_columns
    from sfumato.publish.marginals.measuring import recorded_columns

    published_columns = recorded_columns(publication.accuracy)
    if published_columns:  # older lines do not list columns; the body does
        require_published_columns(published_columns, columns)
    outline = _outlines.get_or_compute(publication.hash, lambda: _outline_of(load_synopsis(publication, context)))
    outline.require_same_rows(limits)
    return outline.joint_and_summed_width(columns)


def _outline_of(body: LoadedSynopsis) -> SynopsisOutline:
    return SynopsisOutline(body.result.value.plan, body.result.value.where)


def load_synopsis(publication: Publication, context: Context) -> LoadedSynopsis:
    """Load a body, with a cache of the last used ones by their lines' hashes."""
    return _bodies.get_or_compute(publication.hash, lambda: _load_from_ledger(publication, context))


def _load_from_ledger(publication: Publication, context: Context) -> LoadedSynopsis:
    from sfumato.publish.marginals.measuring import PublishedMarginals
    from sfumato.publish.synopsis import Synopsis

    stored = context.account.read_published(publication)
    value = codec.loads(stored.body, longest=len(stored.body))
    assert isinstance(value, PublishedMarginals)
    result = StoredResult(value, stored.number, stored.time, stored.hash, free=True)
    return LoadedSynopsis(result, Synopsis(value, synopsis_receipt(result, context)))


def synopsis_receipt(result: StoredResult[PublishedMarginals], context: Context) -> Receipt:
    """Return the receipt of a synopsis in the current context."""
    from sfumato.publish.marginals.measuring import noise_words

    words = (noise_words(result.value.plan),)
    return make_receipt(
        result, result.value.purchase, words, question="", context=context, confidence=DEFAULT_CONFIDENCE
    )


class _LruCache(Generic[T]):
    """A least-recently-used cache of at most ``max_size`` values, keyed by the hash of a ledger line.

    A value is a function of its line, so no lock is needed: two threads that miss it at once compute the same.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._values: dict[str, T] = {}

    def get_or_compute(self, line_hash: str, make: Callable[[], T]) -> T:
        """Return the cached value of a line, or compute it."""
        cached = self._values.pop(line_hash, None)
        value = make() if cached is None else cached
        self._values[line_hash] = value
        for oldest in list(self._values)[: -self._max_size]:
            self._values.pop(oldest, None)
        return value


_fronts: _LruCache[tuple[Publication, ...]] = _LruCache(_MAX_FRONTS)
_outlines: _LruCache[SynopsisOutline] = _LruCache(_MAX_OUTLINES)
_bodies: _LruCache[LoadedSynopsis] = _LruCache(_MAX_BODIES)


_HOW_TO_TAKE = "release(free=True), or --free"


@dataclass(frozen=True)
class SynopsisQuestion:
    """A question put to a synopsis."""

    text: str
    query: Query
    limits: ContributionLimits
    groups: Callable[[], Sequence[GroupValues]]
    """Returns the groups that the curator would show."""
    confidence: Number = DEFAULT_CONFIDENCE
    joint: bool = False


@dataclass(frozen=True)
class FreeAnswer:
    """A free answer, with the half-width of each of its columns: that of its widest row."""

    answer: Answer
    widths: Mapping[str, float]

    @property
    def offer_sentence(self) -> str:
        """Describe the answer and how to get it."""
        accuracy = ", ".join(f"{name} within ±{format_number(width)}" for name, width in self.widths.items())
        return f"a synopsis bought on line {self.answer.receipt.line} answers this for free, {accuracy}: {_HOW_TO_TAKE}"

    def columns_wider_than(self, goals: Mapping[str, Any]) -> list[str]:
        """List the columns whose half-width exceeds the goal."""
        return [name for name, goal in goals.items() if not self.widths[name] <= goal]


def best_free_answer(question: SynopsisQuestion, context: Context) -> FreeAnswer | None:
    """Return the best free answer to a question; None if no synopsis answers it."""
    answers, _ = _free_answers_and_refusals(question, context)
    return min(answers, key=_total_width, default=None)


def require_free_answer(question: SynopsisQuestion, context: Context, within: Within | None) -> Answer:
    """Return the best bought synopsis's answer, if it meets the accuracy goal; nothing is ever charged."""
    answers, refusals = _free_answers_and_refusals(question, context)
    if not answers:
        cause = refusals[0] if refusals else "there is none for the current data and policy"
        rule = f"no bought synopsis of {question.query.plan.table} answers this question: {cause}"
        fix = (
            "to buy an answer, leave out free (--free) and give epsilon (--epsilon) or within (--within); or publish "
            "these columns together first"
        )
        raise Unsupported("no-synopsis", rule, fix=fix)
    closest = min(
        answers,
        key=lambda answer: (
            len(answer.columns_wider_than(_parse_half_width_goals(within, answer))),
            _total_width(answer),
        ),
    )
    goals = _parse_half_width_goals(within, closest)
    missed_columns = closest.columns_wider_than(goals)
    if missed_columns:
        accuracy = ", ".join(
            f"{name} within ±{format_number(closest.widths[name])}, not ±{digits(goals[name])}"
            for name in missed_columns
        )
        line = closest.answer.receipt.line
        rule = f"the closest answer from a bought synopsis (line {line} of the ledger) gives {accuracy}"
        raise Unsupported(
            "too-wide", rule, fix="give a price such as epsilon=0.5 to buy a new answer, or accept a wider range"
        )
    return closest.answer


def _total_width(free_answer: FreeAnswer) -> float:
    return sum(free_answer.widths.values())


def _parse_half_width_goals(within: Within | None, free_answer: FreeAnswer) -> dict[str, Any]:
    if within is None:
        return {}
    goals: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(free_answer.widths, within)
    for name in goals:
        if name not in free_answer.widths:
            raise unknown_column_error(name, free_answer.widths)
    return {name: exact(goal, f"within for {name!r}", POSITIVE) for name, goal in goals.items()}


def _free_answers_and_refusals(question: SynopsisQuestion, context: Context) -> tuple[list[FreeAnswer], list[str]]:
    """Query the synopses with the best forecasts; return their answers, and the refusals of the others."""
    table = question.query.plan.table
    if context.policy.per is not None or context.policy.tables[table].public:
        return [], ["synopses are published for one account, not for the accounts of single periods"]
    publications, refusals = ranked_synopses_and_refusals(question.query, question.limits, context)
    answers, later_refusals = _answers_and_refusals(publications, question, context)
    if len(answers) > 1 and not all(_has_fixed_widths(question.query, answer.answer) for answer in answers):
        miss_probability = (1 - exact(question.confidence, "confidence", CONFIDENCE)) / len(answers)
        answers, _ = _answers_and_refusals(publications, replace(question, confidence=1 - miss_probability), context)
        answers = [_note_best_of(len(answers), answer, question.confidence) for answer in answers]
    return answers, [*refusals, *later_refusals]


def _has_fixed_widths(query: Query, answer: Answer) -> bool:
    """Return whether interval widths are free of noise: measured counts and sums, shown unchanged."""
    finish = query.finish
    selects_rows = (
        query.outer or finish.windows or finish.having is not None or finish.limit is not None or finish.offset
    )
    is_plain = all(isinstance(output.expression, Column) for output in query.outputs)
    is_additive = all(type(measure) in (Count, Sum) for measure in query.plan.measures)
    bases = {basis for column in (answer.basis or {}).values() for basis in column}
    return bool(not selects_rows and is_plain and is_additive and bases <= {MEASURED})


def _note_best_of(count: int, free_answer: FreeAnswer, confidence: Number) -> FreeAnswer:
    """Relabel an answer with the confidence that holds for the best of several, whichever it is."""
    relabelled = replace(free_answer.answer.receipt, confidence=digits(exact(confidence, "confidence", CONFIDENCE)))
    note = f"the best of {count} synopses: its ranges allow for the selection by noisy widths"
    return replace(
        free_answer,
        answer=replace(free_answer.answer, receipt=relabelled, warnings=(*free_answer.answer.warnings, note)),
    )


def _answers_and_refusals(
    publications: Sequence[Publication], question: SynopsisQuestion, context: Context
) -> tuple[list[FreeAnswer], list[str]]:
    if not publications:
        return [], []
    table = question.query.plan.table
    row_limits = RowLimits.from_policy(question.limits, context.policy, None, Strategy.REWEIGHT.value)
    caveats = caveat_by_column(question.query, row_limits)
    answers, refusals = [], []
    for publication in publications:
        try:
            face, notes = (
                _queryable_with_current_receipt(publication, context),
                _row_weight_note(table, question.limits, context),
            )
            answers.append(_query_synopsis(face, question, notes, caveats))
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(refusal_reason(refusal))
    return answers, refusals


def _row_weight_note(table: str, limits: ContributionLimits, context: Context) -> tuple[str, ...]:
    """Note that the row limit weighs a unit over all its rows, also where the question selects few."""
    if context.policy.tables[table].every_row:
        return ()
    rule = f"a unit with more than {limits.rows} rows is weighted down to {limits.rows} over the whole synopsis"
    return (f"{rule}, so it counts less among the rows that a question selects",)


def _query_synopsis(
    queryable: answering.QueryableTable, question: SynopsisQuestion, notes: tuple[str, ...], caveats: Mapping[str, str]
) -> FreeAnswer:
    from sfumato.publish.cells import answering

    answering.require_answerable_as_published(queryable, question.query)
    options: dict[str, Any] = {"confidence": question.confidence, "together": question.joint, "groups": question.groups}
    answer = answering.answer_query(queryable, question.query, question.text, **options)
    note = f"answered from the synopsis of line {answer.receipt.line}: no row was read, and nothing was charged"
    widths = {name: _max_half_width(ranges) for name, ranges in answer.intervals.items()}
    range_caveats = {name: line for name, line in caveats.items() if name in answer.intervals}
    return FreeAnswer(replace(answer, warnings=(note, *notes, *answer.warnings), caveats=range_caveats), widths)


def _max_half_width(ranges: Sequence[tuple[float, float] | None]) -> float:
    return max(((high - low) / 2 for low, high in filter(None, ranges)), default=0.0)


def _queryable_with_current_receipt(publication: Publication, context: Context) -> answering.QueryableTable:
    """Return a synopsis's public face with a receipt in the current context."""
    body = load_synopsis(publication, context)
    return replace(body.synopsis.face, receipt=synopsis_receipt(body.result, context))


def require_no_price(request: PriceRequest, *, fresh: bool, request_id: str | None) -> None:
    """Refuse price terms beside ``free``."""
    price_terms = (request.epsilon, request.rho, request.mechanism, request.weights, request.range, request_id)
    if fresh or exact(request.delta, "delta") or any(term is not None for term in price_terms):
        fix = "leave out free to buy an answer, or leave out the price to use a bought synopsis"
        raise InvalidParameter(
            "free", True, "left out if a price, mechanism, weights, range, fresh or request_id is given", fix=fix
        )
