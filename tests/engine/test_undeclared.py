"""What the policy does not declare, at the scan: other values, longer texts, larger and smaller reals."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import SOURCES, private
from sfumato.engine.duckdb.connection import Sources


def scanned(source: Any, column: dict[str, Any]) -> list[Any]:
    stored = {"relation": "t"} if str(source).endswith(".duckdb") else {}
    with Sources(private(source, {"a": column}, **stored)) as sources:
        return [row[0] for row in sources.run(f"SELECT a FROM {sources.scan('t')}")]


@pytest.mark.parametrize("kind", SOURCES)
def test_what_is_not_declared_is_other(kind: str, tmp_path: Path) -> None:
    table = pa.table({"a": ["CA", "TX", None, "NY", "ca", "other"]})
    found = scanned(SOURCES[kind](table, tmp_path), {"values": ["CA", "NY"], "other": "other"})
    assert sorted(found, key=str) == ["CA", "NY", None, "other", "other", "other"]
    assert scanned(table, {"values": ["CA", "NY"]}) == ["CA", None, None, "NY", None, None]


def test_other_is_of_the_columns_type() -> None:
    assert scanned(pa.table({"a": [1, 2, 3, None]}), {"values": [1, 2], "other": -1}) == [1, 2, -1, None]
    days = pa.table({"a": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]})
    declared = {"type": "date", "values": ["2024-01-01"], "other": "1900-01-01"}
    assert scanned(days, declared) == [dt.date(2024, 1, 1), dt.date(1900, 1, 1), None]
    assert scanned(pa.table({"a": ["1", "x", None]}), {"values": [1], "other": 0}) == [1, 0, None]


@pytest.mark.parametrize("kind", SOURCES)
def test_texts_are_cut_at_their_length(kind: str, tmp_path: Path) -> None:
    table = pa.table({"a": ["é" * 2_000, "short", None]})
    source = SOURCES[kind](table, tmp_path)
    assert set(scanned(source, {"type": "text"})) == {"é" * 1_000, "short", None}
    assert set(scanned(source, {"type": "text", "max_length": 3})) == {"ééé", "sho", None}


NUMBERS = [1e308, -1e308, 2.0**500, 3.3e150, 2.0**-500, 3e-151, -5e-324, 1.5, 0.0, float("inf"), float("nan"), None]


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv"])
def test_reals_have_one_range(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](pa.table({"a": NUMBERS}), tmp_path)
    assert scanned(source, {"type": "real"}) == [
        None, None, 2.0**500, None, 2.0**-500, 0, 0, 1.5, 0, None, None, None,
    ]  # fmt: skip
    assert scanned(source, {"type": "real", "bounds": [-1, 2]}) == [2, -1, 2, 2, 2.0**-500, 0, 0, 1.5, 0, 2, None, None]
    assert scanned(source, {"type": "real", "bounds": [1, 2]}) == [2, 1, 2, 2, 1, 1, 1, 1.5, 1, 2, None, None]
