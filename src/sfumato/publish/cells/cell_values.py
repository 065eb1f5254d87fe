"""Interval evaluation: in a cell, an expression is one value, a range of values, or NULL.

A listed cell is one value, a bin is the range from its first to its last value, and the last cell of an attribute is
NULL, or the part of the column's bounds that no bin covers. Expressions are evaluated on ranges (``cell_functions``):
the output range contains the output for every input inside, and is one value wherever all inputs are. Rounding is
monotone, so ranges of doubles contain what the engine computes in doubles. Arrays have one axis per attribute of the
question, of length 1 where an expression does not read it: a condition on two columns is never laid out over more.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Literal
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_REAL
from sfumato.publish.marginals.attributes import Attribute, ListedCell, RangeCell

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

EPOCH = dt.date(1970, 1, 1)
LARGEST = float(LARGEST_REAL)


@dataclass(frozen=True)
class Spans:
    """Ranges of numbers, days or microseconds per cell, with whether a value or NULL is possible."""

    low: Floats
    high: Floats
    there: Bools
    """Whether a value is possible."""
    null: Bools
    """Whether NULL is possible."""

    @property
    def sure(self) -> Bools:
        """Where the outcome is certain: exactly one value, or certainly NULL."""
        return np.where(self.there, ~self.null & (self.low == self.high), True)


@dataclass(frozen=True)
class PossibleTruths:
    """Whether a condition may be true, false or NULL in each cell; several may be possible."""

    true: Bools
    false: Bools
    null: Bools

    @property
    def sure(self) -> Bools:
        return self.true.astype(int) + self.false + self.null == 1


@dataclass(frozen=True)
class Texts:
    """Texts per cell, None for NULL, and where another text is possible too."""

    value: NDArray[Any]
    open: Bools

    @property
    def sure(self) -> Bools:
        return ~self.open

    @property
    def null(self) -> Bools:
        return np.asarray(self.value == None)  # noqa: E711 - cell by cell


Cells = Spans | PossibleTruths | Texts
Evaluation = Callable[[Call, list[Cells]], Cells]
"""Computes what a function can return in each cell, from what its arguments can be."""


def point(value: Any) -> tuple[float, float]:
    """Return the doubles around a value: both equal it, unless it is an integer that no double represents."""
    if isinstance(value, dt.datetime):
        value = (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        value = (value - EPOCH).days
    double = float(value)
    if isinstance(value, Fraction) or double == value:
        return double, double
    return math.nextafter(double, -math.inf), math.nextafter(double, math.inf)


def cells_of(attribute: Attribute, domain: Domain) -> Cells:
    """Return what a column can be in each of its cells."""
    kind = attribute.type
    cell_values = [cell.value if isinstance(cell, ListedCell) else None for cell in attribute.cells]
    if kind is Type.TEXT:
        return Texts(_object_array(cell_values), np.zeros(len(cell_values), bool))
    if kind is Type.BOOLEAN:
        true, false = (np.array([cell_value is truth for cell_value in cell_values], bool) for truth in (True, False))
        return PossibleTruths(true, false, ~(true | false))
    own_cells = {point(cell_value) for cell_value in cell_values if cell_value is not None}
    intervals = [_interval(cell, kind, own_cells) for cell in attribute.cells[:-1]] + [
        _uncovered_range(attribute, domain)
    ]
    low, high = (np.array([interval[end] for interval in intervals], float) for end in (0, 1))
    null = np.zeros(len(intervals), bool)
    null[-1] = True
    return Spans(low, high, ~np.isnan(low), null)


def _interval(cell: Any, kind: Type, own_cells: Container[tuple[float, float]]) -> tuple[float, float]:
    """Return the least and the greatest value of a cell; values with cells of their own are not in a bin."""
    if isinstance(cell, ListedCell):
        return point(cell.value)
    low, high = point(cell.low)[0], point(cell.high)[1]
    if not cell.closed:
        high = _adjacent(high, kind, -1)
    while low < high and (low, low) in own_cells:
        low = _adjacent(low, kind, 1)
    while low < high and (high, high) in own_cells:
        high = _adjacent(high, kind, -1)
    return low, high


def _uncovered_range(attribute: Attribute, domain: Domain) -> tuple[float, float]:
    """Return the range that the last cell may hold beside NULL: what the bounds allow and no bin covers, or NaN."""
    bins = [cell for cell in attribute.cells if isinstance(cell, RangeCell)]
    if not bins:
        return math.nan, math.nan
    if domain.bounds is None:
        return -math.inf, math.inf
    low, high = point(domain.bounds[0])[0], point(domain.bounds[1])[1]
    if not (bins[-1].closed and all(earlier.high == later.low for earlier, later in pairwise(bins))):
        return low, high
    at_low, at_high = bins[0].low == domain.bounds[0], bins[-1].high == domain.bounds[1]
    if at_low and at_high:
        return math.nan, math.nan
    if at_low:
        return _adjacent(point(bins[-1].high)[0], attribute.type, 1), high
    return (low, _adjacent(point(bins[0].low)[1], attribute.type, -1)) if at_high else (low, high)


def _adjacent(number: float, kind: Type, step: int) -> float:
    """Return the adjacent number in a column of this type; ``step`` is 1 or -1."""
    return math.nextafter(number, step * math.inf) if kind is Type.REAL else number + step


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def constant(literal: Literal, shape: tuple[int, ...]) -> Cells:
    value, yes, no = literal.value, np.ones(shape, bool), np.zeros(shape, bool)
    if literal.domain.type is Type.TEXT or isinstance(value, str):
        return Texts(np.full(shape, value, dtype=object), no)
    if literal.domain.type is Type.BOOLEAN:
        return PossibleTruths(yes & (value is True), yes & (value is False), yes & (value is None))
    if value is None:
        return missing(shape)
    low, high = point(value)
    return Spans(np.full(shape, low), np.full(shape, high), yes, no)


def missing(shape: tuple[int, ...]) -> Spans:
    return Spans(np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, bool), np.ones(shape, bool))


def made(low: Floats, high: Floats, there: Bools, null: Bools) -> Spans:
    """Build spans in which results that overflow a real, or are undefined, may be NULL."""
    overflows = there & ~((np.abs(low) <= LARGEST) & (np.abs(high) <= LARGEST))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Spans(np.where(there, low, np.nan), np.where(there, high, np.nan), there, null | overflows)


def spans(found: Cells) -> Spans:
    """Convert cells to numbers: truths to 1 and 0, and a bare NULL to a missing number."""
    if isinstance(found, Spans):
        return found
    if isinstance(found, PossibleTruths):
        low, high = np.where(found.false, 0.0, 1.0), np.where(found.true, 1.0, 0.0)
        return made(low, high, found.true | found.false, found.null)
    if bool(found.null.all()):
        return missing(found.value.shape)
    raise Unsupported("type-mismatch", "a text is not a number", fix="compare it with a text")


def truths(found: Cells) -> PossibleTruths:
    """Convert cells to a condition; a bare NULL is never true."""
    if isinstance(found, PossibleTruths):
        return found
    never = np.zeros(found.sure.shape, bool)
    return PossibleTruths(never, never, np.ones(found.sure.shape, bool))
