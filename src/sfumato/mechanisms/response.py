"""Local mechanisms: each unit's own answer is randomised at the source.

All of these are ε-DP for *replace* neighbours only: the number of reports shows how many took part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits, grids, outcome_laws
from sfumato.mechanisms.outcome_laws import OutcomeDistribution
from sfumato.privacy import Curve, codec
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    NONNEGATIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
)
from sfumato.quick_dataclass import dataclass

_EPSILON_LEAST, _EPSILON_MOST = Fraction(1, 10**6), 50
_CHOICES_MOST = 1 << 20


@dataclass(frozen=True)
class Estimate:
    """Unbiased counts per choice, with the standard error the noise gives them."""

    counts: Floats
    standard_errors: Floats

    def interval(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[Floats, Floats]:
        """Return normal intervals for each count: for the noise alone, not for the sampling of respondents."""
        width = _union_bound_half_width(1.0, confidence, 1) * self.standard_errors
        return self.counts - width, self.counts + width


def _parse_answers(values: Any, choices: int) -> Integers:
    numbers = grids.as_numeric_array(values, None, "values")
    answers = np.atleast_1d(grids.round_to_steps(numbers, None))
    if numbers.ndim > 1 or (answers.size and not (answers.min() >= 0 and answers.max() < choices)):
        got = grids.describe_array(numbers) if numbers.ndim > 1 else ValueWords("a number outside this range")
        raise InvalidParameter("values", got, f"a list of whole numbers from 0 to {choices - 1:,}")
    return answers


def _ln_rounded_down(odds: Fraction) -> Fraction:
    """Return ln(odds), rounded down at the thirtieth decimal."""
    context = bits.decimal_context(60)
    return Fraction(int(context.multiply(bits.to_decimal(odds, context).ln(context), Decimal(10**30))), 10**30)


def bernoulli(threshold: Callable[[Context], Decimal], count: int) -> NDArray[np.bool_]:
    """Draw independent events of one probability, decided from 64 bits, and exactly where those do not decide."""
    context = bits.decimal_context(60)
    scaled = context.multiply(threshold(context), Decimal(1 << 64))
    cutoff = min(int(scaled), (1 << 64) - 1)
    words = bits.random_uint64(count)
    outcomes = words < np.uint64(cutoff)
    for index in np.flatnonzero(
        (words >= np.uint64(max(0, cutoff - 1))) & (words <= np.uint64(min(cutoff + 1, (1 << 64) - 1)))
    ):
        outcomes[index] = bits.is_uniform_below(int(words[index]), 64, threshold)
    return outcomes


@codec.serialisable("randomized-response")
@dataclass(frozen=True)
class RandomizedResponse:
    """Randomized response: the truth with probability p = e^ε/(e^ε + k − 1), else one of the other k − 1 answers
    (Warner 1965).

    Drawn as: keep the truth with probability (e^ε − 1)/(e^ε + k − 1), otherwise a uniform answer. ``odds`` states
    e^ε exactly where ε itself is no rational number. At ε = 0 every report is uniform: perfect privacy, and nothing to
    learn.

    >>> RandomizedResponse.two_coins().odds
    Fraction(3, 1)
    """

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    choices: int = 2
    odds: Fraction | None = None

    def __init__(self, epsilon: Number, choices: int = 2, odds: Number | None = None) -> None:
        exact_odds = None if odds is None else exact(odds, "odds", ABOVE_ONE)
        exact_epsilon = exact(epsilon, "epsilon", NONNEGATIVE)
        if exact_epsilon and not _EPSILON_LEAST <= exact_epsilon <= _EPSILON_MOST:
            raise InvalidParameter("epsilon", epsilon, f"0, or a number from 0.000001 to {_EPSILON_MOST}")
        if exact_odds is not None and not 0 <= exact_epsilon - _ln_rounded_down(exact_odds) < Fraction(1, 10**20):
            raise InvalidParameter(
                "epsilon",
                epsilon,
                "ln(odds), rounded up",
                fix="use RandomizedResponse.of_odds(odds), which computes epsilon",
            )
        choice_count = exact_integer(choices, "choices", at_least=2)
        if choice_count > _CHOICES_MOST:
            raise InvalidParameter("choices", choices, f"at most {_CHOICES_MOST:,}")
        object.__setattr__(self, "epsilon", exact_epsilon)
        object.__setattr__(self, "choices", choice_count)
        object.__setattr__(self, "odds", exact_odds)

    @classmethod
    def of_odds(cls, odds: Number, choices: int = 2) -> RandomizedResponse:
        """Return the mechanism whose odds for the truth against each other answer are exactly odds : 1, so ε =
        ln(odds).
        """
        exact_odds = exact(odds, "odds", ABOVE_ONE)
        return cls(_ln_rounded_down(exact_odds) + Fraction(1, 10**30), choices, exact_odds)

    @classmethod
    def two_coins(cls) -> RandomizedResponse:
        """Return the two-coin scheme: tails is the truth, and at heads the second coin answers: p = 3/4, so ε
        = ln 3.
        """
        return cls.of_odds(3)

    @property
    def truth(self) -> float:
        """p, the probability of a true report."""
        growth = math.exp(self.epsilon) if self.odds is None else float(self.odds)
        return growth / (growth + self.choices - 1)

    def choose(self, values: Any) -> Any:
        """Return a randomised report for each answer: an int gives an int, an array gives an array."""
        truth = _parse_answers(values, self.choices)
        is_kept = bernoulli(self._keep_probability, truth.size)
        reports = np.where(is_kept, truth, bits.random_array_below(self.choices, truth.size))
        return int(reports[0]) if np.ndim(values) == 0 else reports

    def _keep_probability(self, context: Context) -> Decimal:
        growth = _exp_epsilon_or_odds(self.epsilon, self.odds, context)
        return context.divide(context.subtract(growth, Decimal(1)), context.add(growth, Decimal(self.choices - 1)))

    def curve(self) -> Curve:
        return Curve.randomized_response(self.epsilon, self.choices)

    def distribution(self, value: int) -> OutcomeDistribution:
        """Return the exact law of the report that stands for this answer."""
        answer = self._require_choice(value, "value")
        if self.choices > outcome_laws.MAX_OUTCOMES:
            rule = f"at most {outcome_laws.MAX_OUTCOMES:,}, so that every outcome can be listed"
            raise InvalidParameter("choices", self.choices, rule)
        growth = self.odds if self.epsilon else Fraction(1)
        if growth is not None:
            weights = {j: growth if j == answer else Fraction(1) for j in range(self.choices)}
            total = growth + self.choices - 1
            return OutcomeDistribution.of_mapping({j: weight / total for j, weight in weights.items()})
        context = outcome_laws.law_context()
        low = context.divide(
            Decimal(1), context.add(_exp_epsilon_or_odds(self.epsilon, None, context), Decimal(self.choices - 1))
        )
        high = context.subtract(Decimal(1), context.multiply(low, Decimal(self.choices - 1)))
        return outcome_laws.distribution_from_law(
            {j: high if j == answer else low for j in range(self.choices)}, is_uniform=False
        )

    def loss(self, outcome: int, x: int, y: int) -> Fraction:
        """Return ln P[M(x) = outcome]/P[M(y) = outcome]: ε, −ε or 0 (with ``odds``, ε is ln(odds) rounded up)."""
        report, first, second = (self._require_choice(*given) for given in ((outcome, "outcome"), (x, "x"), (y, "y")))
        return self.epsilon * ((report == first) - (report == second))

    def _require_choice(self, value: Number, name: str) -> int:
        number = exact_integer(value, name)
        if number >= self.choices:
            raise InvalidParameter(name, value, f"a whole number from 0 to {self.choices - 1:,}")
        return number

    def estimate(self, reports: Any) -> Estimate:
        """Estimate how many held each answer: (c − nq)/(p − q), with the standard error of the randomisation."""
        if not self.epsilon:
            rule = "above 0, because reports at ε = 0 do not depend on the answers"
            raise InvalidParameter("epsilon", self.epsilon, rule)
        report_counts = np.bincount(_parse_answers(reports, self.choices), minlength=self.choices)
        p = self.truth
        return _debiased_estimate(report_counts, int(report_counts.sum()), p, (1 - p) / (self.choices - 1))

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1, *, reports: int = 1000) -> float:
        """Estimate the half-width of one estimated count among this many reports, when few hold the answer."""
        if not self.epsilon:
            return math.inf
        q = (1 - self.truth) / (self.choices - 1)
        report_count = exact_integer(reports, "reports", at_least=1)
        return _union_bound_half_width(math.sqrt(report_count * q * (1 - q)) / (self.truth - q), confidence, k)

    def words(self) -> str:
        return f"randomised response among {self.choices} answers, ε {format_number(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        parameter = f"epsilon={format_exact(self.epsilon)}" if self.odds is None else f"odds={format_exact(self.odds)}"
        return f"RandomizedResponse({parameter}, choices={self.choices})"


@codec.serialisable("optimized-unary-encoding")
@dataclass(frozen=True)
class OptimizedUnaryEncoding:
    """Optimized unary encoding: one bit per choice; the true one is 1 with probability 1/2, each other with 1/(e^ε + 1)
    (Wang, Blocki, Li & Jha 2017).

    The variance of a count is n·4e^ε/(e^ε − 1)², whatever the number of choices.
    """

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    choices: int

    __repr__ = constructor_repr

    def __init__(self, epsilon: Number, choices: int) -> None:
        response = _response_with_positive_epsilon(epsilon, choices)
        object.__setattr__(self, "epsilon", response.epsilon)
        object.__setattr__(self, "choices", response.choices)

    def choose(self, values: Any) -> NDArray[np.uint8]:
        """Draw a row of bits for each answer."""
        truth = _parse_answers(values, self.choices)
        rows = np.empty((truth.size, self.choices), np.uint8)
        step = max(1, (1 << 20) // self.choices)
        for start in range(0, truth.size, step):
            part = rows[start : start + step]
            part[:] = bernoulli(self._false_bit_probability, part.size).reshape(part.shape)
        rows[np.arange(truth.size), truth] = (bits.random_uint64(truth.size) & np.uint64(1)).astype(np.uint8)
        return rows

    def _false_bit_probability(self, context: Context) -> Decimal:
        return context.divide(Decimal(1), context.add(_exp_epsilon_or_odds(self.epsilon, None, context), Decimal(1)))

    def curve(self) -> Curve:
        """State ε-DP: two bits differ, and (1/2)/(1/2) · q/(1−q) at worst is e^{−ε}."""
        return Curve.pure(self.epsilon, "replace")

    def estimate(self, reports: NDArray[np.uint8]) -> Estimate:
        rows = np.asarray(reports)
        if rows.ndim != 2 or rows.shape[1] != self.choices or not np.isin(rows, (0, 1)).all():
            has_columns = rows.ndim == 2 and rows.shape[1] == self.choices
            given = "an array with other values" if has_columns else f"an array of shape {rows.shape}"
            rule = f"an array of 0s and 1s with {self.choices} columns"
            raise InvalidParameter("reports", ValueWords(given), rule)
        return _debiased_estimate(rows.sum(0, dtype=np.int64), len(rows), 0.5, 1 / (math.exp(self.epsilon) + 1))

    def variance(self, reports: int) -> float:
        """Return the variance of the count of a rare choice."""
        report_count = exact_integer(reports, "reports", at_least=1)
        return report_count * 4 * math.exp(self.epsilon) / math.expm1(self.epsilon) ** 2

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1, *, reports: int = 1000) -> float:
        return _union_bound_half_width(math.sqrt(self.variance(reports)), confidence, k)

    def words(self) -> str:
        return f"optimised unary encoding of {self.choices} answers, ε {format_number(float(self.epsilon), 6)}"


def _response_with_positive_epsilon(epsilon: Number, choices: int) -> RandomizedResponse:
    """Return randomised response among these answers; refuse ε = 0, at which an encoding is of no use."""
    response = RandomizedResponse(epsilon, choices)
    if not response.epsilon:
        raise InvalidParameter("epsilon", epsilon, f"a number from 0.000001 to {_EPSILON_MOST}")
    return response


PRIME = (1 << 31) - 1


@codec.serialisable("optimal-local-hashing")
@dataclass(frozen=True)
class OptimalLocalHashing:
    """Optimal local hashing: each report hashes the answer into g ≈ e^ε + 1 cells by its own function, then randomises
    the cell (Wang et al. 2017).

    As accurate as ``OptimizedUnaryEncoding`` with reports of constant size: variance n·4e^ε/(e^ε − 1)² when g = e^ε
    + 1. The hash is (a·x + b mod 2³¹ − 1) mod g with fresh a, b: the report carries them.
    """

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    choices: int

    __repr__ = constructor_repr

    def __init__(self, epsilon: Number, choices: int) -> None:
        response = _response_with_positive_epsilon(epsilon, choices)
        if response.epsilon > 10:
            raise InvalidParameter("epsilon", epsilon, "at most 10", fix="use RandomizedResponse for a larger ε")
        object.__setattr__(self, "epsilon", response.epsilon)
        object.__setattr__(self, "choices", response.choices)

    @property
    def cells(self) -> int:
        return max(2, round(math.exp(self.epsilon)) + 1)

    def choose(self, values: Any) -> NDArray[np.int64]:
        """Draw a row (a, b, reported cell) for each answer."""
        truth = _parse_answers(values, self.choices)
        a, b = 1 + bits.random_array_below(PRIME - 1, truth.size), bits.random_array_below(PRIME, truth.size)
        cell = self.hashed(a, b, truth)
        reported = RandomizedResponse(self.epsilon, self.cells).choose(cell)
        return np.stack([a, b, np.atleast_1d(reported)], axis=1)

    def hashed(self, a: Integers, b: Integers, x: Integers | int) -> Integers:
        """Return the cells of these answers under the hash functions (a, b) of reports."""
        return (a * x + b) % PRIME % self.cells

    def curve(self) -> Curve:
        return Curve.randomized_response(self.epsilon, self.cells)

    def estimate(self, reports: NDArray[np.int64]) -> Estimate:
        rows = np.asarray(reports)
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise InvalidParameter(
                "reports", ValueWords(f"an array of shape {rows.shape}"), "rows of three numbers: a, b and cell"
            )
        a, b, cell = rows.T
        supported = np.array([(self.hashed(a, b, x) == cell).sum() for x in range(self.choices)])
        truth = RandomizedResponse(self.epsilon, self.cells).truth
        return _debiased_estimate(supported, len(rows), truth, 1 / self.cells)

    def variance(self, reports: int) -> float:
        """Return the variance of the count of a rare choice."""
        p, q = RandomizedResponse(self.epsilon, self.cells).truth, 1 / self.cells
        return exact_integer(reports, "reports", at_least=1) * q * (1 - q) / (p - q) ** 2

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1, *, reports: int = 1000) -> float:
        return _union_bound_half_width(math.sqrt(self.variance(reports)), confidence, k)

    def words(self) -> str:
        return (
            f"optimal local hashing of {self.choices} answers to {self.cells} cells, ε "
            f"{format_number(float(self.epsilon), 6)}"
        )


Response = RandomizedResponse | OptimizedUnaryEncoding | OptimalLocalHashing
"""A mechanism that chooses one report for each answer of a list."""


def _exp_epsilon_or_odds(epsilon: Fraction, odds: Fraction | None, context: Context) -> Decimal:
    """Return e^ε, exact where it is rational."""
    return bits.to_decimal(epsilon, context).exp(context) if odds is None else bits.to_decimal(odds, context)


def _debiased_estimate(report_counts: NDArray[Any], total: int, p: float, q: float) -> Estimate:
    counts = (report_counts - total * q) / (p - q)
    share = np.clip(counts / max(1, total), 0, 1)
    variance = total * (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    return Estimate(counts, np.sqrt(variance))


def _union_bound_half_width(deviation: float, confidence: Number, k: int) -> float:
    """Return the half-width of k normal estimates, by a union bound."""
    from statistics import NormalDist

    miss = float((1 - exact(confidence, "confidence", CONFIDENCE)) / (2 * exact_integer(k, "k", at_least=1)))
    return -NormalDist().inv_cdf(max(miss, 1e-300)) * deviation
