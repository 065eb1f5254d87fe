"""Expressions and measures in words people read: for explanations, receipts and column names."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.plan.bounding import Bounded, Scaled
from sfumato.plan.expressions import Call, Column, Expression, Key, Reference, Result, Shown, SummedOver, Windowed
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.measures import Measure
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, Over, RowTotal
from sfumato.policy import Type
from sfumato.privacy.numbers import shown, text


def words(expression: Expression, names: Mapping[Reference, str] | None = None) -> str:
    """An expression as SQL, columns called by these names where they have one."""
    if isinstance(expression, Column):
        return (names or {}).get(expression.reference) or str(expression.reference)
    if not isinstance(expression, Call):
        return _literal(expression.value, expression.domain.type)
    arguments = [words(each, names) for each in expression.arguments]
    name = expression.function
    if name == "CAST":
        return arguments[0]
    if name == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if not name[0].isalpha() or name in ("AND", "OR", "LIKE", "ILIKE"):
        return f"({f' {name} '.join(arguments)})"
    return f"{name}({', '.join(arguments)})"


def names(query: Query) -> list[dict[Reference, str]]:
    """What the columns of the Finish of a query stand for, and then of each outer SELECT."""
    keys: dict[Reference, str] = {Key(index): words(key) for index, key in enumerate(query.plan.keys)}
    keys |= {SummedOver(index): f"GROUPING({words(key)})" for index, key in enumerate(query.plan.keys)}
    results: dict[Reference, str] = {Result(index): measured(each) for index, each in enumerate(query.plan.measures)}
    found = [_with_windows(keys | results, query.finish)]
    below = query.finish
    for outer in query.outer:
        known: dict[Reference, str] = {Shown(index): each.name for index, each in enumerate(below.outputs)}
        own: dict[Reference, str] = {Key(index): words(key, known) for index, key in enumerate(outer.keys)}
        own |= {Result(index): row_total(each, known) for index, each in enumerate(outer.totals)}
        found.append(_with_windows(known | own, outer.finish))
        below = outer.finish
    return found


def row_total(total: RowTotal, names: Mapping[Reference, str]) -> str:
    """An aggregate of noisy rows."""
    of = "*" if total.argument is None else words(total.argument, names)
    return f"{total.function}({of})" + (f" where {words(total.where, names)}" if total.where is not None else "")


def _with_windows(known: dict[Reference, str], finish: Finish) -> dict[Reference, str]:
    return known | {Windowed(index): _over(each, known) for index, each in enumerate(finish.windows)}


def _over(window: Over, names: Mapping[Reference, str]) -> str:
    of = words(window.argument, names) if window.argument is not None else "*" if window.function == "COUNT" else ""
    clauses = [f"PARTITION BY {', '.join(words(each, names) for each in window.partition)}"] if window.partition else []
    ordered = [words(each.expression, names) + " DESC" * each.descending for each in window.order]
    clauses += [f"ORDER BY {', '.join(ordered)}"] if ordered else []
    return f"{window.function}({of}) OVER ({' '.join(clauses)})"


def measured(measure: Measure) -> str:
    """What a measure counts or adds up."""
    of = "" if measure.value is None else f" of {words(measure.value)}"
    return measure.name + of + (f" where {words(measure.where)}" if measure.where is not None else "")


def _literal(value: object, kind: Type) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if kind is Type.TEXT or kind.temporal else str(value)


def limits(allowed: Limits) -> str:
    rows, groups = many(allowed.rows, "row"), many(allowed.groups, "group")
    return f"≤ {rows}, ≤ {groups}, ≤ {many(allowed.rows_per_group, 'row')} in a group, of one unit"


def enforced(bounded: Bounded) -> str:
    """The limits of one unit that a bounding keeps: weighting a unit's rows down limits their number in all."""
    if bounded.strategy is Strategy.REWEIGHT:
        return f"≤ {many(bounded.limits.rows, 'row')} of one unit, in all groups together"
    return limits(bounded.limits)


def bounds(scaled: Scaled) -> str | None:
    """The range of what is added up, as it is enforced; None for a count."""
    value = scaled.measure.value
    if value is None:
        return None
    low, high = (text(end * scaled.step) for end in (scaled.low, scaled.high))
    return f"{words(value)} in [{low}, {high}] in steps of {shown(float(scaled.step))}"


def many(count: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
