"""A model learns from synthetic rows and is tried on real rows, beside one that learned from other real rows.

It needs scikit-learn, the extra ``quality``. A column is predicted from all others by gradient boosting; the figure is
the area under the ROC curve, the mean over classes of one against all others: 0.5 is guessing, 1 is never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SfumatoError, installing
from sfumato.quality.paired_columns import PairedColumn
from sfumato.quality.propensity import evenly

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MOST_ROWS, MOST_CLASSES = 30_000, 20
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
    rows = [evenly(len(own), MOST_ROWS) for own in labels]
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
