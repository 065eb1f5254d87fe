"""What is asked is made from what is measured, and what is measured once serves all that is made from it.

A *part* of a question is what one reading answers: all totals together, and the ranks of one column on their own. Each
asked number is made from some measures of one part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sfumato.plan.expressions import Expression
from sfumato.plan.measures import Asked, Mean, Measure, Quantile, Reads, Sum
from sfumato.plan.nodes import Aggregate


@dataclass(frozen=True)
class Part:
    """A part is measured by one reading of the rows of a question."""

    reads: Reads
    plan: Aggregate
    """The rows and keys of the question, with what is measured."""
    asked: tuple[Asked, ...]
    """What is made from it."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """List what is measured."""
        return cast("tuple[Measure, ...]", self.plan.measures)


@dataclass(frozen=True)
class Made:
    """This says what an asked number is made from: measures of a part, by their places."""

    asked: Asked
    part: int
    measures: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """These are the parts of a question, and what each of its asked numbers is made from."""

    parts: tuple[Part, ...]
    made: tuple[Made, ...]


def shared(plan: Aggregate) -> Shared:
    """Split what is asked into parts; equal measures are measured once. There is always a first part of totals, which
    may be of none.
    """
    totals = [each for each in plan.measures if each.reads is Reads.TOTALS]
    anyway = _anyway(totals)
    measured = tuple(dict.fromkeys(measure for each in totals for measure in each.measured(anyway)))
    parts = [Part(Reads.TOTALS, replace(plan, measures=measured), tuple(totals))]
    ranked: dict[tuple[Expression, Expression | None], list[Quantile]] = {}
    for each in plan.measures:
        if isinstance(each, Quantile):
            ranked.setdefault((each.value, each.where), []).append(each)
    parts += [
        Part(Reads.RANKS, replace(plan, measures=asked[0].measured(())), tuple(asked)) for asked in ranked.values()
    ]
    return Shared(tuple(parts), tuple(_made(each, parts, anyway) for each in plan.measures))


def measured(plan: Aggregate) -> Aggregate:
    """Give the plan with all that is measured for what it asks, in whichever part."""
    return replace(plan, measures=tuple(each for part in shared(plan).parts for each in part.measures))


def _anyway(totals: Sequence[Asked]) -> dict[Asked, None]:
    """List what is measured in any case: what each needs, and the mean of a value whose sum and number are asked.

    A mean is measured as two sums that take one price together, so that it gives the sum and the number with less noise
    than if both were measured.
    """
    asked = dict.fromkeys(totals)
    alone: dict[Asked, None] = dict.fromkeys(measure for each in totals for measure in each.measured(()))
    means = (Mean(each.value, each.where) for each in totals if type(each) is Sum)
    return alone | dict.fromkeys(mean for mean in means if mean.rows in asked)


def _made(asked: Asked, parts: Sequence[Part], anyway: Collection[Asked]) -> Made:
    number = next(number for number, part in enumerate(parts) if asked in part.asked)
    if asked.reads is Reads.TOTALS:
        return Made(asked, number, tuple(map(parts[0].measures.index, asked.measured(anyway))))
    return Made(asked, number, (parts[number].asked.index(asked),))
