"""Crowds: payoffs, best responses and exact equilibria, beside the same games written out as matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import sfumato as sf
from refusals import assert_refused
from sfumato import games


def written_out(crowd: games.Crowd) -> games.MatrixGame:
    """The same game as a matrix, in exact decimals."""
    n, k = crowd.players, crowd.actions
    payoffs = np.empty((n, *([k] * n)), dtype=object)
    for profile in itertools.product(range(k), repeat=n):
        for i, action in enumerate(profile):
            payoffs[(i, *profile)] = float(crowd.payoffs[crowd.types[i], action, profile.count(action) - 1])
    return games.MatrixGame(payoffs)


@st.composite
def crowds(draw: st.DrawFn, falling: bool = False) -> games.Crowd:
    n, k, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    flat = draw(st.lists(st.integers(0, 20), min_size=n * k * m, max_size=n * k * m))
    payoffs = np.array(flat).reshape(m, k, n) / 20
    if falling:
        payoffs = -np.sort(-payoffs, axis=2)
    return games.Crowd(payoffs, draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)))


@given(crowds(), st.data())
@settings(max_examples=80)
def test_a_crowd_is_the_matrix_game_it_says(crowd: games.Crowd, data: st.DataObject) -> None:
    profile = data.draw(st.lists(st.integers(0, crowd.actions - 1), min_size=crowd.players, max_size=crowd.players))
    here, there = games.approximate_nash(crowd, profile), games.approximate_nash(written_out(crowd), profile)
    assert here.epsilon == pytest.approx(float(there.epsilon), abs=1e-12)
    assert list(here.gains) == pytest.approx([float(g) for g in there.gains], abs=1e-12)


@given(crowds(falling=True))
@settings(max_examples=80)
def test_crowded_games_settle_in_an_exact_equilibrium(crowd: games.Crowd) -> None:
    """Payoffs that fall with the load have an equilibrium in actions (Milchtaich 1996); best responses may still
    circle, and those few games are put aside."""
    try:
        profile = crowd.settle(max_moves=2000)
    except sf.InvalidParameter:
        assume(False)
    assert games.approximate_nash(written_out(crowd), [int(a) for a in profile]).epsilon <= 1e-12


def test_the_constructors_make_the_games_they_name() -> None:
    roads = games.routes([0, 0, 1], [[0, 0.25], [0.25, 0]], [0.75, 0.3])
    assert roads.payoffs[0, 0].tolist() == pytest.approx([0.75, 0.5, 0.25])
    assert roads.payoffs[1, 1, 2] == pytest.approx(0.7)
    market = games.market_entry([0] * 10, [0.35])
    assert market.loads(market.settle()).tolist() == [4, 6]  # the seventh entrant would get 0.3 < 0.35
    good = games.public_good([0] * 9 + [1] * 3, [0.5, -0.1])
    assert good.loads(good.settle()).tolist() == [9, 3]  # those who like giving give
    assert good.welfare([1] * 12) > good.welfare([0] * 12)


def test_influence_is_what_one_player_changes() -> None:
    assert games.routes(np.zeros(100, int), [[0.1, 0.2]], [0.5, 0.5]).influence == pytest.approx(0.005)
    assert games.Crowd(np.ones((1, 1, 1)), [0]).influence == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: games.Crowd(np.ones((1, 2, 3)), []), "types must be"),
        (lambda: games.Crowd(np.ones((1, 2, 3)), [0, 0, 1]), "a list of zeros, because payoffs has one type"),
        (lambda: games.Crowd(np.ones((1, 2, 3)), [0, 0, -1]), "a list of zeros, because payoffs has one type"),
        (lambda: games.Crowd(np.ones((1, 2, 3)), [0.5, 0, 0]), "types must be"),
        (lambda: games.Crowd(np.ones((1, 2, 2)), [0, 0, 0]), "payoffs must be an array"),
        (lambda: games.Crowd(np.full((1, 2, 3), 1.5), [0, 0, 0]), "numbers from 0 to 1"),
        (lambda: games.Crowd(np.full((1, 2, 3), np.nan), [0, 0, 0]), "numbers from 0 to 1"),
        (lambda: games.Crowd("x", [0, 0, 0]), "payoffs must be"),
        (lambda: games.routes([0], [[0.5]], [0.6]), "numbers from 0 to 1"),
        (lambda: games.routes([0], [[0.5]], [0.1, 0.2]), "one column for each slope"),
        (lambda: games.routes([0], [[float("nan")]], [0.1]), "finite"),
        (lambda: games.market_entry([0], [2]), "numbers from 0 to 1"),
        (lambda: games.public_good([0], [2]), "costs must be"),
        (lambda: games.routes([0, 0], [[0.1, 0.2]], [0.1, 0.1]).welfare([0, 2]), "from 0 to 1"),
        (lambda: games.routes([0, 0], [[0.1, 0.2]], [0.1, 0.1]).welfare([0]), "for each player"),
    ],
)
def test_hostile_input_gets_rule_and_fix(make: object, message: str) -> None:
    assert assert_refused(make, message).fix


def test_games_that_go_in_circles_are_refused() -> None:
    """Matching pennies by two types: one wants company, the other wants to be alone."""
    crowd = games.Crowd([[[0, 1], [0, 1]], [[1, 0], [1, 0]]], [0, 1])
    with pytest.raises(sf.InvalidParameter, match="reach an equilibrium by moving to their best responses"):
        crowd.settle(max_moves=50)
