"""Choices are made exactly truthful without money: the exponential mechanism is mixed with one that takes people at
their word.

The drawback of privacy alone: as hardly any report matters, hardly any report is a mistake, and every one is nearly
dominant. The remedy (Nissim, Smorodinsky & Tennenholtz 2012; Dwork & Roth 2014 §10.3): with probability q choose an
outcome uniformly and *impose* on everybody the reaction that is best for the type they reported.

Theorem. Let p be the least average over outcomes, over players and t ≠ t′, of u(t, s, r(t, s)) − u(t, s, r(t′, s)); p
≥ γ/|O| with γ the least maximum. If (1 − q)·τ < q·p, where τ = δ(0) of the exponential mechanism under replace
neighbours, then telling the truth is strictly dominant. Proof: a misreport gains at most τ with probability 1 − q
and costs at least p with probability q. ∎ Weaker forms: (1 − q)·tanh(ε/2) < qγ/|O| (sharp), and 2ε ≤ qγ/|O| (plain).

Expected welfare per player: the exponential mechanism maximises (ε/2)·E[W] plus its entropy, so E[W] ≥ OPT −
(2/ε)·ln|O|; the other branch loses at most c, how far a uniform outcome falls behind the best for the worst type. So

    loss ≤ (1 − q)·2 ln|O|/(εn) + q·c,   least near ε = √(8 p ln|O|/(c n)):   about √(2 c ln|O|/(p n)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Gap, Law, law_of
from sfumato.games.rules import variation
from sfumato.games.truth import Truthfulness, truthfulness
from sfumato.mechanisms import Exponential, bits
from sfumato.privacy import Curve, Neighbours
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, text


@dataclass(frozen=True)
class Decision:
    """A decision says what was drawn: the outcome, the branch and everybody's reaction."""

    outcome: int
    """The outcome's number in the environment's order."""
    reactions: tuple[int, ...] | None
    """The reaction imposed on each player, to be told to that player; None when everybody is free."""


@dataclass(frozen=True)
class Mixture:
    """A mixture runs, with probability 1 − q, the exponential mechanism over welfare with free reactions, and with
    probability q the commitment mechanism.
    """

    environment: Environment
    epsilon: Fraction
    q: Fraction

    __repr__ = spelled

    def __init__(self, environment: Environment, epsilon: Number, q: Number) -> None:
        if not isinstance(environment, Environment):
            raise InvalidParameter("environment", environment, "an Environment")
        object.__setattr__(self, "environment", environment)
        object.__setattr__(self, "q", exact(q, "q", INSIDE_UNIT))
        object.__setattr__(self, "epsilon", _exponential(epsilon).epsilon)

    @property
    def selection(self) -> Exponential:
        return _exponential(self.epsilon)

    @property
    def _whole(self) -> Exponential:
        """Give the selection of welfare in whole units of the environment, in which it is exact."""
        return self.selection.in_parts(self.environment.scale)

    @property
    def curve(self) -> Curve:
        """Give the outcome's own curve: the commitment branch draws it without looking. Imposed reactions, each a
        function of the player's own report, are told to that player alone.
        """
        return self.selection.curve()

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    @cached_property
    def gap(self) -> Gap:
        return _gap(self.environment)

    @property
    def threshold(self) -> Fraction:
        """Compute qγ/|O|, which a misreport surely costs, by the textbook."""
        return self.q * self.gap.largest / len(self.environment.outcomes)

    @property
    def plain(self) -> bool:
        """Tell whether 2ε ≤ qγ/|O|."""
        return 2 * self.epsilon <= self.threshold

    @property
    def sharp(self) -> bool:
        """Tell whether (1 − q)·tanh(ε/2) < qγ/|O|, tanh rounded up."""
        return (1 - self.q) * Fraction(Curve.pure(self.epsilon).delta(0)) < self.threshold

    @property
    def sharpest(self) -> bool:
        """Tell whether (1 − q)·δ(0) < q·p: the exponential mechanism's own total variation, and the average penalty."""
        return (1 - self.q) * Fraction(self.curve.delta(0)) < self.q * self.gap.penalty

    def law(self, reports: tuple[int, ...]) -> Law:
        """Give the law of the outcome in the branch with free reactions."""
        return law_of(self._whole, self.environment.totals(reports))

    def value(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        game = self.environment
        imposed = Fraction(game.committed(player)[truth][report], len(game.outcomes) * game.scale)
        return (1 - self.q) * law.mean(game.best(player)[truth]) / game.scale + self.q * imposed

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Bound what a liar gains alone by (1 − q)·τ − q·p, below 0 when the sharpest condition holds. In a coalition a
        member may tell the truth while the others lie: (1 − q)·τ of so many. Being held to a lie may cost everything.
        """
        gain = (1 - self.q) * variation(self.curve, coalition)
        return gain - self.q * self.gap.penalty if coalition == 1 else gain, Fraction(1)

    def proof(self, **options: Any) -> Truthfulness:
        """Find the best misreport on this very instance; it is ``strict`` when truth is strictly best."""
        return truthfulness(self, self.environment, **options)

    def welfare(self, types: Any) -> tuple[float, float]:
        """Give the expected welfare per player when all tell the truth, and that of the best outcome."""
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
        """Give the theorem's bound of the expected welfare lost per player."""
        return _loss(self.environment, _uniform_loss(self.environment), float(self.epsilon), float(self.q))

    def release(self, reports: Any) -> Decision:
        """Draw the branch, the outcome and, in the commitment branch, everybody's reaction."""
        game, profile = self.environment, self.environment.profile(reports)
        if bits.below(self.q.denominator) >= self.q.numerator:
            return Decision(self._whole.choose(game.totals(profile)), None)
        outcome = bits.below(len(game.outcomes))
        rows = [game.table(i)[t][outcome] for i, t in enumerate(profile)]
        return Decision(outcome, tuple(row.index(max(row)) for row in rows))

    def explain(self) -> str:
        """Free: what it promises, and why."""
        gap = self.gap
        holds = {True: "holds", False: "does not hold"}
        return "\n".join(
            [
                f"with probability {text(self.q)} everybody is held to their report; else {self.selection!r}",
                f"γ = {text(gap.largest)}; to be held to a misreport costs {float(gap.penalty):.6g} or more on average",
                f"2ε ≤ qγ/|O| {holds[self.plain]}; (1 − q)·tanh(ε/2) < qγ/|O| {holds[self.sharp]}; "
                f"(1 − q)·δ(0) < q·p {holds[self.sharpest]}",
                f"expected welfare lost per player: at most {self.loss:.4g}",
            ]
        )


def exactly_truthful(environment: Environment, *, epsilon: Number | None = None, q: Number | None = None) -> Mixture:
    """Make the mixture in which telling the truth is strictly best, with q and ε chosen for the best guaranteed
    welfare.

    Both are chosen from the environment alone, never from reports. Given one of them, the other is chosen for it; given
    both, they are checked.

    >>> from sfumato.games import line
    >>> mixture = exactly_truthful(line(4, players=200))
    >>> mixture.sharpest, mixture.proof(samples=20).strict
    (True, True)
    >>> exactly_truthful(line(3, players=5)).proof().strict
    True
    """
    if not isinstance(environment, Environment):
        raise InvalidParameter("environment", environment, "an Environment")
    penalty = _gap(environment).penalty
    if q is not None:
        share = exact(q, "q", INSIDE_UNIT)
        if epsilon is None:
            epsilon = _largest_epsilon(share, penalty)
            if epsilon < Fraction(1, 10**9):
                raise InvalidParameter(
                    "q", q, "large enough to pay for ε = 1e-9", fix="leave q out: it is chosen for you"
                )
    elif epsilon is not None:
        share = _least_q(_exponential(epsilon).epsilon, penalty)
    else:
        epsilon = _best_epsilon(environment)
        share = _least_q(epsilon, penalty)
    mixture = Mixture(environment, epsilon, share)
    if not mixture.sharpest:
        least = _least_q(mixture.epsilon, penalty)
        raise InvalidParameter(
            "q",
            q,
            f"at least {float(least):.6g} at ε = {text(mixture.epsilon)}: (1 − q)·δ(0) < q·p",
            fix="leave q or epsilon out and it is chosen for you",
        )
    return mixture


def _exponential(epsilon: Number) -> Exponential:
    return Exponential(epsilon, sensitivity=1, neighbours=Neighbours.REPLACE)


def _gap(environment: Environment) -> Gap:
    """Compute the environment's gap; where it is 0 nothing can be held against a misreport, and that is the refusal."""
    gap = environment.gap
    if gap is None or not gap.largest:
        alike = "there is one type only"
        if gap is not None:
            first, second = (environment.types[t] for t in gap.types)
            alike = f"type {first!r} is served as well by every reaction of type {second!r}"
        raise InvalidParameter(
            "environment",
            environment,
            f"one with a gap γ > 0; here γ = 0: {alike}",
            fix="let reactions differ by type (two facilities instead of one), and merge types that want the same",
        )
    return gap


def _least_q(epsilon: Fraction, penalty: Fraction) -> Fraction:
    """Find the least q, to six digits and rounded up, with (1 − q)·τ < q·p: q > τ/(τ + p)."""
    tau = Fraction(_exponential(epsilon).curve().delta(0))
    least = tau / (tau + penalty)
    digits = 10 ** (6 - math.floor(math.log10(min(least, 1 - least))))
    return Fraction(math.floor(least * digits) + 1, digits)


def _largest_epsilon(q: Fraction, penalty: Fraction) -> Fraction:
    """Find the largest ε, to six digits and rounded down, that q pays for: tanh(ε/4) < qp/(1 − q)."""
    reach = float(q * penalty / (1 - q))
    epsilon = 4 * math.atanh(reach) if reach < 1 else 40.0
    digits = 10 ** (6 - math.floor(math.log10(epsilon)))
    return Fraction(max(1, math.ceil(epsilon * digits) - 1), digits)


def _uniform_loss(environment: Environment) -> float:
    """Compute c, the amount by which a uniform outcome falls behind the best one, for the worst type."""
    players = range(1 if environment.symmetric else environment.players)
    rows = [row for i in players for row in environment.best(i)]
    return max(max(row) - sum(row) / len(row) for row in rows) / environment.scale


def _loss(environment: Environment, uniform: float, epsilon: float, q: float) -> float:
    free = 2 * math.log(len(environment.outcomes)) / (epsilon * environment.players)
    return (1 - q) * min(1.0, free) + q * uniform


def _best_epsilon(environment: Environment) -> Fraction:
    """Find the ε whose bound of the loss is least: a search over two decades on either side of the rate's own."""
    penalty, uniform = float(_gap(environment).penalty), _uniform_loss(environment)
    spread = math.log(max(2, len(environment.outcomes)))
    centre = math.sqrt(8 * penalty * spread / (max(uniform, 1e-9) * environment.players))

    def bound(epsilon: float) -> float:
        tau = math.tanh(epsilon / 4)
        return _loss(environment, uniform, epsilon, tau / (tau + penalty))

    best = min((min(40.0, max(1e-8, centre * 10 ** (i / 200))) for i in range(-400, 401)), key=bound)
    return Fraction(f"{best:.4g}")
