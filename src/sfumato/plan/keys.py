"""The groups of a question, from what is declared: every key is there whatever the data say.

A key's values are found by evaluating its expression on every combination of the declared values of the columns it
reads, when there are few; else from the range rule. Keys that read the same columns are found together, so that no
impossible combination is printed. A condition of WHERE that reads no other columns than some keys is evaluated beside
them, and groups in which it never holds are left out: no row of any table is in them.
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
from sfumato.plan.expressions import Call, Column, Expression, Literal, columns, walk
from sfumato.plan.nodes import Filter, GroupKey, Relation, relations
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
    """Every combination of a few columns' declared values and NULL that meets the conditions, and the expressions to
    evaluate on it.
    """

    choices: tuple[tuple[str, Domain, Choices], ...]
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()

    @property
    def combinations(self) -> int:
        return math.prod(len(each) + 1 for _, _, each in self.choices)


Evaluate = Callable[[World], Sequence[GroupKey]]
"""The distinct results on a world: public values only, no private row."""


def groups(
    keys: tuple[Expression, ...], evaluate: Evaluate, conditions: tuple[Expression, ...] = ()
) -> tuple[GroupKey, ...]:
    """Every key of the answer that rows meeting the conditions can have, in a fixed order; one empty key when nothing
    is grouped.
    """
    found: list[tuple[tuple[int, ...], list[GroupKey]]] = []
    for members in _together(keys):
        part = tuple(keys[index] for index in members)
        found.append((members, _values(part, evaluate, _about(part, conditions))))
    count = math.prod(len(values) for _, values in found)
    if count > MOST_GROUPS:
        raise _too_many()
    if not count:
        rule, fix = "the conditions leave no group: no row can meet them", "widen WHERE, or what the policy declares"
        raise Unsupported("no-groups", rule, fix=fix)
    if len(found) == 1:  # keys found together are in their order
        return tuple(found[0][1])
    return tuple(
        _arranged(found, combination, len(keys)) for combination in itertools.product(*(values for _, values in found))
    )


def conditions(relation: Relation) -> tuple[Expression, ...]:
    """What every row of a relation meets: the parts of its conditions that are joined by AND."""
    waiting: list[Expression] = [node.predicate for node in relations(relation) if isinstance(node, Filter)]
    found = []
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and each.function == "AND":
            waiting.extend(each.arguments)
        else:
            found.append(each)
    return tuple(dict.fromkeys(found))


def _about(part: tuple[Expression, ...], conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The conditions that read columns of these keys and no others."""
    names = {name for each in part for name in columns(each)}
    return tuple(each for each in conditions if (read := columns(each)) and names.issuperset(read))


def _too_many() -> Unsupported:
    rule = f"an answer has at most {MOST_GROUPS:,} groups"
    return Unsupported("too-many-groups", rule, fix="group by fewer columns or coarser values")


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


def _values(
    expressions: tuple[Expression, ...], evaluate: Evaluate, conditions: tuple[Expression, ...]
) -> list[GroupKey]:
    column = expressions[0] if len(expressions) == 1 and isinstance(expressions[0], Column) else None
    if column is not None and not conditions:
        return [(value,) for value in _printed(column)]
    world = _world(expressions, conditions)
    if world is None or world.combinations > MOST_COMBINATIONS:
        return _values(expressions, evaluate, ()) if conditions else _product(expressions)
    if world.combinations * costs.steps((*expressions, *conditions)) > MOST_STEPS:
        if conditions:  # they may only leave out groups, so without them every group is still there
            return _values(expressions, evaluate, ())
        raise Unsupported(
            "keys-too-costly",
            f"finding all groups may cost at most {MOST_STEPS:,} steps",
            fix="group by a simpler expression, or by columns with fewer declared values",
        )
    found = evaluate(world)
    if column is not None:  # declared values keep the order in which they are declared
        met = {_told(key[0]) for key in found}
        return [(value,) for value in _printed(column) if _told(value) in met]
    return _ordered(found, expressions)


def _ordered(found: Sequence[GroupKey], expressions: tuple[Expression, ...]) -> list[GroupKey]:
    """By value, without NULL where there is no group for it."""
    if not any(made.domain.nullable for made in expressions):
        return sorted(key for key in found if None not in key)
    kept = [
        key
        for key in found
        if all(value is not None or made.domain.nullable for value, made in zip(key, expressions, strict=True))
    ]
    return sorted(kept, key=_sorting)


def _product(expressions: tuple[Expression, ...]) -> list[GroupKey]:
    """Every combination of what each key can be by itself."""
    printed = [_printed(each) for each in expressions]
    if math.prod(map(len, printed)) > MOST_GROUPS:
        raise _too_many()
    return [tuple(key) for key in itertools.product(*printed)]


def _world(expressions: tuple[Expression, ...], conditions: tuple[Expression, ...]) -> World | None:
    """Every combination of what the columns read may hold; None when that is not declared."""
    read = {name: domain for each in expressions for name, domain in columns(each).items()}
    choices = []
    for name, domain in read.items():
        found = _choices(domain, name, (*expressions, *conditions))
        if found is None:
            return None
        choices.append((name, domain, found))
    return World(tuple(choices), expressions, conditions)


def _printed(expression: Expression) -> tuple[Value | None, ...]:
    """A key's values from its own domain."""
    found = _starts(expression) or _listed(expression.domain)
    if found is None:
        raise Unsupported(
            "unknown-keys",
            f"the values to group by are not declared ({', '.join(columns(expression))})",
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


def _choices(domain: Domain, name: str, expressions: tuple[Expression, ...]) -> Choices | None:
    hourly = domain.type is Type.TIMESTAMP and domain.bounds is not None and _hourly(name, expressions)
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
    return tuple((value is None, _told(value) if value is not None else 0) for value in key)


def _told(value: Value | None) -> Value | float | None:
    """A real as the double that the engine tells it by."""
    return float(value) if isinstance(value, Fraction) else value
