"""A price says what a release promises by itself.

A list of prices says at what a good may be sold; it is public, and decided without looking at the bids.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter, WeakPrivacy
from sfumato.privacy import Curve, Guarantee, codec
from sfumato.privacy.calibration import above, least, shortfall
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, text

LARGE_EPSILON, LARGE_DELTA = 5, Fraction(1, 10**6)


GAUSSIAN_NEEDS = "Laplace for a price without a δ: Gaussian noise needs a δ, or a price in ρ"
GIVE_DELTA = "give a delta (--delta), such as 1e-9, or rho (--rho) instead of epsilon (--epsilon)"


@codec.value("price")
@dataclass(frozen=True)
class Price:
    """A price is ε, (ε, δ) or ρ: exactly one way to say it."""

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __init__(self, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise InvalidParameter(
                "epsilon",
                epsilon,
                "given, since every release has a price: alone, or with delta; or rho instead of both",
                fix="release(epsilon=0.5), release(epsilon=0.5, delta=1e-9) or release(rho=0.01)",
            )
        object.__setattr__(self, "epsilon", None if epsilon is None else exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "rho", None if rho is None else exact(rho, "rho", POSITIVE))
        object.__setattr__(self, "delta", exact(delta, "delta", NONNEGATIVE))
        if self.rho is not None and self.delta:
            raise InvalidParameter("delta", delta, "left out beside rho")
        if self.epsilon is not None:
            Guarantee(self.epsilon, self.delta)

    @property
    def allows_gaussian(self) -> bool:
        return self.rho is not None or bool(self.delta)

    def kept_by(self, curve: Curve) -> bool:
        """Tell whether a release with this curve certainly keeps the promise."""
        return self.shortfall(curve) <= 0

    def shortfall(self, curve: Curve) -> float:
        """Compute how much too much a release with this curve leaks, as a logarithm: at most 0 if it keeps the
        promise.
        """
        if self.rho is not None:
            return math.inf if curve.failure else above(curve.rho(), self.rho)
        return shortfall(curve, Guarantee(self.epsilon or 0, self.delta))

    def __str__(self) -> str:
        if self.rho is not None:
            return f"ρ = {text(self.rho)}"
        words = f"ε = {text(self.epsilon or Fraction(0))}"
        return f"{words}, δ = {float(self.delta):.3g}" if self.delta else words


def rounded_up(epsilon: Fraction) -> Fraction:
    """Round a price up to four digits, so that it can be said aloud."""
    power = Fraction(10) ** (4 - math.ceil(math.log10(epsilon)))
    return Fraction(math.ceil(epsilon * power)) / power


def least_epsilon(error: Callable[[Fraction], float], within: Number) -> float:
    """Find the least ε at which an error is within this, rounded up; a larger ε must make no error larger."""
    wanted = exact(within, "within", POSITIVE)
    return float(rounded_up(least(lambda epsilon: error(epsilon) <= wanted, "within", Fraction(1, 2**14))))


def weak_words(price: Price) -> tuple[str, ...]:
    """Say in words why a price promises little; nothing of one that promises enough.

    A price in ρ is judged by the ε that it promises at the largest δ that is not itself too large.
    """
    found = []
    if price.rho is not None and (epsilon := _epsilon_at(price.rho, LARGE_DELTA)) > LARGE_EPSILON:
        found.append(
            f"ρ = {float(price.rho):.3g} is a weak promise: at δ = {float(LARGE_DELTA):.3g} it is "
            f"ε = {epsilon:.3g}, and an attacker's odds may grow e^ε-fold"
        )
    if price.epsilon is not None and price.epsilon > LARGE_EPSILON:
        found.append(f"ε = {float(price.epsilon):.3g} is a weak promise: an attacker's odds may grow e^ε-fold")
    if price.delta > LARGE_DELTA:
        found.append(f"δ = {float(price.delta):.3g} is large: with that probability nothing is promised")
    return tuple(found)


@lru_cache(maxsize=256)
def _epsilon_at(rho: Fraction, delta: Fraction) -> float:
    """Bound the ε that every release with this ρ keeps at a δ (Bun & Steinke 2016, in the best form known here)."""
    return Curve.concentrated(rho).epsilon(delta)


def warn_if_weak(price: Price) -> None:
    """Say aloud, before it is charged, that a price promises little: the one place for every proposal."""
    for words in weak_words(price):
        _warn(words)


def _warn(words: str) -> None:
    """Warn at the line outside this package that asked."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sfumato."):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, WeakPrivacy, stacklevel=level if frame is not None else 1)


MOST_PRICES = 1_000_000


def price_list(prices: Any) -> tuple[tuple[Fraction, ...], int]:
    """Read public prices: give them ascending and different, with the unit in which all of them are whole."""
    if isinstance(prices, (str, bytes)) or not isinstance(prices, (Sequence, np.ndarray, range)) or not len(prices):
        raise InvalidParameter("prices", prices, "a list of at least one price")
    if len(prices) > MOST_PRICES:
        raise InvalidParameter("prices", f"{len(prices)} prices", f"at most {MOST_PRICES}")
    listed = tuple(sorted({exact(price, "prices", POSITIVE) for price in prices}))
    unit = math.lcm(*(price.denominator for price in listed))
    if listed[-1] * unit > 10**12:
        raise InvalidParameter("prices", "prices with many digits", "whole multiples of one unit, at most 1e12 of it")
    return listed, unit


def evenly_spaced_prices(top: Number, steps: int) -> list[Fraction]:
    """Give so many prices up to the highest, which is decided without looking at the bids."""
    highest = exact(top, "top", POSITIVE)
    return [highest * step / steps for step in range(1, steps + 1)]
