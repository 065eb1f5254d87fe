"""Divergences of two finite distributions P and Q, given as arrays, dicts or exact Fractions.

Conventions: an outcome impossible under both (0/0) says nothing; an outcome possible under P alone makes KL, Rényi
of order ≥ 1 and max-divergence infinite, and goes whole into the hockey-stick divergence, which is the δ at that ε.
Floats whose sum misses 1 by rounding are scaled to it. These are definitions to compute with: what a release leaks is
computed by ``Curve.pair``, whose probabilities must sum to exactly 1.

>>> hockey_stick([0.75, 0.25], [0.25, 0.75], 0)
0.5
"""

from __future__ import annotations

import math

from sfumato.privacy.losses import PairLoss, weighted_power_excess
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, log_ratio, means_plus_infinity
from sfumato.privacy.pairs import Distribution, normalised_masses


def kl(p: Distribution, q: Distribution) -> float:
    """Compute E_P[ln P/Q] (Kullback & Leibler 1951): the mean privacy loss."""
    return renyi(p, q, 1)


def max_divergence(p: Distribution, q: Distribution) -> float:
    """Compute sup ln P(S)/Q(S): at most ε both ways is ε-DP (Dwork & Roth 2014, Def. 3.6)."""
    pair = PairLoss(*normalised_masses(p, q))
    if pair.failure:
        return math.inf
    return max(log_ratio(a, b) for a, b in zip(pair.p, pair.q, strict=True) if b and a)


def renyi(p: Distribution, q: Distribution, order: Number) -> float:
    """Compute ln E_Q[(P/Q)^α]/(α − 1) for α > 0, its limits at 1 (KL) and infinity (max-divergence) included (Rényi
    1961).
    """
    if means_plus_infinity(order):
        return max_divergence(p, q)
    alpha = float(exact(order, "order", POSITIVE))
    pair = PairLoss(*normalised_masses(p, q))
    if alpha >= 1:
        return math.inf if pair.failure else pair.renyi(alpha)
    total = math.fsum(float(a) ** alpha * float(b) ** (1 - alpha) for a, b in zip(pair.p, pair.q, strict=True))
    if total < 0.5:
        return math.log(total) / (alpha - 1) if total else math.inf
    # P and Q are close, and the sum is close to 1: its distance from 1 is a sum of terms that are small each.
    common = [(float(b), log_ratio(a, b)) for a, b in zip(pair.p, pair.q, strict=True) if a and b]
    failure_term = alpha * float(pair.failure) + (1 - alpha) * float(pair.reversed().failure)
    return math.log1p(math.fsum(weighted_power_excess(b, y, alpha) for b, y in common) - failure_term) / (alpha - 1)


def hockey_stick(p: Distribution, q: Distribution, epsilon: Number) -> float:
    """Compute Σ max(0, P − e^ε·Q): at most δ both ways is (ε, δ)-DP (Barthe & Olmedo 2013)."""
    return PairLoss(*normalised_masses(p, q)).delta_and_error(float(exact(epsilon, "epsilon", NONNEGATIVE)))[0]
