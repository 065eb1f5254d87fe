"""Associations say how columns hang together in each table: Cramér's V of all pairs of cells, and correlations of
numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.distances import Coded
from sfumato.quality.paired_columns import PairedColumn

Floats = NDArray[np.float64]
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
