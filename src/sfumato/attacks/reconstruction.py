"""Reconstruction finds nearly everybody's secret bit from many answers that are each nearly right.

About n questions over random groups, answered within o(√n), determine almost all of n bits (Dinur & Nissim 2003; by a
linear programme even if a share of the answers is arbitrarily wrong: Dwork, McSherry & Talwar 2007). Answers that keep
ε for one person's bit leave any attack below e^ε/(1 + e^ε), however many questions there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

import numpy as np

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    Groups,
    NoisyAnswers,
    RoundedAnswers,
    Sums,
    SuppressedAnswers,
    Values,
    invented_bits,
    private_answers,
    random_groups,
)
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.attacks.fitting import least_deviations, least_squares
from sfumato.errors import InvalidParameter
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import POSITIVE, Number, exact, whole

NAME = "reconstruction"
MOST_ASKED = 400
"""As many questions are bought from a real curator; beyond them its noise is drawn without one, which is quicker."""
_MOST_CELLS = 1 << 27
_MOST_PROGRAMME = 1 << 20
"""Truths in all groups of one attack, and in one that a linear programme solves."""


class Method(Enum):
    """A method says how bits are found from answers."""

    LEAST_SQUARES = "least squares"
    LINEAR_PROGRAMME = "linear programme"

    @classmethod
    def of(cls, value: Method | str) -> Method:
        """Take a method, or its name."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter("method", value, "'least squares' or 'linear programme'") from None


def reconstruct(answerer: Answerer, questions: int, method: Method | str = Method.LEAST_SQUARES) -> Values:
    """Guess everybody's bit from answers about random groups; questions that are withheld are left out."""
    how, many = Method.of(method), whole(questions, "questions", at_least=1)
    cells = many * answerer.people
    most = _MOST_CELLS if how is Method.LEAST_SQUARES else _MOST_PROGRAMME
    if cells > most:
        raise InvalidParameter(
            "questions", questions, f"at most {most // answerer.people} for {answerer.people} people"
        )
    groups = random_groups(many, answerer.people)
    told = answerer.sums(groups)
    if told.ndim == 2 and (how is Method.LINEAR_PROGRAMME or np.isnan(told).any()):
        return np.column_stack([_guessed(groups, town, how) for town in told.T])
    return _guessed(groups, told, how)


def reconstruction(
    people: int = 50,
    questions: int = 200,
    epsilon: Number = 1,
    method: Method | str = Method.LEAST_SQUARES,
    *,
    towns: int = 1,
) -> Findings:
    """Guess the bits of invented people from random groups, on every kind of answers, in each of some towns.

    The private ones are bought from a real curator up to 400 questions; beyond that the same noise is drawn without
    one.
    """
    size, many = whole(people, "people", at_least=10), whole(questions, "questions", at_least=1)
    several = whole(towns, "towns", at_least=1) > 1
    secret = invented_bits(size, towns) if several else invented_bits(size)
    open_kinds: list[Answerer] = [ExactAnswers(secret), RoundedAnswers(secret), SuppressedAnswers(secret)]
    listed = [_found(each, secret, many, method) for each in open_kinds]
    if many <= MOST_ASKED:
        with private_answers(secret, epsilon, many, towns=several) as private:
            listed.append(_found(private, secret, many, method))
    else:
        listed.append(_found(NoisyAnswers(secret, epsilon, many, towns=several), secret, many, method))
    words = (
        f"{many:,} random groups of {size:,} people are asked for, and {Method.of(method).value} finds each one's bit."
    )
    return Findings(NAME, tuple(listed), (words,))


def reconstruction_by_noise(
    people: int = 100, questions: int = 400, scales: Sequence[Number] | None = None, tables: int = 5
) -> Sweep:
    """Find the share of bits that both methods recover at each scale of Laplace noise, beside theory's ceiling.

    Noise of scale b on m questions about one bit is m/b-DP in all. Around an error of √n attacks begin to fail; where
    m/b is small, they have to.
    """
    size, many = whole(people, "people", at_least=10), whole(questions, "questions", at_least=1)
    given: Sequence[Number] = [2.0**power for power in range(-1, 13)] if scales is None else scales
    sizes = [exact(each, "scales", POSITIVE) for each in given]
    shares: dict[Method, list[float]] = {each: [] for each in Method}
    for scale in sizes:
        for method in Method:
            runs = [_share(size, many, scale, method) for _ in range(whole(tables, "tables", at_least=1))]
            shares[method].append(float(np.mean(runs)))
    ceilings = tuple(guess_ceiling(Guarantee(many / scale)) for scale in sizes)
    courses = [SuccessCurve(each.value, tuple(shares[each])) for each in Method]
    words = f"{many:,} random groups of {size:,} people, noise of this scale on each answer."
    at = tuple(float(each) for each in sizes)
    across = "scale of the noise"
    return Sweep(NAME, across, at, (*courses, SuccessCurve(CEILING, ceilings)), math.sqrt(size), "√n", (words,))


def _guessed(groups: Groups, told: Sums, method: Method) -> Values:
    known = ~np.isnan(told)
    if not known.any():
        return invented_bits(groups.shape[1])
    if not known.all():
        groups, told = groups[known], told[known]
    if method is Method.LEAST_SQUARES:
        found = least_squares(groups, told)
    else:
        found = least_deviations(groups.astype(np.float64), told)
    return (found > 0.5).astype(np.int64)


def _share(people: int, questions: int, scale: Fraction, method: Method) -> float:
    """Recover the bits of one invented table from noisy sums, and say which share is right."""
    secret = invented_bits(people)
    guesses = reconstruct(NoisyAnswers(secret, questions / scale, questions), questions, method)
    return float((guesses == secret).mean())


def _found(answerer: Answerer, secret: Values, questions: int, method: Method | str) -> Finding:
    right = reconstruct(answerer, questions, method) == secret
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(NAME, answerer.kind, int(right.sum()), right.size, 0.5, ceiling, questions)
