"""Plan the noise of each block of a workload, so that its marginals have the least error for a price.

*The best plan* (Xiao, He, Zhang & Kifer 2023). Blocks of the closure, all subsets of the workload's sets, are measured
once each. A cell of m_A has the variance Σ_{B⊆A} σ_B²·p_B·Π_{A∖B} n_j^−2. With v_B the coefficient of σ_B² in the
weighted sum of all variances, and c_B what the block costs at σ_B = 1 (ρ_B = m²c_B/2σ_B²; c_B = p_B under add-remove
neighbours), the least sum for Σρ_B = ρ is

    σ_B² = (m²/2ρ)·(Σ√(vc))·√(c_B/v_B),    with the sum (m²/2ρ)·(Σ√(vc))².

Proof. Cauchy–Schwarz: (Σ v_B σ_B²)(Σ c_B/σ_B²) ≥ (Σ√(v_B c_B))², with equality where v_B σ_B⁴ ∝ c_B. ∎ Under add-remove
neighbours it meets the singular-value bound of Li & Miklau (2013), so no unbiased linear mechanism with Gaussian noise
at the same ρ does better.

*The worst variance*, max_A u_A·Var_A, is the greatest over λ ≥ 0, Σλ = 1, of the least Σλ_A u_A Var_A, by convexity.
λ_A ← λ_A·u_A·Var_A/mean climbs to it: the least weighted sum is a bound from below, the largest a bound from above, and
the climb ends when they are within 1e-6.

*Ranges.* If all sums over adjacent cells of an attribute are requested instead of single cells, v_B is the sum of
‖q_B‖² over them: that is where levels pay (``attributes.CellHierarchy``).

*Pure prices.* Laplace noise of scale b_A on whole marginals costs ε = Σm/b_A and has the variance 2b_A²: the weighted
sum Σ w_A s_A·2b_A² is least for b_A ∝ (w_A s_A)^−1/3, the worst for b_A ∝ w_A^−1/2 (both by Lagrange).

*The grid.* y_B = g·M_B·m_B has noise of g·s_B·σ_B steps. g is the least whole number with at least 4096 of them, where
``estimating`` holds; deviations are then rounded up to 2^−20 of a step, so what is charged is never above the price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import Neighbours, Sensitivity, codec
from sfumato.privacy.numbers import POSITIVE, UNIT, Number, exact, exact_integer, units_rounded_up
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import MAX_CELLS, Attribute, Attributes, with_branching_levels
from sfumato.publish.marginals.blocks import (
    AttributeSet,
    Block,
    block_coefficients,
    cell_variances,
    checked_block,
    parse_attribute_indices,
    squared_norms_by_block,
)
from sfumato.publish.marginals.chains import CellHierarchy
from sfumato.publish.marginals.estimating import MIN_STEPS
from sfumato.quick_dataclass import dataclass

OBJECTIVES = ("total", "worst")
MAX_BLOCKS = 200_000
MAX_RANGED = 2_000
"""The most cells of an attribute of which all ranges are requested."""
LARGEST_COUNT = 1 << 31
"""The count of one cell that fits every plan without clipping."""
_WEIGHT_BITS = 20
_MAX_DEVIATION = Fraction(10**12)
"""Deviations up to this are drawn exactly and in bounded time."""
_STEPS_PER_UNIT = 1 << 20
_ROUNDING = 1 + 1e-12
"""Above the rounding error of a computed deviation."""
_CLOSE_ENOUGH, _ROUNDS = 1 + 1e-6, 5_000


@codec.serialisable("workload")
@dataclass(frozen=True)
class MarginalWorkload:
    """The requested marginals, the weight of each, and the attributes of which all ranges are requested."""

    sets: tuple[AttributeSet, ...]
    weights: tuple[Fraction, ...] = ()
    """One for each set; empty if all have the same weight."""
    ranges: AttributeSet = ()

    def __post_init__(self) -> None:
        sets = tuple(tuple(attribute_set) for attribute_set in self.sets)
        if not sets or len(set(sets)) != len(sets):
            raise InvalidParameter(
                "sets", self.sets, "a list of different sets of columns, at least one, such as [[0], [0, 1]]"
            )
        weights = tuple(exact(weight, "weights", POSITIVE.for_list) for weight in self.weights)
        if weights and len(weights) != len(sets):
            raise InvalidParameter("weights", self.weights, f"a list of length {len(sets)}, with a number for each set")
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "weights", () if set(weights) == {Fraction(1)} else weights)
        object.__setattr__(self, "ranges", tuple(self.ranges))

    @classmethod
    def ways(cls, columns: int, ways: int, *, fewer: bool = False) -> MarginalWorkload:
        """Return the workload of all sets of ``ways`` columns; with ``fewer`` also of all smaller sets but the empty
        one.

        >>> MarginalWorkload.ways(3, 2).sets
        ((0, 1), (0, 2), (1, 2))
        """
        if not 1 <= exact_integer(ways, "ways") <= columns:
            range_rule = f"a whole number between 1 and {columns}, the number of columns"
            rule = range_rule if columns != 1 else "1, because there is only one column"
            raise InvalidParameter("ways", ways, rule, fix="write ways=1" if columns == 1 else "")
        sizes = range(1, ways + 1) if fewer else (ways,)
        return cls(tuple(attribute_set for k in sizes for attribute_set in itertools.combinations(range(columns), k)))

    def weight(self, index: int) -> Fraction:
        """Return the weight of a set."""
        return self.weights[index] if self.weights else Fraction(1)

    def require_valid(self, attributes: Attributes) -> MarginalWorkload:
        """Raise for sets that are not of these attributes, and for marginals that are too large."""
        for attribute_set in self.sets:
            cells = math.prod(
                attributes[attribute_index].size
                for attribute_index in parse_attribute_indices(attribute_set, attributes)
            )
            if cells > MAX_CELLS:
                raise InvalidParameter(
                    "sets",
                    ValueWords(f"{attribute_set}, which has {cells:,} cells"),
                    f"marginals of at most {MAX_CELLS:,} cells each",
                    fix="name fewer columns, or use coarser bins",
                )
        for attribute_index in parse_attribute_indices(self.ranges, attributes):
            if attributes[attribute_index].size > MAX_RANGED:
                given = ValueWords(f"column {attribute_index}, which has {attributes[attribute_index].size:,} cells")
                rule = f"a list of indices of columns with at most {MAX_RANGED:,} cells each"
                fix = "leave this column out of ranges, or use coarser bins for it"
                raise InvalidParameter("ranges", given, rule, fix=fix)
        return self


def blocks_of_marginals(sets: Iterable[AttributeSet], attributes: Attributes) -> tuple[Block, ...]:
    """Return the blocks of some marginals, smaller ones first."""
    blocks = {block for attribute_set in set(sets) for block in block_algebra.blocks_within(attribute_set, attributes)}
    return tuple(sorted(blocks, key=lambda block: (len(block), block)))


@codec.serialisable("planned-block")
@dataclass(frozen=True)
class PlannedBlock:
    """A block, measured as g·M_B·m_B with discrete Gaussian noise of this deviation, in whole steps of it."""

    block: Block
    deviation: Fraction
    grid: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "deviation", exact(self.deviation, "deviation", POSITIVE))
        object.__setattr__(self, "grid", exact_integer(self.grid, "grid", at_least=1))
        if self.deviation > _MAX_DEVIATION:
            raise InvalidParameter(
                "deviation",
                float(self.deviation),
                "at most 1e12, because larger noise cannot be drawn exactly",
                fix="give a higher price, ask for fewer cells, or round the weights of the marginals to fewer digits",
            )


@codec.serialisable("planned-marginal")
@dataclass(frozen=True)
class PlannedMarginal:
    """A whole marginal, measured with discrete Laplace noise of this scale, in steps of its counts."""

    attribute_set: AttributeSet = field(metadata=codec.stored_name_metadata("places"))
    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute_set", tuple(self.attribute_set))
        object.__setattr__(self, "scale", exact(self.scale, "scale", POSITIVE))


@codec.serialisable("publish-plan")
@dataclass(frozen=True)
class NoisePlan:
    """The blocks or marginals to measure, and the noise of each; the price follows from it alone."""

    attributes: Attributes
    workload: MarginalWorkload
    blocks: tuple[PlannedBlock, ...] = ()
    marginals: tuple[PlannedMarginal, ...] = ()
    """Measured whole with Laplace noise, instead of blocks."""
    rows: Fraction = Fraction(1)
    """The largest sum of the weights of one unit's rows."""
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    objective: str = "total"
    unit_value: Fraction = Fraction(1)
    """The rows that one step of the counts stands for: a fraction of a row if rows are weighted."""
    fixed_total: bool = False
    """Whether replacing a unit leaves the number of rows unchanged."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", exact(self.rows, "rows", POSITIVE))
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise InvalidParameter("attributes", attribute, "an Attribute", each=True)
        _require_objective(self.objective)
        self.workload.require_valid(self.attributes)
        block_keys = [checked_block(planned.block, self.attributes) for planned in self.blocks]
        marginal_sets = [parse_attribute_indices(planned.attribute_set, self.attributes) for planned in self.marginals]
        for noun, planned_keys in (("block", block_keys), ("marginal", marginal_sets)):
            if len(set(planned_keys)) != len(planned_keys):
                got = ValueWords(f"the same {noun} twice")
                raise InvalidParameter(f"{noun}s", got, f"a list of different {noun}s")
        if block_keys and marginal_sets:
            fix = "leave out either blocks or marginals"
            raise InvalidParameter("blocks", len(block_keys), "left out, because marginals are given", fix=fix)
        if not block_keys and not marginal_sets:
            rule = "a list of at least one block, because no marginals are given"
            raise InvalidParameter("blocks", self.blocks, rule, fix="give at least one block or one marginal")

    @property
    def max_weight(self) -> Fraction:
        """The largest sum of one unit's weights, in steps of the counts."""
        return self.rows / self.unit_value

    def sensitivity(self, planned: PlannedBlock | PlannedMarginal) -> Sensitivity:
        """Bound what one unit changes of a block or marginal as it is measured."""
        if isinstance(planned, PlannedBlock):
            fixed_total = self.fixed_total
            arguments = planned.block, self.attributes, self.max_weight, planned.grid, self.neighbours
            return block_algebra.block_sensitivity(*arguments, fixed_total=fixed_total)
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(1, self.max_weight)
        if math.prod(self.attributes[attribute_index].size for attribute_index in planned.attribute_set) > 1:
            return Sensitivity(1, self.max_weight).for_neighbours(Neighbours.REPLACE, signed=False)
        return Sensitivity(1, self.max_weight * (not self.fixed_total), neighbours=Neighbours.REPLACE)

    def block_rho(self, planned: PlannedBlock) -> Fraction:
        """Return the exact cost of one block: ρ = Δ₂²/2d²."""
        return self.sensitivity(planned).squares / (2 * planned.deviation**2)

    @cached_property
    def rho(self) -> Fraction:
        """The cost of all blocks, each rounded up to a multiple of 1e-30, the unit of charges."""
        return Fraction(sum(units_rounded_up(self.block_rho(planned)) for planned in self.blocks), UNIT)

    @cached_property
    def epsilon(self) -> Fraction:
        """The cost of marginals with Laplace noise: Σ Δ₁/b."""
        units = (units_rounded_up(self.sensitivity(planned).total / planned.scale) for planned in self.marginals)
        return Fraction(sum(units), UNIT)

    def variance(self, planned: PlannedBlock) -> float:
        """Return σ_B², in rows."""
        steps = planned.grid * block_algebra.block_scale(planned.block, self.attributes)
        return float(planned.deviation * self.unit_value / steps) ** 2

    @cached_property
    def block_variances(self) -> Mapping[Block, float]:
        """σ_B² of every block that is measured, in rows."""
        return {planned.block: self.variance(planned) for planned in self.blocks}

    @property
    def clipping_count(self) -> Fraction:
        """The count, in rows, at which some block's counts are clipped to fit 64 bits; no real table reaches it."""
        counts = (
            block_algebra.max_unclipped_count(planned.block, self.attributes, planned.grid) for planned in self.blocks
        )
        return min(counts, default=1 << 62) * self.unit_value

    def cell_variances(self, attribute_set: AttributeSet) -> Floats:
        """Return the variance of every cell of a marginal within the closure."""
        return cell_variances(self.block_variances, attribute_set, self.attributes)

    def query_variance(self, query: Floats, attribute_set: AttributeSet) -> float:
        """Return the variance of a query over a marginal within the closure."""
        variances = self.block_variances
        norms = squared_norms_by_block(block_coefficients(query, attribute_set, self.attributes), self.attributes)
        return sum(norm * variances[block] for block, norm in norms.items())

    def at_price(self, price: Number) -> NoisePlan:
        """Return the same plan for another price: ρ for blocks, ε for marginals."""
        target_price = exact(price, "price", POSITIVE)
        if self.marginals:
            growth = self.epsilon / target_price * (1 + Fraction(1, 1 << 40))
            return replace(
                self,
                marginals=tuple(
                    replace(marginal, scale=_round_up_to_step(marginal.scale * growth)) for marginal in self.marginals
                ),
            )
        growth = Fraction(math.sqrt(self.rho / target_price) * _ROUNDING)
        are_free = [self.block_rho(planned_block) == 0 for planned_block in self.blocks]
        rescaled = (
            planned_block
            if is_free
            else _plan_block(planned_block.block, planned_block.deviation / planned_block.grid * growth)
            for planned_block, is_free in zip(self.blocks, are_free, strict=True)
        )
        return replace(self, blocks=tuple(rescaled))


def finest_unit_value(workload: MarginalWorkload, attributes: Attributes) -> Fraction:
    """Return the smallest fraction of a row, down to 2^−20, in which weights can be counted without clipping a real
    count.
    """
    least_count = min(
        block_algebra.max_unclipped_count(_largest_block(attribute_set, attributes), attributes)
        for attribute_set in workload.sets
    )
    return Fraction(1, 1 << max(0, min(_WEIGHT_BITS, (least_count // LARGEST_COUNT).bit_length() - 1)))


def _largest_block(attribute_set: AttributeSet, attributes: Attributes) -> Block:
    """Return the block of a marginal whose numbers are largest."""

    def level(index: int) -> int:
        scales = [
            int(difference.difference_factors.max(initial=1)) for difference in attributes[index].hierarchy.differences
        ]
        return 1 + scales.index(max(scales))

    return tuple((attribute_index, level(attribute_index)) for attribute_index in attribute_set)


def plan_gaussian(
    workload: MarginalWorkload,
    attributes: Attributes,
    rows: Number = 1,
    objective: str = "total",
    *,
    rho: Number = Fraction(1, 2),
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit_value: Number = 1,
    fixed_total: bool = False,
) -> NoisePlan:
    """Optimise the noise of a workload's blocks for a price: the least sum of variances, or the least worst."""
    terms = _VarianceCoefficients.for_workload(workload.require_valid(attributes), attributes, objective)
    relation, max_rows, step = (
        Neighbours.of(neighbours),
        exact(rows, "rows", POSITIVE),
        exact(unit_value, "unit_value", POSITIVE),
    )
    costs = np.array([_block_cost(block, attributes, relation, fixed_total) for block in terms.blocks])
    weights = np.array([float(workload.weight(index)) for index in range(len(workload.sets))])
    relative = (
        terms.least_sum_variances(weights, costs)
        if objective == "total"
        else terms.least_largest_variances(weights, costs)
    )
    sizes = np.sqrt(relative * float(max_rows**2 / (2 * exact(rho, "rho", POSITIVE)))) / float(step) * _ROUNDING
    scales = (block_algebra.block_scale(block, attributes) for block in terms.blocks)
    planned = tuple(
        _plan_block(block, Fraction(size) * scale)
        if cost
        else PlannedBlock(block, Fraction(MIN_STEPS), _STEPS_PER_UNIT)
        for block, size, scale, cost in zip(terms.blocks, sizes.tolist(), scales, costs.tolist(), strict=True)
    )
    plan = NoisePlan(attributes, workload, planned, (), max_rows, relation, objective, step, fixed_total)
    if plan.clipping_count < LARGEST_COUNT:
        rule = f"coarse enough that counts of {LARGEST_COUNT:,} rows fit into 64 bits"
        finest = finest_unit_value(workload, attributes)
        fix = f"set unit_value to {finest} or more, or ask for marginals with fewer cells"
        raise InvalidParameter("unit_value", unit_value, rule, fix=fix)
    return plan


def plan_laplace(
    workload: MarginalWorkload,
    attributes: Attributes,
    rows: Number = 1,
    objective: str = "total",
    *,
    epsilon: Number = 1,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    unit_value: Number = 1,
    fixed_total: bool = False,
) -> NoisePlan:
    """Optimise whole marginals with Laplace noise, for a pure price."""
    _require_objective(objective)
    sets = workload.require_valid(attributes).sets
    cells = [math.prod(attributes[attribute_index].size for attribute_index in attribute_set) for attribute_set in sets]
    power = -1 / 3 if objective == "total" else -1 / 2
    weights = [
        float(workload.weight(index)) * (size if objective == "total" else 1) for index, size in enumerate(cells)
    ]
    unscaled = tuple(
        PlannedMarginal(attribute_set, Fraction(weight**power))
        for attribute_set, weight in zip(sets, weights, strict=True)
    )
    max_rows, step, relation = (
        exact(rows, "rows", POSITIVE),
        exact(unit_value, "unit_value", POSITIVE),
        Neighbours.of(neighbours),
    )
    return NoisePlan(attributes, workload, (), unscaled, max_rows, relation, objective, step, fixed_total).at_price(
        epsilon
    )


def independent_variances(
    workload: MarginalWorkload, attributes: Attributes, rows: Number, rho: Number, objective: str
) -> Floats:
    """Return the cell variance of each marginal if each were measured by itself with Gaussian noise: for comparison.

    The least Σ w_A s_A σ_A² for Σm²/2σ_A² = ρ has σ_A² ∝ (w_A s_A)^−1/2; the least worst w_A σ_A² has σ_A² ∝ 1/w_A.
    """
    _require_objective(objective)
    cells = np.array(
        [
            math.prod(attributes[attribute_index].size for attribute_index in attribute_set)
            for attribute_set in workload.sets
        ],
        np.float64,
    )
    weights = np.array([float(workload.weight(index)) for index in range(len(workload.sets))])
    shape = (weights * cells) ** -0.5 if objective == "total" else 1 / weights
    unit = float(exact(rows, "rows", POSITIVE) ** 2 / (2 * exact(rho, "rho", POSITIVE)))
    return shape * (1 / shape).sum() * unit


def _require_objective(objective: object) -> None:
    if objective not in OBJECTIVES:
        raise InvalidParameter("objective", objective, "one of " + ", ".join(OBJECTIVES))


def _block_cost(block: Block, attributes: Attributes, neighbours: Neighbours, fixed_total: bool) -> float:
    """Compute c_B: the squares by which one row moves the block, over s_B²."""
    change = block_algebra.block_sensitivity(block, attributes, 1, 1, neighbours, fixed_total=fixed_total)
    return float(change.squares / block_algebra.block_scale(block, attributes) ** 2)


def _plan_block(block: Block, deviation: Fraction) -> PlannedBlock:
    """Choose the grid on which a deviation has enough steps."""
    grid = max(1, math.ceil(MIN_STEPS / deviation))
    return PlannedBlock(block, _round_up_to_step(grid * deviation), grid)


def _round_up_to_step(size: Fraction) -> Fraction:
    return Fraction(math.ceil(size * _STEPS_PER_UNIT), _STEPS_PER_UNIT)


@dataclass(frozen=True, eq=False)
class _VarianceCoefficients:
    """The coefficients of the variance of each block in that of each marginal, as a sparse matrix."""

    blocks: tuple[Block, ...]
    set_count: int
    set_index: Any
    """The marginal of each coefficient."""
    block_index: Any
    """The block of each coefficient."""
    factors: Floats
    """The coefficients."""

    @classmethod
    def for_workload(cls, workload: MarginalWorkload, attributes: Attributes, objective: str) -> _VarianceCoefficients:
        _require_objective(objective)
        if workload.ranges and objective != "total":
            raise InvalidParameter(
                "objective", objective, '"total" for marginals with ranges', fix='write objective="total"'
            )
        factors = [
            _variance_factors(attribute_index, attribute, workload, objective)
            for attribute_index, attribute in enumerate(attributes)
        ]
        block_numbers: dict[Block, int] = {}
        entries: list[tuple[int, int, float]] = []
        for index, attribute_set in enumerate(workload.sets):
            entries += [
                (index, block_numbers.setdefault(block, len(block_numbers)), coefficient)
                for block, coefficient in _blocks_with_factors(attribute_set, factors)
            ]
            if len(block_numbers) > MAX_BLOCKS:
                rule = f"marginals that take at most {MAX_BLOCKS:,} noisy tables together"
                raise InvalidParameter("sets", len(workload.sets), rule, fix="name fewer columns, or fewer levels")
        order = sorted(block_numbers, key=lambda block: (len(block), block))
        sorted_index = np.empty(len(order), np.intp)
        sorted_index[[block_numbers[block] for block in order]] = np.arange(len(order))
        marginal_index, block_number, coefficients = zip(*entries, strict=True)
        return cls(
            tuple(order),
            len(workload.sets),
            np.array(marginal_index),
            sorted_index[list(block_number)],
            np.array(coefficients),
        )

    def least_sum_variances(self, weights: Floats, costs: Floats) -> Floats:
        """Compute σ_B² for m²/2ρ = 1 with the least weighted sum."""
        coefficients = np.bincount(self.block_index, weights[self.set_index] * self.factors, len(self.blocks))
        coefficients = np.maximum(coefficients, coefficients.max() * 1e-300)
        return np.sqrt(coefficients * costs).sum() * np.sqrt(costs / coefficients)

    def least_largest_variances(self, weights: Floats, costs: Floats) -> Floats:
        """Compute σ_B² for m²/2ρ = 1 with the least largest weighted variance of a marginal."""
        multipliers, best, least_error = np.full(self.set_count, 1 / self.set_count), np.empty(0), math.inf
        for _ in range(_ROUNDS):
            variances = self.least_sum_variances(multipliers * weights, costs)
            errors = weights * np.bincount(self.set_index, self.factors * variances[self.block_index], self.set_count)
            if errors.max() < least_error:
                best, least_error = variances, float(errors.max())
            mean = float(multipliers @ errors)
            if least_error <= _CLOSE_ENOUGH * mean:
                break
            multipliers = multipliers * errors / mean
            multipliers /= multipliers.sum()
        return best


def _blocks_with_factors(
    attribute_set: Sequence[int], factors: list[list[tuple[int, float]]]
) -> list[tuple[Block, float]]:
    """Return the blocks of a marginal with the coefficient of the variance of each."""
    coefficients: list[tuple[Block, float]] = [((), 1.0)]
    for attribute_index in attribute_set:
        coefficients = [
            ((*block, (attribute_index, level)) if level else block, coefficient * factor)
            for block, coefficient in coefficients
            for level, factor in factors[attribute_index]
        ]
    return coefficients


def _variance_factors(
    index: int, attribute: Attribute, workload: MarginalWorkload, objective: str
) -> list[tuple[int, float]]:
    """Return the factors of an attribute, for no difference and for each of its own."""
    chain = attribute.hierarchy
    if index in workload.ranges:
        factors = range_factors(chain, attribute.size - 1)
    else:
        parts = (chain.shares**2, *(difference.cell_variances for difference in chain.differences))
        factors = [float(shares.max() if objective == "worst" else shares.sum()) for shares in parts]
    is_measured = [True, *(bool(difference.part_count) for difference in chain.differences)]
    return [(level, factor) for level, factor in enumerate(factors) if is_measured[level]]


def with_range_levels(attribute: Attribute) -> Attribute:
    """Return the attribute with the levels of the least error of range sums: of 2, 3, 4, 8, 16 cells, or none."""
    ranges = MarginalWorkload(((0,),), (), (0,))
    candidates = [
        attribute.without_levels,
        *(with_branching_levels(attribute, branching) for branching in (2, 3, 4, 8, 16)),
    ]

    def error(candidate: Attribute) -> float:
        plan = plan_gaussian(ranges, (candidate,))
        return sum(
            plan.block_variances[((0, level),) if level else ()] * factor
            for level, factor in _variance_factors(0, candidate, ranges, "total")
        )

    return min(candidates, key=error)


def range_factors(chain: CellHierarchy, cells: int) -> list[float]:
    """Sum ‖q_B‖² over all ranges of the first cells, for no difference and each of the chain's.

    A range is the difference of two of the sums c_0 … c_d of the first cells, and Σ_{i<j}‖c_j − c_i‖² is (d +
    1)·Σ‖c_j‖² − ‖Σc_j‖².
    """
    factors = []
    for level in range(len(chain.differences) + 1):
        if level:
            difference = chain.differences[level - 1]
            columns = difference.coefficients(np.eye(chain.size), 0) * difference.noise_deviations[:, None]
        else:
            columns = chain.shares[None]
        sums = np.cumsum(columns[:, :cells], axis=1)
        factors.append(float((cells + 1) * (sums**2).sum() - (sums.sum(axis=1) ** 2).sum()))
    return factors
