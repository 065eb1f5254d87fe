"""Budget standings: what a budget allows, what is spent, what remains, and the largest release it would accept.

Where every period has its own account, there is a standing per period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.html_fragments import collapsed, paragraph, paragraphs, preformatted, table
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.number_formats import format_rounded_down
from sfumato.plan import account_periods
from sfumato.privacy import Budget, Sensitivity, codec
from sfumato.privacy.amounts import format_guarantee, gaussian_warning
from sfumato.privacy.numbers import NONNEGATIVE, exact, format_number, format_probability
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    pass


_NOISE_KINDS = ("Laplace", "Gaussian")
CURRENCIES = ("currency", "allowed", "spent", "left")
"""The column headings of ``rows``."""


@codec.serialisable("standing")
@dataclass(frozen=True)
class Standing:
    """For each currency, what a budget allows and has spent, and the largest release it would accept."""

    epsilon: Fraction
    delta: Fraction
    allowed: Mapping[str, Fraction | None] = field(metadata=codec.MAPPING)
    """None if unbounded."""
    spent: Mapping[str, Fraction | None] = field(metadata=codec.MAPPING)
    left: Mapping[str, Fraction] = field(metadata=codec.MAPPING)
    """Closed currencies are missing."""
    largest: Mapping[str, float] = field(metadata=codec.MAPPING)
    """The largest ε accepted now by kind of noise: pure for Laplace, at the account's δ for Gaussian."""
    ordinary: str = ""
    """The remaining ε for ordinary answers in words, of a share and of its account."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, exact(getattr(self, name), name, NONNEGATIVE))
        for name in ("allowed", "spent", "left"):
            object.__setattr__(self, name, _parse_amounts(getattr(self, name), name))
        listed = ", ".join(self.allowed)
        if set(self.spent) != set(self.allowed):
            rule = f"a mapping with the keys of allowed ({listed or 'none'}) and an amount for each"
            raise InvalidParameter("spent", ValueWords(f"the keys {', '.join(self.spent) or 'none'}"), rule)
        if not set(self.left) <= set(self.allowed) or None in self.left.values():
            rule = f"a mapping from keys of allowed ({listed or 'none'}) to amounts"
            raise InvalidParameter("left", self.left, rule)
        if not isinstance(self.largest, Mapping) or not set(self.largest) <= set(_NOISE_KINDS):
            raise InvalidParameter(
                "largest",
                self.largest,
                f"a mapping whose keys are {join_with_or([*_NOISE_KINDS])} and whose values are numbers",
                fix='for example, set largest to {"Laplace": 0.5}',
            )
        largest = {name: codec.parse_float(amount, name) for name, amount in self.largest.items()}
        object.__setattr__(self, "largest", largest)

    @classmethod
    def of(cls, *budgets: Budget) -> Standing:
        """Compute the last budget's standing, such as an analyst's share; all budgets must accept a release."""
        budget = budgets[-1]
        mechanisms: dict[str, Any] = (
            {"Laplace": Laplace, "Gaussian": Gaussian} if budget.delta else {"Laplace": Laplace}
        )
        unit_sensitivity = Sensitivity(1, 1, neighbours=budget.neighbours)
        return cls(
            budget.epsilon,
            budget.delta,
            budget.allowances.amounts,
            budget.spent,
            budget.remaining,
            {
                name: min(payer.largest(mechanism, sensitivity=unit_sensitivity) for payer in budgets)
                for name, mechanism in mechanisms.items()
            },
            budget.remaining_words_with(*budgets[:-1]),
        )

    def to_json(self) -> str:
        """Serialize the standing as JSON text; amounts are exact, and so written as strings."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Standing:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return currency, allowed, spent and left of each currency in use, as text."""
        return [
            (
                name,
                _format_amount(allowed),
                _format_amount(self.spent[name]),
                _format_amount(self.left[name]) if name in self.left else "closed",
            )
            for name, allowed in self.allowed.items()
            if allowed != 0
        ]

    @property
    def lines(self) -> list[str]:
        """Describe what is left for ordinary answers, for Gaussian answers, and the lifetime guarantee."""
        life = f"for life: {format_guarantee(self.epsilon, self.delta)}"
        return [
            f"budget left for ordinary answers: {self.ordinary}",
            *self._gaussian_lines(),
            *self._discovery_lines(),
            life,
        ]

    def _discovery_lines(self) -> list[str]:
        """Describe how much δ is left for answers that discover their groups."""
        allowed, left = self.allowed.get("failure"), self.left.get("failure")
        if not allowed or left is None:
            return []
        return [f"δ left for finding undeclared groups: {format_rounded_down(left)} of {format_rounded_down(allowed)}"]

    def _gaussian_lines(self) -> list[str]:
        """Describe the largest Gaussian answer accepted now, and which currency it closes or has closed."""
        if not self.delta:
            return []
        largest = exact(self.largest.get("Gaussian", 0.0), "largest")
        offer = (
            f"up to ε = {format_rounded_down(largest)} at δ = {format_probability(self.delta)} in one answer"
            if largest
            else "nothing"
        )
        is_pure_closed = "pure" not in self.left
        consequence = (
            "All answers are now charged to the budget for Gaussian noise."
            if is_pure_closed
            else gaussian_warning(self.left)
        )
        return [f"budget left for answers with Gaussian noise: {offer}", *([consequence] if largest else [])]

    def details(self) -> list[str]:
        """Describe the largest release accepted per noise kind, and any closed currency."""
        delta_text = {"Laplace": "", "Gaussian": f" at δ = {format_probability(self.delta)}"}
        offers = " or ".join(
            f"{name} ε = {format_rounded_down(exact(epsilon, 'largest'))}{delta_text[name]}"
            for name, epsilon in self.largest.items()
            if epsilon
        )
        return [f"largest release accepted now: {offers or 'none'}", *self._closed_currency_lines()]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the words first, and the currencies folded away."""
        first, *others = self.lines
        currency_table = table(CURRENCIES, self.rows(), CURRENCIES[1:])
        return paragraph(first, strong=True) + paragraphs(others) + collapsed("details", currency_table)

    def _closed_currency_lines(self) -> list[str]:
        """Explain what it means that a currency is closed, where one is."""
        payment_currencies = [
            name for name in ("pure", "renyi") if self.allowed.get(name) != 0 and name in self.allowed
        ]
        closed = [name for name in payment_currencies if name not in self.left]
        if not closed:
            return []
        rule = f"A release must fit into what is left of {' or '.join(payment_currencies)}, and of failure (δ)."
        open_currencies = [name for name in payment_currencies if name in self.left]
        consequence = (
            f"only what fits into {open_currencies[0]} is accepted" if open_currencies else "nothing more is accepted"
        )
        subject = f"The currency {closed[0]} is" if len(closed) == 1 else "Both are"
        return [rule, f"{subject} closed: more was spent than it allows, so {consequence}."]


def _parse_amounts(amounts: object, name: str) -> dict[str, Fraction | None]:
    if not isinstance(amounts, Mapping):
        raise InvalidParameter(name, amounts, 'a mapping from "pure", "renyi" or "failure" to amounts')
    return {
        currency: None if amount is None else exact(amount, f'"{currency}" of {name!r}', NONNEGATIVE)
        for currency, amount in amounts.items()
    }


def _format_amount(amount: Fraction | None) -> str:
    return "unbounded" if amount is None else format_number(float(amount), 6)


@codec.serialisable("period-standings")
@dataclass(frozen=True)
class PeriodStandings:
    """The standings of all queried periods, and of a fresh one."""

    per: str
    promise: str
    """The guarantee of the accounts in words."""
    fresh: Standing
    """The standing of a period that was not yet queried."""
    periods: tuple[str, ...] = ()
    standings: tuple[Standing, ...] = ()

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        all_standings = (*self.standings, self.fresh) if type(self.standings) is tuple else (None,)
        if (
            not all(isinstance(standing, Standing) for standing in all_standings)
            or len(all_standings) != len(self.periods) + 1
        ):
            raise InvalidParameter("standings", self.standings, "a tuple with one standing for each period")

    def __getitem__(self, period: str) -> Standing:
        """Return the standing of one period, such as "2024-03"."""
        account_periods.parse_period(period, self.per)
        return dict(zip(self.periods, self.standings, strict=True)).get(period, self.fresh)

    def to_json(self) -> str:
        """Serialize the standings as JSON text; amounts are exact, and so written as strings."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> PeriodStandings:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def rows(self) -> list[tuple[str, ...]]:
        """Return period, currency, allowed, spent and left of each currency of each period, as text."""
        period_standings = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        return [(period, *row) for period, standing in period_standings for row in standing.rows()]

    @property
    def lines(self) -> list[str]:
        """Describe what is left for ordinary answers of each period, and the guarantee."""
        period_standings = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        period_lines = [f"  {period}: {standing.ordinary}" for period, standing in period_standings]
        return ["budget left for ordinary answers:", *period_lines, f"an account for each {self.per}; {self.promise}"]

    def details(self) -> list[str]:
        """Explain that each period has its own currencies."""
        return [f"each {self.per} has its own amount of each currency"]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the words first, and the currencies of each period folded away."""
        currency_table = table(("period", *CURRENCIES), self.rows(), CURRENCIES[1:])
        return preformatted(str(self)) + collapsed("details", currency_table)
