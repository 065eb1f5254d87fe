"""The loss of discrete Gaussian noise on several coordinates, whose worst change is not known in general.

A unit moves a vector of whole numbers by some v within its sensitivity. Each v has a pair of its own: the product of
the discrete Gaussians of its coordinates.

*Alone.* δ(ε) of one release is the largest of all v. Larger shifts of a coordinate dominate smaller ones (the pmf is
log-concave), and products of dominating pairs dominate, so only those v count of which no coordinate can grow. Where
they are few, the largest δ is computed.

*Always.* The discrete Gaussian of variance σ² is nearly a rounding of the continuous one of variance σ² − τ². Theorem:
for whole s let Y ~ N(s, σ² − τ²), and given Y let X be a whole number with P(x) = e^{−(x−Y)²/2τ²}/Θ(Y), Θ(y) =
Σ_k e^{−(k−y)²/2τ²}. By Poisson's summation Θ(y) = √2π·τ·(1 ± h) with h = 2Σ_k≥1 e^{−2π²τ²k²}, so P(X = x) is the
density of N(s, σ²) at x up to a factor within [1/(1+h), 1/(1−h)]. The discrete Gaussian around s is that density times
a constant within [1/(1+h), 1]. So with n moved coordinates P ≤ (1+h)ⁿ·P̃ and Q ≥ ((1−h)/(1+h))ⁿ·Q̃, where (P̃, Q̃) is a
post-processing of the continuous pair, and δ(ε) ≤ e^{hn}·δ̃(ε − 4hn), δ̃ that of N(·, σ² − τ²). The same bounds hold
given any history, so they multiply in adaptive compositions: the loss is that of the continuous pair plus 4hn, with
the mass e^{hn}. ∎ With τ² = 2, h < 1.5e-17: nothing but τ²/σ² is lost.

Rényi divergence is at most αΔ₂²/2σ², as for every v (Canonne, Kamath & Steinke 2020, Prop. 5).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

from sfumato.privacy import codec
from sfumato.privacy.losses import ROUNDING, ZERO, ConcentratedLoss, Loss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss
from sfumato.privacy.numbers import POSITIVE, exact, exact_integer
from sfumato.quick_dataclass import dataclass

SLACK = 6e-17
"""4h: the most by which a moved coordinate raises the loss of the continuous pair, rounded up."""
_ROUNDING_VARIANCE = 2
"""τ²: the variance lost to rounding."""
_LEAST_VARIANCE = 32
"""The σ² above which the rounding bound is tighter than Rényi divergence alone."""
_MAX_SHIFTS = 24
_MAX_STEPS = 2000
_MAX_TOTAL = 64

Shift = tuple[int, ...]


@codec.serialisable("discrete-gaussian-vector-loss")
@dataclass(frozen=True, repr=False)
class DiscreteGaussianVectorLoss(Loss):
    """The loss of discrete Gaussian noise on a vector: at most ``groups`` coordinates move, each by at most
    ``per_group``, by ``total`` in all and with at most ``squares`` as the sum of squares, all of them integers.
    """

    sigma_squared: Fraction
    groups: int
    per_group: int
    total: int
    squares: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", exact(self.sigma_squared, "sigma_squared", POSITIVE))
        for name in ("groups", "per_group", "total", "squares"):
            object.__setattr__(self, name, exact_integer(getattr(self, name), name))

    @property
    def pure(self) -> Fraction | None:
        return None if self.squares else ZERO

    @property
    def rho(self) -> Fraction:
        """The least ρ with D_α ≤ ρα."""
        return self.squares / (2 * self.sigma_squared)

    def renyi(self, order: float) -> float:
        return order * float(self.rho)

    @property
    def is_nearly_continuous(self) -> bool:
        """Whether it is treated as a rounding of the continuous Gaussian."""
        return self.sigma_squared >= _LEAST_VARIANCE

    @property
    def continuous_mu_squared(self) -> Fraction:
        """The μ² of the continuous Gaussian of which it is nearly a rounding."""
        return self.squares / (self.sigma_squared - _ROUNDING_VARIANCE)

    @property
    def slack(self) -> float:
        """How much its loss may exceed that of the continuous Gaussian: each moved coordinate moves by at least 1."""
        return SLACK * min(self.groups, self.total, self.squares)

    @property
    def factors(self) -> tuple[tuple[Loss, int], ...]:
        return ((self if self.is_nearly_continuous else ConcentratedLoss(self.rho), 1),)

    @property
    def products_to_maximise(self) -> tuple[tuple[Loss, tuple[tuple[Loss, int], ...]], ...]:
        """Each maximal shift v, the longest first, as a loss with a quick bound and as a product of pairs; empty where
        there are too many.
        """
        shifts = maximal_shifts(self.groups, self.per_group, self.total, self.squares)
        return tuple((self._quick_loss(shift), self._product_of_coordinates(shift)) for shift in shifts)

    def _quick_loss(self, shift: Shift) -> Loss:
        squares = sum(size * size for size in shift)
        return DiscreteGaussianVectorLoss(self.sigma_squared, len(shift), shift[0], sum(shift), squares)

    def _product_of_coordinates(self, shift: Shift) -> tuple[tuple[Loss, int], ...]:
        sizes = Counter(shift).items()
        return tuple((DiscreteGaussianLoss(self.sigma_squared, size), count) for size, count in sizes)

    def delta_and_error(self, epsilon: float) -> tuple[float, float] | None:
        if not self.is_nearly_continuous:
            return None
        shifted_epsilon = math.nextafter(
            epsilon - self.slack, -math.inf
        )  # at least the slack lower, in floating point too
        value, error = GaussianLoss(self.continuous_mu_squared).delta_and_error(max(0.0, shifted_epsilon))
        below_zero = max(0.0, -shifted_epsilon)  # δ(−x) ≤ δ(0) + x
        return value, (error + below_zero) * (1 + ROUNDING) + value * (self.slack + ROUNDING)

    def group(self, k: int) -> DiscreteGaussianVectorLoss:
        shift_bounds = k * self.groups, k * self.per_group, k * self.total, k * k * self.squares
        return DiscreteGaussianVectorLoss(self.sigma_squared, *shift_bounds)


@lru_cache(maxsize=1024)
def maximal_shifts(groups: int, per_group: int, total: int, squares: int) -> tuple[Shift, ...]:
    """List the maximal non-increasing integer vectors within these bounds (no entry can grow and none can be added),
    the longest first; empty where there are too many to enumerate.
    """
    if min(total, squares) > _MAX_TOTAL and min(groups * per_group, squares) > _MAX_TOTAL:
        return ()
    maximal: list[Shift] = []
    pending: list[tuple[Shift, int, int]] = [((), total, squares)]
    for _ in range(_MAX_STEPS):
        if not pending:
            return tuple(sorted(maximal, key=lambda shift: -sum(size * size for size in shift)))
        shift, remaining_total, remaining_squares = pending.pop()
        largest_next = (
            min(shift[-1] if shift else per_group, remaining_total, math.isqrt(remaining_squares))
            if len(shift) < groups
            else 0
        )
        pending += [
            ((*shift, size), remaining_total - size, remaining_squares - size * size)
            for size in range(1, largest_next + 1)
        ]
        if (
            not largest_next
            and shift
            and not _some_entry_can_grow(shift, per_group, remaining_total, remaining_squares)
        ):
            maximal.append(shift)
            if len(maximal) > _MAX_SHIFTS:
                return ()
    return ()


def _some_entry_can_grow(shift: Shift, per_group: int, remaining_total: int, remaining_squares: int) -> bool:
    """Return whether some entry of the vector can be one larger."""
    return remaining_total > 0 and any(size < per_group and 2 * size + 1 <= remaining_squares for size in set(shift))
