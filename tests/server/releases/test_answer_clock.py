"""A release is seen at its start plus answer_after, doubled for every overrun, and never before."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from sfumato.server.releases.answer_clock import AnswerClock, DelayedProgress


@dataclass
class Time:
    """Time goes on by sleeping, or by hand; sleeping may wake too early."""

    now: float = 100.0
    early: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += max(seconds * (1 - self.early), 1e-9)

    def clock(self, after: float) -> AnswerClock:
        return AnswerClock(after, lambda: self.now, self.sleep)


@given(
    took=st.floats(0, 1e4),
    after=st.floats(0.001, 3600),
    doublings=st.integers(0, 10),
    early=st.sampled_from([0.0, 0.3]),
)
def test_it_waits_for_the_first_tick_that_is_not_before_the_end(
    took: float, after: float, doublings: int, early: float
) -> None:
    time = Time(0.0, early)
    clock = time.clock(after)
    time.now = took
    late = clock.wait(0.0, doublings)
    tick = after * 2**doublings * 2**late
    assert time.now >= tick >= took
    assert late == 0 or tick / 2 < took
    assert time.now <= tick * (1 + 1e-9) + 1e-6


def test_every_reading_that_fits_is_seen_at_the_same_moment() -> None:
    seen = set()
    for took in (0.0, 0.01, 0.5, 0.999, 1.0):
        time = Time()
        phases = DelayedProgress(time.clock(1.0), 0, lambda _: None)
        phases("checking")
        phases("charging")
        time.now += took
        phases("writing down")
        seen.add(round(time.now, 6))
        assert phases.late_phases == 0
    assert seen == {101.0}


@pytest.mark.parametrize(("took", "seen"), [(1.5, 102.0), (2.0, 102.0), (2.1, 104.0), (5.0, 108.0)])
def test_an_overrun_is_seen_at_a_doubled_time_and_counted(took: float, seen: float) -> None:
    time = Time()
    phases = DelayedProgress(time.clock(1.0), 0, lambda _: None)
    phases("charging")
    time.now += took
    phases("stopping")
    assert time.now == pytest.approx(seen)
    assert phases.late_phases == 1


def test_every_step_of_a_series_has_its_own_time() -> None:
    time = Time()
    phases = DelayedProgress(time.clock(1.0), 1, lambda _: None)
    for step, took in enumerate((0.1, 1.9, 0.7), 1):
        phases("charging")
        time.now += took
        phases("writing down")
        assert time.now == pytest.approx(100 + 2 * step)


def test_before_the_charge_nothing_waits() -> None:
    time = Time()
    phases = DelayedProgress(time.clock(1.0), 0, lambda _: None)
    phases("checking")
    phases("writing down")
    assert time.slept == []


def test_forgetting_rows_has_its_own_time() -> None:
    time = Time()
    phases = DelayedProgress(time.clock(1.0), 0, lambda _: None)
    for phase, took in (("charging", 0.3), ("writing down", 0.0), ("closing", 0.4), ("closed", 0.0)):
        phases(phase)
        time.now += took
    assert time.now == pytest.approx(102)
