"""Public tables are carried to the server that holds the private ones: as values, with each statement that joins them.

They are read here, by DuckDB, from wherever they are, and made clean by its scan. What is public of a policy, its
catalog and how often a public row is met, is known from them alone, so it is found here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.empty_sources import without_private_data
from sfumato.engine.seam import Data
from sfumato.engine.spellings.duckdb_literals import name as quoted
from sfumato.errors import InvalidPolicy
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Policy, Type

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

    def data(self) -> tuple[Data, ...]:
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
