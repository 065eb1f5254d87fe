"""Interval evaluation: in a cell, an expression is one value, a range of values, or NULL.

A listed cell is one value, a bin is the range from its first to its last value, and the last cell of an attribute is
NULL, or the part of the column's bounds that no bin covers. Expressions are evaluated on ranges (``cell_functions``):
the output range contains the output for every input inside, and is one value wherever all inputs are. Rounding is
monotone, so ranges of doubles contain what the engine computes in doubles. Arrays have one axis per attribute of the
question, of length 1 where an expression does not read it: a condition on two columns is never laid out over more.

Labels of cells, and of the parts that a level joins cells to.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Container, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Bools, Floats
from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Literal
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_REAL
from sfumato.privacy.numbers import format_exact
from sfumato.publish.marginals.attributes import Attribute, Cell, GroupCell, ListedCell, RangeCell
from sfumato.quick_dataclass import dataclass

EPOCH = dt.date(1970, 1, 1)
LARGEST = float(LARGEST_REAL)


@dataclass(frozen=True)
class ValueRanges:
    """Ranges of numbers, days or microseconds per cell, with whether a value or NULL is possible."""

    low: Floats
    high: Floats
    may_have_value: Bools
    """Whether a value is possible."""
    null: Bools
    """Whether NULL is possible."""

    @property
    def certain(self) -> Bools:
        """Where the outcome is certain: exactly one value, or certainly NULL."""
        return np.where(self.may_have_value, ~self.null & (self.low == self.high), True)


@dataclass(frozen=True)
class PossibleTruths:
    """Whether a condition may be true, false or NULL in each cell; several may be possible."""

    true: Bools
    false: Bools
    null: Bools

    @property
    def certain(self) -> Bools:
        return self.true.astype(int) + self.false + self.null == 1


@dataclass(frozen=True)
class CellTexts:
    """Texts per cell, None for NULL, and where another text is possible too."""

    value: NDArray[Any]
    unknown: Bools

    @property
    def certain(self) -> Bools:
        return ~self.unknown

    @property
    def null(self) -> Bools:
        return np.asarray(self.value == None)  # noqa: E711 - cell by cell


class UndecidedText(str):
    """The first of several texts, which stands for any of them: it is unknown which one a row has."""

    options: frozenset[str]

    @classmethod
    def from_texts(cls, texts: Sequence[Any]) -> UndecidedText:
        among = cls(texts[0])
        among.options = frozenset(texts)
        return among


CellOutcomes = ValueRanges | PossibleTruths | CellTexts
CellFunction = Callable[[Call, list[CellOutcomes]], CellOutcomes]
"""Computes what a function can return in each cell, from what its arguments can be."""


def enclosing_doubles(value: Any) -> tuple[float, float]:
    """Return the doubles around a value: both equal it, unless it is an integer that no double represents."""
    if isinstance(value, dt.datetime):
        value = (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        value = (value - EPOCH).days
    double = float(value)
    if isinstance(value, Fraction) or double == value:
        return double, double
    return math.nextafter(double, -math.inf), math.nextafter(double, math.inf)


def column_outcomes(attribute: Attribute, domain: Domain) -> CellOutcomes:
    """Return what a column can be in each of its cells."""
    kind = attribute.type
    cell_values = [cell.value if isinstance(cell, ListedCell) else None for cell in attribute.cells]
    if kind is Type.TEXT:
        texts = [
            UndecidedText.from_texts(cell.values) if isinstance(cell, GroupCell) else cell_value
            for cell, cell_value in zip(attribute.cells, cell_values, strict=True)
        ]
        return CellTexts(_object_array(texts), np.array([isinstance(text, UndecidedText) for text in texts]))
    if kind is Type.BOOLEAN:
        true, false = (np.array([cell_value is truth for cell_value in cell_values], bool) for truth in (True, False))
        return PossibleTruths(true, false, ~(true | false))
    single_value_cells = {enclosing_doubles(cell_value) for cell_value in cell_values if cell_value is not None}
    intervals = [_cell_interval(cell, kind, single_value_cells) for cell in attribute.cells[:-1]] + [
        _uncovered_range(attribute, domain)
    ]
    low, high = (np.array([interval[end] for interval in intervals], float) for end in (0, 1))
    null = np.zeros(len(intervals), bool)
    null[-1] = True
    return ValueRanges(low, high, ~np.isnan(low), null)


def _cell_interval(
    cell: Any, sql_type: Type, single_value_cells: Container[tuple[float, float]]
) -> tuple[float, float]:
    """Return the least and the greatest value of a cell; values with cells of their own are not in a bin."""
    if isinstance(cell, ListedCell):
        return enclosing_doubles(cell.value)
    low, high = enclosing_doubles(cell.low)[0], enclosing_doubles(cell.high)[1]
    if not cell.closed:
        high = _adjacent_number(high, sql_type, -1)
    while low < high and (low, low) in single_value_cells:
        low = _adjacent_number(low, sql_type, 1)
    while low < high and (high, high) in single_value_cells:
        high = _adjacent_number(high, sql_type, -1)
    return low, high


def _uncovered_range(attribute: Attribute, domain: Domain) -> tuple[float, float]:
    """Return the range that the last cell may hold beside NULL: what the bounds allow and no bin covers, or NaN."""
    bins = [cell for cell in attribute.cells if isinstance(cell, RangeCell)]
    if not bins:
        return math.nan, math.nan
    if domain.bounds is None:
        return -math.inf, math.inf
    low, high = enclosing_doubles(domain.bounds[0])[0], enclosing_doubles(domain.bounds[1])[1]
    if not (bins[-1].closed and all(earlier.high == later.low for earlier, later in pairwise(bins))):
        return low, high
    at_low, at_high = bins[0].low == domain.bounds[0], bins[-1].high == domain.bounds[1]
    if at_low and at_high:
        return math.nan, math.nan
    if at_low:
        return _adjacent_number(enclosing_doubles(bins[-1].high)[0], attribute.type, 1), high
    return (low, _adjacent_number(enclosing_doubles(bins[0].low)[1], attribute.type, -1)) if at_high else (low, high)


def _adjacent_number(number: float, sql_type: Type, step: int) -> float:
    """Return the adjacent number in a column of this type; ``step`` is 1 or -1."""
    return math.nextafter(number, step * math.inf) if sql_type is Type.REAL else number + step


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def constant_outcomes(literal: Literal, shape: tuple[int, ...]) -> CellOutcomes:
    value, yes, no = literal.value, np.ones(shape, bool), np.zeros(shape, bool)
    if literal.domain.type is Type.TEXT or isinstance(value, str):
        return CellTexts(np.full(shape, value, dtype=object), no)
    if literal.domain.type is Type.BOOLEAN:
        return PossibleTruths(yes & (value is True), yes & (value is False), yes & (value is None))
    if value is None:
        return null_ranges(shape)
    low, high = enclosing_doubles(value)
    return ValueRanges(np.full(shape, low), np.full(shape, high), yes, no)


def null_ranges(shape: tuple[int, ...]) -> ValueRanges:
    return ValueRanges(np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, bool), np.ones(shape, bool))


def ranges_with_overflow(low: Floats, high: Floats, may_have_value: Bools, null: Bools) -> ValueRanges:
    """Build spans in which results that overflow a real, or are undefined, may be NULL."""
    overflows = may_have_value & ~((np.abs(low) <= LARGEST) & (np.abs(high) <= LARGEST))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return ValueRanges(
        np.where(may_have_value, low, np.nan), np.where(may_have_value, high, np.nan), may_have_value, null | overflows
    )


def as_ranges(cells: CellOutcomes) -> ValueRanges:
    """Convert cells to numbers: truths to 1 and 0, and a bare NULL to a missing number."""
    if isinstance(cells, ValueRanges):
        return cells
    if isinstance(cells, PossibleTruths):
        low, high = np.where(cells.false, 0.0, 1.0), np.where(cells.true, 1.0, 0.0)
        return ranges_with_overflow(low, high, cells.true | cells.false, cells.null)
    if bool(cells.null.all()):
        return null_ranges(cells.value.shape)
    raise Unsupported(
        "type-mismatch",
        "a number is needed here, not text",
        fix="use a column of numbers, or compare text with text, such as 'north'",
    )


def as_truths(cells: CellOutcomes) -> PossibleTruths:
    """Convert cells to a condition; a bare NULL is never true."""
    if isinstance(cells, PossibleTruths):
        return cells
    never = np.zeros(cells.certain.shape, bool)
    return PossibleTruths(never, never, np.ones(cells.certain.shape, bool))


def level_labels(attribute: Attribute, level: int) -> list[str | None]:
    """Return the label of the part that every cell is in at a level: the policy's, or that of its first and last cell;
    None for missing values.
    """
    parts = attribute.levels[level]
    if attribute.labels and attribute.labels[level]:
        return [*(attribute.labels[level][part] for part in parts[:-1]), None]
    members: dict[int, list[Cell]] = {}
    for part, cell in zip(parts[:-1], attribute.cells[:-1], strict=True):
        members.setdefault(part, []).append(cell)
    names = {part: _part_name(cells) for part, cells in members.items()}
    return [*(names[part] for part in parts[:-1]), None]


def _part_name(cells: list[Cell]) -> str:
    bins = [cell for cell in cells if isinstance(cell, RangeCell)]
    if bins:  # a value with a cell of its own belongs to the bin that it lies in
        return describe_cell(RangeCell(bins[0].low, bins[-1].high, bins[-1].closed))
    first, last = cells[0], cells[-1]
    return describe_cell(first) if len(cells) == 1 else f"{describe_cell(first)} … {describe_cell(last)}"


def describe_cell(cell: Cell) -> str:
    """Describe a cell: its value, the ends of its bin, or the first and last value of its group."""
    if isinstance(cell, ListedCell):
        return _format_value(cell.value)
    if isinstance(cell, RangeCell):
        return f"{_format_value(cell.low)} to {'' if cell.closed else 'below '}{_format_value(cell.high)}"
    if isinstance(cell, GroupCell):
        first, last = _format_value(cell.values[0]), _format_value(cell.values[-1])
        return f"one of {len(cell.values):,} values from {first} to {last}"
    return "missing or in no bin"


def _format_value(value: object) -> str:
    return format_exact(value) if isinstance(value, Fraction) else str(value)
