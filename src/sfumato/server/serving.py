"""A server listens on an address or a socket, in one process or in several that are spawned, never forked.

Several processes share nothing but the two files, the ledger and the people's; the one that spawned them hands them
connections in turn. When it is told to stop (SIGTERM, or Ctrl-C) it takes no new work; what was charged ends and is
stored; then it ends with exit code 0. One of several processes that has not ended long after that is killed, and the
exit code is 1.
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
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from sfumato.curator.policy_account import people_place, read_policy
from sfumato.errors import SfumatoError, WeakLedger, WeakPrivacy, outcome
from sfumato.server.activity_log import ActivityLog
from sfumato.server.application import application, stop
from sfumato.server.connections import HEAD_SECONDS, BoundedConnection, address, admitted_peers, listening
from sfumato.server.counter import Counter
from sfumato.server.people.known_people import Role, User
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.requests.proposals import propose
from sfumato.server.served import Served
from sfumato.server.settings import ServerSettings
from sfumato.server.spawned_processes import WorkerProcesses, confirm, handed

_CLOSING = 5
"""Seconds that a process has to close its files after what was charged has ended."""
_WAITING = 2048
"""Connections that wait until they are accepted."""
_BY = "sfumato serve"


@dataclass(frozen=True)
class ProcessSettings:
    """This is what every process of a server is given."""

    policies: tuple[Path, ...]
    ledger: Path | str | None
    settings: ServerSettings

    @property
    def people(self) -> Path:
        """Give the path of the people file, which lies beside the ledger."""
        return Path(f"{os.path.realpath(people_place(read_policy(self.policies[0]), self.ledger))}.people")


def serve(given: ProcessSettings, ready: Callable[[str], None]) -> int:
    """Serve until the process is told to stop, and give its exit code; ``ready`` is told a link that lets the owner in
    once.
    """
    with listening(given.settings) as listener:

        def told() -> None:
            ready(_owners_link(given, address(given.settings, listener)))

        many = given.settings.processes
        if many == 1:
            return run(given, listener, told)
        patience = given.settings.drain_seconds + _CLOSING
        return WorkerProcesses(partial(_spawned, given), listener, many, _WAITING, patience).run(told)


def _owners_link(given: ProcessSettings, where: str) -> str:
    """Make a link for an owner; where there is none yet, the first is called owner."""
    with closing(PeopleFile(given.people)) as people:
        users = people.users()
        owners = [each.name for each in users if each.role is Role.OWNER and not each.disabled]
        name = owners[0] if owners else people.add_user(_free_name(users), Role.OWNER, by=_BY).name
        return f"{where}/login/{people.new_link(name, by=_BY)}"


def _free_name(users: Collection[User]) -> str:
    """Give the first owner's name, or the next one where somebody has or had that."""
    taken = {each.name for each in users}
    return next(name for name in chain(["owner"], (f"owner-{number}" for number in count(2))) if name not in taken)


@contextmanager
def opened(given: ProcessSettings) -> Iterator[Counter]:
    """Open what one process serves, and close it at the end."""
    with (
        Served(given.policies, given.ledger) as served,
        closing(PeopleFile(given.people)) as people,
        closing(ActivityLog(given.settings.log)) as log,
    ):
        yield Counter(given.settings, people, served, propose, log=log)


def show_warnings(log: ActivityLog) -> None:
    """Print what is weak about the ledger where the server runs, and write it to its log; of everything else an answer
    carries its warnings.
    """
    warnings.simplefilter("ignore", WeakPrivacy)
    warnings.simplefilter("always", WeakLedger)
    warnings.showwarning = partial(_shown, log)


def _shown(log: ActivityLog, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"{category.__name__}: {message}", file=sys.stderr, flush=True)  # noqa: T201 - for whoever runs the server
    if issubclass(category, WeakLedger):
        log.warn(f"{category.__name__}: {message}")


def run(
    given: ProcessSettings,
    listener: socket.socket | None,
    ready: Callable[[], None] = lambda: None,
    channel: socket.socket | None = None,
) -> int:
    """Answer in this process until it is told to stop: at a socket, or what is handed to it on a channel."""
    log = ActivityLog(given.settings.log)  # until this process ends: a ledger may say what is weak when it is closed
    show_warnings(log)
    with opened(given) as counter:
        server = UvicornServer(application(counter), given.settings, ready, channel)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(server.serve([] if listener is None else [listener]))
    return 0


def _spawned(given: ProcessSettings, channel: socket.socket, ready: Connection) -> None:
    """Answer in a process of its own, and say so when it does; a refusal is said without a traceback."""
    try:
        sys.exit(run(given, None, lambda: ready.send(True), channel))
    except SfumatoError as refusal:
        print(refusal, file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(outcome(refusal).exit_code)


def _config(app: Starlette, settings: ServerSettings) -> uvicorn.Config:
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
        timeout_graceful_shutdown=settings.drain_seconds,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.certificate_key or None,
    )


class UvicornServer(uvicorn.Server):
    """It ends when it is told to, and then the process goes on: uvicorn's own would kill it by the same signal."""

    def __init__(
        self,
        app: Starlette,
        settings: ServerSettings,
        ready: Callable[[], None] = lambda: None,
        channel: socket.socket | None = None,
    ) -> None:
        super().__init__(_config(app, settings))
        self._app = app
        self._peers = admitted_peers(settings)
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
        await super().startup([])
        loop = asyncio.get_running_loop()
        for each in sockets or []:
            made = await loop.create_server(self._spoken, sock=each, backlog=_WAITING, **self._tls)
            self.servers.append(made)
        if self._channel is not None:
            loop.add_reader(self._channel, self._take, self._channel)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
        await super().shutdown(sockets)

    def _take(self, channel: socket.socket) -> None:
        """Answer the connections that were handed over, and confirm each."""
        for each in handed(channel):
            confirm(channel)
            greeting = asyncio.get_running_loop().create_task(self._greet(each))
            self._greeting.add(greeting)
            greeting.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: socket.socket) -> None:
        with suppress(OSError):  # it has gone, or does not speak TLS
            await asyncio.get_running_loop().connect_accepted_socket(self._spoken, connection, **self._tls)

    def _spoken(self) -> BoundedConnection:
        loop = asyncio.get_running_loop()
        return BoundedConnection(self.config, self.server_state, self.lifespan.state, loop, peers=self._peers)

    @property
    def _tls(self) -> dict[str, Any]:
        """Say how connections begin: with TLS or without, and not for long."""
        return {"ssl": self.config.ssl, "ssl_handshake_timeout": HEAD_SECONDS} if self.config.ssl else {}
