"""Totals of all groups of a question over one marginal, each a weighted sum of its cells.

Weights have an axis for each attribute of the question. Along a *key* axis every cell is a group of its own; along the
other axes of the marginal cells are added up; axes outside the marginal stay as they are. A total is the query q that
is the weights in one cell of the key axes and zero elsewhere, so ‖q_B‖² falls apart: along a key axis it is what one
cell has, which is known beforehand, and only along the others q is transformed (``blocks``). So all groups together
cost little more than one.

Bounds, from marginals, on totals over columns that were not published together.

Every bound is a query of one of them, or of three.

Theorem. Let q⁻ ≤ q ≤ q⁺ be weights over the cells of the attributes of a question, and A some of these within what was
measured. Then ⟨min_{x∖A} q⁻, m_A⟩ ≤ Σ_x q(x)N(x) ≤ ⟨max_{x∖A} q⁺, m_A⟩; and for two such sets A, C with the weights
u = max_{x∖A} q⁻, v = max_{x∖C} q⁻ and w = max_{x∖(A∩C)} q⁻, if u + v − w ≤ q⁻ in every cell, the total is at least
⟨u, m_A⟩ + ⟨v, m_C⟩ − ⟨w, m_{A∩C}⟩.
Proof. N ≥ 0, and weights that do not depend on x∖A count m_A. The last is the first claim for the weights u + v − w. ∎
Conjunctions have the second property: N(abc) ≥ N(ab) + N(ac) − N(a) (Bonferroni; Fréchet).

*Groups.* Along an axis that keys are read from, the weights of one group are zero in all other cells. Where A lacks
that axis the least and the greatest are taken with 0. For two sets, let every key axis be in A or in C: in a cell of
another group either the keys of A ∩ C differ and all three vanish, or one of u, v does, and the other is at most w.

Weights that are all 0 bound the total by 0 from below: that is known without noise, and counts as no bound.

*Declared zeros.* Where N(x) = 0 the weight of x may be any number, so the least and the greatest are taken over the
other cells alone. That is the first claim for weights that are 0 there; such bounds hold if what is declared is true.

*Noise.* Every bound is a query within what was measured, with a half-width of its own; n bounds that each fail on one
side with probability β/n hold together with probability 1 − β, so the best may be taken. Where noise is symmetric, a
half-width for 2β/n fails with β/n on one side. A bound of three queries adds their half-widths, each for a third.

*Measured adaptively.* Where earlier noise decided what was measured, it decided which bounds there are too, and β over
their number is no share that was fixed beforehand: a chooser that stops when a bound fails would miss more often than
β. So every bound that there might have been has its share, whether it was measured or not. That all attributes were
measured together has ``_MEASURED`` of β. The rest is shared evenly by the lower and the upper bound of each of the
2^d − 1 smaller sets, and by the (3^d − 2·2^d + 1)/2 pairs of them that have all d attributes together: each attribute
is in the first, the second or both, less the choices where one is the whole. Each half-width holds for all rounds at
once (``estimating``), and a union bound over all of them needs nothing else.

*What is printed.* Let every bound of a nonnegative total be laid around its estimate moved to 0 or above, so an upper
end is max(v, 0) + w; and where the best lower end is nearer than w below the best upper end, or above it, with w the
least half-width of an upper bound, each end is moved to w beyond the other. Proof that 1 − β is kept: both changes
only move ends outward, and a range that holds another one misses no more often. ∎ So no range is narrower than w: one
that noise has emptied shows what it may be by noise alone, and does not read as certainty.

*Cut bins.* Where the question tells the rows of one cell apart, q⁻ < q⁺ there; with all attributes in one marginal A
that is all, and x∖A is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from itertools import combinations, product
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import AttributeSet, Block, marginal_from_blocks
from sfumato.publish.marginals.chains import reshape_along
from sfumato.publish.marginals.estimating import (
    MIN_STEPS,
    BlockEstimates,
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
            axis
            for axis, attribute_index in enumerate(self.axes)
            if attribute_index in self.key_axes or attribute_index not in self.marginal_axes
        ]
        shape = tuple(size if axis in group_axes else 1 for axis, size in enumerate(self.weights.shape))
        widths = np.empty(shape)
        for group in np.ndindex(*shape):
            widths[group] = self.estimates.half_width(self._group_query(group), self.marginal_axes, beta, cells)
        return widths

    def _group_query(self, group: tuple[int, ...]) -> Floats:
        """Return the weights of one group over the whole marginal."""
        sizes = {
            attribute_index: self.estimates.attributes[attribute_index].size for attribute_index in self.marginal_axes
        }
        query = self.weights
        for axis, attribute_index in enumerate(self.axes):
            if attribute_index in self.key_axes or attribute_index not in self.marginal_axes:
                query = np.take(query, [group[axis]], axis)
            if attribute_index in self.marginal_axes and attribute_index in self.key_axes:
                indicator = np.zeros(sizes[attribute_index])
                indicator[group[axis]] = 1
                query = query * reshape_along(indicator, axis, query.ndim)
        outside = tuple(
            axis for axis, attribute_index in enumerate(self.axes) if attribute_index not in self.marginal_axes
        )
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

    def covers(self, attribute_set: AttributeSet) -> bool:
        """Return whether a marginal is within what was measured."""
        return any(set(attribute_set) <= set(measured) for measured in self.sets)

    def possible_cells(self, axes: AttributeSet) -> NDArray[np.bool_]:
        """Return which combinations of cells may have rows; an axis without declared zeros has the length 1."""
        is_possible = np.ones((1,) * len(axes), bool)
        for attribute_set, cells in self.declared_zeros().items():
            if set(attribute_set) <= set(axes):
                is_possible = is_possible & ~np.expand_dims(
                    cells,
                    tuple(axis for axis, attribute_index in enumerate(axes) if attribute_index not in attribute_set),
                )
        return is_possible

    def marginal(self, attribute_set: AttributeSet) -> Floats:
        """Return the unbiased counts of a marginal; small ones are cached."""
        counts = self._marginals.get(attribute_set)
        if counts is None:
            counts = marginal_from_blocks(self.estimates.parts, attribute_set, self.attributes)
            if len(self._marginals) < _MAX_CACHED and counts.size <= _MAX_CACHED_CELLS:
                self._marginals[attribute_set] = counts
        return counts

    def totals_and_errors(
        self, weights: Floats, weight_axes: AttributeSet, marginal_axes: AttributeSet, key_axes: AttributeSet
    ) -> tuple[Floats, TotalError]:
        """Estimate the totals of all groups; return them with the distribution of their error."""
        shape = tuple(
            self.attributes[attribute_index].size if attribute_index in marginal_axes else 1
            for attribute_index in weight_axes
        )
        summed_axes = tuple(
            axis
            for axis, attribute_index in enumerate(weight_axes)
            if attribute_index in marginal_axes and attribute_index not in key_axes
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
        block_attribute_indices, shares = {attribute_index for attribute_index, _ in block}, []
        for turn, marginal in enumerate(self.estimates.laplace_marginals, 1):
            if block_attribute_indices <= set(marginal.attribute_set):
                cells = math.prod(
                    self.attributes[attribute_index].size
                    for attribute_index in marginal.attribute_set
                    if attribute_index not in block_attribute_indices
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
    marginal_axes = [(axis, attribute_index) for axis, attribute_index in enumerate(axes) if attribute_index in inside]
    for axis, attribute_index in marginal_axes:
        if attribute_index not in keys:
            values, level_sections = _axis_coefficients(values, axis, attributes[attribute_index])
            sections.append((axis, level_sections))
    squares = values**2
    for axis, level_sections in sections:
        starts = np.cumsum([0, *(section.length for section in level_sections[:-1])])
        squares = np.add.reduceat(squares, starts, axis)
    levels = {axis: [section.level for section in level_sections] for axis, level_sections in sections}
    factors = {
        axis: dict(_squared_coefficients_by_level(attributes[attribute_index]))
        for axis, attribute_index in marginal_axes
        if attribute_index in keys
    }
    for levels_chosen in product(*(levels.get(axis) or factors[axis] for axis, _ in marginal_axes)):
        block = tuple(
            (attribute_index, level)
            for (_, attribute_index), level in zip(marginal_axes, levels_chosen, strict=True)
            if level
        )
        selection = [slice(None)] * squares.ndim
        for (axis, _), level in zip(marginal_axes, levels_chosen, strict=True):
            if axis in levels:
                selection[axis] = slice(position := levels[axis].index(level), position + 1)
        norms = squares[tuple(selection)]
        for (axis, _), level in zip(marginal_axes, levels_chosen, strict=True):
            if axis in factors:
                norms = norms * reshape_along(factors[axis][level], axis, norms.ndim)
        yield block, norms


class LevelSection(NamedTuple):
    """The part of an axis that holds the coefficients of one level: 0 is the whole."""

    level: int
    length: int


def _axis_coefficients(values: Floats, axis: int, attribute: Attribute) -> tuple[Floats, list[LevelSection]]:
    """Concatenate the coefficients of the weights along one axis; return them with the sections of the levels."""
    chain, ndim = attribute.hierarchy, values.ndim
    if values.shape[axis] == 1:  # constant weights: centred among siblings, every difference is 0
        return values, [LevelSection(0, 1)]
    parts = [(values * reshape_along(chain.shares, axis, ndim)).sum(axis, keepdims=True)]
    sections = [LevelSection(0, 1)]
    for level, difference in enumerate(chain.differences, 1):
        if difference.part_count:
            coefficients = difference.coefficients(values, axis)
            parts.append(
                coefficients
                if difference.has_uniform_noise
                else coefficients * reshape_along(difference.noise_deviations, axis, ndim)
            )
            sections.append(LevelSection(level, difference.part_count))
    return np.concatenate(parts, axis), sections


def _squared_coefficients_by_level(attribute: Attribute) -> Iterator[tuple[int, Floats]]:
    """Yield the squared coefficient of one cell of a key axis on each level."""
    chain = attribute.hierarchy
    yield 0, chain.shares**2
    for level, difference in enumerate(chain.differences, 1):
        if difference.part_count:
            yield level, difference.cell_variances


_ROUNDS, _MAX_STEPS = 30, 5 * 10**8
_SMALL = 1e-300
_MEASURED = 0.9
"""The share of β for a total within what was measured, if earlier noise decided whether it is."""
_MAX_CACHED_MODELS, _MAX_CACHED_MODEL_CELLS = 32, 10**6


@dataclass(frozen=True, eq=False)
class AmountBounds:
    """The least and the greatest weight of every cell, over the axes of a question, and the middle of both."""

    low: Floats
    high: Floats

    @property
    def middle(self) -> Floats:
        return (self.low + self.high) / 2

    @property
    def ambiguous_cells(self) -> NDArray[np.bool_]:
        """Which cells have rows that count differently."""
        return self.low != self.high

    def masked(self, mask: NDArray[np.bool_]) -> AmountBounds:
        """Return weights that are 0 outside the mask."""
        return AmountBounds(np.where(mask, self.low, 0.0), np.where(mask, self.high, 0.0))

    def with_optional_cells(self, mask: NDArray[np.bool_]) -> AmountBounds:
        """Return weights in which rows of the masked cells may count or not."""
        low, high = np.minimum(self.low, 0.0), np.maximum(self.high, 0.0)
        return AmountBounds(np.where(mask, low, self.low), np.where(mask, high, self.high))


@dataclass(frozen=True, eq=False)
class BoundedTotals:
    """Totals of groups: a number for each, and bounds that hold the truth. All have the axes of the question, of length
    1 where no key is.
    """

    value: Floats
    lower_bounds_with_errors: tuple[tuple[Floats, tuple[TotalError, ...]], ...]
    """Lower bounds: estimates that the truth is at least, up to their noises."""
    upper_bounds_with_errors: tuple[tuple[Floats, tuple[TotalError, ...]], ...]
    """Upper bounds: estimates that the truth is at most, up to their noises."""
    measured: NDArray[np.bool_]
    """Which groups are queries within what was measured: their number is unbiased, and nothing is cut off."""
    nonnegative: bool
    """Whether no row counts less than nothing."""
    bound_count: int
    """The number of bounds that share the miss probability: fixed before any noise."""
    share: float = 1.0
    """The share of the miss probability that these bounds have together."""

    def ends(self, beta: float, cells: int) -> tuple[Floats, Floats]:
        """Return the least and the greatest that the truths of so many such totals may be, all at once."""
        lower_widths = [
            _summed_half_width(noises, beta * self.share, self.bound_count, cells)
            for _, noises in self.lower_bounds_with_errors
        ]
        upper_widths = [
            _summed_half_width(noises, beta * self.share, self.bound_count, cells)
            for _, noises in self.upper_bounds_with_errors
        ]
        lower_ends = [
            value - width for (value, _), width in zip(self.lower_bounds_with_errors, lower_widths, strict=True)
        ]
        upper_ends = [
            self._clip_at_zero(value) + width
            for (value, _), width in zip(self.upper_bounds_with_errors, upper_widths, strict=True)
        ]
        low, high = reduce(np.maximum, lower_ends), reduce(np.minimum, upper_ends)
        least_width = reduce(np.minimum, upper_widths)
        low, high = np.minimum(low, high - least_width), np.maximum(high, low + least_width)
        return self._clip_at_zero(low), high

    def _clip_at_zero(self, totals: Floats) -> Floats:
        """Clip totals to 0 or above where they are known to be, but for those that are shown as they were measured."""
        return np.where(self.measured, totals, np.maximum(totals, 0.0)) if self.nonnegative else totals

    def estimate(self, low: Floats, high: Floats) -> Floats:
        """Return the estimate: as it was measured, or a model's within the bounds."""
        return np.where(self.measured, self.value, np.clip(self.value, low, high))


def _summed_half_width(noises: tuple[TotalError, ...], beta: float, count: int, cells: int) -> Floats:
    """Add the half-widths of the noises of one of so many bounds, each of which may fail on its own side."""
    shares = count * len(noises)
    widths = (noise.width(beta if shares == 1 else noise.sides * beta / shares, cells) for noise in noises)
    return sum(widths, start=np.zeros(()))


def bound_totals(
    estimates: SynopsisEstimates, weights: AmountBounds, axes: AttributeSet, keys: AttributeSet
) -> BoundedTotals:
    """Bound the totals of all groups: exactly within what was measured, and else as well as its marginals allow."""
    nonnegative = bool((weights.low >= 0).all())
    if estimates.covers(axes):
        return _measured_totals(estimates, weights, axes, keys, nonnegative)
    sets, possible = _maximal_measured_parts(axes, estimates.sets), estimates.possible_cells(axes)
    uppers = _MarginalizedWeightBounds(estimates, axes, keys, np.where(possible, weights.high, -np.inf), np.maximum)
    lowers = _MarginalizedWeightBounds(estimates, axes, keys, np.where(possible, weights.low, np.inf), np.minimum)
    lower_bounds = [
        lowers.bound_and_errors(attribute_set)
        for attribute_set in sets
        if not nonnegative or lowers.has_weight(attribute_set)
    ]
    if nonnegative:
        are_alike = bool(possible.all()) and not weights.ambiguous_cells.any()
        greatest = uppers if are_alike else _MarginalizedWeightBounds(estimates, axes, keys, weights.low, np.maximum)
        lower_bounds += _lower_bounds_from_two_marginals(greatest, sets)
    counts = (
        _cached_model(estimates, axes, sets) if estimates.model_marginal is None else estimates.model_marginal(axes)
    )
    value = _sum_to_keys(weights.middle * counts, axes, keys)
    measured = np.zeros((1,) * len(axes), bool)
    zero_bound = [(np.zeros((1,) * len(axes)), ())]
    lower, upper = tuple(lower_bounds or zero_bound), tuple(map(uppers.bound_and_errors, sets))
    if estimates.prior_precisions is None:
        return BoundedTotals(value, lower, upper, measured, nonnegative, len(lower) + len(upper))
    return BoundedTotals(value, lower, upper, measured, nonnegative, max_bound_count(len(axes)), 1 - _MEASURED)


def max_bound_count(attribute_count: int) -> int:
    """Count the bounds that there may be where not all attributes were measured together, whatever was measured."""
    subset_count, pair_count = 2**attribute_count - 1, 3**attribute_count - 2 * 2**attribute_count + 1
    return 2 * subset_count + pair_count // 2


def _measured_totals(
    estimates: SynopsisEstimates, weights: AmountBounds, axes: AttributeSet, keys: AttributeSet, nonnegative: bool
) -> BoundedTotals:
    summed_axes = tuple(axis for axis, attribute_index in enumerate(axes) if attribute_index not in keys)
    low, noise = estimates.totals_and_errors(weights.low, axes, axes, keys)
    measured = np.asarray(~weights.ambiguous_cells.any(summed_axes, keepdims=True))
    share = (
        1.0 if estimates.prior_precisions is None or not axes else _MEASURED
    )  # the number of rows is measured in any case
    if bool(measured.all()):
        bound = ((low, (noise,)),)
        return BoundedTotals(low, bound, bound, measured, nonnegative, 1, share)
    high, upper_noise = estimates.totals_and_errors(weights.high, axes, axes, keys)
    value = (low + high) / 2
    return BoundedTotals(value, ((low, (noise,)),), ((high, (upper_noise,)),), measured, nonnegative, 2, share)


def _maximal_measured_parts(axes: AttributeSet, sets: tuple[AttributeSet, ...]) -> list[AttributeSet]:
    """Return what the measured marginals have of these attributes, without what is within another; and the total."""
    parts = {tuple(attribute_index for attribute_index in axes if attribute_index in set(part)) for part in sets}
    maximal_parts = [part for part in parts if not any(set(part) < set(other) for other in parts)]
    return sorted({*maximal_parts, ()})


class _MarginalizedWeightBounds:
    """The least, or the greatest, weights over what each marginal lacks, and their totals, cached."""

    def __init__(
        self, estimates: SynopsisEstimates, axes: AttributeSet, keys: AttributeSet, weights: Floats, pick: np.ufunc
    ) -> None:
        self.estimates, self.axes, self.keys, self.weights, self.pick = estimates, axes, keys, weights, pick
        self._reduced: dict[AttributeSet, Floats] = {}
        self._totals: dict[tuple[AttributeSet, bool], tuple[Floats, TotalError]] = {}

    def reduced(self, marginal_axes: AttributeSet) -> Floats:
        """Take the least or the greatest over what a marginal does not have, group by group."""
        if marginal_axes not in self._reduced:
            reduced_axes = tuple(
                axis
                for axis, attribute_index in enumerate(self.axes)
                if attribute_index not in {*marginal_axes, *self.keys}
            )
            extreme = self.pick.reduce(self.weights, axis=reduced_axes, keepdims=True)
            self._reduced[marginal_axes] = np.where(
                np.isinf(extreme), 0.0, extreme
            )  # where no row is in any of the cells
        return self._reduced[marginal_axes]

    def _with_zero(self, marginal_axes: AttributeSet) -> Floats:
        """Include 0 where the marginal lacks an axis that keys are read from."""
        extreme = self.reduced(marginal_axes)
        return np.asarray(self.pick(extreme, 0.0)) if self._lacks_keys(marginal_axes) else extreme

    def _lacks_keys(self, marginal_axes: AttributeSet) -> bool:
        return any(
            attribute_index not in marginal_axes and self.estimates.attributes[attribute_index].size > 1
            for attribute_index in self.keys
        )

    def has_weight(self, marginal_axes: AttributeSet) -> bool:
        """Return whether some row counts: a bound of weights that are all 0 is 0."""
        return bool(self._with_zero(marginal_axes).any())

    def total_and_error(self, marginal_axes: AttributeSet, *, zero: bool = False) -> tuple[Floats, TotalError]:
        """Estimate the totals of these weights; with ``zero`` as a bound for every group."""
        zero = zero and self._lacks_keys(marginal_axes)
        if (marginal_axes, zero) not in self._totals:
            weights = self._with_zero(marginal_axes) if zero else self.reduced(marginal_axes)
            self._totals[marginal_axes, zero] = self.estimates.totals_and_errors(
                weights, self.axes, marginal_axes, self.keys
            )
        return self._totals[marginal_axes, zero]

    def bound_and_errors(self, marginal_axes: AttributeSet) -> tuple[Floats, tuple[TotalError, ...]]:
        value, noise = self.total_and_error(marginal_axes, zero=True)
        return value, (noise,)


def _lower_bounds_from_two_marginals(
    greatest: _MarginalizedWeightBounds, sets: list[AttributeSet]
) -> list[tuple[Floats, tuple[TotalError, ...]]]:
    """Bound from below by two marginals that together have all attributes, where the weights allow it."""
    bounds: list[tuple[Floats, tuple[TotalError, ...]]] = []
    for first_set, second_set in combinations(sets, 2):
        if {*first_set, *second_set} != set(greatest.axes):
            continue
        shared_indices = tuple(attribute_index for attribute_index in first_set if attribute_index in second_set)
        u, v, w = map(greatest.reduced, (first_set, second_set, shared_indices))
        if not bool((u + v - w <= greatest.weights).all()):
            continue
        (first, a), (second, b), (third, c) = map(greatest.total_and_error, (first_set, second_set, shared_indices))
        bounds.append((first + second - third, (a, b, c)))
    return bounds


def _sum_to_keys(values: Floats, axes: AttributeSet, keys: AttributeSet) -> Floats:
    """Sum over all but the key axes."""
    return np.asarray(
        values.sum(
            tuple(axis for axis, attribute_index in enumerate(axes) if attribute_index not in keys), keepdims=True
        )
    )


def _cached_model(estimates: SynopsisEstimates, axes: AttributeSet, sets: Sequence[AttributeSet]) -> Floats:
    """Return the cached model of some attributes; large ones are computed again."""
    if axes in estimates.models:
        return estimates.models[axes]
    counts = fit_max_entropy(estimates, axes, sets)
    if len(estimates.models) < _MAX_CACHED_MODELS and counts.size <= _MAX_CACHED_MODEL_CELLS:
        estimates.models[axes] = counts
    return counts


def fit_max_entropy(
    estimates: SynopsisEstimates, axes: AttributeSet, sets: Sequence[AttributeSet], rounds: int = _ROUNDS
) -> Floats:
    """Fit the table of the largest entropy that has the marginals, by scaling it to each in turn (Deming & Stephan).

    It is a guess: nothing but the marginals says that it is near the truth.
    """
    sizes = tuple(estimates.attributes[attribute_index].size for attribute_index in axes)
    total = max(float(estimates.marginal(())), 0.0)
    table = np.full(sizes, total / max(1, int(np.prod(sizes))))
    targets = [
        (attribute_set, _clip_and_scale(estimates.marginal(attribute_set), total))
        for attribute_set in sets
        if attribute_set
    ]
    rounds = max(1, min(rounds, _MAX_STEPS // max(1, table.size * len(targets))))
    for _ in range(rounds if len(targets) > 1 else 1):
        for attribute_set, counts in targets:
            shape = tuple(
                size if attribute_index in attribute_set else 1
                for attribute_index, size in zip(axes, sizes, strict=True)
            )
            summed_axes = tuple(
                axis for axis, attribute_index in enumerate(axes) if attribute_index not in attribute_set
            )
            current = table.sum(summed_axes, keepdims=True)
            table *= np.divide(counts.reshape(shape), current, out=np.zeros(shape), where=current > _SMALL)
    return table


def _clip_and_scale(counts: Floats, total: float) -> Floats:
    """Clip a marginal at zero, and scale what is left to the total."""
    clipped = np.maximum(counts, 0.0)
    clipped_total = float(clipped.sum())
    return clipped * (total / clipped_total) if clipped_total > 0 else clipped
