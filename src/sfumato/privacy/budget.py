"""An account's rule: what may be spent, when the next price may depend on every answer before it.

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

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.errors import InvalidParameter, NeighboursDiffer, Overspent
from sfumato.privacy import codec
from sfumato.privacy.calibration import Noise, leaked, least
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    NONNEGATIVE,
    Number,
    allowance_units,
    charge_units,
    exact,
    from_units,
    text,
)
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.theorems import renyi_allowance


def _units(value: object, name: str) -> int:
    """Totals are plain integers of any size, never anything that would have to be converted."""
    if type(value) is not int or value < 0:
        raise InvalidParameter(name, value, "a whole number ≥ 0 of 1e-30")
    return value


@codec.value
@dataclass(frozen=True)
class Cost:
    """One release's price in every currency of an account, in units of 1e-30, rounded up."""

    pure: int | None
    """Max-divergence outside the failure; None when unbounded."""
    renyi: int | None
    """Rényi divergence of the account's order outside the failure; None when the account has no such currency."""
    failure: int

    def __post_init__(self) -> None:
        for name in ("pure", "renyi"):
            if (units := getattr(self, name)) is not None:
                object.__setattr__(self, name, _units(units, name))
        object.__setattr__(self, "failure", _units(self.failure, "failure"))


@codec.value
@dataclass(frozen=True)
class Budget:
    """ε and δ for life, and what has been spent. Frozen: ``charge`` returns the account after it.

    With δ > 0 a ``reserve`` of δ (a tenth by default) pays for failures such as key thresholds, and the rest backs
    a Rényi currency of one ``order`` (the best for Gaussian noise by default). Totals are whole numbers of 1e-30:
    nothing drifts, and a charge costs the same after a million others.

    >>> account = Budget(1)
    >>> for _ in range(10): account = account.charge(Curve.pure(0.1))
    >>> account.remaining
    {'pure': Fraction(0, 1)}
    """

    epsilon: Fraction
    delta: Fraction
    reserve: Fraction
    order: Fraction | None
    neighbours: Neighbours
    spent_pure: int | None
    spent_renyi: int
    spent_failure: int
    allowances: Cost = field(init=False, repr=False, compare=False)
    """What the account was opened with, in units rounded down."""

    def __init__(
        self,
        epsilon: Number,
        delta: Number = 0,
        *,
        reserve: Number | None = None,
        order: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        spent_pure: int | None = 0,
        spent_renyi: int = 0,
        spent_failure: int = 0,
    ) -> None:
        whole_promise = Guarantee(epsilon, delta)
        kept = whole_promise.delta / 10 if reserve is None else exact(reserve, "reserve", NONNEGATIVE)
        if kept > whole_promise.delta:
            raise InvalidParameter("reserve", reserve, f"a number in [0, δ], δ = {text(whole_promise.delta)}")
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
            ("spent_pure", None if spent_pure is None else _units(spent_pure, "spent_pure")),
            ("spent_renyi", _units(spent_renyi, "spent_renyi")),
            ("spent_failure", _units(spent_failure, "spent_failure")),
            ("allowances", Cost(allowance_units(whole_promise.epsilon), renyi, allowance_units(kept))),
        ):
            object.__setattr__(self, name, value)

    def cost(self, curve: Curve) -> Cost:
        """A release's price here; a curve stated for the other neighbours is refused."""
        if not isinstance(curve, Curve):
            raise InvalidParameter("curve", curve, "a Curve")
        if curve.neighbours is not self.neighbours:
            raise NeighboursDiffer(
                curve.neighbours.value,
                self.neighbours.value,
                place="Budget",
                fix=f"charge curve.under({self.neighbours.value!r})"
                if self.neighbours is Neighbours.REPLACE
                else "use a mechanism whose sensitivity is stated for add-remove neighbours",
            )
        pure = curve.max_divergence
        return Cost(
            None if pure is None else charge_units(pure),
            None if self.order is None else charge_units(curve.renyi_above(self.order)),
            charge_units(curve.failure),
        )

    def affords(self, curve: Curve) -> bool:
        return self._after(self.cost(curve)) is not None

    def charge(self, curve: Curve) -> Budget:
        """The account after this release, or ``Overspent``."""
        cost = self.cost(curve)
        after = self._after(cost)
        if after is None:
            raise Overspent(self._asked(cost), self.remaining, self._largest_pure())
        return after

    def _after(self, cost: Cost) -> Budget | None:
        allowed = self.allowances
        pure = None if self.spent_pure is None or cost.pure is None else self.spent_pure + cost.pure
        renyi = self.spent_renyi + (cost.renyi or 0)
        failure = self.spent_failure + cost.failure
        fits_pure = pure is not None and allowed.pure is not None and pure <= allowed.pure
        fits_renyi = allowed.renyi is not None and renyi <= allowed.renyi
        if failure > allowed.failure or not (fits_pure or fits_renyi):
            return None
        return _with_spent(self, pure, renyi, failure)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """What is left per currency; a closed currency is missing."""
        allowed, left = self.allowances, {}
        if self.spent_pure is not None and allowed.pure is not None and self.spent_pure <= allowed.pure:
            left["pure"] = from_units(allowed.pure - self.spent_pure)
        if allowed.renyi is not None and self.spent_renyi <= allowed.renyi:
            left["renyi"] = from_units(allowed.renyi - self.spent_renyi)
        if self.delta:
            left["failure"] = from_units(max(0, allowed.failure - self.spent_failure))
        return left

    def largest(
        self, family: Callable[[Fraction], Noise], *, sensitivity: Sensitivity | Number = 1, delta: Number | None = None
    ) -> float:
        """The largest ε of a release of one kind of noise that would be accepted now; 0 when none would.

        ``family(parameter)`` makes the noise; larger parameters mean more of it. The ε is at this δ; by default at
        δ = 0 where the noise is pure, else at the account's own.
        """
        change = Sensitivity.of(sensitivity)
        leaked(family, Fraction(1), change)
        try:
            size = least(lambda parameter: self.affords(leaked(family, parameter, change)), "the remaining budget")
        except InvalidParameter:
            return 0.0
        curve = leaked(family, size, change)
        usual = self.delta if curve.max_divergence is None else curve.failure
        return curve.epsilon(usual if delta is None else delta)

    def _asked(self, cost: Cost) -> dict[str, Fraction | None]:
        asked: dict[str, Fraction | None] = {"pure": None if cost.pure is None else from_units(cost.pure)}
        if cost.renyi is not None:
            asked["renyi"] = from_units(cost.renyi)
        return {**asked, "failure": from_units(cost.failure)}

    def _largest_pure(self) -> Fraction:
        """The largest ε of a release known to be ε-DP and no more: from either currency."""
        left = self.remaining
        best = left.get("pure", Fraction(0))
        low, high = best, best + 1
        if self.affords(Curve.pure(high, self.neighbours)):
            while self.affords(Curve.pure(2 * high, self.neighbours)):
                high *= 2
            low, high = high, 2 * high
        while high - low > Fraction(1, 10**9):
            middle = (low + high) / 2
            low, high = (middle, high) if self.affords(Curve.pure(middle, self.neighbours)) else (low, middle)
        return low

    def __repr__(self) -> str:
        left = ", ".join(f"{name} {float(amount):.6g}" for name, amount in self.remaining.items())
        promise = f"epsilon={text(self.epsilon)}, delta={text(self.delta)}"
        return f"<Budget {promise}, {self.neighbours.value}; left: {left or 'nothing'}>"


def _with_spent(account: Budget, pure: int | None, renyi: int, failure: int) -> Budget:
    """The same account with other totals; its parameters were validated when it was opened."""
    after = object.__new__(Budget)
    for name in ("epsilon", "delta", "reserve", "order", "neighbours", "allowances"):
        object.__setattr__(after, name, getattr(account, name))
    object.__setattr__(after, "spent_pure", pure)
    object.__setattr__(after, "spent_renyi", renyi)
    object.__setattr__(after, "spent_failure", failure)
    return after
