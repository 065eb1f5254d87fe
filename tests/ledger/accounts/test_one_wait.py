"""One wait for an answer that another question pays for, step by step, on a clock of its own."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from sfumato.ledger.accounts import pending_queries


class Waiting:
    """A question that waits for charge 7 at a clock of its own, on which reading takes no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, request: str = "") -> None:
        self.now, self.pauses, self.stopped = 100.0, list[float](), list[int]()
        self.reads = 0
        self.own: Any = None
        self.ending: Any = None
        self.is_alive: bool | None = True
        self.is_old = False
        self.sealed_lines = set[tuple[int, str]]()
        monkeypatch.setattr(pending_queries, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        query: Any = object.__new__(pending_queries.PendingQuery)
        transaction = SimpleNamespace(
            ending_line=lambda number: self.ending if number == 7 else "wrong",
            has_line=lambda *line: line in self.sealed_lines,
            stop_charge=self.stop,
        )
        self.unrecorded_stops: dict[int, str] = {}
        query._guarded = SimpleNamespace(
            reading=lambda: nullcontext(self.read(transaction)),
            writing=lambda: nullcontext(transaction),
            unrecorded_stops=self.unrecorded_stops,
        )
        query._find_requested = lambda _: self.own
        query._is_payer_alive = lambda _: self.is_alive
        query._is_past_wait_limit = lambda _: self.is_old
        query._columns = {"request": request}
        self.query = query

    def read(self, transaction: Any) -> Any:
        self.reads += 1
        assert self.reads < 1000, "a wait without end"
        return transaction

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def stop(self, number: int) -> None:
        self.stopped.append(number)
        self.ending = line("stopped")

    def wait(self, seconds: float = 0.0, request: str = "") -> object:
        return self.query._wait_for_answer(SimpleNamespace(number=7, request=request), seconds)


def line(kind: str) -> Any:
    return SimpleNamespace(kind=kind)


def test_a_wait_ends_with_the_answer_to_the_charge_or_to_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    waiting.ending = line("answer")
    assert waiting.wait() is waiting.ending
    waiting.own, waiting.ending = line("answer"), line("stopped")
    assert waiting.wait() is waiting.own
    waiting.own = None
    with pytest.raises(sf.Unanswered):
        waiting.wait()


def test_a_wait_looks_ever_more_seldom_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    with pytest.raises(sf.AnswerPending) as late:
        waiting.wait(0.5)
    assert late.value.number == 7
    expected = [min(0.002 * 1.5**index, 0.05) for index in range(len(waiting.pauses))]
    assert waiting.pauses == pytest.approx(expected)
    assert sum(waiting.pauses[:-1]) < 0.5 <= sum(waiting.pauses)
    waiting.now, waiting.pauses = 100.0, []
    with pytest.raises(sf.AnswerPending):
        waiting.wait(0.0)  # the time is over when it is reached
    assert waiting.pauses == []


def test_who_waits_for_a_dead_payer_stops_its_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    waiting.is_alive = False
    with pytest.raises(sf.Unanswered) as told:
        waiting.wait(9)
    assert (waiting.stopped, waiting.pauses) == ([7], [])
    assert (told.value.number, told.value.charged) == (7, False)


@pytest.mark.parametrize(
    ("waits", "charge", "charged"), [("r", "r", True), ("r", "s", False), ("", "", False), ("r", "", False)]
)
def test_a_stopped_charge_was_paid_by_who_repeats_its_request(
    monkeypatch: pytest.MonkeyPatch, waits: str, charge: str, charged: bool
) -> None:
    waiting = Waiting(monkeypatch, waits)
    waiting.ending = line("stopped")
    with pytest.raises(sf.Unanswered) as told:
        waiting.wait(9, charge)
    assert (told.value.number, told.value.charged) == (7, charged)


def test_a_stop_that_is_not_yet_written_ends_a_wait_if_its_charge_was(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    for seal, ended in ((None, False), ("other", False), ("seal", True)):
        waiting.sealed_lines = {(7, "seal")}
        if seal is not None:
            waiting.unrecorded_stops[7] = seal
        with pytest.raises(sf.Unanswered if ended else sf.AnswerPending):
            waiting.wait()
    waiting.unrecorded_stops.clear()
    waiting.sealed_lines = {(7, None)}  # type: ignore[arg-type]
    with pytest.raises(sf.AnswerPending):
        waiting.wait()


@pytest.mark.parametrize("request_id", ["r", ""])
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("is_alive", [None, True])
def test_only_an_old_request_of_its_own_by_an_unknown_payer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, request_id: str, is_old: bool, is_alive: bool | None
) -> None:
    waiting = Waiting(monkeypatch, "r")
    waiting.is_alive, waiting.is_old = is_alive, is_old
    given_up = request_id == "r" and is_old and is_alive is None
    with pytest.raises(sf.Unanswered if given_up else sf.AnswerPending):
        waiting.wait(0, request_id)
    assert waiting.stopped == []
