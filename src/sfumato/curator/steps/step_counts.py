"""Units are counted on the steps of a ladder, with noise; steps are chosen; and who lies inside and outside is counted.

Both are one batch of a plan in which every unit has one row, so one unit moves the counts of the steps by 1 in all (2
when it is replaced), and the two numbers too. The choice is made of noisy counts alone (``ladders``), so it is free,
and the two numbers are an adaptive second measurement: the costs add up (Dwork, McSherry, Nissim & Smith 2006).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.previews.explaining import Operator
from sfumato.curator.steps.ladders import Span, seen, surely_inside, trimmed
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Laplace
from sfumato.plan.bounding import Bounded
from sfumato.plan.readings.total_readings import ChosenGroups, Integers, LinearTotals, Matrix, Totals
from sfumato.privacy import codec
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent
from sfumato.release.measurement import Measurement
from sfumato.release.prices import rounded_up

_COUNTING = Fraction(1, 5)
"""The share of the price that pays for the numbers inside and outside."""


@codec.value("step-counts")
@dataclass(frozen=True)
class StepCounts:
    """These are noisy numbers of units on each step of a ladder, the steps that were chosen, and noisy numbers of the
    units on these and on the others.
    """

    counts: tuple[int, ...]
    first: int | None
    """The first step that was chosen, and the last; None where nothing was found."""
    last: int | None
    inside: int
    outside: int
    noise: Laplace = field(repr=False)
    counter: Laplace = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        codec.check_fields(self)
        if not self.counts or not all(type(each) is int for each in self.counts):
            raise InvalidParameter("counts", "something else", "whole numbers")

    @property
    def span(self) -> Span | None:
        """Give both ends of the chosen steps."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    def rank_error(self, confidence: Number = "0.95") -> int:
        """The numbers inside and outside are each within this of the exact one, with this confidence."""
        return int(self.counter.error(confidence))

    def covered(self, confidence: Number = "0.95") -> tuple[Fraction, Fraction]:
        """Say which share of the units lies inside, with this confidence: both numbers are within their errors then."""
        reach = int(self.counter.error(confidence, k=2))
        least, most = max(0, self.inside - reach), max(0, self.inside) + reach
        fewest, many = max(0, self.outside - reach), max(0, self.outside) + reach
        return _share(least, many), _share(most, fewest)


def _share(inside: int, outside: int) -> Fraction:
    return Fraction(inside, inside + outside) if inside + outside else Fraction(0)


@dataclass(frozen=True)
class StepSearch:
    """This says what is measured of one ladder: the counts of its steps, and the numbers inside the chosen ones and
    outside.
    """

    steps: Measurement
    split: Measurement
    place: tuple[int, ...]
    """For each group of the plan, the step it is on."""
    uncovered: tuple[Fraction, Fraction]
    """The shares that may be left out, at the low and the high end."""
    from_first: bool
    """Whether what is chosen always begins at the first step."""

    @classmethod
    def of(
        cls,
        bounded: Bounded,
        place: tuple[int, ...],
        epsilon: Fraction,
        uncovered: tuple[Fraction, Fraction],
        *,
        from_first: bool = False,
    ) -> StepSearch:
        """Calibrate both measurements: together they cost ε."""
        totals = Totals(bounded)
        counts, chosen = _on_steps(totals, place), ChosenGroups(totals)
        noise = Laplace(counts.sensitivity.l1 / (epsilon * (1 - _COUNTING)))
        counter = Laplace(chosen.sensitivity.l1 / (epsilon * _COUNTING))
        return cls(Measurement(counts, noise), Measurement(chosen, counter), place, uncovered, from_first)

    @property
    def measurements(self) -> tuple[Measurement, Measurement]:
        return self.steps, self.split

    def error(self, confidence: Number) -> int:
        """Say how many units a step holds that is surely chosen, unless its share may be left out."""
        return surely_inside(self.steps.mechanism, max(self.place) + 1, confidence)

    def rank_error(self, confidence: Number) -> int:
        """Say how well the numbers inside and outside will be known."""
        return int(self.split.mechanism.error(confidence))

    def operators(self, what: str, chosen: str, confidence: Number) -> tuple[Operator, ...]:
        """Tell the steps of the search in words: what is counted, and which steps are chosen."""
        sure = f"with {percent(exact(confidence, 'confidence', CONFIDENCE))} confidence"
        counts, split = (each.mechanism.words() for each in self.measurements)
        missed = f"no step with {self.error(confidence):,} or more {what} lies outside, but for the share left out"
        return (
            Operator("count", f"{what} on each step", f"{counts}: one unit is on one step"),
            Operator("choose", f"the {chosen}, from noisy counts alone", f"{sure} {missed}"),
            Operator("count", f"{what} inside and outside, {split}", f"±{self.rank_error(confidence):,} {sure}"),
        )

    def draw(self, totals: Integers) -> StepCounts:
        """Draw the counts, choose from them, and draw the numbers inside and outside."""
        noisy = self.steps.draw(self.steps.reading.of(totals)).reshape(-1)
        first, last = self._chosen(noisy) or (None, None)
        reading = self.split.reading
        assert isinstance(reading, ChosenGroups)
        inside, outside = self.split.draw(reading.split(reading.of(totals), self._inside(first, last)))
        noise, counter = self.steps.mechanism, self.split.mechanism
        return StepCounts(tuple(map(int, noisy)), first, last, int(inside), int(outside), noise, counter)

    def _chosen(self, noisy: Integers) -> Span | None:
        found = seen(noisy, self.steps.mechanism)
        if found is None:
            return None
        return trimmed(noisy, (0, found[1]) if self.from_first else found, *self.uncovered)

    def _inside(self, first: int | None, last: int | None) -> NDArray[np.bool_]:
        place = np.array(self.place)
        return np.full(place.size, False) if first is None else (place >= first) & (place <= last)


@lru_cache(maxsize=16)
def _on_steps(totals: Totals, place: tuple[int, ...]) -> Totals | LinearTotals:
    """Add up the groups on each step; the totals as they are where every group is a step. A search for a price asks for
    the same steps at every ε.
    """
    steps = range(max(place) + 1)
    if place == tuple(steps):
        return totals
    return LinearTotals(totals, Matrix(tuple(tuple(int(each == step) for each in place) for step in steps)))


def least_price(error: Callable[[Fraction], int], within: Number) -> float:
    """Find the least ε at which an error is no larger than this."""
    wanted = exact(within, "within", POSITIVE)
    return float(rounded_up(least(lambda epsilon: error(epsilon) <= wanted, "within")))
