"""Open the engine of a policy: callers name the policy, never a driver.

A policy can be opened over invented rows: dummies in place of its private tables, beside its public ones. No private
source is opened for it, so nothing computed from it says anything about anybody.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.protocols import Engine, FetchedTable
from sfumato.policy import InMemory, Policy, Table, Type
from sfumato.policy.table_sources import engine_and_address, is_on_server


def open_engine(policy: Policy, memory: str | None = None, threads: int | None = None) -> Engine:
    """Open the engine that reads a policy's sources: the server that holds its private tables, or DuckDB for files and
    tables in memory.

    ``memory`` (such as "4GB") is what one query may use; beyond it the engine works on disk. ``threads`` is the number
    of threads the engine reads with: one per processor by default.
    """
    policy, kind = with_fetched_tables(policy), engine_name(policy)
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


def with_fetched_tables(policy: Policy) -> Policy:
    """Return the policy with its public tables on servers replaced by their fetched rows."""
    fetched = {
        name: _fetch_public_table(table)
        for name, table in policy.tables.items()
        if table.public and is_on_server(table.source)
    }
    if not fetched:
        return policy
    tables = {
        name: replace(table, source=fetched[name], relation=None) if name in fetched else table
        for name, table in policy.tables.items()
    }
    return replace(policy, tables=tables)


def _fetch_public_table(table: Table) -> FetchedTable:
    if engine_and_address(table.source)[0] == "PostgreSQL":
        from sfumato.engine.postgres import driver as of_postgres

        return of_postgres.fetch_public_table(table)
    if engine_and_address(table.source)[0] == "MariaDB":
        from sfumato.engine.mariadb import driver as of_mariadb

        return of_mariadb.fetch_public_table(table)
    from sfumato.engine.spark import driver as of_spark

    return of_spark.fetch_public_table(table)


def engine_name(policy: Policy) -> str:
    """Return the name of the engine that reads a policy's private tables, which are all in one."""
    return next(engine_and_address(table.source)[0] for table in policy.tables.values() if not table.public)


_INVENTED_ROWS = 1_000


def with_invented_rows(policy: Policy) -> Policy:
    """Return the policy over invented private tables in memory, the same ones every time."""
    from sfumato.policy.dummies import invent_tables

    private = {name: table for name, table in policy.tables.items() if not table.public}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    rows = min([_INVENTED_ROWS, *(table.row_ceiling for table in private.values())])
    dummy_tables = invent_tables(private, rows, ids)
    tables = {
        name: replace(table, source=InMemory(dummy_tables[name]), relation=None) if name in private else table
        for name, table in policy.tables.items()
    }
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
