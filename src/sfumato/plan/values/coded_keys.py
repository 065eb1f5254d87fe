"""A coded column is a key of the plan: the value itself where values are listed, and else the number of its bin.

Values with cells of their own come before the bins. Every row has one of the keys, or NULL where its value is missing
or in no cell. Bins of one width are found by whole arithmetic; others by comparisons with their edges, halving the bins
each time. So a value on an edge is where SQL says it is, and a real is compared as the double it is stored as.

This module counts how many rows of a public table one value can meet by comparisons: bands such as ``x >= low AND x
< high``.

*Claim.* Let every row be met by the values of an interval, given by its first and its last value. Then the most rows
that one value meets are met by the first value of some interval. *Proof.* Take a value that meets the most rows, and
the largest first value among those rows' intervals: it lies in all of them. ∎ So it is found from the public rows
alone, whatever the private values are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sfumato.plan.values.expressions import Column, Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type, Value
from sfumato.policy.codings import Coding


def coded_key(column: Column, coding: Coding | None) -> tuple[Expression, tuple[Value, ...]]:
    """Give the key of a coded column, under which every row counts, and what the key is in each cell, in order.

    The last cell, of what is missing or in no other, has none: the key is NULL there.
    """
    column = replace(column, domain=replace(column.domain, nullable=True))
    if coding is None or not coding.starts:
        return column, listed(column.domain)
    assert coding.end is not None
    regular = coding.width is not None and column.domain.bounds is not None
    number = (_divided(column, coding) if regular else None) or _halved(column, coding.starts, 0, len(coding.starts))
    inside = call("AND", _compare(">=", column, coding.starts[0]), _compare("<=", column, coding.end))
    count = len(coding.spikes)
    if not count:
        return call("CASE", inside, number), tuple(range(len(coding.starts)))
    alone = [part for place, each in enumerate(coding.spikes) for part in _is(column, each, place)]
    moved = call("+", number, literal(Type.INTEGER, count))
    return call("CASE", *alone, inside, moved), tuple(range(count + len(coding.starts)))


def _is(column: Column, value: Value, place: int) -> tuple[Expression, Expression]:
    """Give a value that has a cell of its own, as a branch of a choice."""
    return _compare("=", column, value), literal(Type.INTEGER, place)


def listed(domain: Domain) -> tuple[Value, ...]:
    """List the values of a column that are cells of their own."""
    return (False, True) if domain.values is None else domain.values


def _compare(operator: str, column: Expression, edge: Value) -> Expression:
    return call(operator, column, literal(column.domain.type, edge))


def _halved(column: Column, starts: Sequence[Value], first: int, after: int) -> Expression:
    """Find the bin of a value that is in one of those from ``first`` to before ``after``."""
    if after - first == 1:
        return literal(Type.INTEGER, first)
    middle = (first + after) // 2
    below = _compare("<", column, starts[middle])
    return call("CASE", below, _halved(column, starts, first, middle), _halved(column, starts, middle, after))


def _divided(column: Column, coding: Coding) -> Expression | None:
    """Count whole widths from where the first bin would start if it were not cut short; None for what is too large."""
    width, second = coding.width, coding.starts[1]
    assert width is not None
    start = literal(column.domain.type, second)
    if column.domain.type.temporal:
        after = call("DATE_DIFF", literal(Type.TEXT, "day"), start, column)
    else:
        after = call("-", column, start)
    distance = call("+", after, literal(Type.INTEGER, width))
    if distance.domain.type is not Type.INTEGER:
        return None
    return call("//", distance, literal(Type.INTEGER, width))


MOST_ROWS = 10_000
"""Of a public table that is joined by comparisons alone."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The same comparison with its sides exchanged."""

_End = tuple[int, Any, int]
"""Before all values (-1), at, just before or just after a value (0), or after all values (1)."""
_LOW: _End = (-1, 0, 0)
_HIGH: _End = (1, 0, 0)


def most_met(rows: Iterable[tuple[Sequence[Any], Sequence[Any]]], operators: Sequence[str]) -> int:
    """Count the most rows that one value meets among those that share a key.

    A row is its key and, for each operator, what the value is compared with: x operator bound.
    """
    firsts: defaultdict[tuple[Any, ...], list[_End]] = defaultdict(list)
    lasts: defaultdict[tuple[Any, ...], list[_End]] = defaultdict(list)
    for key, bounds in rows:
        first, last = _interval(bounds, operators)
        if first <= last:
            firsts[tuple(key)].append(first)
            lasts[tuple(key)].append(last)
    return max((_most(firsts[key], lasts[key]) for key in firsts), default=0)


def _interval(bounds: Sequence[Any], operators: Sequence[str]) -> tuple[_End, _End]:
    first, last = _LOW, _HIGH
    for bound, operator in zip(bounds, operators, strict=True):
        if operator in (">", ">="):
            first = max(first, (0, bound, int(operator == ">")))
        else:
            last = min(last, (0, bound, -int(operator == "<")))
    return first, last


def _most(firsts: list[_End], lasts: list[_End]) -> int:
    begun, ended = sorted(firsts), sorted(lasts)
    return max(bisect_right(begun, each) - bisect_left(ended, each) for each in begun)
