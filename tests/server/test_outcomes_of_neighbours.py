"""Whoever is in the table: over HTTP every call has one outcome, to the byte, but for noise and moments.

The noise is replaced by nothing at all, and what says when a line was written, or hashes it, by marks of one length;
whatever still differs between two neighbouring tables is a dependence on people outside the one place where noise is
added. With the noise, lengths may differ by the digits of noisy numbers, and by nothing else.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from server.pages.signed_in import SignedIn, sign_in
from server.running_server import BY_ORIGIN, COUNT, RunningServer, running_server

LIMIT = 2
POLICY = """
[unit]
name = "plane"
budget = {{ epsilon = 3 }}
size = 40
neighbours = "{relation}"

[tables.flights]
source = "flights.csv"
id = "plane"
max_rows = {limit}
[tables.flights.columns]
origin = {{ values = ["EWR", "JFK"] }}
delay = {{ type = "integer", bounds = [0, 110] }}

[analysts.ana]
share = 0.5
"""
OTHERS = [f"p{number // 2},{('EWR', 'JFK')[number % 2]},{number}" for number in range(20)]
ONE = {
    "at the limit": ["one,EWR,3"] * LIMIT,
    "one row beyond the limit": ["one,JFK,110"] * (LIMIT + 1),
    "many rows, and cells that nobody declared": ["one,LGA,99999999", "one,,", "one,JFK,0"] * 700,
}
TABLES = {
    "add-remove": {"not there": OTHERS, **{name: [*OTHERS, *rows] for name, rows in ONE.items()}},
    "replace": {name: [*OTHERS, *rows] for name, rows in ONE.items()},
}


@pytest.fixture(scope="module", params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, RunningServer]]:
    with ExitStack() as open_now:
        found = {}
        for name, rows in TABLES[request.param].items():
            folder = tmp_path_factory.mktemp("outcomes")
            (folder / "flights.csv").write_text("\n".join(["plane,origin,delay", *rows]) + "\n")
            policy = folder / "flights.toml"
            policy.write_text(POLICY.format(relation=request.param, limit=LIMIT))
            governed = folder / "governed.toml"
            (folder / "flown.csv").write_text("\n".join(["plane,origin,delay", *(f"g{row}" for row in rows)]) + "\n")
            text = policy.read_text().replace("flights.csv", "flown.csv")  # the same people have one account
            governed.write_text(f"{text}\n[approval]\nabove = 0.005\n")
            made = running_server(folder, policy=policy, beside=[governed], answer_after=0.1, free_per_second=1000)
            found[name] = open_now.enter_context(made)
        yield found


@pytest.fixture
def _silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: 0 * exact)
    monkeypatch.setattr("sfumato.release.releasing.bits", SimpleNamespace(random_bits=lambda _: 7))


def proposal(act: str, sql: str = BY_ORIGIN, **price: Any) -> tuple[str, str, Any]:
    sent = {"act": act, "spec": {"sql": sql}, **({"price": price} if price else {})}
    return "POST", "/v1/policies/flights/proposals/questions", sent


def bought(sql: str, kind: str = "questions", spec: Any = None, **price: Any) -> tuple[str, str, Any]:
    sent = {"kind": kind, "spec": spec or {"sql": sql}, "price": {"epsilon": "0.01", **price}}
    return "POST", "/v1/policies/flights/releases", sent


GROUPED = "SELECT origin, COUNT(*) AS n, SUM(delay) AS s, AVG(delay) AS a FROM flights WHERE delay > 5 GROUP BY origin"
CALLS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/policies", None),
    ("GET", "/v1/policies/flights", None),
    ("GET", "/v1/policies/flights/budget", None),
    *(proposal(act, epsilon="0.1") for act in ("explain", "error", "price")),
    proposal("columns"),
    proposal("error", "SELECT nothing FROM flights", epsilon="0.1"),
    bought(COUNT),
    bought(COUNT),
    bought(GROUPED),
    bought("SELECT COUNT(DISTINCT plane) AS planes FROM flights"),
    bought("SELECT delay FROM flights"),
    bought(GROUPED, epsilon="2.5"),
    bought("", "marginals", {"table": "flights", "ways": [["origin"]]}),
    bought("", "workloads", {"questions": [COUNT, BY_ORIGIN]}, fresh=True),
    *(("GET", f"/v1/policies/flights/releases/{line}{form}", None) for line in (5, 7) for form in ("", "?form=csv")),
    ("GET", "/v1/policies/flights/releases/7?form=arrow", None),
    ("GET", "/v1/policies/flights/releases/7?form=svg", None),
    ("GET", "/v1/policies/flights/releases/4", None),
    ("GET", "/v1/policies/flights/releases?key=key-8", None),
    ("GET", "/v1/policies/flights/releases?key=never", None),
    ("GET", "/v1/policies/flights/history", None),
    ("GET", "/v1/policies/flights/budget", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
]
_MOMENTS = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{6})?(\+00:00)?",  # when a line was written
    rb"(?<=\")[0-9a-f]{64}(?=\")",  # what it hashes to
    rb"date: [^\r]*",
    rb'process="\d+"',
    rb"\d{4}-\d\d-\d\d \d\d:\d\d(?= UTC)",  # when a request was filed, and expires
    rb"(?<=[\"/ ])[A-Za-z0-9_-]{43}(?=[\"; ])",  # the secret of a form
    rb"(?<=127\.0\.0\.1:)\d+",
    rb"(?<=\"page-)[0-9a-f]{32}(?=\")",
)
REQUESTS, PAGES = "/v1/policies/governed/requests", "/p/governed/approvals"


def all_or_two(servers: dict[str, RunningServer], long: bool) -> dict[str, RunningServer]:
    """Take neighbours that differ by one person at most: the first, and one with a row beyond the limit."""
    return servers if long else {name: servers[name] for name in (next(iter(servers)), "one row beyond the limit")}


def filing(sql: str, **price: Any) -> tuple[str, str, str, Any]:
    release = {"kind": "questions", "spec": {"sql": sql}, "price": {"epsilon": "0.01", **price}}
    return "ana", "POST", REQUESTS, {"release": release, "purpose": "a report"}


def approval_calls() -> Iterator[tuple[str, str, str, Any]]:
    """Call after call: user, method, path and body; each is sent the number of the request that was filed last."""
    yield "ana", "POST", "/v1/policies/governed/releases", bought(GROUPED)[2]
    yield filing("SELECT delay FROM flights")
    yield filing(GROUPED)
    yield "ana", "GET", f"{REQUESTS}/{{filed}}", None
    yield "olga", "GET", REQUESTS, None
    yield "ana", "POST", f"{REQUESTS}/{{filed}}/release", None
    yield "ana", "POST", f"{REQUESTS}/{{filed}}/approve", {"reason": ""}
    yield "olga", "POST", f"{REQUESTS}/{{filed}}/approve", {"reason": "as agreed"}
    yield "olga", "POST", f"{REQUESTS}/{{filed}}/approve", {"reason": "again"}
    yield "ana", "POST", f"{REQUESTS}/{{filed}}/release", None
    yield "olga", "GET", f"{REQUESTS}/{{filed}}", None
    yield filing(GROUPED)  # bought by now
    yield filing("SELECT SUM(delay) AS s FROM flights", within="100000")
    yield filing(COUNT, fresh=True)
    yield "olga", "POST", f"{REQUESTS}/{{filed}}/refuse", {"reason": "too fine"}
    yield filing(BY_ORIGIN, epsilon="0.02")
    yield "ana", "POST", f"{REQUESTS}/{{filed}}/withdraw", {"reason": ""}
    yield "ana", "POST", f"{REQUESTS}/{{filed}}/release", None
    share = {"user": "ana", "epsilon": "0.02", "days": 7, "purpose": "drafts", "measures": ["count"]}
    yield "olga", "POST", "/v1/policies/governed/grants", share
    for number, sql in enumerate((COUNT, "SELECT SUM(delay) AS t FROM flights", BY_ORIGIN, f"{COUNT} WHERE delay > 5")):
        yield "ana", "POST", "/v1/policies/governed/releases", bought(sql)[2]
        if not number:
            yield "ana", "POST", "/v1/policies/governed/reviews", {"lines": [{"bought": True}], "purpose": "a journal"}
            yield "olga", "POST", f"{REQUESTS}/{{filed}}/approve", {"reason": ""}
    yield "ana", "GET", REQUESTS, None
    yield "audrey", "GET", REQUESTS, None
    yield "ana", "GET", "/v1/policies/governed/history", None


def raw(served: RunningServer, number: int, method: str, path: str, sent: Any, user: str = "ana") -> bytes:
    """Give everything that comes back, as it comes: the status, the headers and the body."""
    where, body = urlsplit(served.url), b"" if sent is None else json.dumps(sent).encode()
    head = [
        f"{method} {path} HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: close",
        f"Authorization: Bearer {served.tokens['olga' if path == '/metrics' else user]}",
    ]
    if sent is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}", f"Idempotency-Key: key-{number}"]
    with socket.create_connection((where.hostname, where.port), timeout=60) as made:
        made.sendall("\r\n".join([*head, "", ""]).encode() + body)
        found = b""
        while more := made.recv(65536):
            found += more
    return found


def masked(answer: bytes) -> bytes:
    """Cover what tells the moment and not the people, without changing any length."""
    for pattern in _MOMENTS:
        answer = re.sub(pattern, lambda seen: b"#" * len(seen[0]), answer)
    return answer


@pytest.mark.usefixtures("_silence")
def test_every_call_has_one_outcome_to_the_byte(servers: dict[str, RunningServer]) -> None:
    statuses = []
    for number, call in enumerate(CALLS):
        seen = {name: masked(raw(served, number, *call)) for name, served in servers.items()}
        first = next(iter(seen.values()))
        for name, answer in seen.items():
            assert answer == first, (call, name)
        statuses.append(int(first.split()[1]))
    assert {200, 400, 402, 404, 422} <= set(statuses), list(zip(statuses, CALLS, strict=True))
    assert len({served.spent() for served in servers.values()}) == 1
    assert not any(b"fault" in each.log.read_bytes() for each in servers.values())
    assert len({_without_times(served) for served in servers.values()}) == 1


@pytest.mark.usefixtures("_silence")
def test_every_call_about_an_approval_has_one_outcome_to_the_byte(
    servers: dict[str, RunningServer], long: bool
) -> None:
    servers = all_or_two(servers, long)
    statuses, filed, line = [], 0, 0
    for number, (user, method, path, sent) in enumerate(approval_calls(), 1000):
        body = {**sent, "lines": [line]} if sent and "lines" in sent else sent
        call = method, path.format(filed=filed), body, user
        seen = {name: masked(raw(served, number, *call)) for name, served in servers.items()}
        first = next(iter(seen.values()))
        for name, answer in seen.items():
            assert answer == first, (call, name)
        statuses.append((int(first.split()[1]), call))
        reply = json.loads(first.partition(b"\r\n\r\n")[2])
        filed = reply.get("number", filed) if statuses[-1][0] == 201 else filed
        line = reply.get("line", line) or line
    assert {200, 201, 403, 409, 422} <= {status for status, _ in statuses}, statuses
    assert len({served.spent() for served in servers.values()}) == 1


@pytest.mark.usefixtures("_silence")
def test_every_page_about_an_approval_has_one_outcome_to_the_byte(
    servers: dict[str, RunningServer], long: bool
) -> None:
    servers = all_or_two(servers, long)
    with ExitStack() as open_now:
        people = {name: {user: sign_in(served, user) for user in ("ana", "olga")} for name, served in servers.items()}
        for signed_in in people.values():
            for each in signed_in.values():
                open_now.callback(each.client.close)
        _follow_pages(people)


def _follow_pages(people: dict[str, dict[str, SignedIn]]) -> None:
    form = {"sql": f"{COUNT} WHERE delay > 9", "epsilon": "0.03", "purpose": "a chart", "request": "page-key"}
    steps: list[tuple[str, str, dict[str, str] | None]] = [
        ("ana", "/p/governed/ask", {**form, "do": "forecast"}),
        ("ana", "/p/governed/answers", {**form, "do": "file"}),
        *((who, "{filed}", None) for who in ("ana", "olga")),
        ("olga", "{filed}", {"do": "refuse", "reason": ""}),
        ("olga", "{filed}", {"do": "approve", "reason": "as agreed"}),
        *((who, "{filed}", None) for who in ("ana", "olga")),
        ("ana", "{filed}", {"do": "release", "request": "page-key"}),
        *((who, "{filed}", None) for who in ("ana", "olga")),
        ("olga", PAGES, {"do": "grant", "user": "ana", "epsilon": "x", "days": "7", "purpose": "drafts"}),
        ("olga", PAGES, {"do": "grant", "user": "ana", "epsilon": "0.1", "days": "7", "purpose": "drafts"}),
        *((who, PAGES, None) for who in ("ana", "olga")),
    ]
    filed, statuses = "", []
    for who, path, sent in steps:
        replies = {
            name: signed_in[who].get(path.format(filed=filed))
            if sent is None
            else signed_in[who].post(path.format(filed=filed), sent)
            for name, signed_in in people.items()
        }
        seen = {name: page_bytes(reply) for name, reply in replies.items()}
        first = next(iter(replies.values()))
        assert len(set(seen.values())) == 1, (who, path, sent)
        statuses.append(first.status_code)
        filed = filed or (first.headers["location"] if path.endswith("/answers") else "")
    assert statuses == [200, 303, 200, 200, 400, 303, 200, 200, 303, 200, 200, 400, 303, 200, 200]


def page_bytes(reply: httpx.Response) -> bytes:
    """Give the status, the headers and the page, without what tells the moment."""
    head = b"\r\n".join(b"%s: %s" % header for header in reply.headers.raw)
    return masked(b"%d\r\n%s\r\n\r\n%s" % (reply.status_code, head, reply.content))


def _without_times(served: RunningServer) -> tuple[str, ...]:
    """Give the lines of the activity log without their times; who was answered may call again before it is written."""
    return tuple(sorted(re.sub(r'"time": "[^"]*"', "", line) for line in served.log.read_text().splitlines()))


def test_the_length_of_an_answer_is_decided_by_noisy_digits_alone(servers: dict[str, RunningServer]) -> None:
    """Answers differ in their numbers; everything else of them, and every header, is the same."""
    shapes = set()
    for number, served in enumerate(servers.values()):
        answer = masked(raw(served, 100 + number, *bought(GROUPED, fresh=True)))
        head, _, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        assert int(length[1]) == len(body)
        # a server that answered other tests has more lines
        shapes.add((re.sub(rb"content-length: \d+|(?<=/releases/)\d+", b"", head), _shape(json.loads(body)["result"])))
    assert len(shapes) == 1


def _shape(result: dict[str, Any]) -> str:
    """Give a result with its noisy numbers covered; keys and their order stay."""
    rows = [[cell if isinstance(cell, str) else "#" for cell in row] for row in result["rows"]]
    widths = {name: len(ranges) for name, ranges in result["intervals"].items()}
    receipt = {name: value for name, value in result["receipt"].items() if name not in ("line", "remaining")}
    return json.dumps([rows, widths, receipt, result["columns"], result["types"], result["warnings"]])
