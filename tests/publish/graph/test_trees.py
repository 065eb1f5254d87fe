"""Junction trees hold every set, connect what they share, and are as large as predicted."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, strategies as st

from publish.graph.worlds import sizes_and_sets
from sfumato.errors import InvalidParameter
from sfumato.publish.graph.trees import (
    JunctionTree,
    attributes_in_mask,
    bit_mask,
    parse_attribute_indices,
    predicted_bytes,
    predicted_cells,
)


@given(sizes_and_sets(9))
def test_every_set_is_in_a_clique_and_what_cliques_share_is_between_them(
    world: tuple[tuple[int, ...], list[tuple[int, ...]]],
) -> None:
    sizes, sets = world
    tree = JunctionTree.for_sets(sets, sizes)
    assert all(tree.clique_index_with(each) is not None for each in sets)
    assert set().union(*map(set, tree.cliques)) == set(range(len(sizes)))
    assert not any(set(one) <= set(other) for one, other in itertools.permutations(tree.cliques, 2))
    _check_running_intersection(tree)


def _check_running_intersection(tree: JunctionTree) -> None:
    """What a clique shares with all before it, it shares with its parent."""
    for index, (parent, shared) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        assert parent < index
        assert set(shared) == (set(tree.cliques[index]) & set(tree.cliques[parent]) if parent >= 0 else set())
        before = set().union(*map(set, tree.cliques[:index]))
        assert set(tree.cliques[index]) & before == set(shared)


@pytest.mark.parametrize("labels", list(itertools.permutations(range(5))))
def test_a_clique_hangs_on_the_one_that_it_shares_most_with(labels: tuple[int, ...]) -> None:
    """The last of three shares one attribute with the first and two with the second, wherever a tree begins."""
    sets = [tuple(labels[attribute] for attribute in each) for each in [(0, 1, 2), (1, 2, 3), (2, 3, 4)]]
    tree = JunctionTree.for_sets(sets, (2,) * 5)
    assert {frozenset(clique) for clique in tree.cliques} == {frozenset(each) for each in sets}
    _check_running_intersection(tree)


@given(sizes_and_sets(9))
def test_the_predicted_size_is_that_of_the_tree(world: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    sizes, sets = world
    tree = JunctionTree.for_sets(sets, sizes)
    cells = sum(math.prod(sizes[place] for place in clique) for clique in tree.cliques)
    assert predicted_cells(sets, sizes) == tree.cell_count(sizes) == cells
    assert predicted_bytes(sets, sizes) >= 8 * cells


@given(sizes_and_sets(9), st.randoms())
def test_the_tree_does_not_depend_on_the_order_or_repetition_of_sets(
    world: tuple[tuple[int, ...], list[tuple[int, ...]]], random: object
) -> None:
    sizes, sets = world
    again = [*sets, *sets]
    random.shuffle(again)  # type: ignore[attr-defined]
    assert JunctionTree.for_sets(again, sizes) == JunctionTree.for_sets(sets, sizes)


def test_a_ring_is_cut_where_the_tables_are_smallest() -> None:
    sizes = (2, 50, 3, 40)
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    tree = JunctionTree.for_sets(ring, sizes)
    assert set(tree.cliques) == {(0, 1, 2), (0, 2, 3)}
    assert predicted_cells(ring, sizes) == 2 * 50 * 3 + 2 * 3 * 40


def test_a_tree_of_sets_costs_nothing_beyond_them() -> None:
    sizes = (100, 90, 80, 70, 60)
    sets = [(0, 1), (1, 2), (1, 3), (3, 4)]
    assert predicted_cells(sets, sizes) == 100 * 90 + 90 * 80 + 90 * 70 + 70 * 60


def test_nothing_measured_leaves_every_attribute_by_itself() -> None:
    tree = JunctionTree.for_sets([], (3, 1, 2))
    assert tree == JunctionTree(((0,), (1,), (2,)), (-1, -1, -1), ((), (), ()))


def test_sets_are_bits() -> None:
    assert bit_mask((0, 3)) == 0b1001
    assert attributes_in_mask(0b1001) == (0, 3)


@pytest.mark.parametrize("places", [(3,), (-1,), (0, 0), "01", (True,), 1])
def test_places_that_are_none_are_refused(places: object) -> None:
    with pytest.raises(InvalidParameter):
        parse_attribute_indices(places, 3)
