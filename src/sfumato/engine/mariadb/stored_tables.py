"""Find tables in MariaDB's catalog: their engine, their columns, and what the account may do.

MariaDB's types become a few plain ones: numbers, dates, times, and texts without their collations.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sfumato.engine.server_engine import BaseTable, Run
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import StoredColumn
from sfumato.engine.spellings.mariadb import COLLATION, quote_identifier, text
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import LONGEST, LONGEST_ID

KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), Stored.INTEGER),
    "decimal": Stored.NUMBER,
    "double": Stored.REAL,
    "float": Stored.REAL,
    "date": Stored.DATE,
    "datetime": Stored.TIMESTAMP,
    "timestamp": Stored.TIMESTAMP,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), Stored.TEXT),
}
"""By the name of the type. BIT, SET, TIME, YEAR, bytes, addresses and shapes cannot be read."""
CHARACTER_SETS = ("ascii", "latin1", "utf8mb3", "utf8mb4")
"""Those whose letters have one code point each."""
_HARMLESS_RIGHTS = ("USAGE", "SELECT", "SHOW DATABASES", "SHOW VIEW")
_RIGHT = rf"(?:{'|'.join(_HARMLESS_RIGHTS)})(?: \(n(?:, n)*\))?"
_HARMLESS_GRANT = rf"GRANT {_RIGHT}(?:, {_RIGHT})* ON [n*]\.[n*] TO (?!.*GRANT OPTION).*"
"""A line of SHOW GRANTS, with n for every quoted name, that allows no more than reading."""
MAX_ID_LETTERS = 230
"""The most letters of a column of ids: an index of a temporary table has at most 1,000 bytes, and a join without one
compares every pair. A period is written before an id with ten letters; a letter has four bytes.
"""
_MIN_BIGINT, _MAX_BIGINT = "-9223372036854775808", "9223372036854775807"


class MariaDBCells:
    """The SQL that converts MariaDB columns to plain cells; it fails on no cell."""

    def plain(self, column: StoredColumn) -> str:
        return _PLAIN_SQL[column.kind](_without_wrapping(column))

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        x = _PLAIN_SQL[column.kind](_without_wrapping(column)) if column.kind in _PLAIN_SQL else ""
        if column.kind in (Stored.INTEGER, Stored.DATE):
            return f"CAST({x} AS CHAR)"
        return x if column.kind is Stored.TEXT else None

    def is_integer(self, column: StoredColumn) -> str:
        x = _without_wrapping(column)
        return f"({x} = TRUNCATE({x}, 0))"

    def nearest_integer(self, column: StoredColumn) -> str:
        x = _without_wrapping(column)
        ends = ("-9223372036854775808e0", "9223372036854774784e0")
        low, high = ends if column.kind is Stored.REAL else (_MIN_BIGINT, _MAX_BIGINT)
        return f"CASE WHEN {x} BETWEEN {low} AND {high} THEN CAST({x} AS SIGNED) END"

    def is_present(self, column: StoredColumn) -> str:
        return f"({quote_identifier(column.name)} IS NOT NULL)"

    def clean_list(self, column: StoredColumn, *_: object) -> str:
        raise AssertionError(column)  # MariaDB has no lists

    def key(self, column: StoredColumn) -> str:
        x = self.plain(column)
        if column.kind is Stored.REAL:  # -0 equals 0: both get one text
            return f"({x} + 0e0)"
        if column.kind is Stored.NUMBER:
            return _without_wrapping(column)
        if column.kind is Stored.TEXT:
            return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST_ID} THEN CAST({x} AS CHAR({MAX_ID_LETTERS})) END"
        return x


def _without_wrapping(column: StoredColumn) -> str:
    """Write a column without what its type does to values: an unsigned number beyond 64 bits would wrap."""
    x = quote_identifier(column.name)
    if _may_wrap(column.type_name):
        return f"CAST({x} AS DECIMAL(20,0))"
    return f"CAST({x} AS DOUBLE)" if column.kind is Stored.REAL else x


def is_short_text(column: StoredColumn) -> bool:
    """Return whether a column of texts has a short type, or another one than texts."""
    length = re.fullmatch(r"(?:var)?char\(([0-9]+)\)", column.type_name)
    return column.kind is not Stored.TEXT or (length is not None and int(length[1]) <= MAX_ID_LETTERS)


def _may_wrap(type_name: str) -> bool:
    """Return whether signed 64-bit numbers hold not every number of a type."""
    return type_name.startswith("bigint") and "unsigned" in type_name


def _null_if_zero_byte(x: str) -> str:
    """Compare a text by its bytes, and map one with U+0000 to NULL: sort keys are padded with zeros, so it would tie
    with the text without it, and rows of both would split into many groups.
    """
    letters = f"(CONVERT({x} USING utf8mb4) COLLATE {COLLATION})"
    return f"CASE WHEN INSTR({letters}, CHAR(0 USING utf8mb4)) = 0 THEN {letters} END"


def _null_unless_real_date(x: str, kind: str) -> str:
    """Map a date with a zero in it, or after the end of its month, to NULL."""
    return f"CASE WHEN DAYOFMONTH({x}) BETWEEN 1 AND DAYOFMONTH(LAST_DAY({x})) THEN CAST({x} AS {kind}) END"


_PLAIN_SQL: dict[Stored, Callable[[str], str]] = {
    Stored.INTEGER: lambda x: f"CAST({x} AS SIGNED)",
    Stored.NUMBER: lambda x: f"CAST({x} AS DOUBLE)",
    Stored.REAL: lambda x: x,
    Stored.DATE: lambda x: _null_unless_real_date(x, "DATE"),
    Stored.TIMESTAMP: lambda x: _null_unless_real_date(x, "DATETIME(6)"),
    Stored.TEXT: lambda x: f"({_null_if_zero_byte(x)})",
}


def find_table(relation: str, table: str, run: Run) -> BaseTable:
    """Look up a table by database.name, or by name in the database of the address; refuse what cannot be read on one
    snapshot.
    """
    policy_path = f"tables.{table}.relation"
    database, name = _split_name(relation, policy_path, run)
    is_named = f"table_schema = {text(database)} AND table_name = {text(name)}"
    rows = run(f"SELECT table_schema, table_name, table_type, engine FROM information_schema.tables WHERE {is_named}")
    matches = [row[2:] for row in rows if row[:2] == (database, name)]
    if not matches:
        raise InvalidPolicy(
            "the database has no such table, or this account may not see it",
            place=policy_path,
            fix='name it with its database, such as relation = "clinic.visits"',
        )
    if matches != [("BASE TABLE", "InnoDB")]:
        raise InvalidPolicy(
            "a source on MariaDB must be a plain InnoDB table: only these can be read as of one moment",
            place=policy_path,
            fix="copy its rows into a plain InnoDB table: no view, sequence or versioned table, and no other engine",
        )
    columns = run(
        "SELECT table_schema, table_name, column_name, data_type, column_type, character_set_name, extra"
        f" FROM information_schema.columns WHERE {is_named} ORDER BY ordinal_position"
    )
    stored = tuple(_column(*row[2:]) for row in columns if row[:2] == (database, name))
    return BaseTable(database, name, f"{quote_identifier(database)}.{quote_identifier(name)}", stored)


def _split_name(relation: str, policy_path: str, run: Run) -> tuple[str, str]:
    parts = relation.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in relation:
        raise InvalidPolicy(
            "a MariaDB table must be named by its database and its name",
            place=policy_path,
            fix='write relation = "clinic.visits"',
        )
    return (run("SELECT DATABASE()")[0][0], parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _column(name: str, kind: str, type_name: str, character_set: str | None, extra: str) -> StoredColumn:
    """Describe a column; one that is computed on read, and one whose letters are not known, cannot be read."""
    is_known = character_set is None or character_set in CHARACTER_SETS
    is_fixed = kind in ("double", "float") and "(" in type_name
    if "VIRTUAL" in extra.upper():
        return StoredColumn(name, Stored.OTHER, f"a computed column ({type_name})")
    if not is_known or is_fixed:
        return StoredColumn(name, Stored.OTHER, f"{type_name} in {character_set}" if not is_known else type_name)
    return StoredColumn(name, Stored.NUMBER if _may_wrap(type_name) else KINDS.get(kind, Stored.OTHER), type_name)


def require_read_only(run: Run, policy_path: str) -> None:
    """Refuse an account that may do more than read, in its own name, by a role or as everybody may."""
    grants = [str(grant) for (grant,) in run("SHOW GRANTS")]
    others = [right for grant in grants for right in _rights_beyond_reading(grant)]
    if others:
        raise InvalidPolicy(
            f"this account may do more than read tables: {', '.join(others)}",
            place=policy_path,
            fix="create a user for the curator alone (CREATE USER …), and GRANT SELECT on the tables of the policy "
            "to it directly, not through a role and without GRANT OPTION; revoke other rights from PUBLIC",
        )


def _rights_beyond_reading(grant: str) -> list[str]:
    """Name what a line of SHOW GRANTS allows beyond reading; the line itself may hold the hash of a password.

    >>> _rights_beyond_reading('GRANT SELECT ("age"), SHOW VIEW ON "clinic".* TO "reader"@"%"')
    []
    >>> _rights_beyond_reading('GRANT SELECT, INSERT ON "clinic".* TO PUBLIC')
    ['INSERT']
    """
    bare = re.sub(r'"(?:[^"]|"")*"', "n", grant)
    if re.fullmatch(_HARMLESS_GRANT, bare, re.DOTALL):
        return []
    rights, on, rest = bare.removeprefix("GRANT ").partition(" ON ")
    names = {*re.findall("[A-Z][A-Z ]*[A-Z]", rights)} - {*_HARMLESS_RIGHTS} if on else {"a role"}
    return sorted(names | ({"GRANT OPTION"} if "GRANT OPTION" in rest else set())) or ["rights of another kind"]
