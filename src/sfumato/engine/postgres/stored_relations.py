"""Relations are found in PostgreSQL's catalogs: what they are, which columns they have, who may read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.clean_scans import Stored, StoredColumn
from sfumato.engine.postgres.stored_cells import KINDS
from sfumato.engine.spellings.postgres import name
from sfumato.errors import InvalidPolicy

Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_TABLE, _PARTITIONED, _VIEW, _KEPT_VIEW, _FOREIGN = "r", "p", "v", "m", "f"
_READ = (_TABLE, _PARTITIONED, _VIEW, _KEPT_VIEW)
_TEXTS = ("S", "E")
"""The categories of types that are texts: strings and enumerations."""

_FOUND = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid), c.relpersistence::text,
       coalesce(pg_get_viewdef(CASE WHEN c.relkind IN ('v', 'm') THEN c.oid END), ''),
       has_table_privilege(c.oid, 'INSERT') OR has_table_privilege(c.oid, 'UPDATE')
       OR has_table_privilege(c.oid, 'DELETE') OR has_table_privilege(c.oid, 'TRUNCATE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
SELECT a.attname, b.typname, b.typcategory::text, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
JOIN pg_type AS b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attnum
"""
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
SELECT n.nspname, c.relname, c.relkind::text FROM made JOIN pg_class AS c ON c.oid = made.oid
JOIN pg_namespace AS n ON n.oid = c.relnamespace ORDER BY 1, 2
"""


@dataclass(frozen=True)
class StoredRelation:
    """This is a relation as its catalog describes it: equal descriptions are of one shape."""

    oid: int
    schema: str
    called: str
    kind: str
    definition: str
    """Of a view."""
    columns: tuple[StoredColumn, ...]
    made_of: tuple[tuple[str, str], ...]
    """Schema and name of every relation whose rows it shows, itself too: partitions, and what a view reads."""
    writable: bool
    """Whether the role may change its rows."""

    @property
    def sql(self) -> str:
        return f"{name(self.schema)}.{name(self.called)}"

    @property
    def is_view(self) -> bool:
        return self.kind in (_VIEW, _KEPT_VIEW)


def found(relation: str, table: str, run: Run) -> StoredRelation:
    """Find a relation, which is named with its schema or is in public, and refuse what cannot be read."""
    place = f"tables.{table}.relation"
    schema, called = _parts(relation, place)
    rows = run(_FOUND, (schema, called))
    if not rows:
        raise InvalidPolicy(
            "the database has no such table, or this role may not see it",
            place=place,
            fix='name it with its schema, such as relation = "public.visits"',
        )
    ((oid, schema, called, kind, secured, persistence, definition, writable),) = rows
    if kind not in _READ or persistence == "t":
        raise InvalidPolicy(
            "a source is a table, a partitioned table or a view",
            place=place,
            fix="a foreign or temporary table may change between two looks: copy its rows into a table",
        )
    if secured:
        raise InvalidPolicy(
            "row security is in force on this table for this role: questions would see some of its rows",
            place=place,
            fix="read with a role that bypasses row security, or name a table without it",
        )
    columns = tuple(_column(*row) for row in run(_COLUMNS, (oid,)))
    if not columns:
        raise InvalidPolicy(
            "this role may read no column of the table", place=place, fix="GRANT SELECT on it, or on its columns"
        )
    made_of = run(_MADE_OF, (oid,))
    if any(each == _FOREIGN for _, _, each in made_of):
        raise InvalidPolicy(
            "a view or partitioned table over a foreign table is no source: it has no snapshot",
            place=place,
            fix="copy the rows into a table of this database",
        )
    names = tuple((schema, called) for schema, called, _ in made_of)
    return StoredRelation(oid, schema, called, kind, definition, columns, names, writable)


def _parts(relation: str, place: str) -> tuple[str, str]:
    parts = relation.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in relation:
        raise InvalidPolicy(
            "a table of PostgreSQL is named by its schema and its name",
            place=place,
            fix='write relation = "public.visits"',
        )
    return ("public", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _column(called: str, base: str, category: str, told: str) -> StoredColumn:
    kind = KINDS.get(base) or (Stored.TEXT if category in _TEXTS else None)
    return StoredColumn(called, kind or Stored.OTHER, told)
