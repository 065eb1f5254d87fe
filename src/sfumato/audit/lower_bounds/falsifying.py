"""Samples may refute a claim of (ε, δ)-DP: this finds out whether they do.

For an event S, ε ≥ ln((P(S) − δ)/Q(S)). With p below P(S) and q above Q(S), each except with probability β/2
(Clopper & Pearson), ln((p − δ)/q) is a lower bound of ε except with probability β. Samples are parted before anything
is looked at: a classifier is trained on the first, events are picked on the next, and all that is proven is measured on
the rest. Given the first two parts the events are fixed and the rest is fresh, so β is shared over the events that are
measured, each in its own direction, and over both limits: a mechanism that keeps its claim is refuted with probability
at most 1 − confidence (Ding et al. 2018; Jagielski, Ullman & Oprea 2020).

A mechanism of ours is run very often on one input, through the function that releases with it.

Additive noise, reports, key thresholds, frequent values and quantiles take many inputs at once. Choices by scores and
sparse vectors are made one at a time, as in a release. Outputs are rows of numbers; where a report is too long for
that, what is kept of it is all that can tell the two inputs apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.lower_bounds.events import (
    MOST_ROWS,
    Event,
    Outputs,
    best,
    candidates,
    plain_views,
    told_laws,
    trained_views,
)
from sfumato.audit.lower_bounds.verdicts import CONFIDENCES, Verdict, missed
from sfumato.errors import InvalidParameter, SessionClosed
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles
from sfumato.mechanisms.confidence_limits import at_least, at_most
from sfumato.mechanisms.protocols import Additive, SelectionMechanism
from sfumato.mechanisms.response import OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse
from sfumato.mechanisms.selection import Scored
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import Number, exact, whole

Sampler = Callable[[int], Any]
"""It gives as many outputs of one world as it is asked for, a number or a row of numbers each."""

MOST_COLUMNS = 64
USUAL_SAMPLES, USUAL_CHOICES = 1_000_000, 20_000
_AFTER = -1
"""What stands for a question that was not asked, because a sparse vector had ended."""


def usual_samples(mechanism: Any) -> int:
    """Say how many samples are drawn where nobody says: fewer of what is chosen one at a time."""
    return USUAL_CHOICES if isinstance(mechanism, Scored | Quantiles | AboveThreshold) else USUAL_SAMPLES


def runs(mechanism: Any, inputs: tuple[Any, Any]) -> tuple[Sampler, Sampler]:
    """Give a function for each of the two inputs that runs the mechanism on it so many times."""
    run = _run(mechanism, inputs)
    return partial(run, inputs[0]), partial(run, inputs[1])


def _run(mechanism: Any, inputs: tuple[Any, Any]) -> Callable[[Any, int], Any]:
    if isinstance(mechanism, Additive):
        return lambda value, count: mechanism.apply(_repeated(value, count))
    if isinstance(mechanism, RandomizedResponse):
        return lambda value, count: mechanism.choose(_repeated(value, count))
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return lambda value, count: _bits(mechanism.choose(_repeated(value, count)), inputs)
    if isinstance(mechanism, OptimalLocalHashing):
        return lambda value, count: _supported(mechanism, mechanism.choose(_repeated(value, count)), inputs)
    if isinstance(mechanism, KeyThreshold):
        return partial(_keys, mechanism)
    if isinstance(mechanism, FrequentValues):
        return partial(_frequent, mechanism)
    if isinstance(mechanism, Quantiles) and (mechanism.grouped or mechanism.neighbours is Neighbours.ADD_REMOVE):
        return partial(_quantiles, replace(mechanism, grouped=True))
    if isinstance(mechanism, Scored | Quantiles) and isinstance(mechanism, SelectionMechanism):
        return lambda value, count: [mechanism.choose(value) for _ in range(count)]
    if isinstance(mechanism, AboveThreshold):
        return lambda value, count: [_answers(mechanism, value) for _ in range(count)]
    rule = "a mechanism of ours, or a pair of functions count → outputs, one for each world"
    raise InvalidParameter("mechanism", mechanism, rule)


def _repeated(value: Any, count: int) -> NDArray[Any]:
    row = np.asarray(value)
    return np.broadcast_to(row, (count, *row.shape)).copy()


def _bits(reports: NDArray[np.uint8], inputs: tuple[Any, Any]) -> NDArray[np.int64]:
    """Keep all bits, or those of the two answers and how many others are set: the rest has one law in both worlds."""
    rows = reports.astype(np.int64)
    if rows.shape[1] <= MOST_COLUMNS:
        return rows
    own = rows[:, list(inputs)]
    return np.column_stack([own, rows.sum(axis=1) - own.sum(axis=1)])


def _supported(
    mechanism: OptimalLocalHashing, reports: NDArray[np.int64], inputs: tuple[Any, Any]
) -> NDArray[np.int64]:
    """Say of a report whether it speaks for either answer, beside what it is: a hash alone tells nothing."""
    a, b, cell = reports.T
    speaks = [(mechanism.hashed(a, b, int(x)) == cell).astype(np.int64) for x in inputs]
    return np.column_stack([*speaks, a, b, cell])


def _keys(mechanism: KeyThreshold, counts: Any, count: int) -> NDArray[np.int64]:
    """Decide about all keys so many times: each key is decided for itself, and all of them in one call."""
    row = np.atleast_1d(np.asarray(counts))
    return mechanism.choose(np.tile(row, count)).reshape(count, row.size).astype(np.int64)


def _frequent(mechanism: FrequentValues, table: Any, count: int) -> NDArray[np.int64]:
    rows = np.atleast_2d(np.asarray(table))
    return mechanism.choose(np.tile(rows, (count, 1))).reshape(count, -1)


@dataclass(frozen=True)
class _Copies:
    """Many groups have the same values, each with how many rows have it."""

    group: NDArray[np.intp]
    steps: NDArray[np.int64]
    counts: NDArray[np.int64]
    groups: int


def _quantiles(mechanism: Quantiles, values: Any, count: int) -> NDArray[np.int64]:
    """Choose in many groups at once: under add-remove a group is chosen in as if it were alone."""
    mechanism.choose(values)  # it refuses what are no sorted numbers
    steps, counts = np.unique(np.asarray(values, np.int64), return_counts=True)
    group = np.repeat(np.arange(count), len(steps))
    return mechanism.choose_groups(_Copies(group, np.tile(steps, count), np.tile(counts, count), count))


def _answers(mechanism: AboveThreshold, values: Any) -> list[int]:
    """Ask a whole stream: 1 is above and 0 below, and where values are paid for each answer has one beside it."""
    session, said, shown = mechanism.start(), [], []
    for value in values:
        try:
            said.append(int(session.ask(value)))
            shown.append(session.value or 0 if said[-1] else 0)
        except SessionClosed:
            said.append(_AFTER)
            shown.append(0)
    return [*said, *shown] if mechanism.values_epsilon is not None else said


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]

_PICKING = 0.1  # the share of samples that events are picked on
_TRAINING = 0.2  # and that a classifier learns from, where outputs have several columns: no more than it looks at
_MOST_EVENTS = 8
_MOST_SAMPLES = 10**8
_BOUGHT = 2_000
"""Samples of each world of what is bought, where nothing is said."""


def falsify(
    mechanism: Any,
    claim: Guarantee,
    samples: int | None = None,
    confidence: Number = "0.99",
    *,
    inputs: tuple[Any, Any] = (0, 1),
) -> Verdict:
    """Find the largest ε that ``samples`` runs on each of two neighbouring inputs prove, beside a claim.

    ``mechanism`` is one of ours, applied to ``inputs``, or a pair of functions from a count to that many outputs:
    one per world, of which each is a run of its own, independent of the others. Outputs are numbers, or rows of
    numbers: all columns of a row are looked at together. An input is
    what the mechanism is given in a release: a number or a row for noise, an answer for reports, scores for a choice,
    counts for a key threshold, sorted values for quantiles, the values of all questions for a sparse vector.

    It may also be a proposal of a curator, such as a question: this is bought on invented neighbouring tables, at the
    price of the claim (``asked_worlds``).

    Without ``samples`` it is a million, 20,000 of what is chosen one at a time, and 2,000 of what is bought. A claim of
    ε = 0 is a claim like any other: with δ = 0 it says that the two worlds have one law.
    """
    promise = Guarantee.of(claim, "claim")
    level = exact(confidence, "confidence", CONFIDENCES)
    if isinstance(mechanism, str):
        fix = "hand over what a curator makes of the text: falsify(curator.sql(…), claim)"
        raise InvalidParameter(
            "mechanism", mechanism, "a mechanism, two functions, or a proposal of a curator", fix=fix
        )
    if callable(getattr(mechanism, "release", None)):  # it is asked of a curator, and no mechanism
        from sfumato.audit.asked_questions.asked_worlds import asked_worlds  # an engine, which mechanisms do not need

        many = _enough(_BOUGHT if samples is None else samples, promise, level)
        worlds = asked_worlds(mechanism, promise, many)
    else:
        worlds = _worlds(mechanism, inputs)
        many = _enough(usual_samples(mechanism) if samples is None else samples, promise, level)
    first, second = (_outputs(world, many) for world in worlds)
    if first.shape != second.shape:
        raise InvalidParameter("mechanism", (first.shape, second.shape), "worlds whose outputs have one shape")
    return _judged(_parted(first, second), promise, level)


@dataclass(frozen=True)
class Parted:
    """These are the samples of both worlds in three parts that share none: for training, for picking, for measuring."""

    training: tuple[Outputs, Outputs]
    picking: tuple[Outputs, Outputs]
    measuring: tuple[Outputs, Outputs]


def _parted(first: Outputs, second: Outputs) -> Parted:
    """Divide the samples by their place alone."""
    many, columns = first.shape
    trained = min(math.ceil(many * _TRAINING), MOST_ROWS) if columns > 1 else 0
    picked = trained + math.ceil(many * _PICKING)
    return Parted(
        (first[:trained], second[:trained]),
        (first[trained:picked], second[trained:picked]),
        (first[picked:], second[picked:]),
    )


def _judged(samples: Parted, promise: Guarantee, level: Fraction) -> Verdict:
    """Measure the events that were picked, each in its own direction, and keep the one that proves most."""
    delta = float(promise.delta)
    events = _events(samples.training, samples.picking, delta)
    miss = missed(level, max(1, len(events)))
    counted: dict[int, Counts] = {}
    for event in events:
        if id(event.view) not in counted:
            first, second = samples.measuring
            counted[id(event.view)] = event.view.counts(first), event.view.counts(second)
    bounds = [_proven(event, counted[id(event.view)], delta, miss) for event in events]
    most = int(np.argmax(bounds)) if bounds else -1
    measured = len(samples.measuring[0])
    if most < 0 or bounds[most] <= 0:
        return Verdict(0.0, promise, float(level), "no event", measured, len(events))
    laws = told_laws(events[most], counted[id(events[most].view)])
    return Verdict(bounds[most], promise, float(level), events[most].name, measured, len(events), laws)


def _events(training: tuple[Outputs, Outputs], picking: tuple[Outputs, Outputs], delta: float) -> list[Event]:
    """Pick a few events; where there are many, one half of these samples finds them and the other compares them."""
    if picking[0].shape[1] == 1:
        events = list(candidates(plain_views(*picking), picking[0], picking[1], delta))
        if len(events) <= _MOST_EVENTS:
            return events
    half = (len(picking[0]) + 1) // 2
    first, second = (side[:half] for side in picking)
    views = list(plain_views(first, second))
    if len(training[0]):
        views += trained_views(training, (first, second))
    events = list(candidates(views, first, second, delta))
    return best(events, picking[0][half:], picking[1][half:], delta, _MOST_EVENTS)


def _proven(event: Event, counts: Counts, delta: float, miss: float) -> float:
    """Compute the ε this event proves on fresh samples, counted by label; −∞ when none."""
    p_counts, q_counts = counts[::-1] if event.swapped else counts
    p = at_least(event.count(p_counts), int(p_counts.sum()), miss) - delta
    q = at_most(event.count(q_counts), int(q_counts.sum()), miss)
    return math.log(p / q) if p > 0 and q > 0 else -math.inf


# ── what is given ──────────────────────────────────────────────────────────────────────────────


def _worlds(mechanism: Any, inputs: tuple[Any, Any]) -> tuple[Sampler, Sampler]:
    """Give a sampler for each world, whatever the mechanism is."""
    if isinstance(mechanism, Sequence) and len(mechanism) == 2 and all(callable(world) for world in mechanism):
        return mechanism[0], mechanism[1]
    if not isinstance(inputs, tuple) or len(inputs) != 2:
        raise InvalidParameter("inputs", inputs, "a pair of neighbouring inputs")
    return runs(mechanism, inputs)


def least_samples(promise: Guarantee, level: Fraction) -> int:
    """Give the fewest samples of each world that could refute the claim, if the two had no output in common.

    All of m samples inside an event and none beside it prove ln((x − δ)/(1 − x)) at most, where x = β^{1/m} is the
    limit of each. So m must exceed ln(1/β)/−ln(1 − (1 − δ)/(1 + e^ε)); β and m are those of outputs with many columns,
    of which fewer samples are left to be measured, in more events.
    """
    miss = missed(level, _MOST_EVENTS)
    kept = max(1e-100, float(1 - promise.delta))  # what δ leaves, if only so much that nothing could be refuted
    lies = kept / (1 + math.exp(min(400.0, float(promise.epsilon))))
    return max(100, math.ceil(math.log(miss) / math.log1p(-lies) / (1 - _TRAINING - _PICKING)) + 10)


def _enough(samples: int, promise: Guarantee, level: Fraction) -> int:
    """Refuse samples that are too few to refute the claim whatever they show, and say how many could."""
    many, least = whole(samples, "samples", at_least=1), least_samples(promise, level)
    if many > _MOST_SAMPLES:
        raise InvalidParameter("samples", samples, f"at most {_MOST_SAMPLES}")
    if least > _MOST_SAMPLES:
        rule = f"an ε and a δ that {_MOST_SAMPLES} samples could refute"
        raise InvalidParameter("claim", promise, rule, fix="enumerate the mechanism, or audit a smaller claim")
    if many < least:
        rule = f"at least {least:,}, which could refute {promise} if the two worlds had no output in common"
        raise InvalidParameter("samples", samples, rule)
    return many


def _outputs(world: Sampler, count: int) -> Outputs:
    try:
        found = np.asarray(world(count))
    except ValueError:
        found = np.array(None)
    wide = found.ndim == 2 and not 0 < found.shape[1] <= MOST_COLUMNS
    if found.shape[:1] != (count,) or found.ndim > 2 or wide or found.dtype.kind not in "biuf":
        raise InvalidParameter(
            "mechanism", found.shape, f"functions that return {count} numbers, or rows of at most {MOST_COLUMNS}"
        )
    found = found.astype(np.int64) if found.dtype.kind == "b" else found
    return found if found.ndim == 2 else found[:, None]
