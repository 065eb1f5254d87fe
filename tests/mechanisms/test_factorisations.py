"""Factorisations of the matrix of all sums: they are exact, whole, and as good as what is published."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.factorisations import MAX_OPTIMISED, MAX_PERIODS, Factorisation, candidate_factorisations
from sfumato.privacy import codec

LENGTHS = (1, 2, 3, 7, 30, 100)


def variances(made: Factorisation, order: int) -> np.ndarray:
    """Of each period, where one row counts one and the noise has the size of what a row changes."""
    weights = made.weights.astype(float)
    moved = np.abs(weights).sum(axis=0).max() if order == 1 else math.sqrt((weights**2).sum(axis=0).max())
    return (made.decoder_row_norms * moved) ** 2


@pytest.mark.parametrize("periods", LENGTHS)
@pytest.mark.parametrize("order", [1, 2])
def test_running_totals_are_made_of_what_is_measured(periods: int, order: int) -> None:
    for made in (*candidate_factorisations(periods, order, 8), Factorisation("square root", periods, 8)):
        assert made.weights.dtype == np.int64
        assert np.allclose(made.decoder @ made.weights, np.tril(np.ones((periods, periods))), atol=1e-9)
        assert np.allclose(made.decoder_row_norms, np.sqrt((made.decoder**2).sum(axis=1)))
        assert codec.loads(codec.dumps(made)) == made
        assert made.words()


def test_the_square_root_is_the_published_one_with_columns_of_one_length() -> None:
    """Its coefficients are C(2k, k)/4^k (Fichtenberger, Henzinger & Upadhyay 2023)."""
    made = Factorisation("square root", 40, 12).weights / 2**12
    first = made[:, 0] / made[0, 0]
    assert np.allclose(first, [math.comb(2 * k, k) / 4**k for k in range(40)], atol=1e-3)
    assert np.allclose((made**2).sum(axis=0), 1, atol=2e-3)


@pytest.mark.parametrize("periods", [2, 7, 30, 100])
def test_no_factorisation_is_much_better_than_the_optimised_one(periods: int) -> None:
    """For weights w of the days and any v > 0, every X with ones on its diagonal has Σ w_i·error_i ≥ 2·tr((V^½SV^½)^½)
    − Σv with S = LᵀWL (Lagrange): so the worst day of any factorisation errs at least so much, and with equal weights
    the mean does.
    """
    found = variances(Factorisation("optimised", periods, 12), 2)
    sums = np.tril(np.ones((periods, periods)))
    days = np.ones(periods) / periods
    bounds = []
    v = np.full(periods, 1.0)
    for round in range(60):
        for _ in range(8 if round else 60):  # the best v hardly changes from round to round
            roots = np.sqrt(v)
            values = np.linalg.eigh(roots[:, None] * (sums.T @ (days[:, None] * sums)) * roots)
            root = (values[1] * np.sqrt(np.maximum(values[0], 0))) @ values[1].T
            v = np.diag(root).copy()
        scale = np.sqrt(v)
        bounds.append(
            2
            * np.sqrt(
                np.maximum(np.linalg.eigvalsh(scale[:, None] * (sums.T @ (days[:, None] * sums)) * scale), 0)
            ).sum()
            - v.sum()
        )
        if not round:
            assert bounds[0] * (1 - 1e-9) <= found.mean() <= 1.03 * bounds[0]
        gram = root / np.outer(scale, scale)
        errors = np.einsum("ij,ji->i", sums, np.linalg.solve(gram, sums.T)) * np.diag(gram).max()
        days *= errors
        days /= days.sum()
    assert max(bounds) * (1 - 1e-9) <= found.max() <= 1.01 * max(bounds)


def test_trees_by_least_squares_err_less_than_by_blocks_from_below() -> None:
    """A day's total from the fewest blocks, each drawn once, has the variance of as many noises; Honaker's less."""
    made = Factorisation("tree", 64, 0, 2)
    blocks = [bin(day).count("1") for day in range(1, 65)]
    assert (made.decoder_row_norms**2 <= np.array(blocks) + 1e-9).sum() >= 63  # the whole is no block of its own here
    assert (made.decoder_row_norms**2).mean() < 0.8 * np.mean(blocks)
    best = min(variances(each, 1).max() for each in candidate_factorisations(64, 1, 6))
    assert best < 0.7 * variances(made, 1).max()


def test_what_is_chosen_from_is_short_for_long_series() -> None:
    assert [each.form for each in candidate_factorisations(1, 2, 8)] == ["each day"]
    assert [each.form for each in candidate_factorisations(MAX_OPTIMISED, 2, 8)] == ["optimised", "each day"]
    assert [each.form for each in candidate_factorisations(MAX_OPTIMISED + 1, 2, 8)] == ["square root", "each day"]
    assert [each.branching for each in candidate_factorisations(MAX_PERIODS, 1, 8)] == [7, 0]
    assert [each.branching for each in candidate_factorisations(365, 1, 8)] == [2, 3, 4, 5, 8, 20, 0]


@pytest.mark.parametrize(
    ("form", "periods", "bits", "branching"),
    [
        ("cosine", 3, 8, 0),
        ("tree", 3, 8, 1),
        ("optimised", 3, 8, 2),
        ("optimised", 0, 8, 0),
        ("square root", MAX_PERIODS + 1, 8, 0),
        ("square root", 3, 13, 0),
    ],
)
def test_what_is_no_factorisation_is_refused(form: str, periods: int, bits: int, branching: int) -> None:
    with pytest.raises(InvalidParameter):
        Factorisation(form, periods, bits, branching)
