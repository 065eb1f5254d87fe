"""This module counts how many rows of a public table one value can meet by comparisons: bands such as ``x >= low AND x
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
from typing import Any

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
