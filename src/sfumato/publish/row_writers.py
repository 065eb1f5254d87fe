"""Files of sampled rows: Parquet, CSV, a DuckDB or an SQLite database, by the ending of the name.

Rows are written part by part to a file beside the target, which takes its name at the end: a reader never sees half a
file. What is written was released, so nothing is charged for it.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter
from sfumato.plan.quoting import quoted

if TYPE_CHECKING:
    import pyarrow

Parts = Iterable["pyarrow.Table"]


def rows_file_path(path: str | os.PathLike[str]) -> Path:
    """Refuse a file name that rows cannot be written to; return its path."""
    target = Path(path)
    if target.suffix.lower() not in _WRITERS:
        endings = join_with_or([*_WRITERS])
        fix = f"choose a path that ends in {endings}, such as {target.stem}.parquet"
        raise InvalidParameter("path", str(path), f"a file that ends in {endings}", fix=fix)
    return target


def write_rows(
    path: str | os.PathLike[str],
    parts: Parts,
    schema: pyarrow.Schema,
    table: str,
    row_count: int,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Write parts of a table to a file; an older file of this name is replaced at the end."""
    target = rows_file_path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _require_writable_folder(partial)
        _WRITERS[target.suffix.lower()](partial, _report_progress(parts, row_count, progress), schema, table)
        partial.replace(target)
    except OSError as error:
        raise _unwritable_refusal(target, os.strerror(error.errno or 0)) from error
    finally:
        partial.unlink(missing_ok=True)


def write_database(path: str | os.PathLike[str], tables: Mapping[str, pyarrow.Table]) -> None:
    """Write tables by their names to one DuckDB or SQLite file; an older file of this name is replaced at the end."""
    target = Path(path)
    writer = _DATABASE_WRITERS[target.suffix.lower()]
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _require_writable_folder(partial)
        for name, rows in tables.items():
            writer(partial, [rows], rows.schema, name)
        partial.replace(target)
    except OSError as error:
        raise _unwritable_refusal(target, os.strerror(error.errno or 0)) from error
    finally:
        partial.unlink(missing_ok=True)


def is_database_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a file of this name can hold several tables."""
    return Path(path).suffix.lower() in _DATABASE_WRITERS


def _unwritable_refusal(target: Path, reason: str) -> InvalidParameter:
    fix = "name a file in an existing folder that you can write to, on a disk with free space"
    return InvalidParameter("path", str(target), f"a file that can be written ({reason})", fix=fix)


def _report_progress(parts: Parts, row_count: int, progress: Callable[[str], None] | None) -> Parts:
    rows_written = 0
    for part in parts:
        yield part
        rows_written += part.num_rows
        if progress is not None:
            progress(f"{rows_written:,} of {row_count:,} rows")


def _write_parquet(path: Path, parts: Parts, schema: pyarrow.Schema, table: str) -> None:  # noqa: ARG001
    from pyarrow import parquet

    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(part)


def _write_csv(path: Path, parts: Parts, schema: pyarrow.Schema, table: str) -> None:  # noqa: ARG001
    from pyarrow import csv

    with csv.CSVWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(part)


def _write_duckdb(path: Path, parts: Parts, schema: pyarrow.Schema, table: str) -> None:
    """Add a table of the policy's types to a DuckDB database."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("sampled_part", schema.empty_table())
        connection.execute(f"CREATE TABLE {quoted(table)} AS FROM sampled_part")
        connection.unregister("sampled_part")
        for part in parts:
            connection.register("sampled_part", part)
            connection.execute(f"INSERT INTO {quoted(table)} FROM sampled_part")
            connection.unregister("sampled_part")


def _write_sqlite(path: Path, parts: Parts, schema: pyarrow.Schema, table: str) -> None:
    """Add a table to an SQLite database; truths are 0 and 1, and dates and times are texts as ISO 8601."""
    import sqlite3

    columns = ", ".join(f"{quoted(field.name)} {_SQLITE_TYPES.get(str(field.type), 'TEXT')}" for field in schema)
    marks = ", ".join("?" * len(schema))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
        for part in parts:
            rows = zip(*(map(_sqlite_value, column.to_pylist()) for column in part.columns), strict=True)
            connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)


_SQLITE_TYPES = {"int64": "INTEGER", "double": "REAL", "string": "TEXT", "bool": "BOOLEAN", "date32[day]": "DATE"}


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, dt.date) else value


def _require_writable_folder(path: Path) -> None:
    """Raise the operating system's error for a folder that cannot be written to: databases have errors of their own."""
    path.touch()
    path.unlink()


_WRITERS: Mapping[str, Callable[[Path, Parts, Any, str], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".duckdb": _write_duckdb,
    ".sqlite": _write_sqlite,
}
_DATABASE_WRITERS = {".duckdb": _write_duckdb, ".sqlite": _write_sqlite}
"""Files that hold any number of tables."""
