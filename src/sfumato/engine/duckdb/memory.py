"""A table in memory (Arrow, pandas or polars) becomes Arrow arrays that DuckDB can hold, column by column.

A folder takes rows that do not fit in memory; its owner alone can read it, and it is removed even after a kill.

A process that is killed removes nothing, so whoever opens a folder next sweeps those of dead processes. Alive is who
holds the lock on the folder's file: unlike a process number, a lock is never handed on to a stranger.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidPolicy

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class MemoryTable:
    """A frame is a table in memory: its column names, and each column as an Arrow array by its position."""

    names: tuple[str, ...]
    column: Callable[[int], Any]


def frame(source: Any, place: str) -> MemoryTable:
    """Read the table, whichever library made it: told by its module, so none is imported for it."""
    maker = type(source).__module__.partition(".")[0]
    if maker == "pandas" and hasattr(source, "iloc") and hasattr(source, "columns"):
        return MemoryTable(tuple(str(label) for label in source.columns), lambda i: _from_pandas(source.iloc[:, i]))
    if maker == "polars" and hasattr(source, "collect_schema"):
        table = source.collect() if hasattr(source, "collect") else source
        return MemoryTable(tuple(table.columns), lambda i: _from_polars(table.to_series(i)))
    if maker == "pyarrow" or hasattr(source, "__arrow_c_stream__"):
        return _from_arrow(source, place)
    raise InvalidPolicy(
        "a source is a file or a table in memory", place=place, fix="give a path, or an Arrow, pandas or polars table"
    )


def arrow(source: MemoryTable, positions: Sequence[int], place: str) -> pyarrow.Table:
    """Make one Arrow table of the chosen columns, named c0, c1, … in that order."""
    import pyarrow as pa

    try:
        return pa.table({f"c{column}": _plain(source.column(i)) for column, i in enumerate(positions)})
    except (TypeError, ValueError, NotImplementedError, pa.ArrowException):
        raise unreadable(place) from None


def unreadable(place: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the engine cannot hold a column of this table", place=place, fix="give plain numbers, texts, dates and times"
    )


def fingerprint(table: pyarrow.Table) -> str:
    """Hash a table's types and cells."""
    import pyarrow as pa

    found = hashlib.blake2b(digest_size=32)
    whole = table.combine_chunks()
    with pa.ipc.new_stream(pa.PythonFile(_Hashing(found), mode="w"), whole.schema) as stream:
        stream.write_table(whole)
    return found.hexdigest()


class _Hashing:
    """This file keeps nothing of what is written to it but its hash."""

    closed = False

    def __init__(self, found: Any) -> None:
        self._found = found

    def write(self, block: Any) -> int:
        self._found.update(block)
        return len(block)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""


def _from_arrow(source: Any, place: str) -> MemoryTable:
    import pyarrow as pa

    try:
        table = source.read_all() if hasattr(source, "read_all") else pa.table(source)
    except (TypeError, ValueError, pa.ArrowException):
        table = None
    if table is None:
        raise InvalidPolicy("this Arrow object is not a table", place=place, fix="give a pyarrow.Table")
    return MemoryTable(tuple(table.column_names), table.column)


def _from_pandas(series: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return _as_text(None if gone else value for value, gone in zip(series, series.isna(), strict=True))


def _from_polars(series: Any) -> Any:
    try:
        return series.to_arrow()
    except Exception:  # polars panics, outside any tree of its own, on columns of Python objects
        return _as_text(series.to_list())


def _as_text(cells: Any) -> Any:
    """Write cells of no common type each as its own text: the scan reads them as it reads CSV."""
    import pyarrow as pa

    return pa.array([_shown(cell) for cell in cells], pa.string())


def _shown(cell: Any) -> str | None:
    try:
        shown = None if cell is None else str(cell)
        return shown if shown is None or shown.encode() is not None else None
    except Exception:  # a cell that cannot say what it is, is not of any declared type
        return None


def _plain(column: Any) -> Any:
    """Give the column without dictionaries and types the engine lacks; text that is not UTF-8 is missing."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_float16(column.type):
        column = column.cast(pa.float32())
    if kinds.is_decimal256(column.type):
        column = column.cast(pa.string())
    if kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_string_view(column.type):
        return _readable(column)
    return column


def _readable(column: Any) -> Any:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return _as_text(_decoded(cell) for cell in column.cast(pa.large_binary()).to_pylist())
    return column


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


_PREFIX = "sfumato-spill-"
_IN_USE = "in-use"


class Spill:
    """This is a new folder, there until it is closed, forgotten, or its process ends."""

    def __init__(self) -> None:
        sweep()
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self.close = weakref.finalize(self, _remove, self.path, _locked(self.path), os.getpid())


def sweep() -> None:
    """Remove this user's folders whose processes are dead."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):  # gone already, another's, not ours to remove, or in use
                    _sweep(entry.path)


def _sweep(folder: str) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(folder, _IN_USE), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _locked(folder: str) -> int:
    """Hold the lock of a new folder: it gets its name once it is held, so that nobody finds it free before."""
    arriving = os.path.join(folder, "arriving")
    lock = os.open(arriving, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    with suppress(OSError):  # a file system without locks: the folder is then never swept
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(arriving, os.path.join(folder, _IN_USE))
    return lock


def _remove(folder: str, lock: int, process: int) -> None:
    """A forked process leaves its parent's files alone."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
