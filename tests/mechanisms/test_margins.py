"""Where floating point does not know, it does not decide; and what is no number is counted as the docs say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import sfumato as sf
from mechanisms.recorded import recorded, words
from sfumato.mechanisms import races


def test_the_first_bits_of_a_race_do_not_decide_what_later_bits_decide() -> None:
    """The one behind has drawn E in (0, 1), the one ahead in (1, 2) units of 2⁻⁶³: with a gap of 0.9 it is first unless
    e^0.9·E₁ > E₂, which happens with probability 1 − 1.5·e^−0.9 = 0.39: both are seen but once in 10²¹ times.
    """
    gaps = np.array([1, 0], np.uint64)
    seen = set()
    for _ in range(100):
        with recorded(words(0 << 1, 1 << 1)):
            seen.add(int(races.draw_winners(races.GUMBEL, gaps, Fraction(9, 10))[0]))
    assert seen == {0, 1}


def test_what_is_no_number_counts_as_nothing_and_what_is_infinite_as_the_largest() -> None:
    """Noise of a hundredth of a step is 0 but for once in 10⁴³ times."""
    cells = [float("nan"), float("inf"), float("-inf"), 2.5, -2.5, 1e308]
    most = float(1 << 52)
    assert sf.Laplace("0.01", grid=1).apply(np.array(cells)).tolist() == [0.0, most, -most, 3.0, -2.0, most]
