"""Find relations in PostgreSQL's catalogs: their kind, their columns, and who may read them.

PostgreSQL's types become a few plain ones: numbers, booleans, dates, timestamps, and texts without their collations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from sfumato.engine.lowering.relational_form import CleanTable, StagedSelect
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.postgres import BYTES, PostgresSpelling, quote_identifier
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import LONGEST, LONGEST_ID
from sfumato.quick_dataclass import dataclass

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
"""By the name of the base type; other types of the string and enumeration categories are texts."""
_MIN_BIGINT, _MAX_BIGINT = "CAST(-9223372036854775808 AS NUMERIC)", "CAST(9223372036854775807 AS NUMERIC)"


class PostgresCells:
    """The SQL that converts PostgreSQL columns to plain cells; it fails on no cell."""

    def plain(self, column: StoredColumn) -> str:
        return _PLAIN_SQL[column.kind](quote_identifier(column.name), column.type_name)

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        if column.kind not in _PLAIN_SQL:
            return None
        x = self.plain(column)
        if column.kind is Stored.BOOLEAN:
            return f"(CASE WHEN {x} THEN 'true' WHEN NOT {x} THEN 'false' END {BYTES})"
        if column.kind is Stored.DATE:  # dates beyond the calendar are distinct texts, and may be ids
            return f"(CAST({quote_identifier(column.name)} AS TEXT) {BYTES})"
        digits = f"(CAST({x} AS TEXT) {BYTES})" if column.kind is Stored.INTEGER else None
        return x if column.kind is Stored.TEXT else digits

    def is_integer(self, column: StoredColumn) -> str:
        return f"({quote_identifier(column.name)} = TRUNC({quote_identifier(column.name)}))"

    def nearest_integer(self, column: StoredColumn) -> str:
        x = quote_identifier(column.name)
        if column.kind is Stored.REAL:
            in_range = f"{x} BETWEEN CAST('-9223372036854775808' AS FLOAT8) AND CAST('9223372036854774784' AS FLOAT8)"
        else:  # what rounds beyond is NULL too; NaN is above all numbers
            in_range = f"{x} BETWEEN {_MIN_BIGINT} AND {_MAX_BIGINT}"
        return f"CASE WHEN {in_range} THEN CAST({x} AS BIGINT) END"

    def is_present(self, column: StoredColumn) -> str:
        return f"({quote_identifier(column.name)} IS NOT NULL)"

    def clean_list(self, column: StoredColumn, max_items: int, item: CleanItem) -> str:
        """Return the first items in order: an array may start at any index and have several dimensions. At most
        ``max_items`` items are unnested, however long the array is.
        """
        cells = ", ".join(f"{sql} AS {cell}" for sql, cell in item.cells.items())
        items = f"(SELECT UNNEST({quote_identifier(column.name)}) AS {quote_identifier(ITEM)} LIMIT {max_items}) AS u"
        generator = Generator(PostgresSpelling(), lambda _: f"(SELECT {cells} FROM {items})")
        clean = generator.statement(StagedSelect((), item.select(CleanTable(column.name))))
        return f"(SELECT ARRAY_AGG(v) FROM ({clean}) AS i)"

    def key(self, column: StoredColumn) -> str:
        x = quote_identifier(column.name)
        if column.kind is Stored.REAL:  # -0 equals 0: both get one text
            return f"CASE WHEN {x} = 0 THEN CAST(0 AS FLOAT8) ELSE NULLIF(CAST({x} AS FLOAT8), 'NaN') END"
        if column.kind is Stored.DATE:  # dates beyond the calendar are distinct units
            return f"CAST({x} AS DATE)"
        if column.kind is Stored.NUMBER:  # 1.0 and 1 are equal: both get one text
            return f"TRIM_SCALE(NULLIF({x}, 'NaN'))"
        if column.kind is Stored.TEXT:
            return f"CASE WHEN OCTET_LENGTH({self.plain(column)}) <= {LONGEST_ID} THEN {self.plain(column)} END"
        return f"CAST({x} AS BIGINT)" if column.kind is Stored.INTEGER else self.plain(column)


def _plain_number(x: str, _: str) -> str:
    """Convert a decimal to the nearest double: infinite beyond the range of doubles, and 0 where it might underflow."""
    return (
        f"CASE WHEN {x} = 'NaN' THEN NULL WHEN {x} > 1e300 THEN CAST('Infinity' AS FLOAT8)"
        f" WHEN {x} < -1e300 THEN CAST('-Infinity' AS FLOAT8) WHEN ABS({x}) < 1e-300 THEN CAST(0 AS FLOAT8)"
        f" ELSE CAST({x} AS FLOAT8) END"
    )


def _plain_date(x: str, _: str) -> str:
    """Make dates beyond the calendar infinite: not each of them has a timestamp."""
    return (
        f"CASE WHEN {x} > DATE '9999-12-31' THEN DATE 'infinity' WHEN {x} < DATE '0001-01-01' THEN DATE '-infinity'"
        f" ELSE {x} END"
    )


def _plain_timestamp(x: str, type_name: str) -> str:
    return f"({x} AT TIME ZONE 'UTC')" if "with time zone" in type_name else x


_PLAIN_SQL: dict[Stored, Callable[[str, str], str]] = {
    Stored.INTEGER: lambda x, _: f"CAST({x} AS BIGINT)",
    Stored.NUMBER: _plain_number,
    Stored.REAL: lambda x, _: f"NULLIF(CAST({x} AS FLOAT8), 'NaN')",
    Stored.BOOLEAN: lambda x, _: x,
    Stored.DATE: _plain_date,
    Stored.TIMESTAMP: _plain_timestamp,
    Stored.TEXT: lambda x, _: f"(CAST({x} AS TEXT) {BYTES})",
}


Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_TABLE, _PARTITIONED, _VIEW, _MATERIALIZED_VIEW, _FOREIGN = "r", "p", "v", "m", "f"
_READABLE_KINDS = (_TABLE, _PARTITIONED, _VIEW)
_TEXT_CATEGORIES = ("S", "E")
"""The type categories that are texts: strings and enumerations."""

_RELATION_SQL = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid), c.relpersistence::text,
       has_table_privilege(c.oid, 'SELECT')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS_SQL = """
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
"""A domain resolves to its base type, through any number of domains."""
_DEPENDENCIES_SQL = """
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


_FUNCTIONS_SQL = """
WITH RECURSIVE used(class, oid) AS (
    SELECT 'pg_rewrite'::regclass::oid, oid FROM pg_rewrite WHERE ev_class = ANY(CAST($1 AS bigint[])::oid[])
    UNION SELECT 'pg_attrdef'::regclass::oid, oid FROM pg_attrdef WHERE adrelid = ANY(CAST($1 AS bigint[])::oid[])
    UNION
    SELECT next.class, next.oid FROM used, LATERAL (
        SELECT d.refclassid AS class, d.refobjid AS oid FROM pg_depend AS d
        WHERE d.classid = used.class AND d.objid = used.oid
        AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
        UNION ALL
        SELECT 'pg_proc'::regclass::oid, o.oprcode::oid FROM pg_operator AS o
        WHERE used.class = 'pg_operator'::regclass AND o.oid = used.oid
    ) AS next
)
SELECT concat_ws(' ', p.oid, p.prolang, p.provolatile, p.proisstrict, p.proconfig, p.probin, p.prosrc,
                 pg_get_function_sqlbody(p.oid))
FROM used JOIN pg_proc AS p ON used.class = 'pg_proc'::regclass AND p.oid = used.oid
WHERE p.pronamespace <> 'pg_catalog'::regnamespace
"""
"""The bodies of the functions and operators that views and computed columns call, and of those that these depend on.
What the text of a body calls is not recorded by the server.
"""
_OIDS_SQL = """
SELECT to_regclass(called)::oid::bigint FROM UNNEST(CAST($1 AS TEXT[])) WITH ORDINALITY AS u(called, place)
ORDER BY place
"""


@dataclass(frozen=True)
class StoredRelation:
    """A relation as the catalog describes it: equal descriptions mean the same shape."""

    oid: int
    schema: str
    name: str
    kind: str
    definitions: tuple[str, ...]
    """Of every view that its rows come through, of columns that are computed on read, and of the functions of both."""
    columns: tuple[StoredColumn, ...]
    dependencies: tuple[tuple[str, str, int], ...] = field(compare=False)
    """Schema, name and oid of every relation whose rows it shows, including itself: partitions, which may come and go,
    and what a view reads.
    """
    writable: bool = field(compare=False)
    """Whether the role may change its rows or one of its columns, in it or in what a view reads."""

    @property
    def sql(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything that determines its rows, except the rows themselves."""
        columns = [(column.name, column.kind.name, column.type_name) for column in self.columns]
        return self.oid, self.schema, self.name, self.kind, self.definitions, columns

    @property
    def is_view(self) -> bool:
        return self.kind == _VIEW

    @property
    def is_computed(self) -> bool:
        """Whether some columns are computed on read, though it is not a view."""
        return not self.is_view and bool(self.definitions)


def find_relation(relation: str, table: str, run: Run, *, locked: bool = True) -> StoredRelation:
    """Look up a relation by schema.name, or by name in schema public; refuse what cannot be read or, where it is read
    more than once, locked.
    """
    policy_path = f"tables.{table}.relation"
    schema, relation_name = _split_name(relation, policy_path)
    rows = run(_RELATION_SQL, (schema, relation_name))
    if not rows:
        raise InvalidPolicy(
            "the database has no such table, or this role may not see it",
            place=policy_path,
            fix='name it with its schema, such as relation = "public.visits"',
        )
    ((oid, schema, relation_name, kind, row_security, persistence, readable),) = rows
    if kind not in (_READABLE_KINDS if locked else (*_READABLE_KINDS, _MATERIALIZED_VIEW)) or persistence == "t":
        raise InvalidPolicy(
            "a source must be a table, a partitioned table or a view: a foreign or temporary table, or a materialized "
            "view, may change between two reads",
            place=policy_path,
            fix="copy its rows into a table, or name the table that it reads",
        )
    if row_security:
        raise InvalidPolicy(
            "row security is active on this table for this role: queries would see only some of its rows",
            place=policy_path,
            fix="read with a role that bypasses row security, or name a table without it",
        )
    if locked and not readable:
        raise InvalidPolicy(
            "this role may not read the whole table, so it cannot lock the table against changes while Sfumato reads "
            "it",
            place=policy_path,
            fix="grant the role SELECT on the whole table, or create a view of the columns that it may read, and name "
            "the view here",
        )
    columns = tuple(_column(*row) for row in run(_COLUMNS_SQL, (oid,)))
    dependencies = run(_DEPENDENCIES_SQL, (oid,))
    if any(part_kind == _FOREIGN for _, _, part_kind, *_ in dependencies):
        raise InvalidPolicy(
            "a view or partitioned table over a foreign table cannot be a source: foreign tables have no snapshot",
            place=policy_path,
            fix="copy the rows into a table of this database",
        )
    names = tuple((part_schema, part, oid) for part_schema, part, _, oid, *_ in dependencies)
    definitions = {definition for *_, definition, _ in dependencies if definition}
    if definitions:
        definitions |= {f"function {body}" for (body,) in run(_FUNCTIONS_SQL, ([part for _, _, part in names],))}
    writable = any(may_write for *_, may_write in dependencies)
    return StoredRelation(oid, schema, relation_name, kind, tuple(sorted(definitions)), columns, names, writable)


def relation_oids(names: Sequence[str], run: Run) -> list[int | None]:
    """Return the oids of the relations that these names refer to now, in order; None for a name that refers to
    nothing.
    """
    return [oid for (oid,) in run(_OIDS_SQL, (list(names),))]


def _split_name(relation: str, policy_path: str) -> tuple[str, str]:
    parts = relation.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in relation:
        raise InvalidPolicy(
            "a PostgreSQL table must be named by its schema and its name",
            place=policy_path,
            fix='write relation = "public.visits"',
        )
    return ("public", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _column(column: str, base: str, category: str, type_name: str, is_builtin: bool, *item: Any) -> StoredColumn:
    """Describe a column and, for an array, its item type."""
    if not item or item[0] is None:
        return StoredColumn(column, _stored_kind(base, category, is_builtin), type_name)
    return StoredColumn(column, Stored.LIST, type_name, _column(ITEM, *item))


def _stored_kind(base: str, category: str, is_builtin: bool) -> Stored:
    """Map a type by its name only if it is PostgreSQL's own: any schema may have one of that name."""
    return (KINDS.get(base) if is_builtin else None) or (Stored.TEXT if category in _TEXT_CATEGORIES else Stored.OTHER)
