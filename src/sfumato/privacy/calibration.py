"""Calibration: the least noise of a one-parameter family that meets a guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Protocol, TypeVar

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.numbers import Number
from sfumato.privacy.sensitivity import Sensitivity


class Noise(Protocol):
    """A mechanism that states its privacy loss, and can therefore be calibrated."""

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve: ...


N = TypeVar("N", bound=Noise)

_SMALLEST_PARAMETER, _LARGEST_PARAMETER = Fraction(1, 10**60), Fraction(10**60)
_PRECISION = Fraction(1, 2**46)
_CHORD_PRECISION = Fraction(1, 2**30)  # how close chords are drawn: a computed δ is no smoother than a part in 2³⁶
_MAX_CHORDS = 16
_LEAST_EXCESS = 2.0**-60


def calibrate(make: Callable[[Fraction], N], guarantee: Guarantee, sensitivity: Sensitivity | Number = 1) -> N:
    """Return the mechanism ``make(parameter)`` with the least parameter that certainly meets the guarantee.

    Larger parameters must mean more noise. The guarantee is checked on the mechanism's own curve, so discrete
    noise is calibrated as discrete noise. The returned mechanism itself has been checked; its parameter is the
    roundest number within one part in 2⁴⁶ of the least.
    """
    change, promise = Sensitivity.of(sensitivity), Guarantee.of(guarantee)
    return make(
        least_parameter_by_shortfall(
            lambda size: log_delta_excess(curve_of_new_mechanism(make, size, change), promise),
            f"{promise}",
            near=change.l2 * noise_size_near(promise),
        )
    )


def noise_size_near(guarantee: Guarantee) -> float:
    """Return about the size of the noise that a guarantee needs at sensitivity 1, where a search for it may begin: the
    classical σ of Gaussian noise, or the scale of Laplace noise where δ = 0.
    """
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    return math.sqrt(2 * math.log(1.25 / delta) if delta else 1.0) / epsilon if epsilon else 1.0


def curve_of_new_mechanism(make: Callable[[Fraction], Noise], size: Fraction, change: Sensitivity) -> Curve:
    """Return the curve of ``make(size)``; refuse a ``make`` that does not return mechanisms."""
    try:
        curve: object = make(size).curve(change)
    except (TypeError, AttributeError):
        curve = None
    if not isinstance(curve, Curve):
        raise InvalidParameter(
            "make",
            make,
            "a function that takes one number and returns a mechanism",
            fix="write make=lambda size: sf.Laplace(size)",
        )
    return curve


def meets(curve: Curve, guarantee: Guarantee) -> bool:
    """Return whether the curve certainly satisfies the guarantee: by exact arithmetic when δ = 0, otherwise by an upper
    bound of δ.
    """
    return log_delta_excess(curve, guarantee) <= 0


def log_delta_excess(curve: Curve, guarantee: Guarantee) -> float:
    """Return ln(δ of the curve / δ of the guarantee): at most 0 if the curve certainly satisfies the guarantee."""
    max_divergence = curve.max_divergence
    if max_divergence is not None and max_divergence <= guarantee.epsilon and curve.failure <= guarantee.delta:
        return -math.inf
    return log_excess(curve.delta(guarantee.epsilon), guarantee.delta) if guarantee.delta else math.inf


def log_excess(value: float | Fraction, allowed: Fraction) -> float:
    """Return ln(value / most); the sign is exact, however far apart they are. A float is read as the larger of what it
    is and of what its shortest decimal says: 1e-6 is a little less than 10⁻⁶, which it may stand for.
    """
    if value <= 0:
        return -math.inf
    if not value < math.inf or allowed <= 0:
        return math.inf
    exact_value = max(Fraction(value), Fraction(str(float(value)))) if isinstance(value, float) else value
    log_ratio = _ln_of_fraction(exact_value) - _ln_of_fraction(allowed)
    return min(0.0, log_ratio) if exact_value <= allowed else max(_LEAST_EXCESS, log_ratio)


def _ln_of_fraction(number: Fraction) -> float:
    """Return ln of a number that may be beyond all floats."""
    return math.log(number.numerator) - math.log(number.denominator)


def least_parameter(
    is_enough: Callable[[Fraction], bool], goal_phrase: str, precision: Fraction = _PRECISION
) -> Fraction:
    """Return the least parameter, to a relative precision, for which a monotone condition holds."""
    return least_parameter_by_shortfall(lambda size: -math.inf if is_enough(size) else math.inf, goal_phrase, precision)


def least_parameter_by_shortfall(
    shortfall: Callable[[Fraction], float], goal_phrase: str, precision: Fraction = _PRECISION, near: float = 1.0
) -> Fraction:
    """Return the least parameter at which ``shortfall`` is at most 0. It says how far a parameter is from enough, so
    chords between its values show where to look, and fewer parameters are tried than by bisection alone. A guess of
    the parameter, ``near``, saves doublings and changes nothing else.
    """
    search = _BracketingSearch(shortfall)
    high = _bracket_by_doubling(search, goal_phrase, _power_of_two_above(near))
    search.narrow_bracket(max(precision, _CHORD_PRECISION))
    low = high / 2
    while high - low > high * precision:
        middle = (low + high) / 2
        low, high = (low, middle) if search.is_enough(middle) else (middle, high)
    # Rounding may make ``shortfall`` rise where there is more noise: return only a parameter that was itself checked.
    return next(
        (candidate for candidate in (*_rounder_numbers_near(low, high), high) if shortfall(candidate) <= 0),
        search.least_checked_sufficient,
    )


class _BracketingSearch:
    """A bracketing search: it holds the largest parameter that was not enough and the least that was, and looks only
    between them.
    """

    def __init__(self, shortfall: Callable[[Fraction], float]) -> None:
        self._shortfall = shortfall
        self._low: tuple[Fraction, float] | None = None
        self._high: tuple[Fraction, float] | None = None

    @property
    def least_checked_sufficient(self) -> Fraction:
        """The least parameter that was checked to be enough."""
        assert self._high is not None
        return self._high[0]

    @property
    def last_shortfall(self) -> float:
        """How far the largest insufficient parameter was from enough."""
        assert self._low is not None
        return self._low[1]

    def is_enough(self, size: Fraction) -> bool:
        if self._low is not None and size <= self._low[0]:
            return False
        if self._high is not None and size >= self._high[0]:
            return True
        shortfall = self._shortfall(size)
        if shortfall <= 0:
            self._high = size, shortfall
        else:
            self._low = size, shortfall
        return shortfall <= 0

    def narrow_bracket(self, width: Fraction) -> None:
        """Narrow the bracket to this relative width by regula falsi: evaluate where the chord is zero. The shortfall at
        an end that stays while the other moves twice is halved (the Illinois method), so that both ends move. Where a
        shortfall is infinite there is no chord, and the search stops.
        """
        assert self._low is not None
        assert self._high is not None
        (low, excess), (high, surplus), last_moved = self._low, self._high, ""
        for _ in range(_MAX_CHORDS):
            if high - low <= high * width or not math.isfinite(excess - surplus):
                return
            middle = Fraction(float(low) + float(high - low) * (excess / (excess - surplus)))
            if not low < middle < high:
                return
            if self.is_enough(middle):
                (high, surplus), excess, last_moved = self._high, excess / 2 if last_moved == "high" else excess, "high"
            else:
                (low, excess), surplus, last_moved = self._low, surplus / 2 if last_moved == "low" else surplus, "low"


def _power_of_two_above(near: float) -> Fraction:
    """Return the least power of two that is no smaller than a guess, between 2⁻⁶⁴ and 2³²."""
    return Fraction(2) ** math.ceil(math.log2(min(max(near, 2.0**-64), 2.0**32)))


def _bracket_by_doubling(search: _BracketingSearch, goal: str, high: Fraction) -> Fraction:
    """Return the least power of two that is enough, looking from ``high`` on, or from 1 where no mechanism is that."""
    try:
        is_enough = search.is_enough(high)
    except InvalidParameter:
        high = Fraction(1)
        is_enough = search.is_enough(high)
    if is_enough:
        while search.is_enough(high / 2):
            high /= 2
            if high < _SMALLEST_PARAMETER:
                raise InvalidParameter(
                    "guarantee",
                    ValueWords(goal),
                    "one that needs noise",
                    fix="give a smaller epsilon, because this guarantee holds without noise",
                )
    else:
        while not _is_enough_or_refuse(search, high := high * 2, goal):
            if high > _LARGEST_PARAMETER:
                raise _unreachable_error(search, goal)
    return high


def _is_enough_or_refuse(search: _BracketingSearch, size: Fraction, goal: str) -> bool:
    """Return whether a parameter is enough; where a mechanism takes none so large, the guarantee is out of reach."""
    try:
        return search.is_enough(size)
    except InvalidParameter:
        raise _unreachable_error(search, goal) from None


def _unreachable_error(search: _BracketingSearch, goal: str) -> InvalidParameter:
    """Return the refusal of a guarantee that the most noise does not meet; advise a δ only where it is 0."""
    fix = (
        "give a larger ε or a smaller sensitivity; if you pass your own make(size), it must add more noise as size "
        "grows"
    )
    if search.last_shortfall == math.inf:
        fix = f"give a δ above 0 if the noise is Gaussian; otherwise {fix}"
    rule = "one that some scale of this noise satisfies"
    return InvalidParameter("guarantee", ValueWords(goal), rule, fix=fix)


def _rounder_numbers_near(low: Fraction, high: Fraction) -> list[Fraction]:
    """List rounder numbers near ``high``: the simplest fraction in the bracket, then the shortest decimal."""
    simple = high.limit_denominator(10_000)
    candidates = [simple] if low < simple and abs(simple - high) <= high * _PRECISION else []
    contexts = (Context(prec=digits, rounding=ROUND_CEILING) for digits in range(1, 15))  # 14 reach a part in 10¹³
    decimals = (Fraction(context.divide(Decimal(high.numerator), Decimal(high.denominator))) for context in contexts)
    return [*candidates, next(decimal for decimal in decimals if decimal <= high * (1 + 16 * _PRECISION))]
