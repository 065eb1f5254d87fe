"""Ranges of numbers from a sample: how often they miss, exactly, over every sample size and every noise."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sfumato as sf
from sfumato.privacy import codec
from sfumato.release.parts.scales import NoisyScale, SampledScale, _binomial_divergence, _largest_total

_NOISE = np.arange(-80, 81)
CASES = [
    (30, "0.1", 1, 1),
    (400, "0.25", 1, 1),
    (50, "0.5", 2, 3),
    (5, "0.01", 1, 1),
    (2000, "0.1", 1, 1),
    (0, "0.1", 1, 1),
    (300, "0.9", 1, 1),
]
"""Units, the rate, what each adds, and the most that one may add."""


def _scale(rate: str, limit: int, noise: int | Fraction = 2) -> SampledScale:
    return SampledScale(NoisyScale(Fraction(1), sf.Laplace(noise)), Fraction(rate), Fraction(limit))


def _outcomes(units: int, rate: str, adds: int, noise: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The noisy total of the sample with its probability, over all numbers of sampled units and noises."""
    q, sampled = float(Fraction(rate)), np.arange(units + 1)
    log_comb = [math.lgamma(units + 1) - math.lgamma(k + 1) - math.lgamma(units - k + 1) for k in sampled]
    binomial = np.exp(np.array(log_comb) + sampled * math.log(q) + (units - sampled) * math.log1p(-q))
    laplace = np.exp(-np.abs(_NOISE) / noise)
    totals, places = np.unique(np.add.outer(sampled * adds, _NOISE).ravel(), return_inverse=True)
    mass = np.multiply.outer(binomial, laplace / laplace.sum()).ravel()
    return totals.astype(float), np.bincount(places, mass)


@pytest.mark.parametrize(("units", "rate", "adds", "limit"), CASES)
@pytest.mark.parametrize(("confidence", "parts"), [("0.95", 1), ("0.8", 1), ("0.95", 6)])
def test_a_range_misses_no_more_often_than_it_says(
    units: int, rate: str, adds: int, limit: int, confidence: str, parts: int
) -> None:
    scale = _scale(rate, limit)
    totals, mass = _outcomes(units, rate, adds)
    estimates = totals * float(scale.unit_value)
    missed = np.abs(estimates - units * adds) > scale.widths(estimates, confidence, parts)
    assert mass[missed].sum() <= (1 - float(confidence)) / parts


def test_a_range_of_the_noise_alone_would_miss() -> None:
    scale = _scale("0.25", 1)
    totals, mass = _outcomes(400, "0.25", 1)
    estimates = totals * float(scale.unit_value)
    assert mass[np.abs(estimates - 400) > scale.width("0.95", 1)].sum() > 0.2


def test_a_range_is_at_most_twice_as_wide_as_the_deviation_needs() -> None:
    scale = _scale("0.1", 1)
    width = scale.widths(np.array([20_000.0]), "0.95", 1)[0]
    deviation = math.sqrt(20_000 * 0.9 / 0.1)
    assert 1.96 * deviation < width < 2 * 1.96 * deviation


def test_a_unit_that_may_add_more_makes_the_range_wider() -> None:
    estimates = np.array([0.0, 50.0, 1000.0])
    narrow, wide = (_scale("0.1", limit).widths(estimates, "0.95", 1) for limit in (1, 4))
    assert (wide > 1.3 * narrow).all()


@pytest.mark.parametrize("rate", ["0.1", "0.5", "0.9"])
@pytest.mark.parametrize("parts", [1, 6])
def test_sampling_alone_misses_a_quarter_as_often_on_each_side(rate: str, parts: int) -> None:
    """With noise that is nearly always 0, by the binomial law of the sample: the other half is left to the noise."""
    scale = _scale(rate, 1, Fraction(1, 100))
    assert scale.half_width("0.95", 12) == 0
    sampled = np.arange(61)
    estimates = sampled / float(rate)
    widths = scale.widths(estimates, "0.95", parts)
    for units in sampled:
        probabilities = [math.comb(units, k) * float(rate) ** k * (1 - float(rate)) ** (units - k) for k in sampled]
        for missed in (estimates + widths < units, estimates - widths > units):
            assert np.array(probabilities)[missed].sum() <= 0.05 / (4 * parts)


def test_a_range_that_holds_with_others_is_wider() -> None:
    scale, estimates = _scale("0.1", 1, Fraction(1, 100)), np.array([0.0, 50.0, 1000.0])
    widths = [scale.widths(estimates, "0.95", parts) for parts in (1, 2, 8, 64)]
    assert (np.diff(widths, axis=0) > 0).all()


def test_a_scale_is_written_and_read() -> None:
    scale = _scale("0.1", 3)
    assert codec.loads(codec.dumps(scale)) == scale
    assert scale.unit_value == 10
    assert scale.half_width("0.95", 1) == 10 * scale.noise.half_width("0.95", 1)


def test_the_divergence_of_a_sample_is_that_of_a_binomial_law() -> None:
    """s·ln(s/qn) + (n − s)·ln((n − s)/((1 − q)n)), for totals below one as well."""
    for s, n, q in ((0.1, 0.8, 0.5), (0.2, 1.1, 0.1), (3.0, 20.0, 0.1), (2.0, 2.5, 0.7)):
        exact = s * math.log(s / (q * n)) + (n - s) * math.log((n - s) / ((1 - q) * n))
        assert _binomial_divergence(np.array([s]), np.array([n]), q)[0] == pytest.approx(exact, rel=1e-12)
    found = _binomial_divergence(np.array([0.0, 2.0, 3.0]), np.array([4.0, 2.0, 6.0]), 0.5)
    assert found == pytest.approx([4 * math.log(2), 2 * math.log(2), 0])


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_largest_total_is_the_root_of_the_divergence(rate: float) -> None:
    """Found between floats, in 40 digits, and not below its true value by more than a float is wide."""
    sampled, exponent = np.array([0.0, 0.25, 3.0, 100.0, 1e6]), 3.25
    found = _largest_total(sampled, rate, exponent)
    with mpmath.workdps(40):
        q, e = mpmath.mpf(rate), mpmath.mpf(exponent)
        for s, total in zip(map(mpmath.mpf, sampled.tolist()), found.tolist(), strict=True):

            def excess(n: mpmath.mpf, s: mpmath.mpf = s) -> mpmath.mpf:
                first = s * mpmath.log(s / (q * n)) if s else mpmath.mpf(0)
                return first + (n - s) * mpmath.log((n - s) / ((1 - q) * n)) - e

            start = (s + e + mpmath.sqrt(e * (e + 2 * s))) / q
            root = mpmath.findroot(excess, (s / q + e / 10, start), solver="anderson") if s else -e / mpmath.log(1 - q)
            assert abs(total / root - 1) < 1e-9


def test_a_total_without_noise_is_the_one_that_was_sampled() -> None:
    assert _largest_total(np.array([0.0, 5.0]), 0.5, 0.0).tolist() == [0.0, 10.0]
