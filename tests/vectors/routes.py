"""Other routes to the numbers that vectors state: sums over whole laws and roots of equations, in 50 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from mpmath import mp, mpf

mp.dps = 50


def root(function: Callable[[mpf], mpf], low: float, high: float) -> float:
    """Find where a rising function is 0, by halving: no start to guess, and no derivative."""
    left, right = mpf(low), mpf(high)
    assert function(left) < 0 < function(right)
    for _ in range(90):
        middle = (left + right) / 2
        left, right = (middle, right) if function(middle) < 0 else (left, middle)
    return float(left)


def least(function: Callable[[mpf], mpf], low: float, high: float) -> float:
    """Find the least value of a function with one valley, by golden sections of the logarithm."""
    left, right, share = mp.log(low), mp.log(high), (mp.sqrt(5) - 1) / 2
    for _ in range(110):
        one, other = right - share * (right - left), left + share * (right - left)
        left, right = (left, other) if function(mp.exp(one)) < function(mp.exp(other)) else (one, right)
    return float(function(mp.exp((left + right) / 2)))


def normal_beyond(miss: float | mpf) -> float:
    """Give z with P(|N(0, 1)| > z) = miss."""
    return root(lambda z: mpf(miss) - mp.erfc(z / mp.sqrt(2)), 0, 40)


def sub_gaussian(miss: float | mpf, variance: float | mpf = 1) -> float:
    """Give w with 2·exp(−w²/2V) = miss."""
    return root(lambda w: mpf(miss) - 2 * mp.exp(-(w**2) / (2 * mpf(variance))), 0, 60 * math.sqrt(float(variance)))


def planned_width(variance: float, beta: float) -> float:
    """The normal part misses 0.999β; what is left of the grid, of deviation 3 in 4096 steps, misses β/1000."""
    whole = mpf(beta)
    normal = normal_beyond(whole * mpf(999) / 1000)
    return float(mp.sqrt(mpf(variance)) * (normal + mpf(3) / 4096 * sub_gaussian(whole / 1000)))


def mixture_width(precision: float, eta: float, beta: float) -> float:
    """Where the mixture of exp(θS − θ²V/2) over normal θ of variance 1/η, integrated, reaches 1/β; divided by V.

    The trapezoids of a Gaussian integrand, a quarter of its deviation apart, are the integral to e^(−300).
    """
    together = precision + eta
    apart = 0.25 / math.sqrt(together)

    def log_mixture(s: float) -> float:
        top = s * s / (2 * together)
        thetas = (s / together + k * apart for k in range(-60, 61))
        inner = math.fsum(math.exp(t * s - t * t * together / 2 - top) for t in thetas) * apart
        return top + math.log(inner * math.sqrt(eta / (2 * math.pi)))

    low, high = 0.0, 60 * math.sqrt(together)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if log_mixture(middle) < -math.log(beta) else (low, middle)
    return low / precision


def laplace_tail(scale: float | Fraction, beyond: int) -> mpf:
    """P(Z > beyond) of discrete Laplace noise, added up term by term as a geometric series."""
    q = mp.exp(-1 / mpf(Fraction(scale).numerator) * Fraction(scale).denominator)
    return (1 - q) / (1 + q) * q ** (beyond + 1) / (1 - q)


def laplace_half_width(scale: float | Fraction, miss: float | mpf) -> int:
    """The least w with P(|Z| > w) ≤ miss, step by step."""
    w = 0
    while 2 * laplace_tail(scale, w) > miss:
        w += 1
    return w
