"""This is the arithmetic of spent and held that every line obeys, written once for charging and for verifying.

A tab's line says what the tab still holds after it. Then every line, whatever its kind, does the same two things:
spent grows by its cost, and held changes by what its tab holds after it less what it held before. Sums of amounts are
exact, or rounded up (``privacy.amounts``, where it is proved that no total is below the true sum).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from sfumato.privacy import Cost, amounts
from sfumato.privacy.amounts import Amount

ROUNDINGS = 2
"""How many sums one line rounds up at most, each by less than a unit: what is spent, and what is held. Adding both is
another rounding.
"""
NOTHING = Cost(0, None, 0)


def write_cost(cost: Cost) -> str:
    return f"{_write(cost.pure)} {_write(cost.renyi)} {_write(cost.failure)}"


@lru_cache(maxsize=1024)
def read_cost(text: str) -> Cost:
    pure, renyi, failure = text.split(" ")
    return Cost(_read(pure), _read_units(renyi), amounts.read(failure))


def _write(amount: Amount | None) -> str:
    return "-" if amount is None else str(amount) if type(amount) is int else amounts.write(amount)


def _read(text: str) -> Amount | None:
    return None if text == "-" else amounts.read(text)


def _read_units(text: str) -> int | None:
    return None if text == "-" else int(text)


class Spending(NamedTuple):
    """This is what was spent, and the sum of what open tabs hold, in units of 1e-30.

    A hold without a bound in the pure currency cannot be taken back out of a sum: ``unbounded`` counts these.
    """

    pure: Amount | None = 0
    renyi: int | None = None
    failure: Amount = 0
    held_pure: Amount = 0
    held_renyi: int | None = None
    held_failure: Amount = 0
    unbounded: int = 0

    def after(self, cost: Cost, before: Cost = NOTHING, left: Cost = NOTHING) -> Spending:
        """Add a line of this cost on a tab that held ``before`` and now holds ``left``."""
        if before is left and cost is NOTHING:
            return self
        pure = None if self.pure is None or cost.pure is None else amounts.add(self.pure, cost.pure)
        if before is left:
            spent = (pure, _sum(self.renyi, cost.renyi), amounts.add(self.failure, cost.failure))
            return tuple.__new__(Spending, spent + self[3:])  # a million times in a verification
        held = (self.held_renyi or 0) + (left.renyi or 0) - (before.renyi or 0)
        return Spending(
            pure,
            _sum(self.renyi, cost.renyi),
            amounts.add(self.failure, cost.failure),
            amounts.add(self.held_pure - (before.pure or 0), left.pure or 0),
            None if self.held_renyi is None and left.renyi is None else held,
            amounts.add(self.held_failure - before.failure, left.failure),
            self.unbounded + (left.pure is None) - (before.pure is None),
        )

    @property
    def spent(self) -> Cost:
        return Cost(self.pure, self.renyi, self.failure)

    @property
    def held(self) -> Cost:
        return Cost(None if self.unbounded else self.held_pure, self.held_renyi, self.held_failure)

    @property
    def total(self) -> Cost:
        """Add spent and held: admission is decided on this."""
        return self.spent + self.held

    def __str__(self) -> str:
        if Fraction in map(type, self):
            return " ".join(map(_write, self))
        pure, renyi, failure, held_pure, held_renyi, held_failure, unbounded = self
        spent = f"{'-' if pure is None else pure} {'-' if renyi is None else renyi} {failure}"
        return f"{spent} {held_pure} {'-' if held_renyi is None else held_renyi} {held_failure} {unbounded}"


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


@lru_cache(maxsize=64)
def read_spending(text: str) -> Spending:
    if not text:
        return Spending()
    pure, renyi, failure, held_pure, held_renyi, held_failure, unbounded = text.split(" ")
    return Spending(
        _read(pure),
        _read_units(renyi),
        amounts.read(failure),
        amounts.read(held_pure),
        _read_units(held_renyi),
        amounts.read(held_failure),
        int(unbounded),
    )
