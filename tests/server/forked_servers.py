"""Servers in processes of their own that start quickly: forked from one that knows the modules and has opened nothing.

They answer as the spawned ones of ``sfumato serve`` do, by the same function, on one socket that they share; so they
can be killed as often as a test likes.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from forked_commands import FORKED
from sfumato.engine.duckdb.driver import StatementReader
from sfumato.server.connections import bound_http_socket
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.answer_clock import AnswerClock
from sfumato.server.serving import ProcessSettings, run_server
from sfumato.server.settings import ServerSettings

_SECONDS = 120


@dataclass(frozen=True)
class Reply:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ForkedServer:
    """So many processes that answer at one address, and the tokens of who may ask."""

    given: ProcessSettings
    listener: socket.socket
    tokens: dict[str, str]
    clocked: bool = True
    holding: bool = False
    running: list[BaseProcess] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, int]:
        found: tuple[str, int] = self.listener.getsockname()
        return found

    @property
    def ledger(self) -> Path:
        return Path(str(self.given.people).removesuffix(".people"))

    def start(self, many: int = 1) -> None:
        """Start processes, and wait until they answer."""
        told = []
        for _ in range(many):
            here, there = FORKED.Pipe(duplex=False)
            made = FORKED.Process(target=_answer, args=(self.given, self.listener, there, self.clocked, self.holding))
            made.start()
            there.close()
            self.running.append(made)
            told.append(here)
        for each in told:
            assert each.poll(_SECONDS)
            assert each.recv()
            each.close()

    def kill(self) -> None:
        """End every process at once, as a failing machine would."""
        for each in self.running:
            each.kill()
        self._bury()

    def stop(self) -> list[int | None]:
        """Tell every process to stop; give their exit codes."""
        for each in self.running:
            with suppress(ProcessLookupError):
                os.kill(each.pid or 0, signal.SIGTERM)
        return self._bury()

    def _bury(self) -> list[int | None]:
        for each in self.running:
            each.join(_SECONDS)
        codes = [each.exitcode for each in self.running]
        self.running.clear()
        return codes

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.place, timeout=_SECONDS)

    def call(
        self,
        user: str,
        method: str,
        path: str,
        sent: object = None,
        headers: Mapping[str, str] | None = None,
        over: http.client.HTTPConnection | None = None,
    ) -> Reply:
        """Make one call as a user, over a connection of its own unless there is one."""
        shown = {"Authorization": f"Bearer {self.tokens[user]}", "Content-Type": "application/json", **(headers or {})}
        connection = self.connect() if over is None else over
        try:
            connection.request(method, path, None if sent is None else json.dumps(sent), shown)
            answer = connection.getresponse()
            body = answer.read()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)
        finally:
            if over is None:
                connection.close()

    def buy(self, user: str, policy: str, key: str, sql: str, over: Any = None, **price: Any) -> Reply:
        sent = {"kind": "questions", "spec": {"sql": sql}, "price": price}
        return self.call(user, "POST", f"/v1/policies/{policy}/releases", sent, {"Idempotency-Key": key}, over)


@contextmanager
def forked_server(
    policies: Sequence[Path],
    users: Sequence[str],
    *,
    processes: int = 1,
    most: str | None = None,
    clocked: bool = True,
    holding: bool = False,
    **settings: Any,
) -> Iterator[ForkedServer]:
    """Serve policies, which name these analysts, until the end of the block.

    A server that is not clocked is broken, and so is one that holds all its threads while rows are read.
    """
    log = str(policies[0].parent / "activity.jsonl")
    chosen = ServerSettings(**{"listen": "127.0.0.1:0", "log": log, "processes": processes, **settings})
    given = ProcessSettings(tuple(policies), None, chosen)
    tokens = {}
    with closing(PeopleFile(given.people)) as people:
        for user in users:
            people.add_user(user, "analyst", by="tests")
            tokens[user] = people.new_token(user, most=most, by="tests")[1]
    with bound_http_socket(chosen) as listener:
        listener.listen(256)
        served = ForkedServer(given, listener, tokens, clocked, holding)
        try:
            served.start(processes)
            yield served
        finally:
            served.kill()


def _answer(given: ProcessSettings, listener: socket.socket, ready: Connection, clocked: bool, holding: bool) -> None:
    if not clocked:
        setattr(AnswerClock, "wait", lambda *_: 0)  # noqa: B010
    if holding:
        setattr(StatementReader, "read", _holding(StatementReader.read))  # noqa: B010
    sys.exit(run_server(given, listener, lambda: ready.send(True)))


def _holding(read: Callable[..., Any]) -> Callable[..., Any]:
    """Sleep for as long as rows were read, without letting another thread run: the twin that is seen by others."""

    def read_and_hold(reader: StatementReader, *arguments: Any) -> Any:
        start = time.perf_counter()
        found = read(reader, *arguments)
        ctypes.PyDLL(None).usleep(int(1e6 * (time.perf_counter() - start)))  # a PyDLL keeps the interpreter's lock
        return found

    return read_and_hold
