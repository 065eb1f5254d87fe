"""Readings are exact, as frozen values; each says how far one unit can move it.

An engine is asked for a ``PlanReading``: a bounded plan and what of it is read, in one pass. What a mechanism sees is a
view of what the engine gave: one measure's columns, or a linear transform of them. Its sensitivity is derived from what
the bounding proves, never stated by who asks.

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
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.nodes import GroupKey
from sfumato.privacy import Neighbours, Sensitivity, codec

Integers = NDArray[np.int64]
"""Whole numbers: one row for each group, one column for each coordinate."""
Places = NDArray[np.intp]

E = TypeVar("E")
_LARGEST = (1 << 62) - 1


@dataclass(frozen=True)
class PlanReading(Generic[E]):
    """A reading is what an engine reads exactly of a bounded plan; its type says what the engine gives."""

    bounded: BoundedPlan


@dataclass(frozen=True)
class GroupTotals(PlanReading[Integers]):
    """These are totals of groups that are known beforehand: a row for each group in this order, a column for each
    coordinate of each measure. A group without rows has zeros.
    """

    groups: tuple[GroupKey, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Count the groups and the coordinates."""
        return len(self.groups), sum(each.coordinates for each in self.bounded.measures)


@dataclass(frozen=True)
class Found:
    """These are the keys that rows have, and the totals of their groups, exactly. PRIVATE: which keys there are is
    private too.
    """

    holders: Integers
    """For each key, how many units have a row that counts."""
    named: Callable[[Places], list[GroupKey]]
    """The values of the keys at these places: only of those that may be shown."""
    key: Places
    """For each row of the totals, the place of its key,"""
    declared: Places
    """and that of the values of the other keys; -1 where they are not declared."""
    totals: Integers

    def of(self, keys: Places, declared: int) -> Integers:
        """Give the totals of these keys, each with all declared values of the others in order; zeros where no row
        is.
        """
        place = np.full(len(self.holders), -1, np.intp)
        place[keys] = np.arange(len(keys))
        at = place[self.key]
        meant = (at >= 0) & (self.declared >= 0)
        totals = np.zeros((len(keys) * declared, self.totals.shape[1]), np.int64)
        np.add.at(totals, at[meant] * declared + self.declared[meant], self.totals[meant])  # a row may hold zeros alone
        return totals


@dataclass(frozen=True)
class FoundTotals(PlanReading[Found]):
    """These are totals of groups that are found in the data, where the values of some keys are not declared.

    The last measure of the plan counts who holds a key: for each combination of the values of the keys that are found,
    whatever the others are, the units with a row that counts.
    """

    found: tuple[int, ...]
    """The places of the keys whose values are found."""
    declared: tuple[GroupKey, ...]
    """Every combination of what the other keys can be, in order; one empty combination where there is no other."""

    @property
    def others(self) -> tuple[int, ...]:
        """List the places of the other keys."""
        return tuple(index for index in range(len(self.bounded.plan.keys)) if index not in self.found)


class PlanView(Protocol):
    """A view says which bounded plan it is of, and what becomes of that plan's totals."""

    @property
    def bounded(self) -> BoundedPlan: ...

    def of(self, totals: Integers) -> Integers:
        """Give the exact values, from the totals of every measure of the plan."""
        ...


@dataclass(frozen=True)
class Totals:
    """These are the whole totals of one measure: for every group, its coordinates."""

    bounded: BoundedPlan
    measure: int = 0

    @property
    def scaled(self) -> ScaledMeasure:
        """Give the measure in whole steps."""
        return self.bounded.measures[self.measure]

    @property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit can change, under the neighbours that the plan was bounded for."""
        return self.scaled.sensitivity

    def of(self, totals: Integers) -> Integers:
        start = sum(each.coordinates for each in self.bounded.measures[: self.measure])
        return totals[:, start : start + self.scaled.coordinates]


class CandidateWeights(Protocol):
    """Weights are a whole-number matrix: one row for each candidate, one column for each group."""

    @property
    def shape(self) -> tuple[int, int]:
        """Count the candidates and the groups."""
        ...

    @property
    def column_spread(self) -> int:
        """Find the largest difference within a column that has a 0 added."""
        ...

    @property
    def row_spread(self) -> int:
        """Find the largest difference within a row that has a 0 added."""
        ...

    @property
    def chain(self) -> bool:
        """Tell whether the columns, and one of zeros before them, can be ordered so that none falls in any row."""
        ...

    def scores(self, counts: Integers) -> Integers:
        """Compute every candidate's score. Counts beyond what 64 bits hold are cut, which moves no two further
        apart.
        """
        ...


@codec.value("weight-matrix")
@dataclass(frozen=True)
class Matrix:
    """A matrix has weights that are written out, row by row."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows)))
        flat = [weight for row in self.rows for weight in row]
        if not flat or any(len(row) != len(self.rows[0]) for row in self.rows):
            raise InvalidParameter("weights", "rows of several lengths, or none", "rows of the same length")
        if not all(type(weight) is int and abs(weight) <= 10**12 for weight in flat):
            raise InvalidParameter("weights", "something else", "whole numbers of at most 1e12 in size")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def column_spread(self) -> int:
        return max(max(0, *column) - min(0, *column) for column in zip(*self.rows, strict=True))

    @property
    def row_spread(self) -> int:
        return max(max(0, *row) - min(0, *row) for row in self.rows)

    @cached_property
    def chain(self) -> bool:
        columns = [(0,) * len(self.rows), *sorted(zip(*self.rows, strict=True), key=sum)]
        return all(np.all(np.array(a) <= np.array(b)) for a, b in pairwise(columns))

    def scores(self, counts: Integers) -> Integers:
        matrix = np.array(self.rows, np.int64)
        most = _LARGEST // (max(1, int(np.abs(matrix).max())) * counts.size)
        return matrix @ np.clip(counts, -most, most)


@codec.value("weight-thresholds")
@dataclass(frozen=True)
class Thresholds:
    """Thresholds let candidate h score ``values[h]`` for every row of a group that reaches it: p·#{bids ≥ p}, for
    instance.

    The values rise. ``reached[g]`` says how many of the candidates, from the first on, the rows of group g reach. The
    columns are a chain by construction: who reaches more candidates scores for all that others score for.
    """

    values: tuple[int, ...]
    reached: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "reached", tuple(self.reached))
        rising = all(type(each) is int and 0 < each <= 10**12 for each in self.values)
        rising &= all(a < b for a, b in pairwise(self.values))
        if not self.values or not rising:
            raise InvalidParameter("values", "something else", "rising whole numbers from 1 to 1e12")
        if not self.reached or not all(type(each) is int and 0 <= each <= len(self.values) for each in self.reached):
            raise InvalidParameter("reached", "something else", "for each group how many values it reaches")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), len(self.reached)

    @property
    def column_spread(self) -> int:
        return self.values[-1]

    @property
    def row_spread(self) -> int:
        return self.values[-1]

    @property
    def chain(self) -> bool:
        return True

    def supports(self, counts: Integers) -> Integers:
        """Count the rows that reach each candidate."""
        exactly, most = np.zeros(len(self.values) + 1, np.int64), _LARGEST // counts.size
        np.add.at(exactly, np.array(self.reached), np.clip(counts, -most, most))
        return np.cumsum(exactly[::-1])[::-1][1:]

    def scores(self, counts: Integers) -> Integers:
        return np.array(self.values, np.int64) * np.minimum(self.supports(counts), _LARGEST // self.values[-1])


@dataclass(frozen=True)
class LinearTotals:
    """These are whole-number combinations of one total per group, to which noise is added."""

    totals: Totals
    weights: Matrix

    def __post_init__(self) -> None:
        _require_one_total(self.totals)

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit can change: see the theorem of combinations above."""
        moved, columns = self.totals.sensitivity, list(zip(*self.weights.rows, strict=True))
        return Sensitivity(
            len(self.weights.rows),
            moved.total * max(1, *(abs(weight) for column in columns for weight in column)),
            moved.total * max(1, *(sum(map(abs, column)) for column in columns)),
            moved.total**2 * max(1, *(sum(weight**2 for weight in column) for column in columns)),
            moved.neighbours,
        )

    def of(self, totals: Integers) -> Integers:
        return self.weights.scores(self.totals.of(totals)[:, 0])


def _require_one_total(totals: Totals) -> None:
    if totals.scaled.coordinates != 1:
        raise InvalidParameter("totals", totals.scaled.measure.name, "a measure with one total in a group")


@dataclass(frozen=True)
class LinearScores:
    """These are scores of candidates as a whole-number linear transform of one total per group."""

    totals: Totals
    weights: CandidateWeights

    def __post_init__(self) -> None:
        _require_one_total(self.totals)
        if isinstance(self.weights, Thresholds) and self.totals.scaled.signed:
            raise InvalidParameter("totals", self.totals.scaled.measure.name, "a measure that is never negative")

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def neighbours(self) -> Neighbours:
        """Name the relation that the spread is stated for."""
        return self.totals.sensitivity.neighbours

    @property
    def spread(self) -> Fraction:
        """Bound how much further one unit can move one score up than another: see the theorem above."""
        moved, scaled = self.totals.sensitivity, self.totals.scaled
        most = moved.total * self.weights.column_spread
        if self.neighbours is Neighbours.REPLACE and self.weights.chain and not scaled.signed:
            return min(most, scaled.added.total * self.weights.row_spread)
        return most

    def of(self, totals: Integers) -> Integers:
        return self.weights.scores(self.totals.of(totals)[:, 0])


@dataclass(frozen=True)
class Supports:
    """This reads how many rows reach each candidate, of which one number is measured: that of a candidate chosen
    before.

    Every row reaches a candidate or not, so one unit moves the number by at most its contribution, whichever candidate
    it is, and by no more when it is replaced.
    """

    totals: Totals
    weights: Thresholds

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        scaled = self.totals.scaled
        return Sensitivity(1, scaled.added.total, neighbours=scaled.sensitivity.neighbours)

    def of(self, totals: Integers) -> Integers:
        return self.weights.supports(self.totals.of(totals)[:, 0])


@dataclass(frozen=True)
class ChosenGroups:
    """This reads how many rows lie in groups that were chosen before, from noisy numbers alone, and how many in the
    others: two numbers are measured.

    Whichever groups they are, every row counts in one of the two, so a unit that is added or removed moves them by its
    contribution T in all. A unit that is replaced moves each by at most T, since what it added and what it adds lie
    between 0 and T, and both by at most 2T together.
    """

    totals: Totals

    def __post_init__(self) -> None:
        _require_one_total(self.totals)
        if self.totals.scaled.low < 0:
            raise InvalidParameter("totals", self.totals.scaled.measure.name, "a measure that is never negative")

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        scaled = self.totals.scaled
        added = Sensitivity(2, scaled.added.total, total=scaled.added.total)
        return added.for_neighbours(scaled.sensitivity.neighbours, signed=False)

    def of(self, totals: Integers) -> Integers:
        """Give the totals of all groups, of which ``split`` makes the two numbers."""
        counts = self.totals.of(totals)[:, 0]
        return np.clip(counts, 0, _LARGEST // counts.size)  # cut to what 64 bits hold in sum

    def split(self, counts: Integers, chosen: NDArray[np.bool_]) -> Integers:
        """Add up the groups that were chosen, and the others."""
        return np.array([counts[chosen].sum(), counts[~chosen].sum()], np.int64)


@dataclass(frozen=True)
class Holders:
    """This reads how many units hold each key that is found, which is what decides whether the key may be shown.

    One unit is in at most g groups, crossed with declared keys or not, so it holds at most g keys: counts of distinct
    units move by 1 in at most g of them. Where the rows of one unit are counted, they move by at most g in all.
    """

    bounded: BoundedPlan

    @property
    def _scaled(self) -> ScaledMeasure:
        return self.bounded.measures[-1]

    @property
    def most(self) -> int:
        """Bound how many keys one unit can hold; or how many rows, where those are counted."""
        return int(self._scaled.added.total)

    @property
    def weighted(self) -> bool:
        """Tell whether one unit can count more than once in one key."""
        return self._scaled.added.per_group > 1

    @property
    def neighbours(self) -> Neighbours:
        return self._scaled.sensitivity.neighbours

    def of(self, totals: Integers) -> Integers:
        """Give the counts as they were found, one for each key."""
        return totals


@dataclass(frozen=True)
class GroupSizes:
    """This reads how many of the groups have each total, from 0 to ``most`` or more: where edges are counted by their
    nodes, the histogram of degrees.

    *Claim.* A unit that changes the totals of k groups moves the histogram by at most 2k in all and by at most k in one
    place. *Proof.* A group is in one place of the histogram. When its total changes it leaves one place and enters
    another, which moves two numbers by one each; a group whose total stays moves none. ∎ Totals are whole, so k is at
    most the sum of their changes. An undirected edge changes the degrees of two nodes: Δ₁ = 4. One end alone, in or
    out, has Δ₁ = 2. Replaced, it is twice as much.
    """

    totals: Totals
    most: int

    def __post_init__(self) -> None:
        if self.totals.scaled.coordinates != 1 or self.totals.scaled.bits or self.totals.scaled.low < 0:
            raise InvalidParameter("totals", self.totals.scaled.measure.name, "whole counts of every group")

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        moved = self.totals.sensitivity
        groups = min(moved.l0, int(moved.l1))
        return Sensitivity(self.most + 1, groups, total=2 * groups, neighbours=moved.neighbours)

    def of(self, totals: Integers) -> Integers:
        sizes = np.clip(self.totals.of(totals)[:, 0], 0, self.most)
        return np.bincount(sizes, minlength=self.most + 1).astype(np.int64)
