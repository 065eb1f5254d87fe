"""Exact laws against a hundred digits, and against what the mechanisms draw."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from games.small import exponential, flipped
from mechanisms.test_laws import passes
from sfumato.games.environment import Law, law_from_probabilities, law_of_selection

SCORES = st.lists(st.fractions(0, 30, max_denominator=12), min_size=1, max_size=6)


@pytest.mark.parametrize(("make", "law"), [(sf.Exponential, exponential), (sf.PermuteAndFlip, flipped)])
@settings(max_examples=40)
@given(scores=SCORES, epsilon=st.fractions(Fraction(1, 100), 40, max_denominator=100))
def test_laws_are_exact_to_their_stated_error(make, law, scores, epsilon) -> None:  # type: ignore[no-untyped-def]
    mechanism = make(epsilon)
    found = law_of_selection(mechanism, scores)
    with mpmath.workdps(100):
        on_grid = [math.floor(s / mechanism.grid + Fraction(1, 2)) * mechanism.grid for s in scores]
        truth = law(on_grid, mechanism.rate)
        worst = max(
            abs(mpmath.mpf(p.numerator) / p.denominator - q) for p, q in zip(found.probabilities, truth, strict=True)
        )
        assert worst <= mpmath.mpf(found.error.numerator) / found.error.denominator + mpmath.mpf(10) ** -95
    assert found.error < Fraction(1, 10**50)
    assert sum(found.probabilities) == 1


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_noisy_max_has_the_law_of_its_twin(noise: str) -> None:
    scores = [Fraction(3), Fraction(5, 2), Fraction(0)]
    twin = sf.Exponential(1) if noise == "gumbel" else sf.PermuteAndFlip(1)
    assert law_of_selection(sf.NoisyMax(1, noise=noise), scores) == law_of_selection(twin, scores)


def test_equal_scores_are_exactly_uniform() -> None:
    for mechanism in (sf.Exponential(1), sf.PermuteAndFlip(1)):
        law = law_of_selection(mechanism, [Fraction(1, 3)] * 3)
        assert law.probabilities == (Fraction(1, 3),) * 3
        assert law.error == 0


def test_many_candidates_still_sum_to_one() -> None:
    scores = [Fraction(i, 7) for i in range(120)]
    law = law_of_selection(sf.PermuteAndFlip(2), scores)
    assert abs(float(sum(law.probabilities)) - 1) < 1e-15
    assert law.probabilities[-1] == max(law.probabilities)


@pytest.mark.parametrize("mechanism", [sf.Exponential(2), sf.PermuteAndFlip(2)], ids=repr)
def test_draws_follow_the_law(mechanism: Any) -> None:
    """Chi-square with a false-alarm rate of 1e-6; the other mechanism's law lies far beyond."""
    scores = [Fraction(5), Fraction(3), Fraction(3), Fraction(3)]
    other = sf.PermuteAndFlip(2) if isinstance(mechanism, sf.Exponential) else sf.Exponential(2)
    count = 4000
    seen = np.bincount([mechanism.choose(scores) for _ in range(count)], minlength=4)
    for law, right in ((law_of_selection(mechanism, scores), True), (law_of_selection(other, scores), False)):
        expected = count * np.array([float(p) for p in law.probabilities])
        assert passes(float(((seen - expected) ** 2 / expected).sum()), 4) is right


def test_what_has_no_exact_law_is_refused() -> None:
    for mechanism in (sf.NoisyMax(1), sf.TopK(1, k=2)):
        with pytest.raises(sf.InvalidParameter, match="Exponential or PermuteAndFlip"):
            law_of_selection(mechanism, [1, 2])
    with pytest.raises(sf.InvalidParameter, match="at most 400"):
        law_of_selection(sf.Exponential(1), list(range(500)))


def test_stated_laws_are_checked() -> None:
    assert law_from_probabilities(["0.5", "1/3", "1/6"], 3) == Law((3, 2, 1))
    for wrong in ([0.5, 0.4], [1], ["1.2", "-0.2"], [0.5, float("nan")]):
        with pytest.raises(sf.InvalidParameter):
            law_from_probabilities(wrong, 2)
