"""Discover the columns of a public table from its data where the policy declares none, never those of a private one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb.scan import Cell, clean_cell
from sfumato.engine.spellings.duckdb import quote_identifier
from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_INTEGER

MAX_LISTED_VALUES = 10_000
"""Columns with more distinct values get bounds instead of a list."""

_CERTAINLY_TOO_MANY = 2 * MAX_LISTED_VALUES
"""Distinct values are counted with an error of about 10 %: twice the limit is certainly too many."""

Run = Callable[[str], list[tuple[Any, ...]]]

_STORED_TYPES = {
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
_CANDIDATE_TYPES = (Type.INTEGER, Type.REAL, Type.DATE, Type.TIMESTAMP, Type.BOOLEAN)
_SAMPLE_ROWS = 100
_STATISTICS = ("count(*) > count({0})", "approx_count_distinct({0})", "min({0})", "max({0})")


def type_of_cell(cell: Cell) -> Type:
    """Return our type for a cell's stored type."""
    is_integer = cell.family.removeprefix("U").endswith(("INT", "INTEGER")) and not cell.stored_type.endswith("]")
    return Type.INTEGER if is_integer else _STORED_TYPES.get(cell.family, Type.TEXT)


def inferred_domains(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Domain]:
    """Infer the type and the domain of each text column.

    The expression that parses a text is long, and binding it costs far more than reading a few rows. Columns that are
    parsed alike are therefore stacked into one: every expression is written once per type, not once per column.
    """
    kinds = inferred_types(columns, source, run)
    is_short = run(f"SELECT count(*) FROM {source}")[0][0] <= _CERTAINLY_TOO_MANY
    domains: dict[str, Domain] = {}
    for kind in dict.fromkeys(kinds.values()):
        same_kind = [column for column in columns if kinds[column] is kind]
        parsed_rows = (
            f"(SELECT i, {clean_cell(_STACKED_CELL, Domain(kind))} AS r FROM"
            f" {_stack_columns(map(columns.__getitem__, same_kind), source)})"
        )
        domains |= zip(
            same_kind, _domains_of_stacked(kind, len(same_kind), parsed_rows, run, is_short=is_short), strict=True
        )
    return {column: domains[column] for column in columns}


def _domains_of_stacked(kind: Type, columns: int, parsed_rows: str, run: Run, *, is_short: bool) -> list[Domain]:
    """Return the domains of columns of one type, whose cells are ``r`` in ``parsed_rows``. In a short table no column
    has too many distinct values, so they are listed in the same statement.
    """
    statistics = ", ".join(statistic.format("r") for statistic in _STATISTICS)
    listed = _DISTINCT_VALUES if is_short else "NULL"
    spreads, values = {}, {}
    for i, distinct_values, *spread in run(f"SELECT i, {listed}, {statistics} FROM {parsed_rows} GROUP BY i"):
        spreads[i], values[i] = _ColumnStatistics(*spread), distinct_values
    few = [] if is_short else [str(i) for i, spread in spreads.items() if spread.distinct <= _CERTAINLY_TOO_MANY]
    if few:
        values |= run(f"SELECT i, {_DISTINCT_VALUES} FROM {parsed_rows} WHERE i IN ({', '.join(few)}) GROUP BY i")
    return [_domain(kind, spreads.get(i, _EMPTY_COLUMN), values.get(i) or ()) for i in range(1, 1 + columns)]


_DISTINCT_VALUES = "list(DISTINCT r)"


def inferred_types(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Type]:
    """Infer the type of each text column: the first that every cell parses as, if it has any cell.

    A sample of rows rules out most types; all rows are then tried with the remaining ones only.
    """
    sample = f"(SELECT * FROM {source} LIMIT {_SAMPLE_ROWS})"
    matches = dict(zip(columns, _matching_types(columns.values(), _CANDIDATE_TYPES, sample, run), strict=True))
    if run(f"SELECT count(*) FROM {source}")[0][0] > _SAMPLE_ROWS:
        for likely in {candidates for _, candidates in matches.values() if candidates}:
            same_candidates = [column for column, (_, candidates) in matches.items() if candidates == likely]
            matches |= zip(
                same_candidates,
                _matching_types(map(columns.__getitem__, same_candidates), likely, source, run),
                strict=True,
            )
    return {
        column: candidates[0] if cell_count and candidates else Type.TEXT
        for column, (cell_count, candidates) in matches.items()
    }


def _matching_types(
    columns: Iterable[Cell], candidates: Sequence[Type], source: str, run: Run
) -> list[tuple[int, tuple[Type, ...]]]:
    """Return for each column the number of its cells, and the candidate types that all of them parse as."""
    return [
        (
            cell_count,
            tuple(candidate for candidate, count in zip(candidates, match_counts, strict=True) if count == cell_count),
        )
        for cell_count, *match_counts in count_fits(list(columns), candidates, source, run)
    ]


def count_fits(cells: Sequence[Cell], candidates: Sequence[Type], source: str, run: Run) -> list[list[int]]:
    """Count for each column its cells, and those that parse as each candidate type."""
    rows = run(f"SELECT i, {_counts(_STACKED_CELL, candidates)} FROM {_stack_columns(cells, source)} GROUP BY i")
    counts_by_column = {i: counts for i, *counts in rows}
    no_cells = [0] * (1 + len(candidates))
    return [counts_by_column.get(i, no_cells) for i in range(1, 1 + len(cells))]


def _stack_columns(columns: Iterable[Cell], source: str) -> str:
    """Return the SQL that stacks text columns: the text is ``v``, and ``i`` is its column's position."""
    cells = ", ".join(cell.sql for cell in columns)
    return f"(SELECT generate_subscripts(x, 1) AS i, unnest(x) AS v FROM (SELECT [{cells}] AS x FROM {source}))"


_STACKED_CELL = Cell("v", "VARCHAR")


def _counts(cell: Cell, candidates: Sequence[Type]) -> str:
    """Return the SQL that counts the cells, and those that parse as each candidate type."""
    return ", ".join(
        [f"count({cell.sql})", *(f"count(*) FILTER ({_fits(cell, candidate)})" for candidate in candidates)]
    )


def _fits(cell: Cell, candidate: Type) -> str:
    """Return the SQL condition that a cell parses as a type. A timestamp parses as a date, but is not one unless its
    time is midnight.
    """
    parsed = clean_cell(cell, Domain(candidate))
    return (
        f"{parsed} = {clean_cell(cell, Domain(Type.TIMESTAMP))}" if candidate is Type.DATE else f"{parsed} IS NOT NULL"
    )


@dataclass(frozen=True)
class _ColumnStatistics:
    """Statistics of the cells of one column."""

    missing: bool
    distinct: int
    """The approximate number of distinct values."""
    low: Any
    high: Any


_EMPTY_COLUMN = _ColumnStatistics(missing=False, distinct=0, low=None, high=None)


def discovered_domains(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, Domain]:
    """Return the domain of each column: its values when they are few, else its range; nullable when a cell is missing.

    Runs two statements over all columns, whatever their number.
    """
    statistics = _column_statistics(kinds, source, run)
    listable = [column for column, spread in statistics.items() if spread.distinct <= _CERTAINLY_TOO_MANY]
    distinct_values = ", ".join(f"list(DISTINCT {quote_identifier(column)})" for column in listable)
    values = dict(zip(listable, run(f"SELECT {distinct_values} FROM {source}")[0], strict=True)) if listable else {}
    return {column: _domain(kind, statistics[column], values.get(column) or ()) for column, kind in kinds.items()}


def _column_statistics(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, _ColumnStatistics]:
    expressions = [statistic.format(quote_identifier(column)) for column in kinds for statistic in _STATISTICS]
    figures = run(f"SELECT {', '.join(expressions)} FROM {source}")[0]
    width = len(_STATISTICS)
    return {column: _ColumnStatistics(*figures[width * i : width * (i + 1)]) for i, column in enumerate(kinds)}


def _domain(kind: Type, statistics: _ColumnStatistics, values: Sequence[Any]) -> Domain:
    present = [value for value in values if value is not None]
    try:
        if 1 <= len(present) <= MAX_LISTED_VALUES:
            return Domain(kind, values=tuple(sorted(present)), nullable=statistics.missing)
    except InvalidParameter:
        pass  # a value that cannot be declared, such as one too large: the range may still be valid
    if kind in (Type.TEXT, Type.BOOLEAN) or statistics.low is None:
        return Domain(kind, nullable=statistics.missing)
    low, high = statistics.low, statistics.high
    if kind is Type.INTEGER:
        low, high = (max(-LARGEST_INTEGER, min(LARGEST_INTEGER, bound)) for bound in (low, high))
    return Domain(kind, bounds=(low, high), nullable=statistics.missing)
