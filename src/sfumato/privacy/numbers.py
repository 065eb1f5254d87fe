"""The number rule: what a public number means, and how computed reals are rounded.

A public number is an int, a Fraction, a Decimal, a decimal string (or "p/q"), or a float; a float means
its shortest decimal, so 0.1 is 1/10. Everything a user types is held as an exact ``Fraction``. Reals that
we compute ourselves are rounded toward privacy. Accounts count units of 1e-30 (``privacy.amounts``).

Functions that would cancel catastrophically if written plainly, computed to the last few bits.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords

Number = int | Fraction | Decimal | str | float

UNIT = 10**30
"""Accounts count in 1/UNIT."""

# Every number is 0 or between these in size, and not absurdly long: beyond them nothing is meaningful, floats end, and
# time and memory could be spent on digits alone.
_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)
_MAX_BITS = 4096
_SURELY_INSIDE = 996  # 2^996 < 1e300: a quotient of two numbers of so many bits is within both ends
_FRACTION = re.compile(r"[+-]?[0-9]+/[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of allowed values, with its description for messages."""

    words: str
    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    is_list: bool = False
    """Whether the interval is for each number of a list."""
    read_texts: dict[str, Fraction] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Short texts of numbers inside, such as "0.95", which a release reads a dozen times."""

    @property
    def for_list(self) -> Range:
        """The same interval for each number of a list: the message then speaks of numbers."""
        plural = self.words.replace("a finite number", "finite numbers").replace("a number", "numbers")
        return replace(self, words=plural, is_list=True)

    def keep_text(self, text: str, number: Fraction) -> None:
        if len(self.read_texts) >= _MAX_TEXTS:
            self.read_texts.clear()  # another thread may do so too: what was read is read again
        self.read_texts[text] = number

    def __contains__(self, value: Fraction) -> bool:
        return self.allows(*value.as_integer_ratio())

    def allows(self, top: int, bottom: int) -> bool:
        """Return whether top/bottom is inside: a Fraction's own comparison takes four times as long."""
        if self.low is not None:
            low_top, low_bottom = self.low.as_integer_ratio()
            above = top * low_bottom - low_top * bottom
            if above < 0 or (self.low_open and not above):
                return False
        if self.high is not None:
            high_top, high_bottom = self.high.as_integer_ratio()
            below = high_top * bottom - top * high_bottom
            return below > 0 or (not below and not self.high_open)
        return True


ANY = Range("a finite number")
POSITIVE = Range("a finite number > 0", Fraction(0), low_open=True)
NONNEGATIVE = Range("a finite number ≥ 0", Fraction(0))
PROBABILITY = Range("a number in [0, 1]", Fraction(0), Fraction(1))
BELOW_ONE = Range("a number in [0, 1)", Fraction(0), Fraction(1), high_open=True)
INSIDE_UNIT = Range("a number in (0, 1)", Fraction(0), Fraction(1), low_open=True, high_open=True)
CONFIDENCE = Range(
    "a number from 0.01 to 1 - 1e-30", Fraction(1, 100), 1 - Fraction(1, 10**30)
)  # beyond these a range is empty, or says nothing that a double can hold
DEFAULT_CONFIDENCE = "0.95"
"""The confidence of every interval unless the caller states another."""
ACCEPT_DEFAULT = "default"
"""Given as ``delta``, it accepts the δ that a question offers for groups found in the data."""
ABOVE_ONE = Range("a finite number > 1", Fraction(1), low_open=True)


def exact(value: Number, name: str, allowed: Range = ANY) -> Fraction:
    """Return the exact value of a public number, or raise ``InvalidParameter`` naming it and what is allowed."""
    if type(value) is str and (known := allowed.read_texts.get(value)) is not None:
        return known
    number = value if type(value) is Fraction else _parse_finite_number(value)
    ratio = None if number is None else number.as_integer_ratio()
    if _is_too_long(ratio) if ratio is not None else _is_written_number(value):
        raise _size_error(value, number, name, allowed)
    if number is None or ratio is None or not allowed.allows(*ratio):
        raise InvalidParameter(name, value, allowed.words, fix=_spelling_hint(value, number, name, allowed))
    if not _is_in_size_limits(*ratio):
        raise _size_error(value, number, name, allowed)
    if type(value) is str and len(value) <= _SHORT_TEXT:
        allowed.keep_text(value, number)
    return number


def _is_too_long(ratio: tuple[int, int]) -> bool:
    """Return whether a number has so many digits that comparing, dividing or writing it would take seconds."""
    return max(map(int.bit_length, ratio)) > _MAX_BITS


def _is_written_number(value: object) -> bool:
    """Return whether a text has the form of a number, though perhaps of one that is too large or too long."""
    if not isinstance(value, str):
        return False
    text = value[:_LONGEST_TEXT].strip()
    return bool(_DECIMAL.fullmatch(text) or (_FRACTION.fullmatch(text) and text.partition("/")[2].strip("0")))


def _size_error(value: object, number: Fraction | None, name: str, allowed: Range) -> InvalidParameter:
    """Return the refusal of a number that is too large, too small or too long; one of many digits is not shown."""
    shown = value
    if number is not None and isinstance(value, Fraction) and not _is_too_long(number.as_integer_ratio()):
        shown = ValueWords(f"about {Decimal(number.numerator) / number.denominator:.2e}")
    fix = "give a value between 1e-300 and 1e300 with at most 2,000 digits"
    return InvalidParameter(name, shown, _words_with_size_limits(allowed), fix=fix)


def _words_with_size_limits(allowed: Range) -> str:
    zero = "0, or " if Fraction(0) in allowed else ""
    size = "" if allowed.low is not None and allowed.low >= 0 else " in absolute value"
    return f"{allowed.words}: {zero}between 1e-300 and 1e300{size}"


def _spelling_hint(value: object, number: Fraction | None, name: str, allowed: Range) -> str:
    """Suggest a spelling for a decimal comma or a percentage; "" for anything else."""
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if percent and name.startswith("within"):
        number_text = format_exact(10 * Fraction(percent[1]))
        return f"within is an absolute error: for {percent[1]} % of a count of about 1,000, write {number_text}"
    if isinstance(value, str) and _COMMA.fullmatch(value.strip()):
        return f"write {name} with a decimal point: {value.strip().replace(',', '.')}"
    if allowed.is_list and allowed.low_open:
        return f"write all {name} as numbers above {format_exact(allowed.low or Fraction(0))}, such as 1"
    if allowed.is_list and allowed.high == 1:
        return f"rescale the {name} to [0, 1]" if number is not None else f"write all {name} as numbers, such as 0.5"
    if number is not None and 1 < number <= 100 and allowed.high is not None and number / 100 in allowed:
        return f"write {format_exact(number)} % as {format_exact(number / 100)}"
    return ""


_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")
_COMMA = re.compile(r"[0-9]{1,20},[0-9]{1,20}")


def exact_integer(value: Number, name: str, *, at_least: int = 0) -> int:
    """Return the exact value of a public whole number ≥ ``at_least``."""
    if type(value) is int and at_least <= value < 1 << 64:
        return value
    number = _parse_finite_number(value)
    if number is None or number.denominator != 1 or number < at_least:
        raise InvalidParameter(name, value, f"a whole number ≥ {at_least}")
    if not _is_in_size_limits(number.numerator, 1):
        raise InvalidParameter(name, value, f"a whole number from {at_least} to 1e300", fix="give a smaller number")
    return number.numerator


def means_plus_infinity(value: object) -> bool:
    """Return whether this is plus infinity, in any spelling: a Rényi order may be."""
    if isinstance(value, Decimal):
        return value.is_infinite() and value > 0
    if isinstance(value, str):
        return value.strip().lower() in {"inf", "infinity"}
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational) and float(value) == math.inf


def _is_in_size_limits(top: int, bottom: int) -> bool:
    bits = max(top.bit_length(), bottom.bit_length())
    if bits <= _SURELY_INSIDE:
        return True
    return bits <= _MAX_BITS and (top == 0 or _SMALLEST <= abs(Fraction(top, bottom)) <= _LARGEST)


def _parse_finite_number(value: object) -> Fraction | None:
    """Parse one finite number; return None for anything else."""
    if type(value) is Fraction:  # before what is abstract, and slow to check against
        return value
    if isinstance(value, str):
        return _fraction_from_text(value)
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return _fraction_from_decimal(value)
    try:
        if isinstance(value, float):
            return _fraction_from_decimal(Decimal(float.__repr__(float(value))))
        if isinstance(value, Fraction):
            return value
        if isinstance(value, numbers.Integral):
            return Fraction(operator.index(value))
        if isinstance(value, numbers.Real):
            return _fraction_from_decimal(Decimal(str(value)))  # the shortest decimal, also of numpy's float32
    except (TypeError, ValueError, InvalidOperation):
        pass
    return None


def _fraction_from_text(text: str) -> Fraction | None:
    return _fraction_from_short_text(text) if len(text) <= _SHORT_TEXT else _fraction_from_any_text(text)


_SHORT_TEXT, _LONGEST_TEXT = 64, 5000
_MAX_TEXTS = 1024


@lru_cache(maxsize=1024)
def _fraction_from_short_text(text: str) -> Fraction | None:
    """A release reads the same few texts, such as "0.95", a dozen times."""
    return _fraction_from_any_text(text)


def _fraction_from_any_text(text: str) -> Fraction | None:
    text = text[:_LONGEST_TEXT].strip()
    if _FRACTION.fullmatch(text):
        top, _, bottom = text.partition("/")
        return Fraction(int(top), int(bottom)) if len(text) < 4000 and int(bottom) else None
    return _fraction_from_decimal(Decimal(text)) if _DECIMAL.fullmatch(text) else None


def _fraction_from_decimal(value: Decimal) -> Fraction | None:
    if not value.is_finite() or (value and abs(value.adjusted()) > 1000) or len(value.as_tuple().digits) > 2000:
        return None
    return Fraction(value)


def format_exact(value: Fraction) -> str:
    """Format a number exactly, so that ``exact`` reads it back: as a decimal where one exists, else "p/q"."""
    top, bottom = value.as_integer_ratio()
    cofactor = bottom
    twos = (cofactor & -cofactor).bit_length() - 1
    cofactor >>= twos
    fives = 0
    while cofactor % 5 == 0:
        cofactor //= 5
        fives += 1
    places = twos if twos > fives else fives
    digits = str(abs(top) * 10**places // bottom)
    significant = digits.rstrip("0") or "0"
    sign = "-" if top < 0 else ""
    if cofactor != 1 or len(significant) > 60:
        return f"{top}/{bottom}"
    if places > 20 or len(digits) - len(significant) > 20:
        return f"{sign}{significant}e{len(digits) - len(significant) - places}"
    if places == 0:
        return f"{sign}{digits}"
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def format_rounded_up(value: Fraction) -> str:
    """Format a number that is not negative for people: exactly where that is short, else rounded up to six digits.

    >>> format_rounded_up(Fraction(1, 2)), format_rounded_up(Fraction("0.50000000000001"))
    ('0.5', '0.500001')
    """
    exact_text = format_exact(value)
    if len(exact_text) <= _SHORT_DIGITS:
        return exact_text
    with localcontext(prec=6, rounding=ROUND_CEILING):
        return f"{float(Decimal(value.numerator) / value.denominator):.6g}"


_SHORT_DIGITS = 12


def decimal_float_above(value: Fraction) -> float:
    """Return a float whose meaning under the number rule is at least ``value``: the least not below its nearest."""
    nearest = max(_float_or_infinity(value), -sys.float_info.max)
    while math.isfinite(nearest) and Fraction(Decimal(str(nearest))) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def decimal_float_below(value: Fraction) -> float:
    """Return a float whose meaning under the number rule is at most ``value``."""
    return -decimal_float_above(-value)


def float_above(value: Fraction) -> float:
    """Return the least float that is at least ``value`` as a binary number, for further computation: 0.3 as a float is
    below 3/10.
    """
    nearest = max(_float_or_infinity(value), -sys.float_info.max)
    return math.nextafter(nearest, math.inf) if math.isfinite(nearest) and Fraction(nearest) < value else nearest


def float_below(value: Fraction) -> float:
    """Return the largest float that is at most ``value`` as a binary number."""
    return -float_above(-value)


def next_float_up(computed: float) -> float:
    """Return the next float up: not below the true value of a rounded sum, nor below the decimal that a float stands
    for.
    """
    return math.nextafter(computed, math.inf)


def next_float_down(computed: float) -> float:
    """Return the next float down."""
    return math.nextafter(computed, -math.inf)


def _float_or_infinity(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def least_integer_where(holds: Callable[[int], bool], start: int) -> int:
    """Return the least whole number from ``start`` on that has a property, which all larger ones must have as well."""
    end = next(end for doublings in range(64) if holds(end := start + (1 << doublings)))
    return start + bisect_left(range(start, end), True, key=holds)


def units_rounded_up(value: Fraction) -> int:
    """Convert a cost to whole units of 1e-30, rounded up."""
    return -(-value.numerator * UNIT // value.denominator)


def units_rounded_down(value: Fraction) -> int:
    """Convert an allowance to whole units of 1e-30, rounded down."""
    return value.numerator * UNIT // value.denominator


def amount_from_units(units: int | Fraction) -> Fraction:
    return Fraction(units, UNIT)


def format_number(value: float, digits: int = 4) -> str:
    """Format a computed number for people: a few significant digits, thousands separated.

    >>> format_number(125817.3), format_number(0.04166), format_number(599.0), format_number(2.5e-9)
    ('125,800', '0.04166', '599', '2.5e-09')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if not -12 <= decimals <= digits + 3:
        return f"{value:.{digits}g}"
    integer_part, _, fraction_part = f"{round(value, decimals):,.{max(0, decimals)}f}".partition(".")
    return f"{integer_part}.{fraction_part}".rstrip("0").rstrip(".") if fraction_part else integer_part


def format_probability(value: Fraction) -> str:
    """Format a small probability such as δ in one way everywhere: as it is typed, or in full where that is longer.

    >>> [format_probability(Fraction(text)) for text in ("1e-6", "0.001", "0.00000012345")]
    ['1e-06', '0.001', '0.00000012345']
    """
    short = f"{float(value):.3g}"
    return short if Fraction(short) == value else format_exact(value)


def format_percent(share: Number) -> str:
    """Format a share from 0 to 1 as a percentage: all its digits up to 30, or else six of them, rounded down.

    >>> format_percent("0.95"), format_percent("0.999"), format_percent("0." + "9" * 27), format_percent("2/3")
    ('95 %', '99.9 %', '99.9999999999999999999999999 %', '66.666666 %')
    """
    hundredths = exact(share, "share", PROBABILITY) * 100
    digits = 30 if 10**30 % hundredths.denominator == 0 else 6
    whole_part, fraction_part = divmod(hundredths.numerator * 10**digits // hundredths.denominator, 10**digits)
    return f"{whole_part}.{fraction_part:0{digits}d}".rstrip("0").rstrip(".") + " %"


Complex = NDArray[np.complexfloating[Any, Any]]


def excess_exp(y: float) -> float:
    """Return (e^y − 1 − y)/y², which is 1/2 at 0."""
    if abs(y) > 0.3:
        return (math.expm1(y) - y) / (y * y)
    total, term = 0.0, 0.5
    for n in range(3, 17):
        total += term
        term *= y / n
    return total


def sinhc_minus_one(y: float) -> float:
    """Return sinh(y)/y − 1, which is y²/6 near 0."""
    if abs(y) > 1:
        return math.sinh(y) / y - 1
    total, term = 0.0, y * y / 6
    for n in range(4, 24, 2):
        total += term
        term *= y * y / (n * (n + 1))
    return total


def power_excess(y: float, order: float) -> float:
    """Return x^α − 1 − α(x − 1) at x = e^y, or its limit x·ln x − x + 1 per unit of α − 1 at order 1; both are ≥ 0."""
    if order == 1:
        phi = excess_exp(y)
        return y * y * (1 + y * phi - phi)
    return order * y * y * (order * excess_exp(order * y) - excess_exp(y))


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return ln(p/q) of exact positive numbers, accurate when they are close and when they are far apart."""
    change = (p - q) / q
    if 2 * abs(change) < 1:
        return math.log1p(float(change))
    ratio = p / q
    if Fraction(1, 10**300) < ratio < 10**300:
        return math.log(ratio)
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def exprel_minus_real(y: float) -> float:
    """Return (1 − e^{−y})/y, continuous at 0."""
    return -math.expm1(-y) / y if y else 1.0


def log_exprel_minus_ratio(low: float, high: float) -> float:
    """Return ln(exprel_minus(low)/exprel_minus(high)) for 0 ≤ low ≤ high, accurate when both are small and when both
    are large.
    """
    if high < 0.01:  # ln exprel_minus(y) = −y/2 + y²/24 − y⁴/2880 + O(y⁶)
        return (high - low) * (0.5 - (high + low) / 24 + (high + low) * (high**2 + low**2) / 2880)
    if low > 40:
        return math.log1p((high - low) / low)
    return math.log(exprel_minus_real(low) / exprel_minus_real(high))


def mills_ratio(x: float) -> float:
    """Return Mills' ratio (1 − Φ(x))/φ(x) for x ≥ 0."""
    if x < 5:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    tail = 0.0
    for n in range(60, 0, -1):
        tail = n / (x + tail)
    return 1 / (x + tail)


def exprel_minus(y: Complex) -> Complex:
    """Return (1 − e^{−y})/y for complex arrays, continuous at 0."""
    is_small = np.abs(y) < 1e-8
    nonzero = np.where(is_small, 1.0, y)
    return np.where(is_small, 1 - y / 2, -np.expm1(-nonzero) / nonzero)


def log_theta_ratio(u: Complex, variance: float) -> Complex:
    """Return ln Θ(u)/Θ(0) for |Im u| ≤ πσ²: the sum itself for small σ, its Poisson dual for large."""
    u = u - np.round(u.real)
    if variance < 1:
        x = np.arange(-12, 13)[:, None]
        lift = (u.real**2 - u.imag**2) / (2 * variance)  # x = 0 is the largest term
        terms = np.exp(lift - (x + u) ** 2 / (2 * variance)).sum(0)
        log_sum: Complex = np.log(terms)
        return log_sum - lift - math.log(np.exp(-(x**2) / (2 * variance)).sum())
    # The second harmonic is e^{−4π²σ²} < 1e-17 of the rest, even where |Im u| is largest.
    decay = -2 * math.pi**2 * variance
    waves = np.exp(decay + 2j * math.pi * u) + np.exp(decay - 2j * math.pi * u)
    log_dual: Complex = np.log1p(waves)
    return log_dual - math.log1p(2 * math.exp(decay))
