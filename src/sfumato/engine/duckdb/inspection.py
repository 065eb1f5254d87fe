"""An owner sees here, exactly, what a policy's bounds and limits cost; nobody else may.

These figures are functions of private data with no noise. They are computed when the owner asks, returned, and
kept nowhere; nothing an analyst can reach may call this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Self

from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.files import find, misquoted
from sfumato.engine.duckdb.scan import UNIT, TableScan, cleaned, typed
from sfumato.engine.seam import Inspection
from sfumato.engine.sources.inspected_tables import inspection, lost
from sfumato.engine.spellings.duckdb import name as quoted
from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, File, Policy


class DuckDBInspector:
    """An inspector has a policy's sources, opened for their owner to look at."""

    def __init__(self, policy: Policy) -> None:
        self._sources = Sources(policy)

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._sources.columns(table)

    def fingerprint(self, table: str) -> str:
        return self._sources.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:  # noqa: ARG002 - files and tables in memory are trusted to no more
        return ()

    def inspect(self, table: str) -> Inspection:
        return inspect(self._sources, table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()


def misquoted_lines(policy: Policy) -> Iterator[tuple[str, int]]:
    """Find each CSV file of a policy that has a line which is not one record, and the number of its first."""
    for table in policy.tables.values():
        with suppress(InvalidPolicy):
            if not isinstance(table.source, File):
                continue
            found = find(table.source.path, f"tables.{table.name}.source")
            for path in found.paths if found.kind == "csv" else ():
                if (line := misquoted(path)) is not None:
                    yield path, line


def inspect(sources: Sources, table: str) -> Inspection:
    """Compare one private table with what the scan makes of it: one statement, which reads its source once.

    What became of a cell is kept as one byte, beside the row's unit and the values that rows are grouped by. Where
    another table knows whose rows these are, the scan is read beside it: a row may have several owners.
    """
    scan, declared = sources.definition(table), sources.policy.tables[table]
    keys = [name for name, (_, domain, _) in scan.columns.items() if domain.values is not None]
    found = sources.run(_statement(sources, table, keys, declared.max_rows or 1))[0]
    return inspection(found, list(scan.columns), keys, owned=scan.owner is not None)


def _statement(sources: Sources, table: str, keys: Sequence[str], limit: int) -> str:
    """Write the SELECT of one row: how many rows there are and are somebody's, what became of the cells of each column,
    and what limits of rows, and of groups by each of these keys, leave out.
    """
    scan = sources.definition(table)
    owner, places = scan.owner, {name: index for index, name in enumerate(scan.columns)}
    fates = [f"{_fate(index, domain)} AS c{index}" for index, (_, domain, _) in enumerate(scan.columns.values())]
    counts = [f"count(*) FILTER (k AND c{index} = {fate})" for index in range(len(fates)) for fate in range(1, 6)]
    totals = ", ".join(["count(*)", "count(*) FILTER (k)", *counts])
    own: list[str] = []
    if owner is not None and owner.links is None:
        own = [UNIT, *(f"v{places[name]} AS g{index}" for index, name in enumerate(keys))]
    cells = f"SELECT {', '.join(['k', *fates, *own])} FROM ({_read(scan)})"
    if owner is None:
        return f"SELECT {totals} FROM ({cells})"
    owned = "sf_cells WHERE k" if own else f"(SELECT {UNIT}{_viewed(keys)} FROM {sources.scan(table)})"
    distinct = "".join(f", count(DISTINCT g{index}) AS g{index}" for index in range(len(keys)))
    units = f"SELECT count(*) AS n{distinct} FROM {owned} GROUP BY {UNIT}"
    exceeding = f"count(*) FILTER (n > {limit}), coalesce(sum(greatest(n - {limit}, 0)), 0)"
    losses = [each for column in ("n", *(f"g{index}" for index in range(len(keys)))) for each in lost(column)]
    limits = f"SELECT {', '.join(['coalesce(sum(n), 0)', 'count(*)', exceeding, *losses])} FROM ({units})"
    return f"WITH sf_cells AS MATERIALIZED ({cells}) SELECT * FROM (SELECT {totals} FROM sf_cells), ({limits})"


def _read(scan: TableScan) -> str:
    """Write the SELECT of what every cell becomes, what it is in its type, and whether it is missing: each is computed
    once, beside whether the row is somebody's, and whose.
    """
    read = [f"{scan.kept} AS k"]
    if scan.owner is not None and scan.owner.links is None:
        read.append(f"{scan.owner.unit} AS {UNIT}")
    for index, (cell, domain, choices) in enumerate(scan.columns.values()):
        clean, raw = cleaned(cell, domain, choices), typed(cell, domain.type)
        read += [f"{clean} AS v{index}", f"{raw} AS r{index}", f"{cell.sql} IS NULL AS m{index}"]
    return f"SELECT {', '.join(read)} FROM {scan.source}"


def _viewed(keys: Sequence[str]) -> str:
    return "".join(f", {quoted(key)} AS g{index}" for index, key in enumerate(keys))


def _fate(index: int, domain: Domain) -> str:
    """Say what becomes of a cell: 1 missing, 2 made NULL, 3 and 4 moved to the lower and the upper bound, 5 changed in
    another way, 0 nothing.
    """
    clean, raw = f"v{index}", f"r{index}"
    bounded = f"WHEN {raw} < {clean} THEN 3 WHEN {raw} > {clean} THEN 4 " if domain.bounds and not domain.values else ""
    changed = f"{bounded}WHEN {clean} IS DISTINCT FROM {raw} THEN 5"
    return f"CAST(CASE WHEN m{index} THEN 1 WHEN {clean} IS NULL THEN 2 {changed} ELSE 0 END AS UTINYINT)"
