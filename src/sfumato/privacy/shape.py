"""A loss has shapes beyond ε and δ: its distribution, its least ρ, and what a test can make of it.

Many dominating pairs are read together, one direction: by sums where sums are exact, by inversion elsewhere.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from sfumato.privacy.inversion import Moments, delta_range_of, epsilon_range_of
from sfumato.privacy.losses import ConcentratedLoss, Loss, sum_above
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss
from sfumato.privacy.numbers import INSIDE_UNIT, Number, above, below, exact, float_above, float_below, lowered, raised
from sfumato.privacy.vector_losses import DiscreteGaussianVectorLoss

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


_FURTHEST = 1e200
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss L of a dominating pair is a random variable: it says how much an outcome favours one of two
    worlds.

    Its δ(ε) bounds that of every mechanism it stands for; its tail and quantiles are its own (see ``Curve.loss``).
    """

    forward: Parts
    backward: Parts

    @property
    def mean(self) -> float:
        """Compute E[L], the KL divergence; infinite when the loss can be."""
        return math.inf if failure(self.forward) else renyi(self.forward, 1.0)

    def tail(self, epsilon: Number) -> float:
        """Bound P(L > ε) from above, tight to about one part in ten thousand; an atom just below ε counts as above."""
        return self._tail(float(exact(epsilon, "epsilon")))

    def quantile(self, probability: Number) -> float:
        """Find the least ε with P(L > ε) ≤ 1 − probability, found on the upper bound; infinite inside the failure."""
        beyond = 1 - exact(probability, "probability", INSIDE_UNIT)
        if beyond <= failure(self.forward):
            return math.inf
        low, high = -1.0, 1.0
        while self._tail(low) <= beyond and low > -_FURTHEST:
            low *= 2
        while self._tail(high) > beyond and high < _FURTHEST:
            high *= 2
        while high - low > 1e-9 * max(1.0, abs(high)):
            middle = (low + high) / 2
            low, high = (middle, high) if self._tail(middle) > beyond else (low, middle)
        return high

    def _tail(self, x: float) -> float:
        """δ(x) = P(L > x) − e^x·Q(L > x), and −Q(L > x) is the slope of the convex e^x ↦ δ: a chord from the left
        is steeper.
        """
        spread = math.sqrt(2 * renyi(self.forward, 1.0))
        near = x - max(1e-4 * min(spread, 1e6), 1e-10 * abs(x), 1e-13)
        least, most = self._delta_range(x)
        if not all(loss.moments_known for loss, _ in self.forward):
            least = 0.0  # no pair is known, only bounds: nothing forces the profile up here
        rounding = 2.0**-50  # of the two differences below
        steep = (self._delta_range(near)[1] - least + rounding) / -math.expm1(near - x)
        return min(1.0, (most + max(0.0, steep)) * (1 + rounding))

    def _delta_range(self, x: float) -> tuple[float, float]:
        """Bound δ at any real x: below zero through the other direction, (P − yQ)⁺ = P − yQ + (yQ − P)⁺."""
        if x >= 0:
            return delta_range(self.forward, Fraction(x))
        low, high = delta_range(self.backward, Fraction(-x))
        return -math.expm1(x) + math.exp(x) * low, -math.expm1(x) + math.exp(x) * high


def least_rho(loss: Loss) -> Fraction:
    """Find the least ρ with D_α ≤ ρα for all α > 1: exact where it is known, else rounded up by at most one part in
    10⁶.

    With s = α − 1, ψ(s) = s·D_α is convex and ψ(0) = 0, so chords bound ψ(s)/(s(s+1)) on an interval from above;
    the interval with the largest bound is halved until bound and best value meet.
    """
    if isinstance(loss, GaussianLoss):
        return loss.mu_squared / 2
    if isinstance(loss, (ConcentratedLoss, DiscreteGaussianVectorLoss)):
        return loss.rho
    if isinstance(loss, DiscreteGaussianLoss):  # attained at orders where (α − 1)·shift is whole
        return loss.shift**2 / (2 * loss.sigma_squared)
    ceiling = float(loss.pure or 0)
    if ceiling == 0:
        return Fraction(0)
    reach = max(4.0, min(1e250, 4 * ceiling / loss.renyi(1.0)))  # beyond it D∞/α is smaller than what is found before
    grid = [1e-7, *(2.0**n for n in range(-20, math.ceil(math.log2(reach)) + 1))]
    psi = {s: s * loss.renyi(1 + s) for s in grid}
    best = max(psi[s] / (s * (s + 1)) for s in grid)
    open_: list[tuple[float, float, float]] = [(-psi[grid[0]] / grid[0], 0.0, grid[0])]
    open_ += [(-_chord(a, b, psi[a], psi[b]), a, b) for a, b in pairwise(grid)]
    heapq.heapify(open_)
    while -open_[0][0] > best * (1 + 1e-9) and open_[0][1] > 0 and len(psi) < 2000:
        _, a, b = heapq.heappop(open_)
        middle = math.sqrt(a * b)
        psi[middle] = middle * loss.renyi(1 + middle)
        best = max(best, psi[middle] / (middle * (middle + 1)))
        for left, right in ((a, middle), (middle, b)):
            heapq.heappush(open_, (-_chord(left, right, psi[left], psi[right]), left, right))
    return Fraction(max(-open_[0][0], ceiling / (1 + grid[-1])) * (1 + 2.0**-40))


def _chord(a: float, b: float, at_a: float, at_b: float) -> float:
    """Find the maximum over [a, b] of (line through (a, at_a), (b, at_b))/(s(s+1)), a line with intercept ≤ 0."""
    slope = (at_b - at_a) / (b - a)
    start = at_a - slope * a
    ratios = [at_a / (a * (a + 1)), at_b / (b * (b + 1))]
    if start < 0 < slope:
        inner = (-start + math.sqrt(start * start - start * slope)) / slope
        if a < inner < b:
            ratios.append((start + slope * inner) / (inner * (inner + 1)))
    return max(ratios)


def best_line(delta: Callable[[float], float], most: float, alpha: float) -> float:
    """Find the highest of the lines max(1 − δ − e^ε·α, e^{−ε}(1 − δ − α)) at a false positive rate α, over 0 ≤ ε ≤
    most.

    Any ε gives a true lower bound of the false negative rate; both families are quasi-concave in e^ε, so golden
    sections find the best.
    """

    def first(epsilon: float) -> float:
        return 1 - delta(epsilon) - math.exp(min(700.0, epsilon)) * alpha

    def second(epsilon: float) -> float:
        return math.exp(-epsilon) * (1 - delta(epsilon) - alpha)

    return max(0.0, max(_peak(first, most), _peak(second, most)) - 2.0**-50)


def _peak(height: Callable[[float], float], most: float) -> float:
    """Find the largest height by golden sections: each looks at one new place, and keeps 0.618 of the rest."""
    low, high = 0.0, most
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = height(left), height(right)
    best = max(height(low), height(high), at_left, at_right)
    while high - low >= 1e-7 * max(1.0, most):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = height(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = height(left)
        best = max(best, at_left, at_right)
    return best
