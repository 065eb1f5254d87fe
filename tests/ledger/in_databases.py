"""What the tests of ledgers in PostgreSQL share: an empty one, its administrator, and what a forger would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg

import sfumato as sf
from postgres_server import PostgresServer
from sfumato.ledger.sealed_rows import COLUMNS, Row
from sfumato.ledger.stores.opening import make_ledger

SPENDER = "spender"
_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """An empty ledger on a server."""

    server: PostgresServer
    schema: str

    @classmethod
    def make(cls, server: PostgresServer) -> Place:
        found = cls(server, f"s{next(_numbers)}")
        make_ledger(found.owner, spender=SPENDER)
        return found

    @property
    def address(self) -> str:
        """For whoever spends."""
        return self.server.address(user=SPENDER, schema=self.schema)

    @property
    def owner(self) -> str:
        return self.server.address(schema=self.schema)

    def open(self, **options: Any) -> sf.Ledger:
        return sf.Ledger.open(self.address, **options)

    def drop(self) -> None:
        """Destroy it."""
        self.server.execute(f"DROP SCHEMA {self.schema} CASCADE")

    def edit(self, *statements: str) -> list[tuple[Any, ...]]:
        """Do what an administrator can: triggers are out of the way, and as they were afterwards."""
        with psycopg.connect(self.server.address(), autocommit=True) as raw:
            raw.execute(f"SET search_path = {self.schema}")
            for table in ("lines", "bodies", "book"):
                raw.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            for statement in statements:
                found = raw.execute(statement)
            rows = found.fetchall() if found.description else []
            for table in ("lines", "bodies", "book"):
                raw.execute(f"ALTER TABLE IF EXISTS {table} ENABLE ALWAYS TRIGGER kept")
            return rows

    def rows(self) -> list[Row]:
        names = ", ".join(f'"{column}"' for column in COLUMNS)
        return [Row._make(row) for row in self.edit(f"SELECT {names} FROM lines ORDER BY number")]

    def reseal(self, first: int, change: Callable[[Row], Row], *, until: int | None = None) -> None:
        """What a careful forger does: change a line and recompute the hashes from there on."""
        previous, updates = None, []
        for row in self.rows()[first - 1 : until]:
            new = change(row) if row.number == first else row
            new = new._replace(previous=previous or new.previous)
            new = new._replace(hash=new.compute_seal())
            previous = new.hash
            names = ("question", "cost", "totals", "own", "previous", "hash", "share", "about")
            values = ", ".join(f"{name} = '{getattr(new, name)}'" for name in names)
            updates.append(f"UPDATE lines SET {values} WHERE number = {new.number}")
        self.edit(*reversed(updates))  # from the last: no two lines ever follow one
