"""What the server adds to a curator, in CPU time of its process: free questions, stored answers, two processes.

Everything runs on loopback, in processes of its own that are ended at the end, and stops by itself after five minutes.
Datasette is installed into a folder of its own that is removed at the end; where it cannot be, it is left out.

Run with: .venv/bin/python bench/server.py
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import pyarrow.parquet
from timing import cpu_seconds, installed

import sfumato as sf
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.users import Role

MOST_SECONDS = 300
ROUNDS, EACH = 5, 25
QUESTION = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"
SETTINGS = "free_per_second = 1000000\nanswer_after = 0.001\nlog = '/dev/null'\n"
CLIENTS, SECONDS = 8, 5.0


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
        connecting(server)
    processes(policy, settings)
    pictures()


def processes(policy: Path, settings: Path) -> None:
    """Compare two processes with one, of which the client takes as little as it can."""
    acts = {"price": {"within": 500}, "error": {"epsilon": "0.5"}, "explain": {"epsilon": "0.5"}}
    found: dict[int, dict[str, Throughput]] = {}
    for number in (1, 2):
        with served(policy, settings, number) as server:
            found[number] = {act: throughput(server, act, price) for act, price in acts.items()}
    for act in acts:
        one, two = found[1][act], found[2][act]
        name = f"{act} a second: two processes against one"
        print(f"{name:<62}{two.rate:>10.0f}/s  {one.rate:>10.0f}/s  {two.rate / one.rate:>7.2f}  ≥ 1.6", flush=True)
        told("  CPU of the server for each", two.server / two.rate, one.server / one.rate, "")
        told("  CPU of the client for each", two.client / two.rate, one.client / one.rate, "")


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

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.url.rpartition(":")[2])

    def bytes_of(self, act: str, price: dict[str, Any]) -> bytes:
        """Write a free question as it is sent."""
        body = json.dumps({"act": act, "spec": {"sql": QUESTION}, "price": price})
        head = (
            "POST /v1/policies/flights/proposals/questions HTTP/1.1",
            "Host: bench",
            f"Authorization: Bearer {self.token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        return "\r\n".join([*head, "", body]).encode()

    def cpu(self, call: Callable[[], None]) -> float:
        """Measure the CPU time that one call takes of the server: the least of a few rounds."""
        return cpu_of(self.process.pid, call)


def cpu_of(process: int, call: Callable[[], None]) -> float:
    call()
    found = []
    for _ in range(ROUNDS):
        start = cpu(process)
        for _ in range(EACH):
            call()
        found.append((cpu(process) - start) / EACH)
    return min(found)


def cpu(process: int) -> float:
    """Read the CPU seconds of a process, all its threads counted: Linux has a clock of each (clock_getcpuclockid)."""
    return time.clock_gettime((~process << 3) | 2)


def family(process: int) -> list[int]:
    """Give a process, and those that it spawned."""
    return [process, *map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


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


@dataclass(frozen=True)
class Throughput:
    """So many were answered in a second, which took so much CPU time of the server and of the client."""

    rate: float
    server: float
    client: float


def throughput(server: Server, act: str, price: dict[str, Any]) -> Throughput:
    """Count what clients are answered in a while, each asking one after the other on a connection that it keeps.

    They share this machine with the server, so all of them are one thread that sends bytes which are made before.
    """
    asked = server.bytes_of(act, price)
    started = family(server.process.pid)
    with Asking(server.address, asked) as clients:
        clients.count(1.0)  # everything is known
        before, mine = sum(map(cpu, started)), time.process_time()
        number = clients.count(SECONDS)
        spent = sum(map(cpu, started)) - before
    return Throughput(number / SECONDS, spent / SECONDS, (time.process_time() - mine) / SECONDS)


class Asking:
    """Clients that ask the same again as soon as they are answered."""

    def __init__(self, address: tuple[str, int], asked: bytes) -> None:
        self.asked = asked
        self.ready = selectors.DefaultSelector()
        for _ in range(CLIENTS):
            self.ready.register(socket.create_connection(address, 60), selectors.EVENT_READ, bytearray())

    def __enter__(self) -> Self:
        for each in list(self.ready.get_map().values()):
            each.fileobj.sendall(self.asked)
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self.ready.get_map().values()):
            each.fileobj.close()

    def count(self, seconds: float) -> int:
        answered, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for each, _ in self.ready.select(0.1):
                each.data.extend(each.fileobj.recv(65536))
                if whole(each.data):
                    each.data.clear()
                    answered += 1
                    each.fileobj.sendall(self.asked)
        return answered


def whole(reply: bytearray) -> bool:
    """Tell whether a reply has arrived; one that is refused ends the measurement."""
    head, end, body = reply.partition(b"\r\n\r\n")
    if not end:
        return False
    if b" 200 " not in head[:16]:
        raise ValueError(reply.decode())
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return len(body) >= int(length.partition(b":")[2])


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
    python = datasette_python(policy.parent / "datasette")
    if python is None:
        return None
    database = policy.parent / "flights.db"
    rows = pyarrow.parquet.read_table(next(policy.parent.rglob("flights*.parquet")), columns=["origin"])
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE flights (origin TEXT)")
        connection.executemany("INSERT INTO flights VALUES (?)", zip(rows.column(0).to_pylist(), strict=True))
    connection.close()
    port = free_port()
    with running([python, "-m", "datasette", "serve", database, "--port", port]) as process:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        wait_for(client)
        asked = {"sql": QUESTION.replace("flights FROM", "n FROM"), "_shape": "objects"}
        return cpu_of(process.pid, lambda: client.get("/flights.json", params=asked).raise_for_status() and None)


def datasette_python(folder: Path) -> str | None:
    """Install Datasette in a folder, and give the Python that runs it; None where there is no index of packages."""
    python = str(folder / "bin" / "python")
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "datasette<1"]
        subprocess.run(install, check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError):
        print("Datasette could not be installed: left out")
        return None
    return python


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
    from sfumato.plots.answers import GroupColumn, draw_answer
    from sfumato.release.answers.answer_pictures import altair_bar_chart

    data = bars(200)
    key = GroupColumn("county", data.labels, data.labels)
    ours = cpu_seconds(lambda: draw_answer([data], [key], FOOT).svg, 50)
    theirs = cpu_seconds(lambda: vl_convert.vegalite_to_svg(altair_bar_chart([data]).to_json()), 5)
    told("SVG of 200 bars, against a hundredth of Altair's", ours, theirs / 100, "≤ 1.0")


if __name__ == "__main__":
    main()
