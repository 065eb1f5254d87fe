"""Five hundred questions of a seeded grammar, without noise: what was measured is the answer of the rows, to the row,
and every range holds it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from publish.tables import NAMES, STORED, counts, holds, people, planned, published
from sfumato.errors import Unsupported
from sfumato.release.answers.answer import Answer

ROWS = people(16, 500)
SYNOPSES = {
    "whole": published(planned([NAMES], rho=10**7), counts(ROWS)),
    "threes": published(planned(itertools.combinations(NAMES, 3), rho=10**7), counts(ROWS)),
}
EVERY, SOME = 500, 50
LEVELS = {
    "code_level_1": "CASE WHEN code LIKE 'A%' THEN 'A1 … A2' WHEN code LIKE 'B%' THEN 'B1 … B2' END",
    "DATE_TRUNC('month', day)": "CAST(DATE_TRUNC('month', day) AS DATE)",
    "day_level_1": "CASE WHEN day < DATE '2024-04-01' THEN '2024-01-01 to below 2024-04-01'"
    " WHEN day IS NOT NULL THEN '2024-04-01 to 2024-04-30' END",
}
"""Columns that stand for levels, and what DuckDB says otherwise, as the rows say them."""
KEYS = {
    "smokes": "",
    "code": "",
    "sex": "sex IS NOT NULL",
    "age >= 40": "age IS NOT NULL",
    "EXTRACT(month FROM day)": "day IS NOT NULL",
    "DATE_TRUNC('month', day)": "day IS NOT NULL",
    "LOWER(LEFT(code, 1))": "code IS NOT NULL",
    "sex = 'f' AND smokes": "sex IS NOT NULL AND smokes IS NOT NULL",
    "CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END": "age IS NOT NULL",
    "code_level_1": "code IS NOT NULL",
    "day_level_1": "day IS NOT NULL",
}
"""Keys, and the condition under which the answer shows all of their groups: one for what is missing is not declared."""


@dataclass(frozen=True)
class Asked:
    """A question to the synopsis, the same of the rows, and how many of its columns are keys."""

    synopsis: str
    rows: str
    keys: int
    ordered: bool


def condition(draw: Random, depth: int = 2) -> str:
    if depth and draw.random() < 0.55:
        one, other = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
    return draw.choice(
        [
            f"sex {draw.choice(['=', '<>'])} '{draw.choice('fm')}'",
            f"age {draw.choice(['<', '<=', '>', '>='])} {draw.choice([0, 17, 18, 33, 40, 65, 99])}",
            f"age BETWEEN {draw.choice([0, 18, 20])} AND {draw.choice([39, 64, 80])}",
            f"smokes IS {draw.choice(['NULL', 'TRUE', 'NOT FALSE'])}",
            f"day {draw.choice(['<', '>='])} DATE '2024-0{draw.choice('1234')}-{draw.choice(['01', '01', '15'])}'",
            f"EXTRACT(quarter FROM day) = {draw.choice([1, 2])}",
            f"score {draw.choice(['<', '>='])} {draw.choice(['0.5', '1', '2'])}",
            f"code IN ('A1', '{draw.choice(['A2', 'B1', 'X'])}')",
            f"code {draw.choice(['LIKE', 'NOT LIKE'])} '{draw.choice(['A%', '_1', '%2'])}'",
            f"UPPER(code) = LOWER('{draw.choice(['A1', 'b2'])}') OR LENGTH(code) = 2",
            "(age >= 40) = smokes",
            "COALESCE(smokes, sex = 'm')",
            "code IS NULL",
            "LN(age + 1) > 3.7",
        ]
    )


def measure(draw: Random) -> str:
    found = draw.choice(
        [
            "COUNT(*)",
            "COUNT(*)",
            "COUNT(sex)",
            "SUM(CASE WHEN smokes THEN 3 WHEN sex = 'f' THEN -1 ELSE 1 END)",
            "SUM(age)",
            "SUM(POW(CASE WHEN smokes THEN 2 ELSE 3 END, 2))",
            "AVG(CASE WHEN code LIKE 'A%' THEN 1 ELSE 0 END)",
            "AVG(score)",
        ]
    )
    return f"{found} FILTER (WHERE {condition(draw, 1)})" if draw.random() < 0.3 else found


def question(draw: Random) -> Asked:
    keys = draw.sample(list(KEYS), draw.choice([0, 1, 1, 2]))
    shown = [f"{key} AS k{place}" for place, key in enumerate(keys)]
    held = [KEYS[key] for key in keys if KEYS[key]] + ([condition(draw)] if draw.random() < 0.8 else [])
    text = f"SELECT {', '.join([*shown, f'{measure(draw)} AS n', 'COUNT(*) AS c'])} FROM people"
    text += f" WHERE {' AND '.join(f'({each})' for each in held)}" if held else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    ordered = bool(keys) and draw.random() < 0.4
    if keys and (ordered or draw.random() < 0.3):
        text += f" HAVING COUNT(*) > {draw.choice([0, 5, 20])}"
    if ordered:
        names = ", ".join(f"k{place} NULLS LAST" for place in range(len(keys)))
        text += f" ORDER BY c DESC, {names} LIMIT {draw.randint(1, 4)}"
    of_rows = text
    for name, meaning in LEVELS.items():
        of_rows = of_rows.replace(name, meaning)
    return Asked(text, of_rows, len(keys), ordered)


def asked(count: int) -> list[Asked]:
    draw = Random(2024)
    return [question(draw) for _ in range(count)]


@pytest.fixture(scope="module")
def rows() -> Any:
    columns = zip(NAMES, zip(*ROWS, strict=True), STORED, strict=True)
    with duckdb.connect() as connection:
        connection.register("people", pa.table({name: pa.array(each, kind) for name, each, kind in columns}))
        yield connection


def _checked(found: Answer, each: Asked, wanted: list[tuple[Any, ...]]) -> bool:
    """Compare every row; whether all was measured."""
    sure = all(set(basis) <= {"measured"} for basis in (found.basis or {}).values())
    if each.ordered or "HAVING" in each.synopsis:
        if not sure:
            return False  # which rows are shown is decided by numbers that are bounded
        assert [row[: each.keys] for row in found.rows] == [row[: each.keys] for row in wanted] or not each.ordered
        assert {row[: each.keys] for row in found.rows} == {row[: each.keys] for row in wanted}
    exact = {row[: each.keys]: row[each.keys :] for row in wanted}
    assert set(exact) <= {row[: each.keys] for row in found.rows}
    for index, row in enumerate(found.rows):
        n, c = exact.get(row[: each.keys], (None, 0))
        for name, truth in (("n", n), ("c", c)):
            if truth is None and "AVG" not in each.synopsis:
                truth = 0
            assert truth is None or holds(found.intervals[name][index], truth), (name, truth, row)
            if truth is not None and found.basis is not None and found.basis[name][index] == "measured":
                assert found.column(name)[index] == pytest.approx(float(truth), abs=2e-3), (name, row)
    return sure


def _answer(name: str, each: Asked) -> Answer | None:
    """The answer of a synopsis; None where no group can have a row."""
    try:
        return SYNOPSES[name].sql(each.synopsis)
    except Unsupported as refusal:
        if refusal.code != "no-groups":
            raise
        return None


@pytest.mark.parametrize("name", SYNOPSES)
def test_five_hundred_questions_against_brute_force(name: str, rows: Any, long: bool) -> None:
    measured = refused = 0
    every = asked(EVERY if long else SOME)
    for each in every:
        wanted = rows.execute(each.rows).fetchall()
        found = _answer(name, each)
        if found is None:
            assert wanted == [], each.synopsis
            refused += 1
            continue
        try:
            measured += _checked(found, each, wanted)
        except AssertionError as error:
            raise AssertionError(f"{each.synopsis}\n{found}\n{wanted}") from error
    assert refused < len(every) / 20
    assert measured > len(every) / (4 if name == "whole" else 10)
