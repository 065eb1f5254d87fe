"""A spending limit beside an account: it reserves what a release will spend before the account is charged.

Whoever sets one stores it elsewhere, for example for all that one token of a server may ever spend. The order makes it
sound: the amount is reserved, durably; then the account is charged; then the reservation is settled as spent or
released. A process that ends in between leaves an unsettled reservation, which counts as spent.

A budget may change while it is in use: what was spent stays spent, in the currencies it was counted in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sfumato.errors import InvalidParameter
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NO_COST
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Budget, Cost, Curve, Guarantee, codec
from sfumato.privacy.amounts import exact_amount
from sfumato.privacy.budget_words import format_guarantee
from sfumato.privacy.numbers import BELOW_ONE, Number, amount_from_units, exact, format_exact, next_float_up
from sfumato.privacy.theorems import renyi_allowance
from sfumato.quick_dataclass import dataclass

_ROUNDING = Fraction(1, 10**12)
"""More than the relative error of computing in floats."""


class Reservation(Protocol):
    """An amount that is set aside until it is known whether the account was charged."""

    def settle(self, *, charged: bool) -> None:
        """Count the amount as spent, or release it. Never fails: what cannot be written stays reserved."""
        ...


class SpendingLimit(Protocol):
    """A limit that is asked before every charge of the account it stands beside."""

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        """Set this ε aside, durably, or refuse; None is an amount that no ε bounds."""
        ...


@contextmanager
def reserve_while_charging(
    limit: SpendingLimit | None, epsilon: Callable[[], Fraction | None], charged: Callable[[], bool]
) -> Iterator[None]:
    """Reserve an amount while the account is charged; ``charged`` returns at the end whether it was."""
    if limit is None:
        yield
        return
    reservation = limit.reserve(epsilon())
    try:
        yield
    finally:
        reservation.settle(charged=charged())


def release_epsilon(cost: Cost, curve: Curve | None, budget: Budget) -> Fraction | None:
    """Return the ε that a release counts with: its pure ε outside a failure that δ pays for, or else ε at the account's
    δ.

    Releases of (ε₁, δ₁), (ε₂, δ₂), … are together (Σεᵢ, Σδᵢ)-DP, also where each is chosen after the answers before
    (Dwork & Roth 2014, Theorem B.1), so a bound on the sum bounds the ε of all. Where only a Rényi
    divergence r of order α is stated, ε = r + log(1/δ)/(α − 1) (Mironov 2017, Proposition 3).
    """
    if cost.pure is not None:
        return amount_from_units(cost.pure)
    if not budget.delta:
        return None
    epsilon = math.inf
    if curve is not None:
        epsilon = curve.epsilon(budget.delta)
    elif cost.renyi is not None and budget.order is not None:
        epsilon = float(amount_from_units(cost.renyi)) + math.log(1 / float(budget.delta)) / (float(budget.order) - 1)
    return None if math.isinf(epsilon) else Fraction(next_float_up(epsilon)) * (1 + _ROUNDING)


_LARGE_EPSILON = Fraction(10**6)


@dataclass(frozen=True)
class BudgetChange:
    """What a budget changes to, and why; None leaves a field as it is."""

    reason: str
    epsilon: Number | None = None
    delta: Number | None = None
    reserve: Number | None = None


def append_amendment(
    guarded: GuardedStore, transaction: Transaction, account: str, change: BudgetChange, spent: Cost
) -> Row:
    """Append the line that changes an account's budget, of which ``spent`` is spent and held."""
    terms = guarded.terms_in_force(transaction, account)
    old = terms.budget
    delta = old.delta if change.delta is None else exact(change.delta, "delta", BELOW_ONE)
    same_reserve = old.reserve * delta / old.delta if old.delta else delta
    reserve = same_reserve if change.reserve is None else exact(change.reserve, "reserve")
    if reserve != same_reserve and (spent.pure is None or spent.pure or spent.renyi or spent.failure):
        rule = "the same share of δ as before, since something was spent: the privacy proof depends on it"
        raise InvalidParameter("reserve", reserve, rule, fix="leave out reserve")
    budget = amended_budget(old, old.epsilon if change.epsilon is None else change.epsilon, delta, reserve, spent)
    if (budget.order is None) is not (old.order is None):
        rule = "all of δ, since this account was opened without an order"
        raise InvalidParameter("reserve", reserve, rule, fix="set reserve to δ")
    columns = {"question": change.reason, "detail": codec.dumps(replace(terms, budget=budget))}
    return transaction.append("amend", account, columns)


def amended_budget(old: Budget, epsilon: Number, delta: Fraction, reserve: Fraction, spent: Cost) -> Budget:
    """Return the new budget, in the old one's order and for its neighbours. It must admit what is already spent and
    held: an account with a lifetime ε of 1 cannot have spent 4.
    """
    promise = Guarantee(epsilon, delta)
    min_epsilon = _min_epsilon(old.order, delta - reserve)
    if promise.epsilon > min_epsilon:
        budget = Budget(promise.epsilon, delta, reserve=reserve, order=old.order, neighbours=old.neighbours)
        if budget.with_spent(spent).admits(NO_COST):
            return budget
    elif spent.pure is not None and spent.pure <= exact_amount(promise.epsilon):
        raise InvalidParameter(
            "epsilon",
            format_exact(promise.epsilon),
            f"a number above {float(min_epsilon):.6g} at this δ: the account was opened for Rényi divergence of order "
            f"{float(old.order or 0):.6g}, which cannot be changed, and a smaller ε would leave no budget",
            fix="choose a larger ε or δ",
        )
    raise InvalidParameter(
        "budget",
        format_guarantee(promise.epsilon, promise.delta),
        "large enough for what is already spent and held: " + spent.words,
        fix="choose a larger ε or δ: answers cannot be taken back",
    )


def _min_epsilon(order: Fraction | None, backed_delta: Fraction) -> Fraction:
    """Return the ε up to which δ backs no allowance of this order; 0 where there is no such currency."""
    if order is None or not backed_delta:
        return Fraction(0)
    return _LARGE_EPSILON - renyi_allowance(Guarantee(_LARGE_EPSILON, backed_delta), order).divergence
