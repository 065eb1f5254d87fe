"""Subtotals: they agree with what they are made of, are those of SQL, and their ranges hold."""

from __future__ import annotations

import itertools
from collections import Counter

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from plan.described import CATALOG
from release.by_hand import stored
from sfumato.plan.aggregates.measures import MeanEstimate, TotalEstimate
from sfumato.plan.sql.statements import parse
from sfumato.release.measured import NoisyMeasurements, group_estimator
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows, one_row_per_set
from sfumato.release.noisy_rows.noisy_columns import ExactColumn, NumberColumn
from sfumato.release.parts.scales import GroupKeys

GROUPS = tuple(itertools.product(("north", "south", "east", "west", None), (False, True)))
SETS = {
    "ROLLUP (region, urgent)": ((0, 1), (0,), ()),
    "CUBE (region, urgent)": ((0, 1), (0,), (1,), ()),
    "GROUPING SETS ((urgent), (region), (urgent))": ((0,), (1,), (0,)),
    "urgent, ROLLUP (region)": ((0, 1), (0,)),
}


def measured(*columns: tuple[int, ...], unit_value: str = "1", size: str = "5") -> NoisyMeasurements:
    """Two totals: a count, and the two sums of a mean of numbers from 0 to 10."""
    count = (unit_value, sf.Laplace(size), TotalEstimate(whole=True))
    mean = (unit_value, sf.Laplace(size), MeanEstimate(0, 10))
    return stored((count, mean), columns, GroupKeys.encode(GROUPS, [sf.policy.Type.TEXT, sf.policy.Type.BOOLEAN]))


@pytest.mark.parametrize("grouping", SETS)
def test_rows_are_those_of_sql(grouping: str) -> None:
    """Every row beside DuckDB's, with GROUPING to tell a NULL key from a total."""
    text = f"""SELECT region, urgent, GROUPING(region, urgent) AS over, SUM(n) AS n, SUM(a) AS a
               FROM cells GROUP BY {grouping}"""
    counts = tuple(7 * index - 20 for index in range(len(GROUPS)))
    cells = ", ".join(
        f"({'NULL' if region is None else repr(region)}, {urgent}, {n}, {n * n})"
        for (region, urgent), n in zip(GROUPS, counts, strict=True)
    )
    exact = Counter(duckdb.sql(f"WITH cells(region, urgent, n, a) AS (VALUES {cells}) {text}").fetchall())
    asked = "SELECT region, urgent, GROUPING(region, urgent) AS over, COUNT(*) AS n, SUM(age) AS a FROM visits"
    query = parse(f"{asked} GROUP BY {grouping}", CATALOG)
    scale = ("1", sf.Laplace(1), TotalEstimate(whole=True))
    squares = tuple(n * n for n in counts)
    keys = [(urgent, region) for region, urgent in GROUPS] if grouping.startswith(("urgent", "GROUPING")) else GROUPS
    found = stored((scale, scale), (counts, squares))
    rows = answer_rows(query.finish.sets, keys)
    finished = finish(query, rows, group_estimator(found, "0.95", rows), joint=False)
    made = Counter(zip(*(list(each.value) for each in finished.columns), strict=True))  # type: ignore[union-attr]
    assert made == exact


@pytest.mark.parametrize("sets", SETS.values())
@given(totals=st.lists(st.integers(-(2**40), 2**40), min_size=len(GROUPS), max_size=len(GROUPS)))
@settings(max_examples=8, deadline=None)
def test_every_total_is_the_sum_of_what_is_shown_below_it(sets: tuple[tuple[int, ...], ...], totals: list[int]) -> None:
    """Also where counts are held in parts of a row, which are shown rounded."""
    rows = answer_rows(sets, GROUPS)
    found = measured(tuple(totals), tuple(totals), tuple(totals), unit_value="0.0009765625")
    leaves = group_estimator(found, "0.95")(1)[0].value
    count = group_estimator(found, "0.95", rows)(1)[0]
    for row, value in enumerate(count.value):
        parts = leaves[[index for index, key in enumerate(GROUPS) if _belongs(key, rows, row)]]
        assert value == parts.sum()
    assert np.all(count.low <= count.value)
    assert np.all(count.value <= count.high)


def _belongs(key: tuple[object, ...], rows: AnswerRows, row: int) -> bool:
    return all(
        over or mine == theirs for over, mine, theirs in zip(rows.summed_over[row], key, rows.keys[row], strict=True)
    )


@pytest.mark.parametrize("noise", [sf.Laplace(4), sf.Gaussian(6)])
def test_ranges_of_subtotals_hold(noise: sf.Laplace | sf.Gaussian) -> None:
    """Each of 3 × 2000 drawn totals misses its range with probability ≤ 5 %; 7.8 % of 2000 or more would be seen with
    probability ≤ 1e-6 (Chernoff), and so many are seen when widths of one noise are taken for a sum of ten.
    """
    rows = answer_rows(((0, 1), (0,), ()), GROUPS)
    tries, limit = 2000, 2000 * 0.078
    drawn = noise.apply(np.zeros((tries, len(GROUPS)), np.int64))
    widths = [float(noise.sum_error(terms)) for terms in (1, 2, len(GROUPS))]
    sums = [drawn[:, 0], drawn[:, :2].sum(axis=1), drawn.sum(axis=1)]
    for total, width in zip(sums, widths, strict=True):
        assert (np.abs(total) > width).sum() <= limit
    assert (np.abs(sums[2]) > float(noise.error())).sum() > limit
    scale = ("1", noise, TotalEstimate(whole=True))
    found = group_estimator(stored((scale,), (tuple(drawn[0].tolist()),)), "0.95", rows)(1)[0]
    assert np.all(found.high - found.low >= 2 * np.array([widths[k] for k in [0] * 10 + [1] * 5 + [2]]))


def test_simultaneous_ranges_of_subtotals_hold_together() -> None:
    """All 16 rows at once miss with probability ≤ 5 % (union bound): 52 of 500 would be a false alarm of 1e-6."""
    rows, noise = answer_rows(((0, 1), (0,), ()), GROUPS), sf.Laplace(4)
    scale = ("1", noise, TotalEstimate(whole=True))
    misses = 0
    for values in noise.apply(np.zeros((500, len(GROUPS)), np.int64)):
        found = group_estimator(stored((scale,), (tuple(values.tolist()),)), "0.95", rows)(len(rows.keys))[0]
        misses += bool(np.any((found.low > 0) | (found.high < 0)))
    assert misses < 52


@pytest.mark.parametrize(
    ("sets", "shape"), [(((0, 1), (0,), ()), (2, 2)), (((0, 1), (0,), (1,), ()), (3, 4)), (((0,), ()), (5,))]
)
def test_adding_up_has_no_more_squared_error_than_measuring_each_set(
    sets: tuple[tuple[int, ...], ...], shape: tuple[int, ...]
) -> None:
    """Least squares on everything measured at an equal share of the price, in full, beside sums of the groups."""
    groups = list(itertools.product(*map(range, shape)))
    rows = answer_rows(sets, groups)  # type: ignore[arg-type]
    matrix = np.zeros((len(rows.keys), len(groups)))
    matrix[rows.rows, rows.groups] = 1
    summed = np.trace(matrix @ matrix.T)
    apart = len(sets) ** 2 * np.trace(matrix @ np.linalg.inv(matrix.T @ matrix) @ matrix.T)
    assert summed <= apart * (1 + 1e-9)


def test_a_forecast_is_of_the_widest_row_of_each_set() -> None:
    rows = one_row_per_set(((0, 1), (0,), ()), GROUPS)
    assert rows.groups_per_row.tolist() == [1, 2, 10]
    assert rows.sum_groups(np.full(10, 3.0)).tolist() == [3, 6, 30]
    assert rows.groups.tolist() == [0, 0, 1, *range(10)]  # different groups, whose noises are independent
    assert one_row_per_set((), GROUPS).groups_per_row.tolist() == [1]


def test_a_mean_of_a_total_is_of_all_its_rows() -> None:
    rows = answer_rows(((0, 1), ()), GROUPS)
    found = measured((0,) * 10, tuple(range(10)), (5,) * 10)
    mean = group_estimator(found, "0.95", rows)(2)[1]
    assert mean.value[-1] == pytest.approx(10 * 45 / 95)
    assert mean.low[-1] < mean.value[-1] < mean.high[-1]


def test_grouping_tells_a_total_from_a_missing_key() -> None:
    query = parse("SELECT region, GROUPING(region) AS g, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region)", CATALOG)
    rows = answer_rows(query.finish.sets, [("north",), (None,)])
    scale = ("1", sf.Laplace(1), TotalEstimate(whole=True))
    region, over, count = finish(
        query, rows, group_estimator(stored((scale,), ((3, 4),)), "0.95", rows), joint=False
    ).columns
    assert isinstance(region, ExactColumn)
    assert isinstance(over, ExactColumn)
    assert isinstance(count, NumberColumn)
    assert list(zip(region.value, over.value, count.value, strict=True)) == [
        ("north", 0, 3),
        (None, 0, 4),
        (None, 1, 7),
    ]
