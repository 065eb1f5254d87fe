"""Laws of noise, privacy losses and their divergences in 50 digits, by sums over outcomes and by integrals.

Nothing here knows a formula of the package: a tail is a sum of probabilities, a divergence a sum or an integral over
both laws, a best parameter is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np

from vectors.registry import Vector, between

MP = mpmath.MPContext()
"""A context of its own: no other test changes its digits, nor does it change theirs."""
MP.dps = 50
Real = Any
Pairs = list[tuple[Real, Real]]
Law = dict[int, Real]
_ONE = 10**60
_REACH = 135
"""e^−135 is below 1e-58."""


def real(number: Any) -> Real:
    """Take a number as its exact value; a float as its shortest decimal."""
    if isinstance(number, MP.mpf):
        return number
    exact = number if isinstance(number, Fraction) else Fraction(str(number))
    return MP.mpf(exact.numerator) / exact.denominator


def up(number: Real) -> float:
    """Find the least float that is not below a number."""
    nearest = float(number)
    return math.nextafter(nearest, math.inf) if MP.mpf(nearest) < number else nearest


def down(number: Real) -> float:
    return -up(-number)


def upper(truth: Real, gap: float, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State that a result is an upper bound, at most this part above the truth."""
    truths = truth if isinstance(truth, (tuple, list)) else (truth,)
    high = [up(each * (1 + MP.mpf(gap))) for each in truths]
    return between([up(each) for each in truths], high, formula, *arguments, **named)


def upper_fraction(truth: Real, gap: float, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State the same of a formula whose result is an exact fraction, and compare it as one."""
    return between(as_fraction(truth), as_fraction(truth * (1 + MP.mpf(gap))), formula, *arguments, **named)


def as_fraction(number: Real) -> Fraction:
    """Take all digits of a computed number."""
    sign, mantissa, exponent, _ = number._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent


def lower(truth: Real, gap: float, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State that a result is a lower bound, at most this part below the truth."""
    return between(down(truth * (1 - MP.mpf(gap))), down(truth), formula, *arguments, **named)


def enclosing(truth: Real, gap: float, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State that a result is a pair of bounds, each at most this part away from the truth."""
    away = abs(truth) * MP.mpf(gap)
    return between((down(truth - away), up(truth)), (down(truth), up(truth + away)), formula, *arguments, **named)


# ── laws of noise ──────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def laplace_law(scale: Fraction) -> Law:
    """List the probabilities of the discrete Laplace, each weight over the sum of all."""
    reach = math.ceil(_REACH * scale) + 2
    return _normalised({x: MP.exp(-abs(x) / real(scale)) for x in range(-reach, reach + 1)})


@lru_cache(maxsize=64)
def gaussian_law(sigma: Fraction) -> Law:
    reach = math.ceil(17 * sigma) + 3
    return _normalised({x: MP.exp(-MP.mpf(x * x) / (2 * real(sigma) ** 2)) for x in range(-reach, reach + 1)})


def _normalised(weights: Law) -> Law:
    total = MP.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@lru_cache(maxsize=64)
def laplace_sum(scale: Fraction, weights: tuple[int, ...]) -> Law:
    """Give the law of a sum of discrete Laplace noises, each times a whole number."""
    return _weighted_sum(laplace_law(scale), weights)


@lru_cache(maxsize=64)
def gaussian_sum(sigma: Fraction, weights: tuple[int, ...]) -> Law:
    return _weighted_sum(gaussian_law(sigma), weights)


def _weighted_sum(law: Law, weights: tuple[int, ...]) -> Law:
    return summed(*({weight * x: mass for x, mass in law.items()} for weight in weights))


def summed(*laws: Law) -> Law:
    """Give the law of a sum of independent numbers, by convolution of whole multiples of 1e-60."""
    found, start = np.array([_ONE], dtype=object), 0
    for law in laws:
        first, last = min(law), max(law)
        weights = np.array([int(law.get(x, 0) * _ONE) for x in range(first, last + 1)], dtype=object)
        found, start = np.convolve(found, weights) // _ONE, start + first
    return {start + place: MP.mpf(int(mass)) / _ONE for place, mass in enumerate(found)}


def beyond(law: Law, width: int) -> Real:
    """Sum P(|Y| > width)."""
    return MP.fsum(mass for x, mass in law.items() if abs(x) > width)


def at_least(law: Law, least: int) -> Real:
    """Sum P(Y ≥ least)."""
    return MP.fsum(mass for x, mass in law.items() if x >= least)


def half_width(law: Law, miss: Real) -> int:
    """Find the least w with P(|Y| > w) ≤ miss, walking inwards from the far end."""
    outside, width = MP.mpf(0), max(law)
    while width > 0 and outside + law[width] + law.get(-width, MP.mpf(0)) <= miss:
        outside += law[width] + law.get(-width, MP.mpf(0))
        width -= 1
    return width


# ── pairs of laws ──────────────────────────────────────────────────────────────────────────────


def moved(law: Law, shift: int) -> Pairs:
    """Pair a law with itself moved; where only one of both is known, the other is below 1e-58 and is left out."""
    return [(mass, law[x - shift]) for x, mass in law.items() if x - shift in law]


def product(*pairs: Pairs) -> Pairs:
    found: Pairs = [(MP.mpf(1), MP.mpf(1))]
    for each in pairs:
        found = [(p * a, q * b) for p, q in found for a, b in each]
    return found


def response(epsilon: Any, choices: int = 2, reveal: Any = 0) -> Pairs:
    """Randomised response, outcome by outcome; with some probability the truth is told outright."""
    odds, kept = MP.exp(real(epsilon)), 1 - real(reveal)
    total = odds + choices - 1
    told = [odds / total, *[1 / total] * (choices - 1)]
    both = list(zip(told, [told[1], told[0], *told[2:]], strict=True))
    hidden = [(kept * p, kept * q) for p, q in both]
    return [*hidden, (1 - kept, MP.mpf(0)), (MP.mpf(0), 1 - kept)] if reveal else hidden


def hockey_stick(pairs: Pairs, epsilon: Any) -> Real:
    growth = MP.exp(real(epsilon))
    return MP.fsum(p - growth * q for p, q in pairs if p > growth * q)


def renyi(pairs: Pairs, order: Any) -> Real:
    alpha = real(order)
    if alpha == 1:
        return MP.fsum(p * MP.log(p / q) for p, q in pairs if p)
    return MP.log(MP.fsum(p * (p / q) ** (alpha - 1) for p, q in pairs if p)) / (alpha - 1)


def root(rising: Callable[..., Real], low: Any, high: Any, rounds: int = 170) -> Real:
    """Find where a rising function is zero, by halving."""
    a, b = MP.mpf(low), MP.mpf(high)
    for _ in range(rounds):
        middle = (a + b) / 2
        a, b = (a, middle) if rising(middle) >= 0 else (middle, b)
    return b


def epsilon_of(pairs: Pairs, delta: Any) -> Real:
    """Find the least ε ≥ 0 whose hockey-stick divergence is at most δ: linear in e^ε between two losses."""
    target = real(delta)
    total_p, total_q = MP.mpf(0), MP.mpf(0)
    for p, q in sorted(pairs, key=lambda pq: pq[0] / pq[1] if pq[1] else MP.inf, reverse=True):
        # with the outcomes so far chosen, δ = ΣP − e^ε·ΣQ; they are the right ones once e^ε reaches the next ratio
        if q and total_q and (total_p - target) / total_q >= p / q:
            break
        total_p, total_q = total_p + p, total_q + q
    return max(MP.mpf(0), MP.log((total_p - target) / total_q)) if total_p > target else MP.mpf(0)


# ── searches ───────────────────────────────────────────────────────────────────────────────────


def least_value(function: Callable[..., Real], low: Any, high: Any, rounds: int = 80) -> Real:
    """Find the least value of a function with one valley, by golden sections: twice as many digits as its place has."""
    golden = (MP.sqrt(5) - 1) / 2
    a, b = MP.mpf(low), MP.mpf(high)
    left, right = b - golden * (b - a), a + golden * (b - a)
    at_left, at_right = function(left), function(right)
    for _ in range(rounds):
        if at_left > at_right:
            a, left, at_left = left, right, at_right
            right = a + golden * (b - a)
            at_right = function(right)
        else:
            b, right, at_right = right, left, at_left
            left = b - golden * (b - a)
            at_left = function(left)
    return min(at_left, at_right)


def most_value(function: Callable[..., Real], low: Any, high: Any, rounds: int = 80) -> Real:
    return -least_value(lambda x: -function(x), low, high, rounds)


@lru_cache(maxsize=4096)
def conversion(order: Any, divergence: Any, epsilon: Any) -> Real:
    """Bound δ(ε) by E[(1 − e^{ε−L})⁺] ≤ sup_l (1 − e^{ε−l})e^{−(α−1)l}·E[e^{(α−1)L}], the supremum searched for."""
    z, away = real(order) - 1, real(epsilon)
    steepest = most_value(lambda x: (1 - MP.exp(-x)) * MP.exp(-z * x), 0, 6 / min(z, MP.mpf(1)) if z < 1 else 2 / z, 95)
    return min(MP.mpf(1), steepest * MP.exp(z * (real(divergence) - away)))


def cells(*counts: Iterable[int]) -> list[tuple[int, ...]]:
    """List all ways to take one number of each."""
    found: list[tuple[int, ...]] = [()]
    for each in map(list, counts):
        found = [(*before, one) for before in found for one in each]
    return found


def partitions(total: int, largest: int) -> list[tuple[int, ...]]:
    """List all falling ways to write a whole number as a sum of whole numbers, each at most ``largest``."""
    if not total:
        return [()]
    return [(first, *rest) for first in range(min(total, largest), 0, -1) for rest in partitions(total - first, first)]


def binomial(trials: int, chance: Any) -> Sequence[Real]:
    """Compute the probabilities of every number of successes: as many orders as there are, each equally likely."""
    p = real(chance)
    wins, losses = [MP.mpf(1)], [MP.mpf(1)]
    for _ in range(trials):
        wins.append(wins[-1] * p)
        losses.append(losses[-1] * (1 - p))
    return [math.comb(trials, k) * wins[k] * losses[trials - k] for k in range(trials + 1)]


# ── what several files compare with ────────────────────────────────────────────────────────────

ROUNDED = 1e-12
"""2^−40, by which computed reals are rounded up, and a bit."""


INVERTED = 3e-10
"""How close the bounds of an inverted moment function lie."""


def power(base: Any, exponent: int) -> Real:
    """Multiply, one factor after the other."""
    found = MP.mpf(1)
    for _ in range(exponent):
        found *= base
    return found


KNOWN_P, KNOWN_Q = ("0.5", "0.3", "0.15", "0.05"), ("0.1", "0.2", "0.3", "0.4")


KNOWN: Pairs = [(real(p), real(q)) for p, q in zip(KNOWN_P, KNOWN_Q, strict=True)]


@lru_cache(maxsize=4096)
def gaussian_delta(mu: Any, epsilon: Any) -> Real:
    """Integrate what N(μ, 1) has above e^ε times N(0, 1), from where it does."""
    m = real(mu)
    start = real(epsilon) / m + m / 2
    width = 1 / (1 + abs(start))
    ends = [start, start + width, start + 5 * width, start + 10 * width, start + 30 * width, MP.inf]
    growth, unit = MP.exp(real(epsilon)), MP.sqrt(2 * MP.pi)
    with MP.workdps(min(MP.dps, 24)):
        return MP.quad(lambda z: (MP.exp(-((z - m) ** 2) / 2) - growth * MP.exp(-z * z / 2)) / unit, ends)


def false_negative_rate(pairs: Pairs, rate: Real) -> Real:
    """Reject P where Q is likelier, until P is rejected as often as allowed."""
    missed = MP.mpf(1)
    for p, q in sorted(pairs, key=lambda pq: pq[1] / pq[0] if pq[0] else MP.inf, reverse=True):
        share = min(MP.mpf(1), rate / p) if p else MP.mpf(1)
        missed, rate = missed - share * q, rate - share * p
    return missed


def ranged(eta: Any, t: Real) -> Pairs:
    """Two outcomes of loss t and t − η: their probabilities solve two linear equations."""
    high, low = MP.exp(t), MP.exp(t - real(eta))
    q = (1 - low) / (high - low)
    return [(q * high, q), ((1 - q) * low, 1 - q)]


def lost_within(candidates: int, rate: Any, miss: Real) -> Real:
    """Where all others lie so far below the best that even as many as all candidates weigh no more than the miss."""
    return root(lambda gap: miss - candidates * MP.exp(-real(rate) * gap), 0, 10**6)
