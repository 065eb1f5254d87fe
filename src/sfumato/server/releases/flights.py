"""A flight is one release on its way: it waits for its turn, is charged and read, and is answered when it is due.

Of equal requests of one user there is a single flight, and all of them wait for it. It goes on when nobody does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sfumato.errors import LedgerUnavailable, Unanswered
from sfumato.server.releases.answer_clock import AnswerClock, ClockedPhases
from sfumato.server.releases.running_releases import Phase, ReleaseKey, RunningReleases, StoredRelease
from sfumato.server.releases.turns import Turns

_REMEMBERED = 1000
"""Flights that have ended, of which whoever polls is still told how."""
_READING = "reading"


@dataclass(frozen=True)
class FlightResult:
    """This is what was released, and the line of the ledger that holds it."""

    line: int
    answer: Any
    free: bool
    """It had been bought before, and nothing was charged now."""

    @classmethod
    def of(cls, answer: Any) -> FlightResult:
        """Look up in a receipt which line holds an answer; what was not bought at all has line 0.

        Several answers that were all bought before have no receipt of their own: the last line of them is theirs.
        """
        receipt = getattr(answer, "receipt", None)
        if receipt is not None:
            return cls(receipt.line, answer, receipt.free or not receipt.line)
        parts = getattr(answer, "answers", ())
        return cls(max((each.receipt.line for each in parts), default=0), answer, free=True)


class Flight:
    """A flight is one release, from the moment it is taken until its answer is due."""

    def __init__(
        self,
        request: ReleaseKey,
        asked: StoredRelease,
        buy: Callable[[Callable[[str], None]], Any],
        doublings: int,
        ended: Callable[[Flight], None],
        told: Callable[[BaseException], BaseException] = lambda error: error,
    ) -> None:
        self.request = request
        self.asked = asked
        """What was asked for, as it is compared with another that has the same id."""
        self.future: Future[FlightResult] = Future()
        self.phase = Phase.QUEUED
        self.doublings = doublings
        self.buy = buy
        self.ended = ended
        self.told = told
        """Gives what whoever waits is told of a refusal."""

    def kept(self, released: FlightResult) -> StoredRelease:
        """Give what is kept of an answer, so that it can be shown again."""
        return replace(self.asked, line=released.line, answer=released.answer.to_json())

    @classmethod
    def landed(cls, request: ReleaseKey, asked: StoredRelease, released: FlightResult) -> Flight:
        """Give the flight of an answer that is there already."""
        found = cls(request, asked, lambda _: released, 0, lambda _: None)
        found.phase = Phase.DONE
        found.future.set_result(released)
        return found

    def result(self) -> FlightResult:
        """Wait for the answer."""
        return self.future.result()


class Flights:
    """These are the flights of one process."""

    def __init__(self, turns: Turns, clock: AnswerClock, running: RunningReleases) -> None:
        self._turns = turns
        self._clock = clock
        self._running = running
        self._lock = threading.Lock()
        self._known: OrderedDict[ReleaseKey, Flight] = OrderedDict()
        self._left: set[ReleaseKey] = set()
        """Those that have landed while the people file could not be told so: their rows are still there."""
        self._leaving = threading.Lock()
        """Guards those alone: a flight begins inside the lock of the turns, which is taken inside the other one."""

    def find(self, request: ReleaseKey) -> Flight | None:
        """Find a flight of this process that is under way, or has ended lately."""
        with self._lock:
            return self._known.get(request)

    def take(self, flight: Flight) -> Flight:
        """Let a flight wait for its turn, or give the one of the same request that does so already."""
        with self._lock:
            known = self._known.get(flight.request)
            if known is not None and known.phase is not Phase.DONE:
                known.asked.require_same(flight.asked)
                return known
            self._turns.take(_Turn(flight, self))
            self._known[flight.request] = flight
            self._known.move_to_end(flight.request)
            ended = [request for request, each in self._known.items() if each.phase is Phase.DONE]
            for request in ended[: max(0, len(ended) - _REMEMBERED)]:
                del self._known[request]
        return flight

    def stop_taking(self) -> None:
        """Take no more, from now on."""
        self._turns.stop_taking()

    def drain(self, seconds: float | None) -> bool:
        """Take no more, and wait until all have landed."""
        return self._turns.drain(seconds)

    def begin(self, flight: Flight) -> bool:
        """Begin a flight, if all processes together have room for it; those that have landed here take none."""
        with self._leaving:
            left = frozenset(self._left)
        try:
            begun = self._running.begin(flight.request, left)
        except LedgerUnavailable:  # it waits until the file can be used again
            return False
        with self._leaving:
            self._left -= left
        return begun

    def fly(self, flight: Flight) -> None:
        """Release the answer, which the clock holds back until it is due, and tell it."""
        phases = ClockedPhases(self._clock, flight.doublings, _Charged(flight, self._running))
        refused: BaseException | None = None
        released: FlightResult | None = None
        try:
            answer = flight.buy(phases)
            released = answer if isinstance(answer, FlightResult) else FlightResult.of(answer)
        except BaseException as error:  # whoever waits is told, and the next one has their turn
            refused = error
        self._land(flight, released, refused, phases.late)

    def _land(self, flight: Flight, released: FlightResult | None, refused: BaseException | None, late: int) -> None:
        try:
            kept = None if released is None else flight.kept(released)
            self._running.end(flight.request, kept, late)
        except Exception as error:  # the answer is stored, and found by the same request
            released, refused = None, refused or error
            self._end_without_answer(flight.request, late)
        flight.phase = Phase.DONE
        flight.buy = _landed  # whoever is told later how it ended keeps no curator open
        if released is not None:
            flight.future.set_result(released)
        else:
            flight.future.set_exception(flight.told(refused or Unanswered(0)))
        with suppress(Exception):  # a log that cannot be written ends no turn
            flight.ended(flight)

    def _end_without_answer(self, request: ReleaseKey, late: int) -> None:
        """End a flight whose answer could not be kept, now or when the next one begins: its user has the turn back."""
        try:
            self._running.end(request, None, late)
        except Exception:  # the file cannot be used at all
            with self._leaving:
                self._left.add(request)


@dataclass(frozen=True)
class _Charged:
    """This is told the phases of a release, and says to whoever polls that it has been charged."""

    flight: Flight
    running: RunningReleases

    def __call__(self, phase: str) -> None:
        if phase == _READING and self.flight.phase is Phase.QUEUED:
            self.flight.phase = Phase.CHARGED
            with suppress(LedgerUnavailable):  # what is charged is answered, whoever can be told so
                self.running.charged(self.flight.request)


@dataclass
class _Turn:
    """This is the turn of one flight (``turns.Work``)."""

    flight: Flight
    flights: Flights

    @property
    def user(self) -> str:
        return self.flight.request.user

    def begin(self) -> bool:
        return self.flights.begin(self.flight)

    def run(self) -> None:
        self.flights.fly(self.flight)


def _landed(progress: Callable[[str], None]) -> Any:  # noqa: ARG001
    raise RuntimeError("a flight is flown once")
