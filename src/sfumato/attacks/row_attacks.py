"""Membership and attribute inference from published rows, such as a synthetic table.

A fair coin decides for each of many candidates whether they are in the table; a synthetic table is generated from it
and published. A candidate's score is the mean over all published rows of 10^−(number of differing columns). Copied rows
reveal the people they are copied from; the half of the candidates with the higher scores is guessed to be in the table.
Under replace neighbours the number of people is public, so the coin decides between the candidate and a known
replacement from the same distribution: the score is the difference of both, and candidates above 0 are guessed present.

The same tables show attribute inference (``attacks.attribute``). The last column is the secret: whether somebody has
cancer, which smoking, the first column, makes likelier. It is guessed by a vote of the published rows, weighted by
their closeness in the other columns. A correct guess counts as the guess that the candidate is present.

Theorem (Steinke, Nasr & Jagielski, "Privacy auditing with one training run", 2023, Theorem 5.2). If the release is ε-DP
for adding or removing a unit, the number of correct guesses among r independent coins is stochastically dominated by a
binomial with r trials of probability e^ε/(1 + e^ε), however the guesses depend on each other through the one release.
Releases of other tables that share no candidates add up to one binomial. The proof needs one property of neighbours:
given the release and all other coins, the odds of a coin are at most e^ε. A coin that exchanges two units replaces one,
so it also holds for ε under replace neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.findings import TABLE, Finding, Findings, simulated_policy, temporary_curator
from sfumato.attacks.scores import Scores, TracingResult
from sfumato.curator.kinds.synthesis import Method
from sfumato.mechanisms import bits
from sfumato.policy import Domain, Policy, Type
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

VALUES = 4
"""The number of equally frequent values of each column except the first and last, which are binary."""
CANCER = (1, 3)
"""The probability of cancer in quarters, for non-smokers and smokers."""
_WEIGHT_PER_DIFFERENCE = 0.1
_MEMBERSHIP, _ATTRIBUTE = "membership from rows", "attribute from rows"


@dataclass(frozen=True)
class CandidateRows:
    """Candidates with a value in each column, and whether each is in the table."""

    values: Codes
    inside: NDArray[np.bool_]
    replacements: Codes | None = None
    """The replacement of each absent candidate; None under add-remove."""

    @property
    def table(self) -> Codes:
        """Return the rows of those in the table, sorted so that the order reveals nothing."""
        inside = self.inside
        rows = (
            self.values[inside]
            if self.replacements is None
            else np.where(inside[:, None], self.values, self.replacements)
        )
        return rows[np.lexsort(rows.T)]


def draw_candidates(count: int, columns: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> CandidateRows:
    """Draw candidates with a fair coin each and, under replace neighbours, a replacement for each."""
    candidate_count, column_count = (
        exact_integer(count, "candidates", at_least=2),
        exact_integer(columns, "columns", at_least=3),
    )
    values = _draw_people(candidate_count, column_count)
    instead = _draw_people(candidate_count, column_count) if neighbours is Neighbours.REPLACE else None
    return CandidateRows(values, bits.random_array_below(2, candidate_count).astype(bool), instead)


def _draw_people(people_count: int, column_count: int) -> Codes:
    """Draw people: whether they smoke, how they look, and whether they have cancer."""
    smokes = bits.random_array_below(2, people_count)
    looks = bits.random_array_below(VALUES, people_count * (column_count - 2)).reshape(people_count, column_count - 2)
    cancer = bits.random_array_below(4, people_count) < np.where(smokes == 1, CANCER[1], CANCER[0])
    return np.concatenate([smokes[:, None], looks, cancer[:, None]], axis=1).astype(np.int64)


def resample_rows(table: Codes) -> Codes:
    """Resample the rows of a table with replacement: a synthetic table that copies people."""
    return table[bits.random_array_below(len(table), len(table))] if len(table) else table


def release_synthetic_rows(
    table: Codes, epsilon: Number, method: Method, rows: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Codes:
    """Release a synthetic table by a curator at this ε under these neighbours, and sample rows from it; −1 is NULL."""
    policy = rows_policy(table, epsilon, neighbours)
    with temporary_curator(policy) as curator:
        synthetic_table = curator.synthesize(TABLE, method, 2).release(epsilon=epsilon)
        sample = synthetic_table.sample(rows)
    column_names = policy.tables[TABLE].columns
    return np.stack([sample[name].fill_null(-1).to_numpy() for name in column_names], axis=1).astype(np.int64)


def rows_policy(table: Codes, epsilon: Number, neighbours: Neighbours) -> Policy:
    """Return a policy over these rows whose budget pays for one synthetic table at this ε."""
    columns = {f"a{index}": (table[:, index], _domain(index, table.shape[1])) for index in range(table.shape[1])}
    return simulated_policy(columns, epsilon, neighbours=neighbours)


def _domain(index: int, column_count: int) -> Domain:
    return Domain(Type.INTEGER, values=tuple(range(2 if index in (0, column_count - 1) else VALUES)))


def closeness_weights(published: Codes, candidates: Codes) -> Floats:
    """Return the closeness of each published row (column) to each candidate (row)."""
    differences = np.zeros((len(candidates), len(published)))
    for index in range(candidates.shape[1]):
        differences += candidates[:, index][:, None] != published[:, index][None, :]
    return np.asarray(_WEIGHT_PER_DIFFERENCE**differences)


def scores_and_guesses(rows: Codes, candidates: CandidateRows) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the scores of all candidates and the guesses of who is present.

    Under add-remove, the half with the higher scores is guessed present; under replace, those who are closer to the
    rows than their replacement.
    """
    scores = _mean_closeness(rows, candidates.values)
    if candidates.replacements is not None:
        scores = scores - _mean_closeness(rows, candidates.replacements)
        return scores, scores > 0
    is_guessed = np.zeros(len(scores), bool)
    is_guessed[np.argsort(-scores, kind="stable")[: len(scores) // 2]] = True
    return scores, is_guessed


def _mean_closeness(published: Codes, candidates: Codes) -> Floats:
    return (
        np.asarray(closeness_weights(published, candidates).mean(axis=1))
        if len(published)
        else np.zeros(len(candidates))
    )


def is_secret_guessed(rows: Codes, candidates: CandidateRows) -> NDArray[np.bool_]:
    """Guess the secret of all candidates by a vote of the rows; return which guesses are correct. A tie is not."""
    vote = np.where(rows[:, -1] < 0, 0, 2 * rows[:, -1] - 1)
    vote_sum = closeness_weights(rows[:, :-1], candidates.values[:, :-1]) @ vote.astype(np.float64)
    return np.asarray(np.sign(vote_sum) == 2 * candidates.values[:, -1] - 1)


@dataclass(frozen=True)
class PublishedTable:
    """The candidates of one table, and the rows of each kind of publication."""

    candidates: CandidateRows
    rows: Mapping[str, Codes]


def publish_tables(
    epsilon: Number, runs: int, candidates: int, columns: int, method: Method, neighbours: Neighbours
) -> list[PublishedTable]:
    """Draw tables and publish each in three ways: rows without names, resampled rows, and a private synthetic table."""
    price = exact(epsilon, "epsilon", POSITIVE)
    published = []
    for _ in range(exact_integer(runs, "runs", at_least=1)):
        drawn_candidates = draw_candidates(candidates, columns, neighbours)
        rows_by_kind = {
            "without names": drawn_candidates.table,
            "rows drawn anew": resample_rows(drawn_candidates.table),
        }
        rows_by_kind[f"private, ε = {format_exact(price)}"] = release_synthetic_rows(
            drawn_candidates.table, price, method, candidates, neighbours
        )
        published.append(PublishedTable(drawn_candidates, rows_by_kind))
    return published


def membership_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 5,
    candidates: int = 200,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> TracingResult:
    """Guess which candidates are in a table from published rows: real rows without names, resampled rows, and a
    synthetic table released by a curator at this ε under these neighbours.
    """
    relation = Neighbours.of(neighbours)
    published = publish_tables(epsilon, runs, candidates, columns, method, relation)
    promise = Guarantee(exact(epsilon, "epsilon"))
    results, tests = [], []
    inside = np.concatenate([release.candidates.inside for release in published])
    for kind in published[0].rows:
        traced_runs = [scores_and_guesses(release.rows[kind], release.candidates) for release in published]
        scores, is_guessed = (np.concatenate(arrays) for arrays in zip(*traced_runs, strict=True))
        tests.append((kind, Scores(scores[inside], scores[~inside])))
        results.append(_row_finding(_MEMBERSHIP, kind, int((is_guessed == inside).sum()), len(inside), promise))
    others = ", others in place of the rest" if relation is Neighbours.REPLACE else ""
    words = (
        f"Of {candidates} candidates about half are in each table of {columns} columns{others}, and all are guessed.",
        "Rows without names reveal everybody, and copied rows reveal the people they are copied from.",
    )
    return TracingResult(Findings(_MEMBERSHIP, tuple(results), words), tuple(tests), promise)


def attribute_of_rows(
    epsilon: Number = 1,
    *,
    runs: int = 2,
    candidates: int = 2000,
    columns: int = 8,
    method: Method = "aim",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Findings:
    """Guess the secret of candidates from published rows, for those in the table and for those who are absent or,
    under replace neighbours, replaced.

    The ceiling bounds what was learnt about the person: how well a correct guess predicts their presence.
    """
    published = publish_tables(epsilon, runs, candidates, columns, method, Neighbours.of(neighbours))
    promise = Guarantee(exact(epsilon, "epsilon"))
    inside = np.concatenate([release.candidates.inside for release in published])
    results = []
    for kind in published[0].rows:
        is_correct = np.concatenate(
            [is_secret_guessed(release.rows[kind], release.candidates) for release in published]
        )
        for presence, members in (("without them", ~inside), ("with them", inside)):
            count = int(is_correct[members].sum())
            results.append(Finding(_ATTRIBUTE, f"{kind}, {presence}", count, int(members.sum()), 0.5, None, 1))
        presence_correct = int((is_correct == inside).sum())
        results.append(_row_finding(_ATTRIBUTE, f"{kind}, of the person", presence_correct, len(inside), promise))
    words = (
        "Right guesses without the person's data are about the population: smokers are likelier to have cancer.",
        "About the person: how often a right guess coincides with their being in the table. One half is chance.",
    )
    return Findings(_ATTRIBUTE, tuple(results), words)


def _row_finding(attack: str, kind: str, right: int, trials: int, promise: Guarantee) -> Finding:
    ceiling = guess_ceiling(promise) if kind.startswith("private") else None
    return Finding(attack, kind, right, trials, 0.5, ceiling, 1)
