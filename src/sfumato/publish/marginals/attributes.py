"""Attributes: coded columns with finitely many public cells, of which every row is in exactly one.

The last cell holds missing and unlisted values, so all marginals of one table have the same total. Levels join cells
to coarser ones: days to months, months to years. Everything here comes from the policy, never from rows.

A coded column is an attribute of a table together with the plan's key expression that maps a row to its cell.

The public face of a table: what the policy says of its published columns, whatever its rows are.

Functional dependencies between columns, as city → region: declared by the policy, and read from noisy counts.

Theorem. Let f(c) be the one cell of the decided column that all rows in cell c of the deciding column have, and let
L(c, r) ≤ N(c, r) hold for all pairs of cells at once with probability 1 − β. Then, with that probability, wherever some
L(c, r) > 0 it is r = f(c), and no row is in (c, r′) for any other r′.
Proof. L(c, r) > 0 shows that there is a row in (c, r), and all rows of c share one cell. ∎

A cell has one f(c) if it holds one value: a listed one, or a bin that is one whole number or one day. The last cell
holds what is missing and whatever is not listed, so it decides nothing. Counts are noisy, so what is read from them is
free; privacy rests on no declaration. One that is false makes consistent counts and bounds wrong, and nothing else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.plan.values.countable import coded_key_and_cell_values, single_value_cells
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Domain, Table
from sfumato.policy.codings import CELLS_RULE, Coding
from sfumato.policy.domains import Type, Value, parse_value
from sfumato.privacy import codec
from sfumato.publish.marginals.chains import CellHierarchy
from sfumato.quick_dataclass import dataclass

MAX_CELLS = 10**7
"""The most cells of one attribute, and of one marginal."""


@codec.serialisable("listed-cell")
@dataclass(frozen=True)
class ListedCell:
    """The cell of the rows with one listed value."""

    value: Value


@codec.serialisable("range-cell")
@dataclass(frozen=True)
class RangeCell:
    """The cell of the rows with a value from ``low`` to below ``high``, or up to ``high`` where it is closed."""

    low: Value
    high: Value
    closed: bool = False

    def __post_init__(self) -> None:
        if type(self.closed) is not bool:
            raise InvalidParameter("closed", self.closed, "True or False")

    def is_single_value(self, sql_type: Type) -> bool:
        """Return whether it holds one value alone: one whole number, or one day."""
        if sql_type not in (Type.INTEGER, Type.DATE):
            return False
        steps: Any = self.high - self.low  # type: ignore[operator]
        return (steps.days if sql_type is Type.DATE else steps) == (0 if self.closed else 1)


@codec.serialisable("group-cell")
@dataclass(frozen=True)
class GroupCell:
    """The cell of the rows with one of several listed values."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if len(set(self.values)) < max(2, len(self.values)):
            raise InvalidParameter(
                "values", self.values[:3], "two or more different values", fix='for example, set values to ["a", "b"]'
            )


@codec.serialisable("other-cell")
@dataclass(frozen=True)
class OtherCell:
    """The cell of the rows whose value is missing, or is in no other cell."""


Cell = ListedCell | RangeCell | GroupCell | OtherCell


@codec.serialisable("attribute")
@dataclass(frozen=True)
class Attribute:
    """The cells of a column, in order, and how they are joined to coarser ones.

    >>> Attribute("sex", "text", (ListedCell("f"), ListedCell("m"), OtherCell())).size
    3
    """

    name: str
    type: Type
    cells: tuple[Cell, ...]
    """The last is ``Other()``, and no other one is."""
    levels: tuple[tuple[int, ...], ...] = ()
    """From fine to coarse: for each cell the number of its part. Parts of one level are unions of parts of the one
    before, and the last cell is a part of its own."""
    labels: tuple[tuple[str, ...], ...] = ()
    """For each level the names of its parts but the last, none where it has no names; empty where no level has any."""

    @property
    def has_bins(self) -> bool:
        """Whether some cell is a range of more than one value."""
        return any(isinstance(cell, RangeCell) and not cell.is_single_value(self.type) for cell in self.cells)

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidParameter(
                "name", self.name, "a non-empty string", fix='write the name of the column, such as "sex"'
            )
        object.__setattr__(self, "type", Type.of(self.type))
        object.__setattr__(self, "cells", _checked_cells(self.type, self.cells))
        object.__setattr__(self, "levels", _checked_levels(self.levels, self.size))
        object.__setattr__(self, "labels", _checked_labels(self.labels, self.levels))

    def __hash__(self) -> int:
        """Hash only the ends of a long list: the hash is asked for again and again."""
        return hash((self.name, self.type, self.size, self.cells[0], len(self.levels)))

    @property
    def size(self) -> int:
        return len(self.cells)

    @cached_property
    def hierarchy(self) -> CellHierarchy:
        """The cells under their levels, from the whole down to single cells."""
        return CellHierarchy.from_levels(self.size, self.levels)

    @property
    def without_levels(self) -> Attribute:
        """The same cells without levels."""
        return replace(self, levels=(), labels=()) if self.levels else self


Attributes = tuple[Attribute, ...]


def summarize_columns(attributes: Attributes) -> str:
    """Return the columns with their numbers of cells: ``sex (2 + missing), age (10 + missing)``."""
    return ", ".join(f"{attribute.name} ({attribute.size - 1} + missing)" for attribute in attributes)


def with_branching_levels(attribute: Attribute, branching: int) -> Attribute:
    """Join neighbouring cells by so many, and these again, until so many are left: levels that suit sums over ranges.

    >>> years = Attribute("year", "integer", (*map(ListedCell, range(6)), OtherCell()))
    >>> with_branching_levels(years, 2).levels
    ((0, 0, 1, 1, 2, 2, 3), (0, 0, 0, 0, 1, 1, 2))
    """
    if type(branching) is not int or branching < 2:
        raise InvalidParameter("branching", branching, "a whole number ≥ 2")
    declared_cells = attribute.size - 1
    widths = (branching**power for power in range(1, declared_cells.bit_length()))
    levels = tuple(
        (*(index // width for index in range(declared_cells)), -(-declared_cells // width))
        for width in widths
        if width < declared_cells
    )
    return replace(attribute, levels=levels, labels=())


def _checked_cells(sql_type: Type, cells: Any) -> tuple[Cell, ...]:
    if not isinstance(cells, (tuple, list)) or not 1 <= len(cells) <= MAX_CELLS:
        raise InvalidParameter("cells", cells, f"a list of 1 to {MAX_CELLS:,} cells")
    if cells[-1] != OtherCell() or any(type(cell) not in (ListedCell, RangeCell, GroupCell) for cell in cells[:-1]):
        raise InvalidParameter(
            "cells",
            cells,
            "a list of cells that ends in OtherCell()",
            fix="add OtherCell() at the end",
        )
    typed_cells = tuple(_cell_of_type(sql_type, cell) for cell in cells)
    if len(set(typed_cells)) != len(typed_cells):
        raise InvalidParameter("cells", cells, "a list of different cells")
    return typed_cells


def _cell_of_type(sql_type: Type, cell: Cell) -> Cell:
    """Convert the values of a cell to the column's type: texts of dates are dates again."""
    if isinstance(cell, ListedCell):
        return ListedCell(parse_value(sql_type, cell.value, "value"))
    if isinstance(cell, GroupCell):
        return GroupCell(tuple(parse_value(sql_type, value, "values") for value in cell.values))
    if isinstance(cell, RangeCell):
        low, high = parse_value(sql_type, cell.low, "low"), parse_value(sql_type, cell.high, "high")
        is_ordered = sql_type not in (Type.TEXT, Type.BOOLEAN) and (low < high or (cell.closed and low == high))  # type: ignore[operator]
        if not is_ordered:
            raise InvalidParameter("high", cell.high, "a number, date or time above low")
        return RangeCell(low, high, cell.closed)
    return cell


_MAX_EXAMPLE_CELLS = 10
"""The number of cells up to which a refusal writes out a level."""


def _checked_levels(levels: Any, size: int) -> tuple[tuple[int, ...], ...]:
    if not isinstance(levels, (tuple, list)) or not all(isinstance(level, (tuple, list)) for level in levels):
        raise InvalidParameter(
            "levels", levels, "a list of levels such as [[0, 0, 1]], each with a group number for every cell"
        )
    checked_levels = tuple(tuple(level) for level in levels)
    finer: Sequence[int] = range(size)
    for level in checked_levels:
        if len(level) != size or any(type(part) is not int or part < 0 for part in level):
            rule = f"a list of levels, each with a group number (a whole number ≥ 0) for each of the {size} cells"
            example = [*[0] * (min(size, _MAX_EXAMPLE_CELLS) - 1), 1]
            raise InvalidParameter(
                "levels", level, rule, fix=f"for example, write levels=[{example}]" * (size <= _MAX_EXAMPLE_CELLS)
            )
        if len(set(zip(finer, level, strict=True))) != len(set(finer)):
            raise InvalidParameter(
                "levels",
                level,
                "a list of levels from fine to coarse, each made by merging groups of the one before",
                fix="for 4 cells, for example, write levels=[[0, 0, 1, 2], [0, 0, 0, 1]]",
            )
        if level.count(level[-1]) != 1:
            raise InvalidParameter(
                "levels",
                level,
                "a list of levels, in each of which the last cell, for missing values, is alone in its group",
                fix="give the last cell of each level a number that no other cell of the level has",
            )
        finer = level
    return checked_levels


def _checked_labels(labels: Any, levels: tuple[tuple[int, ...], ...]) -> tuple[tuple[str, ...], ...]:
    if not isinstance(labels, (tuple, list)) or not all(isinstance(names, (tuple, list)) for names in labels):
        raise InvalidParameter("labels", labels, 'a list with one list of names per level, such as [["young", "old"]]')
    checked_labels = tuple(tuple(names) for names in labels)
    if checked_labels and len(checked_labels) != len(levels):
        rule = f"a list of length {len(levels)}, with a list of names for each level"
        raise InvalidParameter(
            "labels", ValueWords(f"{len(checked_labels)} list" + "s" * (len(checked_labels) > 1)), rule
        )
    for names, level in zip(checked_labels, levels, strict=False):
        are_texts = all(type(name) is str and name for name in names)
        if names and (not are_texts or len(set(names)) != len(names) or len(names) <= max(level[:-1], default=0)):
            raise InvalidParameter(
                "labels",
                names,
                "a list of different names, one for each group of the level but the last, which holds missing values",
            )
    return checked_labels


@dataclass(frozen=True)
class CodedColumn:
    """A column of a table whose marginals can be measured."""

    attribute: Attribute
    key: Expression
    """What rows are grouped by: NULL for a row in the last cell."""
    codes: tuple[Value, ...]
    """What the key is in each cell but the last, in order."""


def coded_attribute(name: str, domain: Domain, coding: Coding | None) -> Attribute:
    """Return the cells of a coded column, and the levels that join them; the last cell is a part of its own."""
    if coding is None or not coding.starts:
        cells: list[ListedCell | RangeCell | OtherCell] = [ListedCell(value) for value in single_value_cells(domain)]
    else:
        assert coding.end is not None
        cells = [*map(ListedCell, coding.spikes), *(RangeCell(low, high) for low, high in pairwise(coding.starts))]
        cells.append(RangeCell(coding.starts[-1], coding.end, closed=True))
    coding_levels = coding.levels if coding else ()
    levels = tuple((*level.parts, max(level.parts) + 1) for level in coding_levels)
    labels = tuple(level.labels if len(set(level.labels)) == len(level.labels) else () for level in coding_levels)
    return Attribute(name, domain.type, (*cells, OtherCell()), levels, labels if any(labels) else ())


def code_columns(
    table: Table, names: Sequence[str], resolve: Callable[[str | None, str], Expression]
) -> list[CodedColumn]:
    """Return coded columns by their names; ``resolve`` maps a name to a column of the rows, as in SQL."""
    column_names = {name.lower(): name for name in table.columns}
    return [_code_column(table, name, column_names, resolve) for name in names]


def measurable_column_names(table: Table) -> list[str]:
    """Return the columns of a table that can be measured."""
    return [name for name in table.columns if table.is_coded(name) and not _is_unit_id(table, name)]


def _code_column(
    table: Table, name: str, column_names: Mapping[str, str], resolve: Callable[[str | None, str], Expression]
) -> CodedColumn:
    if not isinstance(name, str):
        raise Unsupported(
            "not-text", "columns must be given by name, as strings", fix='write for example ["sex", "age"]'
        )
    if _is_unit_id(table, name):
        rule = f"{name[:60]} identifies the unit of each row, and ids are never released"
        raise Unsupported("unit-column", rule, fix=f"leave {name[:60]} out of the list of columns")
    if name.lower() not in column_names:
        fix = fix_for_unknown_name(name, measurable_column_names(table))
        raise Unsupported("unknown-column", f"no declared column of {table.name} is called {name[:60]}", fix=fix)
    declared_name = column_names[name.lower()]
    if not table.is_coded(declared_name):
        rule = f'"{declared_name}" cannot be counted by values or bins: {CELLS_RULE}'
        raise Unsupported(
            "uncoded-column", rule, fix=f"add values or bins to {table.name}.{declared_name} in the policy"
        )
    column, coding = resolve(None, declared_name), table.codings.get(declared_name)
    assert isinstance(column, Column)
    key, codes = coded_key_and_cell_values(column, coding)
    return CodedColumn(coded_attribute(declared_name, table.columns[declared_name], coding), key, codes)


def _is_unit_id(table: Table, name: str) -> bool:
    return isinstance(table.id, str) and name.lower() == table.id.lower() and not table.every_row


@codec.serialisable("table-face")
@dataclass(frozen=True)
class PublicTableFacts:
    """The domains of the published columns, in their order, what no row can be, and who pays."""

    domains: tuple[Domain, ...] = ()
    """Empty if only the cells are known."""
    impossible: tuple[str, ...] = ()
    """Conditions that hold for no row, as the policy writes them."""
    account: str = ""
    implies: tuple[tuple[str, str], ...] = ()
    """Pairs of published columns of which the first decides the second."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        are_pairs = type(self.implies) is tuple and all(type(pair) is tuple and len(pair) == 2 for pair in self.implies)
        if not are_pairs or not all(type(name) is str for pair in self.implies for name in pair):
            raise InvalidParameter(
                "implies",
                self.implies,
                "a tuple of pairs of column names",
                fix="put each pair in a tuple: (('city', 'region'),)",
            )
        if type(self.domains) is not tuple or not all(isinstance(domain, Domain) for domain in self.domains):
            raise InvalidParameter("domains", self.domains, "a tuple with one domain for each column")

    def domains_for(self, attributes: Attributes) -> tuple[Domain, ...]:
        """Return the domains, derived from the cells where they were not kept; columns and domains must agree."""
        if not self.domains:
            return tuple(map(_domain_of_cells, attributes))
        if [domain.type for domain in self.domains] != [attribute.type for attribute in attributes]:
            raise InvalidParameter("domains", len(self.domains), "one domain for each attribute, of its type")
        return self.domains


BARE = PublicTableFacts()
"""The face of a table of which only the cells are known."""


def _domain_of_cells(attribute: Attribute) -> Domain:
    bins = [cell for cell in attribute.cells if isinstance(cell, RangeCell)]
    if bins:
        return Domain(attribute.type, bounds=(bins[0].low, bins[-1].high))
    single_values = tuple(cell.value for cell in attribute.cells if isinstance(cell, ListedCell))
    return Domain(
        attribute.type, values=single_values if single_values and attribute.type is not Type.BOOLEAN else None
    )


Mask = NDArray[np.bool_]

_DAY = dt.timedelta(days=1)
_STEPS: dict[Type, Any] = {Type.INTEGER: 1, Type.DATE: _DAY}


@dataclass(frozen=True, eq=False)
class DecidedCells:
    """Which cell of the decided column goes with each cell of the deciding one."""

    cells: Indices
    """The most likely decided cell for each deciding cell; the most frequent one for a cell that decides nothing."""
    decides: Mask
    """Which cells decide at all: they hold one value."""
    certain: Mask
    """Which of these are certain: noise cannot explain their counts, up to the miss probability."""
    shares: Floats
    """The distribution of each cell's rows over the decided column: concentrated in one cell if the cell decides."""

    @property
    def impossible(self) -> Mask:
        """The pairs of cells, deciding × decided, that no row is in."""
        is_other = np.arange(self.shares.shape[1]) != self.cells[:, None]
        return is_other & self.certain[:, None]


def infer_dependency(
    counts: Floats, deciding: Attribute, *, widths: Floats | float = np.inf, impossible: Mask | None = None
) -> DecidedCells:
    """Read from noisy counts, deciding × decided, what a column decides; ``widths`` hold for all pairs at once.

    ``impossible`` are pairs that are declared to have no rows: where one alone is left, it is certain without counts.

    >>> from sfumato.publish.marginals.attributes import OtherCell
    >>> city = Attribute("city", "text", (ListedCell("Lyon"), ListedCell("Kyoto"), OtherCell()))
    >>> infer_dependency(np.array([[90.2, -3.0], [1.5, 2.1], [4.0, 4.0]]), city, widths=10.0).certain.tolist()
    [True, False, False]
    """
    if counts.ndim != 2 or len(counts) != deciding.size or not counts.shape[1]:
        raise InvalidParameter(
            "counts",
            ValueWords(f"shape {counts.shape}"),
            f"an array with a row for each of the {deciding.size} deciding cells and a column for each decided cell",
        )
    ruled_out = np.zeros(counts.shape, bool) if impossible is None else impossible
    is_possible = ~(ruled_out & ~ruled_out.all(1, keepdims=True))
    is_shown = is_possible & (counts - widths > 0)
    has_one_shown = is_shown.sum(1) == 1
    cells = np.where(has_one_shown, is_shown.argmax(1), np.where(is_possible, counts, -np.inf).argmax(1))
    decides = np.array([holds_one_value(cell, deciding.type) for cell in deciding.cells])
    certain = decides & (has_one_shown | (is_possible.sum(1) == 1))
    return DecidedCells(
        cells,
        decides,
        certain,
        _shares_of_decided_cells(np.where(is_possible, counts, 0.0), is_possible, cells, decides),
    )


def _shares_of_decided_cells(counts: Floats, possible: Mask, cells: Indices, decides: Mask) -> Floats:
    """Distribute rows: all to one cell where it is decided, and else as the counts above zero are, or evenly."""
    is_decided = np.arange(counts.shape[1]) == cells[:, None]
    positive = np.maximum(counts, 0.0)
    spread = np.where(positive.sum(1, keepdims=True) > 0, positive, possible)
    weights = np.where(decides[:, None], is_decided, spread)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def holds_one_value(cell: Cell, sql_type: Type) -> bool:
    """Return whether all rows in a cell have one value: a bin is one whole number or one day, or is more."""
    if isinstance(cell, ListedCell):
        return True
    if not isinstance(cell, RangeCell):
        return False
    if cell.closed:
        return bool(cell.low == cell.high)
    low, high, step = cell.low, cell.high, _STEPS.get(sql_type)
    return step is not None and bool(high - low == step)  # type: ignore[operator]
