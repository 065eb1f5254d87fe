"""Small steps of thresholds, ranks and sessions, each beside plain Python or 60 digits."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import additive, key_thresholds, laplace, rank_choices, selection, sparse

MP = mpmath.mp.clone()
MP.dps = 60


def test_the_first_index_at_least_in_each_group() -> None:
    values = np.array([1, 3, 3, 5, 0, 0, 7, 2, 4])
    begin, end = np.array([0, 4, 7, 9, 1]), np.array([4, 7, 9, 9, 3])
    for least in range(-1, 9):
        found = rank_choices._first_index_at_least(values, begin, end, least)
        expected = [
            next((index for index in range(first, last) if values[index] >= least), last)
            for first, last in zip(begin.tolist(), end.tolist(), strict=True)
        ]
        assert found.tolist() == expected


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.3", "0.01"), ("2", "1e-12")])
def test_chances_to_keep_a_key_grow_as_fast_as_the_price_allows(epsilon: str, delta: str) -> None:
    """π(0) = 0 and π(n + 1) the least of e^ε·π(n) + δ, 1 − e^{−ε}·(1 − π(n) − δ) and 1, of which 64 bits are kept."""
    growth, lost = MP.exp(MP.mpf(epsilon)), MP.mpf(delta)
    keep, expected = MP.mpf(0), []
    while keep < 1:
        expected.append(int(MP.floor(keep * 2**64)))
        keep = min(growth * keep + lost, 1 - (1 - keep - lost) / growth, MP.mpf(1))
    assert list(key_thresholds._keep_probability_cuts(Fraction(epsilon), Fraction(delta))) == expected


@pytest.mark.parametrize("epsilon_and_delta", [(0, "1e-6"), (1, 0), (0, 0)])
def test_a_threshold_needs_an_epsilon_and_a_delta(epsilon_and_delta: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"above 0|> 0"):
        sf.KeyThreshold(*epsilon_and_delta, max_groups=3)
    assert sf.KeyThreshold(1, "1e-6", max_groups=3).delta == Fraction(1, 10**6)


def test_a_chance_to_miss_is_shared_by_one_noise_or_more() -> None:
    for k in (1, 2, 7):
        truth = 1 - MP.mpf("0.95") ** (MP.mpf(1) / k)
        assert abs(additive._independent_miss("0.95", k) / truth - 1 + MP.mpf("1e-14")) < MP.mpf("1e-15")
        assert additive._union_bound_miss("0.95", k) == pytest.approx(0.05 / k, rel=1e-13)
    for miss in (additive._independent_miss, additive._union_bound_miss):
        with pytest.raises(InvalidParameter):
            miss("0.95", 0)


def test_no_two_batches_of_a_sessions_noise_are_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are two values of one session: every question and every value has noise of its own."""
    drawn, values = [], []

    def draw(scale: Fraction, count: int) -> Any:
        drawn.append((scale, count))
        return np.full(count, 10**6 * len(drawn))

    def draw_one(scale: Fraction) -> int:
        values.append(scale)
        return len(values)

    monkeypatch.setattr(sparse, "_BATCH", 3)
    session = sf.AboveThreshold(1, threshold=0, positives=20, values_epsilon=1).start()
    monkeypatch.setattr(laplace, "draw", draw)
    monkeypatch.setattr(laplace, "draw_one", draw_one)
    session._threshold = 2_500_000  # of the third batch on
    answers, shown = [], []
    for _ in range(12):
        answers.append(session._answer_while_locked(0))
        shown.append(session.value)
    assert answers == [False] * 6 + [True] * 6
    assert shown[6:] == [1, 2, 3, 4, 5, 6]
    assert drawn == [(session._question_scale, 3)] * 4
    assert values == [session._value_scale] * 6


@pytest.mark.parametrize("price", [Fraction(1, 3), Fraction(2), Fraction(1, 10**6)])
def test_the_largest_epsilon_that_a_price_pays_for_is_found_to_nine_digits(price: Fraction) -> None:
    """By halving a ratio, in as few looks as that takes."""
    asked: list[Fraction] = []

    def curve(epsilon: Fraction) -> Any:
        asked.append(epsilon)
        return SimpleNamespace(renyi_above=lambda order: epsilon * order)

    found = selection._largest_affordable_epsilon(curve, Fraction(2), price)
    assert 2 * found <= price < 2 * found * (1 + Fraction(2, 10**9))
    low, high = selection._EPSILON
    assert len(asked) <= 2 + np.log2(np.log(float(high / low)) / 1e-9)
    with pytest.raises(InvalidParameter):
        selection._largest_affordable_epsilon(curve, Fraction(2), 2 * low * Fraction(999, 1000))
