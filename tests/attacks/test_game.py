"""The game is scored honestly: rounds are fixed, what is not played is wrong, and budgets end."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.answerers import ExactAnswers, NoisyAnswers, SuppressedAnswers, invented_bits
from sfumato.attacks.ceilings import epsilon_lower_bound
from sfumato.attacks.game import CURATORS, NAMES, QUESTIONS, WORDS, GameRound, GuessingMatch, parse_group, start_round


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ("all", set(NAMES)),
        ("Ann, bob", {"Ann", "Bob"}),
        ("all but Ann", set(NAMES) - {"Ann"}),
        ("but Ann", set(NAMES) - {"Ann"}),
        ("north but Ann Cem", set(NAMES[::2]) - {"Ann", "Cem"}),
        ("south Ann", {*NAMES[1::2], "Ann"}),
        ("Ann but", {"Ann"}),
    ],
)
def test_who_is_asked_about(words: str, who: set[str]) -> None:
    assert {NAMES[place] for place in np.flatnonzero(parse_group(words.split()))} == who


@pytest.mark.parametrize("words", ["", "zed", "all but zed", ","])
def test_nobody_else_can_be_asked_about(words: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="names, a ward"):
        parse_group(words.split())


def test_a_name_that_is_not_known_is_repeated_as_it_was_typed() -> None:
    with pytest.raises(sf.InvalidParameter, match="got 'Zed'"):
        parse_group(["all", "BUT", "Zed"])


@pytest.mark.parametrize(("rounds", "said"), [(4, "So few rounds prove nothing"), (5, "5 right of 5 would prove ε")])
def test_a_match_that_is_too_short_to_prove_anything_says_so(rounds: int, said: str) -> None:
    """Blind guesses are all right in 1 of 16 matches of four rounds, and in 1 of 32 of five: 1 of 20 lies between."""
    assert said in GuessingMatch("exact", rounds).score()


def test_two_exact_counts_give_the_secret_away() -> None:
    with start_round("exact") as current:
        everybody = current.ask(["all"])
        others = current.ask(["all", "but", NAMES[current.target]])
        assert everybody is not None
        assert others is not None
        assert current.is_correct(everybody > others)
        assert not current.is_correct(everybody <= others)


def test_small_counts_are_withheld() -> None:
    secret = np.array([1] * 5 + [0] * (len(NAMES) - 5))
    current = GameRound(secret, 0, SuppressedAnswers(secret))
    assert current.ask(["all"]) == 5
    assert current.ask(["all", "but", "Ann"]) is None


def test_a_private_curator_answers_until_its_budget_is_spent() -> None:
    with start_round("private") as current:
        for _ in range(QUESTIONS):
            assert current.ask(["all"]) is not None
        with pytest.raises(sf.Overspent):
            current.ask(["all"])


def test_secrets_and_targets_are_drawn_anew() -> None:
    """Of 200 rounds all have one target with probability below 10⁻²⁰⁰."""
    seen = set()
    for _ in range(200):
        with start_round("rounded") as current:
            seen.add((current.target, bool(current.secret[current.target])))
    assert len({target for target, _ in seen}) > 1
    assert len({secret for _, secret in seen}) == 2


def test_rounds_that_are_not_played_count_as_wrong() -> None:
    match = GuessingMatch("exact", 10)
    for _ in range(5):
        match = match.after_round(True)
    assert match.epsilon == epsilon_lower_bound(5, 10, "0.05") == 0
    assert "5 not played, which counts as wrong" in match.score()
    for _ in range(5):
        match = match.after_round(True)
    chance = 0.05**0.1  # so likely must each guess be for ten of ten to be no surprise
    assert match.epsilon == pytest.approx(math.log(chance / (1 - chance)))
    assert "10 of 10 rounds. That proves, with 95 % confidence, that these answers leak ε ≥ 1.05" in match.score()


def test_the_best_player_proves_no_more_than_is_promised_and_much_against_exact_answers() -> None:
    """One question for all of ε = 1 tells most. That 400 rounds prove more is chance once in a million times; exact
    answers that claim it are refuted always.
    """
    proved = {}
    for kind, curator in (("private", lambda secret: NoisyAnswers(secret, 1, 1)), ("exact", ExactAnswers)):
        match = GuessingMatch(kind, 400)
        for _ in range(match.rounds):
            secret = invented_bits(len(NAMES))
            told = GameRound(secret, 0, curator(secret)).ask(["Ann"])
            assert told is not None
            match = match.after_round(GameRound(secret, 0, ExactAnswers(secret)).is_correct(told > 0.5))
        proved[kind] = epsilon_lower_bound(match.right, match.rounds, "1e-6")
    assert proved["private"] <= 1 < proved["exact"]


def test_the_score_says_what_the_curator_promised() -> None:
    assert "promised ε ≤ 1: at most 73.2 % of guesses" in GuessingMatch("private", 4, 4, 2).score()
    assert "would prove ε ≥ 1.05" in GuessingMatch("rounded", 10).score()


def test_matches_are_against_somebody_for_some_rounds() -> None:
    for given in (("nobody", 1), ("exact", 0), ("exact", 1001)):
        with pytest.raises(sf.InvalidParameter):
            GuessingMatch(*given)
    with pytest.raises(sf.InvalidParameter, match="one of exact, rounded"), start_round("nobody"):
        pass
    assert list(CURATORS) == list(WORDS) == ["exact", "rounded", "suppressed", "private"]
