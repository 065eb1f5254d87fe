"""Read two tables side by side for their owner, exactly: the columns that both have, each in one type for both.

Nothing here is protected by noise, and nothing an analyst can reach may call it. Cells are converted by the rules of
every scan (``scan``), so a number stored as text in one table equals the same number in the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engine.duckdb import memory
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.discovery import inferred_types, type_of_cell
from sfumato.engine.duckdb.file_inspection import schema
from sfumato.engine.duckdb.scan import Cell, clean_cell
from sfumato.engine.sources.clean_cells import fold_name
from sfumato.engine.spellings.duckdb import quote_identifier
from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.domains import is_name
from sfumato.privacy import Budget, PrivacyUnit

if TYPE_CHECKING:
    import pyarrow

_NUMBERS, _TIMES = {Type.INTEGER, Type.REAL}, {Type.DATE, Type.TIMESTAMP}


@dataclass(frozen=True, eq=False)
class PairedTables:
    """Two tables with the same columns, in the order of the first. PRIVATE."""

    kinds: Mapping[str, Type]
    tables: tuple[pyarrow.Table, pyarrow.Table]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """The columns of the first table alone, and of the second alone."""


def paired_tables(one: Any, other: Any) -> PairedTables:
    """Read two tables, each a path or a table in memory."""
    names = [_column_names(source, label) for source, label in ((one, "the first table"), (other, "the second table"))]
    second_names = {fold_name(column): column for column in names[1]}
    shared = [column for column in names[0] if fold_name(column) in second_names and is_name(column)]
    shared_folded = {fold_name(column) for column in shared}
    left_out = tuple(tuple(column for column in columns if fold_name(column) not in shared_folded) for columns in names)
    if not shared:
        raise InvalidPolicy(
            "the two tables have no column in common, so they cannot be compared",
            place="the columns of both tables",
            fix=f"use the same names: the first has {_abbreviate(names[0])}; the second has {_abbreviate(names[1])}",
        )
    columns = {column: Domain(Type.TEXT) for column in shared}
    tables = [Table(f"table {number}", source, columns, id="row") for number, source in ((1, one), (2, other))]
    policy = Policy(PrivacyUnit("row", every_row=True), Budget(1), {table.name: table for table in tables})
    with Sources(policy) as sources:
        open_tables = [_open_table(sources, table.name) for table in tables]
        kinds = {column: _common_type(sources, open_tables, column) for column in shared}
        first, second = (_read_columns(sources, table, kinds) for table in open_tables)
    return PairedTables(kinds, (first, second), (left_out[0], left_out[1]))


def _column_names(source: Any, place: str) -> list[str]:
    """Return the column names of a file, or of a table in memory."""
    if not isinstance(source, (str, Path)):
        return list(memory.wrap_table(source, place).names)
    try:
        return list(schema(Path(source)))
    except InvalidPolicy as error:
        fix = error.fix.replace(": it is relative to the policy file", "")
        raise InvalidPolicy(error.rule, place=str(source), fix=fix) from None


def _abbreviate(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


@dataclass(frozen=True)
class _OpenTable:
    """One of the two tables: where its rows are, and each column's cell, type and whether it has any value."""

    source: str
    cells: Mapping[str, Cell]
    kinds: Mapping[str, Type]
    filled: Mapping[str, bool]


def _open_table(sources: Sources, table: str) -> _OpenTable:
    """Find the types of a table's columns; a CSV file, whose cells are text, is read once, into a copy."""
    scan = sources.table_scan(table)
    source, cells = scan.source, {column: cell for column, (cell, *_) in scan.columns.items()}
    kinds = {column: type_of_cell(cell) for column, cell in cells.items()}
    if source.startswith("read_csv("):
        source, cells = sources.copy(table), {column: Cell(quote_identifier(column), "VARCHAR") for column in cells}
        kinds = inferred_types(cells, source, sources.run)
    counts = ", ".join(f"count({cell.sql})" for cell in cells.values())
    filled = map(bool, sources.run(f"SELECT {counts} FROM {source}")[0])
    return _OpenTable(source, cells, kinds, dict(zip(cells, filled, strict=True)))


def _common_type(sources: Sources, tables: Sequence[_OpenTable], column: str) -> Type:
    """Return the type in which a column of both tables is compared: the closest that every cell parses as."""
    stored_kinds = [table.kinds[column] for table in tables if table.filled[column]] or [tables[0].kinds[column]]
    kinds = {*stored_kinds}
    if len(kinds) == 1:
        return stored_kinds[0]
    if kinds <= _NUMBERS:
        return Type.REAL
    if kinds <= _TIMES:
        return Type.TIMESTAMP
    likely = sorted(kinds - {Type.TEXT}, key=lambda kind: kind is Type.BOOLEAN)
    return next(
        (kind for kind in likely if all(_parses_as(sources, table, column, kind) for table in tables)), Type.TEXT
    )


def _parses_as(sources: Sources, table: _OpenTable, column: str, kind: Type) -> bool:
    """Return whether every cell of a column parses as this type."""
    cell = table.cells[column]
    unparsed = f"count(*) FILTER ({cell.sql} IS NOT NULL AND {clean_cell(cell, Domain(kind))} IS NULL)"
    return not sources.run(f"SELECT {unparsed} FROM {table.source}")[0][0]


def _read_columns(sources: Sources, table: _OpenTable, kinds: Mapping[str, Type]) -> pyarrow.Table:
    """Read all columns, named c0, c1, … so that no name comes from a source."""
    cells = (
        f"{clean_cell(table.cells[column], Domain(kind))} AS c{index}"
        for index, (column, kind) in enumerate(kinds.items())
    )
    return sources.arrow(f"SELECT {', '.join(cells)} FROM {table.source}")
