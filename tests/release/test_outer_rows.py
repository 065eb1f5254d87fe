"""Outer SELECTs and windows over noisy rows: values as in SQL, ranges that hold whatever the numbers in them are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
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
from sfumato.release.noisy_rows.finishing import FinishedRows, finish
from sfumato.release.noisy_rows.key_functions import answer_rows
from sfumato.release.noisy_rows.noisy_columns import ExactColumn, NumberColumn, TruthColumn

GROUPS = tuple(itertools.product(("north", "south", "west", None), (False, True)))
INNER = "(SELECT region, urgent, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region, urgent)"
QUESTIONS = (
    f"SELECT SUM(n) AS a, AVG(s) AS b, MIN(n) AS c, MAX(s) AS d, COUNT(*) AS e, COUNT(region) AS f FROM {INNER}",
    f"SELECT region, SUM(n) AS a, COUNT(*) AS b, MAX(n) - MIN(n) AS c FROM {INNER} GROUP BY region ORDER BY region",
    f"SELECT region, SUM(n) AS a, AVG(n) AS b FROM {INNER} WHERE n > 2 GROUP BY region ORDER BY region",
    f"SELECT urgent, MIN(n) AS a, MAX(n) AS b FROM {INNER} WHERE n > s GROUP BY urgent HAVING a > 0 ORDER BY urgent",
    f"SELECT SUM(n) AS a, COUNT(*) AS b FROM {INNER} WHERE n > 100000",
    f"SELECT SUM(n) FILTER (WHERE urgent) AS a, COUNT(*) FILTER (WHERE n > 0 OR s > 0) AS b FROM {INNER}",
    "SELECT region, urgent, RANK() OVER (ORDER BY n DESC) AS a, n - AVG(n) OVER (PARTITION BY region) AS b "
    f"FROM {INNER} ORDER BY 1, 2",
    "SELECT region, urgent, DENSE_RANK() OVER (PARTITION BY urgent ORDER BY n) AS a "
    f"FROM {INNER} WHERE NOT n < 1 ORDER BY 1, 2",
    "SELECT region, urgent, COUNT(*) OVER (PARTITION BY region) AS a, SUM(s) OVER () AS b "
    f"FROM {INNER} WHERE n BETWEEN 0 AND 5 ORDER BY 1, 2",
    "SELECT region, urgent, ROW_NUMBER() OVER (PARTITION BY region ORDER BY urgent DESC) AS a "
    f"FROM {INNER} ORDER BY 1, 2",
    "SELECT region, urgent, COUNT(*) AS n, RANK() OVER (PARTITION BY urgent ORDER BY COUNT(*)) AS a, "
    "MAX(SUM(age)) OVER () AS b FROM visits GROUP BY region, urgent HAVING COUNT(*) > 0 ORDER BY 1, 2",
    "SELECT region, urgent, COUNT(*) OVER (PARTITION BY region ORDER BY n) AS a, "
    f"SUM(s) OVER (ORDER BY n DESC) AS b FROM {INNER} WHERE n > 0 ORDER BY 1, 2",
    "SELECT SUM(k) AS a, MAX(t) AS b FROM "
    f"(SELECT region, COUNT(*) AS k, SUM(n) AS t FROM {INNER} WHERE n > 0 GROUP BY region) WHERE t > 3",
)
numbers = st.lists(st.integers(-6, 9), min_size=len(GROUPS), max_size=len(GROUPS))


@cache
def _parsed(text: str) -> Query:
    return parse(text, CATALOG)


def finished(text: str, counts: Sequence[float], sums: Sequence[float], width: float = 0.0) -> FinishedRows:
    query = _parsed(text)
    given = {"Count": np.array(counts, float), "Sum": np.array(sums, float)}
    found = [given[type(each).__name__] for each in query.plan.measures]
    estimates = [GroupEstimate(each, each - width, each + width) for each in found]
    return finish(query, answer_rows(query.finish.sets, GROUPS), lambda _: estimates, joint=False)


def shown(found: FinishedRows) -> list[tuple[object, ...]]:
    columns = []
    for each in found.columns:
        if isinstance(each, TruthColumn):
            columns.append(np.where(each.known, each.true, None)[found.shown].tolist())
        else:
            columns.append([_plain(value) for value in each.value[found.shown].tolist()])
    return list(zip(*columns, strict=True))


def _plain(value: object) -> object:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 9)
    return round(float(value), 9) if isinstance(value, int) and not isinstance(value, bool) else value


def exact(text: str, counts: Sequence[float], sums: Sequence[float]) -> list[tuple[object, ...]]:
    """The same question to DuckDB, over a table with as many rows as each group has, or over the groups themselves."""
    cells = ", ".join(
        f"({'NULL' if region is None else repr(region)}, {urgent}, {n}, {s})"
        for (region, urgent), n, s in zip(GROUPS, counts, sums, strict=True)
    )
    told = text.replace(INNER, "cells")
    if told == text:
        told = text.replace("COUNT(*)", "n").replace("SUM(age)", "s")
        told = told.replace("FROM visits GROUP BY region, urgent HAVING", "FROM cells WHERE")
    rows = duckdb.sql(f"WITH cells(region, urgent, n, s) AS (VALUES {cells}) {told}").fetchall()
    return [tuple(_plain(value) for value in row) for row in rows]


@pytest.mark.parametrize("text", QUESTIONS)
@given(counts=numbers, sums=numbers)
@settings(max_examples=4, deadline=None)
def test_values_are_those_of_sql(text: str, counts: list[int], sums: list[int]) -> None:
    assert shown(finished(text, counts, sums)) == exact(text, counts, sums)


@pytest.mark.parametrize("text", QUESTIONS)
@given(counts=numbers, sums=numbers, moves=st.lists(st.integers(-2, 2), min_size=16, max_size=16))
@settings(max_examples=8, deadline=None)
def test_ranges_hold_the_numbers_of_any_exact_rows_within_them(
    text: str, counts: list[int], sums: list[int], moves: list[int]
) -> None:
    """The noisy rows are off by at most 2: what SQL says of the exact ones lies in the range, row by row."""
    moved = [
        [a + b for a, b in zip(each, move, strict=True)] for each, move in ((counts, moves[:8]), (sums, moves[8:]))
    ]
    truth = finished(text, *moved)
    noisy = finished(text, counts, sums, 2.0)
    order = {key: row for row, key in _keyed(noisy)}
    for row, key in _keyed(truth):
        if key not in order or order[key] not in noisy.shown or row not in truth.shown:
            continue
        for ours, theirs in zip(noisy.columns, truth.columns, strict=True):
            if (
                isinstance(ours, NumberColumn)
                and isinstance(theirs, NumberColumn)
                and not math.isnan(theirs.value[row])
            ):
                low, high = ours.low[order[key]], ours.high[order[key]]
                assert math.isnan(ours.value[order[key]]) or low - 1e-9 <= theirs.value[row] <= high + 1e-9


def _keyed(found: FinishedRows) -> list[tuple[int, tuple[object, ...]]]:
    """Rows by their public columns."""
    public = [each for each in found.columns if isinstance(each, (ExactColumn, TruthColumn))]
    values = [each.value if isinstance(each, ExactColumn) else each.true for each in public]
    return [(row, tuple(column[row] for column in values)) for row in range(len(found.sure))]


def test_rows_that_a_noisy_limit_picks_are_not_sure() -> None:
    """The two largest noisy counts may not be the two largest: their sum's range is of any two rows."""
    text = f"SELECT SUM(n) AS a, COUNT(*) AS b FROM (SELECT * FROM {INNER} ORDER BY n DESC LIMIT 2)"
    found = finished(text, range(8), range(8), 2.0)
    total, rows = found.columns
    assert isinstance(total, NumberColumn)
    assert isinstance(rows, NumberColumn)
    assert total.value[0] == 13
    assert (total.low[0], total.high[0]) == (-3, 28 + 16)
    assert rows.value[0] == 2


def test_sums_of_independent_rows_are_narrower_than_their_ranges() -> None:
    """A sum of eight noises of σ = 100, also of twice each, has √8 times the half-width of one."""
    noise = sf.Gaussian(100)
    query = parse(f"SELECT SUM(n) AS a, SUM(n * 2) AS b, MAX(n) AS c FROM {INNER}", CATALOG)
    scale = ("1", noise, TotalEstimate(whole=True))
    estimated = group_estimator(stored((scale, scale), (tuple(range(8)),) * 2), "0.95")
    found = finish(query, answer_rows((), GROUPS), estimated, joint=False)
    a, b, c = ((each.high[0] - each.low[0]) / 2 for each in found.columns if isinstance(each, NumberColumn))
    assert a == pytest.approx(math.sqrt(8) * 195.996, rel=0.005)
    assert b == pytest.approx(2 * a, rel=0.001)
    assert c == pytest.approx(float(noise.error("0.95", 8)))  # the largest of eight: all eight ranges hold


def test_cells_and_their_sum_hold_together() -> None:
    """Eight counts and their total miss with probability ≤ 5 %: 38 of 300 or more would be a false alarm of 1e-6."""
    noise = sf.Laplace(4)
    scale = ("1", noise, TotalEstimate(whole=True))
    query = parse("SELECT COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM visits GROUP BY region, urgent", CATALOG)
    misses = [0, 0]
    for values in noise.apply(np.zeros((300, len(GROUPS)), np.int64)).tolist():
        estimated = group_estimator(stored((scale,), (tuple(values),)), "0.95")
        found = finish(query, answer_rows((), GROUPS), estimated, joint=True)
        columns = [each for each in found.columns if isinstance(each, NumberColumn)]
        misses[0] += any(bool(np.any((each.low > 0) | (each.high < 0))) for each in columns)
        misses[1] += abs(sum(values)) > float(noise.error())  # as if the total had one noise
    assert misses[0] < 38 < misses[1]


@pytest.mark.parametrize(
    ("text", "draws"),
    [
        ("SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY ALL", 1),
        ("SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY ALL HAVING n > 0", 8),
        (f"SELECT SUM(n) AS a FROM {INNER}", 1),
        (f"SELECT MAX(n) AS a FROM {INNER}", 8),
        (f"SELECT MAX(n) AS a, SUM(n) AS b FROM {INNER} WHERE n > 0", 16),
        ("SELECT COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS a FROM visits GROUP BY region, urgent", 2),
        ("SELECT RANK() OVER (ORDER BY COUNT(*)) AS a FROM visits GROUP BY region, urgent", 8),
        (f"SELECT n FROM {INNER} QUALIFY RANK() OVER (ORDER BY n) < 3", 8),
    ],
)
def test_a_range_relies_on_the_statements_that_its_cell_reads(text: str, draws: int) -> None:
    """Sums of rows rely on one statement about their own noise; a maximum, a rank or a selection on all rows."""
    query, asked = parse(text, CATALOG), []

    def estimated(count: int) -> list[GroupEstimate]:
        asked.append(count)
        made = group_estimator(stored([("1", sf.Laplace(4), TotalEstimate(True))] * len(query.plan.measures),
                                [tuple(range(8))] * len(query.plan.measures)), "0.95")  # fmt: skip
        return made(count)

    finish(query, answer_rows((), GROUPS), estimated, joint=False)
    assert max(asked) == draws
