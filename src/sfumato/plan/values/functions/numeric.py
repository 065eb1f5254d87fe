"""Arithmetic on exact integers while 64 bits surely hold them, and on doubles otherwise; never NaN or infinite.

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
    MAX_COMPUTED_VALUES,
    as_common_type,
    as_real,
    declare_function,
    is_any_nullable,
    is_never_null,
    is_null_literal,
    literal,
    max_letters,
    null_literal,
    require_literal,
    require_number,
    type_mismatch_refusal,
)
from sfumato.policy.domains import LARGEST_INTEGER, Domain, Type

TypedCall = tuple[Sequence[Expression], Domain]
Limits = tuple[Any, Any]
"""The least and the greatest value, each None where unknown."""

MAX_BUCKETS = 10_000
_SMALLEST_LOGARITHM = -347  # of the least positive real


def _monotone_arithmetic_rule(apply: Callable[[Any, Any], Any]) -> Callable[[Expression, Expression], TypedCall]:
    """Return the rule for +, − and *: all are monotone in each argument."""

    def rule(x: Expression, y: Expression) -> TypedCall:
        x, y = require_number(x), require_number(y)
        nullable = is_any_nullable(x, y)
        integer_domain = _integer_domain(apply, x.domain, y.domain, nullable)
        if integer_domain is not None:
            return (x, y), integer_domain
        x, y = as_real(x), as_real(y)
        corner_values = intervals.corner_values(
            apply, intervals.double_range(x.domain), intervals.double_range(y.domain)
        )
        return (x, y), intervals.overflowing_real_domain(corner_values, nullable=nullable)

    return rule


def _integer_domain(apply: Callable[[Any, Any], Any], x: Domain, y: Domain, nullable: bool) -> Domain | None:
    if x.type is not Type.INTEGER or y.type is not Type.INTEGER or x.range is None or y.range is None:
        return None
    corner_values = [apply(a, b) for a, b in product(x.range, y.range)]
    return intervals.integer_domain(min(corner_values), max(corner_values), nullable=nullable)


declare_function("+", "x + y", "the sum; a date plus INTERVAL 'n unit' is a date")(
    _monotone_arithmetic_rule(operator.add)
)
declare_function("-", "x - y", "the difference; of two dates, in days")(_monotone_arithmetic_rule(operator.sub))
declare_function("*", "x * y", "the product")(_monotone_arithmetic_rule(operator.mul))


@declare_function("/", "x / y", "the quotient, a real; NULL where y is 0")
def _divide(x: Expression, y: Expression) -> TypedCall:
    x, y = as_real(x), as_real(y)
    divisor = intervals.double_range(y.domain)
    if divisor is None or divisor[0] <= 0 <= divisor[1]:
        return (x, y), intervals.real_domain(None, nullable=True)
    corner_values = intervals.corner_values(operator.truediv, intervals.double_range(x.domain), divisor)
    return (x, y), intervals.overflowing_real_domain(corner_values, nullable=is_any_nullable(x, y))


@declare_function("//", "x // y", "the quotient of two whole numbers, rounded toward 0; NULL where y is 0")
def _divide_integers(x: Expression, y: Expression) -> TypedCall:
    for operand in (x, y):
        if operand.domain.type is not Type.INTEGER and not is_null_literal(operand):
            raise Unsupported("type-mismatch", "// can only be used with whole numbers", fix="write FLOOR(x / y)")
    x, y = (null_literal(Type.INTEGER) if is_null_literal(operand) else operand for operand in (x, y))
    numerator_range: Any = x.domain.range
    divisor_range: Any = y.domain.range
    nullable = is_any_nullable(x, y) or divisor_range is None or divisor_range[0] <= 0 <= divisor_range[1]
    if numerator_range is None:  # the least number of 64 bits has no opposite
        return (x, y), Domain(Type.INTEGER, nullable=nullable or divisor_range[0] <= -1 <= divisor_range[1])
    ends = _quotient_range(numerator_range, divisor_range or (-LARGEST_INTEGER, LARGEST_INTEGER))
    return (x, y), Domain(Type.INTEGER, bounds=ends, nullable=nullable)


def _quotient_range(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Return the range of quotients toward 0: monotone in each argument on either side of 0, and 0 for a numerator of
    0.
    """
    divisors = {divisor for divisor in (*y, -1, 1) if y[0] <= divisor <= y[1] and divisor != 0}
    corner_quotients = [divide_toward_zero(numerator, divisor) for numerator in x for divisor in divisors]
    includes_zero = x[0] < 0 < x[1] or y[0] <= 0 <= y[1] or not corner_quotients
    quotients = [*corner_quotients, 0] if includes_zero else corner_quotients
    return min(quotients), max(quotients)


def divide_toward_zero(x: int, y: int) -> int:
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


@declare_function("%", "x % y", "the remainder of x / y; for reals x - y * trunc(x / y), rounded; NULL where y is 0")
def _remainder(x: Expression, y: Expression) -> TypedCall:
    x, y = require_number(x), require_number(y)
    is_integer = all(operand.domain.type is Type.INTEGER and operand.domain.range is not None for operand in (x, y))
    if not is_integer:
        x, y = as_real(x), as_real(y)
    numerator_range, divisor_range = intervals.double_range(x.domain), intervals.double_range(y.domain)
    nullable = is_any_nullable(x, y) or divisor_range is None or divisor_range[0] <= 0 <= divisor_range[1]
    if is_integer:
        low, high = _remainder_range(x.domain.range, y.domain.range, 1)
        return (x, y), Domain(Type.INTEGER, bounds=(low, high), nullable=nullable)
    remainder_range = (
        None
        if numerator_range is None or divisor_range is None
        else _rounded_remainder_range(numerator_range, divisor_range)
    )
    return (x, y), intervals.real_domain(remainder_range, nullable=nullable)


def _rounded_remainder_range(x: intervals.Ends, y: intervals.Ends) -> list[float]:
    """Bound x − y·trunc(x/y) in doubles: each of the three roundings moves it by at most 2^-52 of x.

    Where x is surely smaller than y, the quotient is below 1 and nothing is rounded.
    """
    low, high = _remainder_range(x, y, 0)
    largest = max(map(abs, x))
    slack = largest / 2**49 if largest >= min(map(abs, y)) or y[0] <= 0 <= y[1] else Fraction(0)
    return [float(low - slack), float(high + slack)]


def _remainder_range(x: Any, y: Any, below: int) -> tuple[Any, Any]:
    """Return the range of a remainder, which is no larger than x, smaller than y, and has the sign of x."""
    largest = max(0, max(map(abs, y)) - below)
    return -min(largest, max(0, -x[0])), min(largest, max(0, x[1]))


@declare_function("NEGATE", "-x", "the negative of a number")
def _negate(x: Expression) -> Expression | TypedCall:
    x = require_number(x)
    if isinstance(x, Literal) and isinstance(x.value, int | Fraction):
        return literal(x.domain.type, -x.value)
    return _sign_change_domain(x, lambda value: -value)


@declare_function("ABS", "ABS(x)", "the absolute value")
def _abs(x: Expression) -> TypedCall:
    return _sign_change_domain(require_number(x), abs)


def _sign_change_domain(x: Expression, apply: Callable[[Any], Any]) -> TypedCall:
    """Return the domain of −x or |x|: exact in either type, on the same grid; an undeclared integer might not fit 64
    bits.
    """
    if x.domain.type is Type.INTEGER and x.domain.range is None:
        x = as_real(x)
    domain = x.domain
    if domain.values is not None and len(domain.values) <= MAX_COMPUTED_VALUES:
        values = tuple(dict.fromkeys(map(apply, domain.values)))
        return (x,), Domain(domain.type, values=values, grid=domain.grid, nullable=domain.nullable)
    bounds = None
    if domain.range is not None:
        mapped_ends = [apply(end) for end in domain.range]
        includes_zero = domain.range[0] < 0 < domain.range[1]  # type: ignore[operator]
        bounds = (min([*mapped_ends, 0] if includes_zero else mapped_ends), max(mapped_ends))
    return (x,), Domain(domain.type, bounds=bounds, grid=domain.grid, nullable=domain.nullable)


@declare_function("SIGN", "SIGN(x)", "the sign: -1, 0 or 1")
def _sign(x: Expression) -> TypedCall:
    x = require_number(x)
    return (x,), Domain(Type.INTEGER, values=(-1, 0, 1), nullable=x.domain.nullable)


def _rounding_rule(apply: Callable[[float], float]) -> Callable[[Expression], Expression | TypedCall]:
    def rule(x: Expression) -> Expression | TypedCall:
        x = require_number(x)
        return x if x.domain.type is Type.INTEGER else _monotone_call(x, apply)

    return rule


def _monotone_call(x: Expression, apply: Callable[[float], float]) -> TypedCall:
    ends = intervals.double_range(x.domain)
    return (x,), intervals.real_domain(ends and [apply(float(end)) for end in ends], nullable=x.domain.nullable)


declare_function("FLOOR", "FLOOR(x)", "the largest whole number ≤ x")(_rounding_rule(lambda x: float(math.floor(x))))
declare_function("CEIL", "CEIL(x)", "the smallest whole number ≥ x")(_rounding_rule(lambda x: float(math.ceil(x))))
declare_function("TRUNC", "TRUNC(x)", "x without its decimal digits")(_rounding_rule(lambda x: float(math.trunc(x))))


@declare_function("ROUND", "ROUND(x [, digits])", "rounded to this many decimal digits, halves away from 0")
def _round(x: Expression, digits: Expression | None = None) -> Expression | TypedCall:
    x = require_number(x)
    digits_literal = digits or literal(Type.INTEGER, 0)
    count = int(require_literal(digits_literal, Type.INTEGER, "the number of digits"))  # type: ignore[arg-type]
    if not -15 <= count <= 15:
        raise Unsupported("digits", "the second argument of ROUND must be from -15 to 15", fix="write ROUND(x, 2)")
    if x.domain.type is Type.INTEGER and count >= 0:
        return x
    if x.domain.type is Type.INTEGER and x.domain.range is not None:
        low, high = (_nearest_multiple(int(end), 10**-count) for end in x.domain.range)  # type: ignore[arg-type]
        integer_domain = intervals.integer_domain(low, high, nullable=x.domain.nullable)
        if integer_domain is not None:
            return (x, digits_literal), integer_domain
    x = as_real(x)
    ends = intervals.double_range(x.domain)
    rounded_ends = ends and [_round_to_digits(float(end), count) for end in ends]
    return (x, digits_literal), intervals.overflowing_real_domain(rounded_ends, nullable=x.domain.nullable)


def _nearest_multiple(value: int, step: int) -> int:
    size = (abs(value) + step // 2) // step * step
    return size if value >= 0 else -size


def _round_to_digits(value: float, digits: int) -> float:
    """Round as the engine does: scale, round halves away from 0, scale back; each step is monotone."""
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    if not math.isfinite(scaled):
        return value
    nearest_integer = float(_round_half_away(scaled))
    return nearest_integer / power if digits >= 0 else nearest_integer * power


def _round_half_away(value: float) -> int:
    size = math.floor(abs(Fraction(value)) + Fraction(1, 2))
    return size if value >= 0 else -size


def _transcendental_cost(_: Call) -> int:
    return 40


@declare_function("SQRT", "SQRT(x)", "the square root; NULL below 0")
def _sqrt(x: Expression) -> TypedCall:
    x = as_real(x)
    ends = intervals.double_range(x.domain)
    nullable = x.domain.nullable or ends is None or ends[0] < 0
    roots = None if ends is None or ends[1] < 0 else [math.sqrt(max(0.0, float(end))) for end in ends]
    return (x,), intervals.real_domain(roots, nullable=nullable)


@declare_function("LN", "LN(x)", "the natural logarithm; NULL at 0 and below", row_cost=_transcendental_cost)
def _ln(x: Expression) -> TypedCall:
    x = as_real(x)
    ends = intervals.double_range(x.domain)
    if ends is None or ends[1] <= 0:
        return (x,), intervals.real_domain(None, nullable=True)
    low = math.log(ends[0]) if ends[0] > 0 else _SMALLEST_LOGARITHM
    logarithms = intervals.widen_range([low, math.log(ends[1])], exact=(0, _SMALLEST_LOGARITHM))
    return (x,), intervals.real_domain(logarithms, nullable=x.domain.nullable or ends[0] <= 0)


@declare_function("EXP", "EXP(x)", "e to the power x; NULL above 2^500, 0 below 2^-500", row_cost=_transcendental_cost)
def _exp(x: Expression) -> TypedCall:
    x = as_real(x)
    corner_values = intervals.corner_values(
        lambda exponent, _: math.exp(exponent), intervals.double_range(x.domain), (Fraction(0), Fraction(0))
    )
    return (x,), intervals.overflowing_real_domain(
        intervals.widen_range(corner_values, exact=(0, 1)), nullable=x.domain.nullable
    )


@declare_function(
    "POW", "POW(x, y), x ** y", "x to the power y; NULL where it is undefined", row_cost=_transcendental_cost
)
def _pow(x: Expression, y: Expression) -> TypedCall:
    x, y = as_real(x), as_real(y)
    base, power = intervals.double_range(x.domain), intervals.double_range(y.domain)
    power_range = intervals.widen_range(_corner_powers(base, power), exact=_exact_powers(base, power))
    return (x, y), intervals.overflowing_real_domain(power_range, nullable=is_any_nullable(x, y))


def _corner_powers(x: intervals.Ends | None, y: intervals.Ends | None) -> list[float] | None:
    """Return x^y at the corners: it is monotone in each argument where x > 0, and for one integer y on each
    side of 0.
    """
    if x is None or y is None or (x[0] <= 0 <= x[1] and y[0] < 0):
        return None
    if x[0] < 0 and not (y[0] == y[1] and y[0].denominator == 1):
        return None
    corner_values = intervals.corner_values(math.pow, x, y)
    includes_zero = x[0] < 0 < x[1] and y[0] > 0
    return [*corner_values, 0.0] if corner_values is not None and includes_zero else corner_values


def _exact_powers(x: intervals.Ends | None, y: intervals.Ends | None) -> set[Fraction | int]:
    """Return the corners that need no rounding: 0, 1 to any power, and small integer powers."""
    if x is None or y is None:
        return set()
    small_powers = {end for end in y if end.denominator == 1 and 0 <= end <= 64}
    ones: set[Fraction | int] = {1} if 1 in x else set()
    return ones | {0} | {end**power.numerator for end in x for power in small_powers}


def _extreme_rule(least: bool) -> Callable[..., TypedCall]:
    def rule(x: Expression, *others: Expression) -> TypedCall:
        converted = as_common_type((x, *others))
        kind = converted[0].domain.type
        if kind is Type.BOOLEAN:
            raise type_mismatch_refusal(converted[0], Type.REAL)
        nullable = all(argument.domain.nullable for argument in converted)
        low, high = _extreme_limits(least, converted)
        fits = low is not None and high is not None and _fits_domain(kind, low, high)
        bounds = (low, high) if fits else None
        return converted, Domain(
            kind, bounds=bounds, nullable=nullable, max_length=max_letters(kind, [x.domain for x in converted])
        )

    return rule


def _fits_domain(sql_type: Type, low: Any, high: Any) -> bool:
    return sql_type is not Type.TEXT and (sql_type is not Type.INTEGER or max(abs(low), abs(high)) <= LARGEST_INTEGER)


def _extreme_limits(least: bool, arguments: Sequence[Expression]) -> Limits:
    """Return the limits of LEAST or GREATEST. NULL arguments are ignored, so only an argument that is never NULL bounds
    the result alone.
    """
    argument_limits = [derived_limits(argument) for argument in arguments]
    non_null_limits = [
        limit for limit, argument in zip(argument_limits, arguments, strict=True) if is_never_null(argument)
    ]
    lows, highs = [limit[0] for limit in argument_limits], [limit[1] for limit in argument_limits]
    if least:
        sure_highs = [limit[1] for limit in non_null_limits if limit[1] is not None]
        return _pick_unless_any_is_none(min, lows), min(sure_highs) if sure_highs else _pick_unless_any_is_none(
            max, highs
        )
    sure_lows = [limit[0] for limit in non_null_limits if limit[0] is not None]
    return max(sure_lows) if sure_lows else _pick_unless_any_is_none(min, lows), _pick_unless_any_is_none(max, highs)


def _pick_unless_any_is_none(pick: Callable[[list[Any]], Any], ends: list[Any]) -> Any:
    return None if any(end is None for end in ends) else pick(ends)


def derived_limits(x: Expression) -> Limits:
    """Return what is known of either end: GREATEST(x, 0) has a least value though x has no range."""
    if x.domain.range is not None:
        return x.domain.range
    if not isinstance(x, Call):
        return None, None
    if x.function in ("LEAST", "GREATEST"):
        return _extreme_limits(x.function == "LEAST", x.arguments)
    if x.function == "CAST" and x.domain.type is Type.REAL and x.arguments[0].domain.type is Type.INTEGER:
        low, high = (
            None if end is None else Fraction(intervals.nearest_double(end)) for end in derived_limits(x.arguments[0])
        )
        return low, high
    return None, None


declare_function("LEAST", "LEAST(x, y, …)", "the smallest of those that are not NULL")(_extreme_rule(least=True))
declare_function("GREATEST", "GREATEST(x, y, …)", "the greatest of those that are not NULL")(_extreme_rule(least=False))


@declare_function(
    "WIDTH_BUCKET",
    "WIDTH_BUCKET(x, low, high, n)",
    "the number of the bucket among n equal ones: 0 below low, n + 1 from high on",
)
def _width_bucket(x: Expression, low: Expression, high: Expression, count: Expression) -> TypedCall:
    x, low, high = as_real(x), as_real(low), as_real(high)
    first, last = (float(require_literal(end, Type.REAL, "each end of the buckets")) for end in (low, high))  # type: ignore[arg-type]
    buckets = int(require_literal(count, Type.INTEGER, "the number of buckets"))  # type: ignore[arg-type]
    if not first < last or not 1 <= buckets <= MAX_BUCKETS:
        rule = f"WIDTH_BUCKET needs low < high and 1 to {MAX_BUCKETS:,} buckets"
        raise Unsupported("buckets", rule, fix="write WIDTH_BUCKET(age, 0, 100, 10)")
    ends = intervals.double_range(x.domain)
    bounds = ends and tuple(_bucket_index(float(end), first, last, buckets) for end in ends)
    return (x, low, high, count), Domain(Type.INTEGER, bounds=bounds or (0, buckets + 1), nullable=x.domain.nullable)  # type: ignore[arg-type]


def _bucket_index(x: float, low: float, high: float, count: int) -> int:
    """Return the bucket as the engine computes it: each step is monotone in x, in doubles too."""
    if x < low:
        return 0
    return count + 1 if x >= high else min(count, int((x - low) / (high - low) * count) + 1)
