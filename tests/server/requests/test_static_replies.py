"""What is the same for everybody is sent compressed, and once; everything else goes as it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest
from starlette.requests import Request

from server.running_server import BY_ORIGIN, COUNT, RunningServer, running_server
from sfumato.server.pages.rendering import static_files
from sfumato.server.requests.calls import LASTING, REVALIDATED, accepts_gzip, static_reply
from sfumato.server.rest import interface as rest
from sfumato.server.rest.interface import openapi_document
from sfumato.server.serving import build_application

PUBLIC = {"/v1/openapi.json": REVALIDATED, **{f"/static/{name}": LASTING for name in static_files()}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settled = {"free_per_second": 1000, "answer_after": 0.01}
    with running_server(tmp_path_factory.mktemp("static"), **settled) as running:
        yield running


def raw(served: RunningServer, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Give a reply, and its bytes as they were sent."""
    shown = {"Accept-Encoding": "identity", **headers}
    with served.client() as client, client.stream("GET", path, headers=shown) as reply:
        return reply, b"".join(reply.iter_raw())


@pytest.mark.parametrize("path", PUBLIC)
def test_it_is_compressed_for_whoever_takes_that(served: RunningServer, path: str) -> None:
    plain, whole = raw(served, path)
    short, bytes_sent = raw(served, path, **{"Accept-Encoding": "br;q=1, gzip"})
    assert (plain.status_code, short.status_code) == (200, 200)
    assert "content-encoding" not in plain.headers
    assert short.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes_sent) == whole
    assert len(bytes_sent) == int(short.headers["content-length"]) < len(whole)
    for reply in (plain, short):
        assert reply.headers["vary"] == "Accept-Encoding"
        assert reply.headers["cache-control"] == PUBLIC[path]
    assert plain.headers["etag"] != short.headers["etag"]  # their bytes differ


def test_the_description_is_that_of_every_operation_and_twelve_times_as_short(served: RunningServer) -> None:
    _, whole = raw(served, "/v1/openapi.json")
    assert json.loads(whole) == json.loads(json.dumps(openapi_document(rest.OPERATIONS)))
    _, short = raw(served, "/v1/openapi.json", **{"Accept-Encoding": "gzip"})
    assert 12 * len(short) < len(whole)


@pytest.mark.parametrize("path", PUBLIC)
@pytest.mark.parametrize("taken", ["identity", "gzip"])
def test_whoever_has_it_is_told_so_without_its_bytes(served: RunningServer, path: str, taken: str) -> None:
    known, _ = raw(served, path, **{"Accept-Encoding": taken})
    tag = known.headers["etag"]
    for shown in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again, nothing = raw(served, path, **{"Accept-Encoding": taken, "If-None-Match": shown})
        assert (again.status_code, nothing) == (304, b""), shown
        assert [again.headers[name] for name in ("etag", "vary", "cache-control")] == [
            known.headers[name] for name in ("etag", "vary", "cache-control")
        ]
        assert "content-encoding" not in again.headers
    for other in ('"other"', tag.strip('"'), tag.replace("-gzip", "") if taken == "gzip" else tag[:-1] + '-gzip"'):
        assert raw(served, path, **{"Accept-Encoding": taken, "If-None-Match": other})[0].status_code == 200, other


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        (["gzip"], True),
        (["GZip ; q=0.5"], True),
        (["br, gzip;q=0.1"], True),
        (["br", "gzip"], True),
        (["*"], True),
        (["gzip;q=0, *"], False),
        (["gzip;q=0"], False),
        (["gzip;q=nonsense"], False),
        (["identity;q=1, gzip;q=0.5"], False),
        (["identity;q=0.5, gzip;q=0.5"], True),
        (["br, deflate"], False),
        ([""], False),
        ([], False),
    ],
)
def test_who_takes_what_is_compressed(accepted: list[str], taken: bool) -> None:
    assert accepts_gzip(accepted) is taken


def test_what_would_become_longer_goes_as_it_is() -> None:
    reply = static_reply(b"x", "text/plain", LASTING)
    assert len(reply.compressed) > 1
    request = Request({"type": "http", "headers": [(b"accept-encoding", b"gzip")]})
    assert reply.respond(request).body == b"x"
    assert "content-encoding" not in reply.respond(request).headers


def test_everything_is_compressed_before_anybody_asks(served: RunningServer) -> None:
    for each in (rest.openapi_reply, static_files):
        each.cache_clear()
    build_application(served.counter)
    assert rest.openapi_reply.cache_info().currsize == static_files.cache_info().currsize == 1
    raw(served, "/v1/openapi.json")
    raw(served, "/static/sfumato.css")
    assert rest.openapi_reply.cache_info().misses == static_files.cache_info().misses == 1


def test_nothing_else_is_compressed(served: RunningServer) -> None:
    """A text that holds a secret beside what a stranger chose tells of it by how short it becomes."""
    long = {"Accept-Encoding": "gzip"}
    bought = served.buy("ana", "long", BY_ORIGIN, headers=long)
    line = bought.json()["line"]
    replies = [
        bought,
        served.ask("ana", "explain", COUNT, epsilon=1),
        served.call("ana", "GET", f"/v1/policies/flights/releases/{line}?form=svg", headers=long),
        served.call("ana", "GET", "/v1/policies/flights/history", headers=long),
        served.call("olga", "GET", "/v1/policies/flights/ledger/export", headers=long),
        served.call(None, "GET", "/", headers={**long, "Accept": "text/html"}),
        served.call(None, "GET", f"/v1/{'secret' * 300}", headers=long),
    ]
    assert max(len(each.content) for each in replies) > 2000
    for each in replies:
        assert "content-encoding" not in each.headers, each.url
        assert "etag" not in each.headers, each.url
