"""Listening for PostgreSQL clients: TLS, sign-in, and the loop that reads messages and sends replies.

*Limits.* A client has ten seconds to sign in, a message has at most 1 MiB and arrives within a minute, an idle
connection ends after an hour, and a reply is read while it is sent. Connections are bounded: those of all users, those
of each, and those that have not signed in yet, so that who has no token keeps nobody out for longer than that.

*TLS* is started by an SSLRequest or directly. Bytes that a client sent before the handshake could have been inserted by
somebody else (CVE-2021-23214): such a connection is closed. Without TLS the server listens on loopback or a socket file
only.

*Timing.* Answers leave when the answer clock says so, and replies at the server's ticks, like those of REST. A reply
for which the curator was not asked (constants, SHOW, SET, the catalog, a sign-in that succeeds) leaves at once while
the process reads no rows.

*Claim.* When a reply leaves at once, and that it does, depends on no row. *Proof.* Its content does not, since the
curator was not called for it. Its time could depend on rows through the processor alone: who pings sees when others
use it. From the arrival of its first message until it leaves, no release and no reopening of a policy had its turn,
else it waits for the tick; so nothing that reads rows ran meanwhile. Whether it waits is a function of the times at
which turns begin and end. A turn begins when somebody asks; it ends when it is refused, before a row is read, or when
its answer is due, and that time depends on rows through one whole number alone (``answer_clock``), which the time of
the answer shows as well. ∎

A refused sign-in waits for the tick: the time of looking up a user's tokens would tell whether there is such a user.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import count

from sfumato.errors import NotSignedIn
from sfumato.mechanisms import bits
from sfumato.policy import Policy, Type
from sfumato.quick_dataclass import dataclass
from sfumato.server.gateway import Gateway
from sfumato.server.people import scram
from sfumato.server.people.users import Caller
from sfumato.server.postgres import protocol
from sfumato.server.postgres.answering import PUBLISHED, StatementCatalog, StatementSource
from sfumato.server.postgres.catalog.relations import DescribedRelation
from sfumato.server.postgres.catalog_queue import CatalogQueue
from sfumato.server.postgres.session_settings import SessionSettings, parse_token_price
from sfumato.server.postgres.sessions import ClientSession, Reply
from sfumato.server.postgres.statement_texts import RefusalCounts, error_message
from sfumato.server.postgres.statements import SqlRefusal
from sfumato.server.postgres.synthetic_tables import PublishedTables, PurchaseCache
from sfumato.server.requests.calls import run_in_thread

SIGN_IN_SECONDS, MESSAGE_SECONDS, READ_SECONDS, IDLE_SECONDS = 10.0, 60.0, 20.0, 3600.0
MAX_CONNECTIONS, MAX_USER_CONNECTIONS, MAX_SIGNING_IN = 500, 100, 100
"""Connections that have signed in, of all users and of one, and those that have not signed in yet."""
MESSAGES_PER_TURN = 8
"""Messages of one reply that are handled, if they arrived together, before others have their turn."""
_SPILL_BYTES = 65536
_TLS_HANDSHAKE = 0x16
_FRAME_HEAD = struct.Struct("!ci")
_SIGN_IN_HINT = (
    "The password is a token, made with `sfumato token new`. Tokens made with a version of Sfumato that had no "
    "PostgreSQL server do not work here: make a new one."
)
CatalogFactory = Callable[[Policy, str, str, tuple[DescribedRelation, ...]], StatementCatalog]
"""Builds the catalog of a policy for a database and a user, with what was published."""
ROUTE = "postgres sign-in"


class ConnectionEnded(Exception):
    """The client has gone, or was too slow."""


class ClientConnection:
    """The two streams of a connection, with bounded messages and replies that leave at ticks (an ``Outbox``)."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        next_tick: Callable[[], Awaitable[None]],
        turns_begun_if_idle: Callable[[], object | None] = lambda: None,
    ) -> None:
        """``turns_begun_if_idle`` returns another value after each turn in which rows are read, and None during one."""
        self._reader = reader
        self._writer = writer
        self._next_tick = next_tick
        self._input = bytearray()
        self._buffer = bytearray()
        self._turns_begun_if_idle = turns_begun_if_idle
        self._turns_before = turns_begun_if_idle()
        """The turns that had begun when the first message arrived to which the reply is made."""
        self._awaits_message = False
        self._has_begun = False
        """Whether the reply has begun to leave."""

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._writer.transport

    async def read_startup(self) -> protocol.EncryptionRequest | protocol.CancelRequest | protocol.Startup:
        (length,) = struct.unpack("!i", await self._read(4))
        return protocol.decode_startup(await self._read(checked_startup_length(length) - 4))

    async def read_frame(self, seconds: float) -> tuple[bytes, bytes]:
        """Read the type and the body of the next message, whose first byte arrives within some seconds."""
        if not self._input:
            await self._receive(seconds)
        if self._awaits_message:
            self._turns_before, self._awaits_message = self._turns_begun_if_idle(), False
        kind, length = _FRAME_HEAD.unpack(await self._read(_FRAME_HEAD.size))
        if not 4 <= length <= protocol.MAX_MESSAGE_BYTES:
            raise protocol.ProtocolViolation(f"a message must have 4 to {protocol.MAX_MESSAGE_BYTES:,} bytes")
        return kind, await self._read(length - 4)

    async def _read(self, count: int) -> bytes:
        """Return the next bytes; what has arrived already is taken without a turn of the event loop."""
        while len(self._input) < count:
            await self._receive(MESSAGE_SECONDS)
        data = bytes(self._input[:count])
        del self._input[:count]
        return data

    async def _receive(self, seconds: float) -> None:
        """Wait for more bytes; a connection without any within some seconds is aborted."""
        timer = asyncio.get_running_loop().call_later(seconds, self.transport.abort)
        try:
            arrived = await self._reader.read(_SPILL_BYTES)
        except OSError:
            raise ConnectionEnded from None
        finally:
            timer.cancel()
        if not arrived:
            raise ConnectionEnded
        self._input += arrived

    async def send(self, data: bytes) -> None:
        """Collect a part of a reply; a long reply begins to leave before it is complete."""
        self._buffer += data
        if len(self._buffer) >= _SPILL_BYTES:
            await self._write()

    async def flush(self, *, at_once: bool = False) -> None:
        """Send the collected reply: at the next tick, or at once if nothing has read rows since it was asked for."""
        if at_once and self._turns_before is not None and self._turns_begun_if_idle() == self._turns_before:
            self._has_begun = True
        if self._buffer:
            await self._write()
        self._has_begun, self._awaits_message = False, True

    async def _write(self) -> None:
        if not self._has_begun:
            await self._next_tick()
            self._has_begun = True
        data, self._buffer = bytes(self._buffer), bytearray()
        try:
            self._writer.write(data)
            if self.transport.get_write_buffer_size():
                async with asyncio.timeout(READ_SECONDS):
                    await self._writer.drain()
        except (TimeoutError, OSError):
            self._writer.transport.abort()
            raise ConnectionEnded from None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()


def checked_startup_length(length: int) -> int:
    if not 8 <= length <= protocol.MAX_STARTUP_BYTES:
        raise protocol.ProtocolViolation(f"a start-up message must have 8 to {protocol.MAX_STARTUP_BYTES:,} bytes")
    return length


@dataclass
class _OpenConnection:
    """A connection that is served, as others may cancel it."""

    task: asyncio.Task[None]
    connection: ClientConnection | None = None
    cancel_key: bytes = field(default=b"", repr=False)
    session: ClientSession | None = None
    user: str | None = None
    """Who has signed in."""
    is_idle: bool = True


class PostgresServer:
    """Serves PostgreSQL clients in one event loop."""

    def __init__(
        self,
        gateway: Gateway,
        catalog: CatalogFactory,
        next_tick: Callable[[], Awaitable[None]],
        *,
        tls: ssl.SSLContext | None = None,
        requires_tls: bool = False,
    ) -> None:
        self._gateway = gateway
        self._catalog = catalog
        self._next_tick = next_tick
        self._tls = tls
        self._requires_tls = requires_tls
        self._open: dict[int, _OpenConnection] = {}
        self._catalog_queue = CatalogQueue()
        self._refusals = RefusalCounts()
        self._purchase_cache = PurchaseCache(gateway)
        self._numbers = count(1)
        self._accepting: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self, listener: socket.socket) -> None:
        """Accept connections of a bound socket from now on."""
        listener.setblocking(False)
        listener.listen(128)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # out of file descriptors, or the client has gone
                await asyncio.sleep(0.1)
                continue
            number = next(self._numbers) & 0x7FFFFFFF
            self._open[number] = _OpenConnection(loop.create_task(self._serve(accepted, number)))

    async def stop(self) -> None:
        """Accept nobody any more, end idle connections, and let running statements finish."""
        self._stopping = True
        if self._accepting is not None:
            self._accepting.cancel()
        for opened in list(self._open.values()):
            if opened.is_idle:
                opened.task.cancel()
        await asyncio.gather(*(opened.task for opened in list(self._open.values())), return_exceptions=True)
        self._catalog_queue.close()

    # ── one connection ─────────────────────────────────────────────────────────────────────────

    async def _serve(self, accepted: socket.socket, number: int) -> None:
        state = self._open[number]
        try:
            _configure_socket(accepted)
            if sum(opened.user is None for opened in self._open.values()) > MAX_SIGNING_IN:
                raise _too_many_refusal("connections that have not signed in yet")
            async with asyncio.timeout(SIGN_IN_SECONDS):
                startup = await self._open_connection(accepted, state)
                if startup is None:
                    return
                session = await self._sign_in(state, startup, number)
            await self._handle_messages(state, session)
        except (ConnectionEnded, TimeoutError, OSError):
            pass
        except Exception as error:  # never a traceback: one fixed text, and where it was raised on standard error
            await _send_fatal_error(state.connection, accepted, error)
        finally:
            del self._open[number]
            accepted.close() if state.connection is None else await state.connection.close()

    async def _open_connection(self, accepted: socket.socket, state: _OpenConnection) -> protocol.Startup | None:
        """Negotiate encryption and open the streams; return the start-up message, or None for a cancel request."""
        requested_gss: set[bool] = set()
        while True:
            first = await _peek(accepted)
            if first and first[0] == _TLS_HANDSHAKE and self._tls is not None and not requested_gss:
                state.connection = await self._open_streams(accepted, self._tls)
                require_alpn(state.connection)
                return await self._startup_under_tls(state.connection)
            message = await _receive_startup(accepted)
            if isinstance(message, protocol.EncryptionRequest):
                if message.gss in requested_gss:
                    raise protocol.ProtocolViolation("encryption was requested twice")
                requested_gss.add(message.gss)
                if await self._answer_encryption(accepted, message):
                    state.connection = await self._open_streams(accepted, self._tls)
                    return await self._startup_under_tls(state.connection)
                continue
            if isinstance(message, protocol.CancelRequest):
                self._cancel(message)
                return None
            state.connection = await self._open_streams(accepted, None)
            if self._requires_tls:
                raise SqlRefusal("28000", "this server needs TLS", hint="Connect with sslmode=require or verify-full.")
            return message

    async def _answer_encryption(self, accepted: socket.socket, request: protocol.EncryptionRequest) -> bool:
        offers = not request.gss and self._tls is not None
        if offers and _has_unread_bytes(accepted):
            raise ConnectionEnded  # plain bytes before the handshake: somebody may have inserted them
        await asyncio.get_running_loop().sock_sendall(accepted, b"S" if offers else b"N")
        return offers

    async def _startup_under_tls(self, connection: ClientConnection) -> protocol.Startup | None:
        """Read the first message under TLS."""
        message = await connection.read_startup()
        if isinstance(message, protocol.CancelRequest):
            self._cancel(message)
            return None
        if not isinstance(message, protocol.Startup):
            raise protocol.ProtocolViolation("encryption was requested twice")
        return message

    async def _open_streams(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> ClientConnection:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_SPILL_BYTES, loop=loop)
        stream = asyncio.StreamReaderProtocol(reader, loop=loop)
        handshake = {"ssl_handshake_timeout": SIGN_IN_SECONDS} if tls else {}
        transport, _ = await loop.connect_accepted_socket(lambda: stream, accepted, ssl=tls, **handshake)
        transport.set_write_buffer_limits(high=_SPILL_BYTES)
        writer = asyncio.StreamWriter(transport, stream, reader, loop)
        return ClientConnection(reader, writer, self._next_tick, self._gateway.turns_begun_if_idle)

    def _cancel(self, request: protocol.CancelRequest) -> None:
        """Cancel the statement of a connection, if the key is its own."""
        target = self._open.get(request.process)
        if target is not None and target.session is not None and _matches_secret(target.cancel_key, request.key):
            target.session.cancel()

    # ── sign-in ────────────────────────────────────────────────────────────────────────────────

    async def _sign_in(self, state: _OpenConnection, startup: protocol.Startup, number: int) -> ClientSession:
        connection = state.connection
        assert connection is not None
        if self._stopping:
            raise SqlRefusal("57P03", "the server is stopping", hint="Connect again later.")
        if startup.minor > protocol.NEWEST_MINOR or startup.unknown_options:
            minor = min(startup.minor, protocol.NEWEST_MINOR)
            await connection.send(protocol.negotiate_version(minor, startup.unknown_options))
        if startup.parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise SqlRefusal("0A000", "replication is not supported", hint="Leave out replication.")
        user = startup.parameters.get("user", "")
        if not user:
            raise SqlRefusal("28000", "no user name was sent", hint="Connect as a user of this server.")
        token = await self._authenticate(connection, user)
        caller = await run_in_thread(self._gateway.caller_of_token, token, ROUTE)
        self._admit(state, caller.user)
        session = await self._open_session(connection, startup, caller, number)
        key_bytes = 32 if startup.minor >= protocol.NEWEST_MINOR else 4
        state.session, state.cancel_key = session, bits.random_bits(8 * key_bytes).to_bytes(key_bytes, "big")
        settings = b"".join(protocol.parameter_status(*setting) for setting in session.reported_settings().items())
        key_data = protocol.backend_key(number, state.cancel_key)
        await connection.send(protocol.AUTHENTICATED + settings + key_data + session.ready)
        await connection.flush(at_once=True)
        return session

    def _admit(self, state: _OpenConnection, user: str) -> None:
        """Count a connection as the user's, who has proven a token; refuse it beyond the limits."""
        users = [opened.user for opened in self._open.values() if opened.user is not None]
        if len(users) >= MAX_CONNECTIONS:
            raise _too_many_refusal("connections")
        if users.count(user) >= MAX_USER_CONNECTIONS:
            raise _too_many_refusal(f"connections of {user}")
        state.user = user

    async def _authenticate(self, connection: ClientConnection, user: str) -> int:
        """Run SCRAM; return the number of the token that was proven."""
        await connection.send(protocol.sasl_mechanisms(scram.MECHANISM))
        await connection.flush(at_once=True)
        initial = protocol.decode_sasl_initial(await self._read_sasl(connection))
        try:
            if initial.mechanism != scram.MECHANISM:
                raise scram.ScramFailure("another mechanism")
            client = scram.parse_client_first(initial.data)
            salt = await run_in_thread(self._gateway.people.scram_salt, user)
            exchange = scram.ScramExchange(client, f"{client.nonce}{bits.random_bits(144):036x}", salt)
            await connection.send(protocol.sasl_continue(exchange.server_first.encode()))
            await connection.flush(at_once=True)
            final = await self._read_sasl(connection)
            verifiers = await run_in_thread(self._gateway.people.scram_verifiers, user)
            index, server_final = exchange.verify(final, [*verifiers.values(), _verifier_that_never_matches()])
        except scram.ScramFailure:
            index, server_final, verifiers = -1, b"", {}
        numbers = list(verifiers)
        if not 0 <= index < len(numbers):
            with suppress(NotSignedIn):
                await run_in_thread(self._gateway.caller_of_token, None, ROUTE)
            raise SqlRefusal("28P01", f'password authentication failed for user "{user[:63]}"', hint=_SIGN_IN_HINT)
        await connection.send(protocol.sasl_final(server_final))
        return numbers[index]

    async def _read_sasl(self, connection: ClientConnection) -> bytes:
        message = protocol.decode_message(*await connection.read_frame(SIGN_IN_SECONDS))
        if not isinstance(message, protocol.AuthenticationData):
            raise protocol.ProtocolViolation("the sign-in is not finished")
        return message.body

    async def _open_session(
        self, connection: ClientConnection, startup: protocol.Startup, caller: Caller, number: int
    ) -> ClientSession:
        database = startup.parameters.get("database") or caller.user
        policy_name, published = await run_in_thread(self._policy_and_is_published, caller, database)
        policy = await run_in_thread(lambda: self._gateway.served.curator_for(caller, policy_name).policy)
        catalog = await run_in_thread(self._catalog, policy, database, caller.user, ())
        tables = PublishedTables(
            self._purchase_cache,
            policy_name,
            database,
            caller.user,
            lambda relations: self._catalog(policy, database, caller.user, relations),
        )
        assert caller.token is not None
        source = StatementSource(
            self._gateway,
            caller.user,
            caller.token.number,
            policy_name,
            catalog,
            database,
            number,
            tables if published else None,
            queue=self._catalog_queue,
            refusals=self._refusals,
        )
        price = parse_token_price(await run_in_thread(self._gateway.people.token_price, caller.token.number))
        settings = SessionSettings(caller.user, protocol.SERVER_VERSION, _startup_settings(startup.parameters), price)
        types_by_column = _unambiguous_column_types(policy)
        return ClientSession(source, settings, lambda: types_by_column, connection)

    def _policy_and_is_published(self, caller: Caller, database: str) -> tuple[str, bool]:
        """Return the policy that a database names, and whether it is the free database of what was published."""
        visible = self._gateway.served.visible_policies(caller)
        if database in visible:
            return database, False
        name = database.removesuffix(PUBLISHED)
        if database.endswith(PUBLISHED) and name in visible:
            return name, True
        hint = f"The databases are the policies: {', '.join(visible)}." if visible else "Ask the owner for a share."
        raise SqlRefusal("3D000", f'database "{database[:63]}" does not exist', hint=hint)

    # ── conversation ───────────────────────────────────────────────────────────────────────────

    async def _handle_messages(self, state: _OpenConnection, session: ClientSession) -> None:
        connection = state.connection
        assert connection is not None
        handled = 0
        """Messages since the event loop last had a turn."""
        while not self._stopping:
            state.is_idle = True
            kind, body = await connection.read_frame(IDLE_SECONDS)
            state.is_idle = False
            if kind == protocol.TERMINATE:
                return
            reply = await session.handle_frame(kind, body)
            if reply is not Reply.LATER:
                await connection.flush(at_once=reply is Reply.AT_ONCE)
            handled = handled + 1 if reply is Reply.LATER else MESSAGES_PER_TURN
            if handled >= MESSAGES_PER_TURN:  # messages that have arrived already are read without waiting
                await asyncio.sleep(0)
                handled = 0


def _too_many_refusal(what: str) -> SqlRefusal:
    return SqlRefusal(
        "53300", f"there are too many {what}", hint="Close some, use a pool, or try again in ten seconds."
    )


def _configure_socket(accepted: socket.socket) -> None:
    accepted.setblocking(False)
    if accepted.family != socket.AF_UNIX:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def _peek(accepted: socket.socket) -> bytes:
    """Wait for the first byte, and leave it unread."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(accepted, _finish_future, readable)
    try:
        await readable
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


def _finish_future(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _has_unread_bytes(accepted: socket.socket) -> bool:
    with suppress(BlockingIOError):
        return bool(accepted.recv(1, socket.MSG_PEEK))
    return False


async def _receive_startup(
    accepted: socket.socket,
) -> protocol.EncryptionRequest | protocol.CancelRequest | protocol.Startup:
    (length,) = struct.unpack("!i", await _receive(accepted, 4))
    return protocol.decode_startup(await _receive(accepted, checked_startup_length(length) - 4))


async def _receive(accepted: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        more = await loop.sock_recv(accepted, count - len(data))
        if not more:
            raise ConnectionEnded
        data += more
    return data


async def _send_fatal_error(connection: ClientConnection | None, accepted: socket.socket, error: Exception) -> None:
    """Send an error that ends the connection."""
    message = error_message(error, fatal=True)
    with suppress(ConnectionEnded, OSError):
        if connection is not None:
            await connection.send(message)
            await connection.flush()
        else:
            accepted.send(message)


def require_alpn(connection: ClientConnection) -> None:
    """Refuse a direct TLS connection that is not meant for PostgreSQL's protocol."""
    tls = connection.transport.get_extra_info("ssl_object")
    if tls is None or tls.selected_alpn_protocol() != "postgresql":
        raise ConnectionEnded


def server_tls(certificate: str, key: str) -> ssl.SSLContext:
    """Return the TLS settings of the server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["postgresql"])
    return context


def _matches_secret(first: bytes, second: bytes) -> bool:
    return bool(first) and scram.equal_in_constant_time(first, second)


def _verifier_that_never_matches() -> scram.ScramVerifier:
    """Return a verifier that no token has, so that an unknown user's proof is checked as well."""
    return scram.ScramVerifier(bits.random_bits(256).to_bytes(32, "big"), bytes(32))


def _startup_settings(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a start-up message: its own parameters, and those of ``options=-c name=value``."""
    settings = {
        name: value for name, value in parameters.items() if name not in ("user", "database", "options", "replication")
    }
    words = parameters.get("options", "").replace("-c ", "-c").split()
    for word in words:
        name, separator, value = word.removeprefix("-c").removeprefix("--").partition("=")
        if not separator or not word.startswith(("-c", "--")):
            hint = "Write options='-c sfumato.epsilon=0.1'."
            raise SqlRefusal("22023", "the start-up options cannot be read", hint=hint)
        settings[name.replace("-", "_")] = value.replace("\\ ", " ")
    return settings


def _unambiguous_column_types(policy: Policy) -> Mapping[str, Type]:
    """Return the types of declared columns by name, where all tables agree on it."""
    types_by_name: dict[str, set[Type]] = {}
    for table in policy.tables.values():
        for name, domain in table.columns.items():
            types_by_name.setdefault(name.lower(), set()).add(domain.type)
    return {name: kinds.pop() for name, kinds in types_by_name.items() if len(kinds) == 1}
