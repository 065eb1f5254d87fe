"""Parameters at the ends of what is allowed: bounds stay bounds, nothing raises, nothing claims perfect privacy."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

import sfumato as sf
from privacy import exact
from sfumato.privacy import numbers

C = sf.Curve


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [("10", "334.58"), ("20", "569.232"), ("30", "699.771"), ("23.782789", "631.85021"), ("0.001", "0.02"), ("3", "0")],
)
def test_gaussian_profile_far_out(mu: str, epsilon: str) -> None:
    with mpmath.workdps(60):
        m, e = exact.number(mu), exact.number(epsilon)
        truth = mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
        low, high = C.gdp(mu).delta_range(epsilon)
        assert mpmath.mpf(low) <= truth <= mpmath.mpf(high)
        assert high <= truth * (1 + 1e-9)


def test_no_upper_bound_underflows_to_zero() -> None:
    for curve, epsilon in (
        (C.gaussian(1), 45),
        (C.gaussian(1e140), 0),
        (C.bounded_range(1e-300), 0),
        (sf.compose([C.laplace(1), C.gaussian(1)]), 1e300),
    ):
        assert curve.delta(epsilon) > 0
    assert sf.Budget(1, 1e-6).cost(C.gaussian(1e140)).renyi == 1


def test_max_divergence_of_pairs_is_not_below_the_truth() -> None:
    p = [Fraction(1696922387582851, 8598386680002192), Fraction(3106913398381213, 5732257786668128)]
    q = [Fraction(1296925646873870, 6733511606616473), Fraction(1751216757534213, 6733511606616473)]
    curve = C.pair([*p, 1 - sum(p)], [*q, 1 - sum(q)])
    with mpmath.workdps(50):
        ratios = [exact.number(a / b) for a, b in zip([*p, 1 - sum(p)], [*q, 1 - sum(q)], strict=True)]
        truth = max(abs(mpmath.log(r)) for r in ratios)
        assert curve.max_divergence is not None
        assert truth <= exact.number(curve.max_divergence) <= truth * (1 + mpmath.mpf(10) ** -13)


def test_max_divergence_is_that_of_the_worse_direction() -> None:
    """ln 9/5 one way and ln 5 the other: whichever comes first."""
    p, q = ("0.9", "0.1"), ("0.5", "0.5")
    for curve in (C.pair(p, q), C.pair(q, p)):
        assert float(curve.max_divergence or 0) == pytest.approx(math.log(5), rel=1e-12)


def test_renyi_of_a_rare_large_loss_is_not_lost() -> None:
    p, q = Fraction("1.16906e-108"), Fraction("9.04099e-121")
    curve = C.pair([p, 1 - p], [q, 1 - q])
    with mpmath.workdps(200):
        truth = max(exact.renyi(exact.pairs_of([a, 1 - a], [b, 1 - b]), "9.22238") for a, b in ((p, q), (q, p)))
    assert curve.renyi("9.22238") == pytest.approx(float(truth), rel=1e-12)
    assert curve.renyi_above(Fraction("9.22238")) >= Fraction(str(truth))


def test_the_largest_loss_is_never_rounded_down() -> None:
    step = Fraction("0.0014883")
    for curve in (sf.compose([(C.laplace(1 / step), 20)]), sf.compose([(C.pure(step), 20)])):
        assert curve.epsilon("5.01e-54") == 0.029766


def test_many_failures_keep_both_sides() -> None:
    curve = sf.compose([(C.approximate(1, "0.01"), 100)])
    low, high = curve.delta_range(5)
    assert 1 - 0.99**100 < low <= high <= 1
    assert high - low < 1e-9
    low, high = curve.epsilon_range("0.9")
    assert 0 < low <= high < 100
    assert float(curve.failure) == pytest.approx(1 - 0.99**100, rel=1e-11)


def test_large_delta_is_resolved() -> None:
    low, high = sf.compose([(C.laplace("0.36764705"), 10)]).delta_range("10.63")
    assert low == pytest.approx(0.8958, abs=2e-4)
    assert high - low < 2e-4


@pytest.mark.parametrize(
    "curve",
    [
        sf.compose([(C.pure(360), 2)]),
        C.discrete_gaussian("0.03"),
        C.discrete_gaussian("0.15", 100),
        C.discrete_laplace("0.001"),
        C.bounded_range(1000),
        C.gaussian(1e-140),
        C.discrete_gaussian(1e140),
        C.laplace(1e-290),
        C.pair(["1e-17", 1 - Fraction("1e-17")], [1 - Fraction("1e-17"), "1e-17"]),
        sf.compose([(C.pair([1, 0], [0, 1]), 2), C.gaussian(1)]),
        pytest.param(sf.compose([(C.discrete_gaussian(1e-30), 1000), (C.laplace(1), 3)]), marks=pytest.mark.long),
        sf.compose([C.discrete_gaussian(1, 0), C.gaussian(1)]),
        pytest.param(sf.compose([(C.laplace(1e-200), 2), C.gaussian(1)]), marks=pytest.mark.long),
        sf.compose([(C.gaussian(10**9), 10**18), (C.laplace(10**12), 10**17)]),
    ],
    ids=repr,
)
def test_every_reading_of_an_extreme_curve_is_ordered(curve: sf.Curve) -> None:
    for delta in (1e-280, "1e-6", "0.999999"):
        low, high = curve.epsilon_range(delta)
        assert 0 <= low <= high
    for epsilon in (0, 1e-290, 1, 1e290):
        low, high = curve.delta_range(epsilon)
        assert 0 <= low <= high <= 1
    orders = [curve.renyi(order) for order in (1, 1 + 1e-9, 2, 10**9, math.inf)]
    assert all(a <= b * (1 + 1e-6) for a, b in pairwise(orders[2:]))
    assert all(not math.isnan(x) for x in orders)
    assert 0 <= curve.tradeoff("0.05") <= 0.95
    assert 0 <= curve.loss().tail(1) <= 1
    assert curve.group(2).epsilon("1e-6") >= curve.epsilon_range("1e-6")[0]


def test_a_tail_is_never_below_the_truth() -> None:
    assert C.laplace(10**6).loss().tail("-0.5") == 1
    assert C.approximate(1, "0.1").loss().tail(-2) == 1
    assert C.gaussian(10**9).loss().tail(10**4) < 1e-8


def test_later_failures_are_excepted_and_change_no_earlier_step() -> None:
    """δ of the line is fixed in advance: what failures add is in the exception, step by step."""
    calm, leak = C.gaussian(10), C.approximate("0.0001", "0.000999")
    before = sf.odometer([calm], "0.001", order=20)
    beside = sf.odometer([calm, leak], "0.001", order=20)
    assert beside.adaptive[0] == before.adaptive[0]
    assert beside.exceptions[0] == before.exceptions[0] == 0.001
    assert beside.exceptions[1] == pytest.approx(0.001 + 0.000999 / (1 - math.exp(-1)), rel=1e-9)


def test_mappings_of_curves_are_refused() -> None:
    """Iterating one would drop the counts."""
    for call in (sf.compose, lambda x: sf.odometer(x, "1e-6")):
        with pytest.raises(sf.InvalidParameter, match="a list, not a string or a mapping"):
            call({C.gaussian(1): 1000})  # type: ignore[arg-type]


def test_errors_travel_between_processes() -> None:
    for error in (
        sf.InvalidParameter("a", 1, "b"),
        sf.NeighboursDiffer("replace", "add-remove", place="here", fix="that"),
        sf.Overspent({"pure": Fraction(1)}, {"pure": Fraction(0)}, Fraction(0)),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert copy.fix == error.fix


def test_equal_bags_are_equal_values() -> None:
    a, b = C.laplace(2), C.gaussian(3)
    assert sf.compose([a, b]) == sf.compose([b, a])
    assert sf.dumps(sf.compose([a, b])) == sf.dumps(sf.compose([b, a]))
    assert C.gaussian(1, 0) == C.pure(0) == C.laplace(1, 0) == sf.compose([])


def test_small_arguments_and_long_fractions_lose_no_digits() -> None:
    """(1 − e^−y)/y = 1 − y/2 + O(y²) beside 0, and ln(p/q) where p and q have a thousand digits."""
    y = np.array([6e-9 + 4e-9j, -6e-9 + 0j, 0j])
    assert np.abs(numbers.exprel_minus(y) - (1 - y / 2)).max() < 1e-15
    for ratio in (12, 20, 1000, 10**20):
        p = Fraction(ratio * 10**900 + 1, 10**900)
        assert numbers.log_ratio(p, Fraction(1)) == pytest.approx(math.log(ratio), rel=4e-16, abs=0)
