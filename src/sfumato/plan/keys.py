"""The groups of a question, from what is declared: every key is there whatever the data say.

A key's values are found by evaluating its expression on every combination of the declared values of the columns it
reads, when there are few; else from the range rule. Keys that read the same columns are found together, so that no
impossible combination is printed.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan import calendar, costs
from sfumato.plan.expressions import Call, Column, Expression, Literal, Reference, columns, walk
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Domain, Type, Value

MOST_GROUPS = 200_000
MOST_COMBINATIONS = 200_000
MOST_STEPS = 50_000_000
"""Of finding the keys of one question, which is free: about 0.15 s."""
MOST_STARTS = 10_000
"""The starts of months, weeks, … in a declared range are listed up to this many."""


@dataclass(frozen=True)
class Span:
    """So many whole numbers, days or hours one after another: told by the first, not written out."""

    first: int | dt.date | dt.datetime
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Value]:
        if isinstance(self.first, int):
            return iter(range(self.first, self.first + self.count))
        hourly = isinstance(self.first, dt.datetime)
        step = dt.timedelta(hours=1) if hourly else dt.timedelta(days=1)
        return (self.first + each * step for each in range(self.count))


Choices = tuple[Value, ...] | Span
"""What a column may hold; it may always be missing too."""


@dataclass(frozen=True)
class World:
    """Every combination of a few columns' declared values and NULL, and the expressions to evaluate on it."""

    choices: tuple[tuple[Reference, Domain, Choices], ...]
    expressions: tuple[Expression, ...]

    @property
    def combinations(self) -> int:
        return math.prod(len(each) + 1 for _, _, each in self.choices)


Evaluate = Callable[[World], Sequence[GroupKey]]
"""The distinct results on a world: public values only, no private row."""


def groups(keys: tuple[Expression, ...], evaluate: Evaluate) -> tuple[GroupKey, ...]:
    """Every key of the answer, in a fixed order; one empty key when nothing is grouped."""
    found: list[tuple[tuple[int, ...], list[GroupKey]]] = []
    for members in _together(keys):
        part = tuple(keys[index] for index in members)
        found.append((members, _values(part, evaluate)))
    if math.prod(len(values) for _, values in found) > MOST_GROUPS:
        raise Unsupported(
            "too-many-groups",
            f"an answer has at most {MOST_GROUPS:,} groups",
            fix="group by fewer columns or coarser values",
        )
    if len(found) == 1:  # keys found together are in their order
        return tuple(found[0][1])
    return tuple(
        _arranged(found, combination, len(keys)) for combination in itertools.product(*(values for _, values in found))
    )


def _arranged(
    found: list[tuple[tuple[int, ...], list[GroupKey]]], combination: tuple[GroupKey, ...], width: int
) -> GroupKey:
    key: list[Value | None] = [None] * width
    for (members, _), values in zip(found, combination, strict=True):
        for index, value in zip(members, values, strict=True):
            key[index] = value
    return tuple(key)


def _together(keys: tuple[Expression, ...]) -> list[tuple[int, ...]]:
    """Indices of keys, those that share columns (directly or through others) side by side."""
    parts: list[tuple[set[Reference], list[int]]] = []
    for index, key in enumerate(keys):
        names, members = set(columns(key)), [index]
        for other in [part for part in parts if part[0] & names]:
            parts.remove(other)
            names |= other[0]
            members = other[1] + members
        parts.append((names, members))
    return sorted(tuple(sorted(members)) for _, members in parts)


def _values(expressions: tuple[Expression, ...], evaluate: Evaluate) -> list[GroupKey]:
    if len(expressions) == 1 and isinstance(expressions[0], Column):
        return [(value,) for value in _printed(expressions[0])]
    world = _world(expressions)
    if world is None or world.combinations > MOST_COMBINATIONS:
        return [tuple(key) for key in itertools.product(*(_printed(each) for each in expressions))]
    if world.combinations * costs.steps(expressions) > MOST_STEPS:
        raise Unsupported(
            "keys-too-costly",
            f"finding all groups may cost at most {MOST_STEPS:,} steps",
            fix="group by a simpler expression, or by columns with fewer declared values",
        )
    found = evaluate(world)
    plain = [key for key in found if None not in key]
    if not any(made.domain.nullable for made in expressions):
        return sorted(plain)
    kept = [
        key
        for key in found
        if all(value is not None or made.domain.nullable for value, made in zip(key, expressions, strict=True))
    ]
    return sorted(kept, key=_sorting)


def _world(expressions: tuple[Expression, ...]) -> World | None:
    """Every combination of what the columns read may hold; None when that is not declared."""
    read = {reference: domain for each in expressions for reference, domain in columns(each).items()}
    choices = []
    for reference, domain in read.items():
        found = _choices(domain, reference, expressions)
        if found is None:
            return None
        choices.append((reference, domain, found))
    return World(tuple(choices), expressions)


def _printed(expression: Expression) -> tuple[Value | None, ...]:
    """A key's values from its own domain."""
    found = _starts(expression) or _listed(expression.domain)
    if found is None:
        raise Unsupported(
            "unknown-keys",
            f"the values to group by are not declared ({', '.join(map(str, columns(expression)))})",
            fix="declare values (or narrow bounds) for the column in the policy, or group by a CASE, a WIDTH_BUCKET or "
            "CAST(FLOOR(…) AS INTEGER) of it",
        )
    return (*found, None) if expression.domain.nullable else tuple(found)


def _starts(expression: Expression) -> tuple[Value, ...] | None:
    """Every start of a month, a week, … in the range of what is cut to it."""
    if not isinstance(expression, Call) or expression.function != "DATE_TRUNC" or expression.domain.bounds is None:
        return None
    unit = expression.arguments[0]
    assert isinstance(unit, Literal)
    found: list[Any] = [expression.domain.bounds[0]]
    while found[-1] < expression.domain.bounds[1]:
        if len(found) >= MOST_STARTS:
            return None
        found.append(calendar.shifted(found[-1], 1, str(unit.value)))
    return tuple(found)


def _choices(domain: Domain, reference: Reference, expressions: tuple[Expression, ...]) -> Choices | None:
    hourly = domain.type is Type.TIMESTAMP and domain.bounds is not None and _hourly(reference, expressions)
    return _hours(domain) if hourly else _listed(domain)


def _listed(domain: Domain) -> Choices | None:
    if domain.values is not None:
        return domain.values
    if domain.type is Type.BOOLEAN:
        return (False, True)
    if domain.bounds is None:
        return None
    low, high = domain.bounds
    if domain.type is Type.INTEGER:
        return _span(int(low), int(high) - int(low) + 1)  # type: ignore[arg-type]
    if domain.type is Type.DATE and isinstance(low, dt.date) and isinstance(high, dt.date):
        return _span(low, (high - low).days + 1)
    return None


def _span(first: int | dt.date | dt.datetime, count: int) -> Span | None:
    return Span(first, count) if count <= MOST_COMBINATIONS else None


def _hours(domain: Domain) -> Choices | None:
    assert domain.bounds is not None
    low, high = domain.bounds
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        return None
    first = low.replace(minute=0, second=0, microsecond=0)
    return _span(first, int((high - first) / dt.timedelta(hours=1)) + 1)


_HOURLY_PARTS = frozenset(["year", "quarter", "month", "week", "day", "dow", "doy", "hour", "isodow", "isoyear"])


def _hourly(reference: Reference, expressions: tuple[Expression, ...]) -> bool:
    """Whether a time is read only through parts that stay the same within every hour."""
    uses = truncated = 0
    for made in expressions:
        for node in walk(made):
            uses += isinstance(node, Column) and node.reference == reference
            if isinstance(node, Call) and any(
                isinstance(each, Column) and each.reference == reference for each in node.arguments
            ):
                truncated += _hour_or_coarser(node)
    return uses == truncated


def _hour_or_coarser(node: Call) -> bool:
    if node.function == "CAST":
        return node.domain.type is Type.DATE
    parts = [each.value for each in node.arguments if not isinstance(each, (Column, Call))]
    return node.function in ("EXTRACT", "DATE_TRUNC") and len(parts) == 1 and parts[0] in _HOURLY_PARTS


def _sorting(key: GroupKey) -> tuple[tuple[bool, object], ...]:
    """NULL last; numbers as numbers."""
    return tuple(
        (value is None, float(value) if isinstance(value, Fraction) else value if value is not None else 0)
        for value in key
    )
