"""A mediator's privacy and promise: sensitivity of the board, its price, regret by enumeration, deviations tried."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from games.test_crowds import crowds
from refusals import assert_refused
from sfumato import games
from sfumato.games.mediation import expected_payoffs, to_strategy_units

ROADS = games.routes(np.arange(900) % 3, [[0.1, 0.2, 0.4], [0.4, 0.1, 0.2], [0.2, 0.4, 0.1]], [0.5, 0.5, 0.5])


@given(st.integers(1, 6), st.data())
@settings(max_examples=80)
def test_one_player_moves_the_totals_no_further_than_is_charged(actions: int, data: st.DataObject) -> None:
    """Any two strategies, also those at the corners and those that rounding pushes over 1."""
    rows = st.lists(st.floats(0, 1), min_size=actions, max_size=actions).filter(lambda row: sum(row) > 0.001)
    one, two = (np.array(data.draw(rows)) for _ in range(2))
    move = to_strategy_units(np.array([one / one.sum()]))[0] - to_strategy_units(np.array([two / two.sum()]))[0]
    change = games.equilibrium(games.Crowd(np.ones((1, actions, 1)), [0]), 1, rounds=2).sensitivity
    assert change.neighbours is sf.Neighbours.REPLACE
    assert np.abs(move).max() <= change.linf
    assert np.abs(move).sum() <= change.l1
    assert (move.astype(object) ** 2).sum() <= change.squares


def test_the_charge_is_met_at_the_corners() -> None:
    """Two players with opposite certain strategies: the sensitivity is not larger than it must be."""
    move = to_strategy_units(np.array([[1.0, 0, 0]]))[0] - to_strategy_units(np.array([[0, 1.0, 0]]))[0]
    change = games.equilibrium(ROADS, 1, rounds=2).sensitivity
    assert np.abs(move).sum() >= change.l1 - 2


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("rounds", [2, 30, 200])
def test_the_board_costs_what_is_promised(delta: Any, rounds: int) -> None:
    mediation = games.equilibrium(ROADS, "0.7", delta, rounds=rounds)
    curve = mediation.curve
    assert curve.neighbours is sf.Neighbours.REPLACE
    assert isinstance(mediation.noise, sf.Gaussian if delta else sf.Laplace)
    if delta:
        assert 0.99e-6 < curve.delta("0.7") <= 1e-6
    else:
        assert curve.max_divergence == Fraction(7, 10)
    account = sf.Budget("0.7", delta, neighbours="replace", reserve=delta)
    price = sf.Curve.approximate("0.7", delta, "replace") if delta else curve
    assert account.affords(price)
    assert not sf.Budget("0.69", delta, neighbours="replace", reserve=delta).affords(price)
    assert mediation.misreport_gain <= math.tanh(0.35) + float(delta) <= 2 * 0.7 + float(delta)


def _boards(mediation: games.Mediation, types: list[int], count: int) -> np.ndarray:
    crowd = games.Crowd(mediation.game.payoffs, types)
    twin = games.Mediation(crowd, mediation.guarantee, mediation.rounds, mediation.noise)
    return np.array([twin.release().board.reshape(-1) for _ in range(count)])


@pytest.mark.long
def test_samples_do_not_refute_the_boards_price_and_refute_a_twentieth_of_the_noise() -> None:
    """Two players that want different things; confidence 0.999999, so an honest board fails once in a million."""
    payoffs = np.zeros((2, 2, 2))
    payoffs[0, 0], payoffs[1, 1] = 1.0, 1.0
    crowd = games.Crowd(payoffs, [0, 1])
    honest = games.equilibrium(crowd, 2, rounds=2)
    broken = games.Mediation(crowd, honest.guarantee, 2, sf.Laplace(honest.noise.scale / 20))  # type: ignore[operator]
    for mediation, holds in ((honest, True), (broken, False)):
        worlds = tuple((lambda count, m=mediation, t=types: _boards(m, t, count)) for types in ([0, 1], [1, 1]))
        assert sf.audit.falsify(worlds, sf.Guarantee(2), samples=500, confidence="0.999999").holds is holds


@given(crowds(), st.data())
@settings(max_examples=60)
def test_expected_payoffs_by_enumeration(crowd: games.Crowd, data: st.DataObject) -> None:
    m, k = crowd.payoffs.shape[:2]
    weights = data.draw(
        st.lists(st.lists(st.integers(0, 4), min_size=k, max_size=k).filter(any), min_size=m, max_size=m)
    )
    strategies = np.array([[w / sum(row) for w in row] for row in weights])
    found = expected_payoffs(crowd, crowd.population, strategies)
    for i, own in enumerate(crowd.types):
        others = [t for j, t in enumerate(crowd.types) if j != i]
        for action in range(k):
            expected = 0.0
            for profile in itertools.product(range(k), repeat=len(others)):
                chance = math.prod(strategies[t, a] for t, a in zip(others, profile, strict=True))
                expected += chance * crowd.payoffs[own, action, profile.count(action)]
            assert found[own, action] == pytest.approx(expected, abs=1e-12)


def test_expected_payoffs_of_many_players_by_the_binomial() -> None:
    n, p = 3000, 0.3
    table = np.random.default_rng(5).random((1, 2, n))
    crowd = games.Crowd(table, np.zeros(n, int))
    found = expected_payoffs(crowd, crowd.population, np.array([[p, 1 - p]]))
    logs = [
        math.lgamma(n) - math.lgamma(x + 1) - math.lgamma(n - x) + x * math.log(p) + (n - 1 - x) * math.log(1 - p)
        for x in range(n)
    ]
    assert found[0, 0] == pytest.approx(float(np.exp(logs) @ table[0, 0]), abs=1e-9)


@pytest.mark.parametrize(
    "crowd",
    [
        pytest.param(ROADS, marks=pytest.mark.long),
        games.market_entry(np.arange(2000) % 3, [0.2, 0.5, 0.7]),
        pytest.param(games.public_good(np.arange(2000) % 3, [-0.3, 0.1, 0.4]), marks=pytest.mark.long),
    ],
    ids=["routes", "market entry", "public good"],
)
@pytest.mark.parametrize("delta", [pytest.param(0, marks=pytest.mark.long), "1e-6"])
def test_no_deviation_found_beats_the_certificate(crowd: games.Crowd, delta: Any) -> None:
    """Regret and welfare lie more than six standard deviations (of 40 runs) within their limits."""
    advice = games.equilibrium(crowd, 1, delta, rounds=200).release()
    tried = advice.deviation(runs=4)
    assert advice.regret < 0.06
    assert tried.gain <= tried.regret + advice.mediation.misreport_gain + 8 * tried.error
    assert advice.estimate < advice.bound
    assert tried.gain < advice.bound
    assert advice.shortfall == crowd.welfare(crowd.settle()) - advice.welfare
    assert abs(advice.shortfall) < 0.05
    assert games.approximate_nash(crowd, advice.actions).epsilon >= 0


def test_a_mediator_without_rounds_enough_is_told_apart() -> None:
    """The broken twin of learning: two rounds leave far more regret than four hundred."""
    little, much = (games.equilibrium(ROADS, 1, "1e-6", rounds=rounds).release().regret for rounds in (2, 400))
    assert little > 3 * much


def test_more_privacy_tempts_less() -> None:
    temptations = [games.equilibrium(ROADS, e, "1e-6", rounds=50).misreport_gain for e in ("0.1", "1", "3")]
    assert temptations == sorted(temptations)
    assert temptations[0] < 0.02


def test_the_usual_rounds_fit_the_crowd_and_nothing_private() -> None:
    few = games.routes(np.zeros(60, int), [[0.1, 0.2]], [0.5, 0.5])
    usual = games.equilibrium(ROADS, 1, "1e-6")
    assert games.equilibrium(few, 1, "1e-6").rounds < usual.rounds
    swapped = games.Crowd(ROADS.payoffs, ROADS.types[::-1] * 0)
    assert games.equilibrium(swapped, 1, "1e-6").explain() == usual.explain()


def test_advice_given_the_board_is_needed_for_the_theorem() -> None:
    """A corner in which the textbook's statement fails: no regret against fixed actions, ε = 0, and still a misreport
    gains 1/2.

    A public coin decides what the others play. Players of type 0 are advised action 0, whatever the coin: on average no
    fixed action is better (regret 0). Players of type 1 are advised what the coin says. Nothing depends on any
    report but one's own advice: 0-DP. A player of type 0 that reports 1 learns the coin, and meets the others always.
    """
    coin = (Fraction(1, 2), Fraction(1, 2))
    meets = lambda mine, others: Fraction(int(mine == others))  # noqa: E731
    follow = sum(p * meets(0, c) for c, p in enumerate(coin))
    fixed = max(sum(p * meets(a, c) for c, p in enumerate(coin)) for a in (0, 1))
    misreport = sum(p * meets(c, c) for c, p in enumerate(coin))
    assert fixed - follow == 0
    assert misreport - follow == Fraction(1, 2)
    given_the_board = sum(p * (max(meets(a, c) for a in (0, 1)) - meets(0, c)) for c, p in enumerate(coin))
    assert given_the_board == Fraction(1, 2)  # regret given the board sees it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: games.equilibrium("roads", 1), "made with Crowd"),
        (lambda: games.equilibrium(ROADS, 0), "epsilon must be"),
        (lambda: games.equilibrium(ROADS, float("nan")), "epsilon must be"),
        (lambda: games.equilibrium(ROADS, 1, 1), "delta must be"),
        (lambda: games.equilibrium(ROADS, "1e-9"), "at this ε the noise of"),
        (lambda: games.equilibrium(ROADS, "1e-9", "1e-9", rounds=10), "at this ε the noise of"),
        (lambda: games.equilibrium(ROADS, "1e30"), "at this ε the noise of"),
        (lambda: games.equilibrium(ROADS, 1, rounds=1), "rounds must be"),
        (lambda: games.equilibrium(ROADS, 1, rounds=10**9), "rounds must be"),
        (lambda: games.equilibrium(ROADS, 1, rounds=2).release().deviation(1), "runs must be"),
    ],
)
def test_hostile_input_gets_rule_and_fix(make: object, message: str) -> None:
    assert assert_refused(make, message).fix


def test_one_player_one_action_and_absent_types_are_served() -> None:
    alone = games.Crowd(np.ones((2, 1, 1)), [1])
    assert games.equilibrium(alone, 1, rounds=3).release().actions.tolist() == [0]
    absent = games.routes([0, 0, 2], [[0.1, 0.2]] * 4, [0.2, 0.2])
    advice = games.equilibrium(absent, 1, rounds=10).release()
    assert 0 <= advice.regret <= 1
    assert advice.deviation(2).gain <= 1
