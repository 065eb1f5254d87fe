"""Convert rows of statements to arrays of exact totals, in the order of the groups, alike for every engine.

Marginals and the values of each group become dense arrays. Discovered keys stay in arrays: no key becomes a Python
value before it may be shown.

An engine returns rows as tuples of Python values: (key…, total…). Totals are whole numbers of any size, and a key that
is a real is a double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Indices, Integers
from sfumato.errors import EngineFailed
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.cell_rows import CellRows, CodedRows
from sfumato.plan.readings.dense_readings import (
    DistinctValueReading,
    Marginals,
    MatchedValueReading,
    ValueCounts,
    ValueStepCounts,
    ValueTable,
    match_values_to_units,
)
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals, GroupTotals, PlanReading
from sfumato.plan.values.intervals import nearest_double
from sfumato.policy import Type, Value
from sfumato.policy.domains import LARGEST_INTEGER

if TYPE_CHECKING:
    import pyarrow


def discovered_groups_from_arrow(table: pyarrow.Table, reading: DiscoveredTotals) -> DiscoveredGroups:
    """Convert the rows (key…, total…, holders) of a statement to arrays, with the index of each row's key."""
    plan = reading.bounded.plan
    columns = [combine_chunks(table.column(index)) for index in range(table.num_columns)]
    keys, totals = columns[: len(plan.keys)], [column.to_numpy() for column in columns[len(plan.keys) :]]
    discovered = [keys[index] for index in reading.discovered_keys]
    key_index, first_row = (
        _combination_index_and_first_row(discovered, table.num_rows)
        if reading.declared_keys
        else _index_distinct_rows(table.num_rows)
    )
    holders = np.zeros(len(first_row), np.int64)
    np.add.at(holders, key_index, totals[-1])
    kinds = [plan.keys[index].domain.type for index in reading.discovered_keys]
    return DiscoveredGroups(
        holders,
        lambda chosen_keys: keys_from_columns([column.take(first_row[chosen_keys]) for column in discovered], kinds),
        key_index,
        key_indices(*_declared_columns_and_types(keys, reading), reading.declared_groups, table.num_rows),
        np.column_stack([np.zeros((table.num_rows, 0), np.int64), *totals[:-1]]),
    )


def _declared_columns_and_types(keys: Sequence[Any], reading: DiscoveredTotals) -> tuple[list[Any], list[Type]]:
    """Return the columns of the declared keys, and their types."""
    types = [key.domain.type for key in reading.bounded.plan.keys]
    return [keys[index] for index in reading.declared_keys], [types[index] for index in reading.declared_keys]


def combine_chunks(column: Any) -> Any:
    """Combine the chunks of a column."""
    import pyarrow

    combined = column.combine_chunks()
    return pyarrow.concat_arrays(combined.chunks) if isinstance(combined, pyarrow.ChunkedArray) else combined


def _index_distinct_rows(rows: int) -> tuple[Indices, Indices]:
    """Index rows that each have a key of their own."""
    return np.arange(rows), np.arange(rows)


def _combination_index_and_first_row(columns: Sequence[Any], rows: int) -> tuple[Indices, Indices]:
    """Return for each row the index of its combination of values, and for each combination a row that has it."""
    code = np.zeros(rows, np.int64)
    for column in columns:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        # renumbered after every column: so numbers stay below the square of the number of rows
        code = np.unique(code * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    _, first, row_index = np.unique(code, return_index=True, return_inverse=True)
    return row_index, first


def key_indices(columns: Sequence[Any], kinds: Sequence[Type], keys: Sequence[GroupValues], rows: int) -> Indices:
    """Return for each row the index of its values among these keys; -1 if they are not one of them."""
    if not columns:
        return np.zeros(rows, np.intp)
    row_index, first_row = _combination_index_and_first_row(columns, rows)
    declared_index = {lookup_key(key): index for index, key in enumerate(keys)}
    row_keys = keys_from_columns([column.take(first_row) for column in columns], kinds)
    return np.array([declared_index.get(lookup_key(key), -1) for key in row_keys], np.intp)[row_index]


def lookup_key(key: GroupValues) -> tuple[object, ...]:
    """Return a key for lookup: a real, declared or computed, becomes the double nearest to it."""
    return tuple(float(value) if isinstance(value, Fraction) else value for value in key)


def keys_from_columns(columns: Sequence[Any], kinds: Sequence[Type]) -> list[GroupValues]:
    """Convert rows to keys: a real is the number whose shortest decimal its double shows."""
    values_by_column = [column.to_pylist() for column in columns]
    exact = (
        [None if value is None else Fraction(repr(value)) for value in values] if kind is Type.REAL else values
        for values, kind in zip(values_by_column, kinds, strict=True)
    )
    return list(zip(*exact, strict=True))


BATCH = 1 << 21
"""How many rows arrive at a time,"""
KEYED_BATCH = 1 << 19
"""and how many where each has many keys:"""
MAX_BATCH_CELLS = 1 << 21
"""fewer where they would have more cells than this together."""
_MAX_DENSE = 1 << 20
_MAX_WAITING = 1 << 25


def keyed_batch_rows(reading: Marginals | CellRows) -> int:
    """Return how many rows arrive at a time, by the number of their keys."""
    return max(1, min(KEYED_BATCH, MAX_BATCH_CELLS // max(1, len(reading.cells))))


Coded = tuple[list[NDArray[np.int32]], Integers]
"""Of some rows: for each key the places of their cells, and their totals."""


def marginals_from_batches(batches: Iterable[pyarrow.RecordBatch], reading: Marginals) -> tuple[Integers, ...]:
    """Count every marginal into an array, from rows (key…, total) as they arrive."""
    return reading.count_batches(_code_batches(batches, reading))


def set_marginals_from_batches(batches: Iterable[pyarrow.RecordBatch], reading: Marginals) -> tuple[Integers, ...]:
    """Place the cells of single marginals into arrays, from rows (key…, index of the set, total) as they arrive."""
    keys = [key for key in range(len(reading.cells)) if reading.marginal_indices_with(key)]
    cells = [(key, _CellLookup(reading.cells[key], reading.bounded.plan.keys[key].domain.type)) for key in keys]

    def read(batch: pyarrow.RecordBatch) -> tuple[dict[int, NDArray[np.int32]], Integers, Integers]:
        codes = {key: key_cells.cell_index(batch.column(index)) for index, (key, key_cells) in enumerate(cells)}
        return codes, batch.column(len(keys)).to_numpy(), batch.column(len(keys) + 1).to_numpy()

    return reading.count_set_batches(map(read, batches))


def cell_rows_from_batches(batches: Iterable[pyarrow.RecordBatch], reading: CellRows) -> CodedRows:
    """Collect the cells of all rows, from rows (key…, total) as they arrive."""
    return reading.store_batches(_code_batches(batches, reading))


def _code_batches(batches: Iterable[pyarrow.RecordBatch], reading: Marginals | CellRows) -> Iterator[Coded]:
    kinds = [key.domain.type for key in reading.bounded.plan.keys]
    cells_by_key = [_CellLookup(cells, kind) for cells, kind in zip(reading.cells, kinds, strict=True)]
    for batch in batches:
        yield (
            [key_cells.cell_index(batch.column(index)) for index, key_cells in enumerate(cells_by_key)],
            batch.column(len(cells_by_key)).to_numpy(),
        )


class _CellLookup:
    """The cells of one key; missing and unlisted values are in the last."""

    def __init__(self, cells: Sequence[Value | None], sql_type: Type) -> None:
        self._kind = sql_type
        self._known = {lookup_key((cell,)): index for index, cell in enumerate(cells)}
        self._low, self._table = _least_and_lookup_table(cells) if sql_type is Type.INTEGER else (0, None)

    def cell_index(self, column: Any) -> NDArray[np.int32]:
        """Return the cell of each row: by a table for whole numbers that are close together, else by value."""
        import pyarrow

        if self._table is None or column.type != pyarrow.int64():
            value_index, distinct = _value_index_and_distinct(column)
            cell_of_value = [
                self._known.get(lookup_key(key), len(self._known))
                for key in keys_from_columns([distinct], [self._kind])
            ]
            return np.take(np.array(cell_of_value, np.int32), value_index)
        numbers = column.fill_null(self._low - 1).to_numpy()
        clipped = np.clip(numbers, self._low - 1, self._low + len(self._table) - 2)
        return np.take(self._table, clipped - (self._low - 1))


def _least_and_lookup_table(cells: Sequence[Any]) -> tuple[int, NDArray[np.int32] | None]:
    """Return the least number and a lookup table, from one below it to one above the greatest; None if it is too
    long.
    """
    low, high = min(cells), max(cells)
    if high - low >= _MAX_DENSE or min(-low, high) >= LARGEST_INTEGER:
        return low, None
    table = np.full(high - low + 3, len(cells), np.int32)
    table[np.array(cells) - low + 1] = np.arange(len(cells), dtype=np.int32)
    return low, table


def values_from_rows(batches: Iterable[pyarrow.RecordBatch], reading: ValueCounts) -> ValueStepCounts:
    """Count the values of every known group, from rows (key…, value) as they arrive.

    A group and a value are encoded as one whole number: of the group's index and the value's steps from the least on.
    Rows become such numbers, which are counted batch by batch; memory grows with the number of distinct ones.
    """
    low, high = reading.value_step_span
    width = high - low + 1
    counts, groups = _IntegerMultiset(len(reading.groups) * width), _GroupLookup(reading)
    for batch in batches:
        steps = batch.column(batch.num_columns - 1).to_numpy() - low
        group_index = groups.group_index(batch)
        if group_index is not None:
            if group_index.min(initial=0) < 0:
                group_index, steps = group_index[group_index >= 0], steps[group_index >= 0]
            steps += group_index * width
        counts.add(steps)
    numbers, counts_of_numbers = counts.sorted_counts()
    group_index, steps = np.divmod(numbers, width)
    return ValueStepCounts(group_index, steps + low, counts_of_numbers, len(reading.groups))


def values_from_counts(batches: Iterable[pyarrow.RecordBatch], reading: ValueCounts) -> ValueStepCounts:
    """Sort values, from distinct rows (key…, value, number of rows)."""
    low, high = reading.value_step_span
    width, groups = high - low + 1, _GroupLookup(reading)
    encoded: list[tuple[Integers, Integers]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for batch in batches:
        steps, counts_of_rows = (batch.column(batch.num_columns - offset).to_numpy() for offset in (2, 1))
        group = groups.group_index(batch)
        group = np.zeros(len(steps), np.intp) if group is None else group
        encoded.append(((group * width + (steps - low))[group >= 0], counts_of_rows[group >= 0]))
    numbers, counts = (np.concatenate(arrays) for arrays in zip(*encoded, strict=True))
    order = np.argsort(numbers, kind="stable")
    group, steps = np.divmod(numbers[order], width)
    return ValueStepCounts(group, steps + low, counts[order], len(reading.groups))


def matched_value_counts(batches: Iterable[pyarrow.RecordBatch], reading: MatchedValueReading) -> Integers:
    """Count the values that matching keeps in each known group, from rows (key…, rank of unit, rank of pair)."""
    lookup, no_rows = _GroupLookup(reading), np.zeros(0, np.int64)
    coded = [(no_rows, no_rows, no_rows)]
    for batch in batches:
        units, pairs = (batch.column(batch.num_columns - offset).to_numpy() for offset in (2, 1))
        group_index = lookup.group_index(batch)
        group_index = np.zeros(len(units), np.int64) if group_index is None else group_index
        is_known = group_index >= 0
        coded.append((group_index[is_known], units[is_known], pairs[is_known]))
    group_index, units, pairs = map(np.concatenate, zip(*coded, strict=True))
    matched_rows = match_values_to_units(units, pairs, reading.bounded.limits.rows)
    return np.bincount(group_index[matched_rows], minlength=len(reading.groups)).astype(np.int64)[:, None]


class _GroupLookup:
    """An index of the known groups, looked up for each row key by key.

    After each key a row is at the index of its prefix among the prefixes of the groups: numbers stay below the square
    of the number of groups, whatever values the rows hold.
    """

    def __init__(self, reading: ValueCounts | MatchedValueReading) -> None:
        keys = [lookup_key(key) for key in reading.groups]
        self._kinds = [declared_key.domain.type for declared_key in reading.bounded.plan.keys]
        self._levels: list[tuple[dict[object, int], Integers]] = []
        prefix_index = np.zeros(len(keys), np.int64)
        for position in range(len(self._kinds)):
            values = {value: code for code, value in enumerate(dict.fromkeys(key[position] for key in keys))}
            codes = np.array([values[key[position]] for key in keys], np.int64)
            prefixes, prefix_index = np.unique(prefix_index * len(values) + codes, return_inverse=True)
            self._levels.append((values, prefixes))
        self._group = np.full(prefix_index.max(initial=-1) + 2, -1, np.intp)  # the last is for rows that are in none
        self._group[prefix_index] = np.arange(len(keys))

    def group_index(self, batch: pyarrow.RecordBatch) -> Indices | None:
        """Return the index of each row's group, or -1; None if there is only one group and all rows are in it."""
        if not self._levels:
            return None
        prefix_index = np.zeros(batch.num_rows, np.int64)
        for position, (values, prefixes) in enumerate(self._levels):
            row_codes, distinct = _value_index_and_distinct(batch.column(position))
            value_codes = np.array(
                [values.get(lookup_key(key)[0], -1) for key in keys_from_columns([distinct], [self._kinds[position]])]
            )[row_codes]
            encoded = np.where((prefix_index >= 0) & (value_codes >= 0), prefix_index * len(values) + value_codes, -1)
            candidate = np.searchsorted(prefixes, encoded) if position else np.maximum(encoded, 0)
            is_known = np.append(prefixes, -2)[np.minimum(candidate, len(prefixes))] == encoded
            prefix_index = np.where(is_known, candidate, -1)
        return self._group[prefix_index]


def _value_index_and_distinct(column: Any) -> tuple[Indices, Any]:
    """Return for each row the index of its value among the distinct ones, and those; NULL is one of them."""
    import pyarrow

    encoded = column if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode()
    null = pyarrow.nulls(1, encoded.dictionary.type)
    distinct = pyarrow.concat_arrays([encoded.dictionary, null])
    return encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(), distinct


class _IntegerMultiset:
    """A multiset of whole numbers below a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cells = np.zeros(limit, np.int64) if limit <= _MAX_DENSE else None
        self._kind = np.int32 if limit < 1 << 31 else np.int64
        self._waiting: list[NDArray[Any]] = []
        self._merged: tuple[Integers, Integers] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def add(self, numbers: Integers) -> None:
        if self._cells is not None:
            self._cells += np.bincount(numbers, minlength=self._limit)
            return
        self._waiting.append(numbers.astype(self._kind))
        if sum(batch.size for batch in self._waiting) > _MAX_WAITING + 4 * self._merged[0].size:
            self._count_waiting_numbers()

    def _count_waiting_numbers(self) -> None:
        """Count the waiting numbers: often enough to bound memory, seldom enough that each number is merged a few
        times.
        """
        numbers = np.concatenate([np.zeros(0, self._kind), *self._waiting])
        numbers.sort()
        self._waiting, counted = [], _run_lengths(numbers)
        self._merged = _merge_counts(self._merged, counted) if self._merged[0].size else counted

    def sorted_counts(self) -> tuple[Integers, Integers]:
        """Return the distinct numbers, ascending, and how often each was added."""
        if self._cells is not None:
            numbers = np.flatnonzero(self._cells)
            return numbers, self._cells[numbers]
        self._count_waiting_numbers()
        return self._merged


def _run_lengths(numbers: NDArray[Any]) -> tuple[Integers, Integers]:
    first = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])[: numbers.size])
    return numbers[first].astype(np.int64), np.diff(np.append(first, numbers.size))


def _merge_counts(one: tuple[Integers, Integers], other: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Add the counts of two sorted multisets."""
    numbers, counts = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    order = np.argsort(numbers, kind="stable")
    distinct, first = np.unique(numbers[order], return_index=True)
    return distinct, np.add.reduceat(counts[order], first)


Rows = Sequence[tuple[Any, ...]]
ROW_READINGS = (GroupTotals, DistinctValueReading, ValueTable)
"""The readings whose rows are as few as their groups."""


def totals_from_rows(rows: Rows, reading: PlanReading[Any]) -> NDArray[np.int64]:
    """Convert the rows of a reading with few rows to its array."""
    if isinstance(reading, GroupTotals):
        return align_totals(rows, reading)
    if isinstance(reading, DistinctValueReading):
        return align_totals(rows, GroupTotals(reading.bounded, reading.groups))
    assert isinstance(reading, ValueTable)
    return align_totals(rows, reading.cells).reshape(len(reading.groups), len(reading.values))


def align_totals(rows: Rows, reading: GroupTotals) -> NDArray[np.int64]:
    """Return the totals of rows (key…, total…) in the order of the groups, zero where a group has no row."""
    (_, coordinates), groups = reading.shape, reading.groups
    totals = np.zeros((len(groups), coordinates), dtype=np.int64)
    kinds = [key.domain.type for key in reading.bounded.plan.keys]
    if not rows or not groups:
        return totals
    row_totals = _clamp_totals([_column_of_rows(rows, len(kinds) + number) for number in range(coordinates)]).T
    if not kinds:  # all rows are one group
        totals[:] = row_totals
        return totals
    row_codes, group_codes = _shared_codes(_lookup_columns(rows, kinds), _lookup_columns(groups, kinds))
    row_order = np.argsort(row_codes, kind="stable")
    sorted_codes = row_codes[row_order]
    if (sorted_codes[1:] == sorted_codes[:-1]).any():  # the server split a group: neither row is its total
        raise EngineFailed
    position = np.minimum(np.searchsorted(sorted_codes, group_codes), len(rows) - 1)
    has_row = sorted_codes[position] == group_codes
    totals[has_row] = row_totals[row_order[position[has_row]]]
    return totals


def _shared_codes(columns: Sequence[list[Any]], other_columns: Sequence[list[Any]]) -> tuple[Integers, Integers]:
    """Number the keys of two lists of rows: equal keys have one number, and different keys different ones.

    Values are numbered column by column: a table of the values of one is small, and that of all keys is not.
    """
    row_count = len(columns[0])
    codes, code_count = np.zeros(row_count + len(other_columns[0]), dtype=np.int64), 1
    for values in map(chain, columns, other_columns):
        both = list(values)
        code_of = {value: code for code, value in enumerate(dict.fromkeys(both))}
        if code_count * len(code_of) > LARGEST_INTEGER:
            distinct, codes = np.unique(codes, return_inverse=True)
            code_count = len(distinct)
        codes = codes * len(code_of) + np.fromiter(map(code_of.__getitem__, both), np.int64, len(both))
        code_count *= len(code_of)
    return codes[:row_count], codes[row_count:]


def exact_keys(rows: Rows, kinds: Sequence[Type]) -> Sequence[GroupValues]:
    """Return keys as they are declared: a double becomes the number it shows."""
    if Type.REAL not in kinds:
        return rows
    return [tuple(_as_exact(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows]


def as_statement_parameter(value: Value) -> Any:
    """Convert a public value to a parameter of a statement: a real becomes the double nearest to it."""
    return nearest_double(value) if isinstance(value, Fraction) else value


def _column_of_rows(rows: Rows, number: int) -> list[Any]:
    return list(map(itemgetter(number), rows))


def _clamp_totals(columns: list[list[int]]) -> NDArray[np.int64]:
    """Clamp exact totals to 64 bits: clamping moves two totals no further apart."""
    try:
        totals: NDArray[Any] = np.array(columns, dtype=np.int64)
    except OverflowError:  # beyond 64 bits somewhere: as whole numbers of any size
        totals = np.array(columns, dtype=object)
    return np.minimum(np.maximum(totals, -LARGEST_INTEGER), LARGEST_INTEGER).astype(np.int64)


def _lookup_columns(rows: Rows, kinds: Sequence[Type]) -> list[list[Any]]:
    """Return the columns of the keys that rows begin with, for lookup: a real, declared or computed, becomes the double
    nearest to it.
    """
    columns = [_column_of_rows(rows, number) for number in range(len(kinds))]
    return [
        list(map(_as_double, values)) if kind is Type.REAL else values
        for values, kind in zip(columns, kinds, strict=True)
    ]


def _as_double(value: Any) -> float | None:
    return None if value is None else float(value)


def _as_exact(value: Any, sql_type: Type) -> Any:
    if value is None or sql_type is not Type.REAL:
        return value
    return Fraction(repr(float(value)))


ARRAY_READERS: dict[type, Callable[[Any, Any], object]] = {
    DiscoveredTotals: discovered_groups_from_arrow,
}
"""Converts a statement's rows to arrays. Rows of declared groups are few and are converted directly."""
STREAM_READERS: dict[type, tuple[Callable[[Any, Any], object], Callable[[Any], int]]] = {
    ValueCounts: (values_from_rows, lambda _: BATCH),
    Marginals: (marginals_from_batches, keyed_batch_rows),
    CellRows: (cell_rows_from_batches, keyed_batch_rows),
    MatchedValueReading: (matched_value_counts, lambda _: BATCH),
}
"""Readings whose rows are streamed: the converter, and the number of rows per batch."""
