"""Axes are drawn with quiet lines, and with as many numbers as have room."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.plots.letters import width
from sfumato.plots.marks import INK, QUIET, RULE, across, label, path, upright
from sfumato.plots.scales import Scale, Tick, fitting, placed

SMALL = 10.5
BELOW = 20.0
"""Pixels that the numbers below an axis take."""


def bottom(scale: Scale, top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an axis below, with a quiet line up from each of its numbers; that of zero is darker."""
    return bottom_of(scale, fitting(scale, SMALL, wide=True), top, y, zero=zero)


def bottom_of(scale: Scale, ticks: Sequence[Tick], top: float, y: float, *, zero: bool = True) -> list[str]:
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


def left(scale: Scale, ticks: Sequence[Tick], x: float, end: float) -> list[str]:
    """Draw an axis on the left, with a quiet line from each of its numbers across the picture."""
    marks = [path((across(x, scale(each), end) for each, _ in ticks), RULE)]
    if scale.low <= 0 <= scale.high:
        marks.append(path([across(x, scale(0), end)], QUIET))
    marks += [label(x - 6, scale(each) + 3.5, text, anchor="end", size=SMALL, fill=QUIET) for each, text in ticks]
    return marks


def heading(x: float, y: float, text: str, room: float, anchor: str = "start") -> str:
    """Write what a panel shows, above it."""
    return label(x, y, text, anchor=anchor, room=room, fill=INK, more=' font-weight="600"')
