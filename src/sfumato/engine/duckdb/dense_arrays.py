"""Rows of statements become dense arrays: marginals, and the values of each group in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engine.duckdb.found_keys import in_one_piece, places_among
from sfumato.plan.dense_readings import Marginals, ValueCounts, Values
from sfumato.plan.readings import Integers

if TYPE_CHECKING:
    import pyarrow


def marginals(table: pyarrow.Table, reading: Marginals) -> tuple[Integers, ...]:
    """Put every marginal into an array, from rows (key…, total)."""
    keys, (totals,) = _parted(table, len(reading.cells))
    kinds = [each.domain.type for each in reading.bounded.plan.keys]
    codes = np.zeros((table.num_rows, len(keys)), np.intp)
    for place, (column, cells) in enumerate(zip(keys, reading.cells, strict=True)):
        found = places_among([column], [kinds[place]], [(cell,) for cell in cells], table.num_rows)
        codes[:, place] = np.where(found < 0, len(cells), found)  # what is missing or not listed has the last cell
    return reading.counted(codes, totals)


def values(table: pyarrow.Table, reading: ValueCounts) -> Values:
    """Put the values of every known group in order, from rows (key…, value, count)."""
    plan = reading.bounded.plan
    keys, (steps, counts) = _parted(table, len(plan.keys))
    group = places_among(keys, [each.domain.type for each in plan.keys], reading.groups, table.num_rows)
    known = np.flatnonzero((group >= 0) & (counts > 0))
    order = known[np.lexsort((steps[known], group[known]))]
    return Values(group[order], steps[order], counts[order])


def _parted(table: pyarrow.Table, keys: int) -> tuple[list[Any], Sequence[Integers]]:
    """Split off the columns of the keys, and give the rest as whole numbers."""
    columns = [in_one_piece(table.column(index)) for index in range(table.num_columns)]
    return columns[:keys], [each.to_numpy() for each in columns[keys:]]
