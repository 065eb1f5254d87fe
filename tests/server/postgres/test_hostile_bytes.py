"""Whatever bytes a client sends: an error or a closed connection, never a fault, a charge or a stuck reader."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from typing import cast

import pytest

from server.postgres.raw_client import (
    SYNC,
    bind,
    describe,
    errors_in,
    execute,
    framed,
    kinds_in,
    parse,
    query,
    rows_in,
    signed_in,
    startup,
    text,
)
from server.postgres.wire_server import WireServer
from sfumato.policy import Type
from sfumato.server.people.token_spending_limits import ConnectionLimit
from sfumato.server.postgres import protocol
from sfumato.server.postgres.answering import StatementSource, StatementTerms
from sfumato.server.postgres.catalog import PolicyCatalog
from sfumato.server.postgres.listening import ClientConnection, ConnectionEnded
from sfumato.server.postgres.results import ResultColumn, ResultColumns, StatementResult, text_result
from sfumato.server.postgres.session_settings import SessionSettings
from sfumato.server.postgres.sessions import MAX_PORTALS, MAX_STATEMENTS, ClientSession
from sfumato.server.postgres.statements import RowsStatement, SqlRefusal

QUESTION = "SELECT region, COUNT(*) AS n FROM visits WHERE age > $1 GROUP BY region"
CONVERSATION = [
    query("SELECT 1"),
    query("BEGIN; SET application_name = 'x'"),
    parse(QUESTION, "s", (20,)),
    describe("S", "s"),
    bind("p", "s", (b"40",)),
    describe("P", "p"),
    execute("p", 1),
    SYNC,
    query("ROLLBACK"),
    query("DECLARE c CURSOR WITH HOLD FOR SELECT 1; FETCH ALL FROM c; CLOSE c"),
    query("COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER)"),
    query("SET sfumato.ranges = on; SHOW ALL; RESET ALL"),
    query("EXPLAIN SELECT COUNT(*) FROM visits"),
    parse("SELECT 1"),
    bind(),
    framed(b"C", b"Ss\0"),
    framed(b"H"),
    SYNC,
]
_LENGTHS = (0, -1, 3, 4, 5, 2**31 - 1, -(2**31), 1 << 20, (1 << 20) + 1)


def mutate(rolls: random.Random) -> bytes:
    """Return the conversation with something broken: its order, a message, a length, or some bytes."""
    messages = list(CONVERSATION)
    for _ in range(rolls.randint(1, 3)):
        chosen = rolls.randrange(len(messages))
        act = rolls.randrange(6)
        if act == 0 or not messages[chosen]:  # nothing is left of it to break
            del messages[chosen]
        elif act == 1:
            messages.insert(rolls.randrange(len(messages)), messages[chosen])
        elif act == 2:
            rolls.shuffle(messages)
        elif act == 3:
            messages[chosen] = messages[chosen][:1] + struct.pack("!i", rolls.choice(_LENGTHS)) + messages[chosen][5:]
        elif act == 4:
            body = bytearray(messages[chosen])
            for _ in range(rolls.randint(1, 4)):
                body[rolls.randrange(len(body))] = rolls.choice((0, 0xFF, 0x80, 0x27, rolls.randrange(256)))
            messages[chosen] = bytes(body)
        else:
            messages[chosen] = messages[chosen][: rolls.randrange(len(messages[chosen]))]
        if not messages:
            break
    return b"".join(messages)


class _CollectingTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False
        self.stream: asyncio.StreamReaderProtocol

    def write(self, data: object) -> None:
        self.written += bytes(data)  # type: ignore[call-overload]

    def close(self) -> None:
        self.closed = True
        self.stream.connection_lost(None)

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


async def _no_tick() -> None:
    pass


async def converse(source: StatementSource, sent: bytes) -> list[tuple[bytes, bytes]]:
    """Let a session answer these bytes, as the server's loop does; return its messages."""
    reader, transport = asyncio.StreamReader(), _CollectingTransport()
    stream = asyncio.StreamReaderProtocol(reader)
    transport.stream = stream
    stream.connection_made(transport)
    connection = ClientConnection(
        reader, asyncio.StreamWriter(transport, stream, reader, asyncio.get_running_loop()), _no_tick
    )
    settings = SessionSettings("ana", "15.0", {}, {})
    session = ClientSession(source, settings, lambda: {"age": Type.INTEGER}, connection)
    reader.feed_data(sent)
    reader.feed_eof()
    try:
        while True:
            kind, body = await connection.read_frame(5)
            if kind == protocol.TERMINATE:
                break
            if await session.handle_frame(kind, body):
                await connection.flush()
    except (ConnectionEnded, protocol.ProtocolViolation):
        pass  # the connection is closed
    await connection.flush()
    await connection.close()
    return split_messages(bytes(transport.written))


def split_messages(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    while data:
        (length,) = struct.unpack("!i", data[1:5])
        assert 4 <= length <= len(data) - 1
        found.append((data[:1], data[5 : length + 1]))
        data = data[length + 1 :]
    return found


async def fuzz(source: StatementSource, rounds: range) -> set[str]:
    codes: set[str] = set()
    for number in rounds:
        sent = mutate(random.Random(number))
        async with asyncio.timeout(30):
            messages = await converse(source, sent)
        codes.update(errors := errors_in(messages))
        assert "XX000" not in errors, (number, sent)
    return codes


class PricelessSource:
    """Describes every statement alike, and has nothing to sell: what is fuzzed is the protocol, not the questions."""

    published = None
    limit = ConnectionLimit()

    async def authenticate(self) -> None:
        pass

    def count_refusal(self, rule: str) -> None:
        pass

    async def is_question(self, sql: str) -> bool:
        return "1" not in sql

    async def reads_catalog(self, sql: str) -> bool:
        return not await self.is_question(sql)

    async def parameter_oids(self, *_: object) -> None:
        return None

    async def describe(self, *_: object, ranges: bool) -> ResultColumns:
        return (ResultColumn("a", 25), *([ResultColumn("low", 701)] if ranges else []))

    async def run(self, rows: RowsStatement, _: object, __: object, terms: StatementTerms) -> StatementResult:
        if await self.is_question(rows.sql):
            assert not terms.price
            raise SqlRefusal("22023", "no price", hint="Set one.")
        return StatementResult((ResultColumn("a", 23),), [(1,), (2,)])

    async def explain(self, *_: object) -> StatementResult:
        return text_result(("QUERY PLAN",), [("free",)])


def source_of(wire: WireServer) -> StatementSource:
    token = wire.counter.people.tokens("ana")[0].number
    policy = wire.counter.served.curator("clinic").policy
    return StatementSource(wire.counter, "ana", token, "clinic", PolicyCatalog(policy, "clinic", "ana"))


def test_mutated_conversations(long: bool) -> None:
    codes = asyncio.run(fuzz(cast("StatementSource", PricelessSource()), range(2000 if long else 600)))
    assert {"08P01", "22023", "25P02", "26000", "34000", "42601"} <= codes


def test_mutated_conversations_with_the_gateway(wire: WireServer) -> None:
    before = wire.charges()
    asyncio.run(fuzz(source_of(wire), range(40)))
    assert wire.charges() == before


@pytest.mark.long
def test_many_mutated_conversations(wire: WireServer) -> None:
    before = wire.charges()
    asyncio.run(fuzz(source_of(wire), range(2000, 50_000)))
    assert wire.charges() == before


def test_the_conversation_itself_is_answered(wire: WireServer) -> None:
    """What is mutated works by itself, but for the question, which has no price."""
    messages = asyncio.run(converse(source_of(wire), b"".join(CONVERSATION)))
    assert errors_in(messages) == ["22023"]
    assert kinds_in(messages).count(b"Z") == 9


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 9, 80877103) + b"x",
        struct.pack("!iii", 12, 80877102, 1),
        struct.pack("!iii", 16, 80877102, 1) + b"key!",
        startup("ana")[:-1] + b"x",
        startup("\xff"),
        startup("ana") + framed(b"p", b"SCRAM-SHA-256"),
        startup("ana") + framed(b"p", text("MD5") + struct.pack("!i", -1)),
        startup("ana") + framed(b"p", text("SCRAM-SHA-256") + struct.pack("!i", 2**31 - 1)),
        startup("ana") + framed(b"p", text("SCRAM-SHA-256") + struct.pack("!i", 3) + b"n,,"),
        startup("ana") + query("SELECT 1"),
        startup("ana") + b"p\xff\xff\xff\xff",
        startup(""),
        startup("ana", replication="database"),
        startup("ana", options="nonsense"),
        bytes(range(256)) * 40,
    ],
)
def test_bytes_before_the_sign_in(wire: WireServer, sent: bytes) -> None:
    """An error or a closed connection, soon; and nothing about a session."""
    with socket.create_connection((wire.host, wire.port), 20) as connection:
        told = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                told += more
        except OSError:
            pass  # it was closed before everything was sent
    assert b"XX000" not in told
    assert b"ReadyForQuery" not in told


def test_a_message_beyond_the_limit_ends_the_connection(wire: WireServer) -> None:
    """A mebibyte is read and refused as too long a text; one byte more is not waited for."""
    with signed_in(wire) as client:
        longest = framed(b"Q", b"/" * (protocol.MAX_MESSAGE_BYTES - 5) + b"\0")
        assert errors_in(client.ask(longest)) == ["54000"]
        client.send(b"Q" + struct.pack("!i", protocol.MAX_MESSAGE_BYTES + 1))
        assert errors_in([client.read()]) == ["08P01"]
        with pytest.raises(ConnectionError):
            client.read()


def test_an_idle_connection_ends(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.server.postgres.listening.IDLE_SECONDS", 0.3)
    with signed_in(wire) as client, pytest.raises(ConnectionError):
        client.read()


def test_statements_and_portals_are_bounded() -> None:
    source = cast("StatementSource", PricelessSource())
    many = b"".join(parse("SELECT 1", f"s{number}") for number in range(10_000))
    assert errors_in(asyncio.run(converse(source, many + SYNC))) == ["54000"]
    counted = kinds_in(asyncio.run(converse(source, many)))
    assert counted.count(b"1") == MAX_STATEMENTS
    portals = parse("SELECT 1") + b"".join(bind(f"p{number}") for number in range(500))
    messages = asyncio.run(converse(source, query("BEGIN") + portals))
    assert kinds_in(messages).count(b"2") == MAX_PORTALS
    assert errors_in(messages) == ["54000"]


def test_wrong_parameters_are_refused_and_sync_recovers(wire: WireServer) -> None:
    wrong = [
        bind("", "s"),
        bind("", "s", (b"1", b"2")),
        bind("", "s", (b"forty",)),
        bind("", "s", (b"\xff\xfe",)),
        bind("", "nothing", (b"1",)),
        execute("never bound"),
        describe("S", "nothing"),
        framed(b"B", text("") + text("s") + struct.pack("!hhhi", 1, 1, 1, 3) + b"abc" + struct.pack("!h", 0)),
        framed(b"B", text("") + text("s") + struct.pack("!hhhi", 1, 1, 1, 300) + b"abc"),
        framed(b"B", text("") + text("s") + struct.pack("!h", -1)),
        framed(b"P", b"no end"),
        framed(b"D", b"Xs\0"),
    ]
    with signed_in(wire) as client:
        client.ask(parse(QUESTION, "s", (20,)) + SYNC)
        for sent in wrong:
            messages = client.ask(sent + execute() + SYNC)
            assert len(errors_in(messages)) <= 1
            assert kinds_in(messages)[-2:] in (b"EZ",), sent
            assert b"D" not in kinds_in(messages)
        assert kinds_in(client.ask(SYNC * 3))[-1:] == b"Z"
        client.read_until(b"Z")
        client.read_until(b"Z")
        assert rows_in(client.ask(query("SELECT 1"))) == [[b"1"]]
