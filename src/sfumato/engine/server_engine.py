"""What engines on a database server share: opening, one transaction from the check to the totals, and inspection.

Plans become SQL statements, which run in read-only transactions on one snapshot; nothing but totals of groups leaves
the server. A driver says how its server proves its spellings, identifies itself, describes and locks its tables, and
takes the rows of public ones.

The inspector shows the owner, exactly, what a policy's bounds and limits cost; nobody else may use it.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from threading import RLock, get_ident
from typing import Any, Protocol, Self, cast

from sfumato.engine.lowering.reading_statements import (
    arrays_from_rows,
    as_arrow,
    join_server_results,
    require_few_rows,
    server_key_types,
    server_readings,
    server_statement,
)
from sfumato.engine.lowering.relational_form import CleanTable, StagedSelect
from sfumato.engine.protocols import DataIdentity, Inspection, OpenReading, StatelessReading
from sfumato.engine.public_tables import (
    MAX_CARRIED_ROWS,
    CarriedTables,
    PublicRows,
    public_table_too_large,
    unreadable_public_table,
)
from sfumato.engine.server_sessions import SessionPool
from sfumato.engine.sources import inspected_tables
from sfumato.engine.sources.clean_cells import find_column
from sfumato.engine.sources.clean_scans import AS_TYPES, CellExpressions, CleanScans, StoredColumn, StoredTable
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged
from sfumato.mechanisms import bits
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import ValueCombinations
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.quick_dataclass import dataclass

Run = Callable[..., list[tuple[Any, ...]]]


class ServerRelation(Protocol):
    """A relation as a server's catalog describes it: equal descriptions mean the same shape."""

    @property
    def sql(self) -> str:
        """Return its quoted name."""
        ...

    @property
    def columns(self) -> tuple[StoredColumn, ...]: ...

    @property
    def dependencies(self) -> tuple[Any, ...]:
        """Return every relation whose rows it shows."""
        ...

    @property
    def shape(self) -> tuple[object, ...]:
        """Return everything that determines its rows, except the rows themselves."""
        ...


@dataclass(frozen=True)
class BaseTable:
    """A table that is no view, as a catalog describes it."""

    database: str
    name: str
    sql: str
    columns: tuple[StoredColumn, ...]

    dependencies = ()

    @property
    def shape(self) -> tuple[object, ...]:
        columns = [(column.name, column.kind.name, column.type_name) for column in self.columns]
        return self.database, self.name, columns

    def find(self, name: str, policy_path: str) -> StoredColumn:
        columns = [(column.name, column) for column in self.columns]
        return find_column(columns, name, policy_path, "name a column of the source that this account may read")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def data_identities(addresses: Sequence[str], version: str) -> tuple[DataIdentity, ...]:
    """Identify data by their addresses, in a version that the policy names."""
    return tuple(DataIdentity(address, partial(digest, address, version)) for address in addresses)


def unreadable_source_refusal(policy_path: str) -> InvalidPolicy:
    return InvalidPolicy(
        "the server could not read this source",
        place=policy_path,
        fix="check that the role may read the source and, if it is a view, its tables, that no row makes a view fail, "
        "and that nobody is altering the source",
    )


def read_public_rows(table: Table, relation: ServerRelation, cell: Callable[[StoredColumn], str], run: Run) -> Any:
    """Read the rows of a public table into an Arrow table, each cell by its expression."""
    columns = [column for column in relation.columns if column.kind in AS_TYPES]
    try:
        rows = run(f"SELECT {', '.join(map(cell, columns))} FROM {relation.sql} LIMIT {MAX_CARRIED_ROWS + 1}")
    except EngineFailed:
        raise unreadable_public_table(table.name) from None
    if len(rows) > MAX_CARRIED_ROWS:
        raise public_table_too_large(table.name)
    return as_arrow(rows, [AS_TYPES[column.kind] for column in columns], [column.name for column in columns])


class ServerEngine(ABC):
    """An implementation of ``Engine`` on a database server."""

    cells: CellExpressions
    explain: str
    """What lets the server plan a statement that follows, without running it."""
    relations: dict[str, Any]
    matches_values = False
    integer_truths = False
    """Whether truths arrive as the numbers 1 and 0."""

    def __init__(self, policy: Policy, server: SessionPool) -> None:
        self._policy, self.server = policy, server
        self._open_nonce = str(bits.random_bits(128))
        self._version_numbers = count()
        self._carried_tables: CarriedTables | None = None
        try:
            self._set_up(next(table for table in policy.tables.values() if not table.public))
        except EngineFailed:
            self.close()
            raise unreadable_source_refusal("tables") from None
        except BaseException:
            self.close()
            raise

    # What differs between servers

    @abstractmethod
    def prove_spelling(self, table: str) -> Spelling:
        """Return the spelling that the server has proved; refuse a server that computes otherwise."""

    @abstractmethod
    def identify(self, run: Run) -> tuple[str, ...]:
        """Identify the server and its database, whatever its host name."""

    @abstractmethod
    def look_up(self, table: str, run: Run) -> ServerRelation:
        """Describe the relation of a table now; refuse one that cannot be read."""

    @abstractmethod
    def lock(self, session: Any) -> None:
        """Fix the shape of all tables until the transaction ends."""

    @abstractmethod
    def carried_scan(self, table: PublicRows, carried: list[object]) -> str:
        """Write what FROM says to read public rows; add what is handed over beside the statement."""

    @abstractmethod
    def relation_identities(self, table: str) -> tuple[DataIdentity, ...]:
        """Identify the data that the rows of a private table come from."""

    @abstractmethod
    def possible_remarks(self, table: str) -> list[tuple[bool, str]]:
        """Return what an owner should know about a private table, each with whether it holds."""

    def renamed_table(self, _: Run) -> str | None:
        """Return a table whose name in statements no longer refers to what was opened; None where locks prevent it."""
        return None

    def check_carried(self, _: str) -> None:
        """Refuse a public table whose rows the server cannot be sent."""
        return

    def decode(self, rows: list[tuple[Any, ...]], kinds: Sequence[Type]) -> list[tuple[Any, ...]]:
        """Convert keys of these types, which come first, to Python values of their types."""
        truths = {index for index, kind in enumerate(kinds) if self.integer_truths and kind is Type.BOOLEAN}
        if not truths:
            return rows
        return [
            tuple(bool(cell) if index in truths and cell is not None else cell for index, cell in enumerate(row))
            for row in rows
        ]

    # Opening

    def _set_up(self, private: Table) -> None:
        self.spelling = self.prove_spelling(private.name)
        self.database = self.identify(self.server.run)
        private_tables = {key: table for key, table in self._policy.tables.items() if not table.public}
        self.relations = {key: self.look_up(key, self.server.run) for key in private_tables}
        tables = {key: StoredTable(relation.sql, relation.columns) for key, relation in self.relations.items()}
        self.scans = CleanScans(self._policy, tables, self.cells, self.spelling)
        self._scan_texts = {key: self.scans.text(key) for key in tables}
        self._carried_tables = CarriedTables(self._policy)
        for table in self._policy.tables.values():
            if table.public:
                self.check_carried(table.name)
        with self._bind_all() as opened:
            for table in private_tables.values():
                self._check_ceiling(table, opened)

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
                raise unreadable_source_refusal(f"tables.{failure.table}.relation") from None
            raise
        return transaction

    def _check_ceiling(self, table: Table, transaction: ReadTransaction) -> None:
        """Refuse a source with more rows than declared when its owner opens it, never in a query."""
        try:
            row_count = transaction.rows(self.scans.rows(table.name))[0][0]
        except EngineFailed:
            raise unreadable_source_refusal(f"tables.{table.name}.relation") from None
        if row_count > table.row_ceiling:
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than row_ceiling allows",
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

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on declared values, computed in this process."""
        return self._public_tables.values(world)

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Begin a transaction whose locks fix the shape of the tables, and plan each statement in it."""
        transaction = ReadTransaction(self)
        try:
            transaction.bind(*readings)
        except BaseException:
            transaction.close()
            raise
        return transaction

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Read in a transaction of its own."""
        with self.check(reading) as transaction:
            return transaction.read(reading, sampling_key)

    def open_snapshot(self) -> ServerSnapshot:
        """Begin a snapshot: one transaction, which all steps of a series read in."""
        return ServerSnapshot(self)

    def interrupt(self, thread: int | None = None) -> None:
        self.server.interrupt(thread)

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
        """Identify the data that rows come from, by what the server says of itself, whatever its host name."""
        if public:
            return self._public_tables.data()
        return tuple(identity for table in self.relations for identity in self.relation_identities(table))

    def fingerprint(self, table: str) -> str:
        """Identify a table's version for its owner: by its declared version where it is private, else by its rows."""
        if table not in self.relations:
            return self._public_tables.fingerprint(table)
        return digest(*(identity.fingerprint() for identity in self.relation_identities(table)))

    def remarks(self, table: str) -> tuple[str, ...]:
        """Return what an owner should know about a table on this server."""
        if table not in self.relations:
            return ()
        conditions = [
            *self.possible_remarks(table),
            (
                self._policy.tables[table].source.version is None,
                "No version is declared, so stored answers are not reused. Add a version to the source to "
                "declare that its rows have not changed.",
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
                carried_scans[table.name] = self.carried_scan(self._public_tables.rows(table.name), carried)
            return carried_scans[table.name]

        return Generator(self.spelling, scan).statement(statement), carried

    def check_unchanged(self, run: Run) -> None:
        """Raise ``SourceChanged`` unless this is the database that was opened, and every table is readable and has the
        same shape.
        """
        if self.identify(run) != self.database:
            raise SourceChanged(next(iter(self.relations)))
        for table, before in self.relations.items():
            try:
                now = self.look_up(table, run)
            except InvalidPolicy:
                raise SourceChanged(table) from None
            if now != before or not {*now.dependencies} <= {
                *before.dependencies
            }:  # a new partition may belong to another account
                raise SourceChanged(table)
        self._public_tables.check_unchanged()


class ReadTransaction:
    """An open reading as a server transaction: read-only, on one snapshot, with the shape of its tables locked.

    After a failure the next step of a series still reads the same snapshot.
    """

    def __init__(self, engine: ServerEngine) -> None:
        self._engine = engine
        self._session: Any = engine.server.take()
        self._lock = RLock()

    def bind(self, *readings: PlanReading[Any]) -> None:
        """Lock the tables, check that they are as they were opened, and let the server plan every statement."""
        session = self._require_session()
        run = partial(self._engine.server.rows, session)
        with self._lock:
            try:
                self._run_in_savepoint(lambda: self._engine.lock(session))
            except EngineFailed:
                self._engine.check_unchanged(run)  # report a missing table as changed
                raise
            self._engine.check_unchanged(run)
            for reading in readings:
                require_few_rows(reading)
            for part in (part for reading in readings for part in server_readings(reading)):
                self.plan(*self._engine.render(server_statement(part, 0)))
            renamed = self._engine.renamed_table(run)
            if renamed is not None:
                raise SourceChanged(renamed)

    def plan(self, statement: str, parameters: Sequence[object] = ()) -> None:
        """Let the server plan a statement, which takes its locks; the plan itself is ignored."""
        self.rows(f"{self._engine.explain} {statement}", parameters)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one generated SELECT."""
        session = self._require_session()
        with self._lock:
            rows: list[tuple[Any, ...]] = self._run_in_savepoint(
                lambda: self._engine.server.rows(session, statement, parameters)
            )
        return rows

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Run the statements of a reading and return their rows as arrays."""
        results = []
        for part in server_readings(reading):
            rows = self.rows(*self._engine.render(server_statement(part, sampling_key)))
            results.append(arrays_from_rows(self._engine.decode(rows, server_key_types(part)), part))
        if self._engine.renamed_table(self.rows) is not None:  # already charged: the rows may be of another table
            raise EngineFailed
        return cast("E", join_server_results(reading, results))

    def _run_in_savepoint(self, action: Callable[[], Any]) -> Any:
        """Run an action after which the transaction continues, whether it fails or not."""
        session = self._require_session()
        self._engine.server.assign_thread(session, get_ident())
        return self._engine.server.run_in_savepoint(session, action)

    def _require_session(self) -> Any:
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


class ServerSnapshot:
    """A snapshot in one transaction: all its readings see the moment at which it began."""

    def __init__(self, engine: ServerEngine) -> None:
        self._engine = engine
        self._transaction = ReadTransaction(engine)

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        self._transaction.bind(*readings)
        return StatelessReading(self)

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        return self._transaction.read(reading, sampling_key)

    def interrupt(self, thread: int | None = None) -> None:
        self._engine.interrupt(thread)

    def close(self) -> None:
        self._transaction.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ServerInspector:
    """A policy's sources on a server, opened for their owner to inspect."""

    def __init__(self, policy: Policy, engine: ServerEngine) -> None:
        self._policy, self._engine = policy, engine

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        return self._engine.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._engine.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with its clean scan, in one statement."""
        text, keys = inspected_tables.inspection_statement(self._engine.scans, table)
        table_policy = self._policy.tables[table]
        figures = self._engine.server.run(text)[0]
        return inspected_tables.inspection_from_counts(
            figures, list(table_policy.columns), keys, has_unit_ids=not table_policy.every_row
        )

    def lost_texts(self, table: str, column: str, extra_texts: Collection[str]) -> Mapping[str, int]:
        statement = inspected_tables.lost_texts_statement(self._engine.scans, table, column, extra_texts)
        return {} if statement is None else dict(self._engine.server.run(statement))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
