"""Everybody gets their turn: so many free questions a second, so many releases at once, and a fair queue.

Releases wait in one queue for each user, and users take turns. Whoever waits with many waits for their own. One user
may wait with as many releases as places are left, so one of them never fills the queue for the others (Choudhury &
Hahne 1998). A turn lasts until the answer is due, not until its rows are read: when the next one starts tells nothing
of rows.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sfumato.errors import Draining, TooManyRequests

_LOOK_AGAIN = 0.05  # seconds until another process may have ended a release
_NICENESS = 10


class FreeQuestions:
    """These are the free questions of every user: so many in one second, and after a pause as many at once."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._most = max(1.0, per_second)
        self._now = now
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, user: str, many: int = 1) -> None:
        """Take one question, or so many that one counts as, or say when there are as many again.

        Whoever has asked nothing for a while may take what counts as more than a second's worth, and pays it back.
        """
        with self._lock:
            self._taken(user, many, min(many, self._most))

    def owe(self, user: str, many: int, taken: int = 1) -> None:
        """Count what was taken, as so many, as so many more, before it is answered: whoever took it asks the next when
        they are paid back. One who owes already, for what was taken at the same time, is told when to come back.
        """
        if many > 0:
            with self._lock:
                self._taken(user, many, min(0, self._most - taken))  # what it was taken on credit is no other's debt

    def _taken(self, user: str, many: int, wanted: float) -> None:
        """Count so many, where at least those that are wanted are left."""
        now = self._now()
        left, since = self._left.get(user, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        if left < wanted:
            self._left[user] = left, now
            wait = max(1, math.ceil((wanted - left) / self._rate))
            raise TooManyRequests(f"one user asks at most {self._rate:g} free questions a second", wait)
        self._left[user] = left - many, now


class Work(Protocol):
    """Work is one release that waits for its turn."""

    @property
    def user(self) -> str: ...

    def begin(self) -> bool:
        """Begin, if what runs in other processes allows it."""
        ...

    def run(self) -> None:
        """Work until the turn is over. It never fails."""
        ...


@dataclass
class _Waiting:
    """These are the releases of one user: those that wait, and how many run here."""

    queue: deque[Work] = field(default_factory=deque)
    running: int = 0


class Turns:
    """Threads of low priority take the turns: who only asks what is free hardly notices that rows are read."""

    def __init__(self, at_once: int, queue: int, threads: int) -> None:
        self._at_once = at_once
        self._places = queue
        self._changed = threading.Condition()
        self._users: dict[str, _Waiting] = {}
        self._order: deque[str] = deque()
        self._waiting = 0
        self._running = 0
        self._draining = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"release-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, work: Work) -> None:
        """Let this wait for its turn, or refuse where the queue is full, or this user's part of it."""
        with self._changed:
            if self._draining:
                raise Draining
            mine = self._users.setdefault(work.user, _Waiting())
            if len(mine.queue) >= self._places - self._waiting:
                raise TooManyRequests("a queue of releases is full, or one user's part of it", 1 + self._waiting // 4)
            mine.queue.append(work)
            self._waiting += 1
            if work.user not in self._order:
                self._order.append(work.user)
            self._changed.notify()

    def stop_taking(self) -> None:
        """Take no new work from now on. It waits for nothing: whoever begins a release may hold the lock for long."""
        self._draining = True

    def drain(self, seconds: float | None = None) -> bool:
        """Take no new work, and wait until all that was taken has ended; tell whether it has."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._running, seconds)

    def _serve(self) -> None:
        lower_priority()
        while (work := self._next()) is not None:
            try:
                work.run()
            finally:
                self._over(work)

    def _next(self) -> Work | None:
        """Wait for the next release whose turn it is; None when there will be no more."""
        with self._changed:
            while True:
                found = self._begun()
                if found is not None:
                    return found
                if self._draining and not self._waiting:
                    return None
                self._changed.wait(_LOOK_AGAIN if self._waiting else None)

    def _begun(self) -> Work | None:
        """Begin the first release of the first user in order who may begin one; that user is last from now on."""
        for user in list(self._order):
            mine = self._users[user]
            if mine.running < self._at_once and mine.queue[0].begin():
                work = mine.queue.popleft()
                self._order.remove(user)
                if mine.queue:
                    self._order.append(user)
                mine.running += 1
                self._waiting -= 1
                self._running += 1
                return work
        return None

    def _over(self, work: Work) -> None:
        with self._changed:
            mine = self._users[work.user]
            mine.running -= 1
            if not mine.running and not mine.queue:
                del self._users[work.user]
            self._running -= 1
            self._changed.notify_all()


def lower_priority() -> None:
    """Give this thread, and those that it starts, less of the processor than others where both want it.

    A thread's niceness is its own on Linux; where it would be the whole process's nothing is done. It is counted from
    the process's own, so that the difference is there however the server was started.
    """
    if hasattr(os, "sched_getscheduler"):
        this = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, this, os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICENESS)
