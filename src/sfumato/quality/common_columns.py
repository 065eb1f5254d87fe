"""Columns of two tables as numbers and cells, by values and quantiles of the real table. PRIVATE.

A column of few values has a cell for each; numbers and times of many values are binned at quantiles of the real table;
of many texts the most frequent have their own cells, and the others share one. Values that only the synthetic table
has, and NULLs, have cells of their own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.engine.inspecting import PairedTables
from sfumato.policy import Type
from sfumato.privacy.numbers import format_number
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int64]

MAX_TEXTS = 100
"""The most texts of a column with cells of their own."""
MISSING, UNKNOWN, OTHERS = "missing", "not in the real table", "other values"


@dataclass(frozen=True, eq=False)
class CommonColumn:
    """A column of both tables: the cell of each row, and for numbers and times the number itself."""

    name: str
    kind: Type
    labels: tuple[str, ...]
    """Labels of the cells, in order."""
    codes: tuple[Codes, Codes]
    """Cell codes of the rows of the real table, and of the synthetic one."""
    numbers: tuple[Floats, Floats] | None = None
    """NaN for NULL; None for texts and Booleans."""

    @property
    def size(self) -> int:
        return len(self.labels)

    def counts(self, table: int) -> Codes:
        """Count the rows of each cell in the real table (0) or the synthetic one (1)."""
        return np.bincount(self.codes[table], minlength=self.size)


def common_columns(tables: PairedTables, bins: int) -> tuple[CommonColumn, ...]:
    """Return the numbers and cells of every column that both tables have."""
    columns = []
    for index, (name, kind) in enumerate(tables.kinds.items()):
        real, synthetic = (table.column(index) for table in tables.tables)
        if kind in (Type.TEXT, Type.BOOLEAN):
            columns.append(_common_text_column(name, kind, real, synthetic))
        else:
            columns.append(
                _common_number_column(name, kind, (_as_doubles(real, kind), _as_doubles(synthetic, kind)), bins)
            )
    return tuple(columns)


def _as_doubles(column: pyarrow.ChunkedArray, sql_type: Type) -> Floats:
    """Convert to doubles: dates as days and times as microseconds since 1970; NaN for NULL."""
    import pyarrow as pa

    storage_type = {Type.DATE: pa.int32(), Type.TIMESTAMP: pa.int64()}.get(sql_type)
    if sql_type is Type.TIMESTAMP:
        column = column.cast(pa.timestamp("us"))
    numeric = column if storage_type is None else column.cast(storage_type)
    numbers: Floats = numeric.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _common_number_column(name: str, sql_type: Type, numbers: tuple[Floats, Floats], bins: int) -> CommonColumn:
    present = numbers[0][~np.isnan(numbers[0])]
    distinct = np.unique(present)
    if len(distinct) <= bins:
        labels = [_format_value(value, sql_type) for value in distinct]
        codes = [_index_in(values, distinct) for values in numbers]
    else:
        edges, frequent = quantile_bins(present, bins)
        labels = [
            _cell_label(low, high, frequent, sql_type) for low, high in pairwise([-np.inf, *edges.tolist(), np.inf])
        ]
        codes = [np.searchsorted(edges, values, side="right") for values in numbers]
    missing = [np.isnan(values) for values in numbers]
    return _with_special_cells(name, sql_type, labels, codes, missing, numbers)


def quantile_bins(numbers: Floats, bins: int) -> tuple[Floats, Floats]:
    """Return the edges of about ``bins`` cells, and the frequent values that have a cell of their own.

    A value is frequent if it alone has as many rows as a cell would have. The others are binned at their quantiles.

    >>> edges, frequent = quantile_bins(np.array([0.0] * 80 + list(range(1, 21))), 3)
    >>> edges.round(9).tolist(), frequent.tolist()
    ([0.0, 0.0, 10.0], [0.0])
    """
    values, counts = np.unique(numbers, return_counts=True)
    frequent = values[counts * bins >= len(numbers)]
    others = numbers[~np.isin(numbers, frequent)]
    probabilities = np.linspace(0, 1, max(2, bins - len(frequent)) + 1)[1:-1]
    quantiles = np.quantile(others, probabilities, method="inverted_cdf") if len(others) else np.zeros(0)
    return np.unique(np.concatenate([frequent, np.nextafter(frequent, np.inf), quantiles])), frequent


def _cell_label(low: float, high: float, frequent: Floats, sql_type: Type) -> str:
    """Label the cell of values from one edge to below the next."""
    if low in frequent:
        return _format_value(low, sql_type)
    value_below = float(np.nextafter(low, -np.inf))
    start = (
        f"above {_format_value(value_below, sql_type)}"
        if value_below in frequent
        else f"from {_format_value(low, sql_type)}"
    )
    parts = [start] * bool(np.isfinite(low)) + [f"below {_format_value(high, sql_type)}"] * bool(np.isfinite(high))
    return " to ".join(parts)


def _index_in(numbers: Floats, distinct: Floats) -> Codes:
    """Return the index of each number in ``distinct``, or ``len(distinct)`` if it is not there."""
    if not len(distinct):
        return np.zeros(len(numbers), np.int64)
    index = np.minimum(np.searchsorted(distinct, numbers), len(distinct) - 1)
    return np.where(distinct[index] == numbers, index, len(distinct))


def _common_text_column(
    name: str, sql_type: Type, real: pyarrow.ChunkedArray, synthetic: pyarrow.ChunkedArray
) -> CommonColumn:
    import pyarrow as pa

    both = pa.chunked_array([*real.chunks, *synthetic.chunks], real.type).combine_chunks().dictionary_encode()
    texts = np.array([str(value) for value in both.dictionary.to_pylist()], object)
    text_index = both.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    real_index, synthetic_index = text_index[: len(real)], text_index[len(real) :]
    counts = np.bincount(real_index, minlength=len(texts) + 1)[: len(texts)]
    in_real = np.flatnonzero(counts)
    frequent = in_real[np.argsort(-counts[in_real], kind="stable")[:MAX_TEXTS]] if len(in_real) > MAX_TEXTS else in_real
    frequent = frequent[np.argsort(texts[frequent].astype(str))]
    code_of_text = np.full(
        len(texts) + 1, len(frequent) + (len(in_real) > len(frequent)), np.int64
    )  # the cell of texts that only the synthetic table has
    code_of_text[in_real] = len(frequent)
    code_of_text[frequent] = np.arange(len(frequent))
    labels = [escape_unprintable(text) for text in texts[frequent]] + [OTHERS] * (len(in_real) > len(frequent))
    missing = [rows == len(texts) for rows in (real_index, synthetic_index)]
    return _with_special_cells(
        name, sql_type, labels, [code_of_text[real_index], code_of_text[synthetic_index]], missing, None
    )


def _with_special_cells(
    name: str, sql_type: Type, labels: list[str], codes_by_table: list[Any], missing: list[Any], numbers: Any
) -> CommonColumn:
    """Add cells for values that are not in the real table and for NULLs, where there are such rows."""
    unknown_code = len(labels)
    if any(
        ((table_codes == unknown_code) & ~is_null).any()
        for table_codes, is_null in zip(codes_by_table, missing, strict=True)
    ):
        labels = [*labels, UNKNOWN]
    if any(is_null.any() for is_null in missing):
        codes_by_table = [
            np.where(is_null, len(labels), table_codes)
            for table_codes, is_null in zip(codes_by_table, missing, strict=True)
        ]
        labels = [*labels, MISSING]
    codes = tuple(np.asarray(table_codes, np.int64) for table_codes in codes_by_table)
    return CommonColumn(escape_unprintable(name), sql_type, tuple(labels), (codes[0], codes[1]), numbers)


def _format_value(number: float, sql_type: Type) -> str:
    if not np.isfinite(number):
        return ""
    if sql_type is Type.DATE:
        return str(np.datetime64(int(number), "D"))
    if sql_type is Type.TIMESTAMP:
        return str(np.datetime64(int(number), "us").astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else format_number(number)
