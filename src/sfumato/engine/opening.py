"""Open the engine of a policy: callers name the policy, never a driver.

A policy can be opened over invented rows: dummies in place of its private tables, beside its public ones. No private
source is opened for it, so nothing computed from it says anything about anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.engine.duckdb import file_inspection, inspection
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.duckdb.file_inspection import shared_inspection as shared_inspection
from sfumato.engine.duckdb.inspection import (
    PairedTables as PairedTables,
    TriedDeclarations as TriedDeclarations,
    paired_tables as paired_tables,
)
from sfumato.engine.protocols import Engine, FetchedTable, Inspector
from sfumato.policy import InMemory, Policy, Table, Type
from sfumato.policy.dummies import invent_tables
from sfumato.policy.table_sources import engine_and_address, is_on_server


def open_engine(policy: Policy, memory: str | None = None, threads: int | None = None) -> Engine:
    """Open the engine that reads a policy's sources: the server that holds its private tables, or DuckDB for files and
    tables in memory.

    ``memory`` (such as "4GB") is what one query may use; beyond it the engine works on disk. ``threads`` is the number
    of threads the engine reads with: one per processor by default.
    """
    policy, kind = with_fetched_tables(policy), _engine_name(policy)
    if kind == "PostgreSQL":
        from sfumato.engine.postgres.driver import Postgres

        return Postgres(policy, memory)
    if kind == "MariaDB":
        from sfumato.engine.mariadb.driver import MariaDB

        return MariaDB(policy)
    if kind == "Spark":
        from sfumato.engine.spark.driver import Spark

        return Spark(policy)
    return DuckDB(policy, memory, threads)


def open_inspector(policy: Policy) -> Inspector:
    """Open an inspector, which shows an owner the exact cost of a policy's bounds and limits. PRIVATE."""
    policy = with_fetched_tables(policy)
    if _engine_name(policy) == "PostgreSQL":
        from sfumato.engine.postgres.driver import PostgresInspector

        return PostgresInspector(policy)
    if _engine_name(policy) == "MariaDB":
        from sfumato.engine.mariadb.driver import MariaDBInspector

        return MariaDBInspector(policy)
    if _engine_name(policy) == "Spark":
        from sfumato.engine.spark.driver import SparkInspector

        return SparkInspector(policy)
    return inspection.DuckDBInspector(policy)


def with_fetched_tables(policy: Policy) -> Policy:
    """Return the policy with its public tables on servers replaced by their fetched rows."""
    fetched = {
        name: _fetch(table) for name, table in policy.tables.items() if table.public and is_on_server(table.source)
    }
    if not fetched:
        return policy
    tables = {
        name: replace(table, source=fetched[name], relation=None) if name in fetched else table
        for name, table in policy.tables.items()
    }
    return replace(policy, tables=tables)


def _fetch(table: Table) -> FetchedTable:
    if engine_and_address(table.source)[0] == "PostgreSQL":
        from sfumato.engine.postgres import driver as of_postgres

        return of_postgres.fetch(table)
    if engine_and_address(table.source)[0] == "MariaDB":
        from sfumato.engine.mariadb import driver as of_mariadb

        return of_mariadb.fetch(table)
    from sfumato.engine.spark import driver as of_spark

    return of_spark.fetch(table)


def _engine_name(policy: Policy) -> str:
    """Return the name of the engine that reads a policy's private tables, which are all in one."""
    return next(engine_and_address(table.source)[0] for table in policy.tables.values() if not table.public)


def misquoted_lines(policy: Policy) -> Iterator[tuple[str, int]]:
    """Yield each CSV file of a policy with a line that is not one record, and the number of its first such line.
    PRIVATE.
    """
    return inspection.misquoted_lines(policy)


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


def count_beyond(policy: Policy, table: str, column: str, literals: Sequence[str]) -> tuple[int, list[int], list[int]]:
    """Return how many clean cells a column of a file has, and how many are below and above each literal. PRIVATE."""
    return inspection.count_cells_beyond(policy, table, column, literals)


def types_in_memory(table: Any) -> dict[str, Type]:
    """Return the types of the columns of an Arrow, pandas or polars table; a column of mixed objects is text."""
    return file_inspection.types_in_memory(table)


def tables(source: Path) -> list[str]:
    """List the tables and views in a database file; none for a file of another kind. No row is read."""
    return file_inspection.tables(source)


def read_table(source: Path, relation: str) -> Any:
    """Read all rows of a table in a database file into memory, as Arrow. PRIVATE."""
    return file_inspection.read_table(source, relation)


def write_table(rows: Any, database: Path, relation: str) -> None:
    """Write an Arrow table as a new table of a database file, creating the file if needed."""
    file_inspection.write_table(rows, database, relation)


_INVENTED_ROWS = 1_000


def with_invented_rows(policy: Policy) -> Policy:
    """Return the policy over invented private tables in memory, the same ones every time."""
    private = {name: table for name, table in policy.tables.items() if not table.public}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    rows = min([_INVENTED_ROWS, *(table.row_ceiling for table in private.values())])
    dummy_tables = invent_tables(private, rows, ids)
    tables = {
        name: replace(table, source=InMemory(dummy_tables[name]), relation=None) if name in private else table
        for name, table in policy.tables.items()
    }
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
