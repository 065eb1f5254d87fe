"""Tables of a policy as a MariaDB server has them: the same rows, in the nearest types, in a database of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from mariadb_server import MariaDBServer
from sfumato.engine.mariadb.driver import MariaDB
from sfumato.engine.spellings.mariadb import quote_identifier
from sfumato.policy import InMemory, MariaDBTable, Policy

_DATABASES = count()
_TYPES = (
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "varchar(230) COLLATE utf8mb4_general_ci"),
    (pa.types.is_large_string, "varchar(230) COLLATE utf8mb4_general_ci"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "datetime(6)"),
    (pa.types.is_decimal, "decimal(38,9)"),
)
_FAR = 1e308
"""A double beyond every bound: MariaDB stores none that is infinite."""


def storable(cell: Any) -> Any:
    if isinstance(cell, float) and not math.isfinite(cell):
        return None if math.isnan(cell) else math.copysign(_FAR, cell)
    return cell


class Sessions:
    """One session of the server's administrator for many tables, and accounts that may read them."""

    def __init__(self, server: MariaDBServer) -> None:
        self.server = server
        self.session = server.connect()
        self.run("SET sql_mode = 'ANSI_QUOTES', innodb_strict_mode = 0")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def database(self, user: str | None = None) -> str:
        """A new database, and an account of the same name that may read its tables alone."""
        made = f"rows{next(_DATABASES)}"
        self.run(f"CREATE DATABASE {made} CHARACTER SET utf8mb4", f"CREATE USER IF NOT EXISTS {user or made}@localhost")
        self.run(f"GRANT SELECT ON {made}.* TO {user or made}@localhost")
        return made

    def copied(self, table: pa.Table, relation: str, types: Mapping[str, str] | None = None) -> None:
        """Write the rows of a table into a new one."""
        shape = {each.name: next(written for test, written in _TYPES if test(each.type)) for each in table.schema}
        shape |= dict(types or {})
        columns = ", ".join(f"{quote_identifier(each)} {written}" for each, written in shape.items())
        self.run(f"CREATE TABLE {relation} ({columns}) ENGINE = InnoDB")
        rows = [tuple(map(storable, row)) for row in zip(*(each.to_pylist() for each in table.columns), strict=True)]
        if rows:
            with self.session.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {relation} VALUES ({', '.join(['%s'] * len(shape))})", rows)

    def policy(self, policy: Policy, version: str | None = None) -> Policy:
        """The same policy with its private tables on the server; public ones stay where they are."""
        database = self.database()
        tables = dict(policy.tables)
        for each, table in policy.tables.items():
            if not table.public:
                assert isinstance(table.source, InMemory)
                self.copied(table.source.table, f"{database}.{each}")
                source = MariaDBTable(self.server.address(database, database), each, version)
                tables[each] = replace(table, source=source, relation=source.relation)
        return replace(policy, tables=tables)

    def engine(self, policy: Policy) -> MariaDB:
        return MariaDB(self.policy(policy))

    def close(self) -> None:
        self.session.close()
