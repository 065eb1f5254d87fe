"""A ledger in PostgreSQL that goes away under a server: nothing is charged, and it stops and recovers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from ledger.in_databases import SPENDER
from postgres_server import PostgresServer, installations
from server.running_server import COUNT, running_server
from sfumato.errors import LedgerUnavailable, Unanswered
from sfumato.ledger import Account
from sfumato.ledger.stores import postgres
from sfumato.ledger.stores.opening import make_ledger

_numbers = count(1)


@dataclass(frozen=True)
class Database:
    """A database of its own, which can be made to go away."""

    server: PostgresServer
    name: str
    whole_server: bool
    """Whether the server is stopped; otherwise it ends all sessions of the database and admits none."""

    def go_away(self) -> None:
        if self.whole_server:
            self.server.stop()
            return
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'"
        self.server.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false", end)

    def come_back(self) -> None:
        if self.whole_server:
            self.server.start()
        else:
            self.server.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")

    @property
    def address(self) -> str:
        return self.server.address(self.name, SPENDER, schema="s")


@contextmanager
def database(server: PostgresServer, *, whole_server: bool) -> Iterator[Database]:
    name = f"absent{next(_numbers)}"  # of one database that was made anew, the anchors of the old one would be missed
    server.execute(f"CREATE DATABASE {name}")
    try:
        make_ledger(server.address(name, schema="s"), spender=SPENDER)
        yield Database(server, name, whole_server)
    finally:
        with suppress(Exception):
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["closed", pytest.param("stopped", marks=pytest.mark.long)])
def absent(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[Database]:
    if request.param == "closed":
        with database(postgres, whole_server=False) as made:
            yield made
        return
    own = PostgresServer(installations()[0]).make().start()
    try:
        with database(own, whole_server=True) as made:
            yield made
    finally:
        own.remove()


def away_before_the_answer(
    absent: Database, monkeypatch: pytest.MonkeyPatch, *, comes_back: bool
) -> tuple[list[Any], list[float]]:
    """Let the database go away before the line of an answer is first written, and come back, or not, while the store
    waits; a wait takes no time, but moves the store's clock. Return the attempts and the waits.
    """
    attempts: list[Any] = []
    waits: list[float] = []
    append = Account._append_answer

    def go_away_and_append(self: Account, *arguments: Any) -> Any:
        if not attempts:
            absent.go_away()
        attempts.append(arguments)
        return append(self, *arguments)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if comes_back and len(waits) == 3:
            absent.come_back()

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 10.0 * len(waits) if attempts else time.monotonic())
    monkeypatch.setattr(Account, "_append_answer", go_away_and_append)
    monkeypatch.setattr(postgres, "time", clock)
    return attempts, waits


def test_what_was_charged_is_answered_when_the_database_restarts_meanwhile(
    absent: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sf.example(tmp_path / "flights")
    policy.write_text(f'ledger = "{absent.address}"\n{policy.read_text()}')
    with running_server(tmp_path, policy=policy, answer_after=0.05) as served:
        attempts, waits = away_before_the_answer(absent, monkeypatch, comes_back=True)
        bought = served.buy("ana", "first")
        assert (bought.status_code, bought.json()["free"]) == (200, False)
        assert (len(attempts), len(waits)) == (4, 3)
        assert len({charge.number for charge, *_ in attempts}) == 1
        again = served.buy("ana", "first")
        assert (again.status_code, again.json()["free"]) == (200, True)
        assert again.json()["line"] == bought.json()["line"]
        kinds = [line.kind for line in served.counter.served.ledger.lines()]
        assert (kinds.count("charge"), kinds.count("answer"), kinds.count("stopped")) == (1, 1, 0)
        assert served.counter.served.ledger.verify().holds


def test_a_database_that_stays_away_is_given_up_in_time_and_stays_charged(
    absent: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sf.example(tmp_path / "flights")
    policy.write_text(f'ledger = "{absent.address}"\n{policy.read_text()}')
    with running_server(tmp_path, policy=policy, answer_after=0.05) as served:
        attempts, _ = away_before_the_answer(absent, monkeypatch, comes_back=False)
        lost = served.buy("ana", "first")
        assert (lost.status_code, lost.json()["code"]) == (503, Unanswered.code)
        assert len(attempts) == 5  # at once, after 10, 20 and 30 seconds, and without the reserve of the disk
        absent.come_back()
        assert served.spent() == 1


def test_a_ledger_that_is_away_refuses_uncharged_and_comes_back(absent: Database, tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    policy.write_text(f'ledger = "{absent.address}"\n{policy.read_text()}')
    with running_server(tmp_path, policy=policy, answer_after=0.05) as served:
        assert served.buy("ana", "first").status_code == 200
        absent.go_away()
        refused = served.buy("ana", "second", f"{COUNT} WHERE distance > 500")
        assert (refused.status_code, refused.json()["code"]) == (503, LedgerUnavailable.code)
        time.sleep(1.1)  # readiness is looked up once a second
        unready = served.call(None, "GET", "/readyz")
        assert (unready.status_code, unready.json()["code"]) == (503, LedgerUnavailable.code)
        assert str(absent.server.folder) not in unready.text
        absent.come_back()
        bought = served.buy("ana", "second", f"{COUNT} WHERE distance > 500")
        assert (bought.status_code, bought.json()["free"]) == (200, False)
        assert served.spent() == 2
        time.sleep(1.1)
        assert served.call(None, "GET", "/readyz").status_code == 200
        absent.go_away()  # and it stops without it
    absent.come_back()
    with sf.Ledger.open(absent.address) as ledger:
        assert ledger.verify().holds
        assert sum(line.kind == "charge" for line in ledger.lines()) == 2
