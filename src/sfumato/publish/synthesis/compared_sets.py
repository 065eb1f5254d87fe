"""Which candidates a round compares with the model, where a wide table has too many to compare all.

A table of 100 columns has 161,700 triples. Comparing one takes as long as counting 48,000 rows, and longer where paths
through the model are long; a set that was not compared before is counted first. So a round compares a limited number:
in the first rounds, one for each column, pairs; afterwards a third are sets that add a column to one chosen before, a
third are pairs, and the rest is any. What does not fit is taken at even distances, from a start that moves on, so that
in time others have their turn: every round for pairs, and every 16 rounds for larger sets, of which then few are
counted anew.

*Theorem.* The subset is a function of the policy, the noisy number of rows and the sets chosen before: public or
released. Given these it is a constant, and a choice from it is the exponential mechanism on fewer candidates. A unit
moves the score of a set by its weight times Δ₁, whatever else is compared (``ColumnSetDistances``): the bound is that
of the heaviest set of the subset, the loss spans the ε that is charged, and adaptive composition adds up as before. ∎
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sfumato.publish.marginals.blocks import AttributeSet

ROUNDS_PER_PART = 16
"""The rounds after which other sets have their turn."""
_WORK_PER_ROUND = 3 << 25
"""The work of a round, in rows counted: below it are all 469 sets of ADULT, and all 1,350 of NIST's table."""
_WORK_PER_SET = 48_000
"""The work of comparing one set that is counted already, in a model of few columns: of more, it grows with them."""
FEW_COLUMNS = 20
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples modulo 1 are evenly distributed: starts follow each other in such an order."""


def comparison_factor(columns: int) -> float:
    """Return how much longer a comparison takes than with a model of few columns."""
    return max(1.0, columns / FEW_COLUMNS)


def max_compared(rows: float, columns: int) -> int:
    """Return how many sets a round compares with the model, for so many rows: a released number, or a public one."""
    return int(_WORK_PER_ROUND / (_WORK_PER_SET * comparison_factor(columns) + rows / ROUNDS_PER_PART))


def compared_sets(candidates: Sequence[AttributeSet], chosen: Sequence[AttributeSet], limit: int) -> list[AttributeSet]:
    """Return the candidates to compare, at most so many beside single columns, which a model of any size can hold.

    Candidates are sorted by their number of columns; ``chosen`` are the sets that earlier rounds chose.
    """
    if len(candidates) <= limit:
        return list(candidates)
    singles_end, pairs_end = (bisect_right(candidates, count, key=len) for count in (1, 2))
    singles, pairs, larger = candidates[:singles_end], candidates[singles_end:pairs_end], candidates[pairs_end:]
    turn, part = len(chosen), len(chosen) // ROUNDS_PER_PART
    if pairs and (len(chosen) < len(singles) or not larger):
        return [*singles, *_evenly_spaced(pairs, limit, turn)]
    room, picked = limit, dict.fromkeys(singles)
    extended = _extended_sets(chosen, larger, singles)
    for groups_left, group, start in ((3, extended, part), (2, pairs, turn), (1, larger, part)):
        share = _evenly_spaced(group, room // groups_left, start)
        room -= len(share)
        picked |= dict.fromkeys(share)
    return list(picked)


def _evenly_spaced(sets: Sequence[AttributeSet], count: int, turn: int) -> list[AttributeSet]:
    """Return so many of these sets at even distances, from a start that the turn decides."""
    if len(sets) <= count:
        return list(sets)
    start = int(turn * _GOLDEN % 1 * len(sets))
    return [sets[(start + index * len(sets) // count) % len(sets)] for index in range(count)]


def _extended_sets(
    chosen: Iterable[AttributeSet], larger: Sequence[AttributeSet], singles: Sequence[AttributeSet]
) -> list[AttributeSet]:
    """Return the candidates that are a chosen set and one more column."""
    wanted = {tuple(sorted({*attribute_set, *single})) for attribute_set in dict.fromkeys(chosen) for single in singles}
    return [candidate for candidate in larger if candidate in wanted]
