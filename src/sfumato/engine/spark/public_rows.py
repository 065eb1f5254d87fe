"""Public tables of a policy whose private ones are on Spark: their rows are known here, and are carried there as values.

What questions may refer to, how public rows meet, and which keys declared values lead to is found in this process, over
the public tables and empty ones in the place of the private: no server is asked, and nothing private is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.spark.sessions import Session, quietly
from sfumato.engine.spark.sources import Frame, opened
from sfumato.engine.spellings.duckdb_literals import name as quoted
from sfumato.engine.spellings.spark import TYPES
from sfumato.engine.spellings.spark_literals import name
from sfumato.errors import InvalidPolicy
from sfumato.policy import InMemory, Policy, Table, Type, Via
from sfumato.policy.table_sources import SparkFrame, SparkTable

MOST_CARRIED = 100_000
"""Public tables have at most so many rows."""
_STORED = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}


def known_here(policy: Policy, session: Session) -> DuckDB:
    """Open the public tables of a policy in this process, beside empty private ones."""
    tables = {each.name: _here(each, policy, session) for each in policy.tables.values()}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return DuckDB(replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name), threads=1)


def _here(table: Table, policy: Policy, session: Session) -> Table:
    if not table.public:
        return replace(table, source=InMemory(_empty(table, policy)), relation=None)
    if not isinstance(table.source, SparkTable | SparkFrame):
        return table
    place = f"tables.{table.name}.source"
    source = opened(table.source, session, place)
    rows = quietly(lambda: source.frame.toDF(*(true for true, _ in source.columns)).limit(MOST_CARRIED + 1).toArrow())
    _check_rows(rows.num_rows, table.name)
    return replace(table, source=InMemory(rows), relation=None)


def _empty(table: Table, policy: Policy) -> pyarrow.Table:
    """Make a table without rows, with every column that the policy names."""
    paths = [each.id for each in policy.tables.values() if isinstance(each.id, Via) and each.id.via == table.name]
    naming = [each.key for each in paths]
    if not table.every_row:
        naming.append(table.id.on if isinstance(table.id, Via) else str(table.id))
    columns = dict.fromkeys(naming, pyarrow.string())
    columns |= {each: _STORED[domain.type] for each, domain in table.columns.items()}
    columns |= {each: pyarrow.list_(_STORED[column.items.type]) for each, column in table.lists.items()}
    return pyarrow.schema(list(columns.items())).empty_table()


def carried(here: DuckDB, table: str, session: Session) -> Frame:
    """Carry the clean rows of a public table to Spark, as values of the plan."""
    columns: Mapping[str, Any] = here.sources.columns(table)
    scan = here.sources.scan(table)
    _check_rows(int(here.sources.run(f"SELECT count(*) FROM {scan}")[0][0]), table)
    rows = here.sources.run(f"SELECT {', '.join(map(quoted, columns))} FROM {scan}")
    schema = ", ".join(f"{name(each)} {TYPES[domain.type]}" for each, domain in columns.items())
    return quietly(lambda: session.spark.createDataFrame(rows, schema))


def _check_rows(rows: int, table: str) -> None:
    if rows > MOST_CARRIED:
        raise InvalidPolicy(
            f"a public table beside private ones on a server has at most {MOST_CARRIED:,} rows; {table} has more",
            place=f"tables.{table}.source",
            fix="leave out the rows and columns that no question needs",
        )
