"""Textbook results are functions here, each with its statement and source.

They are here to be read, taught and compared. The accounting of the system itself is ``Curve``, ``compose`` and
``Budget``, which are tighter. Results are rounded toward privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.privacy.codec import spelled
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    INSIDE_UNIT,
    NONNEGATIVE,
    PROBABILITY,
    Number,
    Range,
    exact,
    whole,
)

_MOST_COMPOSED = 4000
_UP = 1 + 2.0**-40  # computed reals are known to far better than this


def _guarantees(items: Iterable[Guarantee]) -> list[Guarantee]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidParameter("guarantees", items, "a sequence of Guarantee")
    return [Guarantee.of(each, "guarantees") for each in items]


def _guarantee(epsilon: Fraction, delta: Fraction, place: str) -> Guarantee:
    if delta >= 1:
        raise InvalidParameter(place, f"δ = {float(delta):.3g}", "a combination whose δ stays below 1")
    return Guarantee(epsilon, delta)


def _probability(log: float) -> float:
    """Compute e^log as an upper bound of a probability: rounded up, and above 0 where it is below all floats."""
    return min(1.0, max(5e-324, math.exp(min(0.0, log)) * _UP))


# ── composition ────────────────────────────────────────────────────────────────────────────────


def basic(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Releases on the same data together are (Σεᵢ, Σδᵢ)-DP (Dwork & Roth 2014, Thm 3.16)."""
    items = _guarantees(guarantees)
    epsilon = sum((g.epsilon for g in items), Fraction(0))
    return _guarantee(epsilon, sum((g.delta for g in items), Fraction(0)), "guarantees")


def parallel(guarantees: Iterable[Guarantee], neighbours: Neighbours | str) -> Guarantee:
    """Releases on parts disjoint in units cost the largest of them (add-remove), or the two largest together (replace).

    Each guarantee must hold for a unit that joins its part, leaves it or is replaced in it. An added unit falls in one
    part (McSherry 2009, Thm 4). A replaced unit may leave one part and enter another, so two parts change (Kifer &
    Machanavajjhala 2011, Sec. 2).
    """
    items = _guarantees(guarantees)
    many = 1 if Neighbours.of(neighbours) is Neighbours.ADD_REMOVE else 2
    epsilon = sum(sorted((g.epsilon for g in items), reverse=True)[:many], Fraction(0))
    delta = sum(sorted((g.delta for g in items), reverse=True)[:many], Fraction(0))
    return _guarantee(epsilon, delta, "guarantees")


def advanced(guarantee: Guarantee, k: int, slack: Number) -> Guarantee:
    """k adaptive releases, each (ε, δ)-DP, are (√(2k ln(1/δ′))·ε + kε(e^ε − 1), kδ + δ′)-DP for any slack δ′ > 0
    (Dwork & Roth 2014, Thm 3.20).
    """
    count = whole(k, "k", at_least=1)
    extra = exact(slack, "slack", INSIDE_UNIT)
    epsilon = float(Guarantee.of(guarantee).epsilon)
    if epsilon > 300:
        raise InvalidParameter("guarantee", guarantee, "one with ε ≤ 300, where this theorem could say anything")
    total = math.sqrt(-2 * count * math.log(extra)) * epsilon + count * epsilon * math.expm1(epsilon)
    return _guarantee(Fraction(total * _UP), count * guarantee.delta + extra, "k")


def optimal(epsilon: Number, k: int) -> tuple[Guarantee, ...]:
    """k releases, each ε-DP, are exactly ((k − 2i)ε, δᵢ)-DP for i = 0 … ⌊k/2⌋ (Kairouz, Oh & Viswanath 2015, Thm 3.3).

    δᵢ = Σ_{l<i} C(k,l)·(e^{(k−l)ε} − e^{(k−2i+l)ε})/(1 + e^ε)^k: none can be improved for randomised response.
    """
    x, count = exact(epsilon, "epsilon", NONNEGATIVE), whole(k, "k", at_least=1)
    if count > _MOST_COMPOSED:
        raise InvalidParameter("k", k, f"at most {_MOST_COMPOSED}", fix="use compose([(Curve.pure(epsilon), k)])")
    e, m = float(x), np.arange(count // 2 + 1)
    log_all = count * (e + math.log1p(math.exp(-e)))
    chosen = np.array([math.log(math.comb(count, int(each))) for each in m])
    masses = np.exp(chosen + (count - m) * e - log_all)
    deltas = [math.fsum(masses[:i] * -np.expm1(-2 * (i - m[:i]) * e)) for i in m]
    return tuple(
        Guarantee((count - 2 * i) * x, min(Fraction(delta * _UP), 1 - Fraction(1, 10**300)))
        for i, delta in enumerate(deltas)
    )


def group(guarantee: Guarantee, k: int) -> Guarantee:
    """k units together have kε, and δ(1 + e^ε + … + e^{(k−1)ε}) = δ·(e^{kε} − 1)/(e^ε − 1), along a chain of k
    neighbours (Dwork & Roth 2014, Thm 2.2).
    """
    promise = Guarantee.of(guarantee)
    curve = Curve.approximate(promise.epsilon, promise.delta).group(k)
    return Guarantee(whole(k, "k", at_least=1) * promise.epsilon, curve.failure)


# ── conversions between currencies ─────────────────────────────────────────────────────────────


def pure_to_rho(epsilon: Number) -> Fraction:
    """ε-DP is ε²/2-zCDP (Bun & Steinke 2016, Prop. 1.4)."""
    return exact(epsilon, "epsilon", NONNEGATIVE) ** 2 / 2


def renyi_to_delta(order: Number, divergence: Number, epsilon: Number) -> float:
    """D_α ≤ r gives δ(ε) = e^{(α−1)(r−ε)}·(1 − 1/α)^α/(α − 1) (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    z = float(exact(order, "order", ABOVE_ONE) - 1)
    gap = exact(divergence, "divergence", NONNEGATIVE) - exact(epsilon, "epsilon", NONNEGATIVE)
    lead = max(Fraction(-10000), min(Fraction(10000), (exact(order, "order") - 1) * gap))
    terms = float(lead), -(1 + z) * math.log1p(1 / z), -math.log(z)
    power = math.fsum(terms) + 2.0**-50 * sum(map(abs, terms))
    return _probability(power)


def renyi_to_epsilon(order: Number, divergence: Number, delta: Number) -> float:
    """Find the ε at which ``renyi_to_delta`` is δ."""
    alpha, r = exact(order, "order", ABOVE_ONE), exact(divergence, "divergence", NONNEGATIVE)
    spare = exact(delta, "delta", INSIDE_UNIT)
    return max(0.0, (float(r) + float(_conversion_cost(alpha, spare, ROUND_CEILING))) * _UP)


def rho_to_epsilon(rho: Number, delta: Number) -> float:
    """ρ-zCDP is (ε, δ)-DP for the least ε that some order proves (Canonne, Kamath & Steinke 2020, Cor. 13)."""
    return Curve.concentrated(rho).epsilon(exact(delta, "delta", INSIDE_UNIT))


def rho_to_delta(rho: Number, epsilon: Number) -> float:
    """ρ-zCDP is (ε, δ)-DP for the least δ that some order proves."""
    return Curve.concentrated(rho).delta(epsilon)


def mu_to_delta(mu: Number, epsilon: Number) -> float:
    """μ-GDP has δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) (Dong, Roth & Su 2022, Cor. 2.13)."""
    return Curve.gdp(mu).delta(epsilon)


def mu_to_epsilon(mu: Number, delta: Number) -> float:
    """Find the ε at which μ-GDP has this δ, by ``mu_to_delta``."""
    return Curve.gdp(mu).epsilon(delta)


@dataclass(frozen=True)
class RenyiAllowance:
    """Rényi divergence of one order may be spent up to this: D_order ≤ divergence implies the guarantee it is for."""

    order: Fraction
    divergence: Fraction

    __repr__ = spelled

    @property
    def rho(self) -> Fraction:
        """Give it as zCDP: ρ·order = divergence."""
        return self.divergence / self.order


def renyi_allowance(guarantee: Guarantee, order: Number | None = None) -> RenyiAllowance:
    """Find the largest r with D_α ≤ r ⇒ (ε, δ)-DP, at the given order or at the one that is best for Gaussian noise
    (largest r/α).

    r = ε − [ln(1/(δ(α−1))) + α ln(1 − 1/α)]/(α − 1), in 50 digits, rounded down.
    """
    if not Guarantee.of(guarantee).delta or not guarantee.epsilon:
        raise InvalidParameter("guarantee", guarantee, "one with ε > 0 and δ > 0")
    alpha = exact(order, "order", ABOVE_ONE) if order is not None else _best_order(guarantee)
    divergence = guarantee.epsilon - _conversion_cost(alpha, guarantee.delta, ROUND_CEILING)
    if divergence <= 0:
        raise InvalidParameter(
            "order", order, f"large enough to leave an allowance, such as {float(_best_order(guarantee)):.4g}"
        )
    return RenyiAllowance(alpha, divergence)


def _conversion_cost(alpha: Fraction, delta: Fraction, rounding: str) -> Fraction:
    """Compute [ln(1/(δ(α−1))) + α ln(1 − 1/α)]/(α − 1) to 50 digits, then round at the fortieth."""
    wide = Context(prec=50)
    ratio = 1 - 1 / alpha
    first = _decimal(1 / (delta * (alpha - 1)), wide).ln(wide)
    second = wide.multiply(_decimal(alpha, wide), _decimal(ratio, wide).ln(wide))
    cost = wide.divide(wide.add(first, second), _decimal(alpha - 1, wide))
    return Fraction(cost.quantize(Decimal(1).scaleb(max(-40, cost.adjusted() - 40)), rounding, Context(prec=90)))


def _decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _best_order(guarantee: Guarantee) -> Fraction:
    """Find the order with the largest r(α)/α, to six digits: one valley in ln(α − 1), narrowed by thirds."""
    epsilon, log_delta = float(guarantee.epsilon), math.log(guarantee.delta)

    def rho(log_z: float) -> float:
        z = math.exp(log_z)
        cost = (-log_delta - log_z + (1 + z) * (log_z - math.log1p(z))) / z
        return (epsilon - cost) / (1 + z)

    low, high = math.log(1e-9), math.log(1e290)
    for _ in range(300):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if rho(left) < rho(right) else (low, right)
    return 1 + Fraction(Decimal(f"{math.exp(low):.6g}"))


# ── concentration ──────────────────────────────────────────────────────────────────────────────

_UNIT_RATIO = Range("a number in [-1, 1]", Fraction(-1), Fraction(1))


def chernoff_additive(samples: int, deviation: Number) -> float:
    """The mean of m independent variables in [0, 1] exceeds its expectation by t with probability ≤ e^{−2mt²}
    (Dwork & Roth 2014, Thm 3.1; Hoeffding 1963).
    """
    m, t = whole(samples, "samples", at_least=1), float(exact(deviation, "deviation", NONNEGATIVE))
    return _probability(-2 * m * t * t)


def chernoff_multiplicative(samples: int, mean: Number, ratio: Number) -> float:
    """Bound the tail of the mean S of m independent variables in {0, 1} with expectation μ: P(S > (1+r)μ) ≤
    e^{−mμr²/3}; for a negative ratio P(S < (1−|r|)μ) ≤ e^{−mμr²/2} (Dwork & Roth 2014, Thm 3.2).
    """
    m, mu = whole(samples, "samples", at_least=1), float(exact(mean, "mean", PROBABILITY))
    r = float(exact(ratio, "ratio", _UNIT_RATIO))
    return _probability(-m * mu * r * r / (3 if r >= 0 else 2))


def azuma(effects: Iterable[Number], deviation: Number) -> float:
    """A function exceeds its expectation by t with probability ≤ e^{−2t²/Σcᵢ²}, if its i-th independent input changes
    it by at most cᵢ (Dwork & Roth 2014, Thm 3.3; McDiarmid 1989).
    """
    if isinstance(effects, (str, bytes)) or not isinstance(effects, Iterable):
        raise InvalidParameter("effects", effects, "a sequence of numbers ≥ 0")
    squares = sum((exact(c, "effects", NONNEGATIVE) ** 2 for c in effects), Fraction(0))
    t = exact(deviation, "deviation", NONNEGATIVE)
    if t == 0:
        return 1.0
    return _probability(-float(min(Fraction(10000), 2 * t * t / squares))) if squares else 0.0


def stirling(n: int) -> tuple[float, float]:
    """Bound ln n! by ln √(2πn) + n ln n − n plus something between 1/(12n+1) and 1/(12n) (Robbins 1955)."""
    count = whole(n, "n", at_least=1)
    middle = math.log(2 * math.pi * count) / 2 + count * math.log(count) - count
    slack = 2.0**-50 * (1 + count + count * math.log(count))
    return middle + 1 / (12 * count + 1) - slack, middle + 1 / (12 * count) + slack


__all__ = [
    "RenyiAllowance",
    "advanced",
    "azuma",
    "basic",
    "chernoff_additive",
    "chernoff_multiplicative",
    "group",
    "mu_to_delta",
    "mu_to_epsilon",
    "optimal",
    "parallel",
    "pure_to_rho",
    "renyi_allowance",
    "renyi_to_delta",
    "renyi_to_epsilon",
    "rho_to_delta",
    "rho_to_epsilon",
    "stirling",
]
