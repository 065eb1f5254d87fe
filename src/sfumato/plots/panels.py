"""Panels are small pictures of equal kind on one page: one for each column, with labels of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.plots.bars import aligned
from sfumato.plots.chart_data import ChartData
from sfumato.plots.frame import INSIDE, Drawing, below, beside

_ROWS, _ACROSS = 10, 2
"""Bars of a small panel, and panels beside each other."""
_MOST = 6
"""Panels on a page."""


def several(columns: Sequence[ChartData]) -> tuple[Drawing, list[str]]:
    """Draw a panel of bars for each column, two beside each other, and say what is left out."""
    drawn = columns[:_MOST]
    wide = (INSIDE - 30) / _ACROSS
    small = [aligned([cut(each, _ROWS)], wide) for each in drawn]
    rows = [beside(small[at : at + _ACROSS], 30) for at in range(0, len(small), _ACROSS)]
    said = [f"drawn are the first {_MOST} of {len(columns)} panels"] if len(columns) > _MOST else []
    longer = [each for each in drawn if len(each.labels) > _ROWS]
    if longer:
        said.append(
            f"drawn are the first {_ROWS} rows of each panel: "
            + ", ".join(f"{each.name} has {len(each.labels):,}" for each in longer)
        )
    return below(rows, 14), said


def cut(data: ChartData, rows: int) -> ChartData:
    """Give the first rows alone."""
    names = ("labels", "values", "intervals", "cells", "noisy", "sampling")
    return replace(data, **{name: getattr(data, name)[:rows] for name in names})
