"""An expression has, in a cell, one value, a range of them, or NULL: the cell alone says which.

A cell of listed values has one value, a bin has all from its first to its last, and the last cell of an attribute is
NULL; where bins leave out a part of what the policy allows, it may be that part too. Expressions are evaluated on
ranges: what comes out holds whatever comes out on any value inside, and is one value wherever all inputs are. Rounding
never falls, so ranges of doubles hold what the engine computes in doubles. Arrays have an axis for each attribute of
the question, of length 1 where an expression does not read it: a condition on two columns is never laid out over more.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import Unsupported
from sfumato.plan import calendar
from sfumato.plan.expressions import Call, Column, Expression, Literal, Reference
from sfumato.plan.functions.temporal import PARTS
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_REAL
from sfumato.publish.attributes import Attribute, Listed, Range

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_DAY = 86_400_000_000
_EPOCH = dt.date(1970, 1, 1)
_MOST_DAYS = 366
_LARGEST = float(LARGEST_REAL)


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
class Truths:
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


Cells = Spans | Truths | Texts


def point(value: Any) -> tuple[float, float]:
    """Give the doubles around a value: both are the value, unless it is a whole number that no double is."""
    if isinstance(value, dt.datetime):
        value = (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        value = (value - _EPOCH).days
    found = float(value)
    if isinstance(value, Fraction) or found == value:
        return found, found
    return math.nextafter(found, -math.inf), math.nextafter(found, math.inf)


def cells_of(attribute: Attribute, domain: Domain) -> Cells:
    """Say what a column can be in each of its cells."""
    kind, listed = attribute.type, [each.value if isinstance(each, Listed) else None for each in attribute.cells]
    if kind is Type.TEXT:
        return Texts(_objects(listed), np.zeros(len(listed), bool))
    if kind is Type.BOOLEAN:
        true, false = (np.array([each is truth for each in listed], bool) for truth in (True, False))
        return Truths(true, false, ~(true | false))
    alone = {point(each) for each in listed if each is not None}
    ends = [_ends(each, kind, alone) for each in attribute.cells[:-1]] + [_outside(attribute, domain)]
    low, high = (np.array([each[place] for each in ends], float) for place in (0, 1))
    null = np.zeros(len(ends), bool)
    null[-1] = True
    return Spans(low, high, ~np.isnan(low), null)


def _ends(cell: Any, kind: Type, alone: Container[tuple[float, float]]) -> tuple[float, float]:
    """Give the least and the greatest value of a cell; values with cells of their own are not in a bin."""
    if isinstance(cell, Listed):
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
    bins = [each for each in attribute.cells if isinstance(each, Range)]
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


def evaluate(expression: Expression, columns: Mapping[Reference, Cells], axes: int) -> Cells:
    """Say what an expression can be in each combination of cells; every column has so many axes."""
    if isinstance(expression, Column):
        return columns[expression.reference]
    if isinstance(expression, Literal):
        return _constant(expression, (1,) * axes)
    if expression.function not in _FUNCTIONS:
        known = ", ".join(sorted(_FUNCTIONS))
        rule = f"{expression.function} is not evaluated on the cells of a synopsis"
        raise Unsupported("function", rule, fix=f"use one of {known}")
    return _FUNCTIONS[expression.function](expression, [evaluate(each, columns, axes) for each in expression.arguments])


def _constant(literal: Literal, shape: tuple[int, ...]) -> Cells:
    value, yes, no = literal.value, np.ones(shape, bool), np.zeros(shape, bool)
    if literal.domain.type is Type.TEXT or isinstance(value, str):
        return Texts(np.full(shape, value, dtype=object), no)
    if literal.domain.type is Type.BOOLEAN:
        return Truths(yes & (value is True), yes & (value is False), yes & (value is None))
    if value is None:
        return _missing(shape)
    low, high = point(value)
    return Spans(np.full(shape, low), np.full(shape, high), yes, no)


def _missing(shape: tuple[int, ...]) -> Spans:
    return Spans(np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, bool), np.ones(shape, bool))


def _made(low: Floats, high: Floats, there: Bools, null: Bools) -> Spans:
    """Take what is too large for a real, or cannot be computed, as what may be NULL."""
    wide = there & ~((np.abs(low) <= _LARGEST) & (np.abs(high) <= _LARGEST))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Spans(np.where(there, low, np.nan), np.where(there, high, np.nan), there, null | wide)


def spans(found: Cells) -> Spans:
    """Read truths as numbers, 1 and 0, and a bare NULL as a missing number."""
    if isinstance(found, Spans):
        return found
    if isinstance(found, Truths):
        low, high = np.where(found.false, 0.0, 1.0), np.where(found.true, 1.0, 0.0)
        return _made(low, high, found.true | found.false, found.null)
    if bool(found.null.all()):
        return _missing(found.value.shape)
    raise Unsupported("type-mismatch", "a text is no number", fix="compare it with a text")


def truths(found: Cells) -> Truths:
    """Read a condition; a bare NULL is one that is never true."""
    if isinstance(found, Truths):
        return found
    nothing = np.zeros(found.sure.shape, bool)
    return Truths(nothing, nothing, np.ones(found.sure.shape, bool))


# Arithmetic


def _corners(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Cells]], Cells]:
    def made(_: Call, arguments: list[Cells]) -> Cells:
        left, right = map(spans, arguments)
        with np.errstate(all="ignore"):
            ends = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = reduce(np.minimum, ends), reduce(np.maximum, ends)
        return _made(low, high, left.there & right.there, left.null | right.null)

    return made


def _divide(call: Call, arguments: list[Cells]) -> Cells:
    left, right = map(spans, arguments)
    crosses = (right.low <= 0) & (right.high >= 0)
    zero = (right.low == 0) & (right.high == 0)
    found = spans(_corners(np.divide)(call, [left, right]))
    low, high = np.where(crosses, -np.inf, found.low), np.where(crosses, np.inf, found.high)
    return _made(low, high, found.there & ~zero, found.null | (crosses & right.there))


def _divide_whole(call: Call, arguments: list[Cells]) -> Cells:
    return _rising(np.trunc)(call, [_divide(call, arguments)])


def _modulo(call: Call, arguments: list[Cells]) -> Cells:
    left, right = map(spans, arguments)
    whole = call.domain.type is Type.INTEGER
    with np.errstate(all="ignore"):
        quotient = np.trunc(left.low / right.low)
        value = np.fmod(left.low, right.low) if whole else left.low - right.low * quotient
    most = np.maximum(np.abs(right.low), np.abs(right.high))
    single = (left.low == left.high) & (right.low == right.high)
    zero, crosses = (right.low == 0) & (right.high == 0), (right.low <= 0) & (right.high >= 0)
    there, null = left.there & right.there & ~zero, left.null | right.null | (crosses & right.there)
    return _made(np.where(single, value, -most), np.where(single, value, most), there, null)


def _rising(operate: Callable[[Floats], Floats]) -> Callable[[Call, list[Cells]], Cells]:
    """Apply a function of one number that never falls."""

    def made(_: Call, arguments: list[Cells]) -> Cells:
        found = spans(arguments[0])
        with np.errstate(all="ignore"):
            return _made(operate(found.low), operate(found.high), found.there, found.null)

    return made


def _round(call: Call, arguments: list[Cells]) -> Cells:
    digits = call.arguments[1] if len(call.arguments) > 1 else None
    if digits is not None and not isinstance(digits, Literal):
        raise Unsupported("function", "ROUND has a written number of digits here", fix="write ROUND(x, 1)")
    places = 10.0 ** int(digits.value if digits is not None else 0)  # type: ignore[arg-type]
    return _rising(lambda x: np.copysign(np.floor(np.abs(x) * places + 0.5) / places, x))(call, arguments[:1])


def _sqrt(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    low, high = (np.sqrt(np.maximum(each, 0)) for each in (found.low, found.high))
    return _made(low, high, found.there & (found.high >= 0), found.null | (found.there & (found.low < 0)))


def _negate(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    return Spans(-found.high, -found.low, found.there, found.null)


def _abs(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    ends = np.abs(found.low), np.abs(found.high)
    low = np.where((found.low <= 0) & (found.high >= 0), 0.0, np.minimum(*ends))
    return Spans(np.where(found.there, low, np.nan), np.maximum(*ends), found.there, found.null)


def _extreme(least: bool) -> Callable[[Call, list[Cells]], Cells]:
    """Compute LEAST and GREATEST, which pass over NULL: GREATEST is LEAST of the negated."""

    def made(call: Call, arguments: list[Cells]) -> Cells:
        found = [spans(each) for each in arguments]
        if not least:
            return _negate(call, [_extreme(least=True)(call, [_negate(call, [each]) for each in found])])
        low = reduce(np.fmin, [each.low for each in found])
        surely = reduce(np.fmin, [np.where(each.there & ~each.null, each.high, np.nan) for each in found])
        high = np.where(np.isnan(surely), reduce(np.fmax, [each.high for each in found]), surely)
        there = reduce(np.logical_or, [each.there for each in found])
        return _made(low, high, there, reduce(np.logical_and, [each.null for each in found]))

    return made


def _cast(call: Call, arguments: list[Cells]) -> Cells:
    """Read as another type: a real becomes a whole number with ties to even, a time its day."""
    found, kind, before = arguments[0], call.domain.type, call.arguments[0].domain.type
    if kind is before or (isinstance(found, Texts) and bool(found.null.all())):
        return found
    if isinstance(found, Texts) or kind in (Type.TEXT, Type.BOOLEAN):
        raise Unsupported("function", "texts are not made or read from cells", fix="compare the value itself")
    numbers = spans(found)
    if kind is Type.TIMESTAMP and before is Type.DATE:
        return _made(numbers.low * _DAY, numbers.high * _DAY, numbers.there, numbers.null)
    if kind is Type.DATE and before is Type.TIMESTAMP:
        return _rising(lambda x: np.floor(x / _DAY))(call, [numbers])
    if kind is Type.INTEGER and before is Type.REAL:
        return _rising(np.rint)(call, [numbers])
    return numbers


# Conditions


def _compare(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Cells]], Cells]:
    def made(_: Call, arguments: list[Cells]) -> Cells:
        return _compared(arguments[0], arguments[1], operate)

    return made


def _compared(left: Cells, right: Cells, operate: Callable[[Any, Any], Any]) -> Truths:
    if isinstance(left, Texts) and isinstance(right, Texts):
        return _compared_texts(left, right, operate)
    a, b = spans(left), spans(right)
    both, null = a.there & b.there, a.null | b.null
    with np.errstate(invalid="ignore"):
        overlap, same = (a.low <= b.high) & (b.low <= a.high), (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
        if operate is operator.eq:
            return Truths(both & overlap, both & ~same, null)
        if operate is operator.ne:
            return Truths(both & ~same, both & overlap, null)
        ends = (a.low, b.high), (a.high, b.low)
        rising = ends if operate in (operator.lt, operator.le) else ends[::-1]
        return Truths(both & operate(*rising[0]), both & ~operate(*rising[1]), null)


def _compared_texts(left: Texts, right: Texts, operate: Callable[[Any, Any], Any]) -> Truths:
    null = left.null | right.null
    pairs = np.broadcast_arrays(left.value, right.value, null)
    flat = (bool(not gone and operate(a, b)) for a, b, gone in zip(*(each.ravel() for each in pairs), strict=True))
    true = np.fromiter(flat, bool, pairs[0].size).reshape(pairs[0].shape)
    unsure = left.open | right.open
    return Truths((true & ~null) | unsure, (~true & ~null) | unsure, null | unsure)


def _and(_: Call, arguments: list[Cells]) -> Truths:
    found = [truths(each) for each in arguments]
    true = reduce(np.logical_and, [each.true for each in found])
    false = reduce(np.logical_or, [each.false for each in found])
    unfalse = reduce(np.logical_and, [each.true | each.null for each in found])
    return Truths(true, false, unfalse & reduce(np.logical_or, [each.null for each in found]))


def _not(_: Call, arguments: list[Cells]) -> Truths:
    found = truths(arguments[0])
    return Truths(found.false, found.true, found.null)


def _or(call: Call, arguments: list[Cells]) -> Truths:
    return _not(call, [_and(call, [_not(call, [each]) for each in arguments])])


def _between(call: Call, arguments: list[Cells]) -> Truths:
    value, low, high = arguments
    return _and(call, [_compared(value, low, operator.ge), _compared(value, high, operator.le)])


def _in(call: Call, arguments: list[Cells]) -> Truths:
    return _or(call, [_compared(arguments[0], each, operator.eq) for each in arguments[1:]])


def _is_null(_: Call, arguments: list[Cells]) -> Truths:
    found = arguments[0]
    if isinstance(found, Texts):
        return Truths(found.null | found.open, ~found.null | found.open, np.zeros(found.open.shape, bool))
    there = found.there if isinstance(found, Spans) else found.true | found.false
    return Truths(found.null, there, np.zeros(there.shape, bool))


def _is(truth: bool) -> Callable[[Call, list[Cells]], Cells]:
    def made(call: Call, arguments: list[Cells]) -> Truths:
        found = truths(arguments[0]) if truth else _not(call, arguments)
        return Truths(found.true, found.false | found.null, np.zeros(found.true.shape, bool))

    return made


def _like(call: Call, arguments: list[Cells]) -> Truths:
    found, pattern = arguments[0], call.arguments[1]
    assert isinstance(pattern, Literal)
    if not isinstance(found, Texts):
        found = Texts(np.full(found.sure.shape, None, dtype=object), np.zeros(found.sure.shape, bool))
    folded = call.function == "ILIKE"
    written = str(pattern.value).lower() if folded else str(pattern.value)
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in written)
    test = re.compile("".join(parts), re.DOTALL)
    texts = found.value.ravel().tolist()
    flat = (each is not None and bool(test.fullmatch(each.lower() if folded else each)) for each in texts)
    true = np.fromiter(flat, bool, found.value.size).reshape(found.value.shape)
    return Truths(true | found.open, (~true & ~found.null) | found.open, found.null | found.open)


# Choices


def _case(call: Call, arguments: list[Cells]) -> Cells:
    """Evaluate WHEN … THEN … pairs and what else: every branch that may be taken counts."""
    pairs = [(truths(arguments[k]), arguments[k + 1]) for k in range(0, len(arguments) - 1, 2)]
    branches, left = [], np.ones((1,) * arguments[0].sure.ndim, bool)
    for test, value in pairs:
        branches.append((left & test.true, value))
        left = left & (test.false | test.null)
    rest = arguments[-1] if len(arguments) % 2 else _missing((1,) * left.ndim)
    return _united(call, [*branches, (left, rest)])


def _coalesce(call: Call, arguments: list[Cells]) -> Cells:
    branches, left = [], np.ones((1,) * arguments[0].sure.ndim, bool)
    for each in arguments:
        test = _is_null(call, [each])
        branches.append((left & test.false, _present(each)))
        left = left & test.true
    return _united(call, [*branches, (left, _missing((1,) * left.ndim))])


def _present(found: Cells) -> Cells:
    """Give what is there of it: never NULL."""
    if isinstance(found, Spans):
        return Spans(found.low, found.high, found.there, np.zeros(found.null.shape, bool))
    return Truths(found.true, found.false, np.zeros(found.null.shape, bool)) if isinstance(found, Truths) else found


def _nullif(call: Call, arguments: list[Cells]) -> Cells:
    same = _compared(arguments[0], arguments[1], operator.eq)
    nothing = _missing((1,) * same.true.ndim)
    return _united(call, [(same.true, nothing), (same.false | same.null, arguments[0])])


def _united(call: Call, branches: list[tuple[Bools, Cells]]) -> Cells:
    """Say what a choice can be, between branches each of which may be taken where it says so."""
    if call.domain.type is Type.TEXT:
        return _united_texts(branches)
    if call.domain.type is Type.BOOLEAN:
        each = [(taken, truths(found)) for taken, found in branches]
        parts = [[taken & getattr(found, name) for taken, found in each] for name in ("true", "false", "null")]
        return Truths(*(reduce(np.logical_or, part) for part in parts))
    every = [(taken, spans(found)) for taken, found in branches]
    low = reduce(np.fmin, [np.where(taken & found.there, found.low, np.nan) for taken, found in every])
    high = reduce(np.fmax, [np.where(taken & found.there, found.high, np.nan) for taken, found in every])
    there = reduce(np.logical_or, [taken & found.there for taken, found in every])
    return Spans(low, high, there, reduce(np.logical_or, [taken & found.null for taken, found in every]))


def _united_texts(branches: list[tuple[Bools, Cells]]) -> Texts:
    shape = np.broadcast_shapes(*(taken.shape for taken, _ in branches), *(each.sure.shape for _, each in branches))
    value, open_, taken_before = np.full(shape, None, dtype=object), np.zeros(shape, bool), np.zeros(shape, bool)
    for taken, each in branches:
        if isinstance(each, Texts):
            texts, unsure = np.broadcast_to(each.value, shape), each.open
        else:
            texts, unsure = np.full(shape, None, dtype=object), np.zeros((), bool)
        here = np.broadcast_to(taken, shape)
        differs = np.not_equal(value, texts).astype(bool)
        open_ = open_ | (here & (unsure | (taken_before & differs)))
        value = np.where(here & ~taken_before, texts, value)
        taken_before = taken_before | here
    return Texts(value, open_)


# Dates


def _moment(number: float, kind: Type) -> Any:
    if kind is Type.DATE:
        return _EPOCH + dt.timedelta(days=int(number))
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))


def _each_end(found: Spans, kind: Type, made: Callable[[Any], float]) -> tuple[Floats, Floats]:
    """Apply a function that never falls to the moments at both ends; an end outside the calendar has none."""

    def end(number: float) -> float:
        return math.nan if not math.isfinite(number) else made(_moment(number, kind))

    apply = np.vectorize(end, otypes=[float])
    return (apply(found.low), apply(found.high)) if found.low.size else (found.low, found.high)


def _trunc(call: Call, arguments: list[Cells]) -> Cells:
    unit, found, kind = _written(call, 0), spans(arguments[1]), call.domain.type
    ends = _each_end(found, kind, lambda moment: point(calendar.truncated(unit, moment))[0])
    return _made(*ends, found.there, found.null)


def _extract(call: Call, arguments: list[Cells]) -> Cells:
    part, found, kind = _written(call, 0), spans(arguments[1]), call.arguments[1].domain.type
    ends = [_parts(part, low, high, kind) for low, high in zip(found.low.ravel(), found.high.ravel(), strict=True)]
    low, high = (np.array([each[place] for each in ends], float).reshape(found.low.shape) for place in (0, 1))
    return _made(low, high, found.there, found.null)


def _parts(part: str, low: float, high: float, kind: Type) -> tuple[float, float]:
    """Find the least and the greatest that a part of a date is between two moments."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return (-math.inf, math.inf) if part == "year" else PARTS[part]
    if low == high:
        value = _part(part, _moment(low, kind))
        return value, value
    if part in ("hour", "minute", "second"):
        return PARTS[part]
    first, last = _moment(low, kind), _moment(high, kind)
    if part == "year":
        return first.year, last.year
    days = (last.toordinal() - first.toordinal()) + 1
    if days > _MOST_DAYS:
        return PARTS[part]
    values = [_part(part, dt.date.fromordinal(first.toordinal() + each)) for each in range(days)]
    return min(values), max(values)


def _part(part: str, moment: dt.date) -> int:
    known: dict[str, Callable[[Any], int]] = {
        "quarter": lambda x: (x.month - 1) // 3 + 1,
        "week": lambda x: x.isocalendar()[1],
        "dow": lambda x: x.isoweekday() % 7,
        "isodow": lambda x: x.isoweekday(),
        "doy": lambda x: x.timetuple().tm_yday,
    }
    return known[part](moment) if part in known else int(getattr(moment, part))


def _written(call: Call, place: int) -> str:
    unit = call.arguments[place]
    assert isinstance(unit, Literal)
    return str(unit.value)


def _diff(call: Call, arguments: list[Cells]) -> Cells:
    """Count what lies between: it rises with the end and falls with the start."""
    unit, start, end = _written(call, 0), spans(arguments[1]), spans(arguments[2])
    kind = call.arguments[1].domain.type

    def count(first: float, last: float) -> float:
        if not (math.isfinite(first) and math.isfinite(last)):
            return math.nan
        return calendar.between(unit, _moment(first, kind), _moment(last, kind))

    apply = np.vectorize(count, otypes=[float])
    low, high = apply(start.high, end.low), apply(start.low, end.high)
    return _made(low, high, start.there & end.there, start.null | end.null)


def _add(call: Call, arguments: list[Cells]) -> Cells:
    found, kind, unit = spans(arguments[0]), call.domain.type, _written(call, 2)
    amount = call.arguments[1]
    assert isinstance(amount, Literal)
    steps = int(amount.value)  # type: ignore[arg-type]

    def moved(moment: Any) -> float:
        there = calendar.shifted(moment, steps, unit)
        return math.nan if there is None else point(there)[0]

    return _made(*_each_end(found, kind, moved), found.there, found.null)


_FUNCTIONS: dict[str, Callable[[Call, list[Cells]], Cells]] = {
    "+": _corners(np.add),
    "-": _corners(np.subtract),
    "*": _corners(np.multiply),
    "/": _divide,
    "//": _divide_whole,
    "%": _modulo,
    "NEGATE": _negate,
    "ABS": _abs,
    "ROUND": _round,
    "FLOOR": _rising(np.floor),
    "CEIL": _rising(np.ceil),
    "TRUNC": _rising(np.trunc),
    "SIGN": _rising(np.sign),
    "SQRT": _sqrt,
    "LEAST": _extreme(least=True),
    "GREATEST": _extreme(least=False),
    "CAST": _cast,
    "=": _compare(operator.eq),
    "<>": _compare(operator.ne),
    "<": _compare(operator.lt),
    "<=": _compare(operator.le),
    ">": _compare(operator.gt),
    ">=": _compare(operator.ge),
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "BETWEEN": _between,
    "IN": _in,
    "IS NULL": _is_null,
    "IS TRUE": _is(truth=True),
    "IS FALSE": _is(truth=False),
    "LIKE": _like,
    "ILIKE": _like,
    "CASE": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "DATE_TRUNC": _trunc,
    "EXTRACT": _extract,
    "DATE_DIFF": _diff,
    "DATE_ADD": _add,
}
