"""The exact law of the sparse vector technique, over all streams of "above" and "below".

Given the noisy threshold t, answers are independent, so a stream has probability Σ_t P(T = t)·Π P(answer | t). Between
the values every term is computed. Beyond them all tails are powers: with q the ratio of a query's noise, each factor
is u·z or 1 − u·z where z = q^j and j is the distance of t beyond the values, so the product is a polynomial in z and
its sum over j is a sum of geometric series. Nothing is truncated, however wide the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import AboveThreshold, bits
from sfumato.mechanisms.outcome_laws import MAX_OUTCOMES, Law, law_context, multiply_polynomials

_MAX_QUERIES, _MAX_SPREAD = 14, 4000

Stream = tuple[int, ...]
"""1 for "above", 0 for "below"; it ends with the last allowed "above" or with the last query."""


def stream_law(mechanism: AboveThreshold, values: Any) -> Law:
    """Return the law of the answers to these queries, without released values."""
    query_values = _check_values(mechanism, values)
    sums = _ThresholdSum.of(mechanism, query_values)
    law = dict(_enumerate_streams((), sums, query_values, mechanism.positives))
    if len(law) > MAX_OUTCOMES:
        raise InvalidParameter(
            "neighbours",
            ValueWords(f"lists of {len(query_values)}"),
            "lists of fewer queries, or with fewer positives",
        )
    return law


def _check_values(mechanism: AboveThreshold, values: Any) -> tuple[int, ...]:
    query_values = tuple(values) if isinstance(values, (list, tuple)) else ()
    if not 0 < len(query_values) <= _MAX_QUERIES or not all(type(value) is int for value in query_values):
        raise InvalidParameter("neighbours", values, f"lists of 1 to {_MAX_QUERIES} integers, one for each query")
    if max(abs(value - mechanism.threshold) for value in query_values) > _MAX_SPREAD:
        raise InvalidParameter("neighbours", values, f"lists of values within {_MAX_SPREAD:,} of the threshold")
    return query_values


def _enumerate_streams(
    answers: Stream, sums: _ThresholdSum, query_values: Sequence[int], positives: int
) -> Iterator[tuple[Stream, Decimal]]:
    if len(answers) == len(query_values) or sum(answers) == positives:
        yield answers, sums.total()
        return
    for answer in (0, 1):
        yield from _enumerate_streams(
            (*answers, answer), sums.after(query_values[len(answers)], bool(answer)), query_values, positives
        )


@dataclass(frozen=True)
class _ThresholdTail:
    """The threshold beyond the values on one side: t = end ± j, weight A·r^j, and a polynomial in z = q^j."""

    end: int
    rising: bool
    first: Decimal
    """The weight A of the threshold at ``end``."""
    terms: tuple[Decimal, ...]

    def total(self, ratio: Decimal, power: Decimal, context: Context) -> Decimal:
        """Sum over all j: Σ_k terms_k·A/(1 − r·q^k)."""
        total, term_ratio = Decimal(0), ratio
        for term in self.terms:
            series = context.divide(term, context.subtract(Decimal(1), term_ratio))
            total, term_ratio = context.add(total, series), context.multiply(term_ratio, power)
        return context.multiply(self.first, total)


@dataclass(frozen=True)
class _ThresholdSum:
    """The sum over the noisy threshold after some answers: term by term between the values, plus two tails."""

    scales: tuple[Fraction, Fraction]
    window: tuple[tuple[int, Decimal], ...]
    tails: tuple[_ThresholdTail, _ThresholdTail]

    @classmethod
    def of(cls, mechanism: AboveThreshold, query_values: Sequence[int]) -> _ThresholdSum:
        """Start from the law of the threshold's noise: P(x) = (1 − r)/(1 + r)·r^|x|."""
        context = law_context()
        first, second, _ = mechanism.scales
        centre, one = mechanism.threshold, Decimal(1)
        ratio = _power(first, 1, context)
        peak = context.divide(context.subtract(one, ratio), context.add(one, ratio))
        low, high = min(*query_values, centre), max(*query_values, centre) + 1

        def weight(t: int) -> Decimal:
            return context.multiply(peak, _power(first, abs(t - centre), context))

        tails = _ThresholdTail(low, False, weight(low), (one,)), _ThresholdTail(high, True, weight(high), (one,))
        return cls((first, second), tuple((t, weight(t)) for t in range(low + 1, high)), tails)

    def after(self, value: int, above: bool) -> _ThresholdSum:
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
            _power(self.scales[1], t, context), context.add(Decimal(1), _power(self.scales[1], 1, context))
        )

    def _extend_tail(self, tail: _ThresholdTail, value: int, above: bool, context: Context) -> _ThresholdTail:
        """Multiply a tail by one more answer: probability u·z for the unlikely one there, else 1 − u·z."""
        beyond = tail.end - value if tail.rising else value - tail.end + 1
        u = self._noise_tail(beyond, context)
        factor = [Decimal(0), u] if above == tail.rising else [Decimal(1), u.copy_negate()]
        return _ThresholdTail(
            tail.end, tail.rising, tail.first, tuple(multiply_polynomials(tail.terms, factor, context))
        )

    def total(self) -> Decimal:
        context = law_context()
        ratio, power = (_power(scale, 1, context) for scale in self.scales)
        total = Decimal(0)
        for _, weight in self.window:
            total = context.add(total, weight)
        for tail in self.tails:
            total = context.add(total, tail.total(ratio, power, context))
        return total


def _power(scale: Fraction, times: int, context: Context) -> Decimal:
    """Return e^{−times/scale}."""
    return bits.to_decimal(-times / scale, context).exp(context)
