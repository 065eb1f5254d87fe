"""Finish: HAVING, windows, ORDER BY, LIMIT and outer SELECTs on noisy rows. Post-processing: free.

What is picked by HAVING, ORDER BY or LIMIT, and what is made of several rows, keeps only simultaneous ranges. A row
that noisy numbers pick is not *surely* picked unless all numbers within the ranges pick it: totals of rows have ranges
that hold either way.

Totals, ranks and windows over noisy rows have ranges that hold whenever those of the rows do.

Which rows there are may itself be decided by noisy numbers. So a total's range covers every choice of rows that numbers
within the ranges could have made: rows that are *surely* there count in every case, others in some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.aggregates.measures import Floats, GroupEstimate
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, NoisyWindow, Outer
from sfumato.plan.values.expressions import (
    Column,
    Expression,
    Key,
    Reference,
    Result,
    ShownColumn,
    SummedOver,
    Windowed,
    noises,
    walk,
)
from sfumato.release.noisy_rows.key_functions import AnswerRows
from sfumato.release.noisy_rows.noisy_columns import (
    Bools,
    Evaluated,
    Keys,
    Numbers,
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
    """Which rows are there, and for which of them that is so for all numbers within the ranges."""

    here: Bools
    sure: Bools

    @classmethod
    def everywhere(cls, count: int) -> Presence:
        return cls(np.ones(count, bool), np.ones(count, bool))

    @property
    def surely(self) -> Bools:
        """Return rows that are there in any case."""
        return self.here & self.sure

    @property
    def possibly(self) -> Bools:
        """Return rows that may be there."""
        return self.here | ~self.sure

    def where(self, test: TruthColumn) -> Presence:
        """Keep those for which a test holds too."""
        true = test.true & test.known
        sure = (self.sure & test.sure) | (self.sure & ~self.here) | (test.sure & ~true)
        return Presence(self.here & true, sure)

    def of_groups(self, codes: Places, count: int) -> Presence:
        """Groups are there if one of their rows is."""
        here, surely, possibly = (_any(each, codes, count) for each in (self.here, self.surely, self.possibly))
        return Presence(here, np.where(here, surely, ~possibly))


def group_codes(keys: Sequence[Evaluated], present: Presence) -> tuple[Places, Places]:
    """Return for each row the number of its group, and for each group one of its rows.

    Groups are in the order of their first rows, those with a row that is there before others.
    """
    if not keys:
        return np.zeros(len(present.here), np.intp), np.zeros(1, np.intp)
    codes = np.zeros(len(present.here), np.intp)
    for column in keys:
        places = ranks(column, descending=False, nulls_first=False)
        codes = np.unique(codes * (int(places.max(initial=0)) + 2) + places + 1, return_inverse=True)[1]
    order = np.argsort(~present.here, kind="stable")
    _, first, numbered = np.unique(codes[order], return_index=True, return_inverse=True)
    by_row = np.argsort(first)
    renumbered = np.empty(len(first), np.intp)
    renumbered[by_row] = np.arange(len(first))
    found = np.empty(len(codes), np.intp)
    found[order] = renumbered[numbered]
    return found, order[first[by_row]]


def row_total(function: str, argument: Evaluated | None, present: Presence, codes: Places, count: int) -> Numbers:
    """Compute an aggregate of each group's rows; NULL counts in none."""
    if argument is not None:
        gone = missing(argument)
        present = Presence(present.here & ~gone, present.sure & (~gone | is_sure(argument)))
    if function == "COUNT":
        value, low, high = (_sum(each, codes, count) for each in (present.here, present.surely, present.possibly))
        return Numbers(value, low, high)
    assert argument is not None
    with np.errstate(invalid="ignore"):
        return _TOTALS[function](numbers(argument), present, codes, count)


def _sum(values: NDArray[np.generic], codes: Places, count: int) -> Floats:
    return np.bincount(codes, weights=values.astype(np.float64), minlength=count).astype(np.float64)


def _any(rows: Bools, codes: Places, count: int) -> Bools:
    return _sum(rows, codes, count) > 0


def _least(values: Floats, rows: Bools, codes: Places, count: int) -> Floats:
    """Find the least of each group's rows; infinity where there is none."""
    found = np.full(count, np.inf)
    np.minimum.at(found, codes[rows], values[rows])
    return found


def _summed(column: Numbers, present: Presence, codes: Places, count: int) -> Numbers:
    here, surely, perhaps = present.here, present.surely, present.possibly & ~present.surely
    value = _sum(np.where(here, column.value, 0), codes, count)
    low = np.where(surely, column.low, np.where(perhaps, np.minimum(column.low, 0), 0))
    high = np.where(surely, column.high, np.where(perhaps, np.maximum(column.high, 0), 0))
    empty = ~_any(here, codes, count)
    ends = _sum(low, codes, count), _sum(high, codes, count)
    if column.sum_width is not None:
        ends = _narrowed(column, present, codes, ends)
    return Numbers(np.where(empty, np.nan, value), *ends)


def _narrowed(column: Numbers, present: Presence, codes: Places, ends: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Narrow the range where it is sure which rows are added up: their noises add up as independent ones do."""
    assert column.sum_width is not None
    low, high = ends
    count = len(low)
    terms = _sum(present.here, codes, count)
    certain = ~_any(~present.sure, codes, count) & (terms > 0)
    sizes, places = np.unique(terms[certain], return_inverse=True)
    width = np.array([column.sum_width(int(each)) for each in sizes])[places] if len(sizes) else np.zeros(0)
    middle = _sum(np.where(present.here, (column.low + column.high) / 2, 0), codes, count)[certain]
    low[certain] = np.maximum(low[certain], middle - width)
    high[certain] = np.minimum(high[certain], middle + width)
    return low, high


def _smallest(column: Numbers, present: Presence, codes: Places, count: int) -> Numbers:
    """Find the least of each group, which is at most the greatest that a row surely there can be, or any row if none
    is.
    """
    value = _least(column.value, present.here, codes, count)
    low = _least(column.low, present.possibly, codes, count)
    among = _least(column.high, present.surely, codes, count)
    most = -_least(-column.high, present.possibly, codes, count)
    return Numbers(np.where(np.isinf(value), np.nan, value), low, np.where(np.isinf(among), most, among))


def _largest(column: Numbers, present: Presence, codes: Places, count: int) -> Numbers:
    found = _smallest(_negated(column), present, codes, count)
    return _negated(found)


def _negated(column: Numbers) -> Numbers:
    return Numbers(-column.value, -column.high, -column.low)


def _mean(column: Numbers, present: Presence, codes: Places, count: int) -> Numbers:
    rows = _sum(present.here, codes, count)
    total = _summed(column, present, codes, count)
    certain = ~_any(~present.sure, codes, count)
    least = _least(column.low, present.possibly, codes, count)
    most = -_least(-column.high, present.possibly, codes, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.where(certain, total.low / rows, least), np.where(certain, total.high / rows, most)
        return Numbers(total.value / rows, low, high)


_TOTALS: dict[str, Callable[[Numbers, Presence, Places, int], Numbers]] = {
    "SUM": _summed,
    "AVG": _mean,
    "MIN": _smallest,
    "MAX": _largest,
}


def window(over: NoisyWindow, evaluate: Callable[[Expression], Evaluated], present: Presence) -> Numbers:
    """Compute what a window shows in every row."""
    codes, first = group_codes([evaluate(each) for each in over.partition], present)
    if over.order:
        return _ranked(over, evaluate, present, codes)
    argument = None if over.argument is None else evaluate(over.argument)
    found = row_total(over.function, argument, present, codes, len(first))
    return Numbers(found.value[codes], found.low[codes], found.high[codes])


def _ranked(
    over: NoisyWindow, evaluate: Callable[[Expression], Evaluated], present: Presence, codes: Places
) -> Numbers:
    """Find a row's place among those of its partition that are there."""
    keys = [evaluate(each.expression) for each in over.order]
    places = np.zeros(len(codes), np.intp)
    for order, key in zip(over.order, keys, strict=True):
        own = ranks(key, order.descending, order.nulls_first) + 1
        places = np.unique(places * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    value = _places_within(over.function, places, codes, present.here)
    if len(over.order) == 1 and isinstance(keys[0], Numbers) and _complete(keys[0]):
        column = _negated(keys[0]) if over.order[0].descending else keys[0]
        before = _counted(column.high, present.surely, column.low, codes, "left")
        perhaps = _counted(column.low, present.possibly, column.high, codes, "right") - present.possibly
        return Numbers(value, np.where(over.function == "DENSE_RANK", 1.0, 1 + before), 1 + perhaps)
    if present.sure.all() and not any(noises(order.expression) for order in over.order):
        return Numbers(value, value, value)
    most = _sum(present.possibly, codes, int(codes.max()) + 1)[codes]
    return Numbers(value, np.ones(len(codes)), np.maximum(most, 1))


def _complete(column: Numbers) -> bool:
    return not np.isnan([column.value, column.low, column.high]).any()


def _counted(ends: Floats, rows: Bools, limits: Floats, codes: Places, side: str) -> Floats:
    """Count for every row the rows of its partition whose end lies below its limit (with "right": or at it)."""
    levels = np.unique(np.concatenate([ends, limits]))
    size = len(levels) + 1
    known = np.sort((codes * size + np.searchsorted(levels, ends))[rows])
    wanted = codes * size + np.searchsorted(levels, limits)
    found = np.searchsorted(known, wanted, side=side)  # type: ignore[call-overload]
    return (found - np.searchsorted(known, codes * size, side="left")).astype(np.float64)


def _places_within(function: str, places: Places, codes: Places, here: Bools) -> Floats:
    """RANK, DENSE_RANK or ROW_NUMBER by places; rows that are not there are not counted."""
    order = np.lexsort((np.arange(len(codes)), places, codes))
    kept = here[order]
    starts = np.concatenate([[True], codes[order][1:] != codes[order][:-1]])
    new = starts | np.concatenate([[True], places[order][1:] != places[order][:-1]])
    number: NDArray[Any] = np.cumsum(kept) - kept  # rows that are there before, in all partitions
    begin = np.maximum.accumulate(np.where(starts, number, 0))
    if function == "ROW_NUMBER":
        found = number - begin + 1
    elif function == "RANK":
        found = np.maximum.accumulate(np.where(new, number, 0)) - begin + 1
    else:
        found = _dense(kept, new, starts)
    result = np.empty(len(codes))
    result[order] = found
    return result


def _dense(kept: Bools, new: Bools, starts: Bools) -> Floats:
    """Count the different places up to each row's own, in its partition."""
    blocks = np.cumsum(new) - 1
    counted = np.bincount(blocks, weights=kept) > 0  # a place counts if a row that is there has it
    before: NDArray[Any] = (np.cumsum(counted) - counted)[blocks]
    return (before - np.maximum.accumulate(np.where(starts, before, 0)) + 1).astype(np.float64)


@dataclass(frozen=True)
class Finished:
    """The answer's columns over all rows, and which rows are shown in which order."""

    columns: tuple[Evaluated, ...]
    shown: Places
    sure: Bools
    """Which rows are shown, or not shown, for all numbers within the ranges."""


Estimated = Callable[[int], Sequence[GroupEstimate]]
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


def _column(found: GroupEstimate) -> Evaluated:
    """Return a result as a column: of numbers, or of values that a choice among them has decided on."""
    if found.labels is None:
        return Numbers(found.value, found.low, found.high, found.sum_width)
    return Keys(objects([found.labels[place] for place in found.value.astype(int).tolist()]), decided=True)


def picks(query: Query) -> bool:
    """Return whether rows are chosen by what their noisy numbers are, or put together."""
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
        ShownColumn(index): _taken(column, order) for index, column in enumerate(inner.columns)
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
    return TruthColumn(column.true[places], column.known[places], column.sure[places])
