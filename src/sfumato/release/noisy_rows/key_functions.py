"""Evaluate functions of group keys, such as UPPER(region), with the engine: keys are public.

Noisy numbers are post-processed in Python, with a few functions; keys may be passed to any scalar function. Each such
subexpression of an answer is evaluated on the values of the keys it reads, by the engine that would evaluate it on
rows, and becomes a key of its own. No table is read.

The rows of an answer are its groups, or sums of groups where it has subtotals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices
from sfumato.caching import once_per_instance
from sfumato.errors import Unsupported
from sfumato.plan.keys import Evaluate, ValueCombinations, can_enumerate, real_as_double
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.noisy_rows import FINISHING
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Key,
    Order,
    columns,
    reads_only_keys,
    walk,
)
from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class AnswerRows:
    """The keys of an answer's rows, and the groups that each row sums."""

    keys: Sequence[GroupValues]
    """None is NULL, or a key that is summed over."""
    summed_over: NDArray[np.bool_]
    """For each row and key, whether it is summed over."""
    rows: Indices
    groups: Indices
    """Pairs of a row and a group that it sums."""
    has_sums: bool
    """Whether a row may sum several groups; otherwise rows are the groups."""
    width: int
    """The number of values of a key, also where there is no row."""

    @property
    def groups_per_row(self) -> Indices:
        """Count the groups that each row sums."""
        return np.bincount(self.rows, minlength=len(self.keys))

    def sum_groups(self, groups: Floats) -> Floats:
        """Sum a column of groups into a column of rows."""
        return np.bincount(self.rows, weights=groups[self.groups], minlength=len(self.keys)).astype(np.float64)


def answer_rows(sets: Sequence[Sequence[int]], groups: Sequence[GroupValues], width: int | None = None) -> AnswerRows:
    """List the rows of every grouping set in turn, each in the order of its first groups; the groups without sets.

    A key has ``width`` values, which must be given where there may be no group.
    """
    width = len(groups[0]) if width is None else width
    group_indices = np.arange(len(groups))
    if not sets:
        return AnswerRows(
            groups, np.zeros((len(groups), width), bool), group_indices, group_indices, has_sums=False, width=width
        )
    keys: list[GroupValues] = []
    rows, is_summed_over = [], []
    for grouping_set in sets:
        is_grouped = [index in set(grouping_set) for index in range(width)]
        row_of_key: dict[GroupValues, int] = {}
        projected = (
            tuple(value if grouped else None for value, grouped in zip(key, is_grouped, strict=True)) for key in groups
        )
        rows.append(np.array([row_of_key.setdefault(key, len(row_of_key)) for key in projected], np.intp) + len(keys))
        keys += row_of_key
        is_summed_over += [np.repeat([[not grouped for grouped in is_grouped]], len(row_of_key), axis=0)]
    return AnswerRows(
        keys,
        np.vstack(is_summed_over),
        np.concatenate(rows),
        np.tile(group_indices, len(sets)),
        has_sums=True,
        width=width,
    )


def one_row_per_set(
    sets: Sequence[Sequence[int]], groups: Sequence[GroupValues], width: int | None = None
) -> AnswerRows:
    """Return a stand-in for forecasts: for every grouping set its longest sum, of the first groups."""
    width = len(groups[0]) if width is None else width
    all_rows = answer_rows(sets, groups, width)
    key = (None,) * width
    if not sets:
        return answer_rows((), [key], width)
    longest_sums = all_rows.groups_per_row[all_rows.rows].reshape(len(sets), len(groups)).max(axis=1)
    is_summed_over = np.array([[index not in grouping_set for index in range(width)] for grouping_set in sets], bool)
    rows = np.repeat(np.arange(len(sets)), longest_sums)
    group_indices = np.arange(len(rows)) - np.repeat(np.cumsum(longest_sums) - longest_sums, longest_sums)
    return AnswerRows(
        [key] * len(sets), is_summed_over.reshape(len(sets), width), rows, group_indices, has_sums=True, width=width
    )


Parts = dict[Expression, Column]


def with_key_functions(query: Query, rows: AnswerRows, evaluate: Evaluate) -> tuple[Query, AnswerRows]:
    """Replace functions of keys by further keys, in a question and in its rows."""
    rewritten, parts = extract_key_functions(query)
    if not parts:
        return query, rows
    keys = _extend_keys(rows.keys, parts, evaluate)
    return rewritten, replace(rows, keys=keys, width=rows.width + len(parts))


@once_per_instance
def extract_key_functions(query: Query) -> tuple[Query, Parts]:
    """Replace functions of keys by further keys in the post-processing; return the question and these functions."""
    key_functions: Parts = {}
    finish, key_count = query.finish, len(query.plan.keys)

    def rewrite(expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        if reads_only_keys(expression) and not _can_post_process(expression):
            return key_functions.setdefault(expression, Column(Key(key_count + len(key_functions)), expression.domain))
        return replace(expression, arguments=tuple(map(rewrite, expression.arguments)))

    def rewrite_order(order: tuple[Order, ...]) -> tuple[Order, ...]:
        return tuple(replace(term, expression=rewrite(term.expression)) for term in order)

    windows = tuple(
        replace(
            window,
            argument=None if window.argument is None else rewrite(window.argument),
            default=None if window.default is None else rewrite(window.default),
            partition=tuple(map(rewrite, window.partition)),
            order=rewrite_order(window.order),
        )
        for window in finish.windows
    )
    outputs = tuple(replace(output, expression=rewrite(output.expression)) for output in finish.outputs)
    having, qualify = (
        None if predicate is None else rewrite(predicate) for predicate in (finish.having, finish.qualify)
    )
    rewritten_finish = replace(
        finish, outputs=outputs, order=rewrite_order(finish.order), having=having, windows=windows, qualify=qualify
    )
    return replace(query, finish=rewritten_finish), key_functions


def _can_post_process(expression: Expression) -> bool:
    """Return whether every function in it is one of the post-processing functions, applied to numbers."""
    calls = [node for node in walk(expression) if isinstance(node, Call)]
    return all(
        call.function in FINISHING and (call.function not in _NUMERIC_ONLY or _is_numeric_call(call)) for call in calls
    )


_NUMERIC_ONLY = ("CAST", "LEAST", "GREATEST")


def _is_numeric_call(call: Call) -> bool:
    return call.domain.type.numeric and call.arguments[0].domain.type in (Type.INTEGER, Type.REAL, Type.BOOLEAN)


def _extend_keys(groups: Sequence[GroupValues], parts: Parts, evaluate: Evaluate) -> Sequence[GroupValues]:
    """Append the values of these functions to every key."""
    function_values = [_evaluate_on_keys(part, groups, evaluate) for part in parts]
    return [(*key, *extra_values) for key, extra_values in zip(groups, zip(*function_values, strict=True), strict=True)]


def _evaluate_on_keys(part: Expression, groups: Sequence[GroupValues], evaluate: Evaluate) -> list[Value | None]:
    key_columns = [Column(reference, domain) for reference, domain in columns(part).items()]
    key_indices = [column.reference.index for column in key_columns if isinstance(column.reference, Key)]
    choices = tuple(
        (
            column.reference,
            column.domain,
            tuple(dict.fromkeys(key[key_index] for key in groups if key[key_index] is not None)),
        )
        for column, key_index in zip(key_columns, key_indices, strict=True)
    )
    world = ValueCombinations(choices, (*key_columns, part))  # type: ignore[arg-type]
    if not can_enumerate(world):
        raise Unsupported(
            "keys-too-costly",
            "functions of group keys can be evaluated for at most 200,000 combinations of key values",
            fix="apply them to one key at a time, or write the function in GROUP BY",
        )
    value_of_key = {tuple(map(real_as_double, row[:-1])): row[-1] for row in evaluate(world)}
    return [value_of_key[tuple(real_as_double(key[key_index]) for key_index in key_indices)] for key in groups]
