"""Finish: HAVING, windows, ORDER BY, LIMIT and outer SELECTs on noisy rows. Post-processing: free.

What is picked by HAVING, ORDER BY or LIMIT, and what is made of several rows, keeps only simultaneous ranges. A row
that noisy numbers pick is not *surely* picked unless all numbers within the ranges pick it: totals of rows have ranges
that hold either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.aggregates.measures import Estimate
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, Outer
from sfumato.plan.values.expressions import (
    Column,
    Expression,
    Key,
    Reference,
    Result,
    Shown,
    SummedOver,
    Windowed,
    noises,
    walk,
)
from sfumato.release.noisy_rows.answer_rows import AnswerRows
from sfumato.release.noisy_rows.noisy_columns import (
    Bools,
    Evaluated,
    Keys,
    Numbers,
    Truths,
    evaluate_on,
    objects,
    ranks,
    truths,
)
from sfumato.release.noisy_rows.row_totals import Presence, group_codes, row_total, window

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Finished:
    """This holds the answer's columns over all rows, and which rows are shown in which order."""

    columns: tuple[Evaluated, ...]
    shown: Places
    sure: Bools
    """Which rows are shown, or not shown, for all numbers within the ranges."""


Estimated = Callable[[int], Sequence[Estimate]]
"""Every measure, with ranges that hold for so many noises at once."""
Evaluate = Callable[[Expression], Evaluated]


def finish(query: Query, rows: AnswerRows, estimated: Estimated, *, joint: bool) -> Finished:
    """Compute the answer's columns over all rows, and choose the rows it shows.

    A range holds for its own cell, made of so many noises; or for all cells at once when they are asked for
    together, when rows are picked by what their noisy numbers are, or when several are put together.
    """
    keys: dict[Reference, Evaluated] = {}
    for index in range(rows.width):
        keys[Key(index)] = Keys(objects([key[index] for key in rows.keys]))
    for index, over in enumerate(rows.over.T):
        keys[SummedOver(index)] = Keys(objects(over.astype(int).tolist()))
    together = simultaneous(query, len(rows.keys)) if joint or picks(query) else None

    def evaluate(expression: Expression, more: dict[Reference, Evaluated]) -> Evaluated:
        found = estimated(max(1, together or noises(expression)))
        results = {Result(index): _column(each) for index, each in enumerate(found)}
        return evaluate_on(expression, keys | results | more, len(rows.keys))

    found = _finished(query.finish, evaluate, Presence.everywhere(len(rows.keys)))
    for each in query.outer:
        found = _outside(each, found)
    return found


def _column(found: Estimate) -> Evaluated:
    """Give a result as a column: of numbers, or of values that a choice among them has decided on."""
    if found.labels is None:
        return Numbers(found.value, found.low, found.high, found.sum_width)
    return Keys(objects([found.labels[place] for place in found.value.astype(int).tolist()]), decided=True)


def picks(query: Query) -> bool:
    """Tell whether rows are chosen by what their noisy numbers are, or put together."""
    first = query.finish
    cut = first.having is not None or (bool(first.order) and (first.limit is not None or first.offset > 0))
    return cut or bool(first.windows or query.outer)


def simultaneous(query: Query, rows: int) -> int:
    """Count the noises that stand behind all cells of an answer, and behind what picks and adds up its rows.

    Each sum of rows has a range of its own, and an aggregate or a window has no more sums than there are rows.
    """
    first = query.finish
    if not (first.windows or query.outer):
        return rows * sum(noises(output.expression) for output in first.outputs)
    read = [each.expression for each in first.outputs] + [each.expression for each in first.order]
    read += [] if first.having is None else [first.having]
    for over in first.windows:
        read += [*([over.argument] if over.argument else []), *(each.expression for each in over.order)]
    used = {node.reference for each in read for node in walk(each) if isinstance(node, Column)}
    totals = [*first.windows, *(total for outer in query.outer for total in (*outer.totals, *outer.finish.windows))]
    return rows * (sum(each.noises for each in used if isinstance(each, Result)) + len(totals))


def _finished(
    query: Finish, evaluate: Callable[[Expression, dict[Reference, Evaluated]], Evaluated], present: Presence
) -> Finished:
    """Apply HAVING, then windows, then columns, ORDER BY and LIMIT, on rows in their order."""
    if query.having is not None:
        present = present.where(truths(evaluate(query.having, {})))
    windows: dict[Reference, Evaluated] = {
        Windowed(index): window(each, lambda made: evaluate(made, {}), present)
        for index, each in enumerate(query.windows)
    }
    columns = tuple(evaluate(output.expression, windows) for output in query.outputs)
    shown: Places = np.flatnonzero(present.here)
    for order in reversed(query.order):
        places = ranks(evaluate(order.expression, windows), order.descending, order.nulls_first)
        shown = shown[np.argsort(places[shown], kind="stable")]
    if query.limit is None and not query.offset:
        return Finished(columns, shown, present.sure)
    end = None if query.limit is None else query.offset + query.limit
    certain = bool(present.sure.all()) and not any(noises(order.expression) for order in query.order)
    return Finished(columns, shown[query.offset : end], np.full(len(present.sure), certain))


def _outside(query: Outer, inner: Finished) -> Finished:
    """Apply an outer SELECT over the rows that an inner one shows, in their order."""
    hidden = np.setdiff1d(np.arange(len(inner.sure)), inner.shown)
    order = np.concatenate([inner.shown, hidden])
    here = np.arange(len(order)) < len(inner.shown)
    names: dict[Reference, Evaluated] = {
        Shown(index): _taken(column, order) for index, column in enumerate(inner.columns)
    }
    present = Presence(here, inner.sure[order])

    def read(expression: Expression) -> Evaluated:
        return evaluate_on(expression, names, len(order))

    if query.where is not None:
        present = present.where(truths(read(query.where)))
    if not query.grouped:
        return _finished(query.finish, lambda made, more: evaluate_on(made, names | more, len(order)), present)
    codes, first = group_codes([read(key) for key in query.keys], present)
    groups = present.of_groups(codes, len(first)) if query.keys else Presence.everywhere(1)
    grouped: dict[Reference, Evaluated] = {Key(index): _taken(read(key), first) for index, key in enumerate(query.keys)}
    for index, total in enumerate(query.totals):
        kept = present if total.where is None else present.where(truths(read(total.where)))
        argument = None if total.argument is None else read(total.argument)
        grouped[Result(index)] = row_total(total.function, argument, kept, codes, len(first))
    return _finished(query.finish, lambda made, more: evaluate_on(made, grouped | more, len(first)), groups)


def _taken(column: Evaluated, places: Places) -> Evaluated:
    if isinstance(column, Numbers):
        return Numbers(column.value[places], column.low[places], column.high[places], column.sum_width)
    if isinstance(column, Keys):
        return replace(column, value=column.value[places])
    return Truths(column.true[places], column.known[places], column.sure[places])
