"""Public tables are carried to the server that holds the private ones: as values, with each statement that joins them.

They are read here, by DuckDB, from wherever they are, and made clean by its scan. What is public of a policy, its
catalog and how often a public row is met, is known from them alone, so it is found here too.

A policy can be opened without its data: with an empty table in the place of each of its own.

What a question costs, and how wrong it will be, follows from the policy alone, so over empty tables it is told the same
price and the same error. That nothing private has a part in it needs no proof there: there is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.seam import DataIdentity
from sfumato.engine.spellings.duckdb import name as quoted
from sfumato.errors import InvalidPolicy
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey
from sfumato.policy import InMemory, Policy, Table, Type, Via

_STORED = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}


def without_data(policy: Policy) -> Policy:
    """Give the same policy over empty tables in memory. A public table that declares no columns is left out: its
    columns are known from its rows alone.
    """
    tables = {name: each for name, each in policy.tables.items() if each.declares}
    empty = {name: replace(each, source=_empty(each, policy), relation=None) for name, each in tables.items()}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=empty, id_type=ids, path=None)


def without_private_data(policy: Policy) -> Policy:
    """Give the same policy with empty private tables."""
    tables = {
        name: each if each.public else replace(each, source=_empty(each, policy), relation=None)
        for name, each in policy.tables.items()
    }
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)


def _empty(table: Table, policy: Policy) -> InMemory:
    """Make a table without rows, with every column that the policy names."""
    named = dict.fromkeys(_naming(table, policy), pyarrow.string())
    named |= {name: _STORED[each.type] for name, each in table.columns.items()}
    named |= {name: pyarrow.list_(_STORED[each.items.type]) for name, each in table.lists.items()}
    return InMemory(pyarrow.schema(list(named.items())).empty_table())


def _naming(table: Table, policy: Policy) -> list[str]:
    """List the columns that say whose a row is, in this table or for the tables whose paths lead through it."""
    paths = [each.id for each in policy.tables.values() if isinstance(each.id, Via)]
    keys = [each.key for each in paths if each.via == table.name]
    if table.public or table.every_row:
        return keys
    return [*keys, table.id.on if isinstance(table.id, Via) else str(table.id)]


MOST_ROWS = 100_000
"""Of a public table that is carried."""


@dataclass(frozen=True)
class Carried:
    """These are the clean rows of a public table, column by column; a real is a double."""

    names: Sequence[str]
    kinds: Sequence[Type]
    columns: Sequence[Sequence[Any]]


class CarriedTables:
    """These are the public tables of a policy whose private tables are on a server."""

    def __init__(self, policy: Policy) -> None:
        self._local = DuckDB(without_private_data(policy))
        self._carried: dict[str, Carried] = {}
        try:
            for name, table in policy.tables.items():
                if table.public and self._local.sources.multiplicity(name, ()) > MOST_ROWS:
                    raise too_large(name)
        except BaseException:
            self._local.close()
            raise

    def catalog(self) -> Catalog:
        """List what questions may refer to, private tables as they are declared."""
        return self._local.catalog()

    def values(self, world: World) -> Sequence[GroupKey]:
        """List the distinct results of expressions on declared values, as DuckDB computes them here."""
        return self._local.values(world)

    def rows(self, table: str) -> Carried:
        """Give the clean rows of a public table; they are read once."""
        if table not in self._carried:
            columns = self._local.sources.columns(table)
            names = ", ".join(map(quoted, columns))
            rows = self._local.sources.run(f"SELECT {names} FROM {self._local.sources.scan(table)}")
            listed = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
            self._carried[table] = Carried(list(columns), [each.type for each in columns.values()], listed)
        return self._carried[table]

    def check_unchanged(self) -> None:
        """Refuse where a file of a public table is no longer the one that was opened."""
        self._local.sources.check_unchanged()

    def fingerprint(self, table: str) -> str:
        """Hash the content of a public table."""
        return self._local.sources.fingerprint(table)

    def identity(self) -> str:
        return self._local.identity()

    def data(self) -> tuple[DataIdentity, ...]:
        """Identify what public tables are read from."""
        return self._local.data(public=True)

    def close(self) -> None:
        self._local.close()


def unread(table: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the rows of this public table cannot be read",
        place=f"tables.{table}.source",
        fix="check its name, its rights, and that the server gives its columns as values",
    )


def too_large(table: str) -> InvalidPolicy:
    return InvalidPolicy(
        f"a public table is fetched from a server, or carried to one, with at most {MOST_ROWS:,} rows",
        place=f"tables.{table}.source",
        fix="keep only the rows and columns that questions join",
    )
