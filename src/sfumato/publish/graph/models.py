"""Graphical models: maximum-entropy counts for every combination of cells, given by fitted potentials.

Its joint table total · Π exp(potential) / Z is never built. The counts of each clique of its junction tree are
(belief propagation), and the counts of any other set follow exactly from the cliques between its attributes: given
what two neighbouring cliques share, what is on one side does not depend on what is on the other (Koller & Friedman
2009, ch. 10.3). Hundreds of sets are computed at once; what several of them need from a clique is summed once.

Belief propagation: compute the counts of every clique from potentials, in two passes over the junction tree.

A model's joint table is total · Π exp(potential) / Z. The first pass adds each clique's product up to what it shares
with its parent, children first; the second one rescales each clique to what its parent has there (Lauritzen &
Spiegelhalter 1988; Koller & Friedman 2009, ch. 10). Both keep tables of numbers, not of logarithms: every potential and
every message is scaled to a largest entry of 1, and products of numbers that are all above e^-600 neither overflow nor
vanish. A clique where that is not sure is added up as logarithms, scaled separately for each cell of what it shares
with its parent, so that nothing that matters is lost however extreme the potentials are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
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

Tables = dict[AttributeSet, Floats]
"""Tables by their attributes, laid out."""
_FEW = 3
"""The most parts of a clique that are not multiplied out."""
_DEEPEST = 600.0
"""Products of numbers between e^-600 and 1 are normal doubles."""


@dataclass(frozen=True, eq=False)
class LogFactor:
    """A potential or message, as logarithms of at most 0, with the depth of its least one that is not -∞."""

    attribute_set: AttributeSet
    logs: Floats
    depth: float

    @classmethod
    def from_logs(cls, attribute_set: AttributeSet, logs: Floats) -> LogFactor | None:
        """Scale logarithms to a largest one of 0; None where nothing is possible."""
        largest = float(logs.max())
        if largest == -np.inf:
            return None
        scaled = logs - largest
        least = float(scaled.min())
        return cls(attribute_set, scaled, -(least if least > -np.inf else float(scaled[scaled > -np.inf].min())))


class PropagationSchedule:
    """A schedule of belief propagation for one tree and the sets of its potentials; it is reused in every round."""

    def __init__(self, tree: JunctionTree, sizes: Sizes, sets: Sequence[AttributeSet]) -> None:
        self.tree, self.axes = tree, tuple(canonical_order(attribute_set, sizes) for attribute_set in tree.cliques)
        self.sets = tuple(canonical_order(attribute_set, sizes) for attribute_set in sets)
        self._shared = tuple(canonical_order(attribute_set, sizes) for attribute_set in tree.separators)
        self._homes = tuple(_smallest_clique_with(attribute_set, tree, sizes) for attribute_set in sets)
        self._merged = tuple(
            CliqueMerging.for_sets(axes, self._sets_of_clique(index), sizes) for index, axes in enumerate(self.axes)
        )
        self._sizes = sizes

    def clique_counts(self, potentials: Sequence[Floats], total: float) -> list[Floats]:
        """Compute the counts of every clique."""
        products, _ = self._propagate(potentials, total)
        return [merged.multiply_out(product) for merged, product in zip(self._merged, products, strict=True)]

    def potential_counts(self, potentials: Sequence[Floats], total: float) -> list[Floats]:
        """Compute the counts of each potential's set."""
        _, sums = self._propagate(potentials, total)
        sets_and_homes = zip(self.sets, self._homes, strict=True)
        return [sums[home][attribute_set] for attribute_set, home in sets_and_homes]

    def _sets_of_clique(self, index: int) -> list[AttributeSet]:
        """Return the sets that a clique multiplies and sums to: of potentials, of children, and of its parent."""
        potential_sets = [
            attribute_set for attribute_set, home in zip(self.sets, self._homes, strict=True) if home == index
        ]
        child_separators = [self._shared[child] for child, parent in enumerate(self.tree.parents) if parent == index]
        return [*potential_sets, *child_separators, self._shared[index]]

    def _propagate(self, potentials: Sequence[Floats], total: float) -> tuple[list[Tables], list[Tables]]:
        terms: list[list[LogFactor]] = [[] for _ in self.axes]
        for attribute_set, logs, home in zip(self.sets, potentials, self._homes, strict=True):
            terms[home].append(_require_possible(LogFactor.from_logs(attribute_set, logs)))
        products, sums = self._collect_upward(terms)
        return products, self._distribute_downward(products, sums, total)

    def _collect_upward(self, terms: list[list[LogFactor]]) -> tuple[list[Tables], list[Floats]]:
        """Multiply the terms of each clique, and add them up to what it shares with its parent."""
        products: list[Tables] = [{} for _ in self.axes]
        sums = [np.empty(0)] * len(self.axes)
        for index in reversed(range(len(self.axes))):
            products[index], shift = self._multiply_terms(index, terms[index])
            sums[index] = self._merged[index].sum_to(products[index], self._shared[index])
            with np.errstate(divide="ignore"):
                message = _require_possible(LogFactor.from_logs(self._shared[index], np.log(sums[index]) + shift))
            if self.tree.parents[index] >= 0:
                terms[self.tree.parents[index]].append(message)
        return products, sums

    def _multiply_terms(self, index: int, terms: list[LogFactor]) -> tuple[Tables, Floats | float]:
        """Multiply a clique's terms; return the product with the logarithm of what was divided by."""
        if sum(term.depth for term in terms) > _DEEPEST:
            axes, shared = self.axes[index], self._shared[index]
            table = np.zeros(table_shape(axes, self._sizes))
            shift = _exp_of_summed_logs(table, axes, shared, terms)
            return {axes: table}, shift
        return self._merged[index].multiply_into_parts([(term.attribute_set, np.exp(term.logs)) for term in terms]), 0.0

    def _distribute_downward(self, products: list[Tables], sums: list[Floats], total: float) -> list[Tables]:
        """Scale each clique to what its parent has, and sum it to all its sets."""
        sums_by_clique: list[Tables] = []
        for index, parent in enumerate(self.tree.parents):
            separator = self._shared[index]
            parent_sums = np.array(total) if parent < 0 else sums_by_clique[parent][separator]
            self._merged[index].rescale(products[index], separator, divide_or_zero(parent_sums, sums[index]))
            sums_by_clique.append(self._merged[index].sums_by_set(products[index]))
        return sums_by_clique


@dataclass(frozen=True)
class CliqueMerging:
    """A binary merging of a clique's sets, the smallest unions first, as long as these are not the whole clique.

    Products of terms go up this way to few parts of the clique, and sums go down it. Two or three parts are never
    multiplied out: the sum of a product A·B·C to the attributes of A is A times the sum of B·C, which is a product of
    matrices. Where there are more parts, or a term is of the whole clique, its table is the only part.
    """

    clique: AttributeSet
    parts: tuple[AttributeSet, ...]
    union_by_set: Mapping[AttributeSet, AttributeSet]
    """For each set, and each union, the larger one that it is joined into; first come those that are joined first."""
    sizes: Sizes

    @classmethod
    def for_sets(cls, top: AttributeSet, sets: Sequence[AttributeSet], sizes: Sizes) -> Self:
        """Decide what is joined with what; of unions with equally many cells the one of fewer attributes is first."""
        waiting = list(dict.fromkeys(sets))
        above: dict[AttributeSet, AttributeSet] = {}
        while len(waiting) > 1:
            pairs = (
                (canonical_order({*first, *second}, sizes), first, second) for first, second in combinations(waiting, 2)
            )
            union, *pair_sets = min(pairs, key=lambda pair: (_cell_count(pair[0], sizes), len(pair[0])))
            if union == top and top not in waiting and len(waiting) <= _FEW:
                return cls(top, tuple(waiting), above, sizes)
            above |= {attribute_set: union for attribute_set in pair_sets if attribute_set != union}
            waiting = [
                attribute_set for attribute_set in waiting if attribute_set not in pair_sets and attribute_set != union
            ]
            waiting.append(union)
        above |= {attribute_set: top for attribute_set in waiting if attribute_set != top}
        return cls(top, (top,), above, sizes)

    def multiply_into_parts(self, terms: Sequence[tuple[AttributeSet, Floats]]) -> Tables:
        """Multiply terms up to the parts."""
        waiting: dict[AttributeSet, list[tuple[AttributeSet, Floats]]] = {}
        for attribute_set, term in terms:
            waiting.setdefault(attribute_set, []).append((attribute_set, term))
        for attribute_set, union in self.union_by_set.items():
            if attribute_set in waiting:
                waiting.setdefault(union, []).append(
                    (attribute_set, _product(waiting.pop(attribute_set), attribute_set))
                )
        return {part: self._product_table(part, waiting.get(part, [])) for part in self.parts}

    def _product_table(self, part: AttributeSet, terms: list[tuple[AttributeSet, Floats]]) -> Floats:
        table = np.ones(table_shape(part, self.sizes))
        if len(terms) > 1:
            np.multiply(broadcast_to_attributes(terms[0][1], terms[0][0], part), _product(terms[1:], part), out=table)
        elif terms:
            table *= broadcast_to_attributes(terms[0][1], terms[0][0], part)
        return table

    def rescale(self, products: Tables, attribute_set: AttributeSet, factors: Floats) -> None:
        """Multiply by factors for the cells of one of the sets."""
        part = self._merged_part_with(attribute_set) if self.clique not in products else self.clique
        products[part] *= broadcast_to_attributes(factors, attribute_set, part)

    def multiply_out(self, products: Tables) -> Floats:
        """Multiply the parts out to the table of the whole clique."""
        if self.clique in products:
            return products[self.clique]
        table = np.ones(table_shape(self.clique, self.sizes))
        for attribute_set, product in products.items():
            table *= broadcast_to_attributes(product, attribute_set, self.clique)
        return table

    def sums_by_set(self, products: Tables) -> Tables:
        """Sum a product to every set."""
        sums_by_set = {part: self._sum_of_part(products, part) for part in self.parts}
        for attribute_set, union in reversed(list(self.union_by_set.items())):
            sums_by_set[attribute_set] = sum_to_attributes(sums_by_set[union], union, attribute_set)
        return sums_by_set

    def sum_to(self, products: Tables, attribute_set: AttributeSet) -> Floats:
        """Sum a product to one of the sets."""
        if attribute_set not in self.union_by_set:
            return self._sum_of_part(products, attribute_set)
        return sum_to_attributes(
            self.sum_to(products, self.union_by_set[attribute_set]), self.union_by_set[attribute_set], attribute_set
        )

    def _merged_part_with(self, attribute_set: AttributeSet) -> AttributeSet:
        while attribute_set in self.union_by_set:
            attribute_set = self.union_by_set[attribute_set]
        return attribute_set

    def _sum_of_part(self, products: Tables, part: AttributeSet) -> Floats:
        if self.clique in products:
            return sum_to_attributes(products[self.clique], self.clique, part)
        (first, first_table), *rest = (
            (attribute_set, table) for attribute_set, table in products.items() if attribute_set != part
        )
        shared_indices = tuple(
            attribute_index
            for attribute_index in part
            if attribute_index in first or any(attribute_index in attribute_set for attribute_set, _ in rest)
        )
        other_product = (
            multiply_and_sum(first_table, first, *rest[0][::-1], shared_indices, self.sizes)
            if rest
            else sum_to_attributes(first_table, first, shared_indices)
        )
        return products[part] * broadcast_to_attributes(other_product, shared_indices, part)


def _product(terms: Sequence[tuple[AttributeSet, Floats]], wider: AttributeSet) -> Floats:
    return reduce(np.multiply, (broadcast_to_attributes(term, attribute_set, wider) for attribute_set, term in terms))


def _exp_of_summed_logs(table: Floats, axes: AttributeSet, shared: AttributeSet, terms: list[LogFactor]) -> Floats:
    for term in terms:
        table += broadcast_to_attributes(term.logs, term.attribute_set, axes)
    largest = table.max(axis=tuple(axis for axis, attribute_index in enumerate(axes) if attribute_index not in shared))
    largest = np.where(largest == -np.inf, 0.0, largest)
    table -= broadcast_to_attributes(largest, shared, axes)
    np.exp(table, out=table)
    return np.asarray(largest)


def _smallest_clique_with(attribute_set: AttributeSet, tree: JunctionTree, sizes: Sizes) -> int:
    """Return the clique with the fewest cells that holds these attributes."""
    wanted_indices = set(attribute_set)
    candidates = [index for index, clique in enumerate(tree.cliques) if wanted_indices.issubset(clique)]
    if not candidates:
        raise InvalidParameter(
            "attribute_set", attribute_set, "attributes that are together in one clique of the junction tree"
        )
    return min(candidates, key=lambda index: np.prod(table_shape(tree.cliques[index], sizes), dtype=float))


def _require_possible(term: LogFactor | None) -> LogFactor:
    if term is None:
        raise InvalidParameter("zeros", ValueWords("every cell"), "a list that leaves at least one cell possible")
    return term


def _cell_count(attribute_set: AttributeSet, sizes: Sizes) -> int:
    return math.prod(table_shape(attribute_set, sizes))


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
