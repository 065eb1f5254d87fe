"""An attribute is a coded column: finitely many public cells, and every row is in exactly one of them.

The last cell holds what is missing or not listed, so all marginals of one table have the same total. Levels join cells
to coarser ones: days to months, months to years. Everything here comes from the policy, never from rows.

A coded column is an attribute of a table together with the key of the plan that says in which cell a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.sql.text_positions import nearest
from sfumato.plan.values.coded_keys import coded_key, listed
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Domain, Table
from sfumato.policy.codings import Coding
from sfumato.policy.domains import Type, Value, as_value
from sfumato.privacy import codec
from sfumato.publish.marginals.chains import Chain

MOST_CELLS = 10**7
"""Of one attribute, and of one marginal."""


@codec.value("listed-cell")
@dataclass(frozen=True)
class ListedCell:
    """This cell holds the rows with one listed value."""

    value: Value


@codec.value("range-cell")
@dataclass(frozen=True)
class RangeCell:
    """This cell holds the rows with a value from ``low`` to below ``high``, or with ``high`` too where it is closed."""

    low: Value
    high: Value
    closed: bool = False

    def __post_init__(self) -> None:
        if type(self.closed) is not bool:
            raise InvalidParameter("closed", self.closed, "True or False")

    def single(self, kind: Type) -> bool:
        """Tell whether it holds one value alone: one whole number, or one day."""
        if kind not in (Type.INTEGER, Type.DATE):
            return False
        steps: Any = self.high - self.low  # type: ignore[operator]
        return (steps.days if kind is Type.DATE else steps) == (0 if self.closed else 1)


@codec.value("other-cell")
@dataclass(frozen=True)
class Other:
    """This cell holds the rows whose value is missing, or is in no other cell."""


Cell = ListedCell | RangeCell | Other


@codec.value("attribute")
@dataclass(frozen=True)
class Attribute:
    """An attribute says which cells a column has, in order, and how they are joined to coarser ones.

    >>> Attribute("sex", "text", (Listed("f"), Listed("m"), Other())).size
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
    def binned(self) -> bool:
        """Tell whether some cell holds more than one value."""
        return any(isinstance(each, RangeCell) and not each.single(self.type) for each in self.cells)

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidParameter("name", self.name, "the name of a column")
        object.__setattr__(self, "type", Type.of(self.type))
        object.__setattr__(self, "cells", _cells(self.type, self.cells))
        object.__setattr__(self, "levels", _levels(self.levels, self.size))
        object.__setattr__(self, "labels", _labels(self.labels, self.levels))

    def __hash__(self) -> int:
        """Hash only the ends of a long list: the hash is asked for again and again."""
        return hash((self.name, self.type, self.size, self.cells[0], len(self.levels)))

    @property
    def size(self) -> int:
        """Count the cells."""
        return len(self.cells)

    @cached_property
    def chain(self) -> Chain:
        """Give the cells under their levels, from the whole down to single cells."""
        return Chain.of(self.size, self.levels)

    @property
    def flat(self) -> Attribute:
        """Give the same cells without levels."""
        return replace(self, levels=(), labels=()) if self.levels else self


Attributes = tuple[Attribute, ...]


def branched(attribute: Attribute, branching: int) -> Attribute:
    """Join neighbouring cells by so many, and these again, until so many are left: levels that suit sums over ranges.

    >>> years = Attribute("year", "integer", (*map(Listed, range(6)), Other()))
    >>> branched(years, 2).levels
    ((0, 0, 1, 1, 2, 2, 3), (0, 0, 0, 0, 1, 1, 2))
    """
    if type(branching) is not int or branching < 2:
        raise InvalidParameter("branching", branching, "a whole number ≥ 2")
    levels: list[tuple[int, ...]] = []
    declared, width = attribute.size - 1, branching
    while -(-declared // width) > 1:
        levels.append((*(place // width for place in range(declared)), -(-declared // width)))
        width *= branching
    return replace(attribute, levels=tuple(levels), labels=())


def _cells(kind: Type, cells: Any) -> tuple[Cell, ...]:
    if not isinstance(cells, (tuple, list)) or not 1 <= len(cells) <= MOST_CELLS:
        raise InvalidParameter("cells", cells, f"a list of 1 to {MOST_CELLS:,} cells")
    if cells[-1] != Other() or any(type(each) not in (ListedCell, RangeCell) for each in cells[:-1]):
        raise InvalidParameter("cells", cells, "listed values or ranges, and Other() as the last alone")
    found = tuple(_typed(kind, each) for each in cells)
    if len(set(found)) != len(found):
        raise InvalidParameter("cells", cells, "a list in which no cell stands twice")
    return found


def _typed(kind: Type, cell: Cell) -> Cell:
    """Read the values of a cell as values of the column's type: texts of dates are dates again."""
    if isinstance(cell, ListedCell):
        return ListedCell(as_value(kind, cell.value, "value"))
    if isinstance(cell, RangeCell):
        low, high = as_value(kind, cell.low, "low"), as_value(kind, cell.high, "high")
        ordered = kind not in (Type.TEXT, Type.BOOLEAN) and (low < high or (cell.closed and low == high))  # type: ignore[operator]
        if not ordered:
            raise InvalidParameter("high", cell.high, "above low, of a type that has ranges")
        return RangeCell(low, high, cell.closed)
    return cell


def _levels(levels: Any, size: int) -> tuple[tuple[int, ...], ...]:
    if not isinstance(levels, (tuple, list)) or not all(isinstance(each, (tuple, list)) for each in levels):
        raise InvalidParameter("levels", levels, "for each level a list of the part of each cell")
    found = tuple(tuple(each) for each in levels)
    finer: Sequence[int] = range(size)
    for level in found:
        if len(level) != size or any(type(each) is not int or each < 0 for each in level):
            raise InvalidParameter("levels", level, f"for each level the numbers of the parts of {size} cells")
        if len(set(zip(finer, level, strict=True))) != len(set(finer)):
            raise InvalidParameter("levels", level, "from fine to coarse, each a union of parts of the one before")
        if level.count(level[-1]) != 1:
            raise InvalidParameter("levels", level, "levels that leave the last cell, of what is missing, to itself")
        finer = level
    return found


def _labels(labels: Any, levels: tuple[tuple[int, ...], ...]) -> tuple[tuple[str, ...], ...]:
    if not isinstance(labels, (tuple, list)) or not all(isinstance(each, (tuple, list)) for each in labels):
        raise InvalidParameter("labels", labels, "for each level a list of names")
    found = tuple(tuple(each) for each in labels)
    if found and len(found) != len(levels):
        raise InvalidParameter("labels", len(found), "a list of names for each level")
    for own, level in zip(found, levels, strict=False):
        texts = all(type(each) is str and each for each in own)
        if own and (not texts or len(set(own)) != len(own) or len(own) <= max(level[:-1], default=0)):
            raise InvalidParameter("labels", own, "different names, one for each part of the level")
    return found


@dataclass(frozen=True)
class CodedColumn:
    """This is a column of a table whose marginals can be measured."""

    attribute: Attribute
    key: Expression
    """What rows are grouped by: NULL for a row in the last cell."""
    codes: tuple[Value, ...]
    """What the key is in each cell but the last, in order."""


def attribute_of(name: str, domain: Domain, coding: Coding | None) -> Attribute:
    """Give the cells of a coded column, and the levels that join them; the last cell is a part of its own."""
    if coding is None or not coding.starts:
        cells: list[ListedCell | RangeCell | Other] = [ListedCell(each) for each in listed(domain)]
    else:
        assert coding.end is not None
        cells = [*map(ListedCell, coding.spikes), *(RangeCell(low, high) for low, high in pairwise(coding.starts))]
        cells.append(RangeCell(coding.starts[-1], coding.end, closed=True))
    own = coding.levels if coding else ()
    levels = tuple((*each.parts, max(each.parts) + 1) for each in own)
    labels = tuple(each.labels if len(set(each.labels)) == len(each.labels) else () for each in own)
    return Attribute(name, domain.type, (*cells, Other()), levels, labels if any(labels) else ())


def coded(table: Table, names: Sequence[str], resolve: Callable[[str | None, str], Expression]) -> list[CodedColumn]:
    """Find coded columns by their names; ``resolve`` says which column of the rows a name means, as in SQL."""
    known = {name.lower(): name for name in table.columns}
    return [_coded(table, name, known, resolve) for name in names]


def coded_names(table: Table) -> list[str]:
    """List the columns of a table that can be measured."""
    return [name for name in table.columns if table.coded(name) and not _is_unit(table, name)]


def _coded(
    table: Table, name: str, known: Mapping[str, str], resolve: Callable[[str | None, str], Expression]
) -> CodedColumn:
    if not isinstance(name, str):
        raise Unsupported("not-text", "a column is named by its name", fix='write ["sex", "age"]')
    if _is_unit(table, name):
        rule = f"{name[:60]} says whose row it is and never leaves"
        raise Unsupported("unit-column", rule, fix="leave it out: marginals are of other columns")
    if name.lower() not in known:
        fix = nearest(name, coded_names(table))
        raise Unsupported("unknown-column", f"no declared column of {table.name} is called {name[:60]}", fix=fix)
    own = known[name.lower()]
    if not table.coded(own):
        rule = f"{own} has no cells: a column is coded when its values are listed, or it is boolean, or it has bins"
        raise Unsupported("uncoded-column", rule, fix=f"add values or bins to {table.name}.{own} in the policy")
    column, coding = resolve(None, own), table.codings.get(own)
    assert isinstance(column, Column)
    key, codes = coded_key(column, coding)
    return CodedColumn(attribute_of(own, table.columns[own], coding), key, codes)


def _is_unit(table: Table, name: str) -> bool:
    return isinstance(table.id, str) and name.lower() == table.id.lower() and not table.every_row
