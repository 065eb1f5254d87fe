"""What a public table's data say of its columns. Never used on a private table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.engine.literals import name
from sfumato.engine.scan import Cell, cleaned
from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_INTEGER

MOST_VALUES = 10_000
"""Columns with more distinct values get bounds instead."""

Run = Callable[[str], list[tuple[Any, ...]]]

_STORED = {
    "BOOLEAN": Type.BOOLEAN,
    "DATE": Type.DATE,
    "TIMESTAMP": Type.TIMESTAMP,
    "TIMESTAMP_S": Type.TIMESTAMP,
    "TIMESTAMP_MS": Type.TIMESTAMP,
    "TIMESTAMP_NS": Type.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Type.TIMESTAMP,
    "FLOAT": Type.REAL,
    "DOUBLE": Type.REAL,
    "DECIMAL": Type.REAL,
}
_GUESSES = (Type.INTEGER, Type.REAL, Type.DATE, Type.TIMESTAMP, Type.BOOLEAN)


def stored_kind(cell: Cell) -> Type:
    """The type that the stored one is."""
    whole = cell.family.removeprefix("U").endswith(("INT", "INTEGER")) and not cell.stored.endswith("]")
    return Type.INTEGER if whole else _STORED.get(cell.family, Type.TEXT)


def written_kind(cell: Cell, source: str, run: Run) -> Type:
    """The first type that every cell of a column of texts can be read as."""
    fits = ", ".join(f"count(*) FILTER ({_fits(cell, guess)})" for guess in _GUESSES)
    filled, *found = run(f"SELECT count({cell.sql}), {fits} FROM {source}")[0]
    return next((guess for guess, count in zip(_GUESSES, found, strict=True) if filled and count == filled), Type.TEXT)


def _fits(cell: Cell, guess: Type) -> str:
    """A time of day can be read as its date, but then it is more than that."""
    read = cleaned(cell, Domain(guess))
    return f"{read} = {cleaned(cell, Domain(Type.TIMESTAMP))}" if guess is Type.DATE else f"{read} IS NOT NULL"


def domain(column: str, kind: Type, view: str, run: Run) -> Domain:
    """The values a column has when they are few, else the range it spans; nullable when a cell is missing."""
    listed = f"SELECT DISTINCT {name(column)} FROM {view}"
    missing = run(f"SELECT count(*) > count({name(column)}) FROM {view}")[0][0]
    found = [row[0] for row in run(f"{listed} WHERE {name(column)} IS NOT NULL LIMIT {MOST_VALUES + 1}")]
    try:
        if 1 <= len(found) <= MOST_VALUES:
            return Domain(kind, values=tuple(sorted(found)), nullable=missing)
    except InvalidParameter:
        pass  # a value too large, long or strange to be declared: the range may still be
    if kind in (Type.TEXT, Type.BOOLEAN) or not found:
        return Domain(kind, nullable=missing)
    low, high = run(f"SELECT min({name(column)}), max({name(column)}) FROM {view}")[0]
    if kind is Type.INTEGER:
        low, high = (max(-LARGEST_INTEGER, min(LARGEST_INTEGER, bound)) for bound in (low, high))
    return Domain(kind, bounds=(low, high), nullable=missing)
