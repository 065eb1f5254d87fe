"""Totals of groups that are found in the data, against a loop over the rows."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.integers import Integers
from engine.tables import policy_of
from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.opening import open_engine
from sfumato.errors import Unsupported
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.release.running_work import ignore_progress

COLUMNS = {
    "city": {"type": "text", "nullable": True},
    "cost": {"type": "real", "nullable": True},
    "day": {"type": "date"},
    "code": {"type": "integer", "nullable": True},
    "side": {"values": ["a", "b"], "nullable": True},
    "half": {"type": "real", "values": ["0.1", "0.5"]},
    "age": {"type": "integer", "bounds": [0, 9]},
}
STORED = {
    "who": pa.int64(),
    "city": pa.string(),
    "cost": pa.float64(),
    "day": pa.date32(),
    "code": pa.int64(),
    "side": pa.string(),
    "half": pa.float64(),
    "age": pa.int64(),
}
DAY = dt.date(9999, 12, 30)


def _rows(seed: int, count: int) -> list[dict[str, Any]]:
    draw = Random(seed)
    return [
        {
            "who": draw.randrange(12),
            "city": draw.choice(["bonn", "Ürümqi", "", "x" * 1200, "é" * 800, "é" * 1001, None]),
            "cost": draw.choice([0.1, 0.25, -0.0, 0.0, 1e100, None]),
            "day": draw.choice([DAY, DAY + dt.timedelta(1), dt.date(1, 1, 1)]),
            "code": draw.choice([-(2**61), 7, 2**61, None]),
            "side": draw.choice(["a", "b", "c", None]),
            "half": draw.choice([0.1, 0.5]),
            "age": draw.randrange(10),
        }
        for _ in range(count)
    ]


def _policy(rows: list[dict[str, Any]], unit: str, limits: tuple[int, int, int] = (500, 500, 500)) -> Policy:
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in STORED.items()})
    most = dict(zip(("max_rows", "max_groups", "max_rows_per_group"), limits, strict=True)) if unit != "row" else {}
    return policy_of(Table("t", table, COLUMNS, id=unit, **most))  # type: ignore[arg-type]


def _asked(engine: Any, policy: Policy, text: str) -> tuple[Question, DiscoveredTotals]:
    context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    asked = Question(context, text, parse(text, engine.catalog()), ContributionLimits.from_table(policy.tables["t"]))
    return asked, DiscoveredTotals(asked.bounding_options[0], asked.discovered_keys, asked.groups)


def _told(value: Any) -> Any:
    if isinstance(value, float):
        return Fraction(repr(value + 0.0))
    return value[:1000] if isinstance(value, str) else value


def _by_hand(rows: list[dict[str, Any]], keys: Sequence[str], found: DiscoveredTotals, unit: str) -> dict[Any, Any]:
    """For each key that a row has: who holds it, and (rows, ages) for each of the declared values of the others."""
    holders, totals = defaultdict(set), defaultdict(lambda: [0, 0])
    for number, row in enumerate(rows):
        cells = [_told(row[name]) for name in keys]
        cells = [None if name == "side" and cell == "c" else cell for name, cell in zip(keys, cells, strict=True)]
        key, other = (
            tuple(cells[index] for index in places) for places in (found.discovered_keys, found.declared_keys)
        )
        holders[key].add(row["who"] if unit == "who" else number)
        totals[key, other][0] += 1
        totals[key, other][1] += row["age"]
    return {
        key: (len(units), [totals[key, other] for other in found.declared_groups]) for key, units in holders.items()
    }


def _as_told(found: DiscoveredGroups, declared: int) -> dict[Any, Any]:
    places = np.arange(len(found.holders))
    totals = found.totals_for(places, declared).reshape(len(places), declared, found.totals.shape[1]).tolist()
    return {
        key: (int(units), own) for key, units, own in zip(found.key_values(places), found.holders, totals, strict=True)
    }


KEYS = ("city", "cost", "day", "code", "city, side", "side, city", "half, code, side, cost", "city, code", "half, day")


@cache
def _opened(seed: int, count: int, unit: str) -> tuple[DuckDB, Policy]:
    policy = _policy(_rows(seed, count), unit)
    return DuckDB(policy, threads=1), policy


@pytest.mark.parametrize(
    ("keys", "unit"),
    [
        *((keys, "who") for keys in KEYS),
        *(pytest.param(keys, "row", marks=[pytest.mark.long] if place % 3 else []) for place, keys in enumerate(KEYS)),
    ],
)
def test_keys_of_every_type_alone_and_crossed(keys: str, unit: str) -> None:
    for seed, count in ((1, 0), (2, 1), (3, 400)):
        rows = _rows(seed, count)
        engine, policy = _opened(seed, count, unit)
        asked, reading = _asked(engine, policy, f"SELECT {keys}, COUNT(*), SUM(age) FROM t GROUP BY {keys}")
        names = keys.split(", ")
        assert {names[index] for index in asked.discovered_keys} == set(names) - {"side", "half"}
        engine.check(reading)
        found = _as_told(engine.read(reading, 7), len(reading.declared_groups))
        assert found == _by_hand(rows, names, reading, unit)


@pytest.mark.parametrize("groups_held", [4, 6])
def test_a_unit_beyond_its_limits_holds_no_more_keys_than_it_may(groups_held: int) -> None:
    """Three groups of one unit count, crossed with the sides: whatever is kept, it is kept for totals and holders."""
    cities = [f"c{index}" for index in range(groups_held)]
    rows = [
        {**row, "who": 1, "city": city, "side": side} for row in _rows(5, 1) for city, side in product(cities, "ab")
    ]
    rows += [{**row, "who": 2, "city": "c0", "side": "a"} for row in _rows(6, 1)]
    seen = set()
    policy = _policy(rows, "who", (4, 3, 2))
    engine = DuckDB(policy)
    for text in (
        "SELECT city, side, COUNT(*) FROM t GROUP BY city, side",
        "SELECT city, COUNT(*) FROM t GROUP BY city",
    ):
        _, reading = _asked(engine, policy, text)
        for key in range(12):
            found = _as_told(engine.read(reading, key), len(reading.declared_groups))
            others = {("c0",): 1}
            held = {name: units - others.get(name, 0) for name, (units, _) in found.items()}
            assert set(held.values()) <= {0, 1}
            assert 1 <= sum(held.values()) <= 3
            counts = {name: sum(each[0] for each in own) - others.get(name, 0) for name, (_, own) in found.items()}
            assert {name for name, count in counts.items() if count} == {name for name, unit in held.items() if unit}
            groups = sum(bool(each[0]) for _, own in found.values() for each in own)
            assert groups <= 4
            assert sum(counts.values()) <= 4
            seen.add(frozenset(name for name, unit in held.items() if unit))
    assert len(seen) > 5
    engine.close()


def test_dates_beyond_the_calendar_are_no_keys_that_fail() -> None:
    rows = _rows(9, 60)
    policy = _policy(rows, "row")
    engine = DuckDB(policy)
    _, reading = _asked(engine, policy, "SELECT day + INTERVAL '3 day' AS d, COUNT(*) FROM t GROUP BY 1")
    found = _as_told(engine.read(reading, 7), 1)
    assert set(found) <= {(dt.date(1, 1, 4),), (None,), (DAY,)}
    engine.close()


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_both_engines_find_the_same(rows: int) -> None:
    draw = Random(rows)
    table = pa.table(
        {
            "code": pa.array([draw.randrange(10**6, 10**6 + 9) for _ in range(rows)], pa.int64()),
            "ward": pa.array([draw.choice([1, 2]) for _ in range(rows)], pa.int64()),
            "age": pa.array([draw.randrange(-5, 20) for _ in range(rows)], pa.int64()),
        }
    )
    columns = {
        "code": {"type": "integer"},
        "ward": {"type": "integer", "values": [1, 2, 5]},
        "age": {"type": "integer", "bounds": [0, 9]},
    }
    policy = policy_of(Table("t", table, columns, id="row"))  # type: ignore[arg-type]
    found = []
    for engine in (open_engine(policy), Integers(policy)):
        _, reading = _asked(engine, policy, "SELECT ward, code, COUNT(*), SUM(age) FROM t GROUP BY ward, code")
        engine.check(reading)
        found.append(_as_told(engine.read(reading, 7), len(reading.declared_groups)))
        engine.close()
    assert found[0] == found[1]
    assert bool(found[0]) is bool(rows)


def test_the_small_engine_refuses_to_sample() -> None:
    policy = _policy(_rows(1, 5), "who")
    engine = DuckDB(policy)
    _, reading = _asked(engine, policy, "SELECT code, COUNT(*) FROM t GROUP BY code")
    small = Integers.__new__(Integers)
    small._open = True
    with pytest.raises(Unsupported):
        small.check(reading)
    engine.close()
