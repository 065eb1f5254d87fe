"""What one unit can do to a reading, by enumeration of everything that a unit can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from plan.described import CATALOG, VISITS
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import (
    LinearScores,
    LinearTotals,
    MeasureTotals,
    RowsReachingCandidates,
    ThresholdWeights,
    WeightMatrix,
)
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table
from sfumato.privacy import Neighbours, codec

USERS = Table("visits", Path("visits.parquet"), VISITS, id="patient_id", max_rows=3, max_rows_per_group=2)
ROWS = Table("visits", Path("visits.parquet"), VISITS, id="row")
COUNTS = "SELECT region, COUNT(*) FROM visits GROUP BY region"

CHAINS = (
    WeightMatrix(((1, 1, 1), (0, 3, 3), (0, 0, 7))),
    WeightMatrix(((5, 0, 2), (5, 1, 2))),  # in another order
    ThresholdWeights((1, 3, 7), (1, 2, 3)),
    ThresholdWeights((2, 3), (2, 0, 1)),
)
OTHERS = (
    WeightMatrix(((1, 0, 0), (0, 1, 0), (0, 0, 1))),
    WeightMatrix(((2, -1, 0), (0, 3, -4))),
    WeightMatrix(((-1, -2, -3), (-1, -1, -5))),
    WeightMatrix(((4, 4, 4),)),
    WeightMatrix(((-1, -1, -1), (1, 1, 1))),  # a chain but for what is no row at all
)


def bounded(
    table: Table, relation: Neighbours, text: str = COUNTS, strategy: Strategy = Strategy.SAMPLE
) -> BoundedPlan:
    known = {**CATALOG.tables, "visits": replace(CATALOG.tables["visits"], id=None if table.every_row else table.id)}
    query = parse(text, replace(CATALOG, tables=known))
    found = {
        each.strategy: each for each in candidate_bounded_plans(query.plan, ContributionLimits.from_table(table), 3)
    }
    return for_neighbours(found[Strategy.WHOLE if table.every_row else strategy], relation)


def units(limits: ContributionLimits) -> list[np.ndarray]:
    """Everything that one unit can add to three counts."""
    each = range(limits.rows_per_group + 1)
    every = (np.array(v) for v in itertools.product(each, repeat=3))
    return [v for v in every if v.sum() <= limits.rows and (v > 0).sum() <= limits.groups]


def changes(limits: ContributionLimits, relation: Neighbours) -> Iterator[np.ndarray]:
    possible = units(limits)
    if relation is Neighbours.ADD_REMOVE:
        yield from possible
    else:
        yield from (a - b for a in possible for b in possible)


def matrix(weights: WeightMatrix | ThresholdWeights) -> np.ndarray:
    """Column by column, from one row in each group: slow, and plainly right."""
    return np.array([weights.scores(np.eye(3, dtype=np.int64)[g]) for g in range(3)]).T


def spread(weights: WeightMatrix | ThresholdWeights, limits: ContributionLimits, relation: Neighbours) -> int:
    moves = (matrix(weights) @ change for change in changes(limits, relation))
    return max(int(move.max() - move.min()) for move in moves)


@pytest.mark.parametrize("table", [USERS, ROWS], ids=["units", "rows"])
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("weights", CHAINS + OTHERS)
def test_no_unit_moves_scores_further_apart_than_derived(
    weights: WeightMatrix | ThresholdWeights, relation: Neighbours, table: Table
) -> None:
    plan = bounded(table, relation)
    scores = LinearScores(MeasureTotals(plan), weights)
    assert spread(weights, plan.limits, relation) <= scores.score_difference_bound
    for change in changes(plan.limits, relation):
        move = matrix(weights) @ change
        for epsilon in (Fraction(1), Fraction(3)):  # the law itself: e^{ε·s/D}, from scores 0 to scores Δs
            tilted = np.exp(float(epsilon) * move / float(scores.score_difference_bound))
            losses = np.log(tilted / tilted.mean())
            assert losses.max() - losses.min() <= float(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("weights", CHAINS)
def test_a_chain_needs_no_more_for_replaced_rows(weights: WeightMatrix | ThresholdWeights) -> None:
    both = {
        relation: LinearScores(MeasureTotals(bounded(ROWS, relation)), weights).score_difference_bound
        for relation in Neighbours
    }
    assert weights.has_ordered_columns
    assert both[Neighbours.REPLACE] <= both[Neighbours.ADD_REMOVE] == weights.max_column_range_with_zero


def test_a_claim_that_every_matrix_is_a_chain_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: one row's move from one candidate to another is 2, not 1."""
    weights = OTHERS[0]
    assert not weights.has_ordered_columns
    plan = bounded(ROWS, Neighbours.REPLACE)
    assert (
        LinearScores(MeasureTotals(plan), weights).score_difference_bound
        == spread(weights, plan.limits, Neighbours.REPLACE)
        == 2
    )
    monkeypatch.setattr(WeightMatrix, "has_ordered_columns", True)
    weights = WeightMatrix(weights.rows)  # nothing remembered
    assert LinearScores(MeasureTotals(plan), weights).score_difference_bound < spread(
        weights, plan.limits, Neighbours.REPLACE
    )


def test_a_chain_of_signed_sums_is_no_chain() -> None:
    """A value of −5 in one group exchanged for 5 in another moves by ten what a count moves by one."""
    text = "SELECT region, SUM(age - 55) AS s FROM visits GROUP BY region"
    plan = bounded(ROWS, Neighbours.REPLACE, text)
    scores = LinearScores(MeasureTotals(plan), CHAINS[0])
    most = plan.measures[0].high
    assert plan.measures[0].signed
    assert scores.score_difference_bound >= 2 * most * 7  # most in the last group, exchanged for −most there


@pytest.mark.parametrize("relation", list(Neighbours))
def test_how_many_rows_reach_a_candidate(relation: Neighbours) -> None:
    plan = bounded(USERS, relation)
    weights = ThresholdWeights((1, 3, 7), (1, 2, 3))
    reading = RowsReachingCandidates(MeasureTotals(plan), weights)
    reached = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]])
    most = max(abs(int(each)) for change in changes(plan.limits, relation) for each in reached @ change)
    assert most == reading.sensitivity.l1 == plan.limits.rows
    assert reading.sensitivity.neighbours is relation
    assert reading.extract(np.array([[4], [5], [6]])).tolist() == [15, 11, 6]


def test_scores_are_exact_and_never_wrap_around() -> None:
    weights = ThresholdWeights((1, 10**12), (0, 1, 2))
    assert weights.scores(np.array([9, 1, 2])).tolist() == [3, 2 * 10**12]
    for count in (9_223_372, 2**62, 2**63 - 1):
        found = weights.scores(np.array([count] * 3))
        assert 0 < found[0] < found[1] == 10**12 * min(2**62 // 3, (2**62 - 1) // 10**12)
        dense = WeightMatrix(((1, 1, 1), (-(10**12), 10**12, 10**12))).scores(np.array([count, count, -count]))
        assert dense[1] <= -(10**12) < 0 < dense[0]


def test_several_measures_are_told_apart() -> None:
    text = "SELECT region, AVG(age) AS a, COUNT(*) AS n FROM visits GROUP BY region"
    plan = bounded(USERS, Neighbours.ADD_REMOVE, text)
    totals = np.arange(9).reshape(3, 3)
    assert MeasureTotals(plan, 0).extract(totals).tolist() == [[0, 1], [3, 4], [6, 7]]
    assert MeasureTotals(plan, 1).extract(totals).tolist() == [[2], [5], [8]]
    assert MeasureTotals(plan, 1).sensitivity == plan.measures[1].sensitivity
    with pytest.raises(InvalidParameter, match="one total"):
        LinearScores(MeasureTotals(plan, 0), CHAINS[0])


def test_weights_are_values_and_refuse_what_is_no_weight() -> None:
    for weights in CHAINS + OTHERS:
        assert codec.loads(codec.dumps(weights)) == weights
    for rows in ((), ((),), ((1,), (1, 2)), ((1.5,),), ((10**13,),), ((True,),)):
        with pytest.raises(InvalidParameter):
            WeightMatrix(rows)  # type: ignore[arg-type]
    for values, reached in (((), (0,)), ((2, 1), (0,)), ((0, 1), (0,)), ((1, 2), ()), ((1, 2), (3,)), ((1, 2), (-1,))):
        with pytest.raises(InvalidParameter):
            ThresholdWeights(values, reached)
    assert math.prod(ThresholdWeights((1, 2), (0, 1, 2)).shape) == 6


@pytest.mark.parametrize("table", [USERS, ROWS], ids=["units", "rows"])
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("weights", [each for each in CHAINS + OTHERS if isinstance(each, WeightMatrix)])
def test_no_unit_moves_combinations_further_than_derived(
    weights: WeightMatrix, relation: Neighbours, table: Table
) -> None:
    """Every norm, for everything a unit can be; with all of a unit in one group the bounds are reached."""
    found = bounded(table, relation)
    derived = LinearTotals(MeasureTotals(found), weights).sensitivity
    moves = [matrix(weights) @ change for change in changes(found.limits, relation)]
    assert max(int(np.abs(move).max()) for move in moves) <= derived.per_group
    assert max(int(np.abs(move).sum()) for move in moves) <= derived.total
    assert max(int((move**2).sum()) for move in moves) <= derived.squares
    assert derived.neighbours is relation
    if table is ROWS and relation is Neighbours.ADD_REMOVE:
        assert max(int(np.abs(move).sum()) for move in moves) == max(derived.total, 1)
        assert max(int((move**2).sum()) for move in moves) == max(derived.squares, 1)


def test_combinations_are_those_of_the_totals() -> None:
    totals, weights = np.array([[5], [-2], [9]], np.int64), WeightMatrix(((2, -1, 0), (0, 3, -4)))
    view = LinearTotals(MeasureTotals(bounded(ROWS, Neighbours.ADD_REMOVE)), weights)
    assert view.extract(totals).tolist() == [12, -42]
    with pytest.raises(InvalidParameter):
        LinearTotals(
            MeasureTotals(bounded(ROWS, Neighbours.ADD_REMOVE, "SELECT region, AVG(age) FROM visits GROUP BY region")),
            weights,
        )
