"""A loss has shapes beyond ε and δ: its distribution, its least ρ, and what a test can make of it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from sfumato.privacy import composition
from sfumato.privacy.composition import Parts
from sfumato.privacy.loss import Loss
from sfumato.privacy.losses import ConcentratedLoss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact
from sfumato.privacy.vector_losses import DiscreteGaussianVectorLoss

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
        return math.inf if composition.failure(self.forward) else composition.renyi(self.forward, 1.0)

    def tail(self, epsilon: Number) -> float:
        """Bound P(L > ε) from above, tight to about one part in ten thousand; an atom just below ε counts as above."""
        return self._tail(float(exact(epsilon, "epsilon")))

    def quantile(self, probability: Number) -> float:
        """Find the least ε with P(L > ε) ≤ 1 − probability, found on the upper bound; infinite inside the failure."""
        beyond = 1 - exact(probability, "probability", INSIDE_UNIT)
        if beyond <= composition.failure(self.forward):
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
        spread = math.sqrt(2 * composition.renyi(self.forward, 1.0))
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
            return composition.delta_range(self.forward, Fraction(x))
        low, high = composition.delta_range(self.backward, Fraction(-x))
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
