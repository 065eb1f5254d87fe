"""Differencing: certain on exact answers, below the ceiling on private ones, both at stated rates."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import ExactAnswers, NoisyAnswers, SuppressedAnswers, difference, differencing
from sfumato.attacks.answerers import Groups, Sums
from sfumato.attacks.ceilings import guess_ceiling, max_correct
from sfumato.attacks.differencing import mean_of_answers, round_to_bits


def test_the_smoker_of_the_notes_is_found() -> None:
    """Of five people three smoke, and of all but Bob two do."""
    smokes = [1, 1, 0, 0, 1]
    for person, bit in enumerate(smokes):
        assert difference(ExactAnswers(smokes), person) == bit


def test_many_pairs_are_about_different_groups_and_never_about_one_person_alone_twice() -> None:
    seen: list[Groups] = []

    class Watched(ExactAnswers):
        def sums(self, groups: Groups) -> Sums:
            seen.append(groups)
            return super().sums(groups)

    difference(Watched([1] * 40), 3, 50)
    asked = seen[0]
    assert asked.shape == (100, 40)
    assert asked[:50, 3].all()
    assert not asked[50:, 3].any()
    assert (np.delete(asked[:50], 3, axis=1) == np.delete(asked[50:], 3, axis=1)).all()
    assert len({row.tobytes() for row in asked}) == 100  # two alike: 2⁻³⁹ · 10⁴


def test_withheld_totals_are_left_out() -> None:
    told = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, np.nan]])
    assert mean_of_answers(told).tolist()[0] == 0.5
    assert np.isnan(mean_of_answers(told)[1])
    coins = round_to_bits(np.full(400, np.nan))
    assert 100 < int(coins.sum()) < 300  # 10 standard deviations: false alarm below 10⁻²²


def test_differencing_is_certain_but_on_private_answers() -> None:
    """On exact answers every guess is right. Through the rule of small cells a guess is a coin where fewer than 5 of 19
    other people smoke, in one town of 100: 11 wrong ones of 150 have a probability below 10⁻⁹. 100 pairs average a base
    of 5 away: an error has probability 0.6 % at most for a smoker, so that 11 have one below 10⁻⁹, too. Thirty groups
    of 20 people leave no two alike but with 2·10⁻⁷. The ceiling on private answers is passed once in 10⁶ runs at most.
    """
    found = differencing(people=20, towns=150, pairs=100, bought_pairs=2)
    assert found["exact"].success == 1
    assert found["below 5 withheld, one pair"].right > 139
    assert found["rounded to 5s, 100 pairs"].right > 139
    assert 0.25 < found["below 5 withheld, asked directly"].success < 0.75
    assert found.holds
    assert found["private, ε = 1, one pair"].ceiling == guess_ceiling(sf.Guarantee(1))
    assert found["private, ε = 1, one pair"].questions == 2
    for how, questions in (("spread", 30), ("from a table", 16)):
        own = found[f"private, ε = 1, {how}"]
        assert (own.ceiling, own.questions) == (guess_ceiling(sf.Guarantee(1)), questions)
    assert 0.25 < found["near pairs withheld, one pair"].success < 0.75  # 6 standard deviations: below 10⁻⁸
    assert found["near pairs withheld, spread"].success == 1
    assert found["below 5 withheld, from a table"].right > 139


def test_an_answerer_with_too_little_noise_is_caught() -> None:
    """The broken twin draws the noise of ε = 12 and promises 1: of 2,000 guesses too many are right."""
    secret = np.random.default_rng(1).integers(0, 2, (30, 2000))
    right = round_to_bits(difference(NoisyAnswers(secret, 12, 2, towns=True), 0)) == secret[0]
    assert int(right.sum()) > max_correct(2000, guess_ceiling(sf.Guarantee(1)))
    sound = round_to_bits(difference(NoisyAnswers(secret, 1, 2, towns=True), 0)) == secret[0]
    assert int(sound.sum()) <= max_correct(2000, guess_ceiling(sf.Guarantee(1)))


def test_bad_input_is_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="people"):
        differencing(people=3)
    with pytest.raises(sf.InvalidParameter, match="pairs"):
        difference(ExactAnswers([1, 0]), 0, 0)
    with pytest.raises(sf.InvalidParameter, match="target"):
        difference(ExactAnswers([1, 0]), 2)
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        differencing(towns=2, pairs=2, epsilon=0)
    assert SuppressedAnswers([1, 0]).kind == "below 5 withheld"
