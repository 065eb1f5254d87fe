"""A budget over time is drawn as stairs: which part of each currency was spent after every charge.

The loss of a release is drawn as three curves: δ against ε, what a test can tell, and how the loss is spread.

Deployments are drawn as a column of marks along ε, with the promise that is read as a line through them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from sfumato.plots.frame import BELOW, INSIDE, SMALL, Drawing, below, beside, bottom, framed, heading
from sfumato.plots.lines import Panel, PlottedLine, panel
from sfumato.plots.marks import LINES, QUIET, SAMPLE, across, area, label, moved, path, told, upright, width
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LinearScale, LogScale, TimeScale, seconds

WORDS = {"pure": "ordinary answers", "renyi": "Gaussian answers", "failure": "chance of failure"}
"""What each currency is for; the two first ones are spent side by side, and one of them has to last."""


@dataclass(frozen=True)
class Moment:
    """A moment is when something was charged, and what had been spent after it, per currency."""

    time: datetime
    spent: Mapping[str, Fraction | None]


@dataclass(frozen=True)
class History:
    """A history is read when somebody wants to see it, not before."""

    moments: Callable[[], Sequence[Moment]]


def draw_budget(
    moments: Sequence[Moment],
    spent: Mapping[str, Fraction | None],
    allowed: Mapping[str, Fraction | None],
    now: datetime,
    promise: str,
) -> Picture:
    """Draw the part of each currency that is spent, in per cent of what is allowed today, up to now."""
    start = min([each.time for each in moments], default=now)
    at = (seconds(start), *(seconds(each.time) for each in moments), seconds(now))
    lines, over = [], False
    for name, whole in allowed.items():
        if not whole:
            continue
        parts = [Fraction(0), *(each.spent.get(name, Fraction(0)) for each in moments), spent.get(name)]
        shares = [None if each is None else 100 * float(each / whole) for each in parts]
        over = over or any(each is None or each > 100 for each in shares)
        kept = tuple(None if each is None else min(each, 110.0) for each in shares)
        lines.append(PlottedLine(f"{WORDS.get(name, name)} {_now(shares[-1])}", at, kept, stepped=True))
    notes = ["a line that ends, or lies at the top, is of a currency that is closed"] if over else []
    count = f"{len(moments):,} charges" if len(moments) != 1 else "1 charge"
    marked = ((seconds(moments[-1].time), "last charge"),) if moments else ()
    of = Panel(
        "per cent of the budget that is spent", "", TimeScale, ends=(0.0, 110.0 if over else 100.0), marked=marked
    )
    foot = [promise, count, f"until {now.strftime('%Y-%m-%d')}"]
    return framed(panel(lines, of, 300.0), "Budget over time", foot, notes)


def _now(share: float | None) -> str:
    return "closed" if share is None or share > 100 else f"{share:.0f} %"


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
            [PlottedLine("δ", tuple(at), tuple(deltas))],
            Panel("δ at each ε: none is needed", "ε", ends=(0.0, 1.0)),
            240,
        )
    low = max(_LEAST, 10.0 ** math.floor(math.log10(min(known)) - 1e-9))
    ends = (low, max(known[0], 2 * low))
    return panel(
        [PlottedLine("δ", tuple(at), shown)],
        Panel("δ at each ε: the chance of losing more", "ε", LinearScale, LogScale, ends=ends),
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

    own = PlottedLine("this release", rates, tuple(map(least, rates)))
    blind = PlottedLine("guessing", (0.0, 1.0), (1.0, 0.0))
    name = "What a test for one unit must miss"
    return panel([own, blind], Panel(name, "false alarms", ends=(0.0, 1.0)), 280, wide)


def _spread(at: Sequence[float], tail: Callable[[float], float], wide: float) -> Drawing:
    values = tuple(min(1.0, max(0.0, tail(each))) for each in at)
    name = "Chance that the loss is above ε"
    return panel([PlottedLine("P(L > ε)", tuple(at), values)], Panel(name, "ε", ends=(0.0, 1.0)), 280, wide)


_STEP, _HEAD, _KEY = 16.0, 22.0, 24.0
_LABELS, _NUMBERS = 320.0, 46.0
_SIZE = 4.6
_SHAPES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "person": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "period": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    "record": ((0, -1.3), (1.3, 1), (-1.3, 1)),
    "unstated": ((-1, -0.4), (1, -0.4), (1, 0.4), (-1, 0.4)),
}
"""Marks differ in shape, and not in colour alone."""


@dataclass(frozen=True)
class Dot:
    """A dot is one deployment: what it is called, its ε, and what its unit covers."""

    name: str
    epsilon: float
    scope: str


def draw_precedents(dots: Sequence[Dot], own: Mapping[str, float], scopes: Mapping[str, str], unstated: int) -> Picture:
    """Draw each deployment on a row of its own, the smallest ε first, and a line for each ε of ``own``."""
    numbers = [each.epsilon for each in dots] + [each for each in own.values() if each > 0]
    scale = LogScale(min(0.01, *numbers), max(100.0, *numbers), _LABELS, INSIDE - _NUMBERS)
    top = _KEY + _HEAD + _STEP * len(own)
    foot = top + len(dots) * _STEP + 2
    parts = [*_key(scopes), heading(_LABELS - 8, top - 6, "deployment", _LABELS - 8, "end")]
    parts += bottom(scale, top, foot, zero=False)
    parts += [mark for place, each in enumerate(dots) for mark in _row(each, scale, top + (place + 0.5) * _STEP)]
    parts += _lines(own, scale, _KEY + 12, foot)
    parts.append(label((scale.start + scale.end) / 2, foot + BELOW + 8, "ε", anchor="middle", fill=QUIET))
    notes = [
        "a smaller ε promises more, where the unit is the same; a promise of ρ is drawn at its ε",
        f"{unstated} deployments of the registry state no ε and are not drawn",
    ]
    terms = ["source: OpenDP deployments registry (MIT licence)"]
    return framed(Drawing(tuple(parts), INSIDE, foot + BELOW + 12), "ε in context", terms, notes)


def _key(scopes: Mapping[str, str]) -> list[str]:
    """Say what the shapes mean."""
    parts, x = [label(0, 9, "protects:", size=SMALL, fill=QUIET)], 60.0
    for scope, words in scopes.items():
        parts += [_mark(scope, x, 5.5), label(x + 9, 9, words, size=SMALL, fill=QUIET)]
        x += 28 + width(words, SMALL)
    return parts


def _row(dot: Dot, scale: LogScale, y: float) -> list[str]:
    at = scale(dot.epsilon)
    mark = f"<g>{told(f'{dot.name}: ε = {dot.epsilon:.3g}')}{_mark(dot.scope, at, y)}</g>"
    return [
        label(_LABELS - 8, y + 4, dot.name, anchor="end", size=SMALL, room=_LABELS - 8),
        path([across(scale.start, y, at)], LINES[5], 0.4),
        mark,
        label(INSIDE, y + 4, f"{dot.epsilon:.3g}", anchor="end", size=SMALL, fill=QUIET),
    ]


def _lines(own: Mapping[str, float], scale: LogScale, y: float, foot: float) -> list[str]:
    parts = []
    for place, (words, epsilon) in enumerate(own.items()):
        at, high = scale(epsilon), y + place * _STEP
        anchor = "end" if place or at + width(words) > INSIDE else "start"  # no text crosses another line
        parts.append(path([upright(at, high - 8, foot)], SAMPLE, 1.6, ' stroke-dasharray="5 3"' if place else ""))
        parts.append(label(at + (5 if anchor == "start" else -5), high, words, anchor=anchor, fill=SAMPLE))
    return parts


def _mark(scope: str, x: float, y: float) -> str:
    colour = LINES[tuple(_SHAPES).index(scope)]
    return moved(x, y, [area([(_SIZE * a, _SIZE * b) for a, b in _SHAPES[scope]], colour, 1.0)])
