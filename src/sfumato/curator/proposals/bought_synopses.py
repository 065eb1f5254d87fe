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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.curator.context import Context
from sfumato.curator.proposals.synopsis_candidates import candidates, loaded, reason, receipt_of
from sfumato.errors import InvalidParameter, LedgerDamaged, Unsupported
from sfumato.ledger import Publication
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.values.expressions import Column
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown, text as digits
from sfumato.publish.cells import answering
from sfumato.release.answers.answer import MEASURED, Answer
from sfumato.release.requests import Within

_HOW = "release(free=True), or --free"


@dataclass(frozen=True)
class Asked:
    """This is a question as it is put to a synopsis."""

    text: str
    query: Query
    limits: Limits
    groups: Callable[[], Sequence[GroupKey]]
    """Gives the groups that the curator would show."""
    confidence: Number = "0.95"
    joint: bool = False


@dataclass(frozen=True)
class FreeAnswer:
    """This is an answer that costs nothing, and the half-width of each of its columns: the widest of its rows."""

    answer: Answer
    widths: Mapping[str, float]

    @property
    def words(self) -> str:
        """Say what it would give, and how to take it."""
        within = ", ".join(f"{name} within ±{shown(width)}" for name, width in self.widths.items())
        return f"a synopsis bought on line {self.answer.receipt.line} answers this, {within}, for nothing: {_HOW}"

    def misses(self, goals: Mapping[str, Any]) -> list[str]:
        """Name the columns that are known less well than is wanted."""
        return [name for name, goal in goals.items() if not self.widths[name] <= goal]


def best(asked: Asked, context: Context) -> FreeAnswer | None:
    """Find the synopsis that answers a question best; None where none answers it."""
    found, _ = _answers(asked, context)
    return min(found, key=_widest, default=None)


def taken(asked: Asked, context: Context, within: Within | None) -> Answer:
    """Give the answer of the best synopsis that was bought, if it is within what is wanted; else nothing is charged."""
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


def _answers(asked: Asked, context: Context) -> tuple[list[FreeAnswer], list[str]]:
    """Ask the synopses with the best forecasts; and say why those that do not answer do not."""
    table = asked.query.plan.table
    if context.policy.per is not None or context.policy.tables[table].public:
        return [], ["what is published has one account, for all periods"]
    bought, refusals = candidates(asked.query, asked.limits, context)
    answers, more = _of_each(bought, asked, context)
    if len(answers) > 1 and not all(_fixed(asked.query, each.answer) for each in answers):
        missed = (1 - exact(asked.confidence, "confidence", CONFIDENCE)) / len(answers)
        answers, _ = _of_each(bought, replace(asked, confidence=1 - missed), context)
        answers = [_best_of(len(answers), each, asked.confidence) for each in answers]
    return answers, [*refusals, *more]


def _fixed(query: Query, found: Answer) -> bool:
    """Tell whether noise has no part in how wide ranges are: counts and sums that were measured, shown as they are."""
    finish = query.finish
    picked = query.outer or finish.windows or finish.having is not None or finish.limit is not None or finish.offset
    plain = all(isinstance(each.expression, Column) for each in query.outputs)
    added = all(type(each) in (Count, Sum) for each in query.plan.measures)
    words = {word for each in (found.basis or {}).values() for word in each}
    return bool(not picked and plain and added and words <= {MEASURED})


def _best_of(count: int, found: FreeAnswer, confidence: Number) -> FreeAnswer:
    """Say with what confidence the best of several answers holds, whichever it is."""
    told = replace(found.answer.receipt, confidence=digits(exact(confidence, "confidence", CONFIDENCE)))
    said = f"the best of {count} synopses: its ranges hold although noise decides which is the best"
    return replace(found, answer=replace(found.answer, receipt=told, warnings=(*found.answer.warnings, said)))


def _of_each(bought: Sequence[Publication], asked: Asked, context: Context) -> tuple[list[FreeAnswer], list[str]]:
    table = asked.query.plan.table
    answers, refusals = [], []
    for each in bought:
        try:
            answers.append(_asked(_face(each, context), asked, _weighted(table, asked.limits, context)))
        except (Unsupported, LedgerDamaged) as refusal:
            refusals.append(reason(refusal))
    return answers, refusals


def _weighted(table: str, limits: Limits, context: Context) -> tuple[str, ...]:
    """Say that a unit with more rows than count has less weight in a synopsis than in a question that keeps few."""
    if context.policy.tables[table].every_row:
        return ()
    rule = f"who has more than {limits.rows} rows counts as {limits.rows} in the whole synopsis"
    return (f"{rule}, and so as less among the rows that a question keeps",)


def _asked(face: answering.Face, asked: Asked, notes: tuple[str, ...]) -> FreeAnswer:
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
