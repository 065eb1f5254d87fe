"""What one unit moves in scores and counts of coded rows, exactly, and what a choice may be made with."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from publish.synthesis.clinic import RELATIONS, curator, exact, exact_worlds, pairs, people, policy_of, worlds
from sfumato.mechanisms import Exponential
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows, ColumnSetDistances
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.publish.synthesis import state
from sfumato.publish.synthesis.state import SynthesisState, round_to_steps
from sfumato.publish.tab_steps import ChooseStep
from sfumato.release.measurement import Measurement
from sfumato.release.prices import Price

SETS = [places for count in (0, 1, 2, 3) for places in itertools.combinations(range(3), count)]


def misfits(reading: CellRows, guess: Any, weights: Any = None, penalties: Any = None) -> ColumnSetDistances:
    views = tuple(CellCounts(replace(reading, sets=tuple(SETS)), each) for each in SETS[1:])
    return ColumnSetDistances(
        views,
        tuple(np.asarray(guess(view), np.int64) for view in views),
        tuple(weights or range(1, len(views) + 1)),
        tuple(penalties or range(0, 3 * len(views), 3)),
    )


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_unit_moves_every_score_and_count_within_its_bound(relation: str, units: bool) -> None:
    """On neighbours, exactly: with models of every kind the bounds hold, and some neighbour attains them."""
    policies = [policy_of(each, units=units, relation=relation) for each in worlds(relation, units)]
    proposal, read = exact_worlds(policies, Price(2))
    reading = replace(proposal.setting(Price(2)).reading, sets=tuple(SETS))
    generator, furthest = np.random.default_rng(1), 0.0
    guesses = [lambda view, top=scale: generator.integers(0, top + 1, view.size) for scale in (0, 1, 50, 5000)]
    guesses += [lambda view, own=world: view.extract(own) for world in read]  # a model that knows all but one unit
    for guess in guesses:
        scores = misfits(reading, guess)
        for one, other in pairs(relation, [scores.extract(rows) for rows in read]):
            moved = np.abs(one - other).max()
            assert moved <= scores.sensitivity
            furthest = max(furthest, moved / float(scores.sensitivity))
    assert furthest == 1
    for view in (CellCounts(reading, each) for each in SETS):
        for one, other in pairs(relation, [view.extract(rows) for rows in read]):
            moved = np.abs(one - other)
            assert moved.sum() <= view.sensitivity.total
            assert (moved**2).sum() <= view.sensitivity.squares


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_choice_is_as_likely_on_neighbours_as_its_price_says(relation: str) -> None:
    """The exact law of the exponential mechanism: its loss spans at most ε, and comes near that."""
    proposal, read = exact_worlds([policy_of(each, relation=relation) for each in worlds(relation, False)], Price(2))
    reading = proposal.setting(Price(2)).reading
    generator, widest = np.random.default_rng(3), 0.0
    for _ in range(60):
        scores = misfits(reading, lambda view: generator.integers(0, 9, view.size), [5] * 7, [0] * 7)
        choice = Exponential(1, scores.sensitivity, neighbours=relation, grid=1)
        laws = [_law(scores.extract(each), choice) for each in read]
        for one, other in pairs(relation, laws):
            losses = one - other
            widest = max(widest, float(np.abs(losses).max()), float(losses.max() - losses.min()))
    assert 1 / 3 < widest <= 1 + 1e-9


def test_a_choice_is_drawn_and_not_the_largest_score() -> None:
    proposal, rows = exact(policy_of(people(1, 9)), Price(2))
    scores = misfits(proposal.setting(Price(2)).reading, lambda view: np.zeros(view.size), [1] * 7)
    assert len({*scores.extract(rows).tolist()}) > 1
    step = ChooseStep(scores, Exponential("0.001", scores.sensitivity, grid=1))
    drawn = [step.draw(lambda _: rows).index for _ in range(200)]
    assert {*drawn} == {*range(7)}  # 7·(6/7)^200 < 1e-12


def _law(scores: Any, choice: Exponential) -> Any:
    logs = scores.astype(float) * float(choice.rate)
    return logs - np.logaddexp.reduce(logs)


def test_scores_are_never_chosen_as_if_they_were_monotone_or_moved_less() -> None:
    proposal, _ = exact(policy_of(people(1, 9)), Price(2))
    scores = misfits(proposal.setting(Price(2)).reading, lambda view: np.zeros(view.size))
    Measurement(scores, Exponential(1, scores.sensitivity, grid=1))
    lighter = misfits(proposal.setting(Price(2)).reading, lambda view: np.zeros(view.size), [1] * 7)
    for wrong in (
        Exponential(1, scores.sensitivity, monotone=True, grid=1),
        Exponential(1, lighter.sensitivity, grid=1),
        Exponential(1, scores.sensitivity, neighbours="replace", grid=1),
        Exponential(1, scores.sensitivity, grid=2),
    ):
        with pytest.raises(sf.InvalidParameter):
            Measurement(scores, wrong)


def test_scores_are_whole_numbers_or_refused() -> None:
    """A score with a fraction would be rounded by the data's own digits."""
    proposal, rows = exact(policy_of(people(1, 9)), Price(2))
    view = CellCounts(proposal.setting(Price(2)).reading, (0,))
    good = np.zeros(view.size, np.int64)
    assert ColumnSetDistances((view,), (good,), (3,), (2,)).extract(rows).tolist() == [3 * (9 - 2)]
    for predicted, weight, penalty in (
        (good + 0.5, 1, 0),
        (good, 0.5, 0),
        (good, 1, 0.5),
        (good, 0, 0),
        (good[1:], 1, 0),
    ):
        with pytest.raises(sf.InvalidParameter):
            ColumnSetDistances((view,), (predicted,), (weight,), (penalty,))
    with pytest.raises(sf.InvalidParameter):
        ColumnSetDistances((), (), (), ())


@pytest.mark.parametrize("units", [False, True])
def test_marginals_of_coded_rows_are_those_of_the_rows(units: bool) -> None:
    proposal, rows = exact(policy_of(people(5, 200), units=units), Price(2))
    one = int(1 / proposal.setting(Price(2)).unit_value)
    whole = rows.marginal((0, 1, 2)).reshape(rows.sizes)
    assert whole.sum() == 200 * one
    for places in SETS:
        left = tuple(axis for axis in range(3) if axis not in places)
        assert rows.marginal(places).tolist() == whole.sum(axis=left).ravel().tolist()
    assert [each.dtype for each in rows.codes] == [np.uint8] * 3


def test_scores_beyond_what_a_number_holds_are_cut() -> None:
    """Whatever rows there are, a choice is made: no score is too large to be one."""
    proposal, rows = exact(policy_of(people(1, 9)), Price(2))
    view = CellCounts(proposal.setting(Price(2)).reading, (0,))
    many = CodedRows(rows.sizes, rows.codes, rows.totals << 50)
    none = np.zeros(view.size, np.int64)
    assert ColumnSetDistances((view,), (none,), (10**6,), (0,)).extract(many).tolist() == [LARGEST_INTEGER]
    assert ColumnSetDistances((view,), (none,), (10**6,), (1 << 60,)).extract(many).tolist() == [-LARGEST_INTEGER]


def test_totals_beyond_what_a_float_holds_are_added_exactly() -> None:
    rows = CodedRows((2,), (np.array([0, 0, 1], np.uint8),), np.array([2**53, 1, 5], np.int64))
    assert rows.marginal((0,)).tolist() == [2**53 + 1, 5]


@pytest.mark.parametrize("totals", [1, 1024, "various"])
@pytest.mark.parametrize("sizes", [(5, 3), (255, 1), (256, 1), (1, 256), (16, 16), (256, 256), (257, 255), (4, 70_000)])
def test_cells_are_counted_whatever_integers_hold_them(sizes: tuple[int, int], totals: Any) -> None:
    draw = np.random.default_rng(1)
    codes = tuple(draw.integers(0, size, 500).astype(np.min_scalar_type(size - 1)) for size in sizes)
    for column_codes, size in zip(codes, sizes, strict=True):
        column_codes[:2] = size - 1
    weights = draw.integers(0, 9, 500) if totals == "various" else np.full(500, totals)
    rows = CodedRows(sizes, codes, weights.astype(np.int64))
    expected = np.zeros(sizes, np.int64)
    np.add.at(expected, codes, weights)
    assert rows.marginal((0, 1)).tolist() == expected.reshape(-1).tolist()
    assert rows.marginal(()).tolist() == [int(weights.sum())]
    assert rows.marginal((1,)).tolist() == expected.sum(axis=0).tolist()


def test_equal_totals_beyond_64_bits_are_not_multiplied() -> None:
    rows = CodedRows((2,), (np.array([0, 1, 1], np.uint8),), np.full(3, 1 << 61, np.int64))
    assert rows._common_total is None
    assert rows.marginal((0,)).tolist() == [1 << 61, 1 << 62]


def test_scores_are_of_the_model_as_it_was_fitted_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of candidates are kept between choices; those of an older model would choose what is known already."""
    scores_of, seen = SynthesisState._candidate_scores, []

    def checked(course: SynthesisState, sets: Any, *more: Any) -> Any:
        scores = scores_of(course, sets, *more)
        wanted = [round_to_steps(counts, 1.0) for counts in course.model.marginals(sets)]
        assert all(np.array_equal(*pair) for pair in zip(scores.predicted, wanted, strict=True))
        seen.append(len(sets))
        return scores

    monkeypatch.setattr(SynthesisState, "_candidate_scores", checked)
    with curator(tmp_path, people(1, 50)) as clinic:
        for method in ("aim", "mst"):
            clinic.synthesize("people", method, 2).preview(epsilon=2, rows=500)
    assert len(seen) > 6


def test_a_tree_of_pairs_is_fitted_at_its_ends_and_every_pair_has_its_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, fits = state.fit_model, []

    def counted(observations: Any, *more: Any, **options: Any) -> Any:
        fits.append(len(observations))
        return fit(observations, *more, **options)

    monkeypatch.setattr(state, "fit_model", counted)
    with curator(tmp_path, people(1, 50)) as clinic:
        made = clinic.synthesize("people", "mst", 2).preview(epsilon=2, rows=500)
    assert fits == [0, 3, 5, 5]  # nothing in the dry run; columns, then all pairs at once; then closely
    assert all(each.gain > 0 for each in made.rounds if each.what == "chosen")
