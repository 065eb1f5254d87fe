"""Statements that try to leave the catalog, or to stop it, are refused or bounded."""

from __future__ import annotations

import contextlib
import random
import re
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from server.postgres.catalog.captured import catalog, policy, statements
from sfumato.errors import Unsupported
from sfumato.server.postgres.catalog import answering, engine, engine_process, parsing
from sfumato.server.postgres.catalog.engine import CatalogDatabase
from sfumato.server.postgres.catalog.engine_process import count_letters
from sfumato.server.postgres.catalog.policy_rows import DatabaseAndUser

REFUSED = {
    "SELECT * FROM read_csv_auto('/etc/passwd')": "catalog-function",
    "SELECT * FROM read_csv('/etc/passwd')": "catalog-function",
    "SELECT * FROM read_text('/etc/passwd')": "catalog-function",
    "SELECT * FROM parquet_scan('/x')": "catalog-function",
    "SELECT * FROM pg_class, '/etc/passwd'": "catalog-relation",
    'SELECT * FROM "/etc/passwd"': "catalog-relation",
    "SELECT * FROM duckdb_settings()": "catalog-function",
    "SELECT * FROM main.sqlite_master": "catalog-relation",
    "SELECT * FROM catalog.pg_class": "catalog-relation",
    "SELECT * FROM functions.pg_get_keywords": "catalog-relation",
    "SELECT * FROM other.pg_catalog.pg_class": "catalog-relation",
    "SELECT * FROM pg_catalog.pg_authid": "catalog-relation",
    "SELECT getvariable('setting')": "catalog-function",
    "SELECT sf_may_read('SELECT')": "catalog-function",
    "SELECT public.version()": "catalog-function",
    "SELECT pg_read_file('/etc/passwd')": "catalog-function",
    "SELECT pg_sleep(100)": "catalog-function",
    "SELECT lo_import('/etc/passwd')": "catalog-function",
    "SELECT repeat('x', 1000000000)": "catalog-function",
    "SELECT error('x')": "catalog-function",
    "SELECT query('SELECT 1')": "catalog-function",
    "SELECT set_config('enable_external_access', 'true', false)": "catalog-setting",
    "SELECT * FROM generate_series(1, 1000000000000)": "catalog-series",
    "SELECT generate_series(1, 1e12)": "catalog-series",
    "SELECT generate_series(1, relnamespace) FROM pg_class": "catalog-series",
    "WITH RECURSIVE t AS (SELECT 'a' AS x UNION ALL SELECT x || x FROM t) SELECT length(x) FROM t": "catalog-recursion",
    "SELECT * FROM duckdb_tables, (WITH duckdb_tables AS (SELECT 1) SELECT 1) AS t": "catalog-relation",
    "SELECT (WITH duckdb_views AS (SELECT 1 AS a) SELECT a FROM duckdb_views), (SELECT sql FROM duckdb_views)": (
        "catalog-relation"
    ),
    "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables": "catalog-relation",
    "WITH a AS (SELECT * FROM duckdb_tables), duckdb_tables AS (SELECT 1) SELECT * FROM a": "catalog-relation",
    "WITH RECURSIVE duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables": "catalog-statement",
    'WITH "Duckdb_Tables" AS (SELECT 1) SELECT * FROM duckdb_tables': "catalog-relation",
    "SELECT * INTO t FROM pg_class": "catalog-construct",
    "SELECT * FROM pg_class FOR UPDATE": "catalog-construct",
    "SELECT * FROM pg_class TABLESAMPLE SYSTEM (10)": "catalog-construct",
    "SELECT 'x'::money_bag": "catalog-type",
    "SELECT 'nothing'::regclass": "catalog-relation",
    "SELECT $1": "catalog-parameter",
    "SELECT c FROM pg_class AS c": "catalog-record",
    "SELECT row(1, 2)": "catalog-function",
    "SELECT current_setting('no.such')": "catalog-statement",
    "SELECT nothing FROM pg_class": "catalog-statement",
    "SELECT relname OPERATOR(pg_catalog.<->) 'x' FROM pg_class": "catalog-operator",
    "COPY pg_class FROM '/etc/passwd'": "catalog-statement",
    "COPY pg_class TO '/tmp/x'": "catalog-statement",
    "PRAGMA database_list": "catalog-statement",
    "ATTACH '/tmp/x.db'": "catalog-statement",
    "INSTALL httpfs": "catalog-statement",
    "SELECT 1; DROP TABLE pg_class": "catalog-statement",
    "DROP TABLE pg_class": "catalog-statement",
    "INSERT INTO pg_class SELECT * FROM pg_class": "catalog-statement",
    "SELECT " + "(" * 3_000 + "1" + ")" * 3_000: "catalog-statement",
    "SELECT '" + "x" * 200_000 + "'": "catalog-statement",
    "SELECT " + "1+" * 10_000 + "1": "catalog-statement",
    "SELECT\0 1": "catalog-statement",
    "": "catalog-statement",
}


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:40].replace("\0", "NUL"))
def test_hostile_statements_are_refused_with_a_fix(sql: str) -> None:
    with pytest.raises(Unsupported) as refused:
        catalog().run(sql, ())
    assert refused.value.code == REFUSED[sql]
    assert refused.value.fix
    assert refused.value.place == "the statement"


@pytest.mark.parametrize("levels", [100, 400, 700, 1_000])
def test_deep_statements_are_answered_or_refused(levels: int) -> None:
    for sql in (f"SELECT 'a'{'::text' * levels}", f"SELECT {'(SELECT ' * levels}1{')' * levels}"):
        with contextlib.suppress(Unsupported):
            assert catalog().run(sql, ()).rows in ((("a",),), ((1,),))


def test_mutated_statements_are_answered_or_refused(*, long: bool) -> None:
    """Nothing but a refusal is raised for statements of clients with tokens removed, replaced and inserted."""
    generator = random.Random(43)
    texts = [re.findall(r"'[^']*'|\"[^\"]*\"|::|<>|!~|\|\||\$\d+|\w+|\S", each.sql) for each in statements()]
    tokens = [token for text in texts for token in text]
    for _ in range(3_000 if long else 60):
        index = generator.randrange(len(texts))
        mutated = list(texts[index])
        place = generator.randrange(len(mutated))
        mutated[place : place + generator.randrange(2)] = generator.choices(tokens, k=generator.randrange(2))
        sql, parameters = " ".join(mutated), statements()[index].parameters
        with contextlib.suppress(Unsupported):
            catalog().covers(sql)
            assert catalog().describe(sql, len(parameters)) == catalog().run(sql, parameters).columns


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TIME_LIMIT", 0.3)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_proc d WHERE a.attname < b.attname",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t",
        "SELECT array_agg(a.attname) FROM pg_attribute a, pg_attribute b, pg_attribute c",
    ],
)
def test_long_statements_end(sql: str) -> None:
    started = time.monotonic()
    with pytest.raises(Unsupported, match="catalog-statement"):
        catalog().run(sql, ())
    assert time.monotonic() - started < 30
    assert catalog().run("SELECT 2", ()).rows == ((2,),)


_DOUBLED = "SELECT 'abcdefgh' AS x"
for _ in range(27):
    _DOUBLED = f"SELECT x || x AS x FROM ({_DOUBLED}) AS s"
_REPLACED = "relname"
for _ in range(9):
    _REPLACED = f"replace({_REPLACED}, 'a', 'aaaaaaaaaa')"


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT length(x) FROM ({_DOUBLED}) AS s",
        f"SELECT length({_REPLACED}) FROM pg_class",
        "SELECT length(replace(x, 'x', x)) FROM (SELECT replace(x, 'x', x) AS x FROM (SELECT '"
        + "x" * 900
        + "' AS x) s) t, pg_class",
    ],
    ids=["doubled", "replaced", "squared"],
)
def test_texts_that_grow_do_not_fill_the_memory_of_the_server(sql: str) -> None:
    """DuckDB's own limit does not count them: they end at the limit of the process that they run in."""
    catalog().run("SELECT 1", ())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unsupported, match="catalog-statement"):
        catalog().run(sql, ())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000
    assert catalog().run("SELECT 3 AS answered", ()).rows == ((3,),)


def test_the_process_of_the_engine_has_a_limit_of_memory() -> None:
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    assert locked.fetch_rows("SELECT 1") == [(1,)]
    process = locked._engine._process
    assert process is not None
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    (limited,) = (line.split()[3] for line in limits.splitlines() if line.startswith("Max address space"))
    assert engine.MEMORY_LIMIT < int(limited) < 4 * engine.MEMORY_LIMIT


def test_an_engine_that_has_ended_is_replaced() -> None:
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    assert locked.fetch_rows("SELECT 1") == [(1,)]
    process = locked._engine._process
    assert process is not None
    process.kill()
    process.wait()
    assert locked.fetch_rows("SELECT 2") == [(2,)]
    locked._engine._ends_idle = 0.0  # idle for so long that it may end by itself at any moment
    replaced = locked._engine._process
    assert locked.fetch_rows("SELECT 3") == [(3,)]
    assert locked._engine._process is not replaced
    locked._engine.stop()


@pytest.mark.parametrize("failures", [1, 2])
def test_memory_that_statements_left_behind_stops_no_other(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose address space is at its limit is replaced; where a new one has too little as well, it is said."""
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    assert locked.fetch_rows("SELECT 1") == [(1,)]
    exhausted, exchange = locked._engine._process, engine._exchange_pickles
    replies = [engine_process.OUT_OF_MEMORY] * failures

    def exchanged(process: object, request: Any, seconds: float) -> object:
        is_statement = request[0] == "SELECT 2"
        return replies.pop() if replies and is_statement else exchange(process, request, seconds)

    monkeypatch.setattr(engine, "_exchange_pickles", exchanged)
    with pytest.raises(Unsupported) if failures == 2 else contextlib.nullcontext():
        assert locked.fetch_rows("SELECT 2") == [(2,)]
    assert not replies
    assert locked._engine._process is not exhausted
    locked._engine.stop()


LARGE = "SELECT length(string_agg(attname, ',')) FROM catalog.pg_attribute, generate_series(1, 2000)"


@pytest.mark.parametrize("megabytes", [0, 60, 68])
def test_a_statement_is_answered_after_others_used_up_the_address_space(megabytes: int) -> None:
    """Without a reserve no statement is begun; with little more, DuckDB notices it: a new process answers both."""
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    expected = locked.fetch_rows(LARGE)
    locked._engine.stop()
    assert locked.fetch_rows("SELECT 1") == [(1,)]
    exhausted = locked._engine._process
    assert exhausted is not None
    pages = int(Path(f"/proc/{exhausted.pid}/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + megabytes * 2**20
    resource.prlimit(exhausted.pid, resource.RLIMIT_AS, (size, size))
    assert locked.fetch_rows(LARGE) == expected
    assert locked._engine._process is not exhausted
    locked._engine.stop()


@pytest.mark.parametrize(("ended_by", "is_answered"), [(signal.SIGSEGV, True), (signal.SIGKILL, False)])
def test_a_process_that_dies_is_tried_once_more_but_not_one_that_is_killed(
    ended_by: signal.Signals, *, is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    assert locked.fetch_rows("SELECT 1") == [(1,)]
    exchange, ended = engine._exchange_pickles, locked._engine._process

    def end_and_exchange(process: Any, request: Any, seconds: float) -> object:
        if process is ended:
            process.send_signal(ended_by)
        return exchange(process, request, seconds)

    monkeypatch.setattr(engine, "_exchange_pickles", end_and_exchange)
    with contextlib.nullcontext() if is_answered else pytest.raises(Unsupported):
        assert locked.fetch_rows("SELECT 2") == [(2,)]
    locked._engine.stop()


def test_a_process_says_that_its_memory_is_at_an_end() -> None:
    class Exhausted:
        def execute(self, _: str) -> object:
            raise MemoryError

        def interrupt(self) -> None: ...

    limits = engine_process.StatementLimits(5.0, 10, 10)
    assert engine_process.run_with_limits(Exhausted(), "SELECT 1", limits) == engine_process.OUT_OF_MEMORY


def test_letters_in_arrays_are_counted() -> None:
    assert count_letters(("ab", ["c", None, ["de"]], {"x": "f"}, 7)) == 2 + (2 + 1 + 4) + 2 + 4
    sql = "SELECT array_agg(attname || attname || attname || attname) FROM pg_attribute, generate_series(1, 90)"
    with pytest.raises(Unsupported, match="4,000,000 characters"):
        catalog().run(sql, ())


def test_kept_answers_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MAX_CACHED_BYTES", 100_000)
    shared = answering._SharedAnswers(policy(), DatabaseAndUser("clinic", "kept"))
    computed: list[object] = []

    def text(key: str, letters: int) -> str:
        def compute() -> str:
            computed.append(key)
            return "x" * letters

        return shared.get_or_compute((key,), compute)

    for _ in range(2):
        assert len(text("short", 30_000)) == 30_000
        assert len(text("long", 70_000)) == 70_000
    assert computed == ["short", "long", "long"]
    for number in range(10):
        text(f"other {number}", 30_000)
    assert shared._cached_bytes == sum(size for _, size in shared._answers.values()) <= 100_000
    text("short", 30_000)
    assert computed[-1] == "short"


def test_the_database_of_a_user_is_opened_once() -> None:
    shared = answering._SharedAnswers(policy(), DatabaseAndUser("clinic", "opened"))
    opened: list[object] = []

    def open_slowly() -> CatalogDatabase:
        opened.append(None)
        time.sleep(0.05)
        return cast(CatalogDatabase, opened)

    shared._open = open_slowly
    with ThreadPoolExecutor(4) as pool:
        assert len({id(each) for each in pool.map(lambda _: shared.database, range(4))}) == 1
    assert len(opened) == 1


def test_an_answer_has_a_limit_of_rows() -> None:
    for sql in (
        "SELECT 1 FROM pg_attribute a, pg_attribute b",
        "SELECT string_agg(a.attname, ',') FROM pg_attribute a, pg_attribute b",
    ):
        with pytest.raises(Unsupported, match="at most 20,000 rows and 4,000,000 characters"):
            catalog().run(sql, ())


def test_the_database_itself_is_locked(tmp_path: Path) -> None:
    """Even SQL of our own cannot leave it: a second wall behind the lists."""
    (tmp_path / "x.csv").write_text("a\n1\n")
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    for sql in (f"SELECT * FROM read_csv('{tmp_path}/x.csv')", "SET threads = 2", "INSTALL httpfs", "LOAD httpfs"):
        with pytest.raises(Unsupported):
            locked.fetch_rows(sql)
    with pytest.raises(Unsupported):
        locked.fetch_rows(f"COPY (SELECT 1) TO '{tmp_path}/y.csv'")
    assert not (tmp_path / "y.csv").exists()


def test_every_listed_function_is_one_of_ours() -> None:
    """A name reaches DuckDB only with our prefix: all listed functions are macros, or rewritten."""
    locked = CatalogDatabase(policy(), DatabaseAndUser("clinic", "ana"))
    macros = {
        name
        for (name,) in locked.fetch_rows("SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal")
    }
    assert {parsing.MACRO_PREFIX + name for name in parsing.function_arities()} <= macros
    unsafe = {
        "read_csv",
        "read_csv_auto",
        "read_text",
        "glob",
        "query",
        "getvariable",
        "pg_read_file",
        "duckdb_settings",
    }
    assert not unsafe & (set(parsing.function_arities()) | parsing.REWRITTEN_FUNCTIONS)
