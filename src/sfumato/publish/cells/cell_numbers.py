"""Evaluate numeric and date functions on ranges: monotone functions at both ends, others at their corners.

Logarithms and powers are correct within one unit in the last place, here and in every engine: both ends of a range are
widened by two units, and a single value is the nearest double that the system's math library returns.

Date and time functions are evaluated at both ends of a bin, or on every day of it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Literal
from sfumato.plan.values.functions.temporal import PARTS, written_bucket
from sfumato.policy import Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.publish.cells.cell_values import (
    EPOCH,
    LARGEST,
    CellFunction,
    CellOutcomes,
    CellTexts,
    ValueRanges,
    as_ranges,
    enclosing_doubles,
    ranges_with_overflow,
)

_FARTHEST_EXPONENT = 400
"""Beyond it, e^x is certainly above 2^500 or below 2^-500."""
_LEAST_LOGARITHM = -347.0
"""Below ln of the least positive real."""
_SMALLEST = float(SMALLEST_REAL)


def _lift_corner_operation(operate: Callable[[Any, Any], Any]) -> CellFunction:
    def evaluation(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
        left, right = map(as_ranges, arguments)
        with np.errstate(all="ignore"):
            ends = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = reduce(np.minimum, ends), reduce(np.maximum, ends)
        return ranges_with_overflow(low, high, left.may_have_value & right.may_have_value, left.null | right.null)

    return evaluation


def _divide(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    left, right = map(as_ranges, arguments)
    may_be_zero = (right.low <= 0) & (right.high >= 0)
    is_zero = (right.low == 0) & (right.high == 0)
    quotient = as_ranges(_lift_corner_operation(np.divide)(call, [left, right]))
    low, high = np.where(may_be_zero, -np.inf, quotient.low), np.where(may_be_zero, np.inf, quotient.high)
    return ranges_with_overflow(
        low, high, quotient.may_have_value & ~is_zero, quotient.null | (may_be_zero & right.may_have_value)
    )


def _divide_integers(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    return lift_nondecreasing(np.trunc)(call, [_divide(call, arguments)])


def _modulo(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    left, right = map(as_ranges, arguments)
    is_integer = call.domain.type is Type.INTEGER
    with np.errstate(all="ignore"):
        quotient = np.trunc(left.low / right.low)
        value = np.fmod(left.low, right.low) if is_integer else left.low - right.low * quotient
    largest_divisor = np.maximum(np.abs(right.low), np.abs(right.high))
    single = (left.low == left.high) & (right.low == right.high)
    is_zero, may_be_zero = (right.low == 0) & (right.high == 0), (right.low <= 0) & (right.high >= 0)
    there, null = (
        left.may_have_value & right.may_have_value & ~is_zero,
        left.null | right.null | (may_be_zero & right.may_have_value),
    )
    return ranges_with_overflow(
        np.where(single, value, -largest_divisor), np.where(single, value, largest_divisor), there, null
    )


def lift_nondecreasing(operate: Callable[[Floats], Floats]) -> CellFunction:
    """Lift a nondecreasing function of one number to ranges."""

    def evaluation(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
        argument = as_ranges(arguments[0])
        with np.errstate(all="ignore"):
            return ranges_with_overflow(
                operate(argument.low), operate(argument.high), argument.may_have_value, argument.null
            )

    return evaluation


def _round(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    digits = call.arguments[1] if len(call.arguments) > 1 else None
    if digits is not None and not isinstance(digits, Literal):
        raise Unsupported(
            "function",
            "the digits of ROUND must be written as a number in a question to a synopsis",
            fix="write ROUND(x, 1)",
        )
    count = int(digits.value if digits is not None else 0)  # type: ignore[arg-type]
    power = 10.0 ** abs(count)

    def rounded(x: Floats) -> Floats:
        """Scale, round half away from 0, and scale back, as the engine does."""
        size = np.abs(x) * power if count >= 0 else np.abs(x) / power
        whole = np.trunc(size) + (size - np.trunc(size) >= 0.5)
        return np.copysign(whole / power if count >= 0 else whole * power, x)

    return lift_nondecreasing(rounded)(call, arguments[:1])


def _sqrt(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument = as_ranges(arguments[0])
    low, high = (np.sqrt(np.maximum(end, 0)) for end in (argument.low, argument.high))
    return ranges_with_overflow(
        low,
        high,
        argument.may_have_value & (argument.high >= 0),
        argument.null | (argument.may_have_value & (argument.low < 0)),
    )


def _negate(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument = as_ranges(arguments[0])
    return ValueRanges(-argument.high, -argument.low, argument.may_have_value, argument.null)


def _abs(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument = as_ranges(arguments[0])
    ends = np.abs(argument.low), np.abs(argument.high)
    low = np.where((argument.low <= 0) & (argument.high >= 0), 0.0, np.minimum(*ends))
    return ValueRanges(
        np.where(argument.may_have_value, low, np.nan), np.maximum(*ends), argument.may_have_value, argument.null
    )


def _least_or_greatest(least: bool) -> CellFunction:
    """Evaluate LEAST or GREATEST, which ignore NULL; GREATEST is LEAST of the negated arguments."""

    def evaluation(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
        numbers = [as_ranges(argument) for argument in arguments]
        if not least:
            return _negate(
                call, [_least_or_greatest(least=True)(call, [_negate(call, [number]) for number in numbers])]
            )
        low = reduce(np.fmin, [number.low for number in numbers])
        certain_high = reduce(
            np.fmin, [np.where(number.may_have_value & ~number.null, number.high, np.nan) for number in numbers]
        )
        high = np.where(np.isnan(certain_high), reduce(np.fmax, [number.high for number in numbers]), certain_high)
        there = reduce(np.logical_or, [number.may_have_value for number in numbers])
        return ranges_with_overflow(low, high, there, reduce(np.logical_and, [number.null for number in numbers]))

    return evaluation


def _apply_scalar(function: Callable[..., float], *ends: Floats) -> Floats:
    """Apply a scalar function element by element; NaN where it is undefined."""
    with np.errstate(all="ignore"):
        return np.asarray(np.vectorize(function, otypes=[float])(*ends))


def _flush_or_nan(value: float) -> float:
    """Round a computed real as the engine does: NULL above 2^500, 0 below 2^-500."""
    if abs(value) > LARGEST:
        return math.nan
    return 0.0 if abs(value) < _SMALLEST else value


def _widen_by_rounding_error(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Widen ranges, not single values, by the error of logarithms and powers."""
    is_range = low != high
    for _ in range(2):
        low = np.where(is_range, np.nextafter(low, -np.inf), low)
        high = np.where(is_range, np.nextafter(high, np.inf), high)
    return low, high


def _ln(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument = as_ranges(arguments[0])
    there = argument.may_have_value & (argument.high > 0)
    positive = argument.low > 0
    low = np.where(
        positive, _apply_scalar(lambda x: math.log(x) if x > 0 else math.nan, argument.low), _LEAST_LOGARITHM
    )
    high = _apply_scalar(lambda x: math.log(x) if 0 < x < math.inf else math.inf, argument.high)
    low, high = _widen_by_rounding_error(low, high)
    return ranges_with_overflow(low, high, there, argument.null | (argument.may_have_value & ~positive))


def _exp_or_nan(x: float) -> float:
    if math.isnan(x) or abs(x) <= _FARTHEST_EXPONENT:
        return _flush_or_nan(math.exp(x))
    return 0.0 if x < 0 else math.nan


def _exp(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument = as_ranges(arguments[0])
    low, high = _apply_scalar(_exp_or_nan, argument.low), _apply_scalar(_exp_or_nan, argument.high)
    there, null = argument.may_have_value & ~np.isnan(low), argument.null | (argument.may_have_value & np.isnan(high))
    low, high = _widen_by_rounding_error(low, np.where(np.isnan(high), LARGEST, high))
    return ranges_with_overflow(np.maximum(low, 0.0), high, there, null)


def _power_or_nan(x: float, y: float) -> float:
    """Return x^y as the engine does: special rules for 0, and negative x only with an integer y."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == 0:
        return 0.0 if y > 0 else 1.0 if y == 0 else math.nan
    if x < 0 and y != math.floor(y):
        return math.nan
    exponent = y * math.log(abs(x))
    if abs(exponent) > _FARTHEST_EXPONENT:
        return 0.0 if exponent < 0 else math.nan
    return _flush_or_nan(math.pow(x, y))


def _pow(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Evaluate x^y: monotone in each argument if x > 0, and for an integer y on each side of 0; unknown elsewhere."""
    x, y = as_ranges(arguments[0]), as_ranges(arguments[1])
    finite = np.isfinite(x.low) & np.isfinite(x.high) & np.isfinite(y.low) & np.isfinite(y.high)
    is_single = (x.low == x.high) & (y.low == y.high)
    is_integer_power = (y.low == y.high) & (y.low == np.floor(y.low))
    may_be_zero = (x.low <= 0) & (x.high >= 0)
    is_monotone = is_single | (finite & np.where(x.low > 0, True, is_integer_power & ~(may_be_zero & (y.low < 0))))
    ends = [_apply_scalar(_power_or_nan, *np.broadcast_arrays(a, b)) for a in (x.low, x.high) for b in (y.low, y.high)]
    ends += [np.where(may_be_zero & is_integer_power & (y.low > 0), 0.0, ends[0])]
    undefined = reduce(np.logical_or, [np.isnan(value) for value in ends])
    low, high = _widen_by_rounding_error(reduce(np.fmin, ends), reduce(np.fmax, ends))
    low, high = (np.where(is_monotone & ~undefined, end, side) for end, side in ((low, -np.inf), (high, np.inf)))
    both_there = x.may_have_value & y.may_have_value
    return ranges_with_overflow(
        low, high, both_there & ~(is_single & undefined), x.null | y.null | (both_there & (undefined | ~is_monotone))
    )


def _width_bucket(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Evaluate WIDTH_BUCKET by the engine's own nondecreasing steps."""
    low, high, count = (float(argument.value) for argument in call.arguments[1:] if isinstance(argument, Literal))  # type: ignore[arg-type]

    def bucket_of(x: Floats) -> Floats:
        bucket = np.minimum(count, np.trunc((x - low) / (high - low) * count) + 1)
        return np.where(x < low, 0.0, np.where(x >= high, count + 1, bucket))

    return lift_nondecreasing(bucket_of)(call, arguments[:1])


NUMBER_FUNCTIONS: dict[str, CellFunction] = {
    "+": _lift_corner_operation(np.add),
    "-": _lift_corner_operation(np.subtract),
    "*": _lift_corner_operation(np.multiply),
    "/": _divide,
    "//": _divide_integers,
    "%": _modulo,
    "NEGATE": _negate,
    "ABS": _abs,
    "ROUND": _round,
    "FLOOR": lift_nondecreasing(np.floor),
    "CEIL": lift_nondecreasing(np.ceil),
    "TRUNC": lift_nondecreasing(np.trunc),
    "SIGN": lift_nondecreasing(np.sign),
    "SQRT": _sqrt,
    "LN": _ln,
    "EXP": _exp,
    "POW": _pow,
    "WIDTH_BUCKET": _width_bucket,
    "LEAST": _least_or_greatest(least=True),
    "GREATEST": _least_or_greatest(least=False),
}


_MAX_DAYS = 366


def moment_from_number(number: float, sql_type: Type) -> Any:
    """Return the date or timestamp that a number of days or microseconds stands for."""
    if sql_type is Type.DATE:
        return EPOCH + dt.timedelta(days=int(number))
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))


def _apply_at_ends(range_: ValueRanges, sql_type: Type, function: Callable[[Any], float]) -> tuple[Floats, Floats]:
    """Apply a nondecreasing function to the moments at both ends; NaN for an end outside the calendar."""

    def at_end(number: float) -> float:
        return math.nan if not math.isfinite(number) else function(moment_from_number(number, sql_type))

    apply = np.vectorize(at_end, otypes=[float])
    return (apply(range_.low), apply(range_.high)) if range_.low.size else (range_.low, range_.high)


def _date_trunc(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    unit, argument, kind = _literal_text(call, 0), as_ranges(arguments[1]), call.domain.type
    ends = _apply_at_ends(argument, kind, lambda moment: enclosing_doubles(calendar.truncate(unit, moment))[0])
    return ranges_with_overflow(*ends, argument.may_have_value, argument.null)


def _time_bucket(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    amount, unit, _, origin = call.arguments
    bucket, argument, kind = written_bucket(amount, unit, origin), as_ranges(arguments[2]), call.domain.type

    def start(moment: Any) -> float:
        bucket_start = bucket.start_of(moment)
        return math.nan if bucket_start is None else enclosing_doubles(bucket_start)[0]

    return ranges_with_overflow(*_apply_at_ends(argument, kind, start), argument.may_have_value, argument.null)


def _extract_date_part(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    part, argument, kind = _literal_text(call, 0), as_ranges(arguments[1]), call.arguments[1].domain.type
    ends = [
        _part_extremes(part, low, high, kind)
        for low, high in zip(argument.low.ravel(), argument.high.ravel(), strict=True)
    ]
    low, high = (np.array([interval[side] for interval in ends], float).reshape(argument.low.shape) for side in (0, 1))
    return ranges_with_overflow(low, high, argument.may_have_value, argument.null)


def _part_extremes(part: str, low: float, high: float, sql_type: Type) -> tuple[float, float]:
    """Return the least and the greatest value of a date part between two moments."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return (-math.inf, math.inf) if part == "year" else PARTS[part]
    if low == high:
        value = _date_part(part, moment_from_number(low, sql_type))
        return value, value
    if part in calendar.CLOCK:
        return PARTS[part]
    first, last = moment_from_number(low, sql_type), moment_from_number(high, sql_type)
    if part == "year":
        return first.year, last.year
    days = (last.toordinal() - first.toordinal()) + 1
    if days > _MAX_DAYS:
        return PARTS[part]
    values = [_date_part(part, dt.date.fromordinal(first.toordinal() + offset)) for offset in range(days)]
    return min(values), max(values)


def _date_part(part: str, moment: dt.date) -> int:
    functions: dict[str, Callable[[Any], int]] = {
        "quarter": lambda x: (x.month - 1) // 3 + 1,
        "week": lambda x: x.isocalendar()[1],
        "dow": lambda x: x.isoweekday() % 7,
        "isodow": lambda x: x.isoweekday(),
        "doy": lambda x: x.timetuple().tm_yday,
        "microsecond": lambda x: x.second * 1_000_000 + x.microsecond,
    }
    return functions[part](moment) if part in functions else int(getattr(moment, part))


def _make_date(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Enclose the dates between the least and the greatest parts; only three known parts are surely a date."""
    parts = [as_ranges(argument) for argument in arguments]
    low, high, may_exist, may_miss = np.vectorize(_date_range_from_parts, otypes=[float, float, bool, bool])(
        *(part.low for part in parts), *(part.high for part in parts)
    )
    there = may_exist & parts[0].may_have_value & parts[1].may_have_value & parts[2].may_have_value
    null = may_miss | parts[0].null | parts[1].null | parts[2].null
    return ranges_with_overflow(low, high, there, null)


def _date_range_from_parts(*low_and_high_parts: float) -> tuple[float, float, bool, bool]:
    """Return the least and greatest date, whether there may be one, and whether there may be none."""
    if not all(map(math.isfinite, low_and_high_parts)):
        return -math.inf, math.inf, True, True
    low, high = tuple(map(int, low_and_high_parts[:3])), tuple(map(int, low_and_high_parts[3:]))
    bounds = calendar.date_bounds(low, high)
    if bounds is None:
        return math.nan, math.nan, False, True
    first, last = bounds
    is_certain = low == high == (first.year, first.month, first.day)
    may_exist = is_certain or low != high
    return enclosing_doubles(first)[0], enclosing_doubles(last)[1], may_exist, not is_certain


def _literal_text(call: Call, index: int) -> str:
    literal = call.arguments[index]
    assert isinstance(literal, Literal)
    return str(literal.value)


def _date_diff(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Count units between two moments: rises with the end, falls with the start."""
    unit, start, end = _literal_text(call, 0), as_ranges(arguments[1]), as_ranges(arguments[2])
    kind = call.arguments[1].domain.type

    def count_units(first: float, last: float) -> float:
        if not (math.isfinite(first) and math.isfinite(last)):
            return math.nan
        return calendar.periods_between(unit, moment_from_number(first, kind), moment_from_number(last, kind))

    apply = np.vectorize(count_units, otypes=[float])
    low, high = apply(start.high, end.low), apply(start.low, end.high)
    return ranges_with_overflow(low, high, start.may_have_value & end.may_have_value, start.null | end.null)


def _date_add(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    argument, kind, unit = as_ranges(arguments[0]), call.domain.type, _literal_text(call, 2)
    amount = call.arguments[1]
    assert isinstance(amount, Literal)
    steps = int(amount.value)  # type: ignore[arg-type]

    def shift(moment: Any) -> float:
        shifted = calendar.shift(moment, steps, unit)
        return math.nan if shifted is None else enclosing_doubles(shifted)[0]

    return ranges_with_overflow(*_apply_at_ends(argument, kind, shift), argument.may_have_value, argument.null)


def _strftime(call: Call, arguments: list[CellOutcomes]) -> CellTexts:
    """Format dates: one text for a whole bin if all of its days agree on the formatted parts, else unknown."""
    argument, kind, pieces = (
        as_ranges(arguments[0]),
        call.arguments[0].domain.type,
        calendar.split_format(_literal_text(call, 1)),
    )
    texts = np.empty(argument.low.shape, dtype=object)
    open_ = argument.may_have_value & argument.null
    for index, (low, high, there) in enumerate(
        zip(argument.low.flat, argument.high.flat, argument.may_have_value.flat, strict=True)
    ):
        text = _formatted_text(pieces, low, high, kind) if there else None
        texts.flat[index] = text
        open_.flat[index] |= there and text is None
    return CellTexts(texts, open_)


def _formatted_text(
    pieces: tuple[str | calendar.FormatCode, ...], low: float, high: float, sql_type: Type
) -> str | None:
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        least, greatest = _part_extremes(piece.part, low, high, sql_type)
        if least != greatest:
            return None
        text += piece.names[int(least) - 1] if piece.names else str(int(least)).zfill(piece.width)[-piece.width :]
    return text


DATE_FUNCTIONS: dict[str, CellFunction] = {
    "DATE_TRUNC": _date_trunc,
    "TIME_BUCKET": _time_bucket,
    "MAKE_DATE": _make_date,
    "EXTRACT": _extract_date_part,
    "DATE_DIFF": _date_diff,
    "DATE_ADD": _date_add,
    "STRFTIME": _strftime,
}
