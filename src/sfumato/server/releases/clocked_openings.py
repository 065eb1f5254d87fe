"""A changed policy is opened again in a thread of its own, and is seen when the clock says so.

Opening a policy counts the rows of its sources and hashes them, which takes as long as there are rows. It happens when
somebody asks after an owner has changed the policy's file or its data, so it must tell them no more than an answer
does.

*Claim.* Let somebody notice a change at s. Everything that others can see of the opening happens at s + a, or at
s + 2a, s + 4a, … if reading takes longer, where a is public: ``answer_after`` seconds, doubled by the number of tables.
*Proof.* Rows are read in a thread of its own, under no lock that anybody else takes. Before it writes to the ledger
which data it has found ("joining"), and before what is opened is put in the place of what was, it waits for the clock,
and so does a refusal. Whoever needs what is opened, and whoever comes meanwhile, waits for that moment, and is refused
if too many wait already, which callers decide alone. Everybody else goes on with what was opened before. ∎

So one whole number is seen of each change, as of a release whose reading takes longer than its clock allows; and it is
counted for the owner in the same place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from sfumato.errors import ServerUnavailable, SfumatoError
from sfumato.release.releasing import Progress, quietly
from sfumato.server.releases.answer_clock import AnswerClock
from sfumato.server.releases.turns import lower_priority

T = TypeVar("T")
MOST_WAITING = 16
"""How many calls of one process wait for what is opened: the others have threads left to be answered in."""
_JOINING = "joining"


class _Opening:
    """This is one opening: told its phases, it is held back before anything of it can be seen."""

    def __init__(self, clock: AnswerClock | None, doublings: int) -> None:
        self._clock = clock
        self._doublings = doublings
        self._started = 0.0 if clock is None else clock.now()
        self._held = False
        self.late = False

    def __call__(self, phase: str) -> None:
        if phase == _JOINING:
            self.hold()

    def hold(self) -> None:
        """Wait until it is due, once."""
        if self._clock is not None and not self._held:
            self._held = True
            self.late = self._clock.wait(self._started, self._doublings) > 0


class ClockedOpenings(Generic[T]):
    """These are the openings of one process: of each policy there is one at a time, and all who need it wait for it."""

    def __init__(self, policies: int) -> None:
        # An engine's own threads are started by whoever opens it, and have their priority.
        self._threads = ThreadPoolExecutor(policies, "opening", lower_priority)
        self._lock = threading.Lock()
        self._running: dict[str, Future[T]] = {}
        self._waiting = 0
        self._clock: AnswerClock | None = None
        self._overrun: Callable[[str], None] = quietly

    def keep_time(self, clock: AnswerClock, overrun: Callable[[str], None]) -> None:
        """Let a clock say when what is opened is seen from now on, and tell which policy took longer than it allowed.
        Before that nobody is served, so nobody sees.
        """
        self._clock, self._overrun = clock, overrun

    def first(self, opening: Callable[[Progress], T]) -> T:
        """Open what nobody is served yet."""
        return self._threads.submit(opening, quietly).result()

    def again(
        self,
        name: str,
        doublings: int,
        needed: Callable[[], bool],
        opening: Callable[[Progress], T],
        put: Callable[[T], None],
    ) -> None:
        """Open a policy again if that is needed still, put it in its place when it is due, and wait for that."""
        with self._lock:
            running = self._running.get(name)
            if running is None:
                if not needed():
                    return
                held = _Opening(self._clock, doublings)
                running = self._running[name] = self._threads.submit(self._opened, name, held, opening, put)
            if self._waiting >= MOST_WAITING:
                rule = "a policy answers when its changed file or data have been opened, and many wait for that now"
                raise ServerUnavailable(rule, place=f"policy {name}")
            self._waiting += 1
        try:
            running.result()
        finally:
            with self._lock:
                self._waiting -= 1

    def _opened(self, name: str, held: _Opening, opening: Callable[[Progress], T], put: Callable[[T], None]) -> T:
        try:
            try:
                found = opening(held)
            finally:  # a refusal is seen when it is due, too
                held.hold()
            put(found)
        finally:
            with self._lock:
                del self._running[name]
        if held.late:
            with suppress(SfumatoError):  # what is opened is served, whoever can be told how long it took
                self._overrun(name)
        return found

    def close(self) -> None:
        """Wait for what is being opened."""
        self._threads.shutdown()
