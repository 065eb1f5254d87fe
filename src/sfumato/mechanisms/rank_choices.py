"""Exact private selection of a number by its rank, in many groups at once.

A *part* of a group holds the numbers from ``low`` to ``high`` and the rows that count there, each with a weight of at
most 1: those strictly between count whole, those equal to ``low`` or ``high`` with what is left of them for this part.
With B(y) the weight of rows below y, U(y) that of rows up to y and n that of all, a number y is at distance

    d(y) = max(B(y) − t, t − U(y), 0)   from the target   t = share·n + offset,

and is chosen with probability ∝ e^{−rate·d(y)}: the exponential mechanism over all numbers from low to high (Smith
2011). Ranks [B(y), U(y)] of following numbers touch, so some number is at distance 0 while t lies in [0, n]; an offset
leans the target to one side, and there the last number is taken to hold every rank beyond, so it is so always.

*What one row does.* Let a row of value x and weight w come into a part, and t move by share·w. B(y) and U(y) move by w
where y > x, U alone where y = x, neither where y < x. So B − t and U − t move by (1 − share)·w or by −share·w, and d
by at most w·max(share, 1 − share). Where a row of weight w changes its value within a part, n and t stay, B and U move
by at most w, and d by at most w. Rows may move one after the other: bounds of d add over rows.

All numbers between two neighbouring values are at one distance, so a run of numbers is chosen by a race (``races``)
with as many places as it holds numbers, then a number within it uniformly. Runs much further from the target than the
nearest together have a probability below 2⁻¹⁰⁰; whether the choice falls there is decided exactly too, by bits that
almost never need to be looked at. All weights are whole numbers of a unit that follows from the shares alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Indices, Integers
from sfumato.mechanisms import bits, races
from sfumato.quick_dataclass import dataclass

Weights = NDArray[Any]
"""Whole numbers: of 64 bits while all of them fit, else of Python's own."""

_FAR_BITS = 100
_MAX_RUNS = 1 << 20
_LARGEST = 1 << 62


@dataclass(frozen=True)
class RankedValues:
    """The distinct values of every group's rows, ascending within a group, group after group. PRIVATE."""

    values: Integers
    rows_before: Integers
    """How many rows stand before each value, over all groups, and at the end how many there are."""


@dataclass(frozen=True)
class QuantileParts:
    """The parts of all groups at one node of the recursion: each array has one element per group."""

    first: Indices
    last: Indices
    """The rows' values strictly between low and high are those from first to last."""
    low: Integers
    high: Integers
    low_weight: Weights
    high_weight: Weights
    """What counts here of the rows equal to low, and to high, in units; all of it is low's where both are one."""
    unit: int
    """One row counts as so many units: a product of denominators of shares, which are public."""

    def __getitem__(self, groups: slice | Indices) -> QuantileParts:
        """Return the parts of some groups."""
        return QuantileParts(
            self.first[groups],
            self.last[groups],
            self.low[groups],
            self.high[groups],
            self.low_weight[groups],
            self.high_weight[groups],
            self.unit,
        )

    def weight(self, rows: RankedValues) -> Weights:
        """Return the weight of all rows of each part, in units."""
        inside = (rows.rows_before[self.last] - rows.rows_before[self.first]).astype(self.low_weight.dtype)
        return self.low_weight + inside * self.unit + self.high_weight


@dataclass(frozen=True)
class RankRule:
    """The target of the selection in every part, and how sharply it is aimed at."""

    share: Fraction
    log_weight_per_row: Fraction
    """By how much the logarithm of a number's weight falls for each row between it and the target."""
    offset: int = 0
    """The target lies so many rows beyond the share; where it is negative, low holds every rank below, else high every
    rank above.
    """


def parts_with_all_rows(rows: RankedValues, starts: Indices, bounds: tuple[int, int]) -> QuantileParts:
    """Return every group with all its rows; values outside the bounds are clamped."""
    low, high = bounds
    begin, end = starts[:-1], starts[1:]
    first = _first_index_at_least(rows.values, begin, end, low + 1)
    last = np.maximum(_first_index_at_least(rows.values, begin, end, high), first)
    below, above = (rows.rows_before[b] - rows.rows_before[a] for a, b in ((begin, first), (last, end)))
    ones = np.ones(first.size, np.int64)
    return QuantileParts(first, last, low * ones, high * ones, below, above, 1)


def _first_index_at_least(values: Integers, begin: Indices, end: Indices, least: int) -> Indices:
    """Return, in each group, the first index whose value is at least this: all groups at once, by bisection."""
    low, high = begin.copy(), end.copy()
    while (open_groups := np.flatnonzero(low < high)).size:
        middle = (low[open_groups] + high[open_groups]) // 2
        is_less = values[middle] < least
        low[open_groups[is_less]] = middle[is_less] + 1
        high[open_groups[~is_less]] = middle[~is_less]
    return low


def choose(rows: RankedValues, parts: QuantileParts, rule: RankRule) -> tuple[Integers, QuantileParts, QuantileParts]:
    """Choose a number in every group's part; return it with the parts below and above it.

    Rows equal to the number count in both parts, with the share below and the rest above; where the target leans, in
    the part away from which it leans. So a row's weights in the two parts add up to what it had, whatever other rows
    there are: which fraction of it lies where depends on what was released and on nothing else.
    """
    parts = _with_big_integers_if_needed(rows, parts, rule)
    numbers, cut_index = parts.low.copy(), parts.first.copy()
    tied = np.zeros(cut_index.size, bool)
    pending = np.flatnonzero(parts.low < parts.high)  # a part of one number has but that to give
    first, last = (edges[pending] for edges in _first_and_last_values_in_reach(rows, parts, rule))
    for chunk in _slices_of_groups(2 * (last - first) + 3):
        groups = pending[chunk]
        runs = ValueRuns.around_windows(
            rows, parts[groups], rule, (first[chunk], last[chunk]), _negligible_distance(parts, rule)
        )
        numbers[groups], cut_index[groups], tied[groups] = runs.choose_numbers()
        for index in runs.draw_groups_beyond_runs():
            part = parts[groups[[index]]]
            all_runs = ValueRuns.around_windows(rows, part, rule, (part.first, part.last), None)
            if all_runs.falls_outside(near := runs.of_group(index)):
                numbers[groups[[index]]], cut_index[groups[[index]]], tied[groups[[index]]] = all_runs.outside(
                    near
                ).choose_numbers()
    return numbers, *_split_parts(rows, parts, rule, numbers, cut_index, tied)


def _split_parts(
    rows: RankedValues,
    parts: QuantileParts,
    rule: RankRule,
    numbers: Integers,
    cut_index: Indices,
    tied: NDArray[np.bool_],
) -> tuple[QuantileParts, QuantileParts]:
    denominator = rule.share.denominator
    share_below = rule.share.numerator if rule.offset == 0 else denominator * (rule.offset > 0)
    at_low = numbers == parts.low
    at_high = (numbers == parts.high) & ~at_low
    inside = (rows.rows_before[cut_index + tied] - rows.rows_before[cut_index]).astype(
        parts.low_weight.dtype
    ) * parts.unit
    tied_weight = np.where(at_low, parts.low_weight, np.where(at_high, parts.high_weight, inside))
    zero = np.zeros_like(tied_weight)
    lower = QuantileParts(
        parts.first,
        np.where(at_low, parts.first, np.where(at_high, parts.last, cut_index)),
        parts.low,
        numbers,
        np.where(at_low, tied_weight * share_below, parts.low_weight * denominator),
        np.where(at_low, zero, tied_weight * share_below),
        parts.unit * denominator,
    )
    upper = QuantileParts(
        np.where(at_low, parts.first, np.where(at_high, parts.last, cut_index + tied)),
        parts.last,
        numbers,
        parts.high,
        tied_weight * (denominator - share_below),
        np.where(at_high, zero, parts.high_weight * denominator),
        parts.unit * denominator,
    )
    return lower, upper


def _with_big_integers_if_needed(rows: RankedValues, parts: QuantileParts, rule: RankRule) -> QuantileParts:
    """Return weights as Python integers where a distance might not fit into 64 bits."""
    largest_weight = (
        int(parts.weight(rows).max(initial=0)) + (abs(rule.offset) + _negligible_distance(parts, rule)) * parts.unit
    )
    if 4 * (largest_weight + parts.unit) * rule.share.denominator < _LARGEST:
        return parts
    return replace(parts, low_weight=parts.low_weight.astype(object), high_weight=parts.high_weight.astype(object))


def _negligible_distance(parts: QuantileParts, rule: RankRule) -> int:
    """Return how many rows away from the target all numbers together have at most 2⁻¹⁰⁰ of the weight of one at
    distance 0.
    """
    numbers = int((parts.high - parts.low).max(initial=0)) + 1
    return math.ceil((_FAR_BITS + numbers.bit_length()) * math.log(2) / float(rule.log_weight_per_row)) + 1


def _target_rank_in_units(parts: QuantileParts, weight: Weights, rule: RankRule) -> Weights:
    """Return the target in units, times the share's denominator."""
    return weight * rule.share.numerator + rule.offset * parts.unit * rule.share.denominator


def _first_and_last_values_in_reach(
    rows: RankedValues, parts: QuantileParts, rule: RankRule
) -> tuple[Indices, Indices]:
    """Return the range of values of each part within reach of its target.

    With t the target in rows, a value is in reach if at most t + reach rows stand before it and at least t − reach up
    to it; both are whole numbers, so that ⌊t⌋ decides the first, and the second but for one value more.
    """
    target, reach = (
        _target_rank_in_units(parts, parts.weight(rows), rule) // rule.share.denominator,
        _negligible_distance(parts, rule),
    )
    target_rank = rows.rows_before[parts.first] + ((target - parts.low_weight) // parts.unit).astype(np.int64)
    first = np.clip(np.searchsorted(rows.rows_before, target_rank - reach) - 1, parts.first, parts.last)
    last = np.searchsorted(rows.rows_before, target_rank + reach, side="right")
    return first, np.clip(last, first, parts.last)


def _slices_of_groups(sizes: Indices) -> list[slice]:
    """Group consecutive groups while their runs are few enough to be held at once."""
    ends = np.cumsum(sizes)
    chunks, start = [], 0
    while start < sizes.size:
        limit = (ends[start - 1] if start else 0) + _MAX_RUNS
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        chunks.append(slice(start, stop))
        start = stop
    return chunks


@dataclass(frozen=True)
class ValueRuns:
    """Runs of consecutive numbers at one distance: low, then the gap before each value and that value, the last gap,
    and high; of one group after the other.
    """

    starts: Integers
    multiplicities: Integers
    distance: Weights
    """From the target, in units by the share's denominator: public, where the denominator of share·n is not."""
    cut: Indices
    """How many of all values come before the run's numbers, within what its part holds,"""
    tied: NDArray[np.bool_]
    """and whether its number is the value that follows them."""
    group: Indices
    """They rise, and every group has a run."""
    log_weight_per_distance: Fraction
    covered: NDArray[np.bool_]
    """For each group, whether all numbers of its part are here."""

    @classmethod
    def around_windows(
        cls,
        rows: RankedValues,
        parts: QuantileParts,
        rule: RankRule,
        window: tuple[Indices, Indices],
        reach: int | None,
    ) -> ValueRuns:
        """Return the runs around the values of each group's window: those within reach of the target, if a reach is
        given.
        """
        layout = _RunLayout.from_windows(parts, window)
        log_weight_per_distance = rule.log_weight_per_row / (parts.unit * rule.share.denominator)
        starts, multiplicities = layout.starts_and_sizes(rows, parts)
        distance = layout.distances(rows, parts, rule)
        covered = np.zeros(parts.low.size, bool)
        runs = cls(
            starts, multiplicities, distance, layout.cut, layout.tied, layout.group, log_weight_per_distance, covered
        )
        is_within = multiplicities > 0
        if reach is not None:
            is_within &= (distance <= reach * parts.unit * rule.share.denominator).astype(bool)
        runs = runs._select(is_within)
        covered |= np.add.reduceat(runs.multiplicities, runs.begin) == parts.high - parts.low + 1
        return runs

    @property
    def begin(self) -> Indices:
        """The index of the first run of each group."""
        return np.searchsorted(self.group, np.arange(self.covered.size))

    def choose_numbers(self) -> tuple[Integers, Indices, NDArray[np.bool_]]:
        """Choose a number of each group; return it with its position among the values."""
        index = self.draw_winners()
        return (
            self.starts[index] + bits.random_below_limits(self.multiplicities[index]),
            self.cut[index],
            self.tied[index],
        )

    def draw_winners(self) -> Indices:
        """Choose a run of each group by a race."""
        begin = self.begin
        gaps = self.distance - np.minimum.reduceat(self.distance, begin)[self.group]
        near = np.minimum(gaps, (1 << 63) - 1).astype(np.uint64)
        return races.draw_winners_of_groups(
            races.GUMBEL, near, self.log_weight_per_distance, begin, self.multiplicities
        )

    def draw_groups_beyond_runs(self) -> list[int]:
        """Draw which groups' choices may fall beyond these runs: that happens once in 2¹⁰⁰ times, and is examined once
        in 2⁶⁴.
        """
        return np.flatnonzero((bits.random_uint64(self.covered.size) == 0) & ~self.covered).tolist()

    def of_group(self, index: int) -> ValueRuns:
        """Return the runs of one group, as if it were alone."""
        group_runs = self._select(self.group == index)
        return replace(group_runs, group=np.zeros_like(group_runs.group), covered=self.covered[[index]])

    def outside(self, near: ValueRuns) -> ValueRuns:
        """Return the runs outside nearer runs of the same group."""
        return self._select(self._is_outside(near))

    def _select(self, mask: NDArray[np.bool_]) -> ValueRuns:
        return replace(
            self,
            starts=self.starts[mask],
            multiplicities=self.multiplicities[mask],
            distance=self.distance[mask],
            cut=self.cut[mask],
            tied=self.tied[mask],
            group=self.group[mask],
        )

    def _is_outside(self, near: ValueRuns) -> NDArray[np.bool_]:
        return (self.starts < near.starts[0]) | (self.starts > near.starts[-1])

    def falls_outside(self, near: ValueRuns) -> bool:
        """Decide whether the choice lies outside nearer runs, given that its first 64 bits do not rule it out."""
        return bits.is_uniform_below(0, 64, self.probability_outside(near))

    def probability_outside(self, near: ValueRuns) -> Callable[[Context], Decimal]:
        """Return a function that computes, to any precision, the probability that the choice lies outside
        nearer runs.
        """
        far = self._is_outside(near)

        def share(context: Context) -> Decimal:
            sums = {True: Decimal(0), False: Decimal(0)}
            for out, distance, count in zip(
                far.tolist(), self.distance.tolist(), self.multiplicities.tolist(), strict=True
            ):
                weight = context.multiply(
                    bits.to_decimal(-distance * self.log_weight_per_distance, context).exp(context), Decimal(count)
                )
                sums[out] = context.add(sums[out], weight)
            return context.divide(sums[True], context.add(sums[True], sums[False]))

        return share


@dataclass(frozen=True)
class _RunLayout:
    """What every run of every group is: low, a gap, a value, or high."""

    group: Indices
    cut: Indices
    at_low: NDArray[np.bool_]
    at_high: NDArray[np.bool_]
    tied: NDArray[np.bool_]
    seen: NDArray[np.bool_]
    """Whether the window extends to it: low and high count only where no value between is left out."""

    @classmethod
    def from_windows(cls, parts: QuantileParts, window: tuple[Indices, Indices]) -> _RunLayout:
        first, last = window
        sizes = 2 * (last - first) + 3
        group = np.repeat(np.arange(sizes.size), sizes)
        run_index = np.arange(group.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at_low, at_high = run_index == 0, run_index == (sizes - 1)[group]
        value_index = first[group] + (run_index - 1) // 2
        cut = np.where(at_low, parts.first[group], np.where(at_high, parts.last[group], value_index))
        seen = ~(at_low & (first > parts.first)[group]) & ~(at_high & (last < parts.last)[group])
        return cls(group, cut, at_low, at_high, (run_index % 2 == 0) & ~at_low & ~at_high, seen)

    def starts_and_sizes(self, rows: RankedValues, parts: QuantileParts) -> tuple[Integers, Integers]:
        """Return the first number of each run, and how many numbers it holds."""
        low, high = parts.low[self.group], parts.high[self.group]
        has_value_before, has_value_after = self.cut > parts.first[self.group], self.cut < parts.last[self.group]
        begin, end = low + 1, high.copy()
        begin[has_value_before] = rows.values[self.cut[has_value_before] - 1] + 1
        end[has_value_after] = rows.values[self.cut[has_value_after]]
        starts = np.where(self.at_low, low, np.where(self.at_high, high, np.where(self.tied, end, begin)))
        is_single = self.at_low | self.at_high | self.tied
        return starts, np.where(is_single, self.seen.astype(np.int64), end - begin)

    def distances(self, rows: RankedValues, parts: QuantileParts, rule: RankRule) -> Weights:
        """Return how far the target lies outside the ranks of each run."""
        weight_type, denominator = parts.low_weight.dtype, rule.share.denominator
        weight = parts.weight(rows)
        rank = parts.low_weight[self.group] + parts.unit * (
            rows.rows_before[self.cut] - rows.rows_before[parts.first[self.group]]
        ).astype(weight_type)
        run_weight = parts.unit * (rows.rows_before[self.cut + self.tied] - rows.rows_before[self.cut]).astype(
            weight_type
        )
        lean = abs(rule.offset) * parts.unit
        # The target is beyond no end but the one it leans to, so that more ranks at the other change no distance.
        below = np.where(self.at_low, -lean, rank)
        above = np.where(self.at_high, weight[self.group] + lean, rank + run_weight)
        target = _target_rank_in_units(parts, weight, rule)[self.group]
        return np.maximum(np.maximum(below * denominator - target, target - above * denominator), 0)
