"""Parts of a key can be countable though the column they read is not: whole steps of a bounded real.

A real has too many values to be listed, but FLOOR, ROUND or CAST(… AS INTEGER) of one within bounds has few. Where a
column is read only through such parts, each of them stands for a column of its own: what the key makes of their values
is evaluated on all of them.

*Claim.* Every value that the key has in some row is among its results on every combination of the parts' values and
NULL. A part's value lies in its domain, so it is listed or NULL, and the rest of the key reads nothing else. ∎
Combinations that no row has may be among them too: they are groups that stay empty.

Some times are read by the hour: every hour of a range then stands for all its times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference, columns, walk
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.narrowing import as_comparison
from sfumato.policy import Domain, Type, Value

_LARGEST = 2**53
"""Steps up to this many are doubles of their own."""


def steps(part: Expression, domain: Domain) -> tuple[int, int, Fraction] | None:
    """Give the first and the last multiple, and of what, of a part that rounds a real within bounds; else None."""
    if not isinstance(part, Call) or domain.bounds is None or domain.type is not Type.REAL:
        return None
    if part.function in ("FLOOR", "CEIL", "TRUNC"):
        step = Fraction(1)
    elif part.function == "ROUND" and isinstance(part.arguments[1], Literal):
        step = Fraction(1, 10) ** int(part.arguments[1].value)  # type: ignore[arg-type]
    else:
        return None
    low, high = (Fraction(each) / step for each in domain.bounds)  # type: ignore[arg-type]
    first, last = math.floor(low), math.ceil(high)
    return (first, last, step) if max(abs(first), abs(last)) <= _LARGEST else None


Counts = Callable[[Expression], bool]
"""Whether the values of a part can be listed."""


def parted(
    expressions: tuple[Expression, ...], counts: Counts
) -> tuple[tuple[Expression, ...], dict[Expression, Column]]:
    """Rewrite the expressions with columns in the place of their countable parts, and these parts.

    It is done for every real without listed values that is read in no other way.
    """
    found: dict[Expression, Column] = {}
    for reference, domain in {name: each for made in expressions for name, each in columns(made).items()}.items():
        if domain.type is Type.REAL and domain.values is None:
            trial = dict(found)
            made = [_without(each, reference, counts, trial) for each in expressions]
            if None not in made:
                expressions, found = tuple(each for each in made if each is not None), trial
    return expressions, found


def _without(made: Expression, column: Reference, counts: Counts, found: dict[Expression, Column]) -> Expression | None:
    """Rewrite an expression so that the innermost countable parts that read the column are columns; None when it is
    read otherwise. ``found`` takes up the parts.
    """
    if column not in columns(made):
        return made
    if not isinstance(made, Call):
        return None
    arguments = [_without(each, column, counts, found) for each in made.arguments]
    if None not in arguments:
        return Call(made.function, tuple(each for each in arguments if each is not None), made.domain)
    if not made.domain.type.numeric or not counts(made):
        return None
    return found.setdefault(made, Column(Field(-1 - len(found), "", "part"), made.domain))


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
        return isinstance(form, Literal) and calendar.parts(str(form.value)) <= _PARTS
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
