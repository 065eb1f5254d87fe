"""Exact laws of quantiles and of frequent values; those of selections by scores are their mechanism's own
(``mechanisms.outcome_laws``).

The law of quantiles is computed from their specification, independently of the code that samples them. A part holds
the numbers from low to high and rows with weights. With B(y) the weight of rows below y, U(y) that of rows up to y and
n that of all, y is selected with probability ∝ e^{−rate·d(y)}, d(y) = max(B(y) − t, t − U(y), 0), where
t = share·n + offset. Rows below the selected number form one part and rows above it another; ties count in both, with
weight ``share`` below and the rest above. Several quantiles are selected level by level, the middle one first; of two
in the middle, the one whose share is nearer to a half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import FrequentValues, Quantiles, bits
from sfumato.mechanisms.outcome_laws import MAX_OUTCOMES, Law, law_context, top_k_law
from sfumato.privacy import Neighbours


def frequent_law(mechanism: FrequentValues, table: Any) -> Law:
    """Return the law of the most frequent values of all groups; groups select independently."""
    if math.prod(math.perm(len(row), mechanism.k) for row in table) > MAX_OUTCOMES:
        raise InvalidParameter(
            "neighbours", ValueWords(f"counts of {len(table)} groups"), "counts of fewer groups or fewer values"
        )
    laws: Law = {(): Decimal(1)}
    context = law_context()
    for row in table:
        best = max(row)
        group_law = top_k_law([int(best) - int(count) for count in row], mechanism.rate, mechanism.k)
        laws = {(*key, chosen): context.multiply(p, q) for key, p in laws.items() for chosen, q in group_law.items()}
    return laws


Rows = tuple[tuple[int, Fraction], ...]
"""Values with their weights."""


@dataclass(frozen=True)
class _QuantilePart:
    """The rows between two selected numbers, and the probabilities still to be selected among them."""

    chances: tuple[Fraction, ...]
    below: Fraction
    above: Fraction
    low: int
    high: int
    rows: Rows
    level: int

    @property
    def middle(self) -> int:
        """Return the index of the probability that is selected first."""
        count = len(self.chances)
        centre = (self.below + self.above) / 2
        return min((count - 1) // 2, count // 2, key=lambda index: abs(self.chances[index] - centre))

    @property
    def share(self) -> Fraction:
        return (self.chances[self.middle] - self.below) / (self.above - self.below)


def rank_law(mechanism: Quantiles, values: Any) -> Law:
    """Return the law of all quantiles of one group of values, as tuples in the order of the probabilities."""
    low, high = mechanism.bounds
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        raise InvalidParameter("neighbours", values, "a pair of lists of integers")
    if (high - low + 1) ** len(mechanism.probabilities) > MAX_OUTCOMES:
        raise InvalidParameter("neighbours", values, "inputs of a mechanism with narrower bounds or fewer quantiles")
    rows = tuple((min(max(value, low), high), Fraction(1)) for value in values)
    part = _QuantilePart(mechanism.probabilities, Fraction(0), Fraction(1), low, high, rows, 0)
    return _part_law(mechanism, part, mechanism.epsilon / _count_levels(part))


def _part_law(mechanism: Quantiles, part: _QuantilePart, per_level: Fraction) -> Law:
    if not part.chances:
        return {(): Decimal(1)}
    context = law_context()
    law: Law = {}
    for number, probability in _selection_probabilities(mechanism, part, per_level):
        lower, upper = (_part_law(mechanism, half, per_level) for half in _split_part(mechanism, part, number))
        for left, p in lower.items():
            for right, q in upper.items():
                law[(*left, number, *right)] = context.multiply(probability, context.multiply(p, q))
    return law


def _selection_probabilities(
    mechanism: Quantiles, part: _QuantilePart, per_level: Fraction
) -> Iterator[tuple[int, Decimal]]:
    context = law_context()
    rate = per_level / (2 * _distance_sensitivity(mechanism, part))
    candidates = range(part.low, part.high + 1)
    weights = [bits.to_decimal(-rate * _rank_distance(mechanism, part, y), context).exp(context) for y in candidates]
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    return zip(candidates, (context.divide(weight, total) for weight in weights), strict=True)


def _rank_distance(mechanism: Quantiles, part: _QuantilePart, y: int) -> Fraction:
    below = sum((weight for value, weight in part.rows if value < y), Fraction(0))
    up_to = sum((weight for value, weight in part.rows if value <= y), Fraction(0))
    target = part.share * sum((weight for _, weight in part.rows), Fraction(0)) + mechanism.offset
    below_gap, above_gap = below - target, target - up_to
    if mechanism.offset < 0 and y == part.low:
        below_gap = Fraction(0)  # the lowest number also covers every rank below it
    if mechanism.offset > 0 and y == part.high:
        above_gap = Fraction(0)
    return max(below_gap, above_gap, Fraction(0))


def _split_part(mechanism: Quantiles, part: _QuantilePart, number: int) -> tuple[_QuantilePart, _QuantilePart]:
    tied_share = part.share if mechanism.offset == 0 else Fraction(int(mechanism.offset > 0))
    probability, index = part.chances[part.middle], part.middle
    tied = sum((weight for value, weight in part.rows if value == number), Fraction(0))
    rows_below = tuple(row for row in part.rows if row[0] < number)
    rows_above = tuple(row for row in part.rows if row[0] > number)
    lower = _QuantilePart(
        part.chances[:index],
        part.below,
        probability,
        part.low,
        number,
        (*rows_below, (number, tied * tied_share)),
        part.level + 1,
    )
    upper = _QuantilePart(
        part.chances[index + 1 :],
        probability,
        part.above,
        number,
        part.high,
        ((number, tied * (1 - tied_share)), *rows_above),
        part.level + 1,
    )
    return lower, upper


def _count_levels(part: _QuantilePart) -> int:
    """Return the depth of the recursion, which depends on the probabilities alone."""
    if not part.chances:
        return 0
    index = part.middle
    probability = part.chances[index]
    lower = _QuantilePart(part.chances[:index], part.below, probability, 0, 0, (), 0)
    upper = _QuantilePart(part.chances[index + 1 :], probability, part.above, 0, 0, (), 0)
    return 1 + max(_count_levels(lower), _count_levels(upper))


def _distance_sensitivity(mechanism: Quantiles, part: _QuantilePart) -> Fraction:
    """Return the sensitivity of the rank distances to one unit.

    It is max(s, 1−s) per row; under replace twice that, or 1 if all rows are in one part.
    """
    worst = max(part.share, 1 - part.share)
    if mechanism.neighbours is Neighbours.REPLACE:
        worst = Fraction(1) if part.level == 0 and not mechanism.grouped else 2 * worst
    return mechanism.rows_per_unit * worst
