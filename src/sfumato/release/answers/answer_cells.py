"""The cells of an answer's columns: rounded, with None for what is missing, and their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plots.scales import Interval
from sfumato.policy import Type
from sfumato.release.noisy_rows.noisy_columns import Evaluated, ExactColumn, NumberColumn, TruthColumn


def cell_values(column: Evaluated, shown_rows: NDArray[np.intp], column_type: Type) -> list[Any]:
    """Return the values of the shown rows, as the column's type has them."""
    if isinstance(column, ExactColumn):
        values = column.value[shown_rows].tolist()
        return [None if value is None else float(value) for value in values] if column_type is Type.REAL else values
    if isinstance(column, TruthColumn):
        return [
            bool(is_true) if is_known else None
            for is_true, is_known in zip(column.true[shown_rows], column.known[shown_rows], strict=True)
        ]
    numbers = column.value[shown_rows]
    is_null = np.isnan(numbers)
    values = (
        [round(value) for value in numbers[~is_null].tolist()]
        if column_type is Type.INTEGER
        else numbers[~is_null].tolist()
    )
    return _with_nulls(values, is_null)


def interval_list(column: NumberColumn, shown_rows: NDArray[np.intp]) -> tuple[Interval, ...]:
    """Return the intervals of the shown rows; None where there is no number."""
    is_null = np.isnan(column.value[shown_rows])
    low, high = (bound[shown_rows][~is_null] for bound in (column.low, column.high))
    ends = zip(
        np.where(np.isnan(low), -np.inf, low).tolist(),  # an end that cannot be computed is as far as can be
        np.where(np.isnan(high), np.inf, high).tolist(),
        strict=True,
    )
    return tuple(_with_nulls(list(ends), is_null))


def _with_nulls(values: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Insert None where a value is missing."""
    if not missing.any():
        return values
    remaining = iter(values)
    return [None if is_missing else next(remaining) for is_missing in missing]
