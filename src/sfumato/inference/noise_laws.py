"""The law of the noise on released totals, as tests and bands need it: its variance, and simulated draws of it."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import Unsupported
from sfumato.inference.seeded_draws import SeededDraws
from sfumato.quick_dataclass import dataclass
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale


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
