"""A row's unit is found in DuckDB's SQL: by the id in it, or as every owner of the row of another table that it names.

Each rule looks at one row and, along a path, at the rows of other tables that have its key. A row that several units
lead to is a row of each, and (key, unit) is made distinct at every hop, so that how often a unit names a key does not
matter. What a unit has after the scan is thus found from its own rows and from rows without an id of their own, never
from what other units own: two databases that differ in one unit differ in that unit's rows alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.duckdb.relations import Relation
from sfumato.engine.duckdb.scan import FLOATING, WHOLE, Cell, Owner, cleaned, links, owned, sound, whole_id
from sfumato.engine.spellings.duckdb_literals import literal
from sfumato.errors import InvalidPolicy
from sfumato.plan.values import calendar
from sfumato.policy import Domain, Policy, Table, Type, Via

Read = Callable[[Cell], str]
"""A cell in the type in which it is compared; NULL where it is not of that type."""

_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_TEXTS = {"VARCHAR", "ENUM"}
_NUMBERS = WHOLE | _WIDE | FLOATING | {"DECIMAL"}


@dataclass(frozen=True)
class Owners:
    """This finds whose the rows of each table are."""

    policy: Policy
    relations: Mapping[str, Relation]

    def of(self, table: Table) -> Owner | None:
        """Find whose the rows of a table are; None where every row is a unit of its own, or nobody's."""
        if table.public or table.every_row:
            return None
        period = self._period(table)
        if not isinstance(table.id, Via):
            return _owner(self._cell(table, table.id, "id"), self._read_id(table), period)
        parent = self.policy.tables[table.id.via]
        on = self._cell(table, table.id.on, "id.on")
        key = self.relations[parent.name].cell(table.id.key, f"tables.{table.name}.id.key")
        read = _common((on, key)) or _meeting((on, key))
        found = links(self.relations[parent.name].sql, self.of(parent), _present(key, read))
        return _owner(on, read, period, found)

    def _read_id(self, table: Table) -> Read:
        """Say how ids become the one type that all tables of the population have."""
        if self.policy.id_type is not None:
            return _TYPES[self.policy.id_type]
        own = self._cell(table, table.id, "id")
        others = [each for each in self.policy.tables.values() if not each.public and not isinstance(each.id, Via)]
        cells = [self._cell(each, each.id, "id") for each in others]
        read = _common(cells)
        if read is not None:
            return read
        other, cell = next(
            (each, cell) for each, cell in zip(others, cells, strict=True) if _common((own, cell)) is None
        )
        raise InvalidPolicy(
            f"the ids of one population have one type: those of {table.name} are stored as {own.stored}, those of "
            f"{other.name} as {cell.stored}",
            place=f"tables.{table.name}.id",
            fix='say in [unit] what ids are: id_type = "integer" makes 007 and 7 one id, id_type = "text" two; a row '
            "whose id is not of that type is dropped",
        )

    def _period(self, table: Table) -> str | None:
        """Find the start of the period that a row lies in. No bound is applied before: two days would become one."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        moment = cleaned(self._cell(table, column, "period"), Domain(table.columns[column].type))
        start = f"CAST(date_trunc('{self.policy.unit.period}', {moment}) AS DATE)"
        bounds = table.columns[column].bounds
        return start if self.policy.per is None or bounds is None else _paid_for(start, self.policy.per, bounds)

    def _cell(self, table: Table, column: str, part: str) -> Cell:
        return self.relations[table.name].cell(column, f"tables.{table.name}.{part}")


def _paid_for(start: str, per: str, bounds: Any) -> str:
    """Leave a row without a period where its account would be none within the declared bounds.

    Clamped to a bound it would be read with the rows of another account, which would then pay for a unit that is not
    its own. A row of the same account as the bound stays.
    """
    first, last = calendar.truncated(per, bounds[0]), calendar.truncated(per, bounds[1])
    end = calendar.shifted(last, 1, per)
    above = f"{start} >= {literal(_day(first))}"
    within = above if end is None else f"{above} AND {start} < {literal(_day(end))}"
    return f"CASE WHEN {within} THEN {start} END"


def _day(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _owner(cell: Cell, read: Read, period: str | None, found: str | None = None) -> Owner:
    kept = owned(cell) if read is sound else f"{read(cell)} IS NOT NULL"
    return Owner(read(cell), kept if period is None else f"{kept} AND {period} IS NOT NULL", period, found)


def _present(cell: Cell, read: Read) -> str:
    """Give a key, or NULL where there is none."""
    return f"CASE WHEN {owned(cell)} THEN {read(cell)} END"


def _common(cells: Sequence[Cell]) -> Read | None:
    """Say how cells of several sources are compared without being read as another type; None where they cannot be."""
    families = {each.family for each in cells}
    if len({each.stored for each in cells}) == 1:
        return sound
    if families <= WHOLE:
        return lambda cell: f"CAST({cell.sql} AS BIGINT)"
    if families <= WHOLE | _WIDE:
        return lambda cell: f"TRY_CAST({cell.sql} AS HUGEINT)"
    return (lambda cell: cell.text.sql) if families <= _TEXTS else None


def _meeting(cells: Sequence[Cell]) -> Read:
    """Say how keys that are stored in two types are compared: as whole numbers where one of them is a number."""
    families = {each.family for each in cells}
    numbers = families & _NUMBERS and families <= _NUMBERS | _TEXTS
    return _TYPES[Type.INTEGER if numbers else Type.TEXT]


_TYPES: dict[Type, Read] = {
    Type.INTEGER: whole_id,
    Type.TEXT: lambda cell: cell.text.sql,
}
