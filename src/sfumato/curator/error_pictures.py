"""The error of an answer is drawn against its price, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from sfumato.curator.forecasts import Width
from sfumato.errors import InvalidParameter
from sfumato.plots.frame import below, framed
from sfumato.plots.lines import MOST_LINES, Line, Panel, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LogScale
from sfumato.privacy import PrivacyUnit
from sfumato.privacy.numbers import POSITIVE, Number, chance, exact, percent, shown, text

_STEPS = 24
"""Prices at which the error is computed."""


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
    """Draw a line for every column: its half-width at each ε, both by their logarithms."""
    least, most = (exact(end, each, POSITIVE) for end, each in zip(ends, ("least", "most"), strict=True))
    if least >= most:
        raise InvalidParameter("least", ends[0], f"below most = {text(most)}")
    ratio = (math.log(float(most)) - math.log(float(least))) / _STEPS
    epsilons = [Fraction(f"{float(least) * math.exp(ratio * step):.6g}") for step in range(_STEPS + 1)]
    found: dict[str, list[float | None]] = {}
    every = [widths(epsilon) for epsilon in epsilons]
    sizes = {name: tuple(width) for each in every for name, width in each.items() if isinstance(width, Mapping)}
    for place, halves in enumerate(every):
        for column, half in _each(halves, sizes):
            found.setdefault(column, [None] * len(epsilons))[place] = half if 0 < half < math.inf else None
    lines = [_line(column, epsilons, halves) for column, halves in found.items()]
    drawn = [each for each in lines if any(value is not None for value in each.values)]
    if not drawn:
        raise InvalidParameter("question", "no half-widths", "one with a column of numbers whose error is finite")
    marked = ((float(left), f"left: ε = {shown(float(left))}"),) if left else ()
    of = Panel("half-width (±) against ε", "ε", LogScale, LogScale, marked=marked)
    more = [f"drawn are the first {MOST_LINES} of {len(drawn)} lines"] if len(drawn) > MOST_LINES else []
    return framed(below([panel(drawn, of, 340.0)]), f"How wrong: {name}", terms, more)


def _each(widths: Mapping[str, Width], sizes: Mapping[str, tuple[int, ...]]) -> list[tuple[str, float]]:
    """Give each line by its name: of a mean there is one for each size of a group."""
    found = []
    for name, width in widths.items():
        every = width if isinstance(width, Mapping) else dict.fromkeys(sizes.get(name, (0,)), width)
        found += [(f"{name}, group of {size:,}" if size else name, half) for size, half in every.items()]
    return found


def _line(name: str, epsilons: Sequence[Fraction], halves: Sequence[float | None]) -> Line:
    said = tuple(
        f"ε = {shown(float(each))}: ±{'' if half is None else shown(half)}"
        for each, half in zip(epsilons, halves, strict=True)
    )
    return Line(name, tuple(map(float, epsilons)), tuple(halves), said=said)
