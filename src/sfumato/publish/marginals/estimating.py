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
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import (
    AttributeSet,
    Block,
    block_coefficients,
    blocks_within,
    cell_variances,
    checked_attribute_set,
    checked_block,
    marginal_from_blocks,
    squared_norms_by_block,
)
from sfumato.publish.marginals.chains import Floats, Integers, reshape_along
from sfumato.publish.marginals.half_widths import (
    MIN_STEPS,
    adaptive_half_width,
    coarse_gaussian_half_width,
    gaussian_half_width,
    laplace_half_width,
)
from sfumato.quick_dataclass import dataclass

_LARGEST_SINH = 700.0
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

    places: AttributeSet
    values: Integers
    size: Fraction
    """The deviation of Gaussian noise or the scale of Laplace noise, in steps of the values."""
    laplace: bool = False
    unit_value: Fraction = Fraction(1)

    @property
    def deviation(self) -> float:
        """The deviation in steps; of discrete Laplace noise it is √(2q)/(1 − q) with q = e^(−1/scale)."""
        if not self.laplace:
            return float(self.size)
        return math.sqrt(0.5) / math.sinh(min(0.5 / float(self.size), _LARGEST_SINH))

    @property
    def variance(self) -> float:
        """The variance of a cell, in rows; at least a millionth of a row, squared, so that it is not 0."""
        return max((self.deviation * float(self.unit_value)) ** 2, _LEAST_VARIANCE)


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

    def covers(self, places: AttributeSet) -> bool:
        """Return whether every block of a marginal was measured."""
        return all(block in self.parts for block in blocks_within(places, self.attributes))

    def marginal_and_variances(self, places: AttributeSet) -> tuple[Floats, Floats]:
        """Return the unbiased counts of a marginal and their variances."""
        self._require_covered(places)
        values = marginal_from_blocks(self.parts, places, self.attributes) if places else self.parts[()].copy()
        return values, cell_variances(self.variances, places, self.attributes)

    def linear_estimate_and_variance(self, query: Floats, places: AttributeSet) -> tuple[float, float]:
        """Estimate ⟨query, marginal⟩; return it with its variance."""
        self._require_covered(places, query.shape)
        parts = block_coefficients(query, places, self.attributes)
        value = sum(float(np.vdot(coefficients, self.parts[block])) for block, coefficients in parts.items())
        norms = squared_norms_by_block(parts, self.attributes)
        return value, sum(norm * self.variances[block] for block, norm in norms.items())

    def half_width(self, query: Floats, places: AttributeSet, beta: float, cells: int = 1) -> float:
        """Bound the error of one of so many queries, of a plan that was fixed beforehand."""
        variance = self.linear_estimate_and_variance(query, places)[1]
        if not self.laplace_marginals:
            width = gaussian_half_width if self.min_deviation_steps >= MIN_STEPS else coarse_gaussian_half_width
            return width(variance, beta, cells)
        coefficients_of = [self._noise_coefficients(query, places, marginal) for marginal in self.laplace_marginals]
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
        self, query: Floats, places: AttributeSet, beta: float, eta: float, cells: int = 1
    ) -> float:
        """Bound the error of one of so many queries, if earlier noise decided what was measured."""
        self._require_covered(places, query.shape)
        norms = squared_norms_by_block(block_coefficients(query, places, self.attributes), self.attributes)
        norms_and_precisions = [(math.sqrt(norm), 1 / self.variances[block]) for block, norm in norms.items()]
        return adaptive_half_width(norms_and_precisions, beta, eta, cells)

    def _noise_coefficients(self, query: Floats, places: AttributeSet, measured: MeasuredMarginal) -> Floats:
        """Compute the coefficient of the noise of each cell of a measured marginal in the estimate of a query."""
        shape = tuple(self.attributes[place].size for place in measured.places)
        coefficients = np.zeros(shape)
        for block, part in block_coefficients(query, places, self.attributes).items():
            block_attribute_indices = block_algebra.block_attribute_indices(block)
            if not set(block_attribute_indices) <= set(measured.places):
                continue
            share = self.variances[block] / _spread_variance(measured, block, self.attributes)
            coefficients += share * np.expand_dims(
                part, tuple(axis for axis, place in enumerate(measured.places) if place not in block_attribute_indices)
            )
        return coefficients

    def _require_covered(self, places: AttributeSet, shape: tuple[int, ...] | None = None) -> None:
        sizes = tuple(self.attributes[place].size for place in checked_attribute_set(places, self.attributes))
        if not self.covers(places):
            raise InvalidParameter("places", places, "attributes that were measured together")
        if shape is not None and shape != sizes:
            raise InvalidParameter("query", f"shape {shape}", f"an array of shape {sizes}, with a number for each cell")


def _spread_variance(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> float:
    """Compute σ_t²·s_{A_t∖B}."""
    block_attribute_indices = block_algebra.block_attribute_indices(block)
    return measured.variance * math.prod(
        attributes[place].size for place in measured.places if place not in block_attribute_indices
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
        if measured_marginals and any(attributes[place].levels for place, _ in measured_block.block):
            rule = "blocks of attributes without levels: blocks of levels cannot be combined with whole marginals"
            raise InvalidParameter("blocks", measured_block.block, rule)
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
            tuple(read_attributes[place].size for place in checked_attribute_set(measured.places, read_attributes)),
        )
        for block in blocks_within(measured.places, read_attributes):
            means.add(
                block, _residual(measured, block, read_attributes), _spread_variance(measured, block, read_attributes)
            )
    steps = [float(measured.deviation) for measured in measured_blocks] + [
        measured.deviation for measured in measured_marginals if not measured.laplace
    ]
    variances = {block: 1 / precision for block, precision in means.precisions.items()}
    laplace = tuple(marginal for marginal in measured_marginals if marginal.laplace)
    return BlockEstimates(read_attributes, means.means, variances, laplace, min(steps, default=math.inf))


def _require_shape(values: Integers, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise InvalidParameter("values", f"shape {values.shape}", f"an array of shape {shape}")


def _residual(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> Floats:
    """Sum a measured marginal to the attributes of a block, and subtract means."""
    summed = block_algebra.sum_marginal_to(
        measured.values, measured.places, block_algebra.block_attribute_indices(block)
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
