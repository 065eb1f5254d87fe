"""Links and the steps of drawing along them, each beside plain Python; models are stand-ins with public fields."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.publish.graph.trees import JunctionTree
from sfumato.publish.linked import drawing
from sfumato.publish.linked.drawing import LinkedModels, limit_children_per_unit, sort_within_parents
from sfumato.publish.linked.links import TableLink, require_tree
from sfumato.publish.linked.state import LinkedState
from sfumato.publish.linked.synthetic_tables import SyntheticTables
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.sampling import SampledRows


def link(parent: str, child: str, **changes: Any) -> TableLink:
    fields = {
        "parent_key": "id",
        "child_key": parent,
        "unit": "who",
        "max_parents": 1,
        "max_children": 3,
        "parent_columns": ("a", "b"),
        "child_columns": ("c", "d"),
        "linked_columns": ("a",),
    }
    return TableLink(parent, child, **(fields | changes))  # type: ignore[arg-type]


def test_links_are_a_tree_with_parents_before_their_children() -> None:
    require_tree([link("a", "b")])
    require_tree([link("a", "b"), link("b", "c"), link("a", "d"), link("c", "e")])
    for pairs in ("", "ab cd", "ab ab", "ab ba", "ab bc ac", "aa", "bc ab"):
        with pytest.raises(InvalidParameter):
            require_tree([link(*pair) for pair in pairs.split()])
    with pytest.raises(InvalidParameter):
        require_tree(["ab"])  # type: ignore[list-item]


def test_columns_of_a_link_are_those_of_its_tables() -> None:
    for changes, field in (
        ({"max_parents": 0}, "max_children"),
        ({"max_children": 0}, "max_children"),
        ({"linked_columns": ("a", "c")}, "linked_columns"),
        ({"previous_columns": ("c", "a")}, "previous_columns"),
        ({"order": "c", "child_columns": ()}, "previous_columns"),
        ({"ends": True}, "ends"),
    ):
        with pytest.raises(InvalidParameter) as refusal:
            link("p", "q", **changes)
        assert refusal.value.parameter == field
    linked = link("p", "q", order="d", ends=True, linked_columns=("b",), previous_columns=("d", "c"))
    assert linked.conditioning_columns == ("number of q", "position among q", "p.b", "previous d", "previous c")


def test_as_many_parents_are_drawn_as_leave_room_in_every_table() -> None:
    for totals, rows in (((100, 250, 80), 400), ((100, 10, 20), 1000), ((100, 100), 1000), ((3, 1), 1000)):
        models = {str(index): SimpleNamespace(total=float(total)) for index, total in enumerate(totals)}
        tables: Any = SimpleNamespace(parent=models["0"], models=models)
        assert SyntheticTables.parents_within(tables, 1000) == rows


def test_rows_of_a_unit_are_as_many_as_their_column_says() -> None:
    """But for the last unit of each number, for which there may be too few; a missing number is one row."""
    attribute = Attribute("number of p", Type.INTEGER, (*map(ListedCell, (3, 1, 2)), OtherCell()))
    other = Attribute("a", Type.INTEGER, (ListedCell(0), OtherCell()))
    model = SimpleNamespace(columns=["a", "number of p"], attributes=(other, attribute))
    numbers = np.random.default_rng(3).integers(0, 4, 41)
    cells = np.column_stack([np.arange(41), numbers])
    models: Any = {"p": model}
    units, ordered = LinkedModels((link("p", "q", max_parents=3),), models)._units_and_ordered_cells(cells)
    siblings = [{0: 3, 1: 1, 2: 2, 3: 1}[cell] for cell in ordered[:, 1].tolist()]
    assert siblings == sorted(siblings)
    assert sorted(ordered.tolist()) == sorted(cells.tolist())
    expected: list[int] = []
    for number, rows in groupby(siblings):
        first = expected[-1] + 1 if expected else 0
        expected += [first + index // number for index in range(len([*rows]))]
    assert units.tolist() == expected
    alone, same = LinkedModels((link("p", "q"),), {})._units_and_ordered_cells(cells)
    assert alone.tolist() == [*range(41)]
    assert same is cells


def test_the_first_children_of_a_unit_are_kept() -> None:
    generator = np.random.default_rng(5)
    for limit in (1, 2, 5):
        children = generator.integers(0, 4, 60)
        units = np.cumsum(generator.integers(0, 2, 60) * generator.integers(1, 3, 60))
        kept = limit_children_per_unit(children, units, limit)
        left: Counter[int] = Counter(dict.fromkeys(units.tolist(), limit))
        for unit, count, row in zip(units.tolist(), children.tolist(), kept.tolist(), strict=True):
            assert row == min(count, left[unit])
            left[unit] -= row


@pytest.mark.parametrize("whole_rows", [False, True])
def test_children_are_sorted_within_their_parent_with_missing_values_last(whole_rows: bool) -> None:
    owners = np.array([0, 0, 0, 0, 1, 2, 2])
    codes = np.array([[0, 5], [2, 6], [1, 7], [0, 8], [1, 9], [1, 10], [0, 11]], np.int32)
    values = np.array([4.0, 0.0, 9.0, 3.0, 8.0, 7.0, 1.0])  # of the first column; its cell 2 is missing
    sampler: Any = SimpleNamespace(attribute=SimpleNamespace(size=3))
    rows = SampledRows((sampler, sampler), codes.copy(), {0: values.copy()})
    sort_within_parents(rows, 0, owners, whole_rows=whole_rows)
    order = [3, 0, 2, 1, 4, 6, 5]
    assert rows.codes[:, 0].tolist() == codes[order, 0].tolist()
    assert rows.values[0].tolist() == values[order].tolist()
    assert rows.codes[:, 1].tolist() == codes[order if whole_rows else slice(None), 1].tolist()


@pytest.mark.parametrize("given", [(0, 1), (1,), (2, 3), (4, 5), (5,), (6,)])
def test_other_columns_are_drawn_from_the_distribution_given_some(given: tuple[int, ...]) -> None:
    """A chain, a pair and a column alone: what is given times all conditionals is the whole distribution."""
    generator, sizes, letters = np.random.default_rng(2), (2, 3, 2, 3, 2, 2, 3), "abcdefg"
    tree = JunctionTree.for_sets([(0, 1), (1, 2), (2, 3), (4, 5)], sizes)
    names = ["".join(letters[index] for index in clique) for clique in tree.cliques]
    factors = [generator.random([sizes[index] for index in clique]) for clique in tree.cliques]
    whole = np.einsum(f"{','.join(names)}->{letters}", *factors)
    whole /= whole.sum()
    model: Any = SimpleNamespace(tree=tree, beliefs=[np.einsum(f"{letters}->{name}", whole) for name in names])
    drawn = {*given}
    product = np.einsum(f"{letters}->{''.join(letters[index] for index in given)}", whole)
    subscripts, tables = ["".join(letters[index] for index in given)], [product]
    for conditional in drawing.conditional_distributions(model, given):
        assert {*conditional.given} <= drawn
        assert not {*conditional.new} & drawn
        drawn |= {*conditional.new}
        new_axes = tuple(range(len(conditional.given), conditional.table.ndim))
        tables.append(conditional.table / conditional.table.sum(new_axes, keepdims=True))
        subscripts.append("".join(letters[index] for index in (*conditional.given, *conditional.new)))
    assert np.einsum(f"{','.join(subscripts)}->{letters}", *tables) == pytest.approx(whole)


def test_columns_that_were_not_modelled_together_cannot_be_given() -> None:
    tree = JunctionTree.for_sets([(0, 1), (1, 2)], (2, 2, 2))
    model: Any = SimpleNamespace(tree=tree, beliefs=[np.ones((2, 2))] * 2)
    with pytest.raises(InvalidParameter) as refusal:
        drawing.conditional_distributions(model, (0, 2))
    assert refusal.value.parameter == "given"


def test_noise_per_child_is_that_of_parents_times_their_mean_number_of_children() -> None:
    """But never less than of one parent, and a total below one row counts as one."""
    per_parent = LinkedState._children_per_parent
    assert per_parent(np.array([[6.0, 9.0], [0.0, 3.0]]), np.array([4.0, 2.0])) == 3
    assert per_parent(np.array([1.0, 2.0]), np.array([4.0, 2.0])) == 1
    assert per_parent(np.array([1.0, 2.0]), np.array([0.25, 0.25])) == 3
