"""Distances between two tables: total variation of their marginals, Cramér's V, correlations, and nearest rows.

NIST's k-marginal score is 1000·(1 − the mean total variation over the marginals of k columns): SDNist 2 writes it as
(2 − mean L1)·500, over a sample of the sets of columns. Here it is over all sets up to ``MAX_SETS``, and beyond that
over evenly spaced ones.

Distance of synthetic rows to the nearest real row, compared with that of real rows to each other.

The distance is Gower's (1971): the mean over columns of |x − y|/range for numbers, and of 0 or 1 for everything else.
Small distances may indicate copied rows; large ones prove nothing. Privacy depends on how a table was generated, never
on its distance from the data: these figures are no evidence of privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.quality.learning import CommonColumn, evenly_spaced
from sfumato.quick_dataclass import dataclass

MAX_SETS = 2_000
"""The most k-way marginals that are compared for one k."""
_MAX_DENSE_CELLS = 1 << 22

Codes = NDArray[np.int64]
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

    def marginal_cell_index(self, columns: ColumnSet) -> Codes:
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
        prefix_indices = [table.marginal_cell_index(prefix) if prefix else None for table in (real, synthetic)]
        for columns in same_prefix:
            indexed = [
                (table.marginal_cell_index(columns) if index is None else table.extend_index(index, columns[-1]), table)
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
        counts = np.bincount(table.marginal_cell_index((first, second)), table.totals, shape[0] * shape[1]).reshape(
            shape
        )
        matrix[first, second] = matrix[second, first] = cramers_v(np.asarray(counts, np.float64))
    return matrix


def correlations(columns: Sequence[CommonColumn], table: int) -> Floats:
    """Return Pearson's correlation of every two numeric columns, over the rows that have both; 0 where one of them is
    constant.
    """
    numbers = np.stack(
        [column.numbers[table] for column in columns if column.numbers is not None] or [np.zeros(0)], axis=1
    )
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


CAVEAT = "a distance is no evidence of privacy: only how a table was generated can protect people"
MAX_QUERIED_ROWS, MAX_SEARCHED_ROWS = 300, 20_000
"""Rows whose nearest real row is searched, and real rows that are searched."""
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BLOCK_ENTRIES = 1 << 22
_HASH_MULTIPLIER, _NULL = np.uint64(0x9E3779B97F4A7C15), -1.2345678901234567e300
"""A multiplier that mixes all bits, and a number that stands for NULL."""

Distances = NDArray[np.float32]


@dataclass(frozen=True)
class NearestRows:
    """Quantiles of the distance to the nearest real row, from 0 to 1."""

    shares: tuple[float, ...]
    """The probabilities of the quantiles."""
    synthetic: tuple[float, ...]
    """Quantiles for synthetic rows."""
    real: tuple[float, ...]
    """Quantiles for real rows, to the nearest other real row."""
    copies: float
    """The share of all synthetic rows that equal a real row in every column; rare texts count as one value."""
    real_copies: float
    """The share of all real rows that equal another one."""
    rows: int
    """The number of rows of each table whose distance was computed."""
    among: int
    """The number of real rows that were searched."""


def nearest_rows(columns: Sequence[CommonColumn]) -> NearestRows | None:
    """Find the nearest real row of evenly spaced rows of both tables; None where there is only one real row."""
    real_count, synthetic_count = (len(columns[0].codes[table]) for table in (0, 1))
    if real_count < 2:
        return None
    searched, queried = evenly_spaced(real_count, MAX_SEARCHED_ROWS), evenly_spaced(synthetic_count, MAX_QUERIED_ROWS)
    query_positions = evenly_spaced(len(searched), MAX_QUERIED_ROWS)
    synthetic = _nearest_distances(columns, (1, queried), searched, None)
    real = _nearest_distances(columns, (0, searched[query_positions]), searched, query_positions)
    quantiles = [
        tuple(float(quantile) for quantile in np.quantile(distances, _SHARES)) for distances in (synthetic, real)
    ]
    return NearestRows(_SHARES, quantiles[0], quantiles[1], *_copied_shares(columns), len(queried), len(searched))


def _copied_shares(columns: Sequence[CommonColumn]) -> tuple[float, float]:
    """Return the share of synthetic rows that equal a real row, and of real rows that equal another."""
    real, synthetic = (_hash_rows(columns, table) for table in (0, 1))
    real_hashes, hash_index, counts = np.unique(real, return_inverse=True, return_counts=True)
    return float(np.isin(synthetic, real_hashes).mean()), float((counts[hash_index] > 1).mean())


def _hash_rows(columns: Sequence[CommonColumn], table: int) -> NDArray[np.uint64]:
    """Hash every row to 64 bits."""
    hashes = np.zeros(len(columns[0].codes[table]), np.uint64)
    for column in columns:
        values = (
            column.codes[table] if column.numbers is None else np.nan_to_num(column.numbers[table] + 0.0, nan=_NULL)
        )
        hashes = (hashes ^ values.view(np.uint64)) * _HASH_MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _nearest_distances(
    columns: Sequence[CommonColumn],
    queried: tuple[int, NDArray[np.int64]],
    searched: NDArray[np.int64],
    query_positions: NDArray[np.int64] | None,
) -> Distances:
    """Return for each row the least distance to a searched row, except that at its own position if one is given."""
    table, rows = queried
    least = np.empty(len(rows), np.float32)
    step = max(1, _BLOCK_ENTRIES // len(searched))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        distances = np.zeros((len(block), len(searched)), np.float32)
        for column in columns:
            distances += _column_distance(column, table, block, searched)
        if query_positions is not None:
            distances[np.arange(len(block)), query_positions[start : start + step]] = np.inf
        least[start : start + step] = distances.min(axis=1)
    return least / np.float32(len(columns))


def _column_distance(
    column: CommonColumn, table: int, rows: NDArray[np.int64], searched: NDArray[np.int64]
) -> Distances:
    """Return the distance of a column's value in each row from that in each searched row: from 0 to 1."""
    if column.numbers is None:
        return (column.codes[table][rows][:, None] != column.codes[0][searched]).astype(np.float32)
    row_values, searched_values = _scale_numbers(column, table, rows)[:, None], _scale_numbers(column, 0, searched)
    distance = np.minimum(np.abs(row_values - searched_values), 1)
    if np.isnan(row_values).any() or np.isnan(searched_values).any():
        distance = np.where(np.isnan(distance), np.isnan(row_values) != np.isnan(searched_values), distance)
    return distance.astype(np.float32)


def _scale_numbers(column: CommonColumn, table: int, rows: NDArray[np.int64]) -> Distances:
    """Scale numbers so that the real ones span [0, 1]; if those are constant, any other number is at distance 1."""
    assert column.numbers is not None
    present = column.numbers[0][~np.isnan(column.numbers[0])]
    low, high = (present.min(), present.max()) if len(present) else (0.0, 0.0)
    numbers = column.numbers[table][rows]
    scaled = (
        (numbers / (high - low) - low / (high - low)) if high > low else np.where(numbers == low, 0, numbers * np.inf)
    )
    return np.where(np.isnan(numbers), np.nan, scaled).astype(np.float32)
