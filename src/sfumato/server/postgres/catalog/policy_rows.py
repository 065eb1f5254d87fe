"""The rows of the catalog's relations, from a policy, a database name and a user name.

No number comes from data: ``reltuples`` is -1 (never analysed), pages and sizes are 0, statistics are empty.

Relations whose rows follow from other relations of the catalog: pg_tables, information_schema and others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.catalog.relations import (
    ARRAY_PREFIX,
    SCHEMA,
    SERVICE_SCHEMA,
    CatalogRelation,
    DescribedColumn,
    DescribedRelation,
    PostgresType,
    catalog_relations,
    postgres_types,
    type_oid,
)

Row = Mapping[str, Any]
"""Values by column; columns that are left out have their type's default."""

OWNER, USER, DATABASE_OWNER = 10, 16384, 6171
"""The OIDs of the roles."""
DATABASE = 16385
NAMESPACES = {"pg_toast": 99, "pg_catalog": 11, "public": 2200, "information_schema": 13207, SERVICE_SCHEMA: 16386}
VISIBLE_NAMESPACES = ("pg_catalog", "public")
"""The namespaces of the search path."""
_FIRST_OID = 20_000
"""The OID of the first described relation; each takes three: itself, its row type and the array of that."""
DEFAULTS: Mapping[str, object] = {
    "oid": 0,
    "bool": False,
    "int2": 0,
    "int4": 0,
    "int8": 0,
    "float4": 0.0,
    "name": "",
    "char": "",
    "regproc": "-",
    "xid": 0,
}
"""What a column holds that a row leaves out, by type; NULL for all others."""


@dataclass(frozen=True)
class DatabaseAndUser:
    """Who reads which database."""

    database: str
    user: str

    @property
    def owner(self) -> str:
        """The role that owns all tables: the service, unless the user has that name."""
        return "sfumato" if self.user != "sfumato" else "curator"

    @property
    def acl(self) -> list[str]:
        return [f"{self.owner}=arwdDxt/{self.owner}", f"{self.user}=r/{self.owner}"]


@dataclass(frozen=True)
class NumberedRelation:
    """A described relation with its OID."""

    oid: int
    relation: DescribedRelation

    @property
    def row_type(self) -> int:
        return self.oid + 1

    @property
    def array_type(self) -> int:
        """The OID of the type of arrays of its rows."""
        return self.oid + 2


def number_relations(described: Iterable[DescribedRelation]) -> tuple[NumberedRelation, ...]:
    """Assign OIDs in the order of the policy, so that they stay the same between connections."""
    return tuple(NumberedRelation(_FIRST_OID + 3 * index, relation) for index, relation in enumerate(described))


def rows_by_catalog_table(described: tuple[NumberedRelation, ...], identity: DatabaseAndUser) -> dict[str, list[Row]]:
    """Return the rows of every relation that has any, by the relation's stored name."""
    return {
        "functions_pg_get_keywords": [*_keyword_rows()],
        "pg_am": [
            {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"},
            {"oid": 403, "amname": "btree", "amhandler": "bthandler", "amtype": "i"},
        ],
        "pg_attribute": [*_pg_attribute_rows(described)],
        "pg_class": [*_pg_class_rows(described, identity)],
        "pg_collation": [*_pg_collation_rows()],
        "pg_database": [_pg_database_row(identity)],
        "pg_description": [*_pg_description_rows(described)],
        "pg_language": [
            {"oid": 12, "lanname": "internal", "lanowner": OWNER},
            {"oid": 14, "lanname": "sql", "lanowner": OWNER, "lanpltrusted": True},
        ],
        "pg_namespace": [*_pg_namespace_rows(identity)],
        "pg_proc": [*_pg_proc_rows()],
        "pg_range": [*_pg_range_rows()],
        "pg_roles": [*_pg_roles_rows(identity)],
        "pg_tablespace": [
            {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER},
            {"oid": 1664, "spcname": "pg_global", "spcowner": OWNER},
        ],
        "pg_type": [*_pg_type_rows(described)],
    }


def _pg_class_rows(described: tuple[NumberedRelation, ...], identity: DatabaseAndUser) -> Iterator[Row]:
    for relation in catalog_relations().values():
        if relation.oid:
            yield _class_row(relation.oid, relation.name, relation.schema, len(relation.columns)) | {
                "relkind": relation.kind,
                "relam": 2 if relation.kind == "r" else 0,
                "relreplident": "n",
                "relacl": [f"{identity.owner}=arwdDxt/{identity.owner}", f"=r/{identity.owner}"],
            }
    for numbered in described:
        relation_row = _class_row(
            numbered.oid, numbered.relation.name, numbered.relation.schema, len(numbered.relation.columns)
        )
        yield relation_row | {"reltype": numbered.row_type, "relfilenode": numbered.oid, "relacl": identity.acl}


def _class_row(oid: int, name: str, schema: str, column_count: int) -> dict[str, Any]:
    return {
        "oid": oid,
        "relname": name,
        "relnamespace": NAMESPACES[schema],
        "relowner": OWNER,
        "relam": 2,
        "reltuples": -1.0,  # never analysed: a count of rows is not public
        "relpersistence": "p",
        "relkind": "r",
        "relnatts": column_count,
        "relispopulated": True,
        "relreplident": "d",
        "relminmxid": 1,
    }


def _pg_attribute_rows(described: tuple[NumberedRelation, ...]) -> Iterator[Row]:
    for relation in catalog_relations().values():
        if relation.oid:
            yield from _attribute_rows(relation.oid, _columns_of_catalog_relation(relation))
    for numbered in described:
        yield from _attribute_rows(numbered.oid, numbered.relation.columns)


def _columns_of_catalog_relation(relation: CatalogRelation) -> Iterable[DescribedColumn]:
    return (DescribedColumn(name, kind) for name, kind in relation.columns.items())


def _attribute_rows(relation_oid: int, columns: Iterable[DescribedColumn]) -> Iterator[Row]:
    for number, column in enumerate(columns, 1):
        is_array = column.type_name.startswith(ARRAY_PREFIX)
        type_row = postgres_types()[column.type_name.removeprefix(ARRAY_PREFIX)].row
        yield {
            "attrelid": relation_oid,
            "attname": column.name,
            "atttypid": type_oid(column.type_name),
            "attstattarget": -1,
            "attlen": -1 if is_array else int(type_row["typlen"]),
            "attnum": number,
            "attndims": int(is_array),
            "attcacheoff": -1,
            "atttypmod": -1,
            "attbyval": not is_array and type_row["typbyval"] == "t",
            "attalign": _array_alignment(type_row) if is_array else type_row["typalign"],
            "attstorage": "x" if is_array else type_row["typstorage"],
            "attislocal": True,
            "attcollation": int(type_row["typcollation"]),
        }


def _array_alignment(element: Mapping[str, str]) -> str:
    return "d" if element["typalign"] == "d" else "i"


def _pg_type_rows(described: tuple[NumberedRelation, ...]) -> Iterator[Row]:
    for builtin in postgres_types().values():
        yield _type_row(builtin)
        if builtin.array_oid:
            yield _array_type_row(builtin.array_oid, builtin.name, builtin.oid, "pg_catalog") | {
                "typalign": _array_alignment(builtin.row),
                "typdelim": builtin.row["typdelim"],
                "typcollation": int(builtin.row["typcollation"]),
                **({"typtype": "p", "typcategory": "P"} if builtin.name == "record" else {}),
            }
    for numbered in described:
        yield _row_type_row(numbered)
        relation = numbered.relation
        yield _array_type_row(numbered.array_type, relation.name, numbered.row_type, relation.schema) | {
            "typalign": "d"
        }


_TYPE_NUMBERS = ("oid", "typlen", "typarray", "typelem", "typcollation")
_TYPE_FLAGS = ("typbyval", "typispreferred")


def _type_row(builtin: PostgresType) -> Row:
    texts = {name: text for name, text in builtin.row.items() if name != "formatted"}
    numbers = {name: int(texts[name]) for name in _TYPE_NUMBERS}
    flags = {name: texts[name] == "t" for name in _TYPE_FLAGS}
    return texts | numbers | flags | _shared_type_columns("pg_catalog")


def _array_type_row(oid: int, element: str, element_oid: int, schema: str) -> dict[str, Any]:
    return _shared_type_columns(schema) | {
        "oid": oid,
        "typname": ARRAY_PREFIX + element[:62],
        "typlen": -1,
        "typtype": "b",
        "typcategory": "A",
        "typdelim": ",",
        "typsubscript": "array_subscript_handler",
        "typelem": element_oid,
        "typinput": "array_in",
        "typoutput": "array_out",
        "typreceive": "array_recv",
        "typsend": "array_send",
        "typanalyze": "array_typanalyze",
        "typstorage": "x",
    }


def _row_type_row(numbered: NumberedRelation) -> Row:
    return _shared_type_columns(numbered.relation.schema) | {
        "oid": numbered.row_type,
        "typname": numbered.relation.name,
        "typlen": -1,
        "typtype": "c",
        "typcategory": "C",
        "typdelim": ",",
        "typrelid": numbered.oid,
        "typarray": numbered.array_type,
        "typinput": "record_in",
        "typoutput": "record_out",
        "typreceive": "record_recv",
        "typsend": "record_send",
        "typalign": "d",
        "typstorage": "x",
    }


def _shared_type_columns(schema: str) -> dict[str, Any]:
    return {"typnamespace": NAMESPACES[schema], "typowner": OWNER, "typisdefined": True, "typtypmod": -1}


def _pg_description_rows(described: tuple[NumberedRelation, ...]) -> Iterator[Row]:
    """Yield the comments: of each table, and of each column that has one."""
    class_oid = catalog_relations()["pg_catalog", "pg_class"].oid
    for numbered in described:
        yield {"objoid": numbered.oid, "classoid": class_oid, "objsubid": 0, "description": numbered.relation.comment}
        for number, column in enumerate(numbered.relation.columns, 1):
            if column.comment is not None:
                yield {
                    "objoid": numbered.oid,
                    "classoid": class_oid,
                    "objsubid": number,
                    "description": column.comment,
                }
    namespace_oid = catalog_relations()["pg_catalog", "pg_namespace"].oid
    comments = {
        "pg_catalog": "system catalog schema",
        "pg_toast": "reserved schema for TOAST tables",
        "public": "standard public schema",
    }
    for name, comment in comments.items():
        yield {"objoid": NAMESPACES[name], "classoid": namespace_oid, "objsubid": 0, "description": comment}


def _pg_namespace_rows(identity: DatabaseAndUser) -> Iterator[Row]:
    owner = identity.owner
    readable = [f"{owner}=UC/{owner}", f"=U/{owner}"]
    owner_acl = ["pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"]
    service_acl = [f"{owner}=UC/{owner}", f"{identity.user}=U/{owner}"]
    acls = {"pg_toast": None, "public": owner_acl, SERVICE_SCHEMA: service_acl}
    for name, oid in NAMESPACES.items():
        role = DATABASE_OWNER if name == "public" else OWNER
        yield {"oid": oid, "nspname": name, "nspowner": role, "nspacl": acls.get(name, readable)}


def _pg_roles_rows(identity: DatabaseAndUser) -> Iterator[Row]:
    plain = {"rolinherit": True, "rolconnlimit": -1, "rolpassword": "********"}
    powers = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication", "rolbypassrls")
    yield plain | {"rolname": identity.owner, "oid": OWNER} | dict.fromkeys(powers, True)
    yield plain | {"rolname": "pg_database_owner", "oid": DATABASE_OWNER}
    yield plain | {"rolname": identity.user, "oid": USER, "rolcanlogin": True}


def _pg_database_row(identity: DatabaseAndUser) -> Row:
    return {
        "oid": DATABASE,
        "datname": identity.database,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datallowconn": True,
        "datconnlimit": -1,
        "datminmxid": 1,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def _pg_proc_rows() -> Iterator[Row]:
    """Yield the functions that read and write values of the built-in types; clients find array types by them."""
    text = resources.files(__package__).joinpath("procedures.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        arguments = [int(oid) for oid in row["proargtypes"].split()]
        yield {
            "oid": int(row["oid"]),
            "proname": row["proname"],
            "pronamespace": NAMESPACES["pg_catalog"],
            "proowner": OWNER,
            "prolang": 12,
            "procost": float(row["procost"]),
            "prokind": "f",
            "proisstrict": row["proisstrict"] == "t",
            "provolatile": row["provolatile"],
            "proparallel": row["proparallel"],
            "pronargs": len(arguments),
            "prorettype": int(row["prorettype"]),
            "proargtypes": arguments,
            "prosrc": row["prosrc"],
        }


_RANGE_ELEMENTS = {
    "int4": "int4",
    "num": "numeric",
    "ts": "timestamp",
    "tstz": "timestamptz",
    "date": "date",
    "int8": "int8",
}


def _pg_range_rows() -> Iterator[Row]:
    """Yield the built-in ranges, each with its element type and its multirange."""
    for prefix, element in _RANGE_ELEMENTS.items():
        yield {
            "rngtypid": type_oid(f"{prefix}range"),
            "rngsubtype": type_oid(element),
            "rngmultitypid": type_oid(f"{prefix}multirange"),
            "rngsubdiff": f"{prefix}range_subdiff",
        }


_KEYWORD_KINDS = {
    "C": "unreserved (cannot be function or type name)",
    "R": "reserved",
    "T": "reserved (can be function or type name)",
    "U": "unreserved",
}


@cache
def _keywords() -> tuple[tuple[str, str, bool], ...]:
    """Return each key word of PostgreSQL, its kind, and whether it is a label without AS."""
    text = resources.files(__package__).joinpath("keywords.txt").read_text(encoding="utf-8")
    return tuple((word, kind, is_bare == "true") for word, kind, is_bare in map(str.split, text.splitlines()))


@cache
def quoted_keywords() -> frozenset[str]:
    """Return the key words that PostgreSQL quotes as names: all but the unreserved."""
    return frozenset(word for word, kind, _ in _keywords() if kind != "U")


def _keyword_rows() -> Iterator[Row]:
    for word, kind, is_bare in _keywords():
        yield {
            "word": word,
            "catcode": kind,
            "barelabel": is_bare,
            "catdesc": _KEYWORD_KINDS[kind],
            "baredesc": "can be bare label" if is_bare else "requires AS",
        }


def _pg_collation_rows() -> Iterator[Row]:
    for oid, name, provider in ((100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")):
        locale = None if provider == "d" else name
        yield {
            "oid": oid,
            "collname": name,
            "collnamespace": NAMESPACES["pg_catalog"],
            "collowner": OWNER,
            "collprovider": provider,
            "collisdeterministic": True,
            "collencoding": -1,
            "collcollate": locale,
            "collctype": locale,
        }


DERIVED = {
    "pg_tables": """
        SELECT n.nspname AS schemaname, c.relname AS tablename, r.rolname AS tableowner, false AS hasindexes,
            false AS hasrules, false AS hastriggers, false AS rowsecurity
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relkind = 'r'""",
    "pg_views": """
        SELECT n.nspname AS schemaname, c.relname AS viewname, r.rolname AS viewowner
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relkind = 'v'""",
    "pg_user": """
        SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
            rolreplication AS userepl, rolbypassrls AS usebypassrls, rolpassword AS passwd
        FROM pg_roles WHERE rolcanlogin""",
    "information_schema_information_schema_catalog_name": "SELECT getvariable('database_name') AS catalog_name",
    "information_schema_enabled_roles": "SELECT getvariable('user_name') AS role_name",
    "information_schema_character_sets": """
        SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
            getvariable('database_name') AS default_collate_catalog""",
    "information_schema_schemata": """
        SELECT getvariable('database_name') AS catalog_name, n.nspname AS schema_name, r.rolname AS schema_owner
        FROM pg_namespace AS n JOIN pg_roles AS r ON r.oid = n.nspowner WHERE n.nspname <> 'pg_toast'""",
    "information_schema_tables": """
        SELECT getvariable('database_name') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
            CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
            'NO' AS is_insertable_into, 'NO' AS is_typed
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace""",
    "information_schema_columns": """
        SELECT getvariable('database_name') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
            a.attname AS column_name, a.attnum::INTEGER AS ordinal_position, 'YES' AS is_nullable,
            CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE getvariable('type_name')[t.oid] END AS data_type,
            CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
                WHEN 'float8' THEN 53 END AS numeric_precision,
            CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 WHEN t.typname = 'numeric'
                THEN 10 END AS numeric_precision_radix,
            CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 END AS numeric_scale,
            CASE t.typname WHEN 'date' THEN 0 WHEN 'timestamp' THEN 6 WHEN 'timestamptz' THEN 6
                END AS datetime_precision,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN getvariable('database_name') END AS collation_catalog,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN 'pg_catalog' END AS collation_schema,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN 'C' END AS collation_name,
            getvariable('database_name') AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
            a.attnum::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity,
            'NO' AS identity_cycle, 'NEVER' AS is_generated, 'NO' AS is_updatable
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_type AS t ON t.oid = a.atttypid""",
    "information_schema_table_privileges": """
        SELECT r.rolname AS grantor, getvariable('user_name') AS grantee, getvariable('database_name') AS table_catalog,
            n.nspname AS table_schema, c.relname AS table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable,
            'YES' AS with_hierarchy
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE n.nspname IN ('public', 'sfumato')""",
    "information_schema_role_table_grants": "SELECT * FROM information_schema_table_privileges",
    "information_schema_column_privileges": """
        SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name, p.privilege_type,
            p.is_grantable
        FROM information_schema_table_privileges AS p JOIN information_schema_columns AS c
            ON c.table_schema = p.table_schema AND c.table_name = p.table_name""",
}
"""The query that fills each derived relation, in an order in which what it reads is filled."""


def derived_insert_statements() -> Iterator[str]:
    """Yield the statements that fill the derived relations; columns a query leaves out are NULL."""
    for name, query in DERIVED.items():
        yield f"INSERT INTO {SCHEMA}.{name} BY NAME {query}"
