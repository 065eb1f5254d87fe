"""Inspection: what a policy's bounds and limits cost a table, from one row of exact counts. PRIVATE.

For tables on a server the statement of these counts is written here too, over the clean scans.

Files are identified here for the ledger, which registers what identifies data and opens none of them. Reading a file to
hash its content is the owner's act: the ledger asks for it only when the file does not look as it did when it was read
before, and no question causes it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.engine.protocols import LIMITS, ColumnCost, DataIdentity, Inspection
from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.policy import Type

if TYPE_CHECKING:  # identifying files needs no statements
    from sfumato.engine.sources.clean_scans import CleanScans, InspectedCell
    from sfumato.engine.spellings.spelling import Spelling

OUTCOMES = range(1, 7)
"""What may become of a cell: missing, made NULL, moved to the lower and to the upper bound, changed in another way,
missing by its rules."""
MAX_LOST_TEXTS = 50
"""The most texts that are shown of one column."""


def inspection_from_counts(
    row_of_counts: Sequence[Any], columns: Sequence[str], group_keys: Sequence[str], *, has_unit_ids: bool
) -> Inspection:
    """Unpack one row of counts: rows, rows with an owner, the fates of each column's cells, and where rows have unit
    ids: rows with owners, units, units beyond the limit, rows beyond it, and losses by limits of rows and of groups by
    each key.
    """
    rows, owned_rows, *counts = (int(count or 0) for count in row_of_counts)
    width = len(OUTCOMES)
    fates, counts = counts[: width * len(columns)], counts[width * len(columns) :]
    costs = {
        name: _column_cost([_share(count, owned_rows) for count in fates[width * index : width * (index + 1)]])
        for index, name in enumerate(columns)
    }
    if not has_unit_ids:
        return Inspection(rows, 0.0, costs, rows, 0, 0.0)
    rows_of_units, units, exceeding, beyond, *losses = counts
    by_rows, *by_groups = (
        (losses[start], losses[start + 1 : start + 1 + len(LIMITS)]) for start in range(0, len(losses), 1 + len(LIMITS))
    )
    return Inspection(
        rows,
        _share(rows - owned_rows, rows),
        costs,
        units,
        exceeding,
        _share(beyond, rows_of_units),
        _loss_by_limit(*by_rows),
        {name: _loss_by_limit(*group_loss) for name, group_loss in zip(group_keys, by_groups, strict=True)},
    )


def _column_cost(fates: Sequence[float]) -> ColumnCost:
    missing, nulled, low, high, changed, missing_by_rules = fates
    return ColumnCost(low + high + changed, nulled, missing + missing_by_rules, low, high, missing_by_rules)


def total_and_excess_sums_sql(count_per_unit: str) -> list[str]:
    """Write the sum over units of a count, and how much of it is beyond each contribution limit."""
    return [
        f"coalesce(sum({quantity}), 0)"
        for quantity in (count_per_unit, *(f"greatest({count_per_unit} - {limit}, 0)" for limit in LIMITS))
    ]


def _loss_by_limit(total: int, beyond: Sequence[int]) -> dict[int, float]:
    return {limit: _share(excess, total) for limit, excess in zip(LIMITS, beyond, strict=True)}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def cell_outcome_sql(cell: InspectedCell) -> str:
    """Write the code of what the scan did to a cell: 1 missing, 2 made NULL, 3 and 4 moved to the lower and the upper
    bound, 5 changed in another way, 6 missing by its rules, 0 nothing. What is beyond every number of its type was
    moved to the bound that it is at.
    """
    clean, raw, is_present = cell.clean, cell.raw, cell.is_there
    clamped_cases = ""
    if cell.lower_bound is not None:
        clamped_cases = (
            f"WHEN {raw} < {clean} THEN 3 WHEN {raw} > {clean} THEN 4 "
            f"WHEN {raw} IS NULL AND {clean} = {cell.lower_bound} THEN 3 WHEN {raw} IS NULL THEN 4 "
        )
    other_cases = f"{clamped_cases}WHEN {raw} IS NULL OR {clean} <> {raw} THEN 5"
    by_rules = "" if cell.is_null is None else f"WHEN {cell.is_null} THEN 6 "
    return f"CASE {by_rules}WHEN NOT {is_present} THEN 1 WHEN {clean} IS NULL THEN 2 {other_cases} ELSE 0 END"


def lost_texts_statement(scans: CleanScans, table: str, column: str, extra_texts: Collection[str]) -> str | None:
    """Write the SELECT of the most frequent texts of a column that are read as NULL, or are among ``extra_texts``, with
    their counts; None if the column is not stored as text.
    """
    scan, cells = scans.inspected(table)
    cell = cells[list(scans.policy.tables[table].columns).index(column)]
    if cell.text is None:
        return None
    condition = lost_text_condition_sql(scans.spelling, cell, extra_texts)
    return (
        f"SELECT {cell.text}, count(*) FROM ({scans.select_sql(scan)}) AS r WHERE k = 1 AND {condition}"
        f" GROUP BY {cell.text} ORDER BY 2 DESC, 1 LIMIT {MAX_LOST_TEXTS}"
    )


def lost_text_condition_sql(spelling: Spelling, cell: InspectedCell, extra_texts: Collection[str]) -> str:
    """Write the condition that a cell is there and read as NULL, or is one of ``extra_texts``."""
    extra_sql = ", ".join(spelling.constant(text, Type.TEXT) for text in extra_texts)
    trimmed = spelling.trim(str(cell.text), " ", start=True, end=True)
    return f"{cell.is_there} AND {cell.text} IS NOT NULL AND ({cell.clean} IS NULL OR {trimmed} IN ({extra_sql}))"


def inspection_statement(scans: CleanScans, table: str) -> tuple[str, list[str]]:
    """Write the SELECT of one row of counts of a table on a server, and name the keys that groups are counted by."""
    declared = scans.policy.tables[table]
    scan, cells = scans.inspected(table)
    keys = [name for name, domain in declared.columns.items() if domain.values is not None]
    fates = [f"{cell_outcome_sql(cell)} AS c{index}" for index, cell in enumerate(cells)]
    counts = [
        f"count(CASE WHEN k = 1 AND c{index} = {code} THEN 1 END)" for index in range(len(cells)) for code in OUTCOMES
    ]
    totals = _numbered_columns("t", ["count(*)", "count(CASE WHEN k = 1 THEN 1 END)", *counts])
    inspected_rows = f"SELECT {', '.join(['k', *fates])} FROM ({scans.select_sql(scan)}) AS r"
    if declared.every_row:
        return f"SELECT {totals} FROM ({inspected_rows}) AS s", keys
    quoted = [scans.spelling.name(key) for key in keys]
    distinct = "".join(f", count(DISTINCT {key}) AS g{index}" for index, key in enumerate(quoted))
    units = f"SELECT count(*) AS n{distinct} FROM ({scans.text(table)}) AS o GROUP BY sf_unit"
    limit = declared.max_rows or 1
    exceeding = [f"count(CASE WHEN n > {limit} THEN 1 END)", f"coalesce(sum(greatest(n - {limit}, 0)), 0)"]
    losses = [
        quantity
        for column in ("n", *(f"g{index}" for index in range(len(keys))))
        for quantity in total_and_excess_sums_sql(column)
    ]
    limits = (
        f"SELECT {_numbered_columns('u', ['coalesce(sum(n), 0)', 'count(*)', *exceeding, *losses])} FROM ({units}) AS u"
    )
    return f"SELECT * FROM (SELECT {totals} FROM ({inspected_rows}) AS s) AS t CROSS JOIN ({limits}) AS v", keys


def _numbered_columns(prefix: str, figures: Sequence[str]) -> str:
    """Write columns with names of their own: not every dialect allows two of one name."""
    return ", ".join(f"{figure} AS {prefix}{index}" for index, figure in enumerate(figures))


_BLOCK = 1 << 20
_SETTLING_NANOSECONDS = (
    2_000_000_000  # a file touched in the last two seconds may change again without its times showing it
)


def identify_file(path: str | os.PathLike[str]) -> DataIdentity:
    """Identify a file as it is now: by its real path, size, inode, times, and on request its content."""
    address = os.path.realpath(os.fspath(path).removeprefix("file://"))
    try:
        status = os.stat(address)
    except OSError as error:
        raise _unreadable_data_error(address, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidParameter("source", address, "a file", fix="name each file of the folder")
    is_settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLING_NANOSECONDS
    return DataIdentity(
        address,
        partial(_content_hash, address, _change_token(status)),
        file_size=str(status.st_size),
        file_identity=f"{status.st_dev} {status.st_ino}",
        change_token=_change_token(status) if is_settled else "",
    )


def _content_hash(path: str, expected_look: str) -> str:
    """Hash the bytes of the version of a file that looked so."""
    try:
        with open(path, "rb") as file:
            start = os.fstat(file.fileno())
            content = _digest(iter(lambda: file.read(_BLOCK), b""))
            end = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable_data_error(path, error) from error
    if not expected_look == _change_token(start) == _change_token(end):
        raise LedgerUnavailable(
            "the data changed while they were read",
            place=path,
            fix="try again when nothing writes to the file",
        )
    return content


def _change_token(status: os.stat_result) -> str:
    parts = status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    return " ".join(map(str, parts))


def _digest(blocks: Iterable[bytes]) -> str:
    digest = sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _unreadable_data_error(path: str, error: OSError) -> LedgerUnavailable:
    reason = os.strerror(error.errno or 0)
    return LedgerUnavailable(f"the data cannot be read ({reason})", place=path, fix="name a readable file")
