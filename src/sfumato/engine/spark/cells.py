"""Spark's types become a few plain cells: numbers, truths, dates, times, and texts without their collations."""

from __future__ import annotations

from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import SparkSpelling
from sfumato.engine.spellings.spark_literals import name, real
from sfumato.plan.values.grammars import LONGEST

_KINDS = {
    "tinyint": Stored.INTEGER,
    "smallint": Stored.INTEGER,
    "int": Stored.INTEGER,
    "bigint": Stored.INTEGER,
    "decimal": Stored.NUMBER,
    "float": Stored.REAL,
    "double": Stored.REAL,
    "boolean": Stored.BOOLEAN,
    "date": Stored.DATE,
    "timestamp": Stored.TIMESTAMP,
    "timestamp_ntz": Stored.TIMESTAMP,
    "string": Stored.TEXT,
    "char": Stored.TEXT,
    "varchar": Stored.TEXT,
    "binary": Stored.BYTES,
}
"""By the name of the type without its parameters and its collation."""
_WRITTEN = {Stored.INTEGER, Stored.NUMBER, Stored.BOOLEAN, Stored.DATE, Stored.TIMESTAMP}
"""What has a text that every engine would give it, beside texts."""
_NAN = "CAST('NaN' AS DOUBLE)"
_LOWEST, _BEYOND = real(-(2.0**63)), real(2.0**63)
_LIST = "array<"


def stored(column: str, told: str) -> StoredColumn:
    """Say what the cells of a column are whose type Spark calls so; what a list is of, it tells inside <>."""
    if told.startswith(_LIST):
        return StoredColumn(column, Stored.LIST, told, stored(ITEM, told[len(_LIST) : -1]))
    return StoredColumn(column, _KINDS.get(_family(told), Stored.OTHER), told)


def _family(told: str) -> str:
    return told.partition("(")[0].partition(" ")[0]


class SparkCells:
    """These are the expressions that make plain cells of Spark's columns; none of them fails on any cell."""

    def plain(self, column: StoredColumn) -> str:
        x = name(column.name)
        match column.kind:
            case Stored.INTEGER:
                return x if column.told == "bigint" else f"CAST({x} AS BIGINT)"
            case Stored.NUMBER:
                return f"CAST({x} AS DOUBLE)"
            case Stored.REAL:
                return f"NULLIF({_double(column)}, {_NAN})"
            case Stored.DATE:  # not every date beyond the calendar has a time
                return (
                    f"CASE WHEN {x} > DATE '9999-12-31' THEN date_add(DATE '9999-12-31', 1)"
                    f" WHEN {x} < DATE '0001-01-01' THEN date_sub(DATE '0001-01-01', 1) ELSE {x} END"
                )
            case Stored.TIMESTAMP:
                return x if column.told == "timestamp_ntz" else f"CAST({x} AS TIMESTAMP_NTZ)"
            case Stored.TEXT:
                return _letters(column)
        return x

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        if column.kind is Stored.TEXT:
            return _letters(column)
        return f"CAST({name(column.name)} AS STRING)" if column.kind in _WRITTEN else None

    def whole(self, column: StoredColumn) -> str:
        x = name(column.name)
        return f"({x} = FLOOR({x}))" if column.kind is Stored.NUMBER else f"({x} = rint({x}))"

    def nearest(self, column: StoredColumn) -> str:
        """Write what is whole alone: the cast rounds toward zero, and takes 2^63 for 2^63 − 1."""
        x = name(column.name)
        held = f"{x} = FLOOR({x})" if column.kind is Stored.NUMBER else f"{x} >= {_LOWEST} AND {x} < {_BEYOND}"
        return f"CASE WHEN {held} THEN TRY_CAST({x} AS BIGINT) END"

    def there(self, column: StoredColumn) -> str:
        return f"({name(column.name)} IS NOT NULL)"

    def listed(self, column: StoredColumn, most: int, item: CleanItem) -> str:
        fields = ", ".join(f"'{each}', {sql}" for sql, each in item.cells.items())
        plain = f"transform(slice({name(column.name)}, 1, {most}), {ITEM} -> named_struct({fields}))"
        return f"transform({plain}, {ITEM} -> {Generator(SparkSpelling(), str).scalar(item.inline())})"

    def key(self, column: StoredColumn) -> str:
        if column.kind is Stored.REAL:  # −0 equals 0, and has one text with it so
            x = _double(column)
            return f"CASE WHEN {x} = 0 THEN {real(0.0)} ELSE NULLIF({x}, {_NAN}) END"
        if column.kind is Stored.BYTES:
            return f"hex({name(column.name)})"
        # days beyond the calendar are as many units, and so are all digits of a decimal number
        return self.plain(column) if column.kind in (Stored.INTEGER, Stored.TEXT) else name(column.name)


def _double(column: StoredColumn) -> str:
    x = name(column.name)
    return x if column.told == "double" else f"CAST({x} AS DOUBLE)"


def _letters(column: StoredColumn) -> str:
    """Write a text told apart letter by letter: a cast to STRING drops a collation, under which rows that differ would
    be grouped together; and what fills up a CHAR is no part of its text.
    """
    x = name(column.name)
    if _family(column.told) == "char":
        return f"RTRIM(CAST({x} AS STRING))"
    return x if column.told == "string" else f"CAST({x} AS STRING)"
