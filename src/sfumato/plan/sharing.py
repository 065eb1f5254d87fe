"""What is asked is made from what is measured, and what is measured once serves all that is made from it.

A *part* of a question is what one reading answers: all totals together, and the ranks of one column on their own. Each
asked number is made from some measures of one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sfumato.plan.expressions import Expression
from sfumato.plan.measures import Asked, Measure, Quantile, Reads
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
    measured = tuple(dict.fromkeys(measure for each in totals for measure in each.measured(totals)))
    parts = [Part(Reads.TOTALS, replace(plan, measures=measured), tuple(totals))]
    ranked: dict[tuple[Expression, Expression | None], list[Quantile]] = {}
    for each in plan.measures:
        if isinstance(each, Quantile):
            ranked.setdefault((each.value, each.where), []).append(each)
    parts += [
        Part(Reads.RANKS, replace(plan, measures=asked[0].measured(asked)), tuple(asked)) for asked in ranked.values()
    ]
    return Shared(tuple(parts), tuple(_made(each, parts, totals) for each in plan.measures))


def _made(asked: Asked, parts: Sequence[Part], totals: Sequence[Asked]) -> Made:
    number = next(number for number, part in enumerate(parts) if asked in part.asked)
    if asked.reads is Reads.TOTALS:
        return Made(asked, number, tuple(map(parts[0].measures.index, asked.measured(totals))))
    return Made(asked, number, (parts[number].asked.index(asked),))
