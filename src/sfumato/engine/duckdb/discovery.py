"""Discover the columns of a public table from its data where the policy declares none, never those of a private one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sfumato.engine.duckdb.files import Files, hash_content
from sfumato.engine.duckdb.scan import Cell, clean_cell
from sfumato.engine.spellings.duckdb import quote_identifier
from sfumato.errors import InvalidParameter
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.quick_dataclass import dataclass

MAX_DECLARED_VALUES = 10_000
"""Columns with more distinct values get bounds instead of a list."""

_CERTAINLY_TOO_MANY = 2 * MAX_DECLARED_VALUES
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
_SHAPES = {
    " *[+-]?[0-9.]*([eE][+-]?[0-9]+)? *": (Type.INTEGER, Type.REAL),
    " *[0-9]{4}-[0-9]{2}-[0-9 TZ:.+-]*": (Type.DATE, Type.TIMESTAMP),
    " *([Tt][A-Za-z]{3}|[Ff][A-Za-z]{4}|[01]) *": (Type.BOOLEAN,),
}
"""Short patterns that every finite text of these types matches: a column with any other is of none of them, and their
long grammars need not be bound.
"""
_SAMPLE_ROWS = 100
_MAX_REMEMBERED, _MAX_REMEMBERED_BYTES = 32, 1 << 20
_domains_by_content: dict[str, dict[str, Domain]] = {}
_STATISTICS = ("count(*) > count({0})", "approx_count_distinct({0})", "min({0})", "max({0})")


def type_from_stored_type(cell: Cell) -> Type:
    """Return our type for a cell's stored type."""
    is_integer = cell.family.removeprefix("U").endswith(("INT", "INTEGER")) and not cell.stored_type.endswith("]")
    return Type.INTEGER if is_integer else _STORED_TYPES.get(cell.family, Type.TEXT)


def cached_or_inferred_domains(csv_files: Files, infer: Callable[[], dict[str, Domain]]) -> dict[str, Domain]:
    """Return the domains that were inferred for CSV files of the same bytes, or infer them: a server opens its small
    public tables again whenever private data change.
    """
    if sum(size for _, size, *_ in csv_files.stamps) > _MAX_REMEMBERED_BYTES:
        return infer()
    digest = hash_content(csv_files)
    domains = _domains_by_content.get(digest)
    if domains is None:
        domains = infer()
        if csv_files.is_unchanged():  # else other bytes were read than hashed
            if len(_domains_by_content) >= _MAX_REMEMBERED:
                _domains_by_content.clear()
            _domains_by_content[digest] = domains
    return dict(domains)


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


def _domains_of_stacked(sql_type: Type, columns: int, parsed_rows: str, run: Run, *, is_short: bool) -> list[Domain]:
    """Return the domains of columns of one type, whose cells are ``r`` in ``parsed_rows``. In a short table no column
    has too many distinct values, so they are listed in the same statement.
    """
    statistics = ", ".join(statistic.format("r") for statistic in _STATISTICS)
    distinct_values_sql = _DISTINCT_VALUES if is_short else "NULL"
    spreads, values = {}, {}
    for i, distinct_values, *spread in run(
        f"SELECT i, {distinct_values_sql}, {statistics} FROM {parsed_rows} GROUP BY i"
    ):
        spreads[i], values[i] = _ColumnStatistics(*spread), distinct_values
    few = [] if is_short else [str(i) for i, spread in spreads.items() if spread.distinct <= _CERTAINLY_TOO_MANY]
    if few:
        values |= run(f"SELECT i, {_DISTINCT_VALUES} FROM {parsed_rows} WHERE i IN ({', '.join(few)}) GROUP BY i")
    return [
        _discovered_domain(sql_type, spreads.get(i, _EMPTY_COLUMN), values.get(i) or ()) for i in range(1, 1 + columns)
    ]


_DISTINCT_VALUES = "list(DISTINCT r)"


def inferred_types(columns: Mapping[str, Cell], source: str, run: Run) -> dict[str, Type]:
    """Infer the type of each text column: the first that every cell parses as, if it has any cell.

    The shapes of a sample of rows rule out most types; it is then parsed, and all rows after it, as the remaining ones
    only.
    """
    sample = f"(SELECT * FROM {source} LIMIT {_SAMPLE_ROWS})"
    matches = dict(zip(columns, _types_by_shape(columns.values(), sample, run), strict=True))
    matches |= _matching_columns(columns, matches, sample, run)
    if run(f"SELECT count(*) FROM {source}")[0][0] > _SAMPLE_ROWS:
        matches |= _matching_columns(columns, matches, source, run)
    return {
        column: candidates[0] if cell_count and candidates else Type.TEXT
        for column, (cell_count, candidates) in matches.items()
    }


_Match = tuple[int, tuple[Type, ...]]
"""The number of a column's cells, and the types that all of them have."""


def _types_by_shape(columns: Iterable[Cell], source: str, run: Run) -> list[_Match]:
    """Return for each column the types whose shape all of its cells have."""
    text = _STACKED_CELL.text.sql
    counts = ", ".join(
        f"count(*) FILTER (strlen({text}) <= {LONGEST} AND regexp_full_match({text}, '{shape}'))" for shape in _SHAPES
    )
    cells = list(columns)
    rows = run(f"SELECT i, count(v), {counts} FROM {_stack_columns(cells, source)} GROUP BY i")
    counts_by_column = {i: (cell_count, shape_counts) for i, cell_count, *shape_counts in rows}
    return [_possible_types(*counts_by_column.get(i, (0, [0] * len(_SHAPES)))) for i in range(1, 1 + len(cells))]


def _possible_types(cell_count: int, shape_counts: Sequence[int]) -> _Match:
    types = zip(_SHAPES.values(), shape_counts, strict=True)
    possible = {candidate for candidates, count in types if count == cell_count for candidate in candidates}
    return cell_count, tuple(candidate for candidate in _CANDIDATE_TYPES if candidate in possible)


def _matching_columns(
    columns: Mapping[str, Cell], possible: Mapping[str, _Match], source: str, run: Run
) -> dict[str, _Match]:
    """Match each column with its own candidate types; columns with the same ones are read by one statement."""
    matches: dict[str, _Match] = {}
    for likely in dict.fromkeys(candidates for _, candidates in possible.values() if candidates):
        same_candidates = [column for column, (_, candidates) in possible.items() if candidates == likely]
        column_matches = _matching_types(map(columns.__getitem__, same_candidates), likely, source, run)
        matches |= zip(same_candidates, column_matches, strict=True)
    return matches


def _matching_types(columns: Iterable[Cell], candidates: Sequence[Type], source: str, run: Run) -> list[_Match]:
    """Return for each column the number of its cells, and the candidate types that all of them parse as."""
    return [
        (
            cell_count,
            tuple(candidate for candidate, count in zip(candidates, match_counts, strict=True) if count == cell_count),
        )
        for cell_count, *match_counts in count_parsable_cells(list(columns), candidates, source, run)
    ]


def count_parsable_cells(cells: Sequence[Cell], candidates: Sequence[Type], source: str, run: Run) -> list[list[int]]:
    """Count for each column its cells, and those that parse as each candidate type."""
    rows = run(
        f"SELECT i, {_fit_counts_sql(_STACKED_CELL, candidates)} FROM {_stack_columns(cells, source)} GROUP BY i"
    )
    counts_by_column = {i: counts for i, *counts in rows}
    no_cells = [0] * (1 + len(candidates))
    return [counts_by_column.get(i, no_cells) for i in range(1, 1 + len(cells))]


def _stack_columns(columns: Iterable[Cell], source: str) -> str:
    """Return the SQL that stacks text columns: the text is ``v``, and ``i`` is its column's position."""
    cells = ", ".join(cell.sql for cell in columns)
    return f"(SELECT generate_subscripts(x, 1) AS i, unnest(x) AS v FROM (SELECT [{cells}] AS x FROM {source}))"


_STACKED_CELL = Cell("v", "VARCHAR")


def _fit_counts_sql(cell: Cell, candidates: Sequence[Type]) -> str:
    """Return the SQL that counts the cells, and those that parse as each candidate type."""
    return ", ".join(
        [f"count({cell.sql})", *(f"count(*) FILTER ({_parses_condition(cell, candidate)})" for candidate in candidates)]
    )


def _parses_condition(cell: Cell, candidate: Type) -> str:
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
    return {
        column: _discovered_domain(kind, statistics[column], values.get(column) or ()) for column, kind in kinds.items()
    }


def _column_statistics(kinds: Mapping[str, Type], source: str, run: Run) -> dict[str, _ColumnStatistics]:
    expressions = [statistic.format(quote_identifier(column)) for column in kinds for statistic in _STATISTICS]
    figures = run(f"SELECT {', '.join(expressions)} FROM {source}")[0]
    width = len(_STATISTICS)
    return {column: _ColumnStatistics(*figures[width * i : width * (i + 1)]) for i, column in enumerate(kinds)}


def _discovered_domain(sql_type: Type, statistics: _ColumnStatistics, values: Sequence[Any]) -> Domain:
    present = [value for value in values if value is not None]
    try:
        if 1 <= len(present) <= MAX_DECLARED_VALUES:
            return Domain(sql_type, values=tuple(sorted(present)), nullable=statistics.missing)
    except InvalidParameter:
        pass  # a value that cannot be declared, such as one too large: the range may still be valid
    if sql_type in (Type.TEXT, Type.BOOLEAN) or statistics.low is None:
        return Domain(sql_type, nullable=statistics.missing)
    low, high = statistics.low, statistics.high
    if sql_type is Type.INTEGER:
        low, high = (max(-LARGEST_INTEGER, min(LARGEST_INTEGER, bound)) for bound in (low, high))
    return Domain(sql_type, bounds=(low, high), nullable=statistics.missing)
