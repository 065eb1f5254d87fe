"""Ranges of means: they hold the mean of every table the noise allows, and are never narrower than that noise."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

import sfumato as sf
from release.by_hand import stored
from sfumato.plan.aggregates.measures import GroupEstimate, MeanEstimate, TotalEstimate
from sfumato.release.measured import group_estimator

LOW, HIGH = 0.0, 10.0
NOISE = sf.Laplace(5)


def means(*totals: tuple[int, int]) -> GroupEstimate:
    scale = (1, NOISE, MeanEstimate(0, 10))
    (found,) = group_estimator(stored((scale,), tuple(zip(*totals, strict=True))), "0.95")(2)
    return found


sums = st.integers(-200, 200)


@given(above=sums, below=sums)
def test_no_range_is_empty_or_narrower_than_its_noise(above: int, below: int) -> None:
    found = means((above, below))
    assert LOW <= found.low[0] < found.high[0] <= HIGH
    width = float(NOISE.error("0.95", 2))
    rows = max(above, 0) + max(below, 0) + 2 * width
    assert found.high[0] - found.low[0] >= (HIGH - LOW) * min(1, width / rows) * (1 - 1e-9)
    if not np.isnan(found.value[0]):
        assert found.low[0] <= found.value[0] <= found.high[0]


@given(above=sums, below=sums, a=st.integers(0, 200), b=st.integers(0, 200))
def test_the_range_holds_every_mean_within_the_noise(above: int, below: int, a: int, b: int) -> None:
    width = float(NOISE.error("0.95", 2))
    if a + b > 0 and abs(a - above) <= width and abs(b - below) <= width:
        found = means((above, below))
        assert found.low[0] - 1e-9 <= LOW + (HIGH - LOW) * a / (a + b) <= found.high[0] + 1e-9


def test_a_range_outside_the_bounds_is_not_a_point() -> None:
    """Both once printed 0.0000 ± 0.0000 and 10.0000 ± 0.0000."""
    found = means((-50, 30), (30, -50))
    assert found.low.tolist() == [0, found.low[1]]
    assert found.high[0] > 1
    assert found.low[1] < 9


def test_numbers_of_a_grid_are_rounded_once() -> None:
    scale = ("0.01", NOISE, TotalEstimate(whole=False))
    (found,) = group_estimator(stored((scale,), ((5, 110, -7, 123456789),)), "0.95")(1)
    assert found.value.tolist() == [0.05, 1.1, -0.07, 1234567.89]
