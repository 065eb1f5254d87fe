"""Some readings are more than totals of groups: marginals as dense arrays, and the values of each group in order.

*Marginals.* The keys of the plan are attributes whose cells are public, in the order of the policy; a last cell of each
holds rows whose value is missing or not listed, so every row is in one cell of every marginal. All marginals are read
in one pass. A unit's rows have weights ≥ 0 that add up to at most T (all its rows where each row is a unit, weighted
ones, or a sample), and all of them may share a cell: in each marginal it moves Δ₁ = Δ₂ = Δ∞ = T, however coarse the
marginal is. Clipping each group would not do: what is clipped in fine cells is not clipped in coarse ones.

*Values.* Ranks need the values themselves: of each group's rows that count, in whole steps, in rising order, with how
often each occurs. Rows are sampled, not weighted, so that a unit moves at most c values of a group, T in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import Integers, Places, PlanReading
from sfumato.policy import Value
from sfumato.privacy import Neighbours, Sensitivity

MOST_CELLS = 10**7
"""Of all marginals of one reading together."""
_MOST_GROUPED = 1 << 16
"""Combinations of cells up to this many are added up by the engine."""


@dataclass(frozen=True)
class Marginals(PlanReading[tuple[Integers, ...]]):
    """Marginals have one total for every combination of the cells of some attributes, for several sets of attributes at
    once.
    """

    cells: tuple[tuple[Value | None, ...], ...]
    """For each key of the plan its cells in order, the one for what is missing or not listed left out: it is last."""
    sets: tuple[tuple[int, ...], ...]
    """The places of the keys of each marginal, rising; none of them for the total of all rows."""

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.bounded.plan.keys) or not all(self.cells):
            raise InvalidParameter("cells", len(self.cells), "a list of cells for each key of the plan")
        if any(len(set(each)) != len(each) or None in each for each in self.cells):
            raise InvalidParameter("cells", "a cell twice, or None", "different values: what is missing has its own")
        places = range(len(self.cells))
        if not self.sets or any(list(each) != sorted({*each} & {*places}) for each in self.sets):
            raise InvalidParameter("sets", self.sets[:3], f"sets of the places 0 to {len(self.cells) - 1}, rising")
        if len({*self.sets}) != len(self.sets):
            raise InvalidParameter("sets", "a set twice", "different sets")
        if sum(map(math.prod, map(self.shape, self.sets))) > MOST_CELLS:
            raise InvalidParameter("sets", "too many cells", f"at most {MOST_CELLS:,} cells together")
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE):
            raise InvalidParameter("bounded", self.bounded.strategy.value, "rows that are weighted or sampled")
        if len(self.bounded.measures) != 1 or self.bounded.measures[0].coordinates != 1:
            raise InvalidParameter("bounded", "other measures", "a plan with one measure that has one total")
        if not all(key.domain.nullable for key in self.bounded.plan.keys):
            raise InvalidParameter("bounded", "a key that cannot be missing", "keys under which every row counts")

    def shape(self, attributes: tuple[int, ...]) -> tuple[int, ...]:
        """Count the cells of each of these attributes."""
        return tuple(len(self.cells[place]) + 1 for place in attributes)

    @property
    def by_row(self) -> bool:
        """Tell whether rows are counted as they arrive: each counts as it is, and combinations of cells are so many
        that adding up rows before would hold each of them with its keys, and leave nearly as many.
        """
        combinations = math.prod(len(each) + 1 for each in self.cells)
        return self.bounded.strategy is Strategy.WHOLE and combinations > _MOST_GROUPED

    def counted(self, rows: Iterable[tuple[Sequence[NDArray[Any]], Integers]]) -> tuple[Integers, ...]:
        """Count every marginal, from parts of the rows: for each key the places of their cells, and their totals."""
        found = tuple(np.zeros(self.shape(each), np.int64) for each in self.sets)
        for codes, totals in rows:
            for each, cells in zip(self.sets, found, strict=True):
                index = np.zeros(len(totals), np.intp)
                for place, size in zip(each, cells.shape, strict=True):
                    index *= size
                    index += codes[place]
                np.add.at(cells.reshape(-1), index, totals)
        return found


@dataclass(frozen=True)
class Marginal:
    """This is one of the marginals that were read, as noise is added to it."""

    marginals: Marginals
    index: int

    @property
    def bounded(self) -> BoundedPlan:
        return self.marginals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit can change: all that it contributes, and that may be in one cell."""
        return moved_in_cells(self.bounded, math.prod(self.marginals.shape(self.marginals.sets[self.index])))

    def of(self, exact: Any) -> Integers:
        """Put the cells into one row, from all marginals as they were read."""
        return exact[self.index].reshape(-1)


def moved_in_cells(bounded: BoundedPlan, cells: int) -> Sensitivity:
    """Bound what one unit changes in so many disjoint cells: what it adds to all, and a replaced one takes from others.

    A replaced unit moves a single count by no more than an added one: it is between 0 and T before and after.
    """
    (scaled,) = bounded.measures
    added = Sensitivity(1, scaled.added.total)
    if scaled.sensitivity.neighbours is Neighbours.ADD_REMOVE:
        return added
    moved = added.for_neighbours(Neighbours.REPLACE, signed=scaled.signed)
    return moved if cells > 1 else Sensitivity(1, moved.per_group, neighbours=Neighbours.REPLACE)


@dataclass(frozen=True)
class Counted:
    """This counts rows by some of the attributes of the one marginal that was read: all cells, or some cells as one."""

    reading: Marginals
    places: tuple[int, ...]
    """Of the attributes, rising."""
    cells: tuple[int, ...] | None = None
    """The places, in the flat marginal, of the cells that are counted as one number; None for a number for each."""

    def __post_init__(self) -> None:
        if len(self.reading.sets) != 1 or not {*self.places} <= {*self.reading.sets[0]}:
            raise InvalidParameter("places", self.places, "attributes of the one marginal that is read")
        if list(self.places) != sorted({*self.places}):
            raise InvalidParameter("places", self.places, "different places, rising")
        most = math.prod(self.reading.shape(self.places))
        kept = self.cells or (0,)
        if self.cells == () or list(kept) != sorted({*kept}) or kept[0] < 0 or kept[-1] >= most:
            raise InvalidParameter("cells", kept[:3], f"different places from 0 to {most - 1}, rising")

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def size(self) -> int:
        """Count the numbers."""
        return 1 if self.cells is not None else math.prod(self.reading.shape(self.places))

    @property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit changes: a row is in one cell, however coarse the cells are."""
        return moved_in_cells(self.bounded, self.size)

    def of(self, exact: Any) -> Integers:
        """Give the counts as one row, from the marginal as it was read."""
        return self.summed(exact[0])

    def summed(self, whole: NDArray[Any]) -> NDArray[Any]:
        """Add up an array with an axis for each attribute that was read, to the numbers that are counted."""
        return summed_cells(whole, self.reading.sets[0], self.places, self.cells)


def summed_cells(
    whole: NDArray[Any], read: tuple[int, ...], places: tuple[int, ...], cells: tuple[int, ...] | None
) -> NDArray[Any]:
    """Add up an array with an axis for each place that was read: to all cells of some places, or some cells as one."""
    flat = whole.sum(axis=tuple(axis for axis, place in enumerate(read) if place not in places)).reshape(-1)
    return flat if cells is None else flat[list(cells)].sum(keepdims=True)


@dataclass(frozen=True, eq=False)
class Misfits:
    """These are scores: how far the counts of each candidate are from public numbers that were predicted for them.

    A candidate is a view with the sum of all its gaps, or with ``each`` every single number of the views. *Theorem.*
    With prediction p a unit moves |c − p| by at most |c − c′|, so the sum of a view by at most its Δ₁ and a single
    number by at most its Δ∞. Gaps rise or fall with the prediction's side: the scores are never monotone, and a unit
    may raise one score by Δ and lower another by Δ: the spread is 2Δ. ∎
    """

    views: tuple[Counted, ...]
    predicted: tuple[Integers, ...]
    """Of each view, in whole steps of the totals."""
    each: bool = False

    def __post_init__(self) -> None:
        if not self.views or [view.size for view in self.views] != [values.size for values in self.predicted]:
            raise InvalidParameter("predicted", len(self.predicted), "for each of the views as many numbers as it has")
        if any(view.reading != self.views[0].reading for view in self.views):
            raise InvalidParameter("views", len(self.views), "views of one marginal that is read")

    @property
    def bounded(self) -> BoundedPlan:
        return self.views[0].bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.views[0].sensitivity.neighbours

    @property
    def moved(self) -> Fraction:
        """Bound how far one unit moves any score."""
        found = (view.sensitivity for view in self.views)
        return max(known.per_group if self.each else known.total for known in found)

    @property
    def spread(self) -> Fraction:
        """Bound how much further one unit can move one score up than another."""
        return 2 * self.moved

    def of(self, exact: Any) -> Integers:
        """Give the scores, whole numbers of steps, from the marginal as it was read."""
        gaps = [np.abs(view.of(exact) - own) for view, own in zip(self.views, self.predicted, strict=True)]
        return np.concatenate(gaps) if self.each else np.array([gap.sum() for gap in gaps], np.int64)


@dataclass(frozen=True)
class Values:
    """These are the different values of each group's rows, in rising order, with how many rows have each. PRIVATE."""

    group: Places
    """For each value the place of its group; they rise,"""
    steps: Integers
    """and the value in whole steps rises within a group."""
    counts: Integers
    groups: int
    """How many groups there are, those without rows too."""


@dataclass(frozen=True)
class ValueCounts(PlanReading[Values]):
    """This reads how often each value occurs in each group, of rows that are there: what ranks and histograms are made
    of.

    The plan's first measure adds up the value, and its second counts the rows that have one.
    """

    groups: tuple[GroupKey, ...]

    def __post_init__(self) -> None:
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.SAMPLE):
            raise InvalidParameter("bounded", self.bounded.strategy.value, "whole rows: sampled, or each a unit")
        if [each.coordinates for each in self.bounded.measures] != [1, 1]:
            raise InvalidParameter("bounded", "other measures", "a sum of the value and a count of the rows with one")

    @property
    def counted(self) -> ScaledMeasure:
        """Give the count of rows: how far one unit moves any number of ranks is how far it moves this."""
        return self.bounded.measures[1]


@dataclass(frozen=True)
class Ranks:
    """These are the ranks of the values of each group, by which quantiles are chosen."""

    values: ValueCounts

    @property
    def bounded(self) -> BoundedPlan:
        return self.values.bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.values.counted.sensitivity.neighbours

    def of(self, exact: Any) -> Any:
        """Ranks are found from the values as they were read."""
        return exact

    @property
    def ends(self) -> tuple[int, int]:
        """Give the least and the greatest value in steps; where there is one alone, one more."""
        value = self.bounded.measures[0]
        return value.low, max(value.high, value.low + 1)

    @property
    def in_all(self) -> int:
        """Count the most rows of one unit in all groups together."""
        return int(self.values.counted.added.total)
