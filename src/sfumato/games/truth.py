"""This module computes how much can be gained by misreporting, beside what privacy allows.

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
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Law
from sfumato.games.rules import TruthRule, rule_of, variation
from sfumato.mechanisms import bits
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.numbers import whole

Interval = tuple[Fraction, Fraction]
Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Who misreports, what everybody is, and what they say instead."""

_MOST_CASES = 200_000


@dataclass(frozen=True)
class Misreport:
    """A misreport says who would say what, instead of what they are, and against whom."""

    players: tuple[int, ...]
    types: tuple[int, ...]
    """Everybody's true type."""
    reports: tuple[int, ...]
    """What the players say instead, in their order."""


@dataclass(frozen=True, repr=False)
class Truthfulness:
    """Truthfulness is the most that any misreport gains, and the most that one costs, over all players, types and
    reports.
    """

    gain: Interval
    """Bounds of the largest gain of any single player who misreports, alone or in a coalition; below 0 when truth is
    strictly best."""
    cost: Interval
    """Bounds of the largest loss by misreporting: what truth is worth to somebody, at most."""
    certified: tuple[Fraction, Fraction]
    """What theory promises about this mechanism: the largest gain and the largest cost."""
    witness: Misreport
    coalition: int
    curve: Curve | None
    exact: bool
    """Whether every case was enumerated; otherwise the upper ends are theory's."""

    @property
    def strict(self) -> bool:
        """Tell whether every misreport is surely worse than the truth."""
        return self.gain[1] < 0

    @property
    def truthful(self) -> bool:
        """Tell whether no misreport surely gains."""
        return self.gain[0] <= 0

    @property
    def bounds(self) -> dict[str, float]:
        """List what theory allows: the curve's own δ(0) first, then tanh(kε/2), e^{kε} − 1 and 2kε."""
        return bounds(self.curve, self.coalition)

    @property
    def holds(self) -> bool:
        """Tell whether the gain and the cost stay within what theory promises."""
        return self.gain[0] <= self.certified[0] and self.cost[0] <= self.certified[1]

    def __repr__(self) -> str:
        return f"<Truthfulness: gain {float(self.gain[0]):.6g}, cost {float(self.cost[0]):.6g}, exact {self.exact}>"

    def __str__(self) -> str:
        who = "no player" if self.coalition == 1 else f"no member of a coalition of {self.coalition}"
        how = "exactly, over all cases" if self.exact else "found among samples; the bound covers the rest"
        lines = [
            f"the best misreport gains {float(self.gain[0]):.6g} ({how}); the worst costs {float(self.cost[0]):.6g}"
        ]
        if self.strict:
            lines.append("truth is strictly best, whatever the others say")
        lines += [f"{who} can gain more than {value:.6g} by {name}" for name, value in self.bounds.items()]
        return "\n".join(lines)


def bounds(curve: Curve | None, coalition: int = 1) -> dict[str, float]:
    """Bound the largest gain from misreporting that a curve allows a coalition of k; one stated for add-remove
    neighbours is first turned into one for replace, at about twice its ε.
    """
    if curve is None:
        return {}
    if not isinstance(curve, Curve):
        raise InvalidParameter("curve", curve, "a Curve")
    curve, k = curve.for_neighbours(Neighbours.REPLACE), whole(coalition, "coalition", at_least=1)
    found = {"total variation": float(variation(curve, k))}
    if curve.max_divergence is not None and not curve.failure:
        x = k * float(curve.max_divergence) * (1 + 1e-15)
        found["tanh(kε/2)"] = math.tanh(x / 2) * (1 + 1e-15)
        found["e^(kε) − 1"] = math.expm1(x) * (1 + 1e-15) if x < 700 else math.inf
        found["2kε"] = 2 * x
    return found


def truthfulness(mechanism: Any, game: Environment, *, coalition: int = 1, samples: int = 2000) -> Truthfulness:
    """Find the largest gain that any player, alone or in a coalition of k, gets from misreporting.

    ``mechanism`` is a selection (it then chooses by welfare), a rule such as ``exactly_truthful`` gives, or a function
    from the tuple of reports to exact probabilities. All cases are enumerated when there are at most 200,000, players
    of one type counted together where they are alike; beyond that ``samples`` of them are tried and the theorem's
    bound is the upper end.

    >>> from sfumato import Exponential
    >>> majority = Environment([[1, 0], [0, 1]], players=5)
    >>> found = truthfulness(Exponential(1, neighbours="replace"), majority)
    >>> found.exact, found.truthful, f"{float(found.cost[0]):.4f} ≤ {found.bounds['total variation']:.4f}"
    (True, True, '0.2449 ≤ 0.2449')
    """
    rule = rule_of(mechanism, game)
    k, tries = whole(coalition, "coalition", at_least=1), whole(samples, "samples", at_least=1)
    if k > game.players:
        raise InvalidParameter("coalition", coalition, f"at most {game.players}, the number of players")
    if len(game.types) < 2:
        raise InvalidParameter("game", game, "an environment with at least two types: nobody can misreport")
    exact = _case_count(rule, k) <= _MOST_CASES
    cases = _every_case(rule, k) if exact else _random_cases(game, k, tries)
    gain, cost, witness = _extremes(rule, cases)
    promise = rule.certified(k)
    if not exact:
        gain, cost = (gain[0], max(gain[1], promise[0])), (cost[0], max(cost[1], promise[1]))
    return Truthfulness(gain, cost, promise, witness, k, rule.curve, exact)


def _extremes(rule: TruthRule, cases: Iterator[Case]) -> tuple[Interval, Interval, Misreport]:
    laws: dict[tuple[int, ...], Law] = {}

    def law(reports: tuple[int, ...]) -> Law:
        key = tuple(sorted(reports)) if rule.anonymous else reports
        if key not in laws:
            laws[key] = rule.law(key)
        return laws[key]

    best: tuple[Fraction, Case] | None = None
    worst, error = Fraction(-1), Fraction(0)
    for players, types, said in cases:
        reports = list(types)
        for player, report in zip(players, said, strict=True):
            reports[player] = report
        true, false = law(types), law(tuple(reports))
        error = max(error, (true.error + false.error) * len(rule.environment.outcomes))
        for player, report in zip(players, said, strict=True):
            truth = types[player]
            gained = rule.value(false, player, truth, report) - rule.value(true, player, truth, truth)
            worst = max(worst, -gained)
            if best is None or gained > best[0]:
                best = gained, (players, types, said)
    assert best is not None
    found, where = best
    return (found - error, found + error), (worst - error, worst + error), Misreport(*where)


def _case_count(rule: TruthRule, k: int) -> int:
    game, types = rule.environment, len(rule.environment.types)
    lies = types**k * (types**k - 1) * k
    if rule.anonymous:
        return lies * math.comb(game.players - k + types - 1, types - 1)
    return lies * types ** (game.players - k) * math.comb(game.players, k)


def _every_case(rule: TruthRule, k: int) -> Iterator[Case]:
    """List every coalition, everybody's types, every joint misreport; where players are alike the first k stand for
    all, and the others count only by how many are of each type.
    """
    game = rule.environment
    kinds = range(len(game.types))
    if rule.anonymous:
        for others in combinations_with_replacement(kinds, game.players - k):
            for own in product(kinds, repeat=k):
                yield from ((tuple(range(k)), own + others, said) for said in product(kinds, repeat=k) if said != own)
        return
    for players in combinations(range(game.players), k):
        for types in product(kinds, repeat=game.players):
            own = tuple(types[i] for i in players)
            yield from ((players, types, said) for said in product(kinds, repeat=k) if said != own)


def _random_cases(game: Environment, k: int, count: int) -> Iterator[Case]:
    """Draw uniform types; a coalition and a joint misreport with at least one lie."""
    kinds = len(game.types)
    for _ in range(count):
        types = tuple(int(t) for t in bits.all_below(kinds, game.players))
        left = list(range(game.players))
        players = tuple(sorted(left.pop(bits.below(len(left))) for _ in range(k)))
        own = tuple(types[i] for i in players)
        said = own
        while said == own:
            said = tuple(int(t) for t in bits.all_below(kinds, k))
        yield players, types, said
