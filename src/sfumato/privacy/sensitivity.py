"""Sensitivity: how much one unit can change a vector of exact totals; and the databases that differ by units.

Databases as histograms: x ∈ ℕ^|X| counts, for each possible record of a universe X, the units that hold it.

‖x − y‖₁ is the number of units to add or remove to turn one database into the other (Dwork & Roth 2014, section 2.3).
Counts are of units: where a unit has several rows, its record is all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, NeighboursDiffer, ValueWords
from sfumato.privacy import codec
from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

Histogram = Mapping[Hashable, Number] | Sequence[Number]


def as_histogram(records: Iterable[Hashable], universe: Iterable[Hashable]) -> tuple[int, ...]:
    """Count how many of the records are each element of the universe, in its order.

    >>> as_histogram(["student", "student", "staff"], ("student", "professor", "staff"))
    (2, 0, 1)
    """
    kinds = _require_hashable(_as_list(universe, "universe"), "universe")
    counts: dict[Hashable, int] = dict.fromkeys(kinds, 0)
    if len(counts) < len(kinds):
        raise InvalidParameter("universe", ValueWords("a list that repeats a record"), "a list of distinct records")
    for record in _require_hashable(_as_list(records, "records"), "records"):
        if record not in counts:
            raise InvalidParameter("records", record, "a list of records that are all in the universe")
        counts[record] += 1
    return tuple(counts.values())


def distance(x: Histogram, y: Histogram) -> int:
    """Return ‖x − y‖₁ = Σ|xᵢ − yᵢ| of two histograms over the same universe; mappings are joined by record.

    >>> distance([150, 20, 30], [150, 21, 29])
    2
    """
    return sum(abs(first - second) for first, second in _paired_counts(x, y))


def neighbours(x: Histogram, y: Histogram, relation: Neighbours | str = Neighbours.ADD_REMOVE) -> bool:
    """Return whether two histograms differ in at most one unit: ‖x − y‖₁ ≤ 1 where a unit is added or removed;
    ‖x − y‖₁ ≤ 2 and ‖x‖₁ = ‖y‖₁ where one is replaced.
    """
    counts = _paired_counts(x, y)
    differing = sum(abs(first - second) for first, second in counts)
    if Neighbours.of(relation) is Neighbours.ADD_REMOVE:
        return differing <= 1
    return differing <= 2 and sum(first for first, _ in counts) == sum(second for _, second in counts)


def _paired_counts(x: Histogram, y: Histogram) -> list[tuple[int, int]]:
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        records = list(dict.fromkeys([*x, *y]))
        first, second = [x.get(record, 0) for record in records], [y.get(record, 0) for record in records]
    elif isinstance(x, Mapping) or isinstance(y, Mapping):
        given = ValueWords(f"a {type(x).__name__} and a {type(y).__name__}")
        raise InvalidParameter(
            "x and y", given, "two mappings or two lists of counts", fix="write both as lists, or both as mappings"
        )
    else:
        first, second = _as_list(x, "x"), _as_list(y, "y")
    if len(first) != len(second):
        raise InvalidParameter(
            "y",
            ValueWords(f"a list of length {len(second)}"),
            f"a list of counts of length {len(first)}, as long as x",
            fix="give x and y the same length",
        )
    return [(exact_integer(a, "x"), exact_integer(b, "y")) for a, b in zip(first, second, strict=True)]


def _require_hashable(values: list[Any], name: str) -> list[Any]:
    for value in values:
        if not isinstance(value, Hashable):
            rule = "a list of hashable records: texts, numbers or tuples of them, but not lists"
            got = ValueWords(f"a record of type {type(value).__name__}")
            raise InvalidParameter(name, got, rule, fix="write each record as a text, a number or a tuple")
    return values


def _as_list(values: object, name: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(name, values, "a list")
    return list(values)


def _require_exact_squares(squares: Fraction, per_group: Number) -> Fraction:
    try:
        return exact(squares, "squares", NONNEGATIVE)
    except InvalidParameter:
        rule = "a number whose square, added up over the groups, is 0 or between 1e-300 and 1e300"
        fix = "give per_group a value between 1e-100 and 1e100"
        raise InvalidParameter("per_group", per_group, rule, fix=fix) from None


@codec.serialisable("sensitivity")
@dataclass(frozen=True)
class Sensitivity:
    """Bounds on one unit's change: at most ``groups`` coordinates, each by at most ``per_group``.

    ``total`` bounds the sum of all changes (the L1 norm) and ``squares`` the sum of their squares (L2 squared)
    where more is known than the first two say: rows limited to ``m`` per unit give ``total=m``. Both are
    tightened to what the other bounds already imply, so equal knowledge is an equal value.

    >>> Sensitivity(groups=4, per_group=2, total=5)
    Sensitivity(groups=4, per_group=2, total=5, squares=9, neighbours='add-remove')
    """

    groups: int
    per_group: Fraction
    total: Fraction
    squares: Fraction
    neighbours: Neighbours

    def __init__(
        self,
        groups: Number = 1,
        per_group: Number = 1,
        total: Number | None = None,
        squares: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        count = exact_integer(groups, "groups", at_least=1)
        linf = exact(per_group, "per_group", NONNEGATIVE)
        l1 = count * linf
        if total is not None:
            l1 = min(l1, exact(total, "total", NONNEGATIVE))
        linf = min(linf, l1)
        if squares is not None:
            squared_l2 = exact(squares, "squares", NONNEGATIVE)
            if squared_l2 < linf**2:
                linf = Fraction(_square_root_above(squared_l2))
            if count * squared_l2 < l1**2:
                l1 = Fraction(_square_root_above(count * squared_l2))
            linf = min(linf, l1)
            tight_squares = min(_concentrated_squares(linf, l1), squared_l2)
        else:
            tight_squares = _concentrated_squares(linf, l1)
        object.__setattr__(self, "groups", count)
        object.__setattr__(self, "per_group", linf)
        object.__setattr__(self, "total", l1)
        object.__setattr__(self, "squares", _require_exact_squares(tight_squares, per_group))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))

    @classmethod
    def of(cls, value: Sensitivity | Number) -> Sensitivity:
        """Return a Sensitivity; a number is the change of one coordinate."""
        if isinstance(value, Sensitivity):
            return value
        return cls(per_group=exact(value, "sensitivity", NONNEGATIVE))

    @property
    def l0(self) -> int:
        return self.groups

    @property
    def l1(self) -> Fraction:
        return self.total

    @property
    def l2(self) -> float:
        """The L2 norm, rounded up; ``squares`` is its exact square."""
        return _square_root_above(self.squares)

    @property
    def linf(self) -> Fraction:
        return self.per_group

    @property
    def coordinates(self) -> tuple[tuple[Fraction, int], ...]:
        """The most concentrated change, as pairs (size, count): as many coordinates at ``per_group`` as ``total``
        allows, then one with the remainder.

        Among all changes within the bounds it is the worst for Laplace noise (``noise_losses.LaplaceLoss``) and has
        the largest Euclidean norm.
        """
        if not self.per_group:
            return ()
        full_count, remainder = divmod(self.total, self.per_group)
        size_counts = ((self.per_group, int(full_count)), (remainder, 1))  # ``total`` is at least ``per_group``
        return tuple((size, count) for size, count in size_counts if size)

    def repeated(self, k: int) -> Sensitivity:
        """Return the sensitivity to k units at once: each norm, and the number of groups, grows k-fold."""
        k = exact_integer(k, "k", at_least=1)
        return Sensitivity(k * self.groups, k * self.per_group, k * self.total, k * k * self.squares, self.neighbours)

    def for_neighbours(self, neighbours: Neighbours | str, *, signed: bool = True) -> Sensitivity:
        """Return the sensitivity to replacing one unit, given the contributions of one that is added or removed.

        Two contributions differ by at most their sum: every norm doubles. When all contributions have
        one sign (counts, sums of values ≥ 0: ``signed=False``) a coordinate moves by at most one
        contribution, and the squares only double.
        """
        relation = Neighbours.of(neighbours)
        if relation is self.neighbours:
            return self
        if relation is Neighbours.ADD_REMOVE:
            raise NeighboursDiffer(
                self.neighbours.value,
                relation.value,
                place="Sensitivity.for_neighbours",
                fix="state the sensitivity for add-remove neighbours when you create it",
            )
        if not isinstance(signed, bool):
            raise InvalidParameter("signed", signed, "True or False")
        per_coordinate = 2 if signed else 1
        return Sensitivity(
            2 * self.groups,
            per_coordinate * self.per_group,
            2 * self.total,
            2 * per_coordinate * self.squares,
            relation,
        )

    def __repr__(self) -> str:
        return (
            f"Sensitivity(groups={self.groups}, per_group={format_exact(self.per_group)}, "
            f"total={format_exact(self.total)}, "
            f"squares={format_exact(self.squares)}, neighbours={self.neighbours.value!r})"
        )


def _concentrated_squares(linf: Fraction, total: Fraction) -> Fraction:
    """Return the largest Σv² with Σ|v| ≤ total and |v| ≤ linf: convex, so attained by full coordinates and a
    remainder.
    """
    if linf == total:
        return linf * linf
    if not linf:
        return Fraction(0)
    full_count, remainder = divmod(total, linf)
    return full_count * linf**2 + remainder**2


def _square_root_above(square: Fraction) -> float:
    """Return a float at least the square root of an exact number."""
    is_beyond_floats = square > Fraction(10**300)
    root = math.isqrt(math.ceil(square)) + 1.0 if is_beyond_floats else math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
