"""WHERE leaves out the groups that no row can be in, and never one that a row is in."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan import keys as plan_keys
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.keys import ValueCombinations, conditions_met_by_rows, possible_group_keys
from sfumato.plan.nodes import GroupValues
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

COLUMNS = {
    "k": Domain("text", values=("b", "a", "c")),
    "j": Domain("text", values=("p", "q"), nullable=True),
    "y": Domain("integer", bounds=(0, 99)),
    "n": Domain("integer", bounds=(-4, 4), nullable=True),
    "x": Domain("real", bounds=(0, 1)),
    "d": Domain("date", bounds=("2023-11-20", "2024-02-10")),
    "ts": Domain("timestamp", bounds=("2024-01-01 00:00:00", "2024-12-31 23:59:59")),
    "wide": Domain("date", bounds=("0100-01-01", "9999-12-31")),
    "many": Domain("integer"),
    "name": Domain("text"),
}
CATALOG = Catalog({"t": CatalogTable("t", COLUMNS, public=False, id="id")}, lambda *_: 1)


@pytest.fixture(scope="module")
def engine() -> DuckDB:
    empty = pa.table({"id": pa.array([], pa.int64()), **{name: pa.array([], pa.string()) for name in COLUMNS}})
    table = sf.Table("t", empty, COLUMNS, id="id", max_rows=1)
    return DuckDB(sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1), {"t": table}))


def kept(engine: DuckDB, key: str, where: str) -> list[Any]:
    plan = parse(f"SELECT COUNT(*) AS n FROM t WHERE {where} GROUP BY {key}", CATALOG).plan
    found = possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source))
    return [each[0] if len(each) == 1 else each for each in found]


MARCH = "ts >= TIMESTAMP '2024-03-01 00:00:00' AND ts < TIMESTAMP '2024-04-01 00:00:00'"
YEARS = "wide >= DATE '2010-01-01' AND wide < DATE '2013-01-01'"


@pytest.mark.parametrize(
    ("key", "where", "expected"),
    [
        ("EXTRACT(month FROM ts)", MARCH, [3]),
        ("DATE_TRUNC('day', ts)", MARCH, [dt.datetime(2024, 3, day) for day in range(1, 32)]),
        ("EXTRACT(month FROM ts)", "ts > TIMESTAMP '2024-11-30 23:59:59.999998'", [11, 12]),
        ("EXTRACT(month FROM ts)", "ts > TIMESTAMP '2024-11-30 23:59:59.999999'", [12]),
        ("EXTRACT(month FROM ts)", "TIMESTAMP '2024-02-01 00:00:00' >= ts", [1, 2]),
        ("EXTRACT(month FROM ts)", "ts IN (TIMESTAMP '2024-02-09 10:10:10', TIMESTAMP '2024-12-01 00:00:00')", [2, 12]),
        ("EXTRACT(month FROM ts)", "ts < TIMESTAMP '2024-02-01 00:00:00' OR ts > '2024-12-05 01:02:03'", [1, 12]),
        ("EXTRACT(month FROM ts)", "CAST(ts AS DATE) = DATE '2024-05-05'", [5]),
        ("EXTRACT(month FROM ts)", "ts <> TIMESTAMP '2024-05-05 00:00:00' AND EXTRACT(month FROM ts) < 3", [1, 2]),
        ("DATE_TRUNC('minute', ts)", "ts = TIMESTAMP '2024-05-05 10:20:30'", [dt.datetime(2024, 5, 5, 10, 20)]),
        ("EXTRACT(year FROM wide)", YEARS, [2010, 2011, 2012]),
        ("EXTRACT(year FROM wide)", "EXTRACT(year FROM wide) BETWEEN 2010 AND 2012", [2010, 2011, 2012]),
        ("EXTRACT(year FROM wide)", "wide > TIMESTAMP '2011-12-31 00:00:00' AND wide < '2013-01-02'", [2012, 2013]),
        (
            "DATE_TRUNC('year', wide)",
            f"{YEARS} AND wide > '2010-05-05'",
            [dt.date(y, 1, 1) for y in (2010, 2011, 2012)],
        ),
        (
            "DATE_TRUNC('month', wide)",
            "DATE_TRUNC('month', wide) > '2024-01-15' AND DATE_TRUNC('month', wide) < '2024-03-15'",
            [dt.date(2024, 2, 1), dt.date(2024, 3, 1)],
        ),
        ("WIDTH_BUCKET(x, 0, 1, 10)", "x < 0.5", [1, 2, 3, 4, 5]),
        ("WIDTH_BUCKET(x, 0, 1, 10)", "x <= 0.5", [1, 2, 3, 4, 5, 6]),
        ("WIDTH_BUCKET(x, 0, 1, 10)", "x >= 1", [11]),
        ("WIDTH_BUCKET(x, 0, 1, 10)", "x BETWEEN 0.25 AND 0.35 OR x = 0.4", [3, 4, 5]),
        ("CAST(FLOOR(x * 10) AS INTEGER)", "0.75 < x", [7, 8, 9, 10]),
        ("y", "y > 1.5 AND y < 4.0", [2, 3]),
        ("y", "y = 1 OR y IN (3, NULL)", [1, 3]),
        ("k", "k = 'c' OR k = 'b'", ["b", "c"]),
        ("j", "j >= 'p'", ["p", "q"]),
        ("n", "n > 2", [3, 4]),
        ("COALESCE(n, 7)", "n > 2 OR n IS NULL", [3, 4, 7]),
        ("many", "many BETWEEN 3 AND 5", [3, 4, 5]),
        ("name", "name IN ('z', 'w')", ["w", "z"]),
    ],
)
def test_the_groups_of_rows_that_meet_the_condition(engine: DuckDB, key: str, where: str, expected: list[Any]) -> None:
    assert kept(engine, key, where) == expected


def test_keys_that_a_condition_reads_together_are_found_together(engine: DuckDB) -> None:
    expected = [("b", each) for each in range(91, 100)] + [("a", each) for each in range(5)]
    assert kept(engine, "k, y", "(k = 'a' AND y < 5) OR (k = 'b' AND y > 90)") == expected
    shuffled = kept(engine, "y, j, k", "(k = 'a' AND y < 1) OR (k = 'b' AND y > 98)")
    assert shuffled == [(y, j, k) for y, k in ((0, "a"), (99, "b")) for j in ("p", "q", None)]


def test_keys_stay_apart_where_trying_all_would_cost_too_much(engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_keys, "MAX_COMBINATIONS", 25)
    found = kept(engine, "k, y", "(k = 'a' AND y < 5) OR (k = 'b' AND y < 9)")
    assert found == [(k, y) for k in ("b", "a") for y in range(9)]


def test_a_range_that_holds_nothing_is_refused(engine: DuckDB) -> None:
    for where in ("ts > '2024-05-05 10:30:00' AND ts < '2024-05-05 10:20:00'", "ts < '2020-01-01'"):
        with pytest.raises(sf.Unsupported) as refusal:
            kept(engine, "EXTRACT(hour FROM ts)", where)
        assert refusal.value.code == "no-groups"


def test_what_is_narrowed_is_neither_clamped_nor_forgotten() -> None:
    """The plan keeps the declared domains, and questions that differ in a literal differ."""
    texts = [f"SELECT SUM(y) AS s FROM t WHERE y < {most} GROUP BY y % 2" for most in (5, 6)]
    first, second = (parse(text, CATALOG) for text in texts)
    assert first.plan.measures == second.plan.measures
    assert first.plan.measures[0].value.domain.bounds == (0, 99)  # type: ignore[union-attr]
    assert digest(first) != digest(second)


def test_buckets_lie_in_their_range_and_reach_its_ends(engine: DuckDB) -> None:
    """What is added up is bounded by it: the range is that of the engine's own steps, to the last bit."""
    random = Random(3)
    for _ in range(60):
        low, high = sorted(random.sample([-3, -1.1, -0.3, 0.1, 0.7, 1 / 3, 2.3, 10, 1e9], 2))
        first, last = sorted(random.choice([random.uniform(low - 1, high + 1), low, high]) for _ in range(2))
        count = random.choice([1, 3, 7, 10, 49])
        edges = [low + (high - low) * each / count for each in range(count + 1)]
        near = [math.nextafter(each, toward) for each in edges for toward in (-math.inf, each, math.inf)]
        held = {Fraction(each) for each in [first, last, *near] if first <= each <= last}
        column = Column(Field(0, "t", "x"), Domain("real", bounds=(Fraction(first), Fraction(last))))
        ends = [literal(Type.REAL, Fraction(each)) for each in (low, high)]
        made = call("WIDTH_BUCKET", column, *ends, literal(Type.INTEGER, count))
        world = ValueCombinations(((column.reference, column.domain, tuple(held)),), (made,))
        found = [key[0] for key in engine.values(world) if key[0] is not None]
        assert made.domain.bounds == (min(found), max(found))  # type: ignore[type-var]


# Against the engine's own word, on tables of every kind of row


def literals(random: Random, column: str) -> str:
    """One near what the rows hold: at the declared ends, beside them, and beyond."""
    match column:
        case "k" | "j":
            return random.choice(["'a'", "'b'", "'p'", "'q'", "'zz'"])
        case "y":
            return random.choice(["0", "1", "2", "5", "98", "99", "100", "-1", "2.5", "1e3", "97.0"])
        case "n":
            return random.choice(["-5", "-4", "-1", "0", "0.5", "3", "4", "5", "-0.5"])
        case "x":
            return random.choice(["0", "0.1", "0.3", "0.5", "0.7", "1", "1.5", "-0.2", "1e-9"])
        case "d":
            return random.choice(["DATE '2023-11-20'", "DATE '2024-01-01'", "DATE '2024-02-10'", "DATE '2025-01-01'"])
    return random.choice(
        [f"TIMESTAMP '2024-{each}'" for each in ("01-01 00:00:00", "03-01 10:30:00", "12-31 23:00:00")]
    )


def atom(random: Random, names: list[str]) -> str:
    column = random.choice(names)
    one, two = literals(random, column), literals(random, column)
    compared = random.choice(["=", "<>", "<", "<=", ">", ">="])
    forms = [f"{column} {compared} {one}", f"{one} {compared} {column}"] * 2
    forms += [f"{column} BETWEEN {one} AND {two}", f"{column} IN ({one}, {two}, NULL)", f"{column} IS NULL"]
    if column == "d":
        forms += [f"EXTRACT(year FROM d) {compared} 2024", f"DATE_TRUNC('month', d) {compared} {one}"]
        forms += [f"d {compared} TIMESTAMP '2023-12-31 12:00:00'"]
    if column == "ts":
        forms += [f"CAST(ts AS DATE) {compared} DATE '2024-03-01'", f"EXTRACT(hour FROM ts) {compared} 10"]
        forms += [f"DATE_TRUNC('week', ts) {compared} {one}", f"DATE_TRUNC('hour', ts) {compared} {one}"]
    return random.choice(forms)


def condition(random: Random, names: list[str], levels: int = 3) -> str:
    if not levels or random.random() < 0.3:
        return atom(random, names)
    parts = [condition(random, names, levels - 1) for _ in range(random.choice([1, 2, 2, 3]))]
    joined = "(" + random.choice([" AND ", " AND ", " OR "]).join(parts) + ")"
    return f"NOT {joined}" if random.random() < 0.15 else joined


KEYS = {
    "k": ["k", "COALESCE(k, 'none')"],
    "j": ["j", "UPPER(j)"],
    "y": ["y", "y % 3", "CASE WHEN y < 3 THEN 'few' WHEN y > 95 THEN 'many' END"],
    "n": ["n", "n * n", "-n"],
    "x": ["CAST(FLOOR(x * 10) AS INTEGER)", "x > 0.5"],
    "d": ["d", "EXTRACT(month FROM d)", "DATE_TRUNC('month', d)", "DATE_TRUNC('week', d)", "EXTRACT(year FROM d)"],
    "ts": ["EXTRACT(month FROM ts)", "DATE_TRUNC('day', ts)", "EXTRACT(hour FROM ts)", "CAST(ts AS DATE)"],
}
CELLS: dict[str, list[Any]] = {
    "k": ["a", "b", "c"],
    "j": ["p", "q"],
    "y": [0, 1, 2, 3, 5, 97, 98, 99],
    "n": list(range(-4, 5)),
    "x": [0.0, 0.1, 0.3, 0.5, 0.7, 1.0, 1e-9, 0.30000000000000004, 0.49999999999999994],
    "d": [dt.date(2023, 11, 20), dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 1), dt.date(2024, 2, 10)],
    "ts": [
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
        dt.datetime(2024, 3, 1, 10, 0),
        dt.datetime(2024, 3, 1, 10, 30),
        dt.datetime(2024, 3, 1, 10, 30, 0, 1),
        dt.datetime(2024, 12, 31, 23, 0),
        dt.datetime(2024, 12, 31, 23, 59, 59),
    ],
}
TYPES = {
    "k": pa.string(),
    "j": pa.string(),
    "y": pa.int64(),
    "n": pa.int64(),
    "x": pa.float64(),
    "d": pa.date32(),
    "ts": pa.timestamp("us"),
}


def among(rows: list[dict[str, Any]], key: str, where: str) -> set[GroupValues]:
    """The groups that an engine of its own finds among the rows that meet the condition."""
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    session = _session()
    session.register("t", table)
    found = session.execute(f"SELECT DISTINCT {key} FROM t WHERE {where}").fetchall()
    return {tuple(map(plain, each)) for each in found}


@cache
def _session() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def plain(value: Any) -> Any:
    midnight = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return dt.datetime.combine(value, dt.time()) if midnight else value


def answered(engine: DuckDB, key: str, where: str) -> tuple[set[GroupValues] | None, list[bool]]:
    """The groups found, None where they are refused by a cap; and which keys have a group for NULL."""
    plan = parse(f"SELECT COUNT(*) AS n FROM t WHERE {where} GROUP BY {key}", CATALOG).plan
    nullable = [each.domain.nullable for each in plan.keys]
    try:
        found = possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source))
    except sf.Unsupported as refusal:
        return set() if refusal.code == "no-groups" else None, nullable
    assert len(set(found)) == len(found)
    return {tuple(map(plain, each)) for each in found}, nullable


def expected(rows: list[dict[str, Any]], key: str, where: str, nullable: list[bool]) -> set[GroupValues]:
    return {
        each
        for each in among(rows, key, where)
        if all(value is not None or may for value, may in zip(each, nullable, strict=True))
    }


@pytest.mark.parametrize("most", [200_000, 300, 20])
def test_no_group_is_left_out_that_a_row_is_in(
    engine: DuckDB, most: int, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """Random conditions over every kind of column, at caps that let all, some and few of them be tried."""
    random, count, seen = Random(most), 1_000 if long else 40, 0
    rows = [{name: random.choice([*cells, None]) for name, cells in CELLS.items()} for _ in range(500)]
    monkeypatch.setattr(plan_keys, "MAX_COMBINATIONS", most)
    for _ in range(count):
        names = random.sample(list(KEYS), random.choice([1, 1, 2, 3]))
        key = ", ".join(random.choice(KEYS[name]) for name in random.sample(names, min(len(names), 2)))
        where = condition(random, names)
        found, nullable = answered(engine, key, where)
        if found is not None:
            seen += 1
            assert expected(rows, key, where, nullable) <= found, (key, where)
    assert seen > count / 2


def test_exactly_the_groups_that_rows_can_be_in(engine: DuckDB, long: bool) -> None:
    """Every row there can be, for columns that are written out: conditions about the keys alone leave no more."""
    random = Random(7)
    every = [
        {**dict.fromkeys(CELLS), "k": k, "j": j, "n": n}
        for k, j, n in itertools.product([*CELLS["k"], None], [*CELLS["j"], None], [*CELLS["n"], None])
    ]
    for _ in range(1_000 if long else 50):
        names = random.sample(["k", "j", "n"], random.choice([1, 2, 3]))
        key, where = ", ".join(names), condition(random, names)
        found, nullable = answered(engine, key, where)
        assert expected(every, key, where, nullable) == found, (key, where)
