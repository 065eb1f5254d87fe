"""The number rule: what a public number means, and how computed reals are rounded.

A public number is an int, a Fraction, a Decimal, a decimal string (or "p/q"), or a float; a float means
its shortest decimal, so 0.1 is 1/10. Everything a user types is held as an exact ``Fraction``. Reals that
we compute ourselves are rounded toward privacy, and charges are whole multiples of 1e-30.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sfumato.errors import InvalidParameter

Number = int | Fraction | Decimal | str | float

UNIT = 10**30
"""One charge is a whole number of 1/UNIT: totals add as integers and never drift."""

_DIGITS = 1000  # longer numbers are refused before they can cost memory or time


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of allowed values, in words and as a test."""

    words: str
    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: Fraction) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        return self.high is None or not (value > self.high or (self.high_open and value == self.high))


ANY = Range("a finite number")
POSITIVE = Range("a finite number > 0", Fraction(0), low_open=True)
NONNEGATIVE = Range("a finite number ≥ 0", Fraction(0))
PROBABILITY = Range("a number in [0, 1]", Fraction(0), Fraction(1))
BELOW_ONE = Range("a number in [0, 1)", Fraction(0), Fraction(1), high_open=True)
INSIDE_UNIT = Range("a number in (0, 1)", Fraction(0), Fraction(1), low_open=True, high_open=True)
ABOVE_ONE = Range("a finite number > 1", Fraction(1), low_open=True)


def exact(value: Number, name: str, allowed: Range = ANY) -> Fraction:
    """The exact value of a public number, or ``InvalidParameter`` naming it and what is allowed."""
    number = _parse(value)
    if number is None or number not in allowed:
        raise InvalidParameter(name, value, allowed.words)
    return number


def whole(value: Number, name: str, *, at_least: int = 0) -> int:
    """The exact value of a public whole number ≥ ``at_least``."""
    if type(value) is int and value >= at_least:
        return value
    number = _parse(value)
    if number is None or number.denominator != 1 or number < at_least:
        raise InvalidParameter(name, value, f"a whole number ≥ {at_least}")
    return number.numerator


def _parse(value: object) -> Fraction | None:
    """None for anything that is not one finite number of reasonable length."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        return _from_decimal(value)
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, numbers.Real):
        return _from_decimal(Decimal(str(value)))  # str() is the shortest decimal, also of float32
    return None


def _from_text(text: str) -> Fraction | None:
    top, slash, bottom = text.strip().partition("/")
    if len(text) > _DIGITS:
        return None
    if slash:
        if not (top.lstrip("-").isdecimal() and bottom.isdecimal() and int(bottom)):
            return None
        return Fraction(int(top), int(bottom))
    try:
        return _from_decimal(Decimal(top))
    except InvalidOperation:
        return None


def _from_decimal(value: Decimal) -> Fraction | None:
    if not value.is_finite() or (value and abs(value.adjusted()) > _DIGITS):
        return None
    return Fraction(value)


def text(value: Fraction) -> str:
    """An exact string that ``exact`` reads back: a decimal where one exists, else "p/q"."""
    rest = value.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    if rest != 1 or places > 40:
        return f"{value.numerator}/{value.denominator}"
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def above(value: Fraction) -> float:
    """The least float whose meaning under the number rule is at least ``value``."""
    nearest = _nearest(value)
    while math.isfinite(nearest) and Fraction(Decimal(str(nearest))) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def below(value: Fraction) -> float:
    """The largest float whose meaning under the number rule is at most ``value``."""
    return -above(-value)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def charge_units(value: Fraction) -> int:
    """A cost as whole units of 1e-30, rounded up."""
    return math.ceil(value * UNIT)


def allowance_units(value: Fraction) -> int:
    """An allowance as whole units of 1e-30, rounded down."""
    return math.floor(value * UNIT)


def from_units(units: int) -> Fraction:
    return Fraction(units, UNIT)
