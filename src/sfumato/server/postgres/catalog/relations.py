"""The relations of the catalog: PostgreSQL's own names, OIDs and columns, and the tables of schema ``sfumato``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from sfumato.curator.standings import CURRENCIES
from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.catalog.types import duckdb_type

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
