"""Two worlds are drawn one above the other, with the event that tells them apart shaded."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.audit.lower_bounds.told_laws import ToldLaws
from sfumato.plots.axes import BELOW, SMALL, bottom, heading, left, left_room
from sfumato.plots.frame import INSIDE, Drawing, below, framed
from sfumato.plots.marks import LINES, QUIET, SAMPLE, box, digits, label, path
from sfumato.plots.paired_bars import paired_bars
from sfumato.plots.picture import Picture
from sfumato.plots.scales import Scale, fitting

_HIGH = 300.0
_SHADE = ' fill-opacity="0.14"'


Names = tuple[str, str]


def draw_laws(
    laws: ToldLaws, title: str, foot: Sequence[str], names: Names = ("first world", "second world")
) -> Picture:
    """Draw both laws, along a line of numbers where there is one, else as pairs of bars."""
    if not laws.edges:
        labels = [f"{'in' if inside else 'outside'} the event, outputs {i + 1}" for i, inside in enumerate(laws.inside)]
        bars = paired_bars(labels, names, laws.first, laws.second, INSIDE)
        return framed(below([_said(laws, names), bars], 8.0), title, foot)
    return framed(_steps(laws, names), title, foot)


def _said(laws: ToldLaws, names: Names) -> Drawing:
    """Say what pairs of bars show: they are the outputs whose shares differ most."""
    text = f"Outputs that differ most, by {laws.seen}: {names[0]} above, {names[1]} below"
    return Drawing((heading(0, 12, text, INSIDE),), INSIDE, 18.0)


def _steps(laws: ToldLaws, names: Names) -> Drawing:
    """Draw densities as steps, and shade the cells of the event."""
    widths = [high - low for low, high in zip(laws.edges[:-1], laws.edges[1:], strict=True)]
    usual = sorted(widths)[len(widths) // 2] or 1.0
    heights = [
        [share * usual / (wide or usual) for share, wide in zip(side, widths, strict=True)] for side in _sides(laws)
    ]
    most = max(max(each) for each in heights) or 1.0
    top, foot = 46.0, _HIGH - BELOW - 16
    y = Scale(0.0, most, foot, top)
    ticks = fitting(y, SMALL, wide=False)
    start = left_room(ticks)
    x = Scale(laws.edges[0], laws.edges[-1], start + 4, INSIDE - 10)
    parts = [heading(0, 12, f"How often each gave which output, by {laws.seen}", INSIDE)]
    parts += _shaded(laws, x, top, foot)
    parts += [*left(y, ticks, start, INSIDE - 10), *bottom(x, foot, foot, zero=False)]
    parts += [_stairs(laws.edges, side, x, y, place) for place, side in enumerate(heights)]
    parts += _key(start + 4, names)
    parts.append(label(INSIDE / 2, _HIGH - 4, laws.seen, anchor="middle", fill=QUIET, room=INSIDE / 2))
    return Drawing(tuple(parts), INSIDE, _HIGH)


def _sides(laws: ToldLaws) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return laws.first, laws.second


def _shaded(laws: ToldLaws, x: Scale, top: float, foot: float) -> list[str]:
    cells = zip(laws.edges[:-1], laws.edges[1:], laws.inside, strict=True)
    return [
        box(x(low), top, x(high) - x(low), foot - top, SAMPLE, more=_SHADE) for low, high, inside in cells if inside
    ]


def _stairs(edges: Sequence[float], heights: Sequence[float], x: Scale, y: Scale, place: int) -> str:
    steps = [f"M{digits(x(edges[0]))} {digits(y(0.0))}"]
    steps += [f"V{digits(y(high))}H{digits(x(end))}" for high, end in zip(heights, edges[1:], strict=True)]
    dash = ' stroke-dasharray="7 3"' if place else ""
    return path([*steps, f"V{digits(y(0.0))}"], LINES[place], 2, dash)


def _key(start: float, names: Names) -> list[str]:
    """Say which line is which, and what is shaded."""
    parts = []
    for place, word in enumerate(names):
        at = start + 130 * place
        dash = ' stroke-dasharray="7 3"' if place else ""
        parts.append(path([f"M{digits(at)} 30H{digits(at + 24)}"], LINES[place], 2, dash))
        parts.append(label(at + 30, 34, word, size=SMALL, fill=LINES[place]))
    parts.append(box(start + 260, 24, 24, 12, SAMPLE, more=_SHADE))
    parts.append(label(start + 290, 34, "the event that tells them apart", size=SMALL, fill=QUIET))
    return parts
