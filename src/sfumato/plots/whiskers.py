"""Whiskers are the ranges of numbers: all those of a panel are one path, so that many are drawn quickly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sfumato.plots.chart_data import ChartData, Interval
from sfumato.plots.marks import RANGE, SAMPLE, digits, path
from sfumato.plots.scales import Scale, reach


def drawn(
    data: ChartData, rows: range, scale: Scale, places: Sequence[float], cap: float, *, standing: bool = False
) -> list[str]:
    """Draw the ranges of these rows at their places, lying or ``standing``, with what sampling adds beside them."""
    heavy = min(1.6, max(0.8, cap / 3))
    shift = 0.45 * cap if data.sampling else 0.0
    ranges = [(place - shift, data.intervals[row]) for place, row in zip(places, rows, strict=True)]
    marks = [path(_steps(ranges, scale, cap, standing), RANGE, heavy)]
    if data.sampling:
        around = [(place + shift, sampled(data, row)) for place, row in zip(places, rows, strict=True)]
        marks.append(path(_steps(around, scale, cap * 0.7, standing), SAMPLE, heavy))
    return marks


def reached(data: ChartData, rows: int) -> tuple[float, float]:
    """Find the ends of a scale that shows the first rows, with what sampling adds to them."""
    around = [sampled(data, row) for row in range(rows)] if data.sampling else []
    return reach(data.values[:rows], [*data.intervals[:rows], *around], zero=True)


def sampled(data: ChartData, row: int) -> Interval:
    """Give the range of what sampling alone leaves open."""
    value, half = data.values[row], data.sampling[row]
    return None if value is None or half is None else (value - half, value + half)


def _steps(ranges: Sequence[tuple[float, Interval]], scale: Scale, cap: float, standing: bool) -> Iterator[str]:
    for place, interval in ranges:
        if interval is None or interval[0] == interval[1]:
            continue
        low, high = (scale(each) if math.isfinite(each) else scale(math.copysign(1e308, each)) for each in interval)
        yield _line(place, low, high, standing)
        for end, at in zip(interval, (low, high), strict=True):
            if scale.low <= end <= scale.high:  # an end that lies outside has no cap
                yield _line(at, place - cap / 2, place + cap / 2, not standing)


def _line(place: float, one: float, other: float, standing: bool) -> str:
    if standing:
        return f"M{digits(place)} {digits(one)}V{digits(other)}"
    return f"M{digits(one)} {digits(place)}H{digits(other)}"
