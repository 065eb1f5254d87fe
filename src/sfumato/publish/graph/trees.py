"""Junction trees: the sets of attributes for which a model of measured marginals has tables, and how they overlap.

Attributes that are measured together are neighbours. Eliminating one attribute after the other, each time connecting
its remaining neighbours, gives sets (cliques) that contain every measured set; the maximal ones form a forest with the
running intersection property: what two cliques share is in every clique between them (Koller & Friedman 2009, ch. 9
and 10). The order decides the size. Each step eliminates a simplicial attribute, which adds no edge, or else the one
whose table is the smallest; ties go to the lowest index, so that equal sets give equal trees.

Sets of attributes are bit masks here, because the size of a tree is computed hundreds of times a round.

Tables over attributes: arrays whose axes are in canonical order, small attributes first, ties by index.

With the long axes last, summing along any axis runs over long stretches of memory, and a table over fewer attributes
is broadcast over a larger one by its shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.quick_dataclass import dataclass

AttributeSet = tuple[int, ...]
"""Indices of attributes, in increasing order."""
Sizes = tuple[int, ...]
"""The number of cells of each attribute."""

_CELL_BYTES = 8


@dataclass(frozen=True)
class JunctionTree:
    """The cliques of a model, parents before children; every attribute is in at least one."""

    cliques: tuple[AttributeSet, ...]
    parents: tuple[int, ...]
    """The index of each clique's parent; -1 for the root of each component."""
    separators: tuple[AttributeSet, ...]
    """What each clique shares with its parent; empty for a root."""

    @classmethod
    def for_sets(cls, sets: Iterable[Sequence[int]], sizes: Sequence[int]) -> Self:
        """Build the tree for the sets that are measured; an attribute in none of them is a clique by itself."""
        cliques = _maximal_cliques(_elimination_cliques(_neighbour_masks(sets, len(sizes)), tuple(sizes)))
        order = _cliques_with_parents(cliques)
        shared = [cliques[clique_index] & cliques[parent] if parent >= 0 else 0 for clique_index, parent in order]
        new_index = {clique_index: index for index, (clique_index, _) in enumerate(order)}
        return cls(
            tuple(attributes_in_mask(cliques[clique_index]) for clique_index, _ in order),
            tuple(new_index.get(parent, -1) for _, parent in order),
            tuple(attributes_in_mask(separator) for separator in shared),
        )

    def cell_count(self, sizes: Sequence[int]) -> int:
        """Return the number of cells of all cliques."""
        return sum(_cell_count_of_mask(bit_mask(clique), sizes) for clique in self.cliques)

    def clique_index_with(self, attribute_set: Sequence[int]) -> int | None:
        """Return the smallest index of a clique that holds all these attributes, or None."""
        wanted_indices = set(attribute_set)
        return next((index for index, clique in enumerate(self.cliques) if wanted_indices.issubset(clique)), None)


def predicted_cells(sets: Iterable[Sequence[int]], sizes: Sequence[int]) -> int:
    """Return the number of cells of all cliques of the tree for these sets, without building it."""
    return _predicted_clique_cells(tuple(_neighbour_masks(sets, len(sizes))), tuple(sizes))


class GrowingModelSize:
    """Sets to which others are added one by one, and the number of cells with one more."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes, self._masks = tuple(sizes), _neighbour_masks((), len(sizes))

    def predicted_with(self, attribute_set: Sequence[int]) -> int:
        """Return what ``predicted_cells`` does for all sets so far and this one."""
        return _predicted_clique_cells(tuple(self._neighbour_masks_with(attribute_set)), self._sizes)

    def add(self, attribute_set: Sequence[int]) -> None:
        self._masks = self._neighbour_masks_with(attribute_set)

    def _neighbour_masks_with(self, attribute_set: Sequence[int]) -> list[int]:
        masks, mask = self._masks.copy(), bit_mask(attribute_set)
        for attribute_index in attribute_set:
            masks[attribute_index] |= mask
        return masks


@lru_cache(maxsize=4096)
def _predicted_clique_cells(neighbours: tuple[int, ...], sizes: Sizes) -> int:
    return sum(
        _cell_count_of_mask(clique, sizes) for clique in _maximal_cliques(_elimination_cliques(list(neighbours), sizes))
    )


def predicted_bytes(sets: Iterable[Sequence[int]], sizes: Sequence[int]) -> int:
    """Estimate the memory of fitting these sets: all cliques, the largest one twice more, what is measured 16 times.

    For every measured cell there are its count and potential, what both were before, what is tried, and products.
    """
    attribute_sizes, measured_sets = tuple(sizes), [tuple(attribute_set) for attribute_set in sets]
    cliques = [
        _cell_count_of_mask(clique, attribute_sizes)
        for clique in _maximal_cliques(
            _elimination_cliques(_neighbour_masks(measured_sets, len(attribute_sizes)), attribute_sizes)
        )
    ]
    measured_cells = sum(
        _cell_count_of_mask(mask, attribute_sizes)
        for mask in {bit_mask(attribute_set) for attribute_set in measured_sets}
    )
    return _CELL_BYTES * (sum(cliques) + 2 * max(cliques, default=0) + 16 * measured_cells)


def bit_mask(attribute_set: Iterable[int]) -> int:
    """Encode a set as bits."""
    mask = 0
    for attribute_index in attribute_set:
        mask |= 1 << attribute_index
    return mask


def attributes_in_mask(mask: int) -> AttributeSet:
    """Decode a set from its bits."""
    return tuple(_set_bit_indices(mask))


def parse_attribute_indices(attribute_set: object, count: int, name: str = "attribute_set") -> AttributeSet:
    """Parse distinct indices of attributes, or raise for anything else."""
    valid_indices = range(count)
    if not isinstance(attribute_set, (tuple, list)) or any(
        type(attribute_index) is not int or attribute_index not in valid_indices for attribute_index in attribute_set
    ):
        raise InvalidParameter(name, attribute_set, f"a list of column indices, each from 0 to {count - 1}")
    if len(set(attribute_set)) != len(attribute_set):
        raise InvalidParameter(name, attribute_set, "a list of different column indices")
    return tuple(attribute_set)


def _set_bit_indices(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _cell_count_of_mask(mask: int, sizes: Sequence[int]) -> int:
    product = 1
    while mask:
        last = mask.bit_length() - 1
        product *= sizes[last]
        mask ^= 1 << last
    return product


def _neighbour_masks(sets: Iterable[Sequence[int]], count: int) -> list[int]:
    """Return for each attribute the mask of those that are measured with it, itself among them."""
    neighbours = [1 << attribute_index for attribute_index in range(count)]
    for attribute_set in sets:
        mask = bit_mask(attribute_set)
        for attribute_index in attribute_set:
            neighbours[attribute_index] |= mask
    return neighbours


def _elimination_cliques(neighbours: list[int], sizes: Sizes) -> list[int]:
    """Eliminate attributes one by one; return each with the neighbours it had then."""
    remaining = unchecked = (1 << len(neighbours)) - 1
    cliques = []
    cell_counts: dict[int, int] = {}  # most attributes keep their neighbours from one step to the next

    def cells(index: int) -> int:
        mask = neighbours[index]
        if mask not in cell_counts:
            cell_counts[mask] = _cell_count_of_mask(mask, sizes)
        return cell_counts[mask]

    while remaining:
        attribute_index, unchecked = _first_simplicial(unchecked, neighbours)
        adds_edges = attribute_index < 0
        if adds_edges:
            attribute_index = min(_set_bit_indices(remaining), key=cells)
        clique, attribute_bit = neighbours[attribute_index], 1 << attribute_index
        cliques.append(clique)
        remaining ^= attribute_bit
        rest = clique ^ attribute_bit
        for other in _set_bit_indices(rest):
            # without a new pair of neighbours, nothing changes for those who were not neighbours of this one
            unchecked |= neighbours[other] if adds_edges else 0
            neighbours[other] = (neighbours[other] | rest) & ~attribute_bit
        unchecked = (unchecked | rest) & remaining
    return cliques


def _first_simplicial(unchecked: int, neighbours: list[int]) -> tuple[int, int]:
    """Return the first attribute whose neighbours are neighbours of one another, or -1, and what is left to check."""
    while unchecked:
        low = unchecked & -unchecked
        unchecked ^= low
        neighbourhood = rest = neighbours[low.bit_length() - 1]
        while rest:
            last = rest.bit_length() - 1
            if neighbourhood & ~neighbours[last]:
                break
            rest ^= 1 << last
        else:
            return low.bit_length() - 1, unchecked
    return -1, 0


def _maximal_cliques(cliques: list[int]) -> list[int]:
    """Keep what no other holds; of equal ones the first."""
    maximal_cliques: list[int] = []
    for clique in cliques:
        # an eliminated attribute is in no later clique, so only an earlier one can hold this one
        for other in maximal_cliques:
            if clique & other == clique:
                break
        else:
            maximal_cliques.append(clique)
    return maximal_cliques


def _cliques_with_parents(cliques: list[int]) -> list[tuple[int, int]]:
    """Return the cliques with their parents, from the first on, each attached to the one with the largest overlap.

    A spanning tree that shares most in sum has the running intersection property (Jensen & Jensen 1994).
    """
    shared = dict.fromkeys(range(len(cliques)), (0, -1))
    order = []
    while shared:
        best = max(shared, key=lambda index: (shared[index][0], -index))
        parent = shared.pop(best)[1]
        order.append((best, parent))
        for index, (count, _) in shared.items():
            overlap = (cliques[index] & cliques[best]).bit_count()
            if overlap > count:
                shared[index] = (overlap, best)
    return order


_PLANS = 1 << 14
"""The number of cached plans for shapes: the same ones are used in every round."""
_LONG = 16
"""The least length of a contiguous stretch that is worth a loop of its own."""


def canonical_order(attribute_set: Iterable[int], sizes: Sizes) -> AttributeSet:
    """Sort attributes into the order of axes."""
    return tuple(sorted(attribute_set, key=lambda attribute_index: (sizes[attribute_index], attribute_index)))


def table_shape(attribute_set: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of a table with these axes."""
    return tuple(sizes[attribute_index] for attribute_index in attribute_set)


def transpose_to(table: Floats, attribute_set: Sequence[int], wanted: Sequence[int]) -> Floats:
    """Transpose a table's axes from the order of some attributes to that of others, the same in number."""
    if tuple(attribute_set) == tuple(wanted):
        return table
    return np.ascontiguousarray(table.transpose([attribute_set.index(attribute_index) for attribute_index in wanted]))


def broadcast_to_attributes(table: Floats, attribute_set: AttributeSet, wider: AttributeSet) -> Floats:
    """Reshape a table to the axes of a wider one, of length one where it has none; both are laid out."""
    return table.reshape(_wider_shape(table.shape, attribute_set, wider))


@lru_cache(maxsize=_PLANS)
def _wider_shape(shape: tuple[int, ...], attribute_set: AttributeSet, wider: AttributeSet) -> tuple[int, ...]:
    size_of = dict(zip(attribute_set, shape, strict=True))
    return tuple(size_of.get(attribute_index, 1) for attribute_index in wider)


def sum_to_attributes(table: Floats, attribute_set: AttributeSet, target_set: AttributeSet) -> Floats:
    """Sum a table to the target attributes; both are laid out.

    >>> sum_to_attributes(np.ones((2, 3, 4)), (0, 1, 2), (1,)).tolist()
    [8.0, 8.0, 8.0]
    """
    if attribute_set == target_set:
        return table
    steps, shape = _sum_steps(table.shape, attribute_set, target_set)
    for step in steps:
        table = _sum_middle_axis(table.reshape(step))
    return table.reshape(shape)


@lru_cache(maxsize=_PLANS)
def _sum_steps(
    shape: tuple[int, ...], attribute_set: AttributeSet, target_set: AttributeSet
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Plan which adjacent axes are summed first, the longest ones; return the shapes whose middle axis is summed,
    and the final shape.
    """
    target_indices, lengths = set(target_set), list(zip(attribute_set, shape, strict=True))
    grouped = groupby(lengths, key=lambda pair: pair[0] in target_indices)
    runs = [(keep, math.prod(length for _, length in run_lengths)) for keep, run_lengths in grouped]
    steps = []
    while any(not keep for keep, _ in runs):
        run_index = max((index for index, (keep, _) in enumerate(runs) if not keep), key=lambda index: runs[index][1])
        before, after = (math.prod(length for _, length in part) for part in (runs[:run_index], runs[run_index + 1 :]))
        steps.append((before, runs[run_index][1], after))
        del runs[run_index]
    return tuple(steps), tuple(length for attribute_index, length in lengths if attribute_index in target_indices)


def _sum_middle_axis(table: Floats) -> Floats:
    """Sum along the middle one of three axes."""
    before, length, after = table.shape
    if after == 1:
        return table.reshape(before, length) @ np.ones(length)
    if after >= _LONG or before == 1:
        return np.add.reduce(table, axis=1)
    return np.matmul(np.ones((1, length)), table)


def multiply_and_sum(
    left: Floats, left_set: AttributeSet, right: Floats, right_set: AttributeSet, target_set: AttributeSet, sizes: Sizes
) -> Floats:
    """Multiply two tables and sum to the target attributes, which both have together; all are laid out."""
    plan = _join_plan(left_set, right_set, target_set, sizes)
    first = transpose_to(sum_to_attributes(left, left_set, plan.left), plan.left, plan.first).reshape(plan.first_shape)
    second = transpose_to(sum_to_attributes(right, right_set, plan.right), plan.right, plan.second).reshape(
        plan.second_shape
    )
    return transpose_to(np.matmul(first, second).reshape(plan.shape), plan.order, target_set)


class _JoinPlan(NamedTuple):
    """A product of tables as a product of matrices: stacked over shared kept attributes, contracted over the other
    shared ones.
    """

    left: AttributeSet
    right: AttributeSet
    first: AttributeSet
    second: AttributeSet
    first_shape: tuple[int, ...]
    second_shape: tuple[int, ...]
    order: AttributeSet
    shape: tuple[int, ...]


@lru_cache(maxsize=_PLANS)
def _join_plan(left_set: AttributeSet, right_set: AttributeSet, target_set: AttributeSet, sizes: Sizes) -> _JoinPlan:
    target_indices, shared_indices = set(target_set), set(left_set) & set(right_set)
    left = tuple(
        attribute_index
        for attribute_index in left_set
        if attribute_index in target_indices or attribute_index in shared_indices
    )
    right = tuple(
        attribute_index
        for attribute_index in right_set
        if attribute_index in target_indices or attribute_index in shared_indices
    )
    stack = tuple(attribute_index for attribute_index in target_set if attribute_index in shared_indices)
    shared = tuple(attribute_index for attribute_index in left if attribute_index not in target_indices)
    rows = tuple(attribute_index for attribute_index in left if attribute_index not in shared_indices)
    columns = tuple(attribute_index for attribute_index in right if attribute_index not in shared_indices)
    count, height, depth, width = (math.prod(table_shape(part, sizes)) for part in (stack, rows, shared, columns))
    order = (*stack, *rows, *columns)
    first, second = (*stack, *rows, *shared), (*stack, *shared, *columns)
    shapes = (count, height, depth), (count, depth, width)
    return _JoinPlan(left, right, first, second, *shapes, order, table_shape(order, sizes))


def divide_or_zero(table: Floats, by: Floats) -> Floats:
    """Divide where the divisor is positive; 0 elsewhere."""
    return np.divide(table, by, out=np.zeros(np.broadcast_shapes(table.shape, by.shape)), where=by > 0)
