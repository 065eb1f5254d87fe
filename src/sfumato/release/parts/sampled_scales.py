"""The scale of totals that were read from a secret Poisson sample of the units.

A total of the sample, S = Σ bᵤaᵤ over independent bᵤ ~ Bernoulli(q), estimates T = Σ aᵤ by S/q. One unit adds at most
A ≥ aᵤ ≥ 0: at most its limits let it add.

Theorem. With n = T/A, P(S ≥ s) ≤ exp(−n·KL(s/T ‖ q)) for s ≥ qT, and P(S ≤ s) is at most that for s ≤ qT, where KL is
the divergence of two coins. *Proof.* f(a) = ln(1 − q + q·e^{λa}) is convex with f(0) = 0, so Σ f(aᵤ/A) ≤ n·f(1) for
every real λ: the cumulants of S/A are at most those of a binomial number of n units, and so is the Chernoff bound. ∎

So with probability 1 − β the total T is one for which n·KL(s/T ‖ q) ≤ ln(2/β). The range takes the worst s within the
noise, which misses with half of the allowed probability, and sampling with the other half. It reads the noisy total,
the limit A and the rate; nothing in it is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Floats
from sfumato.privacy import codec
from sfumato.privacy.numbers import INSIDE_UNIT, NONNEGATIVE, Number, exact
from sfumato.release.parts.scales import NoisyScale

_BISECTIONS = 80


@codec.serialisable("sampled-scale")
@dataclass(frozen=True)
class SampledScale:
    """The scale of totals of a sample with additive noise: as estimates of the totals of all units."""

    noise: NoisyScale
    """The scale of the sample's own totals."""
    rate: Fraction
    unit_limit: Fraction
    """The most that one unit adds to a total, in the units of its measure."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", exact(self.rate, "rate", INSIDE_UNIT))
        object.__setattr__(self, "unit_limit", exact(self.unit_limit, "unit_limit", NONNEGATIVE))

    @property
    def unit_value(self) -> Fraction:
        return self.noise.unit_value / self.rate

    @property
    def mechanism(self) -> Additive:
        return self.noise.mechanism

    @property
    def columns(self) -> int:
        return self.noise.columns

    def half_width(self, confidence: Number, parts: int) -> Fraction:
        """Bound the noise and rounding of an estimate, without the sampling."""
        return self.noise.half_width(confidence, parts) / self.rate

    def width(self, confidence: Number, parts: int) -> float:
        return float(self.half_width(confidence, parts))

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Floats:
        """Bound noise and sampling together, for each of these estimates."""
        level, rate = exact(confidence, "confidence"), float(self.rate)
        noise = float(self.noise.half_width((1 + level) / 2, parts))
        exponent = math.log(4 * parts / float(1 - level))
        low, high = (np.maximum(totals * rate + sign * noise, 0.0) for sign in (-1, 1))
        limit = float(self.unit_limit)
        least = _least_total(low / limit, rate, exponent) * limit
        largest = _largest_total(high / limit, rate, exponent) * limit
        return np.maximum(largest - totals, totals - least) * (1 + 1e-9)

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return math.inf

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words(self.unit_value)


def _largest_total(sampled: Floats, rate: float, exponent: float) -> Floats:
    """Return the largest n ≥ s/q with n·KL(s/n ‖ q) ≤ exponent: n·KL ≥ (qn − s)²/2qn bounds it."""
    low = sampled / rate
    high = (sampled + exponent + np.sqrt(exponent * (exponent + 2 * sampled))) / rate
    return _bisect(low, high, sampled, rate, exponent)[1]


def _least_total(sampled: Floats, rate: float, exponent: float) -> Floats:
    """Return the least n from s to s/q with n·KL(s/n ‖ q) ≤ exponent."""
    return _bisect(sampled / rate, sampled, sampled, rate, exponent)[1]


def _bisect(inside: Floats, outside: Floats, sampled: Floats, rate: float, exponent: float) -> tuple[Floats, Floats]:
    """Narrow the ends between which n·KL(s/n ‖ q) passes the exponent: it is at most that at ``inside``."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        is_inside = _divergence(sampled, middle, rate) <= exponent
        inside, outside = np.where(is_inside, middle, inside), np.where(is_inside, outside, middle)
    return inside, outside


def _divergence(sampled: Floats, total: Floats, rate: float) -> Floats:
    """Compute n·KL(s/n ‖ q) = s·ln(s/qn) + (n − s)·ln((n − s)/((1 − q)n)), where 0·ln 0 = 0."""
    rest = np.maximum(total - sampled, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(sampled > 0, sampled * np.log(sampled / (rate * total)), 0.0)
        second = np.where(rest > 0, rest * np.log(rest / ((1 - rate) * total)), 0.0)
    return first + second
