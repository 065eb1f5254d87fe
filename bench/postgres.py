"""The PostgreSQL wire beside a real PostgreSQL, in round trips on loopback, and beside REST.

Replies for which the curator is asked leave at ticks of 10 ms: such a round trip takes up to one tick longer than its
work. The CPU time of the server's process, which no tick adds to, is printed beside it.

Run with: .venv/bin/python bench/postgres.py
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sfumato as sf
from postgres_server import PostgresServer, installations
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.postgres import types
from sfumato.server.postgres.results import ResultColumn, StatementResult, copy_messages
from sfumato.server.postgres.statements import CopyFormat

MOST_SECONDS = 300
ROUNDS = 200
QUESTION = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"
SETTINGS = "free_per_second = 1000000\nanswer_after = 0.001\nlog = '/dev/null'\n"
IDLE = 200
CELLS = 1_000_000
JDBC = Path("/usr/share/java/postgresql.jar")
EMPTY_TABLE = "CREATE TABLE flights (tailnum text, day date, origin text, carrier text, delay bigint, distance bigint)"
"""A table like the example's, to be listed and not read."""
PSQL_STATEMENTS = (
    "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^({table})$' COLLATE pg_catalog.default "
    "AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3",
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_catalog.pg_attribute a "
    "WHERE a.attrelid = '{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
)
"""What psql sends for a table's columns, without its triggers, policies and publications."""


def main() -> None:
    signal.signal(signal.SIGALRM, stopped)
    signal.alarm(MOST_SECONDS)
    print(f"{'':<44}{'ours':>12}{'CPU':>12}{'against':>12}{'ratio':>8}  goal")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as ours, real_postgres() as theirs:
        compare("SELECT 1", ours, ours.run("SELECT 1"), theirs and theirs.run("SELECT 1"), "≤ 3")
        compare("connect with SCRAM", ours, ours.connect_once, theirs and theirs.connect_once, "≤ 3", 20)
        rest = ours.by_rest()
        compare("a stored answer, against REST", ours, ours.run(QUESTION), rest, "≤ 1.2")
        compare(r"psql \d flights", ours, ours.describe("flights"), theirs and theirs.describe("flights"), "≤ 5", 30)
        reflect(ours, theirs)
        jdbc_columns(ours, theirs)
        copy_cells(theirs)
        idle(ours)
    print(f"load of this machine: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


def stopped(*_: object) -> None:
    raise TimeoutError(f"this takes more than {MOST_SECONDS} seconds: the machine is too busy to measure on")


@dataclass
class Address:
    """Where a server is, and its process."""

    keywords: dict[str, Any]
    process: int
    http: str = ""
    options: str = ""
    other: Address | None = None
    """The same server for another user."""

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**self.keywords, options=self.options, autocommit=True)

    def connect_once(self) -> None:
        self.connect().close()

    def run(self, sql: str) -> Callable[[], object]:
        cursor = self.connect().cursor()
        return lambda: cursor.execute(sql).fetchall()

    def describe(self, table: str) -> Callable[[], object]:
        """Return a call that lists a table's columns as psql does, on a connection that stays open."""
        cursor = self.connect().cursor()
        statements = [sql.replace("{table}", table) for sql in PSQL_STATEMENTS]
        return lambda: [cursor.execute(sql).fetchall() for sql in statements]

    def by_rest(self) -> Callable[[], object]:
        client = httpx.Client(headers={"Authorization": f"Bearer {self.keywords['password']}"}, timeout=60)
        sent = {"kind": "questions", "spec": {"sql": QUESTION}, "price": {"epsilon": "0.5"}}
        numbers = iter(range(10**9))

        def ask() -> object:
            key = {"Idempotency-Key": f"bench-{next(numbers)}"}
            return client.post(f"{self.http}/v1/policies/flights/releases", json=sent, headers=key).raise_for_status()

        return ask


def compare(
    name: str,
    ours: Address,
    call: Callable[[], object],
    other: Callable[[], object] | None,
    goal: str,
    rounds: int = ROUNDS,
) -> None:
    """Print the median round trip and the CPU time of the server in it beside the other's round trip, taken in turns so
    that both meet the same load.
    """
    call()
    wall, cpu, other_wall = [], 0.0, []
    for _ in range(rounds):
        before = cpu_of(ours.process)
        wall.append(seconds(call))
        cpu += cpu_of(ours.process) - before
        if other is not None:
            other_wall.append(seconds(other))
    show(name, statistics.median(wall), cpu / rounds, statistics.median(other_wall) if other_wall else None, goal)


def show(name: str, wall: float, cpu: float, beside: float | None, goal: str) -> None:
    against = "" if beside is None else f"{beside * 1e3:>10.3f} ms{wall / beside:>7.1f}×"
    print(f"{name:<44}{wall * 1e3:>9.3f} ms{cpu * 1e3:>9.3f} ms{against:<20}  {goal}")


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def reflect(ours: Address, theirs: Address | None) -> None:
    """Print how long SQLAlchemy takes to list a table's columns, with an inspector that remembers nothing."""
    sys.path.append(f"{sys.prefix}/clients/python")
    try:
        import sqlalchemy
    except ImportError:
        print("SQLAlchemy is not installed (scripts/setup.sh gets it): reflecting is not measured")
        return

    def columns_of(server: Address) -> Callable[[], object]:
        engine = sqlalchemy.create_engine("postgresql+psycopg://", connect_args=server.keywords)
        connection = engine.connect()
        return lambda: sqlalchemy.inspect(connection).get_columns("flights")

    compare("SQLAlchemy reflects a table", ours, columns_of(ours), theirs and columns_of(theirs), "≤ 5", 30)


def jdbc_columns(ours: Address, theirs: Address | None) -> None:
    """Print how long JDBC takes to list a table's columns, measured in a Java process of its own."""
    if not JDBC.exists() or shutil.which("java") is None:
        print("JDBC is not installed (scripts/setup.sh gets it): getColumns is not measured")
        return

    def median(server: Address) -> float:
        keywords = server.keywords
        url = f"jdbc:postgresql://{keywords['host']}:{keywords['port']}/{keywords['dbname']}"
        source = Path(__file__).parent / "JdbcColumns.java"
        command = ["java", "-cp", str(JDBC), str(source), url, keywords["user"], keywords["password"], "flights", "100"]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    cpu = cpu_of(ours.process)
    wall = median(ours)
    show("JDBC getColumns", wall, (cpu_of(ours.process) - cpu) / 200, theirs and median(theirs), "≤ 5")


def copy_cells(theirs: Address | None) -> None:
    """Print the time of writing a result of a million cells as a binary COPY, without a network, beside the whole time
    of PostgreSQL's COPY of the same cells.
    """
    columns = tuple(ResultColumn(f"c{index}", types.INT8 if index % 2 else types.FLOAT8) for index in range(10))
    rows = [tuple(index + column if column % 2 else index / 7 for column in range(10)) for index in range(CELLS // 10)]
    result, form = StatementResult(columns, rows), CopyFormat("binary")
    ours = statistics.median(seconds(lambda: deque(copy_messages(result, form), 0)) for _ in range(3))
    beside = None if theirs is None else statistics.median(seconds(lambda: read_copy(theirs)) for _ in range(3))
    show(f"{CELLS:,} cells by binary COPY", ours, ours, beside, "≤ 2")


def read_copy(server: Address) -> None:
    numbers = ", ".join("g" if index % 2 else "g / 7.0::float8" for index in range(10))
    statement = f"COPY (SELECT {numbers} FROM generate_series(1, {CELLS // 10}) AS g) TO STDOUT (FORMAT binary)"
    with server.connect() as connection, connection.cursor().copy(statement) as copy:
        while copy.read():
            pass


def idle(ours: Address) -> None:
    """Print what idle connections add to the memory of the server."""
    before = memory_of(ours.process)
    connections = [who.connect() for who in (ours, ours.other or ours) for _ in range(IDLE // 2 - 5)]
    added = memory_of(ours.process) - before
    for each in connections:
        each.close()
    print(f"{f'{len(connections)} idle connections':<44}{added / 1e6:>9.1f} MB{'':<32}  ≤ 50 MB")


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def served(folder: Path) -> Iterator[Address]:
    """Serve the bundled example in a process of its own."""
    policy = sf.example(folder / "flights")
    settings = folder / "server.toml"
    settings.write_text(SETTINGS)
    with closing(PeopleFile(policy.parent / "sfumato.ledger.people")) as people:
        for name in ("ana", "ben"):  # one user has at most 100 connections
            people.add_user(name, "owner" if name == "ben" else "analyst", by="bench")
        token, other_token = (people.new_token(name, by="bench")[1] for name in ("ana", "ben"))
    http, wire = free_port(), free_port()
    addresses = ["--listen", f"127.0.0.1:{http}", "--postgres", f"127.0.0.1:{wire}", "--settings", str(settings)]
    process = subprocess.Popen(
        [sys.executable, "-m", "sfumato", "serve", str(policy), *addresses], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        keywords = {"host": "127.0.0.1", "port": wire, "user": "ana", "password": token, "dbname": "flights"}
        other = Address({**keywords, "user": "ben", "password": other_token}, process.pid)
        yield Address(keywords, process.pid, f"http://127.0.0.1:{http}", "-c sfumato.epsilon=0.5", other)
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
    return port


@contextmanager
def real_postgres() -> Iterator[Address | None]:
    """Run a PostgreSQL that asks for a password by SCRAM, if one is installed."""
    if not installations():
        print("PostgreSQL is not installed: nothing is compared with it")
        yield None
        return
    server = PostgresServer(installations()[0]).make()
    port = free_port()
    try:
        server.start()
        with psycopg.connect(server.address(), autocommit=True) as administrator:
            administrator.execute("CREATE ROLE ana LOGIN PASSWORD 'secret'")
            administrator.execute(EMPTY_TABLE)
        server.stop()
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all ana 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.port = port
        server.start(listen_addresses="127.0.0.1", port=str(port))
        keywords = {"host": "127.0.0.1", "port": port, "user": "ana", "password": "secret", "dbname": "postgres"}
        yield Address(keywords, server.postmaster)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
