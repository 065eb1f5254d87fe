"""Databases as histograms: x ∈ ℕ^|X| counts, for each possible record of a universe X, the units that hold it.

‖x − y‖₁ is the number of units to add or remove to turn one database into the other (Dwork & Roth 2014, section 2.3).
Counts are of units: where a unit has several rows, its record is all of them together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.numbers import Number, exact_integer

Histogram = Mapping[Hashable, Number] | Sequence[Number]


def as_histogram(records: Iterable[Hashable], universe: Iterable[Hashable]) -> tuple[int, ...]:
    """Count how many of the records are each element of the universe, in its order.

    >>> as_histogram(["student", "student", "staff"], ("student", "professor", "staff"))
    (2, 0, 1)
    """
    kinds = _hashable(_listed(universe, "universe"), "universe")
    counts: dict[Hashable, int] = dict.fromkeys(kinds, 0)
    if len(counts) < len(kinds):
        raise InvalidParameter("universe", ValueWords("a list that repeats a record"), "a list of distinct records")
    for record in _hashable(_listed(records, "records"), "records"):
        if record not in counts:
            raise InvalidParameter("records", record, "a list of records that are all in the universe")
        counts[record] += 1
    return tuple(counts.values())


def distance(x: Histogram, y: Histogram) -> int:
    """Return ‖x − y‖₁ = Σ|xᵢ − yᵢ| of two histograms over the same universe; mappings are joined by record.

    >>> distance([150, 20, 30], [150, 21, 29])
    2
    """
    return sum(abs(first - second) for first, second in _paired(x, y))


def neighbours(x: Histogram, y: Histogram, relation: Neighbours | str = Neighbours.ADD_REMOVE) -> bool:
    """Return whether two histograms differ in at most one unit: ‖x − y‖₁ ≤ 1 where a unit is added or removed;
    ‖x − y‖₁ ≤ 2 and ‖x‖₁ = ‖y‖₁ where one is replaced.
    """
    counts = _paired(x, y)
    differing = sum(abs(first - second) for first, second in counts)
    if Neighbours.of(relation) is Neighbours.ADD_REMOVE:
        return differing <= 1
    return differing <= 2 and sum(first for first, _ in counts) == sum(second for _, second in counts)


def _paired(x: Histogram, y: Histogram) -> list[tuple[int, int]]:
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        records = list(dict.fromkeys([*x, *y]))
        first, second = [x.get(record, 0) for record in records], [y.get(record, 0) for record in records]
    elif isinstance(x, Mapping) or isinstance(y, Mapping):
        given = ValueWords(f"a {type(x).__name__} and a {type(y).__name__}")
        raise InvalidParameter("x and y", given, "two mappings or two lists of counts")
    else:
        first, second = _listed(x, "x"), _listed(y, "y")
    if len(first) != len(second):
        raise InvalidParameter("y", ValueWords(f"{len(second)} counts"), f"{len(first)} counts, as many as x has")
    return [(exact_integer(a, "x"), exact_integer(b, "y")) for a, b in zip(first, second, strict=True)]


def _hashable(values: list[Any], name: str) -> list[Any]:
    for value in values:
        if not isinstance(value, Hashable):
            raise InvalidParameter(name, value, "a list of records that can be compared, such as texts or tuples")
    return values


def _listed(values: object, name: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(name, values, "a list")
    return list(values)
