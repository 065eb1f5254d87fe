"""What is learnt about the population is told apart from what is learnt about the person."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.attribute import (
    AttributeGuesses,
    StudySize,
    attribute,
    draw_tables,
    guess_attributes,
    guess_secrets,
    release_privately,
)
from sfumato.attacks.findings import Findings

MISS = 1e-6


@pytest.fixture(scope="module")
def found() -> Findings:
    return attribute("0.5", people=60, looks=30, runs=200)


def test_exact_counts_tell_of_the_person_and_smoking_alone_of_the_population(found: Findings) -> None:
    """With somebody in the table 9 of 10 guesses are right, and 7 of 10 without. Their row only helps, in about one run
    of 6: seven of 200 are missed less than once in 10⁶ times. From smoking alone both are 3 of 4, and one person among
    30 moves hardly any.
    """
    assert found["exact, with them"].success > 0.7
    assert found["exact, with them"].right - found["exact, without them"].right > 6
    alone = [found[f"exact, from smoking alone, {who}"].success for who in ("with them", "without them")]
    assert alone[0] - alone[1] < 0.05
    assert min(alone) > 0.55


@pytest.mark.long
def test_what_the_population_tells_proves_no_epsilon(found: Findings) -> None:
    """Three of four guesses are right without the person, from whom nothing was released: that is ε = 0."""
    assert found["exact, from smoking alone, without them"].right > 110  # 150 expected: 6 standard deviations
    assert {each.epsilon_lower_bound for each in found} == {0.0}


def test_private_counts_stay_under_the_ceiling_of_what_is_guessed_without_the_person(found: Findings) -> None:
    own = found["private, ε = 0.5, with them"]
    assert own.ceiling is not None
    assert own.ceiling < 1
    assert own.holds


def test_exact_counts_that_claim_to_be_private_are_caught() -> None:
    """Of 2,000 runs 97 of 100 are right with the person and 73 without: ε = 0.25 does not allow that."""
    learnt = guess_attributes(draw_tables(StudySize(200, 500), 2000), lambda counts: counts.astype(float))
    assert learnt.excess(sf.Guarantee("0.25"), MISS) > 0
    assert learnt.excess(sf.Guarantee(5), MISS) <= 0


@pytest.mark.parametrize("epsilon", ["0.25", "1"])
def test_noise_that_keeps_its_promise_is_not_caught(epsilon: str) -> None:
    """A false alarm comes once in a million times."""
    noise = sf.Laplace(1 / sf.Guarantee(epsilon).epsilon)
    tables = draw_tables(StudySize(50, 40), 1000)
    learnt = guess_attributes(tables, lambda counts: noise.apply(counts.ravel()).reshape(counts.shape))
    assert learnt.excess(sf.Guarantee(epsilon), MISS) <= 0
    assert learnt.ceiling(sf.Guarantee(epsilon)) > learnt.correct_share_without_person


def test_the_table_without_the_person_lacks_their_row_alone() -> None:
    tables = draw_tables(StudySize(5, 3), 4)
    gone = tables.inside - tables.outside
    assert gone.sum(axis=(1, 2, 3)).tolist() == [1, 1, 1, 1]
    assert tables.inside.sum() == 20
    for run, target in enumerate(tables.targets):
        assert gone[run][tuple(target)] == 1


def test_a_guess_is_the_majority_of_those_alike_and_in_a_tie_of_all_who_smoke_as_they_do() -> None:
    published = np.zeros((2, 2, 2, 2))
    published[:, 1, 0] = [0, 1]
    published[:, 1, 1] = [2, 2]
    assert guess_secrets(published, np.array([[1, 0, 0], [1, 1, 0]])).tolist() == [1, 1]


def test_a_large_price_gives_the_counts_in_their_order() -> None:
    counts = draw_tables(StudySize(6, 3), 4).inside
    assert np.array_equal(release_privately(counts, 10**6), counts)


def test_every_run_is_released_at_the_whole_price() -> None:
    """Noise of scale 1/ε has a mean size of about that: within a quarter for 960 draws, 7 standard deviations."""
    counts = draw_tables(StudySize(6, 12), 20).inside
    assert np.abs(release_privately(counts, "0.1") - counts).mean() == pytest.approx(10, rel=0.25)


def test_what_is_learnt_is_counted() -> None:
    learnt = AttributeGuesses(10, 9, 6)
    assert (learnt.correct_share_with_person, learnt.correct_share_without_person, learnt.gain) == (
        0.9,
        0.6,
        pytest.approx(0.3),
    )


@pytest.mark.parametrize("given", [{"epsilon": 0}, {"people": 1}, {"looks": 0}, {"runs": 0}])
def test_bad_numbers_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(sf.InvalidParameter):
        attribute(**given)  # type: ignore[arg-type]


def test_under_replace_neighbours_somebody_else_is_in_the_table_and_the_ceiling_holds() -> None:
    """Both tables have as many people. The ceiling fails once in a million times where it is true."""
    tables = draw_tables(StudySize(9, 4), 30, sf.Neighbours.REPLACE)
    assert (tables.inside.sum(axis=(1, 2, 3)) == 9).all()
    assert (tables.outside.sum(axis=(1, 2, 3)) == 9).all()
    assert (np.abs(tables.inside - tables.outside).sum(axis=(1, 2, 3)) <= 2).all()
    found = attribute("0.5", people=30, looks=10, runs=60, neighbours="replace")
    assert found["private, ε = 0.5, with them"].holds
