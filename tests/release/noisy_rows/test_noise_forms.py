"""Linear forms over noises: sparse matrices as numpy computes them, and half-widths that hold by the exact law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm, stack_forms
from sfumato.release.noisy_rows.noisy_columns import ConfidenceStatement, LinearColumn, NumberColumn, count_statements
from sfumato.release.noisy_rows.row_totals import Presence, correlation_or_slope
from sfumato.release.parts.scales import NoisyScale

SCALE = NoisyScale(Fraction(1), sf.Laplace(3), 2)
_REACH = 120


def law() -> np.ndarray:
    """The probabilities of −120 to 120 under discrete Laplace noise of scale 3; what is beyond is below 10⁻¹⁷."""
    found = np.exp(-np.abs(np.arange(-_REACH, _REACH + 1)) / 3)
    return found / found.sum()


def inside(first: Fraction, second: Fraction, width: float, terms: int) -> float:
    """How likely the combination of two sums of so many noises is within a width."""
    one = law()
    for _ in range(terms - 1):
        one = np.convolve(one, law())
    places = np.arange(len(one)) - len(one) // 2
    moved = np.abs(float(first) * places[:, None] + float(second) * places[None, :])
    return float((one[:, None] * one[None, :])[moved <= width + 1e-9].sum())


def width(first: Fraction, second: Fraction, terms: int, confidence: str, parts: int) -> float:
    weights = np.array([float(first)] * terms + [float(second)] * terms)
    form = NoiseForm(np.array([0, 2 * terms]), np.arange(2 * terms), weights).plus(NoiseForm.zero(1))
    noises = IndependentNoises(((SCALE, 2 * terms),), Fraction(confidence))
    return float(noises.widths(form, parts)[0])


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 0), (0, 2), (Fraction(3, 2), Fraction(1, 2)), (5, 4)])
@pytest.mark.parametrize("terms", [1, 2])
def test_the_half_width_of_two_noises_holds(first: Fraction, second: Fraction, terms: int) -> None:
    for confidence, parts in itertools.product(("0.5", "0.95"), (1, 3)):
        missed = (1 - float(confidence)) / parts
        if parts > 1 and terms == 1 and not (first and second):  # a single noise: all parts together, exactly
            missed = 1 - float(confidence) ** (1 / parts)
        for sign in (1, -1):
            found = inside(first, sign * second, width(first, sign * second, terms, confidence, parts), terms)
            assert 1 - found <= missed + 1e-9


def test_equal_noises_are_not_far_off_the_exact_half_width() -> None:
    """The sum of two is far below the sum of their half-widths."""
    one = Fraction(1)
    assert width(one, one, 1, "0.95", 1) < 0.65 * 2 * SCALE.width("0.95", 2)
    assert inside(one, one, width(one, one, 1, "0.95", 1) * 0.85, 1) < 0.95
    assert math.isclose(width(2 * one, 0 * one, 1, "0.95", 1), 2 * SCALE.width("0.95", 1))


def dense(form: NoiseForm, noises: int) -> np.ndarray:
    matrix = np.zeros((len(form), noises))
    np.add.at(matrix, (form.row_of_weight, form.noises), form.weights)
    return matrix


def test_forms_are_sparse_matrices() -> None:
    """Sums, products, gathered rows and frames beside the same operations on dense matrices."""
    generator = np.random.default_rng(5)
    left, right = (np.where(generator.random((7, 9)) < 0.4, generator.integers(-3, 4, (7, 9)), 0) for _ in range(2))
    a, b = (_sparse(matrix) for matrix in (left, right))
    factors, rows = generator.integers(-2, 3, 7).astype(float), np.array([6, -1, 0, 0, 3])
    assert (dense(a.plus(b), 9) == left + right).all()
    assert (dense(a.scaled(factors), 9) == left * factors[:, None]).all()
    taken = dense(a.take(rows), 9)
    assert (taken == np.where(rows[:, None] >= 0, left[rows], 0)).all()
    codes = np.array([0, 1, -1, 1, 0, 2, 1])
    assert (dense(a.sum_by_group(codes, 4), 9) == [left[codes == code].sum(axis=0) for code in range(4)]).all()
    first, end = np.array([0, 2, 5, 3]), np.array([7, 4, 5, 2])
    framed = a.sum_over_ranges(first, end)
    assert framed is not None
    assert (dense(framed, 9) == [left[i:j].sum(axis=0) for i, j in zip(first, end, strict=True)]).all()
    assert (dense(stack_forms([a, b]), 9) == np.vstack([left, right])).all()
    assert len(a.plus(a.scaled(-np.ones(7))).weights) == 0  # what cancels is not kept


def _sparse(matrix: np.ndarray) -> NoiseForm:
    rows, noises = np.nonzero(matrix)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return NoiseForm(starts, noises, matrix[rows, noises].astype(float))


def test_a_noise_of_two_kinds_holds_by_a_union_bound() -> None:
    noises = IndependentNoises(
        ((NoisyScale(1, sf.Laplace(30)), 1), (NoisyScale("0.5", sf.Gaussian(80)), 1)), Fraction("0.95")
    )
    both = float(noises.widths(NoiseForm(np.array([0, 2]), np.arange(2), np.array([1.0, -2.0])), 1)[0])
    parts = [float(sf.Laplace(30).error("0.975")), 0.5 * 2 * float(sf.Gaussian(80).error("0.975"))]
    assert both == pytest.approx(sum(parts), rel=0.06)


def test_rows_that_a_join_repeats_are_counted_as_often() -> None:
    """All of twelve differences from one total hold at once: twelve statements, not one."""
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(30)), 1),), Fraction("0.95"))
    total = LinearColumn(
        np.ones(1), np.ones(1), NoiseForm.single_noise_form(np.arange(1)), noises, 1, ConfidenceStatement.about(1)
    )
    repeated = total.take(np.zeros(12, int))
    assert count_statements(repeated.ranged.statements, jointly=True) == 12
    assert count_statements(repeated.ranged.statements, jointly=False) == 1


def test_a_slope_over_noisy_numbers_has_no_range() -> None:
    """Over exact numbers it is linear in the other column; over noisy ones nothing bounds it."""
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(30)), 8),), Fraction("0.95"))
    y, x = (
        LinearColumn(
            np.arange(4.0), np.arange(4.0), NoiseForm.single_noise_form(4 * part + np.arange(4)), noises, 1, about
        )
        for part, about in enumerate((ConfidenceStatement.about(4), ConfidenceStatement.about(4)))
    )
    everywhere, codes = Presence.everywhere(4), np.zeros(4, int)
    slopes = [correlation_or_slope("REGR_SLOPE", y, other, everywhere, codes, 1) for other in (x, x.ranged)]
    assert all(isinstance(slope, NumberColumn) and np.isinf([slope.low, slope.high]).all() for slope in slopes)
    exact_x = NumberColumn(np.arange(4.0), np.arange(4.0), np.arange(4.0))
    assert isinstance(correlation_or_slope("REGR_SLOPE", y, exact_x, everywhere, codes, 1), LinearColumn)


def test_long_sums_are_rounded_up_to_few_lengths() -> None:
    """200 running totals: no half-width is below its own, or more than 2 % above."""
    noises = IndependentNoises(((NoisyScale(1, sf.Gaussian(50)), 200),), Fraction("0.95"))
    form = NoiseForm.single_noise_form(np.arange(200)).sum_over_ranges(np.zeros(200, int), np.arange(1, 201))
    assert form is not None
    widths = noises.widths(form, 1)
    least = 1.95996 * 50 * np.sqrt(np.arange(1, 201))
    assert (widths >= least - 0.5).all()
    assert (widths <= least * 1.02 + 2).all()
