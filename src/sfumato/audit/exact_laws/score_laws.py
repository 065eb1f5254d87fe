"""The law of a choice by scores is computed exactly: the probability of every candidate, or of every list of them.

Scores become whole steps below the best of a public grid, as in a release, and c is the rate per step.

- Gumbel noise: P(h) ∝ e^{−c·g_h}; the k best are k such choices, each among what is left (Durfee & Rogers 2019).
- Exponential noise, permute-and-flip: candidates come at uniform times u, and one that comes is taken with probability
  w = e^{−c·g}, so P(h) = w_h·∫₀¹ Π_{j≠h} (1 − u·w_j) du, a polynomial's integral (McKenna & Sheldon 2020).
- Laplace noise: P(h) = ∫ f(x − s_h)·Π_{j≠h} F(x − s_j) dx. Between two scores every factor is a constant and an
  exponential of ±x, so the product is a sum of e^{kx} with whole k, which is integrated term by term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, FrequentValues, MaxNoise, NoisyMax, PermuteAndFlip, TopK, exact_decisions
from sfumato.mechanisms.selection import Scored, field_of

Law = dict[Any, Decimal]
"""The probability of every outcome."""

DIGITS = 110
MOST_OUTCOMES = 40_000
_MOST_CANDIDATES, _MOST_SPREAD = 24, 2000


def context_of_laws() -> Context:
    """Make the arithmetic in which laws are computed: sums of a few thousand terms are right to a hundred digits."""
    return exact_decisions.digits(DIGITS)


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
    return [exact_decisions.decimal(-step * rate, context).exp(context) for step in steps]


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
            width = exact_decisions.decimal(high - low, context)
            total = context.add(total, context.multiply(factor, width))
            continue
        ends = [Decimal(0) if end is None else _exponential(power * end, context) for end in (low, high)]
        part = context.divide(context.multiply(factor, context.subtract(ends[1], ends[0])), Decimal(power))
        total = context.add(total, part)
    return total


def _exponential(exponent: Fraction, context: Context) -> Decimal:
    return exact_decisions.decimal(exponent, context).exp(context)


def _sum(terms: Any, context: Context) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = context.add(total, term)
    return total
