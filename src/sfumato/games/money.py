"""Exactly truthful private mechanisms with money: the exponential mechanism over welfare, with payments.

Theorem (Huang & Kannan 2012). The exponential mechanism's law D maximises E[W] + (2/ε)·entropy over all laws: it is
affine maximisation over laws, so Vickrey–Clarke–Groves payments make truth dominant in expectation. With Z the sum of
e^{εW(s)/2} over outcomes and Z₋ᵢ the same without player i, the expected payment of player i is

    pᵢ = E_D[vᵢ] − (2/ε)(ln Z − ln Z₋ᵢ),

and the expected utility is (2/ε)(ln Z − ln Z₋ᵢ) ≥ 0: participation is individually rational, and pᵢ ≥ 0.

The expected payment is an exact function of all reports and would reveal them. As (2/ε)(ln Z − ln Z₋ᵢ) = ∫₀¹ E[vᵢ
under reports in which i's is scaled by x] dx, a private draw has the same expectation: pick x uniformly, draw a second
outcome s′ with i's report scaled by x, and charge vᵢ(s) − vᵢ(s′) (after Babaioff, Kleinberg & Slivkins 2010). What
player i sees, the outcome and the own payment, is then two selections: 2ε for every other player's report.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.games.environment import Environment, Law, law_of_selection
from sfumato.games.rules import WelfareSelection
from sfumato.games.truth import Truthfulness, truthfulness
from sfumato.mechanisms import Exponential, bits
from sfumato.privacy import Curve, Neighbours, compose
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

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
            "one whose utilities have few digits (their common denominator, times the players, is below 2^36)",
            fix="round the utilities to fewer digits",
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
