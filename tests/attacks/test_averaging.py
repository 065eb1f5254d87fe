"""Averaging: noise that nobody counts is averaged away, and an account prevents it twice."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import ExactAnswers, NoisyAnswers, UncountedAnswers, average, averaging, averaging_by_times
from sfumato.attacks.ceilings import guess_ceiling, max_correct
from sfumato.attacks.differencing import round_to_bits


def test_the_mean_of_answers_is_about_one_person() -> None:
    assert average(ExactAnswers([0, 1, 0]), 1, 3) == 1
    assert average(ExactAnswers([0, 1, 0]), 2, 3) == 0


def test_asking_again_helps_where_nobody_adds_up_and_not_at_a_curator() -> None:
    """The mean of 200 answers at ε = 1 has a standard deviation of 0.096: a guess is wrong with probability 10⁻⁷, so
    that all but 1 % of 300 are right but with a probability below 10⁻¹⁵. Ceilings are passed once in 10⁶ runs at most.
    """
    secret = np.random.default_rng(2).integers(0, 2, (2, 300))
    right = round_to_bits(average(UncountedAnswers(secret, 1), 0, 200)) == secret[0]
    assert right.mean() > 0.99
    found = averaging(times=4, towns=300)
    assert found["exact"].success == 1
    assert found.holds
    assert found["private, ε = 1, 4 times"].ceiling == guess_ceiling(sf.Guarantee(1))
    assert found["private, ε = 1, 4 draws bought"].ceiling == guess_ceiling(sf.Guarantee(1))
    assert found["ε = 1 each, uncounted, 4"].ceiling is None


def test_draws_from_one_budget_are_no_better_than_one_draw() -> None:
    """Of 2,000 guesses no more are right than the ceiling allows, at 1, 8 and 64 draws: false alarm 10⁻⁶ each; the
    same draws at a price of ε each, which is the broken twin, pass it.
    """
    secret = np.random.default_rng(3).integers(0, 2, (1, 2000))
    most = max_correct(2000, guess_ceiling(sf.Guarantee(1)))
    for times in (1, 8, 64):
        sold = round_to_bits(average(NoisyAnswers(secret, 1, times, towns=True), 0, times))
        assert int((sold == secret[0]).sum()) <= most
    broken = round_to_bits(average(NoisyAnswers(secret, 64, 64, towns=True), 0, 64))
    assert int((broken == secret[0]).sum()) > most


def test_the_sweep_has_a_course_for_each_way_of_counting() -> None:
    swept = averaging_by_times(most=8, towns=500)
    assert swept.at == (1, 2, 4, 8)
    assert swept["ceiling"] == (guess_ceiling(sf.Guarantee(1)),) * 4
    assert swept["no accounting"][-1] > 0.75  # 87 % expected: 12 % of 500 are 8 standard deviations


def test_bad_input_is_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="times"):
        averaging(times=1)
    with pytest.raises(sf.InvalidParameter, match="times"):
        average(ExactAnswers([1]), 0, 0)
    with pytest.raises(sf.InvalidParameter, match="target"):
        average(ExactAnswers([1]), 1, 1)
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        averaging(times=2, towns=2, epsilon=0)
