"""Prices of releases, as a privacy guarantee: ε, (ε, δ) or ρ; and public price lists for auctions.

A price list states at which prices a good may be sold; it is fixed without looking at the bids.
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
from sfumato.privacy.calibration import excess_over, least, shortfall
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, format_exact

LARGE_EPSILON, LARGE_DELTA = 5, Fraction(1, 10**6)
ODDS_WORDS = "an attacker's odds may grow e^ε-fold"
"""What a large ε means, in the words of every warning."""


GAUSSIAN_NEEDS = "Laplace for a price without a δ: Gaussian noise needs a δ, or a price in ρ"
GIVE_DELTA = "give a delta (--delta), such as 1e-9, or rho (--rho) instead of epsilon (--epsilon)"


@codec.serialisable("price")
@dataclass(frozen=True)
class Price:
    """A price: ε, (ε, δ) or ρ, exactly one of these."""

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
        """Return whether a release with this privacy curve certainly satisfies the price."""
        return self.shortfall(curve) <= 0

    def shortfall(self, curve: Curve) -> float:
        """Return by how much a curve exceeds the price, as a logarithm: at most 0 where it satisfies it."""
        if self.rho is not None:
            return math.inf if curve.failure else excess_over(curve.rho(), self.rho)
        return shortfall(curve, Guarantee(self.epsilon or 0, self.delta))

    def __str__(self) -> str:
        if self.rho is not None:
            return f"ρ = {format_exact(self.rho)}"
        formatted_epsilon = f"ε = {format_exact(self.epsilon or Fraction(0))}"
        return f"{formatted_epsilon}, δ = {float(self.delta):.3g}" if self.delta else formatted_epsilon


def rounded_up(epsilon: Fraction) -> Fraction:
    """Round a price up to four significant digits."""
    power = Fraction(10) ** (4 - math.ceil(math.log10(epsilon)))
    return Fraction(math.ceil(epsilon * power)) / power


def least_epsilon(error: Callable[[Fraction], float], within: Number) -> float:
    """Return the least ε, rounded up, at which an error is within a limit; the error must not grow with ε."""
    error_limit = exact(within, "within", POSITIVE)
    return float(rounded_up(least(lambda epsilon: error(epsilon) <= error_limit, "within", Fraction(1, 2**14))))


def weak_words(price: Price) -> tuple[str, ...]:
    """Describe why a price is a weak guarantee; empty for a strong one.

    A price in ρ is judged by its ε at the largest δ that is not itself flagged.
    """
    reasons = []
    if price.rho is not None and (epsilon := _epsilon_at(price.rho, LARGE_DELTA)) > LARGE_EPSILON:
        reasons.append(
            f"ρ = {float(price.rho):.3g} is a weak promise: at δ = {float(LARGE_DELTA):.3g} it is "
            f"ε = {epsilon:.3g}, and {ODDS_WORDS}"
        )
    if price.epsilon is not None and price.epsilon > LARGE_EPSILON:
        reasons.append(f"ε = {float(price.epsilon):.3g} is a weak promise: {ODDS_WORDS}")
    if price.delta > LARGE_DELTA:
        reasons.append(f"δ = {float(price.delta):.3g} is large: with that probability nothing is promised")
    return tuple(reasons)


@lru_cache(maxsize=256)
def _epsilon_at(rho: Fraction, delta: Fraction) -> float:
    """Bound the ε at a δ of every ρ-zCDP release (Bun & Steinke 2016, in the tightest form implemented here)."""
    return Curve.concentrated(rho).epsilon(delta)


def warn_if_weak(price: Price) -> None:
    """Warn before the charge that a price is a weak guarantee; every proposal calls this."""
    for reason in weak_words(price):
        warn_caller(reason)


def warn_caller(reason: str) -> None:
    """Emit a WeakPrivacy warning at the first stack frame outside this package."""
    frame, stack_level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sfumato."):
        frame, stack_level = frame.f_back, stack_level + 1
    warnings.warn(reason, WeakPrivacy, stacklevel=stack_level if frame is not None else 1)


MAX_PRICES = 1_000_000


def price_list(prices: Any) -> tuple[tuple[Fraction, ...], int]:
    """Parse public prices: return them sorted without duplicates, and the factor that makes all of them integers."""
    if isinstance(prices, (str, bytes)) or not isinstance(prices, (Sequence, np.ndarray, range)) or not len(prices):
        raise InvalidParameter("prices", prices, "a list of at least one price")
    if len(prices) > MAX_PRICES:
        raise InvalidParameter("prices", f"{len(prices)} prices", f"at most {MAX_PRICES}")
    sorted_prices = tuple(sorted({exact(price, "prices", POSITIVE) for price in prices}))
    denominator = math.lcm(*(price.denominator for price in sorted_prices))
    if sorted_prices[-1] * denominator > 10**12:
        raise InvalidParameter("prices", "prices with many digits", "whole multiples of one unit, at most 1e12 of it")
    return sorted_prices, denominator


def evenly_spaced_prices(top: Number, steps: int) -> list[Fraction]:
    """Return evenly spaced prices up to a highest one, which must be chosen without looking at the bids."""
    highest = exact(top, "top", POSITIVE)
    return [highest * step / steps for step in range(1, steps + 1)]
