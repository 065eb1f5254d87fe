"""Direct-revelation mechanisms over an environment, and facility-location environments to run them on.

A mechanism maps a profile of reports to a probability distribution over outcomes (a ``Law``). ε is for replace
neighbours, because a misreport replaces a report: a selection stated for add-remove neighbours counts twice.

Facility location on a line or a graph: a type is where a person lives, an outcome is the set of places built, a
reaction is which of them the person uses, and utility is 1 − distance/diameter. With two facilities a false address
can be held against a person (use the one nearest to the reported address); with one it cannot, and γ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from itertools import combinations
from typing import Any, Protocol, cast

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.games.environment import NEW_ENVIRONMENT, Environment, Law, law_from_probabilities, law_of_selection
from sfumato.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from sfumato.mechanisms.selection import ScoreSelection
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.numbers import Number, exact_integer
from sfumato.quick_dataclass import dataclass

Choice = Exponential | PermuteAndFlip | NoisyMax


class TruthRule(Protocol):
    """A mechanism with everything that deciding its truthfulness needs."""

    @property
    def environment(self) -> Environment: ...

    @property
    def curve(self) -> Curve | None:
        """The privacy curve of the outcome under replace neighbours; None when no guarantee is stated."""

    @property
    def anonymous(self) -> bool:
        """Whether exchanging the reports of two players changes nothing for the others."""

    def law(self, reports: tuple[int, ...]) -> Law: ...

    def expected_utility(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        """Return the expected utility under ``law`` of a player of type ``truth`` who reported ``report``."""

    def proven_bounds(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Return proven bounds on what misreporting gains and costs one member of a coalition of this size."""


@dataclass(frozen=True)
class WelfareSelection:
    """Selection of an outcome by reported welfare; players choose their own reactions.

    One player's utilities lie in [0, 1], so a player changes every outcome's welfare by at most 1, by joining (all
    scores go up: monotone) or by changing the report.
    """

    environment: Environment
    selection: Choice

    def __post_init__(self) -> None:
        if not isinstance(self.environment, Environment):
            raise InvalidParameter("environment", self.environment, "an Environment", fix=NEW_ENVIRONMENT)
        if not isinstance(self.selection, Choice) or self.selection.grid != self.selection.derived_grid:
            raise InvalidParameter("mechanism", self.selection, "Exponential or PermuteAndFlip, without a grid")
        is_replace = self.selection.neighbours is Neighbours.REPLACE
        welfare_sensitivity = self.environment.welfare_sensitivity if is_replace else _largest_utility(self.environment)
        if self.selection.sensitivity < welfare_sensitivity:
            raise InvalidParameter(
                "sensitivity",
                self.selection.sensitivity,
                f"at least {float(welfare_sensitivity):.6g}, by which one player can change an outcome's welfare",
            )
        law_of_selection(
            self.selection_in_units, [0, 1]
        )  # refuses a selection without an exact law before reports are taken

    @property
    def curve(self) -> Curve:
        return self.selection.curve().for_neighbours(Neighbours.REPLACE)

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    @property
    def selection_in_units(self) -> Choice:
        """The selection over welfare in units of 1/scale: these scores are integers and compared exactly."""
        return self.selection.in_parts(self.environment.scale)

    def law(self, reports: tuple[int, ...]) -> Law:
        return law_of_selection(self.selection_in_units, self.environment.welfare_in_units(reports))

    def expected_utility(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best_utilities(player)[truth]) / self.environment.scale

    def proven_bounds(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (total_variation(self.curve, coalition),) * 2

    def release(self, reports: Any) -> int:
        """Draw an outcome; return its index in ``environment.outcomes``."""
        return self.selection_in_units.choose(self.environment.welfare_in_units(reports))


@dataclass(frozen=True)
class StatedMechanism:
    """A finite mechanism given by a function from the tuple of reports to exact outcome probabilities."""

    environment: Environment
    probabilities: Callable[[tuple[int, ...]], Iterable[Number]]
    curve: Curve | None = None
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.curve is not None:
            if not isinstance(self.curve, Curve):
                raise InvalidParameter("curve", self.curve, "a Curve or None")
            object.__setattr__(self, "curve", self.curve.for_neighbours(Neighbours.REPLACE))

    def law(self, reports: tuple[int, ...]) -> Law:
        return law_from_probabilities(self.probabilities(reports), len(self.environment.outcomes))

    def expected_utility(self, law: Law, player: int, truth: int, _: int, /) -> Fraction:
        return law.mean(self.environment.best_utilities(player)[truth]) / self.environment.scale

    def proven_bounds(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        return (Fraction(1) if self.curve is None else total_variation(self.curve, coalition),) * 2


def total_variation(curve: Curve, units: int) -> Fraction:
    """Return the largest total variation distance when ``units`` reports are replaced: the curve's δ(0), rounded up."""
    return min(Fraction(1), Fraction(curve.group(units).delta(0)))


def as_rule(mechanism: Any, environment: Environment) -> TruthRule:
    """Return ``mechanism`` as a rule: a selection is run on welfare, a function states its own law."""
    if not isinstance(environment, Environment):
        raise InvalidParameter("game", environment, "an Environment", fix=NEW_ENVIRONMENT)
    if isinstance(mechanism, ScoreSelection):  # any: one without an exact law is refused there
        return WelfareSelection(environment, cast("Choice", mechanism))
    if hasattr(mechanism, "law") and hasattr(mechanism, "expected_utility"):
        if mechanism.environment != environment:
            raise InvalidParameter("game", environment, "the environment that the mechanism was made for")
        rule: TruthRule = mechanism
        return rule
    if callable(mechanism) and not isinstance(mechanism, type):
        return StatedMechanism(environment, mechanism)
    raise InvalidParameter("mechanism", mechanism, "a selection, a rule, or a function from reports to probabilities")


def _largest_utility(environment: Environment) -> Fraction:
    """Return the largest utility of any player."""
    players = range(1 if environment.symmetric else environment.players)
    return Fraction(max(max(row) for i in players for row in environment.best_utilities(i)), environment.scale)


_MAX_PLACES = 60
_MAX_OUTCOMES = 5000


def line(points: int, players: int, facilities: int = 2) -> Environment:
    """Return the facility-location environment of places 0 … points − 1 along a street.

    >>> line(4, players=10).gap.gamma
    Fraction(1, 3)
    """
    count = exact_integer(points, "points", at_least=2)
    if count > _MAX_PLACES:
        raise InvalidParameter("points", points, f"at most {_MAX_PLACES}")
    return _facility_location(
        tuple(range(count)), [[abs(i - j) for j in range(count)] for i in range(count)], players, facilities
    )


def graph(edges: Iterable[tuple[Hashable, Hashable]], players: int, facilities: int = 2) -> Environment:
    """Return the facility-location environment of a connected graph, with distances counted in edges.

    >>> graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], players=10)
    <Environment: 10 players, 4 types, 6 outcomes, 2 reactions>
    """
    try:
        pairs = [(a, b) for a, b in edges]
        nodes = tuple(dict.fromkeys(node for pair in pairs for node in pair))
    except (TypeError, ValueError):
        raise InvalidParameter(
            "edges", edges, "a list of pairs of nodes", fix='write [("a", "b"), ("b", "c")]'
        ) from None
    if not 2 <= len(nodes) <= _MAX_PLACES:
        raise InvalidParameter(
            "edges", ValueWords(f"{len(nodes)} nodes"), f"a list of pairs that connects 2 to {_MAX_PLACES} nodes"
        )
    node_index = {node: i for i, node in enumerate(nodes)}
    node_count = len(nodes)
    distances = [[0 if i == j else node_count for j in range(node_count)] for i in range(node_count)]
    for a, b in pairs:
        if a != b:
            distances[node_index[a]][node_index[b]] = distances[node_index[b]][node_index[a]] = 1
    for via in range(node_count):  # Floyd and Warshall's shortest paths
        for i in range(node_count):
            distances[i] = [
                min(direct, distances[i][via] + onward)
                for direct, onward in zip(distances[i], distances[via], strict=True)
            ]
    if max(max(row) for row in distances) >= node_count:
        fix = "add edges so that every node can be reached"
        raise InvalidParameter("edges", ValueWords("a graph in several parts"), "a connected graph", fix=fix)
    return _facility_location(nodes, distances, players, facilities)


def _facility_location(
    locations: tuple[Hashable, ...], distances: list[list[int]], players: int, facilities: int
) -> Environment:
    facility_count = exact_integer(facilities, "facilities", at_least=1)
    if facility_count > len(locations):
        raise InvalidParameter("facilities", facilities, f"at most the number of places, {len(locations)}")
    if math.comb(len(locations), facility_count) > _MAX_OUTCOMES:
        raise InvalidParameter("facilities", facilities, f"a number with at most {_MAX_OUTCOMES:,} possible placements")
    diameter = max(max(row) for row in distances)
    outcomes = list(combinations(range(len(locations)), facility_count))
    table = [
        [[1 - Fraction(distances[home][place], diameter) for place in placement] for placement in outcomes]
        for home in range(len(locations))
    ]
    outcome_names = [tuple(locations[place] for place in placement) for placement in outcomes]
    return Environment(table, players, locations, outcome_names, tuple(range(facility_count)))
