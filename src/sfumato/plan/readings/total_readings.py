"""Exact readings of a bounded plan, and the views of them that mechanisms see, each with its sensitivity.

An engine executes a ``PlanReading``: a bounded plan and what of it is read, in one pass. A mechanism sees a view of the
result: the columns of one measure, or a linear transform of them. Its sensitivity is derived from what the bounding
proves, never stated by the caller.

*Totals* are the whole totals of one measure. *LinearTotals* are whole-number combinations W·t of them, and
*LinearScores* give every candidate a whole score s_h = Σ_g w_hg·t_g.

Theorem (combinations). A change v of the totals moves W·t by W·v = Σ_g v_g·W_g, where W_g are the columns of W. Every
norm is convex, so ‖W·v‖_p ≤ Σ_g |v_g|·‖W_g‖_p ≤ Δ₁·max_g ‖W_g‖_p, where Δ₁ bounds ‖v‖₁ under the relation in use; and
a unit whose change is all in one group attains it. ∎

Theorem (spread). A selection that looks only at the differences between scores does not change when all of them move
by the same amount. So what counts is the spread of the move, max_h Δs_h − min_h Δs_h: a move of spread D is one of at
most D/2 in either direction around its middle, and all theorems for scores of sensitivity D/2 hold. The spread is
a seminorm, so for a change Δt of the totals it is at most Σ_g |Δt_g|·(spread of column g).

- A unit that is added or removed changes the totals by v with ‖v‖₁ ≤ Δ₁: the spread is at most Δ₁·C, where C is the
  largest spread of a column (with 0 in it).
- A unit that is replaced changes them by v − v′: at most Δ₁′·C, where Δ₁′ bounds ‖v − v′‖₁.
- Where no contribution is negative and the columns form a chain (in some order each is at least the one before in every
  row, and the first is at least 0), one step of v exchanged for one of v′ moves all scores the same way, by at most the
  largest difference R within a row. At most Δ₁ such steps lead from v to v′, so the spread is at most Δ₁·R: half of the
  above. Without the chain that is false. ∎
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Indices, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.nodes import GroupValues
from sfumato.privacy import Neighbours, Sensitivity, codec
from sfumato.quick_dataclass import dataclass

E = TypeVar("E")
_LARGEST = (1 << 62) - 1


class ReadMeasure(StrEnum):
    """What is read of the rows of a group."""

    COUNT = "count"
    """The number of rows or units, in groups or in cells."""
    SUM = "sum"
    """Values that are added up: sums, means, and moments of higher order."""
    RANK = "rank"
    """Values in their order: medians and other quantiles."""
    DISTINCT = "distinct"
    """The number of distinct values."""
    FREQUENT = "frequent"
    """The most frequent values."""


@dataclass(frozen=True)
class PlanReading(Generic[E]):
    """An exact query of a bounded plan; the type parameter is the engine's result."""

    bounded: BoundedPlan

    @property
    def measures_to_read(self) -> frozenset[ReadMeasure]:
        """What is read of the rows: a measure without a value counts them; a mean counts and adds up."""
        return frozenset().union(*map(_read_measures, self.bounded.measures))


def _read_measures(scaled: ScaledMeasure) -> frozenset[ReadMeasure]:
    if scaled.measure.value is None:
        return frozenset((ReadMeasure.COUNT,))
    return frozenset((ReadMeasure.SUM,) if scaled.coordinates == 1 else (ReadMeasure.COUNT, ReadMeasure.SUM))


@dataclass(frozen=True)
class GroupTotals(PlanReading[Integers]):
    """The totals of groups that are known beforehand: a row for each group in this order, a column for each coordinate
    of each measure. A group without rows has zeros.
    """

    groups: tuple[GroupValues, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups and of coordinates."""
        return len(self.groups), sum(scaled.coordinates for scaled in self.bounded.measures)


@dataclass(frozen=True)
class DiscoveredGroups:
    """The keys that rows have, and the exact totals of their groups. PRIVATE: which keys there are is private too."""

    holders: Integers
    """For each key, the number of units with a row that counts."""
    key_values: Callable[[Indices], list[GroupValues]]
    """Returns the values of the keys at these indices: only for those that may be released."""
    key_index: Indices
    """For each row of the totals, the index of its discovered key."""
    declared_index: Indices
    """For each row of the totals, the index of its declared keys; -1 where their values are not declared."""
    totals: Integers

    def totals_for(self, keys: Indices, declared_count: int) -> Integers:
        """Return the totals of these keys, each with all declared combinations in order; zeros for groups
        without rows.
        """
        key_position = np.full(len(self.holders), -1, np.intp)
        key_position[keys] = np.arange(len(keys))
        row_key = key_position[self.key_index]
        selected = (row_key >= 0) & (self.declared_index >= 0)
        totals = np.zeros((len(keys) * declared_count, self.totals.shape[1]), np.int64)
        # a row may hold zeros alone
        np.add.at(totals, row_key[selected] * declared_count + self.declared_index[selected], self.totals[selected])
        return totals


@dataclass(frozen=True)
class DiscoveredTotals(PlanReading[DiscoveredGroups]):
    """The totals of groups that are discovered in the data, because the values of some keys are not declared.

    The last measure of the plan counts the units with a row that counts, for each combination of values of the
    discovered keys, whatever the declared ones are.
    """

    discovered_keys: tuple[int, ...]
    """The indices of the keys whose values are discovered."""
    declared_groups: tuple[GroupValues, ...]
    """Every combination of the values of the other keys, in order; one empty combination where there is no other."""

    @property
    def declared_keys(self) -> tuple[int, ...]:
        """The indices of the other keys."""
        return tuple(index for index in range(len(self.bounded.plan.keys)) if index not in self.discovered_keys)


class PlanView(Protocol):
    """A view of a bounded plan's totals."""

    @property
    def bounded(self) -> BoundedPlan: ...

    def extract(self, totals: Integers) -> Integers:
        """Return the exact values of the view, from the totals of every measure of the plan."""
        ...


@dataclass(frozen=True)
class MeasureTotals:
    """The integer totals of one measure: for every group, its coordinates."""

    bounded: BoundedPlan
    measure: int = 0

    @property
    def scaled(self) -> ScaledMeasure:
        return self.bounded.measures[self.measure]

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change, under the neighbours that the plan was bounded for."""
        return self.scaled.sensitivity

    def extract(self, totals: Integers) -> Integers:
        first_column = self.bounded.first_columns[self.measure]
        return totals[:, first_column : first_column + self.scaled.coordinates]


class CandidateWeights(Protocol):
    """An integer matrix with one row for each candidate and one column for each group."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of candidates and of groups."""
        ...

    @property
    def max_column_range_with_zero(self) -> int:
        """The largest difference within a column that has a 0 added."""
        ...

    @property
    def max_row_range_with_zero(self) -> int:
        """The largest difference within a row that has a 0 added."""
        ...

    @property
    def has_ordered_columns(self) -> bool:
        """Whether the columns, and one of zeros before them, can be ordered so that none falls in any row."""
        ...

    def scores(self, counts: Integers) -> Integers:
        """Return the score of every candidate. Counts beyond what 64 bits hold are clamped, which moves no two further
        apart.
        """
        ...


@codec.serialisable("weight-matrix")
@dataclass(frozen=True)
class WeightMatrix:
    """Weights written out row by row."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows)))
        flat = [weight for row in self.rows for weight in row]
        if not flat or any(len(row) != len(self.rows[0]) for row in self.rows):
            raise InvalidParameter(
                "weights",
                ValueWords("rows of different lengths, or no rows"),
                "a list of rows of the same length",
            )
        refused = [weight for weight in flat if type(weight) is not int or abs(weight) > 10**12]
        if refused:
            raise InvalidParameter(
                "weights",
                refused[0],
                "rows of whole numbers of at most 1e12 in absolute value",
                fix="round the weights, or divide them by a common factor",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def max_column_range_with_zero(self) -> int:
        return max(max(0, *column) - min(0, *column) for column in zip(*self.rows, strict=True))

    @property
    def max_row_range_with_zero(self) -> int:
        return max(max(0, *row) - min(0, *row) for row in self.rows)

    @cached_property
    def has_ordered_columns(self) -> bool:
        columns = [(0,) * len(self.rows), *sorted(zip(*self.rows, strict=True), key=sum)]
        return all(np.all(np.array(a) <= np.array(b)) for a, b in pairwise(columns))

    def scores(self, counts: Integers) -> Integers:
        matrix = np.array(self.rows, np.int64)
        max_count = _LARGEST // (max(1, int(np.abs(matrix).max())) * counts.size)
        return matrix @ np.clip(counts, -max_count, max_count)


@codec.serialisable("weight-thresholds")
@dataclass(frozen=True)
class ThresholdWeights:
    """Weights by which candidate h scores ``values[h]`` for every row of a group that reaches it: p·#{bids ≥ p}, for
    instance.

    The values rise. ``reached[g]`` says how many of the candidates, from the first on, the rows of group g reach. The
    columns are a chain by construction: who reaches more candidates scores for all that others score for.
    """

    values: tuple[int, ...]
    reached: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "reached", tuple(self.reached))
        are_allowed = all(type(value) is int and 0 < value <= 10**12 for value in self.values)
        if not self.values or not are_allowed or not all(a < b for a, b in pairwise(self.values)):
            got = "values that do not ascend" if are_allowed else "a value that is not a whole number from 1 to 1e12"
            raise InvalidParameter(
                "values",
                ValueWords(got if self.values else "an empty list"),
                "a list of ascending whole numbers from 1 to 1e12",
            )
        if not self.reached or not all(
            type(number) is int and 0 <= number <= len(self.values) for number in self.reached
        ):
            raise InvalidParameter(
                "reached",
                ValueWords("a list with another number" if self.reached else "an empty list"),
                f"a list of whole numbers from 0 to {len(self.values)}, one for each group",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), len(self.reached)

    @property
    def max_column_range_with_zero(self) -> int:
        return self.values[-1]

    @property
    def max_row_range_with_zero(self) -> int:
        return self.values[-1]

    @property
    def has_ordered_columns(self) -> bool:
        return True

    def count_rows_reaching(self, counts: Integers) -> Integers:
        """Return the number of rows that reach each candidate."""
        rows_by_reach, max_count = np.zeros(len(self.values) + 1, np.int64), _LARGEST // counts.size
        np.add.at(rows_by_reach, np.array(self.reached), np.clip(counts, -max_count, max_count))
        return np.cumsum(rows_by_reach[::-1])[::-1][1:]

    def scores(self, counts: Integers) -> Integers:
        return np.array(self.values, np.int64) * np.minimum(
            self.count_rows_reaching(counts), _LARGEST // self.values[-1]
        )


@dataclass(frozen=True)
class LinearTotals:
    """Integer combinations of one total per group, to which noise is added."""

    totals: MeasureTotals
    weights: WeightMatrix

    def __post_init__(self) -> None:
        _require_one_total(self.totals)

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change: see the theorem of combinations above."""
        totals_sensitivity, columns = self.totals.sensitivity, list(zip(*self.weights.rows, strict=True))
        return Sensitivity(
            len(self.weights.rows),
            totals_sensitivity.total * max(1, *(abs(weight) for column in columns for weight in column)),
            totals_sensitivity.total * max(1, *(sum(map(abs, column)) for column in columns)),
            totals_sensitivity.total**2 * max(1, *(sum(weight**2 for weight in column) for column in columns)),
            totals_sensitivity.neighbours,
        )

    def extract(self, totals: Integers) -> Integers:
        return self.weights.scores(self.totals.extract(totals)[:, 0])


_NEVER_NEGATIVE_FIX = "use a count, or a sum of values that cannot be negative"


def _require_one_total(totals: MeasureTotals) -> None:
    if totals.scaled.coordinates != 1:
        raise InvalidParameter(
            "totals",
            totals.scaled.measure.name,
            "a measure with one total per group",
            fix="use a measure of one total, such as a count or a sum",
        )


@dataclass(frozen=True)
class LinearScores:
    """Scores of candidates as an integer linear transform of one total per group."""

    totals: MeasureTotals
    weights: CandidateWeights

    def __post_init__(self) -> None:
        _require_one_total(self.totals)
        if isinstance(self.weights, ThresholdWeights) and self.totals.scaled.signed:
            raise InvalidParameter(
                "totals", self.totals.scaled.measure.name, "a measure that is never negative", fix=_NEVER_NEGATIVE_FIX
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours that the spread is stated for."""
        return self.totals.sensitivity.neighbours

    @property
    def score_difference_bound(self) -> Fraction:
        """Bound how much further one unit can move one score up than another: see the theorem above."""
        totals_sensitivity, scaled = self.totals.sensitivity, self.totals.scaled
        spread_bound = totals_sensitivity.total * self.weights.max_column_range_with_zero
        if self.neighbours is Neighbours.REPLACE and self.weights.has_ordered_columns and not scaled.signed:
            return min(spread_bound, scaled.add_remove_sensitivity.total * self.weights.max_row_range_with_zero)
        return spread_bound

    def extract(self, totals: Integers) -> Integers:
        return self.weights.scores(self.totals.extract(totals)[:, 0])


@dataclass(frozen=True)
class RowsReachingCandidates:
    """The number of rows that reach each candidate, of which one is measured: that of a candidate chosen before.

    Every row reaches a candidate or not, so one unit moves the number by at most its contribution, whichever candidate
    it is, and by no more when it is replaced.
    """

    totals: MeasureTotals
    weights: ThresholdWeights

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        scaled = self.totals.scaled
        return Sensitivity(1, scaled.add_remove_sensitivity.total, neighbours=scaled.sensitivity.neighbours)

    def extract(self, totals: Integers) -> Integers:
        return self.weights.count_rows_reaching(self.totals.extract(totals)[:, 0])


@dataclass(frozen=True)
class ChosenGroups:
    """The rows in groups that were chosen before, from noisy numbers alone, and the rows in the others: two numbers are
    measured.

    Whichever groups they are, every row counts in one of the two, so a unit that is added or removed moves them by its
    contribution T in all. A unit that is replaced moves each by at most T, since what it added and what it adds lie
    between 0 and T, and both by at most 2T together.
    """

    totals: MeasureTotals

    def __post_init__(self) -> None:
        _require_one_total(self.totals)
        if self.totals.scaled.low < 0:
            raise InvalidParameter(
                "totals", self.totals.scaled.measure.name, "a measure that is never negative", fix=_NEVER_NEGATIVE_FIX
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        scaled = self.totals.scaled
        added = Sensitivity(2, scaled.add_remove_sensitivity.total, total=scaled.add_remove_sensitivity.total)
        return added.for_neighbours(scaled.sensitivity.neighbours, signed=False)

    def extract(self, totals: Integers) -> Integers:
        """Return the totals of all groups, from which ``sum_inside_and_outside`` computes the two numbers."""
        counts = self.totals.extract(totals)[:, 0]
        return np.clip(counts, 0, _LARGEST // counts.size)  # clamped so that the sum fits 64 bits

    def sum_inside_and_outside(self, counts: Integers, chosen: NDArray[np.bool_]) -> Integers:
        """Add up the chosen groups, and the others."""
        return np.array([counts[chosen].sum(), counts[~chosen].sum()], np.int64)


@dataclass(frozen=True)
class KeyHolders:
    """The number of units of each discovered key, which decides whether the key may be released.

    One unit is in at most g groups, crossed with declared keys or not, so it holds at most g keys: counts of distinct
    units move by 1 in at most g of them. Where the rows of one unit are counted, they move by at most g in all.
    """

    bounded: BoundedPlan

    @property
    def _holder_count(self) -> ScaledMeasure:
        return self.bounded.measures[-1]

    @property
    def max_keys_per_unit(self) -> int:
        """The most keys that one unit can have; or rows, where those are counted."""
        return int(self._holder_count.add_remove_sensitivity.total)

    @property
    def is_weighted(self) -> bool:
        """Whether one unit can count more than once in one key."""
        return self._holder_count.add_remove_sensitivity.per_group > 1

    @property
    def neighbours(self) -> Neighbours:
        return self._holder_count.sensitivity.neighbours

    def extract(self, totals: Integers) -> Integers:
        """Return the counts unchanged, one for each key."""
        return totals


@dataclass(frozen=True)
class GroupSizeHistogram:
    """The histogram of the groups' totals, from 0 to ``most`` or more: where edges are counted by their nodes, the
    degree histogram.

    *Claim.* A unit that changes the totals of k groups moves the histogram by at most 2k in all and by at most k in one
    place. *Proof.* A group is in one place of the histogram. When its total changes it leaves one place and enters
    another, which moves two numbers by one each; a group whose total stays moves none. ∎ Totals are whole, so k is at
    most the sum of their changes. An undirected edge changes the degrees of two nodes: Δ₁ = 4. One end alone, in or
    out, has Δ₁ = 2. Replaced, it is twice as much.
    """

    totals: MeasureTotals
    max_size: int

    def __post_init__(self) -> None:
        if self.totals.scaled.coordinates != 1 or self.totals.scaled.bits or self.totals.scaled.low < 0:
            raise InvalidParameter(
                "totals",
                self.totals.scaled.measure.name,
                "a measure with one total per group, which is a whole number and never negative",
                fix="use a count, or a sum of whole numbers that are at least 0",
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        totals_sensitivity = self.totals.sensitivity
        groups = min(totals_sensitivity.l0, int(totals_sensitivity.l1))
        return Sensitivity(self.max_size + 1, groups, total=2 * groups, neighbours=totals_sensitivity.neighbours)

    def extract(self, totals: Integers) -> Integers:
        sizes = np.clip(self.totals.extract(totals)[:, 0], 0, self.max_size)
        return np.bincount(sizes, minlength=self.max_size + 1).astype(np.int64)
