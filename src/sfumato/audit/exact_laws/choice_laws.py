"""The law of a choice by scores is computed exactly: the probability of every candidate, or of every list of them.

Scores become whole steps below the best of a public grid, as in a release, and c is the rate per step.

- Gumbel noise: P(h) ∝ e^{−c·g_h}; the k best are k such choices, each among what is left (Durfee & Rogers 2019).
- Exponential noise, permute-and-flip: candidates come at uniform times u, and one that comes is taken with probability
  w = e^{−c·g}, so P(h) = w_h·∫₀¹ Π_{j≠h} (1 − u·w_j) du, a polynomial's integral (McKenna & Sheldon 2020).
- Laplace noise: P(h) = ∫ f(x − s_h)·Π_{j≠h} F(x − s_j) dx. Between two scores every factor is a constant and an
  exponential of ±x, so the product is a sum of e^{kx} with whole k, which is integrated term by term.

The law of quantiles is computed exactly from what they are said to do, by other code than draws them.

A part holds the numbers from low to high and rows with weights. With B(y) the weight of rows below y, U(y) that of rows
up to y and n that of all, y is chosen with probability ∝ e^{−rate·d(y)}, d(y) = max(B(y) − t, t − U(y), 0), where
t = share·n + offset. Rows below the number that is chosen make one part and rows above it another; rows equal to it
count in both, with the share below and the rest above. Several quantiles are found level by level, the middle one
first; of two in the middle, the one whose share is nearer to a half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, FrequentValues, MaxNoise, NoisyMax, PermuteAndFlip, Quantiles, TopK, bits
from sfumato.mechanisms.selection import Scored, field_of
from sfumato.privacy import Neighbours

Law = dict[Any, Decimal]
"""The probability of every outcome."""

DIGITS = 110
MOST_OUTCOMES = 40_000
_MOST_CANDIDATES, _MOST_SPREAD = 24, 2000


def context_of_laws() -> Context:
    """Make the arithmetic in which laws are computed: sums of a few thousand terms are right to a hundred digits."""
    return bits.digits(DIGITS)


def score_law(mechanism: Scored, scores: Any) -> Law:
    """Compute the law of a choice by these scores."""
    gaps, rate = field_of(scores, mechanism)
    steps = [int(gap) for gap in gaps]
    if isinstance(mechanism, TopK):
        return _peeled(steps, rate / mechanism.k, mechanism.k)
    return dict(zip(range(len(steps)), _kind(mechanism)(_checked(steps, rate), rate), strict=True))


def frequent_law(mechanism: FrequentValues, table: Any) -> Law:
    """Compute the law of the most frequent values of all groups: each group chooses for itself."""
    if math.prod(math.perm(len(row), mechanism.k) for row in table) > MOST_OUTCOMES:
        raise InvalidParameter("neighbours", f"{len(table)} groups", "fewer groups or fewer values")
    laws: Law = {(): Decimal(1)}
    context = context_of_laws()
    for row in table:
        best = max(row)
        own = _peeled([int(best) - int(count) for count in row], mechanism.rate, mechanism.k)
        laws = {(*key, chosen): context.multiply(p, q) for key, p in laws.items() for chosen, q in own.items()}
    return laws


def _kind(mechanism: Scored) -> Callable[[list[int], Fraction], list[Decimal]]:
    if isinstance(mechanism, Exponential):
        return _gumbel
    if isinstance(mechanism, PermuteAndFlip):
        return _flipped
    if isinstance(mechanism, NoisyMax):
        kinds = {MaxNoise.GUMBEL: _gumbel, MaxNoise.EXPONENTIAL: _flipped, MaxNoise.LAPLACE: _laplace}
        return kinds[mechanism.noise]
    raise InvalidParameter("mechanism", mechanism, "a choice by scores whose noise is known")


def _checked(steps: list[int], rate: Fraction) -> list[int]:
    if len(steps) > _MOST_CANDIDATES or max(steps) * rate > _MOST_SPREAD:
        rule = f"at most {_MOST_CANDIDATES} scores, of which none is e^-{_MOST_SPREAD} times as likely as another"
        raise InvalidParameter("neighbours", f"{len(steps)} scores", rule)
    return steps


def _weights(steps: Sequence[int], rate: Fraction) -> list[Decimal]:
    context = context_of_laws()
    return [bits.decimal(-step * rate, context).exp(context) for step in steps]


def _gumbel(steps: list[int], rate: Fraction) -> list[Decimal]:
    context, weights = context_of_laws(), _weights(steps, rate)
    total = _sum(weights, context)
    return [context.divide(weight, total) for weight in weights]


def _peeled(steps: list[int], rate: Fraction, k: int) -> Law:
    """Choose k candidates one after the other, each among those that are left."""
    if not 0 < math.perm(len(steps), k) <= MOST_OUTCOMES:
        raise InvalidParameter("neighbours", f"{len(steps)} candidates", f"at least k = {k} of them, and few")
    context, weights = context_of_laws(), _weights(_checked(steps, rate), rate)
    found: Law = {}
    for chosen in permutations(range(len(steps)), k):
        left, chance = set(range(len(steps))), Decimal(1)
        for candidate in chosen:
            share = context.divide(weights[candidate], _sum((weights[each] for each in sorted(left)), context))
            chance, left = context.multiply(chance, share), left - {candidate}
        found[chosen] = chance
    return found


def _flipped(steps: list[int], rate: Fraction) -> list[Decimal]:
    context, weights = context_of_laws(), _weights(steps, rate)
    found = []
    for place, weight in enumerate(weights):
        product = [Decimal(1)]
        for other in weights[:place] + weights[place + 1 :]:
            product = multiplied(product, [Decimal(1), other.copy_negate()], context)
        terms = [context.divide(each, Decimal(power + 1)) for power, each in enumerate(product)]
        found.append(context.multiply(weight, _sum(terms, context)))
    return found


def multiplied(first: Sequence[Decimal], second: Sequence[Decimal], context: Context) -> list[Decimal]:
    """Multiply two polynomials, given by what stands before each power."""
    product = [Decimal(0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product[i + j] = context.add(product[i + j], context.multiply(a, b))
    return product


def _laplace(steps: list[int], rate: Fraction) -> list[Decimal]:
    """Compute integrals between the scores, which are 0 for the best and −c·g for the others."""
    scores = [-step * rate for step in steps]
    places = sorted(set(scores))
    ends: list[Fraction | None] = [None, *places, None]
    return [_largest_at(place, scores, list(pairwise(ends))) for place in range(len(scores))]


def _largest_at(place: int, scores: list[Fraction], parts: list[tuple[Fraction | None, Fraction | None]]) -> Decimal:
    context = context_of_laws()
    total = Decimal(0)
    for low, high in parts:
        terms = {0: Decimal(1)}
        for other, score in enumerate(scores):
            left = high is not None and high <= score
            tail = context.multiply(Decimal("0.5"), _exponential(-score if left else score, context))
            power = 1 if left else -1
            if other == place:
                terms = _times(terms, {power: tail}, context)
            else:
                terms = _times(terms, {power: tail} if left else {0: Decimal(1), power: tail.copy_negate()}, context)
        total = context.add(total, _integral(terms, low, high, context))
    return total


def _times(first: dict[int, Decimal], second: dict[int, Decimal], context: Context) -> dict[int, Decimal]:
    """Multiply two sums of exponentials e^{kx}, given by what stands before each."""
    product: dict[int, Decimal] = {}
    for i, a in first.items():
        for j, b in second.items():
            product[i + j] = context.add(product.get(i + j, Decimal(0)), context.multiply(a, b))
    return product


def _integral(terms: dict[int, Decimal], low: Fraction | None, high: Fraction | None, context: Context) -> Decimal:
    total = Decimal(0)
    for power, factor in terms.items():
        if power == 0:
            assert low is not None
            assert high is not None
            width = bits.decimal(high - low, context)
            total = context.add(total, context.multiply(factor, width))
            continue
        ends = [Decimal(0) if end is None else _exponential(power * end, context) for end in (low, high)]
        part = context.divide(context.multiply(factor, context.subtract(ends[1], ends[0])), Decimal(power))
        total = context.add(total, part)
    return total


def _exponential(exponent: Fraction, context: Context) -> Decimal:
    return bits.decimal(exponent, context).exp(context)


def _sum(terms: Any, context: Context) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = context.add(total, term)
    return total


Rows = tuple[tuple[int, Fraction], ...]
"""Values with their weights."""


@dataclass(frozen=True)
class _Part:
    """Some of the probabilities are found among these rows, between two numbers that were found before."""

    chances: tuple[Fraction, ...]
    below: Fraction
    above: Fraction
    low: int
    high: int
    rows: Rows
    level: int

    @property
    def middle(self) -> int:
        """Say which of the probabilities is found first."""
        count = len(self.chances)
        centre = (self.below + self.above) / 2
        return min((count - 1) // 2, count // 2, key=lambda place: abs(self.chances[place] - centre))

    @property
    def share(self) -> Fraction:
        return (self.chances[self.middle] - self.below) / (self.above - self.below)


def rank_law(mechanism: Quantiles, values: Any) -> Law:
    """Compute the law of all quantiles of one group of values, as tuples in the order of their probabilities."""
    low, high = mechanism.bounds
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        raise InvalidParameter("neighbours", values, "two lists of whole numbers")
    if (high - low + 1) ** len(mechanism.probabilities) > MOST_OUTCOMES:
        raise InvalidParameter(
            "neighbours", mechanism.bounds, "bounds with fewer numbers between them, or fewer quantiles"
        )
    rows = tuple((min(max(value, low), high), Fraction(1)) for value in values)
    part = _Part(mechanism.probabilities, Fraction(0), Fraction(1), low, high, rows, 0)
    return _law(mechanism, part, mechanism.epsilon / _levels(part))


def _law(mechanism: Quantiles, part: _Part, per_level: Fraction) -> Law:
    if not part.chances:
        return {(): Decimal(1)}
    context = context_of_laws()
    found: Law = {}
    for number, chance in _choices(mechanism, part, per_level):
        lower, upper = (_law(mechanism, each, per_level) for each in _halves(mechanism, part, number))
        for left, p in lower.items():
            for right, q in upper.items():
                found[(*left, number, *right)] = context.multiply(chance, context.multiply(p, q))
    return found


def _choices(mechanism: Quantiles, part: _Part, per_level: Fraction) -> Iterator[tuple[int, Decimal]]:
    context = context_of_laws()
    rate = per_level / (2 * _moved(mechanism, part))
    numbers = range(part.low, part.high + 1)
    weights = [bits.decimal(-rate * _distance(mechanism, part, y), context).exp(context) for y in numbers]
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    return zip(numbers, (context.divide(weight, total) for weight in weights), strict=True)


def _distance(mechanism: Quantiles, part: _Part, y: int) -> Fraction:
    below = sum((weight for value, weight in part.rows if value < y), Fraction(0))
    upto = sum((weight for value, weight in part.rows if value <= y), Fraction(0))
    target = part.share * sum((weight for _, weight in part.rows), Fraction(0)) + mechanism.offset
    least, most = below - target, target - upto
    if mechanism.offset < 0 and y == part.low:
        least = Fraction(0)  # it holds every rank below, too
    if mechanism.offset > 0 and y == part.high:
        most = Fraction(0)
    return max(least, most, Fraction(0))


def _halves(mechanism: Quantiles, part: _Part, number: int) -> tuple[_Part, _Part]:
    under = part.share if mechanism.offset == 0 else Fraction(int(mechanism.offset > 0))
    chance, place = part.chances[part.middle], part.middle
    tied = sum((weight for value, weight in part.rows if value == number), Fraction(0))
    less = tuple(row for row in part.rows if row[0] < number)
    more = tuple(row for row in part.rows if row[0] > number)
    lower = _Part(
        part.chances[:place], part.below, chance, part.low, number, (*less, (number, tied * under)), part.level + 1
    )
    upper = _Part(
        part.chances[place + 1 :],
        chance,
        part.above,
        number,
        part.high,
        ((number, tied * (1 - under)), *more),
        part.level + 1,
    )
    return lower, upper


def _levels(part: _Part) -> int:
    """Count the levels of the recursion, which follow from the probabilities alone."""
    if not part.chances:
        return 0
    place = part.middle
    chance = part.chances[place]
    lower = _Part(part.chances[:place], part.below, chance, 0, 0, (), 0)
    upper = _Part(part.chances[place + 1 :], chance, part.above, 0, 0, (), 0)
    return 1 + max(_levels(lower), _levels(upper))


def _moved(mechanism: Quantiles, part: _Part) -> Fraction:
    """Bound how far one unit moves the distances: max(s, 1−s) for each row, and under replace twice that, or 1 where
    all rows are in one part.
    """
    worst = max(part.share, 1 - part.share)
    if mechanism.neighbours is Neighbours.REPLACE:
        worst = Fraction(1) if part.level == 0 and not mechanism.grouped else 2 * worst
    return mechanism.rows_per_unit * worst
