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
from engine.on_mariadb import Sessions, storable
from engine.random_plans import EVERY, equal_plans, equal_towns
from mariadb_server import MariaDBServer
from safety.test_towns import ACROSS, PERIODS, TREES
from sfumato.engine import self_test
from sfumato.engine.mariadb import connection
from sfumato.engine.mariadb.connection import MariaDBSessions
from sfumato.engine.mariadb.driver import carried_scan, dialect
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.spellings.mariadb import COLLATION, MariaDBSpelling
from sfumato.errors import InvalidPolicy, Unsupported
from sfumato.plan.values import grammars
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
LETTERS = "uca1400_nopad_as_cs"
Hostile = tuple[duckdb.DuckDBPyConnection, MariaDBSessions, str]


@pytest.fixture(scope="module")
def hostile(sessions: Sessions) -> Iterator[Hostile]:
    """The same tables of hostile values on both: one column each, in as many slots as a function has arguments."""
    database = sessions.database()
    with (
        duckdb.connect() as duck,
        closing(MariaDBSessions(sessions.server.address(database, database), "here")) as server,
    ):
        for column, domain, values in hostile_columns(duck):
            sessions.run(f'CREATE TABLE {database}."{column}" ("{column}" {_STORED[domain.type]})')
            with sessions.session.cursor() as cursor:
                cursor.executemany(
                    f'INSERT INTO {database}."{column}" VALUES (%s)', [(storable(value),) for value in values]
                )
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
    spelling, compared = MariaDBSpelling(LETTERS), 0
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
    assert _compared(hostile, 1, 1) > 5_000


@pytest.mark.long
def test_every_function_means_the_same_in_every_place(hostile: Hostile) -> None:
    assert _compared(hostile, 3, 1) > 300_000


@pytest.mark.long
def test_letters_turn_as_they_are_defined(hostile: Hostile) -> None:
    """Every letter that any table changes the case of, one by one."""
    _, server, _ = hostile
    cased = [each for each in map(chr, range(1, 0x20000)) if not 0xD800 <= ord(each) < 0xE000 and each.isprintable()]
    letters = [each for each in cased if {each.lower(), each.upper(), each.title()} != {each}]
    rows = PublicRows(("t",), (Type.TEXT,), (letters,))
    spelling = MariaDBSpelling(LETTERS)
    found = server.run(f"SELECT t, {spelling.lower('t')}, {spelling.upper('t')} FROM {carried_scan(rows, [])} AS q")
    wrong = [row for row in found if row[1:] != (grammars.lower(row[0]), grammars.upper(row[0]))]
    assert not wrong, wrong


# Random plans, to the last whole number


def test_random_plans_have_equal_totals(sessions: Sessions) -> None:
    """Fifty plans and more, and four with keys that are found."""
    assert sum(equal_plans(sessions, seed, 18, 2, found=2) for seed in (100, 102)) >= 50


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_plans_have_equal_totals(sessions: Sessions, part: int) -> None:
    """3,000 and more bounded plans in all, in every bounding."""
    seeds = range(1000 + 10 * part, 1010 + 10 * part)
    assert sum(equal_plans(sessions, seed, 15, EVERY, found=2) for seed in seeds) > 270


@pytest.mark.parametrize("every", [None, "week"])
def test_tables_that_meet_have_equal_totals(sessions: Sessions, every: str | None) -> None:
    texts = PERIODS[every] if every else (*ACROSS, *TREES)[::8]
    assert equal_towns(sessions, 5, every, texts) >= 2 * len(texts)


# The server proves itself


def test_the_server_proves_every_function(hostile: Hostile) -> None:
    _, server, _ = hostile
    self_test.require_correct_results(dialect(MariaDBSpelling(LETTERS), server.run), "here")
    assert not self_test.wrong_case_functions(MariaDBSpelling(LETTERS), carried_scan, server.run)


@pytest.mark.parametrize(
    ("function", "broken", "told"),
    [
        ("round_half_away", lambda x: f"CAST(ROUND({x}, 0) AS DOUBLE)", "ROUND"),
        ("floor", lambda x: f"FLOOR({x})", "FLOOR"),
        ("divide_wide_integers", lambda x, y: f"({x} DIV {y})", "// beyond 64 bits"),
        ("least", lambda *xs: f"LEAST({', '.join(xs)})", "LEAST"),
        ("like", lambda x, _: f"({x} LIKE '%')", "LIKE"),
        ("sort_key", lambda x, descending, _: f"{x}{' DESC' if descending else ''}", "ORDER BY of texts"),
        ("timestamp_text", lambda x: f"CAST({x} AS CHAR)", "CAST of a time to text"),
        ("seconds", lambda x: f"TO_SECONDS({x})", "seconds of a time"),
    ],
)
def test_a_server_that_computes_otherwise_is_refused_by_the_functions_name(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, function: str, broken: Any, told: str
) -> None:
    _, server, _ = hostile
    monkeypatch.setattr(MariaDBSpelling, function, staticmethod(broken))
    cases = [case for case in self_test.cases() if case.name in (told, "SUM", "COUNT in a window")]
    assert self_test.wrong_row_case(dialect(MariaDBSpelling(), server.run), cases) == told


@pytest.mark.parametrize(
    ("setting", "value"),
    [("collation_connection", "utf8mb4_general_ci"), ("sql_mode", "''"), ("time_zone", "'+09:00'")],
)
def test_other_settings_are_not_taken_for_ours(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    """What a server would compute under its own settings differs: so they are set, and seen to differ otherwise."""
    database = sessions.database()
    address = sessions.server.address(database, database)
    shown = f"SELECT @@{setting}"
    with closing(MariaDBSessions(address, "here")) as server:
        ours = server.run(shown)
    monkeypatch.setitem(connection._SETTINGS, setting, value)
    with closing(MariaDBSessions(address, "here")) as server:
        assert server.run(shown) != ours
        if setting != "time_zone":
            with pytest.raises(InvalidPolicy, match="differently"):
                self_test.require_correct_results(dialect(MariaDBSpelling(), server.run), "here")
