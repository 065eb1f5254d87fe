"""Exact sampling of the discrete Gaussian, P(x) ∝ e^{−x²/2σ²} on the integers, for every rational σ.

By rejection from the discrete Laplace of scale t = ⌊σ⌋ + 1: a proposal Y is kept with probability e^{−γ}, γ = (|Y|
− σ²/t)²/2σ² (Canonne, Kamath & Steinke 2020, Alg. 3; about 1.3 proposals a draw for large σ). Keeping means −ln V ≥
γ for a uniform V: compared in floating point with a margin no rounding can cross, and exactly (``bits``) in the rare
rest.

Many draws of one σ beyond the guide tables are made in blocks of S = 2ᵏ integers (``GaussianBlockSampler``), which
refuses one proposal in a hundred instead of one in four.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits, guide_tables, laplace

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDTH = 64
_GLANCE, _PLACE = 24, 39  # bits of a block's word: one is the sign, then the first of V, then the place's
_LN2 = math.log(2)
_WIDTH_IN_NATS = _WIDTH * _LN2
_PROPOSALS = 4  # read at once for one draw: all of them are refused once in 300 draws
_PROPOSAL_BITS = laplace.WORD_BITS + _WIDTH
_PROPOSAL_MASK, _V_MASK = (1 << _PROPOSAL_BITS) - 1, (1 << _WIDTH) - 1
_SURE = 1 << 30
_MARGIN = 2.0**-28  # γ and −ln V are computed to 2⁻⁴⁵ relative; V's interval is 2⁻³⁰ wide at worst


@lru_cache(maxsize=4096)
def proposal_constants(sigma: Fraction) -> tuple[Fraction, float, float]:
    """Return the proposal's scale t, and σ²/t and 2σ² as floats."""
    t = math.floor(sigma) + 1
    return Fraction(t), float(sigma**2 / t), float(2 * sigma**2)


def accepts_candidate(y: int, sigma: Fraction, v: int) -> bool:
    """Return whether −ln V ≥ γ(y) for V in [v, v+1)/2⁶⁴ and as many further bits as it takes."""
    t = math.floor(sigma) + 1
    return _accepts_gamma_exactly((abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2), v)


def _accepts_gamma_exactly(gamma: Fraction, v: int) -> bool:
    """Return whether −ln V ≥ γ, exactly."""

    def chance(context: Context) -> Decimal:
        return bits.to_decimal(-gamma, context).exp(context)

    return bits.is_uniform_below(v, _WIDTH, chance)


class GaussianSampler:
    """Draws discrete Gaussian numbers of one deviation, one at a time without numpy, in a time that does not reveal the
    number's size: how many proposals were rejected is independent of the accepted one.
    """

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma
        t, self._centre, self._twice = proposal_constants(sigma)
        self._proposal = laplace.LaplaceSampler(t)

    def draw(self) -> int:
        """Draw one discrete Gaussian number."""
        return self.add_noise(0)

    def add_noise(self, value: int) -> int:
        """Add one discrete Gaussian number to the value."""
        proposal = self._proposal
        while True:
            words = bits.random_bits(_PROPOSALS * _PROPOSAL_BITS)  # one reading of the stream for nearly every draw
            for _ in range(_PROPOSALS):
                v, parts = words & _V_MASK, proposal.parts_of_word((words & _PROPOSAL_MASK) >> _WIDTH)
                words >>= _PROPOSAL_BITS
                if parts is not None and self._accepts(parts, v):
                    return proposal.add_parts(value, *parts)

    def _accepts(self, parts: tuple[float, int, int], v: int) -> bool:
        """Return whether −ln V ≥ γ for the proposal of these parts."""
        distance = parts[0] * self._proposal.unit + parts[1] - self._centre
        gamma = distance * distance / self._twice
        gap = math.log(max(v, 1)) - _WIDTH_IN_NATS + gamma  # γ − (−ln V)
        if v < _SURE or abs(gap) < _MARGIN * (1 + gamma):
            return accepts_candidate(self._proposal.add_parts(0, *parts), self.sigma, v)
        return gap < 0


def draw_one(sigma: Fraction) -> int:
    """Draw one discrete Gaussian number, without numpy."""
    return GaussianSampler(sigma).draw()


def draw(sigma: Fraction, count: int) -> Integers:
    """Draw independent discrete Gaussian numbers of one σ."""
    t, centre, twice = proposal_constants(sigma)
    noise = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        y = laplace.draw(t, math.ceil(1.4 * (count - filled)) + 32)
        accepted = y[_are_proposals_accepted(y, centre, twice, [sigma], None)]
        fresh = accepted[: count - filled]
        noise[filled : filled + fresh.size] = fresh
        filled += fresh.size
    return noise


class GaussianBatch:
    """Draws discrete Gaussian numbers of many deviations side by side."""

    def __init__(self, sigmas: list[Fraction]) -> None:
        self.sigmas = sigmas
        settings = [proposal_constants(sigma) for sigma in sigmas]
        self._proposals = laplace.LaplaceBatch([t for t, _, _ in settings])
        self._centres = np.array([centre for _, centre, _ in settings])
        self._twices = np.array([twice for _, _, twice in settings])

    def draw(self, sigma_indices: NDArray[np.intp]) -> Integers:
        """Draw one discrete Gaussian number for each sigma index, of deviation ``sigmas[sigma_indices]``."""
        noise = np.empty(sigma_indices.size, np.int64)
        pending = np.arange(sigma_indices.size)
        while pending.size:
            sigma_index = sigma_indices[pending]
            y = self._proposals.draw(sigma_index)
            is_accepted = _are_proposals_accepted(
                y, np.take(self._centres, sigma_index), np.take(self._twices, sigma_index), self.sigmas, sigma_index
            )
            noise[pending[is_accepted]] = y[is_accepted]
            pending = pending[~is_accepted]
        return noise


def _are_proposals_accepted(
    y: Integers,
    centre: float | NDArray[np.float64],
    twice: float | NDArray[np.float64],
    sigmas: list[Fraction],
    sigma_index: NDArray[np.intp] | None,
) -> NDArray[np.bool_]:
    """Return which proposals are accepted."""
    gamma = np.abs(y).astype(np.float64)
    gamma -= centre
    gamma *= gamma
    gamma /= twice

    def is_kept(index: int, word: int) -> bool:
        sigma = sigmas[0] if sigma_index is None else sigmas[sigma_index[index]]
        return accepts_candidate(int(y[index]), sigma, word)

    return _are_words_accepted(bits.random_uint64(y.size), gamma, is_kept)


def _are_words_accepted(
    words: NDArray[np.uint64], gamma: Floats, is_kept: Callable[[int, int], bool]
) -> NDArray[np.bool_]:
    """Return where −ln V ≥ γ, V having these first bits; ``is_kept(index, word)`` decides what is too close for
    floating point. The array γ is used up.
    """
    gap = np.maximum(words, np.uint64(1)).astype(np.float64)
    np.log(gap, out=gap)
    gap -= _WIDTH_IN_NATS
    gap += gamma
    # 1 + γ is at least the size of both sides where they are close, so the margin covers their rounding.
    gamma += 1
    gamma *= _MARGIN
    accepted = gap < 0
    for index in np.flatnonzero((np.abs(gap) < gamma) | (words < np.uint64(_SURE))):
        accepted[index] = is_kept(int(index), int(words[index]))
    return accepted


class GaussianBlockSampler:
    """Draws many discrete Gaussian numbers of one large σ: a block by table, then a place in it.

    With S = 2ᵏ, S ≥ σ/64, |X| = S·h + u has weight e^{−(Sh)²/2σ²}·e^{−γ}, γ = u(2Sh + u)/2σ² ≥ 0. So h is drawn from
    the half Gaussian of deviation σ/S (``guide_tables``), u uniformly below S, and the pair is kept with probability
    e^{−γ}; a fair sign follows, and minus zero is refused: each x is proposed in proportion to its own weight (von
    Neumann's rejection). γ is at most S²(2h + 1)/2σ², so nearly all are kept at sight of 24 bits of V.
    """

    def __init__(self, sigma: Fraction, guide: guide_tables.GuideTable) -> None:
        self.sigma = sigma
        self._guide, self._shift = guide, _log2_block_length(sigma)
        self._twice = float(2 * sigma**2)
        heights = np.arange(guide.first, guide.first + len(guide.cuts))
        chances = np.exp(-(4.0**self._shift) * (2 * heights + 1) / self._twice)
        # One unit less than the floor: no rounding of the chance reaches so far. Beyond the table nothing is sure.
        sure_glances = np.append(np.maximum(np.floor(chances * (1 << _GLANCE)) - 1, 0), 0)
        self._sure = sure_glances.astype(np.uint64) << np.uint64(_WIDTH - _GLANCE)

    def draw(self, count: int) -> Integers:
        """Draw independent discrete Gaussian numbers: a word holds a sign, the first bits of V and a place."""
        heights, words = self._guide.draw(count), bits.random_uint64(count)
        signed = words.view(np.int64)
        glances = words << np.uint64(1)  # V's first bits, and below them some of the place, which decide nothing
        unsure = np.flatnonzero(glances >= np.take(self._sure, heights, mode="clip"))
        places = signed & np.int64((1 << self._shift) - 1)
        is_kept = self._are_pairs_accepted(heights[unsure], places[unsure], glances[unsure])
        np.left_shift(heights, self._shift, out=heights)
        numbers = np.bitwise_or(heights, places, out=heights)
        minus = np.right_shift(signed, _WIDTH - 1)  # −1 or 0
        zeros = np.flatnonzero(numbers == 0)
        refused = np.concatenate([unsure[~is_kept], zeros[minus[zeros] < 0]])
        numbers ^= minus
        numbers -= minus
        if refused.size:
            refused = np.unique(refused)  # minus zero may be unsure too
            numbers[refused] = self.draw(refused.size)
        return numbers

    def _are_pairs_accepted(
        self, heights: Integers, places: Integers, glances: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return which pairs are kept, by as many more bits of V as it takes."""
        more = bits.random_uint64(heights.size) >> np.uint64(_GLANCE)
        words = (glances >> np.uint64(_WIDTH - _GLANCE) << np.uint64(_WIDTH - _GLANCE)) | more
        gamma = places * ((heights << (self._shift + 1)) + places).astype(np.float64) / self._twice

        def is_kept(index: int, word: int) -> bool:
            place, height = int(places[index]), int(heights[index])
            return _accepts_gamma_exactly(place * ((height << (self._shift + 1)) + place) / (2 * self.sigma**2), word)

        return _are_words_accepted(words, gamma, is_kept)


def _log2_block_length(sigma: Fraction) -> int:
    """Return the least k with σ/2ᵏ ≤ 64, the largest deviation of a table."""
    return max(0, math.ceil(sigma / guide_tables.LARGEST) - 1).bit_length()


@lru_cache(maxsize=16)
def block_sampler_or_none(sigma: Fraction) -> GaussianBlockSampler | None:
    """Build the sampler of a large σ; None where a place and V do not share a word, or where no table is built."""
    shift = _log2_block_length(sigma)
    guide = guide_tables.build_guide_table("half gaussian", sigma / (1 << shift)) if shift <= _PLACE else None
    return None if guide is None else GaussianBlockSampler(sigma, guide)
