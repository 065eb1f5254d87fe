"""Readings of many dominating pairs together, one direction: sums where sums are exact, inversion where they are
not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sfumato.privacy.inversion import Moments, delta_range_of, epsilon_range_of
from sfumato.privacy.losses import Loss
from sfumato.privacy.numbers import above, below, charge_units, from_units

Part = tuple[Loss, int]
Parts = tuple[Part, ...]


def failure(parts: Parts) -> Fraction:
    """1 − Π(1 − failureᵢ): exact while the powers are short, bounded by the sum beyond."""
    failing = [(loss.failure, count) for loss, count in parts if loss.failure]
    if sum(count for _, count in failing) > 64:
        return min(Fraction(1), sum((count * mass for mass, count in failing), Fraction(0)))
    kept = Fraction(1)
    for mass, count in failing:
        kept *= (1 - mass) ** count
    return 1 - kept


def max_divergence(parts: Parts) -> Fraction | None:
    """Σ D∞, or None when some part is unbounded."""
    return _sum_above([(loss.pure, count) for loss, count in parts])


def renyi(parts: Parts, order: float) -> float:
    """Σ D_α: Rényi divergence of products adds."""
    return math.fsum(count * loss.renyi(order) for loss, count in parts)


def epsilon_range(parts: Parts, delta: Fraction) -> tuple[float, float]:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ ``delta``."""
    spare = delta - failure(parts)
    if spare < 0:
        return math.inf, math.inf
    most = _top(parts)
    if spare == 0:
        return (math.inf, math.inf) if most is None else (below(most), above(most))
    if not parts or most == 0:
        return 0.0, 0.0
    if (profile := _closed_form(parts)) is not None:
        low, high = _invert(profile, below(delta))
    else:
        low, high = epsilon_range_of(Moments.of(parts), below(spare))
    if most is None:
        return low, high
    return min(low, below(most)), min(high, above(most))


def delta_range(parts: Parts, epsilon: Fraction) -> tuple[float, float]:
    """Bounds of δ(ε)."""
    reveal = failure(parts)
    most = _top(parts)
    if most is not None and epsilon >= most:
        return below(reveal), above(reveal)
    if (profile := _closed_form(parts)) is not None:
        value, error = profile(float(epsilon))
        return max(0.0, value - error), min(1.0, value + error)
    low, high = delta_range_of(Moments.of(parts), float(epsilon))
    return low + below(reveal), min(1.0, high + above(reveal))


Profile = Callable[[float], tuple[float, float]]


def _closed_form(parts: Parts) -> Profile | None:
    """δ(ε) with its rounding error, when there is a single pair that knows it."""
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    loss = parts[0][0]
    return None if loss.delta(0.0) is None else lambda epsilon: loss.delta(epsilon) or (0.0, 0.0)


def _invert(profile: Profile, delta: float) -> tuple[float, float]:
    """Bounds of the least ε ≥ 0 at which a falling profile is ≤ δ, from the two ends of its rounding error."""
    return (
        _last(lambda epsilon: profile(epsilon)[0] - profile(epsilon)[1] > delta)[0],
        _last(lambda epsilon: sum(profile(epsilon)) > delta)[1],
    )


def _last(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring floats between which a condition stops holding: (0, 0) when it never did."""
    if not holds(0.0):
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
        if high > 1e300:
            return low, math.inf
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _top(parts: Parts) -> Fraction | None:
    """The largest finite loss, or None when unbounded."""
    return _sum_above([(loss.top, count) for loss, count in parts])


def _sum_above(values: list[tuple[Fraction | None, int]]) -> Fraction | None:
    """Σ count·value: exact for a few kinds, each rounded up to 1e-30 for many (their denominators would explode)."""
    if any(value is None for value, _ in values):
        return None
    known = [(value, count) for value, count in values if value is not None]
    if len(known) <= 16:
        return sum((count * value for value, count in known), Fraction(0))
    return from_units(sum(count * charge_units(value) for value, count in known))
