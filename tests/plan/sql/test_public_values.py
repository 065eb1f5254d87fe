"""IN and EXISTS over public tables keep the rows that plain DuckDB keeps, but that a NULL empties no NOT IN."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse

ROWS = pa.table({"id": ["a", "a", "b", "c"], "x": [1, 2, 3, None], "d": ["u", "v", "w", "u"]})
PLACES = pa.table({"k": ["u", "v", None], "kind": ["p", "q", "q"], "low": [2, 3, 1], "half": [1.5, 2.0, None]})
COLUMNS = {
    "x": sf.Domain("integer", bounds=(0, 10), nullable=True),
    "d": sf.Domain("text", values=("u", "v", "w")),
    "id": sf.Domain("text"),
}


@cache
def engine() -> DuckDB:
    return engine_with(PLACES)


def engine_with(places: pa.Table) -> DuckDB:
    tables = {
        "t": sf.Table("t", ROWS, COLUMNS, id="id", max_rows=3, max_groups=3),
        "p": sf.Table("p", places, public=True),
    }
    return DuckDB(sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1), tables))


def exact_count(opened: DuckDB, text: str) -> int:
    """Return the count before noise, with limits that cut nothing."""
    plan = parse(text, opened.catalog()).plan
    bounded = next(
        way for way in candidate_bounded_plans(plan, ContributionLimits(3, 3, 3), 1) if way.strategy is Strategy.SAMPLE
    )
    return int(opened.read(GroupTotals(bounded, ((),)), 0)[0][0])


TESTS = [
    "d IN (SELECT k FROM p)",
    "d NOT IN (SELECT k FROM p)",
    "d NOT IN (SELECT k FROM p WHERE k IS NOT NULL)",
    "EXISTS (SELECT 1 FROM p WHERE p.k = t.d)",
    "NOT EXISTS (SELECT * FROM p WHERE k = d AND kind = 'q')",
    "x = 3 OR d IN (SELECT k FROM p WHERE kind = 'p')",
    "NOT EXISTS (SELECT 1 FROM p WHERE p.low = t.x)",
    "x IN (SELECT low FROM p WHERE low > 100)",
    "x NOT IN (SELECT low FROM p WHERE low > 100)",
    "x IN (SELECT half FROM p)",
    "x IN (SELECT low + 1 FROM p WHERE half > 1)",
    "CASE WHEN d IN (SELECT DISTINCT k FROM p) THEN x > 1 ELSE TRUE END",
    "id IN (SELECT id FROM t WHERE d IN (SELECT k FROM p WHERE kind = 'q'))",
]


@pytest.mark.parametrize("test", TESTS)
def test_rows_are_kept_as_duckdb_keeps_them(test: str) -> None:
    plain = duckdb.connect()
    plain.register("t", ROWS)
    plain.register("p", PLACES)
    present = test.replace("NOT IN (SELECT k FROM p)", "NOT IN (SELECT k FROM p WHERE k IS NOT NULL)")
    (expected,) = plain.execute(f"SELECT count(*) FROM t WHERE {present}").fetchone() or ()
    assert exact_count(engine(), f"SELECT COUNT(*) AS n FROM t WHERE {test}") == expected


def test_a_changed_public_table_makes_another_plan() -> None:
    text = "SELECT COUNT(*) AS n FROM t WHERE d IN (SELECT k FROM p WHERE kind = 'p')"
    renamed = PLACES.set_column(0, "k", pa.array(["w", "v", None]))
    assert (
        parse(text, engine().catalog()).plan == parse(text.replace("SELECT k", "SELECT p.k"), engine().catalog()).plan
    )
    assert parse(text, engine().catalog()).plan != parse(text, engine_with(renamed).catalog()).plan


def test_a_common_table_expression_hides_a_public_table_of_its_name() -> None:
    text = "WITH p AS (SELECT id, x FROM t) SELECT COUNT(*) AS n FROM t WHERE id IN (SELECT id FROM p WHERE x > 1)"
    assert exact_count(engine(), text) == 3
