"""An answer as bars of text, each with the whiskers of its range: a picture for terminals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from sfumato.release.answers import Answer


def bars(answer: Answer, name: str, width: int) -> str:
    """One line for each row: its key, its bar from zero, its number."""
    if name not in answer.intervals:
        raise InvalidParameter("column", name, "a column of numbers: " + ", ".join(answer.intervals))
    if type(width) is not int or width < 8:
        raise InvalidParameter("width", width, "a whole number ≥ 8 of letters")
    place = answer.columns.index(name)
    keys = [answer.columns.index(key) for key in answer.keys]
    shown = [(" · ".join(row[key] for key in keys) or "all", row[place]) for row in answer.cells()]
    longest = max((len(label) for label, _ in shown), default=0)
    wide = max((len(number) for _, number in shown), default=0)
    drawn = _drawn(answer, name, width)
    return "\n".join(
        f"{label:<{longest}}  {bar:<{width}}  {number:>{wide}}"
        for (label, number), bar in zip(shown, drawn, strict=True)
    )


def _drawn(answer: Answer, name: str, width: int) -> list[str]:
    values, ranges = answer.column(name), answer.intervals[name]
    known = [each for each in ranges if each is not None and all(map(math.isfinite, each))]
    least, most = min([0.0, *(low for low, _ in known)]), max([0.0, *(high for _, high in known)])
    scale = (width - 1) / (most - least) if most > least else 0.0

    def cell(amount: float) -> int:
        return min(width - 1, max(0, round((amount - least) * scale)))

    return [
        "" if value is None or each is None else _bar(cell(0), cell(value), cell(each[0]), cell(each[1]))
        for value, each in zip(values, ranges, strict=True)
    ]


def _bar(zero: int, value: int, low: int, high: int) -> str:
    """A block from zero to the value; over it the range, with its ends and its middle."""
    line = [" "] * (max(zero, value, high) + 1)
    line[min(zero, value) : max(zero, value)] = "█" * abs(value - zero)
    line[low : high + 1] = "─" * (high + 1 - low)
    line[low], line[high], line[value] = "├", "┤", "┼"
    return "".join(line)
