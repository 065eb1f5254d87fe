"""Tables of a policy as a PostgreSQL server has them: the same rows, in the nearest types, in a schema of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa

from postgres_server import PostgresServer
from sfumato.engine.postgres.driver import Postgres
from sfumato.engine.spellings.postgres import quote_identifier
from sfumato.policy import InMemory, Policy, PostgresTable

_SCHEMAS = count()
_TYPES = (
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_decimal, "numeric"),
)


def stored_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{stored_type(kind.value_type)}[]"
    return next(written for test, written in _TYPES if test(kind))


class Sessions:
    """One session of the server's administrator for many tables."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.session = psycopg.connect(server.address(), autocommit=True)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        for statement in statements:
            found = self.session.execute(statement)  # type: ignore[call-overload]
        return found.fetchall() if found.description else []

    def schema(self) -> str:
        made = f"rows{next(_SCHEMAS)}"
        self.run(f"CREATE SCHEMA {made}")
        return made

    def copied(self, table: pa.Table, relation: str, types: Mapping[str, str] | None = None) -> None:
        """Write the rows of a table into a new one."""
        shape = {each.name: stored_type(each.type) for each in table.schema} | dict(types or {})
        columns = ", ".join(f"{quote_identifier(each)} {written}" for each, written in shape.items())
        self.run(f"CREATE TABLE {relation} ({columns})")
        with self.session.cursor().copy(f"COPY {relation} FROM STDIN") as copy:  # type: ignore[call-overload]
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)

    def policy(self, policy: Policy, version: str | None = None) -> Policy:
        """The same policy with its private tables on the server; public ones stay where they are."""
        schema = self.schema()
        tables = dict(policy.tables)
        for each, table in policy.tables.items():
            if not table.public:
                assert isinstance(table.source, InMemory)
                self.copied(table.source.table, f"{schema}.{each}")
                source = PostgresTable(self.server.address(), f"{schema}.{each}", version)
                tables[each] = replace(table, source=source, relation=source.relation)
        return replace(policy, tables=tables)

    def engine(self, policy: Policy) -> Postgres:
        return Postgres(self.policy(policy))

    def close(self) -> None:
        self.session.close()
