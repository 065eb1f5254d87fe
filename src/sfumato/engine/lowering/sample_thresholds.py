"""Sample most units by one threshold each, where an engine finds the least few numbers of a group without sorting it.

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
from sfumato.engine.lowering.relation_lowering import Columns, Stages, named_columns
from sfumato.engine.lowering.relational import (
    LeastValues,
    Reference,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    StageReference,
    apply,
    integer_constant,
)

MAX_LEAST = 12
"""The most codes of a unit that are compared."""
_MAX_GROUP_CODES = 2**31
"""So many times a rank, which is below 2^31, fits 63 bits."""
_ROWS, _THRESHOLDS, _ALIAS = StageReference("e"), StageReference("o"), "o"


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
    least = Select((*named_columns("u"), ("l", LeastValues(Reference("s"), count))), _ROWS, group_by=("u",))
    places = range(2, count + 1)
    increases = tuple((f"d{place}", _is_greater(place)) for place in places)
    compared = Select((*named_columns("ul"), *increases), least)
    before = [_sum_of([Reference(f"d{place}") for place in range(2, last + 1)]) for last in places]
    is_chosen = [apply(ScalarFunction.LESS, number, integer_constant(max_groups)) for number in before]
    last_chosen = _sum_of(
        [integer_constant(1)]
        + [apply(ScalarFunction.CASE, test, integer_constant(1), integer_constant(0)) for test in is_chosen]
    )
    is_settled = apply(ScalarFunction.AT_LEAST, before[-1], integer_constant(max_groups))
    threshold = apply(ScalarFunction.CASE, is_settled, apply(ScalarFunction.ELEMENT, Reference("l"), last_chosen))
    return (_ROWS.name, rows_with_codes), (_THRESHOLDS.name, Select((*named_columns("u"), ("x", threshold)), compared))


def _is_greater(place: int) -> Scalar:
    """Return 1 where the code at this place of the list is another than the one before, else 0."""
    element, previous = (
        apply(ScalarFunction.ELEMENT, Reference("l"), integer_constant(each)) for each in (place, place - 1)
    )
    is_greater = apply(ScalarFunction.GREATER, element, previous)
    return apply(ScalarFunction.CASE, is_greater, integer_constant(1), integer_constant(0))


def _sum_of(numbers: Sequence[Scalar]) -> Scalar:
    return apply(ScalarFunction.ADD, *numbers) if len(numbers) > 1 else numbers[0]


def rows_to_rank(columns: Columns) -> Select:
    """Select the rows of the units without a threshold."""
    return _joined(columns, apply(ScalarFunction.IS_NULL, Reference("x", _ALIAS)))


def with_settled_rows(ranked: Select, is_kept: Scalar, names: tuple[str, ...]) -> tuple[Select, Scalar]:
    """Add the rows of the units with a threshold to the ranked ones, with a column that says which are sampled."""
    is_within = apply(ScalarFunction.AT_MOST, Reference("s", "r"), Reference("x", _ALIAS))
    has_threshold = apply(ScalarFunction.NOT, apply(ScalarFunction.IS_NULL, Reference("x", _ALIAS)))
    settled = _joined((*named_columns(names, "r"), ("w", is_within)), has_threshold)
    union = RelationalUnion((Select((*named_columns(names), ("w", is_kept)), ranked), settled))
    return Select(named_columns((*names, "w")), union), Reference("w")


def _joined(columns: Columns, test: Scalar) -> Select:
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", _ALIAS))
    return Select(columns, _ROWS, joins=(RelationalJoin(_THRESHOLDS, _ALIAS, same_unit),), where=(test,))
