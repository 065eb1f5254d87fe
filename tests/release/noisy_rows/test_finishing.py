"""Arithmetic on noisy numbers: values as in SQL, ranges that hold."""

from __future__ import annotations

import math
from itertools import product

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plan.described import CATALOG
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.plan.sql.statements import parse
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import answer_rows
from sfumato.release.noisy_rows.noisy_columns import ExactColumn, NumberColumn, TruthColumn

GROUPS = (("north",), ("south",), (None,), ("west",))
COUNTS = (10.0, -3.0, 0.0, 250.0)
SUMS = (55.5, 7.0, -8.0, 1000.0)

EXPRESSIONS = (
    "COUNT(*) + 1, COUNT(*) - SUM(cost), 2 * COUNT(*), SUM(cost) / COUNT(*), -COUNT(*), COUNT(*) % 7, ABS(COUNT(*)), "
    "ROUND(SUM(cost) / 3, 2), FLOOR(SUM(cost) / 4), CEIL(SUM(cost) / 4), SQRT(ABS(SUM(cost))), SIGN(COUNT(*)), "
    "LEAST(COUNT(*), 5), GREATEST(COUNT(*), SUM(cost), 0), COALESCE(SUM(cost) / COUNT(*), 0), NULLIF(COUNT(*), 10), "
    "CASE WHEN COUNT(*) > 5 THEN 1 ELSE 0 END, CASE WHEN COUNT(*) > 5 THEN SUM(cost) END, COUNT(*) > 5, "
    "COUNT(*) BETWEEN 0 AND 20, COUNT(*) IN (10, 250), SUM(cost) / COUNT(*) IS NULL, NOT (COUNT(*) > 5), "
    "COUNT(*) > 5 AND SUM(cost) / COUNT(*) > 5, COUNT(*) > 5 OR SUM(cost) / COUNT(*) > 5, region = 'north', "
    "region IN ('north', 'west') OR region IS NULL, CAST(SUM(cost) AS BIGINT), TRUNC(SUM(cost) / 4), "
    "CAST(COUNT(*) AS BIGINT) // 7, IF(COUNT(*) > 5, 1, 2)"
)


def split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]


def estimate(values: tuple[float, ...], width: float = 0.0) -> GroupEstimate:
    array = np.array(values)
    return GroupEstimate(array, array - width, array + width)


def plain(column: NumberColumn | TruthColumn | ExactColumn) -> list[object]:
    if isinstance(column, NumberColumn):
        return [None if math.isnan(value) else value for value in column.value.tolist()]
    if isinstance(column, TruthColumn):
        return [bool(true) if known else None for true, known in zip(column.true, column.known, strict=True)]
    return list(column.value)


@pytest.mark.parametrize("text", split(EXPRESSIONS))
def test_values_are_those_of_sql(text: str) -> None:
    query = parse(f"SELECT {text} AS x, COUNT(*) AS m, SUM(cost) AS s FROM visits GROUP BY region", CATALOG)
    order = {type(measure).__name__: index for index, measure in enumerate(query.plan.measures)}
    found = [estimate(COUNTS), estimate(SUMS)] if order["Count"] == 0 else [estimate(SUMS), estimate(COUNTS)]
    made = plain(finish(query, answer_rows((), GROUPS), lambda _: found, joint=False).columns[0])
    rows = ", ".join(
        f"({_sql(key)}, {count}, {total})" for (key,), count, total in zip(GROUPS, COUNTS, SUMS, strict=True)
    )
    translated = text.replace("/ COUNT(*)", "/ NULLIF(n, 0)").replace("COUNT(*)", "n").replace("SUM(cost)", "s")
    exact = [row[0] for row in duckdb.sql(f"SELECT {translated} FROM (VALUES {rows}) t(region, n, s)").fetchall()]
    assert [_close(value) for value in made] == [_close(value) for value in exact]


def _sql(value: object) -> str:
    return "NULL" if value is None else f"'{value}'"


def _close(value: object) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    return round(float(value), 9)  # type: ignore[arg-type]


NUMERIC = [
    text
    for text in split(EXPRESSIONS)
    if not any(word in text for word in (" > 5", "BETWEEN", " IN ", "IS NULL", "region", "CASE"))
]


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(NUMERIC), st.floats(-50, 50), st.floats(-50, 50), st.floats(0, 20), st.floats(0, 20))
def test_ranges_hold_whatever_the_parts_are(text: str, count: float, total: float, a: float, b: float) -> None:
    """Evaluated anywhere in the box of the parts, an expression lies in its own range."""
    query = parse(f"SELECT {text} AS x, COUNT(*) AS m, SUM(cost) AS s FROM visits", CATALOG)
    order = [type(measure).__name__ for measure in query.plan.measures]

    def evaluate(n: float, s: float, wide: bool) -> NumberColumn:
        parts = {"Count": estimate((n,), a if wide else 0.0), "Sum": estimate((s,), b if wide else 0.0)}
        column = finish(query, answer_rows((), ((),)), lambda _: [parts[name] for name in order], joint=False).columns[
            0
        ]
        assert isinstance(column, NumberColumn)
        return column

    box = evaluate(count, total, wide=True)
    for x, y in product(np.linspace(-1, 1, 5), repeat=2):
        inner = evaluate(count + x * a, total + y * b, wide=False).value[0]
        slack = 1e-9 * (1 + abs(inner))
        assert math.isnan(inner) or box.low[0] - slack <= inner <= box.high[0] + slack


def test_having_order_limit_and_offset_pick_rows() -> None:
    text = (
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > -2 ORDER BY n DESC LIMIT 2 OFFSET 1"
    )
    query = parse(text, CATALOG)
    made = finish(query, answer_rows((), GROUPS), lambda _: [estimate(COUNTS)], joint=False)
    assert [GROUPS[index] for index in made.shown] == [("north",), (None,)]


def test_picked_rows_keep_only_simultaneous_ranges() -> None:
    asked: list[int] = []

    def estimated(parts: int) -> list[GroupEstimate]:
        asked.append(parts)
        return [estimate(COUNTS)]

    for clause, parts in (("", 1), ("ORDER BY n", 1), ("ORDER BY n LIMIT 1", 4), ("HAVING COUNT(*) > 0", 4)):
        asked.clear()
        query = parse(f"SELECT region, COUNT(*) AS n FROM visits GROUP BY region {clause}", CATALOG)
        finish(query, answer_rows((), GROUPS), estimated, joint=False)
        assert max(asked) == parts, clause


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE"])
@pytest.mark.parametrize(
    "truth",
    [
        "COUNT(*) > 5",
        "COUNT(*) BETWEEN 3 AND 20",
        "COUNT(*) IN (10, 250)",
        "NOT (COUNT(*) > 5 OR SUM(cost) > 1)",
    ],
)
def test_a_truth_that_noise_decided_is_a_number_that_may_be_either(truth: str, kind: str) -> None:
    """CAST(COUNT(*) > 2 AS INTEGER) had a range of no width, and covered 72 times in 100."""
    query = parse(f"SELECT CAST({truth} AS {kind}) AS x, CAST({truth} AS {kind}) * 7 AS y FROM visits", CATALOG)
    measures = [estimate((10.0,), 6.0) for _ in query.plan.measures]
    first, second = finish(query, answer_rows((), ((),)), lambda _: measures, joint=False).columns
    assert isinstance(first, NumberColumn)
    assert isinstance(second, NumberColumn)
    assert (first.low[0], first.high[0]) == (0, 1)
    assert (second.low[0], second.high[0]) == (0, 7)


def test_a_truth_about_keys_alone_is_certain() -> None:
    query = parse("SELECT CAST(region = 'north' AS INTEGER) AS x, COUNT(*) FROM visits GROUP BY region", CATALOG)
    column = finish(query, answer_rows((), GROUPS), lambda _: [estimate(COUNTS, 6.0)], joint=False).columns[0]
    assert isinstance(column, NumberColumn)
    assert column.low.tolist()[:2] == column.high.tolist()[:2] == [1, 0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("COUNT(*) * 1e150 * 1e150", None),
        ("-(COUNT(*) * 1e150 * 1e150)", None),
        ("COUNT(*) / 1e150 / 1e150", 0.0),
        ("COUNT(*) * 1e150 / 1e150", None),
        ("COUNT(*) * 1e149 / 1e149", 10.0),
        ("SQRT(COUNT(*) * 1e149 * 10)", None),
        ("COUNT(*) / 1e149 / 1000 * 1e149 * 1000", 0.0),
        ("COUNT(*) * 1e149", 10 * 1e149),
    ],
)
def test_reals_have_the_range_that_they_have_in_rows(text: str, value: float | None) -> None:
    """Above 2^500 is NULL, below 2^-500 is 0, and the ranges say no more than that."""
    query = parse(f"SELECT {text} AS x FROM visits", CATALOG)
    finished = finish(query, answer_rows((), ((),)), lambda _: [estimate((10.0,), 3.0)], joint=False)
    (made,) = finished.columns
    assert isinstance(made, NumberColumn)
    assert plain(made) == [value]
    assert made.low[0] <= made.high[0]
    assert value is None or made.low[0] <= value <= made.high[0]
    for end in (made.low[0], made.high[0]):
        assert math.isinf(end) or end == 0 or 2.0**-500 <= abs(end) <= 2.0**500
