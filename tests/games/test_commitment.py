"""Exactly truthful without money: strictness by enumeration, broken twins, the conditions' order, welfare."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import sfumato as sf
from games.small import HAND, environments
from mechanisms.test_laws import passes
from sfumato import games

WITH_GAP = {
    "line of 3": games.line(3, players=5),
    "line of 4": games.line(4, players=3),
    "line of 5, two players": games.line(5, players=2),
    "three facilities": games.line(4, players=3, facilities=3),
    "square": games.graph([(0, 1), (1, 2), (2, 3), (3, 0)], players=4),
    "star": games.graph([("hub", name) for name in "abc"], players=4),
    "path and leaf": games.graph([("a", "b"), ("b", "c"), ("b", "d")], players=3),
    "one player": games.line(3, players=1),
}


@pytest.mark.parametrize("name", WITH_GAP)
def test_truth_is_strictly_best_on_every_instance(name: str) -> None:
    mixture = games.exactly_truthful(WITH_GAP[name])
    proof = mixture.proof()
    assert mixture.meets_sharpest_condition
    assert proof.exact
    assert proof.strict
    assert "strictly best" in str(proof)


@pytest.mark.parametrize("name", ["line of 3", "square", "star"])
@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "2"])
def test_given_one_the_other_is_chosen(name: str, epsilon: str) -> None:
    mixture = games.exactly_truthful(WITH_GAP[name], epsilon=epsilon)
    assert mixture.proof().strict
    again = games.exactly_truthful(WITH_GAP[name], q=mixture.q)
    assert float(again.epsilon) == pytest.approx(float(epsilon), rel=1e-3)
    assert again.proof().strict
    with pytest.raises(sf.InvalidParameter, match='"q" must be at least'):
        games.exactly_truthful(WITH_GAP[name], epsilon=epsilon, q=mixture.q * Fraction(99, 100))


@given(environments(reactions=True), st.sampled_from(["0.02", "0.4", "1.5"]))
@settings(max_examples=35)
def test_random_environments_with_a_gap_become_strict(game: games.Environment, epsilon: str) -> None:
    assume(game.gap is not None and game.gap.gamma > 0)
    mixture = games.exactly_truthful(game, epsilon=epsilon)
    assert mixture.proof().strict


@given(
    environments(reactions=True), st.fractions(Fraction(1, 1000), 3), st.fractions(Fraction(1, 100), Fraction(99, 100))
)
@settings(max_examples=30)
def test_each_condition_implies_the_next_and_the_last_implies_strictness(
    game: games.Environment, epsilon: Fraction, q: Fraction
) -> None:
    assume(game.gap is not None and game.gap.gamma > 0)
    mixture = games.Mixture(game, epsilon, q)
    assert not mixture.meets_plain_condition or mixture.meets_sharp_condition
    assert not mixture.meets_sharp_condition or mixture.meets_sharpest_condition
    assert not mixture.meets_sharpest_condition or mixture.proof().strict


def test_each_condition_is_met_somewhere_where_the_one_before_is_not() -> None:
    game = WITH_GAP["line of 3"]
    found = [games.Mixture(game, "0.2", q) for q in ("0.35", "0.6", "0.999999")]
    found.append(games.Mixture(game, "0.01", "0.5"))
    assert [(m.meets_plain_condition, m.meets_sharp_condition, m.meets_sharpest_condition) for m in found] == [
        (False, False, True),
        (False, True, True),
        (False, True, True),
        (True, True, True),
    ][: len(found)]


def test_a_mixture_with_too_small_q_is_caught() -> None:
    """The broken twin: at ε = 8 exaggeration pays, and a hundredth of a percent of commitment does not outweigh it."""
    wishes = [["1", "0.9", "0"], ["0", "0.9", "1"], ["0.9", "1", "0"]]
    tempting = games.Environment.from_function(
        lambda t, s, r: (9 * Fraction(wishes[t][s]) + (r == t)) / 10,
        3,
        types=range(3),
        outcomes=range(3),
        reactions=range(3),
    )
    assert tempting.gap is not None
    assert tempting.gap.gamma == Fraction(1, 10)
    broken = games.Mixture(tempting, 8, "0.0001")
    assert not broken.meets_sharpest_condition
    assert not broken.proof().strict
    assert broken.proof().gain[0] > 0
    assert games.exactly_truthful(tempting, epsilon=8).proof().strict


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (games.line(4, players=3, facilities=1), "is also best for type"),
        (HAND["majority"], "is also best for type"),
        (games.Environment([[[1, 0]], [[1, 0]]], players=3), "is also best for type"),
        (games.Environment([[[1, 0]]], players=3), "only one type"),
    ],
)
def test_without_a_gap_it_refuses_with_the_reason(game: games.Environment, reason: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="γ = 0") as refusal:
        games.exactly_truthful(game)
    assert reason in refusal.value.rule
    assert "two facilities" in refusal.value.fix


def test_the_gap_by_hand() -> None:
    """On a line of m places, facilities at t and t′: the wrong one costs |t − t′|/(m − 1), least for neighbours."""
    for m in (3, 4, 6):
        gap = games.line(m, players=1).gap
        assert gap is not None
        assert gap.gamma == Fraction(1, m - 1)
        assert gap.penalty >= gap.gamma / (m * (m - 1) // 2)


@given(environments(reactions=True))
@settings(max_examples=100)
def test_the_gap_by_plain_loops(game: games.Environment) -> None:
    def used(i: int, t: int, s: int) -> int:
        row = game.table(i)[t][s]
        return row.index(max(row))

    losses = {
        (i, t, lie): [
            game.table(i)[t][s][used(i, t, s)] - game.table(i)[t][s][used(i, lie, s)] for s in range(len(game.outcomes))
        ]
        for i in range(game.players)
        for t, lie in itertools.permutations(range(len(game.types)), 2)
    }
    assert game.gap is not None
    assert game.gap.gamma == Fraction(min(max(each) for each in losses.values()), game.scale)
    assert game.gap.penalty == Fraction(min(sum(each) for each in losses.values()), game.scale * len(game.outcomes))


def test_welfare_never_falls_below_the_bound() -> None:
    """Every profile of small instances, and the corners of large ones."""
    for players in (2, 5, 40, 300):
        game = games.line(3, players=players)
        mixture = games.exactly_truthful(game)
        splits = {
            (a, b)
            for a in range(0, players + 1, max(1, players // 6))
            for b in range(0, players - a + 1, max(1, players // 6))
        }
        for a, b in splits:
            mixed, best = mixture.welfare([0] * a + [1] * b + [2] * (players - a - b))
            assert best - mixture.loss <= mixed <= best + 1e-12


def test_large_instances_are_certified_by_the_theorem() -> None:
    """Too many cases to enumerate: samples below, the theorem above, and strict all the same; unless q is too small."""
    game = games.line(5, players=60)
    proof = games.exactly_truthful(game).proof(samples=20)
    assert not proof.exact
    assert proof.strict
    assert proof.holds
    assert not games.Mixture(game, 1, "0.001").proof(samples=20).strict


def test_members_of_coalitions_gain_no_more_than_is_certified() -> None:
    for name in ("line of 3", "star"):
        mixture = games.exactly_truthful(WITH_GAP[name], epsilon="0.5")
        for k in (1, 2):
            assert mixture.proof(coalition=k).holds


def test_the_loss_falls_like_the_root_of_n() -> None:
    losses = [games.exactly_truthful(games.line(4, players=n)).loss for n in (10**4, 10**6, 10**8)]
    assert losses[0] / losses[1] == pytest.approx(10, rel=0.15)
    assert losses[1] / losses[2] == pytest.approx(10, rel=0.02)


def test_privacy_alone_leaves_truth_nearly_worthless_and_commitment_mends_it() -> None:
    """The drawback: at ε = 0.05 no report costs more than tanh(ε/4) < 0.0125; held to it, each costs far more."""
    game = WITH_GAP["line of 3"]
    alone = games.truthfulness(sf.Exponential("0.05", neighbours="replace"), game)
    assert float(alone.cost[1]) < 0.0125
    mended = games.Mixture(game, "0.05", "0.5").proof()
    assert float(mended.gain[1]) < -0.05


def test_draws_follow_the_mixture() -> None:
    game = games.line(3, players=3)
    mixture = games.Mixture(game, 2, "0.3")
    count = 2000
    drawn = [mixture.release([0, 0, 2]) for _ in range(count)]
    free = mixture.law((0, 0, 2)).probabilities
    seen = [
        sum(d.outcome == s and (d.reactions is None) is kind for d in drawn) for kind in (True, False) for s in range(3)
    ]
    expected = count * np.array([*(0.7 * float(p) for p in free), 0.1, 0.1, 0.1])
    assert passes(float(((np.array(seen) - expected) ** 2 / expected).sum()), 6)
    held = next(d for d in drawn if d.reactions is not None)
    built = game.outcomes[held.outcome]
    assert [abs(built[r] - home) for r, home in zip(held.reactions, (0, 0, 2), strict=True)] == [  # type: ignore[index, arg-type]
        min(abs(place - home) for place in built)  # type: ignore[attr-defined]
        for home in (0, 0, 2)
    ]


@pytest.mark.parametrize("arguments", [{"q": 0}, {"q": 1}, {"q": "x"}, {"epsilon": 0}, {"epsilon": float("nan")}])
def test_hostile_input_gets_rule_and_fix(arguments: dict[str, object]) -> None:
    with pytest.raises(sf.InvalidParameter):
        games.exactly_truthful(WITH_GAP["line of 3"], **arguments)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="made with Environment"):
        games.exactly_truthful("somewhere")  # type: ignore[arg-type]
