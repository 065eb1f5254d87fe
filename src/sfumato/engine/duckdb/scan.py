"""Convert a source's cells to what the policy declares, in SQL that never fails and costs little.

Every rule works on one cell (for an id: on one row) by itself, so two tables that differ in one unit's rows differ in
that unit's rows after the scan too: it is stable with factor 1 under both neighbour relations.

A text cell, or one with no direct conversion to the declared type, is parsed by the grammars of ``plan.grammars``, as
CAST parses it. A cell that is not of its declared type becomes NULL, as do NaN and a value outside ``values`` (or it
becomes the column's ``other``); ±infinity and numbers outside ``bounds`` become the bound; without bounds, reals above
2^500 in size become NULL and those below 2^-500 become 0; texts are truncated at their ``max_length``. A row without an
id is dropped. No rule can raise: casts of unproved cells are TRY_CASTs, and a stored type that proves a property costs
nothing. Texts lose the collation of their source. A list keeps its first ``most_items`` items, each by these rules.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from sfumato.engine.sources.clean_cells import inner_bounds, largest_exact_integer
from sfumato.engine.spellings.duckdb import TYPES, DuckDBSpelling, literal, literal_list, quote_identifier, real
from sfumato.plan.values.grammars import BEYOND, DECIMAL, EXACT, FALSE, GRAMMARS, LOCAL, LONGEST, LONGEST_ID, TRUE, ZERO
from sfumato.policy import Domain, ListColumn, Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL, WIDE_PREFIX, widen_bounds
from sfumato.quick_dataclass import dataclass

UNIT = "sf_unit"
"""The column that holds the unit of each row, in the scan of a table with ids."""

INTEGER_TYPES = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE_NUMBERS = {"UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL"}
FLOAT_TYPES = {"FLOAT", "DOUBLE"}
_TIMESTAMP_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"
_TIMES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_EXACT_ID_TYPES = (
    INTEGER_TYPES | _WIDE_NUMBERS | _TIMES | {"ENUM", "BOOLEAN", "DATE", "TIME", "UUID", "BLOB", _TIMESTAMP_WITH_ZONE}
)
_NUMBERS = INTEGER_TYPES | _WIDE_NUMBERS | FLOAT_TYPES | {"BOOLEAN"}
_TEXTS_OR_DIGITS = INTEGER_TYPES | {"UBIGINT", "VARCHAR", "ENUM"}
"""The stored types that cell rules read: those whose texts are the same in every engine."""
_CALENDAR = _TIMES | {_TIMESTAMP_WITH_ZONE, "DATE"}
_DIRECT_TYPES = {
    Type.INTEGER: _NUMBERS,
    Type.REAL: _NUMBERS,
    Type.BOOLEAN: _NUMBERS,
    Type.DATE: _CALENDAR,
    Type.TIMESTAMP: _CALENDAR,
}
"""The stored types that convert to a type without going through text."""
_SPELLING = DuckDBSpelling()
_DATES = (dt.date.min, dt.date.max)
_TIMESTAMPS = (dt.datetime.min, dt.datetime.max)


@dataclass(frozen=True)
class Cell:
    """A column of a source in SQL: its expression and its stored type."""

    sql: str
    stored_type: str
    is_proved: bool = False
    """Proved by its grammar to be present, finite, and a calendar date or a real within range."""
    is_flushed: bool = False
    """A real in which values below the smallest magnitude in range are already 0."""
    is_infinite: bool = False
    """Proved by its grammar to lie beyond every bound."""
    presence: str = ""
    """The SQL of whether the cell is there, where that is not only whether it is NULL."""
    is_null: str = ""
    """The SQL of whether the cell is missing by its rules, where the column has any."""
    stored: Cell | None = None
    """The cell as the source stores it, where rules rewrote it."""

    @property
    def is_present(self) -> str:
        """The SQL of whether the cell is there."""
        return self.presence or f"{self.sql} IS NOT NULL"

    @property
    def stored_text(self) -> str | None:
        """The SQL of the text or the digits that the source stores; None if it stores another type."""
        stored = self.stored or self
        return stored.text.sql if stored.family in _TEXTS_OR_DIGITS else None

    @property
    def family(self) -> str:
        """The stored type without its parameters; a list or a struct has none of these families."""
        return self.stored_type if self.stored_type.endswith("]") else self.stored_type.partition("(")[0]

    @property
    def item(self) -> Cell | None:
        """An item of the cell, as the parameter of a lambda; None where the cell is not a list."""
        return (
            Cell("sf_item", self.stored_type[: self.stored_type.rindex("[")])
            if self.stored_type.endswith("]")
            else None
        )

    @property
    def text(self) -> Cell:
        """The same cell as text with byte-wise comparison; every type converts to text.

        A database may give a column a collation, under which GROUP BY, joins and comparisons treat different texts as
        equal and name a group after one of the rows: a single row could then rename it. No type shows a collation and
        no cast drops it, so every text gets the byte-wise collation instead, at no cost.
        """
        plain = self.sql if self.family == "VARCHAR" else f"CAST({self.sql} AS VARCHAR)"
        return Cell(f"({plain} COLLATE C)", "VARCHAR")


@dataclass(frozen=True)
class Owner:
    """How the unit of a row is determined, in SQL over the columns of its source."""

    key: str
    """The id, or the reference to a row of another table whose owners the row has."""
    has_key: str
    """Whether the row has a key."""
    period: str | None = None
    """The start of the row's period, where a unit is an id in a period."""
    links: str | None = None
    """The SELECT of the other table's keys, each with every unit that owns such a row; None where the key is the id."""

    @property
    def unit(self) -> str:
        """The unit of a row whose key is the id."""
        return self.key if self.period is None else f"struct_pack(id := {self.key}, period := {self.period})"


@dataclass(frozen=True)
class TableScan:
    """How one table is read: its source, its cells with their domains, and the owners of its rows."""

    source: str
    columns: Mapping[str, tuple[Cell, Domain, str | None]]
    """Each declared column's cell, its enforced domain, and the ENUM or table of its values if there is one."""
    owner: Owner | None
    """None where every row is its own unit, or the table is public."""
    lists: Mapping[str, tuple[Cell, ListColumn, str | None]] = field(default_factory=dict)
    """The same for list columns."""

    @property
    def statement(self) -> str:
        """The SELECT of the declared columns, cleaned, and ``sf_unit`` when rows belong to units."""
        return self.select((*self.columns, *self.lists))

    def select(self, names: Iterable[str]) -> str:
        """Return the SELECT of these columns, cleaned, and ``sf_unit``: the rows are the same whichever are read."""
        cells = {name: self._clean_column(name) for name in names}
        return select_with_units(cells or {"sf_row": "0"}, self.source, self.owner)

    def _clean_column(self, name: str) -> str:
        if name.startswith(WIDE_PREFIX):
            cell, domain, _ = self.columns[name.removeprefix(WIDE_PREFIX)]
            return clean_cell(cell, widen_bounds(domain))
        return clean_cell(*self.columns[name]) if name in self.columns else clean_items(*self.lists[name])

    @property
    def is_owned_condition(self) -> str:
        """Whether a row of the source belongs to a unit, in SQL."""
        owner = self.owner
        if owner is None:
            return "TRUE"
        if owner.links is None:
            return owner.has_key
        row_key, linked_keys = (owner.key, "sf_key") if owner.period is None else _row_key_and_linked_keys(owner)
        return f"{owner.has_key} AND {row_key} IN (SELECT {linked_keys} FROM ({owner.links}))"


def _row_key_and_linked_keys(owner: Owner) -> tuple[str, str]:
    return f"({owner.key}, {owner.period})", f"(sf_key, {UNIT}.period)"


def select_with_units(columns: Mapping[str, str], source: str, owner: Owner | None) -> str:
    """Return the SELECT of these expressions over a source, with ``sf_unit``: one row per owner of a source row."""
    expressions = ", ".join(f"{sql} AS {quote_identifier(column)}" for column, sql in columns.items())
    if owner is None:
        return f"SELECT {expressions} FROM {source}"
    if owner.links is None:
        return f"SELECT {expressions}, {owner.unit} AS {UNIT} FROM {source} WHERE {owner.has_key}"
    period = "" if owner.period is None else f", {owner.period} AS sf_period"
    keyed_rows = f"SELECT {expressions}, {owner.key} AS sf_key{period} FROM {source} WHERE {owner.has_key}"
    join_condition = "r.sf_key = l.sf_key" + ("" if owner.period is None else f" AND r.sf_period = l.{UNIT}.period")
    outputs = ", ".join(f"r.{quote_identifier(column)}" for column in columns)
    return f"SELECT {outputs}, l.{UNIT} FROM ({keyed_rows}) AS r JOIN ({owner.links}) AS l ON {join_condition}"


def distinct_links_sql(source: str, owner: Owner | None, key: str) -> str:
    """Return the SELECT of the distinct keys of a table's rows, each with every unit that owns such a row."""
    rows = select_with_units({"sf_link": key}, source, owner)
    return f"SELECT DISTINCT sf_link AS sf_key, {UNIT} FROM ({rows}) WHERE sf_link IS NOT NULL"


def count_with_copies_sql(source: str, owner: Owner) -> str:
    """Return the SELECT that counts a source's rows with one copy per owner, computed key by key."""
    rows_per_key = f"SELECT {owner.key} AS k, count(*) AS n FROM {source} WHERE {owner.has_key} GROUP BY k"
    owners_per_key = f"SELECT sf_key AS k, count(*) AS n FROM ({owner.links}) GROUP BY k"
    copied_rows = (
        f"SELECT sum(CAST(a.n AS HUGEINT) * b.n) FROM ({rows_per_key}) AS a JOIN ({owners_per_key}) AS b ON a.k = b.k"
    )
    return f"SELECT greatest(coalesce(({copied_rows}), 0), (SELECT count(*) FROM {source}))"


def has_id_condition(unit: Cell) -> str:
    """Return the SQL condition that a row has an id."""
    if unit.family in FLOAT_TYPES:
        return f"{unit.sql} IS NOT NULL AND NOT isnan({unit.sql})"
    return f"{exact_id_sql(unit)} IS NOT NULL"


def exact_id_sql(unit: Cell) -> str:
    """Return the SQL of an id in a type where equality is exact, else as text.

    −0.0 becomes 0.0.
    """
    if unit.family in FLOAT_TYPES:
        return f"CASE WHEN {unit.sql} = 0 THEN 0 ELSE {unit.sql} END"
    if unit.family == "BLOB":
        return f"CASE WHEN octet_length({unit.sql}) <= {LONGEST_ID} THEN {unit.sql} END"
    return unit.sql if unit.family in _EXACT_ID_TYPES else text_id_sql(unit)


def text_id_sql(unit: Cell) -> str:
    """Return the SQL of an id as text, NULL where it has more bytes than an id may have."""
    return f"CASE WHEN strlen({unit.text.sql}) <= {LONGEST_ID} THEN {unit.text.sql} END"


def clean_cell(cell: Cell, domain: Domain, choices: str | None = None) -> str:
    """Return the SQL of a cell as its domain declares it. ``choices`` names what holds the domain's values: an ENUM of
    texts, or a table of others.
    """
    if choices is not None and domain.type is Type.TEXT:  # a hash lookup, several times faster than IN
        return _with_declared_other(
            cell, domain, f"CAST(TRY_CAST({convert_cell(cell, domain.type)} AS {choices}) AS VARCHAR)"
        )
    if domain.values is not None:
        return _with_declared_other(cell, domain, _declared_value(cell, domain, choices))
    if domain.type is Type.TEXT:
        text, max_length = cell.text.sql, domain.max_letters
        # bytes bound the characters: DuckDB tests equal cells once, but truncates cell by cell
        return f"CASE WHEN strlen({text}) <= {max_length} THEN {text} ELSE left({text}, {max_length}) END"
    return _convert(cell, domain.type, lambda reading: _bounded(reading, domain.type, domain.bounds))


def integer_id_sql(cell: Cell) -> str:
    """Return the SQL of an integer id, NULL where two units' ids could become one (``clean_scans``)."""
    x, integer = cell.sql, clean_cell(cell, Domain(Type.INTEGER))
    if cell.family == "DECIMAL":
        return f"CASE WHEN {x} = trunc({x}) THEN TRY_CAST({x} AS BIGINT) END"
    if cell.family in FLOAT_TYPES:
        return f"CASE WHEN abs({x}) < {largest_exact_integer(cell.family == 'FLOAT')} THEN {integer} END"
    if cell.family in _DIRECT_TYPES[Type.INTEGER]:
        return integer
    text = cell.text.sql
    is_exact = " OR ".join(_SPELLING.matches(text, grammar) for grammar in (GRAMMARS[Type.INTEGER], EXACT))
    return f"CASE WHEN strlen({text}) <= {LONGEST} AND ({is_exact}) THEN {integer} END"


def clean_items(cell: Cell, column: ListColumn, choices: str | None = None) -> str:
    """Return the SQL of the first items of a list, each cleaned by its domain."""
    assert cell.item is not None
    clean_item = clean_cell(cell.item, column.items, choices)
    return f"list_transform(list_slice({cell.sql}, 1, {column.max_items}), lambda {cell.item.sql}: {clean_item})"


def _declared_value(cell: Cell, domain: Domain, choices: str | None) -> str:
    """Return the SQL of a cell that has one of the declared values, NULL for any other."""
    if choices is None:
        return _convert(cell, domain.type, lambda reading: _null_unless_declared(reading, domain))
    # A join computes its key for every row, so the key is the whole conversion, not the branch of one grammar.
    value = _convert(cell, domain.type, lambda reading: _bounded(reading, domain.type, None))
    return f"CASE WHEN {value} IN (SELECT v FROM {choices}) THEN {value} END"


def _null_unless_declared(cell: Cell, domain: Domain) -> str:
    value = _bounded(cell, domain.type, None)
    if value == _NULL:
        return _NULL
    return f"CASE WHEN {value} IN ({literal_list(domain.values or ())}) THEN {value} END"


def _with_declared_other(cell: Cell, domain: Domain, sql: str) -> str:
    """Map a present but undeclared value to the column's ``other``, if it has one."""
    if domain.other is None:
        return sql
    return f"COALESCE({sql}, CASE WHEN {cell.is_present} THEN {literal(domain.other)} END)"


def convert_cell(cell: Cell, sql_type: Type) -> str:
    """Return the SQL of a cell converted to a type, NULL where it cannot be; infinite values remain."""
    return _convert(cell, sql_type, _CONVERTERS[sql_type])


def _convert(cell: Cell, sql_type: Type, use: Callable[[Cell], str]) -> str:
    """Convert a cell directly from a related stored type, else by parsing its text with our grammars."""
    if sql_type is Type.TEXT or cell.family in _DIRECT_TYPES[sql_type]:
        return use(cell)
    text = cell.text.sql
    branch_values = [(grammar, use(parsed)) for grammar, parsed in _CASTS_OF_TYPE[sql_type](text)]
    while branch_values[-1][1] == _NULL:  # no branch means NULL anyway, and a regular expression is costly to compile
        branch_values.pop()
    branches = " ".join(f"WHEN {_SPELLING.matches(text, grammar)} THEN {value}" for grammar, value in branch_values)
    return f"CASE WHEN strlen({text}) > {LONGEST} THEN NULL {branches} END"


_NULL = "NULL"


CastsByGrammar = list[tuple[str, Cell]]
"""The grammars to match a text against, in order, each with the cell that a match gives."""


def _infinite_casts_by_grammar(sql_type: Type) -> CastsByGrammar:
    """Return the casts of what lies beyond every bound: infinite, as in a stored type."""
    ends = zip(BEYOND[sql_type], ("-infinity", "infinity"), strict=True)
    return [
        (grammar, Cell(f"CAST('{infinity}' AS {TYPES[sql_type]})", TYPES[sql_type], is_infinite=True))
        for grammar, infinity in ends
    ]


def _integer_casts_by_grammar(x: str) -> CastsByGrammar:
    return [
        (GRAMMARS[Type.INTEGER], Cell(_SPELLING.read(x, Type.INTEGER), "BIGINT", is_proved=True)),
        *_real_casts_by_grammar(x)[1:],
    ]


def _real_casts_by_grammar(x: str) -> CastsByGrammar:
    """Most numbers have no exponent and need no second check: adding 0 turns −0 into 0."""
    number = _SPELLING.read(x, Type.REAL)
    flushed = f"CASE WHEN abs({number}) < {_SMALLEST} THEN 0 ELSE {number} END"
    return [
        (DECIMAL, Cell(f"({number} + CAST(0 AS DOUBLE))", "DOUBLE", is_proved=True)),
        (GRAMMARS[Type.REAL], Cell(flushed, "DOUBLE", is_flushed=True)),
        (ZERO, Cell("CAST(0 AS DOUBLE)", "DOUBLE", is_proved=True)),
        *_infinite_casts_by_grammar(Type.REAL),
    ]


def _boolean_casts_by_grammar(_: str) -> CastsByGrammar:
    return [(TRUE, Cell("TRUE", "BOOLEAN")), (FALSE, Cell("FALSE", "BOOLEAN"))]


def _date_casts_by_grammar(x: str) -> CastsByGrammar:
    return [
        (GRAMMARS[Type.DATE], Cell(_SPELLING.read(x, Type.DATE), "DATE", is_proved=True)),
        *_timestamp_casts_by_grammar(x),
    ]


def _timestamp_casts_by_grammar(x: str) -> CastsByGrammar:
    """Most timestamps have no zone; one that has may lie outside the calendar."""
    return [
        (LOCAL, Cell(_SPELLING.read_local(x), "TIMESTAMP", is_proved=True)),
        (GRAMMARS[Type.TIMESTAMP], Cell(_SPELLING.read(x, Type.TIMESTAMP), "TIMESTAMP")),
        *_infinite_casts_by_grammar(Type.TIMESTAMP),
    ]


def _integer_sql(cell: Cell) -> str:
    if cell.family == "BIGINT":
        return cell.sql
    return f"{'CAST' if cell.family in INTEGER_TYPES else 'TRY_CAST'}({cell.sql} AS BIGINT)"


def _real_sql(cell: Cell) -> str:
    if cell.family == "DOUBLE":
        return cell.sql
    return f"{'CAST' if cell.family in INTEGER_TYPES | {'FLOAT'} else 'TRY_CAST'}({cell.sql} AS DOUBLE)"


def _boolean_sql(cell: Cell) -> str:
    if cell.family == "BOOLEAN":
        return cell.sql
    return f"CASE WHEN {cell.sql} = 0 THEN FALSE WHEN {cell.sql} = 1 THEN TRUE END"


def _date_sql(cell: Cell) -> str:
    return cell.sql if cell.family == "DATE" else f"TRY_CAST({_timestamp_sql(cell)} AS DATE)"


def _timestamp_sql(cell: Cell) -> str:
    return cell.sql if cell.family == "TIMESTAMP" else f"TRY_CAST({cell.sql} AS TIMESTAMP)"


def _bounded(cell: Cell, sql_type: Type, bounds: Any) -> str:
    """Return the SQL of a cell clamped to its bounds; without bounds, infinite values become NULL."""
    return _NULL if cell.is_infinite and bounds is None else _BOUNDED[sql_type](cell, bounds)


def _bounded_integer(cell: Cell, bounds: Any) -> str:
    integer = _integer_sql(cell)
    if cell.family in INTEGER_TYPES:
        return integer if bounds is None else _clamp_integer_sql(integer, bounds)
    number = _real_sql(cell)
    if bounds is None:
        return f"CASE WHEN {number} = trunc({number}) THEN {integer} END"
    low, high = (literal(bound) for bound in bounds)
    return (
        f"CASE WHEN isnan({number}) OR {number} <> trunc({number}) THEN NULL"
        f" WHEN {integer} IS NOT NULL THEN LEAST(GREATEST({integer}, {low}), {high})"
        f" WHEN {number} < 0 THEN {low} WHEN {number} > 0 THEN {high} END"
    )


def _clamp_integer_sql(integer: str, bounds: Any) -> str:
    """Clamp an integer to its bounds by comparisons: DuckDB then knows the result's range from the file's, and adds up
    products of such columns without tests for overflow.
    """
    low, high = (literal(bound) for bound in bounds)
    return f"CASE WHEN {integer} < {low} THEN {low} WHEN {integer} > {high} THEN {high} ELSE {integer} END"


def _bounded_real(cell: Cell, bounds: Any) -> str:
    number = _real_sql(cell)
    flush_small = "" if cell.is_flushed else f"WHEN abs({number}) < {_SMALLEST} THEN 0 "
    if bounds is None:
        # DuckDB orders NaN above infinity, so it matches no branch.
        in_range = cell.is_proved or cell.family in INTEGER_TYPES
        return number if in_range else f"CASE {flush_small}WHEN abs({number}) <= {_LARGEST} THEN {number} END"
    low, high = (real(bound) for bound in inner_bounds(*bounds))
    if cell.is_proved:
        return f"LEAST(GREATEST({number}, {low}), {high})"
    flush = flush_small if bounds[0] <= 0 <= bounds[1] and cell.family not in INTEGER_TYPES else ""
    return (
        f"CASE {flush}WHEN {number} BETWEEN {low} AND {high} THEN {number} WHEN {number} < {low} THEN {low}"
        f" WHEN {number} <= CAST('inf' AS DOUBLE) THEN {high} END"
    )


_SMALLEST, _LARGEST = (real(float(bound)) for bound in (SMALLEST_REAL, LARGEST_REAL))


def _bounded_date(cell: Cell, bounds: Any) -> str:
    date = _date_sql(cell)
    return _null_outside(date, _DATES, cell.is_proved) if bounds is None else _clamp_sql(date, bounds, cell.is_proved)


def _bounded_timestamp(cell: Cell, bounds: Any) -> str:
    time = _timestamp_sql(cell)
    return (
        _null_outside(time, _TIMESTAMPS, cell.is_proved) if bounds is None else _clamp_sql(time, bounds, cell.is_proved)
    )


def _clamp_sql(sql: str, bounds: Any, sure: bool = False) -> str:
    """Clamp a value to its bounds. LEAST and GREATEST skip NULL, so NULL is handled apart; infinite dates are ordered
    like any other.
    """
    low, high = (literal(bound) for bound in bounds)
    if sure:
        return f"LEAST(GREATEST({sql}, {low}), {high})"
    return f"CASE WHEN {sql} IS NOT NULL THEN LEAST(GREATEST({sql}, {low}), {high}) END"


def _null_outside(sql: str, bounds: Any, sure: bool) -> str:
    low, high = (literal(bound) for bound in bounds)
    return sql if sure else f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN {sql} END"


_CONVERTERS: dict[Type, Callable[[Cell], str]] = {
    Type.INTEGER: _integer_sql,
    Type.REAL: _real_sql,
    Type.TEXT: lambda cell: cell.text.sql,
    Type.BOOLEAN: _boolean_sql,
    Type.DATE: _date_sql,
    Type.TIMESTAMP: _timestamp_sql,
}
_BOUNDED: dict[Type, Callable[[Cell, Any], str]] = {
    Type.INTEGER: _bounded_integer,
    Type.REAL: _bounded_real,
    Type.TEXT: lambda cell, _: cell.text.sql,
    Type.BOOLEAN: lambda cell, _: _boolean_sql(cell),
    Type.DATE: _bounded_date,
    Type.TIMESTAMP: _bounded_timestamp,
}
_CASTS_OF_TYPE: dict[Type, Callable[[str], CastsByGrammar]] = {
    Type.INTEGER: _integer_casts_by_grammar,
    Type.REAL: _real_casts_by_grammar,
    Type.BOOLEAN: _boolean_casts_by_grammar,
    Type.DATE: _date_casts_by_grammar,
    Type.TIMESTAMP: _timestamp_casts_by_grammar,
}
