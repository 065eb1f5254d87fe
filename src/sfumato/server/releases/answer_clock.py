"""The answer clock: a release is answered at a public time, not when its query has finished.

The duration of a query may reveal rows: of two tables that differ in one unit with 150,000 rows, an observer told which
was read in 71 of 100 pairs. So a release charged at time s is written to the ledger, and answered, at s + a, where a is
public: ``answer_after`` seconds, doubled for every class of static cost, which the question and the policy determine.
If the query takes longer, the release is written at s + 2a, s + 4a, …: an observer sees one whole number, and a larger
``answer_after`` makes it always 0. How often it was not 0 is shown to the owner alone.

*Claim.* Everything observable about a release beside its answer happens at a time that does not depend on rows, except
for that whole number: the answer, the number and time of its ledger line, the moment from which the same question is
found stored, the replies to equal requests, and whose turn is next. All of it happens after the line is written, which
is when the clock says; before the charge no row is read; and work between the steps of a series is computed from noisy
numbers. A session releases its rows at its end, which takes longer the more there are: that has a time of its own. ∎

What reads no rows is sent at once: refusals before the charge, and stored answers.

The claim excludes CPU contention: while rows are read, other calls get less of it (``FairQueue`` and ``connections``
describe the mitigations).

*Reopening.* A changed policy is opened again in a thread of its own, and becomes visible when the clock says so.
Opening counts and hashes the rows of the sources, which takes longer the more rows there are. It happens when somebody
calls after an owner has changed the policy file or its data, so it must reveal no more than an answer does.

*Claim.* If a change is noticed at s, everything observable about the reopening happens at s + a, or at s + 2a, s + 4a,
… if reading takes longer, where a is public: ``answer_after`` seconds, doubled by the number of tables. *Proof.* Rows
are read in a separate thread, under no lock that others take. The thread waits for the clock before it writes to the
ledger which data it has found ("joining") and before it replaces the open policy; so does a refusal. Whoever needs the
new policy waits for that moment, or is refused if too many already wait, which depends on the callers alone. Everybody
else continues with the previous policy. ∎

So each change reveals one whole number, like a release whose query is too slow; it is counted for the owner in the same
place.

Scheduling: a rate limit on free questions per user, a limit on concurrent releases, and a fair queue.

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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from typing import Any, Generic, Protocol, TypeVar

from sfumato.curator import release_kinds
from sfumato.errors import Draining, ServerUnavailable, SfumatoError, TooManyRequests
from sfumato.plan.nodes import AnySemiJoin, PerUnit, PublicJoin, SemiJoin, UnitJoin, Unnest, Window, relations
from sfumato.quick_dataclass import dataclass
from sfumato.release.running_work import Progress, ignore_progress

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


_MAX_DOUBLINGS = 10
_COSTLY_NODES = (PublicJoin, UnitJoin, SemiJoin, AnySemiJoin, PerUnit, Window, Unnest)
_START_PHASES, _END_PHASES = ("charging", "closing"), ("writing down", "stopping", "closed")
"""The phases between which rows are read (``release.releasing``), or released (``curator.proposals.sessions``)."""


@dataclass(frozen=True)
class AnswerClock:
    """Decides when releases are answered."""

    answer_after: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, started: float, doublings: int) -> int:
        """Sleep until a release that started at ``started`` may be seen, never returning earlier.

        Returns: How often the delay was doubled beyond the static cost class: 0 if the query was in time.
        """
        elapsed = self.now() - started
        delay = self.answer_after * 2.0**doublings
        extra_doublings = 0 if elapsed <= delay else math.ceil(math.log2(elapsed / delay))
        while delay * 2.0**extra_doublings < elapsed:  # a logarithm may be rounded down
            extra_doublings += 1
        while (remaining := started + delay * 2.0**extra_doublings - self.now()) > 0:
            self.sleep(remaining)
        return extra_doublings


class DelayedProgress:
    """A progress callback that delays the end of each reading phase until the clock allows it to be seen."""

    def __init__(self, clock: AnswerClock, doublings: int, progress: Callable[[str], None]) -> None:
        self._clock = clock
        self._doublings = doublings
        self._progress = progress
        self._started: float | None = None
        self.late_phases = 0
        """How many reading phases took longer than the clock allows."""

    def __call__(self, phase: str) -> None:
        self._progress(phase)
        if phase in _START_PHASES:
            self._started = self._clock.now()
        elif phase in _END_PHASES and self._started is not None:
            self.late_phases += self._clock.wait(self._started, self._doublings) > 0
            self._started = None


def delay_doublings(kind: str, proposal: Any) -> int:
    """Return the static cost class of a proposal, as a number of doublings of ``answer_after``.

    One for each step of the kind's cost class, for each join, per-unit grouping, window or unnested list in the plan,
    and for each doubling of the number of questions. Neither rows nor answers influence it.
    """
    release_kind = release_kinds.all_kinds().get(kind)
    total = 0 if release_kind is None else release_kind.cost_class
    query = getattr(proposal, "query", None)
    if query is not None:
        total += sum(isinstance(node, _COSTLY_NODES) for node in relations(query.plan.source))
    questions = getattr(proposal, "questions", None)
    if isinstance(questions, (list, tuple, dict)):
        total += max(0, len(questions) - 1).bit_length()
    return min(total, _MAX_DOUBLINGS)


T = TypeVar("T")
MAX_WAITING = 16
"""Calls of one process that may wait for reopenings, so that threads remain for the others."""
_JOINING = "joining"


class _DelayedOpening:
    """The progress callback of one opening, which delays it before anything can be observed."""

    def __init__(self, clock: AnswerClock | None, doublings: int) -> None:
        self._clock = clock
        self._doublings = doublings
        self._started = 0.0 if clock is None else clock.now()
        self._delayed = False
        self.is_late = False

    def __call__(self, phase: str) -> None:
        if phase == _JOINING:
            self.wait_for_clock()

    def wait_for_clock(self) -> None:
        """Wait for the clock, once."""
        if self._clock is not None and not self._delayed:
            self._delayed = True
            self.is_late = self._clock.wait(self._started, self._doublings) > 0


class DelayedOpenings(Generic[T]):
    """The reopenings of one process: at most one per policy at a time, which all callers that need it wait for."""

    def __init__(self, policies: int) -> None:
        # An engine's threads inherit the low priority of the thread that opens it.
        self._threads = ThreadPoolExecutor(policies, "opening", lower_priority)
        self._lock = threading.Lock()
        self._running: dict[str, Future[T]] = {}
        self._begun = self._ended = 0
        self._waiting = 0
        self._clock: AnswerClock | None = None
        self._overrun: Callable[[str], None] = ignore_progress

    def pace_reopenings(self, clock: AnswerClock, on_overrun: Callable[[str], None]) -> None:
        """Use ``clock`` for openings from now on, and call ``on_overrun`` with the policies that took longer. Before
        that, the server serves nobody who could observe an opening.
        """
        self._clock, self._overrun = clock, on_overrun

    def open_first(self, opening: Callable[[Progress], T]) -> T:
        """Open a policy before the server starts to serve."""
        return self._threads.submit(opening, ignore_progress).result()

    def reopen(
        self,
        name: str,
        doublings: int,
        is_needed: Callable[[], bool],
        opening: Callable[[Progress], T],
        replace: Callable[[T], None],
    ) -> None:
        """Reopen a policy if that is still needed, replace the open one when the clock allows, and wait for that."""
        with self._lock:
            running = self._running.get(name)
            if running is None:
                if not is_needed():
                    return
                self._begun += 1
                delayed = _DelayedOpening(self._clock, doublings)
                running = self._running[name] = self._threads.submit(
                    self._open_and_replace, name, delayed, opening, replace
                )
            if self._waiting >= MAX_WAITING:
                rule = (
                    "the policy is being reopened because its file or data changed, and too many calls are waiting "
                    "for it"
                )
                raise ServerUnavailable(rule, place=f"policy {name}", fix="ask again in a few seconds")
            self._waiting += 1
        try:
            running.result()
        finally:
            with self._lock:
                self._waiting -= 1

    def _open_and_replace(
        self, name: str, delayed: _DelayedOpening, opening: Callable[[Progress], T], put: Callable[[T], None]
    ) -> T:
        try:
            try:
                opened = opening(delayed)
            finally:  # a refusal is delayed as well
                delayed.wait_for_clock()
            put(opened)
        finally:
            with self._lock:
                del self._running[name]
                self._ended += 1
        if delayed.is_late:
            with suppress(SfumatoError):  # the policy is served even if the overrun cannot be recorded
                self._overrun(name)
        return opened

    def turns_begun_if_idle(self) -> int | None:
        """Return how many reopenings have begun; None while one lasts."""
        begun = self._begun  # counted before its thread starts
        return None if self._ended < begun else begun

    def close(self) -> None:
        """Wait for openings in progress."""
        self._threads.shutdown()
