"""Exact losses of additive noise, one coordinate at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.losses import LARGE, ROUNDING, ZERO, ClosedFormLoss, Complex, Loss, Real, two_atom_decay
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, exact, exact_integer
from sfumato.privacy.stable_functions import (
    excess_exp,
    exprel_minus,
    exprel_minus_real,
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
            raise InvalidParameter("epsilon", self.epsilon, "a whole-number multiple of step")

    @property
    def pure(self) -> Fraction:
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
    def pure(self) -> Fraction | None:
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
    def pure(self) -> Fraction | None:
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
