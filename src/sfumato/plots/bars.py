"""Bars lie beside each other in aligned panels: one row for each group, one panel for each number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.plots.axes import BELOW, SMALL, bottom_of, heading
from sfumato.plots.chart_data import ChartData
from sfumato.plots.frame import INSIDE, Drawing, beside
from sfumato.plots.letters import width
from sfumato.plots.marks import BAR, PAPER, QUIET, RANGE, digits, each_told, label, labels, lengths
from sfumato.plots.scales import Scale, Tick, fitting
from sfumato.plots.whiskers import Places, drawn, reached

_STEP, _HIGH, _ROWS = 22.0, 800.0, 50
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
    scale: Scale
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
    heights = _heights(high, min(_STEP, _HIGH / high))
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
    scale = Scale(*reached(data, rows), 2.0, wide - numbers - 4)
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
