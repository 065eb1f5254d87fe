"""Drawn rows meet no condition that the policy says none meets.

A model leaves out the cells of which every row would meet it. A condition may also cut cells: then values are drawn
again within the same cells, for the rows that meet it alone, a bounded number of times. What is left takes an end of
its bins: conditions that compare numbers leave an end of the bins out wherever they leave out anything. A row that has
no place in its cells at all becomes a copy of another row, and where every row meets some condition the columns that
these read become NULL.

Conditions are evaluated as for cells (``cell_values``): a row is a cell of one value. What cannot be told, because no
double is the value, counts as met: so no condition is met by chance of rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits
from sfumato.plan.values.expressions import Reference
from sfumato.policy import Type
from sfumato.publish.cells.answering import Condition, Face, part_labels
from sfumato.publish.cells.cell_functions import evaluate
from sfumato.publish.cells.cell_values import Cells, Spans, Texts, Truths, truths
from sfumato.publish.drawn_rows.typed_rows import Rows

Places = NDArray[np.intp]

_TRIES = 32
_MOST_ENDS = 6
"""Columns of which the ends of bins are tried, in all combinations."""


def mend(rows: Rows, conditions: Sequence[Condition], face: Face, fixed: Collection[int] = ()) -> None:
    """Change values, and where no value will do whole rows, until no row meets a condition; values of ``fixed`` columns
    stay as they are but for whole rows.
    """
    if not conditions:
        return
    used = sorted({place for each in conditions for place in each.axes})
    binned = [place for place in used if place in rows.values and place not in fixed]
    bad = _met(rows, conditions, face, np.arange(len(rows.codes)))
    for _ in range(_TRIES):
        if not bad.size:
            return
        for place in binned:
            rows.values[place][bad] = rows.columns[place].drawn(rows.codes[bad, place])
        bad = _met(rows, conditions, face, bad)
    for ends in product((0, 1), repeat=min(len(binned), _MOST_ENDS)):
        if not bad.size:
            return
        for place, end in zip(binned, ends, strict=False):
            rows.values[place][bad] = rows.columns[place].extremes(rows.codes[bad, place])[end]
        bad = _met(rows, conditions, face, bad)
    if bad.size:
        _replace(rows, bad, used)


def _replace(rows: Rows, bad: Places, used: Sequence[int]) -> None:
    """Put copies of other rows in the place of some; NULL in the columns that were read where there are none."""
    good = np.setdiff1d(np.arange(len(rows.codes)), bad)
    if not good.size:
        for place in used:
            rows.codes[bad, place] = rows.columns[place].attribute.size - 1
        return
    taken = good[bits.all_below(good.size, bad.size)]
    rows.codes[bad] = rows.codes[taken]
    for values in rows.values.values():
        values[bad] = values[taken]


def _met(rows: Rows, conditions: Sequence[Condition], face: Face, among: Places) -> Places:
    """Find the rows, of those named, that may meet one of the conditions."""
    found = np.zeros(among.size, bool)
    for each in conditions:
        here = np.flatnonzero(each.truths.true[tuple(rows.codes[among, place] for place in each.axes)])
        if here.size:
            known = {
                reference: _cells(rows, face, among[here], place, level) for reference, place, level in each.columns
            }
            found[here] |= _true(each, known, here.size)
    return among[found]


def _true(condition: Condition, known: dict[Reference, Cells], count: int) -> NDArray[np.bool_]:
    return np.broadcast_to(truths(evaluate(condition.expression, known, 1)).true, (count,))


def _cells(rows: Rows, face: Face, among: Places, place: int, level: int | None) -> Cells:
    """Say what a column is in each row."""
    attribute, codes = face.attributes[place], rows.codes[among, place]
    if level is not None:
        labels: NDArray[Any] = np.empty(attribute.size, dtype=object)
        labels[:] = part_labels(attribute, level)
        return Texts(labels[codes], np.zeros(codes.size, bool))
    cells = face.cells[place]
    if place not in rows.values:
        fields = (getattr(cells, name)[codes] for name in cells.__dataclass_fields__)
        found = type(cells)(*fields)
        return found if isinstance(found, (Texts, Truths)) else _without_outside(found, rows.missing(place, among))
    return _numbers(rows.values[place][among], rows.missing(place, among), attribute.type)


def _without_outside(found: Spans, missing: NDArray[np.bool_]) -> Spans:
    return Spans(np.where(missing, np.nan, found.low), np.where(missing, np.nan, found.high), ~missing, missing)


def _numbers(values: Any, missing: NDArray[np.bool_], kind: Type) -> Spans:
    """Give numbers as the doubles around them: both are the number, unless no double is."""
    low = high = values.astype(np.float64)
    if kind is not Type.REAL:
        apart = low.astype(np.int64) != values
        low, high = np.where(apart, np.nextafter(low, -np.inf), low), np.where(apart, np.nextafter(high, np.inf), high)
    return _without_outside(Spans(low, high, ~missing, missing), missing)
