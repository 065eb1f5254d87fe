"""Synthetic tables in the free database: who sees them, what answers, and that nothing is ever charged."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from server.postgres.raw_client import (
    SYNC,
    RawClient,
    bind,
    describe,
    errors_in,
    execute,
    fields_of,
    parse,
    query,
    rows_in,
    signed_in,
)
from server.postgres.wire_server import POLICY, WireServer, wire_server
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import SyntheticTables
from sfumato.server.people.users import Caller
from sfumato.server.postgres import synthetic_rows

PATIENTS = """
[tables.patients]
source = "patients.csv"
id = "patient"
max_rows = 1
[tables.patients.columns]
sex = {{ values = ["f", "m"] }}
"""
CODED = (
    POLICY.replace("bounds = [0, 110]", "bounds = [0, 110], bins = 11").replace("grid = 0.01", "grid = 0.01, bins = 5")
    + PATIENTS
)
ROWS_SPEC = {"table": "visits", "method": "independent", "ways": 1, "columns": ["region", "age", "cost"]}
LINKED_SPEC = {"tables": ["patients", "visits"], "ways": 1, "columns": ["visits.region"], "given": ["sex"]}


@dataclass
class Shop:
    """A server at which ana has bought one synthetic table, and olga two linked ones."""

    wire: WireServer
    table: str
    model: Synthetic
    linked: SyntheticTables
    parent: str
    child: str

    def open(self, user: str = "ana", **settings: str) -> Any:
        return signed_in(self.wire, user, database="clinic_published", **settings)

    def ask(self, sql: str, user: str = "ana") -> list[list[bytes | None]]:
        with self.open(user) as client:
            messages = client.ask(query(sql))
        assert errors_in(messages) == [], messages
        return rows_in(messages)


def buy(wire: WireServer, user: str, kind: str, spec: dict[str, Any]) -> tuple[int, Any]:
    released = wire.counter.release(caller(wire, user), "clinic", kind, spec, {"epsilon": "5"}, f"{user}-{kind}")
    return released.line, released.answer


def caller(wire: WireServer, user: str) -> Caller:
    return wire.counter.caller_of_token(wire.counter.people.tokens(user)[0].number, "tests")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("shop")
    (folder / "patients.csv").write_text(
        "patient,sex\n" + "".join(f"p{number},{'fm'[number % 2]}\n" for number in range(400))
    )
    with wire_server(folder, text=CODED) as wire:
        line, model = buy(wire, "ana", "synthesis", ROWS_SPEC)
        linked_line, linked = buy(wire, "olga", "linked", LINKED_SPEC)
        names = f"patients_synthetic_{linked_line}", f"visits_synthetic_{linked_line}"
        yield Shop(wire, f"visits_synthetic_{line}", model, linked, *names)


# ── who sees what ──────────────────────────────────────────────────────────────────────────────

LISTED = "SELECT relname FROM pg_catalog.pg_class WHERE relname LIKE '%synthetic%' ORDER BY 1"


def test_each_sees_what_rest_shows_them(shop: Shop) -> None:
    """Analysts see their own, owners and auditors all; to who does not see a table, it does not exist."""
    listed = {user: [row[0] for row in shop.ask(LISTED, user)] for user in ("ana", "ben", "olga", "otto")}
    every = sorted(name.encode() for name in (shop.table, shop.parent, shop.child))
    assert listed == {"ana": [shop.table.encode()], "ben": [], "olga": every, "otto": every}
    for user, name in {"ben": shop.table, "ana": shop.child}.items():
        with shop.open(user) as client:
            (told,) = (
                fields_of(each) for each in client.ask(query(f"SELECT * FROM {name} LIMIT 1")) if each[0] == b"E"
            )
            (never,) = (
                fields_of(each) for each in client.ask(query("SELECT * FROM no_such LIMIT 1")) if each[0] == b"E"
            )
        assert (told["C"], told["H"]) == (never["C"], never["H"]) == ("42P01", never["H"])
    assert shop.ask(f"SELECT COUNT(*) AS n FROM {shop.table}", "otto")


def test_the_database_that_costs_has_no_synthetic_tables(shop: Shop) -> None:
    with signed_in(shop.wire) as client:
        assert rows_in(client.ask(query(LISTED))) == []
        assert errors_in(client.ask(query(f"SELECT * FROM {shop.table} LIMIT 1"))) == ["42P01"]


def test_what_is_bought_or_withdrawn_meanwhile_is_seen_at_once(shop: Shop) -> None:
    """On one connection, without signing in again: ben buys a table, and is taken off the policy's list."""
    path = shop.wire.folder / "clinic.toml"
    before = path.read_text()
    with shop.open("ben") as client:
        assert rows_in(client.ask(query(LISTED))) == []
        line, _ = buy(shop.wire, "ben", "synthesis", {**ROWS_SPEC, "columns": ["region"]})
        name = f"visits_synthetic_{line}"
        assert rows_in(client.ask(query(LISTED))) == [[name.encode()]]
        assert len(rows_in(client.ask(query(f"SELECT * FROM {name} LIMIT 3")))) == 3
        path.write_text(before.replace("[analysts.ben]\nshare = 0.5\n", ""))
        try:
            for sql in (f"SELECT * FROM {name} LIMIT 3", f"SELECT COUNT(*) FROM {name}", LISTED):
                messages = client.ask(query(sql))
                assert errors_in(messages) == ["3D000"], sql
                assert rows_in(messages) == []
        finally:
            path.write_text(before)


# ── what answers ───────────────────────────────────────────────────────────────────────────────


def test_questions_are_answered_by_the_model_with_its_ranges(shop: Shop) -> None:
    """The same numbers and ranges as ``sql`` of the model that REST sends."""
    question = "SELECT region, COUNT(*) AS n FROM {} WHERE age < 40 GROUP BY region"
    before = shop.wire.charges()
    expected = shop.model.sql(question.format("visits"))
    low, high = zip(*expected.intervals["n"], strict=True)
    for name in (shop.table, f"public.{shop.table}", f'"clinic_published"."public"."{shop.table}"'):
        with shop.open() as client:
            messages = client.ask(query(question.format(name)))
        rows = [(row[0].decode(), *map(float, row[1:])) for row in rows_in(messages) if row[0] is not None]
        columns = zip(expected.column("region"), expected.column("n"), low, high, strict=True)
        assert rows == [(region, *map(float, numbers)) for region, *numbers in columns]
        assert b"n_low\0" in next(body for kind, body in messages if kind == b"T")
    assert shop.wire.charges() == before


def test_linked_tables_answer_by_their_models_and_joined(shop: Shop) -> None:
    question = "SELECT sex, COUNT(*) AS n FROM {1} AS v JOIN {0} AS p ON v.patient = p.patient GROUP BY sex"
    expected = shop.linked.sql(question.format("patients", "visits"))
    found = shop.ask(question.format(shop.parent, shop.child), "olga")
    assert [float(row[1] or 0) for row in found] == [float(n) for n in expected.column("n")]
    assert all(len(row) == 4 for row in found)
    children = shop.ask(f"SELECT COUNT(*) AS n FROM {shop.child}", "olga")
    assert float(children[0][0] or 0) == float(shop.linked.sql("SELECT COUNT(*) AS n FROM visits").rows[0][0])
    keys = f"SELECT c.patient FROM {shop.child} AS c LEFT JOIN {shop.parent} AS p USING (patient) WHERE p.sex IS NULL"
    assert shop.ask(keys, "olga") == []  # every child has its parent among the rows


def test_everything_else_is_computed_over_the_same_rows_each_time(shop: Shop) -> None:
    with shop.open() as client:
        messages = client.ask(query(f"SELECT * FROM {shop.table} LIMIT 20"))
    assert b"not over real ones" in next(body for kind, body in messages if kind == b"N")
    first = rows_in(messages)
    assert first == shop.ask(f"SELECT * FROM {shop.table} LIMIT 20", "olga")
    (row_count,) = shop.ask(f"SELECT COUNT(*) FROM (SELECT * FROM {shop.table}) AS t, (SELECT 1 AS one) AS o")[0]
    assert int(row_count or 0) == shop.model.default_rows
    extremes = shop.ask(f"SELECT MIN(age), MAX(age), COUNT(DISTINCT region) FROM {shop.table}")
    assert [int(each or -1) for each in extremes[0]][2] == 2
    joined = f"SELECT a.region, COUNT(*) FROM {shop.table} AS a JOIN {shop.table} AS b USING (age, region) GROUP BY 1"
    assert {row[0] for row in shop.ask(joined)} == {b"north", b"south"}
    across = f"SELECT COUNT(*) FROM {shop.table} AS a JOIN {shop.child} AS b ON a.region = b.region"
    assert int(shop.ask(across, "olga")[0][0] or 0) > 0


@pytest.mark.parametrize(
    ("sql", "width"),
    [
        ("SELECT region, COUNT(*) AS n FROM {} WHERE age > $1 GROUP BY region", 4),
        ("SELECT region, age FROM {} WHERE age > $1 LIMIT 5", 2),
        ("SELECT region, MAX(age) AS top FROM {} WHERE region = $1 GROUP BY region", 2),
    ],
)
def test_columns_are_the_same_whenever_they_are_described(shop: Shop, sql: str, width: int) -> None:
    """Of the statement, before parameters are known, of the portal, and of the rows."""
    value = b"40" if "age >" in sql else b"north"
    text = sql.format(shop.table)
    with shop.open() as client:
        sent = parse(text) + describe("S") + bind("", "", (value,)) + describe("P") + execute() + SYNC
        messages = client.ask(sent)
        assert errors_in(messages) == []
        of_statement, of_portal = (body for kind, body in messages if kind == b"T")
        assert of_statement[:2] == of_portal[:2] == struct.pack("!h", width)
        assert {len(row) for row in rows_in(messages)} == {width}


def test_an_outer_select_names_ranges(shop: Shop) -> None:
    """As a dashboard asks for error bars, of a synthetic table and of a synopsis; described and run alike."""
    shop.wire.counter.served.curator("clinic").marginals("visits", [["region"]]).release(epsilon=1)
    before = shop.wire.charges()
    for table in (shop.table, "visits"):
        question = f"SELECT region, COUNT(*) AS n FROM {table} GROUP BY region"
        expected = {row[0]: row[1:] for row in shop.ask(question)}
        bars = (
            f'SELECT region AS region, MAX(n) AS n, MAX(n_low) AS low, MAX(n_high) AS "high" FROM ({question}) AS '
            "virtual_table GROUP BY region ORDER BY n DESC LIMIT 1000"
        )
        assert {row[0]: row[1:] for row in shop.ask(bars)} == expected
        with shop.open() as client:
            messages = client.ask(parse(bars) + describe("S") + bind() + execute() + SYNC)
        assert errors_in(messages) == []
        assert next(body for kind, body in messages if kind == b"T")[:2] == struct.pack("!h", 4)
        with signed_in(shop.wire, sfumato__epsilon="0.1") as client:
            assert errors_in(client.ask(query(bars.replace(shop.table, "visits")))) == ["42703"]  # where it would cost
    assert shop.wire.charges() == before


SUPERSET = {
    "SELECT region AS region, COUNT(*) AS count \nFROM public.{} GROUP BY region ORDER BY count DESC \n LIMIT 1000": 2,
    "SELECT age AS age, COUNT(*) AS n \nFROM public.{} GROUP BY age \n LIMIT 3": 3,
    "SELECT region AS region, age AS age, cost AS cost \nFROM public.{} \n LIMIT 5": 5,
    "SELECT * \nFROM (SELECT region, COUNT(*) AS n FROM {} GROUP BY region\n) AS virtual_table \n LIMIT 1": 1,
    "SELECT min(age) AS age_min, max(age) AS age_max \nFROM public.{}": 1,
    "SELECT region AS region \nFROM public.{} GROUP BY region \n LIMIT 1000": 2,
}
"""What Superset 6.1 sent for charts, samples, a virtual data set and filters, with the number of rows."""


@pytest.mark.parametrize("sql", SUPERSET)
def test_statements_of_superset(shop: Shop, sql: str) -> None:
    assert len(shop.ask(sql.format(shop.table))) == SUPERSET[sql]


def test_the_number_of_the_connection(shop: Shop) -> None:
    with closing(psycopg.connect(**shop.wire.keywords())) as connection:
        assert connection.execute("SELECT pg_backend_pid()").fetchone() == (connection.info.backend_pid,)


def test_copy_and_binary_rows(shop: Shop) -> None:
    with closing(psycopg.connect(**shop.wire.keywords(database="clinic_published"))) as connection:
        with connection.cursor(binary=True) as cursor:
            rows = cursor.execute(f"SELECT * FROM {shop.table}").fetchall()
            assert len(rows) == shop.model.default_rows
            assert {type(cell) for cell in rows[0]} == {str, int, float}
        with connection.cursor() as cursor, cursor.copy(f"COPY {shop.table} TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8", "float8"])
            assert list(copy.rows()) == rows
        with connection.cursor() as cursor, cursor.copy(f"COPY {shop.table} TO STDOUT (FORMAT csv, HEADER)") as copy:
            lines = b"".join(copy).decode().splitlines()
        assert (lines[0], len(lines)) == ("region,age,cost", len(rows) + 1)
        with connection.cursor("named") as cursor:
            cursor.execute(f"SELECT age FROM {shop.table} WHERE age > %s", (40,))
            assert all(age > 40 for (age,) in cursor.fetchmany(10))


def test_catalog_and_explanations(shop: Shop) -> None:
    shown = shop.wire.psql(f"\\d+ {shop.table}", "\\dt+", database="clinic_published")
    assert "age|bigint" in shown
    assert "cost|double precision" in shown
    assert f"synthetic rows of visits, drawn from the model bought on line {shop.table[17:]} for ε = 5" in shown
    columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}' ORDER BY 1"
    assert shop.ask(columns.format(shop.table))[0] == [b"age", b"bigint"]
    assert "with ± ranges".encode() in (shop.ask(f"EXPLAIN SELECT COUNT(*) FROM {shop.table}")[0][0] or b"")
    assert "without ± ranges".encode() in (shop.ask(f"EXPLAIN SELECT * FROM {shop.table}")[0][0] or b"")


def test_two_free_statements_in_one_text(shop: Shop) -> None:
    with shop.open() as client:
        messages = client.ask(query(f"SELECT COUNT(*) FROM {shop.table}; SELECT * FROM {shop.table} LIMIT 2"))
        assert errors_in(messages) == []
        assert len(rows_in(messages)) == 3


# ── what is refused ────────────────────────────────────────────────────────────────────────────

HOSTILE = (
    "SELECT * FROM {t}, visits",
    "SELECT * FROM {t} WHERE age IN (SELECT age FROM visits)",
    "SELECT * FROM {t}, read_csv('/etc/passwd')",
    "SELECT read_text('/etc/passwd') FROM {t}",
    "SELECT getvariable('path') FROM {t}",
    "SELECT * FROM {t}, duckdb_settings()",
    "SELECT * FROM {t}, pg_class",
    "SELECT * FROM {t}, other.public.{t}",
    "SELECT * FROM {t} AS a, generate_series(1, 1000000000) AS g",
    "WITH RECURSIVE r AS (SELECT 1 AS n FROM {t} UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "WITH visits AS (SELECT * FROM {t}) SELECT * FROM public.visits",
    "SELECT nothing FROM {t}",
    'SELECT "age"" FROM visits; --" FROM {t}',
    "SELECT current_setting('search_path') FROM {t}",
    "SELECT * FROM {t} TABLESAMPLE BERNOULLI (10)",
    "SELECT pg_sleep(100) FROM {t}",
)


@pytest.mark.parametrize("sql", HOSTILE)
def test_hostile_statements_are_refused_in_words(shop: Shop, sql: str) -> None:
    with shop.open() as client:
        told = client.ask(query(sql.format(t=shop.table)))
        (error,) = (fields_of(each) for each in told if each[0] == b"E")
        assert error["C"] in ("0A000", "42703", "42P01")
        assert error["H"]
        assert rows_in(told) == []
        assert "root:" not in str(told)


def test_large_answers_are_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_rows, "MAX_ROWS", 10)
    client: RawClient
    with shop.open() as client:
        assert errors_in(client.ask(query(f"SELECT * FROM {shop.table} LIMIT 11"))) == ["0A000"]
        assert len(rows_in(client.ask(query(f"SELECT * FROM {shop.table} LIMIT 10")))) == 10
