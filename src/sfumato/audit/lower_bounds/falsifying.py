"""Samples may refute a claim of (ε, δ)-DP: this finds out whether they do.

For an event S, ε ≥ ln((P(S) − δ)/Q(S)). With p below P(S) and q above Q(S), each except with probability β/2
(Clopper & Pearson), ln((p − δ)/q) is a lower bound of ε except with probability β. Samples are parted before anything
is looked at: a classifier is trained on the first, events are picked on the next, and all that is proven is measured on
the rest. Given the first two parts the events are fixed and the rest is fresh, so β is shared over the events that are
measured, each in its own direction, and over both limits: a mechanism that keeps its claim is refuted with probability
at most 1 − confidence (Ding et al. 2018; Jagielski, Ullman & Oprea 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.lower_bounds.mechanism_runs import MOST_COLUMNS, Sampler, runs, usual_samples
from sfumato.audit.lower_bounds.telling_events import Event, Outputs, best, candidates, plain_views
from sfumato.audit.lower_bounds.told_laws import told_laws
from sfumato.audit.lower_bounds.trained_events import MOST_ROWS, trained_views
from sfumato.audit.lower_bounds.verdicts import CONFIDENCES, Verdict, missed
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import at_least, at_most
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, exact, whole

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
