"""Convert a table in memory (Arrow, pandas or polars) to Arrow arrays that DuckDB can hold, column by column.

A spill folder holds rows that do not fit in memory; only its owner can read it, and it is removed even after a kill.

A killed process removes nothing, so whoever opens a folder next removes those of dead processes. A process is alive
while it holds the lock on the folder's file: unlike a process id, a lock is never reused by another process.
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
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidPolicy
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class MemoryTable:
    """A table in memory: its column names, and a function from a position to that column as an Arrow array."""

    names: tuple[str, ...]
    column: Callable[[int], Any]


def wrap_table(source: Any, policy_path: str) -> MemoryTable:
    """Wrap a table of any supported library, recognised by its module so that no library is imported for it."""
    maker = type(source).__module__.partition(".")[0]
    if maker == "pandas" and hasattr(source, "iloc") and hasattr(source, "columns"):
        return MemoryTable(tuple(str(label) for label in source.columns), lambda i: _from_pandas(source.iloc[:, i]))
    if maker == "polars" and hasattr(source, "collect_schema"):
        table = source.collect() if hasattr(source, "collect") else source
        return MemoryTable(tuple(table.columns), lambda i: _from_polars(table.to_series(i)))
    if maker == "pyarrow" or hasattr(source, "__arrow_c_stream__"):
        return _from_arrow(source, policy_path)
    raise InvalidPolicy(
        "a source must be a file or a table in memory",
        place=policy_path,
        fix="pass a path, or an Arrow, pandas or polars table",
    )


def to_arrow(source: MemoryTable, positions: Sequence[int], policy_path: str) -> pyarrow.Table:
    """Return the chosen columns as one Arrow table, named c0, c1, … in that order."""
    import pyarrow as pa

    try:
        return pa.table({f"c{column}": _to_supported_type(source.column(i)) for column, i in enumerate(positions)})
    except (TypeError, ValueError, NotImplementedError, pa.ArrowException):
        raise unreadable_table_refusal(policy_path) from None


def unreadable_table_refusal(policy_path: str) -> InvalidPolicy:
    return InvalidPolicy(
        "DuckDB cannot store a column of this table",
        place=policy_path,
        fix="convert the column to numbers, texts, dates or times",
    )


def fingerprint(table: pyarrow.Table) -> str:
    """Hash a table's types and cells."""
    import pyarrow as pa

    content_hash = hashlib.blake2b(digest_size=32)
    combined = table.combine_chunks()
    with pa.ipc.new_stream(pa.PythonFile(_HashingFile(content_hash), mode="w"), combined.schema) as stream:
        stream.write_table(combined)
    return content_hash.hexdigest()


class _HashingFile:
    """A writable file that keeps only the hash of what is written to it."""

    closed = False

    def __init__(self, content_hash: Any) -> None:
        self._content_hash = content_hash

    def write(self, block: Any) -> int:
        self._content_hash.update(block)
        return len(block)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _from_arrow(source: Any, policy_path: str) -> MemoryTable:
    import pyarrow as pa

    try:
        table = source.read_all() if hasattr(source, "read_all") else pa.table(source)
    except (TypeError, ValueError, pa.ArrowException):
        table = None
    if table is None:
        raise InvalidPolicy("this Arrow object is not a table", place=policy_path, fix="pass a pyarrow.Table")
    return MemoryTable(tuple(table.column_names), table.column)


def _from_pandas(series: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return _text_array(None if gone else value for value, gone in zip(series, series.isna(), strict=True))


def _from_polars(series: Any) -> Any:
    try:
        return series.to_arrow()
    except Exception:  # polars panics on columns of Python objects, with an error of no common base class
        return _text_array(series.to_list())


def _text_array(cells: Any) -> Any:
    """Convert cells of no common type to text: the scan parses them as it parses CSV."""
    import pyarrow as pa

    return pa.array([_text_or_none(cell) for cell in cells], pa.string())


def _text_or_none(cell: Any) -> str | None:
    try:
        text = None if cell is None else str(cell)
        return text if text is None or text.encode() is not None else None
    except Exception:  # a cell without a text form is of no declared type
        return None


def _to_supported_type(column: Any) -> Any:
    """Return the column without dictionaries and types that DuckDB lacks; text that is not UTF-8 becomes NULL."""
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
        return _null_invalid_utf8(column)
    return column


def _null_invalid_utf8(column: Any) -> Any:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return _text_array(_decode_or_none(cell) for cell in column.cast(pa.large_binary()).to_pylist())
    return column


def _decode_or_none(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


_PREFIX = "sfumato-spill-"
_LOCK_FILE = "in-use"


class SpillFolder:
    """A new folder that exists until it is closed, garbage-collected, or its process ends."""

    def __init__(self) -> None:
        remove_abandoned_folders()
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self.close = weakref.finalize(self, _remove_folder, self.path, _lock_folder(self.path), os.getpid())


def remove_abandoned_folders() -> None:
    """Remove this user's folders whose processes are dead."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):  # already gone, another user's, not removable, or in use
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(folder: str) -> None:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(folder, _LOCK_FILE), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _lock_folder(folder: str) -> int:
    """Lock a new folder: the lock file gets its name once it is locked, so that no process finds it unlocked."""
    unnamed = os.path.join(folder, "arriving")
    lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    with suppress(OSError):  # a file system without locks: the folder is then never swept
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(unnamed, os.path.join(folder, _LOCK_FILE))
    return lock


def _remove_folder(folder: str, lock: int, process: int) -> None:
    """Remove the folder and release its lock; a forked process leaves its parent's folder alone."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
