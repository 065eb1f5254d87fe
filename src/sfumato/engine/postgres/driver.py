"""PostgreSQL is an engine: plans become statements of its own, which run in read-only transactions on one snapshot.

An owner sees here, exactly, what a policy's bounds and limits cost tables on PostgreSQL; nobody else may.

A database says which one it is and where its tables are; and the rows of its public tables are fetched from it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, Self, cast

from sfumato.engine import proving
from sfumato.engine.arrays import exact_keys, parameter
from sfumato.engine.carried_tables import MOST_ROWS, CarriedTables, too_large, unread
from sfumato.engine.lowering import reading_statements
from sfumato.engine.lowering.reading_statements import as_arrow, counted_statement, in_arrays
from sfumato.engine.lowering.relational import StagedSelect
from sfumato.engine.postgres import stored_relations
from sfumato.engine.postgres.connection import OLDEST, ServerSessions, finished
from sfumato.engine.postgres.stored_relations import PostgresCells, StoredRelation
from sfumato.engine.seam import DataIdentity, Fetched, Inspection, OpenReading, Unheld
from sfumato.engine.sources import inspected_tables
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import AS_TYPES, CleanScans, StoredTable
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, TYPES, PostgresSpelling, name
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged, Unsupported
from sfumato.mechanisms import bits
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import KeySpan, World
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, Policy, Table, Type

if TYPE_CHECKING:
    import psycopg


Database = tuple[str, str, str]
"""The number of a server, and the name and the number of a database there."""


def fetch(table: Table) -> Fetched:
    """Read the rows of a public table at the server that it names."""
    server = ServerSessions(table.source.address, f"tables.{table.name}.source")
    try:
        relation = stored_relations.found(table.source.relation, table.name, server.run, locked=False)
        known = data(database(server.run), relation, table.source.version or "")
        return Fetched(_rows_of(table, relation, server.run), known)
    finally:
        server.close()


def database(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    try:
        return here(run)
    except EngineFailed:
        raise InvalidPolicy(
            "this role may not read which server it is at, so two names of it would be two sources",
            place="tables",
            fix="GRANT EXECUTE ON FUNCTION pg_control_system() to it",
        ) from None


def here(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    """Identify a database: by the number its server was given when it was made, its name and its own number."""
    ((system, called, number),) = run(
        "SELECT system_identifier::text, d.datname::text, d.oid::text FROM pg_control_system(), pg_database AS d "
        "WHERE d.datname = current_database()",
        (),
    )
    return system, called, number


def data(database: Database, relation: StoredRelation, version: str) -> tuple[DataIdentity, ...]:
    """Identify a relation: a view and a partitioned table are known by every table that their rows are in, each table
    by its name and by its number, which it keeps when it is renamed.
    """
    system, called, number = database
    addresses = [f"postgresql://{system}/{called}/{schema}.{own}" for schema, own, _ in relation.made_of]
    addresses += [f"postgresql://{system}/{number}/{own}" for _, _, own in relation.made_of]
    return tuple(DataIdentity(each, partial(digest, each, version)) for each in addresses)


def _rows_of(table: Table, relation: StoredRelation, run: Callable[..., list[tuple[Any, ...]]]) -> Any:
    """Read the rows of a public table into an Arrow table."""
    read = [each for each in relation.columns if each.kind in AS_TYPES]
    cells = PostgresCells()
    shown = ", ".join(_within_calendar(cells.plain(each), each.kind) for each in read)
    try:
        found = run(f"SELECT {shown} FROM {relation.sql} LIMIT {MOST_ROWS + 1}")
    except EngineFailed:
        raise unread(table.name) from None
    if len(found) > MOST_ROWS:
        raise too_large(table.name)
    return as_arrow(found, [AS_TYPES[each.kind] for each in read], [each.name for each in read])


def _within_calendar(x: str, kind: Stored) -> str:
    """Make NULL of a date or a time that the calendar does not have."""
    if kind is Stored.DATE:
        return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"
    if kind is Stored.TIMESTAMP:
        return f"CASE WHEN {x} >= TIMESTAMP '0001-01-01' AND {x} < TIMESTAMP '10000-01-01' THEN {x} END"
    return x


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


FREE_SECONDS = 5
"""How long the keys of a question may be looked for: it costs nothing, so it may not take long."""
_LETTERS = ('pg_catalog."pg_c_utf8"', 'pg_catalog."C.utf8"', 'pg_catalog."C.UTF-8"', 'pg_catalog."default"')
"""Collations under which letters may be turned one for one; which of them does is proved at the opening."""


class Postgres:
    """PostgreSQL works behind the seam: nothing but totals of groups leaves the server."""

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        self._policy = policy
        private = next(table for table in policy.tables.values() if not table.public)
        self.server = ServerSessions(private.source.address, f"tables.{private.name}.source", memory)
        self._opened = str(bits.integer(128))
        self._looks = count()
        self._carried: CarriedTables | None = None
        try:
            self._set_up(private)
        except EngineFailed:
            self.close()
            raise _unread("tables") from None
        except BaseException:
            self.close()
            raise

    def _set_up(self, private: Table) -> None:
        self.spelling = _proved(self.server, private.name)
        self.database = database(self.server.run)
        here = {each: table for each, table in self._policy.tables.items() if not table.public}
        self.relations = {each: self._found(each, self.server.run) for each in here}
        tables = {each: StoredTable(found.sql, found.columns) for each, found in self.relations.items()}
        self.scans = CleanScans(self._policy, tables, PostgresCells(), self.spelling)
        self._texts = {each: self.scans.text(each) for each in tables}
        self._carried = CarriedTables(self._policy)
        with self._first() as opened:
            for table in here.values():
                self._check_ceiling(table, opened)

    def _found(self, table: str, run: stored_relations.Run) -> StoredRelation:
        declared = self._policy.tables[table]
        return stored_relations.found(declared.source.relation, table, run, locked=not declared.public)

    def _first(self) -> ReadTransaction:
        """Bind the tables once as every question will, and plan the scan of each: what fails then fails now."""
        opened = ReadTransaction(self)
        try:
            opened.bind()
            for text in self._texts.values():
                opened.plan(f"SELECT * FROM ({text}) AS r")
        except BaseException as failure:
            opened.close()
            if isinstance(failure, SourceChanged):
                raise _unread(f"tables.{failure.table}.relation") from None
            raise
        return opened

    def _check_ceiling(self, table: Table, opened: ReadTransaction) -> None:
        """Refuse a source with more rows than declared: now, when its owner opens it, and never in a question."""
        try:
            found = opened.rows(self.scans.rows(table.name))[0][0]
        except EngineFailed:
            raise _unread(f"tables.{table.name}.relation") from None
        if found > table.row_ceiling:
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than its row_ceiling",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise it if a question may take longer, or give a source with fewer rows",
            )

    # The seam

    def catalog(self) -> Catalog:
        """List what questions may refer to."""
        return self._known.catalog()

    @property
    def _known(self) -> CarriedTables:
        if self._carried is None:
            raise EngineClosed
        return self._carried

    def values(self, world: World) -> Sequence[GroupKey]:
        """List the distinct results of expressions on every combination of declared values: reads no table."""
        lists = [[parameter(value) for value in each] for _, _, each in world.choices if not isinstance(each, KeySpan)]
        asked = Generator(self.spelling, _no_table).statement(reading_statements.distinct(world))
        start = time.monotonic()
        with self.server.session() as session:
            finished(lambda: _limit(session, FREE_SECONDS))
            try:
                found = self.server.rows(session, asked, lists)
            except EngineFailed:
                if time.monotonic() - start < FREE_SECONDS:
                    raise
                rule = f"finding all groups may take at most {FREE_SECONDS} seconds"
                raise Unsupported("keys-too-costly", rule, fix="group by a simpler expression") from None
        return exact_keys(found, [each.domain.type for each in world.expressions])

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Begin a transaction whose locks keep the shape of the tables, and plan each statement in it."""
        opened = ReadTransaction(self)
        try:
            opened.bind(*readings)
        except BaseException:
            opened.close()
            raise
        return opened

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Read in a transaction of its own."""
        with self.check(reading) as opened:
            return opened.read(reading, key)

    def hold(self) -> Held:
        """Begin a snapshot: one transaction, which all steps of a series read in."""
        return Held(self)

    def interrupt(self, token: int | None = None) -> None:
        self.server.interrupt(token)

    def identity(self) -> str:
        """Identify the version of the data: by what their owner declares; without it no two looks are of one version,
        since a server's rows may change at any moment.
        """
        versions = [self._policy.tables[each].source.version for each in self.relations]
        told = versions if all(versions) else [self._opened, next(self._looks)]
        shapes = [(self.database, each, relation.shape) for each, relation in self.relations.items()]
        return digest(shapes, told, self._known.identity())

    def check_files(self) -> None:
        self._known.check_unchanged()

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that rows come from: by the server's own number, whatever host name it is called by."""
        if public:
            return self._known.data()
        return tuple(each for table in self.relations for each in self._data(table))

    def _data(self, table: str) -> tuple[DataIdentity, ...]:
        return data(self.database, self.relations[table], self._policy.tables[table].source.version or "")

    def fingerprint(self, table: str) -> str:
        """Identify a table's version for its owner: by its declared version where it is private, else by its rows."""
        if table not in self.relations:
            return self._known.fingerprint(table)
        return digest(*(each.fingerprint() for each in self._data(table)))

    def remarks(self, table: str) -> tuple[str, ...]:
        """Say what an owner should know of a table on this server."""
        relation = self.relations.get(table)
        if relation is None:
            return ()
        told = [
            (relation.writable, "The role that reads this table may change its rows: a role that only reads is safer."),
            (
                relation.is_view,
                "This is a view: it is trusted to give the same rows whenever it is read, and to make each row from "
                "the rows of one unit.",
            ),
            (
                relation.is_computed,
                "Some of its columns are computed when they are read: they are trusted to fail for no row, since a "
                "failure after the charge would tell of that row.",
            ),
            (
                self._policy.tables[table].source.version is None,
                "No version is declared, so no stored answer is reused: add version to say that the rows are as they "
                "were.",
            ),
        ]
        return tuple(words for holds, words in told if holds)

    def close(self) -> None:
        self.server.close()
        if self._carried is not None:
            self._carried.close()

    # Statements

    def written(self, statement: StagedSelect) -> tuple[str, list[object]]:
        """Write a statement, and list what it carries: the columns of the public tables that it joins."""
        carried: list[object] = []
        places: dict[str, str] = {}

        def scan(table: str) -> str:
            if table in self._texts:
                return f"({self._texts[table]})"
            if table not in places:
                places[table] = self._carried_scan(table, carried)
            return places[table]

        return Generator(self.spelling, scan).statement(statement), carried

    def _carried_scan(self, table: str, carried: list[object]) -> str:
        return carried_scan(self._known.rows(table), carried)

    def check_unchanged(self, run: stored_relations.Run) -> None:
        """Refuse unless this is the database that was opened, and every table has the shape that it had then and may
        still be read.
        """
        if here(run) != self.database:
            raise SourceChanged(next(iter(self.relations)))
        for table, before in self.relations.items():
            try:
                now = self._found(table, run)
            except InvalidPolicy:
                raise SourceChanged(table) from None
            if now != before or not {*now.made_of} <= {*before.made_of}:  # a part that came may be another account's
                raise SourceChanged(table)
        self._known.check_unchanged()

    def check_names(self, run: stored_relations.Run) -> None:
        """Refuse unless the names in statements still lead to the tables that were opened. Renaming a schema waits for
        no lock of its tables, and statements find names as they are now, whatever their snapshot is.
        """
        now = stored_relations.numbers([each.sql for each in self.relations.values()], run)
        for table, number in zip(self.relations, now, strict=True):
            if number != self.relations[table].oid:
                raise SourceChanged(table)


class ReadTransaction:
    """An open reading is a transaction at the server: read-only, on one snapshot, its tables locked in their shape.

    What fails in it is undone by itself, so that the next step of a series still reads the same snapshot.
    """

    def __init__(self, engine: Postgres) -> None:
        self._engine = engine
        self._session: psycopg.Connection[Any] | None = engine.server.take()
        self._lock = RLock()

    def bind(self, *readings: PlanReading[Any]) -> None:
        """Lock the tables, see that they are as they were opened, and let the server plan every statement."""
        session = self._open()
        run = partial(self._engine.server.rows, session)
        with self._lock:
            locked = ", ".join(relation.sql for relation in self._engine.relations.values())
            try:
                self._guarded(lambda: session.execute(f"LOCK TABLE {locked} IN ACCESS SHARE MODE"))
            except EngineFailed:
                self._engine.check_unchanged(run)  # a table that is gone is told as such
                raise
            self._engine.check_unchanged(run)
            for reading in readings:
                self.plan(*self._engine.written(counted_statement(reading, 0)))
            self._engine.check_names(run)

    def plan(self, statement: str, parameters: Sequence[object] = ()) -> None:
        """Let the server plan a statement, which takes its locks; what the plan is nobody looks at."""
        self.rows(f"EXPLAIN (COSTS OFF) {statement}", parameters)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Give the rows of one generated SELECT."""
        session = self._open()
        with self._lock:
            found: list[tuple[Any, ...]] = self._guarded(
                lambda: self._engine.server.rows(session, statement, parameters)
            )
        return found

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Run one statement and give its rows in arrays."""
        found = self.rows(*self._engine.written(counted_statement(reading, key)))
        try:
            self._engine.check_names(self.rows)
        except SourceChanged:  # it was charged: what was read may be of another table
            raise EngineFailed from None
        return cast("E", in_arrays(found, reading))

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Run an action after which the transaction goes on, whether it fails or not."""
        session = self._open()
        self._engine.server.owned_by(session, get_ident())
        finished(lambda: session.execute("SAVEPOINT sf"))
        try:
            found = finished(action)
        except BaseException:
            with suppress(Exception):
                session.execute(b"ROLLBACK TO SAVEPOINT sf; RELEASE SAVEPOINT sf")
            raise
        finished(lambda: session.execute("RELEASE SAVEPOINT sf"))
        return found

    def _open(self) -> psycopg.Connection[Any]:
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


class Held:
    """A snapshot is one transaction: all that is read in it is of the moment at which it began."""

    def __init__(self, engine: Postgres) -> None:
        self._engine = engine
        self._transaction = ReadTransaction(engine)

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        self._transaction.bind(*readings)
        return Unheld(self)

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
    """Write what FROM says to read values that are carried as arrays, which are added to the list of these."""
    if not table.names:
        return "(SELECT 1)"
    arrays, shown = [], []
    for column, kind, values in zip(table.names, table.kinds, table.columns, strict=True):
        carried.append(list(values))
        arrays.append(f"CAST(${len(carried)} AS {TYPES[kind]}[])")
        place = f"c{len(arrays)}"
        shown.append(f"{f'({place} {BYTES})' if kind is Type.TEXT else place} AS {name(column)}")
    places = ", ".join(f"c{place + 1}" for place in range(len(arrays)))
    return f"(SELECT {', '.join(shown)} FROM UNNEST({', '.join(arrays)}) AS u({places}))"


def _limit(session: psycopg.Connection[Any], seconds: float) -> None:
    session.execute(f"SET LOCAL statement_timeout = '{int(seconds * 1000)}ms'")


def _no_table(table: str) -> str:
    raise AssertionError(table)


def _unread(place: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the server does not read this source",
        place=place,
        fix="check the role's rights on it and on what a view reads, that no row makes a view fail, and that nobody "
        "alters it just now",
    )


def _proved(server: ServerSessions, table: str) -> PostgresSpelling:
    """Let the server prove every spelling; LOWER and UPPER under the first collation that turns letters as we do."""
    place = f"tables.{table}.source"
    with server.session() as session:
        run = partial(server.rows, session)
        ((encoding, version),) = run("SELECT current_setting('server_encoding'), current_setting('server_version_num')")
        if encoding != "UTF8":
            raise InvalidPolicy(
                "a database of PostgreSQL stores texts in UTF8",
                place=place,
                fix=f"this one stores them in {encoding}: copy the tables into a database with ENCODING 'UTF8'",
            )
        if int(version) < OLDEST:
            raise InvalidPolicy(
                "PostgreSQL 14 or a newer one is read", place=place, fix=f"this server has {int(version) // 10000}"
            )
    spelling = PostgresSpelling(next((each for each in _LETTERS if _turns(server, each)), None))
    proving.prove(proving.Dialect(spelling, carried_scan, server.run), place)
    return spelling


def _turns(server: ServerSessions, collation: str) -> bool:
    try:
        return not proving.wrong_letters(PostgresSpelling(collation), carried_scan, server.run)
    except EngineFailed:  # there is no such collation
        return False


class PostgresInspector:
    """An inspector has a policy's sources, opened for their owner to look at."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Postgres(policy)

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        return self._engine.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._engine.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with what the scan makes of it: one statement."""
        text, keys = inspected_tables.statement(self._engine.scans, table)
        declared = self._policy.tables[table]
        found = self._engine.server.run(text)[0]
        return inspected_tables.inspection(found, list(declared.columns), keys, owned=not declared.every_row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
