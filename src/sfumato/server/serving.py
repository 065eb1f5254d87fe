"""A server listens on an address or a socket, in one process or in several that are spawned, never forked.

Several processes share nothing but the two files, the ledger and the people's; the one that spawned them hands them
connections in turn. When it is told to stop (SIGTERM, or Ctrl-C) it takes no new work; what was charged ends and is
stored; then it ends with exit code 0.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

from sfumato.curator.policy_account import people_place, read_policy
from sfumato.errors import WeakLedger, WeakPrivacy
from sfumato.server.activity_log import ActivityLog
from sfumato.server.application import application, stop
from sfumato.server.connections import BoundedConnection
from sfumato.server.counter import Counter
from sfumato.server.handed_connections import accepted, channel, hand_over, handed
from sfumato.server.listening import address, listening
from sfumato.server.people import Role
from sfumato.server.people_file import PeopleFile
from sfumato.server.proposals import propose
from sfumato.server.served import Served
from sfumato.server.settings import Settings

_GRACE = 660
"""Seconds that connections have to end when the server stops: more than one question may take."""
_WAITING = 2048
"""Connections that wait until they are accepted."""
_BY = "sfumato serve"


@dataclass(frozen=True)
class Given:
    """This is what every process of a server is given."""

    policies: tuple[Path, ...]
    ledger: Path | str | None
    settings: Settings

    @property
    def people(self) -> Path:
        """Give the path of the people file, which lies beside the ledger."""
        return Path(f"{os.path.realpath(people_place(read_policy(self.policies[0]), self.ledger))}.people")


def serve(given: Given, ready: Callable[[str], None]) -> int:
    """Serve until the process is told to stop, and give its exit code; ``ready`` is told a link that lets the owner in
    once.
    """
    with listening(given.settings) as listener:

        def told() -> None:
            ready(_owners_link(given, address(given.settings, listener)))

        return _Processes(given, listener).run(told) if given.settings.processes > 1 else run(given, listener, told)


def _owners_link(given: Given, where: str) -> str:
    """Make a link for an owner; where there is none yet, the first is called owner."""
    with closing(PeopleFile(given.people)) as people:
        owners = [each.name for each in people.users() if each.role is Role.OWNER and not each.disabled]
        name = owners[0] if owners else people.add_user("owner", Role.OWNER, by=_BY).name
        return f"{where}/login/{people.new_link(name, by=_BY)}"


@contextmanager
def opened(given: Given) -> Iterator[Counter]:
    """Open what one process serves, and close it at the end."""
    with (
        Served(given.policies, given.ledger) as served,
        closing(PeopleFile(given.people)) as people,
        closing(ActivityLog(given.settings.log)) as log,
    ):
        yield Counter(given.settings, people, served, propose, log=log)


def show_warnings() -> None:
    """Print what is weak about the ledger where the server runs; of everything else an answer carries its warnings."""
    warnings.simplefilter("ignore", WeakPrivacy)
    warnings.simplefilter("always", WeakLedger)
    warnings.showwarning = _printed


def _printed(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"{category.__name__}: {message}", file=sys.stderr, flush=True)  # noqa: T201 - for whoever runs the server


def run(
    given: Given,
    listener: socket.socket | None,
    ready: Callable[[], None] = lambda: None,
    channel: socket.socket | None = None,
) -> int:
    """Answer in this process until it is told to stop: at a socket, or what is handed to it on a channel."""
    show_warnings()
    with opened(given) as counter:
        server = Server(application(counter), given.settings, ready, channel)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(server.serve([] if listener is None else [listener]))
    return 0


def _config(app: Starlette, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level=logging.CRITICAL + 1,  # a traceback may hold what was asked: faults are answered, and not printed
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.certificate_key or None,
    )


class Server(uvicorn.Server):
    """It ends when it is told to, and then the process goes on: uvicorn's own would kill it by the same signal."""

    def __init__(
        self,
        app: Starlette,
        settings: Settings,
        ready: Callable[[], None] = lambda: None,
        channel: socket.socket | None = None,
    ) -> None:
        super().__init__(_config(app, settings))
        self._app = app
        self._ready = ready
        self._channel = channel
        self._greeting: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and when the process that spawned this one is gone."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(each, self.stop)
        parent = multiprocessing.parent_process()
        if parent is not None:
            loop.add_reader(parent.sentinel, self._orphaned, loop, parent.sentinel)
        yield

    def _orphaned(self, loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
        loop.remove_reader(sentinel)
        self.stop()

    def stop(self) -> None:
        """Take no new work; connections that are answered end."""
        stop(self._app)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._channel is not None:
            asyncio.get_running_loop().add_reader(self._channel, self._take, self._channel)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
        await super().shutdown(sockets)

    def _take(self, channel: socket.socket) -> None:
        """Answer the connections that were handed over."""
        for each in handed(channel):
            greeting = asyncio.get_running_loop().create_task(self._greet(each))
            self._greeting.add(greeting)
            greeting.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def spoken() -> BoundedConnection:
            return BoundedConnection(self.config, self.server_state, self.lifespan.state, loop)

        with suppress(OSError):  # it has gone, or does not speak TLS
            await loop.connect_accepted_socket(spoken, connection, ssl=self.config.ssl)


# ── several processes ──────────────────────────────────────────────────────────────────────────


def _spawned(given: Given, channel: socket.socket, ready: Connection) -> None:
    """Answer in a process of its own, and say so when it does."""
    sys.exit(run(given, None, lambda: ready.send(True), channel))


@dataclass
class _Spawned:
    """This is one process that was spawned, and the channel on which connections are handed to it."""

    process: SpawnProcess
    told: Connection
    channel: socket.socket
    answers: bool = False
    """It has said so."""

    def listen(self) -> None:
        """Note what it has said."""
        with suppress(EOFError):  # it ended without a word
            self.answers = self.answers or (self.told.poll() and bool(self.told.recv()))

    def close(self) -> None:
        self.told.close()
        self.channel.close()


class _Processes:
    """Several processes answer what is accepted at one socket, in turn; one that is killed is spawned again."""

    def __init__(self, given: Given, listener: socket.socket) -> None:
        self._given = given
        self._listener = listener
        self._context = multiprocessing.get_context("spawn")
        self._running: list[_Spawned] = []
        """The next connection is the first one's."""
        self._stopping = False

    def run(self, ready: Callable[[], None]) -> int:
        """Keep as many processes as the settings say until told to stop; give 0 where all of them ended well."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        self._listener.setblocking(False)
        self._listener.listen(_WAITING)
        for _ in range(self._given.settings.processes):
            self._start()
        codes: list[int] = []
        while self._running and not all(each.answers for each in self._running):
            codes += self._look()
        if not self._stopping:
            ready()
        while self._running:
            codes += self._look()
        return int(any(codes))

    def _look(self) -> list[int]:
        """Wait until something happens, see to it, and give the exit codes of those that have ended for good."""
        answering = any(each.answers for each in self._running)
        news: list[Any] = [each.process.sentinel for each in self._running]
        news += [each.told for each in self._running if not each.answers]
        found = wait([*news, *([self._listener] if answering and not self._stopping else [])], timeout=1)
        for each in self._running:
            each.listen()
        if self._listener in found and not self._stopping:
            for connection in accepted(self._listener):
                self._hand_over(connection)
        return [self._ended(each) for each in list(self._running) if each.process.exitcode is not None]

    def _hand_over(self, connection: socket.socket) -> None:
        """Hand a connection to the first process that answers, which is the last from now on."""
        taken = hand_over(connection, [each.channel for each in self._running if each.answers])
        self._running.sort(key=lambda each: each.channel is taken)

    def _start(self) -> None:
        told, ready = self._context.Pipe(duplex=False)
        here, there = channel()
        made = self._context.Process(target=_spawned, args=(self._given, there, ready))
        made.start()
        ready.close()
        there.close()
        self._running.append(_Spawned(made, told, here))
        if self._stopping:  # told while it was started
            self._stop()

    def _ended(self, spawned: _Spawned) -> int:
        """Spawn another instead, unless all are to stop, or it never answered and another would not either."""
        self._running.remove(spawned)
        spawned.close()
        if self._stopping:
            return spawned.process.exitcode or 0
        if not spawned.answers:
            self._stop()
            return 1
        self._start()
        return 0

    def _stop(self, *_: int | FrameType | None) -> None:
        self._stopping = True
        self._listener.close()
        for each in list(self._running):
            with suppress(ProcessLookupError):
                os.kill(each.process.pid or 0, signal.SIGTERM)
