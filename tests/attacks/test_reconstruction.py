"""Reconstruction: nearly all bits from exact or coarse answers, no more than theory allows from private ones."""

from __future__ import annotations

import time

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import (
    ExactAnswers,
    NoisyAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    reconstruct,
    reconstruction,
    reconstruction_by_noise,
)
from sfumato.attacks.answerers import invented_bits
from sfumato.attacks.ceilings import guess_ceiling, max_correct


@pytest.mark.parametrize("method", ["least squares", "linear programme"])
def test_four_questions_a_person_tell_all_bits(method: str) -> None:
    """Random groups, four times as many as people, determine all bits of 60 people: a random matrix of 240 × 60 truths
    is singular with a probability below 2⁻¹⁵⁰. Rounding to threes loses fewer than a fifth of them.
    """
    secret = invented_bits(60)
    assert (reconstruct(ExactAnswers(secret), 240, method) == secret).all()
    assert (reconstruct(SuppressedAnswers(secret), 240, method) == secret).all()
    assert (reconstruct(RoundedAnswers(secret, 3), 240, method) == secret).mean() > 0.8


def test_no_more_bits_are_recovered_from_private_answers_than_theory_allows() -> None:
    """500 bits at ε = 1 and 3, from 1,000 questions: false alarm 10⁻⁶ each. The twin that draws the noise of one
    question for each of them promises the same and is caught.
    """
    secret = invented_bits(500)
    for epsilon in (1, 3):
        found = reconstruct(NoisyAnswers(secret, epsilon, 1000), 1000)
        assert int((found == secret).sum()) <= max_correct(500, guess_ceiling(sf.Guarantee(epsilon)))
    broken = reconstruct(NoisyAnswers(secret, 1000, 1000), 1000)
    assert int((broken == secret).sum()) > max_correct(500, guess_ceiling(sf.Guarantee(1)))


def test_a_real_curator_keeps_nearly_all_bits() -> None:
    """400 bits of 40 towns from 24 questions to a real curator, for ε = 1 in all: false alarm 10⁻⁶. The 24 groups tell
    all ten people apart but with probability 3·10⁻⁶, and then nine in ten bits.
    """
    found = reconstruction(10, 24, towns=40)
    assert found["exact"].success > 0.85
    assert found["private"].ceiling == guess_ceiling(sf.Guarantee(1))
    assert found["private"].trials == 400
    assert found.holds


def test_few_questions_tell_little_even_exactly() -> None:
    secret = invented_bits(400)
    assert (reconstruct(ExactAnswers(secret), 20) == secret).mean() < 0.8


def test_where_all_is_withheld_coins_decide() -> None:
    none = SuppressedAnswers(np.zeros(200, int))
    assert 20 < int(reconstruct(none, 50).sum()) < 180  # 11 standard deviations


def test_towns_with_withheld_answers_and_programmes_are_solved_one_by_one() -> None:
    secret = invented_bits(12, 3)
    assert reconstruct(SuppressedAnswers(secret, 2), 60).shape == (12, 3)
    assert (reconstruct(ExactAnswers(secret), 60, "linear programme") == secret).all()


def test_noise_beyond_the_root_of_the_people_hides_them() -> None:
    swept = reconstruction_by_noise(40, 120, scales=["0.1", 200], tables=2)
    assert swept["least squares"][0] == 1
    assert swept["linear programme"][0] == 1
    assert swept["ceiling"] == (1.0, guess_ceiling(sf.Guarantee("0.6")))
    assert max(swept["least squares"][1], swept["linear programme"][1]) <= max_correct(80, swept["ceiling"][1]) / 80
    assert swept.mark == pytest.approx(40**0.5)


def test_bad_input_is_refused() -> None:
    exact = ExactAnswers(invented_bits(2000))
    with pytest.raises(sf.InvalidParameter, match="method"):
        reconstruct(exact, 10, "guessing")
    # One question more than the most, by either method.
    with pytest.raises(sf.InvalidParameter, match="at most 524 for 2000 people"):
        reconstruct(exact, 525, "linear programme")
    with pytest.raises(sf.InvalidParameter, match="at most 67108 for 2000 people"):
        reconstruct(exact, 67109)
    with pytest.raises(sf.InvalidParameter, match="questions"):
        reconstruct(exact, 0)
    with pytest.raises(sf.InvalidParameter, match="people"):
        reconstruction(people=1)
    with pytest.raises(sf.InvalidParameter, match="scales"):
        reconstruction_by_noise(scales=[0])


@pytest.mark.long
def test_two_thousand_bits_are_found_within_ten_seconds() -> None:
    secret = invented_bits(2000)
    start = time.process_time()
    assert (reconstruct(ExactAnswers(secret), 20_000) == secret).all()
    assert time.process_time() - start < 20  # of two processors
