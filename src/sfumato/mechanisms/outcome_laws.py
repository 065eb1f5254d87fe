"""Exact laws of mechanisms on one input, computed from their definitions and independently of the code that draws them.

Noise on the integers: P(t) = (1 − q)/(1 + q)·q^|t| with q = e^{−1/b} (Laplace), and P(t) = e^{−t²/2σ²}/Θ with
Θ = Σ e^{−t²/2σ²} (Gaussian). No such probability is rational (Lindemann), nor is any of a selection whose scores
differ, as a rule; they are computed to a hundred digits.

Scores become integer steps g below the best on a public grid, as in a release, and c is the rate per step.

- Gumbel noise: P(h) ∝ e^{−c·g_h}; top-k is k such selections without replacement (Durfee & Rogers 2019).
- Exponential noise, permute-and-flip: candidates arrive at uniform times u and are accepted with probability
  w = e^{−c·g}, so P(h) = w_h·∫₀¹ Π_{j≠h} (1 − u·w_j) du, a polynomial's integral (McKenna & Sheldon 2020).
- Laplace noise: P(h) = ∫ f(x − s_h)·Π_{j≠h} F(x − s_j) dx. Between two scores every factor is a constant plus an
  exponential of ±x, so the product is a sum of e^{kx} with integer k, which is integrated term by term.

The law of a mechanism's outcome on one input, as a mapping from outcomes to probabilities.

A randomised algorithm M: A → Δ(B) maps an input to a probability distribution; ``mechanism.distribution(x)`` is that
distribution. Two of them are what every divergence and ``Curve.pair`` take.

Probabilities are fractions: exact where they are rational, otherwise rounded down (``rounding``), so that they never
sum to more than 1, and what is missing only ever counts against the mechanism.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.privacy.numbers import format_number, log_ratio

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture


class OutcomeDistribution(Mapping[Any, Fraction]):
    """The probability of each outcome of a mechanism on one input.

    Iteration lists finitely many outcomes. Where there are infinitely many (additive noise), these carry all mass but
    ``missing``, and every other possible outcome still has its probability.
    """

    def __init__(
        self, outcomes: Sequence[Any], probability: Callable[[Any], Fraction | None], rounding: Fraction = Fraction(0)
    ) -> None:
        self.outcomes = tuple(outcomes)
        self.rounding = rounding
        """Each probability is too low by less than this; 0 where all are exact."""
        self._probability = probability

    @classmethod
    def of_mapping(cls, probabilities: Mapping[Any, Fraction], rounding: Fraction = Fraction(0)) -> OutcomeDistribution:
        """Return the law with these probabilities; any other outcome is impossible."""
        return cls(tuple(probabilities), dict(probabilities).get, rounding)

    @property
    def missing(self) -> Fraction:
        """What the listed probabilities lack of 1: rounding, and the outcomes that are not listed."""
        return 1 - sum(self.values(), Fraction(0))

    def __getitem__(self, outcome: Any) -> Fraction:
        probability = self._probability(outcome)
        if probability is None:
            raise KeyError(outcome)
        return probability

    def __iter__(self) -> Iterator[Any]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        outcome_texts = [f"{outcome}: {format_number(float(self[outcome]))}" for outcome in self.outcomes[:6]]
        return f"<OutcomeDistribution {', '.join(outcome_texts)}{', …' if len(self.outcomes) > 6 else ''}>"

    def plot(self, other: OutcomeDistribution, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw this law beside that of another input, and below them the privacy loss of every outcome,
        ln P[M(x) = outcome]/P[M(y) = outcome].
        """
        from sfumato.plots.picture import save_if_path
        from sfumato.privacy.pictures import draw_outcome_laws  # most laws are never drawn

        if not isinstance(other, OutcomeDistribution):
            raise InvalidParameter(
                "other", other, "the outcome distribution of another input", fix="pass mechanism.distribution(y)"
            )
        outcomes = list(dict.fromkeys([*self, *other]))
        positions = _positions_on_axis(outcomes)
        masses = [(float(self.get(outcome, 0)), float(other.get(outcome, 0))) for outcome in outcomes]
        rows = sorted(zip(positions, masses, map(self._loss_function_against(other), outcomes), strict=True))
        return save_if_path(draw_outcome_laws(rows), path)

    def _loss_function_against(self, other: OutcomeDistribution) -> Callable[[Any], float | None]:
        def loss(outcome: Any) -> float | None:
            p, q = self.get(outcome, Fraction(0)), other.get(outcome, Fraction(0))
            return log_ratio(p, q) if p and q else None

        return loss


def _positions_on_axis(outcomes: Sequence[Any]) -> list[float]:
    """Return where each outcome stands on the axis: numbers at their value, anything else in order."""
    if all(isinstance(outcome, (int, float, Fraction)) and math.isfinite(outcome) for outcome in outcomes):
        return [float(outcome) for outcome in outcomes]
    return [float(index) for index in range(len(outcomes))]


Law = dict[Any, Decimal]
"""The probability of every outcome."""

DIGITS = 110
MAX_OUTCOMES = 40_000
_MAX_CANDIDATES, _MAX_SPREAD = 24, 2000
_DECIMALS = 60
"""Published probabilities are rounded down at this decimal place."""
_RAREST = Fraction(1, 10**40)  # of rarer outcomes too few of the hundred digits are left
ROUNDING = Fraction(2, 10**_DECIMALS)
"""More than rounding down at that place takes away, the error of the computation included."""


def law_context() -> Context:
    """Return the decimal context of laws: sums of a few thousand terms are accurate to a hundred digits."""
    return bits.decimal_context(DIGITS)


def probability_rounded_down(probability: Decimal) -> Fraction:
    """Return a certain lower bound of a computed probability, less than ``ROUNDING`` below it."""
    surely_below = Fraction(probability) - Fraction(1, 10 ** (DIGITS - 20))
    return max(Fraction(0), Fraction(math.floor(surely_below * 10**_DECIMALS), 10**_DECIMALS))


def distribution_from_law(law: Law, *, is_uniform: bool) -> OutcomeDistribution:
    """Return a computed law as fractions: exact where all outcomes are equally likely, else rounded down."""
    if is_uniform:
        return OutcomeDistribution.of_mapping(dict.fromkeys(law, Fraction(1, len(law))))
    return OutcomeDistribution.of_mapping({key: probability_rounded_down(p) for key, p in law.items()}, ROUNDING)


def log_probability_ratio(outcome: Any, first: Law, second: Law) -> float:
    """Return ln P(outcome)/Q(outcome) of two computed laws."""
    if first.keys() != second.keys():
        raise InvalidParameter("y", ValueWords(f"a list of {len(second)}"), f"a list of {len(first)} scores, like x")
    if isinstance(outcome, list):
        outcome = tuple(outcome)  # as top-k lists its candidates
    if not isinstance(outcome, Hashable) or outcome not in first:
        fix = "choose an outcome of mechanism.distribution(x)"
        raise InvalidParameter("outcome", outcome, "one of the outcomes that distribution(x) lists", fix=fix)
    p, q = Fraction(first[outcome]), Fraction(second[outcome])
    if min(p, q) < _RAREST:
        rule = f"an outcome whose probability is at least {float(_RAREST):.0e} for both inputs"
        raise InvalidParameter("outcome", outcome, rule, fix="choose inputs whose scores are closer together")
    return log_ratio(p, q)


def laplace_probability(scale: Fraction) -> Callable[[int], Decimal]:
    """Return the law of discrete Laplace noise: a function of how many steps it moves a number."""
    context = law_context()
    q = _exp_in_context(-1 / scale, context)
    at_zero = context.divide(context.subtract(Decimal(1), q), context.add(Decimal(1), q))
    return lambda steps: context.multiply(at_zero, _exp_in_context(-abs(steps) / scale, context))


def gaussian_probability(sigma: Fraction) -> Callable[[int], Decimal]:
    """Return the law of discrete Gaussian noise: a function of how many steps it moves a number."""
    context, total = law_context(), _gaussian_normaliser(sigma)
    return lambda steps: context.divide(_exp_in_context(-Fraction(steps**2) / (2 * sigma**2), context), total)


@lru_cache(maxsize=64)
def _gaussian_normaliser(sigma: Fraction) -> Decimal:
    """Sum e^{−t²/2σ²} over all integers, each term from the one before by a ratio that shrinks by e^{−1/σ²}.

    After t = 25σ + 1 what is left is below 10⁻¹³⁰; the rounding of t ratios grows with t², so t ≤ 10⁶ leaves ninety
    digits.
    """
    context = law_context()
    shrink, ratio = _exp_in_context(-1 / sigma**2, context), _exp_in_context(-1 / (2 * sigma**2), context)
    total, term = Decimal(1), Decimal(2)
    for _ in range(math.ceil(25 * sigma) + 1):
        term = context.multiply(term, ratio)
        total, ratio = context.add(total, term), context.multiply(ratio, shrink)
    return total


def require_computable_steps(steps: list[int], rate: Fraction) -> list[int]:
    """Refuse lists of scores whose law would take too long, or has probabilities too far apart."""
    if len(steps) > _MAX_CANDIDATES:
        rule = f"a list of at most {_MAX_CANDIDATES} scores, the most for which exact probabilities are computed"
        raise InvalidParameter("scores", ValueWords(f"a list of {len(steps)}"), rule, fix="give fewer scores")
    if max(steps) * rate > _MAX_SPREAD:
        rule = f"scores at which the probabilities of any two candidates differ by at most a factor of e^{_MAX_SPREAD}"
        got = ValueWords("scores that are further apart")
        raise InvalidParameter("scores", got, rule, fix="give closer scores, or a smaller epsilon")
    return steps


def _exponential_weights(steps: Sequence[int], rate: Fraction) -> list[Decimal]:
    context = law_context()
    return [bits.to_decimal(-step * rate, context).exp(context) for step in steps]


def exponential_mechanism_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    """Return P(h) ∝ e^{−c·g_h}."""
    context, weights = law_context(), _exponential_weights(steps, rate)
    total = _sum_in_context(weights, context)
    return [context.divide(weight, total) for weight in weights]


def top_k_law(steps: list[int], rate: Fraction, k: int) -> Law:
    """Return the law of k selections without replacement."""
    results = math.perm(len(steps), k)
    if not results:
        raise InvalidParameter("scores", ValueWords(f"a list of {len(steps)}"), f"a list of at least k = {k} scores")
    if results > MAX_OUTCOMES:
        got = ValueWords(f"a list of {len(steps):,}")
        rule = f"a list from which k = {k} scores can be chosen, in order, in at most {MAX_OUTCOMES:,} ways"
        raise InvalidParameter("scores", got, rule, fix="give fewer scores, or a smaller k")
    context, weights = law_context(), _exponential_weights(require_computable_steps(steps, rate), rate)
    law: Law = {}
    for chosen in permutations(range(len(steps)), k):
        remaining, probability = set(range(len(steps))), Decimal(1)
        for candidate in chosen:
            share = context.divide(
                weights[candidate], _sum_in_context((weights[other] for other in sorted(remaining)), context)
            )
            probability, remaining = context.multiply(probability, share), remaining - {candidate}
        law[chosen] = probability
    return law


def permute_and_flip_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    """Return w_h·∫₀¹ Π_{j≠h} (1 − u·w_j) du for each candidate h."""
    context, weights = law_context(), _exponential_weights(steps, rate)
    probabilities = []
    for index, weight in enumerate(weights):
        product = [Decimal(1)]
        for other in weights[:index] + weights[index + 1 :]:
            product = multiply_polynomial_coefficients(product, [Decimal(1), other.copy_negate()], context)
        terms = [context.divide(coefficient, Decimal(power + 1)) for power, coefficient in enumerate(product)]
        probabilities.append(context.multiply(weight, _sum_in_context(terms, context)))
    return probabilities


def multiply_polynomial_coefficients(
    first: Sequence[Decimal], second: Sequence[Decimal], context: Context
) -> list[Decimal]:
    """Multiply two polynomials given by their coefficients."""
    product = [Decimal(0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product[i + j] = context.add(product[i + j], context.multiply(a, b))
    return product


def laplace_max_law(steps: list[int], rate: Fraction) -> list[Decimal]:
    """Integrate between the scores, which are 0 for the best and −c·g for the others."""
    scores = [-step * rate for step in steps]
    breakpoints = sorted(set(scores))
    ends: list[Fraction | None] = [None, *breakpoints, None]
    return [_probability_of_largest(candidate, scores, list(pairwise(ends))) for candidate in range(len(scores))]


def _probability_of_largest(
    candidate: int, scores: list[Fraction], parts: list[tuple[Fraction | None, Fraction | None]]
) -> Decimal:
    context = law_context()
    total = Decimal(0)
    for low, high in parts:
        terms = {0: Decimal(1)}
        for other, score in enumerate(scores):
            rising = high is not None and high <= score
            tail = context.multiply(Decimal("0.5"), _exp_in_context(-score if rising else score, context))
            power = 1 if rising else -1
            if other == candidate:
                terms = _multiply_exponentials(terms, {power: tail}, context)
            else:
                terms = _multiply_exponentials(
                    terms, {power: tail} if rising else {0: Decimal(1), power: tail.copy_negate()}, context
                )
        total = context.add(total, _integrate_exponentials(terms, low, high, context))
    return total


def _multiply_exponentials(
    first: dict[int, Decimal], second: dict[int, Decimal], context: Context
) -> dict[int, Decimal]:
    """Multiply two sums of exponentials e^{kx}, given by their coefficients."""
    product: dict[int, Decimal] = {}
    for i, a in first.items():
        for j, b in second.items():
            product[i + j] = context.add(product.get(i + j, Decimal(0)), context.multiply(a, b))
    return product


def _integrate_exponentials(
    terms: dict[int, Decimal], low: Fraction | None, high: Fraction | None, context: Context
) -> Decimal:
    total = Decimal(0)
    for power, factor in terms.items():
        if power == 0:
            assert low is not None
            assert high is not None
            width = bits.to_decimal(high - low, context)
            total = context.add(total, context.multiply(factor, width))
            continue
        ends = [Decimal(0) if end is None else _exp_in_context(power * end, context) for end in (low, high)]
        part = context.divide(context.multiply(factor, context.subtract(ends[1], ends[0])), Decimal(power))
        total = context.add(total, part)
    return total


def _exp_in_context(exponent: Fraction, context: Context) -> Decimal:
    return bits.to_decimal(exponent, context).exp(context)


def _sum_in_context(terms: Iterable[Decimal], context: Context) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = context.add(total, term)
    return total
