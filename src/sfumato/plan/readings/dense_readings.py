"""Readings beyond totals of groups: marginals as dense arrays, and the sorted values of each group.

*Marginals.* The keys of the plan are attributes whose cells are public, in the order of the policy; a last cell of each
holds rows whose value is missing or not listed, so every row is in one cell of every marginal. All marginals are read
in one pass. A unit's rows have weights ≥ 0 that add up to at most T (all its rows where each row is a unit, weighted
ones, or a sample), and all of them may share a cell: in each marginal it moves Δ₁ = Δ₂ = Δ∞ = T, however coarse the
marginal is. Clipping each group would not do: what is clipped in fine cells is not clipped in coarse ones.

*Values.* Ranks need the values themselves: of each group's rows that count, in whole steps, in rising order, with how
often each occurs. Rows are sampled, not weighted, so that a unit moves at most c values of a group, T in all.

Readings of pairs of a group and a value, where the value may be of any type.

Rows are sampled as groups are: a unit has at most g groups, c rows in a group and T in all, whatever their values.

*Different values.* For each unit, a pair of group and value counts once, and the pairs are what is sampled: at most c
in a group, T in all. *Claim.* Adding a unit changes the number of different values of each group by at most as many as
it has pairs there. *Proof.* The values of a group are the union over units of what is kept of theirs, and what is kept
of a unit depends on its own rows and the key alone. So a unit that comes adds at most its own pairs to the union, and
one that leaves takes away at most those. ∎ So it has the sensitivity of a count of rows: Δ∞ = c and Δ₁ = T, and not 1,
which is for counting units. All these changes have one sign, so a unit that is replaced changes each number by at most
c too. Where a value can only be one of v, no more than v pairs of a unit are kept in a group: c is at most v.

*Matched values.* Units are taken in the order of their ids; each keeps the first l of its pairs, in the order of the
pairs themselves, that no unit before it keeps. What counts is the union of what is kept: a largest union of at most l
pairs per unit has at most twice as many. (Knop & Steinke, "Counting Distinct Elements Under Person-Level Differential
Privacy", NeurIPS 2023, Alg. 2, match values so, without groups.) *Theorem.* A unit that comes adds at most l pairs to
the union, and takes none away. *Proof.* Up to that unit nothing changes; it keeps a set A of at most l pairs, disjoint
from the union O so far. Let O and O ∪ A, disjoint and |A| ≤ l, be the unions without and with it before a later unit
whose pairs are V. That keeps P, the first l of V − O, without it, and Q, the first l of V − (O ∪ A), with it. A pair of
P that is not in A has at most as many pairs before it in V − (O ∪ A), so it is in Q: O ∪ P ⊆ O ∪ A ∪ Q. And |Q| ≤ |P|,
because V − (O ∪ A) ⊆ V − O: the new union is larger by |A| + |Q| − |P| ≤ l. So both hold after every unit. ∎ The order
of two units, or of two pairs, must depend on these two alone: with an order by how many units have a value, a unit that
comes changes what those before it keep, and the proof ends at its first sentence.

So the numbers of the groups grow, by at most l in all: Δ₁ = Δ₂ = Δ∞ = l under add-remove. A unit that is replaced
leaves and another comes; both move a common union upwards, each by a vector v ≥ 0 with Σv ≤ l: Δ∞ = l, Δ₁ = 2l,
Δ₂ = √2·l, and all three are l where there is one group.

A total is read in whole steps of a public grid where it is compared with a threshold, or with other totals.

Theorem (steps). The number of whole steps in x is ⌊x/γ⌋. It never falls as x grows, and when x grows by at most Δ it
grows by at most ⌈Δ/γ⌉, because ⌊a + d⌋ ≤ ⌊a⌋ + ⌈d⌉. So what one unit moves by at most Δ it moves by at most ⌈Δ/γ⌉
steps, and questions that all move the same way still do. ∎

Nothing is lost in a comparison on that grid: ⌊a⌋ ≥ k for a whole k if and only if a ≥ k.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Indices, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import GroupTotals, PlanReading, ReadMeasure
from sfumato.plan.values.expressions import Expression, columns
from sfumato.policy import Domain, Policy, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
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
            sizes = ", ".join(str(len(key_cells)) for key_cells in self.cells[:9])
            raise InvalidParameter(
                "cells",
                ValueWords(f"{len(self.cells)} lists" + (f", of {sizes} cells" if sizes else "")),
                f"a list of length {len(self.bounded.plan.keys)}, with a non-empty list of cells for each key",
            )
        if any(len(set(key_cells)) != len(key_cells) or None in key_cells for key_cells in self.cells):
            raise InvalidParameter(
                "cells", ValueWords("a cell twice, or None"), "a list of different values without None"
            )
        key_indices = range(len(self.cells))
        if not self.sets or any(list(attributes) != sorted({*attributes} & {*key_indices}) for attributes in self.sets):
            raise InvalidParameter(
                "sets",
                self.sets[:3],
                f"at least one list of indices from 0 to {len(self.cells) - 1}, each in ascending order",
            )
        if len({*self.sets}) != len(self.sets):
            raise InvalidParameter("sets", ValueWords("a set twice"), "a list of different sets")
        if self.cell_count > MAX_CELLS:
            raise InvalidParameter(
                "sets",
                ValueWords(f"{self.cell_count:,} cells"),
                f"sets that have at most {MAX_CELLS:,} cells in total",
                fix="leave out the sets with the most cells, or merge cells of a key",
            )
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE):
            raise InvalidParameter(
                "bounded", self.bounded.strategy.value, "a plan with the strategy whole, reweight or sample"
            )
        if len(self.bounded.measures) != 1 or self.bounded.measures[0].coordinates != 1:
            raise InvalidParameter(
                "bounded",
                ValueWords(f"measures with {[scaled.coordinates for scaled in self.bounded.measures]} totals"),
                "a plan with exactly one measure, which has a single total",
                fix="ask for one count or one sum",
            )
        if not all(key.domain.nullable for key in self.bounded.plan.keys):
            raise InvalidParameter(
                "bounded", ValueWords("a key that is not nullable"), "a plan whose keys are all nullable"
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


def cells_sensitivity(bounded_plan: BoundedPlan, cells: int) -> Sensitivity:
    """Return what one unit changes in so many disjoint cells: what it adds to all of them, and a replaced one also
    takes away.

    A replaced unit moves a single count by no more than an added one: it is between 0 and T before and after.
    """
    (scaled,) = bounded_plan.measures
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
    attribute_set: tuple[int, ...]
    """The indices of the attributes, rising."""
    cells: tuple[int, ...] | None = None
    """The indices, in the flat marginal, of the cells that are counted together; None for one count per cell."""

    def __post_init__(self) -> None:
        if len(self.reading.sets) != 1:
            rule = "a reading of exactly one set of keys"
            raise InvalidParameter("reading", ValueWords(f"{len(self.reading.sets)} sets"), rule)
        if not {*self.attribute_set} <= {*self.reading.sets[0]}:
            rule = f"a subset of {self.reading.sets[0]}, the indices of the keys that the reading counts"
            raise InvalidParameter("attribute_set", self.attribute_set, rule)
        if list(self.attribute_set) != sorted({*self.attribute_set}):
            raise InvalidParameter("attribute_set", self.attribute_set, "different indices in ascending order")
        cell_count = math.prod(self.reading.shape(self.attribute_set))
        cell_indices = self.cells or (0,)
        if (
            self.cells == ()
            or list(cell_indices) != sorted({*cell_indices})
            or cell_indices[0] < 0
            or cell_indices[-1] >= cell_count
        ):
            raise InvalidParameter(
                "cells",
                self.cells and self.cells[:3],
                f"a non-empty list of different indices from 0 to {cell_count - 1} in ascending order",
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def size(self) -> int:
        """The number of counts."""
        return 1 if self.cells is not None else math.prod(self.reading.shape(self.attribute_set))

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit changes: a row is in one cell, however coarse the cells are."""
        return cells_sensitivity(self.bounded, self.size)

    def extract(self, exact: Any) -> Integers:
        """Return the counts as one row, from the marginal of the reading."""
        return self.sum_cells(exact[0])

    def sum_cells(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Sum an array with an axis for each attribute of the reading to the counts of this view."""
        return sum_cells(counts, self.reading.sets[0], self.attribute_set, self.cells)


def sum_cells(
    counts: NDArray[Any],
    read_attributes: tuple[int, ...],
    attributes: tuple[int, ...],
    only_cells: tuple[int, ...] | None,
) -> NDArray[Any]:
    """Sum an array with an axis for each of ``read_attributes`` to the cells of some attributes, or to some cells
    together.
    """
    flat = counts.sum(
        axis=tuple(axis for axis, attribute in enumerate(read_attributes) if attribute not in attributes)
    ).reshape(-1)
    return flat if only_cells is None else flat[list(only_cells)].sum(keepdims=True)


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
                "predicted",
                ValueWords("arrays of other lengths"),
                "a list with one array for each view, of the same length as the view",
            )
        if any(view.reading != self.views[0].reading for view in self.views):
            raise InvalidParameter("views", ValueWords("views of different readings"), "a list of views of one reading")

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

    groups: tuple[GroupValues, ...]

    def __post_init__(self) -> None:
        if self.bounded.strategy not in (Strategy.WHOLE, Strategy.SAMPLE):
            raise InvalidParameter("bounded", self.bounded.strategy.value, "a plan with the strategy whole or sample")
        if [scaled.coordinates for scaled in self.bounded.measures] != [1, 1]:
            raise InvalidParameter(
                "bounded",
                ValueWords(f"measures with {[scaled.coordinates for scaled in self.bounded.measures]} totals"),
                "a plan with two measures of one total each: the sum of a value, and the number of its rows",
            )

    @property
    def measures_to_read(self) -> frozenset[ReadMeasure]:
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


@dataclass(frozen=True)
class DistinctValueReading(PlanReading[Integers]):
    """The number of distinct values of one column in each group."""

    value: Expression
    groups: tuple[GroupValues, ...]

    @property
    def measures_to_read(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.DISTINCT,))


@dataclass(frozen=True)
class MatchedValueReading(PlanReading[Integers]):
    """The number of distinct values of one column in each group that matching keeps; pairs of other groups are not
    matched.
    """

    value: Expression
    groups: tuple[GroupValues, ...]

    @property
    def measures_to_read(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.DISTINCT,))


_MATCHED_ROWS = 1 << 20
"""How many pairs of a unit and a value are matched at a time."""


def match_values_to_units(units: Integers, pairs: Integers, max_values: int) -> NDArray[np.intp]:
    """Return the rows whose pair is kept, of rows that each are a pair of a unit; once sorted, in linear time.

    Units and pairs are numbered from 0 in an order of their own, with gaps or without.
    """
    order = np.lexsort((pairs, units))
    is_kept = bytearray(int(pairs.max(initial=-1)) + 1)
    matched_rows: list[int] = []
    current, remaining = -1, 0
    for start in range(0, len(order), _MATCHED_ROWS):
        rows = order[start : start + _MATCHED_ROWS]
        for row, unit, pair in zip(rows.tolist(), units[rows].tolist(), pairs[rows].tolist(), strict=True):
            if unit != current:
                current, remaining = unit, max_values
            if remaining and not is_kept[pair]:
                is_kept[pair], remaining = 1, remaining - 1
                matched_rows.append(row)
    return np.array(matched_rows, np.intp)


@dataclass(frozen=True)
class ValueTable(PlanReading[Integers]):
    """The number of rows of each group with each of some public values: a row for each group, a column for each
    value.
    """

    value: Expression
    groups: tuple[GroupValues, ...]
    values: tuple[Value, ...]

    @property
    def measures_to_read(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.FREQUENT,))

    @property
    def cells(self) -> GroupTotals:
        """The same reading as totals, in which each pair of a group and a value is a group."""
        keyed_plan = replace(self.bounded, plan=with_value_as_key(self.bounded, self.value).plan)
        pairs = itertools.product(self.groups, self.values)
        return GroupTotals(keyed_plan, tuple((*group, value) for group, value in pairs))


def with_value_as_key(bounded_plan: BoundedPlan, value: Expression) -> BoundedPlan:
    """Return the plan with the value as its last key."""
    return replace(bounded_plan, plan=replace(bounded_plan.plan, keys=(*bounded_plan.plan.keys, value)))


def pair_limits(limits: ContributionLimits, value: Expression) -> ContributionLimits:
    """Limit the pairs of a unit in a group by the number of possible values: the sample keeps no more."""
    max_values = _max_domain_values(value.domain)
    return limits if max_values is None else replace(limits, rows_per_group=min(limits.rows_per_group, max_values))


def possible_value_count(value: Expression) -> int | None:
    """Return the number of possible values of an expression: its own, or the combinations of those of its columns; None
    where they are not declared.
    """
    max_values = _max_domain_values(value.domain)
    counts = [_max_domain_values(domain) for domain in columns(value).values()]
    if max_values is not None or not counts:
        return max_values
    return math.prod(count for count in counts if count is not None) if None not in counts else None


def _max_domain_values(domain: Domain) -> int | None:
    """Return the number of possible values, where they are listed or are integers or days within bounds."""
    if domain.values is not None:
        return max(1, len(domain.values))
    if domain.type is Type.BOOLEAN:
        return 2
    match domain.bounds:
        case (int(low), int(high)) if domain.type is Type.INTEGER:
            return high - low + 1
        case (dt.date() as first, dt.date() as last) if domain.type is Type.DATE:
            return (last - first).days + 1
    return None


@dataclass(frozen=True)
class DistinctCounts:
    """The numbers of distinct values, as noise is added to them."""

    reading: DistinctValueReading | MatchedValueReading

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        return self.bounded.measures[0].sensitivity

    def extract(self, exact: Integers) -> Integers:
        return exact


@dataclass(frozen=True)
class ValueFrequencies:
    """The frequencies of values in each group, by which the most frequent are selected."""

    reading: ValueTable

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.bounded.measures[0].sensitivity.neighbours

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit in all groups together."""
        return int(self.bounded.measures[0].add_remove_sensitivity.total)

    def extract(self, exact: Integers) -> Integers:
        return exact


@dataclass(frozen=True)
class SteppedTotal:
    """The only total of an ungrouped plan, in whole steps of a grid that is fixed beforehand."""

    bounded: BoundedPlan
    grid: Fraction

    def __post_init__(self) -> None:
        if self.bounded.plan.keys or len(self.bounded.measures) != 1 or self.scaled.coordinates != 1:
            raise InvalidParameter(
                "bounded", ValueWords("groups, or several totals"), "a plan with one total and no groups"
            )

    @property
    def scaled(self) -> ScaledMeasure:
        return self.bounded.measures[0]

    @property
    def neighbours(self) -> Neighbours:
        return self.scaled.sensitivity.neighbours

    @property
    def max_change_in_steps(self) -> int:
        """The most steps that one unit moves it by."""
        return math.ceil(self.scaled.sensitivity.linf * self._steps_per_unit)

    @property
    def is_monotone(self) -> bool:
        """Whether it can only grow when a unit is added: no row adds a negative number."""
        return all(contribution.low >= 0 for contribution in self.scaled.contributions)

    @property
    def rounding(self) -> Fraction:
        """Bound what rounding down to steps may take away, beside the rounding of the total itself. A total of whole
        steps that is clipped in one group stays one.
        """
        whole_steps = self.scaled.bits < 0 or self.bounded.strategy is not Strategy.REWEIGHT
        resolution = max(self.scaled.step, self.scaled.unit_value) if whole_steps else self.scaled.unit_value
        return self.scaled.rounding + (0 if (resolution / self.grid).denominator == 1 else self.grid)

    def extract(self, totals: Integers) -> Integers:
        """Return the number of whole steps, rounded down; one beyond ±2^62 is clamped, which moves no two further
        apart.
        """
        steps = int(totals[0, 0]) * self._steps_per_unit.numerator // self._steps_per_unit.denominator
        return np.full((1, 1), max(-LARGEST_INTEGER, min(LARGEST_INTEGER, steps)), np.int64)

    @property
    def _steps_per_unit(self) -> Fraction:
        """The steps that one unit of the totals is worth."""
        return self.scaled.unit_value / self.grid
