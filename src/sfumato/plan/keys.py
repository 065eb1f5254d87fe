"""The groups of a question follow from what is declared: every key is there whatever the data say.

A key's values are found by evaluating its expression on every combination of the declared values of the columns it
reads, when there are few; else from the range rule. Keys that read the same columns are found together, so that no
impossible combination is printed.

Groups that no row of any table can be in are left out. What WHERE says of a column narrows what is listed of it
(``narrowing``), and a condition that reads no other columns than keys do is evaluated beside them. Where that would
cost too much, groups stay: to leave one out needs a proof, to keep it does not.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan import costs
from sfumato.plan.nodes import (
    Bound,
    Cut,
    Filter,
    GroupKey,
    Join,
    PerUnit,
    Relation,
    SemiJoin,
    UnitJoin,
    Unnest,
    Window,
    conjuncts,
)
from sfumato.plan.values import calendar, countable
from sfumato.plan.values.countable import by_hour, hourly
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference, columns
from sfumato.plan.values.narrowing import Limits, limits, narrowed, rebuilt
from sfumato.policy import Domain, Type, Value

MOST_GROUPS = 200_000
MOST_COMBINATIONS = 200_000
MOST_STEPS = 50_000_000
"""Of finding the keys of one question, which is free: about 0.15 s."""
MOST_STARTS = 10_000
"""The starts of months, weeks, … in a declared range are listed up to this many."""


@dataclass(frozen=True)
class KeySpan:
    """A span is so many whole numbers, days or hours one after another: it is told by the first, not written out."""

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


Choices = tuple[Value, ...] | KeySpan
"""What a column may hold; it may always be missing too."""


@dataclass(frozen=True)
class World:
    """A world is every combination of a few columns' declared values and NULL that meets the conditions, and the
    expressions to evaluate on it.
    """

    choices: tuple[tuple[Reference, Domain, Choices], ...]
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()

    @property
    def combinations(self) -> int:
        return math.prod(len(each) + 1 for _, _, each in self.choices)


Evaluate = Callable[[World], Sequence[GroupKey]]
"""The distinct results on a world: public values only, no private row."""


Order = Callable[[str], tuple[int, ...]]
"""What puts texts in another order than that of their letters."""

Part = tuple[tuple[int, ...], list[GroupKey]]
"""Keys that are found together, by their places, and what they can be."""


def groups(
    keys: tuple[Expression, ...], evaluate: Evaluate, conditions: tuple[Expression, ...] = ()
) -> tuple[GroupKey, ...]:
    """List every key of the answer that rows meeting the conditions can have, in a fixed order; one empty key when
    nothing is grouped.
    """
    known = limits(conditions)
    parts: list[Part] = []
    for members in _together([columns(key) for key in keys]):
        part = tuple(keys[index] for index in members)
        parts.append((members, _values(part, evaluate, _about(part, conditions), known)))
    found = _joined(parts, keys, evaluate, conditions, known)
    count = math.prod(len(values) for _, values in found)
    if count > MOST_GROUPS:
        raise _too_many()
    if not count:
        rule, fix = "the conditions leave no group: no row can meet them", "widen WHERE, or what the policy declares"
        raise Unsupported("no-groups", rule, fix=fix)
    if len(found) == 1 and len(parts) == 1:  # keys found together are in their order
        return tuple(found[0][1])
    every = (_arranged(found, each, len(keys)) for each in itertools.product(*(values for _, values in found)))
    return tuple(every) if len(found) == len(parts) else _as_listed(every, parts)


def undeclared(keys: tuple[Expression, ...], conditions: tuple[Expression, ...] = ()) -> tuple[int, ...]:
    """List the places of the keys whose values neither the policy nor a condition lists: they are found in the data."""
    known = limits(conditions)
    return tuple(index for index, key in enumerate(keys) if not _is_listed(key, known))


def _is_listed(key: Expression, known: Limits) -> bool:
    made = _narrowed(key, known)
    world = _world((key,), (), known)
    few = world is not None and world.combinations <= MOST_COMBINATIONS
    return made is None or few or _starts(made) is not None or _listed(made.domain) is not None


def _joined(
    parts: list[Part],
    keys: tuple[Expression, ...],
    evaluate: Evaluate,
    conditions: tuple[Expression, ...],
    known: Limits,
) -> list[Part]:
    """Join the parts that a condition reads together, where few enough combinations are to be tried."""
    reads = [{name for index in members for name in columns(keys[index])} for members, _ in parts]
    linking = [columns(each) for each in _about(keys, conditions)]
    joined: list[Part] = []
    for cluster in _together([*reads, *linking]):
        apart = [parts[index] for index in cluster if index < len(parts)]
        members = tuple(sorted(index for each, _ in apart for index in each))
        made = tuple(keys[index] for index in members)
        world = _world(made, _about(made, conditions), known) if len(apart) > 1 and all(v for _, v in apart) else None
        joined += [(members, list(evaluate(world)))] if world is not None and affordable(world) else apart
    return joined


def _as_listed(found: Iterator[GroupKey], parts: list[Part]) -> tuple[GroupKey, ...]:
    """Put keys in the order in which each part lists its keys, without what it does not list."""
    places = [
        (members, {tuple(map(told, key)): place for place, key in enumerate(values)}) for members, values in parts
    ]
    placed = (
        (tuple(known.get(tuple(told(key[index]) for index in members), -1) for members, known in places), key)
        for key in found
    )
    return tuple(key for place, key in sorted((each for each in placed if -1 not in each[0]), key=lambda each: each[0]))


def conditions(relation: Relation) -> tuple[Expression, ...]:
    """List what every row of a relation meets: the parts of its conditions that are joined by AND."""
    return tuple(dict.fromkeys(_met(relation)))


def _met(relation: Relation) -> Iterator[Expression]:
    match relation:
        case Filter(input, predicate):
            yield from reversed(conjuncts(predicate))
            yield from _met(input)
        case UnitJoin(left, right, outer=outer):
            yield from _met(left)
            yield from () if outer else _met(right)
        case PerUnit():
            yield from _of_keys(relation)
        case Join() | Unnest() | Cut() | Window() | SemiJoin() | Bound():
            yield from _met(relation.inputs[0])


def _of_keys(relation: PerUnit) -> Iterator[Expression]:
    """List what the rows that are grouped meet, where it is about columns that they are grouped by."""
    named = {
        key.reference: Column(Field(relation.source, "", name), key.domain)
        for name, key in relation.keys
        if isinstance(key, Column)
    }
    for each in _met(relation.input):
        if named.keys() >= columns(each).keys():
            yield _renamed(each, named)


def _renamed(made: Expression, named: Mapping[Reference, Column]) -> Expression:
    if isinstance(made, Call):
        return replace(made, arguments=tuple(_renamed(each, named) for each in made.arguments))
    return named[made.reference] if isinstance(made, Column) else made


def _about(part: tuple[Expression, ...], conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Choose the conditions that read columns of these keys and no others."""
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


def _together(reads: Sequence[Collection[Reference]]) -> list[tuple[int, ...]]:
    """Group indices, those that share columns (directly or through others) side by side."""
    parts: list[tuple[set[Reference], list[int]]] = []
    for index, found in enumerate(reads):
        names, members = set(found), [index]
        for other in [part for part in parts if part[0] & names]:
            parts.remove(other)
            names |= other[0]
            members = other[1] + members
        parts.append((names, members))
    return sorted(tuple(sorted(members)) for _, members in parts)


def _values(
    expressions: tuple[Expression, ...], evaluate: Evaluate, conditions: tuple[Expression, ...], known: Limits
) -> list[GroupKey]:
    made = [each for each in (_narrowed(each, known) for each in expressions) if each is not None]
    if len(made) < len(expressions):
        return []
    column = made[0] if len(made) == 1 and isinstance(made[0], Column) else None
    if column is not None and not conditions:
        return [(value,) for value in _printed(column)]
    world = _world(expressions, conditions, known)
    if conditions and (world is None or not affordable(world)):
        return _values(expressions, evaluate, (), known)  # conditions only leave out groups: every group is still there
    if world is None or world.combinations > MOST_COMBINATIONS:
        return _product(made)
    if not affordable(world):
        raise Unsupported(
            "keys-too-costly",
            f"finding all groups may cost at most {MOST_STEPS:,} steps",
            fix="group by a simpler expression, or by columns with fewer declared values",
        )
    found = evaluate(world)
    if column is not None:  # declared values keep the order in which they are declared
        met = {told(key[0]) for key in found}
        return [(value,) for value in _printed(column) if told(value) in met]
    return _ordered(found, made)


def affordable(world: World) -> bool:
    """Tell whether a world may be evaluated, which is free."""
    cost = world.combinations * costs.steps((*world.expressions, *world.conditions))
    return world.combinations <= MOST_COMBINATIONS and cost <= MOST_STEPS


def _narrowed(key: Expression, known: Limits) -> Expression | None:
    """A key with the domain it has in rows that meet the conditions; None when there are none.

    It may be missing where a column that it reads is, unless the conditions hold for no such row.
    """
    made = rebuilt(key, known)
    if made is None:
        return None
    present = key in known or all(Column(*each) in known for each in columns(key).items())
    nullable = key.domain.nullable and (made.domain.nullable or not present)
    return replace(made, domain=replace(made.domain, nullable=nullable))


def _ordered(found: Sequence[GroupKey], expressions: Sequence[Expression]) -> list[GroupKey]:
    """Sort keys by value, without NULL where there is no group for it."""
    orders = [_order(each) for each in expressions]
    if not any(made.domain.nullable for made in expressions) and not any(orders):
        return sorted(key for key in found if None not in key)
    kept = [
        key
        for key in found
        if all(value is not None or made.domain.nullable for value, made in zip(key, expressions, strict=True))
    ]
    return sorted(kept, key=lambda key: sorting(key, orders))


def _order(key: Expression) -> Order | None:
    """Say what puts a key's values in order; None where they do so themselves. Dates in words stand as time goes by."""
    if not isinstance(key, Call) or key.function != "STRFTIME":
        return None
    form = key.arguments[1]
    assert isinstance(form, Literal)
    return functools.partial(calendar.order, str(form.value))


def _product(expressions: Sequence[Expression]) -> list[GroupKey]:
    """List every combination of what each key can be by itself."""
    printed = [_printed(each) for each in expressions]
    if math.prod(map(len, printed)) > MOST_GROUPS:
        raise _too_many()
    return [tuple(key) for key in itertools.product(*printed)]


def _world(expressions: tuple[Expression, ...], conditions: tuple[Expression, ...], known: Limits) -> World | None:
    """List every combination of what the columns, or countable parts of reals, may hold; None when that is not
    declared.

    Conditions that read a column which is no longer read only leave out groups: they are left out themselves.
    """
    made, parts = countable.parted(expressions, lambda part: _counted(part, known) is not None)
    if not parts:
        return _declared(expressions, conditions, known)
    listed = tuple((column.reference, column.domain, _counted(part, known) or ()) for part, column in parts.items())
    rest = {reference for each in made for reference in columns(each)}
    kept = tuple(each for each in conditions if rest.issuperset(columns(each)))
    world = _declared(made, kept, known, listed)
    return world if world is not None and affordable(world) else None


def _counted(part: Expression, known: Limits) -> Choices | None:
    """List what a part may be in rows that meet the conditions, if that can be listed."""
    limited = _narrowed(part, known)
    return None if limited is None else _own(limited)


def _declared(
    expressions: tuple[Expression, ...],
    conditions: tuple[Expression, ...],
    known: Limits,
    parts: tuple[tuple[Reference, Domain, Choices], ...] = (),
) -> World | None:
    """List every combination of what columns may hold, and of what these parts may be."""
    read = {reference: domain for each in expressions for reference, domain in columns(each).items()}
    choices = list(parts)
    for reference, domain in read.items():
        if reference in {each for each, _, _ in parts}:
            continue
        column = Column(reference, domain)
        limited = narrowed(domain, known[column]) if column in known else domain
        if limited is None:
            return None
        by_hours = domain.type is Type.TIMESTAMP and limited.bounds is not None and hourly(column, expressions)
        found = _hours(limited) if by_hours else _listed(limited)
        if found is None:
            return None
        if by_hours:
            weaker = (by_hour(each, column) for each in conditions)
            conditions = tuple(each for each in weaker if each is not None)
        choices.append((reference, domain, found))
    return World(tuple(choices), expressions, conditions)


def _printed(expression: Expression) -> tuple[Value | None, ...]:
    """List a key's values from its own domain."""
    found = _own(expression)
    if found is None:
        raise Unsupported(
            "unknown-keys",
            f"the values to group by are not declared ({', '.join(map(str, columns(expression)))})",
            fix=f"declare its values (or narrow bounds) in the policy, or {_narrower(expression.domain)}",
        )
    return (*found, None) if expression.domain.nullable else tuple(found)


def _narrower(domain: Domain) -> str:
    """Say what can be grouped by instead."""
    if domain.type is Type.TEXT:
        return "say which ones you mean: WHERE x IN ('a', 'b'), or GROUP BY CASE WHEN x = 'a' THEN 'a' ELSE 'other' END"
    if not domain.type.temporal:
        return "GROUP BY WIDTH_BUCKET(x, 0, 100, 10), or GROUP BY FLOOR(x) with WHERE x BETWEEN 0 AND 9"
    return "GROUP BY DATE_TRUNC('day', x), with WHERE x BETWEEN '2024-01-01' AND '2024-12-31'"


def _own(expression: Expression) -> Choices | None:
    """List what an expression can be by itself, if that can be listed."""
    found = _starts(expression) or _listed(expression.domain)
    stepped = countable.steps(expression, expression.domain) if found is None else None
    if stepped is None or stepped[1] - stepped[0] >= MOST_COMBINATIONS:
        return found
    first, last, step = stepped
    return tuple(number * step for number in range(first, last + 1))


def _starts(expression: Expression) -> Choices | None:
    """List every start of a month, a week, … in the range of what is cut to it."""
    if not isinstance(expression, Call) or expression.function != "DATE_TRUNC" or expression.domain.bounds is None:
        return None
    unit = expression.arguments[0]
    assert isinstance(unit, Literal)
    low, high = expression.domain.bounds
    found: list[Any] = []
    start: Any = calendar.truncated(str(unit.value), low)  # type: ignore[type-var]
    while start is not None and start <= high:
        if len(found) >= MOST_STARTS:
            return None
        found += [start] if start >= low else []
        start = calendar.shifted(start, 1, str(unit.value))
    return tuple(found)


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


def _span(first: int | dt.date | dt.datetime, count: int) -> KeySpan | None:
    return KeySpan(first, count) if count <= MOST_COMBINATIONS else None


def _hours(domain: Domain) -> Choices | None:
    assert domain.bounds is not None
    low, high = domain.bounds
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        return None
    first = low.replace(minute=0, second=0, microsecond=0)
    return _span(first, int((high - first) / dt.timedelta(hours=1)) + 1)


def sorting(key: GroupKey, orders: Sequence[Order | None] = ()) -> tuple[tuple[bool, object], ...]:
    """Sort NULL last, and numbers as numbers."""
    return tuple(
        (value is None, 0 if value is None else told(value) if order is None else order(str(value)))
        for value, order in zip(key, orders or [None] * len(key), strict=True)
    )


def told(value: Value | None) -> Value | float | None:
    """Give a real as the double that the engine tells it by."""
    return float(value) if isinstance(value, Fraction) else value
