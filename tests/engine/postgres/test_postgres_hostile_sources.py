"""Sources on PostgreSQL that are hostile: ids, cells, types, rights and servers that nobody would choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from engine.duckdb.test_owners import MERGED
from engine.on_postgres import Sessions
from engine.tables import tuples
from postgres_server import PostgresServer, installations
from safety.worlds import question
from sfumato import Curator
from sfumato.engine.opening import open_engine
from sfumato.engine.postgres import connection, stored_relations
from sfumato.engine.postgres.driver import Postgres
from sfumato.errors import EngineFailed, InvalidPolicy, SourceChanged, SourceTaken
from sfumato.ledger import Ledger
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.grammars import LONGEST, LONGEST_ID
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

MONTHLY = PrivacyUnit("person", period="month", period_column="day")
DAY = {"day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]}}
WARD = {"ward": {"values": ["north", "south"]}}


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


@pytest.fixture
def visits(sessions: Sessions) -> str:
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who int, ward text)",
        f"INSERT INTO {relation} SELECT i, 'north' FROM generate_series(1, 9) AS i",
    )
    return relation


def declared(
    server: PostgresServer, relation: str, columns: Any = WARD, unit: PrivacyUnit | None = None, **more: Any
) -> Policy:
    own = {"id": "who", "max_rows": 1, "source": server.address(), **more}
    table = Table("visits", own.pop("source"), columns, relation=relation, **own)
    unit = unit or PrivacyUnit("person", every_row=table.every_row)
    return Policy(unit, Budget(500, "1e-6"), {"visits": table})


def read(engine: Postgres, asked: str) -> list[tuple[int, ...]]:
    plan = question(engine, engine._policy, asked)  # type: ignore[arg-type]
    made = candidate_bounded_plans(plan.query.plan, plan.limits, len(plan.groups))
    bounded = next(each for each in made if each.strategy in (Strategy.SAMPLE, Strategy.WHOLE))
    return tuples(engine.read(GroupTotals(bounded, tuple(plan.groups)), 7))


def refused(policy: Policy) -> str:
    with pytest.raises(InvalidPolicy) as refusal:
        open_engine(policy)
    assert refusal.value.__cause__ is None
    return str(refusal.value)


# Ids


@pytest.mark.parametrize("kind", ["float8", "float4", "numeric"])
@pytest.mark.parametrize("unit", [PrivacyUnit("person"), MONTHLY])
def test_minus_zero_is_the_unit_that_zero_is(sessions: Sessions, kind: str, unit: PrivacyUnit) -> None:
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who {kind}, day date)",
        f"INSERT INTO {relation} VALUES ('-0', '2024-05-05'), ('0', '2024-05-06'), (0.00, '2024-05-07'), "
        "('NaN', '2024-05-05')",
    )
    engine = Postgres(declared(sessions.server, relation, DAY, unit))
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(1,)]
    engine.close()


@pytest.mark.parametrize(
    ("kind", "read_as"), [("date", None), ("timestamp", None), ("timestamptz", None), ("date", "text")]
)
@pytest.mark.parametrize("unit", [PrivacyUnit("person"), MONTHLY])
def test_ids_beyond_the_calendar_are_as_many_units(
    sessions: Sessions, kind: str, read_as: str | None, unit: PrivacyUnit
) -> None:
    relation = f"{sessions.schema()}.visits"
    ids = ["0044-03-15 BC", "0045-03-15 BC", "12024-01-01", "12025-01-01", "infinity", "-infinity", "2024-01-01"]
    sessions.run(
        f"CREATE TABLE {relation} (who {kind}, day date)",
        f"INSERT INTO {relation} VALUES " + ", ".join(f"('{each}', '2024-05-05'), ('{each}', NULL)" for each in ids),
        f"UPDATE {relation} SET day = '2024-05-06' WHERE day IS NULL",
    )
    policy = replace(declared(sessions.server, relation, DAY, unit), id_type=read_as)
    engine = Postgres(policy)
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(len(ids),)]
    engine.close()


NUMBERED = {
    **{how: ("text", texts, 2) for how, texts in MERGED.items()},
    "double": ("float8", ["9007199254740992", "9007199254740991", "7", "7.5"], 2),
    "single": ("float4", ["16777216", "16777215", "7", "7.5"], 2),
    "exact": ("numeric", ["9007199254740992.00", "9007199254740993.00", "7", "7.50"], 3),
}


@pytest.mark.parametrize("how", NUMBERED)
def test_an_id_that_a_double_would_merge_with_another_is_nobodys(sessions: Sessions, how: str) -> None:
    kind, ids, units = NUMBERED[how]
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who {kind}, ward text)",
        f"INSERT INTO {relation} VALUES " + ", ".join(f"('{each}', 'north'), ('{each}', 'north')" for each in ids),
    )
    engine = Postgres(replace(declared(sessions.server, relation), id_type="integer"))
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(units,)]
    engine.close()


# Names and numbers of a source


@pytest.mark.parametrize("id_type", [None, "text"])
def test_an_id_beyond_the_longest_is_nobodys(sessions: Sessions, id_type: str | None) -> None:
    """1,024 bytes are an id, of whatever letters; with one more the row is left out."""
    relation = f"{sessions.schema()}.visits"
    longest = f"repeat('é', {LONGEST_ID // 2})"
    sessions.run(
        f"CREATE TABLE {relation} (who text, ward text)",
        f"INSERT INTO {relation} VALUES ({longest}, 'north'), ({longest} || 'x', 'north'), ('x', 'north')",
        f"INSERT INTO {relation} SELECT repeat('y', 10000000), 'north'",
    )
    engine = Postgres(replace(declared(sessions.server, relation), id_type=id_type))
    assert read(engine, "SELECT COUNT(*), COUNT(DISTINCT who) FROM visits") == [(2, 2)]
    engine.close()


def test_a_table_under_another_name_has_no_second_budget(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    """Neither a renamed table is new, nor another one that is called as it was."""
    schema = visits.partition(".")[0]
    ledger = Ledger.open(tmp_path / "one.ledger")
    with Curator(replace(declared(sessions.server, visits), account="first"), ledger):
        pass
    sessions.run(f"ALTER TABLE {visits} RENAME TO moved", f"CREATE TABLE {visits} (who int, ward text)")
    for relation in (f"{schema}.moved", visits):
        policy = replace(declared(sessions.server, relation), account="second")
        with pytest.raises(SourceTaken), Curator(policy, ledger):
            pass
    sessions.run(f"CREATE TABLE {schema}.other (who int, ward text)")
    with Curator(replace(declared(sessions.server, f"{schema}.other"), account="second"), ledger):
        pass
    ledger.close()


def test_a_declared_version_is_of_one_shape(sessions: Sessions, visits: str) -> None:
    """The same version of a view that shows other rows is another version; rows alone are trusted to its owner."""
    view = visits.replace("visits", "seen")
    found = []
    for condition in ("TRUE", "TRUE", "who > 3"):
        sessions.run(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {visits} WHERE {condition}")
        engine = Postgres(declared(sessions.server, view, version="1"))
        found.append(engine.identity())
        engine.close()
    assert found[0] == found[1] != found[2]


def test_a_view_below_a_view_is_part_of_its_shape(sessions: Sessions, visits: str) -> None:
    below, view = visits.replace("visits", "below"), visits.replace("visits", "seen")
    sessions.run(f"CREATE VIEW {below} AS SELECT * FROM {visits}", f"CREATE VIEW {view} AS SELECT * FROM {below}")
    engine = Postgres(declared(sessions.server, view, version="1"))
    before = engine.relations["visits"].shape
    engine.check().close()
    sessions.run(f"CREATE OR REPLACE VIEW {below} AS SELECT * FROM {visits} WHERE who > 3")
    with pytest.raises(SourceChanged):
        engine.check()
    assert stored_relations.find_relation(view, "visits", engine.server.run).shape != before
    engine.close()


CHANGED_FUNCTIONS = {
    "a function": ("SELECT 1", "SELECT 2", "kept(who) > 0"),
    "an operator's function": ("SELECT 1", "SELECT 2", "who OPERATOR({schema}.@@@) 1 > 0"),
}


@pytest.mark.parametrize("how", CHANGED_FUNCTIONS)
def test_the_body_of_a_function_that_a_view_calls_is_part_of_its_shape(
    sessions: Sessions, visits: str, how: str
) -> None:
    schema, view = visits.partition(".")[0], visits.replace("visits", "seen")
    first, second, test = CHANGED_FUNCTIONS[how]

    def define(body: str) -> None:
        for parameters in ("int", "int, int"):
            sessions.run(f"CREATE OR REPLACE FUNCTION {schema}.kept({parameters}) RETURNS int LANGUAGE sql AS '{body}'")

    define(first)
    sessions.run(
        f"CREATE OPERATOR {schema}.@@@ (FUNCTION = {schema}.kept, LEFTARG = int, RIGHTARG = int)",
        f"CREATE VIEW {view} AS SELECT * FROM {visits} WHERE "
        + test.format(schema=schema).replace("kept(", f"{schema}.kept("),
    )
    engine = Postgres(declared(sessions.server, view, version="1"))
    engine.check().close()
    identity = engine.identity()
    define(second)
    with pytest.raises(SourceChanged):
        engine.check()
    engine.close()
    again = Postgres(declared(sessions.server, view, version="1"))
    assert again.identity() != identity  # another body is no version that was answered about
    again.close()


@pytest.fixture
def newest() -> Iterator[Sessions]:
    """A server of the newest version that is found, whichever one the other tests use."""
    installation = max(installations(), key=lambda each: each.version, default=None)
    if installation is None or installation.version < 18:
        pytest.skip("columns are computed at reading since PostgreSQL 18: none so new was found")
    server = PostgresServer(installation)
    try:
        sessions = Sessions(server.make().start())
        yield sessions
        sessions.close()
    finally:
        server.remove()


def test_a_column_that_is_computed_at_reading_is_part_of_the_shape(newest: Sessions) -> None:
    """Such a column is what a view is: its owner is told so, and another expression is another source."""
    sessions = newest
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who int, ward text, half int GENERATED ALWAYS AS (who / 2) VIRTUAL) "
        "PARTITION BY LIST (ward)",
        f"CREATE TABLE {relation}_north PARTITION OF {relation} FOR VALUES IN ('north')",
    )
    half = {"half": {"type": "integer", "bounds": [0, 9]}}
    engine = Postgres(declared(sessions.server, relation, half))
    assert any("computed on read" in each for each in engine.remarks("visits"))
    sessions.run(f"INSERT INTO {relation} VALUES (8, 'north')")
    assert read(engine, "SELECT SUM(half) FROM visits") == [(4,)]
    sessions.run(f"ALTER TABLE {relation} ALTER COLUMN half SET EXPRESSION AS (who / 4)")
    with pytest.raises(SourceChanged):
        engine.check()
    engine.close()


def test_partitions_come_and_go(sessions: Sessions) -> None:
    """One that came is of a source that is opened again, since it may be protected by another account already."""
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who int, ward text) PARTITION BY LIST (ward)",
        f"CREATE TABLE {relation}_north PARTITION OF {relation} FOR VALUES IN ('north')",
    )
    engine = Postgres(declared(sessions.server, relation))
    sessions.run(
        f"CREATE TABLE {relation}_south PARTITION OF {relation} FOR VALUES IN ('south')",
        f"INSERT INTO {relation} VALUES (1, 'south')",
    )
    with pytest.raises(SourceChanged):
        read(engine, "SELECT COUNT(*) FROM visits")
    engine.close()
    engine = Postgres(declared(sessions.server, relation))
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(1,)]
    sessions.run(f"ALTER TABLE {relation} DETACH PARTITION {relation}_south")
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(0,)]
    engine.close()


# Cells and types


def test_a_cell_beyond_the_longest_is_no_number(sessions: Sessions) -> None:
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who int, a text, b text, c text, d text, e text)",
        f"INSERT INTO {relation} SELECT i, lpad('7', n), lpad('7.5', n), lpad('true', n), lpad('2024-05-05', n), "
        f"lpad('2024-05-05 10:00', n) FROM (VALUES (1, {LONGEST}), (2, {LONGEST + 1})) AS v(i, n)",
    )
    kinds = {
        "a": {"type": "integer", "bounds": [0, 9]},
        "b": {"type": "real", "bounds": [0, 9], "grid": "0.5"},
        "c": {"type": "boolean"},
        "d": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "e": {"type": "timestamp", "bounds": ["2024-01-01T00:00:00", "2024-12-31T00:00:00"]},
    }
    engine = Postgres(declared(sessions.server, relation, kinds))
    asked = "SELECT COUNT(*), SUM(a), COUNT(a), COUNT(b), COUNT(c), COUNT(d), COUNT(e) FROM visits"
    assert read(engine, asked) == [(2, 7, 1, 1, 1, 1, 1)]
    engine.close()


@pytest.mark.long
def test_a_cell_that_no_pattern_could_be_held_against_fails_no_question(sessions: Sessions) -> None:
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE TABLE {relation} (who int, a text)",
        f"INSERT INTO {relation} SELECT 3, repeat(' ', 300000000)",
    )
    engine = Postgres(declared(sessions.server, relation, {"a": {"type": "integer", "bounds": [0, 9]}}))
    assert read(engine, "SELECT COUNT(*), SUM(a), COUNT(a) FROM visits") == [(1, 0, 0)]
    engine.close()


def test_domains_are_what_they_are_made_of(sessions: Sessions) -> None:
    """A domain over a domain of times with zones is such a time, and a type of a known name is not the known one."""
    schema = sessions.schema()
    relation = f"{schema}.visits"
    sessions.run(
        f"CREATE DOMAIN {schema}.moment AS timestamptz",
        f"CREATE DOMAIN {schema}.seen AS {schema}.moment",
        f"CREATE TYPE {schema}.int4 AS (x int)",
        f"CREATE TABLE {relation} (who int, day {schema}.seen, odd {schema}.int4)",
        f"INSERT INTO {relation} VALUES (1, '2024-05-05 23:30-02', NULL)",
    )
    engine = Postgres(declared(sessions.server, relation, DAY))
    assert read(engine, "SELECT COUNT(*) FROM visits WHERE day = DATE '2024-05-06'") == [(1,)]
    engine.close()
    assert "stored as" in refused(declared(sessions.server, relation, {"odd": {"type": "integer"}}))


def test_the_first_items_of_an_array_are_read(sessions: Sessions) -> None:
    """However an array is numbered and whatever its dimensions; its texts are compared by their bytes."""
    schema = sessions.schema()
    sessions.run(
        f"CREATE COLLATION {schema}.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE DOMAIN {schema}.few AS int[]",
        f"CREATE TABLE {schema}.visits (who int, tags text[] COLLATE {schema}.blind, sizes {schema}.few, "
        "kinds char(3)[])",
        f"INSERT INTO {schema}.visits VALUES (1, '{{a,A,b,zz,a}}', '[5:7]={{1,99,3}}', '{{a,b}}'), "
        f"(2, '{{}}', '{{{{1,2}},{{3,4}}}}', NULL), (3, NULL, '{{NULL,-7}}', '{{NULL,a}}')",
    )
    columns = {
        "tags": {"values": ["a", "b"], "nullable": True, "most_items": 4},
        "sizes": {"type": "integer", "bounds": [0, 10], "most_items": 3},
        "kinds": {"values": ["a", "b"], "most_items": 2},
    }
    engine = Postgres(declared(sessions.server, f"{schema}.visits", columns))
    found = engine.server.run(f"SELECT tags, sizes, kinds FROM ({engine._scan_texts['visits']}) AS r ORDER BY sf_unit")
    assert found == [
        (["a", None, "b", None], [1, 10, 3], ["a", "b"]),
        (None, [1, 2, 3], None),
        (None, [None, 0], [None, "a"]),
    ]
    asked = "SELECT tag, COUNT(*) FROM visits, UNNEST(tags) AS t(tag) GROUP BY tag"
    assert read(engine, asked) == [(1,), (1,), (2,)]
    engine.close()


def test_what_is_no_array_is_no_list(sessions: Sessions) -> None:
    relation = f"{sessions.schema()}.visits"
    sessions.run(f"CREATE TABLE {relation} (who int, tags text, spots point[])")
    assert "'tags' is not a list" in refused(
        declared(sessions.server, relation, {"tags": {"values": ["a"], "most_items": 3}})
    )
    odd = {"spots": {"type": "integer", "most_items": 3}}
    assert "'spots' is stored as point" in refused(declared(sessions.server, relation, odd))


def test_a_public_date_beyond_the_calendar_is_none(sessions: Sessions, visits: str) -> None:
    schema = visits.partition(".")[0]
    sessions.run(
        f"CREATE TABLE {schema}.zones (ward text, since date, till timestamp, size int)",
        f"INSERT INTO {schema}.zones VALUES ('north', '0044-03-15 BC', 'infinity', 1), "
        "('south', '2024-05-05', '12024-01-01', 2)",
    )
    zones = Table("zones", sessions.server.address(), public=True, relation=f"{schema}.zones")
    policy = declared(sessions.server, visits)
    engine = open_engine(replace(policy, tables={**policy.tables, "zones": zones}))
    asked = "SELECT COUNT(*), COUNT(since), COUNT(till) FROM visits JOIN zones USING (ward)"
    assert read(engine, asked) == [(9, 0, 0)]
    engine.close()


# Rights


def test_what_cannot_be_locked_is_refused_at_the_opening(sessions: Sessions, visits: str) -> None:
    schema = visits.partition(".")[0]
    sessions.run(
        f"CREATE MATERIALIZED VIEW {schema}.kept AS SELECT * FROM {visits}",
        f"CREATE VIEW {schema}.shown AS SELECT * FROM {schema}.kept",
        "DROP ROLE IF EXISTS some_columns",
        "CREATE ROLE some_columns LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO some_columns",
        f"GRANT SELECT (who, ward) ON {visits} TO some_columns",
    )
    assert "materialized" in refused(declared(sessions.server, f"{schema}.kept"))
    source = sessions.server.address(user="some_columns")
    assert "may not read the whole table" in refused(declared(sessions.server, visits, source=source))
    engine = Postgres(declared(sessions.server, f"{schema}.shown"))
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(9,)]
    engine.close()
    sessions.run("DROP OWNED BY some_columns", "DROP ROLE some_columns")


@pytest.mark.parametrize(("limit", "opens"), [("1023MB", False), ("1GB", True)])
def test_a_limit_of_temporary_files_that_could_end_a_charged_question_is_refused(
    sessions: Sessions, visits: str, limit: str, opens: bool
) -> None:
    schema, role = visits.partition(".")[0], f"limited_to_{limit.lower()}"
    sessions.run(
        f"CREATE ROLE {role} LOGIN",
        f"ALTER ROLE {role} SET temp_file_limit = '{limit}'",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON {visits} TO {role}",
    )
    policy = declared(sessions.server, visits, source=sessions.server.address(user=role))
    if opens:
        open_engine(policy).close()
    else:
        assert "temporary files" in refused(policy)


def test_a_view_that_fails_is_refused_in_words(sessions: Sessions, visits: str) -> None:
    view = visits.replace("visits", "broken")
    sessions.run(f"CREATE VIEW {view} AS SELECT who, ward FROM {visits} WHERE 1 / (who - 3) > -2")
    assert "could not read this source" in refused(declared(sessions.server, view))


# Sessions


def test_settings_hold_in_every_transaction(sessions: Sessions, visits: str) -> None:
    """A session that a pool gave to others in between has its settings again; none of them is left behind."""
    engine = Postgres(declared(sessions.server, visits))
    asked = ("TimeZone", "search_path", "row_security", "transaction_read_only", "idle_in_transaction_session_timeout")
    shown = "SELECT " + ", ".join(f"current_setting('{each}')" for each in asked)
    pinned = [("UTC", "pg_catalog, pg_temp", "off", "on", "0")]
    assert engine.server.run(shown) == pinned
    (idle,) = engine.server._idle_sessions
    idle.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SET TimeZone = 'Asia/Tokyo'")  # type: ignore[call-overload]
    idle.execute("SET search_path = public; SET row_security = on; SET idle_in_transaction_session_timeout = 3600000")  # type: ignore[call-overload]
    idle.commit()
    assert engine.server.run(shown) == pinned
    assert engine.server._idle_sessions == [idle]
    assert idle.execute("SELECT current_setting('TimeZone')").fetchall() == [("Asia/Tokyo",)]
    engine.close()


@pytest.mark.parametrize("level", ["serializable", "read committed"])
def test_whatever_the_isolation_level_is_by_default_a_question_reads_one_snapshot(
    sessions: Sessions, visits: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    escaped = level.replace(" ", "\\ ")
    monkeypatch.setenv("PGOPTIONS", f"-c default_transaction_isolation={escaped}")
    engine = Postgres(declared(sessions.server, visits))
    for _ in range(2):  # a new session, and one that is used again
        assert engine.server.run("SELECT current_setting('transaction_isolation')") == [("repeatable read",)]
    engine.close()


def test_what_others_left_in_a_session_is_not_found(sessions: Sessions, visits: str) -> None:
    """Behind a pool others may have made temporary tables and types that are called as the server's own are."""
    engine = Postgres(declared(sessions.server, visits))
    (idle,) = engine.server._idle_sessions
    idle.read_only = False
    idle.execute("CREATE TEMPORARY TABLE pg_class (oid oid); CREATE TYPE pg_temp.text AS ENUM ('x')")
    idle.commit()
    idle.read_only = True
    assert read(engine, "SELECT COUNT(*) FROM visits WHERE ward = 'north'") == [(9,)]
    assert engine.server._idle_sessions == [idle]
    engine.close()


def test_no_snapshot_is_taken_before_the_locks(sessions: Sessions, visits: str) -> None:
    """What is committed after a session is taken and before its first lock is seen."""
    engine = Postgres(declared(sessions.server, visits))
    with engine.open_snapshot() as held:
        sessions.run(f"INSERT INTO {visits} VALUES (10, 'south')")
        held.check().close()
        transaction = held._transaction
        assert transaction.rows(f"SELECT count(*) FROM {visits}") == [(10,)]
    engine.close()


def test_a_session_that_ended_while_idle_is_replaced(sessions: Sessions, visits: str) -> None:
    engine = Postgres(declared(sessions.server, visits))
    ((ended,),) = engine.server.run("SELECT pg_backend_pid()")
    sessions.run(f"SELECT pg_terminate_backend({ended}, 60000)")
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(9,)]
    engine.close()


def test_an_interrupted_session_is_not_used_again(sessions: Sessions, visits: str) -> None:
    engine = Postgres(declared(sessions.server, visits))
    session = engine.server.take()
    engine.interrupt()
    engine.server.give_back(session)
    assert session.closed
    assert read(engine, "SELECT COUNT(*) FROM visits") == [(9,)]
    engine.close()


def test_a_savepoint_is_let_go_of(sessions: Sessions, visits: str) -> None:
    """Another step of a series does not lie within all steps before it, and goes on after one that failed."""
    engine = Postgres(declared(sessions.server, visits))
    with engine.open_snapshot() as held:
        held.check().close()
        transaction = held._transaction
        with pytest.raises(EngineFailed):
            transaction.rows("SELECT 1 / 0")
        assert transaction.rows("SELECT 1") == [(1,)]
        with pytest.raises(EngineFailed):
            transaction.rows("RELEASE SAVEPOINT sf; SELECT 1; RELEASE SAVEPOINT sf")
    engine.close()


# Other servers


def test_another_database_at_the_same_address_is_noticed(sessions: Sessions) -> None:
    """An address that leads to a copy is no longer the source, though a table there has its name and its number."""
    server = sessions.server
    sessions.run("DROP DATABASE IF EXISTS twin", "DROP DATABASE IF EXISTS own", "CREATE DATABASE own")
    server.execute("CREATE TABLE public.visits (who int, ward text)", database="own")
    sessions.run("CREATE DATABASE twin TEMPLATE own")
    engine = Postgres(declared(server, "public.visits", source=server.address("own")))
    engine.check().close()
    engine.server.address = server.address("twin")
    _forget(engine)
    with pytest.raises(SourceChanged):
        engine.check()
    engine.server.address = server.address("own")
    _forget(engine)
    engine.check().close()
    server.execute("DROP TABLE public.visits", database="own")
    with pytest.raises(SourceChanged):
        engine.check()
    engine.close()


def _forget(engine: Postgres) -> None:
    for each in engine.server._idle_sessions:
        each.close()


def test_several_hosts_are_refused(sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "postgresql://one.example,two.example/clinic"
    assert "one server" in refused(declared(sessions.server, visits, source=source))
    monkeypatch.setenv("PGHOST", "one.example,two.example")
    assert "one server" in refused(declared(sessions.server, visits, source="postgresql:///clinic"))


@pytest.mark.parametrize("name", ["one.example", "localhost", "/run"])
def test_a_numbered_host_elsewhere_is_verified_whatever_it_is_called(
    sessions: Sessions, visits: str, name: str
) -> None:
    for numbered in ("hostaddr=10.0.0.7", "service=clinic"):
        source = f"postgresql:///clinic?host={name}&{numbered}&sslmode=disable"
        assert "certificate must be verified" in refused(declared(sessions.server, visits, source=source))


def test_settings_of_newer_servers_are_pinned_there(monkeypatch: pytest.MonkeyPatch, sessions: Sessions) -> None:
    """A setting that this version does not know is left alone, and one that it knows is pinned."""
    number = installations()[0].version * 10000
    monkeypatch.setattr(
        connection, "_SETTINGS_SINCE", {"no_such_setting": (number + 10000, "0"), "work_mem": (number, "99kB")}
    )
    server = connection.ServerSessions(sessions.server.address(), "tables")
    assert server.run("SELECT current_setting('work_mem')") == [("99kB",)]
    server.close()


@pytest.mark.parametrize(("memory", "size"), [(None, "128MB"), ("1.5 GiB", "1536MB")])
def test_the_memory_of_a_step_is_not_the_servers(sessions: Sessions, memory: str | None, size: str) -> None:
    server = connection.ServerSessions(sessions.server.address(), "tables", memory)
    try:
        with server.session() as session:
            server.rows(session, "SELECT 1")
            assert server.rows(session, "SELECT current_setting('work_mem')") == [(size,)]
    finally:
        server.close()
