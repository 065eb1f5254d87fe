"""Some times are read by the hour: every hour of a range then stands for all its times."""

from __future__ import annotations

from sfumato.plan.values import calendar, date_formats
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, walk
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.narrowing import as_comparison
from sfumato.policy import Type, Value

_PARTS = frozenset(["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour"])


def hourly(column: Column, expressions: tuple[Expression, ...]) -> bool:
    """Tell whether a time is read only through what stays the same within every hour."""
    uses = steady = 0
    for made in expressions:
        for node in walk(made):
            uses += isinstance(node, Column) and node.reference == column.reference
            if isinstance(node, Call) and column in node.arguments:
                steady += _hour_or_coarser(node)
    return uses == steady


def _hour_or_coarser(node: Call) -> bool:
    if node.function == "CAST":
        return node.domain.type is Type.DATE
    if node.function == "IS NULL":
        return True
    if node.function == "STRFTIME":
        form = node.arguments[1]
        return isinstance(form, Literal) and date_formats.parts(str(form.value)) <= _PARTS
    part = node.arguments[0]
    return node.function in ("EXTRACT", "DATE_TRUNC") and isinstance(part, Literal) and part.value in _PARTS


def by_hour(condition: Expression, column: Column) -> Expression | None:
    """Find a condition on an hour's start that holds there wherever this one holds at some time of the hour; None when
    none is known. AND and OR are monotone, so each of their parts may be replaced by one that holds more often.
    """
    if hourly(column, (condition,)):
        return condition
    if not isinstance(condition, Call):
        return None
    if condition.function in ("AND", "OR"):
        parts = [by_hour(each, column) for each in condition.arguments]
        known = [each for each in parts if each is not None]
        if not known or (condition.function == "OR" and len(known) < len(parts)):
            return None
        return call(condition.function, *known) if len(known) > 1 else known[0]
    comparison = as_comparison(condition)
    if comparison is None or comparison.operand != column:
        return None
    return _compared(column, comparison.operator, comparison.values)


def _compared(column: Column, name: str, values: tuple[Value, ...]) -> Expression:
    """Some time of the hour is before a time if its start is, and after it if its start is no earlier than the start
    of that time's hour.
    """
    starts = [_time(calendar.truncated("hour", each)) for each in values]  # type: ignore[type-var]
    match name:
        case "<" | "<=":
            return call(name, column, _time(values[0]))
        case ">" | ">=":
            return call(">=", column, starts[0])
        case "BETWEEN":
            return call("BETWEEN", column, starts[0], _time(values[1]))
        case "<>":
            return call("NOT", call("IS NULL", column))
    return call("IN", column, *starts)


def _time(value: Value) -> Literal:
    return literal(Type.TIMESTAMP, value)
