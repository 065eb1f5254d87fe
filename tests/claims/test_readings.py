"""What one unit moves in every kind of reading, for small plans under all limits, strategies and neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from claims.claimed_questions import Claims, with_prefix
from claims.recorded import Claim, check_claims
from plan.described import CATALOG
from sfumato.plan.bounding import (
    BoundedPlan,
    bound_by_unit_weights,
    bound_by_whole_rows,
    bound_for_discovery,
    candidate_bounded_plans,
    for_neighbours,
    max_squared_norm,
)
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows, ColumnSetDistances
from sfumato.plan.readings.combining import FactoredTotals, combine_readings
from sfumato.plan.readings.dense_readings import (
    CountDistances,
    Marginal,
    Marginals,
    MarginalView,
    SteppedTotal,
    cells_sensitivity,
)
from sfumato.plan.readings.total_readings import (
    ChosenGroups,
    GroupSizeHistogram,
    GroupTotals,
    KeyHolders,
    LinearScores,
    LinearTotals,
    MeasureTotals,
    RowsReachingCandidates,
    ThresholdWeights,
    WeightMatrix,
)
from sfumato.plan.sharing import share_measures
from sfumato.plan.sql.statements import parse
from sfumato.privacy import Neighbours, Sensitivity

LIMITS = (
    ContributionLimits(1, 1, 1),
    ContributionLimits(3, 2, 2),
    ContributionLimits(5, 3, 2),
    ContributionLimits(6, 2, 4),
)
MEASURES = ("COUNT(*)", "SUM(age)", "SUM(age - 100)", "SUM(hospital)")
_CELLS = (("north", "south", "east", "west"), (False, True))


def _bounded(
    measure: str,
    limits: ContributionLimits,
    keys: str,
    strategy: Strategy = Strategy.REWEIGHT,
    *,
    every_row: bool = False,
) -> BoundedPlan:
    grouped = f" GROUP BY {keys}" if keys else ""
    shown = f"{keys}, " if keys else ""
    tables = {**CATALOG.tables, "visits": replace(CATALOG.tables["visits"], id=None if every_row else "patient_id")}
    plan = share_measures(parse(f"SELECT {shown}{measure} FROM visits{grouped}", replace(CATALOG, tables=tables)).plan)
    options = candidate_bounded_plans(plan.parts[0].plan, limits, 4 if keys else 1)
    return next((each for each in options if each.strategy is strategy), options[0])


def _plans(keys: str = "region") -> Iterator[tuple[str, BoundedPlan]]:
    strategies = [each for each in Strategy if each.is_selectable]
    for measure, limits, strategy, relation in product(MEASURES, LIMITS, strategies, Neighbours):
        name = f"{measure} {limits.rows}/{limits.groups}/{limits.rows_per_group} {strategy.value} {relation.value}"
        yield name, for_neighbours(_bounded(measure, limits, keys, strategy), relation)
    for measure, relation in product(MEASURES, Neighbours):
        bounded = _bounded(measure, LIMITS[0], keys, Strategy.WHOLE, every_row=True)
        yield f"{measure} rows {relation.value}", for_neighbours(bounded, relation)


def _moves(change: Sensitivity) -> Claim:
    return change.l0, change.l1, change.squares, change.linf, change.neighbours.value


@pytest.mark.parametrize("measure", MEASURES)
def test_linear_readings(measure: str) -> None:
    claims: Claims = {}
    matrices = (
        WeightMatrix(((1, 0, -2, 3), (4, 4, 0, 1))),
        WeightMatrix(((0, 0, 0, 0),)),
        WeightMatrix(((1, 2, 3, 4), (2, 3, 4, 5))),
    )
    thresholds = ThresholdWeights((1, 3, 7), (1, 2, 3, 0))
    for name, bounded in _plans():
        if not name.startswith(f"{measure} "):
            continue
        totals = MeasureTotals(bounded)
        claims[f"{name} totals"] = _moves(totals.sensitivity)
        for number, matrix in enumerate(matrices):
            claims[f"{name} combinations {number}"] = _moves(LinearTotals(totals, matrix).sensitivity)
            claims[f"{name} scores {number}"] = LinearScores(totals, matrix).score_difference_bound
        if totals.scaled.low >= 0:
            claims[f"{name} thresholds"] = LinearScores(totals, thresholds).score_difference_bound
            claims[f"{name} supports"] = _moves(RowsReachingCandidates(totals, thresholds).sensitivity)
            claims[f"{name} chosen groups"] = _moves(ChosenGroups(totals).sensitivity)
            if not totals.scaled.bits:
                claims[f"{name} sizes"] = _moves(GroupSizeHistogram(totals, 3).sensitivity)
    check_claims(f"readings/linear {MEASURES.index(measure)}", claims)


def test_factored_readings() -> None:
    claims: Claims = {}
    weights = {
        "tree": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]]),
        "prefix": np.tri(4, dtype=np.int64),
        "signed": np.array([[2, -1, 0, 3], [0, 5, -2, 1]]),
        "one": np.array([[7, 7, 7, 7]]),
    }
    for (name, bounded), (shape, matrix) in product(_plans(), weights.items()):
        claims[f"{name} {shape}"] = _moves(FactoredTotals(MeasureTotals(bounded), matrix).sensitivity)
    check_claims("readings/factored", claims)


def test_stepped_readings() -> None:
    claims: Claims = {}
    for (name, bounded), grid in product(_plans(""), ("1", "3", "1/7")):
        read = SteppedTotal(bounded, Fraction(grid))
        steps = [int(read.extract(np.array([[total]]))[0, 0]) for total in (0, 1, 10**6, -(10**9) - 1, 2**62, -(2**62))]
        claims[f"{name} {grid}"] = (read.max_change_in_steps, read.is_monotone, read.rounding, *steps)
    check_claims("readings/stepped", claims)


def _cell_plans() -> Iterator[tuple[str, BoundedPlan]]:
    plan = parse("SELECT region, urgent, COUNT(*) FROM visits GROUP BY region, urgent", CATALOG).plan
    keys = tuple(replace(key, domain=replace(key.domain, nullable=True)) for key in plan.keys)  # type: ignore[type-var]
    plan = replace(plan, keys=keys)
    for limits, relation, weighted in product(LIMITS, Neighbours, (False, True)):
        name = f"{limits.rows}/{limits.groups}/{limits.rows_per_group} {relation.value} {'weighted' * weighted}".strip()
        make = bound_by_unit_weights if weighted else bound_by_whole_rows
        yield name, for_neighbours(make(plan, limits, 15), relation)


def test_readings_of_cells() -> None:
    claims: Claims = {}
    rows = CodedRows((5, 3), (np.array([0, 1, 4, 1]), np.array([2, 0, 1, 0])), np.array([5, 7, 11, 2]))
    table = np.arange(15).reshape(5, 3)
    for name, bounded in _cell_plans():
        read = Marginals(bounded, _CELLS, ((), (0,), (0, 1)))
        own = {f"marginal {index}": _moves(Marginal(read, index).sensitivity) for index in range(3)}
        own |= {f"{count} cells": _moves(cells_sensitivity(bounded, count)) for count in (1, 2, 3)}
        whole = Marginals(bounded, _CELLS, ((0, 1),))
        views = (MarginalView(whole, ()), MarginalView(whole, (0,)), MarginalView(whole, (0, 1), (1, 4, 5)))
        predicted = tuple(np.full(view.size, 3) for view in views)
        for each in (False, True):
            misfits = CountDistances(views, predicted, each)
            own[f"misfits {each}"] = (
                misfits.sensitivity,
                misfits.score_difference_bound,
                *misfits.extract([table]).tolist(),
            )
        cells = CellRows(bounded, _CELLS, ((), (0,), (0, 1)))
        counts = (CellCounts(cells, ()), CellCounts(cells, (0,)), CellCounts(cells, (0, 1)))
        own["cell counts"] = tuple(_moves(view.sensitivity) for view in counts)
        for weights in ((5, 1, 1), (1, 2, 1), (9, 2, 4)):
            predictions = tuple(np.full(view.size, 2) for view in counts)
            sets = ColumnSetDistances(counts, predictions, weights, (1, 0, 3))
            own[f"set misfits {weights}"] = (
                sets.sensitivity,
                sets.score_difference_bound,
                *sets.extract(rows).tolist(),
            )
        claims |= with_prefix(name, own)
    check_claims("readings/cells", claims)


def test_readings_of_holders() -> None:
    claims: Claims = {}
    for text in ("COUNT(*)", "COUNT(DISTINCT patient_id)", "SUM(age), AVG(age)", "SUM(age - 100)"):
        plan = share_measures(parse(f"SELECT ward, {text} FROM visits GROUP BY ward", CATALOG).plan).parts[0].plan
        for limits, relation, every_row in product(LIMITS, Neighbours, (False, True)):
            source = replace(plan.source, every_row=every_row)  # type: ignore[type-var]
            if every_row and "DISTINCT" in text:
                continue
            bounded = for_neighbours(bound_for_discovery(replace(plan, source=source), limits), relation)
            name = f"{text} {limits.rows}/{limits.groups}/{limits.rows_per_group} {relation.value} {every_row}"
            holders = KeyHolders(bounded)
            claims[f"{name} holders"] = (
                holders.max_keys_per_unit,
                holders.is_weighted,
                bounded.strategy.value,
                bounded.discovers_groups,
            )
            for place, scaled in enumerate(bounded.measures):
                claims[f"{name} {place}"] = (
                    *_moves(scaled.sensitivity),
                    *_moves(scaled.add_remove_sensitivity),
                    scaled.signed,
                )
    check_claims("readings/holders", claims)


def test_statements_that_read_several_questions() -> None:
    texts = (
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE age > 3",
        "SELECT COUNT(*) FILTER (WHERE urgent) FROM visits",
        "SELECT COUNT(*) FILTER (WHERE urgent) FROM visits WHERE age > 3",
        "SELECT SUM(age) FROM visits",
        "SELECT COUNT(DISTINCT patient_id) FROM visits WHERE urgent",
        "SELECT COUNT(DISTINCT patient_id), COUNT(*) FROM visits",
        "SELECT region, COUNT(*) FROM visits GROUP BY region",
    )
    claims: Claims = {}
    for strategy in (Strategy.CLIP_L1, Strategy.REWEIGHT, Strategy.SAMPLE):
        readings = []
        for text in texts:
            options = candidate_bounded_plans(parse(text, CATALOG).plan, ContributionLimits(5, 2, 3), 1)
            bounded = next((each for each in options if each.strategy is strategy), options[0])
            readings.append(GroupTotals(bounded, ((),)))
        for number, made in enumerate(combine_readings(readings)):
            parts = [f"{texts[readings.index(own)]} {columns.start}:{columns.stop}" for own, columns in made.parts]
            tests = [each.measure.where is not None for each in made.reading.bounded.measures]
            claims[f"{strategy.value} {number}"] = (*parts, *tests)
    check_claims("readings/combined", claims)


def test_longest_vectors() -> None:
    """By another route: the largest Σv² is at a corner, where all parts but one are 0 or full."""
    for per_group, total in product(range(1, 8), range(1, 30)):
        best = max(
            sum(part * part for part in parts)
            for count in range(total // per_group + 2)
            for parts in [[per_group] * count + [min(per_group, total - per_group * count)]]
            if total >= per_group * count
        )
        assert max_squared_norm(per_group, total) == best
