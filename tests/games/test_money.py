"""With money: payments by closed form and by integral, truth dominant on every small game, draws on average right."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from games.small import HAND, environments
from sfumato import games

NOTHING = Fraction(1, 10**40)


@pytest.mark.parametrize("name", HAND)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "6"])
def test_truth_is_dominant_on_every_small_game(name: str, epsilon: str) -> None:
    proof = games.truthful_with_money(HAND[name], epsilon).proof()
    assert proof.exact
    assert proof.gain[1] <= NOTHING


@given(environments(reactions=True), st.sampled_from(["0.2", "1", "4"]))
@settings(max_examples=25)
def test_and_on_random_ones_nobody_is_worse_off(game: games.Environment, epsilon: str) -> None:
    priced = games.truthful_with_money(game, epsilon)
    assert priced.proof().gain[1] <= NOTHING
    for types in itertools.product(range(len(game.types)), repeat=game.players):
        law = priced.law(types)
        assert min(law.payments) >= -NOTHING
        assert min(priced.expected_utility(law, i, t, t) for i, t in enumerate(types)) >= -NOTHING


def test_without_payments_the_same_rule_is_not_truthful() -> None:
    """The broken twin: somebody gains by exaggerating once nobody pays."""
    game = games.Environment([[1, "0.9", 0], [0, "0.9", 1], ["0.9", 1, 0]], players=3)
    assert games.truthful_with_money(game, 4).proof().gain[1] <= NOTHING
    assert games.truthfulness(sf.Exponential(4, neighbours="replace"), game).gain[0] > Fraction(1, 100)


def test_payments_by_the_integral_they_are_drawn_from() -> None:
    game = HAND["second best"]
    priced = games.truthful_with_money(game, 2)
    types = (0, 2, 1)
    for player, paid in enumerate(priced.payments(types)):
        others = [
            sum(game.best_utilities(i)[t][s] for i, t in enumerate(types) if i != player) / game.scale for s in range(3)
        ]
        own = [u / game.scale for u in game.best_utilities(player)[types[player]]]

        def expected(x, own=own, others=others):  # type: ignore[no-untyped-def]
            weights = [mpmath.exp(o + x * v) for o, v in zip(others, own, strict=True)]
            return sum(w * v for w, v in zip(weights, own, strict=True)) / sum(weights)

        assert float(paid) == pytest.approx(float(expected(1) - mpmath.quad(expected, [0, 1])), abs=1e-12)


def test_drawn_payments_average_to_the_theorem() -> None:
    """Payments lie in [−1, 1]: by Hoeffding the mean of 1,500 is within 0.14 except with probability 9e-7 a player."""
    game = games.Environment([[1, 0], [0, 1]], players=3)
    priced = games.truthful_with_money(game, 3)
    bills = [priced.release([0, 0, 1]) for _ in range(1500)]
    drawn = np.array([[float(p) for p in bill.payments] for bill in bills]).mean(axis=0)
    assert 2 * math.exp(-2 * 1500 * (0.14 / 2) ** 2) < 1e-6
    for mean, paid in zip(drawn, priced.payments([0, 0, 1]), strict=True):
        assert abs(mean - float(paid)) < 0.14
    assert {bill.outcome for bill in bills} == {0, 1}


def test_reports_are_scaled_by_the_middles_of_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least and the greatest draw of x lie half a part from 0 and from 1."""
    priced = games.truthful_with_money(games.Environment([[1, 0], [0, 1]], players=2), 1)
    part = Fraction(1, 1 << priced.scaling_bits)
    scaled: list[list[Fraction]] = []
    monkeypatch.setattr(sf.Exponential, "choose", lambda _, scores: scaled.append(list(scores)) or 0)
    for drawn, x in (
        (0, part / 2),
        ((1 << priced.scaling_bits) - 1, 1 - part / 2),
        (1 << (priced.scaling_bits - 1), (1 + part) / 2),
    ):
        monkeypatch.setattr(games.exact_truthfulness.bits, "random_bits", lambda _, drawn=drawn: drawn)
        scaled.clear()
        priced.release([0, 1])
        assert scaled == [[1, 1], [x, 1], [1, x]]


def test_what_a_payer_sees_is_two_selections() -> None:
    """Exactly: the law of (outcome, own payment) under two reports of another player, within e^{2ε}."""
    game = games.Environment([[1, 0], [0, 1]], players=2)
    priced = games.truthful_with_money(game, 1)
    assert priced.payer_curve.max_divergence == 2

    def views(other: int, x: float) -> dict[tuple[int, float], float]:
        def chances(scale: float) -> list[float]:
            weights = [math.exp((scale * (s == 0) + (other == s)) / 2) for s in (0, 1)]
            return [w / sum(weights) for w in weights]

        first, second = chances(1), chances(x)
        return {(a, (a == 0) - (b == 0)): first[a] * second[b] for a in (0, 1) for b in (0, 1)}

    for x in (0.0, 0.3, 1.0):
        one, two = views(0, x), views(1, x)
        assert max(abs(math.log(one[key] / two[key])) for key in one) <= 2
    assert max(abs(math.log(views(0, 1.0)[key] / views(1, 1.0)[key])) for key in views(0, 1.0)) > 0.9


def test_welfare_is_within_the_entropy_of_the_best() -> None:
    """E[W] ≥ OPT − (2/ε)·ln|O|, on every profile of every small game."""
    for game in HAND.values():
        for epsilon in (Fraction(1, 2), Fraction(3)):
            priced = games.truthful_with_money(game, epsilon)
            for types in itertools.product(range(len(game.types)), repeat=game.players):
                scores = game.welfare(types)
                mean = sum(p * s for p, s in zip(priced.law(types).probabilities, scores, strict=True))
                assert float(mean) >= float(max(scores)) - 2 / float(epsilon) * math.log(len(scores)) - 1e-12


def test_hostile_input_gets_rule_and_fix() -> None:
    with pytest.raises(sf.InvalidParameter, match="made with Environment"):
        games.truthful_with_money(3, 1)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        games.truthful_with_money(HAND["majority"], 0)
    fine = games.Environment([["0.1234567891", 0], [0, 1]], players=100)
    with pytest.raises(sf.InvalidParameter, match="common denominator"):
        games.truthful_with_money(fine, 1)
    with pytest.raises(sf.InvalidParameter, match="type numbers from 0 to"):
        games.truthful_with_money(HAND["majority"], 1).release([0])
