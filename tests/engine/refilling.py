"""One database for the rows of many worlds in turn: to open another takes as long as to fill it twenty times."""

from __future__ import annotations

from sfumato.engine.duckdb import memory
from sfumato.engine.duckdb.connection import _ARROW_SOURCE
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.spellings.duckdb import quote_identifier
from sfumato.policy import InMemory, Policy


def refill(engine: DuckDB, policy: Policy) -> DuckDB:
    """Exchange the rows of an engine's tables for those of a policy that declares the same, and return the engine.

    Settings, views and statements stay as they were opened. A table whose cells are stored in other types is refused by
    DuckDB when its view is read.
    """
    for name, table in policy.tables.items():
        assert table.columns == engine.sources.policy.tables[name].columns
        assert isinstance(table.source, InMemory)
        source = memory.wrap_table(table.source.table, name)
        positions = [source.names.index(column) for column, _ in engine.sources._relations[name].columns]
        rows = memory.to_arrow(source, positions, name)
        copy, arriving = quote_identifier(f"sf copy of {name}"), quote_identifier(_ARROW_SOURCE)
        with engine.sources._cursor() as cursor:
            cursor.register(_ARROW_SOURCE, rows).execute(f"CREATE OR REPLACE TABLE {copy} AS SELECT * FROM {arriving}")
    return engine
