"""Synthetic rows have a distance to the nearest real one, which is shown beside that of real rows to each other.

The distance is Gower's (1971): the mean over columns of |x − y|/range for numbers, and of 0 or 1 for all else. Small
distances may point at copied rows; large ones prove nothing. Whether rows were protected is decided by how the table
was made, never by how far it lies from the data: these figures are no evidence of privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.learning import evenly
from sfumato.quality.paired_columns import PairedColumn

CAVEAT = "a distance is no evidence of privacy: only how a table was made can protect anybody"
ASKED, AMONG = 300, 20_000
"""Rows whose nearest is looked for, and rows among which it is."""
_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BLOCK = 1 << 22
_ODD, _NOWHERE = np.uint64(0x9E3779B97F4A7C15), -1.2345678901234567e300
"""A factor that mixes all bits, and a number that stands for what is missing."""

Distances = NDArray[np.float32]


@dataclass(frozen=True)
class NearestRows:
    """This says how far rows are from the nearest real row: quantiles of the distance, from 0 to 1."""

    shares: tuple[float, ...]
    synthetic: tuple[float, ...]
    """For each share of synthetic rows, the distance that so many do not exceed,"""
    real: tuple[float, ...]
    """and the same of real rows, to the nearest other one."""
    copies: float
    """The share of all synthetic rows that are equal to a real one in every column, rare texts taken as one,"""
    real_copies: float
    """and of all real rows that are equal to another."""
    rows: int
    """How many rows of each table the distances are of,"""
    among: int
    """and among how many real rows the nearest was looked for."""


def nearest_rows(columns: Sequence[PairedColumn]) -> NearestRows | None:
    """Look for the nearest real row of some rows of both tables; None where there is one real row alone."""
    count, others = (len(columns[0].codes[table]) for table in (0, 1))
    if count < 2:
        return None
    among, asked = evenly(count, AMONG), evenly(others, ASKED)
    places = evenly(len(among), ASKED)
    synthetic = _nearest(columns, (1, asked), among, None)
    real = _nearest(columns, (0, among[places]), among, places)
    found = [tuple(float(each) for each in np.quantile(own, _SHARES)) for own in (synthetic, real)]
    return NearestRows(_SHARES, found[0], found[1], *_copies(columns), len(asked), len(among))


def _copies(columns: Sequence[PairedColumn]) -> tuple[float, float]:
    """Give the share of synthetic rows that a real one is equal to, and of real rows that another is equal to."""
    real, synthetic = (_hashes(columns, table) for table in (0, 1))
    seen, place, counts = np.unique(real, return_inverse=True, return_counts=True)
    return float(np.isin(synthetic, seen).mean()), float((counts[place] > 1).mean())


def _hashes(columns: Sequence[PairedColumn], table: int) -> NDArray[np.uint64]:
    """Give every row a number of 64 bits, equal for equal rows and all but surely different for others."""
    found = np.zeros(len(columns[0].codes[table]), np.uint64)
    for each in columns:
        own = each.codes[table] if each.numbers is None else np.nan_to_num(each.numbers[table] + 0.0, nan=_NOWHERE)
        found = (found ^ own.view(np.uint64)) * _ODD
        found ^= found >> np.uint64(29)
    return found


def _nearest(
    columns: Sequence[PairedColumn],
    asked: tuple[int, NDArray[np.int64]],
    among: NDArray[np.int64],
    own: NDArray[np.int64] | None,
) -> Distances:
    """Find for each row the least distance to a real row; to another one, where ``own`` says which of them it is."""
    table, rows = asked
    found = np.empty(len(rows), np.float32)
    step = max(1, _BLOCK // len(among))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        far = np.zeros((len(part), len(among)), np.float32)
        for each in columns:
            far += _gap(each, table, part, among)
        if own is not None:
            far[np.arange(len(part)), own[start : start + step]] = np.inf
        found[start : start + step] = far.min(axis=1)
    return found / np.float32(len(columns))


def _gap(column: PairedColumn, table: int, rows: NDArray[np.int64], among: NDArray[np.int64]) -> Distances:
    """Give how far a column's value in each of the rows is from that in each real row: from 0 to 1."""
    if column.numbers is None:
        return (column.codes[table][rows][:, None] != column.codes[0][among]).astype(np.float32)
    one, other = _scaled(column, table, rows)[:, None], _scaled(column, 0, among)
    gap = np.minimum(np.abs(one - other), 1)
    if np.isnan(one).any() or np.isnan(other).any():
        gap = np.where(np.isnan(gap), np.isnan(one) != np.isnan(other), gap)
    return gap.astype(np.float32)


def _scaled(column: PairedColumn, table: int, rows: NDArray[np.int64]) -> Distances:
    """Give numbers in units of the range that the real ones span, from the least on; where they do not differ, any
    other number is one such unit away.
    """
    assert column.numbers is not None
    known = column.numbers[0][~np.isnan(column.numbers[0])]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    numbers = column.numbers[table][rows]
    scaled = (
        (numbers / (high - low) - low / (high - low)) if high > low else np.where(numbers == low, 0, numbers * np.inf)
    )
    return np.where(np.isnan(numbers), np.nan, scaled).astype(np.float32)
