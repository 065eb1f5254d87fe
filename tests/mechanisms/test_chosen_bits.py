"""Grids, uniform numbers and Laplace noise at the ends of what they take, from chosen bits, beside whole numbers."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from mechanisms.recorded import recorded
from refusals import assert_refused
from sfumato.mechanisms import bits, grids, laplace

F = Fraction
MP = mpmath.MPContext()
MP.dps = 60
LEAST, MOST = -(2**63), 2**63 - 1


def clamp(value: int, most: int) -> int:
    return max(-most, min(most, value))


# ── grids ──────────────────────────────────────────────────────────────────────────────────────

WHOLE = sorted({sign * (2**k + step) for k in range(63) for step in (-1, 0, 1) for sign in (-1, 1)} | {LEAST, MOST})


@pytest.mark.parametrize("exponent", [-60, -53, -52, -51, -1, 0, 1, 2, 3, 31, 60])
def test_whole_numbers_are_rounded_to_steps_halves_up(exponent: int) -> None:
    grid = F(2) ** exponent
    expected = [clamp(math.floor(F(value) / grid + F(1, 2)), 2**52) for value in WHOLE]
    assert grids.round_to_steps(np.array(WHOLE, np.int64), grid).tolist() == expected
    assert [grids._round_and_clamp(F(value) / grid) for value in WHOLE] == expected
    floats = [float(value) for value in WHOLE] + [k * float(grid) / 4 for k in range(-9, 10)]
    expected = [clamp(math.floor(F(value) / grid + F(1, 2)), 2**52) for value in floats]
    assert grids.round_to_steps(np.array(floats), grid).tolist() == expected
    odd = [math.nan, math.inf, -math.inf]
    assert grids.round_to_steps(np.array(odd), grid).tolist() == [0, 2**52, -(2**52)]


@pytest.mark.parametrize("exponent", [-60, -3, 0, 60])
def test_steps_become_floats_exactly_up_to_two_to_the_fifty_third(exponent: int) -> None:
    grid = F(2) ** exponent
    found = grids._steps_to_floats(np.array(WHOLE, np.int64), grid).tolist()
    assert [F(value) for value in found] == [clamp(value, 2**53) * grid for value in WHOLE]
    for value in (2**55, -(2**55), 7, 0):
        noisy = grids.add_noise_on_grid(value, grid, lambda steps: steps + 2**54, lambda *_: np.zeros(1, np.int64))
        assert F(noisy) == clamp(clamp(math.floor(value / grid + F(1, 2)), 2**52) + 2**54, 2**53) * grid


def test_sums_are_held_at_the_ends_of_what_fits() -> None:
    values = [LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2**62, MOST - 1, MOST]
    steps, noise = (np.array(part, np.int64) for part in zip(*((a, b) for a in values for b in values), strict=True))
    expected = [max(LEAST, min(MOST, int(a) + int(b))) for a, b in zip(steps, noise, strict=True)]
    assert grids._add_clamped_to_int64(steps, noise).tolist() == expected


def test_a_grid_is_a_power_of_two_within_sixty_bits() -> None:
    for exponent in (-60, -59, -1, 0, 1, 59, 60):
        grid = F(2) ** exponent
        assert grids.parse_grid(grid) == grids.parse_grid(float(grid)) == grid
    assert grids.parse_grid(None) is None
    assert grids.parse_grid("0.25") == grids.parse_grid("1/4") == F(1, 4)
    for wrong in (F(1, 2**61), 2**61, 2.0**61, 2.0**-61):
        assert_refused(lambda w=wrong: grids.parse_grid(w), "between 2^-60 and 2^60")
    for wrong in (3, F(1, 3), F(3, 4), F(4, 3), 0.3, "0.1"):
        assert_refused(lambda w=wrong: grids.parse_grid(w), "a power of two, such as")
    for wrong in (0, -1, -0.5, math.nan, math.inf, True, "x"):
        assert_refused(lambda w=wrong: grids.parse_grid(w), "> 0")


def test_an_array_is_described_by_its_kind_and_its_dimensions_alone() -> None:
    for values, words in (
        (3, "one whole number"),
        (np.uint8(3), "one whole number"),
        (0.5, "one float"),
        ("secret", "a value that is not a number"),
        ([1, 2], "a 1-dimensional array of whole numbers"),
        ([[0.5]], "a 2-dimensional array of floats"),
        (["secret"], "a 1-dimensional array of values that are not numbers"),
    ):
        assert str(grids.describe_array(np.asarray(values))) == words


def test_numbers_are_whole_or_floats_of_at_most_eight_bytes() -> None:
    many = [2**70, -(2**70), 5]
    assert grids.as_numeric_array(many, None, "values").tolist() == [MOST, LEAST, 5]
    assert grids.as_numeric_array(tuple(many), F(1), "values").dtype == np.int64
    for wrong in ([True], ["1"], [None], [[1], [1, 2]], np.array([1], np.longdouble), np.array(many, object), 1j):
        assert_refused(lambda w=wrong: grids.as_numeric_array(w, F(1), "values"), "integers or floats")
    assert_refused(lambda: grids.as_numeric_array([0.5, 1], None, "values"), "when the mechanism has no grid")
    assert grids.as_numeric_array([0.5], F(1), "values").tolist() == [0.5]


# ── uniform numbers ────────────────────────────────────────────────────────────────────────────


class Source:
    """Chosen words, and how many bytes were asked for at once."""

    def __init__(self, *values: int, dtype: Any = np.uint64) -> None:
        self._left = np.array(values, dtype).tobytes()
        self.asked: list[int] = []

    def __call__(self, count: int) -> bytes:
        self.asked.append(count)
        taken, self._left = self._left[:count], self._left[count:]
        assert len(taken) == count
        return taken

    @property
    def left(self) -> int:
        return len(self._left)


def test_masks_cover_every_limit_with_no_bit_to_spare() -> None:
    limits = sorted({1, 2, 3, *(2**k + step for k in range(2, 63) for step in (-1, 0, 1)), 2**63 - 1})
    masks = bits._masks_covering_limits(np.array(limits, np.int64)).tolist()
    assert masks == [(1 << (limit - 1).bit_length()) - 1 for limit in limits]


def test_each_number_below_its_limit_is_the_first_of_its_words_that_fits() -> None:
    limits = np.array([6, 1, 2**40 + 1, 2], np.int64)
    source = Source(7 + 8, 2**40 + 5 + 2**60, 3, 6 + 16, 2**40, 5)
    assert bits.random_below_limits(limits, source).tolist() == [5, 0, 2**40, 1]
    assert (source.asked, source.left) == ([24, 16, 8], 0)
    assert bits.random_below_limits(np.array([1, 1], np.int64), Source()).tolist() == [0, 0]
    words = Source(1, 2, 3)
    assert bits.random_uint64(3, words).tolist() == [1, 2, 3]
    assert words.asked == [24]


def test_numbers_below_one_limit_are_high_halves_without_their_bias() -> None:
    for limit in (1, 3, 10, 2**31):
        bias = 2**32 % limit
        drawn = [0, 1, bias, 2**31 + 5, 2**32 - 1, 12345, min(2**32 // limit + 1, 2**32 - 1), 77, 2**30 + 1]
        accepted: list[int | None] = [None] * 4
        pending, source = [0, 1, 2, 3], Source(*drawn, *range(10**9, 10**9 + 40), dtype=np.uint32)
        left = iter([*drawn, *range(10**9, 10**9 + 40)])
        while pending:
            products = [(index, next(left) * limit) for index in pending]
            for index, product in products:
                if product % 2**32 >= bias:
                    accepted[index] = product >> 32
            pending = [index for index in pending if accepted[index] is None]
        assert bits.random_array_below(limit, 4, source).tolist() == accepted


def test_single_numbers_are_read_from_whole_bytes() -> None:
    with recorded(bytes([0b10111001, 0xFF, 0x01])) as stream:
        assert bits.random_bits(5) == 0b10111
        assert bits.random_bits(9) == 0x1FF >> 7 << 0 == 3
    assert stream.left == b""
    with recorded(bytes([0xF0, 0xC0, 0xA0, 0x80])) as stream:
        assert bits.random_below(5) == 4  # 7, 6 and 5 are rejected
    assert stream.left == b""


def test_a_key_is_drawn_twice_and_a_stuck_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(size: int) -> bytes:
        asked.append(size)
        return len(asked).to_bytes(size, "big")

    monkeypatch.setattr(bits, "_keys", {})
    monkeypatch.setattr(bits.os, "urandom", counted)
    assert bits._new_distinct_key() == (2).to_bytes(32, "big")
    assert asked == [32, 32]
    assert len(bits._keys) == 2
    monkeypatch.setattr(bits, "_MAX_KEYS", 4)
    bits._new_distinct_key()
    assert len(bits._keys) == 4
    bits._new_distinct_key()  # as many as are kept: they are forgotten first
    assert len(bits._keys) == 2
    monkeypatch.setattr(bits.os, "urandom", bytes)
    with pytest.raises(sf.SfumatoError):
        bits._new_distinct_key()


def test_digits_grow_with_the_bits_that_are_known() -> None:
    context = bits.decimal_context(33)
    assert (context.prec, context.Emax, context.Emin) == (33, 10**15, -(10**15))
    for width, digits in ((1, 40), (63, 40), (64, 40), (65, 60), (127, 60), (128, 60), (129, 80)):
        seen: list[tuple[int, int, int]] = []

        def decide(v: int, width: int, context: Context, seen: list[Any] = seen) -> str | None:
            seen.append((v, width, context.prec))
            return "enough" if len(seen) == 3 else None

        with recorded(np.array([7, 9], np.uint64).tobytes()):
            assert bits.decide_lazily(1, width, decide) == "enough"
        v = 2**64 + 7
        assert seen == [
            (1, width, digits),
            (v, width + 64, digits + 20),
            (v * 2**64 + 9, width + 128, digits + 40),
        ]


def test_what_is_below_a_probability_is_surely_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 27 digits and 64 bits a margin of (2⁶⁵ + 1)·10⁻¹⁷ = 368.9 units: p is 1000.4 of them."""
    caught: list[Any] = []
    monkeypatch.setattr(bits, "decide_lazily", lambda v, width, decide: caught.append((v, width, decide)))
    context = bits.decimal_context(27)
    bits.is_uniform_below(5, 64, lambda context: context.divide(Decimal("1000.4"), Decimal(2**64)))
    ((v, width, decide),) = caught
    assert (v, width) == (5, 64)
    for v, answer in ((0, True), (630, True), (631, None), (1369, None), (1370, False), (2**63, False)):
        assert decide(v, 64, context) is answer
    bits.is_uniform_below(1, 2, lambda _: Decimal(1) / 4)
    assert caught[-1][2](0, 2, bits.decimal_context(40)) is None  # the interval ends at p: the margin leaves it open


# ── Laplace noise ──────────────────────────────────────────────────────────────────────────────


def magnitude(v: int, scale: Fraction, width: int, *, two_sided: bool) -> int | None:
    """⌊b·(C − ln V)⌋ where all of V's interval agrees."""
    b = MP.mpf(scale.numerator) / scale.denominator
    c = MP.log(2 / (1 + MP.exp(-1 / b))) if two_sided else MP.mpf(0)
    low, high = (b * (c + width * MP.log(2) - MP.log(end)) if end else MP.inf for end in (v + 1, v))
    return int(MP.floor(low)) if high < MP.inf and MP.floor(low) == MP.floor(high) else None


def near_steps(scale: Fraction, *, two_sided: bool) -> list[int]:
    """List the 63 bits of V on both sides of where the magnitude steps, and others."""
    constants = laplace.MagnitudeConstants.for_scale(scale, two_sided=two_sided)
    b = MP.mpf(scale.numerator) / scale.denominator
    found = [0, 1, 2**45 - 1, 2**45 + 1, 2**63 - 1]
    for n in range(1, 9):
        v = int(MP.exp((MP.mpf(constants.lift) - n) / b))
        if 2**47 < v < 2**63:
            spread = int(v * constants.margin / constants.scale)
            found += [
                v + int(k * spread) for k in (-3, -1.02, -0.98, -0.3, 0.3, 0.98, 1.02, 3) if v + k * spread < 2**63
            ]
    return found


@pytest.mark.parametrize("scale", [F(3, 10), F(1), F(7, 2), F(1001, 3)])
@pytest.mark.parametrize("kind", ["law", "batch"])
def test_noise_is_the_floor_that_its_bits_say_and_steps_are_decided_exactly(
    scale: Fraction, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = laplace.MagnitudeConstants.for_scale(scale, two_sided=True)
    chosen = near_steps(scale, two_sided=True)
    words = [2 * v + sign for v in chosen for sign in (0, 1)]
    asked: list[int] = []
    plain = laplace.exact_magnitude

    def noted(v: int, its: Fraction, *, two_sided: bool) -> int:
        assert (its, two_sided) == (scale, True)
        asked.append(v)
        return plain(v, its, two_sided=two_sided)

    monkeypatch.setattr(laplace, "exact_magnitude", noted)
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.array(words[:count], np.uint64))
    if kind == "law":
        noise = laplace.draw(scale, len(words)).tolist()
    else:
        batch = laplace.LaplaceBatch([F(2), scale])
        # the widest margin of all scales: a few more are decided exactly
        constants = max(constants, laplace.MagnitudeConstants.for_scale(F(2), two_sided=True), key=lambda c: c.margin)
        noise = batch.draw(np.ones(len(words), np.intp)).tolist()
    for word, drawn in zip(words, noise, strict=True):
        true = magnitude(word >> 1, scale, 63, two_sided=True)
        assert true is None or drawn == (-true if word & 1 else true)
    own = laplace.MagnitudeConstants.for_scale(scale, two_sided=True)
    for v in chosen:
        x = own.lift - own.scale * math.log(max(v, 1))
        near = abs(x - round(x)) < constants.margin * 0.99 or x > own.last
        far = abs(x - round(x)) > constants.margin * 1.01 and x < own.last
        assert (v in asked) is near or not (near or far)
    assert len(asked) >= 6


@pytest.mark.parametrize("scale", [F(2**24) + 1, F(2**26) - F(1, 2), F(2**26), F(10**12, 7)])
def test_a_large_scale_is_drawn_in_two_parts_of_its_bits(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    k = laplace._low_part_bit_count(scale)
    assert 2**k <= scale / 2**22 < 2 ** (k + 1)
    assert laplace.LaplaceSampler(scale).unit == 2.0**k
    chosen = near_steps(scale / 2**k, two_sided=False)
    highs = [2 * v + sign for v in chosen for sign in (0, 1)]
    lows = [(2**63 + 12345 * i) | 1 for i in range(len(highs))]  # far above what is rejected
    parts = iter((highs, lows))
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.array(next(parts)[:count], np.uint64))
    noise = laplace.draw(scale, len(highs)).tolist()
    for high, low, drawn in zip(highs, lows, noise, strict=True):
        true = magnitude(high >> 1, scale / 2**k, 63, two_sided=False)
        size = None if true is None else (true << k) + low % 2**k
        assert size is None or drawn == (-size if high & 1 else size)


def test_a_low_part_is_kept_unless_its_bits_reject_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = F(2**26)
    k = laplace._low_part_bit_count(scale)
    edge = 1 << (42 - k)
    asked: list[tuple[int, int, int]] = []

    def rejected(d: int, w: int, width: int, its: Fraction) -> bool:
        assert its == scale
        asked.append((d, w, width))
        return w == edge

    monkeypatch.setattr(laplace, "_is_low_part_rejected", rejected)
    with recorded(np.array([(edge + 1 << k) + 2, (edge << k) + 1, (edge - 1 << k) + 3], np.uint64).tobytes()) as stream:
        assert laplace._draw_low_part(scale, k) == 2
        assert laplace._draw_low_part(scale, k) == 3
    assert stream.left == b""
    assert asked == [(1, edge, 64 - k), (3, edge - 1, 64 - k)]
    words = [(edge + 1 << k) + 5, (edge << k) + 6, 7]
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.array(words[:count], np.uint64))
    monkeypatch.setattr(laplace, "_draw_low_part", lambda its, bits_, word: (its == scale, bits_ == k, word) and 99)
    assert laplace._draw_low_parts(scale, k, 3).tolist() == [5, 99, 99]


def test_half_of_all_widths_are_as_wide_as_their_misses_need() -> None:
    """At a miss that is the tail itself, to the last bit of its float: no less than the exact tail allows."""
    for scale in (F(1, 3), F(2), F(77, 5), F(10**5)):
        b = MP.mpf(scale.numerator) / scale.denominator
        q = MP.exp(-1 / b)
        for w in [*range(12), *range(100, 130)]:
            tail = 2 * q ** (w + 1) / (1 + q)
            if not 1e-300 < tail < 1:
                continue
            for miss in (float(tail), math.nextafter(float(tail), 1), math.nextafter(float(tail), 0)):
                found = laplace.half_width(scale, miss)
                assert 2 * q ** (found + 1) / (1 + q) <= miss
                assert w <= found <= w + 1 or MP.mpf(miss) >= tail * (1 - MP.mpf(2) ** -50)
