"""A heat map shows a number for every pair of two keys: a colour for each, and the number itself where it has room."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.plots.frame import INSIDE, SMALL, Drawing, heading
from sfumato.plots.marks import PAPER, QUIET, RULE, box, digits, label, path, width
from sfumato.plots.scales import written

MOST_ROWS, MOST_COLUMNS = 40, 40
_BLACK = "#000000"
_DARK, _BELOW = (8, 55, 107), (166, 76, 0)
"""The colours of the largest number, and of the least below zero: blue and brown, which everybody tells apart."""


@dataclass(frozen=True)
class HeatMapGrid:
    """A grid has a number for every pair of a row and a column, or None, with what is written and told of each."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...] = ()
    """The numbers as they are printed; short ones are made where there are none."""
    noisy: tuple[tuple[bool, ...], ...] = ()
    by: tuple[str, str] = ("", "")
    """What rows and columns are."""
    signed: bool = False


def left_out(grid: HeatMapGrid) -> list[str]:
    """Say in words what has no room on a page."""
    said = []
    for count, most, what in ((len(grid.rows), MOST_ROWS, "rows"), (len(grid.columns), MOST_COLUMNS, "columns")):
        if count > most:
            said.append(f"drawn are the first {most} of {count:,} {what}: {count - most:,} are left out")
    return said


def heat_map(grid: HeatMapGrid, wide: float = INSIDE, high: float = 800.0) -> Drawing:
    """Draw cells from white to blue, or to brown below zero, with what the colours mean below them."""
    rows, columns = grid.rows[:MOST_ROWS], grid.columns[:MOST_COLUMNS]
    left = min(max([width(each[:60]) for each in (*rows, grid.by[0])], default=0.0), 0.3 * wide) + 8
    broad = min(90.0, (wide - left) / max(1, len(columns)))
    turned = any(width(each[:60], SMALL) > broad - 6 for each in columns)
    head = (22.0 if grid.name else 0.0) + (
        min(110.0, max(width(each[:60], SMALL) for each in columns)) + 10 if turned else 20.0
    )
    head += 16.0 if grid.by[1] else 0.0
    deep = max(15.0, min(30.0, (high - head - 50) / max(1, len(rows))))
    top = _top(grid)
    parts = [heading(0, 12, grid.name, wide)] if grid.name else []
    parts += [] if not grid.by[0] else [heading(left - 8, head - 8, grid.by[0], left - 8, "end")]
    parts += [] if not grid.by[1] else [heading(left, 34 if grid.name else 12, grid.by[1], wide - left)]
    parts += [_above(left + (place + 0.5) * broad, head - 6, each, broad, turned) for place, each in enumerate(columns)]
    for row, name in enumerate(rows):
        y = head + row * deep
        parts.append(label(left - 8, y + deep / 2 + 4, name, anchor="end", room=left - 8))
        parts += [
            _cell(grid, row, column, (left + column * broad, y, broad, deep), top) for column in range(len(columns))
        ]
    foot = head + len(rows) * deep + 10
    parts += _colours(grid, left, foot, top)
    return Drawing(tuple(parts), max(wide, left + broad * len(columns)), foot + 28)


def _top(grid: HeatMapGrid) -> float:
    known = (each for row in grid.values for each in row if each is not None and math.isfinite(each))
    return max(map(abs, known), default=0.0) or 1.0


def _above(x: float, y: float, name: str, broad: float, turned: bool) -> str:
    if not turned:
        return label(x, y, name, anchor="middle", size=SMALL, room=broad - 4)
    return label(x + 4, y, name, size=SMALL, room=108, turned=True)


def _cell(grid: HeatMapGrid, row: int, column: int, where: tuple[float, float, float, float], top: float) -> str:
    x, y, broad, deep = where
    value = grid.values[row][column]
    text = grid.texts[row][column] if grid.texts else "" if value is None else f"{value:.4g}"
    said = f"{grid.rows[row]} × {grid.columns[column]}: {text or 'no number'}"
    if value is None:
        cross = path([f"M{digits(x + 4)} {digits(y + deep - 4)}L{digits(x + broad - 5)} {digits(y + 4)}"], RULE)
        return box(x, y, broad - 1, deep - 1, PAPER, more=f' stroke="{RULE}"', say=said) + cross
    share = value / top
    hollow = bool(grid.noisy) and grid.noisy[row][column]
    fill = colour(share, signed=grid.signed)
    drawn = box(x, y, broad - 1, deep - 1, fill, say=said)
    ink = ink_on(fill)
    if hollow:
        dashed = f' stroke="{ink}" stroke-dasharray="3 2"'
        drawn += box(x + 2, y + 2, broad - 5, deep - 5, "none", more=dashed)
    for each in (text, short(value)):
        if each and width(each, SMALL) <= broad - 3:
            at, through = (x + broad / 2 - 0.5, y + deep / 2 + 3.5), ' pointer-events="none"'
            return drawn + label(*at, each, anchor="middle", size=SMALL, fill=ink, more=through)
    return drawn


def short(value: float) -> str:
    """Write a number with about two digits: cells are small."""
    if not value:
        return "0"
    return written(float(f"{value:.3g}"), 10.0 ** (math.floor(math.log10(abs(value))) - 1))


def colour(share: float, *, signed: bool) -> str:
    """Give a colour between white and the dark end of a share from 0 to 1; below zero it is white, or brown."""
    if share < 0 and not signed:
        share = 0.0
    end = _DARK if share >= 0 else _BELOW
    return "#" + "".join(f"{round(245 + (each - 245) * min(1.0, abs(share))):02x}" for each in end)


def ink_on(fill: str) -> str:
    """Choose black or white, whichever is told apart better: one of them always has a contrast of 4.5 or more.

    The contrast is that of WCAG 2: (l + 0.05)/(l′ + 0.05), of the lighter and the darker luminance.
    """
    lightness = _luminance(fill) + 0.05
    return _BLACK if lightness / 0.05 >= 1.05 / lightness else PAPER


def _luminance(fill: str) -> float:
    parts = [int(fill[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _colours(grid: HeatMapGrid, x: float, y: float, top: float) -> list[str]:
    """Draw what the colours mean."""
    shares = [place / 8 for place in range(-8 if grid.signed else 0, 9)]
    parts = [box(x + 12 * place, y, 12, 9, colour(share, signed=grid.signed)) for place, share in enumerate(shares)]
    low, high = (short(each) for each in (shares[0] * top, top))
    parts.append(label(x, y + 21, low, size=SMALL, fill=QUIET))
    parts.append(label(x + 12 * len(shares), y + 21, high, anchor="end", size=SMALL, fill=QUIET))
    return parts
