"""What the server adds to a curator, in CPU time of its process: free questions, stored answers, two processes.

Everything runs on loopback, in processes of its own that are ended at the end, and stops by itself after five minutes.

Run with: .venv/bin/python bench/server.py
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
from timing import cpu_seconds, installed

import sfumato as sf
from sfumato.server.people import Role
from sfumato.server.people_file import PeopleFile

MOST_SECONDS = 300
ROUNDS, EACH = 3, 25
QUESTION = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"
SETTINGS = "free_per_second = 1000000\nanswer_after = 0.001\nlog = '/dev/null'\n"
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    signal.signal(signal.SIGALRM, stopped)  # an error, so that whatever was started is ended
    signal.alarm(MOST_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        policy = sf.example(Path(folder, "flights"))
        settings = Path(folder, "server.toml")
        settings.write_text(SETTINGS)
        figures(policy, settings)
    print(f"load of this machine: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


def stopped(*_: object) -> None:
    raise TimeoutError(f"this takes more than {MOST_SECONDS} seconds: the machine is too busy to measure on")


def figures(policy: Path, settings: Path) -> None:
    """Print every figure beside its goal."""
    print(f"{'':<62}{'ours':>12}  {'against':>12}  {'ratio':>7}  goal")
    with served(policy, settings, 1) as server:
        server.ask("release", epsilon="0.5")
        empty = server.cpu(server.empty)
        plain = datasette(policy)
        with sf.Curator(policy) as curator:
            view = curator.as_analyst("ana")
            inside = {
                "price": per_call(lambda: view.sql(QUESTION).price(within=500)),
                "release": per_call(lambda: view.sql(QUESTION).release(epsilon="0.5")),
            }
        for act, named, price in (
            ("price", "a price", {"within": 500}),
            ("release", "a stored answer", {"epsilon": "0.5"}),
        ):
            found = server.cpu(lambda act=act, price=price: server.ask(act, **price))
            told(f"{named}, against empty route + 1.3 × in-process", found, empty + 1.3 * inside[act], "≤ 1.0")
            if plain is not None:
                told(f"{named}, against Datasette's JSON of the plain query", found, plain, "≤ 1.0")
        told("(an empty route)", empty, empty, "")
        one = throughput(server)
        connecting(server)
    with served(policy, settings, 2) as server:
        two = throughput(server)
    name = "free questions a second: two processes against one"
    print(f"{name:<62}{two:>10.0f}/s  {one:>10.0f}/s  {two / one:>7.2f}  ≥ 1.6", flush=True)
    pictures()


def told(name: str, ours: float, theirs: float, goal: str) -> None:
    print(f"{name:<62}{ours * 1e3:>9.3f} ms  {theirs * 1e3:>9.3f} ms  {ours / theirs:>7.2f}  {goal}", flush=True)


# ── a server in processes of its own ───────────────────────────────────────────────────────────


class Server:
    """A server that runs, and a client that calls it."""

    def __init__(self, url: str, token: str, process: subprocess.Popen[str]) -> None:
        self.url, self.token, self.process = url, token, process
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def empty(self) -> None:
        self.client.get("/healthz").raise_for_status()

    def ask(self, act: str, client: httpx.Client | None = None, **price: Any) -> None:
        spec, caller = {"sql": QUESTION}, client or self.client
        if act == "release":
            sent = {"kind": "questions", "spec": spec, "price": price}
            key = {"Idempotency-Key": f"bench-{time.monotonic_ns()}"}
            caller.post("/v1/policies/flights/releases", json=sent, headers=key).raise_for_status()
        else:
            sent = {"act": act, "spec": spec, "price": price}
            caller.post("/v1/policies/flights/proposals/questions", json=sent).raise_for_status()

    def cpu(self, call: Callable[[], None]) -> float:
        """Measure the CPU time that one call takes of the server: the least of a few rounds."""
        return cpu_of(self.process.pid, call)


def cpu_of(process: int, call: Callable[[], None]) -> float:
    call()
    found = []
    for _ in range(ROUNDS):
        start = ticks(process)
        for _ in range(EACH):
            call()
        found.append((ticks(process) - start) / TICKS / EACH)
    return min(found)


def ticks(process: int) -> int:
    """Read the CPU time of a process, all its threads counted."""
    after = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(after[11]) + int(after[12])


@contextmanager
def served(policy: Path, settings: Path, processes: int) -> Iterator[Server]:
    """Serve a policy as ``sfumato serve`` does."""
    port = free_port()
    command = [sys.executable, "-m", "sfumato", "serve", policy, "--listen", f"127.0.0.1:{port}"]
    command += ["--settings", settings, "--processes", str(processes)]
    with running(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield Server(f"http://127.0.0.1:{port}", own_token(policy), process)


def own_token(policy: Path) -> str:
    people = PeopleFile(Path(f"{policy.parent / 'sfumato.ledger'}.people"))
    if "ana" not in [each.name for each in people.users()]:
        people.add_user("ana", Role.ANALYST, by="bench")
    _, token = people.new_token("ana", by="bench")
    people.close()
    return token


@contextmanager
def running(command: list[Any]) -> Iterator[subprocess.Popen[str]]:
    """Run a process until the end of the block, and end it then, whatever happens."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# ── the figures ────────────────────────────────────────────────────────────────────────────────


def per_call(call: Callable[[], object]) -> float:
    call()
    return cpu_seconds(lambda: [call() for _ in range(EACH)], ROUNDS) / EACH


def throughput(server: Server, seconds: float = 5.0, clients: int = 8) -> float:
    """Count the prices that clients get in a while, each one after the other."""
    counts, until = [0] * clients, time.monotonic() + seconds

    def asking(place: int) -> None:
        with httpx.Client(base_url=server.url, headers=dict(server.client.headers), timeout=60) as client:
            while time.monotonic() < until:
                server.ask("price", client, within=500)
                counts[place] += 1

    threads = [threading.Thread(target=asking, args=(place,)) for place in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(counts) / seconds


def connecting(server: Server) -> None:
    """Measure what connecting takes in a process that has done nothing yet."""
    code = """
import sys, time
start = time.process_time()
import sfumato as sf
imported = time.process_time()
sf.connect(sys.argv[1], token=sys.argv[2]).close()
print(imported - start, time.process_time() - imported)
"""
    runs = [
        list(map(float, subprocess.check_output([sys.executable, "-c", code, server.url, server.token]).split()))
        for _ in range(ROUNDS)
    ]
    imported, connected = min(runs, key=sum)
    told("sf.connect, against 0.3 s of CPU", connected, 0.3, "≤ 1.0")
    told("import sfumato and sf.connect, against 0.3 s of CPU", imported + connected, 0.3, "")


def datasette(policy: Path) -> float | None:
    """Measure Datasette on the same rows: the JSON of the plain query."""
    if installed("datasette") is None:
        print("datasette is not installed: left out")
        return None
    database = policy.parent / "flights.db"
    rows = pyarrow.parquet.read_table(next(policy.parent.rglob("flights*.parquet")), columns=["origin"])
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE flights (origin TEXT)")
        connection.executemany("INSERT INTO flights VALUES (?)", zip(rows.column(0).to_pylist(), strict=True))
    connection.close()
    port = free_port()
    with running([sys.executable, "-m", "datasette", "serve", database, "--port", port]) as process:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        wait_for(client)
        asked = {"sql": QUESTION.replace("flights FROM", "n FROM"), "_shape": "objects"}
        return cpu_of(process.pid, lambda: client.get("/flights.json", params=asked).raise_for_status() and None)


def wait_for(client: httpx.Client) -> None:
    for _ in range(300):
        try:
            client.get("/-/versions.json").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("datasette did not start")


def pictures() -> None:
    """Draw 200 bars with ranges: ours, and Altair's."""
    if installed("vl_convert") is None or installed("altair") is None:
        print("altair is not installed: left out")
        return
    import vl_convert

    from plots import FOOT, bars
    from sfumato.plots.answers import Key, draw
    from sfumato.release.altair_charts import bar_chart

    data = bars(200)
    key = Key("county", data.labels, data.labels)
    ours = cpu_seconds(lambda: draw([data], [key], FOOT).svg)
    theirs = cpu_seconds(lambda: vl_convert.vegalite_to_svg(bar_chart([data]).to_json()), 3)
    told("SVG of 200 bars, against a hundredth of Altair's", ours, theirs / 100, "≤ 1.0")


if __name__ == "__main__":
    main()
