"""A graphical model gives counts for every combination of cells: the most even ones with the potentials it was fitted.

Its joint table total · Π exp(potential) / Z is never built. The counts of each clique of its junction tree are
(``calibrating``), and the counts of any other set follow exactly from the cliques that lie between its places: given
what two neighbouring cliques share, what is on one side does not depend on what is on the other (Koller & Friedman
2009, ch. 10.3). Hundreds of sets are asked at once; what several of them need from a clique is added up once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.publish.graph.calibrating import Propagation
from sfumato.publish.graph.tables import Floats, arranged, divided, joined, laid_out, laid_over, shape_of, summed
from sfumato.publish.graph.trees import JunctionTree, Set, Sizes, checked_places

_KEPT_CELLS = 6_000_000
"""How many cells of sums and messages are kept for the next sets, which often need the same."""


@dataclass(frozen=True, eq=False)
class Potential:
    """A potential has a number for the cells of some places; counts are multiplied by e to the power of it."""

    places: Set
    logs: Floats
    """Its axes are in the order of the places; -∞ for a cell that is impossible."""


@dataclass(frozen=True, eq=False)
class ConditionalTable:
    """This says how often new places have which cells, given the cells of places that were drawn before."""

    new: Set
    given: Set
    table: Floats
    """The counts of all combinations; its axes are those of ``given``, then those of ``new``."""


@dataclass(frozen=True, eq=False)
class GraphModel:
    """This is a model of a table's counts over all its attributes, with a total that is fixed."""

    sizes: Sizes
    tree: JunctionTree = field(repr=False)
    potentials: tuple[Potential, ...] = field(repr=False)
    total: float

    def __post_init__(self) -> None:
        if not 0 < self.total < math.inf:
            raise InvalidParameter("total", self.total, "a number above 0")

    @classmethod
    def of(cls, sizes: Sequence[int], potentials: Iterable[Potential], total: float) -> Self:
        """Build a model on the smallest tree for its potentials that is found."""
        own = tuple(potentials)
        return cls(tuple(sizes), JunctionTree.of([each.places for each in own], sizes), own, total)

    @cached_property
    def beliefs(self) -> tuple[Floats, ...]:
        """Find the counts of every clique, with axes in the order of its places."""
        return tuple(
            arranged(table, laid_out(clique, self.sizes), clique)
            for table, clique in zip(self.laid_tables, self.tree.cliques, strict=True)
        )

    @cached_property
    def laid_tables(self) -> tuple[Floats, ...]:
        """Find the counts of every clique, with axes as they are laid out."""
        propagation = Propagation(self.tree, self.sizes, [each.places for each in self.potentials])
        logs = [arranged(each.logs, each.places, laid_out(each.places, self.sizes)) for each in self.potentials]
        return tuple(propagation.tables(logs, self.total))

    @cached_property
    def _parts(self) -> _Parts:
        return _Parts(self)

    def marginal(self, places: Sequence[int]) -> Floats:
        """Give the counts of all combinations of these places' cells; axes are in the order in which they are named."""
        return self.marginals([places])[0]

    def marginals(self, sets: Sequence[Sequence[int]]) -> list[Floats]:
        """Give the counts of many sets at once; what they share is computed once."""
        asked = [checked_places(tuple(each), len(self.sizes), "set") for each in sets]
        laid = {frozenset(each): laid_out(each, self.sizes) for each in asked}
        found = {key: self._parts.marginal(places) for key, places in laid.items()}
        return [arranged(found[frozenset(each)], laid[frozenset(each)], each) for each in asked]

    def without(self, zeros: Iterable[tuple[Set, NDArray[np.bool_]]]) -> Self:
        """Condition the model on no row being in these cells: what is left is scaled up to the total.

        Each set lies within a clique. What is drawn from it raises ``InvalidParameter`` where nothing is left.
        """
        cut = [Potential(places, np.where(cells, -np.inf, 0.0)) for places, cells in zeros]
        return replace(self, potentials=(*self.potentials, *cut))

    def conditionals(self) -> tuple[ConditionalTable, ...]:
        """List what rows can be drawn from: each clique given what it shares with one before it."""
        return tuple(self._conditional(index) for index in range(len(self.tree.cliques)))

    def _conditional(self, index: int) -> ConditionalTable:
        clique, given = self.tree.cliques[index], self.tree.separators[index]
        new = tuple(place for place in clique if place not in given)
        return ConditionalTable(
            new, given, arranged(self.laid_tables[index], laid_out(clique, self.sizes), (*given, *new))
        )


class _Parts:
    """These are the sums of clique tables that some sets need, each computed once, from the smallest that has it."""

    def __init__(self, model: GraphModel) -> None:
        self._sizes, self._tree, self._total = model.sizes, model.tree, model.total
        self._sums = [
            {laid_out(clique, model.sizes): table}
            for clique, table in zip(model.tree.cliques, model.laid_tables, strict=True)
        ]
        self._messages: dict[tuple[int, int, frozenset[int]], tuple[Floats, Set]] = {}
        self._kept = 0
        self._components = _components(model.tree)

    def marginal(self, places: Set) -> Floats:
        """Multiply what the unconnected parts of the tree say about their own places."""
        found, held = np.array(self._total), set(places)
        done: Set = ()
        for cliques in self._components:
            own = held.intersection(*[{place for index in cliques for place in self._tree.cliques[index]}])
            if own:
                part = laid_out(tuple(own), self._sizes)
                wider = laid_out((*done, *part), self._sizes)
                counts = self._connected(cliques, part)
                share = counts if not done else divided(counts, np.array(self._total))
                found = laid_over(found, done, wider) * laid_over(share, part, wider) if done else counts
                done = wider
        return found

    def _connected(self, cliques: list[int], places: Set) -> Floats:
        held = set(places)
        holding = [index for index in cliques if held.issubset(self._tree.cliques[index])]
        if holding:
            best = min(holding, key=lambda index: math.prod(shape_of(self._tree.cliques[index], self._sizes)))
            return self.sum_of(best, places)
        nodes = _between(self._tree, cliques, held)
        root = min(nodes, key=lambda index: self._largest_branch(index, nodes, held)) if len(nodes) > 2 else nodes[0]
        return self._message(root, -1, nodes, held)[0]

    def _largest_branch(self, index: int, nodes: list[int], held: set[int]) -> int:
        """Count the cells of the wanted places that come from the same side of a clique, where these are most."""
        own = set(self._tree.cliques[index])
        around = (other for other in nodes if self._adjacent(index, other))
        sides = (self._wanted(other, index, nodes, held) - own for other in around)
        return max(math.prod(shape_of(tuple(side), self._sizes)) for side in sides)

    def _wanted(self, index: int, parent: int, nodes: list[int], held: set[int]) -> frozenset[int]:
        """List the wanted places on one side of the tree."""
        further = (other for other in nodes if other != parent and self._adjacent(index, other))
        own = held.intersection(self._tree.cliques[index])
        return frozenset(own.union(*(self._wanted(other, index, nodes, held) for other in further)))

    def _message(self, index: int, parent: int, nodes: list[int], held: set[int]) -> tuple[Floats, Set]:
        """Give the counts of the wanted places on this side of the tree, with what is shared with the parent."""
        others = [other for other in nodes if other != parent and self._adjacent(index, other)]
        up = self._between(index, parent) if parent >= 0 else set()
        needs = [self._between(index, other) for other in others]
        own = laid_out(held.intersection(self._tree.cliques[index]).union(up, *needs), self._sizes)
        table = self.sum_of(index, own)
        for at, other in enumerate(others):
            message, places = self._conditional(other, index, nodes, held)
            kept = laid_out({*own, *places} & held.union(up, *needs[at + 1 :]), self._sizes)
            table, own = joined(table, own, message, places, kept, self._sizes), kept
        return table, own

    def _conditional(self, index: int, parent: int, nodes: list[int], held: set[int]) -> tuple[Floats, Set]:
        """Give the wanted places on this side of the tree, given what is shared with the parent."""
        key = (index, parent, self._wanted(index, parent, nodes, held))
        if key not in self._messages:
            message, places = self._message(index, parent, nodes, held)
            shared = laid_out(self._between(index, parent), self._sizes)
            found = divided(message, laid_over(self.sum_of(index, shared), shared, places)), places
            if not self._keep(message.size):
                return found
            self._messages[key] = found
        return self._messages[key]

    def _keep(self, cells: int) -> bool:
        """Decide whether a table is kept for later sets: as long as it, and all that is kept, has few cells."""
        fits = self._kept + cells <= _KEPT_CELLS and 16 * cells <= _KEPT_CELLS
        self._kept += cells if fits else 0
        return fits

    def _adjacent(self, one: int, other: int) -> bool:
        return self._tree.parents[one] == other or self._tree.parents[other] == one

    def _between(self, one: int, other: int) -> set[int]:
        child = one if self._tree.parents[one] == other else other
        return set(self._tree.separators[child])

    def sum_of(self, index: int, places: Set) -> Floats:
        """Add a clique up to some of its places, from the smallest sum of it that has them."""
        sums = self._sums[index]
        if places not in sums:
            wanted = set(places)
            best = min((each for each in sums if wanted.issubset(each)), key=lambda each: sums[each].size)
            found = summed(sums[best], best, places)
            if not self._keep(found.size):
                return found
            sums[places] = found
        return sums[places]


def _components(tree: JunctionTree) -> list[list[int]]:
    found: list[list[int]] = []
    part: list[int] = []
    for index, parent in enumerate(tree.parents):
        part.append(len(found) if parent < 0 else part[parent])
        if parent < 0:
            found.append([])
        found[part[index]].append(index)
    return found


def _between(tree: JunctionTree, cliques: list[int], held: set[int]) -> list[int]:
    """Find the cliques without which some of these places would be missing or unconnected; parents come first."""
    nodes = list(cliques)
    while True:
        for index in nodes:
            around = [other for other in nodes if tree.parents[index] == other or tree.parents[other] == index]
            if len(around) == 1 and held.intersection(tree.cliques[index]) <= set(tree.cliques[around[0]]):
                nodes.remove(index)
                break
        else:
            return nodes
