"""An expression has, in a cell, one value, a range of them, or NULL: the cell alone says which.

A cell of listed values has one value, a bin has all from its first to its last, and the last cell of an attribute is
NULL; where bins leave out a part of what the policy allows, it may be that part too. Expressions are evaluated on
ranges (``cell_functions``): what comes out holds whatever comes out on any value inside, and is one value wherever all
inputs are. Rounding never falls, so ranges of doubles hold what the engine computes in doubles. Arrays have an axis for
each attribute of the question, of length 1 where an expression does not read it: a condition on two columns is never
laid out over more.
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
    """These are numbers, days or microseconds, from the least to the greatest, where there may be a value."""

    low: Floats
    high: Floats
    there: Bools
    """Whether it may be a value,"""
    null: Bools
    """and whether it may be NULL."""

    @property
    def sure(self) -> Bools:
        """Tell where it is one value, or surely NULL."""
        return np.where(self.there, ~self.null & (self.low == self.high), True)


@dataclass(frozen=True)
class PossibleTruths:
    """This says of a condition whether it may be true, false or NULL."""

    true: Bools
    false: Bools
    null: Bools

    @property
    def sure(self) -> Bools:
        return self.true.astype(int) + self.false + self.null == 1


@dataclass(frozen=True)
class Texts:
    """These are texts, None for NULL, and where they may also be something else."""

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
"""Says what a function can be in each cell, from what its arguments can be."""


def point(value: Any) -> tuple[float, float]:
    """Give the doubles around a value: both are the value, unless it is a whole number that no double is."""
    if isinstance(value, dt.datetime):
        value = (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        value = (value - EPOCH).days
    found = float(value)
    if isinstance(value, Fraction) or found == value:
        return found, found
    return math.nextafter(found, -math.inf), math.nextafter(found, math.inf)


def cells_of(attribute: Attribute, domain: Domain) -> Cells:
    """Say what a column can be in each of its cells."""
    kind, listed = attribute.type, [each.value if isinstance(each, ListedCell) else None for each in attribute.cells]
    if kind is Type.TEXT:
        return Texts(_objects(listed), np.zeros(len(listed), bool))
    if kind is Type.BOOLEAN:
        true, false = (np.array([each is truth for each in listed], bool) for truth in (True, False))
        return PossibleTruths(true, false, ~(true | false))
    alone = {point(each) for each in listed if each is not None}
    ends = [_ends(each, kind, alone) for each in attribute.cells[:-1]] + [_outside(attribute, domain)]
    low, high = (np.array([each[place] for each in ends], float) for place in (0, 1))
    null = np.zeros(len(ends), bool)
    null[-1] = True
    return Spans(low, high, ~np.isnan(low), null)


def _ends(cell: Any, kind: Type, alone: Container[tuple[float, float]]) -> tuple[float, float]:
    """Give the least and the greatest value of a cell; values with cells of their own are not in a bin."""
    if isinstance(cell, ListedCell):
        return point(cell.value)
    low, high = point(cell.low)[0], point(cell.high)[1]
    if not cell.closed:
        high = _beside(high, kind, -1)
    while low < high and (low, low) in alone:
        low = _beside(low, kind, 1)
    while low < high and (high, high) in alone:
        high = _beside(high, kind, -1)
    return low, high


def _outside(attribute: Attribute, domain: Domain) -> tuple[float, float]:
    """Find what the last cell may hold beside NULL: nothing, unless bins leave out a part of what is allowed."""
    bins = [each for each in attribute.cells if isinstance(each, RangeCell)]
    if not bins:
        return math.nan, math.nan
    if domain.bounds is None:
        return -math.inf, math.inf
    low, high = point(domain.bounds[0])[0], point(domain.bounds[1])[1]
    if not (bins[-1].closed and all(one.high == other.low for one, other in pairwise(bins))):
        return low, high
    starts, ends = bins[0].low == domain.bounds[0], bins[-1].high == domain.bounds[1]
    if starts and ends:
        return math.nan, math.nan
    if starts:
        return _beside(point(bins[-1].high)[0], attribute.type, 1), high
    return (low, _beside(point(bins[0].low)[1], attribute.type, -1)) if ends else (low, high)


def _beside(number: float, kind: Type, step: int) -> float:
    """Give the next number that a column of this type can hold."""
    return math.nextafter(number, step * math.inf) if kind is Type.REAL else number + step


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


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
    """Take what is too large for a real, or cannot be computed, as what may be NULL."""
    wide = there & ~((np.abs(low) <= LARGEST) & (np.abs(high) <= LARGEST))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Spans(np.where(there, low, np.nan), np.where(there, high, np.nan), there, null | wide)


def spans(found: Cells) -> Spans:
    """Read truths as numbers, 1 and 0, and a bare NULL as a missing number."""
    if isinstance(found, Spans):
        return found
    if isinstance(found, PossibleTruths):
        low, high = np.where(found.false, 0.0, 1.0), np.where(found.true, 1.0, 0.0)
        return made(low, high, found.true | found.false, found.null)
    if bool(found.null.all()):
        return missing(found.value.shape)
    raise Unsupported("type-mismatch", "a text is no number", fix="compare it with a text")


def truths(found: Cells) -> PossibleTruths:
    """Read a condition; a bare NULL is one that is never true."""
    if isinstance(found, PossibleTruths):
        return found
    nothing = np.zeros(found.sure.shape, bool)
    return PossibleTruths(nothing, nothing, np.ones(found.sure.shape, bool))
