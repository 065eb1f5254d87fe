"""These are asked of the values that a column has: how many different ones there are, and which are most frequent."""

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
    Reads,
    TotalEstimate,
    Width,
)
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions.declaring import call
from sfumato.policy import Domain, Type
from sfumato.privacy import codec

MOST_FREQUENT = 100
"""Of the most frequent values that are asked for together."""


@codec.value("distinct-values")
@dataclass(frozen=True)
class DistinctValues:
    """This counts the different values among the rows where the predicate holds; what is missing is no value."""

    value: Expression
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.DIFFERENT
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 1
    name: ClassVar[str] = "different values"

    @property
    def together(self) -> Hashable:
        return self.reads, self.value, self.where

    @property
    def result(self) -> Domain:
        return Domain(Type.INTEGER)

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        """A unit changes as many of the counts, by as much, as if its pairs of group and value were its rows."""
        return (Count(_present(self.value, self.where)),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:  # noqa: ARG002
        return TotalEstimate(whole=True)


@codec.value("frequent-value")
@dataclass(frozen=True)
class FrequentValue:
    """This is one of the k most frequent values among the rows where the predicate holds: the one at this place, from
    0 on.
    """

    value: Expression
    k: int = 1
    place: int = 0
    where: Expression | None = None
    reads: ClassVar[Reads] = Reads.FREQUENT
    once_per_unit: ClassVar[bool] = False
    noises: ClassVar[int] = 1
    name: ClassVar[str] = "most frequent value"

    @property
    def together(self) -> Hashable:
        return self.reads, self.value, self.where, self.k

    @property
    def result(self) -> Domain:
        return replace(self.value.domain, nullable=False)

    @property
    def possible(self) -> tuple[Fraction, Fraction] | None:
        return None

    def measured(self, asked: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (Count(_present(self.value, self.where)),)

    def estimator(self, *measured: MeasureSteps) -> Estimator:  # noqa: ARG002
        return Code()


@codec.value("code-estimator")
@dataclass(frozen=True)
class Code:
    """This gives the place of a value among the candidates it was chosen from: there is no range around it."""

    adds_up: ClassVar[bool] = False

    def estimate(self, totals: Sequence[Floats], widths: Sequence[Width]) -> GroupEstimate:  # noqa: ARG002
        (place,) = totals
        return GroupEstimate(place, place, place)


def _present(value: Expression, where: Expression | None) -> Expression:
    there = call("NOT", call("IS NULL", value))
    return there if where is None else call("AND", where, there)
