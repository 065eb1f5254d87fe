"""No unit moves a total further than claimed, also where the tree itself proves how many rows a unit has.

A tree that proves few rows is read without looking for units beyond their limits, so every limit below what it proves
must still be enforced. Every unit of the table has groups of its own: one reading shows what each of them contributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from safety.worlds import World, question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure, candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import with_requests_as_measures

_REACH = 4
"""So many groups belong to one unit."""
_SHAPES = [shape for shape in product(range(4), repeat=_REACH) if list(shape) == sorted(shape, reverse=True)][1:]
"""How many rows a unit has in each of its groups, of every kind up to the order of the groups."""
_COLUMNS = {
    "place": {"type": "integer", "values": list(range(_REACH * len(_SHAPES)))},
    "half": {"type": "integer", "values": [0, 1]},
    "amount": {"type": "integer", "bounds": [-2, 3]},
}
_STORED = {name: pa.int64() for name in ("who", *_COLUMNS)}
_FIRST = "SELECT place, half, amount, ROW_NUMBER() OVER (PARTITION BY who ORDER BY half) AS r, who FROM people"
TREES = {
    **{f"the first {most}": f"(SELECT * FROM ({_FIRST}) WHERE r <= {most})" for most in (2, 3)},
    "two unions of two": f"(SELECT * FROM ({_FIRST}) WHERE r <= 2 UNION ALL SELECT * FROM ({_FIRST}) WHERE r <= 2)",
    "three, each beside two public rows": f"(SELECT * FROM ({_FIRST}) WHERE r <= 3) AS f JOIN doubled USING (half)",
    "units and keys": "(SELECT who, place, SUM(amount) AS amount FROM people GROUP BY who, place)",
}
MEASURES = ("COUNT(*), SUM(amount), AVG(amount)", "COUNT(DISTINCT who)", "COUNT(*), COUNT(DISTINCT who)")
LIMITS = [(2, 1, 2), (2, 2, 1), (3, 1, 3), (4, 2, 2)]


@cache
def _engine() -> DuckDB:
    rows = [
        {"who": unit, "place": _REACH * unit + group, "half": (group + row) % 2, "amount": 3}
        for unit, shape in enumerate(_SHAPES)
        for group, count in enumerate(shape)
        for row in range(count)
    ]
    doubled = pa.table({"half": [0, 0, 1, 1], "weight": [1, 2, 3, 4]})
    return World(True, (4, 4, 4), _COLUMNS, _STORED, {"doubled": doubled}, ()).engine(rows)


def _bounded(tree: str, measures: str, limits: tuple[int, int, int]) -> Iterator[tuple[BoundedPlan, NDArray[np.int64]]]:
    """Every way to limit a unit, with the totals of all groups: an axis each for units, groups and coordinates."""
    engine = _engine()
    asked = question(engine, engine._policy, f"SELECT place, {measures} FROM {TREES[tree]} GROUP BY place")
    for bounded in candidate_bounded_plans(
        with_requests_as_measures(asked.query.plan),
        asked.limits.tighten(*_within(asked.limits, limits)),
        len(asked.groups),
    ):
        read = engine.read(GroupTotals(bounded, asked.groups), 7)
        yield bounded, read.reshape(len(_SHAPES), _REACH, -1)


def _within(largest: ContributionLimits, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    return (
        min(limits[0], largest.rows),
        min(limits[1], largest.groups),
        min(limits[2], largest.rows_per_group),
    )


def _beyond(scaled: ScaledMeasure, moved: NDArray[np.int64]) -> float:
    """The largest share of the claim that a unit reaches, of any norm; above 1, the claim is false."""
    claim, sizes = scaled.sensitivity, np.abs(moved).astype(object)
    shares = (sizes.max() / claim.per_group, sizes.sum(axis=1).max() / claim.total)
    return max(*map(float, shares), float((sizes**2).sum(axis=1).max() / claim.squares))


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("measures", MEASURES)
def test_limits_below_the_rows_that_a_tree_proves_are_enforced(tree: str, measures: str, long: bool) -> None:
    """Under half of the limits, others for the next tree and the next measures; under all of them in the long run."""
    reached, turn = [], list(TREES).index(tree) + MEASURES.index(measures)
    for limits in LIMITS if long else LIMITS[turn % 2 :: 2]:
        for bounded, totals in _bounded(tree, measures, limits):
            start = 0
            for scaled in bounded.measures:
                own = totals[:, :, start : start + scaled.coordinates]
                start += scaled.coordinates
                share = _beyond(scaled, own.reshape(len(_SHAPES), -1))
                assert share <= 1, f"{scaled.measure.name}, {bounded.strategy.value}, {bounded.limits}"
                reached.append(share)
    assert max(reached) > 0.999
