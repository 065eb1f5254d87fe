"""Half-widths of sums of independent noises of one size, as subtotals and weighted totals need them.

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

*Weighted sums.* The second half bounds Σ aⱼYⱼ for public a. All bounds are upper bounds of P(|Σ aⱼYⱼ| > w); widths are
found from them. ‖a‖ is the Euclidean length of a.

*Gaussian.* Let the Yⱼ be r discrete Gaussians of σ and Gⱼ independent continuous ones of deviation τ. The density of
Y + G is proportional to e^{−z²/2(σ²+τ²)}·θ(z), where θ(z) = Σ_y e^{−(y − cz)²/2s²}, 1/s² = 1/σ² + 1/τ². By Poisson's
summation θ is within a factor 1 ± η of a constant, η = 2·Σ_{k≥1} e^{−2π²s²k²} (Micciancio & Regev 2007, Lemma 4.4). So
the law of (Y + G) is, at every point, within (1 + η)/(1 − η) of the normal law of variance σ² + τ², and the law of
all r of them, and of any function of them, within the r-th power of that:

    P(|Σ aⱼYⱼ| > u + v) ≤ ((1 + η)/(1 − η))^r · P(|N| > u/(‖a‖√(σ² + τ²))) + P(|N| > v/(‖a‖τ)),   N normal. ∎

With s = 1.5 the factor is 1 to 15 digits; v is a part in a hundred of u where σ is a hundred steps.

*Laplace.* Let Yⱼ be discrete Laplace noises of scale b, Uⱼ uniform on (−½, ½), and Xⱼ continuous Laplace variables of
scale b′ = ½·coth(1/2b). Y + U is more peaked than X (``noise_sums``), also when both are multiplied by a number, and
sums keep that order (Birnbaum 1948). Σ aⱼUⱼ has P(|·| > v) ≤ 2e^{−2v²/‖a‖²} (Hoeffding 1963). So

    P(|Σ aⱼYⱼ| > u + v) ≤ P(|Σ aⱼXⱼ| > u) + 2e^{−2v²/‖a‖²}. ∎

The first is found from the characteristic function φ(x) = Π 1/(1 + (b′aⱼx)²): for every step h (Davies 1973)

    P(S > u) = ½ − Σ_{k≥0} φ(x_k)·sin(x_k·u)/(π(k + ½)) ± ½·P(|S| > 2π/h − u),   x_k = (k + ½)h,

and what is left out from the term K on is at most φ(x_K)(1 + 1/(cx_K)²)/π with c = b′·max|aⱼ|, since φ(x)·(1 + c²x²)
falls and Σ_{k≥K} (K + ½)²/(k + ½)³ ≤ 1 for K ≥ 2.

*Chernoff*, where that is not enough: P(|Σ aⱼYⱼ| > w) ≤ 2·e^{−w²/2σ²‖a‖²} for discrete Gaussians, whose moments are no
larger than the continuous one's (Canonne, Kamath & Steinke 2020). For Laplace noise the cumulants of even order are
positive, so ψ(x)/x² rises in |x| for the moment function ψ, and Σψ(aⱼx) ≤ (‖a‖²/m²)·ψ(mx), m = max|aⱼ|.

*Noises of different sizes.* Both proofs treat each noise by itself before they add them, so they hold with a size for
each: b′ⱼ in the place of b′, and Σ aⱼ²(σⱼ² + τⱼ²) and Σ aⱼ²τⱼ² in the place of the two variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats

_CUT = 1e-14
"""More than what is cut off of a sum over Poisson events, and the rounding of its own additions."""
_ULP = 2.0**-52
_SMALLEST_TAIL = 1e-12
"""Misses that are rarer than this are not computed but bounded."""


@lru_cache(maxsize=4096)
def laplace_sum_width(scale: float, terms: int, miss: float) -> int:
    """Return an integer w with P(|sum of ``terms`` discrete Laplace noises| > w) ≤ miss."""
    bound = math.ceil(_laplace_chernoff_width(scale, terms, miss))
    if miss < _SMALLEST_TAIL:
        return bound
    continuous_scale = 0.5 / math.tanh(0.5 / scale)  # (1 + q)/(2(1 − q))
    reach = _bisect_least(lambda t: _laplace_sum_tail(t, terms) <= miss, bound / continuous_scale)
    return min(bound, max(0, math.ceil(reach * continuous_scale * (1 + 1e-12) - 0.5)))


@lru_cache(maxsize=4096)
def single_gaussian_miss(sigma: float, terms: int, miss: float) -> float:
    """Return the miss probability of one discrete Gaussian of σ√terms at which the sum misses with at most ``miss``; 0
    where that is not known.
    """
    if sigma < 0.5:
        return 0.0
    ratios = np.arange(1, terms) / np.arange(2, terms + 1)
    closeness = 10 * float(np.exp(-2 * (math.pi * sigma) ** 2 * ratios).sum())
    return miss * math.exp(-closeness) * (1 - 1e-9)


def gaussian_sum_chernoff_width(sigma: float, terms: int, miss: float) -> float:
    """Bound the width of the sum by the moments of the continuous Gaussian, which are at least those of the discrete
    one.
    """
    return sigma * math.sqrt(2 * terms * math.log(2 / miss)) * (1 + 1e-12)


def _laplace_chernoff_width(scale: float, terms: int, miss: float) -> float:
    """Return the least of (kψ(s) + ln(2/miss))/s over many s below 1/scale: each of them is a bound."""
    slopes = np.concatenate([np.geomspace(1e-9, 0.5, 400), 1 - np.geomspace(1e-9, 0.5, 400)]) / scale
    one_minus_q = -math.expm1(-1 / scale)  # 1 − q
    rising, falling = -np.expm1(slopes - 1 / scale), -np.expm1(-slopes - 1 / scale)
    moments = 2 * math.log(one_minus_q) - np.log(rising) - np.log(falling)
    return float(((terms * moments + math.log(2 / miss)) / slopes).min()) * (1 + 1e-9)


def _laplace_sum_tail(reach: float, terms: int) -> float:
    """Bound P(|sum of so many continuous Laplace variables of scale 1| > reach) from above.

    Logarithms are sums of thousands of numbers: each probability is raised by what their rounding can be.
    """
    event_count = min(
        terms, math.ceil(reach + 40 * math.sqrt(reach) + 60)
    )  # beyond it Poisson(reach) has no mass to speak of
    events = np.arange(event_count)
    if reach > 0:
        factorials = _log_factorials(event_count)
        logs = events * math.log(reach) - reach - factorials
        rounding = _ULP * (events + 4) * (factorials + events * abs(math.log(reach)) + reach + 4)
    else:
        logs, rounding = np.where(events == 0, 0, -np.inf), np.zeros(event_count)
    return 2 * float((np.exp(logs + rounding) * _negative_binomial_bounds(terms, event_count)).sum()) + _CUT


def _log_factorials(count: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count)))])[:count]


@lru_cache(maxsize=256)
def _negative_binomial_bounds(terms: int, most: int) -> NDArray[np.float64]:
    """Bound P(N ≤ terms − 1 − j) from above for j below ``most``: ½ for j = 0, less one probability of N for each
    further j. P(N = terms − 1) = ½·∏ᵢ(1 − 1/(2i)) over i below ``terms``; differences of ln Γ, which are as large as
    terms·ln(terms), would be wrong by as many units in the last place.
    """
    tails = terms - np.arange(1, most)  # N = terms − 1, terms − 2, …
    log_first = math.fsum(np.log1p(-0.5 / np.arange(1, terms))) - math.log(2)
    steps = -np.log1p((terms - 1 - tails[:-1]) / (2 * tails[:-1]))  # P(N = n − 1) = P(N = n)·2n/(n + k − 1)
    logs = log_first + np.concatenate([[0.0], np.cumsum(steps)])
    probabilities = np.exp(logs)
    margins = _ULP * probabilities * (np.arange(logs.size) + 8) * (8 - logs)
    return np.maximum(0.5 - np.concatenate([[0.0], np.cumsum(probabilities - margins)]), 0)[:most]


def _bisect_least(holds: Callable[[float], bool], high: float) -> float:
    """Return a number at which a property of all large numbers holds, hardly above the least."""
    low = 0.0
    for _ in range(46):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


_SMOOTH = 1.5
_LEAST_SMOOTHED = 2 * _SMOOTH
"""The σ from which smoothing is tried; below it Chernoff's width is the smaller one for every miss."""
_DEPARTURE = 2.001 * 2.001 * math.exp(-2 * (math.pi * _SMOOTH) ** 2)
"""More than ln((1 + η)/(1 − η)): how far the law of one smoothed noise may be from a normal one."""
_SLACK = 1e-2
"""The share of the miss probability that is left to the smoothing variable."""
_SMALLEST_MISS = 1e-10
"""Misses that are rarer than this are bounded by Chernoff alone: doubles have no digits for more."""
_TERMS = 256
_MOST = 250_000
"""The numbers of a decoder up to which the characteristic function is computed."""


def gaussian_widths(lengths: Floats, terms: int, sigma: float, miss: float) -> Floats:
    """Return, for each ‖a‖, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ at most ``terms`` discrete Gaussians of this σ."""
    return np.asarray(lengths) * mixed_gaussian_widths(np.ones((1, 1)), np.array([sigma]), miss, terms)


def _normal_half_width_of_miss(miss: float) -> float:
    """Return a w with P(|N| > w) ≤ miss."""
    return -NormalDist().inv_cdf(miss / 2) * (1 + 1e-9)


def laplace_widths(decoder: Floats, standard_widths: Floats, scale: float, miss: float) -> Floats:
    """Return, for each row a of a matrix, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ discrete Laplace of this scale;
    ``standard_widths`` is ``continuous_widths`` of the same matrix and miss.
    """
    continuous_scale = 0.5 / math.tanh(0.5 / scale)
    smoothing_widths = np.sqrt((decoder**2).sum(axis=1) * math.log(2 / (miss * _SLACK)) / 2)
    return np.minimum(
        _discrete_chernoff_widths(decoder, scale, miss),
        (continuous_scale * standard_widths + smoothing_widths) * (1 + 1e-9),
    )


def _discrete_chernoff_widths(decoder: Floats, scale: float, miss: float) -> Floats:
    """Return the least of (kψ(x) + ln(2/miss))/x over many x below 1/scale, for k = ‖a‖²/m² noises of weight m."""
    slopes = np.concatenate([np.geomspace(1e-6, 0.5, 100), 1 - np.geomspace(1e-6, 0.5, 100)]) / scale
    rising, falling = -np.expm1(slopes - 1 / scale), -np.expm1(-slopes - 1 / scale)
    moments = 2 * math.log(-math.expm1(-1 / scale)) - np.log(rising) - np.log(falling)
    largest = np.abs(decoder).max(axis=1)
    terms = (decoder**2).sum(axis=1) / largest**2
    bounds = (terms[:, None] * moments + math.log(2 / miss)) / slopes
    return bounds.min(axis=1) * largest * (1 + 1e-9)


def continuous_widths(decoder: Floats, miss_bound: float) -> Floats:
    """Return, for each row, a w that |Σ aⱼXⱼ|, with continuous Laplace variables of scale 1, exceeds with at most the
    part of ``miss_bound`` that is not left to smoothing; infinity where the series does not decide.
    """
    miss = miss_bound * (1 - _SLACK)
    if miss_bound < _SMALLEST_MISS or decoder.size > _MOST:
        return np.full(len(decoder), math.inf)
    largest = np.abs(decoder).max(axis=1)
    rows = decoder / largest[:, None]
    high = _continuous_chernoff_widths(rows, miss)
    step = 2 * math.pi / (high + _continuous_chernoff_widths(rows, miss * 1e-4))
    points = (np.arange(_TERMS) + 0.5) * step[:, None]
    characteristic = _laplace_characteristic_function(rows, points)
    last_point = (_TERMS + 0.5) * step
    truncation = _laplace_characteristic_function(rows, last_point[:, None])[:, 0] * (1 + last_point**-2.0) / math.pi
    error_bound = 2 * truncation + miss * 1e-4 + 1e-13
    low = np.zeros_like(high)
    for _ in range(50):
        middle = (low + high) / 2
        half_probability = (
            characteristic * np.sin(points * middle[:, None]) / (math.pi * (np.arange(_TERMS) + 0.5))
        ).sum(axis=1)
        is_enough = 1 - 2 * half_probability + error_bound <= miss
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return np.where(error_bound < miss / 2, high * largest, math.inf)


def _continuous_chernoff_widths(rows: Floats, miss: float) -> Floats:
    """Bound the width for rows whose largest number is 1: by Chernoff, with ψ(x) = −ln(1 − x²)."""
    slopes = np.concatenate([np.geomspace(1e-6, 0.5, 100), 1 - np.geomspace(1e-6, 0.5, 100)])
    terms = (rows**2).sum(axis=1)
    return ((-terms[:, None] * np.log1p(-(slopes**2)) + math.log(2 / miss)) / slopes).min(axis=1)


def _laplace_characteristic_function(rows: Floats, points: Floats) -> Floats:
    """Return Π 1/(1 + (aⱼx)²) for every row a and each of its x."""
    log_values = np.zeros_like(points)
    for column in np.ascontiguousarray(rows.T**2):
        log_values -= np.log1p(column[:, None] * points**2)
    return np.exp(log_values)


_LONGEST_SERIES = 500_000
"""The numbers of a matrix, in all its parts, up to which the characteristic function is computed."""


def mixed_laplace_widths(weights: Floats, scales: Floats, miss: float) -> Floats:
    """Return, for each row a of a matrix, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ discrete Laplace of the scale in the same
    place of ``scales``. No row is zero.
    """
    decoder = weights * (0.5 / np.tanh(0.5 / scales))
    smoothing_widths = np.sqrt((weights**2).sum(axis=1) * math.log(2 / (miss * _SLACK)) / 2)
    chunk = max(1, _MOST // decoder.shape[1])
    standard_widths = np.concatenate(
        [
            _continuous_laplace_widths(
                decoder[start : start + chunk], miss, try_series=start * decoder.shape[1] < _LONGEST_SERIES
            )
            for start in range(0, len(decoder), chunk)
        ]
    )
    return (standard_widths + smoothing_widths) * (1 + 1e-9)


def _continuous_laplace_widths(decoder: Floats, miss: float, *, try_series: bool) -> Floats:
    """Return the widths of sums of continuous Laplace variables: by the series where it decides, else by Chernoff."""
    largest = np.abs(decoder).max(axis=1)
    bounds = _continuous_chernoff_widths(decoder / largest[:, None], miss * (1 - _SLACK)) * largest
    return np.minimum(bounds, continuous_widths(decoder, miss)) if try_series else bounds


def mixed_gaussian_widths(weights: Floats, sigmas: Floats, miss: float, terms: int | None = None) -> Floats:
    """Return, for each row a of a matrix, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ discrete Gaussian of the σ in the same
    place of ``sigmas``; a column may stand for several of the ``terms`` noises.
    """
    deviations = np.sqrt(((weights * sigmas) ** 2).sum(axis=1))
    widths = deviations * math.sqrt(2 * math.log(2 / miss))
    if sigmas.min() >= _LEAST_SMOOTHED and miss >= _SMALLEST_MISS:
        smoothing = 1 / np.sqrt(_SMOOTH**-2 - sigmas**-2.0)
        closeness = math.exp(-_DEPARTURE * (terms or weights.shape[1]))
        smoothed = np.sqrt((weights**2 * (sigmas**2 + smoothing**2)).sum(axis=1))
        main_widths = _normal_half_width_of_miss(miss * (1 - _SLACK) * closeness) * smoothed
        rest = _normal_half_width_of_miss(miss * _SLACK) * np.sqrt(((weights * smoothing) ** 2).sum(axis=1))
        widths = np.minimum(widths, main_widths + rest)
    return widths * (1 + 1e-9)
