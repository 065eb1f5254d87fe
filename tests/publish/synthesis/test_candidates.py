"""Which sets of columns may be chosen, and how much they count."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sfumato.plan.readings.cell_rows import MAX_WEIGHT
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.synthesis import candidates
from sfumato.publish.synthesis.candidates import (
    candidates_within_cells,
    cell_counts,
    counted_sets,
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


@pytest.mark.parametrize("most", [0, 6, 7, 48, 49, 342, 343])
def test_marked_and_sorted_sets_are_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_MAX_MARKED", most)
    for sets in ([*itertools.combinations(range(7), 3)], [(), (6,), (0, 5), (1, 2, 6)]):
        assert [tuple(row) for rows in subset_index_arrays(sets) for row in rows.tolist()] == [
            *weighted_subsets(dict.fromkeys(sets, Fraction(1)))
        ]
    assert subset_index_arrays([()]) == []
    assert subset_index_arrays([]) == []


def test_places_up_to_62_bits_are_numbered_and_others_sorted() -> None:
    for largest in (2**31 - 1, 2**31, 2**31 + 1, 2**32):  # their squares are about 2⁶²
        sets = [(1, largest), (0, largest), (0, 1)]
        assert subset_index_arrays(sets)[1].tolist() == [[0, 1], [0, largest], [1, largest]]
    wide = subset_index_arrays([(1, 2, 1 << 20)])  # 2⁶⁰ marks would need an exabyte
    assert [each.tolist() for each in wide[1:]] == [[[1, 2], [1, 1 << 20], [2, 1 << 20]], [[1, 2, 1 << 20]]]


def test_small_weights_are_exact_whole_numbers_and_others_at_least_one() -> None:
    assert integer_weights({(0,): Fraction(4), (1,): Fraction(6)}) == {(0,): 2, (1,): 3}
    assert integer_weights({(0,): Fraction(1, 2), (1,): Fraction(1, 3)}) == {(0,): 3, (1,): 2}
    most, divisor = MAX_WEIGHT, Fraction(7, 3)
    assert integer_weights({(0,): most * divisor, (1,): divisor}) == {(0,): most, (1,): 1}
    assert integer_weights({(0,): (most // 2) * divisor, (1,): 3 * divisor}) == {(0,): most // 2, (1,): 3}
    above = integer_weights({(0,): (most + 1) * divisor, (1,): divisor, (2,): (most - 1) * divisor})
    assert above == {(0,): most, (1,): 1, (2,): (most - 1) * most // (most + 1)}


def test_what_a_method_may_count() -> None:
    """No columns, each column, what is measured first, and what a model holds of pairs or of the closure."""
    sizes, singles = (2, 3, 4, 5), [(0,), (1,), (2,), (3,)]
    workload = [(0, 1, 2), (2, 3)]
    assert cell_counts(np.array([[0, 1], [2, 3]]), sizes).tolist() == [6, 20]

    def counted(method: str, room: int, first: list[tuple[int, ...]] | None = None) -> list[tuple[int, ...]]:
        found = counted_sets(method, workload, sizes, first or [], room)
        assert found[: 5 + len(first or [])] == ((), *singles, *(first or []))
        return [*found[5 + len(first or []) :]]

    # columns have 14 cells
    for method in ("aim", "mwem"):
        assert counted(method, 10) == [(0, 1), (0, 2), (1, 2), (2, 3), (0, 1, 2)]
        assert counted(method, 9) == [(0, 1), (0, 2), (1, 2), (2, 3)]
        assert counted(method, 5) == [(0, 1), (0, 2), (1, 2)]
        assert counted(method, 10, [(0, 3), (1, 2)]) == [(0, 1), (0, 2), (2, 3), (0, 1, 2)]
    assert counted("mst", 6) == [*itertools.combinations(range(4), 2)]
    assert counted("mst", 0) == [(0, 1), (0, 2), (0, 3), (1, 2)]
    assert counted("independent", 100) == []
    assert counted_sets("mst", [(0,)], (3,), [], 100) == ((), (0,))
    assert counted_sets("mst", [(0,)], (3, 2), [], 100) == ((), (0,), (1,), (0, 1))


def test_sets_within_a_clique_add_no_cells_and_others_their_own() -> None:
    sizes = (2, 3, 4)
    model = GraphicalModel.from_potentials(sizes, [Potential((0, 1, 2), np.zeros(sizes))], 1.0)
    assert candidates_within_cells([(0, 1, 2), (1, 2)], model, [], -(10**6)) == [(0, 1, 2), (1, 2)]
    apart = GraphicalModel.from_potentials(sizes, [], 1.0)
    for room, fitting in ((5, [(0, 1), (0, 2), (1, 2)]), (4, [(0, 1), (0, 2)]), (1, [(0, 1)]), (0, [])):
        assert candidates_within_cells([(0, 1), (0, 2), (1, 2)], apart, [], room) == fitting
    two = GraphicalModel.from_potentials((2, 3), [], 1.0)
    assert candidates_within_cells([(0, 1)], two, [], 1) == [(0, 1)]
