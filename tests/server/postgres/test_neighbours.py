"""Whoever is in the table: every message of the wire is the same, to the byte, but for noise and moments.

The noise is replaced by nothing at all; whatever still differs between two neighbouring tables is a dependence on
people outside the one place where noise is added.
"""

from __future__ import annotations

import re
import struct
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
PUBLISHED = [
    query("SELECT * FROM visits_synthetic_{line} LIMIT 5"),
    query("SELECT region, COUNT(*) AS n FROM visits_synthetic_{line} GROUP BY region"),
    parse("SELECT COUNT(*) FROM visits_synthetic_{line} WHERE region = $1")
    + bind("", "", (b"north",))
    + execute()
    + SYNC,
    query("COPY visits_synthetic_{line} TO STDOUT (FORMAT binary)"),
    query("SELECT region, COUNT(*) AS n FROM visits GROUP BY region"),
    query("SELECT region, COUNT(*) AS n FROM visits WHERE age > 5 GROUP BY region"),
    query("EXPLAIN SELECT region, COUNT(*) AS n FROM visits GROUP BY region"),
    query("SELECT relname, reltuples FROM pg_catalog.pg_class WHERE relname LIKE 'visits%' ORDER BY 1"),
]
"""What is sent to the free database, after a synopsis and a synthetic table were bought."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, long: bool) -> Iterator[dict[str, WireServer]]:
    """Serve neighbours; by default the first and the last, which differ most."""
    with ExitStack() as opened:
        found = {}
        for name in ONE if long else (next(iter(ONE)), next(reversed(ONE))):
            folder = tmp_path_factory.mktemp("neighbours")
            found[name] = opened.enter_context(wire_server(folder, answer_after=0.05, extra_rows=ONE[name]))
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


@pytest.mark.usefixtures("_silence")
def test_every_message_of_the_free_database_is_the_same_to_the_byte(servers: dict[str, WireServer]) -> None:
    seen = {name: published_replies(served) for name, served in servers.items()}
    first = next(iter(seen.values()))
    assert [b"SERROR" in reply for reply in first] == [False] * 5 + [True] + [False] * 2
    for name, replies in seen.items():
        for sent, reply, expected in zip(PUBLISHED, replies, first, strict=True):
            assert reply == expected, (name, sent)


def published_replies(served: WireServer) -> list[bytes]:
    """Buy a synopsis and a synthetic table, and return what the free database says."""
    served.counter.served.curator("clinic").marginals("visits", [["region"]]).release(epsilon=1)
    caller = served.counter.caller_of_token(served.counter.people.tokens("ana")[0].number, "tests")
    spec = {"table": "visits", "method": "independent", "ways": 1, "columns": ["region"]}
    line = served.counter.release(caller, "clinic", "synthesis", spec, {"epsilon": "1"}, "rows").line
    with signed_in(served, database="clinic_published") as client:
        replies = [client.ask(renumbered(sent, line)) for sent in PUBLISHED]
    return [masked(b"".join(kind + body for kind, body in messages)) for messages in replies]


def renumbered(sent: bytes, line: int) -> bytes:
    """Name the line in a message, and write its length anew."""
    head, _, tail = sent.partition(b"{line}")
    if not tail:
        return sent
    (length,) = struct.unpack("!i", sent[1:5])
    text = str(line).encode()
    return sent[:1] + struct.pack("!i", length + len(text) - 6) + head[5:] + text + tail
