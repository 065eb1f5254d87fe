"""A sample is a function of the unit's own rows and a secret key, and every release has a key of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import tuples
from safety.worlds import World, question
from sfumato.curator.curators import Curator
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import BoundedPlan, Strategy
from sfumato.plan.readings.total_readings import GroupTotals, PlanReading

_REGIONS = [f"region {index}" for index in range(8)]
_COLUMNS = {"region": {"values": _REGIONS}, "age": {"type": "integer", "bounds": [0, 100]}}
_STORED = {"who": pa.int64(), "region": pa.string(), "age": pa.int64()}
WORLD = World(True, (2, 2, 1), _COLUMNS, _STORED, {}, ())
ROWS = [{"who": 1, "region": region, "age": age} for region in _REGIONS for age in range(1, 10)]
OTHERS = [{"who": who, "region": _REGIONS[who % 8], "age": who} for who in range(2, 60) for _ in range(3)]
KEYS = range(1, 68)
"""So many that a row which two in nine keys keep is missed by all with a probability below 1e-7."""


@pytest.fixture(scope="module")
def engines() -> Any:
    opened = {name: DuckDB(WORLD.policy(rows)) for name, rows in (("alone", ROWS), ("others", OTHERS))}
    opened["together"] = DuckDB(WORLD.policy([*reversed(ROWS), *OTHERS]))
    yield opened
    for each in opened.values():
        each.close()


@cache
def _asked(engine: DuckDB) -> tuple[BoundedPlan, tuple[Any, ...]]:
    asked = question(engine, engine._policy, "SELECT region, COUNT(*), SUM(age) FROM people GROUP BY region")
    return next(each for each in asked.bounding_options if each.strategy is Strategy.SAMPLE), asked.groups


def _totals(engine: DuckDB, key: int) -> list[tuple[int, ...]]:
    return tuples(engine.read(GroupTotals(*_asked(engine)), key))


def test_each_key_samples_anew(engines: dict[str, DuckDB]) -> None:
    """Every group and every row is kept by some key."""
    found = [_totals(engines["alone"], key) for key in KEYS]
    kept = {tuple(count for count, _ in totals) for totals in found}
    assert {age for totals in found for count, age in totals if count} == set(range(1, 10))
    assert all(any(groups) for groups in zip(*kept, strict=True))
    assert all(sum(groups) == 2 for groups in kept)


def test_each_key_chooses_groups_anew() -> None:
    """Where a unit may have more rows than groups, groups are chosen before rows: every one by some key; and in each of
    them, not always the same rows.
    """
    engine = DuckDB(replace(WORLD, limits=(4, 2, 2)).policy(ROWS))
    try:
        found = [_totals(engine, key) for key in KEYS[:40]]
    finally:
        engine.close()
    kept = {tuple(count > 0 for count, _ in totals) for totals in found}
    sums_by_group = [{ages for count, ages in group if count} for group in zip(*found, strict=True)]
    assert all(len(sums) > 1 for sums in sums_by_group)
    assert all(sum(groups) == 2 for groups in kept)
    assert all(any(groups) for groups in zip(*kept, strict=True))


def test_one_key_samples_the_same_rows_in_any_order_and_company(engines: dict[str, DuckDB]) -> None:
    for key in KEYS[:8]:
        alone, others, together = (_totals(engines[name], key) for name in ("alone", "others", "together"))
        parts = zip(alone, others, strict=True)
        assert together == [tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in parts]


def test_every_release_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys: list[int] = []
    read = DuckDB.read

    def spied(engine: DuckDB, reading: PlanReading[Any], key: int) -> Any:
        keys.append(key)
        return read(engine, reading, key)

    monkeypatch.setattr(DuckDB, "read", spied)
    with Curator(WORLD.policy(ROWS), tmp_path / "keys.ledger") as curator:
        asked = curator.sql("SELECT region, COUNT(*) FROM people GROUP BY region").limit(strategy="sample")
        for _ in range(5):
            asked.release(epsilon="0.1", fresh=True)
    assert len(set(keys)) == 5
    assert all(key.bit_length() > 20 for key in keys)  # 62 bits: shorter with probability below 1e-11
