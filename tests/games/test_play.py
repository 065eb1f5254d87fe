"""Games of actions: equilibria known by heart, and plain loops over random ones."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from refusals import assert_refused
from sfumato import games

DILEMMA = games.MatrixGame([[["0.6", 0], [1, "0.2"]], [["0.6", 1], [0, "0.2"]]])
PENNIES = games.MatrixGame([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
MEETING = games.MatrixGame([[[1, 0], [0, "0.5"]], [["0.5", 0], [0, 1]]])
ROCKS = np.array([[Fraction(1, 2), 0, 1], [1, Fraction(1, 2), 0], [0, 1, Fraction(1, 2)]], dtype=object)


def test_equilibria_known_by_heart() -> None:
    assert DILEMMA.equilibria() == [(1, 1)]
    assert PENNIES.equilibria() == []
    assert MEETING.equilibria() == [(0, 0), (1, 1)]
    mixed = games.approximate_nash(MEETING, [["2/3", "1/3"], ["1/3", "2/3"]])
    assert mixed.epsilon == 0
    assert mixed.utilities == (Fraction(1, 3), Fraction(1, 3))
    third = ["1/3"] * 3
    assert games.approximate_nash(games.MatrixGame([ROCKS, ROCKS.T]), [third, third]).epsilon == 0


@given(st.lists(st.integers(0, 2), min_size=24, max_size=24))
@settings(max_examples=50)
def test_equilibria_are_the_profiles_nobody_leaves(flat: list[int]) -> None:
    game = games.MatrixGame(np.array([Fraction(x, 2) for x in flat], dtype=object).reshape(3, 2, 2, 2))
    profiles = itertools.product(range(2), repeat=3)
    assert game.equilibria() == [p for p in profiles if games.approximate_nash(game, p).epsilon == 0]


def test_distances_and_best_responses() -> None:
    found = games.approximate_nash(DILEMMA, [0, 0])
    assert (found.epsilon, found.gains, found.best_responses) == (Fraction(2, 5), (Fraction(2, 5),) * 2, (1, 1))
    assert games.approximate_nash(DILEMMA, [1, 0]).player == 1
    assert games.approximate_nash(PENNIES, [["0.6", "0.4"], ["0.5", "0.5"]]).epsilon == Fraction(1, 10)


@st.composite
def matrices(draw: st.DrawFn) -> tuple[games.MatrixGame, list[list[Fraction]]]:
    actions = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    size = int(np.prod(actions)) * len(actions)
    flat = draw(st.lists(st.integers(0, 12), min_size=size, max_size=size))
    payoffs = np.array([Fraction(x, 12) for x in flat], dtype=object).reshape(len(actions), *actions)
    weights = [draw(st.lists(st.integers(0, 5), min_size=a, max_size=a).filter(any)) for a in actions]
    return games.MatrixGame(payoffs), [[Fraction(w, sum(each)) for w in each] for each in weights]


@given(matrices())
@settings(max_examples=60)
def test_against_plain_loops(case: tuple[games.MatrixGame, list[list[Fraction]]]) -> None:
    game, mixed = case

    def utility(i: int, strategies: list[list[Fraction]]) -> Fraction:
        total = Fraction(0)
        for profile in itertools.product(*(range(a) for a in game.actions)):
            chance = Fraction(1)
            for player, action in enumerate(profile):
                chance *= strategies[player][action]
            total += chance * game.payoffs[(i, *profile)]
        return total

    found = games.approximate_nash(game, mixed)
    for i, count in enumerate(game.actions):
        options = []
        for action in range(count):
            alone = [Fraction(int(a == action)) for a in range(count)]
            options.append(utility(i, [*mixed[:i], alone, *mixed[i + 1 :]]))
        assert found.utilities[i] == utility(i, mixed)
        assert found.gains[i] == max(options) - utility(i, mixed)
        assert options[found.best_responses[i]] == max(options)
    assert found.epsilon == max(found.gains) >= 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: games.MatrixGame([[1, 2], [0, 1]]), "payoffs"),
        (lambda: games.MatrixGame([[[1, 2], [0, 1]], [[1, 0], [0, 1]]]), "payoffs must be numbers in"),
        (lambda: games.MatrixGame([[[1, float("nan")], [0, 1]], [[1, 0], [0, 1]]]), "payoffs must be numbers in"),
        (lambda: games.MatrixGame([]), "payoffs"),
        (lambda: games.MatrixGame(None), "payoffs"),
        (lambda: games.approximate_nash(DILEMMA, [0]), "each of the 2 players"),
        (lambda: games.approximate_nash(DILEMMA, 0), "each of the 2 players"),
        (lambda: games.approximate_nash(DILEMMA, [0, 2]), "from 0 to 1"),
        (lambda: games.approximate_nash(DILEMMA, [0, True]), "2 probabilities"),
        (lambda: games.approximate_nash(DILEMMA, [0, [0.5, 0.4]]), "sum to exactly 1"),
        (lambda: games.approximate_nash(DILEMMA, [0, [1.5, -0.5]]), "a number in"),
        (lambda: games.approximate_nash("chess", [0]), "a MatrixGame or a Crowd"),
    ],
)
def test_hostile_input_gets_rule_and_fix(make: object, message: str) -> None:
    assert_refused(make, message)


def test_payoffs_out_of_range_are_to_be_rescaled() -> None:
    """The refusal speaks of payoffs, and not of per cent."""
    refusal = assert_refused(lambda: games.MatrixGame([[[3, 0], [0, 1]], [[0, 1], [1, 0]]]), "in [0, 1]")
    assert refusal.fix == "rescale the payoffs to [0, 1]"
