"""Window functions over noisy rows: aggregates of frames, ranks, and values of other rows.

Where it is certain which rows a frame holds (no noisy value selected or ordered them), sums, means and values of linear
columns keep their exact noise. Otherwise the interval covers every frame that values within the intervals could make.


"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Bools, Floats, Indices
from sfumato.plan.noisy_rows import NoisyWindow
from sfumato.plan.values.expressions import (
    Expression,
    noise_count,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.noisy_columns import (
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    are_nulls_certain,
    as_numbers,
    confidence_statements,
    null_mask,
    statements_over_rows,
    with_statements,
)
from sfumato.release.noisy_rows.row_totals import (
    NO_ROW,
    Presence,
    aggregate_groups,
    dense_sort_ranks,
    group_codes_and_rows,
    group_minimum,
    negated,
    refine_codes,
    select_rows,
    sum_by_group,
    take_rows,
)

RANKS = ("RANK", "DENSE_RANK", "ROW_NUMBER")
RANK_FUNCTIONS = (*RANKS, "PERCENT_RANK", "CUME_DIST", "NTILE")
RANK_NOTE = "noise can change ranks: they have no ±"


def evaluate_window(over: NoisyWindow, evaluate: Callable[[Expression], Evaluated], present: Presence) -> Evaluated:
    """Evaluate a window function for every row."""
    codes, group_rows = group_codes_and_rows([evaluate(expression) for expression in over.partition], present)
    argument = None if over.argument is None else evaluate(over.argument)
    if not over.order and over.frame is None and over.function in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        return take_rows(aggregate_groups(over.function, argument, present, codes, len(group_rows)), codes)
    keys = [
        key.ranged if isinstance(key, LinearColumn) else key
        for key in map(evaluate, (o.expression for o in over.order))
    ]
    peers = codes
    for order, key in zip(over.order, keys, strict=True):
        peers = refine_codes(peers, dense_sort_ranks(key, order.descending, order.nulls_first))
    statements = statements_over_rows(present.statements | confidence_statements(*keys, argument))
    ordered = _OrderedRows.from_peers(peers, codes, present)
    if over.function in RANK_FUNCTIONS:
        is_rank = over.function in RANKS
        ranked = (
            _rank_rows(over, keys, peers, present, codes)
            if is_rank
            else _percent_rank_or_tile(over, ordered, present, keys)
        )
        is_noisy = bool(statements) or not present.sure.all() or _has_key_chosen_by_noise(keys)
        return with_statements(replace(ranked, is_noisy_rank=is_noisy), statements)
    is_certain = bool(present.sure.all()) and not any(noise_count(order.expression) for order in over.order)
    default = None if over.default is None else evaluate(over.default)
    window_column = (
        _values_of_other_rows(over, argument, default, ordered)
        if over.function in ("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
        else _frame_aggregate(over, argument, ordered)
    )
    return (
        window_column
        if is_certain
        else with_statements(_widen_to_all_frames(over, window_column, argument, present, codes), statements)
    )


@dataclass(frozen=True, eq=False)
class _OrderedRows:
    """The present rows in the order of a window, partition by partition."""

    rows: Indices
    """The row at each position."""
    count: int
    """The number of all rows."""
    first: Indices
    """The first position of each position's partition, and the one after its last."""
    end: Indices
    first_peer: Indices
    """The first position with equal ORDER BY values, and the one after the last."""
    end_peer: Indices

    @classmethod
    def from_peers(cls, peers: Indices, codes: Indices, present: Presence) -> _OrderedRows:
        """Order rows by the numbers of their peers, which go up from partition to partition, and then by their own."""
        order = np.argsort(peers, kind="stable")
        rows = order[present.present[order]]
        return cls(rows, len(codes), *_run_starts_and_stops(codes[rows]), *_run_starts_and_stops(peers[rows]))

    def frame_starts_and_stops(self, over: NoisyWindow) -> tuple[Indices, Indices]:
        """Return the first position of each frame, and the one after its last."""
        if over.frame is None:
            return self.first, self.end_peer
        position = np.arange(len(self.rows))
        first = self.first if over.frame.start is None else np.maximum(self.first, position + over.frame.start)
        end = self.end if over.frame.end is None else np.minimum(self.end, position + over.frame.end + 1)
        first = np.minimum(first, self.end)
        return first, np.maximum(first, end)

    def values_by_row(self, values: Floats) -> Floats:
        """Return a number for every row, from those of the positions; NULL for absent rows."""
        spread = np.full(self.count, np.nan)
        spread[self.rows] = values
        return spread


def _run_starts_and_stops(codes: Indices) -> tuple[Indices, Indices]:
    """Return for each position of ascending codes where its run of equal ones starts, and where it has ended."""
    return np.searchsorted(codes, codes, side="left"), np.searchsorted(codes, codes, side="right")


def _values_of_other_rows(
    over: NoisyWindow, argument: Evaluated | None, default: Evaluated | None, ordered: _OrderedRows
) -> Evaluated:
    """Return for each row the argument of another row: NULL, or the default, where there is none."""
    assert argument is not None
    position, (first, end) = np.arange(len(ordered.rows)), ordered.frame_starts_and_stops(over)
    number = 1 if over.number is None else over.number
    picked = {
        "LAG": position - number,
        "LEAD": position + number,
        "FIRST_VALUE": first,
        "LAST_VALUE": end - 1,
        "NTH_VALUE": first + number - 1,
    }[over.function]
    low, high = (ordered.first, ordered.end) if over.function in ("LAG", "LEAD") else (first, end)
    is_inside = (picked >= low) & (picked < high)
    source = np.full(ordered.count, NO_ROW)
    source[ordered.rows] = np.where(is_inside, ordered.rows.take(picked, mode="clip"), NO_ROW)
    values = take_rows(argument, source)
    return values if default is None else select_rows(values, default, source >= 0)


def _frame_aggregate(
    over: NoisyWindow, argument: Evaluated | None, ordered: _OrderedRows
) -> NumberColumn | LinearColumn:
    """Aggregate the argument over each row's frame; NULL is ignored."""
    first, end = ordered.frame_starts_and_stops(over)
    if argument is None:
        rows = ordered.values_by_row((end - first).astype(np.float64))
        return NumberColumn(rows, rows, rows)
    is_value = ~null_mask(argument)[ordered.rows]
    row_counts = _range_sums(is_value, first, end)
    if isinstance(argument, LinearColumn) and over.function in ("SUM", "AVG"):
        divisor = np.where(row_counts == 0, np.nan, row_counts if over.function == "AVG" else 1.0)
        form = argument.form.take(np.where(is_value, ordered.rows, NO_ROW)).sum_over_ranges(first, end)
        if form is not None:
            position = np.full(ordered.count, NO_ROW)
            position[ordered.rows] = np.arange(len(ordered.rows))
            parts = [np.where(is_value, part[ordered.rows], 0) for part in (argument.value, argument.centre)]
            value, centre = (ordered.values_by_row(_range_sums(part, first, end) / divisor) for part in parts)
            return argument.derived(value, centre, form.scaled(np.nan_to_num(1 / divisor)).take(position))
    null_sure = are_nulls_certain(argument)[ordered.rows]
    column = take_rows(as_numbers(argument), ordered.rows)
    frames = _Frames(as_numbers(column), is_value, is_value & null_sure, is_value | ~null_sure, first, end)
    value, low, high, nulls_sure = frames.aggregate_with_interval(over.function)
    nulls_sure_by_row = np.ones(ordered.count, bool)
    nulls_sure_by_row[ordered.rows] = nulls_sure
    ends = [ordered.values_by_row(part) for part in (value, low, high)]
    return NumberColumn(
        ends[0], ends[1], ends[2], statements_over_rows(confidence_statements(argument)), nulls_sure_by_row
    )


@dataclass(frozen=True, eq=False)
class _Frames:
    """The argument at each position of ordered rows, and the frame of each; NULL is ignored."""

    column: NumberColumn
    here: Bools
    """Where the argument has a value; ``surely`` and ``possibly`` for all, or some, values within the intervals."""
    surely: Bools
    possibly: Bools
    first: Indices
    end: Indices

    def aggregate_with_interval(self, function: str) -> tuple[Floats, Floats, Floats, Bools]:
        """Return an aggregate of each frame with its interval, and where it is certain whether it is NULL."""
        counts = self._frame_sums(self.here), self._frame_sums(self.surely), self._frame_sums(self.possibly)
        nulls_sure = (counts[1] > 0) | (counts[2] == 0)
        if function == "COUNT":
            return *counts, np.ones(len(nulls_sure), bool)
        if function in ("MIN", "MAX"):
            return *self._extreme_with_interval(largest=function == "MAX"), nulls_sure
        value, low, high = self._sum_with_interval()
        value = np.where(counts[0] == 0, np.nan, value)
        if function == "SUM":
            return value, low, high, nulls_sure
        with np.errstate(divide="ignore", invalid="ignore"):
            value, low, high = (part / counts[0] for part in (value, low, high))
        is_certain = counts[1] == counts[2]
        least, greatest = (
            self._frame_minima(self.column.low, self.possibly),
            -self._frame_minima(-self.column.high, self.possibly),
        )
        return value, np.where(is_certain, low, least), np.where(is_certain, high, greatest), nulls_sure

    def _sum_with_interval(self) -> tuple[Floats, Floats, Floats]:
        """Return the sum of each frame: a row that may be absent adds its value or nothing."""
        low, high = (np.where(self.possibly, part, 0) for part in (self.column.low, self.column.high))
        low, high = np.where(self.surely, low, np.minimum(low, 0)), np.where(self.surely, high, np.maximum(high, 0))
        return (
            self._frame_sums(np.where(self.here, self.column.value, 0)),
            self._frame_sums(low),
            self._frame_sums(high),
        )

    def _extreme_with_interval(self, *, largest: bool) -> tuple[Floats, Floats, Floats]:
        """Return the minimum of each frame, or the maximum, as the minimum of what is negated."""
        column = negated(self.column) if largest else self.column
        value, low = self._frame_minima(column.value, self.here), self._frame_minima(column.low, self.possibly)
        sure_high = self._frame_minima(column.high, self.surely)
        high = np.where(np.isinf(sure_high), -self._frame_minima(-column.high, self.possibly), sure_high)
        value = np.where(self._frame_sums(self.here) == 0, np.nan, value)
        return (-value, -high, -low) if largest else (value, low, high)

    def _frame_sums(self, values: NDArray[Any]) -> Floats:
        return _range_sums(values, self.first, self.end)

    def _frame_minima(self, values: Floats, is_included: Bools) -> Floats:
        return _range_minima(np.where(is_included, values, np.inf), self.first, self.end)


def _range_sums(values: NDArray[Any], first: Indices, end: Indices) -> Floats:
    """Add up the values of each range; an infinite interval end makes the sums that hold it infinite."""
    is_infinite = np.isinf(values.astype(np.float64))
    sums = np.concatenate([[0.0], np.cumsum(np.where(is_infinite, 0, values), dtype=np.float64)])
    totals: Floats = sums[end] - sums[first]
    for sign in (np.inf, -np.inf):
        hits = np.concatenate([[0], np.cumsum(values == sign)])
        totals = np.where(hits[end] > hits[first], sign, totals)
    return totals


def _range_minima(values: Floats, first: Indices, end: Indices) -> Floats:
    """Return the minimum of each range: two ranges whose length is a power of 2 cover it, the largest that fits."""
    lengths = end - first
    minima = np.full(len(first), np.inf)
    level = values
    for power in range(len(values).bit_length()):
        size = 1 << power
        here = lengths >= size
        minima[here] = np.minimum(level[first[here]], level[end[here] - size])
        level = np.minimum(level[:-size], level[size:])
    return minima


def _widen_to_all_frames(
    over: NoisyWindow, evaluated: Evaluated, argument: Evaluated | None, present: Presence, codes: Indices
) -> Evaluated:
    """Widen intervals to every frame that noisy values could have made of a partition's rows."""
    if isinstance(evaluated, ExactColumn):
        return replace(evaluated, chosen_by_noise=True)
    if isinstance(evaluated, TruthColumn):
        return replace(evaluated, sure=np.zeros(len(codes), bool))
    count = len(codes)  # never fewer than there are partitions
    possible = present.possibly_present if argument is None else present.not_null(argument).possibly_present
    if over.function == "COUNT":
        sizes = sum_by_group(possible, codes, count)[codes]
        return NumberColumn(as_numbers(evaluated).value, np.zeros(len(codes)), sizes)
    assert argument is not None
    column, value = as_numbers(argument), as_numbers(evaluated).value
    if over.function == "SUM":
        low, high = np.minimum(column.low, 0), np.maximum(column.high, 0)
        ends = [sum_by_group(np.where(possible, part, 0), codes, count)[codes] for part in (low, high)]
    else:
        ends = [
            group_minimum(column.low, possible, codes, count)[codes],
            -group_minimum(-column.high, possible, codes, count)[codes],
        ]
    return NumberColumn(value, np.fmin(ends[0], value), np.fmax(ends[1], value))


def _percent_rank_or_tile(
    over: NoisyWindow, ordered: _OrderedRows, present: Presence, keys: Sequence[Evaluated]
) -> NumberColumn:
    """Compute PERCENT_RANK, CUME_DIST or NTILE: exact where the order is, otherwise any that exists."""
    sizes, position = ordered.end - ordered.first, np.arange(len(ordered.rows)) - ordered.first
    low, high = 0.0, 1.0
    if over.function == "PERCENT_RANK":
        values = (ordered.first_peer - ordered.first) / np.maximum(sizes - 1, 1)
    elif over.function == "CUME_DIST":
        values = (ordered.end_peer - ordered.first) / sizes
    else:
        assert over.number is not None
        low, high = 1.0, float(over.number)
        # the first buckets are longer by one row: from the last of them on, the second number is the larger one
        short, longer = np.divmod(sizes, over.number)
        values = 1.0 + np.maximum(position // (short + 1), (position - longer) // np.maximum(short, 1))
    value = ordered.values_by_row(values.astype(np.float64))
    is_exact = bool(present.sure.all()) and not confidence_statements(*keys) and not _has_key_chosen_by_noise(keys)
    return NumberColumn(value, value, value) if is_exact else NumberColumn(
        value, np.full(len(value), low), np.full(len(value), high)
    )  # fmt: skip


def _has_key_chosen_by_noise(keys: Sequence[Evaluated]) -> bool:
    return any(isinstance(key, ExactColumn) and key.chosen_by_noise for key in keys)


def _rank_rows(
    over: NoisyWindow, keys: Sequence[Evaluated], peers: Indices, present: Presence, codes: Indices
) -> NumberColumn:
    """Compute the rank of each row among the present rows of its partition."""
    value = _rank_within(over.function, peers, codes, present.present)
    if len(over.order) == 1 and isinstance(keys[0], NumberColumn) and _is_never_null(keys[0]):
        column = negated(keys[0]) if over.order[0].descending else keys[0]
        certainly_before = _count_below(column.high, present.surely_present, column.low, codes, "left")
        possibly_before = (
            _count_below(column.low, present.possibly_present, column.high, codes, "right") - present.possibly_present
        )
        return NumberColumn(
            value, np.where(over.function == "DENSE_RANK", 1.0, 1 + certainly_before), 1 + possibly_before
        )
    if present.sure.all() and not any(noise_count(order.expression) for order in over.order):
        return NumberColumn(value, value, value)
    partition_sizes = sum_by_group(present.possibly_present, codes, len(codes))[codes]
    return NumberColumn(value, np.ones(len(codes)), np.maximum(partition_sizes, 1))


def _is_never_null(column: NumberColumn) -> bool:
    """Return whether no cell is NULL, whatever the values within the intervals are."""
    is_known = not np.isnan([column.value, column.low, column.high]).any()
    return is_known and bool(are_nulls_certain(column).all())


def _count_below(ends: Floats, rows: Bools, limits: Floats, codes: Indices, side: str) -> Floats:
    """Count for every row the rows of its partition whose end lies below its limit (with "right": or at it)."""
    levels = np.unique(np.concatenate([ends, limits]))
    levels_per_partition = len(levels)
    sorted_ends = np.sort((codes * levels_per_partition + np.searchsorted(levels, ends))[rows])
    sorted_limits = codes * levels_per_partition + np.searchsorted(levels, limits)
    ends_before = np.searchsorted(sorted_ends, sorted_limits, side=side)  # type: ignore[call-overload]
    return (ends_before - np.searchsorted(sorted_ends, codes * levels_per_partition, side="left")).astype(np.float64)


def _rank_within(function: str, peers: Indices, codes: Indices, here: Bools) -> Floats:
    """Compute RANK, DENSE_RANK or ROW_NUMBER from the numbers of peers; absent rows are not counted."""
    order = np.argsort(peers, kind="stable")
    (first, _), (first_peer, _) = _run_starts_and_stops(codes[order]), _run_starts_and_stops(peers[order])
    if function == "DENSE_RANK":  # a number counts if a present row has it
        is_present: NDArray[Any] = (np.bincount(peers, weights=here) > 0)[peers[order]] & _is_run_start(first_peer)
        before = (np.cumsum(is_present) - is_present)[first_peer]
    else:
        before = np.cumsum(here[order]) - here[order]  # present rows before this one, in all partitions
        before = before[first_peer] if function == "RANK" else before
    row_ranks = np.empty(len(codes))
    row_ranks[order] = before - before[first] + 1
    return row_ranks


def _is_run_start(first: Indices) -> Bools:
    """Return which positions are the first of their run."""
    return np.asarray(first == np.arange(len(first)), bool)
