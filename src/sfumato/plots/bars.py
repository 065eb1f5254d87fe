"""Bars lie beside each other in aligned panels: one row for each group, one panel for each number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.plots.axes import BELOW, SMALL, bottom, heading
from sfumato.plots.chart_data import ChartData
from sfumato.plots.frame import INSIDE, Drawing, beside
from sfumato.plots.letters import width
from sfumato.plots.marks import BAR, PAPER, QUIET, RANGE, box, label
from sfumato.plots.scales import Scale
from sfumato.plots.whiskers import drawn, reached

_STEP, _HIGH, _ROWS = 22.0, 800.0, 50
"""Pixels of a row at most, and of all of them, and how many have room below each other."""
_PANELS, _BLOCKS = 6, 4
"""Panels that have room beside each other, and blocks of rows."""
_HEAD = 24.0


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


def aligned(columns: Sequence[ChartData], wide: float = INSIDE) -> Drawing:
    """Draw panels that share their rows: a number that is missing leaves its row where it is.

    Where rows are many and panels few, they go on in a second block beside the first.
    """
    panels, rows = shown(columns)
    blocks = math.ceil(rows / _ROWS)
    high = math.ceil(rows / blocks)
    step = min(_STEP, _HIGH / high)
    scales = [reached(each, rows) for each in columns[:panels]]
    room = (wide - 26 * (blocks - 1)) / blocks
    left = _labels_room(columns[0], rows, room, blocks > 1 or panels < 3)
    parts = [
        _block(columns[:panels], range(start, min(rows, start + high)), scales, (left, room), step, bare=blocks > 1)
        for start in range(0, rows, high)
    ]
    return beside(parts, 26)


def _labels_room(data: ChartData, rows: int, wide: float, much: bool) -> float:
    """Say how much room labels take, which is less than half where bars are beside them."""
    longest = max(width(each[:60]) for each in (*data.labels[:rows], data.by))
    return min(longest, wide * (0.48 if much else 0.26)) + 8


def _block(
    columns: Sequence[ChartData],
    rows: range,
    scales: Sequence[tuple[float, float]],
    size: tuple[float, float],
    step: float,
    *,
    bare: bool,
) -> Drawing:
    """Draw some rows: their labels once, on the left, and a panel for each column; ``size`` is the room of labels, and
    of all.
    """
    left, wide = size
    labels = columns[0].labels
    by = columns[0].by
    parts = [heading(left - 8, 12, by, left - 8, "end")] if by else []
    for place, row in enumerate(rows):
        y = _HEAD + (place + 0.5) * step + 4
        parts.append(label(left - 8, y, labels[row], anchor="end", room=left - 8))
    room = (wide - left - 18 * (len(columns) - 1)) / len(columns)
    panels = [
        _panel(data, rows, ends, room, step, texts=not bare and len(columns) <= 3)
        for data, ends in zip(columns, scales, strict=True)
    ]
    inner = beside(panels, 18)
    moved = beside([Drawing(tuple(parts), left, inner.high), inner], 0)
    return Drawing(moved.parts, wide, inner.high)


def _panel(
    data: ChartData, rows: range, ends: tuple[float, float], wide: float, step: float, *, texts: bool
) -> Drawing:
    """Draw one column of these rows: bars from zero, ranges over them, and the numbers on the right if they fit."""
    beside_bars = max((width(data.cells[row], SMALL) for row in rows), default=0.0) + 10 if texts and data.cells else 0
    if beside_bars > wide * 0.55:
        beside_bars = 0.0
    scale = Scale(*ends, 2.0, wide - beside_bars - 4)
    foot = _HEAD + len(rows) * step + 2
    parts = [heading(2, 12, data.name, wide - 4), *bottom(scale, _HEAD, foot)]
    zero = scale(0.0)
    for place, row in enumerate(rows):
        value, middle = data.values[row], _HEAD + (place + 0.5) * step
        said = f"{data.labels[row]}: {data.cells[row] if data.cells else value}"
        if value is None:
            parts.append(label(zero + 5, middle + 4, "no number", size=SMALL, fill=QUIET))
            continue
        end = scale(value)
        hollow = bool(data.noisy) and data.noisy[row]
        fill, more = (PAPER, f' stroke="{BAR}" stroke-dasharray="3 2"') if hollow else (BAR, "")
        thick = 0.66 * step
        parts.append(box(min(zero, end), middle - thick / 2, abs(end - zero), thick, fill, more=more, say=said))
        if beside_bars:
            colour = QUIET if hollow else RANGE
            parts.append(label(wide, middle + 4, data.cells[row], anchor="end", size=SMALL, fill=colour))
    places = [_HEAD + (place + 0.5) * step for place in range(len(rows))]
    parts += drawn(data, rows, scale, places, 0.42 * step)
    return Drawing(tuple(parts), wide, foot + BELOW)
