"""Scheduling: a rate limit on free questions per user, a limit on concurrent releases, and a fair queue.

Releases wait in one queue per user, and users take turns, so a user with many releases waits for their own. A user may
have as many releases waiting as places are left, so no single user fills the queue (Choudhury & Hahne 1998, dynamic
thresholds). A turn lasts until the answer is due, not until its rows are read: when the next one starts reveals nothing
about rows.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from sfumato.errors import Draining, TooManyRequests
from sfumato.quick_dataclass import dataclass

_POLL_SECONDS = 0.05  # seconds between checks whether other processes have ended a release
_NICENESS = 10


class QuestionRateLimit:
    """A token bucket per user: so many questions per second, and up to one second's worth at once."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._burst = max(1.0, per_second)
        self._now = now
        self._lock = threading.Lock()
        self._balances: dict[str, tuple[float, float]] = {}

    def withdraw(self, user: str, count: int = 1) -> None:
        """Withdraw a number of questions, or raise ``TooManyRequests`` with the time to wait.

        A call that counts as more than a second's worth is allowed with a full bucket, and leaves it in debt.
        """
        with self._lock:
            self._withdraw(user, count, min(count, self._burst))

    def withdraw_extra(self, user: str, count: int, already_withdrawn: int = 1) -> None:
        """Withdraw more for a call that has withdrawn before, going into debt if needed; refuse only if other calls
        made at the same time have caused a debt already.
        """
        if count > 0:
            with self._lock:
                # the debt of this very call does not count against it
                self._withdraw(user, count, min(0, self._burst - already_withdrawn))

    def _withdraw(self, user: str, count: int, required: float) -> None:
        """Withdraw ``count`` if at least ``required`` are in the bucket."""
        now = self._now()
        balance, updated = self._balances.get(user, (self._burst, now))
        balance = min(self._burst, balance + (now - updated) * self._rate)
        if balance < required:
            self._balances[user] = balance, now
            wait = max(1, math.ceil((required - balance) / self._rate))
            raise TooManyRequests(f"the limit is {self._rate:g} free questions per second for each user", wait)
        self._balances[user] = balance - count, now


class QueuedWork(Protocol):
    """One release in the queue."""

    @property
    def user(self) -> str: ...

    def begin_if_user_has_slot(self) -> bool:
        """Start if the limits over all processes allow it; return whether it started."""
        ...

    def run(self) -> None:
        """Work until the turn is over. Never raises."""
        ...


@dataclass
class _UserQueue:
    """The waiting releases of one user, and how many of theirs run here."""

    queue: deque[QueuedWork] = field(default_factory=deque)
    running: int = 0


class FairQueue:
    """A fair queue with low-priority worker threads, so that calls that read no rows are hardly slowed by queries."""

    def __init__(self, max_running: int, queue: int, threads: int) -> None:
        self._at_once = max_running
        self._capacity = queue
        self._changed = threading.Condition()
        self._users: dict[str, _UserQueue] = {}
        self._order: deque[str] = deque()
        self._waiting = 0
        self._running = 0
        self._begun = 0
        self._draining = False
        self._threads = [
            threading.Thread(target=self._work_until_drained, name=f"release-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def enqueue(self, work: QueuedWork) -> None:
        """Queue a release, or raise ``TooManyRequests`` if the queue, or this user's part of it, is full."""
        with self._changed:
            if self._draining:
                raise Draining
            user_queue = self._users.setdefault(work.user, _UserQueue())
            if len(user_queue.queue) >= self._capacity - self._waiting:
                raise TooManyRequests(
                    "the queue of releases, or this user's part of it, is full", 1 + self._waiting // 4
                )
            user_queue.queue.append(work)
            self._waiting += 1
            if work.user not in self._order:
                self._order.append(work.user)
            self._changed.notify()

    def stop_accepting(self) -> None:
        """Refuse new work from now on, without taking the lock: a starting release may hold it for long."""
        self._draining = True

    @property
    def is_draining(self) -> bool:
        """Whether new work is refused."""
        return self._draining

    def turns_begun_if_idle(self) -> int | None:
        """Return how many turns have begun; None while one lasts. Takes no lock: the same number twice means that no
        turn has begun in between, since the number is read first.
        """
        begun = self._begun
        return None if self._running else begun

    def drain(self, seconds: float | None = None) -> bool:
        """Refuse new work and wait for all that was queued; return whether it has ended in time."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._running, seconds)

    def _work_until_drained(self) -> None:
        lower_priority()
        while (work := self._wait_for_next()) is not None:
            try:
                work.run()
            finally:
                self._end_turn(work)

    def _wait_for_next(self) -> QueuedWork | None:
        """Wait for the next release whose turn it is; None when there will be no more."""
        with self._changed:
            while True:
                work = self._begin_next_with_slot()
                if work is not None:
                    return work
                if self._draining and not self._waiting:
                    return None
                self._changed.wait(_POLL_SECONDS if self._waiting else None)

    def _begin_next_with_slot(self) -> QueuedWork | None:
        """Start the first release of the first user who may start one, and move that user to the end."""
        for user in list(self._order):
            user_queue = self._users[user]
            if user_queue.running < self._at_once and user_queue.queue[0].begin_if_user_has_slot():
                work = user_queue.queue.popleft()
                self._order.remove(user)
                if user_queue.queue:
                    self._order.append(user)
                user_queue.running += 1
                self._waiting -= 1
                self._begun += 1
                self._running += 1
                return work
        return None

    def _end_turn(self, work: QueuedWork) -> None:
        with self._changed:
            user_queue = self._users[work.user]
            user_queue.running -= 1
            if not user_queue.running and not user_queue.queue:
                del self._users[work.user]
            self._running -= 1
            self._changed.notify_all()


def lower_priority() -> None:
    """Lower the CPU priority of this thread and of those that it starts.

    On Linux niceness belongs to a thread; elsewhere it would apply to the whole process, so nothing is done. It is
    relative to the process, so the difference remains however the server was started.
    """
    if hasattr(os, "sched_getscheduler"):
        thread_id = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread_id, os.getpriority(os.PRIO_PROCESS, os.getpid()) + _NICENESS)
