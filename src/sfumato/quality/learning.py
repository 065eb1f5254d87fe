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

Columns of two tables as numbers and cells, by values and quantiles of the real table. PRIVATE.

A column of few values has a cell for each; numbers and times of many values are binned at quantiles of the real table;
of many texts the most frequent have their own cells, and the others share one. Values that only the synthetic table
has, and NULLs, have cells of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.engine.inspecting import PairedTables
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.extras import install_command
from sfumato.policy import Type
from sfumato.privacy.numbers import format_number
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int64]
MAX_TEXTS = 100
"""The most texts of a column with cells of their own."""
MISSING, UNKNOWN, OTHERS = "missing", "not in the real table", "other values"


@dataclass(frozen=True, eq=False)
class CommonColumn:
    """A column of both tables: the cell of each row, and for numbers and times the number itself."""

    name: str
    kind: Type
    labels: tuple[str, ...]
    """Labels of the cells, in order."""
    codes: tuple[Codes, Codes]
    """Cell codes of the rows of the real table, and of the synthetic one."""
    numbers: tuple[Floats, Floats] | None = None
    """NaN for NULL; None for texts and Booleans."""

    @property
    def size(self) -> int:
        return len(self.labels)

    def counts(self, table: int) -> Codes:
        """Count the rows of each cell in the real table (0) or the synthetic one (1)."""
        return np.bincount(self.codes[table], minlength=self.size)


def common_columns(tables: PairedTables, bins: int) -> tuple[CommonColumn, ...]:
    """Return the numbers and cells of every column that both tables have."""
    columns = []
    for index, (name, kind) in enumerate(tables.kinds.items()):
        real, synthetic = (table.column(index) for table in tables.tables)
        if kind in (Type.TEXT, Type.BOOLEAN):
            columns.append(_common_text_column(name, kind, real, synthetic))
        else:
            columns.append(
                _common_number_column(name, kind, (_as_doubles(real, kind), _as_doubles(synthetic, kind)), bins)
            )
    return tuple(columns)


def _as_doubles(column: pyarrow.ChunkedArray, sql_type: Type) -> Floats:
    """Convert to doubles: dates as days and times as microseconds since 1970; NaN for NULL."""
    import pyarrow as pa

    storage_type = {Type.DATE: pa.int32(), Type.TIMESTAMP: pa.int64()}.get(sql_type)
    if sql_type is Type.TIMESTAMP:
        column = column.cast(pa.timestamp("us"))
    numeric = column if storage_type is None else column.cast(storage_type)
    numbers: Floats = numeric.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _common_number_column(name: str, sql_type: Type, numbers: tuple[Floats, Floats], bins: int) -> CommonColumn:
    present = numbers[0][~np.isnan(numbers[0])]
    distinct = np.unique(present)
    if len(distinct) <= bins:
        labels = [_format_value(value, sql_type) for value in distinct]
        codes = [_index_in(values, distinct) for values in numbers]
    else:
        edges, frequent = quantile_bins(present, bins)
        labels = [
            _cell_label(low, high, frequent, sql_type) for low, high in pairwise([-np.inf, *edges.tolist(), np.inf])
        ]
        codes = [np.searchsorted(edges, values, side="right") for values in numbers]
    missing = [np.isnan(values) for values in numbers]
    return _with_special_cells(name, sql_type, labels, codes, missing, numbers)


def quantile_bins(numbers: Floats, bins: int) -> tuple[Floats, Floats]:
    """Return the edges of about ``bins`` cells, and the frequent values that have a cell of their own.

    A value is frequent if it alone has as many rows as a cell would have. The others are binned at their quantiles.

    >>> edges, frequent = quantile_bins(np.array([0.0] * 80 + list(range(1, 21))), 3)
    >>> edges.round(9).tolist(), frequent.tolist()
    ([0.0, 0.0, 10.0], [0.0])
    """
    values, counts = np.unique(numbers, return_counts=True)
    frequent = values[counts * bins >= len(numbers)]
    others = numbers[~np.isin(numbers, frequent)]
    probabilities = np.linspace(0, 1, max(2, bins - len(frequent)) + 1)[1:-1]
    quantiles = np.quantile(others, probabilities, method="inverted_cdf") if len(others) else np.zeros(0)
    return np.unique(np.concatenate([frequent, np.nextafter(frequent, np.inf), quantiles])), frequent


def _cell_label(low: float, high: float, frequent: Floats, sql_type: Type) -> str:
    """Label the cell of values from one edge to below the next."""
    if low in frequent:
        return _format_value(low, sql_type)
    value_below = float(np.nextafter(low, -np.inf))
    start = (
        f"above {_format_value(value_below, sql_type)}"
        if value_below in frequent
        else f"from {_format_value(low, sql_type)}"
    )
    parts = [start] * bool(np.isfinite(low)) + [f"below {_format_value(high, sql_type)}"] * bool(np.isfinite(high))
    return " to ".join(parts)


def _index_in(numbers: Floats, distinct: Floats) -> Codes:
    """Return the index of each number in ``distinct``, or ``len(distinct)`` if it is not there."""
    if not len(distinct):
        return np.zeros(len(numbers), np.int64)
    index = np.minimum(np.searchsorted(distinct, numbers), len(distinct) - 1)
    return np.where(distinct[index] == numbers, index, len(distinct))


def _common_text_column(
    name: str, sql_type: Type, real: pyarrow.ChunkedArray, synthetic: pyarrow.ChunkedArray
) -> CommonColumn:
    import pyarrow as pa

    both = pa.chunked_array([*real.chunks, *synthetic.chunks], real.type).combine_chunks().dictionary_encode()
    texts = np.array([str(value) for value in both.dictionary.to_pylist()], object)
    text_index = both.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    real_index, synthetic_index = text_index[: len(real)], text_index[len(real) :]
    counts = np.bincount(real_index, minlength=len(texts) + 1)[: len(texts)]
    in_real = np.flatnonzero(counts)
    frequent = in_real[np.argsort(-counts[in_real], kind="stable")[:MAX_TEXTS]] if len(in_real) > MAX_TEXTS else in_real
    frequent = frequent[np.argsort(texts[frequent].astype(str))]
    code_of_text = np.full(
        len(texts) + 1, len(frequent) + (len(in_real) > len(frequent)), np.int64
    )  # the cell of texts that only the synthetic table has
    code_of_text[in_real] = len(frequent)
    code_of_text[frequent] = np.arange(len(frequent))
    labels = [escape_unprintable(text) for text in texts[frequent]] + [OTHERS] * (len(in_real) > len(frequent))
    missing = [rows == len(texts) for rows in (real_index, synthetic_index)]
    return _with_special_cells(
        name, sql_type, labels, [code_of_text[real_index], code_of_text[synthetic_index]], missing, None
    )


def _with_special_cells(
    name: str, sql_type: Type, labels: list[str], codes_by_table: list[Any], missing: list[Any], numbers: Any
) -> CommonColumn:
    """Add cells for values that are not in the real table and for NULLs, where there are such rows."""
    unknown_code = len(labels)
    if any(
        ((table_codes == unknown_code) & ~is_null).any()
        for table_codes, is_null in zip(codes_by_table, missing, strict=True)
    ):
        labels = [*labels, UNKNOWN]
    if any(is_null.any() for is_null in missing):
        codes_by_table = [
            np.where(is_null, len(labels), table_codes)
            for table_codes, is_null in zip(codes_by_table, missing, strict=True)
        ]
        labels = [*labels, MISSING]
    codes = tuple(np.asarray(table_codes, np.int64) for table_codes in codes_by_table)
    return CommonColumn(escape_unprintable(name), sql_type, tuple(labels), (codes[0], codes[1]), numbers)


def _format_value(number: float, sql_type: Type) -> str:
    if not np.isfinite(number):
        return ""
    if sql_type is Type.DATE:
        return str(np.datetime64(int(number), "D"))
    if sql_type is Type.TIMESTAMP:
        return str(np.datetime64(int(number), "us").astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else format_number(number)


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
