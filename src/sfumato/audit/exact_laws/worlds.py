"""Small worlds have exact laws: every outcome's probability, with and without the unit, and what they tell apart.

Probabilities are rational where e^ε is, and otherwise known to 10⁻⁴⁰ or better: a divergence is an interval of
width below 10⁻³⁰.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit.exact_laws.choice_laws import MOST_OUTCOMES, Law, frequent_law, rank_law, score_law
from sfumato.audit.exact_laws.report_laws import key_law, report_pairs
from sfumato.audit.exact_laws.stream_laws import stream_law
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles, RandomizedResponse, bits, grids
from sfumato.mechanisms.protocols import Additive
from sfumato.mechanisms.response import Response
from sfumato.mechanisms.selection import Scored
from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact

Interval = tuple[Fraction, Fraction]
Pair = tuple[Fraction, Fraction]

_DIGITS = 70
_ERROR = Fraction(1, 10**45)
"""Every probability below is within this of the truth."""
_RARE_STREAM = Fraction(1, 10**70)
"""A stream's probability is a sum that a few of 110 digits cancel out of: of rarer ones, too few digits are known."""
_SCALE = 10**60


@dataclass(frozen=True)
class Enumeration:
    """An enumeration holds two neighbouring worlds outcome by outcome, beside what the mechanism claims."""

    outcomes: tuple[Pair, ...]
    exact: bool
    """Whether the probabilities are exact rationals."""
    largest: Interval
    """Bounds of the largest ln(P/Q) in either direction, of outcomes that both worlds give, however rare; but of
    Gaussian noise and key thresholds those likelier than 10⁻⁴⁵, and of sparse vectors those likelier than 10⁻⁷⁰.
    """
    claim: Curve

    @property
    def ratio(self) -> Fraction | None:
        """Compute the largest likelihood ratio e^ε, when the probabilities are rational."""
        return max(max(p / q, q / p) for p, q in self.outcomes if p and q) if self.exact else None

    def delta(self, epsilon: Number) -> Interval:
        """Bound the hockey-stick divergence at ε, the larger of both directions."""
        context = bits.digits(_DIGITS)
        growth = Fraction(bits.decimal(exact(epsilon, "epsilon", NONNEGATIVE), context).exp(context))
        steps = int(growth * _SCALE)
        value = Fraction(
            max(
                sum(max(0, p * _SCALE - steps * q) for p, q in self._scaled),
                sum(max(0, q * _SCALE - steps * p) for p, q in self._scaled),
            ),
            _SCALE**2,
        )
        error = (growth + 1) * _ERROR * (len(self.outcomes) + 2)
        return max(Fraction(0), value - error), value + error

    @cached_property
    def _scaled(self) -> list[tuple[int, int]]:
        """Give all probabilities as whole numbers of 10⁻⁶⁰, which is far below what each may be wrong by."""
        return [(int(p * _SCALE), int(q * _SCALE)) for p, q in self.outcomes]

    @property
    def holds(self) -> bool:
        """Tell whether the claim covers these two worlds: the largest loss where it has no δ, and δ at seven ε."""
        pure = self.claim.max_divergence
        if pure is not None and not self.claim.failure and self.largest[0] > pure:
            return False
        reach = pure if pure is not None else Fraction(min(20.0, self.claim.epsilon("1e-9")))
        return all(self.delta(reach * i / 6)[0] <= Fraction(self.claim.delta(reach * i / 6)) for i in range(7))

    def __str__(self) -> str:
        low, high = (float(end) for end in self.largest)
        pure = self.claim.max_divergence
        stated = "unbounded" if pure is None else f"{float(pure):.6g}"
        return f"largest loss {low:.9g} … {high:.9g}, claimed {stated}: {'holds' if self.holds else 'DOES NOT HOLD'}"


def enumerate(mechanism: Any, neighbours: tuple[Any, Any], sensitivity: Sensitivity | Number = 1) -> Enumeration:
    """Compute the exact laws of a mechanism on two neighbouring inputs, beside its claim.

    An input is what the mechanism is given in a release: whole numbers, or short rows of them, for noise of the given
    ``sensitivity``; an answer for reports, scores for a choice, a table of counts for frequent values, counts for a key
    threshold, values for quantiles, the values of all questions for a sparse vector. The mechanism states of itself how
    far neighbours may be apart in these.
    """
    if not isinstance(neighbours, tuple) or len(neighbours) != 2:
        raise InvalidParameter("neighbours", neighbours, "a pair of inputs")
    if isinstance(mechanism, Additive):
        return _added(mechanism, neighbours, sensitivity)
    if isinstance(mechanism, Response):
        exact_odds = isinstance(mechanism, RandomizedResponse) and mechanism.odds is not None
        return _compared(report_pairs(mechanism, neighbours), mechanism.curve(), exact_odds)
    if isinstance(mechanism, AboveThreshold):
        return _compared(_streams(mechanism, neighbours), mechanism.curve(), least=_RARE_STREAM)
    first, second = (_law(mechanism)(each) for each in neighbours)
    if first.keys() != second.keys():
        raise InvalidParameter("neighbours", neighbours, "two inputs of one shape")
    pairs = [(Fraction(first[key]), Fraction(second[key])) for key in first]
    least = _ERROR if isinstance(mechanism, KeyThreshold) else Fraction(0)
    return _compared(pairs, mechanism.curve(), least=least)


def _law(mechanism: Any) -> Callable[[Any], Law]:
    """Give the function from an input to the law of what is chosen."""
    if isinstance(mechanism, Scored):
        return lambda scores: score_law(mechanism, scores)
    if isinstance(mechanism, FrequentValues):
        return lambda table: frequent_law(mechanism, table)
    if isinstance(mechanism, KeyThreshold):
        return lambda counts: key_law(mechanism, counts)
    if isinstance(mechanism, Quantiles):
        return lambda values: rank_law(mechanism, values)
    raise InvalidParameter("mechanism", mechanism, "one of our mechanisms")


def _compared(
    pairs: Sequence[Pair], claim: Curve, rational: bool = False, least: Fraction = Fraction(0)
) -> Enumeration:
    """Compare outcomes that are likelier than ``least``: laws of choices and reports are right in a hundred digits of
    every probability, so that no outcome is too rare.
    """
    outcomes = tuple((p, q) for p, q in pairs if p or q)
    return Enumeration(outcomes, rational, _largest(outcomes, least), claim)


def _streams(mechanism: AboveThreshold, neighbours: tuple[Any, Any]) -> list[Pair]:
    """Put the laws of all streams side by side; where values are paid for, each "above" has a noisy one of its own."""
    first, second = (stream_law(mechanism, values) for values in neighbours)
    if first.keys() != second.keys():
        raise InvalidParameter("neighbours", neighbours, "as many questions in both worlds")
    pairs: list[Pair] = []
    for stream, chance in first.items():
        both = Fraction(chance), Fraction(second[stream])
        shown = [i for i, said in builtins.enumerate(stream) if said and mechanism.values_epsilon is not None]
        columns = [
            _Coordinate(1, mechanism.scales[2], neighbours[0][i], neighbours[1][i], len(shown) + 1) for i in shown
        ]
        if len(pairs) + math.prod(column.width for column in columns) > MOST_OUTCOMES:
            raise InvalidParameter("neighbours", neighbours, "fewer questions or positives, or less noise on values")
        pairs += [_joined(both, each) for each in product(*(column.outcomes() for column in columns))]
    return pairs


def _joined(first: Pair, others: Iterable[Pair]) -> Pair:
    """Multiply the probabilities of independent outcomes, in each world."""
    p, q = first
    for one, other in others:
        p, q = p * one, q * other
    return p, q


def _added(mechanism: Additive, neighbours: tuple[Any, Any], sensitivity: Sensitivity | Number) -> Enumeration:
    rows = [tuple(each) if isinstance(each, (tuple, list)) else (each,) for each in neighbours]
    if len(rows[0]) != len(rows[1]) or not all(type(x) is int and abs(x) < 1 << 62 for row in rows for x in row):
        raise InvalidParameter("neighbours", neighbours, "two whole numbers below 2^62, or two rows of as many")
    sizes = mechanism.sizes
    if len(sizes) not in (1, len(rows[0])):
        raise InvalidParameter("neighbours", neighbours, f"rows of {len(sizes)} numbers: one for each scale")
    columns = [
        _Coordinate(mechanism.order, sizes[i % len(sizes)], *_ends(rows, i, mechanism.grid), len(rows[0]))
        for i in range(len(rows[0]))
    ]
    if math.prod(column.width for column in columns) > MOST_OUTCOMES:
        raise InvalidParameter("neighbours", neighbours, "a world of fewer outcomes: less noise or fewer coordinates")
    one = Fraction(1), Fraction(1)
    outcomes = tuple(_joined(one, each) for each in product(*(column.outcomes() for column in columns)))
    least = Fraction(0) if mechanism.order == 1 else _ERROR  # a Laplace's ratios are exact however rare
    return Enumeration(outcomes, False, _largest(outcomes, least), mechanism.curve(sensitivity))


def _ends(rows: list[tuple[Any, ...]], i: int, grid: Fraction | None) -> tuple[int, int]:
    """Read one coordinate of both inputs, in steps."""
    first, second = (int(grids.to_steps(np.array([row[i]]), grid)[0]) for row in rows)
    return first, second


@dataclass(frozen=True)
class _Coordinate:
    """A coordinate has its law around a beside that around b; all beyond the window is one outcome on each side."""

    order: int
    """The law is P(x) ∝ exp(−|x|^p/(p·s^p)) of this order p: 1 is Laplace's, 2 is Gauss's."""
    size: Fraction
    a: int
    b: int
    dimensions: int

    @property
    def reach(self) -> int:
        """Beyond this many steps the law's mass is below 10⁻⁴⁶; a Laplace's tails are exact, so half will do."""
        nats = 46 * math.log(10) / (1 if self.dimensions == 1 or self.order == 2 else 2)
        return math.ceil(float(self.size) * (self.order * nats) ** (1 / self.order)) + 2

    @property
    def width(self) -> int:
        return 2 * self.reach + abs(self.b - self.a) + 3

    def outcomes(self) -> list[Pair]:
        context = bits.digits(_DIGITS)
        low, high = min(self.a, self.b) - self.reach, max(self.a, self.b) + self.reach
        weights = [_weight(x, self.size, self.order, context) for x in range(high - low + 2)]
        mass, tail = _laplace_law(weights) if self.order == 1 else _gaussian_law(weights)
        inside = [(mass(x - self.a), mass(x - self.b)) for x in range(low, high + 1)]
        left, right = (self.a - low + 1, self.b - low + 1), (high - self.a + 1, high - self.b + 1)
        return [(tail(left[0]), tail(left[1])), *inside, (tail(right[0]), tail(right[1]))]


def _weight(x: int, size: Fraction, order: int, context: Context) -> Decimal:
    return bits.decimal(-((x / size) ** order) / order, context).exp(context)


def _laplace_law(weights: list[Decimal]) -> tuple[Any, Any]:
    """Compute P(x) = (1−q)/(1+q)·q^|x| and P(X ≥ t) = q^t/(1+q) for t ≥ 1."""
    q = Fraction(weights[1]) if len(weights) > 1 else Fraction(0)
    powers = [Fraction(weight) for weight in weights]
    return lambda x: (1 - q) / (1 + q) * powers[abs(x)], lambda t: powers[t] / (1 + q)


def _gaussian_law(weights: list[Decimal]) -> tuple[Any, Any]:
    """The normalising sum is cut where its tail is below 10⁻⁴⁶; the tails themselves are counted as nothing."""
    powers = [Fraction(weight) for weight in weights]
    total = powers[0] + 2 * sum(powers[1:], Fraction(0))
    return lambda x: powers[abs(x)] / total, lambda _: Fraction(0)


def _largest(outcomes: Iterable[Pair], least: Fraction = _ERROR) -> Interval:
    context = bits.digits(_DIGITS)
    ratios = (max(p / q, q / p) for p, q in outcomes if p > least and q > least)
    most = Fraction(bits.decimal(max(ratios, default=Fraction(1)), context).ln(context))
    width = Fraction(1, 10**31)
    return max(Fraction(0), most - width), most + width
