"""Tracing succeeds on exact counts and on rows that are copied, and stays under theory's curve on a curator's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import Finding
from sfumato.attacks.membership import (
    AttributePopulation,
    CandidateRows,
    TracingResult,
    attribute_of_rows,
    closeness_weights,
    draw_candidates,
    draw_runs,
    is_secret_guessed,
    membership,
    membership_of_rows,
    release_privately,
    release_synthetic_rows,
    resample_rows,
    rows_policy,
    scores_and_guesses,
    trace_targets,
)

MISS = 1e-6
HALF = sf.Guarantee("0.5")
TENTH = sf.Guarantee("0.1")


@pytest.fixture(scope="module")
def traced() -> TracingResult:
    return membership("0.1", runs=120)


def test_exact_counts_give_away_who_is_there(traced: TracingResult) -> None:
    """Guesses are right 9 times of 10; 2 of 3 are missed in 120 independent runs less than once in 10⁶ times
    (Hoeffding).
    """
    assert traced.findings["exact"].success > 0.65
    assert dict(traced.scores_by_answers)["exact"].area > 0.8


def test_coarse_counts_give_away_nearly_as_much(traced: TracingResult) -> None:
    """Guesses are right 8 times of 10, and the same bound leaves more than half."""
    assert traced.findings["rounded"].success > 0.56
    assert traced.findings["below"].success > 0.56


def test_private_counts_stay_under_the_curve_and_exact_ones_claimed_to_be_private_do_not(traced: TracingResult) -> None:
    """A false alarm comes once in a million times, at all thresholds together and for the guesses."""
    tests = dict(traced.scores_by_answers)
    private = traced.findings["private, ε = 0.1"]
    assert private.ceiling == guess_ceiling(TENTH)
    assert private.holds
    assert tests["private, ε = 0.1"].excess(TENTH, MISS) <= 0
    assert tests["exact"].excess(TENTH, MISS) > 0
    claimed = Finding("twin", "exact", traced.findings["exact"].right, private.trials, 0.5, private.ceiling)
    assert not claimed.holds


def test_counts_are_those_of_the_people_who_are_there() -> None:
    runs = draw_runs(AttributePopulation(7), 5, 3)
    inside, outside = runs.counts()
    assert np.array_equal(outside, runs.others.sum(axis=1))
    assert np.array_equal(inside - outside, runs.targets)


def test_people_have_the_frequencies_of_their_population() -> None:
    """Off by more than six standard deviations in none of 20 attributes: false alarms below 10⁻⁷."""
    population = AttributePopulation(20)
    share = population.people(20_000).mean(axis=0)
    off = np.abs(share - population.frequencies) / np.sqrt(population.frequencies * (1 - population.frequencies))
    assert off.max() < 6 / np.sqrt(20_000)


def test_every_run_is_released_at_the_whole_price() -> None:
    """Noise on d sums at ε has a mean size of d/ε: within a quarter for 2,000 draws, 11 standard deviations.

    With 100 attributes two questions share the price, and nobody is in two runs.
    """
    runs = draw_runs(AttributePopulation(100), 2, 10)
    noise = np.concatenate([told - true for told, true in zip(release_privately(runs, 2), runs.counts(), strict=True)])
    assert np.abs(noise).mean() == pytest.approx(50, rel=0.25)


def test_a_large_price_gives_the_counts_in_their_order() -> None:
    runs = draw_runs(AttributePopulation(5), 3, 4)
    for told, true in zip(release_privately(runs, 10**6), runs.counts(), strict=True):
        assert np.array_equal(told, true)


def test_what_is_withheld_says_nothing() -> None:
    runs = draw_runs(AttributePopulation(5), 3, 4)
    nothing = np.full((4, 5), np.nan)
    assert trace_targets(runs, (nothing, nothing)).best == 0.5


@pytest.mark.parametrize("given", [{"epsilon": 0}, {"people": 0}, {"attributes": 0}, {"runs": 0}, {"runs": 10**9}])
def test_bad_numbers_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(sf.InvalidParameter):
        membership(**given)  # type: ignore[arg-type]


# ── from rows ──────────────────────────────────────────────────────────────────────────────────


def test_rows_without_names_and_copies_give_away_who_is_there() -> None:
    """Of 240 coins 9 of 10 are guessed from the rows themselves, 7 of 10 from copies; 2 of 3 and 6 of 10 are asked for.

    Synthetic rows of a curator hold their ceiling but once in a million times, and copies that claim ε = 0.5 do not.
    """
    found = membership_of_rows("0.5", runs=2, candidates=120, columns=8).findings
    assert found["without names"].success > 0.75
    assert found["private"].holds
    own = found["without names"]
    assert not Finding("twin", "copies", own.right, own.trials, 0.5, guess_ceiling(HALF)).holds


def test_a_right_guess_of_a_secret_is_told_apart_by_who_is_there() -> None:
    found = attribute_of_rows("0.5", runs=1, candidates=300, columns=7)
    assert found["without names, with them"].success > 0.9  # 99 of 100; 150 people
    assert found["without names, without them"].success < 0.9  # the population tells 3 of 4
    assert found["private, ε = 0.5, of the person"].holds
    assert found["private, ε = 0.5, of the person"].trials == 300


def test_weights_fall_tenfold_with_every_column_that_differs() -> None:
    rows, values = np.array([[0, 1, 2], [0, 1, 3]]), np.array([[0, 1, 2], [1, 2, 2]])
    assert closeness_weights(rows, values) == pytest.approx(np.array([[1, 0.1], [0.01, 0.001]]))


def test_the_half_with_the_higher_scores_is_guessed_to_be_there() -> None:
    candidates = CandidateRows(
        np.array([[0, 0, 0], [1, 3, 1], [0, 2, 0], [1, 1, 1]]), np.array([True, False, True, False])
    )
    _, guessed = scores_and_guesses(candidates.table, candidates)
    assert guessed.tolist() == [True, False, True, False]
    assert scores_and_guesses(candidates.table[:0], candidates)[1].sum() == 2


def test_a_secret_is_guessed_by_those_who_are_alike_and_a_missing_one_has_no_vote() -> None:
    candidates = CandidateRows(np.array([[0, 0, 1], [1, 1, 0]]), np.array([True, True]))
    assert is_secret_guessed(np.array([[0, 0, 1], [1, 1, 1], [1, 1, 0], [1, 1, 0]]), candidates).tolist() == [
        True,
        True,
    ]
    assert is_secret_guessed(np.array([[0, 0, -1], [1, 1, -1]]), candidates).tolist() == [False, False]


def test_copies_are_rows_of_the_table_and_names_are_not_in_their_order() -> None:
    candidates = draw_candidates(50, 4)
    real = {tuple(row) for row in candidates.table}
    assert {tuple(row) for row in resample_rows(candidates.table)} <= real
    assert np.array_equal(candidates.table, candidates.table[np.lexsort(candidates.table.T)])
    assert len(resample_rows(candidates.table[:0])) == 0


def test_a_synthetic_table_has_as_many_rows_as_are_drawn() -> None:
    rows = release_synthetic_rows(draw_candidates(40, 3).table, 1, "independent", 17)
    assert rows.shape == (17, 3)
    assert rows.min() >= -1
    assert rows.max() < 4


def test_under_replace_neighbours_somebody_else_is_in_the_table_and_the_curve_holds() -> None:
    """Both tables have as many people and differ in one. The ceiling fails once in a million times where it is true."""
    runs = draw_runs(AttributePopulation(96), 6, 4, sf.Neighbours.REPLACE)
    assert runs.replacements is not None
    inside, outside = runs.counts()
    assert (inside - outside == runs.targets.astype(float) - runs.replacements).all()
    big = release_privately(runs, 10_000, sf.Neighbours.REPLACE)
    assert (np.abs(big[0] - inside) < 1).all()
    assert (np.abs(big[1] - outside) < 1).all()
    traced = membership(1, people=8, attributes=48, runs=60, neighbours="replace")
    assert traced.findings.holds


def test_under_replace_neighbours_a_coin_exchanges_two_rows() -> None:
    """Tables whose coins differ in one place are as large and differ in one row; the half whose own row is nearer than
    that of whoever stands in its place is guessed to be there.
    """
    drawn = draw_candidates(30, 4, sf.Neighbours.REPLACE)
    assert drawn.replacements is not None
    flipped = drawn.inside.copy()
    flipped[7] ^= True
    tables = [
        Counter(map(tuple, CandidateRows(drawn.values, coins, drawn.replacements).table))
        for coins in (drawn.inside, flipped)
    ]
    assert [each.total() for each in tables] == [30, 30]
    assert (tables[0] - tables[1]).total() <= 1
    values, others = np.array([[0, 0, 0], [1, 3, 1]]), np.array([[1, 1, 1], [0, 2, 0]])
    own = CandidateRows(values, np.array([True, False]), others)
    scores, guessed = scores_and_guesses(own.table, own)
    assert guessed.tolist() == [True, False]
    assert scores[0] > 0 > scores[1]
    assert scores_and_guesses(own.table[:0], own)[0].tolist() == [0, 0]


def test_rows_of_either_relation_are_bought_for_it_and_hold_their_ceiling() -> None:
    """Under replace neighbours real rows tell nearly all of 120 coins: one of 200 guesses is wrong, so that 20 are with
    a probability below 10⁻²⁰. A twin that claims ε = 0.5 for them, which allows 99, is caught, and synthetic rows are
    not but once in a million times.
    """
    found = membership_of_rows("0.5", runs=1, candidates=120, columns=8, method="independent", neighbours="replace")
    own = found.findings["without names"]
    assert own.success > 0.8
    assert not Finding("twin", "copies", own.right, own.trials, 0.5, guess_ceiling(HALF)).holds
    assert found.findings["private"].holds
    secrets = attribute_of_rows("0.5", runs=1, candidates=120, columns=6, method="independent", neighbours="replace")
    assert secrets["private, ε = 0.5, of the person"].holds
    with pytest.raises(sf.InvalidParameter, match="neighbours"):
        membership_of_rows(neighbours="near")


def test_synthetic_rows_are_paid_for_under_the_relation_that_is_named() -> None:
    table = draw_candidates(20, 3, sf.Neighbours.REPLACE).table
    declared = {each: rows_policy(table, 1, each) for each in sf.Neighbours}
    assert [each.budget.neighbours for each in declared.values()] == list(sf.Neighbours)
    assert [declared[each].size for each in (sf.Neighbours.REPLACE, sf.Neighbours.ADD_REMOVE)] == [20, None]
