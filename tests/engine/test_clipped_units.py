"""Clipping without a look at every group: enumerated units at their limits, one row beyond, and far beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, clip_scaling
from sfumato.engine.lowering.clip_scaling import may_exceed_norm
from sfumato.engine.lowering.relational_form import Reference, Select, StagedSelect, StageReference
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours, max_squared_norm
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table
from sfumato.privacy import Neighbours

REGIONS = [f"region {index}" for index in range(4)]
Unit = tuple[tuple[int, int], ...]
"""The rows of a unit, as region and age."""


def _units(max_rows: int, ages: tuple[int, ...], regions: int) -> list[Unit]:
    """Every unit with so many rows at most, in every number."""
    rows = list(product(range(regions), ages))
    return [unit for count in range(1, max_rows + 1) for unit in combinations_with_replacement(rows, count)]


def _totals(
    units: list[Unit],
    asked: str,
    strategy: Strategy,
    limits: ContributionLimits,
    bounds: tuple[int, int],
    statements: list[str] | None = None,
) -> tuple[BoundedPlan, np.ndarray[Any, Any]]:
    """What each unit adds to the totals of each region: units are told apart by a key that each has to itself."""
    rows = [(number, REGIONS[region], age) for number, unit in enumerate(units) for region, age in unit]
    source = pa.table(dict(zip(("who", "region", "age"), map(list, zip(*rows, strict=True)), strict=True)))
    source = source.append_column("world", source.column("who"))
    columns = {
        "world": {"type": "integer", "bounds": [0, len(units) - 1]},
        "region": {"values": REGIONS},
        "age": {"type": "integer", "bounds": list(bounds)},
    }
    engine = DuckDB(policy_of(Table("t", source, columns, id="who", max_rows=limits.rows)))  # type: ignore[arg-type]
    plan = parse(f"SELECT world, region, {asked} FROM t GROUP BY world, region", engine.catalog()).plan
    bounded = next(each for each in candidate_bounded_plans(plan, limits, len(REGIONS)) if each.strategy is strategy)
    groups = tuple((number, region) for number in range(len(units)) for region in REGIONS)
    totals = np.array(tuples(engine.read(GroupTotals(bounded, groups), 0)), dtype=np.int64)
    if statements is not None:
        statements.append(engine.sources.statements[-1])
    engine.close()
    return bounded, totals.T.reshape(-1, len(units), len(REGIONS))


def _require_claims(bounded: BoundedPlan, totals: np.ndarray[Any, Any]) -> None:
    """No unit adds more than is claimed, and no two of them differ by more."""
    for measure, of_units in zip(bounded.measures, totals, strict=True):
        pairs = of_units[:, None, :] - of_units[None, :, :]
        for relation, moved in ((Neighbours.ADD_REMOVE, of_units), (Neighbours.REPLACE, pairs)):
            (scaled,) = (
                each.sensitivity
                for each in for_neighbours(bounded, relation).measures
                if each.measure == measure.measure
            )
            sizes = np.abs(moved)
            assert sizes.sum(axis=-1).max() <= scaled.total
            assert sizes.max() <= scaled.per_group
            assert (sizes.astype(float) ** 2).sum(axis=-1).max() <= scaled.squares


@pytest.mark.parametrize("bounds", [(0, 7), (-7, 0)])
@pytest.mark.parametrize("limits", [ContributionLimits(2, 2, 2), ContributionLimits(3, 1, 2)])
def test_rows_are_scaled_to_the_norm_of_their_unit(bounds: tuple[int, int], limits: ContributionLimits) -> None:
    """Every unit of up to two rows more than count: the norm is reached and not exceeded, and a row keeps its share, in
    which rounding takes less than one unit of the totals.
    """
    low, high = bounds
    far = tuple((index % 3, (low or high)) for index in range(1000))
    units = [*_units(limits.total + 2, (low, (low + high) // 2, high), 3), far]
    statements: list[str] = []
    asked = "COUNT(*), SUM(age), SUM(age) FILTER (WHERE age IN (-4, 3))"
    bounded, totals = _totals(units, asked, Strategy.CLIP_L1, limits, bounds, statements)
    assert "g AS (" not in statements[0]  # no group of a unit is looked at
    _require_claims(bounded, totals)
    counted: tuple[Callable[[int], int], ...] = (lambda _: 1, lambda age: age, lambda age: age * (age in (-4, 3)))
    for number, (measure, count) in enumerate(zip(bounded.measures, counted, strict=True)):
        bound, fraction = limits.total * measure.size, 1 << measure.bits
        for unit, added in zip(units, totals[number], strict=True):
            size = sum(abs(count(age)) for _, age in unit)
            shares = [0.0] * len(REGIONS)
            for region, age in unit:
                shares[region] += count(age) * fraction * min(1.0, bound / max(size, 1))
            cells = zip(shares, added, strict=True)
            assert all(abs(share) + 1e-6 >= abs(cell) > abs(share) - len(unit) for share, cell in cells)
            if size <= bound:
                assert list(added) == shares


def test_totals_of_mixed_signs_are_scaled_group_by_group() -> None:
    """Of what cancels in a group nothing is scaled."""
    limits, unit = ContributionLimits(2, 2, 2), ((0, 5), (0, -5), (0, 5), (0, -5), (1, 5))
    bounded, totals = _totals([unit], "SUM(age)", Strategy.CLIP_L1, limits, (-5, 5))
    assert totals[0, 0].tolist() == [0, 5 << bounded.measures[0].bits, 0, 0]
    units = _units(4, (-5, 5), 2)
    _require_claims(*_totals(units, "SUM(age)", Strategy.CLIP_L1, limits, (-5, 5)))


@pytest.mark.parametrize("asked", ["SUM(age)", "COUNT(*), SUM(age)"])
def test_rows_that_add_up_beyond_64_bits_stay_within_the_norm(asked: str) -> None:
    """A norm that is cut off would scale the rows of a unit to more than they may count."""
    limits = ContributionLimits(3, 2, 3)
    unit = tuple((0, 2**52) for _ in range(5000))
    bounded, totals = _totals([unit], asked, Strategy.CLIP_L1, limits, (0, 2**52))
    _require_claims(bounded, totals)
    assert totals[-1, 0, 0] > 0.99 * bounded.measures[-1].add_remove_sensitivity.total


SPREADS = [ContributionLimits(3, 3, 1), ContributionLimits(4, 2, 3), ContributionLimits(4, 4, 2)]


@pytest.mark.parametrize("limits", SPREADS)
def test_leaving_units_out_that_no_length_clips_changes_no_total(
    monkeypatch: pytest.MonkeyPatch, limits: ContributionLimits
) -> None:
    """Of every unit of up to seven rows in four regions, at both ends of a range and mixed."""
    alike = [
        tuple((region, age) for region in regions)
        for age in (-2, 10)
        for count in range(1, 8)
        for regions in combinations_with_replacement(range(4), count)
    ]
    units = [*alike, *_units(3, (-2, 10), 4)]
    asked, statements = "COUNT(*), SUM(age), AVG(age) FILTER (WHERE age > -2)", list[str]()
    bounded, totals = _totals(units, asked, Strategy.CLIP_L2, limits, (-2, 10), statements)
    monkeypatch.setattr(bounded_totals, "max_squared_rows_of", lambda *_: None)
    _, without = _totals(units, asked, Strategy.CLIP_L2, limits, (-2, 10), statements)
    assert np.array_equal(totals, without)
    assert ["bit_count" in each.lower() for each in statements] == [True, False]
    counts = totals[0].sum(axis=1) >> bounded.measures[0].bits
    assert any(count == len(unit) > limits.rows_per_group for unit, count in zip(units, counts, strict=True))


def _heavy(numbers: list[tuple[int, int]], max_rows: int, max_squared_rows: int) -> set[tuple[int, int]]:
    """The pairs of a number of rows and a number of groups that may exceed a norm, as SQL finds them."""
    import duckdb

    columns = (("n", Reference("n")), ("d", Reference("d")), ("k", may_exceed_norm(max_rows, max_squared_rows)))
    select = Select(columns, StageReference("numbers"))  # a column has both sides of an OR computed, and a filter not
    text = Generator(DuckDBSpelling(), str).statement(StagedSelect((), select))
    listed = ", ".join(f"(CAST({n} AS BIGINT), CAST({d} AS BIGINT))" for n, d in numbers)
    found = duckdb.sql(f"WITH numbers AS (SELECT * FROM (VALUES {listed}) AS v(n, d)) {text}").fetchall()
    return {(n, d) for n, d, is_heavy in found if is_heavy}


def _parts(total: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to split rows over groups, the largest first."""
    if total == 0:
        yield ()
    for first in range(min(total, most), 0, -1):
        yield from ((first, *rest) for rest in _parts(total - first, first))


@pytest.mark.parametrize("limits", [*SPREADS, ContributionLimits(8, 5, 8), ContributionLimits(9, 2, 5)])
def test_no_unit_beyond_a_cap_or_a_length_is_left_out(limits: ContributionLimits) -> None:
    """Whatever groups it has, and however few of them its remainders tell apart; and not one is read in vain that rows
    and groups alone tell to be within both.
    """
    per_group, total, size = limits.rows_per_group, limits.total, 10 << 16
    bound = isqrt(max_squared_norm(per_group * size, total * size))
    pairs = [(n, d) for n in range(per_group + 1, 14) for d in range(1, n + 1)]
    heavy = _heavy(pairs, per_group, bound**2 // size**2)
    beyond = {
        (n, d)
        for n in range(per_group + 1, 14)
        for parts in _parts(n, n)
        if max(parts) > per_group or sum((part * size) ** 2 for part in parts) > bound**2
        for d in range(1, len(parts) + 1)
    }
    assert heavy == beyond
    assert heavy < set(pairs)


def test_numbers_of_rows_are_squared_within_63_bits() -> None:
    limit = clip_scaling._MAX_SQUARED_ROWS
    most = (limit, limit**2)
    assert _heavy([(2**62, 1), (2**62, 62), (limit, 1), (limit + 1, 1)], *most) == {
        (2**62, 1),
        (2**62, 62),
        (limit + 1, 1),
    }
