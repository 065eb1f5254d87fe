"""What the owner is told equals what plain DuckDB counts in the same tables."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.tables import DATA, SOURCES, private
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.inspection import inspect_table

PEOPLE = pa.table(
    {
        "who": ["a", "a", "a", "a", "a", "b", "c", None],
        "age": [10, 200, -5, None, 30, 40, 50, 500],
        "ward": ["A", "B", "?", None, "A", "A", "?", "?"],
        "cost": [1.5, float("inf"), float("nan"), -1.0, 2.0, 3.0, 4.0, 9e9],
        "code": ["1", "x", "7", "5.5", "99999999999999999999", None, "3", "x"],
    }
)
COLUMNS = {
    "age": {"type": "integer", "bounds": [0, 110]},
    "ward": {"values": ["A", "B"]},
    "cost": {"type": "real", "bounds": [0, 5]},
    "code": {"type": "integer", "bounds": [0, 5]},
}


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "arrow"])
def test_every_cost_is_counted(kind: str, tmp_path: Path) -> None:
    relation = {"relation": "t"} if kind == "duckdb" else {}
    with Sources(private(SOURCES[kind](PEOPLE, tmp_path), COLUMNS, unit="who", **relation)) as sources:
        found = inspect_table(sources, "t")
    assert (found.rows, found.units, found.units_over_limit) == (8, 3, 1)
    assert (found.without_id, found.rows_over_limit) == (1 / 8, 2 / 7)
    costs = {name: tuple(round(share * 7) for share in vars(cost).values()) for name, cost in found.columns.items()}
    assert costs == {
        "age": (2, 0, 1, 1, 1, 0),
        "ward": (0, 2, 1, 0, 0, 0),
        "cost": (2, 1, 0, 1, 1, 0),
        "code": (2, 2, 1, 0, 1, 0),
    }


def test_rows_as_units_lose_none() -> None:
    with Sources(private(PEOPLE, {"age": {"type": "integer"}})) as sources:
        found = inspect_table(sources, "t")
    assert (found.rows, found.units, found.units_over_limit, found.without_id, found.rows_over_limit) == (8, 8, 0, 0, 0)


def test_an_empty_table_costs_nothing() -> None:
    with Sources(private(PEOPLE.slice(8), COLUMNS, unit="who")) as sources:
        found = inspect_table(sources, "t")
    assert (found.rows, found.units, found.rows_over_limit, found.columns["age"].clamped) == (0, 0, 0, 0)


def test_real_flights_agree_with_plain_sql() -> None:
    path = DATA / "flights" / "flights.parquet"
    columns = {"dep_delay": {"type": "integer", "bounds": [-10, 60]}, "origin": {"values": ["JFK", "LGA"]}}
    with Sources(private(path, columns, unit="tailnum")) as sources:
        found = inspect_table(sources, "t")
    kept = f"FROM '{path}' WHERE tailnum IS NOT NULL"
    clamped, nulled, counted = duckdb.sql(
        f"SELECT count_if(dep_delay NOT BETWEEN -10 AND 60), count_if(origin = 'EWR'), count(*) {kept}"
    ).fetchall()[0]
    units, beyond = duckdb.sql(
        f"SELECT count(*), sum(greatest(n - 3, 0)) FROM (SELECT count(*) AS n {kept} GROUP BY tailnum)"
    ).fetchall()[0]
    assert found.columns["dep_delay"].clamped == clamped / counted
    assert found.columns["origin"].nulled == nulled / counted
    assert (found.units, found.rows_over_limit) == (units, beyond / counted)
