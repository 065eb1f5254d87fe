"""A policy's engine is opened here: whoever opens one names the policy, and no driver.

A policy can be opened over invented rows: dummies in the place of its private tables, beside its public ones.

What is read there is read of no private source: none is opened. So whatever is made of it says nothing of anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.engine.duckdb import connection, inspection
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.duckdb.paired_tables import PairedTables as PairedTables, paired_tables as paired_tables
from sfumato.engine.seam import Engine, Fetched, Inspector
from sfumato.policy import InMemory, Policy, Table, Type
from sfumato.policy.dummies import dummies
from sfumato.policy.table_sources import engine_of


def open_engine(policy: Policy, memory: str | None = None, threads: int | None = None) -> Engine:
    """Open the engine that reads a policy's sources: the server that holds its private tables, or DuckDB for files and
    tables in memory.

    ``memory`` (such as "4GB") is what one question may take; beyond it the engine works on disk. ``threads`` is how
    many the engine reads with: as many as there are processors where nothing is said.
    """
    policy, kind = with_fetched_tables(policy), _engine(policy)
    if kind == "PostgreSQL":
        from sfumato.engine.postgres.driver import Postgres

        return Postgres(policy, memory)
    if kind == "Spark":
        from sfumato.engine.spark.driver import Spark

        return Spark(policy)
    return DuckDB(policy, memory, threads)


def open_inspector(policy: Policy) -> Inspector:
    """Open what shows an owner the exact cost of a policy's bounds and limits. PRIVATE."""
    policy = with_fetched_tables(policy)
    if _engine(policy) == "PostgreSQL":
        from sfumato.engine.postgres.driver import PostgresInspector

        return PostgresInspector(policy)
    if _engine(policy) == "Spark":
        from sfumato.engine.spark.driver import SparkInspector

        return SparkInspector(policy)
    return inspection.DuckDBInspector(policy)


def with_fetched_tables(policy: Policy) -> Policy:
    """Give the same policy with the rows of public tables that servers hold, fetched from wherever each of them is."""
    fetched = {name: _fetched(each) for name, each in policy.tables.items() if each.public and _on_server(each)}
    if not fetched:
        return policy
    tables = {
        name: replace(each, source=fetched[name], relation=None) if name in fetched else each
        for name, each in policy.tables.items()
    }
    return replace(policy, tables=tables)


def _on_server(table: Table) -> bool:
    return engine_of(table.source)[0] != "DuckDB"


def _fetched(table: Table) -> Fetched:
    if engine_of(table.source)[0] == "PostgreSQL":
        from sfumato.engine.postgres import driver as of_postgres

        return of_postgres.fetch(table)
    from sfumato.engine.spark import driver as of_spark

    return of_spark.fetch(table)


def _engine(policy: Policy) -> str:
    """Name the engine that reads a policy's private tables, which live in one."""
    return next(engine_of(table.source)[0] for table in policy.tables.values() if not table.public)


def misquoted_lines(policy: Policy) -> Iterator[tuple[str, int]]:
    """Find each CSV file of a policy that has a line which is not one record, and the number of its first. PRIVATE."""
    return inspection.misquoted_lines(policy)


def schema(source: Path, relation: str | None = None) -> dict[str, Type | None]:
    """The column names of a file and their types (None in a CSV file, where all is text). No row is read."""
    return connection.schema(source, relation)


def unnamed_columns(source: Path, relation: str | None = None) -> list[str]:
    """List the columns of a file that no question can name, as the file calls them. No row is read."""
    return connection.unnamed_columns(source, relation)


def written_types(source: Path, relation: str | None = None) -> dict[str, Type]:
    """Find the types that the cells of a table can be read as, where its file stores texts. PRIVATE: this reads rows,
    and is for an owner who said that it may.
    """
    return connection.written_types(source, relation)


def types_in_memory(table: Any) -> dict[str, Type]:
    """Find the types of the columns of an Arrow, pandas or polars table; a column of mixed objects is text."""
    return connection.types_in_memory(table)


def tables(source: Path) -> list[str]:
    """List the tables and views in a database file; none for a file of another kind. No row is read."""
    return connection.tables(source)


def whole_table(source: Path, relation: str) -> Any:
    """Read all rows of a table in a database file into memory, as Arrow. PRIVATE."""
    return connection.whole_table(source, relation)


def write_table(rows: Any, place: Path, relation: str) -> None:
    """Write an Arrow table as a new one of a database file, which is made where it is not there."""
    connection.write_table(rows, place, relation)


_ROWS = 1_000


def with_invented_rows(policy: Policy) -> Policy:
    """Give the same policy over invented private tables in memory, the same ones every time."""
    private = {name: each for name, each in policy.tables.items() if not each.public}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    rows = min([_ROWS, *(each.row_ceiling for each in private.values())])
    made = dummies(private, rows, ids)
    tables = {
        name: replace(each, source=InMemory(made[name]), relation=None) if name in private else each
        for name, each in policy.tables.items()
    }
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
