"""Totals rounded to units: what one unit changes, by exact enumeration of small worlds in the engine.

Every world is a pair of groups of one table: some people whose totals leave every remainder, and one unit more. Units
are made of several steps by asking for few of them (``MAX_STEPS``), so that small numbers are rounded as large ones
are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import cell_lowering
from sfumato.engine.lowering.cell_lowering import _rounded_quotient
from sfumato.engine.lowering.relational_form import (
    CleanTable,
    Constant,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    Wide,
    apply,
)
from sfumato.engine.lowering.unit_lowering import to_wide_integer
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.plan import bounding
from sfumato.plan.bounding import BoundedPlan, _sensitivity_after_rounding, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table as Declared
from sfumato.privacy import Neighbours, Sensitivity

KINDS, LIMITS = ("a", "b"), {"max_rows": 2, "max_groups": 2, "max_rows_per_group": 2}
Row = tuple[str, int]
Vector = tuple[int, ...]


def nearest(total: int, unit: int) -> int:
    return math.floor(Fraction(total, unit) + Fraction(1, 2))


def away(total: int, unit: int) -> int:
    """The broken twin: halves are rounded away from 0."""
    return (2 * abs(total) + unit) // (2 * unit) * (1 if total >= 0 else -1)


def exceeds(change: Vector, claim: Sensitivity) -> bool:
    sizes = [abs(each) for each in change]
    return max(sizes) > claim.linf or sum(sizes) > claim.l1 or sum(each**2 for each in sizes) > claim.squares


@pytest.mark.parametrize(("rounds", "broken"), [(nearest, False), (away, True)])
@pytest.mark.parametrize("unit", [2, 4])
def test_the_theorem_of_rounded_totals(rounds: Callable[[int, int], int], broken: bool, unit: int) -> None:
    """All changes of two totals by at most 5 each, and in all, from every remainder; reached, and never exceeded."""
    exceeded = reached = False
    moves = {
        by: {rounds(start + by, unit) - rounds(start, unit) for start in range(-unit, unit)} for by in range(-5, 6)
    }
    for cap, most in product(range(1, 6), range(1, 8)):
        claim = _sensitivity_after_rounding(Sensitivity(2, cap, total=most), unit, 2)
        for change in product(range(-cap, cap + 1), repeat=2):
            if sum(map(abs, change)) > most:
                continue
            for moved in product(*(moves[by] for by in change)):
                exceeded |= exceeds(moved, claim)
                reached |= sum(map(abs, moved)) == claim.l1
    assert exceeded == broken
    assert reached, "and what is claimed in all is reached"


def _units(rows: bool) -> list[tuple[Row, ...]]:
    """All sets of rows at the ends of the bounds and inside, up to one more than the limit."""
    cells = list(product(KINDS, (-3, 1, 6)))
    return [rows for many in range(2 if rows else 4) for rows in combinations_with_replacement(cells, many)]


def _worlds(rows: bool, bases: int) -> list[tuple[int, tuple[Row, ...]]]:
    return [(base, unit) for base in range(bases) for unit in _units(rows)]


def _engine(rows: bool, bases: int) -> DuckDB:
    """One table of all worlds: in each, other people leave the remainders of its base in the two groups."""
    cells: list[tuple[int, int, str, int]] = []
    for world, (base, unit) in enumerate(_worlds(rows, bases)):
        cells += [(1000 * world + 1 + kind, world, KINDS[kind], divmod(base, 4)[kind] - 2) for kind in (0, 1)]
        cells += [(1000 * world, world, kind, cost) for kind, cost in unit]
    named = zip(("who", "world", "kind", "cost"), zip(*cells, strict=True), strict=True)
    columns: dict[str, Any] = {
        "world": {"type": "integer", "bounds": [0, len(_worlds(rows, bases)) - 1]},
        "kind": {"values": list(KINDS)},
        "cost": {"type": "integer", "bounds": [-3, 6]},
    }
    own = {} if rows else LIMITS
    source = pa.table({name: list(each) for name, each in named})
    return DuckDB(policy_of(Declared("t", source, columns, id="row" if rows else "who", **own)), threads=1)  # type: ignore[arg-type]


def _bounded(engine: DuckDB, measure: str) -> tuple[BoundedPlan, ...]:
    """Bound the plan as one world: no unit is in another."""
    plan = parse(f"SELECT world, kind, {measure}(cost) AS n FROM t GROUP BY world, kind", engine.catalog()).plan
    return candidate_bounded_plans(plan, ContributionLimits.from_table(engine._policy.tables["t"]), len(KINDS))


def _totals(engine: DuckDB, bounded: BoundedPlan, count: int) -> list[Vector]:
    groups = tuple(product(range(count), KINDS))
    found = tuples(engine.read(GroupTotals(bounded, groups), 7))
    return [(*found[2 * world], *found[2 * world + 1]) for world in range(count)]


def _changes(worlds: list[tuple[int, tuple[Row, ...]]], totals: list[Vector], relation: Neighbours) -> set[Vector]:
    """All differences of neighbouring worlds, each of which has the same other people."""
    found: set[Vector] = set()
    size = len({unit for _, unit in worlds})
    for start in range(0, len(worlds), size):
        own = totals[start : start + size]
        pairs = combinations(own[1:], 2) if relation is Neighbours.REPLACE else ((own[0], each) for each in own[1:])
        found |= {tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs}
    return found


@pytest.fixture
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounding, "MAX_STEPS", 4)


@pytest.mark.usefixtures("_few_steps")
@pytest.mark.parametrize("measure", ["SUM", "AVG"])
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "people"])
def test_no_unit_moves_rounded_totals_further_than_is_claimed(rows: bool, measure: str) -> None:
    """Under every strategy and both relations; the largest change that a unit makes by coming is reached."""
    bases = 16
    engine, worlds = _engine(rows, bases), _worlds(rows, bases)
    for bounded in _bounded(engine, measure):
        assert bounded.measures[0].bits < 0
        totals = _totals(engine, bounded, len(worlds))
        for relation in Neighbours:
            claim = for_neighbours(bounded, relation).measures[0].sensitivity
            changes = _changes(worlds, totals, relation)
            assert not any(exceeds(each, claim) for each in changes), (bounded.strategy, relation)
            if measure == "SUM" and relation is Neighbours.ADD_REMOVE:
                assert max(abs(one) for each in changes for one in each) == claim.linf, (bounded.strategy, relation)
    engine.close()


def _away_in_the_engine(total: Scalar, unit: int) -> Scalar:
    """The broken twin of ``_rounded_quotient``: division rounds toward 0, so halves are rounded away from it."""
    half = Constant(unit // 2, Wide.INTEGER)
    negative = apply(ScalarFunction.GREATER, Constant(0, Wide.INTEGER), to_wide_integer(total))
    moved = apply(
        ScalarFunction.CASE,
        negative,
        apply(ScalarFunction.SUBTRACT, to_wide_integer(total), half),
        apply(ScalarFunction.ADD, to_wide_integer(total), half),
    )
    return apply(ScalarFunction.DIVIDE_WIDE, moved, Constant(unit, Wide.INTEGER))


def _without_remainders(change: Sensitivity, unit: int, touched: int) -> Sensitivity:  # noqa: ARG001
    """The broken twin of ``_sensitivity_after_rounding``: as if all totals were rounded together."""
    per_group, total = math.ceil(change.per_group / unit), math.ceil(change.total / unit)
    return Sensitivity(change.groups, per_group, total, neighbours=change.neighbours)


@pytest.mark.usefixtures("_few_steps")
@pytest.mark.parametrize("twin", ["halves away from 0", "no remainders"])
def test_broken_twins_are_caught(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if twin == "no remainders":
        monkeypatch.setattr(bounding, "_sensitivity_after_rounding", _without_remainders)
    else:
        monkeypatch.setattr(cell_lowering, "_rounded_quotient", _away_in_the_engine)
    engine, worlds = _engine(False, 16), _worlds(False, 16)
    caught = False
    for bounded in _bounded(engine, "SUM"):
        for scaled in bounded.measures:
            assert scaled.bits < 0
        changes = _changes(worlds, _totals(engine, bounded, len(worlds)), Neighbours.ADD_REMOVE)
        caught |= any(exceeds(each, bounded.measures[0].sensitivity) for each in changes)
    engine.close()
    assert caught


def test_the_engine_rounds_halves_up() -> None:
    """Both signs, every side of a half, and totals far beyond 64 bits."""
    unit = 1 << 32
    middles = [sign * (whole * unit + half) for sign in (-1, 1) for whole in (0, 1, 2**70) for half in (0, unit // 2)]
    totals = [each + by for each in middles for by in (-1, 0, 1)]
    columns = tuple((f"t{at}", _rounded_quotient(Constant(each, Wide.INTEGER), unit)) for at, each in enumerate(totals))
    written = Generator(DuckDBSpelling(), lambda _: "(SELECT 1)").statement(
        StagedSelect((), Select(columns, CleanTable("t")))
    )
    assert duckdb.sql(written).fetchall() == [tuple(nearest(each, unit) for each in totals)]
