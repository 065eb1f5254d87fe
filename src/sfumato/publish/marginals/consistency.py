"""Consistent marginals, which a table could have: no cell below zero, and equal sums wherever they overlap.

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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import (
    AttributeSet,
    Block,
    block_coefficients,
    blocks_within,
    marginal_from_blocks,
    maximal_sets,
    weight_by_noise_deviation,
)
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import BlockEstimates
from sfumato.quick_dataclass import dataclass

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

    def marginal(self, places: AttributeSet) -> Floats:
        """Return the counts of a marginal within one of the sets."""
        values = np.maximum(marginal_from_blocks(self.estimates.parts, places, self.estimates.attributes), 0)
        if places in self.zeros:
            values[self.zeros[places]] = 0
        return values


def make_consistent(
    estimates: BlockEstimates, sets: Sequence[AttributeSet], zeros: Zeros | None = None, rounds: int = _ROUNDS
) -> ConsistentMarginals:
    """Project estimates onto what a table could have, in the metric of their precisions."""
    impossible = dict(zeros or {})
    covering_sets = maximal_sets((*sets, *impossible))
    if not all(map(estimates.covers, covering_sets)):
        raise InvalidParameter("sets", sets, "marginals of attributes that were measured together")
    problem = _ProjectionProblem(
        estimates,
        covering_sets,
        {places: _implied_zero_cells(places, impossible, estimates) for places in covering_sets},
    )
    parts, gap = problem.solve(rounds)
    return ConsistentMarginals(replace(estimates, parts=parts), covering_sets, impossible, gap)


def _implied_zero_cells(places: AttributeSet, zeros: Zeros, estimates: BlockEstimates) -> NDArray[np.bool_]:
    """Return the cells of a marginal that a declared zero of it, or of a smaller one, rules out."""
    sizes = tuple(estimates.attributes[place].size for place in places)
    is_zero = np.zeros(sizes, bool)
    for declared_places, cells in zeros.items():
        if set(declared_places) <= set(places):
            if cells.shape != tuple(estimates.attributes[place].size for place in declared_places):
                raise InvalidParameter("zeros", cells.shape, "an array with a boolean for each cell of the marginal")
            is_zero |= np.expand_dims(
                cells, tuple(axis for axis, place in enumerate(places) if place not in declared_places)
            )
    return is_zero


@dataclass(frozen=True, eq=False)
class _ProjectionProblem:
    estimates: BlockEstimates
    sets: tuple[AttributeSet, ...]
    zeros: Mapping[AttributeSet, NDArray[np.bool_]]

    def solve(self, rounds: int) -> tuple[dict[Block, Floats], float]:
        """Search for the nearest blocks whose cells fall short by no more than is allowed; return them with the
        shortfall.
        """
        attributes = self.estimates.attributes
        blocks = {block for places in self.sets for block in blocks_within(places, attributes)}
        start = {block: self.estimates.parts[block] for block in blocks}
        start_marginals = {places: marginal_from_blocks(start, places, attributes) for places in self.sets}
        step = 1 / _largest_eigenvalue_bound(self.sets, self.estimates.variances, attributes)
        multipliers = {places: np.zeros_like(start_marginals[places]) for places in self.sets}
        extrapolated, inertia, max_shortfall = multipliers, 1.0, _CLOSE * max(1.0, float(start[()]))
        for _ in range(rounds):
            parts = self._move_blocks(start, extrapolated)
            marginals = {places: marginal_from_blocks(parts, places, attributes) for places in self.sets}
            if self._worst_cell_violation(marginals) <= max_shortfall and self._is_nearest(
                extrapolated, marginals, start_marginals
            ):
                break
            next_multipliers = {
                places: self._project_multipliers(places, extrapolated[places] - step * marginals[places])
                for places in self.sets
            }
            movement = {places: next_multipliers[places] - multipliers[places] for places in self.sets}
            next_inertia = 1.0 if _inner_product(movement, marginals) > 0 else (1 + math.sqrt(1 + 4 * inertia**2)) / 2
            momentum = (inertia - 1) / next_inertia if next_inertia > 1 else 0.0
            extrapolated = {
                places: self._project_multipliers(places, next_multipliers[places] + momentum * movement[places])
                for places in self.sets
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
        for places, cell_multipliers in multipliers.items():
            for block, part in block_coefficients(cell_multipliers, places, self.estimates.attributes).items():
                twice = weight_by_noise_deviation(
                    weight_by_noise_deviation(part, block, self.estimates.attributes), block, self.estimates.attributes
                )
                parts[block] = parts[block] + self.estimates.variances[block] * twice
        return parts

    def _project_multipliers(self, places: AttributeSet, multipliers: Floats) -> Floats:
        return np.where(self.zeros[places], multipliers, np.maximum(multipliers, 0))

    def _worst_cell_violation(self, marginals: Mapping[AttributeSet, Floats]) -> float:
        """Compute how far any cell is below zero, or from a declared zero."""
        sizes = (np.where(self.zeros[places], np.abs(values), -values).max() for places, values in marginals.items())
        return max(0.0, *map(float, sizes))


def _inner_product(first: _Cells, second: _Cells) -> float:
    return sum(float((first[places] * second[places]).sum()) for places in first)


def _largest_eigenvalue_bound(
    sets: Sequence[AttributeSet], variances: Mapping[Block, float], attributes: Attributes
) -> float:
    """Bound the largest eigenvalue of Σ_A V⁻¹·L_Aᵀ·L_A; without uneven levels it is attained."""
    totals: dict[Block, float] = {}
    for places in sets:
        for block in blocks_within(places, attributes):
            levels = dict(block)
            lengths = [_squared_shares(attributes, place, levels.get(place, 0)) for place in places]
            lengths += [
                len(chain.differences) + 1
                for chain in (attributes[place].hierarchy for place in places)
                if not chain.is_even
            ]
            totals[block] = totals.get(block, 0.0) + variances[block] * math.prod(lengths)
    return max(totals.values())


def _squared_shares(attributes: Attributes, place: int, level: int) -> float:
    """Bound how much longer cells are than the differences they are spread from, squared."""
    chain = attributes[place].hierarchy
    if not level:
        return float((chain.shares**2).sum())
    difference = chain.differences[level - 1]
    return float((np.add.reduceat(difference.shares**2, difference.part_starts) * difference.noise_deviations**2).max())
