"""Differencing takes one harmless total from another: that of everybody but one person from that of everybody.

The difference is that person's value. Rounding hides it in one pair of totals, not in many pairs over different
groups: rounding up or down is as likely as not, and a mean of differences forgets it. Withholding small totals hides
nothing at all, since both totals are large; nor does it in a published table, where a withheld cell is what its street
has more than the other cells. Whoever refuses pairs of questions that are nearly alike is asked many that are not: put
together they leave one person alone (``spreading``).
"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.answerers import (
    Answerer,
    ComparedAnswers,
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
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.spreading import isolate, spread_groups, table_groups
from sfumato.attacks.sweeps import CEILING, Course, Sweep
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, exact, text, whole

NAME = "differencing"
_WORDS = (
    "Bob is one of the people of each town, and whether he smokes is secret. How many smoke in all, less how many "
    "smoke of all but Bob, is his answer.",
    "Spread: random groups of which no two differ by fewer than 5 people, put together so that all but Bob cancel.",
    "From a table: Bob is alone in a cell, which is withheld; the totals of streets and of ages are told.",
)
_STREETS, _BANDS, _CELL = 3, 3, 20
_MORE = 10
"""Questions more than people, so that the groups surely leave one person alone."""


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
    one pair, of ``bought_pairs``, of many questions none of which is nearly another, and of a table.
    """
    size = whole(people, "people", at_least=20)
    secret = invented_bits(size, whole(towns, "towns", at_least=1))
    spread, table = spread_groups(size + _MORE, size), table_groups(_STREETS, _BANDS, _CELL)
    housed = invented_bits(table.shape[1], towns)
    rounded, withheld = RoundedAnswers(secret), SuppressedAnswers(secret)
    listed = [
        _found(ExactAnswers(secret), secret, 1),
        _found(rounded, secret, 1),
        _found(rounded, secret, pairs),
        _found(ComparedAnswers(secret), secret, 1),
        _put_together(ComparedAnswers(secret), secret, spread, "spread"),
        _alone(withheld, secret),
        _found(withheld, secret, 1),
        _put_together(SuppressedAnswers(housed), housed, table, "from a table"),
    ]
    for many in (1, whole(bought_pairs, "bought_pairs", at_least=2)):
        with private_answers(secret, epsilon, 2 * many, towns=True) as private:
            listed.append(_found(private, secret, many))
    for values, groups, how in ((secret, spread, "spread"), (housed, table, "from a table")):
        with private_answers(values, epsilon, len(groups), towns=True) as private:
            listed.append(_put_together(private, values, groups, how))
    return Findings(NAME, tuple(listed), _WORDS)


def differencing_by_questions(people: int = 50, towns: int = 1000, epsilon: Number = 1) -> Sweep:
    """Find the share of right guesses from ever more questions of which no two are nearly alike: little before there
    are as many as people, and then everything, unless all of them are paid for from one budget.
    """
    size, price = whole(people, "people", at_least=20), exact(epsilon, "epsilon")
    secret = invented_bits(size, whole(towns, "towns", at_least=1))
    at = [max(1, round(size * share)) for share in (0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.2, 1.6, 2.4, 4, 8)]
    shares, whole_list = [], spread_groups(at[-1], size)
    for many in at:
        groups = whole_list[:many]
        asked: list[Answerer] = [ComparedAnswers(secret), RoundedAnswers(secret)]
        asked.append(NoisyAnswers(secret, price, many, towns=True))
        shares.append([_put_together(each, secret, groups, "").success for each in asked])
    names = "near pairs withheld", "rounded to 5s", f"private, ε = {text(price)}"
    courses = [Course(name, own) for name, own in zip(names, zip(*shares, strict=True), strict=True)]
    ceiling = Course(CEILING, (guess_ceiling(Guarantee(price)),) * len(at))
    words = (_WORDS[1],)
    return Sweep(NAME, "questions", tuple(map(float, at)), (*courses, ceiling), float(size), "as many as people", words)


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


def _put_together(answerer: Answerer, secret: Values, groups: Groups, how: str) -> Finding:
    """Combine totals so that all but the first person cancel, and guess that person's bit in every town."""
    right = guessed_bits(isolate(answerer, groups, 0)) == secret[0]
    promise = answerer.promise
    ceiling = None if promise is None else guess_ceiling(promise)
    return Finding(NAME, f"{answerer.kind}, {how}", int(right.sum()), right.size, 0.5, ceiling, len(groups))


def _alone(answerer: SuppressedAnswers, secret: Values) -> Finding:
    """Ask about the person alone, which the rule of small cells is made to refuse."""
    alone: Groups = np.arange(answerer.people)[None, :] == 0
    right = guessed_bits(answerer.sums(alone)[0]) == secret[0]
    return Finding(NAME, f"{answerer.kind}, asked directly", int(right.sum()), right.size, 0.5, None, 1)
