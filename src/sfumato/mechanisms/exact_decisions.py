"""A uniform number is known bit by bit, and decisions about it are made exactly.

A uniform V in (0, 1) starts as its first n bits, v: it lies in [v, v+1)/2ⁿ. A question about V (is it below p? what
is ⌊b·(C − ln V)⌋?) is answered as soon as the whole interval agrees; otherwise 64 more bits are drawn and the
arithmetic gets more digits. No probability is ever rounded. This is the slow, exact path: the vectorised samplers
decide all but a few draws in a million by floating point with a proven margin, and send the rest here with the bits
already drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import floor
from typing import TypeVar

from sfumato.mechanisms import bits

_T = TypeVar("_T")
_LN2: dict[int, Decimal] = {}


def digits(count: int) -> Context:
    """Make decimal arithmetic with room for huge exponents; every elementary function is correctly rounded."""
    return Context(prec=count, Emax=10**15, Emin=-(10**15))


def decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def log_uniform(v: int, width: int, context: Context) -> tuple[Decimal, Decimal]:
    """Bound −ln V: from the upper and the lower end of V's interval, the latter infinite when v is 0."""
    if context.prec not in _LN2:
        _LN2[context.prec] = Decimal(2).ln(context)
    shift = context.multiply(_LN2[context.prec], Decimal(width))
    least = context.subtract(shift, Decimal(v + 1).ln(context))
    most = context.subtract(shift, Decimal(v).ln(context)) if v else Decimal("Infinity")
    return least, most


def settle(v: int, width: int, decide: Callable[[int, int, Context], _T | None]) -> _T:
    """Ask ``decide(v, width, context)`` with ever more bits and digits until it answers."""
    precision = 20 - 20 * (-width // 64)
    while (answer := decide(v, width, digits(precision))) is None:
        v, width, precision = (v << 64) | bits.integer(64), width + 64, precision + 20
    return answer


def slack(value: Decimal, context: Context) -> Decimal:
    """Bound the rounding of a few correctly rounded operations on numbers of this size."""
    return context.multiply(context.add(value.copy_abs(), Decimal(1)), Decimal((0, (1,), 10 - context.prec)))


def floor_of(value: tuple[Decimal, Decimal], size: Decimal, context: Context) -> int | None:
    """Find the common floor of all numbers between two bounds, or None; ``size`` bounds what they are made from."""
    low, high = value
    if not high.is_finite():
        return None
    margin = slack(context.add(high, size), context)
    below, above = floor(context.subtract(low, margin)), floor(context.add(high, margin))
    return below if below == above else None


def less(v: int, width: int, threshold: Callable[[Context], Decimal]) -> bool:
    """Tell whether V < p, for a probability p computed to any precision."""

    def decide(v: int, width: int, context: Context) -> bool | None:
        scaled = context.multiply(threshold(context), Decimal(1 << width))
        margin = slack(Decimal(1 << (width + 1)), context)  # p may come from a difference of numbers up to 1
        if v + 1 <= context.subtract(scaled, margin):
            return True
        return False if v >= context.add(scaled, margin) else None

    return settle(v, width, decide)
