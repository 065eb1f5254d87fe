"""Differencing takes one harmless total from another: that of everybody but one person from that of everybody.

The difference is that person's value. Rounding hides it in one pair of totals, not in many pairs over different
groups: rounding up or down is as likely as not, and a mean of differences forgets it. Withholding small totals hides
nothing at all, since both totals are large.
"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    Groups,
    RoundedAnswers,
    Sums,
    SuppressedAnswers,
    Values,
    invented_bits,
    private_answers,
    random_groups,
)
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy.numbers import Number, whole

NAME = "differencing"
_WORDS = (
    "Bob is one of the people of each town, and whether he smokes is secret. How many smoke in all, less how many "
    "smoke of all but Bob, is his answer.",
)


def difference(answerer: Answerer, target: int, pairs: int = 1) -> Sums:
    """Estimate the value of one person: the mean difference between groups with them and the same groups without.

    One pair is everybody, and everybody else. Of several pairs each is about another random group, so that no two
    questions are alike. Pairs of which a total is withheld are left out; where all are, the estimate is not a number.
    """
    people = answerer.people
    place, many = checked_target(target, people), whole(pairs, "pairs", at_least=1)
    without = np.ones((1, people), bool) if many == 1 else random_groups(many, people)
    without[:, place] = False
    with_target = without.copy()
    with_target[:, place] = True
    told = answerer.sums(np.concatenate([with_target, without]))
    return mean_of_told(told[:many] - told[many:])


def differencing(
    people: int = 50, towns: int = 400, pairs: int = 100, epsilon: Number = 1, *, bought_pairs: int = 20
) -> Findings:
    """Guess one person's bit in each of many invented towns by differencing, on every kind of answers.

    A real curator, whose account is thrown away, answers for all towns at once and is paid ε for all its answers: of
    one pair, and of ``bought_pairs``.
    """
    size = whole(people, "people", at_least=20)
    secret = invented_bits(size, whole(towns, "towns", at_least=1))
    exact, rounded, withheld = ExactAnswers(secret), RoundedAnswers(secret), SuppressedAnswers(secret)
    listed = [
        _found(exact, secret, 1),
        _found(rounded, secret, 1),
        _found(rounded, secret, pairs),
        _alone(withheld, secret),
        _found(withheld, secret, 1),
    ]
    for many in (1, whole(bought_pairs, "bought_pairs", at_least=2)):
        with private_answers(secret, epsilon, 2 * many, towns=True) as private:
            listed.append(_found(private, secret, many))
    return Findings(NAME, tuple(listed), _WORDS)


def checked_target(target: int, people: int) -> int:
    """Take the place of one person in the table, from 0 on."""
    place = whole(target, "target")
    if place >= people:
        raise InvalidParameter("target", target, f"below {people}, the number of people")
    return place


def mean_of_told(told: Sums) -> Sums:
    """Compute the mean of what was not withheld, for every town; not a number where nothing was told."""
    known = ~np.isnan(told)
    count = known.sum(axis=0)
    total = np.where(known, told, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def guessed_bits(estimates: Sums) -> Values:
    """Guess a bit from an estimate of it; a coin decides where there is none."""
    coins = bits.all_below(2, estimates.size).reshape(estimates.shape)
    return np.where(np.isnan(estimates), coins, (estimates > 0.5).astype(np.int64))


def _found(answerer: Answerer, secret: Values, pairs: int) -> Finding:
    right = guessed_bits(difference(answerer, 0, pairs)) == secret[0]
    how = "one pair" if pairs == 1 else f"{pairs} pairs"
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    kind = f"{answerer.kind}, {how}"
    return Finding(NAME, kind, int(right.sum()), right.size, 0.5, ceiling, 2 * pairs)


def _alone(answerer: SuppressedAnswers, secret: Values) -> Finding:
    """Ask about the person alone, which the rule of small cells is made to refuse."""
    alone: Groups = np.arange(answerer.people)[None, :] == 0
    right = guessed_bits(answerer.sums(alone)[0]) == secret[0]
    return Finding(NAME, f"{answerer.kind}, asked directly", int(right.sum()), right.size, 0.5, None, 1)
