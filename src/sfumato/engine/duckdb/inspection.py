"""Exact figures for the owner: what a policy's bounds and limits cost.

These figures are functions of private data without noise. They are computed when the owner asks, returned, and stored
nowhere; nothing an analyst can reach may call this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Self

from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.files import find_files, first_misquoted_line
from sfumato.engine.duckdb.scan import UNIT, Cell, TableScan, clean_cell, convert_cell
from sfumato.engine.protocols import Inspection
from sfumato.engine.sources.clean_scans import InspectedCell
from sfumato.engine.sources.inspected_tables import (
    MAX_LOST_TEXTS,
    OUTCOMES,
    inspection,
    loss_expressions,
    lost_condition,
)
from sfumato.engine.spellings.duckdb import DuckDBSpelling, quote_identifier as quoted
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Domain, File, Policy


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
        return inspect(self._sources, table)

    def lost_texts(self, table: str, column: str, words: Collection[str]) -> Mapping[str, int]:
        return lost_texts(self._sources, table, column, words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()


def misquoted_lines(policy: Policy) -> Iterator[tuple[str, int]]:
    """Yield each CSV file of a policy with a line that is not one record, and the number of its first such line."""
    for table in policy.tables.values():
        with suppress(InvalidPolicy):
            if not isinstance(table.source, File):
                continue
            table_files = find_files(table.source.path, f"tables.{table.name}.source")
            for path in table_files.paths if table_files.kind == "csv" else ():
                if (line := first_misquoted_line(path)) is not None:
                    yield path, line


def inspect(sources: Sources, table: str) -> Inspection:
    """Compare one private table with its clean scan in one statement, which reads the source once.

    What happened to a cell is encoded as one byte, beside the row's unit and the values that rows are grouped by. Where
    rows belong to units through another table, the scan is read as well: a row may have several owners.
    """
    scan, table_policy = sources.table_scan(table), sources.policy.tables[table]
    keys = [name for name, (_, domain, _) in scan.columns.items() if domain.values is not None]
    figures = sources.run(_statement(sources, table, keys, table_policy.max_rows or 1))[0]
    return inspection(figures, list(scan.columns), keys, owned=scan.owner is not None)


def lost_texts(sources: Sources, table: str, column: str, words: Collection[str]) -> Mapping[str, int]:
    """Count the most frequent texts of a column that are read as NULL, or are one of these words."""
    scan = sources.table_scan(table)
    cell, domain, choices = scan.columns[column]
    if cell.stored_text is None:
        return {}
    shown = f"CASE WHEN strlen({cell.stored_text}) <= {LONGEST} THEN {cell.stored_text} END"
    columns = f"{scan.is_owned} AS k, {clean_cell(cell, domain, choices)} AS v, {shown} AS t, {cell.is_present} AS m"
    condition = lost_condition(DuckDBSpelling(), InspectedCell("v", "v", "m", None, text="t"), words)
    statement = f"SELECT t, count(*) FROM (SELECT {columns} FROM {scan.source}) WHERE k AND {condition}"
    return dict(sources.run(f"{statement} GROUP BY t ORDER BY 2 DESC, 1 LIMIT {MAX_LOST_TEXTS}"))


def _statement(sources: Sources, table: str, keys: Sequence[str], limit: int) -> str:
    """Return the SELECT of one row: how many rows there are and how many have an owner, what happened to the cells of
    each column, and what limits on rows, and on groups by each key, leave out.
    """
    scan = sources.table_scan(table)
    owner, positions = scan.owner, {name: index for index, name in enumerate(scan.columns)}
    outcomes = [
        f"{_cell_outcome(index, cell, domain)} AS c{index}"
        for index, (cell, domain, _) in enumerate(scan.columns.values())
    ]
    counts = [f"count(*) FILTER (k AND c{index} = {outcome})" for index in range(len(outcomes)) for outcome in OUTCOMES]
    totals = ", ".join(["count(*)", "count(*) FILTER (k)", *counts])
    unit_columns: list[str] = []
    if owner is not None and owner.links is None:
        unit_columns = [UNIT, *(f"v{positions[name]} AS g{index}" for index, name in enumerate(keys))]
    cells = f"SELECT {', '.join(['k', *outcomes, *unit_columns])} FROM ({_source_cells(scan)})"
    if owner is None:
        return f"SELECT {totals} FROM ({cells})"
    owned_rows = (
        "sf_cells WHERE k" if unit_columns else f"(SELECT {UNIT}{_group_columns(keys)} FROM {sources.scan(table)})"
    )
    distinct = "".join(f", count(DISTINCT g{index}) AS g{index}" for index in range(len(keys)))
    units = f"SELECT count(*) AS n{distinct} FROM {owned_rows} GROUP BY {UNIT}"
    over_limit = f"count(*) FILTER (n > {limit}), coalesce(sum(greatest(n - {limit}, 0)), 0)"
    losses = [
        loss for column in ("n", *(f"g{index}" for index in range(len(keys)))) for loss in loss_expressions(column)
    ]
    limits = f"SELECT {', '.join(['coalesce(sum(n), 0)', 'count(*)', over_limit, *losses])} FROM ({units})"
    return f"WITH sf_cells AS MATERIALIZED ({cells}) SELECT * FROM (SELECT {totals} FROM sf_cells), ({limits})"


def _source_cells(scan: TableScan) -> str:
    """Return the SELECT of each cell's clean value, its typed value and whether it is missing, each computed once,
    beside whether the row has an owner, and its unit.
    """
    expressions = [f"{scan.is_owned} AS k"]
    if scan.owner is not None and scan.owner.links is None:
        expressions.append(f"{scan.owner.unit} AS {UNIT}")
    for index, (cell, domain, choices) in enumerate(scan.columns.values()):
        clean, raw = clean_cell(cell, domain, choices), convert_cell(cell, domain.type)
        expressions += [f"{clean} AS v{index}", f"{raw} AS r{index}", f"NOT ({cell.is_present}) AS m{index}"]
        expressions += [f"{cell.is_null} AS n{index}"] if cell.is_null else []
    return f"SELECT {', '.join(expressions)} FROM {scan.source}"


def _group_columns(keys: Sequence[str]) -> str:
    return "".join(f", {quoted(key)} AS g{index}" for index, key in enumerate(keys))


def _cell_outcome(index: int, cell: Cell, domain: Domain) -> str:
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
