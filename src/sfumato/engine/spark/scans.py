"""The clean scan of a table is a frame: the declared columns as the policy says, and ``sf_unit``, whose row it is.

A row's unit is the id in it, or every owner of the row of another table that it names. (key, unit) is made distinct at
every hop, so that how often a unit names a key does not matter: what a unit has after the scan is found from its own
rows and from rows that nobody owns, and two databases that differ in one unit differ in that unit's rows alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.spark.cells import FLOATING, TEXTS, WHOLE, Cell, cleaned, cleaned_items
from sfumato.engine.spark.sources import Frame, Source
from sfumato.engine.spellings.spark_literals import literal, name
from sfumato.errors import InvalidPolicy
from sfumato.plan import calendar
from sfumato.policy import Domain, Policy, Table, Type, Via

UNIT = "sf_unit"
Read = Callable[[Cell], str]
"""A cell in the type in which it is compared; NULL where it is not of that type."""
_SOUND = WHOLE | {"decimal", "boolean", "date", "timestamp", "timestamp_ntz", "binary"}


@dataclass(frozen=True)
class Owner:
    """An owner says whose a row is, in SQL over the columns of its source."""

    key: str
    """The id, or what names the row of another table whose owners it has."""
    owned: str
    """Whether the row says it."""
    period: str | None = None
    links: Frame = None
    """The keys of that table (``sf_key``), each with every unit that owns such a row; None where the key is the id."""

    @property
    def unit(self) -> str:
        return self.key if self.period is None else f"named_struct('id', {self.key}, 'period', {self.period})"


@dataclass(frozen=True)
class Scans:
    """This makes the clean scans of a policy's private tables."""

    policy: Policy
    sources: Mapping[str, Source]
    expression: Callable[[str], Any]

    def scan(self, table: Table) -> Frame:
        """Give the frame of a table's clean rows, each as often as it has owners."""
        source, place = self.sources[table.name], f"tables.{table.name}.columns"
        columns = {
            each: cleaned(source.cell(each, f"{place}.{each}"), domain, f"{place}.{each}")
            for each, domain in table.columns.items()
        }
        return self._selected(columns | {each: self._list(table, each) for each in table.lists}, table)

    def told(self, table: Table) -> Frame:
        """Give the rows of a source, each once, beside ``k``: whether it is somebody's. For those who compare."""
        frame, owner = self.sources[table.name].frame, self._owner(table)
        if owner is None:
            return frame.select("*", self.expression("TRUE").alias("k"))
        if owner.links is None:
            return frame.select("*", self.expression(f"COALESCE({owner.owned}, FALSE)").alias("k"))
        period = [] if owner.period is None else [self.expression(f"{UNIT}.period").alias("sf_period")]
        known = owner.links.select("sf_key", *period, self.expression("TRUE").alias("sf_known")).distinct().alias("l")
        on = f"{owner.key} = l.sf_key" + ("" if owner.period is None else f" AND {owner.period} = l.sf_period")
        met = frame.alias("r").join(known, self.expression(f"{owner.owned} AND {on}"), "left")
        return met.select("r.*", self.expression("sf_known IS NOT NULL").alias("k"))

    def _list(self, table: Table, column: str) -> str:
        place = f"tables.{table.name}.columns.{column}"
        cell = self.sources[table.name].cell(column, place)
        if cell.item is None:
            raise InvalidPolicy(
                f"{column} is no list in its source", place=f"{place}.most_items", fix="leave most_items out"
            )
        return cleaned_items(cell, table.lists[column], place)

    def _selected(self, columns: Mapping[str, str], table: Table) -> Frame:
        frame, owner = self.sources[table.name].frame, self._owner(table)
        made = [self.expression(sql).alias(each) for each, sql in columns.items()]
        if owner is None:
            return frame.select(*made)
        owned = frame.filter(self.expression(owner.owned))
        if owner.links is None:
            return owned.select(*made, self.expression(owner.unit).alias(UNIT))
        named = [self.expression(owner.key).alias("sf_key")]
        on = "r.sf_key = l.sf_key"
        if owner.period is not None:
            named.append(self.expression(owner.period).alias("sf_period"))
            on += f" AND r.sf_period = l.{UNIT}.period"
        joined = owned.select(*made, *named).alias("r").join(owner.links.alias("l"), self.expression(on), "inner")
        shown = [self.expression(f"r.{name(each)}").alias(each) for each in columns]
        return joined.select(*shown, self.expression(f"l.{UNIT}").alias(UNIT))

    def _owner(self, table: Table) -> Owner | None:
        """Find whose the rows of a table are; None where every row is a unit of its own."""
        if table.every_row:
            return None
        period = self._period(table)
        if not isinstance(table.id, Via):
            return _owned(self._cell(table, str(table.id), "id"), self._read_id(table), period)
        parent = self.policy.tables[table.id.via]
        place = f"tables.{table.name}.id.key"
        on, key = self._cell(table, table.id.on, "id.on"), self.sources[parent.name].cell(table.id.key, place)
        read = _common((on, key), place) or _meeting((on, key), place)
        present = f"CASE WHEN {_there(key)} THEN {read(key)} END"
        rows = self._selected({"sf_key": present}, parent)
        links = rows.filter(self.expression("sf_key IS NOT NULL")).distinct()
        return _owned(on, read, period, links)

    def _read_id(self, table: Table) -> Read:
        """Say how ids become the one type that all tables of the population have."""
        place = f"tables.{table.name}.id"
        if self.policy.id_type is not None:
            return _typed(self.policy.id_type, place)
        own = self._cell(table, str(table.id), "id")
        others = [each for each in self.policy.tables.values() if not each.public and not isinstance(each.id, Via)]
        cells = [self._cell(each, str(each.id), "id") for each in others]
        read = _common(cells, place)
        if read is not None:
            return read
        other, cell = next(
            (each, cell) for each, cell in zip(others, cells, strict=True) if _common((own, cell), place) is None
        )
        raise InvalidPolicy(
            f"the ids of one population have one type: those of {table.name} are stored as {own.stored}, those of "
            f"{other.name} as {cell.stored}",
            place=place,
            fix='say in [unit] what ids are: id_type = "integer" makes 007 and 7 one id, id_type = "text" two; a row '
            "whose id is not of that type is dropped",
        )

    def _period(self, table: Table) -> str | None:
        """Find the start of the period that a row lies in. No bound is applied before: two days would become one."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        kind, bounds = table.columns[column].type, table.columns[column].bounds
        moment = cleaned(self._cell(table, column, "period"), Domain(kind), f"tables.{table.name}.period")
        start = f"CAST(date_trunc('{self.policy.unit.period}', {moment}) AS DATE)"
        return start if self.policy.per is None or bounds is None else _paid_for(start, self.policy.per, bounds)

    def _cell(self, table: Table, column: str, part: str) -> Cell:
        return self.sources[table.name].cell(column, f"tables.{table.name}.{part}")


def _paid_for(start: str, per: str, bounds: Any) -> str:
    """Leave a row without a period where its account would be none within the declared bounds: clamped to a bound it
    would be read with the rows of another account, which would then pay for a unit that is not its own.
    """
    first, last = calendar.truncated(per, bounds[0]), calendar.truncated(per, bounds[1])
    end = calendar.shifted(last, 1, per)
    within = f"{start} >= {literal(_day(first))}" + ("" if end is None else f" AND {start} < {literal(_day(end))}")
    return f"CASE WHEN {within} THEN {start} END"


def _day(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _owned(cell: Cell, read: Read, period: str | None, links: Frame = None) -> Owner:
    there = f"{_there(cell)} AND {read(cell)} IS NOT NULL"
    return Owner(read(cell), there if period is None else f"{there} AND {period} IS NOT NULL", period, links)


def _there(cell: Cell) -> str:
    """Tell whether a row says whose it is: NaN is nobody."""
    return f"{cell.sql} IS NOT NULL" + (f" AND NOT isnan({cell.sql})" if cell.family in FLOATING else "")


def _sound(place: str) -> Read:
    """Compare a cell in its own type where equality is sound there: −0.0 is 0.0, and all else is compared as text."""

    def read(cell: Cell) -> str:
        if cell.family in FLOATING:
            return f"CASE WHEN {cell.sql} = 0 THEN CAST(0 AS {cell.family.upper()}) ELSE {cell.sql} END"
        return cell.sql if cell.family in _SOUND else cell.text(place)

    return read


def _common(cells: Sequence[Cell], place: str) -> Read | None:
    """Say how cells of several sources are compared without being read as another type; None where they cannot be."""
    families = {each.family for each in cells}
    if len({each.stored for each in cells}) == 1:
        return _sound(place)
    if families <= WHOLE:
        return lambda cell: f"CAST({cell.sql} AS BIGINT)"
    return _typed(Type.TEXT, place) if families <= TEXTS else None


def _meeting(cells: Sequence[Cell], place: str) -> Read:
    """Say how keys that are stored in two types are compared: as whole numbers where one of them is a number."""
    numbers = WHOLE | FLOATING | {"decimal"}
    families = {each.family for each in cells}
    whole = families & numbers and families <= numbers | TEXTS
    return _typed(Type.INTEGER if whole else Type.TEXT, place)


def _typed(kind: Type, place: str) -> Read:
    if kind is Type.TEXT:
        return lambda cell: cell.text(place)
    return lambda cell: cleaned(cell, Domain(Type.INTEGER), place)
