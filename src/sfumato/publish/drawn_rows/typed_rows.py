"""Cells become rows with the types of the policy: every value lies in its cell, and no row is one the policy rules out.

A listed value is itself. In a bin a whole number or a day is uniform over all that the bin holds, a real over the
multiples of its grid, or over doubles where it has none, and a time over whole seconds, or finer steps where an edge of
the column's bins has them. A value that has a cell of its own (``spikes``) is never drawn from the bin around it. What
is in the last cell is NULL. Reals are compared with edges as doubles, so a value is drawn where its double lies in the
bin: whoever codes a row again finds the cell it was drawn from.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits
from sfumato.policy import Domain, Type
from sfumato.policy.domains import Value
from sfumato.publish.marginals.attributes import Attribute, Listed, Other, Range
from sfumato.publish.marginals.chains import Floats, Integers

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int32]
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
class Column:
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
        return any(isinstance(each, Range) for each in self.attribute.cells)

    @classmethod
    def of(cls, attribute: Attribute, domain: Domain) -> Column:
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
            if isinstance(each, Listed) and self.spikes:
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
    return (cell.value,) if isinstance(cell, Listed) else (cell.low, cell.high) if isinstance(cell, Range) else ()


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
    if isinstance(cell, Listed):
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
    listed = sorted(_number(each.value) for each in attribute.cells if isinstance(each, Listed))
    bins = [(place, each) for place, each in enumerate(attribute.cells) if isinstance(each, Range)]
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
    if isinstance(cell, Listed):
        return float(cell.value), float(cell.value)  # type: ignore[arg-type]
    if not isinstance(cell, Range):
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
class Rows:
    """These are rows as they are made: the cell of each in every column, and the values of columns that have bins."""

    columns: tuple[Column, ...]
    codes: Codes
    values: dict[int, Values]

    @classmethod
    def of(cls, columns: Sequence[Column], codes: Codes) -> Rows:
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
