"""Formatting writes values as text: with no more digits than their errors leave meaningful, and nothing that a terminal
or a spreadsheet would obey.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.plots.chart_data import Interval
from sfumato.safe_text import printable

_MOST_DIGITS = 300


def key(value: Any) -> str:
    """Write a value that has no error: a year is 1985, a decade 1980, a price 2.5."""
    if value is None:
        return "NULL"
    return repr(value).removesuffix(".0") if isinstance(value, float) else printable(str(value))


def cell(value: Any, interval: Interval) -> str:
    """Write a number with ± its half-width."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)) or interval is None:
        return key(value)
    if not all(map(math.isfinite, interval)):
        return f"{_number(value, abs(value))} ± ∞"  # divided by a number that may be zero, say
    low, high = interval
    reach = max(value - low, high - value)
    if isinstance(value, int) and float(reach).is_integer():
        reach = int(reach)
    if reach > 0:
        return f"{_number(value, reach)} ± {_number(reach, reach)}"
    return _number(value, 0) if isinstance(value, int) else key(value)


def between(value: Any, interval: Interval) -> str:
    """Write a number with the two between which it lies: they may be at different distances."""
    if interval is None or not all(map(math.isfinite, interval)):
        return short(value)
    return f"{short(value)} in [{short(interval[0])}, {short(interval[1])}]"


def short(value: Any) -> str:
    """Write a number whose error is known in ranks alone: six digits, or all before the point."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1e-4 < abs(value) < 1e15:
        return key(value)
    digits = max(0, 5 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def short_width(width: float) -> str:
    """Write a half-width with two digits, or all before the point."""
    return _number(float(width), width)


def bounded(value: Any, interval: tuple[float, float]) -> str:
    """Write bounds with a model's number between them."""
    low, high = outward(interval)
    reach = max(value - low, high - value)
    ends = (("−∞" if end < 0 else "∞") if math.isinf(end) else _number(end, reach) for end in (low, high))
    return f"{' to '.join(ends)}, perhaps {_number(value, reach)}"


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
