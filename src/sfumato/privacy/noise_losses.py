"""Exact losses of additive noise: of one coordinate at a time, and of discrete Gaussian noise on several.

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
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.losses import (
    LARGE,
    ROUNDING,
    ZERO,
    ClosedFormLoss,
    Complex,
    ConcentratedLoss,
    Loss,
    Real,
    two_atom_decay,
)
from sfumato.privacy.numbers import (
    NONNEGATIVE,
    POSITIVE,
    exact,
    exact_integer,
    excess_exp,
    exprel_minus,
    exprel_minus_real,
    format_exact,
    log_theta_ratio,
    mills_ratio,
    sinhc_minus_one,
)
from sfumato.quick_dataclass import dataclass


def _scaled_expm1(y: Fraction, beta: Fraction) -> float:
    """Return e^{−β}(e^y − 1) for y − β ≤ 0, also where e^y alone would overflow."""
    least = math.exp(-float(beta))
    return least * math.expm1(float(y)) if y < 30 else math.exp(min(700.0, float(y - beta))) - least


@codec.serialisable("laplace-loss")
@dataclass(frozen=True, repr=False)
class LaplaceLoss(ClosedFormLoss, Loss):
    """The loss of Laplace noise of scale b on one coordinate moved by Δ: ``epsilon`` = Δ/b.

    ``step`` = 1/b when noise and shift are whole numbers (the discrete Laplace, P(x) ∝ e^{−|x|/b}), 0 when they are
    real. With β the step and z = α − 1, M(z) = A·e^{zε} + B·e^{−(z+1)ε}, where A : B = sinh β(z+1) : sinh βz and
    A + B = 1; as β → 0 this is the continuous (z+1 : z)/(2z+1) (Mironov 2017, Table II).

    Concentration: of all shifts with equal L1 norm, moving mass from a smaller coordinate to a larger raises the
    hockey-stick divergence at every ε. In M(z; a)·M(z; b) with a + b fixed only the cross term A·B·2cosh((2z+1)(a−b)/2)
    depends on the split, and A·B cancels the kernel z(z+1) of the inversion integral, so the difference of
    two profiles is e^{(ε−a−b)/2}·[(|a−b|−ε)⁺ + (−|a−b|−ε)⁺]/4 up to a positive factor, rising in |a−b|. The same
    cancellation holds on the lattice. So ``Sensitivity.coordinates`` is the worst change.
    """

    epsilon: Fraction
    step: Fraction = ZERO

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", NONNEGATIVE))
        object.__setattr__(self, "step", exact(self.step, "step", NONNEGATIVE))
        if self.step and (self.epsilon / self.step).denominator != 1:
            step = format_exact(self.step)
            raise InvalidParameter(
                "epsilon", self.epsilon, f"a multiple of step = {step}", fix=f"set epsilon to {step}"
            )

    @property
    def pure_epsilon(self) -> Fraction:
        return self.epsilon

    @property
    def spacing_and_offset(self) -> tuple[Fraction, Fraction] | None:
        return (2 * self.step, self.epsilon) if self.step else None

    @property
    def log_moment_parameters(self) -> tuple[float, float]:
        return float(self.epsilon), float(self.step)

    def renyi(self, order: float) -> float:
        x, beta = self.log_moment_parameters
        z = order - 1
        if z == 0:
            lattice_factor = 1.0 if beta == 0 else beta / math.sinh(beta) if beta < 700 else 0.0
            return x * (1 - lattice_factor) + lattice_factor * (x * x * excess_exp(-x) if x < 1 else x + math.expm1(-x))
        if max(z, 1.0) * x > LARGE:
            share = (
                math.exp(-beta)
                / (1 + math.exp(-beta))
                * exprel_minus_real(2 * beta * z)
                / exprel_minus_real(beta * (2 * z + 1))
            )
            weight = share * 2 / (2 + 1 / z)
            return x + math.log1p(weight * math.expm1(-(2 * z + 1) * x)) / z
        # All terms are positive: no cancellation however small ε is.
        s1, s0 = sinhc_minus_one(beta * (z + 1)), sinhc_minus_one(beta * z)
        quadratic = (1 + s1) * z * excess_exp(z * x) + (1 + s0) * (z + 1) * excess_exp(-(z + 1) * x)
        scale = z * (z + 1) * x / ((1 + sinhc_minus_one(beta * (z + 0.5))) * (2 * z + 1))
        return math.log1p(scale * ((s1 - s0) + x * quadratic) / math.cosh(beta / 2)) / z

    @staticmethod
    def _second_exponential_weight(z: Complex, beta: Real) -> Complex:
        """Return B(z), the weight of the second exponential."""
        if not beta.any():
            return z / (2 * z + 1)
        share = exprel_minus(2 * beta * z) / exprel_minus(beta * (2 * z + 1))
        return np.exp(-beta) / (1 + np.exp(-beta)) * 2 * z / (2 * z + 1) * share

    @classmethod
    def log_moment(cls, z: Complex, *parameters: Any) -> Complex:
        x, beta = parameters
        low = np.expm1(-(2 * z + 1) * x)
        return z * x + np.log1p(cls._second_exponential_weight(z, beta) * low)

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:
        """Use that for continuous noise |A| falls and |B| rises to 1/2 along the line; on the lattice there is no
        decay.
        """
        x, beta = parameters
        undecayed = super().log_bound(c, t, x, beta)
        a_bound = abs(complex(c + 1, t)) / abs(complex(2 * c + 1, 2 * t))
        decaying = c * x + np.log(a_bound + 0.5 * np.exp(-(2 * c + 1) * x))
        return np.where(beta == 0, np.minimum(undecayed, decaying), undecayed)

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """Use that the two rays outside the shift are atoms at ±ε, of mass 1/(1 + e^{−β}) and e^{−ε} times that."""
        x, beta = parameters
        log_scale = -np.log1p(np.exp(-beta)) - cls.log_moment(np.array([c + 0j]), x, beta).real
        return two_atom_decay(np.exp(c * x + log_scale), np.exp(-(c + 1) * x + log_scale), x * heights)

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        x, beta = self.log_moment_parameters
        if epsilon > x:  # the float nearest to the largest loss, so a larger float is larger than that
            return 0.0, 0.0
        if beta == 0:
            return (value := -math.expm1(min(0.0, epsilon - x) / 2)), ROUNDING * (value + x * (1 - value))
        # The likelihood ratio is monotone: the best event is a ray {noise ≤ t}, with x − 2βt > ε.
        shift, exact_epsilon = int(self.epsilon / self.step), Fraction(epsilon)
        t = max(0, math.ceil((shift - exact_epsilon / self.step) / 2) - 1)
        exponent = exact_epsilon - self.step * (shift - t - 1)  # in floats two large numbers would cancel here
        value = max(0.0, -math.expm1(-beta * (t + 1)) - _scaled_expm1(exponent, self.step)) / (1 + math.exp(-beta))
        return value, ROUNDING * min(1.0, value + x + beta)

    def group(self, k: int) -> LaplaceLoss:
        return LaplaceLoss(k * self.epsilon, self.step)


@codec.serialisable("gaussian-loss")
@dataclass(frozen=True, repr=False)
class GaussianLoss(Loss):
    """The loss of Gaussian noise, or of μ-GDP: L ~ N(μ²/2, μ²) with μ = Δ₂/σ, held as its exact square (Dong, Roth & Su
    2022).

    δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) (Balle & Wang 2018, Thm 8); D_α = αμ²/2.
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", exact(self.mu_squared, "mu_squared", NONNEGATIVE))

    @property
    def pure_epsilon(self) -> Fraction | None:
        return None if self.mu_squared else ZERO

    def renyi(self, order: float) -> float:
        return order * float(self.mu_squared) / 2

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        mu = math.sqrt(self.mu_squared)
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # Both tails as multiples of the density at ``near``, which is e^ε times that at ``far``.
        density = math.exp(-near * near / 2) / math.sqrt(2 * math.pi)
        p_tail = density * mills_ratio(near) if near >= 0 else math.erfc(near / math.sqrt(2)) / 2
        q_tail = density * mills_ratio(far)
        value = max(0.0, p_tail - q_tail)
        # Where both tails share the density, its error multiplies only their difference.
        density_error = value if near >= 0 else q_tail
        return value, ROUNDING * (p_tail + q_tail + density_error * (4 + near * near)) + 5e-324

    def group(self, k: int) -> GaussianLoss:
        return GaussianLoss(k * k * self.mu_squared)


@codec.serialisable("discrete-gaussian-loss")
@dataclass(frozen=True, repr=False)
class DiscreteGaussianLoss(ClosedFormLoss, Loss):
    """The loss of the discrete Gaussian, P(x) ∝ e^{−x²/2σ²} on ℤ, with one coordinate moved by a whole ``shift`` s.

    M(z) = e^{z(z+1)s²/2σ²}·Θ(zs)/Θ(0) with Θ(u) = Σ_x e^{−(x+u)²/2σ²}, of period 1 and largest at 0 on the real
    line: so D_α ≤ αs²/2σ² (Canonne, Kamath & Steinke 2020, Prop. 5). The pmf is log-concave, so smaller shifts are
    dominated.
    """

    sigma_squared: Fraction
    shift: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", exact(self.sigma_squared, "sigma_squared", POSITIVE))
        object.__setattr__(self, "shift", exact_integer(self.shift, "shift"))

    @property
    def pure_epsilon(self) -> Fraction | None:
        return None if self.shift else ZERO

    @property
    def spacing_and_offset(self) -> tuple[Fraction, Fraction] | None:
        if not self.shift:
            return None
        return self.shift / self.sigma_squared, self.shift**2 / (2 * self.sigma_squared)

    @property
    def log_moment_parameters(self) -> tuple[float, float]:
        return float(self.sigma_squared), float(self.shift)

    def renyi(self, order: float) -> float:
        rho = float(self.shift**2 / (2 * self.sigma_squared))
        z = order - 1
        if z == 0:
            return rho
        with np.errstate(all="ignore"):  # beyond floating point the ratio is taken as 1, which is its upper bound
            ratio = log_theta_ratio(np.array([complex((z * self.shift) % 1.0)]), float(self.sigma_squared))
        return order * rho + min(0.0, float(ratio[0].real)) / z

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        variance, s = np.broadcast_arrays(*parameters)
        # M has the lattice's period along the imaginary axis up to sign: bring Im z into the middle period.
        period = 2 * math.pi * variance / s
        periods = np.round(z.imag / period)
        reduced = z - 1j * periods * period
        log_sign = 1j * math.pi * ((periods * s) % 2)
        theta = np.zeros(reduced.shape, complex)
        # Where the waves of the dual sum are below e^{−50} beside 1 the ratio is 1 to the last bit.
        waves = 2 * math.pi * (np.abs(reduced.imag).max(1, initial=0.0) * s[:, 0] - math.pi * variance[:, 0])
        for row in np.flatnonzero((waves > -50) | (variance[:, 0] < 1)):
            theta[row] = log_theta_ratio(reduced[row] * s[row, 0], float(variance[row, 0]))
        return reduced * (reduced + 1) * s * s / (2 * variance) + theta + log_sign

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """Bound the decay within the middle period, where |M(c + it)/M(c)| = e^{−t²s²/2σ²}·|Θ(zs)|/Θ(cs). For σ ≥ 1 the
        waves of the dual sum are at most 1.01 beside 1 at zs and at most 0.01 at cs, so the ratio is below 2.5; for
        smaller σ we take the moment itself.
        """
        variance, s = parameters
        if (variance < 1).any():
            return super().log_decay(c, heights, *parameters)
        period = 2 * math.pi * variance / s
        reduced = heights - np.round(heights / period) * period
        return -(reduced * reduced) * s * s / (2 * variance) + math.log(2.5)

    @property
    def magnitude(self) -> float:
        variance, shift = self.log_moment_parameters
        return (shift * shift + shift) / variance

    def group(self, k: int) -> DiscreteGaussianLoss:
        return DiscreteGaussianLoss(self.sigma_squared, k * self.shift)


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
    def pure_epsilon(self) -> Fraction | None:
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
