"""Write dates that stand in a text by a format as ISO does, so that the grammars read them.

A text is turned into the text of a date or time, or into NULL where it does not fit the format; whether the day exists
is decided where texts are read. Parts of a text are taken before it is known to match, so each operation here is total
on every text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.engine.lowering.applications import RowScope, missing
from sfumato.engine.lowering.relational import Constant, Scalar, ScalarFunction, apply, integer_constant
from sfumato.plan.values.grammars import GRAMMARS
from sfumato.plan.values.written_forms import MAX_DATE_LETTERS, MONTHS, any_case, date_pattern, read_directives
from sfumato.policy import Type
from sfumato.policy.date_formats import FormatPart, parse_format

_PIVOT = "(69|[7-9][0-9])"
"""The two digits of years in the 1900s; those of the 2000s are 00 to 68."""
_FIRST_DAY = "1900-01-01"
"""The day of a time that is written without one, as strptime has it."""
_AFTERNOON = "[Pp][Mm]"


def _text(value: str) -> Constant:
    return Constant(value, Type.TEXT)


def _matches(text: Scalar, pattern: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, text, detail=(pattern,))


def iso_text(rows: RowScope, text: Scalar, formats: Sequence[str]) -> Scalar:
    """Write a date or time as ISO does, by the first format under which its day exists; NULL where none fits."""
    is_short = apply(ScalarFunction.AT_MOST, apply(ScalarFunction.LENGTH, text), integer_constant(MAX_DATE_LETTERS))
    short = rows.shared(apply(ScalarFunction.CASE, is_short, text, missing(Type.TEXT)))
    candidates = [_iso(rows, short, parse_format(each)) for each in formats]
    if len(candidates) == 1:
        return candidates[0]
    shared = [rows.shared(candidate) for candidate in candidates]
    pairs = [scalar for each in shared for scalar in (_matches(each, GRAMMARS[Type.TIMESTAMP]), each)]
    return apply(ScalarFunction.CASE, *pairs, missing(Type.TEXT))


def _iso(rows: RowScope, text: Scalar, parts: tuple[FormatPart, ...]) -> Scalar:
    pattern, directives = date_pattern(parts), read_directives(parts)
    groups = {
        directive: rows.shared(apply(ScalarFunction.GROUP, text, detail=(pattern, number)))
        for number, directive in enumerate(directives, 1)
    }
    pieces: list[Scalar] = [_text(_FIRST_DAY)]
    if "d" in groups:
        pieces = [_year(groups), _text("-"), _month(groups), _text("-"), _padded(groups["d"])]
    if "H" in groups or "I" in groups:
        pieces += [_text(" "), _hour(rows, groups), _text(":"), _padded(groups["M"]) if "M" in groups else _text("00")]
        pieces += [_text(":"), _padded(groups["S"])] if "S" in groups else []
        pieces += [_text("."), groups["f"]] if "f" in groups else []
        pieces += [groups["z"]] if "z" in groups else []
    iso = apply(ScalarFunction.JOIN, *pieces)
    return apply(ScalarFunction.CASE, _matches(text, pattern), iso, missing(Type.TEXT))


def _padded(digits: Scalar) -> Scalar:
    """Write a number of one digit with two."""
    two_digits = apply(ScalarFunction.JOIN, _text("0"), digits)
    is_single = apply(ScalarFunction.EQUAL, apply(ScalarFunction.LENGTH, digits), integer_constant(1))
    return apply(ScalarFunction.CASE, is_single, two_digits, digits)


def _year(groups: dict[str, Scalar]) -> Scalar:
    if "Y" in groups:
        return groups["Y"]
    century = apply(ScalarFunction.CASE, _matches(groups["y"], _PIVOT), _text("19"), _text("20"))
    return apply(ScalarFunction.JOIN, century, groups["y"])


def _month(groups: dict[str, Scalar]) -> Scalar:
    if "m" in groups:
        return _padded(groups["m"])
    name = groups.get("b") or groups["B"]
    pairs = [
        scalar
        for number, month in enumerate(MONTHS, 1)
        for scalar in (_matches(name, f"{any_case(month[:3])}[A-Za-z]*"), _text(f"{number:02}"))
    ]
    return apply(ScalarFunction.CASE, *pairs, missing(Type.TEXT))


def _hour(rows: RowScope, groups: dict[str, Scalar]) -> Scalar:
    """Write an hour with two digits, from 00 to 23: 12 AM is the first hour of a day, 12 PM the first after noon."""
    if "H" in groups:
        return _padded(groups["H"])
    hour = rows.shared(_padded(groups["I"]))
    tests = [apply(ScalarFunction.EQUAL, hour, _text(f"{number:02}")) for number in range(1, 13)]
    afternoon = [scalar for number, test in enumerate(tests, 1) for scalar in (test, _text(f"{number % 12 + 12}"))]
    return apply(
        ScalarFunction.CASE,
        *(_matches(groups["p"], _AFTERNOON), apply(ScalarFunction.CASE, *afternoon, missing(Type.TEXT))),
        *(tests[-1], _text("00")),
        hour,
    )
