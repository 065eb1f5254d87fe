"""Aggregates of values that are not summed: order statistics, distinct values and the most frequent ones.

Order statistics: medians and other quantiles, minimum and maximum.

All order statistics of one column, among the same rows, share one reading. Quantiles share one recursion; the minimum
and the maximum are approached from within, at a rank that the price decides.

The range of a summed value in the rows that count: what WHERE and FILTER leave of its declared range.

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

import datetime as dt
import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from sfumato.array_types import Floats
from sfumato.plan.aggregates.disjoint import Member, members_of
from sfumato.plan.aggregates.measures import (
    MAX_STEPS,
    AggregateRequest,
    Count,
    Estimator,
    GroupEstimate,
    Mean,
    Measure,
    MeasureSteps,
    ReadingKind,
    Sum,
    TotalEstimate,
    Width,
    conjunction,
    natural_step,
    not_null_predicate,
    power_of_two_at_least,
    value_range,
)
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Expression
from sfumato.plan.values.functions.declaring import call
from sfumato.plan.values.narrowing import limits_by_expression, narrow_expression
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact, format_exact
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


MAX_DECIMALS = 10**6
"""The resolution of probabilities: six decimals."""


@codec.serialisable("ranked-value")
@dataclass(frozen=True)
class RankedValue(Sum):
    """The value that rows are ranked by, in a moderate number of steps: a value is selected among all of them, and
    nothing is added up.
    """

    def step_for_rows(self, max_rows: int) -> Fraction:
        low, high = value_range(self.value)
        largest_value, step = max(abs(low), abs(high)), natural_step(self.value)
        if step is None:
            step = power_of_two_at_least(largest_value * max_rows / 2**24) if largest_value else Fraction(1)
        return step * power_of_two_at_least(max(largest_value * max_rows / (step * MAX_STEPS), Fraction(1)))


@dataclass(frozen=True)
class MomentsFromOrigin(Sequence[dt.date]):
    """The dates, or the times of whole seconds, from an origin on."""

    origin: dt.date

    @classmethod
    def starting_at(cls, text: str) -> MomentsFromOrigin:
        """Return those from a date or time on, in ISO form."""
        return cls(dt.datetime.fromisoformat(text) if "T" in text else dt.date.fromisoformat(text))

    @property
    def kind(self) -> Type:
        return Type.TIMESTAMP if isinstance(self.origin, dt.datetime) else Type.DATE

    def __len__(self) -> int:
        return 1 + calendar.periods_between(
            "second" if self.kind is Type.TIMESTAMP else "day", self.origin, dt.datetime.max
        )

    def __getitem__(self, count: Any) -> Any:
        return self.origin + (dt.timedelta(seconds=count) if self.kind is Type.TIMESTAMP else dt.timedelta(days=count))


@codec.serialisable("quantile")
@dataclass(frozen=True)
class Quantile:
    """The quantile at a probability, among the rows where the predicate holds: 0 is the minimum, 1 the maximum."""

    value: Expression
    probability: Fraction
    where: Expression | None = None
    listed: bool = False
    """Whether the result is one of the column's declared values, and has its type: otherwise it is a number that may
    lie between two.
    """
    reads: ClassVar[ReadingKind] = ReadingKind.RANKS
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "probability", exact(self.probability, "probability"))

    @property
    def name(self) -> str:
        return _NAMES.get(self.probability, f"{format_exact(100 * self.probability)} % quantile")

    @property
    def ranked_expression(self) -> Expression:
        """What is ranked, as it is asked for."""
        return self.value

    @property
    def reading_key(self) -> Hashable:
        return self.reads, self.value, self.where

    @property
    def result(self) -> Domain:
        return Domain(self.value.domain.type if self.listed else Type.REAL, nullable=True)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return value_range(self.value)

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        """Return the sum of the non-NULL values in steps, which they are ranked by, and their count."""
        return RankedValue(self.value, self.where), Count(conjunction(self.where, not_null_predicate(self.value)))

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        low, high = self._possible_result_range(measured[0])
        return SelectedValueEstimate(low, high, self.probability)

    def _possible_result_range(self, measured: MeasureSteps) -> tuple[Fraction, Fraction]:
        """Return the least and the greatest result: whole steps may go beyond the bounds of the values."""
        low, high = value_range(self.value)
        return max(low, measured.low * measured.step), min(high, measured.high * measured.step)


@codec.serialisable("moment-quantile")
@dataclass(frozen=True)
class TimeQuantile(Quantile):
    """A quantile of dates or times: one of the days or seconds from an origin to them, shown as the date or time.

    Days rank as their dates do, and a unit moves ranks by as many rows as it has, whatever is ranked (Smith,
    "Privacy-preserving statistical estimation with optimal convergence rates", 2011). So a date is selected by the
    same mechanism as a number, from the same sensitivity, at the same price.
    """

    origin: str = ""
    """The date or time, in ISO form, from which the value counts days or seconds."""

    @property
    def ranked_expression(self) -> Expression:
        """The date or time itself."""
        return self.value.arguments[-1] if isinstance(self.value, Call) else self.value

    @property
    def result(self) -> Domain:
        return Domain(MomentsFromOrigin.starting_at(self.origin).kind, nullable=True)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        low, high = self._possible_result_range(measured[0])
        return SelectedValueEstimate(low, high, self.probability, self.origin)


_NAMES = {Fraction(0): "least", Fraction(1, 2): "median", Fraction(1): "greatest"}


@codec.serialisable("chosen-estimator")
@dataclass(frozen=True)
class SelectedValueEstimate:
    """A selected value as its own estimate, within the bounds of all values.

    Nothing more is known of the exact quantile, unless two more values were selected around it: then it lies between
    them. The exact minimum is at most its estimate, and the exact maximum at least.
    """

    low: Fraction
    high: Fraction
    probability: Fraction
    origin: str | None = None
    """Where the value counts days or seconds: from when, in ISO form."""
    adds_up: ClassVar[bool] = False

    def __init__(self, low: Number, high: Number, probability: Number, origin: str | None = None) -> None:
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "low", exact(low, "low"))
        object.__setattr__(self, "high", exact(high, "high"))
        object.__setattr__(self, "probability", exact(probability, "probability"))

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:
        """Estimate the value and its range: a half-width of 0 means that the values selected around it hold with the
        requested confidence.
        """
        value, *ends = totals
        if self.origin is not None:
            count = np.clip(value, float(self.low), float(self.high))
            return GroupEstimate(count, count, count, labels=MomentsFromOrigin.starting_at(self.origin))
        low, high = (np.full_like(value, float(end)) for end in (self.low, self.high))
        prior_estimate = GroupEstimate(np.clip(value, low, high), low, high)
        if np.max(half_widths[0], initial=0) > 0:
            return prior_estimate
        if ends:
            below, above = np.maximum(np.minimum(*ends), low), np.minimum(np.maximum(*ends), high)
            return GroupEstimate(np.clip(prior_estimate.value, below, above), below, above)
        if self.probability == 0:
            return replace(prior_estimate, high=prior_estimate.value)
        return replace(prior_estimate, low=prior_estimate.value) if self.probability == 1 else prior_estimate


MOST_FREQUENT = 100
"""The largest k of APPROX_TOP_K."""


@codec.serialisable("distinct-values")
@dataclass(frozen=True)
class DistinctValues:
    """The number of distinct non-NULL values among the rows where the predicate holds.

    The value may be a tuple written as one text (``plan.sql.unit_aggregates``): one text stands for one tuple, so a
    unit changes as many of them as it has rows.
    """

    value: Expression
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.DIFFERENT
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 1
    name: ClassVar[str] = "distinct values"

    @property
    def reading_key(self) -> Hashable:
        return self.reads, self.value, self.where

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        """Return a count of rows: a unit changes the counts by as much as if its pairs of group and value were its
        rows.
        """
        return (Count(_with_not_null(self.value, self.where)),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:  # noqa: ARG002
        return TotalEstimate(whole=True)


@codec.serialisable("frequent-value")
@dataclass(frozen=True)
class FrequentValue:
    """The value at index ``place`` of the k most frequent ones among the rows where the predicate holds."""

    value: Expression
    k: int = 1
    place: int = 0
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.FREQUENT
    once_per_unit: ClassVar[bool] = False
    noise_count: ClassVar[int] = 1
    name: ClassVar[str] = "most frequent value"

    @property
    def reading_key(self) -> Hashable:
        return self.reads, self.value, self.where, self.k

    @property
    def result(self) -> Domain:
        return replace(self.value.domain, nullable=False)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (Count(_with_not_null(self.value, self.where)),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:  # noqa: ARG002
        return SelectedIndexEstimate()


@codec.serialisable("code-estimator")
@dataclass(frozen=True)
class SelectedIndexEstimate:
    """The index of a selected value among its candidates: it has no range."""

    adds_up: ClassVar[bool] = False

    def estimate(self, totals: Sequence[Floats], half_widths: Sequence[Width]) -> GroupEstimate:  # noqa: ARG002
        (index,) = totals
        return GroupEstimate(index, index, index)


def _with_not_null(value: Expression, where: Expression | None) -> Expression:
    is_present = call("NOT", call("IS NULL", value))
    return is_present if where is None else call("AND", where, is_present)
