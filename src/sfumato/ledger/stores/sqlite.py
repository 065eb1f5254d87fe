"""Store lines in one SQLite file: WAL, synchronous=FULL, an exclusive transaction per append.

A commit returns when the log has been synced to disk. There is one connection per process, used by its threads in
turns, closed before a fork and opened again on the next use.

The lines of a ledger can be written to a new SQLite file: unchanged, under the same key, all of them or none.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from sfumato.errors import LedgerDamaged, LedgerInDoubt, LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.local_files import hold_unheld_lock
from sfumato.ledger.sealed_rows import COLUMNS, Row
from sfumato.ledger.stores.store import BodyFiles, PendingCharge, Prefix, Where
from sfumato.mechanisms import bits

T = TypeVar("T")
APPLICATION = 0x5F0A70  # in the file's header: marks our ledgers

_TYPES = {"number": "INTEGER PRIMARY KEY"} | dict.fromkeys(("time", "tab", "about", "terms"), "INTEGER NOT NULL")
_TABLE = ",\n    ".join(f"{column} {_TYPES.get(column, 'TEXT NOT NULL')}" for column in COLUMNS)
_PENDING_COLUMNS = ",\n    ".join(f"{column} {_TYPES.get(column, 'TEXT NOT NULL')}" for column in PendingCharge._fields)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"CREATE TABLE lines (\n    {_TABLE}\n) STRICT",
        "CREATE INDEX by_account ON lines (account)",
        "CREATE INDEX by_analyst ON lines (account, analyst) WHERE analyst <> ''",
        "CREATE INDEX by_tab ON lines (tab) WHERE tab <> 0",
        "CREATE INDEX by_about ON lines (about) WHERE about <> 0",
        "CREATE INDEX by_plan ON lines (account, plan, data) WHERE kind = 'answer' AND plan <> ''",
        "CREATE INDEX by_request ON lines (account, analyst, request) WHERE kind = 'answer' AND request <> ''",
        "CREATE INDEX every_account ON lines (kind) WHERE kind = 'account-open'",
        "CREATE INDEX every_acknowledgement ON lines (kind) WHERE kind = 'acknowledge'",
        "CREATE INDEX every_source ON lines (kind) WHERE kind = 'source'",
        "CREATE INDEX every_tab ON lines (kind) WHERE kind = 'tab-open'",
        "CREATE TABLE header (key TEXT NOT NULL) STRICT",
        "CREATE TRIGGER one_key BEFORE UPDATE ON header BEGIN SELECT RAISE(ABORT, 'the key is never changed'); END",
        "CREATE TRIGGER kept_key BEFORE DELETE ON header BEGIN SELECT RAISE(ABORT, 'the key is never removed'); END",
        f"CREATE TABLE under_way (\n    {_PENDING_COLUMNS}\n) STRICT",
        "CREATE INDEX by_question ON under_way (account, plan, data)",
        "CREATE INDEX by_asker ON under_way (account, analyst, request)",
        "CREATE TRIGGER no_update BEFORE UPDATE ON lines BEGIN SELECT RAISE(ABORT, 'lines are never changed'); END",
        "CREATE TRIGGER no_delete BEFORE DELETE ON lines BEGIN SELECT RAISE(ABORT, 'lines are never removed'); END",
    ),
)
"""What each version of the schema adds to the one before; the file's header stores its version."""
LAST_UNSUPPORTED_SCHEMA = 2
"""Schemas up to this version are no longer read: they were never published, and their lines lack columns."""
BACKUP = 1 << 16
"""Added to the schema version of a backup: it opens like any ledger, and may lack the newest lines."""

INSERT_LINE = f"INSERT INTO lines ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
BEGIN_CHARGE = f"INSERT INTO under_way VALUES ({', '.join('?' * len(PendingCharge._fields))})"
# A partial index is used only where the query repeats its condition as a constant.
_CONDITIONS = {"analyst": "analyst <> ''", "tab": "tab <> 0", "about": "about <> 0", "plan": "plan <> ''"}
_CONDITIONS |= {"request": "request <> ''"}
_IDENTITY = (  # in one statement, so that no other process initialises the file in between
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_schema)"
)
_stores: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
_connecting = threading.Lock()  # held while connecting, and across a fork
_forking = threading.local()


class SQLiteStore:
    """The store of a ledger in one SQLite file."""

    shared = False
    durability = "a charge is synced to this machine's disk before it counts"
    warnings: tuple[str, ...] = ()

    def __init__(self, path: object, timeout: float) -> None:
        self._path = local_files.resolve_ledger_path(path)
        self.name = self._path.name
        self.place = self.address = str(self._path)
        self.anchor_paths = (Path(f"{self._path}.anchor"),)
        self.bodies = BodyFiles(self._path)
        self.identity = self.place
        self._timeout = timeout
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int, int] | None = None
        self._closed = False
        local_files.require_local_filesystem(self._path)
        _stores.add(self)
        with self._lock, self._translate_errors():
            self._connection_to_same_file()

    def reading(
        self,
        numbers: Sequence[int] = (),  # noqa: ARG002 - all lines are local
    ) -> AbstractContextManager[SQLiteRows]:
        return self._transaction("BEGIN")

    def writing(
        self,
        numbers: Sequence[int] = (),  # noqa: ARG002 - all lines are local
        *,
        moving: bool = False,  # noqa: ARG002 - no connection times out
    ) -> AbstractContextManager[SQLiteRows]:
        return self._transaction("BEGIN IMMEDIATE")

    def retry(self, call: Callable[[], T]) -> T:
        """Call it once: the file is here, and SQLite has waited for its lock."""
        return call()

    def is_written(self, number: int, seal: str) -> bool:
        with self.reading() as rows:
            return [row.hash for row in rows.select({"number": number}, limit=1)] == [seal]

    def now(self) -> int:
        return time.time_ns() // 1000

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[SQLiteRows]:
        with hold_unheld_lock(self._lock):
            connection = None
            try:  # with less to call than in _translate_errors, twice for every answer
                connection = self._connection_to_same_file()
                connection.execute(begin)
                yield SQLiteRows(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection is not None:
                    self._roll_back(connection)
                if isinstance(error, _DRIVER_ERRORS):
                    raise self._refusal(error) from error
                raise

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Undo what is not committed. A connection that cannot even do that is dropped: the next call opens a new
        one.
        """
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connection_to_same_file(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerUnavailable("this ledger is closed", place=self.place, fix="open it again: Ledger.open(path)")
        if self._file is None:
            local_files.create_private_file_if_missing(self._path)
            local_files.require_single_link(self._path)
            self._file = _file_identity(self._path)
        identity = _file_identity(self._path)
        if identity is not None and identity[2] != 1:
            local_files.require_single_link(self._path)
        if self._file != identity:
            raise LedgerUnavailable(
                "the ledger file was moved or replaced while it was open",
                place=self.place,
                fix="put the file back, or close this ledger and open the one that is there now",
            )
        if self._connection is None:
            with _connecting:
                self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # on systems where fsync leaves data in the drive's cache
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Migrate an older file to this version's schema, completely or not at all; refuse a newer or a foreign one."""
        version = self._require_supported_version(connection)
        local_files.restrict_to_owner(self._path)
        if version == _schema_version():
            return
        self._enable_wal(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._require_supported_version(connection)
            for migration in MIGRATIONS[max(version - LAST_UNSUPPORTED_SCHEMA, 0) :]:
                for statement in migration:
                    connection.execute(statement)
            if version == 0:
                connection.execute("INSERT INTO header VALUES (?)", (f"{bits.random_bits(256):064x}",))
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            stored_version, *_ = connection.execute(_IDENTITY).fetchone()
            connection.execute(f"PRAGMA user_version = {_schema_version() | (stored_version & BACKUP)}")
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def _enable_wal(self, connection: sqlite3.Connection) -> None:
        """Switch the file to WAL permanently. SQLite's busy timeout does not apply to this statement, so wait here."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise LedgerUnavailable(
                    "this file system does not allow a write-ahead log",
                    place=self.place,
                    fix="keep the ledger on a local disk",
                )
            return

    def _require_supported_version(self, connection: sqlite3.Connection) -> int:
        stored_version, application, objects = connection.execute(_IDENTITY).fetchone()
        version = stored_version & ~BACKUP
        is_empty = objects == 0
        if application != APPLICATION and not (is_empty and version == application == 0):
            raise LedgerUnavailable(
                "this file is a database, but not a ledger", place=self.place, fix="name another file for the ledger"
            )
        if not 0 <= version <= _schema_version():
            raise LedgerUnavailable(
                f"this ledger was written by a newer Sfumato (schema {version}; this version reads up to "
                f"{_schema_version()})",
                place=self.place,
                fix="upgrade Sfumato; the file was not changed",
            )
        if 0 < version <= LAST_UNSUPPORTED_SCHEMA:
            raise LedgerUnavailable(
                f"this ledger was written by an older Sfumato (schema {version}), whose lines lack fields that "
                "this version needs",
                place=self.place,
                fix="keep the file, which was not changed, as the record of what was spent; open a new ledger with "
                "the remaining budget",
            )
        return version

    @property
    def is_backup(self) -> bool:
        with self._lock, self._translate_errors():
            (stored_version,) = self._connection_to_same_file().execute("PRAGMA user_version").fetchone()
        return bool(stored_version & BACKUP)

    def key(self) -> bytes:
        with self._lock, self._translate_errors():
            rows = self._connection_to_same_file().execute("SELECT key FROM header").fetchall()
        try:
            ((text,),) = rows
            return bytes.fromhex(text)
        except ValueError:
            raise LedgerDamaged(None, "its header does not contain the key of the ledger") from None

    def schema_fault(self) -> str | None:
        """Compare the schema with the one we wrote: an extra or missing trigger or index changes what a line means."""
        with self._lock, self._translate_errors():
            expected = [statement for version in MIGRATIONS for statement in version]
            schema = self._connection_to_same_file().execute(
                "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
            )
            is_unchanged = [sql for (sql,) in schema] == expected
        return None if is_unchanged else "its schema was changed"

    def storage_fault(self) -> str | None:
        """Run SQLite's integrity check of pages and indexes."""
        with self._lock, self._translate_errors():
            (report,) = self._connection_to_same_file().execute("PRAGMA integrity_check(1)").fetchone()
        return None if report == "ok" else "its pages or indexes contradict each other"

    def backup(self, path: object) -> None:
        """Copy the ledger as of now to a new file, complete and readable by its owner only."""
        target = local_files.resolve_ledger_path(path)
        if target.exists():
            raise LedgerUnavailable("a backup never overwrites a file", place=str(target), fix="name a new file")
        partial = local_files.create_temporary(target)
        try:
            with self._lock, self._translate_errors(), contextlib.closing(sqlite3.connect(partial)) as copy:
                self._connection_to_same_file().backup(copy)
                copy.execute("DELETE FROM under_way")  # pending charges are answered in the original
                copy.execute(f"PRAGMA user_version = {_schema_version() | BACKUP}")
                copy.commit()
                copy.execute("PRAGMA journal_mode = DELETE")
            local_files.sync_to_disk(partial)
            self.bodies.copy(BodyFiles(target))
            os.link(partial, target)  # fails if another file has appeared meanwhile
        finally:
            partial.unlink()
        local_files.sync_parent_folder(target)

    def close(self) -> None:
        with self._lock, self._translate_errors():
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def require_owner(self) -> None:
        """Refuse nobody: whoever can write the file owns its content."""

    def before_fork(self) -> None:
        """Block new transactions, and close the connection.

        SQLite keeps the locks of a process in the memory of the process. A child would inherit that memory but not the
        locks, and even its own new connections would rely on them. Without a connection there is nothing to inherit.
        """
        self._lock.acquire()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # the next use opens it again and reports what is wrong
                connection.close()

    def after_fork(self, *, child: bool) -> None:
        if child:
            self._lock = threading.RLock()
        else:
            self._lock.release()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn driver errors into refusals."""
        try:
            yield
        except _DRIVER_ERRORS as error:
            raise self._refusal(error) from error

    def _refusal(self, error: sqlite3.DatabaseError | UnicodeDecodeError | OSError) -> Exception:
        """Return the refusal of a driver's error, whose own message could quote a value and is not repeated."""
        if isinstance(error, UnicodeDecodeError):
            return LedgerDamaged(None, "its schema cannot be read")
        if isinstance(error, OSError):
            return LedgerUnavailable(
                f"the ledger file could not be used ({os.strerror(error.errno or 0)})",
                place=self.place,
                fix="make the file and its folder writable for this user, and free space on the disk",
            )
        code = getattr(error, "sqlite_errorcode", None) or 0
        if code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            why = "this file cannot be read as an SQLite database"
            fix = "name the ledger (default: sfumato.ledger beside the policy); if this is it, restore a backup"
            return LedgerDamaged(None, why, fix=fix)
        rule, fix = _REFUSALS.get(code & 0xFF, _OTHER_REFUSAL)
        return LedgerUnavailable(rule, place=self.place, fix=fix)


class SQLiteRows:
    """The lines inside a transaction of one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def select(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int
    ) -> Sequence[Row]:
        by_column = dict(equal)
        kind = str(by_column.pop("kind", ""))
        present = tuple(filter(by_column.get, _CONDITIONS))
        text = _select_statement(tuple(by_column), present, kind, newest, after > 0, before > 0)
        values = [*by_column.values(), *((after,) if after > 0 else ()), *((before,) if before > 0 else ())]
        try:
            return self._fetch_rows(text, [*values, limit])
        except sqlite3.OperationalError as error:
            if "UTF-8" not in str(error):
                raise
            # We never wrote this: read it as it is; the seal of its line will not match.
            self._connection.text_factory = _decode_with_surrogates
            return self._fetch_rows(text, [*values, limit])

    def _fetch_rows(self, text: str, values: list[str | int]) -> list[Row]:
        new_tuple = tuple.__new__  # as Row._make does, without its length check, which the schema ensures
        return [new_tuple(Row, values_of_row) for values_of_row in self._connection.execute(text, values)]

    def answers_with_plan_prefix(self, equal: Where, plan: Prefix, *, after: int, limit: int) -> Sequence[Row]:
        # By the index of plans only: another would go through the whole ledger in the order of numbers.
        conditions = "".join(f" AND {column} = ?" for column in equal)
        numbers = (
            "SELECT number FROM lines INDEXED BY by_plan WHERE kind = 'answer' AND plan <> '' "
            f"AND plan >= ? AND plan < ?{conditions} AND number > ? ORDER BY number LIMIT ?"
        )
        return self._fetch_rows(
            f"SELECT * FROM lines WHERE number IN ({numbers}) ORDER BY number",
            [plan.text, plan.after, *equal.values(), after, limit],
        )

    def append(self, row: Row) -> None:
        self._connection.execute(INSERT_LINE, row)

    def pending_charges(self, equal: Where) -> Sequence[PendingCharge]:
        where = " AND ".join(f"{column} = ?" for column in equal) or "true"
        charge_rows = self._connection.execute(
            f"SELECT * FROM under_way WHERE {where} ORDER BY number", tuple(equal.values())
        )
        return [PendingCharge(*values) for values in charge_rows]

    def add_pending_charge(self, charge: PendingCharge) -> None:
        self._connection.execute(BEGIN_CHARGE, charge)

    def remove_pending_charge(self, number: int) -> None:
        self._connection.execute("DELETE FROM under_way WHERE number = ?", (number,))

    def now(self) -> int:
        return time.time_ns() // 1000


@lru_cache(maxsize=256)
def _select_statement(
    columns: tuple[str, ...], present: tuple[str, ...], kind: str, newest: bool, after: bool, before: bool
) -> str:
    """Return the query for these columns; ``present`` are those with values that are not empty.

    A kind is written into the text, as it is in its index: there are thirteen, and none comes from outside.
    """
    conditions = [f"{column} = ?" for column in columns] + [_CONDITIONS[column] for column in present]
    conditions += [f"kind = '{kind}'"] if kind else []
    conditions += ["number > ?"] if after else []
    conditions += ["number < ?"] if before else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT * FROM lines{where} ORDER BY number {'DESC' if newest else 'ASC'} LIMIT ?"


_DRIVER_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError, OSError)
_REFUSALS = {
    sqlite3.SQLITE_BUSY: ("the ledger is locked by another process", "wait and try again; nothing was charged"),
    sqlite3.SQLITE_LOCKED: ("the ledger is locked by another process", "wait and try again; nothing was charged"),
    sqlite3.SQLITE_FULL: (
        "the disk is full: nothing more can be charged",
        "free space on the disk that holds the ledger",
    ),
    sqlite3.SQLITE_READONLY: ("the ledger cannot be written", "make the file and its folder writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("the ledger cannot be opened", "make the file and its folder writable for this user"),
    sqlite3.SQLITE_IOERR: (
        "the disk failed to read or write",
        "check the disk that holds the ledger, then try again",
    ),
}


_OTHER_REFUSAL = ("the ledger could not be used", "verify it: ledger.verify() reports what is wrong")


def _schema_version() -> int:
    """Return the schema version that this code writes."""
    return LAST_UNSUPPORTED_SCHEMA + len(MIGRATIONS)


def _decode_with_surrogates(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_nlink


def _before_fork() -> None:
    _forking.stores = sorted(_stores, key=id)  # a fixed order, so that two forks never wait for each other
    for store in _forking.stores:
        store.before_fork()
    _connecting.acquire()


def _after_fork(*, child: bool) -> None:
    global _connecting
    if child:
        _connecting = threading.Lock()
    else:
        _connecting.release()
    for store in _forking.stores:
        store.after_fork(child=child)
    _forking.stores = []


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)


class LedgerContent(NamedTuple):
    """Everything a ledger holds, to be written elsewhere."""

    key: str
    rows: Callable[[], Iterable[Row]]
    pending_charges: Sequence[PendingCharge]
    """Pending charges move along with the ledger: repeating their requests is not charged again."""
    body: Callable[[str], str | None]
    """Returns a large answer by its hash."""


def write_copy(path: object, content: LedgerContent) -> None:
    """Write lines, and the large answers that they refer to, as a backup to a new file."""
    with copy_published_on_exit(path, content, mark=BACKUP):
        pass


@contextmanager
def copy_published_on_exit(
    path: object, content: LedgerContent, *, already_written: Path | None = None, mark: int = 0
) -> Iterator[Path]:
    """Write lines to a file that gets its final name when the block ends; inside the block it can be checked. With
    ``already_written``, that file is published, and nothing is written.
    """
    target = local_files.resolve_ledger_path(path)
    local_files.require_local_filesystem(target)
    if target.exists():
        raise LedgerUnavailable("a copy never overwrites a file", place=str(target), fix="name a new file")
    partial = already_written or local_files.create_temporary(target)
    try:
        if already_written is None:
            _write_ledger(partial, content, BodyFiles(target), mark)
            local_files.sync_to_disk(partial)
            local_files.sync_parent_folder(partial)
        yield partial
    except LedgerInDoubt:
        raise  # the old ledger may be sealed: the partial file is needed to finish
    except BaseException:
        if already_written is None:
            partial.unlink(missing_ok=True)
        raise
    _link_without_overwriting(partial, target)
    partial.unlink(missing_ok=True)
    local_files.sync_parent_folder(target)


def _write_ledger(path: Path, content: LedgerContent, bodies: BodyFiles, mark: int) -> None:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            copy.execute("BEGIN IMMEDIATE")
            for migration in MIGRATIONS:
                for statement in migration:
                    copy.execute(statement)
            copy.execute("INSERT INTO header VALUES (?)", (content.key,))
            copy.executemany(INSERT_LINE, _rows_with_bodies(content, bodies))
            copy.executemany(BEGIN_CHARGE, content.pending_charges)
            copy.execute(f"PRAGMA application_id = {APPLICATION}")
            copy.execute(f"PRAGMA user_version = {LAST_UNSUPPORTED_SCHEMA + len(MIGRATIONS) + mark}")
            copy.execute("COMMIT")
    except (sqlite3.Error, OSError):
        raise LedgerUnavailable(
            "the copy could not be written",
            place=str(path.parent),
            fix="make the folder writable, or free space on the disk",
        ) from None


def _rows_with_bodies(content: LedgerContent, bodies: BodyFiles) -> Iterator[Row]:
    """Yield the rows, and write every large answer before its line; a lost one stays lost."""
    for row in content.rows():
        body = content.body(row.file) if row.file else None
        if body is not None:
            bodies.write_body(body)
        yield row


def lost_target_error(place: str) -> LedgerUnavailable:
    """Refuse to refill a ledger from the one that was moved to it: later charges would be forgotten."""
    return LedgerUnavailable(
        "this ledger was moved before, and the ledger it was moved to is lost, with all that was charged there",
        place=place,
        fix="restore that ledger from a backup; or, as the owner, accept that its charges are forgotten: "
        "`sfumato ledger copy --accept-loss`",
    )


def _link_without_overwriting(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)  # fails if another file has appeared meanwhile
    except OSError as error:
        raise LedgerUnavailable(
            f"the copy could not be renamed to its final name ({os.strerror(error.errno or 0)})",
            place=str(target),
            fix="name a new file",
        ) from None
