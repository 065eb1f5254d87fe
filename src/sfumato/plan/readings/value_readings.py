"""These readings are of pairs of a group and a value, where the value may be of any type.

Rows are sampled as groups are: a unit has at most g groups, c rows in a group and T in all, whatever their values.

*Different values.* For each unit, a pair of group and value counts once, and the pairs are what is sampled: at most c
in a group, T in all. *Claim.* Adding a unit changes the number of different values of each group by at most as many as
it has pairs there. *Proof.* The values of a group are the union over units of what is kept of theirs, and what is kept
of a unit depends on its own rows and the key alone. So a unit that comes adds at most its own pairs to the union, and
one that leaves takes away at most those. ∎ So it has the sensitivity of a count of rows: Δ∞ = c and Δ₁ = T, and not 1,
which is for counting units. All these changes have one sign, so a unit that is replaced changes each number by at most
c too. Where a value can only be one of v, no more than v pairs of a unit are kept in a group: c is at most v.

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
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupTotals, Integers, PlanReading
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Neighbours, Sensitivity


@dataclass(frozen=True)
class DifferentValues(PlanReading[Integers]):
    """This counts the different values of each group, in one column."""

    value: Expression
    groups: tuple[GroupKey, ...]


@dataclass(frozen=True)
class ValueTable(PlanReading[Integers]):
    """This counts the rows of each group that have each of some public values: a row for each group, a column for
    each value.
    """

    value: Expression
    groups: tuple[GroupKey, ...]
    values: tuple[Value, ...]

    @property
    def cells(self) -> GroupTotals:
        """Give the same as totals of groups: each pair of a group and a value is one."""
        keyed = replace(self.bounded, plan=with_value(self.bounded, self.value).plan)
        pairs = itertools.product(self.groups, self.values)
        return GroupTotals(keyed, tuple((*group, value) for group, value in pairs))


def with_value(bounded: BoundedPlan, value: Expression) -> BoundedPlan:
    """Give the plan with the value as one more key, the last."""
    return replace(bounded, plan=replace(bounded.plan, keys=(*bounded.plan.keys, value)))


def pair_limits(limits: Limits, value: Expression) -> Limits:
    """Limit pairs of a unit in a group by how many there can be: the sample keeps no more, whatever the data hold."""
    most = _most_values(value.domain)
    return limits if most is None else replace(limits, rows_per_group=min(limits.rows_per_group, most))


def _most_values(domain: Domain) -> int | None:
    """Count the values that there can be, where they are listed or are whole numbers or days within bounds."""
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
class Differences:
    """These are the numbers of different values, as noise is added to them."""

    reading: DifferentValues

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def sensitivity(self) -> Sensitivity:
        return self.bounded.measures[0].sensitivity

    def of(self, exact: Integers) -> Integers:
        return exact


@dataclass(frozen=True)
class Frequencies:
    """These are the frequencies of values in each group, by which the most frequent are chosen."""

    reading: ValueTable

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def neighbours(self) -> Neighbours:
        return self.bounded.measures[0].sensitivity.neighbours

    @property
    def in_all(self) -> int:
        """Count the most rows of one unit in all groups together."""
        return int(self.bounded.measures[0].added.total)

    def of(self, exact: Integers) -> Integers:
        return exact


@dataclass(frozen=True)
class SteppedTotal:
    """This is the one total of a plan without groups, in whole steps of a grid that is fixed beforehand."""

    bounded: BoundedPlan
    grid: Fraction

    def __post_init__(self) -> None:
        if self.bounded.plan.keys or len(self.bounded.measures) != 1 or self.scaled.coordinates != 1:
            raise InvalidParameter("bounded", "something else", "a plan with one total and no groups")

    @property
    def scaled(self) -> ScaledMeasure:
        return self.bounded.measures[0]

    @property
    def neighbours(self) -> Neighbours:
        return self.scaled.sensitivity.neighbours

    @property
    def most(self) -> int:
        """Bound how many steps one unit moves it."""
        return math.ceil(self.scaled.sensitivity.linf * self._steps)

    @property
    def rises(self) -> bool:
        """Tell whether it only grows when a unit is added: no row takes anything away."""
        return all(each.low >= 0 for each in self.scaled.contributions)

    @property
    def rounding(self) -> Fraction:
        """Bound what rounding down to steps may take away, beside how far the total itself was rounded. A total of
        whole steps that is cut in one group stays one.
        """
        whole_steps = self.scaled.bits < 0 or self.bounded.strategy is not Strategy.REWEIGHT
        least = max(self.scaled.step, self.scaled.unit_value) if whole_steps else self.scaled.unit_value
        return self.scaled.rounding + (0 if (least / self.grid).denominator == 1 else self.grid)

    def of(self, totals: Integers) -> Integers:
        """Give the number of whole steps, rounded down; one beyond ±2^62 is cut there, which moves no two further
        apart.
        """
        steps = int(totals[0, 0]) * self._steps.numerator // self._steps.denominator
        return np.full((1, 1), max(-LARGEST_INTEGER, min(LARGEST_INTEGER, steps)), np.int64)

    @property
    def _steps(self) -> Fraction:
        """Give the steps that one whole number of the totals is worth."""
        return self.scaled.unit_value / self.grid
