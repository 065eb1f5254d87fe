"""The scan makes a source's cells what the policy declares, in SQL that never fails and costs little.

Every rule works on one cell (an id: on one row) by itself, so two tables that differ in one unit's rows differ in
that unit's rows after the scan too: it is stable with factor 1 under both neighbour relations.

A cell that is not of its declared type becomes NULL, as do NaN and a value outside ``values`` (or the column's
``other``); ±infinity and numbers outside ``bounds`` become the bound, without bounds reals above 2^500 in size become
NULL, those below 2^-500 are 0, and texts are cut at their ``max_length``. A row without an id is dropped. No rule can
raise: casts of unproved cells are TRY_CASTs, and a stored type that proves a property costs nothing. Texts arrive
without the collation of their source.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.engine.spellings.duckdb_literals import listed, literal, name, real
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL
from sfumato.privacy.numbers import above, below

UNIT = "sf_unit"
"""The column that says whose row it is, in the scan of a table with ids."""

_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL"}
_FLOATING = {"FLOAT", "DOUBLE"}
_ZONED = "TIMESTAMP WITH TIME ZONE"
_TIMES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_SOUND_IDS = _WHOLE | _WIDE | _TIMES | {"ENUM", "BOOLEAN", "DATE", "TIME", "UUID", "BLOB", "INTERVAL", _ZONED}
_DATES = (dt.date.min, dt.date.max)
_MOMENTS = (dt.datetime.min, dt.datetime.max)


@dataclass(frozen=True)
class Cell:
    """A column of a source as the engine sees it: its expression and its stored type."""

    sql: str
    stored: str

    @property
    def family(self) -> str:
        """The stored type without its parameters; a list or a struct has none of these families."""
        return self.stored if self.stored.endswith("]") else self.stored.partition("(")[0]

    @property
    def text(self) -> Cell:
        """The same cell as text, which every type can become, told apart letter by letter.

        A database may give a column a collation, under which GROUP BY, joins and comparisons take different texts for
        equal and name a group after a row they met: one row could then rename it. No type shows a collation and no
        cast drops it, so every text has its collation replaced by that of its bytes, at no cost.
        """
        plain = self.sql if self.family == "VARCHAR" else f"CAST({self.sql} AS VARCHAR)"
        return Cell(f"({plain} COLLATE C)", "VARCHAR")


@dataclass(frozen=True)
class Scan:
    """How one table is read: where from, which cells as what, and whose rows they are."""

    source: str
    columns: Mapping[str, tuple[Cell, Domain, str | None]]
    """Each declared column's cell, what is enforced on it, and the enumeration of its values if there is one."""
    unit: Cell | None
    """The id; None where every row is a unit of its own, or nobody's."""

    @property
    def statement(self) -> str:
        """The SELECT whose columns are the declared ones, clean, and ``sf_unit`` when rows belong to ids."""
        columns = [f"{cleaned(*column)} AS {name(each)}" for each, column in self.columns.items()]
        if self.unit is None:
            return f"SELECT {', '.join(columns)} FROM {self.source}"
        unit = f"{_unit(self.unit)} AS {UNIT}"
        return f"SELECT {', '.join([*columns, unit])} FROM {self.source} WHERE {owned(self.unit)}"


def owned(unit: Cell) -> str:
    """Whether a row says whose it is."""
    return f"{unit.sql} IS NOT NULL" + (f" AND NOT isnan({unit.sql})" if unit.family in _FLOATING else "")


def _unit(unit: Cell) -> str:
    """The id in its own type where equality is sound there: −0.0 is 0.0, and all else is compared as text."""
    if unit.family in _FLOATING:
        return f"CASE WHEN {unit.sql} = 0 THEN 0 ELSE {unit.sql} END"
    return unit.sql if unit.family in _SOUND_IDS else unit.text.sql


def cleaned(cell: Cell, domain: Domain, choices: str | None = None) -> str:
    """The cell as its domain says. ``choices`` names an enumeration of the domain's values."""
    if choices is not None:  # a hash look-up, several times faster than IN
        return _or_other(cell, domain, f"CAST(TRY_CAST({typed(cell, domain.type)} AS {choices}) AS VARCHAR)")
    if domain.values is not None:
        limited = _LIMITED[domain.type](cell, None)
        return _or_other(cell, domain, f"CASE WHEN {limited} IN ({listed(domain.values)}) THEN {limited} END")
    if domain.type is Type.TEXT:
        return f"left({_text(cell)}, {domain.letters})"
    return _LIMITED[domain.type](cell, domain.bounds)


def _or_other(cell: Cell, domain: Domain, sql: str) -> str:
    """What is there and not declared as the value that stands for it, where the column names one."""
    if domain.other is None:
        return sql
    return f"COALESCE({sql}, CASE WHEN {cell.sql} IS NOT NULL THEN {literal(domain.other)} END)"


def typed(cell: Cell, kind: Type) -> str:
    """The cell in the engine's type of that kind, or NULL; not yet limited to what is finite."""
    return _TYPED[kind](cell)


def _integer(cell: Cell) -> str:
    if cell.family == "BIGINT":
        return cell.sql
    return f"CAST({cell.sql} AS BIGINT)" if cell.family in _WHOLE else f"TRY_CAST({_number(cell)} AS BIGINT)"


def _number(cell: Cell) -> str:
    """Numbers and text can be read as numbers, anything else only through its text."""
    numeric = cell.family in _WHOLE | _WIDE | _FLOATING | {"BOOLEAN"}
    return cell.sql if numeric else cell.text.sql


def _real(cell: Cell) -> str:
    if cell.family == "DOUBLE":
        return cell.sql
    sure = cell.family in _WHOLE | {"FLOAT"}
    return f"CAST({cell.sql} AS DOUBLE)" if sure else f"TRY_CAST({_number(cell)} AS DOUBLE)"


def _text(cell: Cell) -> str:
    return cell.text.sql


def _boolean(cell: Cell) -> str:
    if cell.family == "BOOLEAN":
        return cell.sql
    if cell.family in _WHOLE | _WIDE | _FLOATING:
        return f"CASE WHEN {cell.sql} = 0 THEN FALSE WHEN {cell.sql} = 1 THEN TRUE END"
    return f"TRY_CAST({cell.text.sql} AS BOOLEAN)"


def _date(cell: Cell) -> str:
    if cell.family == "DATE":
        return cell.sql
    return f"TRY_CAST({_timestamp(cell) if cell.family in _TIMES | {_ZONED} else cell.text.sql} AS DATE)"


def _timestamp(cell: Cell) -> str:
    if cell.family == "TIMESTAMP":
        return cell.sql
    if cell.family in _TIMES | {_ZONED, "DATE"}:
        return f"TRY_CAST({cell.sql} AS TIMESTAMP)"
    # The zone a text names counts: the connection's own zone is UTC.
    return f"TRY_CAST(TRY_CAST({cell.text.sql} AS TIMESTAMPTZ) AS TIMESTAMP)"


def _limited_integer(cell: Cell, bounds: Any) -> str:
    whole = _integer(cell)
    if cell.family in _WHOLE:
        return whole if bounds is None else _clamped(whole, bounds)
    number = _real(cell)
    if bounds is None:
        return f"CASE WHEN {number} = trunc({number}) THEN {whole} END"
    low, high = (literal(bound) for bound in bounds)
    return (
        f"CASE WHEN isnan({number}) OR {number} <> trunc({number}) THEN NULL"
        f" WHEN {whole} IS NOT NULL THEN LEAST(GREATEST({whole}, {low}), {high})"
        f" WHEN {number} < 0 THEN {low} WHEN {number} > 0 THEN {high} END"
    )


def _limited_real(cell: Cell, bounds: Any) -> str:
    number = _real(cell)
    small = f"WHEN abs({number}) < {_SMALLEST} THEN 0 "
    if bounds is None:
        # NaN is above infinity to the engine, so it meets no branch.
        return number if cell.family in _WHOLE else f"CASE {small}WHEN abs({number}) <= {_LARGEST} THEN {number} END"
    low, high = (real(bound) for bound in inner(*bounds))
    crossing = small if bounds[0] <= 0 <= bounds[1] and cell.family not in _WHOLE else ""
    return (
        f"CASE {crossing}WHEN {number} BETWEEN {low} AND {high} THEN {number} WHEN {number} < {low} THEN {low}"
        f" WHEN {number} <= CAST('inf' AS DOUBLE) THEN {high} END"
    )


_SMALLEST, _LARGEST = (real(float(each)) for each in (SMALLEST_REAL, LARGEST_REAL))


def inner(low: Fraction, high: Fraction) -> tuple[float, float]:
    """The least and the largest double inside exact bounds; the nearest double when none is inside."""
    least, largest = above(low), below(high)
    return (least, largest) if least <= largest else (float(low), float(low))


def _limited_date(cell: Cell, bounds: Any) -> str:
    return _within(_date(cell), _DATES) if bounds is None else _clamped(_date(cell), bounds)


def _limited_timestamp(cell: Cell, bounds: Any) -> str:
    return _within(_timestamp(cell), _MOMENTS) if bounds is None else _clamped(_timestamp(cell), bounds)


def _clamped(sql: str, bounds: Any) -> str:
    """LEAST and GREATEST skip NULL, so NULL is kept apart; infinite dates are ordered like any other."""
    low, high = (literal(bound) for bound in bounds)
    return f"CASE WHEN {sql} IS NOT NULL THEN LEAST(GREATEST({sql}, {low}), {high}) END"


def _within(sql: str, bounds: Any) -> str:
    low, high = (literal(bound) for bound in bounds)
    return f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN {sql} END"


_TYPED: dict[Type, Callable[[Cell], str]] = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.TEXT: _text,
    Type.BOOLEAN: _boolean,
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}
_LIMITED: dict[Type, Callable[[Cell, Any], str]] = {
    Type.INTEGER: _limited_integer,
    Type.REAL: _limited_real,
    Type.TEXT: lambda cell, _: _text(cell),
    Type.BOOLEAN: lambda cell, _: _boolean(cell),
    Type.DATE: _limited_date,
    Type.TIMESTAMP: _limited_timestamp,
}
