"""Mechanism-design environments (players, types, outcomes, reactions, utilities) and exact outcome distributions.

A player of type t has utility u(t, s, r) in [0, 1] when the outcome is s and the player's reaction is r. Players choose
their best reaction; a report matters only through the outcome, unless a mechanism imposes the reaction that is best for
the reported type.

A ``Law`` is the exact distribution of a selection's outcome: integer weights over their sum. Rational probabilities are
exact, others are within ``error``, far below 10⁻⁵⁰, of the truth: e^ε is irrational for every rational ε ≠ 0.

Direct-revelation mechanisms over an environment, and facility-location environments to run them on.

A mechanism maps a profile of reports to a probability distribution over outcomes (a ``Law``). ε is for replace
neighbours, because a misreport replaces a report: a selection stated for add-remove neighbours counts twice.

Facility location on a line or a graph: a type is where a person lives, an outcome is the set of places built, a
reaction is which of them the person uses, and utility is 1 − distance/diameter. With two facilities a false address
can be held against a person (use the one nearest to the reported address); with one it cannot, and γ = 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from fractions import Fraction
from itertools import combinations
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Exponential, MaxNoise, NoisyMax, PermuteAndFlip, bits
from sfumato.mechanisms.selection import ScoreSelection, gaps_and_log_weight_per_step
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import PROBABILITY, Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass

Table = tuple[tuple[tuple[int, ...], ...], ...]
"""Utilities of one player by type, outcome and reaction, as integers in units of 1/scale."""
Matrix = tuple[tuple[int, ...], ...]

_MAX_ENTRIES = 2_000_000
_MAX_SCALE = 1 << 40
_MAX_WELFARE_UNITS = 1 << 60  # differences of welfare, as integers, stay within what a selection compares exactly


@dataclass(frozen=True)
class Gap:
    """The least cost of an imposed misreport: ``largest`` is γ, its cost at the worst outcome, and ``penalty`` its mean
    cost over all outcomes; ``player`` and ``types`` attain γ.
    """

    gamma: Fraction
    penalty: Fraction
    player: int
    types: tuple[int, int]

    __repr__ = constructor_repr


@dataclass(frozen=True)
class Environment:
    """Players with utilities in [0, 1], given as an array [type, outcome], [type, outcome, reaction], or with a first
    axis for the players when they differ.

    >>> Environment([[1, 0], ["0.2", 1]], players=3)
    <Environment: 3 players, 2 types, 2 outcomes, 1 reaction>
    """

    players: int
    types: tuple[Hashable, ...]
    outcomes: tuple[Hashable, ...]
    reactions: tuple[Hashable, ...]
    tables: tuple[Table, ...] = field(repr=False)
    """One table for all players, or one for each player."""
    scale: int = field(repr=False)

    def __init__(
        self,
        utilities: Any,
        players: int,
        types: Sequence[Hashable] | None = None,
        outcomes: Sequence[Hashable] | None = None,
        reactions: Sequence[Hashable] | None = None,
    ) -> None:
        count = exact_integer(players, "players", at_least=1)
        array = _utility_array(utilities, count)
        shape = array.shape
        labels = [
            _checked_names(names, size, name)
            for names, size, name in zip(
                (types, outcomes, reactions), shape[1:], ("types", "outcomes", "reactions"), strict=True
            )
        ]
        allowed = PROBABILITY.for_list
        numbers = [exact(utility, "utilities", allowed) for utility in array.ravel()]
        scale = math.lcm(*{utility.denominator for utility in numbers})
        if scale > _MAX_SCALE or scale * count > _MAX_WELFARE_UNITS:
            rule = "numbers with few decimals, because they are added up exactly"
            raise InvalidParameter(
                "utilities",
                ValueWords("numbers with too many decimals"),
                rule,
                fix="round the utilities, for example to 9 decimals",
            )
        units = iter([int(utility * scale) for utility in numbers])
        tables: tuple[Table, ...] = tuple(
            tuple(tuple(tuple(next(units) for _ in range(shape[3])) for _ in range(shape[2])) for _ in range(shape[1]))
            for _ in range(shape[0])
        )
        if len(tables) > 1 and len(set(tables)) == 1:
            tables = tables[:1]
        for name, value in (("players", count), ("tables", tables), ("scale", scale)):
            object.__setattr__(self, name, value)
        for name, checked_names in zip(("types", "outcomes", "reactions"), labels, strict=True):
            object.__setattr__(self, name, checked_names)

    @classmethod
    def from_function(
        cls,
        utility: Callable[..., Number],
        players: int,
        types: Sequence[Hashable],
        outcomes: Sequence[Hashable],
        reactions: Sequence[Hashable] | None = None,
    ) -> Environment:
        """Build an environment from ``utility(type, outcome)``, or ``utility(type, outcome, reaction)`` where there are
        reactions; the same for every player.
        """
        if not callable(utility):
            fix = "for example, pass lambda type, outcome: 1 if type == outcome else 0"
            raise InvalidParameter("utility", utility, "a function of a type and an outcome", fix=fix)
        type_names, outcome_names = _checked_names(types, None, "types"), _checked_names(outcomes, None, "outcomes")
        if reactions is None:
            return cls([[utility(t, s) for s in outcome_names] for t in type_names], players, type_names, outcome_names)
        reaction_names = _checked_names(reactions, None, "reactions")
        table = [[[utility(t, s, r) for r in reaction_names] for s in outcome_names] for t in type_names]
        return cls(table, players, type_names, outcome_names, reaction_names)

    @property
    def symmetric(self) -> bool:
        """Whether all players have the same utilities by type."""
        return len(self.tables) == 1

    def table(self, player: int) -> Table:
        return self.tables[0 if self.symmetric else player]

    @cached_property
    def _best_utilities(self) -> tuple[Matrix, ...]:
        return tuple(tuple(tuple(max(row) for row in rows) for rows in table) for table in self.tables)

    def best_utilities(self, player: int) -> Matrix:
        """Return the utilities [type, outcome] of a player under the best reaction, in units of 1/scale."""
        return self._best_utilities[0 if self.symmetric else player]

    @cached_property
    def _utilities_with_imposed_reaction(self) -> tuple[NDArray[np.int64], ...]:
        """Utilities [true type, report, outcome] when the reaction that is best for the report is imposed: the first of
        the best in a tie, a rule fixed in advance.
        """
        imposed = []
        for table in self.tables:
            array = np.array(table, np.int64)
            best_reaction = array.argmax(axis=2)
            imposed.append(np.stack([np.take_along_axis(rows, best_reaction.T, axis=1).T for rows in array]))
        return tuple(imposed)

    @cached_property
    def _summed_utilities_with_imposed_reaction(self) -> tuple[Matrix, ...]:
        return tuple(
            tuple(tuple(row) for row in array.sum(axis=2).tolist()) for array in self._utilities_with_imposed_reaction
        )

    def imposed_utilities(self, player: int) -> Matrix:
        """Return the utilities [true type, report] summed over outcomes, with the report's best reaction imposed."""
        return self._summed_utilities_with_imposed_reaction[0 if self.symmetric else player]

    @cached_property
    def gap(self) -> Gap | None:
        """γ = min over players and t ≠ t′ of max over s of u(t, s, r(t, s)) − u(t, s, r(t′, s)), with the least mean
        over s; None when there is one type only.
        """
        if len(self.types) < 2:
            return None
        is_misreport = ~np.eye(len(self.types), dtype=bool)
        losses = [
            np.array(best)[:, None, :] - imposed
            for best, imposed in zip(self._best_utilities, self._utilities_with_imposed_reaction, strict=True)
        ]
        largest_losses = [np.where(is_misreport, loss.max(axis=2), np.iinfo(np.int64).max) for loss in losses]
        player = min(range(len(largest_losses)), key=lambda i: int(largest_losses[i].min()))
        truth, report = (int(t) for t in np.unravel_index(int(largest_losses[player].argmin()), is_misreport.shape))
        penalty = Fraction(
            min(int(loss.sum(axis=2)[is_misreport].min()) for loss in losses), self.scale * len(self.outcomes)
        )
        return Gap(Fraction(int(largest_losses[player].min()), self.scale), penalty, player, (truth, report))

    @cached_property
    def welfare_sensitivity(self) -> Fraction:
        """The most that one player's misreport changes the welfare of an outcome."""
        columns = (column for best in self._best_utilities for column in zip(*best, strict=True))
        return Fraction(max(max(column) - min(column) for column in columns), self.scale)

    def welfare(self, reports: Sequence[int]) -> tuple[Fraction, ...]:
        """Return the sum of utilities at every outcome if the reports are true."""
        return tuple(Fraction(total, self.scale) for total in self.welfare_in_units(reports))

    def welfare_in_units(self, reports: Sequence[int]) -> tuple[int, ...]:
        """Return ``welfare`` as integers in units of 1/scale, which is public: a selection compares these exactly."""
        profile = self.profile(reports)
        if self.symmetric:
            rows_with_counts = [(self.best_utilities(0)[t], count) for t, count in Counter(profile).items()]
        else:
            rows_with_counts = [(self.best_utilities(i)[t], 1) for i, t in enumerate(profile)]
        return tuple(sum(row[s] * count for row, count in rows_with_counts) for s in range(len(self.outcomes)))

    def profile(self, reports: Any) -> tuple[int, ...]:
        """Check reports as type indices. An error message does not show them."""
        try:
            type_indices = tuple(int(report) if isinstance(report, (int, np.integer)) else -1 for report in reports)
        except TypeError:
            type_indices = ()
        if len(type_indices) != self.players or not all(0 <= t < len(self.types) for t in type_indices):
            rule = f"a list of {self.players} type numbers from 0 to {len(self.types) - 1}, one for each player"
            raise InvalidParameter(
                "reports",
                ValueWords("reports of another number or with other values"),
                rule,
                fix="write 0 for the first of environment.types, 1 for the second, and so on",
            )
        return type_indices

    def __repr__(self) -> str:
        sizes = (
            (self.players, "player"),
            *((len(getattr(self, n)), n[:-1]) for n in ("types", "outcomes", "reactions")),
        )
        return f"<Environment: {', '.join(f'{count} {name}' + 's' * (count != 1) for count, name in sizes)}>"


def _utility_array(utilities: Any, players: int) -> Any:
    """Return utilities as an object array with four axes: player, type, outcome, reaction."""
    rule = "an array indexed by [type][outcome], [type][outcome][reaction] or [player][type][outcome][reaction]"
    fix = "for two types and two outcomes, write [[1, 0], [0, 1]]"
    try:
        array = np.array(utilities, dtype=object)
    except ValueError:
        raise InvalidParameter("utilities", ValueWords("rows of different lengths"), rule, fix=fix) from None
    if array.ndim not in (2, 3, 4) or not array.size:
        raise InvalidParameter("utilities", ValueWords(f"an array of shape {array.shape}"), rule, fix=fix)
    if array.size > _MAX_ENTRIES:
        raise InvalidParameter(
            "utilities",
            ValueWords(f"{array.size:,} numbers"),
            f"an array of at most {_MAX_ENTRIES:,} numbers",
            fix="use fewer types, outcomes or reactions",
        )
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3:
        array = array[None]
    if array.shape[0] not in (1, players):
        raise InvalidParameter(
            "utilities",
            ValueWords(f"{array.shape[0]} tables"),
            f"one table for all players, or {players} tables, one for each player",
            fix="give one table if all players of a type have the same utilities",
        )
    return array


def _checked_names(names: Sequence[Hashable] | None, size: int | None, name: str) -> tuple[Hashable, ...]:
    if names is None:
        return tuple(range(size or 0))
    labels = tuple(names) if isinstance(names, (Sequence, np.ndarray)) and not isinstance(names, str) else ()
    hashable = all(isinstance(label, Hashable) for label in labels)
    if not labels or not hashable or len(set(labels)) != len(labels) or (size is not None and len(labels) != size):
        requirement = "different names" if size is None else f"{size} different names"
        is_repeated = len(set(labels)) != len(labels) if hashable else False
        examples = [f"{name[:-1]} {number}" for number in range(1, min(size or 2, 5) + 1)]
        fix = "" if is_repeated else f"for example, write {name}={examples}"
        raise InvalidParameter(name, names, f"a list of {requirement}", fix=fix)
    return labels


AN_ENVIRONMENT = "made with Environment(…), line(…) or graph(…)"
NEW_ENVIRONMENT = "for example, make one with Environment([[1, 0], [0, 1]], players=3)"
_DIGITS = 80
_UNIT = 10**70
MAX_CANDIDATES = 400


@dataclass(frozen=True)
class Law:
    """A distribution over outcomes: s has probability weights[s]/Σ weights, within ``error``."""

    weights: tuple[int, ...]
    error: Fraction = Fraction(0)
    payments: tuple[Fraction, ...] = ()
    """Expected payment of each player, or of each type in a symmetric environment; empty without money."""

    __repr__ = constructor_repr

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def mean(self, values: Sequence[int]) -> Fraction:
        """Return the expectation of a value per outcome."""
        return Fraction(sum(w * v for w, v in zip(self.weights, values, strict=True)), sum(self.weights))


def law_from_probabilities(probabilities: Iterable[Number], outcomes: int) -> Law:
    """Check a law given as probabilities in [0, 1] with sum 1, one for each outcome."""
    if not isinstance(probabilities, Iterable):
        raise InvalidParameter(
            "probabilities",
            probabilities,
            f"{outcomes} numbers that sum to exactly 1",
            fix='write exact fractions, such as "1/3"',
        )
    exact_probabilities = [exact(probability, "probability", PROBABILITY) for probability in probabilities]
    if len(exact_probabilities) != outcomes or sum(exact_probabilities) != 1:
        rule = f"{outcomes} numbers that sum to exactly 1"
        raise InvalidParameter(
            "probabilities",
            ValueWords(f"{len(exact_probabilities)} numbers that sum to {float(sum(exact_probabilities)):.16g}"),
            rule,
            fix='write exact fractions, such as "1/3"',
        )
    common_denominator = math.lcm(*(probability.denominator for probability in exact_probabilities))
    return Law(tuple(int(probability * common_denominator) for probability in exact_probabilities))


def law_of_selection(selection: ScoreSelection, scores: Sequence[Fraction | int]) -> Law:
    """Compute the law of a selection's choice among these scores, from the gaps and the rate that its sampler uses.

    Exponential (and noisy max with Gumbel noise): P(h) ∝ e^{−c·gap}. Permute-and-flip (and noisy max with exponential
    noise): candidate h comes at a uniform time t and is accepted with k_h = e^{−c·gap}; those before it were not
    accepted, so P(h) = k_h·∫₀¹ Π_{j≠h}(1 − t·k_j) dt.
    """
    gaps, rate = gaps_and_log_weight_per_step(list(scores), selection)
    if gaps.size > MAX_CANDIDATES:
        raise InvalidParameter(
            "outcomes",
            int(gaps.size),
            f"at most {MAX_CANDIDATES} in number, because their probabilities are computed exactly",
            fix=f"use an environment with {MAX_CANDIDATES} outcomes or fewer",
        )
    context = bits.decimal_context(_DIGITS)
    powers = [context.exp(bits.to_decimal(-rate * int(gap), context)) for gap in gaps]
    acceptance = [int(context.scaleb(power, 70)) for power in powers]  # units of 10⁻⁷⁰, at most one too few
    all_tied = all(gap == 0 for gap in gaps)
    kind: Any = selection.noise if isinstance(selection, NoisyMax) else type(selection)
    if kind in (Exponential, MaxNoise.GUMBEL):
        return Law(tuple(acceptance), Fraction(0) if all_tied else Fraction(2 * len(acceptance) + 2, _UNIT))
    if kind in (PermuteAndFlip, MaxNoise.EXPONENTIAL):
        if all_tied:
            return Law((1,) * len(acceptance))
        return _permute_and_flip_law(acceptance)
    raise InvalidParameter(
        "mechanism",
        selection,
        "Exponential or PermuteAndFlip",
        fix="write, for example, Exponential(1): the probabilities of other selections are not computed exactly",
    )


def _permute_and_flip_law(acceptance: list[int]) -> Law:
    """Compute the law of permute-and-flip: expand Π(1 − t·k_j) once, divide each factor out in turn, and integrate.

    Coefficients are below 2ⁿ and rounded n² times. 4n + 64 guard bits beyond the units of 10⁻⁷⁰ absorb that rounding,
    so the only error left is that each k_h may be one unit too small.
    """
    candidate_count = len(acceptance)
    guard_bits = 4 * candidate_count + 64
    unit = _UNIT << guard_bits
    factors = [k << guard_bits for k in acceptance]
    product = [unit]
    for k in factors:
        product = [a - b * k // unit for a, b in zip([*product, 0], [0, *product], strict=True)]
    weights = []
    for k in factors:
        quotient, integral = 0, 0
        for degree, coefficient in enumerate(product[:-1]):
            quotient = coefficient + quotient * k // unit
            integral += quotient // (degree + 1)
        weights.append(max(0, k * integral // unit >> guard_bits))
    return Law(tuple(weights), Fraction(8 * (candidate_count + 1) ** 2, _UNIT))


Choice = Exponential | PermuteAndFlip | NoisyMax


class TruthfulnessProblem(Protocol):
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
            raise InvalidParameter("environment", self.environment, AN_ENVIRONMENT, fix=NEW_ENVIRONMENT)
        if not isinstance(self.selection, Choice) or self.selection.grid != self.selection.derived_grid:
            fix = "for example, write Exponential(1), without grid"
            raise InvalidParameter(
                "mechanism", self.selection, "Exponential or PermuteAndFlip, without a grid", fix=fix
            )
        is_replace = self.selection.neighbours is Neighbours.REPLACE
        welfare_sensitivity = self.environment.welfare_sensitivity if is_replace else _largest_utility(self.environment)
        if self.selection.sensitivity < welfare_sensitivity:
            raise InvalidParameter(
                "sensitivity",
                self.selection.sensitivity,
                f"at least {float(welfare_sensitivity):.6g}, the most by which one player changes an outcome's welfare",
                fix=f"write sensitivity={float(welfare_sensitivity):.6g} in the mechanism",
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
                fix = "pass mechanism.curve(…), or leave out curve"
                raise InvalidParameter("curve", self.curve, "a privacy curve or None", fix=fix)
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


def as_truthfulness_problem(mechanism: Any, environment: Environment) -> TruthfulnessProblem:
    """Return ``mechanism`` with all that its truthfulness follows from: a selection is run on welfare, a function
    states its own law.
    """
    if not isinstance(environment, Environment):
        raise InvalidParameter("game", environment, AN_ENVIRONMENT, fix=NEW_ENVIRONMENT)
    if isinstance(mechanism, ScoreSelection):  # any: one without an exact law is refused there
        return WelfareSelection(environment, cast("Choice", mechanism))
    if hasattr(mechanism, "law") and hasattr(mechanism, "expected_utility"):
        if mechanism.environment != environment:
            rule = "the environment that the mechanism was made for"
            raise InvalidParameter("game", environment, rule, fix="pass mechanism.environment")
        problem: TruthfulnessProblem = mechanism
        return problem
    if callable(mechanism) and not isinstance(mechanism, type):
        return StatedMechanism(environment, mechanism)
    raise InvalidParameter(
        "mechanism",
        mechanism,
        "a selection mechanism (such as Exponential(1)), the result of exactly_truthful(…), or a function from reports "
        "to probabilities",
        fix="for example, pass Exponential(1)",
    )


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
            "edges", edges, "a list of pairs of nodes", fix='for example, write [("a", "b"), ("b", "c")]'
        ) from None
    if not 2 <= len(nodes) <= _MAX_PLACES:
        raise InvalidParameter(
            "edges",
            ValueWords(f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"),
            f"a list of pairs that connects 2 to {_MAX_PLACES} nodes",
            fix='for example, write [("a", "b"), ("b", "c")]',
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
        raise InvalidParameter("edges", ValueWords("a graph in several parts"), "those of a connected graph", fix=fix)
    return _facility_location(nodes, distances, players, facilities)


def _facility_location(
    locations: tuple[Hashable, ...], distances: list[list[int]], players: int, facilities: int
) -> Environment:
    facility_count = exact_integer(facilities, "facilities", at_least=1)
    if facility_count > len(locations):
        raise InvalidParameter("facilities", facilities, f"at most {len(locations)}, the number of places")
    if math.comb(len(locations), facility_count) > _MAX_OUTCOMES:
        rule = f"a number that can be placed in at most {_MAX_OUTCOMES:,} ways at the {len(locations):,} places"
        raise InvalidParameter("facilities", facilities, rule, fix="use fewer facilities, or fewer places")
    diameter = max(max(row) for row in distances)
    outcomes = list(combinations(range(len(locations)), facility_count))
    table = [
        [[1 - Fraction(distances[home][site], diameter) for site in placement] for placement in outcomes]
        for home in range(len(locations))
    ]
    outcome_names = [tuple(locations[site] for site in placement) for placement in outcomes]
    return Environment(table, players, locations, outcome_names, tuple(range(facility_count)))
