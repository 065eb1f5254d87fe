"""The largest gain from misreporting, computed exactly, and the bound that differential privacy implies.

Theorem. If the outcome's law moves by at most τ in total variation when one report is replaced, and utilities lie
in [0, 1] and depend on the report only through the outcome, no misreport gains or costs more than τ. For a
mechanism with a curve τ = δ(0): tanh(ε/2) for ε-DP (McSherry & Talwar 2007 state e^ε − 1, Dwork & Roth 2014 §10.1
2ε), tanh(ε/4) for the exponential mechanism, whose loss spans only ε. A coalition of k replaces k reports: the
curve of k units. Proof: E_P[u] − E_Q[u] ≤ Σ max(0, P − Q) = δ(0). ∎ As tanh(x/2) ≤ x/2, the bound 2kε holds for
every ε, also where e^{kε} − 1 is above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Law, TruthfulnessProblem, as_truthfulness_problem, total_variation
from sfumato.mechanisms import bits
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.numbers import exact_integer
from sfumato.quick_dataclass import dataclass

Interval = tuple[Fraction, Fraction]
Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The misreporting players, all true types, and the types that those players report instead."""

_MAX_CASES = 200_000


@dataclass(frozen=True)
class Misreport:
    """A joint misreport: the players, everybody's true type, and the false reports."""

    players: tuple[int, ...]
    types: tuple[int, ...]
    """Everybody's true type."""
    reports: tuple[int, ...]
    """The types that ``players`` report instead, in the same order."""


@dataclass(frozen=True, repr=False)
class Truthfulness:
    """The largest gain and the largest cost of any misreport, over all players, types and reports."""

    gain: Interval
    """Bounds on the largest gain of a player who misreports, alone or in a coalition; below 0 when truth is strictly
    best."""
    cost: Interval
    """Bounds on the largest loss by misreporting."""
    proven_bounds: tuple[Fraction, Fraction]
    """The proven bounds for this mechanism: on the gain and on the cost."""
    witness: Misreport
    coalition: int
    curve: Curve | None
    exact: bool
    """Whether every case was enumerated; otherwise the upper ends are the theorem's."""

    @property
    def strict(self) -> bool:
        """Whether every misreport is provably worse than the truth."""
        return self.gain[1] < 0

    @property
    def truthful(self) -> bool:
        """Whether no misreport provably gains."""
        return self.gain[0] <= 0

    @property
    def bounds(self) -> dict[str, float]:
        """Theoretical bounds on the gain: the curve's own δ(0) first, then tanh(kε/2), e^{kε} − 1 and 2kε."""
        return bounds(self.curve, self.coalition)

    @property
    def holds(self) -> bool:
        """Whether the gain and the cost are within the proven bounds."""
        return self.gain[0] <= self.proven_bounds[0] and self.cost[0] <= self.proven_bounds[1]

    def __repr__(self) -> str:
        return f"<Truthfulness: gain {float(self.gain[0]):.6g}, cost {float(self.cost[0]):.6g}, exact {self.exact}>"

    def __str__(self) -> str:
        nobody = "no player" if self.coalition == 1 else f"no member of a coalition of {self.coalition}"
        method = "exact, over all cases" if self.exact else "the best of the samples; the bound covers the other cases"
        lines = [
            f"the best misreport gains {float(self.gain[0]):.6g} ({method}); the worst costs {float(self.cost[0]):.6g}"
        ]
        if self.strict:
            lines.append("truth is strictly best, whatever the others report")
        lines += [f"{nobody} can gain more than {value:.6g} by {name}" for name, value in self.bounds.items()]
        return "\n".join(lines)


def bounds(curve: Curve | None, coalition: int = 1) -> dict[str, float]:
    """Bound the gain from misreporting in a coalition of k under a mechanism with this curve.

    A curve stated for add-remove neighbours is first converted to replace neighbours, at about twice its ε.
    """
    if curve is None:
        return {}
    if not isinstance(curve, Curve):
        raise InvalidParameter("curve", curve, "a privacy curve", fix="pass mechanism.curve(…), or Curve.pure(1)")
    curve, k = curve.for_neighbours(Neighbours.REPLACE), exact_integer(coalition, "coalition", at_least=1)
    gain_bounds = {"total variation": float(total_variation(curve, k))}
    if curve.max_divergence is not None and not curve.failure:
        x = k * float(curve.max_divergence) * (1 + 1e-15)
        gain_bounds["tanh(kε/2)"] = math.tanh(x / 2) * (1 + 1e-15)
        gain_bounds["e^(kε) − 1"] = math.expm1(x) * (1 + 1e-15) if x < 700 else math.inf
        gain_bounds["2kε"] = 2 * x
    return gain_bounds


def truthfulness(mechanism: Any, game: Environment, *, coalition: int = 1, samples: int = 2000) -> Truthfulness:
    """Compute the largest gain of any player, alone or in a coalition of k, from misreporting.

    ``mechanism`` is a selection (run on welfare), a rule such as ``exactly_truthful`` returns, or a function from the
    tuple of reports to exact probabilities. Up to 200,000 cases are enumerated, with interchangeable players of one
    type counted together; beyond that ``samples`` random cases are evaluated and the theorem's bound is the upper end.

    >>> from sfumato import Exponential
    >>> majority = Environment([[1, 0], [0, 1]], players=5)
    >>> found = truthfulness(Exponential(1, neighbours="replace"), majority)
    >>> found.exact, found.truthful, f"{float(found.cost[0]):.4f} ≤ {found.bounds['total variation']:.4f}"
    (True, True, '0.2449 ≤ 0.2449')
    """
    problem = as_truthfulness_problem(mechanism, game)
    k, sample_count = exact_integer(coalition, "coalition", at_least=1), exact_integer(samples, "samples", at_least=1)
    if k > game.players:
        raise InvalidParameter("coalition", coalition, f"at most {game.players}, the number of players")
    if len(game.types) < 2:
        raise InvalidParameter(
            "game",
            game,
            "an environment with at least two types",
            fix="for example, pass Environment([[1, 0], [0, 1]], players=3)",
        )
    exact = _count_misreports(problem, k) <= _MAX_CASES
    cases = _enumerate_misreports(problem, k) if exact else _sample_misreports(game, k, sample_count)
    gain, cost, witness = _largest_gain_and_cost(problem, cases)
    proven = problem.proven_bounds(k)
    if not exact:
        gain, cost = (gain[0], max(gain[1], proven[0])), (cost[0], max(cost[1], proven[1]))
    return Truthfulness(gain, cost, proven, witness, k, problem.curve, exact)


def _largest_gain_and_cost(problem: TruthfulnessProblem, cases: Iterator[Case]) -> tuple[Interval, Interval, Misreport]:
    laws: dict[tuple[int, ...], Law] = {}

    def law(reports: tuple[int, ...]) -> Law:
        key = tuple(sorted(reports)) if problem.anonymous else reports
        if key not in laws:
            laws[key] = problem.law(key)
        return laws[key]

    best: tuple[Fraction, Case] | None = None
    worst, error = Fraction(-1), Fraction(0)
    for players, types, false_reports in cases:
        reports = list(types)
        for player, report in zip(players, false_reports, strict=True):
            reports[player] = report
        true, false = law(types), law(tuple(reports))
        error = max(error, (true.error + false.error) * len(problem.environment.outcomes))
        for player, report in zip(players, false_reports, strict=True):
            truth = types[player]
            gain = problem.expected_utility(false, player, truth, report) - problem.expected_utility(
                true, player, truth, truth
            )
            worst = max(worst, -gain)
            if best is None or gain > best[0]:
                best = gain, (players, types, false_reports)
    assert best is not None
    largest_gain, witness = best
    return (largest_gain - error, largest_gain + error), (worst - error, worst + error), Misreport(*witness)


def _count_misreports(problem: TruthfulnessProblem, coalition_size: int) -> int:
    game, types = problem.environment, len(problem.environment.types)
    lies = types**coalition_size * (types**coalition_size - 1) * coalition_size
    if problem.anonymous:
        return lies * math.comb(game.players - coalition_size + types - 1, types - 1)
    return lies * types ** (game.players - coalition_size) * math.comb(game.players, coalition_size)


def _enumerate_misreports(problem: TruthfulnessProblem, coalition_size: int) -> Iterator[Case]:
    """Enumerate coalitions, true types and joint misreports.

    Where players are interchangeable, the first k stand for every coalition, and the others matter only by how many
    have each type.
    """
    game = problem.environment
    type_indices = range(len(game.types))
    if problem.anonymous:
        for others in combinations_with_replacement(type_indices, game.players - coalition_size):
            for true_types in product(type_indices, repeat=coalition_size):
                yield from (
                    (tuple(range(coalition_size)), true_types + others, false_reports)
                    for false_reports in product(type_indices, repeat=coalition_size)
                    if false_reports != true_types
                )
        return
    for players in combinations(range(game.players), coalition_size):
        for types in product(type_indices, repeat=game.players):
            true_types = tuple(types[i] for i in players)
            yield from (
                (players, types, false_reports)
                for false_reports in product(type_indices, repeat=coalition_size)
                if false_reports != true_types
            )


def _sample_misreports(game: Environment, coalition_size: int, count: int) -> Iterator[Case]:
    """Draw uniform types, a coalition, and a joint misreport with at least one false report."""
    type_count = len(game.types)
    for _ in range(count):
        types = tuple(int(t) for t in bits.random_array_below(type_count, game.players))
        remaining_players = list(range(game.players))
        players = tuple(
            sorted(remaining_players.pop(bits.random_below(len(remaining_players))) for _ in range(coalition_size))
        )
        true_types = tuple(types[i] for i in players)
        false_reports = true_types
        while false_reports == true_types:
            false_reports = tuple(int(t) for t in bits.random_array_below(type_count, coalition_size))
        yield players, types, false_reports
