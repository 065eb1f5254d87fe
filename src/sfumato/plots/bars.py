"""Bars lie beside each other in aligned panels: one row for each group, one panel for each number.

Whiskers are the ranges of numbers: all those of a panel are one path, so that many are drawn quickly.

Paired bars stand two by two: what is in one table, and below it what is in another.

A histogram stands on the line of numbers: a bar over each bin, from one edge to the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sfumato.caching import cached_property
from sfumato.plots.frame import BELOW, INSIDE, SMALL, Drawing, beside, bottom, bottom_of, heading, left, left_room
from sfumato.plots.marks import (
    BAR,
    PAPER,
    QUIET,
    RANGE,
    SAMPLE,
    box,
    digits,
    each_told,
    label,
    labels,
    lengths,
    path,
    width,
)
from sfumato.plots.scales import ChartData, Interval, KeyScale, LinearScale, Tick, fitting, reach


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


def drawn(data: ChartData, rows: range, scale: LinearScale, places: Places, *, standing: bool = False) -> list[str]:
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


def _steps(ranges: Sequence[Interval], scale: LinearScale, places: Places, standing: bool) -> Iterator[str]:
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


_BAR_STEP, _HIGH, _ROWS = 22.0, 800.0, 50
"""Pixels of a row at most, and of all of them, and how many have room below each other."""
_PANELS, _BLOCKS = 6, 4
"""Panels that have room beside each other, and blocks of rows."""
_HEAD = 24.0
_THICK = 0.66
"""The part of a row that its bar takes."""
_HOLLOW = f'{PAPER}" stroke="{BAR}" stroke-dasharray="3 2"'
"""How a bar is filled whose number is too noisy to print."""


def shown(columns: Sequence[ChartData]) -> tuple[int, int]:
    """Say how many columns are drawn, and how many rows of them."""
    panels = min(len(columns), _PANELS)
    return panels, min(len(columns[0].labels), _ROWS * max(1, _BLOCKS // panels))


def left_out(columns: Sequence[ChartData]) -> list[str]:
    """Say in words what has no room on a page."""
    panels, rows = shown(columns)
    every = len(columns[0].labels)
    said = [f"drawn are the first {rows:,} of {every:,} rows: {every - rows:,} are left out"] if rows < every else []
    more = len(columns) - panels
    return [*said, *([f"drawn are the first {panels} of {len(columns)} columns: {more} left out"] if more else [])]


@dataclass(frozen=True)
class _Column:
    """A column is drawn on one scale in every block."""

    data: ChartData
    scale: LinearScale
    ticks: Sequence[Tick]
    wide: float
    texts: bool
    """Whether its numbers are written on the right."""


@dataclass(frozen=True)
class _Heights:
    """Rows have their heights in every block: in the middle, and as those of texts, bars and ranges are written."""

    step: float
    middles: Sequence[float]
    texts: Sequence[str]
    bars: Sequence[str]
    ranges: Places


def aligned(columns: Sequence[ChartData], wide: float = INSIDE) -> Drawing:
    """Draw panels that share their rows: a number that is missing leaves its row where it is.

    Where rows are many and panels few, they go on in a second block beside the first.
    """
    panels, rows = shown(columns)
    blocks = math.ceil(rows / _ROWS)
    high = math.ceil(rows / blocks)
    room = (wide - 26 * (blocks - 1)) / blocks
    left = _labels_room(columns[0], rows, room, blocks > 1 or panels < 3)
    own = (room - left - 18 * (panels - 1)) / panels
    drawn_columns = [_column(each, rows, own, texts=blocks == 1 and panels <= 3) for each in columns[:panels]]
    heights = _heights(high, min(_BAR_STEP, _HIGH / high))
    parts = [
        _block(drawn_columns, range(start, min(rows, start + high)), heights, left, room)
        for start in range(0, rows, high)
    ]
    return beside(parts, 26)


def _labels_room(data: ChartData, rows: int, wide: float, much: bool) -> float:
    """Say how much room labels take, which is less than half where bars are beside them."""
    longest = max(width(each[:60]) for each in (*data.labels[:rows], data.by))
    return min(longest, wide * (0.48 if much else 0.26)) + 8


def _column(data: ChartData, rows: int, wide: float, *, texts: bool) -> _Column:
    """Choose the scale of a column, which leaves room for its numbers on the right if they fit."""
    numbers = max((width(each, SMALL) for each in data.cells[:rows]), default=0.0) + 10 if texts and data.cells else 0.0
    if numbers > wide * 0.55:
        numbers = 0.0
    scale = LinearScale(*reached(data, rows), 2.0, wide - numbers - 4)
    return _Column(data, scale, fitting(scale, SMALL, wide=True), wide, numbers > 0)


def _heights(rows: int, step: float) -> _Heights:
    middles = [_HEAD + (place + 0.5) * step for place in range(rows)]
    bars = lengths([each - _THICK * step / 2 for each in middles])
    return _Heights(step, middles, lengths([each + 4 for each in middles]), bars, Places(middles, 0.42 * step))


def _block(columns: Sequence[_Column], rows: range, heights: _Heights, left: float, wide: float) -> Drawing:
    """Draw some rows: their labels once, on the left, and a panel for each column."""
    named, by = columns[0].data.labels[rows.start : rows.stop], columns[0].data.by
    parts = [heading(left - 8, 12, by, left - 8, "end")] if by else []
    parts += labels(left - 8, heights.texts[: len(rows)], named, left - 8, anchor="end")
    inner = beside([_panel(each, rows, heights) for each in columns], 18)
    moved = beside([Drawing(tuple(parts), left, inner.high), inner], 0)
    return Drawing(moved.parts, wide, inner.high)


def _panel(column: _Column, rows: range, heights: _Heights) -> Drawing:
    """Draw one column of these rows: bars from zero, ranges over them, and the numbers on the right if they fit."""
    data, scale, step = column.data, column.scale, heights.step
    foot = _HEAD + len(rows) * step + 2
    parts = [heading(2, 12, data.name, column.wide - 4), *bottom_of(scale, column.ticks, _HEAD, foot)]
    for row, bar, middle in zip(rows, _bars(column, rows, heights), heights.middles, strict=False):
        parts.append(bar)
        if column.texts and data.values[row] is not None:
            colour = QUIET if _hollow(data, row) else RANGE
            parts.append(label(column.wide, middle + 4, data.cells[row], anchor="end", size=SMALL, fill=colour))
    parts += drawn(data, rows, scale, heights.ranges)
    return Drawing(tuple(parts), column.wide, foot + BELOW)


def _bars(column: _Column, rows: range, heights: _Heights) -> Iterator[str]:
    """Draw the bar of each row, with what is told of it; a number that is missing is a text."""
    data, scale = column.data, column.scale
    values = data.values[rows.start : rows.stop]
    zero, ends = scale(0.0), scale.places([0.0 if each is None or each != each else each for each in values])
    high = f'" height="{digits(_THICK * heights.step)}" fill="'
    start, below = digits(zero), iter(lengths([end for end in ends if end < zero]))
    written = zip(
        [next(below) if end < zero else start for end in ends],
        lengths([abs(end - zero) for end in ends]),
        each_told([f"{data.labels[row]}: {data.cells[row] if data.cells else data.values[row]}" for row in rows]),
        strict=True,
    )
    for place, (row, value, (x, wide, said)) in enumerate(zip(rows, values, written, strict=True)):
        if value is None:
            yield label(zero + 5, heights.middles[place] + 4, "no number", size=SMALL, fill=QUIET)
        else:
            fill = _HOLLOW if _hollow(data, row) else f'{BAR}"'
            yield f'<rect x="{x}" y="{heights.bars[place]}" width="{wide}{high}{fill}>{said}</rect>'


def _hollow(data: ChartData, row: int) -> bool:
    return bool(data.noisy) and data.noisy[row]


FIRST, SECOND = "#1b3a57", "#e69f00"
"""Dark and bright: they differ for everybody, and in grey."""
_PAIR_STEP = 24.0


def paired_bars(
    labels: Sequence[str], names: tuple[str, str], first: Sequence[float], second: Sequence[float], wide: float = 420.0
) -> Drawing:
    """Draw two bars for each label, from zero, with both numbers at the right."""
    left = min(max((width(each[:60]) for each in labels), default=0.0), 0.36 * wide) + 8
    most = max(*first, *second, 1e-9)
    texts = [f"{one:.3f} · {other:.3f}" for one, other in zip(first, second, strict=True)]
    scale = LinearScale(0.0, most, left, wide - max(width(each, SMALL) for each in texts) - 10)
    foot = len(labels) * _PAIR_STEP + 4
    parts = bottom(scale, 0.0, foot)
    for place, (name, text) in enumerate(zip(labels, texts, strict=True)):
        y = place * _PAIR_STEP
        parts.append(label(left - 8, y + 16, name, anchor="end", room=left - 8))
        for own, value, shift, colour in zip(
            names, (first[place], second[place]), (3, 12), (FIRST, SECOND), strict=True
        ):
            long = max(0.5, scale(value) - left)
            parts.append(box(left, y + shift, long, 8.5, colour, say=f"{name}, {own}: {value:.4f}"))
        parts.append(label(wide, y + 16, text, anchor="end", size=SMALL, fill=QUIET))
    return Drawing(tuple(parts), wide, foot + BELOW)


_BIN = re.compile(r"\[(-?[0-9.e+-]+), (-?[0-9.e+-]+)[])]")


def edges(labels: Sequence[str]) -> list[tuple[float, float]] | None:
    """Read the bins that labels name, such as "[0, 500)"; None where they are none, or do not follow each other."""
    if len(labels) < 2:
        return None
    bins = []
    for each in labels:
        found = _BIN.fullmatch(each)
        if found is None:
            return None
        try:
            bins.append((float(found[1]), float(found[2])))
        except ValueError:
            return None
    follow = all(one[1] == other[0] for one, other in pairwise(bins))
    rise = all(math.isfinite(high - low) and low < high for low, high in bins)
    return bins if follow and rise else None


def histogram(data: ChartData, bins: Sequence[tuple[float, float]], high: float = 300.0) -> Drawing:
    """Draw the bars of all bins with their ranges."""
    foot, top = high - BELOW - (16 if data.by else 0), 24.0 if data.name else 8.0
    y = LinearScale(*reached(data, len(bins)), foot, top)
    ticks = fitting(y, SMALL, wide=False)
    start = left_room(ticks)
    x = KeyScale(bins[0][0], bins[-1][1], start + 2, INSIDE - 12)
    parts = [heading(0, 12, data.name, INSIDE)] if data.name else []
    parts += [*left(y, ticks, start, INSIDE - 10), *bottom(x, foot, foot, zero=False)]
    zero = y(0.0)
    for row, (low, upper) in enumerate(bins):
        value = data.values[row]
        if value is None:
            continue
        said = f"{data.labels[row]}: {data.cells[row] if data.cells else value}"
        hollow = bool(data.noisy) and data.noisy[row]
        fill, more = (PAPER, f' stroke="{BAR}" stroke-dasharray="3 2"') if hollow else (BAR, "")
        wide, at = x(upper) - x(low), y(value)
        gap = 1.0 if wide > 4 else 0.2
        parts.append(box(x(low) + gap / 2, min(zero, at), wide - gap, abs(at - zero), fill, more=more, say=said))
    places = [(x(low) + x(upper)) / 2 for low, upper in bins]
    cap = max(1.5, min(8.0, 0.4 * (x(bins[0][1]) - x(bins[0][0]))))
    parts += drawn(data, range(len(bins)), y, Places(places, cap), standing=True)
    if data.by:
        parts.append(label(INSIDE / 2, high - 4, data.by, anchor="middle", fill=QUIET, room=INSIDE / 2))
    return Drawing(tuple(parts), INSIDE, high)
