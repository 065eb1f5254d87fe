"""The loss of a release is drawn as three curves: δ against ε, what a test can tell, and how the loss is spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sfumato.plots.frame import INSIDE, Drawing, below, beside, framed
from sfumato.plots.lines import Line, Panel, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LogScale, Scale

_STEPS = 60
_LEAST = 1e-12
"""No δ below this is drawn."""


def draw_loss(
    delta: Callable[[float], float], tail: Callable[[float], float], most: float, foot: Sequence[str]
) -> Picture:
    """Draw all three from δ(ε) and the tail of the loss, for ε up to ``most``."""
    at = [most * step / _STEPS for step in range(_STEPS + 1)]
    deltas = [min(1.0, max(0.0, delta(each))) for each in at]
    half = (INSIDE - 30) / 2
    profile = _profile(at, deltas)
    lower = beside([_tradeoff(at, deltas, half), _spread(at, tail, half)])
    return framed(below([profile, lower]), "Privacy loss", foot)


def _profile(at: Sequence[float], deltas: Sequence[float]) -> Drawing:
    shown = tuple(None if each < _LEAST else each for each in deltas)
    known = [each for each in shown if each is not None]
    if not known:
        return panel(
            [Line("δ", tuple(at), tuple(deltas))], Panel("δ at each ε: none is needed", "ε", ends=(0.0, 1.0)), 240
        )
    low = max(_LEAST, 10.0 ** math.floor(math.log10(min(known)) - 1e-9))
    ends = (low, max(known[0], 2 * low))
    return panel(
        [Line("δ", tuple(at), shown)],
        Panel("δ at each ε: the chance of losing more", "ε", Scale, LogScale, ends=ends),
        260,
    )


def _tradeoff(at: Sequence[float], deltas: Sequence[float], wide: float) -> Drawing:
    """Bound the false negatives of any test from below, by the two lines that each (ε, δ) gives (Wasserman & Zhou
    2010).
    """
    rates = tuple(step / _STEPS for step in range(_STEPS + 1))

    def least(rate: float) -> float:
        lines = zip(at, deltas, strict=True)
        both = ((1 - d - math.exp(min(e, 700)) * rate, math.exp(-e) * (1 - d - rate)) for e, d in lines)
        return max(0.0, max(max(each) for each in both))

    own = Line("this release", rates, tuple(map(least, rates)))
    blind = Line("guessing", (0.0, 1.0), (1.0, 0.0))
    name = "What a test for one unit must miss"
    return panel([own, blind], Panel(name, "false alarms", ends=(0.0, 1.0)), 280, wide)


def _spread(at: Sequence[float], tail: Callable[[float], float], wide: float) -> Drawing:
    values = tuple(min(1.0, max(0.0, tail(each))) for each in at)
    name = "Chance that the loss is above ε"
    return panel([Line("P(L > ε)", tuple(at), values)], Panel(name, "ε", ends=(0.0, 1.0)), 280, wide)
