"""A condition says what a row that meets it can hold: ranges of columns and of what is made of them, from the plan
alone.

*Claim.* Where a condition holds, every expression that ``limits`` names is there (not NULL) and lies within its limit.
A comparison with a literal holds only where both sides are there. AND holds where all its parts do, so limits meet; OR
holds where one does, so only what every part limits is limited, by the hull. Reals are compared as the doubles that
engines hold. From EXTRACT(year), DATE_TRUNC and casts, which are monotone and NULL only for NULL, a limit is carried to
what they are made of. Nothing is concluded from a condition of another form. ∎

Limits serve to find the groups that rows can be in, and nothing else: what is clamped, and what one unit can change,
comes from the declared domains.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.plan.values import calendar, intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions import call, literal
from sfumato.policy.domains import LARGEST_INTEGER, Domain, Type

_LAST = dt.time(23, 59, 59, 999999)
_EXACT = 2**53
"""Whole numbers smaller than this are doubles of their own."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Limit:
    """A value lies in a limit: from ``low`` to ``high``, each None where unknown; a text is one of ``among``."""

    low: Any = None
    high: Any = None
    among: frozenset[str] | None = None

    def both(self, other: Limit) -> Limit:
        among = other.among if self.among is None else self.among if other.among is None else self.among & other.among
        return Limit(_picked(max, self.low, other.low), _picked(min, self.high, other.high), among)

    def either(self, other: Limit) -> Limit:
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Limit(low, high, None if self.among is None or other.among is None else self.among | other.among)

    def holds(self, value: Any) -> bool:
        """Tell whether a value, numbers as doubles, lies in it."""
        above = self.low is None or self.low <= value
        return above and (self.high is None or value <= self.high) and (self.among is None or value in self.among)


Limits = Mapping[Expression, Limit]


def _picked(pick: Any, first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else pick(first, second)


def limits(conditions: Iterable[Expression]) -> Limits:
    """Find what every row that meets all the conditions keeps to."""
    return _all(map(_met, conditions))


def _all(found: Iterable[Limits]) -> Limits:
    together: dict[Expression, Limit] = {}
    for each in found:
        for operand, limit in each.items():
            together[operand] = together[operand].both(limit) if operand in together else limit
    return together


def _one(first: Limits, second: Limits) -> Limits:
    return {operand: limit.either(second[operand]) for operand, limit in first.items() if operand in second}


def _met(condition: Expression) -> Limits:
    if not isinstance(condition, Call):
        return {}
    if condition.function == "AND":
        return _all(map(_met, condition.arguments))
    if condition.function == "OR":
        return functools.reduce(_one, map(_met, condition.arguments))
    comparison = as_comparison(condition)
    return {} if comparison is None else _carried(comparison.operand, _limit(*comparison))


class LiteralComparison(NamedTuple):
    """A comparison of an expression with literals that are there, the literals on the right."""

    operator: str
    operand: Expression
    values: tuple[Any, ...]


def as_comparison(condition: Call) -> LiteralComparison | None:
    """Return a condition as a comparison with literals; None where it is none."""
    operand, *others = condition.arguments
    name = condition.function
    if isinstance(operand, Literal) and len(others) == 1:
        (operand, others), name = (others[0], [operand]), _TURNED.get(name, "")
    values = tuple(each.value for each in others if isinstance(each, Literal) and each.value is not None)
    if isinstance(operand, Literal) or not values:
        return None
    if name == "IN" or (name in ("BETWEEN", *_TURNED) and len(values) == len(others)):
        return LiteralComparison(name, operand, values)
    return None


def _limit(name: str, operand: Expression, values: tuple[Any, ...]) -> Limit:
    kind = operand.domain.type
    if name == "<>" or kind is Type.BOOLEAN:
        return Limit()
    if kind is Type.TEXT:
        return Limit(among=frozenset(values)) if name in ("=", "IN") else Limit()
    told = [_told(each) for each in values] if kind is Type.REAL else list(values)
    match name:
        case "<":
            return Limit(high=_beside(told[0], -1))
        case ">":
            return Limit(low=_beside(told[0], 1))
        case "<=":
            return Limit(high=told[0])
        case ">=":
            return Limit(low=told[0])
        case "BETWEEN":
            return Limit(told[0], told[1])
    return Limit(min(told), max(told))


def _told(value: Fraction | int) -> Fraction:
    return Fraction(intervals.nearest(value))


def _beside(value: Any, sign: int) -> Any:
    """Find the next value of its type that there can be; None outside the calendar, where nothing is concluded."""
    if isinstance(value, Fraction):
        return Fraction(math.nextafter(float(value), sign * math.inf))
    if isinstance(value, int):
        return value + sign
    try:
        return value + sign * (dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else dt.timedelta(days=1))
    except OverflowError:
        return None


def _carried(operand: Expression, limit: Limit) -> Limits:
    """Carry the limit, and what follows from it, to what the operand is made of."""
    found = {operand: limit}
    while isinstance(operand, Call) and (inner := _inside(operand, limit)) is not None:
        operand, limit = inner
        found[operand] = limit
    return found


def _inside(operand: Call, limit: Limit) -> tuple[Expression, Limit] | None:
    inner = operand.arguments[-1]
    kinds = (inner.domain.type, operand.domain.type)
    if operand.function == "CAST":
        if kinds == (Type.INTEGER, Type.REAL):
            return inner, Limit(_whole(limit.low, math.ceil), _whole(limit.high, math.floor))
        if kinds == (Type.DATE, Type.TIMESTAMP):
            return inner, Limit(_next_midnight(limit.low), None if limit.high is None else limit.high.date())
        if kinds == (Type.TIMESTAMP, Type.DATE):
            return inner, Limit(_at(limit.low, dt.time()), _at(limit.high, _LAST))
    elif operand.function in ("EXTRACT", "DATE_TRUNC"):
        unit = operand.arguments[0]
        assert isinstance(unit, Literal)
        if operand.function == "DATE_TRUNC":
            return inner, Limit(limit.low, _end(str(unit.value), limit.high))
        if unit.value == "year":
            return inner, _years(limit, inner.domain.type)
    return None


def _whole(end: Fraction | None, toward: Any) -> int | None:
    return None if end is None or abs(end) >= _EXACT else toward(end)


def _next_midnight(time: dt.datetime | None) -> dt.date | None:
    return None if time is None else time.date() if time.time() == dt.time() else _beside(time.date(), 1)


def _at(day: dt.date | None, time: dt.time) -> dt.datetime | None:
    return None if day is None else dt.datetime.combine(day, time)


def _end(unit: str, start: Any) -> Any:
    """Find the last moment that is cut to this start, or to an earlier one."""
    following = None if start is None else calendar.shifted(calendar.truncated(unit, start), 1, unit)
    return None if following is None else _beside(following, -1)


def _years(limit: Limit, kind: Type) -> Limit:
    low = dt.date(limit.low, 1, 1) if limit.low is not None and 1 <= limit.low <= 9999 else None
    high = dt.date(limit.high, 12, 31) if limit.high is not None and 1 <= limit.high <= 9999 else None
    return Limit(low, high) if kind is Type.DATE else Limit(_at(low, dt.time()), _at(high, _LAST))


def narrowed(domain: Domain, limit: Limit) -> Domain | None:
    """Cut a domain to the part that lies within a limit; None when nothing does. NULL does not."""
    real = domain.type is Type.REAL
    if domain.values is not None:
        kept = tuple(each for each in domain.values if limit.holds(_told(each) if real else each))  # type: ignore[arg-type]
        return Domain(domain.type, values=kept) if kept else None
    if limit.among is not None:
        return Domain(domain.type, values=tuple(sorted(limit.among))) if limit.among else None
    declared = (intervals.ends(domain) if real else domain.bounds) or (None, None)
    found = Limit(*declared).both(Limit(limit.low, limit.high))
    if found.low is None or found.high is None:
        return replace(domain, nullable=False)
    if found.low > found.high:
        return None
    if real:
        return intervals.real((float(found.low), float(found.high)), nullable=False)
    if domain.type is Type.INTEGER and max(abs(found.low), abs(found.high)) > LARGEST_INTEGER:
        return replace(domain, nullable=False)
    return Domain(domain.type, bounds=(found.low, found.high))


def rebuilt(expression: Expression, found: Limits) -> Expression | None:
    """The same expression with the domain it has where the limits are kept; None when no row keeps them.

    Its rules are the functions' own, so that a value lies in its domain whatever the row holds.
    """
    made = expression
    if isinstance(made, Call):
        arguments = [rebuilt(each, found) for each in made.arguments]
        present = [each for each in arguments if each is not None]
        if len(present) < len(arguments):
            return None
        made = _again(made, present)
    limit = found.get(expression)
    if limit is None or isinstance(made, Literal):
        return made
    domain = narrowed(made.domain, limit)
    return None if domain is None else replace(made, domain=domain)


def _again(made: Call, arguments: list[Expression]) -> Expression:
    if tuple(arguments) == made.arguments:
        return made
    target = [literal(Type.TEXT, made.domain.type.value)] if made.function == "CAST" else []
    found = call(made.function, *arguments, *target)
    same = isinstance(found, Call) and found.function == made.function and found.domain.type is made.domain.type
    return found if same else made
