"""An estimate is the best linear one from everything that was measured, blocks and whole marginals alike.

Theorem. Let marginals over A_t be measured with independent noise of variance σ_t² in every cell, and blocks B with
variance σ_B² in every entry. Block B has the precision V_B = 1/σ_B² + Σ_{t: A_t ⊇ B} 1/(σ_t²·s_{A_t∖B}); r̂_B is the
mean, weighed by precision, of what was measured of the block and of P_B applied to the marginals summed to B; and a
query q has the least-squares estimate Σ⟨q_B, r̂_B⟩ with the variance Σ‖q_B‖²/V_B.
Proof. P_B applied to a marginal summed to B has, along the range of P_B, independent noise of variance σ_t²·s_{A_t∖B}:
each entry adds up so many cells. Blocks of different B are orthogonal in every marginal, so their noises are
uncorrelated, and least squares falls apart into one mean for each block (Gauss and Markov). ∎

Levels. Blocks of levels are measured once and each stands for itself, or several times and are averaged, as above.
Whole marginals have blocks that are orthogonal without levels alone, so they are combined with blocks of attributes
without levels, and attributes that have some are read without.

What is held in memory is the blocks: a marginal is made when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import (
    Block,
    Set,
    asked,
    blocks_within,
    cell_variances,
    checked_block,
    checked_set,
    lifted,
    squared_norms,
)
from sfumato.publish.marginals.chains import Floats, Integers, along
from sfumato.publish.marginals.half_widths import (
    LEAST_STEPS,
    adaptive_half_width,
    coarse_half_width,
    half_width,
    laplace_half_width,
)

_LARGEST_SINH = 700.0
"""The hyperbolic sine of what is larger is too large for a float."""
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class MeasuredBlock:
    """This is g·M_B·m_B with discrete Gaussian noise, as it was released."""

    block: Block
    values: Integers
    deviation: Fraction
    """Of the noise, in steps of the values."""
    grid: int = 1
    unit_value: Fraction = Fraction(1)
    """What one whole number of the counts stood for."""

    def variance(self, attributes: Attributes) -> float:
        """Give σ_B², in rows."""
        return float(self.deviation * self.unit_value / self.grid / block_algebra.scale(self.block, attributes)) ** 2

    def differences(self, attributes: Attributes) -> Floats:
        """Divide by what the values were multiplied by, and centre: the estimate of what the block stands for."""
        found = self.values.astype(np.float64) * float(self.unit_value / self.grid)
        for axis, each in enumerate(block_algebra.differences(self.block, attributes)):
            found = each.centred(found / along(each.steps, axis, found.ndim), axis)
        return found


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """This is a whole marginal with independent noise in every cell, as it was released."""

    places: Set
    values: Integers
    size: Fraction
    """The deviation of Gaussian noise or the scale of Laplace noise, in steps of the values."""
    laplace: bool = False
    unit_value: Fraction = Fraction(1)

    @property
    def deviation(self) -> float:
        """Give the deviation in steps; of discrete Laplace noise it is √(2q)/(1 − q) with q = e^(−1/scale)."""
        if not self.laplace:
            return float(self.size)
        return math.sqrt(0.5) / math.sinh(min(0.5 / float(self.size), _LARGEST_SINH))

    @property
    def variance(self) -> float:
        """Give the variance of a cell, in rows; where it is too small to be told from nothing, a millionth of a row."""
        return max((self.deviation * float(self.unit_value)) ** 2, _LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class Estimates:
    """These are estimates of all blocks that were measured, from which every marginal and query within them follows."""

    attributes: Attributes
    """As the blocks are read: without levels where whole marginals were measured."""
    parts: Mapping[Block, Floats]
    """r̂_B of each block,"""
    variances: Mapping[Block, float]
    """and 1/V_B."""
    laplace: tuple[MeasuredMarginal, ...] = ()
    """What was measured with Laplace noise, of which the coefficients are needed."""
    fewest_steps: float = math.inf
    """The least deviation of Gaussian noise, in its own steps."""

    def covers(self, places: Set) -> bool:
        """Tell whether every block of a marginal was measured."""
        return all(block in self.parts for block in blocks_within(places, self.attributes))

    def marginal(self, places: Set) -> tuple[Floats, Floats]:
        """Give the unbiased counts of a marginal and their variances."""
        self._need(places)
        values = lifted(self.parts, places, self.attributes) if places else self.parts[()].copy()
        return values, cell_variances(self.variances, places, self.attributes)

    def linear(self, query: Floats, places: Set) -> tuple[float, float]:
        """Give the estimate of ⟨query, marginal⟩, and its variance."""
        self._need(places, query.shape)
        parts = asked(query, places, self.attributes)
        value = sum(float(np.vdot(each, self.parts[block])) for block, each in parts.items())
        norms = squared_norms(parts, self.attributes)
        return value, sum(norm * self.variances[block] for block, norm in norms.items())

    def half_width(self, query: Floats, places: Set, beta: float, cells: int = 1) -> float:
        """Bound the error of one of so many queries, of a plan that was fixed beforehand."""
        variance = self.linear(query, places)[1]
        if not self.laplace:
            width = half_width if self.fewest_steps >= LEAST_STEPS else coarse_half_width
            return width(variance, beta, cells)
        noises = [self._coefficients(query, places, each) for each in self.laplace]
        drawn = sum(float((each**2).sum()) * own.variance for each, own in zip(noises, self.laplace, strict=True))
        steps = [
            (each * float(own.unit_value), float(own.size)) for each, own in zip(noises, self.laplace, strict=True)
        ]
        return laplace_half_width(steps, beta, cells, variance=max(0.0, variance - drawn))

    def adaptive_half_width(self, query: Floats, places: Set, beta: float, eta: float, cells: int = 1) -> float:
        """Bound the error of one of so many queries where earlier noise decided what was measured."""
        self._need(places, query.shape)
        norms = squared_norms(asked(query, places, self.attributes), self.attributes)
        known = [(math.sqrt(norm), 1 / self.variances[block]) for block, norm in norms.items()]
        return adaptive_half_width(known, beta, eta, cells)

    def _coefficients(self, query: Floats, places: Set, measured: MeasuredMarginal) -> Floats:
        """Find by how much the noise of each cell of a measured marginal counts in the estimate of a query."""
        shape = tuple(self.attributes[place].size for place in measured.places)
        found = np.zeros(shape)
        for block, each in asked(query, places, self.attributes).items():
            own = block_algebra.places(block)
            if not set(own) <= set(measured.places):
                continue
            share = self.variances[block] / _spread_variance(measured, block, self.attributes)
            found += share * np.expand_dims(each, tuple(a for a, p in enumerate(measured.places) if p not in own))
        return found

    def _need(self, places: Set, shape: tuple[int, ...] | None = None) -> None:
        sizes = tuple(self.attributes[place].size for place in checked_set(places, self.attributes))
        if not self.covers(places):
            raise InvalidParameter("places", places, "attributes of a marginal within what was measured")
        if shape is not None and shape != sizes:
            raise InvalidParameter("query", f"shape {shape}", f"a number for each cell: the shape {sizes}")


def _spread_variance(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> float:
    """Compute σ_t²·s_{A_t∖B}."""
    own = block_algebra.places(block)
    return measured.variance * math.prod(attributes[place].size for place in measured.places if place not in own)


def least_squares(
    attributes: Attributes, blocks: Iterable[MeasuredBlock] = (), marginals: Iterable[MeasuredMarginal] = ()
) -> Estimates:
    """Combine everything that was measured by precision: the theorem above."""
    measured_blocks, whole, own = tuple(blocks), tuple(marginals), attributes
    if whole:
        own = tuple(each.flat for each in attributes)
    gathered = _Gathered(own)
    for each in measured_blocks:
        if whole and any(attributes[place].levels for place, _ in each.block):
            rule = "blocks of attributes without levels where whole marginals were measured too"
            raise InvalidParameter("blocks", each.block, rule)
        _need_shape(each.values, block_algebra.shape(checked_block(each.block, own), own))
        gathered.add(each.block, each.differences(own), each.variance(own))
    for measured in whole:
        _need_shape(measured.values, tuple(own[place].size for place in checked_set(measured.places, own)))
        for block in blocks_within(measured.places, own):
            gathered.add(block, _residual(measured, block, own), _spread_variance(measured, block, own))
    steps = [float(each.deviation) for each in measured_blocks] + [each.deviation for each in whole if not each.laplace]
    variances = {block: 1 / precision for block, precision in gathered.precisions.items()}
    laplace = tuple(each for each in whole if each.laplace)
    return Estimates(own, gathered.means, variances, laplace, min(steps, default=math.inf))


def _need_shape(values: Integers, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise InvalidParameter("values", f"shape {values.shape}", f"of the shape {shape}")


def _residual(measured: MeasuredMarginal, block: Block, attributes: Attributes) -> Floats:
    """Sum a measured marginal to the attributes of a block, and take means away."""
    summed = block_algebra.summed(measured.values, measured.places, block_algebra.places(block))
    found = np.asarray(summed.astype(np.float64) * float(measured.unit_value))
    for axis, each in enumerate(block_algebra.differences(block, attributes)):
        found = each.centred(found, axis)
    return found


class _Gathered:
    """These are means by precision, as they are added to."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.sums: dict[Block, Floats] = {}
        self.precisions: dict[Block, float] = {}

    def add(self, block: Block, found: Floats, variance: float) -> None:
        """Count one more estimate of a block."""
        known = block in self.sums
        self.sums[block] = self.sums[block] + found / variance if known else found / variance
        self.precisions[block] = self.precisions.get(block, 0.0) + 1 / variance

    @cached_property
    def means(self) -> dict[Block, Floats]:
        return {block: each / self.precisions[block] for block, each in self.sums.items()}
