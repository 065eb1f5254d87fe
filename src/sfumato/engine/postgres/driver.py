"""The PostgreSQL engine: plans become SQL statements, which run in read-only transactions on one snapshot.

The inspector shows the owner, exactly, what a policy's bounds and limits cost tables on PostgreSQL; nobody else may use
it.

A database identifies itself and its tables, and the rows of public tables are fetched from it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, Self, cast

from sfumato.engine import self_test
from sfumato.engine.arrays import exact_keys, parameter
from sfumato.engine.lowering import reading_statements
from sfumato.engine.lowering.reading_statements import (
    arrays_from_rows,
    as_arrow,
    counted_statement,
    join_server_results,
    require_few_rows,
    server_readings,
)
from sfumato.engine.lowering.relational import CleanTable, StagedSelect
from sfumato.engine.postgres import stored_relations
from sfumato.engine.postgres.connection import OLDEST, ServerSessions, without_cause
from sfumato.engine.postgres.stored_relations import PostgresCells, StoredRelation
from sfumato.engine.protocols import DataIdentity, FetchedTable, Inspection, OpenReading, StatelessReading
from sfumato.engine.public_tables import (
    MAX_CARRIED_ROWS,
    CarriedTables,
    public_table_too_large,
    unreadable_public_table,
)
from sfumato.engine.sources import inspected_tables
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import AS_TYPES, CleanScans, StoredTable
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, TYPES, PostgresSpelling, quote_identifier
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged, Unsupported
from sfumato.mechanisms import bits
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import KeySpan, ValueCombinations
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, Policy, Table, Type

if TYPE_CHECKING:
    import psycopg


Database = tuple[str, str, str]
"""The system identifier of a server, and the name and oid of a database there."""


def fetch(table: Table) -> FetchedTable:
    """Fetch the rows of a public table from the server that it names."""
    server = ServerSessions(table.source.address, f"tables.{table.name}.source")
    try:
        relation = stored_relations.find_relation(table.source.relation, table.name, server.run, locked=False)
        identity = data(require_database_identity(server.run), relation, table.source.version or "")
        return FetchedTable(_read_rows(table, relation, server.run), identity)
    finally:
        server.close()


def require_database_identity(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    try:
        return identify_database(run)
    except EngineFailed:
        raise InvalidPolicy(
            "this role may not read the server's system identifier, which tells whether two addresses are one server",
            place="tables",
            fix="GRANT EXECUTE ON FUNCTION pg_control_system() to it",
        ) from None


def identify_database(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    """Identify a database: by its server's system identifier, its name and its oid."""
    ((system, database_name, oid),) = run(
        "SELECT system_identifier::text, d.datname::text, d.oid::text FROM pg_control_system(), pg_database AS d "
        "WHERE d.datname = current_database()",
        (),
    )
    return system, database_name, oid


def data(database: Database, relation: StoredRelation, version: str) -> tuple[DataIdentity, ...]:
    """Identify a relation by every table that holds its rows, each by name and by oid, which survives a rename."""
    system, database_name, database_oid = database
    addresses = [f"postgresql://{system}/{database_name}/{schema}.{part}" for schema, part, _ in relation.dependencies]
    addresses += [f"postgresql://{system}/{database_oid}/{oid}" for _, _, oid in relation.dependencies]
    return tuple(DataIdentity(address, partial(digest, address, version)) for address in addresses)


def _read_rows(table: Table, relation: StoredRelation, run: Callable[..., list[tuple[Any, ...]]]) -> Any:
    """Read the rows of a public table into an Arrow table."""
    columns = [column for column in relation.columns if column.kind in AS_TYPES]
    cells = PostgresCells()
    expressions = ", ".join(_within_calendar(cells.plain(column), column.kind) for column in columns)
    try:
        rows = run(f"SELECT {expressions} FROM {relation.sql} LIMIT {MAX_CARRIED_ROWS + 1}")
    except EngineFailed:
        raise unreadable_public_table(table.name) from None
    if len(rows) > MAX_CARRIED_ROWS:
        raise public_table_too_large(table.name)
    return as_arrow(rows, [AS_TYPES[column.kind] for column in columns], [column.name for column in columns])


def _within_calendar(x: str, kind: Stored) -> str:
    """Set dates and timestamps outside the calendar to NULL."""
    if kind is Stored.DATE:
        return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"
    if kind is Stored.TIMESTAMP:
        return f"CASE WHEN {x} >= TIMESTAMP '0001-01-01' AND {x} < TIMESTAMP '10000-01-01' THEN {x} END"
    return x


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


FREE_SECONDS = 5
"""The time limit for listing the keys of a query: that costs no budget, so it may not take long."""
LEAST_TEMPORARY_FILES = 1 << 20
"""The least ``temp_file_limit`` in kilobytes, where there is one: grouping and sorting write such files."""
_COLLATIONS = ('pg_catalog."pg_c_utf8"', 'pg_catalog."C.utf8"', 'pg_catalog."C.UTF-8"', 'pg_catalog."default"')
"""Collations under which LOWER and UPPER may map letters one for one; which of them does is proved at opening."""


class Postgres:
    """The PostgreSQL implementation of ``Engine``: nothing but totals of groups leaves the server."""

    matches_values = False

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        self._policy = policy
        private = next(table for table in policy.tables.values() if not table.public)
        self.server = ServerSessions(private.source.address, f"tables.{private.name}.source", memory)
        self._open_nonce = str(bits.random_bits(128))
        self._version_numbers = count()
        self._carried_tables: CarriedTables | None = None
        try:
            self._set_up(private)
        except EngineFailed:
            self.close()
            raise _unreadable("tables") from None
        except BaseException:
            self.close()
            raise

    def _set_up(self, private: Table) -> None:
        self.spelling = _proved_spelling(self.server, private.name)
        self.database = require_database_identity(self.server.run)
        private_tables = {key: table for key, table in self._policy.tables.items() if not table.public}
        self.relations = {key: self._look_up(key, self.server.run) for key in private_tables}
        tables = {key: StoredTable(relation.sql, relation.columns) for key, relation in self.relations.items()}
        self.scans = CleanScans(self._policy, tables, PostgresCells(), self.spelling)
        self._scan_texts = {key: self.scans.text(key) for key in tables}
        self._carried_tables = CarriedTables(self._policy)
        with self._bind_all() as opened:
            for table in private_tables.values():
                self._check_ceiling(table, opened)

    def _look_up(self, table: str, run: stored_relations.Run) -> StoredRelation:
        table_policy = self._policy.tables[table]
        return stored_relations.find_relation(table_policy.source.relation, table, run, locked=not table_policy.public)

    def _bind_all(self) -> ReadTransaction:
        """Bind the tables as every query will, and plan the scan of each, so that failures appear at opening."""
        transaction = ReadTransaction(self)
        try:
            transaction.bind()
            for text in self._scan_texts.values():
                transaction.plan(f"SELECT * FROM ({text}) AS r")
        except BaseException as failure:
            transaction.close()
            if isinstance(failure, SourceChanged):
                raise _unreadable(f"tables.{failure.table}.relation") from None
            raise
        return transaction

    def _check_ceiling(self, table: Table, transaction: ReadTransaction) -> None:
        """Refuse a source with more rows than declared when its owner opens it, never in a query."""
        try:
            row_count = transaction.rows(self.scans.rows(table.name))[0][0]
        except EngineFailed:
            raise _unreadable(f"tables.{table.name}.relation") from None
        if row_count > table.row_ceiling:
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than its row_ceiling",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise row_ceiling if queries may take longer, or use a source with fewer rows",
            )

    # Engine

    def catalog(self) -> Catalog:
        """Return the catalog of tables and columns that queries may use."""
        return self._public_tables.catalog()

    @property
    def _public_tables(self) -> CarriedTables:
        if self._carried_tables is None:
            raise EngineClosed
        return self._carried_tables

    def values(self, world: ValueCombinations) -> Sequence[GroupKey]:
        """List the distinct results of expressions on every combination of declared values; reads no table."""
        lists = [[parameter(value) for value in keys] for _, _, keys in world.choices if not isinstance(keys, KeySpan)]
        text = Generator(self.spelling, _no_table).statement(reading_statements.distinct_results(world))
        start = time.monotonic()
        with self.server.session() as session:
            without_cause(lambda: _limit_time(session, FREE_SECONDS))
            try:
                rows = self.server.rows(session, text, lists)
            except EngineFailed:
                if time.monotonic() - start < FREE_SECONDS:
                    raise
                rule = f"listing all groups takes more than {FREE_SECONDS} seconds, the time limit for free steps"
                raise Unsupported("keys-too-costly", rule, fix="group by a simpler expression") from None
        return exact_keys(rows, [expression.domain.type for expression in world.expressions])

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Begin a transaction whose locks fix the shape of the tables, and plan each statement in it."""
        transaction = ReadTransaction(self)
        try:
            transaction.bind(*readings)
        except BaseException:
            transaction.close()
            raise
        return transaction

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Read in a transaction of its own."""
        with self.check(reading) as transaction:
            return transaction.read(reading, key)

    def open_snapshot(self) -> PostgresSnapshot:
        """Begin a snapshot: one transaction, which all steps of a series read in."""
        return PostgresSnapshot(self)

    def interrupt(self, token: int | None = None) -> None:
        self.server.interrupt(token)

    def identity(self) -> str:
        """Return the version of the data, from the versions that the owner declares. Without them every call returns a
        new version, since a server's rows may change at any moment.
        """
        versions = [self._policy.tables[key].source.version for key in self.relations]
        version_parts = versions if all(versions) else [self._open_nonce, next(self._version_numbers)]
        shapes = [(self.database, key, relation.shape) for key, relation in self.relations.items()]
        return digest(shapes, version_parts, self._public_tables.identity())

    def check_files(self) -> None:
        self._public_tables.check_unchanged()

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that rows come from, by the server's system identifier, whatever its host name."""
        if public:
            return self._public_tables.data()
        return tuple(identity for table in self.relations for identity in self._data(table))

    def _data(self, table: str) -> tuple[DataIdentity, ...]:
        return data(self.database, self.relations[table], self._policy.tables[table].source.version or "")

    def fingerprint(self, table: str) -> str:
        """Identify a table's version for its owner: by its declared version where it is private, else by its rows."""
        if table not in self.relations:
            return self._public_tables.fingerprint(table)
        return digest(*(identity.fingerprint() for identity in self._data(table)))

    def remarks(self, table: str) -> tuple[str, ...]:
        """Return what an owner should know about a table on this server."""
        relation = self.relations.get(table)
        if relation is None:
            return ()
        conditions = [
            (relation.writable, "The role that reads this table may also change its rows: a read-only role is safer."),
            (
                relation.is_view,
                "This is a view: it is trusted to return the same rows at every read, and to build each row from the "
                "rows of one unit.",
            ),
            (
                relation.is_computed,
                "Some of its columns are computed on read: they are trusted to fail for no row, since a failure after "
                "the charge would reveal that row.",
            ),
            (
                self._policy.tables[table].source.version is None,
                "No version is declared, so no stored answer is reused: add version to declare that the rows have not "
                "changed.",
            ),
        ]
        return tuple(words for holds, words in conditions if holds)

    def close(self) -> None:
        self.server.close()
        if self._carried_tables is not None:
            self._carried_tables.close()

    # Statements

    def render(self, statement: StagedSelect) -> tuple[str, list[object]]:
        """Render a statement, and return with it what it carries: the columns of the public tables that it joins."""
        carried: list[object] = []
        carried_scans: dict[str, str] = {}

        def scan(table: CleanTable) -> str:
            if table.name in self._scan_texts:
                return f"({self.scans.text(table.name, table.columns)})"
            if table.name not in carried_scans:
                carried_scans[table.name] = self._carried_scan(table.name, carried)
            return carried_scans[table.name]

        return Generator(self.spelling, scan).statement(statement), carried

    def _carried_scan(self, table: str, carried: list[object]) -> str:
        return carried_scan(self._public_tables.rows(table), carried)

    def check_unchanged(self, run: stored_relations.Run) -> None:
        """Raise ``SourceChanged`` unless this is the database that was opened, and every table is readable and has the
        same shape.
        """
        if identify_database(run) != self.database:
            raise SourceChanged(next(iter(self.relations)))
        for table, before in self.relations.items():
            try:
                now = self._look_up(table, run)
            except InvalidPolicy:
                raise SourceChanged(table) from None
            if now != before or not {*now.dependencies} <= {
                *before.dependencies
            }:  # a new partition may belong to another account
                raise SourceChanged(table)
        self._public_tables.check_unchanged()

    def check_names(self, run: stored_relations.Run) -> None:
        """Raise ``SourceChanged`` unless the names in statements still refer to the opened tables. Renaming a schema
        does not wait for locks on its tables, and statements resolve names as of now, whatever their snapshot is.
        """
        oids = stored_relations.relation_oids([relation.sql for relation in self.relations.values()], run)
        for table, oid in zip(self.relations, oids, strict=True):
            if oid != self.relations[table].oid:
                raise SourceChanged(table)


class ReadTransaction:
    """An open reading as a server transaction: read-only, on one snapshot, with the shape of its tables locked.

    A failure rolls back to a savepoint, so that the next step of a series still reads the same snapshot.
    """

    def __init__(self, engine: Postgres) -> None:
        self._engine = engine
        self._session: psycopg.Connection[Any] | None = engine.server.take()
        self._lock = RLock()

    def bind(self, *readings: PlanReading[Any]) -> None:
        """Lock the tables, check that they are as they were opened, and let the server plan every statement."""
        session = self._require_session()
        run = partial(self._engine.server.rows, session)
        with self._lock:
            relations = ", ".join(relation.sql for relation in self._engine.relations.values())
            try:
                self._in_savepoint(lambda: session.execute(f"LOCK TABLE {relations} IN ACCESS SHARE MODE"))
            except EngineFailed:
                self._engine.check_unchanged(run)  # report a missing table as changed
                raise
            self._engine.check_unchanged(run)
            for reading in readings:
                require_few_rows(reading)
            for part in (part for reading in readings for part in server_readings(reading)):
                self.plan(*self._engine.render(counted_statement(part, 0)))
            self._engine.check_names(run)

    def plan(self, statement: str, parameters: Sequence[object] = ()) -> None:
        """Let the server plan a statement, which takes its locks; the plan itself is ignored."""
        self.rows(f"EXPLAIN (COSTS OFF) {statement}", parameters)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one generated SELECT."""
        session = self._require_session()
        with self._lock:
            rows: list[tuple[Any, ...]] = self._in_savepoint(
                lambda: self._engine.server.rows(session, statement, parameters)
            )
        return rows

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Run the statements of a reading and return their rows as arrays."""
        results = [
            arrays_from_rows(self.rows(*self._engine.render(counted_statement(part, key))), part)
            for part in server_readings(reading)
        ]
        try:
            self._engine.check_names(self.rows)
        except SourceChanged:  # already charged: the rows may be of another table
            raise EngineFailed from None
        return cast("E", join_server_results(reading, results))

    def _in_savepoint(self, action: Callable[[], Any]) -> Any:
        """Run an action after which the transaction continues, whether it fails or not."""
        session = self._require_session()
        self._engine.server.assign_thread(session, get_ident())
        without_cause(lambda: session.execute("SAVEPOINT sf"))
        try:
            rows = without_cause(action)
        except BaseException:
            with suppress(Exception):
                session.execute(b"ROLLBACK TO SAVEPOINT sf; RELEASE SAVEPOINT sf")
            raise
        without_cause(lambda: session.execute("RELEASE SAVEPOINT sf"))
        return rows

    def _require_session(self) -> psycopg.Connection[Any]:
        self._engine.server.check_process()
        if self._session is None:
            raise EngineClosed
        return self._session

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._engine.server.give_back(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PostgresSnapshot:
    """A snapshot in one transaction: all its readings see the moment at which it began."""

    def __init__(self, engine: Postgres) -> None:
        self._engine = engine
        self._transaction = ReadTransaction(engine)

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        self._transaction.bind(*readings)
        return StatelessReading(self)

    def read(self, reading: PlanReading[E], key: int) -> E:
        return self._transaction.read(reading, key)

    def interrupt(self, token: int | None = None) -> None:
        self._engine.interrupt(token)

    def close(self) -> None:
        self._transaction.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def carried_scan(table: Any, carried: list[object]) -> str:
    """Return the FROM item that reads values passed as arrays, and append these arrays to ``carried``."""
    if not table.names:
        return "(SELECT 1)"
    arrays, expressions = [], []
    for column, kind, values in zip(table.names, table.kinds, table.columns, strict=True):
        carried.append(list(values))
        arrays.append(f"CAST(${len(carried)} AS {TYPES[kind]}[])")
        alias = f"c{len(arrays)}"
        expressions.append(f"{f'({alias} {BYTES})' if kind is Type.TEXT else alias} AS {quote_identifier(column)}")
    aliases = ", ".join(f"c{index + 1}" for index in range(len(arrays)))
    return f"(SELECT {', '.join(expressions)} FROM UNNEST({', '.join(arrays)}) AS u({aliases}))"


def _limit_time(session: psycopg.Connection[Any], seconds: float) -> None:
    session.execute(f"SET LOCAL statement_timeout = '{int(seconds * 1000)}ms'")


def _no_table(table: CleanTable) -> str:
    raise AssertionError(table)


def _unreadable(place: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the server could not read this source",
        place=place,
        fix="check the role's rights on it and on what a view reads, that no row makes a view fail, and that nobody is "
        "altering it at the moment",
    )


def _proved_spelling(server: ServerSessions, table: str) -> PostgresSpelling:
    """Let the server prove every spelling; LOWER and UPPER with the first collation that changes case as we do."""
    place = f"tables.{table}.source"
    with server.session() as session:
        run = partial(server.rows, session)
        ((encoding, version, temporary_files),) = run(
            "SELECT current_setting('server_encoding'), current_setting('server_version_num'), setting::bigint"
            " FROM pg_settings WHERE name = 'temp_file_limit'"
        )
        if encoding != "UTF8":
            raise InvalidPolicy(
                "a PostgreSQL database must store texts in UTF8",
                place=place,
                fix=f"this one stores them in {encoding}: copy the tables into a database with ENCODING 'UTF8'",
            )
        if int(version) < OLDEST:
            raise InvalidPolicy(
                "PostgreSQL 14 or newer is required",
                place=place,
                fix=f"upgrade the server, which is version {int(version) // 10000}",
            )
        if 0 <= temporary_files < LEAST_TEMPORARY_FILES:
            raise InvalidPolicy(
                "this role may write so few temporary files that a large question could fail after it was charged",
                place=place,
                fix="ALTER ROLE … SET temp_file_limit = -1, or to 1GB or more",
            )
    spelling = PostgresSpelling(
        next((collation for collation in _COLLATIONS if _changes_case_alike(server, collation)), None)
    )
    self_test.require_correct_results(self_test.Dialect(spelling, carried_scan, server.run), place)
    return spelling


def _changes_case_alike(server: ServerSessions, collation: str) -> bool:
    try:
        return not self_test.wrong_case_functions(PostgresSpelling(collation), carried_scan, server.run)
    except EngineFailed:  # no such collation
        return False


class PostgresInspector:
    """A policy's sources, opened for their owner to inspect."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Postgres(policy)

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        return self._engine.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._engine.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with its clean scan, in one statement."""
        text, keys = inspected_tables.statement(self._engine.scans, table)
        table_policy = self._policy.tables[table]
        figures = self._engine.server.run(text)[0]
        return inspected_tables.inspection(figures, list(table_policy.columns), keys, owned=not table_policy.every_row)

    def lost_texts(self, table: str, column: str, words: Collection[str]) -> Mapping[str, int]:
        statement = inspected_tables.lost_texts_statement(self._engine.scans, table, column, words)
        return {} if statement is None else dict(self._engine.server.run(statement))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
