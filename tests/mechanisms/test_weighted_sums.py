"""Weighted sums of noises lie outside their widths no more often than is said, by the exact law of the sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato.mechanisms.factorisations import Factorisation
from sfumato.mechanisms.noise_sums import continuous_widths, gaussian_widths, laplace_widths

WEIGHTS = [(1,), (1, 1), (1, -2, 3), (5, 1, 1, 1), (2, 3, -4, 1, 1, 1, 2), (1,) * 12]
KINDS = [*itertools.product(["laplace", "gaussian"], [0.3, 1.0, 2.9, 3.0, 20.0])]
MISSES = (0.3, 0.05, 1e-3, 1e-7)


def law(kind: str, size: float) -> np.ndarray:
    """Of one noise, around the middle."""
    reach = math.ceil(size * (45 if kind == "laplace" else 10)) + 3
    x = np.arange(-reach, reach + 1)
    found = np.exp(-np.abs(x) / size) if kind == "laplace" else np.exp(-((x / size) ** 2) / 2)
    return found / found.sum()


def exceeding(weights: tuple[int, ...], kind: str, size: float, width: float) -> float:
    """P(|Σ aⱼYⱼ| > width), by convolution on whole numbers."""
    total, single = np.ones(1), law(kind, size)
    for weight in weights:
        spread = np.zeros((len(single) - 1) * abs(weight) + 1)
        spread[:: abs(weight)] = single
        total = np.convolve(total, spread) if len(total) < 50_000 else _fast(total, spread)
    x = np.arange(len(total)) - len(total) // 2
    return float(total[np.abs(x) > width].sum())


def _fast(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    size = len(first) + len(second) - 1
    return np.maximum(np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size), 0)


def widths(weights: tuple[int, ...], kind: str, size: float, miss: float) -> float:
    row = np.array([weights], float)
    if kind == "laplace":
        return float(laplace_widths(row, continuous_widths(row, miss), size, miss)[0])
    return float(gaussian_widths(np.sqrt((row**2).sum(axis=1)), row.shape[1], size, miss)[0])


@pytest.mark.parametrize(("kind", "size"), KINDS)
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_no_sum_lies_outside_more_often_than_is_said(weights: tuple[int, ...], kind: str, size: float) -> None:
    for miss in MISSES:
        assert exceeding(weights, kind, size, widths(weights, kind, size, miss)) <= miss + 1e-12


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", [(1, 1), (1, -2, 3), (1,) * 12], ids=str)
def test_the_widths_are_not_much_wider_than_they_must_be(weights: tuple[int, ...], kind: str) -> None:
    size = 50.0 if kind == "laplace" else 100.0
    for miss in (0.05, 1e-3):
        least = exceeding(weights, kind, size, 0.95 * widths(weights, kind, size, miss))
        assert least > miss


def test_rare_misses_and_large_matrices_are_bounded_without_a_series() -> None:
    row = np.ones((1, 4))
    assert continuous_widths(row, 1e-11)[0] == math.inf
    assert math.isfinite(laplace_widths(row, continuous_widths(row, 1e-30), 5.0, 1e-30)[0])
    long = Factorisation("tree", 500, 4, 8).decoder
    assert np.isinf(continuous_widths(long, 0.05)).all()
    assert np.isfinite(laplace_widths(long, continuous_widths(long, 0.05), 5.0, 0.05)).all()


def test_the_series_is_never_wider_than_the_bound_without_it() -> None:
    row = Factorisation("tree", 30, 4, 4).decoder
    for miss in MISSES:
        precise = laplace_widths(row, continuous_widths(row, miss), 50.0, miss)
        coarse = laplace_widths(row, np.full(30, math.inf), 50.0, miss)
        assert (precise < coarse).all()
