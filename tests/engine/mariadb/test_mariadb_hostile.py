"""Hostile cells, servers and accounts on MariaDB: texts with U+0000, tables that are rebuilt, settings and rights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")

from engine.mariadb.test_mariadb import COLUMNS, _reading, declared, read
from engine.on_mariadb import Sessions
from engine.tables import tuples
from mariadb_server import MariaDBServer
from sfumato.engine import self_test
from sfumato.engine.arrays import align_totals
from sfumato.engine.mariadb import connection, driver
from sfumato.engine.mariadb.connection import MariaDBSessions
from sfumato.engine.mariadb.driver import MariaDB
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.server_sessions import SessionPool
from sfumato.errors import EngineFailed, InvalidPolicy, SourceChanged, Unsupported
from sfumato.plan.limits import Strategy
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Budget, PrivacyUnit

NOTE = {"note": {"type": "text", "max_length": 9}}
COUNT_ROWS = "SELECT COUNT(*) FROM visits"


@pytest.fixture(scope="module")
def sessions(mariadb: MariaDBServer) -> Iterator[Sessions]:
    administrator = Sessions(mariadb)
    yield administrator
    administrator.close()


@pytest.fixture(autouse=True)
def _proved_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open tables without the proof of the server."""
    monkeypatch.setattr(self_test, "require_correct_results", lambda *_: None)
    monkeypatch.setattr(self_test, "_changes_case_alike", lambda *_: True)


@pytest.fixture
def visits(sessions: Sessions) -> str:
    """A database with a table of ten people with one row each."""
    database = sessions.database()
    sessions.copied(pa.table({"who": list(range(10)), "ward": ["north"] * 10}), f"{database}.visits")
    return database


def _open(sessions: Sessions, database: str, **more: Any) -> MariaDB:
    return MariaDB(declared(sessions.server, database, **{"columns": {"ward": COLUMNS["ward"]}, **more}))


# Texts with U+0000


@pytest.mark.parametrize("stored", ["varchar(20)", "char(20) COLLATE utf8mb4_bin", "varchar(20) CHARACTER SET latin1"])
def test_a_text_with_a_zero_is_null(sessions: Sessions, stored: str) -> None:
    """Sort keys of 'a' and 'a\\0' tie: interleaved rows of one person would split into many groups."""
    database = sessions.database()
    notes = [note for number in range(40) for note in ("a" if number % 2 else "a\0", "b\0c", "\0")]
    rows = pa.table({"who": [1] * len(notes), "note": notes})
    sessions.copied(rows, f"{database}.visits", {"note": stored})
    with closing(_open(sessions, database, columns=NOTE)) as engine:
        scan = engine.scans.text("visits")
        groups = engine.server.run(f"SELECT note, COUNT(*), COUNT(DISTINCT sf_unit) FROM ({scan}) AS r GROUP BY note")
        assert sorted(groups, key=str) == [("a", 20, 1), (None, 100, 1)]
        ranks = f"SELECT ROW_NUMBER() OVER (PARTITION BY sf_unit, note ORDER BY sf_unit) AS i FROM ({scan}) AS r"
        assert engine.server.run(f"SELECT COUNT(*) FROM ({ranks}) AS r WHERE i = 1") == [(2,)]
        for strategy in (Strategy.SAMPLE, Strategy.CLIP_L1, Strategy.CLIP_L2):
            for condition, bound in (("note = 'a'", 2), ("note IS NOT NULL", 2), ("note LIKE '%b%'", 0)):
                ((total,),) = read(engine, f"{COUNT_ROWS} WHERE {condition}", strategy=strategy)
                assert total / (1 if strategy is Strategy.SAMPLE else 2**20) <= bound, (strategy, condition)


def test_an_id_with_a_zero_is_nobody(sessions: Sessions) -> None:
    database = sessions.database()
    ids = ["a" if number % 2 else "a\0" for number in range(40)]
    rows = pa.table({"who": ids, "ward": ["north"] * 40})
    sessions.copied(rows, f"{database}.visits", {"who": "varchar(20)"})
    with closing(_open(sessions, database)) as engine:
        assert read(engine, COUNT_ROWS, strategy=Strategy.SAMPLE) == [(2,)]
        assert read(engine, "SELECT COUNT(DISTINCT who) FROM visits", strategy=Strategy.SAMPLE) == [(1,)]


def test_public_texts_with_a_zero_are_refused(sessions: Sessions, visits: str) -> None:
    """At opening; no text of a statement can hold one."""
    zones = Table("zones", pa.table({"ward": ["north"], "zone": ["a\0"]}), public=True)
    policy = declared(sessions.server, visits, columns={"ward": COLUMNS["ward"]})
    with pytest.raises(InvalidPolicy, match=r"U\+0000") as refusal:
        MariaDB(replace(policy, tables={**policy.tables, "zones": zones}))
    assert "tables.zones" in str(refusal.value)
    with pytest.raises(Unsupported, match=r"U\+0000"):
        driver.carried_scan(PublicRows(["zone"], [Type.TEXT], [["a\0"]]), [])


# Tables that are rebuilt, and servers that change

REBUILDS = (
    "ALTER TABLE {}.visits ENGINE = InnoDB",
    "OPTIMIZE TABLE {}.visits",
    "TRUNCATE TABLE {}.visits",
)


@pytest.mark.parametrize("rebuild", REBUILDS)
@pytest.mark.parametrize("held", [False, True])
def test_a_table_that_is_rebuilt_before_the_lock_is_read(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch, rebuild: str, held: bool
) -> None:
    """A snapshot begins after the locks, so none is older than the table."""
    engine = _open(sessions, visits)
    reading = _reading(engine, COUNT_ROWS, Strategy.SAMPLE)
    real = MariaDB.lock

    def lock(self: MariaDB, session: Any) -> None:
        sessions.run(rebuild.format(visits))
        real(self, session)

    monkeypatch.setattr(MariaDB, "lock", lock)
    count = 0 if rebuild.startswith("TRUNCATE") else 10
    with closing(engine):
        if held:
            with engine.open_snapshot() as snapshot:
                snapshot.check(reading).close()
                assert tuples(snapshot.read(reading, 7)) == [(count,)]
        else:
            with engine.check(reading) as opened:
                assert tuples(opened.read(reading, 7)) == [(count,)]


def test_a_partition_that_is_emptied_before_the_lock_is_read(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sessions.database()
    sessions.run(
        f"CREATE TABLE {database}.visits (who int, ward varchar(9)) PARTITION BY HASH (who) PARTITIONS 3",
        f"INSERT INTO {database}.visits VALUES (0, 'north'), (1, 'north'), (2, 'north')",
    )
    real = MariaDB.lock

    def lock(self: MariaDB, session: Any) -> None:
        sessions.run(f"ALTER TABLE {database}.visits TRUNCATE PARTITION p2")
        real(self, session)

    with closing(_open(sessions, database)) as engine:
        monkeypatch.setattr(MariaDB, "lock", lock)
        assert read(engine, COUNT_ROWS, strategy=Strategy.SAMPLE) == [(2,)]


def test_a_server_with_other_limits_is_another(sessions: Sessions, visits: str) -> None:
    """What the spelling was proved on, and the longest statement, are those of opening."""
    with closing(_open(sessions, visits)) as engine:
        sessions.run("SET GLOBAL max_allowed_packet = 33554432")
        try:
            engine.server._idle_sessions.clear()
            with pytest.raises(SourceChanged):
                engine.check()
        finally:
            sessions.run("SET GLOBAL max_allowed_packet = 16777216")
        engine.server._idle_sessions.clear()
        identity = engine.data(public=False)
        engine.check().close()
        engine._server_limits = ("10.11.1-MariaDB", engine._server_limits[1])
        assert engine.data(public=False)[0].address == identity[0].address
        with pytest.raises(SourceChanged):
            engine.check()


def test_a_server_that_takes_short_statements_alone_is_refused(sessions: Sessions, visits: str) -> None:
    sessions.run("SET GLOBAL max_allowed_packet = 4194304")
    try:
        with pytest.raises(InvalidPolicy, match="max_allowed_packet"):
            _open(sessions, visits)
    finally:
        sessions.run("SET GLOBAL max_allowed_packet = 16777216")


def test_settings_of_the_server_do_not_count(sessions: Sessions, visits: str) -> None:
    """Switches and sizes that its administrator turned off for all are as they are pinned."""
    hostile = {
        "optimizer_switch": "'derived_with_keys=off,join_cache_hashed=off,join_cache_incremental=off,semijoin=off'",
        "max_session_mem_used": "8192000",
        "standard_compliant_cte": "0",
        "tmp_memory_table_size": "1024",
        "big_tables": "1",
        "old_mode": "'ZERO_DATE_TIME_CAST'",
    }
    before = {name: sessions.run(f"SELECT @@GLOBAL.{name}")[0][0] for name in hostile}
    names = ", ".join(f"@@{name}" for name in hostile)
    with closing(MariaDBSessions(sessions.server.address(visits, visits), "here")) as server:
        usual = server.run(f"SELECT {names}")
    try:
        sessions.run(*(f"SET GLOBAL {name} = {value}" for name, value in hostile.items()))
        with closing(MariaDBSessions(sessions.server.address(visits, visits), "here")) as server:
            assert server.run(f"SELECT {names}") == usual
    finally:
        quoted = {name: f"'{value}'" if isinstance(value, str) else value for name, value in before.items()}
        sessions.run(*(f"SET GLOBAL {name} = {value}" for name, value in quoted.items()))


# Accounts and passwords


def test_an_account_with_any_other_right_is_refused(sessions: Sessions, visits: str) -> None:
    account = f"{visits}@localhost"
    sessions.run(f"CREATE USER other{visits}@localhost", f"CREATE PROCEDURE {visits}.p() SELECT 1")
    rights = {
        "GRANT OPTION": (f"GRANT SELECT ON {visits}.visits TO {account} WITH GRANT OPTION", f"ON {visits}.visits"),
        "PROXY": (f"GRANT PROXY ON other{visits}@localhost TO {account}", f"ON other{visits}@localhost"),
        "EXECUTE": (f"GRANT EXECUTE ON PROCEDURE {visits}.p TO {account}", f"ON PROCEDURE {visits}.p"),
        "UPDATE": (f"GRANT UPDATE (ward) ON {visits}.visits TO {account}", f"(ward) ON {visits}.visits"),
        "INSERT": (f"GRANT INSERT ON {visits}.visits TO PUBLIC", f"ON {visits}.visits"),
    }
    for right, (grant, target) in rights.items():
        sessions.run(grant)
        with pytest.raises(InvalidPolicy, match=right):
            _open(sessions, visits)
        grantee = "PUBLIC" if grant.endswith("PUBLIC") else account
        sessions.run(f"REVOKE {right} {target} FROM {grantee}")
    sessions.run(f"CREATE ROLE idle{visits}", f"GRANT idle{visits} TO {account}")
    with pytest.raises(InvalidPolicy, match="role"):
        _open(sessions, visits)
    sessions.run(f"DROP ROLE idle{visits}")
    _open(sessions, visits).close()


def test_an_account_may_read_odd_names(sessions: Sessions, visits: str) -> None:
    """A name cannot pass for a right; a password is not quoted."""
    account, table = f"{visits}@localhost", f'{visits}."x"" TO y, INSERT ON"'
    sessions.run(f'CREATE TABLE {table} ("a, b) ON c" int)', f'GRANT SELECT ("a, b) ON c") ON {table} TO {account}')
    sessions.run(f"GRANT SHOW DATABASES ON *.* TO {account} WITH MAX_USER_CONNECTIONS 50")
    _open(sessions, visits).close()


@pytest.mark.parametrize(
    "content", [b"password=hunter2\n[client]\n", b"[client\npassword=hunter2\n", b"[client]\npassword=hunter2\xff\n"]
)
def test_a_malformed_file_of_options_is_not_quoted(
    content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    (tmp_path / ".my.cnf").write_bytes(content)
    with pytest.raises(InvalidPolicy, match=r"my\.cnf") as refusal:
        connection._connection_options("mariadb://reader@localhost/clinic", "here")
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__context__ is None


# Ids


def test_single_precision_ids_are_exact_or_nobody(sessions: Sessions) -> None:
    """From 2^24 on a float of 32 bits stands for several whole numbers."""
    for stored in ("float", "float unsigned", "float unsigned zerofill", "double unsigned"):
        database = sessions.database()
        rows = pa.table({"who": [7.0, 2.0**24 + 2], "ward": ["north"] * 2})
        sessions.copied(rows, f"{database}.visits", {"who": stored})
        policy = replace(declared(sessions.server, database, columns={"ward": COLUMNS["ward"]}), id_type="integer")
        with closing(MariaDB(policy)) as engine:
            expected = 2 if stored.startswith("double") else 1
            assert read(engine, COUNT_ROWS, strategy=Strategy.SAMPLE) == [(expected,)], stored


@pytest.mark.parametrize("stored", ["double", "float", "float unsigned"])
def test_doubles_are_no_ids_of_a_period(sessions: Sessions, stored: str) -> None:
    """A unit of a period is a text, and two doubles may have one text."""
    database = sessions.database()
    sessions.run(f"CREATE TABLE {database}.visits (who {stored}, day date)")
    columns: dict[str, Any] = {"day": {"type": "date", "bounds": ["2000-01-01", "2030-01-01"]}}
    source = sessions.server.address(database, database)
    table = Table("visits", source, columns, id="who", max_rows=2, relation="visits")
    policy = Policy(PrivacyUnit("person", period="day", period_column="day"), Budget(500, "1e-6"), {"visits": table})
    with pytest.raises(InvalidPolicy, match="period"):
        MariaDB(policy)
    MariaDB(replace(policy, id_type="integer")).close()


# Interrupts, and totals of groups


class _Session:
    def rollback(self) -> None: ...

    def close(self) -> None: ...


class _StuckPool(SessionPool):
    """A pool at a server that answers no cancellation until it is told to."""

    server_name = "nowhere"

    def __init__(self) -> None:
        super().__init__("", "")
        self.cancelling, self.answers = threading.Event(), threading.Event()

    def open(self) -> _Session:
        return _Session()

    def begin(self, session: Any) -> None: ...

    def fetch(self, *_: Any) -> list[tuple[Any, ...]]:
        return []

    def run_in_savepoint(self, _: Any, action: Callable[[], Any]) -> Any:
        return action()

    def cancel(self, _: Any) -> None:
        self.cancelling.set()
        assert self.answers.wait(60)

    def is_alive(self, _: Any) -> bool:
        return True

    def guarded(self, _: Any, action: Any) -> Any:
        return action()


def test_a_cancellation_that_hangs_holds_up_nobody_else() -> None:
    """An interrupted session is not handed on, nor closed, before its cancellation ends."""
    pool = _StuckPool()
    slow = pool.take()
    worker = threading.Thread(target=pool.interrupt, args=(threading.get_ident(),))
    worker.start()
    assert pool.cancelling.wait(60)
    others = threading.Thread(target=pool.run, args=("SELECT 1",))
    others.start()
    others.join(20)
    given_back = threading.Thread(target=pool.give_back, args=(slow,))
    given_back.start()
    handed_on = threading.Thread(target=pool.assign_thread, args=(slow, 1))
    handed_on.start()
    given_back.join(0.2)
    try:
        assert not others.is_alive()
        assert given_back.is_alive()
    finally:
        pool.answers.set()
        for thread in (worker, others, given_back, handed_on):
            thread.join(60)
    assert slow not in pool._idle_sessions


def test_groups_that_arrive_twice_are_no_totals(sessions: Sessions, visits: str) -> None:
    """No engine returns one key in two rows; the last of them is not the total."""
    with closing(_open(sessions, visits)) as engine:
        reading = _reading(engine, "SELECT ward, COUNT(*) FROM visits GROUP BY ward", Strategy.SAMPLE)
    assert tuples(align_totals([("north", 3), ("south", 1)], reading)) == [(3,), (1,), (0,)]
    with pytest.raises(EngineFailed):
        align_totals([("north", 3), ("south", 1), ("north", 1)], reading)
