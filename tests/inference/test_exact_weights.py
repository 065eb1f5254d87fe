"""The whole weights of measured moments: each is the least or the largest whole number with its property."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.inference.design import Moment
from sfumato.inference.logistic import ScanWeights, curvature_weight, mean_steps, weight_unit
from sfumato.inference.moments import max_row_norm, moment_weight

A, B, R = 0, 1, 2


def moment(*columns: int, levels: tuple[Any, ...] = ()) -> Moment:
    return Moment(frozenset(levels), columns)


MOMENTS = {
    moment(): 1,
    moment(A): 2,
    moment(A, A): 1,
    moment(A, B): 2,
    moment(B, B): 1,
    moment(levels=(("x", 1),)): 3,
    moment(A, R): 2,
    moment(R): 2,
}


def scan(mean: int, scale: int = 10, blocks: int = 4) -> ScanWeights:
    design = SimpleNamespace(blocks=range(blocks), scale=scale, gram_entry_count_by_moment=MOMENTS)
    logistic: Any = SimpleNamespace(design=design, residual=R, moments=list(MOMENTS))
    return ScanWeights(logistic, mean)


def test_weights_of_moments_are_rounded_roots() -> None:
    for entries in range(1, 12):
        assert moment_weight(entries) ** 2 <= 29**2 * entries < (moment_weight(entries) + 1) ** 2
        assert curvature_weight(entries) ** 2 <= 17**2 * entries < (curvature_weight(entries) + 1) ** 2


def test_the_norm_of_a_row_adds_a_step_or_a_square_for_each_block() -> None:
    moments = MOMENTS | {moment(A, A, levels=(("x", 1),)): 1}  # a part of the squares
    design: Any = SimpleNamespace(scale=10, blocks=(None, A, None, B), gram_entry_count_by_moment=moments)
    sizes = [1000 + i for i in range(len(moments))]
    bounded: Any = SimpleNamespace(measures=[SimpleNamespace(size=size) for size in sizes])
    assert max_row_norm(bounded, design) == 100 + 1002 + 100 + 1004


def test_steps_of_the_mean_are_the_most_that_fit() -> None:
    for rows in (1, 2, 3, 7, 100):
        for scale in (1, 2000, 4096, 4097, 65_536):
            steps = mean_steps(rows, scale)
            assert steps & (steps - 1) == 0
            assert steps * scale * rows <= 2**26
            assert steps == 2**14 or 2 * steps * scale * rows > 2**26


@pytest.mark.parametrize("mean", [2**8, 2**10, 2**14])
def test_weights_of_a_scan_are_the_least_with_which_the_curvature_is_free(mean: int) -> None:
    weights = scan(mean)
    norm = 3 * 10**2
    assert weights.max_row_norm == norm

    def k(a: int) -> Fraction:
        """C²N/a² in units in which r is in [0, 1], and w in steps of which 4·64 are 1."""
        return Fraction(17**2 * (4 * 64) ** 2 * norm, a**2 * mean**2)

    a, c = weights.gradient_weight, weights.row_count_weight
    assert k(a) < 11
    assert a == 1 or k(a - 1) >= 11
    assert 64 * c**2 <= (a * mean) ** 2 * norm < 64 * (c + 1) ** 2
    entries = {17**2 * e: curvature_weight(e) for e in (1, 2, 3)}
    expected = [
        c,
        entries[289] * 100,
        entries[578] * 10,
        entries[289],
        entries[578],
        entries[289],
        entries[867] * 100,
        a,
        a * 10,
    ]
    assert weights.weights == tuple(expected)
    units = [value * scale for value, scale in zip(expected, (1, 1, 10, 100, 100, 100, 1, 10, 1), strict=True)]
    factors = [1, 256, 256, 256, 256, 256, 256, mean, mean]
    expected_units = [1 / (unit * factor) for unit, factor in zip(units, factors, strict=True)]
    assert weights.deviation_units == pytest.approx(np.array(expected_units), rel=1e-14)


def test_weights_of_the_gradient_and_the_count_are_at_their_bounds_for_any_steps() -> None:
    for mean in (1, 3, 5, 16, 1024):  # 1024, 9 and 4: a² is above 399.02, where 400 is a square
        for scale in range(1, 10):
            for blocks in range(2, 9):
                weights = scan(mean, scale, blocks)
                norm, a, c = (blocks - 1) * scale**2, weights.gradient_weight, weights.row_count_weight
                free = 17**2 * 256**2 * norm
                assert 11 * ((a - 1) * mean) ** 2 <= free < 11 * (a * mean) ** 2
                assert 64 * c**2 <= (a * mean) ** 2 * norm < 64 * (c + 1) ** 2


@pytest.mark.parametrize(("mean", "gradient_weight"), [(2**8, None), (2**8, 1), (2**8, 40), (2**8, 90), (2**7, 130)])
def test_no_row_moves_a_scan_further_than_its_squares(mean: int, gradient_weight: int | None) -> None:
    """For every mean, with the curvature's entries one by one, for regressors at their ends; and for weights of the
    gradient with which the curvature is not free.
    """
    weights = scan(mean)
    if gradient_weight is not None:
        vars(weights)["gradient_weight"] = gradient_weight
    unit = weight_unit(mean)
    assert unit * 256 == mean**2
    moved = []
    for mu in range(mean + 1):
        product = mu * (mean - mu)
        w = min(64, (2 * product + unit) // (2 * unit))  # rounded to the nearest step
        gradient = 3 * (weights.gradient_weight * (mean - mu) * 10) ** 2
        moved.append(gradient + 9 * (17 * w * 100) ** 2)
    assert weights.row_squares == weights.row_count_weight**2 + max(moved)
