"""Policies and files for the tests of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

DATA = Path(__file__).parent.parent / "data"


def policy_of(*tables: Table) -> Policy:
    rows = any(table.every_row for table in tables)
    return Policy(PrivacyUnit("person", every_row=rows), Budget(3, "1e-6"), {table.name: table for table in tables})


def private(source: Any, columns: Mapping[str, Any], unit: str = "row", **more: Any) -> Policy:
    """A policy of one private table called t."""
    limits = {} if unit == "row" else {"max_rows": 3}
    return policy_of(Table("t", source, columns, id=unit, **limits, **more))


def public(source: Any, **more: Any) -> Policy:
    """A policy whose public table is called p."""
    someone = pa.table({"a": [1]})
    return policy_of(Table("t", someone, {"a": {"type": "integer"}}, id="row"), Table("p", source, public=True, **more))


def tuples(totals: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Totals as whole numbers of Python's own, a tuple for each group."""
    return [tuple(row) for row in totals.tolist()]


def in_parquet(table: pa.Table, folder: Path) -> Path:
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


_writer = cache(duckdb.connect)
"""One database for all files that are written: to open another takes as long as to write twenty."""


def in_csv(table: pa.Table, folder: Path) -> Path:
    with _writer().cursor() as cursor:
        cursor.register("t", table).execute(f"COPY t TO '{folder / 't.csv'}' (HEADER)")
    return folder / "t.csv"


def in_database(table: pa.Table, folder: Path) -> Path:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("arriving", table).execute("CREATE TABLE t AS SELECT * FROM arriving")
    return folder / "t.duckdb"


SOURCES = {
    "csv": in_csv,
    "parquet": in_parquet,
    "duckdb": in_database,
    "arrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: polars.from_arrow(table),
}
