"""Assign the requested aggregates to measures, so that equal measures are taken once and shared.

A *part* of a query is what one reading answers: all totals together, and the ranks of one column on their own. Each
requested aggregate is computed from some measures of one part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import cast

from sfumato.caching import cached_property, once_per_instance
from sfumato.plan.aggregates.disjoint import canonical_request, members_of, merge_disjoint_measures
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Measure, ReadingKind, Sum
from sfumato.plan.aggregates.value_measures import narrow_range
from sfumato.plan.keys import conditions_met_by_rows
from sfumato.plan.nodes import Aggregate
from sfumato.plan.values.expressions import Expression
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class ReadingPart:
    """The measures that are taken in one reading of the rows."""

    reads: ReadingKind
    plan: Aggregate
    """The rows and keys of the query, with the measures of this part."""
    requests: tuple[AggregateRequest, ...]
    """The aggregates computed from it."""

    replacements: Mapping[Measure, tuple[Measure, ...]] = field(default_factory=dict)
    """The members of disjoint measures that a requested measure is the sum of, where it is not taken itself."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        return cast("tuple[Measure, ...]", self.plan.measures)

    @property
    def members(self) -> tuple[Measure, ...]:
        """The measures that results are computed from: those taken alone, and those taken together."""
        return tuple(member for measure in self.measures for member in members_of(measure))


@dataclass(frozen=True)
class MeasuredRequest:
    """The measures that a requested aggregate is computed from, by their indices among the members of a part."""

    request: AggregateRequest
    """The aggregate in the canonical form that its measures have."""
    part: int
    measures: tuple[int, ...]


@dataclass(frozen=True)
class SharedMeasures:
    """The parts of a query, and the source of each of its aggregates."""

    parts: tuple[ReadingPart, ...]
    requests: tuple[MeasuredRequest, ...]

    @property
    def combines_measures(self) -> bool:
        """Whether a result is computed from measures that are not taken together."""
        totals = self.parts[0]
        taken_with = [index for index, measure in enumerate(totals.measures) for _ in members_of(measure)]
        return any(
            len({taken_with[index] for index in request.measures}) > 1 for request in self.requests if not request.part
        )


@once_per_instance
def share_measures(plan: Aggregate) -> SharedMeasures:
    """Split the requested aggregates into parts and deduplicate the measures. The first part holds the totals, and may
    be empty.
    """
    requests_by_reading: dict[object, list[AggregateRequest]] = {ReadingKind.TOTALS: []}
    for request in plan.measures:
        requests_by_reading.setdefault(request.reading_key, []).append(request)
    tests = conditions_met_by_rows(plan.source)
    needed = {
        reading: _NeededMeasures.from_requests(requests, tests) for reading, requests in requests_by_reading.items()
    }
    parts = tuple(_reading_part(plan, requests, needed[reading]) for reading, requests in requests_by_reading.items())
    part_indices = {reading: number for number, reading in enumerate(requests_by_reading)}
    sources = tuple(
        _measured_request(request, part_indices[request.reading_key], parts, needed[request.reading_key])
        for request in plan.measures
    )
    totals, *others = parts
    return SharedMeasures((_with_narrowed_ranges(totals, sources, tests), *others), sources)


def with_requests_as_measures(plan: Aggregate) -> Aggregate:
    """Replace the requested aggregates by the measures that they are computed from."""
    return replace(plan, measures=tuple(measure for part in share_measures(plan).parts for measure in part.measures))


@dataclass(frozen=True)
class _NeededMeasures:
    """The measures for requests of the same rows; equal ones have one canonical form."""

    canonical_requests: Mapping[AggregateRequest, AggregateRequest]
    """For each request, and each measure that one needs, its canonical form."""
    shared_means: tuple[Mean, ...]
    """The means of values whose sum and count are both requested."""
    tests: tuple[Expression, ...]
    """The conditions that all rows meet."""

    @classmethod
    def from_requests(cls, requests: Sequence[AggregateRequest], tests: tuple[Expression, ...]) -> _NeededMeasures:
        """Return those of these requests. One alone shares nothing, and stays as it was typed.

        A mean is measured as two sums that take one price together, so that it gives the sum and the number with less
        noise than if both were measured.
        """
        needed = dict.fromkeys((*requests, *(measure for request in requests for measure in request.measures_for(()))))
        if len(requests) < 2 or requests[0].reads is not ReadingKind.TOTALS:
            return cls({request: request for request in needed}, (), ())
        means = {
            request for request in needed if isinstance(request, Mean) and canonical_request(request, tests) == request
        }
        canonical_requests = {
            # the mean of the same value measures a sum too, under any spelling of it
            request: request if _has_mean_among(request, means) else canonical_request(request, tests)
            for request in needed
        }
        counts = {request for request in canonical_requests.values() if type(request) is Count}
        summed = (Mean(request.value, request.where) for request in canonical_requests.values() if type(request) is Sum)
        shared_means = tuple(mean for mean in summed if canonical_request(mean.rows, tests) in counts)
        return cls(canonical_requests, shared_means, tests)

    @cached_property
    def _requests(self) -> tuple[AggregateRequest, ...]:
        return tuple(dict.fromkeys((*self.canonical_requests.values(), *self.shared_means)))

    @cached_property
    def _mean_by_row_count(self) -> Mapping[AggregateRequest, Mean]:
        """The first mean of the rows that each canonical count counts."""
        means = [mean for mean in self._requests if isinstance(mean, Mean)]
        return {canonical_request(mean.rows, self.tests): mean for mean in reversed(means)}

    def measures_of(self, request: AggregateRequest) -> tuple[Measure, ...]:
        """Return the measures of one request. The rows that a mean averages are counted by its two sums."""
        canonical = self.canonical_requests[request]
        if type(canonical) is Count:
            return (self._mean_by_row_count.get(canonical, canonical),)
        measures = canonical.measures_for(self._requests)
        return tuple(cast("Measure", self.canonical_requests.get(measure, measure)) for measure in measures)


def _has_mean_among(request: AggregateRequest, means: Collection[AggregateRequest]) -> bool:
    """Return whether this is the sum of a value whose mean is among these."""
    return type(request) is Sum and Mean(request.value, request.where) in means


def _reading_part(plan: Aggregate, requests: Sequence[AggregateRequest], needed: _NeededMeasures) -> ReadingPart:
    needed_measures = [(needed.canonical_requests[request], needed.measures_of(request)) for request in requests]
    part_measures = tuple(dict.fromkeys(measure for _, measures in needed_measures for measure in measures))
    reads = requests[0].reads if requests else ReadingKind.TOTALS
    if reads is not ReadingKind.TOTALS:
        return ReadingPart(reads, replace(plan, measures=part_measures), tuple(requests))
    only_counts = all(type(request) is Count for request, measures in needed_measures if Count() in measures)
    taken = merge_disjoint_measures(part_measures, splits_row_count=only_counts)
    return ReadingPart(reads, replace(plan, measures=taken.measures), tuple(requests), taken.replacements)


def _with_narrowed_ranges(
    totals: ReadingPart, sources: Sequence[MeasuredRequest], tests: tuple[Expression, ...]
) -> ReadingPart:
    """Narrow the ranges of sums and means to those of the rows that count, except where moments are made from them."""
    fixed = {
        totals.members[index]
        for source in sources
        if not source.part and type(source.request) not in (Count, Sum, Mean)
        for index in source.measures
    }
    summed = {
        totals.members[index]
        for source in sources
        if type(source.request) is Sum
        for index in source.measures
        if isinstance(totals.members[index], Mean)
    }
    measures = tuple(narrow_range(measure, tests, fixed, summed) for measure in totals.measures)
    return replace(totals, plan=replace(totals.plan, measures=measures))


def _measured_request(
    request: AggregateRequest, part_index: int, parts: Sequence[ReadingPart], needed: _NeededMeasures
) -> MeasuredRequest:
    part = parts[part_index]
    if part.reads is not ReadingKind.TOTALS:
        return MeasuredRequest(request, part_index, (part.requests.index(request),))
    members = (
        member for measure in needed.measures_of(request) for member in part.replacements.get(measure, (measure,))
    )
    return MeasuredRequest(needed.canonical_requests[request], part_index, tuple(map(part.members.index, members)))
