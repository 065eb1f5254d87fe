"""A property computed once per instance holds up no other instance, no other thread and no forked process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import private
from sfumato.caching import cached_property, once_per_instance, once_per_last_argument
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.keys import ValueCombinations


class Slow:
    """Its property waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.allowed, self.times = threading.Event(), threading.Event(), 0

    @cached_property
    def value(self) -> int:
        """A number."""
        self.times += 1
        self.begun.set()
        assert self.allowed.wait(60)
        return 7


def test_a_value_is_computed_once_and_kept_in_the_instance() -> None:
    slow = Slow()
    slow.allowed.set()
    assert (slow.value, slow.value, slow.times) == (7, 7, 1)
    assert slow.__dict__["value"] == 7
    assert Slow.value.__doc__ == "A number."


def test_a_function_of_an_instance_is_computed_once_for_each() -> None:
    class Word:
        def __init__(self, text: str) -> None:
            self.text = text

    computed: list[str] = []

    @once_per_instance
    def first_letter(word: Word) -> str:
        """The first letter."""
        computed.append(word.text)
        return word.text[:1]

    left, right, empty = Word("left"), Word("right"), Word("")
    assert [first_letter(word) for word in (left, right, left, empty, empty)] == ["l", "r", "l", "", ""]
    assert computed == ["left", "right", ""]
    assert first_letter.__doc__ == "The first letter."


def _beside(slow: Callable[[], object], begun: threading.Event, allowed: threading.Event) -> Callable[..., None]:
    """Runs an action while the slow one is under way, in a thread and in a forked process."""

    def run(action: Callable[[], object]) -> None:
        first = threading.Thread(target=slow)
        first.start()
        assert begun.wait(60)
        try:
            other = threading.Thread(target=action, daemon=True)
            other.start()
            other.join(60)
            assert not other.is_alive()
            child = os.fork()
            if not child:
                finished = threading.Thread(target=lambda: (action(), os._exit(0)), daemon=True)
                finished.start()
                finished.join(60)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
        finally:
            allowed.set()
            first.join()

    return run


def test_one_instance_holds_up_no_other() -> None:
    slow = Slow()

    def quick() -> None:
        other = Slow()
        other.allowed.set()
        assert other.value == 7

    _beside(lambda: slow.value, slow.begun, slow.allowed)(quick)


def test_one_analysts_large_question_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups of one question are computed for long; others are priced meanwhile, also in a forked process."""
    begun, allowed, values = threading.Event(), threading.Event(), DuckDB.values

    def waiting(self: DuckDB, world: ValueCombinations) -> Any:
        if "slow" in str(world):
            begun.set()
            assert allowed.wait(60)
        return values(self, world)

    monkeypatch.setattr(DuckDB, "values", waiting)
    table = pa.table({"who": ["a"], "ward": ["A"]})
    policy = private(table, {"ward": {"values": ["A", "B"]}}, unit="who")
    with sf.Curator(policy, tmp_path / "sfumato.ledger") as curator:
        slow = curator.sql("SELECT CASE WHEN ward = 'A' THEN 'slow' END, COUNT(*) FROM t GROUP BY 1")

        def quick() -> None:
            curator.sql("SELECT ward, COUNT(*) FROM t GROUP BY ward").error(epsilon=1, delta="1e-9")

        _beside(lambda: slow.error(epsilon=1), begun, allowed)(quick)
        assert slow.groups == (("slow",), (None,))


class Doubler:
    """Counts how often it computes."""

    times = 0

    @once_per_last_argument
    def doubled(self, numbers: list[int]) -> list[int]:
        self.times += 1
        return 2 * numbers


def test_a_result_is_kept_for_the_last_object_alone_even_beside_an_equal_one() -> None:
    doubler, first, equal = Doubler(), [1], [1]
    assert doubler.doubled(first) is doubler.doubled(first)
    assert doubler.doubled([2]) == [2, 2]
    assert doubler.doubled(first) is not doubler.doubled(equal)
    assert doubler.times == 4
    assert Doubler().doubled([3]) == [3, 3]
