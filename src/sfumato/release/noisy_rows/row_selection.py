"""Rows of noisy columns: taken, put below one another, chosen by a public condition, and ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.release.noisy_rows.noise_forms import stack_forms
from sfumato.release.noisy_rows.noisy_columns import (
    Bools,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    are_nulls_certain,
    as_linear,
    as_numbers,
    as_truths,
    choose_rows,
    confidence_statements,
    null_mask,
    object_array,
)

NO_ROW = -1
"""The index of a row that is not there: NULL, without noise."""


def take_rows(column: Evaluated, rows: NDArray[np.intp]) -> Evaluated:
    """Return these rows of a column; −1 is NULL."""
    if isinstance(column, LinearColumn):
        return column.take(rows)
    here = rows >= 0
    if isinstance(column, NumberColumn):
        value, low, high = (np.where(here, part[rows], np.nan) for part in (column.value, column.low, column.high))
        nulls_sure = _take_nulls_sure(column.nulls_sure, rows)
        return replace(column, value=value, low=low, high=high, nulls_sure=nulls_sure)
    if isinstance(column, ExactColumn):
        value = np.where(here, column.value[rows], object_array([None] * len(rows)))
        return replace(column, value=value, nulls_sure=_take_nulls_sure(column.nulls_sure, rows))
    return replace(
        column, true=column.true[rows] & here, known=column.known[rows] & here, sure=column.sure[rows] | ~here
    )


def _take_nulls_sure(nulls_sure: Bools | None, rows: NDArray[np.intp]) -> Bools | None:
    return None if nulls_sure is None else nulls_sure[rows] | (rows < 0)


def stack_columns(columns: Sequence[Evaluated]) -> Evaluated:
    """Put columns one below the other."""
    first = next((column for column in columns if isinstance(column, LinearColumn)), None)
    linear = [] if first is None else [as_linear(column, first) for column in columns]
    parts = [column for column in linear if column is not None]
    if first is not None and len(parts) == len(columns):
        value, centre = (np.concatenate([getattr(column, part) for column in parts]) for part in ("value", "centre"))
        total = sum(column.statement.total for column in parts)
        stacked = first.derived(value, centre, stack_forms([column.form for column in parts]))
        return replace(stacked, statement=replace(stacked.statement, total=total))
    exact = [column for column in columns if isinstance(column, ExactColumn)]
    if len(exact) == len(columns):
        is_chosen = any(column.chosen_by_noise for column in exact)
        values = np.concatenate([column.value for column in exact])
        return ExactColumn(values, is_chosen, np.concatenate([*map(are_nulls_certain, columns)]))
    if any(isinstance(column, TruthColumn) for column in columns):
        truth_columns = [as_truths(column) for column in columns]
        true, known, sure = (
            np.concatenate([getattr(column, part) for column in truth_columns]) for part in ("true", "known", "sure")
        )
        return TruthColumn(true, known, sure, confidence_statements(*columns))
    number_columns = [as_numbers(column) for column in columns]
    value, low, high = (
        np.concatenate([getattr(column, part) for column in number_columns]) for part in ("value", "low", "high")
    )
    nulls_sure = np.concatenate([*map(are_nulls_certain, columns)])
    is_noisy_rank = all(column.is_noisy_rank for column in number_columns)
    return NumberColumn(value, low, high, confidence_statements(*columns), nulls_sure, is_noisy_rank)


def select_rows(yes: Evaluated, no: Evaluated, test: Bools) -> Evaluated:
    """Take each row from one of two columns, as a public condition says."""
    first = next((column for column in (yes, no) if isinstance(column, LinearColumn)), None)
    if first is not None:
        chosen = choose_rows([as_linear(yes, first), as_linear(no, first)], np.where(test, 0, 1))
        if chosen is not None:
            return chosen
    nulls_sure = np.where(test, are_nulls_certain(yes), are_nulls_certain(no))
    if isinstance(yes, ExactColumn) and isinstance(no, ExactColumn):
        return ExactColumn(np.where(test, yes.value, no.value), yes.chosen_by_noise or no.chosen_by_noise, nulls_sure)
    if isinstance(yes, TruthColumn) or isinstance(no, TruthColumn):
        a, b = as_truths(yes), as_truths(no)
        true, known, sure = (np.where(test, *pair) for pair in ((a.true, b.true), (a.known, b.known), (a.sure, b.sure)))
        return TruthColumn(true, known, sure, a.statements | b.statements)
    left, right = as_numbers(yes), as_numbers(no)
    pairs = ((left.value, right.value), (left.low, right.low), (left.high, right.high))
    value, low, high = (np.where(test, *pair) for pair in pairs)
    return NumberColumn(value, low, high, left.statements | right.statements, nulls_sure)


def dense_sort_ranks(column: Evaluated, descending: bool, nulls_first: bool) -> NDArray[np.intp]:
    """Return dense ranks that sort a column, equal for equal values."""
    is_null = null_mask(column)
    value_ranks = _dense_value_ranks(column, ~is_null)
    rank_count = value_ranks.max(initial=0) + 1
    return np.where(
        is_null, -1 if nulls_first else rank_count, rank_count - 1 - value_ranks if descending else value_ranks
    )


def refine_codes(codes: NDArray[np.intp], value_ranks: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number rows by their codes, and rows of one code by their ranks: equal pairs alike, in ascending order.

    The ranks of n rows, NULL among them, have at most n different values that follow one another, so no two pairs meet.
    """
    return np.unique(codes * len(value_ranks) + value_ranks, return_inverse=True)[1]


def _dense_value_ranks(column: Evaluated, is_present: Bools) -> NDArray[np.intp]:
    """Return the dense rank of each non-NULL value."""
    value_ranks = np.zeros(len(is_present), np.intp)
    if isinstance(column, ExactColumn):
        values = column.value[is_present].tolist()
        rank_of = {value: index for index, value in enumerate(sorted(set(values), key=_fraction_as_float))}
        value_ranks[is_present] = [rank_of[value] for value in values]
    else:
        sort_values = column.true if isinstance(column, TruthColumn) else column.value
        value_ranks[is_present] = np.unique(sort_values[is_present], return_inverse=True)[1]
    return value_ranks


def _fraction_as_float(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
