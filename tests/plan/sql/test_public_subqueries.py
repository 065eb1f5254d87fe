"""A subquery over a public table means the values it has: the plan is that of the question with them written out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.canonical import digest
from sfumato.plan.sql.statements import parse

PLACES = {
    "town": ["Ulm", "Bonn", "Kiel", None],
    "size": [10, 20, None, 5],
    "height": [0.5, -1.25, 3.0, None],
    "since": [dt.date(2020, 1, 1), dt.date(2021, 5, 6), None, None],
    "open": [True, False, True, None],
}
COLUMNS = {
    "age": {"type": "integer", "bounds": [0, 99]},
    "home": {"values": ["Ulm", "Bonn", "Kiel"]},
    "born": {"type": "date", "bounds": ["2000-01-01", "2024-12-31"]},
    "weight": {"type": "real", "bounds": [-9, 9]},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    people = pa.table(
        {
            "who": pa.array([1], pa.int64()),
            "age": [5],
            "home": ["Ulm"],
            "born": [dt.date(2020, 1, 1)],
            "weight": [1.5],
        }
    )
    tables = {
        "people": sf.Table("people", people, COLUMNS, id="who", max_rows=2),
        "places": sf.Table("places", pa.table(PLACES), public=True),
    }
    opened = DuckDB(sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1), tables))
    yield opened
    opened.close()


def plan(engine: DuckDB, where: str) -> str:
    return digest(parse(f"SELECT COUNT(*) FROM people p WHERE {where}", engine.catalog()).plan)


SAME = {
    "age > (SELECT MAX(size) FROM places)": "age > 20",
    "age > (SELECT MIN(size) FROM places WHERE open)": "age > 10",
    "age > (SELECT COUNT(*) FROM places)": "age > 4",
    "age > (SELECT COUNT(size) FROM places q WHERE q.size < 20)": "age > 2",
    "age > (SELECT COUNT(DISTINCT open) FROM places)": "age > 2",
    "age > (SELECT SUM(size) FROM places)": "age > 35",
    "weight > (SELECT AVG(height) FROM places)": "weight > 0.75",
    "weight > (SELECT MIN(height) FROM places)": "weight > (-1.25)",
    "born >= (SELECT MIN(since) FROM places)": "born >= DATE '2020-01-01'",
    "home = (SELECT town FROM places WHERE size = 20)": "home = 'Bonn'",
    "home = (SELECT town FROM places WHERE size = 99)": "home = NULL",
    "age > 2 * (SELECT size FROM places WHERE UPPER(town) = 'ULM') + 1": "age > 2 * 10 + 1",
    "home IN (SELECT town FROM places)": "home IN ('Bonn', 'Kiel', 'Ulm')",
    "home IN (SELECT MIN(town) FROM places)": "home = 'Bonn'",
    "home NOT IN (SELECT town FROM places WHERE open)": "home NOT IN ('Kiel', 'Ulm')",
    "home IN (SELECT town FROM places WHERE size > (SELECT AVG(size) FROM places))": "home IN ('Bonn')",
    "home IN (SELECT town FROM places WHERE size > 99) OR age > 5": "FALSE OR age > 5",
    "EXISTS (SELECT 1 FROM places q WHERE q.town = p.home AND q.size > 10)": "COALESCE(p.home IN ('Bonn'), FALSE)",
    "NOT EXISTS (SELECT * FROM places WHERE p.home = town)": ("NOT COALESCE(p.home IN ('Bonn', 'Kiel', 'Ulm'), FALSE)"),
    "EXISTS (SELECT 1 FROM places WHERE size > 10) AND age > 5": "TRUE AND age > 5",
    "CASE WHEN home IN (SELECT town FROM places WHERE open) THEN TRUE ELSE age > 5 END": (
        "CASE WHEN home IN ('Kiel', 'Ulm') THEN TRUE ELSE age > 5 END"
    ),
}


@pytest.mark.parametrize(("asked", "written"), SAME.items(), ids=SAME)
def test_a_subquery_is_its_values(engine: DuckDB, asked: str, written: str) -> None:
    assert plan(engine, asked) == plan(engine, written)


REFUSED = {
    "age > (SELECT size FROM places)": ("subquery-rows", "age > (SELECT MIN(size) FROM places)"),
    "home = (SELECT town FROM places ORDER BY size LIMIT 1)": ("public-subquery", "home = 'Ulm'"),
    "home IN (SELECT town, size FROM places)": ("public-subquery", "home IN (SELECT town FROM places)"),
    "age > (SELECT SUM(town) FROM places)": ("type-mismatch", "age > (SELECT COUNT(town) FROM places)"),
    "age > (SELECT sizes FROM places)": ("unknown-column", "age > (SELECT MAX(size) FROM places)"),
    "age > (SELECT size FROM places WHERE town = p.home)": ("public-subquery", "age > (SELECT MAX(size) FROM places)"),
    "age > (SELECT AVG(age) FROM people q WHERE q.home = p.home)": (
        "subquery-value",
        "age > (SELECT AVG(age) FROM people)",
    ),
    "EXISTS (SELECT 1 FROM places WHERE size > p.age)": ("public-subquery", "EXISTS (SELECT 1 FROM places)"),
}


@pytest.mark.parametrize(("asked", "refused"), REFUSED.items(), ids=REFUSED)
def test_others_are_refused(engine: DuckDB, asked: str, refused: tuple[str, str]) -> None:
    with pytest.raises(sf.Unsupported) as found:
        plan(engine, asked)
    assert found.value.code == refused[0]
    assert found.value.fix
    assert plan(engine, refused[1])


def test_no_private_row_is_read_for_free(engine: DuckDB) -> None:
    with pytest.raises(
        sf.InvalidParameter, match="a public table, because counting the rows of a private one is never free"
    ):
        engine.catalog().public_values("people", sf_column(engine), None)


def sf_column(engine: DuckDB) -> object:
    return next(iter(parse("SELECT COUNT(*) FROM people GROUP BY age", engine.catalog()).plan.keys))
