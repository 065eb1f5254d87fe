"""Bar charts: aligned panels with error bars, paired bars, and histograms.

An aligned chart has one row for each group and one panel for each column. All error bars of a panel are one SVG path,
so that many are drawn quickly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sfumato.caching import cached_property
from sfumato.plots.frame import (
    INNER_WIDTH,
    SMALL_FONT,
    X_AXIS_HEIGHT,
    ChartData,
    Drawing,
    Interval,
    KeyScale,
    LinearScale,
    Tick,
    axis_range,
    fitting_ticks,
    heading,
    side_by_side,
    x_axis,
    x_axis_with_ticks,
    y_axis,
    y_axis_width,
)
from sfumato.plots.picture import (
    BAR,
    BAR_LABEL,
    ERROR_BAR,
    FIRST,
    PAPER,
    QUIET,
    SAMPLE,
    SECOND,
    box,
    format_length,
    format_lengths,
    label,
    labels,
    path,
    text_width,
    tooltip_elements,
)
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class ErrorBarPositions:
    """Positions of error bars along the category axis, and the length of their caps."""

    middles: Sequence[float]
    cap: float

    @cached_property
    def formatted(self) -> list[tuple[str, str, str]]:
        """Each position, and the start and end of its caps, formatted for SVG."""
        half = self.cap / 2
        starts, ends = [middle - half for middle in self.middles], [middle + half for middle in self.middles]
        return list(zip(format_lengths(self.middles), format_lengths(starts), format_lengths(ends), strict=True))

    def shifted(self, by: float, cap: float) -> ErrorBarPositions:
        """Return the positions shifted by ``by``, with caps of another length."""
        return ErrorBarPositions([middle + by for middle in self.middles], cap)


def draw_error_bars(
    data: ChartData, rows: range, scale: LinearScale, positions: ErrorBarPositions, *, vertical: bool = False
) -> list[str]:
    """Draw the error bars of these rows, horizontal or ``vertical``, with those of the sampling error beside them."""
    cap = positions.cap
    stroke_width = min(1.6, max(0.8, cap / 3))
    ranges = data.intervals[rows.start : rows.stop]
    if not data.sampling:
        return [path(_error_bar_steps(ranges, scale, positions, vertical), ERROR_BAR, stroke_width)]
    sampling_ranges = [sampling_range(data, row) for row in rows]
    noise_places, sampling_places = positions.shifted(-0.45 * cap, cap), positions.shifted(0.45 * cap, cap * 0.7)
    return [
        path(_error_bar_steps(ranges, scale, noise_places, vertical), ERROR_BAR, stroke_width),
        path(_error_bar_steps(sampling_ranges, scale, sampling_places, vertical), SAMPLE, stroke_width),
    ]


def value_range(data: ChartData, rows: int) -> tuple[float, float]:
    """Return the ends of a scale that shows the first rows with their ranges and sampling errors."""
    sampling_ranges = [sampling_range(data, row) for row in range(rows)] if data.sampling else []
    return axis_range(data.values[:rows], [*data.intervals[:rows], *sampling_ranges], zero=True)


def sampling_range(data: ChartData, row: int) -> Interval:
    """Return the range of the sampling error alone."""
    value, half = data.values[row], data.sampling[row]
    return None if value is None or half is None else (value - half, value + half)


def _error_bar_steps(
    ranges: Sequence[Interval], scale: LinearScale, positions: ErrorBarPositions, vertical: bool
) -> Iterator[str]:
    """Yield SVG path steps of error bars; an end beyond the scale has no cap."""
    bars = [
        (position, interval)
        for position, interval in zip(positions.formatted, ranges, strict=False)
        if interval is not None and interval[0] != interval[1]
    ]
    lows, highs = (
        format_lengths(scale.coordinates(_clamp_infinite(interval[end] for _, interval in bars))) for end in (0, 1)
    )
    for ((middle, cap_start, cap_end), ends), low, high in zip(bars, lows, highs, strict=True):
        yield f"M{middle} {low}V{high}" if vertical else f"M{low} {middle}H{high}"
        for end, coordinate in zip(ends, (low, high), strict=True):
            if scale.low <= end <= scale.high:
                yield f"M{cap_start} {coordinate}H{cap_end}" if vertical else f"M{coordinate} {cap_start}V{cap_end}"


def _clamp_infinite(ends: Iterable[float]) -> list[float]:
    return [end if math.isfinite(end) else math.copysign(1e308, end) for end in ends]


_BAR_STEP, _MAX_HEIGHT, _MAX_ROWS = 22.0, 800.0, 50
"""The most pixels of a row, the most pixels of all rows, and the most rows of a block."""
_MAX_PANELS, _MAX_BLOCKS = 6, 4
"""The most panels side by side, and the most blocks of rows."""
_HEAD = 24.0
_BAR_SHARE = 0.66
"""The share of a row's height that its bar takes."""
_NOISY_FILL = f'{PAPER}" stroke="{BAR}" stroke-dasharray="3 2"'
"""The fill of a bar whose number is too noisy to rely on."""


def visible_panels_and_rows(columns: Sequence[ChartData]) -> tuple[int, int]:
    """Return the number of columns and the number of rows that are drawn."""
    panels = min(len(columns), _MAX_PANELS)
    return panels, min(len(columns[0].labels), _MAX_ROWS * max(1, _MAX_BLOCKS // panels))


def omission_notes(columns: Sequence[ChartData]) -> list[str]:
    """Return notes about rows and columns that are not drawn."""
    panels, rows = visible_panels_and_rows(columns)
    total = len(columns[0].labels)
    notes = [f"only the first {rows:,} of {total:,} rows are shown"] if rows < total else []
    if panels < len(columns):
        notes.append(f"only the first {panels} of {len(columns)} columns are shown")
    return notes


@dataclass(frozen=True)
class _ScaledColumn:
    """A column with its scale, which is the same in every block."""

    data: ChartData
    scale: LinearScale
    ticks: Sequence[Tick]
    wide: float
    texts: bool
    """Whether its numbers are printed on the right."""


@dataclass(frozen=True)
class _RowPositions:
    """Vertical positions of the rows in a block: their centres, and the formatted ones of texts, bars and ranges."""

    step: float
    middles: Sequence[float]
    texts: Sequence[str]
    bars: Sequence[str]
    ranges: ErrorBarPositions


def bar_panels(columns: Sequence[ChartData], wide: float = INNER_WIDTH) -> Drawing:
    """Draw panels that share their rows: a missing number leaves its row empty.

    Where rows are many and panels few, the rows continue in a second block beside the first.
    """
    panels, rows = visible_panels_and_rows(columns)
    blocks = math.ceil(rows / _MAX_ROWS)
    rows_per_block = math.ceil(rows / blocks)
    block_width = (wide - 26 * (blocks - 1)) / blocks
    label_width = _label_width(columns[0], rows, block_width, blocks > 1 or panels < 3)
    panel_width = (block_width - label_width - 18 * (panels - 1)) / panels
    drawn_columns = [
        _scaled_column(column, rows, panel_width, texts=blocks == 1 and panels <= 3) for column in columns[:panels]
    ]
    heights = _row_positions(rows_per_block, min(_BAR_STEP, _MAX_HEIGHT / rows_per_block))
    parts = [
        _draw_block(drawn_columns, range(start, min(rows, start + rows_per_block)), heights, label_width, block_width)
        for start in range(0, rows, rows_per_block)
    ]
    return side_by_side(parts, 26)


def _label_width(data: ChartData, rows: int, block_width: float, generous: bool) -> float:
    """Return the width of the labels, less than half of the block."""
    longest = max(text_width(text[:60]) for text in (*data.labels[:rows], data.key_names))
    return min(longest, block_width * (0.48 if generous else 0.26)) + 8


def _scaled_column(data: ChartData, rows: int, panel_width: float, *, texts: bool) -> _ScaledColumn:
    """Choose the scale of a column, leaving room for its numbers on the right if they fit."""
    numbers_width = (
        max((text_width(text, SMALL_FONT) for text in data.printed[:rows]), default=0.0) + 10
        if texts and data.printed
        else 0.0
    )
    if numbers_width > panel_width * 0.55:
        numbers_width = 0.0
    scale = LinearScale(*value_range(data, rows), 2.0, panel_width - numbers_width - 4)
    return _ScaledColumn(data, scale, fitting_ticks(scale, SMALL_FONT, wide=True), panel_width, numbers_width > 0)


def _row_positions(rows: int, step: float) -> _RowPositions:
    middles = [_HEAD + (row + 0.5) * step for row in range(rows)]
    bars = format_lengths([middle - _BAR_SHARE * step / 2 for middle in middles])
    return _RowPositions(
        step, middles, format_lengths([middle + 4 for middle in middles]), bars, ErrorBarPositions(middles, 0.42 * step)
    )


def _draw_block(
    columns: Sequence[_ScaledColumn], rows: range, heights: _RowPositions, label_width: float, block_width: float
) -> Drawing:
    """Draw a block of rows: their labels once, on the left, and a panel for each column."""
    row_labels, by = columns[0].data.labels[rows.start : rows.stop], columns[0].data.key_names
    parts = [heading(label_width - 8, 12, by, label_width - 8, "end")] if by else []
    parts += labels(label_width - 8, heights.texts[: len(rows)], row_labels, label_width - 8, anchor="end")
    panels = side_by_side([_draw_panel(column, rows, heights) for column in columns], 18)
    labelled = side_by_side([Drawing(tuple(parts), label_width, panels.height), panels], 0)
    return Drawing(labelled.parts, block_width, panels.height)


def _draw_panel(column: _ScaledColumn, rows: range, heights: _RowPositions) -> Drawing:
    """Draw one column of these rows: bars from zero, error bars, and the numbers on the right if they fit."""
    data, scale, step = column.data, column.scale, heights.step
    foot = _HEAD + len(rows) * step + 2
    parts = [heading(2, 12, data.name, column.wide - 4), *x_axis_with_ticks(scale, column.ticks, _HEAD, foot)]
    for row, bar, middle in zip(rows, _draw_bars(column, rows, heights), heights.middles, strict=False):
        parts.append(bar)
        if column.texts and data.values[row] is not None:
            colour = QUIET if _is_noisy(data, row) else BAR_LABEL
            parts.append(label(column.wide, middle + 4, data.printed[row], anchor="end", size=SMALL_FONT, fill=colour))
    parts += draw_error_bars(data, rows, scale, heights.ranges)
    return Drawing(tuple(parts), column.wide, foot + X_AXIS_HEIGHT)


def _draw_bars(column: _ScaledColumn, rows: range, heights: _RowPositions) -> Iterator[str]:
    """Yield the bar of each row with its tooltip, or a text for a missing number."""
    data, scale = column.data, column.scale
    values = data.values[rows.start : rows.stop]
    zero, ends = scale(0.0), scale.coordinates([0.0 if value is None or value != value else value for value in values])
    height_and_fill = f'" height="{format_length(_BAR_SHARE * heights.step)}" fill="'
    start, negative = format_length(zero), iter(format_lengths([end for end in ends if end < zero]))
    attributes = zip(
        [next(negative) if end < zero else start for end in ends],
        format_lengths([abs(end - zero) for end in ends]),
        tooltip_elements(
            [f"{data.labels[row]}: {data.printed[row] if data.printed else data.values[row]}" for row in rows]
        ),
        strict=True,
    )
    for index, (row, value, (x, wide, tooltip)) in enumerate(zip(rows, values, attributes, strict=True)):
        if value is None:
            yield label(zero + 5, heights.middles[index] + 4, "no number", size=SMALL_FONT, fill=QUIET)
        else:
            fill = _NOISY_FILL if _is_noisy(data, row) else f'{BAR}"'
            yield f'<rect x="{x}" y="{heights.bars[index]}" width="{wide}{height_and_fill}{fill}>{tooltip}</rect>'


def _is_noisy(data: ChartData, row: int) -> bool:
    return bool(data.noisy) and data.noisy[row]


_PAIR_STEP = 24.0


def paired_bars(
    labels: Sequence[str], names: tuple[str, str], first: Sequence[float], second: Sequence[float], wide: float = 420.0
) -> Drawing:
    """Draw two bars for each label, from zero, with both numbers on the right."""
    left = min(max((text_width(text[:60]) for text in labels), default=0.0), 0.36 * wide) + 8
    largest = max(*first, *second, 1e-9)
    texts = [f"{one:.3f} · {other:.3f}" for one, other in zip(first, second, strict=True)]
    scale = LinearScale(0.0, largest, left, wide - max(text_width(text, SMALL_FONT) for text in texts) - 10)
    foot = len(labels) * _PAIR_STEP + 4
    parts = x_axis(scale, 0.0, foot)
    for row, (name, text) in enumerate(zip(labels, texts, strict=True)):
        y = row * _PAIR_STEP
        parts.append(label(left - 8, y + 16, name, anchor="end", max_width=left - 8))
        for series, value, shift, colour in zip(
            names, (first[row], second[row]), (3, 12), (FIRST, SECOND), strict=True
        ):
            length = max(0.5, scale(value) - left)
            parts.append(box(left, y + shift, length, 8.5, colour, tooltip_text=f"{name}, {series}: {value:.4f}"))
        parts.append(label(wide, y + 16, text, anchor="end", size=SMALL_FONT, fill=QUIET))
    return Drawing(tuple(parts), wide, foot + X_AXIS_HEIGHT)


_MIN_BIN_GAP = 20.0
"""Pixels between the axis and a bin without an end: room for half of a tick's label."""
_BIN = re.compile(r"\[(-?[0-9.e+-]+), (-?[0-9.e+-]+)[])]")


def parse_bins(labels: Sequence[str]) -> list[tuple[float, float]] | None:
    """Parse labels such as "[0, 500)" as bins; return None where they are not bins, or not adjacent."""
    if len(labels) < 2:
        return None
    bins = []
    for text in labels:
        match = _BIN.fullmatch(text)
        if match is None:
            return None
        try:
            bins.append((float(match[1]), float(match[2])))
        except ValueError:
            return None
    adjacent = all(one[1] == other[0] for one, other in pairwise(bins))
    ascending = all(math.isfinite(high - low) and low < high for low, high in bins)
    return bins if adjacent and ascending else None


def _lay_out_bins(
    bins: Sequence[tuple[float, float]], labels: Sequence[str], start: float, end: float
) -> tuple[LinearScale, list[tuple[float, float]]]:
    """Return the scale of the bins with finite ends, and the left and right coordinates of every bar.

    A bin without an end has room for its label, and stands apart by half of a bar or more.
    """
    finite = [(low, high) for low, high in bins if math.isfinite(low) and math.isfinite(high)]
    is_open = math.isinf(bins[0][0]), math.isinf(bins[-1][1])
    bar_width = (end - start) / (len(bins) + 0.5 * sum(is_open))
    rooms = [
        max(bar_width, text_width(text, SMALL_FONT) + 4) if without_end else 0.0
        for text, without_end in zip((labels[0], labels[-1]), is_open, strict=True)
    ]
    gap = max(0.5 * bar_width, _MIN_BIN_GAP)
    x = KeyScale(
        finite[0][0],
        finite[-1][1],
        start + rooms[0] + gap * is_open[0],
        end - rooms[1] - gap * is_open[1],
    )
    half = max(bar_width, 3.0) / 2
    first, last = start + rooms[0] / 2, end - rooms[1] / 2
    spans = [(x(low), x(high)) for low, high in finite]
    return x, [
        *([(first - half, first + half)] if is_open[0] else []),
        *spans,
        *([(last - half, last + half)] if is_open[1] else []),
    ]


def _histogram_bar(data: ChartData, row: int, span: tuple[float, float], y: LinearScale) -> str:
    value = data.values[row]
    assert value is not None
    tooltip = f"{data.labels[row]}: {data.printed[row] if data.printed else value}"
    fill, outline = (PAPER, f' stroke="{BAR}" stroke-dasharray="3 2"') if _is_noisy(data, row) else (BAR, "")
    width, zero, bar_end = span[1] - span[0], y(0.0), y(value)
    gap = 1.0 if width > 4 else 0.2
    height = abs(bar_end - zero)
    return box(span[0] + gap / 2, min(zero, bar_end), width - gap, height, fill, more=outline, tooltip_text=tooltip)


def histogram(data: ChartData, bins: Sequence[tuple[float, float]], high: float = 300.0) -> Drawing:
    """Draw a histogram with error bars; bins with an infinite end are bars beside the axis, with their labels."""
    foot, top = high - X_AXIS_HEIGHT - (16 if data.key_names else 0), 24.0 if data.name else 8.0
    y = LinearScale(*value_range(data, len(bins)), foot, top)
    ticks = fitting_ticks(y, SMALL_FONT, wide=False)
    start = y_axis_width(ticks)
    x, spans = _lay_out_bins(bins, data.labels, start + 2, INNER_WIDTH - 12)
    parts = [heading(0, 12, data.name, INNER_WIDTH)] if data.name else []
    parts += [*y_axis(y, ticks, start, INNER_WIDTH - 10), *x_axis(x, foot, foot, zero=False)]
    parts += [_histogram_bar(data, row, span, y) for row, span in enumerate(spans) if data.values[row] is not None]
    centres = [(left + right) / 2 for left, right in spans]
    for row, bounds in enumerate(bins):
        if not all(map(math.isfinite, bounds)):
            parts.append(label(centres[row], foot + 14, data.labels[row], anchor="middle", size=SMALL_FONT, fill=QUIET))
    cap = max(1.5, min(8.0, 0.4 * (spans[0][1] - spans[0][0])))
    parts += draw_error_bars(data, range(len(bins)), y, ErrorBarPositions(centres, cap), vertical=True)
    if data.key_names:
        parts.append(
            label(INNER_WIDTH / 2, high - 4, data.key_names, anchor="middle", fill=QUIET, max_width=INNER_WIDTH / 2)
        )
    return Drawing(tuple(parts), INNER_WIDTH, high)
