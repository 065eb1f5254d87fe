"""The rows of an answer are its groups, or sums of them where it has subtotals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.aggregates.measures import Floats
from sfumato.plan.nodes import GroupKey

Places = NDArray[np.intp]


@dataclass(frozen=True)
class AnswerRows:
    """These are the keys of an answer's rows, and they say which groups each row is the sum of."""

    keys: Sequence[GroupKey]
    """None is NULL, and stands for a key that is summed over."""
    over: NDArray[np.bool_]
    """For each row and key, whether it is summed over."""
    rows: Places
    groups: Places
    """Pairs: this row has this group in it."""
    sums: bool
    """Whether a row may be a sum: else rows are the groups as they are."""
    width: int
    """How many values a key has: there may be no row."""

    @property
    def terms(self) -> Places:
        """Count the groups that each row is the sum of."""
        return np.bincount(self.rows, minlength=len(self.keys))

    def summed(self, groups: Floats) -> Floats:
        """Add up a column of groups into a column of rows."""
        return np.bincount(self.rows, weights=groups[self.groups], minlength=len(self.keys)).astype(np.float64)


def answer_rows(sets: Sequence[Sequence[int]], groups: Sequence[GroupKey], width: int | None = None) -> AnswerRows:
    """List the rows of every grouping set in turn, each set's in the order of its first groups; the groups where there
    are no sets. A key has ``width`` values, which must be said where there may be no group.
    """
    width = len(groups[0]) if width is None else width
    every = np.arange(len(groups))
    if not sets:
        return AnswerRows(groups, np.zeros((len(groups), width), bool), every, every, sums=False, width=width)
    keys: list[GroupKey] = []
    rows, over = [], []
    for members in sets:
        kept = [index in set(members) for index in range(width)]
        places: dict[GroupKey, int] = {}
        projected = (tuple(value if keep else None for value, keep in zip(key, kept, strict=True)) for key in groups)
        rows.append(np.array([places.setdefault(key, len(places)) for key in projected], np.intp) + len(keys))
        keys += places
        over += [np.repeat([[not keep for keep in kept]], len(places), axis=0)]
    return AnswerRows(keys, np.vstack(over), np.concatenate(rows), np.tile(every, len(sets)), sums=True, width=width)


def one_row_per_set(sets: Sequence[Sequence[int]], groups: Sequence[GroupKey], width: int | None = None) -> AnswerRows:
    """Make a stand-in for forecasts: for every grouping set its longest sum, of one group taken so many times."""
    width = len(groups[0]) if width is None else width
    whole = answer_rows(sets, groups, width)
    key = (None,) * width
    if not sets:
        return answer_rows((), [key], width)
    longest = whole.terms[whole.rows].reshape(len(sets), len(groups)).max(axis=1)
    over = np.array([[index not in members for index in range(width)] for members in sets], bool)
    rows, places = np.repeat(np.arange(len(sets)), longest), np.zeros(longest.sum(), np.intp)
    return AnswerRows([key] * len(sets), over.reshape(len(sets), width), rows, places, sums=True, width=width)
