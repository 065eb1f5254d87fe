"""Choices are made private and exactly truthful with money: the exponential mechanism for welfare, with payments.

Theorem (Huang & Kannan 2012). The exponential mechanism's law D maximises E[W] + (2/ε)·entropy over all laws: it is
affine maximisation over laws, so Vickrey–Clarke–Groves payments make truth dominant in expectation. With Z the sum of
e^{εW(s)/2} over outcomes and Z₋ᵢ the same without player i, i pays in expectation

    pᵢ = E_D[vᵢ] − (2/ε)(ln Z − ln Z₋ᵢ),

and its utility is (2/ε)(ln Z − ln Z₋ᵢ) ≥ 0: nobody is worse off than staying away, and pᵢ ≥ 0.

The expected payment is an exact function of everybody's report and would give them away. As (2/ε)(ln Z − ln Z₋ᵢ) =
∫₀¹ E[vᵢ under reports in which i's is scaled by x] dx, the same expectation is reached by a private draw: pick x
uniformly, draw a second outcome s′ with i's report scaled by x, and charge vᵢ(s) − vᵢ(s′) (after Babaioff, Kleinberg &
Slivkins 2010). What player i sees, the outcome and its own payment, is then two selections: 2ε for everybody else's
report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Law, law_of
from sfumato.games.rules import Welfare
from sfumato.games.truth import Truthfulness, truthfulness
from sfumato.mechanisms import Exponential, bits
from sfumato.privacy import Curve, Neighbours, compose
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import Number

_DIGITS = 70
_ERROR = Fraction(1, 10**55)
_ROOM = 60  # bits in which differences of welfare are compared when a selection is drawn
_LEAST_BITS = 24


@dataclass(frozen=True)
class Bill:
    """A bill says what was drawn: the outcome, and each player's payment."""

    outcome: int
    payments: tuple[Fraction, ...]
    """Each to be told to its payer alone; a negative one is paid out. Their expectations are the theorem's."""

    __repr__ = spelled


@dataclass(frozen=True)
class Priced:
    """A priced mechanism is the exponential mechanism for welfare with Huang and Kannan's payments."""

    environment: Environment
    selection: Exponential

    @property
    def curve(self) -> Curve:
        """Give the curve of what the outcome leaks about one report."""
        return self.selection.curve()

    @property
    def payer_curve(self) -> Curve:
        """Give the curve of what one payer sees of another's report: the outcome, and its own payment."""
        return compose([(self.selection.curve(), 2)])

    @property
    def anonymous(self) -> bool:
        return self.environment.symmetric

    def law(self, reports: tuple[int, ...]) -> Law:
        game = self.environment
        scores = game.welfare(reports)
        law = law_of(self.selection.in_parts(game.scale), game.totals(reports))
        if game.symmetric:
            asked = set(reports)
            rows = [row if t in asked else None for t, row in enumerate(game.best(0))]
        else:
            rows = [game.best(i)[t] for i, t in enumerate(reports)]
        payments = tuple(
            Fraction(0) if row is None else law.mean(row) / game.scale - self._in_own_terms(scores, row) for row in rows
        )
        return Law(law.weights, law.error + _ERROR, payments)

    def _in_own_terms(self, scores: tuple[Fraction, ...], own: tuple[int, ...]) -> Fraction:
        """Compute (2/ε)(ln Z − ln Z₋ᵢ), the game's value to a player with these values."""
        rest = [score - Fraction(value, self.environment.scale) for score, value in zip(scores, own, strict=True)]
        return (_log_sum(scores, self.selection.rate) - _log_sum(rest, self.selection.rate)) / self.selection.rate

    def value(self, law: Law, player: int, truth: int, report: int, /) -> Fraction:
        paid = law.payments[report if self.anonymous else player]
        return law.mean(self.environment.best(player)[truth]) / self.environment.scale - paid

    def certified(self, coalition: int, /) -> tuple[Fraction, Fraction]:
        """Nobody gains alone; utilities and payments lie in [0, 1], and nothing more is promised about coalitions."""
        return Fraction(0 if coalition == 1 else 2), Fraction(2)

    def payments(self, reports: Any) -> tuple[Fraction, ...]:
        """Compute expected payments, exact to 10⁻⁵⁰: the auctioneer's own figures, not private."""
        profile = self.environment.profile(reports)
        paid = self.law(profile).payments
        return tuple(paid[t] for t in profile) if self.anonymous else paid

    def proof(self, **options: Any) -> Truthfulness:
        """Find the best misreport on this very instance, payments counted."""
        return truthfulness(self, self.environment, **options)

    @property
    def fineness(self) -> int:
        """x is the middle of one of 2^fineness parts: an expected payment is then off by at most ε²·4^−fineness."""
        return _ROOM - (self.environment.players * self.environment.scale).bit_length()

    def release(self, reports: Any) -> Bill:
        """Draw the outcome and each player's payment."""
        game, profile = self.environment, self.environment.profile(reports)
        totals = game.totals(profile)
        outcome = self.selection.in_parts(game.scale).choose(totals)
        # Totals less (1 − x)·v are whole numbers of this step, which the number of players and the scale decide.
        step = Fraction(1, 2 << self.fineness)
        scaled = self.selection.in_parts(game.scale, step)
        payments = []
        for i, t in enumerate(profile):
            own = game.best(i)[t]
            less = 1 - (2 * bits.integer(self.fineness) + 1) * step
            second = scaled.choose([total - less * value for total, value in zip(totals, own, strict=True)])
            payments.append(Fraction(own[outcome] - own[second], game.scale))
        return Bill(outcome, tuple(payments))


def truthful_with_money(environment: Environment, epsilon: Number) -> Priced:
    """Make Huang and Kannan's mechanism: an ε-DP outcome of nearly the best welfare, and payments that make truth
    dominant.

    >>> priced = truthful_with_money(Environment([[1, 0], [0, 1]], players=3), epsilon=1)
    >>> [round(float(p), 4) for p in priced.payments([0, 0, 1])]
    [0.0606, 0.0606, 0.0559]
    >>> priced.proof().gain[1] < 1e-40
    True
    """
    selection = Exponential(epsilon, sensitivity=1, neighbours=Neighbours.REPLACE)
    rule = Welfare(environment, selection)
    priced = Priced(rule.environment, selection)
    if priced.fineness < _LEAST_BITS:
        raise InvalidParameter(
            "environment",
            environment,
            "one whose utilities have a common denominator below 2^36/players",
            fix="round the utilities to fewer digits",
        )
    return priced


def _log_sum(scores: Sequence[Fraction], rate: Fraction) -> Fraction:
    """Compute ln Σ e^{rate·score} to 60 digits."""
    context = bits.digits(_DIGITS)
    top = max(scores)
    powers = [context.exp(bits.decimal(rate * (score - top), context)) for score in scores]
    total = Decimal(0)
    for power in powers:
        total = context.add(total, power)
    return rate * top + Fraction(total.ln(context))
