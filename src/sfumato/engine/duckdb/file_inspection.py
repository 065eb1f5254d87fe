"""Look at files and databases before a policy declares them: columns, types, tables, and the first cells.

Each look has an empty DuckDB of its own, or one that a thread shares among its looks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engine.duckdb import discovery, files, memory, owners
from sfumato.engine.duckdb.scan import Cell
from sfumato.engine.spellings.duckdb import literal_list, quote_identifier
from sfumato.errors import EngineFailed
from sfumato.policy import Table, Type

if TYPE_CHECKING:
    import duckdb


class _SharedInspection:
    """The connection of several inspections, opened by the first of them."""

    connection: duckdb.DuckDBPyConnection | None = None


_shared_inspection: ContextVar[_SharedInspection | None] = ContextVar("_shared_inspection", default=None)


@contextmanager
def shared_inspection() -> Iterator[None]:
    """Let this thread inspect files with one DuckDB: to start one takes longer than most inspections. Within another,
    that one's is used.
    """
    if _shared_inspection.get() is not None:
        yield
        return
    shared = _SharedInspection()
    token = _shared_inspection.set(shared)
    try:
        yield
    finally:
        _shared_inspection.reset(token)
        if shared.connection is not None:
            shared.connection.close()


@contextmanager
def _inspection_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to an empty database; what is made or attached there is gone afterwards."""
    import duckdb

    shared = _shared_inspection.get()
    if shared is None:
        with duckdb.connect(":memory:") as connection:
            yield connection
        return
    shared.connection = shared.connection or duckdb.connect(":memory:")
    with shared.connection.cursor() as cursor:
        cursor.execute("ATTACH ':memory:' AS sf_inspected; USE sf_inspected")
        try:
            yield cursor
        finally:
            cursor.execute("USE memory")
            attached = "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"
            for (database,) in cursor.execute(attached).fetchall():
                cursor.execute(f"DETACH {quote_identifier(database)}")


def schema(source: Path, relation: str | None = None) -> dict[str, Type | None]:
    """Return the column names of a file and their types (None in a CSV file, where all is text). No row is read."""
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        table_files, opened = owners.open_relation(Table("data", source, relation=relation, public=True), {}, execute)
        return {
            column: None if table_files.kind == "csv" else discovery.type_from_stored_type(cell)
            for column, cell in opened.usable_columns()
        }


def unusable_columns(source: Path, relation: str | None = None) -> list[str]:
    """List the columns of a file whose names queries cannot use, as the file names them. No row is read."""
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        _, opened = owners.open_relation(Table("data", source, relation=relation, public=True), {}, execute)
        usable = {id(cell) for _, cell in opened.usable_columns()}
        return [column for column, cell in opened.columns if id(cell) not in usable]


_SNIFFED_ROWS, _SNIFFED_COLUMNS = 20_000, 100
"""How many rows, and how many columns, text types are inferred from: further columns stay text."""
_SAMPLED_ROWS = 5_000
"""How many rows are fetched to detect how texts are written."""


_MIN_DECIDING_SHARE = 0.05
"""The share of cells that must be exceeded to decide a type against all others."""
_SIMPLER_TYPES = {Type.REAL: Type.INTEGER, Type.TIMESTAMP: Type.DATE}
"""For a type that reads all cells, the one that reads those of most columns of its kind."""


def inferred_types(source: Path, relation: str | None = None, nulls: Collection[str] = ()) -> dict[str, Type]:
    """Infer the types of a table's columns: the stored ones, and for text the first type that every sampled cell parses
    as, ``nulls`` left out.

    Few cells decide nothing: a column of numbers is real, and one of days is of times, only if more than 5 % of its
    cells are not whole numbers or days; and numbers are codes, hence text, only if more than 5 % begin with a zero. So
    of 20 or more cells one alone never decides, and of 400 or more no 20 do. PRIVATE: it reads rows.
    """
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        _, opened = owners.open_relation(Table("data", source, relation=relation, public=True), {}, execute)
        cells = dict(opened.usable_columns())
        kinds = {column: discovery.type_from_stored_type(cell) for column, cell in cells.items()}
        texts = {column: cell for column, cell in cells.items() if cell.family == "VARCHAR"}
        sniffed = dict(list(texts.items())[:_SNIFFED_COLUMNS])
        if not sniffed:
            return kinds
        present = ", ".join(f"{_without_null_texts(cell.sql, nulls)} AS {cell.sql}" for cell in sniffed.values())
        execute(f"CREATE TABLE sniffed AS SELECT {present} FROM {opened.sql} LIMIT {_SNIFFED_ROWS}")
        kinds |= discovery.inferred_types(sniffed, "sniffed", execute)
        return kinds | _simpler_types(sniffed, kinds, execute) | _leading_zero_columns(sniffed, kinds, execute)


def _without_null_texts(sql: str, null_texts: Collection[str]) -> str:
    return f"CASE WHEN trim({sql}, ' ') IN ({literal_list(null_texts)}) THEN NULL ELSE {sql} END" if null_texts else sql


def _simpler_types(
    columns: Mapping[str, Cell], kinds: Mapping[str, Type], execute: Callable[[str], list[tuple[Any, ...]]]
) -> dict[str, Type]:
    """Return the columns of which nearly all cells are of a simpler type than all are, with that type."""
    simpler: dict[str, Type] = {}
    for kind, candidate in _SIMPLER_TYPES.items():
        names = [name for name in columns if kinds[name] is kind]
        cells_of_kind = [columns[name] for name in names]
        counts = discovery.count_parsable_cells(cells_of_kind, (candidate,), "sniffed", execute) if names else []
        simpler |= {
            name: candidate
            for name, (cells, fits) in zip(names, counts, strict=True)
            if cells - fits <= _MIN_DECIDING_SHARE * cells
        }
    return simpler


def _leading_zero_columns(
    columns: Mapping[str, Cell], kinds: Mapping[str, Type], execute: Callable[[str], list[tuple[Any, ...]]]
) -> dict[str, Type]:
    """Return the columns of numbers of which more than a few begin with a zero: they are codes, which are text."""
    coded = ", ".join(
        f"count(*) FILTER (regexp_matches({cell.sql}, '^0[0-9]')) > {_MIN_DECIDING_SHARE} * count({cell.sql})"
        for cell in columns.values()
    )
    is_coded = execute(f"SELECT {coded} FROM sniffed")[0]
    return {name: Type.TEXT for name, code in zip(columns, is_coded, strict=True) if code and kinds[name].numeric}


def sample_texts(source: Path, relation: str | None, columns: Collection[str]) -> dict[str, list[str | None]]:
    """Return the cells of text columns in the first rows of a file, in its order. PRIVATE: it reads rows."""
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        _, opened = owners.open_relation(Table("data", source, relation=relation, public=True), {}, execute)
        texts = {name: cell for name, cell in opened.usable_columns() if name in columns and cell.family == "VARCHAR"}
        sampled = dict(list(texts.items())[:_SNIFFED_COLUMNS])
        selected = ", ".join(cell.sql for cell in sampled.values())
        rows = execute(f"SELECT {selected} FROM {opened.sql} LIMIT {_SAMPLED_ROWS}") if sampled else []
        return {name: [row[index] for row in rows] for index, name in enumerate(sampled)}


def types_in_memory(table: Any) -> dict[str, Type]:
    """Return the types of the usable columns of a table in memory."""
    source = memory.wrap_table(table, "df")
    positions = list(range(len(source.names)))
    arrow_table = memory.to_arrow(source, positions, "df")
    with _inspection_connection() as connection:
        connection.register("arriving", arrow_table.slice(0, 0))
        described = _fetch_rows(connection, "DESCRIBE SELECT * FROM arriving")
    relation = owners.memory_relation(source, positions, described, "arriving")
    return {column: discovery.type_from_stored_type(cell) for column, cell in relation.usable_columns()}


def tables(source: Path) -> list[str]:
    """List the tables and views of a DuckDB database; none for a file of another kind. No row is read."""
    database = files.find_files(source, str(source))
    if database.kind != "duckdb":
        return []
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        owners.attach(database, "sf database", str(source), execute)
        return owners.tables_in("sf database", execute)


def read_all_rows(database: Path, relation: str) -> Any:
    """Read all rows of a table or view in a DuckDB database into memory, as Arrow. PRIVATE."""
    with _inspection_connection() as connection:
        execute = partial(_fetch_rows, connection)
        owners.attach(files.find_files(database, str(database)), "sf database", str(database), execute)
        qualified = ".".join(quote_identifier(part) for part in ("sf database", *relation.split(".")))
        return connection.sql(f"SELECT * FROM {qualified}").to_arrow_table()


def write_table(rows: Any, database: Path, relation: str) -> None:
    """Write an Arrow table as a new table of a DuckDB database, creating the database if needed."""
    import duckdb

    with duckdb.connect(database) as connection:
        connection.register("arriving", rows)
        *schemas, _ = parts = [quote_identifier(part) for part in relation.split(".")]
        if schemas:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(schemas)}")
        connection.execute(f"CREATE TABLE {'.'.join(parts)} AS SELECT * FROM arriving")


def _fetch_rows(connection: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(statement).fetchall()
    except Exception:  # the cause may quote a cell
        raise EngineFailed from None
