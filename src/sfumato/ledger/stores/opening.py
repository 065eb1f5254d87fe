"""An address names a store: a path is that of a file, postgresql://host/db that of a database."""

from __future__ import annotations

import os
import re

from sfumato.errors import InvalidParameter
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address, role_or_schema
from sfumato.ledger.stores.sqlite import SQLiteStore
from sfumato.ledger.stores.store import Store

_MEANT = re.compile(r"://|\b(host|hostaddr|dbname|service)=")


def open_store(address: str | os.PathLike[str], schema: str | None, timeout: float) -> Store:
    """Open what keeps the lines. A file is made when it is missing; a database's schema is made by its owner."""
    if is_server_address(address):
        from sfumato.ledger.stores.postgres import PostgresStore

        return PostgresStore(ServerAddress.of(str(address), schema), timeout)
    if schema is not None:
        raise InvalidParameter("schema", schema, "left out: a file has none")
    if isinstance(address, str) and _MEANT.search(address):
        raise InvalidParameter(
            "ledger", "one that looks like the address of a database", "a path, or an address: postgresql://host/db"
        )
    return SQLiteStore(address, timeout)


def make_ledger(address: str, *, schema: str | None = None, spender: str | None = None, timeout: float = 30) -> str:
    """Make the schema of a ledger, as the owner of its database, and let a role spend; where it is. One that is there
    is brought up to this version, and keeps its lines.
    """
    if not is_server_address(address):
        raise InvalidParameter("address", "…", "the address of a database, postgresql://host/db: a file makes itself")
    from sfumato.ledger.stores import postgres_schema, postgres_sessions

    found = ServerAddress.of(address, schema)
    role = None if spender is None else role_or_schema(spender, "spender")
    place = f"PostgreSQL, schema {found.schema}"
    with postgres_sessions.explained(place), postgres_sessions.connect(found, timeout, place) as connection:
        postgres_schema.make(connection, found.schema, role, place)
    return place
