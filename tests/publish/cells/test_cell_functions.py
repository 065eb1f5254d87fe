"""Functions on cells: of one value what the engine makes of it, and of a range nothing outside what comes out."""

from __future__ import annotations

import datetime as dt
import math
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest

from engine.lowered import constant, selected
from plan.samples import COLUMNS, read
from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import columns
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.policy import Type
from sfumato.publish.cells.cell_functions import _FUNCTIONS, evaluate_on_cells
from sfumato.publish.cells.cell_values import CellOutcomes, CellTexts, PossibleTruths, ValueRanges, enclosing_doubles

NUMBERS = [
    "LN(weight)",
    "LN(age)",
    "EXP(weight)",
    "EXP(-age)",
    "POW(weight, 2)",
    "POW(weight, 3)",
    "POW(weight, 0)",
    "POW(weight, -1)",
    "POW(weight, -2)",
    "POW(weight, 0.5)",
    "POW(age, pay)",
    "POW(weight, pay)",
    "WIDTH_BUCKET(weight, -3.5, 12, 5)",
    "WIDTH_BUCKET(age, 0, 100, 7)",
    "ROUND(weight)",
    "ROUND(weight, 1)",
    "ROUND(weight, -1)",
    "ROUND(age, -1)",
    "CAST(weight AS BIGINT)",
    "CAST(age AS BOOLEAN)",
    "weight <> 0",
    "LN(ABS(weight) + 1) > 1",
    "MAKE_DATE(2024, age, 30)",
    "MAKE_DATE(2020 + age, 2, age)",
    "IF(weight > 1, age, 7)",
]
TEXTS = [
    "LOWER(name)",
    "UPPER(name)",
    "TRIM(name)",
    "LTRIM(name)",
    "RTRIM(name, 'xß ')",
    "SUBSTR(name, 2)",
    "SUBSTR(name, 2, 1)",
    "SUBSTR(name, -3, 2)",
    "SUBSTR(name, 0, 2)",
    "SUBSTR(name, age, 2)",
    "SUBSTR(name, -20, 19)",
    "LEFT(name, 2)",
    "LEFT(name, -2)",
    "RIGHT(name, 2)",
    "RIGHT(name, -2)",
    "RIGHT(name, age)",
    "LENGTH(name)",
    "CONCAT(name, '-', name)",
    "name || LEFT(name, 1)",
    "REPLACE(name, 'a', 'bb')",
    "REPLACE(name, '', 'bb')",
    "STARTS_WITH(name, 'a')",
    "STARTS_WITH(name, LEFT(name, 1))",
    "name ILIKE 'İ%'",
    "name ILIKE 'ασ'",
    "CAST(name AS BIGINT)",
    "CAST(name AS DOUBLE)",
    "CAST(name AS BOOLEAN)",
    "CAST(age AS VARCHAR)",
    "CAST(member AS VARCHAR)",
    "CAST(seen AS VARCHAR)",
    "CAST(moment AS VARCHAR)",
    "STRFTIME(seen, '%d %b %Y, week %V, %A')",
    "STRFTIME(moment, '%y-%m-%d %H:%M:%S %j%%')",
    "MONTHNAME(seen) || CAST(age AS VARCHAR)",
]
VALUES: dict[str, list[Any]] = {
    "age": [0, 1, 2, 3, 7, 10, 25, 99, 110, None],
    "weight": [-7.5, -2.0, -1.0, -0.5, 0.0, 0.49999999999999994, 0.5, 1.0, 2.5, 3.0, 14.25, 420.0, 1e100, None],
    "pay": [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 400.0, None],
    "name": [
        *("", "a", " ab ", "Straße", "ΑΣ", "İx", "xßx", "12", " -7", "1e3", "12.5", "9223372036854775000", "true"),
        *("nan", "1e160", "1e-190", "0", None),
    ],
    "member": [True, False, None],
    "seen": [dt.date(2019, 12, 30), dt.date(2020, 2, 29), dt.date(2024, 1, 7), dt.date(2024, 12, 31), None],
    "moment": [dt.datetime(2024, 5, 6, 7, 8, 9), dt.datetime(1969, 1, 2, 3, 4, 5, 600), None],
}


def of_rows(text: str, rows: list[dict[str, Any]]) -> list[Any]:
    """What the engine makes of an expression in each row."""
    names = list(rows[0])
    listed = ", ".join(
        f"({', '.join(constant(row[name], COLUMNS[name].type) for name in names)}, {place})"
        for place, row in enumerate(rows)
    )
    source = ", ".join(f'"{name}"' for name in names)
    sql = selected([read(text)], f"(SELECT * FROM (VALUES {listed}) AS t({source}, row) ORDER BY row)")
    return [each for (each,) in duckdb.sql(sql).fetchall()]


def cells(name: str, pairs: list[tuple[Any, Any]]) -> CellOutcomes:
    """Cells from the first value of each pair to the second."""
    kind = COLUMNS[name].type
    if kind is Type.TEXT:
        texts = np.empty(len(pairs), dtype=object)
        texts[:] = [low for low, _ in pairs]
        return CellTexts(texts, np.zeros(len(pairs), bool))
    null = np.array([low is None for low, _ in pairs])
    if kind is Type.BOOLEAN:
        true, false = (np.array([low is each for low, _ in pairs]) for each in (True, False))
        return PossibleTruths(true, false, null)
    ends = [
        (math.nan, math.nan) if low is None else (enclosing_doubles(low)[0], enclosing_doubles(high)[1])
        for low, high in pairs
    ]
    return ValueRanges(np.array([low for low, _ in ends]), np.array([high for _, high in ends]), ~null, null)


def names_of(text: str) -> list[str]:
    return sorted({reference.name for reference in columns(read(text))})  # type: ignore[union-attr]


def evaluated(text: str, pairs: list[dict[str, tuple[Any, Any]]]) -> CellOutcomes:
    expression = read(text)
    given = {each: cells(each.name, [row[each.name] for row in pairs]) for each in columns(expression)}  # type: ignore[union-attr]
    return evaluate_on_cells(expression, given, 1)


def number(value: Any) -> float:
    return enclosing_doubles(value)[0] if isinstance(value, dt.date) else float(value)


def allowed(found: CellOutcomes, place: int, value: Any) -> bool:
    """Whether a value may be in a cell."""
    if isinstance(found, PossibleTruths):
        return bool((found.null if value is None else found.true if value else found.false)[place])
    if isinstance(found, CellTexts):
        return bool(found.unknown[place]) or found.value[place] == value
    if value is None:
        return bool(found.null[place])
    return bool(found.may_have_value[place] and found.low[place] <= number(value) <= found.high[place])


@pytest.mark.parametrize("text", NUMBERS + TEXTS)
def test_one_value_is_what_the_engine_makes_of_it(text: str) -> None:
    draw, names = Random(text), names_of(text)
    rows = [dict.fromkeys(names, each) for each in VALUES[names[0]]] if len(names) == 1 else []
    rows += [{name: draw.choice(VALUES[name]) for name in names} for _ in range(60)]
    found = evaluated(text, [{name: (row[name], row[name]) for name in names} for row in rows])
    for place, (row, value) in enumerate(zip(rows, of_rows(text, rows), strict=True)):
        assert allowed(found, place, value), (row, value, found)
        near_64_bits = row.get("name") == "9223372036854775000" and "BIGINT" in text
        assert near_64_bits or found.certain[place], (row, value, found)


RANGED = {"age": (0, 110), "weight": (-9.0, 9.0), "pay": (-3.0, 5.0)}


def _pair(draw: Random, name: str) -> tuple[Any, Any]:
    if name == "seen":
        first = dt.date(2024, 1, 1) + dt.timedelta(draw.randint(0, 400))
        return first, first + dt.timedelta(draw.choice([0, 3, 30, 500]))
    if name == "moment":
        start = dt.datetime(2024, 1, 1) + dt.timedelta(hours=draw.randint(0, 9999))
        return start, start + dt.timedelta(minutes=draw.choice([0, 30, 9999]))
    if name not in RANGED:
        value = draw.choice(VALUES[name])
        return value, value
    low, high = RANGED[name]
    ends = sorted(draw.choice([draw.uniform(low, high), float(draw.randint(int(low), int(high)))]) for _ in range(2))
    return tuple(map(round, ends)) if name == "age" else tuple(ends)  # type: ignore[return-value]


def _inside(draw: Random, name: str, low: Any, high: Any) -> Any:
    if low is None or low == high:
        return low
    if name == "seen":
        return low + dt.timedelta(draw.randint(0, (high - low).days))
    if name == "moment":
        return low + draw.random() * (high - low)
    if name == "age":
        return draw.randint(low, high)
    return draw.choice([low, high, min(max(0.0, low), high), draw.uniform(low, high)])


@pytest.mark.parametrize("text", NUMBERS + TEXTS)
def test_a_range_holds_what_comes_out_of_any_value_inside(text: str, long: bool) -> None:
    draw, names = Random(text), names_of(text)
    pairs = [{name: _pair(draw, name) for name in names} for _ in range(150 if long else 40)]
    rows = [{name: _inside(draw, name, *each[name]) for name in names} for each in pairs for _ in range(4)]
    found = evaluated(text, pairs)
    for place, (row, value) in enumerate(zip(rows, of_rows(text, rows), strict=True)):
        assert allowed(found, place // 4, value), (pairs[place // 4], row, value)


@pytest.mark.parametrize(
    ("text", "low", "high", "null"),
    [
        ("LN(weight)", math.log(2), math.log(3), False),
        ("EXP(weight)", math.exp(2), math.exp(3), False),
        ("POW(weight, -2)", 1 / 9, 1 / 4, False),
        ("POW(weight, 0.5)", math.sqrt(2), math.sqrt(3), False),
        ("WIDTH_BUCKET(weight, 0, 10, 10)", 3, 4, False),
    ],
)
def test_ranges_are_no_wider_than_they_must_be(text: str, low: float, high: float, null: bool) -> None:
    found = evaluated(text, [{"weight": (2.0, 3.0)}])
    assert isinstance(found, ValueRanges)
    assert (found.low[0], found.high[0]) == (pytest.approx(low, rel=1e-14), pytest.approx(high, rel=1e-14))
    assert bool(found.null[0]) is null


def test_what_is_not_known_is_said_so() -> None:
    """Powers of numbers on both sides of 0 have no range, and texts are not read as dates."""
    found = evaluated("POW(weight, -1)", [{"weight": (-1.0, 1.0)}])
    assert isinstance(found, ValueRanges)
    assert (found.low[0], found.high[0], bool(found.null[0])) == (-math.inf, math.inf, True)
    with pytest.raises(Unsupported, match="cannot parse texts as dates"):
        evaluated("CAST(name AS DATE)", [{"name": ("2024-01-01", "2024-01-01")}])


def test_every_function_of_rows_is_evaluated_on_cells() -> None:
    written_otherwise = {"IF", "DAYNAME", "MONTHNAME", "AGE", "REGEXP_FULL_MATCH"}  # by other functions
    refused = {"STRPTIME"}  # texts are not read as dates
    assert set(FUNCTIONS) - written_otherwise - refused == set(_FUNCTIONS)
