"""Countable subexpressions of keys over columns that are not countable: whole steps of a bounded real.

A real has too many values to be listed, but FLOOR, ROUND or CAST(… AS INTEGER) of one within bounds has few. Where a
column is read only through such parts, each of them is replaced by a column of its own, and the rest of the key is
evaluated on all their values.

*Claim.* Every value that the key has in some row is among its results on every combination of the parts' values and
NULL. A part's value lies in its domain, so it is listed or NULL, and the rest of the key reads nothing else. ∎
Combinations that no row has may be among them too: they are groups that stay empty.

Some times are read by the hour: every hour of a range then stands for all its times.

Group keys for coded columns: the value itself where values are listed, and else the number of its bin.

Values with cells of their own come before the bins. Every row has one of the keys, or NULL where its value is missing
or in no cell. Bins of one width are found by whole arithmetic; others by comparisons with their edges, halving the bins
each time. So a value on an edge is where SQL says it is, and a real is compared as the double it is stored as.

Also counted here: how many rows of a public table one value can meet by comparisons: bands such as ``x >= low AND x
< high``.

*Claim.* Let every row be met by the values of an interval, given by its first and its last value. Then the most rows
that one value meets are met by the first value of some interval. *Proof.* Take a value that meets the most rows, and
the largest first value among those rows' intervals: it lies in all of them. ∎ So it is found from the public rows
alone, whatever the private values are.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference, columns, walk
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.temporal import written_bucket
from sfumato.plan.values.narrowing import as_comparison
from sfumato.policy import Domain, Type, Value
from sfumato.policy.codings import Coding


def coded_key_and_cell_values(column: Column, coding: Coding | None) -> tuple[Expression, tuple[Value, ...]]:
    """Return the key of a coded column, under which every row counts, and the value of the key in each cell, in order.

    The last cell, for values that are NULL or in no other cell, has none: the key is NULL there.
    """
    column = replace(column, domain=replace(column.domain, nullable=True))
    if coding is None or not coding.starts:
        return column, single_value_cells(column.domain)
    assert coding.end is not None
    bin_number = (None if coding.width is None else _equal_width_bin_number(column, coding)) or _search_bin(
        column, coding.starts, 0, len(coding.starts)
    )
    is_in_bins = call(
        "AND", _edge_comparison(">=", column, coding.starts[0]), _edge_comparison("<=", column, coding.end)
    )
    spike_count = len(coding.spikes)
    if not spike_count:
        return call("CASE", is_in_bins, bin_number), tuple(range(len(coding.starts)))
    spike_branches = [part for cell, spike in enumerate(coding.spikes) for part in _spike_branch(column, spike, cell)]
    shifted_number = call("+", bin_number, literal(Type.INTEGER, spike_count))
    return call("CASE", *spike_branches, is_in_bins, shifted_number), tuple(range(spike_count + len(coding.starts)))


def _spike_branch(column: Column, value: Value, cell: int) -> tuple[Expression, Expression]:
    """Return the branch of a CASE for a value with a cell of its own."""
    return _edge_comparison("=", column, value), literal(Type.INTEGER, cell)


def single_value_cells(domain: Domain) -> tuple[Value, ...]:
    """Return the values of a column that are cells of their own."""
    return (False, True) if domain.values is None else domain.values


def _edge_comparison(operator: str, column: Expression, edge: Value) -> Expression:
    return call(operator, column, literal(column.domain.type, edge))


def _search_bin(column: Column, starts: Sequence[Value], first: int, after: int) -> Expression:
    """Return the bin of a value, by binary search among the bins from ``first`` to before ``after``."""
    if after - first == 1:
        return literal(Type.INTEGER, first)
    middle = (first + after) // 2
    is_below_middle = _edge_comparison("<", column, starts[middle])
    return call(
        "CASE", is_below_middle, _search_bin(column, starts, first, middle), _search_bin(column, starts, middle, after)
    )


def _equal_width_bin_number(column: Column, coding: Coding) -> Expression | None:
    """Count whole widths from the start of a full first bin; None for values without bounds, or too large to count."""
    width, second = coding.width, coding.starts[1]
    assert width is not None
    start = literal(column.domain.type, second)
    if column.domain.type.temporal:
        difference = call("DATE_DIFF", literal(Type.TEXT, "day"), start, column)
    else:
        difference = call("-", column, start)
    distance = call("+", difference, literal(Type.INTEGER, width))
    if distance.domain.type is not Type.INTEGER:
        return None
    return call("//", distance, literal(Type.INTEGER, width))


MAX_ROWS = 10_000
"""The most rows of a public table that is joined by comparisons alone."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator of the same comparison with its sides exchanged."""
_End = tuple[int, Any, int]
"""Before all values (-1), at, just before or just after a value (0), or after all values (1)."""
_LOW: _End = (-1, 0, 0)
_HIGH: _End = (1, 0, 0)


def max_band_matches(rows: Iterable[tuple[Sequence[Any], Sequence[Any]]], operators: Sequence[str]) -> int:
    """Return the most rows that one value meets among those that share a key.

    A row is its key and, for each operator, what the value is compared with: x operator bound.
    """
    firsts: defaultdict[tuple[Any, ...], list[_End]] = defaultdict(list)
    lasts: defaultdict[tuple[Any, ...], list[_End]] = defaultdict(list)
    for key, bounds in rows:
        first, last = _matching_interval(bounds, operators)
        if first <= last:
            firsts[tuple(key)].append(first)
            lasts[tuple(key)].append(last)
    return max((_max_overlap(firsts[key], lasts[key]) for key in firsts), default=0)


def _matching_interval(bounds: Sequence[Any], operators: Sequence[str]) -> tuple[_End, _End]:
    first, last = _LOW, _HIGH
    for bound, operator in zip(bounds, operators, strict=True):
        if operator in (">", ">="):
            first = max(first, (0, bound, int(operator == ">")))
        else:
            last = min(last, (0, bound, -int(operator == "<")))
    return first, last


def _max_overlap(firsts: list[_End], lasts: list[_End]) -> int:
    sorted_firsts, sorted_lasts = sorted(firsts), sorted(lasts)
    return max(bisect_right(sorted_firsts, point) - bisect_left(sorted_lasts, point) for point in sorted_firsts)


_LARGEST = 2**53
"""The most steps: integers up to this are exact doubles."""


def first_last_and_step(part: Expression, domain: Domain) -> tuple[int, int, Fraction] | None:
    """Return the first and the last multiple, and of what, of a part that rounds a bounded real; else None."""
    if not isinstance(part, Call) or domain.bounds is None or domain.type is not Type.REAL:
        return None
    if part.function in ("FLOOR", "CEIL", "TRUNC"):
        step = Fraction(1)
    elif part.function == "ROUND" and isinstance(part.arguments[1], Literal):
        step = Fraction(1, 10) ** int(part.arguments[1].value)  # type: ignore[arg-type]
    else:
        return None
    low, high = (Fraction(bound) / step for bound in domain.bounds)  # type: ignore[arg-type]
    first, last = math.floor(low), math.ceil(high)
    return (first, last, step) if max(abs(first), abs(last)) <= _LARGEST else None


Counts = Callable[[Expression], bool]
"""Whether the values of a part can be listed."""


def replace_countable_parts(
    expressions: tuple[Expression, ...], counts: Counts
) -> tuple[tuple[Expression, ...], dict[Expression, Column]]:
    """Replace the countable parts of expressions by columns; return the rewritten expressions, and the columns by part.

    It is done for every real without listed values that is read in no other way.
    """
    part_columns: dict[Expression, Column] = {}
    for reference, domain in {
        column: column_domain for expression in expressions for column, column_domain in columns(expression).items()
    }.items():
        if domain.type is Type.REAL and domain.values is None:
            trial_columns = dict(part_columns)
            rewritten = [_replace_parts(expression, reference, counts, trial_columns) for expression in expressions]
            if None not in rewritten:
                expressions, part_columns = (
                    tuple(expression for expression in rewritten if expression is not None),
                    trial_columns,
                )
    return expressions, part_columns


def _replace_parts(
    expression: Expression, column: Reference, counts: Counts, part_columns: dict[Expression, Column]
) -> Expression | None:
    """Replace the innermost countable parts that read a column by columns, and add these to ``part_columns``; return
    None if the column is read in another way.
    """
    if column not in columns(expression):
        return expression
    if not isinstance(expression, Call):
        return None
    arguments = [_replace_parts(argument, column, counts, part_columns) for argument in expression.arguments]
    if None not in arguments:
        return Call(
            expression.function, tuple(argument for argument in arguments if argument is not None), expression.domain
        )
    if not expression.domain.type.numeric or not counts(expression):
        return None
    return part_columns.setdefault(expression, Column(Field(-1 - len(part_columns), "", "part"), expression.domain))


_HOURLY_PARTS = frozenset(["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour"])


def is_constant_within_hours(column: Column, expressions: tuple[Expression, ...]) -> bool:
    """Return whether a time is read only through functions that are constant within every hour."""
    uses = hourly_uses = 0
    for expression in expressions:
        for node in walk(expression):
            uses += isinstance(node, Column) and node.reference == column.reference
            if isinstance(node, Call) and column in node.arguments:
                hourly_uses += _is_constant_within_hour(node)
    return uses == hourly_uses


def _is_constant_within_hour(node: Call) -> bool:
    if node.function == "CAST":
        return node.domain.type is Type.DATE
    if node.function == "IS NULL":
        return True
    if node.function == "STRFTIME":
        date_format = node.arguments[1]
        return isinstance(date_format, Literal) and calendar.format_parts(str(date_format.value)) <= _HOURLY_PARTS
    part = node.arguments[0]
    if node.function == "TIME_BUCKET":
        amount, unit, _, origin = node.arguments
        bucket = written_bucket(amount, unit, origin)
        return bucket.months is not None or (bucket.seconds % 3600 == 0 and bucket.count_offset % 3600 == 0)
    return node.function in ("EXTRACT", "DATE_TRUNC") and isinstance(part, Literal) and part.value in _HOURLY_PARTS


def weaken_to_hours(condition: Expression, column: Column) -> Expression | None:
    """Return a condition on the start of an hour that holds wherever this one holds at some time of the hour; None when
    none is known. AND and OR are monotone, so each of their parts may be weakened.
    """
    if is_constant_within_hours(column, (condition,)):
        return condition
    if not isinstance(condition, Call):
        return None
    if condition.function in ("AND", "OR"):
        weakened = [weaken_to_hours(argument, column) for argument in condition.arguments]
        weaker_parts = [part for part in weakened if part is not None]
        if not weaker_parts or (condition.function == "OR" and len(weaker_parts) < len(weakened)):
            return None
        return call(condition.function, *weaker_parts) if len(weaker_parts) > 1 else weaker_parts[0]
    comparison = as_comparison(condition)
    if comparison is None or comparison.operand != column:
        return None
    return _compare_hours(column, comparison.operator, comparison.values)


def _compare_hours(column: Column, operator: str, values: tuple[Value, ...]) -> Expression:
    """Weaken a comparison to hours: some time of the hour is before a time if its start is, and after it if its start
    is no earlier than the start of that time's hour.
    """
    hour_starts = [_timestamp(calendar.truncate("hour", value)) for value in values]  # type: ignore[type-var]
    match operator:
        case "<" | "<=":
            return call(operator, column, _timestamp(values[0]))
        case ">" | ">=":
            return call(">=", column, hour_starts[0])
        case "BETWEEN":
            return call("BETWEEN", column, hour_starts[0], _timestamp(values[1]))
        case "<>":
            return call("NOT", call("IS NULL", column))
    return call("IN", column, *hour_starts)


def _timestamp(value: Value) -> Literal:
    return literal(Type.TIMESTAMP, value)
