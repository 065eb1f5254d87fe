"""Exact output distributions on two neighbouring inputs, and the divergence between them.

Probabilities are rational where e^ε is, and otherwise accurate to 10⁻⁴⁰ or better: a divergence is an interval of
width below 10⁻³⁰.

The laws of selections by scores are their mechanism's own (``mechanisms.outcome_laws``).

The law of quantiles is computed from their specification, independently of the code that samples them. A part holds
the numbers from low to high and rows with weights. With B(y) the weight of rows below y, U(y) that of rows up to y and
n that of all, y is selected with probability ∝ e^{−rate·d(y)}, d(y) = max(B(y) − t, t − U(y), 0), where
t = share·n + offset. Rows below the selected number form one part and rows above it another; ties count in both, with
weight ``share`` below and the rest above. Several quantiles are selected level by level, the middle one first; of two
in the middle, the one whose share is nearer to a half.

Exact laws of local randomisers and of key thresholds, paired for two inputs.

Of a long report only a sufficient statistic for the two answers is enumerated: the rest has the same law in both
worlds and is independent of it, so the divergence is unchanged.

The exact law of the sparse vector technique, over all streams of "above" and "below".

Given the noisy threshold t, answers are independent, so a stream has probability Σ_t P(T = t)·Π P(answer | t). Between
the values every term is computed. Beyond them all tails are powers: with q the ratio of a query's noise, each factor
is u·z or 1 − u·z where z = q^j and j is the distance of t beyond the values, so the product is a polynomial in z and
its sum over j is a sum of geometric series. Nothing is truncated, however wide the noise.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import (
    AboveThreshold,
    FrequentValues,
    KeyThreshold,
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    Quantiles,
    RandomizedResponse,
    bits,
    grids,
)
from sfumato.mechanisms.key_thresholds import keep_probability
from sfumato.mechanisms.outcome_laws import MAX_OUTCOMES, Law, law_context, multiply_polynomial_coefficients, top_k_law
from sfumato.mechanisms.protocols import Additive
from sfumato.mechanisms.response import PRIME, Response
from sfumato.mechanisms.selection import ScoreSelection
from sfumato.privacy import Curve, Neighbours, Sensitivity
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact
from sfumato.privacy.threshold_losses import laplace_tail
from sfumato.quick_dataclass import dataclass


def _too_many_outcomes(values: object, fix: str) -> InvalidParameter:
    rule = f"inputs for which there are at most {MAX_OUTCOMES:,} possible outputs"
    return InvalidParameter("neighbours", values, rule, fix=fix)


def frequent_values_law(mechanism: FrequentValues, table: Any) -> Law:
    """Return the law of the most frequent values of all groups; groups select independently."""
    if math.prod(math.perm(len(row), mechanism.k) for row in table) > MAX_OUTCOMES:
        raise _too_many_outcomes(ValueWords("a table with more"), "give a table with fewer groups or fewer values")
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
class _OpenQuantiles:
    """The rows between two selected numbers, and the probabilities still to be selected among them."""

    probabilities: tuple[Fraction, ...]
    quantile_below: Fraction
    quantile_above: Fraction
    low_value: int
    high_value: int
    rows: Rows
    level: int

    @property
    def middle_index(self) -> int:
        """Return the index of the probability that is selected first."""
        count = len(self.probabilities)
        centre = (self.quantile_below + self.quantile_above) / 2
        return min((count - 1) // 2, count // 2, key=lambda index: abs(self.probabilities[index] - centre))

    @property
    def share(self) -> Fraction:
        return (self.probabilities[self.middle_index] - self.quantile_below) / (
            self.quantile_above - self.quantile_below
        )


def quantiles_law(mechanism: Quantiles, values: Any) -> Law:
    """Return the law of all quantiles of one group of values, as tuples in the order of the probabilities."""
    low, high = mechanism.bounds
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        fix = "write neighbours=([1], [1, 2])"
        raise InvalidParameter("neighbours", values, "a pair of lists of integers", fix=fix)
    if (high - low + 1) ** len(mechanism.probabilities) > MAX_OUTCOMES:
        raise _too_many_outcomes(values, "use narrower bounds or fewer quantiles")
    rows = tuple((min(max(value, low), high), Fraction(1)) for value in values)
    part = _OpenQuantiles(mechanism.probabilities, Fraction(0), Fraction(1), low, high, rows, 0)
    return _open_quantiles_law(mechanism, part, mechanism.epsilon / _count_levels(part))


def _open_quantiles_law(mechanism: Quantiles, part: _OpenQuantiles, per_level: Fraction) -> Law:
    if not part.probabilities:
        return {(): Decimal(1)}
    context = law_context()
    law: Law = {}
    for number, probability in _selection_probabilities(mechanism, part, per_level):
        lower, upper = (
            _open_quantiles_law(mechanism, half, per_level) for half in _split_quantiles(mechanism, part, number)
        )
        for left, p in lower.items():
            for right, q in upper.items():
                law[(*left, number, *right)] = context.multiply(probability, context.multiply(p, q))
    return law


def _selection_probabilities(
    mechanism: Quantiles, part: _OpenQuantiles, per_level: Fraction
) -> Iterator[tuple[int, Decimal]]:
    context = law_context()
    rate = per_level / (2 * _distance_sensitivity(mechanism, part))
    candidates = range(part.low_value, part.high_value + 1)
    weights = [bits.to_decimal(-rate * _rank_distance(mechanism, part, y), context).exp(context) for y in candidates]
    total = Decimal(0)
    for weight in weights:
        total = context.add(total, weight)
    return zip(candidates, (context.divide(weight, total) for weight in weights), strict=True)


def _rank_distance(mechanism: Quantiles, part: _OpenQuantiles, y: int) -> Fraction:
    below = sum((weight for value, weight in part.rows if value < y), Fraction(0))
    up_to = sum((weight for value, weight in part.rows if value <= y), Fraction(0))
    target = part.share * sum((weight for _, weight in part.rows), Fraction(0)) + mechanism.offset
    below_gap, above_gap = below - target, target - up_to
    if mechanism.offset < 0 and y == part.low_value:
        below_gap = Fraction(0)  # the lowest number also covers every rank below it
    if mechanism.offset > 0 and y == part.high_value:
        above_gap = Fraction(0)
    return max(below_gap, above_gap, Fraction(0))


def _split_quantiles(mechanism: Quantiles, part: _OpenQuantiles, number: int) -> tuple[_OpenQuantiles, _OpenQuantiles]:
    tied_share = part.share if mechanism.offset == 0 else Fraction(int(mechanism.offset > 0))
    probability, index = part.probabilities[part.middle_index], part.middle_index
    tied = sum((weight for value, weight in part.rows if value == number), Fraction(0))
    rows_below = tuple(row for row in part.rows if row[0] < number)
    rows_above = tuple(row for row in part.rows if row[0] > number)
    lower = _OpenQuantiles(
        part.probabilities[:index],
        part.quantile_below,
        probability,
        part.low_value,
        number,
        (*rows_below, (number, tied * tied_share)),
        part.level + 1,
    )
    upper = _OpenQuantiles(
        part.probabilities[index + 1 :],
        probability,
        part.quantile_above,
        number,
        part.high_value,
        ((number, tied * (1 - tied_share)), *rows_above),
        part.level + 1,
    )
    return lower, upper


def _count_levels(part: _OpenQuantiles) -> int:
    """Return the depth of the recursion, which depends on the probabilities alone."""
    if not part.probabilities:
        return 0
    index = part.middle_index
    probability = part.probabilities[index]
    lower = _OpenQuantiles(part.probabilities[:index], part.quantile_below, probability, 0, 0, (), 0)
    upper = _OpenQuantiles(part.probabilities[index + 1 :], probability, part.quantile_above, 0, 0, (), 0)
    return 1 + max(_count_levels(lower), _count_levels(upper))


def _distance_sensitivity(mechanism: Quantiles, part: _OpenQuantiles) -> Fraction:
    """Return the sensitivity of the rank distances to one unit.

    It is max(s, 1−s) per row; under replace twice that, or 1 if all rows are in one part.
    """
    worst = max(part.share, 1 - part.share)
    if mechanism.neighbours is Neighbours.REPLACE:
        worst = Fraction(1) if part.level == 0 and not mechanism.grouped else 2 * worst
    return mechanism.rows_per_unit * worst


Pairs = list[tuple[Fraction, Fraction]]
"""The probabilities of every outcome in the first and the second world."""

_MAX_KEYS, _MAX_COUNT = 12, 100_000
_DEVIATIONS = 23
"""At this many standard deviations a Gaussian weight is below e^-260, under the last computed digit."""


def report_pairs(mechanism: Response, answers: tuple[Any, Any]) -> Pairs:
    """Return the paired laws of a report for two answers."""
    if not all(type(answer) is int and 0 <= answer < mechanism.choices for answer in answers):
        rule = f"a pair of integers from 0 to {mechanism.choices - 1}"
        raise InvalidParameter("neighbours", answers, rule, fix="for example, write neighbours=(0, 1)")
    if isinstance(mechanism, RandomizedResponse):
        return _randomized_response_pairs(mechanism, answers)
    if answers[0] == answers[1]:
        return [(Fraction(1), Fraction(1))]
    return (
        _unary_encoding_pairs(mechanism)
        if isinstance(mechanism, OptimizedUnaryEncoding)
        else _local_hashing_pairs(mechanism)
    )


def _randomized_response_pairs(mechanism: RandomizedResponse, answers: tuple[int, int]) -> Pairs:
    odds = mechanism.odds or _exp_epsilon(mechanism.epsilon)
    total = odds + mechanism.choices - 1
    laws = [[(odds if j == answer else Fraction(1)) / total for j in range(mechanism.choices)] for answer in answers]
    return list(zip(*laws, strict=True))


def _unary_encoding_pairs(mechanism: OptimizedUnaryEncoding) -> Pairs:
    """Return the laws of the two answers' bits: set with probability 1/2 if true, else 1/(e^ε + 1)."""
    noise, half = 1 / (_exp_epsilon(mechanism.epsilon) + 1), Fraction(1, 2)
    bit_law = (1 - noise, noise)
    return [(half * bit_law[b], bit_law[a] * half) for a, b in product((0, 1), repeat=2)]


def _local_hashing_pairs(mechanism: OptimalLocalHashing) -> Pairs:
    """Return the laws of which of the two answers a report supports: both, the first, the second or neither.

    Over all hash functions (a, b) with a ≠ 0, the pair (a·x + b, a·y + b) mod p is uniform over pairs of distinct
    residues. So both answers collide with probability Σ n_i(n_i − 1)/(p(p − 1)), with n_i residues in cell i.
    """
    cells = mechanism.cells
    sizes = [len(range(cell, PRIME, cells)) for cell in range(cells)]
    collision = Fraction(sum(size * (size - 1) for size in sizes), PRIME * (PRIME - 1))
    exp_epsilon = _exp_epsilon(mechanism.epsilon)
    total = exp_epsilon + cells - 1
    truthful, lie = (1 - collision) * exp_epsilon / total, (1 - collision) / total
    return [(collision, collision), (truthful, lie), (lie, truthful), (lie * (cells - 2), lie * (cells - 2))]


def _exp_epsilon(epsilon: Fraction) -> Fraction:
    context = law_context()
    return Fraction(bits.to_decimal(epsilon, context).exp(context))


def kept_keys_law(mechanism: KeyThreshold, counts: Any) -> Law:
    """Return the law of which keys are kept; keys are kept independently."""
    unit_counts = list(counts) if isinstance(counts, (list, tuple)) else [counts]
    if len(unit_counts) > _MAX_KEYS or not all(
        type(count) is int and 0 <= count <= _MAX_COUNT for count in unit_counts
    ):
        rule = f"counts from 0 to {_MAX_COUNT:,}, one for each of at most {_MAX_KEYS} keys"
        raise InvalidParameter("neighbours", counts, rule, fix="for example, write neighbours=([5, 0], [5, 1])")
    context = law_context()
    laws: Law = {(): Decimal(1)}
    for count in unit_counts:
        keep = _keep_probability(mechanism, count)
        key_probabilities = {True: keep, False: context.subtract(Decimal(1), keep)}
        laws = {
            (*key, is_kept): context.multiply(p, key_probabilities[is_kept])
            for key, p in laws.items()
            for is_kept in (False, True)
        }
    return laws


def _keep_probability(mechanism: KeyThreshold, count: int) -> Decimal:
    """Return the probability that a key with this many units is kept."""
    context, threshold = law_context(), mechanism.threshold
    if count == 0:
        return Decimal(0)
    if mechanism.sigma is not None:
        return _gaussian_tail_probability(mechanism.sigma, threshold - count)
    if mechanism.max_groups > 1:
        return laplace_tail(mechanism.scale, threshold - count)
    changed_counts = 2 if mechanism.neighbours is Neighbours.REPLACE else 1
    if count >= threshold:
        return Decimal(1)
    return keep_probability(mechanism.epsilon / changed_counts, mechanism.delta / changed_counts, count)(context)


def _gaussian_tail_probability(sigma: Fraction, t: int) -> Decimal:
    """Return P(Y ≥ t) of the discrete Gaussian, by summing all weights that matter."""
    context = law_context()
    reach = int(sigma * _DEVIATIONS) + 2
    weights = {x: bits.to_decimal(-((x / sigma) ** 2) / 2, context).exp(context) for x in range(reach + 1)}
    total, tail = Decimal(0), Decimal(0)
    for x in range(-reach, reach + 1):
        total = context.add(total, weights[abs(x)])
        tail = context.add(tail, weights[abs(x)]) if x >= t else tail
    return context.divide(tail, total)


_MAX_QUERIES, _MAX_SPREAD = 14, 4000

Stream = tuple[int, ...]
"""1 for "above", 0 for "below"; it ends with the last allowed "above" or with the last query."""


def stream_law(mechanism: AboveThreshold, values: Any) -> Law:
    """Return the law of the answers to these queries, without released values."""
    query_values = _checked_values(mechanism, values)
    sums = _ThresholdSum.from_mechanism(mechanism, query_values)
    law = dict(_enumerate_streams((), sums, query_values, mechanism.positives))
    if len(law) > MAX_OUTCOMES:
        raise _too_many_outcomes(ValueWords(f"lists of {len(query_values)} queries"), "give fewer queries or positives")
    return law


def _checked_values(mechanism: AboveThreshold, values: Any) -> tuple[int, ...]:
    query_values = tuple(values) if isinstance(values, (list, tuple)) else ()
    if not 0 < len(query_values) <= _MAX_QUERIES or not all(type(value) is int for value in query_values):
        rule = f"lists of 1 to {_MAX_QUERIES} integers, one for each query"
        raise InvalidParameter("neighbours", values, rule, fix="for example, write neighbours=([3, 5], [4, 6])")
    if max(abs(value - mechanism.threshold) for value in query_values) > _MAX_SPREAD:
        rule = f"lists of integers that differ from the threshold by at most {_MAX_SPREAD:,}"
        raise InvalidParameter("neighbours", values, rule, fix="give integers closer to the threshold")
    return query_values


def _enumerate_streams(
    answers: Stream, sums: _ThresholdSum, query_values: Sequence[int], positives: int
) -> Iterator[tuple[Stream, Decimal]]:
    if len(answers) == len(query_values) or sum(answers) == positives:
        yield answers, sums.total()
        return
    for answer in (0, 1):
        yield from _enumerate_streams(
            (*answers, answer), sums.after_answer(query_values[len(answers)], bool(answer)), query_values, positives
        )


@dataclass(frozen=True)
class _ThresholdTail:
    """The threshold beyond the values on one side: t = end ± j, weight A·r^j, and a polynomial in z = q^j."""

    end: int
    rising: bool
    first: Decimal
    """The weight A of the threshold at ``end``."""
    terms: tuple[Decimal, ...]

    def sum_over_thresholds(self, threshold_ratio: Decimal, noise_ratio: Decimal, context: Context) -> Decimal:
        """Sum over all j: Σ_k terms_k·A/(1 − r·q^k)."""
        total, term_ratio = Decimal(0), threshold_ratio
        for term in self.terms:
            series = context.divide(term, context.subtract(Decimal(1), term_ratio))
            total, term_ratio = context.add(total, series), context.multiply(term_ratio, noise_ratio)
        return context.multiply(self.first, total)


@dataclass(frozen=True)
class _ThresholdSum:
    """The sum over the noisy threshold after some answers: term by term between the values, plus two tails."""

    scales: tuple[Fraction, Fraction]
    window: tuple[tuple[int, Decimal], ...]
    tails: tuple[_ThresholdTail, _ThresholdTail]

    @classmethod
    def from_mechanism(cls, mechanism: AboveThreshold, query_values: Sequence[int]) -> _ThresholdSum:
        """Start from the law of the threshold's noise: P(x) = (1 − r)/(1 + r)·r^|x|."""
        context = law_context()
        first, second, _ = mechanism.scales
        centre, one = mechanism.threshold, Decimal(1)
        ratio = _exp_of_minus(first, 1, context)
        peak = context.divide(context.subtract(one, ratio), context.add(one, ratio))
        low, high = min(*query_values, centre), max(*query_values, centre) + 1

        def weight(t: int) -> Decimal:
            return context.multiply(peak, _exp_of_minus(first, abs(t - centre), context))

        tails = _ThresholdTail(low, False, weight(low), (one,)), _ThresholdTail(high, True, weight(high), (one,))
        return cls((first, second), tuple((t, weight(t)) for t in range(low + 1, high)), tails)

    def after_answer(self, value: int, above: bool) -> _ThresholdSum:
        """Multiply by the probability of one more answer: "above" means noise ≥ t − value."""
        context = law_context()
        window = tuple(
            (t, context.multiply(weight, self._answer_probability(t - value, above, context)))
            for t, weight in self.window
        )
        lower, upper = (self._extend_tail(tail, value, above, context) for tail in self.tails)
        return _ThresholdSum(self.scales, window, (lower, upper))

    def _answer_probability(self, least: int, above: bool, context: Context) -> Decimal:
        """Return P(Y ≥ least) of a query's noise if ``above``, else its complement."""
        beyond = least if least >= 1 else 1 - least
        tail = self._noise_tail(beyond, context)
        return tail if above == (least >= 1) else context.subtract(Decimal(1), tail)

    def _noise_tail(self, t: int, context: Context) -> Decimal:
        """Return P(Y ≥ t) = q^t/(1 + q) for t ≥ 1."""
        return context.divide(
            _exp_of_minus(self.scales[1], t, context),
            context.add(Decimal(1), _exp_of_minus(self.scales[1], 1, context)),
        )

    def _extend_tail(self, tail: _ThresholdTail, value: int, above: bool, context: Context) -> _ThresholdTail:
        """Multiply a tail by one more answer: probability u·z for the unlikely one there, else 1 − u·z."""
        beyond = tail.end - value if tail.rising else value - tail.end + 1
        u = self._noise_tail(beyond, context)
        factor = [Decimal(0), u] if above == tail.rising else [Decimal(1), u.copy_negate()]
        return _ThresholdTail(
            tail.end, tail.rising, tail.first, tuple(multiply_polynomial_coefficients(tail.terms, factor, context))
        )

    def total(self) -> Decimal:
        context = law_context()
        ratio, power = (_exp_of_minus(scale, 1, context) for scale in self.scales)
        total = Decimal(0)
        for _, weight in self.window:
            total = context.add(total, weight)
        for tail in self.tails:
            total = context.add(total, tail.sum_over_thresholds(ratio, power, context))
        return total


def _exp_of_minus(scale: Fraction, times: int, context: Context) -> Decimal:
    """Return e^{−times/scale}."""
    return bits.to_decimal(-times / scale, context).exp(context)


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
        fix = "for example, write neighbours=(10, 11)"
        raise InvalidParameter("neighbours", neighbours, "a pair of inputs", fix=fix)
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
        fix = "for example, write neighbours=([5, 0], [5, 1])"
        raise InvalidParameter("neighbours", neighbours, "a pair of equally long inputs", fix=fix)
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
        fix = "give one value for each query in both lists"
        raise InvalidParameter("neighbours", neighbours, "a pair of equally long lists", fix=fix)
    pairs: list[Pair] = []
    for stream, probability in first.items():
        stream_pair = Fraction(probability), Fraction(second[stream])
        valued = [i for i, answer in builtins.enumerate(stream) if answer and mechanism.values_epsilon is not None]
        columns = [
            _NoisyCoordinate(1, mechanism.scales[2], neighbours[0][i], neighbours[1][i], len(valued) + 1)
            for i in valued
        ]
        if len(pairs) + math.prod(column.outcome_count for column in columns) > MAX_OUTCOMES:
            raise _too_many_outcomes(neighbours, "use fewer queries, fewer positives or less noise")
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
            "a pair of integers, or of equally long rows of integers, all below 2^62 in absolute value",
            fix="for example, write neighbours=(10, 11)",
        )
    scales = mechanism.sizes
    if len(scales) not in (1, len(rows[0])):
        rule = f"a pair of rows of {len(scales)} numbers, one for each scale"
        raise InvalidParameter("neighbours", neighbours, rule, fix="give as many numbers as the mechanism has scales")
    columns = [
        _NoisyCoordinate(
            mechanism.order, scales[i % len(scales)], *_coordinate_steps(rows, i, mechanism.grid), len(rows[0])
        )
        for i in range(len(rows[0]))
    ]
    if math.prod(column.outcome_count for column in columns) > MAX_OUTCOMES:
        raise _too_many_outcomes(neighbours, "give fewer numbers, or use less noise")
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
