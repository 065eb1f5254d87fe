"""Calibration finds the least noise that meets a promise, for any family of noise with one parameter."""

from __future__ import annotations

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


def calibrate(make: Callable[[Fraction], N], guarantee: Guarantee, sensitivity: Sensitivity | Number = 1) -> N:
    """Find the mechanism ``make(parameter)`` with the least parameter that certainly meets the guarantee.

    Larger parameters must mean more noise. The promise is checked with the mechanism's own curve, so discrete noise is
    calibrated as the discrete noise it is; what is returned has been checked, and the parameter is the
    roundest number within one part in 2⁴⁶.
    """
    change, promise = Sensitivity.of(sensitivity), Guarantee.of(guarantee)
    return make(least(lambda size: meets(leaked(make, size, change), promise), f"{promise}"))


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
    most = curve.max_divergence
    if most is not None and most <= guarantee.epsilon and curve.failure <= guarantee.delta:
        return True
    return bool(guarantee.delta) and curve.delta(guarantee.epsilon) <= guarantee.delta


def least(enough: Callable[[Fraction], bool], goal: str, precision: Fraction = _PRECISION) -> Fraction:
    """Find the least parameter, within this part of itself, for which a condition holds, as for all larger ones."""
    high = Fraction(1)
    if enough(high):
        while enough(high / 2):
            high /= 2
            if high < _LEAST:
                raise InvalidParameter("guarantee", goal, "one that some noise is needed for: here none is")
    else:
        while not enough(high := high * 2):
            if high > _MOST:
                raise InvalidParameter(
                    "guarantee",
                    goal,
                    "one that this family of noise can meet",
                    fix="a larger parameter must mean more noise; Gaussian noise needs δ > 0",
                )
    low = high / 2
    while high - low > high * precision:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return next((number for number in _round_numbers(low, high) if enough(number)), high)


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
