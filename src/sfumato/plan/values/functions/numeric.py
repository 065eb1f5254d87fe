"""Arithmetic is on exact whole numbers while 64 bits surely hold them, on doubles otherwise, and is never NaN or
infinite.

A real is 0 or between 2^-500 and 2^500 in size: after every operation a smaller one is 0, a larger one NULL. Within
that range IEEE's +, −, ×, ÷ and √ neither overflow nor underflow, and are equal to the last bit on every engine; LN,
EXP and POW may differ in the last bit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    LISTED,
    any_nullable,
    function,
    is_null,
    length,
    literal,
    mismatch,
    never_null,
    null,
    number,
    real,
    same,
    written,
)
from sfumato.policy.domains import LARGEST_INTEGER, Domain, Type

Made = tuple[Sequence[Expression], Domain]
Limits = tuple[Any, Any]
"""The least and the greatest value, each None where unknown."""

MOST_BUCKETS = 10_000
_SMALLEST_LOGARITHM = -347  # of the least positive real


def _arithmetic(apply: Callable[[Any, Any], Any]) -> Callable[[Expression, Expression], Made]:
    """Make a rule for +, − and *: all are monotone in each argument."""

    def rule(x: Expression, y: Expression) -> Made:
        x, y = number(x), number(y)
        nullable = any_nullable(x, y)
        exact = _whole(apply, x.domain, y.domain, nullable)
        if exact is not None:
            return (x, y), exact
        x, y = real(x), real(y)
        found = intervals.corners(apply, intervals.ends(x.domain), intervals.ends(y.domain))
        return (x, y), intervals.computed(found, nullable=nullable)

    return rule


def _whole(apply: Callable[[Any, Any], Any], x: Domain, y: Domain, nullable: bool) -> Domain | None:
    if x.type is not Type.INTEGER or y.type is not Type.INTEGER or x.range is None or y.range is None:
        return None
    found = [apply(a, b) for a, b in product(x.range, y.range)]
    return intervals.whole(min(found), max(found), nullable=nullable)


function("+", "x + y", "the sum; a date plus INTERVAL 'n unit' is a date")(_arithmetic(operator.add))
function("-", "x - y", "the difference; of two dates, in days")(_arithmetic(operator.sub))
function("*", "x * y", "the product")(_arithmetic(operator.mul))


@function("/", "x / y", "the quotient, a real; NULL where y is 0")
def _divide(x: Expression, y: Expression) -> Made:
    x, y = real(x), real(y)
    divisor = intervals.ends(y.domain)
    if divisor is None or divisor[0] <= 0 <= divisor[1]:
        return (x, y), intervals.real(None, nullable=True)
    found = intervals.corners(operator.truediv, intervals.ends(x.domain), divisor)
    return (x, y), intervals.computed(found, nullable=any_nullable(x, y))


@function("//", "x // y", "the quotient of two whole numbers, toward 0; NULL where y is 0")
def _divide_whole(x: Expression, y: Expression) -> Made:
    for each in (x, y):
        if each.domain.type is not Type.INTEGER and not is_null(each):
            raise Unsupported("type-mismatch", "only whole numbers can be divided by //", fix="write FLOOR(x / y)")
    x, y = (null(Type.INTEGER) if is_null(each) else each for each in (x, y))
    top: Any = x.domain.range
    bottom: Any = y.domain.range
    nullable = any_nullable(x, y) or bottom is None or bottom[0] <= 0 <= bottom[1]
    if top is None:  # the least number of 64 bits has no opposite
        return (x, y), Domain(Type.INTEGER, nullable=nullable or bottom[0] <= -1 <= bottom[1])
    ends = _quotients(top, bottom or (-LARGEST_INTEGER, LARGEST_INTEGER))
    return (x, y), Domain(Type.INTEGER, bounds=ends, nullable=nullable)


def _quotients(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Toward 0, a quotient is monotone in each argument on either side of 0; it is 0 where nothing is divided."""
    divisors = {each for each in (*y, -1, 1) if y[0] <= each <= y[1] and each != 0}
    found = [toward_zero(a, b) for a in x for b in divisors]
    crossing = x[0] < 0 < x[1] or y[0] <= 0 <= y[1] or not found
    return min([*found, 0] if crossing else found), max([*found, 0] if crossing else found)


def toward_zero(x: int, y: int) -> int:
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


@function("%", "x % y", "what is left of x after whole y's; of reals x - y * trunc(x / y), rounded; NULL where y is 0")
def _remainder(x: Expression, y: Expression) -> Made:
    x, y = number(x), number(y)
    whole = all(each.domain.type is Type.INTEGER and each.domain.range is not None for each in (x, y))
    if not whole:
        x, y = real(x), real(y)
    top, bottom = intervals.ends(x.domain), intervals.ends(y.domain)
    nullable = any_nullable(x, y) or bottom is None or bottom[0] <= 0 <= bottom[1]
    if whole:
        low, high = _remains(x.domain.range, y.domain.range, 1)
        return (x, y), Domain(Type.INTEGER, bounds=(low, high), nullable=nullable)
    found = None if top is None or bottom is None else _rounded_remains(top, bottom)
    return (x, y), intervals.real(found, nullable=nullable)


def _rounded_remains(x: intervals.Ends, y: intervals.Ends) -> list[float]:
    """Bound x − y·trunc(x/y) in doubles: each of the three roundings moves it by at most 2^-52 of x.

    Where x is surely smaller than y, the quotient is below 1 and nothing is rounded.
    """
    low, high = _remains(x, y, 0)
    most = max(map(abs, x))
    slack = most / 2**49 if most >= min(map(abs, y)) or y[0] <= 0 <= y[1] else Fraction(0)
    return [float(low - slack), float(high + slack)]


def _remains(x: Any, y: Any, below: int) -> tuple[Any, Any]:
    """A remainder is no larger than x, smaller than y, and has the sign of x."""
    most = max(0, max(map(abs, y)) - below)
    return -min(most, max(0, -x[0])), min(most, max(0, x[1]))


@function("NEGATE", "-x", "the opposite number")
def _negate(x: Expression) -> Expression | Made:
    x = number(x)
    if isinstance(x, Literal) and isinstance(x.value, int | Fraction):
        return literal(x.domain.type, -x.value)
    return _mirrored(x, lambda value: -value)


@function("ABS", "ABS(x)", "the size of a number")
def _abs(x: Expression) -> Made:
    return _mirrored(number(x), abs)


def _mirrored(x: Expression, apply: Callable[[Any], Any]) -> Made:
    """Find the domain of −x and |x|: they are exact in either type, on the same grid; an undeclared whole number might
    not fit 64 bits.
    """
    if x.domain.type is Type.INTEGER and x.domain.range is None:
        x = real(x)
    shown = x.domain
    if shown.values is not None and len(shown.values) <= LISTED:
        values = tuple(dict.fromkeys(map(apply, shown.values)))
        return (x,), Domain(shown.type, values=values, grid=shown.grid, nullable=shown.nullable)
    bounds = None
    if shown.range is not None:
        found = [apply(each) for each in shown.range]
        crossing = shown.range[0] < 0 < shown.range[1]  # type: ignore[operator]
        bounds = (min([*found, 0] if crossing else found), max(found))
    return (x,), Domain(shown.type, bounds=bounds, grid=shown.grid, nullable=shown.nullable)


@function("SIGN", "SIGN(x)", "-1, 0 or 1")
def _sign(x: Expression) -> Made:
    x = number(x)
    return (x,), Domain(Type.INTEGER, values=(-1, 0, 1), nullable=x.domain.nullable)


def _step(apply: Callable[[float], float]) -> Callable[[Expression], Expression | Made]:
    def rule(x: Expression) -> Expression | Made:
        x = number(x)
        return x if x.domain.type is Type.INTEGER else _monotone(x, apply)

    return rule


def _monotone(x: Expression, apply: Callable[[float], float]) -> Made:
    found = intervals.ends(x.domain)
    return (x,), intervals.real(found and [apply(float(each)) for each in found], nullable=x.domain.nullable)


function("FLOOR", "FLOOR(x)", "the next whole number below")(_step(lambda x: float(math.floor(x))))
function("CEIL", "CEIL(x)", "the next whole number above")(_step(lambda x: float(math.ceil(x))))
function("TRUNC", "TRUNC(x)", "the next whole number toward 0")(_step(lambda x: float(math.trunc(x))))


@function("ROUND", "ROUND(x [, digits])", "rounded to so many decimal digits, halves away from 0")
def _round(x: Expression, digits: Expression | None = None) -> Expression | Made:
    x = number(x)
    places = digits or literal(Type.INTEGER, 0)
    count = int(written(places, Type.INTEGER, "the number of digits"))  # type: ignore[arg-type]
    if not -15 <= count <= 15:
        raise Unsupported("digits", "ROUND takes from -15 to 15 digits", fix="write ROUND(x, 2)")
    if x.domain.type is Type.INTEGER and count >= 0:
        return x
    if x.domain.type is Type.INTEGER and x.domain.range is not None:
        low, high = (_nearest_multiple(int(each), 10**-count) for each in x.domain.range)  # type: ignore[arg-type]
        whole = intervals.whole(low, high, nullable=x.domain.nullable)
        if whole is not None:
            return (x, places), whole
    x = real(x)
    found = intervals.ends(x.domain)
    rounded = found and [_rounded(float(each), count) for each in found]
    return (x, places), intervals.computed(rounded, nullable=x.domain.nullable)


def _nearest_multiple(value: int, step: int) -> int:
    size = (abs(value) + step // 2) // step * step
    return size if value >= 0 else -size


def _rounded(value: float, digits: int) -> float:
    """Bound the result by the engine's own steps: scale, round halves away from 0, scale back; each is monotone."""
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    if not math.isfinite(scaled):
        return value
    whole = float(_half_away(scaled))
    return whole / power if digits >= 0 else whole * power


def _half_away(value: float) -> int:
    size = math.floor(abs(Fraction(value)) + Fraction(1, 2))
    return size if value >= 0 else -size


def _curved(_: Call) -> int:
    return 40


@function("SQRT", "SQRT(x)", "the square root; NULL below 0")
def _sqrt(x: Expression) -> Made:
    x = real(x)
    found = intervals.ends(x.domain)
    nullable = x.domain.nullable or found is None or found[0] < 0
    roots = None if found is None or found[1] < 0 else [math.sqrt(max(0.0, float(each))) for each in found]
    return (x,), intervals.real(roots, nullable=nullable)


@function("LN", "LN(x)", "the natural logarithm; NULL at 0 and below", steps=_curved)
def _ln(x: Expression) -> Made:
    x = real(x)
    found = intervals.ends(x.domain)
    if found is None or found[1] <= 0:
        return (x,), intervals.real(None, nullable=True)
    low = math.log(found[0]) if found[0] > 0 else _SMALLEST_LOGARITHM
    logarithms = intervals.widened([low, math.log(found[1])], exact=(0, _SMALLEST_LOGARITHM))
    return (x,), intervals.real(logarithms, nullable=x.domain.nullable or found[0] <= 0)


@function("EXP", "EXP(x)", "e to the power x; NULL above 2^500, 0 below 2^-500", steps=_curved)
def _exp(x: Expression) -> Made:
    x = real(x)
    found = intervals.corners(lambda a, _: math.exp(a), intervals.ends(x.domain), (Fraction(0), Fraction(0)))
    return (x,), intervals.computed(intervals.widened(found, exact=(0, 1)), nullable=x.domain.nullable)


@function("POW", "POW(x, y), x ** y", "x to the power y; NULL where there is none", steps=_curved)
def _pow(x: Expression, y: Expression) -> Made:
    x, y = real(x), real(y)
    base, power = intervals.ends(x.domain), intervals.ends(y.domain)
    found = intervals.widened(_powers(base, power), exact=_exact_powers(base, power))
    return (x, y), intervals.computed(found, nullable=any_nullable(x, y))


def _powers(x: intervals.Ends | None, y: intervals.Ends | None) -> list[float] | None:
    """x^y is monotone in each argument where x > 0, and for one whole y on each side of 0."""
    if x is None or y is None or (x[0] <= 0 <= x[1] and y[0] < 0):
        return None
    if x[0] < 0 and not (y[0] == y[1] and y[0].denominator == 1):
        return None
    found = intervals.corners(math.pow, x, y)
    crossing = x[0] < 0 < x[1] and y[0] > 0
    return [*found, 0.0] if found is not None and crossing else found


def _exact_powers(x: intervals.Ends | None, y: intervals.Ends | None) -> set[Fraction | int]:
    """List the corners that need no rounding: 0, 1 to any power, and small whole powers."""
    if x is None or y is None:
        return set()
    small = {end for end in y if end.denominator == 1 and 0 <= end <= 64}
    ones: set[Fraction | int] = {1} if 1 in x else set()
    return ones | {0} | {end**power.numerator for end in x for power in small}


def _extreme(least: bool) -> Callable[..., Made]:
    def rule(x: Expression, *others: Expression) -> Made:
        typed = same((x, *others))
        kind = typed[0].domain.type
        if kind is Type.BOOLEAN:
            raise mismatch(typed[0], Type.REAL)
        nullable = all(each.domain.nullable for each in typed)
        low, high = _limits_of(least, typed)
        fits = low is not None and high is not None and _fits(kind, low, high)
        bounds = (low, high) if fits else None
        return typed, Domain(kind, bounds=bounds, nullable=nullable, max_length=length(kind, [x.domain for x in typed]))

    return rule


def _fits(kind: Type, low: Any, high: Any) -> bool:
    return kind is not Type.TEXT and (kind is not Type.INTEGER or max(abs(low), abs(high)) <= LARGEST_INTEGER)


def _limits_of(least: bool, arguments: Sequence[Expression]) -> Limits:
    """Missing arguments are passed over, so only an argument that is surely there bounds the result alone."""
    found = [limits(each) for each in arguments]
    sure = [each for each, argument in zip(found, arguments, strict=True) if never_null(argument)]
    lows, highs = [each[0] for each in found], [each[1] for each in found]
    if least:
        sure_highs = [each[1] for each in sure if each[1] is not None]
        return _all(min, lows), min(sure_highs) if sure_highs else _all(max, highs)
    sure_lows = [each[0] for each in sure if each[0] is not None]
    return max(sure_lows) if sure_lows else _all(min, lows), _all(max, highs)


def _all(pick: Callable[[list[Any]], Any], found: list[Any]) -> Any:
    return None if any(each is None for each in found) else pick(found)


def limits(x: Expression) -> Limits:
    """Say what is known of either end: GREATEST(x, 0) has a least value though x has no range."""
    if x.domain.range is not None:
        return x.domain.range
    if not isinstance(x, Call):
        return None, None
    if x.function in ("LEAST", "GREATEST"):
        return _limits_of(x.function == "LEAST", x.arguments)
    if x.function == "CAST" and x.domain.type is Type.REAL and x.arguments[0].domain.type is Type.INTEGER:
        low, high = (None if each is None else Fraction(intervals.nearest(each)) for each in limits(x.arguments[0]))
        return low, high
    return None, None


function("LEAST", "LEAST(x, y, …)", "the smallest of those that are not missing")(_extreme(least=True))
function("GREATEST", "GREATEST(x, y, …)", "the greatest of those that are not missing")(_extreme(least=False))


@function("WIDTH_BUCKET", "WIDTH_BUCKET(x, low, high, n)", "which of n equal buckets: 0 below low, n + 1 from high on")
def _bucket(x: Expression, low: Expression, high: Expression, count: Expression) -> Made:
    x, low, high = real(x), real(low), real(high)
    first, last = (float(written(each, Type.REAL, "each end of the buckets")) for each in (low, high))  # type: ignore[arg-type]
    buckets = int(written(count, Type.INTEGER, "the number of buckets"))  # type: ignore[arg-type]
    if not first < last or not 1 <= buckets <= MOST_BUCKETS:
        rule = f"WIDTH_BUCKET needs low < high and 1 to {MOST_BUCKETS:,} buckets"
        raise Unsupported("buckets", rule, fix="write WIDTH_BUCKET(age, 0, 100, 10)")
    found = intervals.ends(x.domain)
    bounds = found and tuple(_bucket_of(float(each), first, last, buckets) for each in found)
    return (x, low, high, count), Domain(Type.INTEGER, bounds=bounds or (0, buckets + 1), nullable=x.domain.nullable)  # type: ignore[arg-type]


def _bucket_of(x: float, low: float, high: float, count: int) -> int:
    """Bound the result by the engine's own steps: each is monotone in x, in doubles too."""
    if x < low:
        return 0
    return count + 1 if x >= high else min(count, int((x - low) / (high - low) * count) + 1)
