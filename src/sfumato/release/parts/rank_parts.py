"""Quantiles of a column are chosen by ranks in one recursion, the least and the greatest value each on their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.mechanisms import Quantiles
from sfumato.plan.aggregates.measures import Steps
from sfumato.plan.aggregates.ranked import Quantile
from sfumato.plan.bounding import Bounded
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.dense_readings import Ranks, ValueCounts, Values
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.words import words
from sfumato.privacy.numbers import Number, percent
from sfumato.release.measurement import Measurement
from sfumato.release.parts.question_parts import Strength
from sfumato.release.parts.scales import ChosenScale, Scale

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

    bounded: Bounded
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
        """Give the quantiles, with a range the numbers around them, and then the ends."""
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

    def scales(self, measurements: Sequence[Measurement]) -> tuple[Scale, ...]:
        return tuple(self._scale(each, measurements) for each in self.asked)

    def _scale(self, asked: Quantile, measurements: Sequence[Measurement]) -> ChosenScale:
        number, *ends = (measurements[number].mechanism for number, _ in self._places(asked))
        return ChosenScale(self.bounded.measures[0].step, number, asked.probability, *ends[:1])

    def steps(self, places: Sequence[int]) -> tuple[Steps, ...]:
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
