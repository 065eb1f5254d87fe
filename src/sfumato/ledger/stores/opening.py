"""Open the store that an address names: a path is a file, postgresql://host/db a database."""

from __future__ import annotations

import os
import re

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.ledger.stores.server_addresses import ServerAddress, checked_identifier, is_server_address
from sfumato.ledger.stores.sqlite import SQLiteStore
from sfumato.ledger.stores.store import LOCK_TIMEOUT, Store

_LOOKS_LIKE_DATABASE = re.compile(r"://|\b(host|hostaddr|dbname|service)=")


def open_store(address: str | os.PathLike[str], schema: str | None, timeout: float) -> Store:
    """Open the store of an address. A missing file is created; the schema of a database is created by its owner."""
    if is_server_address(address):
        from sfumato.ledger.stores.postgres import PostgresStore

        return PostgresStore(ServerAddress.parse(str(address), schema), timeout)
    if schema is not None:
        raise InvalidParameter("schema", schema, "left out, because the ledger is a file")
    if isinstance(address, str) and _LOOKS_LIKE_DATABASE.search(address):
        raise InvalidParameter(
            "ledger",
            ValueWords("the address of a database in a form that is not supported"),
            "a path, or an address such as postgresql://host/db",
            fix="write the address as postgresql://host/db",
        )
    return SQLiteStore(address, timeout)


def make_ledger(
    address: str, *, schema: str | None = None, spender: str | None = None, timeout: float = LOCK_TIMEOUT
) -> str:
    """Create the schema of a ledger, as the owner of its database, and allow a role to spend; return its place. An
    existing one is migrated to this version and keeps its lines.
    """
    if not is_server_address(address):
        raise InvalidParameter(
            "address",
            "…",
            "of the form postgresql://host/db",
            fix="write postgresql://host/db; a ledger file needs no setup: it is created on first use",
        )
    from sfumato.ledger.stores import postgres_connections, postgres_schema

    server_address = ServerAddress.parse(address, schema)
    role = None if spender is None else checked_identifier(spender, "spender")
    place = f"PostgreSQL, schema {server_address.schema}"
    with (
        postgres_connections.translate_errors(place),
        postgres_connections.connect_as_owner(server_address, timeout, place) as connection,
    ):
        postgres_schema.create_or_migrate(connection, server_address.schema, role, place)
    return place
