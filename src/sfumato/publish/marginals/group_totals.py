"""Totals of all groups of a question over one marginal, each a weighted sum of its cells.

Weights have an axis for each attribute of the question. Along a *key* axis every cell is a group of its own; along the
other axes of the marginal cells are added up; axes outside the marginal stay as they are. A total is the query q that
is the weights in one cell of the key axes and zero elsewhere, so ‖q_B‖² falls apart: along a key axis it is what one
cell has, which is known beforehand, and only along the others q is transformed (``blocks``). So all groups together
cost little more than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import product
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import AttributeSet, Block, marginal_from_blocks
from sfumato.publish.marginals.chains import Floats, reshape_along
from sfumato.publish.marginals.estimating import BlockEstimates
from sfumato.publish.marginals.half_widths import (
    MIN_STEPS,
    adaptive_half_width,
    adaptive_laplace_width,
    coarse_gaussian_half_width,
    gaussian_half_width,
)
from sfumato.quick_dataclass import dataclass

_MAX_CACHED, _MAX_CACHED_CELLS = 256, 10**6


class TotalError(Protocol):
    """The distribution of the error of totals."""

    sides: ClassVar[int]
    """2 for symmetric noise, where each side is exceeded half as often as both; otherwise 1."""

    def width(self, beta: float, cells: int) -> Floats:
        """Bound the error of each of so many totals, all at once with probability 1 − β."""
        ...


@dataclass(frozen=True, eq=False)
class PlannedGaussianError:
    """Gaussian noise of a plan that was fixed beforehand: the variance decides."""

    variances: Floats
    has_fine_grid: bool
    """Whether every deviation has enough steps."""
    sides: ClassVar[int] = 2

    def width(self, beta: float, cells: int) -> Floats:
        unit_width = (gaussian_half_width if self.has_fine_grid else coarse_gaussian_half_width)(1.0, beta, cells)
        return np.sqrt(self.variances) * unit_width


@dataclass(frozen=True, eq=False)
class AdaptiveGaussianError:
    """Gaussian noise of plans of which the later may depend on the earlier: the widths of all blocks are added."""

    norms_precisions_and_etas: tuple[tuple[Floats, float, float], ...]
    """‖q_B‖ of each block, its precision, and the precision that was fixed beforehand."""
    sides: ClassVar[int] = 1

    def width(self, beta: float, cells: int) -> Floats:
        shares = cells * max(1, len(self.norms_precisions_and_etas))
        widths = (
            norm * adaptive_half_width([(1.0, precision)], beta, eta, shares)
            for norm, precision, eta in self.norms_precisions_and_etas
        )
        return np.asarray(sum(widths, start=np.zeros(())))


@dataclass(frozen=True, eq=False)
class AdaptiveLaplaceError:
    """Laplace noise of measurements of which the later may depend on the earlier: the widths of every block's share
    of each measurement are added.
    """

    norms_and_shares: tuple[tuple[Floats, tuple[LaplaceShare, ...]], ...]
    """‖q_B‖ of each block, and its estimate's share of each measurement."""
    sides: ClassVar[int] = 1

    def width(self, beta: float, cells: int) -> Floats:
        block_beta = beta / (cells * max(1, len(self.norms_and_shares)))
        widths = (norm * sum(share.width(block_beta) for share in shares) for norm, shares in self.norms_and_shares)
        return np.asarray(sum(widths, start=np.zeros(())))


@dataclass(frozen=True)
class LaplaceShare:
    """The share of one measurement in the estimate of a block."""

    turn: int
    """The 1-based index of the measurement."""
    share: float
    scale: float
    """The scale of the noise, in rows."""
    cells: float
    """The number of cells that are summed to one of the block."""

    def width(self, beta: float) -> float:
        """Bound this share of the error; measurement number t has the miss probability β/(t(t + 1))."""
        return self.share * self.scale * adaptive_laplace_width(self.cells, beta / (self.turn * (self.turn + 1)))


@dataclass(frozen=True, eq=False)
class PlannedLaplaceError:
    """Laplace noise: the coefficients decide, group by group; groups with the same weights have the same."""

    estimates: BlockEstimates
    weights: Floats
    axes: AttributeSet
    marginal_axes: AttributeSet
    key_axes: AttributeSet
    sides: ClassVar[int] = 2

    def width(self, beta: float, cells: int) -> Floats:
        group_axes = [
            axis for axis, place in enumerate(self.axes) if place in self.key_axes or place not in self.marginal_axes
        ]
        shape = tuple(size if axis in group_axes else 1 for axis, size in enumerate(self.weights.shape))
        widths = np.empty(shape)
        for group in np.ndindex(*shape):
            widths[group] = self.estimates.half_width(self._group_query(group), self.marginal_axes, beta, cells)
        return widths

    def _group_query(self, group: tuple[int, ...]) -> Floats:
        """Return the weights of one group over the whole marginal."""
        sizes = {place: self.estimates.attributes[place].size for place in self.marginal_axes}
        query = self.weights
        for axis, place in enumerate(self.axes):
            if place in self.key_axes or place not in self.marginal_axes:
                query = np.take(query, [group[axis]], axis)
            if place in self.marginal_axes and place in self.key_axes:
                indicator = np.zeros(sizes[place])
                indicator[group[axis]] = 1
                query = query * reshape_along(indicator, axis, query.ndim)
        outside = tuple(axis for axis, place in enumerate(self.axes) if place not in self.marginal_axes)
        return np.array(np.broadcast_to(query.squeeze(outside), tuple(sizes.values())))


@dataclass(frozen=True, eq=False)
class SynopsisEstimates:
    """The estimates of a synopsis, and for each block the precision that was fixed beforehand if several releases
    are combined, or earlier noise decided what was measured.
    """

    estimates: BlockEstimates
    sets: tuple[AttributeSet, ...]
    """The largest marginals within what was measured."""
    prior_precisions: Mapping[Block, float] | None = None
    model_marginal: Callable[[AttributeSet], Floats] | None = None
    """Returns the counts of any marginal in a model fitted to what was measured; None if there is no model."""
    models: dict[AttributeSet, Floats] = field(default_factory=dict)
    """The cached models of attributes that were not published together."""
    _marginals: dict[AttributeSet, Floats] = field(default_factory=dict)
    declared_zeros: Callable[[], Mapping[AttributeSet, NDArray[np.bool_]]] = dict
    """Returns the declared impossible cells; computed when they are first needed."""

    @property
    def attributes(self) -> Attributes:
        return self.estimates.attributes

    def covers(self, places: AttributeSet) -> bool:
        """Return whether a marginal is within what was measured."""
        return any(set(places) <= set(measured) for measured in self.sets)

    def possible_cells(self, axes: AttributeSet) -> NDArray[np.bool_]:
        """Return which combinations of cells may have rows; an axis without declared zeros has the length 1."""
        is_possible = np.ones((1,) * len(axes), bool)
        for places, cells in self.declared_zeros().items():
            if set(places) <= set(axes):
                is_possible = is_possible & ~np.expand_dims(
                    cells, tuple(axis for axis, place in enumerate(axes) if place not in places)
                )
        return is_possible

    def marginal(self, places: AttributeSet) -> Floats:
        """Return the unbiased counts of a marginal; small ones are cached."""
        counts = self._marginals.get(places)
        if counts is None:
            counts = marginal_from_blocks(self.estimates.parts, places, self.attributes)
            if len(self._marginals) < _MAX_CACHED and counts.size <= _MAX_CACHED_CELLS:
                self._marginals[places] = counts
        return counts

    def totals_and_errors(
        self, weights: Floats, weight_axes: AttributeSet, marginal_axes: AttributeSet, key_axes: AttributeSet
    ) -> tuple[Floats, TotalError]:
        """Estimate the totals of all groups; return them with the distribution of their error."""
        shape = tuple(self.attributes[place].size if place in marginal_axes else 1 for place in weight_axes)
        summed_axes = tuple(
            axis for axis, place in enumerate(weight_axes) if place in marginal_axes and place not in key_axes
        )
        values = np.asarray((weights * self.marginal(marginal_axes).reshape(shape)).sum(summed_axes, keepdims=True))
        return values, self._error_distribution(weights, weight_axes, marginal_axes, key_axes)

    def _error_distribution(
        self, weights: Floats, axes: AttributeSet, marginal_axes: AttributeSet, key_axes: AttributeSet
    ) -> TotalError:
        if self.estimates.laplace_marginals and self.prior_precisions is None:
            return PlannedLaplaceError(self.estimates, weights, axes, marginal_axes, key_axes)
        squares = squared_norms_of_groups(weights, axes, marginal_axes, key_axes, self.attributes)
        if self.estimates.laplace_marginals:
            return AdaptiveLaplaceError(tuple((np.sqrt(norm), self._laplace_shares(block)) for block, norm in squares))
        variances = self.estimates.variances
        if self.prior_precisions is None:
            total = sum((variances[block] * norm for block, norm in squares), start=np.zeros(()))
            return PlannedGaussianError(np.asarray(total), self.estimates.min_deviation_steps >= MIN_STEPS)
        etas = self.prior_precisions
        return AdaptiveGaussianError(
            tuple((np.sqrt(norm), 1 / variances[block], etas[block]) for block, norm in squares)
        )

    def _laplace_shares(self, block: Block) -> tuple[LaplaceShare, ...]:
        """Return the share in the estimate of a block of each measurement that has it."""
        block_attribute_indices, shares = {place for place, _ in block}, []
        for turn, marginal in enumerate(self.estimates.laplace_marginals, 1):
            if block_attribute_indices <= set(marginal.places):
                cells = math.prod(
                    self.attributes[place].size for place in marginal.places if place not in block_attribute_indices
                )
                share = self.estimates.variances[block] / (marginal.variance * cells)
                shares.append(LaplaceShare(turn, share, float(marginal.size * marginal.unit_value), cells))
        return tuple(shares)


def squared_norms_of_groups(
    weights: Floats, axes: AttributeSet, inside: AttributeSet, keys: AttributeSet, attributes: Attributes
) -> Iterator[tuple[Block, Floats]]:
    """Compute ‖q_B‖² of all groups for each block, leaving out blocks that no group reads.

    Along a summed axis, the coefficients of the weights on the whole and on each level are concatenated: squares are
    summed section by section, once for all blocks. Along a key axis each level is a factor.
    """
    values, sections = np.asarray(weights, np.float64), []
    marginal_axes = [(axis, place) for axis, place in enumerate(axes) if place in inside]
    for axis, place in marginal_axes:
        if place not in keys:
            values, level_lengths = _axis_coefficients(values, axis, attributes[place])
            sections.append((axis, level_lengths))
    squares = values**2
    for axis, level_lengths in sections:
        starts = np.cumsum([0, *(length for _, length in level_lengths[:-1])])
        squares = np.add.reduceat(squares, starts, axis)
    levels = {axis: [level for level, _ in level_lengths] for axis, level_lengths in sections}
    factors = {
        axis: dict(_squared_coefficients_by_level(attributes[place])) for axis, place in marginal_axes if place in keys
    }
    for levels_chosen in product(*(levels.get(axis) or factors[axis] for axis, _ in marginal_axes)):
        block = tuple((place, level) for (_, place), level in zip(marginal_axes, levels_chosen, strict=True) if level)
        selection = [slice(None)] * squares.ndim
        for (axis, _), level in zip(marginal_axes, levels_chosen, strict=True):
            if axis in levels:
                selection[axis] = slice(position := levels[axis].index(level), position + 1)
        norms = squares[tuple(selection)]
        for (axis, _), level in zip(marginal_axes, levels_chosen, strict=True):
            if axis in factors:
                norms = norms * reshape_along(factors[axis][level], axis, norms.ndim)
        yield block, norms


def _axis_coefficients(values: Floats, axis: int, attribute: Attribute) -> tuple[Floats, list[tuple[int, int]]]:
    """Concatenate the coefficients of the weights along one axis; return them with the level and length of each
    section: 0 is the whole.
    """
    chain, ndim = attribute.hierarchy, values.ndim
    if values.shape[axis] == 1:  # constant weights: centred among siblings, every difference is 0
        return values, [(0, 1)]
    parts, level_lengths = [(values * reshape_along(chain.shares, axis, ndim)).sum(axis, keepdims=True)], [(0, 1)]
    for level, difference in enumerate(chain.differences, 1):
        if difference.part_count:
            coefficients = difference.coefficients(values, axis)
            parts.append(
                coefficients
                if difference.is_even
                else coefficients * reshape_along(difference.noise_deviations, axis, ndim)
            )
            level_lengths.append((level, difference.part_count))
    return np.concatenate(parts, axis), level_lengths


def _squared_coefficients_by_level(attribute: Attribute) -> Iterator[tuple[int, Floats]]:
    """Yield the squared coefficient of one cell of a key axis on each level."""
    chain = attribute.hierarchy
    yield 0, chain.shares**2
    for level, difference in enumerate(chain.differences, 1):
        if difference.part_count:
            yield level, difference.cell_variances
