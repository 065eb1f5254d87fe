"""Where a table's rows are is one of a few kinds, whichever way it was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfumato.errors import InvalidPolicy
from sfumato.policy import DatabaseTable, File, InMemory, Table

HELD = pa.table({"a": [1]})


@pytest.mark.parametrize(
    ("given", "more", "meant"),
    [
        ("t.csv", {}, File(Path("t.csv"))),
        (Path("t-*.parquet"), {}, File(Path("t-*.parquet"))),
        ("t.duckdb", {"relation": "people"}, DatabaseTable(Path("t.duckdb"), "people")),
        (DatabaseTable(Path("t.duckdb"), "people"), {}, DatabaseTable(Path("t.duckdb"), "people")),
        (HELD, {}, InMemory(HELD)),
    ],
)
def test_a_source_is_of_one_kind_however_it_is_written(given: Any, more: dict[str, str], meant: object) -> None:
    table = Table("t", given, public=True, **more)  # type: ignore[arg-type]
    assert table.source == meant
    assert table.relation == getattr(meant, "relation", None)
    again = replace(table, row_ceiling=5)
    assert (again.source, again.relation) == (table.source, table.relation)


def test_a_table_in_a_database_is_named_once() -> None:
    with pytest.raises(InvalidPolicy, match="name different tables"):
        Table("t", DatabaseTable(Path("t.duckdb"), "people"), public=True, relation="others")
