"""Interval arithmetic on the engine's numbers: doubles, rounded to nearest, 0 or from 2^-500 to 2^500 in size.

Rounding to nearest is monotone, so an operation that is monotone in each argument stays inside the rounded results
at the corners of its arguments' ranges. Every end of a computed range is therefore written as the shortest number
that rounds to such a double, and a computed value lies within the rounded ends without any tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product

from sfumato.policy.domains import LARGEST_INTEGER, LARGEST_REAL, SMALLEST_REAL, Domain, Type

Ends = tuple[Fraction, Fraction]

_STEPS = 2  # logarithms and powers are right within one unit in the last place


def nearest_double(value: Fraction | int) -> float:
    """Return the double nearest to an exact number, or the largest double of its sign."""
    try:
        return float(value)
    except OverflowError:
        return 1.7976931348623157e308 if value > 0 else -1.7976931348623157e308


def double_range(domain: Domain) -> Ends | None:
    """Return the range of a number once it is a double."""
    if domain.range is None:
        return None
    low, high = (Fraction(nearest_double(end)) for end in domain.range)  # type: ignore[arg-type]
    return low, high


def real_domain(values: Iterable[float] | None, *, nullable: bool, grid: Fraction | None = None) -> Domain:
    """Return the domain of a computed real between the least and the greatest of the values."""
    bounds = None if values is None else _real_bounds(list(values))
    return Domain(Type.REAL, bounds=bounds, grid=grid, nullable=nullable)


def overflowing_real_domain(values: Iterable[float] | None, *, nullable: bool) -> Domain:
    """Return the same for an operation that may overflow: without a range, it may be NULL."""
    domain = real_domain(values, nullable=nullable)
    return domain if domain.bounds is not None else Domain(Type.REAL, nullable=True)


def integer_domain(low: int, high: int, *, nullable: bool) -> Domain | None:
    """Return the domain of an integer, or None when 64 bits might not hold it."""
    if max(abs(low), abs(high)) > LARGEST_INTEGER:
        return None
    return Domain(Type.INTEGER, bounds=(low, high), nullable=nullable)


def corner_values(
    function: Callable[[float, float], float], first: Ends | None, second: Ends | None
) -> list[float] | None:
    """Evaluate the function at the corners of two ranges; None when a range is unknown or a corner is no number."""
    if first is None or second is None:
        return None
    try:
        values = [function(float(x), float(y)) for x, y in product(first, second)]
    except (OverflowError, ValueError, ZeroDivisionError):
        return None
    return values if all(map(math.isfinite, values)) else None


def widen_range(ends: Iterable[float] | None, exact: Iterable[Fraction | int] = (0,)) -> list[float] | None:
    """Widen a range by the errors of the engine's logarithms and powers, except at the ends it computes exactly."""
    if ends is None:
        return None
    exact_ends = set(exact)
    values = list(ends)
    directions = ((min(values), -math.inf), (max(values), math.inf))
    return [end if end in exact_ends else _step_outward(end, toward) for end, toward in directions]


def _step_outward(end: float, toward: float) -> float:
    for _ in range(_STEPS):
        end = math.nextafter(end, toward)
    return end


def _real_bounds(values: list[float]) -> Ends | None:
    if not all(map(math.isfinite, values)):
        return None
    low, high = Fraction(repr(min(values))), Fraction(repr(max(values)))  # the shortest numbers that are these doubles
    if max(abs(low), abs(high)) > LARGEST_REAL:
        return None
    return _flush_to_zero(low, -SMALLEST_REAL), _flush_to_zero(high, SMALLEST_REAL)


def _flush_to_zero(end: Fraction, outward: Fraction) -> Fraction:
    """Move an end that is nearer to 0 than a real may be to 0, as its value is, or outward past where it was."""
    if abs(end) >= SMALLEST_REAL or end == 0:
        return end
    return outward if end * outward > 0 else Fraction(0)
