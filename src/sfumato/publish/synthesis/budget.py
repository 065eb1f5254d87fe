"""Split a price over the steps of a synthesis in one currency, exactly; the last round takes the rest.

*Concentrated* prices are counted in ρ: Gaussian noise of deviation σ costs Δ₂²/2σ² (Canonne, Kamath & Steinke 2020),
and a choice by the exponential mechanism, whose loss spans at most ε, costs ε²/8 (Cesar & Rogers 2021), as does each
level of a choice of quantiles (``mechanisms.quantiles``, theorem). Amounts may
depend on what was released before: Σρ ≤ ρ holds under full adaptivity (Feldman & Zrnic 2021, at every order at once).
*Pure* prices are counted in ε: Laplace noise of scale b costs Δ₁/b, a choice its ε, and they add up (Rogers et al.
2016).

The cost of a step is computed from its actual noise, as a Fraction, and never exceeds the amount planned for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Exponential, Gaussian, Laplace, Quantiles
from sfumato.mechanisms.additive import LEAST_STEPS, MAX_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.number_formats import format_rounded_down
from sfumato.plan.readings.cell_rows import ColumnSetDistances, RanksOfCells
from sfumato.privacy import Curve, Guarantee, Neighbours, Sensitivity
from sfumato.privacy.calibration import least_parameter, meets
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price

FOR_ROWS = Fraction(1, 200)
"""The share of the price for the number of rows."""
FOR_CHOICES = Fraction(1, 10)
"""The share of a round's price for its choice."""
_SPENDABLE = 1 - Fraction(1, 10**9)
"""The fraction of a concentrated price that is spent, since a ledger rounds every charge up."""
_ROOT_DIGITS, _AMOUNT_DECIMALS = 10**12, 10**15
_MIN_CHOICE_EPSILON, _MAX_CHOICE_EPSILON = Fraction(1, 10**9), Fraction(1000)


class Currency(Protocol):
    """The noise and the choice that an amount buys, and what they cost."""

    half_noise_factor: ClassVar[int]
    """The factor on an amount that buys half the noise."""

    @property
    def total(self) -> Fraction:
        """The amount that may be spent in all."""
        ...

    def noise(self, amount: Fraction, moved: Sensitivity) -> Additive: ...

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction: ...

    def choice(self, amount: Fraction, scores: ColumnSetDistances) -> Exponential: ...

    def choice_cost(self, choice: Exponential) -> Fraction: ...

    def quantiles(self, amount: Fraction, ranks: RanksOfCells, probabilities: Sequence[Fraction]) -> Quantiles: ...

    def quantiles_cost(self, quantiles: Quantiles) -> Fraction: ...

    def total_curve(self, neighbours: Neighbours) -> Curve:
        """Return the bound on what all steps leak together."""
        ...

    def first_round_sharpness(self, columns: int) -> float:
        """Return √ρ, or that of the ρ whose noise in the first round would be as large."""
        ...


@dataclass(frozen=True)
class Concentrated:
    """Zero-concentrated differential privacy, counted in ρ."""

    rho: Fraction
    half_noise_factor: ClassVar[int] = 4

    @property
    def total(self) -> Fraction:
        return self.rho * _SPENDABLE

    def noise(self, amount: Fraction, moved: Sensitivity) -> Gaussian:
        return Gaussian(_drawable_noise_size(_root_rounded_up(moved.squares / (2 * amount))))

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction:
        return moved.squares / (2 * sigma_or_scale(noise) ** 2)

    def choice(self, amount: Fraction, scores: ColumnSetDistances) -> Exponential:
        return _exponential_choice(1 / _root_rounded_up(1 / (8 * amount)), scores, price_power=2)

    def choice_cost(self, choice: Exponential) -> Fraction:
        return choice.epsilon**2 / 8

    def quantiles(self, amount: Fraction, ranks: RanksOfCells, probabilities: Sequence[Fraction]) -> Quantiles:
        levels = Quantiles(probabilities, 1, ranks.ends).levels
        return _quantile_selection(levels / _root_rounded_up(levels / (8 * amount)), ranks, probabilities)

    def quantiles_cost(self, quantiles: Quantiles) -> Fraction:
        return quantiles.levels * quantiles.level_epsilon**2 / 8

    def total_curve(self, neighbours: Neighbours) -> Curve:
        return Curve.concentrated(self.rho, neighbours)

    def first_round_sharpness(self, columns: int) -> float:  # noqa: ARG002
        return math.sqrt(self.rho)


@dataclass(frozen=True)
class Pure:
    """Pure differential privacy, counted in ε; every amount but the last has fifteen decimals, so the ledger rounds
    nothing.
    """

    epsilon: Fraction
    half_noise_factor: ClassVar[int] = 2

    @property
    def total(self) -> Fraction:
        return self.epsilon

    def noise(self, amount: Fraction, moved: Sensitivity) -> Laplace:
        return Laplace(_drawable_noise_size(moved.total / amount))

    def noise_cost(self, noise: Additive, moved: Sensitivity) -> Fraction:
        return moved.total / sigma_or_scale(noise)

    def choice(self, amount: Fraction, scores: ColumnSetDistances) -> Exponential:
        return _exponential_choice(amount, scores)

    def choice_cost(self, choice: Exponential) -> Fraction:
        return choice.epsilon

    def quantiles(self, amount: Fraction, ranks: RanksOfCells, probabilities: Sequence[Fraction]) -> Quantiles:
        return _quantile_selection(amount, ranks, probabilities)

    def quantiles_cost(self, quantiles: Quantiles) -> Fraction:
        return quantiles.epsilon

    def total_curve(self, neighbours: Neighbours) -> Curve:
        return Curve.pure(self.epsilon, neighbours)

    def first_round_sharpness(self, columns: int) -> float:
        return float(self.epsilon) * math.sqrt(0.05625 / columns)


@lru_cache(maxsize=64)
def price_in_currency(price: Price) -> Currency:
    """Return the currency of a price: ρ if it allows Gaussian noise, otherwise ε.

    For (ε, δ) it is the largest ρ for which every ρ-zCDP release satisfies the guarantee (Canonne, Kamath & Steinke
    2020).
    """
    if price.rho is not None:
        return Concentrated(price.rho)
    assert price.epsilon is not None
    if not price.delta:
        return Pure(price.epsilon)
    guarantee = Guarantee(price.epsilon, price.delta)
    return Concentrated(1 / least_parameter(lambda size: meets(Curve.concentrated(1 / size), guarantee), str(price)))


@dataclass(frozen=True)
class SynthesisBudget:
    """The total budget of a synthesis and what it has spent, in one currency."""

    currency: Currency
    spent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        return self.currency.total - self.spent

    @property
    def used_share(self) -> float:
        """The share of the total that is spent."""
        return float(self.spent / self.currency.total)

    def charge(self, cost: Fraction) -> SynthesisBudget:
        """Return the funds after a step is charged; raises if the cost exceeds what is left."""
        if cost > self.remaining:
            raise InvalidParameter(
                "cost", float(cost), f"at most {format_rounded_down(self.remaining)}, the amount left"
            )
        return replace(self, spent=self.spent + cost)


@dataclass(frozen=True)
class RoundAmounts:
    """The amounts that a round pays for its measurement and for its choice."""

    measurement: Fraction
    choice: Fraction

    @classmethod
    def of_round(cls, whole: Fraction) -> RoundAmounts:
        """Split the price of a round."""
        chosen = round_amount_down(whole * FOR_CHOICES)
        return cls(whole - chosen, chosen)

    @property
    def total(self) -> Fraction:
        return self.measurement + self.choice

    def with_halved_noise(self, currency: Currency) -> RoundAmounts:
        """Return the amounts that buy half the noise."""
        return RoundAmounts(self.measurement * currency.half_noise_factor, self.choice * currency.half_noise_factor)


def sigma_or_scale(noise: Additive) -> Fraction:
    """Return the deviation or scale of noise, in steps."""
    assert isinstance(noise, Gaussian | Laplace)
    size = noise.sigma if isinstance(noise, Gaussian) else noise.scale
    assert isinstance(size, Fraction)
    return size


def round_amount_down(amount: Fraction) -> Fraction:
    """Round an amount down to fifteen decimals, or to thirty if it is very small."""
    digits = _AMOUNT_DECIMALS if amount * _AMOUNT_DECIMALS >= 10**6 else _AMOUNT_DECIMALS**2
    return Fraction(math.floor(amount * digits), digits)


def _drawable_noise_size(size: Fraction) -> Fraction:
    """Refuse noise too large to be drawn exactly; raise tiny noise to the least that can be drawn."""
    if size > MAX_STEPS:
        raise InvalidParameter(
            "price",
            ValueWords(f"a price that needs noise of size {float(size):.3g}"),
            "higher, because at this price a synthetic table needs more noise than can be drawn exactly",
            fix="give a higher price, or name fewer columns",
        )
    return max(size, LEAST_STEPS)


def _exponential_choice(epsilon: Fraction, scores: ColumnSetDistances, price_power: int = 1) -> Exponential:
    """Return a selection with this ε, to whose power the price is proportional."""
    if epsilon < _MIN_CHOICE_EPSILON:
        factor = math.ceil((_MIN_CHOICE_EPSILON / epsilon) ** price_power)
        raise InvalidParameter(
            "price",
            ValueWords(f"a price that gives one selection ε = {float(epsilon):.2g}"),
            "high enough for selections of at least ε = 1e-9 each",
            fix=f"pay at least {factor:,} times as much, or name fewer columns",
        )
    return Exponential(min(epsilon, _MAX_CHOICE_EPSILON), scores.sensitivity, neighbours=scores.neighbours, grid=1)


def _quantile_selection(epsilon: Fraction, ranks: RanksOfCells, probabilities: Sequence[Fraction]) -> Quantiles:
    """Return a selection of quantiles for this ε, or for the largest that is drawn exactly."""
    rows = ranks.rows_per_unit
    if epsilon < _MIN_CHOICE_EPSILON * rows:
        rule = f"higher, because choosing bins takes at least ε = {float(_MIN_CHOICE_EPSILON * rows):.3g}"
        got = ValueWords(f"a price that leaves ε = {float(epsilon):.3g} for this choice")
        raise InvalidParameter("price", got, rule, fix="raise the price, or declare bins in the policy")
    return Quantiles(probabilities, min(epsilon, _MAX_CHOICE_EPSILON), ranks.ends, rows, ranks.neighbours)


def _root_rounded_up(value: Fraction) -> Fraction:
    """Return the square root, rounded up to twelve decimals."""
    return Fraction(math.isqrt(math.ceil(value * _ROOT_DIGITS**2)) + 1, _ROOT_DIGITS)
