"""Belief propagation turns potentials into the counts of every clique, in two passes over the junction tree.

A model's joint table is total · Π exp(potential) / Z. The first pass adds each clique's product up to what it shares
with its parent, children first; the second one rescales each clique to what its parent has there (Lauritzen &
Spiegelhalter 1988; Koller & Friedman 2009, ch. 10). Both keep tables of numbers, not of logarithms: every potential and
every message is scaled to a largest entry of 1, and products of numbers that are all above e^-600 neither overflow nor
vanish. A clique where that is not sure is added up as logarithms, scaled separately for each cell of what it shares
with its parent, so that nothing that matters is lost however extreme the potentials are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.publish.graph.tables import Floats, divided, laid_out, laid_over, shape_of, summed
from sfumato.publish.graph.trees import JunctionTree, Set, Sizes

_DEEPEST = 600.0
"""Products of numbers between e^-600 and 1 are ordinary numbers of 64 bits."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """This is a potential or message, as logarithms of at most 0, with the depth of its least one that is not -∞."""

    places: Set
    logs: Floats
    depth: float

    @classmethod
    def of(cls, places: Set, logs: Floats) -> Scaled | None:
        """Scale logarithms to a largest one of 0; there is none where nothing is possible."""
        largest = float(logs.max())
        if largest == -np.inf:
            return None
        scaled = logs - largest
        least = float(scaled.min())
        return cls(places, scaled, -(least if least > -np.inf else float(scaled[scaled > -np.inf].min())))


class Propagation:
    """This is the order of work for one tree and the sets of its potentials; its tables are used again and again."""

    def __init__(self, tree: JunctionTree, sizes: Sizes, sets: Sequence[Set]) -> None:
        self.tree, self.sizes = tree, sizes
        self.axes = tuple(laid_out(each, sizes) for each in tree.cliques)
        self.shared = tuple(laid_out(each, sizes) for each in tree.separators)
        self.sets = tuple(laid_out(each, sizes) for each in sets)
        self.homes = tuple(_home(each, tree, sizes) for each in sets)
        self._tables = [np.empty(shape_of(each, sizes)) for each in self.axes]

    def run(self, potentials: Sequence[Floats], total: float) -> list[Floats]:
        """Find the counts of every clique. The tables are those of the last run: they are overwritten by the next."""
        terms: list[list[Scaled]] = [[] for _ in self.axes]
        for places, logs, home in zip(self.sets, potentials, self.homes, strict=True):
            terms[home].append(_possible(Scaled.of(places, logs)))
        sums = self._collect(terms)
        self._distribute(sums, total)
        return self._tables

    def sums(self, wanted: Sequence[int]) -> list[Floats]:
        """Add the counts of the last run up to some of the sets, as copies, each from the smallest sum that has it."""
        found: dict[int, Floats] = {}
        for index in sorted(wanted, key=lambda index: -len(self.sets[index])):
            home, places = self.homes[index], self.sets[index]
            larger = [other for other in found if set(places) < set(self.sets[other])]
            best = min(larger, key=lambda other: found[other].size, default=-1)
            if best >= 0:
                found[index] = summed(found[best], self.sets[best], places)
            else:
                table = summed(self._tables[home], self.axes[home], places)
                found[index] = table.copy() if places == self.axes[home] else table
        return [found[index] for index in wanted]

    def _collect(self, terms: list[list[Scaled]]) -> list[Floats]:
        sums: list[Floats] = [np.empty(0)] * len(self.axes)
        for index in reversed(range(len(self.axes))):
            shift = self._multiplied(index, terms[index])
            own = sums[index] = summed(self._tables[index], self.axes[index], self.shared[index])
            with np.errstate(divide="ignore"):
                message = Scaled.of(self.shared[index], np.log(own) + shift)
            if self.tree.parents[index] >= 0:
                terms[self.tree.parents[index]].append(_possible(message))
            else:
                _possible(message)
            terms[index] = []
        return sums

    def _multiplied(self, index: int, terms: list[Scaled]) -> Floats | float:
        """Fill a clique's table with the product of its terms, and give the logarithm of what it was divided by."""
        table, axes = self._tables[index], self.axes[index]
        if sum(each.depth for each in terms) > _DEEPEST:
            return _added_logs(table, axes, self.shared[index], terms)
        factors = [laid_over(np.exp(each.logs), each.places, axes) for each in terms]
        table[...] = factors[0] if factors else 1.0
        for each in factors[1:]:
            table *= each
        return 0.0

    def _distribute(self, sums: list[Floats], total: float) -> None:
        for index, parent in enumerate(self.tree.parents):
            own = self.shared[index]
            above = np.array(total) if parent < 0 else summed(self._tables[parent], self.axes[parent], own)
            self._tables[index] *= laid_over(divided(above, sums[index]), own, self.axes[index])


def _added_logs(table: Floats, axes: Set, shared: Set, terms: list[Scaled]) -> Floats:
    table[...] = 0.0
    for each in terms:
        table += laid_over(each.logs, each.places, axes)
    largest = table.max(axis=tuple(at for at, place in enumerate(axes) if place not in shared))
    largest = np.where(largest == -np.inf, 0.0, largest)
    table -= laid_over(largest, shared, axes)
    np.exp(table, out=table)
    return np.asarray(largest)


def _home(places: Set, tree: JunctionTree, sizes: Sizes) -> int:
    """Find the clique with the fewest cells that holds these places."""
    wanted = set(places)
    holding = [index for index, clique in enumerate(tree.cliques) if wanted.issubset(clique)]
    if not holding:
        raise InvalidParameter("places", places, "a set that one clique of the tree holds")
    return min(holding, key=lambda index: np.prod(shape_of(tree.cliques[index], sizes), dtype=float))


def _possible(term: Scaled | None) -> Scaled:
    if term is None:
        raise InvalidParameter("zeros", "no cell is left", "cells of which at least one combination stays possible")
    return term
