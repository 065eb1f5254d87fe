"""Exactly truthful private mechanisms: with money, and without it by mixing in a commitment mechanism.

Privacy alone makes every report nearly dominant, false ones too, because no report matters much. The remedy (Nissim,
Smorodinsky & Tennenholtz 2012; Dwork & Roth 2014 §10.3): with probability q choose an outcome uniformly and *impose* on
every player the reaction that is best for the reported type.

Theorem. Let p be the least average over outcomes, over players and t ≠ t′, of u(t, s, r(t, s)) − u(t, s, r(t′, s)); p
≥ γ/|O| with γ the least maximum. If (1 − q)·τ < q·p, where τ = δ(0) of the exponential mechanism under replace
neighbours, then telling the truth is strictly dominant. Proof: a misreport gains at most τ with probability 1 − q
and costs at least p with probability q. ∎ Weaker forms: (1 − q)·tanh(ε/2) < qγ/|O| (sharp), and 2ε ≤ qγ/|O| (plain).

Expected welfare per player: the exponential mechanism maximises (ε/2)·E[W] plus its entropy, so E[W] ≥ OPT −
(2/ε)·ln|O|; the other branch loses at most c, how far a uniform outcome falls behind the best for the worst type. So

    loss ≤ (1 − q)·2 ln|O|/(εn) + q·c,   least near ε = √(8 p ln|O|/(c n)):   about √(2 c ln|O|/(p n)).

Theorem (Huang & Kannan 2012). The exponential mechanism's law D maximises E[W] + (2/ε)·entropy over all laws: it is
affine maximisation over laws, so Vickrey–Clarke–Groves payments make truth dominant in expectation. With Z the sum of
e^{εW(s)/2} over outcomes and Z₋ᵢ the same without player i, the expected payment of player i is

    pᵢ = E_D[vᵢ] − (2/ε)(ln Z − ln Z₋ᵢ),

and the expected utility is (2/ε)(ln Z − ln Z₋ᵢ) ≥ 0: participation is individually rational, and pᵢ ≥ 0.

The expected payment is an exact function of all reports and would reveal them. As (2/ε)(ln Z − ln Z₋ᵢ) = ∫₀¹ E[vᵢ
under reports in which i's is scaled by x] dx, a private draw has the same expectation: pick x uniformly, draw a second
outcome s′ with i's report scaled by x, and charge vᵢ(s) − vᵢ(s′) (after Babaioff, Kleinberg & Slivkins 2010). What
player i sees, the outcome and the own payment, is then two selections: 2ε for every other player's report.

The largest gain from misreporting, computed exactly, and the bound that differential privacy implies.

Theorem. If the outcome's law moves by at most τ in total variation when one report is replaced, and utilities lie
in [0, 1] and depend on the report only through the outcome, no misreport gains or costs more than τ. For a
mechanism with a curve τ = δ(0): tanh(ε/2) for ε-DP (McSherry & Talwar 2007 state e^ε − 1, Dwork & Roth 2014 §10.1
2ε), tanh(ε/4) for the exponential mechanism, whose loss spans only ε. A coalition of k replaces k reports: the
curve of k units. Proof: E_P[u] − E_Q[u] ≤ Σ max(0, P − Q) = δ(0). ∎ As tanh(x/2) ≤ x/2, the bound 2kε holds for
every ε, also where e^{kε} − 1 is above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.games.environment import (
    AN_ENVIRONMENT,
    NEW_ENVIRONMENT,
    Environment,
    Gap,
    Law,
    TruthfulnessProblem,
    WelfareSelection,
    as_truthfulness_problem,
    law_of_selection,
    total_variation,
)
from sfumato.mechanisms import Exponential, bits
from sfumato.privacy import Curve, Neighbours, compose
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, exact_integer, format_exact
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


@dataclass(frozen=True)
class Decision:
    """A drawn outcome with the imposed reactions, if the commitment branch was drawn."""

    outcome: int
    """Index in ``environment.outcomes``."""
    reactions: tuple[int, ...] | None
    """The reaction imposed on each player, to be shown to that player alone; None when reactions are free."""


@dataclass(frozen=True)
class Mixture:
    """With probability 1 − q the exponential mechanism over welfare with free reactions, with probability q the
    commitment mechanism.
    """

    environment: Environment
    epsilon: Fraction
    q: Fraction

    __repr__ = constructor_repr

    def __init__(self, environment: Environment, epsilon: Number, q: Number) -> None:
        if not isinstance(environment, Environment):
            raise InvalidParameter("environment", environment, AN_ENVIRONMENT, fix=NEW_ENVIRONMENT)
        object.__setattr__(self, "environment", environment)
        object.__setattr__(self, "q", exact(q, "q", INSIDE_UNIT))
        object.__setattr__(self, "epsilon", _exponential_mechanism(epsilon).epsilon)

    @property
    def selection(self) -> Exponential:
        return _exponential_mechanism(self.epsilon)

    @property
    def _selection_in_units(self) -> Exponential:
        """The selection over welfare in units of 1/scale: these scores are integers and compared exactly."""
        return self.selection.in_parts(self.environment.scale)

    @property
    def curve(self) -> Curve:
        """The privacy curve of the outcome: the commitment branch draws it independently of the reports. An imposed
        reaction is a function of that player's own report and shown to that player alone.
        """
        return self.selection.curve()

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    @cached_property
    def gap(self) -> Gap:
        return _require_nonzero_gap(self.environment)

    @property
    def threshold(self) -> Fraction:
        """qγ/|O|, the textbook's lower bound on the expected cost of a misreport."""
        return self.q * self.gap.gamma / len(self.environment.outcomes)

    @property
    def meets_plain_condition(self) -> bool:
        """Whether 2ε ≤ qγ/|O|."""
        return 2 * self.epsilon <= self.threshold

    @property
    def meets_sharp_condition(self) -> bool:
        """Whether (1 − q)·tanh(ε/2) < qγ/|O|, with tanh rounded up."""
        return (1 - self.q) * Fraction(Curve.pure(self.epsilon).delta(0)) < self.threshold

    @property
    def meets_sharpest_condition(self) -> bool:
        """Whether (1 − q)·δ(0) < q·p: the exponential mechanism's own total variation, and the mean penalty."""
        return (1 - self.q) * Fraction(self.curve.delta(0)) < self.q * self.gap.penalty

    def law(self, reports: tuple[int, ...]) -> Law:
        """Return the law of the outcome in the branch with free reactions."""
        return law_of_selection(self._selection_in_units, self.environment.welfare_in_units(reports))

    def expected_utility(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        game = self.environment
        imposed = Fraction(game.imposed_utilities(player)[truth][report], len(game.outcomes) * game.scale)
        return (1 - self.q) * law.mean(game.best_utilities(player)[truth]) / game.scale + self.q * imposed

    def proven_bounds(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Bound the gain of a single misreport by (1 − q)·τ − q·p, below 0 when the sharpest condition holds. A
        coalition member may report truthfully while others do not: (1 − q)·τ of k reports. An imposed misreport may
        cost up to 1.
        """
        gain = (1 - self.q) * total_variation(self.curve, coalition)
        return gain - self.q * self.gap.penalty if coalition == 1 else gain, Fraction(1)

    def proof(self, **options: Any) -> Truthfulness:
        """Find the best misreport in this environment; the proof is ``strict`` when truth is strictly best."""
        return truthfulness(self, self.environment, **options)

    def welfare(self, types: Any) -> tuple[float, float]:
        """Return the expected welfare per player under truthful reports, and that of the best outcome."""
        game = self.environment
        profile = game.profile(types)
        scores = game.welfare(profile)
        law = self.law(profile)
        free = sum((p * s for p, s in zip(law.probabilities, scores, strict=True)), Fraction(0))
        uniform = sum(scores, Fraction(0)) / len(scores)
        mixed = (1 - self.q) * free + self.q * uniform
        return float(mixed / game.players), float(max(scores) / game.players)

    @property
    def loss(self) -> float:
        """The theorem's bound on the expected welfare lost per player."""
        return _loss_bound(self.environment, _uniform_loss(self.environment), float(self.epsilon), float(self.q))

    def release(self, reports: Any) -> Decision:
        """Draw the branch, the outcome and, in the commitment branch, everybody's reaction."""
        game, profile = self.environment, self.environment.profile(reports)
        if bits.random_below(self.q.denominator) >= self.q.numerator:
            return Decision(self._selection_in_units.choose(game.welfare_in_units(profile)), None)
        outcome = bits.random_below(len(game.outcomes))
        rows = [game.table(i)[t][outcome] for i, t in enumerate(profile)]
        return Decision(outcome, tuple(row.index(max(row)) for row in rows))

    def explain(self) -> str:
        """Describe the guarantee and the conditions it rests on. This is free: no report is read."""
        gap = self.gap
        verdict = {True: "holds", False: "does not hold"}
        return "\n".join(
            [
                f"with probability {format_exact(self.q)} everybody is held to their report; otherwise "
                f"{self.selection!r}",
                f"γ = {format_exact(gap.gamma)}; "
                f"being held to a misreport costs at least {float(gap.penalty):.6g} on average",
                f"2ε ≤ qγ/|O| {verdict[self.meets_plain_condition]}; (1 − q)·tanh(ε/2) < qγ/|O| "
                f"{verdict[self.meets_sharp_condition]}; "
                f"(1 − q)·δ(0) < q·p {verdict[self.meets_sharpest_condition]}",
                f"expected welfare lost per player: at most {self.loss:.4g}",
            ]
        )


def exactly_truthful(environment: Environment, *, epsilon: Number | None = None, q: Number | None = None) -> Mixture:
    """Return the mixture in which truth is strictly dominant, with q and ε chosen for the best guaranteed welfare.

    Both are chosen from the environment alone, never from reports. If one is given, the other is chosen for it; if both
    are given, they are checked.

    >>> from sfumato.games import line
    >>> mixture = exactly_truthful(line(4, players=200))
    >>> mixture.meets_sharpest_condition, mixture.proof(samples=20).strict
    (True, True)
    >>> exactly_truthful(line(3, players=5)).proof().strict
    True
    """
    if not isinstance(environment, Environment):
        raise InvalidParameter("environment", environment, AN_ENVIRONMENT, fix=NEW_ENVIRONMENT)
    penalty = _require_nonzero_gap(environment).penalty
    if q is not None:
        mixing = exact(q, "q", INSIDE_UNIT)
        if epsilon is None:
            epsilon = _largest_epsilon(mixing, penalty)
            if epsilon < Fraction(1, 10**9):
                raise InvalidParameter(
                    "q", q, "large enough for an ε of at least 1e-9", fix="leave out q, so that it is chosen for you"
                )
    elif epsilon is not None:
        mixing = _least_q(_exponential_mechanism(epsilon).epsilon, penalty)
    else:
        epsilon = _best_epsilon(environment)
        mixing = _least_q(epsilon, penalty)
    mixture = Mixture(environment, epsilon, mixing)
    if not mixture.meets_sharpest_condition:
        least_q = _least_q(mixture.epsilon, penalty)
        raise InvalidParameter(
            "q",
            q,
            f"at least {float(least_q):.6g} at ε = {format_exact(mixture.epsilon)}, so that misreporting never pays",
            fix="leave out q or epsilon, so that it is chosen for you",
        )
    return mixture


def _exponential_mechanism(epsilon: Number) -> Exponential:
    return Exponential(epsilon, sensitivity=1, neighbours=Neighbours.REPLACE)


def _require_nonzero_gap(environment: Environment) -> Gap:
    """Return the environment's gap; refuse γ = 0, where imposing a reaction cannot punish a misreport."""
    gap = environment.gap
    if gap is None or not gap.gamma:
        reason = "there is only one type"
        if gap is not None:
            first, second = (environment.types[t] for t in gap.types)
            reason = f"every best reaction of type {second!r} is also best for type {first!r}"
        raise InvalidParameter(
            "environment",
            environment,
            f"a game with a gap γ above 0, but here γ = 0, because {reason}",
            fix="use at least two types, each with a best reaction of its own, as in line(…) with two facilities; "
            "merge types that share their best reactions",
        )
    return gap


def _least_q(epsilon: Fraction, penalty: Fraction) -> Fraction:
    """Return the least q, to six digits and rounded up, with (1 − q)·τ < q·p: q > τ/(τ + p)."""
    tau = Fraction(_exponential_mechanism(epsilon).curve().delta(0))
    infimum = tau / (tau + penalty)
    digits = 10 ** (6 - math.floor(math.log10(min(infimum, 1 - infimum))))
    return Fraction(math.floor(infimum * digits) + 1, digits)


def _largest_epsilon(q: Fraction, penalty: Fraction) -> Fraction:
    """Return the largest ε, to six digits and rounded down, that q supports: tanh(ε/4) < qp/(1 − q)."""
    tanh_bound = float(q * penalty / (1 - q))
    epsilon = 4 * math.atanh(tanh_bound) if tanh_bound < 1 else 40.0
    digits = 10 ** (6 - math.floor(math.log10(epsilon)))
    return Fraction(max(1, math.ceil(epsilon * digits) - 1), digits)


def _uniform_loss(environment: Environment) -> float:
    """Return c, the utility that a uniform outcome loses against the best one, for the worst type."""
    players = range(1 if environment.symmetric else environment.players)
    rows = [row for i in players for row in environment.best_utilities(i)]
    return max(max(row) - sum(row) / len(row) for row in rows) / environment.scale


def _loss_bound(environment: Environment, uniform: float, epsilon: float, q: float) -> float:
    free = 2 * math.log(len(environment.outcomes)) / (epsilon * environment.players)
    return (1 - q) * min(1.0, free) + q * uniform


def _best_epsilon(environment: Environment) -> Fraction:
    """Return the ε with the least bound on the loss, searching two decades on either side of the asymptotic optimum."""
    penalty, uniform = float(_require_nonzero_gap(environment).penalty), _uniform_loss(environment)
    log_outcomes = math.log(max(2, len(environment.outcomes)))
    centre = math.sqrt(8 * penalty * log_outcomes / (max(uniform, 1e-9) * environment.players))

    def bound(epsilon: float) -> float:
        tau = math.tanh(epsilon / 4)
        return _loss_bound(environment, uniform, epsilon, tau / (tau + penalty))

    best = min((min(40.0, max(1e-8, centre * 10 ** (i / 200))) for i in range(-400, 401)), key=bound)
    return Fraction(f"{best:.4g}")


_DIGITS = 70
_ERROR = Fraction(1, 10**55)
_SELECTION_BITS = 60  # bits available for differences of welfare in a selection
_MIN_FINENESS = 24


@dataclass(frozen=True)
class Bill:
    """The drawn outcome and each player's payment."""

    outcome: int
    payments: tuple[Fraction, ...]
    """One per player, to be shown to that player alone; a negative payment is paid out. Their expectations are those of
    the theorem."""

    __repr__ = constructor_repr


@dataclass(frozen=True)
class PaymentMechanism:
    """The exponential mechanism over welfare with Huang and Kannan's payments."""

    environment: Environment
    selection: Exponential

    @property
    def curve(self) -> Curve:
        """The privacy curve of the outcome, for one report."""
        return self.selection.curve()

    @property
    def payer_curve(self) -> Curve:
        """The privacy curve of what one payer sees, the outcome and the own payment, for another player's report."""
        return compose([(self.selection.curve(), 2)])

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    def law(self, reports: tuple[int, ...]) -> Law:
        game = self.environment
        scores = game.welfare(reports)
        law = law_of_selection(self.selection.in_parts(game.scale), game.welfare_in_units(reports))
        if game.symmetric:
            reported_types = set(reports)
            utility_rows = [
                utilities if type_index in reported_types else None
                for type_index, utilities in enumerate(game.best_utilities(0))
            ]
        else:
            utility_rows = [game.best_utilities(i)[type_index] for i, type_index in enumerate(reports)]
        payments = tuple(
            Fraction(0)
            if utilities is None
            else law.mean(utilities) / game.scale - self._expected_utility(scores, utilities)
            for utilities in utility_rows
        )
        return Law(law.weights, law.error + _ERROR, payments)

    def _expected_utility(self, scores: tuple[Fraction, ...], utilities: tuple[int, ...]) -> Fraction:
        """Return (2/ε)(ln Z − ln Z₋ᵢ), the expected utility of a player with these utilities per outcome."""
        without_player = [
            score - Fraction(value, self.environment.scale) for score, value in zip(scores, utilities, strict=True)
        ]
        return (
            _log_sum(scores, self.selection.rate) - _log_sum(without_player, self.selection.rate)
        ) / self.selection.rate

    def expected_utility(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        payment = law.payments[report if self.anonymous else player]
        return law.mean(self.environment.best_utilities(player)[truth]) / self.environment.scale - payment

    def proven_bounds(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """No single player gains; for coalitions only the range of utilities and payments, [0, 1] each, is used."""
        return Fraction(0 if coalition == 1 else 2), Fraction(2)

    def payments(self, reports: Any) -> tuple[Fraction, ...]:
        """Return the expected payments, exact to 10⁻⁵⁰. They are not private: for the auctioneer only."""
        profile = self.environment.profile(reports)
        payments_by_type = self.law(profile).payments
        return tuple(payments_by_type[t] for t in profile) if self.anonymous else payments_by_type

    def proof(self, **options: Any) -> Truthfulness:
        """Find the best misreport in this environment, net of payments."""
        return truthfulness(self, self.environment, **options)

    @property
    def scaling_bits(self) -> int:
        """Bits of x: it is the midpoint of one of 2^fineness intervals, so an expected payment is off by at most
        ε²·4^−fineness.
        """
        return _SELECTION_BITS - (self.environment.players * self.environment.scale).bit_length()

    def release(self, reports: Any) -> Bill:
        """Draw the outcome and each player's payment."""
        game, profile = self.environment, self.environment.profile(reports)
        totals = game.welfare_in_units(profile)
        outcome = self.selection.in_parts(game.scale).choose(totals)
        # Totals minus (1 − x)·v are multiples of this step, which depends only on the players and the scale.
        step = Fraction(1, 2 << self.scaling_bits)
        scaled = self.selection.in_parts(game.scale, step)
        payments = []
        for player, type_index in enumerate(profile):
            utilities = game.best_utilities(player)[type_index]
            reduction = 1 - (2 * bits.random_bits(self.scaling_bits) + 1) * step
            second_outcome = scaled.choose(
                [total - reduction * value for total, value in zip(totals, utilities, strict=True)]
            )
            payments.append(Fraction(utilities[outcome] - utilities[second_outcome], game.scale))
        return Bill(outcome, tuple(payments))


def truthful_with_money(environment: Environment, epsilon: Number) -> PaymentMechanism:
    """Return Huang and Kannan's mechanism: an ε-DP outcome of nearly optimal welfare, and payments that make truth
    dominant in expectation.

    >>> priced = truthful_with_money(Environment([[1, 0], [0, 1]], players=3), epsilon=1)
    >>> [round(float(p), 4) for p in priced.payments([0, 0, 1])]
    [0.0606, 0.0606, 0.0559]
    >>> priced.proof().gain[1] < 1e-40
    True
    """
    selection = Exponential(epsilon, sensitivity=1, neighbours=Neighbours.REPLACE)
    rule = WelfareSelection(environment, selection)
    priced = PaymentMechanism(rule.environment, selection)
    if priced.scaling_bits < _MIN_FINENESS:
        raise InvalidParameter(
            "environment",
            environment,
            "a game whose utilities have few digits: their common denominator, times the number of players, must be "
            "below 2^36",
            fix="round the utilities, for example to 4 decimals",
        )
    return priced


def _log_sum(scores: Sequence[Fraction], rate: Fraction) -> Fraction:
    """Return ln Σ e^{rate·score} to 60 digits."""
    context = bits.decimal_context(_DIGITS)
    top = max(scores)
    powers = [context.exp(bits.to_decimal(rate * (score - top), context)) for score in scores]
    total = Decimal(0)
    for power in powers:
        total = context.add(total, power)
    return rate * top + Fraction(total.ln(context))
