"""Whoever is in the table: every message of the wire is the same, to the byte, but for noise and moments.

The noise is replaced by nothing at all; whatever still differs between two neighbouring tables is a dependence on
people outside the one place where noise is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from server.postgres.raw_client import SYNC, bind, describe, execute, parse, query, signed_in
from server.postgres.wire_server import WireServer, wire_server

ONE = {
    "not there": "",
    "at the limit": "one,north,3,4.5,2024-01-01\n" * 2,
    "many rows, and cells that nobody declared": "one,east,99999999,,nothing\none,north,1,1,2024-05-05\n" * 300,
}
GROUPED = "SELECT region, COUNT(*) AS n, SUM(age) AS s, AVG(cost) AS c FROM visits WHERE age > 5 GROUP BY region"
SENT = [
    query(GROUPED),
    query("SET sfumato.epsilon = '0.05'"),
    query(f"EXPLAIN {GROUPED}"),
    parse(GROUPED) + describe("S") + bind() + describe("P") + execute() + SYNC,
    query("SET sfumato.ranges = on"),
    query(GROUPED),
    parse("SELECT COUNT(*) AS n FROM visits WHERE age > $1") + bind("", "", (b"40",), binary=True) + execute() + SYNC,
    query("SELECT COUNT(DISTINCT patient) AS patients FROM visits"),
    query(f"COPY ({GROUPED}) TO STDOUT (FORMAT binary)"),
    query(f"BEGIN; DECLARE c CURSOR FOR {GROUPED}; FETCH ALL FROM c; ROLLBACK"),
    query("SELECT age FROM visits"),
    query("SELECT COUNT(*) FROM visits WHERE nothing = 1"),
    query("/* sfumato epsilon=99999 */ SELECT SUM(age) AS s FROM visits"),
    query("SELECT * FROM sfumato.budget"),
    query("SELECT * FROM sfumato.history"),
    query("SELECT * FROM sfumato.columns"),
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, WireServer]]:
    with ExitStack() as opened:
        found = {}
        for name, rows in ONE.items():
            folder = tmp_path_factory.mktemp("neighbours")
            found[name] = opened.enter_context(wire_server(folder, answer_after=0.05, extra_rows=rows))
        yield found


@pytest.fixture
def _silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: 0 * exact)
    monkeypatch.setattr("sfumato.release.releasing.bits", SimpleNamespace(random_bits=lambda _: 7))


def masked(answer: bytes) -> bytes:
    """Cover the moments at which lines were written, without changing any length."""
    return re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", b"#", answer)


@pytest.mark.usefixtures("_silence")
def test_every_message_is_the_same_to_the_byte(servers: dict[str, WireServer]) -> None:
    seen: dict[str, list[bytes]] = {}
    for name, served in servers.items():
        with signed_in(served) as client:
            replies = [client.ask(sent) for sent in SENT]
        seen[name] = [masked(b"".join(kind + body for kind, body in messages)) for messages in replies]
    first = next(iter(seen.values()))
    for name, replies in seen.items():
        for sent, reply, expected in zip(SENT, replies, first, strict=True):
            assert reply == expected, (name, sent)
    assert len({served.charges() for served in servers.values()}) == 1
    assert next(iter(servers.values())).charges() == 3
