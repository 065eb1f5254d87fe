"""GROUP BY over cells: every cell of the keys' attributes belongs to one group, or to none.

A column grouped by directly is a *key axis*: each of its cells is a group. Other keys (a part of a date, a level, a
comparison) merge cells of their attributes, which are then *joined axes*: each of their cells has a group number. A key
that differs between rows of one bin is refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Type
from sfumato.publish.cells.cell_values import CellOutcomes, CellTexts, PossibleTruths, ValueRanges, describe_cell
from sfumato.publish.marginals.attributes import Attribute, GroupCell, ListedCell, RangeCell
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.quick_dataclass import dataclass

Codes = NDArray[np.int64]

MAX_GROUPS = 200_000


@dataclass(frozen=True, eq=False)
class GroupKeyCells:
    """A group key: which of its values each cell of its attributes has, −1 where the answer does not show it."""

    axes: AttributeSet
    codes: Codes
    values: tuple[Any, ...]
    is_whole_attribute: bool = False
    """Whether the key is a column itself, so that every cell is a value."""
    undecided: NDArray[np.bool_] | None = None
    """The cells whose rows may have any value of the key; None if there are none."""


def evaluate_group_key(
    key: Expression, axes: AttributeSet, cells: CellOutcomes, attribute: Attribute | None
) -> GroupKeyCells:
    """Return the value that a key has in each cell of its axes; ``attribute`` is given if the key is a plain column."""
    if attribute is not None:
        values = _cell_key_values(attribute)
        key_count = len(values) if key.domain.nullable else len(values) - 1
        codes = np.where(np.arange(len(values)) < key_count, np.arange(len(values)), -1)
        return GroupKeyCells(axes, codes.astype(np.int64), tuple(values), is_whole_attribute=True)
    uncertain = ~cells.certain
    is_decided = isinstance(key, Column) and isinstance(
        cells, CellTexts
    )  # a decided column: undecided cells may have any value
    if bool(uncertain.any()) and not is_decided:
        reason = (
            "one bin has values of several groups"
            if isinstance(key, Column)
            else "the expression differs between rows of one bin"
        )
        rule = f"a synopsis can group only by expressions that are the same for all rows of a bin, and here {reason}"
        raise Unsupported(
            "cut-key",
            rule,
            fix="group by the column itself, or by an expression that changes only at the edges of its bins",
        )
    values = _key_values(cells, key.domain.type)
    distinct = list(dict.fromkeys(values))
    codes_by_value = {value: code for code, value in enumerate(distinct) if value is not None or key.domain.nullable}
    codes = np.array([codes_by_value.get(value, -1) for value in values], np.int64)
    undecided = uncertain.reshape(-1) if bool(uncertain.any()) else None
    return GroupKeyCells(axes, codes.reshape(cells.certain.shape), tuple(distinct), undecided=undecided)


def _cell_key_values(attribute: Attribute) -> list[Any]:
    """Label cells: listed ones by their value, bins by the first value in them that has no cell of its own, groups in
    words.
    """
    single_value_cells = {cell.value for cell in attribute.cells if isinstance(cell, ListedCell)}
    labels = []
    for cell in attribute.cells:
        start = cell.low if isinstance(cell, RangeCell) else None
        while isinstance(cell, RangeCell) and start in single_value_cells and start is not None and start < cell.high:  # type: ignore[operator]
            start = _next_value(start)
        label = describe_cell(cell) if isinstance(cell, GroupCell) else start
        labels.append(cell.value if isinstance(cell, ListedCell) else label)
    return labels


def _next_value(value: Any) -> Any:
    """Return the next value that a column of this type can hold."""
    if isinstance(value, dt.date):
        return value + (dt.timedelta.resolution if isinstance(value, dt.datetime) else dt.timedelta(days=1))
    return value + 1 if isinstance(value, int) else Fraction(math.nextafter(float(value), math.inf))


def _key_values(cells: CellOutcomes, sql_type: Type) -> list[Any]:
    if isinstance(cells, CellTexts):
        return list(cells.value.ravel())
    if isinstance(cells, PossibleTruths):
        return [None if null else bool(true) for true, null in zip(cells.true.ravel(), cells.null.ravel(), strict=True)]
    assert isinstance(cells, ValueRanges)
    return [
        _typed_value(low, sql_type) if there else None
        for low, there in zip(cells.low.ravel(), cells.may_have_value.ravel(), strict=True)
    ]


def _typed_value(number: float, sql_type: Type) -> Any:
    if sql_type is Type.DATE:
        return dt.date(1970, 1, 1) + dt.timedelta(days=int(number))
    if sql_type is Type.TIMESTAMP:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))
    return int(number) if sql_type is Type.INTEGER else float(number)


@dataclass(frozen=True, eq=False)
class CellGroups:
    """The groups of a question: a grid of the cells of the key axes × the groups of joined cells."""

    key_axes: AttributeSet
    """The key axes."""
    key_sizes: tuple[int, ...]
    joined_axes: AttributeSet
    """The joined axes."""
    joined_codes: Codes
    """The group of each joined cell, −1 for none."""
    joined_count: int
    """The number of groups of joined cells; 1 where no cells are joined."""
    answer_keys: tuple[tuple[Any, ...], ...]
    """The keys of the groups that the answer shows."""
    answer_grid_index: NDArray[np.intp]
    """The flat grid index of each group that the answer shows."""
    undecided: NDArray[np.bool_] | None = None
    """The joined cells whose rows may be in any group; None if there are none."""

    def members_of(self, index: int) -> NDArray[np.bool_]:
        """Return which joined cells have rows, or may have some, in a joined group."""
        in_group = self.joined_codes == index
        return in_group if self.undecided is None else in_group | self.undecided

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the grid."""
        return (*self.key_sizes, self.joined_count)


def group_cells(keys: Sequence[GroupKeyCells], attributes: Sequence[Attribute]) -> CellGroups:
    """Combine keys: which axes are key axes, and which groups the cells of the others form."""
    axes, joined = _split_axes(keys)
    sizes = tuple(attributes[attribute_index].size for attribute_index in axes)
    joined_keys = [key for key in keys if key.axes and set(key.axes) <= set(joined)]
    undecided = _undecided_cells(keys, joined_keys)
    codes, combinations = _combine_keys(joined_keys, joined, attributes)
    count = len(combinations) if joined else 1
    code_columns = []
    for key in keys:
        if key in joined_keys:
            row_codes = combinations[:, joined_keys.index(key)]
        else:
            row_codes = key.codes.reshape((*(attributes[p].size if p in key.axes else 1 for p in axes), 1))
        code_columns.append(np.broadcast_to(row_codes, (*sizes, count)).ravel())
    group_count = int(np.prod(sizes, dtype=object)) * count
    if group_count > MAX_GROUPS:
        rule = f"an answer can have at most {MAX_GROUPS:,} groups; this one would have {group_count:,}"
        raise Unsupported(
            "too-many-groups", rule, fix="group by fewer columns, or by coarser levels, such as icd_level_1"
        )
    group_index = (
        np.flatnonzero(np.logical_and.reduce([key_codes >= 0 for key_codes in code_columns]))
        if code_columns
        else np.zeros(1, np.intp)
    )
    order = (
        np.lexsort([key_codes[group_index] for key_codes in reversed(code_columns)])
        if code_columns
        else np.zeros(1, np.intp)
    )
    grid_index = group_index[order]
    key_values = [
        [key.values[code] for code in row_codes[grid_index].tolist()]
        for key, row_codes in zip(keys, code_columns, strict=True)
    ]
    keys_of_groups = tuple(zip(*key_values, strict=True)) if keys else ((),)
    return CellGroups(axes, sizes, joined, codes, count, keys_of_groups, grid_index, undecided)


def _undecided_cells(keys: Sequence[GroupKeyCells], joined_keys: Sequence[GroupKeyCells]) -> NDArray[np.bool_] | None:
    """Return the joined cells that may be in any group; only one key may have such cells, or the others would say
    which.
    """
    open_keys = [key for key in keys if key.undecided is not None]
    if open_keys and (len(open_keys) > 1 or list(joined_keys) != open_keys):
        rule = (
            "a synopsis cannot group both by a column that another column determines and by an expression of these "
            "columns"
        )
        raise Unsupported(
            "cut-key", rule, fix="count each value in a separate column: COUNT(*) FILTER (WHERE region = 'north')"
        )
    return open_keys[0].undecided if open_keys else None


def _split_axes(keys: Sequence[GroupKeyCells]) -> tuple[AttributeSet, AttributeSet]:
    """Return the key axes and the joined axes; whatever a key reads beside a joined axis is joined too."""
    key_axes = {key.axes[0] for key in keys if key.is_whole_attribute}
    joined = {attribute_index for key in keys for attribute_index in key.axes if attribute_index not in key_axes}
    while True:
        reached = {attribute_index for key in keys if joined & set(key.axes) for attribute_index in key.axes} - joined
        if not reached:
            return tuple(sorted(key_axes - joined)), tuple(sorted(joined))
        joined |= reached


def _combine_keys(
    keys: Sequence[GroupKeyCells], joined: AttributeSet, attributes: Sequence[Attribute]
) -> tuple[Codes, NDArray[np.int64]]:
    """Number the combinations of keys over joined cells; return the number of each cell, and the key codes of each
    number.
    """
    sizes = tuple(attributes[attribute_index].size for attribute_index in joined)
    combined, in_group = np.zeros(sizes, np.int64), np.ones(sizes, bool)
    for key in keys:
        key_codes = key.codes.reshape(tuple(attributes[p].size if p in key.axes else 1 for p in joined))
        combined = combined * len(key.values) + np.maximum(key_codes, 0)
        in_group &= key_codes >= 0
    distinct, inverse = np.unique(combined[in_group], return_inverse=True)
    codes = np.full(sizes, -1, np.int64)
    codes[in_group] = inverse
    combinations = np.empty((len(distinct), len(keys)), np.int64)
    for key_index in range(len(keys) - 1, -1, -1):
        combinations[:, key_index] = distinct % len(keys[key_index].values)
        distinct = distinct // len(keys[key_index].values)
    return codes, combinations
