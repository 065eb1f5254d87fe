"""Privacy losses are defined here where they are known exactly: one frozen value per dominating pair (P, Q).

For z ~ P the privacy loss is L = ln(P(z)/Q(z)). Every family here says the same few things about it, all for one
direction; ``reversed()`` is the other (P and Q exchanged), and symmetric pairs are their own reverse:

- ``pure``: the max-divergence D∞ of the pair outside its failure, or None where it is infinite
- ``failure``: the mass of P where Q = 0, the atom of L at +∞
- ``top``: the largest finite value of L, or None
- ``renyi(order)``: D_α of the pair outside its failure, order 1 (KL) included, infinity not
- ``delta(epsilon)``: the hockey-stick divergence in closed form for ε ≥ 0, failure included, with a bound on its
  rounding error; None where only the moments are known in closed form
- ``log_moment(z, *parameters)``: ln E_P[e^{zL}; L < ∞] for complex z with Re z > 0, vectorised over z and over many
  members of the family at once; ``log_bound(c, t, *parameters)``: at least ln|E e^{(c+is)L}| for every s ≥ t
- ``lattice``: (spacing, offset) when L lives on offset + spacing·ℤ, else None
- ``group(k)``: the loss when k units change together

Why one pair may stand for a mechanism: a pair dominates when its hockey-stick divergence is at least that of every
pair of neighbours, for every ε; products of dominating pairs dominate adaptive compositions (Zhu, Dong & Wang 2022,
Thm 10 and Prop. 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec, pairs
from sfumato.privacy.numbers import BELOW_ONE, NONNEGATIVE, POSITIVE, charge_units, exact, from_units, text, whole
from sfumato.privacy.stable_functions import (
    convex_excess,
    excess_exp,
    log_ratio,
    log_shrink_gap,
    log_theta_ratio,
    mean_excess,
    mills,
    shrink,
    shrink_real,
)

Complex = NDArray[np.complexfloating[Any, Any]]
Real = NDArray[np.floating[Any]]

_LARGE = 30.0  # beyond this e^x − 1 is e^x to the last bit, and logarithms are taken term by term
_ROUNDING = 8 * 2.0**-52  # a few units in the last place: what each elementary step below may be off
_ZERO = Fraction(0)
_LONGEST_CHAIN = 8


@dataclass(frozen=True)
class Loss:
    """All families share this: a symmetric pair without failure, nothing known in closed form but its moments."""

    moments_known: ClassVar[bool] = True

    @property
    def pure(self) -> Fraction | None:
        return None

    @property
    def top(self) -> Fraction | None:
        return self.pure

    @property
    def failure(self) -> Fraction:
        return _ZERO

    @property
    def lattice(self) -> tuple[Fraction, Fraction] | None:
        return None

    @property
    def trivial(self) -> bool:
        """Tell whether both worlds look alike: nothing leaks."""
        return self.pure == 0 and not self.failure

    @property
    def flat(self) -> bool:
        """Tell whether the loss is 0 wherever it is finite: such a loss lies on every lattice."""
        return self.pure == 0

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Order equal bags of losses in one way; floats decide quickly, exact fields only between equal floats."""
        exact_fields = tuple(getattr(self, f.name) for f in fields(self))
        return type(self).__name__, tuple(float(x) for x in exact_fields if isinstance(x, Fraction)), exact_fields

    def __repr__(self) -> str:
        written = (f"{f.name}={_show(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(written)})"

    @property
    def parameters(self) -> tuple[Any, ...]:
        """Give what ``log_moment`` takes, as floats (or, for a finite pair, arrays)."""
        raise NotImplementedError

    def reversed(self) -> Loss:
        return self

    def symmetrised(self) -> Loss:
        """Find a loss that dominates this one and its reverse at every real ε."""
        return self

    def renyi(self, order: float) -> float:
        raise NotImplementedError

    def delta(self, epsilon: float) -> tuple[float, float] | None:  # noqa: ARG002
        return None

    def group(self, k: int) -> Loss:
        raise NotImplementedError

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        raise NotImplementedError

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:  # noqa: ARG003
        """Bound |E e^{(c+is)L}| by E e^{cL}: always true, and all that holds for a loss on a lattice."""
        return cls.log_moment(np.array([c + 0j]), *parameters).real

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """Bound ln|M(c + it)/M(c)| from above at each height t, for all members or each: cheaper than the moment."""
        at_c = cls.log_moment(np.array([c + 0j]), *parameters).real
        return cls.log_moment(c + 1j * heights, *parameters).real - at_c

    @property
    def magnitude(self) -> float:
        """Bound |L| up to Gaussian tails: rounding errors of ``log_moment`` scale with it."""
        return float(self.top or 0)


def _two_atoms(high: Real, low: Real, phase: Real) -> Real:
    """Compute ln of a bound of |E e^{itL}| when L = ±x with these probabilities, phase = tx, and anything otherwise.

    |high·e^{i·phase} + low·e^{−i·phase}|² = (high + low)² − 4·high·low·sin²(phase).
    """
    both = high + low
    turned = np.sqrt(np.maximum(0.0, both * both - 4 * high * low * np.sin(phase) ** 2))
    return np.log(np.maximum(0.0, 1 - both) + turned + _ROUNDING * (1 + np.abs(phase)))


def _lifted(y: float, beta: float) -> float:
    """Compute e^{−β}(e^y − 1), also where e^y alone would overflow."""
    return math.exp(-beta) * math.expm1(y) if y < 30 else math.exp(min(700.0, y - beta)) - math.exp(-beta)


def _show(value: object) -> str:
    if isinstance(value, tuple):
        more = ", …" if len(value) > 4 else ""
        return f"({', '.join(_show(each) for each in value[:4])}{more})"
    return text(value) if isinstance(value, Fraction) else str(value)


@codec.value("laplace-loss")
@dataclass(frozen=True, repr=False)
class LaplaceLoss(Loss):
    """This is the loss of Laplace noise of scale b on one coordinate moved by Δ: ``epsilon`` = Δ/b.

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
    step: Fraction = _ZERO

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", NONNEGATIVE))
        object.__setattr__(self, "step", exact(self.step, "step", NONNEGATIVE))
        if self.step and (self.epsilon / self.step).denominator != 1:
            raise InvalidParameter("epsilon", self.epsilon, "a whole multiple of step")

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def lattice(self) -> tuple[Fraction, Fraction] | None:
        return (2 * self.step, self.epsilon) if self.step else None

    @property
    def parameters(self) -> tuple[float, float]:
        return float(self.epsilon), float(self.step)

    def renyi(self, order: float) -> float:
        x, beta = self.parameters
        z = order - 1
        if z == 0:
            spread = 1.0 if beta == 0 else beta / math.sinh(beta) if beta < 700 else 0.0
            return x * (1 - spread) + spread * (x * x * excess_exp(-x) if x < 1 else x + math.expm1(-x))
        if max(z, 1.0) * x > _LARGE:
            share = (
                math.exp(-beta) / (1 + math.exp(-beta)) * shrink_real(2 * beta * z) / shrink_real(beta * (2 * z + 1))
            )
            weight = share * 2 / (2 + 1 / z)
            return x + math.log1p(weight * math.expm1(-(2 * z + 1) * x)) / z
        # All terms are positive: no cancellation however small ε is.
        s1, s0 = mean_excess(beta * (z + 1)), mean_excess(beta * z)
        rest = (1 + s1) * z * excess_exp(z * x) + (1 + s0) * (z + 1) * excess_exp(-(z + 1) * x)
        scale = z * (z + 1) * x / ((1 + mean_excess(beta * (z + 0.5))) * (2 * z + 1))
        return math.log1p(scale * ((s1 - s0) + x * rest) / math.cosh(beta / 2)) / z

    @staticmethod
    def _weight(z: Complex, beta: Real) -> Complex:
        """Compute B(z), the weight of the second exponential."""
        if not beta.any():
            return z / (2 * z + 1)
        share = shrink(2 * beta * z) / shrink(beta * (2 * z + 1))
        return np.exp(-beta) / (1 + np.exp(-beta)) * 2 * z / (2 * z + 1) * share

    @classmethod
    def log_moment(cls, z: Complex, *parameters: Any) -> Complex:
        x, beta = parameters
        low = np.expm1(-(2 * z + 1) * x)
        return z * x + np.log1p(cls._weight(z, beta) * low)

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:
        """For continuous noise |A| falls and |B| rises to 1/2 along the line; the lattice has no decay."""
        x, beta = parameters
        flat = super().log_bound(c, t, x, beta)
        first = abs(complex(c + 1, t)) / abs(complex(2 * c + 1, 2 * t))
        along = c * x + np.log(first + 0.5 * np.exp(-(2 * c + 1) * x))
        return np.where(beta == 0, np.minimum(flat, along), flat)

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """The two rays outside the shift are atoms at ±ε, of mass 1/(1 + e^{−β}) and e^{−ε} times that."""
        x, beta = parameters
        rest = -np.log1p(np.exp(-beta)) - cls.log_moment(np.array([c + 0j]), x, beta).real
        return _two_atoms(np.exp(c * x + rest), np.exp(-(c + 1) * x + rest), x * heights)

    def delta(self, epsilon: float) -> tuple[float, float]:
        x, beta = self.parameters
        if epsilon > x * (1 + _ROUNDING):  # surely beyond the largest loss, not by rounding alone
            return 0.0, 0.0
        if beta == 0:
            return (value := -math.expm1(min(0.0, epsilon - x) / 2)), _ROUNDING * (value + x * (1 - value))
        # The likelihood ratio is monotone: the best event is a ray {noise ≤ t}; t's float may be off by one.
        shift = int(self.epsilon / self.step)
        near = math.ceil((shift - epsilon / beta) / 2) - 1
        rays = (
            -math.expm1(-beta * (t + 1)) - _lifted(epsilon - beta * (shift - t - 1), beta)
            for t in {max(0, min(shift - 1, near + d)) for d in (-1, 0, 1)}
        )
        value = max(0.0, *rays) / (1 + math.exp(-beta))
        return value, _ROUNDING * min(1.0, value + x + beta)

    def group(self, k: int) -> LaplaceLoss:
        return LaplaceLoss(k * self.epsilon, self.step)


@codec.value("gaussian-loss")
@dataclass(frozen=True, repr=False)
class GaussianLoss(Loss):
    """Gaussian noise, or μ-GDP, has L ~ N(μ²/2, μ²) with μ = Δ₂/σ, held as its exact square (Dong, Roth & Su 2022).

    δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) (Balle & Wang 2018, Thm 8); D_α = αμ²/2.
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", exact(self.mu_squared, "mu_squared", NONNEGATIVE))

    @property
    def pure(self) -> Fraction | None:
        return None if self.mu_squared else _ZERO

    def renyi(self, order: float) -> float:
        return order * float(self.mu_squared) / 2

    def delta(self, epsilon: float) -> tuple[float, float]:
        mu = math.sqrt(self.mu_squared)
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # Both tails as multiples of the density at ``near``, which is e^ε times that at ``far``.
        density = math.exp(-near * near / 2) / math.sqrt(2 * math.pi)
        first = density * mills(near) if near >= 0 else math.erfc(near / math.sqrt(2)) / 2
        second = density * mills(far)
        value = max(0.0, first - second)
        # The density's own error multiplies the difference alone where both tails share it.
        shared = value if near >= 0 else second
        return value, _ROUNDING * (first + second + shared * (4 + near * near)) + 5e-324

    def group(self, k: int) -> GaussianLoss:
        return GaussianLoss(k * k * self.mu_squared)


@codec.value("discrete-gaussian-loss")
@dataclass(frozen=True, repr=False)
class DiscreteGaussianLoss(Loss):
    """This is the loss of the discrete Gaussian, P(x) ∝ e^{−x²/2σ²} on ℤ, one coordinate moved by a whole ``shift`` s.

    M(z) = e^{z(z+1)s²/2σ²}·Θ(zs)/Θ(0) with Θ(u) = Σ_x e^{−(x+u)²/2σ²}, of period 1 and largest at 0 on the real
    line: so D_α ≤ αs²/2σ² (Canonne, Kamath & Steinke 2020, Prop. 5). The pmf is log-concave, so smaller shifts are
    dominated.
    """

    sigma_squared: Fraction
    shift: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", exact(self.sigma_squared, "sigma_squared", POSITIVE))
        object.__setattr__(self, "shift", whole(self.shift, "shift"))

    @property
    def pure(self) -> Fraction | None:
        return None if self.shift else _ZERO

    @property
    def lattice(self) -> tuple[Fraction, Fraction] | None:
        if not self.shift:
            return None
        return self.shift / self.sigma_squared, self.shift**2 / (2 * self.sigma_squared)

    @property
    def parameters(self) -> tuple[float, float]:
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
        turns = np.round(z.imag / period)
        near = z - 1j * turns * period
        sign = 1j * math.pi * ((turns * s) % 2)
        theta = np.zeros(near.shape, complex)
        # Where the waves of the dual sum are below e^{−50} beside 1 the ratio is 1 to the last bit.
        waves = 2 * math.pi * (np.abs(near.imag).max(1, initial=0.0) * s[:, 0] - math.pi * variance[:, 0])
        for row in np.flatnonzero((waves > -50) | (variance[:, 0] < 1)):
            theta[row] = log_theta_ratio(near[row] * s[row, 0], float(variance[row, 0]))
        return near * (near + 1) * s * s / (2 * variance) + theta + sign

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
        near = heights - np.round(heights / period) * period
        return -(near * near) * s * s / (2 * variance) + math.log(2.5)

    @property
    def magnitude(self) -> float:
        variance, shift = self.parameters
        return (shift * shift + shift) / variance

    def group(self, k: int) -> DiscreteGaussianLoss:
        return DiscreteGaussianLoss(self.sigma_squared, k * self.shift)


@codec.value("response-loss")
@dataclass(frozen=True, repr=False)
class ResponseLoss(Loss):
    """This is the loss of randomised response over ``choices`` answers, with probability ``delta`` revealing all.

    With two choices it dominates every (ε, δ)-DP mechanism (Kairouz, Oh & Viswanath 2015, Thm 3.4).
    M(z) − 1 = (1 − e^{−zε})(e^{zε} − e^{−ε})/(1 + (k−1)e^{−ε}), outside the failure.
    """

    epsilon: Fraction
    choices: int = 2
    reveal: Fraction = _ZERO

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", NONNEGATIVE))
        object.__setattr__(self, "choices", whole(self.choices, "choices", at_least=2))
        object.__setattr__(self, "reveal", exact(self.reveal, "delta", BELOW_ONE))

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def failure(self) -> Fraction:
        return self.reveal

    @property
    def lattice(self) -> tuple[Fraction, Fraction] | None:
        if not self.epsilon:
            return None
        return (2 * self.epsilon, self.epsilon) if self.choices == 2 else (self.epsilon, _ZERO)

    @property
    def parameters(self) -> tuple[float, float, float]:
        return float(self.epsilon), float(self.choices), float(self.reveal)

    def renyi(self, order: float) -> float:
        x, k, _ = self.parameters
        z, others = order - 1, 1 + (k - 1) * math.exp(-x)
        if z == 0:
            return x * -math.expm1(-x) / others
        y = z * x
        if y > _LARGE:
            return x + math.log((1 + (k - 2) * math.exp(-x - y) + math.exp(-x - 2 * y)) / others) / z
        return math.log1p(-math.expm1(-y) * (math.expm1(y) - math.expm1(-x)) / others) / z

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        x, k, reveal = parameters
        y = z * x
        low = np.exp(-x)
        # ln of e^y·(1 + (k−2)e^{−x−y} + e^{−x−2y})/(1 + (k−1)e^{−x}), written around y = 0
        atoms = (k - 2) * low * np.expm1(-y) + low * np.expm1(-2 * y)
        return y + np.log1p(atoms / (1 + (k - 1) * low)) + np.log1p(-reveal)

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        x, k, reveal = parameters
        rest = np.log1p(-reveal) - np.log1p((k - 1) * np.exp(-x)) - cls.log_moment(np.array([c + 0j]), *parameters).real
        return _two_atoms(np.exp(c * x + rest), np.exp(-(c + 1) * x + rest), x * heights)

    def delta(self, epsilon: float) -> tuple[float, float]:
        x, k, reveal = self.parameters
        gap = -math.expm1(min(0.0, epsilon - x))
        value = reveal + (1 - reveal) * gap / (1 + (k - 1) * math.exp(-x))
        return value, _ROUNDING * (value + x * (1 - gap))

    def group(self, k: int) -> ResponseLoss:
        """Give (kε, δ(1 + e^ε + … + e^{(k−1)ε})): the definition applied along a chain of k neighbours (Dwork & Roth
        2014, Thm 2.2).
        """
        if k == 1:
            return self
        epsilon = k * self.epsilon
        if not self.reveal:
            return ResponseLoss(epsilon)
        x = float(self.epsilon)
        growth = math.expm1(min(700.0, k * x)) / math.expm1(min(700.0, x)) if x else float(k)
        reveal = self.reveal * Fraction(growth * (1 + 2.0**-40))
        if reveal >= 1 or k * x > 700:
            raise InvalidParameter("k", k, "small enough that the group's δ stays below 1")
        return ResponseLoss(epsilon, 2, reveal)


@codec.value("bounded-range-loss")
@dataclass(frozen=True, repr=False)
class BoundedRangeLoss(Loss):
    """A bounded-range loss spans at most ``eta`` for each pair of neighbours (the exponential mechanism).

    The worst pairs have two atoms, at t and t − η, for some t (Dong, Durfee & Rogers 2020, Lemma 1), and ``renyi`` is
    the supremum of their divergences over t, in closed form. Their hockey-stick divergences are
    (1 − e^{t−η})(1 − e^{ε−t})/(1 − e^{−η}), largest at t = (ε+η)/2: (1 − e^{(ε−η)/2})²/(1 − e^{−η}). As a function of
    e^ε this is convex with slope −1 at e^{−η} and 0 at e^η, so it is itself the profile of a pair, whose loss has
    density e^{l/2}/(4 sinh(η/2)) on [−η, η]: that pair dominates them all and is what composes (Zhu, Dong & Wang 2022,
    Prop. 7).
    """

    eta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", exact(self.eta, "epsilon", NONNEGATIVE))

    @property
    def pure(self) -> Fraction:
        return self.eta

    @property
    def parameters(self) -> tuple[float]:
        return (float(self.eta),)

    def renyi(self, order: float) -> float:
        eta, z = float(self.eta), order - 1
        if eta == 0:
            return 0.0
        # η − t at the worst t, where e^{−t} = e^{−η}·shrink(zη)/shrink(αη)
        gap = log_shrink_gap(z * eta, order * eta)
        t = eta - gap
        log_p = math.log(math.expm1(gap)) - eta - math.log(-math.expm1(-eta))
        p = math.exp(log_p)
        if order * eta <= _LARGE:
            excess = p * convex_excess(t, order) + (1 - p) * convex_excess(-gap, order)
            return math.log1p(excess) / z if z else excess
        if z == 0:
            return t - eta * (1 - math.exp(log_p + t))
        return (log_p + order * t + math.log1p(math.exp(min(-order * eta - log_p, 700.0)) * (1 - p))) / z

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        (eta,) = parameters
        return z * eta + np.log(shrink((2 * z + 1) * eta) / shrink(eta))

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:
        """The integral over an interval falls as 1/|2z + 1|."""
        (eta,) = parameters
        ends = 1 + np.exp(-(2 * c + 1) * eta)
        along = c * eta + np.log(ends / (-np.expm1(-eta) * abs(complex(2 * c + 1, 2 * t))))
        return np.minimum(super().log_bound(c, t, eta), along)

    def delta(self, epsilon: float) -> tuple[float, float]:
        eta = float(self.eta)
        if epsilon > eta * (1 + _ROUNDING):  # surely beyond the largest loss, not by rounding alone
            return 0.0, 0.0
        gap = -math.expm1(min(0.0, epsilon - eta) / 2)
        width, most = -math.expm1(-eta), gap + _ROUNDING * eta
        return gap * (gap / width), _ROUNDING * most * ((most + eta * (1 - gap)) / width)

    def group(self, k: int) -> BoundedRangeLoss:
        """Ranges of a chain of k neighbours add."""
        return BoundedRangeLoss(k * self.eta)


@codec.value("concentrated-loss")
@dataclass(frozen=True, repr=False)
class ConcentratedLoss(Loss):
    """This is the loss of anything ρ-zCDP: D_α ≤ ρα for all α > 1 and no more is known (Bun & Steinke 2016).

    No single pair dominates, so only moments at real orders exist; N(ρ, 2ρ) attains the bound and gives lower bounds.
    """

    rho: Fraction
    moments_known: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact(self.rho, "rho", NONNEGATIVE))

    @property
    def pure(self) -> Fraction | None:
        return None if self.rho else _ZERO

    def renyi(self, order: float) -> float:
        return order * float(self.rho)

    def group(self, k: int) -> ConcentratedLoss:
        """Give k²ρ (Bun & Steinke 2016, Prop. 1.9)."""
        return ConcentratedLoss(k * k * self.rho)


@codec.value("pair-loss")
@dataclass(frozen=True, repr=False)
class PairLoss(Loss):
    """This is the loss of any two finite distributions, outcome by outcome, with exact probabilities.

    Outside the failure the pair is P′ = P given Q > 0 against Q′ = Q given P > 0: with f the larger failure
    of the two directions, P = (1−f)P′ + fN and Q = (1−f)Q′ + fN′ for some N, N′, as an account needs.
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        p, q = pairs.aligned(self.p, self.q)
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)

    def reversed(self) -> PairLoss:
        return self._known(self.q, self.p)

    def symmetrised(self) -> PairLoss:
        return self._known(*pairs.symmetrised(self.p, self.q))

    @staticmethod
    def _known(p: pairs.Exact, q: pairs.Exact) -> PairLoss:
        """Make a pair derived from validated ones: its numbers may have more digits than a public number has."""
        pair = object.__new__(PairLoss)
        object.__setattr__(pair, "p", p)
        object.__setattr__(pair, "q", q)
        return pair

    @cached_property
    def _common(self) -> list[tuple[Fraction, Fraction]]:
        return [(a, b) for a, b in zip(self.p, self.q, strict=True) if a and b]

    @property
    def failure(self) -> Fraction:
        return 1 - sum((a for a, _ in self._common), _ZERO)

    @property
    def _other_failure(self) -> Fraction:
        return 1 - sum((b for _, b in self._common), _ZERO)

    @cached_property
    def _outside(self) -> list[tuple[float, float]]:
        """Give (Q′, ln P′/Q′) for each common outcome."""
        p_mass, q_mass = 1 - self.failure, 1 - self._other_failure
        return [(float(b / q_mass), log_ratio(a / p_mass, b / q_mass)) for a, b in self._common]

    @property
    def pure(self) -> Fraction:
        return _rounded_up(max((y for _, y in self._outside), default=0.0))

    @property
    def trivial(self) -> bool:
        return self.p == self.q

    @property
    def flat(self) -> bool:
        return all(a == b for a, b in self._common)

    @property
    def top(self) -> Fraction | None:
        return _rounded_up(max((log_ratio(a, b) for a, b in self._common), default=0.0))

    def renyi(self, order: float) -> float:
        z = order - 1
        most = max((math.log(b) + order * y for b, y in self._outside if b), default=0.0)
        if most > _LARGE:
            scaled = math.fsum(math.exp(math.log(b) + order * y - most) for b, y in self._outside if b)
            return (most + math.log(scaled)) / z if z else self._mean()
        excess = math.fsum(_excess(b, y, order) for b, y in self._outside)
        return math.log1p(max(0.0, excess)) / z if z else max(0.0, excess)

    def _mean(self) -> float:
        return math.fsum(math.exp(math.log(b) + y) * y for b, y in self._outside if b)

    @property
    def parameters(self) -> tuple[Real, Real]:
        mass = np.array([float(a) for a, _ in self._common])[:, None]
        return mass, np.array([log_ratio(a, b) for a, b in self._common])[:, None]

    @staticmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        mass, loss = parameters
        if not len(mass):
            return np.full((1, z.size), -np.inf + 0j)
        lift = (np.log(mass) + loss * z.real).max(0)
        total = (np.exp(np.log(mass) + loss * z - lift)).sum(0)
        return (lift + np.log(total))[None, :]

    def delta(self, epsilon: float) -> tuple[float, float]:
        growth = Fraction(math.exp(min(700.0, epsilon))) * Fraction(math.exp(max(0.0, min(700.0, epsilon - 700.0))))
        gaps = [float(a - growth * b) for a, b in zip(self.p, self.q, strict=True) if a > growth * b]
        return math.fsum(gaps), _ROUNDING * (1 + epsilon)

    def group(self, k: int) -> Loss:
        """Give 1 − (1−f)^{∘k} for the trade-off function f of both directions (Dong, Roth & Su 2022, Thm 2.14).

        Its corners multiply with k, so long chains fall back to the rule for (ε, δ)-DP, which this pair is.
        """
        if k == 1:
            return self
        if k <= _LONGEST_CHAIN:
            return PairLoss(*pairs.chained(self.p, self.q, k))
        pure = max(self.pure, self.reversed().pure)
        return ResponseLoss(pure, 2, max(self.failure, self._other_failure)).group(k)

    @property
    def magnitude(self) -> float:
        return max((abs(log_ratio(a, b)) for a, b in self._common), default=0.0)


def _excess(b: float, y: float, order: float) -> float:
    """Compute b·(x^α − 1 − α(x − 1)) at x = e^y, or its limit at order 1; by logarithms where a power overflows."""
    if order * abs(y) <= _LARGE:
        return b * convex_excess(y, order)
    if b == 0:
        return 0.0
    log_b = math.log(b)
    if order == 1:
        return math.exp(log_b + y) * (y - 1) + b
    return math.exp(log_b + order * y) - b - order * (math.exp(log_b + y) - b)


def sum_above(values: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    """Sum count·value: exact for a few kinds, each rounded up to 1e-30 for many, whose denominators would explode."""
    known = []
    for value, count in values:
        if value is None:
            return None
        known.append((value, count))
    if len(known) <= 16:
        return sum((count * value for value, count in known), _ZERO)
    return from_units(sum(count * charge_units(value) for value, count in known))


def _rounded_up(value: float) -> Fraction:
    """Round a computed logarithm to an exact number that is surely not below it."""
    return Fraction(max(0.0, value) * (1 + 2.0**-49))
