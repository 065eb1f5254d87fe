"""A budget may change while it is in use: what was spent stays spent, in the currencies it was counted in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NOTHING
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Budget, Cost, Guarantee, codec
from sfumato.privacy.amounts import exact_amount
from sfumato.privacy.budget_words import promised
from sfumato.privacy.numbers import BELOW_ONE, Number, exact, text
from sfumato.privacy.theorems import renyi_allowance

_AMPLE = Fraction(10**6)


@dataclass(frozen=True)
class Change:
    """A change says what a budget becomes, and why; what is None stays as it is."""

    reason: str
    epsilon: Number | None = None
    delta: Number | None = None
    reserve: Number | None = None


def amend(guarded: GuardedStore, transaction: Transaction, account: str, change: Change, spent: Cost) -> Row:
    """Append the line that changes an account's budget, of which so much is spent and held."""
    terms = guarded.terms(transaction, account)
    old = terms.budget
    most = old.delta if change.delta is None else exact(change.delta, "delta", BELOW_ONE)
    part = old.reserve * most / old.delta if old.delta else most
    kept = part if change.reserve is None else exact(change.reserve, "reserve")
    if kept != part and (spent.pure is None or spent.pure or spent.renyi or spent.failure):
        rule = "the same part of δ as before once something was spent: the proof fixes it"
        raise InvalidParameter("reserve", kept, rule)
    budget = amended(old, old.epsilon if change.epsilon is None else change.epsilon, most, kept, spent)
    if (budget.order is None) is not (old.order is None):
        raise InvalidParameter("reserve", kept, "all of δ in an account that was opened without an order")
    columns = {"question": change.reason, "detail": codec.dumps(replace(terms, budget=budget))}
    return transaction.append("amend", account, columns)


def amended(old: Budget, epsilon: Number, delta: Fraction, reserve: Fraction, spent: Cost) -> Budget:
    """Make the new budget, in the old one's order and for its neighbours. It must admit what is spent and held already:
    an account that says ε = 1 for life has not spent 4.
    """
    promise = Guarantee(epsilon, delta)
    least = _least(old.order, delta - reserve)
    if promise.epsilon > least:
        budget = Budget(promise.epsilon, delta, reserve=reserve, order=old.order, neighbours=old.neighbours)
        if budget.at(spent).admits(NOTHING):
            return budget
    elif spent.pure is not None and spent.pure <= exact_amount(promise.epsilon):
        raise InvalidParameter(
            "epsilon",
            text(promise.epsilon),
            f"more than {float(least):.6g} at this δ: the account counts Rényi divergence of order "
            f"{float(old.order or 0):.6g} for life, and a smaller ε leaves it no allowance",
        )
    raise InvalidParameter(
        "budget",
        promised(promise.epsilon, promise.delta),
        "one that covers what is spent and held already: " + spent.words,
        fix="give a larger ε, or a larger δ: what was answered cannot be taken back",
    )


def _least(order: Fraction | None, backed: Fraction) -> Fraction:
    """Find the ε up to which δ backs no allowance of this order; nothing where there is no such currency."""
    if order is None or not backed:
        return Fraction(0)
    return _AMPLE - renyi_allowance(Guarantee(_AMPLE, backed), order).divergence
