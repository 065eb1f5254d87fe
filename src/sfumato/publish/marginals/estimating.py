"""Best linear unbiased estimates from everything that was measured, blocks and whole marginals alike.

Theorem. Let marginals over A_t be measured with independent noise of variance σ_t² in every cell, and blocks B with
variance σ_B² in every entry. Block B has the precision V_B = 1/σ_B² + Σ_{t: A_t ⊇ B} 1/(σ_t²·s_{A_t∖B}); r̂_B is the
mean, weighed by precision, of what was measured of the block and of P_B applied to the marginals summed to B; and a
query q has the least-squares estimate Σ⟨q_B, r̂_B⟩ with the variance Σ‖q_B‖²/V_B.
Proof. P_B applied to a marginal summed to B has, along the range of P_B, independent noise of variance σ_t²·s_{A_t∖B}:
each entry adds up so many cells. Blocks of different B are orthogonal in every marginal, so their noises are
uncorrelated, and least squares falls apart into one mean for each block (Gauss and Markov). ∎

Levels. Blocks of levels are measured once, or several times and averaged as above. Blocks of whole marginals are
orthogonal only without levels, so whole marginals are combined with blocks of attributes without levels, and the levels
of other attributes are ignored.

Only the blocks are held in memory: a marginal is computed when it is requested.

Consistent marginals, which a table could have: no cell below zero, and equal sums wherever they overlap.

Unbiased estimates have negative cells. Marginals made of the same blocks agree wherever they overlap, so it remains to
require that their cells are ≥ 0, and 0 where the policy says that no row can be. Among all blocks r with that property
the nearest is taken, in the metric of the precisions: the least Σ_B V_B‖r_B − r̂_B‖².

Theorem. The truth is in this convex set, so the projection is no farther from it than r̂ is, in that metric.
It biases, so intervals stay those of the unbiased estimates, cut with the set.

The projection is found through its dual: r = r̂ + Σ_A V⁻¹·L_Aᵀμ_A with a multiplier μ ≥ 0 for every cell (of any sign
for a declared zero), L_A the map from blocks to the marginal. It is climbed by accelerated steps (Nesterov 1983; Beck &
Teboulle 2009), from a standstill again where they lead astray (O'Donoghue & Candès 2015). Without levels the blocks are
the eigenspaces of V⁻¹·L_Aᵀ·L_A, so the steepest slope is the largest, over B, of Σ_{A⊇B}Π_{A∖B} 1/n_j/V_B; uneven
levels are not orthogonal, and as much steeper at most as they are many. Where no cell falls short, ⟨μ, cells⟩ bounds
how much nearer than r any other blocks could be (weak duality): that is when the climb ends.

Half-widths: bounds on the error of an estimate, from the distribution of its noise.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import (
    AttributeSet,
    Block,
    block_coefficients,
    blocks_within,
    cell_variances,
    checked_block,
    marginal_from_blocks,
    maximal_sets,
    parse_attribute_indices,
    squared_norms_by_block,
    weight_by_noise_deviation,
)
from sfumato.publish.marginals.chains import reshape_along
from sfumato.quick_dataclass import dataclass

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


_LARGEST_SINH = 700.0
_MEASURED = "choose columns of one published marginal"
"""The hyperbolic sine of a larger number overflows a float."""
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class MeasuredBlock:
    """g·M_B·m_B with discrete Gaussian noise, as it was released."""

    block: Block
    values: Integers
    deviation: Fraction
    """The deviation of the noise, in steps of the values."""
    grid: int = 1
    unit_value: Fraction = Fraction(1)
    """The rows that one step of the counts stands for."""

    def variance(self, attributes: Attributes) -> float:
        """Return σ_B², in rows."""
        return (
            float(self.deviation * self.unit_value / self.grid / block_algebra.block_scale(self.block, attributes)) ** 2
        )

    def differences(self, attributes: Attributes) -> Floats:
        """The estimate of the block's differences: the values divided by their factor, and centred."""
        estimate = self.values.astype(np.float64) * float(self.unit_value / self.grid)
        for axis, difference in enumerate(block_algebra.level_differences(self.block, attributes)):
            estimate = difference.centre_among_siblings(
                estimate / reshape_along(difference.difference_factors, axis, estimate.ndim), axis
            )
        return estimate


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """A whole marginal with independent noise in every cell, as it was released."""

    attribute_set: AttributeSet
    values: Integers
    size: Fraction
    """The deviation of Gaussian noise or the scale of Laplace noise, in steps of the values."""
    laplace: bool = False
    unit_value: Fraction = Fraction(1)

    @property
    def deviation_in_steps(self) -> float:
        """The deviation in steps; of discrete Laplace noise it is √(2q)/(1 − q) with q = e^(−1/scale)."""
        if not self.laplace:
            return float(self.size)
        return math.sqrt(0.5) / math.sinh(min(0.5 / float(self.size), _LARGEST_SINH))

    @property
    def variance(self) -> float:
        """The variance of a cell, in rows; at least a millionth of a row, squared, so that it is not 0."""
        return max((self.deviation_in_steps * float(self.unit_value)) ** 2, _LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class BlockEstimates:
    """Estimates of all blocks that were measured, from which every marginal and query within them follows."""

    attributes: Attributes
    """The attributes of the blocks: without levels if whole marginals were measured."""
    parts: Mapping[Block, Floats]
    """r̂_B of each block."""
    variances: Mapping[Block, float]
    """1/V_B of each block."""
    laplace_marginals: tuple[MeasuredMarginal, ...] = ()
    """The measurements with Laplace noise, whose coefficients decide the width."""
    min_deviation_steps: float = math.inf
    """The least deviation of Gaussian noise, in its own steps."""

    def covers(self, attribute_set: AttributeSet) -> bool:
        """Return whether every block of a marginal was measured."""
        return all(block in self.parts for block in blocks_within(attribute_set, self.attributes))

    def marginal_and_variances(self, attribute_set: AttributeSet) -> tuple[Floats, Floats]:
        """Return the unbiased counts of a marginal and their variances."""
        self._require_covered(attribute_set)
        values = (
            marginal_from_blocks(self.parts, attribute_set, self.attributes) if attribute_set else self.parts[()].copy()
        )
        return values, cell_variances(self.variances, attribute_set, self.attributes)

    def linear_estimate_and_variance(self, query: Floats, attribute_set: AttributeSet) -> tuple[float, float]:
        """Estimate ⟨query, marginal⟩; return it with its variance."""
        self._require_covered(attribute_set, query.shape)
        parts = block_coefficients(query, attribute_set, self.attributes)
        value = sum(float(np.vdot(coefficients, self.parts[block])) for block, coefficients in parts.items())
        norms = squared_norms_by_block(parts, self.attributes)
        return value, sum(norm * self.variances[block] for block, norm in norms.items())

    def half_width(self, query: Floats, attribute_set: AttributeSet, beta: float, cells: int = 1) -> float:
        """Bound the error of one of so many queries, of a plan that was fixed beforehand."""
        variance = self.linear_estimate_and_variance(query, attribute_set)[1]
        if not self.laplace_marginals:
            width = gaussian_half_width if self.min_deviation_steps >= MIN_STEPS else coarse_gaussian_half_width
            return width(variance, beta, cells)
        coefficients_of = [
            self._noise_coefficients(query, attribute_set, marginal) for marginal in self.laplace_marginals
        ]
        laplace_variance = sum(
            float((coefficients**2).sum()) * marginal.variance
            for coefficients, marginal in zip(coefficients_of, self.laplace_marginals, strict=True)
        )
        steps = [
            (coefficients * float(marginal.unit_value), float(marginal.size))
            for coefficients, marginal in zip(coefficients_of, self.laplace_marginals, strict=True)
        ]
        return laplace_half_width(steps, beta, cells, variance=max(0.0, variance - laplace_variance))

    def adaptive_half_width(
        self, query: Floats, attribute_set: AttributeSet, beta: float, eta: float, cells: int = 1
    ) -> float:
        """Bound the error of one of so many queries, if earlier noise decided what was measured."""
        self._require_covered(attribute_set, query.shape)
        norms = squared_norms_by_block(block_coefficients(query, attribute_set, self.attributes), self.attributes)
        norms_and_precisions = [(math.sqrt(norm), 1 / self.variances[block]) for block, norm in norms.items()]
        return adaptive_half_width(norms_and_precisions, beta, eta, cells)

    def _noise_coefficients(self, query: Floats, attribute_set: AttributeSet, measured: MeasuredMarginal) -> Floats:
        """Compute the coefficient of the noise of each cell of a measured marginal in the estimate of a query."""
        shape = tuple(self.attributes[attribute_index].size for attribute_index in measured.attribute_set)
        coefficients = np.zeros(shape)
        for block, part in block_coefficients(query, attribute_set, self.attributes).items():
            block_attribute_indices = block_algebra.block_attribute_indices(block)
            if not set(block_attribute_indices) <= set(measured.attribute_set):
                continue
            share = self.variances[block] / _spread_variance(measured, block, self.attributes)
            coefficients += share * np.expand_dims(
                part,
                tuple(
                    axis
                    for axis, attribute_index in enumerate(measured.attribute_set)
                    if attribute_index not in block_attribute_indices
                ),
            )
        return coefficients

    def _require_covered(self, attribute_set: AttributeSet, shape: tuple[int, ...] | None = None) -> None:
        sizes = tuple(
            self.attributes[attribute_index].size
            for attribute_index in parse_attribute_indices(attribute_set, self.attributes)
        )
        if not self.covers(attribute_set):
            raise InvalidParameter("attribute_set", attribute_set, "columns that were measured together", fix=_MEASURED)
        if shape is not None and shape != sizes:
            raise InvalidParameter(
                "query", ValueWords(f"shape {shape}"), f"an array of shape {sizes}, with a number for each cell"
            )


def _spread_variance(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> float:
    """Compute σ_t²·s_{A_t∖B}."""
    block_attribute_indices = block_algebra.block_attribute_indices(block)
    return measured.variance * math.prod(
        attributes[attribute_index].size
        for attribute_index in measured.attribute_set
        if attribute_index not in block_attribute_indices
    )


def least_squares(
    attributes: Attributes, blocks: Iterable[MeasuredBlock] = (), marginals: Iterable[MeasuredMarginal] = ()
) -> BlockEstimates:
    """Combine everything that was measured by precision: the theorem above."""
    measured_blocks, measured_marginals, read_attributes = tuple(blocks), tuple(marginals), attributes
    if measured_marginals:
        read_attributes = tuple(attribute.without_levels for attribute in attributes)
    means = _PrecisionMeans(read_attributes)
    for measured_block in measured_blocks:
        if measured_marginals and any(
            attributes[attribute_index].levels for attribute_index, _ in measured_block.block
        ):
            rule = "left out for columns with levels, because marginals are given as well"
            fix = "leave out the marginals, or the blocks of columns with levels"
            raise InvalidParameter("blocks", measured_block.block, rule, fix=fix)
        _require_shape(
            measured_block.values,
            block_algebra.block_shape(checked_block(measured_block.block, read_attributes), read_attributes),
        )
        means.add(
            measured_block.block, measured_block.differences(read_attributes), measured_block.variance(read_attributes)
        )
    for measured in measured_marginals:
        _require_shape(
            measured.values,
            tuple(
                read_attributes[attribute_index].size
                for attribute_index in parse_attribute_indices(measured.attribute_set, read_attributes)
            ),
        )
        for block in blocks_within(measured.attribute_set, read_attributes):
            means.add(
                block, _residual(measured, block, read_attributes), _spread_variance(measured, block, read_attributes)
            )
    steps = [float(measured.deviation) for measured in measured_blocks] + [
        measured.deviation_in_steps for measured in measured_marginals if not measured.laplace
    ]
    variances = {block: 1 / precision for block, precision in means.precisions.items()}
    laplace = tuple(marginal for marginal in measured_marginals if marginal.laplace)
    return BlockEstimates(read_attributes, means.means, variances, laplace, min(steps, default=math.inf))


def _require_shape(values: Integers, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise InvalidParameter("values", ValueWords(f"shape {values.shape}"), f"an array of shape {shape}")


def _residual(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> Floats:
    """Sum a measured marginal to the attributes of a block, and subtract means."""
    summed = block_algebra.sum_marginal_to(
        measured.values, measured.attribute_set, block_algebra.block_attribute_indices(block)
    )
    residual = np.asarray(summed.astype(np.float64) * float(measured.unit_value))
    for axis, difference in enumerate(block_algebra.level_differences(block, attributes)):
        residual = difference.centre_among_siblings(residual, axis)
    return residual


class _PrecisionMeans:
    """Running means weighted by precision."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.sums: dict[Block, Floats] = {}
        self.precisions: dict[Block, float] = {}

    def add(self, block: Block, estimate: Floats, variance: float) -> None:
        """Add one more estimate of a block."""
        is_known = block in self.sums
        self.sums[block] = self.sums[block] + estimate / variance if is_known else estimate / variance
        self.precisions[block] = self.precisions.get(block, 0.0) + 1 / variance

    @cached_property
    def means(self) -> dict[Block, Floats]:
        return {block: weighted_sum / self.precisions[block] for block, weighted_sum in self.sums.items()}


Zeros = Mapping[AttributeSet, NDArray[np.bool_]]
"""The cells of each marginal that no row can be in."""
_Cells = Mapping[AttributeSet, Floats]
_ROUNDS = 5_000
_CLOSE = 1e-6
"""The tolerance of cells, as a share of the total."""


@dataclass(frozen=True, eq=False)
class ConsistentMarginals:
    """Marginals that agree with one another, with no cell below zero."""

    estimates: BlockEstimates
    """The projected blocks."""
    sets: tuple[AttributeSet, ...]
    """The marginals that are ≥ 0."""
    zeros: Zeros
    largest_shortfall: float
    """The largest shortfall of a cell of these marginals below 0, in rows; it is clipped."""

    def marginal(self, attribute_set: AttributeSet) -> Floats:
        """Return the counts of a marginal within one of the sets."""
        values = np.maximum(marginal_from_blocks(self.estimates.parts, attribute_set, self.estimates.attributes), 0)
        if attribute_set in self.zeros:
            values[self.zeros[attribute_set]] = 0
        return values


def make_consistent(
    estimates: BlockEstimates, sets: Sequence[AttributeSet], zeros: Zeros | None = None, rounds: int = _ROUNDS
) -> ConsistentMarginals:
    """Project estimates onto what a table could have, in the metric of their precisions."""
    impossible = dict(zeros or {})
    covering_sets = maximal_sets((*sets, *impossible))
    if not all(map(estimates.covers, covering_sets)):
        raise InvalidParameter("sets", sets, "marginals of columns that were measured together", fix=_MEASURED)
    projection = _NonnegativeProjection(
        estimates,
        covering_sets,
        {attribute_set: _implied_zero_cells(attribute_set, impossible, estimates) for attribute_set in covering_sets},
    )
    parts, shortfall = projection.solve(rounds)
    return ConsistentMarginals(replace(estimates, parts=parts), covering_sets, impossible, shortfall)


def _implied_zero_cells(attribute_set: AttributeSet, zeros: Zeros, estimates: BlockEstimates) -> NDArray[np.bool_]:
    """Return the cells of a marginal that a declared zero of it, or of a smaller one, rules out."""
    sizes = tuple(estimates.attributes[attribute_index].size for attribute_index in attribute_set)
    is_zero = np.zeros(sizes, bool)
    for declared_indices, cells in zeros.items():
        if set(declared_indices) <= set(attribute_set):
            shape = tuple(estimates.attributes[attribute_index].size for attribute_index in declared_indices)
            if cells.shape != shape:
                rule = f"an array with a boolean for each cell of the marginal, of the shape {shape}"
                raise InvalidParameter("zeros", ValueWords(f"an array of the shape {cells.shape}"), rule)
            is_zero |= np.expand_dims(
                cells,
                tuple(
                    axis
                    for axis, attribute_index in enumerate(attribute_set)
                    if attribute_index not in declared_indices
                ),
            )
    return is_zero


@dataclass(frozen=True, eq=False)
class _NonnegativeProjection:
    estimates: BlockEstimates
    sets: tuple[AttributeSet, ...]
    zeros: Mapping[AttributeSet, NDArray[np.bool_]]

    def solve(self, max_rounds: int) -> tuple[dict[Block, Floats], float]:
        """Search for the nearest blocks whose cells fall short by no more than is allowed; return them with the
        shortfall.
        """
        attributes = self.estimates.attributes
        blocks = {block for attribute_set in self.sets for block in blocks_within(attribute_set, attributes)}
        start = {block: self.estimates.parts[block] for block in blocks}
        start_marginals = {
            attribute_set: marginal_from_blocks(start, attribute_set, attributes) for attribute_set in self.sets
        }
        step = 1 / _largest_eigenvalue_bound(self.sets, self.estimates.variances, attributes)
        multipliers = {attribute_set: np.zeros_like(start_marginals[attribute_set]) for attribute_set in self.sets}
        extrapolated, inertia, max_shortfall = multipliers, 1.0, _CLOSE * max(1.0, float(start[()]))
        for _ in range(max_rounds):
            parts = self._move_blocks(start, extrapolated)
            marginals = {
                attribute_set: marginal_from_blocks(parts, attribute_set, attributes) for attribute_set in self.sets
            }
            if self._worst_cell_violation(marginals) <= max_shortfall and self._is_nearest(
                extrapolated, marginals, start_marginals
            ):
                break
            next_multipliers = {
                attribute_set: self._project_multipliers(
                    attribute_set, extrapolated[attribute_set] - step * marginals[attribute_set]
                )
                for attribute_set in self.sets
            }
            movement = {
                attribute_set: next_multipliers[attribute_set] - multipliers[attribute_set]
                for attribute_set in self.sets
            }
            next_inertia = 1.0 if _inner_product(movement, marginals) > 0 else (1 + math.sqrt(1 + 4 * inertia**2)) / 2
            momentum = (inertia - 1) / next_inertia if next_inertia > 1 else 0.0
            extrapolated = {
                attribute_set: self._project_multipliers(
                    attribute_set, next_multipliers[attribute_set] + momentum * movement[attribute_set]
                )
                for attribute_set in self.sets
            }
            multipliers, inertia = next_multipliers, next_inertia
        return {**self.estimates.parts, **parts}, self._worst_cell_violation(marginals)

    def _is_nearest(self, multipliers: _Cells, marginals: _Cells, start_marginals: _Cells) -> bool:
        """Return whether the blocks are as near as any, up to a millionth: ⟨μ, cells⟩ is at least how much nearer the
        nearest are, squared, and ⟨μ, cells − cells before⟩ is how far these have moved, squared.
        """
        slack = _inner_product(multipliers, marginals)
        return abs(slack) <= _CLOSE * (1 + abs(slack - _inner_product(multipliers, start_marginals)))

    def _move_blocks(
        self, start: Mapping[Block, Floats], multipliers: Mapping[AttributeSet, Floats]
    ) -> dict[Block, Floats]:
        """Compute r̂ + Σ V⁻¹·Lᵀμ."""
        parts = dict(start)
        for attribute_set, cell_multipliers in multipliers.items():
            for block, part in block_coefficients(cell_multipliers, attribute_set, self.estimates.attributes).items():
                twice = weight_by_noise_deviation(
                    weight_by_noise_deviation(part, block, self.estimates.attributes), block, self.estimates.attributes
                )
                parts[block] = parts[block] + self.estimates.variances[block] * twice
        return parts

    def _project_multipliers(self, attribute_set: AttributeSet, multipliers: Floats) -> Floats:
        return np.where(self.zeros[attribute_set], multipliers, np.maximum(multipliers, 0))

    def _worst_cell_violation(self, marginals: Mapping[AttributeSet, Floats]) -> float:
        """Compute how far any cell is below zero, or from a declared zero."""
        sizes = (
            np.where(self.zeros[attribute_set], np.abs(values), -values).max()
            for attribute_set, values in marginals.items()
        )
        return max(0.0, *map(float, sizes))


def _inner_product(first: _Cells, second: _Cells) -> float:
    return sum(float((first[attribute_set] * second[attribute_set]).sum()) for attribute_set in first)


def _largest_eigenvalue_bound(
    sets: Sequence[AttributeSet], variances: Mapping[Block, float], attributes: Attributes
) -> float:
    """Bound the largest eigenvalue of Σ_A V⁻¹·L_Aᵀ·L_A; without uneven levels it is attained."""
    totals: dict[Block, float] = {}
    for attribute_set in sets:
        for block in blocks_within(attribute_set, attributes):
            levels = dict(block)
            lengths = [
                _squared_shares(attributes, attribute_index, levels.get(attribute_index, 0))
                for attribute_index in attribute_set
            ]
            lengths += [
                len(chain.differences) + 1
                for chain in (attributes[attribute_index].hierarchy for attribute_index in attribute_set)
                if not chain.has_equal_shares
            ]
            totals[block] = totals.get(block, 0.0) + variances[block] * math.prod(lengths)
    return max(totals.values())


def _squared_shares(attributes: Attributes, index: int, level: int) -> float:
    """Bound how much longer cells are than the differences they are spread from, squared."""
    chain = attributes[index].hierarchy
    if not level:
        return float((chain.shares**2).sum())
    difference = chain.differences[level - 1]
    return float((np.add.reduceat(difference.shares**2, difference.part_starts) * difference.noise_deviations**2).max())
