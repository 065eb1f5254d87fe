"""Worker processes of a server, and a parent that accepts connections and hands them to the workers in turn.

*Accepting.* If every process accepted for itself, the first to wake up would take all waiting connections and keep
them: in a measurement the second process was idle while the first had eight clients. So the parent accepts, and does
nothing else. A worker that does not confirm its connections hangs and is handed no more; if all hang, connections wait
at the socket.

*Supervision.* A worker that died is spawned again. If the new one cannot start, for example because its policy file is
broken by now, the others go on and it is retried with growing pauses; only before all workers have answered once does a
failure end the server. A signal handler only wakes the main loop, which then closes the socket and stops the workers. A
worker that has not ended at the deadline is killed: a charge is on disk before any row is read, so nobody holds an
answer that was not charged.
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
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from sfumato.quick_dataclass import dataclass

MAX_UNCONFIRMED = 16
"""Unconfirmed connections that a worker may have."""


def open_channel() -> tuple[socket.socket, socket.socket]:
    """Create the two ends of a socket pair on which connections are handed to a worker."""
    parent_end, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent_end.setblocking(False)
    worker_end.setblocking(False)
    return parent_end, worker_end


def accept_or_none(listener: socket.socket) -> socket.socket | None:
    """Accept one waiting connection on a non-blocking socket; None if there is none."""
    with suppress(OSError):
        return listener.accept()[0]
    return None


def hand_over(connection: socket.socket, channel: socket.socket) -> bool:
    """Send a connection to another process; return whether it could be sent."""
    with suppress(OSError):  # the worker has ended
        socket.send_fds(channel, [b"\0"], [connection.fileno()])
        return True
    return False


def receive_connections(channel: socket.socket) -> Iterator[socket.socket]:
    """Receive handed-over connections until none is left."""
    with suppress(OSError):
        while True:
            message, descriptors, *_ = socket.recv_fds(channel, 1, 1)
            if not message:
                return
            yield from (socket.socket(fileno=descriptor) for descriptor in descriptors)


def confirm_connection(channel: socket.socket) -> None:
    """Tell the parent that one connection was taken."""
    with suppress(OSError):  # the parent has ended
        channel.send(b"\0")


def count_confirmed(channel: socket.socket) -> int:
    """Return how many connections were confirmed since the last call."""
    with suppress(OSError):  # nothing to read
        return len(channel.recv(MAX_UNCONFIRMED))
    return 0


_MAX_PAUSE = 60.0
_HANDOVER_BATCH = 64
"""Connections handed over in one pass of the main loop."""


@dataclass
class WorkerProcess:
    """One worker process, and the channel on which it is handed connections."""

    process: SpawnProcess
    ready_reader: Connection
    channel: socket.socket
    is_ready: bool = False
    """The worker has reported that it is ready."""
    unconfirmed: int = 0
    """Connections handed over and not yet confirmed."""

    @property
    def takes_connections(self) -> bool:
        """Whether the worker is ready and does not hang."""
        return self.is_ready and self.unconfirmed < MAX_UNCONFIRMED

    def read_messages(self) -> None:
        """Read the worker's messages: ready, and confirmed connections."""
        with suppress(EOFError, OSError):  # it ended before it was ready
            self.is_ready = self.is_ready or (self.ready_reader.poll() and bool(self.ready_reader.recv()))
        self.unconfirmed -= count_confirmed(self.channel)

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGTERM)

    def kill(self, seconds: float) -> None:
        """Kill the worker, and report that on standard error."""
        report = (
            f"process {self.process.pid} did not end within {seconds:g} seconds and was killed; "
            "charges that it had not answered stay spent"
        )
        print(report, file=sys.stderr, flush=True)  # noqa: T201 - for the operator
        self.process.kill()

    def close(self) -> None:
        self.ready_reader.close()
        self.channel.close()


class WorkerProcesses:
    """Keeps a number of worker processes running and hands them the connections of one socket.

    Each worker has a channel of its own, and reports when it is ready. On a stop signal the workers have some seconds
    to end.
    """

    def __init__(
        self,
        run_worker: Callable[[socket.socket, Connection], None],
        listener: socket.socket,
        count: int,
        backlog: int,
        stop_seconds: float,
    ) -> None:
        self._run_worker = run_worker
        self._listener = listener
        self._count = count
        self._backlog = backlog
        self._stop_seconds = stop_seconds
        self._context = multiprocessing.get_context("spawn")
        self._workers: deque[WorkerProcess] = deque()
        """In round-robin order: the next connection goes to the first."""
        self._stopping = False
        self._deadline = math.inf
        """When the remaining workers are killed."""
        self._all_ready = False
        """All workers have been ready at the same time."""
        self._failed_starts = 0
        """Workers that failed to start since the last success."""
        self._retry_at = 0.0
        """When the next worker may be spawned."""
        self._wake_read, self._wake_write = os.pipe()

    def run(self, ready: Callable[[], None]) -> int:
        """Keep the workers running until told to stop; return 0 if all of them ended well."""
        os.set_blocking(self._wake_write, False)
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, self._wake_main_loop)
        self._listener.setblocking(False)
        self._listener.listen(self._backlog)
        exit_codes: list[int] = []
        while self._workers or not self._stopping:
            exit_codes += self._handle_next_event()
            ready_count = sum(worker.is_ready for worker in self._workers)
            if not self._all_ready and not self._stopping and ready_count == self._count:
                self._all_ready = True
                ready()
        return int(any(exit_codes))

    def _wake_main_loop(self, *_: int | FrameType | None) -> None:
        """Wake the main loop, and do nothing else: a signal may arrive between any two of its steps."""
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _handle_next_event(self) -> list[int]:
        """Wait for an event, handle it, and return the exit codes of workers that ended for good."""
        if not self._stopping:
            self._start_missing_workers()
        ready_handles = wait(self._wait_handles(), timeout=1)
        if self._wake_read in ready_handles:
            os.read(self._wake_read, 4096)
            self._stop()
        for worker in self._workers:
            worker.read_messages()
        if time.monotonic() >= self._deadline:
            self._kill_remaining()
        if self._listener in ready_handles and not self._stopping:
            self._hand_over_waiting()
        return [self._handle_exit(worker) for worker in list(self._workers) if worker.process.exitcode is not None]

    def _wait_handles(self) -> list[Any]:
        """Return the handles to wait on; the listener only while some worker takes connections."""
        handles: list[Any] = [self._wake_read, *(worker.process.sentinel for worker in self._workers)]
        handles += [worker.ready_reader for worker in self._workers if not worker.is_ready]
        handles += [worker.channel for worker in self._workers if worker.unconfirmed]
        if self._stopping:
            return handles
        return [*handles, *([self._listener] if any(worker.takes_connections for worker in self._workers) else [])]

    def _hand_over_waiting(self) -> None:
        """Hand waiting connections to the workers in turn."""
        for _ in range(_HANDOVER_BATCH):
            if not any(worker.takes_connections for worker in self._workers):
                return
            connection = accept_or_none(self._listener)
            if connection is None:
                return
            with connection:
                self._pass_connection_to_worker(connection)

    def _pass_connection_to_worker(self, connection: socket.socket) -> None:
        for worker in [worker for worker in self._workers if worker.takes_connections]:
            if hand_over(connection, worker.channel):
                worker.unconfirmed += 1
                self._workers.remove(worker)
                self._workers.append(worker)
                return

    def _start_missing_workers(self) -> None:
        while len(self._workers) < self._count and time.monotonic() >= self._retry_at:
            ready_reader, ready_writer = self._context.Pipe(duplex=False)
            parent_end, worker_end = open_channel()
            process = self._context.Process(target=self._run_worker, args=(worker_end, ready_writer))
            process.start()
            ready_writer.close()
            worker_end.close()
            self._workers.append(WorkerProcess(process, ready_reader, parent_end))

    def _handle_exit(self, spawned: WorkerProcess) -> int:
        """Return the exit code of a worker that ended with the server; otherwise schedule its replacement."""
        self._workers.remove(spawned)
        spawned.close()
        exit_code = spawned.process.exitcode or 0
        if self._stopping:
            return 0 if exit_code == -signal.SIGTERM and not spawned.is_ready else exit_code
        if spawned.is_ready:
            self._failed_starts = 0
        elif self._all_ready:
            self._failed_starts += 1
            self._retry_at = time.monotonic() + min(_MAX_PAUSE, 2.0 ** (self._failed_starts - 1))
        else:
            self._stop()
            return 1
        return 0

    def _stop(self) -> None:
        """Close the listener, and tell all workers to stop."""
        if not self._stopping:
            self._deadline = time.monotonic() + self._stop_seconds
        self._stopping = True
        self._listener.close()
        for worker in self._workers:
            worker.terminate()

    def _kill_remaining(self) -> None:
        """Kill the workers that have not ended by the deadline, once."""
        self._deadline = math.inf
        for worker in self._workers:
            if worker.process.exitcode is None:
                worker.kill(self._stop_seconds)
