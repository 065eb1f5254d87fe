"""Paired bars stand two by two: what is in one table, and below it what is in another."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.plots.axes import BELOW, SMALL, bottom
from sfumato.plots.frame import Drawing
from sfumato.plots.letters import width
from sfumato.plots.marks import QUIET, box, label
from sfumato.plots.scales import Scale

FIRST, SECOND = "#1b3a57", "#e69f00"
"""Dark and bright: they differ for everybody, and in grey."""
_STEP = 24.0


def paired_bars(
    labels: Sequence[str], names: tuple[str, str], first: Sequence[float], second: Sequence[float], wide: float = 420.0
) -> Drawing:
    """Draw two bars for each label, from zero, with both numbers at the right."""
    left = min(max((width(each[:60]) for each in labels), default=0.0), 0.36 * wide) + 8
    most = max(*first, *second, 1e-9)
    texts = [f"{one:.3f} · {other:.3f}" for one, other in zip(first, second, strict=True)]
    scale = Scale(0.0, most, left, wide - max(width(each, SMALL) for each in texts) - 10)
    foot = len(labels) * _STEP + 4
    parts = bottom(scale, 0.0, foot)
    for place, (name, text) in enumerate(zip(labels, texts, strict=True)):
        y = place * _STEP
        parts.append(label(left - 8, y + 16, name, anchor="end", room=left - 8))
        for own, value, shift, colour in zip(
            names, (first[place], second[place]), (3, 12), (FIRST, SECOND), strict=True
        ):
            long = max(0.5, scale(value) - left)
            parts.append(box(left, y + shift, long, 8.5, colour, say=f"{name}, {own}: {value:.4f}"))
        parts.append(label(wide, y + 16, text, anchor="end", size=SMALL, fill=QUIET))
    return Drawing(tuple(parts), wide, foot + BELOW)
