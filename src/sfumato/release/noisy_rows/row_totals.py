"""Aggregates over noisy rows: which rows are present, their groups, and COUNT, SUM, AVG, MIN and MAX of each group.

Which rows are present may itself depend on noisy values. So the interval of an aggregate covers every set of rows that
values within the intervals could have selected: rows that are surely present count in every case, others in some.

Also here: noisy rows are taken, put below one another, chosen by a public condition, and ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Bools, Floats, Indices
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.noise_forms import stack_forms
from sfumato.release.noisy_rows.noisy_columns import (
    NONE,
    ConfidenceStatements,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    are_nulls_certain,
    are_values_certain,
    as_linear,
    as_numbers,
    as_truths,
    choose_rows,
    confidence_statements,
    null_mask,
    object_array,
    statements_over_rows,
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
        true, is_known, sure = (
            np.concatenate([getattr(column, part) for column in truth_columns]) for part in ("true", "known", "sure")
        )
        return TruthColumn(true, is_known, sure, confidence_statements(*columns))
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
        true, is_known, sure = (
            np.where(test, *pair) for pair in ((a.true, b.true), (a.known, b.known), (a.sure, b.sure))
        )
        return TruthColumn(true, is_known, sure, a.statements | b.statements)
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


@dataclass(frozen=True)
class Presence:
    """Which rows are present, and for which of them that holds for all values within the intervals."""

    present: Bools
    sure: Bools
    statements: ConfidenceStatements = NONE
    """What decided on the rows, where noisy values did."""

    @classmethod
    def everywhere(cls, count: int) -> Presence:
        return cls(np.ones(count, bool), np.ones(count, bool))

    @property
    def surely_present(self) -> Bools:
        """The rows that are present for all values within the intervals."""
        return self.present & self.sure

    @property
    def possibly_present(self) -> Bools:
        """The rows that are present for some values within the intervals."""
        return self.present | ~self.sure

    def where(self, test: TruthColumn) -> Presence:
        """Keep the rows that also satisfy a predicate."""
        true = test.true & test.known
        sure = (self.sure & test.sure) | (self.sure & ~self.present) | (test.sure & ~true)
        return Presence(self.present & true, sure, self.statements | test.statements)

    def not_null(self, column: Evaluated) -> Presence:
        """Keep the rows in which a column has a value."""
        is_null, null_sure = null_mask(column), are_nulls_certain(column)
        sure = (self.sure & null_sure) | (self.sure & ~self.present) | (null_sure & is_null)
        decided_by = NONE if isinstance(column, LinearColumn) else confidence_statements(column)
        return Presence(self.present & ~is_null, sure, self.statements | decided_by)

    def take(self, rows: Indices) -> Presence:
        return Presence(self.present[rows], self.sure[rows], self.statements)

    def of_groups(self, codes: Indices, count: int) -> Presence:
        """Return the presence of groups: a group is present if one of its rows is."""
        here, surely, possibly = (
            _groups_with_any(rows, codes, count) for rows in (self.present, self.surely_present, self.possibly_present)
        )
        return Presence(here, np.where(here, surely, ~possibly), statements_over_rows(self.statements))


def group_codes_and_rows(keys: Sequence[Evaluated], present: Presence) -> tuple[Indices, Indices]:
    """Return the group number of each row, and one representative row of each group.

    Groups are ordered by their first row, those with a present row before others.
    """
    if not keys:
        return np.zeros(len(present.present), np.intp), np.zeros(1, np.intp)
    codes = np.zeros(len(present.present), np.intp)
    for column in keys:
        codes = refine_codes(codes, dense_sort_ranks(column, descending=False, nulls_first=False))
    order = np.argsort(~present.present, kind="stable")
    _, first_rows, group_numbers = np.unique(codes[order], return_index=True, return_inverse=True)
    row_order = np.argsort(first_rows)
    number_by_first_row = np.empty(len(first_rows), np.intp)
    number_by_first_row[row_order] = np.arange(len(first_rows))
    row_groups = np.empty(len(codes), np.intp)
    row_groups[order] = number_by_first_row[group_numbers]
    return row_groups, order[first_rows[row_order]]


def aggregate_groups(
    function: str, argument: Evaluated | None, present: Presence, codes: Indices, count: int
) -> NumberColumn | LinearColumn:
    """Compute an aggregate over each group's rows; NULL is ignored.

    Sums and means of linear columns are linear where it is certain which rows they add up.
    """
    statements = statements_over_rows(present.statements | confidence_statements(argument))
    if argument is not None:
        present = present.not_null(argument)
    if function == "COUNT":
        value, low, high = (
            sum_by_group(rows, codes, count)
            for rows in (present.present, present.surely_present, present.possibly_present)
        )
        return NumberColumn(value, low, high, statements_over_rows(present.statements))
    assert argument is not None
    linear = _linear_sum_or_average(function, argument, present, codes, count)
    if linear is not None and present.sure.all():
        return linear
    with np.errstate(invalid="ignore"):
        total = _AGGREGATES[function](as_numbers(argument), present, codes, count)
    if linear is not None:
        total = _narrow_to_linear_interval(total, linear, ~_groups_with_any(~present.sure, codes, count))
    some_surely, some_possibly = (
        _groups_with_any(rows, codes, count) for rows in (present.surely_present, present.possibly_present)
    )
    return replace(
        total, statements=statements | confidence_statements(linear), nulls_sure=some_surely | ~some_possibly
    )


def _linear_sum_or_average(
    function: str, argument: Evaluated, present: Presence, codes: Indices, count: int
) -> LinearColumn | None:
    """Add up the present rows of a linear column; None for other columns and functions."""
    if not isinstance(argument, LinearColumn) or function not in ("SUM", "AVG"):
        return None
    here = present.present
    row_counts = sum_by_group(here, codes, count)
    divisor = np.where(row_counts == 0, np.nan, row_counts if function == "AVG" else 1.0)
    value, centre = (sum_by_group(np.where(here, part, 0), codes, count) for part in (argument.value, argument.centre))
    form = argument.form.sum_by_group(np.where(here, codes, NO_ROW), count)
    return argument.derived(value / divisor, centre / divisor, form.scaled(np.nan_to_num(1 / divisor)))


def _narrow_to_linear_interval(total: NumberColumn, linear: LinearColumn, certain: Bools) -> NumberColumn:
    """Use the interval of the sum itself where the rows of a group are certain."""
    ranged = linear.ranged
    return replace(total, low=np.where(certain, ranged.low, total.low), high=np.where(certain, ranged.high, total.high))


def sum_by_group(values: NDArray[np.generic], codes: Indices, count: int) -> Floats:
    return np.bincount(codes, weights=values.astype(np.float64), minlength=count).astype(np.float64)


def _groups_with_any(rows: Bools, codes: Indices, count: int) -> Bools:
    return sum_by_group(rows, codes, count) > 0


def group_minimum(values: Floats, rows: Bools, codes: Indices, count: int) -> Floats:
    """Return the minimum over each group's selected rows; infinity where there is none."""
    minimum = np.full(count, np.inf)
    np.minimum.at(minimum, codes[rows], values[rows])
    return minimum


def _sum_groups(column: NumberColumn, present: Presence, codes: Indices, count: int) -> NumberColumn:
    here, surely, possibly = present.present, present.surely_present, present.possibly_present
    value = sum_by_group(np.where(here, column.value, 0), codes, count)
    low = np.where(surely, column.low, np.where(possibly, np.minimum(column.low, 0), 0))
    high = np.where(surely, column.high, np.where(possibly, np.maximum(column.high, 0), 0))
    empty = ~_groups_with_any(here, codes, count)
    return NumberColumn(
        np.where(empty, np.nan, value), sum_by_group(low, codes, count), sum_by_group(high, codes, count)
    )


def _min_groups(column: NumberColumn, present: Presence, codes: Indices, count: int) -> NumberColumn:
    """Compute each group's minimum.

    It is at most the highest value of any row that is surely present, or of any possible row where none is sure.
    """
    value = group_minimum(column.value, present.present, codes, count)
    low = group_minimum(column.low, present.possibly_present, codes, count)
    sure_high = group_minimum(column.high, present.surely_present, codes, count)
    possible_high = -group_minimum(-column.high, present.possibly_present, codes, count)
    return NumberColumn(
        np.where(np.isinf(value), np.nan, value), low, np.where(np.isinf(sure_high), possible_high, sure_high)
    )


def _max_groups(column: NumberColumn, present: Presence, codes: Indices, count: int) -> NumberColumn:
    negated_minimum = _min_groups(negated(column), present, codes, count)
    return negated(negated_minimum)


def negated(column: NumberColumn) -> NumberColumn:
    return NumberColumn(-column.value, -column.high, -column.low, column.statements, column.nulls_sure)


def _average_groups(column: NumberColumn, present: Presence, codes: Indices, count: int) -> NumberColumn:
    row_counts = sum_by_group(present.present, codes, count)
    total = _sum_groups(column, present, codes, count)
    certain = ~_groups_with_any(~present.sure, codes, count)
    possible_low = group_minimum(column.low, present.possibly_present, codes, count)
    possible_high = -group_minimum(-column.high, present.possibly_present, codes, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (
            np.where(certain, total.low / row_counts, possible_low),
            np.where(certain, total.high / row_counts, possible_high),
        )
        return NumberColumn(total.value / row_counts, low, high)


_AGGREGATES: dict[str, Callable[[NumberColumn, Presence, Indices, int], NumberColumn]] = {
    "SUM": _sum_groups,
    "AVG": _average_groups,
    "MIN": _min_groups,
    "MAX": _max_groups,
}


def correlation_or_slope(
    function: str, y: Evaluated, x: Evaluated, present: Presence, codes: Indices, count: int
) -> NumberColumn | LinearColumn:
    """Compute CORR or REGR_SLOPE of the rows in which both have a value.

    The slope on an exact x is linear in y: Σ(x − x̄)y/Σ(x − x̄)². Otherwise no interval is known; a correlation lies
    between −1 and 1.
    """
    present = present.not_null(y).not_null(x)
    here, ys, xs = present.present, as_numbers(y), as_numbers(x)
    means = [_zero_padded_average(np.where(here, part.value, 0), here, codes, count)[codes] for part in (ys, xs)]
    y_gaps, x_gaps = (np.where(here, part.value - mean, 0) for part, mean in zip((ys, xs), means, strict=True))
    spread, y_spread, joint = (
        sum_by_group(product, codes, count) for product in (x_gaps**2, y_gaps**2, x_gaps * y_gaps)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        if function == "CORR":
            value = joint / np.sqrt(spread * y_spread)  # 0/0 where one of them has a single value: NULL
            return NumberColumn(
                value, np.full(count, -1.0), np.ones(count), statements_over_rows(confidence_statements(y, x))
            )
        slope = joint / spread
        weights = np.nan_to_num(x_gaps / spread[codes])
    if isinstance(y, LinearColumn) and present.sure.all() and are_values_certain(xs)[here].all():
        centre = np.where(np.isnan(slope), np.nan, sum_by_group(np.where(here, weights * y.centre, 0), codes, count))
        return y.derived(slope, centre, y.form.scaled(weights).sum_by_group(np.where(here, codes, NO_ROW), count))
    return NumberColumn(
        slope, np.full(count, -np.inf), np.full(count, np.inf), statements_over_rows(confidence_statements(y, x))
    )


def _zero_padded_average(values: Floats, here: Bools, codes: Indices, count: int) -> Floats:
    return sum_by_group(values, codes, count) / np.maximum(sum_by_group(here, codes, count), 1)
