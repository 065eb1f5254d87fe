"""Textbook theorems as functions, each with its statement and source.

They are for reading, teaching and comparison. The system's own accounting is ``Curve``, ``compose`` and
``Budget``, which are tighter. Results are rounded toward privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy.codec import constructor_repr
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
    exact_integer,
)
from sfumato.quick_dataclass import dataclass

_MAX_COMPOSED = 4000
_MAX_KAPPA, _MAX_POWER = 900, 50
_SMALLEST = Fraction(1, 10**300)
"""A δ that is positive but beyond floating point is rounded up to this."""
_ROUND_UP = 1 + 2.0**-40  # computed reals are known to far better than this


def _checked_guarantees(items: Iterable[Guarantee]) -> list[Guarantee]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidParameter("guarantees", items, "a list", fix="write [Guarantee(1), Guarantee(2)]")
    guarantees = list(items)
    for guarantee in guarantees:
        if not isinstance(guarantee, Guarantee):
            fix = "write [Guarantee(1), Guarantee(2)]"
            raise InvalidParameter("guarantees", guarantee, "a list of Guarantee values", fix=fix)
    return guarantees


def _guarantee_below_delta_one(epsilon: Fraction, delta: Fraction, place: str) -> Guarantee:
    if delta >= 1:
        raise InvalidParameter(
            place,
            ValueWords(f"a total of {float(delta):.3g}"),
            {"k": "a number of releases whose total δ is below 1"}.get(place, "a list with a total δ below 1"),
            fix="combine fewer releases, or give each of them a smaller δ",
        )
    return Guarantee(epsilon, delta)


def _upper_probability(log_probability: float) -> float:
    """Return an upper bound of e^log as a probability: rounded up, and positive even below the smallest float."""
    return min(1.0, max(5e-324, math.exp(min(0.0, log_probability)) * _ROUND_UP))


# ── composition ────────────────────────────────────────────────────────────────────────────────


def basic(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Releases on the same data together are (Σεᵢ, Σδᵢ)-DP (Dwork & Roth 2014, Thm 3.16; adaptive: Thm B.1)."""
    checked = _checked_guarantees(guarantees)
    epsilon = sum((g.epsilon for g in checked), Fraction(0))
    return _guarantee_below_delta_one(epsilon, sum((g.delta for g in checked), Fraction(0)), "guarantees")


def parallel(guarantees: Iterable[Guarantee], neighbours: Neighbours | str) -> Guarantee:
    """Releases on parts disjoint in units cost the largest of them (add-remove), or the two largest together (replace).

    Each guarantee must hold for a unit that joins its part, leaves it or is replaced in it. An added unit falls in one
    part (McSherry 2009, Thm 4). A replaced unit may leave one part and enter another, so two parts change (Kifer &
    Machanavajjhala 2011, Sec. 2).
    """
    checked = _checked_guarantees(guarantees)
    parts_changed = 1 if Neighbours.of(neighbours) is Neighbours.ADD_REMOVE else 2
    epsilon = sum(sorted((g.epsilon for g in checked), reverse=True)[:parts_changed], Fraction(0))
    delta = sum(sorted((g.delta for g in checked), reverse=True)[:parts_changed], Fraction(0))
    return _guarantee_below_delta_one(epsilon, delta, "guarantees")


def advanced(guarantee: Guarantee, k: int, slack: Number) -> Guarantee:
    """k adaptive releases, each (ε, δ)-DP, are (√(2k ln(1/δ′))·ε + kε(e^ε − 1), kδ + δ′)-DP for any slack δ′ > 0
    (Dwork & Roth 2014, Thm 3.20).
    """
    count = exact_integer(k, "k", at_least=1)
    slack_delta = exact(slack, "slack", INSIDE_UNIT)
    epsilon = float(Guarantee.of(guarantee).epsilon)
    if epsilon > 300:
        rule = "one with ε ≤ 300: this bound is not computed for a larger ε"
        raise InvalidParameter("guarantee", guarantee, rule, fix="give a guarantee with a smaller ε")
    total_epsilon = math.sqrt(-2 * count * math.log(slack_delta)) * epsilon + count * epsilon * math.expm1(epsilon)
    return _guarantee_below_delta_one(Fraction(total_epsilon * _ROUND_UP), count * guarantee.delta + slack_delta, "k")


def optimal(epsilon: Number, k: int) -> tuple[Guarantee, ...]:
    """k releases, each ε-DP, are exactly ((k − 2i)ε, δᵢ)-DP for i = 0 … ⌊k/2⌋ (Kairouz, Oh & Viswanath 2015, Thm 3.3).

    δᵢ = Σ_{l<i} C(k,l)·(e^{(k−l)ε} − e^{(k−2i+l)ε})/(1 + e^ε)^k: none can be improved for randomised response. The last
    ones are left out if their δ rounds to 1, which would promise nothing.
    """
    x, count = exact(epsilon, "epsilon", NONNEGATIVE), exact_integer(k, "k", at_least=1)
    if count > _MAX_COMPOSED:
        raise InvalidParameter(
            "k", k, f"at most {_MAX_COMPOSED}", fix="for more releases, use compose([(Curve.pure(epsilon), k)])"
        )
    e, m = float(x), np.arange(count // 2 + 1)
    log_all = count * math.log1p(math.exp(-e))
    log_choices = np.array([math.log(math.comb(count, int(successes))) for successes in m])
    masses = np.exp(log_choices - m * e - log_all)  # C(k,l)·e^{(k−l)ε}/(1 + e^ε)^k
    deltas = [math.fsum(masses[:i] * -np.expm1(-2 * (i - m[:i]) * e)) for i in m]
    # where a mass is no less than the least float, these logarithms and m·e < 745 + both are each rounded a few times
    round_up = _ROUND_UP + 2.0**-49 * (log_all + float(log_choices.max()))
    bounds = [
        Fraction(delta * round_up) if i * x else 0 for i, delta in enumerate(np.maximum(deltas, float(_SMALLEST)))
    ]
    return tuple(Guarantee((count - 2 * i) * x, bound) for i, bound in enumerate(bounds) if bound < 1)


def group(guarantee: Guarantee, k: int) -> Guarantee:
    """k units together have kε, and δ(1 + e^ε + … + e^{(k−1)ε}) = δ·(e^{kε} − 1)/(e^ε − 1), along a chain of k
    neighbours (Dwork & Roth 2014, Thm 2.2, is the case δ = 0).
    """
    promise = Guarantee.of(guarantee)
    curve = Curve.approximate(promise.epsilon, promise.delta).group(k)
    return Guarantee(exact_integer(k, "k", at_least=1) * promise.epsilon, curve.failure)


# ── how small δ must be ────────────────────────────────────────────────────────────────────────


def kappa_secure(epsilon: Number, kappa: int) -> Guarantee:
    """Return (ε, 2^−κ) for a security parameter κ: a mechanism M(κ, ·) that keeps it for every κ has a negligible δ
    (Dwork & Roth 2014, section 2.3).

    >>> float(kappa_secure(1, 40).delta) < 1e-12
    True
    """
    bits = exact_integer(kappa, "kappa", at_least=1)
    if bits > _MAX_KAPPA:
        raise InvalidParameter(
            "kappa",
            kappa,
            f"at most {_MAX_KAPPA}",
            fix="use kappa=40 for statistics, or kappa=128 for cryptographic keys",
        )
    return Guarantee(epsilon, Fraction(1, 2**bits))


def negligible_from(power: int) -> int:
    """Return the least κ₀ such that 2^−κ ≤ κ^−power for every κ ≥ κ₀: there is one for every power, which is what
    makes δ(κ) = 2^−κ negligible, δ = κ^−ω(1).

    Proof: κ·ln 2 − power·ln κ rises for κ > power/ln 2, so from the last κ at which it is negative it stays ≥ 0; that
    κ is below 2·power² + 2, where 2^κ > κ^power.
    """
    degree = exact_integer(power, "power", at_least=1)
    if degree > _MAX_POWER:
        raise InvalidParameter("power", power, f"at most {_MAX_POWER}")
    too_small = (kappa for kappa in range(2 * degree**2 + 2, 0, -1) if 2**kappa < kappa**degree)
    return next(too_small, 0) + 1


# ── private multiplicative weights ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class WeightsPlan:
    """What private multiplicative weights need for an error: people, rounds, and the ε of each of two steps a round."""

    people: int
    rounds: int
    epsilon: Fraction

    __repr__ = constructor_repr


def multiplicative_weights(error: Number, miss: Number, queries: int, cells: int, guarantee: Guarantee) -> WeightsPlan:
    """Private multiplicative weights answer |Q| linear queries over |X| cells, each as a share of n people and all
    within ``error`` except with probability ``miss``, from n people (replace neighbours, n public) on.

    With α = error/4: T = ⌈4 ln|X|/α²⌉ rounds (``publish.mwem``), each a selection and a measurement of ε₀, 2T·ε₀ = ε,
    or the largest ε₀ that ``advanced`` composition of 2T steps allows at δ; and n = ⌈2 ln(2T|Q|/β)/(ε₀α)⌉, so that all
    selections, within (2/ε₀n)·ln(2T|Q|/β) of the worst (Dwork & Roth 2014, Thm 3.11), and all Laplace noises of scale
    1/(ε₀n) are within α. So n = O(ln|Q|·√(ln|X|·ln(1/δ))/(α²ε)); lecture notes also state it without the root, which
    is a weaker claim.
    """
    alpha, beta = exact(error, "error", INSIDE_UNIT) / 4, exact(miss, "miss", INSIDE_UNIT)
    query_count, cell_count = exact_integer(queries, "queries", at_least=1), exact_integer(cells, "cells", at_least=2)
    promise = Guarantee.of(guarantee)
    if not promise.epsilon:
        raise InvalidParameter(
            "guarantee", guarantee, "a guarantee with ε above 0", fix="write a guarantee such as sf.Guarantee(0.5)"
        )
    rounds = math.ceil(4 * math.log(cell_count) / float(alpha) ** 2 * _ROUND_UP)
    step_epsilon = promise.epsilon / (2 * rounds)
    if promise.delta:
        step_epsilon = max(step_epsilon, _advanced_step_epsilon(promise, 2 * rounds))
    log_term = math.log(2 * rounds) + math.log(query_count) - math.log(beta)
    return WeightsPlan(math.ceil(2 * log_term * _ROUND_UP / float(step_epsilon * alpha)), rounds, step_epsilon)


def _advanced_step_epsilon(guarantee: Guarantee, steps: int) -> Fraction:
    """Return nearly the largest ε₀ of so many pure steps that advanced composition keeps within the guarantee."""
    low, high = Fraction(0), guarantee.epsilon
    for _ in range(40):
        middle = Fraction(float((low + high) / 2))
        fits = middle <= 300 and advanced(Guarantee(middle), steps, guarantee.delta).epsilon <= guarantee.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(math.floor(low * 10**12), 10**12) or low


# ── conversions between currencies ─────────────────────────────────────────────────────────────


def pure_to_rho(epsilon: Number) -> Fraction:
    """ε-DP is ε²/2-zCDP (Bun & Steinke 2016, Prop. 1.4)."""
    return exact(epsilon, "epsilon", NONNEGATIVE) ** 2 / 2


def renyi_to_delta(order: Number, divergence: Number, epsilon: Number) -> float:
    """D_α ≤ r gives δ(ε) = e^{(α−1)(r−ε)}·(1 − 1/α)^α/(α − 1) (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    z = float(exact(order, "order", ABOVE_ONE) - 1)
    gap = exact(divergence, "divergence", NONNEGATIVE) - exact(epsilon, "epsilon", NONNEGATIVE)
    exponent = max(Fraction(-10000), min(Fraction(10000), (exact(order, "order") - 1) * gap))
    terms = float(exponent), -(1 + z) * math.log1p(1 / z), -math.log(z)
    log_delta = math.fsum(terms) + 2.0**-50 * sum(map(abs, terms))
    return _upper_probability(log_delta)


def renyi_to_epsilon(order: Number, divergence: Number, delta: Number) -> float:
    """Return the ε at which ``renyi_to_delta`` is δ."""
    alpha, r = exact(order, "order", ABOVE_ONE), exact(divergence, "divergence", NONNEGATIVE)
    spare = exact(delta, "delta", INSIDE_UNIT)
    return max(0.0, (float(r) + float(_conversion_cost(alpha, spare, ROUND_CEILING))) * _ROUND_UP)


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
    """Return the ε at which μ-GDP has this δ, by ``mu_to_delta``."""
    return Curve.gdp(mu).epsilon(delta)


@dataclass(frozen=True)
class RenyiAllowance:
    """An allowance of Rényi divergence of one order: D_order ≤ divergence implies the guarantee it was derived from."""

    order: Fraction
    divergence: Fraction

    __repr__ = constructor_repr

    @property
    def rho(self) -> Fraction:
        """The same allowance as zCDP: ρ·order = divergence."""
        return self.divergence / self.order


def renyi_allowance(guarantee: Guarantee, order: Number | None = None) -> RenyiAllowance:
    """Return the largest r with D_α ≤ r ⇒ (ε, δ)-DP, at the given order or at the one that is best for Gaussian noise
    (largest r/α).

    r = ε − [ln(1/(δ(α−1))) + α ln(1 − 1/α)]/(α − 1), in 50 digits, rounded down.
    """
    if not Guarantee.of(guarantee).delta or not guarantee.epsilon:
        rule = "one with ε > 0 and δ > 0"
        raise InvalidParameter("guarantee", guarantee, rule, fix="set guarantee to, for example, Guarantee(1, '1e-6')")
    alpha = exact(order, "order", ABOVE_ONE) if order is not None else _best_order(guarantee)
    divergence = guarantee.epsilon - _conversion_cost(alpha, guarantee.delta, ROUND_CEILING)
    if divergence <= 0:
        raise InvalidParameter(
            "order", order, f"large enough for this guarantee, such as {float(_best_order(guarantee)):.4g}"
        )
    return RenyiAllowance(alpha, divergence)


def _conversion_cost(alpha: Fraction, delta: Fraction, decimal_rounding: str) -> Fraction:
    """Compute [ln(1/(δ(α−1))) + α ln(1 − 1/α)]/(α − 1) to 50 digits, then round at the fortieth."""
    context = Context(prec=50)
    ratio = 1 - 1 / alpha
    log_term = _fraction_to_decimal(1 / (delta * (alpha - 1)), context).ln(context)
    ratio_term = context.multiply(
        _fraction_to_decimal(alpha, context), _fraction_to_decimal(ratio, context).ln(context)
    )
    cost = context.divide(context.add(log_term, ratio_term), _fraction_to_decimal(alpha - 1, context))
    return Fraction(
        cost.quantize(Decimal(1).scaleb(max(-40, cost.adjusted() - 40)), decimal_rounding, Context(prec=90))
    )


def _fraction_to_decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache(maxsize=256)
def _best_order(guarantee: Guarantee) -> Fraction:
    """Return the order with the largest r(α)/α, to six digits: one peak in ln(α − 1), found by ternary search."""
    epsilon, log_delta = float(guarantee.epsilon), math.log(guarantee.delta)

    def rho(log_z: float) -> float:
        z = math.exp(log_z)
        cost = (-log_delta - log_z + (1 + z) * (log_z - math.log1p(z))) / z
        return (epsilon - cost) / (1 + z)

    low, high = math.log(1e-9), math.log(1e290)
    while True:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        narrowed = (left, high) if rho(left) < rho(right) else (low, right)
        if narrowed == (low, high):  # as narrow as floating-point numbers allow
            break
        low, high = narrowed
    return 1 + Fraction(Decimal(f"{math.exp(low):.6g}"))


# ── concentration ──────────────────────────────────────────────────────────────────────────────

_UNIT_RATIO = Range("a number in [-1, 1]", Fraction(-1), Fraction(1))


def chernoff_additive(samples: int, deviation: Number) -> float:
    """The mean of m independent variables in [0, 1] exceeds its expectation by t with probability ≤ e^{−2mt²}
    (Dwork & Roth 2014, Thm 3.1; Hoeffding 1963).
    """
    m, t = exact_integer(samples, "samples", at_least=1), float(exact(deviation, "deviation", NONNEGATIVE))
    return _upper_probability(-2 * m * t * t)


def chernoff_multiplicative(samples: int, mean: Number, ratio: Number) -> float:
    """Bound the tail of the mean S of m independent variables in {0, 1} with expectation μ: P(S > (1+r)μ) ≤
    e^{−mμr²/3}; for a negative ratio P(S < (1−|r|)μ) ≤ e^{−mμr²/2} (Dwork & Roth 2014, Thm 3.2).
    """
    m, mu = exact_integer(samples, "samples", at_least=1), float(exact(mean, "mean", PROBABILITY))
    r = float(exact(ratio, "ratio", _UNIT_RATIO))
    return _upper_probability(-m * mu * r * r / (3 if r >= 0 else 2))


def azuma(effects: Iterable[Number], deviation: Number) -> float:
    """A function exceeds its expectation by t with probability ≤ e^{−2t²/Σcᵢ²}, if its i-th independent input changes
    it by at most cᵢ (Dwork & Roth 2014, Thm 3.3; McDiarmid 1989).
    """
    if isinstance(effects, (str, bytes)) or not isinstance(effects, Iterable):
        raise InvalidParameter("effects", effects, "a sequence of numbers ≥ 0")
    allowed = NONNEGATIVE.for_list
    squares = sum((exact(c, "effects", allowed) ** 2 for c in effects), Fraction(0))
    t = exact(deviation, "deviation", NONNEGATIVE)
    if t == 0:
        return 1.0
    return _upper_probability(-float(min(Fraction(10000), 2 * t * t / squares))) if squares else 0.0


def stirling(n: int) -> tuple[float, float]:
    """Bound ln n! by ln √(2πn) + n ln n − n plus something between 1/(12n+1) and 1/(12n) (Robbins 1955)."""
    count = exact_integer(n, "n", at_least=1)
    log_leading = math.log(2 * math.pi * count) / 2 + count * math.log(count) - count
    slack = 2.0**-50 * (1 + count + count * math.log(count))
    return log_leading + 1 / (12 * count + 1) - slack, log_leading + 1 / (12 * count) + slack


__all__ = [
    "RenyiAllowance",
    "WeightsPlan",
    "advanced",
    "azuma",
    "basic",
    "chernoff_additive",
    "chernoff_multiplicative",
    "group",
    "kappa_secure",
    "mu_to_delta",
    "mu_to_epsilon",
    "multiplicative_weights",
    "negligible_from",
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
