"""Rank the rows of units beyond a limit, and test which of them are sampled.

Most units are sampled by one threshold each, where an engine finds the least few numbers of a group without sorting it.

Notation: the rows of a unit have the codes of their groups: different for different groups, and in the order in which
these are chosen. At most g groups and m > g rows count; L are the k least codes of a unit's rows, with repetitions (all
of them, if there are fewer), where g < k ≤ m + 1. Theorem: if L has more than g different codes, and T is the g-th of
them, the sampled rows are those whose code is at most T. *Proof.* T is less than the largest of L, so a row outside L,
whose code is at least that, is beyond T. So the g least codes of all rows, those of the chosen groups, are in L, and at
most k − 1 ≤ m rows have them: with N ≤ m rows in the chosen groups, ⌊p·m/N⌋ > ⌊(p − 1)·m/N⌋ for every p, and each is
kept. ∎ The rows of all other units are ranked, as those of every unit are elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.engine.lowering.cell_lowering import CountedRows
from sfumato.engine.lowering.relation_lowering import Columns, Stages, all_of, unrenamed_columns
from sfumato.engine.lowering.relational_form import (
    LeastValues,
    Rank,
    Reference,
    RelationalJoin,
    RelationalUnion,
    RowNumber,
    Scalar,
    ScalarFunction,
    Select,
    StageReference,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.sample_ranks import (
    MAX_SPREAD_ROWS,
    SEED_COLUMNS,
    mixed_rank,
    number_of_value,
    spread_rows,
)
from sfumato.plan.bounding import BoundedPlan
from sfumato.quick_dataclass import dataclass

MAX_LEAST = 12
"""The most codes of a unit that are compared."""
_MAX_GROUP_CODES = 2**31
"""So many times a rank, which is below 2^31, fits 63 bits."""
_ROWS, _THRESHOLDS, _ALIAS = StageReference("e"), StageReference("o"), "o"


@dataclass(frozen=True)
class SampleLimits:
    """The limits that a sample checks: one that the others imply is None."""

    groups: int | None
    rows_per_group: int | None
    rows: int | None

    @classmethod
    def for_rows(cls, bounded_plan: BoundedPlan, rows: CountedRows) -> SampleLimits:
        limits = bounded_plan.limits
        return cls(
            limits.groups if rows.keys and limits.groups < limits.rows else None,
            limits.rows_per_group if limits.rows_per_group < limits.rows else None,
            limits.rows if limits.total == limits.rows else None,
        )

    @property
    def max_spread_rows(self) -> int | None:
        """The most rows of a unit, where they are spread over its chosen groups."""
        is_spread = self.groups is not None and self.rows_per_group is None
        return self.rows if is_spread and self.rows is not None and self.rows <= MAX_SPREAD_ROWS else None


def rank_rows(rows: CountedRows, limits: SampleLimits, ranked: Select) -> tuple[Select, Scalar]:
    """Return rows with their places in the order of their ranks, and the predicate of the sampled ones.

    First the groups are chosen, then the rows in each, then the rows over all. A unit's rows are next to each other by
    its seed, which is compared more quickly than its id.
    """
    max_groups, max_rows_per_group, max_rows = limits.groups, limits.rows_per_group, limits.rows
    within_limits: list[Scalar] = []
    unit = Reference(SEED_COLUMNS[0]), Reference("u")
    keys, values = [Reference(name) for name in rows.keys], [Reference(name) for name in rows.distinguishing_columns]
    places: list[tuple[str, Scalar]] = []
    if max_groups is not None:
        places.append(("a", Rank(unit, (Reference("s"), *keys), numbering=RowNumber.DENSE_RANK)))
        within_limits.append(apply(ScalarFunction.AT_MOST, Reference("a"), integer_constant(max_groups)))
    if max_rows_per_group is not None:
        places.append(("b", Rank((*unit, *keys), (Reference("t"), *values))))
        within_limits.append(apply(ScalarFunction.AT_MOST, Reference("b"), integer_constant(max_rows_per_group)))
    if places:
        ranked = Select(tuple(places), ranked, all_columns=True)
    if limits.max_spread_rows is not None:
        order = (*keys, Reference("t"), *values)
        return spread_rows(ranked, all_of(within_limits), limits.max_spread_rows, unit, order)
    if max_rows is not None:
        within_first = (
            [apply(ScalarFunction.CASE, all_of(within_limits), integer_constant(0), integer_constant(1))]
            if within_limits
            else []
        )
        group_ranks = [Reference("s")] if max_groups is not None else []
        row_rank = Rank(unit, (*within_first, Reference("t"), *group_ranks, *keys, *values))
        ranked = Select((("d", row_rank),), ranked, all_columns=True)
        within_limits.append(apply(ScalarFunction.AT_MOST, Reference("d"), integer_constant(max_rows)))
    return ranked, all_of(within_limits)


def rank_columns(rows: CountedRows, grouped: bool) -> Columns:
    """Compute ``t``, the rank of a row; and ``s``, that of its group, where groups are chosen."""
    if grouped:
        group_rank, row_rank = ranks(rows, "h")
        return ("s", group_rank), ("t", row_rank)
    high, low = (Reference(name, "h") for name in SEED_COLUMNS)
    return (("t", mixed_rank([*_key_numbers(rows), *_row_numbers(rows)], (low, high))),)


def ranks(rows: CountedRows, seeds: str) -> tuple[Scalar, Scalar]:
    """Compute the rank of a row's group, and of the row among those of one group: the groups' own ranks order rows of
    equal values. The alias is that of the relation with the seeds.
    """
    high, low = (Reference(name, seeds) for name in SEED_COLUMNS)
    return mixed_rank(_key_numbers(rows), (high, low)), mixed_rank(_row_numbers(rows), (low, high))


def _key_numbers(rows: CountedRows) -> list[Scalar]:
    return [
        number_of_value(Reference(name, "r"), kind, rows.codes.get(name, ()))
        for name, kind in zip(rows.keys, rows.kinds, strict=True)
    ]


def _row_numbers(rows: CountedRows) -> list[Scalar]:
    kinds = dict(rows.identifying_columns)
    values = [(name, Reference(name, "r")) for name in rows.distinguishing_columns]
    return [number_of_value(value, kinds[name]) if name in kinds else value for name, value in values]


# Thresholds


def has_group_codes(rows: CountedRows) -> bool:
    """Return whether every key is the code of a declared text, and groups are few enough to number in their order."""
    return rows.codes.keys() == {*rows.keys} and _count_codes(rows) <= _MAX_GROUP_CODES


def _count_codes(rows: CountedRows) -> int:
    return math.prod(len(texts) + 2 for texts in rows.codes.values())


def group_code(rows: CountedRows, rank: Scalar) -> Scalar:
    """Compute the code of a row's group: in the order of ranks, then of keys, of which NULL is the last."""
    code = rank
    for name in rows.keys:
        texts = rows.codes[name]
        ordinal = apply(ScalarFunction.ORDINAL, Reference(name, "r"), detail=texts)
        digit = apply(ScalarFunction.COALESCE, ordinal, integer_constant(len(texts) + 1))
        shifted = apply(ScalarFunction.MULTIPLY, code, integer_constant(len(texts) + 2))
        code = apply(ScalarFunction.ADD, shifted, digit)
    return code


def threshold_stages(rows_with_codes: Select, max_groups: int, max_rows: int) -> Stages:
    """Return the stages of the rows, with their codes in ``s``, and of each unit's threshold; NULL is none."""
    count = min(max_rows + 1, MAX_LEAST)
    least = Select((*unrenamed_columns("u"), ("l", LeastValues(Reference("s"), count))), _ROWS, group_by=("u",))
    places = range(2, count + 1)
    increases = tuple((f"d{position}", _is_greater(position)) for position in places)
    compared = Select((*unrenamed_columns("ul"), *increases), least)
    before = [_sum_of([Reference(f"d{position}") for position in range(2, last + 1)]) for last in places]
    is_chosen = [apply(ScalarFunction.LESS, number, integer_constant(max_groups)) for number in before]
    last_chosen = _sum_of(
        [integer_constant(1)]
        + [apply(ScalarFunction.CASE, test, integer_constant(1), integer_constant(0)) for test in is_chosen]
    )
    is_settled = apply(ScalarFunction.AT_LEAST, before[-1], integer_constant(max_groups))
    threshold = apply(ScalarFunction.CASE, is_settled, apply(ScalarFunction.ELEMENT, Reference("l"), last_chosen))
    return (_ROWS.name, rows_with_codes), (
        _THRESHOLDS.name,
        Select((*unrenamed_columns("u"), ("x", threshold)), compared),
    )


def _is_greater(index: int) -> Scalar:
    """Return 1 where the code at this place of the list is another than the one before, else 0."""
    element, previous = (
        apply(ScalarFunction.ELEMENT, Reference("l"), integer_constant(position)) for position in (index, index - 1)
    )
    is_greater = apply(ScalarFunction.GREATER, element, previous)
    return apply(ScalarFunction.CASE, is_greater, integer_constant(1), integer_constant(0))


def _sum_of(numbers: Sequence[Scalar]) -> Scalar:
    return apply(ScalarFunction.ADD, *numbers) if len(numbers) > 1 else numbers[0]


def rows_to_rank(columns: Columns) -> Select:
    """Select the rows of the units without a threshold."""
    return _joined(columns, apply(ScalarFunction.IS_NULL, Reference("x", _ALIAS)))


def with_settled_rows(ranked: Select, is_kept: Scalar, columns: Columns) -> tuple[Select, Scalar]:
    """Add the rows of the units with a threshold to the ranked ones, with a column that says which are sampled."""
    names = [name for name, _ in columns]
    is_within = apply(ScalarFunction.AT_MOST, Reference("s", "r"), Reference("x", _ALIAS))
    has_threshold = apply(ScalarFunction.NOT, apply(ScalarFunction.IS_NULL, Reference("x", _ALIAS)))
    settled = _joined((*columns, ("w", is_within)), has_threshold)
    union = RelationalUnion((Select((*unrenamed_columns(names), ("w", is_kept)), ranked), settled))
    return Select(unrenamed_columns((*names, "w")), union), Reference("w")


def _joined(columns: Columns, test: Scalar) -> Select:
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", _ALIAS))
    return Select(columns, _ROWS, joins=(RelationalJoin(_THRESHOLDS, _ALIAS, same_unit),), where=(test,))
