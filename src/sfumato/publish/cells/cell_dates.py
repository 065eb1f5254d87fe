"""Functions of dates and times are evaluated on cells: at both ends of a bin, or on every day of it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.plan.values import calendar, date_formats
from sfumato.plan.values.expressions import Call, Literal
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.policy import Type
from sfumato.publish.cells.cell_values import EPOCH, Cells, Evaluation, Floats, Spans, Texts, made, point, spans

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
    found, kind, pieces = spans(arguments[0]), call.arguments[0].domain.type, date_formats.pieces(_written(call, 1))
    texts = np.empty(found.low.shape, dtype=object)
    open_ = found.there & found.null
    for place, (low, high, there) in enumerate(zip(found.low.flat, found.high.flat, found.there.flat, strict=True)):
        text = _text(pieces, low, high, kind) if there else None
        texts.flat[place] = text
        open_.flat[place] |= there and text is None
    return Texts(texts, open_)


def _text(pieces: tuple[str | date_formats.Letter, ...], low: float, high: float, kind: Type) -> str | None:
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
