"""Walks of syntax trees, in a quarter of the time of the parser's own: lowering a question walks its tree often."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

N = TypeVar("N", bound=exp.Expr)


def list_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """List a tree's nodes breadth first, itself included, as ``tree.walk()`` yields them."""
    nodes = [tree]
    for node in nodes:  # grows meanwhile
        for value in node.args.values():
            if value is None or value.__class__ in _LEAVES:
                continue
            if isinstance(value, exp.Expr):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, exp.Expr)]
    return nodes


def find_nodes(tree: exp.Expr, *kinds: type[N]) -> list[N]:
    """List the nodes of some kinds, breadth first."""
    return [node for node in list_nodes(tree) if isinstance(node, kinds)]


def has_node(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Return whether a tree has a node of some kind, itself included."""
    return any(isinstance(node, kinds) for node in list_nodes(tree))


_LEAVES = frozenset([str, bool])
"""The usual values of arguments that are no nodes: ``isinstance`` of these takes most of a walk."""
