"""Replies leave at ticks: what is ready a little later leaves at the same one. Time is not real here."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.running_server import COUNT, running_server
from sfumato.server import reply_ticks
from sfumato.server.reply_ticks import TICK, RepliesAtTicks, Ticks


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
    monkeypatch.setattr(reply_ticks, "time", found)
    return found


async def woken(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 60)


def test_what_is_ready_between_two_ticks_leaves_at_the_next(still: Time) -> None:
    async def replies() -> None:
        ticks = Ticks(asyncio.get_running_loop())
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
        ticks = Ticks(asyncio.get_running_loop())
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

    asyncio.run(RepliesAtTicks(inside)({"type": "http", "app": around}, sent, sent))  # type: ignore[arg-type]
    assert happened == ["made", "a tick", "http.response.start", "http.response.body"]


def test_every_reply_of_a_server_waits_for_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = 0
    real = Ticks.next

    async def counted(ticks: Ticks) -> None:
        nonlocal waited
        waited += 1
        await real(ticks)

    monkeypatch.setattr(Ticks, "next", counted)
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
