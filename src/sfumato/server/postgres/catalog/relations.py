"""The relations of the catalog: PostgreSQL's own names, OIDs and columns, and the tables of schema ``sfumato``.

A policy's tables as relations of schema ``public``, with comments that say unit, bounds and limits.

Everything follows from the policy: no source is opened, so the catalog is the same on neighbouring tables.

PostgreSQL's built-in types, with the DuckDB type that holds their values, and rows of a catalog answer.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from sfumato.curator.describing import describe_tables
from sfumato.curator.standings import CURRENCIES
from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog as QuestionCatalog, catalog_table
from sfumato.policy import Policy, Table, Type
from sfumato.quick_dataclass import dataclass

ARRAY_PREFIX = "_"
"""PostgreSQL names the array type of a type with this prefix."""


@dataclass(frozen=True)
class CatalogColumn:
    """A column of a catalog answer: its name and the OID of its type."""

    name: str
    oid: int


@dataclass(frozen=True)
class CatalogRows:
    """The answer to a catalog statement. A cell is None, bool, int, float, str, date, datetime, or a list of them."""

    columns: tuple[CatalogColumn, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class PostgresType:
    """A built-in type: its name, its OID, the OID of its array type, and its row of pg_type as texts."""

    name: str
    oid: int
    array_oid: int
    formatted: str
    """How format_type spells it."""
    row: Mapping[str, str]


_DUCKDB_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DECIMAL(38, 9)",
    "oid": "UINTEGER",
    "xid": "UINTEGER",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
    "anyarray": "VARCHAR[]",
}
"""The DuckDB type of values; all others are VARCHAR. Only an oid is UINTEGER, so that results show which is one."""
_RESULT_TYPES = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "UINTEGER": "oid",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "JSON": "json",
    "VARCHAR": "text",
    '"NULL"': "text",
}
"""The PostgreSQL type of a DuckDB result whose declared type is not known; all other numbers are numeric."""


@cache
def postgres_types() -> Mapping[str, PostgresType]:
    """Return the built-in types by name."""
    text = resources.files(__package__).joinpath("types.csv").read_text(encoding="utf-8")
    return {
        row["typname"]: PostgresType(row["typname"], int(row["oid"]), int(row["typarray"]), row["formatted"], row)
        for row in csv.DictReader(text.splitlines())
    }


def duckdb_type(name: str) -> str:
    """Return the DuckDB type that holds the values of a PostgreSQL type; of an array, with the prefix."""
    if name.startswith(ARRAY_PREFIX):
        return f"{duckdb_type(name[1:])}[]"
    return _DUCKDB_TYPES.get(name, "VARCHAR")


def type_oid(name: str) -> int:
    """Return the OID of a built-in type; of an array, with the prefix."""
    if name.startswith(ARRAY_PREFIX):
        return postgres_types()[name[1:]].array_oid
    return postgres_types()[name].oid


def result_oid(duckdb_name: str) -> int:
    """Return the OID of the PostgreSQL type of a DuckDB result type."""
    if duckdb_name.endswith("[]"):
        return type_oid(ARRAY_PREFIX + _postgres_result_type_name(duckdb_name[:-2]))
    return type_oid(_postgres_result_type_name(duckdb_name))


def _postgres_result_type_name(duckdb_name: str) -> str:
    if duckdb_name.startswith(("DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT")):
        return "numeric"
    return _RESULT_TYPES.get(duckdb_name, "text")


SCHEMA = "catalog"
"""The DuckDB schema of every relation; nothing else is in the database."""
FUNCTION_SCHEMA = "functions"
"""The schema of relations that a function returns; no statement can name it."""
SERVICE_SCHEMA = "sfumato"
"""The schema of the tables about the account itself."""
SERVICE_TABLES: Mapping[str, Mapping[str, str]] = {
    "budget": dict.fromkeys(("period", *CURRENCIES), "text"),
    "columns": dict.fromkeys(("table_name", "column_name", "type", "declared"), "text"),
    "history": {
        "line": "int8",
        "time": "timestamp",
        "kind": "text",
        "question": "text",
        "cost": "text",
        "buyer": "text",
    },
    "receipts": {"line": "int8", "time": "timestamp", "question": "text", "cost": "text", "receipt": "text"},
    "refusals": {"user_name": "text", "rule": "text", "count": "int8"},
}
"""The columns of the tables about the account: the catalog lists them, and the session answers them."""


@dataclass(frozen=True)
class CatalogRelation:
    """A relation of pg_catalog or information_schema, with the PostgreSQL type of each column."""

    schema: str
    name: str
    oid: int
    kind: str
    """``r`` for a table, ``v`` for a view."""
    columns: Mapping[str, str]

    @property
    def stored_table_name(self) -> str:
        """The name of its table in DuckDB."""
        return self.name if self.schema == "pg_catalog" else f"{self.schema}_{self.name}"

    @property
    def ddl(self) -> str:
        """The statement that creates its table in DuckDB."""
        columns = ", ".join(f'"{name}" {duckdb_type(kind)}' for name, kind in self.columns.items())
        return f'CREATE TABLE {SCHEMA}."{self.stored_table_name}" ({columns})'


@cache
def catalog_relations() -> Mapping[tuple[str, str], CatalogRelation]:
    """Return the relations that a statement may read, by schema and name."""
    return {(relation.schema, relation.name): relation for relation in _parse_relations()}


def _parse_relations() -> Iterator[CatalogRelation]:
    """Parse lines ``name oid: column type, …`` below headings ``# schema kind``."""
    text = resources.files(__package__).joinpath("relations.txt").read_text(encoding="utf-8")
    schema = kind = ""
    for line in text.splitlines():
        if line.startswith("#"):
            _, schema, kind = line.split()
            continue
        heading, _, columns = line.partition(": ")
        name, oid = heading.split()
        yield CatalogRelation(
            schema, name, int(oid), kind, dict(_split_column(column) for column in columns.split(", "))
        )


def _split_column(text: str) -> tuple[str, str]:
    name, kind = text.split()
    return name, kind


TYPE_NAMES = {
    Type.INTEGER: "int8",
    Type.REAL: "float8",
    Type.TEXT: "text",
    Type.BOOLEAN: "bool",
    Type.DATE: "date",
    Type.TIMESTAMP: "timestamp",
}
"""The PostgreSQL type in which each type of a policy is shown."""
_SERVICE_COMMENTS = {
    "budget": "what this account allows, has spent and has left; reading it is free",
    "columns": "the columns that queries may use, from the policy; reading it is free",
    "history": "the questions you have bought; reading it is free",
    "receipts": "what protects your last answers, and what each has cost; reading it is free",
    "refusals": "your unsupported statements, counted since the server started; reading it is free",
}


@dataclass(frozen=True)
class DescribedColumn:
    name: str
    type_name: str
    comment: str | None = None


@dataclass(frozen=True)
class DescribedRelation:
    """A table that the catalog lists."""

    schema: str
    name: str
    columns: tuple[DescribedColumn, ...]
    comment: str


def describe_relations(policy: Policy) -> tuple[DescribedRelation, ...]:
    """Return the tables of a policy, then those of schema sfumato."""
    described = QuestionCatalog(
        {name: catalog_table(policy, name, table.columns) for name, table in policy.tables.items()},
        _refuse_counting_matches,
    )
    words = describe_tables(policy, described).tables
    return (
        *(
            DescribedRelation(
                "public", name, tuple(_described_columns(policy, table, words[name].columns)), words[name].about
            )
            for name, table in policy.tables.items()
        ),
        *(
            DescribedRelation(
                SERVICE_SCHEMA,
                name,
                tuple(DescribedColumn(*column) for column in columns.items()),
                _SERVICE_COMMENTS[name],
            )
            for name, columns in SERVICE_TABLES.items()
        ),
    )


def _described_columns(policy: Policy, table: Table, comments: Mapping[str, str]) -> Iterator[DescribedColumn]:
    """Yield a table's columns: its id first, where only COUNT(DISTINCT …) may read it."""
    if isinstance(table.id, str) and not table.every_row and table.id not in table.columns:
        id_type = TYPE_NAMES[Type.of(policy.id_type)] if policy.id_type is not None else "text"
        yield DescribedColumn(table.id, id_type, comments.get(table.id))
    for name, domain in table.columns.items():
        yield DescribedColumn(name, TYPE_NAMES[domain.type], comments.get(name))
    for name, list_column in table.lists.items():
        yield DescribedColumn(name, ARRAY_PREFIX + TYPE_NAMES[list_column.items.type], comments.get(name))


def _refuse_counting_matches(table: str, columns: tuple[str, ...]) -> int:
    """Refuse to count rows of a public table: a catalog has none."""
    raise Unsupported(
        "catalog-rows",
        f"the rows of {table} by {', '.join(columns)} cannot be counted here: the catalog describes tables "
        "without their rows",
        fix="ask a question about the table instead, such as SELECT COUNT(*) FROM …",
    )
