"""Rank the rows of units beyond a limit, and test which of them are sampled."""

from __future__ import annotations

from sfumato.engine.lowering.cell_lowering import CountedRows
from sfumato.engine.lowering.relation_lowering import Columns, all_of
from sfumato.engine.lowering.relational import (
    Rank,
    Reference,
    RowNumber,
    Scalar,
    ScalarFunction,
    Select,
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


@dataclass(frozen=True)
class SampleLimits:
    """The limits that a sample checks: one that the others imply is None."""

    groups: int | None
    rows_per_group: int | None
    rows: int | None

    @classmethod
    def of(cls, bounded: BoundedPlan, rows: CountedRows) -> SampleLimits:
        limits = bounded.limits
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
    keys, values = [Reference(each) for each in rows.keys], [Reference(each) for each in rows.distinguishing_columns]
    places: list[tuple[str, Scalar]] = []
    if max_groups is not None:
        places.append(("a", Rank(unit, (Reference("s"), *keys), place=RowNumber.DENSE_RANK)))
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
        kept_first = (
            [apply(ScalarFunction.CASE, all_of(within_limits), integer_constant(0), integer_constant(1))]
            if within_limits
            else []
        )
        group_ranks = [Reference("s")] if max_groups is not None else []
        place = Rank(unit, (*kept_first, Reference("t"), *group_ranks, *keys, *values))
        ranked = Select((("d", place),), ranked, all_columns=True)
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
    kinds = dict(rows.apart)
    values = [(name, Reference(name, "r")) for name in rows.distinguishing_columns]
    return [number_of_value(value, kinds[name]) if name in kinds else value for name, value in values]
