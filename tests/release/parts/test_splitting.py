"""A price is split over totals for the least error of what is asked."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from sfumato.errors import InvalidParameter
from sfumato.release.parts.shares import WantedResult, error_ratio, even_shares, split_for_least_error

POSITIVE = st.floats(1e-3, 1e3)


def total_error(sizes: Any, wanted: Any, shares: Any, order: int) -> float:
    return sum(float(each.weight) * error_ratio(sizes, each, shares, order) for each in wanted)


def questions(seed: int) -> tuple[list[float], list[WantedResult]]:
    """Make totals of several sizes, each read by one result or several."""
    bits = random.Random(seed)
    sizes = [10 ** bits.uniform(-2, 3) for _ in range(bits.randint(2, 6))]
    places = [[index] for index in range(len(sizes))]
    places += [bits.sample(range(len(sizes)), bits.randint(1, len(sizes))) for _ in range(3)]
    wanted = [
        WantedResult({each: 10 ** bits.uniform(-3, 2) for each in read}, Fraction(bits.randint(1, 5)))
        for read in places
    ]
    return sizes, wanted


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("seed", [*range(7), *(pytest.param(each, marks=pytest.mark.long) for each in range(7, 20))])
def test_no_other_split_has_less_error(seed: int, order: int) -> None:
    sizes, wanted = questions(seed)
    ours = total_error(sizes, wanted, split_for_least_error(sizes, wanted, order), order)

    def of(logs: Any) -> float:
        found = np.exp(logs - logs.max())
        return total_error(sizes, wanted, found / found.sum(), order)

    found = minimize(of, np.zeros(len(sizes)), method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-10})
    assert ours <= found.fun * (1 + 1e-6)
    assert ours <= total_error(sizes, wanted, even_shares(len(sizes)), order) * (1 + 1e-12)


@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=30)
@given(sizes=st.lists(POSITIVE, min_size=1, max_size=10), data=st.data())
def test_shares_are_positive_and_add_up_to_one(order: int, sizes: list[float], data: st.DataObject) -> None:
    wanted = [WantedResult({index: data.draw(POSITIVE)}, data.draw(POSITIVE)) for index in range(len(sizes))]
    shares = split_for_least_error(sizes, wanted, order)
    assert sum(shares) == 1
    assert all(isinstance(each, Fraction) and each > 0 for each in shares)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_results_that_are_alike_share_evenly_whatever_their_terms(order: int, count: int) -> None:
    """A count of 1 and a sum of thousands are as dear: each is compared with what it would be alone."""
    sizes = [10.0**index for index in range(count)]
    wanted = [WantedResult({index: 3.0}) for index in range(count)]
    assert split_for_least_error(sizes, wanted, order) == even_shares(count)


def test_one_result_of_two_totals_has_the_shares_of_the_theorem() -> None:
    shares = split_for_least_error([1, 8], [WantedResult({0: 1, 1: 1})], 2)
    assert [float(each) for each in shares] == pytest.approx([1 / 5, 4 / 5])
    shares = split_for_least_error([1, 9], [WantedResult({0: 1, 1: 1})], 1)
    assert [float(each) for each in shares] == pytest.approx([1 / 4, 3 / 4])


def test_weights_move_the_split_toward_what_counts_more() -> None:
    gaussian = split_for_least_error([1, 1], [WantedResult({0: 1}, 8), WantedResult({1: 1})], 2)
    laplace = split_for_least_error([1, 1], [WantedResult({0: 1}, 9), WantedResult({1: 1})], 1)
    assert [float(each) for each in gaussian] == pytest.approx([4 / 5, 1 / 5])
    assert [float(each) for each in laplace] == pytest.approx([3 / 4, 1 / 4])


def test_a_total_that_is_read_twice_gets_more() -> None:
    first, second = split_for_least_error([1, 1], [WantedResult({0: 1}), WantedResult({0: 1, 1: 1})], 1)
    assert first > second


def test_a_split_tells_how_many_times_as_wrong_each_result_is() -> None:
    both = [WantedResult({0: 5}), WantedResult({1: 7})]
    shares = split_for_least_error([1, 1], both, 1)
    assert [error_ratio([1, 1], each, shares, 1) for each in both] == pytest.approx([2, 2])
    assert [error_ratio([1, 1], each, split_for_least_error([1, 1], both, 2), 2) for each in both] == pytest.approx(
        [2**0.5] * 2
    )


def test_what_cannot_move_asks_for_nothing() -> None:
    shares = split_for_least_error([1, 1], [WantedResult({0: 0.0}), WantedResult({1: 1.0})], 1)
    assert Fraction(1, 2000) < shares[0] < Fraction(1, 1000)
    assert split_for_least_error([1, 1], [WantedResult({0: 0.0, 1: 0.0})], 1) == even_shares(2)


@pytest.mark.parametrize("weight", [0, -1, "nan", float("inf"), "much"])
def test_a_weight_is_a_positive_number(weight: Any) -> None:
    with pytest.raises(InvalidParameter, match="weight"):
        WantedResult({0: 1.0}, weight)


@pytest.mark.parametrize("effects", [{}, {0: -1.0}, {0: float("nan")}, {0: float("inf")}])
def test_effects_are_finite(effects: Any) -> None:
    with pytest.raises(InvalidParameter, match="effect_by_total"):
        WantedResult(effects)
