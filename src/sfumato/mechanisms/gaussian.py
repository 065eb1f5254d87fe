"""Exact sampling of the discrete Gaussian, P(x) ∝ e^{−x²/2σ²} on the integers, for every rational σ.

By rejection from the discrete Laplace of scale t = ⌊σ⌋ + 1: a proposal Y is kept with probability e^{−γ}, γ = (|Y|
− σ²/t)²/2σ² (Canonne, Kamath & Steinke 2020, Alg. 3; about 1.3 proposals a draw for large σ). Keeping means −ln V ≥
γ for a uniform V: compared in floating point with a margin no rounding can cross, and exactly (``bits``) in the rare
rest.

Many draws of one σ beyond the guide tables are made in blocks of S = 2ᵏ integers (``GaussianBlockSampler``), which
refuses one proposal in a hundred instead of one in four.

*Guide tables:* many exact draws of one small law from two random bytes each.

The law's distribution function F cuts (0, 1) at the points F(x). A 16-bit word names one of 65,536 cells; a cell
without a cut belongs to one x, and the table says which. For a cell with a cut, 48 more bits make a 64-bit word,
decided by comparison with ⌊F(x)·2⁶⁴⌋; a word that equals one of these integers is still undecided and is refined by
further bits against F(x) in exact arithmetic. So every probability is the law's own. The cuts are computed in
integers of 2⁻³²⁰ with their error carried along.

There are three laws: "laplace" of a scale and "gaussian" of a deviation, on all integers, and "half gaussian", the
Gaussian's weights on 0, 1, 2, … alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.mechanisms import bits, laplace
from sfumato.quick_dataclass import dataclass

LARGEST = 64  # beyond this scale too many cells have a cut

_CELL, _WORD, _FINE = 16, 64, 320
_UNDECIDED = np.int16(-(1 << 15))


@dataclass(frozen=True)
class GuideTable:
    """A guide table: the decided cells, and the cuts for the others; outcome ``first + i`` lies below cut i."""

    cells: NDArray[np.int16]
    cuts: NDArray[np.uint64]
    first: int
    law: tuple[str, Fraction]

    def draw(self, count: int) -> NDArray[np.int64]:
        shorts = bits.random_uint16(count)
        table_outcomes = np.take(self.cells, shorts)
        undecided = np.flatnonzero(table_outcomes == _UNDECIDED)
        outcomes = table_outcomes.astype(np.int64)
        if undecided.size:
            outcomes[undecided] = self._draw_undecided(shorts[undecided])
        return outcomes

    def _draw_undecided(self, shorts: NDArray[np.uint16]) -> NDArray[np.int64]:
        extra_bits = bits.random_uint64(shorts.size) >> np.uint64(_CELL)
        words = (shorts.astype(np.uint64) << np.uint64(_WORD - _CELL)) | extra_bits
        cut_index = np.searchsorted(self.cuts, words, side="right")  # how many cuts are ≤ the word
        outcomes = cut_index.astype(np.int64) + self.first
        is_on_cut = (cut_index > 0) & (self.cuts[np.maximum(cut_index, 1) - 1] == words)
        is_outside = (cut_index == 0) & (words == 0) | (cut_index == len(self.cuts))
        for index in np.flatnonzero(is_on_cut | is_outside):
            outcomes[index] = self._exact_outcome(int(words[index]))
        return outcomes

    def _exact_outcome(self, word: int) -> int:
        """Return the outcome of V in [word, word+1)/2⁶⁴ and further bits: the x with F(x−1) ≤ V < F(x)."""

        def decide(v: int, width: int, context: Context) -> int | None:
            return _outcome_containing_interval(self.law, v, width, context)

        return bits.decide_lazily(word, _WORD, decide)


def _outcome_containing_interval(law: tuple[str, Fraction], v: int, width: int, context: Context) -> int | None:
    """Return the x whose interval holds all of [v, v+1)/2^width, by summing the law from far in its lower tail."""
    kind, size = law
    weights = _unnormalised_weights(kind, size, _negligible_beyond(kind, size, context.prec), context)
    outcomes = _outcome_range(kind, len(weights) - 1)
    total = Decimal(0)
    for x in outcomes:
        total = context.add(total, weights[abs(x)])
    unit = context.divide(total, Decimal(1 << width))
    low, high = context.multiply(unit, Decimal(v)), context.multiply(unit, Decimal(v + 1))
    margin = bits.rounding_slack(total, context)
    below = Decimal(0)
    for x in outcomes:
        after = context.add(below, weights[abs(x)])
        if high <= context.subtract(after, margin):
            return x if low >= context.add(below, margin) or x == outcomes[0] else None
        below = after
    return None


def _outcome_range(kind: str, reach: int) -> range:
    return range(0 if kind == "half gaussian" else -reach, reach + 1)


def _log_ratio_and_change(kind: str, size: Fraction) -> tuple[Fraction, Fraction]:
    """Return ln of the ratio w(1)/w(0), and by how much that logarithm changes from one x to the next."""
    return (-1 / size, Fraction(0)) if kind == "laplace" else (-1 / (2 * size**2), -1 / size**2)


def _unnormalised_weights(kind: str, size: Fraction, reach: int, context: Context) -> list[Decimal]:
    """Return w(0) … w(reach) by recurrence: at most reach² roundings in the last place, far below the slack of ten
    digits.
    """
    ratio, change = (bits.to_decimal(power, context).exp(context) for power in _log_ratio_and_change(kind, size))
    weights = [Decimal(1)]
    for _ in range(reach):
        weights.append(context.multiply(weights[-1], ratio))
        ratio = context.multiply(ratio, change)
    return weights


def _negligible_beyond(kind: str, size: Fraction, digits: int) -> int:
    """Return the |x| beyond which all weights together are below 10^−digits."""
    nats = (digits + 3) * math.log(10)
    return math.ceil(float(size) * (nats if kind == "laplace" else math.sqrt(2 * nats))) + 3


@lru_cache(maxsize=64)
def build_guide_table(kind: str, size: Fraction) -> GuideTable | None:
    """Build the table of a law of scale or deviation ``size`` ≤ LARGEST.

    Return None where the law is one outcome to 64 bits, and in the one case in 2⁵⁰ where a cut lies too close to a
    64-bit word to be distinguished from it here.
    """
    sums, error, first = _cumulative_weights_slack_and_first(kind, size)
    cuts = _certain_cuts(sums, error)
    if not cuts:
        return None
    first += min(cuts)
    inner_cuts = np.array(list(cuts.values()), np.uint64)
    cells = np.searchsorted(
        inner_cuts, np.arange(1 << _CELL, dtype=np.uint64) << np.uint64(_WORD - _CELL), side="right"
    )
    table = (cells + first).astype(np.int16)
    table[(inner_cuts >> np.uint64(_WORD - _CELL)).astype(np.intp)] = _UNDECIDED
    table[0] = table[-1] = _UNDECIDED
    return GuideTable(table, inner_cuts, first, (kind, size))


def _certain_cuts(sums: list[int], error: int) -> dict[int, int]:
    """Return the cuts that part 64-bit words, by the index of the outcome below each; none if one is in doubt."""
    bounds = {index: _bounds_of_cut(part, sums[-1], error) for index, part in enumerate(sums)}
    inside = {index: ends for index, ends in bounds.items() if ends[1] > 0 and ends[0] < (1 << _WORD) - 1}
    return (
        {index: low for index, (low, high) in inside.items()}
        if all(low == high for low, high in inside.values())
        else {}
    )


def _bounds_of_cut(part: int, total: int, error: int) -> tuple[int, int]:
    """Return the least and the greatest ⌊2⁶⁴·p/t⌋ of any p and t that are off from ``part`` and ``total`` by at most
    ``error`` ≤ ``part``.
    """
    return ((part - error) << _WORD) // (total + error), ((part + error) << _WORD) // (total - error)


def _cumulative_weights_slack_and_first(kind: str, size: Fraction) -> tuple[list[int], int, int]:
    """Return running sums of the weights as integers of 2⁻³²⁰, a bound on their error, and the first x.

    Weights by recurrence: w(x+1) = w(x)·r(x), r constant for the Laplace and r(x+1) = r(x)·e^{−1/σ²} for the Gaussian.
    """
    reach = _negligible_beyond(kind, size, 40)
    context = bits.decimal_context(110)
    ratio, change = (
        int(context.multiply(bits.to_decimal(power, context).exp(context), Decimal(1 << _FINE)))
        for power in _log_ratio_and_change(kind, size)
    )
    weights = [1 << _FINE]
    for _ in range(reach):
        weights.append((weights[-1] * ratio) >> _FINE)
        ratio = (ratio * change) >> _FINE
    outcomes = _outcome_range(kind, reach)
    sums = list(accumulate(weights[abs(x)] for x in outcomes))
    # Every product is rounded down by less than one unit and passes on what it got: at most (x+1)² units at x, so
    # (reach+2)³ in a sum; the tails left out are below 10⁻⁴⁰ < 2⁻¹³⁰ of the total.
    return sums, 2 * (reach + 2) ** 3 + (sums[-1] >> 130), outcomes[0]


_WIDTH = 64
_GLANCE, _PLACE = 24, 39  # bits of a block's word: one is the sign, then the first of V, then the place's
_LN2 = math.log(2)
_WIDTH_IN_NATS = _WIDTH * _LN2
_PROPOSALS = 4  # read at once for one draw: all of them are refused once in 300 draws
_PROPOSAL_BITS = laplace.WORD_BITS + _WIDTH
_PROPOSAL_MASK, _V_MASK = (1 << _PROPOSAL_BITS) - 1, (1 << _WIDTH) - 1
_SURE = 1 << 30
# Where γ and −ln V are close, both are below 45 and computed to 2⁻⁴⁰; V's interval is 2⁻³⁰ wide at worst.
_MARGIN = 2.0**-28


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
        if v < _SURE or abs(gap) < _MARGIN:
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
    floating point.
    """
    gap = np.maximum(words, np.uint64(1)).astype(np.float64)
    np.log(gap, out=gap)
    gap -= _WIDTH_IN_NATS
    gap += gamma
    accepted = gap < 0
    for index in np.flatnonzero((np.abs(gap) < _MARGIN) | (words < np.uint64(_SURE))):
        accepted[index] = is_kept(int(index), int(words[index]))
    return accepted


class GaussianBlockSampler:
    """Draws many discrete Gaussian numbers of one large σ: a block by table, then a place in it.

    With S = 2ᵏ, S ≥ σ/64, |X| = S·h + u has weight e^{−(Sh)²/2σ²}·e^{−γ}, γ = u(2Sh + u)/2σ² ≥ 0. So h is drawn from
    the half Gaussian of deviation σ/S (a ``GuideTable``), u uniformly below S, and the pair is kept with probability
    e^{−γ}; a fair sign follows, and minus zero is refused: each x is proposed in proportion to its own weight (von
    Neumann's rejection). γ is at most S²(2h + 1)/2σ², so nearly all are kept at sight of 24 bits of V.
    """

    def __init__(self, sigma: Fraction, guide: GuideTable) -> None:
        self.sigma = sigma
        self._guide, self._shift = guide, _log2_block_length(sigma)
        self._twice = float(2 * sigma**2)
        heights = np.arange(guide.first, guide.first + len(guide.cuts))
        acceptance_probabilities = np.exp(-(4.0**self._shift) * (2 * heights + 1) / self._twice)
        # One unit less than the floor: no rounding of the chance reaches so far. Within the table the chance is above a
        # half; beyond it nothing is sure.
        sure_glances = np.append(np.floor(acceptance_probabilities * (1 << _GLANCE)) - 1, 0)
        self._sure = sure_glances.astype(np.uint64) << np.uint64(_WIDTH - _GLANCE)

    def draw(self, count: int) -> Integers:
        """Draw independent discrete Gaussian numbers: a word holds a sign, the first bits of V and a place."""
        heights, words = self._guide.draw(count), bits.random_uint64(count)
        signed = words.view(np.int64)
        glances = words << np.uint64(1)  # V's first bits, and below them some of the place, which decide nothing
        unsure = np.flatnonzero(glances >= np.take(self._sure, heights, mode="clip"))
        offsets = signed & np.int64((1 << self._shift) - 1)
        is_kept = self._are_pairs_accepted(heights[unsure], offsets[unsure], glances[unsure])
        np.left_shift(heights, self._shift, out=heights)
        numbers = np.bitwise_or(heights, offsets, out=heights)
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
        self, heights: Integers, offsets: Integers, glances: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return which pairs are kept, by as many more bits of V as it takes."""
        more = bits.random_uint64(heights.size) >> np.uint64(_GLANCE)
        words = (glances >> np.uint64(_WIDTH - _GLANCE) << np.uint64(_WIDTH - _GLANCE)) | more
        gamma = offsets * ((heights << (self._shift + 1)) + offsets).astype(np.float64) / self._twice

        def is_kept(index: int, word: int) -> bool:
            offset, height = int(offsets[index]), int(heights[index])
            return _accepts_gamma_exactly(offset * ((height << (self._shift + 1)) + offset) / (2 * self.sigma**2), word)

        return _are_words_accepted(words, gamma, is_kept)


def _log2_block_length(sigma: Fraction) -> int:
    """Return the least k with σ/2ᵏ ≤ 64, the largest deviation of a table."""
    return (math.ceil(sigma / LARGEST) - 1).bit_length()


@lru_cache(maxsize=16)
def block_sampler_or_none(sigma: Fraction) -> GaussianBlockSampler | None:
    """Build the sampler of a large σ; None where a place and V do not share a word, or where no table is built."""
    shift = _log2_block_length(sigma)
    guide = build_guide_table("half gaussian", sigma / (1 << shift)) if shift <= _PLACE else None
    return None if guide is None else GaussianBlockSampler(sigma, guide)
