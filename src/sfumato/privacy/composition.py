"""Many dominating pairs are read together, one direction: by sums where sums are exact, by inversion elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from sfumato.privacy.inversion import Moments, delta_range_of, epsilon_range_of
from sfumato.privacy.loss import Loss, sum_above
from sfumato.privacy.numbers import above, below, float_above, float_below, lowered, raised

Part = tuple[Loss, int]
Parts = tuple[Part, ...]


def failure(parts: Parts) -> Fraction:
    """Compute 1 − Π(1 − failureᵢ), rounded up where it is not computed exactly."""
    return failure_range(parts)[1]


def failure_range(parts: Parts) -> tuple[Fraction, Fraction]:
    """Bound 1 − Π(1 − failureᵢ) from both sides: equal while the powers are short, a rounding apart beyond."""
    failing = [(loss.failure, count) for loss, count in parts if loss.failure]
    if sum(count for _, count in failing) <= 64 or any(mass == 1 for mass, _ in failing):
        kept = Fraction(1)
        for mass, count in failing:
            kept *= (1 - mass) ** min(count, 64)
        return 1 - kept, 1 - kept
    total = -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in failing))
    return Fraction(total * (1 - 2.0**-40)), min(Fraction(1), Fraction(total * (1 + 2.0**-40)))


def max_divergence(parts: Parts) -> Fraction | None:
    """Sum D∞ over the parts; None when some part is unbounded."""
    return sum_above((loss.pure, count) for loss, count in parts)


def renyi(parts: Parts, order: float) -> float:
    """Sum D_α over the parts: Rényi divergence of products adds."""
    return math.fsum(count * loss.renyi(order) for loss, count in parts)


def epsilon_range(parts: Parts, delta: Fraction) -> tuple[float, float]:
    """Bound the least ε ≥ 0 with δ(ε) ≤ ``delta`` from both sides."""
    if len(parts) == 1 and parts[0][1] == 1 and (found := parts[0][0].alternatives):
        return _worst_epsilon(found, delta)
    least, most = failure_range(parts)
    top = sum_above((loss.top, count) for loss, count in parts)
    ends = (math.inf, math.inf) if top is None else (below(top), above(top))
    if delta < least:
        return math.inf, math.inf
    if not parts or top == 0:
        return 0.0, 0.0 if delta >= most else math.inf
    if (profile := _closed_form(parts)) is not None and delta > most:
        low, high = _invert(profile, delta)
        return min(_not_above(low), ends[0]), min(_not_below(high), ends[1])
    if delta == least:
        return ends[0], math.inf if delta < most else ends[1]
    # What the failure leaves of δ: the most of it for the lower bound, the least of it for the upper.
    spare = float_below(delta - most) if delta > most else 0.0
    low, high = epsilon_range_of(Moments.of(parts), spare, float_above(delta - least))
    return min(_not_above(low), ends[0]), math.inf if delta < most else min(_not_below(high), ends[1])


def _not_above(low: float) -> float:
    """Lower a computed lower bound of a number ≥ 0 until it is one in its decimal meaning too."""
    return max(0.0, lowered(low))


def _not_below(high: float) -> float:
    """Raise a computed upper bound of a number ≥ 0 until it is one in its decimal meaning too."""
    return raised(high) if high else 0.0


def delta_range(parts: Parts, epsilon: Fraction) -> tuple[float, float]:
    """Bound δ(ε) from both sides."""
    if len(parts) == 1 and parts[0][1] == 1 and (found := parts[0][0].alternatives):
        return _worst_delta(found, epsilon)
    least, most = failure_range(parts)
    top = sum_above((loss.top, count) for loss, count in parts)
    if least == 1:
        return 1.0, 1.0
    if top is not None and epsilon >= top:
        return below(least), above(most)
    if (profile := _closed_form(parts)) is not None:
        below_it, above_it = profile(float_above(epsilon)), profile(float_below(epsilon))
        return _not_above(lowered(below_it[0] - below_it[1])), min(1.0, raised(raised(sum(above_it))))
    low, high = _inverted_delta_range(parts, float(epsilon))
    return min(1.0, _not_above(low + float_below(least))), min(1.0, raised(high + float_above(most)))


@lru_cache(maxsize=4096)
def _inverted_delta_range(parts: Parts, epsilon: float) -> tuple[float, float]:
    """Bound δ(ε) by inversion; a price that is explained, forecast and paid searches through equal curves each time."""
    return delta_range_of(Moments.of(parts), epsilon)


Alternatives = tuple[tuple[Loss, Parts], ...]


def _worst_delta(alternatives: Alternatives, epsilon: Fraction) -> tuple[float, float]:
    """Bound the largest δ(ε) of several products; what a quick bound proves to be no larger is not looked at."""
    low = high = 0.0
    for bound, parts in alternatives:
        most = bound.delta(float_below(epsilon))
        if most is None or sum(most) > low:
            found = delta_range(parts, epsilon)
            low, high = max(low, found[0]), max(high, found[1])
    return low, high


def _worst_epsilon(alternatives: Alternatives, delta: Fraction) -> tuple[float, float]:
    """Bound the largest ε with δ(ε) ≤ ``delta`` of several products, in the same way."""
    low = high = 0.0
    for bound, parts in alternatives:
        most = bound.delta(low)
        if most is None or sum(most) > delta:
            found = epsilon_range(parts, delta)
            low, high = max(low, found[0]), max(high, found[1])
    return low, high


Profile = Callable[[float], tuple[float, float]]


def _closed_form(parts: Parts) -> Profile | None:
    """Compute δ(ε) with its rounding error, when there is a single pair that knows it."""
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    loss = parts[0][0]
    return None if loss.delta(0.0) is None else lambda epsilon: loss.delta(epsilon) or (0.0, 0.0)


def _invert(profile: Profile, delta: Fraction) -> tuple[float, float]:
    """Bound the least ε ≥ 0 at which a falling profile is ≤ δ, from the two ends of its rounding error."""
    least, most = float_below(delta), float_above(delta)
    return (
        _last(lambda epsilon: lowered(profile(epsilon)[0] - profile(epsilon)[1]) > most)[0],
        _last(lambda epsilon: raised(sum(profile(epsilon))) > least)[1],
    )


def _last(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Find neighbouring floats between which a condition stops holding: (0, 0) when it never did."""
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
