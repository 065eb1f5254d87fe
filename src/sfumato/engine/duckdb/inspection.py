"""Exact figures for the owner: what a policy's bounds and limits cost.

These figures are functions of private data without noise. They are computed when the owner asks, returned, and stored
nowhere; nothing an analyst can reach may call this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Self

from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.files import find_files, first_misquoted_line
from sfumato.engine.duckdb.scan import UNIT, TableScan, clean_cell, convert_cell
from sfumato.engine.protocols import Inspection
from sfumato.engine.sources.inspected_tables import inspection, loss_expressions
from sfumato.engine.spellings.duckdb import quote_identifier as quoted
from sfumato.errors import InvalidPolicy
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


def count_beyond(policy: Policy, table: str, column: str, literals: Sequence[str]) -> tuple[int, list[int], list[int]]:
    """Return how many clean cells a column has, and how many are below and above each literal of its type."""
    sources = Sources(policy)
    try:
        counts = ", ".join(f"count(*) FILTER (c {sign} {literal})" for sign in "<>" for literal in literals)
        cells = f"SELECT {quoted(column)} AS c FROM {sources.scan(table)}"
        count, *beyond = sources.run(f"SELECT count(c), {counts} FROM ({cells})")[0]
        return count, beyond[: len(literals)], beyond[len(literals) :]
    finally:
        sources.close()


def inspect(sources: Sources, table: str) -> Inspection:
    """Compare one private table with its clean scan in one statement, which reads the source once.

    What happened to a cell is encoded as one byte, beside the row's unit and the values that rows are grouped by. Where
    rows belong to units through another table, the scan is read as well: a row may have several owners.
    """
    scan, table_policy = sources.table_scan(table), sources.policy.tables[table]
    keys = [name for name, (_, domain, _) in scan.columns.items() if domain.values is not None]
    figures = sources.run(_statement(sources, table, keys, table_policy.max_rows or 1))[0]
    return inspection(figures, list(scan.columns), keys, owned=scan.owner is not None)


def _statement(sources: Sources, table: str, keys: Sequence[str], limit: int) -> str:
    """Return the SELECT of one row: how many rows there are and how many have an owner, what happened to the cells of
    each column, and what limits on rows, and on groups by each key, leave out.
    """
    scan = sources.table_scan(table)
    owner, positions = scan.owner, {name: index for index, name in enumerate(scan.columns)}
    outcomes = [
        f"{_cell_outcome(index, domain)} AS c{index}" for index, (_, domain, _) in enumerate(scan.columns.values())
    ]
    counts = [
        f"count(*) FILTER (k AND c{index} = {outcome})" for index in range(len(outcomes)) for outcome in range(1, 6)
    ]
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
    return f"SELECT {', '.join(expressions)} FROM {scan.source}"


def _group_columns(keys: Sequence[str]) -> str:
    return "".join(f", {quoted(key)} AS g{index}" for index, key in enumerate(keys))


def _cell_outcome(index: int, domain: Domain) -> str:
    """Return the SQL of a cell's outcome: 1 missing, 2 set to NULL, 3 and 4 moved to the lower and the upper bound, 5
    otherwise changed, 0 unchanged.
    """
    clean, raw = f"v{index}", f"r{index}"
    clamped_branches = (
        f"WHEN {raw} < {clean} THEN 3 WHEN {raw} > {clean} THEN 4 " if domain.bounds and not domain.values else ""
    )
    changed_branches = f"{clamped_branches}WHEN {clean} IS DISTINCT FROM {raw} THEN 5"
    return f"CAST(CASE WHEN m{index} THEN 1 WHEN {clean} IS NULL THEN 2 {changed_branches} ELSE 0 END AS UTINYINT)"
