"""Expressions and measures are told in words people read: for explanations, receipts and column names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from sfumato.plan.aggregates.measures import AggregateRequest, Distinct, rounding, value_range
from sfumato.plan.aggregates.spread import Pairs
from sfumato.plan.aggregates.unit_measures import (
    End,
    RowPosition,
    RunningAggregate,
    Shifted,
    UnitCount,
    UnitDistinct,
    UnitFirst,
    UnitMeasure,
    WindowFunction,
)
from sfumato.plan.aggregates.value_measures import FrequentValue
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, NoisyWindow, RowTotal
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Field,
    Key,
    Order,
    Reference,
    Result,
    ShownColumn,
    SummedOver,
    Windowed,
)
from sfumato.policy import Type
from sfumato.privacy.numbers import shown, text


def words(expression: Expression, names: Mapping[Reference, str] | None = None) -> str:
    """Write an expression as SQL, columns called by these names where they have one."""
    if isinstance(expression, Column):
        return (names or {}).get(expression.reference) or _named(expression.reference)
    if not isinstance(expression, Call):
        return literal_words(expression.value, expression.domain.type)
    arguments = [words(each, names) for each in expression.arguments]
    name = expression.function
    if name == "CAST":
        return arguments[0]
    if name == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if not name[0].isalpha() or name in ("AND", "OR", "LIKE", "ILIKE"):
        return f"({f' {name} '.join(arguments)})"
    return f"{name}({', '.join(arguments)})"


def _named(reference: Reference) -> str:
    """Write a column's name, after its table's where it is not of the first; quoted where SQL would need it."""
    if not isinstance(reference, Field):
        return str(reference)
    if not reference.table:  # made in the question, and named by what it is
        return reference.name
    from sfumato.plan.written_names import quoted  # who only reads words back needs no parser

    return quoted(reference.name) if reference.source == 0 else f"{quoted(reference.table)}.{quoted(reference.name)}"


def names(query: Query) -> list[dict[Reference, str]]:
    """Say what the columns of the Finish of a query stand for, and then of each outer SELECT."""
    keys: dict[Reference, str] = {Key(index): words(key) for index, key in enumerate(query.plan.keys)}
    keys |= {SummedOver(index): f"GROUPING({words(key)})" for index, key in enumerate(query.plan.keys)}
    results: dict[Reference, str] = {Result(index): measured(each) for index, each in enumerate(query.plan.measures)}
    found = [_with_windows(keys | results, query.finish)]
    below = query.finish
    for outer in query.outer:
        known: dict[Reference, str] = {ShownColumn(index): each.name for index, each in enumerate(below.outputs)}
        own: dict[Reference, str] = {Key(index): words(key, known) for index, key in enumerate(outer.keys)}
        own |= {Result(index): row_total(each, known) for index, each in enumerate(outer.totals)}
        found.append(_with_windows(known | own, outer.finish))
        below = outer.finish
    return found


def row_total(total: RowTotal, names: Mapping[Reference, str]) -> str:
    """Write an aggregate of noisy rows."""
    of = "*" if total.argument is None else words(total.argument, names)
    return f"{total.function}({of})" + (f" where {words(total.where, names)}" if total.where is not None else "")


def _with_windows(known: dict[Reference, str], finish: Finish) -> dict[Reference, str]:
    return known | {Windowed(index): _over(each, known) for index, each in enumerate(finish.windows)}


def _over(window: NoisyWindow, names: Mapping[Reference, str]) -> str:
    of = words(window.argument, names) if window.argument is not None else "*" if window.function == "COUNT" else ""
    clauses = [f"PARTITION BY {', '.join(words(each, names) for each in window.partition)}"] if window.partition else []
    ordered = [words(each.expression, names) + " DESC" * each.descending for each in window.order]
    clauses += [f"ORDER BY {', '.join(ordered)}"] if ordered else []
    return f"{window.function}({of}) OVER ({' '.join(clauses)})"


def measured(measure: AggregateRequest) -> str:
    """Say what a measure counts or adds up."""
    of = "" if measure.value is None else f" of {words(measure.value)}"
    if isinstance(measure, Pairs):
        of = f" of {words(measure.y)} and {words(measure.x)}"
    place = f" number {measure.place + 1}" if isinstance(measure, FrequentValue) and measure.k > 1 else ""
    return measure.name + place + of + (f" where {words(measure.where)}" if measure.where is not None else "")


def unit_words(measure: UnitMeasure) -> str:
    """Write what is found of one unit's rows as SQL."""
    match measure:
        case UnitCount():
            found = "COUNT(*)"
        case UnitDistinct(value):
            found = f"COUNT(DISTINCT {words(value)})"
        case UnitFirst(value, order=order):
            found = f"FIRST({words(value)} ORDER BY {', '.join(map(ordering, order))})"
        case _:
            found = f"{measure.name}({'' if measure.value is None else words(measure.value)})"
    return found + ("" if measure.where is None else f" FILTER (WHERE {words(measure.where)})")


def window_words(function: WindowFunction) -> str:
    """Write what is found for every row of a unit as SQL."""
    match function:
        case RowPosition(counting=counting):
            found = f"{counting.value}()"
        case Shifted(value=value, places=places):
            found = f"{'LAG' if places <= 0 else 'LEAD'}({words(value)}, {abs(places)})"
        case End(value=value, last=last):
            found = f"{'LAST' if last else 'FIRST'}_VALUE({words(value)})"
        case RunningAggregate(measure=measure):
            found = unit_words(measure)
        case _:
            found = "a window"
    by = "".join(f", {words(key)}" for key in function.keys)
    order = f" ORDER BY {', '.join(map(ordering, function.order))}" if function.order else ""
    return f"{found} OVER (PARTITION BY unit{by}{order})"


def ordering(order: Order) -> str:
    """Write what rows are ordered by as SQL."""
    nulls = " NULLS FIRST" if order.nulls_first else ""
    return f"{words(order.expression)}{' DESC' if order.descending else ''}{nulls}"


def literal_words(value: object, kind: Type) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Fraction):
        written = text(value)
        return repr(float(value)) if "/" in written else written  # more digits than are read
    return f"'{value}'" if kind.temporal else str(value)


def limits(allowed: Limits) -> str:
    rows, groups = many(allowed.rows, "row"), many(allowed.groups, "group")
    return f"≤ {rows}, ≤ {groups}, ≤ {many(allowed.rows_per_group, 'row')} in a group, of one unit"


def enforced(bounded: BoundedPlan) -> str:
    """Give the limits of one unit that a bounding keeps: weighting a unit's rows down limits their number in all."""
    if bounded.strategy is Strategy.REWEIGHT:
        return f"≤ {many(bounded.limits.rows, 'row')} of one unit, in all groups together"
    return limits(bounded.limits)


def cutting(boundings: Iterable[BoundedPlan]) -> str:
    """Say what of one unit counts where the rest is left out or weighted down; empty where all rows count.

    Whether any unit has more rows is private, so the words are the same for all data.
    """
    kept = dict.fromkeys(enforced(each) for each in boundings if _cuts(each))
    return f"{' and '.join(kept)}; ranges are for the noise alone, and leave out what is beyond" if kept else ""


def _cuts(bounded: BoundedPlan) -> bool:
    """Tell whether a unit with many rows counts less than all of them; a count of units, in one group, has it once."""
    once = not bounded.plan.keys and all(isinstance(each.measure, Distinct) for each in bounded.measures)
    return bounded.strategy is not Strategy.WHOLE and not once


def bounds(scaled: ScaledMeasure) -> str | None:
    """Give the range of what is added up, as it is enforced up to a step; None for a count."""
    value, step = scaled.measure.value, scaled.step
    if value is None:
        return None
    low, high = value_range(value) if rounding(value, step) else (scaled.low * step, scaled.high * step)
    total = f", the total in steps of {shown(float(scaled.unit_value))}" if scaled.bits < 0 else ""
    return f"{words(value)} in [{text(low)}, {text(high)}] in steps of {shown(float(step))}{total}"


def many(count: int, what: str) -> str:
    """Write a number of things: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
