"""Ranges of numbers are those that the engine computes: doubles, rounded to nearest, 0 or from 2^-500 to 2^500 in size.

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


def nearest(value: Fraction | int) -> float:
    """Find the double nearest to an exact number; the largest ones beyond them."""
    try:
        return float(value)
    except OverflowError:
        return 1.7976931348623157e308 if value > 0 else -1.7976931348623157e308


def ends(domain: Domain) -> Ends | None:
    """Give the range of a number once it is a double."""
    if domain.range is None:
        return None
    low, high = (Fraction(nearest(each)) for each in domain.range)  # type: ignore[arg-type]
    return low, high


def real(found: Iterable[float] | None, *, nullable: bool, grid: Fraction | None = None) -> Domain:
    """Give the domain of a computed real that lies between the least and the greatest of the values found."""
    bounds = None if found is None else _bounds(list(found))
    return Domain(Type.REAL, bounds=bounds, grid=grid, nullable=nullable)


def computed(found: Iterable[float] | None, *, nullable: bool) -> Domain:
    """Give the same for an operation that may leave the doubles: without a range, it may be missing."""
    domain = real(found, nullable=nullable)
    return domain if domain.bounds is not None else Domain(Type.REAL, nullable=True)


def whole(low: int, high: int, *, nullable: bool) -> Domain | None:
    """Give the domain of a whole number, or None when 64 bits might not hold it."""
    if max(abs(low), abs(high)) > LARGEST_INTEGER:
        return None
    return Domain(Type.INTEGER, bounds=(low, high), nullable=nullable)


def corners(function: Callable[[float, float], float], first: Ends | None, second: Ends | None) -> list[float] | None:
    """Compute the function at the corners of two ranges; None when a range is missing or a corner is no number."""
    if first is None or second is None:
        return None
    try:
        found = [function(float(x), float(y)) for x, y in product(first, second)]
    except (OverflowError, ValueError, ZeroDivisionError):
        return None
    return found if all(map(math.isfinite, found)) else None


def widened(found: Iterable[float] | None, exact: Iterable[Fraction | int] = (0,)) -> list[float] | None:
    """Widen by what the engine's logarithms and powers may be wrong, but for the ends it computes exactly."""
    if found is None:
        return None
    kept = set(exact)
    listed = list(found)
    outward = ((min(listed), -math.inf), (max(listed), math.inf))
    return [end if end in kept else _moved(end, toward) for end, toward in outward]


def _moved(end: float, toward: float) -> float:
    for _ in range(_STEPS):
        end = math.nextafter(end, toward)
    return end


def _bounds(found: list[float]) -> Ends | None:
    if not all(map(math.isfinite, found)):
        return None
    low, high = Fraction(repr(min(found))), Fraction(repr(max(found)))  # the shortest numbers that are these doubles
    if max(abs(low), abs(high)) > LARGEST_REAL:
        return None
    return _coarse(low, -SMALLEST_REAL), _coarse(high, SMALLEST_REAL)


def _coarse(end: Fraction, outward: Fraction) -> Fraction:
    """Move an end that is nearer to 0 than a real may be to 0, as its value is, or outward past where it was."""
    if abs(end) >= SMALLEST_REAL or end == 0:
        return end
    return outward if end * outward > 0 else Fraction(0)
