"""Schemas of ledgers on a real server that tests hand on to one another: creating one takes 30 ms of a processor,
emptying one takes one.

The product creates every schema. It has a name of its test while that runs, so that a forked process finds the ledger
that its parent opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import count

import psycopg

from postgres_server import PostgresServer
from sfumato.ledger.stores.opening import make_ledger
from sfumato.mechanisms import bits

_SEALED = ("book", "lines", "bodies")
"""The tables that a trigger protects."""


class LedgerSchemas:
    """The schemas of ledgers on one server, of which some are empty and wait for the next test."""

    def __init__(self, server: PostgresServer, spender: str) -> None:
        self._server, self._spender = server, spender
        self._connection = psycopg.connect(server.address(), autocommit=True)
        self._process = os.getpid()
        self._empty: list[str] = []
        self._numbers = count(1)

    def make(self, name: str) -> None:
        """Make the ledger of this name, in an empty schema if one waits."""
        if os.getpid() != self._process or not self._take_empty(name):
            make_ledger(self._server.address(), schema=name, spender=self._spender)

    def give_back(self, names: Iterable[str]) -> None:
        """Empty these schemas for other tests. One that its test has locked or changed is left alone."""
        for name in names:
            empty = f"empty{next(self._numbers)}"
            statements = [
                "SET LOCAL lock_timeout = '1s'",
                *(f"ALTER TABLE {name}.{table} DISABLE TRIGGER kept" for table in _SEALED),
                *(f"DELETE FROM {name}.{table}" for table in ("lines", "bodies", "under_way")),
                f"UPDATE {name}.book SET id = '{bits.random_bits(128):032x}', key = '{bits.random_bits(256):064x}'",
                *(f"ALTER TABLE {name}.{table} ENABLE ALWAYS TRIGGER kept" for table in _SEALED),
                f"ALTER SCHEMA {name} RENAME TO {empty}",
            ]
            try:
                self._connection.execute("; ".join(statements).encode())  # one transaction
            except psycopg.Error:
                continue
            self._empty.append(empty)

    def close(self) -> None:
        self._connection.close()

    def _take_empty(self, name: str) -> bool:
        """Give an empty schema this name, unless none waits or a forked process has made the ledger already."""
        if not self._empty:
            return False
        try:
            self._connection.execute(f"ALTER SCHEMA {self._empty[-1]} RENAME TO {name}".encode())
        except psycopg.errors.DuplicateSchema:
            return False
        self._empty.pop()
        return True
