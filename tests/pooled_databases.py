"""DuckDB databases that engines of the tests hand on to one another: opening one takes 25 ms of a processor, emptying
one takes one.

Every statement runs in a real database. It is opened with the engine's settings and locked as an engine locks it, but
for one thing: all files of the tests may be read, not only those of one policy. Tests of the lock and of limits open
databases of their own, by the fixture ``own_databases``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

import duckdb
import pytest

from sfumato.engine.duckdb.connection import _EXTENSION_SETTINGS, _LOCKDOWN, Sources
from sfumato.engine.spellings.duckdb import literal_list
from sfumato.policy import DatabaseTable, File, InMemory, Policy, Table

_POOLED = 16
"""How many databases wait at most: tests of worlds open about as many engines at once."""
_FOLDERS = tuple(os.path.realpath(folder) for folder in (tempfile.gettempdir(), Path(__file__).parents[1]))
_CREATION = re.compile(r'CREATE (?:OR REPLACE )?(TABLE|VIEW|TYPE) ("(?:[^"]|"")+")')
_ATTACHED = re.compile(r'ATTACH IF NOT EXISTS .* AS ("(?:[^"]|"")+") \(READ_ONLY\)')
_LOCKED = tuple(f"SET GLOBAL {setting}" for setting in (*_EXTENSION_SETTINGS, *_LOCKDOWN))
_connect = duckdb.connect
_has_pool: ContextVar[bool] = ContextVar("has_pool", default=True)
_pool_in_use: ContextVar[_Pool | None] = ContextVar("pool", default=None)


class _Database:
    """A locked database, the settings it was opened with, and what undoes the statements of the present engine."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.connection = _connect(":memory:", config={**config})
        self.connection.execute(f"SET GLOBAL allowed_directories = [{literal_list(_FOLDERS)}]")
        for setting in _LOCKED:
            self.connection.execute(setting)
        self.undoing: dict[str, None] = {}

    def note(self, statement: str) -> None:
        """Remember how to undo a statement that creates or attaches something."""
        if created := _CREATION.match(statement):
            self.undoing[f"DROP {created[1]} IF EXISTS {created[2]}"] = None
        elif attached := _ATTACHED.match(statement):
            self.undoing[f"DETACH DATABASE IF EXISTS {attached[1]}"] = None

    def empty(self) -> None:
        with self.connection.cursor() as cursor:
            for statement in reversed(self.undoing):  # a view before what it reads
                cursor.execute(statement)
        self.undoing.clear()


class _Pool:
    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), Lock()
        self._waiting: list[_Database] = []

    def take(self, config: Mapping[str, str]) -> _Database:
        config = {name: value for name, value in config.items() if name != "temp_directory"}  # a folder of one engine
        if os.getpid() == self._process:  # the lock and the threads of a forked process stayed with its parent
            with self._lock:
                for database in self._waiting:
                    if database.config == config:
                        self._waiting.remove(database)
                        return database
        return _Database(config)

    def give_back(self, database: _Database) -> None:
        if os.getpid() != self._process:
            return
        try:
            database.empty()
        except duckdb.Error:
            database.connection.close()
            return
        with self._lock:
            if len(self._waiting) < _POOLED:
                self._waiting.append(database)
                return
        database.connection.close()


class _Connection:
    """A connection that goes back to the pool where it is closed or forgotten."""

    def __init__(self, pool: _Pool, config: Mapping[str, str]) -> None:
        self._database = pool.take(config)
        self.close = finalize(self, pool.give_back, self._database)
        self.close.atexit = False

    def cursor(self) -> _Cursor:
        if not self.close.alive:
            raise duckdb.ConnectionException("the connection was closed")
        return _Cursor(self, self._database)


class _NoRows:
    def fetchall(self) -> list[tuple[Any, ...]]:
        return []


_NO_ROWS = _NoRows()


class _Cursor:
    """A cursor that skips the settings that its database is locked with, and notes what is to be undone."""

    def __init__(self, connection: _Connection, database: _Database) -> None:
        self._connection, self._database = connection, database  # the connection lives as long as its cursors
        self._cursor = database.connection.cursor()

    def execute(self, statement: Any, *parameters: Any) -> Any:
        text = statement.query if isinstance(statement, duckdb.Statement) else statement
        if text in _LOCKED or text.startswith("SET GLOBAL allowed_paths = "):
            return _NO_ROWS
        self._database.note(text)
        return self._cursor.execute(statement, *parameters)

    def register(self, name: str, table: Any) -> _Cursor:
        self._cursor.register(name, table)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def pooled_databases() -> Iterator[None]:
    """Let every engine take its database from a pool, unless it has limits of its own or reads files elsewhere."""
    pool, open_sources = _Pool(), Sources.__init__

    def open_pooled(sources: Sources, policy: Policy, **limits: Any) -> None:
        is_poolable = _has_pool.get() and set(limits.values()) <= {None}
        is_poolable = is_poolable and all(map(_is_in_folders, policy.tables.values()))
        token = _pool_in_use.set(pool if is_poolable else None)
        try:
            open_sources(sources, policy, **limits)
        finally:
            _pool_in_use.reset(token)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(duckdb, "connect", _connect_pooled)
        patches.setattr(Sources, "__init__", open_pooled)
        yield


@pytest.fixture
def own_databases() -> Iterator[None]:
    """Let each engine of a test open a database that reads the files of its policy alone."""
    token = _has_pool.set(False)
    yield
    _has_pool.reset(token)


def _connect_pooled(*arguments: Any, **options: Any) -> Any:
    pool = _pool_in_use.get()
    return _connect(*arguments, **options) if pool is None else _Connection(pool, options["config"])


def _is_in_folders(table: Table) -> bool:
    source = table.source
    if isinstance(source, File | DatabaseTable):
        return os.path.realpath(source.path).startswith(_FOLDERS)
    return isinstance(source, InMemory)
