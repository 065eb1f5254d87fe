"""Functions that would cancel catastrophically if written plainly, computed to the last few bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complexfloating[Any, Any]]


def excess_exp(y: float) -> float:
    """Return (e^y − 1 − y)/y², which is 1/2 at 0."""
    if abs(y) > 0.3:
        return (math.expm1(y) - y) / (y * y)
    total, term = 0.0, 0.5
    for n in range(3, 17):
        total += term
        term *= y / n
    return total


def sinhc_minus_one(y: float) -> float:
    """Return sinh(y)/y − 1, which is y²/6 near 0."""
    if abs(y) > 1:
        return math.sinh(y) / y - 1
    total, term = 0.0, y * y / 6
    for n in range(4, 24, 2):
        total += term
        term *= y * y / (n * (n + 1))
    return total


def power_excess(y: float, order: float) -> float:
    """Return x^α − 1 − α(x − 1) at x = e^y, or its limit x·ln x − x + 1 per unit of α − 1 at order 1; both are ≥ 0."""
    if order == 1:
        phi = excess_exp(y)
        return y * y * (1 + y * phi - phi)
    return order * y * y * (order * excess_exp(order * y) - excess_exp(y))


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return ln(p/q) of exact positive numbers, accurate when they are close and when they are far apart."""
    change = (p - q) / q
    if 2 * abs(change) < 1:
        return math.log1p(float(change))
    ratio = p / q
    if Fraction(1, 10**300) < ratio < 10**300:
        return math.log(ratio)
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def exprel_minus_real(y: float) -> float:
    """Return (1 − e^{−y})/y, continuous at 0."""
    return -math.expm1(-y) / y if y else 1.0


def log_exprel_minus_ratio(low: float, high: float) -> float:
    """Return ln(exprel_minus(low)/exprel_minus(high)) for 0 ≤ low ≤ high, accurate when both are small and when both
    are large.
    """
    if high < 0.01:  # ln exprel_minus(y) = −y/2 + y²/24 − y⁴/2880 + O(y⁶)
        return (high - low) * (0.5 - (high + low) / 24 + (high + low) * (high**2 + low**2) / 2880)
    if low > 40:
        return math.log1p((high - low) / low)
    return math.log(exprel_minus_real(low) / exprel_minus_real(high))


def mills_ratio(x: float) -> float:
    """Return Mills' ratio (1 − Φ(x))/φ(x) for x ≥ 0."""
    if x < 5:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    tail = 0.0
    for n in range(60, 0, -1):
        tail = n / (x + tail)
    return 1 / (x + tail)


def exprel_minus(y: Complex) -> Complex:
    """Return (1 − e^{−y})/y for complex arrays, continuous at 0."""
    is_small = np.abs(y) < 1e-8
    nonzero = np.where(is_small, 1.0, y)
    return np.where(is_small, 1 - y / 2, -np.expm1(-nonzero) / nonzero)


def log_theta_ratio(u: Complex, variance: float) -> Complex:
    """Return ln Θ(u)/Θ(0) for |Im u| ≤ πσ²: the sum itself for small σ, its Poisson dual for large."""
    u = u - np.round(u.real)
    if variance < 1:
        x = np.arange(-12, 13)[:, None]
        lift = (u.real**2 - u.imag**2) / (2 * variance)  # x = 0 is the largest term
        terms = np.exp(lift - (x + u) ** 2 / (2 * variance)).sum(0)
        log_sum: Complex = np.log(terms)
        return log_sum - lift - math.log(np.exp(-(x**2) / (2 * variance)).sum())
    # The second harmonic is e^{−4π²σ²} < 1e-17 of the rest, even where |Im u| is largest.
    decay = -2 * math.pi**2 * variance
    waves = np.exp(decay + 2j * math.pi * u) + np.exp(decay - 2j * math.pi * u)
    log_dual: Complex = np.log1p(waves)
    return log_dual - math.log1p(2 * math.exp(decay))
