"""The samplers against the laws: at every decision boundary by chosen bits, and by chi-square on many draws."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.recorded import recorded, words
from sfumato.mechanisms import gaussian, laplace

DIGITS = 60


def laplace_mass(scale: Fraction, x: int) -> float:
    b = float(scale)
    return math.exp(-abs(x) / b) * math.tanh(1 / (2 * b))


def gaussian_masses(sigma: Fraction, reach: int) -> NDArray[np.float64]:
    s = float(sigma)
    far = np.arange(-reach - math.ceil(40 * s), reach + math.ceil(40 * s) + 1)
    weights = np.exp(-((far / s) ** 2) / 2)
    return (weights / weights.sum())[math.ceil(40 * s) : -math.ceil(40 * s)]


def chi_square(draws: NDArray[np.int64], masses: NDArray[np.float64], reach: int) -> tuple[float, int]:
    """χ² over |x| ≤ reach plus both tails, cells of at least 20 expected draws; and the degrees of freedom."""
    inside = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    tail = (1 - masses.sum()) / 2
    expected = np.concatenate([[tail], masses, [tail]]) * draws.size
    keep = expected >= 20
    rest = expected[~keep].sum(), inside[~keep].sum()
    value = ((inside[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    if rest[0] >= 20:
        value += (rest[1] - rest[0]) ** 2 / rest[0]
    return float(value), int(keep.sum())


def passes(value: float, freedom: int) -> bool:
    """P(χ² > d + 2√(dx) + 2x) ≤ e^{−x} (Laurent & Massart 2000): here x = 14.5, a false alarm below 1e-6."""
    return value <= freedom + 2 * math.sqrt(14.5 * freedom) + 29


SMALL = [Fraction(3, 10), Fraction(1), Fraction(5, 2), Fraction(10), Fraction(64)]


@pytest.mark.parametrize("scale", [*SMALL, Fraction(65), Fraction(1000)], ids=str)
@pytest.mark.parametrize("method", ["vector", "table", "one", "many"])
def test_laplace_draws_follow_the_law(scale: Fraction, method: str, long: bool) -> None:
    count = (10**7 if long else 100_000) if method != "one" else 20_000 if long else 8_000
    if method == "table" and scale > gaussian.LARGEST:
        return
    draws = _drawn(laplace, "laplace", scale, method, count)
    reach = math.ceil(6 * float(scale)) + 2
    masses = np.array([laplace_mass(scale, x) for x in range(-reach, reach + 1)])
    assert passes(*chi_square(draws, masses, reach))


@pytest.mark.parametrize("sigma", [*SMALL, Fraction(65), Fraction(1000)], ids=str)
@pytest.mark.parametrize("method", ["vector", "table", "one", "many"])
def test_gaussian_draws_follow_the_law(sigma: Fraction, method: str, long: bool) -> None:
    """Beyond the largest deviation of a table, a table draws blocks."""
    count = (10**7 if long else 100_000) if method != "one" else 10_000 if long else 5_000
    draws = _drawn(gaussian, "gaussian", sigma, method, count)
    reach = math.ceil(4 * float(sigma)) + 2
    assert passes(*chi_square(draws, gaussian_masses(sigma, reach), reach))


def _drawn(law: object, kind: str, size: Fraction, method: str, count: int) -> NDArray[np.int64]:
    if method == "one":
        return np.array([law.draw_one(size) for _ in range(count)])  # type: ignore[attr-defined]
    if method == "table":
        guide = (
            gaussian.build_guide_table(kind, size) if size <= gaussian.LARGEST else gaussian.block_sampler_or_none(size)
        )
        assert guide is not None
        return guide.draw(count)
    if method == "many":
        kinds = np.arange(count) % 2
        batch = laplace.LaplaceBatch if law is laplace else gaussian.GaussianBatch
        return batch([size, 3 * size]).draw(kinds)[kinds == 0]  # type: ignore[attr-defined]
    return np.concatenate([law.draw(size, 1 << 16) for _ in range(-(-count >> 16))])[:count]  # type: ignore[attr-defined]


def test_a_biased_twin_fails_the_same_test() -> None:
    """Rounding a continuous Laplace is not the discrete law, and the chi-square sees it."""
    rng = np.random.default_rng(1)
    wrong = np.rint(rng.laplace(scale=2.5, size=100_000)).astype(np.int64)
    masses = np.array([laplace_mass(Fraction(5, 2), x) for x in range(-17, 18)])
    assert not passes(*chi_square(wrong, masses, 17))


@pytest.mark.parametrize("scale", [Fraction((1 << 24) + 1), Fraction(10**9), Fraction(10**12)], ids=str)
def test_large_laplace_scales_by_parts(scale: Fraction) -> None:
    """The low bits are nearly uniform, the size is exponential, the sign is fair."""
    draws = np.concatenate([laplace.draw(scale, 1 << 16) for _ in range(5)])
    counts = np.bincount(draws & 63, minlength=64)
    assert passes(float(((counts - draws.size / 64) ** 2 / (draws.size / 64)).sum()), 63)
    edges = -np.log(np.linspace(1, 0, 65)[1:-1]) * float(scale)
    counts = np.bincount(np.searchsorted(edges, np.abs(draws)), minlength=64)
    assert passes(float(((counts - draws.size / 64) ** 2 / (draws.size / 64)).sum()), 63)
    assert abs((draws > 0).sum() - draws.size / 2) < 2.5 * math.sqrt(draws.size)


@pytest.mark.parametrize("sigma", [Fraction(10**6), Fraction(10**12)], ids=str)
def test_large_gaussian_deviations(sigma: Fraction) -> None:
    for draw in (gaussian.draw, lambda sigma, count: gaussian.block_sampler_or_none(sigma).draw(count)):  # type: ignore[union-attr]
        _require_normal(np.concatenate([draw(sigma, 1 << 16) for _ in range(4)]), sigma)


def _require_normal(draws: NDArray[np.int64], sigma: Fraction) -> None:
    from statistics import NormalDist

    edges = np.array([NormalDist().inv_cdf(i / 64) for i in range(1, 64)]) * float(sigma)
    counts = np.bincount(np.searchsorted(edges, draws), minlength=64)
    assert passes(float(((counts - draws.size / 64) ** 2 / (draws.size / 64)).sum()), 63)


# ── exactness at the boundaries ────────────────────────────────────────────────────────────────


def _laplace_boundary(scale: Fraction, t: int, width: int = 63) -> int:
    """⌊2q^t/(1+q)·2^width⌋: below it |X| ≥ t, above it |X| < t; V's interval there holds the boundary itself."""
    with mpmath.workdps(2 * DIGITS):
        q = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        return int(mpmath.floor(2 * q**t / (1 + q) * mpmath.mpf(2) ** width))


def _long(v: int, minus: int = 0) -> bytes:
    """The 128 bits that one number is drawn from: 127 of V and a sign."""
    return (v << 1 | minus).to_bytes(16, "little")


@pytest.mark.parametrize(
    "scale", [Fraction(3, 10), Fraction(1), Fraction(10), Fraction(1000), Fraction(1 << 24)], ids=str
)
def test_laplace_is_exact_around_every_boundary(scale: Fraction) -> None:
    """One unit beside a boundary the answer is certain; on it, more bits decide where the law says."""
    tops = sorted({1, 2, 3, 7, *(int(float(scale) * f) + 1 for f in (0.5, 1, 5, 20, 39))})
    for t in tops:
        for width, draw in ((63, _array_magnitude), (127, _one_magnitude)):
            cut = _laplace_boundary(scale, t, width)
            if cut - _laplace_boundary(scale, t + 1, width) < 4:
                continue  # so far out a word covers several outcomes
            assert draw(scale, cut - 1) >= t
            assert draw(scale, cut + 1) < t
            within = _laplace_boundary(scale, t, width + 64) & (1 << 64) - 1
            assert draw(scale, cut, words(max(0, within - 1))) == t
            assert draw(scale, cut, words(min((1 << 64) - 1, within + 1))) == t - 1


def _one_magnitude(scale: Fraction, v: int, more: bytes = b"") -> int:
    with recorded(_long(v) + more) as stream:
        found = abs(laplace.draw_one(scale))
        assert not (more and stream.left)
        return found


def _array_magnitude(scale: Fraction, v: int, more: bytes = b"") -> int:
    with recorded(words(v << 1) + more) as stream:
        found = abs(int(laplace.draw(scale, 1)[0]))
        assert not (more and stream.left)
        return found


# ── large scales: a high and a low part ────────────────────────────────────────────────────────

LARGE = [Fraction((1 << 24) + 1), Fraction(10**9), Fraction(10**9) / 7, Fraction(10**12)]


def _split(scale: Fraction) -> tuple[int, int]:
    """How many low bits there are, and a low word that is surely kept whatever they say."""
    k = math.floor(scale).bit_length() - 23
    assert 0 < k <= 18
    return k, ((1 << 64) - 1) >> k << k


def _near_one(long: bool) -> int:
    """V so close to 1, within 2⁻²⁴, that the high part is surely 0."""
    return (1 << (127 if long else 63)) - (1 << (103 if long else 39))


def _drawn_apart(scale: Fraction, v: int, minus: int, *low: int, long: bool) -> tuple[int, int]:
    """One draw from chosen words: V's first bits (63 of an array's, 127 of a single number's), and low words; also how
    many of these were left."""
    first = _long(v, minus) if long else words(v << 1 | minus)
    with recorded(first + words(*low)) as stream:
        found = laplace.draw_one(scale) if long else int(laplace.draw(scale, 1)[0])
        assert stream.beyond == 0 or not stream.left
        return found, len(stream.left) // 8


@pytest.mark.parametrize("scale", LARGE, ids=str)
@pytest.mark.parametrize("long", [False, True], ids=["array", "one"])
def test_the_high_part_of_a_large_scale_is_exact_around_every_boundary(scale: Fraction, long: bool) -> None:
    """P(G′ ≥ t) = e^{−t·2^k/b}: certain beside it, and exactly the chosen low bits below it."""
    k, kept = _split(scale)
    width = 127 if long else 63
    for t in (1, 2, 3, 1000, 1 << 21, 1 << 22, 9 << 22):
        with mpmath.workdps(2 * DIGITS):
            chance = mpmath.exp(-mpmath.mpf(t << k) * scale.denominator / scale.numerator)
            cut = int(mpmath.floor(chance * mpmath.mpf(2) ** width))
        for low in (0, 1, (1 << k) - 1):
            for minus in (0, 1):
                sign = -1 if minus else 1
                assert _drawn_apart(scale, cut - 1, minus, kept | low, long=long) == (sign * ((t << k) + low), 0)
                found, left = _drawn_apart(scale, cut + 1, minus, kept | low, kept | 1, long=long)
                zero = t == 1 and low == 0 and minus
                assert (found, left) == (sign * ((t - 1 << k) + low), 1) or zero


@pytest.mark.parametrize("scale", LARGE, ids=str)
@pytest.mark.parametrize("long", [False, True], ids=["array", "one"])
def test_the_low_part_of_a_large_scale_is_exact_around_every_boundary(scale: Fraction, long: bool) -> None:
    """D is drawn anew iff W < 1 − e^{−D/b}, W the bits above it: certain beside it, refined on it."""
    k, kept = _split(scale)
    near_one = _near_one(long)
    for low in (0, 1, 2, 1 << k - 1, (1 << k) - 1):
        with mpmath.workdps(2 * DIGITS):
            chance = -mpmath.expm1(-mpmath.mpf(low) * scale.denominator / scale.numerator)
            cut = int(mpmath.floor(chance * mpmath.mpf(2) ** (64 - k)))
            within = int(mpmath.floor(chance * mpmath.mpf(2) ** (128 - k))) & (1 << 64) - 1
        for w in (cut + 1, cut + 2, 1 << 42 - k, (1 << 42 - k) + 1):
            if w > cut:
                assert _drawn_apart(scale, near_one, 0, w << k | low, kept | 1, long=long) == (low, 1)
        if cut:
            assert _drawn_apart(scale, near_one, 0, (cut - 1) << k | low, kept | 1, long=long) == (1, 0)
        if 0 < within < (1 << 64) - 1:
            again, keep = (cut << k | low, within - 1, kept | 1), (cut << k | low, within + 1, kept | 1)
            assert _drawn_apart(scale, near_one, 0, *again, long=long) == (1, 0)
            assert _drawn_apart(scale, near_one, 0, *keep, long=long) == (low, 1)


@pytest.mark.parametrize("scale", LARGE, ids=str)
@pytest.mark.parametrize("long", [False, True], ids=["array", "one"])
def test_minus_zero_is_drawn_anew(scale: Fraction, long: bool) -> None:
    _, kept = _split(scale)
    near_one = _near_one(long)
    assert _drawn_apart(scale, near_one, 0, kept, long=long) == (0, 0)
    # Anew, and whole: its own V, sign and low part; an array leaves it to the draw of one number.
    first = _long(near_one, 1) if long else words(near_one << 1 | 1)
    for minus, expected in ((0, 1), (1, -1)):
        with recorded(first + words(kept) + _long(_near_one(True), minus) + words(kept | 1)) as stream:
            assert (laplace.draw_one(scale) if long else int(laplace.draw(scale, 1)[0])) == expected
            assert not stream.left


@pytest.mark.parametrize("law", [laplace, gaussian])
@pytest.mark.parametrize("size", [Fraction(10), Fraction(10**6), Fraction(10**9), Fraction(10**12)], ids=str)
def test_one_number_takes_the_same_path_whatever_is_drawn(law: Any, size: Fraction) -> None:
    """The same bytes are read and the same instructions run, for the shortest and for the longest noise (proposals that
    a Gaussian refuses aside: how many there are says nothing about the one that is kept)."""
    single = (laplace.LaplaceSampler if law is laplace else gaussian.GaussianSampler)(size)
    kept = words((1 << 64) - 1) if law is gaussian else b""
    low = words((1 << 64) - 1) if math.floor(size) > 1 << 24 else b""
    paths, sizes = set(), []
    for exponent in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        v = (1 << 127) * 3 // 4 >> exponent - 1
        if law is gaussian:
            kept = words(0x123456789 if exponent > 5 else 1 << 40)
        further = bytes(3 * 24) if law is gaussian else b""  # proposals that were read and are not needed
        with recorded(kept + _long(v) + further + low) as stream:
            steps: list[int] = []
            found = _instructions(lambda: single.add_noise(0), steps)
            if stream.left or stream.beyond:
                continue  # a proposal that was refused
        sizes.append(found)
        paths.add(tuple(steps))
    assert len(sizes) >= 3
    assert len(paths) == 1
    assert max(sizes) > 2 * min(sizes)


@pytest.mark.parametrize("refused", range(6))
def test_proposals_of_one_number_have_bits_of_their_own(refused: int) -> None:
    """However many are refused before it, the one that is kept is made of its own 24 bytes."""
    far = words((1 << 64) - 1) + _long((1 << 127) >> 50)  # V is nearly 1, and γ large
    kept = words(1 << 40) + _long((1 << 127) * 5 // 7 >> 3)
    unread = words((1 << 64) - 1) + _long(1 << 100)
    with recorded(kept + 3 * unread) as stream:
        expected = gaussian.draw_one(Fraction(10))
        assert not stream.left
        assert not stream.beyond
    with recorded(refused * far + kept + 3 * unread) as stream:
        assert gaussian.draw_one(Fraction(10)) == expected != 0
        assert not stream.beyond


def _instructions(call: Callable[[], int], into: list[int]) -> int:
    """Runs a call and notes every instruction of the samplers that it passes."""
    files = {laplace.__file__, gaussian.__file__}

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            into.append(frame.f_lasti)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    finally:
        sys.settrace(before)


LAWS = [
    ("laplace", Fraction(5, 2)),
    ("laplace", Fraction(64)),
    ("gaussian", Fraction(3)),
    ("gaussian", Fraction(64)),
    ("half gaussian", Fraction(65, 2)),
]


@pytest.mark.parametrize(("kind", "size"), LAWS, ids=str)
def test_tables_are_exact_around_every_cut(kind: str, size: Fraction, long: bool) -> None:
    """Cuts of the table, from 60 digits: words beside one are decided, the cut itself is refined. (All with --long.)"""
    guide = gaussian.build_guide_table(kind, size)
    assert guide is not None
    with mpmath.workdps(DIGITS):
        scale = mpmath.mpf(size.numerator) / size.denominator
        reach = int(size * (130 if kind == "laplace" else 16)) + 5
        power = 1 if kind == "laplace" else 2
        half = [mpmath.exp(-((x / scale) ** power) / power) for x in range(reach + 1)]
        lower = [mpmath.mpf(0)] * reach if kind == "half gaussian" else half[:0:-1]
        below = list(itertools.accumulate([*lower, *half]))  # at x + reach: of all up to x

    def share(x: int, width: int) -> int:
        """⌊F(x)·2^width⌋, within the numbers of the table and next to them."""
        if not -reach <= x <= reach:
            return 0 if x < 0 else 1 << width
        with mpmath.workdps(DIGITS):
            return int(mpmath.floor(below[x + reach] / below[-1] * mpmath.mpf(2) ** width))

    step = 1 if long else max(1, len(guide.cuts) // (25 if size < 10 else 8))  # a large table takes longer to refine
    for index in range(0, len(guide.cuts), step):
        x, cut = guide.first + index, int(guide.cuts[index])
        assert cut == share(x, 64)
        before, after = share(x - 1, 64), share(x + 1, 64)
        for word, expected in ((cut - 1, {x}), (cut + 1, {x + 1}), (cut, {x, x + 1})):
            if before < word < after:
                assert _table_draw(guide, word) in expected
        if before < cut < after:
            # The word is the cut's own: the next 64 bits decide where F(x) lies within it.
            finer = share(x, 128) & (1 << 64) - 1
            assert _table_draw(guide, cut, max(0, finer - 1)) == x
            assert _table_draw(guide, cut, min((1 << 64) - 1, finer + 1)) == x + 1


def _table_draw(guide: gaussian.GuideTable, word: int, *more: int) -> int:
    """The table's answer to one 64-bit word: its first 16 bits are the cell, the other 48 the refinement."""
    cell = np.array([word >> 48], np.uint16).tobytes()
    with recorded(cell + words((word & ((1 << 48) - 1)) << 16, *more)):
        return int(guide.draw(1)[0])


def test_the_outermost_words_of_a_table_reach_the_far_tails() -> None:
    guide = gaussian.build_guide_table("laplace", Fraction(1))
    assert guide is not None
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-1)
        reach = int(mpmath.floor(mpmath.log(mpmath.mpf(2) ** 64 / (1 + q))))
    assert _table_draw(guide, 0) <= -reach + 1
    assert _table_draw(guide, (1 << 64) - 1) >= reach - 1


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), Fraction(1000), Fraction(10**9)], ids=str)
def test_the_gaussian_s_acceptance_is_exact(sigma: Fraction) -> None:
    """Kept iff V < e^{−γ}: certain beside the threshold, refined on it."""
    t = math.floor(sigma) + 1
    for y in (0, 1, int(sigma), 2 * int(sigma) + 1, 5 * int(sigma)):
        gamma = (abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2)
        if gamma > 40:
            continue
        with mpmath.workdps(DIGITS):
            cut = int(mpmath.floor(mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** 64))
        centre, twice = gaussian.proposal_constants(sigma)[1:]
        sampler = gaussian.GaussianSampler(sigma)
        high, low = divmod(y, int(sampler._proposal.unit))
        assert sampler._proposal.add_parts(0, float(high), low, 0) == y
        for v, expected in ((cut - 1, True), (cut + 1, False)):
            if 0 <= v < 1 << 64:
                assert gaussian.accepts_candidate(y, sigma, v) is expected
                assert sampler._accepts((float(high), low, 0), v) is expected
                with recorded(words(v, v)):
                    (accepted,) = gaussian._are_proposals_accepted(np.array([y]), centre, twice, [sigma], None)
                    (of_many,) = gaussian._are_proposals_accepted(
                        np.array([y]), np.array([centre]), np.array([twice]), [sigma + 1, sigma], np.array([1])
                    )
                assert accepted == of_many == expected


def test_blocks_are_as_short_as_a_table_of_their_heights_allows() -> None:
    for sigma in (Fraction(1), Fraction(64), Fraction(129, 2), Fraction(128), Fraction(257, 2), Fraction(10**9)):
        k = gaussian._log2_block_length(sigma)
        assert sigma / 2**k <= 64
        assert k == 0 or sigma / 2 ** (k - 1) > 64


def test_a_proposal_that_few_leading_bits_do_not_decide_is_decided_by_further_bits() -> None:
    """V is in [1, 2)/2⁶⁴ and e^−γ = 1.44/2⁶⁴, so 56 of 100 are refused; all of 100 decide alike once in 10²⁴."""
    sampler = gaussian.GaussianSampler(Fraction(100))
    high, low = divmod(1037, int(sampler._proposal.unit))
    parts = (float(high), low, 0)
    assert sampler._proposal.add_parts(0, *parts) == 1037
    assert {sampler._accepts(parts, 1) for _ in range(100)} == {True, False}


@pytest.mark.parametrize("sigma", [Fraction(65), Fraction(1000), Fraction(10**6) / 7, Fraction(10**12)], ids=str)
@pytest.mark.parametrize("minus", [False, True])
def test_a_place_in_a_block_is_kept_exactly_as_often_as_its_weight_says(sigma: Fraction, minus: bool) -> None:
    """S·h + u with weight e^{−x²/2σ²}, of which h has e^{−(Sh)²/2σ²}: kept iff V < the rest, and refined on it."""
    blocks = gaussian.block_sampler_or_none(sigma)
    assert blocks is not None
    size = 1 << blocks._shift
    assert 32 < sigma / size <= 64
    for height, place in itertools.product((0, 1, 30, 90), (1, size // 2, size - 1)):
        x = size * height + place
        with mpmath.workdps(DIGITS):
            rest = Fraction(x**2 - (size * height) ** 2) / (2 * sigma**2)
            chance = mpmath.exp(-mpmath.mpf(rest.numerator) / rest.denominator)
            cut, finer = (int(mpmath.floor(chance * mpmath.mpf(2) ** width)) for width in (64, 128))
        signed = -x if minus else x
        assert _block_draw(blocks, height, place, minus, cut - 1) == signed
        assert _block_draw(blocks, height, place, minus, cut - (1 << 50)) == signed
        if cut + 1 < 1 << 64:  # else the refusal needs more bits
            assert _block_draw(blocks, height, place, minus, cut + 1) is None
            assert _block_draw(blocks, height, place, minus, (1 << 64) - 1) is None
        within = finer & (1 << 64) - 1
        assert _block_draw(blocks, height, place, minus, cut, max(0, within - 1)) == signed
        assert _block_draw(blocks, height, place, minus, cut, min((1 << 64) - 1, within + 1)) is None


def _block_draw(
    blocks: gaussian.GaussianBlockSampler, height: int, place: int, minus: bool, v: int, *more: int
) -> int | None:
    """One draw from a block's height, its place and the first 64 bits of V; None if it is refused."""
    cell = int(np.flatnonzero(blocks._guide.cells == height)[0])
    word = minus << 63 | v >> 40 << 39 | place
    again = _plain_one(blocks)
    chosen = np.array([cell], np.uint16).tobytes() + words(word, v << 24 & (1 << 64) - 1, *more)
    with recorded(chosen + again) as stream:
        drawn = int(blocks.draw(1)[0])
        if len(stream.left) in (len(again), len(again) + 8):  # no further bits of V were needed
            return drawn
        assert drawn == 1
        return None


def _plain_one(blocks: gaussian.GaussianBlockSampler) -> bytes:
    """The bytes of a draw that is 1 at sight."""
    cell = int(np.flatnonzero(blocks._guide.cells == 0)[0])
    return np.array([cell], np.uint16).tobytes() + words(1)


def test_minus_zero_of_a_block_is_drawn_anew() -> None:
    blocks = gaussian.block_sampler_or_none(Fraction(1000))
    assert blocks is not None
    cell = _plain_one(blocks)[:2]
    with recorded(cell + words(0)):
        assert int(blocks.draw(1)[0]) == 0
    with recorded(cell + words(1 << 63) + _plain_one(blocks)) as stream:
        assert int(blocks.draw(1)[0]) == 1
        assert not stream.left


def test_no_word_takes_long() -> None:
    """All zeros and all ones: the rarest words there are still end."""
    calls: list[Callable[[], object]] = [
        lambda: laplace.draw_one(Fraction(10)),
        lambda: laplace.draw(Fraction(1, 1000), 1),
        lambda: laplace.draw(Fraction(10**12), 4),
        lambda: gaussian.draw_one(Fraction(1, 1000)),
        lambda: gaussian.draw(Fraction(10**12), 3),
        lambda: gaussian.block_sampler_or_none(Fraction(10**12)).draw(3),  # type: ignore[union-attr]
    ]
    for call in calls:
        for byte in (b"\x00", b"\xff"):
            with recorded(byte * 64):
                call()
    assert calls


@pytest.mark.parametrize("sigma", [Fraction(65), Fraction(1000, 3), Fraction(10**6) + Fraction(1, 3), Fraction(2**40)])
def test_a_pair_is_kept_at_sight_only_where_its_farthest_place_would_be(sigma: Fraction) -> None:
    """The first bits of V decide where V is below e^−γ of every place of a block, and lose at most two of 2²⁴."""
    sampler = gaussian.block_sampler_or_none(sigma)
    assert sampler is not None
    block = 1 << sampler._shift
    *sure, beyond = sampler._sure.tolist()
    assert beyond == 0
    assert len(sure) == len(sampler._guide.cuts)
    for height, word in enumerate(sure):
        farthest, end = ((block - less) * (2 * block * height + block - less) / (2 * sigma**2) for less in (1, 0))
        assert word <= 2**64 * mpmath.exp(-mpmath.mpf(farthest.numerator) / farthest.denominator)
        glances = 2**24 * mpmath.exp(-mpmath.mpf(end.numerator) / end.denominator)
        assert word == 0 or glances - 2 - 1e-6 <= word / 2**40 <= glances - 1 + 1e-6  # one is left for rounding
