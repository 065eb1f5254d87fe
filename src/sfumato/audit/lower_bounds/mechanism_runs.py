"""A mechanism of ours is run very often on one input, through the function that releases with it.

Additive noise, reports, key thresholds, frequent values and quantiles take many inputs at once. Choices by scores and
sparse vectors are made one at a time, as in a release. Outputs are rows of numbers; where a report is too long for
that, what is kept of it is all that can tell the two inputs apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SessionClosed
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles
from sfumato.mechanisms.protocols import Additive, Selection
from sfumato.mechanisms.response import OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse
from sfumato.mechanisms.selection import Scored
from sfumato.privacy import Neighbours

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
    if isinstance(mechanism, Scored | Quantiles) and isinstance(mechanism, Selection):
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
