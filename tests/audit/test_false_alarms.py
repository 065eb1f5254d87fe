"""What an audit may be wrong by: the chances of all its limits together, and how often it refutes what is sound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit import falsifying
from sfumato.mechanisms import confidence_limits

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


RUNS, WRONG, WIDE = 60, 0.3, 64


def _alarms() -> int:
    """How many audits of worlds that do not differ, seen through hundreds of events, refute what is sound."""
    random = np.random.default_rng(2)
    worlds = [lambda count: random.integers(0, 6, (count, WIDE))] * 2
    return sum(not sf.audit.falsify(worlds, sf.Guarantee(0), 400, str(1 - WRONG)).holds for _ in range(RUNS))


def _most_alarms() -> int:
    """So many or fewer are raised, when each is raised with probability ≤ WRONG, but for a chance of 1e-6."""
    chances = [math.comb(RUNS, k) * WRONG**k * (1 - WRONG) ** (RUNS - k) for k in range(RUNS + 1)]
    return next(most for most in range(RUNS + 1) if sum(chances[most + 1 :]) <= 1e-6)


@pytest.mark.long
def test_many_events_raise_no_false_alarms() -> None:
    assert _alarms() <= _most_alarms()


@pytest.mark.long
def test_an_audit_that_forgets_how_many_events_it_looks_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    proven = falsifying._proven
    monkeypatch.setattr(falsifying, "_proven", lambda *given: proven(*given[:-1], WRONG / 2))
    assert _alarms() > _most_alarms()


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
