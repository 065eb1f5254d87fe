"""Relations are found in PostgreSQL's catalogs: what they are, which columns they have, who may read them.

PostgreSQL's types become a few plain cells: numbers, truths, dates, times, and texts without their collations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.engine.lowering.relational import CleanTable, StagedSelect
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, PostgresSpelling, name
from sfumato.errors import InvalidPolicy
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
        clean = generator.statement(StagedSelect((), item.select(CleanTable(column.name))))
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


Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_TABLE, _PARTITIONED, _VIEW, _KEPT_VIEW, _FOREIGN = "r", "p", "v", "m", "f"
_READ = (_TABLE, _PARTITIONED, _VIEW)
_TEXTS = ("S", "E")
"""The categories of types that are texts: strings and enumerations."""

_FOUND = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid), c.relpersistence::text,
       has_table_privilege(c.oid, 'SELECT')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
WITH RECURSIVE typed(place, called, oid, detail) AS (
    SELECT a.attnum, a.attname, a.atttypid, a.atttypmod
    FROM pg_attribute AS a
    WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
    AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
    UNION ALL
    SELECT typed.place, typed.called, t.typbasetype, t.typtypmod
    FROM typed JOIN pg_type AS t ON t.oid = typed.oid WHERE t.typtype = 'd'
)
SELECT typed.called, t.typname, t.typcategory::text, format_type(t.oid, typed.detail),
       t.typnamespace = 'pg_catalog'::regnamespace,
       i.typname, i.typcategory::text, format_type(i.oid, typed.detail), i.typnamespace = 'pg_catalog'::regnamespace
FROM typed JOIN pg_type AS t ON t.oid = typed.oid
LEFT JOIN pg_type AS i ON i.oid = t.typelem AND t.typcategory = 'A' AND i.typtype <> 'd'
WHERE t.typtype <> 'd' ORDER BY typed.place
"""
"""A domain is the type that it is made of, however many domains lie between."""
_MADE_OF = """
WITH RECURSIVE made(oid) AS (
    SELECT $1::bigint::oid
    UNION
    SELECT next.oid FROM made, LATERAL (
        SELECT i.inhrelid AS oid FROM pg_inherits AS i WHERE i.inhparent = made.oid
        UNION ALL
        SELECT d.refobjid FROM pg_rewrite AS r JOIN pg_depend AS d
        ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
        WHERE r.ev_class = made.oid
    ) AS next
)
SELECT n.nspname, c.relname, c.relkind::text, c.oid::bigint,
       CASE WHEN c.relkind IN ('v', 'm') THEN c.oid || ': ' || pg_get_viewdef(c.oid) ELSE (
           SELECT string_agg(a.attname || ' = ' || pg_get_expr(d.adbin, d.adrelid), ', ' ORDER BY a.attname)
           FROM pg_attribute AS a JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
           WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped) END,
       has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE, TRUNCATE')
FROM made JOIN pg_class AS c ON c.oid = made.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace ORDER BY 1, 2
"""


_NUMBERS = """
SELECT to_regclass(called)::oid::bigint FROM UNNEST(CAST($1 AS TEXT[])) WITH ORDINALITY AS u(called, place)
ORDER BY place
"""


@dataclass(frozen=True)
class StoredRelation:
    """This is a relation as its catalog describes it: equal descriptions are of one shape."""

    oid: int
    schema: str
    called: str
    kind: str
    definitions: tuple[str, ...]
    """Of every view that its rows come through, and of columns that are computed when they are read."""
    columns: tuple[StoredColumn, ...]
    made_of: tuple[tuple[str, str, int], ...] = field(compare=False)
    """Schema, name and number of every relation whose rows it shows, itself too: partitions, which may come and go, and
    what a view reads.
    """
    writable: bool = field(compare=False)
    """Whether the role may change its rows: all of them or one of its columns, in it or where a view reads them."""

    @property
    def sql(self) -> str:
        return f"{name(self.schema)}.{name(self.called)}"

    @property
    def shape(self) -> tuple[object, ...]:
        """Give all that decides what its rows are but the rows themselves."""
        columns = [(each.name, each.kind.name, each.told) for each in self.columns]
        return self.oid, self.schema, self.called, self.kind, self.definitions, columns

    @property
    def is_view(self) -> bool:
        return self.kind == _VIEW

    @property
    def is_computed(self) -> bool:
        """Tell whether some of its columns are computed when they are read, though it is no view."""
        return not self.is_view and bool(self.definitions)


def found(relation: str, table: str, run: Run, *, locked: bool = True) -> StoredRelation:
    """Find a relation, which is named with its schema or is in public, and refuse what cannot be read; or locked, where
    it is read more than once.
    """
    place = f"tables.{table}.relation"
    schema, called = _parts(relation, place)
    rows = run(_FOUND, (schema, called))
    if not rows:
        raise InvalidPolicy(
            "the database has no such table, or this role may not see it",
            place=place,
            fix='name it with its schema, such as relation = "public.visits"',
        )
    ((oid, schema, called, kind, secured, persistence, readable),) = rows
    if kind not in (_READ if locked else (*_READ, _KEPT_VIEW)) or persistence == "t":
        raise InvalidPolicy(
            "a source is a table, a partitioned table or a view",
            place=place,
            fix="a foreign, temporary or materialized one may change between two looks: copy its rows into a table, or "
            "name what it reads",
        )
    if secured:
        raise InvalidPolicy(
            "row security is in force on this table for this role: questions would see some of its rows",
            place=place,
            fix="read with a role that bypasses row security, or name a table without it",
        )
    if locked and not readable:
        raise InvalidPolicy(
            "this role may not read the table as a whole, so it may not keep others from altering it while it reads",
            place=place,
            fix="GRANT SELECT on it, or on a view that shows some of its columns",
        )
    columns = tuple(_column(*row) for row in run(_COLUMNS, (oid,)))
    made_of = run(_MADE_OF, (oid,))
    if any(each == _FOREIGN for _, _, each, *_ in made_of):
        raise InvalidPolicy(
            "a view or partitioned table over a foreign table is no source: it has no snapshot",
            place=place,
            fix="copy the rows into a table of this database",
        )
    names = tuple((schema, called, number) for schema, called, _, number, *_ in made_of)
    definitions = tuple(sorted({each for *_, each, _ in made_of if each}))
    writable = any(each for *_, each in made_of)
    return StoredRelation(oid, schema, called, kind, definitions, columns, names, writable)


def numbers(names: Sequence[str], run: Run) -> list[int | None]:
    """Find the numbers of the relations that names lead to now, in their order; None where one leads nowhere."""
    return [number for (number,) in run(_NUMBERS, (list(names),))]


def _parts(relation: str, place: str) -> tuple[str, str]:
    parts = relation.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in relation:
        raise InvalidPolicy(
            "a table of PostgreSQL is named by its schema and its name",
            place=place,
            fix='write relation = "public.visits"',
        )
    return ("public", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _column(called: str, base: str, category: str, told: str, own: bool, *item: Any) -> StoredColumn:
    """Describe a column, and of an array, which has a type for its items, these too."""
    if not item or item[0] is None:
        return StoredColumn(called, _kind(base, category, own), told)
    return StoredColumn(called, Stored.LIST, told, _column(ITEM, *item))


def _kind(base: str, category: str, own: bool) -> Stored:
    """Tell a type by its name only where it is PostgreSQL's own: any schema may have one of that name."""
    return (KINDS.get(base) if own else None) or (Stored.TEXT if category in _TEXTS else Stored.OTHER)
