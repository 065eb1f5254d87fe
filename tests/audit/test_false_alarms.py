"""What an audit may be wrong by: the chances of all its limits together, and how often it refutes what is sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit import confidence_limits, falsifying

COLUMNS = 12


def _coins(random: np.random.Generator) -> Any:
    """A world of many numbers that say nothing, and the same again."""
    return lambda count: random.integers(0, 6, (count, COLUMNS))


@pytest.mark.parametrize("confidence", ["0.9", "0.999999"])
def test_the_chances_of_all_limits_together_are_what_the_confidence_leaves(
    monkeypatch: pytest.MonkeyPatch, confidence: str
) -> None:
    """Two limits for every event that is measured, each wrong with its chance, whatever is found: a union bound."""
    chances: list[float] = []

    def counted(limit: Any) -> Any:
        def measured(successes: int, trials: int, miss: float) -> float:
            chances.append(miss)
            return float(limit(successes, trials, miss))

        return measured

    monkeypatch.setattr(falsifying, "at_least", counted(confidence_limits.at_least))
    monkeypatch.setattr(falsifying, "at_most", counted(confidence_limits.at_most))
    random = np.random.default_rng(1)
    sf.audit.falsify([_coins(random), _coins(random)], sf.Guarantee(0), 400, confidence)
    assert len(chances) > 2 * COLUMNS
    assert 0 < sum(chances) <= (1 - float(confidence)) * (1 + 1e-9)


def test_many_events_raise_no_false_alarms() -> None:
    """Worlds that do not differ, seen through a hundred events: each verdict is wrong with probability ≤ 0.5, so that
    all twenty are with probability below 1e-6; an audit that forgets how many events it looks at is always wrong.
    """
    random = np.random.default_rng(2)
    worlds = [_coins(random), _coins(random)]
    alarms = sum(not sf.audit.falsify(worlds, sf.Guarantee(0), 400, "0.5").holds for _ in range(20))
    assert alarms < 20


def test_events_are_measured_on_samples_they_were_not_picked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[Any]] = {"picked": [], "measured": []}
    events, proven = falsifying._events, falsifying._proven

    def picking(first: Any, second: Any, delta: float) -> Any:
        seen["picked"] += [*first.ravel(), *second.ravel()]
        return events(first, second, delta)

    def measuring(event: Any, first: Any, second: Any, delta: float, miss: float) -> float:
        seen["measured"] += [*first.ravel(), *second.ravel()]
        return proven(event, first, second, delta, miss)

    monkeypatch.setattr(falsifying, "_events", picking)
    monkeypatch.setattr(falsifying, "_proven", measuring)
    worlds = [lambda count: np.arange(count), lambda count: np.arange(count, 2 * count)]
    sf.audit.falsify(worlds, sf.Guarantee(1), 1000)
    assert seen["picked"]
    assert seen["measured"]
    assert not set(seen["picked"]) & set(seen["measured"])
