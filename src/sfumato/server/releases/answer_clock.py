"""A release is answered when the clock says so, and not when its rows have been read.

How long reading takes may tell of rows: of two tables that differ in one unit with 150,000 rows, an observer tells
which was read in 71 of 100 pairs. So what is charged at s is written down, and with that answered, at s + a, where a is
public: it is ``answer_after`` seconds, doubled for every class of static cost, which the question and the policy
decide. If reading takes longer, it is written down at s + 2a, s + 4a, …: what is seen is one whole number, and a larger
``answer_after`` makes it always 0. How often it was not 0 is told to the owner alone.

*Claim.* Everything that others can see of a release beside its answer has a time that rows do not decide, but for that
whole number: the answer, the number and the time of its line in the ledger, when the same question is found to be
stored, when who waits for an equal one is answered, and whose turn is next. All of it happens after the line is
written, which is when the clock says; before the charge no row is read; and what is done between the steps of a series
is computed from noisy numbers. A session forgets its rows at its end, which takes the longer the more there are: that
has a time of its own. ∎

What reads no rows goes at once: refusals before the charge, and answers that were stored before. Data and policies that
have changed are opened again, which reads rows before any charge, under the same clock (``clocked_openings``).

What the claim leaves out is the processor: while rows are read there is less of it for others (``turns`` and
``reply_ticks`` say what is done about that).

A changed policy is opened again in a thread of its own, and is seen when the clock says so.

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

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sfumato.curator import release_kinds
from sfumato.errors import ServerUnavailable, SfumatoError
from sfumato.plan.nodes import Join, PerUnit, SemiJoin, UnitJoin, Unnest, Window, relations
from sfumato.release.releasing import Progress, quietly
from sfumato.server.releases.turns import lower_priority

_MOST_DOUBLINGS = 10
_COSTLY = (Join, UnitJoin, SemiJoin, PerUnit, Window, Unnest)
_BEGIN, _END = ("charging", "closing"), ("writing down", "stopping", "closed")
"""The phases between which rows are read (``release.releasing``), or forgotten (``curator.sessions``)."""


@dataclass(frozen=True)
class AnswerClock:
    """A clock says when releases are answered."""

    answer_after: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, started: float, doublings: int) -> int:
        """Wait until what started then may be seen: never before that moment.

        Gives how often the time was doubled beyond what the question's own cost says.
        """
        took = self.now() - started
        first = self.answer_after * 2.0**doublings
        late = 0 if took <= first else math.ceil(math.log2(took / first))
        while first * 2.0**late < took:  # a logarithm may be rounded down
            late += 1
        while (left := started + first * 2.0**late - self.now()) > 0:
            self.sleep(left)
        return late


class ClockedPhases:
    """This is told the phases of one release, or of each step of a series, and holds it back until it may be seen."""

    def __init__(self, clock: AnswerClock, doublings: int, told: Callable[[str], None]) -> None:
        self._clock = clock
        self._doublings = doublings
        self._told = told
        self._started: float | None = None
        self.late = 0
        """How many readings took longer than the clock allowed."""

    def __call__(self, phase: str) -> None:
        self._told(phase)
        if phase in _BEGIN:
            self._started = self._clock.now()
        elif phase in _END and self._started is not None:
            self.late += self._clock.wait(self._started, self._doublings) > 0
            self._started = None


def doublings(kind: str, proposal: Any) -> int:
    """Find the class of a proposal's static cost: a doubling for its kind, for each join, grouping within units, window
    or list of its plan, and for twice as many questions. Neither rows nor answers have a part in it.
    """
    known = release_kinds.all_kinds().get(kind)
    found = 0 if known is None else known.cost_class
    query = getattr(proposal, "query", None)
    if query is not None:
        found += sum(isinstance(node, _COSTLY) for node in relations(query.plan.source))
    several = getattr(proposal, "questions", None)
    if isinstance(several, (list, tuple, dict)):
        found += max(0, len(several) - 1).bit_length()
    return min(found, _MOST_DOUBLINGS)


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
