"""Least squares and the linear programme, beside a solver that others wrote."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.attacks.reconstruction import least_deviations, least_squares


def least(matrix: np.ndarray, answers: np.ndarray, most: float, cost: float) -> float:
    """The least aim, by HiGHS."""
    rows, columns = matrix.shape
    aim = np.r_[np.full(columns, cost), np.ones(2 * rows)]
    equal = np.hstack([matrix, np.eye(rows), -np.eye(rows)])
    bounds = [(0, most)] * columns + [(0, None)] * (2 * rows)
    return float(linprog(aim, A_eq=equal, b_eq=answers, bounds=bounds).fun)


@pytest.mark.parametrize(
    ("people", "questions", "error", "most", "cost"),
    [(20, 60, 1, 1, 0), (30, 20, 1, 1, 0), (40, 100, 6, 1, 0), (12, 30, 2, 5, 0.1), (5, 40, 0, 1, 0), (1, 1, 3, 1, 0)],
)
def test_the_linear_programme_finds_the_least_deviations(
    people: int, questions: int, error: float, most: float, cost: float
) -> None:
    draw = np.random.default_rng(people)
    matrix = draw.integers(0, 2, (questions, people)).astype(float)
    answers = matrix @ draw.integers(0, int(most) + 1, people) + draw.uniform(-error, error, questions)
    found = least_deviations(matrix, answers, most, cost)
    assert found.min() >= 0
    assert found.max() <= most
    reached = float(np.abs(matrix @ found - answers).sum() + cost * found.sum())
    assert reached == pytest.approx(least(matrix, answers, most, cost), abs=1e-5, rel=1e-5)


def test_exact_answers_determine_every_bit_by_both() -> None:
    draw = np.random.default_rng(3)
    secret = draw.integers(0, 2, 60)
    groups = draw.integers(0, 2, (200, 60)).astype(bool)
    told = groups @ secret.astype(float)
    assert np.abs(least_squares(groups, told) - secret).max() < 1e-3
    assert np.abs(least_deviations(groups.astype(float), told) - secret).max() < 1e-3


def test_least_squares_is_the_ridge_estimate_of_textbooks() -> None:
    """Σ(Ax − a)² + 4s²Σ(x − ½)², where s² is the variance of the residuals."""
    draw = np.random.default_rng(4)
    groups = draw.integers(0, 2, (50, 10)).astype(bool)
    told = draw.normal(5, 3, 50)
    a = groups.astype(float)
    centred = told - a.sum(axis=1) / 2
    plain = np.linalg.lstsq(a, centred, rcond=None)[0]
    variance = np.square(centred - a @ plain).sum() / 40
    expected = np.linalg.solve(a.T @ a + 4 * variance * np.eye(10), a.T @ centred) + 0.5
    assert np.abs(least_squares(groups, told) - expected).max() < 1e-5


def test_towns_are_fitted_at_once_with_one_variance() -> None:
    draw = np.random.default_rng(5)
    secret = draw.integers(0, 2, (8, 3))
    groups = draw.integers(0, 2, (40, 8)).astype(bool)
    found = least_squares(groups, groups @ secret.astype(float))
    assert np.abs(found - secret).max() < 1e-3
