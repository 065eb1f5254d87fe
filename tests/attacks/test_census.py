"""Small tables of a census: what they tell of every person, and what private ones do."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import census, guess_ceiling, max_correct
from sfumato.attacks.reconstruction import (
    SHAPE,
    Census,
    count_matrix,
    fit_block_tables,
    guess_ancestries,
    random_census,
)


def test_published_counts_are_the_tables_of_each_block() -> None:
    people = Census(2, np.array([0, 0, 1]), np.array([[0, 3, 1], [1, 3, 1], [1, 9, 2]]))
    told = people.published()
    by_sex_and_age = told[:, :20].reshape(2, 2, 10)
    by_sex_and_ancestry = told[:, 20:28].reshape(2, 2, 4)
    by_age_and_ancestry = told[:, 28:].reshape(2, 10, 4)
    assert by_sex_and_age[0, 0, 3] == by_sex_and_age[0, 1, 3] == by_sex_and_age[1, 1, 9] == 1
    assert by_sex_and_ancestry[0, :, 1].tolist() == [1, 1]
    assert by_age_and_ancestry[0, 3, 1] == 2
    assert told.sum() == 9  # everybody is in each of three tables
    assert count_matrix().sum(axis=0).tolist() == [3.0] * int(np.prod(SHAPE))


def test_a_block_of_people_who_differ_is_found_exactly() -> None:
    people = Census(1, np.zeros(4, int), np.array([[0, 0, 0], [1, 1, 1], [0, 2, 2], [1, 3, 3]]))
    assert np.abs(fit_block_tables(people.published()) - people.counts()).max() < 0.01
    assert guess_ancestries(people.published(), people).tolist() == [0, 1, 2, 3]


def test_exact_tables_tell_most_ancestries_and_private_ones_few() -> None:
    """Of 20 blocks with 8 people each exact tables tell about 88 % of ancestries, and blind guesses 25 %: below 65 %
    lies more than 7 standard deviations off. The ceiling on private tables is passed once in 10⁶ runs at most.
    """
    found = census(blocks=20, people=8)
    assert found["exact"].success > 0.65
    assert found.holds
    assert found["private"].ceiling == guess_ceiling(sf.Guarantee(1), "1/4", 4)
    assert found["private"].questions == found["exact"].questions == 20 * len(count_matrix())


def test_tables_without_noise_that_promise_some_are_caught() -> None:
    people = random_census(20, 8)
    right = int((guess_ancestries(people.published(), people) == people.cells[:, -1]).sum())
    assert right > max_correct(160, guess_ceiling(sf.Guarantee(1), "1/4", 4))


def test_add_remove_neighbours_have_the_ceiling_of_two_units() -> None:
    found = census(blocks=2, people=4, neighbours="add-remove")
    assert found["private"].ceiling == guess_ceiling(sf.Guarantee(2), "1/4", 4)


def test_tables_that_are_withheld_wholly_leave_coins() -> None:
    people = random_census(30, 4)
    nothing = np.full(people.published().shape, np.nan)
    right = (guess_ancestries(nothing, people) == people.cells[:, -1]).mean()
    assert right < 0.55  # 7 standard deviations above a quarter


def test_bad_input_is_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="blocks"):
        census(blocks=0)
    with pytest.raises(sf.InvalidParameter, match="people"):
        census(people=0)
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        census(blocks=1, people=1, epsilon=0)
