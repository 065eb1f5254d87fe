"""The error of an answer is drawn against its price, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from sfumato.curator.previews.forecasts import Width
from sfumato.errors import InvalidParameter
from sfumato.plots.frame import INSIDE, Drawing, below, beside, framed
from sfumato.plots.lines import Line, Panel, heights, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LogScale
from sfumato.privacy import PrivacyUnit
from sfumato.privacy.numbers import POSITIVE, Number, chance, exact, percent, shown, text

_STEPS = 24
"""Prices at which the error is computed."""
_MOST_PANELS, _GAP = 6, 30.0
"""Columns on a page, and pixels between two of them."""
_ABOVE = 3.0
"""How far above the largest error a panel goes, so that what is left is written above the lines."""


def draw_terms(unit: PrivacyUnit, delta: Number, confidence: Number) -> list[str]:
    """Say in words what the picture is of."""
    beside = f"beside δ = {chance(exact(delta, 'delta'))}" if exact(delta, "delta") else ""
    sure = f"half-widths at {percent(confidence)} confidence, for the noise alone"
    return [f"protects {unit}", beside, sure, "nothing was spent"]


def draw_errors(
    name: str,
    widths: Callable[[Fraction], Mapping[str, Width]],
    ends: tuple[Number, Number],
    left: Fraction,
    terms: Sequence[str],
) -> Picture:
    """Draw a panel for every column, since rows and minutes have no axis in common: its half-width at each ε, both by
    their logarithms.
    """
    least, most = (exact(end, each, POSITIVE) for end, each in zip(ends, ("least", "most"), strict=True))
    if least >= most:
        raise InvalidParameter("least", ends[0], f"below most = {text(most)}")
    ratio = (math.log(float(most)) - math.log(float(least))) / _STEPS
    epsilons = [Fraction(f"{float(least) * math.exp(ratio * step):.6g}") for step in range(_STEPS + 1)]
    every = [widths(epsilon) for epsilon in epsilons]
    columns = {
        column: _lines(column, epsilons, every) for column in dict.fromkeys(each for one in every for each in one)
    }
    drawn = {column: lines for column, lines in columns.items() if lines}
    if not drawn:
        raise InvalidParameter("question", "no half-widths", "one with a column of numbers whose error is finite")
    marked = ((float(left), f"left: ε = {shown(float(left))}"),) if left else ()
    more = [f"drawn are the first {_MOST_PANELS} of {len(drawn)} columns"] if len(drawn) > _MOST_PANELS else []
    return framed(_panels(drawn, marked), f"How wrong: {name}", terms, more)


def _panels(drawn: Mapping[str, Sequence[Line]], marked: tuple[tuple[float, str], ...]) -> Drawing:
    """Draw one panel over the whole width, or several, two beside each other."""
    high, wide = (340.0, INSIDE) if len(drawn) == 1 else (240.0, (INSIDE - _GAP) / 2)
    found = []
    for column, lines in list(drawn.items())[:_MOST_PANELS]:
        low, top = heights(lines, log=True)
        ends = (low, top * (_ABOVE if marked else 1))
        of = Panel(f"{column}: half-width (±)", "ε", LogScale, LogScale, ends=ends, marked=marked)
        found.append(panel(lines, of, high, wide))
    return below([beside(found[at : at + 2], _GAP) for at in range(0, len(found), 2)])


def _lines(column: str, epsilons: Sequence[Fraction], every: Sequence[Mapping[str, Width]]) -> list[Line]:
    """Give the line of a column, or of a mean one for each size of a group; none where no error is finite."""
    widths = [each.get(column) for each in every]
    sizes = next((tuple(each) for each in widths if isinstance(each, Mapping)), (0,))
    found = []
    for size in sizes:
        halves = [each.get(size) if isinstance(each, Mapping) else each for each in widths]
        finite = [half if half is not None and 0 < half < math.inf else None for half in halves]
        if any(half is not None for half in finite):
            found.append(_line(f"group of {size:,}" if size else column, epsilons, finite))
    return found


def _line(name: str, epsilons: Sequence[Fraction], halves: Sequence[float | None]) -> Line:
    said = tuple(
        f"ε = {shown(float(each))}: ±{'' if half is None else shown(half)}"
        for each, half in zip(epsilons, halves, strict=True)
    )
    return Line(name, tuple(map(float, epsilons)), tuple(halves), said=said)
