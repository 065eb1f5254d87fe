"""Tracing finds out who is in a table from a synthetic table that was made of it.

Each of many candidates tosses a coin and is in the table or is not; a synthetic table is made of it and published. A
candidate's score is how close its rows are to them: the mean over all rows of 10 to the power of −(columns that
differ). Copies of real rows give away whoever they are copied from, and half of the candidates, those with the higher
scores, are guessed to be in the table.

Theorem (Steinke, Nasr & Jagielski, "Privacy auditing with one training run", 2023, Theorem 5.2). If the release is ε-DP
for adding or removing a unit, the number of right guesses among r, each of a coin of its own, is stochastically at most
binomial with r trials of chance e^ε/(1 + e^ε), however they depend on each other through the one release. Releases of
other tables that share no candidates add up to one binomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.scores import Scores
from sfumato.attacks.side_by_side import TABLE, invented, thrown_away
from sfumato.mechanisms import bits
from sfumato.mechanisms.confidence_limits import at_least, upper_tail
from sfumato.policy import Domain
from sfumato.privacy.numbers import Number, exact, whole

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

VALUES = 4
"""Values of each column, all as frequent."""
_FAR = 0.1


@dataclass(frozen=True)
class Candidates:
    """Candidates have a value in each column, and each is in the table or is not."""

    values: Codes
    inside: NDArray[np.bool_]

    @property
    def table(self) -> Codes:
        """Give the rows of those who are in the table, in an order that says nothing."""
        own = self.values[self.inside]
        return own[np.lexsort(own.T)]


def draw_candidates(count: int, columns: int) -> Candidates:
    """Draw so many candidates, and a coin for each."""
    many, wide = whole(count, "candidates", at_least=2), whole(columns, "columns", at_least=1)
    values = bits.all_below(VALUES, many * wide).reshape(many, wide)
    return Candidates(values, bits.all_below(2, many).astype(bool))


def resampled(table: Codes) -> Codes:
    """Draw rows of a table anew, with replacement: a synthetic table that copies people."""
    return table[bits.all_below(len(table), len(table))] if len(table) else table


def synthesized(table: Codes, epsilon: Number, method: str, rows: int) -> Codes:
    """Buy a synthetic table of a curator at this price, and draw so many rows of it; −1 is a missing value."""
    domain = Domain("integer", values=tuple(range(VALUES)))
    columns = {f"a{place}": (table[:, place], domain) for place in range(table.shape[1])}
    with thrown_away(invented(columns, epsilon)) as curator:
        bought = curator.synthesize(TABLE, method, 2).release(epsilon=epsilon)
        drawn = bought.sample(rows)
    return np.stack([drawn[name].fill_null(-1).to_numpy() for name in columns], axis=1).astype(np.int64)


def closeness(rows: Codes, values: Codes) -> Floats:
    """Score how close published rows are to each candidate."""
    differ = sum(
        (rows[:, place][None, :] != values[:, place][:, None]).astype(np.int64) for place in range(values.shape[1])
    )
    return np.asarray(_FAR ** np.asarray(differ, np.float64)).mean(axis=1)


def guess(scores: Floats, inside: NDArray[np.bool_]) -> Guessed:
    """Guess that the half with the higher scores is in the table, and count who is guessed rightly."""
    order = np.argsort(-scores, kind="stable")
    guessed = np.zeros(len(scores), bool)
    guessed[order[: len(scores) // 2]] = True
    return Guessed(len(scores), int((guessed == inside).sum()))


def scores_of(scores: Floats, inside: NDArray[np.bool_]) -> Scores:
    """Tell the scores of those who are in the table from the others', for a picture."""
    return Scores(scores[inside], scores[~inside])
