"""Flights: releases in progress, from the queue through charge and query until the answer is due.

Equal requests of one user share a single flight. A flight continues when nobody waits for it any more.

Also here: the search for the stored answer that a release would be given for free. It charges nothing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sfumato.errors import LedgerUnavailable, SfumatoError, Unanswered, Unsupported
from sfumato.mechanisms import bits
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.token_spending_limits import AnswerNotStored
from sfumato.server.releases.answer_clock import AnswerClock, DelayedProgress, FairQueue
from sfumato.server.releases.running_releases import Phase, ReleaseKey, RunningReleases, StoredRelease

_MAX_ENDED = 1000
"""Ended flights whose outcome is kept for clients that poll."""
_READING = "reading"
LEDGER_PATIENCE = 5.0
"""Seconds that queued releases wait for files that cannot be written; then they are refused, uncharged."""


@dataclass(frozen=True)
class FlightResult:
    """A released answer, and the ledger line that holds it."""

    line: int
    answer: Any
    free: bool
    """It was bought before: this request charged nothing."""

    @classmethod
    def from_answer(cls, answer: Any) -> FlightResult:
        """Take the ledger line from an answer's receipt; 0 if nothing was bought.

        A workload whose answers were all bought before has no receipt of its own: its line is the last of theirs.
        """
        receipt, parts = getattr(answer, "receipt", None), getattr(answer, "answers", ())
        for part in (answer, *parts):  # a kept answer would keep its question, and with it a closed curator
            getattr(part, "forget_question", lambda: None)()
        if receipt is not None:
            return cls(receipt.line, answer, receipt.free or not receipt.line)
        return cls(max((part.receipt.line for part in parts), default=0), answer, free=True)


class Withdrawn(Exception):
    """The end of a flight that was cancelled before it was charged."""


class Flight:
    """One release, from its request until its answer is due."""

    def __init__(
        self,
        request: ReleaseKey,
        requested: StoredRelease,
        buy: Callable[[Callable[[str], None]], Any],
        doublings: int,
        on_end: Callable[[Flight], None],
        redact: Callable[[BaseException], BaseException] = lambda error: error,
    ) -> None:
        self.request = request
        self.requested = requested
        """The request, as compared with another one that has the same id."""
        self.future: Future[FlightResult] = Future()
        self.phase = Phase.QUEUED
        self.doublings = doublings
        self.buy = buy
        self.on_end = on_end
        self.redact = redact
        """Returns the redacted form of an error for whoever waits."""
        self.refusal: SfumatoError | None = None
        """Why the flight cannot begin; nothing was charged."""
        self.withdrawn = False
        """Nobody waits any more: if it has not begun to be charged, it never is."""

    def to_stored(self, released: FlightResult) -> StoredRelease:
        """Return the record from which the answer can be shown again."""
        return replace(self.requested, line=released.line, answer=released.answer.to_json())

    @classmethod
    def completed(cls, request: ReleaseKey, requested: StoredRelease, released: FlightResult) -> Flight:
        """Return a completed flight for an answer that already exists."""
        flight = cls(request, requested, lambda _: released, 0, lambda _: None)
        flight.phase = Phase.DONE
        flight.future.set_result(released)
        return flight

    def wait_for_result(self) -> FlightResult:
        """Block until the answer is there."""
        return self.future.result()


class Flights:
    """The flights of one process."""

    def __init__(
        self,
        turns: FairQueue,
        clock: AnswerClock,
        running: RunningReleases,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = turns
        self._clock = clock
        self._running = running
        self._lock = threading.Lock()
        self._by_request: OrderedDict[ReleaseKey, Flight] = OrderedDict()
        self._unended: set[ReleaseKey] = set()
        """Ended requests whose rows could not be deleted from the people file."""
        self._unended_lock = threading.Lock()
        """Guards ``_unended`` alone: flights begin under the lock of the turns, which is taken under ``_lock``."""
        self._unavailable_since: float | None = None
        """When the people file could not be written for the first time since it last could."""
        self._now = now

    def find(self, request: ReleaseKey) -> Flight | None:
        """Return the flight of a request in this process, in progress or recently ended."""
        with self._lock:
            return self._by_request.get(request)

    def enqueue(self, flight: Flight) -> Flight:
        """Queue a flight, or return the one of an equal request that is already queued or running."""
        with self._lock:
            current = self._by_request.get(flight.request)
            if current is not None and current.phase is not Phase.DONE:
                current.requested.require_same(flight.requested)
                return current
            self._turns.enqueue(_FlightWork(flight, self))
            self._by_request[flight.request] = flight
            self._by_request.move_to_end(flight.request)
            ended_requests = [request for request, queued in self._by_request.items() if queued.phase is Phase.DONE]
            for request in ended_requests[: max(0, len(ended_requests) - _MAX_ENDED)]:
                del self._by_request[request]
        return flight

    def turns_begun_if_idle(self) -> int | None:
        """Return how many flights have had their turn; None while one has it."""
        return self._turns.turns_begun_if_idle()

    def stop_accepting(self) -> None:
        """Refuse new flights from now on."""
        self._turns.stop_accepting()

    def drain(self, seconds: float | None) -> bool:
        """Refuse new flights and wait until all have ended."""
        return self._turns.drain(seconds)

    def require_writable_file(self) -> None:
        """Raise ``LedgerUnavailable`` while the people file, which could not be written, still cannot."""
        if self._unavailable_since is not None:
            self._running.require_writable()
            self._unavailable_since = None

    def begin_if_user_has_slot(self, flight: Flight) -> bool:
        """Start a flight if the user's limit over all processes allows it; ended flights of this process do not
        count.

        While the people file cannot be written, flights wait for it up to ``LEDGER_PATIENCE`` together. Then, or once
        the server stops, each gets its turn only to be refused: nothing was charged.
        """
        with self._unended_lock:
            ended = frozenset(self._unended)
        try:
            started = self._running.begin_if_user_has_slot(flight.request, ended)
        except LedgerUnavailable as error:
            if self._may_keep_waiting():
                return False
            flight.refusal = error
            return True
        self._unavailable_since = None
        with self._unended_lock:
            self._unended -= ended
        return started

    def _may_keep_waiting(self) -> bool:
        now = self._now()
        if self._unavailable_since is None:
            self._unavailable_since = now
        return now - self._unavailable_since < LEDGER_PATIENCE and not self._turns.is_draining

    def run_flight(self, flight: Flight) -> None:
        """Release the answer, delayed by the clock until it is due, and deliver it."""
        if flight.refusal is not None:
            self._deliver(flight, None, flight.refusal)
            return
        phases = DelayedProgress(self._clock, flight.doublings, _ChargeWatcher(flight, self._running))
        error_raised: BaseException | None = None
        released: FlightResult | None = None
        try:
            if flight.withdrawn:
                raise Withdrawn
            answer = flight.buy(phases)
            released = answer if isinstance(answer, FlightResult) else FlightResult.from_answer(answer)
        except BaseException as error:  # delivered to the waiting clients; the next flight gets its turn
            error_raised = error
        self._store_and_deliver(flight, released, error_raised, phases.late_phases)

    def _store_and_deliver(
        self, flight: Flight, released: FlightResult | None, failure: BaseException | None, late: int
    ) -> None:
        try:
            stored = None if released is None else flight.to_stored(released)
            self._running.finish(flight.request, stored, late)
        except Exception as error:  # the ledger holds the answer, and an equal request finds it
            released, failure = None, failure or error
            self._end_without_answer(flight.request, late)
        self._deliver(flight, released, failure)

    def _deliver(self, flight: Flight, released: FlightResult | None, failure: BaseException | None) -> None:
        flight.phase = Phase.DONE
        flight.buy = _refuse_second_run  # drop the reference to the curator: the outcome is kept longer
        if released is not None:
            flight.future.set_result(released)
        else:
            flight.future.set_exception(flight.redact(failure or Unanswered(0)))
        with suppress(Exception):  # a failing log must not lose the turn
            flight.on_end(flight)

    def _end_without_answer(self, request: ReleaseKey, late: int) -> None:
        """End a flight whose answer could not be stored, now or with the next flight, so that its user gets the slot
        back.
        """
        try:
            self._running.finish(request, None, late)
        except Exception:  # the file is not available at all
            with self._unended_lock:
                self._unended.add(request)


@dataclass(frozen=True)
class _ChargeWatcher:
    """A progress callback that marks the flight as charged, for clients that poll."""

    flight: Flight
    running: RunningReleases

    def __call__(self, phase: str) -> None:
        if phase == _READING and self.flight.phase is Phase.QUEUED:
            self.flight.phase = Phase.CHARGED
            with suppress(LedgerUnavailable):  # the release goes on even if the phase cannot be recorded
                self.running.mark_charged(self.flight.request)


@dataclass
class _FlightWork:
    """A flight as work in the queue (``answer_clock.QueuedWork``)."""

    flight: Flight
    flights: Flights

    @property
    def user(self) -> str:
        return self.flight.request.user

    def begin_if_user_has_slot(self) -> bool:
        return self.flights.begin_if_user_has_slot(self.flight)

    def run(self) -> None:
        self.flights.run_flight(self.flight)


def _refuse_second_run(progress: Callable[[str], None]) -> Any:  # noqa: ARG001
    raise RuntimeError("this release has already run")


def find_stored(proposal: Any, price: Mapping[str, Any], request_id: str) -> FlightResult | None:
    """Return the stored answer of a proposal that may spend nothing; None if it would have to be bought."""
    identity = {} if price.get("free") else {"request_id": request_id}  # what a synopsis answers is no request
    try:
        return FlightResult.from_answer(proposal.release(**price, **identity, progress=_stop_before_charge))
    except AnswerNotStored:
        return None


def require_stored(stored_result: FlightResult | None) -> Any:
    """Return a stored answer; refuse where there is none."""
    if stored_result is None:
        rule = "no stored answer is at least as accurate as a new answer at this price"
        raise Unsupported("not-stored", rule, fix="release a new answer instead, which is charged")
    return stored_result.answer


def new_request_id() -> str:
    """Return an id that no other request has."""
    return f"{bits.random_bits(128):032x}"


def _stop_before_charge(_phase: str) -> None:
    """Stop a release at its first phase: only a stored answer comes back."""
    raise AnswerNotStored
