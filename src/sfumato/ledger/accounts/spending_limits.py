"""A spending limit stands beside an account: it reserves what a release will spend before the account is charged.

Whoever sets one keeps it elsewhere, such as for all that one token of a server may ever spend. The order is what makes
it hold: the amount is reserved, durably, then the account is charged, then the reservation is settled as spent or given
back. A process that ends in between leaves a reservation that nobody settles, and it counts as spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Protocol

from sfumato.privacy import Budget, Cost, Curve
from sfumato.privacy.numbers import from_units, raised

_ROUNDING = Fraction(1, 10**12)
"""More than what computing in floats can lose, in parts of the result."""


class Reservation(Protocol):
    """A reservation is an amount that is set aside until the account has said whether it was charged."""

    def settle(self, *, charged: bool) -> None:
        """Count the amount as spent, or give it back. It never fails: what cannot be written stays reserved."""
        ...


class SpendingLimit(Protocol):
    """A spending limit is asked before every charge of the account that it stands beside."""

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        """Set this ε aside, durably, or refuse; None is an amount that no ε bounds."""
        ...


@contextmanager
def reserved(
    limit: SpendingLimit | None, epsilon: Callable[[], Fraction | None], charged: Callable[[], bool]
) -> Iterator[None]:
    """Set an amount aside while the account is charged; ``charged`` tells at the end whether it was."""
    if limit is None:
        yield
        return
    held = limit.reserve(epsilon())
    try:
        yield
    finally:
        held.settle(charged=charged())


def epsilon_of(cost: Cost, curve: Curve | None, budget: Budget) -> Fraction | None:
    """Give the ε that a release counts with: its pure ε outside a failure that δ pays for, or else at the account's δ.

    Releases of (ε₁, δ₁), (ε₂, δ₂), … are together (Σεᵢ, Σδᵢ)-DP, also where each is chosen after the answers before
    (Dwork & Roth 2014, Theorem 3.16 and §3.5.2), so a bound on the sum bounds the ε of all. Where only a Rényi
    divergence r of order α is stated, ε = r + log(1/δ)/(α − 1) (Mironov 2017, Proposition 3).
    """
    if cost.pure is not None:
        return from_units(cost.pure)
    if not budget.delta:
        return None
    found = math.inf
    if curve is not None:
        found = curve.epsilon(budget.delta)
    elif cost.renyi is not None and budget.order is not None:
        found = float(from_units(cost.renyi)) + math.log(1 / float(budget.delta)) / (float(budget.order) - 1)
    return None if math.isinf(found) else Fraction(raised(found)) * (1 + _ROUNDING)
