"""Layout of a chart: title, footer (privacy unit, price, confidence, date), axes, and drawings side by side."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.plots.picture import (
    FIT_STYLE,
    INK,
    PAPER,
    QUIET,
    RULE,
    Picture,
    box,
    escape,
    horizontal_step,
    join_and_wrap,
    label,
    path,
    text_width,
    translated,
    vertical_step,
)
from sfumato.plots.scales import LinearScale, Tick, fitting_ticks, label_extent
from sfumato.quick_dataclass import dataclass

PAGE_WIDTH, PAGE_HEIGHT, MARGIN = 760.0, 1000.0, 20.0
"""Width and height of a page in pixels, and its margin."""
INNER_WIDTH = PAGE_WIDTH - 2 * MARGIN
_TITLE, _SMALL = 15.0, 10.5
_BOLD = 1.15
"""The width of bold letters relative to regular ones."""
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Drawing:
    """SVG elements and the size of their bounding box, whose origin is the upper left corner."""

    parts: tuple[str, ...]
    width: float
    height: float


def framed_picture(
    drawing: Drawing,
    title: str,
    foot: Sequence[str] = (),
    notes: Sequence[str] = (),
    min_width: float = INNER_WIDTH,
) -> Picture:
    """Put a drawing on a page: the title above it, notes on how to read it and the terms of the answer below.

    The background is always white, so that the picture is legible on a dark screen too.
    """
    inner_width = max(min_width, drawing.width)
    top = MARGIN + (34 if title else 0)
    parts = (
        [label(MARGIN, MARGIN + 13, title, size=_TITLE, max_width=inner_width / _BOLD, attributes=' font-weight="600"')]
        if title
        else []
    )
    parts.append(translated(MARGIN, top, drawing.parts))
    y = top + drawing.height + 10
    for line in [*notes, *join_and_wrap(list(foot), inner_width, _SMALL)]:
        y += 15
        parts.append(label(MARGIN, y, line, size=_SMALL, fill=QUIET, max_width=inner_width))
    return svg_picture(parts, inner_width + 2 * MARGIN, y + (MARGIN - 4), title)


def svg_picture(parts: Sequence[str], wide: float, high: float, title: str = "") -> Picture:
    """Render elements as a complete SVG document on a white background."""
    size = f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    style = f'font-family="{FONT}" font-size="12" fill="{INK}"{FIT_STYLE}'
    title_element = f"<title>{escape(title[:300])}</title>" if title else ""
    background = box(0, 0, wide, high, PAPER, more=' rx="6"')
    content = f"{title_element}{background}{''.join(parts)}"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>{content}</svg>'
    return Picture(svg, wide, high, title)


def unframed_picture(drawing: Drawing, title: str = "") -> Picture:
    """Render a drawing without title and footer, for a page that describes it."""
    return svg_picture([translated(4, 4, drawing.parts)], drawing.width + 8, drawing.height + 8, title)


def stacked(drawings: Sequence[Drawing], gap: float = 26.0) -> Drawing:
    """Stack drawings vertically."""
    parts, y = [], 0.0
    for drawing in drawings:
        parts.append(translated(0, y, drawing.parts))
        y += drawing.height + gap
    return Drawing(tuple(parts), max((drawing.width for drawing in drawings), default=0.0), max(0.0, y - gap))


def side_by_side(drawings: Sequence[Drawing], gap: float = 30.0) -> Drawing:
    """Place drawings side by side."""
    parts, x = [], 0.0
    for drawing in drawings:
        parts.append(translated(x, 0, drawing.parts))
        x += drawing.width + gap
    return Drawing(tuple(parts), max(0.0, x - gap), max((drawing.height for drawing in drawings), default=0.0))


SMALL_FONT = 10.5
X_AXIS_HEIGHT = 20.0
"""Height in pixels of the tick labels below an axis."""


def x_axis(scale: LinearScale, top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an x axis with a light grid line at each tick; that of zero is darker."""
    return x_axis_with_ticks(scale, fitting_ticks(scale, SMALL_FONT, wide=True), top, y, zero=zero)


def x_axis_with_ticks(
    scale: LinearScale, ticks: Sequence[Tick], top: float, y: float, *, zero: bool = True
) -> list[str]:
    """Draw an x axis with given ticks."""
    marks = [path((vertical_step(scale(value), top, y) for value, _ in ticks), RULE)]
    if zero and scale.low <= 0 <= scale.high:
        marks.append(path([vertical_step(scale(0), top, y)], QUIET))
    anchors = (label_extent(scale, tick, SMALL_FONT)[0] for tick in ticks)
    marks += [
        label(scale(value), y + 14, text, anchor=anchor, size=SMALL_FONT, fill=QUIET)
        for (value, text), anchor in zip(ticks, anchors, strict=True)
    ]
    return marks


def y_axis_width(ticks: Sequence[Tick]) -> float:
    """Return the width of the tick labels of a y axis."""
    return max((text_width(text, SMALL_FONT) for _, text in ticks), default=0.0) + 8


def y_axis(scale: LinearScale, ticks: Sequence[Tick], x: float, end: float) -> list[str]:
    """Draw a y axis with a light grid line at each tick."""
    marks = [path((horizontal_step(x, scale(value), end) for value, _ in ticks), RULE)]
    if scale.low <= 0 <= scale.high:
        marks.append(path([horizontal_step(x, scale(0), end)], QUIET))
    marks += [
        label(x - 6, scale(value) + 3.5, text, anchor="end", size=SMALL_FONT, fill=QUIET) for value, text in ticks
    ]
    return marks


def heading(x: float, y: float, text: str, room: float, anchor: str = "start") -> str:
    """Draw the title of a panel."""
    return label(x, y, text, anchor=anchor, max_width=room, fill=INK, attributes=' font-weight="600"')
