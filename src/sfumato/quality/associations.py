"""How columns hang together in each table: Cramér's V of all pairs of cells, and correlations of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.distances import Coded
from sfumato.quality.paired_columns import PairedColumn

Floats = NDArray[np.float64]


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
    numbers = [each.numbers[table] for each in columns if each.numbers is not None]
    found = np.eye(len(numbers))
    for one, other in itertools.combinations(range(len(numbers)), 2):
        found[one, other] = found[other, one] = _correlation(numbers[one], numbers[other])
    return found


def _correlation(one: Floats, other: Floats) -> float:
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < 2:
        return 0.0
    first, second = (each[both] - each[both].mean() for each in (one, other))
    lengths = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > 0 else 0.0
