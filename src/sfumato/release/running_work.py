"""Work that was charged runs to its end, also where a curator is about to stop: it takes no new work then, and waits.

Nothing is interrupted, because what is charged and stopped has been paid for and answers nothing. What was bought
before is found and given as ever: that is no new work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import Draining


class RunningWork:
    """This counts the releases that run now, in all threads of a process, and refuses new ones once it is drained."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one release from before its charge to its end; refused before the charge where none is taken."""
        with self._changed:
            if self._draining:
                raise Draining
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def drain(self, seconds: float | None = None) -> bool:
        """Take no new release from now on, and wait for those that run; tell whether all have ended in this time."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running, seconds)
