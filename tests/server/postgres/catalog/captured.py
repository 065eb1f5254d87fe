"""Statements that clients sent to PostgreSQL, and what PostgreSQL 15 answered over the same empty tables.

``statements.jsonl`` has one statement a line, with the OIDs of tables as ``{schema.table}``. psql, SQLAlchemy, psycopg,
asyncpg, pgjdbc, pgcli and ADBC were recorded by a server that logs every statement; the statements of Metabase, Npgsql
and DBeaver are from their public sources, those of Power BI, Superset and psqlodbc are written after what is known of
them. Each has the names of its columns, and a digest of its rows as PostgreSQL answered them; or ``differs``, one of
``DIFFERENCES``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.policy import Policy, read
from sfumato.server.postgres.catalog import PolicyCatalog
from sfumato.server.postgres.catalog.relations import describe_relations, postgres_types

FOLDER = Path(__file__).parent
DATABASE, USER, OWNER = "clinic", "ana", "sfumato"
DIFFERENCES = {
    "sizes": "sizes are 0 and statistics empty: they would tell of rows",
    "system": "system relations, functions, operators, roles and templates that no client needs are not listed",
    "version": "version and settings are the service's own",
}
"""Why an answer may differ from PostgreSQL's."""


@dataclass(frozen=True)
class Statement:
    client: str
    sql: str
    parameters: tuple[str | None, ...]
    columns: tuple[str, ...] = ()
    digest: str = ""
    differs: str = ""

    def fill(self, oids: Mapping[str, int]) -> tuple[str, tuple[str | None, ...]]:
        """Return text and parameters with the OIDs of one server."""
        return _fill(self.sql, oids), tuple(None if each is None else _fill(each, oids) for each in self.parameters)

    def to_json(self) -> str:
        fields = {name: value for name, value in vars(self).items() if value or name == "parameters"}
        return json.dumps(fields, ensure_ascii=False)


def _fill(text: str, oids: Mapping[str, int]) -> str:
    return re.sub(r"\{([a-z_.:]+)\}", lambda found: str(oids[found[1]]) if found[1] in oids else found[0], text)


@cache
def statements() -> tuple[Statement, ...]:
    lines = (FOLDER / "statements.jsonl").read_text(encoding="utf-8").splitlines()
    parsed = [json.loads(line) for line in lines]
    return tuple(
        Statement(**fields | {name: tuple(fields.get(name, ())) for name in ("parameters", "columns")})
        for fields in parsed
    )


@cache
def policy() -> Policy:
    return read(FOLDER / "clinic.toml")


@cache
def catalog() -> PolicyCatalog:
    return PolicyCatalog(policy(), DATABASE, USER)


def find_oids(run: Callable[[str], Sequence[Sequence[Any]]]) -> dict[str, int]:
    """Return the OIDs of the policy's tables, of their row types and of the arrays of those, on one server."""
    oids = {}
    rows = run(
        "SELECT n.nspname, c.relname, c.oid, t.oid, t.typarray FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_type t ON t.oid = c.reltype "
        "WHERE n.nspname IN ('public', 'sfumato')"
    )
    for schema, name, oid, row_type, array in rows:
        oids |= {f"{schema}.{name}": oid, f"{schema}.{name}:row": row_type, f"{schema}.{name}:array": array}
    oids["sfumato"] = run("SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'sfumato'")[0][0]
    oids["ana"] = run("SELECT oid FROM pg_catalog.pg_roles WHERE rolname = 'ana'")[0][0]
    return {name: int(oid) for name, oid in oids.items()}


def digest(rows: Sequence[Sequence[Any]], oids: Mapping[str, int]) -> str:
    """Return a hash of rows in any order, with the OIDs of tables replaced by their names."""
    names = {oid: name for name, oid in oids.items()}
    cells = sorted(json.dumps([_cell(value, names) for value in row], ensure_ascii=False) for row in rows)
    return hashlib.sha256("\n".join(cells).encode()).hexdigest()[:16]


def _cell(value: Any, names: Mapping[int, str]) -> Any:
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return [_cell(item, names) for item in value]
    if isinstance(value, str) and value.startswith('{"'):
        return json.loads(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return round(value, 6)
    text = value.decode() if isinstance(value, bytes) else str(value)
    return names.get(int(text), text) if text.isdigit() else text


def tables_ddl() -> Iterator[str]:
    """Yield what makes the policy's tables, empty, in PostgreSQL, with the same comments and privileges."""
    yield f"CREATE SCHEMA {OWNER}"
    for relation in describe_relations(policy()):
        name = f'"{relation.schema}"."{relation.name}"'
        columns = ", ".join(f'"{column.name}" {_type(column.type_name)}' for column in relation.columns)
        yield f"CREATE TABLE {name} ({columns})"
        yield f"COMMENT ON TABLE {name} IS {_literal(relation.comment)}"
        for column in relation.columns:
            if column.comment is not None:
                yield f'COMMENT ON COLUMN {name}."{column.name}" IS {_literal(column.comment)}'
    yield f"GRANT USAGE ON SCHEMA {OWNER} TO {USER}"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA public, {OWNER} TO {USER}"


def _type(name: str) -> str:
    element = postgres_types()[name.removeprefix("_")].formatted
    return f"{element}[]" if name.startswith("_") else element


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Oracle:
    """A connection to a real PostgreSQL with the same tables."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.oids = find_oids(lambda sql: self.run(sql, ())[1])

    def run(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return columns and rows of a statement whose parameters are bound as untyped texts."""
        from psycopg.adapt import Transformer

        bound = [None if value is None else value.encode() for value in parameters]
        raw = self._connection.pgconn
        result = raw.exec_params(sql.encode(), bound) if bound else raw.exec_(sql.encode())
        assert result.status == 2, result.error_message.decode()
        reader = Transformer(self._connection)
        reader.set_pgresult(result)
        names = [result.fname(index).decode() for index in range(result.nfields)]
        return names, reader.load_rows(0, result.ntuples, tuple)
