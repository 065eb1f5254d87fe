"""Exact sampling of the discrete Laplace, P(x) ∝ e^{−|x|/b} on the integers, for every rational b.

|X| has P(|X| ≥ t) = 2q^t/(1+q) for t ≥ 1 with q = e^{−1/b} (theory: noise on ℤ), so with V uniform |X| = max(0,
⌊b·(C − ln V)⌋), C = ln 2 − ln(1+q), and the sign is one more bit. Arrays are computed in floating point; an element
is accepted only if b·(C − ln V) is further from the next integer than any rounding could carry it, and otherwise
decided exactly (``bits``) from the same bits.

Beyond b = 2²⁴ floating point would leave too many undecided. There |X| is a geometric number, G = D + 2^k·G′ with D
< 2^k and G′ independent: G′ is geometric of scale b/2^k, and D has P(D = d) ∝ e^{−d/b}, drawn by rejection from the
uniform. With a random sign, and minus zero rejected, that is the discrete Laplace (Canonne, Kamath & Steinke 2020,
Alg. 2).
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.mechanisms import bits
from sfumato.quick_dataclass import dataclass

DIRECT = Fraction(1 << 24)  # the largest scale computed in one piece
_WIDTH = 63  # bits of V; the last of a 64-bit word is the sign
_LONG = 127  # bits of V where one number is drawn
WORD_BITS = _LONG + 1
"""The bits that one number is drawn from, its sign included."""
_FAR = 1 << 45  # above every high part: 127·ln 2 times 2²⁴ is below 2³¹
_SURE = 2.0**45  # a V below this many units of 2^-63 is left to exact arithmetic: its interval is too wide
_LN2 = math.log(2)


@dataclass(frozen=True)
class MagnitudeConstants:
    """The constants of a scale in floating point: |X| = ⌊lift − scale·ln v⌋ for v units of 2^−width, unless within the
    margin of an integer.
    """

    scale: float
    lift: float
    margin: float
    last: float
    """A magnitude above this comes from a v too small to decide in floating point."""

    @classmethod
    def for_scale(cls, scale: Fraction, *, two_sided: bool, width: int = _WIDTH) -> MagnitudeConstants:
        """Compute the constants of a scale; ``two_sided`` gives the magnitude of a two-sided draw (with C), otherwise
        of a geometric number.
        """
        b = float(scale)
        c = _LN2 - math.log1p(math.exp(-1 / b)) if two_sided else 0.0
        # scale·ln v and lift are each below 90·b in size and computed within 8 units in the last place
        # (the float of v, the logarithm, two products); v's interval adds b/v ≤ b·2⁻⁴⁵.
        margin = b * 2.0**-42 + 2.0**-50
        return cls(b, b * (c + width * _LN2), margin, b * (c + (width - 45) * _LN2))


@lru_cache(maxsize=4096)
def _cached_magnitude_constants(scale: Fraction, two_sided: bool) -> MagnitudeConstants:
    return MagnitudeConstants.for_scale(scale, two_sided=two_sided)


def exact_magnitude(v: int, scale: Fraction, *, two_sided: bool, width: int = _WIDTH) -> int:
    """Return ⌊b·(C − ln V)⌋, at least 0, for V in [v, v+1)/2^width and as many further bits as it takes."""

    def decide(v: int, width: int, context: Context) -> int | None:
        b = bits.to_decimal(scale, context)
        c = Decimal(0)
        if two_sided:
            q = context.divide(Decimal(-1), b).exp(context)
            c = context.subtract(Decimal(2).ln(context), context.add(Decimal(1), q).ln(context))
        low, high = bits.minus_log_interval(v, width, context)
        ends = (context.multiply(b, context.add(low, c)), context.multiply(b, context.add(high, c)))
        value = bits.common_floor(ends, context.multiply(b, Decimal(2 * width)), context)
        return None if value is None else max(0, value)

    return bits.decide_lazily(v, width, decide)


class LaplaceSampler:
    """Draws discrete Laplace numbers of one scale, one at a time, without numpy.

    A draw's time must not tell its size. So every draw reads 128 bits, of which 127 are V, more than the longest noise
    needs; its parts are floats, or lie far above zero (``_FAR``), where whole numbers are equally long; and the value
    it is added to takes that distance off again.
    """

    def __init__(self, scale: Fraction) -> None:
        self.scale = scale
        self._low = 0 if scale <= DIRECT else _low_part_bit_count(scale)
        self.unit = float(1 << self._low)
        self._high_scale = scale / (1 << self._low)
        self._magnitude_constants = MagnitudeConstants.for_scale(self._high_scale, two_sided=not self._low, width=_LONG)
        self._far = _FAR << self._low

    def draw(self) -> int:
        """Draw one discrete Laplace number."""
        return self.add_noise(0)

    def add_noise(self, value: int) -> int:
        """Add one discrete Laplace number to the value."""
        return self.add_parts(value, *self.draw_parts())

    def draw_parts(self) -> tuple[float, int, int]:
        """Draw one number, as (high, low, minus): its magnitude is high·unit + low."""
        while True:
            parts = self.parts_of_word(bits.random_bits(WORD_BITS))
            if parts is not None:
                return parts

    def parts_of_word(self, word: int) -> tuple[float, int, int] | None:
        """Return the number that a uniform word of ``WORD_BITS`` begins; None for minus zero, which is drawn anew."""
        high = self._magnitude_of_uniform(word >> 1)
        if not self._low:
            return high, 0, word & 1
        low, minus = _draw_low_part(self.scale, self._low), word & 1
        return (high, low, minus) if high or low or not minus else None

    def add_parts(self, value: int, high: float, low: int, minus: int) -> int:
        """Add a draw, given by its parts, to the value."""
        offset_size = (int(high + _FAR) << self._low) + low  # and as much more as is taken off here
        return value + self._far - offset_size if minus else value - self._far + offset_size

    def _magnitude_of_uniform(self, v: int) -> float:
        piece = self._magnitude_constants
        if v >= _SURE:
            fraction, size = math.modf(piece.lift - piece.scale * math.log(v))
            if piece.margin < fraction < 1 - piece.margin:
                return size
        return float(exact_magnitude(v, self._high_scale, two_sided=not self._low, width=_LONG))


def draw_one(scale: Fraction) -> int:
    """Draw one discrete Laplace number, without numpy."""
    return LaplaceSampler(scale).draw()


def half_width(scale: Fraction, miss: float) -> int:
    """Return the least integer w with P(|Y| > w) ≤ miss, by the exact tail P(|Y| ≥ t) = 2q^t/(1+q)."""
    b = float(scale)
    lift = math.log(2) - math.log1p(math.exp(-1 / b))
    return max(0, math.ceil(b * (lift - math.log(miss)) * (1 + 1e-12)) - 1)


def draw(scale: Fraction, count: int) -> Integers:
    """Draw independent discrete Laplace numbers of one scale."""
    if scale > DIRECT:
        return _draw_high_and_low_parts(scale, count)
    words = bits.random_uint64(count)
    magnitudes, undecided = _magnitudes_and_undecided(words >> np.uint64(1), _cached_magnitude_constants(scale, True))
    for index in undecided:
        magnitudes[index] = exact_magnitude(int(words[index] >> np.uint64(1)), scale, two_sided=True)
    return _with_signs_from_words(magnitudes, words)


class LaplaceBatch:
    """Draws discrete Laplace numbers of many scales side by side."""

    def __init__(self, scales: list[Fraction]) -> None:
        self.scales = scales
        self._split = any(scale > DIRECT for scale in scales)
        pieces = [] if self._split else [_cached_magnitude_constants(scale, True) for scale in scales]
        self._negated = np.array([-piece.scale for piece in pieces])
        self._lift = np.array([piece.lift for piece in pieces])
        self._last = np.array([piece.last for piece in pieces])
        # The largest margin: a few more elements than necessary are decided exactly.
        self._margin = max((piece.margin for piece in pieces), default=0.0)

    def draw(self, scale_indices: NDArray[np.intp]) -> Integers:
        """Draw one discrete Laplace number for each of ``scale_indices``, of scale ``scales[scale_indices]``."""
        if self._split:
            return self._draw_law_by_law(scale_indices)
        words = bits.random_uint64(scale_indices.size)
        x = np.maximum(words >> np.uint64(1), np.uint64(1)).astype(np.float64)
        np.log(x, out=x)
        x *= np.take(self._negated, scale_indices)
        x += np.take(self._lift, scale_indices)
        magnitudes = np.floor(x)
        is_beyond_last = x > np.take(self._last, scale_indices)
        x -= magnitudes
        x -= 0.5
        np.abs(x, out=x)
        for index in np.flatnonzero((x > 0.5 - self._margin) | is_beyond_last):
            v = int(words[index] >> np.uint64(1))
            magnitudes[index] = exact_magnitude(v, self.scales[scale_indices[index]], two_sided=True)
        return _with_signs_from_words(magnitudes, words)

    def _draw_law_by_law(self, scale_indices: NDArray[np.intp]) -> Integers:
        """Draw one scale after the other, because some scale is large."""
        noise = np.empty(scale_indices.size, np.int64)
        order = np.argsort(scale_indices, kind="stable")
        starts = np.searchsorted(scale_indices[order], np.arange(len(self.scales) + 1))
        for index in np.unique(scale_indices):
            positions = order[starts[index] : starts[index + 1]]
            noise[positions] = draw(self.scales[index], positions.size)
        return noise


def _magnitudes_and_undecided(v: NDArray[np.uint64], constants: MagnitudeConstants) -> tuple[Floats, NDArray[np.intp]]:
    """Return ⌊lift − scale·ln v⌋ and the indices where floating point cannot decide it: what rounding carries below 0,
    which no magnitude is, lies within the margin.
    """
    x = np.maximum(v, np.uint64(1)).astype(np.float64)
    np.log(x, out=x)
    x *= -constants.scale
    x += constants.lift
    magnitudes = np.floor(x)
    is_beyond_last = x > constants.last
    x -= magnitudes
    x -= 0.5
    np.abs(x, out=x)
    return magnitudes, np.flatnonzero((x > 0.5 - constants.margin) | is_beyond_last)


def _with_signs_from_words(magnitudes: Floats, words: NDArray[np.uint64]) -> Integers:
    noise = magnitudes.astype(np.int64)
    sign = -(words & np.uint64(1)).astype(np.int64)  # 0 or −1: two's complement negation without a branch
    noise ^= sign
    noise -= sign
    return noise


def _draw_high_and_low_parts(scale: Fraction, count: int) -> Integers:
    """Draw for large scales: the high part is geometric, the low part by rejection, then a sign without minus zero."""
    k = _low_part_bit_count(scale)
    high_scale = scale / (1 << k)
    words = bits.random_uint64(count)
    high, undecided = _magnitudes_and_undecided(words >> np.uint64(1), _cached_magnitude_constants(high_scale, False))
    for index in undecided:
        high[index] = exact_magnitude(int(words[index] >> np.uint64(1)), high_scale, two_sided=False)
    noise = (high.astype(np.int64) << k) + _draw_low_parts(scale, k, count)
    sign = -(words & np.uint64(1)).astype(np.int64)
    for index in np.flatnonzero((noise == 0) & (sign != 0)):
        noise[index] = -draw_one(scale)  # minus zero: a fresh draw, which the sign below negates again
    noise ^= sign
    noise -= sign
    return noise


def _low_part_bit_count(scale: Fraction) -> int:
    """Return k with 2^k ≤ b·2⁻²², so that the low part is nearly uniform and the high part's scale is about 2²²."""
    return math.floor(scale).bit_length() - 23


def _draw_low_parts(scale: Fraction, k: int, count: int) -> Integers:
    """Draw independent D in [0, 2^k) with P(D = d) ∝ e^{−d/b}: uniform, kept with probability e^{−d/b} ≥ 1 − 2⁻²²."""
    words = bits.random_uint64(count)
    low = (words & np.uint64((1 << k) - 1)).astype(np.int64)
    for index in np.flatnonzero((words >> np.uint64(k)) <= np.uint64(1 << (42 - k))):
        low[index] = _draw_low_part(scale, k, int(words[index]))
    return low


def _draw_low_part(scale: Fraction, k: int, word: int | None = None) -> int:
    """Draw one D, from this word first: its low bits are D, the others W; D is rejected iff W < 1 − e^{−D/b} ≤ 2⁻²²."""
    while True:
        word = bits.random_bits(64) if word is None else word
        d, w = word & ((1 << k) - 1), word >> k
        if w > 1 << (42 - k) or not _is_low_part_rejected(d, w, 64 - k, scale):
            return d
        word = None


def _is_low_part_rejected(d: int, w: int, width: int, scale: Fraction) -> bool:
    """Return whether W < 1 − e^{−d/b}."""

    def chance(context: Context) -> Decimal:
        return context.subtract(Decimal(1), bits.to_decimal(-d / scale, context).exp(context))

    return bits.is_uniform_below(w, width, chance)
