"""Chart data are one column of an answer as it is drawn: a label, a number and a range for each row."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float] | None
"""The range that holds the exact number; None where there is no number."""


@dataclass(frozen=True)
class ChartData:
    """Chart data are one column of numbers with what is written beside each of them."""

    name: str
    by: str
    """What the labels are: the names of the group keys."""
    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    intervals: tuple[Interval, ...]
    cells: tuple[str, ...]
    """The numbers as they are printed, with their errors."""
    noisy: tuple[bool, ...] = ()
    """Which numbers are too noisy to print; empty where nobody asked."""
    sampling: tuple[float | None, ...] = ()
    """How far each number may be off because the rows are a sample; empty where they are none."""
