"""A row's unit is found in DuckDB's SQL: by the id in it, or as every owner of the row of another table that it names.

Each rule looks at one row and, along a path, at the rows of other tables that have its key. A row that several units
lead to is a row of each, and (key, unit) is made distinct at every hop, so that how often a unit names a key does not
matter. What a unit has after the scan is thus found from its own rows and from rows without an id of their own, never
from what other units own: two databases that differ in one unit differ in that unit's rows alone.

A source becomes a relation to select from, with the true names and stored types of its columns.
"""

from __future__ import annotations

import datetime as dt
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb import files, memory
from sfumato.engine.duckdb.scan import FLOATING, WHOLE, Cell, Owner, cleaned, links, owned, sound, whole_id
from sfumato.engine.sources import clean_cells
from sfumato.engine.spellings.duckdb import listed, literal, name
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.values import calendar
from sfumato.policy import DatabaseTable, Domain, Policy, Table, Type, Via
from sfumato.policy.domains import is_name

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
        return clean_cells.find(self.columns, column, place, "name a column of the source, in a CSV file with commas")

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


def of_memory(
    source: memory.MemoryTable, positions: Sequence[int], described: list[tuple[Any, ...]], sql: str
) -> Relation:
    """Copy a table in memory into the engine: what its owner does to the original changes nothing."""
    columns = [
        (source.names[i], Cell(name(seen), stored)) for i, (seen, stored, *_) in zip(positions, described, strict=True)
    ]
    return Relation(sql, tuple(columns))


Read = Callable[[Cell], str]
"""A cell in the type in which it is compared; NULL where it is not of that type."""

_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_TEXTS = {"VARCHAR", "ENUM"}
_NUMBERS = WHOLE | _WIDE | FLOATING | {"DECIMAL"}


@dataclass(frozen=True)
class Owners:
    """This finds whose the rows of each table are."""

    policy: Policy
    relations: Mapping[str, Relation]

    def of(self, table: Table) -> Owner | None:
        """Find whose the rows of a table are; None where every row is a unit of its own, or nobody's."""
        if table.public or table.every_row:
            return None
        period = self._period(table)
        if not isinstance(table.id, Via):
            return _owner(self._cell(table, table.id, "id"), self._read_id(table), period)
        parent = self.policy.tables[table.id.via]
        on = self._cell(table, table.id.on, "id.on")
        key = self.relations[parent.name].cell(table.id.key, f"tables.{table.name}.id.key")
        read = _common((on, key)) or _meeting((on, key))
        found = links(self.relations[parent.name].sql, self.of(parent), _present(key, read))
        return _owner(on, read, period, found)

    def _read_id(self, table: Table) -> Read:
        """Say how ids become the one type that all tables of the population have."""
        if self.policy.id_type is not None:
            return _TYPES[self.policy.id_type]
        own = self._cell(table, table.id, "id")
        others = [each for each in self.policy.tables.values() if not each.public and not isinstance(each.id, Via)]
        cells = [self._cell(each, each.id, "id") for each in others]
        read = _common(cells)
        if read is not None:
            return read
        other, cell = next(
            (each, cell) for each, cell in zip(others, cells, strict=True) if _common((own, cell)) is None
        )
        raise InvalidPolicy(
            f"the ids of one population have one type: those of {table.name} are stored as {own.stored}, those of "
            f"{other.name} as {cell.stored}",
            place=f"tables.{table.name}.id",
            fix='say in [unit] what ids are: id_type = "integer" makes 007 and 7 one id, id_type = "text" two; a row '
            "whose id is not of that type is dropped",
        )

    def _period(self, table: Table) -> str | None:
        """Find the start of the period that a row lies in. No bound is applied before: two days would become one."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        moment = cleaned(self._cell(table, column, "period"), Domain(table.columns[column].type))
        start = f"CAST(date_trunc('{self.policy.unit.period}', {moment}) AS DATE)"
        bounds = table.columns[column].bounds
        return start if self.policy.per is None or bounds is None else _paid_for(start, self.policy.per, bounds)

    def _cell(self, table: Table, column: str, part: str) -> Cell:
        return self.relations[table.name].cell(column, f"tables.{table.name}.{part}")


def _paid_for(start: str, per: str, bounds: Any) -> str:
    """Leave a row without a period where its account would be none within the declared bounds.

    Clamped to a bound it would be read with the rows of another account, which would then pay for a unit that is not
    its own. A row of the same account as the bound stays.
    """
    first, last = calendar.truncated(per, bounds[0]), calendar.truncated(per, bounds[1])
    end = calendar.shifted(last, 1, per)
    above = f"{start} >= {literal(_day(first))}"
    within = above if end is None else f"{above} AND {start} < {literal(_day(end))}"
    return f"CASE WHEN {within} THEN {start} END"


def _day(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _owner(cell: Cell, read: Read, period: str | None, found: str | None = None) -> Owner:
    kept = owned(cell) if read is sound else f"{read(cell)} IS NOT NULL"
    return Owner(read(cell), kept if period is None else f"{kept} AND {period} IS NOT NULL", period, found)


def _present(cell: Cell, read: Read) -> str:
    """Give a key, or NULL where there is none."""
    return f"CASE WHEN {owned(cell)} THEN {read(cell)} END"


def _common(cells: Sequence[Cell]) -> Read | None:
    """Say how cells of several sources are compared without being read as another type; None where they cannot be."""
    families = {each.family for each in cells}
    if len({each.stored for each in cells}) == 1:
        return sound
    if families <= WHOLE:
        return lambda cell: f"CAST({cell.sql} AS BIGINT)"
    if families <= WHOLE | _WIDE:
        return lambda cell: f"TRY_CAST({cell.sql} AS HUGEINT)"
    return (lambda cell: cell.text.sql) if families <= _TEXTS else None


def _meeting(cells: Sequence[Cell]) -> Read:
    """Say how keys that are stored in two types are compared: as whole numbers where one of them is a number."""
    families = {each.family for each in cells}
    numbers = families & _NUMBERS and families <= _NUMBERS | _TEXTS
    return _TYPES[Type.INTEGER if numbers else Type.TEXT]


_TYPES: dict[Type, Read] = {
    Type.INTEGER: whole_id,
    Type.TEXT: lambda cell: cell.text.sql,
}
