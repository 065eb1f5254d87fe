"""A scan of some columns has the rows of the whole scan, whichever columns are read."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, combinations
from typing import Any

import pyarrow as pa
import pytest

from engine.duckdb.test_owners import DRUGS, VISITS, family
from postgres_server import PostgresServer
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 1), None, dt.date(2024, 1, 2), dt.date(2024, 1, 2)]
COLUMNS = {
    "n": {"type": "integer", "bounds": [0, 2]},
    "far": {"type": "real", "bounds": [0, 1]},
    "word": {"values": ["a", "b"], "other": "b"},
    "tags": {"values": ["x", "y"], "most_items": 2},
    "day": {"type": "date"},
}
ROWS = pa.table(
    {
        "who": [1, 1, 2, 3, None],
        "n": [-5, 1, None, 7, 2],
        "far": [0.5, float("nan"), float("inf"), None, -1.0],
        "word": ["a", "c", None, "b", "a"],
        "tags": [["x", "z", "y"], [], None, ["y"], ["x"]],
        "day": DAYS,
    }
)


def policies() -> dict[str, Policy]:
    """Every way that rows belong to units: by an id, by themselves, in a period, and through other tables."""
    person, period = PrivacyUnit("person"), PrivacyUnit("person", period="day", period_column="day")
    made = {
        name: Policy(unit, Budget(1), {"t": Table("t", ROWS, COLUMNS, id=id_column, **limits)})
        for name, unit, id_column, limits in (
            ("id", person, "who", {"max_rows": 2}),
            ("row", PrivacyUnit("row", every_row=True), "row", {}),
            ("period", period, "who", {"max_rows": 2}),
        )
    }
    chain_of_tables = family(VISITS, DRUGS, pa.table({"of": [1, 3, 3, None], "n": [5, 6, 7, 8]}))
    return {**made, "via": chain_of_tables}


def subsets(columns: list[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(columns, size) for size in range(len(columns) + 1))


def counted(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.parametrize("name", ["id", "row", "period", "via"])
def test_some_columns_have_the_rows_of_all(name: str) -> None:
    policy = policies()[name]
    with Sources(policy, threads=1) as sources:
        for table, declared in policy.tables.items():
            unit = () if declared.every_row else ("sf_unit",)
            for columns in subsets([*declared.columns, *declared.lists]):
                read = ", ".join((*columns, *unit)) or "1"
                whole = sources.run(f"SELECT {read} FROM {sources.scan(table)}")
                narrow = sources.run(f"SELECT {read} FROM {sources.narrow_scan(table, columns)} AS r")
                assert whole
                assert counted(narrow) == counted(whole), columns


@pytest.mark.parametrize("name", ["id", "row", "period", "via"])
def test_some_columns_have_the_rows_of_all_on_postgresql(name: str, postgres: PostgresServer) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")
    from engine.on_postgres import Sessions

    policy = policies()[name]
    with closing(Sessions(postgres)) as sessions, closing(sessions.engine(policy)) as engine:
        for table, declared in policy.tables.items():
            unit = () if declared.every_row else ("sf_unit",)
            for columns in subsets([*declared.columns, *declared.lists]):
                read = ", ".join((*columns, *unit)) or "1"
                whole = sessions.run(f"SELECT {read} FROM ({engine.scans.text(table)}) AS r")
                narrow = sessions.run(f"SELECT {read} FROM ({engine.scans.text(table, columns)}) AS r")
                assert whole
                assert counted(narrow) == counted(whole), columns


def test_a_statement_reads_no_other_column() -> None:
    """The time to bind a view grows with its width; a join reads the compared columns too."""
    bands = Table("bands", pa.table({"least": [0, 1], "most": [1, 9], "label": ["low", "high"]}), public=True)
    table = Table("t", ROWS, COLUMNS, id="who", max_rows=2)
    policy = Policy(PrivacyUnit("person"), Budget(1), {"t": table, "bands": bands})
    text = "SELECT COUNT(*) FROM t JOIN bands ON t.n = bands.least WHERE t.far > 0.2 AND bands.label = 'low'"
    with closing(DuckDB(policy)) as engine:
        plan = parse(text, engine.catalog()).plan
        for bounded in candidate_bounded_plans(plan, ContributionLimits.from_table(table), 1):
            engine.read(GroupTotals(bounded, ((),)), 1)
            statement = engine.sources.statements[-1]
            assert '"word"' not in statement
            assert '"most"' not in statement
            assert '"far"' in statement
            assert '"least"' in statement
