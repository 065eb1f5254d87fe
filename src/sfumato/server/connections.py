"""Connections: listening sockets, time limits, trusted proxies, and replies that leave at clock ticks.

*Limits.* A request head is short and arrives within seconds, and a reply is read while it is sent. If a process has too
many connections, the oldest idle one is closed. A client that sends slowly, sends endless headers or does not read
occupies a connection only briefly and cannot keep the server from stopping.

*Proxies.* If TLS ends at a proxy, the server answers only its listed proxies: a token that arrives past them was sent
in clear text. The peer address is checked before any byte is parsed, and other peers are told which address to use.

*Ticks.* Replies leave at ticks of 10 ms and not when they are ready. Without ticks, a client that only pings could tell
two neighbouring tables apart in 54 of 100 pairs of releases, where one unit has 150,000 rows or none: while rows are
read, everything else gets slightly less CPU. Ticks hide small delays. A sleeping thread makes the ticks, because an
event loop rounds its timers to a millisecond after their start, which would reveal when they were started.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.errors import InvalidRequest, InvalidSettings
from sfumato.quick_dataclass import dataclass
from sfumato.server.requests.responses import problem_response
from sfumato.server.settings import ServerSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class AdmittedPeers:
    """The networks whose connections are answered, and the reply that all others get."""

    networks: tuple[Network, ...]
    refusal: bytes

    def admits(self, peer: object) -> bool:
        """Return whether a transport's peer name belongs to one of the networks."""
        if not isinstance(peer, tuple) or not peer:
            return False
        peer_address = ipaddress.ip_address(peer[0])
        address = getattr(peer_address, "ipv4_mapped", None) or peer_address
        return any(address in network for network in self.networks)


def admitted_peers(settings: ServerSettings) -> AdmittedPeers | None:
    """Return the proxies of a server that other machines can reach without a certificate; None admits everybody."""
    if not settings.is_behind_proxy:
        return None
    refusal = InvalidRequest(
        "this server accepts requests only from its proxies, because it has no certificate of its own",
        place="the connection",
        fix=f"open {settings.public_url}; as the owner, list the proxy in proxies, or set a certificate",
    )
    return AdmittedPeers(tuple(map(ipaddress.ip_network, settings.proxies)), _encode_refusal(refusal))


def _encode_refusal(refusal: InvalidRequest) -> bytes:
    """Encode a refusal as a complete HTTP response that closes its connection."""
    answer = problem_response(refusal, 403)
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 403 Forbidden\r\n" + headers + b"connection: close\r\n\r\n" + bytes(answer.body)


TICK = 0.01


class ReplyTicks:
    """The ticks of one event loop; the thread sleeps while nobody waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []
        self._requested = threading.Event()
        self._closed = False
        threading.Thread(target=self._run_ticks, name="ticks", daemon=True).start()

    async def next(self) -> None:
        if self._closed:
            return
        reached: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(reached)
        self._requested.set()
        await reached

    def end(self) -> None:
        """Release everybody who waits, and make no more ticks."""
        self._closed = True
        self._requested.set()
        self._release_waiting()

    def _run_ticks(self) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            while self._requested.wait() and not self._closed:
                self._requested.clear()
                time.sleep(TICK - time.monotonic() % TICK)
                self._loop.call_soon_threadsafe(self._release_waiting)

    def _release_waiting(self) -> None:
        futures, self._waiting = self._waiting, []
        for future in futures:
            if not future.done():  # the waiting task may be cancelled
                future.set_result(None)


class ReplyTickMiddleware:
    """Middleware that starts every response at a tick."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticks: ReplyTicks | None = getattr(scope["app"].state, "ticks", None)

        async def send_at_tick(message: Message) -> None:
            if ticks is not None and message["type"] == "http.response.start":
                await ticks.next()
            await send(message)

        await self.app(scope, receive, send_at_tick)


HEAD_SECONDS = 10
"""Seconds for a request head to arrive, and for a TLS handshake."""
MAX_HEAD_BYTES = 65536
"""The limit of a request head in bytes."""
_HEAD_END = b"\r\n\r\n"
READ_SECONDS = 20
"""Seconds after which a client must have read more of a reply."""
MIN_READ_BYTES = 65536
"""Bytes that a client must read in that time while more are buffered."""
MAX_PIPELINED = 64
"""Pipelined requests that may wait on one connection."""


def max_connections() -> int:
    """Return how many connections a process keeps open: half of its file descriptors."""
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 10_000 if max_files == resource.RLIM_INFINITY else max(8, max_files // 2)


class BoundedConnection(HttpToolsProtocol):
    """An HTTP connection that is closed if a head arrives too slowly or is too long, or if a reply is not read."""

    def __init__(self, *given: Any, peers: AdmittedPeers | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self._peers = peers
        """The peers that are answered; None for all."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes: int | None = 0
        """Bytes of the current or the next request head; None between a head and the end of its body."""
        self._head_tail = b""
        """Its last bytes, where its end may have begun."""
        self._read_timer: asyncio.TimerHandle | None = None
        """Closes the connection of a client that does not read."""
        self.opened_at = self.loop.time()
        self._refused = False
        """The client was refused, or sent no valid HTTP: the rest is not read."""
        self._stopping = False
        """The server is stopping: no request is taken after the current one."""
        self._tick_tasks: set[asyncio.Task[None]] = set()

    # ── callbacks of the event loop ────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # even a few unread bytes pause writing
        self._start_head_timer()
        if len(self.connections) > max_connections():
            self._abort_one_surplus_connection()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        self._cancel_read_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._peers is not None and not self._peers.admits(self.transport.get_extra_info("peername")):
            self._refuse_peer(self._peers.refusal)
            return
        if self._head_bytes is not None:
            self._count_head_bytes(data)
        if (self._head_bytes or 0) <= MAX_HEAD_BYTES:
            super().data_received(data)
        if len(self.pipeline) > MAX_PIPELINED or (self._head_bytes or 0) > MAX_HEAD_BYTES:
            self._refused = True
            self._at_tick(self.transport.abort)

    def _count_head_bytes(self, data: bytes) -> None:
        """Count the bytes of an unfinished head up to its end, which may be split between two packets."""
        assert self._head_bytes is not None
        end = (self._head_tail + data).find(_HEAD_END)
        self._head_bytes += len(data) if end < 0 else end + len(_HEAD_END) - len(self._head_tail)
        self._head_tail = (self._head_tail + data)[-len(_HEAD_END) + 1 :]

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        self._cancel_read_timer()
        super().resume_writing()

    # ── callbacks of the HTTP parser ───────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._cancel_head_timer()
        self._head_bytes = None
        previous_cycle, expects_continue = self.cycle, self.expect_100_continue
        self.expect_100_continue = False  # uvicorn would send 100 Continue at once, not at a tick
        super().on_headers_complete()
        if expects_continue and (previous_cycle is None or previous_cycle.response_complete):
            self._at_tick(self._send_continue)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes, self._head_tail = 0, b""  # of the next request

    # ── callbacks of the server ────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP, at a tick like every reply."""
        self._refused = True
        self._cancel_head_timer()
        send_now = super().send_400_response
        self._at_tick(lambda: send_now(msg))

    def _refuse_peer(self, refusal: bytes) -> None:
        """Send the refusal to a peer that is not admitted, and read nothing from it."""
        self._refused = True

        def send_refusal() -> None:
            self.transport.write(refusal)
            self.transport.close()

        self._at_tick(send_refusal)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refused or self._stopping:
            self.transport.close()

    def shutdown(self) -> None:
        """Finish the current reply and drop pipelined requests; the client has to read that reply soon."""
        self._stopping = True
        has_pipelined = bool(self.pipeline)
        self.pipeline.clear()
        if not has_pipelined:
            super().shutdown()

    def _send_continue(self) -> None:
        """Send ``100 Continue`` to a client that waits for it before it sends the body."""
        if self.cycle.more_body and not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _at_tick(self, act: Callable[[], None]) -> None:
        """Run ``act`` at the next tick, unless the connection has closed by then."""
        ticks: ReplyTicks | None = getattr(getattr(self.config.app, "state", None), "ticks", None)

        async def act_at_tick() -> None:
            if ticks is not None:
                await ticks.next()
            if not self.transport.is_closing():
                act()

        task = self.loop.create_task(act_at_tick())
        self._tick_tasks.add(task)
        task.add_done_callback(self._tick_tasks.discard)

    # ── time limits ────────────────────────────────────────────────────────────────────────────

    @property
    def is_idle(self) -> bool:
        """Whether the connection is idle: no request yet, or the last one is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _abort_one_surplus_connection(self) -> None:
        """Close the oldest idle connection if there are too many; if none is idle, the newest."""
        connections = [connection for connection in self.connections if isinstance(connection, BoundedConnection)]
        open_connections = sorted(
            (connection for connection in connections if not connection.transport.is_closing()),
            key=lambda connection: connection.opened_at,
        )
        idle = [connection for connection in open_connections if connection.is_idle]
        if len(open_connections) > max_connections():
            (idle[0] if idle else open_connections[-1]).transport.abort()

    def _start_head_timer(self) -> None:
        self._cancel_head_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _start_read_timer(self) -> None:
        self._cancel_read_timer()
        buffered = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(READ_SECONDS, self._check_read_progress, buffered)

    def _check_read_progress(self, buffered_before: int) -> None:
        """Close the connection if the client has read too little; otherwise keep waiting."""
        bytes_read = buffered_before - self.transport.get_write_buffer_size()
        if self._stopping or bytes_read < MIN_READ_BYTES:
            self.transport.abort()
        else:
            self._start_read_timer()

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None


_UNIX_PREFIX = "unix:"


def bound_http_socket(settings: ServerSettings) -> AbstractContextManager[socket.socket]:
    """Listen where the settings say; a Unix socket's file is removed on exit."""
    return bound_socket(settings.listen)


@contextmanager
def bound_socket(listen: str) -> Iterator[socket.socket]:
    """Listen on an address; a Unix socket's file is removed on exit."""
    if not listen.startswith(_UNIX_PREFIX):
        with _bind_to_address(listen) as listener:
            yield listener
        return
    path = Path(listen.removeprefix(_UNIX_PREFIX))
    with _bind_to_path(path, listen) as listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def base_url(settings: ServerSettings, listener: socket.socket) -> str:
    """Return the base URL that people open."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    if listener.family == socket.AF_UNIX:
        return settings.listen
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _bind_to_address(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host_address = host.strip("[]")
    family = socket.AF_INET6 if ":" in host_address else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket names its protocol; otherwise short replies wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host_address, int(port)))
    except OSError as error:
        listener.close()
        raise _cannot_listen_error(listen, os.strerror(error.errno or 0)) from None
    return listener


def _bind_to_path(path: Path, listen: str) -> socket.socket:
    _remove_stale_socket(path, listen)
    listener = socket.socket(socket.AF_UNIX)
    previous_umask = os.umask(0o117)  # user and group may connect, and only try tokens
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise _cannot_listen_error(listen, os.strerror(error.errno or 0)) from None
    finally:
        os.umask(previous_umask)
    return listener


def _remove_stale_socket(path: Path, listen: str) -> None:
    """Remove the socket of a server that has ended; keep other files, and a socket in use."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _cannot_listen_error(listen, "there is a file that is not a socket")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)


def _cannot_listen_error(listen: str, reason: str) -> InvalidSettings:
    return InvalidSettings(
        f"the server cannot listen here: {reason}",
        place=f"listen = {listen}",
        fix="choose another address with --listen",
    )
