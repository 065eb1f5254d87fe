"""Synopses are bought once and answer later questions about their table for nothing: no row is read or charged.

They are chosen from all that the account bought of the same table, under the same policy and on the same data, however
long ago (``synopsis_candidates``). What was published is public, so it answers whoever may ask the curator, as a stored
answer does, and nobody is told who bought it.

A question is answered only where it means the same there: all rows of the table are in the synopsis, with the same
limit of rows, every column that the question reads was published, and its groups are those that the curator would show.

The best of several is the one with the narrowest ranges. Where noise decides how wide they are (those of bounds, means
and products), the narrowest of k ranges misses up to k times as often as each: all k are then made to hold at once,
each with the part 1/k of the chance to miss. Ranges of counts and sums that were measured follow from the plan alone.
Which k are asked was decided by their plans, so by no noise.

Choose which bought synopses a question is put to: all that can answer it, those with the best forecasts first.

What can be told from the ledger's lines is decided by them: which columns a synopsis has, and which of several
purchases of the same marginals have less noise. Bodies are loaded for the rest, and their plans are kept by each
process. A forecast is the half-width of one cell of the columns that the question reads. Lines, plans and forecasts
follow from the policy and from prices, so nothing of this depends on private rows or on noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sfumato.curator.context import Context
from sfumato.errors import InvalidParameter, LedgerDamaged, Unsupported
from sfumato.ledger import Publication
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.canonical import digest
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.values.expressions import Column
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown, text as digits
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import check_columns, columns_read
from sfumato.publish.marginals.measuring import Published, columns_of, expected_width, noise_words
from sfumato.publish.marginals.planning import Plan
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer import MEASURED, Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult
from sfumato.release.requests import Within

_MOST_ASKED = 8
_MOST_SHELVES, _MOST_OUTLINES, _MOST_LOADED = 64, 256, 4

T = TypeVar("T")


def shelf(context: Context, table: str) -> str:
    """Return the text that the plans of all that is published of a table start with, under one policy."""
    return f"synopsis-{digest(context.declared, table)[:32]}-"


def candidates(query: Query, limits: Limits, context: Context) -> tuple[list[Publication], list[str]]:
    """Return the synopses with the best forecasts for a question, the best first, and why others cannot answer."""
    publications = context.account.published(shelf(context, query.plan.table), data=context.engine.identity())
    ranked: list[tuple[tuple[float, float], int, Publication]] = []
    refusals: list[str] = []
    for each in least_noisy(publications):
        try:
            ranked.append((_forecast(each, columns_read(query), limits, context), -each.number, each))
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(reason(refusal))
    return [each for _, _, each in sorted(ranked, key=lambda entry: entry[:2])[:_MOST_ASKED]], refusals


def reason(refusal: Unsupported | LedgerDamaged) -> str:
    """Return the rule of a refusal without its code. A lost body hinders no other synopsis, and no purchase."""
    return refusal.rule.removesuffix(f" [{refusal.code}]") if isinstance(refusal, Unsupported) else refusal.rule


# ── what lines tell ────────────────────────────────────────────────────────────────────────────


def least_noisy(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    """Leave out purchases of the same marginals that another has less noise than; newest first.

    Plans of one text differ by the scale of their noise, or by its kind: one with smaller half-widths throughout is
    better for every question. Of those that are equally good, so many stay as are asked.
    """
    if not publications:
        return ()
    # The hash of the last line covers all lines before it.
    return _fronts.of(publications[-1].hash, lambda: _least_noisy(publications))


def _least_noisy(publications: Sequence[Publication]) -> tuple[Publication, ...]:
    fronts: dict[str, list[tuple[Publication, Mapping[str, float]]]] = {}
    for publication in reversed(publications):
        widths = {name: float(width) for name, width in publication.accuracy.items()}
        front = fronts.setdefault(publication.plan, [])
        if not any(_less_noisy(other, widths) for _, other in front):
            front[:] = [entry for entry in front if not _less_noisy(widths, entry[1])]
            front += [(publication, widths)] if len(front) < _MOST_ASKED else []
    kept = [each for front in fronts.values() for each, _ in front]
    return tuple(sorted(kept, key=lambda each: -each.number))


def _less_noisy(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    pairs = [(one[name], other[name]) for name in one.keys() & other.keys()]
    return all(first <= second for first, second in pairs) and any(first < second for first, second in pairs)


# ── what bodies tell ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Outline:
    """What a synopsis is of, without its numbers."""

    plan: Plan
    where: str

    def require_rows(self, limits: Limits) -> None:
        """Refuse what counts other rows than the question."""
        if self.where:
            raise Unsupported("some-rows", f"it is of the rows where {self.where}", fix="ask the synopsis itself")
        if self.plan.rows != limits.rows:
            rule = f"it counts {digits(self.plan.rows)} rows of each unit, and the question {limits.rows}"
            raise Unsupported("other-limits", rule, fix="ask the synopsis itself")

    def expected(self, columns: frozenset[str]) -> tuple[float, float]:
        """Return the half-width of a cell of these columns, infinite where they are not together in what was measured;
        and the sum of their own, by which such synopses are compared.
        """
        names = [attribute.name for attribute in self.plan.attributes]
        check_columns(names, columns)
        places = tuple(sorted(map(names.index, columns)))
        return expected_width(self.plan, places), math.fsum(expected_width(self.plan, (each,)) for each in places)


@dataclass(frozen=True)
class Loaded:
    """The body of a publication."""

    released: StoredResult[Published]
    synopsis: Synopsis


def _forecast(
    publication: Publication, columns: frozenset[str], limits: Limits, context: Context
) -> tuple[float, float]:
    known = columns_of(publication.accuracy)
    if known:  # an older version wrote no columns: its body tells
        check_columns(known, columns)
    outline = _outlines.of(publication.hash, lambda: _outline(loaded(publication, context)))
    outline.require_rows(limits)
    return outline.expected(columns)


def _outline(found: Loaded) -> Outline:
    return Outline(found.released.value.plan, found.released.value.where)


def loaded(publication: Publication, context: Context) -> Loaded:
    """Load a body; those that were used last are kept, by their lines' hashes."""
    return _bodies.of(publication.hash, lambda: _load(publication, context))


def _load(publication: Publication, context: Context) -> Loaded:
    stored = context.account.read_published(publication)
    value = codec.loads(stored.body, longest=len(stored.body))
    assert isinstance(value, Published)
    found = StoredResult(value, stored.number, stored.time, stored.hash, free=True)
    return Loaded(found, Synopsis(value, receipt_of(found, context)))


def receipt_of(found: StoredResult[Published], context: Context) -> Receipt:
    """Return the receipt of a synopsis for whoever asks now."""
    words = (noise_words(found.value.plan),)
    return receipt(found, found.value.purchase, words, question="", here=context, confidence="0.95")


class _LastUsed(Generic[T]):
    """Values by the hash of a line; of more than ``most``, those that were not used for longest are forgotten.

    A value follows from its line, so threads need no lock: two that miss it at once make the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, T] = {}

    def of(self, line_hash: str, make: Callable[[], T]) -> T:
        """Return the value of a line, made where it is not kept."""
        found = self._values.pop(line_hash, None)
        value = make() if found is None else found
        self._values[line_hash] = value
        for oldest in list(self._values)[: -self._most]:
            self._values.pop(oldest, None)
        return value


_fronts: _LastUsed[tuple[Publication, ...]] = _LastUsed(_MOST_SHELVES)
_outlines: _LastUsed[Outline] = _LastUsed(_MOST_OUTLINES)
_bodies: _LastUsed[Loaded] = _LastUsed(_MOST_LOADED)


_HOW = "release(free=True), or --free"


@dataclass(frozen=True)
class SynopsisQuestion:
    """A question as it is put to a synopsis."""

    text: str
    query: Query
    limits: Limits
    groups: Callable[[], Sequence[GroupKey]]
    """Gives the groups that the curator would show."""
    confidence: Number = "0.95"
    joint: bool = False


@dataclass(frozen=True)
class FreeAnswer:
    """An answer that costs nothing, and the half-width of each of its columns: the widest of its rows."""

    answer: Answer
    widths: Mapping[str, float]

    @property
    def words(self) -> str:
        """Describe what it would give, and how to take it."""
        within = ", ".join(f"{name} within ±{shown(width)}" for name, width in self.widths.items())
        return f"a synopsis bought on line {self.answer.receipt.line} answers this, {within}, for nothing: {_HOW}"

    def misses(self, goals: Mapping[str, Any]) -> list[str]:
        """Name the columns that are known less well than is wanted."""
        return [name for name, goal in goals.items() if not self.widths[name] <= goal]


def best(asked: SynopsisQuestion, context: Context) -> FreeAnswer | None:
    """Find the synopsis that answers a question best; None where none answers it."""
    found, _ = _answers(asked, context)
    return min(found, key=_widest, default=None)


def taken(asked: SynopsisQuestion, context: Context, within: Within | None) -> Answer:
    """Return the best bought synopsis's answer, if it meets the accuracy goal; nothing is ever charged."""
    found, refusals = _answers(asked, context)
    if not found:
        why = f": {refusals[0]}" if refusals else ""
        rule = f"no synopsis that was bought of {asked.query.plan.table} answers this question{why}"
        fix = (
            "name a price, such as epsilon (--epsilon) or within (--within), and leave out free (--free); or publish "
            "its columns together first"
        )
        raise Unsupported("no-synopsis", rule, fix=fix)
    nearest = min(found, key=lambda each: (len(each.misses(_goals(within, each))), _widest(each)))
    goals = _goals(within, nearest)
    wide = nearest.misses(goals)
    if wide:
        known = ", ".join(f"{name} within ±{shown(nearest.widths[name])}, not ±{digits(goals[name])}" for name in wide)
        rule = f"the synopsis of line {nearest.answer.receipt.line}, the best that was bought, knows {known}"
        raise Unsupported("too-wide", rule, fix="name a price, which buys an answer of its own, or a wider range")
    return nearest.answer


def _widest(found: FreeAnswer) -> float:
    return sum(found.widths.values())


def _goals(within: Within | None, found: FreeAnswer) -> dict[str, Any]:
    if within is None:
        return {}
    wanted: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(found.widths, within)
    for name in wanted:
        if name not in found.widths:
            raise InvalidParameter("within", name, "a column of numbers: " + ", ".join(found.widths))
    return {name: exact(each, f"within {name}", POSITIVE) for name, each in wanted.items()}


def _answers(asked: SynopsisQuestion, context: Context) -> tuple[list[FreeAnswer], list[str]]:
    """Ask the synopses with the best forecasts; and say why those that do not answer do not."""
    table = asked.query.plan.table
    if context.policy.per is not None or context.policy.tables[table].public:
        return [], ["what is published has one account, for all periods"]
    bought, refusals = candidates(asked.query, asked.limits, context)
    answers, more = _of_each(bought, asked, context)
    if len(answers) > 1 and not all(_fixed(asked.query, answer.answer) for answer in answers):
        missed = (1 - exact(asked.confidence, "confidence", CONFIDENCE)) / len(answers)
        answers, _ = _of_each(bought, replace(asked, confidence=1 - missed), context)
        answers = [_best_of(len(answers), answer, asked.confidence) for answer in answers]
    return answers, [*refusals, *more]


def _fixed(query: Query, found: Answer) -> bool:
    """Return whether interval widths are free of noise: measured counts and sums, shown as they are."""
    finish = query.finish
    picked = query.outer or finish.windows or finish.having is not None or finish.limit is not None or finish.offset
    plain = all(isinstance(output.expression, Column) for output in query.outputs)
    added = all(type(measure) in (Count, Sum) for measure in query.plan.measures)
    words = {word for each in (found.basis or {}).values() for word in each}
    return bool(not picked and plain and added and words <= {MEASURED})


def _best_of(count: int, found: FreeAnswer, confidence: Number) -> FreeAnswer:
    """Return with what confidence the best of several answers holds, whichever it is."""
    told = replace(found.answer.receipt, confidence=digits(exact(confidence, "confidence", CONFIDENCE)))
    said = f"the best of {count} synopses: its ranges hold although noise decides which is the best"
    return replace(found, answer=replace(found.answer, receipt=told, warnings=(*found.answer.warnings, said)))


def _of_each(
    bought: Sequence[Publication], asked: SynopsisQuestion, context: Context
) -> tuple[list[FreeAnswer], list[str]]:
    table = asked.query.plan.table
    answers, refusals = [], []
    for each in bought:
        try:
            answers.append(_asked(_face(each, context), asked, _weighted(table, asked.limits, context)))
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(reason(refusal))
    return answers, refusals


def _weighted(table: str, limits: Limits, context: Context) -> tuple[str, ...]:
    """State that a unit with more rows than count has less weight in a synopsis than in a question that keeps few."""
    if context.policy.tables[table].every_row:
        return ()
    rule = f"who has more than {limits.rows} rows counts as {limits.rows} in the whole synopsis"
    return (f"{rule}, and so as less among the rows that a question keeps",)


def _asked(face: answering.Face, asked: SynopsisQuestion, notes: tuple[str, ...]) -> FreeAnswer:
    answering.check_same_meaning(face, asked.query)
    how: dict[str, Any] = {"confidence": asked.confidence, "together": asked.joint, "groups": asked.groups}
    made = answering.answered(face, asked.query, asked.text, **how)
    said = f"answered from the synopsis of line {made.receipt.line}: no row was read, and nothing was charged"
    widths = {name: _width(ranges) for name, ranges in made.intervals.items()}
    return FreeAnswer(replace(made, warnings=(said, *notes, *made.warnings)), widths)


def _width(ranges: Sequence[tuple[float, float] | None]) -> float:
    return max(((high - low) / 2 for low, high in filter(None, ranges)), default=0.0)


def _face(bought: Publication, context: Context) -> answering.Face:
    """Return what questions see of a synopsis, with a receipt of now."""
    found = loaded(bought, context)
    return replace(found.synopsis.face, receipt=receipt_of(found.released, context))
