"""Time limits of statements: one thread waits for all deadlines of a process, and statements that overrun are ended.

A release sets a deadline and mostly ends long before it, so setting one starts no thread. Nothing here holds a lock
that another release needs: a Ctrl-C or a fork inside it stops nobody else.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, Lock, Thread, get_ident

from sfumato.engine.protocols import Reader

_INTERRUPT_INTERVAL = 0.02
"""Seconds between two interrupts: a statement may not have begun when its time was up."""


class Deadline:
    """The moment at which the statement of the current thread is ended, unless ``cancel`` comes first."""

    def __init__(self, engine: Reader, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self._engine = engine
        self._thread = get_ident()
        self._interrupting = Lock()
        self._cancelled = False

    @property
    def has_passed(self) -> bool:
        """Whether the clock is past the end; the waiting thread may not have woken yet."""
        return time.monotonic() >= self.end

    def keep_interrupting_until_cancelled(self) -> None:
        """Interrupt the statement again and again until the deadline is cancelled."""
        while self._interrupt():
            time.sleep(_INTERRUPT_INTERVAL)

    def _interrupt(self) -> bool:
        with self._interrupting:
            if not self._cancelled:
                self._engine.interrupt(self._thread)
            return not self._cancelled

    def cancel(self) -> None:
        """Send no more interrupts; wait for one under way, so that none hits the thread's next statement."""
        with self._interrupting:
            self._cancelled = True


class DeadlineWatch:
    """The deadlines of one process, and the thread that waits for the earliest."""

    def __init__(self) -> None:
        self._pending: dict[int, Deadline] = {}
        self._wake_time = math.inf
        """When the waiting thread wakes next; adding an earlier deadline wakes it at once. Where Python waits by the
        clock of the wall, one that is set back lets it sleep longer: a deadline added after this time wakes it too.
        """
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._waiter: Thread | None = None

    def add(self, deadline: Deadline) -> None:
        if self._waiter is None or not self._waiter.is_alive():
            waiter = Thread(target=self._wait, daemon=True)
            waiter.start()  # two threads racing here each start one, and both waiters serve every deadline
            self._waiter = waiter
        self._pending[id(deadline)] = deadline
        if not time.monotonic() < self._wake_time <= deadline.end:  # also one that slept beyond its time
            self._woken.put(None)

    def discard(self, deadline: Deadline) -> None:
        self._pending.pop(id(deadline), None)
        deadline.cancel()

    def _wait(self) -> None:
        while True:
            self._wake_time = math.inf  # set first: a deadline added meanwhile wakes this thread
            self._interrupt_passed()
            self._wake_time = min((deadline.end for deadline in list(self._pending.values())), default=math.inf)
            pause = max(_INTERRUPT_INTERVAL, self._wake_time - time.monotonic())
            with suppress(Empty):
                self._woken.get(timeout=min(pause, TIMEOUT_MAX))

    def _interrupt_passed(self) -> None:
        """Enforce each passed deadline in its own thread, so that no engine waits for another to be interrupted."""
        for deadline in list(self._pending.values()):
            if deadline.has_passed and self._pending.pop(id(deadline), None) is not None:
                try:
                    Thread(target=deadline.keep_interrupting_until_cancelled, daemon=True).start()
                except RuntimeError:  # no thread can be started now: try again
                    self._pending[id(deadline)] = deadline


_watches: dict[int, DeadlineWatch] = {}
"""By process id: a forked child does not inherit the waiting thread."""


def process_deadline_watch() -> DeadlineWatch:
    return _watches.setdefault(os.getpid(), DeadlineWatch())
