"""Assign the requested aggregates to measures, so that equal measures are taken once and shared.

A *part* of a query is what one reading answers: all totals together, and the ranks of one column on their own. Each
requested aggregate is computed from some measures of one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Measure, ReadingKind, Sum
from sfumato.plan.nodes import Aggregate


@dataclass(frozen=True)
class ReadingPart:
    """The measures that are taken in one reading of the rows."""

    reads: ReadingKind
    plan: Aggregate
    """The rows and keys of the query, with the measures of this part."""
    requests: tuple[AggregateRequest, ...]
    """The aggregates computed from it."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        return cast("tuple[Measure, ...]", self.plan.measures)


@dataclass(frozen=True)
class MeasuredRequest:
    """The measures that a requested aggregate is computed from, by their indices in a part."""

    request: AggregateRequest
    part: int
    measures: tuple[int, ...]


@dataclass(frozen=True)
class SharedMeasures:
    """The parts of a query, and the source of each of its aggregates."""

    parts: tuple[ReadingPart, ...]
    requests: tuple[MeasuredRequest, ...]


def share_measures(plan: Aggregate) -> SharedMeasures:
    """Split the requested aggregates into parts and deduplicate the measures. The first part holds the totals, and may
    be empty.
    """
    requests_by_reading: dict[object, list[AggregateRequest]] = {ReadingKind.TOTALS: []}
    for request in plan.measures:
        requests_by_reading.setdefault(request.reading_key, []).append(request)
    available = {reading: _available_requests(requests) for reading, requests in requests_by_reading.items()}
    parts = tuple(
        _reading_part(plan, requests, available[reading]) for reading, requests in requests_by_reading.items()
    )
    part_indices = {reading: number for number, reading in enumerate(requests_by_reading)}
    sources = (
        _source(request, part_indices[request.reading_key], parts, available[request.reading_key])
        for request in plan.measures
    )
    return SharedMeasures(parts, tuple(sources))


def with_measures(plan: Aggregate) -> Aggregate:
    """Return the plan with the measures of all parts."""
    return replace(plan, measures=tuple(measure for part in share_measures(plan).parts for measure in part.measures))


def _available_requests(requests: Sequence[AggregateRequest]) -> Sequence[AggregateRequest]:
    """Return the requests, the measures they need, and the mean of each value whose sum and count are both requested.

    A mean is measured as two sums that take one price together, so that it gives the sum and the number with less noise
    than if both were measured.
    """
    needed_measures = (measure for request in requests for measure in request.measures_for(()))
    shared_means = (Mean(request.value, request.where) for request in requests if type(request) is Sum)
    counts = {request for request in requests if type(request) is Count}
    return tuple(dict.fromkeys((*requests, *needed_measures, *(mean for mean in shared_means if mean.rows in counts))))


def _reading_part(
    plan: Aggregate, requests: Sequence[AggregateRequest], available: Sequence[AggregateRequest]
) -> ReadingPart:
    part_measures = dict.fromkeys(measure for request in requests for measure in request.measures_for(available))
    return ReadingPart(
        requests[0].reads if requests else ReadingKind.TOTALS,
        replace(plan, measures=tuple(part_measures)),
        tuple(requests),
    )


def _source(
    request: AggregateRequest, number: int, parts: Sequence[ReadingPart], available: Sequence[AggregateRequest]
) -> MeasuredRequest:
    part = parts[number]
    if part.reads is not ReadingKind.TOTALS:
        return MeasuredRequest(request, number, (part.requests.index(request),))
    return MeasuredRequest(request, number, tuple(map(part.measures.index, request.measures_for(available))))
