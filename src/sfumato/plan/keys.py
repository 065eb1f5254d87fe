"""The groups of a question, from what is declared: every key is there whatever the data say.

A key's values are found by evaluating its expression on every combination of the declared values of the columns it
reads, when there are few; else from the range rule. Keys that read the same columns are found together, so that no
impossible combination is printed.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import Unsupported
from sfumato.plan.expressions import Call, Column, Expression, columns, walk
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Domain, Type, Value

MOST_GROUPS = 200_000
MOST_COMBINATIONS = 200_000

Choices = tuple[Value | None, ...]


@dataclass(frozen=True)
class World:
    """Every combination of a few columns' declared values, and the expressions to evaluate on it."""

    choices: tuple[tuple[str, Domain, Choices], ...]
    expressions: tuple[Expression, ...]


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
    parts: list[tuple[set[str], list[int]]] = []
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
    read = {name: domain for each in expressions for name, domain in columns(each).items()}
    choices = {name: _choices(domain, name, expressions) for name, domain in read.items()}
    if (
        all(each is not None for each in choices.values())
        and math.prod(len(each or ()) for each in choices.values()) <= MOST_COMBINATIONS
    ):
        world = World(tuple((name, read[name], each or ()) for name, each in choices.items()), expressions)
        kept = [
            key
            for key in evaluate(world)
            if all(value is not None or made.domain.nullable for value, made in zip(key, expressions, strict=True))
        ]
        return sorted(kept, key=_sorting)
    return [tuple(key) for key in itertools.product(*(_printed(each) for each in expressions))]


def _printed(expression: Expression) -> Choices:
    """A key's values from its own domain."""
    found = _listed(expression.domain)
    if found is None:
        raise Unsupported(
            "unknown-keys",
            f"the values to group by are not declared ({', '.join(columns(expression))})",
            fix="declare values (or narrow bounds) for the column in the policy, or group by a CASE, a WIDTH_BUCKET or "
            "CAST(FLOOR(…) AS INTEGER) of it",
        )
    return (*found, None) if expression.domain.nullable else found


def _choices(domain: Domain, name: str, expressions: tuple[Expression, ...]) -> Choices | None:
    """Every value of a column, NULL included: a value may always be missing."""
    found = _hours(domain) if domain.type is Type.TIMESTAMP and _hourly(name, expressions) else _listed(domain)
    return None if found is None else (*found, None)


def _listed(domain: Domain) -> tuple[Value, ...] | None:
    if domain.values is not None:
        return domain.values
    if domain.type is Type.BOOLEAN:
        return (False, True)
    if domain.bounds is None:
        return None
    low, high = domain.bounds
    if domain.type is Type.INTEGER and int(high) - int(low) < MOST_COMBINATIONS:  # type: ignore[arg-type]
        return tuple(range(int(low), int(high) + 1))  # type: ignore[arg-type]
    if domain.type is Type.DATE and isinstance(low, dt.date) and isinstance(high, dt.date):
        return tuple(low + dt.timedelta(days) for days in range((high - low).days + 1))
    return None


def _hours(domain: Domain) -> tuple[Value, ...] | None:
    if domain.bounds is None:
        return domain.values
    low, high = domain.bounds
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        return None
    first = low.replace(minute=0, second=0, microsecond=0)
    count = int((high - first) / dt.timedelta(hours=1)) + 1
    return tuple(first + dt.timedelta(hours=hour) for hour in range(count)) if count <= MOST_COMBINATIONS else None


_HOURLY_PARTS = frozenset(["year", "quarter", "month", "week", "day", "dow", "doy", "hour", "isodow", "isoyear"])


def _hourly(name: str, expressions: tuple[Expression, ...]) -> bool:
    """Whether a time is read only through parts that stay the same within every hour."""
    uses = truncated = 0
    for made in expressions:
        for node in walk(made):
            uses += isinstance(node, Column) and node.name == name
            if isinstance(node, Call) and any(
                isinstance(each, Column) and each.name == name for each in node.arguments
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
