"""Rank the rows of units beyond a limit, and test which of them are sampled.

Where the declared keys make few groups, their numbers in the rows of a unit are a set that fits one number: the groups
of the unit, in turn from a place that its seed decides, are chosen without ranking them, and each is chosen as often.
Theorem: a unit has n rows in d groups, of which min(d, g) are chosen; its rows there are at most n − d + min(d, g) in
all and n − d + 1 in one group. *Proof.* Each of the d − min(d, g) other groups has a row; so has each of the d − 1 that
are beside a group. ∎ If these numbers are within the limits, all rows in chosen groups count; only units of which that
is not known have ranked rows, and only those in their chosen groups. What a unit counts is a function of its own rows.

Of more groups, most units are sampled by one threshold each, where an engine finds the least few numbers of a group
without sorting it.

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
from dataclasses import replace

from sfumato.engine.lowering.cell_lowering import CountedRows
from sfumato.engine.lowering.relation_lowering import Columns, Stages, all_of, unrenamed_columns
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    GroupTotal,
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
    with_seeds,
)
from sfumato.plan.bounding import BoundedPlan
from sfumato.quick_dataclass import dataclass

MAX_GROUP_NUMBERS = 62
"""So many bits fit 63."""
_NUMBER_SET = AggregateFunction.NUMBER_SET
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
    def least(self) -> int:
        """The number of rows with which a unit is surely within all limits."""
        return min(limit for limit in (self.rows, self.groups, self.rows_per_group) if limit is not None)

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


# Sets of groups


def has_group_sets(rows: CountedRows) -> bool:
    """Return whether every key is the code of a declared text, and a set of groups fits the bits of one number."""
    return rows.codes.keys() == {*rows.keys} and _count_group_numbers(rows) <= MAX_GROUP_NUMBERS


def _count_group_numbers(rows: CountedRows) -> int:
    return math.prod(len(texts) + 1 for texts in rows.codes.values())


def _group_number(rows: CountedRows) -> Scalar:
    """Compute the number of a row's group: different for different groups, from 0 on."""
    first, *others = zip(rows.keys, _key_numbers(rows), strict=True)
    number = first[1]
    for name, ordinal in others:
        shifted = apply(ScalarFunction.MULTIPLY, number, integer_constant(len(rows.codes[name]) + 1))
        number = apply(ScalarFunction.ADD, shifted, ordinal)
    return number


def units_with_group_sets(
    units: tuple[str, Select], rows: CountedRows, limits: SampleLimits, sampling_key: int
) -> tuple[str, Select]:
    """Add the set of its groups ``x``, their number ``d`` and its seed to each unit, less those within all limits; and
    ``w``: how many of its groups count with all their rows, where that is settled, else 0.
    """
    name, select = units
    counted = replace(select, columns=(*select.columns, ("x", GroupTotal(_NUMBER_SET, _group_number(rows)))))
    size = apply(ScalarFunction.MEMBERS_BELOW, Reference("x"), integer_constant(MAX_GROUP_NUMBERS))
    sized = Select((*unrenamed_columns("unx"), ("d", size)), counted)
    sizes, max_groups, is_settled = Reference("d"), integer_constant(limits.groups or 0), _is_settled(limits)
    is_beyond = apply(
        ScalarFunction.OR,
        apply(ScalarFunction.GREATER, sizes, max_groups),
        apply(ScalarFunction.NOT, is_settled),
    )
    settled_groups = apply(ScalarFunction.CASE, is_settled, max_groups, integer_constant(0))
    beyond = Select((*unrenamed_columns("unxd"), ("w", settled_groups)), sized, where=(is_beyond,))
    return name, with_seeds(beyond, sampling_key, *"xdw")


def _is_settled(limits: SampleLimits) -> Scalar:
    """Return whether a unit's numbers of rows ``n`` and of groups ``d`` prove that all its rows in as many groups as
    count are within the other limits: every group that is left out has a row, and so has every one beside the largest.
    """
    sizes, max_groups = Reference("d"), integer_constant(limits.groups or 0)
    others = apply(ScalarFunction.SUBTRACT, Reference("n"), sizes)
    tests = []
    if limits.rows is not None:
        most_rows = apply(ScalarFunction.ADD, others, apply(ScalarFunction.LEAST, sizes, max_groups))
        tests.append(apply(ScalarFunction.AT_MOST, most_rows, integer_constant(limits.rows)))
    if limits.rows_per_group is not None:
        tests.append(apply(ScalarFunction.LESS, others, integer_constant(limits.rows_per_group)))
    return all_of(tests)


def _group_place(rows: CountedRows) -> Scalar:
    """Compute the place of a row's group among those of its unit, from 0 at the one where the unit's choice begins."""
    members = apply(ScalarFunction.MEMBERS_BELOW, Reference("x", "h"), _group_number(rows))
    return apply(
        ScalarFunction.REMAINDER,
        apply(ScalarFunction.ADD, members, Reference(SEED_COLUMNS[0], "h")),
        Reference("d", "h"),
    )


def rows_settled(rows: CountedRows) -> Select:
    """Select the rows that count of all units but those whose rows must be ranked."""
    is_light = apply(ScalarFunction.IS_NULL, Reference("w", "h"))
    is_chosen = apply(ScalarFunction.LESS, _group_place(rows), Reference("w", "h"))
    names = (name for name, _ in rows.select.columns)
    return Select(
        unrenamed_columns(names, "r"),
        rows.select,
        joins=(RelationalJoin(StageReference("h"), "h", _is_same_unit("h"), outer=True),),
        where=(apply(ScalarFunction.OR, is_light, is_chosen),),
    )


def rows_ranked_in_groups(rows: CountedRows, limits: SampleLimits) -> Select:
    """Select the sampled rows of the other units: in their chosen groups, of the smallest ranks."""
    place, max_groups = _group_place(rows), integer_constant(limits.groups or 0)
    names = dict.fromkeys(("u", *rows.keys, *rows.distinguishing_columns, *rows.values))
    seed = unrenamed_columns(SEED_COLUMNS[:1], "h")
    ranked = Select(
        (*unrenamed_columns(names, "r"), *seed, ("s", place), ("t", ranks(rows, "h")[1])),
        rows.select,
        joins=(RelationalJoin(StageReference("h"), "h", _is_same_unit("h")),),
        where=(
            apply(ScalarFunction.EQUAL, Reference("w", "h"), integer_constant(0)),
            apply(ScalarFunction.LESS, place, max_groups),
        ),
    )
    if limits.max_spread_rows is None:
        ranked, is_kept = rank_rows(rows, replace(limits, groups=None), ranked)
    else:
        unit = Reference(SEED_COLUMNS[0]), Reference("u")
        order = tuple(map(Reference, ("t", *rows.distinguishing_columns)))
        ranked, is_kept = spread_rows(Select((), ranked, all_columns=True), None, limits.max_spread_rows, unit, order)
    return Select(unrenamed_columns(("u", *rows.keys, *rows.values)), ranked, where=(is_kept,))


def _is_same_unit(alias: str) -> Scalar:
    return apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", alias))


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
    return Select(columns, _ROWS, joins=(RelationalJoin(_THRESHOLDS, _ALIAS, _is_same_unit(_ALIAS)),), where=(test,))
