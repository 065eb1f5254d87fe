"""Group keys for coded columns: the value itself where values are listed, and else the number of its bin.

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
