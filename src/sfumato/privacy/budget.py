"""The spending rule of an account whose next price may depend on every earlier answer.

An analyst chooses the next question and its price after seeing answers, so only addition in a currency fixed at
opening is safe: max-divergence (Rogers, Roth, Ullman & Vadhan 2016) or Rényi divergence of one fixed order (Feldman
& Zrnic 2021; for interactive mechanisms open at the same time, Haney et al. 2023). An account keeps both and
accepts while either lasts.

Theorem (either currency). Release i carries, fixed before it runs, (δᵢ, eᵢ, rᵢ): outside a failure of probability
δᵢ its max-divergence is ≤ eᵢ and its divergence of the account's order ≤ rᵢ. Accepting iff Σδᵢ ≤ reserve and (Σeᵢ ≤
ε or Σrᵢ ≤ r), where D_order ≤ r implies (ε, δ − reserve)-DP, the whole transcript is (ε, δ)-DP. Proof: failures
have total probability at most the reserve. Outside them let M_j be the account halted when currency j would first
overflow, and A_j the transcripts whose final sum in j fits (each in the first such j): on A_j the account equals
M_j, so P(S) ≤ e^ε·Q(S) + 0 + (δ − reserve) + reserve. ∎
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sfumato.caching import once_per_last_argument
from sfumato.errors import MIN_USEFUL_EPSILON, InvalidParameter, NeighboursDiffer, Overspent
from sfumato.privacy import amounts, codec
from sfumato.privacy.amounts import Amount, charge_amount, exact_amount, format_guarantee, format_remaining
from sfumato.privacy.calibration import Noise, curve_of_new_mechanism, least_parameter
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    NONNEGATIVE,
    PROBABILITY,
    Number,
    amount_from_units,
    exact,
    format_number,
    format_probability,
    units_rounded_down,
    units_rounded_up,
)
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.theorems import renyi_allowance
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture
    from sfumato.privacy.pictures import History


def _checked_renyi_units(value: object, name: str) -> int:
    """Check a total of Rényi divergence: a plain int ≥ 0 of any size, never a value that needs conversion."""
    if type(value) is not int or value < 0:
        raise InvalidParameter(name, value, "a whole number ≥ 0 (in units of 1e-30)")
    return value


def _sum_if_both_stated(a: Amount | None, b: Amount | None) -> Amount | None:
    """Add two amounts; the sum is None (unstated) if either is."""
    return None if a is None or b is None else amounts.add_rounded_up(a, b)


def _is_stated_and_within(total: Amount | None, allowed: Amount | None) -> bool:
    return total is not None and allowed is not None and total <= allowed


def _format_finite_amount(amount: Fraction) -> str:
    """Format an amount for people; one beyond all floats, as only a forged text holds, is shown too."""
    return (
        format_number(float(amount))
        if amount <= _MAX_FORMATTED_AMOUNT
        else f"more than {float(_MAX_FORMATTED_AMOUNT):g}"
    )


_MAX_FORMATTED_AMOUNT = 10**300


@codec.serialisable("cost")
@dataclass(frozen=True)
class Cost:
    """The price of one release in every currency of an account, in units of 1e-30.

    Max-divergence and failure are kept exactly where their denominators are small, and rounded up otherwise
    (``privacy.amounts``); Rényi divergence, which is computed in floats, is always rounded up to whole units.
    """

    pure: Amount | None = field(metadata=amounts.WRITTEN)
    """Max-divergence outside the failure; None when unbounded."""
    renyi: int | None
    """Rényi divergence of the account's order outside the failure; None when it is not stated, as in an account that
    has no such currency. Where an account has one, what is not stated is unbounded.
    """
    failure: Amount = field(metadata=amounts.WRITTEN)

    def __post_init__(self) -> None:
        if self.pure is not None and (type(self.pure) is not int or self.pure < 0):
            object.__setattr__(self, "pure", amounts.checked_amount(self.pure, "pure"))
        if type(self.failure) is not int or self.failure < 0:
            object.__setattr__(self, "failure", amounts.checked_amount(self.failure, "failure"))
        if self.renyi is not None:
            _checked_renyi_units(self.renyi, "renyi")

    @property
    def is_zero(self) -> bool:
        """Whether the cost is zero: a max-divergence of 0 makes every Rényi divergence 0, stated or not."""
        return self.pure == 0 and not self.renyi and not self.failure

    def __add__(self, other: Cost) -> Cost:
        """Add the costs of two releases: a currency that is unbounded or unstated in either stays so."""
        if self.is_zero or other.is_zero:
            return other if self.is_zero else self
        renyi = None if self.renyi is None or other.renyi is None else self.renyi + other.renyi
        return Cost(
            _sum_if_both_stated(self.pure, other.pure), renyi, amounts.add_rounded_up(self.failure, other.failure)
        )

    @property
    def words(self) -> str:
        """The price in the ε that people type: Gaussian noise has none of its own."""
        phrases = [
            "Gaussian noise" if self.pure is None else f"ε = {_format_finite_amount(amount_from_units(self.pure))}"
        ]
        phrases += [f"δ = {_format_finite_amount(amount_from_units(self.failure))}"] if self.failure else []
        return "" if self.is_zero else ", ".join(phrases)

    def __repr__(self) -> str:
        nonzero = [(name, amount) for name, amount in self.amounts.items() if amount != 0]
        return ", ".join(f"{name} {'∞' if value is None else _format_finite_amount(value)}" for name, value in nonzero)

    @property
    def amounts(self) -> dict[str, Fraction | None]:
        """The amount per currency: None if unbounded, absent if the account has no such currency."""
        by_currency = {"pure": None if self.pure is None else amount_from_units(self.pure)}
        if self.renyi is not None:
            by_currency["renyi"] = amount_from_units(self.renyi)
        return {**by_currency, "failure": amount_from_units(self.failure)}

    def covers(self, other: Cost) -> bool:
        """Return whether the other cost is at most this one in every currency; a currency that only one of them states
        never fits.
        """
        if other.is_zero:
            return True
        pure = self.pure is None or (other.pure is not None and other.pure <= self.pure)
        renyi = _is_stated_and_within(other.renyi, self.renyi) or self.renyi is other.renyi is None
        return pure and renyi and other.failure <= self.failure

    def minus(self, other: Cost) -> Cost:
        """Subtract a cost that this one covers; an unbounded currency stays unbounded."""
        if other.is_zero:
            return self
        pure = None if self.pure is None or other.pure is None else amounts.subtract_rounded_down(self.pure, other.pure)
        renyi = None if self.renyi is None or other.renyi is None else self.renyi - other.renyi
        return Cost(pure, renyi, amounts.subtract_rounded_down(self.failure, other.failure))

    def with_short_fractions(self) -> Cost:
        """Round up the amounts whose denominators are too large to be written down."""
        pure = None if self.pure is None else amounts.round_up_if_long(self.pure)
        return Cost(pure, self.renyi, amounts.round_up_if_long(self.failure))

    def in_whole_units(self) -> Cost:
        """Round up to whole units: what was charged for a release before fractions were kept."""
        return Cost(None if self.pure is None else math.ceil(self.pure), self.renyi, math.ceil(self.failure))

    def is_rounded_sum(self, first: Cost, second: Cost) -> bool:
        """Return whether this cost, as the sum of the other two, was rounded up."""
        pure_is_exact = None in (self.pure, first.pure, second.pure) or self.pure == first.pure + second.pure  # type: ignore[operator]
        return not pure_is_exact or self.failure != first.failure + second.failure

    def minus_roundings(self, roundings: int) -> Cost:
        """Return a lower bound of the exact sum whose recorded value this is, given the largest number of roundings."""
        pure = None if self.pure is None else max(0, self.pure - roundings)
        return Cost(pure, self.renyi, max(0, self.failure - roundings))


@codec.serialisable("budget")
@dataclass(frozen=True)
class Budget:
    """The lifetime ε and δ of an account, and its totals. Frozen: ``charge`` returns the account after the charge.

    With δ > 0 a ``reserve`` of δ (a tenth by default) pays for failures such as key thresholds, and the rest backs
    a Rényi currency of one ``order`` (the best for Gaussian noise by default). Totals are exact while their
    denominators are small (``privacy.amounts``): nothing drifts, and a charge costs the same after a million others.

    >>> account = Budget(1)
    >>> for _ in range(3): account = account.charge(Curve.pure("1/3"))
    >>> account.remaining
    {'pure': Fraction(0, 1)}
    """

    epsilon: Fraction
    delta: Fraction
    reserve: Fraction
    order: Fraction | None
    neighbours: Neighbours
    spent_pure: Amount | None = field(metadata=amounts.WRITTEN)
    spent_renyi: int | None
    spent_failure: Amount = field(metadata=amounts.WRITTEN)
    allowances: Cost = field(init=False, repr=False, compare=False)
    """The opening allowance per currency, in units: exact for max-divergence and failure, rounded down for Rényi
    divergence.
    """
    _history: ClassVar[History | None] = None
    """The source of past charges for ``plot``; no part of the value (``told_by``)."""

    def __init__(
        self,
        epsilon: Number,
        delta: Number = 0,
        *,
        reserve: Number | None = None,
        order: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        spent_pure: Amount | str | None = 0,
        spent_renyi: int | None = 0,
        spent_failure: Amount | str = 0,
    ) -> None:
        lifetime = Guarantee(epsilon, delta)
        failure_reserve = lifetime.delta / 10 if reserve is None else exact(reserve, "reserve", NONNEGATIVE)
        if failure_reserve > lifetime.delta:
            rule = f"from 0 to {format_probability(lifetime.delta)}, the budget's δ"
            if not lifetime.delta:
                rule = "0, because the budget's δ is 0"
            raise InvalidParameter("reserve", reserve, rule, fix="lower reserve, or raise delta")
        renyi_order = None if order is None else exact(order, "order", ABOVE_ONE)
        renyi_delta = lifetime.delta - failure_reserve
        renyi_units = None
        if renyi_delta and lifetime.epsilon:
            allowance = renyi_allowance(Guarantee(lifetime.epsilon, renyi_delta), renyi_order)
            renyi_order, renyi_units = allowance.order, units_rounded_down(allowance.divergence)
        elif renyi_order is not None:
            rule = "left out, because delta is not larger than reserve"
            raise InvalidParameter("order", order, rule, fix="leave out order, or raise delta")
        for name, value in (
            ("epsilon", lifetime.epsilon),
            ("delta", lifetime.delta),
            ("reserve", failure_reserve),
            ("order", renyi_order),
            ("neighbours", Neighbours.of(neighbours)),
            ("spent_pure", None if spent_pure is None else amounts.checked_amount(spent_pure, "spent_pure")),
            ("spent_renyi", None if spent_renyi is None else _checked_renyi_units(spent_renyi, "spent_renyi")),
            ("spent_failure", amounts.checked_amount(spent_failure, "spent_failure")),
            ("allowances", Cost(exact_amount(lifetime.epsilon), renyi_units, exact_amount(failure_reserve))),
        ):
            object.__setattr__(self, name, value)

    @once_per_last_argument
    def cost(self, curve: Curve) -> Cost:
        """Price a release in this account's currencies; a curve for the other neighbouring relation is refused."""
        if not isinstance(curve, Curve):
            raise InvalidParameter("curve", curve, "a Curve", fix="pass mechanism.curve(…), or Curve.pure(epsilon)")
        if curve.neighbours is not self.neighbours:
            raise NeighboursDiffer(
                curve.neighbours.value,
                self.neighbours.value,
                place="Budget",
                fix=f"charge curve.for_neighbours({self.neighbours.value!r})"
                if self.neighbours is Neighbours.REPLACE
                else "use a mechanism whose sensitivity is stated for add-remove neighbours",
            )
        pure = curve.max_divergence
        return Cost(
            None if pure is None else charge_amount(pure),
            None if self.order is None else units_rounded_up(curve.renyi_above(self.order)),
            charge_amount(curve.failure),
        )

    def affords(self, curve: Curve) -> bool:
        return self.admits(self.cost(curve))

    def charge(self, curve: Curve) -> Budget:
        """Return the account after this release, or raise ``Overspent``."""
        cost = self.cost(curve)
        if not self.admits(cost):
            raise self.refusal(cost)
        return self.with_spent(self.totals + cost)

    def admits(self, cost: Cost) -> bool:
        """Return whether the rule of the theorem accepts a cost. It is decided here only: an unstated currency never
        fits.
        """
        allowed, total = self.allowances, self.totals + cost
        one_currency_lasts = _is_stated_and_within(total.pure, allowed.pure) or _is_stated_and_within(
            total.renyi, allowed.renyi
        )
        return total.failure <= allowed.failure and one_currency_lasts

    def refusal(self, cost: Cost, place: str = "the account", *others: Budget) -> Overspent:
        """Build the error for a cost that is not admitted, with the largest ε that this account and the ``others`` that
        are charged too would accept.
        """
        largest = min(account.largest_pure() for account in (self, *others))
        return Overspent(cost.amounts, self.remaining, largest, place=place, allowed=self.allowances.amounts["pure"])

    @property
    def totals(self) -> Cost:
        """The totals spent so far, in units."""
        return Cost(self.spent_pure, None if self.order is None else self.spent_renyi, self.spent_failure)

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """The totals spent so far, per currency; None where unbounded."""
        return self.totals.amounts

    def with_spent(self, totals: Cost) -> Budget:
        """Return this account with other totals; its parameters were validated when it was opened."""
        return _with_spent(self, self.allowances, totals)

    def share(self, part: Number) -> Budget:
        """Return this account with every allowance scaled by ``part``: an allotment, no guarantee of its own."""
        fraction = exact(part, "part", PROBABILITY)
        pure, renyi, failure = self.allowances.pure, self.allowances.renyi, self.allowances.failure
        scaled = Cost(
            None if pure is None else pure * fraction,
            None if renyi is None else int(renyi * fraction),
            failure * fraction,
        )
        return _with_spent(self, scaled, self.totals)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The remaining allowance per currency; a closed currency is absent."""
        allowed, unspent = self.allowances, {}
        if (pure := _remaining_pure(self)) is not None:
            unspent["pure"] = pure
        if self.spent_renyi is not None and allowed.renyi is not None and self.spent_renyi <= allowed.renyi:
            unspent["renyi"] = amount_from_units(allowed.renyi - self.spent_renyi)
        if self.delta:
            unspent["failure"] = amount_from_units(max(0, allowed.failure - self.spent_failure))
        return unspent

    def largest(
        self, family: Callable[[Fraction], Noise], *, sensitivity: Sensitivity | Number = 1, delta: Number | None = None
    ) -> float:
        """Return the largest ε of a release with this family of noise that would be accepted now; 0 when none would.

        ``family(parameter)`` makes the noise; larger parameters mean more of it. The ε is at this δ; by default at
        δ = 0 where the noise is pure, else at the account's own.
        """
        change = Sensitivity.of(sensitivity)
        curve_of_new_mechanism(family, Fraction(1), change)

        def fits(parameter: Fraction) -> bool:
            try:
                return self.affords(curve_of_new_mechanism(family, parameter, change))
            except InvalidParameter:  # noise so small, or so large, is not drawn
                return False

        try:
            least_size = least_parameter(fits, "the remaining budget")
        except InvalidParameter:
            return 0.0
        curve = curve_of_new_mechanism(family, least_size, change)
        default_delta = self.delta if curve.max_divergence is None else curve.failure
        return curve.epsilon(default_delta if delta is None else delta)

    def largest_pure(self) -> Fraction:
        """Return the largest ε of a release known only to be ε-DP that either currency would accept."""
        return _search_largest_pure(self.with_spent(self.totals), self.allowances)

    def _largest_within_pure_currency(self) -> Fraction:
        """Return the largest ε that fits the remaining max-divergence: all of it if that amount is charged without
        rounding, else whole units, or one unit less where the rounded-up total would pass the allowance.
        """
        remaining_units = exact_amount(self.remaining.get("pure", Fraction(0)))
        candidates = (remaining_units, math.floor(remaining_units), math.floor(remaining_units) - 1)
        affordable = (
            amount_from_units(units)
            for units in candidates
            if units > 0 and charge_amount(amount_from_units(units)) == units and self.affords(self._pure_curve(units))
        )
        return next(affordable, Fraction(0))

    def _pure_curve(self, units: Amount) -> Curve:
        return Curve.pure(amount_from_units(units), self.neighbours)

    def with_history(self, history: History) -> Budget:
        """Return an equal budget that knows where its past charges are read when it is drawn."""
        budget = _with_spent(self, self.allowances, self.totals)
        object.__setattr__(budget, "_history", history)
        return budget

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the spent share of each currency over time, from the curator's ledger; without a ledger, as of now. With
        a path (.svg, .png, .html) the picture is saved, too.
        """
        from sfumato.plots.picture import save_if_path
        from sfumato.privacy.pictures import draw_spent_shares  # most budgets are never drawn

        promise = f"for life: {format_guarantee(self.epsilon, self.delta)}"
        moments = () if self._history is None else self._history.read_spending_points()
        return save_if_path(
            draw_spent_shares(moments, self.spent, self.allowances.amounts, datetime.now(UTC), promise), path
        )

    @property
    def remaining_words(self) -> str:
        """The ε left for ordinary answers, in words."""
        return self.remaining_words_with()

    def remaining_words_with(self, *others: Budget) -> str:
        """Return the ε left for ordinary answers that are charged here and to the ``others``, in words."""
        budgets = (self, *others)
        remaining_units = [_remaining_pure_units(account) for account in budgets]
        open_totals = [units for units in remaining_units if units is not None]
        smallest = min(open_totals) if len(open_totals) == len(budgets) else None
        left = {} if smallest is None else {"pure": amount_from_units(smallest)}
        if smallest is not None and smallest >= _MIN_USEFUL_UNITS and self.allowances.pure is not None:
            return format_remaining({"pure": amount_from_units(self.allowances.pure)}, {}, left, Fraction(0))
        limiting = budgets[remaining_units.index(smallest)]
        largest = min(account.largest_pure() for account in budgets)
        return format_remaining(limiting.allowances.amounts, limiting.spent, left, largest)

    @property
    def promise(self) -> str:
        """The lifetime guarantee, in words."""
        return f"for life: {format_guarantee(self.epsilon, self.delta)} ({self.neighbours.value} neighbours)"

    def __repr__(self) -> str:
        return f"budget left for ordinary answers: {self.remaining_words}\n{self.promise}"

    def _repr_html_(self) -> str:
        """Render the remaining budget in words with a bar; the table of currencies is folded away."""
        from sfumato.html_fragments import bar, collapsed, paragraph, table

        allowed, spent, remaining = self.allowances.amounts, self.spent, self.remaining
        rows = [
            (
                name,
                *(_format_amount_or(by_currency.get(name, None)) for by_currency in (allowed, spent)),
                _format_amount_or(remaining.get(name), "closed"),
            )
            for name in allowed
        ]
        pure_share = float(remaining["pure"] / allowed["pure"]) if remaining.get("pure") and allowed["pure"] else 0.0
        headline = f"budget left for ordinary answers: {self.remaining_words}"
        currencies = table(("currency", "allowed", "spent", "left"), rows, ("allowed", "spent", "left"))
        return (
            bar(pure_share)
            + paragraph(headline, strong=True)
            + paragraph(self.promise)
            + collapsed("details", currencies)
        )


def _format_amount_or(amount: Fraction | None, missing: str = "unbounded") -> str:
    return missing if amount is None else format_number(float(amount), 6)


@lru_cache(maxsize=1024)
def _search_largest_pure(account: Budget, allowances: Cost) -> Fraction:  # noqa: ARG001 - no part of what makes accounts equal
    """Search the largest ε that an account accepts, once for each of its states: every receipt says it."""
    best = account._largest_within_pure_currency()  # noqa: SLF001
    low, high = best, best + 1
    if account.affords(Curve.pure(high, account.neighbours)):
        while account.affords(Curve.pure(2 * high, account.neighbours)):
            high *= 2
        low, high = high, 2 * high
    while high - low > Fraction(1, 10**9):
        middle = (low + high) / 2
        low, high = (middle, high) if account.affords(Curve.pure(middle, account.neighbours)) else (low, middle)
    return low


def _remaining_pure(account: Budget) -> Fraction | None:
    """Return what is left of the pure allowance; None where that is closed."""
    units = _remaining_pure_units(account)
    return None if units is None else amount_from_units(units)


_MIN_USEFUL_UNITS = exact_amount(MIN_USEFUL_EPSILON)


def _remaining_pure_units(account: Budget) -> Amount | None:
    allowed, spent = account.allowances.pure, account.spent_pure
    return None if allowed is None or spent is None or spent > allowed else allowed - spent


def _with_spent(account: Budget, allowances: Cost, totals: Cost) -> Budget:
    unstated_renyi = 0 if account.order is None or totals.is_zero else None
    budget = object.__new__(Budget)
    budget.__dict__.update(
        epsilon=account.epsilon,
        delta=account.delta,
        reserve=account.reserve,
        order=account.order,
        neighbours=account.neighbours,
        allowances=allowances,
        spent_pure=totals.pure,
        spent_renyi=unstated_renyi if totals.renyi is None else totals.renyi,
        spent_failure=totals.failure,
    )
    return budget
