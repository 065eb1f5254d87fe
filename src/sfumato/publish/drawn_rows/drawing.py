"""Rows are drawn from a model clique by clique: each row has its parents' cells already, and the clique adds new ones.

All rows that share their parents' cells are spread evenly over the law of the new cells. With n such rows, row i of
them takes the point (i + u)/n of the distribution function, u uniform in [0, 1) and drawn anew for each: one row for
each of n equal strata. Which row has which stratum is drawn anew, too, for every clique and every parent. So a row by
itself follows the model's law, counts differ from the model's by less than independent rows would, and nothing links
the strata of one clique to those of another: an order that is spread evenly across columns looks better on marginals,
and plants patterns in the rows that no model has.

*No impossible cell is drawn.* Let c be the distribution function within a parent, divided by its last value, so that
it ends in exactly 1. Rows of the parent that lie below the end of cell k are counted: all of the strata below n·c(k),
and the one it falls in where its point is below. A cell of weight 0 has the c of the cell before it, so the same count,
whatever is rounded, and no row. Only a parent that a row is in though the clique's own table gives it no weight has no
law: its rows take the law of the clique's new cells whatever the parents are.

Random places make the order of rows random: the first clique gives its cells to rows in a random order, and so do all.
Nothing is charged: what is drawn follows from what was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.publish.marginals.chains import Floats, Integers

Codes = NDArray[np.int32]

MOST_AT_ONCE = 1 << 18
"""Rows that are spread together: more are drawn in parts, each spread by itself, which processors hold better."""
_LEAST_RANDOM = 24
"""Bits by which the rows of one parent are put in order, at least."""


class Conditional(Protocol):
    """This is the law of some columns given others."""

    @property
    def new(self) -> tuple[int, ...]:
        """List the places of the columns that are drawn."""

    @property
    def given(self) -> tuple[int, ...]:
        """List the places of those that were drawn before."""

    @property
    def table(self) -> Floats:
        """Give weights of all cells, with an axis for each given column and then for each new one."""


def drawn(conditionals: Sequence[Conditional], rows: int, columns: int) -> Codes:
    """Draw so many rows: the cell of each in every column, one column after the other in memory."""
    found = np.zeros((rows, columns), np.int32, order="F")
    for each in conditionals:
        function = _distribution(each)
        cells = _new_cells(each)
        for start in range(0, rows, MOST_AT_ONCE):
            _draw(each, function, cells, found[start : start + MOST_AT_ONCE])
    return found


def _new_cells(law: Conditional) -> tuple[Codes, ...]:
    """Give the cell that each new column has, for every combination of them."""
    sizes = law.table.shape[len(law.given) :]
    grid = np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ()
    return tuple(each.astype(np.int32) for each in grid)


def _draw(law: Conditional, function: Floats, cells: Sequence[Codes], codes: Codes) -> None:
    """Draw the new columns of a clique for all rows."""
    parents = _joined(codes, law.given, law.table.shape)
    if len(function) > len(codes):  # most have no row
        there, parents = np.unique(parents, return_inverse=True)
        function = function[there]
    order = _shuffled(parents, len(function))
    counts = _spread(function, np.bincount(parents, minlength=len(function)))
    for place, each in zip(law.new, cells, strict=True):
        codes[order, place] = np.repeat(np.tile(each, len(function)), counts)


def _distribution(law: Conditional) -> Floats:
    """Give, for each parent in a row of its own, the distribution function of the new cells."""
    table = np.asarray(law.table, np.float64)
    if not table.size or not np.isfinite(table).all() or (table < 0).any() or not (table > 0).any():
        raise InvalidParameter("table", table.shape, "weights ≥ 0, of which some are above 0")
    flat = table.reshape(math.prod(table.shape[: len(law.given)]), -1)
    most = flat.max(axis=1, keepdims=True)
    scaled = flat / np.where(most > 0, most, 1.0)  # neither may the sum of small weights vanish, nor that of large ones
    if not most.all():
        scaled[most[:, 0] == 0] = (flat / most.max()).sum(axis=0)
    summed = np.cumsum(scaled, axis=1)
    return np.asarray(summed / summed[:, -1:])


def _joined(codes: Codes, given: Sequence[int], shape: tuple[int, ...]) -> Integers:
    """Give the combination of given cells that each row has a number."""
    found = np.zeros(len(codes), np.int64)
    for axis, place in enumerate(given):
        found *= shape[axis]
        found += codes[:, place]
    return found


def _shuffled(parents: Integers, count: int) -> Integers:
    """Order rows by their parents, and those of one parent at random.

    One word holds the parent, random bits and the row, so sorting words sorts rows.
    """
    row_bits, parent_bits = (max(1, (each - 1).bit_length()) for each in (len(parents), count))
    assert row_bits + parent_bits + _LEAST_RANDOM <= 64
    keys = bits.words(len(parents)) >> np.uint64(parent_bits)
    keys &= ~np.uint64((1 << row_bits) - 1)
    keys |= np.arange(len(parents), dtype=np.uint64)
    keys |= parents.view(np.uint64) << np.uint64(64 - parent_bits)
    keys.sort()
    keys &= np.uint64((1 << row_bits) - 1)
    return keys.view(np.int64)


def _spread(function: Floats, sizes: Integers) -> Integers:
    """Say how many rows each cell of each parent has, of so many rows of each parent: one for each stratum."""
    rows = int(sizes.sum())
    ends = function * sizes[:, None]
    whole = np.floor(ends)
    strata = whole.astype(np.int64) + (np.cumsum(sizes) - sizes)[:, None]
    points = bits.shorts(2 * rows).view(np.uint32)
    # no point is below an end that is also the end of a stratum: nothing is left of it
    strata += points[np.minimum(strata, rows - 1)] < (ends - whole) * 2.0**32
    return np.diff(strata.ravel(), prepend=0)
