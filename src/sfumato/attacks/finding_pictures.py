"""Findings are drawn as bars: the share of right guesses on each kind of answers, what blind guessing reaches, and
theory's ceiling.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sfumato.plots.axes import BELOW, SMALL, bottom
from sfumato.plots.frame import INSIDE, Drawing, framed
from sfumato.plots.letters import width
from sfumato.plots.marks import BAR, QUIET, SAMPLE, box, label, path, upright
from sfumato.plots.picture import Picture
from sfumato.plots.scales import Scale

_STEP = 34.0
_TALL = 18.0

Bar = tuple[str, float, float, float | None]
"""The kind of answers, the share of right guesses, that of blind ones, and the ceiling."""


def draw_findings(title: str, bars: Sequence[Bar], foot: Sequence[str] = ()) -> Picture:
    """Draw one bar for each kind of answers, from nothing to all guesses right."""
    above = f"{title[:1].upper()}{title[1:]}: share of guesses that are right"
    return framed(_bars(bars), above, notes=(_KEY, *lines_of(foot)))


def lines_of(texts: Sequence[str]) -> list[str]:
    """Cut every text between words, so that each line has the room it takes."""
    return [line for each in texts for line in textwrap.wrap(each, _LETTERS)]


_KEY = "Grey line: guessing without any answer. Red line: the most that theory allows, but for luck."
_LETTERS = 115


def _bars(bars: Sequence[Bar]) -> Drawing:
    left = min(max(width(name) for name, *_ in bars), 0.36 * INSIDE) + 10
    scale = Scale(0.0, 1.0, left, INSIDE - 60)
    foot = len(bars) * _STEP + 4
    parts = list(bottom(scale, 0.0, foot))
    for place, (name, success, chance, ceiling) in enumerate(bars):
        y = place * _STEP + (_STEP - _TALL) / 2
        told = f"{name}: {100 * success:.1f} % right"
        parts.append(label(left - 10, y + 13, name, anchor="end", room=left - 10))
        parts.append(box(left, y, scale(success) - left, _TALL, BAR, say=told))
        parts.append(path([upright(scale(chance), y - 4, y + _TALL + 4)], QUIET, 2, ' stroke-dasharray="3 2"'))
        if ceiling is not None:
            parts.append(path([upright(scale(ceiling), y - 6, y + _TALL + 6)], SAMPLE, 3))
        parts.append(label(INSIDE, y + 13, f"{100 * success:.1f} %", anchor="end", size=SMALL, fill=QUIET))
    return Drawing(tuple(parts), INSIDE, foot + BELOW)
