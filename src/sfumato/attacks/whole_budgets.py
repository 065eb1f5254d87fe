"""A whole budget is spent at once, in one of the currencies that its account is kept in, on the noise that tells most.

An account of ε alone pays for Laplace noise of ε. One that also has a δ keeps a second currency, the Rényi divergence
r of one order α (``privacy.budget``): ρ = r/α pays for Gaussian noise, since ρ-zCDP is a divergence of at most ρα at
every order (Bun & Steinke 2016, Definition 1.1). What an account pays for once is the most that it pays for: the
release after it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.attacks.ceilings import account_ceiling, curve_ceiling, guess_ceiling
from sfumato.privacy import Budget, Curve, Guarantee, Neighbours
from sfumato.privacy.numbers import allowance_units, from_units, text


@dataclass(frozen=True)
class Spending:
    """A spending is the whole of an account at once: as ε, or as ρ where that is given."""

    budget: Budget
    rho: Fraction | None = None
    accounts: int = 1
    """How many accounts pay as much each: two, where the secret decides which of them tells."""

    @property
    def price(self) -> dict[str, Any]:
        """Say how a release is called for at this price."""
        if self.rho is None:
            return {"epsilon": self.budget.epsilon}
        return {"rho": self.rho, "mechanism": "gaussian"}

    def __str__(self) -> str:
        paid = f"ε = {text(self.budget.epsilon)}" if self.rho is None else f"ρ = {float(self.rho):.3g}"
        return paid if self.accounts == 1 else f"{paid} of each of {self.accounts} accounts"

    def account(self, times: int) -> Budget:
        """Give an account that pays so many times over, in either currency.

        At one order r = ε + c, where δ decides c (``theorems.renyi_allowance``). Where δ is small c is below 0, and r
        grows by more than ε does. Where δ is large r is more than ε, and so many times r is an ε that pays for it.
        """
        own, divergence = self.budget, from_units(self.budget.allowances.renyi or 0)
        epsilon = times * max(own.epsilon, divergence)
        return Budget(epsilon, own.delta, reserve=own.reserve, order=own.order, neighbours=own.neighbours)

    def ceiling(self, *, replaced: bool) -> float:
        """Bound right guesses of a coin that decides whether a unit is there, or by which one it is ``replaced``.

        What is bought with ε is beneath what the whole account promises; ρ has a curve of its own, and no more than the
        account's promise. Where ε is so large that δ of two units is no probability, nothing is bounded. What several
        accounts tell at the same time adds up (Lyu 2022, Theorem 1.1; Vadhan & Zhang 2023).
        """
        own = self.budget
        promise = Guarantee(own.epsilon * self.accounts, own.delta * self.accounts)
        most = account_ceiling(promise, own.neighbours) if replaced else guess_ceiling(promise)
        if self.rho is None:
            return most
        curve = Curve.concentrated(self.rho * self.accounts, own.neighbours)
        return min(most, curve_ceiling(curve.for_neighbours(Neighbours.REPLACE) if replaced else curve))

    def lean(self, told: float, low: float, high: float) -> float:
        """Say which of two counts a noisy one speaks for: the log-likelihood ratio of the noise that is paid for, up to
        its scale.
        """
        if self.rho is None:
            return abs(told - low) - abs(told - high)
        return (told - (low + high) / 2) * (high - low)


def spendings(budget: Budget) -> Iterator[Spending]:
    """List the ways to spend all of an account at once."""
    yield Spending(budget)
    if budget.order is not None and budget.allowances.renyi:
        yield Spending(budget, from_units(allowance_units(from_units(budget.allowances.renyi) / budget.order)))
