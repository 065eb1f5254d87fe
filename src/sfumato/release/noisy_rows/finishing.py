"""Apply HAVING, windows, ORDER BY, LIMIT and outer SELECTs to noisy rows: post-processing, which costs no privacy.

Rows selected by HAVING, ORDER BY or LIMIT, and values combined from several rows, keep only simultaneous confidence
intervals. A row selected by noisy values is *surely* selected only if all values within the intervals select it.

Which rows are present may itself depend on noisy values. So the interval of an aggregate covers every set of rows that
values within the intervals could have selected: rows that are surely present count in every case, others in some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.aggregates.measures import Floats, GroupEstimate
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, NoisyWindow, Outer
from sfumato.plan.values.expressions import (
    Column,
    Expression,
    GroupingFlag,
    Key,
    NoisyColumn,
    Reference,
    Result,
    WindowResult,
    noise_count,
    walk,
)
from sfumato.release.noisy_rows.key_functions import AnswerRows
from sfumato.release.noisy_rows.noisy_columns import (
    Bools,
    Evaluated,
    ExactColumn,
    NumberColumn,
    TruthColumn,
    evaluate_on,
    is_sure,
    missing,
    numbers,
    objects,
    ranks,
    truths,
)

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Presence:
    """Which rows are present, and for which of them that holds for all values within the intervals."""

    present: Bools
    sure: Bools

    @classmethod
    def everywhere(cls, count: int) -> Presence:
        return cls(np.ones(count, bool), np.ones(count, bool))

    @property
    def surely(self) -> Bools:
        """The rows that are present for all values within the intervals."""
        return self.present & self.sure

    @property
    def possibly(self) -> Bools:
        """The rows that are present for some values within the intervals."""
        return self.present | ~self.sure

    def where(self, test: TruthColumn) -> Presence:
        """Keep the rows that also satisfy a predicate."""
        true = test.true & test.known
        sure = (self.sure & test.sure) | (self.sure & ~self.present) | (test.sure & ~true)
        return Presence(self.present & true, sure)

    def of_groups(self, codes: Places, count: int) -> Presence:
        """Return the presence of groups: a group is present if one of its rows is."""
        here, surely, possibly = (_any_row(rows, codes, count) for rows in (self.present, self.surely, self.possibly))
        return Presence(here, np.where(here, surely, ~possibly))


def group_codes(keys: Sequence[Evaluated], present: Presence) -> tuple[Places, Places]:
    """Return the group number of each row, and one representative row of each group.

    Groups are ordered by their first row, those with a present row before others.
    """
    if not keys:
        return np.zeros(len(present.present), np.intp), np.zeros(1, np.intp)
    codes = np.zeros(len(present.present), np.intp)
    for column in keys:
        value_ranks = ranks(column, descending=False, nulls_first=False)
        codes = np.unique(codes * (int(value_ranks.max(initial=0)) + 2) + value_ranks + 1, return_inverse=True)[1]
    order = np.argsort(~present.present, kind="stable")
    _, first_rows, group_numbers = np.unique(codes[order], return_index=True, return_inverse=True)
    row_order = np.argsort(first_rows)
    number_by_first_row = np.empty(len(first_rows), np.intp)
    number_by_first_row[row_order] = np.arange(len(first_rows))
    row_groups = np.empty(len(codes), np.intp)
    row_groups[order] = number_by_first_row[group_numbers]
    return row_groups, order[first_rows[row_order]]


def row_total(function: str, argument: Evaluated | None, present: Presence, codes: Places, count: int) -> NumberColumn:
    """Compute an aggregate over each group's rows; NULL is ignored."""
    if argument is not None:
        is_null = missing(argument)
        present = Presence(present.present & ~is_null, present.sure & (~is_null | is_sure(argument)))
    if function == "COUNT":
        value, low, high = (_sum(rows, codes, count) for rows in (present.present, present.surely, present.possibly))
        return NumberColumn(value, low, high)
    assert argument is not None
    with np.errstate(invalid="ignore"):
        return _AGGREGATES[function](numbers(argument), present, codes, count)


def _sum(values: NDArray[np.generic], codes: Places, count: int) -> Floats:
    return np.bincount(codes, weights=values.astype(np.float64), minlength=count).astype(np.float64)


def _any_row(rows: Bools, codes: Places, count: int) -> Bools:
    return _sum(rows, codes, count) > 0


def _group_minimum(values: Floats, rows: Bools, codes: Places, count: int) -> Floats:
    """Return the minimum over each group's selected rows; infinity where there is none."""
    minimum = np.full(count, np.inf)
    np.minimum.at(minimum, codes[rows], values[rows])
    return minimum


def _sum_rows(column: NumberColumn, present: Presence, codes: Places, count: int) -> NumberColumn:
    here, surely, unsure = present.present, present.surely, present.possibly & ~present.surely
    value = _sum(np.where(here, column.value, 0), codes, count)
    low = np.where(surely, column.low, np.where(unsure, np.minimum(column.low, 0), 0))
    high = np.where(surely, column.high, np.where(unsure, np.maximum(column.high, 0), 0))
    empty = ~_any_row(here, codes, count)
    bounds = _sum(low, codes, count), _sum(high, codes, count)
    if column.sum_width is not None:
        bounds = _narrow_sums(column, present, codes, bounds)
    return NumberColumn(np.where(empty, np.nan, value), *bounds)


def _narrow_sums(
    column: NumberColumn, present: Presence, codes: Places, bounds: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Narrow the interval where the summed rows are certain: the width is that of a sum of independent noises."""
    assert column.sum_width is not None
    low, high = bounds
    count = len(low)
    row_counts = _sum(present.present, codes, count)
    certain = ~_any_row(~present.sure, codes, count) & (row_counts > 0)
    distinct_counts, count_index = np.unique(row_counts[certain], return_inverse=True)
    width = (
        np.array([column.sum_width(int(row_count)) for row_count in distinct_counts])[count_index]
        if len(distinct_counts)
        else np.zeros(0)
    )
    midpoint = _sum(np.where(present.present, (column.low + column.high) / 2, 0), codes, count)[certain]
    low[certain] = np.maximum(low[certain], midpoint - width)
    high[certain] = np.minimum(high[certain], midpoint + width)
    return low, high


def _min_rows(column: NumberColumn, present: Presence, codes: Places, count: int) -> NumberColumn:
    """Compute each group's minimum.

    It is at most the highest value of any row that is surely present, or of any possible row where none is sure.
    """
    value = _group_minimum(column.value, present.present, codes, count)
    low = _group_minimum(column.low, present.possibly, codes, count)
    sure_high = _group_minimum(column.high, present.surely, codes, count)
    possible_high = -_group_minimum(-column.high, present.possibly, codes, count)
    return NumberColumn(
        np.where(np.isinf(value), np.nan, value), low, np.where(np.isinf(sure_high), possible_high, sure_high)
    )


def _max_rows(column: NumberColumn, present: Presence, codes: Places, count: int) -> NumberColumn:
    negated_minimum = _min_rows(_negated(column), present, codes, count)
    return _negated(negated_minimum)


def _negated(column: NumberColumn) -> NumberColumn:
    return NumberColumn(-column.value, -column.high, -column.low)


def _average_rows(column: NumberColumn, present: Presence, codes: Places, count: int) -> NumberColumn:
    row_counts = _sum(present.present, codes, count)
    total = _sum_rows(column, present, codes, count)
    certain = ~_any_row(~present.sure, codes, count)
    possible_low = _group_minimum(column.low, present.possibly, codes, count)
    possible_high = -_group_minimum(-column.high, present.possibly, codes, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (
            np.where(certain, total.low / row_counts, possible_low),
            np.where(certain, total.high / row_counts, possible_high),
        )
        return NumberColumn(total.value / row_counts, low, high)


_AGGREGATES: dict[str, Callable[[NumberColumn, Presence, Places, int], NumberColumn]] = {
    "SUM": _sum_rows,
    "AVG": _average_rows,
    "MIN": _min_rows,
    "MAX": _max_rows,
}


def window(over: NoisyWindow, evaluate: Callable[[Expression], Evaluated], present: Presence) -> NumberColumn:
    """Evaluate a window function for every row."""
    codes, group_rows = group_codes([evaluate(expression) for expression in over.partition], present)
    if over.order:
        return _rank_rows(over, evaluate, present, codes)
    argument = None if over.argument is None else evaluate(over.argument)
    totals = row_total(over.function, argument, present, codes, len(group_rows))
    return NumberColumn(totals.value[codes], totals.low[codes], totals.high[codes])


def _rank_rows(
    over: NoisyWindow, evaluate: Callable[[Expression], Evaluated], present: Presence, codes: Places
) -> NumberColumn:
    """Compute the rank of each row among the present rows of its partition."""
    keys = [evaluate(order.expression) for order in over.order]
    order_positions = np.zeros(len(codes), np.intp)
    for order, key in zip(over.order, keys, strict=True):
        key_ranks = ranks(key, order.descending, order.nulls_first) + 1
        order_positions = np.unique(
            order_positions * (int(key_ranks.max(initial=0)) + 1) + key_ranks, return_inverse=True
        )[1]
    value = _rank_within(over.function, order_positions, codes, present.present)
    if len(over.order) == 1 and isinstance(keys[0], NumberColumn) and _has_no_nan(keys[0]):
        column = _negated(keys[0]) if over.order[0].descending else keys[0]
        certainly_before = _count_below(column.high, present.surely, column.low, codes, "left")
        possibly_before = _count_below(column.low, present.possibly, column.high, codes, "right") - present.possibly
        return NumberColumn(
            value, np.where(over.function == "DENSE_RANK", 1.0, 1 + certainly_before), 1 + possibly_before
        )
    if present.sure.all() and not any(noise_count(order.expression) for order in over.order):
        return NumberColumn(value, value, value)
    partition_sizes = _sum(present.possibly, codes, int(codes.max()) + 1)[codes]
    return NumberColumn(value, np.ones(len(codes)), np.maximum(partition_sizes, 1))


def _has_no_nan(column: NumberColumn) -> bool:
    return not np.isnan([column.value, column.low, column.high]).any()


def _count_below(ends: Floats, rows: Bools, limits: Floats, codes: Places, side: str) -> Floats:
    """Count for every row the rows of its partition whose end lies below its limit (with "right": or at it)."""
    levels = np.unique(np.concatenate([ends, limits]))
    levels_per_partition = len(levels) + 1
    sorted_ends = np.sort((codes * levels_per_partition + np.searchsorted(levels, ends))[rows])
    sorted_limits = codes * levels_per_partition + np.searchsorted(levels, limits)
    ends_before = np.searchsorted(sorted_ends, sorted_limits, side=side)  # type: ignore[call-overload]
    return (ends_before - np.searchsorted(sorted_ends, codes * levels_per_partition, side="left")).astype(np.float64)


def _rank_within(function: str, order_positions: Places, codes: Places, here: Bools) -> Floats:
    """Compute RANK, DENSE_RANK or ROW_NUMBER from order positions; absent rows are not counted."""
    order = np.lexsort((np.arange(len(codes)), order_positions, codes))
    is_present = here[order]
    starts_partition = np.concatenate([[True], codes[order][1:] != codes[order][:-1]])
    starts_peers = starts_partition | np.concatenate(
        [[True], order_positions[order][1:] != order_positions[order][:-1]]
    )
    preceding_rows: NDArray[Any] = np.cumsum(is_present) - is_present  # present rows before this one, in all partitions
    rows_before_partition = np.maximum.accumulate(np.where(starts_partition, preceding_rows, 0))
    if function == "ROW_NUMBER":
        sorted_ranks = preceding_rows - rows_before_partition + 1
    elif function == "RANK":
        sorted_ranks = np.maximum.accumulate(np.where(starts_peers, preceding_rows, 0)) - rows_before_partition + 1
    else:
        sorted_ranks = _dense_rank(is_present, starts_peers, starts_partition)
    row_ranks = np.empty(len(codes))
    row_ranks[order] = sorted_ranks
    return row_ranks


def _dense_rank(is_present: Bools, starts_peers: Bools, starts_partition: Bools) -> Floats:
    """Count the distinct positions up to each row's own, in its partition."""
    peer_groups = np.cumsum(starts_peers) - 1
    is_peer_group_present = (
        np.bincount(peer_groups, weights=is_present) > 0
    )  # a position counts if a present row has it
    preceding_groups: NDArray[Any] = (np.cumsum(is_peer_group_present) - is_peer_group_present)[peer_groups]
    return (preceding_groups - np.maximum.accumulate(np.where(starts_partition, preceding_groups, 0)) + 1).astype(
        np.float64
    )


@dataclass(frozen=True)
class Finished:
    """The answer's columns over all rows, and the indices of the shown rows in output order."""

    columns: tuple[Evaluated, ...]
    shown: Places
    sure: Bools
    """Which rows are shown, or not shown, for all values within the intervals."""


Estimated = Callable[[int], Sequence[GroupEstimate]]
"""Estimates every measure, with intervals that hold for so many noise draws at once."""
Evaluate = Callable[[Expression], Evaluated]


def jointly_held_ranges(query: Query, max_groups: Callable[[], int], joint: bool) -> int:
    """Return the number of ranges that must hold jointly for one range of the answer to hold.

    The number of groups is asked for only if it matters: some questions refuse to tell it.
    """
    if joint or selects_by_noise(query):
        return max(1, count_noise_draws(query, max_groups()))
    return max(1, *(noise_count(output.expression) for output in query.finish.outputs))


def finish(query: Query, rows: AnswerRows, estimated: Estimated, *, joint: bool) -> Finished:
    """Compute the answer's columns over all rows, and select the rows to show.

    An interval holds for its own cell, which may read several noise draws; or for all cells simultaneously when that is
    requested, when rows are selected by noisy values, or when several rows are combined.
    """
    keys: dict[Reference, Evaluated] = {}
    for index in range(rows.width):
        keys[Key(index)] = ExactColumn(objects([key[index] for key in rows.keys]))
    for index, is_summed_over in enumerate(rows.summed_over.T):
        keys[GroupingFlag(index)] = ExactColumn(objects(is_summed_over.astype(int).tolist()))
    joint_draws = count_noise_draws(query, len(rows.keys)) if joint or selects_by_noise(query) else None

    @cache
    def columns_holding_for(draws: int) -> dict[Reference, Evaluated]:
        results = {Result(index): _estimate_column(estimate) for index, estimate in enumerate(estimated(draws))}
        return keys | results

    def evaluate(expression: Expression, windows: dict[Reference, Evaluated]) -> Evaluated:
        columns = columns_holding_for(max(1, joint_draws or noise_count(expression)))
        return evaluate_on(expression, columns | windows if windows else columns, len(rows.keys))

    finished_rows = _finish_rows(query.finish, evaluate, Presence.everywhere(len(rows.keys)))
    for outer in query.outer:
        finished_rows = _apply_outer(outer, finished_rows)
    return finished_rows


def _estimate_column(estimate: GroupEstimate) -> Evaluated:
    """Return a result as a column: of numbers, or of values that a selection decided on."""
    if estimate.labels is None:
        return NumberColumn(estimate.value, estimate.low, estimate.high, estimate.sum_width)
    return ExactColumn(
        objects([estimate.labels[label_index] for label_index in estimate.value.astype(int).tolist()]),
        chosen_by_noise=True,
    )


def selects_by_noise(query: Query) -> bool:
    """Return whether rows are selected by their noisy values, or combined."""
    innermost = query.finish
    selects_rows = innermost.having is not None or (
        bool(innermost.order) and (innermost.limit is not None or innermost.offset > 0)
    )
    return selects_rows or bool(innermost.windows or query.outer)


def count_noise_draws(query: Query, rows: int) -> int:
    """Count the noise draws behind all cells of an answer, and behind the selection and aggregation of its rows.

    Each sum of rows has its own interval, and an aggregate or a window has at most as many sums as there are rows.
    """
    innermost = query.finish
    if not (innermost.windows or query.outer):
        return rows * sum(noise_count(output.expression) for output in innermost.outputs)
    expressions = [output.expression for output in innermost.outputs] + [order.expression for order in innermost.order]
    expressions += [] if innermost.having is None else [innermost.having]
    for window_function in innermost.windows:
        expressions += [
            *([window_function.argument] if window_function.argument else []),
            *(order.expression for order in window_function.order),
        ]
    references = {node.reference for expression in expressions for node in walk(expression) if isinstance(node, Column)}
    totals = [*innermost.windows, *(total for outer in query.outer for total in (*outer.totals, *outer.finish.windows))]
    return rows * (sum(reference.noises for reference in references if isinstance(reference, Result)) + len(totals))


def _finish_rows(
    query: Finish, evaluate: Callable[[Expression, dict[Reference, Evaluated]], Evaluated], present: Presence
) -> Finished:
    """Apply HAVING, then windows, then output columns, ORDER BY and LIMIT, to rows in their order."""
    if query.having is not None:
        present = present.where(truths(evaluate(query.having, {})))
    windows: dict[Reference, Evaluated] = {
        WindowResult(index): window(window_function, lambda expression: evaluate(expression, {}), present)
        for index, window_function in enumerate(query.windows)
    }
    columns = tuple(evaluate(output.expression, windows) for output in query.outputs)
    shown_rows: Places = np.flatnonzero(present.present)
    for order in reversed(query.order):
        order_ranks = ranks(evaluate(order.expression, windows), order.descending, order.nulls_first)
        shown_rows = shown_rows[np.argsort(order_ranks[shown_rows], kind="stable")]
    if query.limit is None and not query.offset:
        return Finished(columns, shown_rows, present.sure)
    end = None if query.limit is None else query.offset + query.limit
    is_certain = bool(present.sure.all()) and not any(noise_count(order.expression) for order in query.order)
    return Finished(columns, shown_rows[query.offset : end], np.full(len(present.sure), is_certain))


def _apply_outer(query: Outer, inner: Finished) -> Finished:
    """Apply an outer SELECT to the rows that the inner one shows, in their order."""
    hidden_rows = np.setdiff1d(np.arange(len(inner.sure)), inner.shown)
    order = np.concatenate([inner.shown, hidden_rows])
    is_shown = np.arange(len(order)) < len(inner.shown)
    inner_columns: dict[Reference, Evaluated] = {
        NoisyColumn(index): _take_rows(column, order) for index, column in enumerate(inner.columns)
    }
    present = Presence(is_shown, inner.sure[order])

    def evaluate(expression: Expression) -> Evaluated:
        return evaluate_on(expression, inner_columns, len(order))

    if query.where is not None:
        present = present.where(truths(evaluate(query.where)))
    if not query.grouped:
        return _finish_rows(
            query.finish,
            lambda expression, windows: evaluate_on(expression, inner_columns | windows, len(order)),
            present,
        )
    codes, group_rows = group_codes([evaluate(key) for key in query.keys], present)
    group_presence = present.of_groups(codes, len(group_rows)) if query.keys else Presence.everywhere(1)
    group_columns: dict[Reference, Evaluated] = {
        Key(index): _take_rows(evaluate(key), group_rows) for index, key in enumerate(query.keys)
    }
    for index, aggregate in enumerate(query.totals):
        aggregated_rows = present if aggregate.where is None else present.where(truths(evaluate(aggregate.where)))
        argument = None if aggregate.argument is None else evaluate(aggregate.argument)
        group_columns[Result(index)] = row_total(aggregate.function, argument, aggregated_rows, codes, len(group_rows))
    return _finish_rows(
        query.finish,
        lambda expression, windows: evaluate_on(expression, group_columns | windows, len(group_rows)),
        group_presence,
    )


def _take_rows(column: Evaluated, indices: Places) -> Evaluated:
    if isinstance(column, NumberColumn):
        return NumberColumn(column.value[indices], column.low[indices], column.high[indices], column.sum_width)
    if isinstance(column, ExactColumn):
        return replace(column, value=column.value[indices])
    return TruthColumn(column.true[indices], column.known[indices], column.sure[indices])
