"""This module bounds how far a weighted sum Σ aⱼYⱼ of independent noises of one size can lie from zero, for public a.

All bounds are upper bounds of P(|Σ aⱼYⱼ| > w); widths are found from them. ‖a‖ is the Euclidean length of a.

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
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SMOOTH = 1.5
_SLACK = 1e-2
"""The part of what may be missed that is left to what is added for smoothness."""
_RAREST = 1e-10
"""Misses that are rarer than this are bounded by Chernoff alone: doubles have no digits for more."""
_TERMS = 256
_MOST = 250_000
"""The numbers of a decoder up to which the characteristic function is computed."""


def gaussian_widths(lengths: Floats, terms: int, sigma: float, miss: float) -> Floats:
    """Find, for each ‖a‖, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ at most so many discrete Gaussians of this σ."""
    plain = sigma * math.sqrt(2 * math.log(2 / miss))
    if sigma >= 2 * _SMOOTH and miss >= _RAREST:
        added = 1 / math.sqrt(_SMOOTH**-2 - sigma**-2)
        wave = 2.001 * math.exp(-2 * (math.pi * _SMOOTH) ** 2)
        close = math.exp(-terms * 2.001 * wave)
        main = _normal_width(miss * (1 - _SLACK) * close) * math.hypot(sigma, added)
        plain = min(plain, main + _normal_width(miss * _SLACK) * added)
    return np.asarray(lengths) * plain * (1 + 1e-9)


def _normal_width(miss: float) -> float:
    """Find a w with P(|N| > w) ≤ miss."""
    return -NormalDist().inv_cdf(miss / 2) * (1 + 1e-9)


def laplace_widths(decoder: Floats, standard: Floats, scale: float, miss: float) -> Floats:
    """Find, for each row a of a matrix, a w with P(|Σ aⱼYⱼ| > w) ≤ miss, Yⱼ discrete Laplace of this scale; given
    ``continuous_widths`` of the same matrix and miss.
    """
    smooth = 0.5 / math.tanh(0.5 / scale)
    added = np.sqrt((decoder**2).sum(axis=1) * math.log(2 / (miss * _SLACK)) / 2)
    return np.minimum(_chernoff(decoder, scale, miss), (smooth * standard + added) * (1 + 1e-9))


def _chernoff(decoder: Floats, scale: float, miss: float) -> Floats:
    """Find the least of (kψ(x) + ln(2/miss))/x over many x below 1/scale, for k = ‖a‖²/m² noises of weight m."""
    slopes = np.concatenate([np.geomspace(1e-6, 0.5, 100), 1 - np.geomspace(1e-6, 0.5, 100)]) / scale
    rising, falling = -np.expm1(slopes - 1 / scale), -np.expm1(-slopes - 1 / scale)
    moments = 2 * math.log(-math.expm1(-1 / scale)) - np.log(rising) - np.log(falling)
    largest = np.abs(decoder).max(axis=1)
    terms = (decoder**2).sum(axis=1) / largest**2
    found = (terms[:, None] * moments + math.log(2 / miss)) / slopes
    return found.min(axis=1) * largest * (1 + 1e-9)


def continuous_widths(decoder: Floats, most: float) -> Floats:
    """Find, for each row, a w which Σ aⱼXⱼ, with continuous Laplace variables of scale 1, exceeds in size with at most
    the part of ``most`` that is not left to smoothness; infinity where the series does not tell.
    """
    miss = most * (1 - _SLACK)
    if most < _RAREST or decoder.size > _MOST:
        return np.full(len(decoder), math.inf)
    largest = np.abs(decoder).max(axis=1)
    rows = decoder / largest[:, None]
    high = _far(rows, miss)
    step = 2 * math.pi / (high + _far(rows, miss * 1e-4))
    at = (np.arange(_TERMS) + 0.5) * step[:, None]
    falls = _characteristic(rows, at)
    last = (_TERMS + 0.5) * step
    missing = _characteristic(rows, last[:, None])[:, 0] * (1 + last**-2.0) / math.pi
    over = 2 * missing + miss * 1e-4 + 1e-13
    low = np.zeros_like(high)
    for _ in range(50):
        middle = (low + high) / 2
        inside = (falls * np.sin(at * middle[:, None]) / (math.pi * (np.arange(_TERMS) + 0.5))).sum(axis=1)
        fits = 1 - 2 * inside + over <= miss
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return np.where(over < miss / 2, high * largest, math.inf)


def _far(rows: Floats, miss: float) -> Floats:
    """Bound the width for rows whose largest number is 1: by Chernoff, with ψ(x) = −ln(1 − x²)."""
    slopes = np.concatenate([np.geomspace(1e-6, 0.5, 100), 1 - np.geomspace(1e-6, 0.5, 100)])
    terms = (rows**2).sum(axis=1)
    return ((-terms[:, None] * np.log1p(-(slopes**2)) + math.log(2 / miss)) / slopes).min(axis=1)


def _characteristic(rows: Floats, at: Floats) -> Floats:
    """Compute Π 1/(1 + (aⱼx)²) for every row a and each of its x."""
    found = np.zeros_like(at)
    for column in np.ascontiguousarray(rows.T**2):
        found -= np.log1p(column[:, None] * at**2)
    return np.exp(found)
