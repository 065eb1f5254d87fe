"""Draws the picture of the museum: two laws that are too far apart, and two that are not.

Run with: .venv/bin/python docs/pictures/museum.py
"""

from __future__ import annotations

import math
from pathlib import Path

from sfumato.plots.bars import paired_bars
from sfumato.plots.frame import Drawing, framed_picture, side_by_side
from sfumato.plots.picture import label, translated

PICTURE = Path(__file__).parent / "museum.svg"
_RATIO = math.exp(-1)
_SHOWN = 6
_WIDE = 345.0


def law(count: int) -> list[float]:
    """Give the chances of the answers from 0 on, and of all that are negative: Laplace noise of scale 1."""
    mass = (1 - _RATIO) / (1 + _RATIO)
    negative = _RATIO ** (count + 1) / (1 + _RATIO)
    return [*(mass * _RATIO ** abs(answer - count) for answer in range(_SHOWN)), negative]


def drawn_again(count: int) -> list[float]:
    """Share out what was negative over the rest, as drawing again does."""
    *rest, negative = law(count)
    return [chance / (1 - negative) for chance in rest]


def shown_as_zero(count: int) -> list[float]:
    """Show what was negative as 0."""
    first, *rest, negative = law(count)
    return [first + negative, *rest]


def panel(title: str, first: list[float], second: list[float]) -> Drawing:
    """Draw the chances of each answer in two worlds, and say above how far they are apart at 0."""
    bars = paired_bars([f"{answer}" for answer in range(_SHOWN)], ("nobody", "one person"), first, second, _WIDE)
    said = f"{title}: at 0 the ratio is {first[0] / second[0]:.2f}"
    return Drawing((label(0, 12, said, max_width=_WIDE), translated(0, 24, bars.parts)), bars.width, bars.height + 24)


if __name__ == "__main__":
    panels = [
        panel("drawn again", drawn_again(0), drawn_again(1)),
        panel("shown as 0", shown_as_zero(0), shown_as_zero(1)),
    ]
    notes = ["dark: nobody is there; bright: one person is. The promise of ε = 1 allows a ratio of at most e = 2.72."]
    framed_picture(
        side_by_side(panels), "A count that may not be negative: two ways to get rid of a minus", notes=notes
    ).save(PICTURE)
