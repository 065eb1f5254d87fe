"""Lines go along what comes one after the other, dates or numbers, each with a band for its ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sfumato.plots.frame import BELOW, INSIDE, SMALL, Drawing, bottom, heading, left, left_room
from sfumato.plots.marks import DASHES, LINES, PAPER, QUIET, area, digits, label, path, told, upright, width
from sfumato.plots.scales import FURTHEST, Interval, LinearScale, LogScale, fitting

MOST_LINES = 8
_DOTS = 40
"""A line of at most so many numbers shows each as a dot; a longer one those that are too noisy alone."""


@dataclass(frozen=True)
class PlottedLine:
    """A line has a number for each place along it, or none, with the range of each."""

    name: str
    at: tuple[float, ...]
    values: tuple[float | None, ...]
    ranges: tuple[Interval, ...] = ()
    noisy: tuple[bool, ...] = ()
    said: tuple[str, ...] = ()
    """What is told of each number, which then has a dot; empty where lines are drawn without."""
    stepped: bool = False
    """Whether a number holds until the next."""


@dataclass(frozen=True)
class Panel:
    """A panel is what lines are drawn on: its two axes, what they are, and places that are marked."""

    name: str
    across: str = ""
    x: type[LinearScale] = LinearScale
    y: type[LinearScale] = LinearScale
    zero: bool = True
    """Whether the height begins at zero where all numbers are above it."""
    ends: tuple[float, float] | None = None
    """Of the height; found from the lines where they are not given."""
    marked: tuple[tuple[float, str], ...] = field(default=())
    """Places along it with a word each."""


def panel(
    lines: Sequence[PlottedLine], of: Panel, high: float = 280.0, wide: float = INSIDE, *, beside: float = 0.0
) -> Drawing:
    """Draw lines on one panel; the names of several stand at their ends, none above another.

    ``beside`` is room on the left that the numbers of the axis take at least, so that panels are in line.
    """
    drawn = lines[:MOST_LINES]
    along = [each for line in drawn for each in line.at]
    ends = of.ends or heights(drawn, log=of.y is LogScale, zero=of.zero)
    right = max((min(170.0, width(each.name, SMALL)) for each in drawn), default=0.0) + 14 if len(drawn) > 1 else 10.0
    top, foot = 24.0 if of.name else 8.0, high - BELOW - (16 if of.across else 0)
    y = of.y(*ends, foot, top)
    ticks = fitting(y, SMALL, wide=False)
    start = max(left_room(ticks), beside)
    x = of.x(min(along, default=0.0), max(along, default=1.0), start + 6, wide - right)
    parts = [heading(0, 12, of.name, wide)] if of.name else []
    parts += [*left(y, ticks, start, wide - right), *bottom(x, foot, foot, zero=False)]
    parts += [_marked(x, place, word, top, foot) for place, word in of.marked if x.low <= place <= x.high]
    for place, line in enumerate(drawn):  # below all lines, so that none is hidden
        parts += [area(_band(line, run, x, y), LINES[place], 0.18) for run in runs(line) if line.ranges]
    for place, line in enumerate(drawn):
        parts += _line(line, x, y, LINES[place], DASHES[place])
    if len(drawn) > 1:
        parts += _names(drawn, y, wide - right + 8, right - 10)
    if of.across:
        parts.append(label((start + wide - right) / 2, high - 4, of.across, anchor="middle", fill=QUIET, room=wide / 2))
    return Drawing(tuple(parts), wide, high)


def numbers_room(lines: Sequence[PlottedLine], of: Panel, high: float) -> float:
    """Say how much room the numbers of the axis on the left take."""
    ends = of.ends or heights(lines[:MOST_LINES], log=of.y is LogScale, zero=of.zero)
    return left_room(fitting(of.y(*ends, high, 24.0), SMALL, wide=False))


def heights(lines: Sequence[PlottedLine], *, log: bool = False, zero: bool = True) -> tuple[float, float]:
    """Find the least and the largest number of all lines and their bands."""
    numbers = [each for line in lines for each in line.values if each is not None and math.isfinite(each)]
    own = max(map(abs, numbers), default=1.0)
    ends = [end for line in lines for each in line.ranges if each is not None for end in each if math.isfinite(end)]
    far = max(1.25 * own, 4 * sorted(map(abs, ends))[len(ends) // 2]) if ends else own
    every = [*numbers, *(min(max(each, -far), far) for each in ends)]
    if log:
        above = [each for each in every if each > 0] or [1.0]
        low, high = min(above), max(above)
        return (low, high) if low < high else (low / 2, 2 * high)
    low, high = (
        min([*every, *([0.0] if zero else [])], default=0.0),
        max([*every, *([0.0] if zero else [])], default=1.0),
    )
    low, high = max(low, -FURTHEST), min(high, FURTHEST)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _marked(x: LinearScale, place: float, word: str, top: float, foot: float) -> str:
    at = x(place)
    near = at > (x.start + x.end) / 2
    word_at = at - 5 if near else at + 5
    anchor = "end" if near else "start"
    words = label(word_at, top + 13, word, anchor=anchor, size=SMALL, fill=QUIET, room=abs(x.end - x.start) / 2)
    return path([upright(at, top, foot)], QUIET, 1, ' stroke-dasharray="4 3"') + words


def _line(line: PlottedLine, x: LinearScale, y: LinearScale, colour: str, dash: str) -> Iterator[str]:
    for run in runs(line):
        more = f' stroke-linejoin="round"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}'
        yield path(_steps(line, run, x, y), colour, 2, more)
    if line.said:
        every = len(line.at) <= _DOTS
        for place in (each for run in runs(line) for each in run):
            if every or (line.noisy and line.noisy[place]):
                yield _dot(line, place, x, y, colour)


def _dot(line: PlottedLine, place: int, x: LinearScale, y: LinearScale, colour: str) -> str:
    hollow = bool(line.noisy) and line.noisy[place]
    look = f'fill="{PAPER if hollow else colour}" stroke="{colour}"'
    value = line.values[place]
    assert value is not None
    where = f'cx="{digits(x(line.at[place]))}" cy="{digits(y(value))}" r="3"'
    return f"<circle {where} {look}>{told(line.said[place])}</circle>"


def runs(line: PlottedLine) -> list[range]:
    """Find the places between numbers that are missing: no line is drawn across those."""
    found: list[range] = []
    start = None
    for place, value in enumerate((*line.values, None)):
        if value is None or not math.isfinite(value):
            found += [] if start is None else [range(start, place)]
            start = None
        elif start is None:
            start = place
    return found


def _steps(line: PlottedLine, run: range, x: LinearScale, y: LinearScale) -> Iterator[str]:
    for place in run:
        value = line.values[place]
        assert value is not None
        if place == run[0]:
            yield f"M{digits(x(line.at[place]))} {digits(y(value))}"
        elif line.stepped:
            yield f"H{digits(x(line.at[place]))}V{digits(y(value))}"
        else:
            yield f"L{digits(x(line.at[place]))} {digits(y(value))}"


def _band(line: PlottedLine, run: range, x: LinearScale, y: LinearScale) -> list[tuple[float, float]]:
    """Go along the upper ends and back along the lower; a band of one number is as wide as a dot."""
    ends = [(place, line.ranges[place] or (line.values[place],) * 2) for place in run]
    spread = 3.0 if len(run) == 1 else 0.0
    upper = [(x(line.at[place]) + shift, y(_far(each[1]))) for place, each in ends for shift in _sides(spread)]
    lower = [(x(line.at[place]) + shift, y(_far(each[0]))) for place, each in ends for shift in _sides(spread)]
    return [*upper, *reversed(lower)]


def _sides(spread: float) -> tuple[float, ...]:
    return (-spread, spread) if spread else (0.0,)


def _far(end: float | None) -> float:
    assert end is not None
    return end if math.isfinite(end) else math.copysign(FURTHEST, end)


def _names(lines: Sequence[PlottedLine], y: LinearScale, x: float, room: float) -> Iterator[str]:
    """Write each name where its line ends, moved apart where two would meet."""
    ends = []
    for place, line in enumerate(lines):
        known = [each for each in line.values if each is not None and math.isfinite(each)]
        ends.append((y(known[-1]) if known else y.start, place))
    heights, lowest = [], min(y.start, y.end) - 20.0
    for at, place in sorted(ends):
        lowest = max(at, lowest + 14)
        heights.append((lowest, place))
    over = max(0.0, heights[-1][0] - max(y.start, y.end)) if heights else 0.0
    for at, place in heights:
        yield label(x, at - over + 4, lines[place].name, size=SMALL, fill=LINES[place], room=room)
