"""Exact figures for the owner: what bounds and limits cost, trials of declarations, two tables side by side. PRIVATE.

These figures are functions of private data without noise. They are computed when the owner asks, returned, and stored
nowhere; nothing an analyst can reach may call this.

Sampled texts of a private column are read under several declarations, to compare them: by the same scan as a policy's
columns, so a declaration that is proposed means what it will mean in the policy.

Of two tables, the columns that both have are read exactly, each in one type for both. Cells are converted by the rules
of every scan (``scan``), so a number stored as text in one table equals the same number in the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.engine.duckdb import memory
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.discovery import inferred_types, type_from_stored_type
from sfumato.engine.duckdb.file_inspection import schema
from sfumato.engine.duckdb.files import RELATIVE_TO_POLICY, find_files, first_misquoted_line
from sfumato.engine.duckdb.scan import UNIT, Cell, TableScan, clean_cell, convert_cell
from sfumato.engine.protocols import Inspection
from sfumato.engine.sources.clean_cells import fold_name
from sfumato.engine.sources.clean_scans import InspectedCell
from sfumato.engine.sources.inspected_tables import (
    MAX_LOST_TEXTS,
    OUTCOMES,
    inspection_from_counts,
    lost_text_condition_sql,
    total_and_excess_sums_sql,
)
from sfumato.engine.spellings.duckdb import DuckDBSpelling, quote_identifier, quote_identifier as quoted
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Domain, File, InMemory, Policy, Table, Type
from sfumato.policy.domains import is_name
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow


class DuckDBInspector:
    """A policy's sources, opened for their owner to inspect."""

    def __init__(self, policy: Policy) -> None:
        self._sources = Sources(policy)

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._sources.columns(table)

    def fingerprint(self, table: str) -> str:
        return self._sources.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:  # noqa: ARG002 - nothing to say of files
        return ()

    def inspect(self, table: str) -> Inspection:
        return inspect_table(self._sources, table)

    def lost_texts(self, table: str, column: str, extra_texts: Collection[str]) -> Mapping[str, int]:
        return lost_texts(self._sources, table, column, extra_texts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()


def first_misquoted_line_by_file(policy: Policy) -> Iterator[tuple[str, int]]:
    """Yield each CSV file of a policy with a line that is not one record, and the number of its first such line."""
    for table in policy.tables.values():
        with suppress(InvalidPolicy):
            if not isinstance(table.source, File):
                continue
            table_files = find_files(table.source.path, f"tables.{table.name}.source")
            for path in table_files.paths if table_files.kind == "csv" else ():
                if (line := first_misquoted_line(path)) is not None:
                    yield path, line


def count_cells_outside(
    policy: Policy, table: str, column: str, literals: Sequence[str]
) -> tuple[int, list[int], list[int]]:
    """Return how many clean cells a column has, and how many are below and above each literal of its type."""
    sources = Sources(policy)
    try:
        counts = ", ".join(f"count(*) FILTER (c {sign} {literal})" for sign in "<>" for literal in literals)
        cells = f"SELECT {quoted(column)} AS c FROM {sources.scan(table)}"
        count, *beyond = sources.run(f"SELECT count(c), {counts} FROM ({cells})")[0]
        return count, beyond[: len(literals)], beyond[len(literals) :]
    finally:
        sources.close()


def inspect_table(sources: Sources, table: str) -> Inspection:
    """Compare one private table with its clean scan in one statement, which reads the source once.

    What happened to a cell is encoded as one byte, beside the row's unit and the values that rows are grouped by. Where
    rows belong to units through another table, the scan is read as well: a row may have several owners.
    """
    scan, table_policy = sources.table_scan(table), sources.policy.tables[table]
    keys = [name for name, (_, domain, _) in scan.columns.items() if domain.values is not None]
    figures = sources.run(_inspection_statement(sources, table, keys, table_policy.max_rows or 1))[0]
    return inspection_from_counts(figures, list(scan.columns), keys, has_unit_ids=scan.owner is not None)


def lost_texts(sources: Sources, table: str, column: str, extra_texts: Collection[str]) -> Mapping[str, int]:
    """Count the most frequent texts of a column that are read as NULL, or are among ``extra_texts``."""
    scan = sources.table_scan(table)
    cell, domain, choices = scan.columns[column]
    if cell.stored_text is None:
        return {}
    short_text = f"CASE WHEN strlen({cell.stored_text}) <= {LONGEST} THEN {cell.stored_text} END"
    clean = clean_cell(cell, domain, choices)
    columns = f"{scan.is_owned_condition} AS k, {clean} AS v, {short_text} AS t, {cell.is_present} AS m"
    condition = lost_text_condition_sql(DuckDBSpelling(), InspectedCell("v", "v", "m", None, text="t"), extra_texts)
    statement = f"SELECT t, count(*) FROM (SELECT {columns} FROM {scan.source}) WHERE k AND {condition}"
    return dict(sources.run(f"{statement} GROUP BY t ORDER BY 2 DESC, 1 LIMIT {MAX_LOST_TEXTS}"))


def _inspection_statement(sources: Sources, table: str, keys: Sequence[str], limit: int) -> str:
    """Return the SELECT of one row: how many rows there are and how many have an owner, what happened to the cells of
    each column, and what limits on rows, and on groups by each key, leave out.
    """
    scan = sources.table_scan(table)
    owner, positions = scan.owner, {name: index for index, name in enumerate(scan.columns)}
    outcomes = [
        f"{_cell_outcome_sql(index, cell, domain)} AS c{index}"
        for index, (cell, domain, _) in enumerate(scan.columns.values())
    ]
    counts = [f"count(*) FILTER (k AND c{index} = {outcome})" for index in range(len(outcomes)) for outcome in OUTCOMES]
    totals = ", ".join(["count(*)", "count(*) FILTER (k)", *counts])
    unit_columns: list[str] = []
    if owner is not None and owner.links is None:
        unit_columns = [UNIT, *(f"v{positions[name]} AS g{index}" for index, name in enumerate(keys))]
    cells = f"SELECT {', '.join(['k', *outcomes, *unit_columns])} FROM ({_source_cells_statement(scan)})"
    if owner is None:
        return f"SELECT {totals} FROM ({cells})"
    owned_rows = (
        "sf_cells WHERE k" if unit_columns else f"(SELECT {UNIT}{_group_columns(keys)} FROM {sources.scan(table)})"
    )
    distinct = "".join(f", count(DISTINCT g{index}) AS g{index}" for index in range(len(keys)))
    units = f"SELECT count(*) AS n{distinct} FROM {owned_rows} GROUP BY {UNIT}"
    over_limit = f"count(*) FILTER (n > {limit}), coalesce(sum(greatest(n - {limit}, 0)), 0)"
    losses = [
        loss
        for column in ("n", *(f"g{index}" for index in range(len(keys))))
        for loss in total_and_excess_sums_sql(column)
    ]
    limits = f"SELECT {', '.join(['coalesce(sum(n), 0)', 'count(*)', over_limit, *losses])} FROM ({units})"
    return f"WITH sf_cells AS MATERIALIZED ({cells}) SELECT * FROM (SELECT {totals} FROM sf_cells), ({limits})"


def _source_cells_statement(scan: TableScan) -> str:
    """Return the SELECT of each cell's clean value, its typed value and whether it is missing, each computed once,
    beside whether the row has an owner, and its unit.
    """
    expressions = [f"{scan.is_owned_condition} AS k"]
    if scan.owner is not None and scan.owner.links is None:
        expressions.append(f"{scan.owner.unit} AS {UNIT}")
    for index, (cell, domain, choices) in enumerate(scan.columns.values()):
        clean, raw = clean_cell(cell, domain, choices), convert_cell(cell, domain.type)
        expressions += [f"{clean} AS v{index}", f"{raw} AS r{index}", f"NOT ({cell.is_present}) AS m{index}"]
        expressions += [f"{cell.is_null} AS n{index}"] if cell.is_null else []
    return f"SELECT {', '.join(expressions)} FROM {scan.source}"


def _group_columns(keys: Sequence[str]) -> str:
    return "".join(f", {quoted(key)} AS g{index}" for index, key in enumerate(keys))


def _cell_outcome_sql(index: int, cell: Cell, domain: Domain) -> str:
    """Return the SQL of a cell's outcome: 1 missing, 2 set to NULL, 3 and 4 moved to the lower and the upper bound, 5
    otherwise changed, 6 missing by its rules, 0 unchanged.
    """
    by_rules = f"WHEN n{index} THEN 6 " if cell.is_null else ""
    clean, raw = f"v{index}", f"r{index}"
    clamped_branches = (
        f"WHEN {raw} < {clean} THEN 3 WHEN {raw} > {clean} THEN 4 " if domain.bounds and not domain.values else ""
    )
    changed_branches = f"{clamped_branches}WHEN {clean} IS DISTINCT FROM {raw} THEN 5"
    null_branches = f"{by_rules}WHEN m{index} THEN 1 WHEN {clean} IS NULL THEN 2"
    return f"CAST(CASE {null_branches} {changed_branches} ELSE 0 END AS UTINYINT)"


_COUNT, _POSITION = "n", "i"


Declaration = Mapping[str, Any]


class TriedDeclarations:
    """The counted texts of columns, each read under several declarations. PRIVATE."""

    def __init__(self, columns: Mapping[str, tuple[Mapping[str, int], Sequence[Declaration]]]) -> None:
        self._names = {column: f"t{index}" for index, column in enumerate(columns)}
        self._declared = {column: len(declarations) for column, (_, declarations) in columns.items()}
        tables = {
            self._names[column]: _texts_table(self._names[column], texts, declarations)
            for column, (texts, declarations) in columns.items()
        }
        self._sources = Sources(Policy(PrivacyUnit("row", every_row=True), Budget(1), tables))
        self._copies: dict[str, str] = {}

    def count_read_cells(self, column: str) -> list[int]:
        """Return how many cells each declaration reads."""
        return self._count(column, [f"c{index} IS NOT NULL" for index in range(self._declared[column])])

    def count_conflicts(self, column: str, first: int, others: Sequence[int]) -> list[int]:
        """Return how many cells each of the others reads in another way than the first, both of one family of types."""
        return self._count(column, [f"c{first} <> c{other}" for other in others])

    def read_values(self, column: str, index: int) -> list[Any]:
        """Return what one declaration reads from each text, in the order of the texts."""
        statement = f"SELECT c{index} FROM {self._scan(column)} ORDER BY {_POSITION}"
        return [value for (value,) in self._sources.run(statement)]

    def _count(self, column: str, conditions: Sequence[str]) -> list[int]:
        if not conditions:
            return []
        counts = ", ".join(f"coalesce(sum({_COUNT}) FILTER ({condition}), 0)" for condition in conditions)
        return [int(count) for count in self._sources.run(f"SELECT {counts} FROM {self._scan(column)}")[0]]

    def _scan(self, column: str) -> str:
        """Return a table of what the declarations read, made once: planning a view of all of them takes longer."""
        if column not in self._copies:
            self._copies[column] = self._sources.copy(self._names[column])
        return self._copies[column]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()


def _texts_table(name: str, texts: Mapping[str, int], declarations: Sequence[Declaration]) -> Table:
    """Return a table with the same texts in one column per declaration, beside their counts and positions."""
    import pyarrow as pa

    cells = pa.array(list(texts), pa.string())
    numbers = {_COUNT: pa.array(texts.values(), pa.int64()), _POSITION: pa.array(range(len(texts)), pa.int64())}
    columns: dict[str, Any] = {column: {"type": "integer"} for column in numbers}
    columns |= {f"c{index}": declaration for index, declaration in enumerate(declarations)}
    rows = pa.table({**numbers, **{column: cells for column in columns if column not in numbers}})
    return Table(name, InMemory(rows), columns, id="row")


_NUMBERS, _TIMES = {Type.INTEGER, Type.REAL}, {Type.DATE, Type.TIMESTAMP}


@dataclass(frozen=True, eq=False)
class PairedTables:
    """Two tables with the same columns, in the order of the first. PRIVATE."""

    kinds: Mapping[str, Type]
    tables: tuple[pyarrow.Table, pyarrow.Table]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """The columns of the first table alone, and of the second alone."""


def paired_tables(one: Any, other: Any) -> PairedTables:
    """Read two tables, each a path or a table in memory."""
    names = [_column_names(source, label) for source, label in ((one, "the first table"), (other, "the second table"))]
    second_names = {fold_name(column): column for column in names[1]}
    shared = [column for column in names[0] if fold_name(column) in second_names and is_name(column)]
    shared_folded = {fold_name(column) for column in shared}
    left_out = tuple(tuple(column for column in columns if fold_name(column) not in shared_folded) for columns in names)
    if not shared:
        raise InvalidPolicy(
            "the two tables have no column in common, so they cannot be compared",
            place="the columns of both tables",
            fix=f"use the same column names; the first table has {_abbreviate(names[0])}; the second has "
            f"{_abbreviate(names[1])}",
        )
    columns = {column: Domain(Type.TEXT) for column in shared}
    tables = [Table(f"table {number}", source, columns, id="row") for number, source in ((1, one), (2, other))]
    policy = Policy(PrivacyUnit("row", every_row=True), Budget(1), {table.name: table for table in tables})
    with Sources(policy) as sources:
        open_tables = [_typed_table(sources, table.name) for table in tables]
        kinds = {column: _common_type(sources, open_tables, column) for column in shared}
        first, second = (_read_columns(sources, table, kinds) for table in open_tables)
    return PairedTables(kinds, (first, second), (left_out[0], left_out[1]))


def _column_names(source: Any, policy_path: str) -> list[str]:
    """Return the column names of a file, or of a table in memory."""
    if not isinstance(source, (str, Path)):
        return list(memory.wrap_table(source, policy_path).names)
    try:
        return list(schema(Path(source)))
    except InvalidPolicy as error:
        fix = error.fix.removesuffix(RELATIVE_TO_POLICY)
        raise InvalidPolicy(error.rule, place=str(source), fix=fix) from None


def _abbreviate(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


@dataclass(frozen=True)
class _ComparedTable:
    """One of the two tables: where its rows are, and each column's cell, type and whether it has any value."""

    source: str
    cells: Mapping[str, Cell]
    kinds: Mapping[str, Type]
    filled: Mapping[str, bool]


def _typed_table(sources: Sources, table: str) -> _ComparedTable:
    """Find the types of a table's columns; a CSV file, whose cells are text, is read once, into a copy."""
    scan = sources.table_scan(table)
    source, cells = scan.source, {column: cell for column, (cell, *_) in scan.columns.items()}
    kinds = {column: type_from_stored_type(cell) for column, cell in cells.items()}
    if source.startswith("read_csv("):
        source, cells = sources.copy(table), {column: Cell(quote_identifier(column), "VARCHAR") for column in cells}
        kinds = inferred_types(cells, source, sources.run)
    counts = ", ".join(f"count({cell.sql})" for cell in cells.values())
    filled = map(bool, sources.run(f"SELECT {counts} FROM {source}")[0])
    return _ComparedTable(source, cells, kinds, dict(zip(cells, filled, strict=True)))


def _common_type(sources: Sources, tables: Sequence[_ComparedTable], column: str) -> Type:
    """Return the type in which a column of both tables is compared: the closest that every cell parses as."""
    stored_kinds = [table.kinds[column] for table in tables if table.filled[column]] or [tables[0].kinds[column]]
    kinds = {*stored_kinds}
    if len(kinds) == 1:
        return stored_kinds[0]
    if kinds <= _NUMBERS:
        return Type.REAL
    if kinds <= _TIMES:
        return Type.TIMESTAMP
    likely = sorted(kinds - {Type.TEXT}, key=lambda kind: kind is Type.BOOLEAN)
    return next(
        (kind for kind in likely if all(_parses_as(sources, table, column, kind) for table in tables)), Type.TEXT
    )


def _parses_as(sources: Sources, table: _ComparedTable, column: str, sql_type: Type) -> bool:
    """Return whether every cell of a column parses as this type."""
    cell = table.cells[column]
    unparsed = f"count(*) FILTER ({cell.sql} IS NOT NULL AND {clean_cell(cell, Domain(sql_type))} IS NULL)"
    return not sources.run(f"SELECT {unparsed} FROM {table.source}")[0][0]


def _read_columns(sources: Sources, table: _ComparedTable, kinds: Mapping[str, Type]) -> pyarrow.Table:
    """Read all columns, named c0, c1, … so that no name comes from a source."""
    cells = (
        f"{clean_cell(table.cells[column], Domain(kind))} AS c{index}"
        for index, (column, kind) in enumerate(kinds.items())
    )
    return sources.arrow(f"SELECT {', '.join(cells)} FROM {table.source}")
