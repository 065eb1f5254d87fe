"""Public tables carried to the server that holds the private ones: as values, with each statement that joins them.

They are read in this process by DuckDB, from wherever they are, and cleaned by its scan. What is public about a policy,
its catalog and how often a public row is matched, depends on them alone, so it is computed here too.

A policy can be opened without its data: with an empty table in place of each of its own. What a query costs, and how
large its error will be, follows from the policy alone, so over empty tables the price and the error are the same. That
they depend on nothing private needs no proof there: there is nothing private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering.reading_statements import arrow_type
from sfumato.engine.protocols import DataIdentity
from sfumato.engine.spellings.duckdb import quote_identifier as quoted
from sfumato.errors import InvalidPolicy
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import ValueCombinations
from sfumato.plan.nodes import GroupValues
from sfumato.policy import InMemory, Policy, Table, Type, Via
from sfumato.quick_dataclass import dataclass


def policy_over_empty_tables(policy: Policy) -> Policy:
    """Return the policy over empty tables in memory. A public table without declared columns is left out: its columns
    are known only from its rows.
    """
    tables = {name: table for name, table in policy.tables.items() if table.has_columns}
    empty = {name: replace(table, source=_empty_table(table, policy), relation=None) for name, table in tables.items()}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=empty, id_type=ids, path=None, account=policy.account_name)


def without_private_data(policy: Policy) -> Policy:
    """Return the policy with empty private tables."""
    tables = {
        name: table if table.public else replace(table, source=_empty_table(table, policy), relation=None)
        for name, table in policy.tables.items()
    }
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)


def _empty_table(table: Table, policy: Policy) -> InMemory:
    """Return a table without rows, with every column that the policy names."""
    import pyarrow

    fields = dict.fromkeys(id_columns(table, policy), pyarrow.string())
    fields |= {name: arrow_type(column.type) for name, column in table.columns.items()}
    fields |= {name: pyarrow.list_(arrow_type(column.items.type)) for name, column in table.lists.items()}
    return InMemory(pyarrow.Table.from_batches([], pyarrow.schema(list(fields.items()))))  # imports no pandas


def id_columns(table: Table, policy: Policy) -> list[str]:
    """List the columns that identify the owner of a row, in this table or for tables that refer to it."""
    references = [member.id for member in policy.tables.values() if isinstance(member.id, Via)]
    keys = [reference.key for reference in references if reference.via == table.name]
    if table.public or table.every_row:
        return keys
    return [*keys, table.id.on if isinstance(table.id, Via) else str(table.id)]


MAX_CARRIED_ROWS = 100_000
"""The maximum number of rows of a carried public table."""


@dataclass(frozen=True)
class PublicRows:
    """The clean rows of a public table, column by column; a real is a double."""

    names: Sequence[str]
    kinds: Sequence[Type]
    columns: Sequence[Sequence[Any]]


class CarriedTables:
    """The public tables of a policy whose private tables are on a server."""

    def __init__(self, policy: Policy) -> None:
        self._duckdb = DuckDB(without_private_data(policy))
        self._loaded: dict[str, PublicRows] = {}
        try:
            for name, table in policy.tables.items():
                if table.public and self._duckdb.sources.max_rows_per_value(name, ()) > MAX_CARRIED_ROWS:
                    raise public_table_too_large(name)
        except BaseException:
            self._duckdb.close()
            raise

    def catalog(self) -> Catalog:
        """Return the catalog of tables and columns that queries may use, private tables as declared."""
        return self._duckdb.catalog()

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on declared values, as DuckDB computes them here."""
        return self._duckdb.values(world)

    def rows(self, table: str) -> PublicRows:
        """Return the clean rows of a public table; they are read once."""
        if table not in self._loaded:
            columns = self._duckdb.sources.columns(table)
            quoted_names = ", ".join(map(quoted, columns))
            rows = self._duckdb.sources.run(f"SELECT {quoted_names} FROM {self._duckdb.sources.scan(table)}")
            cells = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
            self._loaded[table] = PublicRows(list(columns), [domain.type for domain in columns.values()], cells)
        return self._loaded[table]

    def check_unchanged(self) -> None:
        """Raise ``SourceChanged`` where a file of a public table is no longer the one that was opened."""
        self._duckdb.sources.check_unchanged()

    def fingerprint(self, table: str) -> str:
        """Hash the content of a public table."""
        return self._duckdb.sources.fingerprint(table)

    def identity(self) -> str:
        return self._duckdb.identity()

    def data(self) -> tuple[DataIdentity, ...]:
        """Identify what public tables are read from."""
        return self._duckdb.data(public=True)

    def close(self) -> None:
        self._duckdb.close()


def unreadable_public_table(table: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the rows of this public table cannot be read",
        place=f"tables.{table}.source",
        fix="check its name and the role's rights, and that its columns hold plain values",
    )


def public_table_too_large(table: str) -> InvalidPolicy:
    return InvalidPolicy(
        f"a public table that is joined with tables on a server may have at most {MAX_CARRIED_ROWS:,} rows",
        place=f"tables.{table}.source",
        fix="keep only the rows that questions need, chosen without looking at the private tables",
    )
