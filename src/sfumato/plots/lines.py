"""Line charts along dates or numbers, each line with a band for its ranges."""

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
    heading,
    x_axis,
    y_axis,
    y_axis_width,
)
from sfumato.plots.picture import (
    DASHES,
    LINES,
    PAPER,
    QUIET,
    format_length,
    label,
    path,
    polygon,
    text_width,
    tooltip_element,
    vertical_step,
)
from sfumato.quick_dataclass import dataclass

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
