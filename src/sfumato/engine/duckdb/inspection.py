"""An owner sees here, exactly, what a policy's bounds and limits cost; nobody else may.

These figures are functions of private data with no noise. They are computed when the owner asks, returned, and
kept nowhere; nothing an analyst can reach may call this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Self

from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.files import find, misquoted
from sfumato.engine.duckdb.scan import Cell, cleaned, typed
from sfumato.engine.seam import ColumnCost, Inspection
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
    """Compare one private table with what the scan makes of it: three passes over the data."""
    scan, declared = sources.definition(table), sources.policy.tables[table]
    counts = [count for column in scan.columns.values() for count in _counts(*column)]
    rows = sources.run(f"SELECT count(*) FROM {scan.source}")[0][0]
    sums = ", ".join(["count(*)", *(f"count(*) FILTER ({count})" for count in counts)])
    counted, *found = sources.run(f"SELECT {sums} FROM {scan.source} WHERE {scan.kept}")[0]
    columns = {
        name: ColumnCost(*(_share(count, counted) for count in found[3 * i : 3 * i + 3]))
        for i, name in enumerate(scan.columns)
    }
    if scan.owner is None:
        return Inspection(rows, 0.0, columns, rows, 0, 0.0)
    owned, units, exceeding, beyond = sources.run(_excess(sources.scan(table), declared.max_rows or 1))[0]
    return Inspection(rows, _share(rows - counted, rows), columns, units, exceeding, _share(beyond, owned))


def _counts(cell: Cell, domain: Domain, choices: str | None) -> tuple[str, str, str]:
    clean, raw = cleaned(cell, domain, choices), typed(cell, domain.type)
    return (  # FILTER counts 0 where count_if has NULL: over no rows
        f"{clean} IS NOT NULL AND {clean} IS DISTINCT FROM {raw}",
        f"{clean} IS NULL AND {cell.sql} IS NOT NULL",
        f"{cell.sql} IS NULL",
    )


def _excess(view: str, limit: int) -> str:
    return (
        f"SELECT coalesce(sum(n), 0), count(*), count(*) FILTER (n > {limit}),"
        f" coalesce(sum(greatest(n - {limit}, 0)), 0)"
        f" FROM (SELECT count(*) AS n FROM {view} GROUP BY sf_unit)"
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
