"""Averaging attack: repeat one question until fresh noise averages out.

An account prevents it twice. A repeated question returns the stored answer, which reveals nothing new; and another
draw is charged, so all draws together stay within the budget.
"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    Groups,
    NoisyAnswers,
    Sums,
    UncountedAnswers,
    Values,
    invented_bits,
    private_answers,
)
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.differencing import checked_target, round_to_bits
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, exact_integer

NAME = "averaging"
_WORDS = ("The same question about one person of each town is asked again and again, and the answers are averaged.",)


def average(answerer: Answerer, target: int, times: int) -> Sums:
    """Estimate one person's value by the mean of repeated answers to a question about them alone."""
    row_index = checked_target(target, answerer.people)
    alone: Groups = np.arange(answerer.people)[None, :] == row_index
    answers = [answerer.sums(alone)[0] for _ in range(exact_integer(times, "times", at_least=1))]
    return np.mean(answers, axis=0)


def averaging(times: int = 100, towns: int = 400, epsilon: Number = 1) -> Findings:
    """Guess one person's bit in each of many simulated towns by repetition, with and without an account.

    Without one, each answer is ε-DP and nothing is accounted for. A real curator with a temporary account of ε answers
    the same question at its whole budget, and then again from the store; another one sells a fresh draw each time at a
    share of the budget.
    """
    repetitions = exact_integer(times, "times", at_least=2)
    secret = invented_bits(2, exact_integer(towns, "towns", at_least=1))
    results = [
        _averaging_finding(ExactAnswers(secret), secret, 1, "asked once"),
        _averaging_finding(UncountedAnswers(secret, epsilon), secret, 1, "asked once"),
        _averaging_finding(UncountedAnswers(secret, epsilon), secret, repetitions, f"{repetitions} times"),
    ]
    with private_answers(secret, epsilon, 1, towns=True) as private:
        results.append(_averaging_finding(private, secret, repetitions, f"{repetitions} times"))
    with private_answers(secret, epsilon, repetitions, towns=True, fresh=True) as private:
        results.append(_averaging_finding(private, secret, repetitions, f"{repetitions} draws bought"))
    return Findings(NAME, tuple(results), _WORDS)


def averaging_by_times(most: int = 256, towns: int = 2000, epsilon: Number = 1) -> Sweep:
    """Return the share of correct guesses after 1, 2, 4, … answers: without accounting, and from one budget."""
    exact_integer(most, "most", at_least=1)
    secret = invented_bits(2, exact_integer(towns, "towns", at_least=1))
    repetitions = [1 << step for step in range(most.bit_length())]
    uncounted, budgeted = [], []
    for times in repetitions:
        uncounted.append(_success_share(UncountedAnswers(secret, epsilon), secret, times))
        budgeted.append(_success_share(NoisyAnswers(secret, epsilon, times, towns=True), secret, times))
    ceiling = guess_ceiling(Guarantee(epsilon))
    courses = (
        SuccessCurve("nobody adds up", tuple(uncounted)),
        SuccessCurve("from one budget", tuple(budgeted)),
        SuccessCurve(CEILING, (ceiling,) * len(repetitions)),
    )
    return Sweep(NAME, "answers to the same question", tuple(map(float, repetitions)), courses, words=_WORDS)


def _averaging_finding(answerer: Answerer, secret: Values, times: int, how: str) -> Finding:
    is_correct = round_to_bits(average(answerer, 0, times)) == secret[0]
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(NAME, f"{answerer.kind}, {how}", int(is_correct.sum()), is_correct.size, 0.5, ceiling, times)


def _success_share(answerer: Answerer, secret: Values, times: int) -> float:
    return float((round_to_bits(average(answerer, 0, times)) == secret[0]).mean())
