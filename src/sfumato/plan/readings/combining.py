"""Combine the totals of several queries over the same rows into one statement, where that gives the same numbers.

An ungrouped query computes totals of the rows of a source that meet a predicate. Its WHERE becomes the FILTER of each
of its measures, and queries over the same source then differ in their measures alone.

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
(3) Where a unit is replaced by another, the squared length of the change of B·t is at most the bound of (2) for what
bounds v − v′; and at most twice that for one unit where no contribution is negative, and no number of X.
Proof. (1) is convexity (``readings``, combinations). (2) One series: ‖B·v‖² = Σ_i v_i·(Xv)_i ≤ Σ_i|v_i|·Σ_j|X_ij||v_j|
≤ T·max_i x_i(c, T). Several: series s with T_s of T has at most T_s·max_i x_i(c, T_s) ≤ T_s·max_i x_i(c, T), and T_s
add up to at most T.
(3) The change is v − v′, of which (2) holds as it does of v. With v, v′, X ≥ 0 the squares obey
‖B(v − v′)‖² = ‖Bv‖² + ‖Bv′‖² − 2·Σ v_i·X_ij·v′_j ≤ ‖Bv‖² + ‖Bv′‖². ∎

(2) equals T²·max_j ‖B_j‖² where a unit may have all its rows in one period (c = T), and less where it may not: columns
of different periods are not parallel. Totals are held within what keeps every number below 2^62; that moves no total
by more than the unit does, nor in another direction, so the theorem holds for what is left of v.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.aggregates.measures import Measure
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate, Filter, Relation
from sfumato.plan.readings.total_readings import GroupTotals, MeasureTotals
from sfumato.plan.values.expressions import Expression
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass

_PLAIN = (Strategy.WHOLE, Strategy.CLIP_L1, Strategy.CLIP_L2)
MAX_MEASURES = 1_000
"""The most measures in one statement."""


@dataclass(frozen=True)
class CombinedReading:
    """One reading that answers several."""

    reading: GroupTotals
    parts: tuple[tuple[GroupTotals, slice], ...]
    """The readings that it answers, each with the columns of its result."""


def combine_readings(readings: Sequence[GroupTotals]) -> tuple[CombinedReading, ...]:
    """Combine the readings that one statement can execute; the others stay alone."""
    readings_by_source: dict[object, list[GroupTotals]] = {}
    for number, reading in enumerate(dict.fromkeys(readings)):
        readings_by_source.setdefault(_combination_key(reading.bounded) or number, []).append(reading)
    combined_readings = []
    for group in readings_by_source.values():
        combined_readings += [_combine(chunk) for chunk in _split_by_size(group)]
    return tuple(combined_readings)


def _split_by_size(readings: Sequence[GroupTotals]) -> list[list[GroupTotals]]:
    """Split readings so that no statement has more than ``MAX_MEASURES`` measures."""
    chunks: list[list[GroupTotals]] = [[]]
    for reading in readings:
        if sum(len(member.bounded.measures) for member in chunks[-1]) + len(reading.bounded.measures) > MAX_MEASURES:
            chunks.append([])
        chunks[-1].append(reading)
    return [chunk for chunk in chunks if chunk]


def _combine(readings: Sequence[GroupTotals]) -> CombinedReading:
    if len(readings) == 1:
        (single,) = readings
        return CombinedReading(single, ((single, slice(0, single.shape[1])),))
    first = readings[0]
    measures = [scaled for reading in readings for scaled in _measures_with_filter(reading.bounded)]
    bound = replace(first.bounded.bounding_node, input=_without_filter(first.bounded.bounding_node.input))
    plan = Aggregate(bound, (), tuple(scaled.measure for scaled in measures))
    parts, first_column = [], 0
    for reading in readings:
        parts.append((reading, slice(first_column, first_column + reading.shape[1])))
        first_column += reading.shape[1]
    return CombinedReading(GroupTotals(BoundedPlan(plan, tuple(measures)), first.groups), tuple(parts))


class CombinationKey(NamedTuple):
    """What two readings share if one statement can execute both."""

    relation: Relation
    strategy: Strategy
    limits: ContributionLimits
    counts_units: tuple[bool, ...]
    """Whether measures count units, which is done apart from rows: it is faster."""


def _combination_key(bounded_plan: BoundedPlan) -> CombinationKey | None:
    """Return a key that is equal for all readings that one statement can execute; None for a reading that stays
    alone.
    """
    has_filter = isinstance(bounded_plan.bounding_node.input, Filter)
    is_combinable = bounded_plan.strategy in _PLAIN and not bounded_plan.plan.keys and not bounded_plan.discovers_groups
    if not is_combinable or any(
        scaled.measure.value is not None or scaled.coordinates > 1 or (has_filter and scaled.measure.where)
        for scaled in bounded_plan.measures
    ):
        return None
    counts_units = tuple({scaled.measure.once_per_unit for scaled in bounded_plan.measures})
    return CombinationKey(
        _without_filter(bounded_plan.bounding_node.input), bounded_plan.strategy, bounded_plan.limits, counts_units
    )


def _without_filter(relation: Relation) -> Relation:
    return relation.input if isinstance(relation, Filter) else relation


def _measures_with_filter(bounded_plan: BoundedPlan) -> tuple[ScaledMeasure, ...]:
    """Move the WHERE of a query into its measures."""
    source = bounded_plan.bounding_node.input
    if not isinstance(source, Filter):
        return bounded_plan.measures
    return tuple(
        replace(scaled, measure=_with_predicate(scaled.measure, source.predicate)) for scaled in bounded_plan.measures
    )


def _with_predicate(measure: Measure, predicate: Expression) -> Measure:
    return replace(measure, where=predicate)  # type: ignore[type-var]


_LARGEST = (1 << 62) - 1


@dataclass(frozen=True, eq=False)
class FactoredTotals:
    """The totals of series of periods, each multiplied by an integer matrix; noise is added to the products."""

    totals: MeasureTotals
    weights: Integers
    """One row for each measured number of a series, one column for each of its periods."""
    series: int = 1

    def __post_init__(self) -> None:
        if self.totals.scaled.coordinates != 1:
            raise InvalidParameter(
                "totals",
                self.totals.scaled.measure.name,
                "a measure with one total per group",
                fix="use a measure of one total, such as a count or a sum",
            )
        if self.weights.ndim != 2 or not self.weights.size:
            raise InvalidParameter(
                "weights",
                ValueWords(f"an array of shape {self.weights.shape}"),
                "a matrix with at least one row and one column",
                fix="give one row for each measured number of a series, and one column for each of its periods",
            )
        largest = int(np.abs(self.weights).max())
        if largest >= 1 << 20:
            raise InvalidParameter(
                "weights",
                ValueWords(f"a weight of {largest:,} in absolute value"),
                "a matrix of whole numbers below 2^20 in absolute value",
                fix="divide all weights by a common factor, and round them",
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.totals.bounded

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change: see the theorem above."""
        scaled, magnitudes = self.totals.scaled, np.abs(self.weights)
        totals_sensitivity, added = scaled.sensitivity, scaled.add_remove_sensitivity
        squares_bound = self._squared_norm_bound(totals_sensitivity)
        is_nonnegative = not scaled.signed and bool((self._gram_matrix >= 0).all())
        if is_nonnegative and totals_sensitivity.neighbours is Neighbours.REPLACE:
            squares_bound = min(squares_bound, 2 * self._squared_norm_bound(added))
        coordinates = len(self.weights) * self.series
        squares = math.floor(squares_bound)  # of whole numbers, as are the roots below
        largest: Fraction = min(totals_sensitivity.total * int(magnitudes.max()), Fraction(math.isqrt(squares)))
        total: Fraction = min(
            totals_sensitivity.total * int(magnitudes.sum(axis=0).max()), Fraction(math.isqrt(coordinates * squares))
        )
        return Sensitivity(coordinates, largest, total, squares, totals_sensitivity.neighbours)

    @cached_property
    def _gram_matrix(self) -> Integers:
        """BᵀB: doubles hold every number on the way exactly, since all are below 2^53."""
        weights = self.weights.astype(np.float64)
        return (weights.T @ weights).astype(np.int64)

    def _squared_norm_bound(self, sensitivity: Sensitivity) -> Fraction:
        """Return T·max_i x_i(c, T)."""
        if not sensitivity.total:
            return Fraction(0)
        periods = self.weights.shape[1]
        full_periods, remainder = divmod(sensitivity.total, sensitivity.per_group)
        count = min(int(full_periods), periods)
        largest = -np.sort(-np.abs(self._gram_matrix), axis=1)
        full_sum = largest[:, :count].sum(axis=1)
        next_largest = largest[:, count] if count < periods else np.zeros_like(full_sum)
        return sensitivity.total * max(
            sensitivity.per_group * int(full_weight) + remainder * int(next_weight)
            for full_weight, next_weight in {*zip(full_sum.tolist(), next_largest.tolist(), strict=True)}
        )

    def extract(self, totals: Integers) -> Integers:
        """Return the measured numbers of every series, one after the other."""
        max_total = _LARGEST // int(np.abs(self.weights).sum(axis=1).max())
        clamped = np.clip(self.totals.extract(totals)[:, 0], -max_total, max_total)
        return (clamped.reshape(self.series, self.weights.shape[1]) @ self.weights.T).reshape(-1)
