"""Many clients share a budget: it pays for as many releases as it holds, and one request is paid for once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import sfumato as sf
from server.forked_servers import ForkedServer, forked_server
from server.running_server import COUNT, RunningServer, running_server
from server.small_server import POLICY
from sfumato.server.releases import flights
from sfumato.server.releases.answer_clock import AnswerClock, DelayedProgress

CLIENTS = 64


def clinic(folder: Path, epsilon: str, users: list[str]) -> Path:
    """Write a small table, and a policy that lets each of these analysts spend all of its budget."""
    rows = [f"p{number // 2},{('north', 'south')[number % 2]},{number}" for number in range(80)]
    (folder / "visits.csv").write_text("\n".join(["patient,region,age", *rows]) + "\n")
    shares = "".join(f"[analysts.{each}]\nshare = 1\n" for each in users)
    path = folder / "clinic.toml"
    path.write_text(POLICY.format(epsilon=epsilon, table="visits") + shares)
    return path


def charges(path: Path) -> int:
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().holds
        return sum(line.kind == "charge" for line in ledger)


@pytest.mark.parametrize("price", ["3/64", pytest.param("1/7", marks=pytest.mark.long)])
def test_many_clients_buy_exactly_what_the_budget_pays_for(tmp_path: Path, price: str) -> None:
    """Each of 64 clients sends its request twice, over two processes, and again when it is told to wait."""
    users = [f"client{number}" for number in range(CLIENTS)]
    policy = clinic(tmp_path, "1", users)
    with forked_server([policy], users, processes=2, answer_after=0.05) as served, ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(lambda number: _insisting(served, users[number], number, price), range(CLIENTS)))
        assert served.stop() == [0, 0]
    statuses = Tally(status for status, _ in found)
    wanted = floor(1 / Fraction(price))
    assert statuses == {200: wanted, 402: CLIENTS - wanted}
    assert len({line for status, line in found if status == 200}) == wanted
    assert charges(served.ledger) == wanted


def _insisting(served: ForkedServer, user: str, number: int, price: str) -> tuple[int, int]:
    """Ask under one key until it is answered or paid for no more, and then once more: nothing has changed."""
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {number}"
    seen: list[tuple[int, int]] = []
    while len(seen) < 2:
        reply = served.buy(user, "clinic", f"key-{number}", sql, epsilon=price)
        if reply.status in (429, 503):
            time.sleep(int(reply.headers["retry-after"]) / 10)
            continue
        seen.append((reply.status, reply.json().get("line", 0)))
    assert seen[0] == seen[1]
    return seen[0]


# ── hanging up ─────────────────────────────────────────────────────────────────────────────────


class Held:
    """A release is held at one of its phases until it is let go."""

    def __init__(self) -> None:
        self.phase = ""
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def at(self, phase: str) -> None:
        self.phase = phase
        self.reached.clear()
        self.let_go.clear()

    def __call__(self, phase: str) -> None:
        if phase == self.phase:
            self.reached.set()
            assert self.let_go.wait(60)


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, held: Held) -> Iterator[RunningServer]:
    class Phases(DelayedProgress):
        """It is told a phase before and after the clock has held it back."""

        def __init__(self, clock: AnswerClock, doublings: int, told: Any) -> None:
            def slept(seconds: float) -> None:
                held("waiting for the clock")
                time.sleep(seconds)

            super().__init__(AnswerClock(clock.answer_after, clock.now, slept), doublings, told)

        def __call__(self, phase: str) -> None:
            super().__call__(phase)
            held(phase)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights, "DelayedProgress", Phases)
        folder = tmp_path_factory.mktemp("held")
        with running_server(folder, answer_after=0.05, free_per_second=1000) as running:
            yield running


PHASES = ("checking", "charging", "reading", "adding noise", "waiting for the clock", "writing down")
SPECS = {
    "questions": {"sql": COUNT},
    "marginals": {"table": "flights", "ways": [["origin"]]},
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("phase", PHASES)
def test_who_hangs_up_at_any_phase_and_asks_again_pays_once(
    served: RunningServer, held: Held, phase: str, kind: str
) -> None:
    before, key = served.spent(), f"{kind} at {phase}".replace(" ", "-")
    held.at(phase)
    _hang_up_when(held.reached, served, key, kind)
    with ThreadPoolExecutor(4) as pool:
        again = [pool.submit(_bought, served, key, kind) for _ in range(3)]
        _until(lambda: served.call("ana", "GET", PLACE, params={"key": key}).status_code == 200)
        held.let_go.set()
        answers = [each.result() for each in again]
    assert {each.status_code for each in answers} == {200}, answers[0].text
    assert len({each.json()["line"] for each in answers}) == 1
    assert len({_numbers(each.json()["result"]) for each in answers} | {_numbers(_shown(served, answers[0]))}) == 1
    assert served.spent() == before + 1


PLACE = "/v1/policies/flights/releases"


def _sent(kind: str) -> dict[str, Any]:
    return {"kind": kind, "spec": SPECS[kind], "price": {"epsilon": "0.001", "fresh": True}}


def _bought(served: RunningServer, key: str, kind: str) -> Any:
    with served.client("ana") as client:
        return client.post(PLACE, json=_sent(kind), headers={"Idempotency-Key": key})


def _shown(served: RunningServer, answer: Any) -> Any:
    return served.call("ana", "GET", answer.headers["location"]).json()


def _numbers(result: dict[str, Any]) -> str:
    """Give everything of a result but its receipt, which says later that it is free."""
    return json.dumps({name: value for name, value in result.items() if name != "receipt"})


def _hang_up_when(reached: threading.Event, served: RunningServer, key: str, kind: str) -> None:
    """Send a request, and close the connection as soon as its release has come so far."""
    where, body = urlsplit(served.url), json.dumps(_sent(kind))
    head = f"Authorization: Bearer {served.tokens['ana']}\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=60) as made:
        begin = f"POST {PLACE} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        made.sendall(f"{begin}{head}\r\n{body}".encode())
        assert reached.wait(60)


def _until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
