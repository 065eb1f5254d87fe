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
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Laplace
from sfumato.plan.values.expressions import Column, Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy.numbers import Number

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
        """Give the least and the greatest value of a range of steps."""
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
    """Give τ: no count of so many empty steps is above it, but for a small probability."""
    return math.ceil(noise.error(1 - _MISS, k=steps))


def heavy_above(noise: Laplace, steps: int) -> float:
    """Give τ₂: no run of so many empty steps has a sum above it, the toll taken off, but for a small probability."""
    return float(max(noise.sizes)) * math.log(steps / float(_MISS)) / _RATE


def surely_inside(noise: Laplace, steps: int, confidence: Number) -> int:
    """Say how many values a step holds that is inside the range with this confidence, at either end.

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
    """Say how many further steps to take: up to where what they hold beyond the toll is the most."""
    sums = np.concatenate([[0.0], np.cumsum(further - toll)])
    return int(np.argmax(sums))


def _left_out(ends: NDArray[np.float64], allowed: float) -> int:
    """Say how many steps from an end on hold no more than is allowed, all of them together."""
    beyond = np.flatnonzero(np.cumsum(ends) > allowed)
    return int(beyond[0]) if beyond.size else int(ends.size)
