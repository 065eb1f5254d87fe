"""A clean scan makes the cells of a table on a server what the policy declares, in the relational form.

The meaning is that of every scan (``engine.duckdb.scan`` writes the same for DuckDB): each rule works on one cell, or
on one row for its id, by itself, so two tables that differ in one unit's rows differ in that unit's rows after the scan
too. No rule can raise. A driver says how its columns are stored, and writes each as one of a few plain cells
(``CellExpressions``); all that follows is written by the generator for every engine alike.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sfumato.engine.lowering.relation_lowering import UNIT, every, same, staged
from sfumato.engine.lowering.relational import (
    AggregateFunction,
    Apply,
    CleanTable as Source,
    Constant,
    GroupTotal,
    Reference,
    Relation,
    RelationalJoin,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import RowLowering, choice, missing, present, real
from sfumato.engine.sources import clean_cells
from sfumato.engine.sources.clean_cells import (
    READ,
    Stored,
    ends_of,
    largest_whole,
    limited_real,
    moment,
    number_in,
    of_whole,
    truth,
    whole_number,
)
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import InvalidPolicy
from sfumato.plan.values import calendar
from sfumato.plan.values.grammars import EXACT, GRAMMARS
from sfumato.policy import Domain, ListColumn, Policy, Table, Type, Via

_KEY, _PERIOD = "sf_key", "sf_period"


AS_TYPES = {
    Stored.INTEGER: Type.INTEGER,
    Stored.NUMBER: Type.REAL,
    Stored.REAL: Type.REAL,
    Stored.BOOLEAN: Type.BOOLEAN,
    Stored.DATE: Type.DATE,
    Stored.TIMESTAMP: Type.TIMESTAMP,
    Stored.TEXT: Type.TEXT,
}
"""The type that a plain cell has."""

_SINGLE = {"real", "float", "float4"}
"""What servers call numbers of 32 bits with a point."""
_NUMBERS = {Stored.INTEGER, Stored.NUMBER, Stored.REAL, Stored.BOOLEAN}
_TIMES = {Stored.DATE, Stored.TIMESTAMP}
_NO_CELLS = {Stored.BYTES, Stored.LIST, Stored.OTHER}
"""What is no cell of any declared type."""
ITEM = "sf_item"
"""What an item of a list is called where it is cleaned."""


@dataclass(frozen=True)
class StoredColumn:
    """This is a column as a server stores it."""

    name: str
    kind: Stored
    told: str
    """The stored type in the server's own words, for people and to tell whether it changed."""
    item: StoredColumn | None = None
    """What a list is of, under the name ``ITEM``."""


class CellExpressions(Protocol):
    """These are a dialect's expressions for the cells of a stored column, over the columns of its source."""

    def plain(self, column: StoredColumn) -> str:
        """Write the cell in the type of its kind: a number (of any kind but INTEGER and BOOLEAN) as a double that may
        be infinite and is NULL where it is no number, a date that can be converted to a time, a time in UTC, a text
        compared by its bytes.
        """
        ...

    def short(self, column: StoredColumn) -> str:
        """Write a text as ``plain`` does where grammars may read it; NULL where it has more than ``LONGEST`` bytes."""
        ...

    def text(self, column: StoredColumn) -> str | None:
        """Write the cell as the text that every engine gives it; None where its type has none that engines share."""
        ...

    def whole(self, column: StoredColumn) -> str:
        """Tell whether a decimal number or a double is whole; an infinite one is."""
        ...

    def nearest(self, column: StoredColumn) -> str:
        """Write a decimal number or a double as the nearest 64-bit whole number; NULL where there is none."""
        ...

    def there(self, column: StoredColumn) -> str:
        """Tell whether the cell is not NULL in its source."""
        ...

    def listed(self, column: StoredColumn, most: int, item: CleanItem) -> str:
        """Write the list of the first items of a list, each made clean; NULL or none where it has no item."""
        ...

    def key(self, column: StoredColumn) -> str:
        """Write the cell in a type whose equality tells units apart as the source does; NULL where it is no number."""
        ...


@dataclass(frozen=True)
class StoredTable:
    """This is where a table's rows are, in the server's SQL, and which columns they have there."""

    source: str
    columns: Sequence[StoredColumn]


@dataclass(frozen=True)
class InspectedCell:
    """These are the columns in which an owner sees a cell: clean, in its type alone, and whether it is there."""

    clean: str
    raw: str
    there: str
    low: str | None
    """The lower bound, where the column has bounds."""


@dataclass(frozen=True)
class CleanScan:
    """A scan is a select over plain cells of sources, which a driver writes in its own way."""

    select: Select
    cells: Mapping[str, Mapping[str, str]]
    """For each source that is read, the SQL of its plain cells and the names that the select has for them."""


@dataclass(frozen=True)
class CleanItem:
    """An item of a list is made clean like any cell: a value over its plain cells, and the stages it is made in."""

    cells: Mapping[str, str]
    """The SQL of the item's plain cells, and the names that the value has for them."""
    value: Scalar
    rows: RowLowering

    def select(self, source: Relation) -> Select:
        """Select the value from the plain cells, stage by stage."""
        return Select((("v", self.value),), _over(source, self.rows))

    def inline(self) -> Scalar:
        """Give the value over the fields of ``ITEM``, for a dialect whose lists have no stages."""
        return _inline(self.value, {name: scalar for stage in self.rows.stages() for name, scalar in stage})


@dataclass(frozen=True)
class CleanScans:
    """These are the clean scans of a policy's private tables on one server."""

    policy: Policy
    tables: Mapping[str, StoredTable]
    cells: CellExpressions
    spelling: Spelling

    def check(self) -> None:
        """Refuse what the policy declares and the sources do not have."""
        for table in self.tables:
            self.text(table)

    def scan(self, table: str, named: Callable[[str], str] = str) -> CleanScan:
        """Select the declared columns, clean, and ``sf_unit`` when rows belong to units."""
        build, declared, rows = _Build(self), self.policy.tables[table], RowLowering({})
        columns = {name: build.cleaned(rows, declared, name, domain) for name, domain in declared.columns.items()}
        columns |= {name: build.items(declared, name, each) for name, each in declared.lists.items()}
        made = tuple((named(name), scalar) for name, scalar in columns.items())
        return build.made(build.owned(declared, rows, made))

    def text(self, table: str) -> str:
        """Write the scan of a table as a SELECT."""
        return self.written(self.scan(table, self.spelling.name))

    def written(self, scan: CleanScan) -> str:
        """Write a scan as a SELECT over the sources."""

        def source(table: str) -> str:
            cells = ", ".join(f"{sql} AS {name}" for sql, name in scan.cells.get(table, {}).items())
            return f"(SELECT {cells or '1 AS r0'} FROM {self.tables[table].source})"

        return Generator(self.spelling, source).statement(StagedSelect((), scan.select))

    def rows(self, table: str) -> str:
        """Write the SELECT of how many rows a source has; where rows are found through another table, with a copy for
        each owner.
        """
        build, declared = _Build(self), self.policy.tables[table]
        if not isinstance(declared.id, Via):
            return f"SELECT COUNT(*) AS n FROM {self.tables[table].source}"
        owned = build.owned(declared, RowLowering({}), (("c", whole(0)),))
        copies = self.written(build.made(Select((("n", GroupTotal(AggregateFunction.COUNT)),), owned)))
        own = f"SELECT COUNT(*) AS n FROM {self.tables[table].source}"
        return f"SELECT MAX(n) AS n FROM ({copies} UNION ALL {own}) AS r"

    def inspected(self, table: str) -> tuple[CleanScan, list[InspectedCell]]:
        """Select what the scan makes of every row's cells, with a column k that is 1 where the row is somebody's; the
        cells are named in the order of the columns.
        """
        build, declared, rows = _Build(self), self.policy.tables[table], RowLowering({})
        made: list[tuple[str, Scalar]] = []
        cells = []
        for place, (name, domain) in enumerate(declared.columns.items()):
            at = f"tables.{table}.columns.{name}"
            column = self.stored(table, name, at)
            clean = build.cleaned(rows, declared, name, domain)
            bare = build.typed(rows, table, column, at, domain)
            there = build.there(table, column)
            made += [(f"v{place}", clean), (f"r{place}", bare), (f"m{place}", there)]
            low = None if domain.bounds is None or domain.values is not None else ends_of(domain)[0]
            written = None if low is None else Generator(self.spelling, str).scalar(low)
            cells.append(InspectedCell(f"v{place}", f"r{place}", f"m{place}", written))
        return build.made(build.told(declared, rows, tuple(made))), cells

    def stored(self, table: str, column: str, place: str) -> StoredColumn:
        """Find the column of that name, which has a type that engines share."""
        return _shared(self._found(table, column, place), column, place)

    def listed(self, table: str, column: str, place: str) -> tuple[StoredColumn, StoredColumn]:
        """Find the column of lists of that name, and what its items are."""
        found = self._found(table, column, place)
        if found.item is None:
            raise InvalidPolicy(
                f"{column} is no list in its source",
                place=f"{place}.most_items",
                fix="leave most_items out, or name a column that is an array of a type of the server's own",
            )
        return found, _shared(found.item, column, place)

    def _found(self, table: str, column: str, place: str) -> StoredColumn:
        columns = [(each.name, each) for each in self.tables[table].columns]
        return clean_cells.find(columns, column, place, "name a column of the source that this role may read")


def _shared(found: StoredColumn, column: str, place: str) -> StoredColumn:
    """Refuse a column whose type has no text that engines share."""
    if found.kind is Stored.OTHER:
        raise InvalidPolicy(
            f"{column} is stored as {found.told}, a type without a text that engines share",
            place=place,
            fix="read it in a view as a number, a text, a date or a time",
        )
    return found


Read = Callable[[RowLowering, StoredColumn, str], Scalar]
"""A key in the type in which it is compared; NULL where it is not of that type."""


@dataclass(frozen=True)
class _Owner:
    key: Scalar
    period: Scalar | None
    links: Select | None


class _Build:
    """This builds one statement over the sources of a server, and knows which of their cells it reads."""

    def __init__(self, scans: CleanScans) -> None:
        self.scans, self.policy = scans, scans.policy
        self._read: dict[str, dict[str, str]] = {}

    def made(self, select: Select) -> CleanScan:
        return CleanScan(select, self._read)

    def _cell(self, table: str, sql: str) -> Reference:
        read = self._read.setdefault(table, {})
        return Reference(read.setdefault(sql, f"r{len(read)}"))

    # Cells

    def cleaned(self, rows: RowLowering, table: Table, name: str, domain: Domain) -> Scalar:
        place = f"tables.{table.name}.columns.{name}"
        return self._cleaned(rows, table.name, self.scans.stored(table.name, name, place), domain, place)

    def _cleaned(self, rows: RowLowering, table: str, column: StoredColumn, domain: Domain, place: str) -> Scalar:
        made = self.limited(rows, table, column, domain, place)
        if domain.other is None:
            return made
        other = apply(ScalarFunction.CASE, self.there(table, column), Constant(domain.other, domain.type))
        return apply(ScalarFunction.COALESCE, made, other)

    def items(self, table: Table, name: str, declared: ListColumn) -> Scalar:
        """Give the first items of a list, each cleaned by itself."""
        place = f"tables.{table.name}.columns.{name}"
        column, item = self.scans.listed(table.name, name, place)
        build, rows = _Build(self.scans), RowLowering({})
        value = build._cleaned(rows, table.name, item, declared.items, place)
        clean = CleanItem(build._read.get(table.name, {}), value, rows)
        return self._cell(table.name, self.scans.cells.listed(column, declared.most_items, clean))

    def limited(self, rows: RowLowering, table: str, column: StoredColumn, domain: Domain, place: str) -> Scalar:
        """Give a cell as its domain says, NULL where it is not of the declared type."""
        kind = domain.type
        if domain.values is not None:
            bare = Domain(kind) if kind is not Type.TEXT else domain
            x = rows.shared(self._typed(rows, table, column, bare, place))
            listed = apply(ScalarFunction.IN, x, *(Constant(value, kind) for value in domain.values))
            return apply(ScalarFunction.CASE, listed, x, missing(kind))
        made = self._typed(rows, table, column, domain, place)
        if kind is not Type.TEXT:
            return made
        text = rows.shared(made)
        return apply(ScalarFunction.SLICE, text, whole(1), whole(domain.letters))

    def _typed(self, rows: RowLowering, table: str, column: StoredColumn, domain: Domain, place: str) -> Scalar:
        cells, kind = self.scans.cells, domain.type
        if kind is Type.TEXT or column.kind in _NO_CELLS:
            return self.text(table, column, place)
        if column.kind is Stored.TEXT:
            return READ[kind](rows, self._cell(table, cells.short(column)), domain)
        x: Scalar = self._cell(table, cells.plain(column))
        if kind.temporal:
            return moment(rows, x, column.kind, domain) if column.kind in _TIMES else missing(kind)
        if column.kind not in _NUMBERS:
            return missing(kind)
        if kind is Type.BOOLEAN:
            return x if column.kind is Stored.BOOLEAN else truth(x, column.kind)
        if column.kind is Stored.BOOLEAN:
            x = rows.shared(choice(x, whole(1), whole(0)))
        if column.kind in (Stored.INTEGER, Stored.BOOLEAN):
            return of_whole(x, domain)
        if kind is Type.REAL:
            return limited_real(rows, x, domain)
        is_whole = self._cell(table, cells.whole(column))
        return whole_number(rows, x, is_whole, self._cell(table, cells.nearest(column)), domain)

    def text(self, table: str, column: StoredColumn, place: str) -> Scalar:
        """Give a cell as text, where its type has one that engines share."""
        written = self.scans.cells.text(column)
        if written is None:
            what = "an item" if column.name == ITEM else column.name
            raise InvalidPolicy(
                f"{what} is stored as {column.told}, which has no text that engines share",
                place=place,
                fix="declare it as a number or a time, or write the text in a view",
            )
        return self._cell(table, written)

    def typed(self, rows: RowLowering, table: str, column: StoredColumn, place: str, domain: Domain) -> Scalar:
        """Give a cell in its declared type, without bounds and values; a real as large or as small as it is."""
        if domain.type is Type.REAL and column.kind in (Stored.REAL, Stored.NUMBER):
            return self._cell(table, self.scans.cells.plain(column))
        if domain.type is Type.REAL and column.kind is Stored.TEXT:
            return number_in(rows, self._cell(table, self.scans.cells.short(column)))
        return self._typed(rows, table, column, Domain(domain.type), place)

    def there(self, table: str, column: StoredColumn) -> Reference:
        return self._cell(table, self.scans.cells.there(column))

    # Owners

    def told(self, table: Table, rows: RowLowering, columns: tuple[tuple[str, Scalar], ...]) -> Select:
        """Select columns of every row, with k: 1 where the row is somebody's."""
        owner = self._owner(table, rows)
        if owner is None:
            return Select((("k", whole(1)), *columns), _over(Source(table.name), rows))
        tests = [present(each) for each in (owner.key, owner.period) if each is not None]
        if owner.links is None:
            kept = apply(ScalarFunction.CASE, every(tests), whole(1), whole(0))
            return Select((("k", kept), *columns), _over(Source(table.name), rows))
        names = (_KEY,) if owner.period is None else (_KEY, _PERIOD)
        own = ((_KEY, owner.key), *(() if owner.period is None else ((_PERIOD, owner.period),)))
        made = Select((*columns, *own), _over(Source(table.name), rows))
        met = [apply(ScalarFunction.EQUAL, Reference(each, "r"), Reference(each, "l")) for each in names]
        known = Select(same(names), owner.links, grouped=names)
        kept = apply(ScalarFunction.CASE, present(Reference(_KEY, "l")), whole(1), whole(0))
        shown = tuple((name, Reference(name, "r")) for name, _ in columns)
        return Select((("k", kept), *shown), made, joins=(RelationalJoin(known, "l", every(met), outer=True),))

    def owned(self, table: Table, rows: RowLowering, columns: tuple[tuple[str, Scalar], ...]) -> Select:
        """Select columns with ``sf_unit`` beside them: a row for each of its owners."""
        owner = self._owner(table, rows)
        source: Relation = Source(table.name)
        if owner is None:
            return Select(columns, _over(source, rows))
        tests = [present(each) for each in (owner.key, owner.period) if each is not None]
        if owner.links is None:
            return Select((*columns, (UNIT, _unit(owner.key, owner.period))), _over(source, rows), where=tuple(tests))
        named = tuple((f"c{place}", scalar) for place, (_, scalar) in enumerate(columns))
        own = (*named, (_KEY, owner.key), *(() if owner.period is None else ((_PERIOD, owner.period),)))
        made = Select(own, _over(source, rows), where=tuple(tests))
        met = [apply(ScalarFunction.EQUAL, Reference(_KEY, "r"), Reference(_KEY, "l"))]
        if owner.period is not None:
            met.append(apply(ScalarFunction.EQUAL, Reference(_PERIOD, "r"), Reference(_PERIOD, "l")))
        shown = tuple((name, Reference(f"c{place}", "r")) for place, (name, _) in enumerate(columns))
        unit = (UNIT, Reference(UNIT, "l"))
        return Select((*shown, unit), made, joins=(RelationalJoin(owner.links, "l", every(met)),))

    def _owner(self, table: Table, rows: RowLowering) -> _Owner | None:
        if table.public or table.every_row:
            return None
        period = self._period(table, rows)
        if not isinstance(table.id, Via):
            read = self._read_id(table)
            column = self.scans.stored(table.name, table.id, f"tables.{table.name}.id")
            return _Owner(rows.shared(read(rows, column, table.name)), period, None)
        parent = self.policy.tables[table.id.via]
        on = self.scans.stored(table.name, table.id.on, f"tables.{table.name}.id.on")
        key = self.scans.stored(parent.name, table.id.key, f"tables.{table.name}.id.key")
        compared = self._common((on, key)) or self._meeting((on, key))
        return _Owner(rows.shared(compared(rows, on, table.name)), period, self._links(parent, key, compared))

    def _links(self, table: Table, key: StoredColumn, read: Read) -> Select:
        """Select the keys of a table's rows, each once with every unit that owns such a row."""
        rows = RowLowering({})
        owner = self._owner(table, rows)
        assert owner is not None
        linked = rows.shared(read(rows, key, table.name))
        tests = [present(each) for each in (linked, owner.key, owner.period) if each is not None]
        names = [_KEY, UNIT] if owner.period is None else [_KEY, UNIT, _PERIOD]
        if owner.links is None:
            made: list[Scalar] = [linked, _unit(owner.key, owner.period)]
            made += [] if owner.period is None else [owner.period]
            own = Select(tuple(zip(names, made, strict=True)), _over(Source(table.name), rows), where=tuple(tests))
        else:
            inner = [("sf_link", linked), (_KEY, owner.key)]
            inner += [] if owner.period is None else [(_PERIOD, owner.period)]
            below_it = Select(tuple(inner), _over(Source(table.name), rows), where=tuple(tests))
            met = [apply(ScalarFunction.EQUAL, Reference(each, "r"), Reference(each, "l")) for each in (_KEY, _PERIOD)]
            shown = [
                (_KEY, Reference("sf_link", "r")),
                (UNIT, Reference(UNIT, "l")),
                (_PERIOD, Reference(_PERIOD, "r")),
            ]
            join = RelationalJoin(owner.links, "l", every(met if owner.period is not None else met[:1]))
            own = Select(tuple(shown[: len(names)]), below_it, joins=(join,))
        return Select(same(names), own, grouped=tuple(names))

    def _period(self, table: Table, rows: RowLowering) -> Scalar | None:
        """Find the start of the period that a row lies in. No bound is applied before: two days would become one."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        kind, place = table.columns[column].type, f"tables.{table.name}.period"
        stored = self.scans.stored(table.name, column, place)
        moment = self.limited(rows, table.name, stored, Domain(kind), place)
        start: Scalar = apply(ScalarFunction.START, moment, detail=(self.policy.unit.period, kind))
        day = start if kind is Type.DATE else apply(ScalarFunction.CONVERT, start, detail=(Type.DATE,))
        bounds = table.columns[column].bounds
        if self.policy.per is None or bounds is None:
            return rows.shared(day)
        return rows.shared(_paid_for(rows.shared(day), self.policy.per, bounds))

    def _read_id(self, table: Table) -> Read:
        """Say how ids become the one type that all tables of the population have."""
        if self.policy.id_type is not None:
            return self._as_type(self.policy.id_type)
        others = [each for each in self.policy.tables.values() if not each.public and not isinstance(each.id, Via)]
        columns = [self.scans.stored(each.name, each.id, f"tables.{each.name}.id") for each in others]
        read = self._common(columns)
        if read is not None:
            return read
        own = self.scans.stored(table.name, table.id, f"tables.{table.name}.id")
        other, column = next(
            (each, column) for each, column in zip(others, columns, strict=True) if self._common((own, column)) is None
        )
        raise InvalidPolicy(
            f"the ids of one population have one type: those of {table.name} are stored as {own.told}, those of "
            f"{other.name} as {column.told}",
            place=f"tables.{table.name}.id",
            fix='say in [unit] what ids are: id_type = "integer" makes 007 and 7 one id, id_type = "text" two; a row '
            "whose id is not of that type is dropped",
        )

    def _common(self, columns: Sequence[StoredColumn]) -> Read | None:
        """Say how keys of several sources are compared without being read as another type; None where they cannot
        be.
        """
        kinds = {each.kind for each in columns}
        alike = len({each.told for each in columns}) == 1 or kinds in ({Stored.INTEGER}, {Stored.TEXT})
        return self._key if alike else None

    def _key(self, _: RowLowering, column: StoredColumn, table: str) -> Scalar:
        """Compare a key in its own type; a list is nobody's, and refused as it has no text."""
        if column.kind is Stored.LIST:
            return self.text(table, column, f"tables.{table}.id")
        return self._cell(table, self.scans.cells.key(column))

    def _meeting(self, columns: Sequence[StoredColumn]) -> Read:
        """Say how keys that are stored in two types are compared: as whole numbers where one of them is a number."""
        kinds = {each.kind for each in columns}
        numbers = _NUMBERS - {Stored.BOOLEAN}
        return self._as_type(Type.INTEGER if kinds & numbers and kinds <= numbers | {Stored.TEXT} else Type.TEXT)

    def _as_type(self, kind: Type) -> Read:
        if kind is Type.TEXT:
            return lambda _, column, table: self.text(table, column, f"tables.{table}.id")
        return self._whole_id

    def _whole_id(self, rows: RowLowering, column: StoredColumn, table: str) -> Scalar:
        """Read an id as a whole number, or NULL, where nobody's id could be another's.

        A double that stands for two whole numbers would make two people one unit, and one person two where another
        table has the id in digits. Both break the bound on what one person changes, by a factor of two. One who comes
        to a unit that stays changes its rows, as if it were removed and another added; one who is two units changes
        both. So rows of such ids are nobody's, under either relation: which ones is decided by the row alone.
        """
        made = rows.shared(self._typed(rows, table, column, Domain(Type.INTEGER), f"tables.{table}.id"))
        if column.kind is Stored.TEXT:
            text = self._cell(table, self.scans.cells.short(column))
            exact = [apply(ScalarFunction.MATCHES, text, detail=(each,)) for each in (GRAMMARS[Type.INTEGER], EXACT)]
            return apply(ScalarFunction.CASE, exact[0], made, exact[1], made, missing(Type.INTEGER))
        if column.kind is Stored.REAL:
            most = real(largest_whole(column.told in _SINGLE))
            size = apply(ScalarFunction.ABS, self._cell(table, self.scans.cells.plain(column)))
            return apply(ScalarFunction.CASE, apply(ScalarFunction.LESS, size, most), made, missing(Type.INTEGER))
        return made


def _over(source: Relation, rows: RowLowering) -> Relation | Select:
    """Compute what expressions share in stages over a source."""
    return staged(source, rows)  # type: ignore[arg-type]


def _unit(key: Scalar, period: Scalar | None) -> Scalar:
    """Tell a unit by its id, or where it lies in a period by a text of both: ten letters of the day, then the id."""
    if period is None:
        return key
    return apply(
        ScalarFunction.JOIN, *(apply(ScalarFunction.CONVERT, each, detail=(Type.TEXT,)) for each in (period, key))
    )


def _paid_for(start: Scalar, per: str, bounds: Any) -> Scalar:
    """Leave a row without a period where its account would be none within the declared bounds, as every scan does."""
    first, last = (_day(calendar.truncated(per, end)) for end in bounds)
    end = calendar.shifted(last, 1, per)
    tests = [apply(ScalarFunction.AT_LEAST, start, Constant(first, Type.DATE))]
    if end is not None:
        tests.append(apply(ScalarFunction.LESS, start, Constant(_day(end), Type.DATE)))
    return apply(ScalarFunction.CASE, every(tests), start, missing(Type.DATE))


def _day(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _inline(scalar: Scalar, stages: Mapping[str, Scalar]) -> Scalar:
    """Write what is staged where it is used."""
    if isinstance(scalar, Reference):
        return _inline(stages[scalar.name], stages) if scalar.name in stages else Reference(scalar.name, ITEM)
    if isinstance(scalar, Apply):
        return replace(scalar, arguments=tuple(_inline(each, stages) for each in scalar.arguments))
    return scalar
