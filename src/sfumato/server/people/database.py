"""The SQLite file beside the ledger that holds users, tokens, sessions and running releases, readable by its owner
alone.

Several processes use it at once. Every change is one durable transaction; the table of owners' acts is append-only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import local_files

APPLICATION = 0x5F0A71
VERSION = 3
_LOCK_TIMEOUT = 30.0
_IDENTITY = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_schema)"
)
_TEXTS = "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT"
"""Each answer text is stored once, however many requests it answered; ``answers`` refers to it by hash."""
_SCRAM = (
    "ALTER TABLE tokens ADD COLUMN scram TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tokens ADD COLUMN price TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
)
"""A token's SCRAM verifier, empty for tokens of earlier versions; the price of its questions over the PostgreSQL wire,
empty for none; and the secret that users' salts are derived from."""
SCHEMA = (
    "CREATE TABLE users (name TEXT PRIMARY KEY, role TEXT NOT NULL, made INTEGER NOT NULL, disabled INTEGER NOT NULL)"
    " STRICT",
    "CREATE TABLE tokens (number INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE, user TEXT NOT NULL,"
    " label TEXT NOT NULL, made INTEGER NOT NULL, expires INTEGER, most TEXT, spent TEXT NOT NULL,"
    " revoked INTEGER NOT NULL) STRICT",
    "CREATE TABLE reservations (number INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL,"
    " amount TEXT NOT NULL, process TEXT NOT NULL) STRICT",
    "CREATE INDEX by_token ON reservations (token)",
    "CREATE TABLE sessions (hash TEXT PRIMARY KEY, user TEXT NOT NULL, expires INTEGER NOT NULL, form TEXT NOT NULL)"
    " STRICT",
    "CREATE TABLE links (hash TEXT PRIMARY KEY, user TEXT NOT NULL, expires INTEGER NOT NULL) STRICT",
    "CREATE TABLE acts (number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, by TEXT NOT NULL,"
    " act TEXT NOT NULL, about TEXT NOT NULL) STRICT",
    "CREATE TRIGGER acts_stay BEFORE UPDATE ON acts BEGIN SELECT RAISE(ABORT, 'acts are never changed'); END",
    "CREATE TRIGGER acts_kept BEFORE DELETE ON acts BEGIN SELECT RAISE(ABORT, 'acts are never removed'); END",
    "CREATE TABLE paused (policy TEXT PRIMARY KEY) STRICT",
    "CREATE TABLE running (account TEXT NOT NULL, user TEXT NOT NULL, request TEXT NOT NULL, phase TEXT NOT NULL,"
    " process TEXT NOT NULL, PRIMARY KEY (account, user, request)) STRICT",
    "CREATE TABLE answers (user TEXT NOT NULL, account TEXT NOT NULL, request TEXT NOT NULL, line INTEGER NOT NULL,"
    " kind TEXT NOT NULL, spec TEXT NOT NULL, price TEXT NOT NULL, answer TEXT NOT NULL,"
    " PRIMARY KEY (user, account, request)) STRICT",
    "CREATE INDEX by_line ON answers (account, line)",
    "CREATE TABLE overruns (account TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT",
    _TEXTS,
    *_SCRAM,
)
_MIGRATIONS = {1: ("ALTER TABLE answers ADD COLUMN answer TEXT NOT NULL DEFAULT ''", _TEXTS), 2: _SCRAM}
"""By version of an older file, the statements that upgrade it to the next version."""


class PeopleDatabase:
    """A connection to the file: one per process, shared by its threads under a lock."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_files.resolve_ledger_path(path)
        local_files.require_local_filesystem(self.path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._openings = 0
        with self._lock, self._wrap_errors():
            self._connection_of_this_process()

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._wrap_errors():
            connection = self._connection_of_this_process()
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def change_counters_or_none(self) -> tuple[int, int, int] | None:
        """Return a value that is another one after each change of the file, by this or any process; None while a
        thread uses the connection, or where it fails. Never waits: readers of a WAL wait for no writer.

        SQLite's data_version counts what others commit, total_changes what this connection does, and the first number
        tells one connection from the next.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            connection = self._connection_of_this_process()
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            return self._openings, version, connection.total_changes
        except (sqlite3.Error, OSError):
            return None
        finally:
            self._lock.release()

    def backup(self, target_path: str | os.PathLike[str], last_line: int) -> None:
        """Write a consistent copy to a new file, beside a backup of the ledger that holds at least ``last_line``.

        It is taken after the ledger's backup, so no token has spent less in it than in the account. Answers after
        ``last_line`` are dropped (they are found in the ledger alone), as are sessions, login links and running
        releases.
        """
        target = local_files.resolve_ledger_path(target_path)
        if target.exists():
            raise _unusable_file_error(target, "a backup never overwrites a file")
        partial = local_files.create_temporary(target)
        try:
            with self._lock, self._wrap_errors(), closing(sqlite3.connect(partial)) as copy:
                self._connection_of_this_process().backup(copy)
                copy.execute("DELETE FROM answers WHERE line > ?", (last_line,))
                copy.execute("DELETE FROM texts WHERE hash NOT IN (SELECT answer FROM answers)")
                for table in ("running", "sessions", "links"):
                    copy.execute(f"DELETE FROM {table}")
                copy.commit()
                copy.execute("PRAGMA journal_mode = DELETE")
            local_files.sync_to_disk(partial)
            os.link(partial, target)  # fails if another file has appeared meanwhile
        finally:
            partial.unlink()
        local_files.sync_parent_folder(target)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _connection_of_this_process(self) -> sqlite3.Connection:
        """Return this process's connection; one inherited through a fork belongs to the parent and is left alone."""
        if self._connection is None or self._process != os.getpid():
            local_files.create_private_file_if_missing(self.path)
            self._connection, self._process = self._connect(), os.getpid()
            self._openings += 1
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF", "secure_delete = ON"):
                connection.execute(f"PRAGMA {setting}")
            self._create_or_migrate(connection)
        except BaseException:
            connection.close()
            raise
        local_files.restrict_to_owner(self.path)
        return connection

    def _create_or_migrate(self, connection: sqlite3.Connection) -> None:
        if self._require_schema_version(connection) == VERSION:
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._require_schema_version(connection)
            if version != VERSION:
                steps = [_MIGRATIONS[old_version] for old_version in range(version, VERSION)] if version else [SCHEMA]
                for statement in chain.from_iterable(steps):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _require_schema_version(self, connection: sqlite3.Connection) -> int:
        """Return the schema version, 0 for an empty file; refuse any other file without changing it."""
        version, application, objects = connection.execute(_IDENTITY).fetchone()
        if application == APPLICATION and 1 <= version <= VERSION:
            return int(version)
        if objects or version or application:
            raise _unusable_file_error(
                self.path, "this is not a people file, or it belongs to another version of Sfumato"
            )
        return 0

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, sqlite3.IntegrityError):
                raise
            raise _unusable_file_error(self.path, "the file of users and tokens cannot be read or written") from error


def people_file_path(ledger: str | os.PathLike[str]) -> Path:
    """Return the path of a ledger's people file."""
    return Path(f"{os.path.realpath(ledger)}.people")


def _unusable_file_error(path: Path, rule: str) -> LedgerUnavailable:
    fix = "check that this user may read and write it and that its local disk has space, then try again"
    return LedgerUnavailable(rule, place=str(path), fix=fix)
