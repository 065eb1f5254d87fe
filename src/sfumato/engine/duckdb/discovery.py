"""The columns of a public table are found in its data where the policy declares none; a private table's never are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb.scan import Cell, cleaned
from sfumato.engine.spellings.duckdb_literals import name
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
_SAMPLE = 100
_MEASURES = ("count(*) > count({0})", "approx_count_distinct({0})", "min({0})", "max({0})")


def stored_kind(cell: Cell) -> Type:
    """Find the type that the stored one is."""
    whole = cell.family.removeprefix("U").endswith(("INT", "INTEGER")) and not cell.stored.endswith("]")
    return Type.INTEGER if whole else _STORED.get(cell.family, Type.TEXT)


def written_kinds(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Type]:
    """Find for each column of texts the first type that every cell can be read as, if it has any cell.

    A few rows rule out most types, so that all rows are tried with the others alone.
    """
    likely = _likely(columns, source, run)
    counts = [_counts(cell, guesses) for cell, guesses in zip(columns.values(), likely, strict=True)]
    found = iter(run(f"SELECT {', '.join(counts)} FROM {source}")[0])
    kinds = {}
    for each, guesses in zip(columns, likely, strict=True):
        filled = next(found)
        fitting = [guess for guess in guesses if next(found) == filled and filled]
        kinds[each] = fitting[0] if fitting else Type.TEXT
    return kinds


def _likely(columns: Mapping[str, Cell], source: str, run: Run) -> list[tuple[Type, ...]]:
    """Find the types that the cells of a few rows can be read as, column by column."""
    cells = ", ".join(cell.sql for cell in columns.values())
    few = f"SELECT [{cells}] AS x FROM {source} LIMIT {_SAMPLE}"
    rows = f"SELECT generate_subscripts(x, 1) AS i, unnest(x) AS v FROM ({few})"
    counted = run(f"SELECT i, {_counts(Cell('v', 'VARCHAR'), _GUESSES)} FROM ({rows}) GROUP BY i")
    found = {i: counts for i, *counts in counted}
    none = [0] * (1 + len(_GUESSES))
    return [
        tuple(guess for guess, count in zip(_GUESSES, fits, strict=True) if count == filled)
        for filled, *fits in (found.get(i, none) for i in range(1, 1 + len(columns)))
    ]


def _counts(cell: Cell, guesses: Sequence[Type]) -> str:
    """Write the SQL that counts how many cells there are, and how many of them can be read as each type."""
    return ", ".join([f"count({cell.sql})", *(f"count(*) FILTER ({_fits(cell, guess)})" for guess in guesses)])


def _fits(cell: Cell, guess: Type) -> str:
    """A time of day can be read as its date, but then it is more than that."""
    read = cleaned(cell, Domain(guess))
    return f"{read} = {cleaned(cell, Domain(Type.TIMESTAMP))}" if guess is Type.DATE else f"{read} IS NOT NULL"


@dataclass(frozen=True)
class _Spread:
    """A spread says how the cells of one column lie."""

    missing: bool
    distinct: int
    """How many values there are, about."""
    low: Any
    high: Any


def domains(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, Domain]:
    """The values each column has when they are few, else the range it spans; nullable when a cell is missing.

    Two statements over all columns, whatever their number.
    """
    spreads = _spreads(kinds, source, run)
    # The count is some 10 % off: twice as many are too many for sure.
    few = [each for each, spread in spreads.items() if spread.distinct <= 2 * MOST_VALUES]
    listed = ", ".join(f"list(DISTINCT {name(each)})" for each in few)
    values = dict(zip(few, run(f"SELECT {listed} FROM {source}")[0], strict=True)) if few else {}
    return {each: _domain(kind, spreads[each], values.get(each) or ()) for each, kind in kinds.items()}


def _spreads(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, _Spread]:
    measured = [measure.format(name(each)) for each in kinds for measure in _MEASURES]
    found = run(f"SELECT {', '.join(measured)} FROM {source}")[0]
    width = len(_MEASURES)
    return {each: _Spread(*found[width * i : width * (i + 1)]) for i, each in enumerate(kinds)}


def _domain(kind: Type, spread: _Spread, values: Sequence[Any]) -> Domain:
    present = [value for value in values if value is not None]
    try:
        if 1 <= len(present) <= MOST_VALUES:
            return Domain(kind, values=tuple(sorted(present)), nullable=spread.missing)
    except InvalidParameter:
        pass  # a value too large, long or strange to be declared: the range may still be
    if kind in (Type.TEXT, Type.BOOLEAN) or spread.low is None:
        return Domain(kind, nullable=spread.missing)
    low, high = spread.low, spread.high
    if kind is Type.INTEGER:
        low, high = (max(-LARGEST_INTEGER, min(LARGEST_INTEGER, bound)) for bound in (low, high))
    return Domain(kind, bounds=(low, high), nullable=spread.missing)
