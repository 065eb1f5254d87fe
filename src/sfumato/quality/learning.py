"""A model learns from synthetic rows and is tried on real rows, beside one that learned from other real rows.

It needs scikit-learn, the extra ``quality``. A column is predicted from all others by gradient boosting; the figure is
the area under the ROC curve, the mean over classes of one against all others: 0.5 is guessing, 1 is never wrong.

A logistic model tries to tell synthetic rows from real ones: the better it can, the more they differ (pMSE).

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SfumatoError, installing
from sfumato.quality.paired_columns import PairedColumn

Floats = NDArray[np.float64]

_MAX_PROPENSITY_ROWS = 20_000
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
    rows = [evenly(len(columns[0].codes[table]), _MAX_PROPENSITY_ROWS) for table in (0, 1)]
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


Codes = NDArray[np.int64]

_MAX_LEARNING_ROWS, MOST_CLASSES = 30_000, 20
_TRIED = 3
"""One real row in so many is kept apart, to try both models on."""


@dataclass(frozen=True)
class Learning:
    """This says how well a column is predicted on real rows by what was learned from each table."""

    target: str
    classes: int
    synthetic: float
    """The area when the model learned from synthetic rows,"""
    real: float
    """and when it learned from other real rows."""
    rows: int
    """How many real rows both were tried on."""


def learning(columns: Sequence[PairedColumn], target: str) -> Learning:
    """Try two models on real rows that neither saw: one learned to predict a column from each table."""
    place = _place(columns, target)
    model = _model()
    features = [each for index, each in enumerate(columns) if index != place]
    if not features:
        raise InvalidParameter("target", target, "a column beside others that it is predicted from")
    labels, classes = _classes(columns[place])
    rows = [evenly(len(own), _MAX_LEARNING_ROWS) for own in labels]
    tried = np.arange(len(rows[0])) % _TRIED == 0
    real, held, synthetic = rows[0][~tried], rows[0][tried], rows[1]
    inputs = {0: _inputs(features, 0), 1: _inputs(features, 1)}
    truth = labels[0][held]
    areas = [
        _area(model(), (inputs[table][own], labels[table][own]), (inputs[0][held], truth), classes)
        for table, own in ((1, synthetic), (0, real))
    ]
    return Learning(columns[place].name, classes, areas[0], areas[1], len(held))


def _model() -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise SfumatoError(
            "learning from synthetic rows needs scikit-learn, which is not installed",
            place="target",
            fix=f"{installing('quality')}, or leave the target out",
        ) from None
    return lambda: HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)


def _place(columns: Sequence[PairedColumn], target: str) -> int:
    names = [each.name.lower() for each in columns]
    if not isinstance(target, str) or target.lower() not in names:
        known = ", ".join(each.name for each in columns[:20])
        raise InvalidParameter("target", target, f"a column that both tables have: {known}")
    return names.index(target.lower())


def _classes(column: PairedColumn) -> tuple[tuple[Codes, Codes], int]:
    """Take the cells as classes where they are few, or else whether a number is above the real table's median."""
    if column.numbers is None and column.size > MOST_CLASSES:
        rule = f"a column of at most {MOST_CLASSES} values, or of numbers; {column.name} has more texts"
        raise InvalidParameter("target", column.name, rule)
    if column.numbers is None or len(np.unique(column.numbers[0])) <= min(MOST_CLASSES, column.size):
        return column.codes, column.size
    middle = np.nanmedian(column.numbers[0])
    real, synthetic = ((each > middle).astype(np.int64) for each in column.numbers)
    return (real, synthetic), 2


def _inputs(columns: Sequence[PairedColumn], table: int) -> Floats:
    """Give numbers as they are, and the number of the cell of everything else."""
    return np.stack([each.codes[table] if each.numbers is None else each.numbers[table] for each in columns], axis=1)


def _area(model: Any, learned: tuple[Floats, Codes], tried: tuple[Floats, Codes], classes: int) -> float:
    """Train a model and give its area on other rows; one that saw a single class can only guess."""
    if len(np.unique(learned[1])) < 2:
        return 0.5
    from threadpoolctl import threadpool_limits

    scores = np.zeros((len(tried[1]), classes))
    with threadpool_limits(1):  # so few rows are learned from faster than threads wait for each other
        model.fit(*learned)
        scores[:, model.classes_] = model.predict_proba(tried[0])
    found = [area(scores[:, each], tried[1] == each) for each in range(classes)]
    known = [each for each in found if each is not None]
    return float(np.mean(known)) if known else 0.5


def area(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """Give the area under the ROC curve: the chance that a positive row scores above another, ties counted as half.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    ups, downs = int(positive.sum()), int((~positive).sum())
    if not ups or not downs:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[positive].sum() - ups * (ups + 1) / 2) / (ups * downs))
