"""Small environments, by hand and at random, and an independent reckoning of what a misreport gains."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st

from sfumato import games

HAND = {
    "majority": games.Environment([[1, 0], [0, 1]], players=3),
    "one player": games.Environment([[1, 0], [0, 1]], players=1),
    "three wishes": games.Environment([[1, 0, 0], [0, 1, 0], [0, 0, 1]], players=2),
    "second best": games.Environment([[1, "0.6", 0], ["0.1", 1, "0.5"], [0, "0.3", 1]], players=3),
    "indifferent": games.Environment([["1/3", "1/3"], ["1/3", "1/3"]], players=3),
    "ties": games.Environment([[1, 1, 0], [1, 0, 1], [0, 1, 1]], players=2),
    "unequal": games.Environment(
        [[[[1], [0]], [[0], [1]]], [[["1/2"], ["1/4"]], [[0], ["3/4"]]], [[["1/5"], [1]], [[1], [0]]]], players=3
    ),
    "line of 3": games.line(3, players=3),
    "line of 4": games.line(4, players=2),
    "one facility": games.line(3, players=3, facilities=1),
    "square": games.graph([(0, 1), (1, 2), (2, 3), (3, 0)], players=2),
    "star": games.graph([("hub", name) for name in "abc"], players=2),
}


@st.composite
def environments(draw: st.DrawFn, most_types: int = 3, reactions: bool = False) -> games.Environment:
    types, outcomes = draw(st.integers(2, most_types)), draw(st.integers(1, 4))
    moves = draw(st.integers(1, 3)) if reactions else 1
    players = draw(st.integers(1, 3))
    tables = draw(st.sampled_from([1, players]))
    unit = draw(st.sampled_from([1, 4, 10, 21]))
    count = tables * types * outcomes * moves
    flat = draw(st.lists(st.integers(0, unit), min_size=count, max_size=count))
    array = np.array([Fraction(x, unit) for x in flat], dtype=object).reshape(tables, types, outcomes, moves)
    return games.Environment(array, players)


def exponential(scores: list[Fraction], rate: Fraction, exp: Any = mpmath.exp) -> list[Any]:
    weights = [exp(_real(rate * (s - max(scores)), exp)) for s in scores]
    return [w / sum(weights) for w in weights]


def flipped(scores: list[Fraction], rate: Fraction, exp: Any = mpmath.exp) -> list[Any]:
    """Permute-and-flip as it is told: every order, one coin after the other."""
    keep = [exp(_real(rate * (s - max(scores)), exp)) for s in scores]
    law = [0 * k for k in keep]
    for order in itertools.permutations(range(len(scores))):
        left = 1
        for h in order:
            law[h] += left * keep[h]
            left *= 1 - keep[h]
    return [p / math.factorial(len(scores)) for p in law]


def _real(value: Fraction, exp: Any) -> Any:
    return float(value) if exp is math.exp else mpmath.mpf(value.numerator) / value.denominator


def best_gain(environment: games.Environment, law: Any, rate: Fraction) -> tuple[float, float]:
    """The largest gain and the largest cost over every player, profile and misreport, by plain loops over floats."""
    kinds = range(len(environment.types))

    def utility(i: int, t: int, s: int) -> float:
        return max(environment.table(i)[t][s]) / environment.scale

    def chances(reports: tuple[int, ...]) -> list[float]:
        outcomes = range(len(environment.outcomes))
        scores = [
            sum(
                (Fraction(max(environment.table(i)[t][s]), environment.scale) for i, t in enumerate(reports)),
                Fraction(0),
            )
            for s in outcomes
        ]
        return list(law(scores, rate, math.exp))

    laws = {types: chances(types) for types in itertools.product(kinds, repeat=environment.players)}
    gains = [
        sum(
            (laws[(*types[:i], lie, *types[i + 1 :])][s] - p) * utility(i, types[i], s)
            for s, p in enumerate(laws[types])
        )
        for types in laws
        for i in range(environment.players)
        for lie in kinds
        if lie != types[i]
    ]
    return max(gains), -min(gains)
