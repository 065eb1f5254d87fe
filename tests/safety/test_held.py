"""Totals of any size are held to 64 bits before noise is added: nothing wraps, nothing fails, neighbours stay near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.tables import tuples
from safety.worlds import World, question
from sfumato.curator.curators import Curator
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy.domains import LARGEST_INTEGER

_COLUMNS = {"region": {"values": ["north", "south"]}, "age": {"type": "integer", "bounds": [0, 10]}}
_STORED = {"who": pa.int64(), "region": pa.string(), "age": pa.int64()}
QUESTIONS = {
    "one number": ("SELECT SUM(age) FROM people", lambda total: [(total,)]),
    "groups": ("SELECT region, SUM(age) FROM people GROUP BY region", lambda total: [("south", total), ("north", 7)]),
    "a mean": ("SELECT AVG(age) FROM people", lambda total: [(total, total)]),
}
SIZES = [2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64, 2**64 + 5, 2**100, 10**38 - 1]
WORLD = World(True, (5, 3, 2), _COLUMNS, _STORED, {}, ())


@pytest.fixture
def engine() -> Any:
    opened = DuckDB(WORLD.policy([]))
    yield opened
    opened.close()


def _answering(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Any, ...]]) -> None:
    """As if so many rows had been added up: the engine's own sums are whole numbers of 128 bits."""
    listed = ", ".join(f"({', '.join(map(_written, row))})" for row in rows)
    monkeypatch.setattr(DuckDB, "_statement", lambda *_: f"SELECT * FROM (VALUES {listed})")


def _written(cell: Any) -> str:
    return f"'{cell}'" if isinstance(cell, str) else f"({cell})::HUGEINT"


def _totals(monkeypatch: pytest.MonkeyPatch, engine: DuckDB, total: int) -> int:
    text, rows = QUESTIONS["groups"]
    asked = question(engine, engine._policy, text)
    options, groups = asked.bounding_options, asked.groups
    with monkeypatch.context() as patch:
        _answering(patch, rows(total))
        found = dict(zip(groups, tuples(engine.read(GroupTotals(options[0], tuple(groups)), 7)), strict=True))
    assert found[("north",)] == (7,)
    return found[("south",)][0]


@pytest.mark.parametrize("size", SIZES)
def test_totals_are_held_to_what_64_bits_hold(monkeypatch: pytest.MonkeyPatch, engine: DuckDB, size: int) -> None:
    for total in (size, -size):
        held = _totals(monkeypatch, engine, total)
        assert held == max(-LARGEST_INTEGER, min(LARGEST_INTEGER, total))
        assert np.int64(held) == held
        for change in (1, 1000, 2**26):  # a unit more moves what is held by no more than it moves the total
            assert abs(_totals(monkeypatch, engine, total + change) - held) <= change


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("total", [2**62, 2**63, -(2**63) - 1, 2**64 + 5, -(2**100)])
def test_a_release_of_any_total_is_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, total: int
) -> None:
    """A total that did not fit would end in a refusal, after the charge, that tells how large it was."""
    text, rows = QUESTIONS[name]
    with Curator(WORLD.policy([]), tmp_path / "held.ledger") as curator:
        asked = curator.sql(text)
        assert asked.groups
        _answering(monkeypatch, rows(total))
        answer = asked.release(epsilon="0.5")
    if name != "a mean":
        shown = {row[0]: row[-1] for row in answer.rows} if name == "groups" else {"south": answer.rows[0][0]}
        assert shown["south"] * total > 0
        if name == "groups":
            assert abs(shown["north"]) < 2**40
