"""Distances between two tables: total variation of their marginals, Cramér's V and correlations.

NIST's k-marginal score is 1000·(1 − the mean total variation over the marginals of k columns): SDNist 2 writes it as
(2 − mean L1)·500, over a sample of the sets of columns. Here it is over all sets up to ``MAX_SETS``, and beyond that
over evenly spaced ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.paired_columns import PairedColumn

MAX_SETS = 2_000
"""The most k-way marginals that are compared for one k."""
_MAX_DENSE_CELLS = 1 << 22

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
ColumnSet = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CodedTable:
    """The rows of one table as cell codes per column, with the multiplicity of each combination."""

    sizes: tuple[int, ...]
    codes: tuple[Codes, ...]
    totals: Floats | None = None
    """Multiplicities; None where each combination is one row."""

    @property
    def rows(self) -> float:
        return float(len(self.codes[0]) if self.totals is None else self.totals.sum())

    def index(self, columns: ColumnSet) -> Codes:
        """Return for each row the index of its cell in the marginal of these columns."""
        cell_index = self.codes[columns[0]].astype(np.int64)
        for column in columns[1:]:
            cell_index = cell_index * self.sizes[column] + self.codes[column]
        return cell_index

    def extend_index(self, index: Codes, column: int) -> Codes:
        return index * self.sizes[column] + self.codes[column]


def total_variation(one: tuple[Codes, CodedTable], other: tuple[Codes, CodedTable], cells: int) -> float:
    """Return the total variation distance of two tables, given the cell index of each row: from 0 to 1."""
    if cells > _MAX_DENSE_CELLS:  # a sparse table: renumber the cells that have rows
        occupied, joint = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
        one, other = (joint[: len(one[0])], one[1]), (joint[len(one[0]) :], other[1])
        cells = len(occupied)
    shares = [np.bincount(index, table.totals, cells) / table.rows for index, table in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


@dataclass(frozen=True)
class MarginalSummary:
    """Summary of the total variation over all k-way marginals, k = ``ways``."""

    ways: int
    compared: int
    """The number of marginals compared."""
    sets: int
    """The number of marginals there are."""
    mean: float
    worst: float
    worst_columns: tuple[str, ...]
    score: float
    """NIST's k-marginal score, from 0 to 1000: 1000·(1 − mean)."""


def marginal_sets(columns: int, ways: int) -> list[ColumnSet]:
    """List all sets of ``ways`` columns, or ``MAX_SETS`` evenly spaced ones where there are more."""
    count = math.comb(columns, ways)
    combinations = itertools.combinations(range(columns), ways)
    if count <= MAX_SETS:
        return list(combinations)
    selected = {step * count // MAX_SETS for step in range(MAX_SETS)}
    return [columns_of_set for rank, columns_of_set in enumerate(combinations) if rank in selected]


def distances(real: CodedTable, synthetic: CodedTable, ways: int) -> dict[ColumnSet, float]:
    """Return the total variation of every ``ways``-way marginal."""
    return dict(_distances_by_prefix(real, synthetic, marginal_sets(len(real.sizes), ways)))


def _distances_by_prefix(
    real: CodedTable, synthetic: CodedTable, sets: Sequence[ColumnSet]
) -> Iterator[tuple[ColumnSet, float]]:
    """Compute the cell index of all columns but the last once for all sets with the same prefix."""
    for prefix, same_prefix in itertools.groupby(sets, key=lambda columns: columns[:-1]):
        prefix_indices = [table.index(prefix) if prefix else None for table in (real, synthetic)]
        for columns in same_prefix:
            indexed = [
                (table.index(columns) if index is None else table.extend_index(index, columns[-1]), table)
                for index, table in zip(prefix_indices, (real, synthetic), strict=True)
            ]
            yield columns, total_variation(indexed[0], indexed[1], math.prod(real.sizes[column] for column in columns))


def summarise_marginals(marginal_distances: dict[ColumnSet, float], names: Sequence[str], ways: int) -> MarginalSummary:
    """Summarise the total variation of all ``ways``-way marginals."""
    worst = max(marginal_distances, key=lambda columns: marginal_distances[columns])
    mean = math.fsum(marginal_distances.values()) / len(marginal_distances)
    sets = math.comb(len(names), ways)
    worst_names = tuple(names[column] for column in worst)
    return MarginalSummary(
        ways, len(marginal_distances), sets, mean, marginal_distances[worst], worst_names, 1000 * (1 - mean)
    )


_ROUNDING = 1e-12
"""The largest relative rounding error in the sum of squares of a constant column."""


def cramers_v(counts: Floats) -> float:
    """Return Cramér's V of a contingency table: 0 for independent columns, 1 where one determines the other (Cramér
    1946).

    V² = χ²/(n·(min(rows, columns) − 1)), over non-empty rows and columns; 0 where one of them has a single value.

    >>> cramers_v(np.array([[10.0, 0.0], [0.0, 10.0]]))
    1.0
    """
    nonempty = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    degrees = min(nonempty.shape, default=0) - 1
    if degrees < 1:
        return 0.0
    total = nonempty.sum()
    expected = np.outer(nonempty.sum(axis=1), nonempty.sum(axis=0)) / total
    chi_square = float(((nonempty - expected) ** 2 / expected).sum())
    return float(min(1.0, np.sqrt(chi_square / (total * degrees))))


def associations(table: CodedTable) -> Floats:
    """Return the matrix of Cramér's V of every pair of columns, with 1 on its diagonal."""
    matrix = np.eye(len(table.sizes))
    for first, second in itertools.combinations(range(len(table.sizes)), 2):
        shape = table.sizes[first], table.sizes[second]
        counts = np.bincount(table.index((first, second)), table.totals, shape[0] * shape[1]).reshape(shape)
        matrix[first, second] = matrix[second, first] = cramers_v(np.asarray(counts, np.float64))
    return matrix


def correlations(columns: Sequence[PairedColumn], table: int) -> Floats:
    """Return Pearson's correlation of every two numeric columns, over the rows that have both; 0 where one of them is
    constant.
    """
    numbers = np.stack([each.numbers[table] for each in columns if each.numbers is not None] or [np.zeros(0)], axis=1)
    present = (~np.isnan(numbers)).astype(np.float64)
    centred = np.where(present > 0, numbers, 0.0)
    centred = (centred - centred.sum(axis=0) / np.maximum(present.sum(axis=0), 1)) * present
    centred /= np.maximum(np.abs(centred).max(axis=0, initial=0), 1e-300)  # scaled, so that no square overflows
    count = np.maximum(present.T @ present, 1)
    sums, squares = centred.T @ present, (centred**2).T @ present
    variation_sums = np.maximum(squares - sums**2 / count, 0.0)
    products = centred.T @ centred - sums * sums.T / count
    scale = np.sqrt(variation_sums * variation_sums.T)
    varies = (variation_sums > _ROUNDING * squares) & (variation_sums > _ROUNDING * squares).T
    matrix = np.where(varies, products / np.where(varies, scale, 1), 0.0)
    np.fill_diagonal(matrix, 1.0)
    clipped: Floats = np.clip(matrix, -1, 1)
    return clipped
