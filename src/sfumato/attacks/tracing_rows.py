"""Tracing finds out who is in a table from a synthetic table that was made of it.

Each of many candidates tosses a coin and is in the table or is not; a synthetic table is made of it and published. A
candidate's score is how close its rows are to them: the mean over all rows of 10 to the power of −(columns that
differ). Copies of real rows give away whoever they are copied from, and half of the candidates, those with the higher
scores, are guessed to be in the table. Under replace neighbours a table says how many people it has, so the coin
decides between the candidate and somebody else, drawn alike, who is known as well: the score is the difference of both,
and who has one above 0 is guessed to be there.

The same tables show attribute inference (``attacks.attribute``). The last column is the secret: whether somebody has
cancer, which smoking, the first column, makes likelier. It is guessed for every candidate by a vote of the rows, each
with the weight of its closeness in the other columns. A right guess counts as the guess that the coin let them in.

Theorem (Steinke, Nasr & Jagielski, "Privacy auditing with one training run", 2023, Theorem 5.2). If the release is ε-DP
for adding or removing a unit, the number of right guesses among r, each of a coin of its own, is stochastically at most
binomial with r trials of chance e^ε/(1 + e^ε), however they depend on each other through the one release. Releases of
other tables that share no candidates add up to one binomial. The proof needs one thing of neighbours: given the release
and all other coins, the odds of a coin are at most e^ε. A coin that exchanges two units replaces one, so it holds for ε
under replace neighbours, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import TABLE, Finding, Findings, invented, thrown_away
from sfumato.attacks.scores import Scores, Traced
from sfumato.curator.kinds.synthesis import Method
from sfumato.mechanisms import bits
from sfumato.policy import Domain, Policy, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text, whole

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

VALUES = 4
"""Values of each column but the first and the last, which are yes or no; all are as frequent."""
CANCER = (1, 3)
"""In quarters, the chance of cancer of those who do not smoke, and of those who do."""
_FAR = 0.1
_MEMBERSHIP, _ATTRIBUTE = "membership from rows", "attribute from rows"


@dataclass(frozen=True)
class CandidateRows:
    """Candidates have a value in each column, and each is in the table or is not."""

    values: Codes
    inside: NDArray[np.bool_]
    instead: Codes | None = None
    """The values of whoever is in the table in the place of each candidate that is not; None where nobody is."""

    @property
    def table(self) -> Codes:
        """Give the rows of those who are in the table, in an order that says nothing."""
        inside = self.inside
        own = self.values[inside] if self.instead is None else np.where(inside[:, None], self.values, self.instead)
        return own[np.lexsort(own.T)]


def draw_candidates(count: int, columns: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> CandidateRows:
    """Draw so many candidates, and a coin for each; and somebody to be in the place of each, where neighbours differ in
    one unit that is replaced.
    """
    many, wide = whole(count, "candidates", at_least=2), whole(columns, "columns", at_least=3)
    values = _people(many, wide)
    instead = _people(many, wide) if neighbours is Neighbours.REPLACE else None
    return CandidateRows(values, bits.all_below(2, many).astype(bool), instead)


def _people(many: int, wide: int) -> Codes:
    """Draw so many people: whether they smoke, how they look, and whether they have cancer."""
    smokes = bits.all_below(2, many)
    looks = bits.all_below(VALUES, many * (wide - 2)).reshape(many, wide - 2)
    cancer = bits.all_below(4, many) < np.where(smokes == 1, CANCER[1], CANCER[0])
    return np.concatenate([smokes[:, None], looks, cancer[:, None]], axis=1).astype(np.int64)


def resampled(table: Codes) -> Codes:
    """Draw rows of a table anew, with replacement: a synthetic table that copies people."""
    return table[bits.all_below(len(table), len(table))] if len(table) else table


def synthesized(
    table: Codes, epsilon: Number, method: Method, rows: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Codes:
    """Buy a synthetic table of a curator at this price, which is for these neighbours, and draw so many rows of it; −1
    is a missing value.
    """
    policy = rows_policy(table, epsilon, neighbours)
    with thrown_away(policy) as curator:
        bought = curator.synthesize(TABLE, method, 2).release(epsilon=epsilon)
        drawn = bought.sample(rows)
    names = policy.tables[TABLE].columns
    return np.stack([drawn[name].fill_null(-1).to_numpy() for name in names], axis=1).astype(np.int64)


def rows_policy(table: Codes, epsilon: Number, neighbours: Neighbours) -> Policy:
    """Declare a table of these rows, and a budget of one synthetic table at this price for these neighbours."""
    columns = {f"a{place}": (table[:, place], _domain(place, table.shape[1])) for place in range(table.shape[1])}
    return invented(columns, epsilon, neighbours=neighbours)


def _domain(place: int, wide: int) -> Domain:
    return Domain(Type.INTEGER, values=tuple(range(2 if place in (0, wide - 1) else VALUES)))


def weights(rows: Codes, values: Codes) -> Floats:
    """Weigh how close each published row is to each candidate: a row of weights for each of them."""
    differ = np.zeros((len(values), len(rows)))
    for place in range(values.shape[1]):
        differ += values[:, place][:, None] != rows[:, place][None, :]
    return np.asarray(_FAR**differ)


def trace_rows(rows: Codes, candidates: CandidateRows) -> tuple[Floats, NDArray[np.bool_]]:
    """Find the scores of all candidates, and guess that the half with the higher scores is in the table; where others
    are in the place of those who are not, that all are who are closer to the rows than these.
    """
    scores = _closeness(rows, candidates.values)
    if candidates.instead is not None:
        scores = scores - _closeness(rows, candidates.instead)
        return scores, scores > 0
    guessed = np.zeros(len(scores), bool)
    guessed[np.argsort(-scores, kind="stable")[: len(scores) // 2]] = True
    return scores, guessed


def _closeness(rows: Codes, values: Codes) -> Floats:
    return np.asarray(weights(rows, values).mean(axis=1)) if len(rows) else np.zeros(len(values))


def infer(rows: Codes, candidates: CandidateRows) -> NDArray[np.bool_]:
    """Guess the secret of all candidates by a vote of the rows, and tell which guesses are right; a tie is none."""
    vote = np.where(rows[:, -1] < 0, 0, 2 * rows[:, -1] - 1)
    lean = weights(rows[:, :-1], candidates.values[:, :-1]) @ vote.astype(np.float64)
    return np.asarray(np.sign(lean) == 2 * candidates.values[:, -1] - 1)


@dataclass(frozen=True)
class Release:
    """A release is one table's candidates, and the rows that each kind of publication made of it."""

    candidates: CandidateRows
    rows: Mapping[str, Codes]


def releases(
    epsilon: Number, runs: int, candidates: int, columns: int, method: Method, neighbours: Neighbours
) -> list[Release]:
    """Draw so many tables, and publish each: its rows without names, rows drawn of it anew, and a synthetic table that
    is bought at this price.
    """
    price = exact(epsilon, "epsilon", POSITIVE)
    found = []
    for _ in range(whole(runs, "runs", at_least=1)):
        own = draw_candidates(candidates, columns, neighbours)
        kinds = {"without names": own.table, "rows drawn anew": resampled(own.table)}
        kinds[f"private, ε = {text(price)}"] = synthesized(own.table, price, method, candidates, neighbours)
        found.append(Release(own, kinds))
    return found


def membership_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 5,
    candidates: int = 200,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Traced:
    """Guess which candidates are in a table from published rows: real ones without names, copies, and synthetic ones of
    a curator, at a price that is for these neighbours.
    """
    relation = Neighbours.of(neighbours)
    found = releases(epsilon, runs, candidates, columns, method, relation)
    promise = Guarantee(exact(epsilon, "epsilon"))
    listed, tests = [], []
    inside = np.concatenate([each.candidates.inside for each in found])
    for kind in found[0].rows:
        traced = [trace_rows(each.rows[kind], each.candidates) for each in found]
        scores, guessed = (np.concatenate(part) for part in zip(*traced, strict=True))
        tests.append((kind, Scores(scores[inside], scores[~inside])))
        listed.append(_finding(_MEMBERSHIP, kind, int((guessed == inside).sum()), len(inside), promise))
    others = ", others in place of the rest" if relation is Neighbours.REPLACE else ""
    words = (
        f"Of {candidates} candidates about half are in each table of {columns} columns{others}, and all are guessed.",
        "Rows without names give away everybody, and rows that are copied give away whoever they are copied from.",
    )
    return Traced(Findings(_MEMBERSHIP, tuple(listed), words), tuple(tests), promise)


def attribute_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 2,
    candidates: int = 2000,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Findings:
    """Guess the secret of candidates from published rows, of those who are in the table and of those who are not, or
    have somebody else in their place under replace neighbours.

    The ceiling is for what was learnt about the person: how often a right guess tells that they are there.
    """
    found = releases(epsilon, runs, candidates, columns, method, Neighbours.of(neighbours))
    promise = Guarantee(exact(epsilon, "epsilon"))
    inside = np.concatenate([each.candidates.inside for each in found])
    listed = []
    for kind in found[0].rows:
        right = np.concatenate([infer(each.rows[kind], each.candidates) for each in found])
        for who, those in (("without them", ~inside), ("with them", inside)):
            count = int(right[those].sum())
            listed.append(Finding(_ATTRIBUTE, f"{kind}, {who}", count, int(those.sum()), 0.5, None, 1))
        told = int((right == inside).sum())
        listed.append(_finding(_ATTRIBUTE, f"{kind}, of the person", told, len(inside), promise))
    words = (
        "Right guesses without somebody are about the population: who smokes is likelier to have cancer.",
        "Of the person: how often a right guess tells that they are in the table. Half is nothing.",
    )
    return Findings(_ATTRIBUTE, tuple(listed), words)


def _finding(attack: str, kind: str, right: int, trials: int, promise: Guarantee) -> Finding:
    ceiling = guess_ceiling(promise) if kind.startswith("private") else None
    return Finding(attack, kind, right, trials, 0.5, ceiling, 1)
