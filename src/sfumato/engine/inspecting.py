"""Inspect the sources of a policy, and files before there is one, for their owner: callers name no driver.

Opening an engine to answer questions needs none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sfumato.engine.duckdb import file_inspection, inspection
from sfumato.engine.duckdb.file_inspection import shared_inspection as shared_inspection
from sfumato.engine.duckdb.inspection import (
    PairedTables as PairedTables,
    TriedDeclarations as TriedDeclarations,
    paired_tables as paired_tables,
)
from sfumato.engine.opening import engine_name, with_fetched_tables
from sfumato.engine.protocols import Inspector
from sfumato.policy import Policy, Type


def open_inspector(policy: Policy) -> Inspector:
    """Open an inspector, which shows an owner the exact cost of a policy's bounds and limits. PRIVATE."""
    policy = with_fetched_tables(policy)
    if engine_name(policy) == "PostgreSQL":
        from sfumato.engine.postgres.driver import Postgres
        from sfumato.engine.server_engine import ServerInspector

        return ServerInspector(policy, Postgres(policy))
    if engine_name(policy) == "MariaDB":
        from sfumato.engine.mariadb.driver import MariaDB
        from sfumato.engine.server_engine import ServerInspector

        return ServerInspector(policy, MariaDB(policy))
    if engine_name(policy) == "Spark":
        from sfumato.engine.spark.driver import SparkInspector

        return SparkInspector(policy)
    return inspection.DuckDBInspector(policy)


def first_misquoted_line_by_file(policy: Policy) -> Iterator[tuple[str, int]]:
    """Yield each CSV file of a policy with a line that is not one record, and the number of its first such line.
    PRIVATE.
    """
    return inspection.first_misquoted_line_by_file(policy)


def schema(source: Path, relation: str | None = None) -> dict[str, Type | None]:
    """Return the column names of a file and their types (None in a CSV file, where all is text). No row is read."""
    return file_inspection.schema(source, relation)


def unusable_columns(source: Path, relation: str | None = None) -> list[str]:
    """List the columns of a file whose names queries cannot use, as the file names them. No row is read."""
    return file_inspection.unusable_columns(source, relation)


def inferred_types(source: Path, relation: str | None = None, nulls: Collection[str] = ()) -> dict[str, Type]:
    """Infer the types that the cells of a table, without ``nulls``, parse as, where its file stores text. PRIVATE: it
    reads rows, for an owner who allowed it.
    """
    return file_inspection.inferred_types(source, relation, nulls)


def sample_texts(source: Path, relation: str | None, columns: Collection[str]) -> dict[str, list[str | None]]:
    """Return the cells of text columns in the first rows of a file, in its order. PRIVATE."""
    return file_inspection.sample_texts(source, relation, columns)


def count_file_cells_outside(
    policy: Policy, table: str, column: str, literals: Sequence[str]
) -> tuple[int, list[int], list[int]]:
    """Return how many clean cells a column of a file has, and how many are below and above each literal. PRIVATE."""
    return inspection.count_cells_outside(policy, table, column, literals)


def types_in_memory(table: Any) -> dict[str, Type]:
    """Return the types of the columns of an Arrow, pandas or polars table; a column of mixed objects is text."""
    return file_inspection.types_in_memory(table)


def tables(source: Path) -> list[str]:
    """List the tables and views in a database file; none for a file of another kind. No row is read."""
    return file_inspection.tables(source)


def read_all_rows(database: Path, relation: str) -> Any:
    """Read all rows of a table in a database file into memory, as Arrow. PRIVATE."""
    return file_inspection.read_all_rows(database, relation)


def write_table(rows: Any, database: Path, relation: str) -> None:
    """Write an Arrow table as a new table of a database file, creating the file if needed."""
    file_inspection.write_table(rows, database, relation)
