"""A round chooses what the model has wrong by more than noise would be, and measures it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.publish.synthesis.course import Course, mean_size


def penalty_of(course: Course, amount: Fraction) -> Callable[[int], float]:
    """Say how far noise for this amount moves a marginal of so many cells from the truth on average, in rows."""
    own = course.setting
    widest = CellCounts(own.reading, (0,))  # more than one cell: as every marginal that is chosen
    each = mean_size(course.funds.currency.noise(amount, widest.sensitivity), own.unit_value)
    return lambda cells: each * cells
