"""PostgreSQL's built-in types, with the DuckDB type that holds their values, and rows of a catalog answer."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources

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
