"""Which sets of columns may be chosen, and how much they count."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sfumato.plan.readings.cell_rows import MAX_WEIGHT
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.synthesis.candidates import (
    candidates_within_cells,
    integer_weights,
    subset_index_arrays,
    subsets_with_largest_weight,
    weighted_subsets,
)


def test_a_set_counts_by_what_it_shares_with_the_workload() -> None:
    workload = {(0, 1, 2): Fraction(1), (1, 2, 3): Fraction(1, 2)}
    found = weighted_subsets(workload)
    assert list(found) == sorted(found, key=lambda each: (len(each), each))
    assert set(found) == {
        *((place,) for place in range(4)),
        *[(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)],
        *workload,
    }
    for each, weight in found.items():
        shared = sum(own * len(set(each) & set(other)) for other, own in workload.items())
        assert weight == 2 * shared


WORKLOADS: dict[str, list[tuple[int, ...]]] = {
    "one column": [(0,)],
    "all triples of seven": [*itertools.combinations(range(7), 3)],
    "sets of different sizes, some within others": [(4,), (0, 2, 3, 5), (1, 3), (2, 3), (0, 1, 6), (2, 3, 5)],
    "places whose number in one word is too large": [(3, 10**16, 10**17, 10**18), (3, 10**17)],
}


@pytest.mark.parametrize("sets", WORKLOADS.values(), ids=WORKLOADS)
def test_sets_as_arrays_are_those_of_the_closure_in_its_order(sets: list[tuple[int, ...]]) -> None:
    found = [tuple(row) for rows in subset_index_arrays(sets) for row in rows.tolist()]
    assert found == list(weighted_subsets(dict.fromkeys(sets, Fraction(1))))


def test_a_set_within_others_counts_as_the_heaviest_of_them() -> None:
    found = subsets_with_largest_weight({(0, 1): Fraction(1), (1, 2): Fraction(3)})
    assert found == {(0,): 1, (1,): 3, (2,): 3, (0, 1): 1, (1, 2): 3}
    assert list(found)[:3] == [(0,), (1,), (2,)]


def test_weights_that_are_not_small_whole_numbers_stay_within_a_millionth() -> None:
    exact = {(0,): Fraction(1, 999_983), (1,): Fraction(7, 3), (2,): Fraction(1, 10**12)}
    found = integer_weights(exact)
    assert all(type(each) is int and 1 <= each <= MAX_WEIGHT for each in found.values())
    assert found[(1,)] == MAX_WEIGHT
    assert abs(found[(0,)] - MAX_WEIGHT * exact[(0,)] / exact[(1,)]) <= 1


def test_what_makes_the_model_too_large_is_left_out_and_what_is_within_it_never() -> None:
    sizes = (10, 10, 10, 2)
    model = GraphicalModel.from_potentials(sizes, [Potential((0, 1), np.zeros((10, 10)))], 1.0)
    sets = [(0,), (0, 1), (1, 2), (0, 1, 2), (2, 3)]
    assert candidates_within_cells(sets, model, [(0, 1)], 0) == [(0,), (0, 1)]
    assert candidates_within_cells(sets, model, [(0, 1)], 100) == [(0,), (0, 1), (2, 3)]
    assert candidates_within_cells(sets, model, [(0, 1)], 300) == [(0,), (0, 1), (1, 2), (2, 3)]
    assert candidates_within_cells(sets, model, [(0, 1)], 1000) == sets
