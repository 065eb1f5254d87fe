"""Whiskers are the ranges of numbers: all those of a panel are one path, so that many are drawn quickly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sfumato.caching import cached_property
from sfumato.plots.chart_data import ChartData, Interval
from sfumato.plots.marks import RANGE, SAMPLE, lengths, path
from sfumato.plots.scales import Scale, reach


@dataclass(frozen=True)
class Places:
    """Ranges are drawn at these places, which lie along the axis that is no scale; their caps are so long."""

    middles: Sequence[float]
    cap: float

    @cached_property
    def written(self) -> list[tuple[str, str, str]]:
        """Write each place, and where its caps begin and end."""
        half = self.cap / 2
        before, after = [each - half for each in self.middles], [each + half for each in self.middles]
        return list(zip(lengths(self.middles), lengths(before), lengths(after), strict=True))

    def moved(self, by: float, cap: float) -> Places:
        """Give the same places, a little aside."""
        return Places([each + by for each in self.middles], cap)


def drawn(data: ChartData, rows: range, scale: Scale, places: Places, *, standing: bool = False) -> list[str]:
    """Draw the ranges of these rows at the first places, lying or ``standing``, with what sampling adds beside them."""
    cap = places.cap
    heavy = min(1.6, max(0.8, cap / 3))
    ranges = data.intervals[rows.start : rows.stop]
    if not data.sampling:
        return [path(_steps(ranges, scale, places, standing), RANGE, heavy)]
    around = [sampled(data, row) for row in rows]
    own, theirs = places.moved(-0.45 * cap, cap), places.moved(0.45 * cap, cap * 0.7)
    return [
        path(_steps(ranges, scale, own, standing), RANGE, heavy),
        path(_steps(around, scale, theirs, standing), SAMPLE, heavy),
    ]


def reached(data: ChartData, rows: int) -> tuple[float, float]:
    """Find the ends of a scale that shows the first rows, with what sampling adds to them."""
    around = [sampled(data, row) for row in range(rows)] if data.sampling else []
    return reach(data.values[:rows], [*data.intervals[:rows], *around], zero=True)


def sampled(data: ChartData, row: int) -> Interval:
    """Give the range of what sampling alone leaves open."""
    value, half = data.values[row], data.sampling[row]
    return None if value is None or half is None else (value - half, value + half)


def _steps(ranges: Sequence[Interval], scale: Scale, places: Places, standing: bool) -> Iterator[str]:
    known = [
        (at, each) for at, each in zip(places.written, ranges, strict=False) if each is not None and each[0] != each[1]
    ]
    lows, highs = (lengths(scale.places(_finite(each[end] for _, each in known))) for end in (0, 1))
    least, most = scale.low, scale.high
    for ((at, before, after), ends), low, high in zip(known, lows, highs, strict=True):
        yield f"M{at} {low}V{high}" if standing else f"M{low} {at}H{high}"
        for end, place in zip(ends, (low, high), strict=True):
            if least <= end <= most:  # an end that lies outside has no cap
                yield f"M{before} {place}H{after}" if standing else f"M{place} {before}V{after}"


def _finite(ends: Iterable[float]) -> list[float]:
    return [end if math.isfinite(end) else math.copysign(1e308, end) for end in ends]
