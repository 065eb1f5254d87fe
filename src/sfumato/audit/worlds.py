"""Exact laws on small worlds: every outcome's probability, with and without the unit, and what can be told from them.

Probabilities are rational where e^ε is, and otherwise known to 10⁻⁴⁰ or better: a divergence is an interval of
width below 10⁻³⁰.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, Laplace, RandomizedResponse, lazily
from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact

Interval = tuple[Fraction, Fraction]
Pair = tuple[Fraction, Fraction]

_DIGITS = 70
_ERROR = Fraction(1, 10**45)
"""Every probability below is within this of the truth."""
_MOST_OUTCOMES = 400_000


@dataclass(frozen=True)
class Enumeration:
    """Two neighbouring worlds outcome by outcome, beside what the mechanism claims."""

    outcomes: tuple[Pair, ...]
    exact: bool
    """Whether the probabilities are exact rationals."""
    largest: Interval
    """Bounds of the largest ln(P/Q) in either direction; for unbounded noise within all but 10⁻⁴⁰ of the mass."""
    claim: Curve

    @property
    def ratio(self) -> Fraction | None:
        """The largest likelihood ratio e^ε, when the probabilities are rational."""
        ratios = [max(p / q, q / p) for p, q in self.outcomes if p and q]
        return max(ratios) if self.exact else None

    def delta(self, epsilon: Number) -> Interval:
        """Bounds of the hockey-stick divergence at ε, the larger of both directions."""
        context = lazily.digits(_DIGITS)
        growth = Fraction(lazily.decimal(exact(epsilon, "epsilon", NONNEGATIVE), context).exp(context))
        value = max(
            sum((max(Fraction(0), p - growth * q) for p, q in self.outcomes), Fraction(0)),
            sum((max(Fraction(0), q - growth * p) for p, q in self.outcomes), Fraction(0)),
        )
        error = (growth + 1) * _ERROR * (len(self.outcomes) + 2)
        return max(Fraction(0), value - error), value + error

    @property
    def holds(self) -> bool:
        """Whether the claim covers these two worlds: the largest loss, and δ at seven ε."""
        pure = self.claim.max_divergence
        if pure is not None and self.largest[0] > pure:
            return False
        reach = pure if pure is not None else Fraction(min(20.0, self.claim.epsilon("1e-9")))
        return all(self.delta(reach * i / 6)[0] <= Fraction(self.claim.delta(reach * i / 6)) for i in range(7))

    def __str__(self) -> str:
        low, high = (float(end) for end in self.largest)
        pure = self.claim.max_divergence
        stated = "unbounded" if pure is None else f"{float(pure):.6g}"
        return f"largest loss {low:.9g} … {high:.9g}, claimed {stated}: {'holds' if self.holds else 'DOES NOT HOLD'}"


def enumerate(mechanism: Any, neighbours: tuple[Any, Any], sensitivity: Sensitivity | Number = 1) -> Enumeration:
    """The exact laws of a mechanism on two neighbouring inputs (whole numbers, or short rows of them), beside its
    claim.
    """
    if not isinstance(neighbours, tuple) or len(neighbours) != 2:
        raise InvalidParameter("neighbours", neighbours, "a pair of inputs")
    if isinstance(mechanism, RandomizedResponse):
        return _responses(mechanism, neighbours)
    if not isinstance(mechanism, (Laplace, Gaussian)):
        raise InvalidParameter("mechanism", mechanism, "Laplace, Gaussian or RandomizedResponse")
    rows = [tuple(each) if isinstance(each, Iterable) else (each,) for each in neighbours]
    if len(rows[0]) != len(rows[1]) or not all(type(x) is int for row in rows for x in row):
        raise InvalidParameter("neighbours", neighbours, "two whole numbers, or two rows of as many")
    ends = list(zip(*rows, strict=True))
    noise = mechanism.sampler.sizes
    if math.prod(100 * max(1.0, float(noise[i % len(noise)])) for i in range(len(ends))) > 100 * _MOST_OUTCOMES:
        raise InvalidParameter("neighbours", neighbours, "a world of fewer outcomes: less noise or fewer coordinates")
    columns = [_shifted(mechanism, ends[i][0], ends[i][1], i, len(ends)) for i in range(len(ends))]
    if math.prod(len(column) for column in columns) > _MOST_OUTCOMES:
        raise InvalidParameter("neighbours", neighbours, "a world of fewer outcomes: less noise or fewer coordinates")
    outcomes = tuple(
        (math.prod(p for p, _ in combination), math.prod(q for _, q in combination))
        for combination in product(*columns)
    )
    return Enumeration(outcomes, False, _largest(outcomes), mechanism.curve(sensitivity))  # type: ignore[arg-type]


def _responses(mechanism: RandomizedResponse, neighbours: tuple[Any, Any]) -> Enumeration:
    context = lazily.digits(_DIGITS)
    odds = mechanism.odds or Fraction(lazily.decimal(mechanism.epsilon, context).exp(context))
    total = odds + mechanism.choices - 1
    laws = [[(odds if j == value else Fraction(1)) / total for j in range(mechanism.choices)] for value in neighbours]
    outcomes = tuple(zip(*laws, strict=True))
    return Enumeration(outcomes, mechanism.odds is not None, _largest(outcomes), mechanism.curve())


def _shifted(mechanism: Laplace | Gaussian, a: int, b: int, index: int, width: int) -> list[Pair]:
    """One coordinate's law around a beside that around b; what lies beyond the window is one outcome on each side."""
    size = mechanism.scale if isinstance(mechanism, Laplace) else mechanism.sigma
    size = size[index] if isinstance(size, tuple) else size
    context = lazily.digits(_DIGITS)
    laplace = isinstance(mechanism, Laplace)
    nats = 46 * math.log(10) / (1 if width == 1 else 2)
    reach = math.ceil(float(size) * (nats if laplace else math.sqrt(2 * nats))) + abs(b - a) + 2
    weights = [_weight(x, size, laplace, context) for x in range(reach + abs(b - a) + 1)]
    mass, tail = _laplace_law(weights) if laplace else _gaussian_law(weights)
    low, high = min(a, b) - reach + abs(b - a), max(a, b) + reach - abs(b - a)
    inside = [(mass(x - a), mass(x - b)) for x in range(low, high + 1)]
    return [(tail(a - low + 1), tail(b - low + 1)), *inside, (tail(high - a + 1), tail(high - b + 1))]


def _weight(x: int, size: Fraction, laplace: bool, context: Context) -> Decimal:
    power = Fraction(-x) / size if laplace else -(Fraction(x) ** 2) / (2 * size**2)
    return lazily.decimal(power, context).exp(context)


def _laplace_law(weights: list[Decimal]) -> tuple[Any, Any]:
    """P(x) = (1−q)/(1+q)·q^|x| and P(X ≥ t) = q^t/(1+q) for t ≥ 1."""
    q = Fraction(weights[1]) if len(weights) > 1 else Fraction(0)
    powers = [Fraction(weight) for weight in weights]
    return lambda x: (1 - q) / (1 + q) * powers[abs(x)], lambda t: powers[t] / (1 + q)


def _gaussian_law(weights: list[Decimal]) -> tuple[Any, Any]:
    """The normalising sum is cut where its tail is below 10⁻⁴⁶; the tails themselves are counted as nothing."""
    powers = [Fraction(weight) for weight in weights]
    total = powers[0] + 2 * sum(powers[1:], Fraction(0))
    return lambda x: powers[abs(x)] / total, lambda _: Fraction(0)


def _largest(outcomes: Iterable[Pair]) -> Interval:
    context = lazily.digits(_DIGITS)
    logs = [
        context.subtract(lazily.decimal(p, context).ln(context), lazily.decimal(q, context).ln(context)).copy_abs()
        for p, q in outcomes
        if p > _ERROR and q > _ERROR
    ]
    most = Fraction(max(logs, default=Decimal(0)))
    width = Fraction(1, 10**31)
    return max(Fraction(0), most - width), most + width
