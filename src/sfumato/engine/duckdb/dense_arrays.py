"""Rows of statements become dense arrays: marginals, and the values of each group in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.duckdb.found_keys import in_one_piece, named, places_among, told
from sfumato.plan.cell_rows import CellRows, CodedRows
from sfumato.plan.dense_readings import Marginals, Places, ValueCounts, Values
from sfumato.plan.readings import Integers

if TYPE_CHECKING:
    import pyarrow

BATCH = 1 << 21
"""How many rows arrive at a time."""
_MOST_COUNTED = 1 << 20
_MOST_WAITING = 1 << 25


def marginals(table: pyarrow.Table, reading: Marginals) -> tuple[Integers, ...]:
    """Put every marginal into an array, from rows (key…, total)."""
    keys, (totals,) = _parted(table, len(reading.cells))
    codes = np.zeros((table.num_rows, len(keys)), np.intp, order="F")  # read key by key
    for place, each in enumerate(_coded(keys, reading)):
        codes[:, place] = each
    return reading.counted(codes, totals)


def cell_rows(table: pyarrow.Table, reading: CellRows) -> CodedRows:
    """Keep the cells of all rows, from rows (key…, total)."""
    keys, (totals,) = _parted(table, len(reading.cells))
    return reading.kept(_coded(keys, reading), totals)


def _coded(keys: Sequence[Any], reading: Marginals | CellRows) -> Iterator[Places]:
    """Find, key by key, the place of each row's cell."""
    for column, cells, key in zip(keys, reading.cells, reading.bounded.plan.keys, strict=True):
        which, different = _encoded(column)
        found = places_among([different], [key.domain.type], [(cell,) for cell in cells], len(different))
        yield np.where(found < 0, len(cells), found)[which]  # missing or not listed: the last cell


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


def _parted(table: pyarrow.Table, keys: int) -> tuple[list[Any], Sequence[Integers]]:
    """Split off the columns of the keys, and give the rest as whole numbers."""
    columns = [in_one_piece(table.column(index)) for index in range(table.num_columns)]
    return columns[:keys], [each.to_numpy() for each in columns[keys:]]
