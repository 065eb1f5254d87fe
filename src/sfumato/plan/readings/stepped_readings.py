"""A total is read in whole steps of a public grid where it is compared with a threshold, or with other totals.

Theorem (steps). The number of whole steps in x is ⌊x/γ⌋. It never falls as x grows, and when x grows by at most Δ it
grows by at most ⌈Δ/γ⌉, because ⌊a + d⌋ ≤ ⌊a⌋ + ⌈d⌉. So what one unit moves by at most Δ it moves by at most ⌈Δ/γ⌉
steps, and questions that all move the same way still do. ∎

Nothing is lost in a comparison on that grid: ⌊a⌋ ≥ k for a whole k if and only if a ≥ k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import Bounded, Scaled
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import Integers
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Neighbours


@dataclass(frozen=True)
class SteppedTotal:
    """This is the one total of a plan without groups, in whole steps of a grid that is fixed beforehand."""

    bounded: Bounded
    grid: Fraction

    def __post_init__(self) -> None:
        if self.bounded.plan.keys or len(self.bounded.measures) != 1 or self.scaled.coordinates != 1:
            raise InvalidParameter("bounded", "something else", "a plan with one total and no groups")

    @property
    def scaled(self) -> Scaled:
        return self.bounded.measures[0]

    @property
    def neighbours(self) -> Neighbours:
        return self.scaled.sensitivity.neighbours

    @property
    def most(self) -> int:
        """Bound how many steps one unit moves it."""
        return math.ceil(self.scaled.sensitivity.linf * self._steps)

    @property
    def rises(self) -> bool:
        """Tell whether it only grows when a unit is added: no row takes anything away."""
        return all(each.low >= 0 for each in self.scaled.contributions)

    @property
    def rounding(self) -> Fraction:
        """Bound what rounding down to steps may take away, beside how far the total itself was rounded. A total of
        whole steps that is cut in one group stays one.
        """
        whole_steps = self.scaled.bits < 0 or self.bounded.strategy is not Strategy.REWEIGHT
        least = max(self.scaled.step, self.scaled.unit_value) if whole_steps else self.scaled.unit_value
        return self.scaled.rounding + (0 if (least / self.grid).denominator == 1 else self.grid)

    def of(self, totals: Integers) -> Integers:
        """Give the number of whole steps, rounded down; one beyond ±2^62 is cut there, which moves no two further
        apart.
        """
        steps = int(totals[0, 0]) * self._steps.numerator // self._steps.denominator
        return np.full((1, 1), max(-LARGEST_INTEGER, min(LARGEST_INTEGER, steps)), np.int64)

    @property
    def _steps(self) -> Fraction:
        """Give the steps that one whole number of the totals is worth."""
        return self.scaled.unit_value / self.grid
