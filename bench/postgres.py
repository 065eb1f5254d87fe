"""The PostgreSQL wire beside a real PostgreSQL, in round trips on loopback, and beside REST.

Replies of Sfumato leave at ticks of 10 ms, so that pings do not show how busy it is: a round trip takes up to one tick
longer than its work. The CPU time of the server's process, which no tick adds to, is printed beside it.

Run with: .venv/bin/python bench/postgres.py
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
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

MOST_SECONDS = 300
ROUNDS = 200
QUESTION = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"
SETTINGS = "free_per_second = 1000000\nanswer_after = 0.001\nlog = '/dev/null'\n"
IDLE = 200


def main() -> None:
    signal.signal(signal.SIGALRM, stopped)
    signal.alarm(MOST_SECONDS)
    print(f"{'':<44}{'ours':>12}{'CPU':>12}{'against':>12}{'ratio':>8}  goal")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as ours, real_postgres() as theirs:
        compare("SELECT 1", ours, ours.run("SELECT 1"), theirs and theirs.run("SELECT 1"), "≤ 3")
        compare("connect with SCRAM", ours, ours.connect_once, theirs and theirs.connect_once, "≤ 3", 20)
        rest = ours.by_rest()
        compare("a stored answer, against REST", ours, ours.run(QUESTION), rest, "≤ 1.2")
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

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**self.keywords, options=self.options, autocommit=True)

    def connect_once(self) -> None:
        self.connect().close()

    def run(self, sql: str) -> Callable[[], object]:
        cursor = self.connect().cursor()
        return lambda: cursor.execute(sql).fetchall()

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


def idle(ours: Address) -> None:
    """Print what idle connections add to the memory of the server."""
    before = memory_of(ours.process)
    connections = [ours.connect() for _ in range(IDLE)]
    added = memory_of(ours.process) - before
    for each in connections:
        each.close()
    print(f"{f'{IDLE} idle connections':<44}{added / 1e6:>9.1f} MB{'':<32}  ≤ 50 MB")


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
        people.add_user("ana", "analyst", by="bench")
        token = people.new_token("ana", by="bench")[1]
    http, wire = free_port(), free_port()
    addresses = ["--listen", f"127.0.0.1:{http}", "--postgres", f"127.0.0.1:{wire}", "--settings", str(settings)]
    process = subprocess.Popen(
        [sys.executable, "-m", "sfumato", "serve", str(policy), *addresses], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        keywords = {"host": "127.0.0.1", "port": wire, "user": "ana", "password": token, "dbname": "flights"}
        yield Address(keywords, process.pid, f"http://127.0.0.1:{http}", "-c sfumato.epsilon=0.5")
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
