"""What one unit can do to totals that are measured through a matrix, by enumeration of all that a unit can be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plan.described import CATALOG, VISITS
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.factorisations import Factorisation
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.total_readings import MeasureTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Neighbours

ROWS = Table("visits", Path("visits.parquet"), VISITS, id="row")
COUNTS, SUMS = (f"SELECT region, {what} FROM visits GROUP BY region" for what in ("COUNT(*)", "SUM(age - 60)"))
MATRICES = (
    *(Factorisation(form, 3, 3).weights for form in ("optimised", "square root", "each day")),
    Factorisation("tree", 3, 3, 2).weights,
    np.array([[3, -2, 0], [-1, 4, 5]]),  # columns that point away from each other
)


def bounded(table: Table, relation: Neighbours, text: str, strategy: Strategy, groups: int = 3) -> BoundedPlan:
    known = {**CATALOG.tables, "visits": replace(CATALOG.tables["visits"], id=None if table.every_row else table.id)}
    query = parse(text, replace(CATALOG, tables=known))
    found = {
        each.strategy: each
        for each in candidate_bounded_plans(query.plan, ContributionLimits.from_table(table), groups)
    }
    return for_neighbours(found[Strategy.WHOLE if table.every_row else strategy], relation)


def units(reading: FactoredTotals) -> list[np.ndarray]:
    """Everything that one unit can add, at the corners of what it can: no sum of squares is larger inside."""
    added, scaled = reading.totals.scaled.add_remove_sensitivity, reading.totals.scaled
    cap, total, length = int(added.per_group), int(added.total), reading.weights.shape[1] * reading.series
    sizes = sorted({0, cap, total % cap, min(cap, total)} | ({1} if cap < 10 else set()))
    assert scaled.row_contribution_bounds is not None
    least, most = (
        end * (cap // scaled.size) for end in scaled.row_contribution_bounds
    )  # what a unit's rows in one group add up to
    ends = sorted({min(size, most) for size in sizes} | {max(-size, least) for size in sizes})
    every = (np.array(v) for v in itertools.product(ends, repeat=length))
    return [v for v in every if np.abs(v).sum() <= total]


def changes(reading: FactoredTotals) -> Iterator[np.ndarray]:
    possible = units(reading)
    if reading.totals.sensitivity.neighbours is Neighbours.ADD_REMOVE:
        yield from possible
    else:
        yield from (a - b for a, b in itertools.product(possible, repeat=2))


def moved(reading: FactoredTotals) -> tuple[int, int, int]:
    """The largest change in one number, the largest sum of changes, and the largest sum of squares."""
    every = np.array([*changes(reading)]).reshape(-1, reading.series, reading.weights.shape[1]) @ reading.weights.T
    flat = np.abs(every.reshape(len(every), -1))
    return int(flat.max()), int(flat.sum(axis=1).max()), int((flat**2).sum(axis=1).max())


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
@pytest.mark.parametrize("weights", MATRICES, ids=lambda each: f"{each.shape}{each[0].tolist()}")
@pytest.mark.parametrize("text", [COUNTS, SUMS], ids=["counts", "sums"])
@pytest.mark.parametrize(("rows", "per_group"), [(1, 1), (2, 1), (3, 2), (2, 2)])
def test_no_unit_moves_more_than_is_said(
    rows: int, per_group: int, text: str, weights: np.ndarray, relation: Neighbours
) -> None:
    users = Table(
        "visits", Path("visits.parquet"), VISITS, id="patient_id", max_rows=rows, max_rows_per_group=per_group
    )
    for table, series in ((users, 1), (ROWS, 1), (users, 2)):
        if series == 2 and (rows > 2 or text is SUMS):
            continue  # too many to list
        reading = FactoredTotals(
            MeasureTotals(bounded(table, relation, text, Strategy.SAMPLE, 3 * series)), weights, series
        )
        said = reading.sensitivity
        largest, total, squares = moved(reading)
        assert largest <= said.linf
        assert total <= said.l1
        assert squares <= said.squares
        assert said.neighbours is relation
        assert said.groups == len(weights) * series
        if relation is Neighbours.ADD_REMOVE and (table is ROWS or per_group == rows):
            assert squares == said.squares  # reached, where all rows may be in one period
        assert said.squares <= 4 * squares + 1  # and never far from it


def test_several_periods_cost_less_than_as_many_rows_of_one() -> None:
    weights = Factorisation("optimised", 3, 8).weights
    counted = {}
    for per_group in (1, 3):
        table = Table("visits", Path("v"), VISITS, id="patient_id", max_rows=3, max_rows_per_group=per_group)
        counted[per_group] = FactoredTotals(
            MeasureTotals(bounded(table, Neighbours.ADD_REMOVE, COUNTS, Strategy.SAMPLE)), weights
        ).sensitivity.squares
    assert counted[1] < 0.75 * counted[3]


def test_whole_numbers_stay_whole_so_that_no_bound_is_given_away() -> None:
    """A bound that is not whole is rounded up with all that goes with it: the noise would be many times too large."""
    table = Table("visits", Path("v"), VISITS, id="patient_id", max_rows=3, max_rows_per_group=1)
    reading = FactoredTotals(
        MeasureTotals(bounded(table, Neighbours.REPLACE, COUNTS, Strategy.SAMPLE)),
        Factorisation("optimised", 3, 8).weights,
    )
    said = reading.sensitivity
    assert {said.per_group.denominator, said.total.denominator, said.squares.denominator} == {1}


def test_totals_beyond_what_64_bits_hold_are_cut_and_move_no_further() -> None:
    weights = Factorisation("tree", 3, 8, 2).weights
    table = Table("visits", Path("v"), VISITS, id="patient_id", max_rows=3, max_rows_per_group=2)
    reading = FactoredTotals(MeasureTotals(bounded(table, Neighbours.ADD_REMOVE, COUNTS, Strategy.SAMPLE)), weights)
    ends = [LARGEST_INTEGER, -LARGEST_INTEGER, 0, 2**53]
    for base in itertools.product(ends, repeat=3):
        totals = np.array(base, np.int64)[:, None]
        exact = reading.extract(totals)
        assert np.abs(exact).max() < 2**62
        change = reading.extract(totals - np.array([2, 0, 1])[:, None]) - exact
        assert (change**2).sum() <= reading.sensitivity.squares


def test_series_are_measured_one_after_the_other() -> None:
    weights = np.array([[1, 0], [2, 5]])
    table = Table("visits", Path("v"), VISITS, id="row")
    reading = FactoredTotals(MeasureTotals(bounded(table, Neighbours.ADD_REMOVE, COUNTS, Strategy.WHOLE)), weights, 2)
    assert reading.extract(np.array([[1], [2], [10], [20]])).tolist() == [1, 12, 10, 120]


@pytest.mark.parametrize("weights", [np.zeros((0, 3), int), np.array([1, 2]), np.array([[1 << 20]])], ids=str)
def test_what_is_no_matrix_is_refused(weights: np.ndarray) -> None:
    with pytest.raises(InvalidParameter):
        FactoredTotals(MeasureTotals(bounded(ROWS, Neighbours.ADD_REMOVE, COUNTS, Strategy.WHOLE)), weights)


def test_a_mean_is_refused() -> None:
    mean = bounded(ROWS, Neighbours.ADD_REMOVE, "SELECT region, AVG(age) FROM visits GROUP BY region", Strategy.WHOLE)
    with pytest.raises(InvalidParameter, match="one total"):
        FactoredTotals(MeasureTotals(mean), np.eye(3, dtype=np.int64))


@pytest.mark.parametrize(
    ("rows", "largest", "total", "squares"),
    [
        ([[1], [1], [1], [1]], 1, 4, 4),  # one period is in four numbers
        ([[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 1, 1, 1),  # three periods are in one
        ([[2, -1], [3, 4]], 4, 5, 17),
        ([[-5]], 5, 5, 25),
    ],
)
def test_a_row_moves_what_the_column_of_its_period_says(
    rows: list[list[int]], largest: int, total: int, squares: int
) -> None:
    weights = np.array(rows, np.int64)
    reading = MeasureTotals(bounded(ROWS, Neighbours.ADD_REMOVE, COUNTS, Strategy.WHOLE, weights.shape[1]))
    said = FactoredTotals(reading, weights).sensitivity
    steps = int(reading.scaled.add_remove_sensitivity.total)
    assert (said.linf, said.l1, said.squares) == (largest * steps, total * steps, squares * steps**2)
    assert said.groups == len(rows)
