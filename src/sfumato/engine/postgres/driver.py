"""The PostgreSQL engine: what a server engine needs to know of PostgreSQL.

A database identifies itself and its tables, and the rows of public tables are fetched from it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.engine import self_test
from sfumato.engine.arrays import as_statement_parameter, exact_keys
from sfumato.engine.lowering import reading_statements
from sfumato.engine.lowering.relational_form import CleanTable
from sfumato.engine.postgres import stored_relations
from sfumato.engine.postgres.connection import OLDEST, ServerSessions
from sfumato.engine.postgres.stored_relations import PostgresCells, StoredRelation
from sfumato.engine.protocols import DataIdentity, FetchedTable
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.server_engine import (
    ReadTransaction as ReadTransaction,
    Run,
    ServerEngine,
    data_identities,
    read_public_rows,
)
from sfumato.engine.server_sessions import SessionPool, without_cause
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import StoredColumn
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, TYPES, PostgresSpelling, quote_identifier
from sfumato.errors import EngineFailed, InvalidPolicy, Unsupported
from sfumato.plan.keys import KeySpan, ValueCombinations
from sfumato.plan.nodes import GroupValues
from sfumato.policy import Policy, Table, Type

if TYPE_CHECKING:
    import psycopg


Database = tuple[str, str, str]
"""The system identifier of a server, and the name and oid of a database there."""


def fetch_public_table(table: Table) -> FetchedTable:
    """Fetch the rows of a public table from the server that it names."""
    server = ServerSessions(table.source.address, f"tables.{table.name}.source")
    try:
        relation = stored_relations.find_relation(table.source.relation, table.name, server.run, locked=False)
        identity = data(require_database_identity(server.run), relation, table.source.version or "")
        return FetchedTable(read_public_rows(table, relation, _plain_cell, server.run), identity)
    finally:
        server.close()


def require_database_identity(run: Run) -> Database:
    try:
        return identify_database(run)
    except EngineFailed:
        raise InvalidPolicy(
            "this role may not read the server's system identifier, which shows whether two addresses are the "
            "same server",
            place="tables",
            fix="run GRANT EXECUTE ON FUNCTION pg_control_system() TO this role",
        ) from None


def identify_database(run: Run) -> Database:
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
    return data_identities(addresses, version)


def _plain_cell(column: StoredColumn) -> str:
    return _null_outside_calendar(PostgresCells().plain(column), column.kind)


def _null_outside_calendar(x: str, kind: Stored) -> str:
    """Set dates and timestamps outside the calendar to NULL."""
    if kind is Stored.DATE:
        return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"
    if kind is Stored.TIMESTAMP:
        return f"CASE WHEN {x} >= TIMESTAMP '0001-01-01' AND {x} < TIMESTAMP '10000-01-01' THEN {x} END"
    return x


FREE_SECONDS = 5
"""The time limit for listing the keys of a query: that costs no budget, so it may not take long."""
LEAST_TEMPORARY_FILES = 1 << 20
"""The least ``temp_file_limit`` in kilobytes, where there is one: grouping and sorting write such files."""
_COLLATIONS = ('pg_catalog."pg_c_utf8"', 'pg_catalog."C.utf8"', 'pg_catalog."C.UTF-8"', 'pg_catalog."default"')
"""Collations under which LOWER and UPPER may map letters one for one; which of them does is proved at opening."""


class Postgres(ServerEngine):
    """The PostgreSQL implementation of ``Engine``: nothing but totals of groups leaves the server."""

    cells = PostgresCells()
    explain = "EXPLAIN (COSTS OFF)"
    relations: dict[str, StoredRelation]

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        private = next(table for table in policy.tables.values() if not table.public)
        super().__init__(policy, ServerSessions(private.source.address, f"tables.{private.name}.source", memory))

    def prove_spelling(self, table: str) -> PostgresSpelling:
        require_database_identity(self.server.run)
        return _proved_spelling(self.server, table)

    def identify(self, run: Run) -> Database:
        return identify_database(run)

    def look_up(self, table: str, run: Run) -> StoredRelation:
        table_policy = self._policy.tables[table]
        return stored_relations.find_relation(table_policy.source.relation, table, run, locked=not table_policy.public)

    def lock(self, session: psycopg.Connection[Any]) -> None:
        relations = ", ".join(relation.sql for relation in self.relations.values())
        session.execute(f"LOCK TABLE {relations} IN ACCESS SHARE MODE".encode())

    def carried_scan(self, table: PublicRows, carried: list[object]) -> str:
        return carried_scan(table, carried)

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on every combination of declared values; reads no table."""
        lists = [
            [as_statement_parameter(value) for value in keys]
            for _, _, keys in world.choices
            if not isinstance(keys, KeySpan)
        ]
        text = Generator(self.spelling, _no_table).statement(reading_statements.distinct_results_statement(world))
        start = time.monotonic()
        with self.server.session() as session:
            without_cause(lambda: _limit_time(session, FREE_SECONDS))
            try:
                rows = self.server.rows(session, text, lists)
            except EngineFailed:
                if time.monotonic() - start < FREE_SECONDS:
                    raise
                rule = f"listing all groups takes more than {FREE_SECONDS} seconds, the time limit for free steps"
                raise Unsupported(
                    "keys-too-costly",
                    rule,
                    fix="group by a simpler expression, such as a column instead of a function of it",
                ) from None
        return exact_keys(rows, [expression.domain.type for expression in world.expressions])

    def relation_identities(self, table: str) -> tuple[DataIdentity, ...]:
        system, database_name, database_oid = self.database
        version = self._policy.tables[table].source.version or ""
        return data((system, database_name, database_oid), self.relations[table], version)

    def possible_remarks(self, table: str) -> list[tuple[bool, str]]:
        relation = self.relations[table]
        return [
            (relation.writable, "The role that reads this table may also change its rows: a read-only role is safer."),
            (
                relation.is_view,
                "This view must return the same rows at every read, and build each row from the rows of one unit. "
                "Sfumato cannot check this.",
            ),
            (
                relation.is_computed,
                "Some columns of this source are computed on read. They must not fail for any row: a failure after "
                "the charge would reveal that row. Sfumato cannot check this.",
            ),
        ]

    def renamed_table(self, run: Run) -> str | None:
        """Return a table whose name in statements no longer refers to what was opened. Renaming a schema does not wait
        for locks on its tables, and statements resolve names as of now, whatever their snapshot is.
        """
        oids = stored_relations.relation_oids([relation.sql for relation in self.relations.values()], run)
        opened = zip(self.relations.items(), oids, strict=True)
        return next((table for (table, relation), oid in opened if oid != relation.oid), None)


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


def _proved_spelling(server: SessionPool, table: str) -> PostgresSpelling:
    """Let the server prove every spelling; LOWER and UPPER with the first collation that changes case as we do."""
    policy_path = f"tables.{table}.source"
    with server.session() as session:
        run = partial(server.rows, session)
        ((encoding, version, temporary_files),) = run(
            "SELECT current_setting('server_encoding'), current_setting('server_version_num'), setting::bigint"
            " FROM pg_settings WHERE name = 'temp_file_limit'"
        )
        if encoding != "UTF8":
            raise InvalidPolicy(
                "a PostgreSQL database must store texts in UTF8",
                place=policy_path,
                fix=f"this one stores them in {encoding}: copy the tables into a database with ENCODING 'UTF8'",
            )
        if int(version) < OLDEST:
            raise InvalidPolicy(
                "PostgreSQL 14 or newer is required",
                place=policy_path,
                fix=f"upgrade the server, which is version {int(version) // 10000}",
            )
        if 0 <= temporary_files < LEAST_TEMPORARY_FILES:
            raise InvalidPolicy(
                "this role may use so little space for temporary files that a large question could fail after it "
                "was charged",
                place=policy_path,
                fix="run ALTER ROLE … SET temp_file_limit = -1, or set it to '1GB' or more",
            )
    spellings = map(PostgresSpelling, _COLLATIONS)
    spelling = self_test.spelling_of_case(spellings, carried_scan, server.run) or PostgresSpelling()
    self_test.require_correct_results(self_test.Dialect(spelling, carried_scan, server.run), policy_path)
    return spelling
