"""Prices of releases, as a privacy guarantee: ε, (ε, δ) or ρ; and public price lists for auctions.

A price list states at which prices a good may be sold; it is fixed without looking at the bids.
"""

from __future__ import annotations

import bisect
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter, ValueWords, WeakPrivacy
from sfumato.privacy import Curve, Guarantee, codec
from sfumato.privacy.calibration import least_parameter, log_delta_excess, log_excess, noise_size_near
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass

LARGE_EPSILON, LARGE_DELTA = 5, Fraction(1, 10**6)
ODDS_WORDS = "lets an attacker's odds grow by a factor of up to e^ε"
"""What a large ε means, in the words of every warning."""


GAUSSIAN_NEEDS = "Laplace for a price without a δ: Gaussian noise needs a δ, or a price in ρ"
GIVE_DELTA = "give a delta (--delta), such as 1e-9, or rho (--rho) instead of epsilon (--epsilon)"
ONLY_ONE_PRICE = "left out if epsilon or rho is given"
GIVE_ONE_PRICE = "give within (--within), epsilon (--epsilon) or rho (--rho), but only one of them"


@codec.serialisable("price")
@dataclass(frozen=True)
class Price:
    """A price: ε, (ε, δ) or ρ, exactly one of these."""

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __init__(self, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None) -> None:
        if epsilon is not None and rho is not None:
            raise InvalidParameter("epsilon", epsilon, "left out if rho is given")
        if epsilon is None and rho is None:
            raise InvalidParameter(
                "epsilon",
                epsilon,
                "a number, unless rho is given: every release needs one of them as its price",
                fix="write release(epsilon=0.5), release(epsilon=0.5, delta=1e-9) or release(rho=0.01)",
            )
        object.__setattr__(self, "epsilon", None if epsilon is None else exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "rho", None if rho is None else exact(rho, "rho", POSITIVE))
        object.__setattr__(self, "delta", exact(delta, "delta", NONNEGATIVE))
        if self.rho is not None and self.delta:
            raise InvalidParameter("delta", delta, "left out if rho is given")
        if self.epsilon is not None and self.delta.numerator >= self.delta.denominator:
            Guarantee(self.epsilon, self.delta)  # refuses it

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a price in ε."""
        assert self.epsilon is not None
        return Guarantee(self.epsilon, self.delta)

    @property
    def exact_terms(self) -> tuple[tuple[int, int] | None, ...]:
        """ε, δ and ρ in whole numbers, which are hashed and compared in a tenth of a fraction's time."""
        terms = (self.epsilon, self.delta, self.rho)
        return tuple([None if term is None else term.as_integer_ratio() for term in terms])

    @property
    def noise_size_near(self) -> float:
        """About the size of the noise at sensitivity 1, where a search for it may begin."""
        return 1 / math.sqrt(2 * self.rho) if self.rho is not None else noise_size_near(self.guarantee)

    @property
    def allows_gaussian(self) -> bool:
        return self.rho is not None or bool(self.delta)

    def is_satisfied_by(self, curve: Curve) -> bool:
        """Return whether a release with this privacy curve certainly satisfies the price."""
        return self.log_excess_of(curve) <= 0

    def log_excess_of(self, curve: Curve) -> float:
        """Return by how much a curve exceeds the price, as a logarithm: at most 0 where it satisfies it."""
        if self.rho is not None:
            return math.inf if curve.failure else log_excess(curve.rho(), self.rho)
        return log_delta_excess(curve, self.guarantee)

    def __str__(self) -> str:
        if self.rho is not None:
            return f"ρ = {format_exact(self.rho)}"
        formatted_epsilon = f"ε = {format_exact(self.epsilon or Fraction(0))}"
        return f"{formatted_epsilon}, δ = {float(self.delta):.3g}" if self.delta else formatted_epsilon


def rounded_up_to_4_digits(epsilon: Fraction) -> Fraction:
    """Round a price up to four significant digits."""
    power = Fraction(10) ** (4 - math.ceil(math.log10(epsilon)))
    return Fraction(math.ceil(epsilon * power)) / power


_NUMBERS_OF_A_DECADE = 9000
"""Numbers of four significant digits from 1 to below 10."""
_LARGEST_POSITION, _LARGEST_GUESS = 60 * _NUMBERS_OF_A_DECADE, 25.0
_STRIDES = tuple(16 << doublings for doublings in range(18))
"""The last one is longer than the way to any price."""


def _four_digit_number(position: int) -> Fraction:
    """Return the number of four significant digits at this position in their order; 1 is at 0."""
    decade, offset = divmod(position, _NUMBERS_OF_A_DECADE)
    return (1000 + offset) * Fraction(10) ** (decade - 3)


def _four_digit_position(size: float) -> int:
    """Return the position of a number of four significant digits that is close to this one."""
    decade = math.floor(math.log10(size))
    return decade * _NUMBERS_OF_A_DECADE + min(9000, max(0, round(size / 10.0**decade * 1000) - 1000))


def least_four_digit_price(log_excess_at: Callable[[Fraction], float]) -> Fraction:
    """Return the least price of four significant digits at which ``log_excess_at`` is at most 0, having checked it.

    ``log_excess_at`` is ln(error / goal), and most errors are inverse to the price: the first one shows where to look.
    A half-width of whole numbers is a step function, so the rest is found by doubling strides, then by bisection.
    """

    def enough(position: int) -> bool:
        if abs(position) > _LARGEST_POSITION:
            raise InvalidParameter("price", _four_digit_number(position), "a number from 1e-60 to 1e60")
        return log_excess_at(_four_digit_number(position)) <= 0

    first = min(_LARGEST_GUESS, max(-_LARGEST_GUESS, log_excess_at(Fraction(1))))
    position = _four_digit_position(math.exp(first))
    is_enough = enough(position)
    for stride in _STRIDES:
        before, position = position, position - stride if is_enough else position + stride
        if enough(position) is not is_enough:
            break
    between = range(*sorted((before, position)))
    return _four_digit_number(between[0] + bisect.bisect_left(between, True, key=enough))


def least_epsilon(error_at: Callable[[Fraction], float], within: Number) -> float:
    """Return the least ε, rounded up, at which an error is within a limit; the error must not grow with ε."""
    error_limit = exact(within, "within", POSITIVE)
    return least_epsilon_where(lambda epsilon: error_at(epsilon) <= error_limit)


def least_epsilon_where(is_within: Callable[[Fraction], bool]) -> float:
    """Return the least ε of four digits at which this holds; it must hold at every larger one."""
    return float(_least_of_4_digits(least_amount_where(is_within), is_within))


def _least_of_4_digits(enough: Fraction, is_within: Callable[[Fraction], bool]) -> Fraction:
    """Return the amount rounded up to four digits, or the number before, if this holds there: a search that ends just
    above 0.3 does not say 0.3001.
    """
    rounded = rounded_up_to_4_digits(enough)
    before = rounded - Fraction(10) ** (math.ceil(math.log10(enough)) - 4)
    return before if is_within(before) else rounded


def least_amount_where(is_within: Callable[[Fraction], bool]) -> Fraction:
    """Return the least amount of a currency at which this holds, as precisely as four digits of a price need."""
    return least_parameter(is_within, "within", Fraction(1, 2**14))


def weak_price_warnings(price: Price) -> tuple[str, ...]:
    """Describe why a price is a weak guarantee; empty for a strong one.

    A price in ρ is judged by its ε at the largest δ that is not itself flagged.
    """
    reasons = []
    if price.rho is not None and (epsilon := _epsilon_of_rho(price.rho, LARGE_DELTA)) > LARGE_EPSILON:
        reasons.append(
            f"weak privacy: ρ = {float(price.rho):.3g} at δ = {float(LARGE_DELTA):.3g} is ε = {epsilon:.3g}, which "
            f"{ODDS_WORDS}"
        )
    if price.epsilon is not None and price.epsilon > LARGE_EPSILON:
        reasons.append(f"weak privacy: ε = {float(price.epsilon):.3g} {ODDS_WORDS}")
    if price.delta > LARGE_DELTA:
        reasons.append(
            f"weak privacy: δ = {float(price.delta):.3g} is large: a mechanism that publishes each unit's rows with "
            "that probability would satisfy this guarantee"
        )
    return tuple(reasons)


@lru_cache(maxsize=256)
def _epsilon_of_rho(rho: Fraction, delta: Fraction) -> float:
    """Bound the ε at a δ of every ρ-zCDP release (Bun & Steinke 2016, in the tightest form implemented here)."""
    return Curve.concentrated(rho).epsilon(delta)


def warn_if_weak(price: Price) -> None:
    """Warn before the charge that a price is a weak guarantee; every proposal calls this."""
    for reason in weak_price_warnings(price):
        warn_caller(reason)


def warn_caller(reason: str) -> None:
    """Emit a WeakPrivacy warning at the first stack frame outside this package."""
    frame, stack_level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sfumato."):
        frame, stack_level = frame.f_back, stack_level + 1
    warnings.warn(reason, WeakPrivacy, stacklevel=stack_level if frame is not None else 1)


MAX_PRICES = 1_000_000


def parse_prices_and_denominator(prices: Any) -> tuple[tuple[Fraction, ...], int]:
    """Parse public prices: return them sorted without duplicates, and the factor that makes all of them integers."""
    if isinstance(prices, (str, bytes)) or not isinstance(prices, (Sequence, np.ndarray, range)) or not len(prices):
        raise InvalidParameter("prices", prices, "a list of at least one price", fix="for example, write [1, 2, 5]")
    if len(prices) > MAX_PRICES:
        raise InvalidParameter(
            "prices", ValueWords(f"{len(prices)} prices"), f"a list of at most {MAX_PRICES:,} prices"
        )
    sorted_prices = tuple(sorted({exact(price, "prices", POSITIVE.for_list) for price in prices}))
    denominator = math.lcm(*(price.denominator for price in sorted_prices))
    if sorted_prices[-1] * denominator > 10**12:
        raise InvalidParameter(
            "prices",
            ValueWords("numbers with more digits"),
            "numbers that have at most twelve digits once all are written in the same unit, such as cents",
            fix="round the prices to a larger unit, for example to whole numbers",
        )
    return sorted_prices, denominator


def evenly_spaced_prices(top: Number, steps: int) -> list[Fraction]:
    """Return evenly spaced prices up to a highest one, which must be chosen without looking at the bids."""
    highest = exact(top, "top", POSITIVE)
    return [highest * step / steps for step in range(1, steps + 1)]
