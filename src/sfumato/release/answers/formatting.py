"""Formatting writes values as text: with no more digits than their errors leave meaningful, and nothing that a terminal
or a spreadsheet would obey.

Bars of text show an answer in a terminal, each with the whiskers of its range.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plots.scales import ChartData, Interval
from sfumato.untrusted import printable

_MOST_DIGITS = 300
_YEARS = (1000, 2999)
"""Numbers that lie between these whatever the data hold are written as years are: 1985, not 1,985."""

Point = Callable[[str], str]
"""What is done with a number's digits before they are shown."""


def kept(digits: str) -> str:
    """Leave a number's digits as they are, thousands apart."""
    return digits


def as_year(digits: str) -> str:
    """Write a number without a comma between its thousands."""
    return digits.replace(",", "")


def pointed(possible: tuple[float, float] | None) -> Point:
    """Choose how numbers of a column are written, from the range that they lie in whatever the data hold."""
    return as_year if possible and _YEARS[0] <= possible[0] and possible[1] <= _YEARS[1] else kept


def key(value: Any) -> str:
    """Write a value that has no error as people do: a year is 1985, a decade 1980, a price 2.5, a time 14:30."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime) and not value.second and not value.microsecond:
        return value.strftime("%Y-%m-%d %H:%M")
    return stored(value)


def stored(value: Any) -> str:
    """Write a value that has no error as files have it."""
    if value is None:
        return "NULL"
    return repr(value).removesuffix(".0") if isinstance(value, float) else printable(str(value))


def cell(value: Any, interval: Interval, point: Point = kept) -> str:
    """Write a number with ± its half-width; that of a whole number is whole, and rounded up."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)) or interval is None:
        return key(value)
    if not all(map(math.isfinite, interval)):
        return f"{point(_number(value, abs(value)))} ± ∞"  # divided by a number that may be zero, say
    low, high = interval
    half = max(value - low, high - value)
    if isinstance(value, int):
        half = whole_reach(half)
    if half > 0:
        return f"{point(_number(value, half))} ± {_number(half, half)}"
    return point(_number(value, 0)) if isinstance(value, int) else key(value)


def whole_reach(half: float) -> int:
    """Round the half-width of a whole number up: people count in whole numbers, and a range is never narrower."""
    return math.ceil(half * (1 - 1e-12))


def between(value: Any, interval: Interval, point: Point = kept) -> str:
    """Write a number with the two between which it lies: they may be at different distances."""
    if interval is None or not all(map(math.isfinite, interval)):
        return point(short(value))
    return f"{point(short(value))} in [{point(short(interval[0]))}, {point(short(interval[1]))}]"


def short(value: Any) -> str:
    """Write a number whose error is known in ranks alone: six digits, or all before the point."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1e-4 < abs(value) < 1e15:
        return key(value)
    digits = max(0, 5 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def short_width(width: float) -> str:
    """Write a half-width with two digits, or all before the point."""
    return _number(float(width), width)


def bounded(value: Any, interval: tuple[float, float], point: Point = kept) -> str:
    """Write bounds with a model's number between them."""
    low, high = outward(interval)
    reach = max(value - low, high - value)
    ends = (("−∞" if end < 0 else "∞") if math.isinf(end) else point(_number(end, reach)) for end in (low, high))
    return f"{' to '.join(ends)}, perhaps {point(_number(value, reach))}"


def _number(value: float, reach: float) -> str:
    """Write as many digits as its error leaves meaningful."""
    if isinstance(value, int) or (reach >= 10 and abs(value) < 1e15):
        return f"{round(value):,}"
    if not 1e-6 < abs(reach) < 1e15:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 1 - math.floor(math.log10(reach)))}f}"


def outward(interval: tuple[float, float]) -> tuple[float, float]:
    """Write the ends of a range with three digits of its half-width, moved outward: it still holds what it held."""
    low, high = interval
    reach = (high - low) / 2
    if not (math.isfinite(reach) and reach > 0):
        return interval
    digits = 2 - math.floor(math.log10(reach))
    if not -_MOST_DIGITS < digits < _MOST_DIGITS:
        return interval
    step = 10.0**-digits
    ends = round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)
    return ends if ends[0] <= low and ends[1] >= high else interval


def bars(data: ChartData, width: int) -> str:
    """Draw one line for each row: its label, its bar from zero, its number."""
    if type(width) is not int or width < 8:
        raise InvalidParameter("width", width, "a whole number ≥ 8 of letters")
    longest, wide = (max(map(len, texts), default=0) for texts in (data.labels, data.cells))
    return "\n".join(
        f"{label:<{longest}}  {bar:<{width}}  {number:>{wide}}"
        for label, bar, number in zip(data.labels, _drawn(data, width), data.cells, strict=True)
    )


def _drawn(data: ChartData, width: int) -> list[str]:
    known = [each for each in data.intervals if each is not None and all(map(math.isfinite, each))]
    least, most = min([0.0, *(low for low, _ in known)]), max([0.0, *(high for _, high in known)])
    scale = (width - 1) / (most - least) if most > least else 0.0

    def cell(amount: float) -> int:
        return min(width - 1, max(0, round((amount - least) * scale)))

    return [
        "" if value is None or each is None else _bar(cell(0), cell(value), cell(each[0]), cell(each[1]))
        for value, each in zip(data.values, data.intervals, strict=True)
    ]


def _bar(zero: int, value: int, low: int, high: int) -> str:
    """Draw a block from zero to the value; over it the range, with its ends and its middle."""
    line = [" "] * (max(zero, value, high) + 1)
    line[min(zero, value) : max(zero, value)] = "█" * abs(value - zero)
    line[low : high + 1] = "─" * (high + 1 - low)
    line[low], line[high], line[value] = "├", "┤", "┼"
    return "".join(line)
