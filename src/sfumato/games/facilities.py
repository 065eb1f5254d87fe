"""Facilities are built on a line or a graph, and each person uses one of them: these are the environments.

A type is where a person lives, an outcome is the set of places built, a reaction is which of them the person uses, and
utility is 1 − distance/longest distance. With two facilities a false address can be held against a person (use the
one near where you said you live); with one it cannot, and γ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from fractions import Fraction
from itertools import combinations

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment
from sfumato.privacy.numbers import whole

_MOST_PLACES = 60
_MOST_OUTCOMES = 5000


def line(points: int, players: int, facilities: int = 2) -> Environment:
    """Make the environment of places 0 … points − 1 along a street.

    >>> line(4, players=10).gap.largest
    Fraction(1, 3)
    """
    count = whole(points, "points", at_least=2)
    if count > _MOST_PLACES:
        raise InvalidParameter("points", points, f"at most {_MOST_PLACES}")
    return _located(
        tuple(range(count)), [[abs(i - j) for j in range(count)] for i in range(count)], players, facilities
    )


def graph(edges: Iterable[tuple[Hashable, Hashable]], players: int, facilities: int = 2) -> Environment:
    """Make the environment of a connected graph's nodes, at distances in edges.

    >>> graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], players=10)
    <Environment: 10 players, 4 types, 6 outcomes, 2 reactions>
    """
    try:
        pairs = [(a, b) for a, b in edges]
        nodes = tuple(dict.fromkeys(node for pair in pairs for node in pair))
    except (TypeError, ValueError):
        raise InvalidParameter("edges", edges, "pairs of nodes") from None
    if not 2 <= len(nodes) <= _MOST_PLACES:
        raise InvalidParameter("edges", f"{len(nodes)} nodes", f"edges between 2 to {_MOST_PLACES} nodes")
    place = {node: i for i, node in enumerate(nodes)}
    far = len(nodes)
    steps = [[0 if i == j else far for j in range(far)] for i in range(far)]
    for a, b in pairs:
        if a != b:
            steps[place[a]][place[b]] = steps[place[b]][place[a]] = 1
    for via in range(far):
        for i in range(far):
            steps[i] = [min(d, steps[i][via] + more) for d, more in zip(steps[i], steps[via], strict=True)]
    if max(max(row) for row in steps) >= far:
        raise InvalidParameter("edges", "a graph in parts", "a connected graph")
    return _located(nodes, steps, players, facilities)


def _located(places: tuple[Hashable, ...], steps: list[list[int]], players: int, facilities: int) -> Environment:
    built = whole(facilities, "facilities", at_least=1)
    if built > len(places):
        raise InvalidParameter("facilities", facilities, f"at most the number of places, {len(places)}")
    if math.comb(len(places), built) > _MOST_OUTCOMES:
        raise InvalidParameter("facilities", facilities, f"few enough for at most {_MOST_OUTCOMES} ways to place them")
    longest = max(max(row) for row in steps)
    outcomes = list(combinations(range(len(places)), built))
    table = [
        [[1 - Fraction(steps[home][at], longest) for at in where] for where in outcomes] for home in range(len(places))
    ]
    names = [tuple(places[at] for at in where) for where in outcomes]
    return Environment(table, players, places, names, tuple(range(built)))
