"""Half-widths hold: by vectors, by exact laws, and by draws of the real sampler, beside twins that miss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.recorded import seeded
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.publish.marginals.estimating import (
    MIN_STEPS,
    _unsigned_laplace_moments,
    adaptive_half_width,
    coarse_gaussian_half_width,
    gaussian_half_width,
    laplace_half_width,
)

DRAWS = 2_000


def law(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """The discrete Gaussian, summed."""
    x = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    weight = np.exp(-((x / sigma) ** 2) / 2)
    return x, weight / weight.sum()


def test_the_factor_equals_its_vector() -> None:
    """The vector takes the normal part with its own variance, σ² − 9, which is 5e-7 less."""
    assert gaussian_half_width(1, 0.05) == pytest.approx(1.9637632, abs=6e-7)
    assert gaussian_half_width(4, 0.05) == 2 * gaussian_half_width(1, 0.05)
    assert gaussian_half_width(1, 0.05, cells=10) == gaussian_half_width(1, 0.005)


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3, 1e-9])
def test_one_noise_of_enough_steps_is_within(beta: float) -> None:
    x, weight = law(MIN_STEPS)
    width = gaussian_half_width(MIN_STEPS**2, beta)
    missed = weight[np.abs(x) > width].sum()
    assert missed <= beta
    assert missed >= 0.9 * beta


def test_on_a_coarse_grid_the_normal_quantile_misses() -> None:
    """The broken twin, a deviation of one step, misses .1171 at β = .05; the bound by moments holds."""
    x, weight = law(1)
    assert weight[np.abs(x) > 1.959964].sum() == pytest.approx(0.1171, abs=1e-4)
    assert weight[np.abs(x) > gaussian_half_width(1, 0.05)].sum() > 0.1
    assert weight[np.abs(x) > coarse_gaussian_half_width(1, 0.05)].sum() <= 0.05


def test_adaptive_widths_equal_their_vector() -> None:
    assert adaptive_half_width([(1, 10)], 0.05, 4) == pytest.approx(1.0070709, abs=1e-7)
    assert 1.959964 / math.sqrt(10) == pytest.approx(0.6198, abs=1e-4)
    two = adaptive_half_width([(1, 10), (2, 10), (0, 5)], 0.05, 4)
    assert two == pytest.approx(3 * adaptive_half_width([(1, 10)], 0.025, 4))


def stopped() -> tuple[np.ndarray, np.ndarray]:
    """Measure one number of truth 0 again and again, at unit precision, and stop where the naive interval misses."""
    noise = Gaussian(MIN_STEPS).apply(np.zeros((DRAWS, 50), np.int64)) / MIN_STEPS
    errors = np.cumsum(noise, axis=1) / np.arange(1, 51)
    naive = 1.959964 / np.sqrt(np.arange(1, 51))
    outside = np.abs(errors) > naive
    stop = np.where(outside.any(axis=1), outside.argmax(axis=1), 49)
    return errors[np.arange(DRAWS), stop], stop + 1.0


@seeded(3)
def test_a_stopper_defeats_the_naive_interval_and_not_the_adaptive_one() -> None:
    errors, precision = stopped()
    naive = np.abs(errors) > 1.959964 / np.sqrt(precision)
    assert naive.mean() > 0.25
    widths = np.array([adaptive_half_width([(1, v)], 0.05, 10) for v in precision])
    assert (np.abs(errors) > widths).mean() <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / DRAWS)


@pytest.mark.parametrize("scale", [0.4, 3, 20])
@pytest.mark.parametrize("beta", [0.05, 1e-6])
def test_laplace_sums_are_within_by_convolution(scale: float, beta: float) -> None:
    """Exact laws of 3·Z₁ − Z₂ + Z₃ beside the bound, which is not far above the least."""
    reach = math.ceil(40 * scale) + 5
    x = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(x) / scale)
    weight /= weight.sum()
    tripled = np.zeros(6 * reach + 1)
    tripled[::3] = weight
    both = np.convolve(np.convolve(tripled, weight), weight)
    y = np.abs(np.arange(len(both)) - len(both) // 2)
    width = laplace_half_width([(np.array([3.0, -1.0, 0.0]), scale), (np.array([1.0]), scale)], beta)
    assert both[y > width].sum() <= beta
    least = np.sort(y)[np.searchsorted(np.cumsum(both[np.argsort(y)]), 1 - beta)]
    assert width <= 2 * least + 3


@pytest.mark.parametrize("beta", [0.05, 1e-6])
def test_laplace_widths_are_the_least_of_their_kind(beta: float) -> None:
    """The least (Σψ + ln(2/β))/s, with the moments summed over the law itself."""
    x = np.arange(-400, 401)
    law = np.exp(-np.abs(x) / 3)
    law /= law.sum()

    def bound(slope: float) -> float:
        moments = sum(math.log(float((law * np.exp(slope * c * x)).sum())) for c in (3, -1, 1))
        return (moments + math.log(2 / beta)) / slope

    least = min(map(bound, np.linspace(0.001, 0.109, 2000)))
    width = laplace_half_width([(np.array([3.0, -1.0]), 3.0), (np.array([1.0]), 3.0)], beta)
    assert least * (1 - 1e-6) <= width <= 1.002 * least


def test_many_different_coefficients_are_rounded_up() -> None:
    rng = np.random.default_rng(6)
    some = rng.uniform(0.1, 1, 4096)
    more = np.concatenate([some, [0.05]])
    exactly, rounded = laplace_half_width([(some, 10.0)], 0.05), laplace_half_width([(more, 10.0)], 0.05)
    assert exactly < rounded < 1.01 * exactly


def test_gaussian_noise_beside_laplace_noise_widens() -> None:
    one = (np.ones(1), 3.0)
    assert laplace_half_width([one], 0.05) < laplace_half_width([one], 0.05, variance=4)
    assert laplace_half_width([(np.zeros(2), 3.0)], 0.05, variance=4) == coarse_gaussian_half_width(4, 0.05)
    assert laplace_half_width([], 0.05) == 0


@seeded(4)
def test_laplace_widths_hold_for_the_real_sampler() -> None:
    noise = Laplace(7).apply(np.zeros((DRAWS, 20), np.int64))
    c = np.linspace(-1, 1, 20)
    missed = (np.abs(noise @ c) > laplace_half_width([(c, 7.0)], 0.05)).mean()
    assert missed <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / DRAWS)


@pytest.mark.parametrize("beta", [0, 1, -1, 2, math.nan])
def test_impossible_chances_are_refused(beta: float) -> None:
    with pytest.raises(InvalidParameter):
        gaussian_half_width(1, beta)
    with pytest.raises(InvalidParameter):
        adaptive_half_width([(1, 1)], beta, 1)


def test_a_precision_is_fixed_beforehand() -> None:
    with pytest.raises(InvalidParameter):
        adaptive_half_width([(1, 1)], 0.05, 0)


@pytest.mark.parametrize("scale", [0.001, 0.3, 2.0, 17.5])
def test_moments_of_unsigned_laplace_noise_are_the_whole_series(scale: float) -> None:
    """Also at the steepest slope, where terms fall by a fifth of a scale only."""
    mean, slopes, log_moments = _unsigned_laplace_moments(scale)
    steps = range(math.ceil(300 * scale) + 2)
    weights = [math.exp(-k / scale) * (2 if k else 1) for k in steps]
    total = math.fsum(weights)
    assert mean == pytest.approx(
        math.fsum(k * weight for k, weight in zip(steps, weights, strict=True)) / total, rel=1e-13
    )
    assert slopes[[0, -1]] * scale == pytest.approx([1e-4, 0.8])
    for slope, log_moment in list(zip(slopes.tolist(), log_moments.tolist(), strict=True))[::11]:
        tilted = [math.exp(slope * k - k / scale) * (2 if k else 1) for k in steps]
        assert log_moment == pytest.approx(math.log(math.fsum(tilted) / total), rel=1e-10, abs=1e-14)
