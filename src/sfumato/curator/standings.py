"""A standing says where a budget stands: what it allows, what is spent, what is left, what it would accept now.

A standing is told for each period that was asked about, where every period has an account of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, at_most
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.notebook_html import folded, paragraph, paragraphs, preformatted, table
from sfumato.plan import account_periods
from sfumato.privacy import Budget, Sensitivity, codec
from sfumato.privacy.budget_words import closing, promised
from sfumato.privacy.numbers import NONNEGATIVE, chance, exact, shown

_KINDS = ("Laplace", "Gaussian")
CURRENCIES = ("currency", "allowed", "spent", "left")
"""What ``rows`` has in each column."""


@codec.value("standing")
@dataclass(frozen=True)
class Standing:
    """A standing says, for each currency, what a budget allows and has spent, and what it would accept now."""

    epsilon: Fraction
    delta: Fraction
    allowed: Mapping[str, Fraction | None] = field(metadata=codec.MAPPING)
    """None where nothing bounds it."""
    spent: Mapping[str, Fraction | None] = field(metadata=codec.MAPPING)
    left: Mapping[str, Fraction] = field(metadata=codec.MAPPING)
    """A currency that is closed is missing."""
    largest: Mapping[str, float] = field(metadata=codec.MAPPING)
    """The largest ε accepted now by kind of noise: pure for Laplace, at the account's δ for Gaussian."""
    ordinary: str = ""
    """How much ε is left for ordinary answers, in words: of this, and of the account that a share is of."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, exact(getattr(self, name), name, NONNEGATIVE))
        for name in ("allowed", "spent", "left"):
            object.__setattr__(self, name, _amounts(getattr(self, name), name))
        names = set(self.allowed)
        if set(self.spent) != names or not set(self.left) <= names or None in self.left.values():
            raise InvalidParameter("spent", self.spent, "an amount for each currency that is allowed")
        if not isinstance(self.largest, Mapping) or not set(self.largest) <= set(_KINDS):
            raise InvalidParameter("largest", self.largest, "numbers by kind of noise: " + ", ".join(_KINDS))
        largest = {name: codec.real(each, name) for name, each in self.largest.items()}
        object.__setattr__(self, "largest", largest)

    @classmethod
    def of(cls, *budgets: Budget) -> Standing:
        """Compute the last budget's standing, such as an analyst's share; what it would accept, all of them must."""
        budget = budgets[-1]
        kinds: dict[str, Any] = {"Laplace": Laplace, "Gaussian": Gaussian} if budget.delta else {"Laplace": Laplace}
        change = Sensitivity(1, 1, neighbours=budget.neighbours)
        return cls(
            budget.epsilon,
            budget.delta,
            budget.allowances.amounts,
            budget.spent,
            budget.remaining,
            {name: min(each.largest(kind, sensitivity=change) for each in budgets) for name, kind in kinds.items()},
            budget.left_beside(*budgets[:-1]),
        )

    def to_json(self) -> str:
        """Write the standing as JSON text; amounts are exact, and so written as strings."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Standing:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Write currency, allowed, spent and left of each currency that is in use, as text."""
        return [
            (
                name,
                _short(allowed),
                _short(self.spent[name]),
                _short(self.left[name]) if name in self.left else "closed",
            )
            for name, allowed in self.allowed.items()
            if allowed != 0
        ]

    @property
    def lines(self) -> list[str]:
        """Describe what is left for ordinary answers, for answers with Gaussian noise, and what is promised."""
        life = f"for life: {promised(self.epsilon, self.delta)}"
        return [f"budget left for ordinary answers: {self.ordinary}", *self._gaussian(), *self._found(), life]

    def _found(self) -> list[str]:
        """Describe how much δ is left for answers that find their groups in the data."""
        whole, left = self.allowed.get("failure"), self.left.get("failure")
        if not whole or left is None:
            return []
        return [f"δ left for groups that nobody listed: {at_most(left)} of {at_most(whole)}"]

    def _gaussian(self) -> list[str]:
        """Describe how much an answer with Gaussian noise may take now, and what it ends or has ended."""
        if not self.delta:
            return []
        most = exact(self.largest.get("Gaussian", 0.0), "largest")
        said = f"up to ε = {at_most(most)} at δ = {chance(self.delta)} in one answer" if most else "nothing"
        ended = "pure" not in self.left
        after = "Every answer is paid from what is left for Gaussian noise now." if ended else closing(self.left)
        return [f"budget left for answers with Gaussian noise: {said}", *([after] if most else [])]

    def details(self) -> list[str]:
        """Describe what it would accept of each kind of noise, and what it means that a currency is closed, where one is."""
        at = {"Laplace": "", "Gaussian": f" at δ = {chance(self.delta)}"}
        offers = " or ".join(
            f"{name} ε = {at_most(exact(most, 'largest'))}{at[name]}" for name, most in self.largest.items() if most
        )
        return [f"largest release accepted now: {offers or 'none'}", *self._closed()]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the words first, and the currencies folded away."""
        first, *others = self.lines
        counted = table(CURRENCIES, self.rows(), CURRENCIES[1:])
        return paragraph(first, strong=True) + paragraphs(others) + folded("details", counted)

    def _closed(self) -> list[str]:
        """Explain what it means that a currency is closed, where one is."""
        either = [name for name in ("pure", "renyi") if self.allowed.get(name) != 0 and name in self.allowed]
        closed = [name for name in either if name not in self.left]
        if not closed:
            return []
        rule = f"A release is accepted while it fits one of {' and '.join(either)}, and failure too."
        rest = [name for name in either if name in self.left]
        after = f"only what fits {rest[0]} is accepted" if rest else "nothing more is accepted"
        named = f"The currency {closed[0]} is" if len(closed) == 1 else "Both are"
        return [rule, f"{named} closed: more is spent than was allowed, so {after}."]


def _amounts(found: object, name: str) -> dict[str, Fraction | None]:
    if not isinstance(found, Mapping):
        raise InvalidParameter(name, found, "amounts by currency")
    return {
        currency: None if amount is None else exact(amount, f"{name} {currency}", NONNEGATIVE)
        for currency, amount in found.items()
    }


def _short(amount: Fraction | None) -> str:
    return "unbounded" if amount is None else shown(float(amount), 6)


@codec.value("period-standings")
@dataclass(frozen=True)
class PeriodStandings:
    """The standings of the accounts of all periods that were asked about, and of one that was not yet."""

    per: str
    promise: str
    """What the accounts promise, in words."""
    fresh: Standing
    """Of a period of which nothing was asked."""
    periods: tuple[str, ...] = ()
    standings: tuple[Standing, ...] = ()

    def __post_init__(self) -> None:
        codec.check_fields(self)
        known = (*self.standings, self.fresh) if type(self.standings) is tuple else (None,)
        if not all(isinstance(each, Standing) for each in known) or len(known) != len(self.periods) + 1:
            raise InvalidParameter("standings", self.standings, "a standing for each period")

    def __getitem__(self, period: str) -> Standing:
        """Return the standing of one period, such as "2024-03"."""
        account_periods.counted(period, self.per)
        return dict(zip(self.periods, self.standings, strict=True)).get(period, self.fresh)

    def to_json(self) -> str:
        """Write the standings as JSON text; amounts are exact, and so written as strings."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> PeriodStandings:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def rows(self) -> list[tuple[str, ...]]:
        """Write period, currency, allowed, spent and left of each currency of each period, as text."""
        every = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        return [(period, *row) for period, standing in every for row in standing.rows()]

    @property
    def lines(self) -> list[str]:
        """Describe what is left for ordinary answers of each period, and what is promised."""
        every = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        left = [f"  {period}: {standing.ordinary}" for period, standing in every]
        return ["budget left for ordinary answers:", *left, f"an account for each {self.per}; {self.promise}"]

    def details(self) -> list[str]:
        """Describe how the currencies of all periods are meant."""
        return [f"each {self.per} has these currencies of its own"]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the words first, and the currencies of each period folded away."""
        counted = table(("period", *CURRENCIES), self.rows(), CURRENCIES[1:])
        return preformatted(str(self)) + folded("details", counted)
