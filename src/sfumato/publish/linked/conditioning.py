"""Sample some columns of a graphical model given the others.

*Theorem.* Let the given columns lie in one clique. Rooted at that clique, the tree's conditionals draw the rest from
the model's distribution given these columns: each clique depends on what was drawn before only through what it shares
with its neighbour towards the root (running intersection; Koller & Friedman 2009, ch. 10.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import InvalidParameter
from sfumato.publish.graph.models import ConditionalTable, GraphicalModel
from sfumato.publish.graph.tables import transpose_to
from sfumato.publish.graph.trees import AttributeSet, JunctionTree


def conditional_distributions(model: GraphicalModel, given: Sequence[int]) -> tuple[ConditionalTable, ...]:
    """Return the conditionals of all other columns, in the order in which they are drawn."""
    root = model.tree.clique_index_with(given)
    if root is None:
        raise InvalidParameter("given", tuple(given), "columns that one clique of the model holds")
    conditionals = []
    for index, parent in _rooted_order(model.tree, root):
        shared = tuple(given) if parent is None else _shared_attributes(model.tree, index, parent)
        new = tuple(place for place in model.tree.cliques[index] if place not in shared)
        if new:
            table = transpose_to(model.beliefs[index], model.tree.cliques[index], (*shared, *new))
            conditionals.append(ConditionalTable(new, shared, table))
    return tuple(conditionals)


def _shared_attributes(tree: JunctionTree, index: int, neighbour: int) -> AttributeSet:
    """Return what a clique shares with a neighbour; with none in another component."""
    return tuple(place for place in tree.cliques[index] if place in tree.cliques[neighbour])


def _rooted_order(tree: JunctionTree, root: int) -> list[tuple[int, int | None]]:
    """Return the cliques from the root outwards, each with its neighbour towards the root; cliques of other components
    follow, in their own order.
    """
    neighbours: list[list[int]] = [[] for _ in tree.cliques]
    for index, parent in enumerate(tree.parents):
        if parent >= 0:
            neighbours[index].append(parent)
            neighbours[parent].append(index)
    order: list[tuple[int, int | None]] = [(root, None)]
    seen, visited = {root}, 0
    component_roots = [index for index, parent in enumerate(tree.parents) if parent < 0]
    while visited < len(tree.cliques):
        if visited == len(order):  # another component, which shares nothing with the root
            start = next(index for index in component_roots if index not in seen)
            seen.add(start)
            order.append((start, root))
        index = order[visited][0]
        following = [other for other in neighbours[index] if other not in seen]
        seen.update(following)
        order += [(other, index) for other in following]
        visited += 1
    return order
