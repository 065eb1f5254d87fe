"""The law of the noise on released totals, as tests and bands need it: its variance, and simulated draws of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import Unsupported
from sfumato.inference.seeded_draws import Floats, SeededDraws
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale


@dataclass(frozen=True)
class NoiseLaw:
    """Discrete Laplace (order 1) or discrete Gaussian (order 2) noise of this size, in steps of ``unit``."""

    order: int
    size: float
    unit: float = 1.0

    @classmethod
    def of(cls, scale: NoiseScale) -> NoiseLaw:
        """Return the law of totals on this scale; numbers that were selected have none and are refused."""
        if isinstance(scale, SampledScale):
            rule = (
                "a sampled answer cannot be tested: which units are in the sample is secret, and no part of the noise"
            )
            raise Unsupported("test-of-selection", rule, fix="ask without sample")
        if not isinstance(scale, NoisyScale):
            rule = "tests are of counts, means and shares; a quantile or a most frequent value has no additive noise"
            raise Unsupported("test-of-selection", rule, fix="ask for COUNT(*) or AVG(…) by group")
        (size,) = scale.mechanism.sizes
        grid = 1 if scale.mechanism.grid is None else scale.mechanism.grid
        return cls(scale.mechanism.order, float(size), float(scale.unit_value * grid))

    @property
    def variance(self) -> float:
        """The variance of one noise, in the unit of the totals: 2q/(1 − q)² steps² with q = e^{−1/b}, or at most σ²."""
        if self.order == 2:
            return (self.size * self.unit) ** 2
        q = math.exp(-1 / self.size)
        return float(2 * q / math.expm1(-1 / self.size) ** 2 * self.unit**2)

    def draw(self, draws: SeededDraws, *shape: int) -> Floats:
        """Simulate independent noises."""
        drawn = draws.laplace(self.size, *shape) if self.order == 1 else draws.gaussian(self.size, *shape)
        return drawn * self.unit


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
