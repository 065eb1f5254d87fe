"""Found keys stay in arrays: no key becomes a value of Python's own before it may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import Found, FoundTotals, Places
from sfumato.policy import Type

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
