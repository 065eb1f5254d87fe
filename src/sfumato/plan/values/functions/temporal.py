"""Functions of dates and times within the years 1 to 9999: results outside are NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    any_nullable,
    as_common_type,
    as_timestamp,
    call,
    declare_function,
    literal,
    require_temporal,
    type_mismatch,
    written,
)
from sfumato.policy.domains import Domain, Type

TypedCall = tuple[Sequence[Expression], Domain]

PARTS = {
    "year": (1, 9999),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


def _unit(argument: Expression, known_units: Sequence[str]) -> str:
    unit = str(written(argument, Type.TEXT, "the unit"))
    if unit not in known_units:
        raise Unsupported("unit", "this unit of time is not supported", fix="use one of " + ", ".join(known_units))
    return unit


@declare_function(
    "EXTRACT",
    "EXTRACT(part FROM date), DATE_PART('part', date), YEAR(date), …",
    "one of " + ", ".join(PARTS) + "; dow 0 is Sunday, isodow 1 is Monday, weeks are ISO weeks",
)
def _extract(part: Expression, x: Expression) -> TypedCall:
    unit = _unit(part, tuple(PARTS))
    x = require_temporal(x)
    if unit in calendar.CLOCK and x.domain.type is not Type.TIMESTAMP:
        raise type_mismatch(x, Type.TIMESTAMP)
    bounds: Any = PARTS[unit]
    if unit == "year":
        date_range: Any = x.domain.range
        bounds = date_range and (date_range[0].year, date_range[1].year)
    return (part, x), Domain(Type.INTEGER, bounds=bounds, nullable=x.domain.nullable)


def _formatting_steps(node: Call) -> int:
    """Return the steps to format a date: every piece is a number that becomes text, or an entry of a list of names."""
    return 10 + 40 * node.domain.max_letters


@declare_function(
    "STRFTIME",
    "STRFTIME(date, '%Y-%m')",
    "as text: " + " ".join(f"%{code}" for code in calendar.LETTERS) + ", English names, %% for %",
    steps=_formatting_steps,
    held=lambda node: 8 * node.domain.max_letters + 256,
)
def _strftime(x: Expression, date_format: Expression) -> TypedCall:
    if isinstance(x, Literal) and not isinstance(date_format, Literal):
        x, date_format = date_format, x  # the engine takes the two in either order
    format_pieces = calendar.split_format(str(written(date_format, Type.TEXT, "the format")))
    has_clock = any(isinstance(piece, calendar.FormatCode) and piece.part in calendar.CLOCK for piece in format_pieces)
    x = as_timestamp(x) if has_clock else require_temporal(x)
    letters = sum(len(piece) if isinstance(piece, str) else piece.width for piece in format_pieces)
    return (x, date_format), Domain(Type.TEXT, nullable=x.domain.nullable, max_length=letters)


@declare_function("DAYNAME", "DAYNAME(date)", "Monday to Sunday")
def _dayname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%A"))


@declare_function("MONTHNAME", "MONTHNAME(date)", "January to December")
def _monthname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%B"))


@declare_function("DATE_TRUNC", "DATE_TRUNC('unit', date)", "the start of its " + ", ".join(calendar.UNITS))
def _trunc(unit: Expression, x: Expression) -> TypedCall:
    name = _unit(unit, calendar.UNITS)
    x = require_temporal(x)
    if name not in calendar.DAYS and x.domain.type is not Type.TIMESTAMP:
        raise type_mismatch(x, Type.TIMESTAMP)
    date_range: Any = x.domain.range
    bounds = date_range and tuple(calendar.truncate(name, end) for end in date_range)
    return (unit, x), Domain(x.domain.type, bounds=bounds, nullable=x.domain.nullable)


@declare_function(
    "DATE_DIFF",
    "DATE_DIFF('unit', from, to)",
    "the number of boundaries of a unit between two dates (for weeks: full weeks): " + ", ".join(calendar.UNITS),
)
def _diff(unit: Expression, start: Expression, end: Expression) -> TypedCall:
    name = _unit(unit, calendar.UNITS)
    start, end = as_common_type((require_temporal(start), require_temporal(end)))
    start_range: Any = start.domain.range
    end_range: Any = end.domain.range
    bounds = None
    if start_range is not None and end_range is not None:
        bounds = tuple(calendar.between(name, start_range[1 - side], end_range[side]) for side in (0, 1))
    return (unit, start, end), Domain(Type.INTEGER, bounds=bounds, nullable=any_nullable(start, end))  # type: ignore[arg-type]


@declare_function("DATE_ADD", "date + INTERVAL 'n unit'", "later, or earlier with -, by " + ", ".join(calendar.UNITS))
def _add(x: Expression, amount: Expression, unit: Expression) -> TypedCall:
    name = _unit(unit, calendar.UNITS)
    steps = int(written(amount, Type.INTEGER, "the number of units"))  # type: ignore[arg-type]
    if not calendar.is_within_calendar(steps, name):
        raise Unsupported("interval", "an INTERVAL must be shorter than 10,000 years", fix="use a shorter time span")
    x = require_temporal(x) if name in calendar.DAYS else as_timestamp(x)
    date_range: Any = x.domain.range
    shifted_range: Any = date_range and tuple(calendar.shift(end, steps, name) for end in date_range)
    if not shifted_range or None in shifted_range:
        return (x, amount, unit), Domain(x.domain.type, nullable=True)
    return (x, amount, unit), Domain(x.domain.type, bounds=shifted_range, nullable=x.domain.nullable)
