"""A logistic model tries to tell synthetic rows from real ones: the better it can, the more they differ (pMSE).

pMSE = mean of (p̂ − c)², where p̂ is the probability that the model gives a row to be synthetic and c the share of
synthetic rows (Woo, Reiter, Oganian & Karr 2009): 0 where it cannot tell, c(1 − c) where it always can. A model with k
parameters finds some difference by chance. Of two independent samples of one population it finds (k − 1)c(1 − c)/N: a
fitted probability has variance c(1 − c) times its leverage, and leverages add up to k, the constant's to 1. Rows drawn
from a perfect model of the real table itself have (1 − c) times that (Snoke, Raab, Nowok, Dibben & Slavkovic 2018).
``ratio`` is to the first: 1 is as good as another sample of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.quality.paired_columns import PairedColumn

Floats = NDArray[np.float64]

MOST_ROWS = 20_000
"""Of each table, spread evenly over it."""
_MOST_CELLS = 25
"""Of one column; those with the fewest rows are joined."""
_RIDGE, _ROUNDS, _NEAR = 1e-2, 40, 1e-7


@dataclass(frozen=True)
class Propensity:
    """This says how well a logistic model of the cells of all columns tells the tables apart."""

    pmse: float
    expected: float
    """What two samples of one population would have."""
    parameters: int
    rows: int
    """How many rows were looked at, of both tables together."""

    @property
    def ratio(self) -> float:
        """Give pMSE over what is expected by chance: about 1 where the tables cannot be told apart."""
        return self.pmse / self.expected if self.expected else 0.0


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """List at most so many places that are spread evenly over ``count``.

    >>> evenly(10, 4).tolist()
    [0, 2, 5, 7]
    """
    return np.arange(count) if count <= most else np.arange(most, dtype=np.int64) * count // most


def propensity(columns: Sequence[PairedColumn]) -> Propensity:
    """Measure how far the probabilities of the model are from the share of synthetic rows."""
    rows = [evenly(len(columns[0].codes[table]), MOST_ROWS) for table in (0, 1)]
    labels = np.concatenate([np.zeros(len(rows[0])), np.ones(len(rows[1]))])
    design = np.concatenate([_design(each, rows) for each in columns], axis=1)
    centred = np.concatenate([np.ones((len(labels), 1)), design - design.mean(axis=0)], axis=1)
    share, count = float(labels.mean()), len(labels)
    rank = int(np.linalg.matrix_rank(centred.T @ centred, hermitian=True))
    expected = (rank - 1) * (1 - share) * share / count
    found = float(((fitted(centred, labels) - share) ** 2).mean())
    return Propensity(found, expected, rank, count)


def _design(column: PairedColumn, rows: Sequence[NDArray[np.int64]]) -> Floats:
    """Give a column of ones and zeros for each cell that has rows, but the one that has most."""
    codes = np.concatenate([column.codes[table][own] for table, own in enumerate(rows)])
    order = np.argsort(-np.bincount(codes, minlength=column.size), kind="stable")
    rank = np.empty(column.size, np.int64)
    rank[order] = np.minimum(np.arange(column.size), _MOST_CELLS - 1)
    places = rank[codes]
    return (places[:, None] == np.arange(1, places.max(initial=0) + 1)).astype(np.float64)


def fitted(design: Floats, labels: Floats) -> Floats:
    """Give the probabilities of a logistic model, found by Newton's method with a little ridge, so that cells which
    only one of the tables has leave it finite.
    """
    weights = np.zeros(design.shape[1])
    weights[0] = np.log(labels.mean() / (1 - labels.mean()))
    ridge = np.full(len(weights), _RIDGE)
    ridge[0] = 0.0
    found = _logistic(design @ weights)
    for _ in range(_ROUNDS):
        slopes = design.T @ (labels - found) - ridge * weights
        curves = design.T @ (design * (found * (1 - found))[:, None]) + np.diag(ridge + 1e-12)
        step = np.linalg.solve(curves, slopes)
        weights += step
        found = _logistic(design @ weights)
        if np.abs(step).max() < _NEAR:
            break
    return found


def _logistic(values: Floats) -> Floats:
    found: Floats = 0.5 * (1 + np.tanh(0.5 * np.clip(values, -500, 500)))
    return found
