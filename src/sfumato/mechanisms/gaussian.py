"""Exact sampling of the discrete Gaussian, P(x) ∝ e^{−x²/2σ²} on the integers, for every rational σ.

By rejection from the discrete Laplace of scale t = ⌊σ⌋ + 1: a proposal Y is kept with probability e^{−γ}, γ = (|Y|
− σ²/t)²/2σ² (Canonne, Kamath & Steinke 2020, Alg. 3; about 1.3 proposals a draw for large σ). Keeping means −ln V ≥
γ for a uniform V: compared in floating point with a margin no rounding can cross, and exactly (``bits``) in the rare
rest.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits, laplace

Integers = NDArray[np.int64]

_WIDTH = 64
_LN2 = math.log(2)
_SURE = 1 << 30
_MARGIN = 2.0**-28  # γ and −ln V are computed to 2⁻⁴⁵ relative; V's interval is 2⁻³⁰ wide at worst


@lru_cache(maxsize=4096)
def proposal(sigma: Fraction) -> tuple[Fraction, float, float]:
    """Return the proposal's scale t, and σ²/t and 2σ² as floats."""
    t = math.floor(sigma) + 1
    return Fraction(t), float(sigma**2 / t), float(2 * sigma**2)


def accepts_candidate(y: int, sigma: Fraction, v: int) -> bool:
    """Return whether −ln V ≥ γ(y) for V in [v, v+1)/2⁶⁴ and as many further bits as it takes."""
    t = math.floor(sigma) + 1
    gamma = (abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2)

    def chance(context: Context) -> Decimal:
        return bits.to_decimal(-gamma, context).exp(context)

    return bits.is_less(v, _WIDTH, chance)


class GaussianSampler:
    """Draws discrete Gaussian numbers of one deviation, one at a time without numpy, in a time that does not reveal the
    number's size: how many proposals were rejected is independent of the accepted one.
    """

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma
        t, self._centre, self._twice = proposal(sigma)
        self._proposal = laplace.LaplaceSampler(t)

    def draw(self) -> int:
        """Draw one discrete Gaussian number."""
        return self.added(0)

    def added(self, value: int) -> int:
        """Add one discrete Gaussian number to the value."""
        proposal = self._proposal
        while True:
            parts, v = proposal.parts(), bits.random_bits(_WIDTH)
            distance = parts[0] * proposal.unit + parts[1] - self._centre
            gamma = distance * distance / self._twice
            gap = math.log(max(v, 1)) - _WIDTH * _LN2 + gamma  # γ − (−ln V)
            if v < _SURE or abs(gap) < _MARGIN * (1 + gamma):
                if accepts_candidate(proposal.whole(0, *parts), self.sigma, v):
                    return proposal.whole(value, *parts)
            elif gap < 0:
                return proposal.whole(value, *parts)


def draw_one(sigma: Fraction) -> int:
    """Draw one discrete Gaussian number, without numpy."""
    return GaussianSampler(sigma).draw()


def draw(sigma: Fraction, count: int) -> Integers:
    """Draw independent discrete Gaussian numbers of one σ."""
    t, centre, twice = proposal(sigma)
    noise = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        y = laplace.draw(t, math.ceil(1.4 * (count - filled)) + 32)
        accepted = y[_accepted(y, centre, twice, [sigma], None)]
        fresh = accepted[: count - filled]
        noise[filled : filled + fresh.size] = fresh
        filled += fresh.size
    return noise


class GaussianBatch:
    """Draws discrete Gaussian numbers of many deviations side by side."""

    def __init__(self, sigmas: list[Fraction]) -> None:
        self.sigmas = sigmas
        settings = [proposal(sigma) for sigma in sigmas]
        self._proposals = laplace.LaplaceBatch([t for t, _, _ in settings])
        self._centres = np.array([centre for _, centre, _ in settings])
        self._twices = np.array([twice for _, _, twice in settings])

    def draw(self, which: NDArray[np.intp]) -> Integers:
        """Draw one discrete Gaussian number for each element of ``which``, of deviation ``sigmas[which]``."""
        noise = np.empty(which.size, np.int64)
        pending = np.arange(which.size)
        while pending.size:
            sigma_index = which[pending]
            y = self._proposals.draw(sigma_index)
            is_accepted = _accepted(
                y, np.take(self._centres, sigma_index), np.take(self._twices, sigma_index), self.sigmas, sigma_index
            )
            noise[pending[is_accepted]] = y[is_accepted]
            pending = pending[~is_accepted]
        return noise


def _accepted(
    y: Integers,
    centre: float | NDArray[np.float64],
    twice: float | NDArray[np.float64],
    sigmas: list[Fraction],
    sigma_index: NDArray[np.intp] | None,
) -> NDArray[np.bool_]:
    """Return which proposals are accepted."""
    words = bits.random_uint64(y.size)
    gap = np.maximum(words, np.uint64(1)).astype(np.float64)
    np.log(gap, out=gap)
    gap -= _WIDTH * _LN2
    gamma = np.abs(y).astype(np.float64)
    gamma -= centre
    gamma *= gamma
    gamma /= twice
    gap += gamma
    # 1 + γ is at least the size of both sides where they are close, so the margin covers their rounding.
    gamma += 1
    gamma *= _MARGIN
    is_accepted = gap < 0
    for index in np.flatnonzero((np.abs(gap) < gamma) | (words < np.uint64(_SURE))):
        sigma = sigmas[0] if sigma_index is None else sigmas[sigma_index[index]]
        is_accepted[index] = accepts_candidate(int(y[index]), sigma, int(words[index]))
    return is_accepted
