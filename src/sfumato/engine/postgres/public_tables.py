"""A database says which one it is and where its tables are; and the rows of its public tables are fetched from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from sfumato.engine.carried_tables import MOST_ROWS, too_large, unread
from sfumato.engine.lowering.reading_statements import as_arrow
from sfumato.engine.postgres import stored_relations
from sfumato.engine.postgres.connection import Server
from sfumato.engine.postgres.stored_cells import PostgresCells
from sfumato.engine.postgres.stored_relations import StoredRelation
from sfumato.engine.seam import Data, Fetched
from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import AS_TYPES
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.policy import Table

Database = tuple[str, str, str]
"""The number of a server, and the name and the number of a database there."""


def fetch(table: Table) -> Fetched:
    """Read the rows of a public table at the server that it names."""
    server = Server(table.source.address, f"tables.{table.name}.source")
    try:
        relation = stored_relations.found(table.source.relation, table.name, server.run, locked=False)
        known = data(database(server.run), relation, table.source.version or "")
        return Fetched(_rows_of(table, relation, server.run), known)
    finally:
        server.close()


def database(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    try:
        return here(run)
    except EngineFailed:
        raise InvalidPolicy(
            "this role may not read which server it is at, so two names of it would be two sources",
            place="tables",
            fix="GRANT EXECUTE ON FUNCTION pg_control_system() to it",
        ) from None


def here(run: Callable[..., list[tuple[Any, ...]]]) -> Database:
    """Identify a database: by the number its server was given when it was made, its name and its own number."""
    ((system, called, number),) = run(
        "SELECT system_identifier::text, d.datname::text, d.oid::text FROM pg_control_system(), pg_database AS d "
        "WHERE d.datname = current_database()",
        (),
    )
    return system, called, number


def data(database: Database, relation: StoredRelation, version: str) -> tuple[Data, ...]:
    """Identify a relation: a view and a partitioned table are known by every table that their rows are in, each table
    by its name and by its number, which it keeps when it is renamed.
    """
    system, called, number = database
    addresses = [f"postgresql://{system}/{called}/{schema}.{own}" for schema, own, _ in relation.made_of]
    addresses += [f"postgresql://{system}/{number}/{own}" for _, _, own in relation.made_of]
    return tuple(Data(each, partial(digest, each, version)) for each in addresses)


def _rows_of(table: Table, relation: StoredRelation, run: Callable[..., list[tuple[Any, ...]]]) -> Any:
    """Read the rows of a public table into an Arrow table."""
    read = [each for each in relation.columns if each.kind in AS_TYPES]
    cells = PostgresCells()
    shown = ", ".join(_within_calendar(cells.plain(each), each.kind) for each in read)
    try:
        found = run(f"SELECT {shown} FROM {relation.sql} LIMIT {MOST_ROWS + 1}")
    except EngineFailed:
        raise unread(table.name) from None
    if len(found) > MOST_ROWS:
        raise too_large(table.name)
    return as_arrow(found, [AS_TYPES[each.kind] for each in read], [each.name for each in read])


def _within_calendar(x: str, kind: Stored) -> str:
    """Make NULL of a date or a time that the calendar does not have."""
    if kind is Stored.DATE:
        return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"
    if kind is Stored.TIMESTAMP:
        return f"CASE WHEN {x} >= TIMESTAMP '0001-01-01' AND {x} < TIMESTAMP '10000-01-01' THEN {x} END"
    return x


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
