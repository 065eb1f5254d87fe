"""What is spent and what is held: the arithmetic that every line obeys, written once for charging and for verifying.

A tab's line says what the tab still holds after it. Then every line, whatever its kind, does the same two things:
spent grows by its cost, and held changes by what its tab holds after it less what it held before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sfumato.privacy import Cost

NOTHING = Cost(0, None, 0)


def write_cost(cost: Cost) -> str:
    return f"{_write(cost.pure)} {_write(cost.renyi)} {cost.failure}"


def read_cost(text: str) -> Cost:
    pure, renyi, failure = text.split(" ")
    return Cost(_read(pure), _read(renyi), int(failure))


def _write(units: int | None) -> str:
    return "-" if units is None else str(units)


def _read(text: str) -> int | None:
    return None if text == "-" else int(text)


@dataclass(frozen=True, slots=True)
class Purse:
    """What was spent, and the sum of what open tabs hold. ``unbounded`` counts the tabs that hold no bound in the
    pure currency: a sum could not be taken back.
    """

    spent: Cost = NOTHING
    held: Cost = NOTHING
    unbounded: int = 0

    def after(self, cost: Cost, before: Cost = NOTHING, left: Cost = NOTHING) -> Purse:
        """After a line of this cost on a tab that held ``before`` and now holds ``left``."""
        spent = self.spent if cost is NOTHING else self.spent + cost
        if before is left:
            return Purse(spent, self.held, self.unbounded)
        held = (self.held + _bounded(left)).less(_bounded(before))
        return Purse(spent, held, self.unbounded + (left.pure is None) - (before.pure is None))

    @property
    def total(self) -> Cost:
        """Spent and held together: what admission is decided on."""
        total = self.spent + self.held
        return Cost(None, total.renyi, total.failure) if self.unbounded else total

    def __str__(self) -> str:
        return f"{write_cost(self.spent)} {write_cost(self.held)} {self.unbounded}"


@lru_cache(maxsize=64)
def read_purse(text: str) -> Purse:
    if not text:
        return Purse()
    spent_pure, spent_renyi, spent_failure, pure, renyi, failure, unbounded = text.split(" ")
    spent = Cost(_read(spent_pure), _read(spent_renyi), int(spent_failure))
    return Purse(spent, Cost(_read(pure), _read(renyi), int(failure)), int(unbounded))


def _bounded(cost: Cost) -> Cost:
    return Cost(0, cost.renyi, cost.failure) if cost.pure is None else cost
