"""Database reconstruction: recover nearly everyone's secret bit from many approximately correct answers.

About n questions over random groups, answered within o(√n), determine almost all of n bits (Dinur & Nissim 2003; by a
linear programme even if a share of the answers is arbitrarily wrong: Dwork, McSherry & Talwar 2007). Answers that are
ε-DP for one person's bit keep any attack's success below e^ε/(1 + e^ε), for any number of questions.
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
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact

NAME = "reconstruction"
RECOVERY = "information recovery"
MAX_CURATOR_QUESTIONS = 400
"""The most questions to a real curator; beyond that the same noise is drawn without one, which is faster."""
_MAX_CELLS = 1 << 27
_MAX_PROGRAMME_CELLS = 1 << 20
"""The most cells of the group matrix, by least squares and by linear programming."""


class Method(Enum):
    """The solver that recovers bits from answers."""

    LEAST_SQUARES = "least squares"
    LINEAR_PROGRAMME = "linear programme"

    @classmethod
    def of(cls, value: Method | str) -> Method:
        """Return a method from its name."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter("method", value, "'least squares' or 'linear programme'") from None


def reconstruct(answerer: Answerer, questions: int, method: Method | str = Method.LEAST_SQUARES) -> Values:
    """Guess everyone's bit from answers about random groups, ignoring withheld ones."""
    solver, question_count = Method.of(method), exact_integer(questions, "questions", at_least=1)
    cells = question_count * answerer.people
    max_cells = _MAX_CELLS if solver is Method.LEAST_SQUARES else _MAX_PROGRAMME_CELLS
    if cells > max_cells:
        raise InvalidParameter(
            "questions", questions, f"at most {max_cells // answerer.people} for {answerer.people} people"
        )
    groups = random_groups(question_count, answerer.people)
    answers = answerer.sums(groups)
    if answers.ndim == 2 and (solver is Method.LINEAR_PROGRAMME or np.isnan(answers).any()):
        return np.column_stack([_guess_bits(groups, town, solver) for town in answers.T])
    return _guess_bits(groups, answers, solver)


def reconstruction(
    people: int = 50,
    questions: int = 200,
    epsilon: Number = 1,
    method: Method | str = Method.LEAST_SQUARES,
    *,
    towns: int = 1,
) -> Findings:
    """Guess the bits of simulated people from random groups, on every kind of answers, in each of some towns.

    Private answers come from a real curator up to 400 questions; beyond that the same noise is drawn without one.
    """
    people_count, question_count = (
        exact_integer(people, "people", at_least=10),
        exact_integer(questions, "questions", at_least=1),
    )
    has_towns = exact_integer(towns, "towns", at_least=1) > 1
    secret = invented_bits(people_count, towns) if has_towns else invented_bits(people_count)
    open_kinds: list[Answerer] = [ExactAnswers(secret), RoundedAnswers(secret), SuppressedAnswers(secret)]
    results = [_reconstruction_finding(answerer, secret, question_count, method) for answerer in open_kinds]
    if question_count <= MAX_CURATOR_QUESTIONS:
        with private_answers(secret, epsilon, question_count, towns=has_towns) as private:
            results.append(_reconstruction_finding(private, secret, question_count, method))
    else:
        results.append(
            _reconstruction_finding(
                NoisyAnswers(secret, epsilon, question_count, towns=has_towns), secret, question_count, method
            )
        )
    words = (
        f"{question_count:,} random groups of {people_count:,} people are asked about, and {Method.of(method).value} "
        "recovers each person's bit."
    )
    return Findings(NAME, tuple(results), (words,))


def reconstruction_by_noise(
    people: int = 100, questions: int = 400, scales: Sequence[Number] | None = None, tables: int = 5
) -> Sweep:
    """Return the share of bits that both methods recover at each Laplace scale, beside the ceiling.

    Noise of scale b on m questions about one bit is m/b-DP in all. Attacks start to fail around an error of √n, and
    must fail where m/b is small.
    """
    people_count, question_count = (
        exact_integer(people, "people", at_least=10),
        exact_integer(questions, "questions", at_least=1),
    )
    requested_scales: Sequence[Number] = [2.0**power for power in range(-1, 13)] if scales is None else scales
    allowed = POSITIVE.each
    exact_scales = [exact(scale, "scales", allowed) for scale in requested_scales]
    shares: dict[Method, list[float]] = {method: [] for method in Method}
    for scale in exact_scales:
        for method in Method:
            runs = [
                _success_share(people_count, question_count, scale, method)
                for _ in range(exact_integer(tables, "tables", at_least=1))
            ]
            shares[method].append(float(np.mean(runs)))
    ceilings = tuple(guess_ceiling(Guarantee(question_count / scale)) for scale in exact_scales)
    courses = [SuccessCurve(method.value, tuple(shares[method])) for method in Method]
    words = f"{question_count:,} random groups of {people_count:,} people, noise of this scale on each answer."
    plotted_scales = tuple(float(scale) for scale in exact_scales)
    parameter_name = "scale of the noise"
    return Sweep(
        NAME,
        parameter_name,
        plotted_scales,
        (*courses, SuccessCurve(CEILING, ceilings)),
        math.sqrt(people_count),
        "√n",
        (words,),
    )


def information_recovery(people: int = 48, most: int = 1024, epsilon: Number = 1, tables: int = 5) -> Sweep:
    """Return the law of information recovery along the number of questions: the share of bits that least squares
    recover from answers of a fixed small error, and from answers out of one budget, beside its ceiling and the error
    that the budget leaves in each answer, as a share of the people.

    Overly accurate answers to too many questions destroy privacy (Dinur & Nissim 2003; Dwork & Roth 2014, section 1).
    So from one budget the scale of the noise is questions/ε: the error of each answer grows with their number.
    """
    people_count, price = exact_integer(people, "people", at_least=10), exact(epsilon, "epsilon", POSITIVE)
    numbers = [1 << step for step in range(3, exact_integer(most, "most", at_least=8).bit_length())]
    accurate, budgeted, errors = [], [], []
    for questions in numbers:
        scales = Fraction(1, 2), questions / price
        shares = [
            [_success_share(people_count, questions, scale, Method.LEAST_SQUARES) for _ in range(tables)]
            for scale in scales
        ]
        accurate.append(float(np.mean(shares[0])))
        budgeted.append(float(np.mean(shares[1])))
        errors.append(min(1.0, float(scales[1]) / people_count))
    curves = (
        SuccessCurve("noise of scale ½ each", tuple(accurate)),
        SuccessCurve("from one budget", tuple(budgeted)),
        SuccessCurve(CEILING, (guess_ceiling(Guarantee(price)),) * len(numbers)),
        SuccessCurve("error of an answer ÷ people", tuple(errors)),
    )
    words = (
        f"Random groups of {people_count:,} people; the budget is ε = {format_exact(price)} for all questions.",
        "The error of an answer is drawn up to the number of people.",
    )
    return Sweep(RECOVERY, "questions", tuple(map(float, numbers)), curves, float(people_count), "n", words)


def _guess_bits(groups: Groups, answers: Sums, method: Method) -> Values:
    is_answered = ~np.isnan(answers)
    if not is_answered.any():
        return invented_bits(groups.shape[1])
    if not is_answered.all():
        groups, answers = groups[is_answered], answers[is_answered]
    if method is Method.LEAST_SQUARES:
        estimates = least_squares(groups, answers)
    else:
        estimates = least_deviations(groups.astype(np.float64), answers)
    return (estimates > 0.5).astype(np.int64)


def _success_share(people: int, questions: int, scale: Fraction, method: Method) -> float:
    """Return the share of bits recovered from one simulated table with noisy sums."""
    secret = invented_bits(people)
    guesses = reconstruct(NoisyAnswers(secret, questions / scale, questions), questions, method)
    return float((guesses == secret).mean())


def _reconstruction_finding(answerer: Answerer, secret: Values, questions: int, method: Method | str) -> Finding:
    is_correct = reconstruct(answerer, questions, method) == secret
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(NAME, answerer.kind, int(is_correct.sum()), is_correct.size, 0.5, ceiling, questions)
