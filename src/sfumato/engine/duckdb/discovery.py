"""The columns of a public table are found in its data where the policy declares none; a private table's never are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb.scan import Cell, cleaned
from sfumato.engine.spellings.duckdb import name
from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_INTEGER

MOST_VALUES = 10_000
"""Columns with more distinct values get bounds instead."""

_SURELY_MORE = 2 * MOST_VALUES
"""Distinct values are counted with an error of some 10 %: twice as many are too many for sure."""

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


def written_domains(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Domain]:
    """Find the type and the domain of each column of texts.

    How a text is read is a long expression, and to bind it costs far more than to read a few rows. Columns that are
    read in the same way are therefore stacked into one: every expression is written once for each type, and not once
    for each column.
    """
    kinds = written_kinds(columns, source, run)
    short = run(f"SELECT count(*) FROM {source}")[0][0] <= _SURELY_MORE
    found: dict[str, Domain] = {}
    for kind in dict.fromkeys(kinds.values()):
        own = [each for each in columns if kinds[each] is kind]
        read = (
            f"(SELECT i, {cleaned(_STACKED, Domain(kind))} AS r FROM {_stacked(map(columns.__getitem__, own), source)})"
        )
        found |= zip(own, _stacked_domains(kind, len(own), read, run, short=short), strict=True)
    return {each: found[each] for each in columns}


def _stacked_domains(kind: Type, columns: int, read: str, run: Run, *, short: bool) -> list[Domain]:
    """Find the domains of columns of one type, whose cells are ``r`` in the rows of ``read``; in a short table no
    column has too many values to be listed at once.
    """
    measured = ", ".join(measure.format("r") for measure in _MEASURES)
    at_once = _LISTED if short else "NULL"
    spreads, values = {}, {}
    for i, listed, *spread in run(f"SELECT i, {at_once}, {measured} FROM {read} GROUP BY i"):
        spreads[i], values[i] = _Spread(*spread), listed
    few = [] if short else [str(i) for i, spread in spreads.items() if spread.distinct <= _SURELY_MORE]
    if few:
        values |= run(f"SELECT i, {_LISTED} FROM {read} WHERE i IN ({', '.join(few)}) GROUP BY i")
    return [_domain(kind, spreads.get(i, _EMPTY), values.get(i) or ()) for i in range(1, 1 + columns)]


_LISTED = "list(DISTINCT r)"


def written_kinds(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Type]:
    """Find for each column of texts the first type that every cell can be read as, if it has any cell.

    A few rows rule out most types, so that all rows are tried with the others alone.
    """
    sample = f"(SELECT * FROM {source} LIMIT {_SAMPLE})"
    found = dict(zip(columns, _fitting(columns.values(), _GUESSES, sample, run), strict=True))
    if run(f"SELECT count(*) FROM {source}")[0][0] > _SAMPLE:
        for likely in {guesses for _, guesses in found.values() if guesses}:
            own = [each for each, (_, guesses) in found.items() if guesses == likely]
            found |= zip(own, _fitting(map(columns.__getitem__, own), likely, source, run), strict=True)
    return {each: guesses[0] if filled and guesses else Type.TEXT for each, (filled, guesses) in found.items()}


def _fitting(
    columns: Iterable[Cell], guesses: Sequence[Type], source: str, run: Run
) -> list[tuple[int, tuple[Type, ...]]]:
    """Count the cells of each column, and find the types among the guesses that all of them can be read as."""
    cells = list(columns)
    counted = run(f"SELECT i, {_counts(_STACKED, guesses)} FROM {_stacked(cells, source)} GROUP BY i")
    found = {i: counts for i, *counts in counted}
    none = [0] * (1 + len(guesses))
    return [
        (filled, tuple(guess for guess, count in zip(guesses, fits, strict=True) if count == filled))
        for filled, *fits in (found.get(i, none) for i in range(1, 1 + len(cells)))
    ]


def _stacked(columns: Iterable[Cell], source: str) -> str:
    """Write the rows of columns of texts below each other: the text is ``v``, and ``i`` its column's place."""
    cells = ", ".join(cell.sql for cell in columns)
    return f"(SELECT generate_subscripts(x, 1) AS i, unnest(x) AS v FROM (SELECT [{cells}] AS x FROM {source}))"


_STACKED = Cell("v", "VARCHAR")


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


_EMPTY = _Spread(missing=False, distinct=0, low=None, high=None)


def domains(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, Domain]:
    """The values each column has when they are few, else the range it spans; nullable when a cell is missing.

    Two statements over all columns, whatever their number.
    """
    spreads = _spreads(kinds, source, run)
    few = [each for each, spread in spreads.items() if spread.distinct <= _SURELY_MORE]
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
