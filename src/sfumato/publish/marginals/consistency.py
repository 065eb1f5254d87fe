"""Consistent marginals are those that a table could have: no cell below zero, and the same sums wherever they meet.

Unbiased estimates have negative cells. Marginals that are made of the same blocks agree wherever they overlap, so what
is left to ask is that their cells are ≥ 0, and 0 where the policy says that no row can be. Among all blocks r with that
property the nearest is taken, in the metric of what is known: the least Σ_B V_B‖r_B − r̂_B‖².

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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Block, Set, asked, blocks_within, lifted, maximal, weighed
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import Estimates

Zeros = Mapping[Set, NDArray[np.bool_]]
"""Of a marginal, the cells that no row can be in."""

_Cells = Mapping[Set, Floats]
_ROUNDS = 5_000
_CLOSE = 1e-6
"""Cells are within this part of the total of what they should be."""


@dataclass(frozen=True, eq=False)
class Consistent:
    """These are marginals that agree with one another, with no cell below zero."""

    estimates: Estimates
    """The projected blocks,"""
    sets: tuple[Set, ...]
    """the marginals that are ≥ 0,"""
    zeros: Zeros
    gap: float
    """and by how much a cell of one of them falls short of that, in rows; it is cut off."""

    def marginal(self, places: Set) -> Floats:
        """Give the counts of a marginal within one of the sets."""
        values = np.maximum(lifted(self.estimates.parts, places, self.estimates.attributes), 0)
        if places in self.zeros:
            values[self.zeros[places]] = 0
        return values


def consistent(
    estimates: Estimates, sets: Sequence[Set], zeros: Zeros | None = None, rounds: int = _ROUNDS
) -> Consistent:
    """Project estimates onto what a table could have, in the metric of their precisions."""
    impossible = dict(zeros or {})
    wanted = maximal((*sets, *impossible))
    if not all(map(estimates.covers, wanted)):
        raise InvalidParameter("sets", sets, "marginals within what was measured")
    problem = _Problem(estimates, wanted, {each: _zeros(each, impossible, estimates) for each in wanted})
    parts, gap = problem.solved(rounds)
    return Consistent(replace(estimates, parts=parts), wanted, impossible, gap)


def _zeros(places: Set, zeros: Zeros, estimates: Estimates) -> NDArray[np.bool_]:
    """Mark the cells of a marginal that a declared zero of it, or of a smaller one, says nobody is in."""
    sizes = tuple(estimates.attributes[place].size for place in places)
    found = np.zeros(sizes, bool)
    for own, cells in zeros.items():
        if set(own) <= set(places):
            if cells.shape != tuple(estimates.attributes[place].size for place in own):
                raise InvalidParameter("zeros", cells.shape, "for each cell of the marginal whether it is impossible")
            found |= np.expand_dims(cells, tuple(axis for axis, place in enumerate(places) if place not in own))
    return found


@dataclass(frozen=True, eq=False)
class _Problem:
    estimates: Estimates
    sets: tuple[Set, ...]
    zeros: Mapping[Set, NDArray[np.bool_]]

    def solved(self, rounds: int) -> tuple[dict[Block, Floats], float]:
        """Search for the nearest blocks whose cells fall short by no more than is allowed, and give the shortfall."""
        attributes = self.estimates.attributes
        known = {block for each in self.sets for block in blocks_within(each, attributes)}
        start = {block: self.estimates.parts[block] for block in known}
        before = {each: lifted(start, each, attributes) for each in self.sets}
        step = 1 / _steepest(self.sets, self.estimates.variances, attributes)
        held = {each: np.zeros_like(before[each]) for each in self.sets}
        ahead, inertia, allowed = held, 1.0, _CLOSE * max(1.0, float(start[()]))
        for _ in range(rounds):
            parts = self._moved(start, ahead)
            marginals = {each: lifted(parts, each, attributes) for each in self.sets}
            if self._shortfall(marginals) <= allowed and self._nearest(ahead, marginals, before):
                break
            climbed = {each: self._allowed(each, ahead[each] - step * marginals[each]) for each in self.sets}
            gone = {each: climbed[each] - held[each] for each in self.sets}
            following = 1.0 if _product(gone, marginals) > 0 else (1 + math.sqrt(1 + 4 * inertia**2)) / 2
            push = (inertia - 1) / following if following > 1 else 0.0
            ahead = {each: self._allowed(each, climbed[each] + push * gone[each]) for each in self.sets}
            held, inertia = climbed, following
        return {**self.estimates.parts, **parts}, self._shortfall(marginals)

    def _nearest(self, multipliers: _Cells, marginals: _Cells, before: _Cells) -> bool:
        """Tell whether the blocks are as near as any, up to a millionth: ⟨μ, cells⟩ is at least how much nearer the
        nearest are, squared, and ⟨μ, cells − cells before⟩ is how far these have moved, squared.
        """
        slack = _product(multipliers, marginals)
        return abs(slack) <= _CLOSE * (1 + abs(slack - _product(multipliers, before)))

    def _moved(self, start: Mapping[Block, Floats], multipliers: Mapping[Set, Floats]) -> dict[Block, Floats]:
        """Compute r̂ + Σ V⁻¹·Lᵀμ."""
        found = dict(start)
        for places, each in multipliers.items():
            for block, part in asked(each, places, self.estimates.attributes).items():
                twice = weighed(weighed(part, block, self.estimates.attributes), block, self.estimates.attributes)
                found[block] = found[block] + self.estimates.variances[block] * twice
        return found

    def _allowed(self, places: Set, multipliers: Floats) -> Floats:
        return np.where(self.zeros[places], multipliers, np.maximum(multipliers, 0))

    def _shortfall(self, marginals: Mapping[Set, Floats]) -> float:
        """Find how far any cell is below zero, or from a declared zero."""
        sizes = (np.where(self.zeros[each], np.abs(values), -values).max() for each, values in marginals.items())
        return max(0.0, *map(float, sizes))


def _product(one: _Cells, other: _Cells) -> float:
    return sum(float((one[each] * other[each]).sum()) for each in one)


def _steepest(sets: Sequence[Set], variances: Mapping[Block, float], attributes: Attributes) -> float:
    """Bound the largest eigenvalue of Σ_A V⁻¹·L_Aᵀ·L_A; without uneven levels it is attained."""
    totals: dict[Block, float] = {}
    for places in sets:
        for block in blocks_within(places, attributes):
            levels = dict(block)
            lengths = [_squared_shares(attributes, place, levels.get(place, 0)) for place in places]
            lengths += [len(own.differences) + 1 for own in (attributes[p].chain for p in places) if not own.even]
            totals[block] = totals.get(block, 0.0) + variances[block] * math.prod(lengths)
    return max(totals.values())


def _squared_shares(attributes: Attributes, place: int, level: int) -> float:
    """Bound how much longer cells are than the differences they are spread from, squared."""
    chain = attributes[place].chain
    if not level:
        return float((chain.shares**2).sum())
    each = chain.differences[level - 1]
    return float((np.add.reduceat(each.shares**2, each.starts) * each.noise**2).max())
