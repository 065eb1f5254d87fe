"""The law of the noise on released totals, as tests and bands need it: its variance, and simulated draws of it.

Draws for simulated null distributions, seeded by a digest of released numbers.

They are post-processing: their seed is public, so that the same released numbers give the same p-value everywhere, and
nothing is protected by them. Noise that protects comes from ``mechanisms.bits`` alone.

The noise of several Gaussian steps at one price: each gets a share of ρ that is fixed beforehand.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian
from sfumato.privacy import Curve, Guarantee, Sensitivity, compose
from sfumato.privacy.calibration import least_parameter_by_shortfall, log_delta_excess, noise_size_near
from sfumato.quick_dataclass import dataclass
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale
from sfumato.release.prices import GIVE_DELTA, Price

_MAX_TABLE_MEAN = 2000.0
"""Poisson numbers of a larger mean are drawn as rounded normal ones."""
_MAX_TABLE_SIGMA = 200.0
"""Discrete Gaussian numbers of a larger deviation are drawn as rounded normal ones."""


class SeededDraws:
    """A stream of pseudo-random numbers: SHAKE-256 of the released numbers and a counter."""

    def __init__(self, *released: object) -> None:
        self._seed = hashlib.sha256(repr(released).encode()).digest()
        self._block = 0

    def uniforms(self, *shape: int) -> Floats:
        """Return uniform numbers of the open interval (0, 1), with 53 bits each."""
        count = math.prod(shape)
        block = hashlib.shake_256(self._seed + self._block.to_bytes(8, "big"))
        self._block += 1
        words = np.frombuffer(block.digest(8 * count), dtype=">u8") >> np.uint64(11)
        return ((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def normals(self, *shape: int) -> Floats:
        """Return standard normal numbers (Box & Muller 1958)."""
        radius, angle = self.uniforms(2, *shape)
        return np.asarray(np.sqrt(-2 * np.log(radius)) * np.cos(2 * math.pi * angle))

    def laplace(self, scale: float, *shape: int) -> Floats:
        """Return discrete Laplace numbers, P(x) ∝ e^{−|x|/b}: the formula of ``mechanisms.laplace`` in doubles."""
        uniform = self.uniforms(*shape)
        is_negative = uniform < 0.5
        folded = np.where(is_negative, 2 * uniform, 2 * uniform - 1)
        lift = math.log(2) - math.log1p(math.exp(-1 / scale))
        magnitude = np.maximum(0.0, np.floor(scale * (lift - np.log(np.maximum(folded, 2.0**-54)))))
        return np.where(is_negative, -magnitude, magnitude)

    def gaussian(self, sigma: float, *shape: int) -> Floats:
        """Return discrete Gaussian numbers, P(x) ∝ e^{−x²/2σ²}, by inversion; rounded normal ones where σ is large."""
        if sigma > _MAX_TABLE_SIGMA:
            return np.rint(sigma * self.normals(*shape))
        reach = math.ceil(10 * sigma) + 1
        values = np.arange(-reach, reach + 1, dtype=np.float64)
        weights = np.exp(-(values**2) / (2 * sigma**2))
        return values[invert_cumulative(weights, self.uniforms(*shape))]

    def poisson(self, means: Floats, count: int) -> Floats:
        """Return ``count`` arrays of independent Poisson numbers of these means, by inversion."""
        flat = np.maximum(np.asarray(means, dtype=np.float64).ravel(), 0.0)
        uniforms = self.uniforms(flat.size, count)
        spread = self.normals(int((flat > _MAX_TABLE_MEAN).sum()), count)
        drawn = np.zeros((flat.size, count))
        large_index = 0
        for index, mean in enumerate(flat):
            if mean > _MAX_TABLE_MEAN:
                drawn[index] = np.rint(mean + math.sqrt(mean) * spread[large_index])
                large_index += 1
            elif mean > 0:
                drawn[index] = _invert_poisson(float(mean), uniforms[index])
        return drawn.T.reshape(count, *np.shape(means))


def _invert_poisson(mean: float, uniforms: Floats) -> Floats:
    numbers, cumulative = _poisson_distribution(mean)
    return numbers[np.minimum(np.searchsorted(cumulative, uniforms, side="right"), len(numbers) - 1)]


@lru_cache(maxsize=64)
def _poisson_distribution(mean: float) -> tuple[Floats, Floats]:
    """Return the numbers within 12 deviations of the mean, and their cumulative distribution: a simulation draws from
    the same few means table after table.
    """
    first = max(0, math.floor(mean - 12 * math.sqrt(mean)) - 12)
    last = math.ceil(mean + 12 * math.sqrt(mean)) + 30
    numbers = np.arange(first, last + 1, dtype=np.float64)
    steps = np.concatenate([[0.0], np.log(mean / numbers[1:])])
    logs = np.cumsum(steps)
    cumulative = np.cumsum(np.exp(logs - logs.max()))
    return numbers, cumulative / cumulative[-1]


def invert_cumulative(weights: Floats, uniforms: Floats) -> NDArray[np.intp]:
    """Return the index of each uniform number in the cumulative distribution of these weights."""
    cumulative = np.cumsum(weights)
    return np.minimum(np.searchsorted(cumulative / cumulative[-1], uniforms, side="right"), len(weights) - 1)


@dataclass(frozen=True)
class NoiseLaw:
    """Discrete Laplace (order 1) or discrete Gaussian (order 2) noise of this size, in steps of ``unit``, or the sum of
    several independent ones.
    """

    order: int
    size: float
    unit: float = 1.0
    noises: int = field(default=1, repr=False)  # draws are seeded by what is shown, and a law of one is older
    """How many are added."""

    @classmethod
    def from_scale(cls, scale: NoiseScale, factor: Fraction = Fraction(1)) -> NoiseLaw:
        """Return the law of totals on this scale, multiplied by a factor; numbers that were selected have none and are
        refused.
        """
        if isinstance(scale, SampledScale):
            rule = (
                "an answer over a sample cannot be tested, because the tests do not account for the random choice of "
                "units"
            )
            raise Unsupported("test-of-selection", rule, fix="ask the question without sample= (--sample)")
        if not isinstance(scale, NoisyScale):
            rule = (
                "only counts, means and shares can be tested; a quantile or a most frequent value has no additive noise"
            )
            raise Unsupported("test-of-selection", rule, fix="ask for COUNT(*) or AVG(…) by group")
        (size,) = scale.mechanism.sizes
        grid = 1 if scale.mechanism.grid is None else scale.mechanism.grid
        return cls(scale.mechanism.order, float(size), float(scale.unit_value * grid * factor))

    @property
    def variance(self) -> float:
        """The variance in the unit of the totals; that of one noise is 2q/(1 − q)² steps² with q = e^{−1/b}, or at most
        σ². Variances of independent noises add up.
        """
        if self.order == 2:
            return self.noises * (self.size * self.unit) ** 2
        q = math.exp(-1 / self.size)
        return float(self.noises * 2 * q / math.expm1(-1 / self.size) ** 2 * self.unit**2)

    def draw(self, draws: SeededDraws, *shape: int) -> Floats:
        """Simulate independent sums of as many noises."""
        draw = draws.laplace if self.order == 1 else draws.gaussian
        drawn = np.sum([draw(self.size, *shape) for _ in range(self.noises)], axis=0)
        return np.asarray(drawn * self.unit)


def nonnegative_cells(cells: Floats) -> Floats:
    """Return the nonnegative cells nearest to noisy ones with the same total (Euclidean projection on a simplex); all
    are 0 where the total is not positive.
    """
    flat, total = np.asarray(cells, dtype=np.float64).ravel(), float(np.sum(cells))
    if total <= 0:
        return np.zeros(np.shape(cells))
    descending = np.sort(flat)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, flat.size + 1)
    shift = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.maximum(flat - shift, 0.0).reshape(np.shape(cells)))


@dataclass(frozen=True)
class StepNoise:
    """The noise of every step at one price.

    A step with the share s of ρ has σ = Δ₂·σ₁/√s, where one step alone would have Δ₂·σ₁: their ρ add up to its ρ
    (Bun & Steinke 2016, Lemma 2.3), and the composition of all curves is what is charged.
    """

    mechanisms: tuple[Gaussian, ...]
    sensitivities: tuple[Sensitivity, ...]

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The privacy curve of each step."""
        pairs = zip(self.mechanisms, self.sensitivities, strict=True)
        return tuple(mechanism.curve(sensitivity) for mechanism, sensitivity in pairs)

    @property
    def curve(self) -> Curve:
        """The privacy curve of all steps together."""
        return compose(self.curves)

    @classmethod
    def for_steps(cls, sensitivities: Sequence[Sensitivity], shares: Sequence[Fraction], sigma: Fraction) -> StepNoise:
        """Return the noise of all steps where one alone would have ``sigma`` times its sensitivity's norm."""
        pairs = zip(sensitivities, shares, strict=True)
        sigmas = (
            sigma * Gaussian.norm(sensitivity) * Fraction(1 / float(share) ** 0.5) for sensitivity, share in pairs
        )
        return cls(tuple(map(Gaussian, sigmas)), tuple(sensitivities))


@lru_cache(maxsize=64)
def calibrated_step_noise(
    sensitivities: tuple[Sensitivity, ...], shares: tuple[Fraction, ...], price: Price
) -> StepNoise:
    """Return the least noise of all steps whose composition is within the price, which needs a δ or is a ρ."""
    if not price.allows_gaussian:
        rule = "given with a δ or in ρ, because only Gaussian noise is small enough for this many sums"
        raise InvalidParameter("price", str(price), rule, fix=GIVE_DELTA)
    try:
        if price.rho is not None:
            unit_sigma = Gaussian.closed_form(epsilon=None, rho=price.rho)
            assert unit_sigma is not None
            return StepNoise.for_steps(sensitivities, shares, unit_sigma * (1 + Fraction(1, 2**40)))
        guarantee = Guarantee(price.epsilon or 0, price.delta)
        sigma = least_parameter_by_shortfall(
            lambda size: log_delta_excess(StepNoise.for_steps(sensitivities, shares, size).curve, guarantee),
            f"{guarantee}",
            near=noise_size_near(guarantee),
        )
        return StepNoise.for_steps(sensitivities, shares, sigma)
    except InvalidParameter:
        rule = "higher, because at this price the noise is too large to draw exactly"
        raise InvalidParameter("price", str(price), rule, fix="pay more, or name fewer columns") from None
