"""Put released numbers in the place of ``ReleasedValue`` in what has been priced.

*Claim.* What is priced with a ``ReleasedValue`` of a domain has the same sensitivity and the same noise with any
literal of that domain in its place. Bounds, ranges and groups are derived from domains, and every expression carries
its own, which the literal leaves as it is; conditions narrow ranges and groups only by what they compare with literals
(``narrowing``), and were read before there was one. What engines clamp rows to was written into the plan then. ∎
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Literal, ReleasedValue
from sfumato.policy import Domain, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER


def require_no_released_values(query: Query) -> None:
    """Refuse a question whose rows are compared with released numbers, where only one release can be made of it."""
    if query.value_queries:
        raise Unsupported(
            "subquery-value",
            "this request cannot compare rows with the result of a subquery; only a SQL question asked on its own can",
            fix=f"run this first, and write its result in place of the subquery: {query.value_queries[0].text}",
        )


_LARGEST_REAL, _SMALLEST_REAL = Fraction(2) ** 500, Fraction(1, 2**500)


def with_released_values(part: Any, values: Sequence[Value | None]) -> Any:
    """Return a priced release, a plan or any part of one with these values as literals; None is NULL."""
    if isinstance(part, Column) and isinstance(part.reference, ReleasedValue):
        return Literal(values[part.reference.index], part.domain)
    if isinstance(part, tuple):
        members = [with_released_values(member, values) for member in part]
        if all(new is old for new, old in zip(members, part, strict=True)):
            return part
        return type(part)(*members) if hasattr(part, "_fields") else tuple(members)
    if isinstance(part, Mapping):
        changed_members = {name: with_released_values(member, values) for name, member in part.items()}
        return changed_members if any(changed_members[name] is not part[name] for name in part) else part
    if not is_dataclass(part) or isinstance(part, (type, Domain)):
        return part
    changed = {}
    for attribute in fields(part):
        old = getattr(part, attribute.name)
        new = with_released_values(old, values) if attribute.init else old
        if new is not old:
            changed[attribute.name] = new
    return replace(part, **changed) if changed else part


def value_in_domain(value: Any, domain: Domain) -> Value | None:
    """Return a released number as a value of its domain: clamped to its range, and to what literals may be."""
    if value is None or not domain.type.numeric:
        return None if value is None else _clamp_to_declared_range(value, domain)
    number = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)  # short, and the same double
    low, high = domain.range or (None, None)
    number = number if low is None else max(number, Fraction(low))  # type: ignore[arg-type]
    number = number if high is None else min(number, Fraction(high))  # type: ignore[arg-type]
    if domain.type is Type.INTEGER:
        return max(-LARGEST_INTEGER, min(LARGEST_INTEGER, round(number)))
    number = max(-_LARGEST_REAL, min(_LARGEST_REAL, number))
    return number if abs(number) >= _SMALLEST_REAL else Fraction(0)


def _clamp_to_declared_range(value: Value, domain: Domain) -> Value:
    """Return a date within the declared range; texts and truth values are selected from declared ones."""
    if not isinstance(value, dt.date) or domain.range is None:
        return value
    low, high = domain.range
    return max(low, min(high, value))


def extreme_values(domain: Domain) -> tuple[Value | None, ...]:
    """Return values at the ends of a domain, or of what literals may be, and NULL: all others are between them."""
    ends: tuple[Any, ...]
    if domain.range is not None:
        ends = domain.range
    elif domain.type.numeric:
        largest = LARGEST_INTEGER if domain.type is Type.INTEGER else _LARGEST_REAL
        ends = -largest, largest
    else:
        ends = (domain.values or ())[:1]
    return (*ends, None)


def extreme_value_combinations(domains: Sequence[Domain]) -> list[tuple[Value | None, ...]]:
    """Return combinations of extreme values: all at one end, all but one at one end, and NULL for all."""
    ends = [extreme_values(domain)[:-1] or (None,) for domain in domains]
    lows, highs = tuple(values[0] for values in ends), tuple(values[-1] for values in ends)
    mixed = [
        (*most[:index], least[index], *most[index + 1 :])
        for most, least in ((lows, highs), (highs, lows))
        for index in range(len(ends))
    ]
    return [*dict.fromkeys((lows, highs, *mixed, (None,) * len(ends)))]
