"""When a server should answer is suggested from what typical questions take over the rows as they are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.checking import ReleaseDuration, check, suggested_answer_delay
from sfumato.engine.duckdb.driver import DuckDB


@pytest.mark.parametrize(
    ("seconds", "suggested"),
    [((0.0,), 1), ((0.4, 1.0), 1), ((1.0001, 0.2), 2), ((2.0,), 2), ((2.01,), 4), ((100.0, 3.0), 128), ((), None)],
)
def test_it_is_the_least_power_of_two_that_holds_the_longest(seconds: tuple[float, ...], suggested: int | None) -> None:
    assert (
        suggested_answer_delay(ReleaseDuration(f"question {number}", each) for number, each in enumerate(seconds))
        == suggested
    )


def test_what_is_measured_is_the_reading_and_nothing_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sf.example(tmp_path / "flights")
    before = sorted(each.name for each in policy.parent.iterdir())
    read = DuckDB.read

    def slowly(engine: DuckDB, reading: Any, key: int) -> Any:
        time.sleep(0.6 if "delay" in str(reading) else 0.0)
        return read(engine, reading, key)

    monkeypatch.setattr(DuckDB, "read", slowly)
    found = check(policy)
    times = {each.question: each.seconds for each in found.times}
    slow = [seconds for question, seconds in times.items() if "delay" in question]
    assert len(times) >= 5
    assert slow
    assert min(slow) >= 0.6
    assert found.answer_after is not None
    assert found.answer_after >= max(slow)
    assert sorted(each.name for each in policy.parent.iterdir()) == before  # no ledger, no copy
    assert check(policy, private=False).times == ()
