"""Two tables are compared by their marginals: half the sum of how far the shares of all cells are apart.

NIST's k-marginal score is 1000·(1 − the mean over marginals of k columns of this total variation): SDNist 2 writes it
as (2 − mean L1)·500, over a sample of the sets of columns. Here it is over all of them, as long as they are not too
many, and then over sets that are spread evenly over all.

Associations say how columns hang together in each table: Cramér's V of all pairs of cells, and correlations of
numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.paired_columns import PairedColumn

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


_ROUNDING = 1e-12
"""What rounding leaves of the squares of a column that does not vary, at most, as a share."""


def cramers_v(counts: Floats) -> float:
    """Give Cramér's V of a table of counts: 0 for independent columns, 1 where one decides the other (Cramér 1946).

    V² = χ²/(n·(min(rows, columns) − 1)), over rows and columns that are not empty; 0 where one of them has one value.

    >>> cramers_v(np.array([[10.0, 0.0], [0.0, 10.0]]))
    1.0
    """
    kept = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    least = min(kept.shape, default=0) - 1
    if least < 1:
        return 0.0
    total = kept.sum()
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / total
    squares = float(((kept - expected) ** 2 / expected).sum())
    return float(min(1.0, np.sqrt(squares / (total * least))))


def associations(table: Coded) -> Floats:
    """Give Cramér's V of every pair of columns as a matrix, with 1 on its diagonal."""
    found = np.eye(len(table.sizes))
    for one, other in itertools.combinations(range(len(table.sizes)), 2):
        shape = table.sizes[one], table.sizes[other]
        counts = np.bincount(table.index((one, other)), table.totals, shape[0] * shape[1]).reshape(shape)
        found[one, other] = found[other, one] = cramers_v(np.asarray(counts, np.float64))
    return found


def correlations(columns: Sequence[PairedColumn], table: int) -> Floats:
    """Give Pearson's correlation of every two columns of numbers, over the rows that have both; 0 where one of them
    does not vary.
    """
    numbers = np.stack([each.numbers[table] for each in columns if each.numbers is not None] or [np.zeros(0)], axis=1)
    there = (~np.isnan(numbers)).astype(np.float64)
    centred = np.where(there > 0, numbers, 0.0)
    centred = (centred - centred.sum(axis=0) / np.maximum(there.sum(axis=0), 1)) * there
    centred /= np.maximum(np.abs(centred).max(axis=0, initial=0), 1e-300)  # no square of a number is infinite
    count = np.maximum(there.T @ there, 1)
    sums, squares = centred.T @ there, (centred**2).T @ there
    spread = np.maximum(squares - sums**2 / count, 0.0)
    products = centred.T @ centred - sums * sums.T / count
    scale = np.sqrt(spread * spread.T)
    varies = (spread > _ROUNDING * squares) & (spread > _ROUNDING * squares).T
    found = np.where(varies, products / np.where(varies, scale, 1), 0.0)
    np.fill_diagonal(found, 1.0)
    clipped: Floats = np.clip(found, -1, 1)
    return clipped
