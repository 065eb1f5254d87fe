"""An account's rule says what may be spent, when the next price may depend on every answer before it.

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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import LEAST_USEFUL, InvalidParameter, NeighboursDiffer, Overspent
from sfumato.privacy import amounts, codec
from sfumato.privacy.amounts import Amount, charge_amount, exact_amount
from sfumato.privacy.budget_words import left_words, promised
from sfumato.privacy.calibration import Noise, leaked, least
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    NONNEGATIVE,
    PROBABILITY,
    Number,
    allowance_units,
    chance,
    charge_units,
    exact,
    from_units,
    shown,
)
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.theorems import renyi_allowance

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture
    from sfumato.privacy.pictures import History


def _units(value: object, name: str) -> int:
    """Totals of Rényi divergence are plain integers of any size, never anything that would have to be converted."""
    if type(value) is not int or value < 0:
        raise InvalidParameter(name, value, "a whole number ≥ 0 of 1e-30")
    return value


def _sum(a: Amount | None, b: Amount | None) -> Amount | None:
    """Add two numbers; what one of them does not state, their sum does not."""
    return None if a is None or b is None else amounts.add(a, b)


def _within(total: Amount | None, allowed: Amount | None) -> bool:
    return total is not None and allowed is not None and total <= allowed


def _shown(amount: Fraction) -> str:
    """Write an amount for people: one beyond all floats, as only a forged text holds, is shown too."""
    return shown(float(amount)) if amount <= _MOST_SHOWN else f"more than {float(_MOST_SHOWN):g}"


_MOST_SHOWN = 10**300


@codec.value("cost")
@dataclass(frozen=True)
class Cost:
    """A cost is one release's price in every currency of an account, in units of 1e-30.

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
            object.__setattr__(self, "pure", amounts.checked(self.pure, "pure"))
        if type(self.failure) is not int or self.failure < 0:
            object.__setattr__(self, "failure", amounts.checked(self.failure, "failure"))
        if self.renyi is not None:
            _units(self.renyi, "renyi")

    @property
    def nothing(self) -> bool:
        """Tell whether this is no cost at all: where the max-divergence is 0 every Rényi divergence is, stated or
        not.
        """
        return self.pure == 0 and not self.renyi and not self.failure

    def __add__(self, other: Cost) -> Cost:
        """Add up the costs of both releases: what is unbounded or missing in one of them stays so."""
        if self.nothing or other.nothing:
            return other if self.nothing else self
        renyi = None if self.renyi is None or other.renyi is None else self.renyi + other.renyi
        return Cost(_sum(self.pure, other.pure), renyi, amounts.add(self.failure, other.failure))

    @property
    def words(self) -> str:
        """Say what it costs in the ε that people type: Gaussian noise has none of its own."""
        parts = ["Gaussian noise" if self.pure is None else f"ε = {_shown(from_units(self.pure))}"]
        parts += [f"may fail with probability {_shown(from_units(self.failure))}"] if self.failure else []
        return "" if self.nothing else ", ".join(parts)

    def __repr__(self) -> str:
        amounts = [(name, amount) for name, amount in self.amounts.items() if amount != 0]
        return ", ".join(f"{name} {'∞' if each is None else _shown(each)}" for name, each in amounts)

    @property
    def amounts(self) -> dict[str, Fraction | None]:
        """Give the amounts per currency; None where unbounded, missing where the account has no such currency."""
        found = {"pure": None if self.pure is None else from_units(self.pure)}
        if self.renyi is not None:
            found["renyi"] = from_units(self.renyi)
        return {**found, "failure": from_units(self.failure)}

    def covers(self, other: Cost) -> bool:
        """Tell whether the other cost fits into this one in every component; one that only one of them states never
        fits.
        """
        if other.nothing:
            return True
        pure = self.pure is None or (other.pure is not None and other.pure <= self.pure)
        renyi = _within(other.renyi, self.renyi) or self.renyi is other.renyi is None
        return pure and renyi and other.failure <= self.failure

    def less(self, other: Cost) -> Cost:
        """Give what is left of this after a cost that it covers; of the unbounded, the unbounded."""
        if other.nothing:
            return self
        pure = None if self.pure is None or other.pure is None else amounts.subtract(self.pure, other.pure)
        renyi = None if self.renyi is None or other.renyi is None else self.renyi - other.renyi
        return Cost(pure, renyi, amounts.subtract(self.failure, other.failure))

    def with_short_fractions(self) -> Cost:
        """Round up the amounts whose denominators are too large to be written down."""
        pure = None if self.pure is None else amounts.round_up(self.pure)
        return Cost(pure, self.renyi, amounts.round_up(self.failure))

    def in_whole_units(self) -> Cost:
        """Round up to whole units: what was charged for a release before fractions were kept."""
        return Cost(None if self.pure is None else math.ceil(self.pure), self.renyi, math.ceil(self.failure))

    def rounds(self, first: Cost, second: Cost) -> bool:
        """Tell whether this sum of both was rounded up."""
        pure = None in (self.pure, first.pure, second.pure) or self.pure == first.pure + second.pure  # type: ignore[operator]
        return not pure or self.failure != first.failure + second.failure

    def without(self, roundings: int) -> Cost:
        """Return a lower bound of the exact sum of which this is the recorded one, after at most so many roundings."""
        pure = None if self.pure is None else max(0, self.pure - roundings)
        return Cost(pure, self.renyi, max(0, self.failure - roundings))


@codec.value("budget")
@dataclass(frozen=True)
class Budget:
    """A budget is ε and δ for life, and what has been spent. Frozen: ``charge`` returns the account after it.

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
    """What the account was opened with, in units: of max-divergence and failure exactly, of Rényi divergence rounded
    down.
    """
    _history: ClassVar[History | None] = None
    """Where what was spent over time is read, which is no part of it (``told_by``)."""

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
        whole_promise = Guarantee(epsilon, delta)
        kept = whole_promise.delta / 10 if reserve is None else exact(reserve, "reserve", NONNEGATIVE)
        if kept > whole_promise.delta:
            raise InvalidParameter("reserve", reserve, f"a number in [0, δ], δ = {chance(whole_promise.delta)}")
        alpha = None if order is None else exact(order, "order", ABOVE_ONE)
        backed = whole_promise.delta - kept
        renyi = None
        if backed and whole_promise.epsilon:
            allowance = renyi_allowance(Guarantee(whole_promise.epsilon, backed), alpha)
            alpha, renyi = allowance.order, allowance_units(allowance.divergence)
        elif alpha is not None:
            raise InvalidParameter("order", order, "left out when no δ remains beside the reserve")
        for name, value in (
            ("epsilon", whole_promise.epsilon),
            ("delta", whole_promise.delta),
            ("reserve", kept),
            ("order", alpha),
            ("neighbours", Neighbours.of(neighbours)),
            ("spent_pure", None if spent_pure is None else amounts.checked(spent_pure, "spent_pure")),
            ("spent_renyi", None if spent_renyi is None else _units(spent_renyi, "spent_renyi")),
            ("spent_failure", amounts.checked(spent_failure, "spent_failure")),
            ("allowances", Cost(exact_amount(whole_promise.epsilon), renyi, exact_amount(kept))),
        ):
            object.__setattr__(self, name, value)

    def cost(self, curve: Curve) -> Cost:
        """Compute a release's price here; a curve stated for the other neighbours is refused."""
        if not isinstance(curve, Curve):
            raise InvalidParameter("curve", curve, "a Curve")
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
            None if self.order is None else charge_units(curve.renyi_above(self.order)),
            charge_amount(curve.failure),
        )

    def affords(self, curve: Curve) -> bool:
        return self.admits(self.cost(curve))

    def charge(self, curve: Curve) -> Budget:
        """Charge this release: give the account after it, or raise ``Overspent``."""
        cost = self.cost(curve)
        if not self.admits(cost):
            raise self.refusal(cost)
        return self.at(self.totals + cost)

    def admits(self, cost: Cost) -> bool:
        """Decide by the rule of the theorem, here and nowhere else: a component that is missing never fits."""
        allowed, total = self.allowances, self.totals + cost
        fits = _within(total.pure, allowed.pure) or _within(total.renyi, allowed.renyi)
        return total.failure <= allowed.failure and fits

    def refusal(self, cost: Cost, place: str = "the account", *others: Budget) -> Overspent:
        """Say why a cost is not admitted, with what would be, here and by the ``others`` who must afford it too."""
        largest = min(each.largest_pure() for each in (self, *others))
        return Overspent(cost.amounts, self.remaining, largest, place=place, allowed=self.allowances.amounts["pure"])

    @property
    def totals(self) -> Cost:
        """Give what is spent, in units."""
        return Cost(self.spent_pure, None if self.order is None else self.spent_renyi, self.spent_failure)

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """Give what is spent per currency; None where it is unbounded."""
        return self.totals.amounts

    def at(self, totals: Cost) -> Budget:
        """Give the same account with other totals; its parameters were validated when it was opened."""
        return _with_spent(self, self.allowances, totals)

    def share(self, part: Number) -> Budget:
        """Give the same rule and totals within this part of every allowance: an allotment, no guarantee of its own."""
        fraction = exact(part, "share", PROBABILITY)
        pure, renyi, failure = self.allowances.pure, self.allowances.renyi, self.allowances.failure
        scaled = Cost(
            None if pure is None else pure * fraction,
            None if renyi is None else int(renyi * fraction),
            failure * fraction,
        )
        return _with_spent(self, scaled, self.totals)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """Give what is left per currency; a closed currency is missing."""
        allowed, left = self.allowances, {}
        if self.spent_pure is not None and allowed.pure is not None and self.spent_pure <= allowed.pure:
            left["pure"] = from_units(allowed.pure - self.spent_pure)
        if self.spent_renyi is not None and allowed.renyi is not None and self.spent_renyi <= allowed.renyi:
            left["renyi"] = from_units(allowed.renyi - self.spent_renyi)
        if self.delta:
            left["failure"] = from_units(max(0, allowed.failure - self.spent_failure))
        return left

    def largest(
        self, family: Callable[[Fraction], Noise], *, sensitivity: Sensitivity | Number = 1, delta: Number | None = None
    ) -> float:
        """Find the largest ε of a release of one kind of noise that would be accepted now; 0 when none would.

        ``family(parameter)`` makes the noise; larger parameters mean more of it. The ε is at this δ; by default at
        δ = 0 where the noise is pure, else at the account's own.
        """
        change = Sensitivity.of(sensitivity)
        leaked(family, Fraction(1), change)

        def fits(parameter: Fraction) -> bool:
            try:
                return self.affords(leaked(family, parameter, change))
            except InvalidParameter:  # noise so small, or so large, is not drawn
                return False

        try:
            size = least(fits, "the remaining budget")
        except InvalidParameter:
            return 0.0
        curve = leaked(family, size, change)
        usual = self.delta if curve.max_divergence is None else curve.failure
        return curve.epsilon(usual if delta is None else delta)

    def largest_pure(self) -> Fraction:
        """The largest ε of a release known to be ε-DP and no more: from either currency."""
        best = self._largest_from_pure()
        low, high = best, best + 1
        if self.affords(Curve.pure(high, self.neighbours)):
            while self.affords(Curve.pure(2 * high, self.neighbours)):
                high *= 2
            low, high = high, 2 * high
        while high - low > Fraction(1, 10**9):
            middle = (low + high) / 2
            low, high = (middle, high) if self.affords(Curve.pure(middle, self.neighbours)) else (low, middle)
        return low

    def _largest_from_pure(self) -> Fraction:
        """The largest ε that fits what is left of the pure currency: all of it, where that is charged as it is, or
        else whole units; one less where the sum with it is rounded up to more than is allowed.
        """
        left = exact_amount(self.remaining.get("pure", Fraction(0)))
        offers = (left, math.floor(left), math.floor(left) - 1)
        fitting = (
            from_units(each)
            for each in offers
            if each > 0 and charge_amount(from_units(each)) == each and self.affords(self._ordinary(each))
        )
        return next(fitting, Fraction(0))

    def _ordinary(self, units: Amount) -> Curve:
        return Curve.pure(from_units(units), self.neighbours)

    def told_by(self, history: History) -> Budget:
        """Give the same budget, which knows where its history is read when it is drawn; in all else they are equal."""
        told = _with_spent(self, self.allowances, self.totals)
        object.__setattr__(told, "_history", history)
        return told

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the part of each currency that was spent over time, as the ledger of a curator tells it; of a budget
        that has no ledger, as it is now. With a path (.svg, .png, .html) the picture is saved, too.
        """
        from sfumato.plots.picture import saved
        from sfumato.privacy.pictures import draw_budget  # most budgets are never drawn

        promise = f"for life: {promised(self.epsilon, self.delta)}"
        moments = () if self._history is None else self._history.moments()
        return saved(draw_budget(moments, self.spent, self.allowances.amounts, datetime.now(UTC), promise), path)

    @property
    def left_words(self) -> str:
        """Say how much ε is left for ordinary answers, in words."""
        return self.left_beside()

    def left_beside(self, *others: Budget) -> str:
        """Say how much ε is left for ordinary answers here that the ``others`` who must afford them have, too."""
        budgets = (self, *others)
        sums = [each.remaining.get("pure") for each in budgets]
        rest = None if None in sums else min(each for each in sums if each is not None)
        if rest is not None and rest >= LEAST_USEFUL:
            return left_words(self.allowances.amounts, self.spent, {"pure": rest}, Fraction(0))
        ended = budgets[sums.index(rest)]
        largest = min(each.largest_pure() for each in budgets)
        return left_words(ended.allowances.amounts, ended.spent, {} if rest is None else {"pure": rest}, largest)

    @property
    def promise(self) -> str:
        """Say what is promised for life, in words."""
        return f"for life: {promised(self.epsilon, self.delta)} ({self.neighbours.value} neighbours)"

    def __repr__(self) -> str:
        return f"budget left for ordinary answers: {self.left_words}\n{self.promise}"

    def _repr_html_(self) -> str:
        """Show what is left in words, with a bar, and the currencies behind it folded away."""
        from sfumato.notebook_html import bar, folded, paragraph, table

        allowed, spent, left = self.allowances.amounts, self.spent, self.remaining
        rows = [
            (name, *(_amount(each.get(name, None)) for each in (allowed, spent)), _amount(left.get(name), "closed"))
            for name in allowed
        ]
        share = float(left["pure"] / allowed["pure"]) if left.get("pure") and allowed["pure"] else 0.0
        said = f"budget left for ordinary answers: {self.left_words}"
        counted = table(("currency", "allowed", "spent", "left"), rows, ("allowed", "spent", "left"))
        return bar(share) + paragraph(said, strong=True) + paragraph(self.promise) + folded("details", counted)


def _amount(amount: Fraction | None, missing: str = "unbounded") -> str:
    return missing if amount is None else shown(float(amount), 6)


def _with_spent(account: Budget, allowances: Cost, totals: Cost) -> Budget:
    after = object.__new__(Budget)
    for name in ("epsilon", "delta", "reserve", "order", "neighbours"):
        object.__setattr__(after, name, getattr(account, name))
    object.__setattr__(after, "allowances", allowances)
    object.__setattr__(after, "spent_pure", totals.pure)
    unstated = 0 if account.order is None or totals.nothing else None
    object.__setattr__(after, "spent_renyi", unstated if totals.renyi is None else totals.renyi)
    object.__setattr__(after, "spent_failure", totals.failure)
    return after
