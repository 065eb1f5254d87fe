"""A difference is spread over many questions, or over the totals of a published table, and put together again.

No two of these questions differ by one person alone, so that nobody who compares questions finds the pair. But totals
are linear in the values of the people: wherever some combination of groups leaves one person alone, the same
combination of their totals is that person's value. Weights w with wᵀG = e, the unit vector of the person, are found by
linear algebra from the groups G, which are public; where there are many, the shortest carry least of what rounding and
noise have added (Gauss–Markov). Totals that are withheld are left out, and the others put together without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import Answerer, Groups, Sums, Values, random_groups
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import whole

APART = 5
"""How many people two questions differ by at least."""


def spread_groups(questions: int, people: int) -> Groups:
    """Draw random groups, of which any two differ by five people or more; and so does each from nobody."""
    many, wide = whole(questions, "questions", at_least=1), whole(people, "people", at_least=1)
    kept = np.zeros((1, wide), bool)  # nobody, who is asked about in no question
    while len(kept) <= many:
        before = len(kept)
        for group in random_groups(many + 1 - before, wide):
            if (kept ^ group).sum(axis=1).min() >= APART:
                kept = np.concatenate([kept, group[None, :]])
        if len(kept) == before:
            raise InvalidParameter("questions", questions, f"so few that groups of {wide} people are not alike")
    return kept[1:]


@dataclass(frozen=True)
class CrossTable:
    """A cross table adds up values by rows and columns, and tells the totals of both."""

    rows: Values
    """The row of each person, from 0 on."""
    columns: Values
    """The column of each person."""

    @property
    def shape(self) -> tuple[int, int]:
        """Say how many rows and columns there are."""
        return int(self.rows.max()) + 1, int(self.columns.max()) + 1

    def groups(self) -> Groups:
        """Say who is in every cell, row by row, in every row, in every column, and in all of it."""
        high, wide = self.shape
        listed = [
            np.arange(high * wide)[:, None] == self.rows * wide + self.columns,
            np.arange(high)[:, None] == self.rows,
            np.arange(wide)[:, None] == self.columns,
            np.ones((1, len(self.rows)), bool),
        ]
        return np.concatenate(listed)


def laid_out(streets: int, bands: int, size: int) -> CrossTable:
    """Put people into a table of streets by bands of age. The first person is alone in the first cell, and every
    other cell has ``size`` people.
    """
    high, wide = whole(streets, "streets", at_least=2), whole(bands, "bands", at_least=2)
    cell = np.concatenate([[0], np.repeat(np.arange(1, high * wide), whole(size, "size", at_least=1))])
    return CrossTable(*np.divmod(cell, wide))


def table_groups(streets: int, bands: int, size: int) -> Groups:
    """Give the totals of such a table: of every cell, every street, every band, and everybody."""
    return laid_out(streets, bands, size).groups()


def isolate(answerer: Answerer, groups: Groups, target: int) -> Sums:
    """Estimate the bit of one person from the totals of these groups, by weights under which all others cancel.

    Where no weights do, as when too few totals were told, it is the best linear guess for people of whom half have the
    bit; where nothing was told, it is not a number.
    """
    return put_together(answerer.sums(groups), groups, target)


def put_together(told: Sums, groups: Groups, target: int) -> Sums:
    """Estimate it from totals that were told already; those that were withheld are not numbers."""
    columns = told.reshape(len(told), -1)
    found = np.full(columns.shape[1], np.nan)
    patterns, which = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for number, known in enumerate(patterns.T):
        if not known.any():
            continue
        towns = which.ravel() == number
        used = groups[known]
        beyond_half = columns[known][:, towns] - used.sum(axis=1, keepdims=True) / 2
        found[towns] = 0.5 + _weights(used, target) @ beyond_half
    return found.reshape(told.shape[1:])


def _weights(groups: Groups, target: int) -> NDArray[np.float64]:
    """Find the shortest weights whose combination of groups is closest to one person alone."""
    alone = np.arange(groups.shape[1]) == target
    return np.linalg.lstsq(groups.T.astype(np.float64), alone.astype(np.float64), rcond=None)[0]
