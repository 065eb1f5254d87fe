"""Rows of statements become dense arrays: marginals, and the values of each group in order.

Found keys stay in arrays: no key becomes a value of Python's own before it may be shown.

Rows of statements become arrays of exact totals, in the order of the groups: the same for every engine.

An engine gives rows as tuples of Python's own values: (key…, total…). Totals are whole numbers of any size, and a key
that is a real is a double.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.cell_rows import CellRows, CodedRows
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts, Values
from sfumato.plan.readings.total_readings import Found, FoundTotals, GroupTotals, Integers, Places, PlanReading
from sfumato.plan.readings.value_readings import DifferentValues, ValueTable
from sfumato.plan.values.intervals import nearest
from sfumato.policy import Type, Value
from sfumato.policy.domains import LARGEST_INTEGER

if TYPE_CHECKING:
    import pyarrow


def in_arrays(table: pyarrow.Table, reading: FoundTotals) -> Found:
    """Put the rows (key…, total…, holders) of a statement into arrays, with the place of each row's key."""
    plan = reading.bounded.plan
    columns = [in_one_piece(table.column(index)) for index in range(table.num_columns)]
    keys, totals = columns[: len(plan.keys)], [each.to_numpy() for each in columns[len(plan.keys) :]]
    own = [keys[index] for index in reading.found]
    key, first = _places(own, table.num_rows) if reading.others else _each(table.num_rows)
    holders = np.zeros(len(first), np.int64)
    np.add.at(holders, key, totals[-1])
    kinds = [plan.keys[index].domain.type for index in reading.found]
    return Found(
        holders,
        lambda chosen: named([each.take(first[chosen]) for each in own], kinds),
        key,
        places_among(*_others(keys, reading), reading.declared, table.num_rows),
        np.column_stack([np.zeros((table.num_rows, 0), np.int64), *totals[:-1]]),
    )


def _others(keys: Sequence[Any], reading: FoundTotals) -> tuple[list[Any], list[Type]]:
    """Give the columns of the keys that are declared, and their types."""
    types = [each.domain.type for each in reading.bounded.plan.keys]
    return [keys[index] for index in reading.others], [types[index] for index in reading.others]


def in_one_piece(column: Any) -> Any:
    """Put the pieces of a column together."""
    import pyarrow

    made = column.combine_chunks()
    return pyarrow.concat_arrays(made.chunks) if isinstance(made, pyarrow.ChunkedArray) else made


def _each(rows: int) -> tuple[Places, Places]:
    """Every row has a key of its own."""
    return np.arange(rows), np.arange(rows)


def _places(columns: Sequence[Any], rows: int) -> tuple[Places, Places]:
    """Find for each row the place of its combination of values, and for each combination a row that has it."""
    code = np.zeros(rows, np.int64)
    for column in columns:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        # renumbered after every column: so numbers stay below the square of how many rows there are
        code = np.unique(code * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return place, first


def places_among(columns: Sequence[Any], kinds: Sequence[Type], keys: Sequence[GroupKey], rows: int) -> Places:
    """Find for each row the place of its values among these keys; -1 where they are not one of them."""
    if not columns:
        return np.zeros(rows, np.intp)
    place, first = _places(columns, rows)
    known = {told(key): index for index, key in enumerate(keys)}
    listed = named([each.take(first) for each in columns], kinds)
    return np.array([known.get(told(key), -1) for key in listed], np.intp)[place]


def told(key: GroupKey) -> tuple[object, ...]:
    """Give a key to look up by: a real, declared or computed, is the double nearest to it."""
    return tuple(float(value) if isinstance(value, Fraction) else value for value in key)


def named(columns: Sequence[Any], kinds: Sequence[Type]) -> list[GroupKey]:
    """Turn rows into keys: a real is the number that its double shows."""
    listed = [each.to_pylist() for each in columns]
    exact = (
        [None if value is None else Fraction(repr(value)) for value in values] if kind is Type.REAL else values
        for values, kind in zip(listed, kinds, strict=True)
    )
    return list(zip(*exact, strict=True))


BATCH = 1 << 21
"""How many rows arrive at a time,"""
KEYED_BATCH = 1 << 19
"""and how many where each has many keys."""
_MOST_COUNTED = 1 << 20
_MOST_WAITING = 1 << 25


Coded = tuple[list[NDArray[np.int32]], Integers]
"""Of some rows: for each key the places of their cells, and their totals."""


def marginals(batches: Iterable[pyarrow.RecordBatch], reading: Marginals) -> tuple[Integers, ...]:
    """Put every marginal into an array, from rows (key…, total) as they arrive."""
    return reading.counted(_coded(batches, reading))


def cell_rows(batches: Iterable[pyarrow.RecordBatch], reading: CellRows) -> CodedRows:
    """Keep the cells of all rows, from rows (key…, total) as they arrive."""
    return reading.kept(_coded(batches, reading))


def _coded(batches: Iterable[pyarrow.RecordBatch], reading: Marginals | CellRows) -> Iterator[Coded]:
    kinds = [each.domain.type for each in reading.bounded.plan.keys]
    keys = [_Cells(cells, kind) for cells, kind in zip(reading.cells, kinds, strict=True)]
    for batch in batches:
        yield [own.of(batch.column(place)) for place, own in enumerate(keys)], batch.column(len(keys)).to_numpy()


class _Cells:
    """These are the cells of one key; what is missing or not listed is in the last."""

    def __init__(self, cells: Sequence[Value | None], kind: Type) -> None:
        self._kind = kind
        self._known = {told((cell,)): place for place, cell in enumerate(cells)}
        self._low, self._table = _by_number(cells) if kind is Type.INTEGER else (0, None)

    def of(self, column: Any) -> NDArray[np.int32]:
        """Find the cell of each row: whole numbers that are close together in a table, anything else by its value."""
        import pyarrow

        if self._table is None or column.type != pyarrow.int64():
            which, different = _encoded(column)
            places = [self._known.get(told(key), len(self._known)) for key in named([different], [self._kind])]
            return np.take(np.array(places, np.int32), which)
        numbers = column.fill_null(self._low - 1).to_numpy()
        inside = np.clip(numbers, self._low - 1, self._low + len(self._table) - 2)
        return np.take(self._table, inside - (self._low - 1))


def _by_number(cells: Sequence[Any]) -> tuple[int, NDArray[np.int32] | None]:
    """Give the least number and a table of places, from one below it to one above the greatest; none if it is long."""
    low, high = min(cells), max(cells)
    if high - low >= _MOST_COUNTED or min(-low, high) >= LARGEST_INTEGER:
        return low, None
    table = np.full(high - low + 3, len(cells), np.int32)
    table[np.array(cells) - low + 1] = np.arange(len(cells), dtype=np.int32)
    return low, table


def values(batches: Iterable[pyarrow.RecordBatch], reading: ValueCounts) -> Values:
    """Count the values of every known group, from rows (key…, value) as they arrive.

    A group and a value are one whole number: of the groups' places and the value's steps from the least on. Rows become
    such numbers, which are counted batch by batch; what is held is as long as there are different ones.
    """
    low, high = _span(reading)
    width = high - low + 1
    counts, groups = _Counts(len(reading.groups) * width), _Groups(reading)
    for batch in batches:
        steps = batch.column(batch.num_columns - 1).to_numpy() - low
        group = groups.of(batch)
        if group is not None:
            if group.min(initial=0) < 0:
                group, steps = group[group >= 0], steps[group >= 0]
            steps += group * width
        counts.add(steps)
    numbers, many = counts.sorted()
    group, steps = np.divmod(numbers, width)
    return Values(group, steps + low, many, len(reading.groups))


def counted_values(batches: Iterable[pyarrow.RecordBatch], reading: ValueCounts) -> Values:
    """Put values in order, from rows (key…, value, how many rows have it), each once."""
    low, high = _span(reading)
    width, groups = high - low + 1, _Groups(reading)
    found: list[tuple[Integers, Integers]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for batch in batches:
        steps, many = (batch.column(batch.num_columns - place).to_numpy() for place in (2, 1))
        group = groups.of(batch)
        group = np.zeros(len(steps), np.intp) if group is None else group
        found.append(((group * width + (steps - low))[group >= 0], many[group >= 0]))
    numbers, counts = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(numbers, kind="stable")
    group, steps = np.divmod(numbers[order], width)
    return Values(group, steps + low, counts[order], len(reading.groups))


def _span(reading: ValueCounts) -> tuple[int, int]:
    """Give the least and the greatest number of steps that the plan lets a value have."""
    (contribution,) = reading.bounded.measures[0].contributions
    return contribution.low, contribution.high


class _Groups:
    """These are known groups, found for each row key by key.

    After each key a row is at the place of what it has so far among what the groups begin with: numbers stay below the
    square of how many groups there are, whatever values the rows hold.
    """

    def __init__(self, reading: ValueCounts) -> None:
        keys = [told(each) for each in reading.groups]
        self._kinds = [each.domain.type for each in reading.bounded.plan.keys]
        self._levels: list[tuple[dict[object, int], Integers]] = []
        at = np.zeros(len(keys), np.int64)
        for place in range(len(self._kinds)):
            values = {value: code for code, value in enumerate(dict.fromkeys(key[place] for key in keys))}
            own = np.array([values[key[place]] for key in keys], np.int64)
            beginnings, at = np.unique(at * len(values) + own, return_inverse=True)
            self._levels.append((values, beginnings))
        self._group = np.full(at.max(initial=-1) + 2, -1, np.intp)  # the last is for rows that are in none
        self._group[at] = np.arange(len(keys))

    def of(self, batch: pyarrow.RecordBatch) -> Places | None:
        """Find the place of each row's group, or -1; None where all rows are of the one group there is."""
        if not self._levels:
            return None
        at = np.zeros(batch.num_rows, np.int64)
        for place, (values, beginnings) in enumerate(self._levels):
            codes, texts = _encoded(batch.column(place))
            own = np.array([values.get(told(key)[0], -1) for key in named([texts], [self._kinds[place]])])[codes]
            wanted = np.where((at >= 0) & (own >= 0), at * len(values) + own, -1)
            found = np.searchsorted(beginnings, wanted) if place else np.maximum(wanted, 0)
            met = np.append(beginnings, -2)[np.minimum(found, len(beginnings))] == wanted
            at = np.where(met, found, -1)
        return self._group[at]


def _encoded(column: Any) -> tuple[Places, Any]:
    """Give for each row the place of its value among the different ones, and those; what is missing is one of them."""
    import pyarrow

    coded = column if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode()
    missing = pyarrow.nulls(1, coded.dictionary.type)
    texts = pyarrow.concat_arrays([coded.dictionary, missing])
    return coded.indices.fill_null(len(coded.dictionary)).to_numpy(), texts


class _Counts:
    """These are whole numbers below a limit, each with how often it was added."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cells = np.zeros(limit, np.int64) if limit <= _MOST_COUNTED else None
        self._kind = np.int32 if limit < 1 << 31 else np.int64
        self._waiting: list[NDArray[Any]] = []
        self._merged: tuple[Integers, Integers] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def add(self, numbers: Integers) -> None:
        if self._cells is not None:
            self._cells += np.bincount(numbers, minlength=self._limit)
            return
        self._waiting.append(numbers.astype(self._kind))
        if sum(each.size for each in self._waiting) > _MOST_WAITING + 4 * self._merged[0].size:
            self._merge()

    def _merge(self) -> None:
        """Count what waits: often enough that little is held, seldom enough that each number is merged a few times."""
        numbers = np.concatenate([np.zeros(0, self._kind), *self._waiting])
        numbers.sort()
        self._waiting, counted = [], _run_lengths(numbers)
        self._merged = _added(self._merged, counted) if self._merged[0].size else counted

    def sorted(self) -> tuple[Integers, Integers]:
        """Give the different numbers, rising, and how often each was added."""
        if self._cells is not None:
            numbers = np.flatnonzero(self._cells)
            return numbers, self._cells[numbers]
        self._merge()
        return self._merged


def _run_lengths(numbers: NDArray[Any]) -> tuple[Integers, Integers]:
    first = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])[: numbers.size])
    return numbers[first].astype(np.int64), np.diff(np.append(first, numbers.size))


def _added(one: tuple[Integers, Integers], other: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Add up the counts of numbers that are in one of two lists, or in both."""
    numbers, counts = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    order = np.argsort(numbers, kind="stable")
    distinct, first = np.unique(numbers[order], return_index=True)
    return distinct, np.add.reduceat(counts[order], first)


Rows = Sequence[tuple[Any, ...]]
FEW = (GroupTotals, DifferentValues, ValueTable)
"""The readings whose rows are as few as their groups."""


def few_in_arrays(found: Rows, reading: PlanReading[Any]) -> NDArray[np.int64]:
    """Put the rows of a reading with few of them into its array."""
    if isinstance(reading, GroupTotals):
        return aligned(found, reading)
    if isinstance(reading, DifferentValues):
        return aligned(found, GroupTotals(reading.bounded, reading.groups))
    assert isinstance(reading, ValueTable)
    return aligned(found, reading.cells).reshape(len(reading.groups), len(reading.values))


def aligned(found: Rows, reading: GroupTotals) -> NDArray[np.int64]:
    """Put the totals of rows (key…, total…) in the order of the groups, zero where a group has no row."""
    (_, coordinates), groups = reading.shape, reading.groups
    totals = np.zeros((len(groups), coordinates), dtype=np.int64)
    kinds = [each.domain.type for each in reading.bounded.plan.keys]
    if not found or not groups:
        return totals
    own = _held([_column(found, len(kinds) + number) for number in range(coordinates)]).T
    if not kinds:  # all rows are one group
        totals[:] = own
        return totals
    rows = dict(zip(_named(found, kinds), range(len(found)), strict=True))
    row = np.fromiter(map(rows.get, _named(groups, kinds), repeat(-1)), dtype=np.intp, count=len(groups))
    totals[row >= 0] = own[row[row >= 0]]
    return totals


def exact_keys(found: Rows, kinds: Sequence[Type]) -> Sequence[GroupKey]:
    """Give keys as they are declared: a double is the number it shows."""
    if Type.REAL not in kinds:
        return found
    return [tuple(_exact(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in found]


def parameter(value: Value) -> Any:
    """Give a public value as it is handed over beside a statement: a real is the double nearest to it."""
    return nearest(value) if isinstance(value, Fraction) else value


def _column(rows: Rows, number: int) -> list[Any]:
    return list(map(itemgetter(number), rows))


def _held(columns: list[list[int]]) -> NDArray[np.int64]:
    """Keep exact totals within what 64 bits hold: cutting moves two totals no further apart."""
    try:
        totals: NDArray[Any] = np.array(columns, dtype=np.int64)
    except OverflowError:  # beyond 64 bits somewhere: as whole numbers of any size
        totals = np.array(columns, dtype=object)
    return np.clip(totals, -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)


def _named(rows: Rows, kinds: Sequence[Type]) -> Iterator[tuple[Any, ...]]:
    """Give the keys that rows begin with, as they are looked up by: a real, declared or computed, is the double nearest
    to it.
    """
    columns = [(_column(rows, number), kind) for number, kind in enumerate(kinds)]
    return zip(*(map(_double, each) if kind is Type.REAL else each for each, kind in columns), strict=True)


def _double(value: Any) -> float | None:
    return None if value is None else float(value)


def _exact(value: Any, kind: Type) -> Any:
    if value is None or kind is not Type.REAL:
        return value
    return Fraction(repr(float(value)))
