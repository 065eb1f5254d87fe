"""A ladder splits the values of a type into public steps; noisy counts of the steps show where the values are.

*Steps.* For numbers the cuts are 1, 2 and 5 times the powers of ten, of both signs, and 0 by itself: a range that ends
at such a number is at most 2.5 times too wide, and is what people would type. For dates they are years, further away
decades and centuries. They depend on the type (and on bounds that the policy declares), never on rows.

*Range.* The units are counted, each in one step, with noise of one scale b (``Measurement`` charges it). The rest is
post-processing of the noisy counts, so it is free and can be repeated with other shares:

1. A step is *filled* if its count is above τ, which none of the K empty steps reaches with probability 1 − 0.005. A
   run of steps is *heavy* if its sum of (count − 3b) is above τ₂ = b·ln(K/0.005)/0.95. The range spans all filled steps
   and all heavy runs; without either, no range is found.
2. Beyond either end, further steps are included while their sum of (count − 3b) grows.
3. End steps are dropped as long as they hold no more than the share that need not be covered.

*Claim.* In empty steps the sum of (X − 3b) over any run exceeds τ₂ with probability at most 0.005. *Proof.* Discrete
Laplace noise X of scale b has E e^{θX} = 1/(1 − (sinh(θ/2)/sinh(1/2b))²) ≤ 1/(1 − 0.95²) at θ = 0.95/b, since sinh is
convex. So e^{θ(X − 3b)} has a mean of at most e^{−2.85}/0.0975 < 1, its products over longer and longer runs from one
step on are a supermartingale, and by Ville's inequality (1939) they ever exceed e^{θτ₂} with probability at most
e^{−θτ₂} = 0.005/K; there are K steps to begin at. ∎ (Privacy does not depend on the range; the claim bounds how often
it is too wide.)

Why noise on counts and not the exponential mechanism over ranks: every unit is in one step, so both ends share one ε,
and empty steps look empty. A quantile near the end of few values cannot tell the step after the last value from one ten
orders of magnitude further: at n = 1,000 and ε = 0.1 it puts the 99.5 % quantile of lognormal values, 264, at 5·10¹⁰
in the median, where this finds 200. From n·ε of some thousands on both find the same.

The search counts units per step with noise, selects steps, and then counts the units inside and outside them.

Every unit has one row in the plan, so one unit changes the step counts by 1 in L1 (2 when it is replaced), and the two
counts inside and outside too. The selection uses noisy counts only, so it is free, and the two counts are an adaptive
second measurement: the costs add up (Dwork, McSherry, Nissim & Smith 2006).
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Integers
from sfumato.curator.previews.explaining import PlanStep
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Laplace
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.readings.total_readings import ChosenGroups, LinearTotals, MeasureTotals, WeightMatrix
from sfumato.plan.values.expressions import Column, Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement

_MIN_POWER, _MAX_POWER = -12, 18
"""The powers of ten of a ladder of reals; one of integers starts at 1."""
_FALSE_POSITIVE_RATE = Fraction(1, 200)
"""The probability that some empty step seems filled, and that some empty run seems heavy."""
_TOLL = 3
"""The count that a further step must exceed to be included, in scales of the noise."""
_RATE = 0.95
"""θ·b of the claim above."""

Span = tuple[int, int]
"""The first and the last step of a range."""


@dataclass(frozen=True)
class Ladder:
    """The range of a type, cut into public steps in increasing order."""

    type: Type
    low: Value
    high: Value
    cuts: tuple[tuple[Value, bool], ...]
    """The cuts between steps, and whether the cut itself belongs to the step below."""

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def step_expression(self, value: Column) -> Expression:
        """Return the expression for a value's step, from 0: a binary search over the cuts."""
        return self._search_expression(value, 0, len(self.cuts))

    def _search_expression(self, value: Column, first: int, last: int) -> Expression:
        if first == last:
            return literal(Type.INTEGER, first)
        middle = (first + last + 1) // 2
        cut, is_below = self.cuts[middle - 1]
        beyond = call(">" if is_below else ">=", value, literal(self.type, cut))
        return call(
            "CASE",
            beyond,
            self._search_expression(value, middle, last),
            self._search_expression(value, first, middle - 1),
        )

    def bounds_of(self, span: Span) -> tuple[Value, Value]:
        """Return the least and the greatest value of a span of steps."""
        first, last = span
        low = self.low if first == 0 else self.cuts[first - 1][0]
        return low, self.high if last == len(self.cuts) else self._upper_bound(last)

    def _upper_bound(self, step: int) -> Value:
        cut = self.cuts[step][0]
        return cut - dt.timedelta(days=1) if self.type is Type.DATE else cut  # type: ignore[operator, return-value]


def ladder_for_domain(domain: Domain) -> Ladder:
    """Return the ladder of a column's type, within its declared bounds, if any."""
    low, high = domain.bounds or _TYPE_RANGES[domain.type]
    cuts = _year_cuts(domain.type) if domain.type.temporal else _number_cuts(domain.type)
    inner = tuple((cut, is_below) for cut, is_below in cuts if (low <= cut < high if is_below else low < cut <= high))  # type: ignore[operator]
    return Ladder(domain.type, low, high, inner)


def counting_ladder(largest: int) -> Ladder:
    """Return the ladder of limits: every number up to 10, then 15, 20, 30, 50, 70, 100 … up to a public number.

    It is finer than that of values: noise grows with a limit, and most limits are small.
    """
    large_cuts = [digits * 10**power for power in range(len(str(largest))) for digits in (15, 20, 30, 50, 70, 100)]
    return Ladder(Type.INTEGER, 1, largest, tuple((cut, True) for cut in [*range(1, 11), *large_cuts] if cut < largest))


_TYPE_RANGES: dict[Type, tuple[Value, Value]] = {
    Type.INTEGER: (-LARGEST_INTEGER, LARGEST_INTEGER),
    Type.REAL: (-(Fraction(10) ** 150), Fraction(10) ** 150),  # roughly all reals that are representable
    Type.DATE: (dt.date.min, dt.date.max),
    Type.TIMESTAMP: (dt.datetime.min, dt.datetime(9999, 12, 31, 23, 59, 59)),
}


def _number_cuts(value_type: Type) -> list[tuple[Value, bool]]:
    smallest = 0 if value_type is Type.INTEGER else _MIN_POWER
    magnitudes = [digit * Fraction(10) ** power for power in range(smallest, _MAX_POWER) for digit in (1, 2, 5)]
    magnitudes.append(Fraction(10) ** _MAX_POWER)
    negative_cuts: list[tuple[Fraction, bool]] = [(-size, False) for size in reversed(magnitudes)]
    cuts = [*negative_cuts, (Fraction(0), False), (Fraction(0), True), *((size, True) for size in magnitudes)]
    return [(int(cut) if value_type is Type.INTEGER else cut, is_below) for cut, is_below in cuts]


def _year_cuts(value_type: Type) -> list[tuple[Value, bool]]:
    years = [*range(100, 1800, 100), *range(1800, 1900, 10), *range(1900, 2100), *range(2100, 2200, 10)]
    years += range(2200, 10_000, 100)
    if value_type is Type.DATE:
        return [(dt.date(year, 1, 1), False) for year in years]
    return [(dt.datetime(year, 1, 1), False) for year in years]


def filled_threshold(noise: Laplace, steps: int) -> int:
    """Return τ: with high probability no count of so many empty steps exceeds it."""
    return math.ceil(noise.error(1 - _FALSE_POSITIVE_RATE, k=steps))


def heavy_run_threshold(noise: Laplace, steps: int) -> float:
    """Return τ₂: with high probability no run of so many empty steps has a toll-reduced sum above it."""
    return float(max(noise.sizes)) * math.log(steps / float(_FALSE_POSITIVE_RATE)) / _RATE


def selection_threshold(noise: Laplace, steps: int, confidence: Number) -> int:
    """Return the count from which a step is inside the range with this confidence, at either end.

    Both outermost steps with so many are filled unless the noise on one of them is further below 0 than its error.
    """
    return filled_threshold(noise, steps) + math.ceil(noise.error(confidence)) + 1


def span_with_values(counts: Any, noise: Laplace) -> Span | None:
    """Return the span of steps that hold values, from noisy counts; None where nothing exceeds the noise."""
    noisy_counts = np.asarray(counts, np.float64)
    toll, heavy_threshold = _TOLL * float(max(noise.sizes)), heavy_run_threshold(noise, noisy_counts.size)
    span = _filled_span(noisy_counts, noise) or _heaviest_run(noisy_counts - toll, heavy_threshold)
    if span is None:
        return None
    first, last = span
    while (run := _heaviest_run(noisy_counts[:first] - toll, heavy_threshold)) is not None:
        first = run[0]
    while (run := _heaviest_run(noisy_counts[last + 1 :] - toll, heavy_threshold)) is not None:
        last += 1 + run[1]
    return first - _extension_length(noisy_counts[:first][::-1], toll), last + _extension_length(
        noisy_counts[last + 1 :], toll
    )


def trim_span(counts: Any, span: Span, share_below: Fraction, share_above: Fraction) -> Span:
    """Drop end steps that hold no more than these shares of the span's noisy total."""
    noisy_counts = np.asarray(counts, np.float64)
    first, last = span
    total = max(0.0, float(noisy_counts[first : last + 1].sum()))
    dropped_below = _trim_length(noisy_counts[first:last], total * float(share_below))
    return first + dropped_below, last - _trim_length(
        noisy_counts[first + dropped_below + 1 : last + 1][::-1], total * float(share_above)
    )


def _filled_span(noisy_counts: NDArray[np.float64], noise: Laplace) -> Span | None:
    filled_steps = np.flatnonzero(noisy_counts > filled_threshold(noise, noisy_counts.size))
    return (int(filled_steps[0]), int(filled_steps[-1])) if filled_steps.size else None


def _heaviest_run(reduced_counts: NDArray[np.float64], threshold: float) -> Span | None:
    """Return the run with the largest sum, if it exceeds the threshold for empty steps."""
    if not reduced_counts.size:
        return None
    prefix_sums = np.concatenate([[0.0], np.cumsum(reduced_counts)])
    last = int(np.argmax(prefix_sums[1:] - np.minimum.accumulate(prefix_sums[:-1])))
    first = int(np.argmin(prefix_sums[: last + 1]))
    return (first, last) if prefix_sums[last + 1] - prefix_sums[first] > threshold else None


def _extension_length(noisy_counts: NDArray[np.float64], toll: float) -> int:
    """Return how many further steps to include: up to the largest sum beyond the toll."""
    prefix_sums = np.concatenate([[0.0], np.cumsum(noisy_counts - toll)])
    return int(np.argmax(prefix_sums))


def _trim_length(noisy_counts: NDArray[np.float64], allowed: float) -> int:
    """Return how many steps from an end hold no more than is allowed in total."""
    exceeding = np.flatnonzero(np.cumsum(noisy_counts) > allowed)
    return int(exceeding[0]) if exceeding.size else int(noisy_counts.size)


_COUNTING_SHARE = Fraction(1, 5)
"""The share of the price that pays for the counts inside and outside."""


@codec.serialisable("step-counts")
@dataclass(frozen=True)
class StepCounts:
    """Noisy counts of units per step of a ladder, the selected steps, and noisy counts inside and outside them."""

    counts: tuple[int, ...]
    first: int | None
    """The first and last selected step; None if no range was found."""
    last: int | None
    inside: int
    outside: int
    noise: Laplace = field(repr=False)
    counter: Laplace = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        codec.check_simple_fields(self)
        if not self.counts or not all(type(count) is int for count in self.counts):
            raise InvalidParameter(
                "counts",
                ValueWords("values that are not whole numbers" if self.counts else "an empty list"),
                "a non-empty list of whole numbers",
            )

    @property
    def span(self) -> Span | None:
        """The first and the last selected step."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    def count_half_width(self, confidence: Number = DEFAULT_CONFIDENCE) -> int:
        """Return the half-width of each of the counts inside and outside, with this confidence."""
        return int(self.counter.error(confidence))

    def covered_share_range(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[Fraction, Fraction]:
        """Return bounds on the share of units inside, with this confidence: both counts hold simultaneously."""
        half_width = int(self.counter.error(confidence, k=2))
        least_inside, most_inside = max(0, self.inside - half_width), max(0, self.inside) + half_width
        least_outside, most_outside = max(0, self.outside - half_width), max(0, self.outside) + half_width
        return _share_inside(least_inside, most_outside), _share_inside(most_inside, least_outside)


def _share_inside(inside: int, outside: int) -> Fraction:
    return Fraction(inside, inside + outside) if inside + outside else Fraction(0)


@dataclass(frozen=True)
class StepSearch:
    """The measurements of one ladder: the counts of its steps, and the counts inside and outside the selected ones."""

    step_counts: Measurement
    inside_outside: Measurement
    step_of_group: tuple[int, ...]
    """The step of each group of the plan."""
    uncovered: tuple[Fraction, Fraction]
    """The shares that may be excluded, at the low and the high end."""
    from_first: bool
    """Whether the selection always starts at the first step."""

    @classmethod
    def calibrated(
        cls,
        bounded_plan: BoundedPlan,
        step_of_group: tuple[int, ...],
        epsilon: Fraction,
        uncovered: tuple[Fraction, Fraction],
        *,
        from_first: bool = False,
    ) -> StepSearch:
        """Calibrate both measurements so that together they cost ε."""
        totals = MeasureTotals(bounded_plan)
        counts, selected = _step_totals(totals, step_of_group), ChosenGroups(totals)
        noise = Laplace(counts.sensitivity.l1 / (epsilon * (1 - _COUNTING_SHARE)))
        counter = Laplace(selected.sensitivity.l1 / (epsilon * _COUNTING_SHARE))
        return cls(Measurement(counts, noise), Measurement(selected, counter), step_of_group, uncovered, from_first)

    @property
    def measurements(self) -> tuple[Measurement, Measurement]:
        return self.step_counts, self.inside_outside

    def error(self, confidence: Number) -> int:
        """Return the count from which a step is surely selected, unless its share may be excluded."""
        return selection_threshold(self.step_counts.mechanism, max(self.step_of_group) + 1, confidence)

    def count_half_width(self, confidence: Number) -> int:
        """Return the half-width of the counts inside and outside."""
        return int(self.inside_outside.mechanism.error(confidence))

    def explain_search(self, counted_noun: str, selection: str, confidence: Number) -> tuple[PlanStep, ...]:
        """Describe the steps of the search: what is counted, and which steps are selected."""
        coverage = f"with {format_percent(exact(confidence, 'confidence', CONFIDENCE))} confidence"
        counts, split = (measurement.mechanism.words() for measurement in self.measurements)
        size = f"{self.error(confidence):,} or more {counted_noun}"
        claim = f"every step with {size} is inside, except for the share left out"
        return (
            PlanStep("count", f"{counted_noun} on each step", f"{counts}: one unit is on one step"),
            PlanStep("choose", f"the {selection}, from noisy counts alone", f"{coverage} {claim}"),
            PlanStep(
                "count",
                f"{counted_noun} inside and outside, {split}",
                f"±{self.count_half_width(confidence):,} {coverage}",
            ),
        )

    def draw(self, totals: Integers) -> StepCounts:
        """Draw the step counts, select from them, and draw the counts inside and outside."""
        noisy_counts = self.step_counts.draw(self.step_counts.reading.extract(totals)).reshape(-1)
        first, last = self._select_span(noisy_counts) or (None, None)
        reading = self.inside_outside.reading
        assert isinstance(reading, ChosenGroups)
        inside, outside = self.inside_outside.draw(
            reading.sum_inside_and_outside(reading.extract(totals), self._inside_mask(first, last))
        )
        noise, counter = self.step_counts.mechanism, self.inside_outside.mechanism
        return StepCounts(tuple(map(int, noisy_counts)), first, last, int(inside), int(outside), noise, counter)

    def _select_span(self, noisy_counts: Integers) -> Span | None:
        span = span_with_values(noisy_counts, self.step_counts.mechanism)
        if span is None:
            return None
        return trim_span(noisy_counts, (0, span[1]) if self.from_first else span, *self.uncovered)

    def _inside_mask(self, first: int | None, last: int | None) -> NDArray[np.bool_]:
        step_of_group = np.array(self.step_of_group)
        return (
            np.full(step_of_group.size, False) if first is None else (step_of_group >= first) & (step_of_group <= last)
        )


@lru_cache(maxsize=16)
def _step_totals(totals: MeasureTotals, step_of_group: tuple[int, ...]) -> MeasureTotals | LinearTotals:
    """Sum the groups on each step; the totals themselves where every group is a step.

    A price search requests the same steps at every ε, so they are cached.
    """
    steps = range(max(step_of_group) + 1)
    if step_of_group == tuple(steps):
        return totals
    return LinearTotals(
        totals, WeightMatrix(tuple(tuple(int(group_step == step) for group_step in step_of_group) for step in steps))
    )
