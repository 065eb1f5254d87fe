"""A connection is bounded in time: it has to say what it wants, and to take what it is told, each within seconds.

The head of a request is short, and arrives soon; a reply is read while it is sent; and of more connections than a
process has room for, the oldest one that asks for nothing is closed. So whoever opens connections and sends little or
nothing, or headers without end, or does not read, holds none of them for long, and keeps no server from ending.

Only its proxies are answered by a server for which they speak TLS: a token that comes past them is in the clear.

Which machine a connection comes from is known before anything is read of it. Whoever comes from another one is told by
which address to come, and nothing that they sent is looked at.

Replies leave at ticks of the clock, every hundredth of a second, and not when they are ready.

While rows are read there is a little less of the processor for everybody else: without ticks, a client who only pings
told two neighbours apart in 54 of 100 pairs of releases, where one unit has 150,000 rows, or none. What is ready a
little later leaves at the same tick. A tick is told by a thread that sleeps until then: an event loop rounds its own
waiting to a thousandth of a second after it begins, which would tell when that was.

A server listens on an address and a port, or on a socket file, which is there as long as it listens.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.errors import InvalidRequest, InvalidSettings
from sfumato.server.requests.problems import problem
from sfumato.server.settings import ServerSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class AdmittedPeers:
    """These are the machines whose connections are answered, and what every other one is told."""

    networks: tuple[Network, ...]
    refusal: bytes

    def admits(self, peer: object) -> bool:
        """Tell whether what an event loop calls the other end of a connection is one of them."""
        if not isinstance(peer, tuple) or not peer:
            return False
        found = ipaddress.ip_address(peer[0])
        address = getattr(found, "ipv4_mapped", None) or found
        return any(address in each for each in self.networks)


def admitted_peers(settings: ServerSettings) -> AdmittedPeers | None:
    """Name the proxies of a server that other machines reach and that has no certificate; None admits everybody."""
    if not settings.behind_proxies:
        return None
    refusal = InvalidRequest(
        "without a certificate a server answers its proxies alone: nothing else comes to it but in the clear",
        place="the connection",
        fix=f"open {settings.public_url}; as the owner, name the proxy in proxies, or give a certificate",
    )
    return AdmittedPeers(tuple(map(ipaddress.ip_network, settings.proxies)), _written(refusal))


def _written(refusal: InvalidRequest) -> bytes:
    """Write a refusal as the whole reply of a connection, which ends with it."""
    answer = problem(refusal, 403)
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 403 Forbidden\r\n" + headers + b"connection: close\r\n\r\n" + bytes(answer.body)


TICK = 0.01


class Ticks:
    """These are the ticks of one event loop, as long as somebody waits for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = threading.Event()
        self._ended = False
        threading.Thread(target=self._tick, name="ticks", daemon=True).start()

    async def next(self) -> None:
        """Wait for the next tick."""
        if self._ended:
            return
        reached: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(reached)
        self._wanted.set()
        await reached

    def end(self) -> None:
        """Let go of whoever waits: there are no more ticks."""
        self._ended = True
        self._wanted.set()
        self._reach()

    def _tick(self) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            while self._wanted.wait() and not self._ended:
                self._wanted.clear()
                time.sleep(TICK - time.monotonic() % TICK)
                self._loop.call_soon_threadsafe(self._reach)

    def _reach(self) -> None:
        reached, self._waiting = self._waiting, []
        for each in reached:
            if not each.done():  # whoever waited may have gone
                each.set_result(None)


class RepliesAtTicks:
    """Every reply begins at a tick, whoever makes it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticks: Ticks | None = getattr(scope["app"].state, "ticks", None)

        async def sent(message: Message) -> None:
            if ticks is not None and message["type"] == "http.response.start":
                await ticks.next()
            await send(message)

        await self.app(scope, receive, sent)


HEAD_SECONDS = 10
"""How long the head of a request may take to arrive, and what is said before it where TLS is spoken."""
MOST_HEAD = 65536
"""Bytes of a head, about."""
READ_SECONDS = 20
"""How long a reply may wait until the client has read more of it."""
LEAST_READ = 65536
"""Bytes that are to be read in that time while more of them wait."""
MOST_WAITING = 64
"""Requests that may wait in one connection for the reply to the one before."""


def most_connections() -> int:
    """Give how many connections a process keeps at once: half of the files it may open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 10_000 if most == resource.RLIM_INFINITY else max(8, most // 2)


class BoundedConnection(HttpToolsProtocol):
    """A connection is closed when a head does not arrive in time, or does not end, or a reply is not read."""

    def __init__(self, *given: Any, peers: AdmittedPeers | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self._peers = peers
        """Who is answered; None for everybody."""
        self._ending: asyncio.TimerHandle | None = None
        self._head: int | None = 0
        """Bytes of a head that has not ended; None after it."""
        self._reading: asyncio.TimerHandle | None = None
        """It ends the connection of a client who does not read."""
        self.since = self.loop.time()
        self._refused = False
        """What was sent is no request: what follows is not read."""
        self._stopping = False
        """The server stops: no request is taken after the one that is answered."""
        self._later: set[asyncio.Task[None]] = set()

    # ── what the event loop says ───────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # a few bytes that are not read count
        self._await_head()
        if len(self.connections) > most_connections():
            self._close_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_reading()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._peers is not None and not self._peers.admits(self.transport.get_extra_info("peername")):
            self._turn_away(self._peers.refusal)
            return
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
        if len(self.pipeline) > MOST_WAITING or (self._head or 0) > MOST_HEAD:
            self._refused = True
            self._at_tick(self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        self._stop_reading()
        super().resume_writing()

    # ── what the parser says ───────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._head = None
        before, expects = self.cycle, self.expect_100_continue
        self.expect_100_continue = False  # uvicorn would say so at once
        super().on_headers_complete()
        if expects and (before is None or before.response_complete):
            self._at_tick(self._go_on)

    # ── what the server says ───────────────────────────────────────────────────────────────────

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, at a tick like every reply."""
        self._refused = True
        self._stop_waiting()
        answer = super().send_400_response
        self._at_tick(lambda: answer(msg))

    def _turn_away(self, refusal: bytes) -> None:
        """Say why nobody is answered who comes from there, and look at nothing that is sent."""
        self._refused = True

        def tell() -> None:
            self.transport.write(refusal)
            self.transport.close()

        self._at_tick(tell)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refused or self._stopping:
            self.transport.close()

    def shutdown(self) -> None:
        """Answer what is being answered, and nothing that waits behind it; what is answered has to be read soon."""
        self._stopping = True
        waiting = bool(self.pipeline)
        self.pipeline.clear()
        if not waiting:
            super().shutdown()

    def _go_on(self) -> None:
        """Tell a client who waits for that to send the body."""
        if self.cycle.more_body and not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _at_tick(self, act: Callable[[], None]) -> None:
        """Wait for the next tick, and act then, unless the connection has ended by then."""
        ticks: Ticks | None = getattr(getattr(self.config.app, "state", None), "ticks", None)

        async def wait() -> None:
            if ticks is not None:
                await ticks.next()
            if not self.transport.is_closing():
                act()

        made = self.loop.create_task(wait())
        self._later.add(made)
        made.add_done_callback(self._later.discard)

    # ── how long it may take ───────────────────────────────────────────────────────────────────

    @property
    def waits(self) -> bool:
        """It asks for nothing: no head has ended yet, or what it asked for is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _close_oldest(self) -> None:
        """Close the oldest connection that asks for nothing; where all of them ask, the newest."""
        every = [each for each in self.connections if isinstance(each, BoundedConnection)]
        here = sorted((each for each in every if not each.transport.is_closing()), key=lambda each: each.since)
        idle = [each for each in here if each.waits]
        if len(here) > most_connections():
            (idle[0] if idle else here[-1]).transport.abort()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head = 0
        self._ending = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _await_reading(self) -> None:
        self._stop_reading()
        unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(READ_SECONDS, self._look_at_reading, unread)

    def _look_at_reading(self, before: int) -> None:
        """End the connection of a client who has read too little; one who reads on is waited for."""
        read = before - self.transport.get_write_buffer_size()
        if self._stopping or read < LEAST_READ:
            self.transport.abort()
        else:
            self._await_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


_UNIX = "unix:"


@contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """Listen where the settings say; the file of a socket is removed at the end."""
    if not settings.listen.startswith(_UNIX):
        with _at_address(settings.listen) as listener:
            yield listener
        return
    path = Path(settings.listen.removeprefix(_UNIX))
    with _at_path(path, settings.listen) as listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def address(settings: ServerSettings, listener: socket.socket) -> str:
    """Give the address that people open."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    if listener.family == socket.AF_UNIX:
        return settings.listen
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _at_address(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # An event loop sends what is written at once only where the protocol is named; else short replies wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, int(port)))
    except OSError as error:
        listener.close()
        raise _refused(listen, os.strerror(error.errno or 0)) from None
    return listener


def _at_path(path: Path, listen: str) -> socket.socket:
    _remove_left_over(path, listen)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)  # whoever may open the file may try a token: the user and the group
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise _refused(listen, os.strerror(error.errno or 0)) from None
    finally:
        os.umask(before)
    return listener


def _remove_left_over(path: Path, listen: str) -> None:
    """Remove the socket of a server that is gone; a file that is something else stays, and one that is served."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _refused(listen, "another file is there")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)


def _refused(listen: str, why: str) -> InvalidSettings:
    return InvalidSettings(
        f"a server listens at an address or a path that is free; this one is not ({why})",
        place=f"listen = {listen}",
        fix="choose another one with --listen",
    )
