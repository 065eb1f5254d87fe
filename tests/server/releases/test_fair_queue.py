"""Everybody gets their turn: rates, releases at once, a bounded queue, fair between users."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, field

import pytest

from sfumato.errors import Draining, TooManyRequests
from sfumato.server.releases.answer_clock import FairQueue, QuestionRateLimit


@dataclass
class Step:
    """Work that notes when it began, and ends when it is told to."""

    user: str
    number: int
    began: list[tuple[str, int]]
    may_end: threading.Event = field(default_factory=threading.Event)
    running: threading.Event = field(default_factory=threading.Event)
    allowed: bool = True

    def begin_if_user_has_slot(self) -> bool:
        return self.allowed

    def run(self) -> None:
        self.began.append((self.user, self.number))
        self.running.set()
        assert self.may_end.wait(120)


def test_what_is_owed_is_paid_back_before_the_next_question() -> None:
    now = [0.0]
    free = QuestionRateLimit(4, lambda: now[0])
    free.withdraw("ana")
    free.withdraw_extra("ana", 10)
    free.withdraw("ben")
    with pytest.raises(TooManyRequests):
        free.withdraw("ana")
    now[0] = 7.9 / 4  # a tenth of a question before
    with pytest.raises(TooManyRequests):
        free.withdraw("ana")
    now[0] = 8.01 / 4
    free.withdraw("ana")


@pytest.mark.parametrize(("per_second", "taken"), [(20, 30), (4, 5), (2.5, 5), (0.5, 5)])
def test_what_counts_as_more_than_there_ever_is_may_owe_more_and_is_answered(per_second: float, taken: int) -> None:
    """The debt that a call itself has made is no reason to refuse it; another's at the same time is one."""
    free = QuestionRateLimit(per_second, lambda: 0.0)
    free.withdraw("ana", taken)
    free.withdraw_extra("ana", 3, taken)
    with pytest.raises(TooManyRequests):
        free.withdraw_extra("ana", 3, taken)


def test_who_owes_already_is_told_when_to_come_back_and_owes_no_more() -> None:
    """Two costly questions are taken at the same time: both may be begun, and only one is worked on."""
    now = [0.0]
    free = QuestionRateLimit(4, lambda: now[0])
    free.withdraw("ana")
    free.withdraw("ana")
    free.withdraw_extra("ana", 10)
    with pytest.raises(TooManyRequests) as refused:
        free.withdraw_extra("ana", 10)
    assert refused.value.retry_after == 2
    free.withdraw_extra("ana", 0)
    free.withdraw_extra("ben", 10)
    now[0] = 8.01 / 4
    free.withdraw_extra("ana", 10)


def test_a_user_asks_so_many_free_questions_a_second() -> None:
    now = [0.0]
    questions = QuestionRateLimit(20, lambda: now[0])
    for _ in range(20):
        questions.withdraw("ana")
    with pytest.raises(TooManyRequests) as refused:
        questions.withdraw("ana")
    assert refused.value.retry_after == 1
    questions.withdraw("ben")
    now[0] += 0.05
    questions.withdraw("ana")
    with pytest.raises(TooManyRequests):
        questions.withdraw("ana")
    now[0] += 1000
    for _ in range(20):
        questions.withdraw("ana")
    with pytest.raises(TooManyRequests):
        questions.withdraw("ana")


def test_two_analysts_take_turns_although_one_came_with_many_first() -> None:
    began: list[tuple[str, int]] = []
    turns = FairQueue(max_running=1, queue=64, threads=1)
    first = Step("ana", 0, began)
    turns.enqueue(first)
    assert first.running.wait(120)
    rest = [
        *(Step("ana", number, began) for number in range(1, 6)),
        *(Step("ben", number, began) for number in range(2)),
    ]
    for each in rest:
        turns.enqueue(each)
        each.may_end.set()
    first.may_end.set()
    assert turns.drain(120)
    assert began[:5] == [("ana", 0), ("ana", 1), ("ben", 0), ("ana", 2), ("ben", 1)]
    assert [number for user, number in began if user == "ana"] == list(range(6))


def test_a_user_runs_so_many_at_once_and_others_go_on() -> None:
    began: list[tuple[str, int]] = []
    turns = FairQueue(max_running=2, queue=64, threads=4)
    anas = [Step("ana", number, began) for number in range(4)]
    for each in anas:
        turns.enqueue(each)
    ben = Step("ben", 0, began)
    turns.enqueue(ben)
    for each in (anas[0], anas[1], ben):
        assert each.running.wait(120)
    assert not anas[2].running.wait(0.2)
    anas[0].may_end.set()
    assert anas[2].running.wait(120)
    assert not anas[3].running.is_set()
    for each in (*anas, ben):
        each.may_end.set()
    assert turns.drain(120)


def test_the_queue_is_bounded_and_one_user_never_fills_it() -> None:
    began: list[tuple[str, int]] = []
    turns = FairQueue(max_running=1, queue=8, threads=1)
    busy = Step("eve", 0, began)
    turns.enqueue(busy)
    assert busy.running.wait(120)
    taken: dict[str, int] = {}
    everything = [busy]
    for user in ("ana", "ben", "cleo", "dora"):
        for number in range(20):
            step = Step(user, number, began)
            step.may_end.set()
            try:
                turns.enqueue(step)
            except TooManyRequests:
                break
            everything.append(step)
            taken[user] = taken.get(user, 0) + 1
    assert taken == {"ana": 4, "ben": 2, "cleo": 1, "dora": 1}
    busy.may_end.set()
    assert turns.drain(120)
    assert len(began) == len(everything)


def test_what_another_process_holds_back_begins_when_it_may() -> None:
    began: list[tuple[str, int]] = []
    turns = FairQueue(max_running=2, queue=8, threads=2)
    held, free = Step("ana", 0, began, allowed=False), Step("ben", 0, began)
    turns.enqueue(held)
    turns.enqueue(free)
    assert free.running.wait(120)
    assert not held.running.is_set()
    held.allowed = True
    assert held.running.wait(120)
    for each in (held, free):
        each.may_end.set()
    assert turns.drain(120)


def test_draining_takes_nothing_new_and_ends_what_was_taken() -> None:
    began: list[tuple[str, int]] = []
    turns = FairQueue(max_running=1, queue=8, threads=1)
    steps = [Step("ana", number, began) for number in range(3)]
    for each in steps:
        turns.enqueue(each)
    assert not turns.drain(0.05)
    with pytest.raises(Draining):
        turns.enqueue(Step("ben", 0, began))
    for each in steps:
        each.may_end.set()
    assert turns.drain(120)
    assert len(began) == 3


def test_nothing_more_is_taken_at_once_whoever_holds_the_queue() -> None:
    """Whoever begins a release may wait for a file for long: a signal does not."""
    turns = FairQueue(max_running=1, queue=8, threads=1)
    held, told = threading.Event(), threading.Event()

    class Beginning(Step):
        def begin_if_user_has_slot(self) -> bool:
            held.set()
            return told.wait(120)

    last = Beginning("ana", 0, [])
    last.may_end.set()
    turns.enqueue(last)
    assert held.wait(120)
    turns.stop_accepting()
    told.set()
    with pytest.raises(Draining):
        turns.enqueue(Step("ben", 0, []))
    assert turns.drain(120)


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a niceness of its own on Linux alone")
def test_a_release_has_less_of_the_processor_than_who_asks_what_is_free() -> None:
    found: list[int] = []

    class Looking(Step):
        def run(self) -> None:
            found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    turns = FairQueue(max_running=1, queue=8, threads=1)
    turns.enqueue(Looking("ana", 0, []))
    assert turns.drain(60)
    assert found == [min(19, os.getpriority(os.PRIO_PROCESS, os.getpid()) + 10)]
