"""Aggregates of the set of values of a column: the number of distinct values, and the most frequent ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    Estimator,
    Floats,
    GroupEstimate,
    Measure,
    MeasureSteps,
    ReadingKind,
    TotalEstimate,
    Width,
)
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions.declaring import call
from sfumato.policy import Domain, Type
from sfumato.privacy import codec

MOST_FREQUENT = 100
"""The largest k of APPROX_TOP_K."""


@codec.serialisable("distinct-values")
@dataclass(frozen=True)
class DistinctValues:
    """The number of distinct non-NULL values among the rows where the predicate holds.

    The value may be a tuple written as one text (``plan.sql.distinct_tuples``): one text stands for one tuple, so a
    unit changes as many of them as it has rows.
    """

    value: Expression
    where: Expression | None = None
    reads: ClassVar[ReadingKind] = ReadingKind.DIFFERENT
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 1
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

    def measures_for(self, requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        """Return a count of rows: a unit changes the counts by as much as if its pairs of group and value were its
        rows.
        """
        return (Count(_where_present(self.value, self.where)),)

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
    noises: ClassVar[int] = 1
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

    def measures_for(self, requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (Count(_where_present(self.value, self.where)),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:  # noqa: ARG002
        return SelectedIndexEstimate()


@codec.serialisable("code-estimator")
@dataclass(frozen=True)
class SelectedIndexEstimate:
    """The index of a selected value among its candidates: it has no range."""

    adds_up: ClassVar[bool] = False

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:  # noqa: ARG002
        (index,) = totals
        return GroupEstimate(index, index, index)


def _where_present(value: Expression, where: Expression | None) -> Expression:
    is_present = call("NOT", call("IS NULL", value))
    return is_present if where is None else call("AND", where, is_present)
