"""Apply HAVING, windows, QUALIFY, ORDER BY, LIMIT and outer SELECTs to noisy rows: post-processing, which costs no
privacy.

Where noisy values select rows (HAVING, WHERE, QUALIFY, LIMIT), intervals hold for all candidate rows at once; otherwise
each holds by itself. A row selected by noisy values is *surely* selected only if all values within the intervals select
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sfumato.array_types import Bools, Indices
from sfumato.caching import once_per_instance
from sfumato.plan import noisy_rows
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, OuterSelect
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
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.key_functions import AnswerRows
from sfumato.release.noisy_rows.noise_forms import LinearEstimate
from sfumato.release.noisy_rows.noisy_columns import (
    NONE,
    ConfidenceStatement,
    ConfidenceStatements,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    as_numbers,
    as_truths,
    confidence_statements,
    count_statements,
    evaluate_on,
    object_array,
)
from sfumato.release.noisy_rows.row_totals import (
    Presence,
    aggregate_groups,
    correlation_or_slope,
    dense_sort_ranks,
    group_codes_and_rows,
    take_rows,
)
from sfumato.release.noisy_rows.window_functions import evaluate_window


@dataclass(frozen=True)
class FinishedRows:
    """The answer's columns over all rows, and the indices of the shown rows in output order."""

    columns: tuple[Evaluated, ...]
    """With their intervals: no column of a finished answer is a linear form any more."""
    shown: Indices
    sure: Bools
    """Which rows are shown, or not shown, for all values within the intervals."""
    statements: ConfidenceStatements = NONE
    """What decided on the shown rows, where noisy values did."""


Estimated = Callable[[int], Sequence[GroupEstimate]]
"""Estimates every measure, with intervals that hold for so many noise draws at once."""


def count_jointly_held_ranges(query: Query, max_groups: Callable[[], int], joint: bool) -> int:
    """Return the number of ranges that must hold jointly for one range of the answer to hold.

    The number of groups is asked for only if it matters: some questions refuse to tell it.
    """
    if joint or selects_by_noise(query) or query.finish.windows or query.outer:
        return max(1, count_noises_behind_answer(query, max_groups()))
    return _most_noises_of_a_column(query)


@once_per_instance
def _most_noises_of_a_column(query: Query) -> int:
    return max([1, *(noise_count(output.expression) for output in query.finish.outputs)])


def finish(
    query: Query, rows: AnswerRows, estimated: Estimated, *, joint: bool, candidates: int | None = None
) -> FinishedRows:
    """Compute the answer's columns over all rows, and select the rows to show.

    An interval holds for its own cell, which may rely on several statements about noise; or for all cells of the
    ``candidates`` (the rows, unless a forecast stands for more) at once, when that is requested or when rows are
    selected by noisy values.
    """
    finished_by_draws: dict[int, FinishedRows] = {}  # ``functools.cache`` takes as long to make as a number to estimate

    def finished_for(draws: int) -> FinishedRows:
        if draws not in finished_by_draws:
            finished_by_draws[draws] = finish_with_draws(query, rows, estimated, draws, candidates)
        return finished_by_draws[draws]

    combined = bool(query.outer or query.finish.windows)
    return with_intervals(finished_for, joint=joint or selects_by_noise(query), combined=combined)


def finish_with_draws(
    query: Query, rows: AnswerRows, estimated: Estimated, draws: int, candidates: int | None = None
) -> FinishedRows:
    """Finish the rows with intervals of which so many hold at once; linear columns stay linear."""
    row_count = len(rows.keys) if candidates is None else candidates
    columns: dict[Reference, Evaluated] = {}
    for index in range(rows.width):
        columns[Key(index)] = ExactColumn(object_array([key[index] for key in rows.keys]))
    for index, is_summed_over in enumerate(rows.summed_over.T):
        columns[GroupingFlag(index)] = ExactColumn(object_array(is_summed_over.astype(int).tolist()))
    noises = [measure.noise_count for measure in query.plan.measures]
    for index, estimate in enumerate(estimated(draws)):
        columns[Result(index)] = _estimate_column(estimate, ConfidenceStatement.about(row_count, noises[index]), draws)
    finished_rows = _finish_rows(query.finish, columns, Presence.everywhere(len(rows.keys)))
    for outer in query.outer:
        finished_rows = apply_outer_select(outer, finished_rows)
    return finished_rows


def with_intervals(finished_for: Callable[[int], FinishedRows], *, joint: bool, combined: bool) -> FinishedRows:
    """Return the rows with intervals that rely on as many statements as each cell needs, or as all cells together do.

    ``finished_for`` finishes the rows with intervals of which so many hold at once; the numbers are the same.
    """
    first = finished_for(1)
    if joint:
        decisive = first.statements if combined else NONE
        count = count_statements(confidence_statements(*first.columns) | decisive, jointly=True)
        first = finished_for(max(1, count))
        return _with_column_ranges(first, first.columns)
    counts = [count_statements(confidence_statements(column), jointly=False) for column in first.columns]
    columns = tuple(finished_for(max(1, count)).columns[index] for index, count in enumerate(counts))
    return _with_column_ranges(first, columns)


def _with_column_ranges(finished: FinishedRows, columns: Sequence[Evaluated]) -> FinishedRows:
    ranged = tuple(as_numbers(column) if isinstance(column, LinearColumn) else column for column in columns)
    return FinishedRows(ranged, finished.shown, finished.sure, finished.statements)


def _estimate_column(estimate: GroupEstimate, statement: ConfidenceStatement, draws: int) -> Evaluated:
    """Return a result as a column: of numbers, or of values that a selection decided on."""
    if isinstance(estimate, LinearEstimate):
        noise = estimate.form, estimate.noises, draws, statement
        return LinearColumn(estimate.value, estimate.centre, *noise, computed_widths=estimate.widths)
    if estimate.labels is None:
        return NumberColumn(estimate.value, estimate.low, estimate.high, frozenset([statement]))
    return ExactColumn(
        object_array([estimate.labels[label_index] for label_index in estimate.value.astype(int).tolist()]),
        chosen_by_noise=True,
    )


@once_per_instance
def selects_by_noise(query: Query) -> bool:
    """Return whether noisy values select rows of a query."""
    return noisy_rows.selects_by_noise(query.finish, query.outer)


def count_noises_behind_answer(query: Query, rows: int) -> int:
    """Count the noise draws behind all cells of an answer, and behind the selection and aggregation of its rows.

    Each sum of rows has its own interval, and an aggregate or a window has at most as many sums as there are rows.
    """
    innermost = query.finish
    if not (innermost.windows or query.outer):
        return rows * sum(noise_count(output.expression) for output in innermost.outputs)
    expressions = [output.expression for output in innermost.outputs] + [order.expression for order in innermost.order]
    expressions += filter(None, [innermost.having])
    for window_function in innermost.windows:
        expressions += window_function.expressions
    references = {node.reference for expression in expressions for node in walk(expression) if isinstance(node, Column)}
    totals = [*innermost.windows, *(total for outer in query.outer for total in (*outer.totals, *outer.finish.windows))]
    return rows * (sum(reference.noises for reference in references if isinstance(reference, Result)) + len(totals))


def _finish_rows(query: Finish, columns: dict[Reference, Evaluated], present: Presence) -> FinishedRows:
    """Apply HAVING, then windows, QUALIFY, output columns, ORDER BY and LIMIT, to rows in their order."""
    count = len(present.present)
    if query.having is not None:
        present = present.where(as_truths(evaluate_on(query.having, columns, count)))
    names = columns | {
        WindowResult(index): evaluate_window(over, lambda expression: evaluate_on(expression, columns, count), present)
        for index, over in enumerate(query.windows)
    }
    if query.qualify is not None:
        present = present.where(as_truths(evaluate_on(query.qualify, names, count)))
    outputs = tuple(evaluate_on(output.expression, names, count) for output in query.outputs)
    ordered_rows: Indices = np.flatnonzero(present.present)
    order_columns = [evaluate_on(order.expression, names, count) for order in query.order]
    for order, column in reversed(list(zip(query.order, order_columns, strict=True))):
        order_ranks = dense_sort_ranks(column, order.descending, order.nulls_first)
        ordered_rows = ordered_rows[np.argsort(order_ranks[ordered_rows], kind="stable")]
    if query.limit is None and not query.offset:
        return FinishedRows(outputs, ordered_rows, present.sure, present.statements)
    end = None if query.limit is None else query.offset + query.limit
    is_certain = bool(present.sure.all()) and not any(noise_count(order.expression) for order in query.order)
    statements = present.statements | confidence_statements(*order_columns)
    return FinishedRows(outputs, ordered_rows[query.offset : end], np.full(count, is_certain), statements)


def apply_outer_select(query: OuterSelect, inner: FinishedRows) -> FinishedRows:
    """Apply an outer SELECT to the rows that the inner one shows, in their order."""
    hidden_rows = np.setdiff1d(np.arange(len(inner.sure)), inner.shown)
    order = np.concatenate([inner.shown, hidden_rows])
    is_shown = np.arange(len(order)) < len(inner.shown)
    inner_columns: dict[Reference, Evaluated] = {
        NoisyColumn(index): take_rows(column, order) for index, column in enumerate(inner.columns)
    }
    present = Presence(is_shown, inner.sure[order], inner.statements)

    def evaluate(expression: Expression) -> Evaluated:
        return evaluate_on(expression, inner_columns, len(order))

    if query.where is not None:
        present = present.where(as_truths(evaluate(query.where)))
    if not query.grouped:
        return _finish_rows(query.finish, inner_columns, present)
    codes, group_rows = group_codes_and_rows([evaluate(key) for key in query.keys], present)
    group_presence = present.of_groups(codes, len(group_rows)) if query.keys else Presence.everywhere(1)
    group_columns: dict[Reference, Evaluated] = {
        Key(index): take_rows(evaluate(key), group_rows) for index, key in enumerate(query.keys)
    }
    for index, aggregate in enumerate(query.totals):
        aggregated_rows = present if aggregate.where is None else present.where(as_truths(evaluate(aggregate.where)))
        argument, x = (None if operand is None else evaluate(operand) for operand in (aggregate.argument, aggregate.x))
        group_columns[Result(index)] = (
            aggregate_groups(aggregate.function, argument, aggregated_rows, codes, len(group_rows))
            if argument is None or x is None
            else correlation_or_slope(aggregate.function, argument, x, aggregated_rows, codes, len(group_rows))
        )
    return _finish_rows(query.finish, group_columns, group_presence)
