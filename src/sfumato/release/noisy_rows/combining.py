"""Join and unite the noisy rows of several queries, and finish the SELECT over them: post-processing, which is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from sfumato.array_types import Indices
from sfumato.plan.nodes import CombinedRows
from sfumato.plan.noisy_rows import (
    NoisyJoin,
    NoisyRelation,
    NoisySelect,
    NoisySource,
    NoisyUnion,
    WithScalars,
    drops_duplicates,
    selects,
    selects_by_noise,
)
from sfumato.plan.values.expressions import Expression, NoisyColumn, Reference
from sfumato.release.noisy_rows.finishing import FinishedRows, apply_outer_select, with_intervals
from sfumato.release.noisy_rows.noisy_columns import (
    Evaluated,
    ExactColumn,
    TruthColumn,
    as_numbers,
    confidence_statements,
    evaluate_on,
    null_mask,
    object_array,
    statements_over_rows,
    with_statements,
)
from sfumato.release.noisy_rows.row_totals import (
    NO_ROW,
    Presence,
    dense_sort_ranks,
    group_codes_and_rows,
    refine_codes,
    stack_columns,
    take_rows,
)

SourceRows = Callable[[int], FinishedRows]
"""The finished rows of one query, with intervals of which so many hold at once."""


def finish_combined(combined: CombinedRows, sources: Sequence[SourceRows], *, joint: bool) -> FinishedRows:
    """Compute the answer of a SELECT over the noisy rows of several queries."""
    cached = [cache(source) for source in sources]
    is_selecting = (
        any(selects_by_noise(query.finish, query.outer) for query in combined.queries)
        or any(selects_by_noise(select.finish, (select,)) for select in selects(combined.rows))
        or drops_duplicates(combined.rows)
    )
    finished_for = cache(lambda draws: evaluate_relation(combined.rows, [source(draws) for source in cached]))
    return with_intervals(finished_for, joint=joint or is_selecting, combined=True)


def evaluate_relation(relation: NoisyRelation, sources: Sequence[FinishedRows]) -> FinishedRows:
    """Return the rows of a relation; those that are not shown come last."""
    match relation:
        case NoisySource(index):
            return sources[index]
        case NoisySelect(below, select):
            return apply_outer_select(select, evaluate_relation(below, sources))
        case NoisyJoin(left, right):
            return _join(relation, evaluate_relation(left, sources), evaluate_relation(right, sources))
        case NoisyUnion(members, distinct):
            united = _stack_relations([evaluate_relation(member, sources) for member in members])
            return _without_duplicates(united) if distinct else united
        case WithScalars(below, scalars):
            return _with_scalars(
                evaluate_relation(below, sources), [evaluate_relation(scalar, sources) for scalar in scalars]
            )


def _join(join: NoisyJoin, left: FinishedRows, right: FinishedRows) -> FinishedRows:
    """Join the shown rows of two relations, in the order of the left and then of the right."""
    left_codes, right_codes = _join_key_codes(join, left, right)
    order = np.argsort(right_codes, kind="stable")
    sorted_codes = right_codes[order]
    first = np.searchsorted(sorted_codes, left_codes, side="left")
    counts = np.searchsorted(sorted_codes, left_codes, side="right") - first
    left_rows = np.repeat(np.arange(len(left_codes)), counts)
    offsets = np.arange(len(left_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    right_rows = order[np.repeat(first, counts) + offsets]
    if join.keep_left:
        unmatched = np.flatnonzero(counts == 0)
        left_rows, right_rows = (
            np.concatenate([left_rows, unmatched]),
            np.concatenate([right_rows, np.full(len(unmatched), NO_ROW)]),
        )
        by_left = np.argsort(left_rows, kind="stable")
        left_rows, right_rows = left_rows[by_left], right_rows[by_left]
    if join.keep_right:
        unmatched = np.setdiff1d(np.arange(len(right_codes)), right_rows)
        left_rows, right_rows = (
            np.concatenate([left_rows, np.full(len(unmatched), NO_ROW)]),
            np.concatenate([right_rows, unmatched]),
        )
    columns = (*_take_columns(left, left_rows), *_take_columns(right, right_rows))
    count = len(left_rows)
    return FinishedRows(columns, np.arange(count), np.ones(count, bool), left.statements | right.statements)


def _take_columns(rows: FinishedRows, indices: Indices) -> tuple[Evaluated, ...]:
    """Return the shown rows with these positions; −1 is NULL."""
    if not len(rows.shown):
        return tuple(take_rows(column, np.full(len(indices), NO_ROW)) for column in _padded_for_lookup(rows.columns))
    chosen = np.where(indices >= 0, rows.shown[indices], NO_ROW)
    return tuple(take_rows(column, chosen) for column in rows.columns)


def _padded_for_lookup(columns: Sequence[Evaluated]) -> list[Evaluated]:
    """Return columns that can be indexed, also where no group was found."""
    return [column if _row_count(column) else ExactColumn(object_array([None])) for column in columns]


def _row_count(column: Evaluated) -> int:
    return len(column.true if isinstance(column, TruthColumn) else column.value)


def _join_key_codes(join: NoisyJoin, left: FinishedRows, right: FinishedRows) -> tuple[Indices, Indices]:
    """Number the key values of both sides, equal ones alike; where one of the right is NULL, it has no number of the
    left.
    """
    split, count = len(left.shown), len(left.shown) + len(right.shown)
    codes, is_null = np.zeros(count, np.intp), np.zeros(count, bool)
    for pair in join.pairs:
        sides = [_join_key_values(expression, side) for expression, side in zip(pair, (left, right), strict=True)]
        both = ExactColumn(object_array([_float_unless_whole(value) for side in sides for value in side]))
        codes = refine_codes(codes, dense_sort_ranks(both, descending=False, nulls_first=False))
        is_null |= null_mask(both)
    return codes[:split], np.where(is_null, NO_ROW, codes)[split:]


def _join_key_values(expression: Expression, rows: FinishedRows) -> list[object]:
    names: dict[Reference, Evaluated] = {NoisyColumn(index): column for index, column in enumerate(rows.columns)}
    column = evaluate_on(expression, names, _row_count(rows.columns[0]))
    if isinstance(column, ExactColumn):
        values = column.value
    else:
        numeric = as_numbers(column).value
        values = object_array([None if np.isnan(value) else value for value in numeric.tolist()])
    return list(values[rows.shown])


def _float_unless_whole(value: object) -> object:
    """Return a number that is not whole as a float, so that 0.5 of one side equals 1/2 of the other.

    Whole numbers stay as they are: beyond 2^53 a float would make two keys one.
    """
    if isinstance(value, (int, np.integer)):
        return int(value)
    return float(value) if hasattr(value, "__float__") else value


def _stack_relations(members: Sequence[FinishedRows]) -> FinishedRows:
    """Put the rows of several relations one below the other: shown rows first, member by member."""
    widths = [_row_count(member.columns[0]) for member in members]
    starts = np.cumsum([0, *widths[:-1]])
    columns = tuple(
        stack_columns([member.columns[index] for member in members]) for index in range(len(members[0].columns))
    )
    ordered_rows = np.concatenate([member.shown + start for member, start in zip(members, starts, strict=True)])
    sure = np.concatenate([member.sure for member in members])
    return FinishedRows(columns, ordered_rows, sure, frozenset().union(*(member.statements for member in members)))


def _without_duplicates(rows: FinishedRows) -> FinishedRows:
    """Keep the first of several shown rows that are equal in every column.

    Noisy numbers are compared as they are released. So where rows agree in all their exact columns, noise has decided
    how many of them are shown, and the ranges of all rows must hold at once.
    """
    everywhere = Presence.everywhere(len(rows.sure))
    codes, _ = group_codes_and_rows(rows.columns, everywhere)
    first_of_equal = np.unique(codes[rows.shown], return_index=True)[1]
    ordered_rows = rows.shown[np.sort(first_of_equal)]
    exact = [column for column in rows.columns if isinstance(column, ExactColumn) and not column.chosen_by_noise]
    if len(exact) == len(rows.columns):
        return replace(rows, shown=ordered_rows)
    exact_codes, _ = group_codes_and_rows(exact, everywhere)
    sure = rows.sure & (np.bincount(exact_codes)[exact_codes] == 1)
    return FinishedRows(rows.columns, ordered_rows, sure, rows.statements | confidence_statements(*rows.columns))


def _with_scalars(rows: FinishedRows, scalars: Sequence[FinishedRows]) -> FinishedRows:
    """Add a column for each scalar subquery: its first row, or NULL where it has none."""
    count = len(rows.sure)
    added = []
    for scalar in scalars:
        position = int(scalar.shown[0]) if len(scalar.shown) else NO_ROW
        column = _padded_for_lookup(scalar.columns)[0]
        taken = take_rows(column, np.full(count, position))
        added.append(with_statements(taken, statements_over_rows(scalar.statements)))
    return replace(rows, columns=(*rows.columns, *added))
