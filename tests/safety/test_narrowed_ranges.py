"""Sums and means take the range that conditions leave of a value: what one unit moves by enumeration, and numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from plan.described import CATALOG
from safety.worlds import World, changes, question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.aggregates.disjoint import members_of
from sfumato.plan.aggregates.measures import Mean, Sum, value_range
from sfumato.plan.aggregates.value_measures import NarrowedMean, NarrowedSum
from sfumato.plan.bounding import candidate_bounded_plans, for_neighbours
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import share_measures
from sfumato.plan.sql.statements import parse
from sfumato.privacy import Neighbours
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release

CELLS = [{"who": 1, "age": age, "cost": cost} for age, cost in ((None, 1.5), (-2, 0.0), (1, 1.5), (3, None), (9, 4.0))]
ROWS = [
    (),
    *((row,) for row in CELLS),
    *itertools.combinations(CELLS, 2),
    *(tuple(itertools.repeat(row, 3)) for row in CELLS),
]
"""The rows of one unit, of which two count: up to one more than that."""
WORLD = World(
    True,
    (2, None, None),
    {"age": {"type": "integer", "bounds": [-2, 9]}, "cost": {"type": "real", "bounds": [0, 4]}},
    {"who": pa.int64(), "age": pa.int64(), "cost": pa.float64()},
    {},
    (),
)
NARROWED = [
    ("SUM(age)", "WHERE age < 4", (-2, 3)),
    ("AVG(age)", "WHERE age BETWEEN 0 AND 3", (0, 3)),
    ("SUM(cost)", "WHERE cost > 0 AND cost < 2", (0, 2)),
    ("SUM(age) FILTER (WHERE age > 0)", "WHERE age <= 3", (1, 3)),
    ("SUM(age + 1)", "WHERE age IN (1, 3)", (2, 4)),
    ("SUM(age) FILTER (WHERE age < 0), SUM(age) FILTER (WHERE age BETWEEN 1 AND 3)", "", (-2, 3)),
    ("COUNT(*), AVG(cost)", "WHERE cost <= 1.5 AND age < 4", (0, Fraction(3, 2))),
]


def _one_by_default(cases: list[tuple[Any, ...]]) -> list[Any]:
    """Mark all cases but one, a mean from 0, as long."""
    return [pytest.param(*case, marks=[] if index == 1 else pytest.mark.long) for index, case in enumerate(cases)]


@pytest.fixture(scope="module")
def engines() -> Iterator[list[DuckDB]]:
    with ExitStack() as opened:
        yield [opened.enter_context(closing(WORLD.engine(rows))) for rows in ROWS]


def _largest_changes(engines: list[DuckDB], plan: Aggregate) -> list[float]:
    """Return the largest change over what is claimed, for every strategy and relation."""
    found = []
    for bounded in candidate_bounded_plans(plan, plan.limits, 1):
        worlds = [engine.read(GroupTotals(bounded, ((),)), 7).tolist() for engine in engines]
        for relation, pairs in (
            (Neighbours.ADD_REMOVE, [(worlds[0], other) for other in worlds]),
            (Neighbours.REPLACE, list(itertools.combinations(worlds, 2))),
        ):
            claimed = for_neighbours(bounded, relation)
            found.append(max(change.worst for a, b in pairs for change in changes(claimed, a, b)))
    return found


@pytest.mark.parametrize(("asked", "where", "within"), _one_by_default(NARROWED))
def test_one_unit_moves_narrowed_totals_by_what_their_range_allows(
    engines: list[DuckDB], asked: str, where: str, within: tuple[Fraction, Fraction]
) -> None:
    plan = question(engines[0], engines[0]._policy, f"SELECT {asked} FROM people {where}").query.plan
    part = share_measures(plan).parts[0]
    narrowed = [member for member in part.members if isinstance(member, (Sum, Mean))]
    assert {member.clamp_range for member in narrowed} == {within}
    largest = _largest_changes(engines, part.plan)
    assert max(largest) <= 1
    assert max(largest) > 0.74  # SUM(age + 1) is at most 4 of the 4 that is claimed; fewer than all rows have the ends


CLAIMED = [(NarrowedSum, "cost"), (NarrowedSum, "age"), (NarrowedMean, "age"), (NarrowedMean, "cost")]


@pytest.mark.parametrize(("measure", "column"), _one_by_default(CLAIMED))
def test_engines_enforce_a_range_that_rows_leave(engines: list[DuckDB], measure: type, column: str) -> None:
    """Privacy does not depend on what is found about ranges: here a range is claimed that no condition implies."""
    plan = question(engines[0], engines[0]._policy, f"SELECT SUM({column}) FROM people").query.plan
    value = plan.measures[0].value
    assert value is not None
    low, high = value_range(value)
    for within in ((low, Fraction(1)), (low, high - 1), (low + 1, high)):  # one less than the declared range, too
        wrong = replace(plan, measures=(measure(value, None, within),))
        assert max(_largest_changes(engines, wrong)) <= 1, within


NOT_NARROWED = [
    ("SUM(age), VAR_POP(age), AVG(age)", "WHERE age < 4"),
    ("SUM(cost)", "WHERE age < 4 OR cost < 2"),
    ("SUM(age)", "WHERE age < -5"),
    ("AVG(cost)", "WHERE cost = 1.5"),
    ("SUM(age - cost)", "WHERE cost < 2 AND age > 0"),
]


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_numbers_are_those_of_the_rows(tmp_path: Path) -> None:
    """On one table of all cells, each row a unit of its own, at a price without noise."""
    cells = itertools.product((None, -2, -1, 1, 3, 4, 9), (None, 0.0, 1.5, 1.75, 2.0, 4.0))
    rows = [{"who": number, "age": age, "cost": cost} for number, (age, cost) in enumerate(cells)]
    people = pa.Table.from_pylist(rows, pa.schema(list(WORLD.stored.items())))
    assert people.num_rows == len(rows)
    with sf.Curator(replace(WORLD.policy(rows), budget=sf.Budget(10**9)), tmp_path / "x.ledger") as curator:
        for asked, where in (*((asked, where) for asked, where, _ in NARROWED), *NOT_NARROWED):
            text = f"SELECT {asked} FROM people {where}"
            exact = duckdb.sql(text).fetchall()[0]
            assert curator.sql(text).release(epsilon=10**6).rows[0] == pytest.approx(
                tuple(number or 0 for number in exact), abs=1e-3
            ), text


@pytest.mark.parametrize(("asked", "where"), [case[:2] for case in NARROWED])
def test_a_narrowed_range_has_less_noise_and_no_wider_answer_stands_for_it(
    engines: list[DuckDB], asked: str, where: str
) -> None:
    """Stored answers are compared by the half-widths that they really have."""
    plan = question(engines[0], engines[0]._policy, f"SELECT {asked} FROM people {where}").query.plan
    narrowed = share_measures(plan).parts[0].plan
    declared = replace(narrowed, measures=tuple(map(_declared, narrowed.measures)))
    now, before = (
        price_release(candidate_bounded_plans(measured, plan.limits, 1), Price(1)) for measured in (narrowed, declared)
    )
    assert all(
        required <= stored
        for stored, required in zip(before.compared_half_widths, now.compared_half_widths, strict=True)
    )
    assert now.half_widths() < before.half_widths()


def _declared(measure: object) -> object:
    members = tuple(
        (Sum if isinstance(member, Sum) else Mean)(member.value, member.where)
        if isinstance(member, (Sum, Mean))
        else member
        for member in members_of(measure)  # type: ignore[arg-type]
    )
    return replace(measure, members=members) if len(members) > 1 else members[0]  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("asked", "where", "within"),
    [
        ("SUM(age)", "", None),
        ("SUM(age)", "WHERE cost < 10", None),
        ("SUM(age)", "WHERE NOT age > 50", None),
        ("SUM(age)", "WHERE age <= 50 OR urgent", None),
        ("SUM(age)", "WHERE age = 50", None),
        ("SUM(age)", "WHERE age < 50", (0, 49)),
        ("SUM(CASE WHEN age < 50 THEN age ELSE 0 END), COUNT(*)", "", (0, 49)),
        ("AVG(cost)", "WHERE cost < 100", (0, 100)),
        ("AVG(age)", "WHERE age >= 95", (95, 110)),
        ("SUM(age), COUNT(age)", "WHERE age >= 95", None),
        ("SUM(age), COUNT(age), AVG(age)", "WHERE age >= 95", None),
        ("SUM(age), COUNT(age)", "WHERE age BETWEEN 40 AND 50", (0, 50)),
    ],
)
def test_only_what_conditions_imply_narrows_a_range(asked: str, where: str, within: tuple[int, int] | None) -> None:
    members = share_measures(parse(f"SELECT {asked} FROM visits {where}", CATALOG).plan).parts[0].members
    narrowed = {getattr(member, "within", None) for member in members if isinstance(member, (Sum, Mean))}
    assert narrowed == {within}
