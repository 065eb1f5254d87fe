"""The numbers and ranges that estimators make of noisy totals: groups of few and of many rows, noise of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from claims.claimed_questions import Claims
from claims.recorded import Claim, check_claims
from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import CombinedEstimate, GroupEstimate, MeanEstimate, TotalEstimate
from sfumato.plan.aggregates.moments import (
    CentredRange,
    CorrelationEstimate,
    CovarianceEstimate,
    SlopeOrInterceptEstimate,
    SpreadEstimate,
)

GROUPS = {
    "nobody": ([], []),
    "one": ([7], [3]),
    "two": ([2, 9], [1, 4]),
    "equal": ([4, 4, 4], [2, 2, 2]),
    "few": ([0, 3, 9, 10, 6], [5, 1, 0, 4, 4]),
    "line": ([1, 2, 3, 4, 5, 6, 7, 8], [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]),
    "falling": ([0, 2, 5, 7, 10], [5, 4, 2.5, 1.5, 0]),
    "many": ([(7 * k) % 11 * 10 / 10.0 % 10 for k in range(60)], [(5 * k) % 9 / 2 for k in range(60)]),
}
X, Y = CentredRange(0, 10, 4, 0), CentredRange(0, 5, "2.5", 0)
ROUNDED_X, ROUNDED_Y = CentredRange(0, 10, 4, "0.05"), CentredRange(0, 5, "2.5", "0.25")
OFFSETS = ((0, 0, 0, 0, 0, 0, 0), (1, -2, 0.5, 1, -3, 2, 4), (-30, -40, -5, -9, -50, -60, 70))
WIDTHS = (0.0, 0.01, 0.5, 4.0, 60.0)


def _sums(axis: CentredRange, values: Sequence[float]) -> list[float]:
    return [sum(each - float(axis.low) for each in values), sum(float(axis.high) - each for each in values)]


def _squares(axis: CentredRange, values: Sequence[float]) -> float:
    return sum((each - float(axis.middle)) ** 2 for each in values)


def _products(xs: Sequence[float], ys: Sequence[float]) -> float:
    return sum((x - float(X.middle)) * (y - float(Y.middle)) for x, y in zip(xs, ys, strict=True))


def _totals(kind: str, xs: Sequence[float], ys: Sequence[float]) -> list[float]:
    """Give the totals that an estimator reads, exactly."""
    if kind == "spread":
        return [*_sums(X, xs), _squares(X, xs)]
    sums = [*_sums(X, xs), *_sums(Y, ys)]
    squares = {"covariance": [], "line": [_squares(X, xs)], "correlation": [_squares(X, xs), _squares(Y, ys)]}[kind]
    return [*sums, *squares, _products(xs, ys)]


ESTIMATORS: dict[str, tuple[str, Any]] = {
    "variance": ("spread", SpreadEstimate(X, Fraction(0), sample=False, root=False)),
    "sample variance": ("spread", SpreadEstimate(X, Fraction(0), sample=True, root=False)),
    "deviation": ("spread", SpreadEstimate(X, Fraction(0), sample=False, root=True)),
    "rounded deviation": ("spread", SpreadEstimate(ROUNDED_X, Fraction(1, 8), sample=True, root=True)),
    "covariance": ("covariance", CovarianceEstimate(X, Y, Fraction(0), sample=False)),
    "sample covariance": ("covariance", CovarianceEstimate(ROUNDED_X, ROUNDED_Y, Fraction(1, 4), sample=True)),
    "correlation": ("correlation", CorrelationEstimate(X, Y, (Fraction(0), Fraction(0), Fraction(0)), squared=False)),
    "rounded correlation": (
        "correlation",
        CorrelationEstimate(ROUNDED_X, ROUNDED_Y, (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)), squared=False),
    ),
    "squared correlation": (
        "correlation",
        CorrelationEstimate(X, Y, (Fraction(0), Fraction(0), Fraction(0)), squared=True),
    ),
    "slope": ("line", SlopeOrInterceptEstimate(X, Y, (Fraction(0), Fraction(0)), intercept=False)),
    "intercept": ("line", SlopeOrInterceptEstimate(X, Y, (Fraction(0), Fraction(0)), intercept=True)),
    "rounded slope": (
        "line",
        SlopeOrInterceptEstimate(ROUNDED_X, ROUNDED_Y, (Fraction(1, 8), Fraction(1, 4)), intercept=False),
    ),
    "rounded intercept": (
        "line",
        SlopeOrInterceptEstimate(ROUNDED_X, ROUNDED_Y, (Fraction(1, 8), Fraction(1, 4)), intercept=True),
    ),
}


def _claimed(made: GroupEstimate) -> Claim:
    """Write an estimate; a range is rounded to ten digits, since cancellation takes some of the sixteen."""
    return tuple(tuple(_digits(each) for each in part) for part in (made.value, made.low, made.high))


def _digits(value: float) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:.9g}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_moments(name: str) -> None:
    kind, estimator = ESTIMATORS[name]
    claims: Claims = {}
    exact = np.array([_totals(kind, *rows) for rows in GROUPS.values()], np.float64).T
    for (number, offset), width in product(enumerate(OFFSETS), WIDTHS):
        noisy: list[Floats] = [total + moved for total, moved in zip(exact, offset, strict=False)]
        with np.errstate(invalid="ignore"):
            made = estimator.estimate(noisy, [width] * len(noisy))
        claims[f"offset {number} ± {width}"] = _claimed(made)
    check_claims(f"estimates/{name}", claims)


def _plainly(name: str, xs: Floats, ys: Floats) -> float:
    """Compute the same without any of our formulas."""
    slope, intercept = np.polyfit(xs, ys, 1)
    return {
        "variance": np.var(xs),
        "sample variance": np.var(xs, ddof=1),
        "deviation": np.std(xs),
        "covariance": np.cov(xs, ys, ddof=0)[0, 1],
        "sample covariance": np.cov(xs, ys)[0, 1],
        "correlation": np.corrcoef(xs, ys)[0, 1],
        "squared correlation": np.corrcoef(xs, ys)[0, 1] ** 2,
        "slope": slope,
        "intercept": intercept,
    }[name]


@pytest.mark.parametrize("name", [each for each in ESTIMATORS if not each.startswith("rounded")])
def test_moments_without_noise_are_those_of_the_rows(name: str) -> None:
    kind, estimator = ESTIMATORS[name]
    for rows in ("two", "few", "line", "falling", "many"):
        totals = [np.array([each]) for each in _totals(kind, *GROUPS[rows])]
        made = estimator.estimate(totals, [0.0] * len(totals))
        wanted = _plainly(name, *(np.array(each, np.float64) for each in GROUPS[rows]))
        assert made.value[0] == pytest.approx(wanted, abs=1e-9)
        assert made.low[0] - 1e-9 <= wanted <= made.high[0] + 1e-9
        if "sample covariance" not in name:
            assert made.high[0] - made.low[0] < 1e-3  # neither noise nor rounding


def _moved() -> Iterator[tuple[str, list[Floats], float]]:
    first = np.array([0.0, 12, 40, -7, 500, 3.5, 9, -6])
    second = np.array([0.0, 30, -50, -9, 1, 8.25, -9, 6])
    for width in (0.0, 0.3, 25.0):
        yield f"± {width}", [first, second], width


def test_totals_and_means() -> None:
    estimators: dict[str, Any] = {
        "mean": MeanEstimate(-5, 20),
        "rounded mean": MeanEstimate(-5, 20, "0.75"),
        "combined": CombinedEstimate("0.25", "-1.5", whole=False),
        "combined whole": CombinedEstimate("0.25", "0.25", whole=True),
        "combined rounded": CombinedEstimate("0.25", "-1.5", whole=False, rounding="0.1"),
    }
    claims: Claims = {}
    for (name, estimator), (width, totals, half) in product(estimators.items(), _moved()):
        claims[f"{name} {width}"] = _claimed(estimator.estimate(totals, [half, 2 * half]))
    for whole, (width, totals, half) in product((False, True), _moved()):
        claims[f"total {whole} {width}"] = _claimed(TotalEstimate(whole).estimate(totals[1:], [half]))
    check_claims("estimates/totals", claims)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: CentredRange(0, 0, 0),
        lambda: CentredRange(0, 10, -1),
        lambda: CentredRange(0, 10, 11),
        lambda: CentredRange(0, 10, 5, -1),
        lambda: SpreadEstimate(X, Fraction(-1, 9), sample=False, root=False),
        lambda: CorrelationEstimate(X, Y, (Fraction(0), Fraction(-1), Fraction(0)), squared=False),
        lambda: SlopeOrInterceptEstimate(X, Y, (Fraction(-1), Fraction(0)), intercept=False),
    ],
)
def test_what_no_column_has_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        wrong()


def test_ends_of_an_axis_are_allowed() -> None:
    assert CentredRange(0, 10, 0).centred_ends == (0.0, 10.0)
    assert CentredRange(0, 10, 10).largest_distance == 10.0
