"""Ranks of rows within limits: equal on every engine, within 63 bits, and other ones for every unit."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import sample_ranks
from sfumato.engine.lowering.relational_form import (
    Apply,
    Constant,
    Reference,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    StageReference,
    integer_constant,
)
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.plan.bounding import BoundedPlan, ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Budget, PrivacyUnit

PRIME = 2**31 - 1
UNITS = ["", "0", "7", str(2**63 - 1), str(-(2**63)), "a|b", "é😀", "x" * 1024, "person 1", "Person 1", "8.0"]
TEXTS = [None, "", "a", "A", "é😀", "it's", "x" * 5000, "|"]
INTEGERS = [None, 0, 1, -1, 2**31, PRIME, -PRIME, 2**62, -(2**62), 2**63 - 1, -(2**63)]


def _truncated(x: int, modulus: int = PRIME) -> int:
    return abs(x) % modulus * (1 if x >= 0 else -1)


def _fingerprint(text: str) -> int:
    return int(hashlib.md5(text.encode()).hexdigest()[:15], 16)


def _expected(numbers: list[int], y: int, z: int) -> int:
    folded = _truncated(numbers[0])
    for number in numbers[1:]:
        folded = _truncated(folded * 1_640_531_527 + _truncated(number))
    mixed = ((folded + PRIME) * y + z) % PRIME
    return mixed * z % (2**31 - 19) * y % (2**31 - 61)


def _computed(columns: dict[str, Scalar], rows: str) -> list[tuple[Any, ...]]:
    select = Select(tuple(columns.items()), StageReference("rows"))
    text = Generator(DuckDBSpelling(), str).statement(StagedSelect((), select))
    return duckdb.sql(f"WITH rows AS ({rows}) {text}").fetchall()


def test_a_seed_is_the_hash_of_key_and_unit() -> None:
    """Of ids that are empty, long, or differ in one letter's case; the halves are from 1 to 2^30."""
    units = Select((("u", Reference("u")), ("n", integer_constant(1))), StageReference("rows"))
    for key in (0, 2**190 + 7):
        select = sample_ranks.with_seeds(units, key)
        text = Generator(DuckDBSpelling(), str).statement(StagedSelect((), select))
        listed = ", ".join(f"('{unit}')" for unit in UNITS)
        seeds = duckdb.sql(f"WITH rows AS (SELECT * FROM (VALUES {listed}) AS v(u)) {text}").fetchall()
        assert {u: (y - 1) * 2**30 + z - 1 for u, _, y, z in seeds} == {
            unit: _fingerprint(f"{key}|{unit.replace('.0', '')}") for unit in UNITS
        }
        assert all(1 <= half <= 2**30 for _, _, *halves in seeds for half in halves)
        assert len({(y, z) for _, _, y, z in seeds}) == len(UNITS)


@pytest.mark.parametrize("half", [1, 2**29 + 7, 2**30])
def test_extreme_values_have_the_rank_that_is_described(half: int) -> None:
    numbers = [
        sample_ranks.number_of_value(Reference("i"), Type.INTEGER),
        sample_ranks.number_of_value(Reference("t"), Type.TEXT),
        sample_ranks.number_of_value(Reference("b"), Type.BOOLEAN),
    ]
    ranked = sample_ranks.mixed_rank(numbers, (integer_constant(half), integer_constant(2**30)))
    pairs = [(i, TEXTS[index % len(TEXTS)], (None, False, True)[index % 3]) for index, i in enumerate(INTEGERS)]
    spelling = DuckDBSpelling()
    kinds = (Type.INTEGER, Type.TEXT, Type.BOOLEAN)
    rows = " UNION ALL ".join(
        "SELECT "
        + ", ".join(f"{_typed(spelling, *cell)} AS {name}" for *cell, name in zip(row, kinds, "itb", strict=True))
        for row in pairs
    )
    computed = _computed({"i": Reference("i"), "t": Reference("t"), "k": ranked}, rows)
    truths = {None: 0, False: 1, True: 2}
    expected = {
        (i, t, _expected([i or 0, 0 if t is None else _fingerprint(t), truths[b]], half, 2**30)) for i, t, b in pairs
    }
    assert {*computed} == expected


def _typed(spelling: DuckDBSpelling, value: Any, kind: Type) -> str:
    if kind is Type.INTEGER and value is not None:
        return f"CAST('{value}' AS BIGINT)"
    return spelling.constant(value, kind)


@pytest.mark.parametrize(
    ("kind", "values", "numbers"),
    [
        (Type.DATE, [None, dt.date.min, dt.date(1, 1, 2), dt.date.max], [0, 0, 1, 3_652_058]),
        (Type.TIMESTAMP, [None, dt.datetime.min, dt.datetime(1, 1, 1, 0, 1, 0, 5)], [0, 0, 60]),
        (Type.REAL, [None, 0.5, -1.0, 1e300, 2.0**-21], [0, 2**19, -(2**20), 0, 0]),
    ],
)
def test_values_of_every_type_are_numbers(kind: Type, values: list[Any], numbers: list[int]) -> None:
    spelling = DuckDBSpelling()
    rows = " UNION ALL ".join(f"SELECT {spelling.constant(value, kind)} AS x" for value in values)
    computed = _computed({"k": sample_ranks.number_of_value(Reference("x"), kind)}, rows)
    assert sorted(number for (number,) in computed) == sorted(numbers)


def _largest(scalar: Scalar, seen: list[int]) -> int:
    """The largest size of a scalar whatever the columns hold, where every step's is noted."""
    match scalar:
        case Constant(int(value)):
            size = abs(value)
        case Reference(name):
            size = 2**30 if name in sample_ranks.SEED_COLUMNS else 2**63
        case Apply(ScalarFunction.ADD, arguments):
            size = sum(_largest(each, seen) for each in arguments)
        case Apply(ScalarFunction.MULTIPLY, (x, y)):
            size = _largest(x, seen) * _largest(y, seen)
        case Apply(ScalarFunction.REMAINDER, (x, Constant(int(modulus)))):
            _largest(x, seen)
            return modulus - 1
        case Apply(ScalarFunction.COALESCE, (x, y)):
            return max(_largest(x, seen), _largest(y, seen))
        case Apply(ScalarFunction.FINGERPRINT):
            size = 2**60
        case _:
            raise AssertionError(scalar)
    seen.append(size)
    return size


@pytest.mark.parametrize("kinds", [(), (Type.INTEGER,), (Type.TEXT,), (Type.INTEGER, Type.TEXT, *(Type.INTEGER,) * 9)])
def test_no_step_of_a_rank_leaves_63_bits(kinds: tuple[Type, ...]) -> None:
    numbers = [sample_ranks.number_of_value(Reference(f"v{index}"), kind) for index, kind in enumerate(kinds)]
    y, z = (Reference(name) for name in sample_ranks.SEED_COLUMNS)
    seen: list[int] = []
    assert _largest(sample_ranks.mixed_rank(numbers, (y, z)), seen) < 2**31
    assert max(size for size in seen if size != 2**63) < 2**63  # a column itself may hold as much


# What one release keeps of a city


CITIES = [f"city {index}" for index in range(10)]
PEOPLE = 1200


@pytest.fixture(scope="module")
def visits() -> Iterator[DuckDB]:
    """Everybody was once in every city, so that all rows but the people are equal."""
    source = {"who": [f"person {who}" for who in range(PEOPLE) for _ in CITIES], "city": CITIES * PEOPLE}
    table = Table("t", pa.table(source), {"city": {"values": CITIES}}, id="who", max_rows=8, max_groups=5)
    engine = DuckDB(policy_of(table))
    yield engine
    engine.close()


def _kept(engine: DuckDB, key: int, **limits: int) -> list[int]:
    bounded = _bounded(engine, "SELECT city, COUNT(*) FROM t GROUP BY city", **limits)
    return [count for (count,) in tuples(engine.read(GroupTotals(bounded, tuple((city,) for city in CITIES)), key))]


def _bounded(engine: DuckDB, text: str, **limits: int) -> BoundedPlan:
    declared = replace(ContributionLimits.from_table(engine._policy.tables["t"]), **limits)
    made = candidate_bounded_plans(parse(text, engine.catalog()).plan, declared, len(CITIES))
    return next(each for each in made if each.strategy is Strategy.SAMPLE)


@pytest.mark.parametrize("limits", [{}, {"groups": 8, "rows": 5}], ids=["groups", "rows"])
def test_one_release_loses_as_much_of_every_city(visits: DuckDB, limits: dict[str, int]) -> None:
    """Ranked without the unit, every release would lose five cities. The keys are fixed; the bound is 6 deviations."""
    deviation = (PEOPLE / 4) ** 0.5
    for key in range(6):
        kept = _kept(visits, 10**17 + key, **limits)
        assert sum(kept) == 5 * PEOPLE
        assert all(abs(count - PEOPLE / 2) < 6 * deviation for count in kept), (key, kept)


@pytest.mark.parametrize("max_rows", [7, 2**20, 2**20 + 1])
def test_a_unit_keeps_as_many_rows_as_count(max_rows: int) -> None:
    """Two of three groups, of 1 to 6 rows each: up to 7 of the rows in both, and half of these in either."""
    rows = [(who, city, age) for who in range(1, 7) for city in "abc" for age in range(who)]
    source = pa.table({name: [row[index] for row in rows] for index, name in enumerate(("who", "city", "age"))})
    columns = {"city": {"values": list("abc")}, "age": {"type": "integer", "bounds": [0, 9]}}
    engine = DuckDB(policy_of(Table("t", source, columns, id="who", max_rows=1)))
    limits = {"rows": max_rows, "groups": 2, "rows_per_group": max_rows}
    bounded = _bounded(engine, "SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city", **limits)
    cities = tuple((city,) for city in "abc")
    for key in range(6):
        kept = [count for count, _ in tuples(engine.read(GroupTotals(bounded, cities), key))]
        assert sum(kept) == sum(min(max_rows, 2 * who) for who in range(1, 7))
        assert max(kept) <= sum(min((max_rows + 1) // 2, who) for who in range(1, 7))
    engine.close()


def test_units_in_a_period_have_the_text_of_both() -> None:
    """DuckDB has a structure where servers have a text; the seed is that of the text."""
    expression = DuckDBSpelling(periods=True).unit_text("u")
    unit = "struct_pack(id := '7', period := DATE '2024-01-31')"
    assert duckdb.sql(f"SELECT {expression} FROM (SELECT {unit} AS u)").fetchall() == [("2024-01-317",)]


def test_a_policy_of_periods_is_sampled() -> None:
    days = [dt.date(2024, 1, 1 + index % 14) for index in range(40)]
    columns = {"day": {"type": "date", "bounds": [days[0], dt.date(2024, 1, 14)]}}
    table = Table("t", pa.table({"who": ["a"] * 40, "day": days}), columns, id="who", max_rows=3)
    policy = Policy(PrivacyUnit("person", period="week", period_column="day"), Budget(1), {"t": table})
    engine = DuckDB(policy)
    plan = parse("SELECT COUNT(*) FROM t", engine.catalog()).plan
    bounded = next(
        each
        for each in candidate_bounded_plans(plan, ContributionLimits.from_table(table), 1)
        if each.strategy is Strategy.SAMPLE
    )
    assert tuples(engine.read(GroupTotals(bounded, ((),)), 5)) == [(6,)]
    engine.close()
