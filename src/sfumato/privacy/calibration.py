"""Calibration finds the least noise that meets a promise, for any family of noise with one parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Protocol, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.numbers import Number
from sfumato.privacy.sensitivity import Sensitivity


class Noise(Protocol):
    """A mechanism can say what it leaks, and so be calibrated."""

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve: ...


N = TypeVar("N", bound=Noise)

_LEAST, _MOST = Fraction(1, 10**60), Fraction(10**60)
_PRECISION = Fraction(1, 2**46)
_SMOOTH = Fraction(1, 2**30)  # how close chords are drawn: a computed δ is no smoother than a part in 2³⁶
_CHORDS = 16
_TINY = 2.0**-60


def calibrate(make: Callable[[Fraction], N], guarantee: Guarantee, sensitivity: Sensitivity | Number = 1) -> N:
    """Find the mechanism ``make(parameter)`` with the least parameter that certainly meets the guarantee.

    Larger parameters must mean more noise. The promise is checked with the mechanism's own curve, so discrete noise is
    calibrated as the discrete noise it is; what is returned has been checked, and the parameter is the
    roundest number within one part in 2⁴⁶.
    """
    change, promise = Sensitivity.of(sensitivity), Guarantee.of(guarantee)
    return make(least_by(lambda size: shortfall(leaked(make, size, change), promise), f"{promise}"))


def leaked(make: Callable[[Fraction], Noise], size: Fraction, change: Sensitivity) -> Curve:
    """Compute the curve of one member of a family; what is no family is refused."""
    try:
        curve: object = make(size).curve(change)
    except (TypeError, AttributeError):
        curve = None
    if not isinstance(curve, Curve):
        raise InvalidParameter("make", make, "a function from one number to a mechanism with a curve(sensitivity)")
    return curve


def meets(curve: Curve, guarantee: Guarantee) -> bool:
    """Tell whether the curve certainly satisfies the guarantee: by exact arithmetic when δ = 0, by an upper bound of δ
    otherwise.
    """
    return shortfall(curve, guarantee) <= 0


def shortfall(curve: Curve, guarantee: Guarantee) -> float:
    """Compute how much too large δ is, as a logarithm: at most 0 if the curve certainly satisfies the guarantee."""
    most = curve.max_divergence
    if most is not None and most <= guarantee.epsilon and curve.failure <= guarantee.delta:
        return -math.inf
    return above(curve.delta(guarantee.epsilon), guarantee.delta) if guarantee.delta else math.inf


def above(value: float | Fraction, most: Fraction) -> float:
    """Give the logarithm of a number beside the most that it may be; its sign is exact, however far they are apart."""
    if value <= 0:
        return -math.inf
    if not value < math.inf or most <= 0:
        return math.inf
    ratio = _logarithm(Fraction(value)) - _logarithm(most)
    return min(0.0, ratio) if value <= most else max(_TINY, ratio)


def _logarithm(number: Fraction) -> float:
    """Compute ln of a number that may be beyond all floats."""
    return math.log(number.numerator) - math.log(number.denominator)


def least(enough: Callable[[Fraction], bool], goal: str, precision: Fraction = _PRECISION) -> Fraction:
    """Find the least parameter, within this part of itself, for which a condition holds, as for all larger ones."""
    return least_by(lambda size: -math.inf if enough(size) else math.inf, goal, precision)


def least_by(short: Callable[[Fraction], float], goal: str, precision: Fraction = _PRECISION) -> Fraction:
    """Find the same where a number says how far a parameter is from enough, at most 0 if it is: chords between such
    numbers tell where to look, and fewer places are looked at.
    """
    search = _Search(short)
    high = _doubled(search, goal)
    search.approach(max(precision, _SMOOTH))
    low = high / 2
    while high - low > high * precision:
        middle = (low + high) / 2
        low, high = (low, middle) if search.enough(middle) else (middle, high)
    # Rounding may make a computed number larger where there is more noise: only what was looked at itself is given.
    return next((number for number in (*_round_numbers(low, high), high) if short(number) <= 0), search.certain)


class _Search:
    """A search knows the largest parameter that was not enough and the least that was, and looks only between them."""

    def __init__(self, short: Callable[[Fraction], float]) -> None:
        self._short = short
        self._low: tuple[Fraction, float] | None = None
        self._high: tuple[Fraction, float] | None = None

    @property
    def certain(self) -> Fraction:
        """Give the least parameter of which it was seen that it is enough."""
        assert self._high is not None
        return self._high[0]

    def enough(self, size: Fraction) -> bool:
        if self._low is not None and size <= self._low[0]:
            return False
        if self._high is not None and size >= self._high[0]:
            return True
        value = self._short(size)
        if value <= 0:
            self._high = size, value
        else:
            self._low = size, value
        return value <= 0

    def approach(self, width: Fraction) -> None:
        """Look where chords are zero until both ends are this close, as a part of themselves. An end that stays when
        the other has moved twice counts half (the Illinois method), so that both move; without numbers to draw a chord
        through there is nothing to look for.
        """
        assert self._low is not None
        assert self._high is not None
        (low, over), (high, under), moved = self._low, self._high, ""
        for _ in range(_CHORDS):
            if high - low <= high * width or not math.isfinite(over - under):
                return
            middle = Fraction(float(low) + float(high - low) * (over / (over - under)))
            if not low < middle < high:
                return
            if self.enough(middle):
                (high, under), over, moved = self._high, over / 2 if moved == "high" else over, "high"
            else:
                (low, over), under, moved = self._low, under / 2 if moved == "low" else under, "low"


def _doubled(search: _Search, goal: str) -> Fraction:
    """Find the least power of two that is enough."""
    high = Fraction(1)
    if search.enough(high):
        while search.enough(high / 2):
            high /= 2
            if high < _LEAST:
                raise InvalidParameter("guarantee", goal, "one that some noise is needed for: here none is")
    else:
        while not search.enough(high := high * 2):
            if high > _MOST:
                raise InvalidParameter(
                    "guarantee",
                    goal,
                    "one that this family of noise can meet",
                    fix="a larger parameter must mean more noise; Gaussian noise needs δ > 0",
                )
    return high


def _round_numbers(low: Fraction, high: Fraction) -> list[Fraction]:
    """List candidates for "the same number, rounder": the simplest fraction between, then the shortest decimal."""
    simple = high.limit_denominator(10_000)
    candidates = [simple] if low < simple and abs(simple - high) <= high * _PRECISION else []
    for digits in range(1, 17):
        context = Context(prec=digits, rounding=ROUND_CEILING)
        decimal = Fraction(context.divide(Decimal(high.numerator), Decimal(high.denominator)))
        if decimal <= high * (1 + 16 * _PRECISION):
            return [*candidates, decimal]
    return candidates
