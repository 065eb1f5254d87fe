"""The settings of the shell say what a question may cost and what of one unit counts, until they are set again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, exact

OFF = "off"
_LIMITS = ("rows", "groups", "rows_per_group")


@dataclass(frozen=True)
class Settings:
    """These are a price or an accuracy, and limits; at first none is set, since no price is safe to assume."""

    epsilon: str | None = None
    delta: str = "0"
    within: str | dict[str, str] | None = None
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def price(self) -> dict[str, Any]:
        """Give the price as a question takes it."""
        return {"epsilon": self.epsilon, "delta": self.delta, "within": self.within}

    @property
    def priced(self) -> bool:
        """Tell whether there is a price."""
        return self.epsilon is not None or self.within is not None

    def __str__(self) -> str:
        return "; ".join([self._price(), *([f"limit {_pairs(self.limits)}"] if self.limits else [])])

    def _price(self) -> str:
        if not self.priced:
            return "no price yet"
        if self.within is None:
            price = f"ε = {self.epsilon}"
        else:
            price = f"within ±{self.within}" if isinstance(self.within, str) else f"within {_pairs(self.within)}"
        return price + (f", δ = {self.delta}" if exact(self.delta, "delta") else "")

    def with_epsilon(self, given: str) -> Settings:
        """Set the price of each question, and a δ with it if there is one: ``0.5`` or ``0.5 1e-6``."""
        epsilon, *rest = given.split() or [""]
        exact(epsilon, "epsilon", POSITIVE)
        if len(rest) > 1:
            raise InvalidParameter("epsilon", given, "a price, or a price and a δ", fix="write \\epsilon 0.5 1e-6")
        return replace(self.with_delta(rest[0]) if rest else self, epsilon=epsilon, within=None)

    def with_delta(self, given: str) -> Settings:
        """Set the δ of each question: 0 is none."""
        return replace(self, delta=_checked(given, "delta", NONNEGATIVE))

    def with_within(self, given: str) -> Settings:
        """Set how wrong an answer may be: one number for every column, or ``COLUMN=NUMBER`` for each."""
        words = given.split()
        if len(words) == 1 and "=" not in words[0]:
            return replace(self, within=_checked(words[0], "within", POSITIVE), epsilon=None)
        pairs = [each.rpartition("=") for each in words]
        if not pairs or not all(name for name, _, _ in pairs):
            fix = "write \\within 50, or \\within visits=50 cost=1000"
            raise InvalidParameter("within", given, "one number for all columns, or COLUMN=NUMBER for each", fix=fix)
        found = {name: _checked(width, f"within {name}", POSITIVE) for name, _, width in pairs}
        return replace(self, within=found, epsilon=None)

    def with_limit(self, given: str) -> Settings:
        """Set what of one unit counts: ``rows=5 groups=2``, or ``off`` for what the policy says."""
        if given.strip() == OFF:
            return replace(self, limits={})
        pairs = [each.partition("=") for each in given.split()]
        if not pairs or not all(name in _LIMITS and number.isdecimal() for name, _, number in pairs):
            fix = "write \\limit rows=5, or \\limit off"
            raise InvalidParameter("limit", given, "rows=NUMBER, groups=NUMBER, rows_per_group=NUMBER or off", fix=fix)
        return replace(self, limits=self.limits | {name: int(number) for name, _, number in pairs})

    def require_price(self) -> None:
        """Refuse to ask without a price."""
        if not self.priced:
            raise SfumatoError(
                "every question has a price, and none is set: there is no default",
                place="the shell",
                fix="set one with \\epsilon 0.5, or an accuracy with \\within 50, then \\ask",
            )


def _checked(given: str, name: str, rule: Any) -> str:
    exact(given, name, rule)
    return given


def _pairs(given: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in given.items())
