"""PostgreSQL's types become a few plain cells: numbers, truths, dates, times, and texts without their collations."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.engine.lowering.relational import Statement, Table
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, PostgresSpelling, name
from sfumato.plan.values.grammars import LONGEST

KINDS = {
    "int2": Stored.INTEGER,
    "int4": Stored.INTEGER,
    "int8": Stored.INTEGER,
    "numeric": Stored.NUMBER,
    "float4": Stored.REAL,
    "float8": Stored.REAL,
    "bool": Stored.BOOLEAN,
    "date": Stored.DATE,
    "timestamp": Stored.TIMESTAMP,
    "timestamptz": Stored.TIMESTAMP,
    "uuid": Stored.TEXT,
}
"""By the name of the base type; of others, those of the string and enumeration categories are texts."""
_LOWEST, _HIGHEST = "CAST(-9223372036854775808 AS NUMERIC)", "CAST(9223372036854775807 AS NUMERIC)"


class PostgresCells:
    """These are the expressions that make plain cells of PostgreSQL's columns; none of them fails on any cell."""

    def plain(self, column: StoredColumn) -> str:
        return _PLAIN[column.kind](name(column.name), column.told)

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        if column.kind not in _PLAIN:
            return None
        x = self.plain(column)
        if column.kind is Stored.BOOLEAN:
            return f"(CASE WHEN {x} THEN 'true' WHEN NOT {x} THEN 'false' END {BYTES})"
        if column.kind is Stored.DATE:  # days beyond the calendar are as many texts, and may be ids
            return f"(CAST({name(column.name)} AS TEXT) {BYTES})"
        written = f"(CAST({x} AS TEXT) {BYTES})" if column.kind is Stored.INTEGER else None
        return x if column.kind is Stored.TEXT else written

    def whole(self, column: StoredColumn) -> str:
        return f"({name(column.name)} = TRUNC({name(column.name)}))"

    def nearest(self, column: StoredColumn) -> str:
        x = name(column.name)
        if column.kind is Stored.REAL:
            held = f"{x} BETWEEN CAST('-9223372036854775808' AS FLOAT8) AND CAST('9223372036854774784' AS FLOAT8)"
        else:  # what rounds to a number beyond is NULL too; NaN is above all numbers
            held = f"{x} BETWEEN {_LOWEST} AND {_HIGHEST}"
        return f"CASE WHEN {held} THEN CAST({x} AS BIGINT) END"

    def there(self, column: StoredColumn) -> str:
        return f"({name(column.name)} IS NOT NULL)"

    def listed(self, column: StoredColumn, most: int, item: CleanItem) -> str:
        """Count the items as they come: an array may begin at any number, and have several dimensions. No more of them
        are made than count, however long the array is.
        """
        cells = ", ".join(f"{sql} AS {each}" for sql, each in item.cells.items())
        items = f"(SELECT UNNEST({name(column.name)}) AS {name(ITEM)} LIMIT {most}) AS u"
        generator = Generator(PostgresSpelling(), lambda _: f"(SELECT {cells} FROM {items})")
        clean = generator.statement(Statement((), item.select(Table(column.name))))
        return f"(SELECT ARRAY_AGG(v) FROM ({clean}) AS i)"

    def key(self, column: StoredColumn) -> str:
        x = name(column.name)
        if column.kind is Stored.REAL:  # -0 equals 0, and has one text with it so
            return f"CASE WHEN {x} = 0 THEN CAST(0 AS FLOAT8) ELSE NULLIF(CAST({x} AS FLOAT8), 'NaN') END"
        if column.kind is Stored.DATE:  # days beyond the calendar are as many units
            return f"CAST({x} AS DATE)"
        if column.kind is Stored.NUMBER:  # 1.0 and 1 are equal, and have one text so
            return f"TRIM_SCALE(NULLIF({x}, 'NaN'))"
        return f"CAST({x} AS BIGINT)" if column.kind is Stored.INTEGER else self.plain(column)


def _number(x: str, _: str) -> str:
    """Make a double of a decimal number: by its digits, so that it is the nearest; beyond what a double holds it is
    infinite, and so near 0 that it might underflow it is 0.
    """
    return (
        f"CASE WHEN {x} = 'NaN' THEN NULL WHEN {x} > 1e300 THEN CAST('Infinity' AS FLOAT8)"
        f" WHEN {x} < -1e300 THEN CAST('-Infinity' AS FLOAT8) WHEN ABS({x}) < 1e-300 THEN CAST(0 AS FLOAT8)"
        f" ELSE CAST({x} AS FLOAT8) END"
    )


def _date(x: str, _: str) -> str:
    """Make infinite what lies beyond the calendar: not every such date has a time."""
    return (
        f"CASE WHEN {x} > DATE '9999-12-31' THEN DATE 'infinity' WHEN {x} < DATE '0001-01-01' THEN DATE '-infinity'"
        f" ELSE {x} END"
    )


def _time(x: str, told: str) -> str:
    return f"({x} AT TIME ZONE 'UTC')" if "with time zone" in told else x


_PLAIN: dict[Stored, Callable[[str, str], str]] = {
    Stored.INTEGER: lambda x, _: f"CAST({x} AS BIGINT)",
    Stored.NUMBER: _number,
    Stored.REAL: lambda x, _: f"NULLIF(CAST({x} AS FLOAT8), 'NaN')",
    Stored.BOOLEAN: lambda x, _: x,
    Stored.DATE: _date,
    Stored.TIMESTAMP: _time,
    Stored.TEXT: lambda x, _: f"(CAST({x} AS TEXT) {BYTES})",
}
