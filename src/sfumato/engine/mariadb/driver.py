"""The MariaDB engine: what a server engine needs to know of MariaDB.

A server identifies itself by its host, port and folder; the rows of public tables are fetched from it. Whatever this
engine cannot compute as the others do is refused before the charge.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.engine import self_test
from sfumato.engine.lowering.relational_form import StagedSelect
from sfumato.engine.mariadb.connection import MariaDBSessions, is_supported
from sfumato.engine.mariadb.stored_tables import (
    MAX_ID_LETTERS,
    MariaDBCells,
    find_table,
    is_short_text,
    require_read_only,
)
from sfumato.engine.protocols import DataIdentity, FetchedTable
from sfumato.engine.public_tables import PublicRows, id_columns
from sfumato.engine.server_engine import BaseTable, Run, ServerEngine, data_identities, read_public_rows
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.spellings.mariadb import COLLATION, MariaDBSpelling, quote_identifier, text
from sfumato.errors import InvalidPolicy, SourceChanged, Unsupported
from sfumato.policy import Policy, Table, Type

if TYPE_CHECKING:
    import pymysql

_COLLATIONS = ("uca1400_nopad_as_cs", "utf8mb4_unicode_520_nopad_ci", "utf8mb4_general_nopad_ci")
"""Collations under which LOWER and UPPER may map letters one for one; which of them does is proved at opening."""
_SPARE_PACKET = 1 << 16
"""Bytes by which a statement may grow from its plan to its reading: the keys of samples are longer."""
_MIN_PACKET = 8 << 20
"""The bytes of a statement that a server must accept."""


class MariaDB(ServerEngine):
    """The MariaDB implementation of ``Engine``: nothing but totals of groups leaves the server."""

    cells = MariaDBCells()
    explain = "EXPLAIN"
    integer_truths = True
    relations: dict[str, BaseTable]

    def __init__(self, policy: Policy) -> None:
        private = next(table for table in policy.tables.values() if not table.public)
        super().__init__(policy, MariaDBSessions(private.source.address, f"tables.{private.name}.source"))

    def prove_spelling(self, table: str) -> MariaDBSpelling:
        policy_path = f"tables.{table}.source"
        self._server_limits = _version_and_max_packet(self.server.run)
        _check_version(self._server_limits[0], policy_path)
        _check_packet(self._server_limits[1], policy_path)
        require_read_only(self.server.run, policy_path)
        spellings = map(MariaDBSpelling, _COLLATIONS)
        spelling = self_test.spelling_of_case(spellings, carried_scan, self.server.run) or MariaDBSpelling()
        self_test.require_correct_results(dialect(spelling, self.server.run), policy_path)
        return spelling

    def identify(self, run: Run) -> tuple[str, ...]:
        """Identify a server by its host name, port and folder, as it reports them."""
        return tuple(map(str, run("SELECT @@hostname, @@port, @@datadir")[0]))

    def check_carried(self, table: str) -> None:
        """Refuse a public text with U+0000, which no text on MariaDB may hold."""
        rows = self._public_tables.rows(table)
        texts = [cells for cells, kind in zip(rows.columns, rows.kinds, strict=True) if kind is Type.TEXT]
        if any(cell is not None and "\0" in cell for cells in texts for cell in cells):
            raise InvalidPolicy(
                f"the public table {table} holds a text with the character U+0000, which MariaDB cannot compare",
                place=f"tables.{table}.source",
                fix="remove that character from the table",
            )

    def look_up(self, table: str, run: Run) -> BaseTable:
        policy = self._policy.tables[table]
        relation = find_table(policy.source.relation, table, run)
        for name in id_columns(policy, self._policy):
            column = relation.find(name, f"tables.{table}.id")
            if column.kind is Stored.REAL and self._policy.unit.period is not None and self._policy.id_type is None:
                raise InvalidPolicy(
                    "ids of a unit with a period cannot be DOUBLE, because MariaDB compares them as texts",
                    place=f"tables.{table}.id",
                    fix='declare id_type = "integer" in [unit], or store the ids as whole numbers or texts',
                )
            if not is_short_text(column):
                raise InvalidPolicy(
                    f"ids on MariaDB must be numbers, or texts in a column of at most {MAX_ID_LETTERS} characters",
                    place=f"tables.{table}.id",
                    fix=f"run ALTER TABLE … MODIFY {name} VARCHAR({MAX_ID_LETTERS}), or use a shorter type",
                )
        for name, domain in policy.columns.items():
            policy_path = f"tables.{table}.columns.{name}"
            if domain.type.temporal and relation.find(name, policy_path).kind is Stored.TEXT:
                raise InvalidPolicy(
                    f"{name} is stored as text, which MariaDB cannot read as dates and times exactly",
                    place=policy_path,
                    fix="store it in a column of type DATE or DATETIME, or declare it as text",
                )
        return relation

    def lock(self, session: pymysql.Connection[Any]) -> None:
        """Take the metadata lock of every table, so that it is altered, renamed or dropped only after the transaction,
        and then a snapshot: one that began before could not read a table that was rebuilt meanwhile.
        """
        for limit in (0, 1):  # without a row no snapshot begins
            for relation in self.relations.values():
                self.server.fetch(session, f"SELECT 1 FROM {relation.sql} LIMIT {limit}", ())

    def check_unchanged(self, run: Run) -> None:
        """Raise ``SourceChanged`` also where another version of the server answers, or takes other statements."""
        if _version_and_max_packet(run) != self._server_limits:
            raise SourceChanged(next(iter(self.relations)))
        super().check_unchanged(run)

    def carried_scan(self, table: PublicRows, carried: list[object]) -> str:
        return carried_scan(table, carried)

    def render(self, statement: StagedSelect) -> tuple[str, list[object]]:
        """Render a statement; refuse one that is longer than the server accepts."""
        rendered, carried = super().render(statement)
        _, max_packet = self._server_limits
        if len(rendered.encode()) + _SPARE_PACKET > max_packet:
            raise Unsupported(
                "engine-limits",
                f"the statement for MariaDB is longer than the {max_packet:,} bytes that this server accepts",
                fix="use fewer columns or groups, join smaller public tables, or raise max_allowed_packet",
            )
        return rendered, carried

    def relation_identities(self, table: str) -> tuple[DataIdentity, ...]:
        version = self._policy.tables[table].source.version or ""
        return _data_identities(self.database, self.relations[table], version)

    def possible_remarks(self, _: str) -> list[tuple[bool, str]]:
        return [
            (
                True,
                "A table on MariaDB is identified by its server's host name, port and folder and by its own "
                "name: under other names, the same rows would have a second budget.",
            )
        ]


def fetch_public_table(table: Table) -> FetchedTable:
    """Fetch the rows of a public table from the server that it names."""
    policy_path = f"tables.{table.name}.source"
    server = MariaDBSessions(table.source.address, policy_path)
    try:
        _check_version(_version_and_max_packet(server.run)[0], policy_path)
        relation = find_table(table.source.relation, table.name, server.run)
        server_identity = tuple(map(str, server.run("SELECT @@hostname, @@port, @@datadir")[0]))
        identity = _data_identities(server_identity, relation, table.source.version or "")
        return FetchedTable(read_public_rows(table, relation, MariaDBCells().plain, server.run), identity)
    finally:
        server.close()


def _data_identities(server: tuple[str, ...], relation: BaseTable, version: str) -> tuple[DataIdentity, ...]:
    return data_identities([f"mariadb://{'/'.join(server)}/{relation.database}.{relation.name}"], version)


def _version_and_max_packet(run: Run) -> tuple[str, int]:
    """Return the server's version, and the bytes of a statement that it accepts."""
    ((version, max_packet),) = run("SELECT VERSION(), @@max_allowed_packet")
    return version, max_packet


def _check_version(version: str, policy_path: str) -> None:
    if not is_supported(version):
        raise InvalidPolicy(
            "MariaDB 10.11 or newer is required",
            place=policy_path,
            fix=f"this server is {version}: copy the tables to a server of MariaDB 10.11 or newer",
        )


def _check_packet(max_packet: int, policy_path: str) -> None:
    if max_packet < _MIN_PACKET:
        raise InvalidPolicy(
            f"the server must accept statements of {_MIN_PACKET:,} bytes: its max_allowed_packet is {max_packet:,}",
            place=policy_path,
            fix="run SET GLOBAL max_allowed_packet = 16777216, and write the setting to the server's options file",
        )


def dialect(spelling: MariaDBSpelling, run: Run) -> self_test.Dialect:
    """Return what MariaDB proves: it has no lists, and declared values are listed in this process."""
    return self_test.Dialect(
        spelling, carried_scan, run, lists=None, lists_values=False, integer_truths=True, finite_reals=True
    )


def carried_scan(table: PublicRows, _: list[object]) -> str:
    """Return the FROM item that reads public values, which the statement holds as one text of JSON."""
    if not table.names:
        return "(SELECT 1 AS c)"
    cells = [[_carried_text(cell) for cell in row] for row in zip(*table.columns, strict=True)]
    widths = [max([1, *(len(row[index] or "") for row in cells)]) for index in range(len(table.names))]
    paths = ", ".join(
        f"c{index} VARCHAR({width}) CHARACTER SET utf8mb4 PATH '$[{index}]'" for index, width in enumerate(widths)
    )
    expressions = ", ".join(
        f"{_typed_column_sql(f'c{index}', kind)} AS {quote_identifier(name)}"
        for index, (name, kind) in enumerate(zip(table.names, table.kinds, strict=True))
    )
    rows = text(json.dumps(cells, ensure_ascii=False, separators=(",", ":")))
    return f"(SELECT {expressions} FROM JSON_TABLE({rows}, '$[*]' COLUMNS ({paths})) AS j)"


def _carried_text(cell: Any) -> str | None:
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, str):
        text(cell)  # JSON would write U+0000 in letters that hide it
    return None if cell is None else repr(cell) if isinstance(cell, float) else str(cell)


def _typed_column_sql(x: str, sql_type: Type) -> str:
    return f"({x} COLLATE {COLLATION})" if sql_type is Type.TEXT else MariaDBSpelling().convert(x, sql_type)
