"""Two tables are compared by their marginals: half the sum of how far the shares of all cells are apart.

NIST's k-marginal score is 1000·(1 − the mean over marginals of k columns of this total variation): SDNist 2 writes it
as (2 − mean L1)·500, over a sample of the sets of columns. Here it is over all of them, as long as they are not too
many, and then over sets that are spread evenly over all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_SETS = 2_000
"""So many marginals of one number of columns are compared at most."""
_MOST_DENSE = 1 << 22

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Set = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Coded:
    """These are the rows of one table as cells: of each column the codes, and how many rows each combination has."""

    sizes: tuple[int, ...]
    codes: tuple[Codes, ...]
    totals: Floats | None = None
    """None where each is one row."""

    @property
    def rows(self) -> float:
        return float(len(self.codes[0]) if self.totals is None else self.totals.sum())

    def index(self, places: Set) -> Codes:
        """Give the number of the cell of these columns that each row is in."""
        found = self.codes[places[0]].astype(np.int64)
        for place in places[1:]:
            found = found * self.sizes[place] + self.codes[place]
        return found

    def extended(self, index: Codes, place: int) -> Codes:
        return index * self.sizes[place] + self.codes[place]


def variation(one: tuple[Codes, Coded], other: tuple[Codes, Coded], cells: int) -> float:
    """Give the total variation between two tables whose rows are in numbered cells: from 0 to 1."""
    if cells > _MOST_DENSE:  # only cells that have rows are counted
        both, joint = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
        one, other = (joint[: len(one[0])], one[1]), (joint[len(one[0]) :], other[1])
        cells = len(both)
    shares = [np.bincount(index, own.totals, cells) / own.rows for index, own in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


@dataclass(frozen=True)
class Ways:
    """This says how far apart the marginals of so many columns are."""

    ways: int
    compared: int
    """How many marginals were compared,"""
    sets: int
    """of how many there are."""
    mean: float
    worst: float
    worst_columns: tuple[str, ...]
    score: float
    """NIST's, from 0 to 1000: 1000·(1 − mean)."""


def chosen_sets(columns: int, ways: int) -> list[Set]:
    """List all sets of so many columns, or where they are too many, some that are spread evenly over them."""
    count = math.comb(columns, ways)
    every = itertools.combinations(range(columns), ways)
    if count <= MOST_SETS:
        return list(every)
    wanted = {place * count // MOST_SETS for place in range(MOST_SETS)}
    return [each for place, each in enumerate(every) if place in wanted]


def distances(real: Coded, synthetic: Coded, ways: int) -> dict[Set, float]:
    """Give the total variation of every marginal of so many columns."""
    return dict(_distances(real, synthetic, chosen_sets(len(real.sizes), ways)))


def _distances(real: Coded, synthetic: Coded, sets: Sequence[Set]) -> Iterator[tuple[Set, float]]:
    """Find the cells of all columns but the last once for all sets that begin alike."""
    for start, alike in itertools.groupby(sets, key=lambda each: each[:-1]):
        begun = [own.index(start) if start else None for own in (real, synthetic)]
        for places in alike:
            own = [
                (each.index(places) if index is None else each.extended(index, places[-1]), each)
                for index, each in zip(begun, (real, synthetic), strict=True)
            ]
            yield places, variation(own[0], own[1], math.prod(real.sizes[place] for place in places))


def summed_up(found: dict[Set, float], names: Sequence[str], ways: int) -> Ways:
    """Sum up the distances of all marginals of so many columns."""
    worst = max(found, key=lambda each: found[each])
    mean = math.fsum(found.values()) / len(found)
    sets = math.comb(len(names), ways)
    named = tuple(names[place] for place in worst)
    return Ways(ways, len(found), sets, mean, found[worst], named, 1000 * (1 - mean))
