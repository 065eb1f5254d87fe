"""What hostile callers send is refused before it is read, spends nothing, and is written in no log."""

from __future__ import annotations

import gzip
import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server.running_server import COUNT, RunningServer, running_server
from sfumato.errors import LedgerUnavailable
from sfumato.ledger import Account
from sfumato.server import connections
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.answer_clock import QuestionRateLimit
from sfumato.server.requests import responses
from sfumato.server.settings import ServerSettings

LARGE = 1 << 24
PLACE = "/v1/policies/flights/releases"
SECRET = "SELECT COUNT(*) AS n FROM flights WHERE carrier = 'Bartholomew Higginbotham'"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder, more = tmp_path_factory.mktemp("hostile"), [Route("/whence", _whence), Route("/large", _large)]
    with running_server(folder, more=more, free_per_second=1000) as running:
        yield running


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waits less long for a head and a body: for those tests alone that wait for its patience to end."""
    monkeypatch.setattr(responses, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)


async def _whence(request: Request) -> JSONResponse:
    """Tell where the server thinks that a caller comes from."""
    return JSONResponse([request.client.host if request.client else "", request.url.scheme])


async def _large(_: Request) -> Response:
    """Say more than the buffers on the way to a client hold."""
    return Response(bytes(LARGE))


def body(length: int | None = None) -> bytes:
    """Give a release that may be bought, filled up to so many bytes."""
    sent = json.dumps({"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}}).encode()
    return sent if length is None else sent + b" " * (length - len(sent))


def raw(served: RunningServer, head: str, *parts: bytes, pause: float = 0, user: str = "ana") -> tuple[int, bytes]:
    """Send bytes as they are, with ana's token, and read what comes back until the connection ends."""
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        token = f"Authorization: Bearer {served.tokens[user]}\r\n"
        key = "Idempotency-Key: hostile\r\nContent-Type: application/json\r\nConnection: close\r\n"
        made.sendall(f"POST {PLACE} HTTP/1.1\r\nHost: {where.netloc}\r\n{token}{key}{head}\r\n".encode())
        for each in parts:
            time.sleep(pause)
            with suppress(OSError):
                made.sendall(each)
        found = _until_the_end(made)
    answer, _, rest = found.partition(b"\r\n\r\n")
    return int(answer.split()[1]), rest


@pytest.fixture(autouse=True)
def _nothing_is_spent(served: RunningServer) -> Iterator[None]:
    before = served.spent()
    yield
    assert served.spent() == before


def test_a_body_of_64_kb_is_read_and_not_a_byte_more(served: RunningServer) -> None:
    most = served.counter.settings.body_bytes
    assert most == 65536
    served.call("olga", "POST", "/v1/policies/flights/pause", json={"paused": True})
    try:
        headers = {"Idempotency-Key": "large", "Content-Type": "application/json"}
        assert (
            served.call("ana", "POST", PLACE, content=body(most), headers=headers).status_code == 503
        )  # paused: it was read
        assert served.call("ana", "POST", PLACE, content=body(most + 1), headers=headers).status_code == 413
    finally:
        served.call("olga", "POST", "/v1/policies/flights/pause", json={"paused": False})


def test_a_body_that_says_it_is_large_is_refused_unread(served: RunningServer) -> None:
    status, said = raw(served, "Content-Length: 65537\r\n")
    assert (status, json.loads(said)["code"]) == (413, "body-too-large")
    assert raw(served, "Content-Length: 99999999999999999999999\r\n")[0] in (400, 413)


def test_a_body_without_a_length_is_cut_off(served: RunningServer) -> None:
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    assert raw(served, "Transfer-Encoding: chunked\r\n", *[chunk] * 5)[0] == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
def test_nothing_compressed_is_taken_apart(served: RunningServer, encoding: str) -> None:
    bomb = gzip.compress(b" " * (1 << 24))
    headers = f"Content-Length: {len(bomb)}\r\nContent-Encoding: {encoding}\r\n"
    status, said = raw(served, headers, bomb)
    assert (status, json.loads(said)["place"]) == (415, "Content-Encoding")


@pytest.mark.usefixtures("_hurried")
def test_a_body_that_arrives_slowly_is_refused(served: RunningServer) -> None:
    sent = body()
    parts = [sent[place : place + 10] for place in range(0, len(sent), 10)]
    status, said = raw(served, f"Content-Length: {len(sent)}\r\n", *parts, pause=0.2)
    assert (status, json.loads(said)["place"]) == (408, "the body")


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_connection_that_does_not_ask_is_closed(served: RunningServer, begun: bytes) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        made.sendall(begun)
        assert _until_the_end(made) == b""


def test_a_second_head_is_bounded_like_the_first(served: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert made.recv(65536).startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
        made.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        assert not _until_the_end(made).startswith(b"HTTP")


def test_headers_without_end_are_not_kept(served: RunningServer) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        with suppress(OSError):
            made.sendall(b"GET /healthz HTTP/1.1\r\n" + b"X-Much: x\r\n" * 100_000)
        assert _until_the_end(made) == b""


def _unread(served: RunningServer) -> socket.socket:
    """Ask for more than the buffers on the way hold, and read nothing."""
    where = urlsplit(served.url)
    made = socket.create_connection((where.hostname, where.port), timeout=120)
    made.sendall(f"GET /large HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode() * 2)
    return made


def _wait_for(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_who_does_not_read_is_not_waited_for(served: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    before = len(served.server.server_state.connections)
    with _unread(served):
        _wait_for(lambda: len(served.server.server_state.connections) > before)
        _wait_for(lambda: len(served.server.server_state.connections) <= before)


def test_who_reads_slowly_is_waited_for(served: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has read something since the last look gets everything."""
    monkeypatch.setattr(connections, "READ_SECONDS", 0.2)
    monkeypatch.setattr(connections, "MIN_READ_BYTES", 0)
    with _unread(served) as made:
        found = 0
        while found < 2 * LARGE:
            time.sleep(0.01)
            part = made.recv(1 << 20)
            assert part, f"the connection was closed after {found} bytes"
            found += len(part)


def test_who_does_not_read_does_not_keep_a_server_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads nothing of a reply, and another nothing of a short one that ends the connection."""
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    monkeypatch.setattr(connections, "MIN_READ_BYTES", 0)  # whoever reads nothing is waited for, until the server ends
    with running_server(tmp_path, more=[Route("/large", _large)]) as running, _unread(running):
        _wait_for(lambda: any(each.flow.write_paused for each in running.server.server_state.connections))
        running.server.stop()
        _wait_for(lambda: not running.server.server_state.connections)


def test_of_too_many_connections_the_oldest_that_asks_nothing_is_closed(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = urlsplit(served.url)
    for each in served.clients.values():
        each.close()
    served.clients.clear()
    _wait_for(lambda: not served.server.server_state.connections)
    monkeypatch.setattr(connections, "max_connections", lambda: 3)
    with ExitStack() as stack:
        made = []
        for many in range(5):
            made.append(stack.enter_context(socket.create_connection((where.hostname, where.port), timeout=120)))
            if many < 3:
                _wait_for(lambda many=many: len(served.server.server_state.connections) == many + 1)  # type: ignore[misc]
        assert [_until_the_end(each) for each in made[:2]] == [b"", b""]
        made[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert _until_the_end(made[-1]).startswith(b"HTTP/1.1 200")


def test_a_process_keeps_half_of_the_files_it_may_open_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {1024: 512, 10: 8, resource.RLIM_INFINITY: 10_000}
    for most, kept in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        assert connections.max_connections() == kept


def test_requests_that_wait_for_each_other_without_end_are_not_kept(served: RunningServer) -> None:
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        with suppress(OSError):
            made.sendall(
                f"GET /large HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode() * (connections.MAX_PIPELINED + 2)
            )
        assert len(_until_the_end(made)) < 60 * LARGE


def _until_the_end(made: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while more := made.recv(65536):
            found += more
    return found


def test_two_lengths_or_half_a_request_are_no_request(served: RunningServer) -> None:
    assert raw(served, f"Content-Length: {len(body())}\r\nContent-Length: 5\r\n", body())[0] == 400
    assert raw(served, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")[0] == 400


def test_whoever_hangs_up_while_sending_buys_nothing(served: RunningServer) -> None:
    where = urlsplit(served.url)
    for _ in range(3):
        with socket.create_connection((where.hostname, where.port), timeout=120) as made:
            head = f"POST {PLACE} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {served.tokens['ana']}\r\n"
            made.sendall(f"{head}Idempotency-Key: gone\r\nContent-Length: {len(body())}\r\n\r\n".encode() + body()[:20])
    assert served.call("ana", "GET", PLACE, params={"key": "gone"}).status_code == 404


def test_a_wrong_token_and_an_unknown_user_get_the_same_bytes(served: RunningServer) -> None:
    people = served.counter.people
    people.add_user("gone", "analyst", by="tests")
    token, revoked = people.new_token("gone", by="tests")
    people.revoke_token(token.number, by="tests")
    disabled = people.new_token("gone", by="tests")[1]
    people.set_disabled("gone", True, by="tests")
    right = served.tokens["ana"]
    shown = [
        "",
        "x",
        right[:-1] + ("A" if right[-1] != "A" else "B"),
        right.upper(),
        revoked,
        disabled,
        "sfu_" + "é" * 3,
    ]
    heads = [f"Authorization: Bearer {each}\r\n" for each in shown] + ["", "Authorization: Basic YW5hOg==\r\n"]
    answers = {_without_date(_get(served, "/v1/policies/flights", head)) for head in heads}
    assert len(answers) == 1
    (only,) = answers
    assert only.startswith(b"HTTP/1.1 401")
    assert b"www-authenticate: Bearer" in only


def _get(served: RunningServer, path: str, head: str) -> bytes:
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n{head}\r\n".encode())
        return _until_the_end(made)


def _without_date(answer: bytes) -> bytes:
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith(b"date:"))


def test_a_policy_that_does_not_name_you_looks_like_one_that_is_not_there(served: RunningServer) -> None:
    for path in ("", "/budget", "/history", "/releases/1"):
        there = served.call("eve", "GET", f"/v1/policies/flights{path}")
        missing = served.call("eve", "GET", f"/v1/policies/freight{path}")
        assert there.status_code == missing.status_code == 404
        assert there.text.replace("flights", "freight") == missing.text


def test_nobody_is_believed_about_where_they_come_from(served: RunningServer) -> None:
    lies = {
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Proto": "https",
        "Forwarded": "for=::1",
        "X-Real-IP": "::1",
    }
    assert served.call(None, "GET", "/whence", headers=lies).json() == ["127.0.0.1", "http"]
    for user in (None, "ana"):
        plain = served.call(user, "GET", "/v1/policies")
        lying = served.call(user, "GET", "/v1/policies", headers={**lies, "X-Forwarded-User": "olga"})
        assert (plain.status_code, plain.content) == (lying.status_code, lying.content)
        assert {**plain.headers, "date": ""} == {**lying.headers, "date": ""}


def test_a_cookie_does_not_sign_in_here(served: RunningServer) -> None:
    link = served.counter.people.new_link("olga", by="tests")
    cookie = served.counter.people.sign_in(link, timedelta(hours=1))
    assert cookie is not None
    for name in ("session", "sfumato", "__Host-sfumato", f"sfumato-{urlsplit(served.url).port}"):
        assert served.call(None, "GET", "/v1/policies", headers={"Cookie": f"{name}={cookie}"}).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/v1/policies", "/nothing", "/v1/policies/x/history", "/v1/openapi.json"])
def test_every_answer_has_the_headers(served: RunningServer, path: str) -> None:
    for user in (None, "ana"):
        headers = served.call(user, "GET", path).headers
        assert headers["cache-control"] == ("public, no-cache" if path == "/v1/openapi.json" else "no-store")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers
        assert "set-cookie" not in headers
        assert not [name for name in headers if name.startswith("access-control")]


def test_no_log_holds_a_question_or_a_token(served: RunningServer, capfd: pytest.CaptureFixture[str]) -> None:
    served.ask("ana", "error", SECRET, epsilon=1)
    served.ask("ana", "error", f"{SECRET} AND", epsilon=1)
    served.buy("ana", "secret-key", SECRET, price={"epsilon": "2.9"})
    served.call(None, "GET", "/v1/policies", headers={"Authorization": "Bearer sfu_wrong-but-secret"})
    served.call("ana", "GET", "/v1/policies/flights/history?after=Higginbotham")
    raw(served, "Content-Length: 5\r\nX-Bad: \x00Higginbotham\r\n", b"xxxxx")
    said = served.log.read_text() + "".join(capfd.readouterr())
    assert '"user": "ana"' in said
    for secret in ("Higginbotham", "Bartholomew", "wrong-but-secret", *served.tokens.values()):
        assert secret not in said


def test_metrics_and_health_hold_no_number_of_rows(served: RunningServer) -> None:
    before = _numbers(served)
    served.ask("ana", "error", epsilon=1)
    served.ask("ana", "error", epsilon=-1)
    after = _numbers(served)
    assert after["tell"] - before["tell"] == 2
    assert after["400"] - before.get("400", 0) == 1
    names = {
        line.partition("{")[0] for line in served.call("olga", "GET", "/metrics").text.splitlines() if line[0] != "#"
    }
    assert names == {"sfumato_info", "sfumato_calls_total", "sfumato_refusals_total"}
    assert served.call(None, "GET", "/healthz").json() == {"status": "alive"}
    told = {who: served.call(who, "GET", "/metrics") for who in (None, "ana", "audrey")}
    assert {who: answer.status_code for who, answer in told.items()} == {None: 401, "ana": 403, "audrey": 403}
    assert not any("sfumato_calls" in answer.text for answer in told.values())


def _numbers(served: RunningServer) -> dict[str, int]:
    lines = served.call("olga", "GET", "/metrics").text.splitlines()
    return {line.split('"')[1]: int(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def test_a_fault_inside_is_told_with_one_text(served: RunningServer, monkeypatch: Any, capfd: Any) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("Higginbotham")

    monkeypatch.setattr(served.counter, "policies", fails)
    answer = served.call("ana", "GET", "/v1/policies")
    assert (answer.status_code, answer.json()["rule"]) == (500, "the server could not finish this request")
    said = "".join(capfd.readouterr())
    assert "Higginbotham" not in said + answer.text
    assert "fault: KeyError in server.test_hostile_requests" in said


def test_a_request_that_is_replayed_buys_nothing_more(tmp_path: Path) -> None:
    """The same bytes from elsewhere get the answer again; other bytes under their key do not, nor does anybody else."""
    with running_server(tmp_path, answer_after=0.05) as fresh:
        answers = [raw(fresh, f"Content-Length: {len(body())}\r\n", body()) for _ in range(4)]
        assert {status for status, _ in answers} == {200}
        assert len({json.loads(said)["line"] for _, said in answers}) == 1
        assert fresh.spent() == 1
        other = body().replace(b"0.01", b"0.02")
        assert raw(fresh, f"Content-Length: {len(other)}\r\n", other)[0] == 409
        line = json.loads(answers[0][1])["line"]
        assert fresh.call("ben", "GET", f"{PLACE}/{line}").status_code == 404
        assert fresh.call("ben", "GET", PLACE, params={"key": "hostile"}).status_code == 404
        assert fresh.spent() == 1


def test_who_asks_too_much_is_told_when_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free questions beyond so many a second, and releases beyond the queue, are refused and cost nothing."""
    with running_server(tmp_path, free_per_second=5, queue=1, answer_after=0.05) as busy:
        monkeypatch.setattr(busy.counter._rate_limit, "_now", lambda: 100.0)  # one moment for all of them
        limited = [busy.ask("ana", "error", epsilon="0.1") for _ in range(6)]
        assert [each.status_code for each in limited] == [200] * 5 + [429]
        _told_to_wait(limited[-1])
        assert busy.ask("ben", "error", epsilon="0.1").status_code == 200  # another's limit is their own
        with monkeypatch.context() as patch:
            patch.setattr(busy.counter._flights, "begin_if_user_has_slot", lambda _: False)  # nobody's turn comes
            sent = [busy.buy("olga", f"key-{number}", price=_FRESH, headers=_ASYNC) for number in range(2)]
        assert sent[0].status_code == 202
        _told_to_wait(sent[1])
        assert busy.buy("olga", "key-0", price=_FRESH).status_code == 200
        assert busy.spent() == 1


_ASYNC = {"Prefer": "respond-async"}
_FRESH = {"epsilon": "0.01", "fresh": True}


def _told_to_wait(answer: Any) -> None:
    assert (answer.status_code, answer.json()["code"]) == (429, "too-many-requests"), answer.text
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_looks_too_often_is_told_when_to_come_back(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(served.counter, "_rate_limit", QuestionRateLimit(2, lambda: 0.0))
    told = [served.call("ana", method, "/v1/policies/flights/budget").status_code for _ in range(3)]
    assert told == [200, 200, 429]
    assert served.call("ben", method, "/v1/policies/flights/releases/1").status_code == 404
    assert served.call("ben", method, "/v1/policies").status_code == 200
    late = served.call("ben", method, "/v1/policies/flights/releases/1")
    assert (late.status_code, late.headers["Retry-After"]) == (429, "1")
    assert [served.call("ana", "GET", path).status_code for path in ("/healthz", "/v1/openapi.json")] == [200, 200]
    cookie = served.counter.people.sign_in(served.counter.people.new_link("olga", by="tests"), timedelta(hours=1))
    name = f"sfumato-{urlsplit(served.url).port}"
    pages = [served.call(None, method, "/", headers={"Cookie": f"{name}={cookie}"}) for _ in range(3)]
    assert [each.status_code for each in pages] == [200, 200, 429]
    assert method == "HEAD" or "olga" in pages[2].text  # who is refused is signed in still


def test_a_ledger_that_cannot_be_used_is_503_and_nothing_is_spent(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable("the ledger cannot be used now", place="the ledger", fix="wait")

    with monkeypatch.context() as patch:
        patch.setattr(Account, "ask", fails)
        refused = served.buy("ana", "no-ledger")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text
    with monkeypatch.context() as patch:
        patch.setattr(PeopleFile, "authenticate", fails)
        refused = served.call("ana", "GET", "/v1/policies")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text


def test_a_socket_file_is_for_its_user_and_group_alone(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with running_server(tmp_path, at=f"unix:{place}") as served:
        assert place.stat().st_mode & 0o777 == 0o660
        assert served.call("ana", "GET", "/v1/policies").json() == {"policies": ["flights"]}
        served.spent()
    assert not place.exists()


@pytest.mark.parametrize("digits", [15, 16, 19, 30, 5000])
def test_a_number_in_an_address_may_be_of_any_length(served: RunningServer, digits: int) -> None:
    """A database takes 64 bits, and Python reads 4,300 digits: what is longer is not there, and nothing fails."""
    number = "9" * digits
    for method, path in (("GET", f"/v1/policies/flights/releases/{number}"), ("DELETE", f"/v1/tokens/{number}")):
        assert served.call("olga", method, path).status_code in ((400, 404) if digits == 15 else (404,))
    page = served.call(None, "GET", f"/p/flights/answers/{number}", headers={"Accept": "text/html"})
    assert page.status_code in (401, 404)


# ── who, then role, then limits, and only then the question ────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "route"),
    [("proposals/questions", "tell"), ("releases", "release"), ("pause", "pause"), ("amend", "amend")],
)
def test_who_may_not_is_told_nothing_of_what_they_sent(served: RunningServer, path: str, route: str) -> None:
    """A question that is refused for what it says has been read: only of who may ask."""
    user = "audrey" if route in ("tell", "release") else "ana"
    before = len(served.log.read_text().splitlines())
    for wrong in (b"nonsense", b"[1]", b"{}", b""):
        headers = {"Content-Type": "application/json", "Idempotency-Key": "wrong"}
        answer = served.call(user, "POST", f"/v1/policies/flights/{path}", content=wrong, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    logged = [json.loads(line) for line in served.log.read_text().splitlines()[before:]]
    assert [(each["user"], each["route"], each["status"]) for each in logged] == [(user, route, 403)] * 4


def test_what_cannot_be_read_is_written_down(served: RunningServer) -> None:
    """Else a client could have as many bodies read as it likes, and nobody would know."""
    sent: dict[str, Any] = {
        "content": b"gibberish",
        "headers": {"Content-Type": "application/json", "Idempotency-Key": "x"},
    }
    before = len(served.log.read_text().splitlines())
    for path in ("proposals/questions", "releases"):
        assert served.call("ben", "POST", f"/v1/policies/flights/{path}", **sent).status_code == 400
    logged = [json.loads(line) for line in served.log.read_text().splitlines()[before:]]
    assert [(each["user"], each["route"], each["status"]) for each in logged] == [
        ("ben", "tell", 400),
        ("ben", "release", 400),
    ]
    assert "gibberish" not in served.log.read_text()


@pytest.mark.parametrize(
    "path", ["/v1%2Fpolicies", "/v1%2fpolicies", "/v1/%70olicies", "/%76%31/policies", "/v1/policies%2e"]
)
def test_a_path_with_encoded_letters_or_slashes_is_not_there(served: RunningServer, path: str) -> None:
    assert _get(served, path, f"Authorization: Bearer {served.tokens['ana']}\r\n").startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "", "127.0.0.1.evil.example:{port}"]
)
def test_another_host_is_refused(served: RunningServer, host: str) -> None:
    """A page of another site whose name points to this machine names its own host."""
    where = urlsplit(served.url)
    headers = {"Host": host.format(port=where.port)}
    refused = served.call("ana", "GET", "/v1/policies", headers=headers)
    assert (refused.status_code, refused.json()["place"]) == (421, "Host")
    assert served.call(None, "GET", "/healthz", headers=headers).status_code == 200
    for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
        accepted = served.call("ana", "GET", "/v1/policies", headers={"Host": f"{name}:{where.port}"})
        assert accepted.status_code == 200


def test_the_hosts_of_a_server_are_its_public_name_and_its_own_addresses() -> None:
    known = ServerSettings(listen="10.0.0.5:1", certificate="a", certificate_key="b", public_url="https://x.example")
    listener = ("10.0.0.5", 1)
    assert known.accepts_host("x.example", listener)
    assert known.accepts_host("X.Example", listener)
    assert known.accepts_host("10.0.0.5:1", listener)
    assert not known.accepts_host("x.example:444", listener)
    assert not known.accepts_host("y.example", listener)
    unnamed = ServerSettings(listen="10.0.0.5:1", certificate="a", certificate_key="b")
    assert unnamed.accepts_host("y.example", listener)
    assert ServerSettings().accepts_host("any", ("/run/sfumato.sock", None))


@pytest.mark.parametrize("chunk", [1 << 20, 1000, 65_533])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_head_of_64_kb_is_read_and_not_a_byte_more(served: RunningServer, chunk: int, beyond: int) -> None:
    where = urlsplit(served.url)
    first = f"GET /healthz HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\nX-Long: ".encode()
    head = first + b"x" * (connections.MAX_HEAD_BYTES + beyond - len(first) - 4) + b"\r\n\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):
            for start in range(0, len(head), chunk):
                made.sendall(head[start : start + chunk])
                time.sleep(0.001)  # in packets of their own
        reply = _until_the_end(made)
    assert reply.startswith(b"HTTP/1.1 200") is not bool(beyond)


@pytest.mark.parametrize(
    "sent",
    [
        '{"kind": "questions", "kind": "questions", "spec": {"sql": "SELECT 1"}, "price": {"epsilon": "0.01"}}',
        '{"kind": "questions", "spec": {"sql": "S", "sql": "T"}, "price": {"epsilon": "0.01"}}',
        '{"kind": "questions", "spec": {"sql": "S"}, "price": {"epsilon": "0.01", "epsilon": "900"}}',
        '{"kind": "questions", "spec": {"sql": "S"}, "price": {"epsilon": "0.01", "\\u0065psilon": "900"}}',
    ],
)
def test_a_field_given_twice_is_refused(served: RunningServer, sent: str) -> None:
    """Which of the two counts would be a matter of the parser."""
    headers = {"Idempotency-Key": "twice", "Content-Type": "application/json"}
    refused = served.call("ana", "POST", PLACE, content=sent, headers=headers)
    assert refused.status_code == 400
    assert "is given twice" in refused.json()["rule"]
