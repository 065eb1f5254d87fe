"""The samplers against the laws: at every decision boundary by chosen bits, and by chi-square on many draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.recorded import recorded, words
from sfumato.mechanisms import gaussian, laplace, tables

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
@pytest.mark.parametrize("way", ["vector", "table", "one", "many"])
def test_laplace_draws_follow_the_law(scale: Fraction, way: str, long: bool) -> None:
    count = (10**7 if long else 300_000) if way != "one" else 20_000
    if way == "table" and scale > tables.LARGEST:
        return
    draws = _drawn(laplace, "laplace", scale, way, count)
    reach = math.ceil(6 * float(scale)) + 2
    masses = np.array([laplace_mass(scale, x) for x in range(-reach, reach + 1)])
    assert passes(*chi_square(draws, masses, reach))


@pytest.mark.parametrize("sigma", [*SMALL, Fraction(65), Fraction(1000)], ids=str)
@pytest.mark.parametrize("way", ["vector", "table", "one", "many"])
def test_gaussian_draws_follow_the_law(sigma: Fraction, way: str, long: bool) -> None:
    count = (10**7 if long else 300_000) if way != "one" else 10_000
    if way == "table" and sigma > tables.LARGEST:
        return
    draws = _drawn(gaussian, "gaussian", sigma, way, count)
    reach = math.ceil(4 * float(sigma)) + 2
    assert passes(*chi_square(draws, gaussian_masses(sigma, reach), reach))


def _drawn(law: object, kind: str, size: Fraction, way: str, count: int) -> NDArray[np.int64]:
    if way == "one":
        return np.array([law.draw_one(size) for _ in range(count)])  # type: ignore[attr-defined]
    if way == "table":
        guide = tables.guide(kind, size)
        assert guide is not None
        return guide.draw(count)
    if way == "many":
        kinds = np.arange(count) % 2
        return law.Many([size, 3 * size]).draw(kinds)[kinds == 0]  # type: ignore[attr-defined]
    return np.concatenate([law.draw(size, 1 << 16) for _ in range(-(-count >> 16))])[:count]  # type: ignore[attr-defined]


def test_a_biased_twin_fails_the_same_test() -> None:
    """Rounding a continuous Laplace is not the discrete law, and the chi-square sees it."""
    rng = np.random.default_rng(1)
    wrong = np.rint(rng.laplace(scale=2.5, size=300_000)).astype(np.int64)
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
    from statistics import NormalDist

    draws = np.concatenate([gaussian.draw(sigma, 1 << 16) for _ in range(4)])
    edges = np.array([NormalDist().inv_cdf(i / 64) for i in range(1, 64)]) * float(sigma)
    counts = np.bincount(np.searchsorted(edges, draws), minlength=64)
    assert passes(float(((counts - draws.size / 64) ** 2 / (draws.size / 64)).sum()), 63)


# ── exactness at the boundaries ────────────────────────────────────────────────────────────────


def _laplace_boundary(scale: Fraction, t: int) -> int:
    """⌊2q^t/(1+q)·2⁶³⌋: below it |X| ≥ t, above it |X| < t; V's interval there holds the boundary itself."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        return int(mpmath.floor(2 * q**t / (1 + q) * mpmath.mpf(2) ** 63))


@pytest.mark.parametrize(
    "scale", [Fraction(3, 10), Fraction(1), Fraction(10), Fraction(1000), Fraction(1 << 24)], ids=str
)
def test_laplace_is_exact_around_every_boundary(scale: Fraction) -> None:
    """One unit of 2⁻⁶³ beside a boundary the answer is certain; on it, more bits are asked for."""
    tops = sorted({1, 2, 3, 7, *(int(float(scale) * f) + 1 for f in (0.5, 1, 5, 20, 39))})
    for t in tops:
        cut = _laplace_boundary(scale, t)
        if cut - _laplace_boundary(scale, t + 1) < 4:
            continue  # so far out a word covers several outcomes
        for ways in (_one_magnitude, _array_magnitude):
            assert ways(scale, cut - 1) >= t
            assert ways(scale, cut + 1) < t
        with recorded(words(cut << 1)) as stream:
            value = laplace.draw_one(scale)
            assert abs(value) in (t - 1, t)
            assert stream.beyond > 0


def _one_magnitude(scale: Fraction, v: int) -> int:
    with recorded(words(v << 1)):
        return abs(laplace.draw_one(scale))


def _array_magnitude(scale: Fraction, v: int) -> int:
    with recorded(words(v << 1)):
        return abs(int(laplace.draw(scale, 1)[0]))


def test_refinement_on_a_boundary_has_the_right_odds() -> None:
    """The boundary cell is split where the law says: the fraction of outcomes matches its exact position."""
    scale, t = Fraction(10), 7
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-mpmath.mpf(1) / 10)
        position = 2 * q**t / (1 + q) * mpmath.mpf(2) ** 63
        share = float(position - mpmath.floor(position))
    hits = 0
    for _ in range(2000):
        with recorded(words(_laplace_boundary(scale, t) << 1)):
            hits += abs(laplace.draw_one(scale)) >= t
    assert abs(hits - 2000 * share) < 5 * math.sqrt(2000 * 0.25)


LAWS = [("laplace", Fraction(5, 2)), ("laplace", Fraction(64)), ("gaussian", Fraction(3)), ("gaussian", Fraction(64))]


@pytest.mark.parametrize(("kind", "size"), LAWS, ids=str)
def test_tables_are_exact_around_every_cut(kind: str, size: Fraction, long: bool) -> None:
    """Cuts of the table, from 60 digits: words beside one are decided, the cut itself is refined. (All with --long.)"""
    guide = tables.guide(kind, size)
    assert guide is not None
    with mpmath.workdps(DIGITS):
        scale = mpmath.mpf(size.numerator) / size.denominator
        reach = int(size * (80 if kind == "laplace" else 16)) + 5

        def weight(x: int) -> mpmath.mpf:
            return (
                mpmath.exp(-abs(x) / scale) if kind == "laplace" else mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * scale**2))
            )

        weights = [weight(x) for x in range(-reach, reach + 1)]
        total = mpmath.fsum(weights)
        below, cuts = mpmath.mpf(0), {}
        for x, w in zip(range(-reach, reach + 1), weights, strict=True):
            below += w
            cuts[x] = int(mpmath.floor(below / total * mpmath.mpf(2) ** 64))
    step = 1 if long else max(1, len(guide.cuts) // 25)
    for index in range(0, len(guide.cuts), step):
        x, cut = guide.first + index, int(guide.cuts[index])
        assert cut == cuts[x]
        for word, expected in ((cut - 1, {x}), (cut + 1, {x + 1}), (cut, {x, x + 1})):
            beside = cuts.get(x - 1, 0) < word and word < cuts.get(x + 1, 1 << 64)
            if beside:
                assert _table_draw(guide, word) in expected


def _table_draw(guide: tables.Guide, word: int) -> int:
    """The table's answer to one 64-bit word: its first 16 bits are the cell, the other 48 the refinement."""
    cell = np.array([word >> 48], np.uint16).tobytes()
    with recorded(cell + words((word & ((1 << 48) - 1)) << 16)):
        return int(guide.draw(1)[0])


def test_the_outermost_words_of_a_table_reach_the_far_tails() -> None:
    guide = tables.guide("laplace", Fraction(1))
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
        centre, twice = gaussian.proposal(sigma)[1:]
        for v, expected in ((cut - 1, True), (cut + 1, False)):
            if 0 <= v < 1 << 64:
                assert gaussian.kept(y, sigma, v) is expected
                with recorded(words(v)):
                    assert bool(gaussian._accepted(np.array([y]), centre, twice, [sigma], None)[0]) is expected


def test_no_word_takes_long() -> None:
    """All zeros and all ones: the rarest words there are still end."""
    calls: list[Callable[[], object]] = [
        lambda: laplace.draw_one(Fraction(10)),
        lambda: laplace.draw(Fraction(1, 1000), 1),
        lambda: laplace.draw(Fraction(10**12), 4),
        lambda: gaussian.draw_one(Fraction(1, 1000)),
        lambda: gaussian.draw(Fraction(10**12), 3),
    ]
    for call in calls:
        for byte in (b"\x00", b"\xff"):
            with recorded(byte * 64):
                call()
    assert calls
