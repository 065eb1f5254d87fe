"""A difference that is spread over many questions is found in none of them, and put together from all."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import (
    ExactAnswers,
    NoisyAnswers,
    OverlapControlledAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    difference,
    differencing_by_questions,
    draw_separated_groups,
    estimate_target_bit,
    table_groups,
)
from sfumato.attacks.ceilings import guess_ceiling, max_correct
from sfumato.attacks.differencing import MIN_DIFFERENCE, round_to_bits


def towns(people: int, many: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (people, many))


@pytest.mark.parametrize(("questions", "people"), [(60, 50), (40, 20)])
def test_no_two_questions_differ_by_one_person_or_by_few(questions: int, people: int) -> None:
    groups = draw_separated_groups(questions, people)
    assert groups.shape == (questions, people)
    apart = (groups[:, None] ^ groups).sum(axis=2) + people * np.eye(questions, dtype=int)
    assert apart.min() >= MIN_DIFFERENCE
    assert groups.sum(axis=1).min() >= MIN_DIFFERENCE


def test_where_no_such_groups_are_left_the_number_of_questions_is_refused() -> None:
    """Of five people only all five differ from nobody by five, and then nothing differs from both."""
    with pytest.raises(sf.InvalidParameter, match="questions"):
        draw_separated_groups(2, 5)


def test_every_person_is_found_from_questions_that_are_not_alike() -> None:
    """Sixty random groups of fifty people have no null space but with a probability below 10⁻¹⁴."""
    secret, groups = towns(50, 40), draw_separated_groups(60, 50)
    for person in (0, 17, 49):
        found = estimate_target_bit(OverlapControlledAnswers(secret), groups, person)
        np.testing.assert_allclose(found, secret[person], atol=1e-6)


def test_fewer_questions_than_people_leave_doubt() -> None:
    secret = towns(50, 2000)
    found = estimate_target_bit(ExactAnswers(secret), draw_separated_groups(25, 50), 0)
    assert 0.1 < np.abs(found - secret[0]).mean() < 0.5  # half of one person is seen, and half of the doubt is left


def test_a_curator_who_compares_questions_withholds_pairs_and_nothing_else() -> None:
    answerer = OverlapControlledAnswers([1] * 12)
    alone, few, half = (np.arange(12)[None, :] < count for count in (4, 5, 9))
    assert np.isnan(answerer.sums(alone)).all()  # four people are nearly nobody
    assert answerer.sums(few) == 5  # five are not
    assert np.isnan(answerer.sums(half)).all()  # nine differ from the five by four
    assert answerer.sums(np.arange(12)[None, :] < 10) == 10
    assert np.isnan(difference(OverlapControlledAnswers([1] * 12), 0)).all()
    with pytest.raises(sf.InvalidParameter, match="apart"):
        OverlapControlledAnswers([1], 1)


def test_many_questions_average_rounding_away() -> None:
    """Rounding to fives adds an error of variance 2 to each of 400 totals, whose weights have a length of about
    √(4/350): the estimate is off by half, which is 3.3 standard deviations, once in a thousand times, so that more than
    5 % of 400 towns have a probability below 10⁻⁹.
    """
    secret = towns(50, 400)
    right = round_to_bits(estimate_target_bit(RoundedAnswers(secret), draw_separated_groups(400, 50), 0)) == secret[0]
    assert right.mean() > 0.95


def test_a_withheld_cell_is_what_its_street_has_more_than_the_other_cells() -> None:
    groups = table_groups(3, 3, 20)
    assert groups.shape == (16, 161)
    assert groups.sum(axis=1).tolist() == [1] + [20] * 8 + [41, 60, 60] + [41, 60, 60] + [161]
    secret = towns(161, 300)
    answerer = SuppressedAnswers(secret)
    told = answerer.sums(groups)
    assert np.isnan(told[0]).all()  # whoever is alone in a cell is never told of
    whole = ~np.isnan(told[1:]).any(axis=0)
    assert whole.sum() > 150
    np.testing.assert_allclose(estimate_target_bit(answerer, groups, 0)[whole], secret[0, whole], atol=1e-6)


def test_other_cells_that_are_withheld_too_are_found_by_another_way_round() -> None:
    """A cell of the same street is withheld, so the street does not tell the first; the band of age does."""
    secret = np.ones((161, 2), np.int64)
    groups = table_groups(3, 3, 20)
    secret[groups[1], 0] = 0
    secret[0] = (1, 0)
    told = SuppressedAnswers(secret).sums(groups)
    assert np.isnan(told[:2, 0]).all()
    np.testing.assert_allclose(estimate_target_bit(SuppressedAnswers(secret), groups, 0), [1, 0], atol=1e-6)


def test_where_nothing_is_told_there_is_no_estimate() -> None:
    assert np.isnan(estimate_target_bit(SuppressedAnswers([0] * 30), draw_separated_groups(10, 30), 0))


def test_private_answers_stay_under_the_ceiling_and_a_twin_with_too_little_noise_does_not() -> None:
    """The ceiling is passed once in 10⁶ runs at most. The broken twin promises 1 and draws the noise of ε = 1,000, of
    scale 0.12 on each of 120 totals: the weights have a length of about √(4/70), so the estimate is off by half, 12
    standard deviations, never, and all of 300 guesses are right where 245 may be.
    """
    secret, groups = towns(50, 300), draw_separated_groups(120, 50)
    most = max_correct(300, guess_ceiling(sf.Guarantee(1)))
    sound = round_to_bits(estimate_target_bit(NoisyAnswers(secret, 1, 120, towns=True), groups, 0)) == secret[0]
    assert int(sound.sum()) <= most
    broken = round_to_bits(estimate_target_bit(NoisyAnswers(secret, 1000, 120, towns=True), groups, 0)) == secret[0]
    assert int(broken.sum()) > most


def test_all_is_found_from_as_many_questions_as_people_but_privately() -> None:
    """From 1.2 questions for each person on there is no doubt left. From a fifth of them a fifth of a person is seen:
    three of four guesses at most are right. The private course is drawn under the ceiling, with 100 towns' luck.
    """
    found = differencing_by_questions(towns=100)
    near = found["near pairs withheld"]
    assert near[-5:] == (1.0,) * 5
    assert near[0] < 0.95
    assert found.mark == 50
    assert max(found["private, ε = 1"]) <= max_correct(100, guess_ceiling(sf.Guarantee(1))) / 100
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        differencing_by_questions(epsilon=0)
