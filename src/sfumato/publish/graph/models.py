"""Graphical models: maximum-entropy counts for every combination of cells, given by fitted potentials.

Its joint table total · Π exp(potential) / Z is never built. The counts of each clique of its junction tree are
(``calibrating``), and the counts of any other set follow exactly from the cliques between its attributes: given
what two neighbouring cliques share, what is on one side does not depend on what is on the other (Koller & Friedman
2009, ch. 10.3). Hundreds of sets are computed at once; what several of them need from a clique is summed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.publish.graph.calibrating import PropagationSchedule
from sfumato.publish.graph.trees import (
    AttributeSet,
    JunctionTree,
    Sizes,
    broadcast_to_attributes,
    canonical_order,
    divide_or_zero,
    multiply_and_sum,
    parse_attribute_indices,
    sum_to_attributes,
    table_shape,
    transpose_to,
)
from sfumato.quick_dataclass import dataclass

_MAX_CACHED_CELLS = 6_000_000
"""The most cells of cached sums and messages, which later sets often need again."""


@dataclass(frozen=True, eq=False)
class Potential:
    """A log-linear factor over the cells of some attributes; counts are multiplied by e to the power of it."""

    attribute_set: AttributeSet
    logs: Floats
    """Axes are in the order of the attributes; -∞ for an impossible cell."""


@dataclass(frozen=True, eq=False)
class ConditionalTable:
    """The counts of cells of new attributes, given the cells of attributes that were drawn before."""

    new: AttributeSet
    given: AttributeSet
    table: Floats
    """The counts of all combinations; its axes are those of ``given``, then those of ``new``."""


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A graphical model of a table's counts over all its attributes, with a fixed total."""

    sizes: Sizes
    tree: JunctionTree = field(repr=False)
    potentials: tuple[Potential, ...] = field(repr=False)
    total: float

    def __post_init__(self) -> None:
        if not 0 < self.total < math.inf:
            raise InvalidParameter("total", self.total, "a number above 0")

    @classmethod
    def from_potentials(cls, sizes: Sequence[int], potentials: Iterable[Potential], total: float) -> Self:
        """Build a model on the smallest tree for its potentials that is found."""
        model_potentials = tuple(potentials)
        return cls(
            tuple(sizes),
            JunctionTree.for_sets([potential.attribute_set for potential in model_potentials], sizes),
            model_potentials,
            total,
        )

    @cached_property
    def beliefs(self) -> tuple[Floats, ...]:
        """The counts of every clique, with axes in the order of its attributes."""
        return tuple(
            transpose_to(table, canonical_order(clique, self.sizes), clique)
            for table, clique in zip(self.canonical_beliefs, self.tree.cliques, strict=True)
        )

    @cached_property
    def canonical_beliefs(self) -> tuple[Floats, ...]:
        """The counts of every clique, with axes as they are laid out."""
        propagation = PropagationSchedule(
            self.tree, self.sizes, [potential.attribute_set for potential in self.potentials]
        )
        logs = [
            transpose_to(potential.logs, potential.attribute_set, canonical_order(potential.attribute_set, self.sizes))
            for potential in self.potentials
        ]
        return tuple(propagation.clique_counts(logs, self.total))

    @cached_property
    def _clique_sums(self) -> _CliqueSums:
        return _CliqueSums(self)

    def marginal(self, attribute_set: Sequence[int]) -> Floats:
        """Return the counts of all combinations of these attributes' cells; axes are in the order of the argument."""
        return self.marginals([attribute_set])[0]

    def marginals(self, sets: Sequence[Sequence[int]]) -> list[Floats]:
        """Return the counts of many sets at once; what they share is computed once."""
        checked_sets = [parse_attribute_indices(tuple(attribute_set), len(self.sizes), "set") for attribute_set in sets]
        ordered_indices = {
            frozenset(attribute_set): canonical_order(attribute_set, self.sizes) for attribute_set in checked_sets
        }
        counts_by_set = {key: self._clique_sums.marginal(laid) for key, laid in ordered_indices.items()}
        return [
            transpose_to(
                counts_by_set[frozenset(attribute_set)], ordered_indices[frozenset(attribute_set)], attribute_set
            )
            for attribute_set in checked_sets
        ]

    def conditioned_on_zeros(self, zeros: Iterable[tuple[AttributeSet, NDArray[np.bool_]]]) -> Self:
        """Condition the model on no row being in these cells: the rest is scaled up to the total.

        Each set lies within a clique. Sampling from the result raises ``InvalidParameter`` if no cell is left.
        """
        cut = [Potential(attribute_set, np.where(cells, -np.inf, 0.0)) for attribute_set, cells in zeros]
        return replace(self, potentials=(*self.potentials, *cut))

    def conditionals(self) -> tuple[ConditionalTable, ...]:
        """Return the conditionals that rows are sampled from: each clique given what it shares with an earlier one."""
        return tuple(self._conditional(index) for index in range(len(self.tree.cliques)))

    def _conditional(self, index: int) -> ConditionalTable:
        clique, given = self.tree.cliques[index], self.tree.separators[index]
        new = tuple(attribute_index for attribute_index in clique if attribute_index not in given)
        return ConditionalTable(
            new, given, transpose_to(self.canonical_beliefs[index], canonical_order(clique, self.sizes), (*given, *new))
        )


class _CliqueSums:
    """Sums of clique tables that some sets need, each computed once, from the smallest that has it."""

    def __init__(self, model: GraphicalModel) -> None:
        self._sizes, self._tree, self._total = model.sizes, model.tree, model.total
        self._sums = [
            {canonical_order(clique, model.sizes): table}
            for clique, table in zip(model.tree.cliques, model.canonical_beliefs, strict=True)
        ]
        self._messages: dict[tuple[int, int, frozenset[int]], tuple[Floats, AttributeSet]] = {}
        self._cached_cells = 0
        self._components = _components(model.tree)

    def marginal(self, attribute_set: AttributeSet) -> Floats:
        """Multiply the counts that the unconnected components of the tree have of their own attributes."""
        product, wanted_indices = np.array(self._total), set(attribute_set)
        joined_set: AttributeSet = ()
        for cliques in self._components:
            component_indices = wanted_indices.intersection(
                *[{attribute_index for index in cliques for attribute_index in self._tree.cliques[index]}]
            )
            if component_indices:
                part = canonical_order(tuple(component_indices), self._sizes)
                wider = canonical_order((*joined_set, *part), self._sizes)
                counts = self._connected_marginal(cliques, part)
                share = counts if not joined_set else divide_or_zero(counts, np.array(self._total))
                product = (
                    broadcast_to_attributes(product, joined_set, wider) * broadcast_to_attributes(share, part, wider)
                    if joined_set
                    else counts
                )
                joined_set = wider
        return product

    def _connected_marginal(self, cliques: list[int], attribute_set: AttributeSet) -> Floats:
        wanted_indices = set(attribute_set)
        candidates = [index for index in cliques if wanted_indices.issubset(self._tree.cliques[index])]
        if candidates:
            best = min(candidates, key=lambda index: math.prod(table_shape(self._tree.cliques[index], self._sizes)))
            return self.sum_of(best, attribute_set)
        nodes = _connecting_cliques(self._tree, cliques, wanted_indices)
        root = (
            min(nodes, key=lambda index: self._max_requested_cells_on_side(index, nodes, wanted_indices))
            if len(nodes) > 2
            else nodes[0]
        )
        return self._message(root, -1, nodes, wanted_indices)[0]

    def _max_requested_cells_on_side(
        self, clique: int, connecting_cliques: list[int], requested_indices: set[int]
    ) -> int:
        """Return the largest number of cells of requested attributes that come from one side of a clique."""
        clique_indices = set(self._tree.cliques[clique])
        neighbours = (other for other in connecting_cliques if self._are_adjacent(clique, other))
        sides = (
            self._requested_on_side(other, clique, connecting_cliques, requested_indices) - clique_indices
            for other in neighbours
        )
        return max(math.prod(table_shape(tuple(side), self._sizes)) for side in sides)

    def _requested_on_side(self, index: int, parent: int, nodes: list[int], requested: set[int]) -> frozenset[int]:
        """Return the requested attributes on one side of the tree."""
        further = (other for other in nodes if other != parent and self._are_adjacent(index, other))
        clique_requested = requested.intersection(self._tree.cliques[index])
        return frozenset(
            clique_requested.union(*(self._requested_on_side(other, index, nodes, requested) for other in further))
        )

    def _message(self, index: int, parent: int, nodes: list[int], requested: set[int]) -> tuple[Floats, AttributeSet]:
        """Return the counts of the requested attributes on this side of the tree, with those shared with the parent."""
        others = [other for other in nodes if other != parent and self._are_adjacent(index, other)]
        parent_separator = self._separator(index, parent) if parent >= 0 else set()
        separators = [self._separator(index, other) for other in others]
        table_set = canonical_order(
            requested.intersection(self._tree.cliques[index]).union(parent_separator, *separators), self._sizes
        )
        table = self.sum_of(index, table_set)
        for position, other in enumerate(others):
            message, attribute_set = self._conditional(other, index, nodes, requested)
            remaining_set = canonical_order(
                {*table_set, *attribute_set} & requested.union(parent_separator, *separators[position + 1 :]),
                self._sizes,
            )
            table, table_set = (
                multiply_and_sum(table, table_set, message, attribute_set, remaining_set, self._sizes),
                remaining_set,
            )
        return table, table_set

    def _conditional(
        self, index: int, parent: int, nodes: list[int], requested: set[int]
    ) -> tuple[Floats, AttributeSet]:
        """Return the requested attributes on this side of the tree, given what is shared with the parent."""
        key = (index, parent, self._requested_on_side(index, parent, nodes, requested))
        if key not in self._messages:
            message, attribute_set = self._message(index, parent, nodes, requested)
            shared = canonical_order(self._separator(index, parent), self._sizes)
            conditional = (
                divide_or_zero(message, broadcast_to_attributes(self.sum_of(index, shared), shared, attribute_set)),
                attribute_set,
            )
            if not self._reserve_cache(message.size):
                return conditional
            self._messages[key] = conditional
        return self._messages[key]

    def _reserve_cache(self, cells: int) -> bool:
        """Return whether a table is cached for later sets: as long as it, and all that is cached, has few cells."""
        fits = self._cached_cells + cells <= _MAX_CACHED_CELLS and 16 * cells <= _MAX_CACHED_CELLS
        self._cached_cells += cells if fits else 0
        return fits

    def _are_adjacent(self, first: int, second: int) -> bool:
        return self._tree.parents[first] == second or self._tree.parents[second] == first

    def _separator(self, first: int, second: int) -> set[int]:
        child = first if self._tree.parents[first] == second else second
        return set(self._tree.separators[child])

    def sum_of(self, index: int, attribute_set: AttributeSet) -> Floats:
        """Sum a clique to some of its attributes, from the smallest sum of it that has them."""
        sums = self._sums[index]
        if attribute_set not in sums:
            wanted_indices = set(attribute_set)
            source_set = min(
                (candidate for candidate in sums if wanted_indices.issubset(candidate)),
                key=lambda candidate: sums[candidate].size,
            )
            summed = sum_to_attributes(sums[source_set], source_set, attribute_set)
            if not self._reserve_cache(summed.size):
                return summed
            sums[attribute_set] = summed
        return sums[attribute_set]


def _components(tree: JunctionTree) -> list[list[int]]:
    components: list[list[int]] = []
    component_of: list[int] = []
    for index, parent in enumerate(tree.parents):
        component_of.append(len(components) if parent < 0 else component_of[parent])
        if parent < 0:
            components.append([])
        components[component_of[index]].append(index)
    return components


def _connecting_cliques(tree: JunctionTree, cliques: list[int], requested: set[int]) -> list[int]:
    """Return the cliques without which some of these attributes would be missing or unconnected; parents come first."""
    nodes = list(cliques)
    while True:
        for index in nodes:
            around = [other for other in nodes if tree.parents[index] == other or tree.parents[other] == index]
            if len(around) == 1 and requested.intersection(tree.cliques[index]) <= set(tree.cliques[around[0]]):
                nodes.remove(index)
                break
        else:
            return nodes
