"""Belief propagation: compute the counts of every clique from potentials, in two passes over the junction tree.

A model's joint table is total · Π exp(potential) / Z. The first pass adds each clique's product up to what it shares
with its parent, children first; the second one rescales each clique to what its parent has there (Lauritzen &
Spiegelhalter 1988; Koller & Friedman 2009, ch. 10). Both keep tables of numbers, not of logarithms: every potential and
every message is scaled to a largest entry of 1, and products of numbers that are all above e^-600 neither overflow nor
vanish. A clique where that is not sure is added up as logarithms, scaled separately for each cell of what it shares
with its parent, so that nothing that matters is lost however extreme the potentials are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Self

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.publish.graph.trees import (
    AttributeSet,
    JunctionTree,
    Sizes,
    broadcast_to_attributes,
    canonical_order,
    divide_or_zero,
    multiply_and_sum,
    sum_to_attributes,
    table_shape,
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
