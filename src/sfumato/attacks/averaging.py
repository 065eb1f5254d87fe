"""Averaging asks the same question again: noise that is drawn anew each time is averaged away.

An account prevents it twice. A question that was asked before is answered as before, which tells nothing new; and who
buys another draw pays for it, so that all draws together promise no more than the budget.
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
from sfumato.attacks.differencing import checked_target, guessed_bits
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, whole

NAME = "averaging"
_WORDS = ("The same question about one person of each town is asked again and again, and the answers are averaged.",)


def average(answerer: Answerer, target: int, times: int) -> Sums:
    """Estimate the value of one person: the mean of as many answers to one question about them alone."""
    place = checked_target(target, answerer.people)
    alone: Groups = np.arange(answerer.people)[None, :] == place
    told = [answerer.sums(alone)[0] for _ in range(whole(times, "times", at_least=1))]
    return np.mean(told, axis=0)


def averaging(times: int = 100, towns: int = 400, epsilon: Number = 1) -> Findings:
    """Guess one person's bit in each of many invented towns by asking again, with and without an account.

    Without one, each answer costs ε and nobody adds up. A real curator, whose account of ε is thrown away, is asked the
    same question for its whole budget, and then again; and another one for a share of it, buying a new draw each time.
    """
    many = whole(times, "times", at_least=2)
    secret = invented_bits(2, whole(towns, "towns", at_least=1))
    listed = [
        _found(ExactAnswers(secret), secret, 1, "asked once"),
        _found(UncountedAnswers(secret, epsilon), secret, 1, "asked once"),
        _found(UncountedAnswers(secret, epsilon), secret, many, f"{many} times"),
    ]
    with private_answers(secret, epsilon, 1, towns=True) as private:
        listed.append(_found(private, secret, many, f"{many} times"))
    with private_answers(secret, epsilon, many, towns=True, fresh=True) as private:
        listed.append(_found(private, secret, many, f"{many} draws bought"))
    return Findings(NAME, tuple(listed), _WORDS)


def averaging_by_times(most: int = 256, towns: int = 2000, epsilon: Number = 1) -> Sweep:
    """Find the share of right guesses after 1, 2, 4, … answers: uncounted, and bought from one budget."""
    whole(most, "most", at_least=1)
    secret = invented_bits(2, whole(towns, "towns", at_least=1))
    at = [1 << step for step in range(most.bit_length())]
    uncounted, bought = [], []
    for times in at:
        uncounted.append(_share(UncountedAnswers(secret, epsilon), secret, times))
        bought.append(_share(NoisyAnswers(secret, epsilon, times, towns=True), secret, times))
    ceiling = guess_ceiling(Guarantee(epsilon))
    courses = (
        SuccessCurve("nobody adds up", tuple(uncounted)),
        SuccessCurve("from one budget", tuple(bought)),
        SuccessCurve(CEILING, (ceiling,) * len(at)),
    )
    return Sweep(NAME, "answers to the same question", tuple(map(float, at)), courses, words=_WORDS)


def _found(answerer: Answerer, secret: Values, times: int, how: str) -> Finding:
    right = guessed_bits(average(answerer, 0, times)) == secret[0]
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(NAME, f"{answerer.kind}, {how}", int(right.sum()), right.size, 0.5, ceiling, times)


def _share(answerer: Answerer, secret: Values, times: int) -> float:
    return float((guessed_bits(average(answerer, 0, times)) == secret[0]).mean())
