"""Functions of dates and times within the years 1 to 9999: results outside are NULL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    as_common_type,
    as_timestamp,
    call,
    declare_function,
    is_any_nullable,
    literal,
    require_literal,
    require_temporal,
    require_text,
    type_mismatch_refusal,
)
from sfumato.plan.values.grammars import MAX_DATE_LETTERS, format_cost
from sfumato.policy.cell_rules import DIRECTIVES, MAX_FORMATS, parse_format
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
    "microsecond": (0, 59_999_999),
}
"""The parts of a date or time that engines extract, and their ranges."""
TRUNCATED_UNITS = (*calendar.UNITS, "millisecond", "microsecond", "isoyear", *calendar.YEARS)


def _require_unit(argument: Expression, supported_units: Sequence[str]) -> str:
    unit = str(require_literal(argument, Type.TEXT, "the unit", example="'day'"))
    if unit not in supported_units:
        raise Unsupported("unit", "this unit of time is not supported", fix="use one of " + ", ".join(supported_units))
    return unit


def _integer_literal(value: int) -> Expression:
    return literal(Type.INTEGER, value)


def _call_extract(date_part: str, x: Expression) -> Expression:
    return call("EXTRACT", literal(Type.TEXT, date_part), x)


def _with_calendar_bounds(counted: Expression, low: int, high: int) -> Expression:
    """Return a count over dates without declared bounds with those that the calendar implies."""
    if not isinstance(counted, Call) or counted.domain.range is not None:
        return counted
    return replace(counted, domain=replace(counted.domain, bounds=(low, high)))


def _year(x: Expression) -> Expression:
    return _with_calendar_bounds(_call_extract("year", x), *PARTS["year"])


def _difference(unit: str, start: Expression, end: Expression) -> Expression:
    """Return the units between two dates, within what the calendar allows."""
    most = calendar.periods_between(unit, dt.date.min, dt.date.max) + 86_400
    return _with_calendar_bounds(call("DATE_DIFF", literal(Type.TEXT, unit), start, end), -most, most)


def _thursday_of_week(x: Expression) -> Expression:
    """Return the Thursday of a date's week, which lies in its ISO year."""
    week = call("DATE_TRUNC", literal(Type.TEXT, "week"), x)
    return call("DATE_ADD", week, _integer_literal(3), literal(Type.TEXT, "day"))


def _year_span_part(years: int) -> Callable[[Expression], Expression]:
    """Return the part that counts spans of years from the year 1 on, the first as 1."""
    return lambda x: call("//", call("+", _year(x), _integer_literal(years - 1)), _integer_literal(years))


def _elapsed_part(unit: str, origin: dt.date, count: int) -> Callable[[Expression], Expression]:
    """Return the part that counts units from the origin on, where the count is as given."""

    def compose(x: Expression) -> Expression:
        elapsed = _difference(unit, literal(Type.DATE, origin), x)
        return call("+", elapsed, _integer_literal(count)) if count else elapsed

    return compose


COMPOSED_PARTS: dict[str, Callable[[Expression], Expression]] = {
    "decade": lambda x: call("//", _year(x), _integer_literal(10)),
    "century": _year_span_part(100),
    "millennium": _year_span_part(1000),
    "isoyear": lambda x: _year(_thursday_of_week(x)),
    "yearweek": lambda x: call(
        "+", call("*", _call_extract("isoyear", x), _integer_literal(100)), _call_extract("week", x)
    ),
    "millisecond": lambda x: call("//", _call_extract("microsecond", x), _integer_literal(1000)),
    "epoch": _elapsed_part("second", dt.date(1970, 1, 1), 0),
    "julian": _elapsed_part("day", dt.date(2000, 1, 1), 2_451_545),
    "era": lambda x: call("CASE", call("NOT", call("IS NULL", x)), _integer_literal(1)),
}
"""The parts that are functions of others, each with what it equals."""


@declare_function(
    "EXTRACT",
    "EXTRACT(part FROM date), DATE_PART('part', date), YEAR(date), …",
    f"one of {', '.join((*PARTS, *COMPOSED_PARTS))}; dow 0 is Sunday, isodow 1 is Monday, weeks are ISO weeks, "
    "epoch is in whole seconds, julian in whole days, millisecond and microsecond include the seconds",
)
def _extract(part: Expression, x: Expression) -> Expression | TypedCall:
    unit = _require_unit(part, (*PARTS, *COMPOSED_PARTS))
    x = require_temporal(x)
    if unit in COMPOSED_PARTS:
        return COMPOSED_PARTS[unit](x)
    if unit in calendar.CLOCK and x.domain.type is not Type.TIMESTAMP:
        raise type_mismatch_refusal(x, Type.TIMESTAMP)
    bounds: Any = PARTS[unit]
    if unit == "year":
        date_range: Any = x.domain.range
        bounds = date_range and (date_range[0].year, date_range[1].year)
    return (part, x), Domain(Type.INTEGER, bounds=bounds, nullable=x.domain.nullable)


def _formatting_cost(node: Call) -> int:
    """Return the steps to format a date: every piece is a number that becomes text, or an entry of a list of names."""
    return 10 + 40 * node.domain.max_letters


@declare_function(
    "STRFTIME",
    "STRFTIME(date, '%Y-%m')",
    "as text: " + " ".join(f"%{code}" for code in calendar.LETTERS) + ", English names, %% for %",
    row_cost=_formatting_cost,
    row_bytes=lambda node: 8 * node.domain.max_letters + 256,
)
def _strftime(x: Expression, date_format: Expression) -> TypedCall:
    if isinstance(x, Literal) and not isinstance(date_format, Literal):
        x, date_format = date_format, x  # the engine takes the two in either order
    format_pieces = calendar.split_format(
        str(require_literal(date_format, Type.TEXT, "the format", example="'%Y-%m-%d'"))
    )
    has_clock = any(isinstance(piece, calendar.FormatCode) and piece.part in calendar.CLOCK for piece in format_pieces)
    x = as_timestamp(x) if has_clock else require_temporal(x)
    letters = sum(len(piece) if isinstance(piece, str) else piece.width for piece in format_pieces)
    return (x, date_format), Domain(Type.TEXT, nullable=x.domain.nullable, max_length=letters)


def _require_formats(formats: Sequence[Expression]) -> tuple[str, ...]:
    """Return the formats that the literals of a STRPTIME name; refuse one under which a text has no single reading."""
    texts = tuple(str(require_literal(argument, Type.TEXT, "the format", example="'%Y-%m-%d'")) for argument in formats)
    if len(texts) > MAX_FORMATS:
        raise Unsupported("date-format", f"STRPTIME can try at most {MAX_FORMATS} formats", fix="list fewer formats")
    for text in texts:
        try:
            parse_format(text)
        except InvalidParameter as error:
            fix = "write a format such as '%d.%m.%Y' or '%Y-%m-%d %H:%M:%S'"
            raise Unsupported("date-format", f"the format of a date must be {error.allowed}", fix=fix) from None
    return texts


def _parsing_cost(node: Call) -> int:
    return sum(format_cost(text) for text in _require_formats(node.arguments[1:])) + 10 * MAX_DATE_LETTERS


@declare_function(
    "STRPTIME",
    "STRPTIME(text, '%d.%m.%Y'), TRY_STRPTIME",
    "the timestamp that a text states in a format, or in the first fitting one of a list; NULL where none fits: "
    + " ".join(f"%{code}" for code in DIRECTIVES),
    row_cost=_parsing_cost,
    row_bytes=lambda node: 64 * len(node.arguments) * MAX_DATE_LETTERS // 10,
)
def _strptime(x: Expression, *formats: Expression) -> TypedCall:
    """Type a text that is read by formats: a total function, of the years 1 to 9999 or NULL."""
    if not formats:
        rule = "STRPTIME takes a text and a format"
        raise Unsupported("arguments", rule, fix="write STRPTIME(text, '%d.%m.%Y')")
    _require_formats(formats)
    return (require_text(x), *formats), Domain(Type.TIMESTAMP, nullable=True)


@declare_function("DAYNAME", "DAYNAME(date)", "Monday to Sunday")
def _dayname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%A"))


@declare_function("MONTHNAME", "MONTHNAME(date)", "January to December")
def _monthname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%B"))


@declare_function(
    "DATE_TRUNC",
    "DATE_TRUNC('unit', date)",
    f"the start of its {', '.join(TRUNCATED_UNITS)}; decades, centuries and millennia begin in years such as 2000",
)
def _date_trunc(unit: Expression, x: Expression) -> Expression | TypedCall:
    name = _require_unit(unit, TRUNCATED_UNITS)
    x = require_temporal(x)
    if name == "isoyear":
        fourth = call("DATE_ADD", call("DATE_TRUNC", literal(Type.TEXT, "year"), _thursday_of_week(x)), *_THREE_DAYS)
        return call("DATE_TRUNC", literal(Type.TEXT, "week"), fourth)
    if name in calendar.YEARS:
        return call("TIME_BUCKET", _integer_literal(calendar.YEARS[name]), literal(Type.TEXT, "year"), x)
    if name not in calendar.DAYS and x.domain.type is not Type.TIMESTAMP:
        raise type_mismatch_refusal(x, Type.TIMESTAMP)
    if name == "microsecond":  # a time has no smaller part
        return x
    date_range: Any = x.domain.range
    bounds = date_range and tuple(calendar.truncate(name, end) for end in date_range)
    return (unit, x), Domain(x.domain.type, bounds=bounds, nullable=x.domain.nullable)


@declare_function(
    "MAKE_DATE",
    "MAKE_DATE(year, month, day)",
    "the date of three whole numbers; NULL where there is none, such as February 30",
)
def _make_date(year: Expression, month: Expression, day: Expression) -> TypedCall:
    """Type a date: of the triples that are dates none is before the least, or after the greatest, in each part."""
    parts = (year, month, day)
    for part in parts:
        if part.domain.type is not Type.INTEGER:
            raise type_mismatch_refusal(part, Type.INTEGER)
    ranges: Any = [part.domain.range for part in parts]
    bounds = None if None in ranges else calendar.date_bounds([low for low, _ in ranges], [high for _, high in ranges])
    return parts, Domain(Type.DATE, bounds=bounds, nullable=True)


_THREE_DAYS = _integer_literal(3), literal(Type.TEXT, "day")
LARGEST_BUCKET = 1_000_000
"""The most units of one bucket."""


@declare_function(
    "TIME_BUCKET",
    "TIME_BUCKET(INTERVAL 'n unit', date [, origin])",
    f"the start of its n {', '.join(calendar.UNITS)}; one bucket starts at the origin: 2000-01-01 for months, quarters "
    "and years, and for shorter units 2000-01-03, a Monday",
)
def _time_bucket(amount: Expression, unit: Expression, x: Expression, origin: Expression | None = None) -> TypedCall:
    """Type a bucket: its width is a literal, so the start is a nondecreasing function of the date, and the range is
    that of the ends. A bucket that begins before the year 1 has no start.
    """
    name, x = _require_unit(unit, calendar.UNITS), require_temporal(x)
    if name not in calendar.DAYS and x.domain.type is not Type.TIMESTAMP:
        raise type_mismatch_refusal(x, Type.TIMESTAMP)
    count = int(require_literal(amount, Type.INTEGER, "the number of units"))  # type: ignore[arg-type]
    if not 1 <= count <= LARGEST_BUCKET or not calendar.is_shorter_than_calendar(count, name):
        rule = f"a bucket must be 1 to {LARGEST_BUCKET:,} units long, and below 10,000 years"
        raise Unsupported("time-bucket", rule, fix="write TIME_BUCKET(INTERVAL '2 week', x)")
    if origin is None:
        origin = literal(Type.DATE, calendar.NEW_YEAR if name in ("year", "quarter", "month") else calendar.MONDAY)
    origin = _require_bucket_origin(origin, name, x.domain.type)
    bucket, date_range = written_bucket(amount, unit, origin), x.domain.range
    starts: Any = date_range and tuple(bucket.start_of(end) for end in date_range)
    bounds = starts if starts and None not in starts else None
    nullable = x.domain.nullable or bounds is None
    return (amount, unit, x, origin), Domain(x.domain.type, bounds=bounds, nullable=nullable)


def _require_bucket_origin(origin: Expression, unit: str, sql_type: Type) -> Expression:
    """Require a literal at which a bucket of this unit may start: the first of a month for months, a whole second."""
    origin = require_temporal(origin)
    value: Any = require_literal(origin, origin.domain.type, "the origin")
    if unit in ("year", "quarter", "month") and value != calendar.truncate("month", value):
        rule = (
            "with months, quarters or years, the origin of a TIME_BUCKET must be the first day of a month, at midnight"
        )
    elif sql_type is Type.DATE and value != calendar.truncate("day", value):
        rule = "over dates, the origin of a TIME_BUCKET must be a date without a time of day"
    elif getattr(value, "microsecond", 0):
        rule = "the origin of a TIME_BUCKET must be a whole second"
    else:
        return origin
    raise Unsupported("time-bucket", rule, fix=f"write TIME_BUCKET(INTERVAL '7 {unit}', x, DATE '2024-01-01')")


def written_bucket(amount: Expression, unit: Expression, origin: Expression) -> calendar.Bucket:
    """Return the bucket that the literals of a TIME_BUCKET describe."""
    assert isinstance(amount, Literal)
    assert isinstance(unit, Literal)
    assert isinstance(origin, Literal)
    return calendar.Bucket(int(amount.value), str(unit.value), origin.value)  # type: ignore[arg-type]


def _full_months(later: Expression, earlier: Expression) -> Expression:
    """Count the whole months from one date to a later one."""
    months = _difference("month", earlier, later)
    is_incomplete = call("<", _call_extract("day", later), _call_extract("day", earlier))
    return call("-", months, call("CASE", is_incomplete, _integer_literal(1), _integer_literal(0)))


def _days_beyond_months(later: Expression, earlier: Expression) -> Expression:
    """Count the days beyond whole months: where they are fewer than none, a month of the earlier date's length is
    broken up.
    """
    first = call("DATE_TRUNC", literal(Type.TEXT, "month"), earlier)
    length = _difference("day", first, call("DATE_ADD", first, *_ONE_MONTH))
    days = call("-", _call_extract("day", later), _call_extract("day", earlier))
    return call("CASE", call("<", days, _integer_literal(0)), call("+", days, length), days)


_ONE_MONTH = _integer_literal(1), literal(Type.TEXT, "month")
_AGE_PARTS: dict[str, Callable[[Expression, Expression], Expression]] = {
    "year": lambda later, earlier: call("//", _full_months(later, earlier), _integer_literal(12)),
    "month": lambda later, earlier: call("%", _full_months(later, earlier), _integer_literal(12)),
    "day": _days_beyond_months,
}


@declare_function(
    "AGE",
    "EXTRACT(part FROM AGE(later, earlier))",
    "the whole years between two dates, the whole months beyond them, or the days beyond those: one of "
    f"{', '.join(_AGE_PARTS)}; negative where the first date is earlier",
)
def _age(part: Expression, later: Expression, earlier: Expression) -> Expression:
    name = _require_unit(part, tuple(_AGE_PARTS))
    later, earlier = require_temporal(later), require_temporal(earlier)
    for moment in (later, earlier):
        if moment.domain.type is not Type.DATE:
            raise type_mismatch_refusal(moment, Type.DATE)
    age = _AGE_PARTS[name]
    return call("CASE", call(">=", later, earlier), age(later, earlier), call("NEGATE", age(earlier, later)))


@declare_function(
    "DATE_DIFF",
    "DATE_DIFF('unit', from, to)",
    "the number of boundaries of a unit between two dates (for weeks: full weeks): " + ", ".join(calendar.UNITS),
)
def _date_diff(unit: Expression, start: Expression, end: Expression) -> TypedCall:
    name = _require_unit(unit, calendar.UNITS)
    start, end = as_common_type((require_temporal(start), require_temporal(end)))
    start_range: Any = start.domain.range
    end_range: Any = end.domain.range
    bounds = None
    if start_range is not None and end_range is not None:
        bounds = tuple(calendar.periods_between(name, start_range[1 - side], end_range[side]) for side in (0, 1))
    return (unit, start, end), Domain(Type.INTEGER, bounds=bounds, nullable=is_any_nullable(start, end))  # type: ignore[arg-type]


@declare_function("DATE_ADD", "date + INTERVAL 'n unit'", "later, or earlier with -, by " + ", ".join(calendar.UNITS))
def _date_add(x: Expression, amount: Expression, unit: Expression) -> TypedCall:
    name = _require_unit(unit, calendar.UNITS)
    steps = int(require_literal(amount, Type.INTEGER, "the number of units"))  # type: ignore[arg-type]
    if not calendar.is_shorter_than_calendar(steps, name):
        raise Unsupported("interval", "an INTERVAL must be shorter than 10,000 years", fix="use a shorter time span")
    x = require_temporal(x) if name in calendar.DAYS else as_timestamp(x)
    date_range: Any = x.domain.range
    shifted_range: Any = date_range and tuple(calendar.shift(end, steps, name) for end in date_range)
    if not shifted_range or None in shifted_range:
        return (x, amount, unit), Domain(x.domain.type, nullable=True)
    return (x, amount, unit), Domain(x.domain.type, bounds=shifted_range, nullable=x.domain.nullable)
