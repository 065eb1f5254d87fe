"""Ranges of variances, covariances, correlations and lines hold whenever every total is within its half-width."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.moments import (
    CentredRange,
    CorrelationEstimate,
    CovarianceEstimate,
    SlopeOrInterceptEstimate,
    SpreadEstimate,
)
from sfumato.privacy import codec

X, Y = CentredRange(-10, 30, 10), CentredRange(2, 3, Fraction(5, 2))
ESTIMATORS = {
    "var_pop": SpreadEstimate(X, Fraction(0), sample=False, root=False),
    "var_samp": SpreadEstimate(X, Fraction(0), sample=True, root=False),
    "stddev_pop": SpreadEstimate(X, Fraction(0), sample=False, root=True),
    "stddev_samp": SpreadEstimate(X, Fraction(0), sample=True, root=True),
    "covar_pop": CovarianceEstimate(X, Y, Fraction(0), sample=False),
    "covar_samp": CovarianceEstimate(X, Y, Fraction(0), sample=True),
    "corr": CorrelationEstimate(X, Y, (Fraction(0),) * 3, squared=False),
    "regr_r2": CorrelationEstimate(X, Y, (Fraction(0),) * 3, squared=True),
    "regr_slope": SlopeOrInterceptEstimate(X, Y, (Fraction(0),) * 2, intercept=False),
    "regr_intercept": SlopeOrInterceptEstimate(X, Y, (Fraction(0),) * 2, intercept=True),
}


def exactly(name: str, x: Any, y: Any) -> float:
    """Compute a statistic by numpy's own functions, on the rows."""
    sample = 1 if name.endswith("samp") else 0
    if len(x) <= sample:
        return float("nan")
    with np.errstate(all="ignore"):
        if name.startswith("var"):
            return float(np.var(x, ddof=sample))
        if name.startswith("stddev"):
            return float(np.std(x, ddof=sample))
        covariance = np.mean((x - x.mean()) * (y - y.mean()))
        if name.startswith("covar"):
            return float(covariance * len(x) / (len(x) - sample))
        slope = covariance / np.var(x)
        correlation = covariance / np.sqrt(np.var(x) * np.var(y))
        answers = {
            "corr": correlation,
            "regr_r2": correlation**2,
            "regr_slope": slope,
            "regr_intercept": y.mean() - slope * x.mean(),
        }
        return float(answers[name])


COUNTS = {name: 3 if name.startswith(("var", "std")) else 5 if name.startswith("covar") else 6 for name in ESTIMATORS}
COUNTS |= {"corr": 7, "regr_r2": 7}


def moments(name: str, x: Any, y: Any) -> list[float]:
    """Give the exact totals that an estimator reads."""
    u, v = x - 10, y - 2.5
    sums = [np.sum(x + 10), np.sum(30 - x)]
    if name.startswith(("var", "std")):
        return [*sums, np.sum(u**2)]
    sums += [np.sum(y - 2), np.sum(3 - y)]
    squares = {"covar": [], "regr_slope": [np.sum(u**2)], "regr_intercept": [np.sum(u**2)]}
    extra = next((each for key, each in squares.items() if name.startswith(key)), [np.sum(u**2), np.sum(v**2)])
    return [*sums, *extra, np.sum(u * v)]


def data(bits: np.random.Generator, rows: int) -> tuple[Any, Any]:
    """Draw rows of any shape: clustered at the ends, in a line, without spread."""
    kind = bits.integers(5)
    u = bits.beta(*bits.choice([0.1, 0.5, 1, 3, 30], 2), rows)
    v = {0: u, 1: 1 - u, 2: bits.beta(0.5, 0.5, rows)}.get(int(kind), np.clip(u + bits.normal(0, 0.2, rows), 0, 1))
    return -10 + 40 * u, 2 + np.asarray(v)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_range_holds_whenever_every_total_is_within_its_half_width(name: str, long: bool) -> None:
    bits = np.random.default_rng(7)
    estimator = ESTIMATORS[name]
    for _ in range(150 if long else 20):
        rows = int(bits.choice([1, 2, 3, 5, 20, 100, 1000]))
        x, y = data(bits, rows)
        totals = np.array(moments(name, x, y))
        sizes = np.array([40.0, 40, 400] if len(totals) == 3 else [40.0, 40, 1, 1, 400, 1, 10])[: len(totals)]
        widths = sizes * 10.0 ** bits.uniform(-3, 1.5, len(totals))
        moves = bits.choice([-1.0, 1.0], (200, len(totals))) * np.maximum(
            bits.random((200, len(totals))), bits.random((200, 1)) > 0.5
        )
        noisy = totals + moves * widths
        made = estimator.estimate(list(noisy.T), list(widths))
        truth = exactly(name, x, y)
        if not np.isfinite(truth) or ((name == "corr" or name.startswith("regr")) and np.var(x) * np.var(y) < 1e-12):
            continue
        slack = 1e-9 * max(1.0, abs(truth))
        assert (made.low <= truth + slack).all(), (name, truth, made.low.max())
        assert (made.high >= truth - slack).all(), (name, truth, made.high.min())
        known = ~np.isnan(made.value)
        assert (made.low[known] <= made.value[known]).all()
        assert (made.value[known] <= made.high[known]).all()


def in_terms(name: str, totals: Any) -> Any:
    """Compute the statistic of totals themselves, as rows of an array; NaN where no rows could have such totals."""
    rows = (totals[0] + totals[1]) / 40
    m = totals[0] / rows - 20
    q = totals[2] / rows if name.startswith(("var", "std")) else None
    sample = rows / (rows - 1) if name.endswith("samp") else 1
    if q is not None:
        variance = np.where(q > m**2, q - m**2, np.nan) * sample
        return np.sqrt(variance) if name.startswith("std") else variance
    k = totals[2] / rows - 0.5
    p = totals[-1] / rows
    covariance = np.where(np.abs(k) <= 0.5, p - m * k, np.nan)
    if name.startswith("covar"):
        return covariance * sample
    v = totals[4] / rows - m**2
    if name in ("corr", "regr_r2"):
        w = totals[5] / rows - k**2
        corr = covariance / np.sqrt(np.where((v > 0) & (w > 0), v * w, np.nan))
        corr = np.where(np.abs(corr) <= 1, corr, np.nan)
        return corr if name == "corr" else corr**2
    slope = covariance / np.where(v > 0, v, np.nan)
    return slope if name == "regr_slope" else k + 2.5 - slope * (m + 10)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_range_is_hardly_wider_than_what_the_totals_allow(name: str) -> None:
    """The extremes over the box of totals are looked for by brute force: corners, and climbing from the best."""
    bits = np.random.default_rng(11)
    ratios = []
    for _ in range(3):
        x = np.clip(bits.normal(8, 7, 2000), -10, 30)
        y = np.clip(2.5 + 0.02 * (x - 8) + bits.normal(0, 0.15, 2000), 2, 3)
        totals = np.array(moments(name, x, y))
        widths = np.array([40.0, 40, 1, 1, 400, 0.25, 10][: len(totals)])
        widths[-1] = 400 if name.startswith(("var", "std")) else 10
        widths *= bits.uniform(5, 20)
        made = ESTIMATORS[name].estimate([np.array([each]) for each in totals], list(widths))
        low, high = climb(name, totals, widths, bits, -1), climb(name, totals, widths, bits, 1)
        assert made.low[0] <= low + 1e-12
        assert high - 1e-12 <= made.high[0]
        ratios.append((made.high[0] - made.low[0]) / (high - low))
    assert np.median(ratios) < (1.6 if name == "regr_intercept" else 1.05), ratios


def meeting(totals: Any, widths: Any, found: Any) -> Any:
    """Both columns count the same rows: the fourth total follows from the others, where it is within its width."""
    if len(totals) == 3:
        return found
    fourth = (found[0] + found[1]) / 40 - found[2]
    possible = np.abs(fourth - totals[3]) <= widths[3]
    return np.vstack([found[:3], np.where(possible, fourth, np.nan)[None], found[4:]]) * np.where(possible, 1, np.nan)


def climb(name: str, totals: Any, widths: Any, bits: np.random.Generator, sign: int) -> float:
    """Find the extreme of a statistic over a box by corners and by small moves from the best that was found."""
    corners = bits.choice([-1, 1], (4000, len(totals))) * bits.choice([1, 0.5, 0], (4000, len(totals)))
    found = meeting(totals, widths, (totals + widths * np.vstack([np.zeros(len(totals)), corners])).T)
    for size in (1, 0.5, 0.5, 0.2, 0.2, 0.1, 0.1, 0.05):
        values = sign * np.nan_to_num(in_terms(name, found), nan=-sign * np.inf)
        best = found[:, np.argmax(values)]
        moved = best + size * widths * bits.normal(0, 1, (6000, len(totals)))
        moved = np.clip(moved, totals - widths, totals + widths)
        found = meeting(totals, widths, np.vstack([best, moved]).T)
    return float(sign * np.nanmax(sign * in_terms(name, found)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_noise_the_number_is_the_one_that_numpy_finds(name: str) -> None:
    bits = np.random.default_rng(3)
    x, y = bits.uniform(-10, 30, 50), bits.uniform(2, 3, 50)
    totals = [np.array([each]) for each in moments(name, x, y)]
    made = ESTIMATORS[name].estimate(totals, [0.0] * len(totals))
    assert made.value == pytest.approx(exactly(name, x, y))
    assert made.low == pytest.approx(made.high)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_too_few_noisy_rows_give_null_and_what_is_known_beforehand(name: str) -> None:
    estimator = ESTIMATORS[name]
    made = estimator.estimate(
        [np.array([each]) for each in (-50.0, 30, *(0.5,) * (COUNTS[name] - 2))],
        [100.0] * COUNTS[name],
    )
    known = {
        "var_pop": (0, 400), "var_samp": (0, 800), "stddev_pop": (0, 20), "stddev_samp": (0, 800**0.5),
        "covar_pop": (-10, 10), "covar_samp": (-20, 20), "corr": (-1, 1), "regr_r2": (0, 1),
        "regr_slope": (-np.inf, np.inf), "regr_intercept": (-np.inf, np.inf),
    }  # fmt: skip
    assert np.isnan(made.value[0])
    assert (made.low[0], made.high[0]) == pytest.approx(known[name])


def test_a_sample_of_one_row_has_no_variance_and_one_of_two_has() -> None:
    samp = ESTIMATORS["var_samp"]
    one, two = (
        samp.estimate([np.array([20.0 * n]), np.array([20.0 * n]), np.array([100.0 * n])], [0.0] * 3) for n in (1, 2)
    )
    assert np.isnan(one.value[0])
    assert two.value[0] == pytest.approx(200)


def test_what_was_rounded_per_row_widens_the_range() -> None:
    x = np.random.default_rng(5).uniform(-10, 30, 200)
    held, squares = np.round(x), np.round((x - 10) ** 2 / 8) * 8
    totals = [np.array([each]) for each in (np.sum(held + 10), np.sum(30 - held), np.sum(squares))]
    axis = CentredRange(-10, 30, 10, Fraction(1, 2))
    exact, rounded = (
        SpreadEstimate(each, rounding, sample=False, root=False).estimate(totals, [0.0] * 3)
        for each, rounding in ((X, Fraction(0)), (axis, Fraction(4)))
    )
    assert exact.high[0] - exact.low[0] < 1e-9
    assert rounded.high[0] - rounded.low[0] > 8
    assert rounded.low[0] <= np.var(x) <= rounded.high[0]


def test_many_groups_are_estimated_as_each_alone() -> None:
    bits = np.random.default_rng(9)
    for name, estimator in ESTIMATORS.items():
        columns = [moments(name, *data(bits, 300)) for _ in range(5)]
        totals = np.array(columns).T
        widths = [bits.uniform(0, 30, 5) for _ in totals]
        together = estimator.estimate(list(totals), widths)
        for index in range(5):
            alone = estimator.estimate([each[index : index + 1] for each in totals], [each[index] for each in widths])
            assert together.low[index] == pytest.approx(alone.low[0])
            assert together.high[index] == pytest.approx(alone.high[0])


def test_estimators_are_stored_and_read_back() -> None:
    for estimator in ESTIMATORS.values():
        assert codec.loads(codec.dumps(estimator)) == estimator


@pytest.mark.parametrize("bad", [(1, 0, 0), (0, 0, 0), (0, 1, 2), (0, 1, "0.5", -1)])
def test_an_axis_has_its_middle_between_two_ends(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="middle"):
        CentredRange(*bad)


def test_no_rounding_is_negative() -> None:
    with pytest.raises(InvalidParameter, match="rounding"):
        SpreadEstimate(X, Fraction(-1), sample=True, root=True)
    with pytest.raises(InvalidParameter, match="roundings"):
        SlopeOrInterceptEstimate(X, Y, (Fraction(0), Fraction(-1)), intercept=True)
