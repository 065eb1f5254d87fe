"""Properties every curve has, whatever it is made of."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy.families import add_remove, deltas, distributions, lists_of_curves
from refusals import assert_refused
from sfumato.privacy import curve as curves, pairs
from sfumato.privacy.losses import ConcentratedLoss
from sfumato.privacy.noise_losses import DiscreteGaussianVectorLoss, maximal_shifts
from sfumato.privacy.threshold_losses import GaussianKeyThresholdLoss

F = Fraction

MANY = settings(max_examples=8)


@MANY
@given(lists_of_curves, deltas, deltas)
def test_epsilon_falls_as_delta_rises(parts: list[tuple[sf.Curve, int]], a: float, b: float) -> None:
    curve = sf.compose(parts)
    low, high = curve.epsilon_range(min(a, b)), curve.epsilon_range(max(a, b))
    assert low[0] <= low[1]
    assert high[0] <= low[1]
    assert high[1] <= low[1] * (1 + 1e-3) + 1e-9


@MANY
@given(lists_of_curves, st.floats(1e-9, 8), st.floats(0.5, 8))
def test_delta_falls_as_epsilon_rises(parts: list[tuple[sf.Curve, int]], a: float, b: float) -> None:
    curve = sf.compose(parts)
    low, high = curve.delta_range(min(a, b)), curve.delta_range(max(a, b))
    assert 0 <= low[0] <= low[1] <= 1
    assert high[0] <= low[1]


@MANY
@given(lists_of_curves, deltas)
def test_epsilon_and_delta_are_two_readings_of_one_curve(parts: list[tuple[sf.Curve, int]], delta: float) -> None:
    curve = sf.compose(parts)
    epsilon = curve.epsilon(delta)
    if epsilon < math.inf:
        assert curve.delta_range(epsilon)[0] <= delta * (1 + 1e-12)


@MANY
@given(lists_of_curves, deltas)
def test_composition_commutes(parts: list[tuple[sf.Curve, int]], delta: float) -> None:
    forward, backward = sf.compose(parts), sf.compose(parts[::-1])
    assert forward.epsilon(delta) == pytest.approx(backward.epsilon(delta), rel=1e-8, abs=1e-12)
    one_by_one = sf.compose([sf.compose([part]) for part in parts])
    assert one_by_one == forward


@MANY
@given(lists_of_curves, st.sampled_from([1, 1.5, 2, 8, 64]))
def test_renyi_adds(parts: list[tuple[sf.Curve, int]], order: float) -> None:
    apart = [(curve.renyi(order), curve.failure, count) for curve, count in parts]
    together = sf.compose(parts).renyi(order)
    assert together <= math.fsum(value * count for value, _, count in apart) * (1 + 1e-13)
    if all(len(curve._composed_directions) == 1 for curve, _ in parts):
        assert together == pytest.approx(math.fsum(value * count for value, _, count in apart), rel=1e-13)


@given(add_remove)
def test_renyi_rises_with_the_order_up_to_the_pure_epsilon(curve: sf.Curve) -> None:
    values = [curve.renyi(order) for order in (1, 1.01, 1.5, 2, 5, 20, 200, 10**6, math.inf)]
    assert all(a <= b * (1 + 1e-11) + 1e-15 for a, b in itertools.pairwise(values))
    pure = curve.max_divergence
    assert values[-1] == (math.inf if pure is None else pytest.approx(float(pure), rel=1e-14))


@settings(max_examples=15)
@given(add_remove)
def test_rho_bounds_every_order(curve: sf.Curve) -> None:
    rho = curve.rho()
    ratios = [curve.renyi(order) / order for order in (1, 1.1, 1.7, 2, 3, 10, 50, 1000)]
    assert max(ratios) <= rho * (1 + 1e-12)
    if curve.failure:
        assert rho == math.inf
    elif len(curve._composed_directions) == 1:
        assert rho <= max(curve.renyi(1 + 1.1**n) / (1 + 1.1**n) for n in range(-150, 100)) * (1 + 1e-3)


@MANY
@given(add_remove, deltas)
def test_a_group_of_one_is_the_unit_itself(curve: sf.Curve, delta: float) -> None:
    assert curve.group(1) == curve
    pair = curve.group(2)
    assert pair.epsilon(delta) >= curve.epsilon_range(delta)[0] * (1 - 1e-9)
    if curve.max_divergence is not None:
        assert pair.max_divergence is not None
        assert pair.max_divergence <= 2 * curve.max_divergence * Fraction("1.000000000001")


@settings(max_examples=30)
@given(distributions(2), distributions(2), st.integers(0, 40))
def test_groups_of_finite_pairs_cover_every_chain(p: list[Fraction], q: list[Fraction], third: int) -> None:
    """If q → r is a link no easier to tell than p → q in either direction, then p → r stays within the group of two."""
    r = [Fraction(third, 40), 1 - Fraction(third, 40)]
    power = pairs.concave_hull([*pairs.roc_corners(tuple(p), tuple(q)), *pairs.roc_corners(tuple(q), tuple(p))])
    links = [*pairs.roc_corners(tuple(q), tuple(r)), *pairs.roc_corners(tuple(r), tuple(q))]
    if pairs.concave_hull([*power, *links]) == power:
        two = sf.Curve.pair(p, q).group(2)
        for epsilon in (0, "0.1", "0.5", 1, 2, 4):
            assert sf.divergences.hockey_stick(p, r, epsilon) <= two.delta(epsilon) + 1e-15
            assert sf.divergences.hockey_stick(r, p, epsilon) <= two.delta(epsilon) + 1e-15


def test_group_of_a_pair_along_a_real_chain() -> None:
    """Counting with two-sided geometric noise, capped: three databases in a row, each link the same curve."""
    worlds = [sf.Curve.discrete_laplace(2, shift) for shift in (1, 2)]
    q = math.exp(-0.5)

    def capped(centre: int) -> list[Fraction]:
        inner = [Fraction((1 - q) / (1 + q) * q ** abs(x - centre)) for x in range(-5, 8)]
        left = Fraction(q ** (centre + 6) / (1 + q))
        return [left, *inner, 1 - left - sum(inner)]

    link = sf.Curve.pair(capped(0), capped(1))
    for epsilon in (0.0, 0.2, 0.6, 0.95):
        apart = sf.divergences.hockey_stick(capped(0), capped(2), epsilon)
        assert apart <= link.group(2).delta(epsilon) + 1e-12
        assert link.delta(epsilon) <= worlds[0].delta(epsilon) + 1e-12
    assert link.group(2).epsilon(0) == pytest.approx(1.0, rel=1e-6)


def test_group_of_randomised_response_is_the_pure_rule() -> None:
    pair = sf.Curve.pair(["3/4", "1/4"], ["1/4", "3/4"])
    assert pair.group(3).epsilon(0) == pytest.approx(3 * math.log(3), rel=1e-12)
    assert sf.Curve.pure("0.4").group(3) == sf.Curve.pure("1.2")
    assert sf.Curve.gdp("0.5").group(3) == sf.Curve.gdp("1.5")
    assert sf.Curve.concentrated("0.5").group(3) == sf.Curve.concentrated("4.5")
    assert sf.Curve.discrete_laplace(5).group(3) == sf.Curve.discrete_laplace(5, 3)


def test_add_and_remove_are_composed_apart() -> None:
    """Taking the worse direction of each part, then composing, would cost more than the truth."""
    p, q = ["0.9", "0.1"], ["0.5", "0.5"]
    one_way, other_way = sf.Curve.pair(p, q), sf.Curve.pair(q, p)
    mixed = sf.compose([one_way, other_way])
    worse = sf.compose([(one_way, 2)])
    assert mixed.epsilon(0) == pytest.approx(math.log(9), rel=1e-12)
    assert worse.epsilon(0) == pytest.approx(2 * math.log(5), rel=1e-12)
    assert mixed.epsilon(0) < worse.epsilon(0)
    truth = [Fraction(x) * Fraction(y) for x in p for y in q], [Fraction(x) * Fraction(y) for x in q for y in p]
    for epsilon in (0.1, 0.5, 1.0):
        low, high = mixed.delta_range(epsilon)
        assert low - 1e-12 <= sf.divergences.hockey_stick(*truth, epsilon) <= high


def test_sensitivity_reaches_the_noise() -> None:
    change = sf.Sensitivity(groups=4, per_group=2, total=5)
    laplace = sf.Curve.laplace(10, change)
    assert laplace == sf.compose([(sf.Curve.laplace(10, 2), 2), sf.Curve.laplace(10, 1)])
    assert laplace.epsilon(0) == 0.5
    assert sf.Curve.gaussian(10, change).rho() == pytest.approx(9 / 200)
    assert sf.Curve.discrete_gaussian(10, change).rho() == pytest.approx(9 / 200)
    whole = sf.Sensitivity(groups=3, per_group=2)
    assert sf.Curve.discrete_gaussian(10, whole) == sf.compose([(sf.Curve.discrete_gaussian(10, 2), 3)])
    assert sf.Curve.discrete_laplace(10, "1.2") == sf.Curve.discrete_laplace(10, 2)
    assert sf.Curve.laplace(10, 0).epsilon(0) == 0
    assert sf.Curve.gaussian(10, 0).epsilon(0) == 0


def test_relations_are_not_mixed() -> None:
    reports, count = sf.Curve.randomized_response(1), sf.Curve.laplace(1)
    with pytest.raises(sf.NeighboursDiffer, match=r"for_neighbours\('replace'\)"):
        sf.compose([reports, count])
    both = sf.compose([reports, count.for_neighbours("replace")])
    assert both.neighbours is sf.Neighbours.REPLACE
    assert both.epsilon(0) == 3
    with pytest.raises(sf.NeighboursDiffer):
        reports.for_neighbours("add-remove")


def test_tradeoff_is_searched_for_up_to_where_little_more_than_the_failure_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part in 10¹² of the rest, or ε = 700."""
    monkeypatch.setattr(curves, "best_false_negative_bound", lambda delta, top, alpha: (delta(0), top, alpha))
    gaussian = sf.Curve.gdp(1)
    with_failure = sf.compose([gaussian, sf.Curve.approximate(0, "0.5")])
    for curve, floor in ((gaussian, F(1, 10**12)), (with_failure, F(1, 2) + F(1, 2 * 10**12))):
        assert curve.tradeoff("0.25") == (curve.delta(0), curve.epsilon(floor), 0.25)
        assert curve.epsilon(floor) > curve.epsilon(floor + F(1, 10**12))
    assert sf.Curve.pure(800).tradeoff("0.25")[1] == 700  # type: ignore[index]


def test_a_range_begins_at_what_a_composition_dominates_and_ends_at_what_dominates_it() -> None:
    curve, large, small = sf.Curve.gdp(1), sf.Curve.gdp(1), sf.Curve.gdp("0.5")
    object.__setattr__(curve, "_dominated_directions", small._composed_directions)
    assert curve.epsilon_range("1e-6") == (small.epsilon_range("1e-6")[0], large.epsilon_range("1e-6")[1])
    assert curve.delta_range("0.5") == (small.delta_range("0.5")[0], large.delta_range("0.5")[1])


def test_groups_of_groups_are_as_many_units_and_no_release_leaks_nothing() -> None:
    curve = sf.Curve.pure(1)
    assert (curve.group_size, curve.group(2).group_size, curve.group(2).group(3).group_size) == (1, 2, 6)
    assert sf.compose([curve.group(2), curve, curve.group(3)]).group_size == 3
    assert sf.compose([(curve, 0)]).epsilon(0) == 0
    assert sf.compose([]).group_size == 1
    assert sf.compose([(curve.group(2), 1)]) is not curve
    assert curves._max_divergence_or_infinity(sf.Curve.gdp(1).parts[0][0]) == math.inf
    assert curves._max_divergence_or_infinity(curve.parts[0][0]) == 1


def test_a_key_threshold_is_charged_for_its_variance_and_all_keys_that_move() -> None:
    for neighbours, keys in (("add-remove", 3), ("replace", 6)):
        curve = sf.Curve.gaussian_threshold("1.5", 3, 1, "1e-6", neighbours)
        assert curve.parts == ((GaussianKeyThresholdLoss(F(9, 4), keys, F(1), F(1, 10**6)), 1),)


def test_a_shift_with_too_many_candidates_is_known_by_its_length_or_by_rho() -> None:
    """Fine noise on a long shift whose bounds exclude the full one: nearly continuous, or zCDP alone."""
    change = sf.Sensitivity(1000, 3, 1200, squares=1500)
    assert maximal_shifts(1000, 3, 1200, 1500) == ()
    fine, coarse = (sf.Curve.discrete_gaussian(sigma, change).parts[0][0] for sigma in (100, "0.5"))
    assert fine == DiscreteGaussianVectorLoss(F(10**4), 1000, 3, 1200, 1500)
    assert coarse == ConcentratedLoss(F(1500) / (2 * F(1, 4)))


def test_tradeoff_of_known_curves() -> None:
    assert sf.Curve.pure(1).tradeoff("0.05") == pytest.approx(1 - 0.05 * math.e, rel=1e-9)
    normal = 0.5 * math.erfc((1.6448536269514722 - 1) / math.sqrt(2))  # power of the best test for a mean of 1
    assert sf.Curve.gdp(1).tradeoff("0.05") == pytest.approx(1 - normal, rel=1e-5)
    assert sf.Curve.gdp(1).tradeoff("0.05") <= 1 - normal
    assert sf.Curve.approximate(1, "0.1").tradeoff(0) == pytest.approx(0.9, rel=1e-9)
    assert sf.compose([]).tradeoff("0.3") == pytest.approx(0.7)


@MANY
@given(add_remove, st.floats(0.01, 0.99))
def test_tradeoff_is_below_guessing(curve: sf.Curve, rate: float) -> None:
    assert 0 <= curve.tradeoff(rate) <= 1 - rate + 1e-9


def test_loss_as_a_random_variable() -> None:
    loss = sf.Curve.gdp(2).loss()  # normal with mean 2 and standard deviation 2
    assert loss.mean == 2
    assert loss.tail(2) == pytest.approx(0.5, rel=1e-3)
    assert loss.tail(-2) == pytest.approx(0.9772498680518208, rel=1e-3)
    assert loss.tail(6) >= 0.022750131948179
    assert loss.quantile("0.9772498680518208") == pytest.approx(6, rel=1e-3)
    laplace = sf.Curve.laplace(1).loss()
    assert laplace.tail("0.99") == pytest.approx(0.5, rel=1e-2)
    assert laplace.tail("0.99") >= 0.5
    assert laplace.tail("1.001") <= 1e-3
    assert sf.Curve.approximate(1, "0.01").loss().mean == math.inf
    assert sf.Curve.approximate(1, "0.01").loss().quantile("0.995") == math.inf


def test_failure_is_counted_once_and_separately() -> None:
    curve = sf.compose([(sf.Curve.approximate("0.1", "0.01"), 3)])
    assert curve.failure == 1 - Fraction(99, 100) ** 3
    assert curve.epsilon("0.02") == math.inf
    assert curve.epsilon(curve.failure) == pytest.approx(0.3)
    assert curve.delta(1) == pytest.approx(float(curve.failure), rel=1e-12)
    assert curve.renyi(math.inf) == pytest.approx(0.3)


def test_nothing_released_costs_nothing() -> None:
    nothing = sf.compose([])
    assert nothing.epsilon(0) == nothing.delta(0) == nothing.renyi(2) == nothing.rho() == 0
    assert sf.compose([(sf.Curve.laplace(1), 0)]) == nothing


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.Curve.laplace(0),
        lambda: sf.Curve.laplace(-1),
        lambda: sf.Curve.laplace(math.nan),
        lambda: sf.Curve.laplace("x"),
        lambda: sf.Curve.laplace(1, -1),
        lambda: sf.Curve.gaussian(math.inf),
        lambda: sf.Curve.gaussian(None),  # type: ignore[arg-type]
        lambda: sf.Curve.randomized_response(1, 1),
        lambda: sf.Curve.randomized_response(-1),
        lambda: sf.Curve.approximate(1, 1),
        lambda: sf.Curve.approximate(1, -1),
        lambda: sf.Curve.pair([1], [0.5]),
        lambda: sf.Curve.pure(1).epsilon(1),
        lambda: sf.Curve.pure(1).epsilon(-0.1),
        lambda: sf.Curve.pure(1).epsilon(math.nan),
        lambda: sf.Curve.pure(1).delta(-1),
        lambda: sf.Curve.pure(1).delta(math.inf),
        lambda: sf.Curve.pure(1).renyi("0.5"),
        lambda: sf.Curve.pure(1).group(0),
        lambda: sf.Curve.pure(1).group(1.5),  # type: ignore[arg-type]
        lambda: sf.Curve.pure(1).tradeoff(2),
        lambda: sf.Curve.pure(1).for_neighbours("both"),
        lambda: sf.Curve.approximate(1, "0.2").group(9),
        lambda: sf.Curve([(1, 2)]),  # type: ignore[list-item]
        lambda: sf.compose([1]),  # type: ignore[list-item]
        lambda: sf.compose([(sf.Curve.pure(1), -1)]),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)
