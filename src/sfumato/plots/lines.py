"""Line charts along dates or numbers, each line with a band for its ranges.

Heat maps: a coloured cell for every pair of two keys, with the number itself where it fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from sfumato.plots.frame import (
    INNER_WIDTH,
    MAX_DRAWN,
    SMALL_FONT,
    X_AXIS_HEIGHT,
    Drawing,
    Interval,
    LinearScale,
    LogScale,
    fitting_ticks,
    format_tick,
    heading,
    x_axis,
    y_axis,
    y_axis_width,
)
from sfumato.plots.picture import (
    BLACK,
    DASHES,
    HEAT_LARGEST,
    HEAT_NEGATIVE,
    LINES,
    PAPER,
    QUIET,
    RULE,
    box,
    format_length,
    label,
    path,
    polygon,
    text_width,
    tooltip_element,
    vertical_step,
)
from sfumato.quick_dataclass import dataclass

MAX_ROWS, MAX_COLUMNS = 40, 40


@dataclass(frozen=True)
class HeatMapGrid:
    """The values of a heat map by row and column, None where there is none, with their printed form."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...] = ()
    """The numbers as printed; if empty, they are formatted briefly."""
    noisy: tuple[tuple[bool, ...], ...] = ()
    by: tuple[str, str] = ("", "")
    """Titles of the rows and of the columns."""
    signed: bool = False


def omission_notes(grid: HeatMapGrid) -> list[str]:
    """Return notes about rows and columns that are not shown."""
    notes = []
    for count, limit, noun in ((len(grid.rows), MAX_ROWS, "rows"), (len(grid.columns), MAX_COLUMNS, "columns")):
        if count > limit:
            notes.append(f"only the first {limit} of {count:,} {noun} are shown")
    return notes


def heat_map(grid: HeatMapGrid, wide: float = INNER_WIDTH, high: float = 800.0) -> Drawing:
    """Draw cells from white to blue, or to brown below zero, with a colour legend below them."""
    rows, columns = grid.rows[:MAX_ROWS], grid.columns[:MAX_COLUMNS]
    left = min(max([text_width(name[:60]) for name in (*rows, grid.by[0])], default=0.0), 0.3 * wide) + 8
    cell_width = min(90.0, (wide - left) / max(1, len(columns)))
    rotated = any(text_width(name[:60], SMALL_FONT) > cell_width - 6 for name in columns)
    head = (22.0 if grid.name else 0.0) + (
        min(110.0, max(text_width(name[:60], SMALL_FONT) for name in columns)) + 10 if rotated else 20.0
    )
    head += 16.0 if grid.by[1] else 0.0
    cell_height = max(15.0, min(30.0, (high - head - 50) / max(1, len(rows))))
    largest = _largest_value(grid)
    parts = [heading(0, 12, grid.name, wide)] if grid.name else []
    parts += [] if not grid.by[0] else [heading(left - 8, head - 8, grid.by[0], left - 8, "end")]
    parts += [] if not grid.by[1] else [heading(left, 34 if grid.name else 12, grid.by[1], wide - left)]
    parts += [
        _column_label(left + (column + 0.5) * cell_width, head - 6, name, cell_width, rotated)
        for column, name in enumerate(columns)
    ]
    for row, name in enumerate(rows):
        y = head + row * cell_height
        parts.append(label(left - 8, y + cell_height / 2 + 4, name, anchor="end", max_width=left - 8))
        parts += [
            _draw_cell(grid, row, column, (left + column * cell_width, y, cell_width, cell_height), largest)
            for column in range(len(columns))
        ]
    foot = head + len(rows) * cell_height + 10
    parts += _draw_legend(grid, left, foot, largest)
    return Drawing(tuple(parts), max(wide, left + cell_width * len(columns)), foot + 28)


def _largest_value(grid: HeatMapGrid) -> float:
    """Return the largest size of a number that is more than noise: colours are shares of it."""
    precise_values = (
        value
        for row, values in enumerate(grid.values)
        for column, value in enumerate(values)
        if not _is_noisy(grid, row, column)
    )
    return (
        max((abs(value) for value in precise_values if value is not None and math.isfinite(value)), default=0.0) or 1.0
    )


def _is_noisy(grid: HeatMapGrid, row: int, column: int) -> bool:
    return bool(grid.noisy) and grid.noisy[row][column]


def _column_label(x: float, y: float, name: str, cell_width: float, rotated: bool) -> str:
    if not rotated:
        return label(x, y, name, anchor="middle", size=SMALL_FONT, max_width=cell_width - 4)
    return label(x + 4, y, name, size=SMALL_FONT, max_width=108, rotated=True)


def _draw_cell(
    grid: HeatMapGrid, row: int, column: int, rectangle: tuple[float, float, float, float], largest: float
) -> str:
    x, y, cell_width, cell_height = rectangle
    value = grid.values[row][column]
    text = grid.texts[row][column] if grid.texts else "" if value is None else f"{value:.4g}"
    tooltip = f"{grid.rows[row]} × {grid.columns[column]}: {text or 'no number'}"
    if value is None:
        cross = path(
            [
                f"M{format_length(x + 4)} "
                f"{format_length(y + cell_height - 4)}L{format_length(x + cell_width - 5)} {format_length(y + 4)}"
            ],
            RULE,
        )
        return box(x, y, cell_width - 1, cell_height - 1, PAPER, more=f' stroke="{RULE}"', tooltip_text=tooltip) + cross
    is_noisy = _is_noisy(grid, row, column)
    fill = PAPER if is_noisy else colour(value / largest, signed=grid.signed)  # noise has no colour of a number
    elements = box(x, y, cell_width - 1, cell_height - 1, fill, tooltip_text=tooltip)
    ink = QUIET if is_noisy else text_colour_on(fill)
    if is_noisy:
        dashed = f' stroke="{ink}" stroke-dasharray="3 2"'
        elements += box(x + 2, y + 2, cell_width - 5, cell_height - 5, "none", more=dashed)
    for number in (text, format_short(value)):
        if number and text_width(number, SMALL_FONT) <= cell_width - 3:
            centre, passive = (x + cell_width / 2 - 0.5, y + cell_height / 2 + 3.5), ' pointer-events="none"'
            return elements + label(*centre, number, anchor="middle", size=SMALL_FONT, fill=ink, attributes=passive)
    return elements


def format_short(value: float) -> str:
    """Format a number with about two digits, for a small cell."""
    if not value:
        return "0"
    return format_tick(float(f"{value:.3g}"), 10.0 ** (math.floor(math.log10(abs(value))) - 1))


def colour(share: float, *, signed: bool) -> str:
    """Return the colour of a share from 0 (white) to 1 (blue); negative shares are white, or brown if ``signed``."""
    if share < 0 and not signed:
        share = 0.0
    dark_end = HEAT_LARGEST if share >= 0 else HEAT_NEGATIVE
    return "#" + "".join(f"{round(245 + (channel - 245) * min(1.0, abs(share))):02x}" for channel in dark_end)


def text_colour_on(fill: str) -> str:
    """Return black or white, whichever has more contrast: one of them always has a contrast of 4.5 or more.

    The contrast is that of WCAG 2: (l + 0.05)/(l′ + 0.05), of the lighter and the darker luminance.
    """
    lightness = _luminance(fill) + 0.05
    return BLACK if lightness / 0.05 >= 1.05 / lightness else PAPER


def _luminance(fill: str) -> float:
    channels = [int(fill[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _draw_legend(grid: HeatMapGrid, x: float, y: float, largest: float) -> list[str]:
    """Draw the colour legend."""
    shares = [step / 8 for step in range(-8 if grid.signed else 0, 9)]
    parts = [box(x + 12 * step, y, 12, 9, colour(share, signed=grid.signed)) for step, share in enumerate(shares)]
    low, high = (format_short(end) for end in (shares[0] * largest, largest))
    parts.append(label(x, y + 21, low, size=SMALL_FONT, fill=QUIET))
    parts.append(label(x + 12 * len(shares), y + 21, high, anchor="end", size=SMALL_FONT, fill=QUIET))
    return parts


MAX_LINES = 8
_MAX_DOTS = 40
"""A line with up to this many points shows each as a dot; a longer one only points without a neighbour to be joined to,
and it is thin where its points are too noisy."""


@dataclass(frozen=True)
class PlottedLine:
    """A line: its x coordinates, the value at each or None, and their ranges."""

    name: str
    x_values: tuple[float, ...]
    values: tuple[float | None, ...]
    ranges: tuple[Interval, ...] = ()
    noisy: tuple[bool, ...] = ()
    tooltips: tuple[str, ...] = ()
    """The tooltip of each point; empty for a line with dots only where nothing else would be seen."""
    stepped: bool = False
    """Whether a value holds until the next point (a step function)."""


@dataclass(frozen=True)
class LineAxes:
    """The axes of a line chart: scales, titles, and marked x positions."""

    name: str
    x_title: str = ""
    x: type[LinearScale] = LinearScale
    y: type[LinearScale] = LinearScale
    zero: bool = True
    """Whether the y axis begins at zero where all values are positive."""
    y_range: tuple[float, float] | None = None
    """The range of the y axis; computed from the lines if not given."""
    marks: tuple[tuple[float, str], ...] = field(default=())
    """x positions to mark, each with a label."""


def line_chart(
    lines: Sequence[PlottedLine],
    axes: LineAxes,
    high: float = 280.0,
    wide: float = INNER_WIDTH,
    *,
    min_axis_width: float = 0.0,
) -> Drawing:
    """Draw lines on one panel; the names of several lines are written at their right ends, without overlaps.

    ``min_axis_width`` is the least width reserved for the y axis labels, so that stacked panels are aligned.
    """
    drawn = lines[:MAX_LINES]
    ends = axes.y_range or lines_y_range(drawn, log=axes.y is LogScale, zero=axes.zero)
    name_width = _name_width(drawn)
    top, foot = 24.0 if axes.name else 8.0, high - X_AXIS_HEIGHT - (16 if axes.x_title else 0)
    y = axes.y(*ends, foot, top)
    ticks = fitting_ticks(y, SMALL_FONT, wide=False)
    start = max(y_axis_width(ticks), min_axis_width)
    x = line_x_scale(drawn, axes, start, wide)
    parts = [heading(0, 12, axes.name, wide)] if axes.name else []
    parts += [*y_axis(y, ticks, start, wide - name_width), *x_axis(x, foot, foot, zero=False)]
    parts += [_draw_mark(x, position, word, top, foot) for position, word in axes.marks if x.low <= position <= x.high]
    for index, line in enumerate(drawn):  # bands below all lines, so that none is hidden
        parts += [
            polygon(_band_polygon(line, run, x, y), LINES[index], 0.18) for run in point_runs(line) if line.ranges
        ]
    for index, line in enumerate(drawn):
        parts += _draw_line(line, x, y, LINES[index], DASHES[index])
    if len(drawn) > 1:
        parts += _draw_names(drawn, y, wide - name_width + 8, name_width - 10)
    if axes.x_title:
        parts.append(
            label(
                (start + wide - name_width) / 2, high - 4, axes.x_title, anchor="middle", fill=QUIET, max_width=wide / 2
            )
        )
    return Drawing(tuple(parts), wide, high)


def _name_width(lines: Sequence[PlottedLine]) -> float:
    """Return the width that is left for the names at the right ends of several lines."""
    if len(lines) <= 1:
        return 10.0
    return max(min(170.0, text_width(line.name, SMALL_FONT)) for line in lines) + 14


def line_x_scale(lines: Sequence[PlottedLine], axes: LineAxes, axis_width: float, wide: float) -> LinearScale:
    """Return the x scale of a line chart of this width, whose y axis labels are so wide."""
    x_values = [coordinate for line in lines for coordinate in line.x_values]
    ends = min(x_values, default=0.0), max(x_values, default=1.0)
    return axes.x(*ends, axis_width + 6, wide - _name_width(lines))


def line_axis_width(lines: Sequence[PlottedLine], axes: LineAxes, plot_height: float) -> float:
    """Return the width of the y axis labels."""
    ends = axes.y_range or lines_y_range(lines[:MAX_LINES], log=axes.y is LogScale, zero=axes.zero)
    return y_axis_width(fitting_ticks(axes.y(*ends, plot_height, 24.0), SMALL_FONT, wide=False))


def lines_y_range(lines: Sequence[PlottedLine], *, log: bool = False, zero: bool = True) -> tuple[float, float]:
    """Return the y range of all lines and bands; bands are limited to a few times the values and median band ends."""
    values = [value for line in lines for value in line.values if value is not None and math.isfinite(value)]
    largest_value = max(map(abs, values), default=1.0)
    ends = [end for line in lines for band in line.ranges if band is not None for end in band if math.isfinite(end)]
    limit = max(1.25 * largest_value, 4 * sorted(map(abs, ends))[len(ends) // 2]) if ends else largest_value
    axis_values = [*values, *(min(max(end, -limit), limit) for end in ends)]
    if log:
        positive = [value for value in axis_values if value > 0] or [1.0]
        low, high = min(positive), max(positive)
        return (low, high) if low < high else (low / 2, 2 * high)
    low, high = (
        min([*axis_values, *([0.0] if zero else [])], default=0.0),
        max([*axis_values, *([0.0] if zero else [])], default=1.0),
    )
    low, high = max(low, -MAX_DRAWN), min(high, MAX_DRAWN)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _draw_mark(x: LinearScale, position: float, word: str, top: float, foot: float) -> str:
    line_x = x(position)
    in_right_half = line_x > (x.start + x.end) / 2
    word_x = line_x - 5 if in_right_half else line_x + 5
    anchor = "end" if in_right_half else "start"
    words = label(
        word_x, top + 13, word, anchor=anchor, size=SMALL_FONT, fill=QUIET, max_width=abs(x.end - x.start) / 2
    )
    return path([vertical_step(line_x, top, foot)], QUIET, 1, ' stroke-dasharray="4 3"') + words


def _draw_line(line: PlottedLine, x: LinearScale, y: LinearScale, colour: str, dash: str) -> Iterator[str]:
    attributes = f' stroke-linejoin="round"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}'
    has_all_dots = bool(line.tooltips) and len(line.x_values) <= _MAX_DOTS
    for run in point_runs(line):
        precise_runs = [run] if has_all_dots or not line.noisy else _precise_runs(line, run)
        if precise_runs != [run]:
            yield path(_path_steps(line, run, x, y), colour, 0.7, attributes)
        for precise_run in precise_runs:
            yield path(_path_steps(line, precise_run, x, y), colour, 2, attributes)
        single_points = (short_run[0] for short_run in (run, *precise_runs) if len(short_run) == 1)
        for point in run if has_all_dots else dict.fromkeys(single_points):
            yield _draw_dot(line, point, x, y, colour)


def _precise_runs(line: PlottedLine, run: range) -> list[range]:
    """Split a run of points into the runs of those that are not too noisy."""
    marked_values = tuple(None if is_noisy else 0.0 for is_noisy in line.noisy[run.start : run.stop])
    precise = replace(line, values=marked_values)
    return [range(run.start + part.start, run.start + part.stop) for part in point_runs(precise)]


def _draw_dot(line: PlottedLine, point: int, x: LinearScale, y: LinearScale, colour: str) -> str:
    is_noisy = bool(line.noisy) and line.noisy[point]
    colours = f'fill="{PAPER if is_noisy else colour}" stroke="{colour}"'
    value = line.values[point]
    assert value is not None
    position = f'cx="{format_length(x(line.x_values[point]))}" cy="{format_length(y(value))}" r="3"'
    tooltip = tooltip_element(line.tooltips[point]) if line.tooltips else ""
    return f"<circle {position} {colours}>{tooltip}</circle>"


def point_runs(line: PlottedLine) -> list[range]:
    """Return the ranges of consecutive points that have a value: no line is drawn across missing ones."""
    consecutive: list[range] = []
    start = None
    for point, value in enumerate((*line.values, None)):
        if value is None or not math.isfinite(value):
            consecutive += [] if start is None else [range(start, point)]
            start = None
        elif start is None:
            start = point
    return consecutive


def _path_steps(line: PlottedLine, run: range, x: LinearScale, y: LinearScale) -> Iterator[str]:
    for point in run:
        value = line.values[point]
        assert value is not None
        if point == run[0]:
            yield f"M{format_length(x(line.x_values[point]))} {format_length(y(value))}"
        elif line.stepped:
            yield f"H{format_length(x(line.x_values[point]))}V{format_length(y(value))}"
        else:
            yield f"L{format_length(x(line.x_values[point]))} {format_length(y(value))}"


def _band_polygon(line: PlottedLine, run: range, x: LinearScale, y: LinearScale) -> list[tuple[float, float]]:
    """Return the polygon of a band: upper ends, then lower ends backwards. A single point is as wide as a dot."""
    ends = [(point, line.ranges[point] or (line.values[point],) * 2) for point in run]
    if line.stepped:
        return _stepped_band([(x(line.x_values[point]), band) for point, band in ends], y)
    half_width = 3.0 if len(run) == 1 else 0.0
    upper = [
        (x(line.x_values[point]) + shift, y(_clamp_infinite(band[1])))
        for point, band in ends
        for shift in _band_offsets(half_width)
    ]
    lower = [
        (x(line.x_values[point]) + shift, y(_clamp_infinite(band[0])))
        for point, band in ends
        for shift in _band_offsets(half_width)
    ]
    return [*upper, *reversed(lower)]


def _stepped_band(ends: Sequence[tuple[float, tuple[float | None, ...]]], y: LinearScale) -> list[tuple[float, float]]:
    """Return the polygon of a step function's band: each range holds until the next point."""
    sides: list[list[tuple[float, float]]] = []
    for side in (1, 0):
        corners = [(ends[0][0], y(_clamp_infinite(ends[0][1][side])))]
        for position, band in ends[1:]:
            corners += [(position, corners[-1][1]), (position, y(_clamp_infinite(band[side])))]
        sides.append(corners)
    return [*sides[0], *reversed(sides[1])]


def _band_offsets(half_width: float) -> tuple[float, ...]:
    return (-half_width, half_width) if half_width else (0.0,)


def _clamp_infinite(end: float | None) -> float:
    assert end is not None
    return end if math.isfinite(end) else math.copysign(MAX_DRAWN, end)


def _draw_names(lines: Sequence[PlottedLine], y: LinearScale, x: float, room: float) -> Iterator[str]:
    """Write each name at the right end of its line, moved apart where two would overlap."""
    line_ends = []
    for index, line in enumerate(lines):
        finite = [value for value in line.values if value is not None and math.isfinite(value)]
        line_ends.append((y(finite[-1]) if finite else y.start, index))
    positions, lowest = [], min(y.start, y.end) - 20.0
    for end, index in sorted(line_ends):
        lowest = max(end, lowest + 14)
        positions.append((lowest, index))
    overflow = max(0.0, positions[-1][0] - max(y.start, y.end)) if positions else 0.0
    for position, index in positions:
        yield label(x, position - overflow + 4, lines[index].name, size=SMALL_FONT, fill=LINES[index], max_width=room)
