"""Sums of whole rows as one weighted vector, to which noise is added: what one unit can change of it.

Let one row move the vector by at most r, and let at most m rows of a unit count, each in every sum or in none.

Theorem (an added unit). By the triangle inequality it moves the vector by at most m·r. ∎

Theorem (a replaced unit). Its part v is exchanged for another one's w, and ‖v − w‖ ≤ ‖v‖ + ‖w‖ ≤ 2·m·r: the square is 4
times that of an added unit (``OPPOSED``). Where ⟨v, w⟩ ≥ 0 for all v and w, as for Gram matrices, it is 2 times as much
(``NOT_OPPOSED``): ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩ ≤ 2·(m·r)². ∎
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import Strategy
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass

OPPOSED = 4
"""The factor of a replaced unit's squares where the parts of two units may oppose each other."""
NOT_OPPOSED = 2
"""The factor of a replaced unit's squares where the inner product of two units' parts is never negative."""
_LARGEST = (1 << 62) - 1


@dataclass(frozen=True)
class WeightedTotals:
    """Exact sums with whole weights as one vector; the plan's first measure counts rows."""

    bounded: BoundedPlan
    weights: tuple[int, ...]
    """The weight of each sum; one less than the plan has measures if the number of rows is not measured."""
    row_squares: int
    """r²: the largest squared length by which one row moves the vector."""
    replaced_factor: int
    """``OPPOSED`` or ``NOT_OPPOSED``."""

    def __post_init__(self) -> None:
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.SAMPLE):
            rule = "a plan with the strategy 'whole' or 'sample', so that a row counts in full or not at all"
            given = ValueWords(f"a plan with the strategy '{self.bounded.strategy.value}'")
            raise InvalidParameter("bounded", given, rule, fix="use Strategy.WHOLE or Strategy.SAMPLE")
        is_exact = all(scaled.bits == 0 and scaled.step == 1 for scaled in self.bounded.measures)
        if self._unmeasured_count not in (0, 1):
            measures, weights = len(self.bounded.measures), len(self.weights)
            given = ValueWords(f"{count_with_noun(measures, 'measure')} for {count_with_noun(weights, 'weight')}")
            rule = "a plan with one measure for each weight, and possibly one more that counts rows"
            raise InvalidParameter("bounded", given, rule)
        if not is_exact:
            rule = "a plan of sums in steps of 1, without rounding"
            raise InvalidParameter("bounded", ValueWords("a plan with other steps or with rounding"), rule)

    @property
    def _unmeasured_count(self) -> int:
        """The number of measures, the first ones, that are not in the vector."""
        return len(self.bounded.measures) - len(self.weights)

    @property
    def rows_per_unit(self) -> int:
        """m: the most rows of one unit, which the first measure counts."""
        return int(self.bounded.measures[0].add_remove_sensitivity.total)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change: see the module's theorems."""
        neighbours = self.bounded.measures[0].sensitivity.neighbours
        factor = self.replaced_factor if neighbours is Neighbours.REPLACE else 1
        squares = factor * self.rows_per_unit**2 * self.row_squares
        count = len(self.weights)
        # the vector is of whole numbers, so that its largest number and its sum are, too: both are rounded down
        return Sensitivity(count, math.isqrt(squares), math.isqrt(count * squares), squares, neighbours)

    def extract(self, totals: Integers) -> Integers:
        """Return the weighted sums; totals beyond what 64 bits hold are clamped, which moves none further."""
        weights = np.array(self.weights, np.int64)
        return np.clip(totals[0][self._unmeasured_count :], -_LARGEST // weights, _LARGEST // weights) * weights
