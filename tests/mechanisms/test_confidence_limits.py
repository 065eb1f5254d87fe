from __future__ import annotations

import math

import pytest
from scipy import stats

from sfumato.mechanisms.confidence_limits import at_least, at_most, upper_tail


@pytest.mark.parametrize(
    ("k", "n"), [(0, 10), (1, 10), (10, 10), (37, 100), (5, 100_000), (250_000, 900_000), (899_999, 900_000)]
)
@pytest.mark.parametrize("miss", [0.05, 1e-3, 1e-9])
def test_limits_are_those_of_clopper_and_pearson(k: int, n: int, miss: float) -> None:
    low = 0.0 if k == 0 else stats.beta.ppf(miss, k, n - k + 1)
    high = 1.0 if k == n else stats.beta.isf(miss, k + 1, n - k)
    assert at_least(k, n, miss) == pytest.approx(low, rel=1e-6, abs=1e-15)
    assert 1 - at_most(k, n, miss) == pytest.approx(1 - high, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(
    ("k", "n", "p"), [(3, 10, 0.2), (60, 100, 0.5), (40, 100, 0.5), (1, 5, 0.0), (2, 5, 1.0), (6, 5, 0.3)]
)
def test_tails(k: int, n: int, p: float) -> None:
    exact = math.fsum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(max(k, 0), n + 1))
    assert upper_tail(k, n, p) == pytest.approx(exact, rel=1e-6, abs=1e-12)
