"""Differencing takes one harmless total from another: that of everybody but one person from that of everybody.

The difference is that person's value. Rounding hides it in one pair of totals, not in many pairs over different
groups: rounding up or down is as likely as not, and a mean of differences forgets it. Withholding small totals hides
nothing at all, since both totals are large; nor does it in a published table, where a withheld cell is what its street
has more than the other cells. Whoever refuses pairs of questions that are nearly alike is asked many that are not: put
together they leave one person alone (``spreading``).

A difference is spread over many questions, or over the totals of a published table, and put together again.

No two of these questions differ by one person alone, so that nobody who compares questions finds the pair. But totals
are linear in the values of the people: wherever some combination of groups leaves one person alone, the same
combination of their totals is that person's value. Weights w with wᵀG = e, the unit vector of the person, are found by
linear algebra from the groups G, which are public; where there are many, the shortest carry least of what rounding and
noise have added (Gauss–Markov). Totals that are withheld are left out, and the others put together without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from sfumato.attacks.findings import CEILING, Finding, Findings, SuccessCurve, Sweep
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, exact, text, whole

APART = 5
"""How many people two questions differ by at least."""


def spread_groups(questions: int, people: int) -> Groups:
    """Draw random groups, of which any two differ by five people or more; and so does each from nobody."""
    many, wide = whole(questions, "questions", at_least=1), whole(people, "people", at_least=1)
    kept = np.zeros((1, wide), bool)  # nobody, who is asked about in no question
    while len(kept) <= many:
        before = len(kept)
        for group in random_groups(many + 1 - before, wide):
            if (kept ^ group).sum(axis=1).min() >= APART:
                kept = np.concatenate([kept, group[None, :]])
        if len(kept) == before:
            raise InvalidParameter("questions", questions, f"so few that groups of {wide} people are not alike")
    return kept[1:]


@dataclass(frozen=True)
class CrossTable:
    """A cross table adds up values by rows and columns, and tells the totals of both."""

    rows: Values
    """The row of each person, from 0 on."""
    columns: Values
    """The column of each person."""

    @property
    def shape(self) -> tuple[int, int]:
        """Say how many rows and columns there are."""
        return int(self.rows.max()) + 1, int(self.columns.max()) + 1

    def groups(self) -> Groups:
        """Say who is in every cell, row by row, in every row, in every column, and in all of it."""
        high, wide = self.shape
        listed = [
            np.arange(high * wide)[:, None] == self.rows * wide + self.columns,
            np.arange(high)[:, None] == self.rows,
            np.arange(wide)[:, None] == self.columns,
            np.ones((1, len(self.rows)), bool),
        ]
        return np.concatenate(listed)


def laid_out(streets: int, bands: int, size: int) -> CrossTable:
    """Put people into a table of streets by bands of age. The first person is alone in the first cell, and every
    other cell has ``size`` people.
    """
    high, wide = whole(streets, "streets", at_least=2), whole(bands, "bands", at_least=2)
    cell = np.concatenate([[0], np.repeat(np.arange(1, high * wide), whole(size, "size", at_least=1))])
    return CrossTable(*np.divmod(cell, wide))


def table_groups(streets: int, bands: int, size: int) -> Groups:
    """Give the totals of such a table: of every cell, every street, every band, and everybody."""
    return laid_out(streets, bands, size).groups()


def isolate(answerer: Answerer, groups: Groups, target: int) -> Sums:
    """Estimate the bit of one person from the totals of these groups, by weights under which all others cancel.

    Where no weights do, as when too few totals were told, it is the best linear guess for people of whom half have the
    bit; where nothing was told, it is not a number.
    """
    return put_together(answerer.sums(groups), groups, target)


def put_together(told: Sums, groups: Groups, target: int) -> Sums:
    """Estimate it from totals that were told already; those that were withheld are not numbers."""
    columns = told.reshape(len(told), -1)
    found = np.full(columns.shape[1], np.nan)
    patterns, which = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for number, known in enumerate(patterns.T):
        if not known.any():
            continue
        towns = which.ravel() == number
        used = groups[known]
        beyond_half = columns[known][:, towns] - used.sum(axis=1, keepdims=True) / 2
        found[towns] = 0.5 + _weights(used, target) @ beyond_half
    return found.reshape(told.shape[1:])


def _weights(groups: Groups, target: int) -> NDArray[np.float64]:
    """Find the shortest weights whose combination of groups is closest to one person alone."""
    alone = np.arange(groups.shape[1]) == target
    return np.linalg.lstsq(groups.T.astype(np.float64), alone.astype(np.float64), rcond=None)[0]


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
    courses = [SuccessCurve(name, own) for name, own in zip(names, zip(*shares, strict=True), strict=True)]
    ceiling = SuccessCurve(CEILING, (guess_ceiling(Guarantee(price)),) * len(at))
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
