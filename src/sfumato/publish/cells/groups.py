"""The groups of a question are found from cells alone: every cell of the keys' attributes is in one group, or in none.

A column that is grouped by itself is a *key axis*: each of its cells is a group. Other keys (a part of a date, a level,
a comparison) join cells of their attributes, which are then *joined axes*: their cells have the number of their group.
A key that some cell does not decide, because it tells rows of one bin apart, is refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Type
from sfumato.publish.cells.cell_values import Cells, PossibleTruths, Spans, Texts
from sfumato.publish.marginals.attributes import Attribute, ListedCell, RangeCell
from sfumato.publish.marginals.blocks import Set

Codes = NDArray[np.int64]

MOST_GROUPS = 200_000


@dataclass(frozen=True, eq=False)
class GroupKeyCells:
    """This is a key: which of its values each cell of its attributes has, −1 where the answer does not show it."""

    axes: Set
    codes: Codes
    values: tuple[Any, ...]
    whole: bool = False
    """Whether it is a column, of which every cell is a value."""
    open: NDArray[np.bool_] | None = None
    """The cells whose rows may have any value of it, where there are some."""


def key_cells(key: Expression, axes: Set, found: Cells, attribute: Attribute | None) -> GroupKeyCells:
    """Find which value a key has in each cell of its axes; ``attribute`` is what it is, where it is a column alone."""
    if attribute is not None:
        values = _labels(attribute)
        kept = len(values) if key.domain.nullable else len(values) - 1
        codes = np.where(np.arange(len(values)) < kept, np.arange(len(values)), -1)
        return GroupKeyCells(axes, codes.astype(np.int64), tuple(values), whole=True)
    unsure = ~found.sure
    loose = isinstance(key, Column) and isinstance(found, Texts)  # it has a value in every cell, and may have others
    if bool(unsure.any()) and not loose:
        names = "a bin has rows on both sides" if isinstance(key, Column) else "it differs between rows of one bin"
        rule = f"a key is the same for all rows of a cell; {names}"
        raise Unsupported("cut-key", rule, fix="group by the column itself, or by what its bins' edges decide")
    values = _values(found, key.domain.type)
    different = list(dict.fromkeys(values))
    shown = {value: place for place, value in enumerate(different) if value is not None or key.domain.nullable}
    codes = np.array([shown.get(value, -1) for value in values], np.int64)
    maybe = unsure.reshape(-1) if bool(unsure.any()) else None
    return GroupKeyCells(axes, codes.reshape(found.sure.shape), tuple(different), open=maybe)


def _labels(attribute: Attribute) -> list[Any]:
    """Name cells: by their values, or by where their bins start; after a value there that has a cell of its own."""
    alone = {each.value for each in attribute.cells if isinstance(each, ListedCell)}
    found = []
    for cell in attribute.cells:
        start = cell.low if isinstance(cell, RangeCell) else None
        while isinstance(cell, RangeCell) and start in alone and start is not None and start < cell.high:  # type: ignore[operator]
            start = _after(start)
        found.append(cell.value if isinstance(cell, ListedCell) else start)
    return found


def _after(value: Any) -> Any:
    """Give the next value that a column of this type can hold."""
    if isinstance(value, dt.date):
        return value + (dt.timedelta.resolution if isinstance(value, dt.datetime) else dt.timedelta(days=1))
    return value + 1 if isinstance(value, int) else Fraction(math.nextafter(float(value), math.inf))


def _values(found: Cells, kind: Type) -> list[Any]:
    if isinstance(found, Texts):
        return list(found.value.ravel())
    if isinstance(found, PossibleTruths):
        return [None if null else bool(true) for true, null in zip(found.true.ravel(), found.null.ravel(), strict=True)]
    assert isinstance(found, Spans)
    return [
        _value(low, kind) if there else None for low, there in zip(found.low.ravel(), found.there.ravel(), strict=True)
    ]


def _value(number: float, kind: Type) -> Any:
    if kind is Type.DATE:
        return dt.date(1970, 1, 1) + dt.timedelta(days=int(number))
    if kind is Type.TIMESTAMP:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))
    return int(number) if kind is Type.INTEGER else float(number)


@dataclass(frozen=True, eq=False)
class Groups:
    """These are the groups of a question: a grid of the cells of key axes and of the groups of joined cells."""

    axes: Set
    """The key axes,"""
    sizes: tuple[int, ...]
    joined: Set
    """the joined ones,"""
    codes: Codes
    """and the group of each of their cells, −1 for none."""
    count: int
    """Groups of joined cells; 1 where no cells are joined."""
    keys: tuple[tuple[Any, ...], ...]
    """Of the groups that the answer shows,"""
    places: NDArray[np.intp]
    """and where on the grid they are."""
    open: NDArray[np.bool_] | None = None
    """The joined cells whose rows may be in any group, where there are some."""

    def member(self, index: int) -> NDArray[np.bool_]:
        """Tell which joined cells have rows, or may have some, in a group of them."""
        own = self.codes == index
        return own if self.open is None else own | self.open

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the shape of the grid."""
        return (*self.sizes, self.count)


def grouped(keys: Sequence[GroupKeyCells], attributes: Sequence[Attribute]) -> Groups:
    """Put keys together: which axes each group has to itself, and which cells of the others it joins."""
    axes, joined = _split(keys)
    sizes = tuple(attributes[place].size for place in axes)
    members = [key for key in keys if key.axes and set(key.axes) <= set(joined)]
    loose = _loose(keys, members)
    codes, each = _together(members, joined, attributes)
    count = len(each) if joined else 1
    grid = []
    for key in keys:
        if key in members:
            own = each[:, members.index(key)]
        else:
            own = key.codes.reshape((*(attributes[p].size if p in key.axes else 1 for p in axes), 1))
        grid.append(np.broadcast_to(own, (*sizes, count)).ravel())
    whole = int(np.prod(sizes, dtype=object)) * count
    if whole > MOST_GROUPS:
        rule = f"an answer has at most {MOST_GROUPS:,} groups; this has {whole:,}"
        raise Unsupported("too-many-groups", rule, fix="group by fewer columns, or by levels")
    shown = np.flatnonzero(np.logical_and.reduce([each >= 0 for each in grid])) if grid else np.zeros(1, np.intp)
    order = np.lexsort([each[shown] for each in reversed(grid)]) if grid else np.zeros(1, np.intp)
    places = shown[order]
    named = [[key.values[code] for code in own[places].tolist()] for key, own in zip(keys, grid, strict=True)]
    found = tuple(zip(*named, strict=True)) if keys else ((),)
    return Groups(axes, sizes, joined, codes, count, found, places, loose)


def _loose(keys: Sequence[GroupKeyCells], members: Sequence[GroupKeyCells]) -> NDArray[np.bool_] | None:
    """Find the joined cells that may be in any group: of one key alone, since another would say in which."""
    found = [key for key in keys if key.open is not None]
    if found and (len(found) > 1 or list(members) != found):
        rule = "a column that another one decides is grouped by alone, or beside other columns as they are"
        raise Unsupported("cut-key", rule, fix="count what is wanted: COUNT(*) FILTER (WHERE region = 'north')")
    return found[0].open if found else None


def _split(keys: Sequence[GroupKeyCells]) -> tuple[Set, Set]:
    """Find the key axes, and the joined ones: what a key reads beside a joined axis is joined too."""
    plain = {key.axes[0] for key in keys if key.whole}
    joined = {place for key in keys for place in key.axes if place not in plain}
    while True:
        more = {place for key in keys if joined & set(key.axes) for place in key.axes} - joined
        if not more:
            return tuple(sorted(plain - joined)), tuple(sorted(joined))
        joined |= more


def _together(
    keys: Sequence[GroupKeyCells], joined: Set, attributes: Sequence[Attribute]
) -> tuple[Codes, NDArray[np.int64]]:
    """Find the combinations of keys over joined cells, by numbers; and what each number says of every key."""
    sizes = tuple(attributes[place].size for place in joined)
    combined, kept = np.zeros(sizes, np.int64), np.ones(sizes, bool)
    for key in keys:
        own = key.codes.reshape(tuple(attributes[p].size if p in key.axes else 1 for p in joined))
        combined = combined * len(key.values) + np.maximum(own, 0)
        kept &= own >= 0
    different, inverse = np.unique(combined[kept], return_inverse=True)
    codes = np.full(sizes, -1, np.int64)
    codes[kept] = inverse
    each = np.empty((len(different), len(keys)), np.int64)
    for place in range(len(keys) - 1, -1, -1):
        each[:, place] = different % len(keys[place].values)
        different = different // len(keys[place].values)
    return codes, each
