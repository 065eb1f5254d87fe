"""PostgreSQL means what DuckDB means: functions value by value, and random plans to the last whole number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from engine.hostile_functions import batches, compared_rows, hostile_columns, with_columns
from engine.lowered import TYPES, selected
from engine.lowering.test_row_lowering import DOMAINS
from engine.on_postgres import Sessions
from engine.random_plans import EVERY, equal_plans, equal_towns
from postgres_server import PostgresServer
from safety.test_towns import ACROSS, PERIODS, TREES
from sfumato.engine import self_test
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.spellings.duckdb import DuckDBSpelling, quote_identifier as quoted
from sfumato.engine.spellings.postgres import TYPES as POSTGRES_TYPES, PostgresSpelling
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.policy import Type


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


# Functions, value by value


@pytest.fixture(scope="module")
def hostile(sessions: Sessions) -> Iterator[tuple[duckdb.DuckDBPyConnection, Sessions, str]]:
    """The same tables of hostile values on both: one column each, in as many slots as a function has arguments."""
    schema = sessions.schema()
    with duckdb.connect() as duck:
        for column, domain, values in hostile_columns(duck):
            sessions.run(f'CREATE TABLE {schema}."{column}" ("{column}" {POSTGRES_TYPES[domain.type]})')
            with sessions.session.cursor().copy(f'COPY {schema}."{column}" FROM STDIN') as copy:  # type: ignore[call-overload]
                for value in values:
                    copy.write_row((value,))
        yield duck, sessions, schema


def _compared(hostile: tuple[duckdb.DuckDBPyConnection, Sessions, str], most_tables: int, share: int) -> int:
    """How many values were compared."""
    duck, sessions, schema = hostile
    sessions.run("SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'")
    spelling, compared = PostgresSpelling('"C.utf8"'), 0
    for tables, part in batches(most_tables, share, 30):
        source = ", ".join(f"{schema}.{table}" for table in tables)
        shown = ", ".join(
            f'{table} COLLATE "C" AS {table}' if DOMAINS[table[1:-2]].type is Type.TEXT else table for table in tables
        )
        nodes = with_columns(part)
        theirs = selected(nodes, f"(SELECT {shown} FROM {source})" if tables else "(SELECT 1)", spelling)
        ours = selected(nodes, f"(SELECT * FROM {', '.join(tables)})" if tables else "(SELECT 1)")
        found = sessions.session.execute(theirs.encode()).fetchall()
        compared += compared_rows(part, duck.execute(ours).fetchall(), found)
    return compared


def test_functions_mean_the_same_on_hostile_values(
    hostile: tuple[duckdb.DuckDBPyConnection, Sessions, str],
) -> None:
    assert _compared(hostile, 2, 24) > 15_000


@pytest.mark.long
def test_every_function_means_the_same_in_every_place(
    hostile: tuple[duckdb.DuckDBPyConnection, Sessions, str],
) -> None:
    assert _compared(hostile, 3, 1) > 372_000


# Random plans, to the last whole number


def test_orders_agree_on_rows_that_tie(sessions: Sessions) -> None:
    """Which place in one order goes with which in another is decided once for rows that are equal in both."""
    inner = (
        "SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY cost DESC) AS v FROM people WHERE SQRT(cost) > 1 "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) <= 2"
    )
    assert equal_plans(sessions, 100, 0, EVERY, f"SELECT COUNT(DISTINCT who), AVG(v) FROM ({inner}) AS t") >= 3


def test_random_plans_have_equal_totals(sessions: Sessions) -> None:
    """Fifty plans and more, and four with keys that are found."""
    assert sum(equal_plans(sessions, seed, 18, 2, found=2) for seed in (100, 102)) >= 50


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_plans_have_equal_totals(sessions: Sessions, part: int) -> None:
    """3,000 and more bounded plans in all, in every bounding."""
    assert sum(equal_plans(sessions, 1000 + 10 * part + seed, 15, EVERY, found=2) for seed in range(10)) > 270


@pytest.mark.parametrize("every", [None, "week"])
def test_tables_that_meet_have_equal_totals(sessions: Sessions, every: str | None) -> None:
    texts = PERIODS[every] if every else (*ACROSS, *TREES)[::4]
    assert equal_towns(sessions, 5, every, texts) >= 2 * len(texts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [None, "day", "week"])
def test_many_tables_that_meet(sessions: Sessions, every: str | None, seed: int) -> None:
    texts = PERIODS[every] if every else (*ACROSS, *TREES)
    assert equal_towns(sessions, seed, every, texts) >= 2 * len(texts)


# Spellings prove themselves


def _in_duckdb(table: PublicRows, carried: list[object]) -> str:
    columns = []
    for column, kind, values in zip(table.names, table.kinds, table.columns, strict=True):
        carried.append(list(values))
        columns.append(f"unnest(CAST(${len(carried)} AS {TYPES[kind]}[])) AS {quoted(column)}")
    return f"(SELECT {', '.join(columns)})"


@cache
def _duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _run(statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    return _duck().execute(statement, parameters).fetchall()


def test_what_is_proved_of_a_server_holds_of_duckdb_too() -> None:
    self_test.require_correct_results(self_test.Dialect(DuckDBSpelling(), _in_duckdb, _run), "here")
    assert self_test.wrong_case_functions(DuckDBSpelling(), _in_duckdb, _run) == []


@pytest.mark.parametrize(
    ("function", "broken", "told"),
    [
        ("round_half_away", lambda x: f"round_even({x}, 0)", "ROUND"),
        ("divide_integers", lambda x, y: f"CAST(floor({x} / {y}) AS BIGINT)", "//"),
        ("like", lambda x, pattern: f"({x} LIKE '{pattern}' ESCAPE '\\')", "LIKE"),
        (
            "least",
            lambda *xs: f"CASE WHEN {' AND '.join(f'{x} IS NOT NULL' for x in xs)} THEN LEAST({', '.join(xs)}) END",
            "LEAST",
        ),
        ("part", lambda x, part: f"CAST(date_part('{part}', {x}) + ({part == 'dow'})::INT AS BIGINT)", "EXTRACT(dow)"),
        ("read", lambda x, kind: f"TRY_CAST({x} AS {TYPES[kind]})", "CAST to a time"),
        ("seconds", lambda x: f"CAST(epoch({x}) + 62135596800 AS BIGINT)", "seconds of a time"),
        ("slice", lambda x, *_: f"nonsense({x})", "SUBSTR"),
        ("sum_as_wide_integer", lambda x, over: f"CAST(SUM({x}){over} AS BIGINT)", "a SUM beyond 64 bits"),
        ("sum_as_wide_integer", lambda x, over: f"SUM(CAST({x} AS DOUBLE)){over}", "SUM"),
        ("narrow_sum", lambda x, over: f"CAST(SUM({x}){over} AS BIGINT)", "a SUM of cells beyond 64 bits"),
        ("narrow_sum", lambda x, over: f"SUM(CAST({x} AS DOUBLE)){over}", "a SUM of cells"),
        ("fingerprint", lambda x: f"CAST('0x' || left(md5({x}), 14) AS BIGINT)", "MD5"),
        ("fingerprint", lambda x: f"CAST(hash({x}) >> 4 AS BIGINT)", "MD5"),
        ("ordinal", lambda x, *_: f"CAST(enum_code({x}) AS BIGINT)", "the position of a text in a list"),
        ("unit_text", lambda x: f"(CAST({x} AS VARCHAR) || '.0')", "the conversion of a unit's id to text"),
    ],
)
def test_a_server_that_computes_otherwise_is_refused_by_the_functions_name(
    monkeypatch: pytest.MonkeyPatch, function: str, broken: Any, told: str
) -> None:
    monkeypatch.setattr(DuckDBSpelling, function, lambda _, *parts: broken(*parts))

    def run(statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        try:
            return _run(statement, parameters)
        except duckdb.Error:
            raise EngineFailed from None

    with pytest.raises(InvalidPolicy) as refusal:
        self_test.require_correct_results(self_test.Dialect(DuckDBSpelling(), _in_duckdb, run), "tables.t.source")
    assert f"computes {told}" in str(refusal.value)
