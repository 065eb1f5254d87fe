"""What a policy's bounds and limits cost, exactly: for the owner's eyes alone.

These figures are functions of private data with no noise. They are computed when the owner asks, returned, and
kept nowhere; nothing an analyst can reach may call this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.engine.scan import Cell, cleaned, owned, typed
from sfumato.engine.sources import Sources
from sfumato.policy import Domain


@dataclass(frozen=True)
class ColumnCost:
    """Shares of the counted rows in which a column's cell is not what the source says. PRIVATE."""

    clamped: float
    """Moved to a bound, cut to its most letters, or made the value that stands for what is not declared."""
    nulled: float
    """Made NULL: not of the declared type, or not among the values."""
    missing: float
    """NULL in the source already."""


@dataclass(frozen=True)
class Inspection:
    """What is lost of one table, exactly. PRIVATE."""

    rows: int
    dropped: float
    """Share of all rows that carry no id."""
    columns: Mapping[str, ColumnCost]
    units: int
    """How many units have rows."""
    exceeding: int
    """Units with more rows than count."""
    lost: float
    """Share of the rows with an id that are beyond their unit's limit."""


def inspect(sources: Sources, table: str) -> Inspection:
    """One private table compared with what the scan makes of it: two passes over the data."""
    scan, declared = sources.definition(table), sources.policy.tables[table]
    counts = [count for column in scan.columns.values() for count in _counts(*column)]
    kept = "TRUE" if scan.unit is None else owned(scan.unit)
    sums = ", ".join(f"count(*) FILTER ({kept} AND {count})" for count in ("TRUE", *counts))
    rows, counted, *found = sources.run(f"SELECT count(*), {sums} FROM {scan.source}")[0]
    columns = {
        name: ColumnCost(*(_share(count, counted) for count in found[3 * i : 3 * i + 3]))
        for i, name in enumerate(scan.columns)
    }
    if scan.unit is None:
        return Inspection(rows, 0.0, columns, rows, 0, 0.0)
    units, exceeding, beyond = sources.run(_excess(sources.scan(table), declared.max_rows or 1))[0]
    return Inspection(rows, _share(rows - counted, rows), columns, units, exceeding, _share(beyond, counted))


def _counts(cell: Cell, domain: Domain, choices: str | None) -> tuple[str, str, str]:
    clean, raw = cleaned(cell, domain, choices), typed(cell, domain.type)
    return (  # FILTER counts 0 where count_if has NULL: over no rows
        f"{clean} IS NOT NULL AND {clean} IS DISTINCT FROM {raw}",
        f"{clean} IS NULL AND {cell.sql} IS NOT NULL",
        f"{cell.sql} IS NULL",
    )


def _excess(view: str, limit: int) -> str:
    return (
        f"SELECT count(*), count(*) FILTER (n > {limit}), coalesce(sum(greatest(n - {limit}, 0)), 0)"
        f" FROM (SELECT count(*) AS n FROM {view} GROUP BY sf_unit)"
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
