"""An inspection finds what a policy's bounds and limits cost a table, from one row of exact counts. PRIVATE.

For tables on a server the statement of these counts is written here too, over the clean scans in the relational form.

Data in files are identified here, for the ledger, which registers what identifies data and opens none of them.

Reading a file to know its content is the owner's act: the ledger asks for it only when the file does not look as it did
when it was read before, and no question causes it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from sfumato.engine.seam import LIMITS, ColumnCost, DataIdentity, Inspection
from sfumato.engine.sources.clean_scans import CleanScans, InspectedCell
from sfumato.errors import InvalidParameter, LedgerUnavailable

_FATES = 5
"""What may become of a cell: missing, made NULL, moved to the lower and to the upper bound, changed in another way."""


def inspection(found: Sequence[Any], columns: Sequence[str], keys: Sequence[str], *, owned: bool) -> Inspection:
    """Make the figures of one row: rows, rows that are somebody's, the fates of each column's cells, and where rows
    have owners: rows with owners, units, units beyond the limit, rows beyond it, and losses by limits of rows and of
    groups by each key.
    """
    rows, counted, *rest = (int(each or 0) for each in found)
    fates, rest = rest[: _FATES * len(columns)], rest[_FATES * len(columns) :]
    costs = {
        name: _cost([_share(count, counted) for count in fates[_FATES * index : _FATES * (index + 1)]])
        for index, name in enumerate(columns)
    }
    if not owned:
        return Inspection(rows, 0.0, costs, rows, 0, 0.0)
    own, units, exceeding, beyond, *losses = rest
    by_rows, *by_groups = (
        (losses[at], losses[at + 1 : at + 1 + len(LIMITS)]) for at in range(0, len(losses), 1 + len(LIMITS))
    )
    return Inspection(
        rows,
        _share(rows - counted, rows),
        costs,
        units,
        exceeding,
        _share(beyond, own),
        _losses(*by_rows),
        {name: _losses(*each) for name, each in zip(keys, by_groups, strict=True)},
    )


def _cost(fates: Sequence[float]) -> ColumnCost:
    missing, nulled, low, high, changed = fates
    return ColumnCost(low + high + changed, nulled, missing, low, high)


def lost(column: str) -> list[str]:
    """Count what units have of something, and how much of it is beyond each limit."""
    return [f"coalesce(sum({each}), 0)" for each in (column, *(f"greatest({column} - {most}, 0)" for most in LIMITS))]


def _losses(whole: int, beyond: Sequence[int]) -> dict[int, float]:
    return {limit: _share(part, whole) for limit, part in zip(LIMITS, beyond, strict=True)}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def fate(cell: InspectedCell) -> str:
    """Say what became of a cell: 1 missing, 2 made NULL, 3 and 4 moved to the lower and the upper bound, 5 changed in
    another way, 0 nothing. What is beyond every number of its type was moved to the bound it is at.
    """
    clean, raw, there = cell.clean, cell.raw, cell.there
    moved = ""
    if cell.low is not None:
        moved = (
            f"WHEN {raw} < {clean} THEN 3 WHEN {raw} > {clean} THEN 4 "
            f"WHEN {raw} IS NULL AND {clean} = {cell.low} THEN 3 WHEN {raw} IS NULL THEN 4 "
        )
    changed = f"{moved}WHEN {raw} IS NULL OR {clean} <> {raw} THEN 5"
    return f"CASE WHEN NOT {there} THEN 1 WHEN {clean} IS NULL THEN 2 {changed} ELSE 0 END"


def statement(scans: CleanScans, table: str) -> tuple[str, list[str]]:
    """Write the SELECT of one row of counts of a table on a server, and name the keys that groups are counted by."""
    declared = scans.policy.tables[table]
    scan, cells = scans.inspected(table)
    keys = [name for name, domain in declared.columns.items() if domain.values is not None]
    fates = [f"{fate(cell)} AS c{place}" for place, cell in enumerate(cells)]
    counts = [
        f"count(CASE WHEN k = 1 AND c{place} = {each} THEN 1 END)"
        for place in range(len(cells))
        for each in range(1, _FATES + 1)
    ]
    totals = ", ".join(["count(*)", "count(CASE WHEN k = 1 THEN 1 END)", *counts])
    seen = f"SELECT {', '.join(['k', *fates])} FROM ({scans.written(scan)}) AS r"
    if declared.every_row:
        return f"SELECT {totals} FROM ({seen}) AS s", keys
    quoted = [scans.spelling.name(key) for key in keys]
    distinct = "".join(f", count(DISTINCT {key}) AS g{place}" for place, key in enumerate(quoted))
    units = f"SELECT count(*) AS n{distinct} FROM ({scans.text(table)}) AS o GROUP BY sf_unit"
    limit = declared.max_rows or 1
    exceeding = [f"count(CASE WHEN n > {limit} THEN 1 END)", f"coalesce(sum(greatest(n - {limit}, 0)), 0)"]
    losses = [each for column in ("n", *(f"g{place}" for place in range(len(keys)))) for each in lost(column)]
    limits = f"SELECT {', '.join(['coalesce(sum(n), 0)', 'count(*)', *exceeding, *losses])} FROM ({units}) AS u"
    return f"SELECT * FROM (SELECT {totals} FROM ({seen}) AS s) AS t CROSS JOIN ({limits}) AS v", keys


_BLOCK = 1 << 20
_SETTLING = 2_000_000_000  # a file touched in the last two seconds may change again without its times showing it


def identified(path: str | os.PathLike[str]) -> DataIdentity:
    """Identify a file as it is now: by its real path, its size, its place on the disk, its times, and its content when
    asked.
    """
    address = os.path.realpath(os.fspath(path).removeprefix("file://"))
    try:
        found = os.stat(address)
    except OSError as error:
        raise _unreadable(address, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise InvalidParameter("source", address, "a file", fix="join every file of a folder by itself")
    settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _SETTLING
    return DataIdentity(
        address,
        partial(_content, address, _look(found)),
        size=str(found.st_size),
        file=f"{found.st_dev} {found.st_ino}",
        look=_look(found) if settled else "",
    )


def _content(path: str, look: str) -> str:
    """Hash the file's bytes, of the version that looked so."""
    try:
        with open(path, "rb") as file:
            start = os.fstat(file.fileno())
            content = _digest(iter(lambda: file.read(_BLOCK), b""))
            end = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    if not look == _look(start) == _look(end):
        raise LedgerUnavailable(
            "data must not change while they are read, and these did",
            place=path,
            fix="join them when they are still",
        )
    return content


def _look(found: os.stat_result) -> str:
    parts = found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
    return " ".join(map(str, parts))


def _digest(blocks: Iterable[bytes]) -> str:
    seal = sha256()
    for block in blocks:
        seal.update(block)
    return seal.hexdigest()


def _unreadable(path: str, error: OSError) -> LedgerUnavailable:
    reason = os.strerror(error.errno or 0)
    return LedgerUnavailable(f"the data cannot be read ({reason})", place=path, fix="give a file that can be read")
