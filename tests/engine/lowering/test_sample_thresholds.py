"""A unit's sample by one threshold is the sample by ranks, whatever rows the unit has and wherever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, reading_statements, sampled_rows
from sfumato.engine.lowering.reading_statements import server_readings, server_statement
from sfumato.engine.lowering.relational_form import Scalar, ScalarFunction, apply, integer_constant
from sfumato.engine.lowering.sampled_rows import MAX_LEAST
from sfumato.plan.bounding import BoundedPlan, ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table

CITIES, STREETS = [*"abcd"], ["x", "y", None]
WIDE = [f"group {index}" for index in range(MAX_LEAST + 3)]
QUESTIONS = {
    "totals": "SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city",
    "two keys": "SELECT city, street, COUNT(*), SUM(age) FROM t GROUP BY city, street",
    "people": "SELECT city, COUNT(DISTINCT who), SUM(age) FROM t GROUP BY city",
}


def _rows() -> list[tuple[Any, ...]]:
    """Every way to have 0 to 3 rows in each of four cities, and people with more in one city or in many."""
    counts = [*product(range(4), repeat=4), (9, 0, 1, 0), (1, 1, 9, 9), (30, 1, 1, 1)]
    people = [
        (who, city)
        for who, numbers in enumerate(counts)
        for city, number in zip(CITIES, numbers, strict=True)
        for _ in range(number)
    ]
    random = Random(3)
    rows = [(who, city, random.choice(STREETS), random.randint(0, 9)) for who, city in people]
    random.shuffle(rows)
    return rows


@pytest.fixture(autouse=True)
def _without_group_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds are for more groups than a set holds."""
    monkeypatch.setattr(sampled_rows, "MAX_GROUP_NUMBERS", 0)


@pytest.fixture(scope="module")
def towns() -> Iterator[DuckDB]:
    yield from _opened(_rows(), {"city": {"values": CITIES}, "street": {"values": ["x", "y"], "nullable": True}})


@pytest.fixture(scope="module")
def wide() -> Iterator[DuckDB]:
    """One to fifteen groups, with one row or two in each."""
    rows = [
        (2 * groups + twice, city, "x", index % 10)
        for groups in range(1, len(WIDE) + 1)
        for twice in (0, 1)
        for index, city in enumerate(WIDE[:groups])
        for _ in range(1 + twice)
    ]
    yield from _opened(rows, {"city": {"values": WIDE}})


def _opened(rows: list[tuple[Any, ...]], columns: dict[str, Any]) -> Iterator[DuckDB]:
    names = ("who", "city", "street", "age")
    source = pa.table({name: [row[index] for row in rows] for index, name in enumerate(names)})
    declared = {**columns, "age": {"type": "integer", "bounds": [0, 9]}}
    engine = DuckDB(policy_of(Table("t", source, declared, id="who", max_rows=3)))
    yield engine
    engine.close()


def _bounded(engine: DuckDB, text: str, groups: int, rows: int) -> BoundedPlan:
    declared = ContributionLimits.from_table(engine._policy.tables["t"])
    limits = replace(declared, rows=rows, groups=groups, rows_per_group=rows)
    made = candidate_bounded_plans(parse(text, engine.catalog()).plan, limits, len(WIDE))
    return next(each for each in made if each.strategy is Strategy.SAMPLE)


def _reading(engine: DuckDB, name: str, groups: int, rows: int) -> GroupTotals:
    bounded = _bounded(engine, QUESTIONS[name], groups, rows)
    keys = product(CITIES, STREETS) if name == "two keys" else ((city,) for city in (*CITIES, *WIDE))
    return GroupTotals(bounded, tuple(keys))


def _ranked(engine: DuckDB, reading: GroupTotals, key: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The totals where the rows of every unit are ranked."""
    statement = bounded_totals.group_totals_statement(reading.bounded, key)
    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "_statement", lambda *_: engine._render(statement))
        return tuples(engine.read(reading, key))


def _uses_thresholds(reading: GroupTotals) -> bool:
    return any(name == "o" for name, _ in reading_statements.local_statement(reading, 1).stages)


LIMITS = [(1, 2), (1, 4), (2, 3), (2, 4), (2, 7), (3, 4), (3, 5), (3, 40)]
USUAL = {
    "totals": [(1, 2), (2, 3), (2, 7), (3, 4), (3, 40)],
    "two keys": [(2, 4), (3, 5)],
    "people": [(1, 4), (2, 3)],
}
"""Every limit on groups and rows with one of the questions; the long run has all of them together."""


@pytest.mark.parametrize(
    ("groups", "rows", "name"),
    [
        pytest.param(*limits, name, marks=() if limits in USUAL[name] else pytest.mark.long)
        for limits, name in product(LIMITS, QUESTIONS)
    ],
)
def test_thresholds_sample_the_rows_that_ranks_do(
    towns: DuckDB, name: str, groups: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = _reading(towns, name, groups, rows)
    assert _uses_thresholds(reading)
    assert all(name != "o" for each in server_readings(reading) for name, _ in server_statement(each, 1).stages)
    for key in (7, 10**17):
        assert tuples(towns.read(reading, key)) == _ranked(towns, reading, key, monkeypatch)


def _parity(numbers: Sequence[Scalar], _: object) -> Scalar:
    return apply(ScalarFunction.REMAINDER, numbers[0], integer_constant(2)) if numbers else integer_constant(0)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("groups", [1, 2])
def test_groups_of_one_rank_are_different_groups(
    towns: DuckDB, name: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are two ranks alone, groups of one rank are chosen in the order of their keys, NULL last."""
    monkeypatch.setattr(sampled_rows, "mixed_rank", _parity)
    reading = _reading(towns, name, groups, 4)
    assert tuples(towns.read(reading, 7)) == _ranked(towns, reading, 7, monkeypatch)


@pytest.mark.parametrize(
    ("groups", "rows"), [(MAX_LEAST - 1, MAX_LEAST), (MAX_LEAST - 1, 3 * MAX_LEAST), (MAX_LEAST, 3 * MAX_LEAST)]
)
def test_only_the_least_codes_of_a_unit_are_compared(
    wide: DuckDB, groups: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that are more than could be compared are ranked."""
    reading = _reading(wide, "totals", groups, rows)
    assert _uses_thresholds(reading) == (groups < MAX_LEAST)
    for key in (7, 10**17):
        assert tuples(wide.read(reading, key)) == _ranked(wide, reading, key, monkeypatch)


def test_no_code_leaves_63_bits() -> None:
    """Five keys of 100 texts have more groups than a rank can be multiplied by: ranks are used."""
    texts = [f"text {index}" for index in range(100)]
    columns = {f"k{index}": {"values": texts} for index in range(5)}
    source = pa.table({"who": [1, 1], **dict.fromkeys(columns, texts[:2])})
    engine = DuckDB(policy_of(Table("t", source, columns, id="who", max_rows=3)))
    for keys, is_used in ((4, True), (5, False)):
        names = ", ".join([*columns][:keys])
        bounded = _bounded(engine, f"SELECT {names}, COUNT(*) FROM t GROUP BY {names}", 1, 3)
        assert _uses_thresholds(GroupTotals(bounded, ())) is is_used
    engine.close()
