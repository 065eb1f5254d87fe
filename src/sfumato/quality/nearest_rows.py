"""Distance of synthetic rows to the nearest real row, compared with that of real rows to each other.

The distance is Gower's (1971): the mean over columns of |x − y|/range for numbers, and of 0 or 1 for everything else.
Small distances may indicate copied rows; large ones prove nothing. Privacy depends on how a table was generated, never
on its distance from the data: these figures are no evidence of privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.learning import evenly_spaced
from sfumato.quality.paired_columns import PairedColumn

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


def nearest_rows(columns: Sequence[PairedColumn]) -> NearestRows | None:
    """Find the nearest real row of evenly spaced rows of both tables; None where there is only one real row."""
    real_count, synthetic_count = (len(columns[0].codes[table]) for table in (0, 1))
    if real_count < 2:
        return None
    searched, queried = evenly_spaced(real_count, MAX_SEARCHED_ROWS), evenly_spaced(synthetic_count, MAX_QUERIED_ROWS)
    own_positions = evenly_spaced(len(searched), MAX_QUERIED_ROWS)
    synthetic = _nearest_distances(columns, (1, queried), searched, None)
    real = _nearest_distances(columns, (0, searched[own_positions]), searched, own_positions)
    quantiles = [tuple(float(each) for each in np.quantile(distances, _SHARES)) for distances in (synthetic, real)]
    return NearestRows(_SHARES, quantiles[0], quantiles[1], *_copied_shares(columns), len(queried), len(searched))


def _copied_shares(columns: Sequence[PairedColumn]) -> tuple[float, float]:
    """Return the share of synthetic rows that equal a real row, and of real rows that equal another."""
    real, synthetic = (_hash_rows(columns, table) for table in (0, 1))
    real_hashes, hash_index, counts = np.unique(real, return_inverse=True, return_counts=True)
    return float(np.isin(synthetic, real_hashes).mean()), float((counts[hash_index] > 1).mean())


def _hash_rows(columns: Sequence[PairedColumn], table: int) -> NDArray[np.uint64]:
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
    columns: Sequence[PairedColumn],
    queried: tuple[int, NDArray[np.int64]],
    searched: NDArray[np.int64],
    own_positions: NDArray[np.int64] | None,
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
        if own_positions is not None:
            distances[np.arange(len(block)), own_positions[start : start + step]] = np.inf
        least[start : start + step] = distances.min(axis=1)
    return least / np.float32(len(columns))


def _column_distance(
    column: PairedColumn, table: int, rows: NDArray[np.int64], searched: NDArray[np.int64]
) -> Distances:
    """Return the distance of a column's value in each row from that in each searched row: from 0 to 1."""
    if column.numbers is None:
        return (column.codes[table][rows][:, None] != column.codes[0][searched]).astype(np.float32)
    row_values, searched_values = _scale_numbers(column, table, rows)[:, None], _scale_numbers(column, 0, searched)
    distance = np.minimum(np.abs(row_values - searched_values), 1)
    if np.isnan(row_values).any() or np.isnan(searched_values).any():
        distance = np.where(np.isnan(distance), np.isnan(row_values) != np.isnan(searched_values), distance)
    return distance.astype(np.float32)


def _scale_numbers(column: PairedColumn, table: int, rows: NDArray[np.int64]) -> Distances:
    """Scale numbers so that the real ones span [0, 1]; if those are constant, any other number is at distance 1."""
    assert column.numbers is not None
    present = column.numbers[0][~np.isnan(column.numbers[0])]
    low, high = (present.min(), present.max()) if len(present) else (0.0, 0.0)
    numbers = column.numbers[table][rows]
    scaled = (
        (numbers / (high - low) - low / (high - low)) if high > low else np.where(numbers == low, 0, numbers * np.inf)
    )
    return np.where(np.isnan(numbers), np.nan, scaled).astype(np.float32)
