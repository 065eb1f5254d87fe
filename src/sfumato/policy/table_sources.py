"""A source says where the rows of a table are: in a file, in a database, or in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy


@dataclass(frozen=True)
class File:
    """A file holds a table of its own: CSV or Parquet, or a pattern that several such files match."""

    path: Path

    def __repr__(self) -> str:
        return f"<File {self.path}>"


@dataclass(frozen=True)
class DatabaseTable:
    """A database table is a table or view inside a database file."""

    path: Path
    relation: str

    def __repr__(self) -> str:
        return f"<DatabaseTable {self.relation} in {self.path}>"


@dataclass(frozen=True)
class InMemory:
    """An in-memory table is held by this process: Arrow, pandas or polars."""

    table: Any

    def __repr__(self) -> str:
        return "<InMemory: a table that this process holds>"  # never its rows


Source = File | DatabaseTable | InMemory
"""Where a table's rows are."""


def source_of(given: Any, relation: str | None) -> Source:
    """Read a source as it may be written."""
    if isinstance(given, Source):
        return given
    if not isinstance(given, (str, Path)):
        return InMemory(given)
    return File(Path(given)) if relation is None else DatabaseTable(Path(given), relation)


def check_ledger(ledger: object) -> None:
    """Refuse to keep the ledger of a policy anywhere but in a database, or in the file beside the policy's own."""
    if ledger is not None and not (isinstance(ledger, str) and ledger.startswith(("postgresql://", "postgres://"))):
        raise InvalidPolicy(
            "a policy names the ledger only where it is kept in a database",
            place="ledger",
            fix='write ledger = "postgresql://host/db" without a password, or leave it out',
        )
