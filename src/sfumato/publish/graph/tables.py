"""Tables over attributes are arrays whose axes are in one order here: small attributes first, equal ones by place.

With the long axes last, adding up along any axis runs over long stretches of memory, and a table over fewer attributes
is laid over a larger one by its shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.graph.trees import Set, Sizes

Floats = NDArray[np.float64]
_LONG = 16
"""A stretch of memory that is worth a loop of its own."""


def laid_out(places: Iterable[int], sizes: Sizes) -> Set:
    """Sort places into the order of axes."""
    return tuple(sorted(places, key=lambda place: (sizes[place], place)))


def shape_of(places: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    """Give the shape of a table with these axes."""
    return tuple(sizes[place] for place in places)


def arranged(table: Floats, places: Sequence[int], wanted: Sequence[int]) -> Floats:
    """Turn a table's axes from the order of some places to that of others, the same in number."""
    if tuple(places) == tuple(wanted):
        return table
    return np.ascontiguousarray(table.transpose([places.index(each) for each in wanted]))


def laid_over(table: Floats, places: Set, wider: Set) -> Floats:
    """Give a table the axes of a wider one, of length one where it has none; both are laid out."""
    own = iter(table.shape)
    held = set(places)
    return table.reshape([next(own) if place in held else 1 for place in wider])


def summed(table: Floats, places: Set, kept: Set) -> Floats:
    """Add a table up to the places that are kept; both are laid out.

    >>> summed(np.ones((2, 3, 4)), (0, 1, 2), (1,)).tolist()
    [8.0, 8.0, 8.0]
    """
    if places == kept:
        return table
    held = set(kept)
    lengths = list(zip(places, table.shape, strict=True))
    shape = [length for place, length in lengths if place in held]
    grouped = groupby(lengths, key=lambda pair: pair[0] in held)
    runs = [(keep, math.prod(length for _, length in own)) for keep, own in grouped]
    while any(not keep for keep, _ in runs):
        at = max((index for index, (keep, _) in enumerate(runs) if not keep), key=lambda index: runs[index][1])
        before, after = (math.prod(length for _, length in part) for part in (runs[:at], runs[at + 1 :]))
        table = _without_middle(table.reshape(before, runs[at][1], after))
        del runs[at]
    return table.reshape(shape)


def _without_middle(table: Floats) -> Floats:
    """Add up along the middle one of three axes."""
    before, length, after = table.shape
    if after == 1:
        return table.reshape(before, length) @ np.ones(length)
    if after >= _LONG or before == 1:
        return np.add.reduce(table, axis=1)
    return np.matmul(np.ones((1, length)), table)


def joined(left: Floats, left_places: Set, right: Floats, right_places: Set, kept: Set, sizes: Sizes) -> Floats:
    """Multiply two tables and add up to the places that are kept, which both have together; all are laid out.

    What both have and is kept is a stack of matrices; what both have and is not kept is what the matrices share.
    """
    held, both = set(kept), set(left_places) & set(right_places)
    stack = [place for place in kept if place in both]
    shared = [place for place in left_places if place in both and place not in held]
    rows = [place for place in left_places if place in held and place not in both]
    columns = [place for place in right_places if place in held and place not in both]
    left = summed(left, left_places, tuple(place for place in left_places if place in held or place in both))
    right = summed(right, right_places, tuple(place for place in right_places if place in held or place in both))
    left_places = tuple(place for place in left_places if place in held or place in both)
    right_places = tuple(place for place in right_places if place in held or place in both)
    lengths = [math.prod(shape_of(part, sizes)) for part in (stack, rows, shared, columns)]
    first = arranged(left, left_places, (*stack, *rows, *shared)).reshape(lengths[0], lengths[1], lengths[2])
    second = arranged(right, right_places, (*stack, *shared, *columns)).reshape(lengths[0], lengths[2], lengths[3])
    product = np.matmul(first, second)
    order = (*stack, *rows, *columns)
    return arranged(product.reshape(shape_of(order, sizes)), order, kept)


def divided(table: Floats, by: Floats) -> Floats:
    """Divide where there is something to divide by; nothing is left where there is not."""
    return np.divide(table, by, out=np.zeros(np.broadcast_shapes(table.shape, by.shape)), where=by > 0)
