"""Refusal attack: learn a secret from whether an answer is withheld, and from no answer at all.

A rule that withholds sums below a minimum looks at the sum, so the refusal itself tells about it. An attacker who knows
``least − 1`` people with a 1 asks about them and the target: the sum reaches the minimum if and only if the target's
bit is 1. A curator here refuses by question and policy alone, which are public; whether it answers says nothing, and
what it answers is within its guarantee.
"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.answerers import (
    Answerer,
    Groups,
    Sums,
    SuppressedAnswers,
    Values,
    invented_bits,
    private_answers,
)
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.differencing import checked_target, round_to_bits
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import Number, exact_integer

NAME = "refusals"
_MIN_COUNT = 5


def read_refusal(answerer: Answerer, target: int, accomplices: int) -> Values:
    """Guess one person's bit from a question about them and the first ``accomplices`` others, whose bits are known to
    be 1: 1 if it is answered, 0 if it is withheld.
    """
    return (~np.isnan(_sums_with_accomplices(answerer, target, accomplices))).astype(np.int64)


def _sums_with_accomplices(answerer: Answerer, target: int, accomplices: int) -> Sums:
    row_index = checked_target(target, answerer.people)
    known = exact_integer(accomplices, "accomplices", at_least=1)
    if known >= answerer.people:
        raise InvalidParameter("accomplices", accomplices, f"fewer than the {answerer.people} people")
    group: Groups = np.zeros((1, answerer.people), bool)
    others = [person for person in range(answerer.people) if person != row_index]
    group[0, [row_index, *others[:known]]] = True
    answers: Sums = answerer.sums(group)[0]
    return answers


def refusals(towns: int = 400, epsilon: Number = 1) -> Findings:
    """Guess one person's bit in each of many simulated towns from refusals: by a rule that withholds sums below 5, and
    by a real curator with a temporary account of ε, whose answer is read as well.
    """
    accomplices = _MIN_COUNT - 1
    secret = invented_bits(_MIN_COUNT, exact_integer(towns, "towns", at_least=1))
    secret[1:] = 1  # the attacker's own people
    withheld = SuppressedAnswers(secret, _MIN_COUNT)
    results = [
        _refusal_finding(f"{withheld.kind}: refused or not", read_refusal(withheld, 0, accomplices), secret, None)
    ]
    with private_answers(secret, epsilon, 1, towns=True) as private:
        assert private.promise is not None
        sums = _sums_with_accomplices(private, 0, accomplices)
        ceiling = guess_ceiling(private.promise)
        results.append(
            _refusal_finding(f"{private.kind}: refused or not", (~np.isnan(sums)).astype(np.int64), secret, ceiling)
        )
        results.append(
            _refusal_finding(f"{private.kind}: its answer", round_to_bits(sums - accomplices), secret, ceiling)
        )
    words = "One person and four known smokers are counted, in each town; whether that person smokes is secret."
    return Findings(NAME, tuple(results), (words,))


def _refusal_finding(answers: str, guesses: Values, secret: Values, ceiling: float | None) -> Finding:
    is_correct = guesses == secret[0]
    return Finding(NAME, answers, int(is_correct.sum()), is_correct.size, 0.5, ceiling, 1)
