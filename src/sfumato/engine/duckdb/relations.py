"""A source becomes a relation to select from, with the true names and stored types of its columns."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb import files, memory
from sfumato.engine.duckdb.scan import Cell
from sfumato.engine.sources import column_names
from sfumato.engine.spellings.duckdb_literals import listed, literal, name
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.policy import DatabaseTable, Table
from sfumato.policy.names import is_name

Execute = Callable[[str], list[tuple[Any, ...]]]
_LISTED = 20

# A line is a record (files.checked_lines sees to it), and one thread reads them: several would guess where lines begin.
# A record that is too short is filled with NULL, one too long is cut, and one that is not UTF-8 where it is read, or
# longer than 2 MB, is left out.
_CSV = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false,"
    " null_padding = true, strict_mode = false, ignore_errors = true, parallel = false, max_line_size = 2000000"
)


@dataclass(frozen=True)
class Relation:
    """A relation says where to select from, and holds each column under the name its source gives it."""

    sql: str
    columns: tuple[tuple[str, Cell], ...]

    def cell(self, column: str, place: str) -> Cell:
        """Find the column of that name, exactly or, if only one is so, in other letter case, accents composed."""
        return column_names.find(self.columns, column, place, "name a column of the source, in a CSV file with commas")

    def plain_columns(self) -> list[tuple[str, Cell]]:
        """List the columns that can be named in a question; of those alike but for letter case, the first."""
        seen: dict[str, tuple[str, Cell]] = {}
        for true, cell in self.columns:
            called = unicodedata.normalize("NFC", true)
            if is_name(called):
                seen.setdefault(called.lower(), (called, cell))
        return list(seen.values())


def opened(table: Table, databases: dict[str, str], execute: Execute) -> tuple[files.Files, Relation]:
    """Open a table in files. ``databases`` gives each attached database file its alias."""
    place = f"tables.{table.name}.source"
    found = files.find(table.source.path, place)
    if found.kind == "csv":
        return found, of_csv(found, place)
    if found.kind == "parquet":
        return found, of_parquet(found, place, execute)
    alias = databases.setdefault(found.paths[0], f"sf database {len(databases)}")
    return found, of_database(found, table, alias, place, execute)


def of_csv(found: files.Files, place: str) -> Relation:
    """Open CSV files with every cell as text: the scan reads it as what is declared."""
    first = files.header(found.paths[0], place)
    for path in found.paths[1:]:
        if files.header(path, place) != first:
            raise InvalidPolicy(
                "all files of a table have the same columns", place=place, fix="make their headers equal"
            )
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(first)))
    sql = f"read_csv([{listed(found.paths)}], columns = {{{columns}}}, {_CSV})"
    return Relation(sql, tuple((each, Cell(f"c{i}", "VARCHAR")) for i, each in enumerate(first)))


def of_parquet(found: files.Files, place: str, execute: Execute) -> Relation:
    """Open Parquet files with one schema among them.

    The ends of a column that a file states leave NaN out. Unless it is told that there may be some, the engine folds
    comparisons by them: one unit's row, which moves an end, would decide what the cells of other units mean.
    """
    schemas = [_parquet_columns(path, place, execute) for path in found.paths]
    if any(schema != schemas[0] for schema in schemas):
        raise InvalidPolicy(
            "all files of a table have the same columns and types", place=place, fix="rewrite those that differ"
        )
    options = "hive_partitioning = false, union_by_name = false, can_have_nan = true"
    return Relation(f"read_parquet([{listed(found.paths)}], {options})", schemas[0])


def _parquet_columns(path: str, place: str, execute: Execute) -> tuple[tuple[str, Cell], ...]:
    """Take the true names of columns from the file's footer: the engine renames columns that differ in letter case
    only.
    """
    try:
        described = execute(f"DESCRIBE SELECT * FROM read_parquet([{literal(path)}], hive_partitioning = false)")
        nodes = execute(f"SELECT name, num_children FROM parquet_schema({literal(path)})")
    except EngineFailed:
        described = nodes = []
    if not described:
        raise InvalidPolicy("this file cannot be read as Parquet", place=place, fix="write it again")
    names = _top_level([(str(each), children or 0) for each, children in nodes])
    return tuple((true, Cell(name(seen), stored)) for true, (seen, stored, *_) in zip(names, described, strict=True))


def _top_level(nodes: Sequence[tuple[str, int]]) -> list[str]:
    """List the names of the root's children in a schema listed depth first."""
    names, open_groups = [], [nodes[0][1]]
    for node, children in nodes[1:]:
        while open_groups[-1] == 0:
            open_groups.pop()
        if len(open_groups) == 1:
            names.append(node)
        open_groups[-1] -= 1
        open_groups.append(children)
    return names


def of_database(found: files.Files, table: Table, alias: str, place: str, execute: Execute) -> Relation:
    """Open a table or view in a DuckDB database, attached read-only."""
    attach(found, alias, place, execute)
    if not isinstance(table.source, DatabaseTable):
        names = tables_in(alias, execute)
        listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        raise InvalidPolicy(
            "a database file may hold several tables, so the one that is meant is named",
            place=f"tables.{table.name}.relation",
            fix=f'write relation = "<table>" with one of {listed}' if names else "create a table in it first",
        )
    sql = ".".join(name(part) for part in (alias, *table.source.relation.split(".")))
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
    return Relation(sql, tuple((true, Cell(name(true), stored)) for true, stored, *_ in described))


def attach(found: files.Files, alias: str, place: str, execute: Execute) -> None:
    """Make a DuckDB database known under an alias, to be read alone."""
    try:
        execute(f"ATTACH IF NOT EXISTS {literal(found.paths[0])} AS {name(alias)} (READ_ONLY)")
    except EngineFailed:
        raise InvalidPolicy(
            "this file cannot be opened as a DuckDB database",
            place=place,
            fix="close the program that writes to it, or write it with DuckDB 2",
        ) from None


def tables_in(alias: str, execute: Execute) -> list[str]:
    """List the tables and views of an attached database that can be named, as table or schema.table."""
    found = execute(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = {literal(alias)} UNION ALL"
        f" SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = {literal(alias)} AND NOT internal"
        " ORDER BY ALL"
    )
    return [each if schema == "main" else f"{schema}.{each}" for schema, each in found if "." not in schema + each]


def stored_table(table: Table, databases: Mapping[str, str], execute: Execute) -> str:
    """Name the table in a database that holds the rows, as schema.table in small letters; empty for anything else.

    A view may read any table of its database, so it has no such name. The engine takes names in any letter case.
    """
    if not isinstance(table.source, DatabaseTable):
        return ""
    alias = databases[os.path.abspath(table.source.path)]
    found = execute(f"SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = {literal(alias)}")
    asked = table.source.relation.casefold()
    wanted = asked if "." in asked else f"main.{asked}"
    return wanted if wanted in {f"{schema}.{each}".casefold() for schema, each in found} else ""


def of_memory(source: memory.Frame, positions: Sequence[int], described: list[tuple[Any, ...]], sql: str) -> Relation:
    """Copy a table in memory into the engine: what its owner does to the original changes nothing."""
    columns = [
        (source.names[i], Cell(name(seen), stored)) for i, (seen, stored, *_) in zip(positions, described, strict=True)
    ]
    return Relation(sql, tuple(columns))
