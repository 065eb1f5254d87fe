"""What an audit may be wrong by: the chances of all its limits together, and how often it refutes what is sound."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit.lower_bounds import falsifying
from sfumato.audit.lower_bounds.events import LabelView
from sfumato.mechanisms import confidence_limits

COLUMNS = 12


def _coins(random: np.random.Generator) -> Any:
    """A world of many numbers that say nothing, and the same again."""
    return lambda count: random.integers(0, 6, (count, COLUMNS))


@pytest.mark.parametrize("confidence", ["0.9", "0.999999", "0.9999999999999988"])
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

    monkeypatch.setattr(falsifying, "lower_confidence_limit", counted(confidence_limits.lower_confidence_limit))
    monkeypatch.setattr(falsifying, "upper_confidence_limit", counted(confidence_limits.upper_confidence_limit))
    random = np.random.default_rng(1)
    sf.audit.falsify([_coins(random), _coins(random)], sf.Guarantee(0), 400, confidence)
    assert len(chances) == 2 * falsifying._MAX_EVENTS  # of hundreds that other samples were asked about
    assert 0 < sum(chances) <= (1 - Fraction(confidence)) * (1 + Fraction(1, 10**9))


RUNS, WRONG, WIDE = 60, 0.3, 8


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
    proven = falsifying._epsilon_bound
    monkeypatch.setattr(falsifying, "_epsilon_bound", lambda *given: proven(*given[:-1], WRONG / 2))
    monkeypatch.setattr(falsifying, "_MAX_EVENTS", 10**6)
    assert _alarms() > _most_alarms()


@pytest.mark.parametrize("columns", [1, 3])
def test_events_are_measured_on_samples_they_were_not_picked_on(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample that a classifier, a bin or an event was found with is counted, and every other is."""
    seen: dict[str, set[int]] = {"found": set(), "counted": set()}
    phase = ["found"]
    events, counts = falsifying._select_events, LabelView.counts

    def picking(training: Any, picked: Any, delta: float) -> Any:
        for side in (*training, *picked):
            seen["found"] |= set(side.ravel().tolist())
        found = events(training, picked, delta)
        phase[0] = "counted"
        return found

    def counted(view: LabelView, outputs: Any) -> Any:
        seen[phase[0]] |= set(outputs.ravel().tolist())
        return counts(view, outputs)

    monkeypatch.setattr(falsifying, "_select_events", picking)
    monkeypatch.setattr(LabelView, "counts", counted)
    size = 1000 * columns
    worlds = [
        lambda n: np.arange(n * columns).reshape(n, columns),
        lambda n: -1 - np.arange(n * columns).reshape(n, -1),
    ]
    verdict = sf.audit.falsify(worlds, sf.Guarantee(1), 1000)
    assert not seen["found"] & seen["counted"]
    assert len(seen["found"]) + len(seen["counted"]) == 2 * size
    assert len(seen["counted"]) == 2 * verdict.measured * columns


def test_the_three_parts_share_no_sample() -> None:
    for columns in (1, 2):
        numbers = np.arange(1003 * columns).reshape(1003, columns)
        parted = falsifying._split_samples(numbers, numbers)
        sides = [side.ravel().tolist() for side, _ in (parted.training, parted.selection, parted.measurement)]
        assert [*sides[0], *sides[1], *sides[2]] == numbers.ravel().tolist()
        assert (len(sides[0]) > 0) == (columns > 1)
