"""Rules are mechanisms over an environment: they lead from everybody's report to a law over outcomes.

ε here is for replace neighbours, because a misreport replaces a report: a selection priced add-remove counts twice.

Facilities are built on a line or a graph, and each person uses one of them: these are the environments.

A type is where a person lives, an outcome is the set of places built, a reaction is which of them the person uses, and
utility is 1 − distance/longest distance. With two facilities a false address can be held against a person (use the
one near where you said you live); with one it cannot, and γ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Protocol, cast

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Law, law_of, stated
from sfumato.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from sfumato.mechanisms.selection import Scored
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.numbers import Number, whole

Choice = Exponential | PermuteAndFlip | NoisyMax


class TruthRule(Protocol):
    """A rule is what the truthfulness of a mechanism is decided from."""

    @property
    def environment(self) -> Environment: ...

    @property
    def curve(self) -> Curve | None:
        """Give the curve of what the outcome leaks about one report, under replace neighbours; None when nothing is
        promised.
        """

    @property
    def anonymous(self) -> bool:
        """Tell whether exchanging the reports of two players changes nothing for the others."""

    def law(self, reports: tuple[int, ...]) -> Law: ...

    def value(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        """Give the expected utility of a player of type ``truth`` that said ``report``, when the law is this."""

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Say what theory promises: no member of a coalition of so many gains or loses more by misreporting."""


@dataclass(frozen=True)
class Welfare:
    """The outcome is selected by the welfare that the reports promise; reactions are free.

    One player's utilities lie in [0, 1], so it moves every outcome's welfare by at most 1, whether it joins (all up:
    monotone) or changes its report.
    """

    environment: Environment
    selection: Choice

    def __post_init__(self) -> None:
        if not isinstance(self.environment, Environment):
            raise InvalidParameter("environment", self.environment, "an Environment")
        if not isinstance(self.selection, Choice) or self.selection.grid != self.selection.derived_grid:
            raise InvalidParameter("mechanism", self.selection, "Exponential or PermuteAndFlip, without a grid")
        replaced = self.selection.neighbours is Neighbours.REPLACE
        moves = self.environment.spread if replaced else _largest(self.environment)
        if self.selection.sensitivity < moves:
            raise InvalidParameter(
                "sensitivity", self.selection.sensitivity, f"at least {float(moves):.6g}, what one player moves"
            )
        law_of(self.whole, [0, 1])  # refuses a selection without an exact law before anybody reports

    @property
    def curve(self) -> Curve:
        return self.selection.curve().for_neighbours(Neighbours.REPLACE)

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    @property
    def whole(self) -> Choice:
        """Give the selection of welfare in whole units of the environment, in which it is exact."""
        return self.selection.in_parts(self.environment.scale)

    def law(self, reports: tuple[int, ...]) -> Law:
        return law_of(self.whole, self.environment.totals(reports))

    def value(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best(player)[truth]) / self.environment.scale

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (variation(self.curve, coalition),) * 2

    def release(self, reports: Any) -> int:
        """Draw the outcome: its number in the environment's order."""
        return self.whole.choose(self.environment.totals(reports))


@dataclass(frozen=True)
class Stated:
    """A stated rule is any finite mechanism, as a function from the tuple of reports to exact probabilities of the
    outcomes.
    """

    environment: Environment
    probabilities: Callable[[tuple[int, ...]], Iterable[Number]]
    curve: Curve | None = None
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.curve is not None:
            if not isinstance(self.curve, Curve):
                raise InvalidParameter("curve", self.curve, "a Curve, or nothing")
            object.__setattr__(self, "curve", self.curve.for_neighbours(Neighbours.REPLACE))

    def law(self, reports: tuple[int, ...]) -> Law:
        return stated(self.probabilities(reports), len(self.environment.outcomes))

    def value(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best(player)[truth]) / self.environment.scale

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (Fraction(1) if self.curve is None else variation(self.curve, coalition),) * 2


def variation(curve: Curve, units: int) -> Fraction:
    """Give the largest total variation when so many reports are replaced: the curve's δ(0), rounded up."""
    return min(Fraction(1), Fraction(curve.group(units).delta(0)))


def rule_of(mechanism: Any, environment: Environment) -> TruthRule:
    """A selection chooses by welfare; a function states its own law; a rule stays what it is."""
    if not isinstance(environment, Environment):
        raise InvalidParameter("game", environment, "an Environment")
    if isinstance(mechanism, Scored):  # any: one without an exact law is refused there
        return Welfare(environment, cast("Choice", mechanism))
    if hasattr(mechanism, "law") and hasattr(mechanism, "value"):
        if mechanism.environment != environment:
            raise InvalidParameter("game", environment, "the environment that the mechanism was made for")
        found: TruthRule = mechanism
        return found
    if callable(mechanism) and not isinstance(mechanism, type):
        return Stated(environment, mechanism)
    raise InvalidParameter("mechanism", mechanism, "a selection, a rule, or a function from reports to probabilities")


def _largest(environment: Environment) -> Fraction:
    players = range(1 if environment.symmetric else environment.players)
    return Fraction(max(max(row) for i in players for row in environment.best(i)), environment.scale)


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
