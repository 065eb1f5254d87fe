"""Deployments are drawn as a column of marks along ε, with the promise that is read as a line through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.plots.axes import BELOW, SMALL, bottom, heading
from sfumato.plots.frame import INSIDE, Drawing, framed
from sfumato.plots.letters import width
from sfumato.plots.marks import LINES, QUIET, SAMPLE, across, area, label, moved, path, told, upright
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LogScale

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
