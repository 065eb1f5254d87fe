"""Refute a claim of (ε, δ)-DP from samples.

For an event S, ε ≥ ln((P(S) − δ)/Q(S)). With p below P(S) and q above Q(S), each except with probability β/2
(Clopper & Pearson), ln((p − δ)/q) is a lower bound of ε except with probability β. The samples are split by position
before any of them is inspected: a classifier is trained on the first part, events are selected on the second, and the
bound is measured on the rest. Given the first two parts the events are fixed and the rest is independent, so β is
shared by a union bound over the measured events, each in one direction, and over both limits: a mechanism that keeps
its claim is refuted with probability at most 1 − confidence (Ding et al. 2018; Jagielski, Ullman & Oprea 2020).

A built-in mechanism is sampled through the same function that a release calls. Additive noise, local reports, key
thresholds, frequent values and quantiles are vectorised over many inputs; selections by score and sparse vectors run
one at a time, as in a release. Outputs are rows of numbers; a report too long for that is reduced to a sufficient
statistic for the two inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.lower_bounds.events import (
    MAX_ROWS,
    Event,
    Outputs,
    best_events,
    candidate_events,
    merge_labels_to_cells,
    plain_views,
    trained_views,
)
from sfumato.audit.lower_bounds.verdicts import CONFIDENCES, Verdict, error_probability_per_limit
from sfumato.errors import InvalidParameter, SessionClosed, ValueWords
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles
from sfumato.mechanisms.confidence_limits import lower_confidence_limit, upper_confidence_limit
from sfumato.mechanisms.protocols import Additive, SelectionMechanism
from sfumato.mechanisms.response import OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse
from sfumato.mechanisms.selection import ScoreSelection
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass

Sampler = Callable[[int], Any]
"""Return that many independent outputs of one world, each a number or a row of numbers."""

MAX_COLUMNS = 64
DEFAULT_SAMPLES, DEFAULT_SELECTION_SAMPLES = 1_000_000, 20_000
_SESSION_CLOSED = -1
"""Marks a query that was not asked because the sparse vector had already stopped."""


def default_samples(mechanism: Any) -> int:
    """Return the default number of samples: fewer for mechanisms that run one draw at a time."""
    return (
        DEFAULT_SELECTION_SAMPLES
        if isinstance(mechanism, ScoreSelection | Quantiles | AboveThreshold)
        else DEFAULT_SAMPLES
    )


def samplers_of_both_inputs(mechanism: Any, inputs: tuple[Any, Any]) -> tuple[Sampler, Sampler]:
    """Return a sampler of the mechanism for each of the two inputs."""
    sampler = _sampler_for(mechanism, inputs)
    return partial(sampler, inputs[0]), partial(sampler, inputs[1])


def _sampler_for(mechanism: Any, inputs: tuple[Any, Any]) -> Callable[[Any, int], Any]:
    if isinstance(mechanism, Additive):
        return lambda value, count: mechanism.apply(_repeat_rows(value, count))
    if isinstance(mechanism, RandomizedResponse):
        return lambda value, count: mechanism.choose(_repeat_rows(value, count))
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return lambda value, count: _relevant_bits(mechanism.choose(_repeat_rows(value, count)), inputs)
    if isinstance(mechanism, OptimalLocalHashing):
        return lambda value, count: _support_columns(mechanism, mechanism.choose(_repeat_rows(value, count)), inputs)
    if isinstance(mechanism, KeyThreshold):
        return partial(_sample_keys, mechanism)
    if isinstance(mechanism, FrequentValues):
        return partial(_sample_frequent_values, mechanism)
    if isinstance(mechanism, Quantiles) and (mechanism.grouped or mechanism.neighbours is Neighbours.ADD_REMOVE):
        return partial(_sample_quantiles, replace(mechanism, grouped=True))
    if isinstance(mechanism, ScoreSelection | Quantiles) and isinstance(mechanism, SelectionMechanism):
        return lambda value, count: [mechanism.choose(value) for _ in range(count)]
    if isinstance(mechanism, AboveThreshold):
        return lambda value, count: [_ask_stream(mechanism, value) for _ in range(count)]
    rule = "a built-in mechanism, or a pair of functions (one per world) that take a count and return that many outputs"
    fix = "for example, pass sf.Laplace(2)"
    raise InvalidParameter("mechanism", mechanism, rule, fix=fix)


def _repeat_rows(value: Any, count: int) -> NDArray[Any]:
    row = np.asarray(value)
    return np.broadcast_to(row, (count, *row.shape)).copy()


def _relevant_bits(reports: NDArray[np.uint8], inputs: tuple[Any, Any]) -> NDArray[np.int64]:
    """Return all bits, or those of the two inputs and the number of others set: a sufficient statistic."""
    rows = reports.astype(np.int64)
    if rows.shape[1] <= MAX_COLUMNS:
        return rows
    input_bits = rows[:, list(inputs)]
    return np.column_stack([input_bits, rows.sum(axis=1) - input_bits.sum(axis=1)])


def _support_columns(
    mechanism: OptimalLocalHashing, reports: NDArray[np.int64], inputs: tuple[Any, Any]
) -> NDArray[np.int64]:
    """Return whether each report supports either input, beside the report itself: a hash alone shows nothing."""
    a, b, cell = reports.T
    supports = [(mechanism.hashed(a, b, int(answer)) == cell).astype(np.int64) for answer in inputs]
    return np.column_stack([*supports, a, b, cell])


def _sample_keys(mechanism: KeyThreshold, counts: Any, count: int) -> NDArray[np.int64]:
    """Decide about all keys ``count`` times in one call; keys are decided independently."""
    row = np.atleast_1d(np.asarray(counts))
    return mechanism.choose(np.tile(row, count)).reshape(count, row.size).astype(np.int64)


def _sample_frequent_values(mechanism: FrequentValues, table: Any, count: int) -> NDArray[np.int64]:
    rows = np.atleast_2d(np.asarray(table))
    return mechanism.choose(np.tile(rows, (count, 1))).reshape(count, -1)


@dataclass(frozen=True)
class _RepeatedGroups:
    """Many groups with the same values, each value with its number of rows."""

    group: NDArray[np.intp]
    steps: NDArray[np.int64]
    counts: NDArray[np.int64]
    groups: int


def _sample_quantiles(mechanism: Quantiles, values: Any, count: int) -> NDArray[np.int64]:
    """Sample many groups at once: under add-remove each group is an independent draw."""
    mechanism.choose(values)  # raises unless the values are sorted numbers
    steps, counts = np.unique(np.asarray(values, np.int64), return_counts=True)
    group = np.repeat(np.arange(count), len(steps))
    return mechanism.choose_groups(_RepeatedGroups(group, np.tile(steps, count), np.tile(counts, count), count))


def _ask_stream(mechanism: AboveThreshold, values: Any) -> list[int]:
    """Ask all queries of a stream: 1 above, 0 below, followed by the paid values if the mechanism releases them."""
    session, decisions, released_values = mechanism.start(), [], []
    for value in values:
        try:
            decisions.append(int(session.ask(value)))
            released_values.append(session.value or 0 if decisions[-1] else 0)
        except SessionClosed:
            decisions.append(_SESSION_CLOSED)
            released_values.append(0)
    return [*decisions, *released_values] if mechanism.values_epsilon is not None else decisions


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]

_SELECTION_SHARE = 0.1  # share of samples that events are selected on
_TRAINING_SHARE = 0.2  # share that classifiers are trained on, for outputs of several columns
_MAX_EVENTS = 8
_MAX_SAMPLES = 10**8
_DEFAULT_RELEASES = 2_000
"""Default number of releases per world when a proposal of a curator is audited."""


def falsify(
    mechanism: Any,
    claim: Guarantee,
    samples: int | None = None,
    confidence: Number = "0.99",
    *,
    inputs: tuple[Any, Any] = (0, 1),
) -> Verdict:
    """Return a verdict with the largest lower bound on ε that samples on two neighbouring inputs prove.

    ``mechanism`` is a built-in mechanism, applied to ``inputs``; or a pair of functions, one per world, that take a
    count and return that many independent outputs; or a proposal of a curator, such as a query, which is then released
    on generated neighbouring tables at the price of the claim (``sample_proposal``). Outputs are numbers or rows of
    numbers; the columns of a row are tested jointly. An input is what the mechanism receives in a release: a number or
    a row for additive noise, an answer for local reports, scores for a selection, counts for a key threshold, sorted
    values for quantiles, the values of all queries for a sparse vector.

    ``samples`` per world defaults to 1,000,000; to 20,000 for selections, quantiles and sparse vectors; and to 2,000
    for proposals. A claim of ε = 0 and δ = 0 states that both worlds have the same distribution.
    """
    promise = Guarantee.of(claim, "claim")
    level = exact(confidence, "confidence", CONFIDENCES)
    if isinstance(mechanism, str):
        fix = "pass a question of a curator: falsify(curator.sql(…), claim)"
        raise InvalidParameter(
            "mechanism",
            mechanism,
            "a mechanism object, a pair of functions, or a question such as curator.sql(…)",
            fix=fix,
        )
    if callable(getattr(mechanism, "release", None)):  # a proposal of a curator
        from sfumato.audit.asked_questions.release_sampling import (
            sample_proposal,
        )  # imports an engine, which mechanisms do not need

        sample_count = _checked_sample_count(_DEFAULT_RELEASES if samples is None else samples, promise, level)
        worlds = sample_proposal(mechanism, promise, sample_count)
    else:
        worlds = _samplers_of(mechanism, inputs)
        sample_count = _checked_sample_count(default_samples(mechanism) if samples is None else samples, promise, level)
    first, second = (_draw_outputs(world, sample_count) for world in worlds)
    if first.shape != second.shape:
        raise InvalidParameter(
            "mechanism",
            ValueWords(f"the shapes {first.shape} and {second.shape}"),
            "a pair of functions whose outputs have the same shape",
            fix="make both functions return rows of the same length",
        )
    return _verdict_from_samples(_split_samples(first, second), promise, level)


@dataclass(frozen=True)
class SplitSamples:
    """Disjoint samples of both worlds, for training, for selecting events and for measuring them."""

    training: tuple[Outputs, Outputs]
    selection: tuple[Outputs, Outputs]
    measurement: tuple[Outputs, Outputs]


def _split_samples(first: Outputs, second: Outputs) -> SplitSamples:
    """Split the samples by position alone."""
    sample_count, columns = first.shape
    training_end = min(math.ceil(sample_count * _TRAINING_SHARE), MAX_ROWS) if columns > 1 else 0
    selection_end = training_end + math.ceil(sample_count * _SELECTION_SHARE)
    return SplitSamples(
        (first[:training_end], second[:training_end]),
        (first[training_end:selection_end], second[training_end:selection_end]),
        (first[selection_end:], second[selection_end:]),
    )


def _verdict_from_samples(samples: SplitSamples, guarantee: Guarantee, level: Fraction) -> Verdict:
    """Measure the selected events, each in its own direction, and report the largest bound."""
    delta = float(guarantee.delta)
    events = _select_events(samples.training, samples.selection, delta)
    error_per_limit = error_probability_per_limit(level, max(1, len(events)))
    view_counts: dict[int, Counts] = {}
    for event in events:
        if id(event.view) not in view_counts:
            first, second = samples.measurement
            view_counts[id(event.view)] = event.view.counts(first), event.view.counts(second)
    bounds = [_epsilon_bound(event, view_counts[id(event.view)], delta, error_per_limit) for event in events]
    best_index = int(np.argmax(bounds)) if bounds else -1
    measured = len(samples.measurement[0])
    if best_index < 0 or bounds[best_index] <= 0:
        return Verdict(0.0, guarantee, float(level), "no event", measured, len(events))
    laws = merge_labels_to_cells(events[best_index], view_counts[id(events[best_index].view)])
    return Verdict(bounds[best_index], guarantee, float(level), events[best_index].name, measured, len(events), laws)


def _select_events(
    classifier_samples: tuple[Outputs, Outputs], event_samples: tuple[Outputs, Outputs], delta: float
) -> list[Event]:
    """Select a few events; if there are many, one half of the samples finds them and the other ranks them."""
    if event_samples[0].shape[1] == 1:
        events = list(candidate_events(plain_views(*event_samples), event_samples[0], event_samples[1], delta))
        if len(events) <= _MAX_EVENTS:
            return events
    half = (len(event_samples[0]) + 1) // 2
    first, second = (side[:half] for side in event_samples)
    views = list(plain_views(first, second))
    if len(classifier_samples[0]):
        views += trained_views(classifier_samples, (first, second))
    events = list(candidate_events(views, first, second, delta))
    return best_events(events, event_samples[0][half:], event_samples[1][half:], delta, _MAX_EVENTS)


def _epsilon_bound(event: Event, counts: Counts, delta: float, miss: float) -> float:
    """Return the lower bound on ε from this event's counts on fresh samples; −∞ if it proves nothing."""
    p_counts, q_counts = counts[::-1] if event.swapped else counts
    p = lower_confidence_limit(event.count(p_counts), int(p_counts.sum()), miss) - delta
    q = upper_confidence_limit(event.count(q_counts), int(q_counts.sum()), miss)
    return math.log(p / q) if p > 0 and q > 0 else -math.inf


# ── what is given ──────────────────────────────────────────────────────────────────────────────


def _samplers_of(mechanism: Any, inputs: tuple[Any, Any]) -> tuple[Sampler, Sampler]:
    """Return a sampler for each world, for any accepted kind of mechanism."""
    if isinstance(mechanism, Sequence) and len(mechanism) == 2 and all(callable(world) for world in mechanism):
        return mechanism[0], mechanism[1]
    if not isinstance(inputs, tuple) or len(inputs) != 2:
        raise InvalidParameter(
            "inputs", inputs, "a pair of neighbouring inputs", fix="for example, write inputs=(10, 11)"
        )
    return samplers_of_both_inputs(mechanism, inputs)


def required_samples(guarantee: Guarantee, level: Fraction) -> int:
    """Return the fewest samples per world that could refute the claim if the worlds had disjoint outputs.

    If all m samples of one world and none of the other lie in an event, the bound is ln((x − δ)/(1 − x)) with the
    Clopper–Pearson limit x = β^{1/m}. So m must exceed ln(1/β)/−ln(1 − (1 − δ)/(1 + e^ε)). β and m are those of
    multi-column outputs, which have fewer samples to measure and more events.
    """
    error_per_limit = error_probability_per_limit(level, _MAX_EVENTS)
    pure_share = max(1e-100, float(1 - guarantee.delta))  # 1 − δ, kept above 0 so that the logarithm below is finite
    flip_probability = pure_share / (1 + math.exp(min(400.0, float(guarantee.epsilon))))
    return max(
        100,
        math.ceil(math.log(error_per_limit) / math.log1p(-flip_probability) / (1 - _TRAINING_SHARE - _SELECTION_SHARE))
        + 10,
    )


def _checked_sample_count(samples: int, guarantee: Guarantee, level: Fraction) -> int:
    """Return the number of samples; refuse too few to refute the claim, and state how many could."""
    sample_count, min_samples = exact_integer(samples, "samples", at_least=1), required_samples(guarantee, level)
    if sample_count > _MAX_SAMPLES:
        raise InvalidParameter("samples", samples, f"at most {_MAX_SAMPLES:,}")
    if min_samples > _MAX_SAMPLES:
        rule = f"a guarantee that {_MAX_SAMPLES:,} samples could refute"
        raise InvalidParameter(
            "claim", guarantee, rule, fix="audit a smaller ε, or compute the loss exactly with audit.enumerate"
        )
    if sample_count < min_samples:
        rule = f"at least {min_samples:,}, because fewer could not refute {guarantee}"
        raise InvalidParameter("samples", samples, rule, fix=f"write samples={min_samples}")
    return sample_count


def _draw_outputs(world: Sampler, count: int) -> Outputs:
    try:
        outputs = np.asarray(world(count))
    except ValueError:
        outputs = np.array(None)
    bad_width = outputs.ndim == 2 and not 0 < outputs.shape[1] <= MAX_COLUMNS
    if outputs.shape[:1] != (count,) or outputs.ndim > 2 or bad_width or outputs.dtype.kind not in "biuf":
        raise InvalidParameter(
            "mechanism",
            ValueWords(f"an array of shape {outputs.shape} and type {outputs.dtype}"),
            f"a pair of functions that return {count:,} numbers, or {count:,} rows of 1 to {MAX_COLUMNS} numbers",
            fix="let both functions return as many numbers as their argument says, such as np.zeros(count)",
        )
    outputs = outputs.astype(np.int64) if outputs.dtype.kind == "b" else outputs
    return outputs if outputs.ndim == 2 else outputs[:, None]
