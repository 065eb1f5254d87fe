"""The statement of the relational form for each kind of reading, and the conversion of its rows to arrays.

An engine on a server sends no row of a table: where DuckDB, in this process, hands over rows to be counted, a server
groups equal rows and sends their counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sfumato.engine import arrays
from sfumato.engine.arrays import ROW_READINGS, totals_from_rows
from sfumato.engine.lowering import bounded_totals
from sfumato.engine.lowering.relation_lowering import unrenamed_columns, with_shared_columns
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    CleanTable,
    Constant,
    GroupTotal,
    IntegerSpan,
    Reference,
    Relation,
    RelationalJoin,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    StageReference,
    ValueList,
    Wide,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.sample_ranks import number_heavy_units
from sfumato.engine.lowering.unit_lowering import to_wide_integer
from sfumato.errors import Unsupported
from sfumato.plan import keys as group_keys
from sfumato.plan.keys import ValueCombinations, conditions_met_by_rows, undeclared_key_indices
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import (
    MAX_CELLS,
    DistinctValueReading,
    Marginals,
    MatchedValueReading,
    ValueCounts,
    ValueTable,
)
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals, PlanReading
from sfumato.plan.values.expressions import Expression, columns
from sfumato.policy import Type, Value

if TYPE_CHECKING:
    import pyarrow


def row_counts_by_value_statement(reading: ValueTable, sampling_key: int) -> StagedSelect:
    """Count, for every group and value of any type, the bounded rows that have that value."""
    return bounded_totals.totals_by_value_statement(reading.bounded, reading.value, sampling_key)


def distinct_values_statement(reading: DistinctValueReading, sampling_key: int) -> StagedSelect:
    """Count the distinct values of every group that some unit has; a unit has each pair of group and value once."""
    totals = bounded_totals.totals_by_value_statement(reading.bounded, reading.value, sampling_key, once=True)
    groups = tuple(f"k{index}" for index in range(len(reading.bounded.plan.keys)))
    is_held = apply(ScalarFunction.GREATER, Reference("v0"), Constant(0, Wide.INTEGER))
    count = ("v0", to_wide_integer(GroupTotal(AggregateFunction.COUNT)))
    return StagedSelect(
        totals.stages, Select((*unrenamed_columns(groups), count), totals.result, where=(is_held,), group_by=groups)
    )


def distinct_results_statement(world: ValueCombinations) -> StagedSelect:
    """List the distinct results of expressions over every combination of public values: no table is read.

    The values of each list of choices are a parameter of the statement, in their order.
    """
    choice_relations = _choice_relations(world)
    source = Select(
        tuple((f"c{index}", Reference("x", f"d{index}")) for index in range(len(choice_relations))),
        choice_relations[0],
        alias="d0",
        joins=tuple(RelationalJoin(relation, f"d{index}") for index, relation in enumerate(choice_relations[1:], 1)),
    )
    lowering = RowLowering({field: Reference(f"c{index}") for index, (field, _, _) in enumerate(world.choices)})
    key_columns = tuple((f"k{index}", lowering.lower(expression)) for index, expression in enumerate(world.expressions))
    tests = tuple(lowering.lower(condition) for condition in world.conditions)
    keys = tuple(name for name, _ in key_columns)
    evaluated = Select(key_columns, with_shared_columns(source, lowering), where=tests)
    return StagedSelect((), Select(unrenamed_columns(keys), evaluated, group_by=keys))


def _choice_relations(world: ValueCombinations) -> list[Relation]:
    relations: list[Relation] = []
    list_count = 0
    for _, domain, choices in world.choices:
        if isinstance(choices, group_keys.KeySpan):
            relations.append(IntegerSpan(Constant(choices.first, domain.type), choices.count))
        else:
            list_count += 1
            relations.append(ValueList(list_count, domain.type))
    return relations


_STATEMENTS: dict[type, Callable[[Any, int], StagedSelect]] = {
    GroupTotals: lambda reading, key: bounded_totals.group_totals_statement(reading.bounded, key),
    DiscoveredTotals: bounded_totals.discovered_totals_statement,
    Marginals: bounded_totals.cell_totals_statement,
    CellRows: bounded_totals.cell_totals_statement,
    ValueCounts: bounded_totals.one_row_per_value_statement,
    DistinctValueReading: distinct_values_statement,
    ValueTable: row_counts_by_value_statement,
}


def reading_statement(reading: PlanReading[Any], sampling_key: int) -> StagedSelect:
    """Lower a reading to its statement; ``sampling_key`` seeds the sample."""
    return _STATEMENTS[type(reading)](reading, sampling_key)


def local_statement(reading: PlanReading[Any], sampling_key: int) -> StagedSelect:
    """Lower a reading where rows stay in this process: only there, pairs of a unit and a value may be matched, and
    units numbered.
    """
    if isinstance(reading, MatchedValueReading):
        return bounded_totals.matched_pairs_statement(reading, sampling_key)
    if isinstance(reading, GroupTotals):
        choices = bounded_totals.LoweringChoices(by_pair=True, by_threshold=True)
        return number_heavy_units(bounded_totals.group_totals_statement(reading.bounded, sampling_key, choices))
    return number_heavy_units(reading_statement(reading, sampling_key))


MAX_SENT_ROWS = 1 << 22
"""The most rows of one statement that a client or a driver is asked to hold."""


def require_few_rows(reading: PlanReading[Any]) -> None:
    """Refuse a reading of which more could leave a server than a client or a driver holds, from the plan alone."""
    if isinstance(reading, CellRows) and reading.cell_count > MAX_CELLS:
        rule = f"a server can add up at most {MAX_CELLS:,} cells for one model or score"
        count = f"the marginals of these columns have {reading.cell_count:,}"
        fix = "name fewer columns, sets of fewer columns, or coarser bins"
        raise Unsupported("too-many-cells", f"{rule}; {count}", fix=fix)
    cell_count = max(map(_max_sent_rows, server_readings(reading)))
    if cell_count > MAX_SENT_ROWS:
        rule = f"a server can send at most {MAX_SENT_ROWS:,} numbers at once"
        count = f"this question needs up to {cell_count:,}"
        raise Unsupported("too-many-cells", f"{rule}; {count}", fix="name fewer columns, or use fewer groups")


def _max_sent_rows(reading: PlanReading[Any]) -> int:
    """Return the most rows that a statement sends, where that is known before; 0 for discovered keys.

    They are as many as the rows that count allow. A server could not send fewer of them safely: whether a row is among
    the first so many depends on the rows of others, and to leave out keys of few holders takes a threshold of its own,
    whose failure δ is that of one more holder.
    """
    if isinstance(reading, Marginals | ValueCounts):
        return reading.cell_count
    if isinstance(reading, GroupTotals | DistinctValueReading):
        return len(reading.groups)
    return len(reading.groups) * len(reading.values) if isinstance(reading, ValueTable) else 0


def server_readings(reading: PlanReading[Any]) -> tuple[PlanReading[Any], ...]:
    """Return the readings that a server answers with one statement each; cells are added up in blocks of marginals."""
    return reading.blocks if isinstance(reading, CellRows) else (reading,)


def join_server_results(reading: PlanReading[Any], results: Sequence[object]) -> object:
    """Combine what a server returned for each of ``server_readings``."""
    return reading.marginals_by_set(results) if isinstance(reading, CellRows) else results[0]  # type: ignore[arg-type]


def server_statement(reading: PlanReading[Any], sampling_key: int) -> StagedSelect:
    """Lower one of ``server_readings`` to its statement, with equal rows counted on the server.

    A row of values is (key…, value, number of rows), a row of cells (key…, total). What leaves the server is at most
    one row per group, per cell of a marginal, or per group and step of a value, whatever rows there are; where keys
    are discovered, one per combination of keys that some row has. A server writes what a statement reads twice to its
    disks, or computes it twice: units are counted there without materialising pairs of unit and group.
    """
    if isinstance(reading, GroupTotals):
        return bounded_totals.group_totals_statement(reading.bounded, sampling_key, bounded_totals.NO_CHOICES)
    if isinstance(reading, ValueCounts):
        return _restrict_to_groups(
            reading, _count_equal_rows(bounded_totals.one_row_per_value_statement(reading, sampling_key))
        )
    if isinstance(reading, Marginals) and reading.counts_set_by_set:
        return marginals_by_set_statement(reading, sampling_key)
    if isinstance(reading, Marginals):
        return bounded_totals.cell_totals_statement(reading, sampling_key, counts_row_by_row=False)
    if isinstance(reading, DistinctValueReading | ValueTable):
        return _restrict_to_groups(reading, reading_statement(reading, sampling_key))
    return reading_statement(reading, sampling_key)


def marginals_by_set_statement(reading: Marginals, sampling_key: int) -> StagedSelect:
    """Add up every marginal by itself, as (key…, index of its set, total): one row per cell that some row is in.

    Keys outside a set are NULL. Combinations of all keys are repeated for every set and grouped again: one pass over
    the table, in operators that every dialect has.
    """
    combinations = bounded_totals.cell_totals_statement(reading, sampling_key, counts_row_by_row=False)
    set_index = Reference("x", "s")
    key_columns = tuple(
        (name, apply(ScalarFunction.CASE, apply(ScalarFunction.IN, set_index, *map(integer_constant, sets)), column))
        for (name, column), sets in zip(
            unrenamed_columns((name for name, _ in combinations.result.columns[:-1]), "r"),
            map(reading.marginal_indices_with, range(len(reading.cells))),
            strict=True,
        )
        if sets
    )
    repeated = Select(
        (*key_columns, ("m", set_index), *unrenamed_columns(("v0",), "r")),
        StageReference("joint"),
        joins=(RelationalJoin(IntegerSpan(integer_constant(0), len(reading.sets)), "s"),),
        where=(apply(ScalarFunction.NOT, apply(ScalarFunction.IS_NULL, set_index)),),  # the last of a span is NULL
    )
    grouped = (*(name for name, _ in key_columns), "m")
    total = bounded_totals.clamp_to_64_bits(GroupTotal(AggregateFunction.SUM_OF_NARROW, Reference("v0")))
    result = Select((*unrenamed_columns(grouped), ("v0", total)), repeated, group_by=grouped)
    return StagedSelect((*combinations.stages, ("joint", combinations.result)), result)


def _count_equal_rows(values: StagedSelect) -> StagedSelect:
    names = tuple(name for name, _ in values.result.columns)
    count = ("n", GroupTotal(AggregateFunction.COUNT))
    return replace(values, result=Select((*unrenamed_columns(names), count), values.result, group_by=names))


def _restrict_to_groups(reading: ValueCounts | DistinctValueReading | ValueTable, groups: StagedSelect) -> StagedSelect:
    """Keep the rows whose discovered keys are among those of the groups that are asked for, which were released."""
    plan, result = reading.bounded.plan, groups.result
    key_tests = [
        _is_null_or_one_of(
            Reference(f"k{index}"), plan.keys[index].domain.type, (group[index] for group in reading.groups)
        )
        for index in undeclared_key_indices(plan.keys, conditions_met_by_rows(plan.source))
    ]
    if not key_tests:
        return groups
    names = unrenamed_columns(name for name, _ in result.columns)
    return replace(groups, result=Select(names, result, where=tuple(key_tests)))


def _is_null_or_one_of(key: Scalar, sql_type: Type, values: Iterable[Value | None]) -> Scalar:
    """Test whether a key is one of these values, or NULL."""
    is_null = apply(ScalarFunction.IS_NULL, key)
    constants = [Constant(value, sql_type) for value in dict.fromkeys(values) if value is not None]
    return apply(ScalarFunction.OR, is_null, apply(ScalarFunction.IN, key, *constants)) if constants else is_null


def server_key_types(reading: PlanReading[Any]) -> list[Type]:
    """Return the types of the key columns of a counted statement: of marginals those of keys that some set names."""
    keys = reading.bounded.plan.keys
    if isinstance(reading, Marginals) and reading.counts_set_by_set:
        keys = tuple(key for index, key in enumerate(keys) if reading.marginal_indices_with(index))
    return [key.domain.type for key in keys]


def arrays_from_rows(rows: Iterable[tuple[Any, ...]], reading: PlanReading[Any]) -> object:
    """Convert the rows of a counted statement, tuples of Python values, to the arrays of the reading."""
    if isinstance(reading, ROW_READINGS):
        return totals_from_rows(list(rows), reading)
    kinds = server_key_types(reading)
    if isinstance(reading, DiscoveredTotals):
        totals = sum(measure.coordinates for measure in reading.bounded.measures)
        return arrays.discovered_groups_from_arrow(_arrow_table(rows, kinds, totals), reading)
    if isinstance(reading, ValueCounts):
        return arrays.values_from_counts(_record_batches(rows, kinds, 2, arrays.BATCH), reading)
    if isinstance(reading, Marginals) and reading.counts_set_by_set:
        return arrays.set_marginals_from_batches(
            _record_batches(rows, kinds, 2, arrays.keyed_batch_rows(reading)), reading
        )
    assert isinstance(reading, Marginals)
    return arrays.marginals_from_batches(_record_batches(rows, kinds, 1, arrays.keyed_batch_rows(reading)), reading)


_CHUNK_ROWS = 1 << 16
"""Rows of tuples that are converted at a time."""


def _record_batches(rows: Iterable[tuple[Any, ...]], kinds: list[Type], totals: int, size: int) -> Iterator[Any]:
    """Yield rows (key…, total…) as record batches, with totals as 64-bit integers."""
    import pyarrow

    fields = _arrow_fields(kinds, totals)
    remaining_rows = iter(rows)
    while chunk := list(islice(remaining_rows, min(size, _CHUNK_ROWS))):
        columns = zip(*chunk, strict=True)
        arrays = [pyarrow.array(column, arrow_type) for column, (_, arrow_type) in zip(columns, fields, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def _arrow_table(rows: Iterable[tuple[Any, ...]], kinds: list[Type], totals: int) -> pyarrow.Table:
    import pyarrow

    return pyarrow.Table.from_batches(
        list(_record_batches(rows, kinds, totals, _CHUNK_ROWS)), pyarrow.schema(_arrow_fields(kinds, totals))
    )


def _arrow_fields(kinds: list[Type], totals: int) -> list[tuple[str, Any]]:
    import pyarrow

    key_fields = [(f"k{index}", arrow_type(kind)) for index, kind in enumerate(kinds)]
    return key_fields + [(f"v{index}", pyarrow.int64()) for index in range(totals)]


def arrow_type(sql_type: Type) -> Any:
    """Return the Arrow type in which values of a type are held."""
    import pyarrow

    arrow_types = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return arrow_types[sql_type]


def as_arrow(rows: Sequence[tuple[Any, ...]], kinds: Sequence[Type], names: Sequence[str]) -> pyarrow.Table:
    """Build an Arrow table of these column types from rows of Python values."""
    import pyarrow

    columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    arrays = [pyarrow.array(column, arrow_type(kind)) for column, kind in zip(columns, kinds, strict=True)]
    return pyarrow.Table.from_arrays(arrays, list(names))


def public_values_statement(table: str, expression: Expression, condition: Expression | None) -> StagedSelect:
    """Read the value of an expression in each row of a public table that meets a condition."""
    read = (expression,) if condition is None else (expression, condition)
    fields = list(dict.fromkeys(reference for read_expression in read for reference in columns(read_expression)))
    lowering = RowLowering({reference: Reference(f"c{index}") for index, reference in enumerate(fields)})
    results = tuple((f"k{index}", lowering.lower(read_expression)) for index, read_expression in enumerate(read))
    cells = tuple((f"c{index}", Reference(str(field), "r")) for index, field in enumerate(fields))
    rows = Select(
        results, with_shared_columns(Select(cells or (("c", integer_constant(0)),), CleanTable(table)), lowering)
    )
    where = () if condition is None else (apply(ScalarFunction.IS_TRUE, Reference("k1", "r")),)
    return StagedSelect((), Select((("k0", Reference("k0", "r")),), rows, where=where))
