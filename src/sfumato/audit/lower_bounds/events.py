"""Told laws say how often each of two worlds gave which outputs, in few enough cells to be drawn.

Two worlds are told apart by events: sets of outputs that one of them gives more often than the other.

A *view* gives every output a label, and an event is a set of labels. Views look at each column, at differences and sums
of two columns, at the whole row and at the last bit that a float uses; which labels tell most is found on samples that
are never used again. No choice made here can make an audit wrong: an event is fixed before it is measured, and a poor
one only proves less.

A classifier learns to tell two worlds apart from outputs of many columns: its score is one more way to see them.

What a single column does not show, several may show together: two sums that share one noise, the same noises in another
order, a region that one world alone reaches. A linear discriminant sees every exact relation between columns, and
boosted trees over columns, their differences and sums see regions. Both are trained on samples of their own, so that a
score is a fixed function of an output when events are picked with it, and again when they are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec

Outputs = NDArray[Any]
Labels = NDArray[np.int64]
Column = Callable[[Outputs], NDArray[Any]]

BINS = 512
_MOST_PAIRS = 240
"""All pairs of 16 columns; of more columns, those that differ most between the worlds."""
_LOWEST_BIT, _BITS = 1100, 2200
_LARGEST_DRAWN = 1e300
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class LabelView:
    """A view gives every output one of ``size`` labels."""

    name: str
    label: Callable[[Outputs], Labels]
    size: int
    edges: tuple[float, ...] = ()
    """Where labels are cut along a line of numbers, for a picture of them; empty where labels have no order."""

    def counts(self, outputs: Outputs) -> NDArray[np.int64]:
        """Count the outputs that have each label."""
        return np.bincount(self.label(outputs), minlength=self.size)


@dataclass(frozen=True)
class Event:
    """An event is a set of labels of one view that the first world has more often, or the second where ``swapped``."""

    name: str
    view: LabelView
    chosen: NDArray[np.bool_]
    swapped: bool

    def count(self, counts: NDArray[np.int64]) -> int:
        """Count the outputs inside, of those counted by label."""
        return int(counts[self.chosen].sum())


def candidates(views: Iterable[LabelView], first: Outputs, second: Outputs, delta: float) -> Iterator[Event]:
    """Find, for each view and each direction, the most telling ray and the most telling set of labels."""
    for view in views:
        p, q = view.counts(first), view.counts(second)
        rising = np.arange(view.size)
        for swapped, (a, b) in ((False, (p, q)), (True, (q, p))):
            rays = [_best_start(a, b, order, delta) for order in (rising, rising[::-1])]
            yield Event(f"a ray of {view.name}", view, max(rays, key=lambda ray: ray[0])[1], swapped)
            by_ratio = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
            yield Event(f"a set of {view.name}", view, _best_start(a, b, by_ratio, delta)[1], swapped)


def best(events: Sequence[Event], first: Outputs, second: Outputs, delta: float, most: int) -> list[Event]:
    """Keep those events that tell most, on samples that they were not found on: fewer share the chance of a mistake."""
    if len(events) <= most:
        return list(events)
    found: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    scores = []
    for event in events:
        p, q = found.setdefault(id(event.view), (np.empty(0, np.int64),) * 2)
        if not p.size:
            p, q = found[id(event.view)] = event.view.counts(first), event.view.counts(second)
        a, b = (event.count(q), event.count(p)) if event.swapped else (event.count(p), event.count(q))
        scores.append(float(_rough(np.array([a]), np.array([b]), len(first), delta)[0]))
    order = sorted(range(len(events)), key=lambda place: -scores[place])
    return [events[place] for place in order[:most]]


def _best_start(
    p: NDArray[np.int64], q: NDArray[np.int64], order: NDArray[np.intp], delta: float
) -> tuple[float, NDArray[np.bool_]]:
    """Take the first labels in this order, as many as make a rough lower bound of ε largest, and give that bound."""
    score = _rough(np.cumsum(p[order]), np.cumsum(q[order]), int(p.sum()), delta)
    most = int(np.argmax(score))
    chosen = np.zeros(len(p), bool)
    chosen[order[: most + 1]] = True
    return float(score[most]), chosen


def _rough(a: NDArray[np.int64], b: NDArray[np.int64], total: int, delta: float) -> NDArray[np.float64]:
    """Estimate the ε that so many of the samples of each world prove, three deviations off."""
    sure_p = (a - 3.0 * np.sqrt(a * (1 - a / total) + 1)) / total - delta
    sure_q = (b + 3.0 * np.sqrt(b * (1 - b / total) + 1) + 5) / total
    return np.where(sure_p > 0, np.log(np.maximum(sure_p, 1e-300) / sure_q), -np.inf)


# ── views ──────────────────────────────────────────────────────────────────────────────────────


def plain_views(first: Outputs, second: Outputs) -> Iterator[LabelView]:
    """List ways to see an output without training: columns, pairs of columns, the whole row, and last bits."""
    columns = first.shape[1]
    for i in range(columns):
        name = f"column {i}" if columns > 1 else "the value"
        yield by_value(name, partial(one_column, i), first, second)
        if first.dtype.kind == "f":
            ending = f" in column {i}" if columns > 1 else ""
            yield LabelView(f"the last bit a float uses{ending}", partial(_last_bit, i), _BITS)
    if columns > 1:
        yield whole_row(first, second)
        for name, column in telling_pairs(first, second, _MOST_PAIRS):
            yield by_value(name, column, first, second)


def one_column(i: int, outputs: Outputs) -> NDArray[Any]:
    """Give one column of all outputs."""
    return outputs[:, i]


def _combined(i: int, j: int, sign: int, outputs: Outputs) -> NDArray[Any]:
    """Add two columns, or subtract; what no number can hold is a label like any other."""
    with np.errstate(all="ignore"):
        return outputs[:, j] + outputs[:, i] if sign > 0 else outputs[:, j] - outputs[:, i]


def telling_pairs(first: Outputs, second: Outputs, most: int) -> list[tuple[str, Column]]:
    """Name the differences and sums of two columns, those first that look most different in a few thousand samples."""
    few = [side[:2000] for side in (first, second)]
    found: list[tuple[float, str, Column]] = []
    for i, j in combinations(range(first.shape[1]), 2):
        for sign, word in ((-1, "minus"), (1, "plus")):
            column = partial(_combined, i, j, sign)
            found.append((_apart(*map(column, few)), f"column {j} {word} column {i}", column))
    found.sort(key=lambda each: -each[0])
    return [(name, column) for _, name, column in found[:most]]


def _apart(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Estimate by how much the shares of eight bins of a number, and of its most frequent value, differ."""
    seen = np.sort(np.concatenate([first, second]))
    edges = np.unique(seen[np.linspace(0, seen.size - 1, 9).astype(int)[1:-1]])
    labels = [
        np.searchsorted(edges, side, "right") + (edges.size + 1) * np.isin(side, edges) for side in (first, second)
    ]
    p, q = (np.bincount(label, minlength=2 * edges.size + 2) / label.size for label in labels)
    return float(np.abs(p - q).sum())


def by_value(name: str, column: Column, first: Outputs, second: Outputs) -> LabelView:
    """Give each distinct value its own label when there are few; else quantile bins, and frequent values their own."""
    edges = _edges(np.concatenate([column(first), column(second)]))
    shown = tuple(edges.astype(np.float64).tolist()) if edges.dtype.kind != "O" else ()
    return LabelView(name, partial(_binned, edges, column), len(edges) + 1, shown)


def _binned(edges: NDArray[Any], column: Column, outputs: Outputs) -> Labels:
    return np.searchsorted(edges, column(outputs), side="right").astype(np.int64)


def _edges(seen: NDArray[Any]) -> NDArray[Any]:
    distinct, times = np.unique(seen, return_counts=True)
    if len(distinct) <= BINS:
        return distinct
    frequent = distinct[times >= max(2.0, seen.size / BINS)]
    after = np.nextafter(frequent, np.inf) if seen.dtype.kind == "f" else frequent + 1
    finite = seen[np.isfinite(seen)] if seen.dtype.kind == "f" else seen
    places = np.linspace(0, finite.size - 1, BINS + 1).astype(np.int64)[1:-1]
    cuts = np.partition(finite, places)[places] if finite.size else finite
    odd = distinct[~np.isfinite(distinct)] if seen.dtype.kind == "f" else distinct[:0]
    return np.unique(np.concatenate([cuts, frequent, after.astype(seen.dtype), odd]))


def whole_row(first: Outputs, second: Outputs) -> LabelView:
    """Give each of the most frequent rows its own label, and all others one: rows are compared by a hash."""
    seen = np.concatenate([_hashed(first), _hashed(second)])
    distinct, times = np.unique(seen, return_counts=True)
    known = np.sort(distinct[np.argsort(-times, kind="stable")[:BINS]])
    return LabelView("the whole row", partial(_known_row, known), len(known) + 1)


def _known_row(known: NDArray[np.uint64], outputs: Outputs) -> Labels:
    own = _hashed(outputs)
    place = np.minimum(np.searchsorted(known, own), len(known) - 1)
    return np.where(known[place] == own, place, len(known)).astype(np.int64)


def _hashed(outputs: Outputs) -> NDArray[np.uint64]:
    """Combine the columns of a row into one number; rows that meet in it have one label, which only proves less."""
    wide = outputs.astype(np.float64) if outputs.dtype.kind == "f" else outputs.astype(np.int64)
    mixed = np.zeros(len(outputs), np.uint64)
    for column in range(outputs.shape[1]):
        part = np.ascontiguousarray(wide[:, column]).view(np.uint64)
        mixed = (mixed ^ part) * _ODD
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _last_bit(column: int, outputs: Outputs) -> Labels:
    """Find the exponent of the lowest bit set in each float: coarse sums leave no fine bits."""
    values = outputs[:, column].astype(np.float64)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole_mantissa = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(whole_mantissa == 0, 0, np.log2(np.maximum(1, whole_mantissa & -whole_mantissa))).astype(np.int64)
    return np.where(finite, np.clip(lowest + exponent + _LOWEST_BIT, 0, _BITS - 2), _BITS - 1)


def lies_on_a_line(view: LabelView) -> bool:
    """Tell whether labels stand in the order of numbers, so that two worlds can be drawn above one axis."""
    return len(view.edges) > 0 and all(abs(edge) < _LARGEST_DRAWN for edge in view.edges)


_MOST_CELLS, _MOST_BARS = 48, 12


@codec.value("told-laws")
@dataclass(frozen=True)
class ToldLaws:
    """These are the shares of two worlds in some cells, and which cells belong to the event."""

    seen: str
    """What outputs were looked at by, such as "the value"."""
    first: tuple[float, ...]
    second: tuple[float, ...]
    inside: tuple[bool, ...]
    edges: tuple[float, ...] = ()
    """Where the cells lie along a line of numbers, one edge more than cells; empty where they have no order."""

    def __post_init__(self) -> None:
        for name in ("first", "second", "edges"):
            object.__setattr__(self, name, tuple(codec.real(each, name) for each in getattr(self, name)))
        cells = len(self.first)
        fits = len(self.second) == len(self.inside) == cells and len(self.edges) in (0, cells + 1)
        if not (fits and cells and type(self.seen) is str and all(type(each) is bool for each in self.inside)):
            raise InvalidParameter("laws", self.seen, "as many shares of both worlds as there are cells")


def told_laws(event: Event, counts: tuple[NDArray[np.int64], NDArray[np.int64]]) -> ToldLaws:
    """Sum up what was counted by label into few cells, each wholly inside the event or wholly outside."""
    shares = [each / max(1, int(each.sum())) for each in counts]
    name = event.view.name
    if lies_on_a_line(event.view):
        edges = np.array(event.view.edges)
        ends = np.concatenate([[edges[0] - _gap(edges)], edges, [edges[-1] + _gap(edges)]])
        cells = _runs(event.chosen, max(1, len(event.chosen) // _MOST_CELLS))
        merged = [np.add.reduceat(each, cells) for each in shares]
        single = len(cells) == len(event.chosen)  # then a cell is one value, and stands around it
        inside, marks = event.chosen[cells], ends[[*cells, len(ends) - 1]] - single * _gap(edges) / 2
        kept = slice(1, None) if merged[0][0] == merged[1][0] == 0 and len(cells) > 1 else slice(None)
        first, second = (_floats(each[kept]) for each in merged)
        return ToldLaws(name, first, second, _truths(inside[kept]), _floats(marks[kept]))
    order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:_MOST_BARS]
    return ToldLaws(name, _floats(shares[0][order]), _floats(shares[1][order]), _truths(event.chosen[order]))


def _gap(edges: NDArray[Any]) -> float:
    """Give the usual distance of two edges, as the width of cells that have no end."""
    return float(np.median(np.diff(edges))) if len(edges) > 1 else 1.0


def _runs(chosen: NDArray[np.bool_], longest: int) -> list[int]:
    """Cut labels into runs of at most so many that lie on one side of the event."""
    starts = [0]
    for place in range(1, len(chosen)):
        if chosen[place] != chosen[starts[-1]] or place - starts[-1] >= longest:
            starts.append(place)
    return starts


def _floats(numbers: NDArray[Any]) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _truths(truths: NDArray[np.bool_]) -> tuple[bool, ...]:
    return tuple(map(bool, truths))


Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MOST_ROWS = 20_000
"""Rows of each world that are learnt from."""
_ROUNDS, _DEPTH, _CELLS, _RATE = 12, 3, 32, 0.7
_MOST_FEATURES = 12
_LARGEST = 1e100
"""Numbers beyond this count as this: their squares are numbers, too."""
_LEAST_WEIGHT = 5.0
"""A leaf weighs at least as much as twenty rows of which nothing is known."""


def trained_views(training: tuple[Outputs, Outputs], picking: tuple[Outputs, Outputs]) -> Iterator[LabelView]:
    """Build both classifiers, and bin their scores on other samples than those."""
    few = [side[:MOST_ROWS] for side in training]
    line = discriminant(few[0], few[1])
    yield by_value("a trained line through the columns", line.scores, *picking)
    features = [partial(one_column, i) for i in range(few[0].shape[1])][:_MOST_FEATURES]
    pairs = [column for _, column in telling_pairs(few[0], few[1], _MOST_FEATURES)]
    trees = grown([line.scores, *features, *pairs], few[0], few[1])
    yield by_value("trained trees over the columns", trees.scores, *picking)


@dataclass(frozen=True)
class Discriminant:
    """A linear discriminant gives columns weights with which the worlds lie as far apart as their spread allows (Fisher
    1936).
    """

    middle: Floats
    weights: Floats

    def scores(self, outputs: Outputs) -> Floats:
        """Weigh the columns; what is no number counts as the middle."""
        return (_finite(outputs, self.middle) - self.middle) @ self.weights


def discriminant(first: Outputs, second: Outputs) -> Discriminant:
    """Find the weights; a combination of columns that hardly varies weighs most, as where noises cancel out."""
    both = np.concatenate([first, second]).astype(np.float64)
    middle = np.median(np.clip(np.where(np.isfinite(both), both, 0.0), -_LARGEST, _LARGEST), axis=0)
    sides = [_finite(side, middle) - middle for side in (first, second)]
    size = np.sqrt(np.mean(np.concatenate(sides) ** 2, axis=0))
    size[size == 0] = 1.0
    scaled = [side / size for side in sides]
    spread = sum(np.atleast_2d(np.cov(side, rowvar=False)) for side in scaled) / 2
    shift = scaled[0].mean(axis=0) - scaled[1].mean(axis=0)
    weights = np.linalg.solve(spread + 1e-12 * np.eye(len(size)), shift) / size
    most = np.abs(weights).max()
    return Discriminant(middle, weights / most if most > 0 else weights)


def _finite(outputs: Outputs, middle: Floats) -> Floats:
    """Read numbers within the range in which squares of them are numbers, too."""
    values = outputs.astype(np.float64)
    return np.clip(np.where(np.isnan(values), middle, values), -_LARGEST, _LARGEST)


@dataclass(frozen=True)
class TreeSplit:
    """A split asks of a feature whether its cell lies beyond a place; ``value`` is what a leaf adds."""

    feature: int = -1
    cell: int = 0
    below: TreeSplit | None = None
    beyond: TreeSplit | None = None
    value: float = 0.0

    def added(self, codes: Codes) -> Floats:
        """Give what this tree adds to the score of each row."""
        if self.below is None or self.beyond is None:
            return np.full(codes.shape[1], self.value)
        return np.where(codes[self.feature] > self.cell, self.beyond.added(codes), self.below.added(codes))


@dataclass(frozen=True)
class Trees:
    """Trees add up to the logarithm of the odds that an output is of the first world."""

    features: tuple[Column, ...]
    edges: tuple[NDArray[Any], ...]
    trees: tuple[TreeSplit, ...]

    def scores(self, outputs: Outputs) -> Floats:
        """Add up what all trees say of each output."""
        codes = self.codes(outputs)
        return np.sum([tree.added(codes) for tree in self.trees], axis=0)

    def codes(self, outputs: Outputs) -> Codes:
        """Give the cell of every feature of every output."""
        found = [
            np.searchsorted(edges, feature(outputs), "right")
            for feature, edges in zip(self.features, self.edges, strict=True)
        ]
        return np.array(found, np.int64)


def grown(features: Sequence[Column], first: Outputs, second: Outputs) -> Trees:
    """Build trees one after the other, each from what those before it got wrong (Friedman 2001, logistic loss)."""
    both = np.concatenate([first, second])
    start = Trees(tuple(features), tuple(_cuts(feature(both)) for feature in features), ())
    codes = start.codes(both)
    truth = np.repeat([1.0, 0.0], [len(first), len(second)])
    score, trees = np.zeros(len(both)), []
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-score))
        trees.append(_tree(codes, truth - chance, chance * (1 - chance), np.arange(len(both)), _DEPTH))
        score = np.clip(score + trees[-1].added(codes), -30, 30)
    return Trees(start.features, start.edges, tuple(trees))


def _cuts(values: NDArray[Any]) -> NDArray[Any]:
    distinct = np.unique(values)
    if len(distinct) <= _CELLS:
        return distinct
    return np.unique(np.sort(values)[np.linspace(0, values.size - 1, _CELLS + 1).astype(int)[1:-1]])


def _tree(codes: Codes, slope: Floats, weight: Floats, rows: NDArray[np.intp], depth: int) -> TreeSplit:
    """Split rows where that gains most, as deep as is allowed; a leaf takes one step of Newton's."""
    leaf = TreeSplit(value=_RATE * float(slope[rows].sum() / (weight[rows].sum() + 1.0)))
    if depth == 0 or len(rows) < 2:
        return leaf
    gain, feature, cell = max(
        _best_cut(each[rows], slope[rows], weight[rows], place) for place, each in enumerate(codes)
    )
    if gain <= 0:
        return leaf
    beyond = codes[feature][rows] > cell
    below, above = (_tree(codes, slope, weight, rows[side], depth - 1) for side in (~beyond, beyond))
    return TreeSplit(feature, cell, below, above)


def _best_cut(codes: Codes, slope: Floats, weight: Floats, feature: int) -> tuple[float, int, int]:
    """Find where a feature is best cut in two, and what that gains."""
    slopes, weights = (np.cumsum(np.bincount(codes, each, _CELLS + 1)) for each in (slope, weight))
    if len(slopes) < 2:
        return 0.0, feature, 0
    left, right = weights[:-1], weights[-1] - weights[:-1]
    parts = slopes[:-1] ** 2 / (left + 1) + (slopes[-1] - slopes[:-1]) ** 2 / (right + 1)
    gains = np.where(
        (left >= _LEAST_WEIGHT) & (right >= _LEAST_WEIGHT), parts - slopes[-1] ** 2 / (weights[-1] + 1), 0.0
    )
    return float(gains.max()), feature, int(np.argmax(gains))
