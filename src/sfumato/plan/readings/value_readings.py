"""Readings of pairs of a group and a value, where the value may be of any type.

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
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupTotals, Integers, PlanReading, ReadMeasure
from sfumato.plan.values.expressions import Expression, columns
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class DistinctValueReading(PlanReading[Integers]):
    """The number of distinct values of one column in each group."""

    value: Expression
    groups: tuple[GroupKey, ...]

    @property
    def read_measures(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.DISTINCT,))


@dataclass(frozen=True)
class MatchedValueReading(PlanReading[Integers]):
    """The number of distinct values of one column in each group that matching keeps; pairs of other groups are not
    matched.
    """

    value: Expression
    groups: tuple[GroupKey, ...]

    @property
    def read_measures(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.DISTINCT,))


_MATCHED_ROWS = 1 << 20
"""How many pairs of a unit and a value are matched at a time."""


def match_values_to_units(units: Integers, pairs: Integers, max_values: int) -> NDArray[np.intp]:
    """Return the rows whose pair is kept, of rows that each are a pair of a unit; once sorted, in linear time.

    Units and pairs are numbered from 0 in an order of their own, with gaps or without.
    """
    order = np.lexsort((pairs, units))
    is_kept = bytearray(int(pairs.max(initial=-1)) + 1)
    kept: list[int] = []
    current, remaining = -1, 0
    for start in range(0, len(order), _MATCHED_ROWS):
        rows = order[start : start + _MATCHED_ROWS]
        for row, unit, pair in zip(rows.tolist(), units[rows].tolist(), pairs[rows].tolist(), strict=True):
            if unit != current:
                current, remaining = unit, max_values
            if remaining and not is_kept[pair]:
                is_kept[pair], remaining = 1, remaining - 1
                kept.append(row)
    return np.array(kept, np.intp)


@dataclass(frozen=True)
class ValueTable(PlanReading[Integers]):
    """The number of rows of each group with each of some public values: a row for each group, a column for each
    value.
    """

    value: Expression
    groups: tuple[GroupKey, ...]
    values: tuple[Value, ...]

    @property
    def read_measures(self) -> frozenset[ReadMeasure]:
        return frozenset((ReadMeasure.FREQUENT,))

    @property
    def cells(self) -> GroupTotals:
        """The same reading as totals, in which each pair of a group and a value is a group."""
        keyed_plan = replace(self.bounded, plan=with_value_as_key(self.bounded, self.value).plan)
        pairs = itertools.product(self.groups, self.values)
        return GroupTotals(keyed_plan, tuple((*group, value) for group, value in pairs))


def with_value_as_key(bounded: BoundedPlan, value: Expression) -> BoundedPlan:
    """Return the plan with the value as its last key."""
    return replace(bounded, plan=replace(bounded.plan, keys=(*bounded.plan.keys, value)))


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
            raise InvalidParameter("bounded", ValueWords("another plan"), "a plan with one total and no groups")

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
