"""Draws for simulated null distributions, seeded by a digest of released numbers.

They are post-processing: their seed is public, so that the same released numbers give the same p-value everywhere, and
nothing is protected by them. Noise that protects comes from ``mechanisms.bits`` alone.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats

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
