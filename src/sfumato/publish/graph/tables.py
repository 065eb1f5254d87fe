"""Tables over attributes: arrays whose axes are in canonical order, small attributes first, ties by index.

With the long axes last, summing along any axis runs over long stretches of memory, and a table over fewer attributes
is broadcast over a larger one by its shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.graph.trees import AttributeSet, Sizes

Floats = NDArray[np.float64]
_PLANS = 1 << 14
"""The number of cached plans for shapes: the same ones are used in every round."""
_LONG = 16
"""The least length of a contiguous stretch that is worth a loop of its own."""


def canonical_order(places: Iterable[int], sizes: Sizes) -> AttributeSet:
    """Sort places into the order of axes."""
    return tuple(sorted(places, key=lambda place: (sizes[place], place)))


def table_shape(places: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of a table with these axes."""
    return tuple(sizes[place] for place in places)


def transpose_to(table: Floats, places: Sequence[int], wanted: Sequence[int]) -> Floats:
    """Transpose a table's axes from the order of some places to that of others, the same in number."""
    if tuple(places) == tuple(wanted):
        return table
    return np.ascontiguousarray(table.transpose([places.index(place) for place in wanted]))


def broadcast_to_attributes(table: Floats, places: AttributeSet, wider: AttributeSet) -> Floats:
    """Reshape a table to the axes of a wider one, of length one where it has none; both are laid out."""
    return table.reshape(_wider_shape(table.shape, places, wider))


@lru_cache(maxsize=_PLANS)
def _wider_shape(shape: tuple[int, ...], places: AttributeSet, wider: AttributeSet) -> tuple[int, ...]:
    size_of = dict(zip(places, shape, strict=True))
    return tuple(size_of.get(place, 1) for place in wider)


def sum_to_attributes(table: Floats, places: AttributeSet, kept: AttributeSet) -> Floats:
    """Sum a table to the kept places; both are laid out.

    >>> sum_to_attributes(np.ones((2, 3, 4)), (0, 1, 2), (1,)).tolist()
    [8.0, 8.0, 8.0]
    """
    if places == kept:
        return table
    steps, shape = _sum_steps(table.shape, places, kept)
    for step in steps:
        table = _sum_middle_axis(table.reshape(step))
    return table.reshape(shape)


@lru_cache(maxsize=_PLANS)
def _sum_steps(
    shape: tuple[int, ...], places: AttributeSet, kept: AttributeSet
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Plan which adjacent axes are summed first, the longest ones; return the shapes whose middle axis is summed,
    and the final shape.
    """
    kept_places, lengths = set(kept), list(zip(places, shape, strict=True))
    grouped = groupby(lengths, key=lambda pair: pair[0] in kept_places)
    runs = [(keep, math.prod(length for _, length in run_lengths)) for keep, run_lengths in grouped]
    steps = []
    while any(not keep for keep, _ in runs):
        run_index = max((index for index, (keep, _) in enumerate(runs) if not keep), key=lambda index: runs[index][1])
        before, after = (math.prod(length for _, length in part) for part in (runs[:run_index], runs[run_index + 1 :]))
        steps.append((before, runs[run_index][1], after))
        del runs[run_index]
    return tuple(steps), tuple(length for place, length in lengths if place in kept_places)


def _sum_middle_axis(table: Floats) -> Floats:
    """Sum along the middle one of three axes."""
    before, length, after = table.shape
    if after == 1:
        return table.reshape(before, length) @ np.ones(length)
    if after >= _LONG or before == 1:
        return np.add.reduce(table, axis=1)
    return np.matmul(np.ones((1, length)), table)


def multiply_and_sum(
    left: Floats, left_places: AttributeSet, right: Floats, right_places: AttributeSet, kept: AttributeSet, sizes: Sizes
) -> Floats:
    """Multiply two tables and sum to the kept places, which both have together; all are laid out."""
    plan = _join_plan(left_places, right_places, kept, sizes)
    first = transpose_to(sum_to_attributes(left, left_places, plan.left), plan.left, plan.first).reshape(
        plan.first_shape
    )
    second = transpose_to(sum_to_attributes(right, right_places, plan.right), plan.right, plan.second).reshape(
        plan.second_shape
    )
    return transpose_to(np.matmul(first, second).reshape(plan.shape), plan.order, kept)


class _JoinPlan(NamedTuple):
    """A product of tables as a product of matrices: stacked over shared kept places, contracted over the other
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
def _join_plan(left_places: AttributeSet, right_places: AttributeSet, kept: AttributeSet, sizes: Sizes) -> _JoinPlan:
    kept_places, shared_places = set(kept), set(left_places) & set(right_places)
    left = tuple(place for place in left_places if place in kept_places or place in shared_places)
    right = tuple(place for place in right_places if place in kept_places or place in shared_places)
    stack = tuple(place for place in kept if place in shared_places)
    shared = tuple(place for place in left if place not in kept_places)
    rows = tuple(place for place in left if place not in shared_places)
    columns = tuple(place for place in right if place not in shared_places)
    count, height, depth, width = (math.prod(table_shape(part, sizes)) for part in (stack, rows, shared, columns))
    order = (*stack, *rows, *columns)
    first, second = (*stack, *rows, *shared), (*stack, *shared, *columns)
    shapes = (count, height, depth), (count, depth, width)
    return _JoinPlan(left, right, first, second, *shapes, order, table_shape(order, sizes))


def divide_or_zero(table: Floats, by: Floats) -> Floats:
    """Divide where the divisor is positive; 0 elsewhere."""
    return np.divide(table, by, out=np.zeros(np.broadcast_shapes(table.shape, by.shape)), where=by > 0)
