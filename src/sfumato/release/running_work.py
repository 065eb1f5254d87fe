"""Releases that run: how many there are, and what each reports of its progress.

Charged work always runs to its end: a curator that is stopping takes no new releases and waits for those that run. None
is interrupted, because a stopped release has been paid for and answers nothing. Stored answers are still returned then:
they are no new work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.errors import Draining

Progress = Callable[[str], None]
"""Called with the name of each phase; never with a count or a percentage.

Between "charging" and "writing down", or "stopping", the duration of a release depends on its private rows, and so does
that of a session between "closing" and "closed". The release waits for the callback: nothing of it can be seen
elsewhere before it returns.
"""


def ignore_progress(phase: str) -> None:
    """Ignore progress."""


class RunningWork:
    """The releases that run now in all threads of a process; once drained, new ones are refused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one release from before its charge to its end; raise ``Draining`` before the charge once drained."""
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
        """Refuse new releases from now on, and wait for those that run; return whether all ended in this time."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running, seconds)
