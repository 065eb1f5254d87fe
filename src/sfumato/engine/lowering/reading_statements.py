"""Every kind of reading has one statement of the relational form, and one way in which its rows become arrays.

An engine on a server sends no row of a table: where DuckDB, in this process, hands over rows to be counted, a server
counts them by what they are and sends the counts.

These statements are about values: how many rows have each, how many there are, and which public ones there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sfumato.engine import arrays
from sfumato.engine.arrays import FEW, few_in_arrays
from sfumato.engine.lowering import total_lowering
from sfumato.engine.lowering.relation_lowering import same, staged
from sfumato.engine.lowering.relational import (
    AggregateFunction,
    Constant,
    GroupTotal,
    IntegerSpan,
    Reference,
    Relation,
    RelationalJoin,
    ScalarFunction,
    Select,
    StagedSelect,
    ValueList,
    Wide,
    apply,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.unit_lowering import wide
from sfumato.plan import keys as group_keys
from sfumato.plan.keys import World
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts
from sfumato.plan.readings.total_readings import FoundTotals, GroupTotals, PlanReading
from sfumato.plan.readings.value_readings import DifferentValues, ValueTable
from sfumato.policy import Type

if TYPE_CHECKING:
    import pyarrow


def value_table(reading: ValueTable, key: int) -> StagedSelect:
    """Count for every group and value, of any type, how many of the rows that count have it."""
    return total_lowering.by_value(reading.bounded, reading.value, key)


def different(reading: DifferentValues, key: int) -> StagedSelect:
    """Count the different values of every group that some unit has; a unit has each pair of them once."""
    totals = total_lowering.by_value(reading.bounded, reading.value, key, once=True)
    groups = tuple(f"k{index}" for index in range(len(reading.bounded.plan.keys)))
    held = apply(ScalarFunction.GREATER, Reference("v0"), Constant(0, Wide.INTEGER))
    count = ("v0", wide(GroupTotal(AggregateFunction.COUNT)))
    return StagedSelect(totals.stages, Select((*same(groups), count), totals.result, where=(held,), grouped=groups))


def distinct(world: World) -> StagedSelect:
    """List the different results of expressions on every combination of public values: no table is read.

    The values of each list of choices are a parameter of the statement, in their order.
    """
    parts = _choices(world)
    source = Select(
        tuple((f"c{index}", Reference("x", f"d{index}")) for index in range(len(parts))),
        parts[0],
        part="d0",
        joins=tuple(RelationalJoin(each, f"d{index}") for index, each in enumerate(parts[1:], 1)),
    )
    lowering = RowLowering({field: Reference(f"c{index}") for index, (field, _, _) in enumerate(world.choices)})
    made = tuple((f"k{index}", lowering.lower(each)) for index, each in enumerate(world.expressions))
    tests = tuple(lowering.lower(each) for each in world.conditions)
    keys = tuple(name for name, _ in made)
    evaluated = Select(made, staged(source, lowering), where=tests)
    return StagedSelect((), Select(same(keys), evaluated, grouped=keys))


def _choices(world: World) -> list[Relation]:
    found: list[Relation] = []
    lists = 0
    for _, domain, choices in world.choices:
        if isinstance(choices, group_keys.KeySpan):
            found.append(IntegerSpan(Constant(choices.first, domain.type), choices.count))
        else:
            lists += 1
            found.append(ValueList(lists, domain.type))
    return found


_STATEMENTS: dict[type, Callable[[Any, int], StagedSelect]] = {
    GroupTotals: lambda reading, key: total_lowering.statement(reading.bounded, key),
    FoundTotals: total_lowering.found,
    Marginals: total_lowering.marginals,
    CellRows: total_lowering.marginals,
    ValueCounts: total_lowering.values,
    DifferentValues: different,
    ValueTable: value_table,
}


def statement(reading: PlanReading[Any], key: int) -> StagedSelect:
    """Make the statement that reads; ``key`` decides what a sample keeps."""
    return _STATEMENTS[type(reading)](reading, key)


def counted_statement(reading: PlanReading[Any], key: int) -> StagedSelect:
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


def _counted(values: StagedSelect) -> StagedSelect:
    names = tuple(name for name, _ in values.result.columns)
    count = ("n", GroupTotal(AggregateFunction.COUNT))
    return replace(values, result=Select((*same(names), count), values.result, grouped=names))


def in_arrays(rows: Iterable[tuple[Any, ...]], reading: PlanReading[Any]) -> object:
    """Put the rows of a counted statement, tuples of Python's own values, into what the reading gives."""
    if isinstance(reading, FEW):
        return few_in_arrays(list(rows), reading)
    kinds = [each.domain.type for each in reading.bounded.plan.keys]
    if isinstance(reading, FoundTotals):
        totals = sum(each.coordinates for each in reading.bounded.measures)
        return arrays.in_arrays(_table(rows, kinds, totals), reading)
    if isinstance(reading, ValueCounts):
        return arrays.counted_values(_batches(rows, kinds, 2, arrays.BATCH), reading)
    fill = arrays.marginals if isinstance(reading, Marginals) else arrays.cell_rows
    return fill(_batches(rows, kinds, 1, arrays.KEYED_BATCH), reading)  # type: ignore[arg-type]


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
