"""Totals of several questions over the same rows are read by one statement, where that gives the same numbers.

A question without groups asks for totals of the rows of a source for which a test holds. Its WHERE becomes the FILTER
of each of its measures, and questions over the same source then differ in their measures alone.

Theorem. Where every row counts as it is, or a unit's part is clipped in one group, the totals of a measure under
WHERE w are those of the same measure with FILTER (WHERE w) over all rows, number for number. For a row adds to a
measure the same in both, or nothing where the test does not hold; and what is clipped is the unit's total of that one
measure, to a limit that its plan states (``bounding``), whatever other rows the unit has and whatever else is measured.
So what one unit can change is what each question's own plan proves. ∎

It is false where rows are reweighted (a weight depends on how many rows of the unit pass the WHERE) or sampled (a row
that does not pass would take the place of one that does); those are read by themselves. So is what is computed from
columns whose range a WHERE has narrowed: outside of that range nothing is proven of it.

Series of totals, one for each period, are read through a whole-number matrix B: what is measured is B·t.

The totals of several series stand one after the other, and B is applied to each. A unit changes them by v, with
|v_j| ≤ c for each total and Σ|v_j| ≤ T, over all series together (``bounding``). Let X = BᵀB, which is exact, and
x_i(c, T) the largest Σ_j |X_ij|·u_j with 0 ≤ u_j ≤ c and Σu_j ≤ T: c for the ⌊T/c⌋ largest numbers of row i, and the
rest of T for the next.

Theorem. (1) ‖B·v‖₁ ≤ T·max_j ‖B_j‖₁, with the columns B_j of B, and |(B·v)_i| ≤ T·max|B_ij|.
(2) ‖B·v‖₂² ≤ T·max_i x_i(c, T).
(3) Where a unit is replaced by another, the squared length of the change of B·t is at most four times the bound of (2);
and at most twice where no contribution is negative, and no number of X.
Proof. (1) is convexity (``readings``, combinations). (2) One series: ‖B·v‖² = Σ_i v_i·(Xv)_i ≤ Σ_i|v_i|·Σ_j|X_ij||v_j|
≤ T·max_i x_i(c, T). Several: series s with T_s of T has at most T_s·max_i x_i(c, T_s) ≤ T_s·max_i x_i(c, T), and T_s
add up to at most T.
(3) The change is v − v′, both within (2), so its length is at most twice as long. With v, v′, X ≥ 0 the squares obey
‖B(v − v′)‖² = ‖Bv‖² + ‖Bv′‖² − 2·Σ v_i·X_ij·v′_j ≤ ‖Bv‖² + ‖Bv′‖². ∎

(2) equals T²·max_j ‖B_j‖² where a unit may have all its rows in one period (c = T), and less where it may not: columns
of different periods are not parallel. Totals are held within what keeps every number below 2^62; that moves no total
by more than the unit does, nor in another direction, so the theorem holds for what is left of v.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Measure
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import Aggregate, Filter, Relation
from sfumato.plan.readings.total_readings import GroupTotals, Integers, Totals
from sfumato.plan.values.expressions import Expression
from sfumato.privacy import Neighbours, Sensitivity

_PLAIN = (Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2)
MOST_MEASURES = 1_000
"""In one statement."""


@dataclass(frozen=True)
class CombinedReading:
    """This is one reading that answers several."""

    reading: GroupTotals
    parts: tuple[tuple[GroupTotals, slice], ...]
    """Each of them, with the columns that are its own."""


def combined(readings: Sequence[GroupTotals]) -> tuple[CombinedReading, ...]:
    """Put together what one statement can read; what it cannot stands alone."""
    together: dict[object, list[GroupTotals]] = {}
    for number, each in enumerate(dict.fromkeys(readings)):
        together.setdefault(_source(each.bounded) or number, []).append(each)
    found = []
    for group in together.values():
        found += [_combined(chunk) for chunk in _chunks(group)]
    return tuple(found)


def _chunks(readings: Sequence[GroupTotals]) -> list[list[GroupTotals]]:
    """Cut a list where one statement would measure too much."""
    chunks: list[list[GroupTotals]] = [[]]
    for each in readings:
        if sum(len(one.bounded.measures) for one in chunks[-1]) + len(each.bounded.measures) > MOST_MEASURES:
            chunks.append([])
        chunks[-1].append(each)
    return [each for each in chunks if each]


def _combined(readings: Sequence[GroupTotals]) -> CombinedReading:
    if len(readings) == 1:
        (only,) = readings
        return CombinedReading(only, ((only, slice(0, only.shape[1])),))
    first = readings[0]
    measures = [each for one in readings for each in _filtered(one.bounded)]
    bound = replace(first.bounded.bound, input=_unfiltered(first.bounded.bound.input))
    plan = Aggregate(bound, (), tuple(each.measure for each in measures))
    parts, start = [], 0
    for each in readings:
        parts.append((each, slice(start, start + each.shape[1])))
        start += each.shape[1]
    return CombinedReading(GroupTotals(BoundedPlan(plan, tuple(measures)), first.groups), tuple(parts))


def _source(bounded: BoundedPlan) -> tuple[Relation, Strategy, Limits, tuple[bool, ...]] | None:
    """Give what is equal for all that one statement can read; None for what is read by itself."""
    tested = isinstance(bounded.bound.input, Filter)
    plain = bounded.strategy in _PLAIN and not bounded.plan.keys and not bounded.finds
    if not plain or any(each.measure.value is not None or (tested and each.measure.where) for each in bounded.measures):
        return None
    units = tuple({each.measure.once_per_unit for each in bounded.measures})  # counted apart from rows, which is faster
    return _unfiltered(bounded.bound.input), bounded.strategy, bounded.limits, units


def _unfiltered(relation: Relation) -> Relation:
    return relation.input if isinstance(relation, Filter) else relation


def _filtered(bounded: BoundedPlan) -> tuple[ScaledMeasure, ...]:
    """Move the WHERE of a question into its measures."""
    below = bounded.bound.input
    if not isinstance(below, Filter):
        return bounded.measures
    return tuple(replace(each, measure=_where(each.measure, below.predicate)) for each in bounded.measures)


def _where(measure: Measure, test: Expression) -> Measure:
    return replace(measure, where=test)  # type: ignore[type-var]


_LARGEST = (1 << 62) - 1


@dataclass(frozen=True, eq=False)
class FactoredTotals:
    """These are the totals of series of periods, each multiplied by a whole-number matrix; noise is added to them."""

    totals: Totals
    weights: Integers
    """One row for each number that is measured of a series, one column for each of its periods."""
    series: int = 1

    def __post_init__(self) -> None:
        if self.totals.scaled.coordinates != 1:
            raise InvalidParameter("totals", self.totals.scaled.measure.name, "a measure with one total in a group")
        if self.weights.ndim != 2 or not self.weights.size or np.abs(self.weights).max() >= 1 << 20:
            raise InvalidParameter("weights", "something else", "a matrix of whole numbers below 2^20 in size")

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit can change: see the theorem above."""
        scaled, sizes = self.totals.scaled, np.abs(self.weights)
        moved, added = scaled.sensitivity, scaled.added
        replaced = moved.neighbours is Neighbours.REPLACE
        fewer = replaced and not scaled.signed and bool((self._products >= 0).all())
        most = (1 if not replaced else 2 if fewer else 4) * self._squares(added)
        numbers = len(self.weights) * self.series
        squares = math.floor(min(most, self._squares(moved)))  # of whole numbers, as are the roots below
        largest: Fraction = min(moved.total * int(sizes.max()), Fraction(math.isqrt(squares)))
        total: Fraction = min(moved.total * int(sizes.sum(axis=0).max()), Fraction(math.isqrt(numbers * squares)))
        return Sensitivity(numbers, largest, total, squares, moved.neighbours)

    @cached_property
    def _products(self) -> Integers:
        """Compute BᵀB: doubles hold every number on the way exactly, since all are below 2^53."""
        weights = self.weights.astype(np.float64)
        return (weights.T @ weights).astype(np.int64)

    def _squares(self, change: Sensitivity) -> Fraction:
        """Compute T·max_i x_i(c, T)."""
        if not change.total:
            return Fraction(0)
        periods = self.weights.shape[1]
        full, rest = divmod(change.total, change.per_group)
        count = min(int(full), periods)
        largest = -np.sort(-np.abs(self._products), axis=1)
        whole = largest[:, :count].sum(axis=1)
        following = largest[:, count] if count < periods else np.zeros_like(whole)
        return change.total * max(
            change.per_group * int(a) + rest * int(b)
            for a, b in {*zip(whole.tolist(), following.tolist(), strict=True)}
        )

    def of(self, totals: Integers) -> Integers:
        """Give what is measured of every series, one after the other."""
        most = _LARGEST // int(np.abs(self.weights).sum(axis=1).max())
        held = np.clip(self.totals.of(totals)[:, 0], -most, most)
        return (held.reshape(self.series, self.weights.shape[1]) @ self.weights.T).reshape(-1)
