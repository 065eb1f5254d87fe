"""Units beyond a limit are numbered in this process: no total shows it, and nothing but DuckDB is asked to."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import reading_statements
from sfumato.engine.lowering.reading_statements import local_statement, server_readings, server_statement
from sfumato.engine.lowering.relational_form import Rank, Select, StagedSelect, StageReference
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.plan.readings.total_readings import DiscoveredGroups, PlanReading

ASKED = {
    **{
        f"totals by {strategy}": ("SELECT a, COUNT(*), SUM(cost) FROM visits GROUP BY a", {"strategy": strategy})
        for strategy in ("clip-l1", "clip-l2", "sample")
    },
    "people by clip-l1": ("SELECT a, COUNT(DISTINCT who) FROM visits GROUP BY a", {"strategy": "clip-l1"}),
    "both": ("SELECT a, COUNT(DISTINCT who), SUM(cost) FROM visits GROUP BY a", {"strategy": "sample"}),
    "discovered": ("SELECT note, a, COUNT(*), SUM(cost) FROM visits GROUP BY note, a", {}),
    "quantiles": ("SELECT a, MEDIAN(cost) FROM visits GROUP BY a", {}),
    "distinct values": ("SELECT a, COUNT(DISTINCT b) FROM visits GROUP BY a", {}),
    "frequent values": ("SELECT a, MODE(b) FROM visits GROUP BY a", {}),
}


def _policy() -> sf.Policy:
    random = Random(11)
    rows = [
        (
            f"a person with a long name {person}",
            random.choice("pqrst"),
            random.choice("xyz"),
            random.randint(-9, 9),
            note,
        )
        for person in range(40)
        for note in random.choices(["often", "seldom"], k=person % 9)
    ]
    random.shuffle(rows)
    source = pa.table(dict(zip(("who", "a", "b", "cost", "note"), map(list, zip(*rows, strict=True)), strict=True)))
    domains = {
        "a": sf.Domain("text", values=list("pqrst")),
        "b": sf.Domain("text", values=list("xyz")),
        "cost": sf.Domain("integer", bounds=(-9, 9)),
        "note": sf.Domain("text", max_length=20),
    }
    table = sf.Table("visits", source, domains, id="who", max_rows=4, max_groups=2, max_rows_per_group=3)
    return sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1000, "1e-3"), {"visits": table}, allow_large_delta=True)


def _numbers(statement: StagedSelect) -> list[str]:
    """The stages of a statement in which rows are numbered in an order of the engine's choice."""
    return [
        name
        for name, select in (*statement.stages, ("the result", statement.result))
        if any(isinstance(scalar, Rank) and not scalar.partition for _, scalar in select.columns)
    ]


def _parts(result: Any) -> object:
    """What a reading returned, with rows of discovered groups in one order: theirs is the engine's choice."""
    if isinstance(result, DiscoveredGroups):
        keys = result.key_values(np.arange(len(result.holders)))
        rows = zip(result.key_index, result.declared_index, result.totals.tolist(), strict=True)
        holders = dict(zip(keys, result.holders.tolist(), strict=True))
        return holders, sorted((keys[key], int(declared), totals) for key, declared, totals in rows)
    return dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ASKED)
def test_every_reading_is_the_same_with_ids_and_with_numbers(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read, numbered = DuckDB.read, list[str]()

    def read_both(engine: DuckDB, reading: PlanReading[Any], sampling_key: int) -> Any:
        result = read(engine, reading, sampling_key)
        numbered.extend(_numbers(local_statement(reading, sampling_key)))
        with monkeypatch.context() as patch:
            patch.setattr(reading_statements, "number_heavy_units", lambda statement: statement)
            patch.setattr(engine, "_last_totals", None)
            assert not _numbers(local_statement(reading, sampling_key))
            np.testing.assert_equal(_parts(result), _parts(read(engine, reading, sampling_key)))
        patch.setattr(engine, "_last_totals", None)
        assert not any(_numbers(server_statement(each, sampling_key)) for each in server_readings(reading))
        return result

    monkeypatch.setattr(DuckDB, "read", read_both)
    text, limits = ASKED[kind]
    with sf.Curator(_policy(), tmp_path / "ledger") as curator:
        question = curator.sql(text)
        (question.limit(**limits) if limits else question).release(epsilon=1, delta="1e-6")
    assert set(numbered) == {"h"}


def test_a_stage_whose_rows_are_numbered_is_computed_once() -> None:
    number = Select((("q", Rank((), ())),), StageReference("rows"))
    text = Generator(DuckDBSpelling(), str).statement(StagedSelect((("h", number),), Select((), StageReference("h"))))
    assert "h AS MATERIALIZED (" in text
