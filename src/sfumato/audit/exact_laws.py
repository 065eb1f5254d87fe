"""Exact output distributions on two neighbouring inputs, and the divergence between them.

Probabilities are rational where e^ε is, and otherwise accurate to 10⁻⁴⁰ or better: a divergence is an interval of
width below 10⁻³⁰.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sfumato.audit.mechanism_laws import frequent_values_law, kept_keys_law, quantiles_law, report_pairs, stream_law
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import AboveThreshold, FrequentValues, KeyThreshold, Quantiles, RandomizedResponse, bits, grids
from sfumato.mechanisms.outcome_laws import MAX_OUTCOMES, Law
from sfumato.mechanisms.protocols import Additive
from sfumato.mechanisms.response import Response
from sfumato.mechanisms.selection import ScoreSelection
from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact
from sfumato.quick_dataclass import dataclass

Interval = tuple[Fraction, Fraction]
Pair = tuple[Fraction, Fraction]

_DIGITS = 70
_PROBABILITY_ERROR = Fraction(1, 10**45)
"""Bound on the error of every probability below."""
_MIN_STREAM_PROBABILITY = Fraction(1, 10**70)
"""A stream's probability is a sum with cancellation in 110 digits; below this, too few digits are left."""
_SCALE = 10**60


@dataclass(frozen=True)
class Enumeration:
    """The probability of every outcome on two neighbouring inputs, with the mechanism's claimed curve."""

    outcomes: tuple[Pair, ...]
    exact: bool
    """Whether the probabilities are exact rationals."""
    largest: Interval
    """Bounds on the largest |ln(P/Q)| over outcomes that both worlds produce, however rare; for Gaussian noise and key
    thresholds only outcomes likelier than 10⁻⁴⁵, for sparse vectors likelier than 10⁻⁷⁰.
    """
    claim: Curve

    @property
    def ratio(self) -> Fraction | None:
        """Return the largest likelihood ratio e^ε, if the probabilities are rational."""
        return max(max(p / q, q / p) for p, q in self.outcomes if p and q) if self.exact else None

    def delta(self, epsilon: Number) -> Interval:
        """Bound the hockey-stick divergence at ε, the larger of both directions."""
        context = bits.decimal_context(_DIGITS)
        exp_epsilon = Fraction(bits.to_decimal(exact(epsilon, "epsilon", NONNEGATIVE), context).exp(context))
        scaled_exp = int(exp_epsilon * _SCALE)
        value = Fraction(
            max(
                sum(max(0, p * _SCALE - scaled_exp * q) for p, q in self._scaled_probabilities),
                sum(max(0, q * _SCALE - scaled_exp * p) for p, q in self._scaled_probabilities),
            ),
            _SCALE**2,
        )
        error = (exp_epsilon + 1) * _PROBABILITY_ERROR * (len(self.outcomes) + 2)
        return max(Fraction(0), value - error), value + error

    @cached_property
    def _scaled_probabilities(self) -> list[tuple[int, int]]:
        """Return all probabilities as integer multiples of 10⁻⁶⁰, far finer than their error."""
        return [(int(p * _SCALE), int(q * _SCALE)) for p, q in self.outcomes]

    @property
    def holds(self) -> bool:
        """Return whether the claim covers both worlds: the largest loss if it is pure, and δ at seven values of ε."""
        pure_epsilon = self.claim.max_divergence
        if pure_epsilon is not None and not self.claim.failure and self.largest[0] > pure_epsilon:
            return False
        max_epsilon = pure_epsilon if pure_epsilon is not None else Fraction(min(20.0, self.claim.epsilon("1e-9")))
        return all(
            self.delta(max_epsilon * i / 6)[0] <= Fraction(self.claim.delta(max_epsilon * i / 6)) for i in range(7)
        )

    def __str__(self) -> str:
        low, high = (float(end) for end in self.largest)
        pure_epsilon = self.claim.max_divergence
        claimed = "unbounded" if pure_epsilon is None else f"{float(pure_epsilon):.6g}"
        return f"largest loss {low:.9g} … {high:.9g}, claimed {claimed}: {'holds' if self.holds else 'DOES NOT HOLD'}"


def enumerate(mechanism: Any, neighbours: tuple[Any, Any], sensitivity: Sensitivity | Number = 1) -> Enumeration:
    """Return the exact output distributions of a mechanism on two neighbouring inputs, with its claimed curve.

    An input is what the mechanism receives in a release: integers, or short rows of them, for additive noise with the
    given ``sensitivity``; an answer for local reports, scores for a selection, a table of counts for frequent values,
    counts for a key threshold, values for quantiles, the values of all queries for a sparse vector. All but additive
    noise define the sensitivity of these inputs themselves.
    """
    if not isinstance(neighbours, tuple) or len(neighbours) != 2:
        raise InvalidParameter("neighbours", neighbours, "a pair of inputs")
    if isinstance(mechanism, Additive):
        return _enumerate_additive(mechanism, neighbours, sensitivity)
    if isinstance(mechanism, Response):
        exact_odds = isinstance(mechanism, RandomizedResponse) and mechanism.odds is not None
        return _enumerate_pairs(report_pairs(mechanism, neighbours), mechanism.curve(), exact_odds)
    if isinstance(mechanism, AboveThreshold):
        return _enumerate_pairs(
            _stream_pairs(mechanism, neighbours), mechanism.curve(), min_probability=_MIN_STREAM_PROBABILITY
        )
    first, second = (_law_function(mechanism)(world) for world in neighbours)
    if first.keys() != second.keys():
        raise InvalidParameter("neighbours", neighbours, "a pair of inputs of the same shape")
    pairs = [(Fraction(first[key]), Fraction(second[key])) for key in first]
    min_probability = _PROBABILITY_ERROR if isinstance(mechanism, KeyThreshold) else Fraction(0)
    return _enumerate_pairs(pairs, mechanism.curve(), min_probability=min_probability)


def _law_function(mechanism: Any) -> Callable[[Any], Law]:
    """Return the function from an input to the distribution of the output."""
    if isinstance(mechanism, ScoreSelection):
        return mechanism.law
    if isinstance(mechanism, FrequentValues):
        return lambda table: frequent_values_law(mechanism, table)
    if isinstance(mechanism, KeyThreshold):
        return lambda counts: kept_keys_law(mechanism, counts)
    if isinstance(mechanism, Quantiles):
        return lambda values: quantiles_law(mechanism, values)
    raise InvalidParameter(
        "mechanism", mechanism, "one of the built-in mechanisms", fix="pass an object, such as sf.Laplace(2)"
    )


def _enumerate_pairs(
    pairs: Sequence[Pair], claim: Curve, rational: bool = False, min_probability: Fraction = Fraction(0)
) -> Enumeration:
    """Compare the outcomes likelier than ``min_probability``.

    Laws of selections and reports are accurate to a hundred digits of every probability, so no outcome is too rare.
    """
    outcomes = tuple((p, q) for p, q in pairs if p or q)
    return Enumeration(outcomes, rational, _largest_loss(outcomes, min_probability), claim)


def _stream_pairs(mechanism: AboveThreshold, neighbours: tuple[Any, Any]) -> list[Pair]:
    """Pair the laws of all streams; if values are released, each "above" is paired with its own noisy value."""
    first, second = (stream_law(mechanism, values) for values in neighbours)
    if first.keys() != second.keys():
        raise InvalidParameter("neighbours", neighbours, "a pair of lists with the same number of queries")
    pairs: list[Pair] = []
    for stream, probability in first.items():
        stream_pair = Fraction(probability), Fraction(second[stream])
        valued = [i for i, answer in builtins.enumerate(stream) if answer and mechanism.values_epsilon is not None]
        columns = [
            _NoisyCoordinate(1, mechanism.scales[2], neighbours[0][i], neighbours[1][i], len(valued) + 1)
            for i in valued
        ]
        if len(pairs) + math.prod(column.outcome_count for column in columns) > MAX_OUTCOMES:
            raise InvalidParameter(
                "neighbours",
                neighbours,
                "lists whose law can be enumerated: fewer queries, fewer positives or less noise",
            )
        pairs += [
            _multiply_pairs(stream_pair, value_pairs)
            for value_pairs in product(*(column.outcome_pairs() for column in columns))
        ]
    return pairs


def _multiply_pairs(first: Pair, others: Iterable[Pair]) -> Pair:
    """Multiply the probabilities of independent outcomes, in each world."""
    p, q = first
    for other_p, other_q in others:
        p, q = p * other_p, q * other_q
    return p, q


def _enumerate_additive(
    mechanism: Additive, neighbours: tuple[Any, Any], sensitivity: Sensitivity | Number
) -> Enumeration:
    rows = [tuple(world) if isinstance(world, (tuple, list)) else (world,) for world in neighbours]
    if len(rows[0]) != len(rows[1]) or not all(
        type(number) is int and abs(number) < 1 << 62 for row in rows for number in row
    ):
        raise InvalidParameter(
            "neighbours",
            neighbours,
            "a pair of integers below 2^62 in absolute value, or of rows of such integers with the same length",
        )
    scales = mechanism.sizes
    if len(scales) not in (1, len(rows[0])):
        raise InvalidParameter("neighbours", neighbours, f"a pair of rows of {len(scales)} numbers, one for each scale")
    columns = [
        _NoisyCoordinate(
            mechanism.order, scales[i % len(scales)], *_coordinate_steps(rows, i, mechanism.grid), len(rows[0])
        )
        for i in range(len(rows[0]))
    ]
    if math.prod(column.outcome_count for column in columns) > MAX_OUTCOMES:
        raise InvalidParameter(
            "neighbours", neighbours, "inputs with fewer possible outcomes: fewer numbers, or less noise"
        )
    certain = Fraction(1), Fraction(1)
    pairs_by_column = (column.outcome_pairs() for column in columns)
    outcomes = tuple(_multiply_pairs(certain, pairs) for pairs in product(*pairs_by_column))
    min_probability = (
        Fraction(0) if mechanism.order == 1 else _PROBABILITY_ERROR
    )  # Laplace ratios are exact however rare
    return Enumeration(outcomes, False, _largest_loss(outcomes, min_probability), mechanism.curve(sensitivity))


def _coordinate_steps(rows: list[tuple[Any, ...]], i: int, grid: Fraction | None) -> tuple[int, int]:
    """Return one coordinate of both inputs in grid steps."""
    first, second = (int(grids.round_to_steps(np.array([row[i]]), grid)[0]) for row in rows)
    return first, second


@dataclass(frozen=True)
class _NoisyCoordinate:
    """One coordinate's law around a, paired with that around b; each tail beyond the window is one outcome."""

    order: int
    """The order p of the law P(x) ∝ exp(−|x|^p/(p·s^p)): 1 is Laplace, 2 is Gaussian."""
    size: Fraction
    a: int
    b: int
    dimensions: int

    @property
    def reach(self) -> int:
        """Return the steps beyond which the mass is below 10⁻⁴⁶; Laplace tails are exact, so half suffice."""
        nats = 46 * math.log(10) / (1 if self.dimensions == 1 or self.order == 2 else 2)
        return math.ceil(float(self.size) * (self.order * nats) ** (1 / self.order)) + 2

    @property
    def outcome_count(self) -> int:
        return 2 * self.reach + abs(self.b - self.a) + 3

    def outcome_pairs(self) -> list[Pair]:
        context = bits.decimal_context(_DIGITS)
        low, high = min(self.a, self.b) - self.reach, max(self.a, self.b) + self.reach
        weights = [_noise_weight(x, self.size, self.order, context) for x in range(high - low + 2)]
        mass, tail = (
            _laplace_probability_and_tail(weights) if self.order == 1 else _gaussian_probability_and_tail(weights)
        )
        window_pairs = [(mass(x - self.a), mass(x - self.b)) for x in range(low, high + 1)]
        left, right = (self.a - low + 1, self.b - low + 1), (high - self.a + 1, high - self.b + 1)
        return [(tail(left[0]), tail(left[1])), *window_pairs, (tail(right[0]), tail(right[1]))]


def _noise_weight(x: int, size: Fraction, order: int, context: Context) -> Decimal:
    return bits.to_decimal(-((x / size) ** order) / order, context).exp(context)


def _laplace_probability_and_tail(weights: list[Decimal]) -> tuple[Any, Any]:
    """Return P(x) = (1−q)/(1+q)·q^|x| and P(X ≥ t) = q^t/(1+q) for t ≥ 1."""
    q = Fraction(weights[1]) if len(weights) > 1 else Fraction(0)
    powers = [Fraction(weight) for weight in weights]
    return lambda x: (1 - q) / (1 + q) * powers[abs(x)], lambda t: powers[t] / (1 + q)


def _gaussian_probability_and_tail(weights: list[Decimal]) -> tuple[Any, Any]:
    """Return P(x) and a tail of zero: the normalising sum is truncated where its tail is below 10⁻⁴⁶."""
    powers = [Fraction(weight) for weight in weights]
    total = powers[0] + 2 * sum(powers[1:], Fraction(0))
    return lambda x: powers[abs(x)] / total, lambda _: Fraction(0)


def _largest_loss(outcomes: Iterable[Pair], min_probability: Fraction = _PROBABILITY_ERROR) -> Interval:
    context = bits.decimal_context(_DIGITS)
    ratios = (max(p / q, q / p) for p, q in outcomes if p > min_probability and q > min_probability)
    log_ratio = Fraction(bits.to_decimal(max(ratios, default=Fraction(1)), context).ln(context))
    width = Fraction(1, 10**31)
    return max(Fraction(0), log_ratio - width), log_ratio + width
