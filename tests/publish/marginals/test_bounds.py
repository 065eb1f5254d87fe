"""Bounds of totals outside what was measured hold on exact marginals, whatever the weights; models have them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from publish.worlds import attributes
from sfumato.publish.marginals import group_totals
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.group_totals import AmountBounds, SynopsisEstimates, bound_totals, fit_max_entropy

SIZES = (2, 2, 3)
AXES = (0, 1, 2)


def known(table: Any, sets: tuple[tuple[int, ...], ...], **more: Any) -> SynopsisEstimates:
    """Estimates that equal the marginals of a table: what was measured without noise."""
    measured = [
        MeasuredMarginal(places, table.sum(tuple(axis for axis in AXES if axis not in places)), Fraction(5000))
        for places in sets
    ]
    return SynopsisEstimates(least_squares(attributes(SIZES), (), measured), sets, **more)


def random_weights(bits: np.random.Generator) -> AmountBounds:
    """Draw conditions of every kind, sums of values, and cells of which only some rows count."""
    kind = bits.integers(4)
    low = bits.integers(0, 2, SIZES).astype(float)
    if kind == 1:  # a condition on each attribute
        low = np.multiply.outer(
            np.multiply.outer(bits.integers(0, 2, 2), bits.integers(0, 2, 2)), bits.integers(0, 2, 3)
        )
    elif kind == 2:
        low = bits.integers(-3, 5, SIZES)
    elif kind == 3:
        low = bits.integers(0, 5, SIZES)
    low = low.astype(float)
    return AmountBounds(low, low + bits.integers(0, 3, SIZES) * (bits.random() < 0.3))


SETS = [
    (((0, 1), (0, 2)), ()),
    (((0, 1), (0, 2), (1, 2)), ()),
    (((0, 1), (2,)), ()),
    (((0,), (1,), (2,)), ()),
    (((0, 1), (1, 2)), (0,)),
    (((0, 1), (1, 2)), (1,)),
    (((0, 1), (2,)), (0, 2)),
]


@pytest.mark.parametrize(("sets", "keys"), SETS)
def test_bounds_hold_the_totals_of_exact_marginals(sets: Any, keys: tuple[int, ...]) -> None:
    bits = np.random.default_rng(3)
    tightest = np.inf
    for _ in range(25):
        table = bits.integers(0, 30, SIZES) * (bits.random(SIZES) < 0.6)
        weights = random_weights(bits)
        found = bound_totals(known(table, sets), weights, AXES, keys)
        summed = tuple(axis for axis in AXES if axis not in keys)
        least, greatest = ((end * table).sum(summed, keepdims=True) for end in (weights.low, weights.high))
        for value, _ in found.lower_bounds_with_errors:
            assert (value <= least + 1e-6).all()
        for value, _ in found.upper_bounds_with_errors:
            assert (value >= greatest - 1e-6).all()
        assert found.nonnegative == bool((weights.low >= 0).all())
        assert not found.measured.any()
        tightest = min(
            tightest, float((found.upper_bounds_with_errors[-1][0] - found.lower_bounds_with_errors[0][0]).min())
        )
    assert np.isfinite(tightest)


def test_a_conjunction_is_bounded_from_below_and_an_alternative_by_more_than_its_parts() -> None:
    table = np.zeros(SIZES, int)
    table[0, 0, 0], table[0, 0, 1], table[0, 1, 0], table[1, 1, 2] = 20, 3, 4, 50
    estimates = known(table, ((0, 1), (0, 2)))
    both = np.zeros(SIZES)
    both[0, 0, 0] = 1
    found = bound_totals(estimates, AmountBounds(both, both), AXES, ())
    assert [round(float(value.item()), 6) for value, _ in found.lower_bounds_with_errors] == [23 + 24 - 27]
    assert sorted(round(float(value.item()), 6) for value, _ in found.upper_bounds_with_errors) == [23, 24, 77]
    either = np.zeros(SIZES)
    either[0, 0, :] = either[0, :, 0] = 1
    found = bound_totals(estimates, AmountBounds(either, either), AXES, ())
    lowers = sorted(round(float(value.item()), 6) for value, _ in found.lower_bounds_with_errors)
    assert lowers == [23, 24]  # no row of the other kind is known to be apart
    assert min(float(value.item()) for value, _ in found.upper_bounds_with_errors) == pytest.approx(27)


def test_what_was_measured_is_its_own_bound() -> None:
    table = np.arange(12).reshape(SIZES)
    pair = table.sum(2)
    weights = np.array([[1.0, 0], [0, 2]])
    found = bound_totals(known(table, ((0, 1), (2,))), AmountBounds(weights, weights), (0, 1), ())
    assert found.value.item() == pytest.approx(pair[0, 0] + 2 * pair[1, 1])
    assert found.measured.all()
    assert (found.bound_count, found.share) == (1, 1.0)
    cut = bound_totals(known(table, ((0, 1), (2,))), AmountBounds(weights * 0, weights), (0, 1), ())
    assert cut.value.item() == pytest.approx((pair[0, 0] + 2 * pair[1, 1]) / 2)
    assert (cut.bound_count, cut.measured.any()) == (2, False)
    keyed = bound_totals(known(table, ((0, 1), (2,))), AmountBounds(weights * 0, weights), (0, 1), (0, 1))
    assert keyed.measured.tolist() == [[False, True], [True, False]]


def test_weights_of_cells() -> None:
    weights = AmountBounds(np.array([1.0, -2.0, 0.0]), np.array([1.0, 4.0, 3.0]))
    assert weights.middle.tolist() == [1, 1, 1.5]
    assert weights.ambiguous_cells.tolist() == [False, True, True]
    mask = np.array([True, True, False])
    assert (weights.masked(mask).low.tolist(), weights.masked(mask).high.tolist()) == ([1, -2, 0], [1, 4, 0])
    optional = weights.with_optional_cells(mask)
    assert (optional.low.tolist(), optional.high.tolist()) == ([0, -2, 0], [1, 4, 3])
    negative = AmountBounds(np.array([-3.0]), np.array([-1.0])).with_optional_cells(np.array([True]))
    assert (negative.low.tolist(), negative.high.tolist()) == ([-3], [0])


def test_the_largest_parts_that_marginals_have_of_a_question() -> None:
    sets = ((0, 1, 3), (1, 2), (2,), (4,))
    assert group_totals._maximal_measured_parts((0, 1, 2), sets) == [(), (0, 1), (1, 2)]
    assert group_totals._maximal_measured_parts((3, 4), sets) == [(), (3,), (4,)]
    assert group_totals._maximal_measured_parts((0, 5), ((0, 1),)) == [(), (0,)]


def test_the_model_has_the_marginals_that_were_measured() -> None:
    table = np.random.default_rng(2).integers(1, 30, SIZES)
    for sets in (((0, 1), (2,)), ((0, 1), (1, 2)), ((0,), (1,), (2,))):
        made = fit_max_entropy(known(table, sets), AXES, sets)
        for places in sets:
            others = tuple(axis for axis in AXES if axis not in places)
            assert made.sum(others) == pytest.approx(table.sum(others), rel=1e-6)
    independent = fit_max_entropy(known(table, ((0,), (1,), (2,))), AXES, ((0,), (1,), (2,)))
    total = table.sum()
    product = np.einsum("i,j,k->ijk", table.sum((1, 2)), table.sum((0, 2)), table.sum((0, 1))) / total**2
    assert independent == pytest.approx(product, rel=1e-6)


def test_bounds_that_might_have_been_are_counted() -> None:
    table = np.arange(12).reshape(SIZES)
    one = np.zeros(SIZES)
    one[0, 0, 0] = 1
    estimates = known(table, ((0, 1), (0, 2)))
    plain = bound_totals(estimates, AmountBounds(one, one), AXES, ())
    assert (plain.bound_count, plain.share) == (
        len(plain.lower_bounds_with_errors) + len(plain.upper_bounds_with_errors),
        1.0,
    )
    adaptive = known(table, ((0, 1), (0, 2)), prior_precisions=dict.fromkeys(estimates.estimates.parts, 1.0))
    found = bound_totals(adaptive, AmountBounds(one, one), AXES, ())
    assert found.bound_count == 2 * 7 + len(
        [
            pair
            for pair in itertools.combinations([s for k in range(3) for s in itertools.combinations(range(3), k)], 2)
            if {*pair[0], *pair[1]} == {0, 1, 2}
        ]
    )
    assert found.share == pytest.approx(0.1)
    inside = bound_totals(adaptive, AmountBounds(one[:, :, 0], one[:, :, 0]), (0, 1), ())
    assert (inside.bound_count, inside.share) == (1, 0.9)
    rows = bound_totals(adaptive, AmountBounds(np.ones(()), np.ones(())), (), ())
    assert (rows.bound_count, rows.share) == (1, 1.0)
