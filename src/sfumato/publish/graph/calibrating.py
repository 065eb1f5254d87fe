"""Belief propagation turns potentials into the counts of every clique, in two passes over the junction tree.

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
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Self

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
        self.tree, self.axes = tree, tuple(laid_out(each, sizes) for each in tree.cliques)
        self.sets = tuple(laid_out(each, sizes) for each in sets)
        self._shared = tuple(laid_out(each, sizes) for each in tree.separators)
        self._homes = tuple(_home(each, tree, sizes) for each in sets)
        self._merged = tuple(Merging.of(axes, self._needed(index), sizes) for index, axes in enumerate(self.axes))
        self._tables = [np.empty(shape_of(each, sizes)) for each in self.axes]

    def run(self, potentials: Sequence[Floats], total: float) -> list[Floats]:
        """Find the counts of every clique. The tables are those of the last run: they are overwritten by the next."""
        self._run(potentials, total)
        return self._tables

    def counts(self, potentials: Sequence[Floats], total: float) -> list[Floats]:
        """Find the counts of each potential's set."""
        sums = self._run(potentials, total)
        pairs = zip(self.sets, self._homes, strict=True)
        return [sums[home][places] for places, home in pairs]

    def _needed(self, index: int) -> list[Set]:
        """List the sets that a clique multiplies and adds up to: of potentials, of children, and of its parent."""
        own = [places for places, home in zip(self.sets, self._homes, strict=True) if home == index]
        below = [self._shared[child] for child, parent in enumerate(self.tree.parents) if parent == index]
        return [*own, *below, self._shared[index]]

    def _run(self, potentials: Sequence[Floats], total: float) -> list[dict[Set, Floats]]:
        terms: list[list[Scaled]] = [[] for _ in self.axes]
        for places, logs, home in zip(self.sets, potentials, self._homes, strict=True):
            terms[home].append(_possible(Scaled.of(places, logs)))
        return self._distribute(self._collect(terms), total)

    def _collect(self, terms: list[list[Scaled]]) -> list[Floats]:
        sums: list[Floats] = [np.empty(0)] * len(self.axes)
        for index in reversed(range(len(self.axes))):
            shift = self._multiplied(index, terms[index])
            sums[index] = self._merged[index].sum_to(self._tables[index], self._shared[index])
            with np.errstate(divide="ignore"):
                message = _possible(Scaled.of(self._shared[index], np.log(sums[index]) + shift))
            if self.tree.parents[index] >= 0:
                terms[self.tree.parents[index]].append(message)
            terms[index] = []
        return sums

    def _multiplied(self, index: int, terms: list[Scaled]) -> Floats | float:
        """Fill a clique's table with the product of its terms, and give the logarithm of what it was divided by."""
        table, axes = self._tables[index], self.axes[index]
        if sum(each.depth for each in terms) > _DEEPEST:
            return _added_logs(table, axes, self._shared[index], terms)
        self._merged[index].multiply([(each.places, np.exp(each.logs)) for each in terms], table)
        return 0.0

    def _distribute(self, sums: list[Floats], total: float) -> list[dict[Set, Floats]]:
        found: list[dict[Set, Floats]] = []
        for index, parent in enumerate(self.tree.parents):
            own = self._shared[index]
            above = np.array(total) if parent < 0 else found[parent][own]
            self._tables[index] *= laid_over(divided(above, sums[index]), own, self.axes[index])
            found.append(self._merged[index].sums(self._tables[index]))
        return found


@dataclass(frozen=True)
class Merging:
    """A clique's sets are joined two by two, the smallest unions first, up to the whole clique.

    Products of terms go up this way and sums go down it, so that few steps touch the whole table.
    """

    top: Set
    above: Mapping[Set, Set]
    """For each set, and each union, the larger one that it is joined into; first come those that are joined first."""

    @classmethod
    def of(cls, top: Set, sets: Sequence[Set], sizes: Sizes) -> Self:
        """Decide what is joined with what; of unions with equally many cells the one of fewer places is first."""
        waiting = list(dict.fromkeys(each for each in sets if each != top))
        above: dict[Set, Set] = {}
        while waiting:
            pairs = ((laid_out({*one, *other}, sizes), one, other) for one, other in combinations(waiting, 2))
            alone = (top, waiting[0], waiting[0])
            union, *both = min(
                pairs, key=lambda pair: (math.prod(shape_of(pair[0], sizes)), len(pair[0])), default=alone
            )
            above |= {each: union for each in both if each != union}
            waiting = [each for each in waiting if each not in both and each != union]
            waiting += [union] if union != top else []
        return cls(top, above)

    def multiply(self, terms: Sequence[tuple[Set, Floats]], table: Floats) -> None:
        """Fill the table of the whole clique with the product of some terms."""
        waiting: dict[Set, list[tuple[Set, Floats]]] = {}
        for places, term in terms:
            waiting.setdefault(places, []).append((places, term))
        for places, union in self.above.items():
            if places in waiting:
                waiting.setdefault(union, []).append((places, _product(waiting.pop(places), places)))
        own = [laid_over(term, places, self.top) for places, term in waiting.get(self.top, ())]
        if len(own) < 2:
            table[...] = own[0] if own else 1.0
        else:
            np.multiply(own[0], own[1], out=table)
        for each in own[2:]:
            table *= each

    def sums(self, table: Floats) -> dict[Set, Floats]:
        """Add the table up to every set; the whole clique's is the table itself."""
        found = {self.top: table}
        for places, union in reversed(list(self.above.items())):
            found[places] = summed(found[union], union, places)
        return found

    def sum_to(self, table: Floats, places: Set) -> Floats:
        """Add the table up to one of the sets."""
        if places == self.top:
            return table.copy()
        union = self.above[places]
        return summed(table if union == self.top else self.sum_to(table, union), union, places)


def _product(terms: Sequence[tuple[Set, Floats]], wider: Set) -> Floats:
    return reduce(np.multiply, (laid_over(term, places, wider) for places, term in terms))


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


def _cells(places: Set, sizes: Sizes) -> int:
    return math.prod(shape_of(places, sizes))
