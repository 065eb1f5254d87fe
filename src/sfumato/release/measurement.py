"""Measurements: a mechanism applied to a reading. A batch of measurements is one release.

The privacy curve of a measurement is always computed from the mechanism and the sensitivity that the reading proves; it
is never stated separately.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.ledger import Charged
from sfumato.ledger.spending import SampledCharge
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles
from sfumato.mechanisms.protocols import Additive, SelectionMechanism
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.cell_rows import ColumnSetDistances, RanksOfCells
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.dense_readings import (
    CountDistances,
    DistinctCounts,
    Marginal,
    Ranks,
    SteppedTotal,
    ValueFrequencies,
)
from sfumato.plan.readings.total_readings import (
    ChosenGroups,
    GroupSizeHistogram,
    KeyHolders,
    LinearScores,
    LinearTotals,
    MeasureTotals,
    RowsReachingCandidates,
)
from sfumato.privacy import Curve, Neighbours, Sensitivity, compose
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass


class CalibratedSelection(SelectionMechanism, Protocol):
    """A selection mechanism that depends only on the differences between scores."""

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def monotone(self) -> bool:
        """Whether one unit changes all scores in the same direction."""
        ...

    @property
    def rate(self) -> Fraction:
        """By how much the logarithm of a candidate's weight falls per point of score."""
        ...

    @property
    def grid(self) -> Fraction: ...

    @property
    def neighbours(self) -> Neighbours: ...


class NoisyView(Protocol):
    """A view of a reading as integers to which noise is added, with the sensitivity that the bounded plan proves."""

    @property
    def bounded(self) -> BoundedPlan: ...

    @property
    def sensitivity(self) -> Sensitivity: ...

    def extract(self, exact: Any) -> Integers:
        """Return the integers, given the engine's exact result."""
        ...


_SELECTIONS = (
    LinearScores,
    CountDistances,
    ColumnSetDistances,
    KeyHolders,
    Ranks,
    RanksOfCells,
    ValueFrequencies,
    SteppedTotal,
)


@dataclass(frozen=True)
class Measurement:
    """A mechanism applied to a reading: noise on totals, a selection by scores, or a selection of keys by their
    holders.
    """

    reading: (
        MeasureTotals
        | LinearTotals
        | FactoredTotals
        | Marginal
        | RowsReachingCandidates
        | ChosenGroups
        | GroupSizeHistogram
        | DistinctCounts
        | LinearScores
        | CountDistances
        | ColumnSetDistances
        | KeyHolders
        | Ranks
        | RanksOfCells
        | ValueFrequencies
        | SteppedTotal
        | NoisyView
    )
    mechanism: Any
    """An ``Additive`` for totals, a ``Scoring`` for scores, a ``KeyThreshold`` for keys, ``Quantiles`` for ranks, an
    ``AboveThreshold`` for comparisons."""

    def __post_init__(self) -> None:
        if isinstance(self.reading, (LinearScores, CountDistances, ColumnSetDistances)):
            _require_covered_spread(self.reading, self.mechanism)
        elif isinstance(self.reading, KeyHolders):
            _require_covered_keys(self.reading, self.mechanism)
        elif isinstance(self.reading, (Ranks, ValueFrequencies)):
            lacks_groups = isinstance(self.mechanism, Quantiles) and not self.mechanism.grouped
            _require_covered_rows(self.reading, self.mechanism, bool(self.reading.bounded.plan.keys) and lacks_groups)
        elif isinstance(self.reading, RanksOfCells):  # keys are the cells themselves: all rows are in one group
            _require_covered_rows(self.reading, self.mechanism, self.mechanism.bounds != self.reading.ends)
        elif isinstance(self.reading, SteppedTotal):
            _require_session_sensitivity(self.reading, self.mechanism)

    @property
    def sensitivity(self) -> Sensitivity | None:
        """The sensitivity of the reading, for noise; None for a selection, whose mechanism has its own."""
        return None if isinstance(self.reading, _SELECTIONS) else self.reading.sensitivity

    @property
    def curve(self) -> Curve:
        return self.mechanism.curve() if self.sensitivity is None else self.mechanism.curve(self.sensitivity)

    def draw(self, exact: Integers) -> Any:
        """Draw the noisy values, the index of the selected candidate, or which keys are selected."""
        return self.mechanism.choose(exact) if self.sensitivity is None else add_noise(self.mechanism, exact)


@dataclass(frozen=True)
class Batch:
    """Measurements that are charged and drawn together: one entry in the ledger.

    They may read several bounded plans: their curves compose whatever each reads, because each draws independent
    randomness, for sampling too. Where the plans read a secret sample of the units it is one sample for all of them,
    and the composition is amplified as a whole.
    """

    measurements: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        if not self.measurements:
            raise InvalidParameter("measurements", (), "non-empty", fix="give at least one measurement")
        if len({measurement.reading.bounded.sample for measurement in self.measurements}) > 1:
            raise InvalidParameter(
                "measurements",
                self.measurements,
                "all over all units, or all over the same sample of units",
                fix="release the measurements of the sample on their own",
            )

    @property
    def bounded(self) -> BoundedPlan:
        """The plan of the first measurement."""
        return self.measurements[0].reading.bounded

    @property
    def mechanisms(self) -> tuple[Any, ...]:
        return tuple(measurement.mechanism for measurement in self.measurements)

    @cached_property
    def mechanism_charges(self) -> tuple[Charged, ...]:
        """Each mechanism with its sensitivity and number of runs."""
        run_counts = Counter((measurement.mechanism, measurement.sensitivity) for measurement in self.measurements)
        return tuple(Charged(mechanism, sensitivity, runs) for (mechanism, sensitivity), runs in run_counts.items())

    @cached_property
    def charged(self) -> tuple[Charged | SampledCharge, ...]:
        """What the ledger records: each mechanism, or all of them on a sample of the units."""
        sample = self.bounded.sample
        return self.mechanism_charges if sample is None else (SampledCharge(self.mechanism_charges, sample),)

    @cached_property
    def curve(self) -> Curve:
        """The composition of all measurements."""
        return compose(charged.curve for charged in self.charged)


def add_noise(mechanism: Additive, exact: Integers) -> Integers:
    """Add fresh noise to every number."""
    if exact.size == 1:  # avoids the overhead of arrays
        return np.full(exact.shape, mechanism.apply(int(exact.flat[0])), np.int64)
    return mechanism.apply(exact)


def _require_covered_spread(
    reading: LinearScores | CountDistances | ColumnSetDistances, mechanism: CalibratedSelection
) -> None:
    """Require that a selection's ε covers the spread that the reading proves, and its grid keeps integer scores."""
    if mechanism.neighbours is not reading.neighbours:
        rule = f'made for neighbours="{reading.neighbours.value}", as in the policy'
        fix = f'write neighbours="{reading.neighbours.value}" in the mechanism'
        raise InvalidParameter("mechanism", repr(mechanism), rule, fix=fix)
    if mechanism.grid > 1:
        raise InvalidParameter(
            "mechanism", repr(mechanism), "made for whole-number scores, with a grid of at most 1", fix="write grid=1"
        )
    bound = reading.score_difference_bound
    if mechanism.rate * bound > mechanism.epsilon:
        spread = (
            f"made for scores whose differences change by up to {bound} when one unit is added, removed or replaced"
        )
        least = bound / (1 if mechanism.monotone else 2)
        fix = f"write sensitivity={format_exact(least)} or more in the mechanism"
        raise InvalidParameter("mechanism", repr(mechanism), spread, fix=fix)


def _require_covered_keys(reading: KeyHolders, mechanism: KeyThreshold) -> None:
    """Require that a threshold covers as many keys as one unit can hold, under the neighbours of the policy."""
    covers_keys = mechanism.max_groups >= reading.max_keys_per_unit and mechanism.weighted >= reading.is_weighted
    if not covers_keys or mechanism.neighbours is not reading.neighbours:
        rule = f"made for {reading.max_keys_per_unit} keys per unit and {reading.neighbours.value} neighbours"
        fix = f"write max_groups={reading.max_keys_per_unit} in the mechanism"
        raise InvalidParameter("mechanism", repr(mechanism), rule, fix=fix)


def _require_covered_rows(
    reading: Ranks | RanksOfCells | ValueFrequencies, mechanism: Quantiles | FrequentValues, is_unfit: bool
) -> None:
    """Require that a selection by ranks covers as many rows as one unit has, under the neighbours of the policy."""
    if is_unfit or mechanism.neighbours is not reading.neighbours or mechanism.rows_per_unit < reading.rows_per_unit:
        rule = f"made for {reading.rows_per_unit} rows per unit and {reading.neighbours.value} neighbours"
        fix = f"write rows_per_unit={reading.rows_per_unit} in the mechanism"
        raise InvalidParameter("mechanism", repr(mechanism), rule, fix=fix)


def _require_session_sensitivity(reading: SteppedTotal, mechanism: AboveThreshold) -> None:
    """Require that a question is within the sensitivity that the session was charged for, and monotone if it was."""
    if mechanism.neighbours is not reading.neighbours:
        rule = f'made for neighbours="{reading.neighbours.value}", as in the policy'
        fix = f'write neighbours="{reading.neighbours.value}" in the mechanism'
        raise InvalidParameter("mechanism", repr(mechanism), rule, fix=fix)
    if reading.max_change_in_steps > mechanism.sensitivity:
        change, allowed = (
            format_exact(steps * reading.grid) for steps in (reading.max_change_in_steps, mechanism.sensitivity)
        )
        rule = f"at most {allowed}, the sensitivity that the session was opened with"
        fix = f"lower the limits, for example .limit(rows=1), or open a session with sensitivity={change}"
        raise InvalidParameter("the sensitivity of this question", ValueWords(change), rule, fix=fix)
    if mechanism.monotone and not reading.is_monotone:
        rule = "over values that cannot be negative: answers in this session may only grow when a unit is added"
        fix = "write, for example, SUM(GREATEST(x, 0)), or open a session with monotone=False"
        raise InvalidParameter("the sum", ValueWords("values that may be negative"), rule, fix=fix)
