"""The scan makes a source's cells what the policy declares, in SQL that never fails and costs little.

Every rule works on one cell (an id: on one row) by itself, so two tables that differ in one unit's rows differ in
that unit's rows after the scan too: it is stable with factor 1 under both neighbour relations.

A cell that is a text, or has no other way to become the declared type, is read by the grammars of ``plan.grammars``,
as CAST reads it. A cell that is not of its declared type becomes NULL, as do NaN and a value outside ``values`` (or
the column's ``other``); ±infinity and numbers outside ``bounds`` become the bound, without bounds reals above 2^500 in
size become NULL, those below 2^-500 are 0, and texts are cut at their ``max_length``. A row without an id is dropped.
No rule can raise: casts of unproved cells are TRY_CASTs, and a stored type that proves a property costs nothing. Texts
arrive without the collation of their source. A list keeps its first ``most_items`` items, each by these rules.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.engine.sources.clean_cells import inner, largest_whole
from sfumato.engine.spellings.duckdb import TYPES, DuckDBSpelling, listed, literal, name, real
from sfumato.plan.values.grammars import BEYOND, DECIMAL, EXACT, FALSE, GRAMMARS, LOCAL, LONGEST, TRUE, ZERO
from sfumato.policy import Domain, ListColumn, Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL

UNIT = "sf_unit"
"""The column that says whose row it is, in the scan of a table with ids."""

WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL"}
FLOATING = {"FLOAT", "DOUBLE"}
_ZONED = "TIMESTAMP WITH TIME ZONE"
_TIMES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_SOUND_IDS = WHOLE | _WIDE | _TIMES | {"ENUM", "BOOLEAN", "DATE", "TIME", "UUID", "BLOB", "INTERVAL", _ZONED}
_NUMBERS = WHOLE | _WIDE | FLOATING | {"BOOLEAN"}
_CALENDAR = _TIMES | {_ZONED, "DATE"}
_NEAR = {
    Type.INTEGER: _NUMBERS,
    Type.REAL: _NUMBERS,
    Type.BOOLEAN: _NUMBERS,
    Type.DATE: _CALENDAR,
    Type.TIMESTAMP: _CALENDAR,
}
"""The stored types that become a type without their text."""
_SPELLING = DuckDBSpelling()
_DATES = (dt.date.min, dt.date.max)
_MOMENTS = (dt.datetime.min, dt.datetime.max)


@dataclass(frozen=True)
class Cell:
    """A cell is a column of a source as the engine sees it: its expression and its stored type."""

    sql: str
    stored: str
    sure: bool = False
    """It is there, finite, and a date of the calendar or a real of our range: a text that its grammar proves so."""
    flushed: bool = False
    """It is a real, and 0 where it is smaller than the smallest of our range."""
    infinite: bool = False
    """It lies beyond every bound, as its grammar proves."""

    @property
    def family(self) -> str:
        """Name the stored type without its parameters; a list or a struct has none of these families."""
        return self.stored if self.stored.endswith("]") else self.stored.partition("(")[0]

    @property
    def item(self) -> Cell | None:
        """Give an item of the cell as a function of items sees it; None where the cell is no list."""
        return Cell("sf_item", self.stored[: self.stored.rindex("[")]) if self.stored.endswith("]") else None

    @property
    def text(self) -> Cell:
        """Give the same cell as text, which every type can become, told apart letter by letter.

        A database may give a column a collation, under which GROUP BY, joins and comparisons take different texts for
        equal and name a group after a row they met: one row could then rename it. No type shows a collation and no
        cast drops it, so every text has its collation replaced by that of its bytes, at no cost.
        """
        plain = self.sql if self.family == "VARCHAR" else f"CAST({self.sql} AS VARCHAR)"
        return Cell(f"({plain} COLLATE C)", "VARCHAR")


@dataclass(frozen=True)
class Owner:
    """An owner says whose a row is, in SQL over the columns of its source."""

    key: str
    """The id, or what names the row of another table whose owners it has."""
    owned: str
    """Whether the row says it."""
    period: str | None = None
    """The start of the period it lies in, where a unit is an id in a period."""
    links: str | None = None
    """The SELECT of that table's keys, each with every unit that owns such a row; None where the key is the id."""

    @property
    def unit(self) -> str:
        """Give the unit of a row whose key is the id."""
        return self.key if self.period is None else f"struct_pack(id := {self.key}, period := {self.period})"


@dataclass(frozen=True)
class TableScan:
    """A scan says how one table is read: where from, which cells as what, and whose rows they are."""

    source: str
    columns: Mapping[str, tuple[Cell, Domain, str | None]]
    """Each declared column's cell, what is enforced on it, and the enumeration of its values if there is one."""
    owner: Owner | None
    """None where every row is a unit of its own, or nobody's."""
    lists: Mapping[str, tuple[Cell, ListColumn, str | None]] = field(default_factory=dict)
    """The same for columns that are lists."""

    @property
    def statement(self) -> str:
        """Write the SELECT whose columns are the declared ones, clean, and ``sf_unit`` when rows belong to units."""
        columns = {each: cleaned(*column) for each, column in self.columns.items()}
        lists = {each: cleaned_items(*column) for each, column in self.lists.items()}
        return selected({**columns, **lists}, self.source, self.owner)

    @property
    def kept(self) -> str:
        """Tell whether a row of the source belongs to anybody."""
        owner = self.owner
        if owner is None:
            return "TRUE"
        if owner.links is None:
            return owner.owned
        named, known = (owner.key, "sf_key") if owner.period is None else _with_period(owner)
        return f"{owner.owned} AND {named} IN (SELECT {known} FROM ({owner.links}))"


def _with_period(owner: Owner) -> tuple[str, str]:
    return f"({owner.key}, {owner.period})", f"(sf_key, {UNIT}.period)"


def selected(columns: Mapping[str, str], source: str, owner: Owner | None) -> str:
    """Write a SELECT of columns, given as SQL over a source, with ``sf_unit`` beside them: a row for each of its
    owners.
    """
    written = ", ".join(f"{sql} AS {name(each)}" for each, sql in columns.items())
    if owner is None:
        return f"SELECT {written} FROM {source}"
    if owner.links is None:
        return f"SELECT {written}, {owner.unit} AS {UNIT} FROM {source} WHERE {owner.owned}"
    period = "" if owner.period is None else f", {owner.period} AS sf_period"
    own = f"SELECT {written}, {owner.key} AS sf_key{period} FROM {source} WHERE {owner.owned}"
    same = "r.sf_key = l.sf_key" + ("" if owner.period is None else f" AND r.sf_period = l.{UNIT}.period")
    shown = ", ".join(f"r.{name(each)}" for each in columns)
    return f"SELECT {shown}, l.{UNIT} FROM ({own}) AS r JOIN ({owner.links}) AS l ON {same}"


def links(source: str, owner: Owner | None, key: str) -> str:
    """Write the SELECT of the keys of a table's rows, each once with every unit that owns such a row."""
    rows = selected({"sf_link": key}, source, owner)
    return f"SELECT DISTINCT sf_link AS sf_key, {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL"


def copies(source: str, owner: Owner) -> str:
    """Write the SELECT of how many rows a source has when each owner has a copy of its own, counted key by key."""
    named = f"SELECT {owner.key} AS k, count(*) AS n FROM {source} WHERE {owner.owned} GROUP BY k"
    found = f"SELECT sf_key AS k, count(*) AS n FROM ({owner.links}) GROUP BY k"
    rows = f"SELECT sum(CAST(a.n AS HUGEINT) * b.n) FROM ({named}) AS a JOIN ({found}) AS b ON a.k = b.k"
    return f"SELECT greatest(coalesce(({rows}), 0), (SELECT count(*) FROM {source}))"


def owned(unit: Cell) -> str:
    """Tell whether a row says whose it is."""
    return f"{unit.sql} IS NOT NULL" + (f" AND NOT isnan({unit.sql})" if unit.family in FLOATING else "")


def sound(unit: Cell) -> str:
    """Compare the id in its own type where equality is sound there: −0.0 is 0.0, and all else is compared as text."""
    if unit.family in FLOATING:
        return f"CASE WHEN {unit.sql} = 0 THEN 0 ELSE {unit.sql} END"
    return unit.sql if unit.family in _SOUND_IDS else unit.text.sql


def cleaned(cell: Cell, domain: Domain, choices: str | None = None) -> str:
    """Give the cell as its domain says. ``choices`` names an enumeration of the domain's values."""
    if choices is not None:  # a hash look-up, several times faster than IN
        return _or_other(cell, domain, f"CAST(TRY_CAST({typed(cell, domain.type)} AS {choices}) AS VARCHAR)")
    if domain.values is not None:
        return _or_other(cell, domain, _read(cell, domain.type, lambda each: _among(each, domain)))
    if domain.type is Type.TEXT:
        text, most = cell.text.sql, domain.letters
        # a text has no more letters than bytes: the test is made once for equal cells, to cut is done cell by cell
        return f"CASE WHEN strlen({text}) <= {most} THEN {text} ELSE left({text}, {most}) END"
    return _read(cell, domain.type, lambda each: _limited(each, domain.type, domain.bounds))


def whole_id(cell: Cell) -> str:
    """Give the id in a cell as a whole number, or NULL, where nobody's id could be another's (``clean_scans``)."""
    x, made = cell.sql, cleaned(cell, Domain(Type.INTEGER))
    if cell.family == "DECIMAL":
        return f"CASE WHEN {x} = trunc({x}) THEN TRY_CAST({x} AS BIGINT) END"
    if cell.family in FLOATING:
        return f"CASE WHEN abs({x}) < {largest_whole(cell.family == 'FLOAT')} THEN {made} END"
    if cell.family in _NEAR[Type.INTEGER]:
        return made
    text = cell.text.sql
    exact = " OR ".join(_SPELLING.matches(text, each) for each in (GRAMMARS[Type.INTEGER], EXACT))
    return f"CASE WHEN strlen({text}) <= {LONGEST} AND ({exact}) THEN {made} END"


def cleaned_items(cell: Cell, column: ListColumn, choices: str | None = None) -> str:
    """Give the first items of a list, each cleaned as its domain says."""
    assert cell.item is not None
    made = cleaned(cell.item, column.items, choices)
    return f"list_transform(list_slice({cell.sql}, 1, {column.most_items}), lambda {cell.item.sql}: {made})"


def _among(cell: Cell, domain: Domain) -> str:
    limited = _limited(cell, domain.type, None)
    if limited == _MISSING:
        return _MISSING
    return f"CASE WHEN {limited} IN ({listed(domain.values or ())}) THEN {limited} END"


def _or_other(cell: Cell, domain: Domain, sql: str) -> str:
    """Read what is there and not declared as the value that stands for it, where the column names one."""
    if domain.other is None:
        return sql
    return f"COALESCE({sql}, CASE WHEN {cell.sql} IS NOT NULL THEN {literal(domain.other)} END)"


def typed(cell: Cell, kind: Type) -> str:
    """Give the cell in the engine's type of that kind, or NULL; not yet limited to what is finite."""
    return _read(cell, kind, _TYPED[kind])


def _read(cell: Cell, kind: Type, use: Callable[[Cell], str]) -> str:
    """Read a cell from a stored type that is near the kind, or by our grammars from what its text means."""
    if kind is Type.TEXT or cell.family in _NEAR[kind]:
        return use(cell)
    x = cell.text.sql
    readings = [(grammar, use(found)) for grammar, found in _READINGS[kind](x)]
    while readings[-1][1] == _MISSING:  # what meets no branch is missing, too, and a pattern is dear to prepare
        readings.pop()
    branches = " ".join(f"WHEN {_SPELLING.matches(x, grammar)} THEN {read}" for grammar, read in readings)
    return f"CASE WHEN strlen({x}) > {LONGEST} THEN NULL {branches} END"


_MISSING = "NULL"


Readings = list[tuple[str, Cell]]
"""The grammars that a text is held against one after the other, and the cell it then is."""


def _beyond(kind: Type) -> Readings:
    """Make infinite what lies beyond every bound, as it is in a stored type."""
    ends = zip(BEYOND[kind], ("-infinity", "infinity"), strict=True)
    return [(grammar, Cell(f"CAST('{end}' AS {TYPES[kind]})", TYPES[kind], infinite=True)) for grammar, end in ends]


def _as_integer(x: str) -> Readings:
    return [(GRAMMARS[Type.INTEGER], Cell(_SPELLING.read(x, Type.INTEGER), "BIGINT", sure=True)), *_as_real(x)[1:]]


def _as_real(x: str) -> Readings:
    """Most numbers have no exponent, and then need no second look: adding 0 makes −0 the 0 it equals."""
    number = _SPELLING.read(x, Type.REAL)
    flushed = f"CASE WHEN abs({number}) < {_SMALLEST} THEN 0 ELSE {number} END"
    return [
        (DECIMAL, Cell(f"({number} + CAST(0 AS DOUBLE))", "DOUBLE", sure=True)),
        (GRAMMARS[Type.REAL], Cell(flushed, "DOUBLE", flushed=True)),
        (ZERO, Cell("CAST(0 AS DOUBLE)", "DOUBLE", sure=True)),
        *_beyond(Type.REAL),
    ]


def _as_boolean(_: str) -> Readings:
    return [(TRUE, Cell("TRUE", "BOOLEAN")), (FALSE, Cell("FALSE", "BOOLEAN"))]


def _as_date(x: str) -> Readings:
    return [(GRAMMARS[Type.DATE], Cell(_SPELLING.read(x, Type.DATE), "DATE", sure=True)), *_as_timestamp(x)]


def _as_timestamp(x: str) -> Readings:
    """Most times name no zone; one that does may be a moment outside the calendar."""
    return [
        (LOCAL, Cell(_SPELLING.read_local(x), "TIMESTAMP", sure=True)),
        (GRAMMARS[Type.TIMESTAMP], Cell(_SPELLING.read(x, Type.TIMESTAMP), "TIMESTAMP")),
        *_beyond(Type.TIMESTAMP),
    ]


def _integer(cell: Cell) -> str:
    if cell.family == "BIGINT":
        return cell.sql
    return f"{'CAST' if cell.family in WHOLE else 'TRY_CAST'}({cell.sql} AS BIGINT)"


def _real(cell: Cell) -> str:
    if cell.family == "DOUBLE":
        return cell.sql
    return f"{'CAST' if cell.family in WHOLE | {'FLOAT'} else 'TRY_CAST'}({cell.sql} AS DOUBLE)"


def _boolean(cell: Cell) -> str:
    if cell.family == "BOOLEAN":
        return cell.sql
    return f"CASE WHEN {cell.sql} = 0 THEN FALSE WHEN {cell.sql} = 1 THEN TRUE END"


def _date(cell: Cell) -> str:
    return cell.sql if cell.family == "DATE" else f"TRY_CAST({_timestamp(cell)} AS DATE)"


def _timestamp(cell: Cell) -> str:
    return cell.sql if cell.family == "TIMESTAMP" else f"TRY_CAST({cell.sql} AS TIMESTAMP)"


def _limited(cell: Cell, kind: Type, bounds: Any) -> str:
    """Give the cell within its bounds; without any, what is infinite is missing."""
    return _MISSING if cell.infinite and bounds is None else _LIMITED[kind](cell, bounds)


def _limited_integer(cell: Cell, bounds: Any) -> str:
    whole = _integer(cell)
    if cell.family in WHOLE:
        return whole if bounds is None else _clamped(whole, bounds, cell.sure)
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
    small = "" if cell.flushed else f"WHEN abs({number}) < {_SMALLEST} THEN 0 "
    if bounds is None:
        # NaN is above infinity to the engine, so it meets no branch.
        fits = cell.sure or cell.family in WHOLE
        return number if fits else f"CASE {small}WHEN abs({number}) <= {_LARGEST} THEN {number} END"
    low, high = (real(bound) for bound in inner(*bounds))
    if cell.sure:
        return f"LEAST(GREATEST({number}, {low}), {high})"
    crossing = small if bounds[0] <= 0 <= bounds[1] and cell.family not in WHOLE else ""
    return (
        f"CASE {crossing}WHEN {number} BETWEEN {low} AND {high} THEN {number} WHEN {number} < {low} THEN {low}"
        f" WHEN {number} <= CAST('inf' AS DOUBLE) THEN {high} END"
    )


_SMALLEST, _LARGEST = (real(float(each)) for each in (SMALLEST_REAL, LARGEST_REAL))


def _limited_date(cell: Cell, bounds: Any) -> str:
    date = _date(cell)
    return _within(date, _DATES, cell.sure) if bounds is None else _clamped(date, bounds, cell.sure)


def _limited_timestamp(cell: Cell, bounds: Any) -> str:
    time = _timestamp(cell)
    return _within(time, _MOMENTS, cell.sure) if bounds is None else _clamped(time, bounds, cell.sure)


def _clamped(sql: str, bounds: Any, sure: bool = False) -> str:
    """Clamp a value to its range: LEAST and GREATEST skip NULL, so NULL is kept apart; infinite dates are ordered like
    any other.
    """
    low, high = (literal(bound) for bound in bounds)
    if sure:
        return f"LEAST(GREATEST({sql}, {low}), {high})"
    return f"CASE WHEN {sql} IS NOT NULL THEN LEAST(GREATEST({sql}, {low}), {high}) END"


def _within(sql: str, bounds: Any, sure: bool) -> str:
    low, high = (literal(bound) for bound in bounds)
    return sql if sure else f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN {sql} END"


_TYPED: dict[Type, Callable[[Cell], str]] = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.TEXT: lambda cell: cell.text.sql,
    Type.BOOLEAN: _boolean,
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}
_LIMITED: dict[Type, Callable[[Cell, Any], str]] = {
    Type.INTEGER: _limited_integer,
    Type.REAL: _limited_real,
    Type.TEXT: lambda cell, _: cell.text.sql,
    Type.BOOLEAN: lambda cell, _: _boolean(cell),
    Type.DATE: _limited_date,
    Type.TIMESTAMP: _limited_timestamp,
}
_READINGS: dict[Type, Callable[[str], Readings]] = {
    Type.INTEGER: _as_integer,
    Type.REAL: _as_real,
    Type.BOOLEAN: _as_boolean,
    Type.DATE: _as_date,
    Type.TIMESTAMP: _as_timestamp,
}
