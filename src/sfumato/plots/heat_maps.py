"""Heat maps: a coloured cell for every pair of two keys, with the number itself where it fits."""

from __future__ import annotations

import math

from sfumato.plots.frame import (
    INNER_WIDTH,
    SMALL_FONT,
    Drawing,
    format_tick,
    heading,
)
from sfumato.plots.picture import (
    BLACK,
    HEAT_LARGEST,
    HEAT_NEGATIVE,
    PAPER,
    QUIET,
    RULE,
    box,
    format_length,
    label,
    path,
    text_width,
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
