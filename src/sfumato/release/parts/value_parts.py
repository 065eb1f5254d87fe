"""The values of a column are measured beside totals: how many different ones there are, and which are frequent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.errors import Unsupported
from sfumato.mechanisms import FrequentValues
from sfumato.plan.aggregates.measures import Steps
from sfumato.plan.aggregates.value_measures import DistinctValues, FrequentValue
from sfumato.plan.bounding import Bounded
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.readings.value_readings import Differences, DifferentValues, Frequencies, ValueTable
from sfumato.plan.words import words
from sfumato.policy import Value
from sfumato.privacy.numbers import Number, percent, shown
from sfumato.release.measurement import Measurement
from sfumato.release.parts.group_keys import KeyColumn
from sfumato.release.parts.question_parts import ENDS, Strength, noise
from sfumato.release.parts.scales import NamedScale, NoisyScale, Scale


@dataclass(frozen=True)
class DifferentCounts:
    """The number of different values of a column in every group gets noise, for one share."""

    noisy: ClassVar[bool] = True

    bounded: Bounded
    asked: tuple[DistinctValues, ...]

    @property
    def cells(self) -> int:
        return 1

    @property
    def shares(self) -> int:
        return 1

    def share_of(self, place: int) -> int:  # noqa: ARG002
        return 0

    def reading(self, groups: tuple[GroupKey, ...]) -> DifferentValues:
        return DifferentValues(self.bounded, self.asked[0].value, groups)

    def measurements(self, strength: Strength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        (share,), view = shares, Differences(self.reading(()))
        return (Measurement(view, noise(strength, view.sensitivity, share)),)

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        (measurement,) = measurements
        drawn: Integers = measurement.draw(measurement.reading.of(exact))
        return drawn

    def scales(self, measurements: Sequence[Measurement]) -> tuple[Scale, ...]:
        (measurement,) = measurements
        return (NoisyScale(Fraction(1), measurement.mechanism),)

    def steps(self, places: Sequence[int]) -> tuple[Steps, ...]:
        return (self.bounded.measures[0],) * len(places)

    def rehearsed(self, measurements: Sequence[Measurement]) -> Integers:
        return self.draw(measurements, np.array([[end] for end in ENDS], np.int64))

    def supposed(self, size: int) -> tuple[int, ...]:
        return (size,)

    def with_ranges(self, confidence: Fraction | None) -> DifferentCounts:  # noqa: ARG002
        return self

    def good_enough(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:  # noqa: ARG002
        return {}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        (measurement,), moved = measurements, self.bounded.measures[0].sensitivity
        width, of = measurement.mechanism.error(confidence), words(self.asked[0].value)
        most = f"one unit moves it by at most {shown(float(moved.l1))} in all, {shown(float(moved.linf))} in a group"
        what = f"different values of {of}; {measurement.mechanism.words()}"
        return what, f"{most}; ±{shown(float(width))} with {percent(confidence)} confidence"


@dataclass(frozen=True)
class ChosenValues:
    """The most frequent of some public values are chosen in every group, for one share."""

    noisy: ClassVar[bool] = False

    bounded: Bounded
    asked: tuple[FrequentValue, ...]
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        k, count = self.asked[0].k, len(self.values)
        if k > count:
            rule = f"the most frequent of {words(self.asked[0].value)} are chosen among what it may be: {count} values"
            fix = f"ask for at most {count}" if count else "ask for a column with declared values"
            raise Unsupported("too-few-values", rule, fix=fix)

    @property
    def cells(self) -> int:
        return len(self.values)

    @property
    def shares(self) -> int:
        return 1

    def share_of(self, place: int) -> int:  # noqa: ARG002
        return 0

    def reading(self, groups: tuple[GroupKey, ...]) -> ValueTable:
        return ValueTable(self.bounded, self.asked[0].value, groups, self.values)

    def measurements(self, strength: Strength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        (share,), view = shares, Frequencies(self.reading(()))
        k = self.asked[0].k  # choices, each for an equal part of the share
        choice = FrequentValues(k * strength.epsilon(share / k), view.in_all, k, view.neighbours)
        return (Measurement(view, choice),)

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        (measurement,) = measurements
        chosen: Integers = measurement.draw(measurement.reading.of(exact))
        return chosen[:, [each.place for each in self.asked]]

    def scales(self, measurements: Sequence[Measurement]) -> tuple[Scale, ...]:
        (measurement,) = measurements
        names = KeyColumn(self.asked[0].value.domain.type, self.values)
        return (NamedScale(names, measurement.mechanism),) * len(self.asked)

    def steps(self, places: Sequence[int]) -> tuple[Steps, ...]:
        return (self.bounded.measures[0],) * len(places)

    def rehearsed(self, measurements: Sequence[Measurement]) -> Integers:
        ends = np.array(ENDS, np.int64)
        return self.draw(measurements, ends[(np.arange(len(self.values)) + np.arange(3)[:, None]) % len(ends)])

    def supposed(self, size: int) -> tuple[int, ...]:  # noqa: ARG002
        return (0,) * len(self.asked)

    def with_ranges(self, confidence: Fraction | None) -> ChosenValues:  # noqa: ARG002
        return self

    def good_enough(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        (measurement,) = measurements
        return {"values": 1 / measurement.mechanism.epsilon}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        (measurement,) = measurements
        what = f"{words(self.asked[0].value)}: {measurement.mechanism.words()}, of {len(self.values):,}"
        return what, measurement.mechanism.promise(len(self.values), confidence)
