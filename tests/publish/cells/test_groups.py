"""Groups of cells: which axes are keys, which cells are joined, and in which order groups are shown."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type
from sfumato.publish.cells import groups
from sfumato.publish.cells.cell_values import CellTexts, PossibleTruths, ValueRanges
from sfumato.publish.cells.groups import GroupKeyCells, evaluate_group_key, group_cells
from sfumato.publish.marginals.attributes import Attribute, GroupCell, ListedCell, OtherCell, RangeCell


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, "text", (*(ListedCell(f"{name}{index}") for index in range(size - 1)), OtherCell()))


ATTRIBUTES = (attribute("a", 2), attribute("b", 3), attribute("c", 4))


def whole(place: int, *, nullable: bool = False) -> GroupKeyCells:
    size = ATTRIBUTES[place].size
    codes = np.where(np.arange(size) < size - (not nullable), np.arange(size), -1)
    return GroupKeyCells((place,), codes, tuple(f"{place}{code}" for code in range(size)), is_whole_attribute=True)


def joined(axes: tuple[int, ...], codes: Any, values: str, undecided: Any = None) -> GroupKeyCells:
    return GroupKeyCells(axes, np.array(codes), tuple(values), undecided=undecided)


def test_without_keys_there_is_one_group() -> None:
    found = group_cells([], ATTRIBUTES)
    assert (found.key_axes, found.key_sizes, found.joined_axes, found.joined_count) == ((), (), (), 1)
    assert (found.answer_keys, found.answer_grid_index.tolist(), found.shape) == (((),), [0], (1,))


def test_columns_are_key_axes_in_the_order_of_the_keys() -> None:
    found = group_cells([whole(1), whole(0, nullable=True)], ATTRIBUTES)
    assert (found.key_axes, found.key_sizes, found.joined_count, found.shape) == ((0, 1), (2, 3), 1, (2, 3, 1))
    assert found.answer_keys == (("10", "00"), ("10", "01"), ("11", "00"), ("11", "01"))
    assert found.answer_grid_index.tolist() == [0, 3, 1, 4]


def test_cells_with_one_value_of_a_key_are_joined() -> None:
    halves = joined((2,), [0, 1, 0, -1], "xy")
    found = group_cells([whole(0), halves], ATTRIBUTES)
    assert (found.key_axes, found.joined_axes, found.joined_count) == ((0,), (2,), 2)
    assert found.joined_codes.tolist() == [0, 1, 0, -1]
    assert found.answer_keys == (("00", "x"), ("00", "y"))
    assert found.answer_grid_index.tolist() == [0, 1]
    assert found.members_of(0).tolist() == [True, False, True, False]
    assert found.members_of(1).tolist() == [False, True, False, False]


def test_keys_over_shared_axes_are_joined_with_them() -> None:
    """A column that is a key itself is joined where another key reads it beside a joined one."""
    both = joined((1, 2), [[0, 1, 0, -1], [1, 1, 0, -1], [-1] * 4], "xy")
    found = group_cells([whole(1), both], ATTRIBUTES)
    assert (found.key_axes, found.joined_axes) == ((), (1, 2))
    assert found.answer_keys == (("10", "x"), ("10", "y"), ("11", "x"), ("11", "y"))
    assert found.joined_codes.tolist() == [[0, 1, 0, -1], [3, 3, 2, -1], [-1] * 4]
    assert found.joined_count == 4
    apart = group_cells([joined((1,), [0, 0, 1], "pq"), joined((2,), [0, 1, 1, 0], "xy")], ATTRIBUTES)
    assert (apart.joined_axes, apart.joined_count) == ((1, 2), 4)
    assert apart.answer_keys == (("p", "x"), ("p", "y"), ("q", "x"), ("q", "y"))
    assert apart.joined_codes.tolist() == [[0, 1, 1, 0], [0, 1, 1, 0], [2, 3, 3, 2]]
    shared = group_cells([joined((1,), [0, 1, 1], "pq"), joined((1,), [1, 0, 0], "xy")], ATTRIBUTES)
    assert shared.answer_keys == (("p", "y"), ("q", "x"))


def test_undecided_cells_may_be_in_every_group() -> None:
    undecided = np.array([False, False, False, True])
    found = group_cells([whole(0), joined((2,), [0, 1, 0, -1], "xy", undecided)], ATTRIBUTES)
    assert found.members_of(1).tolist() == [False, True, False, True]
    for other in (joined((1,), [0, 0, 1], "pq"), joined((1,), [0, 0, 1], "pq", np.array([True, False, False]))):
        with pytest.raises(Unsupported, match="determines"):
            group_cells([joined((2,), [0, 1, 0, -1], "xy", undecided), other], ATTRIBUTES)


def test_no_more_groups_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 12)
    assert len(group_cells([whole(1, nullable=True), whole(2, nullable=True)], ATTRIBUTES).answer_keys) == 12
    monkeypatch.setattr(groups, "MAX_GROUPS", 11)
    with pytest.raises(Unsupported, match="11 groups; this one would have 12"):
        group_cells([whole(1, nullable=True), whole(2, nullable=True)], ATTRIBUTES)


# Keys


def column(domain: Domain) -> Column:
    return Column(Field(0, "t", "x"), domain)


TEXT = column(Domain("text", values=("p", "q")))


def test_a_column_has_its_cells_as_values() -> None:
    cells = CellTexts(np.array(["a0", None], object), np.zeros(2, bool))
    for nullable, codes in ((False, [0, -1]), (True, [0, 1])):
        key = column(Domain("text", values=("a0",), nullable=nullable))
        found = evaluate_group_key(key, (0,), cells, ATTRIBUTES[0])
        assert (found.codes.tolist(), found.values, found.is_whole_attribute) == (codes, ("a0", None), True)


def test_values_of_a_key_in_cells() -> None:
    texts = CellTexts(np.array(["q", "p", None, "q"], object), np.zeros(4, bool))
    found = evaluate_group_key(call("UPPER", TEXT), (2,), texts, None)
    assert (found.values, found.codes.tolist(), found.is_whole_attribute, found.undecided) == (
        ("q", "p", None),
        [0, 1, -1, 0],
        False,
        None,
    )
    nullable = evaluate_group_key(column(Domain("text", values=("p", "q"), nullable=True)), (2,), texts, None)
    assert nullable.codes.tolist() == [0, 1, 2, 0]
    truths = PossibleTruths(
        np.array([True, False, False]), np.array([False, True, False]), np.array([False, False, True])
    )
    found = evaluate_group_key(column(Domain("boolean")), (1,), truths, None)
    assert (found.values, found.codes.tolist()) == ((True, False, None), [0, 1, -1])
    numbers = ValueRanges(
        np.array([3.0, 5.0, np.nan]),
        np.array([3.0, 5.0, np.nan]),
        np.array([True, True, False]),
        np.array([False, False, True]),
    )
    for kind, values in (
        ("integer", (3, 5, None)),
        ("real", (3.0, 5.0, None)),
        ("date", (dt.date(1970, 1, 4), dt.date(1970, 1, 6), None)),
        ("timestamp", (dt.datetime(1970, 1, 1, 0, 0, 0, 3), dt.datetime(1970, 1, 1, 0, 0, 0, 5), None)),
    ):
        found = evaluate_group_key(column(Domain(kind)), (1,), numbers, None)
        assert found.values == values
        assert [type(value) for value in found.values] == [type(value) for value in values]


def test_keys_that_differ_within_a_cell() -> None:
    texts = CellTexts(np.array(["q", "p", None, "q"], object), np.array([False, True, False, False]))
    found = evaluate_group_key(TEXT, (2,), texts, None)
    assert found.undecided is not None
    assert found.undecided.tolist() == [False, True, False, False]
    with pytest.raises(Unsupported, match="rows of one bin"):
        evaluate_group_key(call("UPPER", TEXT), (2,), texts, None)
    bins = ValueRanges(np.array([3.0]), np.array([4.0]), np.array([True]), np.array([False]))
    with pytest.raises(Unsupported, match="same for all rows of a bin"):
        evaluate_group_key(column(Domain("integer")), (0,), bins, None)


def test_labels_of_cells() -> None:
    """A bin is labelled by its first value that has no cell of its own."""
    numbers = Attribute(
        "n", "integer", (ListedCell(0), ListedCell(1), RangeCell(0, 10), RangeCell(10, 12, True), OtherCell())
    )
    assert groups._cell_key_values(numbers) == [0, 1, 2, 10, None]
    taken = Attribute(
        "n", "integer", (ListedCell(10), ListedCell(11), ListedCell(12), RangeCell(10, 12, True), OtherCell())
    )
    assert groups._cell_key_values(taken)[3] == 12
    texts = Attribute("t", "text", (ListedCell("x"), GroupCell(("y", "z")), OtherCell()))
    assert groups._cell_key_values(texts)[0] == "x"
    assert str(groups._cell_key_values(texts)[1]).startswith("one of")


@pytest.mark.parametrize(
    ("value", "following"),
    [
        (3, 4),
        (dt.date(2024, 2, 28), dt.date(2024, 2, 29)),
        (dt.datetime(2024, 2, 28), dt.datetime(2024, 2, 28, 0, 0, 0, 1)),
        (Fraction(1, 2), Fraction(math.nextafter(0.5, 1))),
    ],
)
def test_the_next_value(value: Any, following: Any) -> None:
    assert groups._next_value(value) == following
    assert groups._typed_value(3.0, Type.INTEGER) == 3
