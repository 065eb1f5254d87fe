"""Rows of statements become arrays of exact totals, in the order of the groups: the same for every engine.

An engine gives rows as tuples of Python's own values: (key…, total…). Totals are whole numbers of any size, and a key
that is a real is a double.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupTotals, Reading
from sfumato.plan.readings.value_readings import DifferentValues, ValueTable
from sfumato.plan.values.intervals import nearest
from sfumato.policy import Type, Value
from sfumato.policy.domains import LARGEST_INTEGER

Rows = Sequence[tuple[Any, ...]]
FEW = (GroupTotals, DifferentValues, ValueTable)
"""The readings whose rows are as few as their groups."""


def few_in_arrays(found: Rows, reading: Reading[Any]) -> NDArray[np.int64]:
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
