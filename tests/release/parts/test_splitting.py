"""A price is split over totals for the least error of what is asked."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from sfumato.errors import InvalidParameter
from sfumato.release.parts import shares
from sfumato.release.parts.shares import NoisyTotals, WantedResult, error_ratio, even_shares, split_for_least_error

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


# ── what a result reads, worked out by hand ──────────────────────────────────────────────────────


def member(share: int, unit: Any, *contributions: Any, size: int = 1) -> Any:
    return SimpleNamespace(
        share_index=share,
        unit_value=Fraction(unit),
        middle_row_contributions=tuple(map(Fraction, contributions)),
        size=size,
        step=Fraction(1, 2),
    )


def noisy_totals(members: Sequence[Any], units: Sequence[Any], discovers: bool = False) -> NoisyTotals:
    measures = [SimpleNamespace(unit_value=Fraction(unit), sensitivity=7) for unit in units]
    bounded: Any = SimpleNamespace(members=members, noisy_measures=measures, measures=[*measures, *"m" * discovers])
    bounded.discovers_groups = discovers
    return NoisyTotals(bounded)


def asked(part: int, *measures: int, estimator: Any = None) -> Any:
    return SimpleNamespace(part=part, measures=measures, request=SimpleNamespace(estimator=estimator))


def test_a_result_reads_the_totals_of_its_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects of measures that share a total add up, each in the unit that the total is released with."""
    totals = noisy_totals([member(0, 6), member(1, 5), member(0, 2)], [2, 5])
    seen: list[Any] = []
    effects = (2.0, 3.0, 4.0)
    monkeypatch.setattr(shares, "_reference_totals", lambda scaled: ("totals", scaled))
    monkeypatch.setattr(shares, "_probe_noise", lambda scaled: ("noise", scaled))
    monkeypatch.setattr(shares, "_effects_of_totals", lambda *arguments: seen.append(arguments) or effects)
    members = totals.bounded.members
    found = shares._wanted_result(asked(0, 0, 1, 2, estimator=lambda *own: own), Fraction(3), [totals])
    assert found == WantedResult({0: 2.0 * 6 / 2 + 4.0 * 2 / 2, 1: 3.0}, 3)
    assert seen == [
        (tuple(members), tuple(("totals", each) for each in members), tuple(("noise", each) for each in members))
    ]
    assert shares._wanted_result(asked(0, 1), Fraction(2), [totals]).effect_by_total.keys() == {1}
    other: Any = SimpleNamespace(shares=2, share_index=lambda index: index % 2)
    parts: Any = [SimpleNamespace(shares=3), other, other]
    for index, share in ((4, 5), (7, 6)):
        assert shares._wanted_result(asked(2, index), Fraction(2), parts) == WantedResult({share: 1.0}, 2)


def test_the_reference_group_has_ten_thousand_rows_a_quarter_off_the_middle() -> None:
    assert shares._reference_totals(member(0, 1, "0.5")) == (5000,)
    assert shares._reference_totals(member(0, 1, 2, 4)) == (20_000 * Fraction(5, 4), 40_000 * Fraction(3, 4))
    assert shares._probe_noise(member(0, 1, 2, size=3)) == Fraction(1e-3) * 10_000 * 3 / 2


def test_effects_are_how_far_a_range_moves_with_the_noise_of_each_measure() -> None:
    """Of 2a + 3b − c, with two totals of the first measure: 5 and 1; less what the range is without noise."""

    @dataclass(frozen=True)
    class Linear:
        finite: bool = True

        def estimate(self, columns: Any, widths: Any) -> Any:
            assert [column.tolist() for column in columns] == [[1.0], [2.0], [3.0]]
            width = 7 + 2 * widths[0] + 3 * widths[1] + 1 * widths[2]
            scale = 1.0 if self.finite else math.inf
            return SimpleNamespace(low=np.array([-width]), high=np.array([width * scale]))

    totals, noise = ((Fraction(1), Fraction(2)), (Fraction(3),)), (Fraction(1, 2), Fraction(1, 4))
    estimator: Any = Linear()
    assert shares._effects_of_totals(estimator, totals, noise) == pytest.approx((5.0, 1.0))
    infinite: Any = Linear(False)
    assert shares._effects_of_totals(infinite, totals, noise) == (0.0, 0.0)


def test_a_price_is_split_over_all_parts_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = noisy_totals([member(0, 1), member(1, 1)], [3, 5], discovers=True)
    other: Any = SimpleNamespace(shares=2, share_index=lambda index: index)
    family: Any = SimpleNamespace(order=2, norm=lambda sensitivity: Fraction(sensitivity))
    half, even = Fraction(1, 2), Fraction(1, 5)
    assert shares.split_price([totals, other], None, family) == shares.PriceSplit(((even,) * 3, (even,) * 2))
    requests: Any = SimpleNamespace(requests=[asked(0, 1), asked(1, 1)], weights=[Fraction(1), Fraction(4)])
    found = shares.split_price([totals, other], requests, family)
    sizes = [21.0, 35.0, 1.0, 1.0, 1.0]
    results = [WantedResult({1: 1.0}), WantedResult({4: 1.0}, 4)]
    expected = split_for_least_error(sizes, [*results, WantedResult({2: 1.0})], 2)
    assert found.shares == (expected[:3], expected[3:])
    assert found.error_ratios == tuple(error_ratio(sizes, each, expected, 2) for each in results)
    assert found.even_error_ratios == pytest.approx([5**0.5] * 2)
    # of both totals: the first moves by 7 steps of 3, the second by 7 steps of 5
    monkeypatch.setattr(shares, "_wanted_result", lambda effects, weight, _: WantedResult(effects, weight))
    known = noisy_totals([member(0, 1), member(1, 1)], [3, 5])
    asked_for_both: Any = SimpleNamespace(requests=[{0: 1.0, 1: 2.0}], weights=[Fraction(1)])
    found = shares.split_price([known], asked_for_both, family)
    assert found.shares == (split_for_least_error([21.0, 35.0], [WantedResult({0: 1.0, 1: 2.0})], 2),)
    assert shares._shares_by_part([half, half, even], [2, 0, 1]) == ((half, half), (), (even,))
