"""Flights: one begins while others are taken, and neither waits for the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import LedgerUnavailable
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.answer_clock import AnswerClock, FairQueue, QueuedWork
from sfumato.server.releases.flights import LEDGER_PATIENCE, Flight, FlightResult, Flights
from sfumato.server.releases.running_releases import ReleaseKey, RunningReleases, StoredRelease


class Answer:
    """An answer is whatever can be kept."""

    def to_json(self) -> str:
        return "{}"


def test_a_flight_begins_while_another_is_taken(tmp_path: Path) -> None:
    """It begins inside the lock of the turns, which whoever is taken waits for."""
    begins, taking = threading.Event(), threading.Event()

    class Slow(RunningReleases):
        def begin_if_user_has_slot(self, request: ReleaseKey, landed: Iterable[ReleaseKey] = ()) -> bool:
            begins.set()
            assert taking.wait(60)
            return super().begin_if_user_has_slot(request, landed)

    class Told(FairQueue):
        def enqueue(self, work: QueuedWork) -> None:
            if begins.is_set():
                taking.set()
            super().enqueue(work)

    with closing(PeopleFile(tmp_path / "people")) as people:
        turns = Told(2, 16, 2)
        flights = Flights(turns, AnswerClock(0.01), Slow(people.database, 2))
        made = [_flight(each) for each in ("first", "second")]
        flights.enqueue(made[0])
        assert begins.wait(60)
        threading.Thread(target=flights.enqueue, args=(made[1],), daemon=True).start()
        assert [each.future.result(60).line for each in made] == [7, 7]
        assert turns.drain(60)


def test_of_equal_requests_under_way_there_is_one_flight(tmp_path: Path) -> None:
    """Whoever found none a moment ago, and brings the same request, is given the one that another brought meanwhile."""
    held = threading.Event()

    def buy(_: object) -> FlightResult:
        assert held.wait(60)
        return FlightResult(7, Answer(), free=False)

    with closing(PeopleFile(tmp_path / "people")) as people:
        turns = FairQueue(2, 16, 2)
        flights = Flights(turns, AnswerClock(0.01), RunningReleases(people.database, 2))
        first, second, other = (_flight(each, buy) for each in ("one", "one", "other"))
        assert flights.enqueue(first) is first
        assert flights.enqueue(second) is first
        assert flights.enqueue(other) is other
        held.set()
        assert first.future.result(60).line == 7
        assert turns.drain(60)
        assert not second.future.done()


def _flight(name: str, buy: Callable[[Any], Any] = lambda _: FlightResult(7, Answer(), free=False)) -> Flight:
    return Flight(
        ReleaseKey("clinic", "ana", name),
        StoredRelease(0, "questions", "{}", "{}"),
        buy,
        0,
        lambda _: None,
    )


class Unwritable(RunningReleases):
    """Releases whose file cannot be written until it is repaired."""

    repaired = False

    def begin_if_user_has_slot(self, request: ReleaseKey, landed: Iterable[ReleaseKey] = ()) -> bool:
        if not self.repaired:
            raise LedgerUnavailable("the file cannot be written", place="here", fix="repair it")
        return super().begin_if_user_has_slot(request, landed)

    def require_writable(self) -> None:
        if not self.repaired:
            raise LedgerUnavailable("the file cannot be written", place="here", fix="repair it")
        super().require_writable()


def test_flights_wait_for_their_file_only_so_long(tmp_path: Path) -> None:
    """They wait together: whoever comes when the time is over is refused at once, and nothing is bought."""
    moment = [0.0]
    with closing(PeopleFile(tmp_path / "people")) as people:
        turns, running = FairQueue(2, 16, 2), Unwritable(people.database, 2)
        flights = Flights(turns, AnswerClock(0.01), running, lambda: moment[0])
        flights.require_writable_file()
        waiting = flights.enqueue(_flight("first", _never_bought))
        assert not _ended(waiting, 0.3)
        moment[0] = LEDGER_PATIENCE - 0.001
        assert not _ended(waiting, 0.3)
        moment[0] = LEDGER_PATIENCE
        late = flights.enqueue(_flight("second", _never_bought))
        for flight in (waiting, late):
            assert isinstance(flight.future.exception(60), LedgerUnavailable)
        with pytest.raises(LedgerUnavailable):
            flights.require_writable_file()
        running.repaired = True
        flights.require_writable_file()
        assert flights.enqueue(_flight("third")).future.result(60).line == 7
        running.repaired = False
        moment[0] += LEDGER_PATIENCE  # a new failure is waited for again
        assert not _ended(flights.enqueue(_flight("fourth", _never_bought)), 0.3)
        assert turns.drain(60)


def test_a_server_that_stops_refuses_what_waits_for_its_file(tmp_path: Path) -> None:
    with closing(PeopleFile(tmp_path / "people")) as people:
        turns = FairQueue(2, 16, 2)
        flights = Flights(turns, AnswerClock(0.01), Unwritable(people.database, 2), lambda: 0.0)
        waiting = [flights.enqueue(_flight(f"flight {number}", _never_bought)) for number in range(5)]
        assert not _ended(waiting[0], 0.3)
        assert flights.drain(60)
        assert all(isinstance(flight.future.exception(0), LedgerUnavailable) for flight in waiting)


def _never_bought(_: object) -> FlightResult:
    raise AssertionError("nothing may be bought")


def _ended(flight: Flight, seconds: float) -> bool:
    with suppress(TimeoutError):
        flight.future.exception(seconds)
        return True
    return False
