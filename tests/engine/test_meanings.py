"""Functions mean what ``plan`` says, whatever DuckDB would make of the same words."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.lowered import constant, selected
from engine.tables import policy_of, tuples
from plan.samples import read
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan.bounding import ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.plan.values import grammars
from sfumato.plan.values.expressions import Column
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Table, Type

BIG, SMALL = 2.0**500, 2.0**-500


def results(question: str, values: list[Any], name: str = "name", kind: Type = Type.TEXT) -> list[Any]:
    """What a question gives for each value of one of the sample columns."""
    listed = ", ".join(f"({constant(each, kind)})" for each in values)
    sql = selected([read(question)], f'(SELECT * FROM (VALUES {listed}) AS t("{name}"))')
    return [each for (each,) in duckdb.sql(sql).fetchall()]


@pytest.mark.parametrize(
    ("target", "texts", "wanted"),
    [
        (
            "BIGINT",
            ["17", "-0", "+7", " 7", "1e3", "12.5", "1_000", "0x1A", "9" * 19],
            [17, 0, 7, 7, 1000] + [None] * 4,
        ),
        (
            "DOUBLE",
            [".5", "1e3", "-2.", "nan", "inf", "1e160", "1e-160", "1,5"],
            [0.5, 1e3, -2.0, *[None] * 3, 0.0, None],
        ),
        ("BOOLEAN", ["true", "FALSE", "True", "1", "0", " true", "t", "yes"], [True, False, True] * 2 + [None] * 2),
    ],
)
def test_texts_are_read_by_our_own_grammars(target: str, texts: list[str], wanted: list[Any]) -> None:
    assert results(f"CAST(name AS {target})", texts) == wanted


def test_dates_are_read_by_our_own_grammar() -> None:
    texts = [
        "2024-02-29",
        "2023-02-29",
        "2024-2-1",
        "2024-01-01 00:00",
        "epoch",
        "infinity",
        "0000-01-01",
        "2024/01/01",
    ]
    found = results("CAST(CAST(name AS DATE) AS VARCHAR)", texts)
    assert found == ["2024-02-29", None, None, "2024-01-01", *[None] * 4]
    times = ["2024-01-31", "2024-01-31T23:59", "2024-01-31 23:59:00.5", "2024-01-31 24:00", "2024-01-31 23:59+01"]
    found = results("CAST(CAST(name AS TIMESTAMP) AS VARCHAR)", times)
    assert found == ["2024-01-31 00:00:00", "2024-01-31 23:59:00", "2024-01-31 23:59:00.5", None, "2024-01-31 22:59:00"]


def test_nothing_is_an_escape_in_a_pattern() -> None:
    assert results("name LIKE '100\\%'", ["100%", "100\\", "100\\x"]) == [False, True, True]
    assert results("name ILIKE 'İ_Σ'", ["ibς", "ibσ", "IBΣ", "İbσ", "i̇bσ"]) == [False, True, True, True, False]


def test_spaces_are_one_letter() -> None:
    assert results("TRIM(name)", ["  a ", "\u00a0a", "\ta", "\u3000"]) == ["a", "\u00a0a", "\ta", "\u3000"]


def test_every_letter_has_one_capital_and_one_small_letter() -> None:
    known = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    cased = [each for each in known if each.lower() != each or each.upper() != each]
    assert results("LOWER(name)", cased) == [grammars.lower(each) for each in cased]
    assert results("UPPER(name)", cased) == [grammars.upper(each) for each in cased]
    assert results("UPPER(name)", ["straße", "ßß", "ß", "ﬁn"]) == ["STRAßE", "ßß", "ß", "ﬁN"]
    assert results("LOWER(name)", ["ΑΣ", "İ"]) == ["ασ", "i"]


def test_parts_of_texts() -> None:
    whole = "Hello"
    for start in range(-8, 9):
        first = start if start >= 0 else len(whole) + 1 + start
        assert results(f"SUBSTR(name, {start})", [whole]) == [whole[max(first, 1) - 1 :]]
        for length in range(-2, 9):
            wanted = whole[max(first, 1) - 1 : max(first + length - 1, 0)] if length > 0 else ""
            assert results(f"SUBSTR(name, {start}, {length})", [whole]) == [wanted], (start, length)


def test_remainders_of_reals() -> None:
    source = random.Random(7)
    pairs = [(source.uniform(-1e6, 1e6), source.choice([0.1, 0.2, 3.0, -7.5, 1e-9])) for _ in range(200)]
    pairs += [(0.6, 0.2), (1e20, 3.0), (-7.5, 2.0), (5.0, 0.0)]
    x, y = (Column(name, Domain("real")) for name in "xy")
    listed = ", ".join(f"({a!r}::DOUBLE, {b!r}::DOUBLE)" for a, b in pairs)
    found = duckdb.sql(selected([call("%", x, y)], f"(SELECT * FROM (VALUES {listed}) AS t(x, y))")).fetchall()
    assert [each for (each,) in found] == [None if b == 0 else a - b * float(int(a / b)) for a, b in pairs]


def test_reals_stay_in_their_range() -> None:
    def of(question: str, values: list[float]) -> list[Any]:
        return results(question, values, "weight", Type.REAL)

    assert of("weight * weight", [1e100, 1e-100, 1e75, BIG, 0.0]) == [None, 0.0, 1e75 * 1e75, None, 0.0]
    assert of("weight / 1e150", [1e-100, 1e50, BIG]) == [0.0, 1e50 / 1e150, BIG / 1e150]
    assert of("weight - 1e-150", [1e-150, 1.0000000000000002e-150]) == [0.0, 0.0]
    assert of("weight + weight", [BIG, BIG / 2, SMALL]) == [None, BIG, 2 * SMALL]
    assert of("weight", [BIG * 2, SMALL / 2, -SMALL]) == [None, 0.0, -SMALL]
    assert of("EXP(weight)", [1e6, -1e6, 0.0]) == [None, 0.0, 1.0]
    assert of("POW(weight, 3)", [1e100, 1e-100, -2.0, 0.0]) == [None, 0.0, -8.0, 0.0]
    assert of("POW(weight, -1)", [0.0, 4.0]) == [None, 0.25]


def test_a_real_has_no_text() -> None:
    with pytest.raises(Unsupported, match="cannot become text"):
        read("CAST(weight AS VARCHAR)")


def _engine(rows: list[tuple[int, str | None, float]], limits: tuple[int, int, int] | None) -> DuckDB:
    source = pa.table({name: [row[index] for row in rows] for index, name in enumerate(("who", "place", "cost"))})
    columns = {
        "place": {"values": list("abcde"), "nullable": True},
        "cost": {"type": "real", "bounds": [-10, 100], "grid": 1},
    }
    if limits is None:
        return DuckDB(policy_of(Table("t", source, columns, id="row")))
    most = dict(zip(("max_rows", "max_groups", "max_rows_per_group"), limits, strict=True))
    return DuckDB(policy_of(Table("t", source, columns, id="who", **most)))  # type: ignore[arg-type]


def _totals(engine: DuckDB, text: str, strategy: Strategy, groups: list[Any], key: int = 0) -> list[tuple[int, ...]]:
    plan = parse(text, engine.catalog()).plan
    table = engine._policy.tables["t"]
    made = candidate_bounded_plans(plan, ContributionLimits.from_table(table), len(groups))
    bounded = next(each for each in made if each.strategy is strategy)
    return tuples(engine.read(GroupTotals(bounded, tuple(groups)), key))


def test_values_become_steps_with_ties_to_even() -> None:
    costs = [0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, 3.5]
    engine = _engine([(0, "a", cost) for cost in costs], None)
    assert _totals(engine, "SELECT SUM(cost) FROM t", Strategy.WHOLE, [()]) == [(0 + 2 + 2 + 0 - 2 + 2 + 4,)]


def _rank(numbers: list[int], seed: tuple[int, int]) -> int:
    """The rank that ``sample_ranks`` describes."""
    y, z = seed
    folded = 0
    for number in numbers:
        folded = _remainder(folded * 1_640_531_527 + _remainder(number))
    mixed = ((folded + 2**31 - 1) * y + z) % (2**31 - 1)
    return mixed * z % (2**31 - 19) * y % (2**31 - 61)


def _remainder(x: int) -> int:
    """With the sign of the dividend, as SQL has it."""
    return abs(x) % (2**31 - 1) * (1 if x >= 0 else -1)


def _seed(key: int, unit: object) -> tuple[int, int]:
    """The halves of a unit's seed."""
    high, low = divmod(int(hashlib.md5(f"{key}|{unit}".encode()).hexdigest()[:15], 16), 2**30)
    return high + 1, low + 1


def _number(place: str | None) -> int:
    return 0 if place is None else "abcde".index(place) + 1


def _reckoned(rows: list[tuple[int, str | None, float]], limits: tuple[int, int, int], key: int) -> Counter[Any]:
    """Rows kept of each (unit, place): at most so many groups, in turn, rows in a group and rows, by their ranks."""
    most, groups, per_group = limits
    numbers_of_unit, of_unit = defaultdict(set), defaultdict(list)
    for who, place, _ in rows:
        numbers_of_unit[who].add(_number(place))
    for who, place, cost in rows:
        seed, numbers = _seed(key, who), sorted(numbers_of_unit[who])
        if groups < most:  # groups are taken in turn, from one that the seed decides
            turn = (numbers.index(_number(place)) + seed[0]) % len(numbers)
            ranks = _rank([int(cost)], seed[::-1]), turn
        else:
            ranks = _rank([_number(place), int(cost)], seed[::-1]), 0
        of_unit[who].append((*ranks, place is None, place or "", int(cost)))
    kept: Counter[Any] = Counter()
    for own in of_unit.values():
        chosen = own
        if groups < most:
            places = sorted({row[1:4] for row in own})[:groups]
            chosen = [row for row in own if row[1:4] in places]
        if per_group < most:
            chosen = [
                row
                for each in {row[2:4] for row in chosen}
                for row in sorted(r for r in chosen if r[2:4] == each)[:per_group]
            ]
        ordered = sorted(chosen)[:most]
        if groups < most and per_group >= most:  # spread evenly over the chosen groups
            ordered = sorted(chosen, key=lambda row: (*row[1:4], row[0], row[4]))
            ordered = [
                row
                for place, row in enumerate(ordered, 1)
                if place * most // len(ordered) > (place - 1) * most // len(ordered)
            ]
        for row in ordered:
            kept[None if row[2] else row[3]] += 1
            kept[None if row[2] else row[3], "cost"] += row[4]
    return kept


@pytest.mark.parametrize("limits", [(4, 4, 4), (4, 2, 4), (4, 4, 2), (5, 2, 2), (4, 2, 2), (1, 1, 1)])
def test_samples_are_those_of_an_independent_reckoning(limits: tuple[int, int, int]) -> None:
    source = random.Random(repr(limits))
    people = [
        (who, source.choice([*"abcde", None]), float(source.randint(-10, 100)))
        for who in range(40)
        for _ in range(who % 9)
    ]
    source.shuffle(people)
    engine = _engine(people, limits)
    groups: list[Any] = [(each,) for each in (*"abcde", None)]
    for key in (0, 2**61 + 5):
        found = _totals(engine, "SELECT place, COUNT(*), SUM(cost) FROM t GROUP BY place", Strategy.SAMPLE, groups, key)
        kept = _reckoned(people, limits, key)
        assert found == [(kept[place], kept[place, "cost"]) for (place,) in groups]


def test_a_sample_counts_units_that_keep_a_row() -> None:
    people = [(who, place, 1.0) for who in range(30) for place in "abcde"[: 1 + who % 5] for _ in range(2)]
    engine = _engine(people, (6, 2, 2))
    asked = "SELECT place, COUNT(DISTINCT who), COUNT(DISTINCT who) FILTER (WHERE cost > 5) FROM t GROUP BY place"
    found = _totals(engine, asked, Strategy.SAMPLE, [(each,) for each in "abcde"], 11)
    assert sum(units for units, _ in found) == sum(min(2, 1 + who % 5) for who in range(30))
    assert all(dear == 0 for _, dear in found)
    assert all(
        units <= sum(1 for who in range(30) if "abcde".index(place) <= who % 5)
        for place, (units, _) in zip("abcde", found, strict=True)
    )


def test_a_key_of_reals_can_be_sampled() -> None:
    engine = _engine([(0, "a", float(cost)) for cost in range(6)], (3, 2, 2))
    asked = "SELECT CASE WHEN cost > 2 THEN 0.5 ELSE 0.25 END AS half, COUNT(*) FROM t GROUP BY half"
    found = _totals(engine, asked, Strategy.SAMPLE, [(Fraction("0.25"),), (Fraction("0.5"),)], 3)
    assert sum(count for (count,) in found) == 3
    assert max(found) == (2,)
