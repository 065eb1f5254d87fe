"""Readings at the edges of what they take, and what they return on a few rows, worked out by hand."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plan.described import CATALOG
from plan.readings.test_cells_by_enumeration import _bounded as bounded_cells
from plan.readings.test_factored_totals import COUNTS, ROWS, SUMS, bounded
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import (
    BoundedPlan,
    bound_by_whole_rows,
    bound_for_discovery,
    candidate_bounded_plans,
    for_neighbours,
)
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings import cell_rows, combining, dense_readings
from sfumato.plan.readings.cell_rows import (
    CellCounts,
    CellRows,
    CodedRows,
    ColumnSetDistances,
    MergedCells,
    RanksOfCells,
)
from sfumato.plan.readings.combining import FactoredTotals, combine_readings
from sfumato.plan.readings.dense_readings import CountDistances, Marginal, Marginals, MarginalView
from sfumato.plan.readings.total_readings import (
    ChosenGroups,
    DiscoveredGroups,
    GroupSizeHistogram,
    GroupTotals,
    KeyHolders,
    LinearScores,
    LinearTotals,
    MeasureTotals,
    ReadMeasure,
    RowsReachingCandidates,
    ThresholdWeights,
    WeightMatrix,
)
from sfumato.plan.sql.statements import parse
from sfumato.privacy import Neighbours, Sensitivity

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def two_keys(rows: int = 1, neighbours: Neighbours = ADDED) -> BoundedPlan:
    """Counts by two keys: one of two cells and one of three, and what is missing."""
    plan = parse("SELECT urgent, age, COUNT(*) FROM visits GROUP BY urgent, age", CATALOG).plan
    keys = tuple(replace(key, domain=replace(key.domain, nullable=True)) for key in plan.keys)  # type: ignore[type-var]
    return for_neighbours(
        bound_by_whole_rows(replace(plan, keys=keys), ContributionLimits(rows, rows, rows), 12), neighbours
    )


CELLS = ((False, True), (1, 2, 3))


# Matrices and thresholds


def test_weights_at_the_ends_of_what_is_taken() -> None:
    assert WeightMatrix(((10**12, -(10**12)),)).max_column_range_with_zero == 10**12
    assert (
        ThresholdWeights((1, 10**12), (0, 1, 2)).max_column_range_with_zero
        == ThresholdWeights((1, 10**12), (0,)).max_row_range_with_zero
        == 10**12
    )
    assert ThresholdWeights((1, 3), (0, 2)).has_ordered_columns
    for wrong in (((10**12 + 1,),), ((-(10**12) - 1,),)):
        with pytest.raises(InvalidParameter):
            WeightMatrix(wrong)
    for values, reached in (
        ((1, 10**12 + 1), (0,)),
        ((True, 2), (0,)),
        ((1, 2), (True,)),
        ((1, 2), (2.0,)),
        ((1, 1), (0,)),
    ):
        with pytest.raises(InvalidParameter):
            ThresholdWeights(values, reached)  # type: ignore[arg-type]


def test_counts_are_clamped_to_what_64_bits_hold_of_every_row() -> None:
    largest = (1 << 62) - 1
    scores = WeightMatrix(((0, 10**12), (1, 0))).scores(np.array([2**62, 2**62]))
    assert scores.tolist() == [10**12 * (largest // (2 * 10**12)), largest // (2 * 10**12)]
    assert WeightMatrix(((0, 0),)).scores(np.array([2**62, -(2**62)])).tolist() == [0]
    assert WeightMatrix(((1, 1),)).scores(np.array([2**62, 2**62])).tolist() == [2 * (largest // 2)]
    supports = ThresholdWeights((1, 2), (0, 2, 1)).count_rows_reaching(np.array([7, 2**62, 5]))
    assert supports.tolist() == [largest // 3 + 5, largest // 3]


@pytest.mark.parametrize("relation", list(Neighbours))
def test_combinations_of_zeros_are_charged_as_one(relation: Neighbours) -> None:
    plan = bounded(ROWS, relation, COUNTS, Strategy.WHOLE)
    zeros = LinearTotals(MeasureTotals(plan), WeightMatrix(((0, 0, 0),))).sensitivity
    total = plan.measures[0].sensitivity.total
    assert (zeros.per_group, zeros.total, zeros.squares) == (total, total, total**2)
    one = LinearTotals(MeasureTotals(plan), WeightMatrix(((2, 0, -3), (1, 0, 1)))).sensitivity
    assert (one.groups, one.per_group, one.total, one.squares) == (2, 3 * total, 4 * total, 10 * total**2)


def test_thresholds_need_counts_that_are_not_negative() -> None:
    signed = MeasureTotals(bounded(ROWS, ADDED, SUMS, Strategy.WHOLE))
    with pytest.raises(InvalidParameter, match="never negative"):
        LinearScores(signed, ThresholdWeights((1, 2), (0, 1, 2)))
    with pytest.raises(InvalidParameter, match="never negative"):
        ChosenGroups(signed)
    with pytest.raises(InvalidParameter, match="a whole number and never negative"):
        GroupSizeHistogram(signed, 3)
    assert LinearScores(signed, WeightMatrix(((1, 2, 3),))).score_difference_bound == signed.sensitivity.total * 3


# Counts that are made of totals


@pytest.mark.parametrize("relation", list(Neighbours))
def test_chosen_groups_sizes_and_holders(relation: Neighbours) -> None:
    plan = bounded(ROWS, relation, COUNTS, Strategy.WHOLE)
    totals = MeasureTotals(plan)
    chosen = ChosenGroups(totals)
    counts = chosen.extract(np.array([[3], [-4], [2**62]]))
    assert counts.tolist() == [3, 0, ((1 << 62) - 1) // 3]
    assert chosen.sum_inside_and_outside(counts[:2], np.array([True, False])).tolist() == [3, 0]
    moved = {"add-remove": (1, 1, 1), "replace": (1, 2, 2)}[relation.value]
    assert (chosen.sensitivity.per_group, chosen.sensitivity.total, chosen.sensitivity.squares) == moved
    sizes = GroupSizeHistogram(totals, 3)
    assert sizes.extract(np.array([[0], [2], [9], [-1], [3]])).tolist() == [2, 0, 1, 2]
    places = {"add-remove": (4, 1, 2), "replace": (4, 2, 4)}[relation.value]
    assert (sizes.sensitivity.groups, sizes.sensitivity.per_group, sizes.sensitivity.total) == places
    supports = RowsReachingCandidates(totals, ThresholdWeights((1, 2), (0, 1, 2)))
    assert (supports.sensitivity.groups, supports.sensitivity.total, supports.sensitivity.neighbours) == (
        1,
        1,
        relation,
    )


def test_holders_of_discovered_keys() -> None:
    text = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    sampled = KeyHolders(bound_for_discovery(parse(text, CATALOG).plan, ContributionLimits(5, 2, 3)))
    assert (sampled.max_keys_per_unit, sampled.is_weighted, sampled.neighbours) == (2, False, ADDED)
    inner = "SELECT patient_id, MAX(ward) AS ward, MAX(age) AS a FROM visits GROUP BY patient_id"
    joined = f"SELECT ward, COUNT(*) FROM ({inner}) AS t JOIN hospitals ON a = beds GROUP BY ward"
    rows = KeyHolders(bound_for_discovery(parse(joined, CATALOG).plan, ContributionLimits(5, 2, 3)))
    assert (rows.max_keys_per_unit, rows.is_weighted) == (10, True)


def test_totals_of_some_discovered_keys() -> None:
    found = DiscoveredGroups(
        np.array([4, 5, 6]),
        lambda _: [],
        np.array([0, 1, 1, 2, 2]),
        np.array([0, 1, -1, 1, 0]),
        np.array([[1], [2], [4], [8], [16]]),
    )
    assert found.totals_for(np.array([2, 1]), 2).tolist() == [[16], [8], [0], [2]]


def test_what_a_plan_reads() -> None:
    def read(measure: str) -> set[ReadMeasure]:
        asked = parse(f"SELECT {measure} AS x FROM visits", CATALOG).plan
        plan = candidate_bounded_plans(asked, ContributionLimits(1, 1, 1), 1)[0]
        return {*GroupTotals(plan, ((),)).measures_to_read}

    assert read("COUNT(*)") == {ReadMeasure.COUNT}
    assert read("SUM(age)") == {ReadMeasure.SUM}
    assert read("AVG(age)") == {ReadMeasure.COUNT, ReadMeasure.SUM}


# Totals through a matrix


FACTORED = [
    # weights, rows and rows in a group, and the squares for units that are added, and that are replaced
    ([[1, -1]], (1, 1), 1, 4),
    ([[1, 1]], (1, 1), 1, 1),  # one whole number whose square is at most 2
    ([[1, 1]], (3, 3), 9, 16),  # at most 18
    ([[1, 0], [0, 1]], (2, 1), 2, 2),
    ([[1, 0], [0, 1]], (3, 3), 9, 18),
    ([[2, -1]], (1, 1), 4, 9),  # at most 12
]


@pytest.mark.parametrize(("weights", "limits", "added", "replaced"), FACTORED)
def test_squares_of_totals_through_a_matrix(
    weights: list[list[int]], limits: tuple[int, int], added: int, replaced: int
) -> None:
    """T·max_i x_i(c, T) with X = BᵀB; replaced, that of 2T, or twice that of T if no product is negative."""
    rows, per_group = limits
    plan = parse(COUNTS, CATALOG).plan
    sample = candidate_bounded_plans(plan, ContributionLimits(rows, rows, per_group), 2)[-1]
    for relation, expected in ((ADDED, added), (REPLACED, replaced)):
        found = FactoredTotals(MeasureTotals(for_neighbours(sample, relation)), np.array(weights)).sensitivity
        assert found.squares == expected
        units = [np.array(v) for v in itertools.product(range(per_group + 1), repeat=2) if sum(v) <= rows]
        others = units if relation is REPLACED else [np.zeros(2, int)]
        moves = [np.array(weights) @ (one - other) for one, other in itertools.product(units, others)]
        assert max(int((move**2).sum()) for move in moves) <= found.squares
        assert max(int(np.abs(move).sum()) for move in moves) <= found.total
        assert max(int(np.abs(move).max()) for move in moves) <= found.per_group


def test_series_are_multiplied_apart_and_clamped() -> None:
    plan = bounded(ROWS, ADDED, COUNTS, Strategy.WHOLE)
    reading = FactoredTotals(MeasureTotals(plan), np.array([[1, 2], [0, -3]]), series=2)
    assert reading.extract(np.array([[1], [2], [3], [4]])).tolist() == [5, -6, 11, -12]
    assert reading.sensitivity.groups == 4
    most = ((1 << 62) - 1) // 3
    assert reading.extract(np.array([[2**62], [0], [0], [-(2**62)]])).tolist() == [most, 0, -2 * most, 3 * most]
    with pytest.raises(InvalidParameter):
        FactoredTotals(MeasureTotals(plan), np.array([[1 << 20]]))
    assert FactoredTotals(MeasureTotals(plan), np.array([[(1 << 20) - 1]])).sensitivity.total == (1 << 20) - 1


# Readings that one statement answers


THREE = ContributionLimits(3, 3, 3)


def single(text: str, strategy: Strategy = Strategy.CLIP_L1, limits: ContributionLimits = THREE) -> GroupTotals:
    plans = candidate_bounded_plans(parse(text, CATALOG).plan, limits, 1)
    return GroupTotals(next(plan for plan in plans if plan.strategy is strategy), ((),))


def test_which_readings_are_combined() -> None:
    plain = single("SELECT COUNT(*) FROM visits")
    first = single("SELECT COUNT(*), COUNT(*) FILTER (WHERE urgent) FROM visits WHERE age > 3")
    older = single("SELECT COUNT(*) FROM visits WHERE age > 5")
    (combined,) = combine_readings([plain, older, plain])
    assert [part for part, _ in combined.parts] == [plain, older]
    assert [columns for _, columns in combined.parts] == [slice(0, 1), slice(1, 2)]
    assert [scaled.measure.where is None for scaled in combined.reading.bounded.measures] == [True, False]
    assert combined.reading.bounded.bounding_node.input == plain.bounded.bounding_node.input
    assert [scaled.sensitivity for scaled in combined.reading.bounded.measures] == [
        each.bounded.measures[0].sensitivity for each in (plain, older)
    ]
    alone = [
        first,  # a filter of its own beside WHERE
        single("SELECT COUNT(*) FROM visits", Strategy.REWEIGHT),
        single("SELECT COUNT(*) FROM visits", Strategy.SAMPLE),
        single("SELECT SUM(age) AS s FROM visits"),
        single("SELECT AVG(age) AS s FROM visits"),
        single("SELECT COUNT(*) FROM visits", limits=ContributionLimits(2, 2, 2)),
        single("SELECT COUNT(DISTINCT patient_id) FROM visits"),
        single("SELECT COUNT(*) FROM visits", Strategy.CLIP_L2),
    ]
    found = combine_readings([plain, *alone])
    assert [each.reading for each in found] == [plain, *alone]
    assert [each.parts for each in found] == [((each, slice(0, each.shape[1])),) for each in (plain, *alone)]
    filtered = single("SELECT COUNT(*) FILTER (WHERE urgent) FROM visits")
    assert len(combine_readings([plain, filtered])) == 1


def test_no_statement_has_too_many_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "MAX_MEASURES", 3)
    readings = [single(f"SELECT COUNT(*) FROM visits WHERE age > {age}") for age in range(7)]
    assert [len(each.parts) for each in combine_readings(readings)] == [3, 3, 1]


# Marginals


@pytest.mark.parametrize(
    ("cells", "sets", "words"),
    [
        (CELLS[:1], ((0,),), "for each key"),
        ((CELLS[0], ()), ((0,),), "for each key"),
        ((CELLS[0], (1, 1)), ((0,),), "different values"),
        ((CELLS[0], (1, None)), ((0,),), "different values"),
        (CELLS, (), "ascending"),
        (CELLS, ((1, 0),), "ascending"),
        (CELLS, ((0, 2),), "ascending"),
        (CELLS, ((0, 0),), "ascending"),
        (CELLS, ((0,), (0,)), "different sets"),
    ],
)
def test_marginals_that_cannot_be_read(cells: Any, sets: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Marginals(two_keys(), cells, sets)


def test_marginals_of_plans_that_do_not_count_every_row() -> None:
    plain = candidate_bounded_plans(
        parse("SELECT urgent, COUNT(*) FROM visits GROUP BY urgent", CATALOG).plan, ContributionLimits(2, 2, 2), 3
    )
    for each in plain:
        with pytest.raises(InvalidParameter, match=r"all nullable|the strategy whole, reweight or sample"):
            Marginals(each, CELLS[:1], ((0,),))
    means = parse("SELECT urgent, AVG(age) FROM visits GROUP BY urgent", CATALOG).plan
    keys = tuple(replace(key, domain=replace(key.domain, nullable=True)) for key in means.keys)  # type: ignore[type-var]
    with pytest.raises(InvalidParameter, match="single total"):
        Marginals(bound_by_whole_rows(replace(means, keys=keys), ContributionLimits(1, 1, 1), 3), CELLS[:1], ((0,),))


def test_no_more_cells_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_readings, "MAX_CELLS", 15)
    assert Marginals(two_keys(), CELLS, ((0, 1), (0,))).cell_count == 15
    with pytest.raises(InvalidParameter, match="at most 15 cells"):
        Marginals(two_keys(), CELLS, ((0, 1), (1,)))
    monkeypatch.setattr(cell_rows, "MAX_COLUMN_CELLS", 4)
    assert CellRows(two_keys(), CELLS, ((0,),)).sizes == (3, 4)
    monkeypatch.setattr(cell_rows, "MAX_COLUMN_CELLS", 3)
    with pytest.raises(InvalidParameter, match="at most 3 cells"):
        CellRows(two_keys(), CELLS, ((0,),))


def test_marginals_are_counted_from_batches() -> None:
    reading = Marginals(two_keys(), CELLS, ((0, 1), (1,), ()))
    assert reading.marginal_indices_with(1) == (0, 1)
    assert reading.marginal_indices_with(0) == (0,)
    batches = [
        ([np.array([0, 2, 0]), np.array([3, 1, 3])], np.array([1, 2, 4])),
        ([np.array([1]), np.array([0])], np.array([8])),
    ]
    pairs, ages, rows = reading.count_batches(batches)
    expected = np.zeros((3, 4), int)
    expected[0, 3], expected[2, 1], expected[1, 0] = 5, 2, 8
    assert pairs.tolist() == expected.tolist()
    assert ages.tolist() == [8, 2, 0, 5]
    assert rows.tolist() == 15
    counts_set_by_set = reading.count_set_batches(
        [({0: np.array([0, 9]), 1: np.array([3, 1])}, np.array([0, 1]), np.array([5, 2])),
         ({0: np.array([7]), 1: np.array([7])}, np.array([2]), np.array([6]))]
    )  # fmt: skip
    assert counts_set_by_set[0][0, 3] == counts_set_by_set[0].sum() == 5
    assert counts_set_by_set[1].tolist() == [0, 2, 0, 0]
    assert counts_set_by_set[2].tolist() == 6
    assert Marginal(reading, 1).extract((pairs, ages, rows)).tolist() == [8, 2, 0, 5]
    assert Marginal(reading, 0).extract((pairs, ages, rows)).shape == (12,)


def test_when_rows_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = for_neighbours(bounded_cells(1, ADDED), ADDED)
    whole = replace(plan, plan=replace(plan.plan, source=replace(plan.bounding_node, strategy=Strategy.WHOLE)))
    for most, counts_row_by_row in ((2, True), (3, False)):
        monkeypatch.setattr(dense_readings, "_MAX_GROUPED", most)
        assert Marginals(whole, CELLS[:1], ((0,),)).counts_row_by_row is counts_row_by_row
        assert CellRows(whole, CELLS[:1], ((0,),)).counts_row_by_row is counts_row_by_row
        assert not Marginals(bounded_cells(2, ADDED), CELLS[:1], ((0,),)).counts_row_by_row
    assert Marginals(two_keys(), CELLS, ((0,),)).counts_set_by_set
    assert not Marginals(two_keys(), CELLS, ((0, 1),)).counts_set_by_set


@pytest.mark.parametrize(
    ("places", "cells"),
    [((0,), ()), ((0,), (1, 0)), ((0,), (0, 0)), ((0,), (-1, 0)), ((0,), (3,)), ((1, 0), None), ((2,), None)],
)
def test_views_of_cells_that_are_not_there(places: Any, cells: Any) -> None:
    reading = Marginals(two_keys(), CELLS, ((0, 1),))
    with pytest.raises(InvalidParameter):
        MarginalView(reading, places, cells)
    with pytest.raises(InvalidParameter):
        MarginalView(Marginals(two_keys(), CELLS, ((0, 1), (0,))), (0,))


@pytest.mark.parametrize("relation", list(Neighbours))
def test_views_sum_cells(relation: Neighbours) -> None:
    reading = Marginals(two_keys(2, relation), CELLS, ((0, 1),))
    whole = np.arange(12).reshape(3, 4)
    view, some, total = MarginalView(reading, (1,)), MarginalView(reading, (0,), (0, 2)), MarginalView(reading, ())
    assert view.extract([whole]).tolist() == [12, 15, 18, 21]
    assert some.extract([whole]).tolist() == [0 + 1 + 2 + 3 + 8 + 9 + 10 + 11]
    assert total.extract([whole]).tolist() == [66]
    assert [each.size for each in (view, some, total)] == [4, 1, 1]
    moved = 2 if relation is ADDED else 4
    assert [each.sensitivity.total for each in (view, some, total)] == [moved, 2, 2]
    last = MarginalView(reading, (0,), (2,))
    assert last.extract([whole]).tolist() == [8 + 9 + 10 + 11]


def test_distances_need_predictions_of_their_views() -> None:
    view = MarginalView(Marginals(two_keys(), CELLS, ((0, 1),)), (1,))
    for views, predicted in (((), ()), ((view,), ()), ((view,), (np.zeros(3, np.int64),))):
        with pytest.raises(InvalidParameter):
            CountDistances(views, predicted)
    gaps = CountDistances((view,), (np.array([10, 20, 18, 20]),))
    assert gaps.extract([np.arange(12).reshape(3, 4)]).tolist() == [2 + 5 + 0 + 1]
    single_counts = CountDistances((view,), (np.array([10, 20, 18, 20]),), per_count=True)
    assert single_counts.extract([np.arange(12).reshape(3, 4)]).tolist() == [2, 5, 0, 1]


# Cells of rows


def rows_of(totals: list[int]) -> CodedRows:
    return CodedRows((3, 4), (np.array([0, 2, 0], np.uint8), np.array([3, 1, 3], np.uint8)), np.array(totals))


@pytest.mark.parametrize("totals", [[1, 1, 1], [1, 2, 4], [2**60, 1, 2], [2**61, 2**61, 2**61], [2**53, 1, 1]])
def test_cells_are_counted_exactly(totals: list[int]) -> None:
    rows = rows_of(totals)
    expected = [[0] * 4 for _ in range(3)]
    expected[0][3], expected[2][1] = totals[0] + totals[2], totals[1]
    assert rows.marginal((0, 1)).reshape(3, 4).tolist() == expected
    assert rows.marginal((1,)).tolist() == [0, totals[1], 0, totals[0] + totals[2]]
    assert rows.marginal((0, 1)) is rows.marginal((0, 1))


def test_when_sums_fit_doubles_and_one_total() -> None:
    assert [rows_of(each)._has_exact_double_sums for each in ([2**53 - 3, 1, 1], [2**53 - 2, 1, 1])] == [True, False]
    assert [rows_of(each)._common_total for each in ([5, 5, 5], [5, 5, 6], [2**61, 2**61, 2**61])] == [5, None, None]
    assert CodedRows((3,), (np.empty(0, np.uint8),), np.empty(0, np.int64)).marginal((0,)).tolist() == [0, 0, 0]


def test_cells_that_are_merged() -> None:
    rows, merged = rows_of([1, 2, 4]), MergedCells((None, np.array([0, 0, 1, 2])))
    assert merged.part_counts((3, 4)) == (3, 3)
    assert rows.merge(merged).marginal((1,)).tolist() == [2, 0, 5]
    assert rows.merge(merged).marginal((0,)).tolist() == [5, 0, 2]
    assert rows.merge(merged) is rows.merge(merged)
    reading = CellRows(two_keys(), CELLS, ((1,), (0, 1)))
    view = CellCounts(reading, (1,), merged)
    assert view.size == 3
    assert CellCounts(reading, (0, 1)).size == 12
    assert view.extract(rows).tolist() == [2, 0, 5]
    ranks = RanksOfCells(reading, 1)
    assert ranks.ends == (0, 2)
    assert ranks.extract(rows).tolist() == [0, 2, 0]
    assert RanksOfCells(CellRows(two_keys(3, REPLACED), CELLS, ((1,),)), 1).neighbours is REPLACED
    assert RanksOfCells(CellRows(two_keys(3), CELLS, ((1,),)), 1).rows_per_unit == 3


def test_sets_of_columns_are_different_and_ascending() -> None:
    for sets in (((0,), (0,)), ((1, 0),), ((2,),), ((0, 0),)):
        with pytest.raises(InvalidParameter, match="ascending"):
            CellRows(two_keys(), CELLS, sets)
    reading = CellRows(two_keys(), CELLS, ((), (0,), (0, 1)))
    assert (reading.cell_count, reading.cells_of_set((0, 1)), reading.cells_of_set(())) == (16, 12, 1)
    with pytest.raises(InvalidParameter):
        CellCounts(reading, (1,))


def test_blocks_of_sets_that_a_server_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_rows, "_MAX_BLOCK", 7)
    reading = CellRows(two_keys(), CELLS, ((0,), (1,), (), (0, 1)))
    assert [block.sets for block in reading.blocks] == [((0,), (1,)), ((),), ((0, 1),)]
    counted = [tuple(np.zeros(block.shape(each), np.int64) for each in block.sets) for block in reading.blocks]
    assert {each: reading.marginals_by_set(counted).marginal(each).shape for each in reading.sets} == {
        (0,): (3,),
        (1,): (4,),
        (): (1,),
        (0, 1): (12,),
    }


def test_batches_are_stored_in_small_types() -> None:
    reading = CellRows(two_keys(), CELLS, ((0, 1),))
    batches = [
        ([np.array([0, 2]), np.array([3, 1])], np.array([1, 2])),
        ([np.array([0]), np.array([3])], np.array([4])),
    ]
    rows = reading.store_batches(batches)
    assert [codes.dtype for codes in rows.codes] == [np.uint8, np.uint8]
    assert [codes.tolist() for codes in rows.codes] == [[0, 2, 0], [3, 1, 3]]
    assert rows.totals.tolist() == [1, 2, 4]


def test_a_batch_is_freed_once_it_is_stored() -> None:
    """The totals of a batch share memory with its keys: a view of them would hold all columns as they arrived."""
    arrived: list[weakref.ref[np.ndarray[Any, Any]]] = []

    def batches() -> Iterator[tuple[list[Any], Any]]:
        for _ in range(3):
            assert sum(earlier() is not None for earlier in arrived) <= 1  # the last one, at most
            batch = np.zeros((3, 5), np.int64)
            arrived.append(weakref.ref(batch))
            yield [batch[0], batch[1]], batch[2]

    rows = CellRows(two_keys(), CELLS, ((0, 1),)).store_batches(batches())
    assert rows.totals.size == 15


def test_scores_of_sets_refuse_other_numbers() -> None:
    reading = CellRows(two_keys(), CELLS, ((0,), (1,)))
    first, second = CellCounts(reading, (0,)), CellCounts(reading, (1,))
    zeros, four = np.zeros(3, np.int64), np.zeros(4, np.int64)
    scores = ColumnSetDistances((first, second), (zeros, four), (10**6, 2), (3, 0))
    rows = rows_of([1, 2, 4])
    assert scores.extract(rows).tolist() == [10**6 * (7 - 3), 2 * 7]
    huge = rows_of([2**61, 0, 0])
    assert ColumnSetDistances((first,), (zeros,), (10**6,), (0,)).extract(huge).tolist() == [2**62]
    assert ColumnSetDistances((first,), (zeros,), (10**6,), (2**61,)).extract(rows).tolist() == [-(2**62)]
    assert ColumnSetDistances((first,), (zeros,), (1,), (0,)).extract(rows).tolist() == [7]
    for arguments in (
        ((), (), (), ()),
        ((first,), (zeros,), (1, 1), (0,)),
        ((first,), (four,), (1,), (0,)),
        ((first,), (zeros.astype(float),), (1,), (0,)),
        ((first,), (zeros,), (0,), (0,)),
        ((first,), (zeros,), (10**6 + 1,), (0,)),
        ((first,), (zeros,), (True,), (0,)),
        ((first, second), (zeros, four), (1,), (0, 0)),
        ((first, second), (zeros,), (1,), (0,)),
        ((first, second), (four, zeros), (1, 1), (0, 0)),
        ((first,), (zeros,), (1,), (0.5,)),
        ((first, CellCounts(CellRows(two_keys(2), CELLS, ((1,),)), (1,))), (zeros, four), (1, 1), (0, 0)),
    ):
        with pytest.raises(InvalidParameter):
            ColumnSetDistances(*arguments)  # type: ignore[arg-type]


def test_the_sensitivity_of_scores_is_that_of_the_heaviest_set() -> None:
    reading = CellRows(two_keys(2, REPLACED), CELLS, ((), (0,)))
    rows, cells = CellCounts(reading, ()), CellCounts(reading, (0,))
    one, zeros = np.zeros(1, np.int64), np.zeros(3, np.int64)
    for weights, expected in (((5, 1), 10), ((1, 5), 20), ((3, 2), 8)):
        scores = ColumnSetDistances((rows, cells), (one, zeros), weights, (0, 0))
        assert (scores.sensitivity, scores.score_difference_bound) == (expected, 2 * expected)
    assert rows.sensitivity == Sensitivity(1, 2, neighbours=REPLACED)
