"""Several processes answer what is accepted at one socket, in turn; the one that spawned them keeps so many of them.

One that was killed is spawned again. Where another cannot answer, because the policy that it reads is broken by now,
its siblings go on, and it is tried again after pauses that grow; only before all of them answer for the first time does
it end the server. A signal does no more than to wake the one loop, which then closes the socket and tells everybody.
Whoever has not ended when the time for that is over, because it hangs or was stopped, is killed: a charge is on disk
before its rows are read, so nobody has an answer that was not charged.

Connections at one socket are handed to the processes of a server in turn, and each is confirmed.

Where every process accepts for itself, the first one that wakes takes all that wait, and keeps them: a second process
had nothing to do while the first had eight clients. Here one process accepts, and does nothing else. A process that
does not confirm what it was handed hangs: it is handed no more, and where all of them do, connections wait at the
socket.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

MOST_UNCONFIRMED = 16
"""Connections that a process may be handed before it confirms one of them."""


def channel() -> tuple[socket.socket, socket.socket]:
    """Make the two ends of a channel on which connections are handed from one process to another."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    here.setblocking(False)
    there.setblocking(False)
    return here, there


def accepted(listener: socket.socket) -> socket.socket | None:
    """Accept one connection that waits at a socket that does not block; None where none does, or it has gone."""
    with suppress(OSError):
        return listener.accept()[0]
    return None


def hand_over(connection: socket.socket, channel: socket.socket) -> bool:
    """Hand a connection to another process, and tell whether it could be handed over."""
    with suppress(OSError):  # that process has ended
        socket.send_fds(channel, [b"\0"], [connection.fileno()])
        return True
    return False


def handed(channel: socket.socket) -> Iterator[socket.socket]:
    """Take the connections that were handed over, until none is left for now."""
    with suppress(OSError):
        while True:
            said, found, *_ = socket.recv_fds(channel, 1, 1)
            if not said:
                return
            yield from (socket.socket(fileno=each) for each in found)


def confirm(channel: socket.socket) -> None:
    """Say that one connection was taken."""
    with suppress(OSError):  # whoever handed it over has ended
        channel.send(b"\0")


def confirmed(channel: socket.socket) -> int:
    """Count the connections that were confirmed since the last look."""
    with suppress(OSError):  # none was
        return len(channel.recv(MOST_UNCONFIRMED))
    return 0


_LONGEST_PAUSE = 60.0
_AT_ONCE = 64
"""Connections that are handed over between two looks at everything else."""


@dataclass
class Spawned:
    """This is one process that was spawned, and the channel on which connections are handed to it."""

    process: SpawnProcess
    told: Connection
    channel: socket.socket
    answers: bool = False
    """It has said so."""
    unconfirmed: int = 0
    """Connections that it was handed, and has not confirmed."""

    @property
    def takes(self) -> bool:
        """It answers, and does not hang."""
        return self.answers and self.unconfirmed < MOST_UNCONFIRMED

    def listen(self) -> None:
        """Note what it has said."""
        with suppress(EOFError, OSError):  # it ended without a word
            self.answers = self.answers or (self.told.poll() and bool(self.told.recv()))
        self.unconfirmed -= confirmed(self.channel)

    def tell_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGTERM)

    def kill(self, seconds: float) -> None:
        """End it without its consent, and say so to whoever runs the server."""
        said = (
            f"process {self.process.pid} has not ended {seconds:g} seconds after it was told to, and is killed; "
            "a charge that it has not answered stays spent"
        )
        print(said, file=sys.stderr, flush=True)  # noqa: T201 - for whoever runs the server
        self.process.kill()

    def close(self) -> None:
        self.told.close()
        self.channel.close()


class WorkerProcesses:
    """This keeps so many processes that answer at one socket.

    Each runs ``answer`` with a channel of its own, and says when it does. When they are told to stop, all of them have
    so many seconds of ``patience`` to end in.
    """

    def __init__(
        self,
        answer: Callable[[socket.socket, Connection], None],
        listener: socket.socket,
        many: int,
        waiting: int,
        patience: float,
    ) -> None:
        self._answer = answer
        self._listener = listener
        self._many = many
        self._waiting = waiting
        self._patience = patience
        self._context = multiprocessing.get_context("spawn")
        self._running: deque[Spawned] = deque()
        """The next connection is the first one's."""
        self._stopping = False
        self._deadline = math.inf
        """When whoever has not ended is killed."""
        self._ready = False
        """All of them have answered at one time."""
        self._failed = 0
        """How many ended without an answer since one has answered."""
        self._again = 0.0
        """When another may be spawned."""
        self._woken, self._waking = os.pipe()

    def run(self, ready: Callable[[], None]) -> int:
        """Keep all of them running until told to stop; give 0 where all of them ended well."""
        os.set_blocking(self._waking, False)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._wake)
        self._listener.setblocking(False)
        self._listener.listen(self._waiting)
        codes: list[int] = []
        while self._running or not self._stopping:
            codes += self._look()
            answering = sum(each.answers for each in self._running)
            if not self._ready and not self._stopping and answering == self._many:
                self._ready = True
                ready()
        return int(any(codes))

    def _wake(self, *_: int | FrameType | None) -> None:
        """Wake the loop, and do nothing else: a signal may come between any two steps of it."""
        with suppress(BlockingIOError):
            os.write(self._waking, b"\0")

    def _look(self) -> list[int]:
        """Wait until something happens, see to it, and give the exit codes of those that have ended for good."""
        if not self._stopping:
            self._start_missing()
        found = wait(self._news(), timeout=1)
        if self._woken in found:
            os.read(self._woken, 4096)
            self._stop()
        for each in self._running:
            each.listen()
        if time.monotonic() >= self._deadline:
            self._kill()
        if self._listener in found and not self._stopping:
            self._hand_over()
        return [self._ended(each) for each in list(self._running) if each.process.exitcode is not None]

    def _news(self) -> list[Any]:
        """List what something may happen to; connections that nobody would take wait where they are."""
        news: list[Any] = [self._woken, *(each.process.sentinel for each in self._running)]
        news += [each.told for each in self._running if not each.answers]
        news += [each.channel for each in self._running if each.unconfirmed]
        if self._stopping:
            return news
        return [*news, *([self._listener] if any(each.takes for each in self._running) else [])]

    def _hand_over(self) -> None:
        """Hand each connection to the first process that takes it, which is the last from now on."""
        for _ in range(_AT_ONCE):
            if not any(each.takes for each in self._running):
                return
            connection = accepted(self._listener)
            if connection is None:
                return
            with connection:
                self._hand(connection)

    def _hand(self, connection: socket.socket) -> None:
        for each in [each for each in self._running if each.takes]:
            if hand_over(connection, each.channel):
                each.unconfirmed += 1
                self._running.remove(each)
                self._running.append(each)
                return

    def _start_missing(self) -> None:
        while len(self._running) < self._many and time.monotonic() >= self._again:
            told, ready = self._context.Pipe(duplex=False)
            here, there = channel()
            made = self._context.Process(target=self._answer, args=(there, ready))
            made.start()
            ready.close()
            there.close()
            self._running.append(Spawned(made, told, here))

    def _ended(self, spawned: Spawned) -> int:
        """Give the exit code of one that ends with all; else see when another is spawned instead."""
        self._running.remove(spawned)
        spawned.close()
        code = spawned.process.exitcode or 0
        if self._stopping:
            return 0 if code == -signal.SIGTERM and not spawned.answers else code
        if spawned.answers:
            self._failed = 0
        elif self._ready:
            self._failed += 1
            self._again = time.monotonic() + min(_LONGEST_PAUSE, 2.0 ** (self._failed - 1))
        else:
            self._stop()
            return 1
        return 0

    def _stop(self) -> None:
        """Accept nothing more, and tell everybody to stop."""
        if not self._stopping:
            self._deadline = time.monotonic() + self._patience
        self._stopping = True
        self._listener.close()
        for each in self._running:
            each.tell_to_stop()

    def _kill(self) -> None:
        """End everybody who has not ended by now, and do so once."""
        self._deadline = math.inf
        for each in self._running:
            if each.process.exitcode is None:
                each.kill(self._patience)
