"""Who waits for whom: catalog statements in a queue of their own, bounded connections, and when replies leave."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast

import pytest

from server.postgres.raw_client import (
    SYNC,
    bind,
    describe,
    errors_in,
    execute,
    parse,
    query,
    raw_connection,
    rows_in,
    signed_in,
    startup,
)
from server.postgres.test_clients import cancel, wait_until
from server.postgres.test_hostile_bytes import source_of
from server.postgres.test_sessions import fresh_question
from server.postgres.wire_server import WireServer
from sfumato.errors import TooManyRequests
from sfumato.policy import Type
from sfumato.server.postgres import catalog_queue, listening, protocol
from sfumato.server.postgres.catalog import PolicyCatalog
from sfumato.server.postgres.catalog_queue import CatalogQueue
from sfumato.server.postgres.listening import ClientConnection
from sfumato.server.postgres.session_settings import SessionSettings
from sfumato.server.postgres.sessions import ClientSession, Reply
from sfumato.server.postgres.statements import SqlRefusal
from sfumato.server.releases.answer_clock import DelayedOpenings, FairQueue

SLOW = "SELECT COUNT(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_proc d WHERE a.attname < b.attname"


class Calls:
    """Blocking calls that end when they are told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.interrupted: list[str] = []
        self.end = threading.Event()

    def call(self, name: str) -> Callable[[], str]:
        def run() -> str:
            self.begun.append(name)
            assert self.end.wait(60)
            return name

        return run

    def interrupt(self, name: str) -> Callable[[], None]:
        def end() -> None:
            self.interrupted.append(name)
            self.end.set()

        return end


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.001)


def run_in(queue: CatalogQueue, calls: Calls, user: str, name: str, event: asyncio.Event | None = None) -> Any:
    running = queue.run(user, calls.call(name), calls.interrupt(name), event or asyncio.Event())
    return asyncio.ensure_future(running)


def test_a_user_runs_one_catalog_statement_at_a_time_and_others_need_not_wait() -> None:
    async def converse() -> None:
        queue, calls = CatalogQueue(2), Calls()
        tasks = [run_in(queue, calls, "ana", f"ana {number}") for number in range(3)]
        await until(lambda: calls.begun == ["ana 0"])
        tasks += [run_in(queue, calls, "ben", "ben")]
        await until(lambda: calls.begun == ["ana 0", "ben"])
        calls.end.set()
        assert await asyncio.gather(*tasks) == ["ana 0", "ana 1", "ana 2", "ben"]
        assert not queue._users
        queue.close()

    asyncio.run(converse())


def test_waiting_is_bounded_in_number_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse() -> None:
        queue, calls = CatalogQueue(1), Calls()
        own = [run_in(queue, calls, "ana", "own") for _ in range(catalog_queue.MAX_WAITING_PER_USER)]
        await until(lambda: calls.begun == ["own"])
        with pytest.raises(TooManyRequests):
            await run_in(queue, calls, "ana", "one more")
        other = run_in(queue, calls, "ben", "ben")
        await asyncio.sleep(0)
        monkeypatch.setattr(catalog_queue, "MAX_WAITING", len(own) + 1)
        with pytest.raises(TooManyRequests):
            await run_in(queue, calls, "cleo", "one more")
        monkeypatch.setattr(catalog_queue, "MAX_WAITING", 100)
        monkeypatch.setattr(catalog_queue, "WAIT_SECONDS", 0.01)
        with pytest.raises(TooManyRequests):
            await run_in(queue, calls, "cleo", "too late")
        calls.end.set()
        await asyncio.gather(*own, other)
        assert "one more" not in calls.begun
        assert "too late" not in calls.begun
        queue.close()

    asyncio.run(converse())


def test_a_cancelled_statement_leaves_the_queue_or_is_interrupted() -> None:
    async def converse() -> None:
        queue, calls, first, second = CatalogQueue(1), Calls(), asyncio.Event(), asyncio.Event()
        running = run_in(queue, calls, "ana", "running", first)
        waiting = run_in(queue, calls, "ana", "waiting", second)
        await until(lambda: calls.begun == ["running"])
        for event, task in ((second, waiting), (first, running)):
            event.set()
            with pytest.raises(SqlRefusal) as told:
                await task
            assert told.value.sqlstate == "57014"
        assert calls.interrupted[0] == "running"
        assert "waiting" not in calls.begun + calls.interrupted
        queue.close()

    asyncio.run(converse())


def test_a_catalog_statement_runs_beside_the_threads_of_questions(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    original = PolicyCatalog._answer

    def record(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return original(*arguments)

    monkeypatch.setattr(PolicyCatalog, "_answer", record)
    with signed_in(wire) as client:
        assert errors_in(client.ask(query("SELECT relname AS beside FROM pg_class LIMIT 1"))) == []
    assert [name.partition("_")[0] for name in threads] == ["catalog"]


def test_a_running_catalog_statement_can_be_cancelled(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself it would take longer than the client waits. The engine is killed; the next statement has another."""
    monkeypatch.setattr("sfumato.server.postgres.catalog.engine.TIME_LIMIT", 45.0)
    with raw_connection(wire) as client:
        messages = client.sign_in("ana", wire.tokens["ana"])
        (key,) = (body for kind, body in messages if kind == b"K")
        client.ask(query("SELECT relname FROM pg_class LIMIT 2"))
        client.send(query(SLOW))
        postgres = wire.server._postgres
        assert postgres is not None
        wait_until(lambda: "ana" in postgres._catalog_queue._users)
        cancel(wire, key)
        assert errors_in(client.read_until(b"Z")) == ["57014"]
        assert len(rows_in(client.ask(query("SELECT relname FROM pg_class LIMIT 3")))) == 3


# ── connections ────────────────────────────────────────────────────────────────────────────────


def test_connections_without_a_sign_in_have_a_bound_of_their_own(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MAX_SIGNING_IN", 2)
    postgres = wire.server._postgres
    assert postgres is not None
    wait_until(lambda: not postgres._open)
    with signed_in(wire) as client:
        with ExitStack() as opened:
            for _ in range(2):
                opened.enter_context(raw_connection(wire))
            wait_until(lambda: len(postgres._open) == 3)
            with raw_connection(wire) as refused:
                assert errors_in([refused.read()]) == ["53300"]
            assert rows_in(client.ask(query("SELECT 1"))) == [[b"1"]]
        wait_until(lambda: len(postgres._open) == 1)
        with signed_in(wire, "ben") as other:
            assert rows_in(other.ask(query("SELECT 1"))) == [[b"1"]]


@pytest.mark.parametrize(("limit", "users"), [("MAX_CONNECTIONS", ("ana", "ben")), ("MAX_USER_CONNECTIONS", ("ana",))])
def test_connections_are_bounded_for_all_and_for_each_user(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, limit: str, users: tuple[str, ...]
) -> None:
    """Only who has proven a token is told, and one user's connections leave room for another's."""
    postgres = wire.server._postgres
    assert postgres is not None
    wait_until(lambda: not postgres._open)
    monkeypatch.setattr(listening, limit, 1)
    with signed_in(wire):
        for user in ("ana", "ben"):
            with raw_connection(wire) as client:
                client.send(startup(user))
                codes = errors_in(client.prove(wire.tokens[user]))
            assert codes == (["53300"] if user in users else [])


# ── when replies leave ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("messages", "reply"),
    [
        ([query("SELECT 1")], Reply.AT_ONCE),
        ([query("SHOW timezone")], Reply.AT_ONCE),
        ([query("SET application_name = 'x'; BEGIN")], Reply.AT_ONCE),
        ([query("")], Reply.AT_ONCE),
        ([query("SELEC 1")], Reply.AT_ONCE),
        ([query("SELECT relname FROM pg_class")], Reply.AT_ONCE),
        ([parse("SELECT 1"), bind(), describe("P"), execute(), SYNC], Reply.AT_ONCE),
        ([query("SELECT COUNT(*) FROM visits")], Reply.AT_TICK),
        ([query("EXPLAIN SELECT COUNT(*) FROM visits")], Reply.AT_TICK),
        ([query("COPY (SELECT COUNT(*) FROM visits) TO STDOUT")], Reply.AT_TICK),
        ([query("SELECT 1; SELECT COUNT(*) FROM visits")], Reply.AT_TICK),
        ([query("SELECT * FROM sfumato.budget")], Reply.AT_TICK),
        ([query("SELECT nothing(1)")], Reply.AT_TICK),
        ([parse("SELECT COUNT(*) FROM visits"), describe("S"), SYNC], Reply.AT_TICK),
        ([parse("SELECT COUNT(*) FROM visits"), bind(), execute(), SYNC], Reply.AT_TICK),
        ([query("BEGIN"), query("DECLARE c CURSOR FOR SELECT COUNT(*) FROM visits"), query("FETCH c")], Reply.AT_TICK),
    ],
)
def test_what_asks_the_curator_leaves_at_a_tick(wire: WireServer, messages: list[bytes], reply: Reply) -> None:
    class Outbox:
        async def send(self, data: bytes) -> None:
            pass

    async def converse() -> list[Reply]:
        settings = SessionSettings("ana", "15.0", {}, {})
        session = ClientSession(source_of(wire), settings, lambda: {"age": Type.INTEGER}, Outbox())
        replies = [await session.handle_frame(each[:1], each[5:]) for each in messages]
        again = await session.handle(protocol.SimpleQuery("SHOW timezone"))
        assert again is Reply.AT_ONCE  # a reply says nothing about the next one
        return replies

    assert asyncio.run(converse())[-1] is reply


class RecordedWrites:
    """A writer, and its transport, that keeps what is written and has sent it at once."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.transport = self

    def abort(self) -> None:
        raise AssertionError

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        pass


@pytest.mark.parametrize(
    ("turns", "at_once", "ticks"),
    [
        ((7, 7), True, 0),
        ((7, 7), False, 1),
        ((7, 8), True, 1),  # a turn has begun and ended while the reply was made
        ((None, 8), True, 1),  # one had begun before, and has ended meanwhile
        ((7, None), True, 1),
        ((None, None), True, 1),
    ],
)
def test_a_reply_leaves_at_once_if_no_rows_were_read_since_it_was_asked_for(
    turns: tuple[int | None, int | None], at_once: bool, ticks: int
) -> None:
    ticked: list[int] = []
    values = iter((None, *turns))  # the connection is opened, the message arrives, the reply leaves

    async def converse() -> RecordedWrites:
        reader, writer = asyncio.StreamReader(), RecordedWrites()

        async def tick() -> None:
            ticked.append(len(writer.written))

        connection = ClientConnection(reader, cast(Any, writer), tick, lambda: next(values))
        await connection.flush()  # nothing is collected: no tick, and the next message is the first of another reply
        reader.feed_data(b"H" + struct.pack("!i", 4))
        await connection.read_frame(5)
        await connection.send(b"reply")
        await connection.flush(at_once=at_once)
        return writer

    assert asyncio.run(converse()).written == [b"reply"]
    assert ticked == [0] * ticks


def test_turns_are_told_from_their_begin_to_their_end() -> None:
    begun, end = threading.Event(), threading.Event()

    class Work:
        user = "ana"

        def begin_if_user_has_slot(self) -> bool:
            return True

        def run(self) -> None:
            begun.set()
            assert end.wait(60)

    queue = FairQueue(1, 10, 1)
    assert queue.turns_begun_if_idle() == 0
    queue.enqueue(Work())
    assert begun.wait(60)
    assert queue.turns_begun_if_idle() is None
    end.set()
    assert queue.drain(60)
    assert queue.turns_begun_if_idle() == 1


def test_a_reopening_is_a_turn_too() -> None:
    openings: DelayedOpenings[str] = DelayedOpenings(1)
    seen: list[int | None] = [openings.turns_begun_if_idle()]

    def opening(_: object) -> str:
        seen.append(openings.turns_begun_if_idle())
        return "opened"

    openings.reopen("clinic", 0, lambda: True, opening, lambda _: None)
    openings.close()
    assert [*seen, openings.turns_begun_if_idle()] == [0, None, 1]


def test_a_release_of_anybody_makes_all_replies_wait_for_ticks(wire: WireServer) -> None:
    before = wire.counter.turns_begun_if_idle()
    with signed_in(wire, "ben", sfumato__epsilon="0.01") as client:
        client.send(query(fresh_question()))
        wait_until(lambda: wire.counter.turns_begun_if_idle() is None)
        client.read_until(b"Z")
    wait_until(lambda: wire.counter.turns_begun_if_idle() is not None)
    assert wire.counter.turns_begun_if_idle() != before
