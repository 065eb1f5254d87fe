"""Sharing says what is measured for what is asked: once, whatever is made from it.

A *part* of a question is what one reading answers: all totals together, and the ranks of one column on their own. Each
asked number is made from some measures of one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Measure, Reads, Sum
from sfumato.plan.nodes import Aggregate


@dataclass(frozen=True)
class ReadingPart:
    """A part is measured by one reading of the rows of a question."""

    reads: Reads
    plan: Aggregate
    """The rows and keys of the question, with what is measured."""
    asked: tuple[AggregateRequest, ...]
    """What is made from it."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """List what is measured."""
        return cast("tuple[Measure, ...]", self.plan.measures)


@dataclass(frozen=True)
class Made:
    """This says what an asked number is made from: measures of a part, by their places."""

    asked: AggregateRequest
    part: int
    measures: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """These are the parts of a question, and what each of its asked numbers is made from."""

    parts: tuple[ReadingPart, ...]
    made: tuple[Made, ...]


def shared(plan: Aggregate) -> Shared:
    """Split what is asked into parts; equal measures are measured once. There is always a first part of totals, which
    may be of none.
    """
    together: dict[object, list[AggregateRequest]] = {Reads.TOTALS: []}
    for each in plan.measures:
        together.setdefault(each.together, []).append(each)
    known = {key: _known(asked) for key, asked in together.items()}
    parts = tuple(_part(plan, asked, known[key]) for key, asked in together.items())
    places = {key: number for number, key in enumerate(together)}
    made = (_made(each, places[each.together], parts, known[each.together]) for each in plan.measures)
    return Shared(parts, tuple(made))


def measured(plan: Aggregate) -> Aggregate:
    """Give the plan with all that is measured for what it asks, in whichever part."""
    return replace(plan, measures=tuple(each for part in shared(plan).parts for each in part.measures))


def _known(asked: Sequence[AggregateRequest]) -> Sequence[AggregateRequest]:
    """List what is asked and what each of it needs; and the mean of a value whose sum and number are asked.

    A mean is measured as two sums that take one price together, so that it gives the sum and the number with less noise
    than if both were measured.
    """
    needed = (measure for each in asked for measure in each.measured(()))
    means = (Mean(each.value, each.where) for each in asked if type(each) is Sum)
    numbers = {each for each in asked if type(each) is Count}
    return tuple(dict.fromkeys((*asked, *needed, *(mean for mean in means if mean.rows in numbers))))


def _part(plan: Aggregate, asked: Sequence[AggregateRequest], known: Sequence[AggregateRequest]) -> ReadingPart:
    measured = dict.fromkeys(measure for each in asked for measure in each.measured(known))
    return ReadingPart(asked[0].reads if asked else Reads.TOTALS, replace(plan, measures=tuple(measured)), tuple(asked))


def _made(
    asked: AggregateRequest, number: int, parts: Sequence[ReadingPart], known: Sequence[AggregateRequest]
) -> Made:
    part = parts[number]
    if part.reads is not Reads.TOTALS:
        return Made(asked, number, (part.asked.index(asked),))
    return Made(asked, number, tuple(map(part.measures.index, asked.measured(known))))
