"""Dates and times are within the years 1 to 9999: whatever falls outside is NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    any_nullable,
    call,
    function,
    literal,
    mismatch,
    same,
    temporal,
    timestamp,
    written,
)
from sfumato.policy.domains import Domain, Type

Made = tuple[Sequence[Expression], Domain]

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


def _unit(found: Expression, known: Sequence[str]) -> str:
    unit = str(written(found, Type.TEXT, "the unit"))
    if unit not in known:
        raise Unsupported("unit", "this unit is not known here", fix="use one of " + ", ".join(known))
    return unit


@function(
    "EXTRACT",
    "EXTRACT(part FROM date), DATE_PART('part', date), YEAR(date), …",
    "one of " + ", ".join(PARTS) + "; dow 0 is Sunday, isodow 1 is Monday, weeks are ISO's",
)
def _extract(part: Expression, x: Expression) -> Made:
    unit = _unit(part, tuple(PARTS))
    x = temporal(x)
    if unit in calendar.CLOCK and x.domain.type is not Type.TIMESTAMP:
        raise mismatch(x, Type.TIMESTAMP)
    bounds: Any = PARTS[unit]
    if unit == "year":
        found: Any = x.domain.range
        bounds = found and (found[0].year, found[1].year)
    return (part, x), Domain(Type.INTEGER, bounds=bounds, nullable=x.domain.nullable)


def _writing(node: Call) -> int:
    """Every piece is a number that becomes text, or a part of a list of names."""
    return 10 + 40 * node.domain.letters


@function(
    "STRFTIME",
    "STRFTIME(date, '%Y-%m')",
    "as text: " + " ".join(f"%{each}" for each in calendar.LETTERS) + ", English names, %% for %",
    steps=_writing,
    held=lambda node: 8 * node.domain.letters + 256,
)
def _strftime(x: Expression, form: Expression) -> Made:
    if isinstance(x, Literal) and not isinstance(form, Literal):
        x, form = form, x  # the engine takes the two in either order
    made = calendar.pieces(str(written(form, Type.TEXT, "the format")))
    clock = any(isinstance(each, calendar.Letter) and each.part in calendar.CLOCK for each in made)
    x = timestamp(x) if clock else temporal(x)
    letters = sum(len(each) if isinstance(each, str) else each.width for each in made)
    return (x, form), Domain(Type.TEXT, nullable=x.domain.nullable, max_length=letters)


@function("DAYNAME", "DAYNAME(date)", "Monday to Sunday")
def _dayname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%A"))


@function("MONTHNAME", "MONTHNAME(date)", "January to December")
def _monthname(x: Expression) -> Expression:
    return call("STRFTIME", x, literal(Type.TEXT, "%B"))


@function("DATE_TRUNC", "DATE_TRUNC('unit', date)", "the start of its " + ", ".join(calendar.UNITS))
def _trunc(unit: Expression, x: Expression) -> Made:
    name = _unit(unit, calendar.UNITS)
    x = temporal(x)
    if name not in calendar.DAYS and x.domain.type is not Type.TIMESTAMP:
        raise mismatch(x, Type.TIMESTAMP)
    found: Any = x.domain.range
    bounds = found and tuple(calendar.truncated(name, each) for each in found)
    return (unit, x), Domain(x.domain.type, bounds=bounds, nullable=x.domain.nullable)


@function(
    "DATE_DIFF", "DATE_DIFF('unit', from, to)", "starts of a unit in between (full weeks): " + ", ".join(calendar.UNITS)
)
def _diff(unit: Expression, start: Expression, end: Expression) -> Made:
    name = _unit(unit, calendar.UNITS)
    start, end = same((temporal(start), temporal(end)))
    first: Any = start.domain.range
    last: Any = end.domain.range
    bounds = None
    if first is not None and last is not None:
        bounds = tuple(calendar.between(name, first[1 - i], last[i]) for i in (0, 1))
    return (unit, start, end), Domain(Type.INTEGER, bounds=bounds, nullable=any_nullable(start, end))  # type: ignore[arg-type]


@function("DATE_ADD", "date + INTERVAL 'n unit'", "later, or earlier with -, by " + ", ".join(calendar.UNITS))
def _add(x: Expression, amount: Expression, unit: Expression) -> Made:
    name = _unit(unit, calendar.UNITS)
    steps = int(written(amount, Type.INTEGER, "the number of units"))  # type: ignore[arg-type]
    if not calendar.spans(steps, name):
        raise Unsupported("interval", "an interval is shorter than 10,000 years", fix="write a shorter one")
    x = temporal(x) if name in calendar.DAYS else timestamp(x)
    found: Any = x.domain.range
    moved: Any = found and tuple(calendar.shifted(each, steps, name) for each in found)
    if not moved or None in moved:
        return (x, amount, unit), Domain(x.domain.type, nullable=True)
    return (x, amount, unit), Domain(x.domain.type, bounds=moved, nullable=x.domain.nullable)
