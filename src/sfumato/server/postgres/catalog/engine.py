"""The catalog's engine as the server sees it: a child process that is started when needed and ended when it hangs.

A DuckDB in a process of its own that holds the catalog and nothing else, locked before a client's statement reaches
it.
"""

from __future__ import annotations

import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from sfumato.errors import TooManyRequests, Unsupported
from sfumato.policy import Policy
from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.catalog import engine_process
from sfumato.server.postgres.catalog.engine_process import Rows, StatementLimits
from sfumato.server.postgres.catalog.parsing import (
    SETTABLE,
    SETTINGS,
    create_macro_statements,
    set_variable_statements,
)
from sfumato.server.postgres.catalog.policy_rows import (
    DATABASE,
    DEFAULTS,
    USER,
    VISIBLE_NAMESPACES,
    DatabaseAndUser,
    NumberedRelation,
    Row,
    derived_insert_statements,
    number_relations,
    quoted_keywords,
    rows_by_catalog_table,
)
from sfumato.server.postgres.catalog.relations import (
    SCHEMA,
    CatalogRelation,
    DescribedRelation,
    catalog_relations,
    describe_relations,
    duckdb_type,
    postgres_types,
    result_oid,
)
from sfumato.untrusted import escape_unprintable

IDLE_SECONDS = engine_process.IDLE_SECONDS - 10
"""A process that was idle for so long is replaced before it ends by itself."""
START_SECONDS, GRACE_SECONDS = 60.0, 2.0
"""How long the process may take to fill its database, and to stop a statement after its time is over."""


@dataclass(frozen=True)
class EngineSetup:
    """What the process is started with: DuckDB's settings, statements with their parameters, and bytes of memory."""

    settings: Mapping[str, Any]
    statements: tuple[tuple[str, Mapping[str, Any] | None], ...]
    memory: int


class CatalogEngine:
    """Runs one statement at a time; only ``interrupt`` may be called by other threads."""

    def __init__(self, setup: EngineSetup) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._ends_idle = 0.0
        self._is_interrupted = False

    def run(self, statement: str, limits: StatementLimits) -> tuple[Rows, int] | None:
        """Return rows and the number of their letters; None where the engine fails or exceeds a limit.

        Address space that statements leave behind is never given back, so where it runs out, or the process dies
        without being killed, the statement runs once more in a new process, if there were others before it.
        """
        is_new, self._is_interrupted = not self._is_running(), False
        answer = self._run_in_process(statement, limits)
        if answer == engine_process.OUT_OF_MEMORY:
            self.stop()
            answer = None if is_new or self._is_interrupted else self._run_in_process(statement, limits)
        return None if isinstance(answer, str) else answer

    def _run_in_process(self, statement: str, limits: StatementLimits) -> tuple[Rows, int] | str | None:
        try:
            process = self._running_process()
            answer: tuple[Rows, int] | str | None = _exchange_pickles(
                process, (statement, *limits), limits.seconds + GRACE_SECONDS
            )
        except (OSError, EOFError, pickle.UnpicklingError):  # it has died of the statement, or was killed
            return None if self._is_killed() else engine_process.OUT_OF_MEMORY
        return answer

    def _is_killed(self) -> bool:
        """Say whether the process was ended by ``interrupt``, for its time or by the kernel; it is stopped in any
        case.
        """
        process = self._process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
        self.stop()
        return process is None or process.returncode == -signal.SIGKILL

    def interrupt(self) -> None:
        """Kill the process, from any thread: ``run`` returns None, and the next statement starts another."""
        self._is_interrupted = True
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """End the process; the next statement starts another."""
        if self._process is not None:
            _kill_process(self._process)
            self._process = None

    def _is_running(self) -> bool:
        return self._process is not None and time.monotonic() < self._ends_idle and self._process.poll() is None

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._is_running():
            self._ends_idle = time.monotonic() + IDLE_SECONDS
            return self._process
        self.stop()
        self._process = _start_process()
        weakref.finalize(self, _kill_process, self._process)
        opening = sys.path, dict(self._setup.settings), self._setup.statements, self._setup.memory
        _exchange_pickles(self._process, opening, START_SECONDS)
        self._ends_idle = time.monotonic() + IDLE_SECONDS
        return self._process


def _start_process() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", engine_process.__file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _exchange_pickles(process: subprocess.Popen[bytes], request: object, seconds: float) -> Any:
    """Send a request and return its reply; kill a process that does not reply in time."""
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    finally:
        timer.cancel()


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


TIME_LIMIT = 5.0
"""Seconds that one statement may take."""
MAX_ROWS, MAX_LETTERS = 20_000, 4_000_000
"""The most rows of one answer, and the most letters of its texts."""
MEMORY_LIMIT = 512 * 2**20
"""The most bytes that statements may add to the engine's process."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "256MB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "max_temp_directory_size": "0B",
    "temp_directory": "",
}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_LOCKDOWN = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")


def locked_engine(setup_statements: Iterable[tuple[str, Mapping[str, Any] | None]]) -> CatalogEngine:
    """Return an engine that runs these statements when it starts, and is locked after them."""
    lockdown = [(f"SET {setting}", None) for setting in _LOCKDOWN]
    return CatalogEngine(EngineSetup(_SETTINGS, (*setup_statements, *lockdown), MEMORY_LIMIT))


class CatalogDatabase:
    """The relations of one policy as one user sees them. Thread-safe: one statement runs at a time."""

    def __init__(self, policy: Policy, identity: DatabaseAndUser, further: tuple[DescribedRelation, ...] = ()) -> None:
        """``further`` are relations beside those of the policy, which come first."""
        self.identity = identity
        self.described = number_relations((*describe_relations(policy), *further))
        self.relation_oids = dict(_relation_spellings_with_oid(self.described))
        self.type_oids = dict(_type_spellings_with_oid(self.described))
        self._lock = threading.Lock()
        self._engine = locked_engine(self._setup_statements())

    def result_names_and_oids(self, statement: str) -> list[tuple[str, int]]:
        """Return name and type OID of each column of a generated SELECT, which is bound but not run."""
        rows, _ = self._fetch_rows_and_letters(f"DESCRIBE {statement}")
        for name, kind, *_ in rows:
            if kind.startswith(("STRUCT", "MAP")):
                raise Unsupported(
                    "catalog-record",
                    f"{escape_unprintable(name[:63])} is a whole row, which cannot be returned as one value",
                    fix="name its columns, or write .* after its name",
                    place="the statement",
                )
        return [(name, result_oid(kind)) for name, kind, *_ in rows]

    def fetch_rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a generated SELECT within the limits of time and rows; refuse it beyond them."""
        rows, letters = self._fetch_rows_and_letters(statement)
        if len(rows) > MAX_ROWS or letters > MAX_LETTERS:
            raise Unsupported(
                "catalog-size",
                f"a catalog statement can return at most {MAX_ROWS:,} rows and {MAX_LETTERS:,} characters",
                fix="name the tables or columns in WHERE, or add LIMIT",
                place="the statement",
            )
        return rows

    def interrupt(self) -> None:
        """End the statement that runs, from another thread."""
        self._engine.interrupt()

    def _fetch_rows_and_letters(self, statement: str) -> tuple[list[tuple[Any, ...]], int]:
        """Return rows and the number of their letters; no rows beyond the limit of letters."""
        if not self._lock.acquire(timeout=TIME_LIMIT):
            raise TooManyRequests("another catalog statement of this user is still running", 5)
        try:
            answer = self._engine.run(statement, StatementLimits(TIME_LIMIT, MAX_ROWS, MAX_LETTERS))
        finally:
            self._lock.release()
        if answer is None:
            raise Unsupported(
                "catalog-statement",
                f"this catalog statement cannot be evaluated, or takes over {TIME_LIMIT:g} seconds or 256 MB",
                fix="read fewer relations at once, or ask for one table by its name",
                place="the statement",
            )
        return answer

    def _setup_statements(self) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
        """Yield the statements that fill the catalog, with their parameters."""
        yield f"CREATE SCHEMA {SCHEMA}", None
        yield f"SET search_path = '{SCHEMA},main'", None
        yield "; ".join(relation.ddl for relation in catalog_relations().values()), None
        rows = rows_by_catalog_table(self.described, self.identity) | {"pg_settings": [*_settings_rows()]}
        for relation in catalog_relations().values():
            if rows.get(relation.stored_table_name):
                yield _insert_statement(relation, rows[relation.stored_table_name])
        for name, value in self._variable_values().items():
            yield f"SET VARIABLE {name} = $value", {"value": value}
        for name, oids in self._spelling_maps().items():
            yield f"SET VARIABLE {name} = MAP($keys, $values)", {"keys": [*oids], "values": [*oids.values()]}
        yield "; ".join(set_variable_statements()), None
        for statement in (*create_macro_statements(), *derived_insert_statements()):
            yield statement, None

    def _variable_values(self) -> Mapping[str, object]:
        return {
            "database_name": self.identity.database,
            "database_oid": DATABASE,
            "user_name": self.identity.user,
            "user_oid": USER,
            "quoted_keywords": sorted(quoted_keywords()),
        }

    def _spelling_maps(self) -> Mapping[str, Mapping[Any, Any]]:
        """Return the maps between names and OIDs that follow from spelling rather than from a table."""
        relation_names = {oid: name for name, oid in self.relation_oids.items()}
        formatted = {oid: name for name, oid in self.type_oids.items()} | dict(_oids_with_formatted_type())
        return {
            "relation_oid": self.relation_oids,
            "relation_name": relation_names,
            "type_oid": self.type_oids,
            "type_name": formatted,
        }


def _oids_with_formatted_type() -> Iterator[tuple[int, str]]:
    """Yield how format_type spells each built-in type."""
    for builtin in postgres_types().values():
        yield builtin.oid, builtin.formatted
        if builtin.array_oid:
            yield builtin.array_oid, f"{builtin.formatted}[]"


def _settings_rows() -> Iterator[Row]:
    for name, value in SETTINGS.items():
        context = "user" if name in SETTABLE else "internal"
        values = dict.fromkeys(("setting", "boot_val", "reset_val"), value)
        yield values | {"name": name, "context": context, "vartype": "string", "source": "default"}


def _insert_statement(relation: CatalogRelation, rows: list[Row]) -> tuple[str, dict[str, list[Any]]]:
    """Return the statement that inserts rows, with a list for each column; row by row it would take a minute."""
    columns = {name: [row.get(name, DEFAULTS.get(kind)) for row in rows] for name, kind in relation.columns.items()}
    values = ", ".join(f"unnest(${name}::{duckdb_type(kind)}[])" for name, kind in relation.columns.items())
    return f"INSERT INTO {SCHEMA}.{relation.stored_table_name} SELECT {values}", columns


def quote_ident(name: str) -> str:
    """Quote a name where PostgreSQL would: key words too."""
    if _PLAIN_NAME.fullmatch(name) and name not in quoted_keywords():
        return name
    return '"' + name.replace('"', '""') + '"'


def _spellings(name: str) -> tuple[str, ...]:
    """Return how statements may write a name, as ``quote_ident`` does last: a key word may stand bare in a text."""
    return (name, quote_ident(name)) if name in quoted_keywords() else (quote_ident(name),)


def _relation_spellings_with_oid(described: tuple[NumberedRelation, ...]) -> Iterator[tuple[str, int]]:
    """Yield each relation's OID under the spellings of its name, qualified and, if visible, alone; the one that
    PostgreSQL shows is last.
    """
    catalog_names = [
        (relation.schema, relation.name, relation.oid) for relation in catalog_relations().values() if relation.oid
    ]
    policy_names = [(numbered.relation.schema, numbered.relation.name, numbered.oid) for numbered in described]
    for schema, name, oid in (*catalog_names, *policy_names):
        for spelled in _spellings(name):
            yield f"{quote_ident(schema)}.{spelled}", oid
        if schema in VISIBLE_NAMESPACES:
            for spelled in _spellings(name):
                yield spelled, oid


def _type_spellings_with_oid(described: tuple[NumberedRelation, ...]) -> Iterator[tuple[str, int]]:
    """Yield each type's OID under its name and the SQL spellings of it."""
    for builtin in postgres_types().values():
        for name in {builtin.name, builtin.formatted, f"pg_catalog.{builtin.name}"}:
            yield name, builtin.oid
            if builtin.array_oid:
                yield f"{name}[]", builtin.array_oid
        if builtin.array_oid:
            yield f"_{builtin.name}", builtin.array_oid
    for numbered in described:
        schema, names = numbered.relation.schema, _spellings(numbered.relation.name)
        qualified = [f"{schema}.{name}" for name in names]
        for spelled in (*qualified, *(names if schema in VISIBLE_NAMESPACES else ())):
            yield spelled, numbered.row_type
            yield f"{spelled}[]", numbered.array_type
    yield from {"int": 23, "float": 701, "decimal": 1700, "char": 1042}.items()
