"""Samples may refute a claim of (ε, δ)-DP: this finds out whether they do.

For an event S, ε ≥ ln((P(S) − δ)/Q(S)). With p below P(S) and q above Q(S), each except with probability β/2
(Clopper & Pearson), ln((p − δ)/q) is a lower bound of ε except with probability β. Events are picked on a first
part of the samples and measured on the rest, and β is shared over all events and both directions: a mechanism that
keeps its claim is refuted with probability at most 1 − confidence (Ding et al. 2018; Jagielski, Ullman & Oprea
2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import at_least, at_most
from sfumato.mechanisms.protocols import Additive
from sfumato.mechanisms.response import Response
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, whole

Sampler = Callable[[int], Any]
Outputs = NDArray[Any]
Labels = NDArray[np.int64]

_PICKING = 0.1  # the share of samples that events are picked on
_BINS = 512
_MOST_SAMPLES, _MOST_COLUMNS = 10**8, 64
_DRAWN, _BOUGHT = 1_000_000, 2_000
"""Samples in each world where nothing is said."""


@dataclass(frozen=True)
class Verdict:
    """A verdict says what the samples prove."""

    lower_bound: float
    """ε is at least this, with the stated confidence."""
    claim: Guarantee
    confidence: float
    event: str
    """Where the worlds were told apart best."""

    @property
    def holds(self) -> bool:
        """Tell whether the claim survives: the samples do not refute it."""
        return self.lower_bound <= float(self.claim.epsilon)

    def __str__(self) -> str:
        what = "is not refuted" if self.holds else "IS REFUTED"
        return (
            f"{self.claim} {what}: ε ≥ {self.lower_bound:.4f} with confidence {self.confidence:.4g}, from {self.event}"
        )


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
    one per world. Outputs are numbers, or rows of numbers. It may also be a proposal of a curator, such as a question:
    this is bought on invented neighbouring tables, at the price of the claim (``asked_worlds``). Without ``samples``
    there are a million, and 2,000 of what is bought.
    """
    promise = Guarantee.of(claim, "claim")
    asked = hasattr(mechanism, "release")
    many = (
        whole(_BOUGHT if asked else _DRAWN, "samples") if samples is None else whole(samples, "samples", at_least=100)
    )
    if many > _MOST_SAMPLES:
        raise InvalidParameter("samples", samples, f"at most {_MOST_SAMPLES}")
    level = exact(confidence, "confidence", INSIDE_UNIT)
    if asked:
        from sfumato.audit.asked_worlds import asked_worlds  # an engine, which mechanisms do not need

        mechanism = asked_worlds(mechanism, promise, many)
    first, second = (_outputs(world, many) for world in _worlds(mechanism, inputs))
    if first.shape != second.shape:
        raise InvalidParameter("mechanism", (first.shape, second.shape), "worlds whose outputs have one shape")
    picking = math.ceil(many * _PICKING)
    candidates = list(_events(first[:picking], second[:picking], float(promise.delta)))
    miss = float(1 - level) / max(1, len(candidates)) / 2
    bounds = [
        (_proven(event, first[picking:], second[picking:], float(promise.delta), miss), event.name)
        for event in candidates
    ]
    best, name = max(bounds, default=(0.0, "nothing"))
    return Verdict(max(0.0, best), promise, float(level), name if best > 0 else "no event")


def _worlds(mechanism: Any, inputs: tuple[Any, Any]) -> tuple[Sampler, Sampler]:
    if isinstance(mechanism, Sequence) and len(mechanism) == 2 and all(callable(world) for world in mechanism):
        return mechanism[0], mechanism[1]
    if not isinstance(inputs, tuple) or len(inputs) != 2:
        raise InvalidParameter("inputs", inputs, "a pair of neighbouring inputs")
    run = _run(mechanism)

    def world(value: Any) -> Sampler:
        row = np.asarray(value)
        return lambda count: run(np.broadcast_to(row, (count, *row.shape)).copy())

    return world(inputs[0]), world(inputs[1])


def _run(mechanism: Any) -> Callable[[Any], Any]:
    """Give a function that runs the mechanism on many inputs at once."""
    if isinstance(mechanism, Additive):
        return mechanism.apply
    if isinstance(mechanism, Response):
        return mechanism.choose
    rule = "additive noise, a randomised response, or a pair of functions count → outputs"
    raise InvalidParameter("mechanism", mechanism, rule)


def _outputs(world: Sampler, count: int) -> Outputs:
    try:
        found = np.asarray(world(count))
    except ValueError:
        found = np.array(None)
    wide = found.ndim == 2 and not 0 < found.shape[1] <= _MOST_COLUMNS
    if found.shape[:1] != (count,) or found.ndim > 2 or wide or found.dtype.kind not in "biuf":
        raise InvalidParameter(
            "mechanism", found.shape, f"functions that return {count} numbers, or rows of at most {_MOST_COLUMNS}"
        )
    found = found.astype(np.int64) if found.dtype.kind == "b" else found
    return found if found.ndim == 2 else found[:, None]


@dataclass(frozen=True)
class _Event:
    name: str
    label: Callable[[Outputs], Labels]
    chosen: NDArray[np.bool_]
    swapped: bool

    def count(self, outputs: Outputs) -> int:
        labels = self.label(outputs)
        inside = (labels >= 0) & (labels < len(self.chosen))
        return int(np.count_nonzero(self.chosen[labels[inside]]))


def _proven(event: _Event, first: Outputs, second: Outputs, delta: float, miss: float) -> float:
    """Compute the ε this event proves on fresh samples; −∞ when none."""
    p_world, q_world = (second, first) if event.swapped else (first, second)
    p = at_least(event.count(p_world), len(p_world), miss) - delta
    q = at_most(event.count(q_world), len(q_world), miss)
    return math.log(p / q) if p > 0 and q > 0 else -math.inf


def _events(first: Outputs, second: Outputs, delta: float) -> Iterator[_Event]:
    """Find, for each way of labelling outputs and each direction, the most telling ray and the most telling set of
    labels.
    """
    for name, label in _labellings(first, second):
        p, q = (np.bincount(np.maximum(label(side), 0), minlength=1) for side in (first, second))
        size = max(len(p), len(q))
        p, q = (np.bincount(np.maximum(label(side), 0), minlength=size) for side in (first, second))
        rising = np.arange(size)
        for swapped, (a, b) in ((False, (p, q)), (True, (q, p))):
            rays = [_best_start(a, b, order, delta) for order in (rising, rising[::-1])]
            yield _Event(f"a ray of {name}", label, max(rays, key=lambda ray: ray[0])[1], swapped)
            by_ratio = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
            yield _Event(f"a set of {name}", label, _best_start(a, b, by_ratio, delta)[1], swapped)


def _best_start(
    p: NDArray[np.int64], q: NDArray[np.int64], order: NDArray[np.intp], delta: float
) -> tuple[float, NDArray[np.bool_]]:
    """Take the first labels in this order, as many as make a rough lower bound of ε largest, and give that bound."""
    a, b = np.cumsum(p[order]), np.cumsum(q[order])
    sure_p = (a - 3.0 * np.sqrt(a * (1 - a / a[-1]) + 1)) / a[-1] - delta
    sure_q = (b + 3.0 * np.sqrt(b * (1 - b / b[-1]) + 1) + 5) / b[-1]
    score = np.where(sure_p > 0, np.log(np.maximum(sure_p, 1e-300) / sure_q), -np.inf)
    best = int(np.argmax(score))
    chosen = np.zeros(len(p), bool)
    chosen[order[: best + 1]] = True
    return float(score[best]), chosen


def _labellings(first: Outputs, second: Outputs) -> Iterator[tuple[str, Callable[[Outputs], Labels]]]:
    """List ways to see an output: each column's value, differences of columns, and the last bit a float uses."""
    columns = first.shape[1]
    for i in range(columns):
        yield f"column {i}" if columns > 1 else "the value", _by_value(first, second, partial(_column, i))
    for i in range(columns - 1):
        yield f"column {i + 1} minus column {i}", _by_value(first, second, partial(_step, i))
    if first.dtype.kind == "f":
        yield "the last bit a float uses", lambda x: _last_bit(x[:, 0])


def _column(i: int, outputs: Outputs) -> Outputs:
    return outputs[:, i]


def _step(i: int, outputs: Outputs) -> Outputs:
    return outputs[:, i + 1] - outputs[:, i]


def _by_value(first: Outputs, second: Outputs, column: Callable[[Outputs], Outputs]) -> Callable[[Outputs], Labels]:
    """Give each distinct value its own label when there are few, quantile bins otherwise."""
    seen = np.concatenate([column(first), column(second)])
    distinct = np.unique(seen)
    edges = distinct if len(distinct) <= _BINS else np.unique(np.quantile(seen, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return lambda x: np.searchsorted(edges, column(x), side="right").astype(np.int64)


def _last_bit(values: Outputs) -> Labels:
    """Find the exponent of the lowest bit set in each float: coarse sums leave no fine bits."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    whole_mantissa = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(whole_mantissa == 0, 0, np.log2(np.maximum(1, whole_mantissa & -whole_mantissa))).astype(np.int64)
    return np.clip(lowest + exponent + 200, 0, 500)
