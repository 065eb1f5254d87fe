"""Events that distinguish two worlds, where a world is the output distribution on one of two neighbouring inputs.

An event is a set of outputs that one world produces more often than the other. A *view* maps every output to a label,
and an event is a set of labels. There are views of each column, of differences and sums of two columns, of the whole
row, and of the lowest set bit of a float. The labels of an event are selected on samples that are not used again, so
an event is fixed before it is measured: a poor selection weakens the bound and cannot make it wrong.

Outputs of several columns are also labelled by the score of a classifier. Columns can leak jointly what none leaks
alone: two sums that share one noise draw, a permutation of the noise, a region that only one world reaches. A linear
discriminant detects exact linear relations between columns; boosted trees over columns, differences and sums detect
regions. Both are trained on samples of their own, so a score is a fixed function of the output when events are
selected and when they are measured.

``OutputShares`` summarises both distributions in few enough cells to plot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

Outputs = NDArray[Any]
Labels = NDArray[np.int64]
Column = Callable[[Outputs], NDArray[Any]]

BINS = 512
_MAX_PAIRS = 240
"""All pairs of 16 columns; with more columns, the pairs that differ most between the worlds."""
_BIT_OFFSET, _BIT_LABELS = 1100, 2200
_MAX_PLOTTED_EDGE = 1e300
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class LabelView:
    """A function that maps every output to one of ``size`` labels."""

    name: str
    label: Callable[[Outputs], Labels]
    size: int
    edges: tuple[float, ...] = ()
    """Boundaries between consecutive labels on the real line, for plotting; empty if labels have no order."""

    def counts(self, outputs: Outputs) -> NDArray[np.int64]:
        """Return the number of outputs with each label."""
        return np.bincount(self.label(outputs), minlength=self.size)


@dataclass(frozen=True)
class Event:
    """A set of labels of one view, more likely in the first world, or in the second if ``swapped``."""

    name: str
    view: LabelView
    chosen: NDArray[np.bool_]
    swapped: bool

    def count(self, counts: NDArray[np.int64]) -> int:
        """Return the number of outputs in the event, from the counts per label."""
        return int(counts[self.chosen].sum())


def candidate_events(views: Iterable[LabelView], first: Outputs, second: Outputs, delta: float) -> Iterator[Event]:
    """Yield, for each view and direction, the ray and the label set with the largest rough lower bound on ε."""
    for view in views:
        p, q = view.counts(first), view.counts(second)
        ascending = np.arange(view.size)
        for swapped, (a, b) in ((False, (p, q)), (True, (q, p))):
            rays = [_best_prefix(a, b, order, delta) for order in (ascending, ascending[::-1])]
            yield Event(f"a ray of {view.name}", view, max(rays, key=lambda ray: ray[0])[1], swapped)
            by_ratio = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
            yield Event(f"a set of {view.name}", view, _best_prefix(a, b, by_ratio, delta)[1], swapped)


def best_events(events: Sequence[Event], first: Outputs, second: Outputs, delta: float, max_events: int) -> list[Event]:
    """Return the ``max_events`` events with the largest rough bound on samples they were not found on.

    Fewer events share the error probability.
    """
    if len(events) <= max_events:
        return list(events)
    view_counts: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    scores = []
    for event in events:
        p, q = view_counts.setdefault(id(event.view), (np.empty(0, np.int64),) * 2)
        if not p.size:
            p, q = view_counts[id(event.view)] = event.view.counts(first), event.view.counts(second)
        a, b = (event.count(q), event.count(p)) if event.swapped else (event.count(p), event.count(q))
        scores.append(float(_epsilon_estimates(np.array([a]), np.array([b]), len(first), delta)[0]))
    ranking = sorted(range(len(events)), key=lambda index: -scores[index])
    return [events[index] for index in ranking[:max_events]]


def _best_prefix(
    p: NDArray[np.int64], q: NDArray[np.int64], order: NDArray[np.intp], delta: float
) -> tuple[float, NDArray[np.bool_]]:
    """Return the prefix of ``order`` that maximises the rough lower bound on ε, with that bound."""
    bounds = _epsilon_estimates(np.cumsum(p[order]), np.cumsum(q[order]), int(p.sum()), delta)
    best_index = int(np.argmax(bounds))
    chosen = np.zeros(len(p), bool)
    chosen[order[: best_index + 1]] = True
    return float(bounds[best_index]), chosen


def _epsilon_estimates(a: NDArray[np.int64], b: NDArray[np.int64], total: int, delta: float) -> NDArray[np.float64]:
    """Estimate the ε that these event counts prove, with margins of three standard deviations."""
    lower_p = (a - 3.0 * np.sqrt(a * (1 - a / total) + 1)) / total - delta
    upper_q = (b + 3.0 * np.sqrt(b * (1 - b / total) + 1) + 5) / total
    return np.where(lower_p > 0, np.log(np.maximum(lower_p, 1e-300) / upper_q), -np.inf)


# ── views ──────────────────────────────────────────────────────────────────────────────────────


def plain_views(first: Outputs, second: Outputs) -> Iterator[LabelView]:
    """Yield the views that need no training: columns, whole rows, pairs of columns and lowest set bits."""
    columns = first.shape[1]
    for i in range(columns):
        name = f"column {i}" if columns > 1 else "the value"
        yield value_view(name, partial(select_column, i), first, second)
        if first.dtype.kind == "f":
            suffix = f" in column {i}" if columns > 1 else ""
            yield LabelView(f"the last bit a float uses{suffix}", partial(_lowest_set_bit_exponents, i), _BIT_LABELS)
    if columns > 1:
        yield row_view(first, second)
        for name, column in distinguishing_pairs(first, second, _MAX_PAIRS):
            yield value_view(name, column, first, second)


def select_column(i: int, outputs: Outputs) -> NDArray[Any]:
    return outputs[:, i]


def _combine_columns(i: int, j: int, sign: int, outputs: Outputs) -> NDArray[Any]:
    """Return the sum or difference of two columns; overflow to infinity or NaN is allowed."""
    with np.errstate(all="ignore"):
        return outputs[:, j] + outputs[:, i] if sign > 0 else outputs[:, j] - outputs[:, i]


def distinguishing_pairs(first: Outputs, second: Outputs, max_pairs: int) -> list[tuple[str, Column]]:
    """Return the ``max_pairs`` named sums and differences of two columns, by distance over 2,000 samples."""
    subsamples = [side[:2000] for side in (first, second)]
    scored_pairs: list[tuple[float, str, Column]] = []
    for i, j in combinations(range(first.shape[1]), 2):
        for sign, word in ((-1, "minus"), (1, "plus")):
            column = partial(_combine_columns, i, j, sign)
            scored_pairs.append(
                (_histogram_distance(*map(column, subsamples)), f"column {j} {word} column {i}", column)
            )
    scored_pairs.sort(key=lambda pair: -pair[0])
    return [(name, column) for _, name, column in scored_pairs[:max_pairs]]


def _histogram_distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Estimate the L1 distance between two samples over eight bins, with bin edges as values of their own."""
    pooled = np.sort(np.concatenate([first, second]))
    edges = np.unique(pooled[np.linspace(0, pooled.size - 1, 9).astype(int)[1:-1]])
    labels = [
        np.searchsorted(edges, side, "right") + (edges.size + 1) * np.isin(side, edges) for side in (first, second)
    ]
    p, q = (np.bincount(label, minlength=2 * edges.size + 2) / label.size for label in labels)
    return float(np.abs(p - q).sum())


def value_view(name: str, column: Column, first: Outputs, second: Outputs) -> LabelView:
    """Label a column by its distinct values if there are few, otherwise by quantile bins and frequent values."""
    edges = _bin_edges(np.concatenate([column(first), column(second)]))
    plotted_edges = tuple(edges.astype(np.float64).tolist()) if edges.dtype.kind != "O" else ()
    return LabelView(name, partial(_bin_labels, edges, column), len(edges) + 1, plotted_edges)


def _bin_labels(edges: NDArray[Any], column: Column, outputs: Outputs) -> Labels:
    return np.searchsorted(edges, column(outputs), side="right").astype(np.int64)


def _bin_edges(values: NDArray[Any]) -> NDArray[Any]:
    distinct, occurrences = np.unique(values, return_counts=True)
    if len(distinct) <= BINS:
        return distinct
    frequent = distinct[occurrences >= max(2.0, values.size / BINS)]
    after = np.nextafter(frequent, np.inf) if values.dtype.kind == "f" else frequent + 1
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    ranks = np.linspace(0, finite.size - 1, BINS + 1).astype(np.int64)[1:-1]
    quantiles = np.partition(finite, ranks)[ranks] if finite.size else finite
    non_finite = distinct[~np.isfinite(distinct)] if values.dtype.kind == "f" else distinct[:0]
    return np.unique(np.concatenate([quantiles, frequent, after.astype(values.dtype), non_finite]))


def row_view(first: Outputs, second: Outputs) -> LabelView:
    """Label each of the most frequent rows separately and all others together; rows are compared by hash."""
    hashes = np.concatenate([_hash_rows(first), _hash_rows(second)])
    distinct, occurrences = np.unique(hashes, return_counts=True)
    frequent_hashes = np.sort(distinct[np.argsort(-occurrences, kind="stable")[:BINS]])
    return LabelView("the whole row", partial(_row_labels, frequent_hashes), len(frequent_hashes) + 1)


def _row_labels(frequent_hashes: NDArray[np.uint64], outputs: Outputs) -> Labels:
    hashes = _hash_rows(outputs)
    index = np.minimum(np.searchsorted(frequent_hashes, hashes), len(frequent_hashes) - 1)
    return np.where(frequent_hashes[index] == hashes, index, len(frequent_hashes)).astype(np.int64)


def _hash_rows(outputs: Outputs) -> NDArray[np.uint64]:
    """Hash the columns of each row into one integer; a collision merges two labels, which only weakens the bound."""
    widened = outputs.astype(np.float64) if outputs.dtype.kind == "f" else outputs.astype(np.int64)
    hashes = np.zeros(len(outputs), np.uint64)
    for column in range(outputs.shape[1]):
        column_bits = np.ascontiguousarray(widened[:, column]).view(np.uint64)
        hashes = (hashes ^ column_bits) * _HASH_MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _lowest_set_bit_exponents(column: int, outputs: Outputs) -> Labels:
    """Return the exponent of the lowest set bit of each float: coarse sums have no fine bits."""
    values = outputs[:, column].astype(np.float64)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    integer_mantissa = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing_zeros = np.where(
        integer_mantissa == 0, 0, np.log2(np.maximum(1, integer_mantissa & -integer_mantissa))
    ).astype(np.int64)
    return np.where(finite, np.clip(trailing_zeros + exponent + _BIT_OFFSET, 0, _BIT_LABELS - 2), _BIT_LABELS - 1)


def has_plottable_intervals(view: LabelView) -> bool:
    """Return whether the labels are ordered intervals that fit on one plot axis."""
    return len(view.edges) > 0 and all(abs(edge) < _MAX_PLOTTED_EDGE for edge in view.edges)


_MAX_CELLS, _MAX_BARS = 48, 12


@codec.serialisable("told-laws")
@dataclass(frozen=True)
class OutputShares:
    """The shares of two worlds in a few cells, with the cells that belong to the event marked."""

    view_name: str = field(metadata=codec.stored_name_metadata("seen"))
    """The name of the view, such as "the value"."""
    first: tuple[float, ...]
    second: tuple[float, ...]
    inside: tuple[bool, ...]
    edges: tuple[float, ...] = ()
    """Cell boundaries on the real line, one more than cells; empty if the cells have no order."""

    def __post_init__(self) -> None:
        for name in ("first", "second", "edges"):
            object.__setattr__(self, name, tuple(codec.parse_float(number, name) for number in getattr(self, name)))
        cells = len(self.first)
        lengths_match = len(self.second) == len(self.inside) == cells and len(self.edges) in (0, cells + 1)
        if not (
            lengths_match
            and cells
            and type(self.view_name) is str
            and all(type(member) is bool for member in self.inside)
        ):
            raise InvalidParameter(
                "laws",
                ValueWords(
                    f"{cells} cells in first, {len(self.second)} in second, {len(self.inside)} in inside, and "
                    f"{len(self.edges)} edges"
                ),
                "OutputShares with a view name, with at least one cell, as many entries in first, second and inside, "
                "and either no edges or one more than cells",
                fix="give first, second and inside one entry for each cell",
            )


def merge_labels_to_cells(event: Event, counts: tuple[NDArray[np.int64], NDArray[np.int64]]) -> OutputShares:
    """Merge the counts per label into few cells, each entirely inside or outside the event."""
    shares = [side / max(1, int(side.sum())) for side in counts]
    name = event.view.name
    if has_plottable_intervals(event.view):
        edges = np.array(event.view.edges)
        cell_bounds = np.concatenate([[edges[0] - _median_gap(edges)], edges, [edges[-1] + _median_gap(edges)]])
        cell_starts = _run_starts(event.chosen, max(1, len(event.chosen) // _MAX_CELLS))
        merged = [np.add.reduceat(side, cell_starts) for side in shares]
        one_label_cells = len(cell_starts) == len(event.chosen)  # each cell is one value, so centre it
        inside, cell_edges = (
            event.chosen[cell_starts],
            cell_bounds[[*cell_starts, len(cell_bounds) - 1]] - one_label_cells * _median_gap(edges) / 2,
        )
        visible = slice(1, None) if merged[0][0] == merged[1][0] == 0 and len(cell_starts) > 1 else slice(None)
        first, second = (_as_float_tuple(side[visible]) for side in merged)
        return OutputShares(name, first, second, _as_bool_tuple(inside[visible]), _as_float_tuple(cell_edges[visible]))
    order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:_MAX_BARS]
    return OutputShares(
        name, _as_float_tuple(shares[0][order]), _as_float_tuple(shares[1][order]), _as_bool_tuple(event.chosen[order])
    )


def _median_gap(edges: NDArray[Any]) -> float:
    """Return the median distance between edges, used as the width of the unbounded cells."""
    return float(np.median(np.diff(edges))) if len(edges) > 1 else 1.0


def _run_starts(chosen: NDArray[np.bool_], longest: int) -> list[int]:
    """Return the start of each run of labels on one side of the event, of at most ``longest`` labels."""
    starts = [0]
    for index in range(1, len(chosen)):
        if chosen[index] != chosen[starts[-1]] or index - starts[-1] >= longest:
            starts.append(index)
    return starts


def _as_float_tuple(numbers: NDArray[Any]) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _as_bool_tuple(truths: NDArray[np.bool_]) -> tuple[bool, ...]:
    return tuple(map(bool, truths))


Codes = NDArray[np.int64]

MAX_ROWS = 20_000
"""Training rows per world."""
_BOOSTING_ROUNDS, _TREE_DEPTH, _FEATURE_CELLS, _LEARNING_RATE = 12, 3, 32, 0.7
_MAX_FEATURES = 12
_MAX_MAGNITUDE = 1e100
"""Magnitudes are clipped to this, so that squares stay finite."""
_MIN_LEAF_WEIGHT = 5.0
"""The least Hessian weight of a leaf: that of twenty rows at probability 1/2."""


def trained_views(training: tuple[Outputs, Outputs], selection: tuple[Outputs, Outputs]) -> Iterator[LabelView]:
    """Train both classifiers on one set of samples and yield views that bin their scores on another."""
    rows = [side[:MAX_ROWS] for side in training]
    linear = fit_discriminant(rows[0], rows[1])
    yield value_view("a trained line through the columns", linear.scores, *selection)
    features = [partial(select_column, i) for i in range(rows[0].shape[1])][:_MAX_FEATURES]
    pairs = [column for _, column in distinguishing_pairs(rows[0], rows[1], _MAX_FEATURES)]
    trees = fit_trees([linear.scores, *features, *pairs], rows[0], rows[1])
    yield value_view("trained trees over the columns", trees.scores, *selection)


@dataclass(frozen=True)
class Discriminant:
    """A linear discriminant (Fisher 1936)."""

    middle: Floats
    weights: Floats

    def scores(self, outputs: Outputs) -> Floats:
        """Return the weighted sum of the centred columns; NaN counts as the median."""
        return (_clip_finite(outputs, self.middle) - self.middle) @ self.weights


def fit_discriminant(first: Outputs, second: Outputs) -> Discriminant:
    """Fit the weights; linear combinations with little variance weigh most, as where noise cancels."""
    pooled = np.concatenate([first, second]).astype(np.float64)
    middle = np.median(np.clip(np.where(np.isfinite(pooled), pooled, 0.0), -_MAX_MAGNITUDE, _MAX_MAGNITUDE), axis=0)
    sides = [_clip_finite(side, middle) - middle for side in (first, second)]
    scale = np.sqrt(np.mean(np.concatenate(sides) ** 2, axis=0))
    scale[scale == 0] = 1.0
    scaled = [side / scale for side in sides]
    covariance = sum(np.atleast_2d(np.cov(side, rowvar=False)) for side in scaled) / 2
    shift = scaled[0].mean(axis=0) - scaled[1].mean(axis=0)
    weights = np.linalg.solve(covariance + 1e-12 * np.eye(len(scale)), shift) / scale
    largest_weight = np.abs(weights).max()
    return Discriminant(middle, weights / largest_weight if largest_weight > 0 else weights)


def _clip_finite(outputs: Outputs, middle: Floats) -> Floats:
    """Replace NaN by the median and clip magnitudes so that squares stay finite."""
    values = outputs.astype(np.float64)
    return np.clip(np.where(np.isnan(values), middle, values), -_MAX_MAGNITUDE, _MAX_MAGNITUDE)


@dataclass(frozen=True)
class TreeSplit:
    """A split of a feature at a cell, or a leaf that adds ``value``."""

    feature: int = -1
    cell: int = 0
    below: TreeSplit | None = None
    beyond: TreeSplit | None = None
    value: float = 0.0

    def contribution(self, codes: Codes) -> Floats:
        """Return the contribution of this tree to the score of each row."""
        if self.below is None or self.beyond is None:
            return np.full(codes.shape[1], self.value)
        return np.where(
            codes[self.feature] > self.cell, self.beyond.contribution(codes), self.below.contribution(codes)
        )


@dataclass(frozen=True)
class BoostedTrees:
    """Boosted trees whose sum is the log-odds that an output is from the first world."""

    features: tuple[Column, ...]
    edges: tuple[NDArray[Any], ...]
    trees: tuple[TreeSplit, ...]

    def scores(self, outputs: Outputs) -> Floats:
        codes = self.codes(outputs)
        return np.sum([tree.contribution(codes) for tree in self.trees], axis=0)

    def codes(self, outputs: Outputs) -> Codes:
        """Return the cell of each feature (rows) of each output (columns)."""
        cells = [
            np.searchsorted(edges, feature(outputs), "right")
            for feature, edges in zip(self.features, self.edges, strict=True)
        ]
        return np.array(cells, np.int64)


def fit_trees(features: Sequence[Column], first: Outputs, second: Outputs) -> BoostedTrees:
    """Fit trees by gradient boosting with logistic loss (Friedman 2001)."""
    pooled = np.concatenate([first, second])
    untrained = BoostedTrees(tuple(features), tuple(_feature_edges(feature(pooled)) for feature in features), ())
    codes = untrained.codes(pooled)
    labels = np.repeat([1.0, 0.0], [len(first), len(second)])
    score, trees = np.zeros(len(pooled)), []
    for _ in range(_BOOSTING_ROUNDS):
        probability = 1 / (1 + np.exp(-score))
        trees.append(
            _grow_tree(
                codes, labels - probability, probability * (1 - probability), np.arange(len(pooled)), _TREE_DEPTH
            )
        )
        score = np.clip(score + trees[-1].contribution(codes), -30, 30)
    return BoostedTrees(untrained.features, untrained.edges, tuple(trees))


def _feature_edges(values: NDArray[Any]) -> NDArray[Any]:
    distinct = np.unique(values)
    if len(distinct) <= _FEATURE_CELLS:
        return distinct
    return np.unique(np.sort(values)[np.linspace(0, values.size - 1, _FEATURE_CELLS + 1).astype(int)[1:-1]])


def _grow_tree(codes: Codes, gradient: Floats, hessian: Floats, rows: NDArray[np.intp], depth: int) -> TreeSplit:
    """Split rows greedily by gain down to ``depth``; a leaf takes one Newton step."""
    leaf = TreeSplit(value=_LEARNING_RATE * float(gradient[rows].sum() / (hessian[rows].sum() + 1.0)))
    if depth == 0 or len(rows) < 2:
        return leaf
    gain, feature, cell = max(
        _best_split(cells[rows], gradient[rows], hessian[rows], index) for index, cells in enumerate(codes)
    )
    if gain <= 0:
        return leaf
    beyond = codes[feature][rows] > cell
    below, above = (_grow_tree(codes, gradient, hessian, rows[side], depth - 1) for side in (~beyond, beyond))
    return TreeSplit(feature, cell, below, above)


def _best_split(codes: Codes, gradient: Floats, hessian: Floats, feature: int) -> tuple[float, int, int]:
    """Return the gain, feature and cell of the best split of one feature."""
    gradient_sums, hessian_sums = (
        np.cumsum(np.bincount(codes, per_row, _FEATURE_CELLS + 1)) for per_row in (gradient, hessian)
    )
    if len(gradient_sums) < 2:
        return 0.0, feature, 0
    left, right = hessian_sums[:-1], hessian_sums[-1] - hessian_sums[:-1]
    split_scores = gradient_sums[:-1] ** 2 / (left + 1) + (gradient_sums[-1] - gradient_sums[:-1]) ** 2 / (right + 1)
    gains = np.where(
        (left >= _MIN_LEAF_WEIGHT) & (right >= _MIN_LEAF_WEIGHT),
        split_scores - gradient_sums[-1] ** 2 / (hessian_sums[-1] + 1),
        0.0,
    )
    return float(gains.max()), feature, int(np.argmax(gains))
