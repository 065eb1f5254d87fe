"""Replies leave at ticks: what is ready a little later leaves at the same one. Time is not real here."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from server.running_server import COUNT, RunningServer, running_server
from sfumato.server import connections
from sfumato.server.connections import TICK, ReplyTickMiddleware, ReplyTicks


@dataclass
class Time:
    """Time stands still, and who sleeps is woken by hand."""

    now: float = 123.456
    slept: list[float] = field(default_factory=list)
    asleep: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.asleep.set()
        assert self.wake.wait(60)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(connections, "time", found)
    return found


async def woken(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 60)


def test_what_is_ready_between_two_ticks_leaves_at_the_next(still: Time) -> None:
    async def replies() -> None:
        ticks = ReplyTicks(asyncio.get_running_loop())
        early = asyncio.ensure_future(ticks.next())
        await woken(still.asleep)
        late = asyncio.ensure_future(ticks.next())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not early.done()
        assert not late.done()
        still.wake.set()
        await asyncio.wait_for(asyncio.gather(early, late), 60)
        assert still.slept[0] == pytest.approx(TICK - 123.456 % TICK)
        ticks.end()

    asyncio.run(replies())


def test_nobody_waits_for_a_tick_that_does_not_come(still: Time) -> None:
    async def replies() -> None:
        ticks = ReplyTicks(asyncio.get_running_loop())
        waiting = asyncio.ensure_future(ticks.next())
        await woken(still.asleep)
        ticks.end()
        await asyncio.wait_for(waiting, 60)
        await asyncio.wait_for(ticks.next(), 60)
        still.wake.set()

    asyncio.run(replies())


def test_a_reply_is_made_first_and_leaves_at_a_tick() -> None:
    happened: list[str] = []

    class Noted:
        async def next(self) -> None:
            happened.append("a tick")

    around = SimpleNamespace(state=SimpleNamespace(ticks=Noted()))

    async def inside(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        happened.append("made")
        await send({"type": "http.response.start"})
        await send({"type": "http.response.body"})

    async def sent(message: Any) -> None:
        happened.append(message["type"])

    asyncio.run(ReplyTickMiddleware(inside)({"type": "http", "app": around}, sent, sent))  # type: ignore[arg-type]
    assert happened == ["made", "a tick", "http.response.start", "http.response.body"]


def test_every_reply_of_a_server_waits_for_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = 0
    real = ReplyTicks.next

    async def counted(ticks: ReplyTicks) -> None:
        nonlocal waited
        waited += 1
        await real(ticks)

    monkeypatch.setattr(ReplyTicks, "next", counted)
    with running_server(tmp_path) as served:
        replies = [
            served.call(None, "GET", "/healthz"),
            served.call(None, "GET", "/v1/policies"),
            served.call(None, "GET", "/nowhere"),
            served.call("ana", "POST", "/v1/policies", content=b" " * 70_000),
            served.ask("ana", "price", COUNT, within=500),
            served.buy("ana", "one"),
        ]
        assert [each.status_code for each in replies] == [200, 401, 404, 413, 200, 200]
        assert waited == len(replies)


_BODY = b"Content-Length: 2\r\n"


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"HTTP/1.1 400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 400"),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n" + _BODY + b"Content-Length: 3\r\n\r\nxxx", b"HTTP/1.1 400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n" + _BODY + b"Transfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 400"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n" + _BODY + b"\r\n{}",
            b"HTTP/1.1 405",
        ),
    ],
)
def test_what_is_no_request_is_refused_at_a_tick(
    ticking: tuple[RunningServer, list[str]], sent: bytes, reply: bytes
) -> None:
    """So is what lets a client go on, which need not be said where the reply comes first."""
    served, waited = ticking
    waited.clear()
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=120) as made:
        made.sendall(sent.replace(b"Host: x", f"Host: {where.netloc}".encode()))
        said = b""
        with suppress(ConnectionError):
            while more := made.recv(65536):
                said += more
    assert reply in said
    assert said.count(b"HTTP/1.1 ") <= len(waited) <= 2


@pytest.fixture(scope="module")
def ticking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, list[str]]]:
    """A server, and a word for each time that somebody waited for a tick of it."""
    waited: list[str] = []
    real = ReplyTicks.next

    async def counted(ticks: ReplyTicks) -> None:
        waited.append("a tick")
        await real(ticks)

    with pytest.MonkeyPatch.context() as patch, running_server(tmp_path_factory.mktemp("ticking")) as served:
        patch.setattr(ReplyTicks, "next", counted)
        yield served, waited
