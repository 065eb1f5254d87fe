"""The law of quantiles is computed exactly from what they are said to do, by other code than draws them.

A part holds the numbers from low to high and rows with weights. With B(y) the weight of rows below y, U(y) that of rows
up to y and n that of all, y is chosen with probability ∝ e^{−rate·d(y)}, d(y) = max(B(y) − t, t − U(y), 0), where
t = share·n + offset. Rows below the number that is chosen make one part and rows above it another; rows equal to it
count in both, with the share below and the rest above. Several quantiles are found level by level, the middle one
first; of two in the middle, the one whose share is nearer to a half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.audit.exact_laws.score_laws import MOST_OUTCOMES, Law, context_of_laws
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Quantiles, exact_decisions
from sfumato.privacy import Neighbours

Rows = tuple[tuple[int, Fraction], ...]
"""Values with their weights."""


@dataclass(frozen=True)
class _Part:
    """Some of the probabilities are found among these rows, between two numbers that were found before."""

    chances: tuple[Fraction, ...]
    below: Fraction
    above: Fraction
    low: int
    high: int
    rows: Rows
    level: int

    @property
    def middle(self) -> int:
        """Say which of the probabilities is found first."""
        count = len(self.chances)
        centre = (self.below + self.above) / 2
        return min((count - 1) // 2, count // 2, key=lambda place: abs(self.chances[place] - centre))

    @property
    def share(self) -> Fraction:
        return (self.chances[self.middle] - self.below) / (self.above - self.below)


def rank_law(mechanism: Quantiles, values: Any) -> Law:
    """Compute the law of all quantiles of one group of values, as tuples in the order of their probabilities."""
    low, high = mechanism.bounds
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        raise InvalidParameter("neighbours", values, "two lists of whole numbers")
    if (high - low + 1) ** len(mechanism.probabilities) > MOST_OUTCOMES:
        raise InvalidParameter(
            "neighbours", mechanism.bounds, "bounds with fewer numbers between them, or fewer quantiles"
        )
    rows = tuple((min(max(value, low), high), Fraction(1)) for value in values)
    part = _Part(mechanism.probabilities, Fraction(0), Fraction(1), low, high, rows, 0)
    return _law(mechanism, part, mechanism.epsilon / _levels(part))


def _law(mechanism: Quantiles, part: _Part, per_level: Fraction) -> Law:
    if not part.chances:
        return {(): Decimal(1)}
    context = context_of_laws()
    found: Law = {}
    for number, chance in _choices(mechanism, part, per_level):
        lower, upper = (_law(mechanism, each, per_level) for each in _halves(mechanism, part, number))
        for left, p in lower.items():
            for right, q in upper.items():
                found[(*left, number, *right)] = context.multiply(chance, context.multiply(p, q))
    return found


def _choices(mechanism: Quantiles, part: _Part, per_level: Fraction) -> Iterator[tuple[int, Decimal]]:
    context = context_of_laws()
    rate = per_level / (2 * _moved(mechanism, part))
    numbers = range(part.low, part.high + 1)
    weights = [exact_decisions.decimal(-rate * _distance(mechanism, part, y), context).exp(context) for y in numbers]
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    return zip(numbers, (context.divide(weight, total) for weight in weights), strict=True)


def _distance(mechanism: Quantiles, part: _Part, y: int) -> Fraction:
    below = sum((weight for value, weight in part.rows if value < y), Fraction(0))
    upto = sum((weight for value, weight in part.rows if value <= y), Fraction(0))
    target = part.share * sum((weight for _, weight in part.rows), Fraction(0)) + mechanism.offset
    least, most = below - target, target - upto
    if mechanism.offset < 0 and y == part.low:
        least = Fraction(0)  # it holds every rank below, too
    if mechanism.offset > 0 and y == part.high:
        most = Fraction(0)
    return max(least, most, Fraction(0))


def _halves(mechanism: Quantiles, part: _Part, number: int) -> tuple[_Part, _Part]:
    under = part.share if mechanism.offset == 0 else Fraction(int(mechanism.offset > 0))
    chance, place = part.chances[part.middle], part.middle
    tied = sum((weight for value, weight in part.rows if value == number), Fraction(0))
    less = tuple(row for row in part.rows if row[0] < number)
    more = tuple(row for row in part.rows if row[0] > number)
    lower = _Part(
        part.chances[:place], part.below, chance, part.low, number, (*less, (number, tied * under)), part.level + 1
    )
    upper = _Part(
        part.chances[place + 1 :],
        chance,
        part.above,
        number,
        part.high,
        ((number, tied * (1 - under)), *more),
        part.level + 1,
    )
    return lower, upper


def _levels(part: _Part) -> int:
    """Count the levels of the recursion, which follow from the probabilities alone."""
    if not part.chances:
        return 0
    place = part.middle
    chance = part.chances[place]
    lower = _Part(part.chances[:place], part.below, chance, 0, 0, (), 0)
    upper = _Part(part.chances[place + 1 :], chance, part.above, 0, 0, (), 0)
    return 1 + max(_levels(lower), _levels(upper))


def _moved(mechanism: Quantiles, part: _Part) -> Fraction:
    """Bound how far one unit moves the distances: max(s, 1−s) for each row, and under replace twice that, or 1 where
    all rows are in one part.
    """
    worst = max(part.share, 1 - part.share)
    if mechanism.neighbours is Neighbours.REPLACE:
        worst = Fraction(1) if part.level == 0 and not mechanism.grouped else 2 * worst
    return mechanism.rows_per_unit * worst
