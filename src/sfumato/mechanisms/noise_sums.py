"""This module bounds how far a sum of independent noises of one size can lie from zero: widths of subtotals.

*Laplace.* Let Y₁ … Yₖ be discrete Laplace noises of scale b, q = e^{−1/b}, and X₁ … Xₖ continuous ones of scale
b′ = (1 + q)/(2(1 − q)), which is a little more than b. Then for whole w

    P(|ΣYᵢ| > w) ≤ P(|ΣXᵢ| > w + ½).

Proof. Let V = Y + U, U uniform on (−½, ½). Its tail P(|V| > t) is linear between half-numbers, goes through q^j at
every whole j with slope −q^j/b′, and so is at most q^j(1 − (t − j)/b′) ≤ e^{−t/b′} near j: V is more peaked than X.
Sums of symmetric unimodal variables keep that order (Birnbaum 1948), so P(|ΣVᵢ| > t) ≤ P(|ΣXᵢ| > t). The law of
ΣYᵢ is symmetric and falls away from 0 (sums of log-concave laws are log-concave), so of all runs of 2w + 1 whole
numbers the middle one has the most of it; whatever ΣUᵢ is, |ΣVᵢ| ≤ w + ½ lets ΣYᵢ lie in one such run. ∎

ΣXᵢ/b′ is the difference of two waiting times for the k-th event, so its tail is a sum over a Poisson number of events:
P(ΣXᵢ > b′t) = Σ_{j<k} P(Poisson(t) = j)·P(N ≤ k − 1 − j), N the tails before the k-th head of a fair coin.

*Gaussian.* The sum of k discrete Gaussian noises is within a factor e^τ, at every point, of the one with σ√k, where
τ = 10·Σ_{j<k} e^{−2π²σ²·j/(j+1)} (Kairouz, Liu & Steinke 2021, for σ ≥ ½).

*Chernoff*, for what is too improbable, or noise too small, for the above: P(|Σ| > w) ≤ 2·e^{kψ(s) − sw} for every s,
with the moment function ψ of one noise: ln[(1 − q)²/((1 − qe^s)(1 − qe^{−s}))], and at most σ²s²/2 for the discrete
Gaussian (Canonne, Kamath & Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_CUT = 1e-14
"""More than what is cut off of a sum over Poisson events, and the rounding of its own additions."""
_ULP = 2.0**-52
_RAREST = 1e-12
"""Misses that are rarer than this are not computed but bounded."""


@lru_cache(maxsize=4096)
def laplace_width(scale: float, terms: int, miss: float) -> int:
    """Find a whole w with P(|sum of so many discrete Laplace noises| > w) ≤ miss."""
    bound = math.ceil(_laplace_chernoff(scale, terms, miss))
    if miss < _RAREST:
        return bound
    smooth = 0.5 / math.tanh(0.5 / scale)  # (1 + q)/(2(1 − q))
    reach = _least(lambda t: _waiting_tail(t, terms) <= miss, bound / smooth + 1)
    return min(bound, max(0, math.ceil(reach * smooth * (1 + 1e-12) - 0.5)))


@lru_cache(maxsize=4096)
def gaussian_miss(sigma: float, terms: int, miss: float) -> float:
    """Say how rarely one discrete Gaussian noise of σ√terms may lie outside so that the sum does so no more than
    ``miss``; 0 where that is not known.
    """
    if sigma < 0.5:
        return 0.0
    ratios = np.arange(1, terms) / np.arange(2, terms + 1)
    closeness = 10 * float(np.exp(-2 * (math.pi * sigma) ** 2 * ratios).sum())
    return miss * math.exp(-closeness) * (1 - 1e-9)


def gaussian_chernoff(sigma: float, terms: int, miss: float) -> float:
    """Bound the width of the sum by the moments of a Gaussian, which those of the discrete one are no larger than."""
    return sigma * math.sqrt(2 * terms * math.log(2 / miss)) * (1 + 1e-12)


def _laplace_chernoff(scale: float, terms: int, miss: float) -> float:
    """Find the least of (kψ(s) + ln(2/miss))/s over many s below 1/scale: each of them is a bound."""
    slopes = np.concatenate([np.geomspace(1e-9, 0.5, 400), 1 - np.geomspace(1e-9, 0.5, 400)]) / scale
    gone = -math.expm1(-1 / scale)  # 1 − q
    rising, falling = -np.expm1(slopes - 1 / scale), -np.expm1(-slopes - 1 / scale)
    moments = 2 * math.log(gone) - np.log(rising) - np.log(falling)
    return float(((terms * moments + math.log(2 / miss)) / slopes).min()) * (1 + 1e-9)


def _waiting_tail(reach: float, terms: int) -> float:
    """Bound P(|sum of so many continuous Laplace variables of scale 1| > reach) from above.

    Logarithms are sums of thousands of numbers: each probability is raised by what their rounding can be.
    """
    most = min(terms, math.ceil(reach + 40 * math.sqrt(reach) + 60))  # beyond it Poisson(reach) has no mass to speak of
    events = np.arange(most)
    if reach > 0:
        factorials = _log_factorials(most)
        logs = events * math.log(reach) - reach - factorials
        rounding = _ULP * (events + 4) * (factorials + events * abs(math.log(reach)) + reach + 4)
    else:
        logs, rounding = np.where(events == 0, 0, -np.inf), np.zeros(most)
    return 2 * float((np.exp(logs + rounding) * _few_tails(terms, most)).sum()) + _CUT


def _log_factorials(count: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count)))])[:count]


@lru_cache(maxsize=256)
def _few_tails(terms: int, most: int) -> NDArray[np.float64]:
    """Bound P(N ≤ terms − 1 − j) from above for j below ``most``: ½ for j = 0, less one probability of N for each
    further j. P(N = terms − 1) = ½·∏ᵢ(1 − 1/(2i)) over i below ``terms``; differences of ln Γ, which are as large as
    terms·ln(terms), would be wrong by as many units in the last place.
    """
    tails = terms - np.arange(1, most)  # N = terms − 1, terms − 2, …
    first = math.fsum(np.log1p(-0.5 / np.arange(1, terms))) - math.log(2)
    steps = -np.log1p((terms - 1 - tails[:-1]) / (2 * tails[:-1]))  # P(N = n − 1) = P(N = n)·2n/(n + k − 1)
    logs = first + np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs)
    margins = _ULP * chances * (np.arange(logs.size) + 8) * (8 - logs)
    return np.maximum(0.5 - np.concatenate([[0.0], np.cumsum(chances - margins)]), 0)[:most]


def _least(holds: Callable[[float], bool], high: float) -> float:
    """Find a number at which a property of all large numbers holds, hardly above the least."""
    low = 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
