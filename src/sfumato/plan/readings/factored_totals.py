"""Series of totals, one for each period, are read through a whole-number matrix B: what is measured is B·t.

The totals of several series stand one after the other, and B is applied to each. A unit changes them by v, with
|v_j| ≤ c for each total and Σ|v_j| ≤ T, over all series together (``bounding``). Let X = BᵀB, which is exact, and
x_i(c, T) the largest Σ_j |X_ij|·u_j with 0 ≤ u_j ≤ c and Σu_j ≤ T: c for the ⌊T/c⌋ largest numbers of row i, and the
rest of T for the next.

Theorem. (1) ‖B·v‖₁ ≤ T·max_j ‖B_j‖₁, with the columns B_j of B, and |(B·v)_i| ≤ T·max|B_ij|.
(2) ‖B·v‖₂² ≤ T·max_i x_i(c, T).
(3) Where a unit is replaced by another, the squared length of the change of B·t is at most four times the bound of (2);
and at most twice where no contribution is negative, and no number of X.
Proof. (1) is convexity (``readings``, combinations). (2) One series: ‖B·v‖² = Σ_i v_i·(Xv)_i ≤ Σ_i|v_i|·Σ_j|X_ij||v_j|
≤ T·max_i x_i(c, T). Several: series s with T_s of T has at most T_s·max_i x_i(c, T_s) ≤ T_s·max_i x_i(c, T), and T_s
add up to at most T.
(3) The change is v − v′, both within (2), so its length is at most twice as long. With v, v′, X ≥ 0 the squares obey
‖B(v − v′)‖² = ‖Bv‖² + ‖Bv′‖² − 2·Σ v_i·X_ij·v′_j ≤ ‖Bv‖² + ‖Bv′‖². ∎

(2) equals T²·max_j ‖B_j‖² where a unit may have all its rows in one period (c = T), and less where it may not: columns
of different periods are not parallel. Totals are held within what keeps every number below 2^62; that moves no total
by more than the unit does, nor in another direction, so the theorem holds for what is left of v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import Bounded
from sfumato.plan.readings.total_readings import Integers, Totals
from sfumato.privacy import Neighbours, Sensitivity

_LARGEST = (1 << 62) - 1


@dataclass(frozen=True, eq=False)
class FactoredTotals:
    """These are the totals of series of periods, each multiplied by a whole-number matrix; noise is added to them."""

    totals: Totals
    weights: Integers
    """One row for each number that is measured of a series, one column for each of its periods."""
    series: int = 1

    def __post_init__(self) -> None:
        if self.totals.scaled.coordinates != 1:
            raise InvalidParameter("totals", self.totals.scaled.measure.name, "a measure with one total in a group")
        if self.weights.ndim != 2 or not self.weights.size or np.abs(self.weights).max() >= 1 << 20:
            raise InvalidParameter("weights", "something else", "a matrix of whole numbers below 2^20 in size")

    @property
    def bounded(self) -> Bounded:
        return self.totals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit can change: see the theorem above."""
        scaled, sizes = self.totals.scaled, np.abs(self.weights)
        moved, added = scaled.sensitivity, scaled.added
        replaced = moved.neighbours is Neighbours.REPLACE
        fewer = replaced and not scaled.signed and bool((self._products >= 0).all())
        most = (1 if not replaced else 2 if fewer else 4) * self._squares(added)
        numbers = len(self.weights) * self.series
        squares = math.floor(min(most, self._squares(moved)))  # of whole numbers, as are the roots below
        largest: Fraction = min(moved.total * int(sizes.max()), Fraction(math.isqrt(squares)))
        total: Fraction = min(moved.total * int(sizes.sum(axis=0).max()), Fraction(math.isqrt(numbers * squares)))
        return Sensitivity(numbers, largest, total, squares, moved.neighbours)

    @cached_property
    def _products(self) -> Integers:
        """Compute BᵀB: doubles hold every number on the way exactly, since all are below 2^53."""
        weights = self.weights.astype(np.float64)
        return (weights.T @ weights).astype(np.int64)

    def _squares(self, change: Sensitivity) -> Fraction:
        """Compute T·max_i x_i(c, T)."""
        if not change.total:
            return Fraction(0)
        periods = self.weights.shape[1]
        full, rest = divmod(change.total, change.per_group)
        count = min(int(full), periods)
        largest = -np.sort(-np.abs(self._products), axis=1)
        whole = largest[:, :count].sum(axis=1)
        following = largest[:, count] if count < periods else np.zeros_like(whole)
        return change.total * max(
            change.per_group * int(a) + rest * int(b)
            for a, b in {*zip(whole.tolist(), following.tolist(), strict=True)}
        )

    def of(self, totals: Integers) -> Integers:
        """Give what is measured of every series, one after the other."""
        most = _LARGEST // int(np.abs(self.weights).sum(axis=1).max())
        held = np.clip(self.totals.of(totals)[:, 0], -most, most)
        return (held.reshape(self.series, self.weights.shape[1]) @ self.weights.T).reshape(-1)
