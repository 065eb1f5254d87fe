"""A difference is spread over many questions, or over the totals of a published table, and put together again.

No two of these questions differ by one person alone, so that nobody who compares questions finds the pair. But totals
are linear in the values of the people: wherever some combination of groups leaves one person alone, the same
combination of their totals is that person's value. Weights w with wᵀG = e, the unit vector of the person, are found by
linear algebra from the groups G, which are public; where there are many, the shortest carry least of what rounding and
noise have added (Gauss–Markov). Totals that are withheld are left out, and the others put together without them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import Answerer, Groups, Sums, random_groups
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


def table_groups(streets: int, bands: int, size: int) -> Groups:
    """Lay people out in a table of streets by bands of age, and give its totals: of every cell, every street, every
    band, and everybody. The first person is alone in the first cell, and every other cell has ``size`` people.
    """
    high, wide = whole(streets, "streets", at_least=2), whole(bands, "bands", at_least=2)
    cell = np.concatenate([[0], np.repeat(np.arange(1, high * wide), whole(size, "size", at_least=1))])
    street, band = np.divmod(cell, wide)
    listed = [
        np.arange(high * wide)[:, None] == cell,
        np.arange(high)[:, None] == street,
        np.arange(wide)[:, None] == band,
        np.ones((1, len(cell)), bool),
    ]
    return np.concatenate(listed)


def isolate(answerer: Answerer, groups: Groups, target: int) -> Sums:
    """Estimate the bit of one person from the totals of these groups, by weights under which all others cancel.

    Where no weights do, as when too few totals were told, it is the best linear guess for people of whom half have the
    bit; where nothing was told, it is not a number.
    """
    told = answerer.sums(groups)
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
