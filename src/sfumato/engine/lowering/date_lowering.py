"""Lower functions of dates and times: every result lies in the years 1 to 9999, or is NULL.

Dates that stand in a text by a format are written as ISO does, so that the grammars read them. A text is turned into
the text of a date or time, or into NULL where it does not fit the format; whether the day exists is decided where texts
are read. Parts of a text are taken before it is known to match, so each operation here is total on every text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.engine.lowering.applications import (
    CALENDAR,
    Application,
    Lowering,
    RowScope,
    case,
    null_constant,
    within_test,
)
from sfumato.engine.lowering.relational_form import Constant, Scalar, ScalarFunction, apply, integer_constant
from sfumato.plan.values import calendar
from sfumato.plan.values.functions.temporal import PARTS, written_bucket
from sfumato.plan.values.grammars import GRAMMARS, MAX_DATE_LETTERS, MONTHS, any_case, date_pattern, read_directives
from sfumato.policy import Type
from sfumato.policy.cell_rules import FormatPart, parse_format


def _lower_extract(call: Application) -> Scalar:
    return apply(ScalarFunction.PART, call.arguments[1], detail=(call.literal_argument(0),))


def _lower_strftime(call: Application) -> Scalar:
    x = call.shared_argument()
    pieces = calendar.split_format(call.literal_argument(1))
    texts = (Constant(piece, Type.TEXT) if isinstance(piece, str) else _format_part(x, piece) for piece in pieces)
    return apply(ScalarFunction.JOIN, *texts)


def _format_part(x: Scalar, format_code: calendar.FormatCode) -> Scalar:
    """Format a part of a date: its last digits, zero-padded, or its entry in a list of names of one width."""
    number = apply(ScalarFunction.PART, x, detail=(format_code.part,))
    if format_code.names:
        all_names = Constant("".join(name.ljust(format_code.width) for name in format_code.names), Type.TEXT)
        last = apply(ScalarFunction.MULTIPLY, number, integer_constant(format_code.width))
        first = apply(ScalarFunction.SUBTRACT, last, integer_constant(format_code.width - 1))
        return apply(
            ScalarFunction.TRIM,
            apply(ScalarFunction.SLICE, all_names, first, integer_constant(format_code.width)),
            detail=(" ", False, True),
        )
    max_digits = len(str(PARTS[format_code.part][1]))
    digits = apply(
        ScalarFunction.CONVERT, apply(ScalarFunction.ADD, number, integer_constant(10**max_digits)), detail=(Type.TEXT,)
    )
    return apply(
        ScalarFunction.SLICE,
        digits,
        integer_constant(2 + max_digits - format_code.width),
        integer_constant(format_code.width),
    )


def _lower_date_trunc(call: Application) -> Scalar:
    return apply(ScalarFunction.START, call.arguments[1], detail=(call.literal_argument(0), call.kind))


def _lower_time_bucket(call: Application) -> Scalar:
    """Find the start of a span: counts are shifted to be at least 0, where division rounds down."""
    amount, unit, _, origin = call.node.arguments
    bucket, x = written_bucket(amount, unit, origin), call.shared_argument(2)
    span = bucket.seconds if bucket.months is None else bucket.months
    if bucket.months is None:
        count = apply(ScalarFunction.SECONDS, x)
    else:
        count = apply(ScalarFunction.SUBTRACT, _elapsed_units("month", x), integer_constant(_FIRST_MONTH))
    spans = apply(
        ScalarFunction.DIVIDE_WHOLE,
        apply(ScalarFunction.SUBTRACT, count, integer_constant(bucket.count_offset)),
        integer_constant(span),
    )
    first = call.rows.compute_once(
        apply(
            ScalarFunction.ADD,
            apply(ScalarFunction.MULTIPLY, spans, integer_constant(span)),
            integer_constant(bucket.count_offset),
        )
    )
    start = apply(ScalarFunction.MOMENT, first) if bucket.months is None else _month_start(first)
    start = apply(ScalarFunction.CONVERT, start, detail=(call.kind,))
    if call.node.domain.range is not None:
        return start
    return case(apply(ScalarFunction.AT_LEAST, first, integer_constant(0)), start, otherwise=null_constant(call.kind))


_FIRST_MONTH = 13
"""What ``_elapsed_units`` counts for the first month of the calendar."""


def _month_start(months: Scalar) -> Scalar:
    """Return the first day of the month that is so many months after the first of the calendar."""
    year = apply(ScalarFunction.DIVIDE_WHOLE, months, integer_constant(12))
    month = apply(ScalarFunction.REMAINDER, months, integer_constant(12))
    dash = Constant("-", Type.TEXT)
    text = apply(
        ScalarFunction.JOIN,
        _fixed_width_digits(year, 4, 1),
        dash,
        _fixed_width_digits(month, 2, 1),
        Constant("-01", Type.TEXT),
    )
    return apply(ScalarFunction.READ, text, detail=(Type.DATE,))


def _lower_make_date(call: Application) -> Scalar:
    """Write the three numbers as a date is written, where each has as many digits, and parse what is one."""
    digits = []
    for position, (width, high) in enumerate(((4, 9999), (2, 12), (2, 31))):
        number = call.shared_argument(position)
        inside = apply(ScalarFunction.BETWEEN, number, integer_constant(1), integer_constant(high))
        valid_number = call.rows.compute_once(case(inside, number, otherwise=null_constant(Type.INTEGER)))
        digits.append(_fixed_width_digits(valid_number, width, 0))
    dash = Constant("-", Type.TEXT)
    text = call.rows.compute_once(apply(ScalarFunction.JOIN, digits[0], dash, digits[1], dash, digits[2]))
    is_date = apply(ScalarFunction.MATCHES, text, detail=(GRAMMARS[Type.DATE],))
    return case(is_date, apply(ScalarFunction.READ, text, detail=(Type.DATE,)), otherwise=null_constant(Type.DATE))


def _fixed_width_digits(number: Scalar, width: int, added: int) -> Scalar:
    """Write a number and what is added to it with so many digits."""
    shifted = apply(ScalarFunction.ADD, number, integer_constant(10**width + added))
    text = apply(ScalarFunction.CONVERT, shifted, detail=(Type.TEXT,))
    return apply(ScalarFunction.SLICE, text, integer_constant(2), integer_constant(width))


def _lower_date_add(call: Application) -> Scalar:
    """Move a date by an interval; dates that would leave the calendar become NULL before they are moved."""
    amount, unit, x = call.literal_argument(1), call.literal_argument(2), call.shared_argument()
    moved = apply(ScalarFunction.MOVED, x, detail=(amount, unit, call.kind))
    if call.node.domain.range is not None:
        return moved
    staying = calendar.shiftable_range(amount, unit, *CALENDAR[call.kind])
    if staying is None:
        return null_constant(call.kind)
    return case(within_test(x, *staying, call.kind), moved, otherwise=null_constant(call.kind))


def _lower_date_diff(call: Application) -> Scalar:
    unit, start, end = call.literal_argument(0), call.shared_argument(1), call.shared_argument(2)
    days = apply(ScalarFunction.DAYS, start, end)
    if unit == "day":
        return days
    if unit == "week":
        return apply(ScalarFunction.DIVIDE_WHOLE, days, integer_constant(7))
    return apply(ScalarFunction.SUBTRACT, _elapsed_units(unit, end), _elapsed_units(unit, start))


_PER_YEAR = {"year": 1, "quarter": 4, "month": 12}
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def _elapsed_units(unit: str, x: Scalar) -> Scalar:
    """Count the units of time that began before, from a fixed origin."""
    if unit in _SECONDS:
        return apply(ScalarFunction.DIVIDE_WHOLE, apply(ScalarFunction.SECONDS, x), integer_constant(_SECONDS[unit]))
    years = apply(
        ScalarFunction.MULTIPLY, apply(ScalarFunction.PART, x, detail=("year",)), integer_constant(_PER_YEAR[unit])
    )
    return years if unit == "year" else apply(ScalarFunction.ADD, years, apply(ScalarFunction.PART, x, detail=(unit,)))


DATE_LOWERINGS: dict[str, Lowering] = {
    "EXTRACT": _lower_extract,
    "STRFTIME": _lower_strftime,
    "DATE_TRUNC": _lower_date_trunc,
    "TIME_BUCKET": _lower_time_bucket,
    "DATE_DIFF": _lower_date_diff,
    "DATE_ADD": _lower_date_add,
    "MAKE_DATE": _lower_make_date,
}


_PIVOT = "(69|[7-9][0-9])"
"""The two digits of years in the 1900s; those of the 2000s are 00 to 68."""
_FIRST_DAY = "1900-01-01"
"""The day of a time that is written without one, as strptime has it."""
_AFTERNOON = "[Pp][Mm]"


def _text_constant(value: str) -> Constant:
    return Constant(value, Type.TEXT)


def _matches_test(text: Scalar, pattern: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, text, detail=(pattern,))


def iso_text(rows: RowScope, text: Scalar, formats: Sequence[str]) -> Scalar:
    """Write a date or time as ISO does, by the first format under which its day exists; NULL where none fits."""
    is_short = apply(ScalarFunction.AT_MOST, apply(ScalarFunction.LENGTH, text), integer_constant(MAX_DATE_LETTERS))
    short = rows.compute_once(apply(ScalarFunction.CASE, is_short, text, null_constant(Type.TEXT)))
    candidates = [_iso_of_format(rows, short, parse_format(date_format)) for date_format in formats]
    if len(candidates) == 1:
        return candidates[0]
    shared = [rows.compute_once(candidate) for candidate in candidates]
    pairs = [
        scalar for candidate in shared for scalar in (_matches_test(candidate, GRAMMARS[Type.TIMESTAMP]), candidate)
    ]
    return apply(ScalarFunction.CASE, *pairs, null_constant(Type.TEXT))


def _iso_of_format(rows: RowScope, text: Scalar, parts: tuple[FormatPart, ...]) -> Scalar:
    pattern, directives = date_pattern(parts), read_directives(parts)
    groups = {
        directive: rows.compute_once(apply(ScalarFunction.GROUP, text, detail=(pattern, number)))
        for number, directive in enumerate(directives, 1)
    }
    pieces: list[Scalar] = [_text_constant(_FIRST_DAY)]
    if "d" in groups:
        pieces = [
            _year_text(groups),
            _text_constant("-"),
            _month_text(groups),
            _text_constant("-"),
            _two_digits(groups["d"]),
        ]
    if "H" in groups or "I" in groups:
        pieces += [
            _text_constant(" "),
            _hour_text(rows, groups),
            _text_constant(":"),
            _two_digits(groups["M"]) if "M" in groups else _text_constant("00"),
        ]
        pieces += [_text_constant(":"), _two_digits(groups["S"])] if "S" in groups else []
        pieces += [_text_constant("."), groups["f"]] if "f" in groups else []
        pieces += [groups["z"]] if "z" in groups else []
    iso = apply(ScalarFunction.JOIN, *pieces)
    return apply(ScalarFunction.CASE, _matches_test(text, pattern), iso, null_constant(Type.TEXT))


def _two_digits(digits: Scalar) -> Scalar:
    """Write a number of one digit with two."""
    two_digits = apply(ScalarFunction.JOIN, _text_constant("0"), digits)
    is_single = apply(ScalarFunction.EQUAL, apply(ScalarFunction.LENGTH, digits), integer_constant(1))
    return apply(ScalarFunction.CASE, is_single, two_digits, digits)


def _year_text(groups: dict[str, Scalar]) -> Scalar:
    if "Y" in groups:
        return groups["Y"]
    century = apply(ScalarFunction.CASE, _matches_test(groups["y"], _PIVOT), _text_constant("19"), _text_constant("20"))
    return apply(ScalarFunction.JOIN, century, groups["y"])


def _month_text(groups: dict[str, Scalar]) -> Scalar:
    if "m" in groups:
        return _two_digits(groups["m"])
    name = groups.get("b") or groups["B"]
    pairs = [
        scalar
        for number, month in enumerate(MONTHS, 1)
        for scalar in (_matches_test(name, f"{any_case(month[:3])}[A-Za-z]*"), _text_constant(f"{number:02}"))
    ]
    return apply(ScalarFunction.CASE, *pairs, null_constant(Type.TEXT))


def _hour_text(rows: RowScope, groups: dict[str, Scalar]) -> Scalar:
    """Write an hour with two digits, from 00 to 23: 12 AM is the first hour of a day, 12 PM the first after noon."""
    if "H" in groups:
        return _two_digits(groups["H"])
    hour = rows.compute_once(_two_digits(groups["I"]))
    tests = [apply(ScalarFunction.EQUAL, hour, _text_constant(f"{number:02}")) for number in range(1, 13)]
    afternoon = [
        scalar for number, test in enumerate(tests, 1) for scalar in (test, _text_constant(f"{number % 12 + 12}"))
    ]
    return apply(
        ScalarFunction.CASE,
        *(_matches_test(groups["p"], _AFTERNOON), apply(ScalarFunction.CASE, *afternoon, null_constant(Type.TEXT))),
        *(tests[-1], _text_constant("00")),
        hour,
    )
