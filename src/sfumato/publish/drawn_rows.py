"""Rows are drawn from a model clique by clique: each row has its parents' cells already, and the clique adds new ones.

All rows that share their parents' cells are spread evenly over the law of the new cells. With n such rows, row i of
them takes the point (i + u)/n of the distribution function, u uniform in [0, 1) and drawn anew for each: one row for
each of n equal strata. Which row has which stratum is drawn anew, too, for every clique and every parent. So a row by
itself follows the model's law, counts differ from the model's by less than independent rows would, and nothing links
the strata of one clique to those of another: an order that is spread evenly across columns looks better on marginals,
and plants patterns in the rows that no model has.

*No impossible cell is drawn.* Let c be the distribution function within a parent, divided by its last value, so that
it ends in exactly 1. Rows of the parent that lie below the end of cell k are counted: all of the strata below n·c(k),
and the one it falls in where its point is below. A cell of weight 0 has the c of the cell before it, so the same count,
whatever is rounded, and no row. Only a parent that a row is in though the clique's own table gives it no weight has no
law: its rows take the law of the clique's new cells whatever the parents are.

Random places make the order of rows random: the first clique gives its cells to rows in a random order, and so do all.
Nothing is charged: what is drawn follows from what was released.

Cells become rows with the types of the policy: every value lies in its cell, and no row is one the policy rules out.

A listed value is itself. In a bin a whole number or a day is uniform over all that the bin holds, a real over the
multiples of its grid, or over doubles where it has none, and a time over whole seconds, or finer steps where an edge of
the column's bins has them. A value that has a cell of its own (``spikes``) is never drawn from the bin around it. What
is in the last cell is NULL. Reals are compared with edges as doubles, so a value is drawn where its double lies in the
bin: whoever codes a row again finds the cell it was drawn from.

Drawn rows meet no condition that the policy says none meets.

A model leaves out the cells of which every row would meet it. A condition may also cut cells: then values are drawn
again within the same cells, for the rows that meet it alone, a bounded number of times. What is left takes an end of
its bins: conditions that compare numbers leave an end of the bins out wherever they leave out anything. A row that has
no place in its cells at all becomes a copy of another row, and where every row meets some condition the columns that
these read become NULL.

Conditions are evaluated as for cells (``cell_values``): a row is a cell of one value. What cannot be told, because no
double is the value, counts as met: so no condition is met by chance of rounding.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.plan.values.expressions import Reference
from sfumato.policy import Domain, Type
from sfumato.policy.domains import Value
from sfumato.publish.cells.answering import Condition, Face, part_labels
from sfumato.publish.cells.cell_functions import evaluate
from sfumato.publish.cells.cell_values import Cells, PossibleTruths, Spans, Texts, truths
from sfumato.publish.marginals.attributes import Attribute, ListedCell, Other, RangeCell
from sfumato.publish.marginals.chains import Floats, Integers

if TYPE_CHECKING:
    import pyarrow


Codes = NDArray[np.int32]

MOST_AT_ONCE = 1 << 18
"""Rows that are spread together: more are drawn in parts, each spread by itself, which processors hold better."""
_LEAST_RANDOM = 24
"""Bits by which the rows of one parent are put in order, at least."""


class ConditionalLaw(Protocol):
    """This is the law of some columns given others."""

    @property
    def new(self) -> tuple[int, ...]:
        """List the places of the columns that are drawn."""

    @property
    def given(self) -> tuple[int, ...]:
        """List the places of those that were drawn before."""

    @property
    def table(self) -> Floats:
        """Give weights of all cells, with an axis for each given column and then for each new one."""


def drawn(conditionals: Sequence[ConditionalLaw], rows: int, columns: int) -> Codes:
    """Draw so many rows: the cell of each in every column, one column after the other in memory."""
    found = np.zeros((rows, columns), np.int32, order="F")
    for each in conditionals:
        function = _distribution(each)
        cells = _new_cells(each)
        for start in range(0, rows, MOST_AT_ONCE):
            _draw(each, function, cells, found[start : start + MOST_AT_ONCE])
    return found


def _new_cells(law: ConditionalLaw) -> tuple[Codes, ...]:
    """Give the cell that each new column has, for every combination of them."""
    sizes = law.table.shape[len(law.given) :]
    grid = np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ()
    return tuple(each.astype(np.int32) for each in grid)


def _draw(law: ConditionalLaw, function: Floats, cells: Sequence[Codes], codes: Codes) -> None:
    """Draw the new columns of a clique for all rows."""
    parents = _joined(codes, law.given, law.table.shape)
    if len(function) > len(codes):  # most have no row
        there, parents = np.unique(parents, return_inverse=True)
        function = function[there]
    order = _shuffled(parents, len(function))
    counts = _spread(function, np.bincount(parents, minlength=len(function)))
    for place, each in zip(law.new, cells, strict=True):
        codes[order, place] = np.repeat(np.tile(each, len(function)), counts)


def _distribution(law: ConditionalLaw) -> Floats:
    """Give, for each parent in a row of its own, the distribution function of the new cells."""
    table = np.asarray(law.table, np.float64)
    if not table.size or not np.isfinite(table).all() or (table < 0).any() or not (table > 0).any():
        raise InvalidParameter("table", table.shape, "weights ≥ 0, of which some are above 0")
    flat = table.reshape(math.prod(table.shape[: len(law.given)]), -1)
    most = flat.max(axis=1, keepdims=True)
    scaled = flat / np.where(most > 0, most, 1.0)  # neither may the sum of small weights vanish, nor that of large ones
    if not most.all():
        scaled[most[:, 0] == 0] = (flat / most.max()).sum(axis=0)
    summed = np.cumsum(scaled, axis=1)
    return np.asarray(summed / summed[:, -1:])


def _joined(codes: Codes, given: Sequence[int], shape: tuple[int, ...]) -> Integers:
    """Give the combination of given cells that each row has a number."""
    found = np.zeros(len(codes), np.int64)
    for axis, place in enumerate(given):
        found *= shape[axis]
        found += codes[:, place]
    return found


def _shuffled(parents: Integers, count: int) -> Integers:
    """Order rows by their parents, and those of one parent at random.

    One word holds the parent, random bits and the row, so sorting words sorts rows.
    """
    row_bits, parent_bits = (max(1, (each - 1).bit_length()) for each in (len(parents), count))
    assert row_bits + parent_bits + _LEAST_RANDOM <= 64
    keys = bits.words(len(parents)) >> np.uint64(parent_bits)
    keys &= ~np.uint64((1 << row_bits) - 1)
    keys |= np.arange(len(parents), dtype=np.uint64)
    keys |= parents.view(np.uint64) << np.uint64(64 - parent_bits)
    keys.sort()
    keys &= np.uint64((1 << row_bits) - 1)
    return keys.view(np.int64)


def _spread(function: Floats, sizes: Integers) -> Integers:
    """Say how many rows each cell of each parent has, of so many rows of each parent: one for each stratum."""
    rows = int(sizes.sum())
    ends = function * sizes[:, None]
    whole = np.floor(ends)
    strata = whole.astype(np.int64) + (np.cumsum(sizes) - sizes)[:, None]
    points = bits.shorts(2 * rows).view(np.uint32)
    # no point is below an end that is also the end of a stratum: nothing is left of it
    strata += points[np.minimum(strata, rows - 1)] < (ends - whole) * 2.0**32
    return np.diff(strata.ravel(), prepend=0)


Values = NDArray[Any]

_EPOCH, _DAY_ONE = dt.datetime(1970, 1, 1), dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_RESOLUTIONS = (1_000_000, 1_000, 1)
"""Microseconds between two times that are drawn: the first that all edges are multiples of."""
_MOST_STEPS = 2**62
_EXACT = 2**53


def schema(attributes: Sequence[Attribute]) -> pyarrow.Schema:
    """Give the Arrow types of columns: those of the policy."""
    import pyarrow

    return pyarrow.schema([pyarrow.field(each.name, arrow_type(each.type)) for each in attributes])


def arrow_type(kind: Type) -> pyarrow.DataType:
    """Give the Arrow type of a column of this type."""
    import pyarrow

    types = {
        Type.INTEGER: pyarrow.int64(),
        Type.REAL: pyarrow.float64(),
        Type.TEXT: pyarrow.string(),
        Type.BOOLEAN: pyarrow.bool_(),
        Type.DATE: pyarrow.date32(),
        Type.TIMESTAMP: pyarrow.timestamp("us"),
    }
    return types[kind]


@dataclass(frozen=True, eq=False)
class DrawnColumn:
    """This draws the values of one column: numbers, days or microseconds, and NaN or 0 where a value is missing.

    Texts, truths and listed values are not drawn: their cells say what they are.
    """

    attribute: Attribute
    first: Integers
    """Of each cell, the first of its steps,"""
    counts: Integers
    """and how many of them it has; 0 where its values are doubles that no steps count."""
    step: Fraction
    ends: Floats
    """Of each cell, its least and its greatest double: only of reals."""
    spikes: tuple[tuple[int, int], ...]
    """The cells in which a value is left out, and the step that is."""

    @property
    def binned(self) -> bool:
        """Tell whether some cell holds more than one value."""
        return any(isinstance(each, RangeCell) for each in self.attribute.cells)

    @classmethod
    def of(cls, attribute: Attribute, domain: Domain) -> DrawnColumn:
        """Find what each cell of a column holds."""
        step = _step(attribute, domain)
        spans = [_steps(each, attribute.type, step) for each in attribute.cells]
        spikes = tuple(_left_out(attribute, step))
        first = np.array([low for low, _ in spans], np.int64)
        counts = np.array([min(count, 2 * _MOST_STEPS - 1) for _, count in spans], np.int64)
        for cell in {cell for cell, _ in spikes}:
            counts[cell] = max(1, counts[cell] - sum(one == cell for one, _ in spikes)) if counts[cell] else 0
        ends = np.array([_doubles(each) for each in attribute.cells]) if attribute.type is Type.REAL else np.zeros(0)
        return cls(attribute, first, counts, step, ends, spikes)

    def drawn(self, codes: Codes) -> Values:
        """Draw a value for each row, in the cell that it is in."""
        return self._values(self._steps(bits.each_below(self.counts[codes]), codes), codes)

    def extremes(self, codes: Codes) -> tuple[Values, Values]:
        """Give the least and the greatest value that each row may have in its cell."""
        last = np.maximum(self.counts[codes] - 1, 0)
        first = np.zeros_like(last)
        return self._values(self._steps(first, codes), codes, 0.0), self._values(self._steps(last, codes), codes, 1.0)

    def middles(self, codes: Codes) -> Values:
        """Return one value of each cell, always the same: that in its middle."""
        return self._values(self._steps(np.maximum(self.counts[codes] // 2, 0), codes), codes, 0.5)

    def _steps(self, ranks: Integers, codes: Codes) -> Integers:
        """Find the step of each rank in its cell, passing over those that have cells of their own."""
        steps = self.first[codes] + ranks
        for cell, left_out in self.spikes:
            steps += (codes == cell) & (steps >= left_out)
        return steps

    def _values(self, steps: Integers, codes: Codes, at: float | None = None) -> Values:
        kind = self.attribute.type
        if kind is Type.REAL:
            return self._reals(steps, codes, at)
        return steps * np.int64(int(self.step)) if kind is Type.TIMESTAMP else steps

    def _reals(self, steps: Integers, codes: Codes, at: float | None) -> Floats:
        found = _multiples(steps, self.step)
        free = self.counts[codes] == 0
        if free.any():
            low, high = self.ends[codes[free], 0], self.ends[codes[free], 1]
            part = (bits.words(int(free.sum())) >> np.uint64(11)) * 2.0**-53 if at is None else at
            found[free] = low + (high - low) * part
        found = np.clip(found, self.ends[codes, 0], self.ends[codes, 1])
        return self._beside_spikes(found, codes)

    def _beside_spikes(self, found: Floats, codes: Codes) -> Floats:
        """Move a double that is by chance a value with a cell of its own to the next one."""
        free = (self.counts[codes] == 0) & (self.ends[codes, 0] < self.ends[codes, 1])
        for each in self.attribute.cells[:-1]:
            if isinstance(each, ListedCell) and self.spikes:
                here = free & (found == float(each.value))  # type: ignore[arg-type]
                above = np.nextafter(found, np.inf)
                beside = np.where(above <= self.ends[codes, 1], above, np.nextafter(found, -np.inf))
                found = np.where(here, beside, found)
        return found


def _step(attribute: Attribute, domain: Domain) -> Fraction:
    """Find the distance between two values that are drawn: in numbers, days or microseconds."""
    if attribute.type is Type.REAL:
        return domain.grid or Fraction(0)
    if attribute.type is not Type.TIMESTAMP:
        return Fraction(1)
    edges = [_number(each) for cell in attribute.cells for each in _written(cell)]
    return Fraction(next(each for each in _RESOLUTIONS if not any(edge % each for edge in edges)))


def _written(cell: Any) -> tuple[Value, ...]:
    return (
        (cell.value,) if isinstance(cell, ListedCell) else (cell.low, cell.high) if isinstance(cell, RangeCell) else ()
    )


def _number(value: Value) -> Any:
    """Give a value as a number: of the day, or of the microsecond."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MICROSECOND
    return (value - _DAY_ONE).days if isinstance(value, dt.date) else value


def _steps(cell: Any, kind: Type, step: Fraction) -> tuple[int, int]:
    """Count the steps that a cell holds, from the first on; none where its values are no steps."""
    if isinstance(cell, Other) or kind in (Type.TEXT, Type.BOOLEAN):
        return 0, 1
    if not step:
        return 0, 0
    if isinstance(cell, ListedCell):
        place = _number(cell.value) / step
        return (int(place), 1) if place.denominator == 1 and abs(place) <= _MOST_STEPS else (0, 0)
    low, high = math.ceil(_number(cell.low) / step), math.floor(_number(cell.high) / step)
    if not cell.closed:
        high = math.ceil(_number(cell.high) / step) - 1
        if kind is Type.REAL and float(high * step) >= float(cell.high):
            high = math.floor(Fraction(math.nextafter(float(cell.high), -math.inf)) / step)
    held = high >= low and max(abs(low), abs(high)) <= _MOST_STEPS
    return (low, high - low + 1) if held else (0, 0)


def _left_out(attribute: Attribute, step: Fraction) -> list[tuple[int, int]]:
    """Find the values that have cells of their own within bins, rising."""
    if attribute.type in (Type.TEXT, Type.BOOLEAN):
        return []
    listed = sorted(_number(each.value) for each in attribute.cells if isinstance(each, ListedCell))
    bins = [(place, each) for place, each in enumerate(attribute.cells) if isinstance(each, RangeCell)]
    found = []
    for value in listed if bins else ():
        for place, each in bins:
            low, high = _number(each.low), _number(each.high)
            if low <= value < high or (each.closed and value == high):
                steps = value / step if step else Fraction(0)
                found.append((place, int(steps) if steps.denominator == 1 else _MOST_STEPS * 2))
    return [each for each in found if each[1] < _MOST_STEPS * 2]


def _doubles(cell: Any) -> tuple[float, float]:
    """Give the least and the greatest double of a cell of reals."""
    if isinstance(cell, ListedCell):
        return float(cell.value), float(cell.value)  # type: ignore[arg-type]
    if not isinstance(cell, RangeCell):
        return 0.0, 0.0
    low, high = float(cell.low), float(cell.high)  # type: ignore[arg-type]
    return low, high if cell.closed else max(low, math.nextafter(high, -math.inf))


def _multiples(steps: Integers, step: Fraction) -> Floats:
    """Give multiples of a step as the doubles that are nearest to them."""
    top, under = step.numerator, step.denominator
    largest = int(np.abs(steps).max(initial=0)) * top
    if largest < _EXACT and under < _EXACT:
        return np.asarray((steps * top) / np.float64(under))
    return np.array([float(int(each) * step) for each in steps.tolist()], np.float64)


# ── rows ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """These are rows as they are made: the cell of each in every column, and the values of columns that have bins."""

    columns: tuple[DrawnColumn, ...]
    codes: Codes
    values: dict[int, Values]

    @classmethod
    def of(cls, columns: Sequence[DrawnColumn], codes: Codes) -> DrawnRows:
        """Draw a value for every row in every column that has bins."""
        binned = [place for place, each in enumerate(columns) if each.binned]
        return cls(tuple(columns), codes, {place: columns[place].drawn(codes[:, place]) for place in binned})

    def take_middles(self, place: int, rows: NDArray[np.bool_]) -> None:
        """Give these rows one value for each cell of a column: the cell of another column decides it."""
        self.values[place][rows] = self.columns[place].middles(self.codes[rows, place])

    def missing(self, place: int, rows: Any = slice(None)) -> NDArray[np.bool_]:
        """Tell which rows have no value in a column."""
        return np.asarray(self.codes[rows, place] == self.columns[place].attribute.size - 1)

    def to_arrow(self) -> pyarrow.Table:
        """Give the rows with the types of the policy."""
        import pyarrow

        arrays = [self._array(place) for place in range(len(self.columns))]
        return pyarrow.Table.from_arrays(arrays, schema=schema([each.attribute for each in self.columns]))

    def _array(self, place: int) -> pyarrow.Array:
        import pyarrow

        attribute = self.columns[place].attribute
        kind = arrow_type(attribute.type)
        if place not in self.values:
            listed = pyarrow.array([*map(_plain, attribute.cells[:-1]), None], kind)
            return listed.take(pyarrow.array(np.ascontiguousarray(self.codes[:, place])))
        values = self.values[place]
        if attribute.type is Type.DATE:
            values = values.astype(np.int32)
        return pyarrow.array(values, mask=self.missing(place)).cast(kind)


def _plain(cell: Any) -> Any:
    return float(cell.value) if isinstance(cell.value, Fraction) else cell.value


Places = NDArray[np.intp]

_TRIES = 32
_MOST_ENDS = 6
"""Columns of which the ends of bins are tried, in all combinations."""


def mend(rows: DrawnRows, conditions: Sequence[Condition], face: Face, fixed: Collection[int] = ()) -> None:
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


def _replace(rows: DrawnRows, bad: Places, used: Sequence[int]) -> None:
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


def _met(rows: DrawnRows, conditions: Sequence[Condition], face: Face, among: Places) -> Places:
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


def _cells(rows: DrawnRows, face: Face, among: Places, place: int, level: int | None) -> Cells:
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
        return (
            found if isinstance(found, (Texts, PossibleTruths)) else _without_outside(found, rows.missing(place, among))
        )
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
