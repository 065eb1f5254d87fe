"""Neighbouring generated tables for a policy, with one adversarial unit that tests its limits.

No source of the owner is read: types, ranges, choices, ids, join paths and limits come from the policy, and everything
else is generated. A few ordinary units are in every table. One further unit has as many rows or groups as a limit
allows, one fewer and one more, with cells at both ends of every range, outside it, missing and malformed.

Ordinary cells lie within the declared domain; the n-th cell of a column of choices is its n-th choice, so the n-th row
of a unit falls into a group of its own for any grouping. Malformed cells are out of range, of extreme magnitude, not
finite, not listed, too long, or contain SQL.

The policy decides which tables are neighbours. Under add-remove: the table of the ordinary units alone, and each one
with a further unit. Under replace: any two with a further unit, or with none of its rows, since the replacement of a
person may have no rows where that person has some. If a unit is an id within a period, all its rows lie in one period.
If every row is a unit, the unit is one row of one table, and under replace no table without it is a neighbour.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from sfumato.quick_dataclass import dataclass

ARROW_TYPES: dict[Type, Any] = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}
"""The Arrow type that stores each declared type."""
_DAYS = 400
_DEFAULT_RANGES: dict[Type, tuple[Any, Any]] = {
    Type.INTEGER: (0, 100),
    Type.REAL: (Fraction(0), Fraction(100)),
    Type.DATE: (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Type.TIMESTAMP: (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
}
"""The ranges of columns that declare none."""
_EXTREME_CELLS: dict[Type, tuple[Any, ...]] = {
    Type.INTEGER: (2**62, -(2**62), 2**63 - 1, -(2**63), 0, -1),
    Type.REAL: (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 2.0**53 + 2),
    Type.TEXT: ("", " ", "it's", "NULL", "NaN", "''; DROP TABLE people; --", "\u2019", "\u0130", "a" * 3_000),
    Type.BOOLEAN: (True, False),
    Type.DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)),
    Type.TIMESTAMP: (dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11), dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)),
}


class RangeEnds(Enum):
    """Which numbers a unit's rows have in a column with a range."""

    HIGH = "at the high end"
    LOW = "at the low end"
    BOTH = "at both ends in turn"
    SPREAD = "each of its own"


@dataclass(frozen=True)
class GeneratedCells:
    """The cells generated for one column."""

    domain: Domain

    def ordinary(self, number: int, ends: RangeEnds) -> Any:
        """Return an ordinary cell for the row with this number."""
        column_type, choices = self.domain.type, self.domain.values
        if choices is not None:
            return _storable(choices[number % len(choices)])
        if column_type is Type.BOOLEAN:
            return number % 2 == 0
        if column_type is Type.TEXT:
            return f"text {number + 1}"[: self.domain.max_letters]
        column_range: tuple[Any, Any] = self.domain.bounds or _DEFAULT_RANGES[column_type]
        low, high = column_range
        if column_type.temporal:
            return low + dt.timedelta(number % (min((high - low).days, _DAYS) + 1))
        return _storable(_number_in_range(low, high, number, ends))

    @property
    def outside(self) -> tuple[Any, ...]:
        """Return cells just outside the declared domain; none if nothing is outside."""
        if self.domain.type is Type.TEXT:
            return ("not listed",) if self.domain.values is not None else ()
        return (*self.beyond(1), *self.beyond(-1))

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Return the cell above (1) or below (-1) the range, by one step plus ``times`` its length; empty if no such
        value can be stored.
        """
        column_type: Type = self.domain.type
        column_range: tuple[Any, Any] | None = self.domain.range
        if column_range is None:
            return ()
        low, high = column_range
        step: Any = dt.timedelta(1) if column_type.temporal else 1
        try:
            cell = _storable((high if side > 0 else low) + side * (step + times * (high - low)))
        except OverflowError:
            return ()
        return () if column_type is Type.INTEGER and abs(cell) >= 2**63 else (cell,)

    @property
    def malformed(self) -> tuple[Any, ...]:
        """Return malformed and extreme cells; None is NULL."""
        return (*_EXTREME_CELLS[self.domain.type], *self.outside, None)


@dataclass(frozen=True)
class ListCells:
    """The cells generated for one list column."""

    declared: ListColumn

    def ordinary(self, number: int, ends: RangeEnds) -> Any:
        """Return an ordinary list of the maximal length."""
        return self._items(number, self.declared.max_items, ends)

    def _items(self, number: int, count: int, ends: RangeEnds) -> list[Any]:
        return [GeneratedCells(self.declared.items).ordinary(number + offset, ends) for offset in range(count)]

    def beyond(self, side: int, times: int = 0) -> tuple[Any, ...]:
        """Return a list of items outside the range."""
        items = GeneratedCells(self.declared.items).beyond(side, times)
        return (list(items) * self.declared.max_items,) if items else ()

    @property
    def outside(self) -> tuple[Any, ...]:
        """Return a list with one item more than is counted."""
        return (self._items(0, self.declared.max_items + 1, RangeEnds.HIGH),)

    @property
    def malformed(self) -> tuple[Any, ...]:
        """Return malformed and extreme lists."""
        return (*self.outside, [], [None] * 2, list(GeneratedCells(self.declared.items).malformed), None)


def _number_in_range(low: Any, high: Any, number: int, ends: RangeEnds) -> Any:
    if ends is RangeEnds.BOTH:
        return low if number % 2 else high
    if ends is RangeEnds.SPREAD:
        return high - number % (int(high - low) + 1)
    return high if ends is RangeEnds.HIGH else low


def _storable(value: Any) -> Any:
    """Convert a declared value to its stored form: a Fraction becomes a float."""
    if isinstance(value, Fraction):
        return float(value)
    return value


def as_text_file_cell(cell: Any) -> Any:
    """Return a cell as a text file stores it."""
    if cell is None or isinstance(cell, list):
        return cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


MAX_ROWS = 20_000
"""The most rows of a generated unit in one table."""
_ORDINARY_UNITS = (1, 2, 3)
_EXTRA_UNIT = 1_000
_EPSILON_BUDGET = 10**9
"""The ε of the temporary account."""

_BAD_CELL_KINDS = ("missing", "outside", "far too high", "far too low", "strange")
"""Kinds of cells outside the declared domain."""

Row = dict[str, Any]
Rows = list[tuple[Row, int]]
"""Rows, each with its multiplicity."""


@dataclass(frozen=True)
class GeneratedPopulation:
    """All private tables of a policy, filled with generated units."""

    name: str
    """A description of the extra unit; empty if there are only the ordinary units."""
    tables: Mapping[str, Any]

    def __str__(self) -> str:
        return f"the others and a unit with {self.name}" if self.name else "the others alone"


@dataclass(frozen=True)
class NeighbouringTables:
    """The populations that a policy is audited on."""

    policy: Policy
    ordinary_population: GeneratedPopulation
    populations_with_extra_unit: tuple[GeneratedPopulation, ...]
    """The ordinary units and one further unit, in many variants."""
    tables_with_unreached_limit: tuple[str, ...]
    """The tables whose row limit no generated unit reaches."""

    @property
    def populations(self) -> tuple[GeneratedPopulation, ...]:
        return (self.ordinary_population, *self.populations_with_extra_unit)

    @cached_property
    def pairs(self) -> tuple[tuple[GeneratedPopulation, GeneratedPopulation], ...]:
        """Return all pairs that are neighbours under the policy."""
        if self.policy.neighbours is Neighbours.REPLACE:
            return tuple(
                combinations(self.populations_with_extra_unit if self.policy.unit.every_row else self.populations, 2)
            )
        return tuple((self.ordinary_population, population) for population in self.populations_with_extra_unit)

    def policy_over(self, population: GeneratedPopulation) -> Policy:
        """Return the policy over the tables of a population, with a temporary account.

        The account has the policy's neighbouring relation and enough budget for every release of an audit.
        """
        private = {
            name: replace(table, source=InMemory(population.tables[name]), relation=None)
            for name, table in self.policy.tables.items()
            if not table.public
        }
        return replace(
            self.policy,
            tables={**self.policy.tables, **private},
            budget=Budget(_EPSILON_BUDGET, "0.5", neighbours=self.policy.neighbours),
            allow_large_delta=True,
            id_type=_id_type(self.policy),
            path=None,
            account="invented",
            analysts={},
        )


def neighbours_of(policy: Policy, *, texts: bool = False) -> NeighbouringTables:
    """Generate the tables that a policy is audited on; with ``texts`` every cell is stored as text, as in CSV."""
    generator = _TableGenerator(policy, texts)
    others = generator.build_population("", _merge_units([generator.plain_unit(number) for number in _ORDINARY_UNITS]))
    populations: dict[str, GeneratedPopulation] = {}
    for name, unit in generator.extra_units():
        population = generator.build_population(
            name, _merge_units([generator.plain_unit(number) for number in _ORDINARY_UNITS] + [unit])
        )
        if not any(population.tables == earlier.tables for earlier in populations.values()):
            populations[name] = population
    return NeighbouringTables(policy, others, tuple(populations.values()), generator.tables_with_unreached_limit)


def _id_type(policy: Policy) -> Type | None:
    return policy.id_type or (None if policy.unit.every_row else Type.TEXT)


Unit = Mapping[str, Rows]
"""All rows of one unit, by table."""


def _merge_units(units: Sequence[Unit]) -> dict[str, Rows]:
    names = dict.fromkeys(name for unit in units for name in unit)
    return {name: [row for unit in units for row in unit.get(name, [])] for name in names}


@dataclass(frozen=True)
class _UnitShape:
    """The number of rows of a unit, its groups, the first of them, and its numbers."""

    name: str
    rows: int
    groups: int = 1
    ends: RangeEnds = RangeEnds.HIGH
    first_group: int = 0


@dataclass(frozen=True)
class _TableGenerator:
    policy: Policy
    texts: bool

    @property
    def _private_tables(self) -> dict[str, Table]:
        return {name: table for name, table in self.policy.tables.items() if not table.public}

    @property
    def tables_with_unreached_limit(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, table in self._private_tables.items()
            if (table.max_rows or 1) >= min(MAX_ROWS, _max_rows_of_one_unit(table))
        )

    def build_population(self, name: str, rows: Mapping[str, Rows]) -> GeneratedPopulation:
        return GeneratedPopulation(
            name,
            {
                table_name: self._arrow_table(table, rows.get(table_name, []))
                for table_name, table in self._private_tables.items()
            },
        )

    def _arrow_table(self, table: Table, rows: Rows) -> Any:
        """Build an Arrow table from rows."""
        row_index = np.repeat(np.arange(len(rows)), [count for _, count in rows])
        columns = {}
        for name, column_type in self._column_types(table).items():
            cells = [row.get(name) for row, _ in rows]
            as_strings = self.texts and not pyarrow.types.is_list(column_type)
            column = (
                pyarrow.array(list(map(as_text_file_cell, cells)), pyarrow.string())
                if as_strings
                else pyarrow.array(cells, column_type)
            )
            columns[name] = column.take(pyarrow.array(row_index))
        return pyarrow.table(columns)

    def _column_types(self, table: Table) -> dict[str, Any]:
        """Return the Arrow type of every column that the policy names."""
        types = dict.fromkeys(self._id_columns(table), ARROW_TYPES[_id_type(self.policy) or Type.TEXT])
        types |= {name: ARROW_TYPES[column.type] for name, column in table.columns.items()}
        return types | {name: pyarrow.list_(ARROW_TYPES[column.items.type]) for name, column in table.lists.items()}

    def _id_columns(self, table: Table) -> list[str]:
        """Return the columns that identify the unit of a row: its own id, then keys that other tables join on."""
        id_columns = [] if table.every_row else [table.id.on if isinstance(table.id, Via) else str(table.id)]
        return list(dict.fromkeys([*id_columns, *self._join_keys(table)]))

    def _join_keys(self, table: Table) -> list[str]:
        paths = [other.id for other in self._private_tables.values() if isinstance(other.id, Via)]
        return [path.key for path in paths if path.via == table.name]

    def _id_cells(self, table: Table, number: int) -> Row:
        """Return the unit's id in every column that identifies it."""
        types = self._column_types(table)
        return {
            column: str(number) if pyarrow.types.is_string(types[column]) else number
            for column in self._id_columns(table)
        }

    def plain_unit(self, number: int) -> Unit:
        """Return an ordinary unit, well within every limit."""
        shape = _UnitShape("", 1, 1, RangeEnds.SPREAD, number - 1)
        return {name: self._make_rows(table, number, shape) for name, table in self._private_tables.items()}

    def extra_units(self) -> Iterator[tuple[str, Unit]]:
        """Yield the named units that test a limit or a range."""
        if self.policy.unit.every_row:
            yield from self._single_row_units()
            return
        shapes: dict[str, dict[str, _UnitShape]] = {}
        for table in self._private_tables.values():
            for shape in _unit_shapes(table):
                shapes.setdefault(shape.name, {})[table.name] = shape
        for name, table_shapes in shapes.items():
            yield (
                name,
                {
                    table: self._make_rows(self._private_tables[table], _EXTRA_UNIT, shape)
                    for table, shape in table_shapes.items()
                },
            )
        for name in _BAD_CELL_KINDS:
            yield (
                f"{name} cells",
                {
                    private_table.name: self._bad_rows(private_table, _EXTRA_UNIT, name)
                    for private_table in self._private_tables.values()
                },
            )
        yield from self._cross_linked_units()

    def _single_row_units(self) -> Iterator[tuple[str, Unit]]:
        """Yield single rows: at both ends, in another group, and one per bad cell."""
        for name, table in self._private_tables.items():
            suffix = f" in {name}" if len(self._private_tables) > 1 else ""
            for shape in (
                _UnitShape("a row at the high end", 1),
                _UnitShape("a row at the low end", 1, 1, RangeEnds.LOW, 1),
            ):
                yield shape.name + suffix, {name: self._make_rows(table, _EXTRA_UNIT, shape)}
            bad_rows = [row for kind in _BAD_CELL_KINDS for row, _ in self._bad_rows(table, _EXTRA_UNIT, kind)]
            for number, row in enumerate(bad_rows):
                yield f"strange row {number + 1}{suffix}", {name: [(row, 1)]}

    def _cross_linked_units(self) -> Iterator[tuple[str, Unit]]:
        """Yield a unit whose join key is shared with another unit, and a unit that is in a single table."""
        if len(self._private_tables) < 2:
            return
        shared = {}
        for name, table in self._private_tables.items():
            keys = [key for key in self._join_keys(table) if key != table.id]
            other_ids = self._id_cells(table, _ORDINARY_UNITS[0])
            rows = self._make_rows(table, _EXTRA_UNIT, _UnitShape("", 1))
            shared[name] = [({**row, **{key: other_ids[key] for key in keys}}, times) for row, times in rows]
        if any(self._join_keys(table) for table in self._private_tables.values()):
            yield "a key that another unit has too", shared
        first = next(iter(self._private_tables.values()))
        yield (
            f"rows in {first.name} alone",
            {first.name: self._make_rows(first, _EXTRA_UNIT, _UnitShape("", _tested_row_limit(first) + 1))},
        )

    def _make_rows(self, table: Table, number: int, shape: _UnitShape) -> Rows:
        """Return the rows of a unit: row n is in group n modulo the number of groups."""
        id_cells, groups = self._id_cells(table, number), max(1, min(shape.groups, shape.rows))
        distinct_rows = [
            {**self._ordinary_cells(table, shape.first_group + group, shape.ends), **id_cells}
            for group in range(groups)
        ]
        return _cycle_rows(distinct_rows, shape.rows)

    def _ordinary_cells(self, table: Table, number: int, ends: RangeEnds) -> Row:
        period = self.policy.period_column(table.name)
        return {
            name: cells.ordinary(0 if name == period else number, ends)
            for name, cells in _cell_generators(table).items()
        }

    def _bad_rows(self, table: Table, number: int, kind: str) -> Rows:
        """Return rows of missing, outside or malformed cells, one per cell, repeated beyond the row limit."""
        id_cells, period = self._id_cells(table, number), self.policy.period_column(table.name)
        plain = self._ordinary_cells(table, 0, RangeEnds.HIGH)
        choices = {name: _bad_cells(source, kind) for name, source in _cell_generators(table).items() if name != period}
        count = max([1, *(len(cells) for cells in choices.values())])
        rows = [
            {**plain, **{name: cells[index % len(cells)] for name, cells in choices.items() if cells}, **id_cells}
            for index in range(count)
        ]
        return _cycle_rows(
            rows,
            count if table.every_row else min(max(count, _tested_row_limit(table) + 1), _max_rows_of_one_unit(table)),
        )


def _cycle_rows(rows: Sequence[Row], count: int) -> Rows:
    """Cycle through the rows until there are ``count``."""
    repeats, remainder = divmod(count, len(rows))
    return [(row, repeats + (index < remainder)) for index, row in enumerate(rows) if repeats + (index < remainder)]


def _cell_generators(table: Table) -> dict[str, GeneratedCells | ListCells]:
    cells: dict[str, GeneratedCells | ListCells] = {
        name: GeneratedCells(column) for name, column in table.columns.items()
    }
    return cells | {name: ListCells(column) for name, column in table.lists.items()}


def _bad_cells(cells: GeneratedCells | ListCells, kind: str) -> tuple[Any, ...]:
    if kind in ("far too high", "far too low"):
        return cells.beyond(1 if kind == "far too high" else -1, times=1)
    return (None,) if kind == "missing" else cells.outside if kind == "outside" else cells.malformed


def _max_rows_of_one_unit(table: Table) -> int:
    """Return how many rows one unit may have beside the ordinary units, which have one each."""
    return table.row_ceiling - len(_ORDINARY_UNITS)


def _tested_row_limit(table: Table) -> int:
    return min(table.max_rows or 1, MAX_ROWS - 1, max(1, _max_rows_of_one_unit(table) - 1))


def _unit_shapes(table: Table) -> Iterator[_UnitShape]:
    """Yield unit shapes around the limits of a table: at each limit, one below and one above."""
    rows = _tested_row_limit(table)
    groups, rows_per_group = min(table.max_groups or rows, rows), min(table.max_rows_per_group or rows, rows)
    yield _UnitShape("one row", 1)
    yield _UnitShape("one row less than the limit", max(1, rows - 1))
    yield _UnitShape("as many rows as the limit", rows)
    yield _UnitShape("one row more than the limit", rows + 1)
    yield _UnitShape("as many rows in a group as the limit", rows_per_group)
    yield _UnitShape("one row more in a group than the limit", rows_per_group + 1)
    yield _UnitShape("as many groups as the limit", groups, groups)
    yield _UnitShape("one group more than the limit", groups + 1, groups + 1)
    yield _UnitShape("one row and one group more than the limits", rows + 1, groups + 1, RangeEnds.BOTH)
    yield _UnitShape("rows at the low end, one more than the limit", rows + 1, 1, RangeEnds.LOW)
    yield _UnitShape("rows in other groups", rows + 1, groups, RangeEnds.HIGH, groups + 1)
    yield _UnitShape(
        "rows far beyond the limit, each of its own",
        min(MAX_ROWS, _max_rows_of_one_unit(table), 4 * rows + 3),
        400,
        RangeEnds.SPREAD,
    )
