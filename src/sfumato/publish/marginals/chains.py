"""Hierarchies of cells: a tree of levels, and the differences of a table between one level and the one above.

Level 0 is the whole; level L, the last, are the cells; each level splits parts of the one above. The total T of a part
with k children is spread evenly over them: child p has the difference r_p = t_p − T/k, the differences of siblings add
up to 0, and a cell's count is the sum, over the levels, of the difference of its part there, times 1/k for every split
below. Where all parts of a level are split alike, these are the differences of the averaging projections; where not,
each child weighs the same however many cells it has, so a row in a small part costs no more than one in a large part
(averages over cells would: ‖column‖² = 1/size − 1/size of the parent).

Measured is the integer vector y_p = a·(k·t_p − T), with a whole weight a for each parent chosen so that a·k is one
number s for all: their least common multiple, or where that is large, nearly one number. What a·k is, is exact, and
r = y/(a·k); so nothing is biased whatever a is. A row in child p moves its own entry by a(k − 1) and those of its k − 1
siblings by −a: the L1 norm is 2a(k − 1), the squares a²k(k − 1). Parts with one child have no difference: they are not
measured. An attribute without levels is one split of the whole into n cells: s = n and y = n·t − T.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.quick_dataclass import dataclass

_Number = TypeVar("_Number", np.int64, np.float64)

_LARGEST_SCALE = 1 << 12
"""The largest least common multiple that is used as the scale."""
_FINENESS = 64
"""Beyond that the scale is so many times the largest number of children: weights are rounded by at most 1/128."""


@dataclass(frozen=True, eq=False)
class LevelDifference:
    """What one level adds to the one above, over the parts that have siblings."""

    scale: int
    """The number s that a·k equals for every parent, exactly or nearly."""
    cells: Indices
    """The cells of measured parts, part by part."""
    part_starts: Indices
    """The index of each part's first cell among them."""
    sibling_starts: Indices
    """The index of each parent's first child among the parts."""
    children: Integers
    """k, the number of children of each parent."""
    weights: Integers
    """a of each parent."""
    shares: Floats
    """The share of each cell in its part, 1/k for every split below."""
    size: int
    """The number of cells, measured or not."""

    @property
    def part_count(self) -> int:
        """The number of parts that are measured."""
        return len(self.part_starts)

    @cached_property
    def max_entry_change(self) -> int:
        """A bound on how far one row moves an entry."""
        return max((int(a) * (int(k) - 1) for a, k in self._weight_and_children_pairs), default=0)

    @property
    def max_l1_change(self) -> int:
        """A bound on how far one row moves all entries together; also the sum of sizes of any row of the matrix."""
        return 2 * self.max_entry_change

    @cached_property
    def max_squared_change(self) -> int:
        """A bound on the squares by which one row moves all entries."""
        return max((int(a) ** 2 * int(k) * (int(k) - 1) for a, k in self._weight_and_children_pairs), default=0)

    @cached_property
    def max_negated_row_product(self) -> int:
        """A bound on −⟨u, v⟩ for what two rows move: two children of one parent have −a²k, others nothing below 0."""
        return max((int(a) ** 2 * int(k) for a, k in self._weight_and_children_pairs), default=0)

    @property
    def _weight_and_children_pairs(self) -> set[tuple[int, int]]:
        return set(zip(self.weights.tolist(), self.children.tolist(), strict=True))

    @cached_property
    def difference_factors(self) -> Integers:
        """a·k for each part: the factor of the difference where it is measured."""
        return np.repeat(self.weights * self.children, self.children)

    def sum_parts(self, values: NDArray[_Number], axis: int) -> NDArray[_Number]:
        """Sum the cells of each part that is measured."""
        if not self.part_count:
            return np.take(values, [], axis)
        ordered = values if self._covers_cells_in_order else np.take(values, self.cells, axis)
        return ordered if self.part_count == len(self.cells) else np.add.reduceat(ordered, self.part_starts, axis)

    def measured_values(self, sums: Integers, axis: int) -> Integers:
        """Compute y_p = a·(k·t_p − T) along one axis of the totals of parts, in whole numbers."""
        if not self.part_count:
            return sums
        if len(self.sibling_starts) == 1:
            k, a = int(self.children[0]), int(self.weights[0])
            scaled = sums * (a * k)
            scaled -= a * sums.sum(axis, keepdims=True)
            return scaled
        totals = np.add.reduceat(sums, self.sibling_starts, axis)
        weighted = totals * reshape_along(self.weights, axis, sums.ndim)
        scaled = sums * reshape_along(self.difference_factors, axis, sums.ndim)
        scaled -= np.repeat(weighted, self.children, axis)
        return scaled

    def centre_among_siblings(self, values: Floats, axis: int) -> Floats:
        """Subtract from each entry the mean of its siblings: the projection onto what differences can be."""
        if not self.part_count:
            return values
        if len(self.sibling_starts) == 1:
            return values - values.mean(axis, keepdims=True)
        means = np.add.reduceat(values, self.sibling_starts, axis) / reshape_along(self.children, axis, values.ndim)
        return values - np.repeat(means, self.children, axis)

    def distribute_to_cells(self, differences: Floats, axis: int) -> Floats:
        """Distribute the difference of each part over its cells by their shares."""
        shape = list(differences.shape)
        shape[axis] = self.size
        lengths = np.diff(self.part_starts, append=len(self.cells))
        per_cell = differences if self.part_count == len(self.cells) else np.repeat(differences, lengths, axis)
        shared = (
            per_cell
            if self.part_count == len(self.cells)
            else per_cell * reshape_along(self.shares, axis, per_cell.ndim)
        )
        if self._covers_cells_in_order:
            return shared
        spread_cells = np.zeros(shape)
        spread_cells[(slice(None),) * axis + (self.cells,)] = shared
        return spread_cells

    @cached_property
    def _covers_cells_in_order(self) -> bool:
        """Whether all cells are measured, in their own order."""
        return len(self.cells) == self.size and bool((np.diff(self.cells) == 1).all())

    def coefficients(self, query: Floats, axis: int) -> Floats:
        """Compute the coefficients of a query over cells in the differences: the transpose of spreading, centred."""
        return self.centre_among_siblings(
            self.sum_parts(query * reshape_along(self._share_in_part_by_cell, axis, query.ndim), axis), axis
        )

    @cached_property
    def _share_in_part_by_cell(self) -> Floats:
        cell_shares = np.zeros(self.size)
        cell_shares[self.cells] = self.shares
        return cell_shares

    @cached_property
    def noise_deviations(self) -> Floats:
        """s/(a·k) for each part: the deviation of its r where y has the deviation s; 1, or nearly."""
        return self.scale / self.difference_factors

    @cached_property
    def has_uniform_noise(self) -> bool:
        """Whether a·k is the scale for every parent."""
        return bool((self.difference_factors == self.scale).all())

    @cached_property
    def cell_variances(self) -> Floats:
        """Each cell's variance from a noise of deviation s in each entry of y."""
        lengths = np.diff(self.part_starts, append=len(self.cells))
        part_variances = (1 - 1 / np.repeat(self.children, self.children)) * self.noise_deviations**2
        cell_variances = np.zeros(self.size)
        cell_variances[self.cells] = self.shares**2 * np.repeat(part_variances, lengths)
        return cell_variances


@dataclass(frozen=True, eq=False)
class CellHierarchy:
    """A chain of partitions of an attribute's cells, from the whole to single cells, as its differences."""

    size: int
    differences: tuple[LevelDifference, ...]
    """Level 1 splits the whole; the last are the cells."""
    shares: Floats
    """The share of each cell in the whole."""

    @classmethod
    def from_levels(cls, size: int, levels: Sequence[Sequence[int]] = ()) -> CellHierarchy:
        """Build the chain of so many cells under levels that are given from fine to coarse."""
        parts = [np.zeros(size, np.intp), *(np.asarray(level, np.intp) for level in reversed(levels)), np.arange(size)]
        order = np.lexsort(tuple(reversed(parts)))
        numbered = [_number_parts(level[order]) for level in _require_nested(parts)]
        shares, differences = np.ones(size), []
        for upper, lower in zip(reversed(numbered[:-1]), reversed(numbered[1:]), strict=True):
            children = np.bincount(upper[_part_starts(lower)])
            differences.append(_build_difference(order, upper, lower, children, shares))
            shares = shares / children[upper]
        cell_shares = np.empty(size)
        cell_shares[order] = shares
        return cls(size, tuple(reversed(differences)), cell_shares)

    @property
    def has_equal_shares(self) -> bool:
        """Whether every cell has the same share of the whole."""
        return bool((self.shares == self.shares[0]).all())


def reshape_along(values: NDArray[_Number], axis: int, dimensions: int) -> NDArray[_Number]:
    """Reshape a list of numbers to lie along one axis."""
    shape = [1] * dimensions
    shape[axis] = -1
    return values.reshape(shape)


def _require_nested(parts: list[Indices]) -> list[Indices]:
    """Raise unless every level splits the one above it."""
    for upper, lower in itertools.pairwise(parts):
        if len(np.unique(np.stack([upper, lower]), axis=1).T) != len(np.unique(lower)):
            raise InvalidParameter(
                "levels",
                lower.tolist(),
                "a list from fine to coarse, in which each part consists of whole parts of the level before",
            )
    return parts


def _part_starts(parts: Indices) -> Indices:
    """Return where each part starts among cells in order."""
    return np.flatnonzero(np.diff(parts, prepend=-1))


def _number_parts(parts: Indices) -> Indices:
    """Number the parts of cells in order, from 0."""
    return np.cumsum(np.diff(parts, prepend=parts[:1]) != 0)


def _build_difference(
    order: Indices, upper: Indices, lower: Indices, children: Integers, shares: Floats
) -> LevelDifference:
    """Build the difference between two levels, each given as the part of each cell in order."""
    is_split = children > 1
    is_measured = is_split[upper]
    counts = children[is_split].astype(np.int64)
    scale = _common_scale(counts)
    weights = np.maximum(1, np.rint(scale / counts).astype(np.int64)) if len(counts) else counts
    starts = _part_starts(_number_parts(lower[is_measured])) if is_measured.any() else np.zeros(0, np.intp)
    groups = (np.cumsum(counts) - counts).astype(np.intp)
    return LevelDifference(scale, order[is_measured], starts, groups, counts, weights, shares[is_measured], len(order))


def _common_scale(counts: Integers) -> int:
    distinct_counts = np.unique(counts).tolist()
    multiple, largest = 1, max(distinct_counts, default=1)
    for count in distinct_counts:
        multiple = math.lcm(multiple, count)
        if multiple > max(_LARGEST_SCALE, largest):
            return _FINENESS * largest
    return multiple
