"""A ladder splits the values of a type into public steps; a noisy count of each step says where the values are.

*Steps.* For numbers the cuts are 1, 2 and 5 times the powers of ten, of both signs, and 0 by itself: a range that ends
at such a number is what people would type, at most 2.5 times too wide, and a step of the ladder is as likely to hold
the values of one column as of another. For dates they are years, further away decades and centuries. They follow from
the type (and from bounds that the policy declares), never from rows.

*Range.* The steps are counted, each unit in one of them, with noise of one scale b (``Measurement`` charges it). What
follows looks at noisy counts alone, so it is free and can be tried again with other shares:

1. A step is *filled* if its count is above τ, which none of the K empty steps reaches with probability 1 − 0.005. A
   run of steps is *heavy* if its sum of (count − 3b) is above τ₂ = b·ln(K/0.005)/0.95. The range spans all filled steps
   and all heavy runs; where there is neither, no range is found.
2. Beyond either end, further steps are taken while their sum of (count − 3b) grows.
3. End steps are left out again as long as what they hold is no more than the share that need not be covered.

*Claim.* In empty steps the sum of (X − 3b) over any run exceeds τ₂ with probability at most 0.005. *Proof.* Discrete
Laplace noise X of scale b has E e^{θX} = 1/(1 − (sinh(θ/2)/sinh(1/2b))²) ≤ 1/(1 − 0.95²) at θ = 0.95/b, since sinh is
convex. So e^{θ(X − 3b)} has a mean of at most e^{−2.85}/0.0975 < 1, its products over longer and longer runs from one
step on are a supermartingale, and by Ville's inequality (1939) they ever exceed e^{θτ₂} with probability at most
e^{−θτ₂} = 0.005/K; there are K steps to begin at. ∎ (No range decides privacy: this says how rarely one is too wide.)

Why noise on counts and not the exponential mechanism over ranks: every unit is in one step, so both ends share one ε,
and empty steps look empty. A quantile near the end of few values cannot tell the step after the last value from one ten
orders of magnitude further: at n = 1,000 and ε = 0.1 it puts the 99.5 % quantile of lognormal values, 264, at 5·10¹⁰
in the median, where this finds 200. From n·ε of some thousands on both find the same.

Units are counted on the steps of a ladder, with noise; steps are chosen; and who lies inside and outside is counted.

Both are one batch of a plan in which every unit has one row, so one unit moves the counts of the steps by 1 in all (2
when it is replaced), and the two numbers too. The choice is made of noisy counts alone (``ladders``), so it is free,
and the two numbers are an adaptive second measurement: the costs add up (Dwork, McSherry, Nissim & Smith 2006).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.previews.explaining import Operator
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Laplace
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import ChosenGroups, Integers, LinearTotals, Matrix, Totals
from sfumato.plan.values.expressions import Column, Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent
from sfumato.release.measurement import Measurement
from sfumato.release.prices import rounded_up

_SMALLEST, _LARGEST = -12, 18
"""Powers of ten that a ladder of reals reaches; of whole numbers it begins at 1."""
_MISS = Fraction(1, 200)
"""How rarely an empty step seems filled, and a run of them."""
_TOLL = 3
"""What a further step must hold to be taken, in scales of the noise."""
_RATE = 0.95
"""The exponent of the claim, in terms of that scale."""

Span = tuple[int, int]
"""The first and the last step of a range."""


@dataclass(frozen=True)
class Ladder:
    """A ladder is what a value may be, cut into steps in rising order."""

    type: Type
    low: Value
    high: Value
    cuts: tuple[tuple[Value, bool], ...]
    """Where one step ends and the next begins, and whether the number itself belongs to the step below."""

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def place(self, value: Column) -> Expression:
        """Find the step of a value, from 0 on, by halving: the number of cuts that it lies beyond."""
        return self._between(value, 0, len(self.cuts))

    def _between(self, value: Column, first: int, last: int) -> Expression:
        if first == last:
            return literal(Type.INTEGER, first)
        middle = (first + last + 1) // 2
        cut, below = self.cuts[middle - 1]
        beyond = call(">" if below else ">=", value, literal(self.type, cut))
        return call("CASE", beyond, self._between(value, middle, last), self._between(value, first, middle - 1))

    def ends(self, span: Span) -> tuple[Value, Value]:
        """Return the least and the greatest value of a range of steps."""
        first, last = span
        low = self.low if first == 0 else self.cuts[first - 1][0]
        return low, self.high if last == len(self.cuts) else self._upper(last)

    def _upper(self, step: int) -> Value:
        cut = self.cuts[step][0]
        return cut - dt.timedelta(days=1) if self.type is Type.DATE else cut  # type: ignore[operator, return-value]


def ladder(domain: Domain) -> Ladder:
    """Make the ladder of a column's type, within the bounds that are declared for it, if any."""
    low, high = domain.bounds or _WIDEST[domain.type]
    cuts = _years(domain.type) if domain.type.temporal else _numbers(domain.type)
    inside = tuple((cut, below) for cut, below in cuts if (low <= cut < high if below else low < cut <= high))  # type: ignore[operator]
    return Ladder(domain.type, low, high, inside)


def counting_ladder(most: int) -> Ladder:
    """Make the ladder of limits: every number up to 10, then 15, 20, 30, 50, 70, 100 … up to a public number.

    It is finer than that of values: noise grows with a limit, and most limits are small.
    """
    large = [digits * 10**power for power in range(len(str(most))) for digits in (15, 20, 30, 50, 70, 100)]
    return Ladder(Type.INTEGER, 1, most, tuple((cut, True) for cut in [*range(1, 11), *large] if cut < most))


_WIDEST: dict[Type, tuple[Value, Value]] = {
    Type.INTEGER: (-LARGEST_INTEGER, LARGEST_INTEGER),
    Type.REAL: (-(Fraction(10) ** 150), Fraction(10) ** 150),  # all of the size that a real may have, roundly
    Type.DATE: (dt.date.min, dt.date.max),
    Type.TIMESTAMP: (dt.datetime.min, dt.datetime(9999, 12, 31, 23, 59, 59)),
}


def _numbers(kind: Type) -> list[tuple[Value, bool]]:
    smallest = 0 if kind is Type.INTEGER else _SMALLEST
    sizes = [digit * Fraction(10) ** power for power in range(smallest, _LARGEST) for digit in (1, 2, 5)]
    sizes.append(Fraction(10) ** _LARGEST)
    below: list[tuple[Fraction, bool]] = [(-size, False) for size in reversed(sizes)]
    every = [*below, (Fraction(0), False), (Fraction(0), True), *((size, True) for size in sizes)]
    return [(int(cut) if kind is Type.INTEGER else cut, own) for cut, own in every]


def _years(kind: Type) -> list[tuple[Value, bool]]:
    years = [*range(100, 1800, 100), *range(1800, 1900, 10), *range(1900, 2100), *range(2100, 2200, 10)]
    years += range(2200, 10_000, 100)
    if kind is Type.DATE:
        return [(dt.date(year, 1, 1), False) for year in years]
    return [(dt.datetime(year, 1, 1), False) for year in years]


def filled_above(noise: Laplace, steps: int) -> int:
    """Return τ: no count of so many empty steps is above it, but for a small probability."""
    return math.ceil(noise.error(1 - _MISS, k=steps))


def heavy_above(noise: Laplace, steps: int) -> float:
    """Return τ₂: no run of so many empty steps has a sum above it, the toll taken off, but for a small probability."""
    return float(max(noise.sizes)) * math.log(steps / float(_MISS)) / _RATE


def surely_inside(noise: Laplace, steps: int, confidence: Number) -> int:
    """Return how many values a step holds that is inside the range with this confidence, at either end.

    Both outermost steps with so many are filled unless the noise on one of them is further below 0 than its error.
    """
    return filled_above(noise, steps) + math.ceil(noise.error(confidence)) + 1


def seen(counts: Any, noise: Laplace) -> Span | None:
    """Find the steps that hold values, from noisy counts with this noise: None where nothing is above the noise."""
    noisy = np.asarray(counts, np.float64)
    toll, enough = _TOLL * float(max(noise.sizes)), heavy_above(noise, noisy.size)
    base = _filled(noisy, noise) or _heaviest(noisy - toll, enough)
    if base is None:
        return None
    first, last = base
    while (further := _heaviest(noisy[:first] - toll, enough)) is not None:
        first = further[0]
    while (further := _heaviest(noisy[last + 1 :] - toll, enough)) is not None:
        last += 1 + further[1]
    return first - _taken(noisy[:first][::-1], toll), last + _taken(noisy[last + 1 :], toll)


def trimmed(counts: Any, span: Span, low: Fraction, high: Fraction) -> Span:
    """Leave out end steps that hold no more than these shares of what the range holds, by noisy counts."""
    noisy = np.asarray(counts, np.float64)
    first, last = span
    total = max(0.0, float(noisy[first : last + 1].sum()))
    below = _left_out(noisy[first:last], total * float(low))
    return first + below, last - _left_out(noisy[first + below + 1 : last + 1][::-1], total * float(high))


def _filled(noisy: NDArray[np.float64], noise: Laplace) -> Span | None:
    places = np.flatnonzero(noisy > filled_above(noise, noisy.size))
    return (int(places[0]), int(places[-1])) if places.size else None


def _heaviest(above: NDArray[np.float64], enough: float) -> Span | None:
    """Find the run of the largest sum, if that is more than empty steps would have."""
    if not above.size:
        return None
    sums = np.concatenate([[0.0], np.cumsum(above)])
    last = int(np.argmax(sums[1:] - np.minimum.accumulate(sums[:-1])))
    first = int(np.argmin(sums[: last + 1]))
    return (first, last) if sums[last + 1] - sums[first] > enough else None


def _taken(further: NDArray[np.float64], toll: float) -> int:
    """Return how many further steps to take: up to where what they hold beyond the toll is the most."""
    sums = np.concatenate([[0.0], np.cumsum(further - toll)])
    return int(np.argmax(sums))


def _left_out(ends: NDArray[np.float64], allowed: float) -> int:
    """Return how many steps from an end on hold no more than is allowed, all of them together."""
    beyond = np.flatnonzero(np.cumsum(ends) > allowed)
    return int(beyond[0]) if beyond.size else int(ends.size)


_COUNTING = Fraction(1, 5)
"""The share of the price that pays for the numbers inside and outside."""


@codec.value("step-counts")
@dataclass(frozen=True)
class StepCounts:
    """Noisy numbers of units on each step of a ladder, the steps that were chosen, and noisy numbers of the
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
        """Return both ends of the chosen steps."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    def rank_error(self, confidence: Number = "0.95") -> int:
        """The numbers inside and outside are each within this of the exact one, with this confidence."""
        return int(self.counter.error(confidence))

    def covered(self, confidence: Number = "0.95") -> tuple[Fraction, Fraction]:
        """Return which share of the units lies inside, with this confidence: both numbers are within their errors then."""
        reach = int(self.counter.error(confidence, k=2))
        least, most = max(0, self.inside - reach), max(0, self.inside) + reach
        fewest, many = max(0, self.outside - reach), max(0, self.outside) + reach
        return _share(least, many), _share(most, fewest)


def _share(inside: int, outside: int) -> Fraction:
    return Fraction(inside, inside + outside) if inside + outside else Fraction(0)


@dataclass(frozen=True)
class StepSearch:
    """What is measured of one ladder: the counts of its steps, and the numbers inside the chosen ones and
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
        bounded: BoundedPlan,
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
        """Return how many units a step holds that is surely chosen, unless its share may be left out."""
        return surely_inside(self.steps.mechanism, max(self.place) + 1, confidence)

    def rank_error(self, confidence: Number) -> int:
        """Return how well the numbers inside and outside will be known."""
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
