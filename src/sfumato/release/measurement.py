"""A measurement is a reading and the mechanism that is run on it; a batch of measurements is one release.

What a measurement leaks is always computed from the mechanism and from what the reading proves. It is never stated
beside them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles
from sfumato.mechanisms.protocols import Additive, SelectionMechanism
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.cell_rows import SetMisfits
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.dense_readings import Marginal, Misfits, Ranks
from sfumato.plan.readings.total_readings import (
    ChosenGroups,
    GroupSizes,
    Holders,
    Integers,
    LinearScores,
    LinearTotals,
    Supports,
    Totals,
)
from sfumato.plan.readings.value_readings import Differences, Frequencies, SteppedTotal
from sfumato.privacy import Curve, Neighbours, Sensitivity, compose
from sfumato.privacy.numbers import text


class Scoring(SelectionMechanism, Protocol):
    """A scoring is a selection by scores: it looks at nothing but their differences."""

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def rate(self) -> Fraction:
        """Say by how much the logarithm of a candidate's weight falls per point of its score."""
        ...

    @property
    def grid(self) -> Fraction: ...

    @property
    def neighbours(self) -> Neighbours: ...


class Noised(Protocol):
    """This is a view of what was read to which noise is added: numbers, with a bound of what one unit changes that
    follows from the bounded plan.
    """

    @property
    def bounded(self) -> BoundedPlan: ...

    @property
    def sensitivity(self) -> Sensitivity: ...

    def of(self, exact: Any) -> Integers:
        """Give the numbers, from what was read."""
        ...


_CHOICES = (LinearScores, Misfits, SetMisfits, Holders, Ranks, Frequencies, SteppedTotal)


@dataclass(frozen=True)
class Measurement:
    """A measurement is a mechanism on a reading: noise on totals, a choice by scores, or of keys by who holds them."""

    reading: (
        Totals
        | LinearTotals
        | FactoredTotals
        | Marginal
        | Supports
        | ChosenGroups
        | GroupSizes
        | Differences
        | LinearScores
        | Misfits
        | SetMisfits
        | Holders
        | Ranks
        | Frequencies
        | SteppedTotal
        | Noised
    )
    mechanism: Any
    """An ``Additive`` for totals, a ``Scoring`` for scores, a ``KeyThreshold`` for keys, ``Quantiles`` for ranks, an
    ``AboveThreshold`` for what is compared."""

    def __post_init__(self) -> None:
        if isinstance(self.reading, (LinearScores, Misfits, SetMisfits)):
            _require_covered(self.reading, self.mechanism)
        elif isinstance(self.reading, Holders):
            _require_every_key(self.reading, self.mechanism)
        elif isinstance(self.reading, (Ranks, Frequencies)):
            _require_every_row(self.reading, self.mechanism)
        elif isinstance(self.reading, SteppedTotal):
            _require_within(self.reading, self.mechanism)

    @property
    def sensitivity(self) -> Sensitivity | None:
        """Bound what one unit moves, for noise; None for a choice, whose mechanism holds that itself."""
        return None if isinstance(self.reading, _CHOICES) else self.reading.sensitivity

    @property
    def curve(self) -> Curve:
        """Say what it leaks."""
        return self.mechanism.curve() if self.sensitivity is None else self.mechanism.curve(self.sensitivity)

    def draw(self, exact: Integers) -> Any:
        """Draw the noisy values, the place of the chosen candidate, or which keys are kept."""
        return self.mechanism.choose(exact) if self.sensitivity is None else noisy(self.mechanism, exact)


@dataclass(frozen=True)
class Batch:
    """A batch is measurements that are drawn and charged together: one entry in the ledger.

    They may be of several bounded plans: what they leak composes whatever each of them reads, because each draws
    randomness of its own, that of samples too.
    """

    measurements: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        if not self.measurements:
            raise InvalidParameter("measurements", "none", "at least one measurement")

    @property
    def bounded(self) -> BoundedPlan:
        """Give the plan that the first of them reads."""
        return self.measurements[0].reading.bounded

    @property
    def mechanisms(self) -> tuple[Any, ...]:
        """List what is run, in order."""
        return tuple(each.mechanism for each in self.measurements)

    @cached_property
    def charged(self) -> tuple[Charged, ...]:
        """Say what is run with what sensitivity and how often, as the ledger keeps it: the plan of the batch."""
        counted = Counter((each.mechanism, each.sensitivity) for each in self.measurements)
        return tuple(Charged(mechanism, moved, times) for (mechanism, moved), times in counted.items())

    @cached_property
    def curve(self) -> Curve:
        """Say what all of them leak together."""
        return compose(each.curve for each in self.charged)


def noisy(mechanism: Additive, exact: Integers) -> Integers:
    """Add fresh noise to every number."""
    if exact.size == 1:  # without the cost of arrays
        return np.full(exact.shape, mechanism.apply(int(exact.flat[0])), np.int64)
    return mechanism.apply(exact)


def _require_covered(reading: LinearScores | Misfits | SetMisfits, mechanism: Scoring) -> None:
    """A selection's ε must pay for the spread that the reading proves; whole scores stay whole on its grid."""
    if mechanism.neighbours is not reading.neighbours:
        rule = f"stated for the neighbours of the policy, {reading.neighbours.value}"
        raise InvalidParameter("mechanism", repr(mechanism), rule)
    if mechanism.grid > 1 or mechanism.rate * reading.spread > mechanism.epsilon:
        rule = "one whose sensitivity covers the scores: a unit moves one score further than another by up to "
        raise InvalidParameter("mechanism", repr(mechanism), f"{rule}{reading.spread}")


def _require_every_key(reading: Holders, mechanism: KeyThreshold) -> None:
    """A threshold pays for as many keys as one unit can hold, for the neighbours of the policy."""
    enough = mechanism.max_groups >= reading.most and mechanism.weighted >= reading.weighted
    if not enough or mechanism.neighbours is not reading.neighbours:
        rule = f"one for {reading.most} keys of a unit under {reading.neighbours.value}"
        raise InvalidParameter("mechanism", repr(mechanism), rule)


def _require_every_row(reading: Ranks | Frequencies, mechanism: Quantiles | FrequentValues) -> None:
    """A choice by ranks pays for as many rows as one unit has, for the neighbours of the policy."""
    several = isinstance(mechanism, Quantiles) and bool(reading.bounded.plan.keys) and not mechanism.grouped
    if several or mechanism.neighbours is not reading.neighbours or mechanism.rows_per_unit < reading.in_all:
        rule = f"one for {reading.in_all} rows of a unit under {reading.neighbours.value}"
        raise InvalidParameter("mechanism", repr(mechanism), rule)


def _require_within(reading: SteppedTotal, mechanism: AboveThreshold) -> None:
    """A session was charged for questions that one unit moves by so much, and all the same way where it says so."""
    if mechanism.neighbours is not reading.neighbours:
        rule = f"stated for the neighbours of the policy, {reading.neighbours.value}"
        raise InvalidParameter("mechanism", repr(mechanism), rule)
    if reading.most > mechanism.sensitivity:
        moved, most = (text(steps * reading.grid) for steps in (reading.most, mechanism.sensitivity))
        rule = f"at most {most}, for which the session was opened"
        fix = f"tighten the question, such as .limit(rows=1), or open a session with sensitivity={moved}"
        raise InvalidParameter("what one unit changes in this question", moved, rule, fix=fix)
    if mechanism.monotone and not reading.rises:
        rule = "none in this session: it was opened for questions that only grow when a unit is added"
        fix = "add up values that are not negative, or open a session with monotone=False"
        raise InvalidParameter("values below 0 that are added up", "declared as possible", rule, fix=fix)
