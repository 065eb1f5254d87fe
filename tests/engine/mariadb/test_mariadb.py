"""A curator whose private tables are on a MariaDB server: what it reads, holds, refuses and tells."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")

from engine import test_dense_arrays as dense
from engine.on_mariadb import Sessions
from engine.tables import tuples
from mariadb_server import MariaDBServer
from safety.worlds import changes, question, text, world
from sfumato import Curator
from sfumato.engine import self_test, server_engine
from sfumato.engine.inspecting import open_inspector
from sfumato.engine.lowering.reading_statements import server_statement
from sfumato.engine.mariadb import connection
from sfumato.engine.mariadb.connection import MariaDBSessions
from sfumato.engine.mariadb.driver import MariaDB
from sfumato.engine.opening import open_engine
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged, Unanswered, Unsupported
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import ValueCounts
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.plan.values.functions import call
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit

COLUMNS: dict[str, Any] = {
    "ward": {"values": ["north", "south", "west"]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "note": {"type": "text"},
}
BY_WARD = "SELECT ward, COUNT(*), SUM(age) FROM visits GROUP BY ward"
SECRET = "cell-4711-secret"


@pytest.fixture(scope="module")
def sessions(mariadb: MariaDBServer) -> Iterator[Sessions]:
    made = Sessions(mariadb)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _proved_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open tables without the proof of the server, which ``test_mariadb_meanings`` lets it give."""
    monkeypatch.setattr(self_test, "require_correct_results", lambda *_: None)
    monkeypatch.setattr(self_test, "_changes_case_alike", lambda *_: True)


@pytest.fixture
def visits(sessions: Sessions) -> str:
    """A database with a table of 40 people with three rows each."""
    database = sessions.database()
    rows = [(who, "north" if who % 2 else "south", 20 + who, SECRET) for who in range(40) for _ in range(3)]
    columns = zip(("who", "ward", "age", "note"), zip(*rows, strict=True), strict=True)
    sessions.copied(pa.table(dict(columns)), f"{database}.visits")
    return database


def declared(server: MariaDBServer, database: str, **more: Any) -> Policy:
    own = {"id": "who", "max_rows": 2, "columns": COLUMNS, "relation": "visits", "user": database, **more}
    source, columns = server.address(database, own.pop("user")), own.pop("columns")
    return _policy(Table("visits", own.pop("source", source), columns, **own))


def _policy(*tables: Table) -> Policy:
    unit = PrivacyUnit("person", every_row=any(table.every_row for table in tables))
    return Policy(unit, Budget(500, "1e-6"), {table.name: table for table in tables})


def _reading(engine: Any, asked: str, strategy: Strategy | None = None) -> GroupTotals:
    plan = question(engine, engine._policy, asked)
    made = candidate_bounded_plans(plan.query.plan, plan.limits, len(plan.groups))
    return GroupTotals(next(each for each in made if strategy in (None, each.strategy)), tuple(plan.groups))


def read(engine: MariaDB, asked: str, key: int = 7, strategy: Strategy | None = None) -> list[tuple[int, ...]]:
    return tuples(engine.read(_reading(engine, asked, strategy), key))


# Neighbours, and readings beyond totals


@pytest.mark.parametrize("seed", [2, 11])
def test_neighbours_on_the_server_differ_by_at_most_the_claim(sessions: Sessions, seed: int, long: bool) -> None:
    """Both relations, in every bounding: what is added in one table is replaced between two."""
    random = Random(seed)
    made = world(random)
    tables = made.tables(random, 60)
    chosen = ["", *random.sample([name for name in tables if name], 3 if long else 2)]
    engines = {name: sessions.engine(made.policy(tables[name])) for name in chosen}
    compared = 0
    for _ in range(8 if long else 3):
        asked = text(random, made)
        try:
            plan = question(engines[""], engines[""]._policy, asked)  # type: ignore[arg-type]
            made_of = candidate_bounded_plans(with_requests_as_measures(plan.query.plan), plan.limits, len(plan.groups))
        except Unsupported:
            continue
        if plan.discovered_keys:
            continue
        key = random.getrandbits(62)
        for bounded in made_of:
            totals = {name: tuples(each.read(GroupTotals(bounded, plan.groups), key)) for name, each in engines.items()}
            pairs = [(Neighbours.ADD_REMOVE, "", name) for name in chosen[1:]]
            pairs += [(Neighbours.REPLACE, *pair) for pair in combinations(chosen[1:], 2)]
            for relation, first, second in pairs:
                for change in changes(for_neighbours(bounded, relation), totals[first], totals[second]):
                    compared += 1
                    assert change.worst <= 1, (asked, bounded.strategy, relation, first, second)
    for each in engines.values():
        each.close()
    assert compared > 10


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.SAMPLE])
def test_marginals_and_values_are_those_of_duckdb(sessions: Sessions, strategy: Strategy) -> None:
    own = dense.engine(dense.rows(3), units=strategy is not Strategy.WHOLE)
    server = sessions.engine(own._policy)
    reading = dense.marginals(strategy)
    for asked in (reading, *(replace(reading, sets=sets) for sets in dense.FEWER_CELLS)):
        for one, other in zip(own.read(asked, 7), server.read(asked, 7), strict=True):
            assert (one == other).all()
    cells = CellRows(reading.bounded, dense.CELLS, reading.sets)
    first, second = (each.read(cells, 7) for each in (own, server))
    for columns in cells.sets:
        assert (first.marginal(columns) == second.marginal(columns)).all()

    def measures(fields: Any) -> tuple[Any, ...]:
        return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))

    values = ValueCounts(dense.bounded(own, strategy, ("sex",), measures, 3), (("f",), ("m",), (None,)))
    one, other = own.read(values, 7), server.read(values, 7)
    for part in ("group", "steps", "counts"):
        assert (getattr(one, part) == getattr(other, part)).all()
    own.close()
    server.close()


def test_one_row_beyond_the_limit_counts_for_nothing(sessions: Sessions) -> None:
    """Of three rows of a person two count, in every strategy; a person with two loses nothing."""
    database = sessions.database()
    sessions.copied(pa.table({"who": [1, 1, 1, 2, 2], "ward": ["north"] * 5, "age": [10] * 5}), f"{database}.visits")
    columns = {name: COLUMNS[name] for name in ("ward", "age")}
    with closing(MariaDB(declared(sessions.server, database, columns=columns))) as engine:
        assert read(engine, "SELECT COUNT(*), SUM(age) FROM visits", strategy=Strategy.SAMPLE) == [(4, 40)]
        for strategy in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2):  # in steps of a 2^20th
            ((steps,),) = read(engine, "SELECT COUNT(*) FROM visits", strategy=strategy)
            assert 3.99 < steps / 2**20 <= 4, strategy


# One transaction from the check to the totals


def test_what_is_checked_is_what_is_read(sessions: Sessions, visits: str) -> None:
    """A table that is altered or filled between the check and the reading waits, or is not seen."""
    engine = MariaDB(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    before = tuples(engine.read(reading, 7))
    altered = threading.Event()

    def alter() -> None:
        with closing(sessions.server.connect()) as other, other.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {visits}.visits RENAME COLUMN ward TO hall")
        altered.set()

    with engine.check(reading) as opened:
        sessions.run(f"INSERT INTO {visits}.visits SELECT 900 + who, 'west', 5, '' FROM {visits}.visits")
        worker = threading.Thread(target=alter)
        worker.start()
        end = time.monotonic() + 120
        waiting = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%'"
        while not sessions.run(waiting):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert tuples(opened.read(reading, 7)) == before
        assert not altered.is_set()
    worker.join(120)
    assert altered.is_set()
    with pytest.raises(SourceChanged):
        engine.check(reading)
    engine.close()


def test_the_tables_of_a_policy_are_locked_before_they_are_described(sessions: Sessions, visits: str) -> None:
    """A check without a reading holds the shape of all tables, too."""
    import pymysql

    with closing(MariaDB(declared(sessions.server, visits))) as engine, engine.check():
        sessions.run("SET lock_wait_timeout = 1")
        with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
            sessions.run(f"ALTER TABLE {visits}.visits RENAME COLUMN ward TO hall")
    sessions.run(f"ALTER TABLE {visits}.visits RENAME COLUMN ward TO hall", "SET lock_wait_timeout = 600")


def test_a_snapshot_holds_the_rows_of_its_first_reading(sessions: Sessions, visits: str) -> None:
    engine = MariaDB(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    with engine.open_snapshot() as held:
        held.check(reading).close()
        before = tuples(held.read(reading, 7))
        sessions.run(f"DELETE FROM {visits}.visits WHERE who > 5")
        assert tuples(held.read(reading, 7)) == before
    assert tuples(engine.read(reading, 7)) != before
    engine.close()
    with pytest.raises(EngineClosed):
        engine.check(reading)


def test_nothing_but_totals_of_groups_arrives(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However many rows a table has, as many arrive as there are groups, or cells of marginals."""
    arrived: list[int] = []
    real = server_engine.arrays_from_rows
    monkeypatch.setattr(
        server_engine, "arrays_from_rows", lambda rows, own: arrived.append(len(rows)) or real(rows, own)
    )
    sessions.run(f"INSERT INTO {visits}.visits SELECT 1000 + seq, 'west', seq % 3, '' FROM {visits}.seq_1_to_3000")
    listed = {**COLUMNS, "age": {"type": "integer", "values": list(range(101))}}
    with Curator(declared(sessions.server, visits, columns=listed), tmp_path / "one.ledger") as curator:
        for strategy in ("reweight", "clip-l1", "sample"):
            curator.sql(BY_WARD).limit(strategy=strategy).release(epsilon=1)
        assert max(arrived) <= 3
        curator.marginals("visits", [["ward"], ["age"]]).release(epsilon=5)
        assert arrived[-1] <= 4 + 102  # not one for each of their combinations


def test_a_failure_after_the_charge_is_the_one_refusal(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server ends the session of a release that has been charged: no cause is told, and the charge stands."""
    real = MariaDBSessions.rows

    def ended(server: MariaDBSessions, session: Any, statement: str, parameters: Any = ()) -> Any:
        if not statement.startswith("EXPLAIN") and "SUM(" in statement:
            sessions.run(f"KILL CONNECTION {session.thread_id()}")
        return real(server, session, statement, parameters)

    with Curator(declared(sessions.server, visits), tmp_path / "one.ledger") as curator:
        spent = curator.budget.remaining
        monkeypatch.setattr(MariaDBSessions, "rows", ended)
        with pytest.raises(Unanswered) as refusal:
            curator.sql("SELECT SUM(age) FROM visits").release(epsilon=1)
        assert refusal.value.__cause__ is None
        assert curator.budget.remaining != spent
        monkeypatch.setattr(MariaDBSessions, "rows", real)
        assert curator.sql("SELECT SUM(age) FROM visits").release(epsilon=1).rows  # a new session is taken


def test_a_slow_reading_is_interrupted(sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that would run for ten minutes is ended at the server, and only that of the thread named."""
    real = MariaDBSessions.fetch
    engine = MariaDB(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    outcome: list[BaseException] = []

    def slow(server: MariaDBSessions, session: Any, statement: str, parameters: Any) -> Any:
        if threading.current_thread() is worker and not statement.startswith("EXPLAIN") and "SUM(" in statement:
            statement = f"SELECT SLEEP(600) AS slow, r.* FROM ({statement}) AS r"
        return real(server, session, statement, parameters)

    def work() -> None:
        try:
            engine.read(reading, 7)
        except EngineFailed as error:
            outcome.append(error)

    worker = threading.Thread(target=work)
    monkeypatch.setattr(MariaDBSessions, "fetch", slow)
    worker.start()
    end = time.monotonic() + 200
    while not sessions.run("SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'"):
        assert time.monotonic() < end
        time.sleep(0.05)
    engine.interrupt(threading.get_ident())
    assert engine.read(reading, 7).any()  # others go on
    assert worker.is_alive()
    engine.interrupt(worker.ident)
    worker.join(200)
    assert not worker.is_alive()
    assert outcome[0].__cause__ is None
    engine.close()


def test_a_forked_process_leaves_the_sessions_of_its_parent_alone(sessions: Sessions, visits: str) -> None:
    engine = MariaDB(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    child = os.fork()
    if not child:
        refused = 1
        try:
            engine.check(reading)
        except EngineClosed:
            refused = 0
        engine.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert engine.read(reading, 7).any()
    engine.close()


# Types and collations

STORED = {
    "tiny": ("tinyint(1)", "1", 1),
    "small": ("smallint unsigned", "65535", 65535),
    "whole": ("int unsigned zerofill", "7", 7),
    "large": ("bigint(2)", "-4611686018427387904", -(2**62)),
    "wide": ("bigint unsigned", "9007199254740993", 2**53 + 1),
    "beyond": ("bigint unsigned", "18446744073709551615", 2**62),
    "money": ("decimal(65,2)", "12.00", 12),
}


def test_every_stored_number_is_read_as_it_is_declared(sessions: Sessions) -> None:
    """One that 64 bits do not hold is beyond every bound, and wraps nowhere."""
    database = sessions.database()
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in STORED.items())
    sessions.run(
        f"CREATE TABLE {database}.visits (who int, {columns}) ENGINE = InnoDB",
        f"INSERT INTO {database}.visits VALUES (1, {', '.join(cell for _, cell, _ in STORED.values())})",
    )
    domains = {name: {"type": "integer", "bounds": [-(2**62), 2**62]} for name in STORED}
    with closing(MariaDB(declared(sessions.server, database, columns=domains))) as engine:
        for name, (_, _, value) in STORED.items():
            asked = f"SELECT COUNT(*) FROM visits WHERE {name} = {value}"
            assert read(engine, asked, strategy=Strategy.SAMPLE) == [(1,)], name


MOMENTS = {
    "'2024-02-29'": 1,
    "'0000-00-00'": 0,
    "'2024-00-10'": 0,
    "'2024-02-31'": 0,
    "NULL": 0,
}


@pytest.mark.parametrize("kind", ["date", "datetime", "datetime(6)", "timestamp NULL"])
def test_what_is_no_date_is_null(sessions: Sessions, kind: str) -> None:
    """Zero dates and days that do not exist; times are those of UTC, whatever the zone of a session is."""
    database = sessions.database()
    cells = [cell for cell in MOMENTS if kind.startswith("date") or cell in ("'2024-02-29'", "NULL")]
    rows = ", ".join(f"({index}, {cell})" for index, cell in enumerate(cells))
    sessions.run(
        "SET sql_mode = 'ANSI_QUOTES,ALLOW_INVALID_DATES', time_zone = '+05:30'",
        f"CREATE TABLE {database}.visits (who int, day {kind}) ENGINE = InnoDB",
        f"INSERT INTO {database}.visits VALUES {rows}",
        "SET sql_mode = 'ANSI_QUOTES', time_zone = '+00:00'",
    )
    bounds = ["2000-01-01", "2030-01-01"]
    domains = {"day": {"type": "date" if kind == "date" else "timestamp", "bounds": bounds}}
    with closing(MariaDB(declared(sessions.server, database, columns=domains))) as engine:
        own = "SELECT COUNT(*), COUNT(day), SUM(EXTRACT(day FROM day)) FROM visits"
        day = 28 if kind.startswith("timestamp") else 29
        assert read(engine, own, strategy=Strategy.SAMPLE) == [(len(cells), 1, day)]


@pytest.mark.parametrize(
    "kind",
    [
        "bit(3)",
        "set('a','b')",
        "varbinary(9)",
        "blob",
        "year",
        "time",
        "uuid",
        "inet6",
        "point",
        "double(9,2)",
        "varchar(9) CHARACTER SET ucs2",
        "int GENERATED ALWAYS AS (who + 1) VIRTUAL",
    ],
)
def test_other_types_are_refused_at_opening(sessions: Sessions, kind: str) -> None:
    database = sessions.database()
    sessions.run(f"CREATE TABLE {database}.visits (who int, odd {kind}) ENGINE = InnoDB")
    with pytest.raises(InvalidPolicy, match="'odd' is stored as") as refusal:
        MariaDB(declared(sessions.server, database, columns={"odd": {"type": "text"}}))
    assert refusal.value.fix


def test_texts_as_dates_are_refused_at_opening(sessions: Sessions, visits: str) -> None:
    with pytest.raises(InvalidPolicy, match="stored as text"):
        MariaDB(declared(sessions.server, visits, columns={"note": {"type": "date"}}))


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE {0}.odd ENGINE = MyISAM AS SELECT * FROM {0}.visits",
        "CREATE TABLE {0}.odd ENGINE = Aria AS SELECT * FROM {0}.visits",
        "CREATE VIEW {0}.odd AS SELECT * FROM {0}.visits",
        "CREATE TABLE {0}.odd (who int) WITH SYSTEM VERSIONING",
    ],
)
def test_what_has_no_snapshot_is_refused(sessions: Sessions, visits: str, made: str) -> None:
    sessions.run(made.format(visits))
    with pytest.raises(InvalidPolicy, match="InnoDB"):
        MariaDB(declared(sessions.server, visits, relation="odd"))


@pytest.mark.parametrize(
    "kind",
    [
        "varchar(9) COLLATE utf8mb4_general_ci",
        "char(9) COLLATE utf8mb4_unicode_520_ci",
        "varchar(9) CHARACTER SET latin1",
        "varchar(9) COLLATE utf8mb4_bin",
        "enum('north','NORTH') COLLATE utf8mb4_bin",
    ],
)
def test_texts_are_told_apart_by_their_bytes(sessions: Sessions, kind: str) -> None:
    """One more row of another spelling moves no group by more than one, and ids that differ in case are two units."""
    database, ids = sessions.database(), "varchar(9)" if kind.startswith("enum") else kind
    found = []
    for place, extra in enumerate(("", "('A', 'NORTH'), ")):
        sessions.run(
            f"CREATE TABLE {database}.visits{place} (who {ids}, ward {kind}) ENGINE = InnoDB",
            f"INSERT INTO {database}.visits{place} VALUES {extra}" + ", ".join(["('a', 'north')"] * 5),
        )
        columns = {"ward": {"values": ["north", "south"]}}
        policy = declared(sessions.server, database, columns=columns, max_rows=3, relation=f"visits{place}")
        with closing(MariaDB(policy)) as engine:
            by_ward = read(engine, "SELECT ward, COUNT(*) FROM visits GROUP BY ward", strategy=Strategy.SAMPLE)
            found.append((by_ward, read(engine, "SELECT COUNT(DISTINCT who) FROM visits", strategy=Strategy.SAMPLE)))
    assert found == [([(3,), (0,)], [(1,)]), ([(3,), (0,)], [(2,)])]


def test_a_space_at_the_end_is_a_letter(sessions: Sessions) -> None:
    database = sessions.database()
    rows = pa.table({"who": ["a", "a ", "a\t", "é", "e\u0301"], "ward": ["north", "north ", "North", "north", "north"]})
    sessions.copied(rows, f"{database}.visits", {"who": "varchar(9)", "ward": "varchar(9)"})
    columns = {"ward": {"values": ["north", "south"]}}
    with closing(MariaDB(declared(sessions.server, database, columns=columns))) as engine:
        assert read(engine, "SELECT COUNT(DISTINCT who) FROM visits", strategy=Strategy.SAMPLE) == [(5,)]
        assert read(engine, "SELECT ward, COUNT(*) FROM visits GROUP BY ward", strategy=Strategy.SAMPLE)[0] == (3,)


def test_long_texts_are_no_ids(sessions: Sessions, visits: str) -> None:
    for kind in ("text", "varchar(231)", "enum('a')"):
        sessions.run(f"CREATE OR REPLACE TABLE {visits}.long_ids (who {kind}, ward varchar(9)) ENGINE = InnoDB")
        with pytest.raises(InvalidPolicy, match="at most 230 characters"):
            MariaDB(declared(sessions.server, visits, relation="long_ids", columns={"ward": COLUMNS["ward"]}))


@pytest.mark.parametrize("kind", ["varchar(230)", "bigint", "decimal(20,0)"])
def test_units_are_joined_by_an_index(sessions: Sessions, kind: str) -> None:
    """No join compares every pair of rows, so the cost is linear in the rows."""
    database = sessions.database()
    sessions.run(f"CREATE TABLE {database}.visits (who {kind}, ward varchar(9)) ENGINE = InnoDB")
    sessions.run(f"INSERT INTO {database}.visits SELECT seq % 97, 'north' FROM {database}.seq_1_to_500")
    columns = {"ward": COLUMNS["ward"]}
    with closing(MariaDB(declared(sessions.server, database, columns=columns))) as engine:
        for strategy in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.SAMPLE):
            reading = _reading(engine, "SELECT ward, COUNT(*) FROM visits GROUP BY ward", strategy)
            plan = engine.server.run("EXPLAIN " + engine.render(server_statement(reading, 7))[0])
            joined = [row for row in plan if row[3] not in ("ALL", None)]
            assert joined, strategy
            assert not [row for row in plan if "join buffer" in str(row[-1])], strategy


# Rights, servers and addresses


def test_an_account_that_may_write_is_refused(sessions: Sessions, visits: str) -> None:
    for right in ("INSERT", "UPDATE", "DELETE", "DROP", "CREATE TEMPORARY TABLES"):
        sessions.run(f"GRANT {right} ON {visits}.* TO {visits}@localhost")
        with pytest.raises(InvalidPolicy, match=right):
            MariaDB(declared(sessions.server, visits))
        sessions.run(f"REVOKE {right} ON {visits}.* FROM {visits}@localhost")
    sessions.run(f"CREATE ROLE r{visits}", f"GRANT r{visits} TO {visits}@localhost")
    sessions.run(f"SET DEFAULT ROLE r{visits} FOR {visits}@localhost")
    with pytest.raises(InvalidPolicy, match="role"):
        MariaDB(declared(sessions.server, visits))


def test_the_right_to_read_the_columns_of_one_table_is_enough(sessions: Sessions, visits: str) -> None:
    """Another table of the database is not seen."""
    sessions.run(
        f"CREATE USER few{visits}@localhost",
        f"GRANT SELECT (who, ward, age) ON {visits}.visits TO few{visits}@localhost",
        f"CREATE TABLE {visits}.other (who int) ENGINE = InnoDB",
    )
    columns = {name: COLUMNS[name] for name in ("ward", "age")}
    with closing(MariaDB(declared(sessions.server, visits, user=f"few{visits}", columns=columns))) as engine:
        assert read(engine, BY_WARD, strategy=Strategy.REWEIGHT)[0][0] > 0
    with pytest.raises(InvalidPolicy, match="no column 'note'"):
        MariaDB(declared(sessions.server, visits, user=f"few{visits}"))
    with pytest.raises(InvalidPolicy, match="no such table"):
        MariaDB(declared(sessions.server, visits, user=f"few{visits}", relation="other"))


def test_a_session_cannot_write(sessions: Sessions, visits: str) -> None:
    """Not even for an account that may: the transaction is read-only."""
    sessions.run(f"GRANT ALL ON {visits}.* TO {visits}@localhost")
    with closing(MariaDBSessions(sessions.server.address(visits, visits), "here")) as server:
        with pytest.raises(EngineFailed):
            server.run(f"DELETE FROM {visits}.visits")
        ((isolation, zone, mode),) = server.run("SELECT @@tx_isolation, @@time_zone, @@sql_mode")
    assert (isolation, zone) == ("REPEATABLE-READ", "+00:00")
    assert {"ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES"} <= {*mode.split(",")}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mariadb://reader:secret@localhost/clinic", "must not contain a password"),
        ("mysql://reader@localhost/clinic?password=x", "must not contain a password"),
        ("mariadb://reader@localhost/clinic?init_command=DROP", "could contain a secret"),
    ],
)
def test_a_policy_holds_no_secret(address: str, told: str) -> None:
    with pytest.raises(InvalidPolicy, match=told):
        Table("visits", address, COLUMNS, id="who", max_rows=2, relation="visits")


def test_over_a_network_the_certificate_is_verified(tmp_path: Path) -> None:
    import ssl

    options = connection._connection_options("mysql://reader@db.example:3307/clinic", "here")
    assert options["ssl"].verify_mode is ssl.CERT_REQUIRED
    assert options["ssl"].check_hostname
    assert (options["host"], options["port"], options["database"]) == ("db.example", 3307, "clinic")
    for wrong in ("mariadb://db.example/clinic?unix_socket=/s", f"mariadb://db.example/clinic?ssl_ca={tmp_path}/none"):
        with pytest.raises(InvalidPolicy):
            connection._connection_options(wrong, "here")
    with pytest.raises(InvalidPolicy, match="one database"):
        connection._connection_options("mariadb://reader@db.example", "here")


def test_passwords_are_those_of_other_clients(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sessions.run(f"ALTER USER {visits}@localhost IDENTIFIED BY 'right%pass'")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    policy = declared(sessions.server, visits)
    with pytest.raises(InvalidPolicy, match="password"):
        MariaDB(policy)
    (tmp_path / ".my.cnf").write_text("[client]\npassword=right%pass\n")
    MariaDB(policy).close()
    monkeypatch.setenv("MYSQL_PWD", "wrong")
    with pytest.raises(InvalidPolicy, match="password") as refusal:
        MariaDB(policy)
    assert "wrong" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_is_killed_is_asked_again_when_it_is_back(mariadb: MariaDBServer, tmp_path: Path) -> None:
    """A killed server fails the question that was charged; when it is back, the next is answered."""
    server = MariaDBServer(mariadb.programs)
    try:
        own = Sessions(server.make().start())
        database = own.database()
        own.copied(pa.table({"who": [1, 2], "ward": ["north"] * 2, "age": [5, 6]}), f"{database}.visits")
        own.close()
        columns = {name: COLUMNS[name] for name in ("ward", "age")}
        with Curator(declared(server, database, columns=columns), tmp_path / "one.ledger") as curator:
            engine = curator._context.engine  # type: ignore[attr-defined]
            with engine.check() as opened:
                server.kill()
                with pytest.raises(EngineFailed):
                    opened.rows("SELECT 1")  # type: ignore[attr-defined]
            before = curator.budget.remaining
            with pytest.raises(InvalidPolicy, match="cannot be reached"):
                curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=1)
            assert curator.budget.remaining == before
            server.start()
            assert curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=1).rows
    finally:
        server.remove()
        gc.collect()  # PyMySQL does not close a socket at which nobody answers


# Public tables, checking and inspection


def test_public_tables_are_carried_by_their_bytes(sessions: Sessions, visits: str) -> None:
    sessions.run(
        f"CREATE TABLE {visits}.zones (ward varchar(9), zone varchar(9) COLLATE utf8mb4_general_ci, size decimal(9,1),"
        " since date, till datetime) ENGINE = InnoDB",
        f"INSERT INTO {visits}.zones VALUES ('north', 'North', 1.5, '2020-01-01', NULL), ('south', 'north', 2, NULL,"
        " '2021-01-01 12:00:00')",
    )
    zones = Table("zones", sessions.server.address(visits, visits), public=True, relation="zones")
    policy = declared(sessions.server, visits)
    with closing(open_engine(replace(policy, tables={**policy.tables, "zones": zones}))) as engine:
        asked = "SELECT zone, COUNT(*), SUM(size) FROM visits JOIN zones USING (ward) GROUP BY zone"
        reading = _reading(engine, asked, Strategy.REWEIGHT)
        totals = dict(zip((key for (key,) in reading.groups), tuples(engine.read(reading, 7)), strict=True))
    assert set(totals) == {"North", "north"}
    assert totals["North"][0] == totals["north"][0] > 0


def test_an_owner_sees_what_limits_cost(sessions: Sessions, visits: str) -> None:
    columns = {**COLUMNS, "age": {"type": "integer", "bounds": [30, 50]}}
    policy = declared(sessions.server, visits, columns=columns)
    with open_inspector(policy) as inspector:
        figures = inspector.inspect("visits")
        assert (figures.rows, figures.units, figures.units_over_limit) == (120, 40, 40)
        assert (figures.columns["age"].clamped_low, figures.columns["age"].clamped_high) == (0.25, 0.225)
        assert inspector.lost_texts("visits", "ward", ["north"]) == {"north": 60}
        assert any("identified by its server" in remark for remark in inspector.remarks("visits"))


def test_a_stored_answer_is_reused_only_for_a_declared_version(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    for version, free in ((None, False), ("2024-06", True)):
        policy = declared(sessions.server, visits, version=version)
        with Curator(policy, tmp_path / f"{version}.ledger") as curator:
            curator.sql(BY_WARD).release(epsilon=1)
            assert curator.sql(BY_WARD).release(epsilon=1).receipt.free is free
