"""The laws that audits enumerate, beside sums over all integers in 60 digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from sfumato.mechanisms import outcome_laws

MP = mpmath.mp.clone()
MP.dps = 60


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3, 2), Fraction(7, 3), Fraction(5)])
def test_the_law_of_discrete_normal_noise(sigma: Fraction) -> None:
    s = MP.mpf(sigma.numerator) / sigma.denominator
    total = MP.fsum(MP.exp(-(MP.mpf(x) ** 2) / (2 * s**2)) for x in range(-200, 201))
    law = outcome_laws.gaussian_probability(sigma)
    for steps in (0, 1, -1, 2, 7, -12):
        truth = MP.exp(-(MP.mpf(steps) ** 2) / (2 * s**2)) / total
        assert abs(MP.mpf(str(law(steps))) / truth - 1) < MP.mpf(10) ** -50
