"""IN and EXISTS over public tables: the answers of plain DuckDB, plans that hold the values, and what is refused."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan.bounding import bounding_strategies
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import public_subqueries
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
    bounded = next(way for way in bounding_strategies(plan, Limits(3, 3, 3), 1) if way.strategy is Strategy.SAMPLE)
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
    (expected,) = plain.execute(f"SELECT count(*) FROM t WHERE {test}").fetchone() or ()
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


def test_a_list_may_have_as_many_values_as_the_limit_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_subqueries, "MAX_PUBLIC_VALUES", 3)
    text = "SELECT COUNT(*) AS n FROM t WHERE x IN (SELECT low FROM p)"
    assert exact_count(engine(), text) == 3
    longer = pa.concat_tables([PLACES, PLACES.set_column(2, "low", pa.array([4, 4, 4]))])
    with pytest.raises(Unsupported, match="at most 3 values") as refused:
        parse(text, engine_with(longer).catalog())
    assert refused.value.code == "public-subquery"


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("(d, x) IN (SELECT k, low FROM p)", "public-subquery"),
        ("EXISTS (SELECT 1 FROM p WHERE p.low < t.x)", "public-subquery"),
        ("EXISTS (SELECT 1 FROM p)", "public-subquery"),
        ("d IN (SELECT nothing FROM p)", "public-subquery"),
        ("x IN (SELECT random() FROM p)", "random"),
        ("x IN (SELECT k FROM p)", "type-mismatch"),
    ],
)
def test_what_is_no_list_of_public_values_is_refused(test: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(f"SELECT COUNT(*) AS n FROM t WHERE {test}", engine().catalog())
    assert refused.value.code == code
