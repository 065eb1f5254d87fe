"""Two tables are read side by side for their owner, exactly: the columns that both have, each in one type for both.

Nothing here is protected by noise, and nothing an analyst can reach may call it. Cells are read by the rules of every
scan (``scan``), so a number that one table stores as text is the same number in the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engine.duckdb import memory
from sfumato.engine.duckdb.connection import Sources, schema
from sfumato.engine.duckdb.discovery import stored_kind, written_kinds
from sfumato.engine.duckdb.scan import Cell, cleaned
from sfumato.engine.sources.clean_cells import folded
from sfumato.engine.spellings.duckdb import name
from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.domains import is_name
from sfumato.privacy import Budget, PrivacyUnit

if TYPE_CHECKING:
    import pyarrow

_NUMBERS, _TIMES = {Type.INTEGER, Type.REAL}, {Type.DATE, Type.TIMESTAMP}


@dataclass(frozen=True, eq=False)
class PairedTables:
    """These are two tables with the same columns, in the order of the first. PRIVATE."""

    kinds: Mapping[str, Type]
    tables: tuple[pyarrow.Table, pyarrow.Table]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """The columns that only the first has, and only the second."""


def paired_tables(one: Any, other: Any) -> PairedTables:
    """Read two tables, each a path or a table in memory."""
    names = [_names(source, place) for source, place in ((one, "the first table"), (other, "the second table"))]
    theirs = {folded(each): each for each in names[1]}
    shared = [each for each in names[0] if folded(each) in theirs and is_name(each)]
    known = {folded(each) for each in shared}
    left_out = tuple(tuple(each for each in listed if folded(each) not in known) for listed in names)
    if not shared:
        raise InvalidPolicy(
            "two tables are compared by the columns that both have, and these have none",
            place="the columns of both tables",
            fix=f"name columns alike: the first has {_listed(names[0])}, the second {_listed(names[1])}",
        )
    columns = {each: Domain(Type.TEXT) for each in shared}
    own = [Table(f"table {place}", source, columns, id="row") for place, source in ((1, one), (2, other))]
    policy = Policy(PrivacyUnit("row", every_row=True), Budget(1), {each.name: each for each in own})
    with Sources(policy) as sources:
        opened = [_opened(sources, each.name) for each in own]
        kinds = {each: _common(sources, opened, each) for each in shared}
        first, second = (_read(sources, each, kinds) for each in opened)
    return PairedTables(kinds, (first, second), (left_out[0], left_out[1]))


def _names(source: Any, place: str) -> list[str]:
    """List the names of the columns of a path, or of a table in memory."""
    if not isinstance(source, (str, Path)):
        return list(memory.frame(source, place).names)
    try:
        return list(schema(Path(source)))
    except InvalidPolicy as error:
        fix = error.fix.replace(": it is relative to the policy file", "")
        raise InvalidPolicy(error.rule, place=str(source), fix=fix) from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


@dataclass(frozen=True)
class _Opened:
    """This is one of the tables: where its rows are, and of each column the cell, its type and whether it has any."""

    source: str
    cells: Mapping[str, Cell]
    kinds: Mapping[str, Type]
    filled: Mapping[str, bool]


def _opened(sources: Sources, table: str) -> _Opened:
    """Find what the columns hold; a CSV file, whose cells are texts, is read once, into a copy."""
    scan = sources.definition(table)
    source, cells = scan.source, {each: cell for each, (cell, *_) in scan.columns.items()}
    kinds = {each: stored_kind(cell) for each, cell in cells.items()}
    if source.startswith("read_csv("):
        source, cells = sources.copy(table), {each: Cell(name(each), "VARCHAR") for each in cells}
        kinds = written_kinds(cells, source, sources.run)
    counted = ", ".join(f"count({cell.sql})" for cell in cells.values())
    filled = map(bool, sources.run(f"SELECT {counted} FROM {source}")[0])
    return _Opened(source, cells, kinds, dict(zip(cells, filled, strict=True)))


def _common(sources: Sources, own: Sequence[_Opened], column: str) -> Type:
    """Find the type in which a column of both tables is compared: the nearest that every cell can be read as."""
    found = [each.kinds[column] for each in own if each.filled[column]] or [own[0].kinds[column]]
    kinds = {*found}
    if len(kinds) == 1:
        return found[0]
    if kinds <= _NUMBERS:
        return Type.REAL
    if kinds <= _TIMES:
        return Type.TIMESTAMP
    likely = sorted(kinds - {Type.TEXT}, key=lambda kind: kind is Type.BOOLEAN)
    return next((kind for kind in likely if all(_fits(sources, each, column, kind) for each in own)), Type.TEXT)


def _fits(sources: Sources, own: _Opened, column: str, kind: Type) -> bool:
    """Tell whether every cell can be read as this type."""
    cell = own.cells[column]
    lost = f"count(*) FILTER ({cell.sql} IS NOT NULL AND {cleaned(cell, Domain(kind))} IS NULL)"
    return not sources.run(f"SELECT {lost} FROM {own.source}")[0][0]


def _read(sources: Sources, own: _Opened, kinds: Mapping[str, Type]) -> pyarrow.Table:
    """Read all columns, under names that no source decides."""
    cells = (
        f"{cleaned(own.cells[each], Domain(kind))} AS c{place}" for place, (each, kind) in enumerate(kinds.items())
    )
    return sources.arrow(f"SELECT {', '.join(cells)} FROM {own.source}")
