"""Exact laws of local randomisers and of key thresholds, paired for two inputs.

Of a long report only a sufficient statistic for the two answers is enumerated: the rest has the same law in both
worlds and is independent of it, so the divergence is unchanged.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import KeyThreshold, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse, bits
from sfumato.mechanisms.key_thresholds import keep_probability
from sfumato.mechanisms.outcome_laws import Law, law_context
from sfumato.mechanisms.response import PRIME, Response
from sfumato.privacy import Neighbours
from sfumato.privacy.threshold_losses import laplace_tail

Pairs = list[tuple[Fraction, Fraction]]
"""The probabilities of every outcome in the first and the second world."""

_MAX_KEYS, _MAX_COUNT = 12, 100_000
_DEVIATIONS = 23
"""At this many standard deviations a Gaussian weight is below e^-260, under the last computed digit."""


def report_pairs(mechanism: Response, answers: tuple[Any, Any]) -> Pairs:
    """Return the paired laws of a report for two answers."""
    if not all(type(answer) is int and 0 <= answer < mechanism.choices for answer in answers):
        raise InvalidParameter("neighbours", answers, f"a pair of integers from 0 to {mechanism.choices - 1}")
    if isinstance(mechanism, RandomizedResponse):
        return _randomized_response_pairs(mechanism, answers)
    if answers[0] == answers[1]:
        return [(Fraction(1), Fraction(1))]
    return (
        _unary_encoding_pairs(mechanism)
        if isinstance(mechanism, OptimizedUnaryEncoding)
        else _local_hashing_pairs(mechanism)
    )


def _randomized_response_pairs(mechanism: RandomizedResponse, answers: tuple[int, int]) -> Pairs:
    odds = mechanism.odds or _exp_epsilon(mechanism.epsilon)
    total = odds + mechanism.choices - 1
    laws = [[(odds if j == answer else Fraction(1)) / total for j in range(mechanism.choices)] for answer in answers]
    return list(zip(*laws, strict=True))


def _unary_encoding_pairs(mechanism: OptimizedUnaryEncoding) -> Pairs:
    """Return the laws of the two answers' bits: set with probability 1/2 if true, else 1/(e^ε + 1)."""
    noise, half = 1 / (_exp_epsilon(mechanism.epsilon) + 1), Fraction(1, 2)
    bit_law = (1 - noise, noise)
    return [(half * bit_law[b], bit_law[a] * half) for a, b in product((0, 1), repeat=2)]


def _local_hashing_pairs(mechanism: OptimalLocalHashing) -> Pairs:
    """Return the laws of which of the two answers a report supports: both, the first, the second or neither.

    Over all hash functions (a, b) with a ≠ 0, the pair (a·x + b, a·y + b) mod p is uniform over pairs of distinct
    residues. So both answers collide with probability Σ n_i(n_i − 1)/(p(p − 1)), with n_i residues in cell i.
    """
    cells = mechanism.cells
    sizes = [len(range(cell, PRIME, cells)) for cell in range(cells)]
    collision = Fraction(sum(size * (size - 1) for size in sizes), PRIME * (PRIME - 1))
    exp_epsilon = _exp_epsilon(mechanism.epsilon)
    total = exp_epsilon + cells - 1
    truthful, lie = (1 - collision) * exp_epsilon / total, (1 - collision) / total
    return [(collision, collision), (truthful, lie), (lie, truthful), (lie * (cells - 2), lie * (cells - 2))]


def _exp_epsilon(epsilon: Fraction) -> Fraction:
    context = law_context()
    return Fraction(bits.to_decimal(epsilon, context).exp(context))


def key_law(mechanism: KeyThreshold, counts: Any) -> Law:
    """Return the law of which keys are kept; keys are kept independently."""
    unit_counts = list(counts) if isinstance(counts, (list, tuple)) else [counts]
    if len(unit_counts) > _MAX_KEYS or not all(
        type(count) is int and 0 <= count <= _MAX_COUNT for count in unit_counts
    ):
        raise InvalidParameter("neighbours", counts, f"counts of at most {_MAX_KEYS} keys, each at most {_MAX_COUNT:,}")
    context = law_context()
    laws: Law = {(): Decimal(1)}
    for count in unit_counts:
        keep = _keep_probability(mechanism, count)
        key_probabilities = {True: keep, False: context.subtract(Decimal(1), keep)}
        laws = {
            (*key, is_kept): context.multiply(p, key_probabilities[is_kept])
            for key, p in laws.items()
            for is_kept in (False, True)
        }
    return laws


def _keep_probability(mechanism: KeyThreshold, count: int) -> Decimal:
    """Return the probability that a key with this many units is kept."""
    context, threshold = law_context(), mechanism.threshold
    if count == 0:
        return Decimal(0)
    if mechanism.sigma is not None:
        return _gaussian_tail(mechanism.sigma, threshold - count)
    if mechanism.max_groups > 1:
        return laplace_tail(mechanism.scale, threshold - count)
    changed_counts = 2 if mechanism.neighbours is Neighbours.REPLACE else 1
    if count >= threshold:
        return Decimal(1)
    return keep_probability(mechanism.epsilon / changed_counts, mechanism.delta / changed_counts, count)(context)


def _gaussian_tail(sigma: Fraction, t: int) -> Decimal:
    """Return P(Y ≥ t) of the discrete Gaussian, by summing all weights that matter."""
    context = law_context()
    reach = int(sigma * _DEVIATIONS) + 2
    weights = {x: bits.to_decimal(-((x / sigma) ** 2) / 2, context).exp(context) for x in range(reach + 1)}
    total, tail = Decimal(0), Decimal(0)
    for x in range(-reach, reach + 1):
        total = context.add(total, weights[abs(x)])
        tail = context.add(tail, weights[abs(x)]) if x >= t else tail
    return context.divide(tail, total)
