"""Exact laws of selection mechanisms: the probability of every candidate, or of every list of candidates.

Scores become integer steps below the best on a public grid, as in a release, and c is the rate per step.

- Gumbel noise: P(h) ∝ e^{−c·g_h}; top-k is k such selections without replacement (Durfee & Rogers 2019).
- Exponential noise, permute-and-flip: candidates arrive at uniform times u and are accepted with probability
  w = e^{−c·g}, so P(h) = w_h·∫₀¹ Π_{j≠h} (1 − u·w_j) du, a polynomial's integral (McKenna & Sheldon 2020).
- Laplace noise: P(h) = ∫ f(x − s_h)·Π_{j≠h} F(x − s_j) dx. Between two scores every factor is a constant plus an
  exponential of ±x, so the product is a sum of e^{kx} with integer k, which is integrated term by term.

The law of quantiles is computed from their specification, independently of the code that samples them. A part holds
the numbers from low to high and rows with weights. With B(y) the weight of rows below y, U(y) that of rows up to y and
n that of all, y is selected with probability ∝ e^{−rate·d(y)}, d(y) = max(B(y) − t, t − U(y), 0), where
t = share·n + offset. Rows below the selected number form one part and rows above it another; ties count in both, with
weight ``share`` below and the rest above. Several quantiles are selected level by level, the middle one first; of two
in the middle, the one whose share is nearer to a half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Exponential, FrequentValues, MaxNoise, NoisyMax, PermuteAndFlip, Quantiles, TopK, bits
from sfumato.mechanisms.selection import ScoreSelection, scaled_gaps
from sfumato.privacy import Neighbours

Law = dict[Any, Decimal]
"""The probability of every outcome."""

DIGITS = 110
MAX_OUTCOMES = 40_000
_MAX_CANDIDATES, _MAX_SPREAD = 24, 2000


def law_context() -> Context:
    """Return the decimal context of laws: sums of a few thousand terms are accurate to a hundred digits."""
    return bits.decimal_context(DIGITS)


def score_law(mechanism: ScoreSelection, scores: Any) -> Law:
    """Return the law of a selection by these scores."""
    gaps, rate = scaled_gaps(scores, mechanism)
    steps = [int(gap) for gap in gaps]
    if isinstance(mechanism, TopK):
        return _top_k_law(steps, rate / mechanism.k, mechanism.k)
    return dict(zip(range(len(steps)), _selection_law(mechanism)(_check_steps(steps, rate), rate), strict=True))


def frequent_law(mechanism: FrequentValues, table: Any) -> Law:
    """Return the law of the most frequent values of all groups; groups select independently."""
    if math.prod(math.perm(len(row), mechanism.k) for row in table) > MAX_OUTCOMES:
        raise InvalidParameter(
            "neighbours", ValueWords(f"counts of {len(table)} groups"), "counts of fewer groups or fewer values"
        )
    laws: Law = {(): Decimal(1)}
    context = law_context()
    for row in table:
        best = max(row)
        group_law = _top_k_law([int(best) - int(count) for count in row], mechanism.rate, mechanism.k)
        laws = {(*key, chosen): context.multiply(p, q) for key, p in laws.items() for chosen, q in group_law.items()}
    return laws


def _selection_law(mechanism: ScoreSelection) -> Callable[[list[int], Fraction], list[Decimal]]:
    if isinstance(mechanism, Exponential):
        return _exponential_law
    if isinstance(mechanism, PermuteAndFlip):
        return _permute_and_flip_law
    if isinstance(mechanism, NoisyMax):
        kinds = {
            MaxNoise.GUMBEL: _exponential_law,
            MaxNoise.EXPONENTIAL: _permute_and_flip_law,
            MaxNoise.LAPLACE: _laplace_max_law,
        }
        return kinds[mechanism.noise]
    raise InvalidParameter("mechanism", mechanism, "a built-in selection by scores")


def _check_steps(steps: list[int], rate: Fraction) -> list[int]:
    if len(steps) > _MAX_CANDIDATES or max(steps) * rate > _MAX_SPREAD:
        rule = f"lists of at most {_MAX_CANDIDATES} scores, with probabilities within a factor of e^{_MAX_SPREAD:,}"
        raise InvalidParameter("neighbours", ValueWords(f"a list of {len(steps)}"), rule)
    return steps


def _weights(steps: Sequence[int], rate: Fraction) -> list[Decimal]:
    context = law_context()
    return [bits.to_decimal(-step * rate, context).exp(context) for step in steps]


def _exponential_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    context, weights = law_context(), _weights(steps, rate)
    total = _sum(weights, context)
    return [context.divide(weight, total) for weight in weights]


def _top_k_law(steps: list[int], rate: Fraction, k: int) -> Law:
    """Return the law of k selections without replacement."""
    if not 0 < math.perm(len(steps), k) <= MAX_OUTCOMES:
        raise InvalidParameter(
            "neighbours",
            ValueWords(f"lists of {len(steps)}"),
            f"lists of at least k = {k} candidates, with fewer possible results",
        )
    context, weights = law_context(), _weights(_check_steps(steps, rate), rate)
    law: Law = {}
    for chosen in permutations(range(len(steps)), k):
        remaining, probability = set(range(len(steps))), Decimal(1)
        for candidate in chosen:
            share = context.divide(weights[candidate], _sum((weights[other] for other in sorted(remaining)), context))
            probability, remaining = context.multiply(probability, share), remaining - {candidate}
        law[chosen] = probability
    return law


def _permute_and_flip_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    context, weights = law_context(), _weights(steps, rate)
    probabilities = []
    for index, weight in enumerate(weights):
        product = [Decimal(1)]
        for other in weights[:index] + weights[index + 1 :]:
            product = multiply_polynomials(product, [Decimal(1), other.copy_negate()], context)
        terms = [context.divide(coefficient, Decimal(power + 1)) for power, coefficient in enumerate(product)]
        probabilities.append(context.multiply(weight, _sum(terms, context)))
    return probabilities


def multiply_polynomials(first: Sequence[Decimal], second: Sequence[Decimal], context: Context) -> list[Decimal]:
    """Multiply two polynomials given by their coefficients."""
    product = [Decimal(0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product[i + j] = context.add(product[i + j], context.multiply(a, b))
    return product


def _laplace_max_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    """Integrate between the scores, which are 0 for the best and −c·g for the others."""
    scores = [-step * rate for step in steps]
    breakpoints = sorted(set(scores))
    ends: list[Fraction | None] = [None, *breakpoints, None]
    return [_max_probability(candidate, scores, list(pairwise(ends))) for candidate in range(len(scores))]


def _max_probability(
    candidate: int, scores: list[Fraction], parts: list[tuple[Fraction | None, Fraction | None]]
) -> Decimal:
    context = law_context()
    total = Decimal(0)
    for low, high in parts:
        terms = {0: Decimal(1)}
        for other, score in enumerate(scores):
            rising = high is not None and high <= score
            tail = context.multiply(Decimal("0.5"), _exponential(-score if rising else score, context))
            power = 1 if rising else -1
            if other == candidate:
                terms = _multiply_exponentials(terms, {power: tail}, context)
            else:
                terms = _multiply_exponentials(
                    terms, {power: tail} if rising else {0: Decimal(1), power: tail.copy_negate()}, context
                )
        total = context.add(total, _integrate(terms, low, high, context))
    return total


def _multiply_exponentials(
    first: dict[int, Decimal], second: dict[int, Decimal], context: Context
) -> dict[int, Decimal]:
    """Multiply two sums of exponentials e^{kx}, given by their coefficients."""
    product: dict[int, Decimal] = {}
    for i, a in first.items():
        for j, b in second.items():
            product[i + j] = context.add(product.get(i + j, Decimal(0)), context.multiply(a, b))
    return product


def _integrate(terms: dict[int, Decimal], low: Fraction | None, high: Fraction | None, context: Context) -> Decimal:
    total = Decimal(0)
    for power, factor in terms.items():
        if power == 0:
            assert low is not None
            assert high is not None
            width = bits.to_decimal(high - low, context)
            total = context.add(total, context.multiply(factor, width))
            continue
        ends = [Decimal(0) if end is None else _exponential(power * end, context) for end in (low, high)]
        part = context.divide(context.multiply(factor, context.subtract(ends[1], ends[0])), Decimal(power))
        total = context.add(total, part)
    return total


def _exponential(exponent: Fraction, context: Context) -> Decimal:
    return bits.to_decimal(exponent, context).exp(context)


def _sum(terms: Any, context: Context) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = context.add(total, term)
    return total


Rows = tuple[tuple[int, Fraction], ...]
"""Values with their weights."""


@dataclass(frozen=True)
class _QuantilePart:
    """The rows between two selected numbers, and the probabilities still to be selected among them."""

    chances: tuple[Fraction, ...]
    below: Fraction
    above: Fraction
    low: int
    high: int
    rows: Rows
    level: int

    @property
    def middle(self) -> int:
        """Return the index of the probability that is selected first."""
        count = len(self.chances)
        centre = (self.below + self.above) / 2
        return min((count - 1) // 2, count // 2, key=lambda index: abs(self.chances[index] - centre))

    @property
    def share(self) -> Fraction:
        return (self.chances[self.middle] - self.below) / (self.above - self.below)


def rank_law(mechanism: Quantiles, values: Any) -> Law:
    """Return the law of all quantiles of one group of values, as tuples in the order of the probabilities."""
    low, high = mechanism.bounds
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        raise InvalidParameter("neighbours", values, "a pair of lists of integers")
    if (high - low + 1) ** len(mechanism.probabilities) > MAX_OUTCOMES:
        raise InvalidParameter("neighbours", values, "inputs of a mechanism with narrower bounds or fewer quantiles")
    rows = tuple((min(max(value, low), high), Fraction(1)) for value in values)
    part = _QuantilePart(mechanism.probabilities, Fraction(0), Fraction(1), low, high, rows, 0)
    return _part_law(mechanism, part, mechanism.epsilon / _count_levels(part))


def _part_law(mechanism: Quantiles, part: _QuantilePart, per_level: Fraction) -> Law:
    if not part.chances:
        return {(): Decimal(1)}
    context = law_context()
    law: Law = {}
    for number, probability in _selection_probabilities(mechanism, part, per_level):
        lower, upper = (_part_law(mechanism, half, per_level) for half in _split_part(mechanism, part, number))
        for left, p in lower.items():
            for right, q in upper.items():
                law[(*left, number, *right)] = context.multiply(probability, context.multiply(p, q))
    return law


def _selection_probabilities(
    mechanism: Quantiles, part: _QuantilePart, per_level: Fraction
) -> Iterator[tuple[int, Decimal]]:
    context = law_context()
    rate = per_level / (2 * _distance_sensitivity(mechanism, part))
    candidates = range(part.low, part.high + 1)
    weights = [bits.to_decimal(-rate * _rank_distance(mechanism, part, y), context).exp(context) for y in candidates]
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    return zip(candidates, (context.divide(weight, total) for weight in weights), strict=True)


def _rank_distance(mechanism: Quantiles, part: _QuantilePart, y: int) -> Fraction:
    below = sum((weight for value, weight in part.rows if value < y), Fraction(0))
    up_to = sum((weight for value, weight in part.rows if value <= y), Fraction(0))
    target = part.share * sum((weight for _, weight in part.rows), Fraction(0)) + mechanism.offset
    below_gap, above_gap = below - target, target - up_to
    if mechanism.offset < 0 and y == part.low:
        below_gap = Fraction(0)  # the lowest number also covers every rank below it
    if mechanism.offset > 0 and y == part.high:
        above_gap = Fraction(0)
    return max(below_gap, above_gap, Fraction(0))


def _split_part(mechanism: Quantiles, part: _QuantilePart, number: int) -> tuple[_QuantilePart, _QuantilePart]:
    tied_share = part.share if mechanism.offset == 0 else Fraction(int(mechanism.offset > 0))
    probability, index = part.chances[part.middle], part.middle
    tied = sum((weight for value, weight in part.rows if value == number), Fraction(0))
    rows_below = tuple(row for row in part.rows if row[0] < number)
    rows_above = tuple(row for row in part.rows if row[0] > number)
    lower = _QuantilePart(
        part.chances[:index],
        part.below,
        probability,
        part.low,
        number,
        (*rows_below, (number, tied * tied_share)),
        part.level + 1,
    )
    upper = _QuantilePart(
        part.chances[index + 1 :],
        probability,
        part.above,
        number,
        part.high,
        ((number, tied * (1 - tied_share)), *rows_above),
        part.level + 1,
    )
    return lower, upper


def _count_levels(part: _QuantilePart) -> int:
    """Return the depth of the recursion, which depends on the probabilities alone."""
    if not part.chances:
        return 0
    index = part.middle
    probability = part.chances[index]
    lower = _QuantilePart(part.chances[:index], part.below, probability, 0, 0, (), 0)
    upper = _QuantilePart(part.chances[index + 1 :], probability, part.above, 0, 0, (), 0)
    return 1 + max(_count_levels(lower), _count_levels(upper))


def _distance_sensitivity(mechanism: Quantiles, part: _QuantilePart) -> Fraction:
    """Return the sensitivity of the rank distances to one unit.

    It is max(s, 1−s) per row; under replace twice that, or 1 if all rows are in one part.
    """
    worst = max(part.share, 1 - part.share)
    if mechanism.neighbours is Neighbours.REPLACE:
        worst = Fraction(1) if part.level == 0 and not mechanism.grouped else 2 * worst
    return mechanism.rows_per_unit * worst
