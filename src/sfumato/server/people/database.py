"""One SQLite file beside the ledger holds what a server knows of people; its owner alone can read it.

Several processes use it at once. Every change is one transaction, durable when it returns; what owners did is never
changed or removed.
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
VERSION = 2
_PATIENCE = 30.0
_IDENTITY = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_schema)"
)
_TEXTS = "CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT"
"""Texts of answers are each there once, however many requests were answered with them; ``answers`` has their hashes."""
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
)
_SINCE = {1: ("ALTER TABLE answers ADD COLUMN answer TEXT NOT NULL DEFAULT ''", _TEXTS)}
"""By the version of an older file, what makes it one of the next version."""


class PeopleDatabase:
    """This is the connection to the file: one for each process, taken in turns by its threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_files.resolve(path)
        local_files.require_local(self.path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with self._lock, self._explained():
            self._opened()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            connection = self._opened()
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def backup(self, place: str | os.PathLike[str], last_line: int) -> None:
        """Make a copy of one moment under a new name, beside a copy of the ledger with this line and more.

        It is taken after the ledger's, so no token has spent less in it than in the account. What was answered since
        this line is found in the ledger alone, nobody is signed in, and nothing runs.
        """
        target = local_files.resolve(place)
        if target.exists():
            raise _unusable(target, "a backup never overwrites a file")
        partial = local_files.scratch(target)
        try:
            with self._lock, self._explained(), closing(sqlite3.connect(partial)) as copy:
                self._opened().backup(copy)
                copy.execute("DELETE FROM answers WHERE line > ?", (last_line,))
                copy.execute("DELETE FROM texts WHERE hash NOT IN (SELECT answer FROM answers)")
                for table in ("running", "sessions", "links"):
                    copy.execute(f"DELETE FROM {table}")
                copy.commit()
                copy.execute("PRAGMA journal_mode = DELETE")
            local_files.sync(partial)
            os.link(partial, target)  # fails where another file has appeared meanwhile
        finally:
            partial.unlink()
        local_files.sync_folder(target)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        """Give this process's connection: one that was inherited by a fork belongs to the parent, and is left alone."""
        if self._connection is None or self._process != os.getpid():
            local_files.create(self.path)
            self._connection, self._process = self._connect(), os.getpid()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF", "secure_delete = ON"):
                connection.execute(f"PRAGMA {setting}")
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        local_files.close_to_others(self.path)
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == VERSION:
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)
            if version != VERSION:
                steps = [_SINCE[each] for each in range(version, VERSION)] if version else [SCHEMA]
                for statement in chain.from_iterable(steps):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        """Give the version of the file, 0 if it is empty; one that is something else is refused, and not touched."""
        version, application, objects = connection.execute(_IDENTITY).fetchone()
        if application == APPLICATION and 1 <= version <= VERSION:
            return int(version)
        if objects or version or application:
            raise _unusable(self.path, "this file is not the people file of this version of Sfumato")
        return 0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, sqlite3.IntegrityError):
                raise
            raise _unusable(self.path, "the file that holds users and tokens cannot be used now") from error


def beside(ledger: str | os.PathLike[str]) -> Path:
    """Name the people file of a ledger."""
    return Path(f"{os.path.realpath(ledger)}.people")


def _unusable(path: Path, rule: str) -> LedgerUnavailable:
    fix = "make it readable and writable for this user on a local disk with room, then try again"
    return LedgerUnavailable(rule, place=str(path), fix=fix)
