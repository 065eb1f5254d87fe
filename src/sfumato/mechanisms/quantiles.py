"""Quantiles are selected among all whole numbers within public bounds, each scored by its rank, exactly.

A number y scores minus the distance of q·n from the ranks it can have, [#{x < y}, #{x ≤ y}]: between data values
that is −|#{x < y} − q·n|, and a value that many rows share is a good answer for all the ranks they hold. When a row
is added both ends move by 0 or 1 and q·n by q, so a score moves by at most max(q, 1−q).

All numbers between two neighbouring values share a score, so a run of numbers is chosen by a race (``races``) with
as many places as it holds numbers, then a number within it uniformly: exactly the exponential mechanism over all
numbers (Smith 2011). Runs much further from the target than the nearest one together have a probability below
2⁻¹⁰⁰; whether the choice falls there is decided exactly too, by bits that almost never need to be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits, exact_decisions, grids, races
from sfumato.privacy import Curve, Neighbours, codec, compose
from sfumato.privacy.numbers import CONFIDENCE, INSIDE_UNIT, POSITIVE, Number, exact, shown, text, whole

_FAR_BITS = 100
_LARGEST = 1 << 61
_DECIMALS = 10**6
_LEAST_RATE = Fraction(1, 10**10)
_MOST_ROWS = 1 << 36  # for one value: a row beyond it counts nowhere, so ranks and n still move together


@codec.value("quantiles")
@dataclass(frozen=True)
class Quantiles:
    """Several quantiles of whole numbers within public bounds are chosen privately.

    One unit has at most ``rows_per_unit`` = c rows, so a score moves by at most c·max(q, 1−q) when it is added, c
    when it is replaced. Several quantiles are found recursively, the middle one first, each part of the data on its
    own (Kaplan, Schnapp & Stemmer 2022): a unit's rows split over the parts, so a level costs as much as one
    quantile; under replace a unit may leave one part and enter another, and a level after the first costs up to
    2·max(q, 1−q) times as much. Levels add. Rows equal to a released value count with what lies above it, so where
    very many rows share one value, a lower quantile that should be that value too may fall below it: ask for it
    alone.
    """

    interactive: ClassVar[bool] = False

    probabilities: tuple[Fraction, ...]
    epsilon: Fraction
    bounds: tuple[int, int]
    rows_per_unit: int
    neighbours: Neighbours

    def __init__(
        self,
        probabilities: Any,
        epsilon: Number,
        bounds: tuple[int, int],
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        given = list(probabilities) if isinstance(probabilities, (list, tuple)) else [probabilities]
        # Six decimals are plenty, and keep every rank distance a whole number of small units.
        chances = tuple(sorted({_rounded(exact(q, "probabilities", INSIDE_UNIT)) for q in given}))
        if not chances or chances[0] <= 0 or chances[-1] >= 1:
            raise InvalidParameter("probabilities", probabilities, "at least one number in (0, 1), to six decimals")
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2 or not all(type(b) is int for b in bounds):
            raise InvalidParameter("bounds", bounds, "a pair of whole numbers (low, high)")
        low, high = bounds
        if not -_LARGEST <= low < high <= _LARGEST:
            raise InvalidParameter("bounds", bounds, "low < high, both below 2^62 in size")
        object.__setattr__(self, "probabilities", chances)
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "bounds", (low, high))
        object.__setattr__(self, "rows_per_unit", whole(rows_per_unit, "rows_per_unit", at_least=1))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))
        if not _LEAST_RATE <= self._level_epsilon / (2 * self.rows_per_unit) <= 1000:
            raise InvalidParameter("epsilon", epsilon, "between 1e-9 and 1000 for each row a unit may have")

    def choose(self, values: Any) -> list[int]:
        """Choose the quantiles of a sorted list of whole numbers, in the order of their probabilities; values outside
        the bounds are clamped.
        """
        array = grids.to_steps(grids.as_numbers(values, None, "values"), None)
        if array.ndim != 1 or (array.size and not np.all(array[:-1] <= array[1:])):
            raise InvalidParameter("values", grids.described(array), "a sorted list of whole numbers")
        clamped = np.clip(array, *self.bounds)
        new = np.concatenate([[True], clamped[1:] != clamped[:-1]])[: clamped.size]
        first = np.flatnonzero(new)
        distinct = clamped if first.size == clamped.size else clamped[first]
        return self._released(distinct, np.append(first, clamped.size).astype(np.int64, copy=False))

    def choose_histogram(self, values: Any, counts: Any) -> list[int]:
        """Choose from distinct values and how many rows have each, as an engine returns them."""
        points = grids.to_steps(grids.as_numbers(values, None, "values"), None)
        rows = grids.to_steps(grids.as_numbers(counts, None, "counts"), None)
        if points.shape != rows.shape or points.ndim != 1 or (rows < 0).any():
            raise InvalidParameter("counts", grids.described(rows), "as many numbers ≥ 0 as there are values")
        order = np.argsort(points, kind="stable")
        clamped, many = np.clip(points[order], *self.bounds), rows[order]
        distinct, start = np.unique(clamped, return_index=True)
        ranks = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(many, _MOST_ROWS))])
        return self._released(distinct, np.concatenate([ranks[start], [ranks[-1]]]).astype(np.int64))

    def _released(self, distinct: NDArray[np.int64], ranks: NDArray[np.int64]) -> list[int]:
        """Release the quantiles of ``distinct`` values in order; ``ranks`` is the number of rows below each, and at the
        end that of all.
        """
        found: dict[Fraction, int] = {}
        todo = [(self.probabilities, (0, distinct.size), self.bounds, (Fraction(0), Fraction(1)))]
        while todo:
            chances, (a, b), (low, high), (below, above) = todo.pop()
            middle = len(chances) // 2
            chance = chances[middle]
            value = self._one(distinct[a:b], ranks[a : b + 1], (low, high), (chance - below) / (above - below))
            found[chance] = value
            # Rows below the released value on one side, the others on the other: every row in one part.
            cut = a + int(np.searchsorted(distinct[a:b], value))
            parts = (
                (chances[:middle], (a, cut), (low, value), (below, chance)),
                (chances[middle + 1 :], (cut, b), (value, high), (chance, above)),
            )
            todo += [part for part in parts if part[0]]
        return [found[q] for q in self.probabilities]

    def _one(
        self, distinct: NDArray[np.int64], ranks: NDArray[np.int64], bounds: tuple[int, int], share: Fraction
    ) -> int:
        """Choose one quantile of a part of the rows, among the numbers within its bounds."""
        per_row = self._level_epsilon / (2 * self._score_sensitivity(share))
        # A value that holds the target's rank is at distance 0. Numbers further than this many rows away have together
        # at most 2⁻¹⁰⁰ of its weight: they are left out once it is decided that the choice is not among them.
        nats = (_FAR_BITS + (bounds[1] - bounds[0] + 1).bit_length()) * math.log(2)
        reach = math.ceil(nats / float(per_row)) + 1
        middle = int(ranks[0]) + math.floor(share * int(ranks[-1] - ranks[0]))
        first = max(0, int(np.searchsorted(ranks, middle - reach)) - 1)
        last = min(distinct.size, int(np.searchsorted(ranks, middle + reach + 1, side="right")) + 1)
        race = _Race.of(distinct, ranks, bounds, share, per_row, (first, last), reach)
        if race.numbers <= bounds[1] - bounds[0] and (word := bits.integer(64)) == 0:
            whole_race = _Race.of(distinct, ranks, bounds, share, per_row, (0, distinct.size), None)
            if exact_decisions.less(word, 64, whole_race.share_beyond(race)):
                race = whole_race.beyond(race)
        return race.winner()

    def _score_sensitivity(self, share: Fraction) -> Fraction:
        worst = Fraction(1) if self.neighbours is Neighbours.REPLACE else max(share, 1 - share)
        return self.rows_per_unit * worst

    @property
    def _levels(self) -> list[Fraction]:
        """Give what each level costs as a multiple of its ε."""
        costs: list[Fraction] = []
        layer = [(self.probabilities, Fraction(0), Fraction(1))]
        while layer:
            shares, following = [], []
            for chances, below, above in layer:
                middle = len(chances) // 2
                shares.append((chances[middle] - below) / (above - below))
                parts = ((chances[:middle], below, chances[middle]), (chances[middle + 1 :], chances[middle], above))
                following += [part for part in parts if part[0]]
            doubled = costs and self.neighbours is Neighbours.REPLACE
            costs.append(2 * max(max(s, 1 - s) for s in shares) if doubled else Fraction(1))
            layer = following
        return costs

    @property
    def _level_epsilon(self) -> Fraction:
        return self.epsilon / sum(self._levels, Fraction(0))

    def curve(self) -> Curve:
        """Charge one quantile as an exponential mechanism, each level of several as any release so private."""
        if len(self.probabilities) == 1:
            return Curve.bounded_range(self.epsilon, self.neighbours)
        return compose(Curve.pure(cost * self._level_epsilon, self.neighbours) for cost in self._levels)

    def error(self, confidence: Number = "0.95") -> float:
        """Bound how many rows, with this confidence, lie between a released number and its quantile: ranks, not values.

        The exponential mechanism's bound with as many candidates as there are numbers, summed over the levels; for
        several quantiles it supposes that no value is shared by many rows.
        """
        miss = (1 - exact(confidence, "confidence", CONFIDENCE)) / len(self.probabilities)
        candidates = self.bounds[1] - self.bounds[0] + 1
        rate = float(self._level_epsilon / (2 * self.rows_per_unit))
        log_miss = math.log(miss.numerator) - math.log(miss.denominator)
        return len(self._levels) * (math.log(candidates) - log_miss) / rate

    def words(self) -> str:
        chances = ", ".join(text(q) for q in self.probabilities)
        return f"quantiles {chances} by interval selection, ε {shown(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        chances = ", ".join(text(q) for q in self.probabilities)
        limits = f"bounds={self.bounds}, rows_per_unit={self.rows_per_unit}, neighbours={self.neighbours.value!r}"
        return f"Quantiles([{chances}], epsilon={text(self.epsilon)}, {limits})"


@dataclass(frozen=True)
class _Race:
    """A race has runs of numbers with one score each: the gap before each value and after the last, and each value
    itself.
    """

    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    distance: NDArray[Any]
    """From the target's rank, in units of the share's denominator: public, where that of share·n is not."""
    rate: Fraction

    @classmethod
    def of(
        cls,
        distinct: NDArray[np.int64],
        ranks: NDArray[np.int64],
        bounds: tuple[int, int],
        share: Fraction,
        per_row: Fraction,
        window: tuple[int, int],
        reach: int | None,
    ) -> _Race:
        """Make the runs around the values from first to last of the window: those within reach of a target, if any."""
        first, last = window
        low = bounds[0] if first == 0 else int(distinct[first - 1]) + 1
        high = bounds[1] if last == distinct.size else int(distinct[last]) - 1
        values, rows = distinct[first:last], ranks[first : last + 1] - ranks[0]
        starts, places, below, upto = (np.empty(2 * values.size + 1, np.int64) for _ in range(4))
        starts[0::2] = np.concatenate([[low], values + 1])
        places[0::2] = np.concatenate([values, [high + 1]]) - starts[0::2]
        starts[1::2], places[1::2] = values, 1
        below[0::2] = upto[0::2] = rows
        below[1::2], upto[1::2] = rows[:-1], rows[1:]
        distance = _distances(below, upto, share, int(ranks[-1] - ranks[0]))
        held = places > 0
        if reach is not None:
            held &= distance <= reach * share.denominator
        return cls(starts[held], places[held], distance[held], per_row / share.denominator)

    @property
    def numbers(self) -> int:
        return int(self.places.sum())

    def winner(self) -> int:
        gaps = np.minimum(self.distance - self.distance.min(), (1 << 63) - 1).astype(np.uint64)
        chosen = races.winners(races.GUMBEL, gaps, self.rate, 1, self.places)[0]
        return int(self.starts[chosen]) + bits.below(int(self.places[chosen]))

    def _is_beyond(self, near: _Race) -> NDArray[np.bool_]:
        return (self.starts < near.starts[0]) | (self.starts > near.starts[-1])

    def beyond(self, near: _Race) -> _Race:
        """Give what lies outside a nearer race."""
        far = self._is_beyond(near)
        return _Race(self.starts[far], self.places[far], self.distance[far], self.rate)

    def share_beyond(self, near: _Race) -> Callable[[Context], Decimal]:
        """Compute the probability that the choice lies outside a nearer race, to any precision: asked once in 2⁶⁴
        races.
        """
        far = self._is_beyond(near)

        def share(context: Context) -> Decimal:
            sums = {True: Decimal(0), False: Decimal(0)}
            for out, distance, count in zip(far.tolist(), self.distance.tolist(), self.places.tolist(), strict=True):
                weight = context.multiply(
                    exact_decisions.decimal(-distance * self.rate, context).exp(context), Decimal(count)
                )
                sums[out] = context.add(sums[out], weight)
            return context.divide(sums[True], context.add(sums[True], sums[False]))

        return share


def _rounded(chance: Fraction) -> Fraction:
    return Fraction(round(chance * _DECIMALS), _DECIMALS)


def _distances(below: NDArray[np.int64], upto: NDArray[np.int64], share: Fraction, count: int) -> NDArray[Any]:
    """Measure how far share·count lies outside [below, upto], in whole units of 1/denominator, as large as they get."""
    unit, target = share.denominator, share.numerator * count
    rows = np.int64 if (int(upto[-1]) + 1) * unit + target < 1 << 62 else object
    return np.maximum(np.maximum(below.astype(rows) * unit - target, target - upto.astype(rows) * unit), 0)
