"""Cells are invented for a column from what is declared of it: plain ones, its ends, and what no policy wishes for.

Plain cells are what the policy expects; the n-th of a column of choices is its n-th choice, so that the n-th row of a
unit falls into a group of its own whatever is grouped by. Strange cells are out of range, not of the type, not finite,
not listed, too long, or words that mean something to a database.

Neighbouring tables are invented from what a policy declares, with one unit made to break its limits.

No file and no row of the owner is opened: types, ranges, choices, ids, paths and limits are those of the policy, and
everything else is made up here. A few plain units are in every table. One unit more has as many rows, or as many
groups, as a limit allows, one less and one more; cells at both ends of every range, outside of it, missing and strange.

Which of these tables are neighbours is what the policy says: with add-remove, the table of the others alone and each
one with a unit more; with replace, any two that have a unit more, or none of its rows, since a person who is replaced
by another may have rows where that one has none. Where a unit is an id within a period, all rows of it lie in one
period. Where every row is a unit, it is one row of one table, and no table without it is a neighbour under replace.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow

from sfumato.caching import cached_property
from sfumato.policy import Domain, InMemory, Policy, Table, Type, Via
from sfumato.policy.domains import ListColumn
from sfumato.privacy import Budget, Neighbours

STORED: dict[Type, Any] = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}
"""How a source stores what is declared as each type."""
_DAYS = 400
_USUAL: dict[Type, tuple[Any, Any]] = {
    Type.INTEGER: (0, 100),
    Type.REAL: (Fraction(0), Fraction(100)),
    Type.DATE: (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Type.TIMESTAMP: (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
}
"""The ranges of columns that declare none."""
_STRANGE: dict[Type, tuple[Any, ...]] = {
    Type.INTEGER: (2**62, -(2**62), 2**63 - 1, -(2**63), 0, -1),
    Type.REAL: (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 2.0**53 + 2),
    Type.TEXT: ("", " ", "it's", "NULL", "NaN", "''; DROP TABLE people; --", "\u2019", "\u0130", "a" * 3_000),
    Type.BOOLEAN: (True, False),
    Type.DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)),
    Type.TIMESTAMP: (dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11), dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)),
}


class Ends(Enum):
    """This says which number a row has in a column with a range."""

    HIGH = "at the high end"
    LOW = "at the low end"
    BOTH = "at both ends in turn"
    SPREAD = "each of its own"


@dataclass(frozen=True)
class InventedCells:
    """These are the cells that may be invented for one column."""

    domain: Domain

    def plain(self, number: int, ends: Ends) -> Any:
        """Give the cell of the row of this number, as the policy expects it."""
        kind, listed = self.domain.type, self.domain.values
        if listed is not None:
            return _stored(listed[number % len(listed)])
        if kind is Type.BOOLEAN:
            return number % 2 == 0
        if kind is Type.TEXT:
            return f"text {number + 1}"[: self.domain.letters]
        ends_of: tuple[Any, Any] = self.domain.bounds or _USUAL[kind]
        low, high = ends_of
        if kind.temporal:
            return low + dt.timedelta(number % (min((high - low).days, _DAYS) + 1))
        return _stored(_number(low, high, number, ends))

    @property
    def outside(self) -> tuple[Any, ...]:
        """List cells just outside what is declared; none where everything is inside."""
        if self.domain.type is Type.TEXT:
            return ("not listed",) if self.domain.values is not None else ()
        return (*self.beyond(1), *self.beyond(-1))

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Give the cell above a range (1) or below it (-1), by one and so many times its length; none where no such
        value can be stored.
        """
        kind: Type = self.domain.type
        known: tuple[Any, Any] | None = self.domain.range
        if known is None:
            return ()
        low, high = known
        step: Any = dt.timedelta(1) if kind.temporal else 1
        try:
            found = _stored((high if side > 0 else low) + side * (step + times * (high - low)))
        except OverflowError:
            return ()
        return () if kind is Type.INTEGER and abs(found) >= 2**63 else (found,)

    @property
    def strange(self) -> tuple[Any, ...]:
        """List cells that no policy wishes for; None is what is missing."""
        return (*_STRANGE[self.domain.type], *self.outside, None)


@dataclass(frozen=True)
class ListCells:
    """These are the cells that may be invented for one column of lists."""

    declared: ListColumn

    def plain(self, number: int, ends: Ends) -> Any:
        """Give a list of as many items as count."""
        return self._items(number, self.declared.most_items, ends)

    def _items(self, number: int, count: int, ends: Ends) -> list[Any]:
        return [InventedCells(self.declared.items).plain(number + place, ends) for place in range(count)]

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Give a list of items beyond a range."""
        found = InventedCells(self.declared.items).beyond(side, times)
        return (list(found) * self.declared.most_items,) if found else ()

    @property
    def outside(self) -> tuple[Any, ...]:
        """Give a list of one item more than count."""
        return (self._items(0, self.declared.most_items + 1, Ends.HIGH),)

    @property
    def strange(self) -> tuple[Any, ...]:
        """List lists that no policy wishes for."""
        return (*self.outside, [], [None] * 2, list(InventedCells(self.declared.items).strange), None)


def _number(low: Any, high: Any, number: int, ends: Ends) -> Any:
    if ends is Ends.BOTH:
        return low if number % 2 else high
    if ends is Ends.SPREAD:
        return high - number % (int(high - low) + 1)
    return high if ends is Ends.HIGH else low


def _stored(value: Any) -> Any:
    """Give a public value as a source holds it; a whole number beyond 64 bits does not occur in one."""
    if isinstance(value, Fraction):
        return float(value)
    return value


def as_text(cell: Any) -> Any:
    """Write a cell as a file of texts holds it."""
    if cell is None or isinstance(cell, list):
        return cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


MOST_ROWS = 20_000
"""An invented unit has at most this many rows in one table."""
_OTHERS = (1, 2, 3)
_UNIT = 1_000
_PURSE = 10**9
"""The ε of an account that is thrown away."""

_ODD = ("missing", "outside", "far too high", "far too low", "strange")
"""Kinds of cells that a policy does not expect."""

Row = dict[str, Any]
Rows = list[tuple[Row, int]]
"""Rows, each with how often it occurs."""


@dataclass(frozen=True)
class InventedPopulation:
    """A population is all private tables of a policy, with invented people in them."""

    name: str
    """Who is in it beside the others; empty for the others alone."""
    tables: Mapping[str, Any]

    def __str__(self) -> str:
        return f"the others and a unit with {self.name}" if self.name else "the others alone"


@dataclass(frozen=True)
class NeighbouringTables:
    """These are the tables that one policy is tried on."""

    policy: Policy
    others: InventedPopulation
    larger: tuple[InventedPopulation, ...]
    """The others and one unit more, in many ways."""
    capped: tuple[str, ...]
    """The tables whose limit of rows no invented unit reaches."""

    @property
    def populations(self) -> tuple[InventedPopulation, ...]:
        return (self.others, *self.larger)

    @cached_property
    def pairs(self) -> tuple[tuple[InventedPopulation, InventedPopulation], ...]:
        """List the pairs that the policy calls neighbours."""
        if self.policy.neighbours is Neighbours.REPLACE:
            return tuple(combinations(self.larger if self.policy.unit.every_row else self.populations, 2))
        return tuple((self.others, each) for each in self.larger)

    def opened(self, population: InventedPopulation) -> Policy:
        """Give the policy over the tables of a population, with an account that is thrown away: it has the policy's
        terms, and enough in it for as many releases as an audit makes.
        """
        private = {
            name: replace(each, source=InMemory(population.tables[name]), relation=None)
            for name, each in self.policy.tables.items()
            if not each.public
        }
        return replace(
            self.policy,
            tables={**self.policy.tables, **private},
            budget=Budget(_PURSE, "0.5", neighbours=self.policy.neighbours),
            id_type=_id_type(self.policy),
            path=None,
            account="invented",
            analysts={},
        )


def neighbours_of(policy: Policy, *, texts: bool = False) -> NeighbouringTables:
    """Make the tables that a policy is tried on; with ``texts`` every cell is stored as text, as CSV files do."""
    inventor = _Inventor(policy, texts)
    others = inventor.population("", _joined([inventor.plain_unit(each) for each in _OTHERS]))
    found: dict[str, InventedPopulation] = {}
    for name, unit in inventor.units():
        made = inventor.population(name, _joined([inventor.plain_unit(each) for each in _OTHERS] + [unit]))
        if not any(made.tables == each.tables for each in found.values()):
            found[name] = made
    return NeighbouringTables(policy, others, tuple(found.values()), inventor.capped)


def _id_type(policy: Policy) -> Type | None:
    return policy.id_type or (None if policy.unit.every_row else Type.TEXT)


Unit = Mapping[str, Rows]
"""All rows of one unit, by table."""


def _joined(units: Sequence[Unit]) -> dict[str, Rows]:
    names = dict.fromkeys(name for unit in units for name in unit)
    return {name: [row for unit in units for row in unit.get(name, [])] for name in names}


@dataclass(frozen=True)
class _Shape:
    """A shape says how many rows a unit has, over how many groups, from which on, with what numbers."""

    name: str
    rows: int
    groups: int = 1
    ends: Ends = Ends.HIGH
    first: int = 0


@dataclass(frozen=True)
class _Inventor:
    policy: Policy
    texts: bool

    @property
    def _private(self) -> dict[str, Table]:
        return {name: each for name, each in self.policy.tables.items() if not each.public}

    @property
    def capped(self) -> tuple[str, ...]:
        return tuple(
            name for name, each in self._private.items() if (each.max_rows or 1) >= min(MOST_ROWS, _room(each))
        )

    def population(self, name: str, rows: Mapping[str, Rows]) -> InventedPopulation:
        return InventedPopulation(
            name, {table: self._stored(each, rows.get(table, [])) for table, each in self._private.items()}
        )

    def _stored(self, table: Table, rows: Rows) -> Any:
        """Put rows together as a table in memory."""
        times = np.repeat(np.arange(len(rows)), [count for _, count in rows])
        columns = {}
        for name, kind in self._kinds(table).items():
            cells = [row.get(name) for row, _ in rows]
            written = self.texts and not pyarrow.types.is_list(kind)
            kept = pyarrow.array(list(map(as_text, cells)), pyarrow.string()) if written else pyarrow.array(cells, kind)
            columns[name] = kept.take(pyarrow.array(times))
        return pyarrow.table(columns)

    def _kinds(self, table: Table) -> dict[str, Any]:
        """Say how every column is stored that the policy names."""
        named = dict.fromkeys(self._links(table), STORED[_id_type(self.policy) or Type.TEXT])
        named |= {name: STORED[each.type] for name, each in table.columns.items()}
        return named | {name: pyarrow.list_(STORED[each.items.type]) for name, each in table.lists.items()}

    def _links(self, table: Table) -> list[str]:
        """List the columns that say whose a row is, its own first and then those that other tables' paths lead to."""
        own = [] if table.every_row else [table.id.on if isinstance(table.id, Via) else str(table.id)]
        return list(dict.fromkeys([*own, *self._keys(table)]))

    def _keys(self, table: Table) -> list[str]:
        paths = [each.id for each in self._private.values() if isinstance(each.id, Via)]
        return [each.key for each in paths if each.via == table.name]

    def _linked(self, table: Table, number: int) -> Row:
        """Name a unit in every column that says whose a row is."""
        kinds = self._kinds(table)
        return {each: str(number) if pyarrow.types.is_string(kinds[each]) else number for each in self._links(table)}

    def plain_unit(self, number: int) -> Unit:
        """Make one of the others, who is well within every limit."""
        shape = _Shape("", 1, 1, Ends.SPREAD, number - 1)
        return {name: self._rows(each, number, shape) for name, each in self._private.items()}

    def units(self) -> Iterator[tuple[str, Unit]]:
        """Make the units that a limit or a range has to stop, each with its name."""
        if self.policy.unit.every_row:
            yield from self._single_rows()
            return
        shapes: dict[str, dict[str, _Shape]] = {}
        for table in self._private.values():
            for shape in _shapes(table):
                shapes.setdefault(shape.name, {})[table.name] = shape
        for name, each in shapes.items():
            yield name, {table: self._rows(self._private[table], _UNIT, shape) for table, shape in each.items()}
        for name in _ODD:
            yield f"{name} cells", {t.name: self._odd(t, _UNIT, name) for t in self._private.values()}
        yield from self._entangled()

    def _single_rows(self) -> Iterator[tuple[str, Unit]]:
        """Make single rows: at the ends, in another group, and one for each strange cell."""
        for name, table in self._private.items():
            where = f" in {name}" if len(self._private) > 1 else ""
            for shape in (_Shape("a row at the high end", 1), _Shape("a row at the low end", 1, 1, Ends.LOW, 1)):
                yield shape.name + where, {name: self._rows(table, _UNIT, shape)}
            odd = [row for kind in _ODD for row, _ in self._odd(table, _UNIT, kind)]
            for number, row in enumerate(odd):
                yield f"strange row {number + 1}{where}", {name: [(row, 1)]}

    def _entangled(self) -> Iterator[tuple[str, Unit]]:
        """Make a unit whose rows lead to rows of another unit, and one that is in a single table."""
        if len(self._private) < 2:
            return
        shared = {}
        for name, table in self._private.items():
            keys = [each for each in self._keys(table) if each != table.id]
            other = self._linked(table, _OTHERS[0])
            rows = self._rows(table, _UNIT, _Shape("", 1))
            shared[name] = [({**row, **{each: other[each] for each in keys}}, times) for row, times in rows]
        if any(self._keys(each) for each in self._private.values()):
            yield "a key that another unit has too", shared
        first = next(iter(self._private.values()))
        yield f"rows in {first.name} alone", {first.name: self._rows(first, _UNIT, _Shape("", _most(first) + 1))}

    def _rows(self, table: Table, number: int, shape: _Shape) -> Rows:
        """Make the rows of a unit: the n-th is in the n-th of its groups, and they begin again after the last."""
        linked, groups = self._linked(table, number), max(1, min(shape.groups, shape.rows))
        made = [{**self._cells(table, shape.first + each, shape.ends), **linked} for each in range(groups)]
        return _often(made, shape.rows)

    def _cells(self, table: Table, number: int, ends: Ends) -> Row:
        period = self.policy.period_column(table.name)
        return {name: each.plain(0 if name == period else number, ends) for name, each in _columns(table).items()}

    def _odd(self, table: Table, number: int, what: str) -> Rows:
        """Make rows of missing, outside or strange cells, as many as there are, each as often as a limit allows."""
        linked, period = self._linked(table, number), self.policy.period_column(table.name)
        plain = self._cells(table, 0, Ends.HIGH)
        choices = {name: _choices(each, what) for name, each in _columns(table).items() if name != period}
        count = max([1, *(len(each) for each in choices.values())])
        made = [
            {**plain, **{each: cells[k % len(cells)] for each, cells in choices.items() if cells}, **linked}
            for k in range(count)
        ]
        return _often(made, count if table.every_row else min(max(count, _most(table) + 1), _room(table)))


def _often(rows: Sequence[Row], count: int) -> Rows:
    """Take rows in turn until there are so many."""
    whole, rest = divmod(count, len(rows))
    return [(row, whole + (place < rest)) for place, row in enumerate(rows) if whole + (place < rest)]


def _columns(table: Table) -> dict[str, InventedCells | ListCells]:
    cells: dict[str, InventedCells | ListCells] = {name: InventedCells(each) for name, each in table.columns.items()}
    return cells | {name: ListCells(each) for name, each in table.lists.items()}


def _choices(cells: InventedCells | ListCells, what: str) -> tuple[Any, ...]:
    if what in ("far too high", "far too low"):
        return cells.beyond(1 if what == "far too high" else -1, times=1)
    return (None,) if what == "missing" else cells.outside if what == "outside" else cells.strange


def _room(table: Table) -> int:
    """Count the rows that one unit may have beside the others, who have one each."""
    return table.row_ceiling - len(_OTHERS)


def _most(table: Table) -> int:
    return min(table.max_rows or 1, MOST_ROWS - 1, max(1, _room(table) - 1))


def _shapes(table: Table) -> Iterator[_Shape]:
    """List the shapes of units around the limits of a table: at each, one below and one above."""
    rows = _most(table)
    groups, inside = min(table.max_groups or rows, rows), min(table.max_rows_per_group or rows, rows)
    yield _Shape("one row", 1)
    yield _Shape("one row less than the limit", max(1, rows - 1))
    yield _Shape("as many rows as the limit", rows)
    yield _Shape("one row more than the limit", rows + 1)
    yield _Shape("as many rows in a group as the limit", inside)
    yield _Shape("one row more in a group than the limit", inside + 1)
    yield _Shape("as many groups as the limit", groups, groups)
    yield _Shape("one group more than the limit", groups + 1, groups + 1)
    yield _Shape("one row and one group more than the limits", rows + 1, groups + 1, Ends.BOTH)
    yield _Shape("rows at the low end, one more than the limit", rows + 1, 1, Ends.LOW)
    yield _Shape("rows in other groups", rows + 1, groups, Ends.HIGH, groups + 1)
    yield _Shape(
        "rows far beyond the limit, each of its own", min(MOST_ROWS, _room(table), 4 * rows + 3), 400, Ends.SPREAD
    )
