"""A histogram stands on the line of numbers: a bar over each bin, from one edge to the next."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from sfumato.plots.axes import BELOW, SMALL, bottom, heading, left, left_room
from sfumato.plots.chart_data import ChartData
from sfumato.plots.frame import INSIDE, Drawing
from sfumato.plots.marks import BAR, PAPER, QUIET, box, label
from sfumato.plots.scales import KeyScale, Scale, fitting
from sfumato.plots.whiskers import Places, drawn, reached

_BIN = re.compile(r"\[(-?[0-9.e+-]+), (-?[0-9.e+-]+)[])]")


def edges(labels: Sequence[str]) -> list[tuple[float, float]] | None:
    """Read the bins that labels name, such as "[0, 500)"; None where they are none, or do not follow each other."""
    if len(labels) < 2:
        return None
    bins = []
    for each in labels:
        found = _BIN.fullmatch(each)
        if found is None:
            return None
        try:
            bins.append((float(found[1]), float(found[2])))
        except ValueError:
            return None
    follow = all(one[1] == other[0] for one, other in pairwise(bins))
    rise = all(math.isfinite(high - low) and low < high for low, high in bins)
    return bins if follow and rise else None


def histogram(data: ChartData, bins: Sequence[tuple[float, float]], high: float = 300.0) -> Drawing:
    """Draw the bars of all bins with their ranges."""
    foot, top = high - BELOW - (16 if data.by else 0), 24.0 if data.name else 8.0
    y = Scale(*reached(data, len(bins)), foot, top)
    ticks = fitting(y, SMALL, wide=False)
    start = left_room(ticks)
    x = KeyScale(bins[0][0], bins[-1][1], start + 2, INSIDE - 12)
    parts = [heading(0, 12, data.name, INSIDE)] if data.name else []
    parts += [*left(y, ticks, start, INSIDE - 10), *bottom(x, foot, foot, zero=False)]
    zero = y(0.0)
    for row, (low, upper) in enumerate(bins):
        value = data.values[row]
        if value is None:
            continue
        said = f"{data.labels[row]}: {data.cells[row] if data.cells else value}"
        hollow = bool(data.noisy) and data.noisy[row]
        fill, more = (PAPER, f' stroke="{BAR}" stroke-dasharray="3 2"') if hollow else (BAR, "")
        wide, at = x(upper) - x(low), y(value)
        gap = 1.0 if wide > 4 else 0.2
        parts.append(box(x(low) + gap / 2, min(zero, at), wide - gap, abs(at - zero), fill, more=more, say=said))
    places = [(x(low) + x(upper)) / 2 for low, upper in bins]
    cap = max(1.5, min(8.0, 0.4 * (x(bins[0][1]) - x(bins[0][0]))))
    parts += drawn(data, range(len(bins)), y, Places(places, cap), standing=True)
    if data.by:
        parts.append(label(INSIDE / 2, high - 4, data.by, anchor="middle", fill=QUIET, room=INSIDE / 2))
    return Drawing(tuple(parts), INSIDE, high)
