"""The law of a sparse vector is computed exactly, over all streams of "above" and "below" that it may give.

Given the noisy threshold t, answers are independent, so a stream has probability Σ_t P(T = t)·Π P(answer | t). Between
the values every term is computed. Beyond them all tails are powers: with q the ratio of a question's noise, each factor
is u·z or 1 − u·z where z = q^j and j is how far t lies beyond, so the product is a polynomial in z and its sum over j
is a sum of geometric series. Nothing is cut off, however wide the noise is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from sfumato.audit.exact_laws.choice_laws import MOST_OUTCOMES, Law, context_of_laws, multiplied
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import AboveThreshold, bits

_MOST_QUESTIONS, _MOST_SPREAD = 14, 4000

Stream = tuple[int, ...]
"""1 for "above", 0 for "below"; it ends with the last "above" that is allowed, or with the last question."""


def stream_law(mechanism: AboveThreshold, values: Any) -> Law:
    """Compute the law of the answers to these questions, without the values that may stand beside them."""
    asked = _checked(mechanism, values)
    sums = _Sums.of(mechanism, asked)
    found = dict(_streams((), sums, asked, mechanism.positives))
    if len(found) > MOST_OUTCOMES:
        raise InvalidParameter("neighbours", f"{len(asked)} questions", "fewer questions, or fewer positives")
    return found


def _checked(mechanism: AboveThreshold, values: Any) -> tuple[int, ...]:
    asked = tuple(values) if isinstance(values, (list, tuple)) else ()
    if not 0 < len(asked) <= _MOST_QUESTIONS or not all(type(value) is int for value in asked):
        raise InvalidParameter(
            "neighbours", values, f"lists of 1 to {_MOST_QUESTIONS} whole numbers, one for each question"
        )
    if max(abs(value - mechanism.threshold) for value in asked) > _MOST_SPREAD:
        raise InvalidParameter("neighbours", values, f"values within {_MOST_SPREAD} of the threshold")
    return asked


def _streams(said: Stream, sums: _Sums, asked: Sequence[int], positives: int) -> Iterator[tuple[Stream, Decimal]]:
    if len(said) == len(asked) or sum(said) == positives:
        yield said, sums.total()
        return
    for answer in (0, 1):
        yield from _streams((*said, answer), sums.after(asked[len(said)], bool(answer)), asked, positives)


@dataclass(frozen=True)
class _Tail:
    """This is what lies beyond the values on one side: t = end ± j, a weight A·r^j, and a polynomial in z = q^j."""

    end: int
    rising: bool
    first: Decimal
    """The weight of the threshold at the end itself."""
    terms: tuple[Decimal, ...]

    def total(self, ratio: Decimal, power: Decimal, context: Context) -> Decimal:
        """Add up over all j: Σ_k terms_k·A/(1 − r·q^k)."""
        total, grown = Decimal(0), ratio
        for term in self.terms:
            series = context.divide(term, context.subtract(Decimal(1), grown))
            total, grown = context.add(total, series), context.multiply(grown, power)
        return context.multiply(self.first, total)


@dataclass(frozen=True)
class _Sums:
    """This is the sum over the noisy threshold, after some answers: term by term between the values, and two tails."""

    scales: tuple[Fraction, Fraction]
    window: tuple[tuple[int, Decimal], ...]
    tails: tuple[_Tail, _Tail]

    @classmethod
    def of(cls, mechanism: AboveThreshold, asked: Sequence[int]) -> _Sums:
        """Begin with the law of the threshold's noise: P(x) = (1 − r)/(1 + r)·r^|x|."""
        context = context_of_laws()
        first, second, _ = mechanism.scales
        centre, one = mechanism.threshold, Decimal(1)
        ratio = _power(first, 1, context)
        peak = context.divide(context.subtract(one, ratio), context.add(one, ratio))
        low, high = min(*asked, centre), max(*asked, centre) + 1

        def weight(t: int) -> Decimal:
            return context.multiply(peak, _power(first, abs(t - centre), context))

        tails = _Tail(low, False, weight(low), (one,)), _Tail(high, True, weight(high), (one,))
        return cls((first, second), tuple((t, weight(t)) for t in range(low + 1, high)), tails)

    def after(self, value: int, above: bool) -> _Sums:
        """Multiply by the chance of one more answer: above is noise ≥ t − value."""
        context = context_of_laws()
        window = tuple(
            (t, context.multiply(weight, self._chance(t - value, above, context))) for t, weight in self.window
        )
        lower, upper = (self._longer(tail, value, above, context) for tail in self.tails)
        return _Sums(self.scales, window, (lower, upper))

    def _chance(self, least: int, above: bool, context: Context) -> Decimal:
        """Compute P(Y ≥ least) of a question's noise, or one minus it."""
        beyond = least if least >= 1 else 1 - least
        tail = self._tail(beyond, context)
        return tail if above == (least >= 1) else context.subtract(Decimal(1), tail)

    def _tail(self, t: int, context: Context) -> Decimal:
        """Compute P(Y ≥ t) = q^t/(1 + q) for t ≥ 1."""
        return context.divide(
            _power(self.scales[1], t, context), context.add(Decimal(1), _power(self.scales[1], 1, context))
        )

    def _longer(self, tail: _Tail, value: int, above: bool, context: Context) -> _Tail:
        """Multiply a tail by one more answer: the one that is unlikely there has chance u·z, and the other 1 − u·z."""
        beyond = tail.end - value if tail.rising else value - tail.end + 1
        u = self._tail(beyond, context)
        factor = [Decimal(0), u] if above == tail.rising else [Decimal(1), u.copy_negate()]
        return _Tail(tail.end, tail.rising, tail.first, tuple(multiplied(tail.terms, factor, context)))

    def total(self) -> Decimal:
        context = context_of_laws()
        ratio, power = (_power(scale, 1, context) for scale in self.scales)
        total = Decimal(0)
        for _, weight in self.window:
            total = context.add(total, weight)
        for tail in self.tails:
            total = context.add(total, tail.total(ratio, power, context))
        return total


def _power(scale: Fraction, times: int, context: Context) -> Decimal:
    """Compute e^{−times/scale}."""
    return bits.decimal(-times / scale, context).exp(context)
