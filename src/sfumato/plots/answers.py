"""An answer is drawn by what its keys are: bars for few groups, lines for dates and ordered keys, a heat map for two
keys, a histogram for bins.

Panels are small pictures of equal kind on one page: one for each column, with labels of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plots import bars, heat_maps
from sfumato.plots.bars import aligned, edges, histogram
from sfumato.plots.frame import INSIDE, Drawing, below, beside, framed
from sfumato.plots.heat_maps import HeatMapGrid, heat_map
from sfumato.plots.lines import MOST_LINES, Panel, PlottedLine, numbers_room, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import ChartData, DayScale, KeyScale, LinearScale, TimeScale, seconds

_ROWS, _ACROSS = 10, 2
"""Bars of a small panel, and panels beside each other."""
_MOST = 6
"""Panels on a page."""


def several(columns: Sequence[ChartData]) -> tuple[Drawing, list[str]]:
    """Draw a panel of bars for each column, two beside each other, and say what is left out."""
    drawn = columns[:_MOST]
    wide = (INSIDE - 30) / _ACROSS
    small = [aligned([cut(each, _ROWS)], wide) for each in drawn]
    rows = [beside(small[at : at + _ACROSS], 30) for at in range(0, len(small), _ACROSS)]
    said = [f"drawn are the first {_MOST} of {len(columns)} panels"] if len(columns) > _MOST else []
    longer = [each for each in drawn if len(each.labels) > _ROWS]
    if longer:
        said.append(
            f"drawn are the first {_ROWS} rows of each panel: "
            + ", ".join(f"{each.name} has {len(each.labels):,}" for each in longer)
        )
    return below(rows, 14), said


def cut(data: ChartData, rows: int) -> ChartData:
    """Give the first rows alone."""
    names = ("labels", "values", "intervals", "cells", "noisy", "sampling")
    return replace(data, **{name: getattr(data, name)[:rows] for name in names})


_FEW, _LEAST = 5, 3
"""Lines that are told apart at a glance; numbers that a line has at least."""
_PANELS = {1: 320.0, 2: 280.0, 3: 230.0, 4: 190.0}
"""How high each panel is, by how many there are below each other."""


@dataclass(frozen=True)
class GroupColumn:
    """A key is a column that groups rows: the value of every row, and as it is written."""

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]

    @property
    def ordered(self) -> bool:
        """Tell whether all values that are there can be placed on a line: days, times or numbers."""
        kinds = set(map(type, self.values)) - {type(None)}
        return bool(kinds) and (kinds <= {int, float} or kinds <= {dt.date} or kinds <= {dt.datetime})

    @property
    def scale(self) -> type[LinearScale]:
        kinds = set(map(type, self.values))
        return TimeScale if dt.datetime in kinds else DayScale if dt.date in kinds else KeyScale

    def place(self, row: int) -> float:
        """Give the place of a row's value along the line."""
        value = self.values[row]
        return seconds(value) if isinstance(value, dt.date) else float(value)


def draw(
    columns: Sequence[ChartData], keys: Sequence[GroupColumn], foot: Sequence[str] = (), notes: Sequence[str] = ()
) -> Picture:
    """Draw the columns of an answer in the way that suits its keys, with ``notes`` on how to read its marks."""
    require_numbers(columns)
    drawing, said = _drawing(columns, keys)
    return framed(drawing, title(columns, keys), foot, [*said, *notes])


def require_numbers(columns: Sequence[ChartData]) -> None:
    """Refuse to draw what has no numbers."""
    if not columns or not columns[0].values:
        raise InvalidParameter("answer", "no numbers", "one with a column of numbers and a row")


def title(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> str:
    """Say what a picture shows."""
    by = " and ".join(each.name for each in keys)
    return ", ".join(each.name for each in columns) + (f" by {by}" if by else "")


def draw_panels(
    columns: Sequence[ChartData], name: str, foot: Sequence[str] = (), notes: Sequence[str] = ()
) -> Picture:
    """Draw columns that have labels of their own: a small panel for each."""
    require_numbers(columns)
    if len(columns) == 1:
        return framed(bars.aligned(columns), name, foot, [*bars.left_out(columns), *notes])
    drawing, said = several(columns)
    return framed(drawing, name, foot, [*said, *notes])


def draw_lines(
    columns: Sequence[ChartData],
    along: GroupColumn,
    others: Sequence[GroupColumn],
    foot: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Picture:
    """Draw a line for each combination of the other keys, along this one."""
    require_numbers(columns)
    drawing, said = _lines(columns, along, others)
    return framed(drawing, title(columns, [along, *others]), foot, [*said, *notes])


def _drawing(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> tuple[Drawing, list[str]]:
    if len(keys) == 1:
        bins = edges(keys[0].labels)
        if bins is not None:
            most = _named(columns[: max(_PANELS)])
            return below([histogram(each, bins, _PANELS[len(most)]) for each in most]), _fewer(columns)
        if _goes_along(keys[0]):
            return _lines(columns, keys[0], ())
    if len(keys) == 2 and _are_pairs(keys):
        for along, other in (keys, keys[::-1]):
            if issubclass(along.scale, TimeScale) and len(set(other.labels)) <= _FEW and _places(along) >= _LEAST:
                return _lines(columns, along, (other,))
        return _maps(columns, keys)
    return bars.aligned(columns), bars.left_out(columns)


def _named(columns: Sequence[ChartData]) -> Sequence[ChartData]:
    """Leave out the name above a panel that is alone: the title says it."""
    return columns if len(columns) > 1 else [replace(columns[0], name="")]


def _places(key: GroupColumn) -> int:
    return len(set(key.values) - {None}) if key.ordered else 0


def _goes_along(key: GroupColumn) -> bool:
    """Tell whether rows follow each other along a key: each value once, rising or falling."""
    if _places(key) < _LEAST:
        return False
    known = [each for each in key.values if each is not None]
    steps = {one < other for one, other in pairwise(known)}
    return len(steps) == 1 and len(set(known)) == len(known) and known[-1] != known[0]


def _are_pairs(keys: Sequence[GroupColumn]) -> bool:
    """Tell whether every pair of two keys has one row at most, and each key more than one value."""
    pairs = list(zip(*(each.labels for each in keys), strict=True))
    return len(set(pairs)) == len(pairs) and all(len(set(each.labels)) > 1 for each in keys)


def _fewer(columns: Sequence[ChartData]) -> list[str]:
    most = max(_PANELS)
    return [f"drawn are the first {most} of {len(columns)} columns"] if len(columns) > most else []


def _lines(
    columns: Sequence[ChartData], along: GroupColumn, others: Sequence[GroupColumn]
) -> tuple[Drawing, list[str]]:
    """Draw a panel for each column, below each other, with a line for each combination of the other keys."""
    drawn = _named(columns[: max(_PANELS)])
    high = _PANELS[len(drawn)]
    named = [" · ".join(each.labels[row] for each in others) for row in range(len(along.values))]
    each_column = [_series(data, along, named) for data in drawn]
    panels = [
        Panel(data.name, along.name if data is drawn[-1] else "", along.scale, zero=_from_zero(data)) for data in drawn
    ]
    room = max(numbers_room(lines, of, high) for lines, of in zip(each_column, panels, strict=True))
    pictures = [panel(lines, of, high, beside=room) for lines, of in zip(each_column, panels, strict=True)]
    said = _fewer(columns)
    lines = len(each_column[0])
    if lines > MOST_LINES:
        said.append(f"drawn are the first {MOST_LINES} of {lines:,} lines: {lines - MOST_LINES:,} are left out")
    missing = [row for row, each in enumerate(along.values) if each is None]
    said += [
        f"{along.name} NULL{f', {named[row]}' if named[row] else ''}: "
        + ", ".join(f"{each.name} {each.cells[row]}".strip() for each in drawn if each.cells)
        for row in missing[:3]
    ]
    return below(pictures, 16), said


def _from_zero(data: ChartData) -> bool:
    """Let the height begin at zero unless all numbers lie in a narrow band far above it."""
    known = [each for each in data.values if each is not None]
    return not known or min(known) < 0.6 * max(known)


def _series(data: ChartData, along: GroupColumn, named: Sequence[str]) -> list[PlottedLine]:
    places: dict[str, list[int]] = {}
    for row, name in enumerate(named):
        if along.values[row] is not None:
            places.setdefault(name, []).append(row)
    return [_one(data, along, name, sorted(rows, key=along.place)) for name, rows in places.items()]


def _one(data: ChartData, along: GroupColumn, name: str, rows: Sequence[int]) -> PlottedLine:
    return PlottedLine(
        name or data.name,
        tuple(along.place(row) for row in rows),
        tuple(data.values[row] for row in rows),
        tuple(data.intervals[row] for row in rows),
        tuple(data.noisy[row] for row in rows) if data.noisy else (),
        tuple(f"{along.labels[row]}: {data.cells[row]}" for row in rows) if data.cells else (),
    )


def _maps(columns: Sequence[ChartData], keys: Sequence[GroupColumn]) -> tuple[Drawing, list[str]]:
    """Draw a map for each column, below each other, as many as a page holds."""
    rows, across = (list(dict.fromkeys(each.labels)) for each in keys)
    if len(across) > len(rows):
        keys, rows, across = keys[::-1], across, rows
    most = 1 if len(rows) > 18 else 2 if len(rows) > 9 else 3
    grids = [_grid(data, keys, rows, across) for data in _named(columns[:most])]
    said = [f"drawn are the first {most} of {len(columns)} columns"] if len(columns) > most else []
    return below([heat_map(each, high=800 / len(grids)) for each in grids]), [*said, *heat_maps.left_out(grids[0])]


def _grid(data: ChartData, keys: Sequence[GroupColumn], rows: Sequence[str], across: Sequence[str]) -> HeatMapGrid:
    found = {pair: row for row, pair in enumerate(zip(keys[0].labels, keys[1].labels, strict=True))}
    at = [[found.get((one, other)) for other in across] for one in rows]
    values = tuple(tuple(None if row is None else data.values[row] for row in line) for line in at)
    texts = tuple(tuple("" if row is None else data.cells[row] for row in line) for line in at)
    noisy = tuple(tuple(row is not None and data.noisy[row] for row in line) for line in at) if data.noisy else ()
    known = [each for line in values for each in line if each is not None]
    signed = bool(known) and min(known) < 0 and -min(known) > 0.2 * max(known)
    names = (keys[0].name, keys[1].name)
    return HeatMapGrid(data.name, tuple(rows), tuple(across), values, texts, noisy, names, signed)
