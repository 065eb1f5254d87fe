"""The group keys of a query follow from declared domains alone: every key is released whatever the data hold.

The values of a key are enumerated by evaluating its expression on every combination of the declared values of the
columns it reads, when there are few; else by the range rule. Keys that read the same columns are enumerated together,
so that no impossible combination is released.

Groups that no row of any table can be in are left out. WHERE narrows the domains of columns (``narrowing``), and a
condition that reads only columns of keys is evaluated with them. Where that would cost too much, groups stay: to leave
one out needs a proof, to keep it does not.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan import costs
from sfumato.plan.nodes import (
    AnySemiJoin,
    BoundContributions,
    Filter,
    GroupValues,
    LimitRowsPerUnit,
    PerUnit,
    PublicJoin,
    Relation,
    SemiJoin,
    UnitJoin,
    Unnest,
    Window,
)
from sfumato.plan.values import calendar, countable
from sfumato.plan.values.countable import is_constant_within_hours, weaken_to_hours
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference, columns, conjuncts
from sfumato.plan.values.functions.temporal import written_bucket
from sfumato.plan.values.narrowing import LimitsByExpression, limits_by_expression, narrow_domain, narrow_expression
from sfumato.policy import Domain, Type, Value
from sfumato.quick_dataclass import dataclass

MAX_GROUPS = 200_000
MAX_COMBINATIONS = 200_000
MAX_STEPS = 50_000_000
"""The steps that enumerating the keys of one query may take, which is free: about 0.15 s."""
MAX_STARTS = 10_000
"""The most starts of months, weeks, … that are listed of a declared range."""


@dataclass(frozen=True)
class KeySpan:
    """Consecutive integers, days or hours, stored as the first and their number."""

    first: int | dt.date | dt.datetime
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Value]:
        if isinstance(self.first, int):
            return iter(range(self.first, self.first + self.count))
        hourly = isinstance(self.first, dt.datetime)
        step = dt.timedelta(hours=1) if hourly else dt.timedelta(days=1)
        return (self.first + offset * step for offset in range(self.count))


Choices = tuple[Value, ...] | KeySpan
"""The values that a column may hold besides NULL."""


@dataclass(frozen=True)
class ValueCombinations:
    """All combinations of the declared values of a few columns, and NULL, that meet the conditions; with the
    expressions to evaluate on them.
    """

    choices: tuple[tuple[Reference, Domain, Choices], ...]
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()

    @property
    def combination_count(self) -> int:
        return math.prod(len(values) + 1 for _, _, values in self.choices)


Evaluate = Callable[[ValueCombinations], Sequence[GroupValues]]
"""Returns the distinct results on a world: public values only, no private row."""


TextSortKey = Callable[[str], tuple[int, ...]]
"""A sort key for texts that are not in alphabetical order."""

Part = tuple[tuple[int, ...], list[GroupValues]]
"""The indices of keys that are enumerated together, and the values they can have."""


def possible_group_keys(
    keys: tuple[Expression, ...], evaluate: Evaluate, conditions: tuple[Expression, ...] = ()
) -> tuple[GroupValues, ...]:
    """Return every group key that rows meeting the conditions can have, in a fixed order; one empty key without GROUP
    BY.
    """
    value_limits = limits_by_expression(conditions)
    parts: list[Part] = []
    for members in _connected_components([columns(key) for key in keys]):
        part_keys = tuple(keys[index] for index in members)
        parts.append(
            (members, _part_group_keys(part_keys, evaluate, _conditions_only_on(part_keys, conditions), value_limits))
        )
    merged_parts = _merge_linked_parts(parts, keys, evaluate, conditions, value_limits)
    count = math.prod(len(values) for _, values in merged_parts)
    if count > MAX_GROUPS:
        raise _too_many_groups()
    if not count:
        rule, fix = (
            "the conditions exclude every group, so no row can meet them",
            "use a less strict WHERE, or declare more values in the policy",
        )
        raise Unsupported("no-groups", rule, fix=fix)
    if len(merged_parts) == 1 and len(parts) == 1:  # keys enumerated together are in order
        return tuple(merged_parts[0][1])
    group_keys = (
        _assemble_key(merged_parts, combination, len(keys))
        for combination in itertools.product(*(values for _, values in merged_parts))
    )
    return tuple(group_keys) if len(merged_parts) == len(parts) else _keys_in_declared_order(group_keys, parts)


def undeclared_key_indices(keys: tuple[Expression, ...], conditions: tuple[Expression, ...] = ()) -> tuple[int, ...]:
    """Return the indices of the keys whose values neither the policy nor a condition lists: they are discovered in the
    data.
    """
    value_limits = limits_by_expression(conditions)
    return tuple(index for index, key in enumerate(keys) if not _has_listed_values(key, value_limits))


def _has_listed_values(key: Expression, value_limits: LimitsByExpression) -> bool:
    narrowed_key = _narrowed_key(key, value_limits)
    world = _enumerable_combinations((key,), (), value_limits)
    is_enumerable = world is not None and world.combination_count <= MAX_COMBINATIONS
    return (
        narrowed_key is None
        or is_enumerable
        or _period_starts(narrowed_key) is not None
        or _domain_choices(narrowed_key.domain) is not None
    )


def _merge_linked_parts(
    parts: list[Part],
    keys: tuple[Expression, ...],
    evaluate: Evaluate,
    conditions: tuple[Expression, ...],
    value_limits: LimitsByExpression,
) -> list[Part]:
    """Merge the parts that a condition links, where few enough combinations are to be evaluated."""
    reads = [{name for index in members for name in columns(keys[index])} for members, _ in parts]
    linking_columns = [columns(condition) for condition in _conditions_only_on(keys, conditions)]
    merged: list[Part] = []
    for cluster in _connected_components([*reads, *linking_columns]):
        linked_parts = [parts[index] for index in cluster if index < len(parts)]
        members = tuple(sorted(index for indices, _ in linked_parts for index in indices))
        member_keys = tuple(keys[index] for index in members)
        world = (
            _enumerable_combinations(member_keys, _conditions_only_on(member_keys, conditions), value_limits)
            if len(linked_parts) > 1 and all(values for _, values in linked_parts)
            else None
        )
        merged += [(members, list(evaluate(world)))] if world is not None and can_enumerate(world) else linked_parts
    return merged


def _keys_in_declared_order(group_keys: Iterator[GroupValues], parts: list[Part]) -> tuple[GroupValues, ...]:
    """Return keys in the order in which each part lists its values, without those that a part does not list."""
    part_positions = [
        (members, {tuple(map(real_as_double, key)): position for position, key in enumerate(values)})
        for members, values in parts
    ]
    ranked = (
        (
            tuple(
                positions.get(tuple(real_as_double(key[index]) for index in members), -1)
                for members, positions in part_positions
            ),
            key,
        )
        for key in group_keys
    )
    return tuple(
        key for position, key in sorted((entry for entry in ranked if -1 not in entry[0]), key=lambda entry: entry[0])
    )


def conditions_met_by_rows(relation: Relation) -> tuple[Expression, ...]:
    """Return the conjuncts that every row of a relation meets."""
    return tuple(dict.fromkeys(_guaranteed_conditions(relation)))


def _guaranteed_conditions(relation: Relation) -> Iterator[Expression]:
    match relation:
        case Filter(input, predicate):
            yield from reversed(conjuncts(predicate))
            yield from _guaranteed_conditions(input)
        case UnitJoin(left, right, outer=outer):
            yield from _guaranteed_conditions(left)
            yield from () if outer else _guaranteed_conditions(right)
        case PerUnit():
            yield from _conditions_on_keys(relation)
        case (
            PublicJoin() | Unnest() | LimitRowsPerUnit() | Window() | SemiJoin() | AnySemiJoin() | BoundContributions()
        ):
            yield from _guaranteed_conditions(relation.inputs[0])


def _conditions_on_keys(relation: PerUnit) -> Iterator[Expression]:
    """Return the conjuncts met by the grouped rows that read only grouping columns."""
    key_columns = {
        key.reference: Column(Field(relation.source, "", name), key.domain)
        for name, key in relation.keys
        if isinstance(key, Column)
    }
    for conjunct in _guaranteed_conditions(relation.input):
        if key_columns.keys() >= columns(conjunct).keys():
            yield _substitute_columns(conjunct, key_columns)


def _substitute_columns(expression: Expression, key_columns: Mapping[Reference, Column]) -> Expression:
    if isinstance(expression, Call):
        return replace(
            expression, arguments=tuple(_substitute_columns(argument, key_columns) for argument in expression.arguments)
        )
    return key_columns[expression.reference] if isinstance(expression, Column) else expression


def _conditions_only_on(
    part_keys: tuple[Expression, ...], conditions: tuple[Expression, ...]
) -> tuple[Expression, ...]:
    """Return the conditions that read columns of these keys and no others."""
    key_columns = {column for key in part_keys for column in columns(key)}
    return tuple(
        condition
        for condition in conditions
        if (condition_columns := columns(condition)) and key_columns.issuperset(condition_columns)
    )


def _too_many_groups() -> Unsupported:
    rule = f"an answer can have at most {MAX_GROUPS:,} groups"
    return Unsupported(
        "too-many-groups", rule, fix="group by fewer columns, or by coarser values such as months instead of days"
    )


def _assemble_key(
    merged_parts: list[tuple[tuple[int, ...], list[GroupValues]]], combination: tuple[GroupValues, ...], width: int
) -> GroupValues:
    key: list[Value | None] = [None] * width
    for (members, _), values in zip(merged_parts, combination, strict=True):
        for index, value in zip(members, values, strict=True):
            key[index] = value
    return tuple(key)


def _connected_components(reads: Sequence[Collection[Reference]]) -> list[tuple[int, ...]]:
    """Return the connected components of indices that share columns, directly or through others."""
    components: list[tuple[set[Reference], list[int]]] = []
    for index, column_set in enumerate(reads):
        component_columns, members = set(column_set), [index]
        for overlapping in [component for component in components if component[0] & component_columns]:
            components.remove(overlapping)
            component_columns |= overlapping[0]
            members = overlapping[1] + members
        components.append((component_columns, members))
    return sorted(tuple(sorted(members)) for _, members in components)


def _part_group_keys(
    expressions: tuple[Expression, ...],
    evaluate: Evaluate,
    conditions: tuple[Expression, ...],
    value_limits: LimitsByExpression,
) -> list[GroupValues]:
    narrowed_keys = [key for key in (_narrowed_key(key, value_limits) for key in expressions) if key is not None]
    if len(narrowed_keys) < len(expressions):
        return []
    column = narrowed_keys[0] if len(narrowed_keys) == 1 and isinstance(narrowed_keys[0], Column) else None
    if column is not None and not conditions:
        return [(value,) for value in _declared_values(column)]
    world = _enumerable_combinations(expressions, conditions, value_limits)
    if conditions and (world is None or not can_enumerate(world)):
        # conditions only leave out groups: every group is still there
        return _part_group_keys(expressions, evaluate, (), value_limits)
    if world is None or world.combination_count > MAX_COMBINATIONS:
        return _key_product(narrowed_keys)
    if not can_enumerate(world):
        raise Unsupported(
            "keys-too-costly",
            f"listing the groups of this question would take more than {MAX_STEPS:,} steps, the limit",
            fix="group by a simpler expression, or by columns with fewer declared values",
        )
    key_values = evaluate(world)
    if column is not None:  # declared values keep the order in which they are declared
        possible_values = {real_as_double(key[0]) for key in key_values}
        return [(value,) for value in _declared_values(column) if real_as_double(value) in possible_values]
    return _sorted_existing_keys(key_values, narrowed_keys)


def can_enumerate(world: ValueCombinations) -> bool:
    """Return whether a world is small enough to be evaluated for free."""
    cost = world.combination_count * costs.max_evaluation_steps((*world.expressions, *world.conditions))
    return world.combination_count <= MAX_COMBINATIONS and cost <= MAX_STEPS


def _narrowed_key(key: Expression, value_limits: LimitsByExpression) -> Expression | None:
    """Return a key with the domain it has in rows that meet the conditions; None when there are none.

    It may be missing where a column that it reads is, unless the conditions hold for no such row.
    """
    narrowed_key = narrow_expression(key, value_limits)
    if narrowed_key is None:
        return None
    is_limited = key in value_limits or all(Column(*column) in value_limits for column in columns(key).items())
    nullable = key.domain.nullable and (narrowed_key.domain.nullable or not is_limited)
    return replace(narrowed_key, domain=replace(narrowed_key.domain, nullable=nullable))


def _sorted_existing_keys(key_values: Sequence[GroupValues], expressions: Sequence[Expression]) -> list[GroupValues]:
    """Sort keys by value, without NULL where there is no group for it."""
    text_sort_keys = [_date_text_sort_key(expression) for expression in expressions]
    if not any(expression.domain.nullable for expression in expressions) and not any(text_sort_keys):
        return sorted(key for key in key_values if None not in key)
    existing_keys = [
        key
        for key in key_values
        if all(
            value is not None or expression.domain.nullable for value, expression in zip(key, expressions, strict=True)
        )
    ]
    return sorted(existing_keys, key=lambda key: group_sort_key(key, text_sort_keys))


def _date_text_sort_key(key: Expression) -> TextSortKey | None:
    """Return the sort key of formatted dates, which are in chronological order; None for values in their
    natural order.
    """
    if not isinstance(key, Call) or key.function != "STRFTIME":
        return None
    date_format = key.arguments[1]
    assert isinstance(date_format, Literal)
    return functools.partial(calendar.chronological_key, str(date_format.value))


def _key_product(expressions: Sequence[Expression]) -> list[GroupValues]:
    """Return every combination of the declared values of each key."""
    values_by_key = [_declared_values(expression) for expression in expressions]
    if math.prod(map(len, values_by_key)) > MAX_GROUPS:
        raise _too_many_groups()
    return [tuple(key) for key in itertools.product(*values_by_key)]


def _enumerable_combinations(
    expressions: tuple[Expression, ...], conditions: tuple[Expression, ...], value_limits: LimitsByExpression
) -> ValueCombinations | None:
    """Enumerate the combinations of values of the columns, or of countable expressions over reals, that the expressions
    read; None when they are not declared.

    Conditions that read a column which is no longer read are dropped: they only leave out groups.
    """
    rewritten, countable_parts = countable.replace_countable_parts(
        expressions, lambda part: _choices_within(part, value_limits) is not None
    )
    if not countable_parts:
        return _declared_combinations(expressions, conditions, value_limits)
    part_choices = tuple(
        (column.reference, column.domain, _choices_within(part, value_limits) or ())
        for part, column in countable_parts.items()
    )
    remaining_columns = {reference for expression in rewritten for reference in columns(expression)}
    remaining_conditions = tuple(
        condition for condition in conditions if remaining_columns.issuperset(columns(condition))
    )
    world = _declared_combinations(rewritten, remaining_conditions, value_limits, part_choices)
    return world if world is not None and can_enumerate(world) else None


def _choices_within(part: Expression, value_limits: LimitsByExpression) -> Choices | None:
    """Return the values that an expression may have in rows that meet the conditions, if they can be listed."""
    narrowed_part = _narrowed_key(part, value_limits)
    return None if narrowed_part is None else _expression_choices(narrowed_part)


def _declared_combinations(
    expressions: tuple[Expression, ...],
    conditions: tuple[Expression, ...],
    value_limits: LimitsByExpression,
    parts: tuple[tuple[Reference, Domain, Choices], ...] = (),
) -> ValueCombinations | None:
    """Enumerate the combinations of the declared values of columns, and of these parts."""
    columns_read = {
        reference: domain for expression in expressions for reference, domain in columns(expression).items()
    }
    choices = list(parts)
    for reference, domain in columns_read.items():
        if reference in {part_reference for part_reference, _, _ in parts}:
            continue
        column = Column(reference, domain)
        narrowed_domain = narrow_domain(domain, value_limits[column]) if column in value_limits else domain
        if narrowed_domain is None:
            return None
        by_hours = (
            domain.type is Type.TIMESTAMP
            and narrowed_domain.bounds is not None
            and is_constant_within_hours(column, expressions)
        )
        values = _hour_span_if_short(narrowed_domain) if by_hours else _domain_choices(narrowed_domain)
        if values is None:
            return None
        if by_hours:
            hourly_conditions = (weaken_to_hours(condition, column) for condition in conditions)
            conditions = tuple(condition for condition in hourly_conditions if condition is not None)
        choices.append((reference, domain, values))
    return ValueCombinations(tuple(choices), expressions, conditions)


def _declared_values(expression: Expression) -> tuple[Value | None, ...]:
    """Return the values of a key from its own domain."""
    choices = _expression_choices(expression)
    if choices is None:
        raise Unsupported(
            "unknown-keys",
            f"GROUP BY needs declared values, and there are none for {', '.join(map(str, columns(expression)))}",
            fix=f"declare the values (or narrow bounds) in the policy, or {_grouping_advice(expression.domain)}",
        )
    return (*choices, None) if expression.domain.nullable else tuple(choices)


def _grouping_advice(domain: Domain) -> str:
    """Suggest what to group by instead."""
    if domain.type is Type.TEXT:
        return (
            "list the values you want: WHERE x IN ('a', 'b'), or GROUP BY CASE WHEN x = 'a' THEN 'a' ELSE 'other' END"
        )
    if not domain.type.temporal:
        return "write GROUP BY WIDTH_BUCKET(x, 0, 100, 10), or GROUP BY FLOOR(x) with WHERE x BETWEEN 0 AND 9"
    return "write GROUP BY DATE_TRUNC('day', x), with WHERE x BETWEEN '2024-01-01' AND '2024-12-31'"


def _expression_choices(expression: Expression) -> Choices | None:
    """Return the values of an expression by its own domain, if they can be listed."""
    choices = _period_starts(expression) or _domain_choices(expression.domain)
    step_range = countable.first_last_and_step(expression, expression.domain) if choices is None else None
    if step_range is None or step_range[1] - step_range[0] >= MAX_COMBINATIONS:
        return choices
    first, last, step = step_range
    return tuple(number * step for number in range(first, last + 1))


def _period_starts(expression: Expression) -> Choices | None:
    """Return every start of a month, a week, … in the range of a truncated date."""
    if not isinstance(expression, Call) or expression.domain.bounds is None:
        return None
    low, high = expression.domain.bounds
    if expression.function == "TIME_BUCKET":
        amount, unit_literal, _, origin = expression.arguments
        bucket = written_bucket(amount, unit_literal, origin)
        return _starts_within(bucket.start_of(low), low, high, bucket.amount, bucket.unit)
    unit = expression.arguments[0] if expression.function == "DATE_TRUNC" else None
    if not isinstance(unit, Literal):
        return None
    first = calendar.truncate(str(unit.value), low)  # type: ignore[type-var]
    return _starts_within(first, low, high, 1, str(unit.value))


def _starts_within(first_start: Any, low: Any, high: Any, amount: int, unit: str) -> Choices | None:
    """Return the starts from one on that lie in a range, each so many units after the one before."""
    starts: list[Any] = []
    start = first_start
    while start is not None and start <= high:
        if len(starts) >= MAX_STARTS:
            return None
        starts += [start] if start >= low else []
        start = calendar.shift(start, amount, unit)
    return tuple(starts)


def _domain_choices(domain: Domain) -> Choices | None:
    if domain.values is not None:
        return domain.values
    if domain.type is Type.BOOLEAN:
        return (False, True)
    if domain.bounds is None:
        return None
    low, high = domain.bounds
    if domain.type is Type.INTEGER:
        return _span_if_short(int(low), int(high) - int(low) + 1)  # type: ignore[arg-type]
    if domain.type is Type.DATE and isinstance(low, dt.date) and isinstance(high, dt.date):
        return _span_if_short(low, (high - low).days + 1)
    return None


def _span_if_short(first: int | dt.date | dt.datetime, count: int) -> KeySpan | None:
    return KeySpan(first, count) if count <= MAX_COMBINATIONS else None


def _hour_span_if_short(domain: Domain) -> KeySpan | None:
    """Return every hour of a range of timestamps."""
    assert domain.bounds is not None
    low, high = domain.bounds
    assert isinstance(low, dt.datetime)
    assert isinstance(high, dt.datetime)
    first = low.replace(minute=0, second=0, microsecond=0)
    return _span_if_short(first, (high - first) // dt.timedelta(hours=1) + 1)


def group_sort_key(
    key: GroupValues, text_sort_keys: Sequence[TextSortKey | None] = ()
) -> tuple[tuple[bool, object], ...]:
    """Return a sort key that puts NULL last and compares numbers as numbers."""
    return tuple(
        (
            value is None,
            0 if value is None else real_as_double(value) if text_sort_key is None else text_sort_key(str(value)),
        )
        for value, text_sort_key in zip(key, text_sort_keys or [None] * len(key), strict=True)
    )


def real_as_double(value: Value | None) -> Value | float | None:
    """Convert a real to the double by which the engine returns it."""
    return float(value) if isinstance(value, Fraction) else value
