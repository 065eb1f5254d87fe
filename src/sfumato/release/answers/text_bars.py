"""Bars of text show an answer in a terminal, each with the whiskers of its range."""

from __future__ import annotations

import math

from sfumato.errors import InvalidParameter
from sfumato.plots.chart_data import ChartData


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
