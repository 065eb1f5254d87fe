"""This makes the parts of a question that are no totals, from what is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.plan.aggregates.measures import Reads
from sfumato.plan.bounding import Bounded
from sfumato.plan.sharing import Part
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Value
from sfumato.release.parts.question_parts import OtherPart
from sfumato.release.parts.rank_parts import ChosenRanks
from sfumato.release.parts.value_parts import ChosenValues, DifferentCounts

Candidates = Callable[[Expression], tuple[Value, ...]]
"""Lists what a value may be, from the policy alone, or refuses."""


def other_part(bounded: Bounded, part: Part, candidates: Candidates) -> OtherPart:
    """Make what is measured beside totals, under a bounding of its rows."""
    return _MADE[part.reads](bounded, part.asked, candidates)


_MADE: dict[Reads, Callable[[Bounded, Any, Candidates], OtherPart]] = {
    Reads.RANKS: lambda bounded, asked, _: ChosenRanks(bounded, asked),
    Reads.DIFFERENT: lambda bounded, asked, _: DifferentCounts(bounded, asked),
    Reads.FREQUENT: lambda bounded, asked, candidates: ChosenValues(bounded, asked, candidates(asked[0].value)),
}
