"""Functions of numbers are evaluated on cells: at both ends of a range, wherever they never fall or never rise.

Logarithms and powers are right within one unit in the last place, here and in every engine: of a range both ends are
widened by two of them, of one value it is the nearest double that the system's mathematics gives.

Functions of dates and times are evaluated on cells: at both ends of a bin, or on every day of it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from sfumato.errors import Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Literal
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.policy import Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.publish.cells.cell_values import (
    EPOCH,
    LARGEST,
    Cells,
    Evaluation,
    Floats,
    Spans,
    Texts,
    made,
    point,
    spans,
)

_FARTHEST_EXPONENT = 400
"""Beyond it, e to the power x is surely larger than 2^500 or smaller than 2^-500."""
_LEAST_LOGARITHM = -347.0
"""Of the least positive real."""
_SMALLEST = float(SMALLEST_REAL)


def _corners(operate: Callable[[Any, Any], Any]) -> Evaluation:
    def evaluation(_: Call, arguments: list[Cells]) -> Cells:
        left, right = map(spans, arguments)
        with np.errstate(all="ignore"):
            ends = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = reduce(np.minimum, ends), reduce(np.maximum, ends)
        return made(low, high, left.there & right.there, left.null | right.null)

    return evaluation


def _divide(call: Call, arguments: list[Cells]) -> Cells:
    left, right = map(spans, arguments)
    crosses = (right.low <= 0) & (right.high >= 0)
    zero = (right.low == 0) & (right.high == 0)
    found = spans(_corners(np.divide)(call, [left, right]))
    low, high = np.where(crosses, -np.inf, found.low), np.where(crosses, np.inf, found.high)
    return made(low, high, found.there & ~zero, found.null | (crosses & right.there))


def _divide_whole(call: Call, arguments: list[Cells]) -> Cells:
    return rising(np.trunc)(call, [_divide(call, arguments)])


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
    return made(np.where(single, value, -most), np.where(single, value, most), there, null)


def rising(operate: Callable[[Floats], Floats]) -> Evaluation:
    """Apply a function of one number that never falls."""

    def evaluation(_: Call, arguments: list[Cells]) -> Cells:
        found = spans(arguments[0])
        with np.errstate(all="ignore"):
            return made(operate(found.low), operate(found.high), found.there, found.null)

    return evaluation


def _round(call: Call, arguments: list[Cells]) -> Cells:
    digits = call.arguments[1] if len(call.arguments) > 1 else None
    if digits is not None and not isinstance(digits, Literal):
        raise Unsupported("function", "ROUND has a written number of digits here", fix="write ROUND(x, 1)")
    count = int(digits.value if digits is not None else 0)  # type: ignore[arg-type]
    power = 10.0 ** abs(count)

    def rounded(x: Floats) -> Floats:
        """Scale, round halves away from 0, and scale back, as the engine does."""
        size = np.abs(x) * power if count >= 0 else np.abs(x) / power
        whole = np.trunc(size) + (size - np.trunc(size) >= 0.5)
        return np.copysign(whole / power if count >= 0 else whole * power, x)

    return rising(rounded)(call, arguments[:1])


def _sqrt(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    low, high = (np.sqrt(np.maximum(each, 0)) for each in (found.low, found.high))
    return made(low, high, found.there & (found.high >= 0), found.null | (found.there & (found.low < 0)))


def _negate(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    return Spans(-found.high, -found.low, found.there, found.null)


def _abs(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    ends = np.abs(found.low), np.abs(found.high)
    low = np.where((found.low <= 0) & (found.high >= 0), 0.0, np.minimum(*ends))
    return Spans(np.where(found.there, low, np.nan), np.maximum(*ends), found.there, found.null)


def _extreme(least: bool) -> Evaluation:
    """Compute LEAST and GREATEST, which pass over NULL: GREATEST is LEAST of the negated."""

    def evaluation(call: Call, arguments: list[Cells]) -> Cells:
        found = [spans(each) for each in arguments]
        if not least:
            return _negate(call, [_extreme(least=True)(call, [_negate(call, [each]) for each in found])])
        low = reduce(np.fmin, [each.low for each in found])
        surely = reduce(np.fmin, [np.where(each.there & ~each.null, each.high, np.nan) for each in found])
        high = np.where(np.isnan(surely), reduce(np.fmax, [each.high for each in found]), surely)
        there = reduce(np.logical_or, [each.there for each in found])
        return made(low, high, there, reduce(np.logical_and, [each.null for each in found]))

    return evaluation


def _curve(function: Callable[..., float], *ends: Floats) -> Floats:
    """Apply a function of single numbers to all of them; what it is not defined for is no number."""
    with np.errstate(all="ignore"):
        return np.asarray(np.vectorize(function, otypes=[float])(*ends))


def _held(value: float) -> float:
    """Give a computed real as the engine does: NULL above 2^500, 0 below 2^-500."""
    if abs(value) > LARGEST:
        return math.nan
    return 0.0 if abs(value) < _SMALLEST else value


def _widened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Widen ranges, not values, by what logarithms and powers may be wrong."""
    wide = low != high
    for _ in range(2):
        low, high = np.where(wide, np.nextafter(low, -np.inf), low), np.where(wide, np.nextafter(high, np.inf), high)
    return low, high


def _ln(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    there = found.there & (found.high > 0)
    positive = found.low > 0
    low = np.where(positive, _curve(lambda x: math.log(x) if x > 0 else math.nan, found.low), _LEAST_LOGARITHM)
    high = _curve(lambda x: math.log(x) if 0 < x < math.inf else math.inf, found.high)
    low, high = _widened(low, high)
    return made(low, high, there, found.null | (found.there & ~positive))


def _exp_of(x: float) -> float:
    if math.isnan(x) or abs(x) <= _FARTHEST_EXPONENT:
        return _held(math.exp(x))
    return 0.0 if x < 0 else math.nan


def _exp(_: Call, arguments: list[Cells]) -> Cells:
    found = spans(arguments[0])
    low, high = _curve(_exp_of, found.low), _curve(_exp_of, found.high)
    there, null = found.there & ~np.isnan(low), found.null | (found.there & np.isnan(high))
    low, high = _widened(low, np.where(np.isnan(high), LARGEST, high))
    return made(np.maximum(low, 0.0), high, there, null)


def _power_of(x: float, y: float) -> float:
    """Give x to the power y as the engine does: of 0 by rules of its own, of numbers below 0 for a whole y alone."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == 0:
        return 0.0 if y > 0 else 1.0 if y == 0 else math.nan
    if x < 0 and y != math.floor(y):
        return math.nan
    exponent = y * math.log(abs(x))
    if abs(exponent) > _FARTHEST_EXPONENT:
        return 0.0 if exponent < 0 else math.nan
    return _held(math.pow(x, y))


def _pow(_: Call, arguments: list[Cells]) -> Cells:
    """x^y never turns in either argument where x > 0, and for one whole y on each side of 0; elsewhere nothing is
    known of it.
    """
    x, y = spans(arguments[0]), spans(arguments[1])
    finite = np.isfinite(x.low) & np.isfinite(x.high) & np.isfinite(y.low) & np.isfinite(y.high)
    one = (x.low == x.high) & (y.low == y.high)
    whole = (y.low == y.high) & (y.low == np.floor(y.low))
    crosses = (x.low <= 0) & (x.high >= 0)
    known = one | (finite & np.where(x.low > 0, True, whole & ~(crosses & (y.low < 0))))
    ends = [_curve(_power_of, *np.broadcast_arrays(a, b)) for a in (x.low, x.high) for b in (y.low, y.high)]
    ends += [np.where(crosses & whole & (y.low > 0), 0.0, ends[0])]
    nothing = reduce(np.logical_or, [np.isnan(each) for each in ends])
    low, high = _widened(reduce(np.fmin, ends), reduce(np.fmax, ends))
    low, high = (np.where(known & ~nothing, end, side) for end, side in ((low, -np.inf), (high, np.inf)))
    both = x.there & y.there
    return made(low, high, both & ~(one & nothing), x.null | y.null | (both & (nothing | ~known)))


def _bucket(call: Call, arguments: list[Cells]) -> Cells:
    """Find the bucket by the engine's own steps: each never falls."""
    low, high, count = (float(each.value) for each in call.arguments[1:] if isinstance(each, Literal))  # type: ignore[arg-type]

    def place(x: Floats) -> Floats:
        within = np.minimum(count, np.trunc((x - low) / (high - low) * count) + 1)
        return np.where(x < low, 0.0, np.where(x >= high, count + 1, within))

    return rising(place)(call, arguments[:1])


NUMBER_FUNCTIONS: dict[str, Evaluation] = {
    "+": _corners(np.add),
    "-": _corners(np.subtract),
    "*": _corners(np.multiply),
    "/": _divide,
    "//": _divide_whole,
    "%": _modulo,
    "NEGATE": _negate,
    "ABS": _abs,
    "ROUND": _round,
    "FLOOR": rising(np.floor),
    "CEIL": rising(np.ceil),
    "TRUNC": rising(np.trunc),
    "SIGN": rising(np.sign),
    "SQRT": _sqrt,
    "LN": _ln,
    "EXP": _exp,
    "POW": _pow,
    "WIDTH_BUCKET": _bucket,
    "LEAST": _extreme(least=True),
    "GREATEST": _extreme(least=False),
}


_MOST_DAYS = 366


def moment(number: float, kind: Type) -> Any:
    """Give the date or time that a number of days or microseconds stands for."""
    if kind is Type.DATE:
        return EPOCH + dt.timedelta(days=int(number))
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))


def _each_end(found: Spans, kind: Type, function: Callable[[Any], float]) -> tuple[Floats, Floats]:
    """Apply a function that never falls to the moments at both ends; an end outside the calendar has none."""

    def end(number: float) -> float:
        return math.nan if not math.isfinite(number) else function(moment(number, kind))

    apply = np.vectorize(end, otypes=[float])
    return (apply(found.low), apply(found.high)) if found.low.size else (found.low, found.high)


def _trunc(call: Call, arguments: list[Cells]) -> Cells:
    unit, found, kind = _written(call, 0), spans(arguments[1]), call.domain.type
    ends = _each_end(found, kind, lambda moment: point(calendar.truncated(unit, moment))[0])
    return made(*ends, found.there, found.null)


def _extract(call: Call, arguments: list[Cells]) -> Cells:
    part, found, kind = _written(call, 0), spans(arguments[1]), call.arguments[1].domain.type
    ends = [_parts(part, low, high, kind) for low, high in zip(found.low.ravel(), found.high.ravel(), strict=True)]
    low, high = (np.array([each[place] for each in ends], float).reshape(found.low.shape) for place in (0, 1))
    return made(low, high, found.there, found.null)


def _parts(part: str, low: float, high: float, kind: Type) -> tuple[float, float]:
    """Find the least and the greatest that a part of a date is between two moments."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return (-math.inf, math.inf) if part == "year" else PARTS[part]
    if low == high:
        value = _part(part, moment(low, kind))
        return value, value
    if part in ("hour", "minute", "second"):
        return PARTS[part]
    first, last = moment(low, kind), moment(high, kind)
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
        return calendar.between(unit, moment(first, kind), moment(last, kind))

    apply = np.vectorize(count, otypes=[float])
    low, high = apply(start.high, end.low), apply(start.low, end.high)
    return made(low, high, start.there & end.there, start.null | end.null)


def _add(call: Call, arguments: list[Cells]) -> Cells:
    found, kind, unit = spans(arguments[0]), call.domain.type, _written(call, 2)
    amount = call.arguments[1]
    assert isinstance(amount, Literal)
    steps = int(amount.value)  # type: ignore[arg-type]

    def moved(moment: Any) -> float:
        there = calendar.shifted(moment, steps, unit)
        return math.nan if there is None else point(there)[0]

    return made(*_each_end(found, kind, moved), found.there, found.null)


def _strftime(call: Call, arguments: list[Cells]) -> Texts:
    """Write dates as texts: one text for a whole bin, where all of its days have the parts that are written."""
    found, kind, pieces = spans(arguments[0]), call.arguments[0].domain.type, calendar.pieces(_written(call, 1))
    texts = np.empty(found.low.shape, dtype=object)
    open_ = found.there & found.null
    for place, (low, high, there) in enumerate(zip(found.low.flat, found.high.flat, found.there.flat, strict=True)):
        text = _text(pieces, low, high, kind) if there else None
        texts.flat[place] = text
        open_.flat[place] |= there and text is None
    return Texts(texts, open_)


def _text(pieces: tuple[str | calendar.Letter, ...], low: float, high: float, kind: Type) -> str | None:
    found = ""
    for each in pieces:
        if isinstance(each, str):
            found += each
            continue
        least, most = _parts(each.part, low, high, kind)
        if least != most:
            return None
        found += each.names[int(least) - 1] if each.names else str(int(least)).zfill(each.width)[-each.width :]
    return found


DATE_FUNCTIONS: dict[str, Evaluation] = {
    "DATE_TRUNC": _trunc,
    "EXTRACT": _extract,
    "DATE_DIFF": _diff,
    "DATE_ADD": _add,
    "STRFTIME": _strftime,
}
