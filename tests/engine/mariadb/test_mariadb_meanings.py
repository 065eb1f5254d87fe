"""MariaDB means what DuckDB means: functions value by value, and random plans to the last whole number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")

from engine.hostile_functions import batches, compared_rows, hostile_columns, with_columns
from engine.lowered import selected
from engine.lowering.test_row_lowering import DOMAINS
from engine.on_mariadb import Sessions, storable
from engine.random_plans import EVERY, equal_plans, equal_towns
from mariadb_server import MariaDBServer
from safety.test_towns import ACROSS, PERIODS, TREES
from sfumato.engine import self_test
from sfumato.engine.mariadb.connection import MariaDBSessions
from sfumato.engine.mariadb.driver import dialect
from sfumato.engine.spellings.mariadb import COLLATION, MariaDBSpelling, quote_identifier
from sfumato.errors import InvalidPolicy, Unsupported
from sfumato.policy import Type


@pytest.fixture(scope="module")
def sessions(mariadb: MariaDBServer) -> Iterator[Sessions]:
    made = Sessions(mariadb)
    yield made
    made.close()


# Functions, value by value

_STORED = {
    Type.INTEGER: "bigint",
    Type.REAL: "double",
    Type.TEXT: f"varchar(2000) COLLATE {COLLATION}",
    Type.BOOLEAN: "boolean",
    Type.DATE: "date",
    Type.TIMESTAMP: "datetime(6)",
}
Hostile = tuple[duckdb.DuckDBPyConnection, MariaDBSessions, str]


@pytest.fixture(scope="module")
def hostile(sessions: Sessions) -> Iterator[Hostile]:
    """The same tables of hostile values on both: one column each, in as many slots as a function has arguments."""
    database = sessions.database()
    with duckdb.connect() as duck, closing(MariaDBSessions(sessions.server.address(database, database), "here")) as server:
        for column, domain, values in hostile_columns(duck):
            sessions.run(f'CREATE TABLE {database}."{column}" ("{column}" {_STORED[domain.type]})')
            with sessions.session.cursor() as cursor:
                cursor.executemany(f'INSERT INTO {database}."{column}" VALUES (%s)', [(storable(value),) for value in values])
        yield duck, server, database


def _spelled(part: list[Any], spelling: MariaDBSpelling) -> list[Any]:
    """The expressions that are not refused."""

    def is_spelled(node: Any) -> bool:
        try:
            selected([node], spelling=spelling)
        except Unsupported:
            return False
        return True

    return [each for each in part if is_spelled(each[1])]


def _compared(hostile: Hostile, most_tables: int, share: int) -> int:
    """How many values were compared."""
    duck, server, database = hostile
    spelling, compared = MariaDBSpelling("uca1400_nopad_as_cs"), 0
    for tables, batch in batches(most_tables, share, 30):
        part = _spelled(batch, spelling)
        source = ", ".join(f"{database}.{table}" for table in tables)
        nodes = with_columns(part)
        theirs = selected(nodes, f"(SELECT * FROM {source})" if tables else "(SELECT 1)", spelling)
        ours = selected(nodes, f"(SELECT * FROM {', '.join(tables)})" if tables else "(SELECT 1)")
        truths = {index for index, node in enumerate(nodes) if node.domain.type is Type.BOOLEAN}
        found = [
            tuple(bool(cell) if index in truths and cell is not None else cell for index, cell in enumerate(row))
            for row in server.run(theirs)
        ]
        compared += compared_rows(part, duck.execute(ours).fetchall(), found)
    return compared


def test_functions_mean_the_same_on_hostile_values(hostile: Hostile) -> None:
    assert _compared(hostile, 2, 48) > 10_000


@pytest.mark.long
def test_every_function_means_the_same_in_every_place(hostile: Hostile) -> None:
    assert _compared(hostile, 3, 1) > 300_000


# Random plans, to the last whole number


def test_random_plans_have_equal_totals(sessions: Sessions) -> None:
    """Three hundred plans, some with keys that are found."""
    assert sum(equal_plans(sessions, seed, 32, 2, found=3, refusing=True) for seed in range(100, 106)) >= 300


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_plans_have_equal_totals(sessions: Sessions, part: int) -> None:
    """3,000 and more bounded plans in all, in every bounding."""
    seeds = range(1000 + 10 * part, 1010 + 10 * part)
    assert sum(equal_plans(sessions, seed, 15, EVERY, found=2, refusing=True) for seed in seeds) > 270


@pytest.mark.parametrize("every", [None, "week"])
def test_tables_that_meet_have_equal_totals(sessions: Sessions, every: str | None) -> None:
    texts = PERIODS[every] if every else (*ACROSS, *TREES)[::4]
    assert equal_towns(sessions, 5, every, texts) >= 2 * len(texts)
