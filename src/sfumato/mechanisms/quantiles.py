"""Private quantiles of many groups: exact selection by rank among all integers within public bounds.

Several quantiles are found recursively, the middle one first, each part of the rows on its own (Kaplan, Schnapp &
Stemmer 2022). How a number is chosen in a part, and how far a row moves its scores, is said in ``rank_choices``. What
a level of the recursion leaks, and why it is charged as one bounded-range release:

*Theorem.* Given what earlier levels released, a level chooses one number in each part of each group, independently. Let
every choice of share s be drawn with rate ε/(2·c·v) per row, for units of at most c rows in all groups together, where
v = max(s, 1−s) under add-remove; under replace v = 1 where all rows are in one part, else 2·max(s, 1−s). Then the
privacy loss of the level spans at most ε, for all neighbours, in both orders.

*Proof.* A choice's loss at y is rate·(d′(y) − d(y)) and a number that is the same for all y (the ratio of what the
weights add up to), so it spans rate·(max − min)(d′ − d): twice the bound on |d′ − d|, times the rate. The loss of the
level is the sum of those of its independent choices, so spans add. *Add-remove*: a row has weights wⱼ in the parts, at
most 1 together, and moves d in part j by at most wⱼ·max(sⱼ, 1−sⱼ): it adds Σⱼ 2·rateⱼ·wⱼ·max(sⱼ, 1−sⱼ) = Σⱼ wⱼ·ε/c,
which is at most ε/c, and c rows ε. *Replace*, all rows in one part: a row that becomes another moves d by at most 1,
which adds 2·rate = ε/c. Else let the row have weights wⱼ and its successor w′ⱼ. In part j a weight of
mⱼ = min(wⱼ, w′ⱼ) changes its value and |wⱼ − w′ⱼ| comes or goes: d moves by at most mⱼ + |wⱼ − w′ⱼ|·max(sⱼ, 1−sⱼ), and
so by at most (mⱼ + |wⱼ − w′ⱼ|/2)·2·max(sⱼ, 1−sⱼ), where mⱼ + |wⱼ − w′ⱼ|/2 = (wⱼ + w′ⱼ)/2. With the rate of that part
it adds (wⱼ + w′ⱼ)/2·ε/c, and all parts together ε/c. ∎

So a level has bounded range ε (Dong, Durfee & Rogers 2020), which leaks far less in Rényi's terms than a pure ε; levels
are adaptive, and compose. Groups are parts like any other: of T rows of a unit, at most c′ in one group, all groups
together cost T/c′ times what one of them would at the same rate. Rows tied with a released number have weights that
depend on what was released alone, so the theorem holds for them as for others.

``LegacyQuantiles`` keeps the charge of old ledgers, from before levels were known to have bounded range: they are
read, and cost what they cost, but nothing is released that way any more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import grids, rank_choices
from sfumato.mechanisms.rank_choices import RankedValues, RankRule
from sfumato.privacy import Curve, Neighbours, codec, compose
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    NONNEGATIVE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
)
from sfumato.quick_dataclass import dataclass

_LARGEST = 1 << 61
_DECIMALS = 10**6
_MAX_ROWS = 1 << 36  # for one value: a row beyond it counts nowhere, so ranks and n still move together
_MAX_OFFSET = 1 << 40
_MAX_TEXTS = 9
"""The most probabilities that words list one by one."""


class GroupedValues(Protocol):
    """The distinct values of each group's rows, ascending within a group, with how many rows have each."""

    @property
    def group(self) -> NDArray[np.intp]: ...

    @property
    def steps(self) -> NDArray[np.int64]: ...

    @property
    def counts(self) -> NDArray[np.int64]: ...

    @property
    def groups(self) -> int:
        """The number of groups, those without rows too."""
        ...


@dataclass(frozen=True)
class _QuantileNode:
    """A node of the recursion: one quantile, chosen between two others."""

    probability: Fraction
    below: Fraction
    above: Fraction
    level: int

    @property
    def share(self) -> Fraction:
        return (self.probability - self.below) / (self.above - self.below)


@codec.serialisable("quantiles", 2)
@dataclass(frozen=True)
class Quantiles:
    """Several private quantiles of integers within public bounds, in one group or in many.

    One unit has at most ``rows_per_unit`` rows, in all groups together where rows are ``grouped``. ``epsilon`` pays for
    all quantiles of all groups: half of it goes to each of two levels, and so on, and a level leaks no more than one
    release of bounded range (the module says why). Rows equal to a released number count below it with the level's
    share and above it with the rest. An ``offset`` moves every target by so many rows: what is aimed at is then the
    q·n + offset-th row, ties lie on the side away from it, and a group with too few rows gives the bound on that side.
    """

    interactive: ClassVar[bool] = False

    probabilities: tuple[Fraction, ...]
    epsilon: Fraction
    bounds: tuple[int, int]
    rows_per_unit: int
    neighbours: Neighbours
    grouped: bool = False
    offset: int = 0

    def __init__(
        self,
        probabilities: Any,
        epsilon: Number,
        bounds: tuple[int, int],
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grouped: bool = False,
        offset: int = 0,
    ) -> None:
        object.__setattr__(self, "offset", exact_integer(offset, "offset", at_least=-_MAX_OFFSET))
        object.__setattr__(self, "probabilities", self._parse_probabilities(probabilities))
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "bounds", _parse_bounds(bounds))
        object.__setattr__(self, "rows_per_unit", exact_integer(rows_per_unit, "rows_per_unit", at_least=1))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))
        object.__setattr__(self, "grouped", bool(grouped))
        if self.offset > _MAX_OFFSET:
            raise InvalidParameter("offset", offset, f"at most {_MAX_OFFSET:,} rows")
        grids.require_rate(
            self.epsilon, self.level_epsilon / (2 * self.rows_per_unit), f"rows_per_unit = {self.rows_per_unit:,}"
        )

    def _parse_probabilities(self, probabilities: Any) -> tuple[Fraction, ...]:
        """Parse numbers in (0, 1) to six decimals, which keep every rank distance a whole number of small units."""
        raw = list(probabilities) if isinstance(probabilities, (list, tuple)) else [probabilities]
        allowed = NONNEGATIVE.for_list
        parsed = tuple(sorted({_round_probability(exact(q, "probabilities", allowed)) for q in raw}))
        is_extreme = (list(parsed) == [0] and self.offset > 0) or (list(parsed) == [1] and self.offset < 0)
        if not parsed or not (is_extreme or (parsed[0] > 0 and parsed[-1] < 1)):
            raise InvalidParameter(
                "probabilities",
                probabilities,
                "one or more numbers above 0 and below 1, after rounding to six decimals",
                fix="write probabilities=[0.25, 0.5, 0.75]",
            )
        return parsed

    @classmethod
    def minimum(
        cls,
        epsilon: Number,
        bounds: tuple[int, int],
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grouped: bool = False,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Quantiles:
        """Return a selection that aims at the k-th row from the least, k the rank that the price allows.

        With k the offset, except with probability 1 − confidence some row is at most the number that is released, and
        fewer than 2k rows lie below it: each of the two fails with half of that.
        """
        return _with_safe_inward_offset(cls(0, epsilon, bounds, rows_per_unit, neighbours, grouped, 1), confidence)

    @classmethod
    def maximum(
        cls,
        epsilon: Number,
        bounds: tuple[int, int],
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grouped: bool = False,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Quantiles:
        """Return a selection that aims at the k-th row from the greatest, k the rank that the price allows."""
        return _with_safe_inward_offset(cls(1, epsilon, bounds, rows_per_unit, neighbours, grouped, -1), confidence)

    def ends(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> tuple[Quantiles, Quantiles]:
        """Return two mechanisms of this price each, whose numbers bracket the true quantiles from below and above.

        Every target is moved by as many rows as a choice may err, so except with probability 1 − confidence, for all
        quantiles of k groups at once, the lower number is at most, and the upper at least, every number that is the
        q-quantile of the rows by whatever definition, ties or none: what is chosen lies on its side of its target, and
        rows tied with it are left out of where they could move a target past the truth.
        """
        priced = replace(self, epsilon=exact(epsilon, "epsilon", POSITIVE))
        rows = priced.safety_offset_rows(confidence, k)
        return replace(priced, offset=-rows), replace(priced, offset=rows)

    def safety_offset_rows(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> int:
        """Return the offset, in rows, that puts the chosen numbers on one side of the truth: in k groups at once, with
        half of what this confidence lets fail. It is one row more than a choice may err, for a quantile that lies
        between two rows.
        """
        miss = (1 - exact(confidence, "confidence", CONFIDENCE)) / (2 * len(self.probabilities) * k)
        largest_error = max(self._row_error(node, miss) for node in self._nodes)
        return 1 + (math.floor(largest_error) if self.probabilities[0] in (0, 1) else math.ceil(largest_error))

    def choose(self, values: Any) -> list[int]:
        """Return the quantiles of a sorted list of integers, in the order of their probabilities; values outside the
        bounds are clamped.
        """
        sorted_values = grids.round_to_steps(grids.as_numeric_array(values, None, "values"), None)
        if sorted_values.ndim != 1 or (sorted_values.size and not np.all(sorted_values[:-1] <= sorted_values[1:])):
            got = (
                grids.describe_array(sorted_values)
                if sorted_values.ndim != 1
                else ValueWords("a list in another order")
            )
            rule = "a list of whole numbers in ascending order"
            raise InvalidParameter("values", got, rule, fix="sort the values")
        first_index = np.flatnonzero(
            np.concatenate([[True], sorted_values[1:] != sorted_values[:-1]])[: sorted_values.size]
        )
        distinct = sorted_values if first_index.size == sorted_values.size else sorted_values[first_index]
        before = np.append(first_index, sorted_values.size).astype(np.int64, copy=False)
        return self._choose_quantiles_by_group(RankedValues(distinct, before), np.array([0, distinct.size]))[0].tolist()

    def choose_histogram(self, values: Any, counts: Any) -> list[int]:
        """Return the quantiles of distinct values with row counts, as an engine returns them."""
        raw_values = grids.round_to_steps(grids.as_numeric_array(values, None, "values"), None)
        row_counts = grids.round_to_steps(grids.as_numeric_array(counts, None, "counts"), None)
        if raw_values.shape != row_counts.shape or raw_values.ndim != 1 or (row_counts < 0).any():
            is_list = raw_values.ndim == row_counts.ndim == 1
            raise InvalidParameter(
                "counts",
                ValueWords("a list with a number below 0, or of another length than values")
                if is_list
                else grids.describe_array(row_counts),
                "a list with one whole number ≥ 0 for each value",
                fix="give counts and values the same length, and no count below 0",
            )
        order = np.argsort(raw_values, kind="stable")
        distinct, first_index = np.unique(raw_values[order], return_index=True)
        ranks = _cumulative_counts(row_counts[order])
        before = np.append(ranks[first_index], ranks[-1])
        return self._choose_quantiles_by_group(RankedValues(distinct, before), np.array([0, distinct.size]))[0].tolist()

    def choose_groups(self, values: GroupedValues) -> NDArray[np.int64]:
        """Return the quantiles of every group, with rows or without: a row per group, a column per probability."""
        if values.groups > 1 and not self.grouped:
            raise InvalidParameter(
                "groups",
                values.groups,
                "1, unless the mechanism has grouped=True",
                fix="pass grouped=True to the mechanism",
            )
        starts = np.searchsorted(values.group, np.arange(values.groups + 1))
        return self._choose_quantiles_by_group(RankedValues(values.steps, _cumulative_counts(values.counts)), starts)

    def _choose_quantiles_by_group(self, rows: RankedValues, starts: NDArray[np.intp]) -> NDArray[np.int64]:
        parts = {(Fraction(0), Fraction(1)): rank_choices.parts_with_all_rows(rows, starts, self.bounds)}
        chosen: dict[Fraction, NDArray[np.int64]] = {}
        for node in self._nodes:
            part = parts.pop((node.below, node.above))
            rule = RankRule(node.share, self.level_epsilon / (2 * self._score_sensitivity(node)), self.offset)
            chosen[node.probability], lower, upper = rank_choices.choose(rows, part, rule)
            parts |= {(node.below, node.probability): lower, (node.probability, node.above): upper}
        return np.column_stack([chosen[q] for q in self.probabilities])

    @cached_property
    def _nodes(self) -> tuple[_QuantileNode, ...]:
        """The quantiles in the order in which they are chosen: level after level."""
        nodes: list[_QuantileNode] = []
        layer = [(self.probabilities, Fraction(0), Fraction(1))]
        level = 0
        while layer:
            next_layer = []
            for probabilities, below, above in layer:
                middle = self._index_of_quantile_selected_first(probabilities, below, above)
                nodes.append(_QuantileNode(probabilities[middle], below, above, level))
                next_layer.append((probabilities[:middle], below, probabilities[middle]))
                next_layer.append((probabilities[middle + 1 :], probabilities[middle], above))
            layer, level = [part for part in next_layer if part[0]], level + 1
        return tuple(nodes)

    def _index_of_quantile_selected_first(
        self, probabilities: Sequence[Fraction], below: Fraction, above: Fraction
    ) -> int:
        """Return which of several quantiles is chosen first: of two in the middle, the one whose share is nearer to a
        half, which errs less and costs its neighbours less.
        """
        candidates = sorted({(len(probabilities) - 1) // 2, len(probabilities) // 2})
        return min(candidates, key=lambda index: abs(probabilities[index] - (below + above) / 2))

    def _score_sensitivity(self, node: _QuantileNode) -> Fraction:
        """Bound how far one unit moves the scores of a level, as in the module's theorem."""
        worst = max(node.share, 1 - node.share)
        if self.neighbours is Neighbours.REPLACE:
            worst = Fraction(1) if node.level == 0 and not self.grouped else 2 * worst
        return self.rows_per_unit * worst

    @property
    def levels(self) -> int:
        return 1 + max(node.level for node in self._nodes)

    @property
    def level_epsilon(self) -> Fraction:
        return self.epsilon / self.levels

    def curve(self) -> Curve:
        """Charge each level as one bounded-range release, which the module proves it to be."""
        return compose([(Curve.bounded_range(self.level_epsilon, self.neighbours), self.levels)])

    def errors(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> tuple[float, ...]:
        """Bound for each quantile how many rows, with this confidence for all of k groups at once, lie between a
        released number and the quantile: ranks, not values.

        A choice misses its target by at most (ln(numbers) + ln(1/β))/rate rows except with probability β. The target
        of a part lies between its two ends, and so does its error: as far from each as the share says. One quantile's
        bound holds whatever rows are tied. Of several, those after the first suppose that few rows share a number that
        was released before them: such rows may add up to their number.
        """
        miss = (1 - exact(confidence, "confidence", CONFIDENCE)) / (
            len(self.probabilities) * exact_integer(k, "k", at_least=1)
        )
        rank_errors = {Fraction(0): 0.0, Fraction(1): 0.0}
        for node in self._nodes:
            share = float(node.share)
            inherited = (1 - share) * rank_errors[node.below] + share * rank_errors[node.above]
            rank_errors[node.probability] = inherited + self._row_error(node, miss)
        return tuple(rank_errors[q] for q in self.probabilities)

    def _row_error(self, node: _QuantileNode, miss: Fraction) -> float:
        """Bound how many rows a choice lies from its own target, except with probability ``miss``."""
        numbers = self.bounds[1] - self.bounds[0] + 1
        rate = self.level_epsilon / (2 * self._score_sensitivity(node))
        return (math.log(numbers) + math.log(miss.denominator) - math.log(miss.numerator)) / float(rate)

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> float:
        """Return the largest of the ``errors``."""
        return max(self.errors(confidence, k))

    def words(self) -> str:
        target = f"quantile{'s' * (len(self.probabilities) > 1)} {self._probabilities_phrase}"
        if self.probabilities[0] in (0, 1):
            target = f"the {'greatest' if self.probabilities[0] else 'least'} value, from rank {abs(self.offset):,}"
        return f"{target} by interval selection, ε {format_number(float(self.epsilon), 6)}"

    @property
    def _probabilities_phrase(self) -> str:
        texts = [format_exact(q) for q in self.probabilities]
        return ", ".join([*texts[:2], "…", texts[-1]] if len(texts) > _MAX_TEXTS else texts)

    def __repr__(self) -> str:
        probabilities = ", ".join(format_exact(q) for q in self.probabilities)
        limits = f"bounds={self.bounds}, rows_per_unit={self.rows_per_unit}, neighbours={self.neighbours.value!r}"
        more = (", grouped=True" if self.grouped else "") + (f", offset={self.offset}" if self.offset else "")
        return f"Quantiles([{probabilities}], epsilon={format_exact(self.epsilon)}, {limits}{more})"


def _with_safe_inward_offset(towards: Quantiles, confidence: Number) -> Quantiles:
    """Move a target at the edge inwards by more rows than a choice may err."""
    return replace(towards, offset=towards.safety_offset_rows(confidence) * towards.offset)


def _parse_bounds(bounds: Any) -> tuple[int, int]:
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2 or not all(type(b) is int for b in bounds):
        raise InvalidParameter("bounds", bounds, "a pair of whole numbers (low, high)", fix="write bounds=(0, 100)")
    low, high = bounds
    if not -_LARGEST <= low < high <= _LARGEST:
        raise InvalidParameter(
            "bounds",
            bounds,
            "two whole numbers (low, high) with low < high, both below 2^62 in absolute value",
            fix="write bounds=(0, 100)",
        )
    return low, high


def _round_probability(probability: Fraction) -> Fraction:
    return Fraction(round(probability * _DECIMALS), _DECIMALS)


def _cumulative_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(counts, _MAX_ROWS))])


@codec.serialisable("quantiles")
@dataclass(frozen=True, init=False, repr=False)
class LegacyQuantiles(Quantiles):
    """Quantiles of old ledgers, each level charged as a pure release; under replace a level after the first costs
    2·max(q, 1−q) times as much as the first.
    """

    def curve(self) -> Curve:
        if len(self.probabilities) == 1:
            return Curve.bounded_range(self.epsilon, self.neighbours)
        costs = [self._relative_level_cost(level) for level in range(self.levels)]
        return compose(Curve.pure(self.epsilon * cost / sum(costs), self.neighbours) for cost in costs)

    def _index_of_quantile_selected_first(self, probabilities: Sequence[Fraction], *_: Fraction) -> int:
        return len(probabilities) // 2

    def _relative_level_cost(self, level: int) -> Fraction:
        if level == 0 or self.neighbours is not Neighbours.REPLACE:
            return Fraction(1)
        return 2 * max(max(node.share, 1 - node.share) for node in self._nodes if node.level == level)

    def _choose_quantiles_by_group(self, *_: Any) -> Any:
        raise InvalidParameter(
            "mechanism",
            self,
            "a Quantiles mechanism, because LegacyQuantiles only describes old charges",
            fix="use Quantiles(…)",
        )

    def __repr__(self) -> str:
        return f"Legacy{super().__repr__()}"
