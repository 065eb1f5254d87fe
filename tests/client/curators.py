"""The same policy in this process and at a server: the suite that runs on both is given one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.server.connections import base_url, bound_http_socket
from sfumato.server.people.users import Role
from sfumato.server.serving import ProcessSettings, UvicornServer, build_application, open_gateway
from sfumato.server.settings import ServerSettings

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 300, delta = 0.000001 }

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
region = { values = ["north", "south"] }
age = { type = "integer", bounds = [0, 110] }
day = { type = "date", values = [2024-01-01, 2024-01-02] }
cost = { type = "real", bounds = [0, 100] }
note = { type = "text" }

[analysts.ana]
share = 0.5
"""


def served_policy(folder: Path) -> Path:
    """Write a small policy with its rows."""
    rows = [
        f"p{number // 2},{('north', 'south')[number % 2]},{number},2024-01-0{1 + number % 2},{number / 2},seen"
        for number in range(80)
    ]
    (folder / "visits.csv").write_text("\n".join(["patient,region,age,day,cost,note", *rows]) + "\n")
    path = folder / "clinic.toml"
    path.write_text(POLICY)
    return path


@dataclass
class Curators:
    """The curator that is tested, whichever it is."""

    curator: Any
    remote: bool


@contextmanager
def both(kind: str, policy: Path) -> Iterator[Curators]:
    """Open the policy as its analyst, here or at a server."""
    if kind == "open":
        with sf.Curator(policy) as curator:
            yield Curators(curator.as_analyst("ana"), remote=False)
        return
    with serving(policy) as (where, token), sf.connect(where, token=token) as curator:
        yield Curators(curator, remote=True)


@contextmanager
def serving(policy: Path, at: str = "127.0.0.1:0", **settings: Any) -> Iterator[tuple[str, str]]:
    """Serve a policy from a thread; give the address and the analyst's token."""
    own = {"listen": at, "answer_after": 0.01, "free_per_second": 10_000, "log": str(policy.parent / "log")}
    chosen = ServerSettings(**{**own, **settings})
    with bound_http_socket(chosen) as listener, open_gateway(ProcessSettings((policy,), None, chosen)) as counter:
        counter.people.add_user("ana", Role.ANALYST, by="tests")
        _, token = counter.people.new_token("ana", by="tests")
        started = threading.Event()
        server = UvicornServer(build_application(counter), chosen, started.set)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        thread.start()
        assert started.wait(120)
        try:
            yield at if at.startswith("unix:") else base_url(chosen, listener), token
        finally:
            server.stop()
            thread.join(60)
            assert not thread.is_alive()
