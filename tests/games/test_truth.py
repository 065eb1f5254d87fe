"""Misreports: every small game by enumeration, beside an independent reckoning, and within every bound."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from games.small import HAND, best_gain, environments, exponential, flipped
from refusals import assert_refused
from sfumato import games

LAWS = {sf.Exponential: exponential, sf.PermuteAndFlip: flipped}
EPSILONS = ["0.01", "0.3", "1", "2.5", "8"]


@pytest.mark.parametrize("name", HAND)
@pytest.mark.parametrize("make", LAWS)
def test_gains_agree_with_plain_loops_and_stay_within_every_bound(name: str, make: type) -> None:
    game = HAND[name]
    for epsilon in EPSILONS:
        mechanism = make(epsilon, neighbours="replace")
        found = games.truthfulness(mechanism, game)
        gain, cost = best_gain(game, LAWS[make], mechanism.rate)
        assert found.exact
        assert float(found.gain[0]) == pytest.approx(gain, abs=1e-12)
        assert float(found.cost[0]) == pytest.approx(cost, abs=1e-12)
        assert found.gain[1] - found.gain[0] < Fraction(1, 10**50)
        assert found.holds
        order = [found.bounds[name] for name in ("total variation", "tanh(kε/2)", "e^(kε) − 1")]
        assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(order))  # the first rounds up more


@pytest.mark.parametrize("make", LAWS)
def test_every_game_of_two_by_two_on_a_coarse_grid(make: type, long: bool) -> None:
    """All 81 tables with utilities 0, 1/2 and 1, for two players; three with --long."""
    for entries in itertools.product((0, Fraction(1, 2), 1), repeat=4):
        game = games.Environment([entries[:2], entries[2:]], players=3 if long else 2)
        for epsilon in ("0.4", "5") if long else ("1",):
            for k in (1, 2):
                assert games.truthfulness(make(epsilon, neighbours="replace"), game, coalition=k).holds
        assert games.truthful_with_money(game, 1).proof().gain[1] < Fraction(1, 10**40)


@given(environments(), st.sampled_from(EPSILONS), st.sampled_from(list(LAWS)), st.integers(1, 2))
@settings(max_examples=50)
def test_no_random_game_escapes_the_bounds(game: games.Environment, epsilon: str, make: type, k: int) -> None:
    found = games.truthfulness(make(epsilon, neighbours="replace"), game, coalition=min(k, game.players))
    assert found.exact
    assert found.holds
    assert float(found.gain[0]) <= min(found.bounds.values())
    assert float(found.cost[0]) <= min(found.bounds.values())  # the drawback: nor does truth help by more


@given(environments(reactions=True), st.sampled_from(["0.5", "3"]))
@settings(max_examples=30)
def test_players_that_are_alike_may_be_counted_together(game: games.Environment, epsilon: str) -> None:
    """The anonymous enumeration against the full one, in which the rule does not say that it is anonymous."""
    rule = games.WelfareSelection(game, sf.Exponential(epsilon, neighbours="replace"))
    full = games.StatedMechanism(game, lambda reports: rule.law(reports).probabilities, rule.curve)
    together, apart = games.truthfulness(rule, game), games.truthfulness(full, game)
    assert float(together.gain[0]) == pytest.approx(float(apart.gain[0]), abs=1e-40)
    assert float(together.cost[0]) == pytest.approx(float(apart.cost[0]), abs=1e-40)


def test_the_exponential_mechanism_meets_its_bound() -> None:
    """Closed form: two camps that differ by one vote, P moves from 1/(1+e^{−ε/2}) to 1/(1+e^{ε/2}): tanh(ε/4)."""
    for epsilon in EPSILONS:
        found = games.truthfulness(sf.Exponential(epsilon, neighbours="replace"), HAND["majority"])
        assert float(found.cost[0]) == pytest.approx(math.tanh(float(epsilon) / 4), rel=1e-12)
        assert found.bounds["total variation"] == pytest.approx(math.tanh(float(epsilon) / 4), rel=1e-9)


def test_randomised_response_meets_tanh_half() -> None:
    """Closed form with rational probabilities: two coins, e^ε = 3, and the gap is exactly tanh(ε/2) = 1/2."""
    game = games.Environment([[1, 0], [0, 1]], players=1)
    truth = games.StatedMechanism(game, lambda r: ["3/4", "1/4"] if r[0] == 0 else ["1/4", "3/4"])
    found = games.truthfulness(truth, game)
    assert found.gain == (Fraction(-1, 2), Fraction(-1, 2))
    assert found.cost == (Fraction(1, 2), Fraction(1, 2))
    assert math.tanh(math.log(3) / 2) == pytest.approx(0.5)


def test_a_selection_priced_add_remove_counts_twice() -> None:
    game = HAND["majority"]
    once = games.truthfulness(sf.Exponential(1, neighbours="replace"), game)
    twice = games.truthfulness(sf.Exponential(1, monotone=True), game)
    assert twice.bounds["tanh(kε/2)"] == pytest.approx(math.tanh(1))
    assert float(twice.cost[0]) > once.bounds["total variation"]  # it would break the bound at ε counted once
    assert twice.holds


@pytest.mark.parametrize("k", [1, 2, 3])
def test_coalitions_gain_at_most_what_k_units_leak(k: int) -> None:
    for name in ("majority", "second best", "unequal", "line of 3"):
        for epsilon in ("0.2", "1", "3"):
            found = games.truthfulness(sf.Exponential(epsilon, neighbours="replace"), HAND[name], coalition=k)
            assert found.holds
            assert found.bounds["tanh(kε/2)"] == pytest.approx(math.tanh(k * float(epsilon) / 2))
            assert float(found.gain[0]) <= found.bounds["2kε"]


def test_two_can_do_what_one_cannot() -> None:
    """A coalition of two breaks the bound of one, and stays within that of two."""
    game = games.Environment([[1, 0], [0, 1]], players=4)
    one, two = (games.truthfulness(sf.Exponential(1, neighbours="replace"), game, coalition=k) for k in (1, 2))
    assert two.cost[0] > Fraction(one.bounds["total variation"])
    assert float(two.cost[0]) == pytest.approx(math.tanh(0.5))
    assert two.holds


def test_where_the_exponential_bound_passes_the_linear_one() -> None:
    """e^x − 1 ≤ 2x ends at x = 1.2564…; 2x remains a bound of the gain for every x, because tanh(x/2) ≤ x/2 ≤ 2x."""
    below, above = (games.bounds(sf.Curve.pure(x, "replace")) for x in ("1.256", "1.257"))
    assert below["e^(kε) − 1"] < below["2kε"]
    assert above["e^(kε) − 1"] > above["2kε"] > above["tanh(kε/2)"]


def test_bounds_turn_an_add_remove_curve_into_one_for_misreports() -> None:
    assert games.bounds(sf.Curve.pure(1))["tanh(kε/2)"] == pytest.approx(math.tanh(1))


def test_a_false_claim_is_caught() -> None:
    """The broken twin: a mechanism at ε = 2 that claims 1."""
    game = HAND["majority"]
    honest = games.WelfareSelection(game, sf.Exponential(2, neighbours="replace"))
    lying = games.StatedMechanism(game, lambda r: honest.law(r).probabilities, sf.Curve.bounded_range(1, "replace"))
    assert games.truthfulness(honest, game).holds
    assert not games.truthfulness(lying, game).holds


def test_choosing_the_best_is_not_truthful_where_privacy_nearly_is() -> None:
    """Without noise a misreport gains everything; with it hardly anything."""
    game = games.Environment([[1, "0.9", 0], [0, "0.9", 1], ["0.9", 1, 0]], players=3)

    def best(reports: tuple[int, ...]) -> list[int]:
        scores = game.welfare(reports)
        return [int(s == scores.index(max(scores))) for s in range(3)]

    assert games.truthfulness(best, game).gain[0] == Fraction(1, 10)
    assert games.truthfulness(sf.Exponential("0.1", neighbours="replace"), game).gain[0] < Fraction(1, 40)


def test_large_games_are_sampled_between_certified_ends() -> None:
    game = games.Environment(np.random.default_rng(3).integers(0, 100, (6, 5, 1)).astype(object) * Fraction(1, 100), 40)
    found = games.truthfulness(sf.Exponential(1, neighbours="replace"), game, samples=50)
    assert not found.exact
    assert found.gain[0] < found.gain[1] == Fraction(found.bounds["total variation"])
    assert "the best of the samples" in str(found)


def test_hundreds_alike_are_enumerated() -> None:
    game = games.Environment([[1, 0], [0, 1]], players=301)
    found = games.truthfulness(sf.Exponential(1, neighbours="replace"), game)
    assert found.exact
    assert float(found.cost[0]) == pytest.approx(math.tanh(0.25))


def test_the_witness_is_a_case_that_gains_as_much() -> None:
    game = HAND["second best"]
    mechanism = sf.PermuteAndFlip(3, neighbours="replace")
    rule, found = games.WelfareSelection(game, mechanism), games.truthfulness(mechanism, game)
    (player,), (report,) = found.witness.players, found.witness.reports
    types = found.witness.types
    said = (*types[:player], report, *types[player + 1 :])
    gained = rule.expected_utility(rule.law(said), player, types[player], report) - rule.expected_utility(
        rule.law(types), player, types[player], types[player]
    )
    assert found.gain[0] <= gained <= found.gain[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: games.Environment([[1, 2]], 2), "utilities must be numbers in"),
        (lambda: games.Environment([[1, -0.1]], 2), "utilities must be numbers in"),
        (lambda: games.Environment([[1, float("nan")]], 2), "utilities must be numbers in"),
        (lambda: games.Environment([[1, "x"]], 2), "utilities must be numbers in"),
        (lambda: games.Environment([], 2), "utilities must be an array"),
        (lambda: games.Environment([[1], [1, 0]], 2), "utilities must be an array"),
        (lambda: games.Environment(5, 2), "utilities must be an array"),
        (lambda: games.Environment([[1, 0]], 0), "players must be a whole number"),
        (lambda: games.Environment([[1, 0]], 2.5), "players must be a whole number"),
        (lambda: games.Environment([[[[1, 0]]]] * 3, 2), "one for each player"),
        (lambda: games.Environment([[1, 0], [0, 1]], 2, types=["a", "a"]), "different names"),
        (lambda: games.Environment.from_function("u", 2, [0], [1]), "a function"),
        (lambda: games.Environment.from_function(lambda t, s: t * s, 2, [], [1]), "different names"),
        (lambda: games.Environment([[0.123456789012345, 1]], 10**6), "few decimals, because they are added up exactly"),
        (lambda: games.truthfulness(sf.Exponential(1), "game"), "made with Environment"),
        (lambda: games.truthfulness("best", HAND["majority"]), "a selection mechanism (such as Exponential"),
        (lambda: games.truthfulness(sf.Exponential, HAND["majority"]), "a selection mechanism (such as Exponential"),
        (lambda: games.truthfulness(lambda r: None, HAND["majority"]), "sum to exactly 1"),  # noqa: ARG005
        (lambda: games.bounds(3), "a privacy curve"),  # type: ignore[arg-type]
        (lambda: games.Environment([[1, 0]], 2, outcomes=[[0], [1]]), "different names"),
        (lambda: games.truthfulness(sf.TopK(1, k=1), HAND["majority"]), "Exponential or PermuteAndFlip"),
        (lambda: games.truthfulness(sf.NoisyMax(1), HAND["majority"]), "Exponential or PermuteAndFlip"),
        (lambda: games.truthfulness(sf.Exponential(1, grid=0.5), HAND["majority"]), "without a grid"),
        (lambda: games.truthfulness(sf.Exponential(1, "0.5"), HAND["majority"]), "sensitivity must be at least 1"),
        (lambda: games.truthfulness(sf.Exponential(1), HAND["majority"], coalition=4), "at most 3"),
        (lambda: games.truthfulness(sf.Exponential(1), HAND["majority"], coalition=0), "whole number"),
        (lambda: games.truthfulness(sf.Exponential(1), games.Environment([[1, 0]], 2)), "two types"),
        (lambda: games.truthfulness(lambda r: [1, 1], HAND["majority"]), "sum to exactly 1"),  # noqa: ARG005
        (
            lambda: games.WelfareSelection(HAND["majority"], sf.Exponential(1)).release([0, 1]),
            "type numbers from 0 to",
        ),
        (
            lambda: games.WelfareSelection(HAND["majority"], sf.Exponential(1)).release([0, 1, 7]),
            "type numbers from 0 to",
        ),
        (
            lambda: games.WelfareSelection(HAND["majority"], sf.Exponential(1)).release(None),
            "type numbers from 0 to",
        ),
        (lambda: games.line(1, 3), "points must be"),
        (lambda: games.line(3, 3, facilities=4), "facilities must be"),
        (lambda: games.line(60, 3, facilities=30), "ways at the 60 places"),
        (lambda: games.graph([("a", "b"), ("c", "d")], 3), "a connected graph"),
        (lambda: games.graph([1, 2], 3), "pairs of nodes"),
        (lambda: games.graph([], 3), "2 to 60 nodes"),
    ],
)
def test_hostile_input_gets_rule_and_fix(make: object, message: str) -> None:
    assert assert_refused(make, message).fix


def test_utilities_out_of_range_are_to_be_rescaled() -> None:
    assert "rescale the utilities to [0, 1]" in assert_refused(lambda: games.Environment([[1, 2]], 2)).fix


def test_refused_reports_are_not_shown() -> None:
    rule = games.WelfareSelection(HAND["majority"], sf.Exponential(1))
    with pytest.raises(sf.InvalidParameter) as refusal:
        rule.release([0, 1, 1234])
    assert "1234" not in str(refusal.value)
