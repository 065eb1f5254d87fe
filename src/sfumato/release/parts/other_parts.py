"""This makes the parts of a question that are no totals, from what is asked.

Quantiles of a column are chosen by ranks in one recursion, the least and the greatest value each on their own.

The values of a column are measured beside totals: how many different ones there are, and which are frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import Unsupported
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.plan.aggregates.measures import MeasureSteps, Reads
from sfumato.plan.aggregates.ranked import Quantile
from sfumato.plan.aggregates.value_measures import DistinctValues, FrequentValue
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.dense_readings import Ranks, ValueCounts, Values
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.readings.value_readings import Differences, DifferentValues, Frequencies, ValueTable
from sfumato.plan.sharing import ReadingPart
from sfumato.plan.values.expressions import Expression
from sfumato.plan.words import words
from sfumato.policy import Value
from sfumato.privacy.numbers import Number, percent, shown
from sfumato.release.measurement import Measurement
from sfumato.release.parts.question_parts import ENDS, OtherPart, Strength, noise
from sfumato.release.parts.scales import ChosenScale, KeyColumn, NamedScale, NoiseScale, NoisyScale

_ESTIMATE = Fraction(1, 2)
"""What is left of the share of quantiles for themselves where a range of their values is bought: each of the two ends
has a quarter. With it, ranges reach about four times as far in ranks as the quantiles err without any.
"""
_LEAST, _MOST = Fraction(1, 10**6), Fraction(500)
"""For each row of a unit: below the one nothing is chosen but by chance, above the other nothing by chance."""


@dataclass(frozen=True)
class ChosenRanks:
    """Quantiles of one column are chosen in one recursion, for one share; the least value and the greatest for one
    each.
    """

    noisy: ClassVar[bool] = False

    bounded: BoundedPlan
    asked: tuple[Quantile, ...]
    confidence: Fraction | None = None
    """That with which bought ranges of the values hold; None where none are bought."""

    @property
    def cells(self) -> int:
        """Each may have two ends of a range beside it."""
        return 3 * len(self.asked)

    @property
    def _inner(self) -> list[Fraction]:
        return sorted({each.probability for each in self.asked} - {0, 1})

    @property
    def _outer(self) -> list[Fraction]:
        return sorted({each.probability for each in self.asked} & {0, 1})

    @property
    def shares(self) -> int:
        return bool(self._inner) + len(self._outer)

    def share_of(self, place: int) -> int:
        asked = self.asked[place].probability
        return bool(self._inner) + self._outer.index(asked) if asked in self._outer else 0

    def reading(self, groups: tuple[GroupKey, ...]) -> ValueCounts:
        return ValueCounts(self.bounded, groups)

    def measurements(self, strength: Strength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        """Return the quantiles, with a range the numbers around them, and then the ends."""
        view = Ranks(self.reading(()))
        settings = (view.ends, view.in_all, view.neighbours, bool(self.bounded.plan.keys))
        found: list[Quantiles] = []
        if self._inner:
            epsilon = _held(strength.epsilon(shares[0]), view.in_all)
            if self.confidence is None:
                found.append(Quantiles(self._inner, epsilon, *settings))
            else:
                estimate = Quantiles(self._inner, epsilon * _ESTIMATE, *settings)
                found += [estimate, *estimate.ends(epsilon * (1 - _ESTIMATE) / 2, self.confidence)]
        for chance, share in zip(self._outer, shares[bool(self._inner) :], strict=True):
            make = Quantiles.minimum if chance == 0 else Quantiles.maximum
            found.append(make(_held(strength.epsilon(share), view.in_all), *settings))
        return tuple(Measurement(view, each) for each in found)

    def draw(self, measurements: Sequence[Measurement], exact: Values) -> Integers:
        """Choose for every group what is asked, each beside the numbers around it where they are bought."""
        chosen = [each.mechanism.choose_groups(exact) for each in measurements]
        columns = [chosen[number][:, place] for each in self.asked for number, place in self._places(each)]
        return np.column_stack(columns)

    def _places(self, asked: Quantile) -> list[tuple[int, int]]:
        """Find the numbers of what is asked: the place of the measurement, and the column in it."""
        around = 1 if self.confidence is None else 3
        if asked.probability in self._outer:
            return [(bool(self._inner) * around + self._outer.index(asked.probability), 0)]
        return [(number, self._inner.index(asked.probability)) for number in range(around)]

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        return tuple(self._scale(each, measurements) for each in self.asked)

    def _scale(self, asked: Quantile, measurements: Sequence[Measurement]) -> ChosenScale:
        number, *ends = (measurements[number].mechanism for number, _ in self._places(asked))
        return ChosenScale(self.bounded.measures[0].step, number, asked.probability, *ends[:1])

    def steps(self, places: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return tuple(self.bounded.measures[0] for _ in places)

    def rehearsed(self, measurements: Sequence[Measurement]) -> Integers:
        value, scales = self.bounded.measures[0], self.scales(measurements)
        width = sum(each.columns for each in scales)
        return np.array([[end] * width for end in (value.low, value.high, value.low)], np.int64)

    def supposed(self, size: int) -> tuple[int, ...]:  # noqa: ARG002
        value = self.bounded.measures[0]
        places = (value.low + int(each.probability * (value.high - value.low)) for each in self.asked)
        numbers = zip(places, map(self._places, self.asked), strict=True)
        return tuple(place for place, columns in numbers for _ in columns)

    def with_ranges(self, confidence: Fraction | None) -> ChosenRanks:
        return replace(self, confidence=confidence) if self._inner else self

    def good_enough(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        """Name each choice by what it is for: where ranges are bought, there are more of them. A range that was bought
        to hold less often is not as good, however strong the choice of its ends.
        """
        around = () if self.confidence is None else ("below", "above")
        names = ["quantiles", *around] if self._inner else []
        names += ["greatest" if chance else "least" for chance in self._outer]
        found = {name: 1 / each.mechanism.epsilon for name, each in zip(names, measurements, strict=True)}
        return found if self.confidence is None else found | {"missed": 1 - self.confidence}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        of, sure = words(self.asked[0].value), f"with {percent(confidence)} confidence"
        scales = [(each, self._scale(each, measurements)) for each in self.asked]
        said = [f"{each.name} {_far(each, scale, confidence)}" for each, scale in scales]
        bought = "" if self.confidence is None else "; half of their share buys ranges of the values"
        drawn = "; ".join(dict.fromkeys(scale.words() for _, scale in scales))
        return f"{of}: {drawn}", f"{'; '.join(said)}, {sure}{bought}"


def _held(epsilon: Fraction, rows: int) -> Fraction:
    """Keep an ε within what choices can be drawn with: what is sharper chooses the same, for less."""
    return min(max(epsilon, _LEAST * rows), _MOST * rows)


def _far(asked: Quantile, scale: ChosenScale, confidence: Number) -> str:
    rows = f"{scale.rank(confidence):,.0f}"
    if asked.probability in (0, 1):
        side = "below" if asked.probability == 0 else "above"
        return f"from rank {abs(scale.mechanism.offset):,}, fixed by the price: at most {rows} rows lie {side} it"
    return f"within {rows} rows of its rank"


@dataclass(frozen=True)
class DifferentCounts:
    """The number of different values of a column in every group gets noise, for one share."""

    noisy: ClassVar[bool] = True

    bounded: BoundedPlan
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

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        (measurement,) = measurements
        return (NoisyScale(Fraction(1), measurement.mechanism),)

    def steps(self, places: Sequence[int]) -> tuple[MeasureSteps, ...]:
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

    bounded: BoundedPlan
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

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        (measurement,) = measurements
        names = KeyColumn(self.asked[0].value.domain.type, self.values)
        return (NamedScale(names, measurement.mechanism),) * len(self.asked)

    def steps(self, places: Sequence[int]) -> tuple[MeasureSteps, ...]:
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


Candidates = Callable[[Expression], tuple[Value, ...]]
"""Lists what a value may be, from the policy alone, or refuses."""


def other_part(bounded: BoundedPlan, part: ReadingPart, candidates: Candidates) -> OtherPart:
    """Make what is measured beside totals, under a bounding of its rows."""
    return _MADE[part.reads](bounded, part.asked, candidates)


_MADE: dict[Reads, Callable[[BoundedPlan, Any, Candidates], OtherPart]] = {
    Reads.RANKS: lambda bounded, asked, _: ChosenRanks(bounded, asked),
    Reads.DIFFERENT: lambda bounded, asked, _: DifferentCounts(bounded, asked),
    Reads.FREQUENT: lambda bounded, asked, candidates: ChosenValues(bounded, asked, candidates(asked[0].value)),
}
