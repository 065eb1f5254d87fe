"""Format values as text: only significant digits, and nothing that a terminal or a spreadsheet would execute.

Text bars show an answer in a terminal, each with the whiskers of its interval.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plots.frame import ChartData, Interval
from sfumato.untrusted import escape_unprintable

_MAX_DIGITS = 300
_YEARS = (1000, 2999)
"""Numbers whose possible range lies between these are written like years: 1985, not 1,985."""

DigitFormat = Callable[[str], str]
"""Formats the digits of a number for display."""


def keep_separators(digits: str) -> str:
    """Return the digits unchanged, with thousands separators."""
    return digits


def remove_separators(digits: str) -> str:
    """Remove thousands separators."""
    return digits.replace(",", "")


def separator_format(possible_range: tuple[float, float] | None) -> DigitFormat:
    """Choose the digit format of a column, from the range of its possible values."""
    return (
        remove_separators
        if possible_range and _YEARS[0] <= possible_range[0] and possible_range[1] <= _YEARS[1]
        else keep_separators
    )


def key_text(value: Any) -> str:
    """Format an exact value for people: a year as 1985, a price as 2.5, a time as 14:30."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime) and not value.second and not value.microsecond:
        return value.strftime("%Y-%m-%d %H:%M")
    return format_for_file(value)


def format_for_file(value: Any) -> str:
    """Format an exact value for files."""
    if value is None:
        return "NULL"
    return repr(value).removesuffix(".0") if isinstance(value, float) else escape_unprintable(str(value))


def format_with_half_width(value: Any, interval: Interval, format_digits: DigitFormat = keep_separators) -> str:
    """Format a number with ± its half-width; that of an integer is rounded up to an integer."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)) or interval is None:
        return key_text(value)
    if not all(map(math.isfinite, interval)):
        return (
            f"{format_digits(_significant_digits(value, abs(value)))} ± ∞"  # divided by a number that may be zero, say
        )
    low, high = interval
    half_width = max(value - low, high - value)
    if isinstance(value, int):
        half_width = round_half_width_up(half_width)
    if half_width > 0:
        return (
            f"{format_digits(_significant_digits(value, half_width))} ± {_significant_digits(half_width, half_width)}"
        )
    return format_digits(_significant_digits(value, 0)) if isinstance(value, int) else key_text(value)


def round_half_width_up(half: float) -> int:
    """Round the half-width of an integer up, so that the interval is never narrower."""
    return math.ceil(half * (1 - 1e-12))


def format_with_ends(value: Any, interval: Interval, format_digits: DigitFormat = keep_separators) -> str:
    """Format a number with both ends of its interval, which may be at different distances."""
    if interval is None or not all(map(math.isfinite, interval)):
        return format_digits(format_six_digits(value))
    number, low, high = (format_digits(format_six_digits(part)) for part in (value, *interval))
    return f"{number} in [{low}, {high}]"


def format_six_digits(value: Any) -> str:
    """Format a number whose error is known in ranks alone: six digits, or all before the point."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1e-4 < abs(value) < 1e15:
        return key_text(value)
    digits = max(0, 5 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def format_half_width(width: float) -> str:
    """Format a half-width with two digits, or all before the point."""
    return _significant_digits(float(width), width)


def format_bounds_and_estimate(
    value: Any, interval: tuple[float, float], format_digits: DigitFormat = keep_separators
) -> str:
    """Format bounds with a model's estimate between them."""
    low, high = round_outward(interval)
    half_width = max(value - low, high - value)
    ends = (
        ("−∞" if end < 0 else "∞") if math.isinf(end) else format_digits(_significant_digits(end, half_width))
        for end in (low, high)
    )
    return f"{' to '.join(ends)}, perhaps {format_digits(_significant_digits(value, half_width))}"


def _significant_digits(value: float, error: float) -> str:
    """Format a number with as many digits as its error leaves meaningful."""
    if isinstance(value, int) or (error >= 10 and abs(value) < 1e15):
        return f"{round(value):,}"
    if not 1e-6 < abs(error) < 1e15:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 1 - math.floor(math.log10(error)))}f}"


def round_outward(interval: tuple[float, float]) -> tuple[float, float]:
    """Round interval ends outward to three digits of the half-width: coverage is no lower."""
    low, high = interval
    half_width = (high - low) / 2
    if not (math.isfinite(half_width) and half_width > 0):
        return interval
    digits = 2 - math.floor(math.log10(half_width))
    if not -_MAX_DIGITS < digits < _MAX_DIGITS:
        return interval
    step = 10.0**-digits
    rounded = round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)
    return rounded if rounded[0] <= low and rounded[1] >= high else interval


def draw_text_bars(data: ChartData, width: int) -> str:
    """Draw one line per row: its label, its bar from zero, its number."""
    if type(width) is not int or width < 8:
        raise InvalidParameter(
            "width", width, "a whole number of at least 8 characters", fix="for example, set width to 60"
        )
    label_width, number_width = (max(map(len, texts), default=0) for texts in (data.labels, data.printed))
    return "\n".join(
        f"{label:<{label_width}}  {bar:<{width}}  {cell_text:>{number_width}}"
        for label, bar, cell_text in zip(data.labels, _bar_lines(data, width), data.printed, strict=True)
    )


def _bar_lines(data: ChartData, width: int) -> list[str]:
    finite_intervals = [
        interval for interval in data.intervals if interval is not None and all(map(math.isfinite, interval))
    ]
    lowest, highest = (
        min([0.0, *(low for low, _ in finite_intervals)]),
        max([0.0, *(high for _, high in finite_intervals)]),
    )
    scale = (width - 1) / (highest - lowest) if highest > lowest else 0.0

    def column_of(amount: float) -> int:
        return min(width - 1, max(0, round((amount - lowest) * scale)))

    return [
        ""
        if value is None or interval is None
        else _bar(column_of(0), column_of(value), column_of(interval[0]), column_of(interval[1]))
        for value, interval in zip(data.values, data.intervals, strict=True)
    ]


def _bar(zero: int, value: int, low: int, high: int) -> str:
    """Draw a block from zero to the value, overlaid by the interval with its ends and the value."""
    line = [" "] * (max(zero, value, high) + 1)
    line[min(zero, value) : max(zero, value)] = "█" * abs(value - zero)
    line[low : high + 1] = "─" * (high + 1 - low)
    line[low], line[high], line[value] = "├", "┤", "┼"
    return "".join(line)
