from __future__ import annotations

import math

import mpmath
import pytest
from scipy import stats

from sfumato.mechanisms.confidence_limits import binomial_upper_tail, lower_confidence_limit, upper_confidence_limit


@pytest.mark.parametrize(
    ("k", "n"), [(0, 10), (1, 10), (10, 10), (37, 100), (5, 100_000), (250_000, 900_000), (899_999, 900_000)]
)
@pytest.mark.parametrize("miss", [0.05, 1e-3, 1e-9])
def test_limits_are_those_of_clopper_and_pearson(k: int, n: int, miss: float) -> None:
    low = 0.0 if k == 0 else stats.beta.ppf(miss, k, n - k + 1)
    high = 1.0 if k == n else stats.beta.isf(miss, k + 1, n - k)
    assert lower_confidence_limit(k, n, miss) == pytest.approx(low, rel=1e-6, abs=1e-15)
    assert 1 - upper_confidence_limit(k, n, miss) == pytest.approx(1 - high, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(
    ("k", "n", "p"), [(3, 10, 0.2), (60, 100, 0.5), (40, 100, 0.5), (1, 5, 0.0), (2, 5, 1.0), (6, 5, 0.3)]
)
def test_tails(k: int, n: int, p: float) -> None:
    exact = math.fsum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(max(k, 0), n + 1))
    assert binomial_upper_tail(k, n, p) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("k", "p"), [(1_406_849, 0.014), (3_109_575, 0.031)])
def test_the_tail_of_very_many_trials_is_not_rounded_below_the_truth(k: int, p: float) -> None:
    """Of a hundred million, as many as an audit may draw, logarithms of factorials are wrong in the seventh digit."""
    n = 10**8
    with mpmath.workdps(40):
        chance = mpmath.mpf(p)
        log_first = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        term = mpmath.exp(log_first + k * mpmath.log(chance) + (n - k) * mpmath.log1p(-chance))
        exact = total = term
        for j in range(k, n):
            term *= (n - j) * chance / ((j + 1) * (1 - chance))
            total += term
            if term < exact * 1e-20:
                break
        assert total <= binomial_upper_tail(k, n, p) <= total * (1 + 1e-5)
