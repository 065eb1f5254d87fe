"""Every question of a session has noise of its own, and so has its threshold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.mechanisms import laplace


def test_the_same_question_is_not_answered_alike_for_ever() -> None:
    """Its noise is a thousand times that of the threshold: "above" and "below" are a fair coin, but for a part in a
    hundred, and 64 coins fall alike once in 10¹⁸ times.
    """
    with sf.AboveThreshold(1, threshold=0, positives=1000).start() as session:
        assert {session.ask(0) for _ in range(64)} == {True, False}


def test_threshold_and_questions_have_noise_of_the_scales_that_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise on the threshold, many questions with the same answer together tell as much as one likes."""
    mechanism = sf.AboveThreshold(1, threshold=100, positives=2)
    drawn: list[Fraction] = []

    def one(scale: Fraction) -> int:
        drawn.append(scale)
        return 7

    def many(scale: Fraction, count: int) -> np.ndarray:
        drawn.append(scale)
        return np.full(count, 3, np.int64)

    monkeypatch.setattr(laplace, "draw_one", one)
    monkeypatch.setattr(laplace, "draw", many)
    with mechanism.start() as session:
        assert [session.ask(value) for value in (103, 104, 103, 104)] == [False, True, False, True]
    assert drawn == list(mechanism.scales[:2])
