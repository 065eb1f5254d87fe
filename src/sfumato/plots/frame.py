"""Layout of a chart: title, footer (privacy unit, price, confidence, date), axes, and drawings side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.plots.marks import (
    INK,
    PAPER,
    QUIET,
    RULE,
    across,
    box,
    escaped,
    label,
    moved,
    path,
    upright,
    width,
    wrapped,
)
from sfumato.plots.picture import FITTING, Picture
from sfumato.plots.scales import LinearScale, Tick, fitting, placed

WIDE, HIGH, EDGE = 760.0, 1000.0, 20.0
"""Width and height of a page in pixels, and its margin."""
INSIDE = WIDE - 2 * EDGE
_TITLE, _SMALL = 15.0, 10.5
_BOLD = 1.15
"""The width of bold letters relative to regular ones."""
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Drawing:
    """SVG elements and the size of their bounding box, whose origin is the upper left corner."""

    parts: tuple[str, ...]
    wide: float
    high: float


def framed(drawing: Drawing, title: str, foot: Sequence[str] = (), notes: Sequence[str] = ()) -> Picture:
    """Put a drawing on a page: the title above it, notes on how to read it and the terms of the answer below.

    The background is always white, so that the picture is legible on a dark screen too.
    """
    inner_width = max(INSIDE, drawing.wide)
    top = EDGE + (34 if title else 0)
    parts = (
        [label(EDGE, EDGE + 13, title, size=_TITLE, room=inner_width / _BOLD, more=' font-weight="600"')]
        if title
        else []
    )
    parts.append(moved(EDGE, top, drawing.parts))
    y = top + drawing.high + 10
    for line in [*notes, *wrapped(list(foot), inner_width, _SMALL)]:
        y += 15
        parts.append(label(EDGE, y, line, size=_SMALL, fill=QUIET, room=inner_width))
    return page(parts, inner_width + 2 * EDGE, y + (EDGE - 4), title)


def page(parts: Sequence[str], wide: float, high: float, title: str = "") -> Picture:
    """Render elements as a complete SVG document on a white background."""
    size = f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    style = f'font-family="{FONT}" font-size="12" fill="{INK}"{FITTING}'
    title_element = f"<title>{escaped(title[:300])}</title>" if title else ""
    background = box(0, 0, wide, high, PAPER, more=' rx="6"')
    content = f"{title_element}{background}{''.join(parts)}"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>{content}</svg>'
    return Picture(svg, wide, high, title)


def bare(drawing: Drawing, title: str = "") -> Picture:
    """Render a drawing without title and footer, for a page that describes it."""
    return page([moved(4, 4, drawing.parts)], drawing.wide + 8, drawing.high + 8, title)


def below(drawings: Sequence[Drawing], gap: float = 26.0) -> Drawing:
    """Stack drawings vertically."""
    parts, y = [], 0.0
    for drawing in drawings:
        parts.append(moved(0, y, drawing.parts))
        y += drawing.high + gap
    return Drawing(tuple(parts), max((each.wide for each in drawings), default=0.0), max(0.0, y - gap))


def beside(drawings: Sequence[Drawing], gap: float = 30.0) -> Drawing:
    """Place drawings side by side."""
    parts, x = [], 0.0
    for drawing in drawings:
        parts.append(moved(x, 0, drawing.parts))
        x += drawing.wide + gap
    return Drawing(tuple(parts), max(0.0, x - gap), max((each.high for each in drawings), default=0.0))


SMALL = 10.5
BELOW = 20.0
"""Height in pixels of the tick labels below an axis."""


def bottom(scale: LinearScale, top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an x axis with a light grid line at each tick; that of zero is darker."""
    return bottom_of(scale, fitting(scale, SMALL, wide=True), top, y, zero=zero)


def bottom_of(scale: LinearScale, ticks: Sequence[Tick], top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an x axis with given ticks."""
    marks = [path((upright(scale(value), top, y) for value, _ in ticks), RULE)]
    if zero and scale.low <= 0 <= scale.high:
        marks.append(path([upright(scale(0), top, y)], QUIET))
    anchors = (placed(scale, tick, SMALL)[0] for tick in ticks)
    marks += [
        label(scale(value), y + 14, text, anchor=anchor, size=SMALL, fill=QUIET)
        for (value, text), anchor in zip(ticks, anchors, strict=True)
    ]
    return marks


def left_room(ticks: Sequence[Tick]) -> float:
    """Return the width of the tick labels of a y axis."""
    return max((width(text, SMALL) for _, text in ticks), default=0.0) + 8


def left(scale: LinearScale, ticks: Sequence[Tick], x: float, end: float) -> list[str]:
    """Draw a y axis with a light grid line at each tick."""
    marks = [path((across(x, scale(value), end) for value, _ in ticks), RULE)]
    if scale.low <= 0 <= scale.high:
        marks.append(path([across(x, scale(0), end)], QUIET))
    marks += [label(x - 6, scale(value) + 3.5, text, anchor="end", size=SMALL, fill=QUIET) for value, text in ticks]
    return marks


def heading(x: float, y: float, text: str, room: float, anchor: str = "start") -> str:
    """Draw the title of a panel."""
    return label(x, y, text, anchor=anchor, room=room, fill=INK, more=' font-weight="600"')
