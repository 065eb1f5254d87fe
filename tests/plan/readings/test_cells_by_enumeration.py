"""What one unit moves in counts of cells and in scores made of them, by enumeration of all that a unit can be."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from plan.described import CATALOG
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan, bound_by_whole_rows, for_neighbours
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows, ColumnSetDistances
from sfumato.plan.readings.dense_readings import CountDistances, Marginals, MarginalView, cells_sensitivity
from sfumato.plan.sql.statements import parse
from sfumato.privacy import Neighbours

_CELLS = ((False, True),)
_SIZE = 3
"""Cells of the one column: two values, and what is missing."""


def _bounded(rows: int, neighbours: Neighbours) -> BoundedPlan:
    plan = parse("SELECT urgent, COUNT(*) FROM visits GROUP BY urgent", CATALOG).plan
    keys = tuple(replace(key, domain=replace(key.domain, nullable=True)) for key in plan.keys)  # type: ignore[type-var]
    return for_neighbours(
        bound_by_whole_rows(replace(plan, keys=keys), ContributionLimits(rows, rows, rows), _SIZE), neighbours
    )


def _changes(rows: int, neighbours: Neighbours) -> list[tuple[np.ndarray, np.ndarray]]:
    """List all pairs of what is counted of one unit before and after."""
    units = [np.array(unit) for unit in itertools.product(range(rows + 1), repeat=_SIZE) if sum(unit) <= rows]
    nobody = [np.zeros(_SIZE, np.int64)]
    others = units if neighbours is Neighbours.REPLACE else nobody
    return [(before, after) for before in units for after in others]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_no_unit_moves_cells_by_more_than_derived_and_one_moves_them_so_far(
    cells: int, neighbours: Neighbours, rows: int
) -> None:
    claim = cells_sensitivity(_bounded(rows, neighbours), cells)
    moved = []
    for before, after in _changes(rows, neighbours):
        whole = [np.append(each[: cells - 1], each[cells - 1 :].sum()) for each in (before, after)]  # as coarse cells
        moved.append(np.abs(whole[0] - whole[1]))
    assert max(each.sum() for each in moved) == claim.l1
    assert max((each**2).sum() for each in moved) == claim.squares
    assert max(each.max() for each in moved) == claim.linf


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("weights", [(1, 1), (5, 1), (1, 3)])
def test_scores_of_sets_move_as_far_as_derived(weights: tuple[int, int], neighbours: Neighbours, rows: int) -> None:
    reading = CellRows(_bounded(rows, neighbours), _CELLS, ((), (0,)))
    views = (CellCounts(reading, ()), CellCounts(reading, (0,)))
    others = np.array([40, 50, 60])
    furthest: dict[str, int] = {"moved": 0, "spread": 0}
    for above in itertools.product((0, 1000), repeat=_SIZE + 1):  # every prediction is far on one side of its count
        predicted = (np.array(above[:1]), np.array(above[1:]))
        scores = ColumnSetDistances(views, predicted, weights, (3, 4))
        for before, after in _changes(rows, neighbours):
            told = [scores.extract(_coded(others + each)) for each in (before, after)]
            moved = told[1] - told[0]
            furthest["moved"] = max(furthest["moved"], int(np.abs(moved).max()))
            furthest["spread"] = max(furthest["spread"], int(moved.max() - moved.min()))
    assert furthest["moved"] == scores.sensitivity
    assert furthest["spread"] <= scores.score_difference_bound == 2 * scores.sensitivity


def _coded(counts: np.ndarray) -> CodedRows:
    return CodedRows((_SIZE,), (np.arange(_SIZE),), counts)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("each", [False, True])
def test_misfits_move_as_far_as_derived(each: bool, neighbours: Neighbours) -> None:
    reading = Marginals(_bounded(2, neighbours), _CELLS, ((0,),))
    views = (MarginalView(reading, ()), MarginalView(reading, (0,)), MarginalView(reading, (0,), (1,)))
    furthest, others = Fraction(0), np.array([40, 50, 60])
    for above in itertools.product((0, 1000), repeat=1 + _SIZE + 1):
        predicted = (np.array(above[:1]), np.array(above[1:4]), np.array(above[4:]))
        scores = CountDistances(views, predicted, each)
        for before, after in _changes(2, neighbours):
            moved = scores.extract([others + after]) - scores.extract([others + before])
            furthest = max(furthest, Fraction(int(np.abs(moved).max())))
    assert furthest == scores.sensitivity


def test_a_view_shows_attributes_of_its_marginal_alone() -> None:
    reading = Marginals(_bounded(2, Neighbours.ADD_REMOVE), _CELLS, ((0,),))
    for places in ((1,), (0, 1), (0, 0)):
        with pytest.raises(InvalidParameter, match="attribute_set"):
            MarginalView(reading, places)
