"""How far sums of noises can lie: never further than stated, against laws added up exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.mechanisms import noise_sums

Law = NDArray[np.float64]
MISSES = (0.05, 1e-3, 1e-6, 1e-9)


def laplace(scale: float) -> Law:
    q = math.exp(-1 / scale)
    return q ** np.abs(np.arange(-_reach(scale), _reach(scale) + 1)) * (1 - q) / (1 + q)


def gaussian(sigma: float) -> Law:
    weights = np.exp(-((np.arange(-_reach(sigma), _reach(sigma) + 1) / sigma) ** 2) / 2)
    return weights / weights.sum()


def _reach(size: float) -> int:
    return math.ceil(45 * size) + 5


def least_width(law: Law, terms: int, miss: float) -> int:
    """By adding the law up: all terms are positive, so nothing is lost."""
    total = law
    for _ in range(terms - 1):
        total = np.convolve(total, law)
    distance = np.abs(np.arange(len(total)) - len(total) // 2)
    order = np.argsort(-distance, kind="stable")
    beyond = np.cumsum(total[order])
    widest = int(np.searchsorted(beyond, miss, side="right"))  # so many of the farthest may lie outside
    return int(distance[order[widest]])


@pytest.mark.parametrize("scale", [0.2, 0.7, 1.0, 3.5, 12.0])
@pytest.mark.parametrize("terms", [1, 2, 3, 7, 20])
def test_sums_of_laplace_noises_lie_within_their_width(scale: float, terms: int) -> None:
    law = laplace(scale)
    for miss in MISSES:
        exact, stated = least_width(law, terms, miss), noise_sums.laplace_sum_width(scale, terms, miss)
        assert exact <= stated <= exact * 1.04 + 4
        assert scale < 3 or miss < 1e-3 or stated <= exact + 1


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("terms", [1, 2, 3, 7, 20])
def test_sums_of_gaussian_noises_lie_within_their_width(sigma: float, terms: int) -> None:
    law, noise = gaussian(sigma), sf.Gaussian(str(sigma))
    for miss in MISSES:
        exact, stated = least_width(law, terms, miss), int(noise.sum_error(terms, str(1 - miss)))
        assert exact <= stated
        assert sigma < 1 or stated <= exact + 1


@pytest.mark.parametrize("noise", [sf.Laplace(3), sf.Gaussian(3), sf.Laplace("0.5", grid="0.25")])
def test_more_noises_and_more_sums_are_wider(noise: sf.Laplace | sf.Gaussian) -> None:
    widths = [noise.sum_error(terms) for terms in (1, 2, 5, 50, 5000, 200_000)]
    assert widths == sorted(widths)
    assert len(set(widths)) == len(widths)
    assert noise.sum_error(5, "0.95", 10) > noise.sum_error(5)
    assert noise.sum_error(5, "0.99") > noise.sum_error(5)
    assert noise.sum_error(1) >= noise.error()


def test_what_is_too_rare_to_compute_is_bounded() -> None:
    """Below 1e-12 the moments decide; they never say less than the law."""
    for scale, terms in ((1.0, 3), (5.0, 10)):
        rare = noise_sums.laplace_sum_width(scale, terms, 1e-15)
        assert (
            noise_sums.laplace_sum_width(scale, terms, 1e-11)
            < rare
            < 2 * noise_sums.laplace_sum_width(scale, terms, 1e-11)
        )


def test_sums_are_as_wide_as_the_square_root_of_their_number() -> None:
    """A total of ten thousand groups is 100 times as far off as one, not 10 000 times."""
    width = float(sf.Laplace(1_000_000).sum_error(10_000))
    assert width == pytest.approx(1.96 * math.sqrt(2 * 10_000) * 1_000_000, rel=1e-3)
