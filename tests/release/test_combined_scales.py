"""Two noises of the same kind, put together, are within the half-width that is claimed for them, by their exact law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.release.parts.scales import CombinedScale, NoisyScale

SCALE = NoisyScale(Fraction(1), sf.Laplace(3), 2)
_REACH = 120


def law() -> np.ndarray:
    """The probabilities of −120 to 120 under discrete Laplace noise of scale 3; what is beyond is below 10⁻¹⁷."""
    found = np.exp(-np.abs(np.arange(-_REACH, _REACH + 1)) / 3)
    return found / found.sum()


def inside(first: Fraction, second: Fraction, width: float, terms: int) -> float:
    """How likely the combination of two sums of so many noises is within a width."""
    one = law()
    for _ in range(terms - 1):
        one = np.convolve(one, law())
    places = np.arange(len(one)) - len(one) // 2
    moved = np.abs(float(first) * places[:, None] + float(second) * places[None, :])
    return float((one[:, None] * one[None, :])[moved <= width + 1e-9].sum())


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 0), (0, 2), (Fraction(3, 2), Fraction(1, 2)), (5, 4)])
@pytest.mark.parametrize("terms", [1, 2])
def test_the_half_width_of_two_noises_holds(first: Fraction, second: Fraction, terms: int) -> None:
    made = CombinedScale(SCALE, Fraction(first), Fraction(second))
    for confidence, parts in itertools.product(("0.5", "0.95"), (1, 3)):
        missed = (1 - Fraction(confidence)) / parts
        found = inside(first, second, made.sum_width(terms, confidence, parts), terms)
        assert 1 - found <= missed + Fraction(1, 10**9)
        if terms == 1:
            assert 1 - inside(first, -second, made.width(confidence, parts), 1) <= missed + Fraction(1, 10**9)


def test_equal_noises_are_not_far_off_the_exact_half_width() -> None:
    """The sum of two is far below the sum of their half-widths."""
    made = CombinedScale(SCALE, Fraction(1), Fraction(1))
    assert made.width("0.95", 1) < 0.65 * 2 * SCALE.width("0.95", 2)
    assert inside(Fraction(1), Fraction(1), made.width("0.95", 1) * 0.85, 1) < 0.95
    assert math.isclose(CombinedScale(SCALE, Fraction(2), Fraction(0)).width("0.95", 1), 2 * SCALE.width("0.95", 1))
