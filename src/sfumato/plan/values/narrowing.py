"""Value ranges implied by a condition: limits of columns, and of expressions over them, in the rows that meet it.

*Claim.* Where a condition holds, every expression that ``limits`` names is not NULL and lies within its limit.
A comparison with a literal holds only where neither side is NULL. AND holds where all its parts do, so limits meet; OR
holds where one does, so only what every part limits is limited, by the hull. Reals are compared as the doubles that
engines hold. From EXTRACT(year), DATE_TRUNC and casts, which are monotone and NULL only for NULL, a limit is carried to
their argument. Nothing is concluded from a condition of another form. ∎

Limits only serve to enumerate the groups that rows can be in, to find conditions that exclude each other, and to narrow
the ranges of sums and means: what one unit can change follows from what engines enforce.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.plan.values import calendar, intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions import call, literal
from sfumato.policy.domains import LARGEST_INTEGER, Domain, Type
from sfumato.quick_dataclass import dataclass

_LAST_TIME = dt.time(23, 59, 59, 999999)
_EXACT_DOUBLES = 2**53
"""Integers below this are exact doubles."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Limit:
    """The range of a value from ``low`` to ``high``, each None where unknown; a text is one of ``among``."""

    low: Any = None
    high: Any = None
    among: frozenset[str] | None = None

    def intersect(self, other: Limit) -> Limit:
        among = other.among if self.among is None else self.among if other.among is None else self.among & other.among
        return Limit(
            _pick_or_the_other(max, self.low, other.low), _pick_or_the_other(min, self.high, other.high), among
        )

    def hull(self, other: Limit) -> Limit:
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Limit(low, high, None if self.among is None or other.among is None else self.among | other.among)

    @property
    def is_empty(self) -> bool:
        """Whether no value lies in the limit."""
        return self.among == frozenset() or (self.low is not None and self.high is not None and self.low > self.high)

    def contains(self, value: Any) -> bool:
        """Return whether a value, numbers as doubles, lies in the limit."""
        is_above_low = self.low is None or self.low <= value
        return (
            is_above_low and (self.high is None or value <= self.high) and (self.among is None or value in self.among)
        )


LimitsByExpression = Mapping[Expression, Limit]


def _pick_or_the_other(pick: Any, first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else pick(first, second)


def limits_by_expression(conditions: Iterable[Expression]) -> LimitsByExpression:
    """Return the limits of every row that meets all the conditions."""
    return _intersect_limits(map(_condition_limits, conditions))


def can_hold_together(first: LimitsByExpression, second: LimitsByExpression) -> bool:
    """Return whether one row may be within both maps of limits: False if no value of some expression is."""
    return not any(limit.intersect(second[operand]).is_empty for operand, limit in first.items() if operand in second)


def _intersect_limits(limit_maps: Iterable[LimitsByExpression]) -> LimitsByExpression:
    intersection: dict[Expression, Limit] = {}
    for limit_map in limit_maps:
        for operand, limit in limit_map.items():
            intersection[operand] = intersection[operand].intersect(limit) if operand in intersection else limit
    return intersection


def _unite_limits(first: LimitsByExpression, second: LimitsByExpression) -> LimitsByExpression:
    return {operand: limit.hull(second[operand]) for operand, limit in first.items() if operand in second}


def _condition_limits(condition: Expression) -> LimitsByExpression:
    if not isinstance(condition, Call):
        return {}
    if condition.function == "AND":
        return _intersect_limits(map(_condition_limits, condition.arguments))
    if condition.function == "OR":
        return functools.reduce(_unite_limits, map(_condition_limits, condition.arguments))
    comparison = as_comparison(condition)
    return {} if comparison is None else _propagate_limit(comparison.operand, _comparison_limit(*comparison))


class LiteralComparison(NamedTuple):
    """A comparison of an expression with non-NULL literals, the literals on the right."""

    operator: str
    operand: Expression
    values: tuple[Any, ...]


def as_comparison(condition: Call) -> LiteralComparison | None:
    """Return a condition as a comparison with literals; None if it is not one."""
    operand, *comparands = condition.arguments
    operator = condition.function
    if isinstance(operand, Literal) and len(comparands) == 1:
        (operand, comparands), operator = (comparands[0], [operand]), _MIRRORED.get(operator, "")
    values = tuple(
        comparand.value for comparand in comparands if isinstance(comparand, Literal) and comparand.value is not None
    )
    if isinstance(operand, Literal) or not values:
        return None
    if operator == "IN" or (operator in ("BETWEEN", *_MIRRORED) and len(values) == len(comparands)):
        return LiteralComparison(operator, operand, values)
    return None


def _comparison_limit(operator: str, operand: Expression, values: tuple[Any, ...]) -> Limit:
    kind = operand.domain.type
    if operator == "<>" or kind is Type.BOOLEAN:
        return Limit()
    if kind is Type.TEXT:
        return Limit(among=frozenset(values)) if operator in ("=", "IN") else Limit()
    comparands = [_as_double(value) for value in values] if kind is Type.REAL else list(values)
    match operator:
        case "<":
            return Limit(high=_next_value(comparands[0], -1))
        case ">":
            return Limit(low=_next_value(comparands[0], 1))
        case "<=":
            return Limit(high=comparands[0])
        case ">=":
            return Limit(low=comparands[0])
        case "BETWEEN":
            return Limit(comparands[0], comparands[1])
    return Limit(min(comparands), max(comparands))


def _as_double(value: Fraction | int) -> Fraction:
    return Fraction(intervals.nearest_double(value))


def _next_value(value: Any, sign: int) -> Any:
    """Return the next possible value of its type; None outside the calendar, where nothing is concluded."""
    if isinstance(value, Fraction):
        return Fraction(math.nextafter(float(value), sign * math.inf))
    if isinstance(value, int):
        return value + sign
    try:
        return value + sign * (dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else dt.timedelta(days=1))
    except OverflowError:
        return None


def _propagate_limit(operand: Expression, limit: Limit) -> LimitsByExpression:
    """Return the limit of an operand, and the limits that it implies for the arguments of monotone functions."""
    implied_limits = {operand: limit}
    while isinstance(operand, Call) and (inner := _argument_limit(operand, limit)) is not None:
        operand, limit = inner
        implied_limits[operand] = limit
    return implied_limits


def _argument_limit(operand: Call, limit: Limit) -> tuple[Expression, Limit] | None:
    argument = operand.arguments[-1]
    cast_types = (argument.domain.type, operand.domain.type)
    if operand.function == "CAST":
        if cast_types == (Type.INTEGER, Type.REAL):
            return argument, Limit(_rounded_end(limit.low, math.ceil), _rounded_end(limit.high, math.floor))
        if cast_types == (Type.DATE, Type.TIMESTAMP):
            return argument, Limit(_next_midnight(limit.low), None if limit.high is None else limit.high.date())
        if cast_types == (Type.TIMESTAMP, Type.DATE):
            return argument, Limit(_combine_if_day(limit.low, dt.time()), _combine_if_day(limit.high, _LAST_TIME))
    elif operand.function in ("EXTRACT", "DATE_TRUNC"):
        unit = operand.arguments[0]
        assert isinstance(unit, Literal)
        if operand.function == "DATE_TRUNC":
            return argument, Limit(limit.low, _last_truncated_to(str(unit.value), limit.high))
        if unit.value == "year":
            return argument, _year_limit(limit, argument.domain.type)
    return None


def _rounded_end(end: Fraction | None, toward: Any) -> int | None:
    return None if end is None or abs(end) >= _EXACT_DOUBLES else toward(end)


def _next_midnight(time: dt.datetime | None) -> dt.date | None:
    return None if time is None else time.date() if time.time() == dt.time() else _next_value(time.date(), 1)


def _combine_if_day(day: dt.date | None, time: dt.time) -> dt.datetime | None:
    return None if day is None else dt.datetime.combine(day, time)


def _last_truncated_to(unit: str, start: Any) -> Any:
    """Return the last moment that is truncated to this start, or to an earlier one."""
    next_start = None if start is None else calendar.shift(calendar.truncate(unit, start), 1, unit)
    return None if next_start is None else _next_value(next_start, -1)


def _year_limit(limit: Limit, sql_type: Type) -> Limit:
    low = dt.date(limit.low, 1, 1) if limit.low is not None and 1 <= limit.low <= 9999 else None
    high = dt.date(limit.high, 12, 31) if limit.high is not None and 1 <= limit.high <= 9999 else None
    return (
        Limit(low, high)
        if sql_type is Type.DATE
        else Limit(_combine_if_day(low, dt.time()), _combine_if_day(high, _LAST_TIME))
    )


def narrow_domain(domain: Domain, limit: Limit) -> Domain | None:
    """Narrow a domain to the part within a limit; None when it is empty. NULL is not in it."""
    is_real = domain.type is Type.REAL
    if domain.values is not None:
        doubles: Any = map(_as_double, domain.values) if is_real else domain.values  # type: ignore[arg-type]
        pairs = zip(domain.values, doubles, strict=True)
        values_within = tuple(value for value, double in pairs if limit.contains(double))
        return Domain(domain.type, values=values_within) if values_within else None
    if limit.among is not None:
        return Domain(domain.type, values=tuple(sorted(limit.among))) if limit.among else None
    declared = (intervals.double_range(domain) if is_real else domain.bounds) or (None, None)
    bounds = Limit(*declared).intersect(Limit(limit.low, limit.high))
    if bounds.low is None or bounds.high is None:
        return replace(domain, nullable=False)
    if bounds.low > bounds.high:
        return None
    if is_real:
        return intervals.real_domain((float(bounds.low), float(bounds.high)), nullable=False)
    if domain.type is Type.INTEGER and max(abs(bounds.low), abs(bounds.high)) > LARGEST_INTEGER:
        return replace(domain, nullable=False)
    return Domain(domain.type, bounds=(bounds.low, bounds.high))


def narrow_expression(expression: Expression, limits: LimitsByExpression) -> Expression | None:
    """Return the expression with the domain it has where the limits hold; None when no row meets them.

    Its rules are the functions' own, so that a value lies in its domain whatever the row holds.
    """
    narrowed_expression = expression
    if isinstance(narrowed_expression, Call):
        arguments = [narrow_expression(argument, limits) for argument in narrowed_expression.arguments]
        possible_arguments = [argument for argument in arguments if argument is not None]
        if len(possible_arguments) < len(arguments):
            return None
        narrowed_expression = _rebuilt_or_original_call(narrowed_expression, possible_arguments)
    limit = limits.get(expression)
    if limit is None or isinstance(narrowed_expression, Literal):
        return narrowed_expression
    domain = narrow_domain(narrowed_expression.domain, limit)
    return None if domain is None else replace(narrowed_expression, domain=domain)


def _rebuilt_or_original_call(original: Call, arguments: list[Expression]) -> Expression:
    if tuple(arguments) == original.arguments:
        return original
    cast_target = [literal(Type.TEXT, original.domain.type.value)] if original.function == "CAST" else []
    rebuilt_call = call(original.function, *arguments, *cast_target)
    is_same_function = (
        isinstance(rebuilt_call, Call)
        and rebuilt_call.function == original.function
        and rebuilt_call.domain.type is original.domain.type
    )
    return rebuilt_call if is_same_function else original
