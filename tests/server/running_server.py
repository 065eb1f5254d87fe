"""A real server for tests: uvicorn on a loopback port or a socket, in a thread, with people of every role."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.routing import BaseRoute

import sfumato as sf
from sfumato.server.connections import base_url, bound_http_socket
from sfumato.server.gateway import Gateway
from sfumato.server.people.users import Role
from sfumato.server.serving import ProcessSettings, UvicornServer, build_application, open_gateway
from sfumato.server.settings import ServerSettings

ROLES = {"olga": Role.OWNER, "ana": Role.ANALYST, "ben": Role.ANALYST, "audrey": Role.AUDITOR, "eve": Role.ANALYST}
"""Eve is an analyst whom no policy names."""
COUNT = "SELECT COUNT(*) AS flights FROM flights"
BY_ORIGIN = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It trusts nobody, and is quickly made."""
_SECONDS = 400
"""How long an answer may take: of a busy machine, many times what one takes alone."""
_FRESH = httpx.Limits(keepalive_expiry=1.0)
"""A connection that was not used for a while is made anew, well before a server closes it, however slow the machine."""


@dataclass
class RunningServer:
    """A server that answers, and everybody's token."""

    url: str
    socket: str | None
    counter: Gateway
    server: UvicornServer
    folder: Path
    log: Path
    tokens: dict[str, str] = field(default_factory=dict)
    clients: dict[str | None, httpx.Client] = field(default_factory=dict)

    def client(self, user: str | None = None) -> httpx.Client:
        """Give a client that shows a user's token."""
        shown = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
        transport = httpx.HTTPTransport(uds=self.socket, limits=_FRESH) if self.socket else None
        own = self.counter.settings.certificate
        trusted = ssl.create_default_context(cafile=own) if own else NO_TLS
        return httpx.Client(
            base_url=self.url, headers=shown, timeout=_SECONDS, transport=transport, limits=_FRESH, verify=trusted
        )

    def call(self, user: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        """Make one call as a user."""
        if user not in self.clients:
            self.clients[user] = self.client(user)
        return self.clients[user].request(method, path, **more)

    def ask(self, user: str, act: str, sql: str = COUNT, **price: Any) -> httpx.Response:
        sent = {"act": act, "spec": {"sql": sql}, "price": price}
        return self.call(user, "POST", "/v1/policies/flights/proposals/questions", json=sent)

    def buy(self, user: str, key: str, sql: str = COUNT, *, kind: str = "questions", **more: Any) -> httpx.Response:
        price = more.pop("price", {"epsilon": "0.01"})
        sent = {"kind": kind, "spec": more.pop("spec", {"sql": sql}), "price": price}
        headers = {"Idempotency-Key": key, **more.pop("headers", {})}
        return self.call(user, "POST", "/v1/policies/flights/releases", json=sent, headers=headers)

    def spent(self) -> int:
        """Count the charges in the ledger."""
        return sum(not line.cost.is_zero for line in self.counter.served.curator("flights").history())


def _example(folder: Path) -> Path:
    policy = sf.example(folder / "flights")
    with policy.open("a") as file:
        file.write("\n[analysts.ben]\nshare = 0.25\n")
    return policy


CLUB = """
[unit]
name = "tie"
budget = { epsilon = 30.0 }

[tables.ties]
source = "karate.csv"
id = "row"
columns = { source = { type = "integer", bounds = [0, 33] }, target = { type = "integer", bounds = [0, 33] } }

[tables.patients]
source = "patients.csv"
id = "row"
columns = { months = { type = "integer", bounds = [0, 5] }, died = { type = "boolean" } }

[analysts.ana]
share = 0.5
"""


CLINIC = """
[unit]
name = "person"
budget = { epsilon = 30.0 }

[tables.patients]
source = "people.csv"
id = "who"
max_rows = 1
columns = { sex = { values = ["F", "M"] } }

[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 2
columns = { ward = { values = ["A", "B"] } }
"""


def write_clinic(folder: Path) -> Path:
    """Write a policy of patients and their visits, with its tables."""
    folder.mkdir(exist_ok=True)
    (folder / "people.csv").write_text("who,sex\n1,F\n2,M\n3,F\n")
    (folder / "visits.csv").write_text("who,ward\n1,A\n1,B\n2,A\n")
    policy = folder / "clinic.toml"
    policy.write_text(CLINIC)
    return policy


def write_club(folder: Path) -> Path:
    """Write a policy whose rows are edges, or patients, with its tables."""
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parents[1] / "data" / "graphs" / "karate.edges.csv", folder / "karate.csv")
    (folder / "patients.csv").write_text("months,died\n1,true\n3,false\n5,true\n")
    policy = folder / "club.toml"
    policy.write_text(CLUB)
    return policy


@contextmanager
def running_server(
    folder: Path,
    *,
    at: str = "127.0.0.1:0",
    more: Sequence[BaseRoute] = (),
    policy: Path | None = None,
    beside: Sequence[Path] = (),
    club: bool = False,
    **settings: Any,
) -> Iterator[RunningServer]:
    """Serve a policy called flights, or the bundled example, and routes beside it, from a thread until the end of the
    block; also the policies ``beside`` it, and with ``club`` one whose rows are edges, and one of patients and their
    visits.
    """
    policy = _example(folder) if policy is None else policy
    others = (*beside, *((write_club(policy.parent), write_clinic(policy.parent)) if club else ()))
    log = folder / "activity.jsonl"
    chosen = ServerSettings(**{"listen": at, "answer_after": 0.25, "log": str(log), **settings})
    given = ProcessSettings((policy, *others), None, chosen)
    with bound_http_socket(chosen) as listener, open_gateway(given) as counter:
        started = threading.Event()
        server = UvicornServer(build_application(counter, more), chosen, started.set)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        where = base_url(chosen, listener)
        uds = at.removeprefix("unix:") if at.startswith("unix:") else None
        thread.start()
        assert started.wait(120)
        found = RunningServer("http://server" if uds else where, uds, counter, server, folder, log)
        present = {user.name for user in counter.people.users()}  # of a server beside it, which shares them
        for name, role in ROLES.items():
            if name not in present:
                counter.people.add_user(name, role, by="tests")
            found.tokens[name] = counter.people.new_token(name, by="tests")[1]
        try:
            yield found
        finally:
            for client in found.clients.values():
                client.close()
            server.stop()
            thread.join(60)
            assert not thread.is_alive()
