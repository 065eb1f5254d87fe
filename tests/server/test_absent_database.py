"""A ledger in PostgreSQL that goes away under a server: nothing is charged, and it stops and recovers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import sfumato as sf
from ledger.in_databases import SPENDER
from postgres_server import PostgresServer, installations
from server.running_server import COUNT, running_server
from sfumato.errors import LedgerUnavailable
from sfumato.ledger.stores.opening import make_ledger

_DATABASE = "absent"


@dataclass(frozen=True)
class Database:
    """A database of its own, which can be made to go away."""

    server: PostgresServer
    whole_server: bool
    """Whether the server is stopped; otherwise it ends all sessions of the database and admits none."""

    def go_away(self) -> None:
        if self.whole_server:
            self.server.stop()
            return
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_DATABASE}'"
        self.server.execute(f"ALTER DATABASE {_DATABASE} ALLOW_CONNECTIONS false", end)

    def come_back(self) -> None:
        if self.whole_server:
            self.server.start()
        else:
            self.server.execute(f"ALTER DATABASE {_DATABASE} ALLOW_CONNECTIONS true")

    @property
    def address(self) -> str:
        return self.server.address(_DATABASE, SPENDER, schema="s")


@contextmanager
def database(server: PostgresServer, *, whole_server: bool) -> Iterator[Database]:
    server.execute(f"CREATE DATABASE {_DATABASE}")
    try:
        make_ledger(server.address(_DATABASE, schema="s"), spender=SPENDER)
        yield Database(server, whole_server)
    finally:
        with suppress(Exception):
            server.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)")


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
