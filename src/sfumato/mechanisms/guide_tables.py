"""GuideTable tables: many exact draws of one small law from two random bytes each.

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
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits
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
    total = sums[-1]
    cuts = [(((s - error) << _WORD) // (total + error), ((s + error) << _WORD) // (total - error)) for s in sums]
    last_word = (1 << _WORD) - 1
    inside = [(i, low) for i, (low, high) in enumerate(cuts) if high > 0 and low < last_word]
    if not inside or any(cuts[i][0] != cuts[i][1] for i, _ in inside):
        return None
    first += inside[0][0]
    inner_cuts = np.array([cut for _, cut in inside], np.uint64)
    cells = np.searchsorted(
        inner_cuts, np.arange(1 << _CELL, dtype=np.uint64) << np.uint64(_WORD - _CELL), side="right"
    )
    table = (cells + first).astype(np.int16)
    table[(inner_cuts >> np.uint64(_WORD - _CELL)).astype(np.intp)] = _UNDECIDED
    table[0] = table[-1] = _UNDECIDED
    return GuideTable(table, inner_cuts, first, (kind, size))


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
