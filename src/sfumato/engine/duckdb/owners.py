"""Determine the unit of each row in DuckDB's SQL: by the id in the row, or through the rows of another table it refers
to.

Each rule looks at one row and, along a path, at the rows of other tables that have its key. A row reached from several
units is a row of each, and (key, unit) pairs are made distinct at every hop, so how often a unit names a key does not
matter. The rows of a unit after the scan thus depend on its own rows and on rows without an id, never on what other
units own: two databases that differ in one unit differ in that unit's rows alone.

A source becomes a relation to select from, with the original names and stored types of its columns.
"""

from __future__ import annotations

import datetime as dt
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfumato.engine.duckdb import files, memory
from sfumato.engine.duckdb.scan import (
    FLOAT_TYPES,
    INTEGER_TYPES,
    Cell,
    Owner,
    clean_cell,
    distinct_links_sql,
    exact_id_sql,
    has_id_condition,
    integer_id_sql,
    text_id_sql,
)
from sfumato.engine.sources import clean_cells
from sfumato.engine.spellings.duckdb import literal, literal_list, quote_identifier
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.values import calendar
from sfumato.policy import DatabaseTable, Domain, Policy, Table, Type, Via
from sfumato.policy.domains import is_name
from sfumato.quick_dataclass import dataclass

Execute = Callable[[str], list[tuple[Any, ...]]]
_MAX_TABLES_IN_MESSAGE = 20

# One line is one record (checked by files.checked_lines), and one thread reads them: several would guess where lines
# begin. A short record is padded with NULL, a long one is truncated, and one that is not UTF-8 where it is read, or
# longer than 2 MB, is skipped.
_CSV_OPTIONS = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false,"
    " null_padding = true, strict_mode = false, ignore_errors = true, parallel = false, max_line_size = 2000000"
)


@dataclass(frozen=True)
class OpenedRelation:
    """A relation to select from, with each column's cell under the name its source gives it."""

    sql: str
    columns: tuple[tuple[str, Cell], ...]

    def find_column(self, column: str, policy_path: str) -> Cell:
        """Return the column of that name: an exact match or, if unique, one that differs in letter case or in how
        accents are composed.
        """
        return clean_cells.find_column(
            self.columns,
            column,
            policy_path,
            "name a column of the source; the columns of a CSV file are separated by commas",
        )

    def usable_columns(self) -> list[tuple[str, Cell]]:
        """List the columns whose names queries can use; of names that differ only in letter case, the first."""
        by_folded_name: dict[str, tuple[str, Cell]] = {}
        for original, cell in self.columns:
            column = unicodedata.normalize("NFC", original)
            if is_name(column):
                by_folded_name.setdefault(column.lower(), (column, cell))
        return list(by_folded_name.values())


def open_relation(table: Table, databases: dict[str, str], execute: Execute) -> tuple[files.Files, OpenedRelation]:
    """Open a table in files. ``databases`` maps each attached database file to its alias."""
    path = f"tables.{table.name}.source"
    table_files = files.find_files(table.source.path, path)
    if table_files.kind == "csv":
        return table_files, csv_relation(table_files, path)
    if table_files.kind == "parquet":
        return table_files, parquet_relation(table_files, path, execute)
    alias = databases.setdefault(table_files.paths[0], f"sf database {len(databases)}")
    return table_files, database_relation(table_files, table, alias, path, execute)


def csv_relation(table_files: files.Files, policy_path: str) -> OpenedRelation:
    """Open CSV files with every cell as text: the scan converts it to the declared type."""
    columns_of_first = files.csv_header(table_files.paths[0], policy_path)
    for path in table_files.paths[1:]:
        if files.csv_header(path, policy_path) != columns_of_first:
            raise InvalidPolicy(
                "the CSV files of this table have different columns",
                place=policy_path,
                fix="give all files the same header",
            )
    column_types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(columns_of_first)))
    sql = f"read_csv([{literal_list(table_files.paths)}], columns = {{{column_types}}}, {_CSV_OPTIONS})"
    return OpenedRelation(sql, tuple((column, Cell(f"c{i}", "VARCHAR")) for i, column in enumerate(columns_of_first)))


def parquet_relation(table_files: files.Files, policy_path: str, execute: Execute) -> OpenedRelation:
    """Open Parquet files with one schema in common.

    The minimum and maximum of a column in a Parquet footer ignore NaN. Unless DuckDB is told that there may be NaN, it
    folds comparisons by them: one unit's row, which moves a minimum, would decide what other units' cells mean.
    """
    schemas = [_parquet_columns(path, policy_path, execute) for path in table_files.paths]
    if any(schema != schemas[0] for schema in schemas):
        raise InvalidPolicy(
            "the Parquet files of this table have different columns or types",
            place=policy_path,
            fix="rewrite the files that differ",
        )
    options = "hive_partitioning = false, union_by_name = false, can_have_nan = true"
    return OpenedRelation(f"read_parquet([{literal_list(table_files.paths)}], {options})", schemas[0])


def _parquet_columns(path: str, policy_path: str, execute: Execute) -> tuple[tuple[str, Cell], ...]:
    """Read the original column names from the footer: DuckDB renames columns that differ only in letter case."""
    try:
        described = execute(f"DESCRIBE SELECT * FROM read_parquet([{literal(path)}], hive_partitioning = false)")
        nodes = execute(f"SELECT name, num_children FROM parquet_schema({literal(path)})")
    except EngineFailed:
        described = nodes = []
    if not described:
        fix = "check that it is a complete Parquet file, or write it again"
        raise InvalidPolicy("this file cannot be read as Parquet", place=policy_path, fix=fix)
    names = _top_level_columns([(str(node), children or 0) for node, children in nodes])
    return tuple(
        (original, Cell(quote_identifier(column), stored))
        for original, (column, stored, *_) in zip(names, described, strict=True)
    )


def _top_level_columns(nodes: Sequence[tuple[str, int]]) -> list[str]:
    """Return the names of the root's children in a schema listed depth first."""
    names, open_groups = [], [nodes[0][1]]
    for node, children in nodes[1:]:
        while open_groups[-1] == 0:
            open_groups.pop()
        if len(open_groups) == 1:
            names.append(node)
        open_groups[-1] -= 1
        open_groups.append(children)
    return names


def database_relation(
    table_files: files.Files, table: Table, alias: str, policy_path: str, execute: Execute
) -> OpenedRelation:
    """Open a table or view in a DuckDB database, attached read-only."""
    attach(table_files, alias, policy_path, execute)
    if not isinstance(table.source, DatabaseTable):
        names = tables_in(alias, execute)
        candidates = ", ".join(names[:_MAX_TABLES_IN_MESSAGE]) + (", …" if len(names) > _MAX_TABLES_IN_MESSAGE else "")
        raise InvalidPolicy(
            "a database file can contain several tables, so the policy must name one",
            place=f"tables.{table.name}.relation",
            fix=f'write relation = "<table>" with one of {candidates}'
            if names
            else "create a table in the database first",
        )
    sql = ".".join(quote_identifier(part) for part in (alias, *table.source.relation.split(".")))
    try:
        described = execute(f"DESCRIBE SELECT * FROM {sql}")
    except EngineFailed:
        described = []
    if not described:
        raise InvalidPolicy(
            f"the database has no readable table {table.source.relation}",
            place=f"tables.{table.name}.relation",
            fix="name a table or view in it, as table or schema.table",
        )
    return OpenedRelation(
        sql, tuple((column, Cell(quote_identifier(column), stored)) for column, stored, *_ in described)
    )


def attach(database: files.Files, alias: str, policy_path: str, execute: Execute) -> None:
    """Attach a DuckDB database read-only under an alias."""
    try:
        execute(f"ATTACH IF NOT EXISTS {literal(database.paths[0])} AS {quote_identifier(alias)} (READ_ONLY)")
    except EngineFailed:
        raise InvalidPolicy(
            "this file cannot be opened as a DuckDB database",
            place=policy_path,
            fix="check that it is a DuckDB file and close any program that writes to it; if a newer DuckDB "
            "wrote it, export it with DuckDB 2",
        ) from None


def tables_in(alias: str, execute: Execute) -> list[str]:
    """List the tables and views of an attached database whose names can be written as table or schema.table."""
    rows = execute(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = {literal(alias)} UNION ALL"
        f" SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = {literal(alias)} AND NOT internal"
        " ORDER BY ALL"
    )
    return [
        relation if schema == "main" else f"{schema}.{relation}"
        for schema, relation in rows
        if "." not in schema + relation
    ]


def qualified_stored_table(table: Table, databases: Mapping[str, str], execute: Execute) -> str:
    """Return the table in a database file that holds the rows, as lower-case schema.table; empty for any other source.

    A view may read any table of its database, so it has no such name. DuckDB ignores the letter case of names.
    """
    if not isinstance(table.source, DatabaseTable):
        return ""
    alias = databases[os.path.abspath(table.source.path)]
    rows = execute(f"SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = {literal(alias)}")
    relation = table.source.relation.casefold()
    qualified = relation if "." in relation else f"main.{relation}"
    return qualified if qualified in {f"{schema}.{stored}".casefold() for schema, stored in rows} else ""


def memory_relation(
    source: memory.MemoryTable, positions: Sequence[int], described: list[tuple[Any, ...]], sql: str
) -> OpenedRelation:
    """Describe the engine's copy of a table in memory, made from the columns at these positions."""
    columns = [
        (source.names[i], Cell(quote_identifier(copied), stored))
        for i, (copied, stored, *_) in zip(positions, described, strict=True)
    ]
    return OpenedRelation(sql, tuple(columns))


Read = Callable[[Cell], str]
"""The SQL of a cell in the type it is compared in; NULL where the cell is not of that type."""

_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_TEXTS = {"VARCHAR", "ENUM"}
_NUMBERS = INTEGER_TYPES | _WIDE | FLOAT_TYPES | {"DECIMAL"}


@dataclass(frozen=True)
class RowOwners:
    """Determines the units that own the rows of each table of a policy."""

    policy: Policy
    relations: Mapping[str, OpenedRelation]

    def owner_of(self, table: Table) -> Owner | None:
        """Return how the rows of a table are owned; None where every row is its own unit, or the table is public."""
        if table.public or table.every_row:
            return None
        period = self._period_sql(table)
        if not isinstance(table.id, Via):
            return _make_owner(self._find_cell(table, table.id, "id"), self._id_reader(table), period)
        parent = self.policy.tables[table.id.via]
        on = self._find_cell(table, table.id.on, "id.on")
        key = self.relations[parent.name].find_column(table.id.key, f"tables.{table.name}.id.key")
        read = _common_id_reader((on, key)) or _mixed_key_reader((on, key))
        key_links = distinct_links_sql(self.relations[parent.name].sql, self.owner_of(parent), _key_or_null(key, read))
        return _make_owner(on, read, period, key_links)

    def _id_reader(self, table: Table) -> Read:
        """Return how ids are converted to the one type that all tables of the population use."""
        if self.policy.id_type is not None:
            return _ID_READERS[self.policy.id_type]
        id_cell = self._find_cell(table, table.id, "id")
        tables = [
            member for member in self.policy.tables.values() if not member.public and not isinstance(member.id, Via)
        ]
        cells = [self._find_cell(member, member.id, "id") for member in tables]
        read = _common_id_reader(cells)
        if read is not None:
            return read
        other, cell = next(
            (member, cell)
            for member, cell in zip(tables, cells, strict=True)
            if _common_id_reader((id_cell, cell)) is None
        )
        raise InvalidPolicy(
            f"ids must have one type in all tables, but they are {id_cell.stored_type} in {table.name} and "
            f"{cell.stored_type} in {other.name}",
            place=f"tables.{table.name}.id",
            fix='declare id_type = "integer" in [unit], which makes 007 and 7 one id, or id_type = "text", '
            "which makes them two; rows whose id is not of that type are dropped",
        )

    def _period_sql(self, table: Table) -> str | None:
        """Return the SQL for the start of a row's period. No bound is applied first: it would merge two days."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        timestamp = clean_cell(self._find_cell(table, column, "period"), Domain(table.columns[column].type))
        start = f"CAST(date_trunc('{self.policy.unit.period}', {timestamp}) AS DATE)"
        bounds = table.columns[column].bounds
        return (
            start
            if self.policy.per is None or bounds is None
            else _period_within_bounds(start, self.policy.per, bounds)
        )

    def _find_cell(self, table: Table, column: str, part: str) -> Cell:
        return self.relations[table.name].find_column(column, f"tables.{table.name}.{part}")


def _period_within_bounds(start: str, per: str, bounds: Any) -> str:
    """Set the period of a row to NULL if its account lies outside the declared bounds.

    Clamped to a bound, the row would be read with the rows of another account, which would then pay for a unit that is
    not its own. A row in the same account as a bound stays.
    """
    first, last = calendar.truncate(per, bounds[0]), calendar.truncate(per, bounds[1])
    end = calendar.shift(last, 1, per)
    above = f"{start} >= {literal(_as_date(first))}"
    within = above if end is None else f"{above} AND {start} < {literal(_as_date(end))}"
    return f"CASE WHEN {within} THEN {start} END"


def _as_date(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _make_owner(cell: Cell, read: Read, period: str | None, key_links: str | None = None) -> Owner:
    is_owned = has_id_condition(cell) if read is exact_id_sql else f"{read(cell)} IS NOT NULL"
    return Owner(read(cell), is_owned if period is None else f"{is_owned} AND {period} IS NOT NULL", period, key_links)


def _key_or_null(cell: Cell, read: Read) -> str:
    """Return the SQL of a key, NULL where it is missing."""
    return f"CASE WHEN {has_id_condition(cell)} THEN {read(cell)} END"


def _common_id_reader(cells: Sequence[Cell]) -> Read | None:
    """Return how cells of several sources compare without conversion to another kind; None where they cannot."""
    families = {cell.family for cell in cells}
    if len({cell.stored_type for cell in cells}) == 1:
        return exact_id_sql
    if families <= INTEGER_TYPES:
        return lambda cell: f"CAST({cell.sql} AS BIGINT)"
    if families <= INTEGER_TYPES | _WIDE:
        return lambda cell: f"TRY_CAST({cell.sql} AS HUGEINT)"
    return text_id_sql if families <= _TEXTS else None


def _mixed_key_reader(cells: Sequence[Cell]) -> Read:
    """Return how keys stored in two types compare: as integers where one of them is a number, else as text."""
    families = {cell.family for cell in cells}
    numbers = families & _NUMBERS and families <= _NUMBERS | _TEXTS
    return _ID_READERS[Type.INTEGER if numbers else Type.TEXT]


_ID_READERS: dict[Type, Read] = {
    Type.INTEGER: integer_id_sql,
    Type.TEXT: text_id_sql,
}
