"""Model-based metrics: train on synthetic and test on real, and the propensity score (pMSE).

Train on synthetic, test on real, compared with training on other real rows. It needs scikit-learn, the extra
``quality``. A column is predicted from all others by gradient boosting; the metric is the area under the ROC curve, one
class against the rest, averaged over classes: 0.5 is guessing, 1 is perfect.

Propensity: a logistic model classifies rows as synthetic or real; the better it can, the more the tables differ.
pMSE = mean of (p̂ − c)², where p̂ is the model's probability that a row is synthetic and c the share of synthetic rows
(Woo, Reiter, Oganian & Karr 2009): 0 where it cannot tell, c(1 − c) where it always can. A model with k parameters
finds some difference by chance. For two independent samples of one population it is (k − 1)c(1 − c)/N: a fitted
probability has variance c(1 − c) times its leverage, and leverages add up to k, the constant's to 1. Rows drawn from a
perfect model of the real table itself have (1 − c) times that (Snoke, Raab, Nowok, Dibben & Slavkovic 2018). ``ratio``
is relative to the first: 1 is as good as another sample of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.extras import install_command
from sfumato.quality.common_columns import CommonColumn
from sfumato.quick_dataclass import dataclass

_MAX_PROPENSITY_ROWS = 20_000
"""The most rows of each table that are used, evenly spaced."""
_MAX_CELLS = 25
"""The most cells of one column; those with the fewest rows are merged."""
_RIDGE, _ROUNDS, _TOLERANCE = 1e-2, 40, 1e-7


@dataclass(frozen=True)
class Propensity:
    """How well a logistic model of the cells of all columns separates the tables."""

    pmse: float
    expected: float
    """The expected pMSE of two samples of one population."""
    parameters: int
    rows: int
    """The number of rows used, of both tables together."""

    @property
    def ratio(self) -> float:
        """pMSE divided by its expectation for two samples: about 1 where the tables are indistinguishable."""
        return self.pmse / self.expected if self.expected else 0.0


def evenly_spaced(count: int, limit: int) -> NDArray[np.int64]:
    """Return at most ``limit`` evenly spaced indices below ``count``.

    >>> evenly_spaced(10, 4).tolist()
    [0, 2, 5, 7]
    """
    return np.arange(count) if count <= limit else np.arange(limit, dtype=np.int64) * count // limit


def propensity(columns: Sequence[CommonColumn]) -> Propensity:
    """Compute the pMSE of a logistic model on the cells of all columns."""
    rows = [evenly_spaced(len(columns[0].codes[table]), _MAX_PROPENSITY_ROWS) for table in (0, 1)]
    labels = np.concatenate([np.zeros(len(rows[0])), np.ones(len(rows[1]))])
    design = np.concatenate([_one_hot(column, rows) for column in columns], axis=1)
    centred = np.concatenate([np.ones((len(labels), 1)), design - design.mean(axis=0)], axis=1)
    share, count = float(labels.mean()), len(labels)
    rank = int(np.linalg.matrix_rank(centred.T @ centred, hermitian=True))
    expected = (rank - 1) * (1 - share) * share / count
    pmse = float(((logistic_probabilities(centred, labels) - share) ** 2).mean())
    return Propensity(pmse, expected, rank, count)


def _one_hot(column: CommonColumn, rows: Sequence[NDArray[np.int64]]) -> Floats:
    """One-hot encode a column, with its most frequent cell as the reference."""
    codes = np.concatenate([column.codes[table][indices] for table, indices in enumerate(rows)])
    order = np.argsort(-np.bincount(codes, minlength=column.size), kind="stable")
    rank = np.empty(column.size, np.int64)
    rank[order] = np.minimum(np.arange(column.size), _MAX_CELLS - 1)
    merged_codes = rank[codes]
    return (merged_codes[:, None] == np.arange(1, merged_codes.max(initial=0) + 1)).astype(np.float64)


def logistic_probabilities(design: Floats, labels: Floats) -> Floats:
    """Return the fitted probabilities of a logistic regression, by Newton's method.

    A small ridge keeps the weights finite for cells that only one of the tables has.
    """
    weights = np.zeros(design.shape[1])
    weights[0] = np.log(labels.mean() / (1 - labels.mean()))
    ridge = np.full(len(weights), _RIDGE)
    ridge[0] = 0.0
    probabilities = _logistic(design @ weights)
    for _ in range(_ROUNDS):
        gradient = design.T @ (labels - probabilities) - ridge * weights
        hessian = design.T @ (design * (probabilities * (1 - probabilities))[:, None]) + np.diag(ridge + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        probabilities = _logistic(design @ weights)
        if np.abs(step).max() < _TOLERANCE:
            break
    return probabilities


def _logistic(values: Floats) -> Floats:
    probabilities: Floats = 0.5 * (1 + np.tanh(0.5 * np.clip(values, -500, 500)))
    return probabilities


Codes = NDArray[np.int64]

_MAX_LEARNING_ROWS, MAX_CLASSES = 30_000, 20
_TEST_EVERY = 3
"""One real row in this many is held out to test both models."""


@dataclass(frozen=True)
class PredictionScores:
    """Prediction of a column on held-out real rows, by models trained on each table."""

    target: str
    classes: int
    synthetic: float
    """AUC of the model trained on synthetic rows."""
    real: float
    """AUC of the model trained on other real rows."""
    rows: int
    """The number of held-out real rows."""


def prediction_scores(columns: Sequence[CommonColumn], target: str) -> PredictionScores:
    """Train a model on each table and test both on held-out real rows."""
    target_index = _column_index(columns, target)
    new_model = _import_model()
    features = [column for index, column in enumerate(columns) if index != target_index]
    if not features:
        raise InvalidParameter(
            "target",
            target,
            "a column that can be predicted from others, but the tables share only one column",
            fix="compare tables that share at least two columns, or leave out target",
        )
    labels, classes = _classes_and_count(columns[target_index])
    rows = [evenly_spaced(len(classes_of_rows), _MAX_LEARNING_ROWS) for classes_of_rows in labels]
    is_test = np.arange(len(rows[0])) % _TEST_EVERY == 0
    real, test, synthetic = rows[0][~is_test], rows[0][is_test], rows[1]
    inputs = {0: _feature_matrix(features, 0), 1: _feature_matrix(features, 1)}
    truth = labels[0][test]
    areas = [
        _train_and_test(
            new_model(), (inputs[table][training], labels[table][training]), (inputs[0][test], truth), classes
        )
        for table, training in ((1, synthetic), (0, real))
    ]
    return PredictionScores(columns[target_index].name, classes, areas[0], areas[1], len(test))


def _import_model() -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise SfumatoError(
            "predicting a target column needs scikit-learn, which is not installed",
            place="target",
            fix=f"{install_command('quality')}, or leave out target",
        ) from None
    return lambda: HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)


def _column_index(columns: Sequence[CommonColumn], target: str) -> int:
    names = [column.name.lower() for column in columns]
    if not isinstance(target, str) or target.lower() not in names:
        available = ", ".join(column.name for column in columns[:20])
        raise InvalidParameter("target", target, f"one of the columns that both tables have: {available}")
    return names.index(target.lower())


def _classes_and_count(column: CommonColumn) -> tuple[tuple[Codes, Codes], int]:
    """Return the classes of both tables: the cells where they are few, otherwise above or not above the real median."""
    if column.numbers is None and column.size > MAX_CLASSES:
        rule = f"a numeric column, or a column with at most {MAX_CLASSES} different values"
        raise InvalidParameter("target", column.name, rule, fix="choose another column, or leave out target")
    if column.numbers is None or len(np.unique(column.numbers[0])) <= min(MAX_CLASSES, column.size):
        return column.codes, column.size
    median = np.nanmedian(column.numbers[0])
    real, synthetic = ((numbers > median).astype(np.int64) for numbers in column.numbers)
    return (real, synthetic), 2


def _feature_matrix(columns: Sequence[CommonColumn], table: int) -> Floats:
    """Return the feature matrix: numbers as they are, cell codes for everything else."""
    return np.stack(
        [column.codes[table] if column.numbers is None else column.numbers[table] for column in columns], axis=1
    )


def _train_and_test(model: Any, training: tuple[Floats, Codes], test: tuple[Floats, Codes], classes: int) -> float:
    """Train a model and return its AUC on the test rows; 0.5 where the training rows have a single class."""
    if len(np.unique(training[1])) < 2:
        return 0.5
    from threadpoolctl import threadpool_limits

    scores = np.zeros((len(test[1]), classes))
    with threadpool_limits(1):  # for so few rows, threads cost more than they gain
        model.fit(*training)
        scores[:, model.classes_] = model.predict_proba(test[0])
    areas = [roc_auc(scores[:, index], test[1] == index) for index in range(classes)]
    defined = [area for area in areas if area is not None]
    return float(np.mean(defined)) if defined else 0.5


def roc_auc(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """Return the area under the ROC curve: the probability that a positive row scores above a negative one, ties
    counted as half. None where one of the classes is empty.

    >>> roc_auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    _, score_index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[score_index]
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
