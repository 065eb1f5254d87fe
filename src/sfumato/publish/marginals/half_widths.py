"""Half-widths: bounds on the error of an estimate, from the distribution of its noise.

*Planned before.* Let an estimate be a sum of independent discrete Gaussian noises, each of a deviation of at least 4096
of its steps, with the variance V in all. Then |error| ≤ √V·[z + (3/4096)·√(2 ln(2000/β))] with probability at least
1 − β, z the normal quantile that 0.999β lies beyond on both sides.
Proof. A discrete Gaussian of deviation σ is, up to a distance below 1e-76, the sum of N(0, σ² − 9) and a discrete
Gaussian of deviation 3 on a shifted grid (Poisson summation; Peikert 2010). The first parts together are normal with a
variance of at most V. The second are sub-Gaussian with the variance 9, whatever the shift, as far (Canonne, Kamath &
Steinke 2020), so their weighted sum is, with the variance 9·Σc² ≤ (3/4096)²·V; it is beyond its part of the width with
probability at most 2·exp(−ln(2000/β)) = β/1000. A union bound. ∎ On coarse grids z·σ is false: with a
deviation of 1 step, 5 % become 11.7 %. There a sum of discrete Gaussian noises is sub-Gaussian, and |error| is at most
√(2V·ln(2/β)).

*Laplace.* P(|Σ c_i Z_i| > w) ≤ 2·exp(Σψ_i(s·c_i) − s·w) for every s > 0, with the exact logarithm of the moments of
discrete Laplace noise, ψ(t) = ln[(1 − q)²/((1 − q·e^t)(1 − q·e^−t))], q = e^(−1/b) (Chernoff).

*Measured adaptively.* Where earlier noise decided which marginals were measured next, or when to stop, a sum of
noises is no sum of independent ones. For each block, ⟨q_B, noise⟩/σ² adds up to a martingale S whose increments are
sub-Gaussian with predictable variances that add up to ‖q_B‖²·V_B. Mixing exp(θS − θ²‖q_B‖²V_B/2) over normal θ of
variance 1/(η‖q_B‖²) with η > 0 fixed beforehand gives a supermartingale, so by Ville's inequality, for all rounds at
once, |error_B| ≤ ‖q_B‖·√((V_B + η)·ln((V_B + η)/(η·β²)))/V_B (de la Peña, Klass & Lai 2004). Each of k
blocks has β/k, and their widths are added.

*Laplace, adaptively.* Discrete Laplace noise of scale b has E exp(tZ) = (cosh a − 1)/(cosh a − cosh t) with a = 1/b,
which is at most 1/(1 − b²t²), because (cosh x − 1)/x² rises. So for s ≤ 1/2 the sum Σ c_i Z_i/(b·max|c|) has
ln E exp(s·) ≤ 1.2·s²·Σ(c_i/max|c|)², and |Σ c_i Z_i| ≤ b·max|c|·(1.2·s·n + ln(2/β)/s) with n = Σ(c_i/max|c|)². The
t-th measurement was drawn afresh, whatever came before, and what a block takes from it is ‖q_B‖ in size with
n = s_{A_t∖B}; so each holds with β/(t(t + 1)), all do with β, and errors add up by the shares that measurements have.

*A whole marginal.* For any model M of counts m that were measured as y = m + Z, ‖m − M‖₁ is within ‖Z‖₁ of ‖y − M‖₁
(triangle inequality), however M came about; P(‖Z‖₁ > w) ≤ exp(K·ln E exp(s|Z|) − s·w) for K cells (Chernoff).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter

MIN_STEPS = 4096
"""The least number of steps of a deviation."""
_NORMAL = NormalDist()
_MAX_SIZES = 4096
_MAX_TABLED = 1000
"""The most steps of a deviation for which moments are summed step by step."""
_UP = 1 + 1e-9
"""Above the rounding error of a computed half-width."""


def gaussian_half_width(variance: float, beta: float, cells: int = 1) -> float:
    """Bound the error of each of so many estimates at once, all of Gaussian noise that was planned beforehand.

    >>> round(gaussian_half_width(1, 0.05), 6)
    1.963764
    """
    return math.sqrt(variance) * unit_variance_half_width(beta, cells)


def unit_variance_half_width(beta: float, cells: int = 1) -> float:
    """Return the half-width over the square root of the variance."""
    cell_beta = _beta_per_cell(beta, cells)
    return -_NORMAL.inv_cdf(0.999 * cell_beta / 2) + 3 / MIN_STEPS * math.sqrt(2 * math.log(2000 / cell_beta))


def coarse_gaussian_half_width(variance: float, beta: float, cells: int = 1) -> float:
    """Bound the error of estimates of Gaussian noise on any grid, by its moments."""
    return math.sqrt(2 * variance * math.log(2 / _beta_per_cell(beta, cells))) * _UP


def laplace_half_width(
    noises: Sequence[tuple[Floats, float]], beta: float, cells: int = 1, *, variance: float = 0.0
) -> float:
    """Bound a sum of discrete Laplace noises, given as coefficients and their scale in steps, for so many at once;
    ``variance`` is that of Gaussian noise beside them.
    """
    parts = [_group_coefficients(coefficients, scale) for coefficients, scale in noises]
    parts = [part for part in parts if part[0].size]
    if not parts:
        return coarse_gaussian_half_width(variance, beta, cells)
    limit = min(1 / (scale * float(sizes.max())) for sizes, _, scale in parts)
    slopes = np.concatenate([np.geomspace(1e-6, 0.5, 200), 1 - np.geomspace(1e-6, 0.5, 200)]) * limit
    moments = slopes**2 * variance / 2 + sum(_log_moments(slopes, *part) for part in parts)
    return float(((moments + math.log(2 / _beta_per_cell(beta, cells))) / slopes).min()) * _UP


def adaptive_half_width(blocks: Iterable[tuple[float, float]], beta: float, eta: float, cells: int = 1) -> float:
    """Bound the error of an estimate from marginals that were chosen one after the other.

    Blocks are given as ‖q_B‖ and their precision V_B; ``eta`` is a precision fixed beforehand.

    >>> round(adaptive_half_width([(1, 10)], 0.05, 4), 7)
    1.0070709
    """
    weighted_blocks = [(norm, precision) for norm, precision in blocks if norm > 0]
    if not eta > 0:
        raise InvalidParameter("eta", eta, "a number > 0")
    block_beta = _beta_per_cell(beta, cells * max(1, len(weighted_blocks)))
    return sum(norm * _mixture_half_width(precision, eta, block_beta) for norm, precision in weighted_blocks)


def adaptive_laplace_width(cells: float, beta: float) -> float:
    """Bound a sum of Laplace noises over b·max|c|, where Σ(c/max|c|)² is ``cells``.

    >>> round(adaptive_laplace_width(1, 0.05), 3)
    7.978
    """
    log = math.log(2 / beta)
    slope = min(0.5, math.sqrt(log / (1.2 * cells)))
    return (1.2 * slope * cells + log / slope) * _UP


def noise_l1_mean_and_bound(cells: int, size: float, beta: float, *, laplace: bool = False) -> tuple[float, float]:
    """Return the mean of the sum of so many noises without their signs, and what it exceeds with probability β at most;
    in steps, as the deviation or the scale is.
    """
    mean, slopes, moments = (_unsigned_laplace_moments if laplace else _unsigned_gaussian_moments)(size)
    width = float(((cells * moments + math.log(1 / beta)) / slopes).min())
    return cells * mean, width * _UP


def _unsigned_laplace_moments(size: float) -> tuple[float, Floats, Floats]:
    """Return the mean of one noise without its sign, 2q/(1 − q²), and the logarithm of its moments at some slopes,
    (1 − q)/(1 + q)·(1 + q·e^s)/(1 − q·e^s).
    """
    slopes = np.geomspace(1e-4, 0.8, 100) / size
    tilted = slopes - 1 / size
    log_total = math.log1p(math.exp(-1 / size)) - math.log(-math.expm1(-1 / size))
    mean = 2 * math.exp(-1 / size) / -math.expm1(-2 / size)
    return mean, slopes, np.log1p(np.exp(tilted)) - np.log(-np.expm1(tilted)) - log_total


@lru_cache(maxsize=256)
def _unsigned_gaussian_moments(size: float) -> tuple[float, Floats, Floats]:
    """Return the mean of one noise without its sign, and the logarithm of its moments at some slopes: both sums over
    what is within 20 deviations, of which the steepest slope moves the law by 8.
    """
    tabled_size = min(size, float(_MAX_TABLED))
    support = np.arange(math.ceil(20 * tabled_size) + 2)
    logs = -((support / tabled_size) ** 2) / 2
    logs[1:] += math.log(2)
    total = float(np.exp(logs).sum())
    slopes = np.geomspace(1e-4, 8.0, 100) / tabled_size
    moments = np.array([np.log(np.exp(logs + slope * support).sum() / total) for slope in slopes])
    # beyond the table such steps are as good as none: 1/size² is below 10⁻⁵
    scale_factor = size / tabled_size * (1 + 1e-5 if size > tabled_size else 1.0)
    return float((np.exp(logs) * support).sum() / total) * scale_factor, slopes / scale_factor, moments


def _mixture_half_width(precision: float, eta: float, beta: float) -> float:
    summed_precision = precision + eta
    return math.sqrt(summed_precision * (math.log(summed_precision / eta) - 2 * math.log(beta))) / precision


def _beta_per_cell(beta: float, cells: int) -> float:
    if not 0 < beta < 1:
        raise InvalidParameter("beta", beta, "a number in (0, 1)")
    return beta / cells


def _group_coefficients(coefficients: Floats, scale: float) -> tuple[Floats, Floats, float]:
    """Group equal coefficients: the cells of a marginal have few different ones. Where they have many, these are
    rounded up by at most a thousandth, and none is below a millionth of the largest.
    """
    sizes, multiplicities = np.unique(np.abs(coefficients[coefficients != 0]), return_counts=True)
    counts = multiplicities.astype(np.float64)
    if sizes.size > _MAX_SIZES:
        logs = np.ceil(1000 * np.log(np.maximum(sizes / sizes[-1], 1e-6)))
        distinct_logs, log_index = np.unique(logs, return_inverse=True)
        sizes, counts = np.exp(distinct_logs / 1000) * sizes[-1], np.bincount(log_index, counts).astype(np.float64)
    return sizes, counts, scale


def _log_moments(slopes: Floats, sizes: Floats, counts: Floats, scale: float) -> Floats:
    """Add up ψ(s·c) over the coefficients, for every s."""
    exponents = np.multiply.outer(slopes, sizes)
    upper_factor, lower_factor = -np.expm1(exponents - 1 / scale), -np.expm1(-exponents - 1 / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_moment = 2 * math.log(-math.expm1(-1 / scale)) - np.log(upper_factor) - np.log(lower_factor)
    return np.where(upper_factor > 0, log_moment, np.inf) @ counts
