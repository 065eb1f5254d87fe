"""A price is split over steps in one currency, exactly, and the last round takes what is left.

*Concentrated* prices are counted in ρ: Gaussian noise of deviation σ costs Δ₂²/2σ² (Canonne, Kamath & Steinke 2020),
and a choice by the exponential mechanism, whose loss spans at most ε, costs ε²/8 (Cesar & Rogers 2021). Amounts may
depend on what was released before: Σρ ≤ ρ holds under full adaptivity (Feldman & Zrnic 2021, at every order at once).
*Pure* prices are counted in ε: Laplace noise of scale b costs Δ₁/b, a choice its ε, and they add up (Rogers et al.
2016).

What a step costs is computed from the noise that is drawn, as a Fraction; what was meant for it is never less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.additive import LEAST_STEPS, MOST_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.cell_rows import SetMisfits
from sfumato.privacy import Curve, Guarantee, Neighbours, Sensitivity
from sfumato.privacy.calibration import least, meets
from sfumato.release.prices import Price

FOR_ROWS = Fraction(1, 200)
"""The share of the price that pays for the number of rows."""
FOR_CHOICES = Fraction(1, 10)
"""The share of a round that pays for its choice."""
_SHORT = 1 - Fraction(1, 10**9)
"""How much of a concentrated price is spent: a ledger rounds every charge up."""
_DIGITS, _DECIMALS = 10**12, 10**15
_LEAST_EPSILON, _MOST_EPSILON = Fraction(1, 10**9), Fraction(1000)


class Currency(Protocol):
    """A currency says what noise and which choice an amount of it buys, and what they cost."""

    halved: ClassVar[int]
    """By what an amount is multiplied that buys half the noise."""

    @property
    def total(self) -> Fraction:
        """Give what may be spent in all."""
        ...

    def noise(self, amount: Fraction, moved: Sensitivity) -> Additive: ...

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction: ...

    def choice(self, amount: Fraction, scores: SetMisfits) -> Exponential: ...

    def choice_cost(self, choice: Exponential) -> Fraction: ...

    def hold(self, neighbours: Neighbours) -> Curve:
        """Say what all steps leak together, at most."""
        ...

    def sharpness(self, columns: int) -> float:
        """Give √ρ, or that of the ρ whose noise in the first round would be as large."""
        ...


@dataclass(frozen=True)
class Concentrated:
    """This is ρ."""

    rho: Fraction
    halved: ClassVar[int] = 4

    @property
    def total(self) -> Fraction:
        return self.rho * _SHORT

    def noise(self, amount: Fraction, moved: Sensitivity) -> Gaussian:
        return Gaussian(_held(_root_above(moved.squares / (2 * amount))))

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction:
        return moved.squares / (2 * size_of(noise) ** 2)

    def choice(self, amount: Fraction, scores: SetMisfits) -> Exponential:
        return _choice(1 / _root_above(1 / (8 * amount)), scores)

    def choice_cost(self, choice: Exponential) -> Fraction:
        return choice.epsilon**2 / 8

    def hold(self, neighbours: Neighbours) -> Curve:
        return Curve.concentrated(self.rho, neighbours)

    def sharpness(self, columns: int) -> float:  # noqa: ARG002
        return math.sqrt(self.rho)


@dataclass(frozen=True)
class Pure:
    """This is ε, in which every amount but the last has fifteen decimals: the ledger rounds nothing."""

    epsilon: Fraction
    halved: ClassVar[int] = 2

    @property
    def total(self) -> Fraction:
        return self.epsilon

    def noise(self, amount: Fraction, moved: Sensitivity) -> Laplace:
        return Laplace(_held(moved.total / amount))

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction:
        return moved.total / size_of(noise)

    def choice(self, amount: Fraction, scores: SetMisfits) -> Exponential:
        return _choice(amount, scores)

    def choice_cost(self, choice: Exponential) -> Fraction:
        return choice.epsilon

    def hold(self, neighbours: Neighbours) -> Curve:
        return Curve.pure(self.epsilon, neighbours)

    def sharpness(self, columns: int) -> float:
        return float(self.epsilon) * math.sqrt(0.05625 / columns)


@lru_cache(maxsize=64)
def currency(price: Price) -> Currency:
    """Find the currency of a price: ρ where it allows Gaussian noise, else ε.

    Of (ε, δ) it is the largest ρ of which every ρ-zCDP release keeps the promise (Canonne, Kamath & Steinke 2020).
    """
    if price.rho is not None:
        return Concentrated(price.rho)
    assert price.epsilon is not None
    if not price.delta:
        return Pure(price.epsilon)
    promise = Guarantee(price.epsilon, price.delta)
    return Concentrated(1 / least(lambda size: meets(Curve.concentrated(1 / size), promise), str(price)))


@dataclass(frozen=True)
class Funds:
    """This is what a synthesis may spend, and what it has spent, in one currency."""

    currency: Currency
    spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction:
        return self.currency.total - self.spent

    @property
    def used(self) -> float:
        """Give the share that is spent."""
        return float(self.spent / self.currency.total)

    def after(self, cost: Fraction) -> Funds:
        """Give what there is once a step is charged."""
        if cost > self.left:
            raise InvalidParameter("cost", float(cost), f"at most what is left, {float(self.left):g}")
        return replace(self, spent=self.spent + cost)


@dataclass(frozen=True)
class Amounts:
    """These are what a round pays for its measurement and for its choice."""

    measured: Fraction
    chosen: Fraction

    @classmethod
    def of_round(cls, whole: Fraction) -> Amounts:
        """Split what a round may cost."""
        chosen = rounded(whole * FOR_CHOICES)
        return cls(whole - chosen, chosen)

    @property
    def whole(self) -> Fraction:
        return self.measured + self.chosen

    def halved(self, currency: Currency) -> Amounts:
        """Give the amounts that buy half the noise."""
        return Amounts(self.measured * currency.halved, self.chosen * currency.halved)


def size_of(noise: Additive) -> Fraction:
    """Give the one deviation, or scale, of noise, in steps."""
    assert isinstance(noise, Gaussian | Laplace)
    found = noise.sigma if isinstance(noise, Gaussian) else noise.scale
    assert isinstance(found, Fraction)
    return found


def rounded(amount: Fraction) -> Fraction:
    """Cut an amount to fifteen decimals, or to fewer digits where it is smaller than that allows."""
    digits = _DECIMALS if amount * _DECIMALS >= 10**6 else _DECIMALS**2
    return Fraction(math.floor(amount * digits), digits)


def _held(size: Fraction) -> Fraction:
    """Refuse noise that is too large to be drawn exactly; one that is next to none is as small as can be drawn."""
    if size > MOST_STEPS:
        raise InvalidParameter(
            "price", float(size), "one whose noise has at most 1e12 steps", fix="give more, or name fewer columns"
        )
    return max(size, LEAST_STEPS)


def _choice(epsilon: Fraction, scores: SetMisfits) -> Exponential:
    if epsilon < _LEAST_EPSILON:
        rule = "one that buys choices of at least ε = 1e-9 each"
        raise InvalidParameter("price", float(epsilon), rule, fix="give more, or name fewer columns")
    return Exponential(min(epsilon, _MOST_EPSILON), scores.moved, neighbours=scores.neighbours, grid=1)


def _root_above(value: Fraction) -> Fraction:
    """Give the root, rounded up to twelve decimals."""
    return Fraction(math.isqrt(math.ceil(value * _DIGITS**2)) + 1, _DIGITS)
