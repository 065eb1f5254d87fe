"""The range of a summed value in the rows that count: what WHERE and FILTER leave of its declared range.

A unit's rows move a sum by as much as a value may be large, and a mean by as much as values may differ. So
``SUM(income) … WHERE income BETWEEN 0 AND 20000`` needs noise for 20,000, whatever larger incomes the policy allows.

*Claim.* In the rows that meet the conditions of a plan and the predicate of a measure, its value is NULL or lies in the
range that ``narrow_range`` writes into the measure. That is the claim of ``narrowing`` for the columns, and for what is
computed from them the functions' own rules; rounding the ends outward only widens the range. ∎

*Theorem.* A measure with a narrowed range has the sensitivity that ``bounding`` proves for that range. Engines clamp
what a row adds to the range of its measure, whatever the row holds (``unit_lowering.steps``), so the proof does not
depend on the claim: only the numbers do. ∎

The totals of variances and pairs of columns have one origin, the middle of the declared range, and keep that range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from sfumato.plan.aggregates.disjoint import Member, members_of
from sfumato.plan.aggregates.measures import Count, Mean, Measure, Sum, natural_step, value_range
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.narrowing import limits_by_expression, narrow_expression
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

Range = tuple[Fraction, Fraction]
_NO_RANGE = Fraction(0), Fraction(0)
_DIGITS = 9
"""The digits of the declared range that are kept: x > 0 leaves the doubles above 0, which is written as 0."""


@codec.serialisable("narrowed-sum")
@dataclass(frozen=True)
class NarrowedSum(Sum):
    """A sum of values that are clamped to less than their declared range."""

    within: Range = _NO_RANGE

    @property
    def clamp_range(self) -> Range:
        return self.within


@codec.serialisable("narrowed-mean")
@dataclass(frozen=True)
class NarrowedMean(Mean):
    """A mean of values that are clamped to less than their declared range."""

    within: Range = _NO_RANGE

    @property
    def clamp_range(self) -> Range:
        return self.within


def narrow_range(
    measure: Measure,
    conditions: Sequence[Expression],
    fixed: Collection[Measure] = (),
    summed: Collection[Measure] = (),
) -> Measure:
    """Return the measure with the range of its values in rows that meet these conditions; measures taken together get
    the hull of theirs. Those in ``fixed`` keep their declared range.

    From a mean in ``summed`` a sum is made too, low·n + Σ(x − low): its range reaches to 0 as far as the declared one
    does, for otherwise low times the noise of n would make the sum worse.
    """
    members = members_of(measure)
    if not all(type(member) in (Count, Sum, Mean) and member not in fixed for member in members):
        return measure
    summing = [member for member in members if isinstance(member, (Sum, Mean))]
    ranges = [_range_under_conditions(member, conditions) for member in summing]
    if not ranges:
        return measure
    hull, declared = _interval_hull(ranges), value_range(summing[0].value)
    if any(member in summed for member in members):
        hull = min(hull[0], max(declared[0], Fraction(0))), max(hull[1], min(declared[1], Fraction(0)))
    if hull == declared:
        return measure
    narrowed = tuple(_with_clamp_range(member, hull) for member in members)
    return replace(measure, members=cast("tuple[Member, ...]", narrowed)) if len(narrowed) > 1 else narrowed[0]  # type: ignore[type-var]


def _with_clamp_range(member: Measure, within: Range) -> Measure:
    if not isinstance(member, (Sum, Mean)):
        return member
    return (NarrowedSum if isinstance(member, Sum) else NarrowedMean)(member.value, member.where, within)


def with_declared_range(measure: Measure) -> Measure:
    """Return the measure that was requested, whatever range of its values is summed."""
    if not isinstance(measure, (NarrowedSum, NarrowedMean)):
        return measure
    return (Sum if isinstance(measure, Sum) else Mean)(measure.value, measure.where)


def _range_under_conditions(measure: Sum | Mean, conditions: Sequence[Expression]) -> Range:
    """Return the range of a measure's value in the rows that count; its whole range where no row can count, or only
    one value.
    """
    declared = value_range(measure.value)
    tests = conditions if measure.where is None else (*conditions, measure.where)
    value = narrow_expression(measure.value, limits_by_expression(tests))
    if value is None or value.domain.range is None:
        return declared
    low, high = _rounded_outward(value_range(value), natural_step(measure.value) or _decimal_unit(declared))
    low, high = max(low, declared[0]), min(high, declared[1])
    return (low, high) if low < high else declared


def _decimal_unit(declared: Range) -> Fraction:
    low, high = declared
    return Fraction(10) ** (math.floor(math.log10(high - low)) - _DIGITS) if low < high else Fraction(1)


def _rounded_outward(ends: Range, unit: Fraction) -> Range:
    low, high = ends
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _interval_hull(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)
