"""Choice of the chart for an answer by its group keys: bars, lines for dates and ordered keys, a heat map for two
keys, a histogram for bins; and small panels for columns with labels of their own.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plots import bars, heat_maps
from sfumato.plots.bars import bar_panels, histogram, parse_bins
from sfumato.plots.frame import (
    INNER_WIDTH,
    ChartData,
    DayScale,
    Drawing,
    KeyScale,
    LinearScale,
    MonthScale,
    TimeScale,
    framed_picture,
    seconds_since_1970,
    side_by_side,
    stacked,
)
from sfumato.plots.heat_maps import HeatMapGrid, heat_map
from sfumato.plots.lines import MAX_LINES, LineAxes, PlottedLine, line_axis_width, line_chart
from sfumato.plots.picture import Picture
from sfumato.quick_dataclass import dataclass

_MAX_PANEL_ROWS, _PANELS_PER_ROW = 10, 2
"""Bars of a small panel, and panels side by side."""
_MAX_PANELS = 6
"""Panels on a page."""


def column_panels(columns: Sequence[ChartData]) -> tuple[Drawing, list[str]]:
    """Draw a bar chart for each column, two side by side; return it with notes about what is not shown."""
    drawn = columns[:_MAX_PANELS]
    panel_width = (INNER_WIDTH - 30) / _PANELS_PER_ROW
    small = [bar_panels([first_rows(column, _MAX_PANEL_ROWS)], panel_width) for column in drawn]
    rows = [side_by_side(small[start : start + _PANELS_PER_ROW], 30) for start in range(0, len(small), _PANELS_PER_ROW)]
    notes = [f"only the first {_MAX_PANELS} of {len(columns)} panels are shown"] if len(columns) > _MAX_PANELS else []
    longer = [column for column in drawn if len(column.labels) > _MAX_PANEL_ROWS]
    if longer:
        notes.append(
            f"only the first {_MAX_PANEL_ROWS} rows of each panel are shown: "
            + ", ".join(f"{column.name} has {len(column.labels):,} rows" for column in longer)
        )
    return stacked(rows, 14), notes


def first_rows(data: ChartData, rows: int) -> ChartData:
    """Return the first rows of a column."""
    return _select_rows(data, range(min(rows, len(data.labels))))


_MAX_DISTINCT_LINES, _MIN_POINTS = 5, 3
"""The most lines that are distinguished at a glance; the fewest points of a line."""
_PANEL_HEIGHTS = {1: 320.0, 2: 280.0, 3: 230.0, 4: 190.0}
"""Panel height by the number of stacked panels."""


@dataclass(frozen=True)
class Buckets:
    """Equal buckets between two ends, numbered from 1; 0 is below them, and ``count + 1`` above."""

    low: float
    high: float
    count: int

    def bucket_ends(self, number: int) -> tuple[float, float]:
        """Return the ends of a bucket; infinite for one below or above."""
        edges = [self.low + (self.high - self.low) * (step / self.count) for step in (number - 1, number)]
        return (
            -math.inf if number < 1 else edges[0] if number <= self.count else self.high,
            self.low if number < 1 else edges[1] if number <= self.count else math.inf,
        )

    def are_bucket_numbers(self, values: Sequence[Any]) -> bool:
        """Return whether the values are different numbers of these buckets, at least three, or NULL."""
        numbers = [value for value in values if value is not None]
        are_buckets = all(type(number) is int and 0 <= number <= self.count + 1 for number in numbers)
        return are_buckets and len(numbers) == len(set(numbers)) >= _MIN_POINTS

    def words(self, number: int) -> str:
        """Describe a bucket."""
        low, high = (f"{edge:.9g}" for edge in self.bucket_ends(number))
        return f"< {high}" if number < 1 else f"≥ {low}" if number > self.count else f"[{low}, {high})"


@dataclass(frozen=True)
class GroupColumn:
    """A group key: the value of every row, and its label."""

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    buckets: Buckets | None = None
    """The equal buckets that integer values number; None for any other key."""

    @property
    def has_axis_values(self) -> bool:
        """Whether all values but NULL can be placed on an axis: dates, times or numbers."""
        kinds = set(map(type, self.values)) - {type(None)}
        return bool(kinds) and (kinds <= {int, float} or kinds <= {dt.date} or kinds <= {dt.datetime})

    @property
    def scale_class(self) -> type[LinearScale]:
        kinds = set(map(type, self.values))
        if self.has_axis_values and all(map(_is_month_start, self.values)):
            return MonthScale
        return TimeScale if dt.datetime in kinds else DayScale if dt.date in kinds else KeyScale

    def coordinate(self, row: int) -> float:
        """Return the axis coordinate of a row's value."""
        value = self.values[row]
        return seconds_since_1970(value) if isinstance(value, dt.date) else float(value)


def _is_month_start(value: Any) -> bool:
    """Return whether this is midnight on the first day of a month, or NULL, which has no place on an axis."""
    if isinstance(value, dt.datetime):
        return value.day == 1 and value.time() == dt.time.min
    return value is None or (isinstance(value, dt.date) and value.day == 1)


def draw_answer(
    columns: Sequence[ChartData], keys: Sequence[GroupColumn], foot: Sequence[str] = (), notes: Sequence[str] = ()
) -> Picture:
    """Draw the columns of an answer as the chart that suits its keys, with ``notes`` on how to read it."""
    refuse_empty_chart(columns)
    drawing, omissions = _choose_chart(columns, keys)
    return framed_picture(drawing, chart_title(columns, keys), foot, [*omissions, *notes])


def refuse_empty_chart(columns: Sequence[ChartData]) -> None:
    """Refuse an answer without numbers to draw."""
    if not columns or not columns[0].values:
        raise InvalidParameter(
            "answer",
            ValueWords("no numbers"),
            "a table with at least one column of numbers and one row",
            fix="ask for a count or another number",
        )


def chart_title(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> str:
    """Return the title of a chart: its columns and keys."""
    by = " and ".join(key.name for key in keys)
    return ", ".join(column.name for column in columns) + (f" by {by}" if by else "")


def draw_panels(
    columns: Sequence[ChartData], name: str, foot: Sequence[str] = (), notes: Sequence[str] = ()
) -> Picture:
    """Draw columns that have labels of their own, each in a small panel."""
    refuse_empty_chart(columns)
    if len(columns) == 1:
        return framed_picture(bars.bar_panels(columns), name, foot, [*bars.omission_notes(columns), *notes])
    drawing, omissions = column_panels(columns)
    return framed_picture(drawing, name, foot, [*omissions, *notes])


def draw_lines(
    columns: Sequence[ChartData],
    along: GroupColumn,
    others: Sequence[GroupColumn],
    foot: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Picture:
    """Draw a line along this key for each combination of the other keys."""
    refuse_empty_chart(columns)
    drawing, omissions = _draw_line_panels(columns, along, others)
    return framed_picture(drawing, chart_title(columns, [along, *others]), foot, [*omissions, *notes])


def _choose_chart(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> tuple[Drawing, list[str]]:
    if len(keys) == 1:
        bins = parse_bins(keys[0].labels)
        if bins is not None:
            drawn = _without_single_name(columns[: max(_PANEL_HEIGHTS)])
            return stacked(
                [histogram(column, bins, _PANEL_HEIGHTS[len(drawn)]) for column in drawn]
            ), _note_omitted_columns(columns)
        if keys[0].buckets is not None and keys[0].buckets.are_bucket_numbers(keys[0].values):
            return _draw_bucket_histograms(columns, keys[0], keys[0].buckets)
        if _is_monotone(keys[0]):
            return _draw_line_panels(columns, keys[0], ())
    if len(keys) == 2 and _has_unique_pairs(keys):
        for along, other in (keys, keys[::-1]):
            if (
                issubclass(along.scale_class, TimeScale)
                and len(set(other.labels)) <= _MAX_DISTINCT_LINES
                and _distinct_count(along) >= _MIN_POINTS
            ):
                return _draw_line_panels(columns, along, (other,))
        return _draw_heat_maps(columns, keys)
    return bars.bar_panels(columns), bars.omission_notes(columns)


def _draw_bucket_histograms(
    columns: Sequence[ChartData], key: GroupColumn, buckets: Buckets
) -> tuple[Drawing, list[str]]:
    """Draw a histogram for each column over numbered buckets, in their order."""
    rows = sorted((row for row, value in enumerate(key.values) if value is not None), key=key.values.__getitem__)
    bins, texts = zip(
        *((buckets.bucket_ends(key.values[row]), buckets.words(key.values[row])) for row in rows), strict=True
    )
    drawn = [replace(_select_rows(column, rows), labels=texts) for column in columns[: max(_PANEL_HEIGHTS)]]
    panels = [histogram(column, bins, _PANEL_HEIGHTS[len(drawn)]) for column in _without_single_name(drawn)]
    return stacked(panels), [*_note_omitted_columns(columns), *_note_nulls(columns, key)]


def _select_rows(data: ChartData, rows: Sequence[int]) -> ChartData:
    names = ("labels", "values", "intervals", "printed", "noisy", "sampling")
    selected: dict[str, Any] = {
        name: tuple(getattr(data, name)[row] for row in rows) for name in names if getattr(data, name)
    }
    return replace(data, **selected)


def _note_nulls(columns: Sequence[ChartData], key: GroupColumn, line_names: Sequence[str] = ()) -> list[str]:
    """Print the numbers of rows without a key value, which have no place on an axis."""
    null_rows = [row for row, value in enumerate(key.values) if value is None]
    return [
        f"{key.name} NULL{f', {line_names[row]}' if line_names and line_names[row] else ''}: "
        + ", ".join(f"{data.name} {data.printed[row]}".strip() for data in columns if data.printed)
        for row in null_rows[:3]
    ]


def _without_single_name(columns: Sequence[ChartData]) -> Sequence[ChartData]:
    """Drop the name of a single panel: the title has it."""
    return columns if len(columns) > 1 else [replace(columns[0], name="")]


def _distinct_count(key: GroupColumn) -> int:
    return len(set(key.values) - {None}) if key.has_axis_values else 0


def _is_monotone(key: GroupColumn) -> bool:
    """Return whether the values of a key are distinct, and in ascending or descending order."""
    if _distinct_count(key) < _MIN_POINTS:
        return False
    values = [value for value in key.values if value is not None]
    directions = {one < other for one, other in pairwise(values)}
    return len(directions) == 1 and len(set(values)) == len(values) and values[-1] != values[0]


def _has_unique_pairs(keys: Sequence[GroupColumn]) -> bool:
    """Return whether every pair of two keys has at most one row, and each key more than one value."""
    pairs = list(zip(*(key.labels for key in keys), strict=True))
    return len(set(pairs)) == len(pairs) and all(len(set(key.labels)) > 1 for key in keys)


def _note_omitted_columns(columns: Sequence[ChartData]) -> list[str]:
    visible = max(_PANEL_HEIGHTS)
    return [f"only the first {visible} of {len(columns)} columns are shown"] if len(columns) > visible else []


def _draw_line_panels(
    columns: Sequence[ChartData], along: GroupColumn, others: Sequence[GroupColumn]
) -> tuple[Drawing, list[str]]:
    """Draw a panel for each column, stacked, with a line for each combination of the other keys."""
    drawn = _without_single_name(columns[: max(_PANEL_HEIGHTS)])
    high = _PANEL_HEIGHTS[len(drawn)]
    line_names = [" · ".join(key.labels[row] for key in others) for row in range(len(along.values))]
    lines_by_column = [_build_lines(data, along, line_names) for data in drawn]
    panels = [
        LineAxes(data.name, along.name if data is drawn[-1] else "", along.scale_class, zero=_starts_at_zero(data))
        for data in drawn
    ]
    axis_width = max(line_axis_width(lines, axes, high) for lines, axes in zip(lines_by_column, panels, strict=True))
    charts = [
        line_chart(lines, axes, high, min_axis_width=axis_width)
        for lines, axes in zip(lines_by_column, panels, strict=True)
    ]
    notes = _note_omitted_columns(columns)
    line_count = len(lines_by_column[0])
    if line_count > MAX_LINES:
        notes.append(f"only the first {MAX_LINES} of {line_count:,} lines are shown")
    return stacked(charts, 16), [*notes, *_note_nulls(drawn, along, line_names)]


def _starts_at_zero(data: ChartData) -> bool:
    """Return whether the y axis begins at zero: unless all values lie in a narrow band far above it."""
    values = [value for value in data.values if value is not None]
    return not values or min(values) < 0.6 * max(values)


def _build_lines(data: ChartData, along: GroupColumn, line_names: Sequence[str]) -> list[PlottedLine]:
    rows_by_name: dict[str, list[int]] = {}
    for row, name in enumerate(line_names):
        if along.values[row] is not None:
            rows_by_name.setdefault(name, []).append(row)
    return [_plotted_line(data, along, name, sorted(rows, key=along.coordinate)) for name, rows in rows_by_name.items()]


def _plotted_line(data: ChartData, along: GroupColumn, name: str, rows: Sequence[int]) -> PlottedLine:
    return PlottedLine(
        name or data.name,
        tuple(along.coordinate(row) for row in rows),
        tuple(data.values[row] for row in rows),
        tuple(data.intervals[row] for row in rows),
        tuple(data.noisy[row] for row in rows) if data.noisy else (),
        tuple(f"{along.labels[row]}: {data.printed[row]}" for row in rows) if data.printed else (),
    )


def _draw_heat_maps(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> tuple[Drawing, list[str]]:
    """Draw a heat map for each column, stacked, as many as fit on a page."""
    row_labels, column_labels = (list(dict.fromkeys(key.labels)) for key in keys)
    if len(column_labels) > len(row_labels):
        keys, row_labels, column_labels = keys[::-1], column_labels, row_labels
    visible = 1 if len(row_labels) > 18 else 2 if len(row_labels) > 9 else 3
    grids = [_heat_map_grid(data, keys, row_labels, column_labels) for data in _without_single_name(columns[:visible])]
    notes = [f"only the first {visible} of {len(columns)} columns are shown"] if len(columns) > visible else []
    return stacked([heat_map(grid, high=800 / len(grids)) for grid in grids]), [
        *notes,
        *heat_maps.omission_notes(grids[0]),
    ]


def _heat_map_grid(
    data: ChartData, keys: Sequence[GroupColumn], rows: Sequence[str], across: Sequence[str]
) -> HeatMapGrid:
    row_of_pair = {pair: row for row, pair in enumerate(zip(keys[0].labels, keys[1].labels, strict=True))}
    cells = [[row_of_pair.get((first, second)) for second in across] for first in rows]
    values = tuple(tuple(None if row is None else data.values[row] for row in line) for line in cells)
    texts = tuple(tuple("" if row is None else data.printed[row] for row in line) for line in cells)
    noisy = tuple(tuple(row is not None and data.noisy[row] for row in line) for line in cells) if data.noisy else ()
    present = [value for line in values for value in line if value is not None]
    signed = bool(present) and min(present) < 0 and -min(present) > 0.2 * max(present)
    names = (keys[0].name, keys[1].name)
    return HeatMapGrid(data.name, tuple(rows), tuple(across), values, texts, noisy, names, signed)
