"""A curator whose private tables are on a PostgreSQL server: what it reads, holds, refuses and tells."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from engine import test_dense_arrays as dense
from engine.on_postgres import Sessions
from engine.tables import tuples
from postgres_server import PostgresServer
from safety.test_clipped import counted
from safety.worlds import World, changes, question, text, world
from sfumato import Curator
from sfumato.cli import main
from sfumato.curator.checking import check
from sfumato.engine import public_tables, server_engine
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.opening import open_engine
from sfumato.engine.postgres import driver as postgres_driver
from sfumato.engine.postgres.connection import ServerSessions
from sfumato.engine.postgres.driver import Postgres
from sfumato.errors import (
    EngineClosed,
    EngineFailed,
    InvalidPolicy,
    SourceChanged,
    SourceTaken,
    Unanswered,
    Unsupported,
)
from sfumato.ledger import Ledger
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import Strategy, combined_key
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import ValueCounts
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.plan.values.functions import call
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit

COLUMNS = {
    "ward": {"values": ["north", "south", "west"]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "note": {"type": "text"},
}
SECRET = "cell-4711-secret"


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


@pytest.fixture
def visits(sessions: Sessions) -> str:
    """A table of 40 people with three rows each; its name with its schema."""
    relation = f"{sessions.schema()}.visits"
    rows = [(who, "north" if who % 2 else "south", 20 + who, SECRET) for who in range(40) for _ in range(3)]
    columns = zip(("who", "ward", "age", "note"), zip(*rows, strict=True), strict=True)
    sessions.copied(pa.table(dict(columns)), relation)
    return relation


def declared(server: PostgresServer, relation: str, **more: Any) -> Policy:
    columns = more.pop("columns", COLUMNS)
    own = {"id": "who", "max_rows": 2, **more}
    return _policy(Table("visits", own.pop("source", server.address()), columns, relation=relation, **own))


def _policy(*tables: Table, account: str | None = None) -> Policy:
    rows = any(table.every_row for table in tables)
    unit = PrivacyUnit("person", every_row=rows)
    return Policy(unit, Budget(500, "1e-6"), {table.name: table for table in tables}, account=account)


def read(engine: Postgres, asked: str, key: int = 7, strategy: Strategy | None = None) -> list[tuple[int, ...]]:
    return tuples(engine.read(_reading(engine, asked, strategy), key))


def _reading(engine: Any, asked: str, strategy: Strategy | None = None) -> GroupTotals:
    plan = question(engine, engine._policy, asked)
    made = candidate_bounded_plans(plan.query.plan, plan.limits, len(plan.groups))
    bounded = next(each for each in made if strategy in (None, each.strategy))
    return GroupTotals(bounded, tuple(plan.groups))


BY_WARD = "SELECT ward, COUNT(*), SUM(age) FROM visits GROUP BY ward"


def test_the_server_reads_the_same_sample_of_units(sessions: Sessions) -> None:
    """Of whole numbers, and of texts that a hash must take as they are."""
    ids = {pa.int64(): range(-50, 150), pa.string(): ["", "é", "e\u0301", "it's", "\\x41", *map(str, range(100))]}
    for kind, who in ids.items():
        made = World(True, (1, None, None), {"age": {"type": "integer", "bounds": [0, 9]}}, {}, {}, ())
        made = replace(made, stored={"who": kind, "age": pa.int64()})
        policy = made.policy([{"who": each, "age": 1} for each in who])
        server, here = sessions.engine(policy), DuckDB(policy, threads=1)
        reading = _reading(here, "SELECT COUNT(*) FROM people")
        sampled = replace(reading, bounded=replace(reading.bounded, sample=Fraction(1, 3)))
        counts = []
        for key in (combined_key(2**127 + 1, 5), combined_key(3, 5), combined_key(4, 5)):
            assert tuples(server.read(sampled, key)) == tuples(here.read(sampled, key))
            counts.append(tuples(here.read(sampled, key))[0][0])
        assert 0 < min(counts) < max(counts) < tuples(here.read(reading, 7))[0][0]
        here.close()
        server.close()


# Neighbours, and readings beyond totals


@pytest.mark.parametrize("seed", [2, 11])
def test_neighbours_on_the_server_differ_by_at_most_the_claim(sessions: Sessions, seed: int, long: bool) -> None:
    """Both relations, in every bounding: what is added in one table is replaced between two."""
    random = Random(seed)
    made = world(random)
    tables = made.tables(random, 60)
    chosen = ["", *random.sample([name for name in tables if name], 3)]
    engines = {name: sessions.engine(made.policy(tables[name])) for name in chosen}
    compared = 0
    for _ in range(6 if long else 3):
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
    assert compared > 50


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE])
def test_marginals_and_values_are_those_of_duckdb(sessions: Sessions, strategy: Strategy) -> None:
    with_ids = strategy is not Strategy.WHOLE
    own = dense.engine(dense.rows(3), units=with_ids)
    server = sessions.engine(own._policy)
    reading = dense.marginals(strategy)
    for asked in (reading, *(replace(reading, sets=sets) for sets in dense.FEWER_CELLS)):
        for one, other in zip(own.read(asked, 7), server.read(asked, 7), strict=True):
            assert (one == other).all()
    cells = CellRows(reading.bounded, dense.CELLS, reading.sets)
    first, second = (each.read(cells, 7) for each in (own, server))
    for columns in cells.sets:
        assert (first.marginal(columns) == second.marginal(columns)).all()
    if strategy is not Strategy.REWEIGHT:

        def measures(fields: Any) -> tuple[Any, ...]:
            return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))

        groups = (("f",), ("m",), (None,))
        values = ValueCounts(dense.bounded(own, strategy, ("sex",), measures, 3), groups)
        one, other = own.read(values, 7), server.read(values, 7)
        for part in ("group", "steps", "counts"):
            assert (getattr(one, part) == getattr(other, part)).all()
    own.close()
    server.close()


# One transaction from the check to the totals


def test_what_limits_and_bounds_cut_is_counted_as_on_duckdb(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    """40 people of 20 to 59, with three rows each of which two count: ten are below 30, and nine above 50."""
    columns = {**COLUMNS, "age": {"type": "integer", "bounds": [30, 50]}}
    text = "SELECT ward, AVG(age) AS age FROM visits GROUP BY ward"
    counts = counted(declared(sessions.server, visits, columns=columns), tmp_path / "ledger", text)
    assert {name: count.totals for name, count in counts.items()} == {
        "more than 2 rows": ((40, 0),),
        "age outside 30…50": ((38, 42),),
    }


def test_what_is_checked_is_what_is_read(sessions: Sessions, visits: str) -> None:
    """A table that is altered or filled between the check and the reading waits, or is not seen."""
    engine = Postgres(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    before = tuples(engine.read(reading, 7))
    altered = threading.Event()

    def alter() -> None:
        sessions.server.execute(f"ALTER TABLE {visits} RENAME COLUMN ward TO hall")
        altered.set()

    with engine.check(reading) as opened:
        sessions.run(f"INSERT INTO {visits} SELECT 900 + i, 'west', 5, '' FROM generate_series(1, 50) AS i")
        worker = threading.Thread(target=alter)
        worker.start()
        end = time.monotonic() + 120
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        while not sessions.run(waiting)[0][0]:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert not altered.is_set()
        assert tuples(opened.read(reading, 7)) == before
        assert not altered.is_set()
    worker.join(120)
    assert altered.is_set()
    with pytest.raises(SourceChanged):
        engine.check(reading)
    engine.close()


def test_a_table_that_takes_the_place_of_another_is_not_read(sessions: Sessions, visits: str) -> None:
    """Renaming a schema waits for no lock of its tables. What was charged fails, and nothing is charged after that."""
    schema = visits.partition(".")[0]
    other = sessions.schema()
    sessions.run(f"CREATE TABLE {other}.visits AS SELECT who::numeric / 7 AS who, ward, age, note FROM {visits}")
    with contextlib.closing(Postgres(declared(sessions.server, visits))) as engine:
        reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
        with engine.check(reading) as opened, engine.open_snapshot() as held:
            held.check(reading)
            sessions.run(f"ALTER SCHEMA {schema} RENAME TO {schema}_old", f"ALTER SCHEMA {other} RENAME TO {schema}")
            with pytest.raises(EngineFailed):
                opened.read(reading, 7)
            with pytest.raises(SourceChanged):
                held.check(reading)
            with pytest.raises(SourceChanged):
                engine.check(reading)


def test_a_snapshot_holds_the_rows_of_its_first_reading(sessions: Sessions, visits: str) -> None:
    engine = Postgres(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    with engine.open_snapshot() as held:
        held.check(reading).close()
        before = tuples(held.read(reading, 7))
        sessions.run(f"DELETE FROM {visits} WHERE who > 5")
        assert tuples(held.read(reading, 7)) == before
    assert tuples(engine.read(reading, 7)) != before
    with pytest.raises(EngineClosed):
        held.read(reading, 7)
    engine.close()
    with pytest.raises(EngineClosed):
        engine.check(reading)


def test_nothing_but_totals_of_groups_arrives(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However many rows a table has, as many arrive as there are groups; of ranks as many as there are values."""
    arrived: list[int] = []
    real = server_engine.arrays_from_rows
    monkeypatch.setattr(
        server_engine, "arrays_from_rows", lambda rows, own: arrived.append(len(rows)) or real(rows, own)
    )
    sessions.run(f"INSERT INTO {visits} SELECT i, 'west', i % 3, '' FROM generate_series(1000, 6000) AS i")
    engine = Postgres(declared(sessions.server, visits))
    for strategy in Strategy:
        if strategy not in (Strategy.WHOLE, Strategy.MATCH):
            read(engine, BY_WARD, strategy=strategy)
    assert max(arrived) <= 3
    with warnings.catch_warnings(), Curator(declared(sessions.server, visits), tmp_path / "one.ledger") as curator:
        warnings.simplefilter("ignore")
        curator.sql("SELECT MEDIAN(age) FROM visits").release(epsilon=50)
        assert arrived[-1] <= 101
    engine.close()
    listed = {**COLUMNS, "age": {"type": "integer", "values": list(range(101))}}
    with Curator(declared(sessions.server, visits, columns=listed), tmp_path / "two.ledger") as curator:
        curator.marginals("visits", [["ward"], ["age"]]).release(epsilon=5)
    assert arrived[-1] <= 4 + 102  # not one for each of their combinations


def test_a_failure_after_the_charge_is_the_one_refusal(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server ends the session of a release that has been charged: no cause is told, and the charge stands."""
    real = ServerSessions.rows

    def ended(server: ServerSessions, session: Any, statement: str, parameters: Any = ()) -> Any:
        if not statement.startswith("EXPLAIN") and "SUM(" in statement:
            session.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return real(server, session, statement, parameters)

    with Curator(declared(sessions.server, visits), tmp_path / "one.ledger") as curator:
        spent = curator.budget.remaining
        monkeypatch.setattr(ServerSessions, "rows", ended)
        with pytest.raises(Unanswered) as refusal:
            curator.sql("SELECT SUM(age) FROM visits").release(epsilon=1)
        assert refusal.value.__cause__ is None
        assert curator.budget.remaining != spent
        monkeypatch.setattr(ServerSessions, "rows", real)
        assert curator.sql("SELECT SUM(age) FROM visits").release(epsilon=1).rows  # a new session is taken


def test_a_slow_reading_is_interrupted(sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that would run for ten minutes is cancelled at the server, and only that of the thread named."""
    real = ServerSessions.rows
    engine = Postgres(declared(sessions.server, visits))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    outcome: list[BaseException] = []

    def slow(server: ServerSessions, session: Any, statement: str, parameters: Any = ()) -> Any:
        if threading.current_thread() is worker and not statement.startswith("EXPLAIN") and "SUM(" in statement:
            session.execute("SELECT pg_sleep(600)")
        return real(server, session, statement, parameters)

    def work() -> None:
        try:
            engine.read(reading, 7)
        except EngineFailed as error:
            outcome.append(error)

    worker = threading.Thread(target=work)
    monkeypatch.setattr(ServerSessions, "rows", slow)
    worker.start()
    running = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(%'"
    end = time.monotonic() + 200
    while not sessions.run(running):
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
    engine = Postgres(declared(sessions.server, visits))
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


# Collations, and types of their own


@pytest.mark.parametrize("kind", ["text COLLATE blind", "citext", "char(9)", "varchar(9)", "label"])
def test_texts_are_told_apart_by_their_bytes(sessions: Sessions, kind: str) -> None:
    """One more row of another spelling moves no group by more than one, and ids that differ in case are two units."""
    schema = sessions.schema()
    sessions.run(
        "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public",
        f"CREATE COLLATION {schema}.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE TYPE {schema}.label AS ENUM ('NORTH', 'north', 'A', 'a')",
    )
    stored = (
        kind.replace("blind", f"{schema}.blind").replace("label", f"{schema}.label").replace("citext", "public.citext")
    )
    found = []
    for place, extra in enumerate(("", "('A', 'NORTH'), ")):
        relation = f"{schema}.visits{place}"
        sessions.run(
            f"CREATE TABLE {relation} (who {stored}, ward {stored})",
            f"INSERT INTO {relation} VALUES {extra}" + ", ".join(["('a', 'north')"] * 5),
        )
        columns = {"ward": {"values": ["north", "south"]}}
        engine = Postgres(declared(sessions.server, relation, columns=columns, max_rows=3))
        found.append([read(engine, "SELECT ward, COUNT(*) FROM visits GROUP BY ward", strategy=Strategy.SAMPLE)])
        found[-1].append(read(engine, "SELECT COUNT(DISTINCT who) FROM visits", strategy=Strategy.SAMPLE))
        engine.close()
    assert found[0] == [[(3,), (0,)], [(1,)]]
    assert found[1] == [[(3,), (0,)], [(2,)]]


def test_a_public_table_with_a_collation_names_its_own_groups(sessions: Sessions, visits: str) -> None:
    """A public table on the server itself is carried by its bytes."""
    schema = visits.partition(".")[0]
    sessions.run(
        f"CREATE COLLATION {schema}.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE TABLE {schema}.zones (ward text, zone text COLLATE {schema}.blind, size numeric, since date)",
        f"INSERT INTO {schema}.zones VALUES ('north', 'North', 1.5, '2020-01-01'), ('south', 'north', NULL, NULL)",
    )
    zones = Table("zones", sessions.server.address(), public=True, relation=f"{schema}.zones")
    policy = declared(sessions.server, visits)
    engine = open_engine(replace(policy, tables={**policy.tables, "zones": zones}))
    asked = "SELECT zone, COUNT(*), SUM(size) FROM visits JOIN zones USING (ward) GROUP BY zone"
    reading = _reading(engine, asked, Strategy.REWEIGHT)
    totals = dict(zip((key for (key,) in reading.groups), tuples(engine.read(reading, 7)), strict=True))
    assert set(totals) == {"North", "north"}
    assert totals["North"][0] == totals["north"][0] > 0
    assert totals["north"][1] == 0 < totals["North"][1]
    assert engine.data(public=True)[0].address.rpartition("/")[2] == f"{schema}.zones"
    engine.close()


def test_public_tables_are_carried_up_to_a_limit(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_tables, "MAX_CARRIED_ROWS", 3)
    policy = declared(sessions.server, visits)
    for rows in (3, 4):
        held = pa.table({"ward": ["north"] * rows, "weight": list(range(rows))})
        both = replace(policy, tables={**policy.tables, "wards": Table("wards", held, public=True)})
        if rows == 3:
            engine = Postgres(both)
            asked = "SELECT COUNT(*), SUM(weight) FROM visits JOIN wards USING (ward)"
            assert read(engine, asked, strategy=Strategy.REWEIGHT)[0][0] > 0
            engine.close()
        else:
            with pytest.raises(InvalidPolicy, match="at most 3 rows"):
                Postgres(both)


def test_every_stored_type_is_read_as_it_is_declared(sessions: Sessions) -> None:
    """Numbers of every size, infinite ones and none, dates beyond the calendar, texts of numbers: as DuckDB reads."""
    relation = f"{sessions.schema()}.visits"
    sessions.run(
        f"CREATE DOMAIN {relation.replace('visits', 'small')} AS smallint",
        f"CREATE TABLE {relation} (a numeric, b real, c {relation.replace('visits', 'small')}, d date, e timestamptz, "
        "f text, g boolean)",
        f"INSERT INTO {relation} VALUES ('NaN', 'NaN', 1, 'infinity', 'infinity', 'inf', true),"
        "('Infinity', '-Infinity', -32768, '-infinity', '-infinity', '-1e999', false),"
        "(1e400, 3e38, 5, '0044-03-15 BC', '2024-01-01 23:30-02', '1e-400', NULL),"
        "(-7.5, 7, 7, '5874897-12-31', '294276-12-31', ' 7 ', true), (1e-400, 0.5, 0, '2024-02-29', NULL, '7.0', true),"
        "(-99, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    columns = {
        "a": {"type": "real", "bounds": [-10, 10], "grid": "0.5"},
        "b": {"type": "integer", "bounds": [-9, 9]},
        "c": {"type": "integer", "bounds": [0, 6]},
        "d": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "e": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "f": {"type": "integer", "bounds": [-20, 20]},
        "g": {"type": "integer", "bounds": [0, 5]},
    }
    engine = Postgres(declared(sessions.server, relation, columns=columns, id="row", max_rows=None))
    asked = "SELECT SUM(a), COUNT(a), SUM(b), COUNT(b), SUM(c), SUM(f), COUNT(f), SUM(g), COUNT(g) FROM visits"
    (totals,) = read(engine, asked)
    # a: 10, 10, −7.5, 0, −10 in halves; b: −9, 9, 7 (0.5 is not whole); c: 1, 0, 5, 6, 0; f: 20, −20, 0, 7, 7
    assert totals == (5, 5, 7, 3, 12, 14, 5, 3, 4)
    assert read(engine, "SELECT COUNT(*) FILTER (WHERE a = -10), COUNT(*) FILTER (WHERE a = 10) FROM visits") == [
        (1, 2)
    ]
    days = "SELECT COUNT(*) FILTER (WHERE d = DATE '2024-12-31'), COUNT(*) FILTER (WHERE d = DATE '2024-01-01'), "
    days += "COUNT(*) FILTER (WHERE e = DATE '2024-01-02'), COUNT(e) FROM visits"
    assert read(engine, days) == [(2, 2, 1, 4)]
    engine.close()


# Partitions, views, and what a source is known by


def test_one_source_has_one_address_whatever_it_is_called(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    """A view, a partition and another host name of the same rows are those rows: no second account may have them."""
    schema = visits.partition(".")[0]
    sessions.run(
        f"CREATE TABLE {schema}.parts (LIKE {visits}) PARTITION BY LIST (ward)",
        f"CREATE TABLE {schema}.north PARTITION OF {schema}.parts FOR VALUES IN ('north')",
        f"CREATE TABLE {schema}.others PARTITION OF {schema}.parts DEFAULT",
        f"INSERT INTO {schema}.parts SELECT * FROM {visits}",
        f"CREATE VIEW {schema}.seen AS SELECT * FROM {schema}.parts",
        f"CREATE VIEW {schema}.again AS SELECT * FROM {schema}.seen WHERE age > 0",
    )
    other_name = sessions.server.address(application_name="another")
    ledger = Ledger.open(tmp_path / "one.ledger")
    first = replace(declared(sessions.server, f"{schema}.parts"), account="first")
    with Curator(first, ledger):
        pass
    for relation, source in ((f"{schema}.north", None), (f"{schema}.again", None), (f"{schema}.parts", other_name)):
        second = declared(sessions.server, relation, **({"source": source} if source else {}))
        with pytest.raises(SourceTaken), Curator(replace(second, account="second"), ledger):
            pass
    with Curator(replace(declared(sessions.server, visits), account="third"), ledger):
        pass
    engines = [Postgres(declared(sessions.server, each)) for each in (visits, f"{schema}.parts", f"{schema}.again")]
    assert len({tuple(read(each, BY_WARD, strategy=Strategy.REWEIGHT)) for each in engines}) == 1
    for each in engines:
        each.close()
    ledger.close()


def test_a_stored_answer_is_reused_only_for_a_declared_version(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    for version, free in ((None, False), ("2024-06", True)):
        policy = replace(declared(sessions.server, visits, version=version), account=f"of {version}")
        with Curator(policy, tmp_path / f"{version}.ledger") as curator:
            answers = [curator.sql("SELECT COUNT(*) FROM visits").release(epsilon=1) for _ in range(2)]
            assert answers[1].receipt.free is free


def test_a_view_or_type_that_changed_is_noticed(sessions: Sessions, visits: str) -> None:
    view = visits.replace("visits", "seen")
    sessions.run(f"CREATE VIEW {view} AS SELECT * FROM {visits}")
    engine = Postgres(declared(sessions.server, view))
    reading = _reading(engine, BY_WARD, Strategy.REWEIGHT)
    engine.check(reading).close()
    sessions.run(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {visits} WHERE age < 30")
    with pytest.raises(SourceChanged):
        engine.check(reading)
    engine.close()


# What an owner is told


def test_a_check_tells_of_writing_views_and_versions(sessions: Sessions, visits: str, tmp_path: Path) -> None:
    schema = visits.partition(".")[0]
    sessions.run(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO reader",
        f"GRANT SELECT ON {visits} TO reader",
    )
    policy = declared(sessions.server, visits)
    told = check(policy).tables[0]
    assert [each.partition(" ")[0] for each in told.remarks] == ["The", "No"]
    assert told.costs is not None
    assert (told.costs.rows, told.costs.units, told.costs.units_over_limit) == (120, 40, 40)
    quiet = declared(sessions.server, visits, source=sessions.server.address(user="reader"), version="1")
    assert check(quiet).tables[0].remarks == ()
    file = tmp_path / "clinic.toml"
    file.write_text(
        '[unit]\nname = "person"\nbudget = { epsilon = 3.0 }\n[tables.visits]\n'
        f'source = "{sessions.server.address(user="reader")}"\nrelation = "{visits}"\nid = "who"\nmax_rows = 2\n'
        'version = "2024-06"\n[tables.visits.columns]\nward = { values = ["north", "south"] }\n'
    )
    for command in ("check", "describe"):
        done = CliRunner().invoke(main, [command, str(file)])
        assert done.exit_code == 0, done.output
        assert "ward" in done.output


# Refusals


def _refused(policy: Policy) -> InvalidPolicy:
    with pytest.raises(InvalidPolicy) as refusal:
        open_engine(policy)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None
    return refusal.value


def test_what_is_not_there_is_refused(sessions: Sessions, visits: str) -> None:
    server, schema = sessions.server, visits.partition(".")[0]
    gone = "postgresql:///postgres?host=/nowhere/at/all"
    assert "cannot be reached" in str(_refused(declared(server, visits, source=gone)))
    assert "no such database" in str(_refused(declared(server, visits, source=server.address("nothing"))))
    assert "no such table" in str(_refused(declared(server, f"{schema}.nothing")))
    assert "did you mean note" in str(_refused(declared(server, visits, columns={"not": {"type": "text"}})))
    assert "named by its schema and its name" in str(_refused(declared(server, "a.b.c")))
    ceiling = _refused(declared(server, visits, row_ceiling=119))
    assert "row_ceiling" in str(ceiling)
    open_engine(declared(server, visits, row_ceiling=120)).close()


def test_what_may_not_be_read_is_refused(sessions: Sessions, visits: str) -> None:
    server, schema = sessions.server, visits.partition(".")[0]
    sessions.run("DROP ROLE IF EXISTS nobody_here", "CREATE ROLE nobody_here LOGIN")
    source = server.address(user="nobody_here")
    assert "may not read the whole table" in str(_refused(declared(server, visits, source=source)))
    sessions.run(
        f"GRANT USAGE ON SCHEMA {schema} TO nobody_here",
        f"GRANT SELECT ON {visits} TO nobody_here",
        f"ALTER TABLE {visits} ENABLE ROW LEVEL SECURITY",
    )
    assert "row security" in str(_refused(declared(server, visits, source=source)))
    engine = Postgres(declared(server, visits))  # its owner sees all rows
    engine.close()
    sessions.run("DROP OWNED BY nobody_here", "DROP ROLE nobody_here")


def test_a_database_in_another_encoding_is_refused(sessions: Sessions) -> None:
    sessions.run(
        "DROP DATABASE IF EXISTS old",
        "CREATE DATABASE old ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    )
    assert "UTF8" in str(_refused(declared(sessions.server, "t", source=sessions.server.address("old"))))


def test_a_type_without_text_and_lists_are_refused(sessions: Sessions) -> None:
    relation = f"{sessions.schema()}.visits"
    sessions.run(f"CREATE TABLE {relation} (who int, place point, prices numeric, tags text[])")
    for column, words in (("place", "stored as point"), ("tags", r"stored as text[]"), ("prices", "stored as numeric")):
        refusal = _refused(declared(sessions.server, relation, columns={column: {"type": "text"}}))
        assert words in str(refusal)


def test_a_foreign_or_temporary_table_is_no_source(sessions: Sessions) -> None:
    schema = sessions.schema()
    sessions.run(
        "CREATE EXTENSION IF NOT EXISTS postgres_fdw",
        "CREATE SERVER IF NOT EXISTS away FOREIGN DATA WRAPPER postgres_fdw",
        f"CREATE FOREIGN TABLE {schema}.far (who int, ward text) SERVER away",
        f"CREATE VIEW {schema}.seen AS SELECT * FROM {schema}.far",
    )
    for relation in ("far", "seen"):
        refusal = _refused(declared(sessions.server, f"{schema}.{relation}", columns={"ward": {"type": "text"}}))
        assert "table" in str(refusal)


def test_over_a_network_a_certificate_is_verified(sessions: Sessions, visits: str) -> None:
    refusal = _refused(declared(sessions.server, visits, source="postgresql://db.example/clinic?sslmode=require"))
    assert "certificate must be verified" in str(refusal)


@pytest.mark.parametrize(
    ("source", "more", "words"),
    [
        ("postgresql://ana:hidden@host/clinic", {"relation": "t"}, "must not contain a password"),
        ("postgresql://host/clinic?password=hidden", {"relation": "t"}, "must not contain a password"),
        ("postgresql://host/clinic", {}, "needs the name of its table"),
        ("postgresql://host/clinic", {"relation": "t", "format": "parquet"}, "which is not read from a file"),
        ("oracle://host/clinic", {"relation": "t"}, "on a PostgreSQL, MariaDB or Spark server"),
        ("sc://host:15002", {}, "a catalog table (relation) or files"),
        ("sc://host:15002", {"relation": "t", "path": "/data"}, "a catalog table (relation) or files"),
        ("sc://host:15002", {"path": "/data"}, "need a format"),
        ("sc://host:15002/;token=hidden", {"relation": "t"}, "must not contain a password"),
        ("sc://host:15002/;x_key=hidden", {"relation": "t"}, "user_id"),
        ("sc://host:15002 /", {"relation": "t"}, "sc://host:15002"),
        ("postgresql://host/clinic?options=hidden", {"relation": "t"}, "application_name"),
        ("t.parquet", {"version": "7"}, "only be set for a table on a server"),
    ],
)
def test_a_source_that_is_none_is_refused(source: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPolicy) as refusal:
        Table("t", source, {"a": {"type": "integer"}}, id="row", **more)
    assert words in str(refusal.value)
    assert "hidden" not in str(refusal.value)


def test_private_tables_live_in_one_engine(sessions: Sessions, visits: str) -> None:
    own = declared(sessions.server, visits).tables["visits"]
    other = Table("more", pa.table({"who": [1]}), {"who": {"type": "integer"}}, id="who", max_rows=1)
    elsewhere = Table("more", "postgresql://host/other", {"a": {"type": "integer"}}, id="who", max_rows=1, relation="t")
    for each in (other, elsewhere):
        with pytest.raises(InvalidPolicy, match="must be in one engine"):
            _policy(own, each)


def test_no_refusal_of_a_question_depends_on_cells(sessions: Sessions, visits: str) -> None:
    """A text with U+0000 is none that PostgreSQL has; letters cannot be turned where no collation does it."""
    engine = Postgres(declared(sessions.server, visits))
    engine.spelling = replace(engine.spelling, letters=None)
    with pytest.raises(Unsupported, match="one to one"):
        engine.check(_reading(engine, "SELECT COUNT(*) FROM visits WHERE UPPER(note) = 'X'"))
    engine.close()


def test_a_pool_that_keeps_settings_is_refused(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_driver.ServerSessions.__init__.__globals__["_SETTINGS"], "no_such_setting", "on")
    assert "settings" in str(_refused(declared(sessions.server, visits)))
