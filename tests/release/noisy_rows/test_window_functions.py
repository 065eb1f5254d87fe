"""Windows over noisy rows: values as in SQL, half-widths from the covariance of the noise that numbers share."""

from __future__ import annotations

import math
from functools import cache

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from plan.described import CATALOG
from release.by_hand import stored
from sfumato.plan.aggregates.measures import GroupEstimate, TotalEstimate
from sfumato.plan.nodes import Query
from sfumato.plan.sql.statements import parse
from sfumato.release.measured import group_estimator
from sfumato.release.noisy_rows.finishing import FinishedRows, finish, finish_with_draws
from sfumato.release.noisy_rows.key_functions import answer_rows
from sfumato.release.noisy_rows.noisy_columns import LinearColumn, NumberColumn

DAYS = 12
GROUPS = tuple((region, day) for region in ("north", "south") for day in range(1, DAYS + 1))
INNER = "(SELECT region, age AS d, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region, age)"
ROWS = "ORDER BY d ROWS BETWEEN"
WINDOWS = (
    f"SUM(n) OVER (PARTITION BY region {ROWS} 6 PRECEDING AND CURRENT ROW)",
    f"AVG(n) OVER (PARTITION BY region {ROWS} 2 PRECEDING AND 2 FOLLOWING)",
    f"SUM(n) OVER (PARTITION BY region {ROWS} 3 FOLLOWING AND 5 FOLLOWING)",
    f"MIN(n) OVER (PARTITION BY region {ROWS} 4 PRECEDING AND 1 PRECEDING)",
    f"MAX(n) OVER (PARTITION BY region {ROWS} UNBOUNDED PRECEDING AND CURRENT ROW)",
    f"COUNT(n) OVER (PARTITION BY region {ROWS} 2 PRECEDING AND 1 FOLLOWING)",
    f"FIRST_VALUE(n) OVER (PARTITION BY region {ROWS} 2 PRECEDING AND CURRENT ROW)",
    f"LAST_VALUE(n) OVER (PARTITION BY region {ROWS} CURRENT ROW AND UNBOUNDED FOLLOWING)",
    f"NTH_VALUE(n, 3) OVER (PARTITION BY region {ROWS} UNBOUNDED PRECEDING AND CURRENT ROW)",
    "SUM(n) OVER (PARTITION BY region ORDER BY d)",
    "SUM(n) OVER (ORDER BY d)",
    "n - LAG(n) OVER (PARTITION BY region ORDER BY d)",
    "n - LAG(n, 2, 0) OVER (PARTITION BY region ORDER BY d)",
    "LEAD(n, 3) OVER (PARTITION BY region ORDER BY d DESC) - n",
    "COALESCE(LAG(n) OVER (PARTITION BY region ORDER BY d), 0) + 2 * n",
    "n * 1.0 / FIRST_VALUE(n) OVER (PARTITION BY region ORDER BY d)",
    "n - AVG(n) OVER (PARTITION BY region)",
    "CASE WHEN region = 'north' THEN n ELSE -s END",
    "s - 3 * n + LAG(s) OVER (PARTITION BY region ORDER BY d)",
    "NTILE(5) OVER (PARTITION BY region ORDER BY d)",
    "NTILE(3) OVER (ORDER BY n, region, d)",
    "PERCENT_RANK() OVER (ORDER BY n)",
    "CUME_DIST() OVER (PARTITION BY region ORDER BY n DESC)",
    "SUM(n) OVER (ORDER BY n, region, d)",
    "LAG(s) OVER (ORDER BY n, region, d)",
    "AVG(s) OVER (ORDER BY n, region, d ROWS 2 PRECEDING)",
)
numbers = st.lists(st.integers(-6, 30), min_size=len(GROUPS), max_size=len(GROUPS))


@cache
def _parsed(text: str) -> Query:
    return parse(text, CATALOG)


def _finished(text: str, counts: list[int], sums: list[int], width: float = 0.0) -> FinishedRows:
    query = _parsed(text)
    given = {"Count": np.array(counts, float), "Sum": np.array(sums, float)}
    found = [given[type(measure).__name__] for measure in query.plan.measures]
    estimates = [GroupEstimate(values, values - width, values + width) for values in found]
    return finish(query, answer_rows((), GROUPS), lambda _: estimates, joint=False)


def _released(text: str, counts: list[int], sums: list[int], noise: sf.Laplace | sf.Gaussian) -> FinishedRows:
    query = _parsed(text)
    given = {"Count": counts, "Sum": sums}
    columns = [tuple(given[type(measure).__name__]) for measure in query.plan.measures]
    scale = ("1", noise, TotalEstimate(whole=True))
    return finish(
        query, answer_rows((), GROUPS), group_estimator(stored([scale] * len(columns), columns), "0.95"), joint=False
    )


def _by_duckdb(text: str, counts: list[int], sums: list[int]) -> list[float | None]:
    cells = ", ".join(f"('{r}', {d}, {n}, {s})" for (r, d), n, s in zip(GROUPS, counts, sums, strict=True))
    told = text.replace(INNER, "cells")
    rows = duckdb.sql(f"WITH cells(region, d, n, s) AS (VALUES {cells}) {told}").fetchall()
    return [None if row[2] is None else round(float(row[2]), 9) for row in rows]


def _shown(found: FinishedRows) -> list[float | None]:
    column = found.columns[2]
    values = [float("nan") if value is None else float(value) for value in column.value[found.shown]]  # type: ignore[union-attr]
    return [None if math.isnan(value) else round(value, 9) for value in values]


def _question(window: str) -> str:
    return f"SELECT region, d, {window} AS x FROM {INNER} ORDER BY region, d"


@pytest.mark.parametrize("window", WINDOWS)
@given(counts=numbers, sums=numbers)
@settings(max_examples=3, deadline=None)
def test_values_are_those_of_duckdb_over_the_released_rows(window: str, counts: list[int], sums: list[int]) -> None:
    text = _question(window)
    if "1.0 /" in window:  # a quotient by 0 is NULL, as in rows
        counts = [count or 1 for count in counts]
    expected = _by_duckdb(text, counts, sums)
    for found in (_finished(text, counts, sums), _released(text, counts, sums, sf.Laplace(3))):
        assert _shown(found) == expected


@pytest.mark.parametrize("window", WINDOWS)
@given(counts=numbers, sums=numbers, moves=st.lists(st.integers(-2, 2), min_size=48, max_size=48))
@settings(max_examples=4, deadline=None)
def test_ranges_hold_the_numbers_of_any_exact_rows_within_them(
    window: str, counts: list[int], sums: list[int], moves: list[int]
) -> None:
    exact_counts, exact_sums = ([a + b for a, b in zip(values, moved, strict=True)]
                                for values, moved in ((counts, moves[:24]), (sums, moves[24:])))  # fmt: skip
    noisy, truth = (
        _finished(_question(window), counts, sums, 2.0),
        _finished(_question(window), exact_counts, exact_sums),
    )
    ours, theirs = noisy.columns[2], truth.columns[2]
    assert isinstance(ours, NumberColumn)
    assert isinstance(theirs, NumberColumn)
    both = ~(np.isnan(ours.value) | np.isnan(theirs.value))
    assert (ours.low[both] - 1e-9 <= theirs.value[both]).all()
    assert (theirs.value[both] <= ours.high[both] + 1e-9).all()


LINEAR = {
    "SUM(n) OVER (PARTITION BY region ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)": lambda: np.tril(
        np.triu(np.ones((DAYS, DAYS)), -6)
    ),
    "SUM(n) OVER (PARTITION BY region ORDER BY d)": lambda: np.tril(np.ones((DAYS, DAYS))),
    "n - LAG(n, 1, 0) OVER (PARTITION BY region ORDER BY d)": lambda: np.eye(DAYS) - np.eye(DAYS, k=-1),
    "n - AVG(n) OVER (PARTITION BY region)": lambda: np.eye(DAYS) - 1 / DAYS,
    "2 * n - n - n / 4": lambda: 0.75 * np.eye(DAYS),
}


@pytest.mark.parametrize("window", LINEAR)
def test_half_widths_of_gaussian_noise_are_those_of_the_covariance(window: str) -> None:
    """Var(A·η) = σ²·diag(A·Aᵀ), with A built by hand: 1.96 deviations, up to the steps of the noise."""
    sigma = 200
    matrix = LINEAR[window]()
    deviations = sigma * np.sqrt(np.diag(matrix @ matrix.T))
    found = _released(_question(window), [50] * len(GROUPS), [0] * len(GROUPS), sf.Gaussian(sigma)).columns[2]
    assert isinstance(found, NumberColumn)
    widths = (found.high - found.low)[:DAYS] / 2
    assert widths == pytest.approx(1.95996 * deviations, rel=0.02)
    assert (widths >= 1.9599 * deviations - 0.5).all()


@pytest.mark.parametrize("sigmas", [(200, 200), (200, 300)])
def test_noises_of_two_totals_in_different_groups_are_never_one(sigmas: tuple[int, int]) -> None:
    """Running sums of k counts and of k sums hold 2k independent noises, whatever their scales: none cancels."""
    running = "OVER (PARTITION BY region ORDER BY d)"
    query = _parsed(_question(f"SUM(n) {running} - SUM(s) {running}"))
    scales = [("1", sf.Gaussian(sigma), TotalEstimate(whole=True)) for sigma in sigmas]
    estimator = group_estimator(stored(scales, [(50,) * len(GROUPS)] * 2), "0.95")
    column = finish(query, answer_rows((), GROUPS), estimator, joint=False).columns[2]
    assert isinstance(column, NumberColumn)
    widths = (column.high - column.low) / 2
    deviations = np.sqrt(np.arange(1, DAYS + 1) * (sigmas[0] ** 2 + sigmas[1] ** 2))
    assert widths == pytest.approx(1.95996 * np.tile(deviations, 2), rel=0.02)


def test_noise_that_cancels_leaves_no_range() -> None:
    text = _question("SUM(n) OVER (PARTITION BY region) - SUM(n) OVER (PARTITION BY region ORDER BY d DESC)")
    found = _released(text, [50] * len(GROUPS), [0] * len(GROUPS), sf.Laplace(40)).columns[2]
    assert isinstance(found, NumberColumn)
    widths = found.high - found.low
    assert widths[0] == 0  # the first day: both are the sum of all days
    assert (widths[1:DAYS] > 0).all()


def test_a_row_that_noisy_numbers_put_before_may_be_any() -> None:
    """Counts that are closer than their ranges may have another order: the row before may be any of them."""
    column = _finished(_question("LAG(s) OVER (ORDER BY n, region, d)"), [5] * 24, list(range(24)), 2.0).columns[2]
    total = _finished(_question("SUM(s) OVER (ORDER BY n, region, d)"), [5] * 24, list(range(24)), 2.0).columns[2]
    assert isinstance(column, NumberColumn)
    assert isinstance(total, NumberColumn)
    assert (column.low[5], column.high[5]) == (-2, 25)
    assert (total.low[5], total.high[5]) == (-3, sum(range(24)) + 48)


def test_the_ends_of_a_series_are_null_without_a_range() -> None:
    found = _released(
        _question("LAG(n) OVER (PARTITION BY region ORDER BY d)"), list(range(24)), [0] * 24, sf.Laplace(4)
    )
    column = found.columns[2]
    assert isinstance(column, NumberColumn)
    assert np.flatnonzero(np.isnan(column.value)).tolist() == [0, DAYS]


COVERED = (*LINEAR, "s - 3 * n + LAG(s) OVER (PARTITION BY region ORDER BY d)",
           "AVG(n + s) OVER (PARTITION BY region ORDER BY d ROWS 6 PRECEDING)")  # fmt: skip


def _coverage(window: str, noise: sf.Laplace | sf.Gaussian, tries: int) -> np.ndarray:
    """The share of draws in which each of the first region's cells holds the exact number, 0."""
    drawn = noise.apply(np.zeros((tries, 2, len(GROUPS)), np.int64))
    text, covered = _question(window), np.zeros(DAYS)
    for counts, sums in drawn.tolist():
        found = _released(text, counts, sums, noise).columns[2]
        assert isinstance(found, NumberColumn)
        covered += ((found.low <= 0) & (found.high >= 0) | np.isnan(found.value))[:DAYS]
    return covered / tries


@pytest.mark.parametrize("noise", [sf.Laplace(5), sf.Gaussian(9)])
def test_most_draws_are_covered(noise: sf.Laplace | sf.Gaussian) -> None:
    """60 draws of 12 sums: one below 75 % would be seen once in 10⁷ runs if each were covered 95 times in 100."""
    assert _coverage(COVERED[0], noise, 60).min() >= 0.75


@pytest.mark.parametrize("noise", [sf.Laplace(5), sf.Laplace("0.4"), sf.Gaussian(9), sf.Gaussian("0.7")])
@pytest.mark.parametrize("window", COVERED)
def test_at_least_94_of_100_draws_are_covered(window: str, noise: sf.Laplace | sf.Gaussian) -> None:
    """2,000 draws of each cell, by its own form: fewer than 92.4 % would be seen once in 10⁶ (Chernoff, at 95 %)."""
    query = _parsed(_question(window))
    count = len(query.plan.measures)
    columns = [(0,) * len(GROUPS)] * count
    estimated = group_estimator(stored([("1", noise, TotalEstimate(whole=True))] * count, columns), "0.95")
    column = finish_with_draws(query, answer_rows((), GROUPS), estimated, 1).columns[2]
    assert isinstance(column, LinearColumn)
    matrix = np.zeros((len(column.form), count * len(GROUPS)))
    matrix[column.form.row_of_weight, column.form.noises] = column.form.weights
    moved = np.asarray(noise.apply(np.zeros((2000, count * len(GROUPS)), np.int64))) @ matrix.T
    widths = column.ranged.high - column.ranged.value
    covered = (np.abs(moved) <= widths + 1e-9).mean(axis=0)[~np.isnan(column.value)]
    assert covered.min() >= 0.924
    assert covered.mean() >= 0.94
