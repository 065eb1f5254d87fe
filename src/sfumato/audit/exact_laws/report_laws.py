"""The laws of reports and of kept keys are computed exactly, beside each other for two inputs.

Of a long report only what tells two answers apart is enumerated; all else has one law in both worlds and is independent
of it, so no divergence is lost.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.audit.exact_laws.choice_laws import Law, context_of_laws
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import KeyThreshold, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse, bits
from sfumato.mechanisms.key_thresholds import keep_chance
from sfumato.mechanisms.response import PRIME, Response
from sfumato.privacy import Neighbours
from sfumato.privacy.threshold_losses import laplace_tail

Pairs = list[tuple[Fraction, Fraction]]
"""The probability of every outcome in the first world and in the second."""

_MOST_KEYS, _MOST_COUNT = 12, 100_000
_DEVIATIONS = 23
"""So many deviations out, a Gaussian's weight is below e^-260, which is less than a digit of what is computed."""


def report_pairs(mechanism: Response, answers: tuple[Any, Any]) -> Pairs:
    """Compute the laws of a report for two answers."""
    if not all(type(answer) is int and 0 <= answer < mechanism.choices for answer in answers):
        raise InvalidParameter("neighbours", answers, f"two whole numbers in [0, {mechanism.choices})")
    if isinstance(mechanism, RandomizedResponse):
        return _randomised(mechanism, answers)
    if answers[0] == answers[1]:
        return [(Fraction(1), Fraction(1))]
    return _unary(mechanism) if isinstance(mechanism, OptimizedUnaryEncoding) else _hashed(mechanism)


def _randomised(mechanism: RandomizedResponse, answers: tuple[int, int]) -> Pairs:
    odds = mechanism.odds or _growth(mechanism.epsilon)
    total = odds + mechanism.choices - 1
    laws = [[(odds if j == answer else Fraction(1)) / total for j in range(mechanism.choices)] for answer in answers]
    return list(zip(*laws, strict=True))


def _unary(mechanism: OptimizedUnaryEncoding) -> Pairs:
    """The bits of the two answers are set with probability 1/2 for one's own and 1/(e^ε + 1) for the other."""
    noise, half = 1 / (_growth(mechanism.epsilon) + 1), Fraction(1, 2)
    other = (1 - noise, noise)
    return [(half * other[b], other[a] * half) for a, b in product((0, 1), repeat=2)]


def _hashed(mechanism: OptimalLocalHashing) -> Pairs:
    """Over all hash functions (a, b), a ≠ 0, the pair (a·x + b, a·y + b) mod p takes every two different numbers
    equally often; so both answers have one cell with probability Σ n_i(n_i − 1)/(p(p − 1)), n_i numbers being in
    cell i. Else a report names the cell of the one, of the other, or one of the rest.
    """
    cells = mechanism.cells
    sizes = [len(range(cell, PRIME, cells)) for cell in range(cells)]
    same = Fraction(sum(size * (size - 1) for size in sizes), PRIME * (PRIME - 1))
    growth = _growth(mechanism.epsilon)
    total = growth + cells - 1
    own, lie = (1 - same) * growth / total, (1 - same) / total
    return [(same, same), (own, lie), (lie, own), (lie * (cells - 2), lie * (cells - 2))]


def _growth(epsilon: Fraction) -> Fraction:
    context = context_of_laws()
    return Fraction(bits.decimal(epsilon, context).exp(context))


def key_law(mechanism: KeyThreshold, counts: Any) -> Law:
    """Compute the law of which keys are kept: each is kept for itself."""
    held = list(counts) if isinstance(counts, (list, tuple)) else [counts]
    if len(held) > _MOST_KEYS or not all(type(count) is int and 0 <= count <= _MOST_COUNT for count in held):
        raise InvalidParameter("neighbours", counts, f"counts of at most {_MOST_KEYS} keys, up to {_MOST_COUNT} each")
    context = context_of_laws()
    laws: Law = {(): Decimal(1)}
    for count in held:
        kept = _kept(mechanism, count)
        both = {True: kept, False: context.subtract(Decimal(1), kept)}
        laws = {(*key, shown): context.multiply(p, both[shown]) for key, p in laws.items() for shown in (False, True)}
    return laws


def _kept(mechanism: KeyThreshold, count: int) -> Decimal:
    """Compute the probability that a key of so many units is kept."""
    context, threshold = context_of_laws(), mechanism.threshold
    if count == 0:
        return Decimal(0)
    if mechanism.sigma is not None:
        return _gaussian_tail(mechanism.sigma, threshold - count)
    if mechanism.max_groups > 1:
        return laplace_tail(mechanism.scale, threshold - count)
    moved = 2 if mechanism.neighbours is Neighbours.REPLACE else 1
    if count >= threshold:
        return Decimal(1)
    return keep_chance(mechanism.epsilon / moved, mechanism.delta / moved, count)(context)


def _gaussian_tail(sigma: Fraction, t: int) -> Decimal:
    """Compute P(Y ≥ t) of the discrete Gaussian, by adding up all weights that count."""
    context = context_of_laws()
    reach = int(sigma * _DEVIATIONS) + 2
    weights = {x: bits.decimal(-((x / sigma) ** 2) / 2, context).exp(context) for x in range(reach + 1)}
    total, tail = Decimal(0), Decimal(0)
    for x in range(-reach, reach + 1):
        total = context.add(total, weights[abs(x)])
        tail = context.add(tail, weights[abs(x)]) if x >= t else tail
    return context.divide(tail, total)
