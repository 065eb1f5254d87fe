"""Flights: one begins while others are taken, and neither waits for the other."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.answer_clock import AnswerClock
from sfumato.server.releases.flights import Flight, Flights, Released
from sfumato.server.releases.running_releases import Kept, Request, RunningReleases
from sfumato.server.releases.turns import Turns, Work


class Answer:
    """An answer is whatever can be kept."""

    def to_json(self) -> str:
        return "{}"


def test_a_flight_begins_while_another_is_taken(tmp_path: Path) -> None:
    """It begins inside the lock of the turns, which whoever is taken waits for."""
    begins, taking = threading.Event(), threading.Event()

    class Slow(RunningReleases):
        def begin(self, request: Request, landed: Iterable[Request] = ()) -> bool:
            begins.set()
            assert taking.wait(60)
            return super().begin(request, landed)

    class Told(Turns):
        def take(self, work: Work) -> None:
            if begins.is_set():
                taking.set()
            super().take(work)

    with closing(PeopleFile(tmp_path / "people")) as people:
        turns = Told(2, 16, 2)
        flights = Flights(turns, AnswerClock(0.01), Slow(people.database, 2))
        made = [_flight(each) for each in ("first", "second")]
        flights.take(made[0])
        assert begins.wait(60)
        threading.Thread(target=flights.take, args=(made[1],), daemon=True).start()
        assert [each.future.result(60).line for each in made] == [7, 7]
        assert turns.drain(60)


def _flight(name: str) -> Flight:
    return Flight(
        Request("clinic", "ana", name),
        Kept(0, "questions", "{}", "{}"),
        lambda _: Released(7, Answer(), free=False),
        0,
        lambda _: None,
    )
