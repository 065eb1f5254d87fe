"""Cells of a Spark source become what the policy declares, in SQL that fails for no cell.

The rules are those of every scan: a cell that is not of its declared type becomes NULL, as do NaN and a value that is
not declared (or the column's ``other``); what lies outside ``bounds`` becomes the bound, reals without bounds are 0 or
between 2^-500 and 2^500 in size, and texts are cut at their ``max_length``. Texts are read by ``plan.grammars``. Each
rule works on one cell by itself, so the scan is stable with factor 1 under both neighbour relations.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.engine.spellings.spark import TYPES, SparkSpelling
from sfumato.engine.spellings.spark_literals import listed, literal, real
from sfumato.errors import InvalidPolicy
from sfumato.plan.grammars import BEYOND, DECIMAL, FALSE, GRAMMARS, LOCAL, LONGEST, TRUE, ZERO
from sfumato.policy import Domain, ListColumn, Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL
from sfumato.privacy.numbers import above, below

WHOLE = {"tinyint", "smallint", "int", "bigint"}
FLOATING = {"float", "double"}
TEXTS = {"string", "char", "varchar"}
_NUMBERS = WHOLE | FLOATING | {"decimal", "boolean"}
_CALENDAR = {"date", "timestamp", "timestamp_ntz"}
_NEAR = {
    Type.INTEGER: _NUMBERS,
    Type.REAL: _NUMBERS,
    Type.BOOLEAN: _NUMBERS,
    Type.DATE: _CALENDAR,
    Type.TIMESTAMP: _CALENDAR,
}
"""The stored types that become a type without their text."""
_WRITTEN = TEXTS | WHOLE | _CALENDAR | {"decimal", "boolean"}
"""The stored types that have a text which every engine would give them."""
_SPELLING = SparkSpelling()
_DATES = (dt.date.min, dt.date.max)
_MOMENTS = (dt.datetime.min, dt.datetime.max)
_SMALLEST, _LARGEST = (real(float(each)) for each in (SMALLEST_REAL, LARGEST_REAL))
_LOWEST, _BEYOND_64_BITS = real(-(2.0**63)), real(2.0**63)


@dataclass(frozen=True)
class Cell:
    """A cell is a column of a source as Spark sees it: its expression and its stored type."""

    sql: str
    stored: str
    sure: bool = False
    """It is there, finite, and a date of the calendar or a real of our range: a text that its grammar proves so."""
    infinite: int = 0
    """−1 or 1 where it lies below or above every bound."""

    @property
    def family(self) -> str:
        """Name the stored type without its parameters and its collation."""
        return self.stored if self.stored.startswith("array<") else self.stored.partition("(")[0].partition(" ")[0]

    @property
    def item(self) -> Cell | None:
        """Give an item of the cell as a function of items sees it; None where the cell is no list."""
        return Cell("sf_item", self.stored[6:-1]) if self.stored.startswith("array<") else None

    def text(self, place: str) -> str:
        """Write the cell as text, told apart letter by letter: a cast to STRING drops a collation, under which rows
        that differ would be grouped together; and what fills up a CHAR is no part of its text.
        """
        if self.family not in _WRITTEN:
            raise InvalidPolicy(
                "cells of this column are stored in a type that has no text which every engine shares",
                place=place,
                fix="declare the column with the type it is stored in, or write it as a text in its source",
            )
        if self.family == "char":
            return f"RTRIM(CAST({self.sql} AS STRING))"
        return self.sql if self.stored == "string" else f"CAST({self.sql} AS STRING)"


def cleaned(cell: Cell, domain: Domain, place: str) -> str:
    """Give the cell as its domain says."""
    if domain.values is not None:
        among = _read(cell, domain.type, place, lambda each: _among(each, domain, place))
        if domain.other is None:
            return among
        return f"COALESCE({among}, CASE WHEN {cell.sql} IS NOT NULL THEN {literal(domain.other)} END)"
    if domain.type is Type.TEXT:
        return f"SUBSTRING({cell.text(place)}, 1, {domain.letters})"
    return _read(cell, domain.type, place, lambda each: _LIMITED[domain.type](each, domain.bounds))


def cleaned_items(cell: Cell, column: ListColumn, place: str) -> str:
    """Give the first items of a list, each cleaned as its domain says."""
    assert cell.item is not None
    made = cleaned(cell.item, column.items, place)
    return f"transform(slice({cell.sql}, 1, {column.most_items}), sf_item -> {made})"


def _among(cell: Cell, domain: Domain, place: str) -> str:
    limited = cell.text(place) if domain.type is Type.TEXT else _LIMITED[domain.type](cell, None)
    return f"CASE WHEN {limited} IN ({listed(domain.values or ())}) THEN {limited} END"


def _read(cell: Cell, kind: Type, place: str, use: Callable[[Cell], str]) -> str:
    """Read a cell from a stored type that is near the kind, or by our grammars from what its text means."""
    if kind is Type.TEXT or cell.family in _NEAR[kind]:
        return use(cell)
    x = cell.text(place)
    branches = (f"WHEN {_SPELLING.matches(x, grammar)} THEN {use(found)}" for grammar, found in _READINGS[kind](x))
    return f"CASE WHEN OCTET_LENGTH({x}) > {LONGEST} THEN NULL {' '.join(branches)} END"


Readings = list[tuple[str, Cell]]
"""The grammars that a text is held against one after the other, and the cell it then is."""


def _infinite(kind: Type) -> Readings:
    """Say of the texts that lie beyond every bound on which side they do."""
    return [
        (grammar, Cell(f"CAST(NULL AS {TYPES[kind]})", TYPES[kind].lower(), infinite=side))
        for grammar, side in zip(BEYOND[kind], (-1, 1), strict=True)
    ]


def _as_integer(x: str) -> Readings:
    return [(GRAMMARS[Type.INTEGER], Cell(_SPELLING.read(x, Type.INTEGER), "bigint", sure=True)), *_as_real(x)[1:]]


def _as_real(x: str) -> Readings:
    """Most numbers have no exponent, and then need no second look: adding 0 makes −0 the 0 it equals."""
    number = _SPELLING.read(x, Type.REAL)
    flushed = f"CASE WHEN ABS({number}) < {_SMALLEST} THEN {real(0.0)} ELSE {number} END"
    return [
        (DECIMAL, Cell(f"({number} + {real(0.0)})", "double", sure=True)),
        (GRAMMARS[Type.REAL], Cell(flushed, "double")),
        (ZERO, Cell(real(0.0), "double")),
        *_infinite(Type.REAL),
    ]


def _as_date(x: str) -> Readings:
    return [(GRAMMARS[Type.DATE], Cell(_SPELLING.read(x, Type.DATE), "date", sure=True)), *_as_timestamp(x)]


def _as_timestamp(x: str) -> Readings:
    """Most times name no zone; one that does may be a moment outside the calendar."""
    moment = _SPELLING.read(x, Type.TIMESTAMP)
    return [
        (LOCAL, Cell(moment, "timestamp_ntz", sure=True)),
        (GRAMMARS[Type.TIMESTAMP], Cell(moment, "timestamp_ntz")),
        *_infinite(Type.TIMESTAMP),
    ]


def _limited_integer(cell: Cell, bounds: Any) -> str:
    if cell.infinite:
        return _end(cell, bounds, Type.INTEGER)
    x = cell.sql
    if cell.family in WHOLE | {"boolean"}:
        whole = x if cell.stored == "bigint" else f"CAST({x} AS BIGINT)"
        return whole if bounds is None else _clamped(whole, bounds, cell.sure)
    whole = f"TRY_CAST({x} AS BIGINT)"
    if cell.family == "decimal":
        broken, held = f"{x} <> FLOOR({x})", f"{whole} IS NOT NULL"
    else:
        broken = f"isnan({x}) OR {x} <> rint({x})"
        held = f"{x} >= {_LOWEST} AND {x} < {_BEYOND_64_BITS}"  # the cast itself takes 2^63 for 2^63 - 1
    if bounds is None:
        return f"CASE WHEN {broken} THEN NULL WHEN {held} THEN {whole} END"
    low, high = (literal(bound) for bound in bounds)
    return (
        f"CASE WHEN {broken} THEN NULL WHEN {held} THEN LEAST(GREATEST({whole}, {low}), {high})"
        f" WHEN {x} < 0 THEN {low} WHEN {x} > 0 THEN {high} END"
    )


def _limited_real(cell: Cell, bounds: Any) -> str:
    if cell.infinite:
        return _end(cell, inner(*bounds) if bounds else None, Type.REAL)
    whole = cell.family in WHOLE | {"boolean"}
    number = cell.sql if cell.stored == "double" else f"CAST({cell.sql} AS DOUBLE)"
    if cell.family == "boolean":
        number = f"CAST(CAST({cell.sql} AS BIGINT) AS DOUBLE)"
    small = f"WHEN ABS({number}) < {_SMALLEST} THEN {real(0.0)} "
    if bounds is None:  # NaN is above infinity, so it meets no branch
        return number if cell.sure or whole else f"CASE {small}WHEN ABS({number}) <= {_LARGEST} THEN {number} END"
    low, high = (real(bound) for bound in inner(*bounds))
    if cell.sure:
        return f"LEAST(GREATEST({number}, {low}), {high})"
    crossing = small if bounds[0] <= 0 <= bounds[1] and not whole else ""
    return (
        f"CASE {crossing}WHEN {number} BETWEEN {low} AND {high} THEN {number} WHEN {number} < {low} THEN {low}"
        f" WHEN {number} <= CAST('Infinity' AS DOUBLE) THEN {high} END"
    )


def inner(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Find the least and the largest double inside exact bounds; the nearest double when none is inside."""
    least, largest = above(low), below(high)
    return (least, largest) if least <= largest else (float(low), float(low))


def _limited_boolean(cell: Cell, _: Any) -> str:
    if cell.family == "boolean":
        return cell.sql
    return f"CASE WHEN {cell.sql} = 0 THEN FALSE WHEN {cell.sql} = 1 THEN TRUE END"


def _limited_date(cell: Cell, bounds: Any) -> str:
    if cell.infinite:
        return _end(cell, bounds, Type.DATE)
    moment = f"CAST({cell.sql} AS TIMESTAMP_NTZ)" if cell.family == "timestamp" else cell.sql
    date = cell.sql if cell.family == "date" else f"CAST({moment} AS DATE)"
    return _within(date, _DATES, cell.sure) if bounds is None else _clamped(date, bounds, cell.sure)


def _limited_timestamp(cell: Cell, bounds: Any) -> str:
    if cell.infinite:
        return _end(cell, bounds, Type.TIMESTAMP)
    time = cell.sql if cell.family == "timestamp_ntz" else f"CAST({cell.sql} AS TIMESTAMP_NTZ)"
    return _within(time, _MOMENTS, cell.sure) if bounds is None else _clamped(time, bounds, cell.sure)


def _end(cell: Cell, bounds: Any, kind: Type) -> str:
    """Give the bound on whose side a cell is infinite; NULL where there is none."""
    if bounds is None:
        return f"CAST(NULL AS {TYPES[kind]})"
    end = bounds[0 if cell.infinite < 0 else 1]
    return real(end) if kind is Type.REAL else literal(end)


def _clamped(sql: str, bounds: Any, sure: bool) -> str:
    """Clamp a value to its range: LEAST and GREATEST skip NULL, so NULL is kept apart."""
    low, high = (literal(bound) for bound in bounds)
    held = f"LEAST(GREATEST({sql}, {low}), {high})"
    return held if sure else f"CASE WHEN {sql} IS NOT NULL THEN {held} END"


def _within(sql: str, bounds: Any, sure: bool) -> str:
    low, high = (literal(bound) for bound in bounds)
    return sql if sure else f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN {sql} END"


_LIMITED: dict[Type, Callable[[Cell, Any], str]] = {
    Type.INTEGER: _limited_integer,
    Type.REAL: _limited_real,
    Type.BOOLEAN: _limited_boolean,
    Type.DATE: _limited_date,
    Type.TIMESTAMP: _limited_timestamp,
}
_READINGS: dict[Type, Callable[[str], Readings]] = {
    Type.INTEGER: _as_integer,
    Type.REAL: _as_real,
    Type.BOOLEAN: lambda _: [(TRUE, Cell("TRUE", "boolean")), (FALSE, Cell("FALSE", "boolean"))],
    Type.DATE: _as_date,
    Type.TIMESTAMP: _as_timestamp,
}
