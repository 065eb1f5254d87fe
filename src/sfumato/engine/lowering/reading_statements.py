"""Every kind of reading has one statement of the relational form, and one way in which its rows become arrays.

An engine on a server sends no row of a table: where DuckDB, in this process, hands over rows to be counted, a server
counts them by what they are and sends the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sfumato.engine.arrays import dense_arrays, found_keys
from sfumato.engine.arrays.totals_arrays import FEW, few_in_arrays
from sfumato.engine.lowering import total_lowering, value_lowering
from sfumato.engine.lowering.relation_lowering import same
from sfumato.engine.lowering.relational import Aggregation, Select, Statement, Total
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts
from sfumato.plan.readings.total_readings import FoundTotals, GroupTotals, Reading
from sfumato.plan.readings.value_readings import DifferentValues, ValueTable
from sfumato.policy import Type

if TYPE_CHECKING:
    import pyarrow

_STATEMENTS: dict[type, Callable[[Any, int], Statement]] = {
    GroupTotals: lambda reading, key: total_lowering.statement(reading.bounded, key),
    FoundTotals: total_lowering.found,
    Marginals: total_lowering.marginals,
    CellRows: total_lowering.marginals,
    ValueCounts: total_lowering.values,
    DifferentValues: value_lowering.different,
    ValueTable: value_lowering.value_table,
}


def statement(reading: Reading[Any], key: int) -> Statement:
    """Make the statement that reads; ``key`` decides what a sample keeps."""
    return _STATEMENTS[type(reading)](reading, key)


def counted_statement(reading: Reading[Any], key: int) -> Statement:
    """Make the statement that reads, with equal rows counted on the server: no row of a table leaves it.

    A value's row is (key…, value, how many rows have it), a cell's (key…, total). A server keeps what a statement reads
    twice on its disks, or makes it twice: there people are counted without keeping their pairs.
    """
    if isinstance(reading, GroupTotals):
        return total_lowering.statement(reading.bounded, key, by_pair=False)
    if isinstance(reading, ValueCounts):
        return _counted(total_lowering.values(reading, key))
    if isinstance(reading, Marginals | CellRows):
        return total_lowering.marginals(reading, key, by_row=False)
    return statement(reading, key)


def _counted(values: Statement) -> Statement:
    names = tuple(name for name, _ in values.result.columns)
    count = ("n", Total(Aggregation.COUNT))
    return replace(values, result=Select((*same(names), count), values.result, grouped=names))


def in_arrays(rows: Iterable[tuple[Any, ...]], reading: Reading[Any]) -> object:
    """Put the rows of a counted statement, tuples of Python's own values, into what the reading gives."""
    if isinstance(reading, FEW):
        return few_in_arrays(list(rows), reading)
    kinds = [each.domain.type for each in reading.bounded.plan.keys]
    if isinstance(reading, FoundTotals):
        totals = sum(each.coordinates for each in reading.bounded.measures)
        return found_keys.in_arrays(_table(rows, kinds, totals), reading)
    if isinstance(reading, ValueCounts):
        return dense_arrays.counted_values(_batches(rows, kinds, 2, dense_arrays.BATCH), reading)
    arrays = dense_arrays.marginals if isinstance(reading, Marginals) else dense_arrays.cell_rows
    return arrays(_batches(rows, kinds, 1, dense_arrays.KEYED_BATCH), reading)  # type: ignore[arg-type]


_SMALL = 1 << 16
"""How many rows of tuples become arrays at a time."""


def _batches(rows: Iterable[tuple[Any, ...]], kinds: list[Type], totals: int, size: int) -> Iterator[Any]:
    """Give rows (key…, total…) as record batches, the totals as 64-bit integers."""
    import pyarrow

    fields = _fields(kinds, totals)
    rest = iter(rows)
    while some := list(islice(rest, min(size, _SMALL))):
        columns = zip(*some, strict=True)
        arrays = [pyarrow.array(column, kind) for column, (_, kind) in zip(columns, fields, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def _table(rows: Iterable[tuple[Any, ...]], kinds: list[Type], totals: int) -> pyarrow.Table:
    import pyarrow

    return pyarrow.Table.from_batches(
        list(_batches(rows, kinds, totals, _SMALL)), pyarrow.schema(_fields(kinds, totals))
    )


def _fields(kinds: list[Type], totals: int) -> list[tuple[str, Any]]:
    import pyarrow

    keys = [(f"k{place}", _stored(kind)) for place, kind in enumerate(kinds)]
    return keys + [(f"v{place}", pyarrow.int64()) for place in range(totals)]


def _stored(kind: Type) -> Any:
    import pyarrow

    stored = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return stored[kind]


def as_arrow(rows: Sequence[tuple[Any, ...]], kinds: Sequence[Type], names: Sequence[str]) -> pyarrow.Table:
    """Put rows of Python's own values into an Arrow table with columns of these types."""
    import pyarrow

    columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    arrays = [pyarrow.array(column, _stored(kind)) for column, kind in zip(columns, kinds, strict=True)]
    return pyarrow.Table.from_arrays(arrays, list(names))
