"""A classifier learns to tell two worlds apart from outputs of many columns: its score is one more way to see them.

What a single column does not show, several may show together: two sums that share one noise, the same noises in another
order, a region that one world alone reaches. A linear discriminant sees every exact relation between columns, and
boosted trees over columns, their differences and sums see regions. Both are trained on samples of their own, so that a
score is a fixed function of an output when events are picked with it, and again when they are measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.lower_bounds.telling_events import Column, Outputs, View, by_value, one_column, telling_pairs

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


def trained_views(training: tuple[Outputs, Outputs], picking: tuple[Outputs, Outputs]) -> Iterator[View]:
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
class Split:
    """A split asks of a feature whether its cell lies beyond a place; ``value`` is what a leaf adds."""

    feature: int = -1
    cell: int = 0
    below: Split | None = None
    beyond: Split | None = None
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
    trees: tuple[Split, ...]

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


def _tree(codes: Codes, slope: Floats, weight: Floats, rows: NDArray[np.intp], depth: int) -> Split:
    """Split rows where that gains most, as deep as is allowed; a leaf takes one step of Newton's."""
    leaf = Split(value=_RATE * float(slope[rows].sum() / (weight[rows].sum() + 1.0)))
    if depth == 0 or len(rows) < 2:
        return leaf
    gain, feature, cell = max(
        _best_cut(each[rows], slope[rows], weight[rows], place) for place, each in enumerate(codes)
    )
    if gain <= 0:
        return leaf
    beyond = codes[feature][rows] > cell
    below, above = (_tree(codes, slope, weight, rows[side], depth - 1) for side in (~beyond, beyond))
    return Split(feature, cell, below, above)


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
