"""Widths of sums of noises are what their theorems say, margins included, in 30 digits.

Coverage hardly sees a wrong bound: the bounds are conservative. Here each one is written down once more from its
statement, and every digit that floating point has is compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from sfumato.mechanisms import confidence_limits, noise_sums

MP = mpmath.MPContext()
MP.dps = 30
MARGIN = 1 + MP.mpf("1e-9")
SLACK = MP.mpf("0.01")
ETA = 2 * MP.fsum(MP.exp(-2 * (MP.pi * MP.mpf("1.5") * k) ** 2) for k in (1, 2))
Real = Any


def is_near(found: float, expected: Real, tolerance: float = 2e-13) -> bool:
    return bool(abs(MP.mpf(float(found)) - expected) <= tolerance * abs(expected))


def normal_width(miss: Real) -> Real:
    """The w with P(|N| > w) = miss, rounded up as the package does."""
    return MP.sqrt(2) * MP.erfinv(1 - miss) * MARGIN if miss < 1 else MP.mpf(0)


def smoothed_width(weights: Sequence[float], sigmas: Sequence[float], miss: float, terms: int) -> Real:
    """The theorem of weighted Gaussian sums, s = 1.5 and a hundredth of the miss for the smoothing variable."""
    variances = [(MP.mpf(a) ** 2, MP.mpf(s) ** 2) for a, s in zip(weights, sigmas, strict=True)]
    tau_squared = [1 / (1 / MP.mpf("2.25") - 1 / variance) for _, variance in variances]
    both = MP.fsum(a * (v + t) for (a, v), t in zip(variances, tau_squared, strict=True))
    rest = MP.fsum(a * t for (a, _), t in zip(variances, tau_squared, strict=True))
    departure = MP.mpf("2.001") ** 2 / 2 * ETA
    main = normal_width(MP.mpf(miss) * (1 - SLACK) * MP.exp(-departure * terms))
    return (main * MP.sqrt(both) + normal_width(MP.mpf(miss) * SLACK) * MP.sqrt(rest)) * MARGIN


def moment_width(weights: Sequence[float], sigmas: Sequence[float], miss: float) -> Real:
    variance = MP.fsum((MP.mpf(a) * MP.mpf(s)) ** 2 for a, s in zip(weights, sigmas, strict=True))
    return MP.sqrt(2 * variance * MP.log(2 / MP.mpf(miss))) * MARGIN


@pytest.mark.parametrize(
    ("weights", "sigmas", "miss", "smooth"),
    [
        ((1.0, 2.0), (30.0, 50.0), 0.05, True),
        ((3.0, -1.0, 0.25), (900.0, 80.0, 40.0), 0.001, True),
        ((3.0, -1.0, 0.25), (900.0, 80.0, 40.0), 1e-10, True),
        ((3.0, -1.0, 0.25), (900.0, 80.0, 40.0), 9.9e-11, False),
        ((1.0, 1.0), (4.4, 4.4), 0.9, True),
        ((1.0, 1.0), (2.9, 400.0), 0.05, False),
        ((1.0, 4.0), (0.7, 2.0), 0.1, False),
        ((1.0, 4.0), (1.5, 1.5), 0.1, False),
    ],
)
def test_widths_of_mixed_gaussian_sums(
    weights: tuple[float, ...], sigmas: tuple[float, ...], miss: float, smooth: bool
) -> None:
    found = noise_sums.mixed_gaussian_widths(np.array([weights, weights[::-1]]), np.array([sigmas] * 2), miss)
    for row, width in zip((weights, weights[::-1]), found, strict=True):
        smoothed = smoothed_width(row, sigmas, miss, len(row)) if smooth else MP.inf
        by_moments = moment_width(row, sigmas, miss)
        assert is_near(width, min(smoothed, by_moments))
    assert smoothed_width(weights, sigmas, miss, 2) < moment_width(weights, sigmas, miss) if smooth else True


@pytest.mark.parametrize("terms", [1, 10**17, 5 * 10**18])
def test_widths_of_gaussian_sums_grow_with_the_departure_of_each_noise(terms: int) -> None:
    """Of so many noises the factor e^{departure·terms} is seen; fewer are within rounding of a normal law."""
    found = noise_sums.gaussian_widths(np.array([1.0, 3.5]), terms, 60.0, 0.02)
    for length, width in zip((1, 3.5), found, strict=True):
        assert is_near(width, MP.mpf(length) * smoothed_width((1.0,), (60.0,), 0.02, terms))


def test_the_least_smoothed_deviation_leaves_nothing_out() -> None:
    """Just below it the moments give the smaller width for every miss, so that nothing is lost by not smoothing."""
    for miss in (0.999, 0.9, 0.5, 0.05, 1e-3, 1e-6, 1e-10):
        assert moment_width((1.0,), (3.0,), miss) < smoothed_width((1.0,), (3.0,), miss, 1)


@pytest.mark.parametrize("sigma", [0.49, 0.5, 0.6, 1.3])
def test_a_sum_of_gaussian_noises_has_its_share_of_the_miss(sigma: float) -> None:
    for terms, miss in ((1, 0.05), (2, 0.01), (7, 1e-5)):
        near = MP.fsum(MP.exp(-2 * (MP.pi * MP.mpf(sigma)) ** 2 * MP.mpf(j) / (j + 1)) for j in range(1, terms))
        expected = MP.mpf(miss) * MP.exp(-10 * near) * (1 - MP.mpf("1e-9")) if sigma >= 0.5 else MP.mpf(0)
        assert is_near(noise_sums.single_gaussian_miss(sigma, terms, miss), expected)
        by_moments = MP.mpf(sigma) * MP.sqrt(2 * terms * MP.log(2 / MP.mpf(miss))) * (1 + MP.mpf("1e-12"))
        assert is_near(noise_sums.gaussian_sum_chernoff_width(sigma, terms, miss), by_moments, 1e-14)


def slopes(least: str, count: int) -> list[Real]:
    """Shares of 1/scale: so many from ``least`` to a half, equally spaced in their logarithm, and 1 less each."""
    ratio = (MP.mpf("0.5") / MP.mpf(least)) ** (MP.mpf(1) / (count - 1))
    rising = [MP.mpf(least) * ratio**i for i in range(count)]
    return [*rising, *(1 - x for x in rising)]


def least_bound(scale: float, terms: Real, miss: float, shares: list[Real]) -> Real:
    """The least of (kψ(s) + ln(2/miss))/s with ψ(s) = ln[(1 − q)²/((1 − qe^s)(1 − qe^{−s}))]."""
    rate = 1 / MP.mpf(scale)
    q = MP.exp(-rate)
    found = []
    for share in shares:
        s = share * rate
        moment = MP.log((1 - q) ** 2 / ((1 - q * MP.exp(s)) * (1 - q * MP.exp(-s))))
        found.append((terms * moment + MP.log(2 / MP.mpf(miss))) / s)
    return min(found) * MARGIN


def test_chernoff_widths_of_laplace_sums() -> None:
    for scale, terms, miss in ((2.0, 3, 1e-13), (0.5, 1, 1e-20), (20.0, 1000, 0.9)):
        expected = least_bound(scale, terms, miss, slopes("1e-9", 400))
        assert is_near(noise_sums._laplace_chernoff_width(scale, terms, miss), expected, 1e-11)
    rows = ((1.0, -2.0), (0.5, 0.5))
    for scale, miss in ((2.0, 1e-12), (50.0, 0.5), (0.4, 1e-30)):
        found = noise_sums._discrete_chernoff_widths(np.array(rows), scale, miss)
        for row, width in zip(rows, found, strict=True):
            largest = MP.mpf(max(map(abs, row)))
            terms = MP.fsum(MP.mpf(a) ** 2 for a in row) / largest**2
            assert is_near(width, least_bound(scale, terms, miss, slopes("1e-6", 100)) * largest, 1e-11)


def far_width(row: Sequence[Real], miss: Real) -> Real:
    """Chernoff for continuous Laplace variables of scale 1 whose largest weight is 1: ψ(x) = −ln(1 − x²)."""
    terms = MP.fsum(a * a for a in row)
    return min((-terms * MP.log(1 - x * x) + MP.log(2 / miss)) / x for x in slopes("1e-6", 100))


def series_width(row: Sequence[float], miss_bound: float, terms: int = 256) -> Real:
    """Davies' series with its step, its truncation and its aliases, halved to the width."""
    miss = MP.mpf(miss_bound) * (1 - SLACK)
    largest = MP.mpf(max(map(abs, row)))
    shares = [MP.mpf(a) / largest for a in row]
    high = far_width(shares, miss)
    step = 2 * MP.pi / (high + far_width(shares, miss * MP.mpf("1e-4")))
    points = [(k + MP.mpf("0.5")) * step for k in range(terms + 1)]
    values = [MP.fprod(1 / (1 + (a * x) ** 2) for a in shares) for x in points]
    truncation = values[-1] * (1 + 1 / points[-1] ** 2) / MP.pi
    error = 2 * truncation + miss * MP.mpf("1e-4") + MP.mpf("1e-13")
    if not error < miss / 2:
        return MP.inf
    heights = np.array([float(v / (MP.pi * (k + MP.mpf("0.5")))) for k, v in enumerate(values[:-1])])
    places, most, low, above = np.array([float(x) for x in points[:-1]]), float(miss - error), 0.0, float(high)
    for _ in range(50):
        middle = (low + above) / 2
        is_enough = 1 - 2 * math.fsum(heights * np.sin(places * middle)) <= most
        low, above = (low, middle) if is_enough else (middle, above)
    return above * largest


ROWS = ((1.0, -0.5, 0.25), (2.0, 2.0, 0.125))


def test_continuous_widths_are_those_of_the_series() -> None:
    for miss in (0.3, 1e-3):
        found = noise_sums.continuous_widths(np.array(ROWS), miss)
        for row, width in zip(ROWS, found, strict=True):
            assert is_near(width, series_width(row, miss), 2e-12)
    assert np.isfinite(noise_sums.continuous_widths(np.ones((1, 40)), 1e-10)).all()
    assert np.isinf(noise_sums.continuous_widths(np.ones((1, 40)), 9.9e-11)).all()
    # of one noise the characteristic function falls slowly: where what is left out is half of the miss, it says nothing
    assert np.isinf(noise_sums.continuous_widths(np.ones((1, 1)), 1e-7)).all()


def test_a_series_is_added_up_while_a_matrix_is_small() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_sums, "_MOST", 6)
        assert np.isfinite(noise_sums.continuous_widths(np.array(ROWS), 0.3)).all()
        assert np.isinf(noise_sums.continuous_widths(np.array([*ROWS, ROWS[0]]), 0.3)).all()


def test_laplace_widths_add_the_smoothing() -> None:
    scale, miss = 7.0, 0.04
    rows = np.array(ROWS)
    standard = np.array([3.0, 1e9])
    found = noise_sums.laplace_widths(rows, standard, scale, miss)
    for row, width, each in zip(ROWS, found, standard, strict=True):
        squares = MP.fsum(MP.mpf(a) ** 2 for a in row)
        added = MP.sqrt(squares * MP.log(2 / (MP.mpf(miss) * SLACK)) / 2)
        wide = (MP.coth(1 / (2 * MP.mpf(scale))) / 2 * MP.mpf(each) + added) * MARGIN
        largest = MP.mpf(max(map(abs, row)))
        bound = least_bound(scale, squares / largest**2, miss, slopes("1e-6", 100)) * largest
        assert is_near(width, min(wide, bound), 1e-11)


def test_widths_of_mixed_laplace_sums() -> None:
    """Four rows in parts of two; the series is added up for the first part, the others are bounded by moments."""
    rows, sizes, miss = [ROWS[0], ROWS[1], ROWS[0], ROWS[1]], [(3.0, 9.0, 0.6), (5.0, 2.0, 40.0)] * 2, 0.05
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_sums, "_MOST", 6)
        patch.setattr(noise_sums, "_LONGEST_SERIES", 6)
        found = noise_sums.mixed_laplace_widths(np.array(rows), np.array(sizes), miss)
    for index, (row, scales, width) in enumerate(zip(rows, sizes, found, strict=True)):
        spread = [MP.mpf(a) * MP.coth(1 / (2 * MP.mpf(b))) / 2 for a, b in zip(row, scales, strict=True)]
        largest = max(map(abs, spread))
        far = far_width([a / largest for a in spread], MP.mpf(miss) * (1 - SLACK)) * largest
        series = series_width([float(a) for a in spread], miss)
        added = MP.sqrt(MP.fsum(MP.mpf(a) ** 2 for a in row) * MP.log(2 / (MP.mpf(miss) * SLACK)) / 2)
        assert series < far * MP.mpf("0.99")
        assert is_near(width, ((series if index < 2 else far) + added) * MARGIN, 1e-11)
    one = noise_sums.mixed_laplace_widths(np.array([ROWS[0]]), np.array([sizes[0]]), miss)
    assert one[0] == found[0]


def binomial_tail(successes: int, trials: int, chance: float) -> Real:
    p = MP.mpf(chance)
    return MP.fsum(MP.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))


def raised_tail(successes: int, trials: int, chance: float) -> Real:
    """The shorter side is summed and raised by 1e-7 and by 2e-14 for each trial; the longer is what that leaves."""
    if successes <= trials * chance:
        return 1 - raised_tail(trials - successes + 1, trials, 1 - chance)
    return binomial_tail(successes, trials, chance) * (1 + MP.mpf("1e-7") + MP.mpf("2e-14") * trials)


def test_the_tail_of_a_frequency_is_raised_by_what_logarithms_may_lose() -> None:
    for at in ((9, 10, 0.5), (60, 100, 0.5), (40, 100, 0.5), (50, 100, 0.5), (1, 50, 0.001), (5, 5, 0.7), (2, 3, 0.9)):
        assert is_near(confidence_limits.binomial_upper_tail(*at), raised_tail(*at), 2e-13)
    edges = ((0, 5, 0.0), (-1, 5, 0.5), (1, 5, 0.0), (1, 5, -0.1), (6, 5, 0.9), (1, 5, 1.0), (5, 5, 1.5))
    assert [confidence_limits.binomial_upper_tail(*at) for at in edges] == [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert confidence_limits.binomial_upper_tail(1, 1, 1 - 2.0**-50) == 1.0


def late_by(reach: Real, terms: int) -> Real:
    """P(|sum of so many Laplace variables| > reach), each probability from the one before it."""
    chance, few, tails = MP.mpf(2) ** -terms, MP.mpf(0), []
    for n in range(terms):
        few += chance
        tails.append(few)
        chance = chance * (n + terms) / (2 * (n + 1))
    event, total = MP.exp(-reach), MP.mpf(0)
    for j in range(terms):
        total += event * tails[terms - 1 - j]
        event = event * reach / (j + 1)
    return 2 * total


def test_widths_of_laplace_sums_are_the_least_that_the_theorem_gives() -> None:
    """In steps so fine that the margin of 1e-12 is seen; for one noise the reach is −ln(miss)."""
    for scale, terms, miss in (
        (1e12, 1, 0.05),
        (1e12, 4, 1e-3),
        (3e12, 3, 0.3),
        (40.0, 2, 0.3),
        (5.0, 2, 0.05),
        (6.0, 2, 0.05),
    ):
        continuous, low, high = MP.coth(1 / (2 * MP.mpf(scale))) / 2, MP.mpf(0), MP.mpf(60)
        for _ in range(70):
            middle = (low + high) / 2
            is_enough = late_by(middle, terms) + MP.mpf("1e-14") <= MP.mpf(miss)
            low, high = (low, middle) if is_enough else (middle, high)
        least = max(0, int(MP.ceil(high * continuous - MP.mpf("0.5"))))
        assert int(least * (1 + 8e-13)) <= noise_sums.laplace_sum_width(scale, terms, miss) <= least * (1 + 12e-13)
    for scale, terms, miss in ((1e6, 3, 9e-13), (2.0, 5, 1e-15)):
        bound = noise_sums._laplace_chernoff_width(scale, terms, miss)
        assert noise_sums.laplace_sum_width(scale, terms, miss) == math.ceil(bound)
    law = noise_sums.laplace_sum_width(50.0, 4, 1e-12)
    assert law < noise_sums._laplace_chernoff_width(50.0, 4, 1e-12) - 20  # as rare as is still computed
    # noise that hardly ever moves: the moments say less than the law of continuous noise
    assert (
        noise_sums.laplace_sum_width(0.02, 500, 1e-6)
        == math.ceil(noise_sums._laplace_chernoff_width(0.02, 500, 1e-6))
        == 1
    )


def test_a_number_is_halved_down_to() -> None:
    for wanted, end in ((3.14159, 10.0), (1e-3, 7.5), (7.4, 7.5)):
        low, high = Fraction(0), Fraction(end)
        for _ in range(46):
            middle = (low + high) / 2
            low, high = (low, middle) if middle >= wanted else (middle, high)
        assert noise_sums._bisect_least(lambda t, wanted=wanted: t >= wanted, end) == float(high)


@pytest.mark.parametrize("terms", [1, 2, 3, 30, 300])
def test_the_tails_before_the_last_head_are_raised_by_what_logarithms_may_lose(terms: int) -> None:
    """P(N ≤ k − 1 − j), raised by (i + 8)(8 − ln pᵢ) units in the last place of each pᵢ that is taken away."""
    law = [Fraction(math.comb(n + terms - 1, n), 2 ** (n + terms)) for n in range(terms)]
    most = min(terms, 60)
    found, margin, left = noise_sums._negative_binomial_bounds.__wrapped__(terms, most), MP.mpf(0), sum(law)
    assert len(found) == most
    for j in range(most):
        exact = MP.mpf(left.numerator) / left.denominator
        slack = MP.mpf(2) ** -54 * (2 + j)  # of the sums
        assert abs(MP.mpf(float(found[j])) - exact - margin) <= slack + margin * MP.mpf("0.03")
        chance = law[terms - 1 - j]
        p = MP.mpf(chance.numerator) / chance.denominator
        margin += MP.mpf(2) ** -52 * p * (j + 8) * (8 - MP.log(p))
        left -= chance


def test_a_waiting_time_is_raised_by_what_logarithms_may_lose() -> None:
    """By (j + 4)(ln j! + j·|ln t| + t + 4) units in the last place of each of the probabilities, and by 1e-14."""
    for reach, terms in ((3.0, 1), (0.5, 3), (12.0, 6), (300.0, 5), (0.001, 2), (60.0, 80)):
        tails = noise_sums._negative_binomial_bounds.__wrapped__(terms, terms)
        expected = MP.mpf("1e-14")
        t = MP.mpf(reach)
        for j in range(terms):
            log_factorial = MP.loggamma(j + 1)
            lost = MP.mpf(2) ** -52 * (j + 4) * (log_factorial + j * abs(MP.log(t)) + t + 4)
            poisson = MP.exp(j * MP.log(t) - t - log_factorial + lost)
            expected += 2 * poisson * MP.mpf(float(tails[j]))
        assert is_near(noise_sums._laplace_sum_tail(reach, terms), expected, 4e-16 * (reach + 8))
    assert noise_sums._laplace_sum_tail(0.0, 2) == 1.0 + 1e-14
    # of very many terms those beyond the reach are left out: they would add less than 1e-14
    assert abs(noise_sums._laplace_sum_tail(4.0, 10**5) - 1) < 0.02
