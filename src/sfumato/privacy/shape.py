"""Readings of a product of dominating pairs in one direction: δ(ε), ε(δ), its loss distribution, its least ρ and its
trade-off.

Divergences that add are summed exactly; δ(ε) and ε(δ) come from a closed form where there is one, else by inversion.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.inversion import Moments, delta_range_of, epsilon_range_of
from sfumato.privacy.losses import ConcentratedLoss, Loss, LossPair, PairLoss, sum_with_counts_rounded_up
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss
from sfumato.privacy.numbers import (
    INSIDE_UNIT,
    Number,
    decimal_float_above,
    decimal_float_below,
    exact,
    float_above,
    float_below,
    next_float_down,
    next_float_up,
)
from sfumato.quick_dataclass import dataclass

Part = tuple[Loss, int]
Parts = tuple[Part, ...]
Pairs = tuple[tuple[LossPair, int], ...]
"""What is composed, with multiplicities."""


def charged_directions(parts: Parts, neighbours: Neighbours) -> tuple[Parts, ...]:
    """Return the parts in both directions or, under replace, each replaced by a loss that dominates both orders."""
    if neighbours is Neighbours.REPLACE:
        return (tuple((loss.symmetrised(), count) for loss, count in parts),)
    backward = tuple((loss.reversed(), count) for loss, count in parts)
    return (parts,) if backward == parts else (parts, backward)


def composed_directions(parts: Parts, neighbours: Neighbours) -> tuple[Pairs, ...]:
    """Return the parts to compose: each as its factors, except a single loss that is known better alone."""
    sides = charged_directions(parts, neighbours)
    if len(parts) == 1 and parts[0][1] == 1 and parts[0][0].is_sharper_alone:
        return sides
    return tuple(
        tuple((factor, times * count) for loss, count in side for factor, times in loss.factors) for side in sides
    )


def failure(parts: Pairs) -> Fraction:
    """Compute 1 − Π(1 − failureᵢ), rounded up where it is not computed exactly."""
    return failure_range(parts)[1]


def failure_range(parts: Pairs) -> tuple[Fraction, Fraction]:
    """Bound 1 − Π(1 − failureᵢ) from both sides: equal while the powers are short, a rounding apart otherwise."""
    failures = [(loss.failure, count) for loss, count in parts if loss.failure]
    if any(mass == 1 for mass, _ in failures):
        return Fraction(1), Fraction(1)
    if sum(count for _, count in failures) <= 64:
        success = math.prod(((1 - mass) ** count for mass, count in failures), start=Fraction(1))
        return 1 - success, 1 - success
    total = -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in failures))
    return Fraction(total * (1 - 2.0**-40)), min(Fraction(1), Fraction(total * (1 + 2.0**-40)))


def max_divergence(parts: Pairs) -> Fraction | None:
    """Sum D∞ over the parts; None when some part is unbounded."""
    return sum_with_counts_rounded_up((loss.pure_epsilon, count) for loss, count in parts)


def renyi(parts: Pairs, order: float) -> float:
    """Sum D_α over the parts: Rényi divergence of products adds."""
    return math.fsum(count * loss.renyi(order) for loss, count in parts)


def epsilon_range(parts: Pairs, delta: Fraction) -> tuple[float, float]:
    """Bound the least ε ≥ 0 with δ(ε) ≤ ``delta`` from both sides."""
    if len(parts) == 1 and parts[0][1] == 1 and (alternatives := parts[0][0].products_to_maximise):
        return _worst_epsilon(alternatives, delta)
    failure_low, failure_high = failure_range(parts)
    top = sum_with_counts_rounded_up((loss.largest_finite_loss, count) for loss, count in parts)
    top_bounds = (math.inf, math.inf) if top is None else (decimal_float_below(top), decimal_float_above(top))
    if delta < failure_low:
        return math.inf, math.inf
    if not parts or top == 0:
        return 0.0, 0.0 if delta >= failure_high else math.inf
    if delta == failure_low:
        return top_bounds[0], math.inf if delta < failure_high else top_bounds[1]
    if (profile := _closed_form_profile(parts)) is not None:  # a single pair, whose failure is exact
        low, high = _invert_profile(profile, delta)
    else:
        # The δ that remains beside the failure: its upper bound gives the lower ε, its lower bound the upper ε.
        spare_delta = float_below(delta - failure_high) if delta > failure_high else 0.0
        low, high = epsilon_range_of(Moments.from_pairs(parts), spare_delta, float_above(delta - failure_low))
    upper = math.inf if delta < failure_high else min(_next_float_up_unless_zero(high), top_bounds[1])
    return min(_next_nonnegative_float_down(low), top_bounds[0]), upper


def _next_nonnegative_float_down(low: float) -> float:
    """Round a computed lower bound of a number ≥ 0 down, so that its decimal meaning is a lower bound too."""
    return max(0.0, next_float_down(low))


def _next_float_up_unless_zero(high: float) -> float:
    """Round a computed upper bound of a number ≥ 0 up, so that its decimal meaning is an upper bound too."""
    return next_float_up(high) if high else 0.0


def delta_range(parts: Pairs, epsilon: Fraction) -> tuple[float, float]:
    """Bound δ(ε) from both sides."""
    if len(parts) == 1 and parts[0][1] == 1 and (alternatives := parts[0][0].products_to_maximise):
        return _worst_delta(alternatives, epsilon)
    failure_low, failure_high = failure_range(parts)
    top = sum_with_counts_rounded_up((loss.largest_finite_loss, count) for loss, count in parts)
    if failure_low == 1:
        return 1.0, 1.0
    if top is not None and epsilon >= top:
        return decimal_float_below(failure_low), decimal_float_above(failure_high)
    if (profile := _closed_form_profile(parts)) is not None:
        profile_low, profile_high = profile(float_above(epsilon)), profile(float_below(epsilon))
        return _next_nonnegative_float_down(next_float_down(profile_low[0] - profile_low[1])), min(
            1.0, next_float_up(next_float_up(sum(profile_high)))
        )
    low, high = _inverted_delta_range(parts, float(epsilon))
    return min(1.0, _next_nonnegative_float_down(low + float_below(failure_low))), min(
        1.0, next_float_up(high + float_above(failure_high))
    )


@lru_cache(maxsize=4096)
def _inverted_delta_range(parts: Pairs, epsilon: float) -> tuple[float, float]:
    """Bound δ(ε) by inversion; cached because explaining, forecasting and charging a price evaluate equal curves."""
    return delta_range_of(Moments.from_pairs(parts), epsilon)


Alternatives = tuple[tuple[LossPair, Pairs], ...]


def _worst_delta(products: Alternatives, epsilon: Fraction) -> tuple[float, float]:
    """Bound the largest δ(ε) of several products; a product is skipped if its quick bound shows it is no larger."""
    low = high = 0.0
    for bound, parts in products:
        quick_bound = bound.delta_and_error(float_below(epsilon))
        if quick_bound is None or sum(quick_bound) > low:
            bounds = delta_range(parts, epsilon)
            low, high = max(low, bounds[0]), max(high, bounds[1])
    return low, high


def _worst_epsilon(products: Alternatives, delta: Fraction) -> tuple[float, float]:
    """Bound the largest least ε with δ(ε) ≤ ``delta`` of several products, skipping as ``_worst_delta`` does."""
    low = high = 0.0
    for bound, parts in products:
        quick_bound = bound.delta_and_error(low)
        if quick_bound is None or sum(quick_bound) > delta:
            bounds = epsilon_range(parts, delta)
            low, high = max(low, bounds[0]), max(high, bounds[1])
    return low, high


Profile = Callable[[float], tuple[float, float]]


def _closed_form_profile(parts: Pairs) -> Profile | None:
    """Return δ(ε) with its rounding error, if a single pair has it in closed form."""
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    loss = parts[0][0]
    return None if loss.delta_and_error(0.0) is None else lambda epsilon: loss.delta_and_error(epsilon) or (0.0, 0.0)


def _invert_profile(profile: Profile, delta: Fraction) -> tuple[float, float]:
    """Bound the least ε ≥ 0 at which a falling profile is ≤ δ, using both ends of its rounding error."""
    delta_low, delta_high = float_below(delta), float_above(delta)

    def lower_end(value: float, error: float) -> float:
        return next_float_down(value - error)

    return (
        _bisect_floats(lambda epsilon: lower_end(*profile(epsilon)) > delta_high)[0],
        _bisect_floats(lambda epsilon: next_float_up(sum(profile(epsilon))) > delta_low)[1],
    )


def _bisect_floats(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Return adjacent floats between which a condition stops holding: (0, 0) if it never held."""
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


_LARGEST_LOSS = 1e200
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss L of a dominating pair, a random variable: how much an outcome favours one of the two
    neighbouring databases.

    Its δ(ε) bounds that of every mechanism it stands for; its tail and quantiles are its own (see ``Curve.loss``).
    """

    forward: Pairs
    backward: Pairs

    @property
    def mean(self) -> float:
        """E[L], the KL divergence; infinite if the loss can be."""
        return math.inf if failure(self.forward) else renyi(self.forward, 1.0)

    def tail(self, epsilon: Number) -> float:
        """Bound P(L > ε) from above, tight to about one part in ten thousand; an atom just below ε counts as above."""
        return self._tail(float(exact(epsilon, "epsilon")))

    def quantile(self, probability: Number) -> float:
        """Return the least ε at which the upper bound of P(L > ε) is ≤ 1 − probability; infinite inside the failure."""
        tail_probability = 1 - exact(probability, "probability", INSIDE_UNIT)
        if tail_probability <= failure(self.forward):
            return math.inf
        low, high = -1.0, 1.0
        while self._tail(low) <= tail_probability:  # ends by −64, where the bound of P(L > low) is 1
            low *= 2
        while self._tail(high) > tail_probability and high < _LARGEST_LOSS:
            high *= 2
        while high - low > 1e-9 * max(1.0, abs(high)):
            middle = (low + high) / 2
            low, high = (middle, high) if self._tail(middle) > tail_probability else (low, middle)
        return high

    def _tail(self, x: float) -> float:
        """Bound P(L > x): δ(x) = P(L > x) − e^x·Q(L > x), and −Q(L > x) is the slope of the convex e^x ↦ δ, so a chord
        from the left is steeper.
        """
        spread = math.sqrt(2 * renyi(self.forward, 1.0))
        left = x - max(1e-4 * min(spread, 1e6), 1e-10 * abs(x), 1e-13)
        delta_low, delta_high = self._delta_range(x)
        if not all(loss.moments_known for loss, _ in self.forward):
            delta_low = 0.0  # no pair is known, only bounds: nothing forces the profile up here
        rounding = 2.0**-50  # of the two differences below
        slope = (self._delta_range(left)[1] - delta_low + rounding) / -math.expm1(left - x)
        return min(1.0, (delta_high + max(0.0, slope)) * (1 + rounding))

    def _delta_range(self, x: float) -> tuple[float, float]:
        """Bound δ at any real x; for x < 0 from the other direction, by (P − yQ)⁺ = P − yQ + (yQ − P)⁺."""
        if x >= 0:
            return delta_range(self.forward, Fraction(x))
        low, high = delta_range(self.backward, Fraction(-x))
        return -math.expm1(x) + math.exp(x) * low, -math.expm1(x) + math.exp(x) * high


def least_rho(loss: Loss) -> Fraction:
    """Return the least ρ with D_α ≤ ρα for all α > 1: exact where it is known, else rounded up by at most one part in
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
    max_divergence = float(loss.pure_epsilon or 0)
    if max_divergence == 0:
        return Fraction(0)
    largest_s = min(1e250, max_divergence / loss.renyi(1.0))  # beyond it D∞/α is below the value at order 1
    grid = [1e-7, *(2.0**n for n in range(-20, math.ceil(math.log2(largest_s)) + 1))]
    psi = {s: s * loss.renyi(1 + s) for s in grid}
    best = max(psi[s] / (s * (s + 1)) for s in grid)
    intervals: list[tuple[float, float, float]] = [(-psi[grid[0]] / grid[0], 0.0, grid[0])]
    intervals += [(-_chord_maximum(a, b, psi[a], psi[b]), a, b) for a, b in pairwise(grid)]
    heapq.heapify(intervals)
    while -intervals[0][0] > best * (1 + 1e-9) and intervals[0][1] > 0 and len(psi) < 2000:
        _, a, b = heapq.heappop(intervals)
        middle = math.sqrt(a * b)
        psi[middle] = middle * loss.renyi(1 + middle)
        best = max(best, psi[middle] / (middle * (middle + 1)))
        for left, right in ((a, middle), (middle, b)):
            heapq.heappush(intervals, (-_chord_maximum(left, right, psi[left], psi[right]), left, right))
    rounding = 2.0**-40
    if isinstance(loss, PairLoss):  # whose values near order 1 have rounding errors of their own
        rounding += 2.0**-46 / max(grid[0], min(1.0, max_divergence))
    return Fraction(max(-intervals[0][0], max_divergence / (1 + grid[-1])) * (1 + rounding))


def _chord_maximum(a: float, b: float, at_a: float, at_b: float) -> float:
    """Return the maximum over [a, b] of (line through (a, at_a), (b, at_b))/(s(s+1)), a line with intercept ≤ 0."""
    slope = (at_b - at_a) / (b - a)
    intercept = at_a - slope * a
    ratios = [at_a / (a * (a + 1)), at_b / (b * (b + 1))]
    if intercept < 0 < slope:
        inner = (-intercept + math.sqrt(intercept * intercept - intercept * slope)) / slope
        if a < inner < b:
            ratios.append((intercept + slope * inner) / (inner * (inner + 1)))
    return max(ratios)


def best_false_negative_bound(delta: Callable[[float], float], max_epsilon: float, alpha: float) -> float:
    """Return the largest of max(1 − δ − e^ε·α, e^{−ε}(1 − δ − α)) at a false positive rate α, over 0 ≤ ε ≤ most.

    Any ε gives a true lower bound of the false negative rate; both families are quasi-concave in e^ε, so golden-section
    search finds the best.
    """

    def steep_side(epsilon: float) -> float:
        return 1 - delta(epsilon) - math.exp(min(700.0, epsilon)) * alpha

    def flat_side(epsilon: float) -> float:
        return math.exp(-epsilon) * (1 - delta(epsilon) - alpha)

    return max(0.0, max(_golden_maximum(steep_side, max_epsilon), _golden_maximum(flat_side, max_epsilon)) - 2.0**-50)


def _golden_maximum(function: Callable[[float], float], upper_end: float) -> float:
    """Return the maximum of ``function`` on [0, upper_end] by golden-section search: one new evaluation per step, which
    keeps 0.618 of the interval.
    """
    low, high = 0.0, upper_end
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    best = max(function(low), function(high), at_left, at_right)
    while high - low >= 1e-7 * max(1.0, upper_end):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        best = max(best, at_left, at_right)
    return best
