"""Totals of several questions over the same rows are read by one statement, where that gives the same numbers.

A question without groups asks for totals of the rows of a source for which a test holds. Its WHERE becomes the FILTER
of each of its measures, and questions over the same source then differ in their measures alone.

Theorem. Where every row counts as it is, or a unit's part is clipped in one group, the totals of a measure under
WHERE w are those of the same measure with FILTER (WHERE w) over all rows, number for number. For a row adds to a
measure the same in both, or nothing where the test does not hold; and what is clipped is the unit's total of that one
measure, to a limit that its plan states (``bounding``), whatever other rows the unit has and whatever else is measured.
So what one unit can change is what each question's own plan proves. ∎

It is false where rows are reweighted (a weight depends on how many rows of the unit pass the WHERE) or sampled (a row
that does not pass would take the place of one that does); those are read by themselves. So is what is computed from
columns whose range a WHERE has narrowed: outside of that range nothing is proven of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.plan.aggregates.measures import Measure
from sfumato.plan.bounding import Bounded, Scaled
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import Aggregate, Filter, Relation
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Expression

_PLAIN = (Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2)
MOST_MEASURES = 1_000
"""In one statement."""


@dataclass(frozen=True)
class Combined:
    """This is one reading that answers several."""

    reading: GroupTotals
    parts: tuple[tuple[GroupTotals, slice], ...]
    """Each of them, with the columns that are its own."""


def combined(readings: Sequence[GroupTotals]) -> tuple[Combined, ...]:
    """Put together what one statement can read; what it cannot stands alone."""
    together: dict[object, list[GroupTotals]] = {}
    for number, each in enumerate(dict.fromkeys(readings)):
        together.setdefault(_source(each.bounded) or number, []).append(each)
    found = []
    for group in together.values():
        found += [_combined(chunk) for chunk in _chunks(group)]
    return tuple(found)


def _chunks(readings: Sequence[GroupTotals]) -> list[list[GroupTotals]]:
    """Cut a list where one statement would measure too much."""
    chunks: list[list[GroupTotals]] = [[]]
    for each in readings:
        if sum(len(one.bounded.measures) for one in chunks[-1]) + len(each.bounded.measures) > MOST_MEASURES:
            chunks.append([])
        chunks[-1].append(each)
    return [each for each in chunks if each]


def _combined(readings: Sequence[GroupTotals]) -> Combined:
    if len(readings) == 1:
        (only,) = readings
        return Combined(only, ((only, slice(0, only.shape[1])),))
    first = readings[0]
    measures = [each for one in readings for each in _filtered(one.bounded)]
    bound = replace(first.bounded.bound, input=_unfiltered(first.bounded.bound.input))
    plan = Aggregate(bound, (), tuple(each.measure for each in measures))
    parts, start = [], 0
    for each in readings:
        parts.append((each, slice(start, start + each.shape[1])))
        start += each.shape[1]
    return Combined(GroupTotals(Bounded(plan, tuple(measures)), first.groups), tuple(parts))


def _source(bounded: Bounded) -> tuple[Relation, Strategy, Limits, tuple[bool, ...]] | None:
    """Give what is equal for all that one statement can read; None for what is read by itself."""
    tested = isinstance(bounded.bound.input, Filter)
    plain = bounded.strategy in _PLAIN and not bounded.plan.keys and not bounded.finds
    if not plain or any(each.measure.value is not None or (tested and each.measure.where) for each in bounded.measures):
        return None
    units = tuple({each.measure.once_per_unit for each in bounded.measures})  # counted apart from rows, which is faster
    return _unfiltered(bounded.bound.input), bounded.strategy, bounded.limits, units


def _unfiltered(relation: Relation) -> Relation:
    return relation.input if isinstance(relation, Filter) else relation


def _filtered(bounded: Bounded) -> tuple[Scaled, ...]:
    """Move the WHERE of a question into its measures."""
    below = bounded.bound.input
    if not isinstance(below, Filter):
        return bounded.measures
    return tuple(replace(each, measure=_where(each.measure, below.predicate)) for each in bounded.measures)


def _where(measure: Measure, test: Expression) -> Measure:
    return replace(measure, where=test)  # type: ignore[type-var]
