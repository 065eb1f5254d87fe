"""Deadlines of statements: an overrun is ended, whoever else runs, and nothing is ended that came in time."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from sfumato.engine.protocols import Reader
from sfumato.release.deadlines import Deadline, DeadlineWatch
from sfumato.release.releasing import interrupt_after

FORK = multiprocessing.get_context("fork")


class Interrupted:
    """An engine whose statements only wait to be interrupted."""

    def __init__(self, slow: float = 0.0) -> None:
        self.ended: dict[int, threading.Event] = {}
        self.interrupts: list[tuple[int | None, float]] = []
        self.begun = threading.Event()
        self._slow = slow

    def interrupt(self, token: int | None = None) -> None:
        self.begun.set()
        time.sleep(self._slow)
        self.interrupts.append((token, time.monotonic()))
        if token in self.ended:
            self.ended[token].set()

    def statement(self) -> None:
        """Wait to be ended by an interrupt of this thread, as a long statement does."""
        ended = self.ended[threading.get_ident()] = threading.Event()
        assert ended.wait(10), "nobody ended it"


def overrun(engine: Interrupted, seconds: float, begun: float = 0.0) -> float:
    """Run a statement beyond its deadline, begun so many seconds after the limit was set, and time it."""

    def run() -> None:
        with interrupt_after(cast("Reader", engine), seconds):
            time.sleep(begun)
            engine.statement()

    start = time.monotonic()
    with pytest.raises(TimeoutError):
        run()
    return time.monotonic() - start


def in_thread(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    return thread, results


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_statement_that_overruns_is_ended(seconds: float) -> None:
    engine = Interrupted()
    assert seconds <= overrun(engine, seconds) < 5
    assert {token for token, _ in engine.interrupts} == {threading.get_ident()}


def test_an_earlier_deadline_is_kept_while_a_later_one_is_waited_for() -> None:
    engine = Interrupted()
    with interrupt_after(cast("Reader", engine), 600):
        thread, took = in_thread(lambda: overrun(engine, 0.05))
        thread.join(10)
    assert took[0] < 5
    assert threading.get_ident() not in {token for token, _ in engine.interrupts}


def test_a_statement_that_begins_after_its_deadline_is_ended_too() -> None:
    assert overrun(Interrupted(), 0.01, begun=0.1) < 5  # the first interrupts meet no statement


def test_nothing_is_interrupted_after_the_limit_was_left() -> None:
    """An interrupt under way is waited for: the thread's next statement is never met by it."""
    engine = Interrupted(slow=0.1)
    with pytest.raises(TimeoutError), interrupt_after(cast("Reader", engine), 0.0):
        assert engine.begun.wait(10)
    left = time.monotonic()
    time.sleep(0.3)
    assert [moment <= left for _, moment in engine.interrupts] == [True]


@pytest.mark.parametrize(("wakes", "ends", "is_woken"), [(5, 600, False), (5, 1, True), (-1, 600, True)])
def test_the_waiting_thread_is_woken_for_what_comes_earlier_or_when_it_overslept(
    wakes: float, ends: float, is_woken: bool
) -> None:
    watch = DeadlineWatch()
    watch._waiter = threading.current_thread()  # alive, and asleep until then
    watch._wake_time = time.monotonic() + wakes
    watch.add(Deadline(cast("Reader", Interrupted()), ends))
    assert watch._woken.empty() is not is_woken


def test_an_engine_that_is_slow_to_be_interrupted_delays_no_other() -> None:
    slow, quick = Interrupted(slow=2.0), Interrupted()
    thread, _ = in_thread(lambda: overrun(slow, 0.0))
    time.sleep(0.1)
    assert overrun(quick, 0.05) < 1
    thread.join(10)


def test_a_limit_that_is_kept_starts_no_thread() -> None:
    engine = Interrupted()
    with interrupt_after(cast("Reader", engine), 600):
        before = {each.ident for each in threading.enumerate()}
    for _ in range(20):
        with interrupt_after(cast("Reader", engine), 600):
            assert {each.ident for each in threading.enumerate()} <= before
    assert not engine.interrupts


def test_a_forked_process_ends_its_own_statements() -> None:
    with interrupt_after(cast("Reader", Interrupted()), 600):
        child = FORK.Process(target=overrun, args=(Interrupted(), 0.05))
        child.start()
        child.join(20)
    assert child.exitcode == 0
