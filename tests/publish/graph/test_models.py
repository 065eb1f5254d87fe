"""Marginals of a model are those of its whole table, inside and outside the cliques, however extreme it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from publish.graph.worlds import added_up, joint, random_model, sizes_and_sets, subsets
from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.publish.graph.models import GraphicalModel, Potential

LOOP = ((6, 5, 7, 4, 3, 8), [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])


@settings(max_examples=30)
@given(sizes_and_sets(), st.integers(0, 2**32), st.sampled_from([0.1, 1, 30, 1e3, 1e5]))
def test_marginals_are_those_of_the_whole_table(
    world: tuple[tuple[int, ...], list[tuple[int, ...]]], seed: int, scale: float
) -> None:
    sizes, sets = world
    model = random_model(sizes, sets, seed, scale)
    whole = joint(model)
    asked = subsets(len(sizes), len(sizes))
    for places, counts in zip(asked, model.marginals(asked), strict=True):
        np.testing.assert_allclose(counts, added_up(whole, places), rtol=1e-9, atol=1e-10 * model.total)


def test_a_hundred_thousand_cells() -> None:
    sizes = (9, 8, 7, 5, 4, 10)
    model = random_model(sizes, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (2, 5)], 5, 2)
    whole = joint(model)
    asked = subsets(6, 4)
    for places, counts in zip(asked, model.marginals(asked), strict=True):
        np.testing.assert_allclose(counts, added_up(whole, places), rtol=1e-10, atol=1e-10)


def test_axes_are_in_the_order_that_is_asked_for() -> None:
    model = random_model(*LOOP, 1)
    whole = joint(model)
    for places in ((5, 0), (3, 1, 0), (4, 3), (5, 2, 4)):
        np.testing.assert_allclose(model.marginal(places), added_up(whole, places), rtol=1e-10)


def test_many_at_once_are_those_asked_one_by_one_and_nothing_is_overwritten() -> None:
    model = random_model(*LOOP, 2)
    asked = [*subsets(6, 3), (2, 0), (0, 2)]
    together = model.marginals(asked)
    for places, counts in zip(asked, together, strict=True):
        np.testing.assert_allclose(counts, model.marginal(places), rtol=1e-12)


def test_unconnected_attributes_are_independent() -> None:
    model = random_model((3, 4, 5, 2, 6), [(0, 1), (2, 3)], 3)
    expected = np.multiply.outer(model.marginal((0, 1)), model.marginal((2,))) / model.total
    np.testing.assert_allclose(model.marginal((0, 1, 2)), expected, rtol=1e-12)
    np.testing.assert_allclose(model.marginal((4,)), np.full(6, 100 / 6), rtol=1e-12)


@pytest.mark.parametrize("sizes", [(1,), (7,), (1, 1), (1, 5, 1)])
def test_few_or_constant_attributes(sizes: tuple[int, ...]) -> None:
    everything = tuple(range(len(sizes)))
    model = random_model(sizes, [everything], 4)
    np.testing.assert_allclose(model.marginal(everything), joint(model), rtol=1e-12)
    assert float(model.marginal(())) == pytest.approx(100)


def test_potentials_that_contradict_one_another_neither_overflow_nor_vanish() -> None:
    # 0 and 1 want opposite cells, each by a factor of e^5000: the sum decides, which is e^1
    one = Potential((0,), np.array([0.0, -5000.0]))
    other = Potential((0, 1), np.array([[-5000.0, -5000.0], [0.0, -1.0]]))
    counts = GraphicalModel.from_potentials((2, 2), [one, other], 10.0).marginal((0, 1))
    share = 1 / (2 + 1 + math.exp(-1))
    np.testing.assert_allclose(counts, 10 * share * np.array([[1, 1], [1, math.exp(-1)]]), rtol=1e-12)


def test_a_message_that_contradicts_its_parent_is_not_lost() -> None:
    far = Potential((1, 2), np.array([[0.0, 0.0], [-900.0, -901.0]]))
    near = Potential((0, 1), np.array([[-900.0, 0.0], [-902.0, 0.0]]))
    model = GraphicalModel.from_potentials((2, 2, 2), [far, near], 1.0)
    np.testing.assert_allclose(model.marginal((0, 1, 2)), joint(model), rtol=1e-12)


def test_impossible_cells_are_exactly_zero() -> None:
    logs = np.zeros((3, 4))
    logs[1, :2] = -np.inf
    model = GraphicalModel.from_potentials(
        (3, 4, 2), [Potential((0, 1), logs), Potential((1, 2), np.ones((4, 2)))], 30.0
    )
    assert (model.marginal((0, 1))[1, :2] == 0).all()
    assert (model.marginal((0, 2, 1))[1, :, :2] == 0).all()
    np.testing.assert_allclose(model.marginal((0, 1, 2)), joint(model), rtol=1e-12)


def test_what_is_impossible_below_is_impossible_above() -> None:
    logs = np.full((3, 2), 0.0)
    logs[2] = -np.inf
    model = GraphicalModel.from_potentials(
        (4, 3, 2), [Potential((1, 2), logs), Potential((0, 1), np.ones((4, 3)))], 8.0
    )
    assert (model.marginal((0, 1))[:, 2] == 0).all()
    np.testing.assert_allclose(model.marginal((0, 1, 2)), joint(model), rtol=1e-12)


@settings(max_examples=30)
@given(sizes_and_sets(), st.integers(0, 2**32))
def test_conditionals_multiply_to_the_whole_table(
    world: tuple[tuple[int, ...], list[tuple[int, ...]]], seed: int
) -> None:
    sizes, sets = world
    model = random_model(sizes, sets, seed)
    found: Floats = np.full([1] * len(sizes), model.total)
    drawn: set[int] = set()
    for each in model.conditionals():
        assert set(each.given) <= drawn
        assert not drawn & set(each.new)
        drawn |= set(each.new)
        above = each.table.sum(axis=tuple(range(len(each.given), each.table.ndim)), keepdims=True)
        order = (*each.given, *each.new)
        laid = (each.table / above).transpose(np.argsort(order))
        found = found * laid.reshape([size if place in order else 1 for place, size in enumerate(sizes)])
    assert drawn == set(range(len(sizes)))
    np.testing.assert_allclose(found, joint(model), rtol=1e-9)


def test_beliefs_are_the_counts_of_cliques() -> None:
    model = random_model(*LOOP, 6)
    for clique, counts in zip(model.tree.cliques, model.beliefs, strict=True):
        np.testing.assert_allclose(counts, added_up(joint(model), clique), rtol=1e-10)


@pytest.mark.parametrize("total", [0.0, -1.0, math.inf, math.nan])
def test_a_total_that_is_no_number_of_rows_is_refused(total: float) -> None:
    with pytest.raises(InvalidParameter, match="total"):
        GraphicalModel.from_potentials((2,), [], total)


def test_a_total_far_below_one_row_is_kept_apart_from_zero() -> None:
    model = random_model((3, 2), [(0, 1)], 7, total=1e-250)
    np.testing.assert_allclose(model.marginal((0, 1)), joint(model), rtol=1e-10)


def test_places_outside_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="set"):
        random_model(*LOOP, 8).marginal((0, 6))
