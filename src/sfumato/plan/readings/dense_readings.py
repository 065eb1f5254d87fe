"""Readings beyond totals of groups: marginals as dense arrays, and the sorted values of each group.

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
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import Indices, Integers, PlanReading, ReadMeasure
from sfumato.policy import Policy, Value
from sfumato.policy.table_sources import is_on_server
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass

MAX_CELLS = 10**7
"""The most cells of all marginals of one reading together."""
MAX_VALUE_CELLS = 1 << 22
"""The most pairs of a group and a step of a value that a server counts in one reading."""
_MAX_STEPS, _LEAST_STEPS = 1 << 16, 1 << 10
"""The most steps of a value that a server counts, and those that it has even in many groups."""
_STEPS_OF_DISCOVERED = 1 << 12
"""The most steps where groups are discovered: their number is not known before."""
_MAX_GROUPED = 1 << 16
"""The most combinations of cells that are added up by the engine."""


@dataclass(frozen=True)
class Marginals(PlanReading[tuple[Integers, ...]]):
    """The total of every combination of the cells of some attributes, for several sets of attributes at once."""

    cells: tuple[tuple[Value | None, ...], ...]
    """The cells of each key of the plan in order, without the last one, which holds values that are NULL or not
    listed.
    """
    sets: tuple[tuple[int, ...], ...]
    """The indices of the keys of each marginal, rising; empty for the total of all rows."""

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.bounded.plan.keys) or not all(self.cells):
            raise InvalidParameter("cells", len(self.cells), "a list of cells for each key of the plan")
        if any(len(set(key_cells)) != len(key_cells) or None in key_cells for key_cells in self.cells):
            raise InvalidParameter(
                "cells", ValueWords("a cell twice, or None"), "a list of different values without None"
            )
        key_indices = range(len(self.cells))
        if not self.sets or any(list(attributes) != sorted({*attributes} & {*key_indices}) for attributes in self.sets):
            raise InvalidParameter(
                "sets", self.sets[:3], f"lists of indices from 0 to {len(self.cells) - 1}, each in ascending order"
            )
        if len({*self.sets}) != len(self.sets):
            raise InvalidParameter("sets", ValueWords("a set twice"), "a list of different sets")
        if self.cell_count > MAX_CELLS:
            raise InvalidParameter(
                "sets", ValueWords("too many cells"), f"sets with at most {MAX_CELLS:,} cells in total"
            )
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE):
            raise InvalidParameter("bounded", self.bounded.strategy.value, "a plan whose rows are weighted or sampled")
        if len(self.bounded.measures) != 1 or self.bounded.measures[0].coordinates != 1:
            raise InvalidParameter(
                "bounded", ValueWords("other measures"), "a plan with exactly one measure, which has one total"
            )
        if not all(key.domain.nullable for key in self.bounded.plan.keys):
            raise InvalidParameter(
                "bounded", ValueWords("a key that cannot be missing"), "a plan whose keys count every row"
            )

    def shape(self, attributes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of cells of each of these attributes."""
        return tuple(len(self.cells[index]) + 1 for index in attributes)

    @property
    def cell_count(self) -> int:
        """The number of cells of all marginals together."""
        return sum(math.prod(self.shape(attributes)) for attributes in self.sets)

    @property
    def _combination_count(self) -> int:
        return math.prod(len(key_cells) + 1 for key_cells in self.cells)

    @property
    def counts_row_by_row(self) -> bool:
        """Whether rows are counted as they arrive: each counts in full, and there are so many combinations of cells
        that grouping the rows first would hold each combination with its keys, and leave nearly as many.
        """
        return self.bounded.strategy is Strategy.WHOLE and self._combination_count > _MAX_GROUPED

    @property
    def counts_set_by_set(self) -> bool:
        """Whether a server adds up every marginal by itself: combinations of all keys would be more rows than the
        cells that are asked for, most of them one person's.
        """
        return self._combination_count > self.cell_count

    def marginal_indices_with(self, attribute: int) -> tuple[int, ...]:
        """Return the indices of the marginals that a key belongs to."""
        return tuple(index for index, attributes in enumerate(self.sets) if attribute in attributes)

    def count_batches(self, rows: Iterable[tuple[Sequence[NDArray[Any]], Integers]]) -> tuple[Integers, ...]:
        """Count every marginal, from batches of rows: the cell codes of each key, and their totals."""
        marginals = self._zero_marginals()
        for codes, totals in rows:
            for attributes, marginal in zip(self.sets, marginals, strict=True):
                _add_to_cells(marginal, [codes[attribute] for attribute in attributes], totals)
        return marginals

    def count_set_batches(
        self, rows: Iterable[tuple[Mapping[int, NDArray[Any]], Integers, Integers]]
    ) -> tuple[Integers, ...]:
        """Count every marginal, from batches of rows of single marginals: the cell codes of the keys that sets name,
        the indices of the sets, and the totals.
        """
        marginals = self._zero_marginals()
        for codes, set_index, totals in rows:
            for number, (attributes, marginal) in enumerate(zip(self.sets, marginals, strict=True)):
                of_set = set_index == number
                _add_to_cells(marginal, [codes[attribute][of_set] for attribute in attributes], totals[of_set])
        return marginals

    def _zero_marginals(self) -> tuple[Integers, ...]:
        return tuple(np.zeros(self.shape(attributes), np.int64) for attributes in self.sets)


def _add_to_cells(marginal: Integers, codes: Sequence[NDArray[Any]], totals: Integers) -> None:
    index = np.zeros(len(totals), np.intp)
    for attribute_codes, size in zip(codes, marginal.shape, strict=True):
        index *= size
        index += attribute_codes
    np.add.at(marginal.reshape(-1), index, totals)


@dataclass(frozen=True)
class Marginal:
    """One marginal of a reading, as noise is added to it."""

    marginals: Marginals
    index: int

    @property
    def bounded(self) -> BoundedPlan:
        return self.marginals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change: all that it contributes, which may be in one cell."""
        return cells_sensitivity(self.bounded, math.prod(self.marginals.shape(self.marginals.sets[self.index])))

    def extract(self, exact: Any) -> Integers:
        """Return the cells as one row, from all marginals of the reading."""
        return exact[self.index].reshape(-1)


def cells_sensitivity(bounded: BoundedPlan, cells: int) -> Sensitivity:
    """Return what one unit changes in so many disjoint cells: what it adds to all of them, and a replaced one also
    takes away.

    A replaced unit moves a single count by no more than an added one: it is between 0 and T before and after.
    """
    (scaled,) = bounded.measures
    added = Sensitivity(1, scaled.add_remove_sensitivity.total)
    if scaled.sensitivity.neighbours is Neighbours.ADD_REMOVE:
        return added
    replaced = added.for_neighbours(Neighbours.REPLACE, signed=scaled.signed)
    return replaced if cells > 1 else Sensitivity(1, replaced.per_group, neighbours=Neighbours.REPLACE)


@dataclass(frozen=True)
class MarginalView:
    """The counts of rows by some attributes of the only marginal of a reading: of every cell, or of some cells
    together.
    """

    reading: Marginals
    places: tuple[int, ...]
    """The indices of the attributes, rising."""
    cells: tuple[int, ...] | None = None
    """The indices, in the flat marginal, of the cells that are counted together; None for one count per cell."""

    def __post_init__(self) -> None:
        if len(self.reading.sets) != 1 or not {*self.places} <= {*self.reading.sets[0]}:
            raise InvalidParameter("places", self.places, "indices of the marginal that is read")
        if list(self.places) != sorted({*self.places}):
            raise InvalidParameter("places", self.places, "different indices in ascending order")
        cell_count = math.prod(self.reading.shape(self.places))
        cell_indices = self.cells or (0,)
        if (
            self.cells == ()
            or list(cell_indices) != sorted({*cell_indices})
            or cell_indices[0] < 0
            or cell_indices[-1] >= cell_count
        ):
            raise InvalidParameter(
                "cells", cell_indices[:3], f"different indices from 0 to {cell_count - 1} in ascending order"
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def size(self) -> int:
        """The number of counts."""
        return 1 if self.cells is not None else math.prod(self.reading.shape(self.places))

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit changes: a row is in one cell, however coarse the cells are."""
        return cells_sensitivity(self.bounded, self.size)

    def extract(self, exact: Any) -> Integers:
        """Return the counts as one row, from the marginal of the reading."""
        return self.sum_cells(exact[0])

    def sum_cells(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Sum an array with an axis for each attribute of the reading to the counts of this view."""
        return sum_cells(counts, self.reading.sets[0], self.places, self.cells)


def sum_cells(
    counts: NDArray[Any], read_attributes: tuple[int, ...], attributes: tuple[int, ...], cells: tuple[int, ...] | None
) -> NDArray[Any]:
    """Sum an array with an axis for each of ``read_attributes`` to the cells of some attributes, or to some cells
    together.
    """
    flat = counts.sum(
        axis=tuple(axis for axis, attribute in enumerate(read_attributes) if attribute not in attributes)
    ).reshape(-1)
    return flat if cells is None else flat[list(cells)].sum(keepdims=True)


@dataclass(frozen=True, eq=False)
class CountDistances:
    """Scores: the distances between the counts of each candidate and public predictions of them.

    A candidate is a view, scored by the sum of its gaps; or, with ``each``, every single count of the views. *Theorem.*
    With prediction p a unit moves |c − p| by at most |c − c′|, so the sum of a view by at most its Δ₁ and a single
    count by at most its Δ∞. Gaps rise or fall with the prediction's side: the scores are never monotone, and a unit
    may raise one score by Δ and lower another by Δ: the spread is 2Δ. ∎
    """

    views: tuple[MarginalView, ...]
    predicted: tuple[Integers, ...]
    """The predictions for each view, in whole steps of the totals."""
    per_count: bool = False

    def __post_init__(self) -> None:
        if not self.views or [view.size for view in self.views] != [values.size for values in self.predicted]:
            raise InvalidParameter(
                "predicted", len(self.predicted), "a list with one array for each view, of the same length as the view"
            )
        if any(view.reading != self.views[0].reading for view in self.views):
            raise InvalidParameter("views", len(self.views), "a list of views of one marginal that is read")

    @property
    def bounded(self) -> BoundedPlan:
        return self.views[0].bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.views[0].sensitivity.neighbours

    @property
    def sensitivity(self) -> Fraction:
        """The most that one unit moves any score."""
        sensitivities = (view.sensitivity for view in self.views)
        return max(sensitivity.per_group if self.per_count else sensitivity.total for sensitivity in sensitivities)

    @property
    def score_difference_bound(self) -> Fraction:
        """Bound how much further one unit can move one score up than another."""
        return 2 * self.sensitivity

    def extract(self, exact: Any) -> Integers:
        """Return the scores, in whole steps, from the marginal of the reading."""
        gaps = [
            np.abs(view.extract(exact) - prediction)
            for view, prediction in zip(self.views, self.predicted, strict=True)
        ]
        return np.concatenate(gaps) if self.per_count else np.array([gap.sum() for gap in gaps], np.int64)


@dataclass(frozen=True)
class ValueStepCounts:
    """The distinct values of each group's rows, in rising order, with the number of rows of each. PRIVATE."""

    group: Indices
    """For each value the index of its group, ascending."""
    steps: Integers
    """The values in whole steps, ascending within a group."""
    counts: Integers
    groups: int
    """The number of groups, with those without rows."""


def ranked_step_limit(policy: Policy, groups: int | None) -> int | None:
    """Return the most steps of a value that is ranked in so many groups, or in discovered ones (None): where a server
    counts them. This process reads values as they are, and has no such limit (None).
    """
    if not any(is_on_server(table.source) for table in policy.tables.values() if not table.public):
        return None
    if groups is None:
        return _STEPS_OF_DISCOVERED
    return max(_LEAST_STEPS, min(_MAX_STEPS, MAX_VALUE_CELLS // max(1, groups)))


@dataclass(frozen=True)
class ValueCounts(PlanReading[ValueStepCounts]):
    """The frequency of each value in each group, NULL aside: the input of ranks and histograms.

    The plan's first measure adds up the value, and its second counts the rows that have one.
    """

    groups: tuple[GroupKey, ...]

    def __post_init__(self) -> None:
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.SAMPLE):
            raise InvalidParameter(
                "bounded", self.bounded.strategy.value, "a plan that samples rows, or in which every row is a unit"
            )
        if [scaled.coordinates for scaled in self.bounded.measures] != [1, 1]:
            raise InvalidParameter(
                "bounded",
                ValueWords("other measures"),
                "a plan with a sum of the value and a count of the rows that have one",
            )

    @property
    def read_measures(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.RANK,))

    @property
    def value_step_span(self) -> tuple[int, int]:
        """The least and the greatest number of steps that the plan lets a value have."""
        (contribution,) = self.bounded.measures[0].contributions
        return contribution.low, contribution.high

    @property
    def cell_count(self) -> int:
        """The number of pairs of a group and a step: the most rows that leave a server."""
        low, high = self.value_step_span
        return len(self.groups) * (high - low + 1)

    @property
    def row_count(self) -> ScaledMeasure:
        """The count of rows: one unit moves any number of ranks by as much as this count."""
        return self.bounded.measures[1]


@dataclass(frozen=True)
class Ranks:
    """The ranks of the values of each group, by which quantiles are selected."""

    values: ValueCounts

    @property
    def bounded(self) -> BoundedPlan:
        return self.values.bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.values.row_count.sensitivity.neighbours

    def extract(self, exact: Any) -> Any:
        """Return the values unchanged: ranks are computed from them."""
        return exact

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest value in steps; at least one step apart."""
        value = self.bounded.measures[0]
        return value.low, max(value.high, value.low + 1)

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit in all groups together."""
        return int(self.values.row_count.add_remove_sensitivity.total)
