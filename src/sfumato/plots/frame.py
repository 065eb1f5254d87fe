"""A frame is what every picture has around it: a title above, and below it whom it protects, at what price, how sure
the ranges are and when it was made.

Axes are drawn with quiet lines, and with as many numbers as have room.
"""

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
"""Pixels of a page, and of the margin around what is drawn."""
INSIDE = WIDE - 2 * EDGE
_TITLE, _SMALL = 15.0, 10.5
_BOLD = 1.15
"""How much wider the bold letters of a title are."""
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Drawing:
    """A drawing is a list of marks and the room that they take, from the upper left corner on."""

    parts: tuple[str, ...]
    wide: float
    high: float


def framed(drawing: Drawing, title: str, foot: Sequence[str] = (), notes: Sequence[str] = ()) -> Picture:
    """Put a drawing on a page: its title above it, notes on how to read it and the terms of the answer below.

    The page is white whatever it is shown on: what is dark on it can be read on a dark screen, too.
    """
    room = max(INSIDE, drawing.wide)
    top = EDGE + (34 if title else 0)
    parts = [label(EDGE, EDGE + 13, title, size=_TITLE, room=room / _BOLD, more=' font-weight="600"')] if title else []
    parts.append(moved(EDGE, top, drawing.parts))
    y = top + drawing.high + 10
    for line in [*notes, *wrapped(list(foot), room, _SMALL)]:
        y += 15
        parts.append(label(EDGE, y, line, size=_SMALL, fill=QUIET, room=room))
    return page(parts, room + 2 * EDGE, y + (EDGE - 4), title)


def page(parts: Sequence[str], wide: float, high: float, title: str = "") -> Picture:
    """Make a whole SVG text of marks, on white."""
    size = f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    look = f'font-family="{FONT}" font-size="12" fill="{INK}"{FITTING}'
    said = f"<title>{escaped(title[:300])}</title>" if title else ""
    ground = box(0, 0, wide, high, PAPER, more=' rx="6"')
    text = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {look}>{said}{ground}{"".join(parts)}</svg>'
    return Picture(text, wide, high, title)


def bare(drawing: Drawing, title: str = "") -> Picture:
    """Make a picture without a frame, for a page that says around it what it is."""
    return page([moved(4, 4, drawing.parts)], drawing.wide + 8, drawing.high + 8, title)


def below(drawings: Sequence[Drawing], gap: float = 26.0) -> Drawing:
    """Put drawings below each other."""
    parts, y = [], 0.0
    for each in drawings:
        parts.append(moved(0, y, each.parts))
        y += each.high + gap
    return Drawing(tuple(parts), max((each.wide for each in drawings), default=0.0), max(0.0, y - gap))


def beside(drawings: Sequence[Drawing], gap: float = 30.0) -> Drawing:
    """Put drawings beside each other."""
    parts, x = [], 0.0
    for each in drawings:
        parts.append(moved(x, 0, each.parts))
        x += each.wide + gap
    return Drawing(tuple(parts), max(0.0, x - gap), max((each.high for each in drawings), default=0.0))


SMALL = 10.5
BELOW = 20.0
"""Pixels that the numbers below an axis take."""


def bottom(scale: LinearScale, top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an axis below, with a quiet line up from each of its numbers; that of zero is darker."""
    return bottom_of(scale, fitting(scale, SMALL, wide=True), top, y, zero=zero)


def bottom_of(scale: LinearScale, ticks: Sequence[Tick], top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an axis below whose numbers are chosen already."""
    marks = [path((upright(scale(each), top, y) for each, _ in ticks), RULE)]
    if zero and scale.low <= 0 <= scale.high:
        marks.append(path([upright(scale(0), top, y)], QUIET))
    anchors = (placed(scale, tick, SMALL)[0] for tick in ticks)
    marks += [
        label(scale(each), y + 14, text, anchor=anchor, size=SMALL, fill=QUIET)
        for (each, text), anchor in zip(ticks, anchors, strict=True)
    ]
    return marks


def left_room(ticks: Sequence[Tick]) -> float:
    """Say how wide the numbers beside an axis are."""
    return max((width(text, SMALL) for _, text in ticks), default=0.0) + 8


def left(scale: LinearScale, ticks: Sequence[Tick], x: float, end: float) -> list[str]:
    """Draw an axis on the left, with a quiet line from each of its numbers across the picture."""
    marks = [path((across(x, scale(each), end) for each, _ in ticks), RULE)]
    if scale.low <= 0 <= scale.high:
        marks.append(path([across(x, scale(0), end)], QUIET))
    marks += [label(x - 6, scale(each) + 3.5, text, anchor="end", size=SMALL, fill=QUIET) for each, text in ticks]
    return marks


def heading(x: float, y: float, text: str, room: float, anchor: str = "start") -> str:
    """Write what a panel shows, above it."""
    return label(x, y, text, anchor=anchor, room=room, fill=INK, more=' font-weight="600"')
